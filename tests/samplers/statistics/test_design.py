"""What a released second moment says of correlations: a few large ones, and no direction without variance."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from skdpbayes.models import LinearModel, Logistic
from skdpbayes.samplers.statistics import design
from skdpbayes.samplers.statistics.design import _correlations, _mixture, _shrunk, estimate_design


def with_noise(matrix, noise, rng):
    """A symmetric matrix with noise, on the diagonal of the deviation ``noise``."""
    errors = noise * rng.normal(size=matrix.shape)
    return matrix + (errors + errors.T) / 2.0


def groups_of_columns(rng, n=20_000):
    """Correlations of one-hot columns, many of them rare, and of some numbers, and deviations."""
    blocks = [np.eye(m)[rng.choice(m, n, p=rng.dirichlet(np.ones(m)))] for m in (4, 8, 12, 20)]
    table = np.hstack([*blocks, 0.5 * rng.normal(size=(n, 3))])
    return np.corrcoef(table.T), table.std(axis=0)


def numbers_in_a_row(rng):
    """Correlations of columns that are like their neighbours, and deviations."""
    return 0.9 ** np.abs(np.subtract.outer(np.arange(40), np.arange(40))), np.full(40, 0.3)


def test_mixture_posterior_means_are_under_learnt_weights(rng):
    variances, weights, noise = np.array([0.01, 1.0]), np.array([0.9, 0.1]), 0.05
    truth = np.sqrt(variances[rng.choice(2, 5000, p=weights)]) * rng.normal(size=5000)
    r = truth + np.sqrt(noise) * rng.normal(size=5000)
    prior = np.broadcast_to(variances[:, None], (2, 5000))
    evidence, means, doubts = _mixture(r, prior, np.full(5000, noise))
    axis = np.linspace(-6.0, 6.0, 4001)
    law = norm.pdf(axis[:, None], 0.0, np.sqrt(variances)) @ weights
    joint = law * norm.pdf(r[:200, None], axis, np.sqrt(noise))
    joint /= joint.sum(axis=1, keepdims=True)
    expected = joint @ axis
    np.testing.assert_allclose(means[:200], expected, atol=0.03)
    np.testing.assert_allclose(doubts[:200], joint @ axis**2 - expected**2, atol=0.02)
    assert np.mean((means - truth) ** 2) == pytest.approx(doubts.mean(), rel=0.1)
    # Another law of the same numbers is less likely.
    assert _mixture(r, prior[:1], np.full(5000, noise))[0] < evidence - 100.0


def test_correlations_of_rare_columns_are_known_to_be_small(rng):
    """Under one law for all, rare columns would be believed to have correlations like the others."""
    deviations = np.where(np.arange(60) < 20, 0.3, 0.03)
    units = np.outer(deviations, deviations)
    truth = np.eye(60) + with_noise(np.zeros((60, 60)), 0.4, rng) * units / units.max()
    np.fill_diagonal(truth, 1.0)
    noise = 3e-3
    mean, _ = _correlations(with_noise(truth * units, noise, rng), units, noise**2 / 2.0)
    rare = mean[20:, 20:] - np.eye(40)
    assert np.sqrt(np.mean(rare**2)) < 0.01
    assert np.corrcoef(mean[:20, :20].ravel(), truth[:20, :20].ravel())[0, 1] > 0.9


def test_a_few_large_correlations_are_not_shrunk_like_the_others(rng):
    truth = np.eye(60)
    truth[0, 1] = truth[1, 0] = 0.8
    units = np.full((60, 60), 0.25)
    seen = with_noise(0.25 * truth, 0.05, rng)
    half = 0.05**2 / 2.0
    mean, doubt = _correlations(seen, units, half)
    error = 0.05 / np.sqrt(2.0) / 0.25  # Of a correlation that is not shrunk.
    assert abs(mean[0, 1] - 0.8) < 3.0 * error and doubt[0, 1] == pytest.approx(error**2, rel=0.2)
    others = mean[np.triu_indices(60, 1)][1:]
    assert np.sqrt(np.mean(others**2)) < 0.1 * error
    np.testing.assert_array_equal(mean, mean.T)


@pytest.mark.parametrize("noise", [1e-3, 5e-3])
@pytest.mark.parametrize(
    "kind, least, most", [(numbers_in_a_row, 0.9, 1.15), (groups_of_columns, 0.7, 1.5)]
)
def test_doubts_are_the_errors_of_correlations(rng, kind, least, most, noise):
    """On average. Correlations within a group follow no mixture of normal laws, and have larger ones."""
    ratios = []
    for _ in range(5):
        truth, deviations = kind(rng)
        units = np.outer(deviations, deviations)
        mean, doubt = _correlations(with_noise(truth * units, noise, rng), units, noise**2 / 2.0)
        pairs = np.triu_indices(len(truth), 1)
        ratios.append(np.mean((mean - truth)[pairs] ** 2) / doubt[pairs].mean())
    assert least < np.mean(ratios) < most


@pytest.mark.parametrize("noise", [3e-3, 1e-2])
def test_directions_that_noise_has_made_small_keep_some_of_their_variance(rng, noise):
    found, truths, cut = [], [], []
    for _ in range(5):
        truth, deviations = numbers_in_a_row(rng)
        units = np.outer(deviations, deviations)
        seen = with_noise(truth * units, noise, rng)
        values, vectors = np.linalg.eigh(_shrunk(seen, noise, deviations**2)[0] / units)
        found.append(values[:8].sum())
        truths.append(np.sum(vectors[:, :8] * (truth @ vectors[:, :8])))
        mean, _ = _correlations(seen, units, noise**2 / 2.0)
        cut.append(np.maximum(np.linalg.eigvalsh(mean)[:8], design._LEAST_EIGENVALUE).sum())
    assert 0.12 < np.sum(found) / np.sum(truths) < 1.0
    # Eigenvalues as they are, cut where they are negative, are far from it.
    assert np.sum(cut) < 0.03 * np.sum(truths)


def test_without_noise_a_covariance_stays(rng):
    truth, deviations = numbers_in_a_row(rng)
    truth = truth * np.outer(deviations, deviations)
    covariance, doubt = _shrunk(truth, 1e-9, deviations**2)
    off = ~np.eye(len(truth), dtype=bool)
    np.testing.assert_allclose(covariance[off], truth[off], atol=1e-6)
    assert np.all(doubt < 1e-12)


def test_one_column_has_no_correlation():
    covariance, doubt = _shrunk(np.array([[0.3]]), 0.01, np.array([0.3]))
    assert covariance == pytest.approx(0.3) and doubt == 0.0


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
    design = estimate_design(released, 1e-3, 0.5, 5.0, 10_000)
    np.testing.assert_allclose(design.mean, mean, atol=1e-5)
    off = ~np.eye(len(mean), dtype=bool)
    np.testing.assert_allclose(design.covariance[off], covariance[off], atol=1e-5)
    # Variances are means over a grid.
    np.testing.assert_allclose(np.diag(design.covariance), np.diag(covariance), rtol=0.015)
    second = design.covariance + np.outer(design.mean, design.mean)
    np.testing.assert_array_equal(design.second_moment, second)


def test_a_design_is_nearer_to_the_truth_than_what_was_released(rng):
    errors, naive = [], []
    for _ in range(50):
        released, _, covariance = a_moment(rng, 1000, 150.0)
        design = estimate_design(released, 150.0, 0.5, 5.0, 1000)
        errors.append(np.sum((design.covariance - covariance) ** 2))
        mean = released[-1, :-1] / 500
        naive.append(np.sum((released[:-1, :-1] / 1000 - np.outer(mean, mean) - covariance) ** 2))
        assert np.linalg.eigvalsh(design.covariance)[0] > 0
    assert np.mean(errors) < 0.6 * np.mean(naive)


def bounds_of(intercept):
    """Those of labels by six columns."""
    constant = 0.75 if intercept else 0.0
    return LinearModel(family=Logistic(), n_features=6, norm=1.5, constant=constant).bounds()


def a_design(rng, constant):
    """Six correlated columns, and a constant."""
    factor = rng.normal(size=(6, 6)) / 10.0
    plain = design.Design(rng.uniform(-0.3, 0.3, 6), factor @ factor.T + 0.01 * np.eye(6))
    return design.with_constant(plain, constant)


@pytest.mark.parametrize("noise", [1e-6, 1e3])
def test_coordinates_are_centred_and_have_a_constant(rng, noise):
    """Whatever noise hides of columns, all rows have 1 there, and others have a mean of 0."""
    found = a_design(rng, 0.75)
    coordinates = design.centred_coordinates(found, noise, bounds_of(True), 1000, 1.3)
    rows = rng.multivariate_normal(found.mean[:-1], found.covariance[:-1, :-1], 200)
    z = np.c_[rows, np.full(200, 0.75)] @ coordinates.transform
    np.testing.assert_allclose(z[:, -1], 1.0)
    np.testing.assert_allclose((found.mean @ coordinates.transform)[:-1], 0.0, atol=1e-12)
    moment = coordinates.transform.T @ found.second_moment @ coordinates.transform
    np.testing.assert_allclose(moment, np.diag(np.diag(moment)), atol=1e-9)
    assert coordinates.norm**2 == pytest.approx(1.3 * np.trace(moment))
    assert np.diag(moment)[:-1].max() <= 1.0 + 1e-9
    # Without noise rows vary alike, and with much hardly at all.
    assert np.diag(moment)[0] > 0.5 if noise < 1.0 else np.diag(moment)[:-1].max() < 0.1


def test_coordinates_without_an_intercept_are_those_of_second_moments(rng):
    found = a_design(rng, 0.75)
    found = design.Design(found.mean[:-1], found.covariance[:-1, :-1])
    arguments = found, 0.1, bounds_of(False), 1000, 1.3
    centred, other = design.centred_coordinates(*arguments), design.coordinates_for(*arguments)
    np.testing.assert_array_equal(centred.transform, other.transform)
    assert centred.norm == other.norm


@pytest.mark.parametrize(("constant", "is_centred"), [(0.75, True), (1e-6, True), (1e-15, False)])
def test_rounding_stays_where_proposition_37_has_it(rng, constant, is_centred):
    """A row of the transform is divided by the constant."""
    bounds = bounds_of(True)
    arguments = a_design(rng, constant), 0.1, bounds, 1000, 1.3
    coordinates, other = design.centred_coordinates(*arguments), design.coordinates_for(*arguments)
    assert np.array_equal(coordinates.transform, other.transform) != is_centred
    growth = np.linalg.norm(coordinates.transform) * bounds.row_norm / coordinates.norm
    assert 3.0 * (7 + 2) * 2.0**-53 * growth <= 1e-2


def test_a_column_that_noise_hides_is_correlated_with_few_others(rng):
    """What is unknown of all its covariances together is no more in a wide table than in a narrow one."""
    n, unknown = 20_000, {}
    for d in (4, 60):
        rows = 0.02 * rng.normal(size=(n, d))
        rows[:, 0] = rng.uniform(-1.0, 1.0, n)
        z, noise = np.column_stack([rows, np.ones(n)]), 0.02 * n
        errors = np.triu(rng.normal(size=(d + 1, d + 1)))
        errors = (errors + np.triu(errors, 1).T) / np.sqrt(2.0 - np.eye(d + 1))
        design = estimate_design(z.T @ z + noise * errors, noise, 1.0, np.sqrt(d), n)
        assert (np.diag(design.hidden) == 0.0).all()
        unknown[d] = np.median(design.hidden.sum(axis=1))
    assert 0.5 < unknown[60] / unknown[4] < 2.0
