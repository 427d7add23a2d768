"""The thermostat keeps the draws at their temperature, whatever noise batches add."""

import math

import numpy as np
import pytest
from references import logistic_moments, planned, standard_error
from scipy.special import expit

from skdpbayes.models import TargetBounds
from skdpbayes.privacy import Budget
from skdpbayes.samplers import SGHMC, SGLD, SGNHT, sample

NOT_PRIVATE = Budget(np.inf, 1e-5)
BOUNDS = TargetBounds(93, 1.0, 0.25, (0.16, 0.16), convex=True)


def plan(relation="replace_one", epsilon=1.0, kind=SGNHT, **options):
    return planned(kind, BOUNDS, 24_420, Budget(epsilon, 1e-5, relation), **options)


def binary(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    return X, (rng.random(n) < expit(3 * X[:, 0])).astype(int)


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_the_law_against_quadrature(make_target, temperature):
    n = 300
    X, y = binary(n, 2)
    target, bounds = make_target(X, y, prior_scale=2.0)
    long = {"n_steps": 100_000, "n_draws": 40_000, "temperature": temperature}
    draws = sample(target, planned(SGNHT, bounds, n, NOT_PRIVATE, **long), random_state=0)
    mean, covariance = logistic_moments(X, y, 2.0, temperature)
    deviation = np.sqrt(np.diag(covariance))
    assert (abs(draws.mean(axis=0) - mean) < 4 * standard_error(draws) + 0.05 * deviation).all()
    squares = (draws - mean) ** 2
    error = 4 * standard_error(squares)
    assert (abs(squares.mean(axis=0) - deviation**2) < error + 0.07 * deviation**2).all()


def test_draws_keep_their_temperature_where_batches_heat_others(make_target):
    """Small batches, no privacy: the mean square of the draws against the posterior's own."""
    n, d = 2000, 6
    X, y = binary(n, d)
    target, bounds = make_target(X, y, prior_scale=2.0)
    long, batches = {"n_steps": 30_000, "n_draws": 10_000}, {"step_size": 3e-3, "batch_size": 40}
    reference = planned(SGHMC, bounds, n, NOT_PRIVATE, n_steps=10_000, n_draws=5000)
    exact = sample(target, reference, random_state=0).var(axis=0)
    heat = {}
    for kind in (SGLD, SGNHT):
        made = planned(kind, bounds, n, NOT_PRIVATE, **batches, **long)
        draws = sample(target, made, random_state=1)
        heat[made.name] = (draws.var(axis=0) / exact).mean()
    # The bound is for records that all disagree as much as they can; these agree with each other more.
    assert made.subsampling_temperature > 5
    assert heat["sgld"] > 2.0
    assert heat["sgnht"] == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_the_cost_is_that_of_the_noise_whatever_the_thermostat_does(relation):
    made = plan(relation)
    s = 2.0 if relation == "replace_one" else 1.0
    noise = math.sqrt(2 * made.gradient_step * made.friction * made.temperature)
    exact = math.sqrt(made.n_steps) * made.gradient_step * s / noise
    assert exact < made.cost.mu < exact * 1.001
    assert 0.999 < made.epsilon <= 1.0


def test_the_temperature_is_one_and_the_noise_is_reported_by_itself():
    made = plan()
    assert made.temperature == 1.0
    # SGHMC that relaxes once in T steps has friction 16 / T, at the same share of the gradient.
    usual = math.sqrt(16 * made.gradient_step * 0.16)
    assert made.noise_temperature == pytest.approx(made.friction / usual)
    assert made.noise_temperature > 20
    assert "noise temperature" in str(made)
    assert any("sghmc" in text for text in made.warnings)
    assert made.relaxations < 0.01
    free = plan(epsilon=200.0)
    assert free.warnings == () and free.noise_temperature == pytest.approx(1.0, rel=0.01)
    hot = plan(temperature=14.0)
    assert hot.temperature == 14.0 and hot.relaxations == pytest.approx(1.0, rel=1e-6)


def test_stiff_steps_stay_stable():
    for epsilon in (0.1, 1.0, 10.0, math.inf):
        for options in ({}, {"n_steps": 2000}, {"batch_size": 1000}):
            made = plan(epsilon=epsilon, **options)
            stiffest = 24_420 * 0.25 + made.temperature * 0.16
            assert made.gradient_step <= 1 / stiffest * (1 + 1e-9)
            assert 0 < made.friction <= 0.5 or made.noise_temperature < 1.01
            assert made.epsilon <= epsilon


def test_heat_is_announced_only_where_the_thermostat_cannot_take_it_out():
    def warnings(kind=SGNHT, **options):
        hot = {"temperature": 14.0, "batch_size": 1000, "n_steps": 1000}
        return plan(epsilon=2.0, kind=kind, **hot, **options).warnings

    assert any("heat" in text for text in warnings(SGHMC))
    assert not any("heat" in text for text in warnings())
    assert any("thermostat" in text for text in warnings(friction=0.5))
