"""The private choice: its law, and that no neighbouring table moves it by more than its range."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import chisquare

from skdpbayes._mechanisms.exponential import SUM_UNIT, choose_zero_crossing
from skdpbayes.privacy import BoundedRangeDecisions, PrivacyCost

MOVED = {"replace_one": 2.0, "add_or_remove_one": 1.0}
WEIGHTS = np.log([1.0, 2.0, 3.0])


def law(sums, log_weights, eta, moved):
    """The law that is claimed."""
    logs = log_weights - eta / (2.0 * moved) * np.abs(np.asarray(sums) * SUM_UNIT)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def test_points_are_chosen_by_the_law_that_is_claimed(rng):
    sums = (np.array([3.0, -5.0, 9.5]) / SUM_UNIT).astype(np.int64)
    expected = law(sums, WEIGHTS, 0.7, 2.0)
    drawn = [choose_zero_crossing(sums, WEIGHTS, 0.7, 2.0, rng) for _ in range(20_000)]
    counts = np.bincount(drawn, minlength=3)
    assert chisquare(counts, 20_000 * expected).pvalue > 1e-4
    assert choose_zero_crossing(sums, WEIGHTS, math.inf, 2.0, rng) == 0


def test_what_is_hopeless_counts_as_no_less_likely_than_a_bound(rng):
    sums = np.array([0, 2**53], dtype=np.int64)
    assert choose_zero_crossing(sums, np.zeros(2), 8.0, 1.0, rng) == 0


def of_range(first, second):
    """By how much log-odds of any two points differ."""
    return np.ptp(np.log(first) - np.log(second))


@pytest.mark.parametrize("relation", sorted(MOVED))
def test_the_range_bounds_the_law_of_neighbours_tightly(rng, relation):
    eta, moved, farthest = 0.3, MOVED[relation], 0.0
    unit = 1.0 / SUM_UNIT
    for _ in range(2000):
        records = rng.choice([-1.0, 1.0, rng.uniform(-1, 1)], size=(rng.integers(1, 6), 3))
        changed = records.copy()[: None if relation == "replace_one" else -1]
        if relation == "replace_one":
            changed[-1] = rng.choice([-1.0, 1.0], size=3)
        laws = [
            law(np.rint(table.sum(axis=0) * unit), WEIGHTS, eta, moved)
            for table in (records, changed)
        ]
        farthest = max(farthest, of_range(*laws))
    assert farthest <= eta * (1.0 + 1e-9)
    assert farthest > 0.95 * eta


def test_the_cost_covers_every_set_of_points():
    """Hockey-stick divergences by brute force, over all sets of points of a grid of laws at the range."""
    eta = 0.5
    cost = PrivacyCost("replace_one", decisions=(BoundedRangeDecisions(eta, 1),))
    epsilons = np.linspace(0.0, eta, 6)
    shifts = np.array(list(itertools.product((-eta / 2, 0.0, eta / 2), repeat=4)))
    for weights in (np.ones(4), np.array([1.0, 10.0, 100.0, 1e-3])):
        plain = weights / weights.sum()
        laws = weights * np.exp(shifts)
        laws /= laws.sum(axis=1, keepdims=True)
        for epsilon in epsilons:
            worst = np.maximum(laws - np.exp(epsilon) * plain, 0.0).sum(axis=1).max()
            assert worst <= cost.delta(epsilon) + 1e-12
