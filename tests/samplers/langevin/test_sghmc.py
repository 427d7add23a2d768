"""Underdamped paths follow the posterior, in far fewer steps, at the price of an overdamped path."""

import itertools
import math

import numpy as np
import pytest
from references import effective_size, logistic_moments, planned
from scipy.special import expit

from skdpbayes.models import TargetBounds
from skdpbayes.privacy import Budget
from skdpbayes.samplers import SGHMC, SGLD, sample

NOT_PRIVATE = Budget(np.inf, 1e-5)
BOUNDS = TargetBounds(93, 1.0, 0.25, (0.16, 0.16), convex=True)


def plan(relation="replace_one", n=24_420, epsilon=1.0, **options):
    return planned(SGHMC, BOUNDS, n, Budget(epsilon, 1e-5, relation), **options)


@pytest.mark.daily(1)
@pytest.mark.parametrize("n, temperature", [(40, 1.0), (300, 1.0), (300, 5.0)])
@pytest.mark.parametrize("friction", ["auto", 0.7])
def test_two_parameters_against_quadrature(make_target, n, temperature, friction):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 2))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = (rng.random(n) < expit(3 * X[:, 0] - X[:, 1])).astype(int)
    target, bounds = make_target(X, y, prior_scale=2.0)
    long = {"n_steps": 100_000, "n_draws": 50_000, "temperature": temperature}
    made = planned(SGHMC, bounds, n, NOT_PRIVATE, friction=friction, **long)
    draws = sample(target, made, random_state=1)
    mean, covariance = logistic_moments(X, y, 2.0, temperature)
    deviations = np.sqrt(np.diag(covariance))
    error = 4 / np.sqrt(min(effective_size(column) for column in draws.T))
    assert error < 0.1
    assert (np.abs(draws.mean(axis=0) - mean) < (error + 0.05) * deviations).all()
    scaled = (np.cov(draws.T) - covariance) / np.outer(deviations, deviations)
    assert (np.abs(scaled) < 1.5 * error + 0.05).all()


def test_midpoints_have_the_exact_variance_of_a_quadratic_at_any_step(make_target):
    """No records count (all rows are zero): the posterior is the prior, of curvature tau lambda."""
    rows = np.zeros((4, 1))
    # Rows this short add a smoothness of 1e-9: steps are in units of the true curvature.
    target, bounds = make_target(rows, np.arange(4) % 2, norm=6e-5, prior_scale=2.0)
    for kappa in (0.3, 1.0, 1.9):
        friction = 0.5
        made = planned(
            SGHMC,
            bounds,
            4,
            NOT_PRIVATE,
            n_steps=200_000,
            n_draws=150_000,
            burn_in=0.1,
            friction=friction,
            temperature=3.0,
            step_size=kappa / friction / (3.0 / 4.0),
        )
        draws = sample(target, made, random_state=0)[:, 0]
        error = 4 * math.sqrt(2 / effective_size(draws**2))
        assert error < 0.05
        assert draws.var() == pytest.approx(4.0, rel=error)


def test_the_first_step_moves_by_the_gradient_and_the_velocity(make_target):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.7, 0.7, size=(500, 2)), rng.integers(2, size=500)
    target, bounds = make_target(X, y)
    sampler, once = SGHMC(burn_in=0.0, step_size=1e-4), {"n_steps": 1, "n_draws": 1}
    made = planned(sampler, bounds, 500, NOT_PRIVATE, temperature=7.0, **once)
    drawn = np.array([sample(target, made, random_state=s)[0] for s in range(600)])
    kappa, f, tau = made.gradient_step, made.friction, 7.0
    # theta + u/2 with u = (1 - f) u_0 - kappa grad + noise, from zero.
    expected = -0.5 * kappa * (0.5 - y) @ X
    variance = 0.25 * ((1 - f) ** 2 * kappa * tau + 2 * kappa * f * tau)
    assert np.allclose(drawn.mean(axis=0), expected, atol=4 * np.sqrt(variance / 600))
    assert np.allclose(drawn.var(axis=0), variance, rtol=0.23)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_path_costs_what_an_overdamped_one_of_its_time_costs(relation):
    made = plan(relation)
    s = 2.0 if relation == "replace_one" else 1.0
    exact = s * math.sqrt(
        made.n_steps * made.gradient_step / (2 * made.friction * made.temperature)
    )
    assert exact < made.cost.mu < exact * 1.001
    slow = SGLD().plan(BOUNDS, 24_420, Budget(1.0, 1e-5, relation))
    assert made.temperature == pytest.approx(slow.temperature, rel=1e-3)
    assert made.relaxations == pytest.approx(slow.relaxations, rel=1e-3)
    assert made.n_steps < 300 < 1000 < slow.n_steps or relation == "add_or_remove_one"


def test_steps_grow_like_the_square_root_of_the_condition_number():
    def steps(n):
        return plan(n=n, n_draws=1, burn_in=0.0).n_steps

    assert steps(4 * 10**6) == pytest.approx(2 * steps(10**6), rel=0.02)
    made = plan(n=10**6, n_draws=1)
    slowest = made.temperature * 0.16
    stiffest = 10**6 * 0.25 + slowest
    assert made.n_steps == pytest.approx(math.sqrt(16 * stiffest / slowest), rel=0.02)
    assert made.gradient_step <= 1 / stiffest * (1 + 1e-9)
    assert made.friction * made.n_steps == pytest.approx(16, rel=0.02)


def test_a_long_chain_damps_the_slowest_direction_critically():
    made = plan(n=10**5, epsilon=np.inf, n_steps=10**6)
    y = math.sqrt(made.gradient_step * 0.16)
    assert made.friction == pytest.approx(2 * y, rel=0.02)


def test_private_draws_spread_as_much_as_their_temperature_says(make_target):
    """Chains are short: what swings on the way from zero must have died away."""
    rng = np.random.default_rng(0)
    n, d = 20_000, 10
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1) / math.sqrt(d))[:, None]
    y = (rng.random(n) < expit(X @ rng.normal(size=d))).astype(int)
    target, bounds = make_target(X, y, norm=math.sqrt(d), prior_scale=2.5 / math.sqrt(d))
    long = planned(SGHMC, bounds, n, NOT_PRIVATE, n_steps=4000, n_draws=2000)
    exact = sample(target, long, random_state=0)
    made = SGHMC().plan(bounds, n, Budget(1.0, 1e-5))
    scale = math.sqrt(made.temperature) * exact.std(axis=0)
    draws = [sample(target, made, random_state=seed) for seed in range(5)]
    spread = np.mean([run.std(axis=0) / scale for run in draws])
    errors = np.mean([(run.mean(axis=0) - exact.mean(axis=0)) / scale for run in draws], axis=0)
    assert 0.6 < spread < 1.3
    assert np.sqrt(np.mean(errors**2)) < 0.5


OPTIONS = [
    {"batch_size": 2000},
    {"batch_size": 2000, "n_steps": 2000, "step_decay": 0.3},
    {"friction": 0.2},
    {"friction": 1.0, "n_steps": 500},
    {"temperature": 20.0, "step_size": 1e-4},
    {"temperature": 3.0},
]


@pytest.mark.parametrize(
    "relation, options",
    [
        *itertools.product(["replace_one", "add_or_remove_one"], OPTIONS),
        ("replace_one", {"init": "ops"}),
    ],
)
def test_plans_stay_within_the_budget(options, relation):
    made = plan(relation, **options)
    assert 0 < made.epsilon <= 1.0
    if "temperature" not in options:
        assert made.epsilon > 0.995 or made.temperature == 1
    slowest = made.temperature * 0.16
    stiffest = 24_420 * 0.25 + slowest
    assert made.gradient_step <= 2 / stiffest * (1 + 1e-9)
    if made.sampling_rate < 1:
        noise = math.sqrt(2 * made.gradient_step * made.friction * made.temperature)
        per_record = made.gradient_step / made.sampling_rate
        assert made.noise_multiplier == pytest.approx(noise / per_record)
        assert min(made.cost.sampled).noise_multiplier == pytest.approx(
            made.noise_multiplier, rel=1e-3
        )
        assert made.subsampling_temperature <= 0.51 * made.temperature or made.warnings


@pytest.mark.parametrize(
    "options, named",
    [
        ({"friction": 0.0}, "friction"),
        ({"friction": 1.5}, "friction"),
        ({"step_size": 1.0}, "step_size"),
        ({"friction": 1.0, "step_size": 2.1 / (24_420 * 0.25)}, "step_size"),
    ],
)
def test_unstable_chains_are_refused(options, named):
    with pytest.raises(ValueError, match=named):
        plan(**options)


def test_a_plan_prints_what_is_its_own():
    assert "friction" in str(plan()) and plan().name == "sghmc"
    assert "friction" not in str(SGLD().plan(BOUNDS, 24_420, Budget(1.0, 1e-5)))


def test_poisson_batches_reproduce_the_posterior(make_target):
    rng = np.random.default_rng(4)
    n = 400
    X = rng.normal(size=(n, 2))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = (rng.random(n) < expit(3 * X[:, 0] - X[:, 1])).astype(int)
    target, bounds = make_target(X, y, prior_scale=2.0)
    long = {"n_steps": 100_000, "n_draws": 40_000, "temperature": 4.0}
    made = planned(SGHMC, bounds, n, NOT_PRIVATE, batch_size=200, **long)
    heat = made.subsampling_temperature / made.temperature
    assert heat < 0.051
    draws = sample(target, made, random_state=1)
    mean, covariance = logistic_moments(X, y, 2.0, 4.0)
    deviations = np.sqrt(np.diag(covariance))
    error = 4 / np.sqrt(min(effective_size(column) for column in draws.T))
    assert (np.abs(draws.mean(axis=0) - mean) < (error + 0.05) * deviations).all()
    scaled = np.diag(np.cov(draws.T)) / deviations**2
    assert (np.abs(scaled - 1) < 1.5 * error + 0.05 + heat).all()


def test_a_plans_own_step_may_be_given_back():
    again = plan(step_size=plan().step_size)
    assert again.temperature == pytest.approx(plan().temperature, rel=0.01)
