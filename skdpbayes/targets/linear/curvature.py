"""Losses of a logistic target with their first two derivatives, for those who read records without privacy.

    g_k = sum_i (p_ik - [y_i = k]) x_i
    H_kl = sum_i p_ik ([k = l] - p_il) x_i x_i^T <= sum_i B_kl x_i x_i^T

``B`` is 1/4 for two classes, which have one block, and ``(I - 1 1^T / K) / 2`` for the softmax of ``K``
(Böhning, 1992).
"""

import numpy as np

from .links import BinaryLink, SoftmaxLink
from .weighted import sum_of_losses, weighted_sums


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
    n_blocks = getattr(target, "n_classes", 1)
    link = BinaryLink() if n_blocks == 1 else SoftmaxLink(n_blocks, np.eye(n_blocks))
    blocks = theta.reshape(n_blocks, -1)
    gradient, hessian = weighted_sums(target, link, np.ones(target.scale.size), blocks)
    return sum_of_losses(target, link, blocks), gradient.ravel(), hessian


def curvature_bound(moment, n_blocks):
    """Return a matrix that is nowhere smaller than the Hessian, from the rows' second moment."""
    if n_blocks == 1:
        return moment / 4.0
    return np.kron((np.eye(n_blocks) - 1.0 / n_blocks) / 2.0, moment)
