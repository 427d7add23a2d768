"""The draws of a fit as a value: what estimators delegate to is all in it."""

import pickle

import numpy as np
import pandas as pd
import pytest

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
)
from skdpbayes.mixture import DPGaussianMixturePosterior

X = pd.DataFrame(np.random.default_rng(0).uniform(-1.0, 1.0, (600, 2)), columns=["a", "b"])
CLASSES = np.digitize(X["a"], [-0.3, 0.3])


def fitted(kind, **options):
    model, y = {
        "classes": (DPBayesianLogisticRegression, CLASSES),
        "numbers": (lambda **named: DPBayesianRidge((-2.0, 2.0), **named), X["a"]),
        "counts": (lambda **named: DPBayesianPoissonRegressor(3, **named), CLASSES),
        "mixture": (DPGaussianMixturePosterior, None),
        "network": (lambda **named: DPBayesianMLPClassifier((3,), **named), CLASSES),
    }[kind]
    return model(epsilon=3.0, random_state=0, **options).fit(X, y)


def equal(first, second):
    first, second = (part if isinstance(part, tuple) else (part,) for part in (first, second))
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("kind", ["classes", "numbers", "counts", "mixture", "network"])
def test_a_posterior_is_a_value_that_needs_no_estimator(kind):
    model = fitted(kind, n_draws=20)
    posterior = pickle.loads(pickle.dumps(model._posterior))
    assert equal(posterior.draw(), model.posterior_samples_)
    assert equal(posterior.draw(9, random_state=1), model.sample_posterior(9, random_state=1))
    variables, coords = posterior.variables(), posterior.coords()
    assert list(coords["feature"]) == ["a", "b"]
    for draws, dims in variables.values():
        assert draws.shape == (20, *(len(coords[dim]) for dim in dims))
    if kind != "network":
        assert equal(posterior.interval(0.8), model.posterior_interval(0.8))
        pd.testing.assert_frame_equal(posterior.summary(0.8), pd.DataFrame(model.summary(0.8)))
        assert len(posterior.index()) == posterior.flat(posterior.draws).shape[1]


def test_a_posterior_has_the_draws_that_somebody_set():
    model = fitted("numbers")
    model.posterior_samples_ = model.posterior_samples_[:7] + 1.0
    assert equal(model.sample_posterior(), model.posterior_samples_)
    model.summary()
