"""Products and exponentials in single precision, the same to the last bit wherever an entry stands.

    (a b)_ij = s_m,   s_0 = 0,   s_k = fl(s_{k-1} + fl(a_ik b_kj))

Sums run over ``k`` in order, and nothing here may be reassociated or contracted: an entry is one function of
its row and its column, whatever stands beside them, on every machine. In a library's product it also depends
on the place of the row, by which the library chooses among its kernels.

``exp(x) = 2^k exp(r)``, ``x = k log 2 + r`` with ``|r| <= log(2)/2``; ``exp(r)`` by its Taylor polynomial of
degree 7, relative error below 6e-9.
"""

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .._jit import compilable

# Rows whose sums are in registers at once: with `_WIDTH`, half of those of AVX2, or of NEON.
_HEIGHT = 4
# Columns whose sums are in registers at once.
_WIDTH = 16

# Whether `multiply` is given a factor's transpose. For every constant of Python's it would be compiled anew.
PLAIN = np.bool_(False)
TRANSPOSED = np.bool_(True)

_LOG2_E = np.float32(1.0 / math.log(2.0))
# Cody-Waite: the first part of log 2 has trailing zeros, so that k times it is exact.
_LOG2_HIGH = np.float32(0.693359375)
_LOG2_LOW = np.float32(math.log(2.0) - 0.693359375)
# Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits of the mantissa.
_ROUNDER = np.float32(1.5 * 2.0**23)
# 2^k is a normal number from here on.
_LEAST_EXPONENT = np.float32(-87.0)
_ONE = np.float32(1.0)
_C2, _C3, _C4, _C5, _C6, _C7 = (np.float32(1.0 / math.factorial(i)) for i in range(2, 8))


@compilable
def multiply(a, a_transposed, b, b_transposed, out):
    """Write ``a b`` to the first columns of ``out``, of ``a`` and ``b`` or of their transposes.

    Parameters
    ----------
    a : ndarray of shape (n_rows, depth), float32
    a_transposed : bool
        Whether ``a`` is of shape ``(depth, n_rows)`` instead.
    b : ndarray of shape (depth, n_columns), float32
    b_transposed : bool
        Whether ``b`` is of shape ``(n_columns, depth)`` instead.
    out : ndarray of shape (n_rows, n_columns or more), float32
    """
    down, along = a.strides[::-1] if a_transposed else a.strides
    depth, n_columns = b.shape[::-1] if b_transposed else b.shape
    # A cache line for every k, whichever way b lies.
    panel = np.zeros((depth, _WIDTH), np.float32)
    edge = np.empty((out.shape[0], _WIDTH), np.float32)
    for first in range(0, n_columns, _WIDTH):
        width = min(_WIDTH, n_columns - first)
        for k in range(depth):
            for j in range(width):
                panel[k, j] = b[first + j, k] if b_transposed else b[k, first + j]
        tiled, column = (out, first) if width == _WIDTH else (edge, 0)
        for i in range(0, out.shape[0], _HEIGHT):
            _multiply_tile(a, down, along, panel, tiled, i, column)
        if width < _WIDTH:
            for i in range(out.shape[0]):
                for j in range(width):
                    out[i, first + j] = edge[i, j]


@intrinsic
def _multiply_tile(typing_context, a, down, along, panel, out, i, j):
    """Write ``_HEIGHT`` rows from ``i`` and ``_WIDTH`` columns from ``j`` of a product to ``out``.

    ``a_ik`` is ``i down + k along`` bytes from the first entry of ``a``. In vectors of LLVM's, for sums of
    loops would not stay in registers. Where fewer rows are left, the last one is computed several times.
    """

    def generate(context, builder, signature, args):
        a, panel, out = (
            context.make_array(signature.args[k])(context, builder, args[k]) for k in (0, 3, 4)
        )
        _, down, along, _, _, i, j = args
        single, vector = ir.FloatType(), ir.VectorType(ir.FloatType(), _WIDTH)
        undefined = ir.Constant(vector, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), _WIDTH), None)

        def lanes(position, array, row, column):
            kind = signature.args[position]
            entry = cgutils.get_item_pointer(context, builder, kind, array, (row, column))
            return builder.bitcast(entry, vector.as_pointer())

        def spread(start, k):
            entry = cgutils.pointer_add(builder, start, builder.mul(k, along), single.as_pointer())
            only = builder.insert_element(undefined, builder.load(entry), ir.IntType(32)(0))
            return builder.shuffle_vector(only, undefined, everywhere)

        last = builder.sub(cgutils.unpack_tuple(builder, out.shape)[0], i.type(1))
        rows = [builder.add(i, i.type(r)) for r in range(_HEIGHT)]
        rows = [builder.select(builder.icmp_signed("<", row, last), row, last) for row in rows]
        starts = [cgutils.pointer_add(builder, a.data, builder.mul(row, down)) for row in rows]
        zeros = ir.Constant(vector, None)
        sums = [cgutils.alloca_once_value(builder, zeros) for _ in rows]
        with cgutils.for_range(builder, cgutils.unpack_tuple(builder, panel.shape)[0]) as loop:
            factors = builder.load(lanes(3, panel, loop.index, i.type(0)), align=4)
            for start, total in zip(starts, sums, strict=True):
                product = builder.fmul(spread(start, loop.index), factors)
                builder.store(builder.fadd(builder.load(total), product), total)
        for row, total in zip(rows, sums, strict=True):
            builder.store(builder.load(total), lanes(4, out, row, j), align=4)
        return context.get_dummy_value()

    return types.void(a, down, along, panel, out, i, j), generate


@intrinsic
def _power_of_two(typing_context, shifted):
    """``2^k`` from ``k + _ROUNDER``, by writing ``k`` into the exponent."""

    def generate(context, builder, signature, args):
        word = ir.IntType(32)
        biased = builder.add(builder.bitcast(args[0], word), word(127))
        return builder.bitcast(builder.shl(biased, word(23)), args[0].type)

    return types.float32(types.float32), generate


@compilable
def exp_float32(x):
    """exp(x) for ``x <= 0``, where less than -87 counts as -87; NaN for NaN."""
    x = _LEAST_EXPONENT if x < _LEAST_EXPONENT else x
    shifted = x * _LOG2_E + _ROUNDER
    k = shifted - _ROUNDER
    r = (x - k * _LOG2_HIGH) - k * _LOG2_LOW
    return _taylor(r) * _power_of_two(shifted)


@compilable
def _taylor(r):
    p = _C7
    p = p * r + _C6
    p = p * r + _C5
    p = p * r + _C4
    p = p * r + _C3
    p = p * r + _C2
    p = p * r + _ONE
    return p * r + _ONE


def exponential(x):
    """The same of an array, to the last bit."""
    x = np.maximum(x, _LEAST_EXPONENT)
    k = (x * _LOG2_E + _ROUNDER) - _ROUNDER
    r = (x - k * _LOG2_HIGH) - k * _LOG2_LOW
    return np.ldexp(_taylor(r), k.astype(np.int32))
