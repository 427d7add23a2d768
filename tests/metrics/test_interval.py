"""The law behind intervals, against draws and closed forms."""

import numpy as np
import pytest
from scipy import stats

from skdpbayes.metrics._base import invert_test, probability_within


@pytest.mark.parametrize(
    "deviation, weights", [(1.0, [0.7]), (0.1, [1.0, -0.5]), (0.03, [1.0] * 4)]
)
def test_probabilities_are_those_of_draws(deviation, weights):
    rng = np.random.default_rng(0)
    draws = deviation * rng.standard_normal(200_000)
    draws += sum(weight * rng.laplace(size=200_000) for weight in weights)
    for level in (0.05, 0.5, 0.9, 0.99, 0.999):
        q = np.quantile(np.abs(draws), level)
        found = probability_within(q, deviation, weights)
        assert found == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / 200_000))


@pytest.mark.parametrize("q", [0.0, 0.3, 2.0, 6.0, 40.0])
def test_without_noise_it_is_normal_and_without_sampling_laplace(q):
    assert probability_within(q, 1.0, []) == pytest.approx(2 * stats.norm.cdf(q) - 1, abs=1e-9)
    assert probability_within(q, 0.0, [1.0]) == pytest.approx(1 - np.exp(-q), abs=1e-6)


def test_without_noise_it_is_wilsons_interval():
    n, k = 50, 44
    ends = invert_test(lambda p: k - n * p, lambda p: (np.sqrt(n * p * (1 - p)), []), k / n, 0.9)
    exact = stats.binomtest(k, n).proportion_ci(0.9, "wilson")
    np.testing.assert_allclose(ends, [exact.low, exact.high], atol=1e-5)
