"""Chains on records for linear regression with noise that is given."""

import numpy as np
import pytest

from skdpbayes import DPBayesianRidge
from skdpbayes.audit import replay
from skdpbayes.samplers import DPMH, OPS, SGLD

NOISE = 0.3
GIVEN = dict(noise_scale=NOISE, prior_scale=1.0, intercept_prior_scale=1.0, random_state=0)


@pytest.fixture(scope="module")
def numbers():
    """Rows, responses, and mean and deviations of the exact posterior."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, size=(2000, 3))
    y = rows @ [1.0, -0.5, 0.0] + 0.2 + NOISE * rng.normal(size=2000)
    z = np.column_stack([rows, np.ones(2000)])
    covariance = np.linalg.inv(z.T @ z / NOISE**2 + np.eye(4))
    return rows, y, covariance @ z.T @ y / NOISE**2, np.sqrt(np.diag(covariance))


@pytest.mark.daily(2)
@pytest.mark.parametrize("sampler", ["auto", "sghmc", "sgfs", DPMH(n_steps=40_000)])
def test_draws_without_privacy_are_the_normal_posterior(numbers, sampler):
    """A temperature or a noise that is off by a factor of two would be seen."""
    rows, y, mean, deviations = numbers
    model = DPBayesianRidge((-3.0, 3.0), epsilon=np.inf, sampler=sampler, **GIVEN).fit(rows, y)
    draws = model.posterior_samples_[:, 0]
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 0.35 * deviations)
    assert draws.std(axis=0) == pytest.approx(deviations, rel=0.2)
    np.testing.assert_array_equal(model.noise_samples_, np.full(len(draws), NOISE))
    _, of_new = model.predict(rows[:5], return_std=True)
    assert of_new == pytest.approx(NOISE, rel=0.01)


@pytest.mark.parametrize("sampler", ["sgld", "sghmc", "sgnht", "sgfs", "dp_fast_mh", "auto"])
def test_private_chains_are_near_the_posterior_within_the_budget(numbers, sampler):
    rows, y, mean, _ = numbers
    model = DPBayesianRidge((-3.0, 3.0), epsilon=10.0, sampler=sampler, **GIVEN).fit(rows, y)
    assert model.spent_epsilon_ <= 10.0
    assert model.coef_ == pytest.approx(mean[:3], abs=0.1)
    assert model.score(rows, y) > 0.75


@pytest.mark.nightly
def test_one_posterior_sample_is_one_draw_at_a_temperature(numbers):
    rows, y, mean, deviations = numbers
    off = []
    for seed in range(20):
        model = DPBayesianRidge((-3.0, 3.0), epsilon=10.0, sampler="ops", **GIVEN)
        model.set_params(random_state=seed).fit(rows, y)
        assert model.posterior_samples_.shape == (1, 1, 4)
        off.append((model.posterior_samples_[0, 0] - mean) / deviations)
    assert np.std(off) == pytest.approx(np.sqrt(model.temperature_), rel=0.3)


def test_a_record_moves_a_gradient_by_the_clip_of_its_residual():
    bounds = [
        DPBayesianRidge((-3.0, 3.0), sampler="sgld", noise_scale=scale, data_norm=1.0)
        .privacy_plan(2000, 3)
        .bounds
        for scale in (0.3, 5.0)
    ]
    for bound, scale, clip in zip(bounds, (0.3, 5.0), (1.2, 6.0), strict=True):
        assert bound.gradient_bound == pytest.approx(clip / scale**2 * bound.row_norm)
        assert bound.smoothness == pytest.approx(bound.row_norm**2 / scale**2)


def test_a_replay_of_a_chain_stays_within_its_charge():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-0.5, 0.5, size=(300, 2))
    y = np.clip(rows[:, 0], -1.0, 1.0)
    model = DPBayesianRidge((-1.0, 1.0), epsilon=5.0, delta=1e-5, sampler=SGLD(), noise_scale=0.2)
    result = replay(model, rows, y, {"X": np.ones(2), "y": -1.0}, index=0)
    assert result.passed


@pytest.mark.parametrize("sampler", ["sgld", "ops"])
def test_what_takes_noise_as_given_says_how_to_give_it(numbers, sampler):
    with pytest.raises(ValueError, match="noise_scale of DPBayesianRidge"):
        DPBayesianRidge((-3.0, 3.0), sampler=sampler).fit(*numbers[:2])


def test_an_exact_draw_that_nobody_can_make_is_told_where_delta_is_0(numbers):
    model = DPBayesianRidge((-3.0, 3.0), delta=0.0, sampler=OPS(), noise_scale=NOISE)
    with pytest.raises(ValueError, match="'dp_mh'.*no exact sampler of it is known"):
        model.fit(*numbers[:2])


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, 1e-12, 1e9, "much"])
def test_a_noise_scale_is_a_positive_number(numbers, scale):
    with pytest.raises(ValueError, match="noise_scale"):
        DPBayesianRidge((-3.0, 3.0), noise_scale=scale).fit(*numbers[:2])
