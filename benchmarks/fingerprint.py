"""Hashes of what fits release: those of two versions of the package are equal if its results are.

    python -m benchmarks.fingerprint

Every line has a case and a hash of draws, released numbers, costs, predictions and intervals, to the bit.
Cases go through all estimators, samplers, relations and tools whose results the files of docs/results have.
Messages and printed plans are not in there. The processor has to be the same.
"""

import hashlib
import itertools
import math
import warnings

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.pipeline import make_pipeline

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianMLPClassifier,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
    DPGaussianMixturePosterior,
)
from skdpbayes.metrics import (
    dp_accuracy_score,
    dp_brier_score,
    dp_log_loss,
    dp_mean_squared_error,
    dp_r2_score,
    dp_roc_auc_score,
)
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.preprocessing import DPImputer, DPOneHotEncoder, DPQuantileScaler

BUDGETS = (0.1, 1.0, math.inf)
RELATIONS = ("replace_one", "add_or_remove_one")
CHAINS = ("ops", "sgld", "sghmc", "sgnht", "sgfs", "bbb", "dp_mh", "dp_fast_mh", "penalty")
ROWS = 900


def table():
    """Return rows, labels, three classes, counts and persons."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (ROWS, 4))
    X[:, 3] = X[:, 3] > 0.8
    y = (rng.logistic(size=ROWS) < X @ [2.0, -1.0, 0.0, 1.0]).astype(int)
    classes = y + (X[:, 1] > 0.3)
    counts = rng.poisson(np.exp(X[:, 0]))
    return X, y, classes, counts, np.arange(ROWS) // 3


def cases():
    """Yield (name, estimator, arguments of its fit)."""
    X, y, classes, counts, persons = table()
    linear = {
        "labels": (DPBayesianLogisticRegression, (), y),
        "classes": (DPBayesianLogisticRegression, (), classes),
        "numbers": (DPBayesianRidge, ((-4.0, 4.0),), X[:, 0] + y),
        "counts": (DPBayesianPoissonRegressor, (9,), counts),
    }
    for epsilon, relation in itertools.product(BUDGETS, RELATIONS):
        options = {"epsilon": epsilon, "neighboring_relation": relation, "random_state": 0}
        if relation == "add_or_remove_one":
            options["public_size"] = ROWS
        for name, (kind, bounds, target) in linear.items():
            yield f"{name} {epsilon:g} {relation}", kind(*bounds, **options), (X, target)
        mixture = DPGaussianMixturePosterior(3, covariance_type="full", **options)
        yield f"mixture {epsilon:g} {relation}", mixture, (X,)
        network = DPBayesianMLPClassifier((8,), **options)
        yield f"network {epsilon:g} {relation}", network, (X, y)
    for sampler in CHAINS:
        model = DPBayesianLogisticRegression(
            sampler=sampler,
            random_state=0,
            delta=0.0 if sampler in {"dp_mh", "dp_fast_mh"} else None,
        )
        yield f"labels by {sampler}", model, (X, y)
    for name, (kind, bounds, target) in linear.items():
        model = kind(*bounds, max_rows_per_group=2, random_state=0)
        yield f"{name} of persons", model, (X, target, None, persons)
        yield f"{name} with weights", kind(*bounds, random_state=0), (X, target, X[:, 3] / 2 + 0.5)
        yield f"{name}, sparse", kind(*bounds, random_state=0), (sp.csr_array(X), target)
        yield f"{name}, short rows", kind(*bounds, data_norm=20.0, random_state=0), (X, target)
        yield f"{name}, norm learnt", kind(*bounds, data_norm="auto", random_state=0), (X, target)


def numbers_of(value):
    """Yield the arrays of numbers that a released value consists of."""
    if isinstance(value, dict):
        for name in sorted(value):
            yield from numbers_of(value[name])
    elif isinstance(value, list | tuple):
        for one in value:
            yield from numbers_of(one)
    elif isinstance(value, int | float | np.number | np.ndarray | np.bool_):
        found = np.asarray(value)
        if found.dtype.kind in "biuf":
            yield found


def digest(*values):
    """Return the hash of numbers."""
    found = hashlib.sha256()
    for array in numbers_of(values):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def of_model(model, X):
    """Return the hash of a fitted model."""
    released = {name: value for name, value in vars(model).items() if name.endswith("_")}
    released.pop("n_iter_")  # A number of the plan.
    predicted = [
        getattr(model, name)(X)
        for name in ("predict_proba", "predict", "score_samples", "prediction_interval")
        if hasattr(model, name)
    ]
    return digest(released, vars(model.privacy_cost_), predicted)


def of_tools():
    """Yield (name, hash) of transformers, scores and a search."""
    X, y, _, counts, _ = table()
    rng = np.random.default_rng(1)
    missing = np.where(rng.random(X.shape) < 0.1, np.nan, X)
    for transformer in (DPQuantileScaler(random_state=0), DPImputer("median", random_state=0)):
        yield type(transformer).__name__, digest(transformer.fit_transform(missing))
    encoder = DPOneHotEncoder(delta=1e-5, random_state=0)
    yield "DPOneHotEncoder", digest(encoder.fit_transform(counts[:, None].astype(str)))
    share = np.clip(0.5 + X[:, 0] / 3.0, 0.0, 1.0)
    for score in (dp_accuracy_score, dp_log_loss, dp_brier_score, dp_roc_auc_score):
        given = y[::-1] if score is dp_accuracy_score else share
        found = score(y, given, epsilon=1.0, random_state=0)
        yield score.__name__, digest(float(found), found.interval)
    for score in (dp_mean_squared_error, dp_r2_score):
        found = score(X[:, 0], X[:, 1], target_bounds=(-1, 1), epsilon=1.0, random_state=0)
        yield score.__name__, digest(float(found), found.interval)
    pipeline = make_pipeline(DPBayesianLogisticRegression(classes=[0, 1]))
    grid = {"dpbayesianlogisticregression__prior_scale": [0.1, 1.0]}
    search = DPRandomizedSearchCV(pipeline, grid, random_state=0).fit(X, y)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 3] > 0.5, "y": y})
    formula = "y ~ bounded(a, -1, 1) * C(b, levels=[False, True])"
    of_formula = DPBayesianLogisticRegression.from_formula(formula, classes=[0, 1], random_state=0)
    yield "formula", digest(of_formula.fit(frame)[-1].posterior_samples_)
    yield "search", digest(search.best_estimator_[-1].posterior_samples_)


def main():
    """Print a line for every case."""
    warnings.simplefilter("ignore")
    for name, model, (X, *rest) in cases():
        names = ("y", "sample_weight", "groups")
        given = {key: value for key, value in zip(names, rest, strict=False) if value is not None}
        print(f"{of_model(model.fit(X, **given), X)}  {name}", flush=True)
    for name, found in of_tools():
        print(f"{found}  {name}", flush=True)


if __name__ == "__main__":
    main()
