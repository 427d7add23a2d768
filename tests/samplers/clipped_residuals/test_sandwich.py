"""Errors whose size varies with the rows: the matrix that tells, and what draws make of it."""

import math

import numpy as np
import pytest

from skdpbayes.privacy import Budget
from skdpbayes.samplers import ClippedResiduals
from skdpbayes.samplers.clipped_residuals.clipped_normal import clipped_normal, deviation_of
from skdpbayes.samplers.clipped_residuals.releases import Releases
from skdpbayes.samplers.clipped_residuals.sandwich import slopes_of, varying_part
from skdpbayes.targets import LinearModel, Normal

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
    released = Releases(plan, model.target(rows, responses), np.random.default_rng(1000 + seed))
    released.look_around()
    return released.posterior(), truth


def test_a_deviation_is_found_from_the_mean_of_clipped_squares():
    for deviation in (0.05, 0.5, 1.0, 3.0):
        square = clipped_normal(0.0, deviation, 1.2).square
        assert deviation_of(square, 1.2) == pytest.approx(deviation, rel=0.03)
    assert deviation_of(1.2**2, 1.2) == pytest.approx(12.0)


@pytest.mark.parametrize("clip", [1.0, 1.6, 2.5])
def test_one_matrix_tells_errors_and_slopes(rng, clip):
    """With the true matrix: the covariance of the root of a look, against that of the definition."""
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
    varying = varying_part(matrix, 1e-6, square, f)
    c = clipped_normal(0.0, deviation_of(square, clip), clip).slope
    bread = np.linalg.inv(c * slopes_of(varying, f, square, clip))
    found = np.sqrt(np.diag(bread @ (square * (np.eye(4) + varying)) @ bread))
    np.testing.assert_allclose(found, wanted, rtol=0.1)
    # Without either, it would be far too small along one of the coordinates.
    assert np.min(math.sqrt(square) / c / wanted) < 0.82


def test_noise_is_not_taken_for_errors_that_vary(rng):
    noise = rng.normal(size=(5, 5)) * 500.0
    matrix = 1000.0 * np.eye(5) + np.triu(noise) + np.triu(noise, 1).T
    assert np.abs(varying_part(matrix, 500.0, 1000.0, np.ones(5))).max() < 0.15


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
        unstretched = type(posterior)(posterior.surrogate, posterior.transform, None)
        plain = unstretched.draw(400, np.random.default_rng(seed))
        found.append(error / draws.std(axis=0))
        before.append(error / plain.std(axis=0))
    sizes, sizes_before = (np.sqrt(np.mean(np.square(one), axis=0)) for one in (found, before))
    assert 0.7 < sizes.mean() < most
    if varies:  # The column's own coefficient, and the intercept, which depends on it.
        assert np.all(sizes_before[[0, 3]] > 1.12 * sizes[[0, 3]])
