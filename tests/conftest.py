"""Shared fixtures: small tables whose posteriors can be computed otherwise."""

import numpy as np
import pytest
import scipy.sparse as sp

from skdpbayes.targets import logistic_bounds, logistic_prior_precision, make_logistic


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.fixture
def make_target():
    """Return a function that builds a logistic target on rows of at most ``norm``."""

    def build(X, y, norm=1.0, prior_scale=2.5, intercept_scaling=0.0, n_classes=2):
        constant = intercept_scaling
        # Other orders of memory would be compiled for anew; estimators pass this one.
        X = X if sp.issparse(X) else np.ascontiguousarray(X)
        precision = logistic_prior_precision(
            X.shape[1], n_classes, prior_scale, prior_scale, constant
        )
        bounds = logistic_bounds(np.hypot(norm, constant), n_classes, precision, constant)
        return make_logistic(X, y, norm, n_classes, constant, precision), bounds

    return build
