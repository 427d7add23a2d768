"""A search refuses what its candidates or its score would refuse, and then nothing is spent."""

import warnings

import numpy as np
import pandas as pd
import pytest
from cheap import Cheap
from sklearn.pipeline import make_pipeline

from skdpbayes import DPBayesianLogisticRegression, DPBayesianRidge
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.metrics import dp_log_loss, dp_mean_score, make_private_scorer
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPImputer, DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger

N = 800
X = np.random.default_rng(0).normal(size=(N, 3))
y = (X[:, 0] > 0).astype(int)
SECRET = "secret-4711"
THREE = np.arange(N) % 3


def logistic(**options):
    return DPBayesianLogisticRegression(random_state=0, **options)


def search(estimator=None, params=None, **options):
    estimator = logistic() if estimator is None else estimator
    prefix = "dpbayesianlogisticregression__" if hasattr(estimator, "steps") else ""
    options = {"delta": 1e-5, "mean_candidates": 2.0, "random_state": 0} | options
    return DPRandomizedSearchCV(estimator, params or {f"{prefix}data_norm": [1.0]}, **options)


def with_cell(value, kind=float, row=7):
    table = X.astype(kind)
    table[row, 1] = value
    return table


def scorer(score, **options):
    return make_private_scorer(score, epsilon=1.0, **options)


# One row of a rare label, which is either fitted on or scored.
RARE = np.where(np.arange(N) == 5, 2, y)
REFUSED = {
    **{
        f"a score of numbers, {score}": (
            lambda score=score: search(logistic(classes=[0, 1]), scoring=score).fit(X, y),
            "no bounds of responses",
        )
        for score in ("r2", "neg_mean_squared_error", "neg_mean_absolute_error")
    },
    "a score of counts": (
        lambda: search(logistic(classes=[0, 1]), scoring="neg_mean_poisson_deviance").fit(X, y),
        "predicts classes",
    ),
    "learnt bounds in a pipeline": (
        lambda: search(
            make_private_pipeline(DPQuantileScaler(), DPBayesianRidge()),
            {"dpbayesianridge__prior_scale": [1.0, 3.0]},
            epsilon=50.0,
        ).fit(X, X[:, 0]),
        "bounds of responses that are learnt",
    ),
    "a mean of probabilities of three classes": (
        lambda: search(
            logistic(classes=[0, 1, 2]),
            scoring=scorer(dp_mean_score, bounds=(0, 1), response_method="predict_proba"),
        ).fit(X, THREE),
        "gives none",
    ),
    "a number instead of values": (
        lambda: search(params={"data_norm": 1.0}).fit(X, y),
        "list of values",
    ),
    "NaN": (lambda: search().fit(with_cell(np.nan), y), "DPImputer"),
    "NaN in a pipeline": (
        lambda: search(make_pipeline(BoundedScaler(-3, 3), logistic())).fit(with_cell(np.nan), y),
        "DPImputer",
    ),
    "infinity": (lambda: search().fit(with_cell(np.inf), y), "infinity"),
    "text": (lambda: search().fit(with_cell(SECRET, object), y), "X holds text"),
    "a short y": (lambda: search().fit(X, y[:-1]), "inconsistent"),
    "no y": (lambda: search().fit(X), "requires y"),
    "no y, an estimator from elsewhere": (lambda: search(Cheap(), {"cut": [0.0]}).fit(X), "y"),
    "a label that is not declared": (
        lambda: search(logistic(classes=[0, 1])).fit(X, np.where(y, SECRET, "no")),
        "not in classes",
    ),
    "a missing label": (
        lambda: search().fit(X, np.where(X[:, 1] > 2, np.nan, y)),
        "without a label",
    ),
    "one class": (lambda: search().fit(X, 0 * y), "needs two"),
    "one class to fit on": (
        lambda: search(test_size=0.999).fit(X, np.arange(N) % 2 * (np.arange(N) < 2)),
        "needs two",
    ),
    "a rank of three classes": (
        lambda: search(scoring="roc_auc").fit(X, THREE),
        "for two classes, and there are 3",
    ),
    "a rank of three declared classes": (
        lambda: search(logistic(classes=[0, 1, 2]), scoring="roc_auc").fit(X, y),
        "for two classes, and there are 3",
    ),
    "a Brier score of three classes": (
        lambda: search(scoring="neg_brier_score").fit(X, THREE),
        "for two classes, and there are 3",
    ),
    "probabilities that there are not": (
        lambda: search(Cheap(), {"cut": [0.0]}, scoring="neg_log_loss").fit(X, y),
        "none of predict_proba",
    ),
    "probabilities that a pipeline does not have": (
        lambda: search(
            make_pipeline(BoundedScaler(-1, 1), Cheap()), {"cheap__cut": [0.0]}, scoring="roc_auc"
        ).fit(X, y),
        "none of decision_function, predict_proba",
    ),
    "labels of a score, too many": (
        lambda: search(
            scoring=scorer(dp_log_loss, response_method="predict_proba", labels=[0, 1, 2])
        ).fit(X, y),
        "labels lists 3 labels",
    ),
    "labels of a score, others": (
        lambda: search(
            scoring=scorer(dp_log_loss, response_method="predict_proba", labels=["a", "b"])
        ).fit(X, y),
        "different kinds",
    ),
    "a positive label of another kind": (
        lambda: search(scoring=scorer("roc_auc", pos_label="yes")).fit(X, y),
        "none of the estimator's classes",
    ),
    "an accuracy of a mixture": (
        lambda: search(DPGaussianMixturePosterior(), {"n_components": [2]}).fit(X),
        "y is None",
    ),
    "a parameter of some candidates": (
        lambda: search(params={"prior_scale": [-1.0]}).fit(X, y),
        "prior_scale",
    ),
    "a plan that there is not": (
        lambda: search(logistic(sampler="noise_aware")).fit(X, np.arange(N) % 100),
        "coefficients",
    ),
    "a table of one dimension": (lambda: search().fit(X[:, 0], y), "rows and columns"),
    "no rows": (lambda: search().fit(X[:0], y[:0]), "0 sample"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_costs_nothing_and_quotes_nothing(name):
    call, message = REFUSED[name]
    with PrivacyLedger(np.inf, 1e-5, allow_seeds=True) as ledger:
        with pytest.raises((ValueError, TypeError, AttributeError), match=message) as caught:
            call()
        assert ledger.records() == []
    assert SECRET not in str(caught.value) and caught.value.__context__ is None


@pytest.mark.parametrize("row", range(0, 40, 8))
def test_a_bad_cell_is_found_in_rows_to_fit_on_and_in_rows_to_score(row):
    with (
        PrivacyLedger(np.inf, 1e-5, allow_seeds=True) as ledger,
        pytest.raises(ValueError, match="DPImputer"),
    ):
        search(test_size=0.5).fit(with_cell(np.nan, row=row), y)
    assert ledger.records() == []


@pytest.mark.nightly
def test_a_label_that_is_only_scored_is_found():
    """Without declared classes, those of the rows to fit on count."""
    found = set()
    for seed in range(8):
        one = search(test_size=0.5, random_state=seed, scoring="neg_log_loss")
        with PrivacyLedger(np.inf, 1e-5, allow_seeds=True) as ledger:
            try:
                one.fit(X, RARE)
                found.add("fitted")
            except ValueError as error:
                assert "not in labels" in str(error) and ledger.records() == []
                found.add("refused")
    assert found == {"fitted", "refused"}


TAKEN = {
    "three classes": lambda: search(scoring="neg_log_loss").fit(X, THREE),
    "text labels, by rank": lambda: search(scoring="roc_auc").fit(X, np.where(y, "b", "a")),
    "text labels, from elsewhere": lambda: search(Cheap(), {"cut": [0.0]}).fit(
        X, np.where(y, "yes", "no")
    ),
    "a frame with holes": lambda: search(
        make_pipeline(BoundedScaler(-3, 3), DPImputer(), logistic())
    ).fit(pd.DataFrame(with_cell(np.nan), columns=list("abc")), pd.Series(y)),
    "lists": lambda: search().fit(X.tolist(), y.tolist()),
    "densities": lambda: search(
        DPGaussianMixturePosterior(n_draws=5),
        {"n_components": [2]},
        scoring=scorer(dp_mean_score, bounds=(-9.0, 0.0), response_method="score_samples"),
    ).fit(X),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", TAKEN)
def test_what_a_search_takes_is_not_refused_before(name):
    with PrivacyLedger(np.inf, 1e-5, allow_seeds=True) as ledger:
        found = TAKEN[name]()
    assert [one["status"] for one in ledger.records()] == ["completed"]
    assert np.isfinite(found.best_score_)


@pytest.mark.nightly
def test_an_empty_choice_is_refused_and_one_of_a_single_candidate_is_told():
    with pytest.raises(ValueError, match="empty"):
        DPRandomizedSearchCV(logistic(), []).fit(X, y)
    with pytest.warns(PrivacyWarning, match="one candidate"):
        search(Cheap(), {"cut": [0.0]}).fit(X, y)


def test_a_memory_keeps_nothing_of_candidates(tmp_path):
    pipe = make_private_pipeline(DPQuantileScaler(), logistic(), memory=str(tmp_path))
    search(pipe, {"dpbayesianlogisticregression__prior_scale": [1.0, 2.0]}, epsilon=20.0).fit(X, y)
    assert not list(tmp_path.rglob("*.pkl"))


@pytest.mark.nightly
def test_warnings_do_not_tell_how_many_candidates_there_were():
    """A delta that is too large is warned of by the search itself, and by the one fit that it returns."""
    X = np.random.default_rng(0).normal(size=(500, 2))
    counts = []
    for _ in range(3):
        search = DPRandomizedSearchCV(
            DPBayesianLogisticRegression(classes=[0, 1]), {"data_norm": [1.0, 2.0]}, delta=0.01
        )
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            search.fit(X, X[:, 0] > 0)
        counts.append(sum("above 1 / n" in str(one.message) for one in told))
    assert counts[0] >= 1 and len(set(counts)) == 1


@pytest.mark.parametrize("name", ["X", "y"])
def test_tables_in_dask_are_refused_plainly(name):
    dd = pytest.importorskip("dask.dataframe")
    table = {"X": pd.DataFrame(X), "y": pd.Series(y)}
    table[name] = dd.from_pandas(table[name], npartitions=2)
    with PrivacyLedger(10.0, 1e-3, allow_seeds=True) as ledger:
        with pytest.raises(
            TypeError, match=rf"searches read tables in memory: pass {name}\.compute"
        ):
            search().fit(table["X"], table["y"])
    assert ledger.spent_epsilon == 0
