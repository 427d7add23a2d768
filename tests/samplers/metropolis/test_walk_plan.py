"""Plans for Metropolis' family: what they keep, what they buy, and what they say where that is too little."""

import inspect
import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from references import planned

from skdpbayes.models import TargetBounds
from skdpbayes.privacy import Budget
from skdpbayes.privacy.losses import LARGEST_BATCH_RATIO, accept_range
from skdpbayes.samplers import DPMH, SGHMC, DPFastMH, DPFastMHGaussian, PenaltyMH
from skdpbayes.samplers.metropolis.chain import is_accepted
from skdpbayes.samplers.metropolis.plan import Kernel

BARE = (DPMH, DPFastMH)
NOISY = (PenaltyMH, DPFastMHGaussian)
SAMPLERS = BARE + NOISY
RELATIONS = ("replace_one", "add_or_remove_one")
VARIED = ({"proposal": "gaussian"}, {"adapt_step_size": True})


def bounds_of(d=3, gradient_bound=1.0, precision=1.0):
    return TargetBounds(d, gradient_bound, gradient_bound**2 / 4, (precision, precision))


def plan(
    sampler=DPFastMH,
    epsilon=1.0,
    delta=1e-6,
    relation="replace_one",
    n=50_000,
    d=3,
    bounds=None,
    **options,
):
    budget = Budget(epsilon, delta, relation)
    return planned(sampler, bounds or bounds_of(d), n, budget, **options)


def test_a_plan_sees_public_quantities_only():
    names = ["bounds", "n_samples", "budget", "n_draws"]
    assert list(inspect.signature(DPFastMH().plan).parameters) == names


@given(
    sampler=st.sampled_from(SAMPLERS),
    d=st.integers(1, 60),
    n=st.floats(0.0, 7.5).map(lambda power: int(10**power)),
    epsilon=st.floats(-2.0, 1.3).map(lambda power: 10**power),
    pure=st.booleans(),
    relation=st.sampled_from(RELATIONS),
    precision=st.sampled_from([0.05, 1.0, 40.0]),
    gradient_bound=st.sampled_from([0.3, 4.0]),
    options=st.sampled_from(
        [{}, {"n_draws": 7}, {"n_steps": 500}, {"temperature": 3.0}, {"burn_in": 0.1}]
    ),
)
@settings(max_examples=25, deadline=None)
def test_no_plan_passes_its_budget(
    sampler, d, n, epsilon, pure, relation, precision, gradient_bound, options
):
    delta = 0.0 if pure and sampler in BARE else 1e-7
    bounds = bounds_of(d, gradient_bound, precision)
    try:
        made = plan(sampler, epsilon, delta, relation, n, bounds=bounds, **options)
    except ValueError as refused:
        # A single step at a low temperature may be too much.
        assert "temperature" in options and "temperature=3" in str(refused)
        return
    assert 0 < made.epsilon == made.cost.epsilon(delta) <= epsilon
    assert made.cost.neighboring_relation == relation
    assert 0 <= made.batch_ratio <= LARGEST_BATCH_RATIO and 0 < made.sampling_rate <= 1
    assert (made.noise_variance > 0) == (sampler in NOISY)
    assert made.n_steps >= 1 and made.temperature >= 1
    for name, value in options.items():
        if name != "burn_in":
            assert getattr(made, name) == value


# What a step is charged


@pytest.mark.parametrize("sampler", BARE)
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_plan_pays_for_the_bits_that_its_steps_may_give_away(sampler, relation):
    made = plan(sampler, relation=relation)
    (bits,) = made.cost.decisions
    assert bits.count == made.n_steps == made.privacy_filter.total
    wanted = accept_range(made.step_size / made.temperature, made.batch_ratio, relation)
    assert wanted <= bits.log_odds_range <= wanted * (1 + 1e-5)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("bound", [1e-9, 1e-5, 3e-3])
@pytest.mark.parametrize("ratio", [1e-3, 0.2, LARGEST_BATCH_RATIO])
def test_what_a_batchs_rounding_can_add_is_in_the_range_of_its_bits(relation, bound, ratio):
    """Terms as in "Decisions in floating point": sums, quotients, laws of numbers, and log-odds."""
    for n in (2, 1000, 10**6, 10**8):
        # Ten times a public size is covered where the number of records is private.
        records = n if relation == "replace_one" else 10 * n
        rate = records * bound * (1 + 1 / ratio)
        most = rate + 14 * math.sqrt(rate) + 66
        sums = 2.0**-52 * (3.7 * most + 4)
        quotients = 2 * 2.0**-50 * rate / records
        laws = 2.0**-49 * (most - rate) + 2.0**-61
        log_odds = 2 * (2.0**-48 + 2.0**-51)
        kernel = Kernel(True, False, relation, True, n)
        moved = accept_range(bound, ratio, relation)
        claimed = kernel.cost(bound, ratio, 0.0, 1).decisions[0].log_odds_range
        assert claimed >= moved + sums + quotients + laws + log_odds
        assert claimed <= moved + 2.0**-40 + 2.0**-46 * rate
        # And under noise every jump is as much longer.
        noisy = Kernel(True, True, relation, True, n)
        (counted,) = noisy.cost(bound, ratio, 4.0, 1).counted
        assert (
            2.0 / counted.noise_multiplier >= math.log1p(ratio) + sums + quotients + 2.0**-50 * 260
        )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("options", VARIED)
@pytest.mark.parametrize("sampler", [*BARE, PenaltyMH])
@pytest.mark.parametrize("n", [300, 1_000_000])
def test_rounding_is_paid_for_in_filters_of_many_short_steps(relation, options, sampler, n):
    """Every bit's range grows by rounding, by as much in the shortest step as in the longest."""
    made = plan(sampler, relation=relation, n=n, **options)
    kernel = Kernel(sampler.on_batches, sampler.is_noisy, relation, True, n)
    for steps in (made.n_steps, made.expected_steps):
        distance = math.sqrt(made.privacy_filter.total / made.privacy_filter.coefficient / steps)
        bound = distance / made.temperature
        of_one = kernel.concentrated(bound, made.batch_ratio, made.noise_variance)
        assert steps * of_one <= made.cost.rho


class Given(NamedTuple):
    """A generator that returns what it is told to."""

    normal: float
    exponential: float

    def standard_normal(self):
        return self.normal

    def standard_exponential(self):
        return self.exponential


def least_accepted(log_ratio, noise_variance, exponential):
    """Return the least normal number with which a noisy ratio is accepted, to the last bit."""
    low, high = -1e4, 1e4
    while low < (middle := 0.5 * (low + high)) < high:
        drawn = Given(middle, exponential)
        if is_accepted(drawn, log_ratio, False, noise_variance):
            high = middle
        else:
            low = middle
    return high


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("noise_variance", [1e-3, 1.0, 37.0, 1e5])
def test_rounding_of_noisy_ratios_is_paid_for_where_records_do_little(relation, noise_variance):
    """A table of a single record, and a prior that weighs ever so much more.

    Given its exponential number, a bit tells whether a normal one is beyond a point. What moves that point
    is the shift of a Gaussian mechanism.
    """
    kernel = Kernel(False, True, relation, True, 1)
    deviation, rng = math.sqrt(noise_variance), np.random.default_rng(0)
    for bound in (1e-18, 1e-15, 0.51 * math.ulp(noise_variance + 200.0), 1e-6):
        paid = kernel.cost(bound, 0.0, noise_variance, 1).mu * deviation
        most = 0.0
        for _ in range(60):
            prior = rng.uniform(-1.0, 1.0) * (noise_variance + 256.0)
            exponential = rng.exponential()
            pulls = (bound, -bound) if relation == "replace_one" else (bound, 0.0)
            ends = [least_accepted(prior + pull, noise_variance, exponential) for pull in pulls]
            most = max(most, abs(ends[0] - ends[1]) * deviation)
        assert most <= paid


@pytest.mark.parametrize("relation", RELATIONS)
def test_plans_pay_for_rounding_where_records_do_next_to_nothing(relation):
    made = plan(PenaltyMH, relation=relation, step_size=1e-12, n_steps=50, temperature=1.0)
    sensitivity_factor = 2.0 if relation == "replace_one" else 1.0
    assert made.cost.mu > sensitivity_factor * 1e-12 * math.sqrt(50 / made.noise_variance) * 1.1


def test_noise_is_paid_for_as_a_gaussian():
    made = plan(PenaltyMH)
    mu = 2 * made.step_size / made.temperature * math.sqrt(made.n_steps / made.noise_variance)
    assert mu <= made.cost.mu <= mu * (1 + 1e-6)
    made = plan(DPFastMHGaussian)
    (counted,) = made.cost.counted
    jump = math.log1p(made.batch_ratio)
    assert counted.noise_multiplier == pytest.approx(math.sqrt(made.noise_variance) / jump)
    bound = made.step_size / made.temperature
    assert counted.rate == pytest.approx(bound * (1 + 1 / made.batch_ratio), rel=1e-6)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_noisy_batch_is_charged_for_poisson_counted_records(relation):
    fixed = {"n_steps": 300, "step_size": 0.05, "temperature": 1.0}
    made = plan(
        DPFastMHGaussian,
        5.0,
        relation=relation,
        n=1000,
        batch_size=112,
        noise_multiplier=4.0,
        **fixed,
    )
    bound, ratio = 0.05, made.batch_ratio
    assert made.batch_size == pytest.approx(1000 * bound * (1 + 1 / ratio), rel=1e-6)
    (part,) = made.cost.counted
    noise = math.sqrt(made.noise_variance) / math.log1p(ratio)
    assert part.noise_multiplier == pytest.approx(noise, rel=1e-6) and part.count == 300
    assert part.rate == pytest.approx(bound * (1 + 1 / ratio), rel=1e-6)


def test_pure_privacy_is_added_up_and_told_what_a_delta_would_buy():
    (bits,) = plan(n=1_000_000, delta=0.0).cost.decisions
    assert 0.9 < bits.count * bits.log_odds_range <= 1.0
    made = plan(delta=0.0, n=5000)
    assert made.temperature > plan(n=5000).temperature
    assert made.cost.pure_epsilon == made.epsilon <= 1.0
    assert "delta above 0" in made.warnings[-1]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_without_privacy_nothing_is_claimed_and_metropolis_rule_is_used(sampler):
    made = plan(sampler, epsilon=math.inf, n=5000)
    assert made.rule == "metropolis" and made.noise_variance == 0
    assert made.epsilon == math.inf and made.temperature == 1
    assert (made.batch_ratio > 0) == sampler.on_batches
    assert plan(sampler).rule == ("barker" if sampler in BARE else "metropolis")


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
    if "adapt_step_size" in options and sampler == DPFastMHGaussian:
        options = {"step_size": 0.05}
    made = plan(sampler, **options)
    assert made.epsilon <= 1.0
    for name, value in options.items():
        assert getattr(made, name) == pytest.approx(value)


@pytest.mark.parametrize("sampler", [DPFastMH, DPFastMHGaussian])
@pytest.mark.parametrize("options", [{}, {"n_steps": 100}, {"temperature": 5.0}], ids=str)
def test_batches_of_the_size_that_was_asked_for(sampler, options):
    made = plan(sampler, n=1_000_000, batch_size=4000, **options)
    assert made.batch_size == pytest.approx(4000, rel=1e-5)
    bound = made.step_size / made.temperature
    assert made.lambda_t + 1e6 * bound == pytest.approx(4000, rel=1e-5)
    assert made.batch_ratio == pytest.approx(1e6 * bound / made.lambda_t)


def test_batches_keep_their_size_where_distances_must_be_shortened():
    """A few noisy steps cost more than the limit in which the search reckons them: by a quarter here."""
    fixed = {"n": 60, "temperature": 10.0, "batch_size": 20}
    made = plan(DPFastMHGaussian, delta=1e-9, **fixed)
    assert made.epsilon <= 1.0
    assert made.batch_size == pytest.approx(20)


def test_batches_keep_their_size_where_the_temperature_must_rise():
    fixed = {"n": 270_731, "step_size": 2.7225, "batch_size": 2886}
    made = plan(DPFastMHGaussian, 0.1018, 1e-9, bounds=bounds_of(7, 5.2157, 28.9), **fixed)
    assert made.batch_size == pytest.approx(2886) and made.step_size == 2.7225
    bound = 5.2157 * 2.7225 / made.temperature
    assert 270_731 * bound * (1 + 1 / made.batch_ratio) == pytest.approx(2886, rel=1e-5)
    assert 0.8 * 0.1018 < made.epsilon <= 0.1018


@pytest.mark.parametrize(
    "relation, sensitivity_factor", [("replace_one", 2.0), ("add_or_remove_one", 1.0)]
)
@pytest.mark.parametrize("sampler", NOISY)
def test_noise_of_the_multiplier_that_was_asked_for(sampler, relation, sensitivity_factor):
    made = plan(sampler, relation=relation, noise_multiplier=25.0)
    bound = made.step_size / made.temperature
    jump = math.log1p(made.batch_ratio) if made.batch_ratio else bound
    assert math.sqrt(made.noise_variance) == pytest.approx(
        25.0 * sensitivity_factor * jump, rel=1e-5
    )


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
    assert made.epsilon < 0.7 and made.temperature == 1.0 and made.warnings == ()
    assert made.relaxations == pytest.approx(2 * 25, rel=0.02)
    more = plan(sampler, n=20_000_000, d=2, delta=1e-8, n_effective=40)
    assert more.relaxations == pytest.approx(2 * 40, rel=0.02)
    assert made.epsilon < more.epsilon < 1.0
    assert made.estimated_seconds < more.estimated_seconds


def test_batches_read_far_fewer_records_than_the_table():
    made = [plan(s, n=100_000) for s in (DPFastMH, DPMH)]
    assert made[0].record_gradients < 0.2 * made[1].record_gradients
    assert made[0].relaxations > 0.5 * made[1].relaxations


def test_the_table_is_read_only_where_batches_would_be_too_large():
    free = plan(n=1_000_000)
    assert 0 < free.batch_size < 20_000
    for largest in (200, 2000, 200_000):
        made = plan(n=1_000_000, max_batch_size=largest)
        assert made.batch_size <= largest or made.batch_size == 1_000_000
        assert made.temperature == 1.0 and made.relaxations > 2.0
    assert plan(n=1_000_000, max_batch_size=200_000).batch_size == pytest.approx(free.batch_size)
    made = plan(n=100_000, max_batch_size=50)
    assert made.batch_ratio == made.lambda_t == 0 and made.batch_size == 100_000


# What is too little


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_small_tables_are_sampled_at_a_higher_temperature_which_is_said(sampler):
    made = plan(sampler, n=5000, d=20)
    assert made.temperature > 5.0 and made.epsilon > 0.9
    (note,) = made.warnings
    assert note in str(made) and "20 parameters" in note
    assert "sampler='sghmc'" in note and f"temperature {made.temperature:.3g}" in note
    other = SGHMC().plan(bounds_of(20), 5000, Budget(1.0, 1e-6))
    assert f"{other.temperature:.3g}" in note and other.temperature < made.temperature


@pytest.mark.parametrize("sampler, delta", [*((s, 0.0) for s in BARE), *((s, 1e-6) for s in NOISY)])
def test_no_plan_warns_of_what_its_own_rounding_takes(sampler, delta):
    """Of a few steps one is a tenth, and a temperature that is free makes up for it."""
    for d, n, epsilon in ((1, 500, 1.0), (1, 20_000, 0.3), (3, 20_000, 3.0), (10, 200_000, 1.0)):
        for relation in RELATIONS:
            made = plan(sampler, epsilon, delta, relation, n, d)
            assert "hardly leaves" not in str(made)
            assert delta > 0 or made.relaxations >= 0.999 * made.wanted_relaxations


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_what_never_gets_through_its_burn_in_moves_all_the_same(sampler):
    made = plan(sampler, n=20_000, temperature=1.0)
    assert made.expected_steps > 60 and made.expected_acceptance > 0.15
    assert 0.9 < made.epsilon <= 1.0
    short, advice = made.warnings
    assert "hardly leaves its start" in short and "cannot move" in advice


def test_batches_that_are_too_small_for_their_steps_are_named():
    small = {"n": 20_000, "batch_size": 5, "step_size": 0.1}
    with pytest.raises(
        ValueError, match="batch_size=5, temperature=1 .*Raise batch_size, or lower"
    ):
        plan(temperature=1.0, **small)
    made = plan(**small)
    assert made.batch_size == pytest.approx(5)
    assert "raise batch_size, or lower step_size" in made.warnings[-1]


# Steps of different lengths


@pytest.mark.parametrize("options", VARIED, ids=str)
@pytest.mark.parametrize("sampler", [DPMH, DPFastMH, PenaltyMH])
def test_their_charges_add_up_to_what_is_claimed(sampler, options):
    made = plan(sampler, **options)
    assert made.cost.rho == made.cost.concentrated and made.privacy_filter.total <= made.cost.rho
    each = made.privacy_filter.coefficient * made.step_size**2
    assert each * made.expected_steps == pytest.approx(made.cost.rho, rel=1e-6)
    # More and shorter steps than expected must be possible.
    assert made.n_steps > 1.1 * made.expected_steps and "at most" in str(made)
    assert (made.privacy_filter.target_acceptance > 0) == ("adapt_step_size" in options)


@pytest.mark.parametrize("options", ({}, *VARIED), ids=str)
def test_draws_are_marked_evenly_between_burn_in_and_the_end(options):
    made = plan(n_draws=60, **options)
    marks = made.draw_marks()
    ticks = np.append(made.privacy_filter.burn_in_end, marks)
    spacing = (made.privacy_filter.total - made.privacy_filter.burn_in_end) / 60
    np.testing.assert_allclose(np.diff(ticks), spacing, rtol=1e-6)
    # Charges are sums of many, and would miss a mark at the very end.
    assert marks[-1] < made.privacy_filter.total


def test_without_privacy_steps_are_counted_whatever_their_length():
    for options in VARIED:
        made = plan(DPMH, epsilon=math.inf, n_steps=500, **options)
        assert made.n_steps == made.expected_steps == made.privacy_filter.total == 500
        assert made.epsilon == math.inf and made.cost.is_infinite


# What is refused


@pytest.mark.parametrize(
    ("sampler", "options", "named"),
    [
        (PenaltyMH, {"delta": 0.0}, "pure differential privacy"),
        (DPFastMHGaussian, {"delta": 0.0}, "delta=0"),
        (PenaltyMH, {"noise_multiplier": 0.0}, "noise_multiplier"),
        (PenaltyMH, {"noise_multiplier": math.inf}, "noise_multiplier"),
        (DPFastMH, {"batch_size": 0}, "batch_size"),
        (DPFastMH, {"batch_size": 200_000}, "batch_size=200000"),
        (DPFastMH, {"batch_size": 50, "max_batch_size": 40}, "batch_size=50"),
        (DPFastMH, {"max_batch_size": 0}, "max_batch_size"),
        (DPFastMH, {"proposal": "square"}, "'square'"),
        (DPFastMH, {"n_effective": 0}, "n_effective"),
        (DPFastMH, {"step_size": -1.0}, "step_size"),
        (DPFastMH, {"step_size": math.inf}, "step_size"),
        (DPFastMH, {"burn_in": 1.0}, "burn_in"),
        (DPFastMH, {"temperature": 0.5}, "temperature"),
        (DPMH, {"n_steps": 0}, "n_steps"),
        (DPMH, {"n_draws": 0}, "n_draws"),
        (DPMH, {"n": 0}, "n_samples"),
        (DPMH, {"relation": "swap"}, "neighboring_relation"),
        (DPMH, {"epsilon": -1.0}, "epsilon"),
        (DPMH, {"delta": 1.0}, "delta"),
        (DPFastMHGaussian, {"adapt_step_size": True}, "different lengths"),
        (DPFastMHGaussian, {"proposal": "gaussian"}, "proposal"),
        (DPFastMH, {"delta": 0.0, "proposal": "gaussian"}, "delta=0"),
        (DPMH, {"adapt_step_size": True, "delta": 0.0}, "delta=0.*adapt_step_size"),
        (DPFastMH, {"n_steps": 100, "adapt_step_size": True}, "n_steps=100"),
        (PenaltyMH, {"noise_multiplier": 2.0, "n_steps": 1000}, "n_steps=1000, noise_multiplier=2"),
        (
            DPFastMH,
            {"n_steps": 10**6, "step_size": 0.5, "temperature": 1.0},
            "n_steps=1e.06, step_size=0.5, temperature=1 costs at most epsilon=1.*raise epsilon",
        ),
    ],
)
def test_what_cannot_hold_is_refused_by_name(sampler, options, named):
    with pytest.raises(ValueError, match=named):
        plan(sampler, **options)


@pytest.mark.parametrize(
    ("sampler", "names"),
    [
        (DPMH, {"noise_multiplier", "batch_size", "max_batch_size"}),
        (DPFastMH, {"noise_multiplier", "friction", "step_decay", "init"}),
        (PenaltyMH, {"batch_size", "max_batch_size"}),
        (SGHMC, {"proposal", "adapt_step_size", "n_effective"}),
    ],
)
def test_what_a_sampler_has_no_use_for_is_no_option_of_it(sampler, names):
    assert names.isdisjoint(sampler().get_params())
