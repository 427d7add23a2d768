"""Two runs on neighbouring tables: what is as charged passes, and planted bugs are found."""

import functools

import numpy as np
import pandas as pd
import pytest
from releases import NoisySum
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler
from small_tables import ACROSS, FAR, N, X, Y, logistic

from skdpbayes import (
    DPBayesianLogisticRegression,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
    DPGaussianMixturePosterior,
    metrics,
)
from skdpbayes.audit import replay
from skdpbayes.model_selection import DPRandomizedSearchCV
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import DPImputer, DPOneHotEncoder, DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.samplers import DPMH, OPS, SGLD, NoiseAware
from skdpbayes.samplers.statistics import requests

P = np.random.default_rng(1).random(N)
TEXT = np.where(X > 0, "a", "b").astype(object)


@pytest.mark.parametrize("last", [NoisySum(), None], ids=["a sum", "a model"])
def test_a_scaler_that_learns_without_noise_is_found(last):
    result = replay(make_pipeline(StandardScaler(), last or DPQuantileScaler()), X, None, 100 * FAR)
    assert any("steps" in one.text for one in result.violations if one.kind == "output")


@pytest.mark.nightly
def test_steps_with_budgets_of_their_own_cost_what_all_of_them_do():
    result = replay(make_pipeline(DPQuantileScaler(), logistic()), X, Y, (100 * FAR, 0))
    assert result.passed and result.n_releases > 15, str(result)


def test_frames_and_columns_are_changed_where_they_are():
    frame = pd.DataFrame(X, columns=["a", "b"], index=range(7, 7 + N))
    assert replay(DPQuantileScaler(), frame, None, 1e9 * FAR, index=3).passed


@pytest.mark.nightly
def test_steps_that_would_run_in_workers_are_listened_to():
    union = FeatureUnion([("a", DPQuantileScaler()), ("b", DPQuantileScaler())], n_jobs=2)
    last = DPBayesianLogisticRegression(classes=[0, 1], n_draws=5, sampler=NoiseAware())
    result = replay(make_private_pipeline(union, last, epsilon=2.0), X, Y, (1e9 * FAR, 0))
    assert result.violations == () and result.n_releases > 12, str(result)


TRANSFORMERS = {
    "quantiles": (DPQuantileScaler(), X, [1e9 * FAR, np.full(2, np.nan)]),
    "bounds": (DPQuantileScaler(bounds=(-1, 1)), X, [FAR]),
    "medians": (DPImputer("median"), X, [1e9 * FAR, np.full(2, np.nan)]),
    "categories": (DPOneHotEncoder(delta=1e-3), TEXT, [np.array(["a", "new"], dtype=object)]),
}


@pytest.mark.daily(2)
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_pass(name):
    transformer, table, records = TRANSFORMERS[name]
    for record in records:
        result = replay(transformer, table, None, record)
        assert result.passed and result.n_releases >= 2, str(result)


SCORES = {
    "dp_accuracy_score": (Y, Y, (1, 0), {}),
    "dp_log_loss": (Y, P, (1, 0.0), {}),
    "dp_brier_score": (Y, P, (0, 1.0), {}),
    "dp_roc_auc_score": (Y, P, (0, 9.0), {}),
    "dp_confusion_matrix": (Y, Y, (1, 0), {"labels": [0, 1]}),
    "dp_calibration_curve": (Y, P, (0, 1.0), {}),
    "dp_mean_squared_error": (P, P, (1.0, 0.0), {"target_bounds": (0, 1)}),
    "dp_mean_absolute_error": (P, P, (1.0, 0.0), {"target_bounds": (0, 1)}),
    "dp_r2_score": (P, P, (1.0, 0.0), {"target_bounds": (0, 1)}),
    "dp_mean_poisson_deviance": (np.arange(N) % 3, P + 0.1, (9, 0.1), {}),
    "dp_mean_score": (P, None, 1e9, {"bounds": (0, 1)}),
}


@pytest.mark.parametrize("name", SCORES)
def test_scores_pass(name):
    first, second, record, options = SCORES[name]
    score = functools.partial(getattr(metrics, name), epsilon=1.0, **options)
    result = replay(score, first, second, record)
    assert result.passed and 0.2 < result.largest_share <= 1.0, str(result)
    if name not in ("dp_roc_auc_score", "dp_mean_score"):
        added = functools.partial(score, neighboring_relation="add_or_remove_one")
        assert replay(added, first, second, None).passed


def test_every_score_is_replayed():
    assert set(SCORES) == {name for name in metrics.__all__ if name.startswith("dp_")}


def test_a_score_with_half_its_sensitivity_is_found(monkeypatch):
    scale = metrics._tables._table_scale
    monkeypatch.setattr(metrics._tables, "_table_scale", lambda plan, unit: scale(plan, unit) / 2)
    score = functools.partial(metrics.dp_confusion_matrix, labels=[0, 1], epsilon=1.0)
    result = replay(score, Y, Y, (1, 0))
    assert [one.kind for one in result.findings] == ["sensitivity"] and result.largest_share == 2.0


def test_the_default_classifier_passes():
    result = replay(logistic(), X, Y, (ACROSS, 0))
    assert result.passed and result.n_releases == 15 and result.largest_share > 0.95, str(result)


# Estimators, tables and labels, and records.
FITS = {
    "norm": (logistic(data_norm="auto"), np.tile(X, (20, 1)), np.tile(Y, 20), [(1e9 * FAR, 1)]),
    "longer rows": (logistic(), X, Y, [(1e30 * FAR, 1), (FAR, 1)]),
    "add or remove": (
        logistic(neighboring_relation="add_or_remove_one", public_size=N, delta=1e-4),
        X,
        Y,
        [None],
    ),
    "three classes": (logistic(classes=[0, 1, 2]), X, np.arange(N) % 3, [(FAR, 2)]),
    "numbers": (
        DPBayesianRidge((-1, 1), epsilon=2.0, data_norm=1.0, n_draws=5),
        X,
        X[:, 0],
        [(FAR, 1.0), (X[0], 1e9)],
    ),
    "counts": (
        DPBayesianPoissonRegressor(
            10, epsilon=2.0, data_norm=1.0, sampler="clipped_residuals", n_draws=5
        ),
        X,
        np.arange(N) % 4,
        [(FAR, 10)],
    ),
    "mixture": (
        DPGaussianMixturePosterior(2, epsilon=2.0, data_norm=1.0, n_draws=5),
        X,
        None,
        [FAR, ACROSS],
    ),
    "full mixture": (
        DPGaussianMixturePosterior(
            2, epsilon=2.0, data_norm=1.0, covariance_type="full", n_draws=5
        ),
        X,
        None,
        [FAR],
    ),
    "pipeline": (
        make_private_pipeline(
            DPQuantileScaler(), DPBayesianLogisticRegression(classes=[0, 1], n_draws=5), epsilon=2.0
        ),
        X,
        Y,
        [(1e9 * FAR, 0)],
    ),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", FITS)
def test_fits_pass(name):
    estimator, table, labels, records = FITS[name]
    for record in records:
        result = replay(estimator, table, labels, record)
        assert result.passed and result.n_releases > 10, str(result)


@pytest.mark.nightly
def test_weights_at_and_above_their_maximum_pass():
    for record in (
        {"X": FAR, "y": 0, "sample_weight": 2.0},
        {"X": FAR, "y": 1, "sample_weight": 0.0},
        {"sample_weight": 1e9},
    ):
        model = logistic(max_sample_weight=2.0)
        assert replay(model, X, Y, record, sample_weight=np.ones(N)).passed


def halved(shift):
    return lambda *args: 2.0 * shift(*args)


# What is broken in the package, and an estimator and a record that show it.
BROKEN = {
    "noise of labels and scores": (
        requests,
        "sensitivity_after_rounding",
        halved,
        "longer rows",
        (FAR, 1),
    ),
    "noise of noisy sums": (requests, "sensitivity_after_rounding", halved, "numbers", (FAR, -1.0)),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", BROKEN)
def test_half_the_noise_of_a_sampler_is_found(name, monkeypatch):
    module, function, breaking, case, record = BROKEN[name]
    monkeypatch.setattr(module, function, breaking(getattr(module, function)))
    result = replay(*FITS[case][:3], record)
    assert any(one.kind == "sensitivity" for one in result.violations), str(result)


@pytest.mark.nightly
def test_rows_that_are_not_shortened_are_found(monkeypatch):
    """In coordinates that whiten, rows are longer than the norm that noise is for."""
    found = requests.map_records
    monkeypatch.setattr(
        requests,
        "map_records",
        lambda change, target, transform, norm, power, of_matrices, **options: found(
            change, target, transform, 1e9, power, 1e9, **options
        ),
    )
    result = replay(logistic(), X * 0.05, Y, (FAR, 0))
    assert any(one.kind == "sensitivity" for one in result.violations), str(result)


# Of these nothing passes the door: decisions, and states that stay hidden.
HIDDEN = {
    "dp_mh": (logistic(sampler=DPMH(n_steps=20)), "a random walk"),
    "last iterate": (logistic(sampler=SGLD(release="last_iterate", n_steps=40)), "overdamped"),
    "ops": (logistic(sampler=OPS(n_steps=40)), "overdamped"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", HIDDEN)
def test_what_is_not_released_step_by_step_never_passes(name):
    estimator, what = HIDDEN[name]
    result = replay(estimator, X, Y, (FAR, 0))
    assert not result.passed and result.violations == (), str(result)
    assert any(what in one.text for one in result.findings if one.kind == "not covered")


@pytest.mark.nightly
def test_search_releases_are_as_charged_but_for_the_number_of_runs():
    search = DPRandomizedSearchCV(logistic(), {"data_norm": [1.0]}, mean_candidates=2, delta=1e-3)
    result = replay(search, X, Y, (FAR, 0))
    assert not result.passed and result.violations == () and result.largest_share > 0.5
    assert "number of runs" in str(result)


def test_no_ledger_is_there_and_records_are_taken_out_where_they_may_be():
    with PrivacyLedger(10.0, 1e-4, allow_seeds=True), pytest.raises(ValueError, match="is active"):
        replay(DPQuantileScaler(), X, None, FAR)
    with pytest.raises(ValueError, match="record=None"):
        replay(DPQuantileScaler(), X, None, None)


@pytest.mark.parametrize(
    "record, named",
    [
        (([90.0], 1), r"shape \(1,\) for X, and needs \(2,\): one for each column"),
        ((90.0, 1), r"shape \(\) for X"),
        ({"X": [1.0, 0.0, 0.0]}, r"shape \(3,\) for X"),
        ((FAR, [0, 1]), r"shape \(2,\) for y, and needs a single one"),
        ((FAR,), "tuple of 1: give"),
    ],
)
def test_a_record_has_a_value_for_each_column(record, named):
    with pytest.raises(ValueError, match=named):
        replay(logistic(), X, Y, record)
    with pytest.raises(ValueError, match=named):
        replay(logistic(), pd.DataFrame(X), pd.Series(Y), record)


def test_persons_have_as_many_rows_in_the_record():
    with pytest.raises(ValueError, match="of each row of index"):
        replay(NoisySum(), X, None, FAR, index=[0, 1])
    assert replay(NoisySum(), X, None, FAR[None]).n_releases == 1


def test_what_a_record_does_not_give_stays():
    """A label that is not given is that of the first table, so that the record moves less."""
    both, row = (replay(logistic(), X, Y, one) for one in ((X[0], 0), X[0]))
    assert both.largest_share > 0.5 and row.largest_share == 0.0
