"""Sums over the rows of an array, and lengths of transformed rows; compiled.

    M = sum_i f_i z_i z_i^T,      g = sum_i w_i (p_i - c_i) z_i,      |W^T z_i|^2,      z_i = (s_i x_i, b)

with logistic ``p_i = 1 / (1 + exp(-theta z_i))`` and, beside ``g``, ``f_i = w_i p_i (1 - p_i)``. A few rows
at a time stay in the innermost cache. Of ``M`` only squares of 8 x 8 entries on the diagonal and above it are
summed, each in eight registers of eight numbers: matrices of so few columns are too small for the routines
of BLAS.
"""

import math

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
        ``x``, C-contiguous, in single or double precision.
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
    scale, nothing = np.ones(len(rows)) if scale is None else scale, np.empty(0)
    return logistic_sums(rows, scale, constant, nothing, nothing, factors, True)[1]


def logistic_sums(rows, scale, constant, theta, centres, weights, curvature):
    """Return ``g`` and, if wanted, ``M``.

    Parameters
    ----------
    rows, scale, constant
        As for `moment`.
    theta : ndarray of shape (length,)
        If it is empty, ``g`` is 0 and ``f`` is ``w``.
    centres, weights : ndarray of shape (n,)
        ``c`` and ``w``.
    curvature : bool
    """
    length = rows.shape[1] + (constant > 0.0)
    width = -(-length // _TILE) * _TILE
    gradient, matrix = np.zeros(width), np.zeros((width, width) if curvature else (0, 0))
    # Of one kind each, so that there is one function to compile for a kind of rows.
    arrays = map(read_only, (rows, scale, theta, centres, weights))
    _add_sums(*arrays, float(constant), gradient, matrix)
    return gradient[:length], matrix[:length, :length] if curvature else None


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


@compiled(fastmath={"reassoc", "contract"})
def _add_sums(rows, scale, theta, centres, weights, constant, gradient, matrix):
    n, width, length = rows.shape[0], gradient.size, theta.size
    left, right = np.zeros((_ROWS, width)), np.zeros((_ROWS, width))
    factors, residuals = np.zeros(_ROWS), np.zeros(_ROWS)
    for first in range(0, n, _ROWS):
        size = min(_ROWS, n - first)
        _write_scaled(rows, scale, constant, first, right)
        residuals[size:] = 0.0
        for k in range(size):
            factors[k] = weights[first + k]
        if length:
            for k in range(size):
                logit = 0.0
                for j in range(length):
                    logit += right[k, j] * theta[j]
                residuals[k] = math.exp(-logit)
            for k in range(size):
                p = 1.0 / (1.0 + residuals[k])
                residuals[k] = factors[k] * (p - centres[first + k])
                factors[k] *= p * (1.0 - p)
            for k in range(0, _ROWS, 4):
                for j in range(width):
                    gradient[j] += (
                        residuals[k] * right[k, j]
                        + residuals[k + 1] * right[k + 1, j]
                        + residuals[k + 2] * right[k + 2, j]
                        + residuals[k + 3] * right[k + 3, j]
                    )
        if matrix.size:
            for k in range(size):
                for j in range(width):
                    left[k, j] = right[k, j] * factors[k]
        if matrix.size:
            for i in range(0, width, _TILE):
                for j in range(i, width, _TILE):
                    # numba gives the context.
                    _add_tile(left, right, size, i, j, matrix)  # type: ignore[call-arg]
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[i, j] = matrix[j, i]


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
