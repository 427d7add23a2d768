"""Shared fixtures: small tables whose posteriors can be computed otherwise."""

import numpy as np
import pytest
import scipy.sparse as sp

from skdpbayes.models.families import classifier
from skdpbayes.models.linear import linear_bounds, linear_prior_precision, make_linear


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave to the long tests all parameter sets of a test marked ``daily(n)`` but ``n``, spread evenly."""
    sets = {}
    for item in items:
        if item.get_closest_marker("daily") and not item.get_closest_marker("nightly"):
            sets.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for found in sets.values():
        n = found[0].get_closest_marker("daily").args[0]
        kept = {int(i) for i in np.linspace(0, len(found) - 1, n)}
        for i, item in enumerate(found):
            if i not in kept:
                item.add_marker("nightly")


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
        precision = linear_prior_precision(
            classifier(n_classes), X.shape[1], prior_scale, prior_scale, constant
        )
        bounds = linear_bounds(classifier(n_classes), np.hypot(norm, constant), precision, constant)
        return make_linear(X, y, classifier(n_classes), norm, constant, precision), bounds

    return build
