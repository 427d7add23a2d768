"""A rehearsal leaves rows and steps as they are, and its errors quote no cell."""

import traceback
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from cheap import Cheap
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import VotingClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import PrivacyLeakWarning, SeedWarning
from skdpbayes.metrics import make_private_scorer
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import BoundedScaler, DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger

X = np.random.default_rng(0).normal(size=(400, 3))
Y = (X[:, 0] > 0).astype(int)


class InPlace(TransformerMixin, BaseEstimator):
    """Adds 1 to all rows where they are."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        X += 1.0
        return X


@pytest.mark.parametrize(
    "step, path",
    [
        (InPlace(), "inplace"),
        (FeatureUnion([("a", InPlace())]), "featureunion__a"),
        (ColumnTransformer([("a", InPlace(), slice(0, 3))]), "columntransformer__a"),
    ],
)
def test_a_step_that_works_in_place_finds_the_rows_as_they_are(step, path):
    rows = X.copy()
    last = DPBayesianLogisticRegression(classes=[5, 6])
    pipe = make_private_pipeline(step, last, delta=1e-5, learns_nothing=[path])
    with pytest.raises(ValueError, match="classes"):
        pipe.fit(rows, Y)
    np.testing.assert_array_equal(rows, X)


def test_what_a_step_learnt_elsewhere_is_kept():
    class Loaded(InPlace):
        def transform(self, X):
            return X * self.factor

    step = Loaded()
    step.factor = 2.0
    pipe = make_private_pipeline(step, Cheap(), delta=1e-5, learns_nothing=["loaded"])
    assert pipe.fit(X, Y).spent_epsilon_ <= 1.0


@pytest.mark.parametrize("form", [list, partial(np.array, dtype=object), pd.DataFrame])
def test_cells_that_other_branches_pass_on_are_not_quoted(form):
    table = form([["ab"[i % 2], "SECRETCELL" if i == 7 else 1.0, 2.0] for i in range(40)])
    encoder = OneHotEncoder(categories=[["a", "b"]], handle_unknown="ignore")
    step = ColumnTransformer([("o", encoder, [0])], remainder="passthrough", sparse_threshold=1.0)
    pipe = make_private_pipeline(step, Cheap(), delta=1e-5)
    with PrivacyLedger(np.inf, 1e-5) as ledger, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((ValueError, TypeError)) as caught:
            pipe.fit(table, [0, 1] * 20)
    assert "SECRETCELL" not in "".join(traceback.format_exception(caught.value))
    assert ledger.records() == []


def test_weights_of_branches_are_silent():
    rows = X.copy()
    rows[0, 0] = 1e308
    union = FeatureUnion([("p", "passthrough")], transformer_weights={"p": 3.7})
    last = DPBayesianLogisticRegression(classes=[0, 1])
    with np.errstate(all="raise"), pytest.raises(ValueError, match="infinity"):
        make_private_pipeline(union, last, delta=1e-5).fit(rows, Y)


def test_steps_that_are_replaced_in_a_fit_keep_their_parameters(tmp_path):
    scaler = DPQuantileScaler()
    for step, options in (
        (scaler, {"memory": str(tmp_path)}),
        (FeatureUnion([("s", scaler)], n_jobs=2), {}),
    ):
        pipe = make_private_pipeline(step, Cheap(), delta=1e-5, **options).fit(X, Y)
        assert (scaler.epsilon, scaler.delta) == (1.0, None)
        names = [name for name in pipe.get_params() if name.endswith("dpquantilescaler__epsilon")]
        assert all(pipe.get_params()[name] == 1.0 for name in names)


def test_a_search_is_no_step():
    search = DPRandomizedSearchCV(Cheap(), {"cut": [0.0]})
    for whole in (
        make_private_pipeline(BoundedScaler(-1, 1), search, delta=1e-5),
        DPRandomizedSearchCV(make_pipeline(search), {"dprandomizedsearchcv__shape": [1.0]}),
    ):
        with pytest.raises(ValueError, match="part of another plan"):
            whole.fit(X, Y)


def test_seeds_of_listed_steps_are_announced_once_or_refused():
    def search():
        seeded = Cheap(random_state=0)
        return DPRandomizedSearchCV(
            Pipeline([("m", Cheap())]), {"m": [seeded]}, mean_candidates=2.0, delta=1e-5
        )

    with PrivacyLedger(np.inf, 1e-5) as ledger:
        with pytest.raises(ValueError, match="allow_seeds"):
            search().fit(X, Y)
    assert ledger.records() == []
    with pytest.warns(SeedWarning) as caught:
        search().fit(X, Y)
    assert sum(issubclass(one.category, SeedWarning) for one in caught) == 1


def test_votes_of_pipelines_that_end_in_private_estimators_are_private():
    member = make_pipeline(BoundedScaler(-3, 3), DPBayesianLogisticRegression(classes=[0, 1]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyLeakWarning)
        VotingClassifier([("a", member), ("b", member)]).fit(X, Y)


def test_arguments_that_a_step_does_not_have_are_told_of_its_fit():
    pipe = make_private_pipeline(DPQuantileScaler(), DPBayesianLogisticRegression(classes=[0, 1]))
    weights = np.ones(400)
    with pytest.raises(TypeError, match=r"DPQuantileScaler\.fit\(\) got an unexpected keyword"):
        pipe.fit(X, Y, dpquantilescaler__sample_weight=weights)
    with pytest.raises(TypeError, match=r"DPBayesianLogisticRegression\.fit\(\) got an unexp"):
        pipe.fit(X, Y, dpbayesianlogisticregression__weights=weights)


def test_columns_of_one_name_are_named():
    frame = pd.DataFrame(X, columns=["a", "b", "a"])
    with PrivacyLedger(1.0, 1e-3) as ledger:
        with pytest.raises(ValueError, match=r"several columns named \['a'\]"):
            DPBayesianLogisticRegression(classes=[0, 1]).fit(frame, Y)
    assert ledger.records() == []


@pytest.mark.parametrize("label", ["a\udcff", "a\nb", ""])
def test_labels_of_a_ledger_are_printed_text(label):
    if label:
        with pytest.raises(ValueError, match="printable"):
            PrivacyLedger(1.0, 1e-5, label=label)
    else:
        assert PrivacyLedger(1.0, 1e-5, label=label).label == ""


def test_a_positive_label_that_no_class_has_is_refused_before_a_score():
    model = DPBayesianLogisticRegression(classes=[0, 1], n_draws=5, delta=1e-5).fit(X, Y)
    scorer = make_private_scorer("roc_auc", epsilon=0.1, pos_label=7)
    with PrivacyLedger(1.0, 1e-3) as ledger:
        with pytest.raises(ValueError, match="pos_label=7 is none"):
            scorer(model, X, Y)
    assert ledger.records() == []
