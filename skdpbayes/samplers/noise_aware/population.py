"""Rows that stand for those of a table.

    S(u) = n / M sum_i v_i H^T (p_i - 1/K) (x) z_i,      v_i = min(1, C^2 / |z_i|^2),      i = 1..M

They are normal with exactly the moments of a `Design`. With two classes sums over endlessly many such rows
have a closed form, see `normal_population`.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..._linalg import cholesky, eigh, solve
from ...targets.linear.family import ClassFamily
from ...targets.linear.weighted import slope_matrix
from .normal_population import normal_population


@dataclass(frozen=True)
class Population:
    """Rows that stand for those of a table.

    Attributes
    ----------
    family : ClassFamily
    rows : ndarray of shape (n_rows, length)
    weights : ndarray of shape (n_rows,)
        ``v``.
    size : float
        How many records a row stands for.
    """

    family: ClassFamily
    rows: np.ndarray
    weights: np.ndarray
    size: float

    @property
    def mean_weight(self):
        """Mean of ``v``."""
        return self.weights.mean()

    @property
    def total_weight(self):
        """Sum of ``v`` over records."""
        return float(self.size * self.weights.sum())

    @property
    def mean_squares(self):
        """Of coordinates, without weights."""
        return np.mean(self.rows**2, axis=0)

    @property
    def n_logits(self):
        """How many logits a point has."""
        return self.family.n_blocks * len(self.rows)

    def at(self, u):
        """Return probabilities for points of shape (n_points, n_blocks * length)."""
        return self.family.inverse_link(self._logits(u))

    def score(self, probabilities):
        """Return ``S``, of shape (n_points, n_blocks * length)."""
        return self._summed(self.family.mean(probabilities))

    @cached_property
    def origin(self):
        """``S(0)``."""
        zero = np.zeros((1, self.family.n_blocks * self.rows.shape[1]))
        return self.score(self.at(zero))[0]

    def change(self, u):
        """Return ``f``."""
        return self.score(self.at(u)) - self.origin

    def curvature(self, u):
        """Return ``S'`` at one point."""
        probabilities = self.at(u[None])[0]
        return self.size * slope_matrix(self.family, probabilities, self.weights, self.rows)

    def slope_times(self, probabilities, vectors):
        """Return ``S' a`` for vectors ``a`` like points."""
        return self._summed(self.family.slope_times(probabilities, self._logits(vectors)))

    def mean_variance(self, probabilities):
        """Return the mean slope of a row, of shape (n_points,)."""
        return self.family.mean_variance(probabilities) @ self.weights / self.weights.size

    def pulled(self, probabilities, vectors, factors):
        """Return ``S' a`` plus ``factors``, of shape (n_points,), times the gradients of the mean slope."""
        logits = self._logits(vectors)
        factors = factors / (self.size * self.weights.size)
        # Both are derivatives of a probability's: what they have in common is computed once.
        logits += factors[:, None, None] * self.family.mean_variance_by_mean(probabilities)
        return self._summed(self.family.slope_times(probabilities, logits))

    # One product of matrices each: of three axes, numpy would make one for every point.
    def _logits(self, vectors):
        blocks = vectors.reshape(-1, self.rows.shape[1]) @ self.rows.T
        return blocks.reshape(len(vectors), self.family.n_blocks, len(self.rows))

    def _summed(self, values):
        sums = (values * self.weights).reshape(-1, len(self.rows)) @ self.rows
        return (self.size * sums).reshape(len(values), self.family.n_blocks * self.rows.shape[1])


def make_population(design, transform, family, norm, n_samples, n_rows):
    """Return what stands for a table: of two classes a `NormalPopulation`, else a `Population`.

    Parameters
    ----------
    design : Design
    transform : ndarray of shape (length, length)
        ``W``.
    family : ClassFamily
    norm : float
        ``C``.
    n_samples : float
    n_rows : int
        Of a `Population`, at least.
    """
    if family.n_blocks == 1:
        return normal_population(design, transform, family, norm, n_samples)
    n_rows = enough_rows(n_rows, transform)
    generator = np.random.default_rng(0)  # Post-processing.
    rows, weights = rows_like(design, transform, norm, n_rows, generator)
    return Population(family, rows, weights, n_samples / n_rows)


def enough_rows(n_rows, transform):
    """Return a number of rows for `rows_like`: even, about ``n_rows``, at least four for a coordinate."""
    return 2 * max(n_rows // 2, 2 * len(transform))


def rows_like(design, transform, norm, n_rows, generator):
    """Return normal rows with exactly the moments of a `Design`, in other coordinates, and their weights.

    Parameters
    ----------
    design : Design
    transform : ndarray of shape (length, length)
        ``W``.
    norm : float
        ``C``.
    n_rows : int
        Even, and at least twice ``length``.
    generator : Generator
        It need not be secret.
    """
    values, vectors = eigh(transform.T @ design.covariance @ transform)
    used = values > 1e-12 * values[-1]
    # Post-processing.
    half = generator.standard_normal((n_rows // 2, int(used.sum())))
    normal = np.vstack([half, -half])
    factor = cholesky(normal.T @ normal / len(normal))
    normal = solve(factor, normal.T).T
    rows = design.mean @ transform + (normal * np.sqrt(values[used])) @ vectors[:, used].T
    weights = np.minimum(1.0, norm**2 / np.maximum(np.sum(rows**2, axis=1), 1e-300))
    return rows, weights
