"""Fits on collections of Dask: the draws of the same table in memory, on one machine or on many."""

import gc
import multiprocessing
import os
import weakref
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from references import configured

from skdpbayes import DPBayesianLogisticRegression, DPBayesianMLPClassifier
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.metrics import dp_accuracy_score, dp_log_loss
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    RowNormClipper,
)
from skdpbayes.privacy import PrivacyLedger
from skdpbayes.samplers import SGLD, Auto, Gibbs

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

from dask.sizeof import sizeof

from skdpbayes._data import dask_table as tables
from skdpbayes._data import shards
from skdpbayes._data.dask_table import DaskShards, MarkedShard, _name
from skdpbayes._data.partitions import blocks_of
from skdpbayes._data.shards import Shard
from skdpbayes._data.table import Rows


@pytest.fixture(scope="module")
def client():
    """Two processes."""
    options = {"n_workers": 2, "threads_per_worker": 2, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        with distributed.Client(cluster, set_as_default=False) as client:
            yield client


@pytest.fixture(scope="module")
def table():
    """Rows and labels."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 4))
    y = np.where(rng.random(4_000) < 1 / (1 + np.exp(-X @ [1.0, -1.0, 0.5, 0.0])), "yes", "no")
    return X, y


def in_parts(X, y, rows=700):
    """Return the table in partitions that differ from X to y."""
    return da.from_array(X, chunks=(rows, 3)), da.from_array(y, chunks=rows + 100)


SAMPLERS = [
    {},
    {"neighboring_relation": "add_or_remove_one", "public_size": 5_000},
    {"sampler": "sgfs"},
    {"sampler": SGLD(), "n_steps": 40, "n_draws": 20},
    {"sampler": SGLD(batch_size=400), "n_steps": 40, "n_draws": 20},
    {"sampler": "sghmc", "n_steps": 40, "n_draws": 20},
    {"sampler": "sgnht", "n_steps": 40, "n_draws": 20},
    {"sampler": "ops", "n_steps": 60},
    {"sampler": "bbb", "n_steps": 40},
    {"data_norm": "auto"},
    {"class_weight": {"yes": 0.5, "no": 1.0}},
]


@pytest.mark.parametrize("options", SAMPLERS, ids=str)
def test_draws_on_parts_are_those_in_memory(table, options):
    clf = configured(DPBayesianLogisticRegression(random_state=0), **options)
    here = clf.fit(*table).posterior_samples_
    there = clf.fit(*in_parts(*table)).posterior_samples_
    np.testing.assert_array_equal(here, there)
    # Without order, too: what is added up exactly has none.
    X, y = table
    X, y = (np.concatenate([part[2_100:], part[:2_100]]) for part in (X, y))
    if "batch" not in repr(options):
        shuffled = clf.fit(*in_parts(X, y)).posterior_samples_
        np.testing.assert_array_equal(here, shuffled)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "options",
    [
        SAMPLERS[0],
        SAMPLERS[4],
        pytest.param(SAMPLERS[2], marks=pytest.mark.nightly),
        pytest.param(SAMPLERS[9], marks=pytest.mark.nightly),
    ],
    ids=str,
)
def test_draws_on_a_cluster_are_those_in_memory(table, client, options):
    clf = configured(DPBayesianLogisticRegression(random_state=0), **options)
    here = clf.fit(*table).posterior_samples_
    there = clf.fit(*in_parts(*table), client=client).posterior_samples_
    np.testing.assert_array_equal(here, there)
    assert "dask" not in repr(vars(clf)).lower()


@pytest.mark.nightly
def test_three_classes_weights_and_float32(table, client):
    X, _ = table
    rng = np.random.default_rng(1)
    y, weights = rng.integers(0, 3, len(X)), rng.random(len(X))
    clf = DPBayesianLogisticRegression(random_state=0)
    here = clf.fit(X.astype(np.float32), y, sample_weight=weights).posterior_samples_
    dX, dy = in_parts(X.astype(np.float32), y)
    weights = da.from_array(weights, chunks=1_000)
    there = clf.fit(dX, dy, sample_weight=weights, client=client).posterior_samples_
    np.testing.assert_array_equal(here, there)


def test_without_privacy(table):
    clf = DPBayesianLogisticRegression(epsilon=np.inf, sampler=Auto(n_steps=200), random_state=0)
    here = clf.fit(*table).posterior_samples_
    # Nothing rounds to a lattice there but the noise of the chain.
    np.testing.assert_allclose(clf.fit(*in_parts(*table)).posterior_samples_, here, rtol=1e-9)


@pytest.mark.daily(1)
@pytest.mark.parametrize("kind", ["diag", "full"])
def test_mixtures(table, client, kind):
    X, _ = table
    mixture = DPGaussianMixturePosterior(2, covariance_type=kind, epsilon=3.0, random_state=0)
    here = mixture.fit(X).posterior_samples_
    there = mixture.fit(da.from_array(X, chunks=(900, -1)), client=client).posterior_samples_
    for mine, theirs in zip(here, there, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    lazy = mixture.score_samples(da.from_array(X, chunks=(900, 2)))
    np.testing.assert_allclose(lazy.compute(), mixture.score_samples(X))


@pytest.mark.nightly
def test_mixtures_without_privacy(table, client):
    X, _ = table
    options = {"epsilon": np.inf, "sampler": Gibbs(n_steps=30), "n_draws": 10}
    mixture = DPGaussianMixturePosterior(2, random_state=0, **options)
    here = mixture.fit(X).posterior_samples_
    there = mixture.fit(da.from_array(X, chunks=(900, -1)), client=client).posterior_samples_
    # Every row has the same allocations; sums are rounded otherwise, and no lattice makes up for it.
    for mine, theirs in zip(here, there, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7)


def test_sparse_rows(table):
    X, y = table
    X = np.where(np.abs(X) > 1.0, X, 0.0)
    clf = DPBayesianLogisticRegression(random_state=0)
    here = clf.fit(sp.csr_matrix(X), y).posterior_samples_
    blocks = da.from_array(X, chunks=(900, -1)).map_blocks(sp.csr_matrix)
    there = clf.fit(blocks, da.from_array(y, chunks=900)).posterior_samples_
    np.testing.assert_array_equal(here, there)


def frame_of(X, y):
    """Return a data frame with gaps and a text column."""
    frame = pd.DataFrame(X.copy(), columns=list("abcd"))
    frame.loc[::7, "b"] = np.nan
    return frame.assign(colour=np.where(X[:, 0] > 0, "red", "blue"), label=y)


def test_the_workflow_on_data_frames(table, client):
    frame = frame_of(*table)
    parts = dd.from_pandas(frame, npartitions=5)
    numbers, scaled = list("abcd"), {}
    for name, data in (("here", frame), ("there", parts)):
        imputer = DPImputer(strategy="median", epsilon=1.0, random_state=0).fit(data[numbers])
        filled = imputer.transform(data[numbers])
        scaler = DPQuantileScaler(epsilon=1.0, random_state=1).fit(filled)
        encoder = DPOneHotEncoder(epsilon=1.0, random_state=2).fit(data[["colour"]])
        codes = encoder.transform(data[["colour"]])
        scaled[name] = [
            imputer.statistics_,
            scaler.lower_,
            scaler.upper_,
            np.asarray(scaler.transform(filled)),
            np.asarray(codes),
        ]
        assert list(imputer.feature_names_in_) == numbers
        assert encoder.categories_ == [["blue", "red"]]
    for mine, theirs in zip(scaled["here"], scaled["there"], strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_predictions_and_scores_of_collections(table, client):
    frame = frame_of(*table).drop(columns=["b", "colour"])
    parts = dd.from_pandas(frame, npartitions=3)
    parts = dd.concat([parts, parts[parts.a > 1e9]])  # The last partitions have no rows.
    features = ["a", "c", "d"]
    scaler = BoundedScaler(-4.0, 4.0).fit(parts[features])
    clipper = RowNormClipper(1.0).fit(parts[features])
    assert np.linalg.norm(np.asarray(clipper.transform(parts[features])), axis=1).max() < 1.0 + 1e-9
    clf = DPBayesianLogisticRegression(random_state=0)
    clf.fit(scaler.transform(parts[features]), parts["label"], client=client)
    rows = scaler.transform(frame[features])
    here = DPBayesianLogisticRegression(random_state=0).fit(rows, frame["label"])
    np.testing.assert_array_equal(here.posterior_samples_, clf.posterior_samples_)
    lazy = scaler.transform(parts[features])
    for method in ("predict_proba", "predict", "decision_function"):
        predicted = getattr(clf, method)(lazy)
        assert isinstance(predicted, da.Array)
        np.testing.assert_array_equal(predicted.compute(), getattr(clf, method)(rows))
    labels, shares = clf.predict(lazy), clf.predict_proba(lazy)[:, 1]
    for score, of in ((dp_accuracy_score, labels), (dp_log_loss, shares)):
        options = {"epsilon": 1.0, "random_state": 0}
        if score is dp_log_loss:
            options["labels"] = ["no", "yes"]
        expected = score(frame["label"], np.asarray(of), **options)
        assert score(parts["label"], of, **options) == expected


def test_private_pipelines(table):
    X, y = table
    pipeline = make_private_pipeline(
        DPQuantileScaler(random_state=0), DPBayesianLogisticRegression(random_state=0), epsilon=1.0
    )
    here = pipeline.fit(X, y)[-1].posterior_samples_
    cost = pipeline.spent_epsilon_
    there = pipeline.fit(*in_parts(X, y))[-1].posterior_samples_
    np.testing.assert_array_equal(here, there)
    assert pipeline.spent_epsilon_ == cost <= 1.0


# What is refused, before anything is spent


@pytest.mark.parametrize("on_cluster", [False, True])
@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda X, y: (X, None), "y is None"),
        (lambda X, y: (np.where(X > 3.0, np.nan, X), y), "DPImputer"),
        (lambda X, y: (X, np.where(X[:, 0] > 3.0, "perhaps", y)), "not in classes"),
        (lambda X, y: (X, y[:-701]), "partitions of X"),
        (lambda X, y: (X[:0], y[:0]), "0 rows"),
    ],
    ids=["no labels", "NaN", "a label", "lengths", "empty"],
)
def test_bad_tables_are_refused(table, client, on_cluster, spoil, message):
    X, y = spoil(*table)
    X = da.from_array(X, chunks=(700, -1))
    y = y if y is None else da.from_array(y, chunks=700)
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5, allow_seeds=True)
    clf = DPBayesianLogisticRegression(classes=["no", "yes"], random_state=0)
    with ledger, pytest.raises(ValueError, match=message):
        clf.fit(X, y, client=client if on_cluster else None)
    assert ledger.spent_epsilon == 0.0


def test_what_is_not_for_collections_says_so(table):
    X, y = in_parts(*table)
    with pytest.raises(TypeError, match="in memory"):
        DPBayesianMLPClassifier().fit(X, y)
    for sampler in ("dp_fast_mh", "dp_mh"):
        with pytest.raises(ValueError, match="Dask"):
            DPBayesianLogisticRegression(sampler=sampler).fit(X, y)
    with pytest.raises(ValueError, match="client is for collections"):
        DPBayesianLogisticRegression().fit(*table, client=object())
    with pytest.raises(ValueError, match="not numeric"):
        parts = dd.from_pandas(frame_of(*table), npartitions=2)
        DPBayesianLogisticRegression().fit(parts.drop(columns="label"), parts["label"])


# What goes wrong on the way


def kill():
    """End a worker's process as a lost machine does."""
    os._exit(1)


@pytest.mark.nightly
def test_a_worker_that_dies_changes_nothing(table, monkeypatch):
    X, y = table
    clf = DPBayesianLogisticRegression(random_state=0)
    here = clf.fit(X, y).posterior_samples_
    call, passes = DaskShards.call, []

    def dying(self, *args):
        passes.append(1)
        if len(passes) == 6:
            victim = next(iter(self.client.scheduler_info()["workers"]))
            self.client.run(kill, workers=[victim], on_error="ignore")
        return call(self, *args)

    monkeypatch.setattr(DaskShards, "call", dying)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        with distributed.Client(cluster, set_as_default=False) as other:
            there = clf.fit(*in_parts(X, y), client=other).posterior_samples_
    assert len(passes) > 6
    np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("sampler", ["auto", "sgld"])
def test_a_fit_that_cannot_finish_has_spent_and_tells_no_cell(table, client, sampler, monkeypatch):
    X, y = table
    calls = []
    split = shards.Shards.each if sampler == "auto" else shards.exact_sum

    def failing(*args, **options):
        calls.append(1)
        if len(calls) == 5:
            raise RuntimeError("the network is down")
        return split(*args, **options)

    target = shards.Shards if sampler == "auto" else shards
    monkeypatch.setattr(target, "each" if sampler == "auto" else "exact_sum", failing)
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5, allow_seeds=True)
    clf = DPBayesianLogisticRegression(sampler=sampler, random_state=0)
    with ledger, pytest.warns(PrivacyWarning, match="whole plan is spent"):
        with pytest.raises(RuntimeError, match="the network is down"):
            clf.fit(*in_parts(X, y), client=client)
    assert ledger.spent_epsilon > 0.9
    assert not hasattr(clf, "posterior_samples_")


def test_tasks_that_fail_say_no_more_than_of_what_kind_the_error_is(client):
    secret = client.scatter(MarkedShard(np.array([123456.789]), b"mark"))
    secrets = DaskShards(client, [secret], [1], [b"mark"])
    with pytest.raises(RuntimeError, match="ended with TypeError") as caught:
        secrets.each(dict.__getitem__, "123456.789")
    assert "123456.789" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_nothing_stays_open_or_on_workers(table, monkeypatch):
    made, new = weakref.WeakSet(), shards.Shards.__init__

    def noting(self, *args):
        made.add(self)
        new(self, *args)

    monkeypatch.setattr(shards.Shards, "__init__", noting)
    gc.disable()
    try:
        for sampler in ("auto", "sgfs"):
            DPBayesianLogisticRegression(sampler=sampler, random_state=0).fit(*in_parts(*table))
            assert not shards._open
            assert not made
    finally:
        gc.enable()


def test_parts_have_the_size_of_their_rows():
    # Dask moves what is small to idle workers, and never spills it.
    assert sizeof(Shard(Rows(np.zeros((1_000, 4)), np.zeros(1_000)))) > 40_000


def _put_name(queue):
    queue.put(_name(kill))


def test_no_two_clients_give_tasks_one_name():
    # A scheduler takes two tasks of one name for one task: a fit would get sums of another's records.
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=_put_name, args=(queue,)) for _ in range(2)]
    for child in children:
        child.start()
    names = {queue.get(timeout=60) for _ in children}
    for child in children:
        child.join()
    assert len(names) == 2


def test_labels_and_rows_of_a_shuffled_frame_stay_together():
    x = np.random.default_rng(0).normal(size=200_000)
    frame = pd.DataFrame({"person": np.arange(x.size) % 1_000, "x": x, "y": x > 0})
    # Each time that this is computed by several threads, rows come in another order.
    shuffled = dd.from_pandas(frame, npartitions=16).shuffle("person", shuffle_method="disk")
    scaled = BoundedScaler(-4.0, 4.0).fit_transform(shuffled[["x"]])
    for X in (shuffled[["x"]], scaled):
        blocks = zip(blocks_of(X), blocks_of(shuffled["y"]), strict=True)
        pairs = dask.compute(
            *[dask.delayed(pd.DataFrame)(dict(x=dask.delayed(np.ravel)(X), y=y)) for X, y in blocks]
        )
        for pair in pairs:
            np.testing.assert_array_equal(pair.x > 0, pair.y)


@pytest.mark.parametrize("on_cluster", [False, True])
def test_partitions_that_are_not_as_declared_are_refused(table, client, on_cluster):
    X, y = table
    labels = dd.from_pandas(pd.Series(y), npartitions=2)
    halves = [pd.DataFrame(half, columns=list("abcd")) for half in np.split(X, 2)]
    wide = [da.from_delayed(dask.delayed(half), (2_000, 3), float) for half in np.split(X, 2)]
    swapped = [dask.delayed(halves[0]), dask.delayed(halves[1][list("dcba")])]
    swapped = dd.from_delayed(swapped, meta=halves[0].iloc[:0], verify_meta=False)
    missing = [dask.delayed(halves[0]), dask.delayed(halves[1].iloc[:0])]
    missing = dd.from_delayed(missing, meta=halves[0].iloc[:0])
    clf = DPBayesianLogisticRegression(random_state=0)
    ledger = PrivacyLedger(epsilon=2.0, delta=1e-5, allow_seeds=True)
    for bad, message in (
        (da.concatenate(wide), "has 4 features"),
        (swapped, "same order"),
        (missing, "inconsistent numbers"),
    ):
        with ledger, pytest.raises(ValueError, match=message):
            clf.fit(bad, labels, client=client if on_cluster else None)
    assert ledger.spent_epsilon == 0.0


def test_labels_that_are_declared_are_not_asked_for(table, monkeypatch):
    monkeypatch.setattr(tables, "_distinct_labels", None)
    clf = DPBayesianLogisticRegression(classes=["no", "yes"], random_state=0)
    assert clf.fit(*in_parts(*table)).classes_.tolist() == ["no", "yes"]


def fit_twice():
    """Fit where a task runs."""
    X, y = da.ones((400, 2), chunks=100), da.arange(400, chunks=100) % 2
    clf = DPBayesianLogisticRegression(random_state=0)
    return [clf.fit(X, y).posterior_samples_ for _ in range(2)]


@pytest.mark.nightly
def test_a_fit_may_be_a_task_itself():
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        with distributed.Client(cluster, set_as_default=False) as client:
            once, again = client.submit(fit_twice).result(timeout=120)
    np.testing.assert_array_equal(once, again)


def test_asynchronous_clients_are_refused(table):
    waits = SimpleNamespace(asynchronous=True)
    with pytest.raises(ValueError, match="asynchronous"):
        DPBayesianLogisticRegression().fit(*in_parts(*table), client=waits)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_on_the_way_to_a_sum_ends_the_fit(table, monkeypatch):
    answer, calls = shards.Shards._answer, []

    def interrupted(self, *numbers):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return answer(self, *numbers)

    monkeypatch.setattr(shards.Shards, "_answer", interrupted)
    clf = DPBayesianLogisticRegression(sampler="sgld", random_state=0)
    with pytest.warns(PrivacyWarning, match="whole plan is spent"), pytest.raises(RuntimeError):
        clf.fit(*in_parts(*table))
    assert len(calls) == 3


def test_an_imputer_that_did_not_finish_is_not_fitted(table, monkeypatch):
    calls = []

    def failing(self, *args):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("the network is down")
        return count(self, *args)

    count = shards.Shards.count
    monkeypatch.setattr(shards.Shards, "count", failing)
    imputer = DPImputer(strategy="median", epsilon=1.0, random_state=0)
    with pytest.raises(RuntimeError, match="the network is down"):
        imputer.fit(da.from_array(table[0], chunks=(700, -1)))
    assert not hasattr(imputer, "statistics_")


@pytest.mark.nightly
def test_searches_on_a_cluster_are_charged(table, client, tmp_path):
    from sklearn.model_selection import GridSearchCV

    joblib = pytest.importorskip("joblib")
    search = GridSearchCV(
        DPBayesianLogisticRegression(epsilon=0.25, delta=1e-6), {"prior_scale": [0.5, 1.0]}, cv=2
    )
    ledger = PrivacyLedger(
        epsilon=4.0, delta=1e-4, path=tmp_path / "ledger.sqlite", allow_seeds=True
    )
    with ledger, joblib.parallel_config("dask", client=client):
        search.fit(*table)
    assert len(ledger.history()) == 5
    # One that is in the memory of this process cannot be told.
    with (
        PrivacyLedger(epsilon=4.0, delta=1e-4, allow_seeds=True) as ledger,
        joblib.parallel_config("dask", client=client),
    ):
        with pytest.raises(Exception, match="cannot be charged"):
            search.set_params(error_score="raise").fit(*table)


@pytest.mark.daily(1)
@pytest.mark.parametrize("name", ["sample_weight", "exposure"])
def test_columns_beside_a_collection_in_another_order_are_refused(name):
    """As in memory, and before anything is spent; those of the same order are taken."""
    from skdpbayes import DPBayesianPoissonRegressor

    frame = pd.DataFrame({"a": np.linspace(-1, 1, 400), "y": np.arange(400) % 3, "beside": 1.5})
    rows = dd.from_pandas(frame, npartitions=2)
    other = dd.from_pandas(frame.assign(place=frame.index + 7).set_index("place"), npartitions=2)
    model = DPBayesianPoissonRegressor(2, epsilon=50.0, sampler="clipped_residuals", n_draws=5)
    with PrivacyLedger(60.0, 1e-3) as ledger:
        with pytest.raises(ValueError, match=f"^{name} has another index than X"):
            model.fit(rows[["a"]], rows["y"], **{name: other["beside"]})
        assert ledger.spent_epsilon == 0
        model.fit(rows[["a"]], rows["y"], **{name: rows["beside"]})


def test_a_column_of_another_length_is_told_its_length():
    X = da.zeros((40, 2), chunks=(20, 2))
    with pytest.raises(ValueError, match="groups has 39 entries, and X has 40 rows"):
        DPBayesianLogisticRegression(max_rows_per_group=1).fit(
            X, np.arange(40) % 2, groups=np.zeros(39)
        )


def _counts(rows):
    return np.bincount(rows.X[:, 0].astype(int), minlength=10)


def _fails_for_one(rows):
    if (rows.X[:, 0] == 3).any():
        raise ValueError("a cell: 987654321")
    return 1


def test_workers_add_up_counts_of_many_tasks_before_the_client_gets_them(client, monkeypatch):
    """As many tasks as partitions, two by two: the same integers, and few results for the client."""
    from skdpbayes._data.read import read_table

    monkeypatch.setattr(tables, "SHARE_OF_MEMORY", 1e-12)
    monkeypatch.setattr(tables, "TOGETHER", 2)
    table = np.arange(1_000.0)[:, None] % 10
    lazy, gathered = da.from_array(table, chunks=(150, 1)), []
    with read_table(DPQuantileScaler(), lazy, client=client) as remote:
        assert len(remote.shards._groups) == 7
        gather = client.gather
        monkeypatch.setattr(
            client, "gather", lambda tasks: gathered.append(len(tasks)) or gather(tasks)
        )
        found = remote.count(_counts)
        np.testing.assert_array_equal(found, np.full(10, 100))
        assert found.dtype.kind == "i" and gathered == [2]
        with pytest.raises(RuntimeError, match=r"^a task of a worker ended with ValueError\.$"):
            remote.count(_fails_for_one)
