"""Rows of labels count fully where noise is small: fits are then maximum likelihood, whatever is true."""

import math
import warnings

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.samplers.statistics import plan as module


def wrong_table(seed, n=20_000):
    """Overlapping rare indicators, and an interaction that nobody models."""
    rng = np.random.default_rng(seed)
    x, rare = rng.uniform(-1.0, 1.0, (n, 2)), rng.random(n) < 0.05
    other = np.where(rare, rng.random(n) < 0.7, rng.random(n) < 0.02)
    logits = -0.5 + x @ [0.6, -0.4] + 0.8 * rare - 0.7 * other + 1.5 * x[:, 0] * rare
    X = np.c_[x, rare, other].astype(float)
    return X, (rng.random(n) < expit(logits)).astype(int)


def away(epsilon, seed):
    """Posterior means less maximum likelihood, in standard errors."""
    X, y = wrong_table(seed)
    with_constant = np.c_[X, np.ones(len(X))]
    likeliest = LogisticRegression(C=1e8, max_iter=1000).fit(X, y)
    p = likeliest.predict_proba(X)[:, 1]
    information = (with_constant * (p * (1.0 - p))[:, None]).T @ with_constant
    errors = np.sqrt(np.diag(np.linalg.inv(information)))[:4]
    model = DPBayesianLogisticRegression(epsilon, 1e-5, classes=[0, 1], random_state=seed)
    with warnings.catch_warnings(action="ignore"):
        model.fit(X, y)
    return (model.coef_[0] - likeliest.coef_[0]) / errors


@pytest.mark.parametrize("epsilon", [10.0, 100.0])
def test_a_fit_of_a_wrong_model_is_maximum_likelihood_where_noise_is_small(epsilon):
    found = np.array([away(epsilon, seed) for seed in range(3)])
    assert np.all(np.abs(found.mean(axis=0)) < 0.5) and np.all(np.abs(found) < 0.9)


def test_it_would_not_be_if_long_rows_counted_less(monkeypatch):
    """The test above can fail."""
    monkeypatch.setattr(module, "_LOGISTIC_CLIPPINGS", module._LOGISTIC_CLIPPINGS[:1])
    assert away(10.0, 0)[0] < -1.2


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("n, d", [(300, 3), (5000, 10), (1_000_000, 50)])
def test_clips_grow_with_the_budget_and_widen_intervals_hardly(monkeypatch, n, d, relation):
    def plan_of(epsilon):
        size = {"public_size": n} if relation == "add_or_remove_one" else {}
        estimator = DPBayesianLogisticRegression(
            epsilon, 1e-6, neighboring_relation=relation, sampler="noise_aware", **size
        )
        return estimator.privacy_plan(n, d)

    plans = [plan_of(epsilon) for epsilon in (0.01, 0.1, 1.0, 10.0, 100.0)]
    clippings = [plan.row_clipping for plan in plans]
    inflations = [plan.interval_inflation for plan in plans]
    assert clippings == sorted(clippings) and clippings[0] == 1.3 and clippings[-1] > 5.0
    monkeypatch.setattr(module, "_LOGISTIC_CLIPPINGS", module._LOGISTIC_CLIPPINGS[:1])
    for plan, inflation in zip(plans, inflations, strict=True):
        assert 1.0 - 1e-12 <= inflation / plan.interval_inflation <= math.sqrt(1.05)
