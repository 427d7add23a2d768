"""What noise leaves open of a second moment or a curvature, and its effect on noisy sums.

    r_k ~ (D^1/2 S D^1/2 + T) x_k + N(0, B),      S_ij ~ N(0, 1 + [i = j]) symmetric,      T_ii ~ N(0, h_i)

with diagonal ``D`` and ``T``, which are integrated out (`conditioned`). Eigenvalues that noise has spread
are gathered (`spectrum`), and a second release of the moment is joined with the first: for responses that
are numbers in coordinates in which it is diagonal (`combined`), for counts as that of rows that stand for
those of the table (`moment_given`).
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, softmax
from sklearn.isotonic import isotonic_regression

from ..._linalg import eigh, inv, solve

# The law of several noisy sums, in which what is not known of a symmetric matrix is integrated out.
#
# ``S y_k`` and ``S y_l`` have the covariance ``y_k . y_l I + y_l y_k^T``. Without the second part
# entries are independent. That part is ``U J U^T``, where ``J`` exchanges the noisy sums of a pair: by
# Woodbury's identity only ``J + sum_i V_i (x) c_i c_i^T`` over pairs of noisy sums is inverted besides,
# with ``V_i`` the inverse of the block of entry ``i`` and ``c_i`` its scaled points. Both are symmetric, so
# that sums over entries are products of matrices with a row for each pair ``k <= l``.


class Pairs(NamedTuple):
    """Numbers of pairs of noisy sums.

    Attributes
    ----------
    first, second : ndarray of shape (n_pairs,)
        ``k <= l``.
    number : ndarray of shape (n_sums, n_sums)
        That of each pair, in either order.
    whole : ndarray of shape (n_sums^2, n_sums^2)
        Where entries ``(k, l), (m, n)`` are among products of pairs ``(k, m)`` and ``(l, n)``.
    exchanged : ndarray of shape (n_sums^2,)
        Numbers of ``(l, k)``.
    straight, crossed : ndarray of shape (n_pairs, n_pairs)
        Numbers of entries ``(k, l), (m, n)`` and ``(k, n), (m, l)``, of pairs ``(k, m)`` and ``(l, n)``.
    apart : ndarray of shape (n_pairs,)
        1 where ``k < l``, otherwise 0.
    """

    first: np.ndarray
    second: np.ndarray
    number: np.ndarray
    whole: np.ndarray
    exchanged: np.ndarray
    straight: np.ndarray
    crossed: np.ndarray
    apart: np.ndarray


@cache
def _pairs(n_sums):
    """The `Pairs` of so many noisy sums."""
    first, second = np.triu_indices(n_sums)
    number = np.empty((n_sums, n_sums), dtype=int)
    number[first, second] = number[second, first] = np.arange(first.size)
    k, i, m, j = np.ogrid[:n_sums, :n_sums, :n_sums, :n_sums]
    n_whole = n_sums**2
    whole = (number[k, m] * first.size + number[i, j]).reshape(n_whole, n_whole)
    exchanged = np.arange(n_whole).reshape(n_sums, n_sums).T.ravel()
    k, m = first[:, None], second[:, None]
    straight = (k * n_sums + first) * n_whole + m * n_sums + second
    crossed = (k * n_sums + second) * n_whole + m * n_sums + first
    apart = (first != second).astype(float)
    return Pairs(first, second, number, whole, exchanged, straight, crossed, apart)


def conditioned(r, blocks, x, variance_factor, diagonal_variance):
    """The negative log density of ``r``, up to a constant, and its derivatives.

    Parameters
    ----------
    r, x : ndarray of shape (n_sums, n_points, length)
    blocks : ndarray of shape (n_sums, n_sums, n_points, length)
        ``B``; or with one point for all.
    variance_factor, diagonal_variance : ndarray of shape (length,)
        ``D`` and ``h``.

    Returns
    -------
    energy : ndarray of shape (n_points,)
    by_r : ndarray of shape (n_sums, n_points, length)
    by_blocks : ndarray of shape (n_sums, n_sums, n_points, length)
    by_x : ndarray of shape (n_sums, n_points, length)
    """
    n_sums, n_points, _ = x.shape
    pairs = _pairs(n_sums)
    scaled = variance_factor * x
    c, c_last = scaled.swapaxes(0, 1), scaled.transpose(1, 2, 0)
    gram = np.matmul(x.swapaxes(0, 1), c_last)
    blocks = blocks + variance_factor * gram.transpose(1, 2, 0)[..., None]
    blocks += diagonal_variance * (x[:, None] * x[None])
    inverse, log_det = positive_inverse(blocks)
    of_inverse = inverse[pairs.first, pairs.second].swapaxes(0, 1)
    of_points = (scaled[pairs.first] * scaled[pairs.second]).swapaxes(0, 1)
    s = np.matmul(of_inverse, of_points.swapaxes(1, 2)).reshape(n_points, -1)[:, pairs.whole]
    s[:, np.arange(n_sums**2), pairs.exchanged] += 1.0
    m = inv(s)
    solved = _times(inverse, r)
    projected = np.matmul(m, np.matmul(solved.swapaxes(0, 1), c_last).reshape(n_points, -1, 1))
    projected = projected.reshape(n_points, n_sums, n_sums)
    alpha = solved - _times(inverse, np.matmul(projected, c).swapaxes(0, 1))
    energy = 0.5 * np.einsum("kpi,kpi->p", r, alpha)
    energy += 0.5 * (log_det.sum(axis=-1) + np.linalg.slogdet(s)[1])
    entries = m.reshape(n_points, -1)
    straight, crossed = entries[:, pairs.straight], entries[:, pairs.crossed]
    q = np.matmul(straight + pairs.apart * crossed, of_points)
    of_inverse = np.matmul((straight + pairs.apart[:, None] * crossed).swapaxes(1, 2), of_inverse)
    q, by_outer = (each.swapaxes(0, 1)[pairs.number] for each in (q, of_inverse))
    q = np.einsum("kmpi,mlpi->klpi", np.einsum("kmpi,mlpi->klpi", inverse, q), inverse)
    w = 0.5 * (inverse - q - alpha[:, None] * alpha[None])
    by_gram = np.matmul(w, variance_factor).transpose(2, 0, 1)
    alpha_c = np.matmul(alpha.swapaxes(0, 1), c_last)
    by_scaled = 2.0 * np.matmul(by_gram, x.swapaxes(0, 1)) - np.matmul(
        alpha_c, alpha.swapaxes(0, 1)
    )
    by_x = variance_factor * (by_scaled.swapaxes(0, 1) + _times(by_outer, scaled))
    return energy, alpha, w, by_x + 2.0 * diagonal_variance * _times(w, x)


def _times(matrices, x):
    """Products of the matrix of each entry and what noisy sums have there."""
    return np.einsum("klpi,lpi->kpi", matrices, x)


def positive_inverse(matrices):
    """Inverses and log determinants of positive matrices in the first two axes, by sweeps.

    Matrices are small and many, so a sweep works on all of them at once.
    """
    a, log_det = matrices.copy(), np.zeros(matrices.shape[2:])
    for k in range(len(a)):
        pivot, column = a[k, k].copy(), a[:, k].copy()
        log_det += np.log(pivot)
        scaled = column / pivot
        a -= column[:, None] * scaled[None]
        a[k] = a[:, k] = scaled
        a[k, k] = -1.0 / pivot
    return -a, log_det


# What is believed of the rows' weighted second moment, given two releases of it.
#
#     F / n = G + X + noise,     X_ij ~ N(0, U_ij + (k^2 g_i g_j + c^2 g^2) / length),     G = diag(g)
#
# in whitened coordinates, ``G`` being what the first has there, ``g`` the mean of ``g_i``, and ``U`` what it
# leaves unknown. Where noise in the first hides nearly all, rows may vary most along few directions that
# ``G`` knows nothing of: ``c`` may be of any size that the norm of rows allows. It and ``k`` are integrated
# out, so that entries are the less sure the less is known of both. Coordinates are turned into the
# eigenvectors of the posterior mean.
# Noise, of a variance ``v`` per row, has spread its eigenvalues ``l``. Along an eigenvector there is, about
# [1]_,
#
#     l_i - 2 v / length  sum_j (l_i - l_j) / ((l_i - l_j)^2 + v / length)
#
# which is made positive, as the mean of a normal law that is cut at zero, and which nowhere falls as ``l``
# rises. What there is between eigenvectors is the rest of the sum of squares.
#
# References
# ----------
# .. [1] J. Bun, R. Allez, J.-P. Bouchaud and M. Potters, "Rotational invariant estimator for general noisy
#    matrices", IEEE Transactions on Information Theory 62(12), 2016.


# Prior median of ``k^2``.
_PRIOR_SQUARED_SIZE = 0.04
# Prior deviation of ``log k^2``.
_PRIOR_LOG_SD_SQUARED_SIZE = 2.0
# Grid for ``k^2``.
_SQUARED_SIZES = np.geomspace(0.0004, 4.0, 9)
# Grid for ``c^2``, a priori as likely on any scale.
_COMMON_SQUARED_SIZES = np.geomspace(0.001, 1e4, 15)
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
    hidden : float
        The unknown variance along a direction, at most, over what there is along most: the largest eigenvalue
        of a matrix of normal numbers with such variances, over the median of ``values``.
    """

    transform: np.ndarray
    values: np.ndarray
    variance_factor: np.ndarray
    diagonal_variance: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    hidden: float


def combined(design, transform, matrix, noise_scale, n_samples, largest=np.inf):
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
    largest : float, default=inf
        ``K^2``: no row has a trace beyond it, so that no second moment has a Frobenius norm beyond it.
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
    share, spread = shares_of_signal(
        excess, noise, unknown, np.outer(before, before) / length, largest / length
    )
    posterior_mean = weight_left * np.diag(before) + excess * share
    values, basis, entry_variances = spectrum(
        posterior_mean, noise * share + excess**2 * spread, share**2 * noise
    )
    values = np.maximum(values, _LEAST_EIGENVALUE * before.sum() / length)
    eigenvectors = np.ascontiguousarray(transform @ basis)
    squares = _unweighted(design, eigenvectors, values / weight_left)
    factor, diagonal_variance = variance_factors(entry_variances)
    # Noise with eigenvalues of twice ``values``: more would be seen, unless rows vary along few directions.
    variance_factor = np.minimum(factor, values / np.sqrt(length))
    diagonal_variance += 2.0 * (factor**2 - variance_factor**2)
    return Curvature(
        eigenvectors,
        values,
        variance_factor,
        diagonal_variance,
        design.mean @ eigenvectors,
        squares,
        float(2.0 * np.median(factor) * np.sqrt(length) / np.median(values)),
    )


def shares_of_signal(excess, noise, unknown, units, largest=np.inf):
    """The share of the variance of every entry that is not noise: its posterior mean and variance.

    Parameters
    ----------
    excess : ndarray of shape (length, length)
        ``X`` with noise.
    noise, unknown, units : ndarray of shape (length, length)
        Variances of noise, ``U``, and ``g_i g_j / length``.
    largest : float, default=inf
        Of root mean squares of entries of ``X``.

    Returns
    -------
    share, spread : ndarray of shape (length, length)
    """
    pairs = np.triu_indices(len(units))
    known, unit, square, noise = unknown[pairs], units[pairs], excess[pairs] ** 2, noise[pairs]
    common = _COMMON_SQUARED_SIZES[:, None] * np.mean(np.sqrt(np.diag(units))) ** 2
    common = common[: max(np.count_nonzero(common <= largest**2), 1)]

    def prior_given(squared_size):
        return known + squared_size * unit + common

    logs = np.empty((_SQUARED_SIZES.size, common.size))
    for row, size in zip(logs, _SQUARED_SIZES, strict=True):
        row[:] = _log_density_of_size(size, square, prior_given(size) + noise)
    mean, mean_square = np.zeros((2, square.size))
    for weights, size in zip(softmax(logs), _SQUARED_SIZES, strict=True):
        prior = prior_given(size)
        share = prior / (prior + noise)
        mean += weights @ share
        mean_square += weights @ share**2
    whole = np.empty((2, *units.shape))
    whole[:, pairs[0], pairs[1]] = whole[:, pairs[1], pairs[0]] = mean, mean_square - mean**2
    return whole[0], np.maximum(whole[1], 0.0)


def _log_density_of_size(squared_size, squares, variances):
    """Up to a constant, jointly of ``k^2`` and entries with squares and variances along the last axis."""
    away = np.log(squared_size / _PRIOR_SQUARED_SIZE) / _PRIOR_LOG_SD_SQUARED_SIZE
    return -0.5 * (np.sum(np.log(variances) + squares / variances, axis=-1) + away**2)


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
    share = _noise_share(values, gathered, noise_seen)
    entry_variances = turned(entry_variances - (1.0 - share) * noise_seen, basis)
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
        Eigenvalues with noise, which has spread them, in ascending order.
    variance : float
        Of the noise, summed over a row.
    """
    gaps = values[:, None] - values
    pushed = gaps / np.maximum(gaps**2 + variance / len(values), 1e-300)
    return isotonic_regression(values - 2.0 * variance * pushed.mean(axis=1))


def _noise_share(values, gathered, noise_seen):
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


# What is believed of a table's rows given two noisy second moments, and of its curvature given a
# population.
#
#     F / n = P + X + noise,      X_ij ~ N(0, U_ij + k^2 f_i f_j / length)
#     P = M + b V,                f = diag(b V)
#
# ``M + V`` is that of a population whose rows have the second moment that was released first, and
# ``M`` what it would be if rows did not differ. ``U`` is what that leaves unknown. All variances of
# columns may be off by a common factor ``b``, as where noise hides them. ``k``, which is learnt, too,
# is how much rows vary together that in the population do not. As for responses that are numbers, see
# `normal.Curvature`, eigenvalues that noise has spread are gathered, but ``P`` is not
# diagonal. The population is then changed to have the ``F`` that is believed (`reshaped`):
# its curvatures are those of the table but for what ``F`` leaves unknown, and rows that are not
# normal.


# Grid for ``k^2`` of counts.
_SIZES = np.geomspace(0.0004, 4.0, 41)
# Largest prior deviation of ``b``.
_LARGEST_LEVEL_SD = 1.0
# Prior deviation of the factor of ``M``.
_MEAN_FACTOR_SD = 0.2
# Least ``b``.
_LEAST_LEVEL = 0.1
# ``U`` off the diagonal, at most, in units of ``f_i f_j / length``: ``P + X`` is positive.
_LARGEST_UNKNOWN_ENTRY = 0.25
# Prior deviation of the weight of records, as rows are not normal.
_WEIGHT_SD = 0.2
# Limits of the relative excess of that weight.
_WEIGHT_EXCESS_LIMITS = (-0.5, 1.0)
_SMALLEST_DIVISOR = 1e-12


class CountCurvature(NamedTuple):
    """The posterior of the table's curvature ``H``, of one record.

    Attributes
    ----------
    basis : ndarray of shape (length, length)
        Eigenvectors of ``H``.
    values : ndarray of shape (length,)
        Its eigenvalues.
    variance_factor, diagonal_variance : ndarray of shape (length,)
        ``p`` and ``h``: in the basis entries have variances ``p_i p_j``, and ``2 p_i^2 + h_i`` on the
        diagonal.
    """

    basis: np.ndarray
    values: np.ndarray
    variance_factor: np.ndarray
    diagonal_variance: np.ndarray


def rescaled_to(flat, varying, unknown, matrix, noise_scale):
    """``b V``.

    Parameters
    ----------
    flat, varying : ndarray of shape (length, length)
        ``M`` and ``V``.
    unknown, matrix, noise_scale
        As for `moment_given`. An error that columns have in common is taken to be as large as that of one.
    """
    parts = np.stack([flat.ravel(), varying.ravel()])
    scale_variance = np.trace(unknown) / max(np.sum(np.diag(varying) ** 2), _SMALLEST_DIVISOR)
    # No part has a precision of 0, and that of the mean is 0 without a constant.
    precision = np.diag(
        [
            _MEAN_FACTOR_SD**-2.0,
            1.0 / max(min(scale_variance, _LARGEST_LEVEL_SD**2), _SMALLEST_DIVISOR),
        ]
    )
    off = (matrix - flat - varying).ravel()
    noise_precision = noise_scale**-2.0
    change = solve(precision + noise_precision * parts @ parts.T, noise_precision * parts @ off)
    return varying * max(1.0 + change[1], _LEAST_LEVEL)


def moment_given(flat, varying, unknown, matrix, noise_scale):
    """The posterior mean of ``F / n``, which is positive, and variances of its entries.

    Parameters
    ----------
    flat, varying : ndarray of shape (length, length)
        ``M`` and ``b V``.
    unknown : ndarray of shape (length, length)
        ``U`` before it is cut.
    matrix : ndarray of shape (length, length)
        ``F / n``, with noise.
    noise_scale : float
        Deviation of the noise on its diagonal.
    """
    moment, (f, units) = flat + varying, _units(varying)
    unknown = _cut(unknown, _units(moment)[1])
    noise = noise_scale**2 * 0.5 * (1.0 + np.eye(len(moment)))
    excess = matrix - moment
    prior = unknown + _size(excess**2, noise + unknown, units) * units
    share = prior / (prior + noise)
    values, basis, entry_variances = spectrum(
        moment + excess * share, noise * share, share**2 * noise
    )
    values = np.maximum(values, _LEAST_EIGENVALUE * f.mean())
    return (basis * values) @ basis.T, turned(entry_variances, basis.T)


def _size(squares, known, units):
    """The posterior mean of ``k^2``, ``squares`` being those of entries of ``known + k^2 units``."""
    pairs = np.triu_indices(len(units))
    variances = known[pairs] + _SIZES[:, None] * units[pairs]
    return softmax(_log_density_of_size(_SIZES, squares[pairs], variances)) @ _SIZES


def share_given(moment, unknown, matrix, noise_scale):
    """The weight of records relative to rows that are normal: ``tr F / tr P``, as far as both are known.

    Parameters
    ----------
    moment : ndarray of shape (length, length)
        ``P``.
    unknown, matrix, noise_scale
        As for `moment_given`.
    """
    trace = np.trace(moment)
    hidden = (np.trace(unknown) + len(moment) * noise_scale**2) / trace**2
    off = np.clip(np.trace(matrix) / trace - 1.0, *_WEIGHT_EXCESS_LIMITS)
    return float(1.0 + off * _WEIGHT_SD**2 / (_WEIGHT_SD**2 + hidden))


def curvature_given(moment, unknown):
    """The `CountCurvature`, given a population's and what is not known of it.

    Parameters
    ----------
    moment, unknown : ndarray of shape (length, length)
        ``P``, and variances of entries, to which is added what rows that are not normal may change.
    """
    f, units = _units(moment)
    values, basis = eigh(moment)
    values = np.maximum(values, _LEAST_EIGENVALUE * f.mean())
    entry_variances = _cut(unknown, units) + _PRIOR_SQUARED_SIZE * units
    return CountCurvature(basis, values, *variance_factors(turned(entry_variances, basis)))


def _units(matrix):
    """``f``, the diagonal, and the unit of variances."""
    f = np.diag(matrix)
    f = np.maximum(f, _LEAST_SHARE * f.mean())
    return f, np.outer(f, f) / len(f)


def _cut(unknown, units):
    """``U``."""
    length = len(unknown)
    return np.minimum(
        unknown,
        units * (_LARGEST_UNKNOWN_ENTRY + (length - _LARGEST_UNKNOWN_ENTRY) * np.eye(length)),
    )
