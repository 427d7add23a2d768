"""Random search: what it is charged, what it lets out, and that it finds what is better."""

import math
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from cheap import Cheap
from scipy.stats import loguniform, norm
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, KFold, cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
)
from skdpbayes.exceptions import BudgetExceededError, PrivacyWarning
from skdpbayes.metrics import make_private_scorer
from skdpbayes.model_selection import DPRandomizedSearchCV, total_privacy_cost
from skdpbayes.model_selection import _search as module
from skdpbayes.model_selection._total_cost import planned_cost
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import PrivacyCost, PrivacyLedger, PureMechanism, SelectedRun
from skdpbayes.privacy.charge import charge, dominates

X = np.random.default_rng(0).normal(size=(4000, 3))
y = (X[:, 0] > 0).astype(int)
DELTA = 1e-5


def search_of(estimator=None, params=None, **options):
    options = {"epsilon": 2.0, "delta": DELTA, "mean_candidates": 4.0, "random_state": 0, **options}
    return DPRandomizedSearchCV(estimator or Cheap(), params or {"cut": [0.0, 0.5, 1.0]}, **options)


@pytest.fixture(autouse=True)
def forget():
    Cheap.seen = []


def test_a_search_spends_its_plan_and_a_ledger_is_charged_once():
    search = search_of()
    with PrivacyLedger(np.inf, DELTA, allow_seeds=True) as ledger:
        search.fit(X, y)
    plan = search.privacy_plan(4000)
    assert ledger.spent == search.privacy_cost_ == plan.cost == total_privacy_cost(search)
    assert 1.99 < search.spent_epsilon_ <= 2.0
    assert search.best_estimator_.privacy_cost_.mu <= plan.run_mu
    assert search.scorer_.epsilon == plan.score_epsilon
    with PrivacyLedger(1.0, DELTA, allow_seeds=True), pytest.raises(BudgetExceededError):
        search.fit(X, y)


@pytest.mark.parametrize("shape", [0.0, 1.0, math.inf])
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_plans_use_their_budget_up(shape, epsilon):
    plan = search_of(epsilon=epsilon, shape=shape).privacy_plan(4000)
    assert 0.999 * epsilon < plan.epsilon <= epsilon
    assert plan.fit_epsilon < epsilon and plan.n_train + plan.n_test == 4000
    assert "the number is not revealed" in str(plan)


def test_more_candidates_leave_less_for_each():
    fits = [search_of(mean_candidates=m).privacy_plan(4000).fit_epsilon for m in (1, 3, 10, 100)]
    assert fits == sorted(fits, reverse=True) and fits[0] == pytest.approx(2.0, rel=1e-5)


def test_fits_and_scores_read_disjoint_rows_the_same_for_all(monkeypatch):
    scored = []
    monkeypatch.setattr(module, "draw_number", lambda *law: 5)
    search = search_of(Cheap())
    make = search._private_scorer

    def watched(plan, generator):
        scorer = make(plan, generator)
        return lambda clf, X, y: (scored.append(X[:, 0]), scorer(clf, X, y))[1]

    monkeypatch.setattr(search, "_private_scorer", watched)
    search.fit(X, y)
    assert len(Cheap.seen) == len(scored) == 5
    for train, test in zip(Cheap.seen, scored, strict=True):
        np.testing.assert_array_equal(train, Cheap.seen[0])
        assert not set(train) & set(test) and len(train) + len(test) == 4000


def test_nothing_but_the_best_is_let_out(capsys):
    search = search_of(Cheap(verbose=1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, y)
    assert not any("one candidate" in str(w.message) for w in caught)
    assert capsys.readouterr() == ("", "")
    assert all(len(column) == 1 for column in search.cv_results_.values())
    held = [v for v in vars(search).values() if isinstance(v, Cheap)]
    assert len(held) == 2  # What was given, and the best.
    assert not any("candidates" in name and name.endswith("_") for name in vars(search))


def test_candidates_that_fail_are_the_worst_and_say_nothing():
    search = search_of(Cheap(), {"fails": [True, False]}, shape=np.inf, mean_candidates=8.0)
    assert search.fit(X, y).best_params_ == {"fails": False}
    search = search_of(Cheap(), {"fails": [True]})
    with (
        PrivacyLedger(np.inf, DELTA, allow_seeds=True) as ledger,
        pytest.raises(RuntimeError) as caught,
    ):
        search.fit(X, y)
    assert "secret" not in str(caught.value) and caught.value.__context__ is None
    assert ledger.spent_epsilon > 1.9


def test_a_search_that_is_ended_is_noted_as_failed(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Cheap, "fit", interrupted)
    with PrivacyLedger(np.inf, DELTA, allow_seeds=True) as ledger, pytest.raises(KeyboardInterrupt):
        search_of().fit(X, y)
    assert [one["status"] for one in ledger.records()] == ["failed"] and ledger.spent_epsilon > 1.9


def test_ties_are_broken_at_random(monkeypatch):
    monkeypatch.setattr(module, "draw_number", lambda *law: 3)
    search = search_of(params={"cut": [1.0, 2.0]})
    monkeypatch.setattr(search, "_run", lambda *args: 0.5)
    chosen = {search.set_params(random_state=s).fit(X, y).best_params_["cut"] for s in range(12)}
    assert chosen == {1.0, 2.0}


def test_the_better_candidate_is_found():
    search = search_of(params={"cut": [-2.0, 0.0, 2.0]}, mean_candidates=9.0, shape=np.inf).fit(
        X, y
    )
    assert search.best_params_ == {"cut": 0.0}
    assert search.best_score_ == pytest.approx(search.score(X, y), abs=0.05)
    assert list(search.classes_) == [0, 1] and search.n_features_in_ == 3


def test_a_seed_repeats_a_search_and_another_one_does_not():
    first, second, other = (search_of(random_state=s).fit(X, y) for s in (1, 1, 2))
    assert first.best_score_ == second.best_score_ != other.best_score_
    assert first.best_estimator_.threshold_ == second.best_estimator_.threshold_


def test_words_and_copies():
    frame, words = pd.DataFrame(X, columns=list("abc")), np.array(["no", "yes"])[y]
    search = clone(search_of()).fit(frame, pd.Series(words))
    assert set(search.predict(frame)) <= {"no", "yes"} and not hasattr(search, "predict_proba")


def test_a_search_has_the_intervals_of_its_best_estimator():
    bounds = {"data_norm": [1.0, 2.0]}
    of_labels = search_of(DPBayesianLogisticRegression(classes=[0, 1]), bounds)
    of_numbers = search_of(DPBayesianRidge((-4.0, 4.0)), bounds)
    assert not hasattr(of_labels, "prediction_interval")
    assert not hasattr(of_numbers, "probability_interval")
    assert not hasattr(search_of(), "posterior_interval")
    with pytest.raises(NotFittedError):
        of_labels.posterior_interval()
    best = of_labels.fit(X, y).best_estimator_
    assert np.array_equal(of_labels.posterior_interval(0.5), best.posterior_interval(0.5))
    mine, theirs = (one.probability_interval(X[:3], level=0.5) for one in (of_labels, best))
    assert mine.shape == (3, 2, 2) and np.array_equal(mine, theirs)
    best = of_numbers.fit(X, X[:, 1]).best_estimator_
    mine, theirs = (one.prediction_interval(X[:3], 0.5) for one in (of_numbers, best))
    assert mine.shape == (3, 2) and np.array_equal(mine, theirs)
    exposed = search_of(DPBayesianPoissonRegressor(9), bounds).fit(X, y, exposure=1.0 + y)
    twice = exposed.prediction_interval(X[:3], exposure=np.full(3, 2.0))
    assert np.all(twice >= exposed.prediction_interval(X[:3], exposure=np.ones(3)))


def test_the_package_estimators_in_a_pipeline():
    frame, words = pd.DataFrame(X, columns=list("abc")), np.array(["no", "yes"])[y]
    pipeline = make_pipeline(BoundedScaler(-5.0, 5.0), DPBayesianLogisticRegression())
    params = {"dpbayesianlogisticregression__data_norm": loguniform(0.1, 10.0)}
    search = search_of(pipeline, params, scoring="roc_auc", mean_candidates=2.0).fit(frame, words)
    assert search.predict_proba(frame).shape == (4000, 2)
    fit = search.best_estimator_[-1]
    assert fit.spent_epsilon_ <= search.plan_.fit_epsilon < search.spent_epsilon_ <= 2.0


ENCODERS = [
    OneHotEncoder(categories=[["north", "south"]], handle_unknown="ignore", sparse_output=False),
    DPOneHotEncoder(categories=[["north", "south"]]),
]


@pytest.mark.parametrize("encoder", ENCODERS, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_a_mixed_table_with_holes_is_searched_by_steps_that_spend_nothing(relation, encoder):
    frame = pd.DataFrame(X, columns=list("abc")).assign(region=np.where(y, "north", None))
    frame.loc[::5, "a"] = np.nan
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(BoundedScaler(-5.0, 5.0), DPImputer()), list("abc")),
            ("text", encoder, ["region"]),
        ]
    )
    last = Cheap(neighboring_relation=relation, public_size=None if relation[0] == "r" else 3000)
    search = search_of(
        make_pipeline(columns, last), {"cheap__cut": [0.0]}, neighboring_relation=relation
    )
    with PrivacyLedger(np.inf, DELTA, relation, allow_seeds=True) as ledger:
        search.fit(frame, y)
    assert ledger.spent == search.privacy_cost_ and 0 < search.spent_epsilon_ <= 2.0


SPENDER = ColumnTransformer([("a", DPQuantileScaler(epsilon=50.0), [0, 1, 2])])
MEDIANS = ColumnTransformer([("a", DPImputer("median", epsilon=50.0), [0, 1, 2])])
LISTS = ColumnTransformer([("a", DPOneHotEncoder(categories=[[0], "private", [1]]), [0, 1, 2])])


@pytest.mark.parametrize(
    "step, message",
    [
        (SPENDER, "only the last step spends"),
        (MEDIANS, "only the last step spends"),
        (LISTS, "only the last step spends"),
        (StandardScaler(), "StandardScaler"),
    ],
)
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_no_search_and_no_total_overlooks_what_other_steps_tell(step, message, relation):
    last = Cheap(neighboring_relation=relation, public_size=None if relation[0] == "r" else 3000)
    pipeline, params = make_pipeline(step, last), {"cheap__cut": [0.0]}
    with PrivacyLedger(np.inf, DELTA, relation, allow_seeds=True) as ledger:
        with pytest.raises(ValueError, match=message):
            search_of(pipeline, params, neighboring_relation=relation).fit(X, y)
        assert ledger.spent_epsilon == 0
    if relation == "replace_one":
        scorer = make_private_scorer("accuracy", epsilon=0.1)
        search = GridSearchCV(pipeline, params, scoring=scorer, cv=KFold(2)).fit(X, y)
        with pytest.raises(ValueError, match=message):
            total_privacy_cost(search)


def test_totals_count_the_steps_within_steps():
    pipeline = make_pipeline(SPENDER, Cheap())
    scorer, folds = make_private_scorer("accuracy", epsilon=0.1), KFold(2)
    results = cross_validate(pipeline, X, y, scoring=scorer, cv=folds, return_estimator=True)
    total = total_privacy_cost(results, cv=folds, scoring=scorer)
    assert total.epsilon(0.1) > results["estimator"][0][0].transformers_[0][1].spent_epsilon_ - 5


def test_of_searches_on_growing_parts_no_total_is_claimed():
    scorer = make_private_scorer("accuracy", epsilon=0.1)
    options = {"scoring": scorer, "cv": KFold(2), "min_resources": 500}
    search = HalvingGridSearchCV(Cheap(), {"cut": [0.0, 0.5, 1.0]}, **options).fit(X, y)
    with pytest.raises(ValueError, match="GridSearchCV"):
        total_privacy_cost(search)


def test_a_private_pipeline_is_charged_its_own_budget():
    pipeline = make_private_pipeline(BoundedScaler(-1, 1), Cheap(), delta=DELTA, epsilon=3.0)
    scorer = make_private_scorer("accuracy", epsilon=0.1)
    with PrivacyLedger(np.inf, DELTA) as ledger:
        search = GridSearchCV(pipeline, {"cheap__cut": [0.0]}, scoring=scorer, cv=KFold(2))
        total = total_privacy_cost(search.fit(X, y))
    # A fold and the refit, of three fits and two scores that the ledger counts.
    assert 3.0 < total.epsilon(DELTA) < ledger.spent_epsilon
    assert total.mu == pytest.approx(search.best_estimator_.privacy_cost_.mu * 2**0.5)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_table_of_private_size(seed):
    clf = Cheap(neighboring_relation="add_or_remove_one", public_size=3000)
    search = search_of(clf, neighboring_relation="add_or_remove_one", random_state=seed)
    cost = search.fit(X, y).privacy_cost_
    assert cost == search.fit(X[:3990], y[:3990]).privacy_cost_
    assert cost.neighboring_relation == "add_or_remove_one"


def test_where_selection_does_not_pay_it_says_so():
    search = search_of(epsilon=0.1)
    with pytest.warns(PrivacyWarning, match="does not pay"):
        search.fit(X[:400], y[:400])
    assert "does not pay" in str(search.privacy_plan(400))
    assert not search_of(epsilon=3.0).privacy_plan(40_000).warnings


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(params={"epsilon": [1.0]}), "search sets"),
        (
            dict(
                estimator=DPBayesianLogisticRegression(data_norm="auto"),
                params={"n_draws": [100]},
            ),
            "is learnt in every fit",
        ),
        (dict(estimator=BoundedScaler(-1, 1)), "private estimator"),
        (dict(estimator=Cheap(factor=1.01)), "not Gaussian, or exceeds"),
        (
            dict(
                delta=None,
                estimator=Cheap(public_size=5000),
                neighboring_relation="add_or_remove_one",
            ),
            "set delta",
        ),
        (dict(neighboring_relation="add_or_remove_one"), "public_size|neighboring_relation"),
        (dict(epsilon=0.0), "epsilon"),
        (dict(delta=0.0), "delta"),
        (dict(epsilon=1e-9), "too small"),
        (dict(mean_candidates=0.5), "mean_candidates"),
        (dict(test_size=1e-6), "test_size"),
        (dict(scoring="f1"), "scoring"),
        (dict(params={"no_such": [1]}), "no_such"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_spent(options, message):
    with (
        PrivacyLedger(np.inf, DELTA, allow_seeds=True) as ledger,
        pytest.raises(ValueError, match=message),
    ):
        search_of(**options).fit(X, y)
    assert ledger.spent_epsilon == 0


def test_a_plan_refuses_what_a_search_would_refuse():
    with pytest.raises(ValueError, match="private estimator"):
        search_of(estimator=BoundedScaler(-1, 1)).privacy_plan(2000)


def test_totals_know_of_weights_that_fits_were_given():
    estimator = DPBayesianLogisticRegression(
        sampler="sghmc", prior_scale=0.02, max_sample_weight=10.0, delta=DELTA, classes=[0, 1]
    )
    weighted = estimator._plan(100, 3, 2, max_sample_weight=10.0).cost
    assert weighted.mu > 2.0 * planned_cost(estimator, 100, 3, 2).mu
    assert planned_cost(estimator, 100, 3, 2, weighted=True).mu >= weighted.mu


KINDS = [
    DPBayesianLogisticRegression(classes=[0, 1], n_draws=50),
    DPBayesianLogisticRegression(classes=[0, 1], n_draws=50, sampler="dp_mh"),
    DPBayesianMLPClassifier(classes=[0, 1], hidden_layer_sizes=(2,), n_draws=10),
]


def test_kinds_of_models_get_the_form_of_cost_that_all_have():
    of_kinds = Pipeline([("model", KINDS[0])])
    search = search_of(of_kinds, {"model": KINDS}, scoring="accuracy", mean_candidates=2.0)
    plan = search.privacy_plan(4000)
    assert "is not Gaussian" in str(plan) and plan.not_gaussian
    # By the closed form: (2 + shape) epsilon_0 is the most, for runs that fail with delta_0.
    assert plan.fit_delta == pytest.approx(0.9 * DELTA / 2.0)
    assert plan.fit_epsilon < 2.0 <= 3.0 * plan.fit_epsilon
    for model in KINDS:
        own = clone(model).set_params(epsilon=plan.fit_epsilon, delta=plan.fit_delta)
        assert dominates(plan.fit_cost, own.privacy_plan(plan.n_train, 3, 2).cost)


class Pure(Cheap):
    """The same, at a cost that has no delta."""

    def privacy_plan(self, n_samples, n_features, n_classes=2):
        cost = PrivacyCost(self.neighboring_relation, pure_events=(PureMechanism(self.epsilon),))
        return SimpleNamespace(cost=cost, n_samples=n_samples)

    def fit(self, X, y):
        self.classes_, self.n_features_in_, self.threshold_ = np.arange(2), 3, self.cut
        self.plan_ = self.privacy_plan(len(X), 3)
        self.privacy_cost_ = self.plan_.cost
        charge(self.plan_, self)
        return self


@pytest.mark.parametrize("cuts", [(0.0, 1.5), (1.5, 0.0)])
def test_a_search_of_kinds_spends_its_plan_whatever_is_drawn(cuts):
    kinds = {"model": [Cheap(cut=cuts[0]), Pure(cut=cuts[1])]}
    for seed in range(2):
        search = search_of(Pipeline([("model", Cheap())]), kinds, random_state=seed)
        plan = search.privacy_plan(4000)
        with PrivacyLedger(np.inf, DELTA, allow_seeds=True) as ledger:
            search.fit(X, y)
        assert ledger.spent == search.privacy_cost_ == plan.cost
        assert 1.99 < search.spent_epsilon_ <= 2.0
        assert search.best_estimator_[-1].privacy_cost_.epsilon(plan.fit_delta) <= plan.fit_epsilon


def test_the_form_of_cost_is_that_of_what_may_be_drawn_not_of_what_is():
    rare = {"sampler": ["auto"] * 40 + ["dp_mh"]}
    for estimator, params, form in (
        (KINDS[0], rare, "DPBayesianLogisticRegression"),
        (KINDS[0], [{"data_norm": [1.0]}, {"sampler": ["dp_mh"]}], "DPBayesianLogisticRegression"),
        (KINDS[0], {"data_norm": loguniform(0.5, 2.0), "sampler": ["auto", "ops"]}, ""),
    ):
        assert search_of(estimator, params).privacy_plan(4000).not_gaussian == form


def test_the_best_of_runs_of_two_kinds_costs_no_more_than_is_said():
    """The exact law of the best, in the worst order, of runs that fail, answer at random or add noise."""
    mean, shift = 3.0, 0.15
    level, failure = 0.5, 1e-3
    bins = np.linspace(-4.0, 4.0, 201)
    noisy = np.diff(np.append(np.append(0.0, norm.cdf(bins)), 1.0))
    moved = np.diff(np.append(np.append(0.0, norm.cdf(bins, shift)), 1.0))
    assert max(0.0, np.maximum(moved - np.exp(level) * noisy, 0.0).sum()) <= failure
    answers = np.array([np.exp(level), 1.0]) / (1.0 + np.exp(level)) * (1.0 - failure)
    ours = np.concatenate([0.5 * moved, 0.5 * answers, [0.5 * failure, 0.0]])
    theirs = np.concatenate([0.5 * noisy, 0.5 * answers[::-1], [0.0, 0.5 * failure]])
    run = PrivacyCost(
        "replace_one", pure_events=(PureMechanism(level),), failure_probability=failure
    )
    claim = SelectedRun((run,), mean, 1.0)
    order = np.argsort(np.log(ours + 1e-300) - np.log(theirs + 1e-300))

    def best(law):
        below = np.append(0.0, np.cumsum(law[order]))
        return np.diff(below / mean / (1.0 - (1.0 - 1.0 / mean) * below))

    p, q = best(ours), best(theirs)
    assert p.sum() == pytest.approx(1.0)
    attained = []
    for epsilon in np.linspace(0.0, 1.6, 9):
        delta = np.maximum(p - np.exp(epsilon) * q, 0.0).sum()
        assert delta <= claim.delta(epsilon)
        attained.append(delta)
    assert attained[0] > 0.1 and 2e-4 < attained[-1] <= mean * failure
