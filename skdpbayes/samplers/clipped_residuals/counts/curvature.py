"""What is believed of a table's rows given two noisy second moments, and of its curvature given a population.

    F / n = P + X + noise,      X_ij ~ N(0, U_ij + k^2 f_i f_j / length),      f = diag P

``P`` is that of a population whose rows have the second moment that was released first. ``U`` is what that
leaves unknown, and ``k``, which is learnt, how much rows differ from the population's. As for responses that
are numbers, see `clipped_residuals.curvature`, eigenvalues that noise has spread are gathered, but ``P`` is
not diagonal. The population is then changed to have the ``F`` that is believed (`population.reshaped`):
its curvatures are those of the table but for what ``F`` leaves unknown, and rows that are not normal.
"""

from typing import NamedTuple

import numpy as np

from ...noise_aware.design import variance_component
from ..curvature import apart, spectrum, turned

# Of ``k^2``: what is usual, how many entries that is worth, and limits.
_USUAL, _WORTH, _LIMITS = 0.04, 4.0, (0.0004, 4.0)
# Eigenvalues, and entries of ``f``, relative to the mean of these: smaller ones are drowned in noise.
_LEAST_EIGENVALUE, _LEAST_SHARE = 1e-3, 0.2
# ``U`` off the diagonal, at most, in units of ``f_i f_j / length``: ``P + X`` is positive.
_POSITIVE = 0.25
# By how much rows that are not normal may change what records count; what it is at least and at most.
_OF_WEIGHTS, _OF_SHARE = 0.2, (-0.5, 1.0)


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


def moment_given(own, unknown, matrix, noise_scale):
    """Return what is believed of ``F / n``, which is positive, and variances of its entries.

    Parameters
    ----------
    own, unknown : ndarray of shape (length, length)
        ``P``, and ``U`` before it is cut.
    matrix : ndarray of shape (length, length)
        ``F / n``, with noise.
    noise_scale : float
        Deviation of the noise on its diagonal.
    """
    f, units, unknown = _measured(own, unknown)
    noise = noise_scale**2 * 0.5 * (1.0 + np.eye(len(own)))
    excess = matrix - own
    size = variance_component(excess**2, noise + unknown, units, _USUAL, _WORTH, _LIMITS)
    prior = unknown + size * units
    share = prior / (prior + noise)
    values, basis, doubt = spectrum(own + excess * share, noise * share, share**2 * noise)
    values = np.maximum(values, _LEAST_EIGENVALUE * f.mean())
    return (basis * values) @ basis.T, turned(doubt, basis.T)


def share_given(own, unknown, matrix, noise_scale):
    """Return what records count relative to rows that are normal: ``tr F / tr P``, as far as both are known.

    Parameters
    ----------
    own, unknown, matrix, noise_scale
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
    f, units, unknown = _measured(own, unknown)
    values, basis = np.linalg.eigh(own)
    values = np.maximum(values, _LEAST_EIGENVALUE * f.mean())
    return CountCurvature(basis, values, *apart(turned(unknown + _USUAL * units, basis)))


def _measured(own, unknown):
    """Return ``f``, the unit of variances, and ``U``."""
    length, f = len(own), np.diag(own)
    f = np.maximum(f, _LEAST_SHARE * f.mean())
    units = np.outer(f, f) / length
    return (
        f,
        units,
        np.minimum(unknown, units * (_POSITIVE + (length - _POSITIVE) * np.eye(length))),
    )
