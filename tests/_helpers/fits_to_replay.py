"""Fits of milliseconds, and then of seconds, each with a record that moves it far."""

import functools
from typing import Any, NamedTuple

import numpy as np
from small_tables import ACROSS, FAR, RECORDS, N, X, Y, logistic

from skdpbayes import DPBayesianPoissonRegressor, DPBayesianRidge
from skdpbayes.metrics import dp_confusion_matrix
from skdpbayes.preprocessing import DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.samplers import SGFS, SGLD

RESPONSES = np.tanh(2.0 * X[:, 0])
TEXT = np.array([["a"], ["b"]] * 200, dtype=object)
ALONE = TEXT.copy()
ALONE[0] = "Jane Doe"
PERSONS = np.arange(N) // 6


class Fit(NamedTuple):
    """What is replayed.

    Attributes
    ----------
    estimator : estimator or callable
    X, y, record
        As for `replay`.
    columns : dict
        Other arguments of `replay`.
    n_runs : int or None
        Of an attack, about ten seconds; None where these are too few runs to find anything.
    """

    estimator: Any
    X: Any
    y: Any
    record: Any
    columns: dict = {}
    n_runs: int | None = None


MATRIX_OF_TWO = functools.partial(dp_confusion_matrix, labels=[0, 1], epsilon=1.0)
MATRIX = Fit(MATRIX_OF_TWO, Y, Y, (1, 0), n_runs=2000)
PERSONS_MATRIX = Fit(
    MATRIX_OF_TWO, Y, Y, ([1] * 6, [0] * 6), {"groups": PERSONS, "index": range(6)}
)
CATEGORIES = Fit(DPOneHotEncoder(epsilon=1.0), TEXT, None, ["Jane Doe"], n_runs=2000)
ONE_ALONE = Fit(DPOneHotEncoder(epsilon=1.0), ALONE, None, ["a"], n_runs=2000)
CHAIN = Fit(logistic(SGLD(n_steps=20)), X, Y, RECORDS[0], n_runs=800)
LONG = CHAIN._replace(record=RECORDS[2])
LONG_CHAIN = CHAIN._replace(estimator=logistic(SGLD(n_steps=200)), n_runs=400)
BATCHES = CHAIN._replace(estimator=logistic(SGLD(n_steps=40, batch_size=6)))
WEIGHTS = Fit(
    logistic(SGLD(n_steps=20), max_sample_weight=10.0),
    X,
    Y,
    {"X": -X[0], "y": 1, "sample_weight": 10.0},
    {"sample_weight": np.full(N, 10.0)},
)
SCORING = Fit(logistic(SGFS(n_steps=20)), X, Y, (ACROSS, 1), n_runs=500)
QUANTILES = Fit(DPQuantileScaler(), X, None, [1e9, -1e9], n_runs=100)
MEDIANS = Fit(DPImputer("median"), X, None, [1e9, -1e9], n_runs=100)
LABELS = Fit(logistic(), X, Y, (FAR, 1))
RIDGE = Fit(
    DPBayesianRidge((-1, 1), epsilon=1.0, data_norm=1.0, n_draws=5, sampler="clipped_residuals"),
    X,
    RESPONSES,
    (FAR, 1.0),
)
PERSONS_RIDGE = Fit(
    DPBayesianRidge(
        (-1, 1),
        epsilon=1.0,
        data_norm=1.0,
        n_draws=5,
        sampler="clipped_residuals",
        max_rows_per_group=2,
    ),
    X,
    RESPONSES,
    ([FAR] * 6, [1.0] * 6),
    {"groups": PERSONS, "index": range(6)},
)
COUNTS = Fit(
    DPBayesianPoissonRegressor(
        10, epsilon=2.0, data_norm=1.0, sampler="clipped_residuals", n_draws=5
    ),
    X,
    np.arange(N) % 4,
    {"X": FAR, "y": 10, "exposure": 50.0},
    {"exposure": np.ones(N)},
)

FITS = {
    "a matrix": MATRIX,
    "a matrix of persons": PERSONS_MATRIX,
    "categories": CATEGORIES,
    "a lone category": ONE_ALONE,
    "a chain": CHAIN,
    "a chain, a long row": LONG,
    "a longer chain": LONG_CHAIN,
    "batches": BATCHES,
    "weights": WEIGHTS,
    "a second moment": SCORING,
    "a scaler": QUANTILES,
    "medians": MEDIANS,
    "labels": LABELS,
    "a regression": RIDGE,
    "a regression of persons": PERSONS_RIDGE,
    "counts": COUNTS,
}
