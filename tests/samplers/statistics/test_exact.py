"""The posterior without privacy: chains over the table agree with quadrature and with another sampler."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from references import planned
from scipy.special import expit
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

from skdpbayes import DPBayesianLogisticRegression, DPBayesianPoissonRegressor
from skdpbayes.models import LinearModel, Logistic, Poisson, Softmax
from skdpbayes.models.sums import losses_and_gradients
from skdpbayes.privacy import Budget
from skdpbayes.samplers import SGFS, NoiseAware, sample

BUDGET = Budget(np.inf, 1e-5)


def drawn(model, target, n, sampler=NoiseAware, n_draws=4000):
    plan = planned(sampler, model.bounds(), n, BUDGET, n_draws=n_draws)
    return model.in_blocks(sample(target, plan, random_state=0))


def table(n, d, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, (rng.random(n) < expit(X @ np.linspace(1.5, -0.5, d))).astype(int)


def split_lognormal(tau, mode, below, above):
    away = np.log(tau / mode)
    return np.exp(-0.5 * (away / np.where(away < 0, below, above)) ** 2)


@pytest.mark.parametrize("prior_scale", [None, 0.5])
def test_a_coefficient_has_the_moments_of_quadrature(prior_scale):
    X, y = table(25, 1)
    model = LinearModel(
        family=Logistic(), n_features=1, norm=1.0, prior_scale=prior_scale, constant=0.0
    )
    draws = drawn(model, model.target(X, y), len(X)).ravel()
    theta = np.linspace(-40, 40, 8001)
    logits = theta[:, None] * X[:, 0]
    likelihood = np.exp(np.sum(y * logits - np.logaddexp(0.0, logits), axis=1))
    prior = norm.pdf(theta, scale=prior_scale or 1.0)
    if prior_scale is None:  # The usual scale is 2.5, and its law as documented.
        tau = np.exp(np.linspace(np.log(1 / 16), np.log(32), 400))
        prior = norm.pdf(theta[:, None], scale=2.5 * tau) @ split_lognormal(tau, 1.2, 0.7, 1.4)
    density = likelihood * prior / np.sum(likelihood * prior)
    mean = density @ theta
    sd = np.sqrt(density @ (theta - mean) ** 2)
    assert draws.mean() == pytest.approx(mean, abs=0.1 * sd)
    assert draws.std() == pytest.approx(sd, rel=0.1)
    ends = np.interp([0.05, 0.95], np.cumsum(density), theta)
    np.testing.assert_allclose(np.quantile(draws, [0.05, 0.95]), ends, atol=0.15 * sd)


@pytest.mark.parametrize("family", [Logistic(), Softmax(3), Poisson(10)], ids=str)
def test_draws_are_those_of_another_sampler(family):
    X, y = table(400, 3)
    y = y + (X[:, 0] > 0.5) if family != Logistic() else y
    options = {"prior_scale": 1.0, "intercept_prior_scale": 1.0}
    model = LinearModel(family=family, n_features=3, norm=np.sqrt(3.0), **options)
    own, other = (drawn(model, model.target(X, y), len(X), s) for s in (NoiseAware, SGFS))
    # What all classes have in common follows the prior.
    own, other = (d - (d.shape[1] > 1) * d.mean(axis=1, keepdims=True) for d in (own, other))
    sd = other.std(axis=0)
    np.testing.assert_allclose((own.mean(axis=0) - other.mean(axis=0)) / sd, 0.0, atol=0.15)
    np.testing.assert_allclose(own.std(axis=0) / sd, 1.0, atol=0.1)


def test_weights_count_rows_as_often():
    X, y = table(300, 2)
    model = LinearModel(family=Logistic(), n_features=2, norm=2.0, max_weight=3.0)
    weights = np.resize([1.0, 2.0, 0.0, 3.0], len(X))
    plain = LinearModel(family=Logistic(), n_features=2, norm=2.0)
    again = np.repeat(np.arange(len(X)), weights.astype(int))
    own = drawn(model, model.target(X, y, weights), len(X))
    other = drawn(plain, plain.target(X[again], y[again]), len(again))
    sd = other.std(axis=0)
    np.testing.assert_allclose((own.mean(axis=0) - other.mean(axis=0)) / sd, 0.0, atol=0.15)
    np.testing.assert_allclose(own.std(axis=0) / sd, 1.0, atol=0.1)


@pytest.mark.parametrize("family", [Logistic(), Softmax(3), Poisson(10)], ids=str)
@pytest.mark.parametrize("as_sparse", [False, True])
def test_gradients_are_those_of_losses(family, as_sparse):
    X, y = table(200, 3)
    if as_sparse:
        X = sp.csr_array(np.where(X > 0, X, 0.0))
    model = LinearModel(family=family, n_features=3, norm=1.0, max_weight=2.0)
    target = model.target(X, y, np.resize([0.5, 2.0], len(y)))
    family = family.identified
    points = np.random.default_rng(1).normal(size=(4, family.n_blocks, 4))
    losses, gradients = losses_and_gradients(target, family, points)
    for place in np.ndindex(points.shape[1:]):
        step = np.zeros(points.shape[1:])
        step[place] = 1e-5
        ends = [losses_and_gradients(target, family, points + s * step)[0] for s in (1, -1)]
        np.testing.assert_allclose((ends[0] - ends[1]) / 2e-5, gradients[:, *place], rtol=1e-6)
    alone = losses_and_gradients(target, family, points[2:3])
    assert alone[0][0] == pytest.approx(losses[2], rel=1e-12)
    np.testing.assert_allclose(alone[1][0], gradients[2], rtol=1e-9, atol=1e-9)


def test_a_column_that_hardly_varies_may_have_a_large_coefficient():
    rng = np.random.default_rng(0)
    X = np.column_stack([0.8 + 0.02 * rng.standard_normal(20_000), rng.uniform(-1, 1, 20_000)])
    y = (rng.random(len(X)) < expit((X[:, 0] - 0.8) * -15.0 + X[:, 1])).astype(int)
    model = DPBayesianLogisticRegression(epsilon=np.inf, classes=[0, 1], random_state=0).fit(X, y)
    ml = LogisticRegression(C=1e6, tol=1e-8).fit(X, y).coef_[0]
    sd = model.posterior_samples_[:, 0, :2].std(axis=0)
    np.testing.assert_allclose((model.coef_[0] - ml) / sd, 0.0, atol=0.35)
    chain = DPBayesianLogisticRegression(
        epsilon=np.inf, classes=[0, 1], random_state=0, sampler="sgfs"
    )
    # A prior scale that is not learnt shrinks it.
    assert abs(chain.fit(X, y).coef_[0, 0]) < abs(ml[0]) - 2.0 * sd[0]


def test_counts_with_exposures_reach_maximum_likelihood():
    rng = np.random.default_rng(0)
    X, exposure = rng.uniform(-1, 1, (20_000, 2)), rng.uniform(0.5, 2.0, 20_000)
    y = rng.poisson(exposure * np.exp(X @ [0.5, -0.3]))
    model = DPBayesianPoissonRegressor(epsilon=np.inf, max_count=40, random_state=0)
    model.fit(X, y, exposure=exposure)
    assert model.plan_.name == "clipped_residuals"
    np.testing.assert_allclose(model.coef_, [0.5, -0.3], atol=0.04)
    # The Fisher information of uniform columns: a third of the sum of rates.
    np.testing.assert_allclose(
        model.posterior_samples_.reshape(-1, 3)[:, :2].std(axis=0),
        (np.sum(y) / 3.0) ** -0.5,
        rtol=0.1,
    )


def test_large_counts_are_reached_from_afar():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (500, 2))
    y = rng.poisson(1e6 * np.exp(0.3 * X[:, 0]))
    for has_intercept in (True, False):
        rows = X if has_intercept else np.column_stack([X, np.ones(500)])
        model = DPBayesianPoissonRegressor(
            epsilon=np.inf, max_count=3e6, fit_intercept=has_intercept, random_state=0
        ).fit(rows, y)
        assert np.max(model.released_["r_hat"]) < 1.1
        np.testing.assert_allclose(model.coef_[:2], [0.3, 0.0], atol=1e-3)


@pytest.mark.parametrize(("unit", "norm"), [((1.0, 3e4), 2e5), ((1.0, 1.0), 1e5)])
def test_columns_may_be_far_smaller_than_bounds_allow(unit, norm):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    y = (rng.random(3000) < expit(X[:, 0])).astype(int)
    model = DPBayesianLogisticRegression(epsilon=np.inf, data_norm=norm, random_state=0)
    model.fit(X * unit, y)
    ml = LogisticRegression(C=1e6, tol=1e-8).fit(X, y).coef_[0, 0]
    sd = model.posterior_samples_[:, 0, 0].std()
    assert model.coef_[0, 0] == pytest.approx(ml, abs=0.35 * sd)
    assert sd == pytest.approx(0.05, rel=0.15)


def test_tables_that_say_nothing_have_the_prior():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.integers(2, size=300)
    model = DPBayesianLogisticRegression(
        epsilon=np.inf, classes=[0, 1], max_sample_weight=1.0, random_state=0
    ).fit(X, y, sample_weight=np.zeros(300))
    assert np.all(np.isfinite(model.posterior_samples_))
    flat = DPBayesianLogisticRegression(epsilon=np.inf, random_state=0).fit(0.0 * X, y)
    # The usual deviation is 2.5 over a norm of 2^0.5, and its law is wide.
    assert 0.5 < flat.posterior_samples_[:, 0, :2].std() < 20.0


def test_indicators_of_rows_that_are_clipped_are_not_said_to_repeat():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(2000, 3)), np.eye(4)[rng.integers(4, size=2000)]])
    model = DPBayesianLogisticRegression(epsilon=np.inf, random_state=0)
    model.fit(X, rng.integers(2, size=2000))
    assert model.interval_notes() == ()


def test_a_fit_that_read_the_table_does_not_keep_it():
    X, y = table(4000, 3)
    model = DPBayesianLogisticRegression(epsilon=np.inf, random_state=0, n_draws=100).fit(X, y)
    assert "posterior" not in model.released_ and len(pickle.dumps(model)) < X.nbytes / 2
