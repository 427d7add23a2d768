"""Every pass over records is silent, whatever numbers they hold and whatever the user's error states are."""

import importlib
import inspect
import pkgutil
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from fit_warnings import FIT_WARNINGS
from references import configured
from scipy import special
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags

import skdpbayes
from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
    DPGaussianMixturePosterior,
    metrics,
    models,
)
from skdpbayes._data.collections import is_collection
from skdpbayes._data.partitions import run_on_shard
from skdpbayes.descriptive import dp_describe
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.models.linear import linear_prior_precision, make_linear
from skdpbayes.pipeline import FormulaPipeline, make_private_pipeline
from skdpbayes.preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    FormulaEncoder,
    RowNormClipper,
    row_scales,
)
from skdpbayes.samplers import SGHMC, SGLD

N = 90
rng = np.random.default_rng(0)
TAME = rng.normal(size=(N, 3))
Y = np.arange(N) % 2
P = np.linspace(0.05, 0.95, N)
# What arguments of methods that read records are called.
RECORDS = {"X", "y", "sample_weight", "groups", "values", "labels", "weights"}
RECORDS |= {"y_true", "y_pred", "y_prob", "y_proba", "y_score"}

LARGE = [[1.4e154] * 3, [1e308, -1e308, 1e308], [np.finfo(np.float64).max] * 3, [1e308, 1e-9, 1.0]]
SMALL = [[5e-324, -5e-324, 0.0], [1e-200, 1e-170, -1e-160], [-0.0, 0.0, 0.0], [1e-310, 1.0, 5e-324]]


def with_rows(rows):
    """The tame table, a third of whose rows are these, with either sign."""
    table = TAME.copy()
    table[30:62] = np.resize(np.vstack([rows, np.negative(rows)]), (32, 3))
    return table


def thrice(table):
    """A CSR matrix with two halves and a zero in every place, so that it has to be merged."""
    full = sp.csr_array(np.ones_like(table))
    data = (table.reshape(-1, 1) * [0.5, 0.0, 0.5]).ravel()
    parts = data, np.repeat(full.indices, 3), 3 * full.indptr
    return sp.csr_array(parts, shape=table.shape)


def single(table):
    """The table in single precision, with its largest and smallest numbers."""
    return np.clip(table, -3.4e38, 3.4e38).astype(np.float32)


def in_partitions(table):
    return da.from_array(table, chunks=(31, -1))


TABLES = {
    "large": lambda: with_rows(LARGE),
    "small": lambda: with_rows(SMALL),
    "single": lambda: single(with_rows(LARGE[:2] + SMALL[:2])),
    "merged": lambda: thrice(with_rows(LARGE[:2] + SMALL[:2])),
    "partitions": lambda: in_partitions(with_rows(LARGE[:2] + SMALL[:2])),
}


def outcome(act):
    """Return (error, warnings) of a call where every floating-point operation may raise."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("error", category=RuntimeWarning)
        with np.errstate(all="raise"):
            try:
                act()
                error = None
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"
    # A plan that a release completes says what follows from the release, which is paid for.
    told = [(w.category, str(w.message)) for w in caught if w.category not in FIT_WARNINGS]
    return error, told


def logistic(**options):
    return configured(DPBayesianLogisticRegression(random_state=0, epsilon=5.0), **options)


def poisson(**options):
    model = DPBayesianPoissonRegressor(random_state=0, epsilon=5.0, sampler="sghmc")
    return configured(model, **options)


def network(**options):
    return DPBayesianMLPClassifier(
        (3,), sampler=SGHMC(n_steps=8), n_draws=3, random_state=0, **options
    )


def mixture(**options):
    return configured(DPGaussianMixturePosterior(random_state=0, epsilon=5.0), **options)


# All kinds of parts, with arithmetic that overflows.
FORMULA = (
    "bounded(a, -1, 1) * missing(b) + C(b, levels=[0, 1]) + bounded(exp(a) / b ** 2 - c, 0, 1)"
)
FORMULA += " + bs(c, knots=[0], bounds=(-1, 1))"
CHAIN = {"n_steps": 20, "n_draws": 4}
LAST = logistic(classes=[0, 1]).set_params(epsilon=1.0)
PIPELINE = (DPQuantileScaler(random_state=0), DPImputer(), LAST)
ESTIMATORS = {
    "noise-aware": lambda: logistic(n_draws=20),
    "noise-aware, 3 classes": lambda: logistic(n_draws=20, classes=[0, 1, 2]),
    "released norm": lambda: logistic(n_draws=20, data_norm="auto").set_params(epsilon=50.0),
    "long norm": lambda: logistic(n_draws=20, data_norm=1e60),
    "short norm": lambda: logistic(n_draws=20, data_norm=1e-60),
    "weighted": lambda: logistic(n_draws=20, class_weight={0: 1e-300, 1: 1.0}),
    "persons": lambda: logistic(n_draws=20, max_rows_per_group=2),
    "sgfs": lambda: logistic(sampler="sgfs", **CHAIN),
    "sghmc": lambda: logistic(sampler="sghmc", **CHAIN),
    "sgld, batches": lambda: logistic(sampler=SGLD(batch_size=16), **CHAIN),
    "sgnht": lambda: logistic(sampler="sgnht", **CHAIN),
    "bbb": lambda: logistic(sampler="bbb", n_steps=20, n_draws=4),
    "penalty": lambda: logistic(sampler="penalty", **CHAIN),
    "dp_fast_mh": lambda: logistic(sampler="dp_fast_mh", **CHAIN),
    "not private": lambda: logistic(**CHAIN).set_params(epsilon=np.inf),
    "network": lambda: network(),
    "counts": lambda: poisson(max_count=3, **CHAIN),
    "counts, released bounds": lambda: poisson(data_norm="auto", **CHAIN).set_params(epsilon=50.0),
    "numbers": lambda: DPBayesianRidge((-1, 1), 5.0, n_draws=20, random_state=0),
    "numbers, not private": lambda: configured(
        DPBayesianRidge((-1, 1), np.inf, sampler="gibbs", random_state=0), **CHAIN
    ),
    "network, chosen norm": lambda: network(data_norm="auto"),
    "network, relu": lambda: network(activation="relu", calibration=0.0),
    "mixture": lambda: mixture(),
    "mixture, full": lambda: mixture(covariance_type="full", data_norm="auto").set_params(
        epsilon=50.0
    ),
    "mixture, number of components": lambda: mixture(n_components="auto", max_components=3),
    "mixture, not private": lambda: mixture(sampler="gibbs", **CHAIN).set_params(epsilon=np.inf),
    "RowNormClipper": lambda: RowNormClipper(),
    "BoundedScaler": lambda: BoundedScaler(-3.0, 5.0),
    "BoundedScaler, sparse": lambda: BoundedScaler(-3.0, 3.0),
    "DPQuantileScaler": lambda: DPQuantileScaler(random_state=0),
    "DPQuantileScaler, bounds": lambda: DPQuantileScaler(
        bounds=(-1e308, 1e300), quantiles=(0.1, 0.9), random_state=0
    ),
    "DPImputer": lambda: DPImputer("median", random_state=0),
    "DPOneHotEncoder": lambda: DPOneHotEncoder(random_state=0),
    "PrivatePipeline": lambda: make_private_pipeline(*PIPELINE, epsilon=5.0),
    "formula, columns": lambda: FormulaEncoder(FORMULA),
    "formula, model": lambda: FormulaPipeline(
        [("formula", FormulaEncoder(FORMULA)), ("model", logistic(classes=[0, 1], n_draws=20))],
        epsilon=5.0,
    ).set_params(model__epsilon=1.0),
    "DPRandomizedSearchCV": lambda: DPRandomizedSearchCV(
        logistic(classes=[0, 1]), {"data_norm": [1.0]}, mean_candidates=2.0, random_state=0
    ),
}

# Their parts are those of other estimators here.
SLOW = {"noise-aware, 3 classes", "mixture, full"}


def fit(name, table, tame):
    estimator = ESTIMATORS[name]()
    if name == "weighted":
        return estimator.fit(table, Y, np.ones(N) if tame else np.where(Y, 1e308, 5e-324))
    if name == "persons":
        groups = np.arange(45) if tame else np.linspace(-1e308, 5e-324, 45)
        return estimator.fit(table, Y, groups=np.repeat(groups, 2))
    return estimator.fit(table, Y)


def methods(estimator):
    """Return the names of the methods that are given records, `fit` apart."""
    found = []
    for name in sorted(set(dir(estimator)) - {"fit"}):
        method = None if name.startswith("_") else getattr(estimator, name, None)
        if inspect.ismethod(method) and RECORDS & set(inspect.signature(method).parameters):
            found.append((name, method))
    return found


def use(name, table, tame=False):
    """Fit an estimator, and call all of its methods that are given records."""
    if name.startswith("formula"):
        pytest.importorskip("formulaic")
        table = pd.DataFrame(table, columns=list("abc"))
    estimator = fit(name, table, tame)
    for what, method in methods(estimator):
        if what.startswith("fit_") or (what == "inverse_transform" and "X" not in takes(method)):
            continue  # A fit and another method; that of scikit-learn's pipelines has no inverse here.
        result = method(table, **({"y": Y} if "y" in takes(method) else {}))
        if is_collection(result):
            result.compute()


def takes(method):
    return set(inspect.signature(method).parameters)


# They need rows in memory, and say so.
IN_MEMORY = ("persons", "penalty", "dp_fast_mh")


def readable(name):
    """Return the names of the tables that an estimator reads."""
    estimator = ESTIMATORS[name]()
    tables = ["large", "small", "single"]
    tables += ["merged"] * get_tags(estimator).input_tags.sparse
    collections = getattr(estimator, "_reads_collections", False) and name not in IN_MEMORY
    return tables + ["partitions"] * collections


@pytest.mark.daily(2)
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.nightly] * (name in SLOW)) for name in ESTIMATORS],
)
def test_an_estimator_says_the_same_of_all_records(name):
    use(name, TAME, tame=True)  # What is said once a process is said.
    usual = outcome(lambda: use(name, TAME, tame=True))
    assert usual[0] is None
    for which in readable(name):
        table = TABLES[which]()
        assert outcome(lambda table=table: use(name, table)) == usual, which


COLUMNS = {
    "large": [1.4e154, -1e308, np.finfo(np.float64).max],
    "small": [5e-324, -1e-200, 0.0],
    "both": [1e308, 5e-324, -1.4e154],
}
PRECISION = linear_prior_precision(models.Logistic(), 3, 1.0, 1.0, 1.0)


def logistic_target(table, _):
    return make_linear(table, Y, models.Logistic(), 1.0, 1.0, PRECISION, np.ones(N), 1.0)


def network_target(table, _):
    start = np.zeros(models.mlp_bounds((3, 2, 2), 1.0, 1.0).n_parameters)
    return models.make_mlp(table, Y, 1.0, (3, 2, 2), "tanh", 1.0, 1.0, start)


def mixture_target(table, _):
    model = mixture()._model(3)
    return models.make_mixture(table, model)


def score(function, *columns, **options):
    return function(*columns, epsilon=1.0, random_state=0, **options).interval(0.9)


# Of a table, and of a column with numbers of its kind.
FUNCTIONS = {
    "row_scales": lambda X, _: row_scales(X, 1.0),
    "LinearModel.target": logistic_target,
    "make_mlp": network_target,
    "make_mixture": mixture_target,
    "second_moment": lambda X, v: models.second_moment(logistic_target(X, v), None, np.abs(v)),
    "record_weights": lambda X, v: models.record_weights(logistic_target(X, v), np.eye(4), 1.0),
    "dp_mean_score": lambda _, v: score(metrics.dp_mean_score, v, bounds=(-1e300, 1e300)),
    "dp_roc_auc_score": lambda _, v: score(metrics.dp_roc_auc_score, Y, v),
    "dp_accuracy_score": lambda _, v: score(metrics.dp_accuracy_score, v, v[::-1]),
    "dp_confusion_matrix": lambda _, v: score(
        metrics.dp_confusion_matrix, v, v, labels=sorted(set(sum(COLUMNS.values(), [1.0, 2.0])))
    ),
    "dp_log_loss": lambda _, v: score(metrics.dp_log_loss, Y, np.clip(v, 0, 1)),
    "dp_brier_score": lambda _, v: score(metrics.dp_brier_score, Y, np.clip(v, 0, 1)),
    "dp_mean_squared_error": lambda _, v: score(
        metrics.dp_mean_squared_error, v, v[::-1], target_bounds=(0, 1e10)
    ),
    "dp_mean_absolute_error": lambda _, v: score(
        metrics.dp_mean_absolute_error, v, Y, target_bounds=(0, 2)
    ),
    "dp_r2_score": lambda _, v: score(metrics.dp_r2_score, v, v[::-1], target_bounds=(0, 2)),
    "dp_mean_poisson_deviance": lambda _, v: score(
        metrics.dp_mean_poisson_deviance, np.rint(np.abs(v)), np.abs(v[::-1])
    ),
    "dp_describe": lambda _, v: dp_describe(
        {"x": v, "y": v, "c": v},
        bounds={"x": (-1e300, 1e300), "y": (0, 2)},
        categories={"c": COLUMNS["large"]},
        bins=3,
        epsilon=1.0,
        random_state=0,
    ),
    "dp_calibration_curve": lambda _, v: score(metrics.dp_calibration_curve, Y, np.clip(v, 0, 1)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_the_same_of_all_records(name):
    act, tame = FUNCTIONS[name], np.where(Y, 1.0, 2.0)
    act(TAME, tame)
    usual = outcome(lambda: act(TAME, tame))
    assert usual[0] is None
    for which, numbers in COLUMNS.items():
        rows = LARGE * (which != "small") + SMALL * (which != "large")
        column = np.tile(numbers, N // 3)
        assert outcome(lambda rows=rows, v=column: act(with_rows(rows), v)) == usual, which


def public():
    """Yield what the package's public lists name."""
    yield from (getattr(skdpbayes, name) for name in skdpbayes.__all__)
    for module in pkgutil.walk_packages(skdpbayes.__path__, "skdpbayes."):
        if not module.name.endswith("__main__"):
            module = importlib.import_module(module.name)
            yield from (getattr(module, name) for name in getattr(module, "__all__", ()))


def test_nothing_that_is_given_records_was_left_out():
    """Found by the names of arguments, so that what is new cannot be forgotten."""
    found = set(public())
    estimators = {one for one in found if inspect.isclass(one) and hasattr(one, "fit")}
    assert estimators == {type(make()) for make in ESTIMATORS.values()}
    functions = {one.__name__ for one in found if inspect.isfunction(one) and RECORDS & takes(one)}
    # One is given a target, one is a method. Audits are for tables that are no secret.
    functions -= {"audit_fit", "replay"}
    assert functions == set(FUNCTIONS) - {"record_weights", "LinearModel.target"}


def test_a_task_of_a_worker_is_silent():
    assert outcome(lambda: run_on_shard(np.multiply, np.array([1e308, 5e-324]), 10.0)) == (None, [])


@pytest.mark.parametrize("n_draws", [1, 20])
def test_predictions_do_not_depend_on_the_error_state_of_scipy(n_draws):
    """Its compiled functions have one of their own, for all threads together."""
    clf = logistic(n_draws=n_draws, data_norm=1e60, prior_scale=1e-50).fit(TAME, Y)
    clf.posterior_samples_ *= 1e50
    with special.errstate(all="raise"):
        assert outcome(lambda: clf.predict_proba(with_rows(LARGE))) == (None, [])


@pytest.mark.daily(6)
@pytest.mark.parametrize("seed", range(60))
def test_fits_of_extreme_public_numbers_are_complete(seed):
    """A released matrix is then beyond what linear algebra can tell apart, of half of the seeds."""
    clf = logistic(random_state=seed, n_draws=5, data_norm=1e60, prior_scale=1e-50)
    assert np.all(np.isfinite(clf.fit(TAME, Y).predict_proba(TAME)))


def halved(table):
    return 0.5 * table


def test_other_steps_of_a_private_pipeline_are_silent_in_its_fit():
    """Their numbers are records, too: half of the least number is none."""
    halving = FunctionTransformer(halved)

    def act(table):
        pipeline = make_private_pipeline(halving, logistic(n_draws=3), epsilon=1.0)
        return outcome(lambda: pipeline.fit(table, Y))

    act(TAME)
    assert act(with_rows(SMALL)) == act(TAME)
