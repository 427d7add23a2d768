"""Discrete Laplace noise and random integers, sampled exactly, without floating-point arithmetic.

    P(z) = (1 - exp(-1/b)) / (1 + exp(-1/b)) exp(-|z| / b),    z an integer, b rational

by Canonne, Kamath and Steinke ("The discrete Gaussian for differential privacy", NeurIPS 2020, Algorithm 2),
from uniform integers only. A vector of integers that changes by at most ``D`` in L1 norm between neighbouring
tables is released with ``b = D / epsilon``, which is epsilon-private with delta 0.
"""

import math
from fractions import Fraction

import numpy as np

from ..privacy.conversions import decimal_exact
from .audit_hook import ReleaseEvent, audited_release

# Limit of the numerator of a scale, so that uniform integers fit into 64 bits.
_LARGEST_NUMERATOR = 2**51
# Relative precision of a scale, in bits; it is rounded up.
_PRECISION_BITS = 30


def laplace_scale(sensitivity, epsilon):
    """The scale of the noise: a fraction of at least ``sensitivity / epsilon``, or 0 without privacy.

    Parameters
    ----------
    sensitivity : int
        Largest change of the integers in L1 norm.
    epsilon : float
        Positive; ``inf`` adds no noise.

    Returns
    -------
    scale : Fraction

    Raises
    ------
    ValueError
        If epsilon is too small.
    """
    if math.isinf(epsilon) or sensitivity == 0:
        return Fraction(0)
    exact = Fraction(sensitivity) / min(Fraction(epsilon), decimal_exact(epsilon))
    bits = max(0, _PRECISION_BITS - math.floor(math.log2(exact)))
    scale = Fraction(math.ceil(exact * 2**bits), 2**bits)
    if scale.numerator >= _LARGEST_NUMERATOR:
        raise ValueError(
            f"epsilon={epsilon:g} is too small for a score: its noise would be larger than any table. Raise "
            "epsilon; a useful score needs 0.01 or more."
        )
    return scale


def with_noise(integers, scale, generator, epsilon=None, is_joint=False):
    """Integers with discrete Laplace noise of a scale, which may be 0.

    ``epsilon`` is what is charged for it, if that is known here, and ``is_joint`` tells whether for what was
    released before, too; see `ReleaseEvent`. Neither changes a number.
    """
    integers = np.asarray(integers, dtype=np.int64)
    if scale == 0:
        return integers

    def release():
        # Proposition 40.
        return integers + discrete_laplace(scale, integers.size, generator).reshape(integers.shape)

    event = ReleaseEvent("laplace", integers, float(scale), epsilon, is_joint)
    return audited_release(event, release, generator)


def discrete_laplace(scale, size, generator):
    """Draw integers of discrete Laplace noise.

    Parameters
    ----------
    scale : Fraction
    size : int
    generator : numpy.random.Generator

    Returns
    -------
    noise : ndarray of int, shape (size,)
    """
    return np.array(
        [_draw(scale.numerator, scale.denominator, generator) for _ in range(size)], int
    )


def _draw(numerator, denominator, generator):
    while True:
        remainder = int(generator.integers(numerator))  # Proposition 40.
        if not _bernoulli_exp(remainder, numerator, generator):
            continue
        integer = 0
        while _bernoulli_exp(1, 1, generator):
            integer += 1
        size = (remainder + numerator * integer) // denominator
        negative = bool(generator.integers(2))  # Proposition 40.
        if size or not negative:
            return -size if negative else size


def _bernoulli_exp(numerator, denominator, generator):
    """True with probability ``exp(-numerator / denominator)``, which is between 0 and 1, else False."""
    times = 1
    while generator.integers(denominator * times) < numerator:  # Proposition 40.
        times += 1
    return times % 2 == 1


# Integers of any size, drawn exactly from random bytes: evenly below a number, or by integer weights.


def integer_below(end, generator):
    """Draw an integer uniformly from 0 to ``end - 1``."""
    bits = end.bit_length()
    while True:
        # Propositions 34 and 50.
        drawn = int.from_bytes(generator.bytes((bits + 7) // 8), "little") >> (-bits % 8)
        if drawn < end:
            return drawn


def choose_weighted(weights, generator):
    """Draw one of several with probabilities proportional to their weights.

    Parameters
    ----------
    weights : sequence of int
        At least 0, and not all 0.
    generator : numpy.random.Generator

    Returns
    -------
    number : int
        Position of the weight that was drawn.
    left : int
        Uniform from 0 to that weight less 1, for a choice within.
    """
    remainder = integer_below(sum(weights), generator)  # Propositions 34 and 50.
    for number, weight in enumerate(weights):
        if remainder < weight:
            return number, remainder
        remainder -= weight
    raise AssertionError("a number below a sum is below one of its parts.")
