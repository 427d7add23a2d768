"""What is subtracted from counts, so that clips take as much from one tail as from the other.

    E psi_tau(min(Y, L) - a(eta)) = 0      for  E Y = exp(eta)

With ``a`` in the place of the mean, the sum of a look at the true point has the mean 0, whatever the rows.
``a`` is monotone, and linear between nodes; beyond the last it stays.
"""

from typing import NamedTuple

import numpy as np

from .law import clipped_count

# The first node, the distance between two, and the number of bisections.
FIRST, _DISTANCE, _HALVINGS = -12.0, 0.02, 40


class Centre(NamedTuple):
    """A function of logits, linear between nodes.

    Attributes
    ----------
    nodes, values : ndarray of shape (n_nodes,)
    """

    nodes: np.ndarray
    values: np.ndarray

    def __call__(self, logits):
        """Return what is subtracted from counts."""
        return np.interp(logits, self.nodes, self.values)

    @property
    def largest(self):
        """No value, and no slope, is larger."""
        slopes = np.diff(self.values) / np.diff(self.nodes)
        return float(max(self.values[-1], slopes.max()))


def centre_for(clip, dispersion, largest):
    """Return the `Centre` for a clip, a dispersion and the largest count.

    Parameters
    ----------
    clip, dispersion, largest : float
        As for `clipped_count`; the clip is at least 1, so that the equation has one solution.
    """
    last = max(np.log(2.0 * largest), FIRST + 1.0)
    nodes = np.linspace(FIRST, last, int(np.ceil((last - FIRST) / _DISTANCE)) + 1)
    low, high = np.zeros(nodes.size), np.full(nodes.size, float(largest))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        value, _ = clipped_count(np.exp(nodes), middle, clip, dispersion, largest)
        low, high = np.where(value > 0, middle, low), np.where(value > 0, high, middle)
    return Centre(nodes, np.maximum.accumulate(0.5 * (low + high)))
