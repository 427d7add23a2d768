"""What can be computed from a mixture's draws: densities, labels, synthetic rows, intervals.

    p(x | data) = mean over draws of sum_k w_k N(x; m_k, C_k)

Everything here is post-processing of what was released.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._linalg import inv
from .._tables.blockwise import by_blocks
from .._tables.validation import validate_table
from .._typing import MatrixLike, RandomStateLike
from ..samplers._resources import check_draws
from ..targets.mixture.target import unpack_mixture
from .intervals import interval_ends, interval_table
from .mixture_density import (
    MixtureDraws,
    log_density,
    mean_responsibilities,
    relabelled,
    sample_mixtures,
)
from .posterior import check_number_of_draws, choose_draws

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.utils import Bunch

    from ..samplers import Plan

# Dimensions of a draw's covariances, by their type.
COVARIANCE_DIMS = {
    "spherical": ("component",),
    "diag": ("component", "feature"),
    "tied": ("feature", "other_feature"),
    "full": ("component", "feature", "other_feature"),
}
# Number of draws for deviations without privacy; rows sampled at once, of which at least one in _RAREST must
# be within the bounds.
_FEW, _TRIED, _RAREST = 400, 10_000, 1000


class MixtureDrawsMixin:
    """For estimators whose draws are mixtures."""

    covariance_type: str
    covariances_: np.ndarray
    means_: np.ndarray
    n_components_: int
    n_features_in_: int
    plan_: Plan
    posterior_samples_: MixtureDraws
    precisions_: np.ndarray
    _column_names: Callable[[], np.ndarray]
    released_: Bunch
    weights_: np.ndarray

    def _summarise(self, weights, means, factors, order=None):
        """Set the relabelled draws, and their means."""
        self._order = order
        self._mixtures, draws = self._labelled(weights, means, factors)
        self.posterior_samples_ = draws
        self.weights_, self.means_, self.covariances_ = (part.mean(axis=0) for part in draws)
        if self.covariance_type in ("spherical", "diag"):
            self.precisions_ = 1.0 / self.covariances_
        else:
            self.precisions_ = inv(self.covariances_)

    def _labelled(self, weights, means, factors):
        """Return draws as `Mixtures` and as `MixtureDraws`."""
        mixtures, covariances = relabelled(
            weights, means, factors, self.covariance_type, self._order
        )
        return mixtures, MixtureDraws(mixtures.weights, mixtures.means, covariances)

    def _validated(self, X):
        check_is_fitted(self)
        return validate_table(self, X, reset=False, accept_sparse=False)

    @by_blocks
    def score_samples(self, X: MatrixLike) -> np.ndarray:
        """Log of the density, averaged over the draws (the posterior predictive).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, which are not clipped.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            Always finite: beyond the distance whose square would overflow, it falls no further.
        """
        return log_density(self._validated(X), self._mixtures)

    def score(self, X: MatrixLike, y: Any = None) -> float:
        """Mean log density of rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, which are not clipped.
        y : ignored

        Returns
        -------
        score : float
        """
        return float(self.score_samples(X).mean())

    @by_blocks
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Probabilities of the components, averaged over the draws.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, which are not clipped.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_components)
            Mean over draws of ``p(component | x, draw)``.
        """
        return mean_responsibilities(self._validated(X), self._mixtures)

    @by_blocks
    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most probable component.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, which are not clipped.

        Returns
        -------
        labels : ndarray of int of shape (n_samples,)
        """
        return self.predict_proba(X).argmax(axis=1)

    def sample(
        self,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = None,
        *,
        bounds: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sample new rows from the posterior predictive; this spends no budget and may be repeated.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows. Each is sampled from one component of one draw, both chosen at random.
        random_state : None, int or RandomState, default=None
            It need not be kept private, because the draws are public.
        bounds : tuple of (low, high) or None, default=None
            Limits of the rows, in the units of the columns: two numbers, or one of each for every column.
            Rows outside are sampled again, so that rows follow the predictive distribution given the bounds.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Rows, independent given the draws.
        labels : ndarray of int of shape (n_samples,)
            Their components.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer, if ``bounds`` are invalid, or if fewer than one row in
            a thousand is within them.
        """
        check_is_fitted(self)
        if isinstance(n_samples, bool) or not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples must be a positive integer, got {n_samples!r}.")
        rng = check_random_state(random_state)
        if bounds is None:
            return sample_mixtures(int(n_samples), self._mixtures, rng)
        low, high = _checked_bounds(bounds, self.n_features_in_)
        found, missing, tried = [], int(n_samples), 0
        while missing:
            size = max(missing, _TRIED)
            rows, labels = sample_mixtures(size, self._mixtures, rng)
            kept = np.flatnonzero(((low <= rows) & (rows <= high)).all(axis=1))[:missing]
            found.append((rows[kept], labels[kept]))
            missing, tried = missing - len(kept), tried + size
            if missing and (n_samples - missing) * _RAREST < tried:
                raise ValueError(
                    f"only {n_samples - missing} of {tried:,} rows were within the bounds, too few to "
                    "continue: use wider bounds, in the units of the columns that fit was given."
                )
        return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))

    def sample_posterior(
        self, n_draws: int | None = None, random_state: RandomStateLike = None
    ) -> MixtureDraws:
        """Return draws from the posterior; this spends no budget and may be repeated.

        Parameters
        ----------
        n_draws : int or None, default=None
            Number of draws. None returns all of ``posterior_samples_``.
        random_state : None, int, RandomState or Generator, default=None
            Randomness of the choice, or of new draws. It need not be kept private, because the draws are
            public.

        Returns
        -------
        draws : MixtureDraws
            With "noise_aware", any number of new draws given what was released. With "gibbs", copies of some
            of ``posterior_samples_``, in their order along the chain.

        Raises
        ------
        ValueError
            If "gibbs" has kept fewer draws than requested.
        """
        check_is_fitted(self)
        if n_draws is not None and "posterior" in self.released_:
            wanted = check_number_of_draws(n_draws)
            check_draws(wanted, sum(part[0].size for part in self.posterior_samples_))
            return self._drawn(wanted, random_state)
        draws = self.posterior_samples_
        chosen = choose_draws(draws.weights.shape[0], n_draws, random_state)
        return MixtureDraws(*(part[chosen] for part in draws))

    def _drawn(self, n_draws, random_state, **options):
        """Return new draws from the released posterior."""
        posterior, generator = self.released_["posterior"], random_state
        if not isinstance(generator, np.random.Generator):
            generator = check_random_state(random_state)
        draws = posterior.draw(n_draws, generator, **options)
        return self._labelled(*unpack_mixture(draws, posterior.model))[1]

    def posterior_interval(self, level: float = 0.9) -> MixtureDraws:
        """Equal-tailed posterior intervals of weights, means and covariances; they spend no budget.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of each interval, in (0, 1).

        Returns
        -------
        interval : MixtureDraws
            Lower and upper ends along a last axis of length 2: ``weights`` of shape (n_components, 2),
            ``means`` of shape (n_components, n_features, 2), and ``covariances`` of the shape of
            ``covariances_`` followed by 2.

        Raises
        ------
        ValueError
            If ``level`` is out of range.

        Warns
        -----
        UserWarning
            If the posterior is not calibrated, as that of a sampler of your own may be.

        Notes
        -----
        Intervals describe the components around one mode of the posterior. They do not account for other
        modes.
        """
        check_is_fitted(self)
        return MixtureDraws(*interval_ends(self, level, self.posterior_samples_))

    def summary(self, level: float = 0.9) -> pd.DataFrame:
        """Table of the parameters: means, deviations, intervals, and what privacy adds to their width.

        Requires pandas. It spends no budget.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of the intervals.

        Returns
        -------
        table : pandas.DataFrame
            One row for each parameter, with names such as ``means[0, age]``. The columns are ``mean``,
            ``sd``, the ends of the interval (named by their percentages), ``sd_without_privacy`` (an estimate
            from what was released), and ``share_of_privacy``, the share of the width that privacy adds. The
            last two are nan if the posterior is not calibrated.

        Raises
        ------
        ImportError
            If pandas is not installed.
        ValueError
            If ``level`` is out of range.
        """
        interval = self.posterior_interval(level)
        if not self.plan_.budget.is_private:
            without = [part.std(axis=0) for part in self.posterior_samples_]
        elif "posterior" in self.released_:
            without = [part.std(axis=0) for part in self._drawn(_FEW, 0, noise=False)]
        else:
            without = [np.full(part.shape[1:], np.nan) for part in self.posterior_samples_]
        names, coords = [], self._posterior_variables()[1]
        for name, (draws, dims) in self._posterior_variables()[0].items():
            for place in np.ndindex(draws.shape[1:]):
                at = (str(coords[dim][i]) for dim, i in zip(dims, place, strict=True))
                names.append(f"{name}[{', '.join(at)}]")
        flat = [part.reshape(len(part), -1) for part in self.posterior_samples_]
        return interval_table(
            np.hstack(flat),
            np.vstack([part.reshape(-1, 2) for part in interval]),
            np.concatenate([np.ravel(part) for part in without]),
            names,
            level,
        )

    def _posterior_variables(self):
        """Return ({name: (draws of shape (n_draws, ...), their dimensions)}, {dimension: coordinates})."""
        draws, features = self.posterior_samples_, self._column_names()
        dims = COVARIANCE_DIMS[self.covariance_type]
        coords = {"component": np.arange(draws.weights.shape[1]), "feature": features}
        if "other_feature" in dims:
            coords["other_feature"] = features
        variables = {
            "weights": (draws.weights, ("component",)),
            "means": (draws.means, ("component", "feature")),
            "covariances": (draws.covariances, dims),
        }
        return variables, coords


def _checked_bounds(bounds, n_features):
    """Return the lower and upper bounds of all columns, or raise a ValueError."""
    if len(bounds) != 2:
        raise ValueError(f"bounds must be a pair (low, high), got {len(bounds)} entries.")
    ends = [np.asarray(part, dtype=np.float64) for part in bounds]
    for name, part in zip(("low", "high"), ends, strict=True):
        if part.shape not in ((), (n_features,)):
            raise ValueError(
                f"bounds: {name} must be one number, or one for each of the {n_features} columns; its shape "
                f"is {part.shape}."
            )
    if not (ends[0] < ends[1]).all():
        raise ValueError("bounds: low must be below high in every column.")
    return ends
