"""Scorers in scikit-learn's tools, and what the whole of it has cost."""

import numpy as np
import pandas as pd
import pytest
from cheap import Cheap
from sklearn.datasets import make_classification
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import brier_score_loss, get_scorer
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_validate,
)
from sklearn.pipeline import make_pipeline

from skdpbayes import DPBayesianLogisticRegression, DPBayesianRidge
from skdpbayes.metrics import (
    dp_accuracy_score,
    dp_brier_score,
    dp_confusion_matrix,
    dp_log_loss,
    dp_mean_score,
    make_private_scorer,
)
from skdpbayes.model_selection import total_privacy_cost
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.privacy import PrivacyCost, PrivacyLedger, PureMechanism

X, y = make_classification(1200, 4, n_redundant=0, random_state=0)
words = np.array(["no", "yes"])[y]
FOLDS = KFold(4, shuffle=True, random_state=0)
DELTA = 1e-5


def private(epsilon=1.0):
    return Cheap(epsilon, DELTA, random_state=0)


@pytest.mark.parametrize("name", ["accuracy", "neg_log_loss", "neg_brier_score", "roc_auc"])
@pytest.mark.parametrize("labels", [y, words], ids=["numbers", "words"])
def test_without_noise_scorers_are_scikit_learns(name, labels):
    clf = LogisticRegression().fit(X, labels)
    scorer = make_private_scorer(name, epsilon=np.inf)
    exact = get_scorer(name)(clf, X, labels) if labels is y or name != "neg_brier_score" else None
    if exact is None:
        exact = -brier_score_loss(labels, clf.predict_proba(X)[:, 1], pos_label="yes")
    assert scorer(clf, X, labels) == pytest.approx(
        exact, abs=0.01 if name == "neg_log_loss" else 1e-6
    )


def test_three_classes_and_frames():
    X3, y3 = make_classification(
        900, 5, n_informative=4, n_classes=3, n_redundant=0, random_state=0
    )
    frame = pd.DataFrame(X3, columns=list("abcde"))
    clf = LogisticRegression().fit(frame, y3)
    for name in ("accuracy", "neg_log_loss"):
        scorer = make_private_scorer(name, epsilon=np.inf)
        exact = get_scorer(name)(clf, frame, y3)
        assert scorer(clf, frame, pd.Series(y3)) == pytest.approx(exact, abs=0.01)


def test_densities_are_scored_without_labels():
    options = {"epsilon": 1.0, "bounds": (-20.0, 5.0), "random_state": 0}
    scorer = make_private_scorer(dp_mean_score, response_method="score_samples", **options)
    mixture = GaussianMixture(2, random_state=0).fit(X)
    assert scorer(mixture, X) == pytest.approx(mixture.score(X), abs=0.2)


def test_every_call_is_charged_and_draws_new_noise():
    scorer = make_private_scorer("accuracy", epsilon=0.25, random_state=0)
    clf = LogisticRegression().fit(X, y)
    with PrivacyLedger(np.inf, DELTA, allow_seeds=True) as ledger:
        scores = {scorer(clf, X, y) for _ in range(8)}
    assert len(scores) > 1
    assert ledger.spent == PrivacyCost("replace_one", pure_events=(PureMechanism(0.25, 8),))


@pytest.mark.parametrize(
    "arguments, error",
    [
        (dict(score_func=dp_confusion_matrix, epsilon=1.0, labels=[0, 1]), TypeError),
        (dict(score_func=lambda y, p: 0.0, epsilon=1.0), TypeError),
        (dict(score_func="f1", epsilon=1.0), ValueError),
        (dict(score_func="accuracy", epsilon=-1.0), ValueError),
        (dict(score_func="accuracy", epsilon=1.0, pos_label=1), TypeError),
    ],
)
def test_scorers_of_which_nothing_is_known_are_refused(arguments, error):
    with pytest.raises(error):
        make_private_scorer(**arguments)


def test_the_total_of_a_cross_validation_is_that_of_a_record():
    scorer = make_private_scorer("accuracy", epsilon=0.2, random_state=0)
    results = cross_validate(private(), X, y, cv=FOLDS, scoring=scorer, return_estimator=True)
    fit = results["estimator"][0].privacy_cost_
    record = fit + fit + fit + scorer.privacy_cost
    assert total_privacy_cost(results, cv=FOLDS, scoring=scorer) == record
    split = ShuffleSplit(4, test_size=0.25, random_state=0)
    drawn = total_privacy_cost(results, cv=split, scoring=scorer)
    assert record.epsilon(DELTA) < drawn.epsilon(DELTA) < (record + fit + fit).epsilon(DELTA)


@pytest.mark.parametrize("train_scores", [False, True])
def test_the_total_of_a_search_is_less_than_all_that_ran(train_scores):
    scorer = make_private_scorer("accuracy", epsilon=0.2, random_state=0)
    search = GridSearchCV(
        make_pipeline(BoundedScaler(-5.0, 5.0), private()),
        {"cheap__epsilon": [0.5, 1.0]},
        cv=FOLDS,
        scoring=scorer,
        return_train_score=train_scores,
    )
    with PrivacyLedger(np.inf, DELTA, allow_seeds=True) as ledger:
        search.fit(X, y)
    fits = [private(epsilon).privacy_plan(900, 4).cost for epsilon in (0.5, 1.0)]
    record = search.best_estimator_[-1].privacy_cost_
    for fit in fits:
        record = record + fit + fit + fit + scorer.privacy_cost
        if train_scores:
            record = record + scorer.privacy_cost + scorer.privacy_cost + scorer.privacy_cost
    total = total_privacy_cost(search)
    assert total.mu == pytest.approx(record.mu) and total.pure_events == record.pure_events
    assert total.epsilon(DELTA) < ledger.spent_epsilon


@pytest.mark.nightly
def test_folds_of_other_sizes_are_planned_as_they_were():
    scorer = make_private_scorer("accuracy", epsilon=0.2, random_state=0)
    clf, folds = DPBayesianLogisticRegression(random_state=0), KFold(4)
    search = GridSearchCV(clf, {"epsilon": [1.0]}, cv=folds, scoring=scorer).fit(X[:1001], y[:1001])
    results = cross_validate(
        clf, X[:1001], y[:1001], cv=folds, scoring=scorer, return_estimator=True
    )
    folds_alone = total_privacy_cost(results, cv=folds, scoring=scorer)
    whole = folds_alone + search.best_estimator_.privacy_cost_
    assert total_privacy_cost(search).epsilon(DELTA) == pytest.approx(
        whole.epsilon(DELTA), rel=1e-6
    )


def test_nothing_is_claimed_where_nothing_can_be():
    scorer = make_private_scorer("accuracy", epsilon=0.2, random_state=0)
    results = cross_validate(private(), X, y, cv=FOLDS, scoring=scorer, return_estimator=True)
    for cv in (StratifiedKFold(4), 4):
        with pytest.raises(ValueError, match="KFold"):
            total_privacy_cost(results, cv=cv, scoring=scorer)
    with pytest.raises(ValueError, match="without noise"):
        total_privacy_cost(results, cv=FOLDS, scoring="accuracy")
    with pytest.raises(ValueError, match="return_estimator"):
        total_privacy_cost({"test_score": [1.0]}, cv=FOLDS, scoring=scorer)
    adding = make_private_scorer("accuracy", epsilon=0.2, neighboring_relation="add_or_remove_one")
    with pytest.raises(ValueError, match="add_or_remove_one"):
        total_privacy_cost(results, cv=FOLDS, scoring=adding)
    plain = cross_validate(
        LogisticRegression(), X, y, cv=FOLDS, scoring=scorer, return_estimator=True
    )
    with pytest.raises(ValueError, match="not private"):
        total_privacy_cost(plain, cv=FOLDS, scoring=scorer)


def test_scorers_refuse_models_that_predict_impossible_numbers():
    X = np.random.default_rng(0).uniform(-1, 1, (400, 1))
    y = np.r_[np.zeros(390), np.full(10, 9.0)][np.argsort(np.argsort(X[:, 0]))]
    deviance = make_private_scorer("neg_mean_poisson_deviance", epsilon=1.0)
    classes = LogisticRegression().fit(X, y > 0)
    cases = {
        "none below 0.*model of counts": (deviance, LinearRegression().fit(X, y), y),
        "DPBayesianRidge may predict neg": (deviance, DPBayesianRidge((0, 9)).fit(X, y), y),
        "reads what predict_proba": (make_private_scorer(dp_log_loss, epsilon=1.0), classes, y > 0),
        "what predict returns": (
            make_private_scorer(dp_accuracy_score, epsilon=1.0, response_method="predict_proba"),
            classes,
            y > 0,
        ),
    }
    with PrivacyLedger(np.inf, 1e-5) as ledger:
        for named, (scorer, model, true) in cases.items():
            with pytest.raises((ValueError, TypeError), match=named):
                scorer(model, X, true)
        assert ledger.spent_epsilon == 0


def test_what_a_model_predicts_is_of_the_rows_it_is_given():
    """A model may number its predictions itself."""
    X = pd.DataFrame({"a": np.arange(40.0)}, index=np.arange(40) + 7)
    y = (X["a"] > 19).astype(int)

    class Numbered(LogisticRegression):
        def predict(self, X):
            return pd.Series(super().predict(X))

        def predict_proba(self, X):
            return pd.DataFrame(super().predict_proba(X))

    model = Numbered().fit(X, y)
    for name in ("accuracy", "neg_brier_score", "neg_log_loss"):
        scorer = make_private_scorer(name, epsilon=np.inf)
        plain = scorer(LogisticRegression().fit(X, y), X.to_numpy(), y.to_numpy())
        assert scorer(model, X, y) == plain


@pytest.mark.parametrize("labels", [None, ["no", "yes"], ["yes", "no"]])
def test_the_order_of_labels_makes_no_difference(labels):
    clf = LogisticRegression().fit(X, words)
    given = {} if labels is None else {"labels": labels}
    score = make_private_scorer("neg_log_loss", epsilon=np.inf, **given)(clf, X, words)
    assert score == pytest.approx(get_scorer("neg_log_loss")(clf, X, words), abs=0.01)
    with pytest.raises(ValueError, match="not the estimator's classes"):
        make_private_scorer("neg_log_loss", epsilon=1.0, labels=["no", "maybe"])(clf, X, words)


def test_a_positive_label_that_leaves_two_others_is_refused():
    with PrivacyLedger(1.0, DELTA) as ledger:
        with pytest.raises(ValueError, match="for two classes"):
            dp_brier_score(y, np.full(len(y), 0.5), pos_label=7, epsilon=0.1)
        assert ledger.records() == []


def test_truth_values_in_a_list_are_labels():
    truth = [value > 0 for value in X[:, 0]]
    assert dp_accuracy_score(truth, truth, epsilon=np.inf) == 1.0
