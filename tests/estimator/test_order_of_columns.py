"""Labels, predictions, weights, exposures with an index: of other rows they are refused, as groups are."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
)
from skdpbayes.audit import audit_fit, replay
from skdpbayes.inspection import average_marginal_effects
from skdpbayes.metrics import (
    dp_accuracy_score,
    dp_brier_score,
    dp_calibration_curve,
    dp_confusion_matrix,
    dp_log_loss,
    dp_mean_absolute_error,
    dp_mean_poisson_deviance,
    dp_mean_squared_error,
    dp_r2_score,
    dp_roc_auc_score,
    make_private_scorer,
)
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.privacy import PrivacyLedger

rng = np.random.default_rng(0)
N = 300
X = pd.DataFrame(rng.uniform(-1, 1, (N, 2)), columns=["a", "b"], index=rng.permutation(N) + 87_000)
Y = (X["a"] > 0).astype(int)
OWN = pd.Series(rng.uniform(0.5, 1.0, N), index=X.index)
OTHER = OWN.sample(frac=1.0, random_state=1)
CHEAP = {"data_norm": 1.5, "n_draws": 20}


def logistic():
    return DPBayesianLogisticRegression(classes=[0, 1], **CHEAP)


def counts():
    return DPBayesianPoissonRegressor(5, sampler="ops", data_norm=1.5)


FITTED = counts().fit(X, Y, exposure=OWN)
PIPE = {"dpbayesianlogisticregression__sample_weight": None}
WAYS = {
    "classes": ("sample_weight", lambda X, c: logistic().fit(X, Y, sample_weight=c)),
    "numbers": (
        "sample_weight",
        lambda X, c: DPBayesianRidge((0, 1), **CHEAP).fit(X, Y, sample_weight=c),
    ),
    "counts": ("exposure", lambda X, c: counts().fit(X, Y, exposure=c)),
    "pipeline": (
        "sample_weight",
        lambda X, c: make_private_pipeline(BoundedScaler(-1, 1), logistic(), epsilon=9.0).fit(
            X, Y, **dict.fromkeys(PIPE, c)
        ),
    ),
    "search": (
        "exposure",
        lambda X, c: DPRandomizedSearchCV(
            DPBayesianPoissonRegressor(5, sampler="sghmc"),
            {"data_norm": [1.5]},
            epsilon=9.0,
            mean_candidates=1.0,
        ).fit(X, Y, exposure=c),
    ),
    "score": (
        "exposure",
        lambda X, c: make_private_scorer("neg_mean_poisson_deviance", epsilon=1.0)(
            FITTED, X, np.asarray(Y), exposure=c
        ),
    ),
    "prediction": ("exposure", lambda X, c: FITTED.predict(X, exposure=c)),
    "interval": ("exposure", lambda X, c: FITTED.prediction_interval(X, exposure=c)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WAYS)
def test_columns_in_another_order_are_refused_before_the_charge(name):
    called, way = WAYS[name]
    said = rf"{called} has another index than X, .* would get those of other rows: .*to_numpy"
    with PrivacyLedger(50.0, 1e-4) as ledger:
        with pytest.raises(ValueError, match=said) as raised:
            way(X, OTHER)
    assert ledger.spent_epsilon == 0 and not ledger.records()
    assert not any(str(label) in str(raised.value) for label in X.index)


@pytest.mark.daily(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in WAYS if name != "search"])
def test_columns_of_the_same_index_or_without_one_are_taken_as_they_are(name):
    for column in (OWN, OWN.to_numpy(), OTHER.to_numpy().tolist()):
        WAYS[name][1](X, column)


FORMULA = "y ~ bounded(a, -1, 1)"
MODEL = DPBayesianLogisticRegression(classes=[0, 1], **CHEAP).fit(X, Y)
SCORED = {
    "accuracy": dp_accuracy_score,
    "log loss": dp_log_loss,
    "brier": dp_brier_score,
    "auc": dp_roc_auc_score,
    "curve": dp_calibration_curve,
    "matrix": partial(dp_confusion_matrix, labels=[0, 1]),
    "squares": partial(dp_mean_squared_error, target_bounds=(0, 1)),
    "distances": partial(dp_mean_absolute_error, target_bounds=(0, 1)),
    "r2": partial(dp_r2_score, target_bounds=(0, 1)),
    "deviance": dp_mean_poisson_deviance,
}


def pipeline():
    return make_private_pipeline(BoundedScaler(-1, 1), logistic(), epsilon=9.0)


PIPELINE = pipeline().fit(X, Y)
ARRAYS = FunctionTransformer(np.asarray)
BEHIND = make_pipeline(ARRAYS, logistic()).fit(X, Y)
OF_LABELS = {
    "classes": lambda X, y: logistic().fit(X, y),
    "numbers": lambda X, y: DPBayesianRidge((0, 1), **CHEAP).fit(X, y),
    "counts": lambda X, y: counts().fit(X, y),
    "network": lambda X, y: DPBayesianMLPClassifier((2,), classes=[0, 1]).fit(X, y),
    "formula": lambda X, y: DPBayesianLogisticRegression.from_formula(FORMULA).fit(X, y),
    "pipeline": lambda X, y: pipeline().fit(X, y),
    "another pipeline": lambda X, y: make_pipeline(BoundedScaler(-1, 1), logistic()).fit(X, y),
    "arrays": lambda X, y: make_pipeline(ARRAYS, logistic()).fit(X, y),
    "numbered": lambda X, y: VotingClassifier([("one", logistic())]).fit(X, y),
    "one against the rest": lambda X, y: OneVsRestClassifier(logistic()).fit(X, y),
    "score of arrays": lambda X, y: BEHIND.score(X, y),
    "search": lambda X, y: DPRandomizedSearchCV(
        logistic(), {"data_norm": [1.5]}, epsilon=9.0, mean_candidates=1.0
    ).fit(X, y),
    "grid": lambda X, y: GridSearchCV(
        logistic(), {"data_norm": [1.5]}, cv=KFold(2), error_score="raise"
    ).fit(X, y),
    "scorer": lambda X, y: make_private_scorer("accuracy", epsilon=1.0)(MODEL, X, y),
    "scorer of a pipeline": lambda X, y: make_private_scorer("accuracy", epsilon=1.0)(
        PIPELINE, X, y
    ),
    "score": lambda X, y: MODEL.score(X, y),
    "score of counts": lambda X, y: FITTED.score(X, y, exposure=OWN.to_numpy()),
    "score of a pipeline": lambda X, y: PIPELINE.score(X, y),
    "replay": lambda X, y: replay(logistic(), X, y, ([1.0, 1.0], 1)),
    "audit": lambda X, y: audit_fit(logistic(), X, y, n_runs=2),
}
OF_LABELS |= {
    name: lambda X, y, score=score: score(X["a"] > 0, y, epsilon=1.0)
    for name, score in SCORED.items()
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["series", "frame"])
@pytest.mark.parametrize("name", OF_LABELS)
def test_labels_in_another_order_than_rows_are_refused_unspent(name, kind):
    other = Y.sample(frac=1.0, random_state=1)
    with PrivacyLedger(50.0, 1e-4) as ledger:
        with pytest.raises(ValueError, match=r"^y\w* has another index than \w+, ") as raised:
            OF_LABELS[name](X, other if kind == "series" else other.to_frame("label"))
    assert ledger.spent_epsilon == 0 and not ledger.records()
    assert not any(str(label) in str(raised.value) for label in X.index)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["classes", "scorer", "score", "score of a pipeline", *SCORED])
def test_labels_of_the_same_index_or_without_one_are_taken(name):
    """An index counts by its labels, whatever their type; numbers from 0 are labels like others."""
    same = Y.set_axis(X.index.astype(float))
    for column in (Y, Y.to_numpy(), same, Y.to_numpy().tolist(), pl.Series(Y.to_numpy())):
        OF_LABELS[name](X, column)
    with pytest.raises(ValueError, match="another index"):
        OF_LABELS[name](X, Y.reset_index(drop=True))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", ["classes", "formula", "pipeline", "scorer", "score", "score of a pipeline"]
)
def test_labels_of_partitions_are_compared_where_they_are(name):
    dd = pytest.importorskip("dask.dataframe")
    own, labels = (dd.from_pandas(one, npartitions=3, sort=False) for one in (X, Y))
    OF_LABELS[name](own, labels)
    with PrivacyLedger(50.0, 1e-4) as ledger:
        with pytest.raises(ValueError, match=r"^y\w* has another index than X"):
            OF_LABELS[name](own, labels.map_partitions(lambda part: part.iloc[::-1]))
    assert ledger.spent_epsilon == 0


def test_steps_may_number_rows_anew():
    """Rows are compared with labels before the first step."""
    step = FunctionTransformer(lambda rows: rows.reset_index(drop=True))
    options = {"epsilon": 9.0, "learns_nothing": ["functiontransformer"]}
    pipe = make_private_pipeline(step, logistic(), **options)
    assert pipe.fit(X, Y).score(X, Y) > 0.7
    search = DPRandomizedSearchCV(
        make_private_pipeline(step, logistic(), learns_nothing=["functiontransformer"]),
        {"dpbayesianlogisticregression__data_norm": [1.5]},
        epsilon=9.0,
        mean_candidates=1.0,
    )
    search.fit(X, Y)
    for act in (pipe.fit, pipe.score, search.fit):
        with pytest.raises(ValueError, match="y has another index than X"):
            act(X, Y.sample(frac=1.0, random_state=1))


def test_weights_of_public_rows_are_compared_too():
    with pytest.raises(ValueError, match="row_weights has another index than X_public"):
        average_marginal_effects(MODEL, X, row_weights=OTHER)
