"""Sums over the rows of a target: blocks that stay in the cache, in chunks that cores share.

    sum_i f(z_i) = sum_chunks sum_blocks sum_{i in block} f(z_i),      z_i = (scale_i x_i, b)

Chunks are fixed by the number of rows alone and added in their order, so that sums do not depend on how many
cores there are. Results are multiplied by the factors of rows, instead of the rows: rows are copied only
where they must be.
"""

from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import scipy.sparse as sp

from .._threads import of_chunks
from .products import logistic_sums, moment, squared_lengths

# No entry of a sum has a longer chain of additions than ``MOMENT_ROWS + n / MOMENT_ROWS``.
MOMENT_ROWS = 4096
_LARGEST_BLOCK, _SMALLEST_BLOCK, _BLOCK_ENTRIES = 4096, 512, 2**17
_MOST_CHUNKS = 32


@dataclass(frozen=True)
class Block:
    """Some rows of a table.

    Attributes
    ----------
    rows : {ndarray, CSR array} of shape (n, n_features)
        In single or double precision.
    scale : ndarray of shape (n,)
    constant : float
        Of the last column of ``z``, which is left out if this is 0.
    offsets : ndarray of shape (n,) or None
        Of the logits.
    room : ndarray
        For as many doubles as there are entries.
    """

    rows: np.ndarray | sp.csr_array
    scale: np.ndarray
    constant: float
    offsets: np.ndarray | None
    room: np.ndarray

    @cached_property
    def doubles(self):
        """Rows in double precision."""
        if self.rows.dtype == np.float64 or not self.is_dense:
            return self.rows.astype(np.float64, copy=False)
        doubles = self.room[: self.rows.size].reshape(self.rows.shape)
        np.copyto(doubles, self.rows)
        return doubles

    @property
    def is_dense(self):
        """Whether rows are an array."""
        return isinstance(self.rows, np.ndarray)

    def logistic_sums(self, theta, centres, weights, curvature):
        """Return the sums of `products.logistic_sums`, the first in one block."""
        given = self.rows, self.scale, self.constant
        gradient, matrix = logistic_sums(*given, theta, centres, weights, curvature)
        return gradient[None], matrix

    def logits(self, theta):
        """Return ``theta z`` and the offsets, of shape (n_blocks, n)."""
        logits = (self.doubles @ theta[:, : self.rows.shape[1]].T).T * self.scale
        if self.offsets is not None:
            logits += self.offsets
        return logits + self.constant * theta[:, -1:] if self.constant else logits

    def summed(self, factors):
        """Return ``sum_i f_i z_i``, of shape (n_blocks, length), for factors of shape (n_blocks, n)."""
        sums = (self.doubles.T @ (factors * self.scale).T).T
        if not self.constant:
            return sums
        return np.column_stack([sums, self.constant * factors.sum(axis=1)])

    def moved(self, transform):
        """Return ``W^T z``, of shape (n, length)."""
        moved = self.doubles @ transform[: self.rows.shape[1]]
        moved *= self.scale[:, None]
        if self.constant:
            moved += self.constant * transform[-1]
        return moved

    def squared_lengths(self, transform):
        """Return ``|W^T z|^2``, of shape (n,)."""
        if self.is_dense:
            return squared_lengths(self.rows, self.scale, self.constant, transform)
        moved = self.moved(transform)
        return np.einsum("ij,ij->i", moved, moved)

    def moment(self, factors):
        """Return ``sum_i f_i z_i z_i^T``, of shape (length, length)."""
        if self.is_dense:
            return moment(self.rows, factors, self.scale, self.constant)
        roots = np.sqrt(np.abs(factors))
        return (self._times(np.copysign(roots, factors)).T @ self._times(roots)).toarray()

    def _times(self, factors):
        given = self.doubles
        data = given.data * np.repeat(factors * self.scale, np.diff(given.indptr))
        rows = sp.csr_array((data, given.indices, given.indptr), given.shape)
        last = self.constant * factors[:, None]
        return sp.hstack([rows, last], format="csr") if self.constant else rows


def sum_of_blocks(target, of_block):
    """Return the sums over blocks of a tuple of arrays or None.

    Parameters
    ----------
    target : NamedTuple
        A linear model's target.
    of_block : callable
        Of a slice and the `Block` of these rows.
    """
    table, n, length = _table(target), target.scale.size, max(1, target.n_features)
    size = min(max(_BLOCK_ENTRIES // length, _SMALLEST_BLOCK), _LARGEST_BLOCK)
    n_chunks = min(_MOST_CHUNKS, max(1, -(-n // MOMENT_ROWS)))

    def of_chunk(first, stop):
        starts = range(first, stop, size) or (first,)  # The sums of no rows have a shape, too.
        parts = (slice(k, min(k + size, stop)) for k in starts)
        # Memory that were allocated for every block would be cleared by the system every time.
        room = np.empty(min(size, stop - first) * length)
        return reduce(_added, (of_block(part, _block(target, table, part, room)) for part in parts))

    return reduce(_added, of_chunks(of_chunk, n, n_chunks, n * length))


def _added(sums, more):
    return tuple(None if a is None else a + b for a, b in zip(sums, more, strict=True))


def _table(target):
    """Return the unscaled rows as an array or a CSR matrix."""
    if not hasattr(target, "starts"):
        return target.values
    rows = (target.values, target.columns, target.starts)
    return sp.csr_array(rows, shape=(target.scale.size, target.n_features))


def _block(target, table, part, room):
    rows, offsets = table[part], getattr(target, "offsets", ())
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    offsets = offsets[part] if len(offsets) else None
    return Block(rows, target.scale[part], target.constant, offsets, room)
