"""Moments of a clipped normal number, and their derivatives.

psi(r) = min(max(r, -tau), tau),    r ~ N(a, s^2),    c = P(|r| < tau) = d E psi / d a = Cov(psi, r) / s^2
E psi = a c + s (p_- - p_+) + tau (1 - Phi(x_+) - Phi(x_-)),      x_+- = (+-tau - a) / s,   p = phi(x)
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr


class ClippedNormal(NamedTuple):
    """Moments of a clipped normal number, and their derivatives by its mean and its deviation.

    Attributes
    ----------
    slope, mean, square : ndarray
        ``c``, ``E psi``, whose derivative by the mean is the slope, and ``E psi^2``.
    slope_by_mean, slope_by_deviation, mean_by_deviation, square_by_mean, square_by_deviation : ndarray
    """

    slope: np.ndarray
    mean: np.ndarray
    square: np.ndarray
    slope_by_mean: np.ndarray
    slope_by_deviation: np.ndarray
    mean_by_deviation: np.ndarray
    square_by_mean: np.ndarray
    square_by_deviation: np.ndarray


def clipped_normal(mean, deviation, clip):
    """Return the `ClippedNormal` of arrays that are broadcast together."""
    high, low = (clip - mean) / deviation, (-clip - mean) / deviation
    p_high, p_low = _density(high), _density(low)
    above, below = ndtr(-high), ndtr(low)
    slope = 1.0 - above - below
    apart = p_low - p_high
    bent = low * p_low - high * p_high
    inside = mean * slope + deviation * apart
    square = mean * inside + deviation * mean * apart + deviation**2 * (slope + bent)
    return ClippedNormal(
        slope,
        inside + clip * (above - below),
        square + clip**2 * (above + below),
        apart / deviation,
        bent / deviation,
        apart,
        2.0 * inside,
        2.0 * (mean * apart + deviation * (slope + bent)),
    )


def _density(x):
    return np.exp(-0.5 * np.square(x)) / np.sqrt(2.0 * np.pi)


# Deviations in units of clips, and the mean squares that belong to them.
_DEVIATIONS = np.geomspace(0.01, 10.0, 400)
_SQUARES = clipped_normal(0.0, _DEVIATIONS, 1.0).square


def deviation_of(square, clip):
    """Return the deviation of normal residuals whose clipped squares have a given mean.

    It is at most ten clips, as that mean tells little more.
    """
    place = np.searchsorted(_SQUARES, square / clip**2)
    return clip * _DEVIATIONS[np.minimum(place, _DEVIATIONS.size - 1)]
