"""Plans for Metropolis' family: within the budget, as quick as it allows, and honest about what it cannot."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from skdpbayes.privacy import Budget, SamplerOptions, plan_hamiltonian, plan_metropolis
from skdpbayes.privacy.accept_bits import LARGEST_BATCH_RATIO, accept_range
from skdpbayes.privacy.metropolis_kernels import barker_acceptance, metropolis_acceptance
from skdpbayes.targets import TargetBounds

SAMPLERS = ("dp_fast_mh", "dp_mh", "penalty", "dp_fast_mh_gaussian")


def bounds_of(dimension, precision=0.5):
    return TargetBounds(dimension, 1.0, 0.25, (precision, precision))


def plan(n=100_000, dimension=3, epsilon=1.0, delta=1e-6, sampler="dp_fast_mh", **options):
    budget = Budget(epsilon, delta, options.pop("relation", "replace_one"))
    return plan_metropolis(
        bounds_of(dimension), n, budget, SamplerOptions(**options), sampler=sampler
    )


@given(
    sampler=st.sampled_from(SAMPLERS),
    n=st.integers(1, 10_000_000),
    dimension=st.integers(1, 40),
    epsilon=st.floats(0.01, 20.0),
    delta=st.sampled_from([1e-9, 1e-6, 1e-3]),
    relation=st.sampled_from(["replace_one", "add_or_remove_one"]),
    options=st.sampled_from(
        [{}, {"n_draws": 7}, {"n_steps": 500}, {"temperature": 3.0}, {"burn_in": 0.1}]
    ),
)
@settings(max_examples=40, deadline=None)
def test_no_plan_passes_its_budget(sampler, n, dimension, epsilon, delta, relation, options):
    made = plan(n, dimension, epsilon, delta, sampler, relation=relation, **options)
    assert made.cost.epsilon(delta) <= epsilon
    assert made.n_steps >= 1 and made.temperature >= 1 and 0 <= made.batch_ratio <= 1.4143
    for name, value in options.items():
        if name != "burn_in":
            assert getattr(made, name) == value


@pytest.mark.parametrize("sampler", ["dp_mh", "dp_fast_mh"])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_plan_pays_for_the_bits_that_its_steps_may_give_away(sampler, relation):
    made = plan(sampler=sampler, relation=relation)
    record_bound = made.bounds.gradient_bound * made.step_size / made.temperature
    (bits,) = made.cost.bits
    assert bits.count == made.n_steps == made.clock.total
    wanted = accept_range(record_bound, made.batch_ratio, relation)
    assert wanted <= bits.log_odds_range <= wanted * (1 + 1e-5)


def test_noise_is_paid_for_as_a_gaussian():
    made = plan(sampler="penalty")
    record_bound = made.bounds.gradient_bound * made.step_size / made.temperature
    mu = 2 * record_bound * math.sqrt(made.n_steps / made.noise_variance)
    assert mu <= made.cost.mu <= mu * (1 + 1e-6)
    made = plan(sampler="dp_fast_mh_gaussian")
    (counted,) = made.cost.counted
    jump = math.log1p(made.batch_ratio)
    assert counted.noise_multiplier == pytest.approx(math.sqrt(made.noise_variance) / jump)
    record_bound = made.bounds.gradient_bound * made.step_size / made.temperature
    assert counted.rate == pytest.approx(record_bound * (1 + 1 / made.batch_ratio), rel=1e-6)


def test_the_batch_is_what_lambda_and_the_distance_make_it():
    made = plan()
    record_bound = made.bounds.gradient_bound * made.step_size / made.temperature
    expected = made.lambda_t + made.n_samples * record_bound
    assert made.batch_size == pytest.approx(expected, rel=1e-6)
    assert 0 < made.batch_ratio <= LARGEST_BATCH_RATIO
    assert plan(batch_size=700).batch_size == pytest.approx(700, rel=1e-6)
    assert plan(sampler="dp_mh").lambda_t == 0


def test_a_large_table_stops_at_the_wanted_size_and_spends_less_than_it_may():
    made = plan(n=20_000_000, dimension=2, epsilon=3.0)
    assert made.temperature == 1 and made.epsilon < 2.0
    assert made.relaxations == pytest.approx(2 * 25, rel=0.02)
    longer = plan(n=20_000_000, dimension=2, epsilon=3.0, n_effective=100)
    assert longer.relaxations == pytest.approx(2 * 100, rel=0.02)
    assert longer.epsilon > made.epsilon and longer.estimated_seconds > made.estimated_seconds


def test_more_budget_buys_more_relaxations():
    reached = [plan(epsilon=epsilon, temperature=1.0).relaxations for epsilon in (0.5, 1.0, 2.0)]
    assert reached == sorted(reached) and reached[-1] > 2 * reached[0]


def test_batches_read_far_fewer_records_than_the_table():
    made = [plan(n=500_000, sampler=s) for s in ("dp_fast_mh", "dp_mh")]
    assert made[0].record_gradients < 0.2 * made[1].record_gradients
    assert made[0].relaxations > 0.5 * made[1].relaxations


def test_a_budget_that_cannot_move_a_deviation_says_so_and_names_what_can():
    made = plan(n=20_000, dimension=30)
    assert made.temperature > 5
    (note,) = made.notes
    assert "30 parameters" in note and "'sghmc'" in note
    other = plan_hamiltonian(bounds_of(30), 20_000, Budget(1.0, 1e-6))
    assert f"{other.temperature:.3g}" in note and other.temperature < made.temperature
    assert plan(n=1_000_000).notes == ()
    (short, advice) = plan(n=20_000, temperature=1.0).notes
    assert "hardly leaves its start" in short and "cannot move" in advice


def test_pure_privacy_is_composed_by_addition():
    made = plan(n=1_000_000, delta=0.0)
    (bits,) = made.cost.bits
    assert made.epsilon == pytest.approx(bits.count * bits.log_odds_range)
    assert 0.9 < made.epsilon <= 1.0


def test_without_privacy_nothing_is_claimed_and_metropolis_rule_is_used():
    for sampler in SAMPLERS:
        made = plan(epsilon=math.inf, sampler=sampler, n=5000)
        assert made.rule == "metropolis" and made.noise_variance == 0
        assert made.epsilon == math.inf and made.temperature == 1
    assert plan(epsilon=math.inf, n=5000).batch_ratio > 0
    assert {plan(sampler=sampler).rule for sampler in ("dp_fast_mh", "dp_mh")} == {"barker"}


def test_where_batches_would_be_larger_the_table_is_taken():
    made = plan(max_batch_size=50)
    assert made.batch_ratio == 0 and made.batch_size == made.n_samples
    assert plan(max_batch_size=5000).batch_size <= 5000


def test_steps_of_different_lengths_are_charged_as_zcdp():
    for options in ({"proposal": "gaussian"}, {"adapt_step_size": True}):
        made = plan(**options)
        assert made.cost.rho > 0 and not made.cost.bits
        assert made.clock.total <= made.cost.rho and made.n_steps > made.expected_steps
        assert "at most" in str(made)
    assert plan(adapt_step_size=True).clock.wanted_acceptance > 0


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"sampler": "penalty", "delta": 0.0}, "pure differential privacy"),
        ({"noise_multiplier": 2.0}, "noise_multiplier=2.0"),
        ({"sampler": "dp_mh", "batch_size": 10}, "batch_size=10"),
        ({"sampler": "penalty", "max_batch_size": 10}, "max_batch_size=10"),
        ({"friction": 0.5}, "friction=0.5"),
        ({"step_decay": 0.3}, "step_decay=0.3"),
        ({"init": "ops"}, "init='ops'"),
        ({"proposal": "square"}, "'square'"),
        ({"max_batch_size": 0}, "max_batch_size"),
        ({"n_effective": 0}, "n_effective"),
        ({"batch_size": 200_000}, "batch_size=200000"),
        ({"batch_size": 50, "max_batch_size": 40}, "batch_size=50"),
        ({"step_size": -1.0}, "step_size"),
        ({"step_size": math.inf}, "step_size"),
        ({"burn_in": 1.0}, "burn_in"),
        ({"temperature": 0.5}, "temperature"),
        ({"sampler": "dp_fast_mh_gaussian", "adapt_step_size": True}, "different lengths"),
        ({"delta": 0.0, "proposal": "gaussian"}, "delta=0"),
        ({"n_steps": 100, "adapt_step_size": True}, "n_steps=100"),
        ({"sampler": "gibbs"}, "'gibbs'"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        (
            {"n_steps": 10**6, "step_size": 0.5, "temperature": 1.0},
            "n_steps=1e.06, step_size=0.5, temperature=1 costs at most epsilon=1",
        ),
    ],
)
def test_what_cannot_hold_is_refused_by_name(wrong, what):
    with pytest.raises(ValueError, match=what):
        plan(**wrong)


def test_options_of_random_walks_are_refused_elsewhere():
    for options in ({"proposal": "gaussian"}, {"adapt_step_size": True}, {"n_effective": 5}):
        with pytest.raises(ValueError, match="Metropolis' family"):
            plan_hamiltonian(bounds_of(3), 1000, Budget(1.0, 1e-6), SamplerOptions(**options))


@pytest.mark.parametrize("deviation", [0.1, 1.0, 3.0, 8.0])
def test_acceptance_against_quadrature(deviation):
    def mean(rule):
        def integrand(z):
            return norm.pdf(z) * rule(deviation * z - deviation**2 / 2)

        return quad(integrand, -12, 12 + deviation, points=[deviation / 2], limit=200)[0]

    assert barker_acceptance(deviation) == pytest.approx(mean(expit), rel=1e-6)
    accepted = mean(lambda x: np.exp(np.minimum(x, 0.0)))
    assert metropolis_acceptance(deviation) == pytest.approx(accepted, rel=1e-6)
