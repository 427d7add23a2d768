"""Sums of epsilons as they are written: a float stands for the shortest decimal that is read as it.

    0.1 + 0.1 + 0.1 = 0.3

In binary, three doubles nearest to 0.1 are more than the one nearest to 0.3. Sums are formed exactly, and
rounded up where no double is written like them.
"""

import math
from fractions import Fraction


def as_written(number):
    """Return a finite float as the decimal that it is written as.

    Examples
    --------
    >>> from skdpbayes.privacy.written import as_written
    >>> as_written(0.1)
    Fraction(1, 10)
    """
    return Fraction(repr(float(number)))


def least_above(total):
    """Return the least float that is written as a fraction or more."""
    try:
        number = float(total)
    except OverflowError:
        return math.inf
    return number if as_written(number) >= total else math.nextafter(number, math.inf)


def most_below(total):
    """Return the largest float that is written as a fraction, at least 0, or less."""
    number = float(total)
    return number if as_written(number) <= total else math.nextafter(number, 0.0)
