"""The posterior of ``u`` given noisy sums, with what is not known of the table integrated out.

    t = sum_i v_i H^T (e_{y_i} - 1/K) (x) z_i + N(0, s^2 I),      the sum ~ N(a(u), a'(u)) given rows and u

    a(u) = (I + M) f(u),      f = S - S(0),      M with mean m given other releases, see `misfit`

With the basis of the eigenvectors of ``a'`` at the last point and its eigenvalues ``T``, and ``r`` the mean
slope of the population over that at this point,

    t - (I + m) f(u) ~ N(0, V(u)),        V(u) = s^2 + r T + what is not known of a(u)

in that basis, in which covariances are taken to be diagonal.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...targets.linear.family import ClassFamily
from ...targets.linear.weighted import slope_matrix
from .misfit import Misfit
from .scales import Prior, WithPrior

# Numbers in an array over points and rows of the population: larger ones are allocated anew each time.
_SMALL = 2**15
# Records of which sums in single precision are off by about a hundredth of a deviation.
_MANY = 1e8


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
    def n_logits(self):
        """How many logits a point has."""
        return self.family.n_blocks * len(self.rows)

    def probabilities(self, u):
        """Return probabilities for points of shape (n_points, n_blocks * length)."""
        return self.family.inverse_link(self._logits(u))

    def score(self, probabilities):
        """Return ``S``, of shape (n_points, n_blocks * length)."""
        return self._summed(self.family.mean(probabilities))

    @cached_property
    def origin(self):
        """``S(0)``."""
        zero = np.zeros((1, self.family.n_blocks * self.rows.shape[1]))
        return self.score(self.probabilities(zero))[0]

    def change(self, u):
        """Return ``f``."""
        return self.score(self.probabilities(u)) - self.origin

    def curvature(self, u):
        """Return ``S'`` at one point."""
        probabilities = self.probabilities(u[None])[0]
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
        factors = (factors / (self.size * self.weights.size)).astype(logits.dtype)
        # Both are derivatives of a probability's: what they have in common is computed once.
        logits += factors[:, None, None] * self.family.mean_variance_by_mean(probabilities)
        return self._summed(self.family.slope_times(probabilities, logits))

    @property
    def in_single_precision(self):
        """The same rows, as exact as draws need them, if there are two classes and not too many records."""
        if self.family.n_blocks > 1 or self.size * len(self.rows) > _MANY:
            return self
        return replace(
            self, rows=self.rows.astype(np.float32), weights=self.weights.astype(np.float32)
        )

    # One product of matrices each: of three axes, numpy would make one for every point.
    def _logits(self, vectors):
        vectors = vectors.astype(self.rows.dtype, copy=False)
        blocks = vectors.reshape(-1, self.rows.shape[1]) @ self.rows.T
        return blocks.reshape(len(vectors), self.family.n_blocks, len(self.rows))

    def _summed(self, values):
        sums = (values * self.weights).reshape(-1, len(self.rows)) @ self.rows
        sums = sums.astype(np.float64, copy=False)
        return (self.size * sums).reshape(len(values), self.family.n_blocks * self.rows.shape[1])


def make_population(design, transform, family, norm, n_samples, n_rows, generator):
    """Return the `Population` of `rows_like` a design."""
    n_rows = 2 * max(n_rows // 2, 2 * len(transform))
    rows, weights = rows_like(design, transform, norm, n_rows, generator)
    return Population(family, rows, weights, n_samples / n_rows)


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
    values, vectors = np.linalg.eigh(transform.T @ design.covariance @ transform)
    used = values > 1e-12 * values[-1]
    # Post-processing.
    half = generator.standard_normal((n_rows // 2, int(used.sum())))
    normal = np.vstack([half, -half])
    factor = np.linalg.cholesky(normal.T @ normal / len(normal))
    normal = np.linalg.solve(factor, normal.T).T
    rows = design.mean @ transform + (normal * np.sqrt(values[used])) @ vectors[:, used].T
    weights = np.minimum(1.0, norm**2 / np.maximum(np.sum(rows**2, axis=1), 1e-300))
    return rows, weights


@dataclass(frozen=True)
class Surrogate(WithPrior):
    """The likelihood of ``t``, and the prior. ``n`` stands for ``n_blocks * length``.

    Attributes
    ----------
    population : Population
    prior : Prior
    scales : ndarray of shape (n_groups,)
        Prior scales at which the mode is looked for.
    target : ndarray of shape (n,)
        ``t``.
    noise : float
        ``s``.
    misfit : Misfit
    origin : ndarray of shape (n,)
        ``S(0)``.
    slope : float
        Mean slope of the population at the last point.
    basis : ndarray of shape (n, n)
        Eigenvectors of ``a'`` there.
    sampling : ndarray of shape (n,)
        ``T``.
    start : ndarray of shape (n,)
        Where to look for the mode.
    """

    population: Population
    prior: Prior
    scales: np.ndarray
    target: np.ndarray
    noise: float
    misfit: Misfit
    origin: np.ndarray
    slope: float
    basis: np.ndarray
    sampling: np.ndarray
    start: np.ndarray

    def likelihood(self, u):
        """Return minus the log likelihood, up to a constant, and its gradient, for (n_points, n)."""
        population = self.population
        if population.family.n_blocks == 1:
            return self._likelihood(u)
        groups = np.array_split(u, -(-population.n_logits * len(u) // _SMALL))
        return tuple(map(np.concatenate, zip(*map(self._likelihood, groups), strict=True)))

    def mean(self, u):
        """Return expected labels for points of shape (n_points, n)."""
        f = self.population.change(u)
        return f + f @ self.misfit.mean.T

    def predict(self, u, generator):
        """Return labels as they might be released for points of shape (n_points, n)."""
        probabilities = self.population.probabilities(u)
        f, variances = self._law(probabilities)
        # Post-processing.
        errors = np.sqrt(variances) * generator.standard_normal(u.shape)
        return f + f @ self.misfit.mean.T + errors @ self.basis.T

    def _law(self, probabilities):
        """Return ``f``, and the variances of labels in ``basis``."""
        fading = self.population.mean_variance(probabilities)[:, None] / self.slope
        f = self.population.score(probabilities) - self.origin
        of_score = self.misfit.variances(f) @ self.basis**2
        return f, self.noise**2 + fading * self.sampling + of_score

    def _likelihood(self, u):
        population, misfit = self.population, self.misfit
        probabilities = population.probabilities(u)
        f, variances = self._law(probabilities)
        residual = (f + f @ misfit.mean.T - self.target) @ self.basis
        solved = residual / variances
        energy = 0.5 * (np.sum(residual * solved, axis=1) + np.log(variances).sum(axis=1))
        own = 1.0 / variances - solved**2
        back = solved @ self.basis.T
        of_f = back + back @ misfit.mean
        of_f += misfit.half_gradient(f, own @ (self.basis**2).T)
        of_fading = 0.5 * own @ self.sampling / self.slope
        return energy, population.pulled(probabilities, of_f, of_fading)

    @property
    def in_single_precision(self):
        """The same with a population that is as exact as draws need it."""
        return replace(self, population=self.population.in_single_precision)

    @property
    def n_scaled(self):
        """How many coordinates, the first ones, prior scales multiply."""
        return self.start.size

    def information(self, u):
        """Return the curvature of the potential at one point, taking variances to be fixed."""
        population, misfit = self.population, self.misfit
        probabilities = population.probabilities(u[None])
        variances = self._law(probabilities)[1][0]
        slopes = population.curvature(u)
        turned = (slopes + slopes @ misfit.mean.T) @ (self.basis / np.sqrt(variances))
        return turned @ turned.T + self.prior.precision(self.scales)
