"""Bayes by backprop fits what it says: closed forms, quadrature, and an attack on what it releases."""

from typing import NamedTuple

import numba
import numpy as np
import pytest
from references import logistic_moments, planned
from scipy.special import expit
from sklearn.datasets import make_classification

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.audit import audit_separation
from skdpbayes.models import TargetBounds, example_gradient, implements, n_examples, prior_gradient
from skdpbayes.privacy import Budget, PrivacyLedger
from skdpbayes.privacy.rounding import lattice_spacing
from skdpbayes.random import private_generator
from skdpbayes.samplers import BayesByBackprop, sample
from skdpbayes.samplers.base import run_plan
from skdpbayes.samplers.variational import VariationalFit, variational_gradient

NOT_PRIVATE = Budget(np.inf, 1e-5)
RELATIONS = ["replace_one", "add_or_remove_one"]


class Quadratic(NamedTuple):
    """ell_i = (theta - z_i)^T A (theta - z_i) / 2: far records have gradients at the bound."""

    points: np.ndarray
    curvature: np.ndarray
    prior_precision: np.ndarray
    gradient_bound: float
    start: np.ndarray


@implements(n_examples, Quadratic)
def _count(target):
    return target.points.shape[0]


@implements(example_gradient, Quadratic)
def _gradient(target, theta, i, out):
    for j in range(theta.size):
        for k in range(theta.size):
            out[j] += target.curvature[j, k] * (theta[k] - target.points[i, k])


class Improper(NamedTuple):
    """No prior at all."""

    points: np.ndarray
    gradient_bound: float


class Shifted(NamedTuple):
    """A prior of its own, whatever the field says."""

    points: np.ndarray
    prior_precision: np.ndarray
    gradient_bound: float


implements(n_examples, Improper)(lambda target: target.points.shape[0])
implements(n_examples, Shifted)(lambda target: target.points.shape[0])
implements(example_gradient, Shifted)(lambda target, theta, i, out: None)
implements(prior_gradient, Shifted)(lambda target, theta, out: None)


def quadratic(points, curvature=None, precision=1.0, bound=1.0):
    points = np.asarray(points, dtype=float)
    d = points.shape[1]
    precision = np.full(d, precision) if np.isscalar(precision) else np.asarray(precision)
    curvature = np.eye(d) if curvature is None else np.asarray(curvature, dtype=float)
    bounds = TargetBounds(d, bound, 1.0, (float(precision.min()), float(precision.max())))
    return Quadratic(points, curvature, precision, bound, np.zeros(d)), bounds


def fitted(target, bounds, temperature=None):
    n = len(target.points)
    plan = planned(BayesByBackprop, bounds, n, NOT_PRIVATE, temperature=temperature)
    found = run_plan(target, plan, 0, 0).parameters
    return found["variational_mean"], found["variational_scale"]


# What is fitted


@pytest.mark.parametrize("temperature", [1.0, 5.0])
def test_a_conjugate_posterior_is_found(temperature):
    """With unit variances the posterior factors, and q is the posterior itself."""
    points = np.random.default_rng(0).normal([1.0, -0.5, 0.2], 1.0, (40, 3))
    precision = np.array([4.0, 20.0, 100.0])
    target, bounds = quadratic(points, precision=precision, bound=1e6)
    mean, scale = fitted(target, bounds, temperature=temperature)
    total = 40 + temperature * precision
    expected = np.sqrt(temperature / total)
    np.testing.assert_allclose(mean, points.sum(axis=0) / total, atol=0.12 * expected.min())
    np.testing.assert_allclose(scale, expected, rtol=0.06)


def test_correlated_posteriors_have_the_scales_of_conditionals():
    """The optimum has the posterior's mean, and 1 over the diagonal of its precision."""
    points = np.random.default_rng(1).normal([1.0, -0.5, 0.2], 1.0, (40, 3))
    curvature = np.array([[1.0, 0.7, 0.0], [0.7, 1.0, 0.3], [0.0, 0.3, 0.5]])
    target, bounds = quadratic(points, curvature, precision=2.0, bound=1e6)
    mean, scale = fitted(target, bounds)
    total = 40 * curvature + 2.0 * np.eye(3)
    expected = np.diag(total) ** -0.5
    exact = np.linalg.solve(total, curvature @ points.sum(axis=0))
    np.testing.assert_allclose(mean, exact, atol=0.2 * expected.min())
    np.testing.assert_allclose(scale, expected, rtol=0.06)
    marginal = np.diag(np.linalg.inv(total)) ** 0.5
    assert (marginal[:2] > 1.25 * scale[:2]).all(), "another number altogether"


def test_the_gradient_is_that_of_the_closed_form():
    """Finite differences of the loss at m + s e plus tau KL(q || p), in the target's own units."""
    rng = np.random.default_rng(2)
    precision, temperature = np.array([0.5, 3.0, 8.0]), 2.5
    draw, centre = rng.normal(size=(2, 3))
    curvature = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 4.0]])
    prior_scale = precision**-0.5

    def objective(values):
        mean, scale = prior_scale * values[0], prior_scale * np.exp(values[1])
        moved = mean + scale * draw - centre
        divergence = (
            0.5 * precision * (mean**2 + scale**2) - 0.5 - 0.5 * np.log(precision * scale**2)
        )
        return 0.5 * moved @ curvature @ moved + temperature * divergence.sum()

    values = rng.normal(size=(2, 3)) * 0.5
    theta = prior_scale * (values[0] + np.exp(values[1]) * draw)
    found = np.empty((2, 3))
    pull = prior_scale * (curvature @ (theta - centre))
    variational_gradient(pull, draw, values, temperature, found)
    for index in np.ndindex(2, 3):
        step = np.zeros((2, 3))
        step[index] = 1e-5
        slope = (objective(values + step) - objective(values - step)) / 2e-5
        assert found[index] == pytest.approx(slope, rel=1e-6)


def test_the_mean_starts_where_the_target_says():
    target, bounds = quadratic(np.zeros((5, 2)))
    start = np.array([0.3, -0.1])
    plan = BayesByBackprop().plan(bounds, 5, NOT_PRIVATE)
    fit = VariationalFit(plan, target._replace(start=start), private_generator(0))
    np.testing.assert_allclose(fit.state.values[0], start)
    with pytest.raises(ValueError, match="start has shape"):
        sample(target._replace(start=np.zeros(3)), plan, random_state=0)


# What is released


FAR = 1e9


def released(target, plan, seed):
    """Return the noisy gradient of every step."""
    fit = VariationalFit(plan, target, private_generator(seed))
    gradients = []
    for k in range(plan.n_steps):
        fit.advance(k, k + 1, 0)
        gradients.append(fit.state.released.copy())
    return np.array(gradients)


@pytest.mark.nightly
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("epsilon", "batch_size"), [(0.5, None), (8.0, None), (1.0, 3)])
def test_noise_has_exactly_the_planned_deviation(relation, epsilon, batch_size):
    """The second coordinate's gradient is known, the first has none: noise alone."""
    n = 12
    target, bounds = quadratic(np.tile([0.0, FAR], (n, 1)), np.diag([0.0, 1.0]), bound=3.0)
    sampler = BayesByBackprop(batch_size=batch_size)
    plan = planned(sampler, bounds, n, Budget(epsilon, 1e-5, relation), n_steps=12_000)
    gradients = released(target, plan, 0)
    rate = plan.sampling_rate
    shift = 2.0 if relation == "replace_one" else 1.0
    if batch_size is None:
        assert shift * 3.0 / plan.noise_scale * np.sqrt(plan.n_steps) <= plan.cost.mu
    assert plan.noise_scale * rate / 3.0 >= plan.noise_multiplier
    assert plan.noise_scale * rate / 3.0 <= 1.001 * plan.noise_multiplier
    error = 4.5 / np.sqrt(2 * len(gradients))
    assert gradients[:, 0].std() == pytest.approx(plan.noise_scale, rel=error)
    # Batches add what they add.
    expected = np.hypot(plan.noise_scale, np.sqrt((1 - rate) / rate * n) * 3.0)
    assert gradients[:, 1].std() == pytest.approx(expected, rel=error)
    mean_error = 4.5 * expected / np.sqrt(len(gradients))
    assert gradients[:, 1].mean() == pytest.approx(-n * 3.0, abs=mean_error)


def test_released_gradients_lie_on_the_lattice():
    target, bounds = quadratic(np.random.default_rng(0).normal(size=(30, 2)))
    plan = planned(BayesByBackprop, bounds, 30, Budget(1.0, 1e-5), n_steps=50)
    multiples = released(target, plan, 0) / lattice_spacing(plan.noise_scale)
    np.testing.assert_array_equal(multiples, np.rint(multiples))


def attacked(plan, relation, repetitions=2000):
    """Audit the likelihood ratio of all noisy gradients, where a record's are at the bound."""
    common = np.tile([0.0, FAR], (11, 1))
    first = np.vstack([common, [[FAR, 0.0]]])
    second = np.vstack([common, [[-FAR, 0.0]]]) if relation == "replace_one" else common
    # Gradients are at the bound wherever a fit is, so that one long fit is many.
    long = plan.changed(n_steps=repetitions * plan.n_steps)
    scores = [
        released(quadratic(points)[0], long, seed)[:, 0].reshape(repetitions, -1).sum(axis=1)
        for seed, points in enumerate((first, second))
    ]
    return audit_separation(scores[1], scores[0])


@pytest.mark.parametrize("relation", RELATIONS)
def test_an_attack_reaches_the_claim_and_does_not_pass_it(relation):
    _, bounds = quadratic(np.zeros((12, 2)))
    plan = planned(BayesByBackprop, bounds, 12, Budget(6.0, 1e-5, relation), n_steps=4)
    result = attacked(plan, relation)
    assert result.mu - 3.5 * result.standard_error <= plan.cost.mu, "the claim is broken"
    assert result.mu >= 0.9 * plan.cost.mu, "the claim is loose, or the noise is too large"
    # The audit has power: half of the noise breaks the claim.
    result = attacked(plan.changed(noise_scale=plan.noise_scale / 2), relation, 500)
    assert result.mu - 3.5 * result.standard_error > plan.cost.mu


@pytest.mark.parametrize("batch_size", [None, pytest.param(15_000, marks=pytest.mark.nightly)])
def test_one_core_and_two_give_the_same_draws(make_target, batch_size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 30))
    target, bounds = make_target(X, rng.integers(2, size=20_000), norm=5.0)
    sampler = BayesByBackprop(batch_size=batch_size)
    plan = planned(sampler, bounds, 20_000, Budget(1.0, 1e-5), n_steps=60)
    threads = numba.get_num_threads()
    both = sample(target, plan, random_state=7)
    try:
        numba.set_num_threads(1)
        one = sample(target, plan, random_state=7)
    finally:
        numba.set_num_threads(threads)
    np.testing.assert_array_equal(both, one)
    assert not np.array_equal(one, sample(target, plan, random_state=8))


def test_other_priors_are_refused_before_anything_is_spent():
    target, bounds = quadratic(np.zeros((5, 2)))
    plan = BayesByBackprop().plan(bounds, 5, Budget(1.0, 1e-5))
    with PrivacyLedger(1.0, 1e-5) as ledger:
        for other in (
            Improper(target.points, 1.0),
            Shifted(target.points, target.prior_precision, 1.0),
        ):
            with pytest.raises(ValueError, match="prior_precision"):
                sample(other, plan, random_state=0)
    assert ledger.spent_epsilon == 0


# Logistic regression


def test_logistic_regression_without_privacy():
    rng = np.random.default_rng(3)
    X = np.clip(rng.normal(size=(400, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]]), -1.4, 1.4)
    y = (rng.random(400) < expit(X @ [1.0, -0.5])).astype(int)
    clf = DPBayesianLogisticRegression(
        np.inf, sampler="bbb", data_norm=2.0, prior_scale=1.0, fit_intercept=False, random_state=0
    ).fit(X, y)
    mean, covariance = logistic_moments(X, y, 1.0, reach=3.0)
    deviations = np.sqrt(np.diag(covariance))
    assert (np.abs(clf.released_.variational_mean[0] - mean) < 0.2 * deviations).all()
    p = expit(X @ mean)
    curvature = (X**2).T @ (p * (1 - p)) + 1.0
    np.testing.assert_allclose(clf.released_.variational_scale[0], curvature**-0.5, rtol=0.08)


@pytest.fixture(scope="module")
def large():
    X, y = make_classification(24_000, 10, n_informative=6, random_state=0)
    return X[:20_000], y[:20_000], X[20_000:], y[20_000:]


@pytest.fixture(scope="module")
def private(large):
    return DPBayesianLogisticRegression(1.0, sampler="bbb", random_state=0).fit(*large[:2])


def test_accuracy_is_that_of_a_chain(large, private):
    chain = DPBayesianLogisticRegression(1.0, sampler="sghmc", random_state=0).fit(*large[:2])
    assert private.score(*large[2:]) == pytest.approx(chain.score(*large[2:]), abs=0.02)
    assert 0.99 < private.spent_epsilon_ <= 1.0


def test_fitted_attributes_are_those_of_the_draws(private):
    assert private.posterior_samples_.shape == (100, 1, 11)
    assert (
        private.released_.variational_mean.shape
        == private.released_.variational_scale.shape
        == (1, 11)
    )
    assert private.n_iter_ == private.plan_.n_steps
    assert private.temperature_ == private.plan_.temperature
    draws = private.sample_posterior(40_000, random_state=0)
    scale = private.released_.variational_scale
    assert (np.abs(draws.mean(axis=0) - private.released_.variational_mean) < 5 * scale / 200).all()
    np.testing.assert_allclose(draws.std(axis=0), scale, rtol=0.02)
    # The intercept is in its own units in both, and draws that were released are of the same Gaussian.
    apart = np.abs(private.posterior_samples_.mean(axis=0) - private.released_.variational_mean)
    assert (apart < 0.5 * scale).all()


def test_more_draws_are_free_and_repeatable(private):
    with PrivacyLedger(0.1, 1e-6) as ledger:
        draws = private.sample_posterior(1234, random_state=5)
    assert ledger.spent_epsilon == 0
    assert draws.shape == (1234, 1, 11)
    np.testing.assert_array_equal(draws, private.sample_posterior(1234, random_state=5))
    assert not np.array_equal(draws, private.sample_posterior(1234, random_state=6))
    np.testing.assert_array_equal(private.sample_posterior(), private.posterior_samples_)
    for wrong in (0, -1, 2.5, "all", True):
        with pytest.raises(ValueError, match="n_draws"):
            private.sample_posterior(wrong)


def test_several_classes_have_a_row_each(large):
    X, y = large[2][:900], np.arange(900) % 3
    clf = DPBayesianLogisticRegression(
        3.0, sampler=BayesByBackprop(n_steps=50), random_state=0
    ).fit(X, y)
    assert clf.released_.variational_scale.shape == (3, 11)
    assert clf.posterior_samples_.shape == (100, 3, 11)
