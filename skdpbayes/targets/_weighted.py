"""Weights of a logistic target's records in other coordinates; gradients and curvatures of two classes.

    v_i = min(1, C^2 / |W^T x_i|^2)
    g(u) = W^T sum_i v_i (sigma(x_i . W u) - y_i) x_i,      |g_i| <= C
    F(u) = W^T sum_i v_i sigma'(x_i . W u) x_i x_i^T W,     |F_i| <= C^2 / 4

A record that is long counts less, and is never shortened: its logit keeps the whole row, so that the
weighted sum of losses has its minimum where the model says (Mallows' weights).
"""

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from .._silence import silently
from ._moments import _blocks


def _with_constant(rows, constant):
    if constant == 0:
        return rows
    column = np.full((rows.shape[0], 1), constant)
    return (
        sp.hstack([rows, column], format="csr") if sp.issparse(rows) else np.hstack([rows, column])
    )


@silently()
def record_weights(target, transform, norm):
    """Return ``v``: what records count. **It is not private.**

    Parameters
    ----------
    target : NamedTuple
        A logistic target.
    transform : ndarray of shape (length, length)
        ``W``.
    norm : float
        ``C``.

    Returns
    -------
    weights : ndarray of shape (n_samples,)
        In [0, 1].
    """
    weights = np.empty(target.scale.size)
    for part, rows in _blocks(target):
        moved = _with_constant(rows, target.intercept_scaling) @ transform
        squares = np.einsum("ij,ij->i", moved, moved)
        # What is no number does not count.
        weights[part] = np.nan_to_num(np.minimum(1.0, norm**2 / squares), nan=0.0)
    return weights


@silently()
def weighted_sums(target, weights, theta, curvature):
    """Return the sums of weighted gradients, and of curvatures if wanted, at ``theta``. **Not private.**

    Parameters
    ----------
    target : NamedTuple
        A binary logistic target.
    weights : ndarray of shape (n_samples,)
    theta : ndarray of shape (length,)
    curvature : bool
        Whether the second is wanted, else it is None.

    Returns
    -------
    gradient : ndarray of shape (length,)
    matrix : ndarray of shape (length, length) or None
    """
    gradient = np.zeros(theta.size)
    matrix = np.zeros((theta.size, theta.size)) if curvature else None
    for part, rows in _blocks(target):
        rows = _with_constant(rows, target.intercept_scaling)
        shares = expit(rows @ theta)
        gradient += rows.T @ (weights[part] * (shares - target.labels[part]))
        if curvature:
            each = (weights[part] * shares * (1.0 - shares))[:, None]
            product = rows.T @ (rows.multiply(each).tocsr() if sp.issparse(rows) else rows * each)
            matrix += product.toarray() if sp.issparse(product) else product
    return gradient, matrix
