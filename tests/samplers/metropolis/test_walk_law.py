"""Random walks on logistic regression: their law, and which draws are kept."""

import numba
import numpy as np
import pytest
from references import logistic_moments, planned
from scipy.special import expit
from walks import BATCHED, NOISY, SAMPLERS, assert_moments, blocks, repeated

from skdpbayes.privacy import Budget
from skdpbayes.samplers import DPMH, DPFastMH, DPFastMHGaussian, PenaltyMH, sample


@pytest.fixture(scope="module")
def small_table():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = (rng.random(40) < expit(3 * X[:, 0] - X[:, 1])).astype(int)
    return X, y


CASES = [(sampler, 1e4, 3.0) for sampler in SAMPLERS]
# Without privacy there is no noise, and two samplers stand for four.
CASES += [(sampler, np.inf, 3.0) for sampler in (DPMH, DPFastMH)]
CASES += [(DPFastMHGaussian, 1e4, 1.0)]
CASES += [
    pytest.param(sampler, 1e4, 1.0, marks=pytest.mark.nightly)
    for sampler in (DPMH, DPFastMH, PenaltyMH)
]


@pytest.mark.daily(2)
@pytest.mark.parametrize("sampler, epsilon, temperature", CASES)
def test_stationary_law_against_quadrature(make_target, small_table, sampler, epsilon, temperature):
    X, y = small_table
    target, bounds = make_target(X, y, prior_scale=1.0)
    options = {"temperature": temperature, "step_size": 0.9}
    if sampler in BATCHED:
        # The smallest batches whose cost is known: the noisiest ratio.
        options["step_size"] = 0.5 * temperature
        options["batch_size"] = 35
    if sampler in NOISY and epsilon < np.inf:
        options["noise_multiplier"] = 0.5 * temperature
    plan = repeated(sampler, bounds, 40, 300_000, 60_000, epsilon=epsilon, **options)
    private = epsilon < np.inf
    assert plan.rule == ("barker" if private and sampler not in NOISY else "metropolis")
    assert (plan.noise_variance > 0.5) == (private and sampler in NOISY)
    assert (plan.batch_ratio > 1.3) == (sampler in BATCHED)
    draws = sample(target, plan, random_state=1)
    assert_moments(draws, *logistic_moments(X, y, 1.0, temperature))


def test_the_same_seed_gives_the_same_draws(make_target, small_table):
    X, y = small_table
    target, bounds = make_target(X, y)
    for sampler in SAMPLERS:
        plan = sampler().plan(bounds, 40, Budget(1.0, 1e-5), n_draws=37)
        draws = sample(target, plan, random_state=1)
        assert draws.shape == (37, 2)
        np.testing.assert_array_equal(draws, sample(target, plan, random_state=1))
        assert not np.array_equal(draws, sample(target, plan, random_state=2))
        assert not np.array_equal(sample(target, plan), sample(target, plan))


def test_blocks_of_any_length_give_the_same_chain(make_target, small_table):
    target, bounds = make_target(*small_table)
    plan = repeated(DPMH, bounds, 40, 60, 20, step_size=0.3, temperature=1.0)
    states, records = blocks(target, plan, 0, 1)
    for block in (7, 60):
        others, other_records = blocks(target, plan, 0, block)
        np.testing.assert_array_equal(others[-1], states[-1])
        np.testing.assert_array_equal(other_records[-1], records[-1])


def test_draws_are_evenly_spaced_after_burn_in(make_target, small_table):
    target, bounds = make_target(*small_table)
    sampler = DPMH(burn_in=0.1, step_size=0.3)
    plan = planned(sampler, bounds, 40, Budget(np.inf, 1e-6), n_steps=1000, n_draws=90)
    assert plan.n_burn_in == 100
    states, _ = blocks(target, plan, 4, 1)
    np.testing.assert_array_equal(sample(target, plan, random_state=4), states[109::10])


def test_one_core_and_two_give_the_same_draws(make_target):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 20))
    target, bounds = make_target(X, rng.integers(2, size=20_000), norm=4.0)
    fixed = {"temperature": 500.0, "n_steps": 60, "n_draws": 60}
    plan = planned(DPMH, bounds, 20_000, Budget(1.0, 1e-5), burn_in=0.0, **fixed)
    threads = numba.get_num_threads()
    both = sample(target, plan, random_state=7)
    try:
        numba.set_num_threads(1)
        one = sample(target, plan, random_state=7)
    finally:
        numba.set_num_threads(threads)
    np.testing.assert_array_equal(both, one)
