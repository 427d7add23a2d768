"""Metropolis-Hastings: random walks of which only accept/reject decisions depend on the records.

    DPMH                 all records, Barker's rule           T decisions of range 2 a
    DPFastMH             a Poisson batch, Barker's rule       T decisions of range a (2 + r^2 / (1 + r))
    PenaltyMH            all records, noise of variance v     mu^2 = T (2 a)^2 / v
    DPFastMHGaussian     a Poisson batch, the same noise      T Gaussians on Poisson counts

under ``replace_one``; ``a = G M / tau`` for proposals at distance ``M``. A decision by Barker's rule needs no
noise: its log-odds move by no more than the range (`skdpbayes.privacy.losses`). Batches give way to the
table where they would be larger.

`Kernel` says what a step costs and how often it accepts, `best_walk` which distance, batch and noise are
best, `plan_walk` keeps them to the budget, and `run_metropolis` walks. Zhang and Zhang (2023) need noise
only above a threshold, with Metropolis' rule; without noise, rejection under that rule is not private at all,
and this package has no such chain.
"""

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ..._arguments import Interval
from ..._compute.gradients import count_examples, potential_at
from ..._data.shards import check_in_memory
from ...models import has_losses
from ...privacy.losses import LARGEST_BATCH_RATIO
from ..base import (
    AUTO,
    CONSTRAINTS,
    TemperedSampler,
    checked_gaussian,
    options,
    resolve_auto,
    resolved_batch_size,
    samplers_with,
)
from ..langevin import SGHMC
from ..plan import check_plan_matches_target
from .plan import Kernel, WalkOptions, WalkProblem, plan_walk

_WALK = {
    **{name: CONSTRAINTS[name] for name in ("temperature", "n_steps", "step_size", "burn_in")},
    "proposal": [StrOptions({"sphere", "gaussian"})],
    "adapt_step_size": ["boolean"],
    "n_effective": [AUTO, Interval(Integral, 1, None, closed="left")],
}
_BATCHES = {
    "batch_size": CONSTRAINTS["batch_size"],
    "max_batch_size": [None, Interval(Integral, 1, None, closed="left")],
}
_NOISE = {"noise_multiplier": [AUTO, Interval(Real, 0, None, closed="neither")]}


@options()
class RandomWalk(TemperedSampler):
    """Base class of the samplers of Metropolis' family; see `DPFastMH`."""

    step_size: float | str = "auto"
    proposal: str = "sphere"
    adapt_step_size: bool = False
    n_effective: int | str = "auto"
    burn_in: float | str = "auto"

    targets = frozenset({"linear"})
    # Whether it reads batches, and whether it adds noise.
    on_batches = False
    is_noisy = False

    @property
    def needs_delta(self) -> bool:  # type: ignore[override]  # It depends on an option.
        """Whether no pure differential privacy can be had: where noise is added."""
        return self.is_noisy

    def _plan(self, bounds, n_samples, budget, n_draws):
        chosen = {name: resolve_auto(value) for name, value in self.get_params(deep=False).items()}
        chosen["temperature"], chosen["n_steps"] = self.fixed()
        fixed = WalkOptions(n_draws=n_draws, **chosen)
        self._check_options(bounds, n_samples, budget, fixed)
        relation, private = budget.neighboring_relation, budget.is_private
        kernel = Kernel(self.on_batches, self.is_noisy, relation, private, n_samples)
        plan = plan_walk(self, WalkProblem(bounds, n_samples, budget, fixed, kernel))
        return plan.changed(advice=_advice(plan, fixed))

    def _check_options(self, bounds, n_samples, budget, fixed):
        if bounds.clipped:
            raise ValueError(
                f"sampler={self.name!r} compares losses, whose differences have no bound where "
                "gradients are clipped, as in networks: take one of "
                f"{samplers_with(lambda other: 'network' in other.targets)}."
            )
        if self.is_noisy:
            checked_gaussian(self, bounds, budget)
        size = resolved_batch_size(fixed.batch_size, bounds, n_samples)
        largest = fixed.max_batch_size
        if size is not None and largest is not None and size > largest:
            raise ValueError(
                f"batch_size={size} is beyond max_batch_size={largest}: drop one of them."
            )
        for name in ("step_size", "noise_multiplier"):
            value = getattr(fixed, name)
            if value is not None and math.isinf(value):
                raise ValueError(f"{name} must be positive and finite, got {value}.")
        if not fixed.is_varied or not budget.is_private:
            return
        if budget.delta == 0 or (self.on_batches and self.is_noisy):
            what = "delta=0" if budget.delta == 0 else f"sampler={self.name!r}"
            raise ValueError(
                f"{what} cannot be combined with steps of different lengths, which are charged as "
                "zCDP: leave "
                "proposal='sphere' and adapt_step_size=False."
            )
        if fixed.n_steps is not None:
            raise ValueError(
                f"n_steps={fixed.n_steps} cannot be combined with steps of different lengths, "
                "whose number follows from the budget: leave proposal='sphere' and "
                "adapt_step_size=False, or "
                "n_steps='auto'."
            )

    def check(self, plan: Any, target: Any) -> None:
        """Raise a ValueError if a plan was made for another target, or this one has no losses."""
        check_plan_matches_target(plan, target)
        check_in_memory(self, target)
        if not has_losses(target):
            raise ValueError(
                f"sampler={self.name!r} compares losses, and {type(target).__name__} has none: implement "
                "example_loss for it, or plan another sampler."
            )
        if plan.batch_ratio > 0 and count_examples(target) >= 2**31:
            raise ValueError("batches are drawn of fewer than 2^31 records: take sampler='dp_mh'.")
        if not potential_at(target, np.zeros(plan.n_parameters)) < np.inf:
            raise ValueError("the chain starts at zero, where the prior density must not be zero.")

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Walk until the plan's steps are made, or what they cost is used up."""
        from .chain import run_metropolis

        return run_metropolis(plan, target, generator, verbose)


class DPMH(RandomWalk):
    """Metropolis-Hastings with Barker's rule over the whole table: tempered draws.

    A proposal at distance ``M`` is accepted with probability ``1 / (1 + exp(-L))``, where ``L`` is the log
    ratio [1]_. One record moves these log-odds by at most ``a = G M / tau``, so a decision is ``2a``-DP
    (``a``-DP under "add_or_remove_one") without added noise, even at ``delta=0``. The chain follows the
    posterior at temperature ``tau``. Use it for few parameters and many records. ``acceptance_rate`` is
    released.

    Parameters
    ----------
    temperature : float or "auto", default="auto"
        ``tau``, at least 1. "auto" is the lowest temperature at which the budget lets the chain relax.
    n_steps : int or "auto", default="auto"
        Number of proposals, where all cost the same. "auto" leaves it to the plan.
    step_size : float or "auto", default="auto"
        Distance of proposals, in units of the parameters.
    proposal : {"sphere", "gaussian"}, default="sphere"
        Distribution of the proposals: at a fixed distance, so that all cost the same, or Gaussian. Gaussian
        proposals are charged one by one until the budget is used up.
    adapt_step_size : bool, default=False
        Whether the step size follows the accept/reject decisions of the burn-in, within the budget.
    n_effective : int or "auto", default="auto"
        Effective sample size at which the chain ends if the budget allows it; it may then spend less than the
        budget. "auto" is 25, and 100 without privacy.
    burn_in : float or "auto", default="auto"
        Fraction of the proposals before the first draw. "auto" is as long as the way from zero takes.

    References
    ----------
    .. [1] A. A. Barker, "Monte Carlo calculations of the radial distribution functions for a proton-electron
       plasma", Australian Journal of Physics, 1965.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import DPMH
    >>> from skdpbayes.models import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0))
    >>> DPMH().plan(bounds, 1_000_000, Budget(epsilon=1.0, delta=0.0)).epsilon <= 1.0
    True
    """

    name = "dp_mh"
    proof = "Propositions 19, 22 and 24"
    _parameter_constraints = _WALK


@options()
class DPFastMH(RandomWalk):
    """Metropolis-Hastings with Barker's rule on Poisson batches: tempered draws.

    This is the auxiliary-variable chain of TunaMH [1]_, which stays exact on batches, with Barker's rule
    instead of Metropolis'. The log-odds of a decision move by at most ``a (2 + r^2 / (1 + r))``, and this is
    its cost, even at ``delta=0``. The published rule, which adds noise only above a threshold [2]_, is not
    private. The chain follows the posterior at temperature ``tau``. Use it for few parameters and very many
    records. ``acceptance_rate`` is released.

    Parameters
    ----------
    temperature, n_steps, step_size, proposal, adapt_step_size, n_effective, burn_in
        As for `DPMH`.
    batch_size : int, "auto" or None, default="auto"
        Expected size of a batch. "auto" and None leave it to the plan.
    max_batch_size : int or None, default=None
        Largest expected size of a batch; beyond it, steps read the whole table. None is the size of the
        table.

    References
    ----------
    .. [1] R. Zhang, A. F. Cooper and C. De Sa, "Asymptotically optimal exact minibatch Metropolis-Hastings",
       NeurIPS 2020.
    .. [2] W. Zhang and R. Zhang, "DP-Fast MH: Private, fast, and accurate Metropolis-Hastings for large-scale
       Bayesian inference", ICML 2023.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import DPFastMH
    >>> from skdpbayes.models import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0))
    >>> plan = DPFastMH().plan(bounds, 1_000_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.epsilon <= 1.0, plan.batch_size < 20_000
    (True, True)
    """

    name = "dp_fast_mh"
    proof = "Propositions 21, 22 and 24"
    on_batches = True
    _parameter_constraints = {**_WALK, **_BATCHES}

    batch_size: int | str | None = "auto"
    max_batch_size: int | None = None


@options()
class PenaltyMH(RandomWalk):
    """Metropolis-Hastings with noise on the log ratio: tempered draws.

    It reads the whole table. Noise ``N(-v/2, v)`` on the log ratio leaves Metropolis' rule exact [1]_, and
    makes a decision a Gaussian mechanism of sensitivity ``2a`` [2]_. The chain follows the posterior at
    temperature ``tau``. ``acceptance_rate`` is released.

    Parameters
    ----------
    temperature, n_steps, step_size, proposal, adapt_step_size, n_effective, burn_in
        As for `DPMH`.
    noise_multiplier : float or "auto", default="auto"
        Standard deviation of the noise, relative to what one record can change.

    References
    ----------
    .. [1] D. M. Ceperley and M. Dewing, "The penalty method for random walks with uncertain energies",
       Journal of Chemical Physics, 1999.
    .. [2] S. Yildirim and B. Ermis, "Exact MCMC with differentially private moves", Statistics and Computing,
       2019.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import PenaltyMH
    >>> from skdpbayes.models import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0))
    >>> PenaltyMH().plan(bounds, 1_000_000, Budget(epsilon=1.0, delta=1e-6)).epsilon <= 1.0
    True
    """

    name = "penalty"
    proof = "Propositions 2 and 24"
    is_noisy = True
    _parameter_constraints = {**_WALK, **_NOISE}

    noise_multiplier: float | str = "auto"


@options()
class DPFastMHGaussian(DPFastMH):
    """Metropolis-Hastings on Poisson batches with Gaussian noise in every step: tempered draws.

    It does in every step what DP-Fast MH [1]_ does above its threshold: it adds the noise of `PenaltyMH` on
    the batches of `DPFastMH`. The accounting covers records that count a Poisson number of times.
    ``acceptance_rate`` is released.

    Parameters
    ----------
    temperature, n_steps, step_size, proposal, adapt_step_size, n_effective, burn_in
        As for `DPMH`.
    batch_size, max_batch_size
        As for `DPFastMH`.
    noise_multiplier : float or "auto", default="auto"
        Standard deviation of the noise, relative to what one record can change.

    References
    ----------
    .. [1] W. Zhang and R. Zhang, "DP-Fast MH: Private, fast, and accurate Metropolis-Hastings for large-scale
       Bayesian inference", ICML 2023.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import DPFastMHGaussian
    >>> from skdpbayes.models import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0))
    >>> plan = DPFastMHGaussian().plan(bounds, 1_000_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.epsilon <= 1.0
    True
    """

    name = "dp_fast_mh_gaussian"
    proof = "Propositions 24 and 25"
    is_noisy = True
    _parameter_constraints = {**_WALK, **_BATCHES, **_NOISE}

    noise_multiplier: float | str = "auto"


def _advice(plan, fixed):
    """The advice where a random walk within the budget is the wrong tool."""
    if plan.temperature == 1 and not plan.is_short:
        return ""
    if fixed.step_size and fixed.batch_size and plan.batch_ratio > 0.99 * LARGEST_BATCH_RATIO:
        return (
            f"steps of {fixed.step_size:g} on batches of {fixed.batch_size} are private from temperature "
            f"{plan.temperature:.3g} on: raise batch_size, or lower step_size."
        )
    advice = (
        f"a random walk within this budget cannot move {plan.n_parameters} parameters by a "
        "posterior standard deviation at temperature 1"
    )
    advice += (
        f"; it samples at temperature {plan.temperature:.3g}. " if plan.temperature > 1 else ". "
    )
    names = [name for name in ("n_steps", "step_size") if getattr(fixed, name) is not None]
    if plan.is_short and fixed.temperature is not None:
        names.append("temperature")
    if names:
        return advice + f"Leave {' and '.join(names)} 'auto', or raise epsilon."
    if plan.budget.delta == 0:
        return (
            advice
            + f"Gaussian samplers such as sampler={SGHMC.name!r} can do more: they need a delta above 0."
        )
    other = SGHMC().plan(plan.bounds, plan.n_samples, plan.budget)
    if other.temperature >= plan.temperature:
        return advice + "Fewer parameters, more records or a larger epsilon would help."
    return advice + (
        f"sampler={SGHMC.name!r} moves {2 * plan.n_parameters} times as far, and needs a temperature of "
        f"{other.temperature:.3g}."
    )
