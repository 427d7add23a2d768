"""What a release costs for persons who have several rows: by theorems, by brute force, and by attacks."""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import expit

from skdpbayes._data.privacy_units import check_groups, choose_rows
from skdpbayes.privacy import (
    BoundedRangeDecisions,
    Budget,
    PrivacyCost,
    PrivacyLedger,
    SampledGaussian,
    SelectedRun,
    privacy_report,
)
from skdpbayes.privacy.losses import PureMechanism as Pure
from skdpbayes.privacy.planned_release import PlannedRelease
from skdpbayes.privacy.units import (
    Persons,
    cost_for_persons,
    plan_for_persons,
    row_relation_and_distance,
)


@dataclass(frozen=True)
class APlan(PlannedRelease):
    cost: PrivacyCost
    persons: Persons | None = None

    def changed(self, **fields):
        return replace(self, **fields)


# Chains of rows


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("max_rows", [1, 2, 3])
def test_a_chain_of_rows_is_as_long_as_the_longest_way_between_persons(relation, max_rows):
    """By breadth-first search over the numbers of rows of the two persons, all rows being different."""
    of_rows, steps = row_relation_and_distance(relation, max_rows)

    def neighbours(state):
        old, new = state
        if of_rows == "replace_one":
            return [(old - 1, new + 1)] if old else []
        return [(old - 1, new)] * (old > 0) + [(old, new + 1)]

    longest = 0
    others = range(1, max_rows + 1) if relation == "replace_one" else [0]
    for before, after in itertools.product(range(1, max_rows + 1), others):
        reached, frontier, length = {(before, 0)}, [(before, 0)], 0
        while (0, after) not in reached:
            frontier = [s for state in frontier for s in neighbours(state) if s[1] <= after]
            reached.update(frontier)
            length += 1
            assert frontier, "there is no way: numbers of rows differ"
        longest = max(longest, length)
    assert longest == steps


# Costs


def two_point_curve(p, q, epsilon):
    """Hockey-stick divergence of two laws on few outcomes."""
    return np.maximum(p - math.exp(epsilon) * q, 0.0).sum()


@pytest.mark.parametrize("steps", [2, 3, 6])
def test_a_bit_s_cost_for_persons_is_that_of_a_chain_of_bits(steps):
    """Log-odds move by the range at each step; the best bits reach the claim, and none passes it."""
    level = 0.3
    cost = PrivacyCost("add_or_remove_one", decisions=(BoundedRangeDecisions(level, 1),))
    cost = cost_for_persons(cost, "add_or_remove_one", steps)
    for epsilon in (0.0, 0.1, 0.3 * steps * level, 0.7 * steps * level):
        reached = []
        for offset in np.linspace(-3.0, 3.0, 121):
            log_odds = offset + level * np.arange(steps + 1)
            laws = np.column_stack([expit(log_odds), expit(-log_odds)])
            reached += [two_point_curve(laws[-1], laws[0], epsilon)]
            reached += [two_point_curve(laws[0], laws[-1], epsilon)]
        assert 0.9 * cost.delta(epsilon) <= max(reached) <= cost.delta(epsilon) + 1e-12
    assert cost.pure_epsilon == pytest.approx(steps * level)


def test_a_pure_cost_for_persons_is_reached_by_discrete_laplace_counts():
    level, steps, shifts = 0.3, 4, np.arange(-200, 201)
    law = np.exp(-level * np.abs(shifts))
    law /= law.sum()
    cost = cost_for_persons(
        PrivacyCost("add_or_remove_one", pure_events=(Pure(level),)), "replace_one", steps
    )
    far = np.roll(law, steps)
    losses = np.log(law[50:-50] / far[50:-50])
    assert losses.max() == pytest.approx(cost.pure_epsilon) == pytest.approx(steps * level)
    for epsilon in (0.0, 0.5, 1.0):
        assert two_point_curve(law, far, epsilon) <= cost.delta(epsilon)


def test_gaussian_and_concentrated_costs_of_groups():
    cost = cost_for_persons(PrivacyCost("add_or_remove_one", mu=0.1, rho=0.02), "replace_one", 6)
    assert (cost.mu, cost.rho) == (pytest.approx(0.6), pytest.approx(0.72))
    assert cost.neighboring_relation == "replace_one_person"


@pytest.mark.parametrize(
    "part, named",
    [
        ({"sampled": (SampledGaussian(1.0, 0.1, 5),)}, "batch_size=None"),
        (
            {"selection_events": (SelectedRun((PrivacyCost("replace_one", mu=1.0),), 3.0),)},
            "private searches",
        ),
        ({"failure_probability": 1e-7}, "a delta of its own"),
    ],
)
def test_costs_without_a_theorem_are_refused(part, named):
    with pytest.raises(ValueError, match=named):
        cost_for_persons(PrivacyCost("add_or_remove_one", **part), "replace_one", 4)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_with_a_row_each_persons_cost_what_rows_cost(relation):
    """Thresholds that fail, and private selections, among all else that does not read batches."""
    selected = (SelectedRun((PrivacyCost(relation, mu=0.3),), 3.0),)
    rows = PrivacyCost(
        relation,
        mu=0.2,
        pure_events=(Pure(0.1),),
        selection_events=selected,
        failure_probability=1e-7,
    )
    persons = cost_for_persons(rows, relation, 1)
    assert persons.neighboring_relation == f"{relation}_person"
    for delta in (1e-8, 1e-6, 1e-3):
        assert persons.epsilon(delta) == rows.epsilon(delta)
    assert np.isinf(persons.epsilon(1e-8)) and np.isfinite(persons.epsilon(1e-6))


def test_costs_of_persons_and_of_rows_do_not_add_up():
    rows, persons = (PrivacyCost(r, mu=0.1) for r in ("replace_one", "replace_one_person"))
    assert (persons + persons).mu == pytest.approx(math.sqrt(0.02))
    with pytest.raises(ValueError, match="protect against different things"):
        rows + persons
    with pytest.raises(ValueError, match="batches draw rows"):
        PrivacyCost("replace_one_person", sampled=(SampledGaussian(1.0, 0.1, 5),))
    assert persons.dp_event() == rows.dp_event()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation, steps", [("replace_one", 8), ("add_or_remove_one", 4)])
def test_plans_use_up_the_budget_of_a_person_and_no_more(delta, relation, steps):
    asked = Budget(1.0, delta, relation)

    def make(part):
        if delta == 0:
            return APlan(
                PrivacyCost(part.neighboring_relation, pure_events=(Pure(part.epsilon / 2, 2),))
            )
        return APlan(PrivacyCost(part.neighboring_relation, mu=part.mu))

    plan = plan_for_persons(make, asked, 4)
    assert 0.9999 < plan.cost.epsilon(delta) <= 1.0
    assert plan.persons.cost_of_rows.epsilon(delta) < 1.0 / steps + 1e-12
    if delta:
        assert plan.cost.mu == pytest.approx(steps * plan.persons.cost_of_rows.mu)


def test_plans_whose_cost_is_not_gaussian_shrink_until_they_fit():
    def make(part):
        bits = BoundedRangeDecisions(
            2.0 * part.mu, 1
        )  # As many Gaussians, and more at small deltas.
        return APlan(
            PrivacyCost(part.neighboring_relation, decisions=(bits, BoundedRangeDecisions(0.1, 1)))
        )

    plan = plan_for_persons(make, Budget(1.0, 1e-6, "add_or_remove_one"), 4)
    assert 0.8 < plan.cost.epsilon(1e-6) <= 1.0


# Which rows


def test_what_is_kept_of_a_person_is_a_uniform_choice():
    persons = np.array([0, 1, 0, 2, 0, 1, 0])
    pairs = {pair: 0 for pair in itertools.combinations([0, 2, 4, 6], 2)}
    for seed in range(1200):
        kept = choose_rows(persons, 2, seed)
        assert (np.diff(kept) > 0).all()
        assert np.bincount(persons[kept], minlength=3).tolist() == [2, 2, 1]
        pairs[tuple(int(i) for i in kept if persons[i] == 0)] += 1
    assert np.abs(np.array(list(pairs.values())) - 200).max() < 5 * math.sqrt(200)


@pytest.mark.nightly
def test_what_is_kept_of_a_person_does_not_depend_on_others():
    """The joint law of two persons' choices is the product."""
    persons = np.array([0, 0, 1, 1])
    counts = np.zeros((2, 2))
    for seed in range(2000):
        first, second = choose_rows(persons, 1, seed)
        counts[first, second - 2] += 1
    assert np.abs(counts - 500).max() < 5 * math.sqrt(500)


def test_choices_are_not_those_of_the_noise():
    from skdpbayes.random import private_generator

    order = private_generator(3).permutation(50)
    assert not np.array_equal(np.sort(order[:25]), choose_rows(np.zeros(50, int), 25, 3))


@pytest.mark.parametrize(
    "groups, max_rows, named",
    [
        (np.zeros(3), None, "max_rows_per_group is None"),
        (None, 2, "groups="),
        (np.array([0.0, np.nan, 1.0]), 2, "missing"),
        (np.array(["a", None, "b"], dtype=object), 2, "missing"),
        (np.array(["a", 1, "b"], dtype=object), 2, "astype"),
        (np.zeros(4), 2, "one label for each row"),
        (np.zeros((3, 2)), 2, "one label for each row"),
    ],
)
def test_groups_that_cannot_be_meant_are_refused(groups, max_rows, named):
    with pytest.raises(ValueError, match=named):
        check_groups(groups, max_rows, 3)


# Books


def test_a_ledger_for_persons_takes_no_rows(tmp_path):
    relation = "add_or_remove_one_person"
    path = tmp_path / "a.ledger"
    PrivacyLedger(1.0, 1e-5, relation, path=path).reserve(PrivacyCost(relation, mu=0.1))
    ledger = PrivacyLedger.open(path)
    with pytest.raises(ValueError, match="different things"):
        ledger.reserve(PrivacyCost("add_or_remove_one", mu=0.1))
    assert ledger.spent == PrivacyCost(relation, mu=0.1)
    report = privacy_report(ledger)
    assert report["deployment"]["privacy_loss"]["privacy_unit"] == "User-level"
    assert report["details"]["neighbors"] == "unbounded"


def test_samplers_plan_for_rows_only():
    with pytest.raises(ValueError, match="neighboring_relation"):
        Budget(1.0, 1e-5, "replace_one_person").checked()
