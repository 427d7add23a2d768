"""Averages of predictive probabilities over posterior draws.

    log p(y | x) = log (1/S) sum_s p(y | x, theta_s)

Probabilities are averaged in single precision, to about six digits. Where one of them would be too small for
that, averages are taken on the log scale, so that certain predictions stay finite; and a single draw is no
average.
"""

from functools import partial

import numpy as np
from scipy.special import log_expit, log_softmax, logsumexp

# What is that small may have underflowed in all but a few draws.
_LEAST = 1e-30


def average_binary(logits):
    """Log probabilities, (n, 2), of logits of shape (1, n, n_draws)."""
    first = np.exp(-logits[0].astype(np.float32))  # The odds of the first class.
    second = np.reciprocal(1.0 + first)
    first *= second
    return _on_log_scale([first, second], logits, _log_binary)


def _log_binary(logits):
    return np.stack([log_expit(-logits[0]), log_expit(logits[0])])


def average_softmax(logits):
    """Log probabilities, (n, n_classes), of logits of shape (n_classes, n, n_draws)."""
    shares = (logits - logits.max(axis=0)).astype(np.float32)
    np.exp(shares, out=shares)
    shares /= shares.sum(axis=0)
    return _on_log_scale(shares, logits, partial(log_softmax, axis=0))


def _on_log_scale(shares, logits, exact):
    """Return the logs of the means of probabilities over draws; ``exact`` has the logs of tiny ones."""
    mean = np.stack([share.mean(axis=1) for share in shares], axis=1).astype(float)
    with np.errstate(divide="ignore"):
        log_mean = np.log(mean / mean.sum(axis=1, keepdims=True))
    tiny = ~(mean > _LEAST).all(axis=1) | (logits.shape[2] == 1)
    if tiny.any():
        own = logsumexp(exact(logits[:, tiny]), axis=2) - np.log(logits.shape[2])
        log_mean[tiny] = own.T
    return log_mean
