"""Densities of many Gaussian mixtures at many points, computed in small blocks.

    log p(x, k | s) = log w_sk + log det F_sk - |F_sk^T (x - m_sk)|^2 / 2 - (d / 2) log 2 pi,
    log p(x)        = log (1/S) sum_s sum_k p(x, k | s),
    p(k | x)        = (1/S) sum_s p(k | x, s),

with factors ``F F^T`` of the precisions. All on the log scale, so that results stay finite at far points.
Factors have shape (S, K, 1 or d) if they are diagonal, else (S, 1 or K, d, d), lower triangular.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from .._linalg import inv, solve
from .predictive import normalized
from .relabelling import relabel, reorder

_BLOCK_ENTRIES = 2**18
# Square root of the largest double, with room for a sum of squares.
_LARGEST_ROOT = 1e153


class Mixtures(NamedTuple):
    """Draws of a mixture in the form that densities are computed from.

    Attributes
    ----------
    weights : ndarray of shape (S, K)
        Mixture weights.
    means : ndarray of shape (S, K, d)
        Means.
    factors : ndarray of shape (S, K, 1 or d) or (S, 1 or K, d, d)
        Factors of the precisions.
    """

    weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray


class MixtureDraws(NamedTuple):
    """Draws of a mixture, with consistent labels of the components.

    Attributes
    ----------
    weights : ndarray of shape (n_draws, n_components)
        Weights; they sum to one.
    means : ndarray of shape (n_draws, n_components, n_features)
        Means.
    covariances : ndarray
        Shape (n_draws, n_components) if "spherical" (variances), (n_draws, n_components, n_features) if
        "diag" (variances), (n_draws, n_features, n_features) if "tied", and (n_draws, n_components,
        n_features, n_features) if "full".
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray


def relabelled(weights, means, factors, covariance_type, order=None):
    """Give draws one labelling.

    Parameters
    ----------
    weights, means, factors : ndarray
        Draws, as `unpack_mixture` returns them.
    covariance_type : {"spherical", "diag", "tied", "full"}
    order : ndarray of shape (n_components,) or None, default=None
        The order of the components, if all draws have the same labels already.

    Returns
    -------
    mixtures : Mixtures
        Draws with common labels.
    covariances : ndarray of the shape of ``factors``
    """
    if covariance_type == "tied":
        factors = factors[:, None]
    covariances = _covariances_of(factors)
    if order is not None:
        order = np.broadcast_to(order, weights.shape)
    elif covariance_type == "spherical":
        order = relabel(weights, means, np.broadcast_to(covariances[:, :, None], means.shape))
    else:
        order = relabel(weights, means, covariances)
    if covariance_type == "tied":
        return Mixtures(reorder(weights, order), reorder(means, order), factors), covariances[:, 0]
    if covariance_type == "spherical":
        factors = factors[:, :, None]
    mixtures = Mixtures(*(reorder(part, order) for part in (weights, means, factors)))
    return mixtures, reorder(covariances, order)


def _covariances_of(factors):
    """Return the inverses of ``F F^T``, for matrices of shape (S, 1 or K, d, d) or for numbers."""
    if factors.ndim < 4:
        return factors**-2.0
    inverse = inv(factors)
    covariances = inverse.swapaxes(-1, -2) @ inverse
    return (covariances + covariances.swapaxes(-1, -2)) / 2.0


def log_density(X, mixtures):
    """Return the log of the density averaged over the draws, of shape (n,)."""
    log_sums = np.full(X.shape[0], -np.inf)
    for rows, block in _log_joint_blocks(X, mixtures):
        log_sums[rows] = np.logaddexp(log_sums[rows], logsumexp(block, axis=(0, 1)))
    return log_sums - math.log(mixtures.weights.shape[0])


def mean_responsibilities(X, mixtures):
    """Return the probabilities of the components, averaged over the draws, of shape (n, K)."""
    sums = np.zeros((X.shape[0], mixtures.weights.shape[1]))
    for rows, block in _log_joint_blocks(X, mixtures):
        sums[rows] += softmax(block, axis=1).sum(axis=0).T
    return normalized(sums)


def sample_mixtures(n_samples, mixtures, rng):
    """Sample points, each from one of the draws, and return them with their components."""
    n_draws, _, n_features = mixtures.means.shape
    draws = rng.randint(n_draws, size=n_samples)  # Post-processing.
    cumulative = np.cumsum(mixtures.weights[draws], axis=1)
    # Post-processing.
    labels = (rng.uniform(size=(n_samples, 1)) * cumulative[:, -1:] > cumulative).sum(axis=1)
    points = rng.standard_normal((n_samples, n_features))  # Post-processing.
    if mixtures.factors.ndim == 3:
        points /= mixtures.factors[draws, labels]
    else:
        size = max(1, _BLOCK_ENTRIES // n_features**2)
        for i in range(0, n_samples, size):
            rows = slice(i, i + size)
            shared = mixtures.factors.shape[1] == 1
            factors = mixtures.factors[draws[rows], 0 if shared else labels[rows]]
            points[rows] = solve(factors.swapaxes(1, 2), points[rows, :, None])[:, :, 0]
    return points + mixtures.means[draws, labels], labels


def _log_joint_blocks(X, mixtures):
    """Yield slices of rows with ``log p(x, k | s)``, of shape (some draws, K, these rows)."""
    n_draws, n_components, n_features = mixtures.means.shape
    # Beyond this limit, squares would overflow.
    limit = _LARGEST_ROOT / (n_features**1.5 * max(1.0, float(np.abs(mixtures.factors).max())))
    n_rows = max(1, _BLOCK_ENTRIES // (n_components * n_features))
    for i in range(0, X.shape[0], n_rows):
        rows = slice(i, i + n_rows)
        points = np.clip(X[rows].astype(np.float64), -limit, limit)
        size = max(1, _BLOCK_ENTRIES // (points.size * n_components))
        for s in range(0, n_draws, size):
            yield rows, _log_joint(points, Mixtures(*(part[s : s + size] for part in mixtures)))


def _log_joint(points, mixtures):
    weights, means, factors = mixtures
    n_features = means.shape[2]
    gaps = points - means[:, :, None]
    if factors.ndim == 3:
        gaps *= factors[:, :, None]
        log_det = np.log(factors).sum(axis=2) * (n_features / factors.shape[2])
    else:
        gaps = gaps @ factors
        log_det = np.log(np.diagonal(factors, axis1=2, axis2=3)).sum(axis=2)
    # The weight of an empty component may underflow.
    constants = np.log(weights) + log_det - 0.5 * n_features * math.log(2.0 * math.pi)
    return constants[:, :, None] - 0.5 * np.einsum("sknj,sknj->skn", gaps, gaps)
