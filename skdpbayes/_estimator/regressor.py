"""Private regressors: plans without data, predictions, and quantiles of the predictive law.

    E[y | x, data] = mean over draws of E[y | x, theta],    P(y <= t | x, data) = that of P(y <= t | x, theta)

Everything here but the plan is post-processing of what was released.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from sklearn.base import RegressorMixin
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from .._arguments import check_level
from .._compute.execution import single_threaded_blas
from .._data.collections import refuse_other_order, refuse_other_order_around
from .._data.columns import count_column, number_column
from .._data.partitions import by_blocks, in_memory_and_order
from .._data.read import validate_table
from .._data.table import logarithms, own_weights
from .._errors import reraise_if_safe, sanitize_errors, suppress_fp_warnings, to_native
from .._typing import MatrixLike, RandomStateLike
from ..models.families.normal import ErrorLaw, error_law
from ..models.rows import clip_rows, scale_rows
from .base import PrivatePosterior
from .posterior import check_number_of_draws, generator_of

# Quantiles of mixtures of a law over draws, of many rows at once.
#
#     F(t) = mean over draws of P(y <= t | x, theta) = q,       t_{n+1} = t_n - (g(t_n) - g(q)) / slope
#
# with secants of ``g = Phi^-1(F)``, which is nearly linear in numbers, and in square roots of counts.
# Brackets are kept, and a secant that leaves them is replaced by their middle. Rows whose quantile is
# found are done with.


# Most evaluations of a search.
_MOST_EVALUATIONS = 200
# Number of evaluations between two that halve a bracket.
_HALVED = 8
# Tolerance of a number, relative to the deviation of its law.
_QUANTILE_TOLERANCE = 1e-7
# Relative error of a count that is left: larger ones are not exact.
_COUNT_ERROR = 1e-9
# Distance of probabilities from 0 and 1.
_LEAST_PROBABILITY = 1e-16
# Constant that is added to counts under the square root, which is nearly normal.
_ROOT_OFFSET = 0.75


@np.errstate(invalid="ignore", over="ignore")
def mixture_quantile(law, probability, logits, noise):
    """Quantiles of mixtures of a law over draws.

    Parameters
    ----------
    law : NumberFamily
    probability : float
        In (0, 1).
    logits : ndarray of shape (n_rows, n_draws)
    noise : ErrorLaw, ndarray of shape (n_draws,), CountLaw or None
        The law of errors, deviations of normal ones, or how counts vary.

    Returns
    -------
    quantiles : ndarray of shape (n_rows,)
        Of whole numbers the least that has at least the probability.
    """
    wanted, are_counts = ndtri(probability), law.whole_numbers
    guess, slope, width = _guess(law, probability, wanted, logits, noise)
    low, high = np.full(guess.size, -1.0 if are_counts else -np.inf), np.full(guess.size, np.inf)
    active, last = np.arange(guess.size), None
    for turn in range(1, _MOST_EVALUATIONS + 1):
        x = guess[active]
        share = law.cdf(x[:, None], logits[active], noise).mean(axis=1)
        above = share >= probability
        low[active], high[active] = (
            np.where(above, low[active], x),
            np.where(above, x, high[active]),
        )
        off = ndtri(np.clip(share, _LEAST_PROBABILITY, 1.0 - _LEAST_PROBABILITY)) - wanted
        root = np.sqrt(x + _ROOT_OFFSET) if are_counts else x
        if last is not None:
            change = (off - last[1]) / np.where(root == last[0], 1.0, root - last[0])
            slope = np.where((change > 0.0) & np.isfinite(change), change, slope)
        step = off / slope
        new = _within(root - step, low[active], high[active], are_counts, turn % _HALVED == 0)
        if are_counts:
            is_open = high[active] - low[active] > np.maximum(1.0, _COUNT_ERROR * low[active])
            new = np.where(is_open, new, high[active])
        else:
            is_open = np.abs(new - x) > _QUANTILE_TOLERANCE * width[active]
        guess[active] = new
        if not is_open.any():
            break
        active, last, slope = active[is_open], (root[is_open], off[is_open]), slope[is_open]
    return guess


def _guess(law, probability, wanted, logits, noise):
    """First guesses of quantiles, slopes of probits there, and a deviation of the law."""
    means, are_counts = law.prediction(logits), law.whole_numbers
    middle, tail = np.quantile(means, [0.5, probability], axis=1)
    if are_counts:
        sampling_sd = np.sqrt(middle if noise is None else noise.variance(middle))
    else:
        sampling_sd = np.full(middle.size, np.sqrt(np.mean(error_law(noise).deviations ** 2)))
    away = np.hypot(tail - middle, wanted * sampling_sd)
    width = np.maximum(np.maximum(sampling_sd, away), 1e-300)
    guess = middle + np.sign(wanted) * away
    if not are_counts:
        return guess, abs(wanted) / np.maximum(away, 1e-300) if wanted else 1.0 / width, width
    guess = np.floor(np.maximum(guess, 0.0))
    # The square root of a count has a deviation of a half, about.
    return guess, np.minimum(2.0, 2.0 * np.sqrt(middle + _ROOT_OFFSET) / width), width


def _within(points, low, high, are_counts, halve):
    """The next points of a search: within brackets, and whole numbers if these are wanted."""
    middle = 0.5 * (low + high)
    if are_counts:
        points = np.ceil(np.maximum(points, 0.0) ** 2 - _ROOT_OFFSET)
        # Without an upper bracket at most by a few times as much.
        points = np.minimum(points, np.where(np.isfinite(high), high - 1.0, 4.0 * low + 8.0))
        points, middle = np.maximum(points, low + 1.0), np.ceil(middle)
    is_out = (points <= low) | (points >= high) | halve
    return np.where(is_out & np.isfinite(middle), middle, points)


# Numbers of logits in memory at once.
_CHUNK_ENTRIES = 2**18


class PrivateRegressor(RegressorMixin, PrivatePosterior):
    """Predictions of numbers, for estimators with draws of one block of coefficients.

    ``_score(y_true, y_pred, sample_weight=...)`` is scikit-learn's score of predictions.
    """

    _score: Callable[..., float]
    fit_intercept: bool
    posterior_samples_: np.ndarray

    def _facts(self):
        yield from super()._facts()
        yield self._fact_of_responses()

    @property
    def _law(self) -> Any:
        """The `NumberFamily` of a response, with the bounds that were given or released."""
        return self.plan_.bounds.family

    def _noise(self) -> Any:
        """An `ErrorLaw`, how counts vary, or None."""
        return None

    def _origin(self) -> Any:
        """The point that is added to the draws of a sampler, as responses were centred."""
        if not self.fit_intercept or not self._law.centre:
            return 0.0
        shift = np.zeros(self.n_features_in_ + 1)
        shift[-1] = self._law.centre
        return shift

    def _clip_logits(self, logits):
        """Logits whose means a response can have, before any exposure."""
        return logits

    def _largest_weight(self, max_sample_weight):
        return max_sample_weight

    @single_threaded_blas()  # Blocks of rows are too small for more.
    @suppress_fp_warnings()
    def _over_rows(self, X, function, exposure=None):
        """The results of a function of logits of shape (n_rows, n_draws), for all rows."""
        check_is_fitted(self)
        refuse_other_order("exposure", exposure, X=X)
        X, scale = clip_rows(validate_table(self, X, reset=False), self.data_norm_)
        offsets = logarithms(exposure, X.shape[0])
        draws, d = self.posterior_samples_[:, 0], X.shape[1]
        parts = gen_batches(X.shape[0], max(1, _CHUNK_ENTRIES // len(draws)))
        blocks = []
        for part in parts:
            logits = scale_rows(X[part], scale[part]) @ draws[:, :d].T + draws[:, d:].sum(axis=1)
            logits = self._clip_logits(logits)
            blocks.append(function(logits if offsets is None else logits + offsets[part, None]))
        return np.concatenate(blocks)

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

        The responses in one row of the result come from the same posterior draw, and share its error.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        n_draws : int or None, default=None
            Number of posterior draws to use, chosen with replacement. None uses each one once.
        random_state : None, int, RandomState or Generator, default=None
            It need not be kept private, because the draws are public.

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
        if isinstance(noise, ErrorLaw):
            noise = noise._replace(deviations=noise.deviations[chosen])

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
        posterior = self._posterior
        check_level(level)
        posterior.warn_unless_calibrated()
        tails = (0.5 * (1.0 - level), 0.5 * (1.0 + level))

        def interval(self, X, *exposure):
            law, noise = self._law, self._noise()

            def ends(logits):
                return np.column_stack([mixture_quantile(law, q, logits, noise) for q in tails])

            return self._over_rows(X, ends, *exposure)

        return by_blocks(interval)(self, X) if exposure is None else interval(self, X, exposure)

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of the deviance that predictions explain, without noise: R^2 of numbers, D^2 of counts.

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
            sample_weight = own_weights(to_native(sample_weight, "sample_weight"), len(predicted))
        y = count_column(y, "y") if self._reads_counts else number_column(y, "y")
        on_error = reraise_if_safe("y must be a column of numbers, one for each row.")
        return sanitize_errors(
            self._score, y, predicted, sample_weight=sample_weight, on_error=on_error
        )
