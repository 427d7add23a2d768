"""The rule behind plans for Metropolis' family: what it keeps, what it buys, and when it stops."""

import inspect
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skdpbayes.privacy import Budget, SamplerOptions, plan_metropolis
from skdpbayes.privacy.accept_bits import LARGEST_BATCH_RATIO
from skdpbayes.targets import TargetBounds

BARE = ("dp_mh", "dp_fast_mh")
NOISY = ("penalty", "dp_fast_mh_gaussian")
SAMPLERS = BARE + NOISY
VARIED = ({"proposal": "gaussian"}, {"adapt_step_size": True})


def bounds_of(d=3, gradient_bound=1.0, precision=1.0):
    return TargetBounds(d, gradient_bound, gradient_bound**2 / 4, (precision, precision))


def plan(
    sampler="dp_fast_mh", epsilon=1.0, delta=1e-6, relation="replace_one", n=50_000, d=3, **options
):
    budget = Budget(epsilon, delta, relation)
    return plan_metropolis(bounds_of(d), n, budget, SamplerOptions(**options), sampler=sampler)


def test_a_plan_sees_public_quantities_only():
    names = ["bounds", "n_samples", "budget", "options", "sampler"]
    assert list(inspect.signature(plan_metropolis).parameters) == names


@given(
    sampler=st.sampled_from(SAMPLERS),
    d=st.integers(1, 60),
    n=st.floats(1.0, 7.5).map(lambda power: int(10**power)),
    epsilon=st.floats(-1.5, 1.2).map(lambda power: 10**power),
    pure=st.booleans(),
    relation=st.sampled_from(["replace_one", "add_or_remove_one"]),
    precision=st.sampled_from([0.05, 1.0, 40.0]),
    gradient_bound=st.sampled_from([0.3, 4.0]),
)
@settings(max_examples=15, deadline=None)
def test_no_bounds_take_a_plan_beyond_its_budget(
    sampler, d, n, epsilon, pure, relation, precision, gradient_bound
):
    delta = 0.0 if pure and sampler in BARE else 1e-7
    if sampler == "dp_fast_mh_gaussian":  # Little noise on counts takes long to account for.
        epsilon = min(epsilon, 1.0)
    bounds = bounds_of(d, gradient_bound, precision)
    made = plan_metropolis(bounds, n, Budget(epsilon, delta, relation), sampler=sampler)
    assert 0 < made.epsilon == made.cost.epsilon(delta) <= epsilon
    assert made.cost.neighboring_relation == relation
    assert 0 <= made.batch_ratio <= LARGEST_BATCH_RATIO and 0 < made.sampling_rate <= 1
    assert (made.noise_variance > 0) == (sampler in NOISY)


# What is asked for


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(
    "options",
    [
        {"n_steps": 700},
        {"step_size": 0.02},
        {"temperature": 20.0, "n_steps": 90},
        {"n_draws": 7},
        {"adapt_step_size": True, "step_size": 0.05},
    ],
    ids=str,
)
def test_options_are_kept_within_the_budget(sampler, options):
    if "adapt_step_size" in options and sampler == "dp_fast_mh_gaussian":
        options = {"step_size": 0.05}
    made = plan(sampler, **options)
    assert made.epsilon <= 1.0
    for name, value in options.items():
        assert getattr(made, name) == pytest.approx(value)


@pytest.mark.parametrize("sampler", ["dp_fast_mh", "dp_fast_mh_gaussian"])
@pytest.mark.parametrize("options", [{}, {"n_steps": 100}, {"temperature": 5.0}], ids=str)
def test_batches_of_the_size_that_was_asked_for(sampler, options):
    made = plan(sampler, n=1_000_000, batch_size=4000, **options)
    assert made.batch_size == pytest.approx(4000, rel=1e-5)
    bound = made.step_size / made.temperature
    assert 1e6 * bound * (1 + 1 / made.batch_ratio) == pytest.approx(4000, rel=1e-5)


def test_batches_keep_their_size_where_distances_must_be_shortened():
    """A few noisy steps cost more than the limit in which the search reckons them: by a quarter here."""
    fixed = {"n": 60, "temperature": 10.0, "batch_size": 20}
    made = plan("dp_fast_mh_gaussian", delta=1e-9, **fixed)
    assert made.epsilon <= 1.0
    assert made.batch_size == pytest.approx(20)


@pytest.mark.parametrize("relation, sides", [("replace_one", 2.0), ("add_or_remove_one", 1.0)])
@pytest.mark.parametrize("sampler", NOISY)
def test_noise_of_the_multiplier_that_was_asked_for(sampler, relation, sides):
    made = plan(sampler, relation=relation, noise_multiplier=25.0)
    bound = made.step_size / made.temperature
    jump = math.log1p(made.batch_ratio) if made.batch_ratio else bound
    assert math.sqrt(made.noise_variance) == pytest.approx(25.0 * sides * jump, rel=1e-5)


# What a budget buys


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_larger_budgets_buy_lower_temperatures_and_then_relaxations(sampler):
    plans = [plan(sampler, epsilon=epsilon) for epsilon in (0.1, 0.5, 2.0, 8.0)]
    temperatures = [made.temperature for made in plans]
    assert temperatures == sorted(temperatures, reverse=True)
    assert temperatures[0] > 3.0 and temperatures[-1] == 1.0
    relaxations = [made.relaxations for made in plans]
    # The rule gives up 30% of what a budget buys for time, and not more.
    assert all(more >= 0.7 * fewer for fewer, more in pairwise(relaxations))
    assert relaxations[-1] > 8 * relaxations[0]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_large_tables_spend_less_than_they_may(sampler):
    """The chain ends at the effective sample size that is wanted, and that is half of its relaxations."""
    made = plan(sampler, n=20_000_000, d=2, delta=1e-8)
    assert made.epsilon < 0.7 and made.temperature == 1.0 and made.notes == ()
    assert made.relaxations == pytest.approx(2 * 25, rel=0.02)
    more = plan(sampler, n=20_000_000, d=2, delta=1e-8, n_effective=40)
    assert more.relaxations == pytest.approx(2 * 40, rel=0.02)
    assert made.epsilon < more.epsilon < 1.0


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_small_tables_are_sampled_at_a_higher_temperature_which_is_said(sampler):
    made = plan(sampler, n=5000, d=20)
    assert made.temperature > 5.0 and made.epsilon > 0.9
    for text in (made.notes[-1], str(made)):
        assert "sampler='sghmc'" in text and f"temperature {made.temperature:.3g}" in text


def test_pure_plans_are_told_what_a_delta_would_buy():
    made = plan("dp_fast_mh", delta=0.0, n=5000)
    assert made.temperature > plan("dp_fast_mh", n=5000).temperature
    assert "delta above 0" in made.notes[-1]
    assert made.cost.pure_epsilon == made.epsilon <= 1.0


def test_the_table_is_read_only_where_batches_would_be_too_large():
    free = plan(n=1_000_000)
    assert 0 < free.batch_size < 20_000
    for largest in (200, 2000, 200_000):
        made = plan(n=1_000_000, max_batch_size=largest)
        assert made.batch_size <= largest or made.batch_size == 1_000_000
        assert made.temperature == 1.0 and made.relaxations > 2.0
    assert plan(n=1_000_000, max_batch_size=200_000).batch_size == pytest.approx(free.batch_size)


# Steps of different lengths


@pytest.mark.parametrize("options", VARIED, ids=str)
@pytest.mark.parametrize("sampler", ["dp_mh", "dp_fast_mh", "penalty"])
def test_their_charges_add_up_to_what_is_claimed(sampler, options):
    made = plan(sampler, **options)
    assert made.cost.rho == made.cost.concentrated and made.clock.total <= made.cost.rho
    each = made.clock.coefficient * made.step_size**2
    assert each * made.expected_steps == pytest.approx(made.cost.rho, rel=1e-6)
    # More and shorter steps than expected must be possible.
    assert made.n_steps > 1.1 * made.expected_steps


@pytest.mark.parametrize("options", ({}, *VARIED), ids=str)
def test_draws_are_marked_evenly_between_burn_in_and_the_end(options):
    made = plan(n_draws=60, **options)
    marks = made.draw_marks()
    ticks = np.append(made.clock.burnt, marks)
    spacing = (made.clock.total - made.clock.burnt) / 60
    np.testing.assert_allclose(np.diff(ticks), spacing, rtol=1e-6)
    # Charges are sums of many, and would miss a mark at the very end.
    assert marks[-1] < made.clock.total


def test_without_privacy_steps_are_counted_whatever_their_length():
    for options in VARIED:
        made = plan("dp_mh", epsilon=math.inf, n_steps=500, **options)
        assert made.n_steps == made.expected_steps == made.clock.total == 500
        assert made.epsilon == math.inf and made.cost.is_nothing


# What is refused


@pytest.mark.parametrize(
    "sampler, options, named",
    [
        ("penalty", {"noise_multiplier": 0.0}, "noise_multiplier"),
        ("penalty", {"noise_multiplier": math.inf}, "noise_multiplier"),
        ("dp_mh", {"noise_multiplier": 3.0}, "noise_multiplier"),
        ("dp_fast_mh", {"batch_size": 0}, "batch_size"),
        ("dp_mh", {"init": "mode"}, "init"),
        ("dp_mh", {"n_steps": 0}, "n_steps"),
        ("dp_mh", {"n_draws": 0}, "n_draws"),
        ("dp_mh", {"n": 0}, "n_samples"),
        ("dp_mh", {"relation": "swap"}, "neighboring_relation"),
        ("dp_fast_mh_gaussian", {"delta": 0.0}, "delta=0"),
        ("dp_fast_mh_gaussian", {"proposal": "gaussian"}, "proposal"),
        ("dp_mh", {"adapt_step_size": True, "delta": 0.0}, "delta=0.*adapt_step_size"),
        ("penalty", {"noise_multiplier": 2.0, "n_steps": 1000}, "n_steps=1000, noise_multiplier=2"),
        (
            "dp_fast_mh",
            {"batch_size": 5, "step_size": 0.1, "temperature": 1.0},
            "step_size=0.1, batch_size=5, temperature=1",
        ),
    ],
)
def test_options_that_cannot_hold_are_refused_by_name(sampler, options, named):
    with pytest.raises(ValueError, match=named):
        plan(sampler, **options)
