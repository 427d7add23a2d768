"""Steps of compiled chains, replayed one by one: as charged they pass, and planted bugs are found."""

import numpy as np
import pytest

from skdpbayes import DPBayesianLogisticRegression, DPBayesianMLPClassifier
from skdpbayes._mechanisms.door import listening
from skdpbayes.audit import replay
from skdpbayes.audit._listeners import Recorder
from skdpbayes.samplers import SGFS, SGHMC, SGLD, SGNHT, BayesByBackprop
from skdpbayes.samplers._machinery import watched
from skdpbayes.samplers._machinery.watched import step_charges
from skdpbayes.samplers.langevin import overdamped

N = 60
rng = np.random.default_rng(0)
X = rng.uniform(-0.5, 0.5, (N, 2))
X[0] = 1.0, 0.0
Y = np.arange(N) % 2
Y[0] = 1
# The opposite row with the same label, the same row with the other one, and a row longer than they may be.
RECORDS = [(-X[0], 1), (X[0], 0), (np.array([0.0, 30.0]), 0)]


def logistic(sampler, **options):
    """Return a small model that knows what is public."""
    known = {"data_norm": 1.0, "classes": [0, 1], "n_draws": 5}
    return DPBayesianLogisticRegression(2.0, sampler=sampler, **known, **options)


def seen(sampler):
    """Return the result for the record that moves most."""
    return replay(logistic(sampler), X, Y, RECORDS[0])


def test_steps_pass_each_with_its_charge_and_add_up_to_the_cost():
    result = seen(SGLD(n_steps=20))
    assert result.passed and result.n_releases == 20 and result.largest_share > 0.5, str(result)


def test_a_chain_that_is_listened_to_makes_the_same_draws():
    model = logistic(SGLD(n_steps=20), random_state=0)
    alone = model.fit(X, Y).posterior_samples_
    with listening(Recorder()):
        assert np.array_equal(model.fit(X, Y).posterior_samples_, alone)


SAMPLERS = {
    "batches": (SGLD(n_steps=40, batch_size=12), 40),
    "shorter steps": (SGLD(n_steps=30, step_decay=0.3), 30),
    "shorter steps on batches": (SGLD(n_steps=40, step_decay=0.3, batch_size=12), 40),
    "velocities": (SGHMC(n_steps=20), 20),
    "a thermostat": (SGNHT(n_steps=20), 20),
    "a variational fit": (BayesByBackprop(n_steps=20), 20),
    "its batches": (BayesByBackprop(n_steps=40, batch_size=12), 40),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", SAMPLERS)
def test_chains_pass_on_pairs_that_try_hard(name):
    sampler, n_steps = SAMPLERS[name]
    shares = []
    for record in RECORDS:
        result = replay(logistic(sampler), X, Y, record)
        assert result.passed and result.n_releases == n_steps, str(result)
        shares.append(result.largest_share)
    assert max(shares) > 0.4


@pytest.mark.nightly
def test_what_is_released_before_a_chain_passes_with_it():
    result = replay(logistic(SGFS(n_steps=20)), X, Y, RECORDS[0])
    assert result.violations == () and result.n_releases > 20, str(result)


@pytest.mark.nightly
def test_networks_pass():
    model = DPBayesianMLPClassifier(
        (4,), epsilon=2.0, data_norm=1.0, classes=[0, 1], n_draws=5, sampler=SGHMC(n_steps=20)
    )
    for record in RECORDS:
        result = replay(model, X, Y, record)
        assert result.passed, str(result)


# Planted bugs


def test_half_the_noise_is_found(monkeypatch):
    steps = overdamped.Steps
    monkeypatch.setattr(
        overdamped,
        "Steps",
        lambda temperature, **others: steps(temperature=temperature / 4.0, **others),
    )
    assert "sensitivity" in {one.kind for one in seen(SGLD(n_steps=20)).violations}


def test_noise_that_is_not_as_large_as_is_said_is_found(monkeypatch):
    def told(plan, what, generator, memory, deviation, *others):
        return told_before(plan, what, generator, memory, lambda k: 2.0 * deviation(k), *others)

    told_before = watched.watched_chain
    monkeypatch.setattr(overdamped, "watched_chain", told)
    result = seen(SGLD(n_steps=20))
    assert {one.kind for one in result.violations} == {"noise"}
    assert "0.5" in str(result)


@pytest.mark.nightly
def test_batches_that_are_larger_than_is_charged_are_found(monkeypatch):
    steps = overdamped.Steps
    monkeypatch.setattr(
        overdamped, "Steps", lambda rate, **others: steps(rate=3.0 * rate, **others)
    )
    result = seen(SGLD(n_steps=300, batch_size=6))
    assert any("batches" in one.text for one in result.violations), str(result)


def test_a_start_that_depends_on_records_is_found(monkeypatch):
    starts = iter([np.zeros(3), np.ones(3)])  # Of the two runs.
    monkeypatch.setattr(overdamped, "start_of", lambda target, plan: next(starts))
    assert "sensitivity" in {one.kind for one in seen(SGLD(n_steps=20)).violations}


# Charges


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_charges_of_steps_add_up_to_the_cost(decay):
    plan = logistic(SGLD(n_steps=50, step_decay=decay)).privacy_plan(N, 2)
    charges = step_charges(plan)
    assert np.linalg.norm(charges) == pytest.approx(plan.cost.mu, rel=1e-12)
    assert charges[0] / charges[-1] == pytest.approx(50 ** (decay / 2.0))


def test_nothing_is_said_of_single_steps_where_batches_cannot_be_the_same_or_states_are_hidden():
    batches = SGLD(n_steps=40, batch_size=12)
    assert step_charges(logistic(batches).privacy_plan(N, 2)).size == 40
    adding = logistic(batches, neighboring_relation="add_or_remove_one", public_size=N)
    hidden = logistic(SGLD(n_steps=40, release="last_iterate"))
    for model in (adding, hidden):
        assert step_charges(model.privacy_plan(N, 2)) is None
