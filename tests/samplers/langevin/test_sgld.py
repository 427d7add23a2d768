"""SGLD samples what it says: checked against quadrature and an independent reference."""

import numpy as np
import pytest
from references import effective_size, log_posterior, logistic_moments, moments, planned
from scipy.special import expit

from skdpbayes.models import TargetBounds
from skdpbayes.privacy import Budget
from skdpbayes.samplers import SGLD, sample

NOT_PRIVATE = Budget(np.inf, 1e-5)


def draw(target, bounds, n, n_steps, n_draws, seed=0, **options):
    plan = planned(SGLD, bounds, n, NOT_PRIVATE, n_steps=n_steps, n_draws=n_draws, **options)
    return sample(target, plan, random_state=seed), plan


def assert_moments(draws, mean, covariance, bias=0.05):
    """Mean and covariance agree within Monte Carlo error and the stated bias."""
    deviations = np.sqrt(np.diag(covariance))
    sizes = np.array([effective_size(column) for column in draws.T])
    error = 4.0 / np.sqrt(sizes)
    assert sizes.min() > 400, "too few effective draws to tell anything"
    assert (np.abs(draws.mean(axis=0) - mean) < (error + bias) * deviations).all()
    scaled = (np.cov(draws.T, ddof=0) - covariance) / np.outer(deviations, deviations)
    assert (np.abs(scaled) < 1.5 * error.max() + bias).all()


@pytest.mark.parametrize("n", [6, 40, 300])
def test_one_parameter_against_quadrature(make_target, n):
    rng = np.random.default_rng(n)
    X = rng.choice([-1.0, 1.0], size=(n, 1))
    y = (rng.random(n) < expit(1.5 * X[:, 0])).astype(int)
    target, bounds = make_target(X, y)
    draws, _ = draw(target, bounds, n, 150_000, 50_000)
    mean, covariance = logistic_moments(X, y, 2.5)
    assert_moments(draws, mean, covariance)


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_two_parameters_against_quadrature(make_target, temperature):
    rng = np.random.default_rng(3)
    n = 60
    X = rng.normal(size=(n, 1))
    X = np.clip(X, -2, 2)
    y = (rng.random(n) < expit(X[:, 0] - 0.5)).astype(int)
    # A coefficient, and an intercept sampled through a constant column of size 2.
    target, bounds = make_target(X, y, norm=2.0, prior_scale=1.5, intercept_scaling=2.0)
    draws, plan = draw(target, bounds, n, 150_000, 50_000, temperature=temperature)
    assert plan.temperature == temperature
    draws[:, 1] *= 2.0
    rows = np.column_stack([X, np.ones(n)])
    mean, covariance = logistic_moments(rows, y, 1.5, temperature)
    assert_moments(draws, mean, covariance)


def importance_reference(X, y, prior_scale, size=200_000):
    """Posterior moments by importance sampling from a Student t at the mode: no chain at all."""
    rng = np.random.default_rng(99)
    d = X.shape[1]
    theta = np.zeros(d)
    for _ in range(50):
        p = expit(X @ theta)
        hessian = (X * (p * (1 - p))[:, None]).T @ X + np.eye(d) / prior_scale**2
        theta -= np.linalg.solve(hessian, X.T @ (p - y) + theta / prior_scale**2)
    root = np.linalg.cholesky(np.linalg.inv(hessian))
    dof = 8.0
    normal = rng.normal(size=(size, d))
    scale = np.sqrt(dof / rng.chisquare(dof, size=size))
    points = theta + (normal * scale[:, None]) @ root.T
    squared = (normal**2).sum(axis=1) * scale**2
    log_proposal = -0.5 * (dof + d) * np.log1p(squared / dof)
    log_weight = log_posterior(points, X, y, prior_scale) - log_proposal
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1 / np.sum(weight**2) > 0.3 * size
    mean = weight @ points
    return mean, (points - mean).T @ (weight[:, None] * (points - mean))


def test_ten_parameters_against_an_independent_reference(make_target):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 10)) @ np.diag(np.linspace(0.7, 1.3, 10))
    y = (rng.random(200) < expit(X @ np.linspace(-1, 1, 10))).astype(int)
    norm = np.linalg.norm(X, axis=1).max()
    mean, covariance = importance_reference(X, y, 0.5)
    target, bounds = make_target(X, y, norm=norm, prior_scale=0.5)
    draws, _ = draw(target, bounds, 200, 200_000, 20_000)
    assert_moments(draws, mean, covariance)


def test_softmax_against_an_independent_reference(make_target):
    """Three classes with one feature: pairwise differences and the null direction."""
    rng = np.random.default_rng(6)
    n = 40
    X = np.clip(rng.normal(size=(n, 1)), -2, 2)
    y = rng.integers(3, size=n)
    target, bounds = make_target(X, y, norm=2.0, prior_scale=0.5, n_classes=3)
    draws, _ = draw(target, bounds, n, 60_000, 20_000)

    def density(points):
        z = points[:, None, :] * X[None, :, :]
        fit = (z[:, np.arange(n), y] - np.logaddexp.reduce(z, axis=2)).sum(axis=1)
        return fit - 0.5 * np.sum((points / 0.5) ** 2, axis=1)

    assert_moments(draws, *moments(density, 4.0, 3))


@pytest.mark.parametrize("mistake", ["prior", "likelihood", "noise"])
def test_the_comparison_notices_a_factor_of_two(make_target, mistake):
    rng = np.random.default_rng(8)
    X = rng.choice([-1.0, 1.0], size=(30, 1)) * 0.7
    y = rng.integers(2, size=30)
    mean, covariance = logistic_moments(X, y, 0.8)
    target, bounds = make_target(X, y, prior_scale=0.8)
    options = {}
    if mistake == "prior":
        target = target._replace(prior_precision=2.0 * target.prior_precision)
        bounds = bounds._replace(prior_precision=tuple(2.0 * p for p in bounds.prior_precision))
    elif mistake == "likelihood":
        target = target._replace(scale=2.0 * target.scale)
        target.scale.setflags(write=False)
        bounds = bounds._replace(smoothness=4 * bounds.smoothness)
    draws, _ = draw(target, bounds, 30, 150_000, 50_000, **options)
    if mistake == "noise":
        draws = mean + (draws - mean) * np.sqrt(2.0)
    with pytest.raises(AssertionError):
        assert_moments(draws, mean, covariance)


@pytest.mark.parametrize("curvature", [1.0, 30.0, 99.0])
def test_midpoints_have_the_exact_variance_of_a_quadratic_potential(make_target, curvature):
    """At the largest step states would have up to twice the variance."""
    # Rows this short add a smoothness of less than 1e-9.
    target, _ = make_target(np.zeros((4, 1)), np.array([0, 1, 0, 1]), norm=6e-5)
    bounds = TargetBounds(1, 1.0, 1e-9, (1.0, 100.0))
    target = target._replace(prior_precision=np.array([curvature]))
    draws, plan = draw(target, bounds, 4, 600_000, 150_000, step_size=0.01, seed=4)
    assert plan.step_size == 0.01
    size = effective_size(draws[:, 0])
    error = 4.0 * np.sqrt(2.0 / size)
    assert draws.var() * curvature == pytest.approx(1.0, abs=error)
    assert error < 0.15


def test_decreasing_steps_keep_the_law(make_target):
    rng = np.random.default_rng(1)
    X = rng.choice([-1.0, 1.0], size=(40, 1))
    y = rng.integers(2, size=40)
    target, bounds = make_target(X, y)
    draws, _ = draw(target, bounds, 40, 150_000, 50_000, step_decay=1 / 3)
    mean, covariance = logistic_moments(X, y, 2.5)
    assert_moments(draws, mean, covariance)


def test_draws_are_evenly_spaced_in_diffusion_time():
    bounds = TargetBounds(3, 1.0, 0.25, (1.0, 1.0))
    plan = planned(
        SGLD, bounds, 1000, Budget(1.0, 1e-5), step_decay=1 / 3, n_steps=40_000, n_draws=200
    )
    kept = plan.kept_steps()
    assert kept.size == 200 and kept[0] >= plan.n_burn_in
    assert (np.diff(kept) > 0).all() and kept[-1] == plan.n_steps - 1
    elapsed = np.cumsum(plan.step_sizes())[kept]
    gaps = np.diff(elapsed)
    assert gaps.max() < 1.05 * gaps.mean()


def test_poisson_batches_heat_the_chain_by_at_most_the_stated_bound(make_target):
    """Exact on a linear potential: each record's gradient is constant."""
    rng = np.random.default_rng(2)
    n = 200
    X = rng.choice([-1.0, 1.0], size=(n, 1))
    y = rng.integers(2, size=n)
    target, bounds = make_target(X, y, prior_scale=0.2)
    mean, covariance = logistic_moments(X, y, 0.2)
    draws, plan = draw(target, bounds, n, 200_000, 50_000, batch_size=50, step_size=2e-3)
    heated = draws.var() / covariance[0, 0]
    assert draws.mean() == pytest.approx(mean[0], abs=0.1 * np.sqrt(covariance[0, 0]))
    # Every gradient is p - y with p near 1/2: a quarter of the bound's squared norm.
    expected = 1.0 + 0.25 * plan.subsampling_temperature
    assert heated == pytest.approx(expected, rel=0.06)
    assert heated < 1.0 + plan.subsampling_temperature


def test_one_core_and_two_give_the_same_draws(make_target):
    import numba

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 30))
    y = rng.integers(2, size=20_000)
    target, bounds = make_target(X, y, norm=5.0)
    threads = numba.get_num_threads()
    for batch_size in (None, 15_000):
        sampler = SGLD(batch_size=batch_size)
        plan = planned(sampler, bounds, 20_000, Budget(1.0, 1e-5), n_steps=140)
        both = sample(target, plan, random_state=7)
        try:
            numba.set_num_threads(1)
            one = sample(target, plan, random_state=7)
        finally:
            numba.set_num_threads(threads)
        np.testing.assert_array_equal(both, one)
        assert not np.array_equal(one, sample(target, plan, random_state=8))


def test_fresh_randomness_without_a_seed(make_target):
    target, bounds = make_target(np.ones((200, 1)), np.arange(200) % 2)
    plan = SGLD().plan(bounds, 200, Budget(1.0, 1e-5))
    assert not np.array_equal(sample(target, plan), sample(target, plan))


def test_states_lie_on_the_lattice(make_target):
    """Drift and noise are rounded to one lattice, so that their sum is exact."""
    from skdpbayes.privacy.rounding import lattice_spacing

    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    target, bounds = make_target(X, rng.integers(2, size=500))
    plan = planned(SGLD, bounds, 500, Budget(1.0, 1e-5), burn_in=0.0, n_steps=400, n_draws=400)
    midpoints = sample(target, plan, random_state=0)
    noise = np.sqrt(2 * plan.step_size * plan.temperature)
    spacing = lattice_spacing(noise)
    assert noise / 2**25 < spacing <= noise / 2**24
    # Midpoints of lattice points are multiples of half the spacing, exactly.
    multiples = midpoints / (spacing / 2)
    np.testing.assert_array_equal(multiples, np.rint(multiples))
    states = np.zeros(3)
    for midpoint in midpoints:
        states = 2 * midpoint - states
        np.testing.assert_array_equal(states / spacing, np.rint(states / spacing))
