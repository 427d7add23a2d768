"""Quantiles of columns by the exponential mechanism over public candidates.

    P(t) = w(t) exp(-a d(t)) / Z,    d(t) = max(c (#{x < t} - q m), (2 - c) (q m - #{x <= t}), 0)

(Smith, 2011; base measure ``w``). ``d(t)`` is the distance in ranks of ``t`` from a ``q``-quantile of the
``m`` values that are not missing. Ranks on the far side of a low or high quantile, where there may be no
values at all, count three times as much as those on the near side. Between neighbouring tables the difference
of two distances changes by at most 2, so that a draw is a choice with log-odds range ``2 a``, as in
`skdpbayes.privacy.AcceptBits` (Dong, Durfee and Rogers, 2020).

Candidates need no bounds: they are 0 and all decimals of up to four digits from 1e-6 to 1e12, of either sign,
short ones with more weight. Each value counts for the nearest candidate. Weights are integers times powers of
``e``, as doubles, and the draw from them is exact: rounding moves log-odds by less than ``_SLACK``.
"""

import math
from functools import lru_cache

import numpy as np

from ..privacy.cost import AcceptBits, PrivacyCost
from ..privacy.root_finding import smallest_within
from .door import Passage, through_door
from .integers import choose_weighted

# Quantiles are multiples of this, so that ranks are exact in doubles.
_GRAIN = 2.0**-12
_SLACK = 2.0**-40
# Distances beyond ``_FARTHEST / a`` count as equal to it, so that weights stay above 2^-93.
_FARTHEST = 64.0
_SCALE = 2.0**146
# Weight of ranks on the far side of a quantile; those on the near side have weight 2 minus this.
FAR_SIDE = 1.5
_DECADES = range(-6, 12)
_LINEAR = 1001
# The log-odds range without privacy.
_SHARPEST = 128.0


@lru_cache(maxsize=256)
def log_odds_range(budget, count):
    """Return the largest log-odds range with which ``count`` draws stay within a budget.

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
        return _SHARPEST
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
    """Return the cost of drawing quantiles."""
    return PrivacyCost(relation, bits=(AcceptBits(log_odds_range, count),))


@lru_cache(maxsize=32)
def decimals():
    """Return all candidates and their weights, as integers."""
    digits = np.arange(1000, 10000)
    short = 1 + sum(10**k * (digits % 10**k == 0) for k in (1, 2, 3))
    # Parsed from text, so that each is the double nearest to its decimal.
    sizes = np.array([float(f"{m}e{e - 3}") for e in _DECADES for m in digits])
    weights = np.concatenate([short * (2**20 // (1 + abs(e)) ** 2) for e in _DECADES])
    zero = int(short.sum()) << 20
    return np.concatenate([-sizes[::-1], [0.0], sizes]), np.concatenate(
        [weights[::-1], [zero], weights]
    )


def candidates(low=None, high=None):
    """Return candidates in ascending order and their weights; evenly spaced ones between public bounds."""
    if low is None:
        return decimals()
    return np.linspace(low, high, _LINEAR), np.ones(_LINEAR, dtype=np.int64)


def distances(counts, quantile):
    """Return runs of candidates that are equally far from a quantile, and their distances in ranks.

    Parameters
    ----------
    counts : ndarray of shape (n_candidates,)
        Number of values at each candidate.
    quantile : float
        In (0, 1), rounded to a multiple of 2^-12.

    Returns
    -------
    firsts : ndarray of shape (n_runs,)
        Index of the first candidate of each run.
    distances : ndarray of shape (n_runs,)
        ``d`` of each run.
    """
    held = np.flatnonzero(counts)
    up_to = np.cumsum(counts[held])
    total = int(up_to[-1]) if held.size else 0
    rank = round(quantile / _GRAIN) * _GRAIN * total
    before = np.concatenate([[0], up_to])
    firsts = np.concatenate([[0], np.column_stack([held, held + 1]).ravel()])
    below = np.concatenate([[0], np.column_stack([before[:-1], up_to]).ravel()])
    through = np.concatenate([[0], np.column_stack([up_to, up_to]).ravel()])
    above = 1.0 if quantile == 0.5 else 2.0 - FAR_SIDE if quantile < 0.5 else FAR_SIDE
    far = np.maximum(np.maximum(above * (below - rank), (2.0 - above) * (rank - through)), 0.0)
    # Occupied candidates that are adjacent, or at the ends, leave runs of length 0.
    kept = np.diff(np.append(firsts, counts.size)) > 0
    return firsts[kept], far[kept]


def run_weights(far, masses, log_odds_range):
    """Return the weights of the runs, as exact integers."""
    rate = max(log_odds_range - _SLACK, 0.0) / 2.0
    exponentials = np.exp(-np.minimum(rate * far, _FARTHEST)) * _SCALE
    return [int(m) * int(e) for m, e in zip(masses, exponentials, strict=True)]


def count_candidates(values, bounds=(None, None)):
    """Return the number of a column's values at each candidate, without NaN. **It is not private.**"""
    grid, _ = candidates(*bounds)
    values = values[~np.isnan(values)].astype(np.float64)
    # Halved before adding, because the sum of two large numbers would overflow.
    places = np.searchsorted(grid[:-1] / 2 + grid[1:] / 2, values)
    return np.bincount(places, minlength=grid.size)


def draw_quantiles(
    counts, quantiles, log_odds_range, generator, bounds=(None, None), of_one_row=False
):
    """Draw quantiles of a column privately, one after the other.

    Parameters
    ----------
    counts : ndarray of shape (n_candidates,)
        Number of values at each candidate.
    quantiles : sequence of float
    log_odds_range : float
        Log-odds range of each draw.
    generator : numpy.random.Generator
    bounds : (float, float), default=(None, None)
        Public bounds, if there are any.
    of_one_row : bool, default=False
        Whether one row of each person is counted (Proposition 54).

    Returns
    -------
    drawn : list of float
    """
    grid, weights = candidates(*bounds)
    up_to = np.concatenate([[0], np.cumsum(weights)])
    return [
        float(grid[_draw(counts, up_to, quantile, log_odds_range, generator, of_one_row)])
        for quantile in quantiles
    ]


def _draw(counts, up_to, quantile, log_odds_range, generator, of_one_row=False):
    """Return the index of the drawn candidate."""
    firsts, far = distances(counts, quantile)
    ends = np.append(firsts[1:], counts.size)
    weights = run_weights(far, up_to[ends] - up_to[firsts], log_odds_range)

    def release():
        run, left = choose_weighted(weights, generator)  # Proposition 50.
        low, high = int(up_to[firsts[run]]), int(up_to[ends[run]])
        within = low + left * (high - low) // weights[run]
        return int(np.searchsorted(up_to, within, side="right")) - 1

    def logs():
        masses = up_to[ends] - up_to[firsts]
        each = [math.log(weight / mass) for weight, mass in zip(weights, masses, strict=True)]
        return np.repeat(each, ends - firsts) + np.log(np.diff(up_to))

    passage = Passage("choice", logs, None, log_odds_range, of_one_row=of_one_row)
    return through_door(passage, release, generator)
