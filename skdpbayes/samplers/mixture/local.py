"""Statistics in the components' own coordinates, in which records that are far away count less.

    z_k = L_k^-1 (x - m_k),      t(z) = (c_0, c_1 z, c_2 z z^T),      v_k = r_k(x) min(1, B / |t(z_k)|)
    S_k = sum_i v_k(x_i) t(z_k(x_i)),      |(v_k t_k)_k| <= B

``z^2`` or ``|z|^2`` is in the place of ``z z^T`` where covariances are diagonal or spherical. As ``B`` is a
few standard deviations of ``t``, noise is relative to the components, and not to the ball of the rows.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2, norm, qmc

from ..._linalg import cholesky, eigh, inv, solve
from ...privacy.floating_point import UNIT_ROUNDOFF, covered_records
from .scales import statistics_length

BLOCK_ROWS = 4096
# Smallest of a reference's variances, in the unit ball, and of its weights.
LEAST_VARIANCE, LEAST_WEIGHT = 1e-6, 0.002
# Quantiles at which moments of ``v t`` are averaged.
_N_QUANTILES = 2**17


class Reference(NamedTuple):
    """A mixture in the unit ball.

    Attributes
    ----------
    covariance_type : str
    counts : ndarray of shape (n_components,)
        How many records the components have.
    means : ndarray of shape (n_components, n_features)
    factors : ndarray of shape (n_components, n_features) or (n_components, n_features, n_features)
        ``L``, deviations or lower triangular.
    """

    covariance_type: str
    counts: np.ndarray
    means: np.ndarray
    factors: np.ndarray

    @property
    def weights(self):
        """Shares of the components."""
        return self.counts / self.counts.sum()

    def widened(self, factor):
        """Return a mixture whose deviations are larger."""
        return self._replace(factors=factor * self.factors)

    def regular(self):
        """Return the nearest mixture with no component that is empty, degenerate or outside the ball."""
        counts = np.maximum(self.counts, LEAST_WEIGHT * self.counts.sum())
        means = self.means / np.maximum(1.0, np.linalg.norm(self.means, axis=1, keepdims=True))
        if self.factors.ndim == 2:
            factors = np.clip(self.factors, math.sqrt(LEAST_VARIANCE), 1.0)
        else:
            values, vectors = eigh(self.factors @ self.factors.transpose(0, 2, 1))
            values = np.clip(values, LEAST_VARIANCE, 1.0)
            covariances = (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1)
            factors = cholesky(covariances)
        return Reference(
            self.covariance_type, counts / counts.sum() * self.counts.sum(), means, factors
        )

    def steepness(self):
        """Return what rounding of a row can be multiplied by in its coordinates."""
        inverse = 1.0 / self.factors if self.factors.ndim == 2 else inv(self.factors)
        norms = np.linalg.norm(inverse.reshape(len(inverse), -1), axis=1)
        return float(np.max(norms * (1.0 + np.linalg.norm(self.means, axis=1))))

    def points(self, component, normal):
        """Return rows of a component, for standard normal ones."""
        factor = self.factors[component]
        moved = normal * factor if factor.ndim == 1 else normal @ factor.T
        return self.means[component] + moved


def _weighted(rows, reference, scales):
    """Return (a list of ``z_k``, their squared norms, ``v``)."""
    is_matrix = reference.factors.ndim == 3
    inverses = inv(reference.factors) if is_matrix else 1.0 / reference.factors
    logits = np.empty((len(rows), len(reference.counts)))
    shrinking = np.empty_like(logits)
    local, squares = [], []
    logs = np.log(reference.weights)
    for k, inverse in enumerate(inverses):
        gaps = rows - reference.means[k]
        z = gaps @ inverse.T if is_matrix else gaps * inverse
        square = np.einsum("ij,ij->i", z, z)
        fourth = square**2
        if reference.covariance_type == "diag":
            fourth = np.einsum("ij,ij->i", z**2, z**2)
        length = np.sqrt(scales.count**2 + scales.mean**2 * square + scales.second**2 * fourth)
        shrinking[:, k] = np.minimum(1.0, scales.norm / length)
        diagonal = np.diagonal(inverse) if is_matrix else inverse
        logits[:, k] = logs[k] + np.log(diagonal).sum() - 0.5 * square
        local.append(z)
        squares.append(square)
    logits -= logits.max(axis=1, keepdims=True)
    shares = np.exp(logits)
    shares /= shares.sum(axis=1, keepdims=True)
    return local, squares, shares * shrinking


@lru_cache(maxsize=32)
def lower_entries(n_features):
    """Return (rows, columns, weights) of a symmetric matrix's lower triangle, with its norm."""
    rows, columns = np.tril_indices(n_features)
    return rows, columns, np.where(rows == columns, 1.0, math.sqrt(2.0))


def local_sums(table, reference, scales):
    """Return ``S``, a vector. **It is not private.**"""
    total: np.ndarray | float = 0.0
    rows, columns, twice = lower_entries(reference.means.shape[1])
    for first in range(0, len(table.scale), BLOCK_ROWS):
        part = slice(first, first + BLOCK_ROWS)
        block = table.values[part].astype(np.float64) * table.scale[part, None]
        local, squares, v = _weighted(block, reference, scales)
        sums = []
        for k, z in enumerate(local):
            own = v[:, k]
            if reference.covariance_type == "diag":
                second = own @ z**2
            elif reference.covariance_type == "spherical":
                second = np.array([own @ squares[k]])
            else:
                second = ((z * own[:, None]).T @ z)[rows, columns] * twice
            sums += [[scales.count * own.sum()], scales.mean * (own @ z), scales.second * second]
        total = total + np.concatenate(sums)
    return total


def local_features(rows, reference, scales):
    """Return what each of some rows adds to ``S``, of shape (n_rows, n)."""
    local, _, v = _weighted(rows, reference, scales)
    factors = np.repeat(scales[:3], [1, rows.shape[1], _n_second(reference)])
    return np.hstack(
        [
            v[:, k, None] * (factors * sufficient(z, reference.covariance_type))
            for k, z in enumerate(local)
        ]
    )


def _n_second(reference):
    return statistics_length(reference.covariance_type, reference.means.shape[1]) - (
        1 + reference.means.shape[1]
    )


def sufficient(z, covariance_type):
    """Return ``(1, z, z z^T)`` of rows, of shape (n_rows, length)."""
    if covariance_type == "diag":
        second = z**2
    elif covariance_type == "spherical":
        second = np.einsum("ij,ij->i", z, z)[:, None]
    else:
        rows, columns, twice = lower_entries(z.shape[1])
        second = z[:, rows] * z[:, columns] * twice
    return np.hstack([np.ones((len(z), 1)), z, second])


@lru_cache(maxsize=8)
def normal_points(n_points, n_features):
    """Return fixed standard normal points, evenly spread, with the first two moments as they should be.

    Sobol's points and their opposites; ``n_points`` is a power of two.
    """
    uniform = qmc.Sobol(n_features, seed=0).random(n_points // 2)  # Public: fixed points.
    points = norm.ppf(np.clip(uniform, 1e-9, 1.0 - 1e-9))
    points = np.concatenate([points, -points])
    factor = cholesky(points.T @ points / len(points))
    points = solve(factor, points.T).T
    points.setflags(write=False)
    return points


@lru_cache(maxsize=32)
def own_moments(covariance_type, n_features, scales):
    """Return the mean of ``min(1, B / |t|) t`` of a standard normal vector."""
    d, diagonal = n_features, covariance_type == "diag"
    if diagonal and d > 1:
        squares = normal_points(2 ** min(18, 23 - d.bit_length()), d) ** 2
        square, fourth = squares.sum(axis=1), (squares**2).sum(axis=1)
    else:
        square = chi2.ppf((np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES, d)
        fourth = square**2
    length = np.sqrt(scales.count**2 + scales.mean**2 * square + scales.second**2 * fourth)
    shrinking = np.minimum(1.0, scales.norm / length)
    each = float(np.mean(shrinking * square)) / d
    rows, columns, _ = lower_entries(d)
    second = {"diag": np.full(d, each), "spherical": np.array([d * each])}.get(
        covariance_type, np.where(rows == columns, each, 0.0)
    )
    return np.concatenate([[scales.count * shrinking.mean()], np.zeros(d), scales.second * second])


def inflation(n_samples, relation, reference):
    """Return by what rounding can enlarge the difference of two tables' sums.

    A row's coordinates are off by ``d u`` times the steepness, the logarithm of its density by as much times
    the distance, which is at most twice the steepness; and there are as many additions as rows in a block,
    and blocks.
    """
    n = covered_records(n_samples, relation)
    steep = reference.steepness()
    of_row = (reference.means.shape[1] + 8) * (16.0 + 8.0 * steep**2)
    chain = BLOCK_ROWS + n / BLOCK_ROWS
    return 1.0 + 4.0 * UNIT_ROUNDOFF * n * (chain + of_row)
