"""Names of columns travel through every pipeline, and tables print whole."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from references import configured
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures

from skdpbayes import DPBayesianLogisticRegression, DPGaussianMixturePosterior
from skdpbayes.inspection import (
    PosteriorDisplay,
    coefficient_draws,
    named_model,
    odds_ratios,
    raw_coefficients,
)
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    RowNormClipper,
)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N = 600
rng = np.random.default_rng(0)
X = pd.DataFrame(
    {
        "age": rng.uniform(18, 90, N),
        "income": rng.uniform(0, 1e5, N),
        "region": rng.choice(["north", "south"], N),
    }
)
NUMBERS = X[["age", "income"]]
Y = (X["age"] > 50).to_numpy().astype(int)


def scaler():
    return BoundedScaler([18, 0], [90, 1e5])


def logistic():
    """Of a short chain, since names are all that matters here."""
    clf = DPBayesianLogisticRegression(sampler="sghmc", n_draws=4, random_state=0)
    return configured(clf, n_steps=20)


class Misnamed(TransformerMixin, BaseEstimator):
    """Says less of its columns than there are."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return np.column_stack([X, np.asarray(X)[:, 0]])

    def get_feature_names_out(self, names=None):
        return np.array(["age", "income"])


def test_wrong_names_do_not_end_a_fit_that_is_paid_for():
    rest = [
        ("kept", BoundedScaler([18, 0], [90, 1e5]), [0, 1]),
        ("log", FunctionTransformer(np.log1p), [2]),
    ]
    pipe = make_private_pipeline(
        Misnamed(),
        ColumnTransformer(rest, sparse_threshold=0),
        logistic(),
        learns_nothing=["misnamed"],
    )
    assert len(pipe.fit(NUMBERS, Y).coef_table()) == 4


def columns(encoder=None):
    encoder = encoder or DPOneHotEncoder(categories=[["north", "south"]])
    return ColumnTransformer([("num", scaler(), ["age", "income"]), ("cat", encoder, ["region"])])


ENCODED = ["num__age", "num__income", *(f"cat__region_{r}" for r in ("north", "south"))]
ENCODED += ["cat__region_infrequent"]
LOGS = FunctionTransformer(np.log1p)
STEPS = {
    "scaler": ((scaler(),), NUMBERS, ["age", "income"]),
    "learnt, imputed": (
        (DPQuantileScaler(random_state=0), DPImputer(), RowNormClipper()),
        NUMBERS,
        ["age", "income"],
    ),
    "branches": ((columns(), RowNormClipper(1.4)), X, ENCODED),
    "branches, learnt": ((columns(DPOneHotEncoder(random_state=0)),), X, ENCODED),
    "polynomial": (
        (scaler(), PolynomialFeatures(2, include_bias=False)),
        NUMBERS,
        ["age", "income", "age^2", "age income", "income^2"],
    ),
    "a function that names nothing": (
        (scaler(), FunctionTransformer(np.exp), RowNormClipper(3.0)),
        NUMBERS,
        ["exp(age)", "exp(income)"],
    ),
    "a function in a branch": (
        (
            ColumnTransformer(
                [("log", make_pipeline(scaler(), LOGS), ["age", "income"])], remainder="drop"
            ),
        ),
        X,
        ["log__log1p(age)", "log__log1p(income)"],
    ),
    "a union": (
        (FeatureUnion([("a", scaler()), ("b", scaler())]),),
        NUMBERS,
        ["a__age", "a__income", "b__age", "b__income"],
    ),
    "nothing": (("passthrough",), NUMBERS, ["age", "income"]),
}


@pytest.mark.parametrize("name", STEPS)
def test_names_travel_through_every_pipeline(name):
    steps, table, expected = STEPS[name]
    names = [*expected, "intercept"]
    pipeline = make_private_pipeline(*steps, logistic(), epsilon=10.0).fit(table, Y)
    assert list(pipeline.summary().index) == list(pipeline[-1].coef_table().index) == names
    assert list(pickle.loads(pickle.dumps(pipeline)).summary().index) == names
    plain = Pipeline(pipeline.steps).fit(table, Y)
    assert list(named_model(plain).summary().index) == names
    shown = PosteriorDisplay.from_estimator(plain, kind="forest").names
    assert sorted(shown) == sorted(names)


@pytest.mark.parametrize("kind", ["default", "pandas", "polars"])
def test_names_do_not_depend_on_the_container(kind):
    pipeline = make_private_pipeline(columns(), logistic(), epsilon=10.0)
    pipeline.set_output(transform=kind)
    table = pl.from_pandas(X) if kind == "polars" else X
    assert list(pipeline.fit(table, Y).summary().index) == [*ENCODED, "intercept"]


def test_names_reach_mixtures():
    mixture = DPGaussianMixturePosterior(2, n_draws=20, random_state=0)
    pipeline = make_private_pipeline(scaler(), mixture, epsilon=10.0).fit(NUMBERS)
    assert "means[1, income]" in pipeline.summary().index
    assert pipeline.posterior_interval().means.shape == (2, 2, 2)
    assert not hasattr(pipeline, "coef_table")
    for ask in (raw_coefficients, odds_ratios, coefficient_draws):
        with pytest.raises(TypeError, match="coefficients"):
            ask(pipeline)


def test_names_are_forgotten_with_the_next_fit():
    pipeline = make_private_pipeline(scaler(), logistic()).fit(NUMBERS, Y)
    model = pipeline[-1].fit(NUMBERS.to_numpy() / 1e5, Y)
    assert list(model.summary().index) == ["x0", "x1", "intercept"]


def test_a_named_model_is_a_copy():
    plain = make_pipeline(scaler(), logistic()).fit(NUMBERS, Y)
    assert list(named_model(plain).summary().index) == ["age", "income", "intercept"]
    assert list(plain[-1].summary().index) == ["x0", "x1", "intercept"]
    with pytest.raises(TypeError, match="no private posterior"):
        named_model(make_pipeline(scaler()).fit(NUMBERS))


def test_a_pipeline_has_what_its_last_step_has():
    pipeline = make_private_pipeline(scaler(), logistic()).fit(NUMBERS, Y)
    model = pipeline[-1]
    pd.testing.assert_frame_equal(pipeline.summary(0.5), model.summary(0.5))
    pd.testing.assert_frame_equal(pipeline.coef_table(), model.coef_table())
    np.testing.assert_array_equal(pipeline.posterior_interval(), model.posterior_interval())
    draws = [one.sample_posterior(3, random_state=3) for one in (pipeline, model)]
    np.testing.assert_array_equal(*draws)
    assert not hasattr(make_private_pipeline(scaler()), "summary")


def test_a_column_may_be_called_intercept():
    named = NUMBERS.rename(columns={"income": "intercept"})
    summary = make_private_pipeline(scaler(), logistic()).fit(named, Y).summary()
    assert list(summary.index) == ["age", "intercept", "intercept (constant)"]


@pytest.mark.parametrize("change", [lambda t: t, lambda t: t.round(2), lambda t: t.iloc[:, ::-1]])
def test_tables_print_whole(change):
    wide = pd.DataFrame(rng.uniform(-1, 1, (N, 70)), columns=[f"column_{j}" for j in range(70)])
    table = change(logistic().fit(wide, Y).summary())
    with pd.option_context("display.width", 40, "display.max_columns", 3, "display.max_rows", 5):
        for text in (repr(table), str(table), table._repr_html_()):
            assert "..." not in text and "column_35" in text and "share_of_privacy" in text
