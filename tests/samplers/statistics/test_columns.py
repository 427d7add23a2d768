"""Means and mean squares of columns given noisy ones of both."""

import math

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import gamma, norm

from skdpbayes.samplers.statistics.design import _trace, estimate_columns


def squares_of(seen, noise):
    """Posterior means of mean squares, where means say nothing."""
    return estimate_columns(np.zeros(seen.size), seen, 1e9, noise).squares


def posterior_means(seen, noise, shape, mean):
    """Of numbers with a gamma law beyond a thousandth of its mean; and the log density of what was seen."""
    edges = np.geomspace(1e-3 * mean, 50.0 * mean, 4000)
    masses = np.diff(gamma.cdf(edges, shape, scale=mean / shape))
    points = 0.5 * (edges[1:] + edges[:-1])
    terms = norm.pdf(seen[:, None], points, noise) * masses / masses.sum()
    return terms @ points / terms.sum(axis=1), np.log(terms.sum(axis=1)).sum()


@pytest.mark.parametrize("shape", [0.2, 1.0, 5.0])
def test_variances_are_posterior_means_under_gamma_laws_by_their_evidence(rng, shape):
    truth = 0.005 * rng.gamma(shape, 1.0 / shape, size=100)
    noise = 0.0025
    seen = truth + noise * rng.normal(size=truth.size)
    found = squares_of(seen, noise)
    shapes = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0)
    mean = _trace(seen.sum(), noise * 10.0) / 100.0
    laws, evidence = zip(
        *(posterior_means(seen, noise, each, mean) for each in shapes), strict=True
    )
    np.testing.assert_allclose(found, softmax(evidence) @ laws, rtol=0.05)
    assert np.mean((found - truth) ** 2) < 0.8 * np.mean((seen - truth) ** 2)
    # A law that is no likelier than another would be seen.
    assert np.abs(found / np.mean(laws, axis=0) - 1.0).max() > 0.05


def test_columns_that_noise_hides_are_alike(rng):
    """Thirty columns of one variance, whose means are alike: both have a level in common."""
    means, variances = rng.normal(-0.1, 0.02, size=30), np.full(30, 0.003)
    found = [seen_through_noise(means, variances + means**2, 0.01, rng)[0] for _ in range(40)]
    errors = np.sqrt(np.mean([(each.variances - variances) ** 2 for each in found]))
    # A released mean square is off by .01.
    assert errors < 0.25 * 0.01
    of_means = np.sqrt(np.mean([(each.means - means) ** 2 for each in found]))
    assert of_means < 0.9 * math.sqrt(2.0) * 0.01


@pytest.mark.parametrize("trace, noise", [(0.3, 1e-9), (0.3, 1e-3), (1.0, 1e-6), (1e-4, 1e-7)])
def test_the_mean_square_of_rows_is_what_is_seen(trace, noise):
    assert _trace(trace, noise) == pytest.approx(trace, abs=2.0 * noise)


def test_the_mean_square_of_rows_is_a_usual_one_where_noise_hides_it():
    """It cannot exceed 1, and overstating it costs predictions more than understating it."""
    found = [_trace(noisy, 1.0) for noisy in (-3.0, 0.0, 3.0)]
    assert 0.03 < found[0] < found[1] < found[2] < 0.3


def test_columns_that_noise_drowns_are_taken_to_vary_as_little_as_most(rng):
    """Two of fifty vary: the mean of all is not what is believed of the others."""
    truth = np.full(50, 1e-4)
    truth[:2] = 0.5
    found = [squares_of(truth + 0.03 * rng.normal(size=50), 0.03) for _ in range(50)]
    found = np.mean(found, axis=0)
    np.testing.assert_allclose(found[:2], 0.5, rtol=0.03)
    exponential = [
        posterior_means(truth + 0.03 * rng.normal(size=50), 0.03, 1.0, truth.mean())[0]
        for _ in range(50)
    ]
    assert found[2:].mean() < 0.7 * np.mean(exponential, axis=0)[2:].mean()


def test_variances_that_are_seen_are_what_is_seen(rng):
    truth = rng.gamma(1.0, 0.1, size=20) + 1e-3
    np.testing.assert_allclose(squares_of(truth, 1e-6), truth, rtol=0.05)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("noise", [1e-9, 1.0, 1e9])
def test_variances_of_any_noise_are_positive_and_finite(rng, noise):
    for seen in (np.zeros(3), -np.ones(3), noise * rng.normal(size=1), np.array([1.0, 1e-12])):
        found = squares_of(seen, noise)
        assert (found > 0).all() and np.isfinite(found).all()


def seen_through_noise(means, squares, noise, rng):
    """Columns, and their deviations, with the noise of a released second moment."""
    of_means = math.sqrt(2.0) * noise
    noisy = means + of_means * rng.normal(size=means.size)
    return estimate_columns(
        noisy, squares + noise * rng.normal(size=squares.size), of_means, noise
    ), noisy


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    "value, of_squares, of_means", [(0.05, 0.82, 0.85), (0.35, 0.7, 0.75), (1.0, 0.92, 0.6)]
)
def test_means_and_mean_squares_of_indicators_say_the_same(rng, value, of_squares, of_means):
    """Root mean squares of errors, relative to those of each alone; and as large as is believed."""
    found, noise = [], 0.004 * value
    for _ in range(30):
        shares = rng.dirichlet(np.full(60, 0.3))
        squares, means = value**2 * shares, value * shares
        both, noisy = seen_through_noise(means, squares, noise, rng)
        alone = squares_of(squares + noise * rng.normal(size=60), noise)
        errors = (both.squares - squares, alone - squares, both.means - means, noisy - means)
        errors += (both.variances - squares + means**2,)
        doubts = (both.mean_uncertainty.mean(), both.uncertainty.mean())
        found.append([*(np.mean(error**2) for error in errors), *doubts])
    together, alone, mean, naive, variance, *doubts = np.sqrt(np.mean(found, axis=0))
    assert together < of_squares * alone and mean < of_means * naive
    assert doubts == pytest.approx([mean, variance], rel=0.5)


def test_numbers_keep_their_means(rng):
    """Not centred, of either sign: nothing says that they are indicators."""
    squares = rng.gamma(3.0, 0.1, size=60)
    means = np.sqrt(squares) * rng.uniform(-0.9, 0.9, size=60)
    found, noisy = seen_through_noise(means, squares, 0.01, rng)
    # No worse than what was released, if not better.
    assert np.mean((found.means - means) ** 2) < 1.05 * np.mean((noisy - means) ** 2)
    assert np.mean((found.squares - squares) ** 2) < 1.1 * 0.01**2
    doubts = np.mean((found.means - means) ** 2) / found.mean_uncertainty.mean()
    assert 0.5 < doubts < 2.0


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("length", [2, 150, 200, 512])
@pytest.mark.parametrize("noise", [1e-6, 1e-3, 0.3])
def test_one_column_that_is_far_larger_than_all_others_is_no_trouble(rng, length, noise):
    """It is improbable under every law of most columns, and less than any double under some."""
    squares = np.full(length, 1e-5)
    squares[0] = 0.9
    found, _ = seen_through_noise(np.sqrt(0.1 * squares), squares, noise, rng)
    arrays = [*found[:-1], *found.numbers]
    assert all(np.isfinite(part).all() for part in arrays) and (found.squares > 0).all()
    if noise < 0.1:
        assert found.squares[0] == pytest.approx(0.9, abs=4.0 * noise + 1e-9)


@pytest.mark.parametrize("noise", [1e-6, 1e-5, 1e-4])
def test_mean_squares_are_as_exact_as_they_were_released(rng, noise):
    """Where noise is smaller than a cell of the grid, a variance is what is left of two large numbers."""
    means = rng.uniform(0.1, 0.3, size=6)
    squares = means**2 + 0.03**2
    errors, of_variances, doubts = [], [], []
    for _ in range(40):
        found, _ = seen_through_noise(means, squares, noise, rng)
        errors.append(np.mean((found.squares - squares) ** 2))
        of_variances.append(np.mean((found.variances - squares + means**2) ** 2))
        doubts.append(found.uncertainty.mean())
    assert np.mean(errors) < 1.3 * noise**2
    assert np.mean(doubts) == pytest.approx(np.mean(of_variances), rel=0.3)


def a_mixed_table(rng, noise, n_hidden=2, deviation=0.03):
    """Numbers that use their bounds, those that hardly vary, and indicators, through noise."""
    numbers = np.full(5, 0.05)
    hidden = np.full(n_hidden, deviation**2)
    ones = 0.3 * rng.uniform(0.1, 0.5, size=10)
    means = np.concatenate([np.zeros(5 + n_hidden), ones])
    squares = np.concatenate([numbers, hidden, 0.3 * ones])
    return seen_through_noise(means, squares, noise, rng)[0].numbers


def test_what_indicators_vary_by_says_nothing_of_numbers(rng):
    """Numbers that noise hides may vary far less than all that is seen."""
    seen = a_mixed_table(rng, 0.0005).probability
    assert (seen[:5] > 0.9).all() and (seen[-10:] < 0.1).all()
    found = [a_mixed_table(rng, 0.004) for _ in range(20)]
    hidden = np.array([each.probability[5:7] for each in found])
    assert 0.3 < hidden.mean() < 0.9
    lows = [each.variances[5:7] - 2.0 * np.sqrt(each.uncertainty[5:7]) for each in found]
    assert np.mean(np.array(lows) < 0.03**2) > 0.9


def test_the_usual_variance_is_that_of_two_deviations_for_an_indicator(rng):
    """Five numbers with .05, two with .03^2, and ten indicators of the value .3."""
    usual = np.mean([a_mixed_table(rng, 0.0005).usual for _ in range(5)])
    assert usual == pytest.approx((5 * 0.05 + 2 * 0.03**2 + 10 * 0.3**2 / 4.0) / 17, rel=0.05)
