"""Compiled loops over the rows of an array: products, lengths, and vectorised exponentials.

    M = sum_i f_i z_i z_i^T,      g = sum_i w_i (p_i - c_i) z_i,      |W^T z_i|^2,      z_i = (s_i x_i, b)

with logistic ``p_i = 1 / (1 + exp(-theta z_i))`` and, beside ``g``, ``f_i = w_i p_i (1 - p_i)``. A few rows
at a time stay in the innermost cache. Of ``M`` only squares of 8 x 8 entries on the diagonal and above it are
summed, each in eight registers of eight numbers: matrices of so few columns are too small for the routines
of BLAS. Of sparse rows only the products of two entries other than 0 are.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .._jit import compilable, compiled
from .rows import read_only

# Columns of a square of sums.
_TILE = 8
# Number of rows that are summed before a square is written.
_ROWS = 64
# Rows that are transformed at once: as many as BLAS takes for a small matrix.
_MOVED = 256
_VECTOR = ir.VectorType(ir.DoubleType(), _TILE)


def moment(rows, factors, scale=None, constant=0.0):
    """``M`` for factors of any sign.

    Parameters
    ----------
    rows : {ndarray, CSR array} of shape (n, n_features)
        ``x``, C-contiguous, in single or double precision; without duplicates and columns in order if sparse.
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
    scale, nothing = np.ones(rows.shape[0]) if scale is None else scale, np.empty(0)
    return logistic_sums(rows, scale, constant, nothing, nothing, factors, True)[1]


def logistic_sums(rows, scale, constant, theta, centres, weights, curvature, transform=None):
    """``g`` and, if wanted, ``M``.

    Parameters
    ----------
    rows, scale, constant
        As for `moment`.
    theta : ndarray of shape (length,)
        If it is empty, ``g`` is 0 and ``f`` is ``w``.
    centres, weights : ndarray of shape (n,)
        ``c`` and ``w``.
    curvature : bool
    transform : ndarray of shape (length, length) or None, default=None
        ``W`` of ``M``, that of ``W^T z``; None is 1.
    """
    length = rows.shape[1] + (constant > 0.0)
    is_dense, width = isinstance(rows, np.ndarray), -(-length // _TILE) * _TILE
    add, parts = (_add_sums, (rows,)) if is_dense else (_add_sparse, _parts(rows))
    gradient, matrix = np.zeros(width), np.zeros((width, width) if curvature else (0, 0))
    moves = np.zeros((0, 0) if transform is None or not curvature else (width, width))
    if moves.size:
        moves[:length, :length] = transform
    # Of one kind each, so that there is one function to compile for a kind of rows.
    arrays = map(read_only, (*parts, scale, theta, centres, weights, moves))
    add(*arrays, float(constant), length, gradient, matrix)
    return gradient[:length], matrix[:length, :length] if curvature else None


def squared_lengths(rows, scale, constant, transform):
    """``|W^T z_i|^2``, of shape (n,)."""
    squares = np.empty(scale.size)
    transform = np.ascontiguousarray(transform)
    is_dense = isinstance(rows, np.ndarray)
    write, parts = (_square_lengths, (rows,)) if is_dense else (_square_sparse, _parts(rows))
    write(*map(read_only, (*parts, scale, transform)), float(constant), squares)
    return squares


def _parts(rows):
    return rows.data, rows.indices, rows.indptr


@intrinsic
def _add_tile(typing_context, left_block, right, n_rows, i, j, sums):
    """Add ``left[:n_rows, i:i+8].T @ right[:n_rows, j:j+8]``; all arrays have as many columns."""

    def generate(context, builder, signature, values):
        n_rows, i, j = values[2:5]
        arrays = (
            context.make_array(signature.args[k])(context, builder, values[k]) for k in (0, 1, 5)
        )
        left_block, right, sums = arrays
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
        of_left = builder.load(eight_at(left_block.data, row, i), align=8)
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

    return types.void(left_block, right, n_rows, i, j, sums), generate


@compilable
def _write_scaled(rows, scale, constant, first, out):
    n_features = rows.shape[1]
    for k in range(min(out.shape[0], rows.shape[0] - first)):
        for j in range(n_features):
            out[k, j] = rows[first + k, j] * scale[first + k]
        if constant > 0.0:
            out[k, n_features] = constant


@compilable
def _add_squares(rows, factors, left_block, size, matrix):
    """Add ``sum_k f_k z_k z_k^T`` of some rows to a matrix, on its diagonal and above."""
    width = matrix.shape[0]
    for k in range(size):
        for j in range(width):
            left_block[k, j] = rows[k, j] * factors[k]
    for i in range(0, width, _TILE):
        for j in range(i, width, _TILE):
            # numba gives the context.
            _add_tile(left_block, rows, size, i, j, matrix)  # type: ignore[call-arg]


@compilable
def _mirror(matrix):
    for i in range(matrix.shape[0]):
        for j in range(i):
            matrix[i, j] = matrix[j, i]


@compiled(fastmath={"reassoc", "contract"})
def _add_sums(rows, scale, theta, centres, weights, transform, constant, length, gradient, matrix):
    n, width = rows.shape[0], gradient.size
    left_block, right = np.zeros((_ROWS, width)), np.zeros((_ROWS, width))
    moved = np.zeros((_ROWS, transform.shape[1]))
    factors, residuals = np.zeros(_ROWS), np.zeros(_ROWS)
    for first in range(0, n, _ROWS):
        size = min(_ROWS, n - first)
        _write_scaled(rows, scale, constant, first, right)
        residuals[size:] = 0.0
        for k in range(size):
            factors[k] = weights[first + k]
        if theta.size:
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
        if transform.size:
            np.dot(right, transform, moved)
            _add_squares(moved, factors, left_block, size, matrix)
        elif matrix.size:
            _add_squares(right, factors, left_block, size, matrix)
    _mirror(matrix)


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


@compiled(fastmath={"reassoc", "contract"})
def _add_sparse(
    values,
    columns,
    starts,
    scale,
    theta,
    centres,
    weights,
    transform,
    constant,
    length,
    gradient,
    matrix,
):
    entries, places = np.empty(length), np.empty(length, np.int64)
    moved, factors = np.zeros((_ROWS, transform.shape[1])), np.empty(_ROWS)
    left_block = np.zeros((_ROWS, transform.shape[1]))
    for i in range(scale.size):
        size = 0
        for k in range(starts[i], starts[i + 1]):
            entries[size], places[size] = values[k] * scale[i], columns[k]
            size += 1
        if constant > 0.0:
            entries[size], places[size] = constant, length - 1
            size += 1
        factor = weights[i]
        if theta.size:
            logit = 0.0
            for a in range(size):
                logit += entries[a] * theta[places[a]]
            p = 1.0 / (1.0 + math.exp(-logit))
            residual = factor * (p - centres[i])
            factor *= p * (1.0 - p)
            for a in range(size):
                gradient[places[a]] += residual * entries[a]
        if transform.size:
            row = i % _ROWS
            factors[row], out = factor, moved[row]
            out[:] = 0.0
            for a in range(size):
                entry, of_column = entries[a], transform[places[a]]
                for j in range(out.size):
                    out[j] += entry * of_column[j]
            if row == _ROWS - 1 or i == scale.size - 1:
                _add_squares(moved, factors, left_block, row + 1, matrix)
        elif matrix.size:
            for a in range(size):
                weighted = factor * entries[a]
                for b in range(a, size):
                    matrix[places[a], places[b]] += weighted * entries[b]
    _mirror(matrix)


@compiled
def _square_sparse(values, columns, starts, scale, transform, constant, squares):
    length = transform.shape[0]
    moved = np.empty(transform.shape[1])
    for i in range(scale.size):
        for j in range(moved.size):
            moved[j] = constant * transform[length - 1, j] if constant > 0.0 else 0.0
        for k in range(starts[i], starts[i + 1]):
            entry, row = values[k] * scale[i], transform[columns[k]]
            for j in range(moved.size):
                moved[j] += entry * row[j]
        total = 0.0
        for j in range(moved.size):
            total += moved[j] ** 2
        squares[i] = total


# exp(x) and differences of log(1 + exp(x)) in plain arithmetic, so that loops over rows are
# vectorised.
#
# ``x = k log 2 + r`` with ``|r| <= log(2)/2``; ``exp(r)`` by its Taylor polynomial of degree 13
# (relative error below 2.3e-16) and ``2^k`` by writing ``k`` into the exponent of a double.
#
# ``log((1 + s) / (1 + t)) = 2 artanh((s - t) / (2 + s + t))``, whose argument is at most 1/3 where s
# and t are in [0, 1]: 17 terms of the series leave less than 1e-17 of it.


_LOG2_E = 1.0 / math.log(2.0)
# Cody-Waite: the first part of log 2 has trailing zeros, so that k times it is exact.
_LOG2_HIGH = 6.93147180369123816490e-01
_LOG2_LOW = 1.90821492927058770002e-10
# Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits of the mantissa.
_ROUNDER = 1.5 * 2.0**52
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12, _C13 = (
    1.0 / math.factorial(i) for i in range(2, 14)
)


@intrinsic
def _bits_of(typing_context, value):
    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.int64))

    return types.int64(types.float64), generate


@intrinsic
def _from_bits(typing_context, value):
    def generate(context, builder, signature, args):
        return builder.bitcast(args[0], context.get_value_type(types.float64))

    return types.float64(types.int64), generate


# No "reassoc" here: it would cancel the rounding constant.
@compilable(fastmath={"contract"})
def exp(x):
    """exp(x) for x in [-708, 708]."""
    shifted = x * _LOG2_E + _ROUNDER
    k = shifted - _ROUNDER
    r = (x - k * _LOG2_HIGH) - k * _LOG2_LOW
    p = _C13
    p = p * r + _C12
    p = p * r + _C11
    p = p * r + _C10
    p = p * r + _C9
    p = p * r + _C8
    p = p * r + _C7
    p = p * r + _C6
    p = p * r + _C5
    p = p * r + _C4
    p = p * r + _C3
    p = p * r + _C2
    p = p * r + 1.0
    p = p * r + 1.0
    return p * _from_bits((_bits_of(shifted) + 1023) << 52)


@compilable(fastmath={"contract"})
def subtract_from_sigmoid(z, y):
    """Replace each z[i] by ``1 / (1 + exp(-z[i])) - y[i]``, a number in [-1, 1]."""
    for i in range(z.size):
        magnitude = abs(z[i])
        magnitude = magnitude if magnitude < 700.0 else 700.0
        tail = exp(-magnitude)
        z[i] = (1.0 if z[i] >= 0.0 else tail) / (1.0 + tail) - y[i]


@compilable(fastmath={"contract"})
def subtract_losses(z, w, y):
    """Replace each z[i] by ``f(z[i]) - f(w[i])``, ``f(x) = log(1 + exp(x)) - y[i] x``."""
    for i in range(z.size):
        here, there = abs(z[i]), abs(w[i])
        here = exp(-(here if here < 700.0 else 700.0))
        there = exp(-(there if there < 700.0 else 700.0))
        x = (here - there) / (2.0 + here + there)
        q = x * x
        # Written out: an inner loop would keep the outer one from being vectorised.
        series = 1.0 / 33.0
        series = series * q + 1.0 / 31.0
        series = series * q + 1.0 / 29.0
        series = series * q + 1.0 / 27.0
        series = series * q + 1.0 / 25.0
        series = series * q + 1.0 / 23.0
        series = series * q + 1.0 / 21.0
        series = series * q + 1.0 / 19.0
        series = series * q + 1.0 / 17.0
        series = series * q + 1.0 / 15.0
        series = series * q + 1.0 / 13.0
        series = series * q + 1.0 / 11.0
        series = series * q + 1.0 / 9.0
        series = series * q + 1.0 / 7.0
        series = series * q + 1.0 / 5.0
        series = series * q + 1.0 / 3.0
        series = series * q + 1.0
        above = (z[i] if z[i] > 0.0 else 0.0) - (w[i] if w[i] > 0.0 else 0.0)
        z[i] = above + 2.0 * x * series - y[i] * (z[i] - w[i])


@compilable(fastmath={"contract"})
def log_sum_exp(z):
    """``log(sum(exp(z)))``."""
    top = z[0]
    for i in range(1, z.size):
        top = z[i] if z[i] > top else top
    total = 0.0
    for i in range(z.size):
        below = z[i] - top
        total += exp(below if below > -700.0 else -700.0)
    return top + math.log(total)


@compilable(fastmath={"contract"})
def softmax(z):
    """Replace z by ``exp(z) / sum(exp(z))``."""
    top = z[0]
    for i in range(1, z.size):
        top = z[i] if z[i] > top else top
    total = 0.0
    for i in range(z.size):
        below = z[i] - top
        z[i] = exp(below if below > -700.0 else -700.0)
        total += z[i]
    for i in range(z.size):
        z[i] /= total
