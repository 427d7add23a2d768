"""What is believed of the table's curvature at a point, given a population's and a noisy one.

    F / n = P + X + noise,      X_ij ~ N(0, U_ij + k^2 f_i f_j / length),      f = diag P

``P`` is that of a population whose rows have the released second moment. ``U`` is what that leaves unknown,
and ``k``, which is learnt, how much rows differ from the population's. As for responses that are numbers, see
`clipped_residuals.curvature`, eigenvalues that noise has spread are gathered, but ``P`` is not diagonal.
"""

from typing import NamedTuple

import numpy as np

from ...noise_aware.design import variance_component
from ..curvature import apart, spectrum

# Of ``k^2``: what is usual, how many entries that is worth, and limits.
_USUAL, _WORTH, _LIMITS = 0.04, 4.0, (0.0004, 4.0)
# Eigenvalues, and entries of ``f``, relative to the mean of these: smaller ones are drowned in noise.
_LEAST_EIGENVALUE, _LEAST_SHARE = 1e-3, 0.2
# ``U`` off the diagonal, at most, in units of ``f_i f_j / length``: ``P + X`` is positive.
_POSITIVE = 0.25


class CountCurvature(NamedTuple):
    """What is believed of the table's curvature ``H``, of one record.

    Attributes
    ----------
    basis : ndarray of shape (length, length)
        Eigenvectors of ``H``.
    values : ndarray of shape (length,)
        Its eigenvalues.
    ratios : ndarray of shape (length,)
        What they are relative to the population's curvature along them.
    change : ndarray of shape (length, length)
        ``H P^-1``.
    doubt, own_doubt : ndarray of shape (length,)
        ``p`` and ``h``: in the basis entries have variances ``p_i p_j``, and ``2 p_i^2 + h_i`` on the
        diagonal.
    """

    basis: np.ndarray
    values: np.ndarray
    ratios: np.ndarray
    change: np.ndarray
    doubt: np.ndarray
    own_doubt: np.ndarray


def curvature_given(own, unknown, matrix=None, noise_scale=0.0):
    """Return the `CountCurvature`.

    Parameters
    ----------
    own : ndarray of shape (length, length)
        ``P``.
    unknown : ndarray of shape (length, length)
        ``U``, before it is cut.
    matrix : ndarray of shape (length, length) or None, default=None
        ``F / n``; None before it is released.
    noise_scale : float, default=0.0
        Deviation of the noise on its diagonal.
    """
    length, f = len(own), np.diag(own)
    f = np.maximum(f, _LEAST_SHARE * f.mean())
    units = np.outer(f, f) / length
    unknown = np.minimum(unknown, units * (_POSITIVE + (length - _POSITIVE) * np.eye(length)))
    if matrix is None:
        found, doubt, seen = own, unknown + _USUAL * units, np.zeros_like(own)
    else:
        noise = noise_scale**2 * 0.5 * (1.0 + np.eye(length))
        excess = matrix - own
        size = variance_component(excess**2, noise + unknown, units, _USUAL, _WORTH, _LIMITS)
        prior = unknown + size * units
        share = prior / (prior + noise)
        found, doubt, seen = own + excess * share, noise * share, share**2 * noise
    least = _LEAST_EIGENVALUE * f.mean()
    values, basis, doubt = spectrum(found, doubt, seen)
    values = np.maximum(values, least)
    of_population, vectors = np.linalg.eigh(own)
    inverse = (vectors / np.maximum(of_population, least)) @ vectors.T
    along = np.maximum(np.sum(basis * (own @ basis), axis=0), least)
    change = (basis * values) @ basis.T @ inverse
    return CountCurvature(basis, values, values / along, change, *apart(doubt))
