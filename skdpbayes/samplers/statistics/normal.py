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
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from ..._linalg import cholesky, eigh, inv, solve
from .design import variance_component
from .hmc import HMCPosterior, chain_seed, draw
from .plan import clipped_normal, deviation_of
from .prior import Prior, WithPrior

# The law of several noisy sums, in which what is not known of a symmetric matrix is integrated out.
#
#     r_k ~ (D^1/2 S D^1/2 + T) x_k + N(0, blocks),      S_ij ~ N(0, 1 + [i = j]) symmetric,  T_ii ~ N(0, h_i)
#
# with diagonal ``D`` and ``T``. ``S y_k`` and ``S y_l`` have the covariance
# ``y_k . y_l I + y_l y_k^T``. Without the second part entries are independent. That part is
# ``U J U^T``, where ``J`` exchanges the noisy sums of a pair: by Woodbury's identity only matrices
# over pairs of noisy sums are inverted besides.


def conditioned(r, blocks, x, variance_factor, diagonal_variance):
    """The negative log density of ``r``, up to a constant, and its derivatives.

    Parameters
    ----------
    r, x : ndarray of shape (n_points, n_sums, length)
    blocks : ndarray of shape (n_points, length, n_sums, n_sums)
    variance_factor, diagonal_variance : ndarray of shape (length,)
        ``D`` and ``h``.

    Returns
    -------
    energy : ndarray of shape (n_points,)
    by_r : ndarray of shape (n_points, n_sums, length)
    by_blocks : ndarray of shape (n_points, length, n_sums, n_sums)
    by_x : ndarray of shape (n_points, n_sums, length)
    """
    n_points, n_sums, length = x.shape
    pairs, square = n_sums**2, (n_sums, n_sums)
    scaled, x_transposed = variance_factor * x, x.swapaxes(1, 2)
    columns = np.ascontiguousarray(scaled.swapaxes(1, 2))
    blocks = blocks + variance_factor[:, None, None] * (scaled @ x_transposed)[:, None]
    blocks += diagonal_variance[:, None, None] * _outer(x_transposed)
    inverse, log_det = positive_inverse(blocks)
    # Of pairs (m, n) and (k, l): row k of the inverse times entries l and n of points.
    rows = inverse.reshape(n_points, length, pairs).swapaxes(1, 2)
    s = rows @ _outer(columns).reshape(n_points, length, pairs)
    s = s.reshape(n_points, *square, *square).transpose(0, 1, 3, 2, 4)
    s = s.reshape(n_points, pairs, pairs)
    exchange = np.arange(pairs).reshape(square).T.ravel()
    s[:, np.arange(pairs), exchange] += 1.0
    m = inv(s)
    solved = _times(inverse, r)
    projected = (m @ (solved @ columns).reshape(n_points, pairs, 1)).reshape(n_points, *square)
    alpha = solved - _times(inverse, projected @ scaled)
    energy = 0.5 * np.sum(r * alpha, axis=(1, 2))
    energy += 0.5 * (log_det.sum(axis=1) + np.linalg.slogdet(s)[1])
    # One point of two is in: axes are (point, entry, k, m, l).
    half = columns @ m.reshape(n_points, pairs * n_sums, n_sums).swapaxes(1, 2)
    half = half.reshape(n_points, length, n_sums, *square)
    q = (half.swapaxes(3, 4) @ columns[:, :, None, :, None])[..., 0]
    w = 0.5 * (inverse - inverse @ q @ inverse - _outer(alpha.swapaxes(1, 2)))
    by_gram = (variance_factor @ w.reshape(n_points, length, pairs)).reshape(n_points, *square)
    by_x = 2.0 * (by_gram @ x * variance_factor + _times(w, x) * diagonal_variance)
    half = half.swapaxes(2, 3).reshape(n_points, length, n_sums, pairs)
    by_scaled = (half @ inverse.reshape(n_points, length, pairs, 1))[..., 0].swapaxes(1, 2)
    by_scaled = by_scaled - alpha @ columns @ alpha
    return energy, alpha, w, by_x + variance_factor * by_scaled


def _outer(columns):
    return columns[..., :, None] * columns[..., None, :]


def _times(matrices, x):
    """Products of the matrix of each entry and what noisy sums have there."""
    return (matrices @ x.swapaxes(1, 2)[..., None])[..., 0].swapaxes(1, 2)


def positive_inverse(matrices):
    """Inverses and log determinants of positive matrices in the last two axes, by sweeps.

    Matrices are small and many, so a sweep works on all of them at once.
    """
    a = np.moveaxis(matrices, (-2, -1), (0, 1)).copy()
    log_det = np.zeros(a.shape[2:])
    for k in range(len(a)):
        log_det += np.log(a[k, k])
        column, pivot = a[:, k].copy(), 1.0 / a[k, k]
        scaled = column * pivot
        a -= column[:, None] * scaled[None]
        a[k] = a[:, k] = scaled
        a[k, k] = -pivot
    return -np.ascontiguousarray(np.moveaxis(a, (0, 1), (-2, -1))), log_det


# What is believed of the rows' weighted second moment, given two releases of it.
#
#     F / n = G + X + noise,     X_ij ~ N(0, U_ij + k^2 g_i g_j / length),     G = diag(g) as the first has it
#
# in whitened coordinates. ``U`` is what the first leaves unknown, at most ``g_i g_j``: ``G + X`` is
# positive. ``k`` is learnt, and is usually larger where noise in the first hides which columns vary
# together. Coordinates are turned into the eigenvectors of the posterior mean. Noise, of a variance
# ``v`` per row, has spread its eigenvalues ``l``. Along an eigenvector there is, about [1]_,
#
#     l_i - 2 v / length  sum_j (l_i - l_j) / ((l_i - l_j)^2 + v / length)
#
# which is made positive, as the mean of a normal law that is cut at zero. What there is between
# eigenvectors is the rest of the sum of squares.
#
# References
# ----------
# .. [1] J. Bun, R. Allez, J.-P. Bouchaud and M. Potters, "Rotational invariant estimator for general noisy
#    matrices", IEEE Transactions on Information Theory 62(12), 2016.


# Prior value of ``k^2``.
_PRIOR_SQUARED_SIZE = 0.04
# Number of entries that the prior value is worth.
_PRIOR_N_ENTRIES = 4.0
# Limits of ``k^2``.
_SQUARED_SIZE_LIMITS = (0.0004, 4.0)
# Prior value where noise in the first release hides which columns vary together: a few directions may have
# most of the variance.
_PRIOR_SQUARED_SIZE_IF_HIDDEN = 0.3
# Limits of the share of the first release that weights leave.
_WEIGHT_SHARE_LIMITS = (0.4, 1.2)
# Least eigenvalue, relative to the mean.
_LEAST_EIGENVALUE = 1e-3
# Least entries of ``G``, relative to their mean: noise drowns smaller ones.
_LEAST_SHARE = 0.2
# By how much the effect of weights may differ from that on the whole, relative to a mean square.
_WEIGHT_EFFECT_SD = 0.2
# Of the noise's variances, in the eigenvectors of what was released, at least.
_LEAST_NOISE_SHARE = 0.1


@dataclass(frozen=True)
class Curvature:
    """Coordinates and a curvature, diagonal in them; it is that of one record.

    Attributes
    ----------
    transform : ndarray of shape (length, length)
    values : ndarray of shape (length,)
        Eigenvalues.
    variance_factor : ndarray of shape (length,)
        Entries have variances of products of these, and of twice that on the diagonal.
    diagonal_variance : ndarray of shape (length,)
        What those on the diagonal have besides.
    mean : ndarray of shape (length,)
        Of rows.
    squares : ndarray of shape (length,)
        Mean squares of rows, which do not count less where they are long.
    """

    transform: np.ndarray
    values: np.ndarray
    variance_factor: np.ndarray
    diagonal_variance: np.ndarray
    mean: np.ndarray
    squares: np.ndarray

    @property
    def hidden(self):
        """The unknown variance along a direction, at most, over what there is along most.

        It is the largest eigenvalue of a matrix of normal numbers, over the median of those believed.
        """
        unknown = 2.0 * float(np.median(self.variance_factor)) * np.sqrt(self.variance_factor.size)
        return float(unknown / np.median(self.values))


def combined(design, transform, matrix, noise_scale, n_samples, first_noise=0.0):
    """The `Curvature` given both releases.

    Parameters
    ----------
    design : Design
        What the first says, constant included.
    transform : ndarray of shape (length, length)
        ``W``.
    matrix : ndarray of shape (length, length)
        The second, in coordinates ``W^T x``.
    noise_scale : float
        Deviation of the noise on its diagonal.
    n_samples : float
    first_noise : float, default=0
        Deviation of the noise on the diagonal of the first, in the rows' coordinates.
    """
    length = len(matrix)
    before = np.sum(transform * (design.second_moment @ transform), axis=0)
    before = np.maximum(before, _LEAST_SHARE * before.mean())
    squares = transform**2
    unknown = squares.T @ design.uncertainty @ squares
    noise = (noise_scale / n_samples) ** 2 * 0.5 * (1.0 + np.eye(length))
    weight_left = 1.0
    if noise_scale * np.sqrt(length) < 0.3 * n_samples * before.sum():
        weight_left = np.clip(np.trace(matrix) / n_samples / before.sum(), *_WEIGHT_SHARE_LIMITS)
    excess = matrix / n_samples - weight_left * np.diag(before)
    units = np.outer(before, before) / length
    lengths = np.sum(squares, axis=0)
    prior_value = _default_variance(
        0.5 * (first_noise / n_samples) ** 2 * np.outer(lengths, lengths), units
    )
    unknown = np.minimum(unknown, length * units)
    size = variance_component(
        excess**2, noise + unknown, units, prior_value, _PRIOR_N_ENTRIES, _SQUARED_SIZE_LIMITS
    )
    prior = unknown + size * units
    share = prior / (prior + noise)
    posterior_mean, noise_seen = weight_left * np.diag(before) + excess * share, share**2 * noise
    values, basis, entry_variances = spectrum(posterior_mean, noise * share, noise_seen)
    values = np.maximum(values, _LEAST_EIGENVALUE * before.sum() / length)
    eigenvectors = np.ascontiguousarray(transform @ basis)
    squares = _unweighted(design, eigenvectors, values / weight_left)
    variance_factor, diagonal_variance = variance_factors(entry_variances)
    return Curvature(
        eigenvectors,
        values,
        variance_factor,
        diagonal_variance,
        design.mean @ eigenvectors,
        squares,
    )


def _default_variance(first_noise, units):
    """``k^2`` that is usual, given variances of noise that the first release has off the diagonal."""
    hidden = first_noise / (first_noise + _PRIOR_SQUARED_SIZE_IF_HIDDEN * units)
    off = ~np.eye(len(units), dtype=bool)
    return (
        max(_PRIOR_SQUARED_SIZE, _PRIOR_SQUARED_SIZE_IF_HIDDEN * float(hidden[off].mean()))
        if off.any()
        else _PRIOR_SQUARED_SIZE
    )


def _unweighted(design, transform, prior_value):
    """Mean squares of rows as they are, given about what they should be by the second release."""
    noisy_squares = np.sum(transform * (design.second_moment @ transform), axis=0)
    noise = np.sum(transform**2 * (design.uncertainty @ transform**2), axis=0)
    prior = (_WEIGHT_EFFECT_SD * prior_value) ** 2
    return np.maximum(
        prior_value + (noisy_squares - prior_value) * prior / (prior + noise),
        _LEAST_EIGENVALUE * prior_value,
    )


def spectrum(matrix, entry_variances, noise_seen):
    """The posterior of a positive matrix, in the eigenvectors of the noisy one.

    Parameters
    ----------
    matrix : ndarray of shape (length, length)
        A posterior mean of the matrix, entries being independent.
    entry_variances : ndarray of shape (length, length)
        Variances of the entries.
    noise_seen : ndarray of shape (length, length)
        Of noise, those that are left in ``matrix``.

    Returns
    -------
    values : ndarray of shape (length,)
        Positive.
    basis : ndarray of shape (length, length)
    entry_variances : ndarray of shape (length, length)
        Variances of entries in the basis.
    """
    values, basis = eigh(matrix)
    gathered = denoised_eigenvalues(values, noise_seen.sum() / len(matrix))
    of_noise = _of_noise(values, gathered, noise_seen)
    entry_variances = turned(entry_variances - (1.0 - of_noise) * noise_seen, basis)
    return (
        truncated_normal_mean(gathered, np.sqrt(np.diag(entry_variances))),
        basis,
        entry_variances,
    )


def denoised_eigenvalues(values, variance):
    """Estimate the noiseless matrix's quadratic forms along the noisy eigenvectors (rotation-invariant
    denoising).

    Parameters
    ----------
    values : ndarray of shape (length,)
        Eigenvalues with noise, which has spread them.
    variance : float
        Of the noise, summed over a row.
    """
    gaps = values[:, None] - values
    pushed = gaps / np.maximum(gaps**2 + variance / len(values), 1e-300)
    return values - 2.0 * variance * pushed.mean(axis=1)


def _of_noise(values, gathered, noise_seen):
    """The share of the noise that is left off the diagonal, in the eigenvectors of a noisy matrix.

    What the matrix has there is the sum of its squares less those on the diagonal.
    """
    between = noise_seen.sum() - np.trace(noise_seen)
    if len(values) < 3 or between == 0.0:
        return 1.0
    # Those on the diagonal have noise of their own.
    excess = values @ values - noise_seen.sum() - (gathered @ gathered - np.trace(noise_seen))
    return float(np.clip(excess / between, _LEAST_NOISE_SHARE, 1.0))


def variance_factors(variances):
    """``p`` and ``h``: variances are about ``p_i p_j``, and ``2 p_i^2 + h_i`` on the diagonal."""
    length, diagonal = len(variances), np.diag(variances)
    if length == 1:
        return np.sqrt(0.5 * diagonal), np.zeros(1)
    rows = variances.sum(axis=0) - diagonal
    p = rows / np.sqrt(rows.sum() * (1.0 - 1.0 / length))
    return p, np.maximum(diagonal - 2.0 * p**2, 0.0)


def turned(variances, basis):
    """The variances of a matrix's entries in another basis, entries being independent."""
    squares = basis**2
    return squares.T @ variances @ squares


def truncated_normal_mean(values, deviations):
    """Means of normal laws that are cut at zero."""
    z = values / deviations
    density = np.exp(-0.5 * z**2 - log_ndtr(z)) / np.sqrt(2.0 * np.pi)
    return values + deviations * density


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


def sandwich_factor_of(surrogate, varying, slopes):
    """The matrix by which draws are stretched around the mode.

    Parameters
    ----------
    surrogate : NormalSurrogate
        At its mode.
    varying, slopes : ndarray of shape (length, length)
        ``o (diag(f) + R) - diag(f)``, and ``G``.

    Returns
    -------
    sandwich_factor : ndarray of shape (length, length)
    """
    n, f, length = surrogate.n_samples, surrogate.curvature, len(varying)
    weights, errors, c = surrogate.score_weights(surrogate.start)
    # Of the coefficients alone, whatever the errors' deviation is.
    covariance = inv(surrogate.information(surrogate.start))[:length, :length]
    information = inv(covariance)
    variance = information + n * varying * (weights.T @ errors @ weights)
    changed = information + n * (c @ weights)[:, None] * (slopes - np.diag(f))
    factor = cholesky(covariance)
    bread = solve(factor, inv(changed))
    values, vectors = eigh(bread @ variance @ bread.T)
    wider = np.sqrt(np.clip(values, _LEAST_STRETCH_FACTOR**2, _LARGEST_STRETCH_FACTOR**2))
    return factor @ (vectors * wider) @ solve(factor.T, vectors).T


# What clips take of errors that are not normal: their mean, and what is beyond.
#
#     t = mean of psi_T(y_i - u . z_i),  q = mean of psi_T^2   at the last point and a wide clip T, with noise
#     t ~ N(E psi_T + delta, noise + q / n),   delta ~ sum_j pi_j N(0, h_j^2 q)
#
# Noisy sums clip residuals at 1.2 to 2.5 deviations, and so their sum is zero between a median and a mean:
# where errors are skewed, an intercept is off by ``delta``. What is seen of it is a normal number
# around it, so that given a draw of the coefficients and of the deviation ``s`` it has a mixture of
# normal laws. Errors that are symmetric have none; the more of ``q`` is beyond ``E psi_T^2``, the
# less probable that is a priori, and the more may lie beyond ``T``. The variance of errors is ``s^2``
# and what ``q`` has beyond, as far as it is known.


# Grid for the deviations of ``delta``, over the root of ``q``.
_SCALES = np.array([0.003, 0.03, 0.1, 0.3])
# Prior probabilities of these deviations.
_SHARES = np.array([0.4, 0.15, 0.25, 0.2])
# Prior deviation of the variance beyond that of the noisy sums, over that.
_PRIOR_SD_BEYOND_CLIP = 0.5
# Least share of a variance that is left.
_LEAST_VARIANCE_SHARE = 0.25
# Of ``delta`` beyond the wide clip: what a variance allows at most, ``q / (4 T)``.
_BEYOND_CLIP_FACTOR = 0.25


class HeavyTailCorrection(NamedTuple):
    """The release of residuals at a point and a wide clip.

    Attributes
    ----------
    point : ndarray of shape (length,)
    clip : float
        ``T``.
    mean, mean_noise : float
        ``t``, and the deviation of its noise.
    square, square_noise : float
        ``q``, and the deviation of its noise.
    weight : float, default=1
        ``o``: a mean weight, by which the variance of a weighted mean is larger; the largest if unknown.
    """

    point: np.ndarray
    clip: float
    mean: float
    mean_noise: float
    square: float
    square_noise: float
    weight: float = 1.0

    def given(self, surrogate, u, deviations, random):
        """Draws of ``delta``, and deviations of errors, given draws.

        Parameters
        ----------
        surrogate : NormalSurrogate
        u : ndarray of shape (n_draws, length)
        deviations : ndarray of shape (n_draws,)
            ``s``.
        random : Generator or RandomState
            It need not be secret.
        """
        _, a, sigma = surrogate.residuals(u, np.log(deviations), self.point[None])
        law = clipped_normal(a[:, 0], sigma[:, 0], self.clip)
        square = np.maximum(self.square, _LEAST_VARIANCE_SHARE * law.square)
        of_sampling = self.weight * square / surrogate.n_samples
        noise_variance = self.mean_noise**2 + of_sampling
        off = self.mean - law.mean
        heavy = np.clip(1.0 - (law.square + self.square_noise) / square, 0.0, 1.0)
        variance = self._scale(off, noise_variance, square, heavy, random) ** 2 * square
        share = variance / (variance + noise_variance)
        # The releases share the sampling error; do not count it twice.
        delta_variance = share * (noise_variance + (1.0 - share) * of_sampling)
        delta_variance += (_BEYOND_CLIP_FACTOR * heavy * square / self.clip) ** 2
        # Post-processing.
        delta = share * off + np.sqrt(delta_variance) * random.normal(size=len(u))
        return delta, np.sqrt(self._squares(self.square - law.square, deviations**2, random))

    def _squares(self, off, squares, random):
        """Error variance: the clipped estimate with probability 1/2, else plus a tail contribution."""
        prior_variance, noise_variance = (
            (_PRIOR_SD_BEYOND_CLIP * squares) ** 2,
            self.square_noise**2,
        )
        share = prior_variance / (prior_variance + noise_variance)
        odds = np.sqrt(1.0 - share) * np.exp(0.5 * np.minimum(share * off**2 / noise_variance, 1e3))
        # Post-processing.
        is_off = random.random(size=off.size) * (1.0 + odds) > 1.0
        # Post-processing.
        beyond = share * off + np.sqrt(share * noise_variance) * random.normal(size=off.size)
        return np.maximum(squares + is_off * beyond, _LEAST_VARIANCE_SHARE * squares)

    def _scale(self, off, noise_variance, square, heavy, random):
        """``h_j`` for every draw, at random as probable as it is given what was seen."""
        shares = np.repeat(_SHARES[:, None], off.size, axis=1)
        shares[0] *= (1.0 - heavy) ** 2
        variance = _SCALES[:, None] ** 2 * square + noise_variance
        odds = shares * np.exp(-0.5 * (off**2 / variance - (off**2 / variance).min(axis=0)))
        odds = np.cumsum(odds / np.sqrt(variance), axis=0)
        # Post-processing.
        return _SCALES[np.sum(random.random(size=off.size) * odds[-1] > odds, axis=0)]


# How much rows that are not normal may change a noisy sum, relative to what clips take from it.
_SHAPE_ERROR = 0.25
# Relative error of a mean square, as errors are not quite normal.
_MEAN_SQUARE_ERROR = 0.02
# Relative error of its excess over the last one, as rows are not normal.
_EXCESS_ERROR = 0.1


class NoisySum(NamedTuple):
    """A release at a point.

    Attributes
    ----------
    point : ndarray of shape (length,)
    clip : float
    value : ndarray of shape (length,)
    noise : float
        Deviation of its noise.
    """

    point: np.ndarray
    clip: float
    value: np.ndarray
    noise: float


class NoisyMeanSquare(NamedTuple):
    """The mean square of clipped residuals at a point, released with noise.

    Attributes are those of `NoisySum`, with one number as the value.
    """

    point: np.ndarray
    clip: float
    value: float
    noise: float


@dataclass(frozen=True)
class NormalSurrogate(WithPrior):
    """The likelihood of noisy sums and mean squares, and the prior; a point is ``(u, log s)``.

    Attributes
    ----------
    n_samples : float
        ``n``.
    curvature : ndarray of shape (length,)
        ``f``.
    variance_factor, diagonal_variance : ndarray of shape (length,)
        ``p`` and ``h``.
    mean : ndarray of shape (length,)
        ``m``.
    squares : ndarray of shape (length,)
        ``S``.
    prior : Prior
        Of points; it says nothing of the last coordinate.
    scales : ndarray of shape (n_groups,)
        Prior scales at which the mode is looked for.
    prior_median, log_sd : float
        Median of the errors' deviation a priori, and the deviation of its logarithm.
    noisy_sums : tuple of NoisySum
    mean_squares : tuple of NoisyMeanSquare
    start : ndarray of shape (length + 1,)
    """

    n_samples: float
    curvature: np.ndarray
    variance_factor: np.ndarray
    diagonal_variance: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    prior: Prior
    scales: np.ndarray
    prior_median: float
    log_sd: float
    noisy_sums: tuple
    mean_squares: tuple
    start: np.ndarray

    @property
    def n_scaled(self):
        """The number of coordinates, the first ones, that prior scales multiply."""
        return self.curvature.size

    def negative_log_likelihood(self, points):
        """The negative log likelihood, up to a constant, and its gradient, for (n_points, length + 1)."""
        u, log_s = points[:, :-1], points[:, -1]
        away = (log_s - np.log(self.prior_median)) / self.log_sd
        energy, gradient = 0.5 * away**2, np.zeros_like(points)
        gradient[:, -1] = away / self.log_sd
        for energy_part, of_found in (
            self._mean_square_energy(u, log_s),
            self._noisy_sum_energy(u, log_s)[:2],
        ):
            energy, gradient = energy + energy_part, gradient + of_found
        return energy, gradient

    def residuals(self, u, log_s, points):
        """Differences to points, and means and deviations of residuals there.

        Arrays are of shape (n_points, n_sums, length) and (n_points, n_sums).
        """
        d = u[:, None] - points
        a = d @ self.mean
        variance = np.maximum(d**2 @ self.squares - a**2, 0.0)
        return d, a, np.sqrt(np.exp(2.0 * log_s)[:, None] + variance)

    def _vjp(self, d, a, sigma, log_s, by_a, by_sigma):
        """The gradient by a point of what depends on ``a`` and ``sigma`` of all noisy sums."""
        by_variance = by_sigma / (2.0 * sigma)
        gradient = np.empty((len(d), self.mean.size + 1))
        by_mean = (by_a - 2.0 * a * by_variance).sum(axis=1)
        gradient[:, :-1] = by_mean[:, None] * self.mean
        gradient[:, :-1] += 2.0 * self.squares * np.einsum("bk,bkj->bj", by_variance, d)
        gradient[:, -1] = 2.0 * np.exp(2.0 * log_s) * by_variance.sum(axis=1)
        return gradient

    @cached_property
    def _mean_square_arrays(self):
        points, clips, values, noises = (
            np.array(part) for part in zip(*self.mean_squares, strict=True)
        )
        squares = np.maximum(values, 0.0)
        error = _MEAN_SQUARE_ERROR * squares + _EXCESS_ERROR * np.maximum(
            squares - squares[-1], 0.0
        )
        sampling = np.maximum(values, noises) * np.sqrt(2.0 / self.n_samples)
        return points, clips, values, np.sqrt(noises**2 + error**2 + sampling**2)

    def _mean_square_energy(self, u, log_s):
        points, clips, values, deviations = self._mean_square_arrays
        d, a, sigma = self.residuals(u, log_s, points)
        law = clipped_normal(a, sigma, clips)
        off = (law.square - values) / deviations
        by = off / deviations
        by_a, by_sigma = by * law.square_by_mean, by * law.square_by_deviation
        return 0.5 * np.sum(off**2, axis=1), self._vjp(d, a, sigma, log_s, by_a, by_sigma)

    @cached_property
    def _noisy_sum_arrays(self):
        return tuple(np.array(part) for part in zip(*self.noisy_sums, strict=True))

    def _noisy_sum_energy(self, u, log_s):
        if not self.noisy_sums:
            return 0.0, 0.0, 0.0
        n, f, m = self.n_samples, self.curvature, self.mean
        points, clips, values, noises = self._noisy_sum_arrays
        d, a, sigma = self.residuals(u, log_s, points)
        law, s2 = clipped_normal(a, sigma, clips), np.exp(2.0 * log_s)
        c, e = law.slope, law.mean
        scores = n * f * d  # (n_points, n_sums, length), as all of noisy sums
        x = n * c[..., None] * d
        r = values - c[..., None] * scores - n * (e - c * a)[..., None] * m
        unclipped = np.maximum(law.square - e**2 - (c * sigma) ** 2, 0.0)
        of_shape = (_SHAPE_ERROR * (1.0 - c)) ** 2
        cc = c[:, :, None] * c[:, None, :]
        blocks = (n * s2[:, None] * f)[..., None, None] * cc[:, None]
        diagonal = noises**2 + n * unclipped[:, None] * f[:, None]
        diagonal = diagonal + (of_shape[..., None] * scores**2).transpose(0, 2, 1)
        own_axis = np.arange(c.shape[1])
        blocks[..., own_axis, own_axis] += diagonal
        energy, alpha, w, by_x = conditioned(
            r, blocks, x, self.variance_factor, self.diagonal_variance
        )
        square = np.sum(r * alpha, axis=(1, 2))
        by_x = n * by_x
        w_own = np.einsum("bikk->bki", w)
        by_cc = n * s2[:, None, None] * np.einsum("i,bikl->bkl", f, w)
        by_h = -n * (alpha @ m)
        by_seen = 2.0 * w_own * of_shape[..., None] * scores - c[..., None] * alpha
        by_own = n * (w_own @ f) * (unclipped > 0)
        by_c = np.sum(by_x * d - alpha * scores, axis=2) + 2.0 * np.einsum("bkl,bl->bk", by_cc, c)
        by_c -= 2.0 * _SHAPE_ERROR**2 * (1.0 - c) * np.sum(w_own * scores**2, axis=2)
        by_c -= 2.0 * by_own * c * sigma**2 + by_h * a
        by_e = by_h - 2.0 * by_own * e
        by_a = by_own * law.square_by_mean + by_e * c + by_c * law.slope_by_mean - by_h * c
        by_sigma = by_own * (law.square_by_deviation - 2.0 * c**2 * sigma)
        by_sigma += by_e * law.mean_by_deviation + by_c * law.slope_by_deviation
        gradient = self._vjp(d, a, sigma, log_s, by_a, by_sigma)
        gradient[:, :-1] += np.sum(c[..., None] * by_x + n * f * by_seen, axis=1)
        gradient[:, -1] += 2.0 * np.sum(by_cc * cc, axis=(1, 2))
        return energy, gradient, square

    def chi2_per_dof(self):
        """Chi-squared of the noisy sums at the mode, per degree of freedom.

        It is about 1, or less, if noisy sums follow the law that is assumed.
        """
        if not self.noisy_sums:
            return 0.0
        square = self._noisy_sum_energy(self.start[None, :-1], self.start[-1:])[2]
        return float(square[0]) / (len(self.noisy_sums) * self.mean.size)

    def information(self, point):
        """The curvature of the potential at one point, about."""
        u, log_s = point[None, :-1], point[-1:]
        matrix = self.prior.precision(self.scales)
        matrix[-1, -1] += self.log_sd**-2.0
        points, clips, _, deviations = self._mean_square_arrays
        d, a, sigma = self.residuals(u, log_s, points)
        law = clipped_normal(a, sigma, clips)
        for k, deviation in enumerate(deviations):
            by_a = np.where(np.arange(len(clips)) == k, law.square_by_mean, 0.0)
            by_sigma = np.where(np.arange(len(clips)) == k, law.square_by_deviation, 0.0)
            slope = self._vjp(d, a, sigma, log_s, by_a, by_sigma)[0] / deviation
            matrix = matrix + np.outer(slope, slope)
        if self.noisy_sums:
            matrix[np.arange(u.size), np.arange(u.size)] += self._noisy_sum_information(u, log_s)
        return matrix

    def _noisy_sum_information(self, u, log_s):
        c, _, v = self._laws_of_noisy_sums(u, log_s)
        return (self.n_samples * self.curvature) ** 2 * np.einsum(
            "k,ikl,l->i", c, positive_inverse(v)[0], c
        )

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
        weights = np.einsum("ikl,l->ki", positive_inverse(v)[0], c)
        return self.n_samples * self.curvature * weights, errors, c

    def _laws_of_noisy_sums(self, u, log_s):
        """Slopes, what errors have in common, and covariances of shape (length, n_sums, n_sums)."""
        n, f = self.n_samples, self.curvature
        points, clips, _, noises = self._noisy_sum_arrays
        d, a, sigma = self.residuals(u, log_s, points)
        law, s2 = clipped_normal(a, sigma, clips), np.exp(2.0 * log_s[0])
        c = law.slope[0]
        unclipped = np.maximum(law.square - law.mean**2 - (law.slope * sigma) ** 2, 0.0)[0]
        errors = s2 * np.outer(c, c) + np.diag(unclipped)
        v = n * f[:, None, None] * errors
        x = n * c[:, None] * d[0] * np.sqrt(self.variance_factor)
        v = v + self.variance_factor[:, None, None] * (x @ x.T)
        x = n * c[:, None] * d[0] * np.sqrt(self.diagonal_variance)
        v += np.einsum("ki,li->ikl", x, x)
        of_shape = ((_SHAPE_ERROR * (1.0 - c)) * (n * f[:, None]) * d[0].T) ** 2
        v[:, np.arange(c.size), np.arange(c.size)] += noises**2 + of_shape
        return c, errors, v


# Draws of coefficients and of the errors' deviation: those of a surrogate, in the user's coordinates.
#
#     theta = W (u^ + T (u - u^)) + delta / c,    s = exp(log s)
#
# at the mode ``u^``, with ``T`` of `sandwich_factor`, and with ``delta`` of the intercept by
# `HeavyTailCorrection`.


@dataclass(frozen=True)
class NormalPosterior(HMCPosterior):
    """A posterior given what was released.

    Attributes
    ----------
    surrogate : NormalSurrogate
    transform : ndarray of shape (length, length)
        ``W``.
    sandwich_factor : ndarray of shape (length, length) or None
        ``T``; None is one.
    heavy_tails : HeavyTailCorrection or None
        None is of normal errors.
    constant : float
        ``c``, that of rows.
    """

    surrogate: NormalSurrogate
    transform: np.ndarray
    sandwich_factor: np.ndarray | None = None
    heavy_tails: HeavyTailCorrection | None = None
    constant: float = 0.0

    def draw(self, n_draws, random):
        """Draws of coefficients, of shape (n_draws, length).

        Parameters
        ----------
        n_draws : int
        random : Generator or RandomState
            It need not be secret.
        """
        return self.draw_all(n_draws, random)[0]

    def draw_all(self, n_draws, random):
        """Draws of coefficients, and of the errors' deviation, of shape (n_draws,)."""
        points = draw(self.surrogate, n_draws, chain_seed(random), self._chains)
        u = points[:, :-1]
        if self.sandwich_factor is not None:
            mode = self.surrogate.start[:-1]
            u = mode + (u - mode) @ self.sandwich_factor.T
        theta, deviations = u @ self.transform.T, np.exp(points[:, -1])
        if self.heavy_tails is not None:
            delta, deviations = self.heavy_tails.given(self.surrogate, u, deviations, random)
            theta[:, -1] += delta / self.constant
        return theta, deviations

    def asymmetry(self):
        """Mean of residuals at a wide clip beyond that of normal errors, its deviation, and the errors' size.

        Of symmetric errors the first is 0 up to the second, however heavy their tails. It is None where
        nothing was released at a wide clip.
        """
        if self.heavy_tails is None:
            return None
        tails, given = self.heavy_tails, self.surrogate
        mode = given.start
        _, a, sigma = given.residuals(mode[None, :-1], mode[-1:], tails.point[None])
        law = clipped_normal(a[:, 0], sigma[:, 0], tails.clip)
        mean = given.mean if self.sandwich_factor is None else given.mean @ self.sandwich_factor
        covariance = inv(given.information(mode))[:-1, :-1]
        square = max(tails.square, float(law.square[0]))
        variance = tails.mean_noise**2 + tails.weight * square / given.n_samples
        variance += float(mean @ covariance @ mean)
        return tails.mean - float(law.mean[0]), float(np.sqrt(variance)), float(np.sqrt(square))

    def prior_predictive_p_values(self):
        """1: without a known deviation of errors, what is released says nothing against a prior."""
        return 1.0

    def deviations_without_privacy(self):
        """The deviations that coefficients would have without noise, as far as that is known."""
        given = self.surrogate
        precision = given.prior.precision(given.scales)[:-1, :-1]
        variance = np.exp(2.0 * given.start[-1])
        precision = precision + np.diag(given.n_samples * given.squares / variance)
        back = (
            self.transform
            if self.sandwich_factor is None
            else self.transform @ self.sandwich_factor
        )
        covariance = back @ inv(precision) @ back.T
        return np.sqrt(np.diag(covariance))
