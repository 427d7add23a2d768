"""How many records have which counts and exposures: what says where to start, whatever the bounds.

    h_b = sum_i w_i [y_i in bin b] + N,      bins 0, 1, 2, 3, 4 to 5, 6 to 8, ...

A record is in one bin: two tables are at most ``sqrt(q) w`` apart, however large counts may be.
"""

import numpy as np

# Bins grow by this, and those of exposures are as wide; exposures beyond the last bins are counted there.
_GROWTH, _EXPOSURE_RATIO, _N_EXPOSURES = 1.4, np.sqrt(2.0), 81
# Deviations of noise below which a bin is taken to be empty.
_CLEAR = 2.5


def count_edges(largest):
    """Return the first counts of bins, but for the first bin, which begins at 0."""
    edges = [1.0]
    while edges[-1] < largest and len(edges) < 300:
        edges.append(max(edges[-1] + 1.0, np.floor(edges[-1] * _GROWTH)))
    return np.array(edges)


def exposure_edges():
    """Return logarithms of exposures between bins; 1 is in the middle of one."""
    return np.log(_EXPOSURE_RATIO) * (np.arange(_N_EXPOSURES - 1) - 0.5 * (_N_EXPOSURES - 2))


def shares_of_bins(values, noise):
    """Return which share of records is in each bin, for numbers released with noise of a deviation.

    Bins that noise may have filled are taken to be empty.
    """
    kept = np.where(values > _CLEAR * noise, values, 0.0)
    if not kept.any():
        kept[np.argmax(values)] = 1.0
    return kept / kept.sum()


def quantiles(edges, shares, n):
    """Return numbers of which each bin has its share, evenly spread between its edges, in order.

    Parameters
    ----------
    edges : ndarray of shape (n_bins + 1,)
    shares : ndarray of shape (n_bins,)
    n : int
    """
    ranks = (np.arange(n) + 0.5) / n
    return np.interp(ranks, np.append(0.0, np.cumsum(shares)), edges)
