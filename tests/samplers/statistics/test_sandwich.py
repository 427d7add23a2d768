"""Errors whose size varies with the rows: the matrix that tells, and what draws make of it."""

import dataclasses
import math
import warnings

import numpy as np
import pytest
from summed import squares_moment

from skdpbayes import DPBayesianRidge
from skdpbayes.models import LinearModel, Normal
from skdpbayes.privacy import Budget
from skdpbayes.samplers import ClippedResiduals
from skdpbayes.samplers.statistics.normal import (
    NormalDensity,
    NormalLikelihood,
    slopes_of,
    varying_part,
)
from skdpbayes.samplers.statistics.plan import clipped_normal, deviation_of
from skdpbayes.samplers.statistics.release import posterior_of as released

DEVIATION = 0.3


def deviations(rows, varies):
    """Of errors, which a column multiplies."""
    return DEVIATION * (np.exp(1.2 * rows[:, 0]) / 1.3 if varies else np.ones(len(rows)))


def table_of(seed, n, varies):
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1.0, 1.0, size=(n, 3))
    truth = 0.5 * rng.normal(size=4)
    errors = deviations(rows, varies) * rng.normal(size=n)
    return rows, rows @ truth[:3] + truth[3] + errors, truth


def posterior_of(seed, n, varies, epsilon):
    rows, responses, truth = table_of(seed, n, varies)
    model = LinearModel(family=Normal(-4.0, 4.0), n_features=3, norm=math.sqrt(3), constant=1.0)
    plan = ClippedResiduals().plan(model.bounds(), n, Budget(epsilon, 1e-5))
    generator = np.random.default_rng(1000 + seed)
    return released(plan, model.target(rows, responses), NormalLikelihood, generator)[0], truth


def test_a_deviation_is_found_from_the_mean_of_clipped_squares():
    for deviation in (0.05, 0.5, 1.0, 3.0):
        square = clipped_normal(0.0, deviation, 1.2).square
        assert deviation_of(square, 1.2) == pytest.approx(deviation, rel=0.03)
    assert deviation_of(1.2**2, 1.2) == pytest.approx(12.0)


@pytest.mark.parametrize("clip", [1.0, 1.6, 2.5])
def test_one_matrix_tells_errors_and_slopes(rng, clip):
    """With the true matrix: the covariance of the root of a noisy sum, against that of the definition."""
    rows = rng.uniform(-1.0, 1.0, size=(200_000, 3))
    z = np.column_stack([rows, np.ones(len(rows))])
    basis = np.linalg.inv(np.linalg.cholesky(z.T @ z / len(z)))
    moved = z @ basis.T  # Of second moment one.
    errors = deviations(rows, True) / DEVIATION * rng.normal(size=len(rows))
    psi = np.clip(errors, -clip, clip)
    slopes = moved[np.abs(errors) < clip].T @ moved[np.abs(errors) < clip] / len(rows)
    square = np.mean(psi**2)
    matrix = (moved * psi[:, None]).T @ (moved * psi[:, None]) / len(rows)
    bread = np.linalg.inv(slopes)
    wanted = np.sqrt(np.diag(bread @ matrix @ bread))
    f = np.ones(4)
    _, varying = varying_part(matrix, 1e-6, square, f)
    c = clipped_normal(0.0, deviation_of(square, clip), clip).slope
    bread = np.linalg.inv(c * slopes_of(varying, f, square, clip))
    found = np.sqrt(np.diag(bread @ (square * (np.eye(4) + varying)) @ bread))
    np.testing.assert_allclose(found, wanted, rtol=0.1)
    # Without either, it would be far too small along one of the coordinates.
    assert np.min(math.sqrt(square) / c / wanted) < 0.82


def test_noise_is_not_taken_for_errors_that_vary(rng):
    noise = rng.normal(size=(5, 5)) * 500.0
    matrix = 1000.0 * np.eye(5) + np.triu(noise) + np.triu(noise, 1).T
    whole, varying = varying_part(matrix, 500.0, 1000.0, np.ones(5))
    assert np.abs(varying).max() < 0.15 and whole == 1.0
    # Of weights it is known that they are at most the largest, and nothing else.
    whole, varying = varying_part(matrix, 5000.0, 1000.0, np.ones(5), 3.0)
    assert np.abs(varying).max() < 0.15 and 1.0 < whole <= 3.0


def test_errors_that_do_not_vary_are_not_taken_to_where_rows_count_less(rng):
    """Noisy sums weigh long rows less, and so does the matrix."""
    rows, weights = rng.normal(size=(200_000, 3)), None
    rows[:, 0] = rng.random(200_000) < 0.03  # Rare, and long where it is not zero.
    rows /= rows.std(axis=0)
    weights = np.minimum(1.0, 4.0 / np.sum(rows**2, axis=1))
    psi = np.clip(rng.normal(size=200_000), -1.2, 1.2)
    target = LinearModel(family=Normal(-9.0, 9.0), n_features=3, norm=100.0, constant=0.0)
    target = target.target(rows, psi)._replace(weights=weights)
    matrix = squares_moment(target, np.zeros(3), 1.2, np.eye(3)) / len(rows)
    f = (rows * weights[:, None]).T @ rows / len(rows)
    basis = np.linalg.inv(np.linalg.cholesky(f))
    excess = basis @ matrix @ basis.T / np.mean(psi**2) - np.eye(3)
    assert np.abs(excess).max() < 0.05


WEIGHTS = {
    "equal": lambda rng, n: np.full(n, 5.0),
    "near the largest": lambda rng, n: rng.uniform(4.0, 5.0, size=n),
    "few are large": lambda rng, n: np.where(rng.random(n) < 0.2, 5.0, 1.0),
}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("varies", [False, True])
def test_with_little_noise_it_is_the_sandwich_of_weighted_records(rng, weights, varies):
    """Against the covariance of weighted least squares, in which weights are squared.

    Clipped residuals say a little more than squares do where errors vary.
    """
    n, d = 8000, 3
    rows, truth = rng.uniform(-1.0, 1.0, size=(n, d)), np.array([1.0, -0.5, 0.3, 0.5])
    z, w = np.column_stack([rows, np.ones(n)]), weights(rng, n)
    sizes = 0.3 * (np.abs(z @ truth) + 0.3 if varies else np.ones(n))
    responses = z @ truth + sizes * rng.normal(size=n)
    model = LinearModel(family=Normal(-4.0, 4.0), n_features=d, norm=math.sqrt(d), max_weight=5.0)
    plan = ClippedResiduals().plan(model.bounds(), n, Budget(1000.0, 1e-5))
    target, generator = model.target(rows, responses, w), np.random.default_rng(0)
    at = released(plan, target, NormalLikelihood, generator)[0].density
    factor = at.curvature.transform @ at.sandwich_factor
    covariance = factor @ np.linalg.inv(at.information(at.start))[:-1, :-1] @ factor.T
    bread = np.linalg.inv((z * w[:, None]).T @ z)
    wanted = bread @ ((z * ((w * sizes) ** 2)[:, None]).T @ z) @ bread
    unit = np.append(np.ones(d), plan.bounds.constant)  # Of coefficients.
    found = unit * np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(found, np.sqrt(np.diag(wanted)), rtol=0.13)


def test_looks_that_contradict_each_other_are_known():
    posterior, _ = posterior_of(1, 4000, False, 3.0)
    density = posterior.density
    assert 0.1 < density.chi2()[0] < 2.0
    last = density.noisy_sums[-1]
    moved = last._replace(value=last.value + 30.0 * last.noise)
    density = dataclasses.replace(density, noisy_sums=(*density.noisy_sums[:-1], moved))
    assert density.chi2()[0] > 30.0


def test_rare_columns_do_not_make_looks_contradict_each_other():
    """Rows that are long where a column is 1 count less, but leave residuals as large as they are."""
    rng = np.random.default_rng(24)
    rows = (rng.random((20_000, 4)) < 0.04).astype(float)
    truth = 0.5 * rng.normal(size=5)
    responses = rows @ truth[:4] + truth[4] + 0.3 * rng.normal(size=20_000)
    model = LinearModel(family=Normal(-6.0, 6.0), n_features=4, norm=2.0, constant=1.0)
    plan = ClippedResiduals().plan(model.bounds(), 20_000, Budget(3.0, 1e-5))
    generator = np.random.default_rng(10**6 + 24)
    posterior, _ = released(plan, model.target(rows, responses), NormalLikelihood, generator)
    assert 0.1 < posterior.density.chi2()[0] < 2.0


@pytest.mark.parametrize("chi2_per_dof, is_told", [(1.5, False), (20.0, True)])
def test_a_fit_tells_of_sums_that_contradict_each_other(monkeypatch, chi2_per_dof, is_told):
    monkeypatch.setattr(NormalDensity, "chi2", lambda self, left_out: (chi2_per_dof, 12))
    rows, responses, _ = table_of(0, 2000, False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        DPBayesianRidge((-4, 4), random_state=0).fit(rows, responses)
    assert any("contradicts" in str(one.message) for one in caught) == is_told


@pytest.mark.parametrize("is_skewed", [True, False])
def test_a_skew_that_draws_have_is_no_contradiction(is_skewed):
    """Errors of two kinds move noisy sums along the intercept; a large interaction left out does not."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, (20_000, 4))
    errors = 0.5 * rng.normal(size=20_000)
    if is_skewed:
        errors += 8.0 * (rng.random(20_000) < 0.1) * (1.0 + 0.5 * rows[:, 0])
    else:
        rows[:, 2] = rng.random(20_000) < 0.05
        rows[:, 3] = rows[:, 2] * (rng.random(20_000) < 0.5)
        errors += rows[:, 2:] @ [6.0, -4.0] + 6.0 * rows[:, 0] * rows[:, 2]
    model = DPBayesianRidge((-20.0, 20.0), epsilon=10.0, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(rows, rows[:, 1] + errors)
    assert any("contradicts" in str(one.message) for one in caught) != is_skewed
    assert (model.released_.chi2_per_dof > 2.5) != is_skewed


@pytest.mark.nightly
@pytest.mark.parametrize("varies, most", [(False, 1.3), (True, 1.7)])
def test_draws_are_wider_where_errors_ask_for_it(varies, most):
    """Over tables: errors of coefficients relative to deviations of draws, stretched or not.

    Where errors vary by a factor of eleven, intervals remain too short, but by far less than they were.
    """
    found, before = [], []
    for seed in range(24):
        posterior, truth = posterior_of(seed, 4000, varies, 5.0)
        draws = posterior.draw(400, np.random.default_rng(seed))
        error = draws.mean(axis=0) - truth
        unstretched = dataclasses.replace(posterior.density, sandwich_factor=None, heavy_tails=None)
        plain = type(posterior)(unstretched).draw(400, np.random.default_rng(seed))
        found.append(error / draws.std(axis=0))
        before.append(error / plain.std(axis=0))
    sizes, sizes_before = (np.sqrt(np.mean(np.square(one), axis=0)) for one in (found, before))
    assert 0.7 < sizes.mean() < most
    if varies:  # The column's own coefficient, and the intercept, which depends on it.
        assert np.all(sizes_before[[0, 3]] > 1.12 * sizes[[0, 3]])
