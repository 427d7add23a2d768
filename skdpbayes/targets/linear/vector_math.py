"""exp(x) and differences of log(1 + exp(x)) in plain arithmetic, so that loops over rows are vectorised.

``x = k log 2 + r`` with ``|r| <= log(2)/2``; ``exp(r)`` by its Taylor polynomial of degree 13
(relative error below 2.3e-16) and ``2^k`` by writing ``k`` into the exponent of a double.

``log((1 + s) / (1 + t)) = 2 artanh((s - t) / (2 + s + t))``, whose argument is at most 1/3 where s and t are
in [0, 1]: 17 terms of the series leave less than 1e-17 of it.
"""

import math

from numba import types
from numba.extending import intrinsic

from ..._compiled import compilable

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
    """Return ``log(sum(exp(z)))``."""
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
