"""Sampler objects: options of their own, plans that keep, and any object in any estimator."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPGaussianMixturePosterior,
)
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.models import Logistic, TargetBounds, mlp_bounds
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.privacy import Budget, PrivacyCost, PrivacyLedger
from skdpbayes.samplers import (
    OPS,
    SGFS,
    SGHMC,
    SGLD,
    BayesByBackprop,
    DPFastMH,
    Gibbs,
    Plan,
    Released,
    Sampler,
    resolve_sampler,
)

NAMES = [
    "auto",
    "sgld",
    "sghmc",
    "sgnht",
    "sgfs",
    "ops",
    "bbb",
    "dp_mh",
    "dp_fast_mh",
    "penalty",
    "dp_fast_mh_gaussian",
]
BOUNDS = TargetBounds(3, 1.0, 0.25, (0.1, 0.1), convex=True, row_norm=1.0, family=Logistic())
BUDGET = Budget(1.0, 1e-6)
X, y = make_classification(300, 4, n_redundant=0, random_state=0)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_stands_for_a_sampler_with_its_defaults(name):
    sampler = resolve_sampler(name)
    assert sampler.name == name
    assert set(type(sampler)._parameter_constraints) == set(sampler.get_params())
    assert repr(sampler) == f"{type(sampler).__name__}()"
    for twin in (clone(sampler), copy.deepcopy(sampler), pickle.loads(pickle.dumps(sampler))):
        assert type(twin) is type(sampler) and twin.get_params() == sampler.get_params()


@pytest.mark.parametrize("name", NAMES)
def test_plans_print_and_count_their_updates(name):
    plan = resolve_sampler(name).plan(BOUNDS, 10_000, BUDGET)
    assert plan.n_updates >= plan.n_steps > 0 and plan.n_parameters == 3
    assert plan.epsilon <= 1.0 and plan.summary()["sampler"] == plan.name
    names = [line.split("  ")[1] for line in str(plan).splitlines()[1:]]
    assert names[:2] == ["spends", "protects"] and names.index("work") < names.index("sampler")
    # A temperature that follows from a release is no number yet, and no plan equals nothing.
    twin = resolve_sampler(name).plan(BOUNDS, 10_000, BUDGET)
    assert str(twin) == str(plan)


@pytest.mark.parametrize("name", ["sgld", "sghmc", "sgnht", "bbb"])
def test_plans_for_networks_print(name):
    plan = resolve_sampler(name).plan(mlp_bounds((4, 8, 2), 1.0, 1.0), 6000, Budget(2.0, 1e-5))
    assert plan.name in str(plan) and plan.warnings == ()


def test_a_plan_keeps_the_options_that_it_was_made_with():
    sampler = SGHMC(friction=0.2)
    plan = sampler.plan(BOUNDS, 10_000, BUDGET)
    sampler.set_params(friction=0.9)
    assert plan.sampler.friction == 0.2
    assert sampler.plan(BOUNDS, 10_000, BUDGET).friction == 0.9
    assert SGHMC(friction=0.2).plan(BOUNDS, 10_000, BUDGET) == plan


@pytest.mark.parametrize(
    "later", [lambda made: made, copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))]
)
def test_options_of_a_plan_s_sampler_cannot_be_set(later):
    # Fisher scoring reads them again when its matrix is released, and equal plans are one and the same.
    plan = later(SGFS(batch_size=300).plan(BOUNDS, 10_000, BUDGET))
    clf = DPBayesianLogisticRegression(sampler=plan.sampler)
    for change in (plan.sampler.set_params, lambda **new: clf.set_params(sampler__batch_size=None)):
        with pytest.raises(AttributeError, match="batch_size of a plan's sampler"):
            change(batch_size=None)
    assert SGFS(batch_size=300).plan(BOUNDS, 10_000, BUDGET).sampler.batch_size == 300
    assert clone(plan.sampler).set_params(batch_size=None).batch_size is None
    model = DPGaussianMixturePosterior(2, epsilon=np.inf, sampler=Gibbs(n_steps=300))
    with pytest.raises(AttributeError, match="n_steps"):
        model.privacy_plan(10_000, 2).sampler.n_steps = 400


class Within(Sampler):
    """Has another sampler do everything."""

    def __init__(self, inner):
        self.inner = inner

    def _plan(self, *args):
        return self.inner.plan(*args[:3], n_draws=args[3]).changed(sampler=self)


def test_a_plan_is_made_anew_where_options_of_an_option_have_changed():
    inner = SGHMC(friction=0.2)
    plan = Within(inner).plan(BOUNDS, 10_000, BUDGET)
    inner.set_params(friction=0.9)
    assert plan.sampler.inner.friction == 0.2
    assert Within(inner).plan(BOUNDS, 10_000, BUDGET).friction == 0.9
    with pytest.raises(AttributeError, match="friction"):
        plan.sampler.set_params(inner__friction=0.9)


@pytest.mark.parametrize(
    "sampler, named",
    [
        (SGHMC(friction=2.0), "friction"),
        (SGLD(release="both"), "release"),
        (SGLD(step_decay=1.0), "step_decay"),
        (OPS(step_size=-1.0), "step_size"),
        (DPFastMH(max_batch_size=0), "max_batch_size"),
        (DPFastMH(proposal="cauchy"), "proposal"),
        (BayesByBackprop(initial_scale=2.0), "initial_scale"),
    ],
)
def test_an_option_out_of_range_is_named_before_anything_is_charged(sampler, named):
    with PrivacyLedger(np.inf, 1e-5) as ledger, pytest.raises(ValueError, match=named):
        DPBayesianLogisticRegression(sampler=sampler).fit(X, y)
    assert ledger.spent_epsilon == 0


def test_an_unknown_name_is_answered_with_those_that_are_known():
    with pytest.raises(
        ValueError,
        match="'auto', 'bbb', .*'noise_aware', 'ops', .*'sgfs', 'sghmc', 'sgld', 'sgnht',",
    ):
        DPBayesianLogisticRegression(sampler="slice").privacy_plan(100, 2)


def test_options_are_set_through_estimators_of_named_samplers():
    clf = DPBayesianLogisticRegression(sampler="sghmc").set_params(sampler__friction=0.2)
    assert clf.sampler.friction == 0.2 and clf.privacy_plan(5000, 3).friction == 0.2
    clf.set_params(sampler="sgld", sampler__batch_size=100)
    assert isinstance(clf.sampler, SGLD) and clf.sampler.batch_size == 100
    assert clone(clf).sampler.batch_size == 100
    with pytest.raises(ValueError, match="friction"):
        clf.set_params(sampler__friction=0.2)


@pytest.mark.parametrize(
    "estimator",
    [DPBayesianLogisticRegression(), DPBayesianMLPClassifier((2,)), DPGaussianMixturePosterior(1)],
)
def test_a_class_instead_of_an_object_is_named(estimator):
    X, y = np.zeros((20, 2)), np.arange(20) % 2
    with pytest.raises(TypeError, match=r"sampler=SGHMC is a class.*SGHMC\(\)"):
        estimator.set_params(sampler=SGHMC).fit(X, y)
    with pytest.raises(TypeError, match="sampler=SGHMC is a class"):
        estimator.set_params(sampler__friction=0.1)


def test_grid_searches_over_samplers_and_over_their_options():
    clf = DPBayesianLogisticRegression(epsilon=5.0, sampler=SGHMC(n_steps=150), random_state=0)
    grid = {"sampler": [SGHMC(friction=0.3), OPS()], "epsilon": [1.0, 5.0]}
    search = GridSearchCV(clf, grid, cv=2).fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    search = GridSearchCV(clf, {"sampler__friction": [0.1, 0.5]}, cv=2).fit(X, y)
    assert search.best_params_["sampler__friction"] in (0.1, 0.5)


def test_nothing_of_another_sampler_stays_after_a_refit():
    clf = DPBayesianLogisticRegression(
        5.0, sampler=BayesByBackprop(n_steps=50), random_state=0
    ).fit(X, y)
    assert clf.released_.variational_mean.shape == (1, 5)
    clf.set_params(sampler="sghmc", sampler__n_steps=150).fit(X, y)
    assert dict(clf.released_) == {}


class Blurred(Sampler):
    """Releases the prior's mean with noise: a Gaussian mechanism of a query that reads nothing."""

    name = "blurred"

    def __init__(self, *, width=1.0):
        self.width = width

    def plan(self, bounds, n_samples, budget, *, n_draws=None):
        bounds.checked()
        return Plan(
            sampler=clone(self),
            n_samples=n_samples,
            bounds=bounds,
            budget=budget.checked(),
            cost=PrivacyCost(budget.neighboring_relation, mu=budget.mu),
            temperature=1.0,
            n_steps=1,
            n_burn_in=0,
            n_draws=20 if n_draws is None else n_draws,
        )

    def run(self, plan, target, generator, verbose):
        shape = plan.n_draws, plan.n_parameters
        return Released(0.01 * self.width * generator.standard_normal(shape), plan)


def test_an_object_of_ones_own_goes_into_estimators():
    options = {"sampler": Blurred(width=2.0), "epsilon": 1.0, "random_state": 0}
    clf = make_pipeline(BoundedScaler(-3.0, 3.0), DPBayesianLogisticRegression(**options))
    clf.fit(X, y).set_params(dpbayesianlogisticregression__sampler__width=3.0).fit(X, y)
    assert clf[-1].plan_.sampler.width == 3.0 and clf[-1].spent_epsilon_ <= 1.0
    assert clf.predict_proba(X).shape == (300, 2)
    network = DPBayesianMLPClassifier((4,), **options).fit(X, y)
    assert network.posterior_samples_.shape == (20, network.plan_.n_parameters)


class InPart(Blurred):
    """Hands back a plan of less than it was to do."""

    def run(self, plan, target, generator, verbose):
        cost = PrivacyCost(plan.budget.neighboring_relation, mu=0.01)
        part = plan.changed(cost=cost, n_burn_in=3)
        return super().run(part, target, generator, verbose)


def test_what_a_fit_reports_is_what_its_plan_has_reserved():
    with PrivacyLedger(np.inf, BUDGET.delta, allow_seeds=True) as ledger:
        clf = DPBayesianLogisticRegression(1.0, delta=1e-6, sampler=InPart(), random_state=0).fit(
            X, y
        )
    assert (
        clf.spent_epsilon_ == pytest.approx(ledger.spent_epsilon, rel=1e-6)
        and ledger.spent_epsilon > 0.99
    )
    assert clf.plan_.cost == clf.privacy_cost_ and clf.plan_.n_burn_in == 3


class Failing(Blurred):
    """Reads everything, and fails."""

    def run(self, plan, target, generator, verbose):
        raise MemoryError("late")


def test_a_run_that_fails_says_what_is_spent():
    clf = DPBayesianLogisticRegression(0.5, delta=1e-6, sampler=Failing(), random_state=0)
    with (
        PrivacyLedger(np.inf, 1e-6, allow_seeds=True) as ledger,
        pytest.raises(MemoryError, match="late"),
    ):
        with pytest.warns(
            PrivacyWarning, match="ended with an error.*spent all the same: epsilon = 0.5"
        ):
            clf.fit(X, y)
    assert ledger.spent_epsilon == pytest.approx(0.5, rel=1e-6)
