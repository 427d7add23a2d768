"""No error, note or warning of any method quotes what it was given, in whatever form a table comes."""

import inspect
import traceback
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPGaussianMixturePosterior,
    metrics,
    models,
)
from skdpbayes.inspection import average_marginal_effects
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.models.linear import make_linear
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    FormulaEncoder,
    RowNormClipper,
    row_scales,
)
from skdpbayes.samplers import SGHMC

N = 40
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 2))
Y = np.arange(N) % 2
SECRET, NUMBER = "Jane Doe 987654321", 987654321.0
RECORDS = {"X", "y", "y_true", "sample_weight", "groups"}


class Shown:
    """A cell that shows itself in every conversion."""

    def __repr__(self):
        return SECRET

    __str__ = __repr__

    def __float__(self, *others):
        raise ValueError(f"no number: {SECRET}")

    __lt__ = __gt__ = __hash__ = __float__


def having(table, cell):
    table = np.array(table, dtype=object)
    table[-1:] = cell
    return table


def forms(good):
    """Yield (name, what holds the secret) for a good table or column."""
    good = np.asarray(good)
    rows = good.tolist()
    yield "text in objects", having(good, SECRET)
    yield "bytes in objects", having(good, SECRET.encode())
    yield "dictionaries in objects", having(good, {SECRET: SECRET})
    yield "complex numbers in objects", having(good, NUMBER + 1j)
    yield "huge numbers in objects", having(good, int(SECRET[-9:]) * 10**400)
    yield "dates in objects", having(good, np.datetime64(987654321, "s"))
    yield "odd objects", having(good, Shown())
    yield "text", np.full(good.shape, SECRET)
    yield "bytes", np.full(good.shape, SECRET.encode())
    yield "complex numbers", np.full(good.shape, NUMBER + 1j)
    yield "dates", np.full(good.shape, 987654321, dtype="datetime64[s]")
    yield "records", np.array([(SECRET, NUMBER)] * len(good), dtype=[("a", "U32"), ("b", float)])
    yield "a list with text", [*rows[:-1], [SECRET] * 2 if good.ndim == 2 else SECRET]
    yield "a ragged list", [*rows[:-1], [SECRET, NUMBER, SECRET]]
    yield "a ragged list of numbers", [*rows[:-1], [NUMBER] * 3]
    yield "one dimension", np.full(len(good), NUMBER)
    yield "one dimension of text", [SECRET] * len(good)
    yield "three dimensions", np.full((len(good), 2, 2), NUMBER)
    yield "too wide", np.full((len(good), 5), NUMBER)
    yield "too long", np.full((len(good) + 1, *good.shape[1:]), NUMBER)
    yield "a cell", SECRET
    yield "a number", NUMBER
    yield "a set", {SECRET, NUMBER}
    yield "a dictionary", {SECRET: [NUMBER] * len(good)}
    yield "missing", np.where(np.arange(good.size).reshape(good.shape) == 1, np.nan, NUMBER)
    yield "masked", np.ma.array(np.full(good.shape, NUMBER), mask=np.ones(good.shape))
    yield "a series", pd.Series([SECRET] * len(good))
    yield "a frame", pd.DataFrame(having(good, SECRET))
    yield "a frame of complex numbers", pd.DataFrame(np.full(good.shape, NUMBER + 1j))
    yield "a column of polars", pl.Series("a", [SECRET] * len(good))
    yield "a frame of polars", pl.DataFrame({"a": [SECRET] * len(good), "b": [NUMBER] * len(good)})
    yield "a sparse matrix", sp.csr_array(np.full((len(good), 2), NUMBER + 1j))


def logistic(**options):
    return DPBayesianLogisticRegression(n_draws=3, random_state=0, **options)


ESTIMATORS = {
    "logistic": lambda: logistic(),
    "logistic, persons": lambda: logistic(classes=[0, 1], max_rows_per_group=1),
    "logistic, text": lambda: logistic(classes=["a", "b"]),
    "network": lambda: DPBayesianMLPClassifier(
        (2,), sampler=SGHMC(n_steps=3), n_draws=1, random_state=0
    ),
    "mixture": lambda: DPGaussianMixturePosterior(1, n_draws=2, random_state=0),
    "RowNormClipper": lambda: RowNormClipper(),
    "RowNormClipper, short": lambda: RowNormClipper(1e-40),
    "BoundedScaler": lambda: BoundedScaler(-1.0, 1.0),
    "DPQuantileScaler": lambda: DPQuantileScaler(random_state=0),
    "DPImputer": lambda: DPImputer("median", random_state=0),
    "DPOneHotEncoder": lambda: DPOneHotEncoder(random_state=0),
    "PrivatePipeline": lambda: make_private_pipeline(DPQuantileScaler(), DPImputer(), logistic()),
    "DPRandomizedSearchCV": lambda: DPRandomizedSearchCV(
        logistic(classes=[0, 1]), {"data_norm": [1.0]}, mean_candidates=1.0, shape=np.inf
    ),
}


def methods(estimator):
    """Yield (name, method) of what is given records."""
    for name in sorted(dir(estimator)):
        method = None if name.startswith("_") else getattr(estimator, name, None)
        if inspect.ismethod(method) and RECORDS & set(inspect.signature(method).parameters):
            yield name, method


def assert_hidden(act, where):
    """Fail if a call's error, what it is chained to, a note or a warning shows the secret."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            act()
            error = None
        except Exception as raised:
            error = raised
    shown = [str(warning.message) for warning in caught]
    if error is not None:
        shown += traceback.format_exception(error)
    while error is not None:
        shown += [str(error), repr(error), *getattr(error, "__notes__", ())]
        error = error.__cause__ or error.__context__
    for text in shown:
        assert "98765" not in text and "Jane" not in text, f"{where}: {text}"


@pytest.mark.nightly
@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_method_of_an_estimator_quotes_a_cell(name):
    good = {
        "X": X,
        "y": np.where(Y, "a", "b") if "text" in name else Y,
        "sample_weight": np.ones(N),
    }
    good["groups"] = np.arange(N)
    if "persons" not in name:
        del good["groups"]
    fitted = ESTIMATORS[name]().fit(X, good["y"], **({"groups": Y} if "persons" in name else {}))
    for what, _ in methods(fitted):
        one = ESTIMATORS[name]() if what.startswith("fit") else fitted
        method = getattr(one, what)
        takes = inspect.signature(method).parameters
        given = {key: value for key, value in good.items() if key in takes}
        if "groups" in takes and "groups" not in given:
            given["groups"] = None
        for argument in sorted(RECORDS & set(takes)):
            for form, bad in forms(X if argument == "X" else Y):
                call = {**given, argument: bad}
                act = lambda method=method, call=call: method(**call)  # noqa: E731
                assert_hidden(act, f"{what}({argument}: {form})")


def columns_with_secrets():
    """Yield (form, frame) of frames with a column that holds the secret."""
    for form, bad in forms(Y):
        try:
            yield form, pd.DataFrame({"a": bad, "b": X[:, 0], "y": Y})
        except Exception:  # No frame has such a column.
            continue
    for bad in ([SECRET] * N, [NUMBER] * N):
        yield "polars", pl.DataFrame({"a": bad, "b": X[:, 0], "y": Y})


def test_no_formula_quotes_a_cell():
    pytest.importorskip("formulaic")
    table = pd.DataFrame({"a": Y, "b": X[:, 0], "y": Y})
    for part in ("bounded(a, 0, 1)", "C(a, levels=[0, 1])", "bs(a, knots=[0.5], bounds=(0, 1))"):
        encoder = FormulaEncoder(f"{part} + bounded(b, -1, 1) + missing(a)").fit(table)
        cases = list(columns_with_secrets())
        assert len(cases) > 10
        for form, bad in cases:
            for act in (encoder.transform, encoder.fit):
                assert_hidden(lambda act=act, bad=bad: act(bad), f"{part}: {form}")
    given = {"n_draws": 3, "sampler": "sghmc", "random_state": 0}
    for response, other in ("ya", "ay"):
        formula = f"{response} ~ bounded({other}, 0, 1) + missing(b)"
        model = DPBayesianLogisticRegression.from_formula(formula, classes=[0, 1], **given)
        for form, bad in columns_with_secrets():
            assert_hidden(lambda bad=bad, model=model: clone(model).fit(bad), f"fit: {form}")
        model.fit(table)
        for form, bad in columns_with_secrets():
            for act in (model.predict, model.score):
                assert_hidden(lambda act=act, bad=bad: act(bad), f"{response}: {form}")


def test_no_effect_quotes_a_row():
    """Rows of effects are public, but a mistake is not to publish them in a log either."""
    clf = logistic(sampler="sghmc").fit(X, Y)
    for form, bad in forms(X):
        assert_hidden(lambda bad=bad: average_marginal_effects(clf, bad), form)
    for form, bad in forms(Y):
        importance_weights = lambda bad=bad: average_marginal_effects(clf, X, row_weights=bad)  # noqa: E731
        assert_hidden(importance_weights, f"row_weights: {form}")


FUNCTIONS = {
    "accuracy": (metrics.dp_accuracy_score, ("y_true", "y_pred"), {}),
    "accuracy, text": (metrics.dp_accuracy_score, ("y_true", "y_pred"), {}),
    "confusion": (metrics.dp_confusion_matrix, ("y_true", "y_pred"), {"labels": [0, 1]}),
    "mean": (metrics.dp_mean_score, ("values",), {"bounds": (0.0, 1.0)}),
    "log loss": (metrics.dp_log_loss, ("y_true", "y_pred"), {}),
    "Brier": (metrics.dp_brier_score, ("y_true", "y_proba"), {}),
    "AUC": (metrics.dp_roc_auc_score, ("y_true", "y_score"), {}),
    "calibration": (metrics.dp_calibration_curve, ("y_true", "y_prob"), {}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_score_quotes_an_entry(name):
    function, arguments, options = FUNCTIONS[name]
    good = np.where(Y, "a", "b") if "text" in name else Y
    for argument in arguments:
        for column in (good, X):
            for form, bad in forms(column):
                given = dict.fromkeys(arguments, good) | {argument: bad} | options
                act = lambda given=given: function(**given, epsilon=1.0, random_state=0)  # noqa: E731
                assert_hidden(act, f"{argument}: {form}")


@pytest.mark.parametrize("name", ["accuracy", "neg_log_loss", "roc_auc"])
def test_no_scorer_quotes_a_cell(name):
    clf = logistic().fit(X, Y)
    scorer = metrics.make_private_scorer(name, epsilon=1.0, random_state=0)
    for good, call in ((X, lambda bad: scorer(clf, bad, Y)), (Y, lambda bad: scorer(clf, X, bad))):
        for form, bad in forms(good):
            assert_hidden(lambda bad=bad, call=call: call(bad), form)


PRECISION = np.ones(2)
PARTS = {
    "row_scales": (lambda X: row_scales(X, 1.0), X),
    "rows of make_linear": (
        lambda X: make_linear(X, Y, models.Logistic(), 1.0, 0.0, PRECISION),
        X,
    ),
    "labels of make_linear": (
        lambda y: make_linear(X, y, models.Logistic(), 1.0, 0.0, PRECISION),
        Y,
    ),
    "labels of make_mlp": (
        lambda y: models.make_mlp(X, y, 1.0, (2, 2), "tanh", 1.0, 1.0, np.zeros(6)),
        Y,
    ),
    "rows of make_mixture": (
        lambda X: models.make_mixture(X, DPGaussianMixturePosterior()._model(2)),
        X,
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_no_target_quotes_a_cell(name):
    make, good = PARTS[name]
    for form, bad in forms(good):
        assert_hidden(lambda bad=bad: make(bad), form)
