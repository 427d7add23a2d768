"""Collections whose rows are others each time that they are computed: no fit counts a record twice."""

import os
import secrets

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from references import configured

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import ChangedRowsError, PrivacyWarning
from skdpbayes.metrics import (
    dp_accuracy_score,
    dp_brier_score,
    dp_calibration_curve,
    dp_confusion_matrix,
    dp_log_loss,
    dp_roc_auc_score,
)
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.preprocessing import DPQuantileScaler
from skdpbayes.privacy import PrivacyLedger

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

from skdpbayes._data.dask_table import DaskShards
from skdpbayes._data.partitions import mark_of
from skdpbayes._data.table import Rows


def drawn_anew(number):
    """Return rows that are others whenever they are computed."""
    return np.random.default_rng(secrets.randbits(64)).uniform(-1.0, 1.0, (500, 2))


def drawn_with_a_seed(number):
    """Return the same rows whenever they are computed."""
    return np.random.default_rng(number).uniform(-1.0, 1.0, (500, 2))


def collection(draw):
    """Return a table in four partitions."""
    parts = [da.from_delayed(dask.delayed(draw)(i), (500, 2), float) for i in range(4)]
    return da.concatenate(parts)


def kill():
    """End a worker's process as a lost machine does."""
    os._exit(1)


def losing_a_worker(monkeypatch, client, at):
    """Kill a worker at some pass over the rows, and any other that has a copy of its first rows."""
    passes, asked = [], DaskShards._asked

    def dying(self, *args):
        passes.append(1)
        if len(passes) == at:
            places = next(iter(self.client.who_has(self.futures[:1]).values()))
            client.run(kill, workers=list(places), on_error="ignore")
        return asked(self, *args)

    monkeypatch.setattr(DaskShards, "_asked", dying)


def logistic(X, client, **options):
    clf = DPBayesianLogisticRegression(classes=[False, True], random_state=0)
    clf = configured(clf, **options)
    return clf.fit(X, X[:, 0] > 0, client=client).posterior_samples_


def mixture(X, client):
    clf = DPGaussianMixturePosterior(2, epsilon=3.0, random_state=0)
    return clf.fit(X, client=client).posterior_samples_


def chain(X, client):
    return logistic(X, client, sampler="sgld", n_steps=40, n_draws=20)


@pytest.mark.nightly
@pytest.mark.parametrize("fit", [logistic, chain, mixture])
def test_a_partition_that_comes_back_with_other_rows_ends_the_fit(client, monkeypatch, fit):
    losing_a_worker(monkeypatch, client, at=5)
    ledger = PrivacyLedger(epsilon=5.0, delta=1e-4, allow_seeds=True)
    with ledger, pytest.warns(PrivacyWarning, match="whole plan is spent"):
        with pytest.raises(ChangedRowsError, match="have to be deterministic") as ended:
            fit(collection(drawn_anew), client)
    assert ledger.spent_epsilon > 0.5
    assert not any(character.isdigit() for character in str(ended.value))


@pytest.mark.nightly
def test_quantiles_of_a_source_that_changes_are_not_released(client, monkeypatch):
    losing_a_worker(monkeypatch, client, at=2)
    scaler = DPQuantileScaler(epsilon=1.0, random_state=0)
    with distributed.Client(client.scheduler.address, set_as_default=True) as current:
        with pytest.raises(ChangedRowsError):
            scaler.fit(collection(drawn_anew))
        assert current.status == "running"
    assert not hasattr(scaler, "lower_")


@pytest.mark.nightly
def test_a_partition_that_comes_back_with_its_rows_changes_nothing(client, monkeypatch):
    X = collection(drawn_with_a_seed)
    expected = logistic(X, client)
    losing_a_worker(monkeypatch, client, at=5)
    np.testing.assert_array_equal(logistic(X, client), expected)


KEY = bytes(32)
ROWS = Rows(
    np.arange(12.0).reshape(4, 3), np.array(["a", "b", "a", "b"], object), np.array([1.0, 1, 1, 2])
)


@pytest.mark.parametrize(
    "other",
    [
        ROWS._replace(X=ROWS.X[[1, 0, 2, 3]]),
        ROWS._replace(X=ROWS.X[:3]),
        ROWS._replace(X=ROWS.X.reshape(3, 4)),
        ROWS._replace(X=-ROWS.X),
        ROWS._replace(X=ROWS.X.astype(np.float32)),
        ROWS._replace(labels=ROWS.labels[[1, 0, 3, 2]]),
        ROWS._replace(labels=np.array([["a", "b"], ["a", "b"]], object)),
        ROWS._replace(weights=None),
        ROWS._replace(weights=ROWS.weights[::-1]),
        ROWS._replace(X=sp.csr_array(ROWS.X)),
    ],
)
def test_marks_of_different_rows_differ(other):
    assert mark_of(ROWS, KEY, 0) != mark_of(other, KEY, 0)
    assert mark_of(other, KEY, 0) == mark_of(other, KEY, 0)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([1, 0, 1, 0]),
        np.array([True, False, True, False]),
        np.array(["yes", "no", "yes", "no"]),
        np.array(["2020-01-01"] * 4, "datetime64[D]"),
        pd.Series(["yes", "no", "yes", "no"]),
        pd.Series(["yes", "no", "yes", "no"], dtype="category"),
        pd.Series([1, 0, 1, 0], dtype="Int64"),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_marks_are_those_of_the_content_whatever_holds_it(labels):
    X = np.arange(24.0).reshape(8, 3)
    one = Rows(X[::2], labels)
    again = Rows(X[::2].copy(), labels.copy())
    assert mark_of(one, KEY, 0) == mark_of(again, KEY, 0)
    other = Rows(X[::2], labels[::-1])
    assert (mark_of(other, KEY, 0) == mark_of(one, KEY, 0)) == (len(set(labels)) == 1)


def test_marks_do_not_tell_whether_partitions_are_equal(monkeypatch):
    """They are keyed, by the fit, and by the partition."""
    assert mark_of(ROWS, KEY, 0) != mark_of(ROWS, KEY, 1) != mark_of(ROWS, bytes([1] * 32), 1)


@pytest.mark.nightly
def test_the_key_of_marks_is_another_one_for_each_fit(client, monkeypatch):
    marks, made = [], DaskShards.__init__

    def noting(self, client, futures, sizes, found):
        marks.append(tuple(found))
        made(self, client, futures, sizes, found)

    monkeypatch.setattr(DaskShards, "__init__", noting)
    for _ in range(2):
        logistic(collection(drawn_with_a_seed), client)
    assert len({mark for found in marks for mark in found}) == 2 * 4


SCORES = {
    dp_accuracy_score: {},
    dp_log_loss: {},
    dp_brier_score: {},
    dp_calibration_curve: {"n_bins": 2},
    dp_confusion_matrix: {"labels": [0, 1]},
    dp_roc_auc_score: {},
}


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.__name__)
def test_scores_compare_labels_and_predictions_of_the_same_rows(score):
    """A row that is drawn twice would count twice, as a label and as a prediction."""
    positive = (collection(drawn_anew)[:, 0] > 0).astype(int)
    found = score(positive, positive, epsilon=1e4, random_state=0, **SCORES[score])
    if score is dp_confusion_matrix:
        found = np.trace(found) / 2_000.0
    elif score is dp_calibration_curve:
        found = found[0][1] - found[0][0]
    is_loss = score in (dp_log_loss, dp_brier_score)
    assert found == pytest.approx(0.0 if is_loss else 1.0, abs=0.01)
