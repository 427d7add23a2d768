"""Prior scales, known or learnt."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import gamma, multivariate_normal, norm

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.models import LinearModel, Logistic, Softmax, TargetBounds
from skdpbayes.samplers.statistics import prior as module
from skdpbayes.samplers.statistics.design import Design, Numbers
from skdpbayes.samplers.statistics.prior import (
    Group,
    Prior,
    SplitLogNormal,
    prior_of,
    unusual_columns,
)


def a_precision(rng, n):
    root = rng.normal(size=(n, n))
    return root @ root.T + np.eye(n)


def a_prior(rng, n=5):
    """A group that is learnt, of the first three coordinates, and one that is known, of the others."""
    learnt, known = np.zeros((2, n, n))
    learnt[:3, :3], known[3:, 3:] = a_precision(rng, 3), a_precision(rng, n - 3)
    return Prior((Group.learnt(learnt, 3), Group.known(known, n - 3)))


# What is believed


WIDE, NARROW = SplitLogNormal(1.2, 0.7, 1.4), SplitLogNormal(2.0, 0.7, 0.8)


def log_law(log, law=WIDE):
    away = log - np.log(law.mode)
    return -0.5 * (away / (law.below if away < 0.0 else law.above)) ** 2


@pytest.mark.parametrize("law", [WIDE, NARROW])
@pytest.mark.parametrize("n", [1, 3])
def test_a_scale_that_is_learnt_is_integrated_out(rng, n, law):
    """Against an integral over scales of the grid."""
    precision = a_precision(rng, n)
    group = Group.learnt(precision, n, law)
    covariance = np.linalg.inv(precision)
    direction = np.linalg.cholesky(covariance) @ rng.normal(size=n)
    points = np.array([0.3, 1.0, 3.0, 10.0])[:, None] * direction

    def density(u):
        def of_scale(log):
            known = multivariate_normal.pdf(u, cov=np.exp(2.0 * log) * covariance)
            return np.exp(log_law(log, law)) * known

        ends = group.logs[[0, -1]] + np.array([-0.5, 0.5]) * np.diff(group.logs[:2])
        return quad(of_scale, *ends, limit=200, epsabs=0.0)[0]

    expected = -np.log([density(u) for u in points])
    found = Prior((group,)).energy(points)
    np.testing.assert_allclose(np.diff(found), np.diff(expected), atol=0.02)


def test_it_has_the_gradient_that_it_says(rng):
    """Given scales; and, on average over scales given a point, where they are integrated out."""
    prior, step = a_prior(rng), 1e-5
    points = rng.normal(size=(4, 5)) * np.array([[0.1], [1.0], [5.0], [20.0]])
    scales = rng.uniform(0.5, 2.0, size=(4, 2))
    given = prior.energy_given(points, scales)[1]
    many = np.repeat(points, 10_000, axis=0)
    whole = prior.energy_given(many, prior.scales_given(many, rng))[1].reshape(4, 10_000, 5)
    error = 5.0 * whole.std(axis=1) / 10_000**0.5 + 1e-6 * np.abs(whole.mean(axis=1))
    for j, unit in enumerate(step * np.eye(5)):
        ahead, behind = (prior.energy_given(points + s * unit, scales)[0] for s in (1, -1))
        np.testing.assert_allclose(given[:, j], (ahead - behind) / (2 * step), rtol=1e-6)
        change = (prior.energy(points + unit) - prior.energy(points - unit)) / (2 * step)
        assert np.all(np.abs(whole[:, :, j].mean(axis=1) - change) < error[:, j])


def test_a_scale_that_is_known_makes_it_normal(rng):
    precision = a_precision(rng, 4)
    group = Group.known(precision, 4)
    points = rng.normal(size=(5, 4)) * 3.0
    energy = Prior((group,)).energy(points)
    given, gradient = Prior((group,)).energy_given(points, np.ones(1))
    expected = multivariate_normal.logpdf(points, cov=np.linalg.inv(precision))
    for each in (energy, given):
        np.testing.assert_allclose(np.diff(-each), np.diff(expected), rtol=1e-10)
    np.testing.assert_allclose(gradient, points @ precision, rtol=1e-12)
    np.testing.assert_array_equal(Prior((group,)).likeliest(100.0 * points[0], np.eye(4)), 1.0)


@pytest.mark.filterwarnings("error")
def test_points_may_be_anywhere(rng):
    prior, points = a_prior(rng), np.array([[0.0], [1e-150], [1e100], [1e150]]) * np.ones(5)
    energy, scales = prior.energy(points), prior.scales_given(points, rng)
    _, gradient = prior.energy_given(points, scales)
    assert np.isfinite(energy).all() and np.isfinite(gradient).all()
    assert (np.diff(energy) >= 0.0).all()


# What is learnt


@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0])
def test_the_scale_of_a_vector_is_found(rng, scale):
    n = 60
    precision = a_precision(rng, n)
    root = np.linalg.inv(np.linalg.cholesky(precision))
    group = Group.learnt(precision, n)
    found = [
        Prior((group,)).likeliest(scale * rng.normal(size=n) @ root, np.zeros((n, n)))
        for _ in range(50)
    ]
    assert np.mean(found) == pytest.approx(scale, rel=0.05)
    assert 0.5 < np.std(found) / (scale / np.sqrt(2.0 * n)) < 1.6


@pytest.mark.parametrize("scale, most", [(0.2, 6.0), (1.0, 1.5), (5.0, 1.5)])
def test_the_scale_of_a_vector_that_is_seen_through_noise_is_found(rng, scale, most):
    """By rounds of expectation and maximisation, which end where the density of what was seen is largest."""
    n = 30
    precision = a_precision(rng, n)
    covariance = np.linalg.inv(precision)
    noise = 0.3 * np.mean(np.diag(covariance))
    group, found = Group.learnt(precision, n), []
    for _ in range(10):
        seen = rng.multivariate_normal(np.zeros(n), scale**2 * covariance + noise * np.eye(n))
        tau, last = 1.0, 0.0
        while tau != last:
            known = np.linalg.inv(np.eye(n) / noise + precision / tau**2)
            tau, last = Prior((group,)).likeliest(known @ seen / noise, known), tau
        laws = [
            multivariate_normal.logpdf(seen, cov=np.exp(2.0 * log) * covariance + noise * np.eye(n))
            + log_law(log)
            for log in group.logs
        ]
        found.append(abs(np.log(tau) - group.logs[np.argmax(laws)]))
    # On a grid they stop early where noise hides much.
    assert np.median(found) < most * (group.logs[1] - group.logs[0])


@pytest.mark.parametrize("law", [WIDE, NARROW])
def test_a_vector_of_zeros_has_a_small_scale_but_no_end_of_the_grid(law):
    """``-log tau - log(tau / m)^2 / 0.98`` is largest at ``m e^-0.49``; without a law of scales nowhere."""
    group = Group.learnt(np.eye(1), 1, law)
    assert Prior((group,)).likeliest(np.zeros(1), np.zeros((1, 1))) == pytest.approx(
        law.mode * np.exp(-0.49), rel=0.1
    )


def test_the_usual_scales_are_the_modes(rng):
    prior = Prior((Group.learnt(np.eye(2), 2), Group.learnt(np.eye(2), 1, NARROW)))
    np.testing.assert_allclose(prior.prior_mode, [1.2, 2.0], rtol=0.1)
    prior = Prior((Group.known(np.eye(2), 2),))
    np.testing.assert_array_equal(prior.prior_mode, 1.0)
    assert not prior.is_learnt and a_prior(rng).is_learnt


def test_precisions_add_up(rng):
    prior = a_prior(rng)
    learnt, known = prior.groups
    expected = learnt.precision / 9.0 + known.precision / 4.0
    np.testing.assert_allclose(prior.precision(np.array([3.0, 2.0])), expected)
    u = rng.normal(size=5)
    found = prior.likeliest(u, np.zeros((5, 5)))
    assert found[0] == Prior((learnt,)).likeliest(u, np.zeros((5, 5)))[0]
    assert found[1] == 1.0


# Whose scales


@pytest.mark.parametrize("n_blocks", [1, 2])
def test_an_intercept_has_a_scale_of_its_own(rng, n_blocks):
    transform, precisions = rng.normal(size=(4, 4)), np.array([2.0, 2.0, 2.0, 0.3])
    bounds = TargetBounds(
        4 * n_blocks, 1.0, 0.25, (0.3, 2.0), constant=0.5, learns_scales=(True, True)
    )
    coefficients, intercept = prior_of(bounds, n_blocks, precisions, transform).groups
    u = rng.normal(size=(n_blocks, 4))
    theta = u @ transform.T
    for group, part, rank in ((coefficients, slice(3), 3), (intercept, slice(3, 4), 1)):
        assert group.rank == n_blocks * rank
        square = u.ravel() @ group.precision @ u.ravel()
        assert square == pytest.approx(np.sum(precisions[part] * theta[:, part] ** 2))
    modes = [np.exp(group.logs[np.argmax(group.weights)]) for group in (coefficients, intercept)]
    np.testing.assert_allclose(modes, [1.2, 2.0], rtol=0.1)


@pytest.mark.parametrize("learns_scales", [(True, False), (False, True), (False, False)])
def test_scales_that_are_given_are_known(rng, learns_scales):
    bounds = TargetBounds(4, 1.0, 0.25, (1.0, 1.0), constant=0.5, learns_scales=learns_scales)
    prior = prior_of(bounds, 1, np.ones(4), rng.normal(size=(4, 4)))
    assert tuple(group.logs.size > 1 for group in prior.groups) == learns_scales
    assert prior.is_learnt == any(learns_scales)


def test_without_an_intercept_there_is_one_scale(rng):
    bounds = TargetBounds(4, 1.0, 0.25, (1.0, 1.0), learns_scales=(True, True))
    transform = rng.normal(size=(4, 4))
    (group,) = prior_of(bounds, 1, np.ones(4), transform).groups
    assert group.rank == 4
    np.testing.assert_allclose(group.precision, transform.T @ transform)


@pytest.mark.parametrize("family", [Logistic(), Softmax(3)])
@pytest.mark.parametrize(
    "given, learns_scales",
    [
        ({}, (True, True)),
        ({"prior_scale": 2.5}, (False, True)),
        ({"intercept_prior_scale": 1.25}, (True, False)),
        ({"prior_scale": 2.5, "intercept_prior_scale": 1.25}, (False, False)),
    ],
)
def test_defaults_are_learnt_and_what_a_user_says_is_kept(family, given, learns_scales):
    """Even if a user says what the default is."""
    model = LinearModel(family=family, n_features=3, norm=1.0, **given)
    assert model.bounds().learns_scales == learns_scales
    plan = DPBayesianLogisticRegression(1.0, data_norm=1.0, **given).privacy_plan(1000, 3)
    assert plan.bounds.learns_scales == learns_scales


def draws_of_nothing(**options):
    """Draws given releases of which noise hides everything."""
    rng = np.random.default_rng(0)
    rows, labels = rng.uniform(-0.5, 0.5, size=(40, 3)), np.arange(40) % 2
    clf = DPBayesianLogisticRegression(
        1e-3, 1e-6, sampler="noise_aware", data_norm=1.0, n_draws=20_000, random_state=0, **options
    )
    return clf.fit(rows, labels).posterior_samples_[:, 0]


@pytest.mark.parametrize("given, mode", [(None, 2.0), (0.125, 20.0), (5.0, 2.0)])
def test_an_intercept_may_be_large_whatever_scale_coefficients_have(given, mode):
    """Its law is around twice the default, 1.25, or what is given if that is larger."""
    model = LinearModel(family=Logistic(), n_features=3, norm=1.0, prior_scale=given)
    precisions = model.prior_precision[:4]
    intercept = prior_of(model.bounds(), 1, precisions, np.eye(4)).groups[1]
    found = np.exp(intercept.logs[np.argmax(intercept.weights)])
    assert found == pytest.approx(mode, rel=0.1)


@pytest.mark.parametrize("prior_scale", [0.3, 8.0])
def test_without_information_draws_have_the_deviation_that_a_user_said(prior_scale):
    deviations = draws_of_nothing(prior_scale=prior_scale)[:, :3].std(axis=0)
    np.testing.assert_allclose(deviations, prior_scale, rtol=0.08)


def test_without_information_an_intercept_has_its_own():
    draws = draws_of_nothing(prior_scale=0.3, intercept_prior_scale=3.0)
    np.testing.assert_allclose(draws.std(axis=0), [0.3, 0.3, 0.3, 3.0], rtol=0.08)


def test_without_information_draws_have_the_law_of_an_unknown_scale(monkeypatch):
    """Products of normal numbers, and of one scale with a law of two halves around 1.2."""
    monkeypatch.setattr(module, "_PER_DEVIATION", 0.0)
    draws = draws_of_nothing(intercept_prior_scale=1.25) / 2.5
    rng = np.random.default_rng(1)
    logs = np.abs(rng.normal(size=200_000))
    logs *= np.where(rng.random(200_000) < 0.7 / 2.1, -0.7, 1.4)
    logs += np.log(1.2)
    scales = np.exp(logs[(logs > -2.77) & (logs < 3.47)])[:, None]
    expected = rng.normal(size=(len(scales), 3)) * scales
    for share in (0.05, 0.25, 0.75, 0.95):
        found = np.quantile(draws[:, :3], share)
        assert found == pytest.approx(np.quantile(expected, share), rel=0.25)
    lengths, wanted = (np.linalg.norm(each[:, :3], axis=1) for each in (draws, expected))
    for share in (0.1, 0.5, 0.9):
        assert np.quantile(lengths, share) == pytest.approx(np.quantile(wanted, share), rel=0.35)


# Columns that vary by another amount than is usual

# The second hardly varies, the fourth far more than others.
VARIANCES = np.array([0.1, 0.002, 0.12, 0.6, 0.1])


def numbers_of(deviation=0.01, variances=VARIANCES, probability=1.0):
    """Columns whose variances are known up to a deviation, relative to them or to 0.1."""
    unknown = (deviation * np.maximum(variances, 0.1)) ** 2
    return Numbers(np.full(variances.size, probability), variances, unknown, 0.1)


def a_design(numbers):
    """The same, and a constant."""
    n = numbers.variances.size
    covariance = np.diag(np.append(numbers.variances, 0.0))
    mean = np.append(np.full(n, 0.4), 0.5)
    return Design(mean, covariance, numbers=numbers)


def prior_of_columns(rng, n_blocks=2, numbers=None):
    """The prior of a table, in other coordinates, and these."""
    bounds = TargetBounds(4, 1.0, 0.25, (1.0, 1.0), constant=0.5, learns_scales=(True, True))
    transform, precisions = rng.normal(size=(6, 6)), np.full(6, 4.0)
    design = a_design(numbers_of() if numbers is None else numbers)
    return prior_of(bounds, n_blocks, precisions, transform, design), transform


def test_columns_that_vary_less_or_more_have_scales_of_their_own(rng):
    prior, _ = prior_of_columns(rng)
    np.testing.assert_array_equal(prior.columns.chosen, [1, 3])
    for variance, law in zip(VARIANCES[[1, 3]], np.exp(prior.columns.weights), strict=True):
        assert law.sum() == pytest.approx(1.0)
        # One for a deviation is three times as probable as one for a unit.
        assert law[5] == pytest.approx(0.25, abs=0.01)
        off = np.delete(law, 5) / (1.0 - law[5])
        mean = off @ np.delete(module._FACTOR_LOGS, 5)
        assert mean == pytest.approx(0.5 * np.log(0.1 / variance), abs=0.25)


def test_columns_that_vary_alike_have_none(rng):
    alike = numbers_of(0.1, np.full(5, 0.1))
    assert unusual_columns(alike)[0].size == 0
    assert prior_of_columns(rng, numbers=alike)[0].columns is None


def test_effects_of_columns_that_noise_hides_may_be_large(rng):
    """The law of a factor is that of the usual deviation over one that may be far less than is seen."""
    variances = np.append(VARIANCES[:4], 0.02)
    seen, hidden = (numbers_of(deviation, variances) for deviation in (0.02, 0.3))
    of_seen, of_hidden = (np.exp(unusual_columns(each)[1][-1]) for each in (seen, hidden))
    far = np.flatnonzero(np.exp(module._FACTOR_LOGS) > 5.0)
    assert of_seen[far].sum() < 0.01
    edge = module._FACTOR_LOGS[far[0]] - 0.5 * (module._FACTOR_LOGS[1] - module._FACTOR_LOGS[0])
    # A gamma law of mean .02 and deviation .03, but for a shape of .5 at least.
    smaller = gamma.cdf(hidden.usual * np.exp(-2.0 * edge), 0.5, scale=0.04)
    assert of_hidden[far].sum() == pytest.approx(0.75 * smaller, rel=1e-6) and smaller > 0.2


def test_what_may_be_an_indicator_keeps_the_scale_of_others(rng):
    """As far as it may be one: rare ones hardly vary, and have effects of one size for a unit."""
    for probability in (0.0, 0.5, 1.0):
        chosen, law = unusual_columns(numbers_of(probability=probability))
        assert (1 in chosen) == (probability > 0.0)
        if chosen.size:
            assert np.exp(law[0, 5]) == pytest.approx(1.0 - 0.75 * probability, abs=0.01)


@pytest.mark.parametrize("n_blocks", [1, 2])
def test_factors_and_scales_are_integrated_out(rng, n_blocks):
    """Against sums of normal densities over all of the grid."""
    prior, transform = prior_of_columns(rng, n_blocks)
    coefficients, intercept = prior.groups
    points = 0.3 * rng.normal(size=(4, 6 * n_blocks))
    theta = 2.0 * (points.reshape(4, n_blocks, 6) @ transform.T)

    def sums(values, log):
        return norm.logpdf(values, scale=np.exp(log)).sum(axis=1)

    expected = []
    for each in theta:
        of_scales = [
            weight
            + sums(each[:, [0, 2, 4]].T, log).sum()
            + sum(
                np.log(np.exp(law) @ np.exp(sums(each[:, j], log + module._FACTOR_LOGS[:, None])))
                for j, law in zip([1, 3], prior.columns.weights, strict=True)
            )
            for log, weight in zip(coefficients.logs, coefficients.weights, strict=True)
        ]
        of_intercept = [
            weight + sums(each[:, 5:].T, log).sum()
            for log, weight in zip(intercept.logs, intercept.weights, strict=True)
        ]
        expected.append(-logsumexp(of_scales) - logsumexp(of_intercept))
    np.testing.assert_allclose(np.diff(prior.energy(points)), np.diff(expected), rtol=1e-8)


def test_scales_of_columns_are_drawn_given_points(rng):
    """On average over them energies have the gradient of the one without scales."""
    prior, _ = prior_of_columns(rng)
    point, step = 0.3 * rng.normal(size=12), 1e-5
    many = np.repeat(point[None], 40_000, axis=0)
    scales = prior.scales_given(many, rng)
    assert scales.shape == (40_000, 4)
    gradients = prior.energy_given(many, scales)[1]
    error = 5.0 * gradients.std(axis=0) / 200.0
    for j, unit in enumerate(step * np.eye(12)):
        ahead, behind = prior.energy(np.array([point + unit, point - unit]))
        assert abs(gradients[:, j].mean() - (ahead - behind) / (2.0 * step)) < error[j]


def test_energies_given_scales_are_those_of_the_precision(rng):
    prior, _ = prior_of_columns(rng)
    points, scales = rng.normal(size=(3, 12)), rng.uniform(0.5, 2.0, size=4)
    energy, gradient = prior.energy_given(points, scales)
    precision = prior.precision(scales)
    np.testing.assert_allclose(energy, 0.5 * np.sum(points * (points @ precision), axis=1))
    np.testing.assert_allclose(gradient, points @ precision)
    padded = np.pad(precision, (0, 1))
    np.testing.assert_allclose(prior.padded().precision(scales), padded)
    assert len(prior.prior_mode) == 4 and prior.prior_mode[2] > prior.prior_mode[0]


def test_a_large_coefficient_of_a_column_leaves_the_scale_of_others(rng):
    """That of one that hardly varies has a factor, and that of another makes all scales larger."""
    prior, transform = prior_of_columns(rng, 1)
    found = []
    for large in (1, 2):
        theta = 0.2 * np.ones(6)
        theta[large] = 10.0
        scales = prior.likeliest(np.linalg.solve(transform, theta), np.zeros((6, 6)))
        found.append(scales[0])
        if large == 1:
            assert scales[2] > 4.0 * scales[0]
    assert found[1] > 3.0 * found[0]
