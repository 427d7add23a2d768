"""What is believed of a table's rows given two noisy second moments, and of its curvature given a population.

    F / n = P + X + noise,      X_ij ~ N(0, U_ij + k^2 f_i f_j / length)
    P = M + b V,                f = diag(b V)

``M + V`` is that of a population whose rows have the second moment that was released first, and ``M`` what
it would be if rows did not differ. ``U`` is what that leaves unknown. All variances of columns may be off
by a common factor ``b``, as where noise hides them. ``k``, which is learnt, too, is how much rows vary
together that in the population do not. As for responses that
are numbers, see `clipped_residuals.curvature`, eigenvalues that noise has spread are gathered, but ``P`` is
not diagonal. The population is then changed to have the ``F`` that is believed (`population.reshaped`):
its curvatures are those of the table but for what ``F`` leaves unknown, and rows that are not normal.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from ...._linalg import eigh, solve
from ..curvature import apart, spectrum, turned

# Of ``k^2``: what is usual, the deviation of its logarithm, and what is possible.
_USUAL, _SPREAD, _SIZES = 0.04, 2.0, np.geomspace(0.0004, 4.0, 41)
# Deviations of ``b``, at most, and of what ``M`` is multiplied by; the least ``b``.
_OF_LEVEL, _OF_MEAN, _LEAST_LEVEL = 1.0, 0.2, 0.1
# Eigenvalues, and entries of ``f``, relative to the mean of these: smaller ones are drowned in noise.
_LEAST_EIGENVALUE, _LEAST_SHARE = 1e-3, 0.2
# ``U`` off the diagonal, at most, in units of ``f_i f_j / length``: ``P + X`` is positive.
_POSITIVE = 0.25
# By how much rows that are not normal may change what records count; what it is at least and at most.
_OF_WEIGHTS, _OF_SHARE = 0.2, (-0.5, 1.0)
_TINY = 1e-12


class CountCurvature(NamedTuple):
    """What is believed of the table's curvature ``H``, of one record.

    Attributes
    ----------
    basis : ndarray of shape (length, length)
        Eigenvectors of ``H``.
    values : ndarray of shape (length,)
        Its eigenvalues.
    doubt, own_doubt : ndarray of shape (length,)
        ``p`` and ``h``: in the basis entries have variances ``p_i p_j``, and ``2 p_i^2 + h_i`` on the
        diagonal.
    """

    basis: np.ndarray
    values: np.ndarray
    doubt: np.ndarray
    own_doubt: np.ndarray


def levelled(flat, varying, unknown, matrix, noise_scale):
    """Return ``b V``.

    Parameters
    ----------
    flat, varying : ndarray of shape (length, length)
        ``M`` and ``V``.
    unknown, matrix, noise_scale
        As for `moment_given`. An error that columns have in common is taken to be as large as that of one.
    """
    parts = np.stack([flat.ravel(), varying.ravel()])
    doubt = np.trace(unknown) / max(np.sum(np.diag(varying) ** 2), _TINY)
    # No part has a precision of 0, and that of the mean is 0 without a constant.
    precision = np.diag([_OF_MEAN**-2.0, 1.0 / max(min(doubt, _OF_LEVEL**2), _TINY)])
    off = (matrix - flat - varying).ravel()
    of_noise = noise_scale**-2.0
    change = solve(precision + of_noise * parts @ parts.T, of_noise * parts @ off)
    return varying * max(1.0 + change[1], _LEAST_LEVEL)


def moment_given(flat, varying, unknown, matrix, noise_scale):
    """Return what is believed of ``F / n``, which is positive, and variances of its entries.

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
    own, (f, units) = flat + varying, _units(varying)
    unknown = _cut(unknown, _units(own)[1])
    noise = noise_scale**2 * 0.5 * (1.0 + np.eye(len(own)))
    excess = matrix - own
    prior = unknown + _size(excess**2, noise + unknown, units) * units
    share = prior / (prior + noise)
    values, basis, doubt = spectrum(own + excess * share, noise * share, share**2 * noise)
    values = np.maximum(values, _LEAST_EIGENVALUE * f.mean())
    return (basis * values) @ basis.T, turned(doubt, basis.T)


def _size(squares, known, units):
    """Return the posterior mean of ``k^2``, ``squares`` being those of entries of ``known + k^2 units``."""
    pairs = np.triu_indices(len(units))
    variances = known[pairs] + _SIZES[:, None] * units[pairs]
    logs = -0.5 * np.sum(np.log(variances) + squares[pairs] / variances, axis=1)
    logs -= 0.5 * (np.log(_SIZES / _USUAL) / _SPREAD) ** 2
    return softmax(logs) @ _SIZES


def share_given(own, unknown, matrix, noise_scale):
    """Return what records count relative to rows that are normal: ``tr F / tr P``, as far as both are known.

    Parameters
    ----------
    own : ndarray of shape (length, length)
        ``P``.
    unknown, matrix, noise_scale
        As for `moment_given`.
    """
    whole = np.trace(own)
    hidden = (np.trace(unknown) + len(own) * noise_scale**2) / whole**2
    off = np.clip(np.trace(matrix) / whole - 1.0, *_OF_SHARE)
    return float(1.0 + off * _OF_WEIGHTS**2 / (_OF_WEIGHTS**2 + hidden))


def curvature_given(own, unknown):
    """Return the `CountCurvature`, given a population's and what is not known of it.

    Parameters
    ----------
    own, unknown : ndarray of shape (length, length)
        ``P``, and variances of entries, to which is added what rows that are not normal may change.
    """
    f, units = _units(own)
    values, basis = eigh(own)
    values = np.maximum(values, _LEAST_EIGENVALUE * f.mean())
    doubt = _cut(unknown, units) + _USUAL * units
    return CountCurvature(basis, values, *apart(turned(doubt, basis)))


def _units(matrix):
    """Return ``f``, the diagonal, and the unit of variances."""
    f = np.diag(matrix)
    f = np.maximum(f, _LEAST_SHARE * f.mean())
    return f, np.outer(f, f) / len(f)


def _cut(unknown, units):
    """Return ``U``."""
    length = len(unknown)
    return np.minimum(unknown, units * (_POSITIVE + (length - _POSITIVE) * np.eye(length)))
