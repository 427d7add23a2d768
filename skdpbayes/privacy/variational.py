"""Plans for Bayes by backprop: a mean-field Gaussian, fitted by noisy gradients.

    q = N(m, diag(s^2)),    min over m, s of  E_q sum_i ell_i(theta) + tau KL(q || p)

Every step releases the gradient ``g`` of the records at one draw of ``q``, with noise; ``m`` and ``s``,
their moving averages and draws from ``q`` are post-processing. ``T`` steps on the full table are
``mu``-GDP with

    mu^2 = T (s / sigma)^2,    s = 2G under replace_one, G under add_or_remove_one,

and on Poisson batches, with ``1/q`` times the batch's sum, ``T`` subsampled Gaussians of noise multiplier
``q sigma / G``. The number of steps is fixed, and the noise is the least that the budget affords.

Averaged over all steps the noise has deviation ``s / mu``, and in a direction where records add ``h`` to the
curvature it moves ``m`` by ``s / (mu (h + tau lambda))``. Nowhere is that more than the deviation
``(tau / (h + tau lambda))^(1/2)`` of ``q`` itself if it is not where ``h = 0``, which gives the untuned rule

    tau = max(1, s / (mu lambda^(1/2))):

the fitted Gaussian is then as wide as the noise that privacy adds to its mean.

Adam moves a parameter in which noise drowns the gradient like a random walk with steps of about its
learning rate. Rates are therefore ``c / sqrt(T)`` prior deviations: over all steps noise alone moves a
parameter by a fixed share of its prior's deviation, a steady gradient moves it ``c sqrt(T)`` deviations.

Blundell, Cornebise, Kavukcuoglu and Wierstra (2015).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from .calibration import MAX_STEPS
from .cost import gaussian_mu
from .floating_point import sum_inflation
from .given_noise import free_shift, path_multiplier
from .langevin_calibration import COMPOSABLE_BATCHES
from .options import SamplerOptions, check_ranges
from .plan import Plan

N_STEPS, N_STEPS_WITHOUT_PRIVACY = 1000, 5000
N_DRAWS = 100
# What noise alone moves a parameter by, in deviations of its prior, is about this.
RATE = 1.0
# Share of the prior's deviation at which those of ``q`` start.
INITIAL_SCALE = 0.1
# Share of the steps over which ``m`` and ``log s`` are averaged.
AVERAGED = 0.5
# A step of a whole prior deviation is no use, and states must stay finite.
_LARGEST_STEP = 1.0


@dataclass(frozen=True, kw_only=True)
class VariationalPlan(Plan):
    """A plan for Bayes by backprop; every noisy gradient is released.

    ``temperature`` is the weight ``tau`` of the Kullback-Leibler term.

    Attributes
    ----------
    step_size : float
        Learning rate of Adam, in deviations of a parameter's prior; for ``log s`` without a unit.
    initial_scale : float
        Deviation at which every parameter's starts, over its prior's.
    noise_multiplier : float
        Of every step, relative to what one record can contribute to a batch's sum.
    noise_scale : float
        Deviation of the noise on the estimated gradient of all records; 0 without privacy.
    n_averaged : int
        How many of the last steps are averaged over.
    """

    step_size: float
    initial_scale: float
    noise_multiplier: float
    noise_scale: float
    n_averaged: int

    @property
    def needs_gaussian_prior(self):
        """Whether the sampler reads the prior off the target's ``prior_precision``."""
        return True

    @property
    def n_updates(self):
        """Updates in all."""
        return self.n_steps

    @property
    def notes(self):
        """What the user should know before running it, a tuple of str."""
        notes = super().notes
        reach = self.n_steps * self.step_size
        if reach < 1:
            notes += (
                f"{self.n_steps:,} steps move a parameter by {reach:.2g} deviations of its prior at "
                "most: raise n_steps or step_size.",
            )
        return notes

    def _rows(self):
        rows = dict(super()._rows())
        rows["temperature"] = f"{self.temperature:.4g}, the weight of the Kullback-Leibler term"
        rows["draws"] = f"{self.n_draws:,} of the fitted Gaussian; more are free"
        rows["step size"] = f"{self.step_size:.4g} deviations of the prior"
        rows["starts at"] = f"a deviation of {self.initial_scale:.4g} times the prior's"
        rows["averages"] = f"the last {self.n_averaged:,} steps"
        rows["noise multiplier"] = f"{self.noise_multiplier:.4g}"
        return list(rows.items())


@lru_cache(maxsize=512)
def plan_variational(bounds, n_samples, budget, options=SamplerOptions()):  # noqa: B008
    """Find the noise at which the steps of Bayes by backprop cost no more than a budget.

    Parameters
    ----------
    bounds : TargetBounds
        Public bounds of the target.
    n_samples : int
        Public size of the table.
    budget : Budget
        Ceiling on the cost.
    options : SamplerOptions, default=SamplerOptions()
        What the user fixes: ``temperature`` is the weight of the Kullback-Leibler term, ``step_size``
        the learning rate in deviations of the prior.

    Returns
    -------
    plan : VariationalPlan

    Raises
    ------
    ValueError
        If an option is out of range or not for this sampler, or if the budget is too small.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget, plan_variational
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0))
    >>> plan = plan_variational(bounds, 10_000, Budget(epsilon=1.0, delta=1e-6))
    >>> 0.999 < plan.epsilon <= 1.0
    True
    """
    check_ranges(bounds, n_samples, budget, options)
    _check(budget, options)
    rate = 1.0 if options.batch_size is None else options.batch_size / n_samples
    steps = _number_of_steps(budget, options, rate)
    total = gaussian_mu(budget.epsilon, budget.delta)
    multiplier, cost = path_multiplier(bounds, budget, rate, steps, total, of_start=0.0)
    return VariationalPlan(
        sampler="bbb",
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=cost,
        temperature=_temperature(bounds, budget, options, total),
        n_steps=steps,
        n_burn_in=0,
        n_draws=N_DRAWS if options.n_draws is None else options.n_draws,
        sampling_rate=rate,
        step_size=RATE / math.sqrt(steps) if options.step_size is None else options.step_size,
        initial_scale=INITIAL_SCALE if options.initial_scale is None else options.initial_scale,
        noise_multiplier=multiplier,
        noise_scale=_noise_scale(bounds, n_samples, budget, rate, multiplier),
        n_averaged=math.ceil(AVERAGED * steps),
    )


def _temperature(bounds, budget, options, total):
    if options.temperature is not None:
        return options.temperature
    shift = 2.0 if budget.neighboring_relation == "replace_one" else 1.0
    sensitivity = shift * bounds.gradient_bound
    return max(1.0, sensitivity / (total * math.sqrt(bounds.prior_precision[0])))


def _number_of_steps(budget, options, rate):
    if options.n_steps is None:
        return N_STEPS_WITHOUT_PRIVACY if math.isinf(budget.epsilon) else N_STEPS
    most = MAX_STEPS if rate == 1 else COMPOSABLE_BATCHES
    if options.n_steps > most:
        raise ValueError(
            f"n_steps={options.n_steps} is more than the {most} whose cost can be computed: take fewer."
        )
    return options.n_steps


def _noise_scale(bounds, n_samples, budget, rate, multiplier):
    """Return the noise that covers a record of the bound, with what rounding adds."""
    if multiplier == 0:
        return 0.0
    relation = budget.neighboring_relation
    largest = bounds.gradient_bound * sum_inflation(n_samples, bounds.n_parameters, relation)
    return largest / (rate * free_shift(multiplier, bounds.n_parameters))


def _check(budget, options):
    options.refuse(
        ("proposal", "adapt_step_size", "noise_multiplier", "max_batch_size", "n_effective"),
        "is for the samplers of Metropolis' family, e.g. sampler='dp_fast_mh'.",
    )
    options.refuse(
        ("step_decay", "friction", "init", "init_share", "burn_in"),
        "is for chains, and sampler='bbb' fits a Gaussian instead: leave it out.",
    )
    if options.step_size is not None and not 0 < options.step_size <= _LARGEST_STEP:
        raise ValueError(
            f"step_size={options.step_size:g} of sampler='bbb' is in deviations of the prior: it must be "
            f"positive, and at most {_LARGEST_STEP:g}."
        )
    if options.initial_scale is not None and not 0 < options.initial_scale <= 1:
        raise ValueError(
            f"initial_scale={options.initial_scale:g} is a share of the prior's deviation: it must be "
            "positive, and at most 1."
        )
    if budget.delta == 0 and not math.isinf(budget.epsilon):
        raise ValueError(
            "delta=0 asks for pure differential privacy, and sampler='bbb' adds Gaussian noise, which has "
            "none: give a delta in (0, 1), or take sampler='dp_fast_mh'."
        )
