"""The posterior of logistic regression given noisy sums, the noise and what they leave open included.

    t = sum_i v_i H^T (e_{y_i} - 1/K) (x) z_i + N(0, s^2 I),      the sum ~ N(a(u), a'(u)) given rows and u

    a(u) = (I + M) f(u),      f = S - S(0),      M with mean m given other releases, see `score_discrepancy`

With the basis of the eigenvectors of ``a'`` at the last point and its eigenvalues ``T``, and ``r`` the mean
slope of the population over that at this point,

    t - (I + m) f(u) ~ N(0, V(u)),        V(u) = s^2 + r T + what is not known of a(u)

in that basis, in which covariances are taken to be diagonal.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import erf, softmax
from scipy.stats import gamma, kstwobign

from ..._linalg import cholesky, eigh, inv, lstsq, solve
from ...models.families.base import ClassFamily
from ...models.sums import slope_matrix
from .hmc import HMCPosterior, chain_seed, draw
from .prior import Prior, WithPrior

# Discrepancy between the data's score and the synthetic design's, estimated from all releases.
#
#     a(u) = (I + M) f(u),    f(u) = S(u) - S(0),    M_ij ~ N(0, k^2 / length (l_i / l_j)^2 + [i = j] h_i)
#
#     a_k = (I + M) f(u_k) + N(0, s_k^2),        F_k = (I + M) f'(u_k) + N(0, s_k^2)
#
# a priori. ``S`` is the population's score, ``l`` the root mean squares of its rows' coordinates,
# and ``h`` what is not known of these squares, relative to them: where columns add up to one, or
# depend on each other in another way, noise hides that rows do not vary. Both kinds of releases are
# linear in ``M``. Without ``h``, given ``G``, the sum of ``f f^T / s^2`` and ``f' f'^T / s^2``,
# with ``L = diag(l)``,
#
#     L^-1 G L^-1 = Q diag(g) Q^T,    B = L^-1 Q,
#     Cov(M_i) = B diag(1 / (length / (k l_i)^2 + g)) B^T = C_i
#
# With it, ``d_i = length / k^2 - 1 / (k^2 / length + h_i)`` is taken off a diagonal entry of a
# precision, and
#
#     Cov(M_i) = C_i + r_i C_i e_i e_i^T C_i,    r_i = d_i / (1 - d_i e_i^T C_i e_i)
#
# ``k`` is chosen by the evidence. As ``f`` is bounded, so is what is not known of a score, at any
# point. ``M`` is not quite the same everywhere, so that variances grow with the distance from the
# last point.


# Grid for ``k``.
_SIZES = np.geomspace(0.03, 1.5, 9)
# Prior median of ``k``.
_PRIOR_MEDIAN_SIZE = 0.2
# Prior deviation of ``log k``.
_PRIOR_LOG_SD_SIZE = 0.7
# Where ``h`` is less, the rest of ``M`` is enough.
_LEAST_RELATIVE_VARIANCE = 0.05
# Where ``h`` is more, nothing is known of the row of ``M``, and doubles can still tell ``h`` from that.
_LARGEST_RELATIVE_VARIANCE = 1e12
# Of ``k^2 / length``: by how much ``M`` may change on the way, relative to the change of ``f``.
_CHANGE = 0.1


@dataclass(frozen=True)
class ScoreDiscrepancy:
    """The posterior of ``M``; ``n`` stands for ``n_blocks * length``.

    Attributes
    ----------
    mean : ndarray of shape (n, n)
        Of ``M``.
    factor : ndarray of shape (n, n)
        ``B``.
    shares : ndarray of shape (n, n)
        The variances in the coordinates ``B``, row by row of ``M``.
    uncertain : ndarray of shape (m,)
        Which rows have an ``h``.
    pulls : ndarray of shape (m, n)
        ``C_i e_i`` of these in the coordinates ``B``.
    excess : ndarray of shape (m,)
        ``r`` of these.
    size : float
        ``k``.
    squares : ndarray of shape (n,)
        ``l^2``.
    centre : ndarray of shape (n,)
        ``f`` at the last point.
    """

    mean: np.ndarray
    factor: np.ndarray
    shares: np.ndarray
    uncertain: np.ndarray
    pulls: np.ndarray
    excess: np.ndarray
    size: float
    squares: np.ndarray
    centre: np.ndarray

    @property
    def change(self):
        """Variances of the entries of a score per squared distance from ``centre``."""
        return _CHANGE * self.size**2 / self.squares.size * self.squares

    @cached_property
    def parts(self):
        """Matrices ``P`` and ``Q``: variances of the entries of a score at ``centre`` are ``(f P)^2 Q``."""
        parts_of_uncertain = np.zeros((self.uncertain.size, self.squares.size))
        parts_of_uncertain[np.arange(self.uncertain.size), self.uncertain] = self.excess
        return (
            np.hstack([self.factor, self.factor @ self.pulls.T]),
            np.vstack([self.shares.T, parts_of_uncertain]),
        )


def estimate_discrepancy(synthetic_design, noisy_sums, curvatures, point, relative_variances=None):
    """The `ScoreDiscrepancy` given all releases.

    Parameters
    ----------
    synthetic_design : Population or NormalPopulation
    noisy_sums, curvatures : list of NoisyValue
        Scores, and curvatures, with the deviations of their noise.
    point : ndarray of shape (n,)
        The last point.
    relative_variances : ndarray of shape (length,) or None, default=None
        ``h``, of a block; None is 0.
    """
    n, centre = point.size, synthetic_design.change(point[None])[0]
    squares = np.tile(synthetic_design.mean_squares, synthetic_design.family.n_blocks)
    squares = np.maximum(squares, 1e-9 * squares.max())
    f = synthetic_design.change(
        np.array([noisy_sum.point for noisy_sum in noisy_sums]).reshape(-1, n)
    )
    residual = np.array([noisy_sum.value for noisy_sum in noisy_sums]).reshape(-1, n) - f
    noises = np.array([noisy_sum.noise**2 for noisy_sum in noisy_sums])
    far = np.sum((f - centre) ** 2 / squares, axis=1)
    observed = [(f.T, residual.T, noises, far)]
    matrix = synthetic_design.curvature(point) if curvatures else None
    for noisy_sum in curvatures:
        slope = synthetic_design.curvature(noisy_sum.point)
        # Scores tell ``M`` on the way from 0, and curvatures how it goes on from there.
        far = (slope - matrix) ** 2 + slope**2
        far = np.mean(np.sum(far / squares[:, None], axis=0))
        observed.append((slope, noisy_sum.value - slope, noisy_sum.noise**2 / 2.0, far))
    relative_variances = (
        np.zeros(n)
        if relative_variances is None
        else np.tile(relative_variances, synthetic_design.family.n_blocks)
    )
    relative_variances = np.where(
        relative_variances > _LEAST_RELATIVE_VARIANCE,
        np.minimum(relative_variances, _LARGEST_RELATIVE_VARIANCE),
        0.0,
    )
    candidates = (_given(observed, size, squares, centre, relative_variances) for size in _SIZES)
    return max(candidates, key=lambda each: each[0])[1]


def _given(observed, size, squares, centre, relative_variances):
    """(log evidence, `ScoreDiscrepancy`) for a size."""
    n, of_size = squares.size, size**2 / squares.size
    precision, onto, twice_log_evidence = np.zeros((n, n)), np.zeros((n, n)), 0.0
    for slopes, residual, noises, far in observed:
        variances = noises + _CHANGE * of_size * squares.mean() * far
        variances = np.broadcast_to(variances, slopes.shape[1:])
        precision += (slopes / variances) @ slopes.T
        onto += (residual / variances) @ slopes.T
        twice_log_evidence -= np.sum(residual**2 / variances) + n * np.log(variances).sum()
    roots = np.sqrt(squares)
    g, turn = eigh(precision / np.outer(roots, roots))
    factor, g = turn / roots[:, None], np.maximum(g, 0.0)
    prior = of_size * squares[:, None]
    shares = prior / (1.0 + prior * g)
    turned = onto @ factor
    mean = turned * shares
    twice_log_evidence += np.sum(turned * mean) - np.log1p(prior * g).sum()
    (uncertain,) = np.nonzero(relative_variances)
    pulls = (shares * factor)[uncertain]
    taken = 1.0 / of_size - 1.0 / (of_size + relative_variances[uncertain])
    # By rounding it might be 0, where a row is known to no digit.
    least = of_size / (of_size + relative_variances[uncertain])
    variances_left = np.maximum(1.0 - taken * np.sum(pulls * factor[uncertain], axis=1), least)
    excess, along = taken / variances_left, np.sum(turned[uncertain] * pulls, axis=1)
    mean[uncertain] += (excess * along)[:, None] * pulls
    twice_log_evidence += np.sum(excess * along**2) - np.sum(
        np.log(variances_left / np.maximum(1.0 - taken * of_size, least))
    )
    evidence = (
        0.5 * twice_log_evidence
        - 0.5 * (np.log(size / _PRIOR_MEDIAN_SIZE) / _PRIOR_LOG_SD_SIZE) ** 2
    )
    known = mean @ factor.T, factor, shares, uncertain, pulls, excess
    return evidence, ScoreDiscrepancy(*known, size, squares, centre)


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

    @cached_property
    def origin(self):
        """``S(0)``."""
        return np.zeros(len(self.axes))

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


# How surprising released labels are under their prior, for each group of coefficients.
#
#     t* = (I + m) f(u*) + N(0, V(u*)),    u* ~ prior,    C = Cov t*
#
#     p_g = P(h_g(t*) >= h_g(t)),    h_g(t) = t^T C^-1 S_g C^-1 t
#
# with ``S_g`` the covariance of the mean of ``t*`` where only coefficients of the group vary. For a
# normal ``t*`` the derivative of the log density by the square of the prior scale of the group is
# half of ``h_g`` but for a constant, so that no statistic is better at finding a scale that is
# slightly too narrow. Its law need not be known: it is compared with its values for other ``t*``
# (Evans and Moshonov, "Checking for prior-data conflict", Bayesian Analysis 2006).


# Number of labels that the prior predicts, half of them for the statistics.
_N_PREDICTED = 2000
# Number of parts in which they are computed, to save memory.
_N_PARTS = 20


def prior_predictive_p_values(surrogate, transform):
    """A probability for each group of the prior.

    Parameters
    ----------
    surrogate : LogisticSurrogate
    transform : ndarray of shape (length, length)
        ``W``.

    Returns
    -------
    prior_predictive_p_values : ndarray of shape (n_groups,)
        Small where released labels say that a group's prior scale is too narrow.
    """
    # Post-processing.
    generator = np.random.default_rng(0)
    parts = _from_prior(surrogate.prior.groups, transform, surrogate.label_sum.size, generator)
    predicted = in_parts(surrogate.predict, sum(parts), generator)
    first, second = np.array_split(predicted, 2)
    precision = inv(np.cov(first.T).reshape(len(first.T), -1))
    p_values = []
    for part in parts:
        means = in_parts(surrogate.mean, part[: len(first)]) @ precision
        weight = np.cov(means.T).reshape(len(precision), -1)
        sizes = np.einsum("ij,jk,ik->i", second, weight, second)
        p_values.append(np.mean(sizes >= surrogate.label_sum @ weight @ surrogate.label_sum))
    return np.array(p_values)


def in_parts(function, points, *arguments):
    """A function of points, taken so many at a time that arrays stay small."""
    parts = np.array_split(points, _N_PARTS)
    return np.concatenate([function(part, *arguments) for part in parts])


def _from_prior(groups, transform, size, generator):
    """Points from the prior, for each group those where the others are zero."""
    length, back = len(transform), inv(transform)
    parts = []
    for group in groups:
        precisions = np.einsum("ji,jk,ki->i", back, group.precision[:length, :length], back)
        is_own = precisions > 1e-9 * precisions.max()
        deviations = np.where(is_own, np.where(is_own, precisions, 1.0) ** -0.5, 0.0)
        # Post-processing.
        scales = np.exp(generator.choice(group.logs, p=softmax(group.weights), size=_N_PREDICTED))
        # Post-processing.
        normal = generator.standard_normal((_N_PREDICTED, size // length, length))
        theta = scales[:, None, None] * deviations * normal
        parts.append((theta @ back.T).reshape(_N_PREDICTED, size))
    return parts


# Rows that stand for those of a table.
#
#     S(u) = n / M sum_i v_i H^T (p_i - 1/K) (x) z_i,      v_i = min(1, C^2 / |z_i|^2),      i = 1..M
#
# They are normal with exactly the moments of a `Design`. With two classes sums over endlessly many
# such rows have a closed form, see `normal_population`.


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
        """Mean squares of coordinates, without weights."""
        return np.mean(self.rows**2, axis=0)

    @property
    def n_logits(self):
        """The number of logits of a point."""
        return self.family.n_blocks * len(self.rows)

    def at(self, u):
        """Probabilities for points of shape (n_points, n_blocks * length)."""
        return self.family.inverse_link(self._logits(u))

    def score(self, probabilities):
        """``S``, of shape (n_points, n_blocks * length)."""
        return self._summed(self.family.mean(probabilities))

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
        return self._summed(self.family.slope_times(probabilities, self._logits(vectors)))

    def mean_variance(self, probabilities):
        """The mean slope of a row, of shape (n_points,)."""
        return self.family.mean_variance(probabilities) @ self.weights / self.weights.size

    def vjp(self, probabilities, vectors, factors):
        """``S' a`` plus ``factors``, of shape (n_points,), times the gradients of the mean slope."""
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
    """A number of rows for `rows_like`: even, about ``n_rows``, at least four for a coordinate."""
    return 2 * max(n_rows // 2, 2 * len(transform))


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
    # Post-processing.
    half = generator.standard_normal((n_rows // 2, int(used.sum())))
    normal = np.vstack([half, -half])
    factor = cholesky(normal.T @ normal / len(normal))
    normal = solve(factor, normal.T).T
    rows = design.mean @ transform + (normal * np.sqrt(values[used])) @ vectors[:, used].T
    weights = np.minimum(1.0, norm**2 / np.maximum(np.sum(rows**2, axis=1), 1e-300))
    return rows, weights


# The share of the rarest class in what rows count, by draws.
#
#     share_k(u) = 1 / K + (H W^-T f(u))_k / (c n v),      f(u) = S(u) - S(0),   S = sum_i v_i mean_i z_i
#
# of the population, where the last row of ``W`` is the intercept's, whose constant is ``c``, ``v`` is
# what records count on average, and ``H`` maps blocks to classes.


class RarestClass(NamedTuple):
    """Quantiles of the share that the rarest class has of what rows count: 5%, 50% and 95%."""

    low: float
    median: float
    high: float


def rarest_class(posterior, draws, constant):
    """A `RarestClass`.

    Parameters
    ----------
    posterior : LogisticPosterior
    draws : ndarray of shape (n_draws, n_parameters)
    constant : float
        ``c``.
    """
    synthetic_design, back = posterior.surrogate.synthetic_design, inv(posterior.transform)
    contrasts = synthetic_design.family.contrasts
    # Whatever ``n v`` is: all rows of one class are a share of 1.
    intercept_shift = in_parts(synthetic_design.change, posterior.surrogate_points(draws))
    intercept_shift = intercept_shift.reshape(len(draws), -1, len(back)) @ back[:, -1]
    shares = intercept_shift / (constant * synthetic_design.total_weight)
    # Of two classes the last is what is counted, and the other one is the rest.
    shares = shares @ contrasts.T if len(contrasts) > 2 else np.hstack([-shares, shares])
    shares = np.clip(shares + 1.0 / len(contrasts), 0.0, 1.0)
    quantiles = np.quantile(shares, [0.05, 0.5, 0.95], axis=0)
    return RarestClass(*map(float, quantiles[:, np.argmin(quantiles[1])]))


# Numbers in an array over points and rows of the population: larger ones are allocated anew each time.
_SMALL = 2**15


@dataclass(frozen=True)
class LogisticSurrogate(WithPrior):
    """The likelihood of ``t``, and the prior. ``n`` stands for ``n_blocks * length``.

    Attributes
    ----------
    synthetic_design : Population or NormalPopulation
    prior : Prior
    scales : ndarray of shape (n_groups,)
        Prior scales at which the mode is looked for.
    label_sum : ndarray of shape (n,)
        ``t``.
    noise : float
        ``s``.
    score_discrepancy : ScoreDiscrepancy
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

    synthetic_design: Population | NormalPopulation
    prior: Prior
    scales: np.ndarray
    label_sum: np.ndarray
    noise: float
    score_discrepancy: ScoreDiscrepancy
    origin: np.ndarray
    slope: float
    basis: np.ndarray
    sampling: np.ndarray
    start: np.ndarray

    def negative_log_likelihood(self, u):
        """The negative log likelihood, up to a constant, and its gradient, for (n_points, n)."""
        synthetic_design = self.synthetic_design
        if isinstance(synthetic_design, NormalPopulation):
            return self._negative_log_likelihood(u)
        groups = np.array_split(u, -(-synthetic_design.n_logits * len(u) // _SMALL))
        return tuple(
            map(np.concatenate, zip(*map(self._negative_log_likelihood, groups), strict=True))
        )

    def mean(self, u):
        """Expected labels for points of shape (n_points, n)."""
        f = self.synthetic_design.change(u)
        return f + f @ self.score_discrepancy.mean.T

    def predict(self, u, generator):
        """Labels as they might be released for points of shape (n_points, n)."""
        moments = self.synthetic_design.at(u)
        f, *_, variances = self._law(moments)
        # Post-processing.
        errors = np.sqrt(variances) * generator.standard_normal(u.shape)
        return f + f @ self.score_discrepancy.mean.T + errors @ self.basis.T

    @cached_property
    def _constants(self):
        """The factors of ``f`` and the parts of variances, in ``basis``; and the labels."""
        score_discrepancy, squares = self.score_discrepancy, self.basis**2
        onto, shares = score_discrepancy.parts
        variances = np.vstack(
            [shares @ squares, score_discrepancy.change @ squares, self.sampling / self.slope]
        )
        means = self.basis + score_discrepancy.mean.T @ self.basis
        return onto, variances, means, self.label_sum @ self.basis, 1.0 / score_discrepancy.squares

    def _law(self, moments):
        """``f``, its projections on the discrepancy's parts, its distance, and variances of the label sum."""
        onto, variances, *_, per_square = self._constants
        f = self.synthetic_design.score(moments) - self.origin
        turned, away = f @ onto, f - self.score_discrepancy.centre
        of = np.empty((len(f), len(variances)))
        np.multiply(turned, turned, out=of[:, :-2])
        of[:, -2], of[:, -1] = away**2 @ per_square, self.synthetic_design.mean_variance(moments)
        return f, turned, away, self.noise**2 + of @ variances

    def _negative_log_likelihood(self, u):
        _, of_variances, means, label_sum, per_square = self._constants
        moments = self.synthetic_design.at(u)
        f, turned, away, variances = self._law(moments)
        residual = f @ means - label_sum
        solved = residual / variances
        energy = 0.5 * (np.einsum("ij,ij->i", residual, solved) + np.log(variances).sum(axis=1))
        by_variance = (1.0 / variances - solved**2) @ of_variances.T
        turned *= by_variance[:, :-2]
        away *= by_variance[:, -2, None] * per_square
        of_f = solved @ means.T + turned @ self._constants[0].T + away
        return energy, self.synthetic_design.vjp(moments, of_f, 0.5 * by_variance[:, -1])

    @property
    def n_scaled(self):
        """The number of coordinates, the first ones, that prior scales multiply."""
        return self.start.size

    def information(self, u):
        """The curvature of the potential at one point, taking variances to be fixed."""
        synthetic_design, score_discrepancy = self.synthetic_design, self.score_discrepancy
        moments = synthetic_design.at(u[None])
        variances = self._law(moments)[-1][0]
        slopes = synthetic_design.curvature(u)
        turned = (slopes + slopes @ score_discrepancy.mean.T) @ (self.basis / np.sqrt(variances))
        return turned @ turned.T + self.prior.precision(self.scales)


# Draws of parameters: those of a surrogate, in the user's coordinates.
#
#     theta_k = sum_j H_kj W u_j + s / sqrt(K),      s ~ N(0, P^-1)
#
# With more than two classes labels tell contrasts of coefficients only; what is added to all classes
# alike follows the prior.


@dataclass(frozen=True)
class LogisticPosterior(HMCPosterior):
    """A posterior given what was released.

    Attributes
    ----------
    surrogate : LogisticSurrogate
    transform : ndarray of shape (length, length)
        ``W``.
    norm : float
        ``C``, beyond which records count less.
    shift : ndarray of shape (length,)
        Prior deviation of what classes have in common; empty for two.
    """

    surrogate: LogisticSurrogate
    transform: np.ndarray
    norm: float
    shift: np.ndarray

    def draw(self, n_draws, random):
        """Draws of shape (n_draws, n_parameters).

        Parameters
        ----------
        n_draws : int
        random : Generator or RandomState
            It need not be secret.
        """
        seed = chain_seed(random)
        u = draw(self.surrogate, n_draws, seed, self._chains)
        blocks = u.reshape(n_draws, -1, len(self.transform)) @ self.transform.T
        if not self.shift.size:
            return blocks.reshape(n_draws, -1)
        contrasts = self.surrogate.synthetic_design.family.contrasts
        generator = np.random.default_rng([seed, 1])
        # Post-processing.
        common = self.shift * generator.standard_normal((n_draws, 1, self.shift.size))
        blocks = contrasts @ blocks + common / np.sqrt(len(contrasts))
        return blocks.reshape(n_draws, -1)

    def importance_weights(self, draws):
        """The importance weights of draws in predictions, of shape (n_draws,); they add up to one.

        Parameters
        ----------
        draws : ndarray of shape (n_draws, n_parameters)
        """
        return self.surrogate.prior.importance_weights(self.surrogate_points(draws))

    def surrogate_points(self, draws):
        """``u`` of draws, of shape (n_draws, n_blocks * length): what `draw` made them from."""
        blocks = draws.reshape(len(draws), -1, len(self.transform))
        if self.shift.size:
            # Contrasts are orthonormal, and leave out what classes have in common.
            blocks = self.surrogate.synthetic_design.family.contrasts.T @ blocks
        return (blocks @ inv(self.transform).T).reshape(len(draws), -1)

    def prior_predictive_p_values(self):
        """The probability of labels that say at least as much against a narrow prior.

        Of coefficients and, if there is one, of the intercept: an array of shape (1 or 2,).
        """
        return prior_predictive_p_values(self.surrogate, self.transform)

    def deviations_without_privacy(self):
        """The deviations that parameters would have without noise, as far as that is known."""
        given = self.surrogate
        # Without privacy all records count fully.
        weight = max(given.synthetic_design.mean_weight, 1e-300)
        curvature = (given.basis * (given.sampling / weight)) @ given.basis.T
        n_blocks = given.synthetic_design.family.n_blocks
        blocks = np.kron(np.eye(n_blocks), self.transform)
        covariance = inv(curvature + given.prior.precision(given.scales))
        covariance = blocks @ covariance @ blocks.T
        if not self.shift.size:
            return np.sqrt(np.diag(covariance))
        contrasts = np.kron(given.synthetic_design.family.contrasts, np.eye(len(self.transform)))
        variances = np.einsum("ij,jk,ik->i", contrasts, covariance, contrasts)
        n_classes = n_blocks + 1
        return np.sqrt(variances + np.tile(self.shift**2, n_classes) / n_classes)


def deviations_in_common(target, family, scales):
    """Prior deviations of what classes have in common, none for two.

    Parameters
    ----------
    target : NamedTuple
    family : ClassFamily
    scales : ndarray of shape (n_groups,)
        Of all coefficients or, if there is an intercept, of the others and of it.
    """
    if family.n_blocks == 1:
        return np.empty(0)
    length = target.prior_precision.size // len(family.contrasts)
    deviations = target.prior_precision[:length] ** -0.5 * scales[0]
    if len(scales) > 1:
        deviations[-1] *= scales[1] / scales[0]
    return deviations
