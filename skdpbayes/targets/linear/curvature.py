"""Losses of linear models with their first two derivatives, for those who read records without privacy.

    g = sum_i r_i (x) x_i,      H = sum_i S_i (x) x_i x_i^T <= B (x) sum_i x_i x_i^T

with a family's residuals ``r``, its slopes ``S``, and ``B`` its largest slope: 1/4 for two classes, and
``(I - 1 1^T / K) / 2`` for the softmax of ``K`` (Böhning, 1992).
"""

import numpy as np

from .weighted import sum_of_losses, weighted_sums


def loss_and_derivatives(target, theta):
    """Return the summed loss, its gradient and its Hessian at ``theta``. **They are not private.**

    Parameters
    ----------
    target : NamedTuple
        A linear model's target.
    theta : ndarray of shape (n_parameters,)

    Returns
    -------
    loss : float
    gradient : ndarray of shape (n_parameters,)
    hessian : ndarray of shape (n_parameters, n_parameters)
    """
    family = target.family
    blocks = theta.reshape(family.n_blocks, -1)
    gradient, hessian = weighted_sums(target, family, np.ones(target.scale.size), blocks)
    return sum_of_losses(target, family, blocks), gradient.ravel(), hessian


def curvature_bound(moment, family):
    """Return a matrix that is nowhere smaller than the Hessian, from the rows' second moment."""
    return np.kron(family.largest_slope, moment)
