"""What released statistics say of a mixture: their mean and covariance, by simulated rows.

    E S = sum_j A_j eta_j,     A_j = E_j[f tau^T] E_j[tau tau^T]^-1,     tau = (1, z_j, z_j z_j^T)
    V   = sum_j N_j E_j[f f^T] - n (E f)(E f)^T

with a row's own statistics ``f`` and means over a component ``j`` of the current mixture. A regression of
``f`` on ``tau`` gives the derivatives by the moments exactly, that being how exponential families change with
their moments. At the mixture at which statistics were released, means are known, for responsibilities undo
the mixture: ``E r_k t = w_k E_k t``. All means are corrected by the error that simulated rows have there.
"""

from typing import NamedTuple

import numpy as np

from ..._linalg import cholesky, pinv, solve
from .conditioned import Conditioned
from .local import Reference, local_features, normal_points, own_moments, sufficient
from .scales import UNSCALED, Scales

# Simulated rows of a component, and how many there are at least for each of its statistics.
N_POINTS, _TIMES = 2048, 4
_JITTER = 1e-12


class NoisyStatistics(NamedTuple):
    """Statistics as they were released.

    Attributes
    ----------
    reference : Reference
        Whose responsibilities and coordinates were used.
    scales : Scales
    sums : ndarray
    noise_scale : float
        Deviation of the noise.
    missed : ndarray
        By how much the mean of a simulated row's statistics is below what it is.
    """

    reference: Reference
    scales: Scales
    sums: np.ndarray
    noise_scale: float
    missed: np.ndarray


def make_look(reference, scales, sums, noise_scale):
    """Return a `NoisyStatistics`."""
    kind, d = reference.covariance_type, reference.means.shape[1]
    normal, simulated = points_for(reference), 0.0
    for j, weight in enumerate(reference.weights):
        rows = reference.points(j, normal)
        simulated = simulated + weight * local_features(rows, reference, scales).mean(axis=0)
    known = np.outer(reference.weights, own_moments(kind, d, scales)).ravel()
    return NoisyStatistics(reference, scales, sums, noise_scale, known - simulated)


def points_for(reference):
    """Return standard normal points, of which rows of any component are made."""
    d = reference.means.shape[1]
    length = sufficient(np.zeros((1, d)), reference.covariance_type).shape[1]
    return normal_points(max(N_POINTS, 2 ** (_TIMES * length).bit_length()), d)


def condition(model, at, looks, is_size_public, **options):
    """Return what is known given some looks, as far as moments are near those of a mixture.

    Parameters
    ----------
    model : MixtureModel
    at : Reference
        That mixture.
    looks : list of NoisyStatistics
        Their rows are the same, their noise is not.
    is_size_public : bool
    **options
        Of `Conditioned`.

    Returns
    -------
    conditioned : Conditioned
    """
    maps, sums, factor, _ = _scaled(at, looks, is_size_public)
    scaled = solve(factor, maps.T)
    linear = scaled.T @ solve(factor, sums)
    return Conditioned(model, at, scaled.T @ scaled, linear, is_size_public, **options)


def log_evidence(at, looks, is_size_public):
    """Return the log density of looks' statistics given a mixture, up to a constant."""
    maps, sums, factor, units = _scaled(at, looks, is_size_public)
    own = own_moments(at.covariance_type, at.means.shape[1], UNSCALED)
    off = solve(factor, sums - np.outer(at.counts, own).ravel() @ maps)
    return -0.5 * off @ off - np.log(np.diag(factor)).sum() + np.log(units).sum()


def _scaled(at, looks, is_size_public):
    """Return (``A^T``, sums, a factor of ``V`` with noise, their units), in those units."""
    maps, covariance = _map_and_covariance(at, looks, is_size_public)
    noise = np.concatenate([np.full(look.sums.size, look.noise_scale**2) for look in looks])
    covariance[np.diag_indices_from(covariance)] += noise
    units = np.diag(covariance) ** -0.5
    covariance *= np.outer(units, units)
    covariance[np.diag_indices_from(covariance)] += _JITTER
    sums = np.concatenate([look.sums for look in looks])
    return maps * units, sums * units, cholesky(covariance), units


def _map_and_covariance(at, looks, is_size_public):
    """Return ``A^T`` and ``V``."""
    normal = points_for(at)
    regression = pinv(sufficient(normal, at.covariance_type))
    maps, covariance, mean = [], 0.0, 0.0
    for j, count in enumerate(at.counts):
        rows = at.points(j, normal)
        features = np.hstack([local_features(rows, look.reference, look.scales) for look in looks])
        maps.append(regression @ features)
        maps[-1][0] += np.concatenate([look.missed for look in looks])
        covariance = covariance + count / len(rows) * (features.T @ features)
        mean = mean + count * features.mean(axis=0)
    if is_size_public:
        covariance = covariance - np.outer(mean, mean) / at.counts.sum()
    return np.vstack(maps), covariance
