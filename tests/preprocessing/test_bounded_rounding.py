"""What is scaled is within the range that was asked for, to the last bit."""

import numpy as np
import pytest
import scipy.sparse as sp

from skdpbayes.preprocessing import BoundedScaler


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("feature_range", [(-1, 1), (0, 0.1), (-0.3, 0.7)])
def test_rounding_does_not_leave_the_range(dtype, feature_range):
    rng = np.random.default_rng(0)
    lower = rng.normal(size=2000) * 10.0 ** rng.integers(-3, 6, 2000)
    upper = lower + rng.uniform(0.1, 1e5, 2000)
    scaler = BoundedScaler(lower, upper, feature_range=feature_range)
    scaled = scaler.fit_transform(np.array([lower, upper], dtype=dtype))
    assert scaled.dtype == dtype
    assert scaled.min() >= dtype(feature_range[0]) and scaled.max() <= dtype(feature_range[1])


def test_rounding_does_not_leave_the_range_of_sparse_rows():
    upper = np.random.default_rng(0).uniform(0.1, 1e5, 2000)
    scaler = BoundedScaler(-upper, upper)
    scaled = scaler.fit_transform(sp.csr_array(np.array([-upper, upper])))
    assert abs(scaled).max() <= 1


@pytest.mark.parametrize(
    "bounds, feature_range",
    [
        ((0.0, 1.0), (1e-50, 1e50)),
        ((0.0, 1.0), (0.0, 1e-50)),
        ((0.0, 1.0), (1e6, 1e6 + 1e-3)),
        ((0.0, 1e-25), (0.0, 1e25)),
        ((0.0, 1e25), (0.0, 1e-25)),
    ],
)
def test_ranges_beyond_single_precision_become_doubles(bounds, feature_range):
    X = np.array([[0.0], [0.5], [1.0]]) * bounds[1]
    scaler = BoundedScaler(*bounds, feature_range=feature_range)
    single = scaler.fit(X).transform(X.astype(np.float32))
    assert np.isfinite(single).all()
    low, high = feature_range
    places = (single - low) / (high - low)
    np.testing.assert_allclose(places, [[0.0], [0.5], [1.0]], atol=1e-6)
