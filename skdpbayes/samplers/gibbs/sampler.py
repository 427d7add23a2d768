"""Gibbs sampling of mixtures, without privacy: rows to components, and these to their parameters.

    z_i | theta ~ r(x_i),      w, m, Lambda | z   by their conditional laws

`conditionals` has these laws, `core` sweeps, `plan` says how often.
"""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from ..._checks import Interval
from ...targets.mixture.target import MixtureModel
from .._protocol import AUTO, CONSTRAINTS, Sampler, given, of_plan, options
from .._public_numbers import check_public
from .._registry import names_where
from ..mixture.plan import statistics_bounds
from ..mixture.sampler import check_table
from .plan import BURN_IN, plan_gibbs


@options()
class Gibbs(Sampler):
    """Gibbs sampling of Gaussian mixtures, without privacy: the posterior itself.

    A sweep allocates every row to a component at random, given the parameters, and draws weights, means and
    precisions from their conditional laws, given the allocations [1]_. It needs ``epsilon=inf``, and starts
    where a search without noise ends.

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
    targets = frozenset({"mixture"})
    _parameter_constraints = {
        "n_steps": [AUTO, Interval(Integral, 1, None, closed="left")],
        "burn_in": CONSTRAINTS["burn_in"],
    }

    n_steps: int | str = "auto"
    burn_in: float | str = "auto"

    def plan(
        self,
        bounds: Any,
        n_samples: int,
        budget: Any,
        *,
        temperature: float | None = None,
        n_steps: int | None = None,
        n_draws: int | None = None,
    ) -> Any:
        """Plan sweeps; see `Sampler.plan`. Instead of bounds it takes a ``MixtureModel``.

        Raises
        ------
        ValueError
            If the budget is finite, an option is out of range, or if the options cannot all hold.
        """
        self._validate_params()
        if not isinstance(bounds, MixtureModel):
            raise ValueError(f"sampler={self.name!r} is for mixtures: take sampler='auto'.")
        model = bounds.checked()
        steps = self._steps(n_steps)
        check_public(statistics_bounds(model), n_samples, budget, temperature, steps, n_draws)
        if budget.is_private:
            raise ValueError(
                f"sampler={self.name!r} is without privacy, which epsilon={budget.epsilon:g} asks for: "
                f"take sampler='auto' or {names_where(_is_private)}, or epsilon=inf."
            )
        if temperature not in (None, 1.0):
            raise ValueError(
                f"sampler={self.name!r} draws from the posterior itself, and temperature={temperature} "
                "asks for another: leave it at 'auto'."
            )
        burn_in = BURN_IN if given(self.burn_in) is None else float(self.burn_in)
        made_by = of_plan(clone(self))
        return plan_gibbs(made_by, model, n_samples, budget, steps, n_draws, burn_in)

    def _steps(self, n_steps):
        """Return the number of sweeps that is given, here or to the estimator, or None."""
        own = given(self.n_steps)
        if own is not None and n_steps not in (None, own):
            raise ValueError(
                f"n_steps={n_steps} and the sampler's own n_steps={own} differ: leave one of them 'auto'."
            )
        return n_steps if own is None else int(own)

    def check(self, plan: Any, target: Any) -> None:
        """Raise a ValueError if a plan was made for another table."""
        check_table(plan, target)

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Search for a start, and sweep."""
        from .core import run_gibbs

        return run_gibbs(plan, target, generator, verbose)


def _is_private(sampler):
    return "mixture" in sampler.targets and sampler.is_calibrated
