"""Private classifiers: plans without data, and probabilities averaged over posterior draws.

p(y | x, data) = mean over draws of p(y | x, theta),    its interval = quantiles over draws
"""

import math
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, NoReturn

import numpy as np
from numba import get_num_threads
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from scipy.special import expit, log_softmax, logsumexp, softmax
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import gen_batches

from .._arguments import check_level, check_sizes
from .._compute.gradients import CompiledCore
from .._data.collections import refuse_other_order_around
from .._data.columns import label_set, typed_labels
from .._data.partitions import by_blocks, in_memory_and_order
from .._data.table import own_weights
from .._errors import reraise_if_safe, sanitize_errors, suppress_fp_warnings, to_native
from .._jit import compilable
from .._typing import MatrixLike
from ..models.single_precision import PLAIN, exp_float32, multiply
from ..privacy.planned_release import Disclosure, as_json
from ..samplers import Plan
from .base import PrivatePosterior

# Averages of predictive probabilities over posterior draws.
#
#     log p(y | x) = log sum_s w_s p(y | x, theta_s),        w_s = 1/S, unless draws count differently
#
# Probabilities are averaged in single precision, to about six digits. Logits of two classes are
# computed in single precision too, unless they are unusually large. If a probability is too small for
# that, or if there is only one draw, averages are computed on the log scale in double precision, so
# that certain predictions stay finite.


# Where draws hardly differ, they need not be gone through. With ``m`` and ``v`` the mean and the variance of
# a row's logits over draws, and ``d`` what each differs by,
#
#     mean p = p + p (1 - p) (1 - 2 p) v / 2 + r,    p = 1 / (1 + exp(-m)),
#     |r| <= p (1 - p) (k v^(3/2) / 6 + exp(l v^(1/2)) l^2 v^2 / 24),
#     |mean d^3| <= k v^(3/2),    |d| <= l v^(1/2),
#
# since derivatives of ``p`` are at most ``p (1 - p)``, which changes by at most ``exp(|d|)``. ``k`` and ``l``
# are those of the worst row. That is done where ``r`` is within a hundredth of the Monte Carlo error of a
# mean over so many draws, ``p (1 - p) (v / n)^(1/2)``; it depends on nothing but the row and the draws.


# Largest error of an expansion, in Monte Carlo errors.
_EXPANSION_ERROR = 0.01
# Most draws of which third moments are computed.
_MOST_THIRD_MOMENTS = 2000
# Columns that a product computes at once.
_PANEL = 16
# Means below this may have underflowed in all but a few draws.
_LEAST_MEAN = 1e-30
# If norms of rows and draws have a larger product, logits are not accurate to six digits.
_LARGEST_LOGIT = 64.0
# The logits of this many rows stay in the cache.
_BLOCK = 80
# Number of rows in the task of a thread.
_PART = 8192
_ONE = np.float32(1.0)
_HALF = np.float32(0.5)
# Number of logits in memory at once.
_CHUNK_ENTRIES = 2**15


@compilable
def _to_smaller_shares(logits):
    """Replace logits by the less probable class's share, with their sign; not reassociated, see `exp`."""
    for j in range(logits.size):
        tail = exp_float32(-abs(logits[j]))
        share = tail / (_ONE + tail)
        logits[j] = share if logits[j] >= 0 else -share


@compilable(fastmath={"reassoc", "nsz"})
def _add_up(shares, weights, mean):
    first = second = np.float32(0.0)
    for j in range(shares.size):
        share = abs(shares[j])
        positive = shares[j] > 0
        first += weights[j] * (share if positive else _ONE - share)
        second += weights[j] * (_ONE - share if positive else share)
    mean[0], mean[1] = first, second


@compilable
def _average(logits, weights, mean):
    """Write the mean probabilities of both classes over the draws; ``logits`` is overwritten."""
    for i in range(logits.shape[0]):
        _to_smaller_shares(logits[i])
        _add_up(logits[i], weights, mean[i])


@CompiledCore
def _average_of_logits(logits, weights, mean):
    _average(logits, weights, mean)


@compilable(fastmath={"reassoc", "nsz"})
def _square_lengths(moved, n_columns, squares):
    for i in range(squares.size):
        row, total = moved[i], np.float32(0.0)
        for k in range(n_columns):
            total += row[k] * row[k]
        squares[i] = total


@compilable
def _expand(rows, factor, most, moved, squares, mean):
    """Write mean probabilities of rows by the expansion, if variances ``squares`` are at most ``most``."""
    size, width = rows.shape[0], factor.shape[1]
    for j in range(0, width, _PANEL):
        stop = min(j + _PANEL, width)
        top = max(width - 1 - stop, 0)  # Above it, these columns are zero.
        multiply(rows[:, top:], PLAIN, factor[top:, j:stop], PLAIN, moved[:size, j:stop])
        if j == 0 and width > _PANEL:
            _square_lengths(moved, _PANEL, squares)
            if squares.min() > most:  # So they are of all columns.
                return
    _square_lengths(moved, width - 1, squares)
    for i in range(size):
        tail = exp_float32(-abs(moved[i, width - 1]))
        share = tail / (_ONE + tail)
        share += _HALF * squares[i] * share * (_ONE - share) * (_ONE - share - share)
        is_second = moved[i, width - 1] < 0
        mean[i, 0] = _ONE - share if is_second else share
        mean[i, 1] = share if is_second else _ONE - share


@CompiledCore
def _average_of_rows(X, scale, coefficients, weights, factor, most, mean):
    """The same for rows, each times its factor, and followed by a 1 if there is an intercept."""
    length = coefficients.shape[0]
    rows, squares = np.ones((_BLOCK, length), np.float32), np.empty(_BLOCK, np.float32)
    moved = np.empty((_BLOCK, factor.shape[1]), np.float32)
    logits, averages = np.empty((_BLOCK, coefficients.shape[1]), np.float32), np.empty((_BLOCK, 2))
    for first in range(0, X.shape[0], _BLOCK):
        size = min(_BLOCK, X.shape[0] - first)
        for i in range(size):
            for j in range(X.shape[1]):
                rows[i, j] = X[first + i, j] * scale[first + i]
        _expand(rows[:size], factor, most, moved, squares[:size], mean[first : first + size])
        rest = np.flatnonzero(~(squares[:size] <= most))
        if rest.size == 0:
            continue
        for k in range(rest.size):
            rows[k] = rows[rest[k]]
        multiply(rows[: rest.size], PLAIN, coefficients, PLAIN, logits[: rest.size])
        _average(logits[: rest.size], weights, averages)
        for k in range(rest.size):
            mean[first + rest[k]] = averages[k]


def expansion(draws, weights):
    """The factor of the variance of logits and the largest variance for which an expansion is right.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, length)
    weights : ndarray of shape (n_draws,)

    Returns
    -------
    factor : ndarray of shape (length, min(n_draws, length) + 1)
        Columns of ``R^T``, where ``v = |R z|^2``, the last one first, and the mean. Each column has one zero
        less at its top than that before.
    most : float
    """
    draws, weights = np.asarray(draws, float), np.asarray(weights, float)
    return _expansion(draws.shape, draws.tobytes(), weights.tobytes())


@lru_cache(maxsize=4)  # Rows may come one by one.
def _expansion(shape, draws, weights):
    weights = np.frombuffer(weights)
    draws, roots = (
        np.frombuffer(draws).reshape(shape)[weights > 0.0],
        np.sqrt(weights[weights > 0.0]),
    )
    mean = roots**2 @ draws
    q, r = np.linalg.qr(roots[:, None] * (draws - mean))
    # Of shape (n_draws, rank); products with unit vectors are deviations over their root mean square.
    standard = q / roots[:, None]
    longest = third = float(np.linalg.norm(standard, axis=1).max())
    if len(q) <= _MOST_THIRD_MOMENTS:
        # The squared norm of the matrix of third moments, of shape (rank, rank^2).
        pairs = standard.T @ ((q @ q.T) ** 2 @ standard)
        third = min(third, math.sqrt(float(np.linalg.norm(pairs, 2))))

    # Of roots of variances; beyond the largest, the second part alone is too large.
    root = np.linspace(0.0, 1.0 / longest, 1000)
    error = third * root**2 / 6.0 + np.exp(longest * root) * longest**2 * root**3 / 24.0
    most = root[error <= _EXPANSION_ERROR * np.linalg.norm(weights)].max()
    return np.column_stack([r.T[:, ::-1], mean]), most**2


def normalized(shares):
    """Rows of shares divided, in place, by their sums, so that none exceeds one by a rounding error."""
    # Python's sum over columns is several times faster than NumPy's along rows of a few entries.
    shares /= sum(shares.T)[:, None]
    return shares


def log_probabilities(X, scale, draws, data_norm, weights=None):
    """The log of the classes' mean probabilities over draws.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Rows, which ``scale`` of shape (n_samples,) clips to ``data_norm``.
    scale : ndarray of shape (n_samples,)
    draws : ndarray of shape (n_draws, 1 or n_classes, n_features + fit_intercept)
        The intercept last.
    data_norm : float
    weights : ndarray of shape (n_draws,) or None, default=None
        Of the draws, which add up to one; None counts all the same.

    Returns
    -------
    log_proba : ndarray of shape (n_samples, n_classes)
    """
    n_features = X.shape[1]
    n_draws, n_blocks, length = draws.shape
    norm = np.hypot(data_norm, length > n_features)
    if weights is None:
        weights = np.full(n_draws, 1.0 / n_draws)
    if n_blocks == 1 and not issparse(X) and fits_single_precision(draws[:, 0], norm):
        return average_binary_rows(X, scale, draws[:, 0], weights)
    coefficients = np.ascontiguousarray(draws[:, :, :n_features].transpose(1, 2, 0))
    offsets = draws[:, :, n_features:].transpose(1, 2, 0)
    average = average_binary if n_blocks == 1 else average_softmax
    log_proba = np.empty((X.shape[0], max(2, n_blocks)))
    for part in gen_batches(X.shape[0], max(1, _CHUNK_ENTRIES // (n_draws * n_blocks))):
        logits = np.stack([X[part] @ block for block in coefficients])
        logits *= scale[part, None]
        if length > n_features:
            logits += offsets
        log_proba[part] = average(logits, weights)
    return log_proba


def fits_single_precision(draws, norm):
    """Whether logits of rows up to a norm, constant included, fit single precision."""
    lengths = np.linalg.norm(draws, axis=1)
    return len(draws) > 1 and 1e-15 < norm < 1e15 and norm * lengths.max() < _LARGEST_LOGIT


def average_binary_rows(X, scale, draws, weights):
    """Log probabilities, of shape (n, 2), for rows of shape (n, d), each times its factor.

    Draws are of shape (n_draws, d), or (n_draws, d + 1) with an intercept. Numba's threads share the rows;
    the result for a row does not depend on how.
    """
    n_rows, n_features = X.shape
    coefficients = np.ascontiguousarray(draws.T, dtype=np.float32)
    single = weights.astype(np.float32)
    factor, most = expansion(draws, weights)
    factor, most = np.ascontiguousarray(factor, dtype=np.float32), np.float32(most)
    log_proba = np.empty((n_rows, 2))

    @suppress_fp_warnings()  # A thread does not take over the error state.
    def fill(part):
        rows, factors = X[part], scale[part]
        mean = np.empty((len(rows), 2))
        _average_of_rows(rows, factors, coefficients, single, factor, most, mean)

        def exact(tiny):
            logits = (factors[tiny, None] * rows[tiny]) @ draws[:, :n_features].T
            return _log_binary((logits + draws[:, n_features:].sum(axis=1))[None])

        log_proba[part] = _on_log_scale(mean, weights, exact)

    parts = list(gen_batches(n_rows, _PART))
    if len(parts) == 1 or get_num_threads() == 1:
        for part in parts:
            fill(part)
    else:
        with ThreadPoolExecutor(get_num_threads()) as pool:
            list(pool.map(fill, parts))
    return log_proba


def average_binary(logits, weights):
    """Log probabilities, of shape (n, 2), for logits of shape (1, n, n_draws)."""
    mean = np.empty((logits.shape[1], 2))
    _average_of_logits(logits[0].astype(np.float32), weights.astype(np.float32), mean)
    return _on_log_scale(mean, weights, lambda tiny: _log_binary(logits[:, tiny]))


def _log_binary(logits):
    # Of scipy's functions, those that are compiled have an error state of their own.
    return np.stack([-np.logaddexp(0.0, logits[0]), -np.logaddexp(0.0, -logits[0])])


def average_softmax(logits, weights):
    """Log probabilities, of shape (n, n_classes), for logits of shape (n_classes, n, n_draws)."""
    shares = (logits - logits.max(axis=0)).astype(np.float32)
    np.exp(shares, out=shares)
    shares /= shares.sum(axis=0)
    # A product with a vector would be summed in another order for other numbers of rows.
    shares *= weights.astype(np.float32)
    mean = np.stack([share.sum(axis=1) for share in shares], axis=1).astype(float)
    exact = partial(log_softmax, axis=0)
    return _on_log_scale(mean, weights, lambda tiny: exact(logits[:, tiny]))


def _on_log_scale(mean, weights, exact):
    """The logs of mean probabilities; ``exact(rows)`` returns each draw's log probabilities."""
    n_draws = weights.size
    log_mean = np.log(mean / sum(mean.T)[:, None])
    if n_draws == 1 or not (mean > _LEAST_MEAN).all():
        tiny = ~(mean > _LEAST_MEAN).all(axis=1) | (n_draws == 1)
        log_mean[tiny] = logsumexp(exact(tiny) + np.log(weights), axis=2).T
    return log_mean


def quantiles_of_draws(values, weights, levels):
    """Quantiles over draws that have weights.

    The ``k``-th smallest value is at the level ``w_1 + ... + w_k - (w_1 + w_k) / 2``, relative to that of the
    largest. Between levels, values are interpolated: as NumPy does if all weights are the same.

    Parameters
    ----------
    values : ndarray of shape (..., n_draws)
    weights : ndarray of shape (n_draws,) or None
        They add up to one; None counts all the same.
    levels : sequence of float

    Returns
    -------
    quantiles : ndarray of shape (..., n_levels)
    """
    if weights is None:
        return np.moveaxis(np.quantile(values, levels, axis=-1), 0, -1)
    order = np.argsort(values, axis=-1)
    values, weights = np.take_along_axis(values, order, axis=-1), weights[order]
    places = np.cumsum(weights, axis=-1) - 0.5 * (weights[..., :1] + weights)
    quantiles = []
    for level in levels:
        wanted = level * places[..., -1:]
        above = np.clip((places < wanted).sum(axis=-1, keepdims=True), 1, places.shape[-1] - 1)
        (p, q), (a, b) = (
            (np.take_along_axis(part, above - 1, axis=-1), np.take_along_axis(part, above, axis=-1))
            for part in (places, values)
        )
        share = np.clip((wanted - p) / np.maximum(q - p, 1e-300), 0.0, 1.0)
        quantiles.append(a + share * (b - a))
    return np.concatenate(quantiles, axis=-1)


def _probability_quantiles(logits, weights, levels):
    """Quantiles of classes' probabilities, of shape (n_rows, n_classes, 2), at levels that add up to one."""
    if logits.shape[1] == 2:
        logits = logits[:, 1:] - logits[:, :1]
    if logits.shape[1] > 1:
        return quantiles_of_draws(softmax(logits, axis=1), weights, levels)
    log_odds = quantiles_of_draws(logits, weights, levels)
    return expit(np.concatenate([-log_odds[..., ::-1], log_odds], axis=1))


class PrivateClassifier(ClassifierMixin, PrivatePosterior):
    """Predictions of labels, for estimators with ``_model(n_features, n_classes)`` and ``_log_proba(X)``.

    ``_logits(X, draws)`` yields arrays of shape (n_rows, 1 or n_classes, n_draws), a block of rows at a time.
    """

    classes: Any
    classes_: np.ndarray
    posterior_samples_: np.ndarray

    def _facts(self):
        yield from super()._facts()
        if self.classes is None:  # They come from the rows, and may not be told.
            yield Disclosure("labels", None, "labels")
        else:
            yield Disclosure("labels", as_json(list(self.classes)), "declared")

    def privacy_plan(self, n_samples: int, n_features: int, n_classes: int = 2) -> Plan:
        """The plan of a fit, with its cost, from public numbers alone: print it before you fit.

        Parameters
        ----------
        n_samples : int
            Number of rows; of persons, with ``max_rows_per_group``. Under
            ``neighboring_relation="add_or_remove_one"`` the plan uses ``public_size`` instead.
        n_features : int
            Number of columns.
        n_classes : int, default=2
            Number of labels, ignored if ``classes`` is given. Time and intervals depend on it.

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
        >>> from skdpbayes import DPBayesianLogisticRegression, DPBayesianMLPClassifier
        >>> DPBayesianLogisticRegression(epsilon=1.0).privacy_plan(50_000, 20).n_draws
        400
        >>> DPBayesianMLPClassifier(epsilon=2.0).privacy_plan(60_000, 169, 10).n_steps
        600
        """
        self._validate_params()
        if self.classes is not None:
            n_classes = label_set(self.classes).size
        check_sizes(n_samples=n_samples, n_features=n_features)
        check_sizes(2, n_classes=n_classes)
        return self._plan(int(n_samples), int(n_features), int(n_classes))

    @by_blocks
    def predict_log_proba(self, X: MatrixLike) -> np.ndarray:
        """Log of the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Sparse only if `fit` accepts sparse tables.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        # A mean over draws may be rounded to more than one.
        return np.minimum(self._log_proba(X), 0.0)

    @by_blocks
    def predict_proba(self, X: MatrixLike) -> np.ndarray:
        """Class probabilities, averaged over the draws (the posterior predictive).

        This spends no budget, and does not protect the rows of ``X``. For two classes of a linear model, a
        series may replace the average: its error is below a hundredth of the Monte Carlo error.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows longer than ``data_norm`` are clipped, as in `fit`.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            In the order of ``classes_``.
        """
        log_proba = self._log_proba(X)
        return normalized(np.exp(log_proba, out=log_proba))

    @property
    def prediction_interval(self) -> NoReturn:
        """Not available: labels have no interval. Take `probability_interval`."""
        raise AttributeError(
            f"{type(self).__name__} has no prediction_interval, as labels have none: take "
            "probability_interval(X), of the probabilities of classes."
        )

    @suppress_fp_warnings()
    def probability_interval(self, X: MatrixLike, level: float = 0.9) -> np.ndarray:
        """Equal-tailed intervals of the class probabilities of new rows; they spend no budget.

        They are intervals of the *probability* ``p(class | x)``, not of the label: of a row whose label is a
        toss of a coin, the probability may be surely near 0.5. Draws count as in `predict_proba`. Those of
        networks under privacy are too close to each other, and their intervals too short.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows longer than ``data_norm`` are clipped, as in `fit`.
        level : float, default=0.9
            Posterior probability of each interval, in (0, 1).

        Returns
        -------
        interval : ndarray of shape (n_samples, n_classes, 2)
            Lower and upper ends, in the order of ``classes_``.

        Raises
        ------
        ValueError
            If ``level`` is out of range, or if the fit kept a single draw.

        Warns
        -----
        UserWarning
            If the posterior is not calibrated, as with chains under privacy.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpbayes import DPBayesianLogisticRegression
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, (20_000, 2))
        >>> y = rng.random(20_000) < 1 / (1 + np.exp(-2 * X[:, 0]))
        >>> clf = DPBayesianLogisticRegression(random_state=0).fit(X, y)
        >>> low, high = clf.probability_interval([[0.5, 0.0]])[0, 1]
        >>> bool(0.68 < low < 1 / (1 + np.exp(-1)) < high < 0.78)
        True
        """
        posterior = self._posterior
        check_level(level)
        posterior.warn_unless_calibrated()
        draws = posterior.enough()
        if len(draws) == 1:
            raise ValueError(
                "a single draw has no intervals: fit with a larger n_draws, or another sampler."
            )
        weights = self.plan_.sampler.importance_weights(self.released_, draws)
        tails = 0.5 * (1.0 - level), 0.5 * (1.0 + level)

        def ends(self, X):
            return np.concatenate(
                [_probability_quantiles(part, weights, tails) for part in self._logits(X, draws)]
            )

        return by_blocks(ends)(self, X)

    @by_blocks
    def predict(self, X: MatrixLike) -> np.ndarray:
        """The most probable label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        labels : ndarray of shape (n_samples,)
        """
        log_proba = self._log_proba(X)
        return self.classes_[np.argmax(log_proba, axis=1)]

    def score(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy, without noise: for private rows take `skdpbayes.metrics.dp_accuracy_score`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float

        Raises
        ------
        ValueError, TypeError
            If the table, the labels or the weights are invalid.
        """
        refuse_other_order_around()
        predicted, y, sample_weight = in_memory_and_order(
            X, self.predict(X), y=y, sample_weight=sample_weight
        )
        if sample_weight is not None:
            sample_weight = own_weights(to_native(sample_weight, "sample_weight"), len(predicted))
        on_error = reraise_if_safe(
            "y must be a column of labels of the same kind as those in fit, one for each row."
        )
        return sanitize_errors(
            accuracy_score,
            typed_labels(to_native(y, "y")),
            typed_labels(predicted),
            sample_weight=sample_weight,
            on_error=on_error,
        )
