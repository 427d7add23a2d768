"""Plans for the samplers of Metropolis' family, of which only accept bits depend on the records.

    dp_mh                 all records, Barker's rule           T bits of range 2 a
    dp_fast_mh            a Poisson batch, Barker's rule       T bits of range a (2 + r^2 / (1 + r))
    penalty               all records, noise of variance v     mu^2 = T (2 a)^2 / v
    dp_fast_mh_gaussian   a Poisson batch, the same noise      T Gaussians on Poisson counts

under ``replace_one``; ``a = G M / tau`` for proposals at distance ``M``. A bit of Barker's rule needs no
noise: its log-odds move by no more than the range (`skdpbayes.privacy.accept_bits`). Batches give way to the
table where they would be larger.

Zhang and Zhang (2023) need noise only above a threshold, with Metropolis' rule; without noise rejection
under that rule is not private at all, and there is none of it here.
"""

import dataclasses
import math
from functools import lru_cache

from .accept_bits import LARGEST_BATCH_RATIO
from .hamiltonian import plan_hamiltonian
from .metropolis_calibration import MetropolisCalibration
from .metropolis_kernels import Kernel
from .options import SamplerOptions, check_common_options

# Whether a sampler reads batches, and whether it adds noise.
METROPOLIS_SAMPLERS = {
    "dp_mh": (False, False),
    "dp_fast_mh": (True, False),
    "penalty": (False, True),
    "dp_fast_mh_gaussian": (True, True),
}


@lru_cache(maxsize=512)
def plan_metropolis(bounds, n_samples, budget, options=SamplerOptions(), *, sampler="dp_fast_mh"):  # noqa: B008
    """Find the chain of Metropolis' family whose exact cost stays within a budget.

    Parameters
    ----------
    bounds : TargetBounds
        Public bounds of the target; ``gradient_bound`` is what a record's loss changes by per distance.
    n_samples : int
        Public size of the table.
    budget : Budget
        Ceiling on the cost. Barker's rule allows ``delta = 0``.
    options : SamplerOptions, default=SamplerOptions()
        What the user fixes: ``step_size`` is the distance of proposals, ``n_steps`` their number,
        ``batch_size`` the expected size of a Poisson batch.
    sampler : {"dp_fast_mh", "dp_mh", "penalty", "dp_fast_mh_gaussian"}, default="dp_fast_mh"

    Returns
    -------
    plan : MetropolisPlan

    Raises
    ------
    ValueError
        If an option is out of range or not for this sampler, or if the options cannot all hold.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget, plan_metropolis
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0))
    >>> plan = plan_metropolis(bounds, 1_000_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.epsilon <= 1.0, plan.batch_size < 20_000
    (True, True)
    """
    if sampler not in METROPOLIS_SAMPLERS:
        raise ValueError(f"sampler must be one of {sorted(METROPOLIS_SAMPLERS)}, got {sampler!r}.")
    on_batches, noisy = METROPOLIS_SAMPLERS[sampler]
    _check(bounds, n_samples, budget, options, sampler)
    private = not math.isinf(budget.epsilon)
    kernel = Kernel(on_batches, noisy, budget.neighboring_relation, private, n_samples)
    solved = MetropolisCalibration(bounds, n_samples, budget, options, kernel).solved()
    plan = solved.make(sampler)
    return dataclasses.replace(plan, advice=_advice(plan, options))


def _check(bounds, n_samples, budget, options, sampler):
    on_batches, noisy = METROPOLIS_SAMPLERS[sampler]
    check_common_options(bounds, n_samples, budget, options)
    options.refuse(
        ("step_decay", "init", "init_share", "friction"), f"is not for sampler={sampler!r}."
    )
    if options.proposal not in ("sphere", "gaussian"):
        raise ValueError(f"proposal must be 'sphere' or 'gaussian', got {options.proposal!r}.")
    if options.step_size is not None and not 0 < options.step_size < math.inf:
        raise ValueError(f"step_size must be positive and finite, got {options.step_size}.")
    if not noisy:
        options.refuse(
            ("noise_multiplier",), f"is for noise, which sampler={sampler!r} does without."
        )
    elif budget.delta == 0 and not math.isinf(budget.epsilon):
        raise ValueError(
            f"delta=0 asks for pure differential privacy, and sampler={sampler!r} adds Gaussian noise, "
            "which has none: take sampler='dp_mh' or 'dp_fast_mh', or give a delta in (0, 1)."
        )
    if options.noise_multiplier is not None and not 0 < options.noise_multiplier < math.inf:
        raise ValueError(f"noise_multiplier must be positive, got {options.noise_multiplier}.")
    if not on_batches:
        options.refuse(
            ("batch_size", "max_batch_size"),
            f"is for batches; sampler={sampler!r} takes the full table.",
        )
    size, largest = options.batch_size, options.max_batch_size
    if size is not None and largest is not None and size > largest:
        raise ValueError(f"batch_size={size} is beyond max_batch_size={largest}: drop one of them.")
    varied = options.proposal == "gaussian" or options.adapt_step_size
    if not varied or math.isinf(budget.epsilon):
        return
    if budget.delta == 0 or (on_batches and noisy):
        what = "delta=0" if budget.delta == 0 else f"sampler={sampler!r}"
        raise ValueError(
            f"{what} does not go with steps of different lengths, which are charged as zCDP: leave "
            "proposal='sphere' and adapt_step_size=False."
        )
    if options.n_steps is not None:
        raise ValueError(
            f"n_steps={options.n_steps} does not go with steps of different lengths, of which there are as "
            "many as the budget allows: leave proposal='sphere' and adapt_step_size=False, or n_steps='auto'."
        )


def _advice(plan, options):
    """Return what to say where a random walk within the budget is the wrong tool."""
    if plan.temperature == 1 and not plan.is_short:
        return ""
    if options.step_size and options.batch_size and plan.batch_ratio > 0.99 * LARGEST_BATCH_RATIO:
        return (
            f"steps of {options.step_size:g} on batches of {options.batch_size} are private from temperature "
            f"{plan.temperature:.3g} on: raise batch_size, or lower step_size."
        )
    advice = (
        f"a random walk within this budget cannot move {plan.bounds.n_parameters} parameters by a "
        "posterior standard deviation at temperature 1"
    )
    advice += (
        f"; it samples at temperature {plan.temperature:.3g}. " if plan.temperature > 1 else ". "
    )
    if options.n_steps is not None or options.step_size is not None:
        return advice + "Leave n_steps and step_size to the plan, or raise epsilon."
    if plan.budget.delta == 0:
        return (
            advice
            + "Gaussian samplers such as sampler='sghmc' can do more: they need a delta above 0."
        )
    other = plan_hamiltonian(plan.bounds, plan.n_samples, plan.budget)
    if other.temperature >= plan.temperature:
        return advice + "Fewer parameters, more records or a larger epsilon would help."
    return advice + (
        f"sampler='sghmc' moves {2 * plan.bounds.n_parameters} times as far, and needs a temperature of "
        f"{other.temperature:.3g}."
    )
