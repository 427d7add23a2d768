"""Groups with an index: rows in another order would protect the wrong persons, and are refused."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import GroupKFold, cross_val_score

from skdpbayes import DPBayesianLogisticRegression, DPBayesianMLPClassifier
from skdpbayes.metrics import dp_accuracy_score, dp_mean_score, make_private_scorer
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger

rng = np.random.default_rng(0)
N, PERSONS, DELTA = 900, 300, 1e-5
X = pd.DataFrame(rng.uniform(-1, 1, (N, 2)), columns=["a", "b"], index=rng.permutation(N) + 87_000)
Y = (X["a"] > 0).astype(int)
GROUPS = pd.Series(rng.integers(PERSONS, size=N), index=X.index)
OTHER = GROUPS.sample(frac=1.0, random_state=1)


def logistic(k=1):
    return DPBayesianLogisticRegression(
        classes=[0, 1], n_draws=20, data_norm=1.5, max_rows_per_group=k
    )


def pipeline():
    options = {"epsilon": 9.0, "delta": DELTA, "max_rows_per_group": 1}
    return make_private_pipeline(DPQuantileScaler(), logistic(None), **options)


def search(estimator):
    options = {"epsilon": 9.0, "delta": DELTA, "mean_candidates": 1.0}
    return DPRandomizedSearchCV(estimator, {"n_draws": [20]}, **options)


def network(X, y, groups):
    DPBayesianMLPClassifier(classes=[0, 1], max_rows_per_group=1).fit(X, y, groups=groups)


def mixture(X, y, groups):
    DPGaussianMixturePosterior(2, max_rows_per_group=1).fit(X, groups=groups)


FITTED = DPBayesianLogisticRegression(classes=[0, 1], n_draws=20, data_norm=1.5).fit(X, Y)
WAYS = {
    "estimator": lambda X, y, groups: logistic().fit(X, y, groups=groups),
    "network": network,
    "mixture": mixture,
    "pipeline": lambda X, y, groups: pipeline().fit(X, y, groups=groups),
    "search": lambda X, y, groups: search(logistic()).fit(X, y, groups=groups),
    "score": lambda X, y, groups: dp_accuracy_score(y, y, epsilon=1.0, groups=groups),
    "predictions": lambda X, y, groups: dp_accuracy_score(
        np.asarray(y), y, epsilon=1.0, groups=groups
    ),
    "values": lambda X, y, groups: dp_mean_score(y, epsilon=1.0, bounds=(0, 1), groups=groups),
    "scorer": lambda X, y, groups: make_private_scorer("accuracy", epsilon=1.0)(
        FITTED, X, np.asarray(y), groups=groups
    ),
}
QUICK = [name for name in WAYS if name not in ("network", "mixture")]


@pytest.mark.parametrize("kind", ["series", "frame"])
@pytest.mark.parametrize("name", WAYS)
def test_groups_in_another_order_are_refused_before_the_charge(name, kind):
    groups = OTHER if kind == "series" else OTHER.to_frame("person")
    with PrivacyLedger(50.0, 1e-4, "replace_one_person") as ledger:
        with pytest.raises(
            ValueError, match=r"^groups has another index than \w+, .*to_numpy"
        ) as e:
            WAYS[name](X, Y, groups)
    assert ledger.spent_epsilon == 0 and not ledger.records()
    assert not any(str(label) in str(e.value) for label in (*X.index, *range(100, PERSONS)))


@pytest.mark.daily(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", QUICK)
def test_groups_of_the_same_index_or_without_one_are_taken_as_they_are(name):
    for groups in (GROUPS, GROUPS.to_frame("person"), GROUPS.to_numpy(), OTHER.to_numpy().tolist()):
        WAYS[name](X, Y, groups)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", QUICK)
def test_rows_without_an_index_leave_the_order_to_whoever_passes_it(name):
    WAYS[name](X.to_numpy(), Y.to_numpy(), OTHER)


def test_labels_have_the_order_of_rows_where_only_they_have_an_index():
    with pytest.raises(ValueError, match="groups has another index than y"):
        logistic().fit(X.to_numpy(), Y, groups=OTHER)


@pytest.mark.filterwarnings("ignore")
def test_folds_keep_groups_and_rows_together():
    """Tools of scikit-learn take parts of both by their places, with their indices."""
    with sklearn.config_context(enable_metadata_routing=True):
        clf = logistic().set_fit_request(groups=True)
        scorer = make_private_scorer("accuracy", epsilon=1.0).set_score_request(groups=True)
        options = {"cv": GroupKFold(2, shuffle=True), "scoring": scorer, "error_score": "raise"}
        assert len(cross_val_score(clf, X, Y, params={"groups": GROUPS}, **options)) == 2
        with pytest.raises(ValueError, match="groups has another index than X"):
            cross_val_score(clf, X, Y, params={"groups": OTHER}, **options)


def test_the_name_of_a_column_is_no_column():
    with pytest.raises(TypeError, match=r"pass the column itself, e\.g\. groups=df\['person'\]"):
        logistic().fit(X, Y, groups="person")
