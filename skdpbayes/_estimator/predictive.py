"""Averages of predictive probabilities over posterior draws.

    log p(y | x) = log (1/S) sum_s p(y | x, theta_s)

Probabilities are averaged in single precision, to about six digits; logits of two classes too, where they
are of usual size. Where a probability would be too small for that, averages are taken on the log scale, so
that certain predictions stay finite; and a single draw is no average.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numba import get_num_threads
from scipy.sparse import issparse
from scipy.special import log_expit, log_softmax, logsumexp
from sklearn.utils import gen_batches

from .._compiled import compilable, compiled
from ..targets._single_precision import PLAIN, exp, multiply

# What is that small may have underflowed in all but a few draws.
_LEAST = 1e-30
# Logits of rows and draws whose norms have a larger product are no longer known to six digits.
_LARGEST_LOGIT = 64.0
# Logits of so many rows stay in the cache.
_BLOCK = 80
# Rows that a thread takes at once.
_PART = 8192
_ONE = np.float32(1.0)
# Logits that are held at once.
_CHUNK_ENTRIES = 2**15


@compilable
def _to_smaller_shares(logits):
    """Replace logits by the less probable class's share, with their sign. Not reassociated: see `exp`."""
    for j in range(logits.size):
        tail = exp(-abs(logits[j]))
        share = tail / (_ONE + tail)
        logits[j] = share if logits[j] >= 0 else -share


@compilable(fastmath={"reassoc", "nsz"})
def _add_up(shares, mean):
    first = second = np.float32(0.0)
    for j in range(shares.size):
        share = abs(shares[j])
        positive = shares[j] > 0
        first += share if positive else _ONE - share
        second += _ONE - share if positive else share
    mean[0], mean[1] = first / np.float32(shares.size), second / np.float32(shares.size)


@compilable
def _average(logits, mean):
    """Write the means over draws of both classes' probabilities; overwrites the second one's logits."""
    for i in range(logits.shape[0]):
        _to_smaller_shares(logits[i])
        _add_up(logits[i], mean[i])


@compiled
def _average_of_logits(logits, mean):
    _average(logits, mean)


@compiled
def _average_of_rows(X, scale, weights, mean):
    """The same of rows times a factor each, followed by a 1 if there is a weight for it."""
    rows = np.ones((_BLOCK, weights.shape[0]), np.float32)
    logits = np.empty((_BLOCK, weights.shape[1]), np.float32)
    for first in range(0, X.shape[0], _BLOCK):
        size = min(_BLOCK, X.shape[0] - first)
        for i in range(size):
            for j in range(X.shape[1]):
                rows[i, j] = X[first + i, j] * scale[first + i]
        multiply(rows[:size], PLAIN, weights, PLAIN, logits[:size])
        _average(logits[:size], mean[first : first + size])


def log_probabilities(X, scale, draws, data_norm):
    """Return the log of the classes' mean probabilities over draws.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        Rows, which ``scale`` of shape (n_samples,) clips to ``data_norm``.
    scale : ndarray of shape (n_samples,)
    draws : ndarray of shape (n_draws, 1 or n_classes, n_features + fit_intercept)
        The intercept last.
    data_norm : float

    Returns
    -------
    log_proba : ndarray of shape (n_samples, n_classes)
    """
    n_features = X.shape[1]
    n_draws, n_blocks, length = draws.shape
    norm = np.hypot(data_norm, length > n_features)
    if n_blocks == 1 and not issparse(X) and fits_single_precision(draws[:, 0], norm):
        return average_binary_rows(X, scale, draws[:, 0])
    weights = np.ascontiguousarray(draws[:, :, :n_features].transpose(1, 2, 0))
    offsets = draws[:, :, n_features:].transpose(1, 2, 0)
    average = average_binary if n_blocks == 1 else average_softmax
    log_proba = np.empty((X.shape[0], max(2, n_blocks)))
    for part in gen_batches(X.shape[0], max(1, _CHUNK_ENTRIES // (n_draws * n_blocks))):
        logits = np.stack([X[part] @ block for block in weights])
        logits *= scale[part, None]
        if length > n_features:
            logits += offsets
        log_proba[part] = average(logits)
    return log_proba


def fits_single_precision(draws, norm):
    """Tell whether logits of rows of a norm, followed by a 1, can be computed in single precision."""
    lengths = np.linalg.norm(draws, axis=1)
    return len(draws) > 1 and 1e-15 < norm < 1e15 and norm * lengths.max() < _LARGEST_LOGIT


def average_binary_rows(X, scale, draws):
    """Log probabilities, (n, 2), of rows of shape (n, d) times a factor each.

    Draws are of shape (n_draws, d), or (n_draws, d + 1) with an intercept. Parts of the rows are shared among
    numba's threads; what is computed for a row does not depend on them.
    """
    n_rows, n_features = X.shape
    weights = np.ascontiguousarray(draws.T, dtype=np.float32)
    log_proba = np.empty((n_rows, 2))

    def fill(part):
        rows, factors = X[part], scale[part]
        mean = np.empty((len(rows), 2))
        _average_of_rows(rows, factors, weights, mean)

        def exact(tiny):
            logits = (factors[tiny, None] * rows[tiny]) @ draws[:, :n_features].T
            return _log_binary((logits + draws[:, n_features:].sum(axis=1))[None])

        log_proba[part] = _on_log_scale(mean, len(draws), exact)

    parts = list(gen_batches(n_rows, _PART))
    if len(parts) == 1 or get_num_threads() == 1:
        for part in parts:
            fill(part)
    else:
        with ThreadPoolExecutor(get_num_threads()) as pool:
            list(pool.map(fill, parts))
    return log_proba


def average_binary(logits):
    """Log probabilities, (n, 2), of logits of shape (1, n, n_draws)."""
    mean = np.empty((logits.shape[1], 2))
    _average_of_logits(logits[0].astype(np.float32), mean)
    return _on_log_scale(mean, logits.shape[2], lambda tiny: _log_binary(logits[:, tiny]))


def _log_binary(logits):
    return np.stack([log_expit(-logits[0]), log_expit(logits[0])])


def average_softmax(logits):
    """Log probabilities, (n, n_classes), of logits of shape (n_classes, n, n_draws)."""
    shares = (logits - logits.max(axis=0)).astype(np.float32)
    np.exp(shares, out=shares)
    shares /= shares.sum(axis=0)
    mean = np.stack([share.mean(axis=1) for share in shares], axis=1).astype(float)
    exact = partial(log_softmax, axis=0)
    return _on_log_scale(mean, logits.shape[2], lambda tiny: exact(logits[:, tiny]))


def _on_log_scale(mean, n_draws, exact):
    """Return the logs of means of probabilities; ``exact(rows)`` has the logs of each draw's tiny ones."""
    with np.errstate(divide="ignore"):
        # Python's sum, of columns: numpy's along rows of a few entries takes several times as long.
        log_mean = np.log(mean / sum(mean.T)[:, None])
    if n_draws == 1 or not (mean > _LEAST).all():
        tiny = ~(mean > _LEAST).all(axis=1) | (n_draws == 1)
        log_mean[tiny] = (logsumexp(exact(tiny), axis=2) - np.log(n_draws)).T
    return log_mean
