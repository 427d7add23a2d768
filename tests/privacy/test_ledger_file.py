"""A ledger in a file: composition is exact whoever opens it, and the history is what happened."""

import dataclasses
import os
import pickle
import re
import signal
import sqlite3
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from children import in_a_child
from sklearn.datasets import make_classification

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import BudgetExceededError
from skdpbayes.privacy import (
    BoundedRangeDecisions,
    PoissonGaussian,
    PrivacyCost,
    PrivacyLedger,
    PureMechanism,
    SampledGaussian,
    SelectedRun,
)
from skdpbayes.privacy.budget import round_down_epsilon
from skdpbayes.privacy.ledger_file import cost_from_text, cost_to_text
from skdpbayes.samplers import SGLD

X, y = make_classification(200, 3, n_redundant=0, random_state=0)
MODEL = DPBayesianLogisticRegression(0.5, delta=1e-6, sampler="sgld", n_draws=5, random_state=0)
SMALL = PrivacyCost("replace_one", mu=0.05)
EVERYTHING = PrivacyCost(
    "replace_one",
    mu=np.float64(0.1) / 3,
    sampled=(SampledGaussian(30.0, 1 / 3, 10), SampledGaussian(31.0, 0.1, np.int64(7))),
    counted=(PoissonGaussian(100.0, 0.7, 3),),
    decisions=(BoundedRangeDecisions(1e-3 / 7, 20),),
    rho=1e-4 / 7,
)
OF_ALL_KINDS = dataclasses.replace(
    EVERYTHING,
    failure_probability=1e-7 / 3,
    pure_events=(PureMechanism(0.1 + 0.2, 3),),
    selection_events=(
        SelectedRun(
            (SMALL, PrivacyCost("replace_one", pure_events=(PureMechanism(1 / 3),))), 5.0, np.inf
        ),
    ),
)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def path(tmp_path):
    """A file with epsilon 1 at delta 1e-6, and one charge."""
    path = tmp_path / "survey ledger?#.db"
    PrivacyLedger(1.0, 1e-6, path=path).reserve(SMALL)
    return path


# Composition


@pytest.mark.parametrize(
    "cost",
    [
        OF_ALL_KINDS,
        PrivacyCost("add_or_remove_one", mu=5e-324),
        PrivacyCost("replace_one", mu=np.inf),
        PrivacyCost("replace_one"),
    ],
)
def test_costs_are_kept_to_the_last_bit(cost):
    again = cost_from_text(cost_to_text(cost))
    assert again == cost and cost_to_text(again) == cost_to_text(cost)


def test_no_field_of_a_cost_is_forgotten():
    assert all(getattr(OF_ALL_KINDS, field.name) for field in dataclasses.fields(PrivacyCost))


def test_what_is_composed_is_everything_in_the_file_by_whomever(path):
    first, second = PrivacyLedger.open(path), PrivacyLedger(1.0, 1e-6, path=path)
    total = SMALL
    for ledger, cost in [(first, SMALL), (second, EVERYTHING), (first, SMALL), (second, SMALL)]:
        ledger.reserve(cost)
        total = total + cost
    for ledger in (first, second, PrivacyLedger.open(path)):
        assert ledger.spent.mu == pytest.approx(total.mu, rel=1e-14)
        assert dataclasses.replace(ledger.spent, mu=total.mu) == total
        assert ledger.spent_epsilon == pytest.approx(total.epsilon(1e-6), rel=1e-9)
    apart = 4 * SMALL.epsilon(1e-6) + EVERYTHING.epsilon(1e-6)
    assert first.spent_epsilon < 0.7 * apart, "it is no sum of epsilons"


def test_a_budget_is_not_changed_by_opening_its_file(path):
    for other in [(2.0, 1e-6), (1.0, 1e-5), (1.0, 1e-6, "add_or_remove_one")]:
        with pytest.raises(ValueError, match="has epsilon=1.0, delta=1e-06, .*'replace_one'"):
            PrivacyLedger(*other, path=path)
    assert PrivacyLedger.open(path).budget == (1.0, 1e-6, "replace_one")


def test_relations_do_not_mix(path):
    with pytest.raises(ValueError, match="cannot be added"):
        PrivacyLedger.open(path).reserve(PrivacyCost("add_or_remove_one", mu=0.1))
    assert PrivacyLedger.open(path).spent == SMALL


@pytest.mark.parametrize("budget", [(np.inf, 1e-6), (3.0, 0.0)])
def test_budgets_without_a_ceiling_and_pure_ones(tmp_path, budget):
    bits = PrivacyCost("replace_one", decisions=(BoundedRangeDecisions(0.1, 10),))
    PrivacyLedger(*budget, path=tmp_path / "a").reserve(bits)
    ledger = PrivacyLedger.open(tmp_path / "a")
    ledger.reserve(bits)
    assert ledger.budget.epsilon == budget[0]
    assert ledger.spent_epsilon == pytest.approx(bits.__add__(bits).epsilon(budget[1]))
    assert ledger.remaining_epsilon == pytest.approx(budget[0] - (2.0 if budget[1] == 0 else 0.0))


# What is left


@pytest.mark.parametrize("spent", [PrivacyCost("replace_one", mu=0.15), EVERYTHING])
def test_what_is_said_to_fit_fits_and_no_more(path, spent):
    ledger = PrivacyLedger.open(path)
    ledger.reserve(spent)
    with pytest.raises(BudgetExceededError, match="Nothing was read") as refused:
        ledger.reserve(PrivacyCost("replace_one", mu=0.24))
    said = float(
        re.search(r"A release of epsilon = (\S+) at delta = 1e-06 would fit", str(refused.value))[1]
    )
    assert 0.99 * ledger.remaining_epsilon < said <= ledger.remaining_epsilon
    before = ledger.spent
    for factor, fits in [(1.03, False), (1.0, True)]:
        plan = DPBayesianLogisticRegression(factor * said, delta=1e-6).privacy_plan(1000, 3)
        if not fits:
            with pytest.raises(BudgetExceededError):
                ledger.reserve(plan.cost)
            assert ledger.spent == before
        else:
            ledger.reserve(plan.cost)
    assert 0.97 < ledger.spent_epsilon <= 1.0


def test_when_nothing_is_left_that_is_said(path):
    ledger = PrivacyLedger.open(path)
    ledger.reserve(
        PrivacyCost("replace_one", mu=np.sqrt(ledger.budget.mu**2 - 0.05**2) * (1 - 1e-12))
    )
    assert ledger.remaining_epsilon == 0
    with pytest.raises(BudgetExceededError, match="Spent so far: 1. Nothing more fits."):
        ledger.reserve(SMALL)
    assert PrivacyLedger(1.0, 1e-6).remaining_epsilon == 1.0


@pytest.mark.parametrize(
    "number, down",
    [
        (1.0, 1.0),
        (0.0, 0.0),
        (np.inf, np.inf),
        (0.99999, 0.9999),
        (123456.0, 123400.0),
        (2.0009e-7, 2e-7),
    ],
)
def test_numbers_are_rounded_down(number, down):
    assert round_down_epsilon(number) == down


# History


def test_fits_are_in_the_history_with_how_they_ended(path, monkeypatch):
    with PrivacyLedger.open(path, label="pilot", allow_seeds=True) as ledger:
        MODEL.fit(X, y)
        monkeypatch.setattr(SGLD, "run", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError), pytest.warns(match="spent all the same"):
            MODEL.fit(X, y)
    table = ledger.history()
    assert [*table.status] == ["reserved", "completed", "failed"]
    assert table.estimator.isna()[0] and set(table.estimator[1:]) == {
        "DPBayesianLogisticRegression"
    }
    assert [*table.sampler[1:]] == ["sgld"] * 2 and set(table.label[1:]) == {
        "pilot (seeds allowed)"
    }
    assert str(table.time.dt.tz) == "UTC" and table.time.is_monotonic_increasing
    cost = MODEL.privacy_plan(*X.shape).cost
    assert [*table.cost] == [SMALL, cost, cost]
    for rows in (1, 2, 3):
        mu = np.sqrt(SMALL.mu**2 + (rows - 1) * cost.mu**2)
        expected = PrivacyCost("replace_one", mu=mu).epsilon(1e-6)
        assert table.total_epsilon[rows - 1] == pytest.approx(expected)
    assert table.epsilon[2] == pytest.approx(cost.epsilon(1e-6))
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert [row["status"] for row in ledger.history()] == [*table.status]


def test_histories_in_memory_are_the_same():
    with PrivacyLedger(np.inf, 1e-6, allow_seeds=True) as ledger:
        MODEL.fit(X, y)
    ledger.reserve(EVERYTHING, label="by hand")
    table = ledger.history()
    assert [*table.status] == ["completed", "reserved"] and table.label[
        1
    ] == "by hand (seeds allowed)"
    assert table.total_epsilon[1] == pytest.approx(ledger.spent_epsilon)
    assert PrivacyLedger(1.0, 1e-6).history().empty


def test_nothing_of_the_data_is_kept(path):
    with PrivacyLedger.open(path):
        DPBayesianLogisticRegression(0.1, delta=1e-6).fit(X, np.where(y, "secret", "classes"))
    with closing(sqlite3.connect(path)) as connection:
        *_, last = connection.execute("SELECT * FROM charges").fetchall()
    plan = DPBayesianLogisticRegression(0.1, delta=1e-6).privacy_plan(*X.shape)
    names = ("DPBayesianLogisticRegression", "noise_aware", None)
    epsilons = (plan.cost.epsilon(1e-6), (SMALL + plan.cost).epsilon(1e-6))
    assert last[0] == 2 and last[2:8] == (*names, cost_to_text(plan.cost), *epsilons)
    assert len(last) == 10 and last[9] == "completed"  # The others are the time and the digest.
    assert b"secret" not in path.read_bytes()


@needs_fork
def test_a_run_that_is_killed_has_spent(path, monkeypatch):
    monkeypatch.setattr(SGLD, "run", lambda *args: os.kill(os.getpid(), signal.SIGKILL))
    with PrivacyLedger.open(path, allow_seeds=True) as ledger:
        assert in_a_child(lambda: MODEL.fit(X, y)) == ""
    assert ledger.history().status[1] == "reserved"
    assert ledger.spent.mu == pytest.approx(np.hypot(0.05, MODEL.privacy_plan(*X.shape).cost.mu))


def test_how_a_run_ended_need_not_be_noted(path, monkeypatch):
    with PrivacyLedger.open(path, allow_seeds=True) as ledger:
        run = SGLD.run
        monkeypatch.setattr(SGLD, "run", lambda *args: (path.rename(f"{path}.away"), run(*args))[1])
        assert MODEL.fit(X, y).posterior_samples_.size
    Path(f"{path}.away").rename(path)
    assert ledger.history().status[1] == "reserved"


# Several ledgers


def test_files_and_ledgers_in_memory_nest(path, tmp_path):
    cost = MODEL.privacy_plan(*X.shape).cost
    link = tmp_path / "link"
    link.symlink_to(path)
    with (
        PrivacyLedger.open(path, allow_seeds=True) as first,
        PrivacyLedger(1.0, 1e-6, path=tmp_path / "b", allow_seeds=True) as second,
    ):
        with (
            PrivacyLedger(np.inf, 1e-6, allow_seeds=True) as third,
            PrivacyLedger.open(link, allow_seeds=True),
        ):
            MODEL.fit(X, y)
    assert first.spent.mu == pytest.approx(np.hypot(cost.mu, SMALL.mu)), "a file is charged once"
    assert second.spent == third.spent == cost


@pytest.mark.parametrize("tight", [0, 1])
def test_a_refusal_by_one_file_charges_no_other(tmp_path, tight):
    ceilings = [5.0, 5.0]
    ceilings[tight] = 0.3
    with PrivacyLedger(ceilings[0], 1e-6, path=tmp_path / "a", allow_seeds=True) as first:
        with PrivacyLedger(ceilings[1], 1e-6, path=tmp_path / "b", allow_seeds=True) as second:
            with pytest.raises(BudgetExceededError, match="epsilon = 0.3"):
                MODEL.fit(X, y)
    assert first.history().empty and second.history().empty


def test_ledgers_with_a_file_can_be_sent_and_others_cannot(path):
    ledger = pickle.loads(pickle.dumps(PrivacyLedger.open(path, label="sent")))
    ledger.reserve(SMALL)
    assert PrivacyLedger.open(path).history().label[1] == "sent"
    with pytest.raises(TypeError, match="path="):
        pickle.dumps(PrivacyLedger(1.0, 1e-6))


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"timeout": -1}, {"timeout": np.inf}, {"label": 3}], ids=str
)
def test_nonsense_is_refused(path, options):
    for make in (PrivacyLedger.open, partial(PrivacyLedger, 1.0, 1e-6)):
        with pytest.raises(ValueError, match="|".join(options)):
            make(path=path, **options)


def test_a_ledger_can_be_printed_whatever_became_of_its_file(path):
    ledger = PrivacyLedger.open(path)
    assert repr(ledger).startswith("PrivacyLedger(spent_epsilon=0.1")
    path.unlink()
    assert "spent_epsilon=unknown, epsilon=1, delta=1e-06, path='/" in repr(ledger)
