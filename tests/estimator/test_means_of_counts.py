"""Predicted counts are no means of what noise has made of a few draws, and large means are kept."""

import warnings

import numpy as np
import pytest
from regressors import poisson
from scipy import stats

from skdpbayes import DPBayesianPoissonRegressor
from skdpbayes.inspection._effects import responses
from skdpbayes.samplers.statistics.dispersion import (
    exposure_edges,
    log_exposures_seen,
    typical_exposure,
)

LARGEST = 3 * 15  # Of means, with the largest count of `poisson`.


def sharp(max_count, **options):
    options = {"sampler": "clipped_residuals", "random_state": 0, **options}
    return DPBayesianPoissonRegressor(max_count, **options)


@pytest.fixture(scope="module")
def astray():
    """A quarter of 100 draws has a mean that no count can have, the others have one of 3."""
    model = poisson().fit(np.zeros((200, 1)), np.ones(200))
    model.posterior_samples_ = np.tile([0.0, np.log(3.0)], (100, 1, 1))
    model.posterior_samples_[::4, 0, 1] = 60.0
    return model


def test_few_rows_predict_no_astronomic_counts():
    """Draws of means beyond any count made the mean prediction 1,850,000, of counts of about 0.3."""
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (5000, 5))[:300]
    y = np.random.default_rng(1).poisson(0.3 * np.exp(0.5 * X[:, 0]))
    model = sharp(9).fit(X, y)
    assert model.predict(X).max() <= 27.0 and model.predict(X).mean() < 3.0
    assert model.posterior_predictive(X, random_state=0).mean() < 3.0


def test_whatever_predicts_counts_takes_the_same_means(astray):
    rows, mean = np.zeros((2, 1)), 0.75 * 3.0 + 0.25 * LARGEST
    assert astray.predict(rows) == pytest.approx(mean)
    assert astray.predict(rows, exposure=[0.5, 2.0]) == pytest.approx([0.5 * mean, 2.0 * mean])
    found = responses(astray, astray.posterior_samples_, np.c_[rows, np.ones(2)])
    assert found.mean(axis=1) == pytest.approx(mean)
    for exposure in (0.5, 1.0, 2.0):
        exposures = np.full(2, exposure)
        counts = astray.posterior_predictive(rows, 4000, random_state=0, exposure=exposures)
        deviation = exposure * (LARGEST - 3.0) * (0.25 * 0.75 / 4000) ** 0.5
        assert abs(counts.mean() - exposure * mean) < 4.0 * deviation
        with pytest.warns(UserWarning, match="not a calibrated posterior"):
            interval = astray.prediction_interval(rows, 0.8, exposure=exposures)
        # The law of a quarter of the draws has 60% below what 90% of all are below.
        assert interval[0, 1] == stats.poisson(exposure * LARGEST).ppf(0.6)


def test_coefficients_are_not_limited(astray):
    assert astray.posterior_samples_.max() == 60.0


def test_means_above_counts_that_are_cut_are_kept():
    """More than half of the counts are cut, and means are told all the same: up to three times as large."""
    rng = np.random.default_rng(1000)
    X = rng.uniform(-1.0, 1.0, (6000, 5))
    means = 5.0 * np.exp(X @ [0.3, -0.3, 0.2, 0.0, 0.1])
    model = sharp(5, epsilon=1.0).fit(X, rng.poisson(means))
    assert means.max() > 2.0 * model.max_count_
    assert np.abs(model.predict(X) / means - 1.0).mean() < 0.06
    unlimited = np.exp(X @ model.posterior_samples_[:, 0, :5].T + model.posterior_samples_[:, 0, 5])
    assert model.predict(X) == pytest.approx(unlimited.mean(axis=1), rel=0.05)


@pytest.mark.parametrize("unit", [0.01, 100.0])
def test_rates_are_limited_in_the_unit_of_exposures(unit):
    """Of exposures of about 0.01, rates of 200 are counts of 2."""
    rng = np.random.default_rng(0)
    X, exposure = rng.uniform(-1.0, 1.0, (6000, 2)), unit * rng.uniform(0.5, 1.5, 6000)
    means = exposure * (2.0 / unit) * np.exp(0.5 * X[:, 0])
    model = sharp(9).fit(X, rng.poisson(means), exposure=exposure)
    assert model.released_["typical_exposure"] == pytest.approx(unit, rel=0.2)
    assert np.abs(model.predict(X, exposure) / means - 1.0).mean() < 0.05
    model.posterior_samples_ = np.full_like(model.posterior_samples_, 60.0)
    assert (model.predict(X, exposure) <= 27.0 * 1.5 * 1.2).all()


def test_an_exposure_that_noise_hides_makes_no_limit_stricter(rng):
    clear = np.zeros(len(exposure_edges()) + 1)
    clear[-5] = 1000.0
    for bins, least in ((clear, 100.0), (np.zeros_like(clear), 0.0)):
        for _ in range(20):
            bins_seen = bins + 10.0 * rng.normal(size=bins.size)
            seen = log_exposures_seen(bins_seen, 10.0, 500)
            found = typical_exposure(bins_seen, 10.0, seen)
            assert found > least and (found <= 1.0 or least > 0.0)


def test_a_chain_that_learns_no_exposure_limits_no_rates():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = poisson().fit(np.zeros((200, 1)), np.ones(200), exposure=np.full(200, 1e-3))
    model.posterior_samples_ = np.tile([0.0, np.log(1000.0)], (100, 1, 1))
    assert model.predict(np.zeros((1, 1))) == pytest.approx(1000.0)
