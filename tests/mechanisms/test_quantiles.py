"""What quantiles lose, exactly, on all small tables."""

import itertools
import math

import numpy as np
import pytest

from skdpbayes._mechanisms.quantiles import (
    _SLACK,
    _draw,
    candidates,
    count_candidates,
    decimals,
    distances,
    draw_quantiles,
    draws_cost,
    log_odds_range,
    run_weights,
)
from skdpbayes.privacy import Budget
from skdpbayes.random import private_generator

LEVEL = 0.6
VALUES = [0, 1, 3, 4, None]
N_CANDIDATES = 5


def law(rows, quantile):
    """Probabilities of the candidates, as the mechanism weighs them, from its own integers."""
    counts = np.bincount([v for v in rows if v is not None], minlength=N_CANDIDATES)
    firsts, far = distances(counts, quantile)
    lengths = np.diff(np.append(firsts, N_CANDIDATES))
    weights = run_weights(far, lengths, LEVEL)
    total = sum(weights)
    each = [w / n / total for w, n in zip(weights, lengths, strict=True)]
    return np.repeat(each, lengths)


def neighbours(relation):
    for rows in small_tables():
        if relation == "add_or_remove_one":
            yield from ((rows, (*rows, value)) for value in VALUES)
        else:
            yield from ((rows, (*rows[:-1], value)) for value in VALUES)


def small_tables():
    for size in (1, 2, 3):
        yield from itertools.product(VALUES, repeat=size)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_log_odds_of_candidates_move_by_no_more_than_the_range(relation):
    largest = 0.0
    for quantile in (0.1, 0.25, 0.5, 0.9):
        for first, second in neighbours(relation):
            losses = np.log(law(first, quantile)) - np.log(law(second, quantile))
            largest = max(largest, losses.max() - losses.min())
    assert largest <= LEVEL + 1e-9
    assert largest > 0.9 * LEVEL if relation == "replace_one" else largest > 0.4 * LEVEL


def test_an_attack_on_one_draw_reaches_most_of_its_curve_and_never_passes_it():
    """The best test of two neighbours, whatever candidates weigh: exact hockey-stick divergences."""
    cost, best = draws_cost(LEVEL, 1, "replace_one"), 0.0
    for quantile, (first, second) in itertools.product((0.1, 0.5), neighbours("replace_one")):
        p, q = law(first, quantile), law(second, quantile)
        # Weights are public: here most of it lies where the tables differ most, one way and the other.
        far = [np.argmax(p / q), np.argmin(p / q)]
        weights = np.full(N_CANDIDATES, 1e-6)
        weights[far] = 1.0 / np.sqrt(p * q)[far]
        p, q = p * weights / (p @ weights), q * weights / (q @ weights)
        for epsilon in (0.0, 0.1, 0.3):
            delta = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
            assert delta <= cost.delta(epsilon) + 1e-12
        best = max(best, np.maximum(p - q, 0.0).sum() / cost.delta(0.0))
    assert best > 0.9


def test_draws_follow_the_law():
    rows, quantile, generator = (0, 1, 1, 3, 4, 4), 0.25, private_generator(0)
    counts = np.bincount(rows, minlength=N_CANDIDATES)
    up_to = np.arange(N_CANDIDATES + 1)
    drawn = [_draw(counts, up_to, quantile, LEVEL, generator) for _ in range(20_000)]
    shares = np.bincount(drawn, minlength=N_CANDIDATES) / len(drawn)
    np.testing.assert_allclose(shares, law(rows, quantile), atol=0.02)


def test_candidates_ascend_and_weigh_something():
    grid, weights = decimals()
    assert (np.diff(grid) > 0).all() and (weights > 0).all()
    np.testing.assert_array_equal(grid, -grid[::-1])
    assert np.isin([0.0, 7.0, 2020.0, -0.125, 1e11], grid).all()
    assert candidates(2.0, 4.0)[0][[0, -1]].tolist() == [2.0, 4.0]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("count", [1, 2, 14])
def test_levels_use_up_a_budget_and_no_more(count, delta):
    budget = Budget(0.7, delta)
    level = log_odds_range(budget, count)
    assert 0.99 * 0.7 <= draws_cost(level, count, "replace_one").epsilon(delta) <= 0.7
    assert level > 100 * _SLACK


@pytest.mark.parametrize(
    "values",
    [np.full(50, np.nan), np.full(50, 7.0), np.array([1e300, -1e300, 5e-324]), np.array([3.0])],
)
def test_odd_columns_are_drawn_from(values):
    drawn = draw_quantiles(count_candidates(values), (0.1, 0.9), 0.5, private_generator(0))
    assert np.isfinite(drawn).all()


def test_without_privacy_quantiles_are_those_of_the_values():
    values = np.arange(101.0)
    assert draw_quantiles(count_candidates(values), (0.1, 0.9), 128.0, private_generator(0)) == [
        10.0,
        90.0,
    ]


def test_ranges_below_the_slack_are_no_ranges_of_another_sign():
    far, masses = np.array([0.0, 1e9]), np.array([1, 1])
    assert len(set(run_weights(far, masses, _SLACK / 4.0))) == 1
