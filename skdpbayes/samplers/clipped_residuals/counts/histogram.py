"""How many records have which counts and exposures. It says where to begin, however large both are.

    h_b = sum_i w_i [y_i in bin b] + N,      bins 0, 1, 2, 3, 4, 5 to 6, 7 to 8, ..., L

A record is in one bin, so that two tables are at most ``sqrt(q) w`` apart. ``L``, to which larger counts are
reduced, has the last bin, which says how many they may be. Exposures have bins of a constant
ratio, beyond the last of which they are counted there.
"""

import numpy as np

# Bins of counts grow by this, and how many there may be.
_GROWTH, _MOST_BINS = 1.4, 300
# Bins of exposures: the ratio of their ends, and their number. An exposure of 1 is in the middle of one.
_RATIO, _N_EXPOSURES = np.sqrt(2.0), 81
# A bin is taken to be empty up to so many deviations of the noise: near the largest bin, and farther off.
_NEAR, _CLEAR, _CLEARER = 4, 2.5, 4.0


def count_edges(largest):
    """Return the first counts of all bins but the first, which begins at 0; the last has the largest."""
    edges = [1.0]
    while edges[-1] < largest and len(edges) < _MOST_BINS:
        edges.append(max(edges[-1] + 1.0, float(np.floor(edges[-1] * _GROWTH))))
    return np.array([*(edge for edge in edges if edge < largest), float(largest)])


def exposure_edges():
    """Return the logarithms of exposures between two bins."""
    return np.log(_RATIO) * (np.arange(_N_EXPOSURES - 1) - 0.5 * (_N_EXPOSURES - 2))


def counts_seen(values, noise, largest, n):
    """Return numbers distributed as released counts say they are, in order.

    Parameters
    ----------
    values : ndarray of shape (n_bins,)
        The histogram, with noise.
    noise : float
        Deviation of the noise.
    largest : float
        Of counts.
    n : int
        How many numbers.
    """
    edges = count_edges(largest)
    ends = np.concatenate([[0.0], edges, [largest + 1.0]])
    return np.minimum(np.floor(_spread(ends, values, noise, n)), largest)


def share_of_largest(values, noise):
    """Return which share of counts are at the largest, from below.

    Parameters
    ----------
    values : ndarray of shape (n_bins,)
        The histogram, with noise.
    noise : float
        Deviation of the noise.
    """
    whole = values.sum()
    if whole <= _CLEARER * noise * np.sqrt(values.size):
        return 0.0  # Noise hides how many counts there are.
    share = values[-1] / whole
    of_whole = 1.0 - 2.0 * share + values.size * share**2
    return float(share - _CLEAR * noise * np.sqrt(of_whole) / whole)


def log_exposures_seen(values, noise, n):
    """Return logarithms of exposures as released ones say they are, in order; as for `counts_seen`."""
    edges = exposure_edges()
    step = edges[1] - edges[0]
    found = _spread(
        np.concatenate([[edges[0] - step], edges, [edges[-1] + step]]), values, noise, n
    )
    # Exposures that do not differ are most likely 1.
    return np.zeros(n) if np.all(np.abs(found) <= 0.5 * step) else found


def typical_exposure(values, noise, seen):
    """Return the exposure that half of all exceed; at most 1 if noise hides it, as units should make it.

    Parameters
    ----------
    values : ndarray of shape (n_bins,)
        The histogram, with noise.
    noise : float
        Deviation of the noise.
    seen : ndarray of shape (n,)
        Of `log_exposures_seen`.
    """
    found = float(np.exp(np.median(seen)))
    return found if values.max() > _CLEARER * noise else min(found, 1.0)


def _spread(ends, values, noise, n):
    """Return numbers of which each bin has its share, evenly between its ends."""
    largest = int(np.argmax(values))
    near = np.abs(np.arange(values.size) - largest) <= _NEAR
    kept = np.where(values > np.where(near, _CLEAR, _CLEARER) * noise, values, 0.0)
    kept[largest] = max(values[largest], noise)
    shares = np.append(0.0, np.cumsum(kept / kept.sum()))
    return np.interp((np.arange(n) + 0.5) / n, shares, ends)
