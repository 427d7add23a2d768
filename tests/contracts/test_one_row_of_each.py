"""Quantiles of persons with several rows: one row of each is read, and costs a person what it costs a row."""

import itertools
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.kernel_approximation import RBFSampler

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes._data import read
from skdpbayes._data.privacy_units import choose_with_firsts
from skdpbayes._mechanisms.exponential import distances, run_weights
from skdpbayes.audit import replay
from skdpbayes.pipeline import _pipeline, make_private_pipeline
from skdpbayes.pipeline._report import costs_of_steps
from skdpbayes.preprocessing import (
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    _base,
    quantile_scaler,
)
from skdpbayes.privacy import BoundedRangeDecisions, Budget, PrivacyCost, PrivacyLedger, units
from skdpbayes.privacy.losses import between_persons
from skdpbayes.privacy.planned_release import PlannedRelease
from skdpbayes.privacy.units import cost_for_persons, plan_for_persons

# The law of a draw, exactly, on all small tables of persons with up to two rows.

LEVEL, K = 0.6, 2
VALUES = (0, 2, None)
PERSONS = [
    rows for size in (1, K) for rows in itertools.combinations_with_replacement(VALUES, size)
]
EPSILONS = np.linspace(0.0, K * LEVEL, 13)


@cache
def law(rows, quantile, level=LEVEL):
    """Probabilities of three candidates, as the mechanism weighs them."""
    counts = np.bincount([v for v in rows if v is not None], minlength=3)
    # There is nothing between candidates.
    weights = np.array(run_weights(distances(counts, quantile)[1::2], [1] * 3, level), dtype=float)
    return weights / weights.sum()


def one_of_each(table):
    """All choices of a row of each person, which are equally likely."""
    return [tuple(sorted(rows, key=str)) for rows in itertools.product(*table)]


def two_of_each(table):
    return [tuple(sorted(itertools.chain(*(p[:2] for p in table)), key=str))]


def nearest_to_the_others(table):
    """Of each person the row that is nearest to the mean of all: one row of each, but not by chance alone."""
    held = [v for person in table for v in person if v is not None]
    mean = np.mean(held) if held else 0.0
    return [tuple(min(person, key=lambda v: abs((v or 0) - mean)) for person in table)]


def mixture(choices, quantile):
    return np.mean([law(rows, quantile) for rows in choices], axis=0)


def pairs(relation):
    for others in itertools.combinations_with_replacement(PERSONS, 2):
        for person in PERSONS:
            if relation == "add_or_remove_one_person":
                yield others, (*others, person)
            else:
                yield from (((*others, person), (*others, another)) for another in PERSONS)


def deltas(first, second):
    return np.maximum(first - np.exp(EPSILONS)[:, None] * second, 0.0).sum(axis=1)


def excess(relation, chosen, quantile, paid):
    """The most by which a delta exceeds what is paid for, over all pairs of neighbours, either way around."""
    most = -np.inf
    for pair in pairs(relation):
        laws = [mixture(chosen(table), quantile) for table in pair]
        for first, second in (laws, laws[::-1]):
            most = max(most, (deltas(first, second) - paid).max())
    return most


def paid_for(*ranges):
    cost = PrivacyCost(
        "replace_one", decisions=tuple(BoundedRangeDecisions(one, 1) for one in ranges)
    )
    return np.array([cost.delta(epsilon) for epsilon in EPSILONS])


@pytest.mark.parametrize("quantile", [0.1, 0.25, 0.5])
@pytest.mark.parametrize("relation", ["replace_one_person", "add_or_remove_one_person"])
def test_a_draw_from_one_row_of_each_person_costs_what_a_row_costs(relation, quantile):
    """Brute force of Proposition 54: all tables of three persons, and all choices of their rows."""
    paid = paid_for(LEVEL)
    assert excess(relation, one_of_each, quantile, paid) <= 1e-9


@pytest.mark.parametrize("chosen, quantile", [(two_of_each, 0.25), (nearest_to_the_others, 0.5)])
def test_a_draw_from_two_rows_or_from_rows_that_others_decide_costs_more(chosen, quantile):
    """The check can fail: planted bugs."""
    assert excess("replace_one_person", chosen, quantile, paid_for(LEVEL)) > 1e-2


def test_a_draw_from_one_row_composes_with_one_from_all_rows():
    """Both read the same rows: the joint law, averaged over choices, against the sum of both costs."""
    paid = paid_for(LEVEL, 2 * K * 0.1)
    most = -np.inf
    for pair in pairs("replace_one_person"):
        joint = []
        for table in pair:
            rows = tuple(sorted(itertools.chain(*table), key=str))
            product = np.outer(mixture(one_of_each(table), 0.5), law(rows, 0.5, 0.1))
            joint.append(product.ravel())
        most = max(most, (deltas(*joint) - paid).max())
    assert most <= 1e-9


def test_the_first_of_a_person_is_any_of_its_rows_whatever_others_have():
    persons = np.array([0, 1, 0, 2, 0, 1, 0])
    counts = np.zeros((7, 7))
    for seed in range(2000):
        kept, is_first = choose_with_firsts(persons, 2, seed)
        firsts = kept[is_first]
        assert sorted(persons[firsts]) == [0, 1, 2]
        first, second = (firsts[persons[firsts] == p][0] for p in (0, 1))
        counts[first, second] += 1
    joint = counts[np.ix_([0, 2, 4, 6], [1, 5])]
    assert np.abs(joint - 250).max() < 5 * np.sqrt(250)


# Pipelines

M = 3
WHO = np.repeat(np.arange(400), M)
AGES = pd.DataFrame({"age": np.arange(WHO.size) * 7.0 % 60.0})
AGES["word"] = np.where(np.arange(WHO.size) % 2, "left", "right").astype(object)
Y = np.arange(WHO.size) % 2


def pipeline(**options):
    scaled = [("numbers", DPQuantileScaler(), ["age"]), ("text", DPOneHotEncoder(), ["word"])]
    model = DPBayesianLogisticRegression(classes=[0, 1], n_draws=5)
    options = {"epsilon": 20.0, "delta": 1e-3, "max_rows_per_group": M, **options}
    return make_private_pipeline(ColumnTransformer(scaled), model, **options)


@pytest.mark.filterwarnings("ignore")
def test_a_scaler_counts_one_row_of_each_person_and_plans_for_persons(monkeypatch):
    seen, read = [], quantile_scaler.values_of_column

    def counted(rows, column):
        seen.append(np.sort(rows.X[:, 0]))
        return read(rows, column)

    monkeypatch.setattr(quantile_scaler, "values_of_column", counted)
    frame = AGES.assign(age=WHO.astype(float))
    pipe = pipeline(max_rows_per_group=2).fit(frame, Y, groups=WHO)
    np.testing.assert_array_equal(seen[-1], np.arange(400))
    plan = pipe[0].named_transformers_["numbers"].plan_
    assert plan.n_samples == 400
    assert pipe.plan_.of_one_row == ("columntransformer__numbers",)
    assert pipe.plan_.cost.decisions == plan.cost.decisions
    assert pipe.spent_epsilon_ <= 20.0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_choices_from_one_row_have_a_budget_of_persons(relation, delta):
    """As sharp as for persons with one row each, whatever their number of rows."""
    sizes = {"neighboring_relation": relation}
    sizes |= {"public_size": 3000} if relation == "add_or_remove_one" else {}
    last = DPBayesianLogisticRegression(**sizes) if delta else DPQuantileScaler(**sizes)
    ranges = []
    for k in (1, 3):
        steps = DPQuantileScaler(**sizes), DPImputer("median", **sizes), last
        pipe = make_private_pipeline(*steps, epsilon=1.0, delta=delta, max_rows_per_group=k)
        plan = pipe.privacy_plan(3000, 4)
        assert plan.epsilon <= 1.0
        ranges.append(sorted({one.log_odds_range for one in plan.cost.decisions}))
    assert ranges[1] == pytest.approx(ranges[0], rel=0.06)


def test_other_releases_from_one_row_of_each_are_not_planned():
    class APlan(PlannedRelease):
        cost = cost_of_all_rows = PrivacyCost("add_or_remove_one", mu=0.01)
        cost_of_single_row_steps = PrivacyCost("add_or_remove_one", mu=0.01)

    with pytest.raises(ValueError, match="only choices"):
        plan_for_persons(lambda budget: APlan(), Budget(1.0, 1e-6, "replace_one"), 3)


@pytest.mark.filterwarnings("ignore")
def test_the_last_step_reads_all_rows_that_are_kept():
    steps = DPImputer("median"), DPQuantileScaler()
    pipe = make_private_pipeline(*steps, epsilon=9.0, delta=0.0, max_rows_per_group=M)
    plan = pipe.privacy_plan(400, 1)
    assert plan.of_one_row == ("dpimputer",)
    costs = costs_of_steps(plan)
    assert costs["dpimputer"].decisions == plan.step_costs["dpimputer"].decisions
    assert costs["dpquantilescaler"].epsilon(0.0) == pytest.approx(
        2 * M * plan.step_costs["dpquantilescaler"].epsilon(0.0)
    )


@pytest.mark.filterwarnings("ignore")
def test_a_seed_of_the_last_step_chooses_the_same_rows_twice():
    found = []
    for _ in range(2):
        pipe = pipeline(max_rows_per_group=1)
        seeds = {name: 3 for name in pipe.get_params() if name.endswith("random_state")}
        pipe.set_params(**seeds).fit(AGES.assign(age=np.arange(WHO.size) / 7.0), Y, groups=WHO)
        found.append(pipe[-1].coef_)
    np.testing.assert_array_equal(*found)


# Two tables that differ in a person

SMALL = slice(0, 40 * M)


def replayed(row=(1e9, "left"), label=0):
    frame, labels = AGES.iloc[SMALL].copy(), Y[SMALL].copy()
    frame.loc[: M - 1], labels[:M] = [-1e9, "left"], 0
    far = {"X": [row] * M, "y": label}
    return replay(pipeline(), frame, labels, far, index=range(M), groups=WHO[SMALL])


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_a_person_moves_quantiles_as_far_as_a_row_may():
    found = replayed()
    assert not found.violations, str(found)
    assert found.largest_share > 0.5


def two_rows(persons, *args):
    kept, is_first = choose_with_firsts(persons, *args)
    return kept, is_first | np.roll(is_first.reshape(-1, M), 1, axis=1).ravel()


def all_rows(X, only):
    return X


def by_comparison(X, only):
    """One row of each person, that which is nearest to the middle of all."""
    if only is None:
        return X
    far = np.abs(X[:, 0] - X[:, 0].mean()).reshape(-1, M)
    return X[np.arange(len(far)) * M + far.argmin(axis=1)]


BUGS = {
    "two rows": (_pipeline, "choose_with_firsts", two_rows, "sensitivity"),
    "all rows": (read, "chosen_rows", all_rows, "sensitivity"),
    "choice by comparison": (read, "chosen_rows", by_comparison, "sensitivity"),
    "all rows, and said": (_base, "rows_paid_for", lambda step: None, "cost"),
}


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_a_person_who_leaves_moves_nobody_elses_rows():
    """Taken out, with all of its rows: the choice of other persons' rows is the same in both runs."""
    pipe = pipeline().set_params(
        dpbayesianlogisticregression__neighboring_relation="add_or_remove_one",
        dpbayesianlogisticregression__public_size=40,
    )
    found = replay(pipe, AGES.iloc[SMALL], Y[SMALL], None, index=range(M), groups=WHO[SMALL])
    assert not found.violations, str(found)
    assert found.largest_share > 0.1


def free_quantiles(cost, relation):
    return PrivacyCost(between_persons(relation))


def one_step(cost, relation, steps, mu=None, *hidden):
    return cost_for_persons(cost, relation, 1, None, *hidden)


COSTS = {"quantiles for nothing": ("_cost_of_one_row", free_quantiles)}
COSTS["a person for the price of a row"] = ("cost_for_persons", one_step)


@pytest.mark.daily(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bug", COSTS)
def test_a_planted_bug_in_the_cost_for_persons_is_found(bug, monkeypatch):
    monkeypatch.setattr(units, *COSTS[bug])
    assert "cost" in {one.kind for one in replayed([1e9, "right"], 1).violations}


@pytest.mark.filterwarnings("ignore")
def test_the_seed_of_a_step_that_costs_nothing_chooses_no_rows(monkeypatch):
    """It may be public, and is no seed of noise for a ledger."""
    seen = set()

    def watched(*args):
        kept, is_first = choose_with_firsts(*args)
        seen.add(tuple(kept[is_first]))
        return kept, is_first

    monkeypatch.setattr(_pipeline, "choose_with_firsts", watched)
    for _ in range(3):
        steps = DPQuantileScaler(), RBFSampler(random_state=0)
        pipe = make_private_pipeline(*steps, epsilon=1.0, delta=0.0, max_rows_per_group=M)
        with PrivacyLedger(1.0, 0.0, neighboring_relation="replace_one_person"):
            pipe.fit(AGES[["age"]], groups=WHO)
    assert len(seen) == 3


@pytest.mark.daily(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_in_the_choice_of_rows_is_found(bug, monkeypatch):
    where, name, wrong, kind = BUGS[bug]
    monkeypatch.setattr(where, name, wrong)
    assert kind in {one.kind for one in replayed().violations}
