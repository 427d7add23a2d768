"""Averages of predictive probabilities over posterior draws.

    log p(y | x) = log (1/S) sum_s p(y | x, theta_s)

On the log scale throughout, so that certain predictions stay finite.
"""

import numpy as np
from scipy.special import log_expit, log_softmax, logsumexp


def average_binary(logits):
    """Log probabilities, (n, 2), of logits of shape (n, n_draws)."""
    log_draws = np.log(logits.shape[1])
    sides = [logsumexp(log_expit(sign * logits), axis=1) - log_draws for sign in (-1.0, 1.0)]
    return np.column_stack(sides)


def average_softmax(n_classes, logits):
    """Log probabilities, (n, n_classes), of logits (n, n_draws * n_classes), classes last."""
    logits = logits.reshape(logits.shape[0], -1, n_classes)
    return logsumexp(log_softmax(logits, axis=2), axis=1) - np.log(logits.shape[1])
