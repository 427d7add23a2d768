"""What is believed given the releases: the law of a surrogate, its draws, and designs and curvatures."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.special import expit, softmax
from scipy.stats import multivariate_normal
from skdpbayes.samplers.noise_aware.curvature import curvature_of

from skdpbayes.samplers.noise_aware.design import Design, estimate_design, with_constant
from skdpbayes.samplers.noise_aware.draws import draw, find_mode
from skdpbayes.samplers.noise_aware.surrogate import Population, Surrogate, make_population
from skdpbayes.targets.linear.families import classifier
from skdpbayes.targets.linear.weighted import slope_matrix


def a_surrogate(rng, length, n_classes=2, variance=400.0, spread=12.0):
    """What might be believed of a table of 400 records, around a mode that is not at zero."""
    family = classifier(n_classes).identified
    size = family.n_blocks * length
    rows = rng.normal(size=(300, length)) + 0.3
    population = Population(family, rows, rng.uniform(0.5, 1.0, size=300), 400 / 300)
    centre = rng.normal(size=size) * 0.5
    probabilities = population.probabilities(centre[None])
    matrix = rng.normal(size=(size, size)) * 5.0
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    return Surrogate(
        population=population,
        prior=np.diag(rng.uniform(0.5, 2.0, size=length)),
        look=-population.score(probabilities)[0] + rng.normal(size=size) * 15.0,
        centre=centre,
        variance=variance,
        slope=float(population.mean_variance(probabilities)[0]),
        basis=basis,
        correction=matrix + matrix.T,
        sampling=rng.uniform(20.0, 60.0, size=size),
        spread=rng.uniform(0.5, 1.5, size=size) * spread,
        start=centre,
    )


def log_density(given, u):
    """The model at the top of ``surrogate.py``, written once more, at one point."""
    population, family = given.population, given.population.family
    logits = population.rows @ u.reshape(family.n_blocks, -1).T
    p = softmax(logits @ family.contrasts.T, axis=1)
    score = (
        population.size * family.contrasts.T @ (population.weights[:, None] * p).T @ population.rows
    )
    slopes = [
        np.trace(family.contrasts.T @ (np.diag(q) - np.outer(q, q)) @ family.contrasts) for q in p
    ]
    r = np.mean(np.array(slopes) * population.weights) / family.n_blocks / given.slope
    d = r * (u - given.centre)
    expected = given.basis.T @ (given.look + score.ravel() + given.correction @ d)
    d = given.basis.T @ d
    p = given.spread
    # Of a symmetric matrix with variances p_i p_j of its entries, and twice that on the diagonal, times d.
    covariance = np.diag(given.variance + r * given.sampling + p * (p @ d**2))
    covariance += np.outer(p * d, p * d)
    prior = np.kron(np.eye(family.n_blocks), given.prior)
    return multivariate_normal.logpdf(expected, cov=covariance) - u @ prior @ u / 2


@pytest.mark.parametrize("length, n_classes", [(1, 2), (3, 2), (2, 4)])
def test_the_law_is_the_one_that_is_written_down(rng, length, n_classes):
    given = a_surrogate(rng, length, n_classes)
    points = given.centre + rng.normal(size=(6, given.centre.size)) * 2.0
    energy = given.potential(points)[0]
    expected = np.array([log_density(given, u) for u in points])
    np.testing.assert_allclose(np.diff(-energy), np.diff(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("length, n_classes", [(3, 2), (2, 4)])
def test_the_force_is_the_gradient(rng, length, n_classes):
    given = a_surrogate(rng, length, n_classes)
    point, step = given.centre + rng.normal(size=given.centre.size), 1e-5
    gradient = given.potential(point[None])[1][0]
    moves = np.eye(point.size) * step
    ahead, behind = given.potential(point + moves)[0], given.potential(point - moves)[0]
    np.testing.assert_allclose(gradient, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-6)


def test_many_points_at_once_are_what_they_are_alone(rng):
    """Several classes are computed some points at a time."""
    given = a_surrogate(rng, 2, 4)
    points = given.centre + rng.normal(size=(50, given.centre.size))
    assert given.population.n_logits * len(points) > 2**15
    energy, force = given.potential(points)
    alone = [given.potential(point[None]) for point in points]
    assert np.allclose(energy, [one[0][0] for one in alone], rtol=1e-10)
    assert np.allclose(force, [one[1][0] for one in alone], rtol=1e-8, atol=1e-8)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("n_classes", [2, 4])
def test_probabilities_of_logits_of_any_size(n_classes):
    family = classifier(n_classes).identified
    logits = np.array([-1e300, -800.0, -30.0, -1e-9, 0.0, 3.0, 40.0, 1e300])
    given = np.zeros((family.n_blocks, logits.size))
    given[0] = logits
    found = family.inverse_link(given)
    wanted = expit(given) if n_classes == 2 else softmax(family.contrasts @ given, axis=0)
    assert np.allclose(found, wanted, rtol=1e-14, atol=0)
    assert np.all((found >= 0) & (found <= 1))


def test_noise_of_a_symmetric_matrix_is_what_the_covariance_says(rng):
    """The last two terms of ``V`` against simulated matrices."""
    p, d = np.array([1.0, 2.0, 0.5]), np.array([0.3, -1.0, 2.0])
    noise = rng.normal(size=(200_000, 3, 3)) * np.sqrt(np.outer(p, p))
    upper = np.triu(noise, 1)
    matrices = upper + upper.transpose(0, 2, 1) + noise * np.eye(3) * math.sqrt(2.0)
    found = np.cov((matrices @ d).T)
    expected = np.diag(p * (p @ d**2)) + np.outer(p * d, p * d)
    np.testing.assert_allclose(found, expected, atol=0.03 * expected.max())


@pytest.mark.parametrize("length", [1, 2])
def test_draws_against_a_grid(rng, length):
    given = a_surrogate(rng, length)
    axis = np.linspace(-5.0, 5.0, 300)
    grid = np.stack(np.meshgrid(*[axis] * length, indexing="ij"), axis=-1).reshape(-1, length)
    # The law is tested above; the grid needs many points.
    density = np.exp(-np.concatenate([given.potential(u)[0] for u in np.array_split(grid, 50)]))
    density /= density.sum()
    mean = density @ grid
    spread = np.sqrt(density @ (grid - mean) ** 2)
    draws = draw(given, 20_000, 0)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.04 * spread.max())
    np.testing.assert_allclose(draws.std(axis=0), spread, rtol=0.04)
    beyond = density @ (grid > mean + 1.5 * spread)
    np.testing.assert_allclose((draws > mean + 1.5 * spread).mean(axis=0), beyond, atol=0.01)


def test_the_mode_is_one(rng):
    given = a_surrogate(rng, 4)
    mode = find_mode(given)
    energy = given.potential(mode[None])[0][0]
    nearby = mode + rng.normal(size=(200, 4)) * 0.05
    assert (given.potential(nearby)[0] > energy - 1e-3).all()


def test_without_noise_to_speak_of_draws_follow_the_linear_posterior(rng):
    """A curvature that is known, noise that hides nothing: normal, with the precision F + P."""
    given = a_surrogate(rng, 3)
    many = dataclasses.replace(given.population, size=1e4)
    zero = np.zeros((1, 3))
    curvature = many.slope_times(many.probabilities(np.zeros((3, 3))), np.eye(3))
    sampling, basis = np.linalg.eigh(curvature)
    given = dataclasses.replace(
        given,
        population=many,
        look=-many.score(many.probabilities(zero))[0],
        centre=np.zeros(3),
        variance=1e-6,
        slope=float(many.mean_variance(many.probabilities(zero))[0]),
        basis=basis,
        correction=np.zeros((3, 3)),
        sampling=sampling,
        spread=np.full(3, 1e-6),
    )
    draws = draw(given, 20_000, 1) @ basis
    expected = 1.0 / np.sqrt(sampling + np.diag(basis.T @ given.prior @ basis))
    np.testing.assert_allclose(draws.std(axis=0), expected, rtol=0.04)
    assert (np.abs(draws.mean(axis=0)) < 0.04 * expected).all()


def test_a_population_has_the_moments_that_it_is_for(rng):
    root = rng.normal(size=(3, 3))
    design = with_constant(Design(rng.normal(size=3), root @ root.T, np.eye(3)), 0.01, 0.7)
    transform = rng.normal(size=(4, 4))
    made = make_population(design, transform, classifier(2).identified, 3.0, 5000, 1000, rng)
    assert made.size * len(made.rows) == pytest.approx(5000)
    np.testing.assert_allclose(made.rows.mean(axis=0), design.mean @ transform, atol=1e-9)
    found = made.rows.T @ made.rows / len(made.rows)
    np.testing.assert_allclose(found, transform.T @ design.second_moment @ transform, atol=1e-8)
    np.testing.assert_allclose(made.rows @ np.linalg.inv(transform)[:, -1], 0.7, atol=1e-8)
    lengths = np.linalg.norm(made.rows, axis=1)
    np.testing.assert_allclose(made.weights, np.minimum(1.0, 9.0 / lengths**2))


def a_moment(rng, n, noise, length=6):
    """Return (released moment, mean, covariance) of correlated rows with a constant of 0.5."""
    root = rng.normal(size=(length, length)) * 0.1 + np.diag(rng.uniform(0.1, 0.5, size=length))
    mean, covariance = rng.normal(size=length) * 0.2, root @ root.T
    moment = np.full((length + 1, length + 1), 0.25)
    moment[:-1, :-1] = covariance + np.outer(mean, mean)
    moment[-1, :-1] = moment[:-1, -1] = 0.5 * mean
    errors = rng.normal(size=moment.shape) * noise
    errors = np.triu(errors, 1) / math.sqrt(2.0) + np.triu(errors, 1).T / math.sqrt(2.0)
    errors += np.diag(rng.normal(size=length + 1)) * noise
    return n * moment + errors, mean, covariance


def test_a_design_is_the_truth_where_noise_is_small(rng):
    released, mean, covariance = a_moment(rng, 10_000, 1e-3)
    design, of_mean = estimate_design(released, 1e-3, 0.5, 5.0, 10_000)
    np.testing.assert_allclose(design.mean, mean, atol=1e-5)
    np.testing.assert_allclose(design.covariance, covariance, atol=1e-5)
    assert of_mean == pytest.approx((1e-7 / math.sqrt(2.0) / 0.5) ** 2, rel=1e-3)


def test_a_design_is_nearer_to_the_truth_than_what_was_released(rng):
    errors, naive, scores = [], [], []
    for _ in range(200):
        released, _, covariance = a_moment(rng, 1000, 150.0)
        design, _ = estimate_design(released, 150.0, 0.5, 5.0, 1000)
        miss = design.covariance - covariance
        errors.append(np.sum(miss**2))
        mean = released[-1, :-1] / 500
        naive.append(np.sum((released[:-1, :-1] / 1000 - np.outer(mean, mean) - covariance) ** 2))
        assert np.linalg.eigvalsh(design.covariance)[0] > 0
        scores.append(np.mean(miss**2) / np.mean(design.uncertainty))
    assert np.mean(errors) < 0.6 * np.mean(naive)
    # What it says of its own errors is right within a factor.
    assert 0.5 < np.median(scores) < 2.0


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_curvature_corrects_a_population_as_far_as_it_is_known(rng, n_classes):
    family, length = classifier(n_classes).identified, 5
    rows = rng.normal(size=(2000, length)) + 0.5
    population = Population(family, rows, np.ones(2000), 5.0)
    u = rng.normal(size=family.n_blocks * length)
    here = population.probabilities(u[None])[0]
    expected = slope_matrix(family, here, population.weights, rows) * population.size
    columns = population.slope_times(np.broadcast_to(here, (u.size, *here.shape)), np.eye(u.size))
    np.testing.assert_allclose(columns, expected, rtol=1e-9)
    truth = expected * (1.0 + 0.1 * np.eye(u.size))
    believed = curvature_of(population, u, np.full((length, length), 1e-4))
    np.testing.assert_allclose(believed.of_population, expected, rtol=1e-9)
    sizes = believed.known.reshape(family.n_blocks, length, family.n_blocks, length)
    assert sizes[0, 0, 0, 0] == pytest.approx(
        (
            1e-2
            * population.size
            * np.sum(family.slope_times(here, np.eye(family.n_blocks)[0][:, None])[0])
        )
        ** 2
    )
    for noise, share in ((1e-3, 1.0), (1e9, 0.0)):
        found = believed.given(truth, noise)
        np.testing.assert_allclose(found.correction, share * (truth - expected), atol=1.0)
        np.testing.assert_allclose(
            (found.basis * found.values) @ found.basis.T,
            expected + found.correction,
            atol=1e-6 * found.values[-1],
        )
        assert (found.known <= noise**2 * (1 + 1e-9)).all()
        there = found.at(population, 1.5 * u)
        ratio = there.slope / found.slope
        assert there.slope == pytest.approx(
            float(population.mean_variance(population.probabilities(1.5 * u[None]))[0])
        )
        assert ratio < 1
        np.testing.assert_allclose(there.correction, ratio * found.correction)
    # What is seen again is known better.
    noise = 0.1 * np.abs(expected).mean()
    once = believed.given(truth, noise)
    again = once.at(population, u).given(truth, noise)
    assert again.known.mean() < once.known.mean()
