"""A private description: what it estimates, what one row can move, what it costs, and what it refuses."""

import itertools
import re
import warnings
from fractions import Fraction

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from skdpbayes.audit import replay
from skdpbayes.descriptive import _describe, _plan, dp_describe, plan_description
from skdpbayes.exceptions import BudgetExceededError, PrivacyWarning, SeedWarning
from skdpbayes.privacy import PrivacyLedger, privacy_report
from skdpbayes.samplers.noise import release_vector

ADD = "add_or_remove_one"
N = 600
rng = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {
        "age": np.where(rng.random(N) < 0.05, np.nan, rng.normal(50.0, 12.0, N)),
        "income": rng.lognormal(10.0, 0.8, N),
        "sex": rng.choice(["f", "m"], N),
        "stage": rng.choice([1.0, 2.0, 3.0, np.nan], N),
        "smoker": rng.random(N) < 0.3,
        "arm": rng.choice(["a", "b", "c"], N, p=[0.5, 0.4, 0.1]),
    }
)
BOUNDS = {"age": (18, 90), "income": (0, 200_000)}
CATEGORIES = {
    "sex": ["f", "m"],
    "stage": [1, 2, 3],
    "smoker": [False, True],
    "arm": ["a", "b", "c"],
}
OPTIONS = {
    "bounds": BOUNDS,
    "categories": CATEGORIES,
    "by": "arm",
    "bins": {"age": [18, 40, 60, 90]},
}
WITHOUT_NOISE = {**OPTIONS, "epsilon": np.inf}


def estimate(description, *where, **which):
    return description.cell(*where, **which).estimate


# What is estimated


def test_without_noise_numbers_are_those_of_pandas():
    description = dp_describe(FRAME, **WITHOUT_NOISE)
    clipped = FRAME.assign(**{name: FRAME[name].clip(*ends) for name, ends in BOUNDS.items()})
    parts = {"overall": clipped, **dict(list(clipped.groupby("arm")))}
    for group, part in parts.items():
        assert estimate(description, "count", group=group) == pytest.approx(len(part))
        for name in BOUNDS:
            of_group = {"variable": name, "group": group}
            width = BOUNDS[name][1]
            for statistic in ("mean", "std"):
                exact = getattr(part[name], statistic)()
                found = estimate(description, statistic, **of_group)
                assert found == pytest.approx(exact, abs=1e-5 * width), (group, name, statistic)
            missing = estimate(description, "missing", **of_group)
            assert missing == pytest.approx(part[name].isna().mean())
        for name, levels in CATEGORIES.items():
            if name == "arm":
                continue
            shares = part[name].value_counts(normalize=True)
            for level in levels:
                of_level = {"variable": name, "level": level, "group": group}
                assert estimate(description, "share", **of_level) == pytest.approx(shares[level])
                count = estimate(description, "count", **of_level)
                assert count == pytest.approx((part[name] == level).sum())
        exact, _ = np.histogram(part["age"].dropna(), OPTIONS["bins"]["age"])
        labels = ["[18, 40)", "[40, 60)", "[60, 90]"]
        found = [estimate(description, "count", "age", label, group) for label in labels]
        np.testing.assert_allclose(found, exact, atol=1e-6)


@pytest.mark.parametrize("relation", ["replace_one", ADD])
def test_with_little_noise_numbers_are_near_those_without(relation):
    exact = dp_describe(FRAME, **WITHOUT_NOISE, neighboring_relation=relation)
    options = {"epsilon": 1e4, "delta": 1e-2, "neighboring_relation": relation, "random_state": 0}
    with pytest.warns(SeedWarning):
        noisy = dp_describe(FRAME, **OPTIONS, **options)
    assert [cell[:4] for cell in noisy.cells_] == [cell[:4] for cell in exact.cells_]
    for one, other in zip(noisy.cells_, exact.cells_, strict=True):
        scale = 1_000.0 if one.variable == "income" else 1.0
        assert one.estimate == pytest.approx(other.estimate, abs=0.5 * scale, rel=0.05), one
        assert one.low <= one.estimate <= one.high or one.statistic == "std"


def test_tables_of_all_libraries_are_described_alike():
    columns = {name: FRAME[name].tolist() for name in FRAME}
    tables = [
        columns,
        {name: FRAME[name].to_numpy() for name in FRAME},
        FRAME.convert_dtypes(),
        FRAME.astype({"arm": "category", "sex": "category"}),
        pl.from_pandas(FRAME),
        pa.Table.from_pandas(FRAME),
        dd.from_pandas(FRAME, npartitions=3),
    ]
    expected = dp_describe(FRAME, **WITHOUT_NOISE).cells_
    for table in tables:
        for one, other in zip(dp_describe(table, **WITHOUT_NOISE).cells_, expected, strict=True):
            assert one[:4] == other[:4] and one.estimate == pytest.approx(
                other.estimate, nan_ok=True
            )


def test_columns_of_an_array_are_numbered():
    table = FRAME[["age", "income"]].to_numpy()
    bounds = dict(enumerate(BOUNDS.values()))
    description = dp_describe(table, bounds=bounds, epsilon=np.inf)
    assert estimate(description, "mean", 0) == pytest.approx(
        FRAME["age"].clip(18, 90).mean(), abs=1e-4
    )


def test_what_is_not_listed_is_other_and_what_is_missing_is_counted():
    table = pd.DataFrame(
        {"x": ["a", "b", "z", None, np.nan, ["list"], 3, pd.NaT], "g": ["u", "v", "w", None] * 2}
    )
    description = dp_describe(table[["x"]], categories={"x": ["a", "b"]}, epsilon=np.inf)
    assert estimate(description, "count", "x", "(other)") == 3.0
    assert estimate(description, "missing", "x") == pytest.approx(3 / 8)
    assert estimate(description, "share", "x", "a") == pytest.approx(1 / 5)
    options = {"categories": {"x": ["a"], "g": ["u", "v"]}, "by": "g", "epsilon": np.inf}
    grouped = dp_describe(table, **options)
    assert estimate(grouped, "count") == 4.0
    assert estimate(grouped, "count", group="(other)") == 4.0


def test_labels_that_are_not_listed_have_a_line_if_noise_shows_them():
    rows = np.array(["a"] * 900 + ["z"] * 100)
    options = {"categories": {"x": ["a"]}, "epsilon": 1.0}
    assert "x: (other)" in str(dp_describe({"x": rows}, **options, random_state=0))
    shown = [
        "x: (other)" in str(dp_describe({"x": rows[:900]}, **options, random_state=seed))
        for seed in range(100)
    ]
    assert sum(shown) <= 2  # Expected are 0.13.


def test_a_person_counts_with_a_share_and_the_title_says_so():
    table, options = {"event": ["no", "no", "no", "yes"] * 50}, {"epsilon": np.inf}
    options |= {"categories": {"event": ["no", "yes"]}, "groups": np.repeat(np.arange(50), 4)}
    description = dp_describe(table, **options)
    assert estimate(description, "count", "event", "yes") == pytest.approx(12.5)
    for text in (str(description), description.to_html()):
        assert "a person with several rows counts in each line with the share" in text


def test_columns_of_a_dict_have_types_and_shapes():
    tables = [
        ({"x": np.float32([0.1, 0.2, 0.2])}, [0.1, 0.2]),
        ({"x": np.array([["a"], ["b"], ["b"]])}, ["a", "b"]),
        ({"x": pd.DataFrame({"x": ["a", "b", "b"]})}, ["a", "b"]),
    ]
    for table, levels in tables:
        description = dp_describe(table, categories={"x": levels}, epsilon=np.inf)
        assert [estimate(description, "count", "x", level) for level in levels] == [1.0, 2.0]


def test_bins_that_are_close_together_have_labels_of_their_own():
    table = {"x": [1_000_001.5, 1_000_003.0]}
    description = dp_describe(table, bounds={"x": (10**6, 10**6 + 10)}, bins=10, epsilon=np.inf)
    assert estimate(description, "count", "x", "[1000003, 1000004)") == 1.0
    assert str(description).count("x: [") == 10


def test_small_numbers_are_printed_with_digits_that_tell_them_apart():
    description = dp_describe({"x": [1e-9, 2e-9, 3e-9]}, bounds={"x": (0, 1e-8)}, epsilon=np.inf)
    assert "0.0000000020" in str(description)


def test_values_outside_of_bounds_are_clipped():
    table = {"x": [-np.inf, -5.0, 0.5, 1e308, np.inf, None]}
    description = dp_describe(table, bounds={"x": (0, 1)}, bins=2, epsilon=np.inf)
    assert estimate(description, "mean", "x") == pytest.approx(0.5)
    assert estimate(description, "count", "x", "[0.5, 1]") == 3.0


def test_all_rows_of_a_person_count_for_one():
    groups = np.sort(rng.integers(0, 200, N))
    description = dp_describe(FRAME.drop(columns="arm"), groups=groups, **without("arm"))
    known = FRAME["age"].clip(18, 90)
    weights = 1.0 / np.bincount(groups)[groups]
    held = ~known.isna()
    mean = np.average(known[held], weights=weights[held])
    assert estimate(description, "count") == len(set(groups)) == description.plan_.n_samples
    assert estimate(description, "mean", "age") == pytest.approx(mean, abs=1e-4)
    share = np.average(FRAME["sex"] == "f", weights=weights)
    assert estimate(description, "share", "sex", "f") == pytest.approx(share, abs=1e-5)
    copies = np.append(np.arange(N), np.repeat(7, 500))
    options = {**without("arm"), "epsilon": 1.0, "random_state": 0}
    with pytest.warns(SeedWarning):
        once, many = (
            dp_describe(FRAME.drop(columns="arm").iloc[rows], groups=rows, **options)
            for rows in (np.arange(N), copies)
        )
    for one, other in zip(once.cells_, many.cells_, strict=True):
        np.testing.assert_allclose(one[4:], other[4:], rtol=1e-4, atol=1e-4)


def without(by):
    categories = {name: levels for name, levels in CATEGORIES.items() if name != by}
    return {"bounds": BOUNDS, "categories": categories, "epsilon": np.inf}


# What a row can move


def layouts():
    """Layouts with and without groups, numbers, histograms and categories."""
    for n_numbers, n_binned, n_categories, groups in itertools.product(
        (0, 1, 2), (0, 1), (0, 1, 2), (None, ["u"], ["u", "v"])
    ):
        if n_binned > n_numbers or not (n_numbers + n_categories or groups):
            continue
        bounds = {f"x{k}": (-1, 1) for k in range(n_numbers)}
        categories = {f"c{k}": [0, 1] for k in range(n_categories)}
        categories |= {"by": groups} if groups else {}
        bins = {"x0": 3} if n_binned else None
        for relation in ("replace_one", ADD):
            names = [*bounds, *categories]
            by = "by" if groups else None
            yield _plan.make_layout(names, bounds, categories, by, bins, relation), relation


def vectors(layout):
    """What rows of extreme and other values add, as rows of a matrix."""
    cells = {}
    for block in layout.blocks:
        if block.bounds is None:
            cells[block.name] = range(len(block.levels) + 2)
        else:
            cells[block.name] = [-1.0, -0.8, 0.0, 0.3, 1.0, np.nan]
    if layout.by is not None:
        cells[layout.by] = range(len(layout.levels) + 2)
    found = []
    for row in itertools.product(*cells.values()):
        codes = {name: np.array([cell]) for name, cell in zip(cells, row, strict=True)}
        sums = _describe.exact_sums(layout, codes, np.array([_describe.PERSON_UNIT]))
        sums = layout.scales * sums / _describe.PERSON_UNIT
        found.append(sums[:, 0 if layout.is_counted else 1 :].ravel())
    return np.array(found)


def test_the_sensitivity_is_that_of_brute_force():
    for layout, relation in layouts():
        rows = vectors(layout)
        squares = np.sum(rows**2, axis=1)
        if relation == "replace_one":
            products = rows @ rows.T
            apart = np.sqrt(np.max(squares[:, None] + squares - 2.0 * products))
        else:
            apart = np.sqrt(squares.max())
        assert apart == pytest.approx(layout.sensitivity(relation == "replace_one"), rel=1e-12)
        assert rows.shape[1] == layout.n_released


def test_numbers_between_and_persons_of_several_rows_move_no_more():
    """Random tables of one person each, whose rows have any values, and weights that add up to one."""
    generator = np.random.default_rng(0)
    bounds, categories = {"x0": (-1, 1), "x1": (-1, 1)}, {"c": [0, 1], "by": ["u", "v"]}
    for by in ("by", None):
        own = dict(list(categories.items())[: None if by else 1])
        names = [*bounds, *own]
        layout = _plan.make_layout(names, bounds, own, by, {"x0": 2}, ADD)
        found = []
        for _ in range(1500):
            n = generator.integers(1, 5)
            codes = {name: generator.choice([-1, 1, np.nan, 0.1], n) for name in bounds}
            codes |= {name: generator.integers(0, 4, n) for name in own}
            codes["x1"] = np.where(
                generator.random(n) < 0.5, generator.uniform(-1, 1, n), codes["x1"]
            )
            sums = _describe.exact_sums(layout, codes, _describe.weights_of(np.zeros(n, dtype=int)))
            found.append((layout.scales * sums / _describe.PERSON_UNIT).ravel())
        found = np.array(found)
        squares = np.sum(found**2, axis=1)
        apart = np.max(squares[:, None] + squares - 2.0 * found @ found.T)
        assert np.sqrt(squares.max()) <= layout.sensitivity(False) * (1 + 1e-12)
        public = _plan.make_layout(names, bounds, own, by, {"x0": 2}, "replace_one")
        assert np.sqrt(apart) <= public.sensitivity(True) * (1 + 1e-12)


def test_a_person_of_very_many_rows_moves_no_more():
    """Weights of rows are whole numbers, and rounding each of them does not add up."""
    layout = _plan.make_layout(["x"], {"x": (-1, 1)}, {}, None, None, ADD)
    for value in (0.999_999, -0.5, 1e-9):
        n = _describe.PERSON_UNIT // 3 + 5
        weights = _describe.weights_of(np.zeros(n, dtype=int))
        sums = _describe.exact_sums(layout, {"x": np.full(n, value)}, weights)
        assert np.linalg.norm(layout.scales * sums / _describe.PERSON_UNIT) <= layout.sensitivity(
            False
        )


# What it costs


def describe(table, **options):
    """A description of a frame, as `replay` calls it."""
    return dp_describe(table, **{**OPTIONS, "epsilon": 1.0, **options})


RECORDS = {
    "opposite": ["a", 1e9, "m", 3.0, True],
    "another group": ["b", -1e9, "f", 1.0, False],
    "missing": ["c", np.nan, None, np.nan, True],
    "no group": ["z", 5.0, "z", 9.0, False],
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_description_passes_a_replay(name):
    table = FRAME.astype({"sex": object, "arm": object, "smoker": object}).copy()
    table.loc[0] = [-1e9, -1e9, "f", 1.0, False, "a"]
    group, number, sex, stage, smoker = RECORDS[name]
    record = np.array([number, number, sex, stage, smoker, group], dtype=object)
    found = replay(describe, table, None, record)
    assert found.passed and found.n_releases == 1 and 0.4 < found.largest_share <= 1.0, str(found)


def test_a_description_of_a_private_size_passes_a_replay():
    def added(table, **options):
        return describe(table, neighboring_relation=ADD, delta=1e-5, **options)

    added.keywords = {"neighboring_relation": ADD}
    found = replay(PartialOf(added), FRAME, None, None)
    assert found.passed and found.largest_share > 0.6, str(found)


class PartialOf:
    """A function with the keywords that `replay` asks for."""

    def __init__(self, function):
        self.function, self.keywords = function, function.keywords

    def __call__(self, *args, **options):
        return self.function(*args, **options)


def test_persons_pass_a_replay():
    groups = np.append([0, 0, 0], np.arange(1, N - 2))
    table = FRAME.drop(columns=["sex", "stage", "smoker", "arm"])
    table.iloc[:3] = [-1e9, -1e9]

    def persons(table, **options):
        return dp_describe(table, bounds=BOUNDS, epsilon=1.0, **options)

    found = replay(persons, table, None, np.full((3, 2), 1e9), index=range(3), groups=groups)
    assert found.passed and found.largest_share > 0.99, str(found)


def planted_noise(monkeypatch, factor):
    monkeypatch.setattr(
        _describe,
        "release_vector",
        lambda values, scale, *others: release_vector(values, factor * scale, *others),
    )


def test_half_the_noise_is_found(monkeypatch):
    planted_noise(monkeypatch, 0.5)
    table = FRAME[["age", "income"]].copy()
    table.iloc[0] = -1e9

    def numbers(table, **options):
        return dp_describe(table, bounds=BOUNDS, epsilon=1.0, **options)

    found = replay(numbers, table, None, np.full(2, 1e9))
    assert found.largest_share > 1.9 and "sensitivity" in {one.kind for one in found.violations}


def test_noise_of_half_the_size_that_is_said_is_found(monkeypatch):
    def half(values, scale, generator, *others):
        noisy = release_vector(values, scale, generator, *others)
        return values + 0.5 * (noisy - values)

    monkeypatch.setattr(_describe, "_release", planted_release(half))
    found = replay(describe, FRAME, None, FRAME.iloc[1].to_numpy())
    assert found.violations


def planted_release(release):
    before = _describe._release

    def planted(*args):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_describe, "release_vector", release)
            return before(*args)

    return planted


def test_noise_is_as_large_as_the_plan_says():
    """Likelihood ratios of two neighbouring tables: their separation is what is charged."""
    first, second = (
        pd.DataFrame({"x": [x, *np.zeros(9)], "y": [x, *np.zeros(9)]}) for x in (-1.0, 1.0)
    )
    bounds = {"x": (-1, 1), "y": (-1, 1)}
    layout = _plan.make_layout(["x", "y"], bounds, {}, None, None, "replace_one")
    plan = _plan.plan_layout(layout, 10, 1.0, 1e-5, "replace_one")
    sums = []
    for table in (first, second):
        codes = {name: table[name].to_numpy() for name in bounds}
        sums.append(_describe.exact_sums(layout, codes, np.full(10, _describe.PERSON_UNIT)))
    direction = (layout.scales * (sums[1] - sums[0]) / _describe.PERSON_UNIT)[:, 1:].ravel()
    scores = []
    for own in sums:
        generator = np.random.default_rng(len(scores))
        released = [_describe._release(layout, own, plan, generator)[:, 1:] for _ in range(20_000)]
        scores.append(np.reshape(released, (20_000, -1)) @ direction)
    apart = (scores[1].mean() - scores[0].mean()) / scores[0].std()
    assert apart == pytest.approx(plan.cost.mu, rel=0.08)
    assert apart < plan.cost.mu * 1.08


def test_a_ledger_is_charged_what_the_plan_costs():
    options = {"bounds": BOUNDS, "categories": CATEGORIES, "by": "arm", "epsilon": 0.7}
    plan = plan_description(N, **options)
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        description = dp_describe(FRAME, **options)
        assert ledger.spent == plan.cost == description.privacy_cost_
        with pytest.raises(BudgetExceededError):
            dp_describe(FRAME, **options)
        assert ledger.spent == plan.cost
    assert description.plan_ == plan
    assert 0.699 < description.spent_epsilon_ <= 0.7 and description.spent_delta_ == plan.delta


@pytest.mark.parametrize("relation", ["replace_one", ADD])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_noise_is_that_of_the_whole_vector(epsilon, relation):
    options = {**OPTIONS, "neighboring_relation": relation, "delta": 1e-6, "epsilon": epsilon}
    plan = plan_description(N, **options)
    assert plan.sensitivity / plan.noise_scale == pytest.approx(plan.cost.mu, rel=1e-4)
    assert plan.sensitivity / plan.noise_scale < plan.cost.mu
    assert plan.epsilon <= epsilon
    # Two numbers, a histogram and three categories, and the count.
    lengths = {"replace_one": max(4 * 2 + 2 * 4, 2 * (1 + 3 + 4)), ADD: 1 + 3 + 4}
    assert plan.sensitivity == pytest.approx(np.sqrt(lengths[relation]))


@pytest.mark.parametrize("relation", ["replace_one", ADD])
def test_sums_stay_exact_however_small_the_noise_might_be(relation):
    """A lattice of such small noise would end before the number of rows."""
    options = {"neighboring_relation": relation, "delta": 1e-6, "epsilon": 1e8}
    table = {"c": np.repeat([0, 1], 50_000)}
    description = dp_describe(table, categories={"c": [0, 1]}, **options)
    assert estimate(description, "count", "c", 1) == pytest.approx(50_000, abs=1.0)


def test_a_report_says_whether_there_was_a_seed():
    table = FRAME[["age", "income"]]
    with pytest.warns(SeedWarning):
        seeded = dp_describe(table, bounds=BOUNDS, epsilon=5.0, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unseeded = dp_describe(table, bounds=BOUNDS, epsilon=5.0)
    assert "random_state was given" in repr(privacy_report(seeded))
    assert "random_state was given" not in repr(privacy_report(unseeded))


def test_a_warning_that_is_an_error_carries_what_was_paid_for():
    options = {"bounds": BOUNDS, "epsilon": 0.05, "delta": 1e-6, "neighboring_relation": ADD}
    ledger = PrivacyLedger(epsilon=1.0, delta=1e-5, neighboring_relation=ADD)
    with ledger, warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PrivacyWarning, match="more than a fifth") as caught:
            dp_describe(FRAME[["age", "income"]][:50], **options)
        assert caught.value.score.privacy_cost_ == ledger.spent


def test_noise_that_drowns_a_public_number_is_told_before_the_charge():
    with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger, warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PrivacyWarning, match="a group has 200 of them on average"):
            describe(FRAME, epsilon=0.05)
        assert ledger.spent.is_zero


# What is refused, and says what to do


def changed(**options):
    return lambda: dp_describe(FRAME, **{**OPTIONS, "epsilon": 1.0, **options})


def of_table(table, **options):
    return lambda: dp_describe(table, epsilon=1.0, **options)


NO_AGE = {name: ends for name, ends in BOUNDS.items() if name != "age"}
ERRORS = {
    "NaN bound": (
        changed(bounds={**BOUNDS, "age": (np.nan, 90)}),
        r"bounds\['age'\] must be two finite",
    ),
    "bounds in the wrong order": (changed(bounds={**BOUNDS, "age": (90, 18)}), "low < high"),
    "equal bounds": (changed(bounds={**BOUNDS, "age": (18, 18)}), "low < high"),
    "three bounds": (changed(bounds={**BOUNDS, "age": (18, 20, 30)}), "two finite numbers"),
    "bounds that are no pair": (changed(bounds={**BOUNDS, "age": 90}), r"\(low, high\), got 90"),
    "bounds that are no dict": (changed(bounds=(18, 90)), "bounds"),
    "a column without bounds": (
        changed(bounds=NO_AGE, bins=None),
        r"bounds={'age': \(low, high\)}.*drop",
    ),
    "a column that is not there": (
        changed(bounds={**BOUNDS, "agee": (1, 2)}),
        "not in the table: 'agee'",
    ),
    "bounds and categories": (
        changed(categories={**CATEGORIES, "age": [1, 2]}),
        "bounds and categories",
    ),
    "no list of groups": (changed(by="age"), "by='age' must be a column of which categories"),
    "categories in a string": (
        changed(categories={**CATEGORIES, "sex": "fm"}),
        "must be a list of labels",
    ),
    "a label that is a name of ours": (
        of_table({"c": ["(other)", "a", "z"]}, categories={"c": ["(other)", "a"]}),
        "may not list '\\(other\\)'",
    ),
    "labels of another type in a dict": (
        of_table({"c": np.array([1, 2])}, categories={"c": ["1", "2"]}),
        "match no cell",
    ),
    "labels that missing values round": (
        of_table({"c": np.array([2.0**53, np.nan])}, categories={"c": [2**53 + 1]}),
        "round integers",
    ),
    "a column for its name": (changed(by=pd.Series(["secret"])), "by must be the name of a column"),
    "a column for its bounds": (
        changed(bounds={**BOUNDS, "age": np.array(["secret"] * 3)}),
        "two finite numbers, got 3",
    ),
    "a column for its bins": (changed(bins={"age": pd.Series(["secret"])}), "a Series"),
    "columns in another order": (
        of_table(
            {"x": pd.Series([0.0, 1.0]), "y": pd.Series([0.0, 1.0], index=[1, 0])},
            bounds={"x": (0, 1), "y": (0, 1)},
        ),
        "column 'y' has another index than column 'x'",
    ),
    "complex numbers": (
        of_table({"x": [0.5, np.complex128(1 + 2j)]}, bounds={"x": (0, 1)}),
        "must hold numbers",
    ),
    "a number that is no double": (
        of_table({"x": [0.5, Fraction(10**400)]}, bounds={"x": (0, 1)}),
        "must hold numbers",
    ),
    "a label twice": (changed(categories={**CATEGORIES, "sex": ["f", "f"]}), "each once"),
    "a missing label": (changed(categories={**CATEGORIES, "sex": ["f", None]}), "leave out None"),
    "labels of another type": (
        of_table(
            FRAME.astype({"sex": "string"}),
            **{**OPTIONS, "categories": {**CATEGORIES, "sex": [1, 2]}},
        ),
        "match no cell",
    ),
    "a group called overall": (
        lambda: dp_describe({"g": ["overall"]}, categories={"g": ["overall"]}, by="g", epsilon=1.0),
        "rename them",
    ),
    "bins of a category": (changed(bins={"sex": 3}), "columns without bounds: 'sex'"),
    "edges that do not increase": (changed(bins={"age": [18, 18, 90]}), "must increase"),
    "edges within the bounds": (changed(bins={"age": [20, 80]}), "must be its bounds, 18 and 90"),
    "no bin": (changed(bins={"age": 0}), "a number of bins from 1"),
    "very many bins": (changed(bins={"age": 10_000}), "a number of bins from 1"),
    "negative epsilon": (changed(epsilon=-1.0), "epsilon"),
    "delta of 1": (changed(delta=1.0), "delta"),
    "delta of 0": (changed(delta=0.0), "adds Gaussian noise, which has none.*dp_mean_score"),
    "a private size without delta": (changed(neighboring_relation=ADD), "give a delta"),
    "an unknown relation": (changed(neighboring_relation="swap"), "neighboring_relation"),
    "level of 1": (changed(level=1.0), "level"),
    "groups as text": (changed(groups="arm"), "groups is text"),
    "groups of another length": (changed(groups=[1, 2]), r"groups is of shape \(2,\)"),
    "an empty table": (of_table({"x": []}, bounds={"x": (0, 1)}), "has no rows"),
    "columns of two lengths": (
        of_table({"x": [1.0], "y": [1.0, 2.0]}, bounds={"x": (0, 1), "y": (0, 1)}),
        "same number of rows",
    ),
    "a column twice": (
        of_table(pd.DataFrame(np.ones((3, 2)), columns=["x", "x"]), bounds={"x": (0, 1)}),
        "in the table twice",
    ),
    "a single column": (of_table(FRAME["age"], bounds={"age": (0, 1)}), "of a single column pass"),
    "a lazy frame": (of_table(pl.LazyFrame({"x": [1]}), bounds={"x": (0, 1)}), "table.collect"),
    "text with bounds": (
        of_table({"x": ["secret", 2.0]}, bounds={"x": (0, 1)}),
        "must hold numbers.*pandas.to_numeric",
    ),
    "dates with bounds": (
        of_table({"x": np.array(["2020-01-01"], "M8[D]")}, bounds={"x": (0, 1)}),
        "must hold numbers",
    ),
    "nothing": (of_table(FRAME[["arm"]], categories={}), "neither bounds nor categories"),
    "no columns": (of_table(pd.DataFrame(index=[0])), "no columns"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_is_wrong_is_named_and_nothing_is_spent(name):
    act, text = ERRORS[name]
    with PrivacyLedger(epsilon=10.0, delta=1e-2) as ledger:
        with pytest.raises((ValueError, TypeError)) as caught:
            act()
        assert re.search(text, str(caught.value), re.DOTALL), str(caught.value)
        assert "secret" not in str(caught.value)
        assert ledger.spent.is_zero and not ledger.records()


def test_no_cell_is_turned_into_a_number_with_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="must hold numbers"):
            of_table({"x": [0.5, np.complex128(1 + 2j)]}, bounds={"x": (0, 1)})()


def test_a_number_that_is_not_there_is_named():
    with pytest.raises(KeyError, match="no mean of variable='sex'"):
        dp_describe(FRAME, **WITHOUT_NOISE).cell("mean", "sex")


# How it is shown


def test_it_prints_as_a_table_of_baseline_characteristics():
    description = dp_describe(FRAME, **WITHOUT_NOISE)
    head, columns, *lines = str(description).splitlines()
    assert head == "description of rows, 90% intervals, no noise"
    assert re.split(r"  +", columns.strip()) == ["overall", "arm: a", "arm: b", "arm: c"]
    starts = [re.split(r"  +", line)[0] for line in lines]
    assert starts == [
        *(
            "n",
            "age, mean",
            "age, std",
            "age, missing",
            "age: [18, 40)",
            "age: [40, 60)",
            "age: [60, 90]",
        ),
        *("income, mean", "income, std", "income, missing", "sex: f", "sex: m", "sex, missing"),
        *("stage: 1", "stage: 2", "stage: 3", "stage, missing"),
        *("smoker: False", "smoker: True", "smoker, missing"),
    ]
    assert re.search(
        r"^sex: f +\d+, \d+\.\d% \(\d+\.\d to \d+\.\d\)", "\n".join(lines), re.MULTILINE
    )
    assert description.to_html().count("<tr>") == len(lines) + 1
    assert description.to_html().count("<td>") == 4 * len(lines)
    assert description.to_markdown().count("\n") == len(lines) + 1
    assert list(description.table_.columns) == [
        *("group", "variable", "level", "statistic", "estimate", "low", "high")
    ]


def test_groups_are_shown_with_the_name_of_their_column():
    table = {"sex": [0] * 400 + [1] * 40, "x": np.linspace(0.0, 1.0, 440)}
    options = {"bounds": {"x": (0, 1)}, "categories": {"sex": [0, 1]}, "by": "sex", "delta": 1e-5}
    with pytest.warns(PrivacyWarning, match=r"number of rows in sex: 1, of which"):
        description = dp_describe(
            table, **options, epsilon=0.5, neighboring_relation=ADD, random_state=0
        )
    assert "<th>sex: 0</th><th>sex: 1</th>" in description.to_html()
    assert "| overall | sex: 0 | sex: 1 |" in description.to_markdown()
    assert description.cell("count", group=1) in description.cells_  # A program asks by the label.


def test_names_are_escaped_where_they_are_shown():
    table = {"<b>|": ["<i>", "x"]}
    description = dp_describe(table, categories={"<b>|": ["<i>", "x"]}, epsilon=np.inf)
    assert "<b>" not in description.to_html() and "&lt;b&gt;|: &lt;i&gt;" in description.to_html()
    assert "<b>\\|: <i>" in description.to_markdown()


def test_what_noise_hides_is_shown_as_such():
    with pytest.warns(PrivacyWarning, match="a group has 10 of them"):
        description = dp_describe(
            FRAME[:30], **{**OPTIONS, "epsilon": 0.1, "bins": None}, random_state=0
        )
    assert "hidden" in str(description)
    for cell in description.cells_:
        limits = BOUNDS[cell.variable] if cell.statistic == "mean" else (0.0, 1.0)
        if cell.statistic in ("mean", "share", "missing") and np.isnan(cell.estimate):
            assert limits[0] <= cell.low <= cell.high <= limits[1]


def test_without_pandas_the_table_is_a_list(monkeypatch):
    from skdpbayes.descriptive import _description

    description = dp_describe(FRAME, **WITHOUT_NOISE)
    monkeypatch.setattr(_description.importlib, "import_module", _no_pandas)
    assert description.table_[0]["statistic"] == "count"


def _no_pandas(name):
    raise ImportError(name)


def test_an_empty_table_of_a_private_size_is_described():
    table = {"x": np.empty(0), "c": np.empty(0, dtype=object)}
    options = {"neighboring_relation": ADD, "delta": 1e-5, "epsilon": 1.0}
    with pytest.warns(PrivacyWarning, match="more than a fifth"):
        description = dp_describe(table, bounds={"x": (0, 1)}, categories={"c": ["a"]}, **options)
    low, high = description.cell("mean", "x")[-2:]
    assert (low, high) == (0.0, 1.0) or 0.0 <= low < high <= 1.0


def test_a_label_that_cannot_be_compared_is_not_quoted():
    class Label:
        def __hash__(self):
            raise RuntimeError("secret")

    with pytest.raises(ValueError, match="column 'c' must hold labels") as caught:
        dp_describe({"c": [Label(), "a"]}, categories={"c": ["a"]}, epsilon=1.0)
    assert caught.value.__context__ is None
