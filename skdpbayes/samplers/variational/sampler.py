"""Bayes by backprop: a mean-field Gaussian, fitted by noisy gradients at its own draws.

    q = N(m, diag(s^2)),    min over m, s of  E_q sum_i ell_i(theta) + tau KL(q || p)

`plan` says what it costs and how its temperature follows, `core` fits it.
"""

from numbers import Real
from typing import Any

import numpy as np

from ..._checks import Interval
from ..._typing import GeneratorLike
from ...targets import has_own_prior
from .._made_for import check_made_for
from .._protocol import (
    AUTO,
    CONSTRAINTS,
    TemperedSampler,
    checked_gaussian,
    given,
    options,
    resolved_batch_size,
)
from .._resources import check_draws
from .plan import plan_variational

# A step of a whole prior deviation is no use, and states must stay finite.
_SHARE = [AUTO, Interval(Real, 0, 1, closed="right")]


@options()
class BayesByBackprop(TemperedSampler):
    """Bayes by backprop: a Gaussian approximation of a tempered posterior.

    Minimises ``E_q sum_i ell_i + tau KL(q || p)`` over ``q = N(m, diag(s^2))`` by Adam [1]_. Every noisy
    gradient is released, so the cost is that of ``T`` Gaussian mechanisms, subsampled on Poisson batches. Any
    number of draws is free, but the approximation has no correlations among parameters.
    ``variational_mean`` and ``variational_scale`` are released.

    Parameters
    ----------
    temperature : float or "auto", default="auto"
        The weight ``tau``, at least 1. "auto" is the lowest at which the draws spread at least as much as
        noise moves their mean, and 1 for networks.
    n_steps : int or "auto", default="auto"
        Number of updates. "auto" is 1,000, and 5,000 without privacy.
    batch_size : int, "auto" or None, default="auto"
        Expected size of a Poisson batch. None reads the full table at every step. "auto" does the same,
        except for networks, where it is 4,096.
    step_size : float or "auto", default="auto"
        Adam's learning rate, in standard deviations of the prior, at most 1. "auto" is ``1 / sqrt(n_steps)``.
    initial_scale : float or "auto", default="auto"
        Initial standard deviation of every coordinate, relative to that of its prior, at most 1. "auto" is
        0.1, and 0.02 for networks.

    References
    ----------
    .. [1] C. Blundell, J. Cornebise, K. Kavukcuoglu and D. Wierstra, "Weight uncertainty in neural networks",
       ICML 2015.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import BayesByBackprop
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0))
    >>> plan = BayesByBackprop().plan(bounds, 10_000, Budget(epsilon=1.0, delta=1e-6))
    >>> 0.999 < plan.epsilon <= 1.0
    True
    """

    name = "bbb"
    proof = "Proposition 30"
    targets = frozenset({"linear", "network"})
    _parameter_constraints = {
        **{name: CONSTRAINTS[name] for name in ("temperature", "n_steps", "batch_size")},
        "step_size": _SHARE,
        "initial_scale": _SHARE,
    }

    batch_size: int | str | None = "auto"
    step_size: float | str = "auto"
    initial_scale: float | str = "auto"

    def step_size_or(self, default: Any) -> float:
        """Return the step size that is given, or a default."""
        return default if given(self.step_size) is None else float(self.step_size)

    def initial_scale_or(self, default: Any) -> float:
        """Return the initial scale that is given, or a default."""
        return default if given(self.initial_scale) is None else float(self.initial_scale)

    def _plan(self, bounds, n_samples, budget, n_draws):
        checked_gaussian(self, bounds, budget)
        batch = resolved_batch_size(self.batch_size, bounds, n_samples)
        rate = 1.0 if batch is None else batch / n_samples
        return plan_variational(self, bounds, n_samples, budget, rate, *self.fixed(), n_draws)

    def check(self, plan: Any, target: Any) -> None:
        """Raise a ValueError if a plan was made for another target, or the prior is not Gaussian."""
        check_made_for(plan, target)
        precision = getattr(target, "prior_precision", None)
        if precision is None or has_own_prior(target):
            raise ValueError(
                f"sampler={self.name!r} needs an independent Gaussian prior around zero, given by "
                f"an array prior_precision, and {type(target).__name__} has another: add the field and no "
                "prior_gradient, or plan another sampler."
            )
        start = getattr(target, "start", None)
        if start is not None and np.shape(start) != np.shape(precision):
            raise ValueError(
                f"the target's start has shape {np.shape(start)}, its prior_precision "
                f"{np.shape(precision)}."
            )

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Fit the Gaussian, and draw from it."""
        from .core import run_variational

        return run_variational(plan, target, generator, verbose)

    def redraw(self, released: Any, n_draws: int, random_state: GeneratorLike) -> np.ndarray | None:
        """Return new draws from the fitted Gaussian."""
        mean, scale = released["variational_mean"], released["variational_scale"]
        check_draws(n_draws, mean.size)
        # Post-processing.
        return mean + scale * random_state.standard_normal((n_draws, *mean.shape))
