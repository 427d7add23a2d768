"""What quantiles lose, exactly, on all small tables, and which candidates there are."""

import decimal
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from references import ColumnTable, itself
from scipy.stats import chisquare

from skdpbayes._mechanisms import exponential
from skdpbayes._mechanisms.exponential import (
    _SLACK,
    Decimals,
    Grid,
    draw_place,
    draw_quantiles,
    draws_cost,
    exact_decimals,
    lines_of,
    log_odds_range,
    rank_values,
    reach_of,
    run_weights,
    short_decimals,
    step_weights,
)
from skdpbayes.privacy import Budget
from skdpbayes.random import private_generator

LEVEL = 0.6
# Some round to one number of one or two digits, some are neighbours, some near the last candidates.
VALUES = [-3.0, 0.0, 1.0, 1.04, 1.3, 7e305, None]
LINES = [(Decimals((2, 1)), 0.0), (Decimals((3,)), 0.05)]
ALL = (math.inf, math.inf)


def weights_of(rows, quantile, lines=LINES, level=LEVEL):
    values = np.array([np.nan if v is None else v for v in rows], dtype=float)
    (ranked,) = rank_values(ColumnTable(values), itself, [(quantile, *ALL)])
    return step_weights(ranked, quantile, level, lines)


def neighbours(relation):
    for rows in small_tables(up_to=2):
        if relation == "add_or_remove_one":
            yield from ((rows, (*rows, value)) for value in VALUES)
        elif rows:
            yield from ((rows, (*rows[:-1], value)) for value in VALUES if value != rows[-1])


def small_tables(up_to):
    """Tables of some sizes, each in one order."""
    values = sorted(VALUES, key=str)
    for size in range(up_to + 1):
        yield from itertools.combinations_with_replacement(values, size)


def candidates(n_digits):
    """All decimals of up to some digits that doubles hold, ascending: by listing them."""
    sizes = {
        Fraction(decimal.Decimal(f"{m}e{e - n_digits + 1}"))
        for e in range(-324, 309)
        for m in range(10 ** (n_digits - 1), 10**n_digits)
    }
    sizes = sorted(one for one in sizes if one <= Fraction(np.finfo(float).max))
    return [-one for one in reversed(sizes)] + [Fraction(0)] + sizes


def rounded(value, n_digits):
    context = decimal.Context(prec=n_digits, rounding=decimal.ROUND_HALF_UP)
    return Fraction(context.create_decimal(repr(value)))


def farness(candidate, rows, quantile, n_digits):
    """``d`` as it is defined."""
    values = [rounded(value, n_digits) for value in rows if value is not None]
    above = 1.0 if quantile == 0.5 else 0.5 if quantile < 0.5 else 1.5
    rank = round(quantile * 4096) / 4096 * len(values)
    below, through = (
        sum(v < candidate for v in values),
        sum(v <= candidate for v in values),
    )
    return max(above * (below - rank), (2.0 - above) * (rank - through), 0.0)


@pytest.fixture(scope="module")
def listed():
    return [candidates(2), candidates(1)]


@pytest.mark.parametrize("quantile", [0.1, 0.5])
@pytest.mark.parametrize("rows", [(), (1.04, 1.3, -3.0), (0.0, 0.0, 7e305, 1.0)], ids=str)
def test_every_candidate_weighs_what_is_stated(listed, rows, quantile):
    """Every seventh of all, by the definition."""
    weights, behind = weights_of(rows, quantile), 0
    found, expected = [], []
    for (line, farther), each in zip(LINES, listed, strict=True):
        n_digits = 2 if len(each) > 20_000 else 1
        # Smaller ones are not apart as doubles.
        each = [one for one in each[::7] if not 0 < abs(one) < Fraction(1, 10**321)]
        starts, _ = line.intervals(np.array([float(one) for one in each]))
        for start, candidate in zip(starts, each, strict=True):
            run = weights.run_of(behind + start)
            found.append(weights.weights[run] // weights.lengths[run])
            far = farness(candidate, rows, quantile, n_digits)
            expected.append(math.exp(-LEVEL / 2.0 * far - farther))
        behind += line.total
    found = np.array(found, dtype=float)
    np.testing.assert_allclose(found / 2.0**170, expected, rtol=1e-9)


def test_lengths_are_the_base_measure(listed):
    """A decade's decimals of ``k`` digits weigh together what its weight and theirs are, however many."""
    line = LINES[0][0]
    # Smaller ones are not apart as doubles.
    each = [one for one in listed[0] if not 0 < abs(one) < Fraction(1, 10**321)]
    starts, ends = line.intervals(np.array([float(one) for one in each]))
    middle = each.index(0)
    # All of the line is theirs.
    assert list(ends[: middle - 1]) == list(starts[1:middle]) and starts[0] == 0
    assert list(ends[middle + 1 : -1]) == list(starts[middle + 2 :]) and ends[-1] == line.total
    lengths = {one: end - start for one, start, end in zip(each, starts, ends, strict=True)}
    assert lengths[Fraction(3)] == lengths[Fraction(-3)] == lengths[Fraction(4)]
    ones = sum(lengths[Fraction(one)] for one in range(1, 10))
    tens = sum(lengths[Fraction(one, 10)] for one in range(10, 100))
    # All but the second part of the nine that have one digit is that of two digits.
    assert ones - 9 * lengths[Fraction(11, 10)] == 2 * 90 * lengths[Fraction(11, 10)]
    assert lengths[Fraction(0)] == tens
    thirtieth = sum(lengths[Fraction(one) * 10**29] for one in range(10, 100))
    assert Fraction(thirtieth, tens) == Fraction(2**20 // 31**2 + 2**10, 2**20 + 2**10)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_log_odds_of_candidates_move_by_no_more_than_the_range(relation):
    """Of all candidates, exactly: ratios of integers, on both lines."""
    largest = Fraction(1)
    for quantile in (0.1, 0.5, 0.9):
        laws = {rows: weights_of(rows, quantile) for rows in small_tables(up_to=3)}
        for pair in neighbours(relation):
            one, other = (laws[tuple(sorted(rows, key=str))] for rows in pair)
            ratios = [
                Fraction(_candidate_weight(one, place), _candidate_weight(other, place))
                for place in {*one.starts, *other.starts}
            ]
            largest = max(largest, max(ratios) / min(ratios))
    assert largest <= Fraction(math.exp(LEVEL))
    assert math.log(largest) > (0.9 if relation == "replace_one" else 0.4) * LEVEL


def _candidate_weight(weights, place):
    run = weights.run_of(place)
    return weights.weights[run] // weights.lengths[run]


def test_an_attack_on_one_draw_reaches_its_curve_and_never_passes_it():
    """The best test of two neighbours, whatever candidates weigh: exact hockey-stick divergences."""
    cost, best = draws_cost(LEVEL, 1, "replace_one"), 0.0
    for quantile, (first, second) in itertools.product((0.1, 0.5), neighbours("replace_one")):
        logs = weights_of(first, quantile) - weights_of(second, quantile)
        # Weights are public: here most of it lies where the tables differ most, one way and the other.
        ends = np.exp(np.array([logs.min(), logs.max()]))
        p = np.sqrt(ends) / np.sqrt(ends).sum()
        q = p / ends / (p / ends).sum()
        for epsilon in (0.0, 0.1, 0.3):
            delta = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
            assert delta <= cost.delta(epsilon) + 1e-12
        best = max(best, np.maximum(p - q, 0.0).sum() / cost.delta(0.0))
    assert best > 0.9


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    "few, quantile, level", [(0, 0.25, LEVEL), (0, 0.5, 0.1), (128, 0.5, LEVEL)]
)
def test_draws_follow_the_law(monkeypatch, few, quantile, level):
    """Whether each value is a block, or several are."""
    monkeypatch.setattr(exponential, "_MOST_SINGLE_VALUES", few)
    values = [0.0, 1.0, 1.0, 1.3, -3.0, 7e305, 1.04, 1.25, 1.31, *[2.0] * 9, 5.0, 5.1, 5.2]
    (ranked,) = rank_values(ColumnTable(values), itself, [(quantile, *ALL)])
    weights, generator = step_weights(ranked, quantile, level, LINES), private_generator(0)
    how = ranked, quantile, level, LINES, generator
    drawn = [draw_place(*how) for _ in range(300)]
    # Of runs: those of long candidates are rarely drawn.
    expected = 300 * weights.probabilities()
    found = np.bincount([weights.run_of(one) for one in drawn], minlength=expected.size)
    own = expected > 5.0
    observed = np.append(found[own], found[~own].sum())
    assert chisquare(observed, np.append(expected[own], expected[~own].sum())).pvalue > 1e-4
    assert own.sum() > 5


TABLES = {
    "all apart": lambda rng: rng.normal(size=3000),
    "within four digits": lambda rng: 1.7e9 + 1e-3 * rng.normal(size=3000),
    "within some": lambda rng: 100.0 + 0.1 * rng.normal(size=3000),
    "at a few": lambda rng: rng.choice([0.0, 1 / 3, 7.0], 3000) + (rng.random(3000) < 0.3) * 1e-9,
    "few": lambda rng: rng.normal(size=30),
}


@pytest.mark.daily(5)
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("level", [0.01, 0.1, 3.0])
def test_no_candidate_of_a_block_is_rarely_kept(rng, table, level):
    """So that a draw ends soon, whatever values are."""
    column = ColumnTable(table(rng))
    for quantile in (0.05, 0.5):
        (ranked,) = rank_values(column, itself, [reach_of(quantile, level)])
        lines = lines_of(quantile, level, 3000)
        blocks = list(exponential._blocks(ranked, quantile, level, lines))
        assert len(blocks) < 1500
        for block in blocks[:: max(1, len(blocks) // 60)]:
            for place in (block.start, block.start + block.length - 1):
                assert math.exp(-3.0) * block.most <= block.weight_at(place) <= block.most


def test_within_a_run_candidates_are_drawn_by_their_lengths():
    (ranked,), generator = rank_values(ColumnTable([]), itself, [(0.5, *ALL)]), private_generator(0)
    lines = [(Grid(0.0, 4.0, 5), 0.0)]
    drawn = [draw_place(ranked, 0.5, LEVEL, lines, generator) for _ in range(3000)]
    assert chisquare(np.bincount(drawn, minlength=5)).pvalue > 1e-4


def test_a_draw_takes_as_many_random_numbers_whatever_values_are(rng):
    after = set()
    for values in (rng.normal(size=500), np.zeros(3), 1e300 * rng.normal(size=40)):
        generator = private_generator(0)
        draw_quantiles(ColumnTable(values), itself, (0.1, 0.9), 0.01, generator, 500)
        after.add(generator.bytes(8))
    assert len(after) == 1


@pytest.mark.parametrize("line", [exact_decimals(), short_decimals()], ids=["exact", "short"])
def test_a_candidate_is_found_again_from_every_place_of_its_interval(line, rng):
    values = np.concatenate([10.0 ** rng.uniform(-323, 308, 300), rng.normal(size=300)])
    values = np.unique([*values, *-values, 0.0, 5e-324, 9.9999, 0.1, np.finfo(float).max])
    starts, ends = line.intervals(values)
    found = np.array([line.value_at(start) for start in starts])
    np.testing.assert_array_equal(found, [line.value_at(end - 1) for end in ends])
    np.testing.assert_allclose(found, values, rtol=5.1e-4 if line is short_decimals() else 0.0)
    assert (np.diff(found) >= 0).all() and np.isfinite(found).all()
    assert [line.value_at(place) for place in (0, line.total - 1)] == [-found[-1], found[-1]]
    again, _ = line.intervals(found)
    assert (again == starts).all()


@pytest.mark.parametrize("reach", [0.0, 3.0, math.inf])
def test_ranks_are_found_digit_by_digit(rng, reach):
    values = np.concatenate([rng.normal(size=200).round(1), [np.nan, -0.0, 0.0, 1e308, -5e-324]])
    held = np.sort(values[~np.isnan(values)])
    for one in rank_values(ColumnTable(values), itself, [(q, reach, reach) for q in (0.1, 0.6)]):
        assert one.total == held.size
        inside = held[(held >= one.values[0]) & (held <= one.values[-1])]
        np.testing.assert_array_equal(np.repeat(one.values, one.counts), inside)
        assert one.n_below == (held < one.values[0]).sum()
    assert not np.signbit(one.values[one.values == 0]).any()


@pytest.mark.parametrize("quantile", [0.02, 0.5, 0.9])
def test_values_that_are_not_read_would_change_nothing(rng, quantile):
    column = ColumnTable(np.concatenate([rng.normal(size=3000), np.full(200, 0.25)]))
    lines = lines_of(quantile, 1.0, 3200)
    reaches = [reach_of(quantile, 1.0), (quantile, *ALL)]
    near, everything = rank_values(column, itself, reaches)
    assert near.values.size < 0.5 * everything.values.size == 0.5 * 3001
    first, second = (step_weights(one, quantile, 1.0, lines) for one in (near, everything))
    assert not (first - second).any()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("count", [1, 2, 14])
def test_levels_use_up_a_budget_and_no_more(count, delta):
    budget = Budget(0.7, delta)
    level = log_odds_range(budget, count)
    assert 0.99 * 0.7 <= draws_cost(level, count, "replace_one").epsilon(delta) <= 0.7
    assert level > 100 * _SLACK


def drawn_from(values, quantiles, level, seed=0, **options):
    drawn = draw_quantiles(
        ColumnTable(values),
        itself,
        quantiles,
        level,
        private_generator(seed),
        len(values),
        **options,
    )
    return [one.value for one in drawn]


@pytest.mark.parametrize(
    "values",
    [np.full(50, np.nan), np.full(50, 7.0), np.array([1e300, -1e300, 5e-324]), np.array([3.0])],
)
@pytest.mark.parametrize("bounds", [(None, None), (-1.7e308, 1.7e308), (0.0, 5e-324)])
def test_odd_columns_are_drawn_from(values, bounds):
    drawn = drawn_from(values, (0.1, 0.9), 0.5, bounds=bounds)
    assert np.isfinite(drawn).all()
    assert bounds[0] is None or all(bounds[0] <= one <= bounds[1] for one in drawn)


def test_without_privacy_quantiles_are_those_of_the_values():
    assert drawn_from(np.arange(101.0), (0.1, 0.9), 128.0) == [10.0, 90.0]


UNITS = {
    "rows": (1.0, 0.0),
    "mol/L": (9e-8, 0.0),
    "subnormal": (1e-310, 0.0),
    "the largest": (1e308, 0.0),
    "ms since 1970": (3e10, 1.6e12),
    "ns since 1970": (3e16, 1.6e18),
    "ns within a second": (1e9, 1.6e18),
    "one street": (1e-3, 52.5),
    "below zero": (1e-3, -1e4),
}


@pytest.mark.parametrize("unit, shift", UNITS.values(), ids=UNITS)
def test_quantiles_are_found_in_any_unit_and_at_any_level(rng, unit, shift):
    values = shift + unit * rng.uniform(0, 1, 4000)
    for seed in range(5):
        low, high = drawn_from(values, (0.1, 0.9), 1.0, seed)
        assert abs(np.mean(values < low) - 0.1) < 0.03 and abs(np.mean(values < high) - 0.9) < 0.03


@pytest.mark.parametrize("value", [7.0, 0.0, 1 / 3, float(np.float32(0.1)), -1e10 / 7])
def test_equal_values_are_found_by_few_rows_to_four_digits(value):
    """Which 17 digits would take four times as many."""
    for seed in range(5):
        found = drawn_from(np.full(600, value), (0.5,), 0.2, seed)
        np.testing.assert_allclose(found, value, rtol=5.1e-4)


def test_ranges_below_the_slack_are_no_ranges_of_another_sign():
    far, masses = np.array([0.0, 1e9]), [1, 1]
    assert len(set(run_weights(far, masses, _SLACK / 4.0))) == 1
