"""Temperature and number of steps are options of the samplers that have them, and of no estimator."""

import inspect
import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPGaussianMixturePosterior,
)
from skdpbayes.models import Logistic, TargetBounds
from skdpbayes.privacy import Budget
from skdpbayes.samplers import NoiseAware
from skdpbayes.samplers.base import TemperedSampler, samplers_by_name

BOUNDS = TargetBounds(
    3, 1.0, 0.25, (0.1, 0.1), convex=True, row_norm=1.0, constant=0.5, family=Logistic()
)
BUDGET = Budget(1.0, 1e-6)
KINDS = [kind for kind in samplers_by_name().values() if issubclass(kind, TemperedSampler)]
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3))
y = (X[:, 0] > 0).astype(int)


def test_estimators_have_neither():
    estimators = (DPBayesianLogisticRegression, DPBayesianMLPClassifier, DPGaussianMixturePosterior)
    for estimator in estimators:
        assert not {"temperature", "n_steps"} & set(inspect.signature(estimator).parameters)
    assert len(inspect.signature(DPBayesianLogisticRegression).parameters) <= 17
    assert NoiseAware().get_params() == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_has_what_its_sampler_was_given(kind):
    plan = kind(temperature=30, n_steps=np.int64(500)).plan(BOUNDS, 10_000, BUDGET)
    # Numbers of a grid may be NumPy's, and those of a report are not.
    assert json.dumps([plan.temperature, plan.n_steps]) == "[30.0, 500]"
    assert {"temperature", "n_steps"} <= set(plan.fixed) and plan.epsilon <= 1.0
    with pytest.raises(AttributeError, match="n_steps of a plan's sampler"):
        plan.sampler.n_steps = 10**6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options",
    [{"temperature": bad} for bad in (0.5, "hot", np.inf, np.nan, 1e31, True, None)]
    + [{"n_steps": bad} for bad in (0, 1e3, "many", 2**54, True, None)],
    ids=str,
)
def test_a_bad_number_is_refused_by_name(kind, options):
    with pytest.raises(ValueError, match=f"'{next(iter(options))}' parameter of {kind.__name__} "):
        kind(**options).plan(BOUNDS, 10_000, BUDGET)


@pytest.mark.nightly
@pytest.mark.parametrize("sampler", ["auto", "sghmc", "bbb"])
def test_they_are_set_through_an_estimator_whose_sampler_is_a_name(sampler):
    clf = DPBayesianLogisticRegression(sampler=sampler, n_draws=5, random_state=0)
    clf.set_params(sampler__n_steps=60, sampler__temperature=20.0)
    clf = clone(clf).fit(X, y)
    assert (clf.n_iter_, clf.temperature_) == (60, 20.0)


def test_a_grid_searches_over_steps():
    clf = DPBayesianLogisticRegression(sampler="sghmc", n_draws=5, random_state=0)
    search = GridSearchCV(clf, {"sampler__n_steps": [40, 80]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_estimator_.n_iter_ == search.best_params_["sampler__n_steps"]


def test_mixtures_and_networks_pass_them_on():
    network = DPBayesianMLPClassifier((4,), n_draws=5).set_params(sampler__n_steps=30)
    assert network.privacy_plan(1000, 3).n_steps == 30
    mixture = DPGaussianMixturePosterior(2, epsilon=np.inf, sampler="gibbs", n_draws=5)
    plan = mixture.set_params(sampler__n_steps=30, sampler__burn_in=0.5).privacy_plan(1000, 3)
    assert (plan.n_steps, plan.n_burn_in) == (30, 15)


def test_a_temperature_of_one_asks_for_no_chain():
    mixture = DPGaussianMixturePosterior(2).set_params(sampler__temperature=1)
    assert mixture.privacy_plan(1000, 3).name == "noise_aware"
    clf = DPBayesianLogisticRegression().set_params(sampler__temperature=1)
    assert clf.privacy_plan(10_000, 5).name == "noise_aware"
    assert clf.set_params(sampler__temperature=2).privacy_plan(10_000, 5).name == "sgfs"
