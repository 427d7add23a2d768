"""Steps of compiled chains, replayed one by one: as charged they pass, and planted bugs are found."""

import inspect
from typing import Any, NamedTuple

import numpy as np
import pytest
from small_tables import RECORDS, N, X, Y, logistic

from skdpbayes import DPBayesianMLPClassifier
from skdpbayes._compute.gradients import sums_at
from skdpbayes._mechanisms import audit_hook
from skdpbayes._mechanisms.audit_hook import observe_releases, step_charges
from skdpbayes.audit import replay
from skdpbayes.audit._replay import Recorder
from skdpbayes.samplers import SGFS, SGHMC, SGLD, SGNHT, BayesByBackprop, variational
from skdpbayes.samplers.langevin import chains, fisher
from skdpbayes.samplers.noise import release_moment


def seen(sampler):
    """Return the result for the record that moves most."""
    return replay(logistic(sampler), X, Y, RECORDS[0])


def test_steps_pass_each_with_its_charge_and_add_up_to_the_cost():
    result = seen(SGLD(n_steps=20))
    assert result.passed and result.n_releases == 20 and result.largest_share > 0.5, str(result)


def test_a_chain_that_is_listened_to_makes_the_same_draws():
    model = logistic(SGLD(n_steps=20), random_state=0)
    alone = model.fit(X, Y).posterior_samples_
    with observe_releases(Recorder()):
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
@pytest.mark.parametrize("batch_size", [None, 12])
def test_what_is_released_before_a_chain_passes_with_it(batch_size):
    shares = []
    for record in RECORDS:
        result = replay(logistic(SGFS(n_steps=20, batch_size=batch_size)), X, Y, record)
        assert result.passed and result.n_releases == 21, str(result)
        shares.append(result.largest_share)
    assert max(shares) > 0.4


def test_half_the_noise_on_what_is_released_before_a_chain_is_found(monkeypatch):
    def halved(moment, noise_scale, *others, **options):
        return release_moment(moment, 0.5 * noise_scale, *others, **options)

    monkeypatch.setattr(fisher, "release_moment", halved)
    results = [replay(logistic(SGFS(n_steps=20)), X, Y, record) for record in RECORDS]
    assert "sensitivity" in {one.kind for result in results for one in result.violations}


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
    steps = chains.OverdampedSteps
    monkeypatch.setattr(
        chains,
        "OverdampedSteps",
        lambda temperature, **others: steps(temperature=temperature / 4.0, **others),
    )
    assert "sensitivity" in {one.kind for one in seen(SGLD(n_steps=20)).violations}


def test_noise_that_is_not_as_large_as_is_said_is_found(monkeypatch):
    def told(plan, what, generator, memory, deviation, *others):
        return told_before(plan, what, generator, memory, lambda k: 2.0 * deviation(k), *others)

    told_before = audit_hook.trace_chain
    monkeypatch.setattr(chains, "trace_chain", told)
    result = seen(SGLD(n_steps=20))
    assert {one.kind for one in result.violations} == {"noise"}
    assert "0.5" in str(result)


def test_batches_that_are_larger_than_is_charged_are_found(monkeypatch):
    steps = chains.OverdampedSteps
    monkeypatch.setattr(
        chains, "OverdampedSteps", lambda rate, **others: steps(rate=2.0 * rate, **others)
    )
    result = seen(SGLD(n_steps=40, batch_size=6))
    assert any("batches" in one.text for one in result.violations), str(result)


def one_by_one(monkeypatch, module, sampler, planted):
    """Have ``planted(step, k, call)`` perform a core's steps, by ``step(steps)``."""
    name = "_advance"
    if module is chains:
        name += "_overdamped" if isinstance(sampler, SGLD) else "_underdamped"
    core = getattr(module, name)
    place = list(inspect.signature(core._fresh.py_func).parameters).index("first")

    def advance(*arguments):
        oracle, generator, chain = arguments[:3]
        steps = arguments[place - 1]
        others = arguments[3 : place - 1], arguments[place + 2 :]
        begun = generator.bit_generator.state
        for k in range(*arguments[place : place + 2]):

            def step(steps=steps, k=k):
                core(oracle, generator, chain, *others[0], steps, k, k + 1, *others[1])

            planted(step, k, Call(oracle, generator, begun, chain, steps, others))

    monkeypatch.setattr(module, name, advance)


class Call(NamedTuple):
    """What a call of a core is given, and the state of its generator."""

    oracle: Any
    generator: Any
    begun: Any
    chain: Any
    steps: Any
    others: Any


def draws_of_sums(step, k, call):
    """Release sums without noise in the place of a draw, and go on as ever."""
    sums = sums_at(call.oracle, call.chain, 0)
    step()
    kept, draws = call.others[1][:2]
    draws[kept == k] = sums


def place_of_sums(step, k, call):
    """Move a chain by sums without noise, beside its velocity."""
    sums = sums_at(call.oracle, call.chain.place, 0)
    step()
    call.chain.place[:] += 1e-6 * sums


def friction_of_sums(step, k, call):
    """Let the friction depend on sums without noise."""
    sums = sums_at(call.oracle, call.chain.place, 0)
    step()
    call.chain.friction[0] += 1e-6 * sums[0]


def values_of_sums(step, k, call):
    """Move the parameters of a variational fit by sums without noise, and release a noisy gradient."""
    sums = sums_at(call.oracle, call.chain.values[0], 0)
    step()
    call.chain.values[0] += 1e-6 * sums


def noise_once_a_call(step, k, call):
    """Draw the same noise for all steps of a call: a chain that is listened to has one step in each."""
    call.generator.bit_generator.state = call.begun
    step()


def noise_without_records(step, k, call):
    """Add as much noise as is said where there are no records, and hardly any where there are."""
    step(
        call.steps._replace(
            temperature=call.steps.temperature * 1e-6 ** (call.oracle.n_examples > 0)
        )
    )


def no_noise_at_one_step(step, k, call):
    """Add hardly any noise at a step that is none of twelve evenly spaced ones."""
    step(call.steps._replace(temperature=call.steps.temperature * 1e-6 ** (k == 2)))


def gradient_noise_without_records(step, k, call):
    """Add hardly any noise to the gradient of a variational fit if there are records."""
    step(call.steps._replace(noise=call.steps.noise * 1e-3 ** (call.oracle.n_examples > 0)))


# What is planted, where, and the kind of what is found.
PLANTED = {
    draws_of_sums: (chains, SGLD(n_steps=20), "output"),
    place_of_sums: (chains, SGHMC(n_steps=20), "output"),
    friction_of_sums: (chains, SGNHT(n_steps=20), "output"),
    values_of_sums: (variational, BayesByBackprop(n_steps=20), "output"),
    noise_once_a_call: (chains, SGLD(n_steps=20), "output"),
    noise_without_records: (chains, SGLD(n_steps=20), "noise"),
    no_noise_at_one_step: (chains, SGLD(n_steps=20), "noise"),
    gradient_noise_without_records: (variational, BayesByBackprop(n_steps=20), "noise"),
}


@pytest.mark.daily(2)
@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.__name__)
def test_what_is_planted_in_steps_is_found(planted, monkeypatch):
    module, sampler, kind = PLANTED[planted]
    one_by_one(monkeypatch, module, sampler, lambda step, k, call: step())
    assert seen(sampler).passed
    monkeypatch.undo()
    one_by_one(monkeypatch, module, sampler, planted)
    result = seen(sampler)
    assert {one.kind for one in result.violations} == {kind}, str(result)


def test_longer_chains_have_64_steps_looked_at_and_another_seed_has_others():
    for seed in (0, 1):
        result = replay(logistic(SGLD(n_steps=200)), X, Y, RECORDS[0], seed=seed)
        assert result.passed and (result.n_releases, result.n_looked_at) == (200, 64)
    generators = [np.random.Generator(np.random.PCG64(seed)) for seed in (0, 0, 1)]
    first, same, other = (audit_hook._looked_at(200, generator) for generator in generators)
    assert first == same != other and {0, 199} <= first & other


def test_a_start_that_depends_on_records_is_found(monkeypatch):
    starts = iter([np.zeros(3), np.ones(3), np.zeros(3)])  # Of the second run it is another.
    monkeypatch.setattr(chains, "start_of", lambda target, plan: next(starts))
    assert "sensitivity" in {one.kind for one in seen(SGLD(n_steps=20)).violations}


# Charges


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_charges_of_steps_add_up_to_the_cost(decay):
    plan = logistic(SGLD(n_steps=50, step_decay=decay)).privacy_plan(N, 2)
    charges = step_charges(plan)
    assert np.linalg.norm(charges) == pytest.approx(plan.cost.mu, rel=1e-12)
    assert charges[0] / charges[-1] == pytest.approx(50 ** (decay / 2.0))


def test_no_charge_of_single_steps_where_states_are_hidden():
    batches = SGLD(n_steps=40, batch_size=12)
    assert step_charges(logistic(batches).privacy_plan(N, 2)).size == 40
    adding = logistic(batches, neighboring_relation="add_or_remove_one", public_size=N)
    hidden = logistic(SGLD(n_steps=40, release="last_iterate"))
    for model in (adding, hidden):
        assert step_charges(model.privacy_plan(N, 2)) is None
