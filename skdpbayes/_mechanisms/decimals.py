"""All decimals that doubles tell apart, on a line on which each has a length: its weight as a candidate.

    w(t) ~ D(e) sum_k g_k / 10^k,    t = m 10^e,  1 <= |m| < 10,  over k digits that suffice to write m

so that of each decade ``e`` the decimals of ``k`` digits together weigh ``D(e) g_k``, however many they are.
Lengths are integers, and so are the ends of all intervals. A decimal is found from a place on the line by
bisection, and none is ever listed. A double stands for the shortest decimal that is read as that double.
"""

import math
from decimal import Context, Decimal
from functools import lru_cache

import numpy as np

# The most that a double needs, and its decades.
DIGITS = 17
_DECADES = range(-324, 309)
_LARGEST = float(np.finfo(np.float64).max)
# Whatever the caller has set for decimals.
_CONTEXT = Context(prec=2 * DIGITS)
# Least mantissa of as many digits, and the first one of more.
_FIRST = 10 ** (DIGITS - 1)
_END = 10**DIGITS
# Weight of a decade over the square of its distance from 1, and of every decade besides: a fifth of all.
_NEAR_ONE = 2**20
_EVEN = 2**10
# Of decimals of 1, 2, ... digits.
_EXACT_SHARES = (10, 10, 10, 10, 4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1)
_SHORT_SHARES = (15, 15, 15, 15)
# In int64, no sum over a decade overflows: it is at most 60 * 9 * 10^16.


class Decimals:
    """The line of all decimals of up to some number of digits, in ascending order.

    Parameters
    ----------
    shares : tuple of int
        ``g_k`` of decimals of ``k`` digits, from 1 on.

    Attributes
    ----------
    total : int
        Length of the line.
    """

    def __init__(self, shares):
        self._n_digits = len(shares)
        self._levels = [(10 ** (DIGITS - k), share) for k, share in enumerate(shares, start=1)]
        self._decades = [_NEAR_ONE // (1 + abs(e)) ** 2 + _EVEN for e in _DECADES]
        whole = self._within(_END - 1)
        starts = np.cumsum([0, *(whole * weight for weight in self._decades)], dtype=object)
        self._starts = starts[:-1]
        mantissa, decade = _digits(_LARGEST)
        self._positive = self._ends(np.array([mantissa]), np.array([decade]))[1][0]
        self._zero = whole * self._decades[-_DECADES[0]]
        self.total = 2 * self._positive + self._zero

    def _within(self, mantissas):
        """Return the weight of a decade's decimals up to some, in units of the decade's."""
        return sum(
            unit * share * (mantissas // unit - _FIRST // unit + 1) for unit, share in self._levels
        )

    def _ends(self, mantissas, decades):
        """Return where the intervals of positive decimals begin and end, from the least one on."""
        at = decades - _DECADES[0]
        starts, weights = self._starts[at], np.array(self._decades, dtype=object)[at]
        return tuple(
            starts + weights * self._within(sizes).astype(object)
            for sizes in (mantissas - 1, mantissas)
        )

    def intervals(self, values):
        """Return where the intervals of the decimals nearest to some doubles begin and end.

        Parameters
        ----------
        values : ndarray of shape (n,), float64
            Ascending.

        Returns
        -------
        starts, ends : ndarray of shape (n,) of int objects
            Ascending. Those of doubles that are rounded to the same decimal are equal.
        """
        digits = np.array([_digits(value) for value in values.tolist()], dtype=np.int64)
        mantissas, decades = self._rounded(*digits.reshape(-1, 2).T)
        low, high = self._ends(mantissas, decades)
        sign, after = np.sign(values), self._positive + self._zero
        starts = np.where(
            sign > 0, after + low, np.where(sign < 0, self._positive - high, self._positive)
        )
        ends = np.where(sign > 0, after + high, np.where(sign < 0, self._positive - low, after))
        return starts, ends

    def _rounded(self, mantissas, decades):
        unit = 10 ** (DIGITS - self._n_digits)
        rounded = (mantissas + unit // 2) // unit * unit
        carried = rounded == _END
        rounded, decades = np.where(carried, _FIRST, rounded), decades + carried
        most = _digits(_LARGEST)[0] // unit * unit
        is_last = decades >= _DECADES[-1]
        # Nothing is rounded beyond the largest double.
        rounded = np.where(
            is_last, np.where(decades > _DECADES[-1], most, np.minimum(rounded, most)), rounded
        )
        return rounded, np.minimum(decades, _DECADES[-1])

    def value_at(self, place):
        """Return the double that is nearest to the decimal whose interval holds a place, from 0 on."""
        if place < self._positive:
            return -self._positive_at(self._positive - 1 - place)
        place -= self._positive
        return 0.0 if place < self._zero else self._positive_at(place - self._zero)

    def _positive_at(self, place):
        at = int(np.searchsorted(self._starts, place, side="right")) - 1
        rest = (place - int(self._starts[at])) // self._decades[at]
        low, high = _FIRST, _END - 1
        while low < high:
            middle = (low + high) // 2
            if self._within(middle) > rest:
                high = middle
            else:
                low = middle + 1
        return float(f"{low}e{_DECADES[at] - DIGITS + 1}")

    def spacing(self, value):
        """Return the distance between neighbouring decimals; 0 if these are all that doubles tell apart."""
        if value == 0 or self._n_digits == DIGITS:
            return 0.0
        return float(f"1e{math.floor(math.log10(abs(value))) - self._n_digits + 1}")


class Grid:
    """Evenly spaced numbers between two public bounds, each of length 1.

    Parameters
    ----------
    low, high : float
    size : int
    """

    def __init__(self, low, high, size):
        # The difference of two doubles may be none.
        halves = np.linspace(low / 2.0, high / 2.0, size)
        self._values = np.clip(2.0 * halves, low, high)
        self._values[[0, -1]] = low, high
        self.total = size

    def intervals(self, values):
        """Return where the intervals of the numbers nearest to some doubles begin and end."""
        halves = self._values / 2.0
        places = np.searchsorted(halves[:-1] / 2.0 + halves[1:] / 2.0, values / 2.0)
        return places.astype(object), (places + 1).astype(object)

    def value_at(self, place):
        """Return the number whose interval holds a place, from 0 on."""
        return float(self._values[place])

    def spacing(self, value):
        """Return the distance between neighbours."""
        return 2.0 * float(self._values[1] / 2.0 - self._values[0] / 2.0)


@lru_cache(maxsize=1)
def exact_decimals():
    """Return the line of all decimals of up to 17 digits."""
    return Decimals(_EXACT_SHARES)


@lru_cache(maxsize=1)
def short_decimals():
    """Return the line of all decimals of up to four digits, to which values are rounded."""
    return Decimals(_SHORT_SHARES)


def _digits(value):
    """Return the 17 digits and the decade of the shortest decimal that is read as a double."""
    if value == 0:
        return _FIRST, 0
    decimal = Decimal(repr(abs(value)))
    decade = decimal.adjusted()
    return int(decimal.scaleb(DIGITS - 1 - decade, _CONTEXT)), decade
