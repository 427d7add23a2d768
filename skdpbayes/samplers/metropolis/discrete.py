"""Discrete random numbers whose probabilities are known as well as doubles know numbers.

An event happens with exactly the probability that is asked for, a double, and a choice among ``n`` is even. A
Poisson number has

    P(S = k) proportional to w(k),   w(k + 1) = w(k) lambda / (k + 1),   w(m) = 1,   m = floor(lambda)

by rejection (von Neumann). With ``c = floor(0.6 sqrt(lambda) + 1.5)``, on either side of ``m``, ``w`` is at
most 1 on the next ``2 c`` numbers, and at most ``2^-j`` on the ``j``-th block of ``c`` numbers after these. A
side and a place among ``3 c`` are chosen, the last ``c`` of which stand for block ``j`` with probability
``2^-j``, and the number is taken with probability ``w(k)`` or ``2^j w(k)``. Choices are made by binary
digits, and probabilities are doubles, so that both are exact. Rounding shows in one way only: the ratio
``P(S = k + 1) / P(S = k)`` is ``lambda / (k + 1)`` up to a factor between ``1 - 2^-51`` and ``1 + 2^-51``,
at every ``k``. What that means to accept bits is said in
docs/theory/decisions_in_floating_point.rst.

*Why w is below.* It halves over the first ``2 c`` numbers: with ``s = 2 c - 1/2 > 1.2 sqrt(lambda) + 1/2``

    -log w(m + 2 c) >= sum_{i < 2 c} log(1 + i / lambda) >= s^2 / (2 lambda + 2 s / 3) - 1 / (8 lambda)

(the sum of a concave function is at least the integral from 1/2 to ``s``), which is more than ``log 2``,
as is ``-log w(m - 2 c) >= sum_{i < 2 c} i / lambda``. Over the ``c`` numbers after these the logarithm falls
by at least ``c log(1 + 2 c / lambda) >= (2 c)^2 / (2 lambda + 2 c) > 0.72``, and by no less over any later
ones. Below ``lambda = 1`` there is one side only, ``w(2) <= 1 / 2``, and ``c = 1`` will do.
"""

import math

from ..._compiled import compilable


@compilable
def happens(generator, probability):
    """Return True with exactly this probability: a uniform of 53 digits, and 53 more as long as they tie."""
    while probability > 0.0:
        drawn = generator.random()  # Proposition 19.
        if drawn + 2.0**-53 <= probability:
            return True
        if drawn >= probability:
            return False
        probability = (probability - drawn) * 2.0**53
    return False


@compilable
def choose(generator, n):
    """Return one of ``n < 2^31`` numbers (Lemire, 2019), and 21 binary digits that are left over."""
    while True:
        digits = int(generator.random() * 2.0**53)  # Proposition 21.
        drawn = (digits >> 21) * n
        left = drawn & 0xFFFFFFFF
        if left >= n or left >= 2**32 % n:
            return drawn >> 32, digits & 0x1FFFFF


@compilable
def poisson(generator, rate):
    """Return a Poisson number."""
    mode = math.floor(rate)
    length = math.floor(0.6 * math.sqrt(rate) + 1.5) if mode > 0 else 1
    places = 8
    while places < 6 * length:
        places *= 2
    while True:
        distance = math.floor(places * generator.random())  # Proposition 21.
        if distance >= 6 * length:
            continue
        downward = distance >= 3 * length
        distance -= 3 * length * downward
        weight = 1.0
        if distance >= 2 * length:
            weight = 2.0
            while generator.random() < 0.5:  # Proposition 21.
                distance += length
                weight *= 2.0
        if downward and mode > 0:
            distance = -distance - 1
            for i in range(0, distance, -1):
                weight *= (mode + i) / rate
        else:
            for i in range(distance):
                weight *= rate / (mode + i + 1.0)
        if happens(generator, weight):  # Proposition 21.
            return mode + distance
