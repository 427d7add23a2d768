"""Probabilities of classes as functions of logits, in as many blocks as labels can tell apart.

    p = softmax(H eta),    mean  H^T p,    slope  H^T (diag(p) - p p^T) H

``H`` has a row for every class. Two classes have one logit, ``H = (0, 1)^T``, whose mean and slope are
``sigma`` and ``sigma (1 - sigma)``. ``K > 2`` classes have ``K - 1``: the columns of ``H`` are orthonormal
and sum to 0, since adding one vector to the coefficients of all classes changes no probability.

A residual is at most ``sqrt(2)``, two probability vectors being no farther apart, and a slope at most 1/2:

    ||diag(p) - p p^T||_F^2 = s - 2 c + s^2 <= s - s^2 <= 1/4,    s = sum p_k^2,  c = sum p_k^3 >= s^2.

Of two classes they are at most 1 and 1/4.
"""

import math

import numpy as np
import scipy.sparse as sp
from scipy.linalg import helmert
from scipy.special import logsumexp


class BinaryLink:
    """One logit, that of the second class."""

    n_blocks = 1
    residual_bound = 1.0
    slope_bound = 0.25
    contrasts = np.array([[0.0], [1.0]])

    def probabilities(self, logits):
        """Return the second class's, for logits of shape (..., 1, n)."""
        # Four times as fast as scipy's expit, because numpy's exp is vectorised.
        with np.errstate(over="ignore"):
            p = np.exp(-logits)
        p += 1.0
        return np.reciprocal(p, out=p)

    def mean(self, probabilities):
        """Return ``H^T p``."""
        return probabilities

    def slope_times(self, probabilities, vectors):
        """Return ``H^T (diag(p) - p p^T) H a`` for ``a`` of shape (..., 1, n)."""
        return probabilities * (1.0 - probabilities) * vectors

    def size_of_slope(self, probabilities):
        """Return the trace of a slope over the number of blocks, of shape (..., n)."""
        return (probabilities * (1.0 - probabilities))[..., 0, :]

    def losses(self, logits, labels):
        """Return ``-log p_y`` for logits of shape (1, n)."""
        return np.logaddexp(0.0, logits[0]) - labels * logits[0]

    def bend(self, probabilities):
        """Return the derivative of `size_of_slope` by logits."""
        return probabilities * (1.0 - probabilities) * (1.0 - 2.0 * probabilities)


class SoftmaxLink:
    """``K - 1`` logits, contrasts of those of ``K`` classes.

    Parameters
    ----------
    n_classes : int
    contrasts : ndarray of shape (n_classes, n_blocks) or None, default=None
        ``H``; the identity has a logit for every class.
    """

    residual_bound = math.sqrt(2.0)
    slope_bound = 0.5

    def __init__(self, n_classes, contrasts=None):
        self.contrasts = helmert(n_classes).T if contrasts is None else contrasts
        self.n_blocks = self.contrasts.shape[1]

    def probabilities(self, logits):
        """Return ``p``, of shape (..., n_classes, n), for logits of shape (..., n_blocks, n)."""
        # In place, where scipy's softmax spends most of its time on arrays in between.
        p = self.contrasts @ logits
        p -= p.max(axis=-2, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(axis=-2, keepdims=True)
        return p

    def mean(self, probabilities):
        """Return ``H^T p``."""
        return self.contrasts.T @ probabilities

    def slope_times(self, probabilities, vectors):
        """Return ``H^T (diag(p) - p p^T) H a`` for ``a`` of shape (..., n_blocks, n)."""
        moved = probabilities * (self.contrasts @ vectors)
        moved -= probabilities * moved.sum(axis=-2, keepdims=True)
        return self.contrasts.T @ moved

    def size_of_slope(self, probabilities):
        """Return the trace of a slope over the number of blocks, of shape (..., n)."""
        return (1.0 - np.sum(probabilities**2, axis=-2)) / self.n_blocks

    def losses(self, logits, labels):
        """Return ``-log p_y`` for logits of shape (n_blocks, n)."""
        logits = self.contrasts @ logits
        return logsumexp(logits, axis=0) - logits[labels, np.arange(labels.size)]

    def bend(self, probabilities):
        """Return the derivative of `size_of_slope` by logits."""
        miss = probabilities**2
        miss -= probabilities * miss.sum(axis=-2, keepdims=True)
        return -2.0 / self.n_blocks * (self.contrasts.T @ miss)


def link_of(n_classes):
    """Return the link for a number of classes."""
    return BinaryLink() if n_classes == 2 else SoftmaxLink(n_classes)


def slope_matrix(link, probabilities, weights, rows):
    """Return ``sum_i w_i slope_i (x) x_i x_i^T``, blocks of coefficients one after the other.

    Parameters
    ----------
    link : BinaryLink or SoftmaxLink
    probabilities : ndarray of shape (..., n)
        As the link returns them.
    weights : ndarray of shape (n,)
        Not negative.
    rows : {ndarray, sparse array} of shape (n, length)

    Returns
    -------
    matrix : ndarray of shape (n_blocks * length, n_blocks * length)
    """
    n_blocks, length = link.n_blocks, rows.shape[1]
    matrix = np.empty((n_blocks, length, n_blocks, length))
    for j, unit in enumerate(np.eye(n_blocks)):
        slopes = link.slope_times(probabilities, unit[:, None])
        for i in range(j, n_blocks):
            each = weights * slopes[i]
            # The product of a matrix with itself takes half the time.
            right = _times(rows, np.sqrt(np.abs(each)))
            left = right if i == j else _times(right, np.sign(each))
            product = left.T @ right
            matrix[i, :, j] = product.toarray() if sp.issparse(product) else product
            matrix[j, :, i] = matrix[i, :, j].T
    return matrix.reshape(n_blocks * length, n_blocks * length)


def _times(rows, factors):
    factors = factors[:, None]
    return rows.multiply(factors).tocsr() if sp.issparse(rows) else rows * factors
