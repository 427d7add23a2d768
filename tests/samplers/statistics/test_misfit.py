"""What is learnt of the difference between a table's score and a population's."""

import numpy as np
import pytest
from noise_aware_tables import a_plan, labels_of, variances_of
from scipy.stats import multivariate_normal, norm

from skdpbayes.models.families import classifier
from skdpbayes.models.sums import reweighted, weighted_scores
from skdpbayes.samplers.statistics import logistic as module
from skdpbayes.samplers.statistics.logistic import LogisticLikelihood, estimate_discrepancy
from skdpbayes.samplers.statistics.population import Population
from skdpbayes.samplers.statistics.release import posterior_of
from skdpbayes.samplers.statistics.requests import NoisySum

# How many noisy sums there are, and which have a curvature.
RELEASES = [(1, ()), (3, ()), (3, (1,)), (4, (0, 2))]


def a_population(rng, n_classes, length=2):
    family = classifier(n_classes).identified
    rows = rng.normal(size=(200, length)) * rng.uniform(0.3, 2.0, size=length) + 0.2
    return Population(family, rows, rng.uniform(0.5, 1.0, size=200), 5.0)


def length_of(population):
    return population.family.n_blocks * population.rows.shape[1]


def squares_of(population):
    """``l^2``."""
    return np.tile(np.mean(population.rows**2, axis=0), population.family.n_blocks)


def a_truth(rng, population, size):
    """``M`` from its law a priori."""
    squares = squares_of(population)
    return (
        rng.normal(size=(squares.size,) * 2)
        * size
        * np.sqrt(np.outer(squares, 1.0 / squares) / squares.size)
    )


def changes(population, points, at, size):
    """Variances of what ``M`` changes on the way from a point to the last, in entries of scores."""
    squares = squares_of(population)
    away = np.sum((population.change(points) - population.change(at[None])) ** 2 / squares, axis=1)
    return 0.1 * size**2 / squares.size * squares.mean() * away


def changes_of_curvature(population, point, at, size):
    """The same for entries of a curvature, of which scores tell on the way from 0."""
    squares, slope = squares_of(population), population.curvature(point)
    away = np.mean((slope - population.curvature(at)).T ** 2 @ (1.0 / squares))
    away += np.mean(slope.T**2 @ (1.0 / squares))
    return 0.1 * size**2 / squares.size * squares.mean() * away


def releases_of(rng, population, matrix, size, n_sums, curved, noise):
    """Looks at a path of points and curvatures at some of them, of a table with this ``M``."""
    n = length_of(population)
    points = np.cumsum(rng.normal(size=(n_sums, n)) * 0.7, axis=0)
    noisy_sums, curvatures = [], []
    changed = changes(population, points, points[-1], size)
    for k, (point, variance) in enumerate(zip(points, changed, strict=True)):
        f, slope = population.change(point[None])[0], population.curvature(point)
        own = noise * rng.uniform(0.5, 2.0)
        errors = np.hypot(own, np.sqrt(variance)) * rng.normal(size=n)
        noisy_sums.append(NoisySum(f + matrix @ f + errors, own, point))
        if k in curved:
            half = np.tril(rng.normal(size=(n, n)), -1) / np.sqrt(2.0)
            errors = 2.0 * own * (half + half.T + np.diag(rng.normal(size=n)))
            changed = changes_of_curvature(population, point, points[-1], size)
            errors += np.sqrt(changed) * rng.normal(size=(n, n))
            curvatures.append(NoisySum(slope + matrix @ slope + errors, 2.0 * own, point))
    return noisy_sums, curvatures


def dense(population, noisy_sums, curvatures, at, size, doubts=0.0):
    """Return (mean and covariance of ``M`` row by row, log density of all releases), by dense algebra."""
    squares = squares_of(population)
    n = squares.size
    designs, values, variances = [], [], []
    for value, noise, point, *_ in noisy_sums:
        f = population.change(point[None])[0]
        designs.append(np.kron(np.eye(n), f))
        values.append(value - f)
        changed = changes(population, point[None], at, size)[0]
        variances.append(np.full(n, noise**2 + changed))
    for value, noise, point, *_ in curvatures:
        slope = population.curvature(point)
        designs.append(np.kron(np.eye(n), slope.T))
        values.append((value - slope).ravel())
        changed = changes_of_curvature(population, point, at, size)
        variances.append(np.full(n * n, noise**2 / 2.0 + changed))
    design, values = np.vstack(designs), np.concatenate(values)
    variances = np.concatenate(variances)
    prior = np.outer(squares, 1.0 / squares) * size**2 / n
    prior = (prior + doubts).ravel()
    covariance = np.linalg.inv(np.diag(1.0 / prior) + (design.T / variances) @ design)
    mean = covariance @ (design.T / variances) @ values
    law = (design * prior) @ design.T + np.diag(variances)
    return mean, covariance, multivariate_normal.logpdf(values, cov=law)


# What is not known of second moments, relative to mean squares: less than 0.05 is left to the rest of ``M``.
DOUBTS = {
    "all squares are known": np.zeros((2, 2)),
    "one is not": np.diag([0.01, 0.8]),
    "nor how columns vary together": np.array([[0.3, 0.5], [0.5, 0.8]]),
}


def doubted(doubts, population):
    """``h`` of all blocks, which know nothing of each other."""
    squares = squares_of(population)
    of_blocks = np.kron(np.eye(population.family.n_blocks), doubts)
    return np.where(of_blocks > 0.05 * np.outer(squares, 1.0 / squares), of_blocks, 0.0)


@pytest.mark.parametrize("doubts", DOUBTS.values(), ids=DOUBTS)
@pytest.mark.parametrize("n_sums, curved", RELEASES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_is_learnt_is_the_posterior_of_a_dense_regression(
    rng, n_classes, n_sums, curved, doubts
):
    population = a_population(rng, n_classes)
    n = length_of(population)
    truth = a_truth(rng, population, 0.4)
    noisy_sums, curvatures = releases_of(rng, population, truth, 0.4, n_sums, curved, 10.0)
    at = noisy_sums[-1].point
    found = estimate_discrepancy(population, noisy_sums, curvatures, at, doubts)
    own = doubted(doubts, population)
    mean, covariance, _ = dense(population, noisy_sums, curvatures, at, found.size, own)
    np.testing.assert_allclose(found.mean, mean.reshape(n, n), rtol=1e-8, atol=1e-10)
    f = population.change(rng.normal(size=(5, n)) * 2.0)
    blocks = covariance.reshape(n, n, n, n)
    of_matrix = np.einsum("pj,ijik,pk->pi", f, blocks, f)
    away = np.sum((f - population.change(at[None])) ** 2 / squares_of(population), axis=1)
    change = 0.1 * found.size**2 / n * np.outer(away, squares_of(population))
    np.testing.assert_allclose(variances_of(found, f), of_matrix + change, rtol=1e-8)
    # Rows of M know nothing of each other, which is why n matrices of size n are enough.
    np.testing.assert_allclose(blocks[0, :, 1], 0.0, atol=1e-12)


@pytest.mark.parametrize("doubts", DOUBTS.values(), ids=DOUBTS)
@pytest.mark.parametrize("n_sums, curved", RELEASES)
def test_sizes_are_weighed_by_the_density_of_the_releases(rng, monkeypatch, n_sums, curved, doubts):
    """Of all releases jointly, times the law of sizes."""
    population, weighed, given = a_population(rng, 3), {}, module._given

    def noted(seen, size, *rest):
        found = given(seen, size, *rest)
        weighed[size] = found[0]
        return found

    monkeypatch.setattr(module, "_given", noted)
    truth = a_truth(rng, population, 0.4)
    noisy_sums, curvatures = releases_of(rng, population, truth, 0.4, n_sums, curved, 10.0)
    at = noisy_sums[-1].point
    found = estimate_discrepancy(population, noisy_sums, curvatures, at, doubts)
    sizes, own = np.array(list(weighed)), doubted(doubts, population)
    expected = np.array(
        [dense(population, noisy_sums, curvatures, at, size, own)[2] for size in sizes]
    )
    expected += norm.logpdf(np.log(sizes), np.log(0.2), 0.7)
    assert len(sizes) > 5 and np.ptp(expected) > 0.5
    np.testing.assert_allclose(np.diff(list(weighed.values())), np.diff(expected), rtol=1e-7)
    assert found.size == sizes[np.argmax(expected)]


@pytest.mark.parametrize("size", [0.05, 0.2, 1.0])
def test_the_size_of_a_misfit_is_found(rng, size):
    population = a_population(rng, 2, 5)
    found = []
    for _ in range(20):
        truth = a_truth(rng, population, size)
        noisy_sums, curvatures = releases_of(rng, population, truth, size, 6, (2, 4), 1.0)
        found.append(
            estimate_discrepancy(population, noisy_sums, curvatures, noisy_sums[-1].point).size
        )
    assert 0.7 < np.median(found) / size < 1.4


@pytest.mark.parametrize("n_classes", [2, 3])
def test_without_releases_there_is_the_law_a_priori(rng, n_classes):
    population = a_population(rng, n_classes)
    n = length_of(population)
    found = estimate_discrepancy(population, [], [], np.zeros(n))
    assert not found.mean.any()
    assert 0.15 < found.size < 0.25
    squares, f = squares_of(population), population.change(rng.normal(size=(4, n)))
    # That of M, and of what changes on the way from 0.
    expected = 1.1 * found.size**2 / n * np.outer(np.sum(f**2 / squares, axis=1), squares)
    np.testing.assert_allclose(variances_of(found, f), expected, rtol=1e-9)


def test_a_direction_in_which_no_row_goes_does_no_harm(rng):
    population = a_population(rng, 2, 3)
    rows = population.rows * np.array([1.0, 1.0, 0.0])
    population = Population(population.family, rows, population.weights, population.size)
    noisy_sums = [NoisySum(population.change(u[None])[0] + 1.0, 1.0, u) for u in np.eye(3)]
    found = estimate_discrepancy(population, noisy_sums, [], np.ones(3))
    assert np.isfinite(found.mean).all()
    assert np.isfinite(variances_of(found, population.change(np.eye(3)))).all()


def misses(rng, told, curved=(1, 3), n_tables=150):
    """Mean squares of the errors in ``M`` and in scores, in units of what they are said to be.

    ``told`` times the noise is what learning is told of it.
    """
    of_matrix, of_scores = [], []
    for _ in range(n_tables):
        population = a_population(rng, 2, 3)
        truth = a_truth(rng, population, 0.2)
        released = releases_of(rng, population, truth, 0.2, 4, curved, 20.0)
        at = released[0][-1].point
        noisy_sums, curvatures = (
            [each._replace(noise=told * each.noise) for each in part] for part in released
        )
        found = estimate_discrepancy(population, noisy_sums, curvatures, at)
        error = found.mean - truth
        deviations = np.sqrt(found.shares @ (found.factor**2).T)
        of_matrix.append(np.mean((error / deviations) ** 2))
        f = population.change(at + rng.normal(size=(3, at.size)))
        of_scores.append(np.mean((f @ error.T) ** 2 / variances_of(found, f)))
    return np.mean(of_matrix), np.mean(of_scores)


@pytest.mark.parametrize("curved, most", [((), 1.1), ((1, 3), 1.3)])
def test_errors_are_as_large_as_they_are_said_to_be(rng, monkeypatch, curved, most):
    """For a size that is known; symmetric matrices say a little less than their entries would."""
    monkeypatch.setattr(module, "_SIZES", np.array([0.2]))
    of_matrix, of_scores = misses(rng, 1.0, curved)
    assert 0.9 < of_matrix < most
    assert 0.8 < of_scores < most


def test_and_nearly_so_for_a_size_that_is_the_likeliest(rng):
    of_matrix, of_scores = misses(rng, 1.0)
    assert 0.9 < of_matrix < 1.8
    assert 0.8 < of_scores < 1.5


def test_who_ignores_noise_is_wrong_about_errors(rng):
    """The tests above can fail."""
    _, of_scores = misses(rng, 0.05, n_tables=40)
    assert of_scores > 3.0


# Tables


def a_table(rng, n):
    """Rows that are not normal: a skew column, a rare dummy, and a product."""
    skew, dummy = rng.exponential(size=n) - 1.0, (rng.random(n) < 0.1).astype(float)
    rows = 0.3 * np.column_stack([skew, dummy, skew * rng.normal(size=n), rng.normal(size=n)])
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))


def squared_misses_of_tables(make_target, told=1.0, seeds=range(8)):
    """Errors of believed scores of tables, where draws are, in units of what they are said to be."""
    misses = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        rows = a_table(rng, 4000)
        labels = labels_of(rng, rows, 4.0 * rng.normal(size=4))
        target, bounds = make_target(rows, labels, prior_scale=4.0)
        plan, generator = a_plan(bounds, 4000, 1.0), np.random.default_rng(seed)
        _, found = posterior_of(plan, target, LogisticLikelihood, generator)
        found.noisy_sums = [
            noisy_sum._replace(noise=told * noisy_sum.noise) for noisy_sum in found.noisy_sums
        ]
        found.curvatures = [each._replace(noise=told * each.noise) for each in found.curvatures]
        given = found.density()
        u = given.start + rng.normal(size=(5, 4)) / np.sqrt(np.diag(given.information(given.start)))
        f = given.synthetic_design.change(u)
        believed = f + f @ given.score_discrepancy.mean.T
        transform, family = found.coordinates.transform, found.family
        own = reweighted(target, transform, found.coordinates.norm)
        for point, one, variance in zip(
            u, believed, variances_of(given.score_discrepancy, f), strict=True
        ):
            theta = (transform @ point)[None]
            score, _ = weighted_scores(own, family, theta, curvature=False)
            misses.append(np.mean((one - score[0] @ transform) ** 2 / variance))
    return np.mean(misses)


def test_scores_of_tables_are_as_far_off_as_they_are_said_to_be(make_target):
    assert 0.5 < squared_misses_of_tables(make_target) < 1.8


def test_which_would_be_larger_if_noise_were_ignored(make_target):
    assert squared_misses_of_tables(make_target, 0.05) > 3.0
