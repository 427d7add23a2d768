"""Intervals of a description cover as stated, sampling and noise together, also where noise is most of it."""

from collections import defaultdict

import numpy as np
import pytest

from skdpbayes.descriptive import _describe, _description, _plan

BOUNDS = {"usual": (18, 90), "wide": (0, 500_000), "skew": (0, 8), "constant": (0, 10)}
CATEGORIES = {"arm": [0, 1, 2], "even": [0, 1], "rare": [0, 1, 2]}
RARE = (0.9, 0.09, 0.01)
N_SMALL = 30


def world(generator, n):
    """Codes of columns, a twentieth of them missing; some 30 rows are in the last group."""
    last = N_SMALL / n
    arm = generator.choice(3, n, p=[0.7 - last, 0.3, last])

    def missing(values, instead):
        return np.where(generator.random(n) < 0.05, instead, values)

    numbers = {
        "usual": generator.normal(50.0 + 3.0 * arm, 10.0),
        "wide": generator.lognormal(10.3, 0.7, n),
        "skew": generator.exponential(1.0, n),
        "constant": np.full(n, 5.0),
    }
    codes = {
        name: _describe.scaled(missing(column, np.nan), BOUNDS[name])
        for name, column in numbers.items()
    }
    even = generator.integers(0, 2, n)
    return codes | {"arm": arm, "even": even, "rare": missing(generator.choice(3, n, p=RARE), 4)}


def truths():
    """Means and shares in the population, of clipped values in each group."""
    known = {}
    for group in range(3):
        rows = np.random.default_rng(9)
        numbers = {
            "usual": rows.normal(50.0 + 3.0 * group, 10.0, 4_000_000),
            "wide": rows.lognormal(10.3, 0.7, 4_000_000),
            "skew": rows.exponential(1.0, 4_000_000),
            "constant": np.array([5.0]),
        }
        for name, values in numbers.items():
            known[group, name, None, "mean"] = np.clip(values, *BOUNDS[name]).mean()
            known[group, name, None, "missing"] = 0.05
        known |= {(group, "even", level, "share"): 0.5 for level in range(2)}
        known |= {(group, "rare", level, "share"): RARE[level] for level in range(3)}
        known[group, "rare", None, "missing"] = 0.05
    return known


def covered(n, epsilon, relation, n_tables):
    """{(size of group, statistic, column): (share of intervals that cover, number of intervals)}."""
    names, known = [*BOUNDS, *CATEGORIES], truths()
    layout = _plan.make_layout(names, BOUNDS, CATEGORIES, "arm", None, relation)
    plan = _plan.plan_layout(layout, n, epsilon, 1e-5, relation)
    found = defaultdict(list)
    for seed in range(n_tables):
        generator = np.random.default_rng(seed)
        sums = _describe.exact_sums(layout, world(generator, n), np.full(n, _describe.PERSON_UNIT))
        exact = layout.scales * sums / _describe.PERSON_UNIT
        released = exact + plan.noise_scale * generator.normal(size=sums.shape)
        for group, own in _description.group_sums(layout, plan, released, 0.9).items():
            for cell in _description.described_cells(own, group, layout):
                truth = known.get(cell[:4])
                if cell.variable is None and group != "overall":
                    truth = exact[group, 0]
                if truth is None:
                    continue
                size = "small" if group == 2 else "large"
                inside = cell.low - 1e-9 <= truth <= cell.high + 1e-9
                found[size, cell.statistic, cell.variable, cell.level].append(inside)
    return {key: (np.mean(inside), len(inside)) for key, inside in found.items()}


def check(found):
    """Nothing covers less than 0.87; where an interval ends at a bound, at most one end may be missed."""
    for key, (share, n) in found.items():
        error = 3.0 * np.sqrt(0.09 / n)
        assert share >= 0.87 - error, (key, share)
        if key[1] == "count":
            assert share <= 0.93 + error, (key, share)


@pytest.mark.parametrize("epsilon", [1.0])
def test_intervals_cover(epsilon):
    check(covered(500, epsilon, "replace_one", 150))


@pytest.mark.nightly
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("n", [500, 20_000])
def test_intervals_cover_in_many_tables(n, epsilon, relation):
    found = covered(n, epsilon, relation, 1000 if n == 500 else 400)
    check(found)
    if n > 500:  # Large groups, of which noise hides nothing.
        for key in (("large", "mean", "usual", None), ("large", "share", "even", 0)):
            assert abs(found[key][0] - 0.9) < 0.035, found[key]


def test_intervals_cover_where_rows_of_a_person_are_alike():
    """Persons have 1 to 9 rows that say the same; they are independent, and rows are not."""
    bounds, categories = {"x": (0, 1)}, {"c": [0, 1]}
    layout = _plan.make_layout(["x", "c"], bounds, categories, None, None, "replace_one")
    plan = _plan.plan_layout(layout, 300, 1.0, 1e-5, "replace_one_person")
    found = defaultdict(list)
    for seed in range(200):
        generator = np.random.default_rng(seed)
        persons = np.repeat(np.arange(300), generator.integers(1, 10, 300))
        codes = {
            "x": _describe.scaled(generator.uniform(size=300), bounds["x"])[persons],
            "c": (generator.random(300) < 0.3).astype(int)[persons],
        }
        sums = _describe.exact_sums(layout, codes, _describe.weights_of(persons))
        released = layout.scales * sums / _describe.PERSON_UNIT
        released = released + plan.noise_scale * generator.normal(size=sums.shape)
        own = _description.group_sums(layout, plan, released, 0.9)["overall"]
        for cell in _description.described_cells(own, "overall", layout):
            truth = {("mean", None): 0.5, ("share", 1): 0.3}.get((cell.statistic, cell.level))
            if truth is not None:
                found[cell.statistic].append(cell.low <= truth <= cell.high)
    for name, inside in found.items():
        assert 0.84 <= np.mean(inside) <= 0.96, name


def test_a_deviation_that_noise_hides_is_hardly_ever_shown():
    """Of numbers that hardly vary within wide bounds; shown, it would be many times as large."""
    layout = _plan.make_layout(["x"], {"x": (-1, 1)}, {}, None, None, "replace_one")
    plan = _plan.plan_layout(layout, 100, 1.0, 1e-5, "replace_one")
    weights, shown = np.full(100, _describe.PERSON_UNIT), 0
    for seed in range(1000):
        generator = np.random.default_rng(seed)
        codes = {"x": 0.03 * generator.normal(size=100)}
        released = (
            layout.scales * _describe.exact_sums(layout, codes, weights) / _describe.PERSON_UNIT
        )
        released = released + plan.noise_scale * generator.normal(size=released.shape)
        own = _description.group_sums(layout, plan, released, 0.9)["overall"]
        cells = _description.described_cells(own, "overall", layout)
        shown += not np.isnan(next(cell.estimate for cell in cells if cell.statistic == "std"))
    assert shown < 10


def test_variances_are_not_too_small_by_the_noise_of_means():
    layout = _plan.make_layout(["x"], {"x": (-1, 1)}, {}, None, None, "replace_one")
    plan = _plan.plan_layout(layout, 40, 1.0, 1e-5, "replace_one")
    weights, variances = np.full(40, _describe.PERSON_UNIT), []
    for seed in range(2000):
        generator = np.random.default_rng(seed)
        codes = {"x": generator.uniform(-1, 1, 40)}
        released = (
            layout.scales * _describe.exact_sums(layout, codes, weights) / _describe.PERSON_UNIT
        )
        released = released + plan.noise_scale * generator.normal(size=released.shape)
        own = _description.group_sums(layout, plan, released, 0.9)["overall"]
        variances.append(own.moments(layout.blocks[0])[1])
    assert np.mean(variances) == pytest.approx(1 / 3, abs=0.015)
