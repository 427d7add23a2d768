"""Losses of a logistic target with their first two derivatives, for those who read records without privacy.

    g_k = sum_i (p_ik - [y_i = k]) x_i
    H_kl = sum_i p_ik ([k = l] - p_il) x_i x_i^T <= sum_i B_kl x_i x_i^T

``B`` is 1/4 for two classes, which have one block, and ``(I - 1 1^T / K) / 2`` for the softmax of ``K``
(Böhning, 1992).
"""

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, log_softmax

from .._silence import silently
from ._moments import _blocks
from ._weighted import _with_constant


@silently()
def loss_and_derivatives(target, theta):
    """Return the summed loss, its gradient and its Hessian at ``theta``. **They are not private.**

    Parameters
    ----------
    target : NamedTuple
        A logistic target.
    theta : ndarray of shape (n_parameters,)

    Returns
    -------
    loss : float
    gradient : ndarray of shape (n_parameters,)
    hessian : ndarray of shape (n_parameters, n_parameters)
    """
    blocks = theta.reshape(getattr(target, "n_classes", 1), -1)
    n_blocks, length = blocks.shape
    loss, gradient = 0.0, np.zeros((length, n_blocks))
    hessian = np.zeros((n_blocks, length, n_blocks, length))
    for part, rows in _blocks(target):
        rows = _with_constant(rows, target.intercept_scaling)
        logits, labels = rows @ blocks.T, target.labels[part]
        if n_blocks == 1:
            shares, hits = expit(logits), labels[:, None]
            loss += np.sum(np.logaddexp(0.0, logits) - hits * logits)
        else:
            logs, hits = log_softmax(logits, axis=1), labels[:, None] == np.arange(n_blocks)
            shares = np.exp(logs)
            loss -= np.sum(logs[hits])
        gradient += rows.T @ (shares - hits)
        for k in range(n_blocks):
            for other in range(k, n_blocks):
                each = (shares[:, k] * ((k == other) - shares[:, other]))[:, None]
                weighted = rows.multiply(each).tocsr() if sp.issparse(rows) else rows * each
                product = rows.T @ weighted
                hessian[k, :, other] += product.toarray() if sp.issparse(product) else product
    for k in range(n_blocks):
        for other in range(k):
            hessian[k, :, other] = hessian[other, :, k].T
    return loss, gradient.T.ravel(), hessian.reshape(theta.size, theta.size)


def curvature_bound(moment, n_blocks):
    """Return a matrix that is nowhere smaller than the Hessian, from the rows' second moment."""
    if n_blocks == 1:
        return moment / 4.0
    return np.kron((np.eye(n_blocks) - 1.0 / n_blocks) / 2.0, moment)
