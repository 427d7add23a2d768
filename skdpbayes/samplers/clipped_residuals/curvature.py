"""What is believed of the rows' weighted second moment, given two releases of it.

    F / n = G + X + noise,      X_ij ~ N(0, U_ij + k^2 g_i g_j / length),      G = diag(g) as the first has it

in whitened coordinates. ``U`` is what the first leaves unknown, at most ``g_i g_j``: ``G + X`` is positive.
``k`` is learnt, and is usually larger where noise in the first hides which columns vary together.
Coordinates are turned into the eigenvectors of the posterior mean. Noise, of a variance ``v`` per row, has
spread its eigenvalues ``l``. Along an eigenvector there is, about [1]_,

    l_i - 2 v / length  sum_j (l_i - l_j) / ((l_i - l_j)^2 + v / length)

which is made positive, as the mean of a normal law that is cut at zero. What there is between eigenvectors
is the rest of the sum of squares.

References
----------
.. [1] J. Bun, R. Allez, J.-P. Bouchaud and M. Potters, "Rotational invariant estimator for general noisy
   matrices", IEEE Transactions on Information Theory 62(12), 2016.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from ..._linalg import eigh
from ..noise_aware.design import variance_component

# Of ``k^2``: what is usual, how many entries that is worth, and limits.
_USUAL, _WORTH, _LIMITS = 0.04, 4.0, (0.0004, 4.0)
# What is usual where noise in the first release hides which columns vary together: a few directions may have
# most of the variance.
_USUAL_HIDDEN = 0.3
# What weights leave of the first release, at least and at most.
_LEFT = (0.4, 1.2)
_LEAST_EIGENVALUE = 1e-3
# Least entries of ``G``, relative to their mean: noise drowns smaller ones.
_LEAST_SHARE = 0.2
# By how much the effect of weights may differ from that on the whole, relative to a mean square.
_OF_WEIGHTS = 0.2
# Of the noise's variances, in the eigenvectors of what was released, at least.
_LEAST_LEFT = 0.1


@dataclass(frozen=True)
class Curvature:
    """Coordinates and a curvature, diagonal in them; it is that of one record.

    Attributes
    ----------
    transform : ndarray of shape (length, length)
    values : ndarray of shape (length,)
        Eigenvalues.
    doubt : ndarray of shape (length,)
        Entries have variances of products of these, and of twice that on the diagonal.
    own_doubt : ndarray of shape (length,)
        What those on the diagonal have besides.
    mean : ndarray of shape (length,)
        Of rows.
    squares : ndarray of shape (length,)
        Mean squares of rows, which do not count less where they are long.
    """

    transform: np.ndarray
    values: np.ndarray
    doubt: np.ndarray
    own_doubt: np.ndarray
    mean: np.ndarray
    squares: np.ndarray

    @property
    def hidden(self):
        """How much may be unknown along some direction, over what there is along most.

        It is the largest eigenvalue of a matrix of normal numbers, over the median of those believed.
        """
        unknown = 2.0 * float(np.median(self.doubt)) * np.sqrt(self.doubt.size)
        return float(unknown / np.median(self.values))


def combined(design, transform, matrix, noise_scale, n_samples, first_noise=0.0):
    """Return the `Curvature` given both releases.

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
    left = 1.0
    if noise_scale * np.sqrt(length) < 0.3 * n_samples * before.sum():
        left = np.clip(np.trace(matrix) / n_samples / before.sum(), *_LEFT)
    excess = matrix / n_samples - left * np.diag(before)
    units = np.outer(before, before) / length
    lengths = np.sum(squares, axis=0)
    usual = _usual(0.5 * (first_noise / n_samples) ** 2 * np.outer(lengths, lengths), units)
    unknown = np.minimum(unknown, length * units)
    size = variance_component(excess**2, noise + unknown, units, usual, _WORTH, _LIMITS)
    prior = unknown + size * units
    share = prior / (prior + noise)
    found, seen = left * np.diag(before) + excess * share, share**2 * noise
    values, basis, doubt = spectrum(found, noise * share, seen)
    values = np.maximum(values, _LEAST_EIGENVALUE * before.sum() / length)
    own = np.ascontiguousarray(transform @ basis)
    squares = _unweighted(design, own, values / left)
    doubt, own_doubt = apart(doubt)
    return Curvature(own, values, doubt, own_doubt, design.mean @ own, squares)


def _usual(first_noise, units):
    """Return ``k^2`` that is usual, given variances of noise that the first release has off the diagonal."""
    hidden = first_noise / (first_noise + _USUAL_HIDDEN * units)
    off = ~np.eye(len(units), dtype=bool)
    return max(_USUAL, _USUAL_HIDDEN * float(hidden[off].mean())) if off.any() else _USUAL


def _unweighted(design, transform, usual):
    """Return mean squares of rows as they are, given about what they should be by the second release."""
    seen = np.sum(transform * (design.second_moment @ transform), axis=0)
    noise = np.sum(transform**2 * (design.uncertainty @ transform**2), axis=0)
    prior = (_OF_WEIGHTS * usual) ** 2
    return np.maximum(usual + (seen - usual) * prior / (prior + noise), _LEAST_EIGENVALUE * usual)


def spectrum(found, doubt, seen):
    """Return what is believed of a positive matrix, in eigenvectors of what noise is in.

    Parameters
    ----------
    found : ndarray of shape (length, length)
        A posterior mean of the matrix, entries being independent.
    doubt : ndarray of shape (length, length)
        Variances of the entries.
    seen : ndarray of shape (length, length)
        Of noise, those that are left in ``found``.

    Returns
    -------
    values : ndarray of shape (length,)
        Positive.
    basis : ndarray of shape (length, length)
    doubt : ndarray of shape (length, length)
        Variances of entries in the basis.
    """
    values, basis = eigh(found)
    gathered = gathered_eigenvalues(values, seen.sum() / len(found))
    of_noise = _of_noise(values, gathered, seen)
    doubt = turned(doubt - (1.0 - of_noise) * seen, basis)
    return cut(gathered, np.sqrt(np.diag(doubt))), basis, doubt


def gathered_eigenvalues(values, variance):
    """Return what a matrix has along eigenvectors of what it is with noise.

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


def _of_noise(values, gathered, seen):
    """Return how much of the noise is left off the diagonal, in the eigenvectors of a matrix with noise.

    What the matrix has there is the sum of its squares less those on the diagonal.
    """
    between = seen.sum() - np.trace(seen)
    if len(values) < 3 or between == 0.0:
        return 1.0
    # Those on the diagonal have noise of their own.
    left = values @ values - seen.sum() - (gathered @ gathered - np.trace(seen))
    return float(np.clip(left / between, _LEAST_LEFT, 1.0))


def apart(variances):
    """Return ``p`` and ``h``: variances are about ``p_i p_j``, and ``2 p_i^2 + h_i`` on the diagonal."""
    length, own = len(variances), np.diag(variances)
    if length == 1:
        return np.sqrt(0.5 * own), np.zeros(1)
    rows = variances.sum(axis=0) - own
    p = rows / np.sqrt(rows.sum() * (1.0 - 1.0 / length))
    return p, np.maximum(own - 2.0 * p**2, 0.0)


def turned(variances, basis):
    """Return the variances of a matrix's entries in another basis, entries being independent."""
    squares = basis**2
    return squares.T @ variances @ squares


def cut(values, deviations):
    """Return means of normal laws that are cut at zero."""
    z = values / deviations
    density = np.exp(-0.5 * z**2 - log_ndtr(z)) / np.sqrt(2.0 * np.pi)
    return values + deviations * density
