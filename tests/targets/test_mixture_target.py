"""Mixtures: densities and Jacobians against scipy, and what one record can do to statistics."""

import math

import numpy as np
import pytest
from mixtures import KINDS, make_model, make_reference, make_table
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import dirichlet, gamma, multivariate_normal, norm, wishart

from skdpbayes.samplers._machinery.compiled_entries import CompiledCore
from skdpbayes.samplers._machinery.gradients import gradient_oracle, gradient_sum
from skdpbayes.samplers._machinery.losses import potential_at
from skdpbayes.samplers.mixture.core import places
from skdpbayes.samplers.mixture.statistics import StatisticsReleases
from skdpbayes.targets import loss_differences
from skdpbayes.targets.mixture.target import (
    STATISTICS_NORM,
    Components,
    make_mixture,
    mixture_target,
    pack_mixture,
    unpack_mixture,
)


@CompiledCore
def _differences(target, theta, proposal, selection, count, out):
    loss_differences(target, theta, proposal, selection, count, out)


def differences(target, theta, proposal, selection, count):
    out = np.full(count, np.nan)
    _differences(target, theta, proposal, selection, count, out)
    return out


@CompiledCore
def _gradients(oracle, theta, gradient, prior):
    gradient_sum(oracle, theta, None, oracle.n_examples, 0, gradient, prior)


def potential_gradient(target, theta, temperature=1.0):
    """As the package's own, by what samplers use."""
    gradient, prior = np.full(theta.size, np.nan), np.full(theta.size, np.nan)
    oracle, _ = gradient_oracle(target, theta.size, 1000)
    _gradients(oracle, theta, gradient, prior)
    return gradient + temperature * prior


def components_at(target, theta):
    place = places(target, theta[None])[0]
    return Components(place.log_weights, place.means, place.factors)


# An independent posterior, by scipy


def parameters(target, model, theta):
    """Return (weights, means, precisions) of all components; a tied precision is repeated."""
    canonical = pack_mixture(components_at(target, theta), model)
    weights, means, factors = (part[0] for part in unpack_mixture(canonical[None], model))
    k, d = means.shape
    if model.covariance_type == "spherical":
        precisions = (factors**2)[:, None, None] * np.eye(d)
    elif model.covariance_type == "diag":
        precisions = (factors**2)[:, :, None] * np.eye(d)
    else:
        assert (factors == np.tril(factors)).all()
        precisions = factors @ np.swapaxes(factors, -1, -2) + np.zeros((k, d, d))
    return weights, means, precisions


def clipped(X, model):
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return X * np.minimum(1.0, model.data_norm / lengths)


def log_likelihoods(weights, means, precisions, X):
    joint = [
        np.log(w) + multivariate_normal(m, np.linalg.inv(p)).logpdf(X)
        for w, m, p in zip(weights, means, precisions, strict=True)
    ]
    return logsumexp(np.reshape(joint, (len(weights), len(X))), axis=0)


def free_precisions(precisions, model):
    """The entries of precisions that are parameters."""
    d = model.n_features
    if model.covariance_type == "spherical":
        return precisions[:, 0, 0]
    if model.covariance_type == "diag":
        return np.diagonal(precisions, axis1=1, axis2=2).ravel()
    kept = precisions[:1] if model.covariance_type == "tied" else precisions
    return kept[(slice(None), *np.tril_indices(d))].ravel()


def log_prior_density(weights, means, precisions, model):
    """In the space of weights, means and precisions."""
    degrees, c = model.degrees_of_freedom, model.covariance
    total = dirichlet.logpdf(
        weights / weights.sum(), np.full(len(weights), model.weight_concentration)
    )
    total += norm.logpdf(means, scale=model.mean_scale).sum()
    if not model.is_triangular:
        law = gamma(degrees / 2.0, scale=2.0 / (degrees * c))
        return total + law.logpdf(free_precisions(precisions, model)).sum()
    law = wishart(degrees, np.eye(model.n_features) / (degrees * c))
    kept = precisions[:1] if model.covariance_type == "tied" else precisions
    return total + sum(law.logpdf(precision) for precision in kept)


def derivatives(function, theta, step=0.005):
    """Central differences of sixth order: one row of the result for every coordinate."""
    rows = []
    for unit in np.eye(theta.size):
        values = {h: function(theta + h * step * unit) for h in (-3, -2, -1, 1, 2, 3)}
        total = sum(
            share * (values[h] - values[-h]) for h, share in ((1, 45.0), (2, -9.0), (3, 1.0))
        )
        rows.append(total / (60.0 * step))
    return np.array(rows)


def log_jacobian(target, model, theta):
    """Log of |det| of theta -> (all weights but one, means, free entries of precisions)."""

    def mapped(theta):
        weights, means, precisions = parameters(target, model, theta)
        return np.concatenate(
            [weights[:-1], means.ravel(), free_precisions(precisions, model).ravel()]
        )

    matrix = derivatives(mapped, theta)
    assert matrix.shape == (theta.size, theta.size)
    return np.linalg.slogdet(matrix)[1]


def log_prior(target, model, theta):
    """In the space of theta."""
    density = log_prior_density(*parameters(target, model, theta), model)
    return density + log_jacobian(target, model, theta)


@pytest.mark.parametrize("n_components", [1, 2, pytest.param(3, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_is_that_of_the_density_by_scipy(rng, kind, n_components):
    """Exponents of the prior and Jacobians of all coordinates included, at two temperatures."""
    model = make_model(kind, n_components)
    reference = make_reference(rng, model)
    rows = rng.normal(size=(40, 2)) * 2.0
    target = mixture_target(make_mixture(rows, model), model, reference)
    rows = clipped(rows, model)
    theta = 0.3 * rng.normal(size=model.n_parameters)

    def log_likelihood(theta):
        return log_likelihoods(*parameters(target, model, theta), rows).sum()

    likelihood = -derivatives(log_likelihood, theta)
    prior = -derivatives(lambda theta: log_prior(target, model, theta), theta)
    for temperature in (0.0, 1.0, 7.0):
        found = potential_gradient(target, theta, temperature)
        expected = likelihood + temperature * prior
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("kind", KINDS)
def test_the_prior_potential_is_that_of_the_density_by_scipy(rng, kind):
    model = make_model(kind, 3)
    target = mixture_target(make_table(rng, model), model, make_reference(rng, model))
    points = 0.4 * rng.normal(size=(6, model.n_parameters))
    found = np.array([potential_at(target, theta) for theta in points])
    expected = np.array([-log_prior(target, model, theta) for theta in points])
    np.testing.assert_allclose(found - found[0], expected - expected[0], rtol=1e-7, atol=1e-7)
    assert np.ptp(found) > 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_the_origin_is_the_reference(rng, kind):
    model = make_model(kind, 3)
    reference = make_reference(rng, model)
    target = mixture_target(make_table(rng, model), model, reference)
    found = components_at(target, np.zeros(model.n_parameters))
    for part, expected in zip(found, reference, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_loss_differences_are_those_by_scipy(rng, kind):
    model = make_model(kind, 3)
    rows = rng.normal(size=(71, 2)) * 2.0
    target = mixture_target(make_mixture(rows, model), model, make_reference(rng, model))
    theta = 0.5 * rng.normal(size=model.n_parameters)
    batch = rng.integers(71, size=37)
    for distance in (1e-3, 0.5, 4.0):
        proposal = theta + distance * rng.normal(size=theta.size) / math.sqrt(theta.size)
        here, there = (
            log_likelihoods(*parameters(target, model, point), clipped(rows, model))
            for point in (theta, proposal)
        )
        expected = there - here
        close = {"rtol": 1e-9, "atol": 1e-11 * np.abs(here).max()}
        for first, count in ((0, 71), (3, 20)):
            found = differences(target, theta, proposal, first, count)
            np.testing.assert_allclose(found, expected[first : first + count], **close)
        np.testing.assert_allclose(
            differences(target, theta, proposal, batch, 37), expected[batch], **close
        )


@pytest.mark.parametrize("kind", KINDS)
def test_far_away_everything_is_finite_and_a_record_weighs_one(rng, kind):
    model = make_model(kind, 3)
    table = make_table(rng, model, 5)
    target = mixture_target(table, model, make_reference(rng, model))
    bounded = target._replace(gradient_bound=10.0)
    origin = np.zeros(model.n_parameters)
    for length in (50.0, 50.0, 50.0, 1e3, 1e9):
        direction = rng.normal(size=model.n_parameters)
        theta = length * direction / np.linalg.norm(direction)
        assert np.isfinite(differences(target, theta, origin, 0, 5)).all()
        assert np.isfinite(potential_gradient(target, theta)).all()
        assert np.isfinite(potential_gradient(bounded, theta)).all()
        assert np.isfinite(potential_at(target, theta))
        components = components_at(target, theta)
        for one in range(5):
            counts = statistics_of(table, components, one).counts
            assert (counts >= 0).all()
            assert counts.sum() == pytest.approx(1.0, abs=1e-12)


# What one record does to statistics


def statistics_of(table, components, one):
    """Exact statistics of a single record."""
    alone = table._replace(values=table.values[one : one + 1], scale=table.scale[one : one + 1])
    return StatisticsReleases(alone, 1, np.random.default_rng(0)).release(components, 0.0)


def as_vector(statistics):
    """Symmetric matrices as they are: entries off the diagonal count twice."""
    return np.concatenate([part.ravel() for part in statistics])


def adversarial_components(rng, model):
    """Factors from tiny to huge, weights down to nothing, means anywhere in the ball and beyond."""
    size = 10.0 ** rng.uniform(-3, 6)
    weights = rng.dirichlet(np.full(model.n_components, 10.0 ** rng.uniform(-2, 1)))
    weights = np.maximum(weights, 1e-300)
    reach = rng.choice([0.0, 0.5, 1.0, 3.0])
    return make_reference(rng, model, weights, size, spread=30.0, reach=reach)


@pytest.mark.parametrize("n_features", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_statistics_of_a_record_are_in_the_ball_that_privacy_rests_on(rng, kind, n_features):
    model = make_model(kind, 4, n_features)
    longest, farthest = 0.0, 0.0
    for _ in range(150):
        components = adversarial_components(rng, model)
        rows = rng.normal(size=(6, n_features)) * 10.0 ** rng.integers(-1, 3, size=(6, 1))
        rows[4] = -rows[5]
        rows[3] = 1e9 * components.means[0]
        table = make_mixture(rows, model)
        vectors = [as_vector(statistics_of(table, components, one)) for one in range(6)]
        assert np.isfinite(vectors).all()
        longest = max(longest, np.linalg.norm(vectors, axis=1).max())
        farthest = max(farthest, cdist(vectors, vectors).max())
    assert 0.95 * STATISTICS_NORM < longest <= STATISTICS_NORM * (1 + 1e-12)
    assert 0.9 * math.sqrt(6.0) < farthest <= math.sqrt(6.0) * (1 + 1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_two_records_reach_the_bound_on_their_distance(kind):
    """Each in a component of its own: a smaller bound would be wrong."""
    model = make_model(kind, 2, 1, data_norm=1.0)
    factors = np.full((2, 1, 1) if model.is_triangular else (2, 1), 50.0)
    components = Components(np.log([0.5, 0.5]), np.array([[1.0], [-1.0]]), factors)
    table = make_mixture(np.array([[1.0], [-1.0]]), model)
    vectors = [as_vector(statistics_of(table, components, one)) for one in range(2)]
    assert np.linalg.norm(vectors[0]) == pytest.approx(math.sqrt(3.0))
    assert np.linalg.norm(vectors[0] - vectors[1]) == pytest.approx(math.sqrt(6.0))


def test_rows_are_clipped_to_the_bound_and_no_further(rng):
    model = make_model("full", 2, 3, data_norm=2.5)
    rows = rng.normal(size=(200, 3))
    rows *= rng.choice([0.1, 1.0, 3.0, 1e6, 1e150], size=(200, 1))
    table = make_mixture(rows, model)
    kept = table.scale[:, None] * table.values
    lengths = np.linalg.norm(rows / 1e150, axis=1) * 1e150
    beyond = lengths > model.data_norm
    assert 20 < beyond.sum() < 180
    np.testing.assert_allclose(np.linalg.norm(kept[beyond], axis=1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(kept[beyond], rows[beyond] / lengths[beyond, None], rtol=1e-13)
    np.testing.assert_allclose(kept[~beyond], rows[~beyond] / model.data_norm, rtol=1e-14)
