"""Sums over rows of an array of products of two columns, and lengths of transformed rows; compiled.

    M = sum_i f_i z_i z_i^T,      |W^T z_i|^2,      z_i = (s_i x_i, b)

A few rows at a time stay in the innermost cache. Of ``M`` only squares of 8 x 8 entries on the diagonal and
above it are summed, each in eight registers of eight numbers: matrices of so few columns are too small for
the routines of BLAS.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..._compiled import compilable, compiled
from .._rows import read_only

# Columns of a square, and how many rows are summed before it is written.
_TILE, _ROWS = 8, 64
# Rows that are transformed at once: as many as BLAS takes for a small matrix.
_MOVED = 256
_VECTOR = ir.VectorType(ir.DoubleType(), _TILE)


def moment(rows, factors, scale=None, constant=0.0):
    """Return ``M`` for factors of any sign.

    Parameters
    ----------
    rows : ndarray of shape (n, n_features)
        ``x``, C-contiguous, in double precision.
    factors : ndarray of shape (n,)
        ``f``.
    scale : ndarray of shape (n,) or None, default=None
        ``s``; None is 1.
    constant : float, default=0.0
        ``b``; 0 is no column.

    Returns
    -------
    moment : ndarray of shape (length, length)
    """
    length = rows.shape[1] + (constant > 0.0)
    width = -(-length // _TILE) * _TILE
    sums = np.zeros((width, width))
    scale = np.ones(len(rows)) if scale is None else scale
    # Of one kind, so that there is one function to compile.
    _add_moment(*map(read_only, (rows, factors, scale)), float(constant), sums)
    return sums[:length, :length]


def squared_lengths(rows, scale, constant, transform):
    """Return ``|W^T z_i|^2``, of shape (n,)."""
    squares = np.empty(scale.size)
    transform = np.ascontiguousarray(transform)
    _square_lengths(*map(read_only, (rows, scale, transform)), float(constant), squares)
    return squares


@intrinsic
def _add_tile(typing_context, left, right, n_rows, i, j, sums):
    """Add ``left[:n_rows, i:i+8].T @ right[:n_rows, j:j+8]``; all arrays have as many columns."""

    def generate(context, builder, signature, values):
        n_rows, i, j = values[2:5]
        arrays = (
            context.make_array(signature.args[k])(context, builder, values[k]) for k in (0, 1, 5)
        )
        left, right, sums = arrays
        width = cgutils.unpack_tuple(builder, sums.shape)[1]

        def eight_at(data, row, column):
            place = builder.gep(data, [builder.add(builder.mul(row, width), column)])
            return builder.bitcast(place, _VECTOR.as_pointer())

        def fused(total, x, y):
            return builder.fadd(total, builder.fmul(x, y, flags=("contract",)), flags=("contract",))

        word, before = n_rows.type, builder.block
        loop, after = builder.append_basic_block("rows"), builder.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        row, totals = builder.phi(word), [builder.phi(_VECTOR) for _ in range(_TILE)]
        of_left = builder.load(eight_at(left.data, row, i), align=8)
        of_right = builder.load(eight_at(right.data, row, j), align=8)
        following = builder.add(row, word(1))
        row.add_incoming(word(0), before)
        row.add_incoming(following, loop)
        added = []
        for k, total in enumerate(totals):
            lanes = ir.Constant(ir.VectorType(ir.IntType(32), _TILE), [k] * _TILE)
            added.append(fused(total, builder.shuffle_vector(of_left, of_left, lanes), of_right))
            total.add_incoming(ir.Constant(_VECTOR, [0.0] * _TILE), before)
            total.add_incoming(added[k], loop)
        builder.cbranch(builder.icmp_signed("<", following, n_rows), loop, after)
        builder.position_at_end(after)
        for k, total in enumerate(added):
            place = eight_at(sums.data, builder.add(i, word(k)), j)
            builder.store(builder.fadd(builder.load(place, align=8), total), place, align=8)
        return context.get_dummy_value()

    return types.void(left, right, n_rows, i, j, sums), generate


@compilable
def _write_scaled(rows, scale, constant, first, out):
    n_features = rows.shape[1]
    for k in range(min(out.shape[0], rows.shape[0] - first)):
        for j in range(n_features):
            out[k, j] = rows[first + k, j] * scale[first + k]
        if constant > 0.0:
            out[k, n_features] = constant


@compiled
def _add_moment(rows, factors, scale, constant, sums):
    n, width = rows.shape[0], sums.shape[1]
    left, right = np.zeros((_ROWS, width)), np.zeros((_ROWS, width))
    for first in range(0, n, _ROWS):
        size = min(_ROWS, n - first)
        _write_scaled(rows, scale, constant, first, right)
        for k in range(size):
            for j in range(width):
                left[k, j] = right[k, j] * factors[first + k]
        for i in range(0, width, _TILE):
            for j in range(i, width, _TILE):
                _add_tile(left, right, size, i, j, sums)
    for i in range(width):
        for j in range(i):
            sums[i, j] = sums[j, i]


@compiled
def _square_lengths(rows, scale, transform, constant, squares):
    n, length = rows.shape[0], transform.shape[0]
    scaled, moved = np.zeros((_MOVED, length)), np.empty((_MOVED, length))
    for first in range(0, n, _MOVED):
        _write_scaled(rows, scale, constant, first, scaled)
        np.dot(scaled, transform, moved)
        for k in range(min(_MOVED, n - first)):
            total = 0.0
            for j in range(length):
                total += moved[k, j] ** 2
            squares[first + k] = total
