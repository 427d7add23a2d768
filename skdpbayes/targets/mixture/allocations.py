"""Sufficient statistics of rows of which each is allocated to one component at random.

    z_i ~ r(x_i),      S_k = sum_{i: z_i = k} (1, x_i, x_i^2)

with responsibilities ``r`` as in `skdpbayes.targets.mixture.statistics`, whose statistics are the mean of
these. The mixture is the same vector, followed by a key of two numbers below 2^32. Sums of row ``i``'s
responsibilities are compared with ``h(key + (i + 1) gamma) / 2^64``, where ``h`` is the mixing function of
SplitMix64: whatever holds the row, and in whatever order rows are read, its allocation is the same.

Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ..._compiled import compilable
from .._interface import add_gradient, implements, n_examples, record
from .statistics import add_row, exponents, read_row

# Numbers at the end of the mixture's vector.
KEY_LENGTH = 2
_HALF, _TO_DOUBLE = np.uint64(32), np.uint64(11)
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST_SHIFT, _FIRST = np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)
_SECOND_SHIFT, _SECOND = np.uint64(27), np.uint64(0x94D049BB133111EB)
_LAST_SHIFT = np.uint64(31)


class AllocatedTable(NamedTuple):
    """Rows in the unit ball, as in a `MixtureTable`.

    Attributes
    ----------
    values, scale : ndarray
        ``scale_i values_i`` is a row.
    first : int
        Number of the first row among those of all shards.
    """

    values: np.ndarray
    scale: np.ndarray
    first: int


@compilable
def uniform_of(high, low, number):
    """Return a uniform number in [0, 1) for a row, given the halves of a key."""
    word = (np.uint64(high) << _HALF) + np.uint64(low) + _GAMMA * np.uint64(number + 1)
    word = (word ^ (word >> _FIRST_SHIFT)) * _FIRST
    word = (word ^ (word >> _SECOND_SHIFT)) * _SECOND
    word = word ^ (word >> _LAST_SHIFT)
    return np.float64(word >> _TO_DOUBLE) * 2.0**-53


@implements(n_examples, AllocatedTable)
def _count(target):
    return target.values.shape[0]


@implements(add_gradient, AllocatedTable)
def _add_statistics(target, theta, selection, count, out):
    d = target.values.shape[1]
    row, centred = np.empty(d), np.empty(d)
    shares = np.empty(int(theta[0]))
    for i in range(count):
        number = record(selection, i)
        read_row(target, number, row)
        largest, total = exponents(theta, row, centred, shares), 0.0
        for k in range(shares.size):
            shares[k] = math.exp(shares[k] - largest)
            total += shares[k]
        left = total * uniform_of(theta[-2], theta[-1], target.first + number)
        k = 0
        # Rounding may leave a sum below the total: the last component has the rest.
        while k < shares.size - 1 and left >= shares[k]:
            left -= shares[k]
            k += 1
        add_row(theta[1] != 0.0, row, k, 1.0, shares.size, out)


def allocated(table: Any, first: int) -> AllocatedTable:
    """Return a `MixtureTable` as one whose rows are allocated; its first row has some number."""
    return AllocatedTable(table.values, table.scale, first)
