"""Clipped means as functions of logits, by cubic polynomials between nodes.

    e(eta) = E psi,      eta = eta_k + delta,      nodes at delta = -4 .. 4

Draws ask for many of them. Beyond the last nodes a mean stays, as all counts are clipped there.
"""

import numpy as np

from ...._compiled import compiled
from .law import clipped_count

# Of the nodes: compiled code has these as constants.
REACH, SPACING = 4.0, 0.2
_NODES = np.arange(-REACH, REACH + 0.5 * SPACING, SPACING)


def tabulated(logits, centres, clip, dispersion, largest):
    """Return means, and their slopes times the spacing, at the nodes, of shape (n_rows, n_nodes, 2).

    Parameters
    ----------
    logits, centres : ndarray of shape (n_rows,)
        Logits at the look's point, and what is subtracted from counts there.
    clip, dispersion, largest : float
        As for `clipped_count`.
    """
    means = np.exp(np.minimum(logits[:, None] + _NODES, 30.0))
    values, _ = clipped_count(means, centres[:, None], clip, dispersion, largest)
    slopes = np.gradient(values, axis=1)
    slopes[:, [0, -1]] = 0.0
    return np.stack([values, slopes], axis=2)


@compiled
def looked_up(logits, centres, tables):
    """Return means and slopes, of shape (n_points, n_looks, n_rows), for logits of shape (n_points, n_rows).

    ``centres`` has the shape (n_looks, n_rows), and ``tables`` (n_looks, n_rows, n_nodes, 2).
    """
    n_points, n_rows = logits.shape
    n_looks, last = tables.shape[0], tables.shape[2] - 1
    means = np.empty((n_points, n_looks, n_rows))
    slopes = np.empty((n_points, n_looks, n_rows))
    # A row's table is read from memory once for all points.
    for k in range(n_looks):
        for i in range(n_rows):
            table = tables[k, i]
            for b in range(n_points):
                place = (logits[b, i] - centres[k, i] + REACH) * (1.0 / SPACING)
                inside = 0.0 < place < last
                place = min(max(place, 0.0), last - 1e-9)
                node = np.uint64(place)
                t = place - node
                y, m = table[node, 0], table[node, 1]
                node += np.uint64(1)
                step, n = table[node, 0] - y, table[node, 1]
                c, d = 3.0 * step - 2.0 * m - n, m + n - 2.0 * step
                means[b, k, i] = y + t * (m + t * (c + t * d))
                slopes[b, k, i] = (
                    (m + t * (2.0 * c + 3.0 * t * d)) * (1.0 / SPACING) if inside else 0.0
                )
    return means, slopes
