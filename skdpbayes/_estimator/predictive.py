"""Averages of predictive probabilities over posterior draws.

    log p(y | x) = log sum_s w_s p(y | x, theta_s),        w_s = 1/S, unless draws count differently

Probabilities are averaged in single precision, to about six digits. Logits of two classes are computed in
single precision too, unless they are unusually large. If a probability is too small for that, or if there is
only one draw, averages are computed on the log scale in double precision, so that certain predictions stay
finite.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numba import get_num_threads
from scipy.sparse import issparse
from scipy.special import log_softmax, logsumexp
from sklearn.utils import gen_batches

from .._compiled import compilable
from .._silence import silently
from ..samplers._machinery.compiled_entries import CompiledCore
from ..targets.network.single_precision import PLAIN, exp, multiply

# Means below this may have underflowed in all but a few draws.
_LEAST = 1e-30
# If norms of rows and draws have a larger product, logits are not accurate to six digits.
_LARGEST_LOGIT = 64.0
# The logits of this many rows stay in the cache.
_BLOCK = 80
# Number of rows in the task of a thread.
_PART = 8192
_ONE = np.float32(1.0)
# Number of logits in memory at once.
_CHUNK_ENTRIES = 2**15


@compilable
def _to_smaller_shares(logits):
    """Replace logits by the less probable class's share, with their sign; not reassociated, see `exp`."""
    for j in range(logits.size):
        tail = exp(-abs(logits[j]))
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


@CompiledCore
def _average_of_rows(X, scale, coefficients, weights, mean):
    """The same for rows, each times its factor, and followed by a 1 if there is an intercept."""
    rows = np.ones((_BLOCK, coefficients.shape[0]), np.float32)
    logits = np.empty((_BLOCK, coefficients.shape[1]), np.float32)
    for first in range(0, X.shape[0], _BLOCK):
        size = min(_BLOCK, X.shape[0] - first)
        for i in range(size):
            for j in range(X.shape[1]):
                rows[i, j] = X[first + i, j] * scale[first + i]
        multiply(rows[:size], PLAIN, coefficients, PLAIN, logits[:size])
        _average(logits[:size], weights, mean[first : first + size])


def normalized(shares):
    """Return rows of shares divided by their sums, so that none exceeds one by a rounding error."""
    return shares / shares.sum(axis=1, keepdims=True)


def log_probabilities(X, scale, draws, data_norm, weights=None):
    """Return the log of the classes' mean probabilities over draws.

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
    """Tell whether logits of rows up to a norm, constant included, fit single precision."""
    lengths = np.linalg.norm(draws, axis=1)
    return len(draws) > 1 and 1e-15 < norm < 1e15 and norm * lengths.max() < _LARGEST_LOGIT


def average_binary_rows(X, scale, draws, weights):
    """Return log probabilities, of shape (n, 2), for rows of shape (n, d), each times its factor.

    Draws are of shape (n_draws, d), or (n_draws, d + 1) with an intercept. Numba's threads share the rows;
    the result for a row does not depend on how.
    """
    n_rows, n_features = X.shape
    coefficients = np.ascontiguousarray(draws.T, dtype=np.float32)
    single = weights.astype(np.float32)
    log_proba = np.empty((n_rows, 2))

    @silently()  # A thread does not take over the error state.
    def fill(part):
        rows, factors = X[part], scale[part]
        mean = np.empty((len(rows), 2))
        _average_of_rows(rows, factors, coefficients, single, mean)

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
    """Return log probabilities, of shape (n, 2), for logits of shape (1, n, n_draws)."""
    mean = np.empty((logits.shape[1], 2))
    _average_of_logits(logits[0].astype(np.float32), weights.astype(np.float32), mean)
    return _on_log_scale(mean, weights, lambda tiny: _log_binary(logits[:, tiny]))


def _log_binary(logits):
    # Of scipy's functions, those that are compiled have an error state of their own.
    return np.stack([-np.logaddexp(0.0, logits[0]), -np.logaddexp(0.0, -logits[0])])


def average_softmax(logits, weights):
    """Return log probabilities, of shape (n, n_classes), for logits of shape (n_classes, n, n_draws)."""
    shares = (logits - logits.max(axis=0)).astype(np.float32)
    np.exp(shares, out=shares)
    shares /= shares.sum(axis=0)
    # A product with a vector would be summed in another order for other numbers of rows.
    shares *= weights.astype(np.float32)
    mean = np.stack([share.sum(axis=1) for share in shares], axis=1).astype(float)
    exact = partial(log_softmax, axis=0)
    return _on_log_scale(mean, weights, lambda tiny: exact(logits[:, tiny]))


def _on_log_scale(mean, weights, exact):
    """Return the logs of mean probabilities; ``exact(rows)`` returns each draw's log probabilities."""
    n_draws = weights.size
    # Python's sum over columns is several times faster than NumPy's along rows of a few entries.
    log_mean = np.log(mean / sum(mean.T)[:, None])
    if n_draws == 1 or not (mean > _LEAST).all():
        tiny = ~(mean > _LEAST).all(axis=1) | (n_draws == 1)
        log_mean[tiny] = logsumexp(exact(tiny) + np.log(weights), axis=2).T
    return log_mean
