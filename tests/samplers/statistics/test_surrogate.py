"""What is believed given noisy sums: a density, and populations."""

import dataclasses
import math

import numpy as np
import pytest
from noise_aware_tables import a_plan, labels_of, uniform_table, unit_rows, variances_of
from scipy.special import expit, logsumexp, softmax
from scipy.stats import multivariate_normal, norm

from skdpbayes.models.families import classifier
from skdpbayes.models.sums import reweighted, slope_matrix, weighted_scores
from skdpbayes.samplers.statistics.design import Design, with_constant
from skdpbayes.samplers.statistics.hmc import draw
from skdpbayes.samplers.statistics.logistic import (
    LogisticDensity,
    LogisticLikelihood,
    ScoreDiscrepancy,
    estimate_discrepancy,
)
from skdpbayes.samplers.statistics.population import (
    Population,
    moment_matched_sample,
    normal_population,
)
from skdpbayes.samplers.statistics.prior import Group, Prior, growth_of
from skdpbayes.samplers.statistics.release import posterior_of
from skdpbayes.samplers.statistics.requests import NoisySum


def a_prior(rng, family, length):
    """The last coordinate has a known scale, the others one that is learnt."""
    parts = []
    for part in (slice(length - 1), slice(length - 1, None)):
        diagonal = np.zeros(length)
        diagonal[part] = rng.uniform(0.5, 2.0, size=diagonal[part].size)
        parts.append(np.kron(np.eye(family.n_blocks), np.diag(diagonal)))
    first, last = parts
    known = Group.known(last, family.n_blocks)
    if length == 1:
        return Prior((known,))
    return Prior((Group.learnt(first, family.n_blocks * (length - 1)), known))


def a_density(rng, length, n_classes=2, has_rows=True):
    """What might be believed of a table of 400 records, whose coefficients are not at zero."""
    family = classifier(n_classes).identified
    size = family.n_blocks * length
    rows = rng.normal(size=(300, length)) + 0.3
    population = Population(family, rows, rng.uniform(0.5, 1.0, size=300), 400 / 300)
    if not has_rows:
        design = Design(rows.mean(axis=0), np.cov(rows.T).reshape(length, length))
        norm = math.sqrt(1.3 * length)
        population = normal_population(design, np.eye(length), family, norm, 400.0)
    centre = rng.normal(size=size) * 0.5
    f = population.change(centre[None])[0]
    noisy_sums = [
        NoisySum(f + rng.normal(size=size) * 15.0, 12.0, u) for u in (0.5 * centre, centre)
    ]
    curvature = population.curvature(centre)
    curvatures = [NoisySum(1.2 * curvature, 10.0, centre)]
    unknown = np.diag(np.linspace(0.8, 0.0, length))
    unknown[:2, :2] += 0.3
    prior = a_prior(rng, family, length)
    return LogisticDensity(
        family=family,
        synthetic_design=population,
        prior=prior,
        scales=rng.uniform(0.5, 2.0, size=len(prior.groups)),
        growth=growth_of(0.0, family.n_blocks, np.eye(length)),
        transform=np.eye(length),
        shift=np.empty(0),
        label_sum=f + rng.normal(size=size) * 15.0,
        noise=20.0,
        score_discrepancy=estimate_discrepancy(population, noisy_sums, curvatures, centre, unknown),
        origin=population.origin,
        slope=float(population.mean_variance(population.at(centre[None]))[0]),
        basis=np.linalg.qr(rng.normal(size=(size, size)))[0],
        sampling=rng.uniform(20.0, 60.0, size=size),
        start=centre,
    )


def log_likelihood(given, u):
    """The model at the top of ``logistic.py``, written once more, at one point."""
    population, family, score_discrepancy = (
        given.synthetic_design,
        given.synthetic_design.family,
        given.score_discrepancy,
    )
    contrasts = family.contrasts
    logits = population.rows @ u.reshape(family.n_blocks, -1).T
    p = softmax(logits @ contrasts.T, axis=1)
    apart = p - 1.0 / p.shape[1]
    f = population.size * contrasts.T @ (population.weights[:, None] * apart).T @ population.rows
    f = f.ravel()
    slopes = [np.trace(contrasts.T @ (np.diag(q) - np.outer(q, q)) @ contrasts) for q in p]
    r = np.mean(np.array(slopes) * population.weights) / family.n_blocks / given.slope
    unknown = np.diag(variances_of(score_discrepancy, f[None])[0])
    covariance = np.diag(given.basis.T @ unknown @ given.basis)
    covariance = covariance + given.noise**2 + r * given.sampling
    residual = given.basis.T @ (given.label_sum - f - score_discrepancy.mean @ f)
    return multivariate_normal.logpdf(residual, cov=np.diag(covariance))


def log_prior(prior, u):
    """A mixture of normal laws over the scales of the first group, times the law of the second."""
    learnt, known = prior.groups
    total = -0.5 * u @ known.precision @ u
    square = u @ learnt.precision @ u
    return total + logsumexp(
        [
            norm.logpdf((log - math.log(1.2)) / (0.7 if log < math.log(1.2) else 1.4))
            - learnt.rank * log
            - 0.5 * square / math.exp(log) ** 2
            for log in learnt.logs
        ]
    )


@pytest.mark.parametrize("length, n_classes", [(3, 2), (2, 3), (2, 4)])
def test_the_law_is_the_one_that_is_written_down(rng, length, n_classes):
    given = a_density(rng, length, n_classes)
    points = given.start + rng.normal(size=(6, given.start.size)) * 2.0
    likelihood = np.array([log_likelihood(given, u) for u in points])
    of_prior = np.array([log_prior(given.prior, u) for u in points])
    precision = given.prior.precision(given.scales)
    at_scales = np.array([-0.5 * u @ precision @ u for u in points])
    energy = given.negative_log_likelihood(points)[0]
    for found, expected in (
        (energy, likelihood),
        (energy + given.prior.energy(points), likelihood + of_prior),
        (given.potential(points)[0], likelihood + at_scales),
    ):
        np.testing.assert_allclose(np.diff(-found), np.diff(expected), rtol=1e-8)


@pytest.mark.parametrize("kind", ["negative_log_likelihood", "potential"])
@pytest.mark.parametrize(
    "length, n_classes, has_rows",
    [(1, 2, True), (3, 2, True), (2, 3, True), (2, 4, True), (1, 2, False), (3, 2, False)],
)
def test_the_force_is_the_gradient(rng, length, n_classes, has_rows, kind):
    given, step = a_density(rng, length, n_classes, has_rows), 1e-5
    energy = getattr(given, kind)
    for point in given.start + rng.normal(size=(3, given.start.size)):
        gradient = energy(point[None])[1][0]
        moves = np.eye(point.size) * step
        ahead, behind = energy(point + moves)[0], energy(point - moves)[0]
        np.testing.assert_allclose(gradient, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("length, n_classes, has_rows", [(3, 2, True), (2, 3, True), (3, 2, False)])
def test_information_is_the_curvature_of_an_expected_residual(rng, length, n_classes, has_rows):
    """``J^T V^-1 J + P``, the Jacobian by differences."""
    given, step = a_density(rng, length, n_classes, has_rows), 1e-5
    u = given.start
    f = given.synthetic_design.change(
        np.vstack([u, u + step * np.eye(u.size), u - step * np.eye(u.size)])
    )
    expected = f + f @ given.score_discrepancy.mean.T
    jacobian = (expected[1 : u.size + 1] - expected[u.size + 1 :]).T / (2.0 * step)
    fading = given.synthetic_design.mean_variance(given.synthetic_design.at(u[None]))[0]
    of_matrix = variances_of(given.score_discrepancy, f[:1])[0]
    variances = given.noise**2 + fading / given.slope * given.sampling
    precision = np.diag(1.0 / (variances + (given.basis**2).T @ of_matrix))
    precision = given.basis @ precision @ given.basis.T
    wanted = jacobian.T @ precision @ jacobian + given.prior.precision(given.scales)
    np.testing.assert_allclose(given.information(u), wanted, rtol=1e-6, atol=1e-8)


def test_many_points_at_once_are_what_they_are_alone(rng):
    """Several classes are computed some points at a time."""
    given = a_density(rng, 2, 4)
    points = given.start + rng.normal(size=(50, given.start.size))
    assert given.synthetic_design.n_logits * len(points) > 2**15
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


def test_without_noise_to_speak_of_draws_follow_the_linear_posterior(rng):
    """A score that is known, noise that hides nothing: normal, with the precision F + P."""
    given = a_density(rng, 3)
    many = dataclasses.replace(given.synthetic_design, size=1e4)
    zero = np.zeros(3)
    sampling, basis = np.linalg.eigh(many.curvature(zero))
    nothing = np.zeros((3, 3))
    known = ScoreDiscrepancy(
        mean=nothing,
        factor=np.eye(3),
        shares=np.full((3, 3), 1e-18),
        uncertain=np.zeros(0, dtype=int),
        pulls=nothing[:0],
        size=1e-9,
        squares=np.ones(3),
        centre=np.zeros(3),
    )
    given = dataclasses.replace(
        given,
        synthetic_design=many,
        label_sum=zero,
        noise=1e-3,
        score_discrepancy=known,
        origin=many.origin,
        slope=float(many.mean_variance(many.at(zero[None]))[0]),
        basis=basis,
        sampling=sampling,
        start=zero,
    )
    draws = draw(given, 5000, 1)[0] @ basis
    expected = 1.0 / np.sqrt(sampling)
    np.testing.assert_allclose(draws.std(axis=0), expected, rtol=0.06)
    assert (np.abs(draws.mean(axis=0)) < 0.06 * expected).all()


# Populations


@pytest.mark.parametrize("n_classes", [2, 3])
def test_derivatives_of_a_population_are_derivatives(rng, n_classes):
    family, length, step = classifier(n_classes).identified, 4, 1e-5
    population = Population(family, rng.normal(size=(500, length)), rng.uniform(size=500), 3.0)
    u = rng.normal(size=family.n_blocks * length)
    predicted = population.at(u[None])
    curvature = population.curvature(u)
    expected = slope_matrix(family, predicted[0], population.weights, population.rows)
    np.testing.assert_allclose(curvature, 3.0 * expected, rtol=1e-12)
    moves = np.vstack([u + step * np.eye(u.size), u - step * np.eye(u.size)])
    ahead, behind = np.split(population.change(moves), 2)
    np.testing.assert_allclose((ahead - behind) / (2 * step), curvature, rtol=1e-6, atol=1e-4)
    columns = population.slope_times(
        np.broadcast_to(predicted, (u.size, *predicted.shape[1:])), np.eye(u.size)
    )
    np.testing.assert_allclose(columns, curvature, rtol=1e-9, atol=1e-9)
    ahead, behind = np.split(population.mean_variance(population.at(moves)), 2)
    found = population.vjp(predicted, np.zeros((1, u.size)), np.ones(1))[0]
    np.testing.assert_allclose(found, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-8)
    assert not population.change(np.zeros((1, u.size))).any()


def test_a_population_has_the_moments_that_it_is_for(rng):
    root = rng.normal(size=(3, 3))
    design = with_constant(Design(rng.normal(size=3), root @ root.T), 0.7)
    transform = rng.normal(size=(4, 4))
    made = moment_matched_sample(design, transform, classifier(3).identified, 3.0, 5000, 1000)
    assert made.size * len(made.rows) == pytest.approx(5000)
    np.testing.assert_allclose(made.rows.mean(axis=0), design.mean @ transform, atol=1e-9)
    found = made.rows.T @ made.rows / len(made.rows)
    np.testing.assert_allclose(found, transform.T @ design.second_moment @ transform, atol=1e-8)
    np.testing.assert_allclose(made.mean_squares, np.diag(found), rtol=1e-9)
    np.testing.assert_allclose(made.rows @ np.linalg.inv(transform)[:, -1], 0.7, atol=1e-8)
    lengths = np.linalg.norm(made.rows, axis=1)
    np.testing.assert_allclose(made.weights, np.minimum(1.0, 9.0 / lengths**2))


# What releases amount to


@pytest.mark.parametrize("n_classes", [2, 3])
def test_with_a_large_budget_a_surrogate_knows_the_table(rng, make_target, n_classes):
    """Scores and curvatures of its rows, which are not normal, where draws are."""
    n = 3000
    rows = unit_rows(rng, n, 3) * np.array([1.0, 0.5, 1.0]) + 0.0
    rows[:, 1] = np.abs(rows[:, 1])
    labels = labels_of(rng, rows, np.array([2.0, -1.0, 0.5]))
    labels[: n_classes - 1] = np.arange(1, n_classes)
    if n_classes > 2:
        labels[rng.random(n) < 0.3] = 2
    target, bounds = make_target(rows, labels, n_classes=n_classes)
    plan = a_plan(bounds, n, 1e4)
    _, found = posterior_of(plan, target, LogisticLikelihood, np.random.default_rng(0))
    given, transform, family = found.density(), found.coordinates.transform, found.family
    u, own = found.noisy_sums[-1].point, reweighted(target, transform, found.coordinates.norm)
    theta = u.reshape(family.n_blocks, -1) @ transform.T
    score, matrix = weighted_scores(own, family, theta, transform)
    f = given.synthetic_design.change(u[None])
    believed = (f + f @ given.score_discrepancy.mean.T)[0]
    score = (score @ transform).ravel()
    np.testing.assert_allclose(believed, score, atol=0.02 * np.linalg.norm(score))
    believed = (given.basis * given.sampling) @ given.basis.T
    np.testing.assert_allclose(believed, matrix, atol=0.05 * np.linalg.norm(matrix))
    population = given.synthetic_design.curvature(u)
    assert np.linalg.norm(believed - matrix) < 0.5 * np.linalg.norm(population - matrix)


@pytest.mark.parametrize("n_columns", [3, 8])
def test_nothing_is_made_up_where_nothing_is_hidden(make_target, n_columns):
    """With ever larger budgets the variance of a residual becomes that of sampling, and stays so.

    A curvature and scores that do not agree to the last digit are no sign of a large misfit.
    """
    for epsilon in (30.0, 1e3, 1e5):
        rows, labels, _ = uniform_table(0, 5000, n_columns, 1.0)
        rows /= math.sqrt(n_columns)
        target, bounds = make_target(np.ascontiguousarray(rows), labels)
        plan = a_plan(bounds, 5000, epsilon)
        _, found = posterior_of(plan, target, LogisticLikelihood, np.random.default_rng(0))
        given = found.density()
        inverse = np.linalg.inv(given.information(given.start))
        u = np.random.default_rng(0).multivariate_normal(given.start, inverse, size=50)
        unknown = (
            variances_of(given.score_discrepancy, given.synthetic_design.change(u)) @ given.basis**2
        )
        assert (unknown.mean(axis=0) < 0.1 * given.sampling).all()
