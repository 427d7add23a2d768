"""Schedules of paths: exact costs, ceilings that hold, rules that do what they say."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from references import planned

from skdpbayes.models import TargetBounds
from skdpbayes.privacy import Budget
from skdpbayes.privacy.conversions import gaussian_mu
from skdpbayes.samplers import SGLD
from skdpbayes.samplers.langevin.cost import runs_of_similar_noise as noise_levels
from skdpbayes.samplers.langevin.plan import power_sum, steps_for

BOUNDS = TargetBounds(93, gradient_bound=1.0, smoothness=0.25, prior_precision=(0.16, 0.16))


def plan(epsilon=1.0, delta=1e-5, relation="replace_one", n=24_420, bounds=BOUNDS, **options):
    return planned(SGLD, bounds, n, Budget(epsilon, delta, relation), **options)


@pytest.mark.parametrize("relation, factor", [("replace_one", 2.0), ("add_or_remove_one", 1.0)])
def test_full_batch_cost_is_the_closed_form(relation, factor):
    made = plan(relation=relation)
    s = factor * BOUNDS.gradient_bound
    mu = math.sqrt(s**2 * made.diffusion_time / (2 * made.temperature))
    # Rounding enlarges the cost a little, and never the other way.
    assert mu < made.cost.mu < mu * 1.001
    assert made.cost.mu <= gaussian_mu(1.0, 1e-5)
    assert 1 - 1e-6 < made.epsilon <= 1.0


def test_rounding_is_charged():
    small, large = (
        plan(bounds=BOUNDS._replace(n_parameters=1)),
        plan(bounds=BOUNDS._replace(n_parameters=10**8)),
    )
    assert large.temperature > 1.05 * small.temperature


def test_the_rule_is_the_lowest_temperature_that_affords_the_relaxations():
    made = plan()
    lam = BOUNDS.prior_precision[0]
    # tau = sqrt(k) s / (mu sqrt(2 lambda)) with k = 1.
    expected = 2.0 / (gaussian_mu(1.0, 1e-5) * math.sqrt(2 * lam))
    assert made.temperature == pytest.approx(expected, rel=1e-3)
    assert made.relaxations == pytest.approx(1.0, rel=1e-9)
    stiffest = 24_420 * BOUNDS.smoothness + made.temperature * lam
    assert made.step_size <= 1 / stiffest
    assert made.step_size * (made.n_steps - 1) < made.n_steps / stiffest


def test_privacy_is_free_once_the_temperature_is_one():
    free = plan(epsilon=200.0)
    assert free.temperature == 1.0
    assert free.epsilon < 30.0
    assert free.epsilon == plan(epsilon=1000.0).epsilon


def test_without_privacy_the_slowest_direction_relaxes_ten_times():
    for options in ({}, {"n_draws": 10_000}):
        made = plan(epsilon=math.inf, n=200, **options)
        assert made.temperature == 1.0
        assert made.relaxations >= 10
    # More steps are a longer chain, not a finer one.
    assert plan(epsilon=math.inf, n=200, n_steps=10**6).relaxations > 100


@given(
    epsilon=st.floats(0.01, 20.0),
    delta=st.sampled_from([1e-9, 1e-6, 1e-4]),
    n=st.integers(2, 10**6),
    smoothness=st.floats(0.01, 50.0),
    precision=st.floats(1e-3, 1e3),
    relation=st.sampled_from(["replace_one", "add_or_remove_one"]),
    decay=st.sampled_from([0.0, 1 / 3]),
)
@settings(max_examples=100, deadline=None)
def test_full_batch_plans_never_exceed_the_budget(
    epsilon, delta, n, smoothness, precision, relation, decay
):
    bounds = TargetBounds(7, 2 * math.sqrt(smoothness), smoothness, (precision, precision))
    options = {"step_decay": decay, "n_steps": 5000 if decay else None}
    made = plan(epsilon, delta, relation, n, bounds, **options)
    assert made.epsilon <= epsilon
    assert made.temperature >= 1
    assert made.n_steps - made.n_burn_in >= made.n_draws
    if made.temperature > 1:
        assert made.epsilon >= epsilon * (1 - 1e-6)


@pytest.mark.parametrize(
    "argument, smaller, larger",
    [("epsilon", 0.3, 3.0), ("delta", 1e-8, 1e-4), ("n", 1000, 10**6)],
)
def test_more_budget_or_records_never_heat_the_draws(argument, smaller, larger):
    # Longer chains are charged for more rounding: a tenth of a percent at a million records.
    assert plan(**{argument: smaller}).temperature >= 0.998 * plan(**{argument: larger}).temperature


def test_replace_one_needs_twice_the_temperature_of_add_or_remove_one():
    ratio = plan().temperature / plan(relation="add_or_remove_one").temperature
    assert ratio == pytest.approx(2.0, rel=1e-3)


@pytest.mark.daily(1)
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 256},
        {"batch_size": 256, "n_steps": 10_000},
        {"batch_size": 2560, "n_steps": 3000, "step_decay": 1 / 3},
        {"batch_size": 1000, "temperature": 5.0},
        {"batch_size": 1000, "temperature": 20.0, "step_size": 1e-4},
        {"batch_size": 24_420},
    ],
)
def test_poisson_plans_stay_within_the_budget_and_use_it(relation, options):
    started = time.process_time()
    made = plan(relation=relation, **options)
    assert made.epsilon <= 1.0
    if (made.temperature > 1 and made.relaxations < 0.999) or "temperature" not in options:
        assert made.epsilon > 0.995 or made.temperature == 1.0
    assert time.process_time() - started < 15, "root finding takes a second or two, not minutes"
    if made.sampling_rate < 1:
        noise = math.sqrt(2 * made.step_size * made.temperature)
        per_record = made.step_size / made.sampling_rate * BOUNDS.gradient_bound
        assert made.noise_multiplier == pytest.approx(noise / per_record)
        first = made.cost.sampled[0] if not made.step_decay else min(made.cost.sampled)
        assert first.noise_multiplier == pytest.approx(made.noise_multiplier, rel=1e-3)
        assert first.noise_multiplier <= made.noise_multiplier
        assert sum(part.count for part in made.cost.sampled) == made.n_steps


def test_small_batches_of_large_tables_are_planned_quickly():
    started = time.process_time()
    made = plan(n=10**6, batch_size=256)
    assert time.process_time() - started < 15
    assert made.n_steps == 300_000 and made.epsilon <= 1.0
    assert "heat" in made.warnings[0]
    with pytest.raises(ValueError, match="batch_size"):
        plan(n=10**6, batch_size=256, n_steps=10**7)


def test_noise_levels_round_down_and_are_a_few_dozen():
    for steps in (1, 5, 100, 10**6):
        levels = noise_levels(steps, 1 / 3)
        assert len(levels) <= 36
        assert sum(count for _, count in levels) == steps
        firsts = [first for first, _ in levels]
        assert firsts == sorted(set(firsts)) and firsts[0] == 1


@pytest.mark.parametrize("decay", [0.0, 1 / 3, 0.9, -1 / 3])
@pytest.mark.parametrize("steps", [1, 1000, 2048, 2049, 123_456])
def test_power_sums(steps, decay):
    exact = math.fsum(np.arange(1, steps + 1, dtype=float) ** -decay)
    assert power_sum(steps, decay) == pytest.approx(exact, rel=1e-12)
    if 0 <= decay < 0.5:
        assert steps_for(exact, decay) == steps


def test_repeated_questions_are_answered_from_memory():
    options = {"batch_size": 300, "n_steps": 5000}
    first = plan(**options)
    started = time.process_time()
    assert plan(**options) is first
    assert time.process_time() - started < 0.05


@pytest.mark.parametrize(
    "options, named",
    [
        ({"temperature": 2.0, "step_size": 1e-4, "n_steps": 50_000}, "temperature.*step_size.*n_s"),
        ({"n_steps": 100, "n_draws": 100}, "n_steps=100.*n_draws=100"),
        ({"n_steps": 1000, "n_draws": 900}, "n_draws"),
        ({"n_steps": 1000, "n_draws": 100, "burn_in": 0.95}, "burn_in"),
        ({"step_size": 1.0}, "step_size"),
        ({"batch_size": 24_421}, "batch_size"),
        ({"batch_size": 0}, "batch_size"),
        ({"temperature": 0.5}, "temperature"),
        ({"temperature": math.inf}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"step_decay": 1.0}, "step_decay"),
        ({"burn_in": 1.0}, "burn_in"),
        ({"n_draws": 0}, "n_draws"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": -1e-6}, "delta"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"relation": "swap"}, "neighboring_relation"),
        ({"n": 0}, "n_samples"),
        ({"bounds": BOUNDS._replace(prior_precision=(0.0, 1.0))}, "prior_precision"),
        ({"bounds": BOUNDS._replace(gradient_bound=math.inf)}, "gradient_bound"),
        ({"bounds": BOUNDS._replace(prior_precision=(2.0, 1.0))}, "prior_precision"),
    ],
)
def test_options_that_cannot_hold_are_refused_by_name(options, named):
    with pytest.raises(ValueError, match=named):
        plan(**options)


def test_explicit_options_are_kept():
    made = plan(temperature=30.0, n_steps=700, n_draws=50, burn_in=0.5)
    assert (made.temperature, made.n_steps, made.n_draws, made.n_burn_in) == (30.0, 700, 50, 350)
    made = plan(step_size=5e-5, n_steps=900)
    assert (made.step_size, made.n_steps) == (5e-5, 900)
    assert made.epsilon <= 1.0


def test_shorter_steps_rather_than_fewer_draws():
    tiny = plan(epsilon=0.01)
    assert tiny.n_draws == 100
    assert tiny.n_steps - tiny.n_burn_in >= 100
    assert plan(n_draws=20_000).n_steps > plan().n_steps


def test_a_fixed_low_temperature_shortens_the_chain_and_says_so():
    made = plan(temperature=2.0)
    assert made.relaxations < 0.5
    assert made.epsilon == pytest.approx(1.0, abs=1e-6)
    assert "relaxes" in made.warnings[0]


def test_hot_batches_are_announced():
    assert plan(batch_size=256).warnings == ()
    assert plan(batch_size=256).subsampling_temperature <= 0.51 * plan().temperature
    assert "heat" in plan(batch_size=256, n_steps=2000).warnings[-1]


def test_a_plan_prints_what_it_does():
    text = str(plan(batch_size=500, step_decay=0.2, n_steps=3000))
    for word in ("epsilon", "delta", "replace-one", "temperature", "3,000", "500 records", "MiB"):
        assert word in text
    assert "asked for at most 1" in text


def test_without_privacy_poisson_batches_claim_nothing():
    made = plan(epsilon=math.inf, n=1000, batch_size=10, n_steps=1000)
    assert made.epsilon == math.inf
