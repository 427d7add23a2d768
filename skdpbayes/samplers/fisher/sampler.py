"""Stochastic gradient Fisher scoring (SGFS): an underdamped chain in coordinates that a release whitens.

    A = sum_i z_i z_i^T + noise,    theta = (A / n)^(-1/2) u

`plan` says what it costs and how the matrix decides on the path, `core` does it.
"""

from typing import Any

import numpy as np

from .._made_for import check_linear
from .._protocol import (
    CONSTRAINTS,
    TemperedSampler,
    checked_gaussian,
    given,
    options,
    resolved_batch_size,
)
from ..langevin import SGHMC
from .plan import nominal_temperatures, plan_fisher


@options()
class SGFS(TemperedSampler):
    """Stochastic gradient Fisher scoring: tempered draws in whitened coordinates.

    A share of the budget releases ``A = sum z z^T`` with noise. The rest pays for an underdamped chain in
    ``u``, with ``theta = (A / n)^(-1/2) u``, where all directions have similar curvature [1]_. Records that
    are far out in these coordinates count less. Draws follow the posterior of the weighted records at the
    lowest temperature that the budget allows, or at the given one. It is for linear models; the released
    matrix is ``second_moment``. Without privacy (``epsilon=inf``) a chain starts at the mode, in coordinates
    in which the posterior is round there, and draws are worth about a thousand independent ones.

    Parameters
    ----------
    temperature : float or "auto", default="auto"
        Temperature of the draws, at least 1. "auto" is the lowest that the budget affords given the released
        matrix.
    n_steps : int or "auto", default="auto"
        Number of updates. "auto" leaves it to the plan.
    friction : float or "auto", default="auto"
        Share of its velocity that the chain loses in a step. "auto" damps the slowest direction critically.
    batch_size : int, "auto" or None, default="auto"
        Expected size of a Poisson batch. "auto" and None read the full table at every step.
    burn_in : float or "auto", default="auto"
        Fraction of the updates before the first draw; "auto" is 0.25.

    References
    ----------
    .. [1] S. Ahn, A. Korattikara and M. Welling, "Bayesian posterior sampling via stochastic gradient Fisher
       scoring", ICML 2012.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import SGFS
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(3, 1.0, 0.25, (0.1, 0.1), row_norm=1.0)
    >>> plan = SGFS().plan(bounds, 100_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.epsilon <= 1.0
    True
    """

    name = "sgfs"
    proof = "Propositions 15, 16 and 33"
    targets = frozenset({"linear"})
    is_whitened = True
    _parameter_constraints = {
        name: CONSTRAINTS[name]
        for name in ("temperature", "n_steps", "friction", "batch_size", "burn_in")
    }

    friction: float | str = "auto"
    batch_size: int | str | None = "auto"
    burn_in: float | str = "auto"

    def _plan(self, bounds, n_samples, budget, n_draws):
        checked_gaussian(self, bounds, budget)
        batch = resolved_batch_size(self.batch_size, bounds, n_samples)
        rate = 1.0 if batch is None else batch / n_samples
        burn_in = given(self.burn_in, float)
        plan = plan_fisher(self, bounds, n_samples, budget, rate, burn_in, *self.fixed(), n_draws)
        return plan.changed(nominal_temperatures=nominal_temperatures(plan, self._chain()))

    def _chain(self):
        """Return what runs in whitened coordinates."""
        return SGHMC(**self.get_params(deep=False))

    def check(self, plan: Any, target: Any) -> None:
        """Raise a ValueError if a plan was made for another target, or this one has no rows."""
        check_linear(
            plan,
            target,
            "linear targets",
            "leave row_norm out of its bounds, or plan another sampler",
        )

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Release the second moment, then draw along a path in the coordinates that it whitens."""
        from .core import run_fisher
        from .reference import run_reference

        run = run_fisher if plan.budget.is_private else run_reference
        return run(plan, self._chain(), target, generator, verbose)
