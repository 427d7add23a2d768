"""The share of the rarest class, by draws: against shares of the table, and the mean of its probability."""

import numpy as np
import pytest
from scipy.special import softmax

from skdpbayes import DPBayesianLogisticRegression


def a_fit(n_classes, rarest, epsilon):
    rng = np.random.default_rng(5)
    rows = rng.uniform(-1.0, 1.0, size=(20_000, 3))
    logits = rows @ rng.normal(size=(3, n_classes)) - 3.0 * (np.arange(n_classes) == rarest)
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    clf = DPBayesianLogisticRegression(
        epsilon, 1e-6, data_norm=2.0, classes=range(n_classes), random_state=0
    )
    return clf.fit(rows, labels), np.mean(labels == rarest)


@pytest.mark.parametrize("n_classes, rarest", [(2, 0), (2, 1), (3, 0), (3, 2)])
def test_it_is_that_of_the_table(n_classes, rarest):
    clf, share = a_fit(n_classes, rarest, epsilon=20.0)
    low, median, high = clf.released_["rarest_class"]
    # An interval of 90% may miss by a little.
    assert 0.95 * low < share < 1.05 * high < 1.5 * low and low < median < high


@pytest.mark.parametrize("rarest", [0, 2])
def test_it_is_the_mean_probability_of_rows_as_they_count(rarest):
    clf, _ = a_fit(3, rarest, epsilon=1.0)
    density = clf.released_["posterior"].density
    population = density.synthetic_design
    coefficients = clf.posterior_samples_ @ np.linalg.inv(density.transform).T
    shares = [
        softmax(population.rows @ one.T, axis=1)[:, rarest] @ population.weights
        for one in coefficients
    ]
    expected = np.quantile(shares, [0.05, 0.5, 0.95]) / population.weights.sum()
    np.testing.assert_allclose(clf.released_["rarest_class"], expected, rtol=0.02)


def test_there_is_none_without_an_intercept():
    rows = np.random.default_rng(0).uniform(-1.0, 1.0, size=(500, 2))
    clf = DPBayesianLogisticRegression(data_norm=2.0, fit_intercept=False, random_state=0)
    assert "rarest_class" not in clf.fit(rows, rows[:, 0] > 0.0).released_
