"""Scales of a record's statistics in a component's own coordinates, from public sizes alone.

(c_0 r, c_1 r z, c_2 r (z z^T - 1)),    norm B
"""

import math
from typing import NamedTuple


class Scales(NamedTuple):
    """``c_0, c_1, c_2`` and ``B``."""

    count: float  # type: ignore[assignment]  # Nobody counts entries of this tuple.
    mean: float
    second: float
    norm: float

    def are_acute(self, covariance_type, n_features):
        """Tell whether no two records' statistics can be at an obtuse angle."""
        columns = n_features if covariance_type == "diag" else 1
        return columns * self.mean**4 <= 4.0 * self.count**2 * self.second**2


# Of the statistics themselves.
UNSCALED = Scales(1.0, 1.0, 1.0, math.inf)


def scales_for(covariance_type, n_features, reach):
    """Return `Scales` for rows that are within ``reach`` standard deviations of what is usual.

    They share what noise costs in likelihood among weights, means and covariances about as is best, and keep
    ``c_0 >= sqrt(d) c_1^2 / (2 c_2)``, without ``sqrt(d)`` where covariances are matrices or spherical: then
    two records' statistics are never at an obtuse angle.
    """
    d, diagonal = n_features, covariance_type == "diag"
    square = d + reach * math.sqrt(2.0 * d)
    fourth = 3.0 * d + reach * math.sqrt(96.0 * d) if diagonal else square**2
    entries = {"diag": d / 4.0, "spherical": d**2 / 4.0}.get(covariance_type, d * (d + 1) / 8.0)
    mean, second = (0.5 * d / square) ** 0.25, (entries / fourth) ** 0.25
    least = (math.sqrt(d) if diagonal else 1.0) * mean**2 / (2.0 * second)
    count = max(math.sqrt(0.7), least * (1.0 + 1e-9))
    norm = math.sqrt(count**2 + mean**2 * square + second**2 * fourth)
    return Scales(count, mean, second, norm)


def statistics_length(covariance_type, n_features):
    """Return how many numbers a component's statistics have."""
    d = n_features
    second = {"diag": d, "spherical": 1}.get(covariance_type, d * (d + 1) // 2)
    return 1 + d + second
