"""What a mixture's draws are good for: densities, labels, made-up rows, intervals.

    p(x | data) = mean over draws of sum_k w_k N(x; m_k, C_k)

Everything here is post-processing of what was released.
"""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._collections import by_blocks
from .._silence import silently
from .._typing import MatrixLike, RandomStateLike
from ..targets.mixture import unpack_mixture
from .intervals import interval_ends, interval_table
from .mixture_density import (
    MixtureDraws,
    log_density,
    mean_responsibilities,
    relabelled,
    sample_mixtures,
)
from .posterior import check_number_of_draws, choose_draws
from .validation import validate_table

# Dimensions of a draw's covariances, by their type.
COVARIANCE_DIMS = {
    "spherical": ("component",),
    "diag": ("component", "feature"),
    "tied": ("feature", "other_feature"),
    "full": ("component", "feature", "other_feature"),
}
# Draws of deviations without privacy; rows that are tried at once, and of how many one must be in a box.
_FEW, _TRIED, _RAREST = 400, 10_000, 1000


class MixtureDrawsMixin:
    """For an estimator with a mixture's draws."""

    def _summarise(self, weights, means, factors, order=None):
        """Set the draws, with one labelling, and their means."""
        self._order = order
        self._mixtures, draws = self._labelled(weights, means, factors)
        self.posterior_samples_ = draws
        self.weights_, self.means_, self.covariances_ = (part.mean(axis=0) for part in draws)
        if self.covariance_type in ("spherical", "diag"):
            self.precisions_ = 1.0 / self.covariances_
        else:
            self.precisions_ = np.linalg.inv(self.covariances_)

    def _labelled(self, *parts):
        """Return draws as `Mixtures` and as `MixtureDraws`."""
        mixtures, covariances = relabelled(*parts, self.covariance_type, self._order)
        return mixtures, MixtureDraws(mixtures.weights, mixtures.means, covariances)

    def _validated(self, X):
        check_is_fitted(self)
        return validate_table(self, X, reset=False, accept_sparse=False)

    @by_blocks
    @silently()
    def score_samples(self, X: MatrixLike) -> np.ndarray:
        """Log of the density, averaged over the draws (the posterior predictive).

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, which are not clipped.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            Finite, however far a row is: beyond what squares can hold it falls no further.
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
    @silently()
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
        self, n_samples: int = 1, random_state: RandomStateLike = None, *, bounds: Any = None
    ) -> np.ndarray:
        """Sample new rows from the posterior predictive; post-processing, so it may be repeated for free.

        Parameters
        ----------
        n_samples : int, default=1
            How many; each picks a draw, then one of its components.
        random_state : None, int or RandomState, default=None
            It need not be secret: the draws are public.
        bounds : tuple of (low, high) or None, default=None
            Within which rows have to be, in units of the columns: numbers, or one for each column. Rows
            beyond are drawn again, so that the law is that of the predictive given the bounds.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            Independent rows given the draws, in no order.
        labels : ndarray of int of shape (n_samples,)
            Their components.

        Raises
        ------
        ValueError
            If ``n_samples`` is not a positive integer, if ``bounds`` are invalid, or if hardly one row in a
            thousand is within them.
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
                    f"of {tried:,} rows {n_samples - missing} were within the bounds, which is too few to "
                    "continue: take wider bounds, in the units of the columns that fit was given."
                )
        return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))

    def sample_posterior(
        self, n_draws: int | None = None, random_state: RandomStateLike = None
    ) -> MixtureDraws:
        """Draws from the posterior; post-processing, so it may be repeated for free.

        Parameters
        ----------
        n_draws : int or None, default=None
            How many. None returns all of ``posterior_samples_``.
        random_state : None, int, RandomState or Generator, default=None
            Which ones, or of new ones. It need not be secret: the draws are public.

        Returns
        -------
        draws : MixtureDraws
            New draws given what was released, as many as are asked for; of chains some of
            ``posterior_samples_``, in their order along the chain, in copies.

        Raises
        ------
        ValueError
            If there are fewer draws of a chain than asked for.
        """
        check_is_fitted(self)
        if n_draws is not None and "posterior" in self.released_:
            wanted = check_number_of_draws(n_draws)
            return self._drawn(wanted, random_state)
        draws = self.posterior_samples_
        chosen = choose_draws(draws.weights.shape[0], n_draws, random_state)
        return MixtureDraws(*(part[chosen] for part in draws))

    def _drawn(self, n_draws, random_state, **options):
        """Return new draws given what was released."""
        posterior, generator = self.released_["posterior"], random_state
        if not isinstance(generator, np.random.Generator):
            generator = check_random_state(random_state)
        draws = posterior.draw(n_draws, generator, **options)
        return self._labelled(*unpack_mixture(draws, posterior.model))[1]

    def posterior_interval(self, level: float = 0.9) -> MixtureDraws:
        """Equal-tailed posterior intervals of weights, means and covariances; post-processing, and free.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of each interval, in (0, 1).

        Returns
        -------
        interval : MixtureDraws
            Lower and upper ends along a last axis of length 2: ``weights`` of shape (n_components, 2),
            ``means`` of shape (n_components, n_features, 2), and ``covariances`` of the shape of
            ``covariances_`` and 2.

        Raises
        ------
        ValueError
            If ``level`` is out of range.

        Warns
        -----
        UserWarning
            If draws are not a calibrated posterior, as those of chains under privacy are not.

        Notes
        -----
        Components are those around one mode of the posterior: whether there are others is not part of it.
        """
        check_is_fitted(self)
        return MixtureDraws(*interval_ends(self, level, self.posterior_samples_))

    def summary(self, level: float = 0.9) -> Any:
        """A table of the parameters: means, deviations, intervals, and what privacy adds to their width.

        Needs pandas.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of the intervals.

        Returns
        -------
        table : pandas.DataFrame
            A row for every number, by names such as ``means[0, age]``. Columns are ``mean``, ``sd``, the
            interval's ends by their percentages, ``sd_without_privacy``, as far as what was released tells,
            and ``share_of_privacy``, that of the width which privacy adds. The last two are nan where draws
            are not calibrated.

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
        draws, n_features = self.posterior_samples_, self.n_features_in_
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(n_features)])
        features = np.asarray(names, dtype=str)
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
    """Return lower and upper bounds of all columns, or raise a ValueError."""
    if len(bounds) != 2:
        raise ValueError(f"bounds must be a pair (low, high), got {len(bounds)} of them.")
    ends = [np.asarray(part, dtype=np.float64) for part in bounds]
    for name, part in zip(("low", "high"), ends, strict=True):
        if part.shape not in ((), (n_features,)):
            raise ValueError(
                f"bounds: {name} must be a number, or one for each of {n_features} columns; its shape is "
                f"{part.shape}."
            )
    if not (ends[0] < ends[1]).all():
        raise ValueError("bounds: every low must be below its high.")
    return ends
