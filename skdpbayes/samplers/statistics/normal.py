"""The posterior of linear regression with unknown noise, given sums of clipped residuals.

    g_k = sum_i v_i z_i psi_k(y_i - u_k . z_i) + N(0, N_k^2 I),     q_k = mean psi_k^2 + noise

Rows are taken to be normal with mean ``m`` and second moment ``diag(f)``, errors normal. Without the
weights ``v``, mean squares of rows are ``S_j``, no less than ``f_j``. With ``d = u - u_k`` a residual is
``N(a, sigma^2)``, ``a = m . d``, ``sigma^2 = s^2 + sum_j S_j d_j^2 - a^2``; its clipped mean is ``e``, of
slope ``c`` and mean square ``b``, and by Stein's identity

    E g_k = n c (diag(f) + E) d + n (e - c a) m,       Cov(g_k, g_l) = n s^2 c_k c_l diag(f),  k /= l,

because noisy sums see the same errors. On the diagonal there is ``n (b - e^2 - c^2 sigma^2) f`` besides, and
what rows that are not normal may change. ``E``, what is not known of the curvature, is symmetric with entries
of variances ``p_i p_j``, and ``2 p_i^2 + h_i`` on the diagonal, and is integrated out.

Responses lie within public bounds ``[-B, B]``. Their mean ``a`` and the variance ``v = sigma^2 - s^2`` that
rows explain, at 0, have a prior besides those of ``u`` and ``s``, unless a prior scale is given,

    a ~ N(0, B^2 / 3),    p(v) ~ 1 / (1 + 9 v / B^2) / (1 + (v / B^2)^4),

which is even below ``B^2 / 9``, even on a log scale from there to ``B^2``, as much as responses at both
bounds vary by, and little beyond. Without it many coefficients would explain far more than that.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import softmax

from ..._linalg import cholesky, eigh, inv, solve
from ..base import Diagnostics
from .curvature import Curvature, combined, conditioned, positive_inverse
from .design import coordinates_for, variance_component
from .heavy_tails import HeavyTailCorrection
from .hmc import Density, Posterior
from .plan import N_SUMS_USED, RESPONSES, best_clip, clipped_normal, deviation_of
from .prior import Growth, Prior, growth_of, prior_of
from .release import Likelihood
from .requests import Question

# Draws that are as wide as they should be where errors vary with the rows.
#
#     M = sum_i w_i^2 v_i psi_i^2 z_i z_i^T + N,      E M = n b o (diag(f) + R)
#
# at the last point, with the mean square ``b`` of clipped residuals there, and a mean weight ``o``,
# 1 if records have none. ``R`` is zero if errors have nothing to do with rows; entries are
# ``N(0, k^2 f_i f_j)`` a priori, ``k`` learnt. In its eigenvectors, relative to ``f``, mean squares
# are ``b r_j``, and say how large errors are along each: ``s_j``. So they say how many residuals
# are not clipped, ``c(s_j)``, and hence the slope of a noisy sum, which takes ``c(s) diag(f)`` for
#
#     c(s) G,      G = f^1/2 (sum_j c(s_j) / c(s) q_j q_j^T) f^1/2
#
# Let noisy sums have the weights ``a_ki`` in the score of ``u_i``, covariances ``n S diag(f)`` besides
# noise, and slopes ``n c_k diag(f)``, and let ``J`` be the information of all, ``P`` of it the
# prior's. Draws are stretched around the mode so that their covariance is not ``J^-1`` but
#
#     V = D^-1 (J + K) D^-T,   K_ij = n (o f + o R - f)_ij a_i . S a_j,   D_ij = n a_i . c G_ij + P_ij
#
# (Shaby, "The open-faced sandwich adjustment for Markov chain Monte Carlo using estimating
# functions", 2014).


# Prior value of ``k^2`` of the sandwich.
_SANDWICH_PRIOR_MEAN = 0.01
# Number of entries that the prior value is worth.
_SANDWICH_PRIOR_COUNT = 4.0
# Limits of ``k^2`` of the sandwich.
_SANDWICH_LIMITS = (1e-6, 4.0)
# ``o`` over the largest weight, at least.
_LEAST_WEIGHT = 0.02
# Of ``r_j``, at least.
_SANDWICH_LEAST_SHARE = 0.05
# Least factor by which draws become narrower in a direction.
_LEAST_STRETCH_FACTOR = 0.6
# Largest factor by which draws become wider in a direction.
_LARGEST_STRETCH_FACTOR = 4.0


def varying_part(matrix, noise, records, curvature, largest=None):
    """``o`` and ``R`` as they are believed to be.

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
    length, scale_of_mean = curvature.size, 1.0
    if largest is not None:
        mean_square = float(np.mean(np.diag(matrix) / curvature)) / records
        variance = float(np.sum(curvature**-2.0)) * (noise / records / length) ** 2
        # One weight is as likely to be the usual one as another.
        share = largest**2 / (largest**2 + variance)
        scale_of_mean = min(
            max(largest + share * (mean_square - largest), _LEAST_WEIGHT * largest), largest
        )
    excess = matrix / (scale_of_mean * records) - np.diag(curvature)
    known = (noise / (scale_of_mean * records)) ** 2 * 0.5 * (1.0 + np.eye(length))
    units = np.outer(curvature, curvature)
    prior = units * variance_component(
        excess**2, known, units, _SANDWICH_PRIOR_MEAN, _SANDWICH_PRIOR_COUNT, _SANDWICH_LIMITS
    )
    return scale_of_mean, excess * prior / (prior + known)


def slopes_of(varying, curvature, square, clip):
    """``G``.

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
    squares = square * np.append(np.maximum(shares, _SANDWICH_LEAST_SHARE), 1.0)
    slopes = clipped_normal(0.0, deviation_of(squares, clip), clip).slope
    vectors = root[:, None] * vectors
    return (vectors * (slopes[:-1] / slopes[-1])) @ vectors.T


def sandwich_factor_of(density, varying, slopes):
    """The matrix by which draws are stretched around the mode.

    Parameters
    ----------
    density : NormalDensity
        At its mode.
    varying, slopes : ndarray of shape (length, length)
        ``o (diag(f) + R) - diag(f)``, and ``G``.

    Returns
    -------
    sandwich_factor : ndarray of shape (length, length)
    """
    n, f, length = density.n_samples, density.curvature.values, len(varying)
    weights, errors, c = density.score_weights(density.start)
    # Of the coefficients alone, whatever the errors' deviation is.
    covariance = inv(density.information(density.start))[:length, :length]
    information = inv(covariance)
    variance = information + n * varying * (weights.T @ errors @ weights)
    changed = information + n * (c @ weights)[:, None] * (slopes - np.diag(f))
    factor = cholesky(covariance)
    bread = solve(factor, inv(changed))
    values, vectors = eigh(bread @ variance @ bread.T)
    wider = np.sqrt(np.clip(values, _LEAST_STRETCH_FACTOR**2, _LARGEST_STRETCH_FACTOR**2))
    return factor @ (vectors * wider) @ solve(factor.T, vectors).T


# How much rows that are not normal may change a noisy sum, relative to what clips take from it.
_SHAPE_ERROR = 0.25
# Relative error of a mean square, as errors are not quite normal.
_MEAN_SQUARE_ERROR = 0.02
# Relative error of its excess over the last one, as rows are not normal.
_EXCESS_ERROR = 0.1


# The posterior is given fewer of the last noisy sums if these have this share of what all have of the budget.
_SHARE_USED = 0.95
# A clip stays as it is if the mean square is nearly the square of the clip, which says little of residuals.
_SATURATED = 0.8
# A first step leaves at least this share of the deviation of residuals.
_LEAST_RESIDUAL_SHARE = 0.1
# Prior median of the errors' deviation, over the bound of responses.
_PRIOR_ERROR_SD_RATIO = 0.1
# Least clip, over the bound of responses.
_LEAST_CLIP = 1e-6
# A clip that cuts nothing, over the bound of responses.
_UNCLIPPED_RATIO = 8.0
# How much of a mean square may be that of a point which is off, or noise, if it is to tell of errors.
_MOST_OF_POINT = 0.5
# Prior deviation of the logarithm of the errors' deviation.
_PRIOR_LOG_SD = 1.5
# The same where the deviation is given.
_GIVEN_LOG_SD = 1e-3
# Prior variance of the mean of responses, over the square of their bound: that of an even law.
_MEAN_VARIANCE = 1.0 / 3.0
# Deviations of noise around a released mean square within which it is looked for, and points of a grid.
_ENDS = 8.0
_N_POINTS = 400
# Posterior deviations that are added to that of errors where noisy sums have next to no noise.
_UPPER_SDS = 1.0
# Names of plans' wide clips, over the deviation of residuals.
_WIDE_CLIPS = {"wide_clip": "wide_clip", "wide_residuals": "wide_residuals_clip"}
# Largest logarithm of a deviation, whose square is then still a double.
_LARGEST_LOG_DEVIATION = 300.0
# Prior deviation of the errors' skewness, if there is any.
_PRIOR_SD_SKEWNESS = 1.5
# Odds of a skew against none below which errors count as symmetric.
_LEAST_ODDS = 10.0
# Largest skewness: how far the short tail goes is not seen, and intervals would be too short there.
_LARGEST_SKEWNESS = 1.5
# Deviations of the noise on an entry of ``A`` at which whitening stops.
_NOISE_FLOOR = 1.5


def variance_energy(variance, bound):
    """Minus the log density of a variance of responses within ``[-bound, bound]``, and its slope."""
    usual = RESPONSES**2
    with np.errstate(divide="ignore", over="ignore"):
        share = np.asarray(variance / bound**2)
        slope = 1.0 / (usual + share) + 4.0 / (share**-3.0 + share)
        return np.log1p(share / usual) + np.log1p(share**4), slope / bound**2


@dataclass(frozen=True)
class NormalDensity(Density):
    """The likelihood of noisy sums and mean squares, and the prior; a point is ``(u, log s)``.

    Attributes
    ----------
    n_samples : float
        ``n``.
    curvature : Curvature
        ``f``, ``p``, ``h``, ``m`` and ``S``, and the coordinates in which they are.
    prior : Prior
        Of points; it says nothing of the last coordinate.
    scales : ndarray of shape (n_scales,)
        Prior scales at which the mode is looked for.
    growth : Growth
    prior_median, log_sd : float
        Median of the errors' deviation a priori, and the deviation of its logarithm.
    noisy_sums : tuple of NoisySum
    mean_squares : tuple of NoisySum
        Of a record.
    start : ndarray of shape (length + 1,)
    constant : float, default=0
        ``c``, that of rows.
    bound : float, default=inf
        ``B``, that of responses; inf where the prior is a user's own.
    sandwich_factor : ndarray of shape (length, length) or None, default=None
        ``T``, by which draws are stretched around the mode; None is one.
    heavy_tails : HeavyTailCorrection or None, default=None
        None is of normal errors.
    """

    n_samples: float
    curvature: Curvature
    prior: Prior
    scales: np.ndarray
    growth: Growth
    prior_median: float
    log_sd: float
    noisy_sums: tuple
    mean_squares: tuple
    start: np.ndarray
    constant: float = 0.0
    bound: float = math.inf
    sandwich_factor: np.ndarray | None = None
    heavy_tails: HeavyTailCorrection | None = None

    def negative_log_likelihood(self, u):
        """The negative log likelihood, up to a constant, and its gradient, for (n_points, length + 1)."""
        coefficients, log_s = u[:, :-1], u[:, -1]
        away = (log_s - np.log(self.prior_median)) / self.log_sd
        energy, gradient = self._mean_square_energy(coefficients, log_s)
        gradient[:, -1] += away / self.log_sd
        energy += 0.5 * away**2
        of_responses, slopes = self._response_energy(coefficients)
        energy, gradient = energy + of_responses, gradient + slopes
        if self.noisy_sums:
            of_sums, slopes, _ = self._noisy_sum_energy(coefficients, log_s)
            energy, gradient = energy + of_sums, gradient + slopes
        return energy, gradient

    def residuals(self, u, log_s, points):
        """Differences to points, and means and deviations of residuals there.

        Arrays are of shape (n_sums, n_points, length) and (n_sums, n_points).
        """
        d = u - points[:, None]
        a = d @ self.curvature.mean
        variance = np.maximum(d**2 @ self.curvature.squares - a**2, 0.0)
        return d, a, np.sqrt(np.exp(2.0 * log_s) + variance)

    def _vjp(self, d, a, sigma, log_s, by_a, by_sigma):
        """The gradient by a point of what depends on ``a`` and ``sigma`` of all noisy sums."""
        mean, squares = self.curvature.mean, self.curvature.squares
        by_variance = by_sigma / (2.0 * sigma)
        gradient = np.empty((d.shape[1], mean.size + 1))
        gradient[:, :-1] = (by_a - 2.0 * a * by_variance).sum(axis=0)[:, None] * mean
        gradient[:, :-1] += 2.0 * squares * np.einsum("kp,kpi->pi", by_variance, d)
        gradient[:, -1] = 2.0 * np.exp(2.0 * log_s) * by_variance.sum(axis=0)
        return gradient

    def _response_energy(self, u):
        """The energy of the mean and the variance of expected responses, and its gradient."""
        mean, squares = self.curvature.mean, self.curvature.squares
        a, of_mean = u @ mean, _MEAN_VARIANCE * self.bound**2
        variance, slope = variance_energy(np.maximum(u**2 @ squares - a**2, 0.0), self.bound)
        gradient = 2.0 * slope[:, None] * (squares * u - a[:, None] * mean)
        gradient += (a / of_mean)[:, None] * mean
        return variance + 0.5 * a**2 / of_mean, np.pad(gradient, ((0, 0), (0, 1)))

    def _response_information(self, u):
        """Its curvature with the slope of the energy of the variance that there is here: positive."""
        mean, squares = self.curvature.mean, self.curvature.squares
        _, (slope,) = variance_energy(np.maximum(u**2 @ squares - (u @ mean) ** 2, 0.0), self.bound)
        within = 1.0 / max(1.0, float(np.sum(mean**2 / squares)))
        of_rows = 2.0 * slope * (np.diag(squares) - within * np.outer(mean, mean))
        return np.pad(of_rows + np.outer(mean, mean) / (_MEAN_VARIANCE * self.bound**2), (0, 1))

    @cached_property
    def _mean_square_arrays(self):
        points, clips, values, noises = _arrays(self.mean_squares)
        squares = np.maximum(values, 0.0)
        error = _MEAN_SQUARE_ERROR * squares + _EXCESS_ERROR * np.maximum(
            squares - squares[-1], 0.0
        )
        sampling = np.maximum(values, noises) * np.sqrt(2.0 / self.n_samples)
        deviations = np.sqrt(noises**2 + error**2 + sampling**2)
        return points, clips[:, None], values[:, None], deviations[:, None]

    def _mean_square_energy(self, u, log_s):
        points, clips, values, deviations = self._mean_square_arrays
        d, a, sigma = self.residuals(u, log_s, points)
        law = clipped_normal(a, sigma, clips)
        off = (law.square - values) / deviations
        by = off / deviations
        by_a, by_sigma = by * law.square_by_mean, by * law.square_by_deviation
        return 0.5 * np.sum(off**2, axis=0), self._vjp(d, a, sigma, log_s, by_a, by_sigma)

    @cached_property
    def _noisy_sum_arrays(self):
        return _arrays(self.noisy_sums)

    def _noisy_sum_energy(self, u, log_s, left_out=None):
        """The energy, its gradient, and chi-squared of noisy sums but for directions that are left out."""
        n, curvature = self.n_samples, self.curvature
        f, m = curvature.values, curvature.mean
        points, clips, values, noises = self._noisy_sum_arrays
        d, a, sigma = self.residuals(u, log_s, points)
        law, s2 = clipped_normal(a, sigma, clips[:, None]), np.exp(2.0 * log_s)
        c, e = law.slope, law.mean
        scores = n * f * d  # (n_sums, n_points, length), as all of noisy sums
        r = values[:, None] - c[..., None] * scores - n * (e - c * a)[..., None] * m
        if left_out is not None:
            r = r - (r / np.sqrt(f)) @ left_out.T @ left_out * np.sqrt(f)
        unclipped = np.maximum(law.square - e**2 - (c * sigma) ** 2, 0.0)
        of_shape = (_SHAPE_ERROR * (1.0 - c)) ** 2
        cc = c[:, None] * c
        blocks = cc[..., None] * (n * s2[:, None] * f)
        own = np.arange(len(c))
        blocks[own, own] += (noises**2)[:, None, None] + n * unclipped[..., None] * f
        blocks[own, own] += of_shape[..., None] * scores**2
        energy, alpha, w, by_x = conditioned(
            r, blocks, n * c[..., None] * d, curvature.variance_factor, curvature.diagonal_variance
        )
        by_x, w_own = n * by_x, w[own, own]
        by_cc = n * s2 * (w @ f)
        by_h = -n * (alpha @ m)
        by_seen = 2.0 * w_own * of_shape[..., None] * scores - c[..., None] * alpha
        by_own = n * (w_own @ f) * (unclipped > 0)
        by_c = np.einsum("kpi,kpi->kp", by_x, d) - np.einsum("kpi,kpi->kp", alpha, scores)
        by_c += 2.0 * np.einsum("klp,lp->kp", by_cc, c)
        by_c -= 2.0 * _SHAPE_ERROR**2 * (1.0 - c) * np.sum(w_own * scores**2, axis=2)
        by_c -= 2.0 * by_own * c * sigma**2 + by_h * a
        by_e = by_h - 2.0 * by_own * e
        by_a = by_own * law.square_by_mean + by_e * c + by_c * law.slope_by_mean - by_h * c
        by_sigma = by_own * (law.square_by_deviation - 2.0 * c**2 * sigma)
        by_sigma += by_e * law.mean_by_deviation + by_c * law.slope_by_deviation
        gradient = self._vjp(d, a, sigma, log_s, by_a, by_sigma)
        gradient[:, :-1] += np.sum(c[..., None] * by_x + n * f * by_seen, axis=0)
        gradient[:, -1] += 2.0 * np.sum(by_cc * cc, axis=(0, 1))
        return energy, gradient, np.einsum("kpi,kpi->p", r, alpha)

    def chi2(self, left_out=None):
        """Chi-squared of the noisy sums at the mode per degree of freedom, and how many there are.

        The first is about 1, or less, if noisy sums follow the law that is assumed.

        Parameters
        ----------
        left_out : ndarray of shape (n_directions, length) or None, default=None
            Orthonormal directions along which they need not, in coordinates in which rows have a second
            moment of one.
        """
        length = self.curvature.mean.size - (0 if left_out is None else len(left_out))
        if length <= 0:
            return 0.0, 0
        mode, dof = self.start, len(self.noisy_sums) * length
        return float(self._noisy_sum_energy(mode[None, :-1], mode[-1:], left_out)[2][0]) / dof, dof

    @property
    def transform(self):
        """``W``."""
        return self.curvature.transform

    def information(self, u):
        """The curvature of the potential at one point, about."""
        coefficients, log_s = u[None, :-1], u[-1:]
        matrix = self.prior.precision(self.scales)
        matrix[-1, -1] += self.log_sd**-2.0
        matrix = matrix + self._response_information(coefficients)
        points, clips, _, deviations = self._mean_square_arrays
        d, a, sigma = self.residuals(coefficients, log_s, points)
        law = clipped_normal(a, sigma, clips)
        for k, deviation in enumerate(deviations[:, 0]):
            is_own = np.arange(len(clips))[:, None] == k
            by_a = np.where(is_own, law.square_by_mean, 0.0)
            by_sigma = np.where(is_own, law.square_by_deviation, 0.0)
            slope = self._vjp(d, a, sigma, log_s, by_a, by_sigma)[0] / deviation
            matrix = matrix + np.outer(slope, slope)
        if self.noisy_sums:
            c, _, v = self._laws_of_noisy_sums(coefficients, log_s)
            of_sums = np.einsum("k,kli,l->i", c, positive_inverse(v)[0], c)
            indices = np.arange(self.curvature.values.size)
            matrix[indices, indices] += (self.n_samples * self.curvature.values) ** 2 * of_sums
        return matrix

    def score_weights(self, point):
        """Weights of noisy sums in the score of coefficients, and what errors of noisy sums have in common.

        Parameters
        ----------
        point : ndarray of shape (length + 1,)

        Returns
        -------
        weights : ndarray of shape (n_sums, length)
        errors : ndarray of shape (n_sums, n_sums)
            Noisy sums have covariances of these times ``n diag(f)``, besides noise.
        slopes : ndarray of shape (n_sums,)
        """
        c, errors, v = self._laws_of_noisy_sums(point[None, :-1], point[-1:])
        weights = np.einsum("kli,l->ki", positive_inverse(v)[0], c)
        return self.n_samples * self.curvature.values * weights, errors, c

    def _laws_of_noisy_sums(self, u, log_s):
        """Slopes, what errors have in common, and covariances of shape (n_sums, n_sums, length)."""
        n, curvature = self.n_samples, self.curvature
        f, p, h = curvature.values, curvature.variance_factor, curvature.diagonal_variance
        points, clips, _, noises = self._noisy_sum_arrays
        d, a, sigma = self.residuals(u, log_s, points)
        law, s2 = clipped_normal(a, sigma, clips[:, None]), np.exp(2.0 * log_s[0])
        c, d = law.slope[:, 0], d[:, 0]
        unclipped = np.maximum(law.square - law.mean**2 - (law.slope * sigma) ** 2, 0.0)[:, 0]
        errors = s2 * np.outer(c, c) + np.diag(unclipped)
        x = n * c[:, None] * d
        v = errors[..., None] * (n * f) + ((x * p) @ x.T)[..., None] * p + x[:, None] * x * h
        of_shape = (_SHAPE_ERROR * (1.0 - c))[:, None] * (n * f) * d
        v[np.arange(c.size), np.arange(c.size)] += (noises**2)[:, None] + of_shape**2
        return c, errors, v

    # Draws of coefficients and of the errors' deviation, in the user's coordinates.
    #
    #     theta = W (u^ + T (u - u^) + delta) + delta_0 / c,    s = exp(log s)
    #
    # at the mode ``u^``, with ``delta`` of slopes and ``delta_0`` of the intercept by `HeavyTailCorrection`.

    def parameters(self, u, random):
        """Draws of coefficients, and of ``noise_deviations``."""
        coefficients, deviations = u[:, :-1], np.exp(u[:, -1])
        if self.sandwich_factor is not None:
            mode = self.start[:-1]
            coefficients = mode + (coefficients - mode) @ self.sandwich_factor.T
        theta = coefficients @ self.curvature.transform.T
        if self.heavy_tails is not None:
            slopes, delta, deviations = self.heavy_tails.given(
                self, coefficients, deviations, random
            )
            theta += slopes @ self.curvature.transform.T
            theta[:, -1] += delta / self.constant
        return theta, Diagnostics(noise_deviations=deviations)

    def level(self, u):
        """The mean of responses, of shape (n_points, 1)."""
        return (u[:, :-1] @ self.curvature.mean)[:, None]

    def asymmetry(self):
        """Mean of residuals at a wide clip beyond that of normal errors, its deviation, and the errors' size.

        Of symmetric errors the first is 0 up to the second, however heavy their tails. It is None where
        nothing was released at a wide clip.
        """
        if self.heavy_tails is None:
            return None
        wide, mode = self.heavy_tails, self.start
        _, a, sigma = self.residuals(mode[None, :-1], mode[-1:], wide.mean.point[None])
        law = clipped_normal(a[0], sigma[0], wide.mean.clip)
        mean = self.curvature.mean
        mean = mean if self.sandwich_factor is None else mean @ self.sandwich_factor
        covariance = inv(self.information(mode))[:-1, :-1]
        square = max(wide.square.value, float(law.square[0]))
        variance = wide.mean.noise**2 + wide.weight * square / self.n_samples
        variance += float(mean @ covariance @ mean)
        return (
            wide.mean.value - float(law.mean[0]),
            float(np.sqrt(variance)),
            float(np.sqrt(square)),
        )

    def error_skewness(self, asymmetry):
        """The skewness of errors that is believed, given `asymmetry`.

        By the first term of Edgeworth's expansion the mean of errors of skewness ``g`` and deviation ``s`` is
        ``g s k phi(k) / (3 (2 Phi(k) - 1))`` above the centre at a clip of ``k s``.
        """
        mean, deviation, size = asymmetry
        ratio = self.noisy_sums[-1].clip / size
        inside = float(clipped_normal(0.0, 1.0, ratio).slope)
        unit = size * ratio * math.exp(-0.5 * ratio**2) / (3.0 * math.sqrt(2.0 * math.pi) * inside)
        prior, square = (_PRIOR_SD_SKEWNESS * unit) ** 2, deviation**2
        # Errors are as likely to be symmetric as not.
        exponent = 0.5 * prior / (prior + square) * mean**2 / square
        odds = math.sqrt(square / (prior + square)) * math.exp(min(exponent, 700.0))
        if odds < _LEAST_ODDS:
            return 0.0
        skewness = odds / (1.0 + odds) * _PRIOR_SD_SKEWNESS**2 * unit * mean / (prior + square)
        return float(np.clip(skewness, -_LARGEST_SKEWNESS, _LARGEST_SKEWNESS))

    def deviations_without_noise(self):
        """The deviations that coefficients would have without noise, as far as that is known."""
        precision = self.prior.precision(self.scales)[:-1, :-1]
        variance = np.exp(2.0 * self.start[-1])
        precision = precision + np.diag(self.n_samples * self.curvature.squares / variance)
        back = self.curvature.transform
        back = back if self.sandwich_factor is None else back @ self.sandwich_factor
        return np.sqrt(np.diag(back @ inv(precision) @ back.T))


def _arrays(noisy_sums):
    """Points, clips, values and deviations of noise."""
    parts = (
        [getattr(each, name) for each in noisy_sums] for name in ("point", "clip", "value", "noise")
    )
    return tuple(map(np.array, parts))


class NormalLikelihood(Likelihood):
    """Numbers: mean squares tell a first clip, and each noisy sum the point and the clip of the next."""

    def __init__(self, plan, released, prior_precision):
        super().__init__(plan, released, prior_precision)
        family = plan.bounds.family
        self.bound = self.clip = family.half_width
        self.prior_median = (
            _PRIOR_ERROR_SD_RATIO * self.bound if family.deviation is None else family.deviation
        )
        self.log_sd = _PRIOR_LOG_SD if family.deviation is None else _GIVEN_LOG_SD
        self.noisy_sums, self.mean_squares, self.meat = [], [], None
        self.heavy_tails: Any = None
        self.residual_sd = math.inf
        self.max_weight = plan.bounds.max_weight or 1.0
        self.coordinates, self.matrix_norm = coordinates_of_numbers(
            plan, released, self.prior_median
        )

    def question(self, request):
        """At the mode, at a clip that follows from the last answer."""
        if request.kind == "curvature":
            return Question(self.coordinates.transform)
        if request.kind == "mean_square":
            return Question(self.coordinates.transform, np.zeros(len(self.design.mean)), self.clip)
        transform = self.curvature.transform
        if request.kind == "residuals":
            self.clip = self._next_clip()
            return Question(transform, self.start[:-1], self.clip)
        point, clip = self.noisy_sums[-1].point, self.noisy_sums[-1].clip
        if request.kind in ("wide_clip", "wide_residuals"):
            widest = max(self.residual_sd, self._widest())
            clip = min(getattr(self.plan, _WIDE_CLIPS[request.kind]) * widest, 2.0 * self.bound)
        return Question(transform, point, clip)

    def _learn_curvature(self, matrix):
        """Fix coordinates and the prior by both second moments."""
        transform = self.coordinates.transform
        assert self.matrix_norm is not None  # Set with the coordinates.
        of_table = self.n_records, self.matrix_norm**2
        self.curvature = combined(self.design, transform, matrix.value, matrix.noise, *of_table)
        transform = self.curvature.transform
        known = self.plan.bounds, 1, self.prior_precision, transform
        self.prior = prior_of(*known, self.design).padded()
        growth = growth_of(self.constant, 1, transform)
        self.growth = growth._replace(
            matrix=np.pad(growth.matrix, (0, 1)), intercept=np.append(growth.intercept, 0.0)
        )
        self.scales = self.prior.prior_mode
        self.start = np.append(np.zeros(len(transform)), math.log(self.prior_median))

    def _learn_mean_square(self, square):
        square = self._mean_square(square)
        self.mean_squares.append(square)
        sampling = max(square.value, 0.0) * math.sqrt(2.0 / self.n_records)
        noise, largest = math.hypot(square.noise, sampling), min(square.clip, self.bound) ** 2
        ends = square.value + np.array([-_ENDS, _ENDS]) * noise
        low, high = np.clip(ends, 0.0, largest)
        grid = np.linspace(low, high, _N_POINTS)
        logs = -0.5 * ((grid - square.value) / noise) ** 2 - variance_energy(grid, self.bound)[0]
        probabilities = softmax(logs)
        mean = probabilities @ grid
        deviation = math.sqrt(probabilities @ (grid - mean) ** 2)
        upper = float(mean + self._margin_sds * deviation)
        if upper < _SATURATED * square.clip**2:
            self.residual_sd = min(self.residual_sd, deviation_of(upper, square.clip))
        self.clip = self._next_clip()

    def _learn_residuals(self, value, square):
        """Find the mode, and the deviation of residuals there."""
        self.noisy_sums.append(value._replace(clip=self._effective_clip(value)))
        self.mean_squares.append(self._mean_square(square))
        self.start = self._started()
        self._note_residual_sd(self.update_mode())

    def _learn_meat(self, matrix):
        self.meat = matrix

    def _learn_wide_clip(self, mean, square):
        n = self.n_records
        self.heavy_tails = HeavyTailCorrection(mean.per_record(n), square.per_record(n))

    def _learn_wide_residuals(self, value):
        self.heavy_tails = self.heavy_tails._replace(score=value)

    def _mean_square(self, square):
        """The mean of squares of clipped residuals, with a clip as it works."""
        return square.per_record(self.n_records)._replace(clip=self._effective_clip(square))

    def _effective_clip(self, noisy_sum):
        """A clip as it works: one at the bound of responses cuts nothing at the origin."""
        is_open = noisy_sum.clip >= self.bound and not np.any(noisy_sum.point)
        return _UNCLIPPED_RATIO * self.bound if is_open else noisy_sum.clip

    def _next_clip(self):
        """The clip for residuals of a deviation, never larger than the last."""
        return max(
            min(self.clip, self._best_clip.ratio * self.residual_sd), _LEAST_CLIP * self.bound
        )

    @cached_property
    def _best_clip(self):
        mu = math.sqrt(sum(multiplier**-2.0 for multiplier in self.plan.residual_multipliers))
        moved = self.max_weight * self.plan.budget.sensitivity_factor * self.coordinates.norm
        return best_clip(self.n_records, moved, mu)

    @property
    def _margin_sds(self):
        """Posterior deviations that are added to the deviation of residuals of which a clip is a multiple.

        A clip that is too small costs sampling errors, and one that is too large costs noise.
        """
        return _UPPER_SDS * self._best_clip.of_sampling

    def _note_residual_sd(self, density):
        """Note the deviation that residuals have at the mode, with a margin."""
        variances = np.maximum(np.diag(inv(density.information(density.start))), 0.0)
        log_s = density.start[-1] + self._margin_sds * math.sqrt(variances[-1])
        log_s = min(log_s, _LARGEST_LOG_DEVIATION)
        of_point = variances[:-1] @ self.curvature.squares
        self.residual_sd = math.sqrt(math.exp(2.0 * log_s) + of_point)

    def _widest(self):
        """The largest deviation of errors that a mean square tells, and points do not."""
        largest = 0.0
        for square in self.mean_squares:
            d = self.start[:-1] - square.point
            value = min(max(square.value, 0.0), _SATURATED * square.clip**2)
            variance = deviation_of(value, square.clip) ** 2
            of_point = float(d**2 @ self.curvature.squares)
            is_seen = square.noise < _MOST_OF_POINT * square.value
            if is_seen and of_point < _MOST_OF_POINT * value:
                largest = max(largest, math.sqrt(variance - of_point))
        return largest

    def _started(self):
        """The start of the search for the mode: from the last noisy sum, or the one before if likelier."""
        noisy_sum, square = self.noisy_sums[-1], self.mean_squares[-1]
        clip, f = noisy_sum.clip, self.curvature.values
        sigma = deviation_of(min(max(square.value, square.noise), _SATURATED * clip**2), clip)
        slope = clipped_normal(0.0, sigma, clip).slope * self.n_records * f
        step = slope * noisy_sum.value / (slope**2 + noisy_sum.noise**2 / sigma**2)
        variance_left = sigma**2 - self.curvature.squares @ step**2
        variance_left = max(variance_left, (_LEAST_RESIDUAL_SHARE * sigma) ** 2)
        stepped = np.append(noisy_sum.point + step, 0.5 * math.log(variance_left))
        points = np.array([self.start, stepped])
        return points[np.argmin(self.density().potential(points)[0])]

    def _n_used(self):
        """The number of last noisy sums that say nearly all that all do."""
        squares = np.array(self.plan.residual_multipliers[: len(self.noisy_sums)]) ** -2.0
        shares = np.cumsum(squares[::-1]) / squares.sum()
        return min(int(np.searchsorted(shares, _SHARE_USED)) + 1, N_SUMS_USED)

    def density(self):
        """The density given the last noisy sums and all mean squares."""
        return NormalDensity(
            n_samples=self.n_records,
            curvature=self.curvature,
            prior=self.prior,
            scales=self.scales,
            growth=self.growth,
            prior_median=self.prior_median,
            log_sd=self.log_sd,
            noisy_sums=tuple(self.noisy_sums[-self._n_used() :]),
            mean_squares=tuple(self.mean_squares),
            start=self.start,
            constant=self.constant,
            bound=self.bound if self.plan.bounds.learns_scales[0] else math.inf,
        )

    def posterior(self):
        """The posterior that all releases amount to."""
        density = super().posterior().density
        sandwich_factor, weight = self._sandwich_factor(density)
        tails = self.heavy_tails and self.heavy_tails._replace(weight=weight)
        return Posterior(replace(density, sandwich_factor=sandwich_factor, heavy_tails=tails))

    def _sandwich_factor(self, density):
        """The sandwich factor of draws, None if it is not known that errors vary, and a mean weight."""
        square = self.mean_squares[-1]
        if self.meat is None or square.value <= square.noise:
            return None, self.max_weight
        f, clip = self.curvature.values, self.noisy_sums[-1].clip
        of_all = self.n_records * square.value
        known = self.meat.value, self.meat.noise, of_all, f, self.plan.bounds.max_weight
        factor_of_all, varying = varying_part(*known)
        changed = factor_of_all * (np.diag(f) + varying) - np.diag(f)
        slopes = slopes_of(varying, f, square.value, clip)
        return sandwich_factor_of(density, changed, slopes), factor_of_all

    def diagnostics(self, posterior, draws):
        """Whether noisy sums agree, what noise hides, and whether errors are skewed."""
        density, left_out, skew = posterior.density, None, Diagnostics()
        if (asymmetry := density.asymmetry()) is not None:
            skew = Diagnostics(
                asymmetry=asymmetry,
                error_skewness=density.error_skewness(asymmetry),
                noise_of_skewed_slopes=density.heavy_tails.noise_of_slopes(density),
            )
            if skew.error_skewness:
                left_out = density.heavy_tails.directions(density)
        square, n = density.chi2(left_out)
        return replace(
            skew, hidden_directions=self.curvature.hidden, chi2_per_dof=square, chi2_dof=n
        )


def coordinates_of_numbers(plan, released, unit):
    """`Coordinates` where residuals are clipped, and ``K``.

    Parameters
    ----------
    plan : ClippedResidualsPlan
    released : ReleasedDesign
    unit : float
        Deviation of the errors of rows that a prior is worth.
    """
    precision = min(plan.bounds.prior_precision[0] * unit**2, released.noise)
    coordinates = coordinates_for(
        released.design,
        released.noise,
        plan.bounds._replace(prior_precision=(precision, precision)),
        released.n_records,
        plan.row_clipping,
        noise_floor=_NOISE_FLOOR,
    )
    return coordinates, coordinates.norm * math.sqrt(plan.matrix_clipping / plan.row_clipping)
