"""Families whose responses are numbers: clipped residuals, offsets, and posteriors by quadrature."""

import numpy as np
import pytest
import scipy.sparse as sp
from compiling import called
from numba import njit
from references import effective_size, moments, planned
from scipy.special import gammaln

from skdpbayes.models import (
    LinearModel,
    Logistic,
    Normal,
    Poisson,
    has_losses,
    loss_differences,
    potential_gradient,
)
from skdpbayes.models.sums import loss_and_derivatives
from skdpbayes.privacy import Budget
from skdpbayes.samplers import SGFS, SGHMC, SGLD, DPFastMH, sample

NOT_PRIVATE = Budget(np.inf, 1e-5)
FAMILIES = [
    Normal(-1.0, 3.0, deviation=0.5),
    Normal(-1.0, 3.0, deviation=0.5, clip=0.4),
    Poisson(6.0),
    Poisson(6.0, clip=1.5),
]


@njit
def differences(target, theta, proposal, count):
    out = np.full(count, np.nan)
    loss_differences(target, theta, proposal, 0, count, out)
    return out


def table_of(family, rng, n=71, d=3):
    X = rng.normal(size=(n, d))
    offsets = rng.normal(size=n) if family.has_offsets else None
    return X, rng.integers(9, size=n).astype(float), rng.uniform(0.0, 2.0, size=n), offsets


def logits_of(model, theta, X, offsets):
    """Return logits from their definition."""
    rows = X * np.minimum(1.0, model.norm / np.linalg.norm(X, axis=1))[:, None]
    found = rows @ theta[: X.shape[1]] + model.constant_value * theta[-1]
    return found if offsets is None else found + offsets


@pytest.mark.daily(1)
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_compiled_gradients_and_losses_are_those_of_the_family(rng, family, kind):
    model = LinearModel(
        family=family,
        n_features=3,
        norm=1.5,
        prior_scale=2.0,
        intercept_prior_scale=2.0,
        max_weight=2.0,
    )
    X, y, weights, offsets = table_of(family, rng)
    target = model.target(sp.csr_matrix(X) if kind == "sparse" else X, y, weights, offsets)
    assert has_losses(target)
    assert target.family == family and target.bounds == model.bounds()
    theta, other = rng.normal(size=(2, 4))
    responses = family.checked_responses(y, len(y))

    def loss(theta, weights=weights):
        return weights * family.losses(logits_of(model, theta, X, offsets)[None], responses)

    def potential(theta):
        return loss(theta).sum() + 0.5 * np.sum(target.prior_precision * theta**2)

    step = 1e-6 * np.eye(4)
    expected = [(potential(theta + e) - potential(theta - e)) / 2e-6 for e in step]
    np.testing.assert_allclose(potential_gradient(target, theta), expected, rtol=1e-6, atol=1e-6)
    # Losses for random walks are without weights.
    expected = loss(theta, 1.0) - loss(other, 1.0)
    found = differences(target, theta, other, len(y))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
    value, gradient, _ = loss_and_derivatives(target, theta)  # Without weights.
    assert value == pytest.approx(loss(theta, 1.0).sum(), rel=1e-12)
    prior = target.prior_precision * theta
    target = target._replace(weights=np.ones(len(y)))
    np.testing.assert_allclose(gradient + prior, potential_gradient(target, theta), rtol=1e-9)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_no_record_moves_a_gradient_by_more_than_its_bound(rng, family):
    model = LinearModel(family=family, n_features=3, norm=2.0, prior_scale=1e6)
    bounds, largest = model.bounds(), 0.0
    for size in [0.1, 1.0, 30.0, 1e4, 1e300] * 20:
        x = rng.normal(size=(1, 3)) * 10.0 ** rng.integers(-2, 6)
        offsets = rng.normal(size=1) * size if family.has_offsets else None
        target = model.target(x, [abs(rng.normal()) * size], None, offsets)
        theta = rng.normal(size=4) * min(size, 1e200)
        norm = np.linalg.norm(potential_gradient(target, theta, temperature=0.0))
        assert norm <= bounds.gradient_bound * (1 + 1e-12)  # Not nan, either.
        largest = max(largest, norm / bounds.gradient_bound)
    assert largest > 0.95, "the bound is attained: a smaller one would be wrong"


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_smoothness_bounds_the_hessian_and_is_attained(family):
    x = np.array([[0.6, 0.8]])
    model = LinearModel(family=family, n_features=2, norm=1.0, prior_scale=1e6, constant=0.0)
    target = model.target(x, [6.0])
    top = np.log(family.slope_bound) - 1e-4 if isinstance(family, Poisson) else 2.0
    steps = [
        (
            potential_gradient(target, (logit + 1e-5) * x[0], 0.0)
            - potential_gradient(target, (logit - 1e-5) * x[0], 0.0)
        )
        @ x[0]
        / 2e-5
        for logit in [top, *np.linspace(-3.0, 4.0, 400)]
    ]
    assert max(steps) <= model.bounds().smoothness * (1 + 1e-6)
    assert max(steps) == pytest.approx(model.bounds().smoothness, rel=1e-3)


def poisson_moments(X, y, offsets, scale, temperature=1.0):
    """Moments of a Poisson regression's posterior, from its definition, by quadrature."""

    def log_posterior(points):
        logits = points @ X.T + offsets
        likelihood = np.sum(y * logits - np.exp(logits) - gammaln(y + 1.0), axis=1)
        return likelihood / temperature - 0.5 * np.sum((points / scale) ** 2, axis=1)

    return moments(log_posterior, 3.0, X.shape[1])


CHAINS = [(SGLD, 250_000), (SGHMC, 40_000), (SGFS, 20_000)]


@pytest.mark.parametrize("kind, n_steps", CHAINS, ids=lambda case: getattr(case, "name", None))
@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_chains_draw_from_a_poisson_posterior_by_quadrature(kind, n_steps, temperature):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.0, 1.0, size=(200, 2))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    offsets = rng.normal(size=200) * 0.5
    y = rng.poisson(np.exp(X @ [0.6, -0.4] + offsets)).astype(float)
    model = LinearModel(family=Poisson(12.0), n_features=2, norm=1.0, prior_scale=1.0, constant=0.0)
    target = model.target(X, y, None, offsets)
    long = {"n_steps": n_steps, "n_draws": n_steps // 4, "temperature": temperature}
    plan = planned(kind, model.bounds(), 200, NOT_PRIVATE, **long)
    draws = sample(target, plan, random_state=1)
    mean, covariance = poisson_moments(X, y, offsets, 1.0, temperature)
    deviations = np.sqrt(np.diag(covariance))
    error = 4 / np.sqrt(min(effective_size(column) for column in draws.T))
    assert error < 0.12
    assert (np.abs(draws.mean(axis=0) - mean) < (error + 0.05) * deviations).all()
    scaled = (np.cov(draws.T) - covariance) / np.outer(deviations, deviations)
    assert (np.abs(scaled) < 1.5 * error + 0.05).all()


def test_a_chain_draws_from_a_normal_posterior_that_is_known():
    rng = np.random.default_rng(4)
    X = rng.uniform(-0.7, 0.7, size=(150, 2))
    y = X @ [1.5, -1.0] + 0.5 * rng.normal(size=150) + 1.0
    family = Normal(-4.0, 6.0, deviation=0.5)
    model = LinearModel(family=family, n_features=2, norm=1.0, prior_scale=2.0, constant=0.0)
    plan = planned(SGHMC, model.bounds(), 150, NOT_PRIVATE, n_steps=40_000, n_draws=10_000)
    draws = sample(model.target(X, y), plan, random_state=1)
    precision = X.T @ X / 0.25 + np.eye(2) / 4.0
    mean = np.linalg.solve(precision, X.T @ (y - 1.0) / 0.25)
    deviations = np.sqrt(np.diag(np.linalg.inv(precision)))
    error = 4 / np.sqrt(min(effective_size(column) for column in draws.T))
    assert error < 0.12
    assert (np.abs(draws.mean(axis=0) - mean) < (error + 0.05) * deviations).all()
    assert draws.std(axis=0) == pytest.approx(deviations, rel=error + 0.05)


@pytest.mark.parametrize(
    "kind", [SGLD, SGHMC, SGFS, pytest.param(DPFastMH, marks=pytest.mark.nightly)]
)
def test_plans_of_chains_hold_for_counts(kind, rng):
    """Private plans keep to their budget, and are for one family only."""
    model = LinearModel(family=Poisson(6.0), n_features=2, norm=1.0, constant=0.0)
    X, y = rng.uniform(-0.7, 0.7, size=(400, 2)), rng.integers(7, size=400)
    plan = kind().plan(model.bounds(), 400, Budget(1.0, 1e-5), n_draws=10)
    assert plan.epsilon <= 1.0
    assert np.isfinite(sample(model.target(X, y), plan, random_state=0)).all()
    other = LinearModel(family=Poisson(7.0), n_features=2, norm=1.0, constant=0.0)
    with pytest.raises(ValueError, match="plan"):
        sample(other.target(X, y), plan, random_state=0)


@pytest.mark.parametrize(
    "values",
    [["a", "b"], [1.0, np.nan], [np.inf, 1.0], [1.0], [[1.0, 2.0]], [1j, 2.0], [b"77", b"1"]],
)
@pytest.mark.parametrize("family", [Normal(0.0, 1.0), Poisson(3.0)], ids=repr)
def test_responses_that_are_no_numbers_are_refused_unquoted(family, values):
    with pytest.raises(ValueError, match="responses must be finite numbers") as error:
        family.checked_responses(values, 2)
    assert "77" not in str(error.value) and error.value.__cause__ is None


def test_counts_are_not_negative_and_numbers_keep_to_their_bounds():
    with pytest.raises(ValueError, match="none below 0"):
        Poisson(3.0).checked_responses([-1.0, 1.0], 2)
    assert Poisson(3.0).checked_responses([0.5, 7.0], 2).tolist() == [0.5, 3.0]
    assert Normal(0.0, 4.0).checked_responses([-9.0, 3.0, 9.0], 3).tolist() == [-2.0, 1.0, 2.0]


def test_offsets_are_for_counts_and_finite(rng):
    X, y = rng.normal(size=(3, 2)), np.ones(3)
    for family in (Logistic(), Normal(0.0, 2.0)):
        model = LinearModel(family=family, n_features=2, norm=1.0)
        with pytest.raises(ValueError, match="no offsets"):
            model.target(X, y.astype(int), None, np.zeros(3))
    model = LinearModel(family=Poisson(3.0), n_features=2, norm=1.0)
    for offsets in (np.array([0.0, np.inf, 0.0]), np.zeros(2)):
        with pytest.raises(ValueError, match="offsets must be finite"):
            model.target(X, y, None, offsets)


@pytest.mark.parametrize(
    "make, named",
    [
        (lambda: Poisson(0.0), "max_count"),
        (lambda: Poisson(np.inf), "max_count"),
        (lambda: Poisson(3.0, clip=-1.0), "clip"),
        (lambda: Normal(1.0, 1.0), "bounds"),
        (lambda: Normal(0.0, np.inf), "bounds"),
        (lambda: Normal(np.nan, 1.0), "bounds"),
        (lambda: Normal(0.0, 1.0, deviation=0.0), "deviation"),
    ],
)
def test_public_numbers_out_of_range_are_named(make, named):
    with pytest.raises(ValueError, match=named):
        make()


def test_overflow_of_a_mean_changes_nothing():
    """Means above Y + tau give the same clipped residual, whatever they are."""
    from skdpbayes.models.families.poisson import _subtract_from_exp

    subtract, family = called(_subtract_from_exp), Poisson(5.0, clip=2.0)
    logits = np.array([np.log(7.1), 50.0, 800.0, 1e308, np.inf, np.nan, -np.inf, -1e308])
    found = logits.copy()
    subtract(found, np.full(8, 5.0), family.largest_logit, 2.0)
    np.testing.assert_allclose(found, [2.0] * 6 + [-2.0] * 2, rtol=1e-12)
