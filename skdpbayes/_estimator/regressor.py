"""What the private regressors share: plans without data, predictions, and intervals of predictions.

    E[y | x, data] = mean over draws of E[y | x, theta],    P(y <= t | x, data) = that of P(y <= t | x, theta)

Everything here but the plan is post-processing of what was released.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from .._checks import check_level, check_sizes
from .._inputs import plain, unless_harmless, unquoted
from .._silence import silently
from .._tables.blockwise import by_blocks, in_memory_and_order
from .._tables.columns import count_column, number_column
from .._tables.order import (
    refuse_other_order,
    refuse_other_order_around,
)
from .._tables.rows import logarithms
from .._tables.validation import validate_table
from .._tables.weights import own_weights
from .._typing import MatrixLike, RandomStateLike
from ..samplers import Plan
from ..samplers._machinery.execution import single_threaded_blas
from ..targets._clipping import clip_rows, scale_rows
from .intervals import warn_unless_calibrated
from .posterior import PrivatePosteriorMixin, check_number_of_draws, generator_of
from .quantiles import mixture_quantile

# Numbers of logits in memory at once.
_CHUNK_ENTRIES = 2**18


class PrivateRegressorMixin(RegressorMixin, PrivatePosteriorMixin):
    """For estimators with ``_plan(n_samples, n_features)`` and draws of one block of coefficients.

    ``_score(y_true, y_pred, sample_weight=...)`` is scikit-learn's score of predictions.
    """

    _score: Callable[..., float]
    fit_intercept: bool
    posterior_samples_: np.ndarray
    # Whether responses are whole numbers.
    _reads_counts = False

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Under a finite budget, little can be learnt from the tiny tables of scikit-learn's checks.
        tags.regressor_tags.poor_score = self.epsilon != np.inf
        return tags

    def privacy_plan(self, n_samples: int, n_features: int) -> Plan:
        """Return what a fit would do and cost, without any data.

        Parameters
        ----------
        n_samples : int
            Number of rows; of persons, with ``max_rows_per_group``. Under
            ``neighboring_relation="add_or_remove_one"`` the plan uses ``public_size`` instead.
        n_features : int
            Number of columns.

        Returns
        -------
        plan : Plan
            Its attributes are public numbers; printing it gives a readable summary.

        Raises
        ------
        ValueError, TypeError
            If a parameter is invalid, or if the options contradict each other.

        Examples
        --------
        >>> from skdpbayes import DPBayesianPoissonRegressor
        >>> plan = DPBayesianPoissonRegressor(max_count=20, epsilon=1.0).privacy_plan(50_000, 8)
        >>> 0.5 < plan.epsilon <= 1.0
        True
        """
        self._validate_params()
        check_sizes(n_samples=n_samples, n_features=n_features)
        return self._plan(int(n_samples), int(n_features))

    @property
    def _law(self) -> Any:
        """The `NumberFamily` of a response, with the bounds that were given or released."""
        return self.plan_.bounds.family

    def _noise(self) -> Any:
        """Return the noise deviations of the draws, of shape (n_draws,), or None."""
        return None

    def _origin(self) -> Any:
        """Return what is added to the draws of a sampler: responses were centred."""
        if not self.fit_intercept or not self._law.centre:
            return 0.0
        shift = np.zeros(self.n_features_in_ + 1)
        shift[-1] = self._law.centre
        return shift

    def _within_reach(self, logits):
        """Return logits whose means a response can have, before any exposure."""
        return logits

    def _largest_weight(self, max_sample_weight):
        return max_sample_weight

    @single_threaded_blas()  # Blocks of rows are too small for more.
    @silently()
    def _over_rows(self, X, function, exposure=None):
        """Return what a function makes of logits of shape (n_rows, n_draws), for all rows."""
        check_is_fitted(self)
        refuse_other_order("exposure", exposure, X=X)
        X, scale = clip_rows(validate_table(self, X, reset=False), self.data_norm_)
        offsets = logarithms(exposure, X.shape[0])
        draws, d = self.posterior_samples_[:, 0], X.shape[1]
        parts = gen_batches(X.shape[0], max(1, _CHUNK_ENTRIES // len(draws)))
        found = []
        for part in parts:
            logits = scale_rows(X[part], scale[part]) @ draws[:, :d].T + draws[:, d:].sum(axis=1)
            logits = self._within_reach(logits)
            found.append(function(logits if offsets is None else logits + offsets[part, None]))
        return np.concatenate(found)

    @by_blocks
    def _mean(self, X):
        return self._over_rows(X, lambda logits: self._law.prediction(logits).mean(axis=1))

    def predict(self, X: MatrixLike) -> np.ndarray:
        """Mean of the response, averaged over the draws (the posterior predictive mean).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows longer than ``data_norm`` are clipped, as in `fit`.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
        """
        return self._mean(X)

    def posterior_predictive(
        self, X: MatrixLike, n_draws: int | None = None, random_state: RandomStateLike = None
    ) -> np.ndarray:
        """Draw responses of new rows; this spends no budget and may be repeated.

        Each draw is of one parameter's law: rows of the result have the uncertainty about the parameter in
        common.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        n_draws : int or None, default=None
            None is the number of posterior draws; others choose among these, with replacement.
        random_state : None, int, RandomState or Generator, default=None
            It need not be kept private.

        Returns
        -------
        responses : ndarray of shape (n_draws, n_samples)
        """
        return self._simulated(X, n_draws, random_state)

    def _simulated(self, X, n_draws, random_state, exposure=None):
        check_is_fitted(self)
        generator, kept = generator_of(random_state), len(self.posterior_samples_)
        chosen = np.arange(kept)
        if n_draws is not None:
            # Post-processing.
            chosen = generator.choice(kept, size=check_number_of_draws(n_draws))
        noise = self._noise()
        noise = None if noise is None else noise[chosen]

        def simulated(logits):
            return self._law.simulated(logits[:, chosen], noise, generator)

        return self._over_rows(X, simulated, exposure).T

    def prediction_interval(self, X: MatrixLike, level: float = 0.9) -> np.ndarray:
        """Equal-tailed intervals of the responses of new rows; they spend no budget.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        level : float, default=0.9
            Posterior predictive probability of each interval, in (0, 1).

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper ends, which are whole numbers for counts.

        Raises
        ------
        ValueError
            If ``level`` is out of range.

        Warns
        -----
        UserWarning
            If the posterior is not calibrated, as with chains under privacy.
        """
        return self._between(X, level)

    def _between(self, X, level, exposure=None):
        check_is_fitted(self)
        check_level(level)
        warn_unless_calibrated(self)
        law, noise = self._law, self._noise()

        def ends(logits):
            tails = (0.5 * (1.0 - level), 0.5 * (1.0 + level))
            return np.column_stack([mixture_quantile(law, q, logits, noise) for q in tails])

        return self._over_rows(X, ends, exposure)

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of the deviance that predictions explain, without noise: R^2 of a ridge, D^2 of counts.

        If the rows are private, use `skdpbayes.metrics`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Responses.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            At most 1.

        Raises
        ------
        ValueError, TypeError
            If the table, the responses or the weights are invalid.
        """
        return self._scored(X, y, self.predict(X), sample_weight)

    def _scored(self, X, y, predicted, sample_weight):
        refuse_other_order_around()
        predicted, y, sample_weight = in_memory_and_order(
            X, predicted, y=y, sample_weight=sample_weight
        )
        if sample_weight is not None:
            sample_weight = own_weights(plain(sample_weight, "sample_weight"), len(predicted))
        y = count_column(y, "y") if self._reads_counts else number_column(y, "y")
        told = unless_harmless("y must be a column of numbers, one for each row.")
        return unquoted(self._score, y, predicted, sample_weight=sample_weight, told=told)
