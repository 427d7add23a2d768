"""A posterior given looks at clipped residuals: for numbers with unknown errors, and for counts.

    p(u, s | g_1, g_2, ...)  ~  p(u) p(s) N(g; E[g | u, s], Cov(g | u, s) + noise)

`plan` says what is released and what it costs, `releases` does it, `surrogate` has the posterior.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..._typing import GeneratorLike
from ...targets.linear.families import Normal, Poisson
from .._made_for import check_linear
from .._protocol import Sampler, checked_gaussian, options
from ..noise_aware.sampler import check_constant, redrawn
from .counts.plan import ClippedCountsPlan, share_for_counts
from .plan import ClippedResidualsPlan, plan_clipped_residuals
from .schedule import share_budget

# Matrices of more rows are not released: noise would drown them, and drawing take minutes.
LARGEST_SIZE = 200


def is_for(bounds):
    """Whether a target is one that this is the default for.

    Of counts it is not: those that end what they are exposed to, as deaths do, have another law.
    """
    is_linear = bounds.row_norm is not None and isinstance(bounds.family, Normal)
    return is_linear and bounds.n_parameters <= LARGEST_SIZE


@options()
class ClippedResiduals(Sampler):
    """The posterior given looks at residuals that are clipped ever tighter, for numbers or counts.

    It releases two second moments of rows and then, at one mode after the other, the sum of rows times
    clipped residuals. Each clip follows from what was released before: as residuals get smaller, so does
    the noise [1]_ [2]_. Draws come from the posterior of the coefficients and of the errors' deviation given
    these noisy numbers [3]_, in which clips are accounted for as well. Of counts it releases a histogram,
    too, and learns whether they vary more than Poisson's law says. A prior scale that is not given is learnt.
    Any number of draws is free. It supports normal and Poisson responses and up to 200 coefficients, under a
    finite budget.

    References
    ----------
    .. [1] P. Varshney, A. Thakurta and P. Jain, "(Nearly) optimal private linear regression for sub-Gaussian
       data via adaptive clipping", COLT 2022.
    .. [2] X. Liu, P. Jain, W. Kong, S. Oh and A. Suggala, "Label robust and differentially private linear
       regression: computational and statistical efficiency", NeurIPS 2023.
    .. [3] G. Bernstein and D. Sheldon, "Differentially private Bayesian linear regression", NeurIPS 2019.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import ClippedResiduals
    >>> from skdpbayes.targets import LinearModel, Normal
    >>> model = LinearModel(family=Normal(-1.0, 1.0), n_features=3, norm=1.0)
    >>> plan = ClippedResiduals().plan(model.bounds(), 100_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.temperature, 0.999 < plan.epsilon <= 1.0
    (1.0, True)
    """

    name = "clipped_residuals"
    proof = "Propositions 73 to 77"
    targets = frozenset({"linear", "normal"})
    families = (Normal, Poisson)
    mechanism = "statistics"
    is_calibrated = True
    wants_equal_precisions = False
    takes_weights = True

    def _plan(self, bounds, n_samples, budget, n_draws):
        checked_gaussian(self, bounds, budget)
        if bounds.row_norm is None or not isinstance(bounds.family, self.families):
            raise ValueError(
                f"sampler={self.name!r} is for responses that are numbers: take sampler='auto'."
            )
        if bounds.n_parameters > LARGEST_SIZE:
            other = ", or a chain by sampler='auto'"
            if bounds.family.has_unknown_noise:
                other = ", or put rare categories together; no other sampler learns the noise of numbers"
            raise ValueError(
                f"sampler={self.name!r} releases matrices, for up to {LARGEST_SIZE} coefficients, and "
                f"there are {bounds.n_parameters}: take fewer columns{other}."
            )
        check_constant(bounds)
        if not budget.is_private:
            raise ValueError(
                f"sampler={self.name!r} is for a finite epsilon: without privacy take sampler='auto'."
            )
        kind: type = ClippedResidualsPlan
        share: Callable[..., Any] = partial(share_budget, has_intercept=bool(bounds.constant))
        if isinstance(bounds.family, Poisson):
            kind, share = ClippedCountsPlan, share_for_counts
        return plan_clipped_residuals(kind, share, self, bounds, n_samples, budget, n_draws)

    def check(self, plan: Any, target: Any) -> None:
        """Raise a ValueError if a plan was made for another target, or this one has no rows and responses."""
        check_linear(plan, target, "targets of numbers")

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Release what the plan says, and draw given it."""
        from .counts.releases import run_counts
        from .releases import run_clipped_residuals

        run = run_counts if isinstance(plan.bounds.family, Poisson) else run_clipped_residuals
        return run(plan, target, generator, verbose)

    def redraw(self, released: Any, n_draws: int, random_state: GeneratorLike) -> np.ndarray | None:
        """Return new draws given what was released."""
        return redrawn(released, n_draws, random_state)
