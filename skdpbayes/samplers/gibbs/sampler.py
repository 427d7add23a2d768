"""Gibbs sampling without privacy, of mixtures, and of normal responses whose noise is not known.

    z_i | theta ~ r(x_i),      w, m, Lambda | z            by their conditional laws
    beta | s, tau,     s | beta,     tau | beta            of a normal linear model

`conditionals` has the laws of mixtures, over which `core` sweeps; `normal` has those of a linear model, and
`plan` says how often.
"""

from typing import Any

import numpy as np
from sklearn.base import clone

from ...targets.mixture.target import MixtureModel
from .._made_for import check_made_for
from .._protocol import CONSTRAINTS, Sampler, given, of_plan, options
from .._public_numbers import check_public
from .._registry import names_where
from ..mixture.plan import statistics_bounds
from ..mixture.sampler import check_table
from .plan import BURN_IN, NormalGibbsPlan, plan_gibbs, plan_normal


@options()
class Gibbs(Sampler):
    """Gibbs sampling without privacy, of Gaussian mixtures and of normal responses: the posterior itself.

    For a mixture a sweep allocates every row to a component at random, given the parameters, and draws
    weights, means and precisions from their conditional laws, given the allocations [1]_. It starts where a
    search without noise ends. For a linear model with normal noise of unknown deviation, a sweep draws
    coefficients, the noise and, unless it is given, the prior scale, given sums over the table [2]_. It needs
    ``epsilon=inf``.

    Parameters
    ----------
    n_steps : int or "auto", default="auto"
        Number of sweeps. "auto" is 1000, or as many as the draws need.
    burn_in : float or "auto", default="auto"
        Fraction of the sweeps before the first draw. "auto" is 0.25.

    References
    ----------
    .. [1] J. Diebolt and C. P. Robert, "Estimation of finite mixture distributions through Bayesian
       sampling", Journal of the Royal Statistical Society B, 1994.
    .. [2] E. Makalic and D. F. Schmidt, "A simple sampler for the horseshoe estimator", IEEE Signal
       Processing Letters, 2016.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.mixture import DPGaussianMixturePosterior
    >>> from skdpbayes.samplers import Gibbs
    >>> X = np.random.default_rng(0).normal([[-1.0], [1.0]], 0.2, size=(2, 500)).reshape(-1, 1)
    >>> gibbs = Gibbs(n_steps=400)
    >>> mixture = DPGaussianMixturePosterior(2, epsilon=np.inf, data_norm=2.0, sampler=gibbs)
    >>> mixture.fit(X).means_.round(1).ravel().tolist() in ([-1.0, 1.0], [1.0, -1.0])
    True
    """

    name = "gibbs"
    targets = frozenset({"mixture", "normal"})
    takes_weights = True
    _parameter_constraints = {name: CONSTRAINTS[name] for name in ("n_steps", "burn_in")}

    n_steps: int | str = "auto"
    burn_in: float | str = "auto"

    def plan(
        self,
        bounds: Any,
        n_samples: int,
        budget: Any,
        *,
        n_draws: int | None = None,
    ) -> Any:
        """Plan sweeps; see `Sampler.plan`. For mixtures it takes a ``MixtureModel`` instead of bounds.

        Raises
        ------
        ValueError
            If the budget is finite, an option is out of range, or if the options cannot all hold.
        """
        if not isinstance(bounds, MixtureModel):
            return super().plan(bounds, n_samples, budget, n_draws=n_draws)
        self._validate_params()
        model = bounds.checked()
        check_public(statistics_bounds(model), n_samples, budget, n_draws)
        self._check_not_private(budget, lambda other: "mixture" in other.targets)
        made_by = of_plan(clone(self))
        return plan_gibbs(made_by, model, n_samples, budget, *self._length(n_draws))

    def _plan(self, bounds, n_samples, budget, n_draws):
        family = bounds.family
        if family is None or not family.has_unknown_noise:
            raise ValueError(
                f"sampler={self.name!r} is for mixtures, and for numbers whose noise is not known: take "
                "sampler='auto'."
            )
        if family.clip < family.half_width:
            raise ValueError(f"sampler={self.name!r} does not clip residuals: leave clip out.")
        self._check_not_private(budget, lambda other: "normal" in other.targets)
        return plan_normal(self, bounds, n_samples, budget, *self._length(n_draws))

    def _length(self, n_draws):
        """Return (sweeps, draws, share of burn-in)."""
        steps, burn_in = given(self.n_steps, int), given(self.burn_in, float)
        return steps, n_draws, BURN_IN if burn_in is None else burn_in

    def _check_not_private(self, budget, holds):
        if budget.is_private:
            private = names_where(lambda other: holds(other) and other.is_calibrated)
            others = f"sampler='auto' or {private}, or " if private else ""
            raise ValueError(
                f"sampler={self.name!r} is without privacy, which epsilon={budget.epsilon:g} asks for: take "
                f"{others}epsilon=inf."
            )

    def check(self, plan: Any, target: Any) -> None:
        """Raise a ValueError if a plan was made for another table."""
        (check_made_for if isinstance(plan, NormalGibbsPlan) else check_table)(plan, target)

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Search for a start, and sweep."""
        if isinstance(plan, NormalGibbsPlan):
            from .normal import run_normal

            return run_normal(plan, target, generator)
        from .core import run_gibbs

        return run_gibbs(plan, target, generator, verbose)
