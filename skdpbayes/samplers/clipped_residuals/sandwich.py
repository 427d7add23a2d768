"""Draws that are as wide as they should be where errors vary with the rows.

    M = sum_i w_i^2 v_i psi_i^2 z_i z_i^T + N,      E M = n b o (diag(f) + R)

at the last point, with the mean square ``b`` of clipped residuals there, and a mean weight ``o``, 1 if
records have none. ``R`` is zero if errors have nothing to do with rows; entries are ``N(0, k^2 f_i f_j)`` a
priori, ``k`` learnt. In its eigenvectors, relative to ``f``, mean squares are ``b r_j``, and say how large
errors are along each: ``s_j``. So they say how many residuals are not clipped, ``c(s_j)``, and hence the
slope of a look, which takes ``c(s) diag(f)`` for

    c(s) G,      G = f^1/2 (sum_j c(s_j) / c(s) q_j q_j^T) f^1/2

Let looks have the weights ``a_ki`` in the score of ``u_i``, covariances ``n S diag(f)`` besides noise, and
slopes ``n c_k diag(f)``, and let ``J`` be the information of all, ``P`` of it the prior's. Draws are
stretched around the mode so that their covariance is not ``J^-1`` but

    V = D^-1 (J + K) D^-T,   K_ij = n (o f + o R - f)_ij a_i . S a_j,   D_ij = n a_i . c G_ij + P_ij

(Shaby, "The open-faced sandwich adjustment for Markov chain Monte Carlo using estimating functions", 2014).
"""

import numpy as np

from ..._linalg import cholesky, eigh, inv, solve
from ..noise_aware.design import variance_component
from .clipped_normal import clipped_normal, deviation_of

# Of ``k^2``: what is usual, how many entries that is worth, and limits.
_USUAL, _WORTH, _LIMITS = 0.01, 4.0, (1e-6, 4.0)
# ``o`` over the largest weight, at least.
_LEAST_WEIGHT = 0.02
# Of ``r_j``, at least.
_LEAST_SHARE = 0.05
# How much narrower or wider draws become in any direction, at most.
_NARROWEST, _WIDEST = 0.6, 4.0


def varying_part(matrix, noise, records, curvature, largest=None):
    """Return ``o`` and ``R`` as they are believed to be.

    Parameters
    ----------
    matrix : ndarray of shape (length, length)
        ``M``.
    noise : float
        Deviation of the noise on its diagonal.
    records : float
        ``n b``.
    curvature : ndarray of shape (length,)
        ``f``.
    largest : float or None, default=None
        The largest weight; None if records have none.
    """
    length, whole = curvature.size, 1.0
    if largest is not None:
        found = float(np.mean(np.diag(matrix) / curvature)) / records
        variance = float(np.sum(curvature**-2.0)) * (noise / records / length) ** 2
        # One weight is as likely to be the usual one as another.
        share = largest**2 / (largest**2 + variance)
        whole = min(max(largest + share * (found - largest), _LEAST_WEIGHT * largest), largest)
    excess = matrix / (whole * records) - np.diag(curvature)
    known = (noise / (whole * records)) ** 2 * 0.5 * (1.0 + np.eye(length))
    units = np.outer(curvature, curvature)
    prior = units * variance_component(excess**2, known, units, _USUAL, _WORTH, _LIMITS)
    return whole, excess * prior / (prior + known)


def slopes_of(varying, curvature, square, clip):
    """Return ``G``.

    Parameters
    ----------
    varying : ndarray of shape (length, length)
        ``R``.
    curvature : ndarray of shape (length,)
        ``f``.
    square, clip : float
        ``b``, and the clip of residuals.
    """
    root = np.sqrt(curvature)
    shares, vectors = eigh(np.eye(root.size) + varying / np.outer(root, root))
    squares = square * np.append(np.maximum(shares, _LEAST_SHARE), 1.0)
    slopes = clipped_normal(0.0, deviation_of(squares, clip), clip).slope
    vectors = root[:, None] * vectors
    return (vectors * (slopes[:-1] / slopes[-1])) @ vectors.T


def stretch_of(surrogate, varying, slopes):
    """Return the matrix by which draws are stretched around the mode.

    Parameters
    ----------
    surrogate : Surrogate
        At its mode.
    varying, slopes : ndarray of shape (length, length)
        ``o (diag(f) + R) - diag(f)``, and ``G``.

    Returns
    -------
    stretch : ndarray of shape (length, length)
    """
    n, f, length = surrogate.n_samples, surrogate.curvature, len(varying)
    weights, errors, c = surrogate.scores_of_looks(surrogate.start)
    # Of the coefficients alone, whatever the errors' deviation is.
    covariance = inv(surrogate.information(surrogate.start))[:length, :length]
    information = inv(covariance)
    variance = information + n * varying * (weights.T @ errors @ weights)
    changed = information + n * (c @ weights)[:, None] * (slopes - np.diag(f))
    factor = cholesky(covariance)
    bread = solve(factor, inv(changed))
    values, vectors = eigh(bread @ variance @ bread.T)
    wider = np.sqrt(np.clip(values, _NARROWEST**2, _WIDEST**2))
    return factor @ (vectors * wider) @ solve(factor.T, vectors).T
