"""The exponential mechanism: quantiles among all decimals, and zero crossings of a sum over a grid.

    P(t) = w(t) exp(-a d(t)) / Z,    d(t) = max(c (#{x < t} - q m), (2 - c) (q m - #{x <= t}), 0)

(Smith, 2011; base measure ``w``). ``d(t)`` is the distance in ranks of ``t`` from a ``q``-quantile of the
``m`` values that are not missing. Ranks on the far side of a low or high quantile, where there may be no
values at all, count three times as much as those on the near side. Between neighbouring tables the difference
of two distances changes by at most 2, so that a draw is a choice with log-odds range ``2 a``, as in
`skdpbayes.privacy.BoundedRangeDecisions` (Dong, Durfee and Rogers, 2020).

Candidates need no bounds: they are 0 and all decimals of up to 17 digits that doubles tell apart, short ones
and those near 1 with more weight (`skdpbayes._mechanisms.exponential`). A long decimal that many values are
takes many rows to find among these. So decimals of up to four digits are candidates once more, for which
values are rounded to four digits. These do not see what values differ by beyond four digits, and count as
farther away by a public number of ranks, which is larger the more rows there are.

``d`` is constant between neighbouring values. A draw chooses a block of candidates by the largest weight in
it, then one in it, and keeps it with the probability that its weight has of that largest one, or begins anew.
Weights are integers times powers of ``e``, as doubles, and the draw from them is exact: rounding moves
log-odds by less than ``_SLACK``. Values so far from a quantile that all candidates there weigh the same are
not read.
"""

import bisect
import itertools
import math
from collections import Counter
from decimal import Context, Decimal
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from ..privacy.conversions import smallest_within
from ..privacy.cost import PrivacyCost
from ..privacy.losses import BoundedRangeDecisions
from ..random import child_generator
from .audit_hook import ReleaseEvent, audited_release
from .laplace import choose_weighted, integer_below

# A private choice of the point of a public grid at which a sum over records comes out even.
#
#     S_j = sum_i v_ij,  |v_ij| <= 1,     P(j) ~ w_j exp(-eta |S_j| / (2 D)),
#
# ``D = 2`` under ``replace_one`` and 1 under ``add_or_remove_one``: the exponential mechanism of
# McSherry and Talwar (2007), with public weights ``w``. A record moves every ``|S_j|`` by at most
# ``D``, and so no two log-probabilities by more than ``eta`` relative to each other: what is chosen
# costs what a bit of that range does (`skdpbayes.privacy.losses`).
#
# Sums are exact, in units of ``UNIT``. Weights are doubles, and of these the choice is exact: an even
# integer below their sum, which all are integers of one unit.


# Of a record's share in a sum.
SUM_UNIT = 2.0**-24
# Log likelihood ratio below which a candidate counts as no less likely: a record moves that bound no farther
# than the rest.
_LEAST_LIKELY = -60.0
# Bits of a weight, as an integer.
_WEIGHT_BITS = 140


def choose_zero_crossing(sums, log_weights, log_odds_range, sensitivity_factor, generator):
    """The number of a point at which a sum is nearly zero.

    Parameters
    ----------
    sums : ndarray of shape (n_points,), int64
        In units of `UNIT`; a record moves each by at most ``1 / UNIT``, up or down.
    log_weights : ndarray of shape (n_points,)
        Public.
    log_odds_range : float
        ``eta``; ``inf`` takes the least sum.
    sensitivity_factor : float
        ``D``: how many records' shares neighbouring tables differ by.
    generator : numpy.random.Generator

    Returns
    -------
    number : int
    """
    uneven = np.abs(sums)
    if math.isinf(log_odds_range):
        return int(np.argmin(uneven))
    # Less the least, exactly: of what is left, none that matters is large, and rounding little.
    uneven = (uneven - uneven.min()) * SUM_UNIT
    logs = log_weights - log_odds_range / (2.0 * sensitivity_factor) * uneven
    logs = np.maximum(logs - logs.max(), _LEAST_LIKELY)
    weights = [int(math.ldexp(math.exp(log), _WEIGHT_BITS)) for log in logs]

    def release():
        return choose_weighted(weights, generator)[0]  # Proposition 34.

    event = ReleaseEvent("choice", np.log(np.array(weights, dtype=float)), None, log_odds_range)
    return audited_release(event, release, generator)


# All decimals that doubles tell apart, on a line on which each has a length: its weight as a
# candidate.
#
#     w(t) ~ D(e) sum_k g_k / 10^k,    t = m 10^e,  1 <= |m| < 10,  over k digits that suffice to write m
#
# so that of each decade ``e`` the decimals of ``k`` digits together weigh ``D(e) g_k``, however many
# they are. Lengths are integers, and so are the ends of all intervals. A decimal is found from a
# place on the line by bisection, and none is ever listed. A double stands for the shortest decimal
# that is read as that double.


# The most that a double needs, and its decades.
DIGITS = 17
_DECADES = range(-324, 309)
_LARGEST_DOUBLE = float(np.finfo(np.float64).max)
# Whatever the caller has set for decimals.
_CONTEXT = Context(prec=2 * DIGITS)
# Least mantissa of as many digits.
_LEAST_MANTISSA = 10 ** (DIGITS - 1)
# First mantissa of more digits.
_END = 10**DIGITS
# Weight of a decade, over the square of its distance from 1.
_NEAR_ONE = 2**20
# Weight of every decade besides: a fifth of all.
_EVEN = 2**10
# Shares of decimals of 1, 2, ... digits among all that a double needs.
_EXACT_SHARES = (10, 10, 10, 10, 4, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1)
# Shares of decimals of 1, 2, ... digits where at most four are wanted.
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
        all_decimals = self._within(_END - 1)
        starts = np.cumsum([0, *(all_decimals * weight for weight in self._decades)], dtype=object)
        self._starts = starts[:-1]
        mantissa, decade = _digits(_LARGEST_DOUBLE)
        self._positive = self._ends(np.array([mantissa]), np.array([decade]))[1][0]
        self._zero = all_decimals * self._decades[-_DECADES[0]]
        self.total = 2 * self._positive + self._zero

    def _within(self, mantissas):
        """The weight of a decade's decimals up to some, in units of the decade's."""
        return sum(
            unit * share * (mantissas // unit - _LEAST_MANTISSA // unit + 1)
            for unit, share in self._levels
        )

    def _ends(self, mantissas, decades):
        """Starts and ends of the intervals of positive decimals, from the least one on."""
        rows = decades - _DECADES[0]
        starts, weights = self._starts[rows], np.array(self._decades, dtype=object)[rows]
        return tuple(
            starts + weights * self._within(sizes).astype(object)
            for sizes in (mantissas - 1, mantissas)
        )

    def intervals(self, values):
        """Starts and ends of the intervals of the decimals nearest to some doubles.

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
        rounded, decades = np.where(carried, _LEAST_MANTISSA, rounded), decades + carried
        most = _digits(_LARGEST_DOUBLE)[0] // unit * unit
        is_last = decades >= _DECADES[-1]
        # Nothing is rounded beyond the largest double.
        rounded = np.where(
            is_last, np.where(decades > _DECADES[-1], most, np.minimum(rounded, most)), rounded
        )
        return rounded, np.minimum(decades, _DECADES[-1])

    def value_at(self, place):
        """The double that is nearest to the decimal whose interval holds a place, from 0 on."""
        if place < self._positive:
            return -self._positive_at(self._positive - 1 - place)
        place -= self._positive
        return 0.0 if place < self._zero else self._positive_at(place - self._zero)

    def _positive_at(self, place):
        index = int(np.searchsorted(self._starts, place, side="right")) - 1
        rest = (place - int(self._starts[index])) // self._decades[index]
        low, high = _LEAST_MANTISSA, _END - 1
        while low < high:
            middle = (low + high) // 2
            if self._within(middle) > rest:
                high = middle
            else:
                low = middle + 1
        return float(f"{low}e{_DECADES[index] - DIGITS + 1}")

    def spacing(self, value):
        """The distance between neighbouring decimals; 0 if these are all that doubles tell apart."""
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
        """Starts and ends of the intervals of the numbers nearest to some doubles."""
        halves = self._values / 2.0
        places = np.searchsorted(halves[:-1] / 2.0 + halves[1:] / 2.0, values / 2.0)
        return places.astype(object), (places + 1).astype(object)

    def value_at(self, place):
        """The number whose interval holds a place, from 0 on."""
        return float(self._values[place])

    def spacing(self, value):
        """The distance between neighbours."""
        return 2.0 * float(self._values[1] / 2.0 - self._values[0] / 2.0)


@lru_cache(maxsize=1)
def exact_decimals():
    """The line of all decimals of up to 17 digits."""
    return Decimals(_EXACT_SHARES)


@lru_cache(maxsize=1)
def short_decimals():
    """The line of all decimals of up to four digits, to which values are rounded."""
    return Decimals(_SHORT_SHARES)


def _digits(value):
    """The 17 digits and the decade of the shortest decimal that is read as a double."""
    if value == 0:
        return _LEAST_MANTISSA, 0
    decimal = Decimal(repr(abs(value)))
    decade = decimal.adjusted()
    return int(decimal.scaleb(DIGITS - 1 - decade, _CONTEXT)), decade


# Unit of quantiles, so that ranks are exact in doubles.
_GRAIN = 2.0**-12
# Bound on the error of computed log-odds, which is taken off their range.
_SLACK = 2.0**-40
# Distances beyond ``_LARGEST_EXPONENT / a`` count as equal to it, so that weights stay above 2^-116.
_LARGEST_EXPONENT = 80.0
# Factor of weights, as integers.
_SCALE = 2.0**170
# Weight of ranks on the far side of a quantile; those on the near side have weight 2 minus this.
FAR_SIDE = 1.5
# Number of candidates between public bounds.
_LINEAR = 1001
# The log-odds range without privacy.
_RANGE_WITHOUT_PRIVACY = 128.0
# Log-odds of a quantile against candidates beyond all values that find it among numbers of four digits.
_ENOUGH_LOG_ODDS = 18.0
# Share of what there is beyond this that candidates lose for which values are rounded.
_SHARE_OF_REST = 0.75
# So many different values are a block each.
_MOST_SINGLE_VALUES = 128
# Bits of a digit of the keys of doubles.
_BITS = 16
# Number of digits of a key.
_PLACES = 4
_SIGN = np.uint64(1 << 63)


class DrawnQuantile(NamedTuple):
    """A quantile that was drawn.

    Attributes
    ----------
    value : float
    spacing : float
        Distance to the next candidates of its kind: of numbers of four digits if values were rounded to
        these, of evenly spaced ones between bounds, or 0.
    """

    value: float
    spacing: float


class StepWeights:
    """Weights of a choice between candidates that lie on a line, of which neighbours weigh the same.

    Parameters
    ----------
    starts : list of int
        Where each run of candidates begins.
    weights : list of int
        Of each run.
    lengths : list of int
        Of each run; a run's weight over its length is that of a candidate over its own.
    """

    def __init__(self, starts, weights, lengths):
        self.starts, self.weights, self.lengths = starts, weights, lengths

    def probabilities(self):
        """The probability of each run."""
        total = sum(self.weights)
        return np.array([weight / total for weight in self.weights])

    def run_of(self, place):
        """The index of the run that holds a place."""
        return bisect.bisect_right(self.starts, place) - 1

    def log_weight_at(self, place):
        """The logarithm of the weight of candidates at a place, over their lengths."""
        run = self.run_of(place)
        return math.log(self.weights[run] // self.lengths[run])

    def __sub__(self, other):
        """Differences of logarithms of weights, of all candidates."""
        places = sorted({*self.starts, *other.starts})
        return np.array(
            [
                self.log_weight_at(place_of_weight) - other.log_weight_at(place_of_weight)
                for place_of_weight in places
            ]
        )


@lru_cache(maxsize=256)
def log_odds_range(budget, count):
    """The largest log-odds range with which ``count`` draws stay within a budget.

    Parameters
    ----------
    budget : Budget
    count : int

    Returns
    -------
    log_odds_range : float

    Raises
    ------
    ValueError
        If the budget is too small.
    """
    if not budget.is_private:
        return _RANGE_WITHOUT_PRIVACY
    if budget.delta == 0:
        # A product that is rounded up would exceed the budget.
        return budget.epsilon / count * (1.0 - 1e-12)
    typical = 2.0 * budget.mu / math.sqrt(count)

    def excess(noise):
        if noise == 0:
            return math.inf
        cost = draws_cost(typical / noise, count, budget.neighboring_relation)
        return cost.epsilon(budget.delta) / budget.epsilon - 1.0

    return typical / smallest_within(excess, tolerance=1e-3)


def draws_cost(log_odds_range, count, relation):
    """The cost of drawing quantiles."""
    return PrivacyCost(relation, decisions=(BoundedRangeDecisions(log_odds_range, count),))


class Ranked(NamedTuple):
    """Values of a column around a quantile. **They are not private.**

    Attributes
    ----------
    values : ndarray of shape (n,), float64
        Different ones, ascending.
    counts : ndarray of shape (n,), int
        How often each occurs.
    n_below : int
        Number of values below these.
    total : int
        Number of all values.
    """

    values: np.ndarray
    counts: np.ndarray
    n_below: int
    total: int


def values_of_column(rows, column):
    """A column of some `Rows`."""
    return rows.X[:, column]


def _keys(rows, values_of):
    """Integers in the order of the values that are not missing."""
    values = np.asarray(values_of(rows), dtype=np.float64)
    most = np.finfo(np.float64).max
    values = np.clip(values[~np.isnan(values)], -most, most) + 0.0  # There is one zero.
    bits = values.view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _values_of_keys(keys):
    """Doubles, of which `_keys` returns these integers."""
    keys = np.asarray(keys, dtype=np.uint64)
    return np.where(keys & _SIGN, keys ^ _SIGN, ~keys).view(np.float64)


def count_digits(rows, values_of, place, heads):
    """Number of keys that begin with each of some digits go on with each digit.

    Returns
    -------
    counts : ndarray of shape (len(heads), 2^16)
    """
    keys = _keys(rows, values_of)
    shift = np.uint64(64 - _BITS * (place + 1))
    digits = ((keys >> shift) & np.uint64((1 << _BITS) - 1)).astype(np.intp)
    if place == 0:
        return np.bincount(digits, minlength=1 << _BITS)[None, :]
    begun = keys >> (shift + np.uint64(_BITS))
    blocks = (digits[begun == np.uint64(head)] for head in heads)
    return np.stack([np.bincount(block, minlength=1 << _BITS) for block in blocks])


def count_keys(rows, values_of, ranges):
    """Counts of the keys that are within some ranges, as a ``Counter``."""
    keys = _keys(rows, values_of)
    kept = np.zeros(keys.size, dtype=bool)
    for low, high in ranges:
        kept |= (keys >= np.uint64(low)) & (keys <= np.uint64(high))
    keys, counts = np.unique(keys[kept], return_counts=True)
    return Counter(dict(zip(keys.tolist(), counts.tolist(), strict=True)))


def rank_values(table, values_of, reaches):
    """The `Ranked` values that are within some ranks of each of several quantiles.

    The keys of the first and the last one are found digit by digit, in as many passes for any values.

    Parameters
    ----------
    table : Table
    values_of : callable
        Maps `Rows` to an array of shape (n_rows,).
    reaches : sequence of (float, float, float)
        A quantile, and how many ranks below and above it matter.

    Returns
    -------
    ranked : list of Ranked
    """
    counts = table.count(count_digits, values_of, 0, (0,))
    total = int(counts.sum())
    if total == 0:
        return [Ranked(np.empty(0), np.empty(0, dtype=int), 0, 0) for _ in reaches]
    ranks = []
    for quantile, below, above in reaches:
        rank, last = _rank(quantile, total), total - 1
        ranks.append(int(min(max(math.floor(rank - min(below, total)) - 2, 0), last)))
        ranks.append(int(max(min(math.ceil(rank + min(above, total)) + 2, last), 0)))
    heads, lefts = [0] * len(ranks), list(ranks)
    for place in range(_PLACES):
        known = tuple(dict.fromkeys(heads))
        if place:
            counts = table.count(count_digits, values_of, place, known)
        up_to = np.cumsum(counts, axis=1)
        for i, (head, left) in enumerate(zip(heads, lefts, strict=True)):
            values_up_to = up_to[known.index(head)]
            digit = int(np.searchsorted(values_up_to, left, side="right"))
            lefts[i] = left - int(values_up_to[digit - 1]) if digit else left
            heads[i] = (head << _BITS) | digit
    ranges = list(zip(heads[::2], heads[1::2], strict=True))
    found = sorted(table.count(count_keys, values_of, ranges).items())
    keys = [key for key, _ in found]
    ranked = []
    for i, (low, high) in enumerate(ranges):
        found_in_range = found[bisect.bisect_left(keys, low) : bisect.bisect_right(keys, high)]
        values = _values_of_keys([key for key, _ in found_in_range])
        n_below = ranks[2 * i] - lefts[2 * i]
        ranked.append(
            Ranked(values, np.array([count for _, count in found_in_range]), n_below, total)
        )
    return ranked


def _rank(quantile, total):
    return round(quantile / _GRAIN) * _GRAIN * total


def _sides(quantile):
    """Weights of a rank below and of a rank above a quantile."""
    above = 1.0 if quantile == 0.5 else 2.0 - FAR_SIDE if quantile < 0.5 else FAR_SIDE
    return 2.0 - above, above


def distances(counts, quantile, n_below=0, total=None):
    """Distances from a quantile, in ranks, of candidates between and at values.

    Parameters
    ----------
    counts : ndarray of shape (n,)
        How often each of some different values occurs, in ascending order.
    quantile : float
        In (0, 1), rounded to a multiple of 2^-12.
    n_below : int, default=0
        Number of values below these.
    total : int, default=None
        Number of all values; None is the sum.

    Returns
    -------
    distances : ndarray of shape (2 n + 1,)
        ``d`` below the first value, at it, between it and the second, and so on.
    """
    up_to = n_below + np.concatenate([[0], np.cumsum(counts)])
    # As many are below a value as below the gap before it, and up to it as below the gap behind.
    lower = np.repeat(up_to, 2)[:-1]
    upper = np.concatenate([up_to[:1], np.repeat(up_to[1:], 2)])
    return _distance(lower, upper, quantile, int(up_to[-1]) if total is None else total)


def _distance(lower, upper, quantile, total):
    """``d`` of candidates, by how many of all values are below them, and how many are not above."""
    rank, (below, above) = _rank(quantile, total), _sides(quantile)
    return np.maximum(np.maximum(above * (lower - rank), below * (rank - upper)), 0.0)


def run_weights(far, masses, log_odds_range, farther=0.0):
    """The weights of the runs, as exact integers.

    Parameters
    ----------
    far : ndarray of shape (n_runs,)
        Distances.
    masses : sequence of int
        Lengths.
    log_odds_range : float
    farther : float, default=0.0
        What is added to ``a`` times the distances.
    """
    each = _exponentials(far, log_odds_range, farther)
    return [mass * weight for mass, weight in zip(masses, each, strict=True)]


def _exponentials(far, log_odds_range, farther):
    exponents = np.minimum(_rate(log_odds_range) * far + farther, _LARGEST_EXPONENT)
    return [int(weight) for weight in (np.exp(-exponents) * _SCALE).tolist()]


def _rate(log_odds_range):
    return max(log_odds_range - _SLACK, 0.0) / 2.0


def reach_of(quantile, log_odds_range):
    """A quantile, and how many ranks below and above it values matter, for `rank_values`."""
    rate = _rate(log_odds_range)
    return quantile, *(
        _LARGEST_EXPONENT / side / rate if rate else math.inf for side in _sides(quantile)
    )


def lines_of(quantile, log_odds_range, size, bounds=(None, None)):
    """Candidates, and what is added to ``a`` times the distances of each kind, for `step_weights`."""
    low, high = bounds
    if low is not None:
        return [(Grid(low, high, _LINEAR), 0.0)]
    below, above = _sides(quantile)
    beyond = _rate(log_odds_range) * size * min(below * quantile, above * (1.0 - quantile))
    farther = _SHARE_OF_REST * max(beyond - _ENOUGH_LOG_ODDS, 0.0)
    return [(exact_decimals(), 0.0), (short_decimals(), farther)]


def step_weights(ranked, quantile, log_odds_range, lines):
    """The `StepWeights` of candidates on several lines, one behind the other.

    Parameters
    ----------
    ranked : Ranked
    quantile, log_odds_range : float
    lines : sequence of (Decimals or Grid, float)
        Candidates, and what is added to ``a`` times their distances.
    """
    starts, weights, lengths, behind = [], [], [], 0
    for line, farther in lines:
        lows, highs = line.intervals(ranked.values)
        first = np.flatnonzero(np.append(True, lows[1:] != lows[:-1])[: lows.size])
        counts = np.add.reduceat(ranked.counts, first) if first.size else ranked.counts
        lows, highs = lows[first].tolist(), highs[first].tolist()
        far = distances(counts, quantile, ranked.n_below, ranked.total)
        edges = [0, *itertools.chain.from_iterable(zip(lows, highs, strict=True)), line.total]
        masses = [high - low for low, high in itertools.pairwise(edges)]
        # Between values that are next to each other there is nothing.
        kept = [i for i, mass in enumerate(masses) if mass > 0]
        weights_of_kept = [masses[i] for i in kept]
        starts += [behind + edges[i] for i in kept]
        weights += run_weights(far[kept], weights_of_kept, log_odds_range, farther)
        lengths += weights_of_kept
        behind += line.total
    return StepWeights(starts, weights, lengths)


def draw_quantiles(
    table,
    values_of,
    quantiles,
    log_odds_range,
    generator,
    size,
    bounds=(None, None),
    of_one_row=False,
):
    """Draw quantiles of a column privately, one after the other.

    Parameters
    ----------
    table : Table
    values_of : callable
        Maps `Rows` to an array of shape (n_rows,); NaN does not count.
    quantiles : sequence of float
    log_odds_range : float
        Log-odds range of each draw.
    generator : numpy.random.Generator
    size : int
        Public number of rows.
    bounds : (float, float), default=(None, None)
        Public bounds, if there are any.
    of_one_row : bool, default=False
        Whether one row of each person is counted (Proposition 54).

    Returns
    -------
    drawn : list of DrawnQuantile
    """
    reaches, drawn = [reach_of(quantile, log_odds_range) for quantile in quantiles], []
    for quantile, ranked in zip(quantiles, rank_values(table, values_of, reaches), strict=True):
        lines = lines_of(quantile, log_odds_range, size, bounds)
        how = lines, generator, of_one_row
        place = draw_place(ranked, quantile, log_odds_range, *how)  # Proposition 50.
        for line, _ in lines:
            if place < line.total:
                value = line.value_at(place)
                drawn.append(DrawnQuantile(value, line.spacing(value)))
                break
            place -= line.total
    return drawn


def draw_place(ranked, quantile, log_odds_range, lines, generator, of_one_row=False):
    """The place that is drawn, on the lines one behind the other.

    Parameters
    ----------
    ranked, quantile, log_odds_range, lines
        As for `step_weights`, which tells the law of it.
    generator : numpy.random.Generator
    of_one_row : bool, default=False
        As for `draw_quantiles`.
    """

    @cache
    def weighted_blocks():
        blocks = list(_blocks(ranked, quantile, log_odds_range, lines))
        return blocks, [block.length * block.most for block in blocks]

    def release():
        # How many numbers it takes depends on the values, and what comes after it shall not.
        child = child_generator(generator)  # Proposition 50.
        blocks, of_blocks = weighted_blocks()
        while True:
            run, remainder = choose_weighted(of_blocks, child)  # Proposition 50.
            block, place = blocks[run], remainder // blocks[run].most
            weight = block.weight_at(block.start + place)
            if integer_below(block.most, child) < weight:  # Proposition 50.
                return block.behind + block.start + place

    def weights():
        return step_weights(ranked, quantile, log_odds_range, lines)

    event = ReleaseEvent("choice", weights, None, log_odds_range, of_one_row=of_one_row)
    return audited_release(event, release, generator)


class _Block(NamedTuple):
    """Candidates next to each other, of which none weighs more than ``most``, over its length."""

    behind: int
    start: int
    length: int
    most: int
    weight_at: Any


def _blocks(ranked, quantile, log_odds_range, lines):
    """Yield blocks that cover some lines: as many for any number of values, if these are more than a few."""
    up_to = ranked.n_below + np.concatenate([[0], np.cumsum(ranked.counts)])
    chosen = ranked.values[_chosen(ranked.counts, log_odds_range)]

    def exponentials(lower, upper, farther):
        far = _distance(up_to[lower], up_to[upper], quantile, ranked.total)
        return _exponentials(far, log_odds_range, farther)

    def weight_at(place, line, farther):
        places = np.array([place], dtype=object)
        lower = _n_until(ranked.values, line, 1, places)
        return exponentials(lower, _n_until(ranked.values, line, 0, places), farther)[0]

    behind = 0
    for line, farther in lines:
        # A candidate to which many values are rounded is that of a chosen one, and a block of its own.
        starts, ends = (places.tolist() for places in line.intervals(chosen))
        edges = np.array(sorted({0, *starts, *ends, line.total}), dtype=object)
        # Values below the first candidate of a block, and up to the last one.
        lower = _n_until(ranked.values, line, 1, edges[:-1])
        upper = _n_until(ranked.values, line, 0, edges[1:] - 1)
        each = partial(weight_at, line=line, farther=farther)
        most = exponentials(lower, upper, farther)
        for start, length, most_of_block in zip(
            edges.tolist(), np.diff(edges).tolist(), most, strict=False
        ):
            yield _Block(behind, start, length, most_of_block, each)
        behind += line.total


def _chosen(counts, log_odds_range):
    """The values at which blocks begin and end, so that exponents differ by about 1 within a block."""
    if counts.size <= _MOST_SINGLE_VALUES:
        return np.arange(counts.size)
    n_ranks = 1.0 / max(FAR_SIDE * _rate(log_odds_range), 1e-300)
    block = np.floor((np.cumsum(counts) - counts) / n_ranks)
    begins = np.append(True, block[1:] != block[:-1])
    return np.flatnonzero(begins | (counts > 0.5 * n_ranks))


def _n_until(values, line, side, places):
    """Number of values have intervals that begin (side 0) or end (side 1) at each place or before."""
    low, high = np.zeros(places.size, dtype=np.intp), np.full(places.size, values.size)
    for _ in range(values.size.bit_length()):
        open_ones = np.flatnonzero(low < high)
        if not open_ones.size:
            break
        middle = (low[open_ones] + high[open_ones]) // 2
        is_until = (line.intervals(values[middle])[side] <= places[open_ones]).astype(bool)
        low[open_ones] = np.where(is_until, middle + 1, low[open_ones])
        high[open_ones] = np.where(is_until, high[open_ones], middle)
    return low
