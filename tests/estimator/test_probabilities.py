"""Predicted probabilities are probabilities to the last bit: scikit-learn's own losses refuse 1 + 9e-16."""

import warnings

import numpy as np
import pytest
from sklearn.metrics import log_loss

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPGaussianMixturePosterior,
)
from skdpbayes.exceptions import PosteriorWarning
from skdpbayes.samplers import SGHMC

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3))
FAR = rng.normal(size=(4000, 3)) * 10.0 ** rng.integers(-3, 4, size=(4000, 1))


def draws(n_draws, shape, scale):
    return scale * (rng.normal(size=shape) + 0.1 * rng.normal(size=(n_draws, *shape)))


def logistic(n_classes, n_draws, scale):
    """Return a model whose draws are of some scale and nearly agree, so that some predictions are certain."""
    y = np.arange(len(X)) % n_classes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DPBayesianLogisticRegression(
            sampler=SGHMC(n_steps=3), n_draws=1, random_state=0
        ).fit(X, y)
    model.posterior_samples_ = draws(n_draws, (1 if n_classes == 2 else n_classes, 4), scale)
    return model


def network(n_classes, n_draws, scale):
    y = np.arange(len(X)) % n_classes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = DPBayesianMLPClassifier(
            (4,), sampler=SGHMC(n_steps=3), n_draws=1, random_state=0
        ).fit(X, y)
    model.posterior_samples_ = draws(n_draws, model.posterior_samples_.shape[1:], scale)
    return model


@pytest.mark.daily(3)
@pytest.mark.parametrize("n_draws", [1, 7, 100])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("make", [logistic, network])
@pytest.mark.parametrize("scale", [1.0, 10.0, 100.0, 1e4])
def test_no_probability_exceeds_one(make, n_classes, n_draws, scale):
    model = make(n_classes, n_draws, scale)
    for container in (np.asarray, collection):
        proba = np.asarray(model.predict_proba(container(FAR)))
        log_proba = np.asarray(model.predict_log_proba(container(FAR)))
        assert proba.min() >= 0 and proba.max() <= 1 and log_proba.max() <= 0
        assert np.abs(proba.sum(axis=1) - 1).max() < 1e-15
        np.testing.assert_allclose(np.exp(log_proba), proba, rtol=1e-12, atol=1e-300)
        log_loss(model.predict(FAR), proba, labels=model.classes_)


def collection(table):
    return pytest.importorskip("dask.array").from_array(table, chunks=(1000, -1))


@pytest.mark.daily(1)
@pytest.mark.parametrize("kind", ["spherical", "diag", "tied", "full"])
def test_no_component_is_more_than_certain(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)
        mixture = DPGaussianMixturePosterior(
            3, covariance_type=kind, n_draws=97, random_state=0
        ).fit(X)
    for container in (np.asarray, collection):
        proba = np.asarray(mixture.predict_proba(container(FAR)))
        assert proba.min() >= 0 and proba.max() <= 1
        assert np.abs(proba.sum(axis=1) - 1).max() < 1e-15
