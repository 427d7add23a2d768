"""Tables of other libraries are read like NumPy's, or refused by name before anything is spent."""

import datetime

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPBayesianRidge,
    DPGaussianMixturePosterior,
)
from skdpbayes.metrics import dp_accuracy_score, dp_mean_score
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    RowNormClipper,
)
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.samplers import SGHMC

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 2))
Y = np.arange(200) % 2
DATES = np.full((200, 2), 18_000, dtype="datetime64[D]")


def logistic():
    return DPBayesianLogisticRegression(n_draws=10, random_state=0)


def search():
    return DPRandomizedSearchCV(
        DPBayesianLogisticRegression(classes=[0, 1]), {"data_norm": [1.0]}, random_state=0
    )


ESTIMATORS = {
    "logistic": logistic,
    "network": lambda: DPBayesianMLPClassifier(
        (2,), sampler=SGHMC(n_steps=3), n_draws=1, random_state=0
    ),
    "mixture": lambda: DPGaussianMixturePosterior(n_draws=5, random_state=0),
    "BoundedScaler": lambda: BoundedScaler(-1.0, 1.0),
    "RowNormClipper": RowNormClipper,
    "DPQuantileScaler": lambda: DPQuantileScaler(random_state=0),
    "DPImputer": lambda: DPImputer("median", random_state=0),
    "DPOneHotEncoder": lambda: DPOneHotEncoder(random_state=0),
}


def frame(values):
    return pd.DataFrame(values, columns=["a", "b"])


REFUSED = {
    "masked": (np.ma.array(X, mask=X > 2), "masked array.*filled"),
    "masked rows": ([np.ma.array(row, mask=row > 2) for row in X], "masked array.*filled"),
    "not computed": (pl.LazyFrame({"a": X[:, 0]}), r"LazyFrame.*X.collect\(\)"),
    "not computed, narwhals": (nw.from_native(pl.LazyFrame({"a": X[:, 0]})), "LazyFrame.*collect"),
    "dates": (DATES, "dates"),
    "durations": (DATES - DATES[0, 0], "dates"),
    "dates in objects": (DATES.astype(object), "dates|real number|text nor numbers"),
    "NumPy's dates in objects": (np.array([[*row] for row in DATES], dtype=object), "dates"),
    "a list of dates": ([[datetime.date(2020, 1, 1)] * 2] * 200, "dates|real number"),
    "a list of NumPy's dates": ([[*row] for row in DATES], "dates"),
    "a frame of dates": (frame(DATES.astype("datetime64[ns]")), "dates"),
    "a frame of durations": (frame((DATES - DATES[0, 0]).astype("m8[s]")), "dates"),
    "a frame of NumPy's dates": (frame(np.array([[*row] for row in DATES], object)), "dates"),
    "polars' dates": (pl.DataFrame({"a": DATES[:, 0], "b": DATES[:, 0]}), "dates"),
}


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
@pytest.mark.parametrize("which", REFUSED)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_is_no_table_of_numbers_is_refused_by_name(name, which):
    table, named = REFUSED[which]
    fitted = ESTIMATORS[name]().fit(X, Y)
    with PrivacyLedger(100.0, 0.01) as ledger:
        for method in (
            ESTIMATORS[name]().fit,
            getattr(fitted, "predict", None) or fitted.transform,
        ):
            with pytest.raises((TypeError, ValueError), match=named):
                method(table, *([Y] if method.__name__ == "fit" else []))
    assert ledger.spent_epsilon == 0


@pytest.mark.parametrize("column", [np.ma.array(Y, mask=Y), pl.LazyFrame({"y": Y})])
def test_columns_are_refused_alike(column):
    with PrivacyLedger(100.0, 0.01) as ledger:
        for act in (
            lambda: logistic().fit(X, column),
            lambda: logistic().fit(X, Y, sample_weight=column),
            lambda: logistic().set_params(max_rows_per_group=1).fit(X, Y, groups=column),
            lambda: search().fit(X, column),
            lambda: dp_accuracy_score(Y, column, epsilon=1.0),
            lambda: dp_mean_score(column, bounds=(0.0, 1.0), epsilon=1.0),
        ):
            with pytest.raises(TypeError, match="masked array|collect"):
                act()
    assert ledger.spent_epsilon == 0


def test_dates_are_no_weights_and_no_scores():
    for act in (
        lambda: logistic().fit(X, Y, sample_weight=DATES[:, 0]),
        lambda: dp_mean_score(DATES[:, 0], bounds=(0.0, 1.0), epsilon=1.0),
        lambda: dp_mean_score(list(DATES[:, 0]), bounds=(0.0, 1.0), epsilon=1.0),
    ):
        with pytest.raises(ValueError, match="dates"):
            act()


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
@pytest.mark.parametrize("native", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_frame_of_narwhals_is_what_it_wraps(name, native):
    wrapped = nw.from_native(native({"age": X[:, 0], "income": X[:, 1]}))
    labels = nw.from_native(pl.Series(Y), series_only=True)
    one = ESTIMATORS[name]().fit(wrapped, labels)
    assert list(one.feature_names_in_) == ["age", "income"]
    method = "predict" if hasattr(one, "predict") else "transform"
    plain = ESTIMATORS[name]().fit(wrapped.to_native(), Y)
    results = [getattr(est, method)(wrapped) for est in (one, plain)]
    np.testing.assert_array_equal(*results)


class Elsewhere:
    """An array of another library, which gives itself to NumPy if it is asked."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.shape, self.ndim, self.dtype = self.values.shape, self.values.ndim, self.values.dtype

    def __array__(self, dtype=None, copy=None):
        return self.values.astype(dtype or self.dtype)

    def __len__(self):
        return len(self.values)

    def __array_namespace__(self, **_):
        raise AssertionError("this table was about to be read by another library than NumPy")


def jax_arrays(values):
    return pytest.importorskip("jax").numpy.asarray(values)


@pytest.mark.filterwarnings("ignore::skdpbayes.exceptions.PrivacyWarning")
@pytest.mark.parametrize("container", [Elsewhere, jax_arrays])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_arrays_of_other_libraries_become_numpy_s(name, container, monkeypatch):
    """With array API dispatch, scikit-learn would leave them as they are."""
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    table, labels = container(X.astype(np.float32)), container(Y)
    plain = ESTIMATORS[name]().fit(X.astype(np.float32), Y)
    with sklearn.config_context(array_api_dispatch=True):
        one = ESTIMATORS[name]().fit(table, labels)
        if hasattr(one, "transform"):
            result = one.transform(table)
            assert type(result) is np.ndarray
            np.testing.assert_array_equal(result, plain.transform(X.astype(np.float32)))
        else:
            np.testing.assert_array_equal(one.predict(table), plain.predict(X.astype(np.float32)))
            assert one.score(table, labels) == plain.score(X.astype(np.float32), Y)


def test_finite_numbers_are_checked_even_if_scikit_learn_is_told_not_to():
    """A clipped sum has no bound if a row is no number."""
    table = X.copy()
    table[3, 1] = np.nan
    with sklearn.config_context(assume_finite=True), PrivacyLedger(100.0, 0.01) as ledger:
        for make in ("logistic", "network", "mixture", "RowNormClipper"):
            with pytest.raises(ValueError, match="contains NaN"):
                ESTIMATORS[make]().fit(table, Y)
    assert ledger.spent_epsilon == 0


@pytest.mark.parametrize("kind", [int, bool, float])
def test_labels_that_are_objects_are_fitted_and_scored_as_numbers(kind):
    X = np.linspace(-1.0, 1.0, 400)[:, None]
    y = (X[:, 0] > 0).astype(kind)
    fits = [
        DPBayesianLogisticRegression(epsilon=20.0, classes=[0, 1], n_draws=5, random_state=0).fit(
            X, one
        )
        for one in (y, y.astype(object))
    ]
    scores = [fit.score(X, one) for fit in fits for one in (y, y.astype(object))]
    assert len(set(scores)) == 1 and scores[0] > 0.9
    learnt = DPBayesianLogisticRegression(epsilon=20.0, n_draws=5, random_state=0)
    if kind is not float:
        assert learnt.fit(X, y.astype(object)).score(X, y.astype(object)) == scores[0]


@pytest.mark.parametrize(
    "model", [DPBayesianLogisticRegression(classes=[0, 1]), DPBayesianRidge((0, 1))]
)
@pytest.mark.parametrize("y", [[[1], [1, 2]], [np.zeros(2), 3]], ids=["lists", "an array"])
def test_lists_in_the_cells_of_y_are_refused_by_name(model, y):
    with pytest.raises(ValueError, match="lists in its cells"):
        model.fit(np.zeros((2, 1)), y)
