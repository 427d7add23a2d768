"""Rows that stand for those of a table, and what noisy sums see of them.

    S(u) = n / M sum_i v_i H^T (p_i - 1/K) (x) z_i,      v_i = min(1, C^2 / |z_i|^2),      i = 1..M

They are normal with exactly the moments of a `Design`. With two classes sums over endlessly many such rows
have a closed form.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import erf, logsumexp, ndtri
from scipy.stats import gamma, kstwobign, qmc

from ..._linalg import cholesky, eigh, lstsq, solve
from ...models.families.base import ClassFamily
from ...models.families.poisson import drawn
from ...models.sums import slope_matrix
from .dispersion import looked_up

# The score of endlessly many normal rows with weights, for two classes.
#
#     S(u) = n E[v(z) (sigma(u . z) - 1/2) z],      z ~ N(m, Sigma),      v(z) = min(1, C^2 / |z|^2)
#
# Weights are written as ``sum_k w_k exp(-lambda_k |z|^2 / 2)``, which makes ``v`` times the density
# a sum of normal ones, of masses ``W_k``, means ``m_k`` and covariances
# ``Sigma_k = (Sigma^-1 + lambda_k I)^-1``. The logistic law is a mixture of normal ones of
# deviations ``1 / s = 2 kappa``, with ``kappa`` of Kolmogorov's law [1]_, so that with
# ``mu = m_k . u``, ``q = u . Sigma_k u`` and ``tau = s / sqrt(1 + s^2 q)``
#
#     A = E[sigma(u . z)] - 1/2 = E[Phi(tau mu)] - 1/2,      B = E[sigma'(u . z)] = E[tau phi(tau mu)],
#
#     S(u) = n sum_k W_k (A m_k + B Sigma_k u).
#
# The second derivative of ``A`` by ``mu`` is twice the first by ``q``. Here ``Sigma`` is diagonal.
#
# [1] D. F. Andrews and C. L. Mallows, "Scale mixtures of normal
# distributions", JRSS B 36(1), 1974.


# Rows for a coordinate: with fewer, counts of twenty columns had errors a fifth larger.
_ROWS_PER_COORDINATE = 24
# Number of rows beyond which they are only as many for a coordinate as their moments need.
_MANY_ROWS = 1024
_LEAST_ROWS_PER_COORDINATE = 4
# ``kappa`` by the trapezoidal rule for its logarithm: the logistic law to 5e-7.
_KAPPAS = np.geomspace(0.35, 2.3, 8)
_SLOPES = 0.5 / _KAPPAS
_SHARES = kstwobign.pdf(_KAPPAS) * _KAPPAS
_SHARES /= _SHARES.sum()
_DENSITIES = _SHARES / math.sqrt(2.0 * math.pi)
# ``lambda`` times half the mean of ``|z|^2``: scores are off by about a hundredth at most.
_RATES = np.array([0.0, 0.25, 0.5, 1.0])
# Quantiles of ``|z|^2`` at which weights are fitted.
_QUANTILES = (np.arange(400) + 0.5) / 400
# Values over the mean that count a little, so that weights are positive where hardly any row is, too.
_ANYWHERE = np.linspace(0.0, 8.0, 33)
# Weight of these values.
_GRID_PENALTY = 0.01
# Least variance of ``|z|^2``, relative to its squared mean, that makes a difference.
_LEAST_RELATIVE_SPREAD_OF_SQUARES = 1e-9


class LogisticNormal(NamedTuple):
    """Expectations for points and normal parts, arrays of shape (n_points, n_parts).

    Attributes
    ----------
    points : ndarray of shape (n_points, length)
        In the population's own coordinates.
    mean, slope, first, second : ndarray
        ``A``, ``B``, and the first two derivatives of ``B`` by ``mu``.
    """

    points: np.ndarray
    mean: np.ndarray
    slope: np.ndarray
    first: np.ndarray
    second: np.ndarray


@dataclass(frozen=True)
class NormalPopulation:
    """A normal law of rows that stands for those of a table. It has the methods of `Population`.

    Attributes
    ----------
    family : ClassFamily
        That of two classes.
    size : float
        ``n``.
    axes : ndarray of shape (length, length)
        Eigenvectors of ``Sigma``, the coordinates of means and variances.
    masses : ndarray of shape (n_parts,)
        ``W``.
    means, variances : ndarray of shape (n_parts, length)
        ``m_k``, and the diagonals of ``Sigma_k``.
    mean_squares : ndarray of shape (length,)
        Of coordinates ``z`` before they are turned, without weights.
    """

    family: ClassFamily
    size: float
    axes: np.ndarray
    masses: np.ndarray
    means: np.ndarray
    variances: np.ndarray
    mean_squares: np.ndarray

    @property
    def mean_weight(self):
        """Mean of ``v``."""
        return float(self.masses.sum())

    @property
    def total_weight(self):
        """Sum of ``v`` over records."""
        return float(self.size * self.mean_weight)

    @property
    def unweighted(self):
        """The population with weights of 1: the first part, whose rate is 0."""
        return replace(self, masses=np.ones(1), means=self.means[:1], variances=self.variances[:1])

    @cached_property
    def origin(self):
        """``S(0)``."""
        return np.zeros(len(self.axes))

    @cached_property
    def mean(self):
        """Of rows."""
        return self.axes @ self.means[0]

    def at(self, u):
        """The `LogisticNormal` for points of shape (n_points, length)."""
        points = u @ self.axes
        shape = len(points), self.masses.size
        mu, q = points @ self.means.T, points**2 @ self.variances.T
        # Matrices of eight columns: a product of three axes would be one for every point.
        tau = np.sqrt(_SLOPES**-2.0 + q.reshape(-1, 1))
        np.reciprocal(tau, out=tau)
        x = tau * (math.sqrt(0.5) * mu.reshape(-1, 1))
        squares = x**2
        densities = tau * np.exp(-squares)
        of_second = tau**2 * densities
        once = (of_second @ _DENSITIES).reshape(shape)
        squares *= of_second
        return LogisticNormal(
            points,
            (erf(x) @ (0.5 * _SHARES)).reshape(shape),
            (densities @ _DENSITIES).reshape(shape),
            -mu * once,
            2.0 * (squares @ _DENSITIES).reshape(shape) - once,
        )

    def score(self, moments):
        """``S``, of shape (n_points, length)."""
        return self._summed(moments, self.size * moments.mean, self.size * moments.slope)

    def change(self, u):
        """``f``."""
        return self.score(self.at(u))

    def mean_variance(self, moments):
        """The mean slope of a row, of shape (n_points,)."""
        return moments.slope @ self.masses

    def curvature(self, u):
        """``S'`` at one point."""
        return self.slope_times(self.at(u[None]), np.eye(u.size))

    def slope_times(self, moments, vectors):
        """``S' a`` for vectors ``a`` like points."""
        return self.vjp(moments, vectors, np.zeros(1))

    def vjp(self, moments, vectors, factors):
        """``S' a`` plus ``factors``, of shape (n_points,), times the gradients of the mean slope."""
        turned = self.size * (vectors @ self.axes)
        of_mu, of_q = turned @ self.means.T, (moments.points * turned) @ self.variances.T
        of_q += factors[:, None]
        along = moments.slope * of_mu + moments.first * of_q
        across = moments.first * of_mu + moments.second * of_q
        rest = turned * ((moments.slope * self.masses) @ self.variances)
        return self._summed(moments, along, across, rest)

    def _summed(self, moments, along, across, rest=0.0):
        """``sum_k W_k (along m_k + across Sigma_k u)``, and the rest, in the coordinates ``z``."""
        sums = (across * self.masses) @ self.variances
        sums *= moments.points
        sums += (along * self.masses) @ self.means
        return (sums + rest) @ self.axes.T


def normal_population(design, transform, family, norm, n_samples):
    """The `NormalPopulation` of a design, given what `moment_matched_sample` takes."""
    mean = design.mean @ transform
    covariance = transform.T @ design.covariance @ transform
    values, axes = eigh(covariance)
    values, turned = np.maximum(values, 0.0), mean @ axes
    rates, shares = _weights(values, turned**2, norm)
    shrunk = 1.0 + rates[:, None] * values
    logs = np.log(shrunk).sum(axis=1) + rates * np.sum(turned**2 / shrunk, axis=1)
    return NormalPopulation(
        family,
        n_samples,
        axes,
        shares * np.exp(-0.5 * logs),
        turned / shrunk,
        values / shrunk,
        np.diag(covariance) + mean**2,
    )


def _weights(values, squares, norm):
    """``lambda`` and ``w``, by least squares over ``|z|^2``.

    Its law is taken to be a gamma law, moved to have the same first three moments.

    Parameters
    ----------
    values, squares : ndarray of shape (length,)
        Variances and squared means of coordinates.
    norm : float
        ``C``.
    """
    unit = float(np.sum(values + squares)) or 1.0
    values, squares, largest = values / unit, squares / unit, norm**2 / unit
    first = float(np.sum(values + squares))
    second = 2.0 * float(np.sum(values**2 + 2.0 * values * squares))
    third = 8.0 * float(np.sum(values**3 + 3.0 * values**2 * squares))
    points = np.full(_QUANTILES.size, first)
    if second > _LEAST_RELATIVE_SPREAD_OF_SQUARES:
        shape, scale = 4.0 * second**3 / third**2, third / (2.0 * second)
        points = np.maximum(first + scale * (gamma.ppf(_QUANTILES, shape) - shape), 0.0)
    sizes = [points.size, _ANYWHERE.size]
    roots = np.sqrt(np.repeat([1.0 / sizes[0], _GRID_PENALTY / sizes[1]], sizes))
    points = np.concatenate([points, _ANYWHERE])
    wanted = largest / np.maximum(points, largest)
    parts = np.exp(-np.outer(points, _RATES)) * roots[:, None]
    shares = lstsq(parts, wanted * roots)
    if shares[0] < 0.0:  # What weights are far from all rows.
        shares = np.append(0.0, lstsq(parts[:, 1:], wanted * roots))
    return 2.0 / unit * _RATES, shares


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
    def unweighted(self):
        """The population with weights of 1."""
        return replace(self, weights=np.ones_like(self.weights))

    @property
    def mean_squares(self):
        """Mean squares of coordinates, without weights."""
        return np.mean(self.rows**2, axis=0)

    @cached_property
    def mean(self):
        """Of rows."""
        return self.rows.mean(axis=0)

    @property
    def n_logits(self):
        """The number of logits of a point."""
        return self.family.n_blocks * len(self.rows)

    def at(self, u):
        """Probabilities for points of shape (n_points, n_blocks * length)."""
        return self._law.inverse_link(self._logits(u))

    def score(self, probabilities):
        """``S``, of shape (n_points, n_blocks * length)."""
        return self._summed(self._law.mean(probabilities))

    @cached_property
    def origin(self):
        """``S(0)``."""
        zero = np.zeros((1, self.family.n_blocks * self.rows.shape[1]))
        return self.score(self.at(zero))[0]

    def change(self, u):
        """``f``."""
        return self.score(self.at(u)) - self.origin

    def curvature(self, u):
        """``S'`` at one point."""
        probabilities = self.at(u[None])[0]
        return self.size * slope_matrix(self.family, probabilities, self.weights, self.rows)

    def slope_times(self, probabilities, vectors):
        """``S' a`` for vectors ``a`` like points."""
        return self._summed(self._law.slope_times(probabilities, self._logits(vectors)))

    def mean_variance(self, probabilities):
        """The mean slope of a row, of shape (n_points,)."""
        return self._law.mean_variance(probabilities) @ self.weights / self.weights.size

    def vjp(self, probabilities, vectors, factors):
        """``S' a`` plus ``factors``, of shape (n_points,), times the gradients of the mean slope."""
        logits = self._logits(vectors)
        factors = factors / (self.size * self.weights.size)
        # Both are derivatives of a probability's: what they have in common is computed once.
        logits += factors[:, None, None] * self._law.mean_variance_by_mean(probabilities)
        return self._summed(self._law.slope_times(probabilities, logits))

    # Contrasts are expanded to classes before rows are there, which are many.
    @cached_property
    def _law(self):
        return self.family.of_classes

    # One product of matrices each: of three axes, numpy would make one for every point.
    def _logits(self, vectors):
        blocks = vectors.reshape(-1, self.family.n_blocks, self.rows.shape[1])
        if self._law.n_blocks > self.family.n_blocks:
            blocks = self.family.contrasts @ blocks
        logits = blocks.reshape(-1, self.rows.shape[1]) @ self.rows.T
        return logits.reshape(len(vectors), self._law.n_blocks, len(self.rows))

    def _summed(self, values):
        sums = self.size * ((values * self.weights).reshape(-1, len(self.rows)) @ self.rows)
        sums = sums.reshape(-1, self._law.n_blocks, self.rows.shape[1])
        if self._law.n_blocks > self.family.n_blocks:
            sums = self.family.contrasts.T @ sums
        return sums.reshape(len(values), self.family.n_blocks * self.rows.shape[1])


def moment_matched_sample(design, transform, family, norm, n_samples, n_rows):
    """The synthetic design that stands for a table: of two classes a `NormalPopulation`, else a `Population`.

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
    """A number of rows for `rows_like`: even, at least ``n_rows``, more for many coordinates."""
    wanted = min(_ROWS_PER_COORDINATE * len(transform), _MANY_ROWS)
    return 2 * (max(n_rows, wanted, _LEAST_ROWS_PER_COORDINATE * len(transform)) // 2)


def rows_like(design, transform, norm, n_rows, generator):
    """Normal rows with exactly the moments of a `Design`, in other coordinates, and their weights.

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
    n_points = 2 ** math.ceil(math.log2(n_rows // 2))
    # Post-processing.
    uniform = qmc.Sobol(int(used.sum()), seed=generator).random(n_points)[: n_rows // 2]
    half = ndtri(np.clip(uniform, 1e-12, 1.0 - 1e-12))
    normal = np.vstack([half, -half])
    factor = cholesky(normal.T @ normal / len(normal))
    normal = solve(factor, normal.T).T
    rows = design.mean @ transform + (normal * np.sqrt(values[used])) @ vectors[:, used].T
    weights = np.minimum(1.0, norm**2 / np.maximum(np.sum(rows**2, axis=1), 1e-300))
    return rows, weights


# Rows that stand for those of a table, their exposures, and what a noisy sum sees of them.
#
#     f_k(u) = (n a / M) sum_i v_i z_i e_k(z_i . u + o_i)
#
# with ``e_k`` the mean of a clipped count, looked up in a table (`dispersion.looked_up`).


# Logits are cut here: means are large enough to be clipped.
_LARGEST_LOGIT = 30.0
# Counts for each row, where counts are simulated.
_REPEATED = 16
# The largest mean that counts fully for a curvature, relative to the average mean: others are clipped.
_LARGEST_RELATIVE_MEAN = 2.0
# Rounds in which rows are moved until they have another moment.
_ROUNDS = 4
# Least variance that is moved, relative to the largest.
_LEAST_MOVED_VARIANCE = 1e-9


@dataclass(frozen=True)
class CountPopulation:
    """Rows that stand for those of a table.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, length)
        In whitened coordinates.
    weights : ndarray of shape (n_rows,)
        ``v``.
    offsets : ndarray of shape (n_rows,)
        ``o``, logarithms of exposures.
    size : float
        ``n / M``, how many records a row stands for.
    largest, largest_mean : float
        Of counts, and of means where these are factors.
    share : float, default=1
        ``a``: what records count, relative to rows that are normal.
    """

    rows: np.ndarray
    weights: np.ndarray
    offsets: np.ndarray
    size: float
    largest: float
    largest_mean: float
    share: float = 1.0

    def logits(self, u):
        """Logits for points of shape (n_points, length), or for one."""
        return u @ self.rows.T + self.offsets

    def means(self, u):
        """Means at a point."""
        return np.minimum(np.exp(np.minimum(self.logits(u), 700.0)), self.largest_mean)

    def level(self, u):
        """The logarithm of the mean of what records count times means, of shape (n_points, 1)."""
        return logsumexp(self.logits(u), b=self.weights / len(self.rows), axis=1, keepdims=True)

    @property
    def moment(self):
        """Mean of ``a v z z^T``."""
        return self._mean_product(self.weights)

    def curvature(self, u):
        """The mean of ``a v min(m, 2 m') z z^T``, ``m`` being means at a point, ``m'`` their mean."""
        means = self.means(u)
        factors = self.weights * np.minimum(
            means, _LARGEST_RELATIVE_MEAN * np.mean(self.weights * means)
        )
        return self._mean_product(factors)

    def _mean_product(self, factors):
        return self.share * (self.rows * factors[:, None]).T @ self.rows / len(self.rows)

    def reshaped(self, moment, share, along, constant, norm):
        """A population whose mean of ``v z z^T`` is another, but for how much a constant counts.

        Parameters
        ----------
        moment : ndarray of shape (length, length)
            Positive.
        share : float
            Of the new population.
        along : ndarray of shape (length,)
            ``z . along`` is the constant.
        constant : float
            Of the intercept's column; 0 without one.
        norm : float
            ``C``.
        """
        mean, root = _mean_and_root(moment / share, along, constant)
        reshaped_design = replace(self, share=1.0)
        for _ in range(_ROUNDS):  # Rows that are moved count as much as they are long then.
            reshaped_design = replace(reshaped_design, weights=counted(reshaped_design.rows, norm))
            of_own, inverse = _mean_and_root(reshaped_design.moment, along, constant, power=-0.5)
            reshaped_design = replace(
                reshaped_design, rows=mean + (reshaped_design.rows - of_own) @ inverse @ root
            )
        return replace(reshaped_design, share=share)

    def expected_sums(self, u, centres, tables):
        """``f_k`` for points, of shape (n_sums, n_points, length), and slopes by logits."""
        means, slopes = looked_up(self.logits(u), centres, tables)
        return self.size * self.share * (means * self.weights) @ self.rows, slopes

    def vjp(self, by_f, slopes):
        """Gradients by points of what has the gradients ``by_f`` by ``f_k``."""
        factors = np.sum((by_f @ self.rows.T) * slopes, axis=0) * self.weights
        return self.size * self.share * factors @ self.rows

    def jacobians(self, u, centres, tables):
        """``f_k`` at one point, and its derivatives, of shape (n_sums, length, length)."""
        f, slopes = self.expected_sums(u[None], centres, tables)
        factors = self.size * self.share * slopes[:, 0] * self.weights
        return f[:, 0], np.array([(self.rows * each[:, None]).T @ self.rows for each in factors])

    def simulated(self, u, deviations, law, generator):
        """Counts, and their means, of shape (n_repeated, n_rows).

        Parameters
        ----------
        u : ndarray of shape (length,)
        deviations : ndarray of shape (n_rows,) or float
            Of logits around those at ``u``.
        law : CountLaw
        generator : Generator
            It need not be secret.
        """
        # Post-processing.
        normal = generator.standard_normal((_REPEATED, len(self.rows)))
        means = np.exp(np.minimum(self.logits(u) + deviations * normal, _LARGEST_LOGIT))
        # Post-processing.
        return np.minimum(drawn(means, law, generator), self.largest), means


def counted(rows, norm):
    """``v``, what rows count."""
    return np.minimum(1.0, norm**2 / np.maximum(np.sum(rows**2, axis=1), 1e-300))


def split(moment, along, constant):
    """The second moment if rows did not differ, 0 without a constant, and the rest."""
    if not constant:
        return np.zeros_like(moment), moment
    of_constant = moment @ along
    flat = np.outer(of_constant, of_constant) / (along @ of_constant)
    return flat, moment - flat


def _mean_and_root(moment, along, constant, power=0.5):
    """The mean that a second moment tells, 0 without a constant, and a power of the covariance."""
    mean, covariance = np.zeros(len(moment)), moment
    if constant:
        of_constant = moment @ along
        total = float(along @ of_constant)
        mean = constant * of_constant / total
        covariance = moment * constant**2 / total - np.outer(mean, mean)
    values, vectors = eigh(covariance)
    used = values > _LEAST_MOVED_VARIANCE * values[-1]
    return mean, (vectors[:, used] * values[used] ** power) @ vectors[:, used].T


def count_population(design, coordinates, offsets, n_records, family, generator):
    """Rows with exactly the moments of a `Design`, and offsets that do not depend on them.

    Parameters
    ----------
    design : Design
    coordinates : Coordinates
    offsets : ndarray of shape (n_rows,)
        Of an even number of rows, at least twice as many as there are columns.
    n_records : float
    family : Poisson
    generator : Generator
        It need not be secret.
    """
    transform, norm, n_rows = coordinates.transform, coordinates.norm, len(offsets)
    rows, weights = rows_like(design, transform, norm, n_rows, generator)
    return CountPopulation(
        rows=rows,
        weights=weights,
        offsets=offsets,
        size=n_records / n_rows,
        largest=family.max_count,
        largest_mean=family.slope_bound,
    )
