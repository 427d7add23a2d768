"""Steps of different lengths: what they are charged adds up to no more than was planned."""

import numpy as np
import pytest
from walks import blocks, logistic_table, watched

import skdpbayes.samplers.metropolis.chain as core
from skdpbayes.privacy import Budget
from skdpbayes.samplers import DPMH, DPFastMH, PenaltyMH
from skdpbayes.samplers.base import run_plan

VARIED = ({"proposal": "gaussian"}, {"adapt_step_size": True})


@pytest.mark.parametrize("sampler", [DPMH, DPFastMH, PenaltyMH])
@pytest.mark.parametrize("options", [*VARIED, VARIED[0] | VARIED[1]], ids=" ".join)
def test_no_chain_with_steps_of_different_lengths_passes_what_was_planned(
    make_target, sampler, options
):
    target, bounds = make_target(*logistic_table(3000, 3), norm=2.0, prior_scale=1.0)
    plan = sampler(**options).plan(bounds, 3000, Budget(4.0, 1e-6))
    assert plan.epsilon <= 4.0
    assert plan.privacy_filter.total <= plan.cost.rho == plan.cost.concentrated
    for seed in range(2):
        states, records = blocks(target, plan, seed, 1)
        spent = records[:, core._SPENT]
        assert (spent <= plan.privacy_filter.total).all() and (np.diff(spent) >= 0).all()
        # What is left would not have paid for a step of ordinary length ...
        assert spent[-1] > 0.5 * plan.privacy_filter.total and len(spent) <= plan.n_steps
        # ... and every step that was taken was charged for its distance.
        distances = np.linalg.norm(np.diff(states, axis=0), axis=1)
        taken = distances > 0
        charges = plan.privacy_filter.coefficient * distances**2
        np.testing.assert_allclose(np.diff(spent)[taken], charges[taken], rtol=1e-6)
        assert taken.any()
        released = run_plan(target, plan, seed, 0)
        assert released.other["n_iter"] == records[-1, core._STEPS] <= plan.n_steps
        share = records[-1, core._ACCEPTED] / records[-1, core._STEPS]
        assert released.other["acceptance_rate"] == share
        np.testing.assert_array_equal(released.draws[-1], states[-1])


@pytest.mark.parametrize("sampler", [DPMH, DPFastMH])
def test_a_charge_is_what_a_bit_of_that_distance_costs(sampler):
    _, bounds = watched(np.zeros((3000, 3)))
    plan = sampler(proposal="gaussian").plan(bounds, 3000, Budget(1.0, 1e-6))
    for distance in (0.3 * plan.step_size, plan.step_size, 4.0 * plan.step_size):
        a, r = distance / plan.temperature, plan.batch_ratio
        log_odds_range = a * (2 + r**2 / (1 + r))
        charge = plan.privacy_filter.coefficient * distance**2
        assert charge == pytest.approx(log_odds_range**2 / 8, rel=1e-6)
        assert charge >= log_odds_range**2 / 8


def test_adaptation_follows_accept_bits_and_nothing_else(make_target):
    """Tables whose bits agree have the same steps, to the last digit."""
    X, y = logistic_table(400, 2)
    X /= 1.01 * np.linalg.norm(X, axis=1)[:, None]
    target, bounds = make_target(X, y, prior_scale=1.0)
    sampler = DPMH(adapt_step_size=True, proposal="gaussian")
    plan = sampler.plan(bounds, 400, Budget(2.0, 1e-6))
    total = 20.0 * plan.privacy_filter.total
    privacy_filter = plan.privacy_filter._replace(total=total, burn_in_end=0.3 * total)
    plan = plan.changed(n_steps=20_000, privacy_filter=privacy_filter)
    states, records = blocks(target, plan, 3, 1)
    for table in ((X * (1 + 1e-12), y), (X[::-1].copy(), y[::-1].copy())):
        other_states, other_records = blocks(make_target(*table, prior_scale=1.0)[0], plan, 3, 1)
        np.testing.assert_array_equal(other_states, states)
        np.testing.assert_array_equal(other_records, records)
    assert records[-1, core._OVER] == 1
    scales = records[:, core._SCALE]
    assert np.unique(scales).size > 20 and 0.25 <= scales.min() < scales.max() <= 4.0
    # After burn-in nothing is adapted any more.
    after = records[:, core._SPENT] >= privacy_filter.burn_in_end
    assert np.unique(scales[after]).size == 1 and after.sum() > 100


def adapted_chains(make_target, n, d, epsilon, repeats):
    """Return a plan, and the public record of some chains that follow it."""
    target, bounds = make_target(*logistic_table(n, d), norm=2.0, prior_scale=1.0)
    plan = DPFastMH(adapt_step_size=True).plan(bounds, n, Budget(epsilon, 1e-6))
    return plan, [run_plan(target, plan, seed, 0).other for seed in range(repeats)]


@pytest.mark.parametrize("n", [100, 1000])
def test_short_adapted_chains_make_about_as_many_steps_as_planned(make_target, n):
    """Few bits say little on how long steps should be, and their number falls with the square of that."""
    plan, released = adapted_chains(make_target, n, 3, 1.0, 30)
    assert 60 < plan.expected_steps < 200
    steps = np.array([other["n_iter"] for other in released])
    assert (np.abs(np.log(steps / plan.expected_steps)) < np.log(2.2)).all()
    assert np.median(steps) == pytest.approx(plan.expected_steps, rel=0.2)


def test_long_adapted_chains_accept_as_often_as_wanted(make_target):
    """Steps grow until they do: this posterior is wider than a typical one of its bounds."""
    plan, released = adapted_chains(make_target, 20_000, 2, 2.0, 5)
    shares = [other["acceptance_rate"] for other in released]
    assert np.mean(shares) == pytest.approx(plan.privacy_filter.target_acceptance, abs=0.02)
    # Longer ones cost more each, and are fewer.
    assert np.mean([other["n_iter"] for other in released]) < 0.5 * plan.expected_steps
