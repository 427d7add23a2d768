"""Tables that are larger than the memory of those who hold them: a pass needs a part of them at a time."""

import re
import resource
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from skdpbayes import DPBayesianLogisticRegression

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

from dask.sizeof import sizeof

from skdpbayes._data.dask_table import SHARE_OF_MEMORY, DaskShards, MarkedShard
from skdpbayes._data.dask_table import _groups as groups_of

MB = 10**6


def groups(sizes, workers, places):
    """Return the groups of shards of some sizes on workers of (threads, memory)."""
    known = {
        name: {"nthreads": threads, "memory_limit": limit}
        for name, (threads, limit) in workers.items()
    }
    client = SimpleNamespace(
        who_has=lambda futures: {f.key: (p,) for f, p in zip(futures, places, strict=True)},
        nbytes=lambda keys, summary: dict(zip(keys, sizes, strict=True)),
        scheduler=SimpleNamespace(identity=lambda: {"workers": known}),
        sync=lambda function: function(),
    )
    found = groups_of(client, [SimpleNamespace(key=f"k{number}") for number in range(len(sizes))])
    assert sorted(number for group in found for number in group) == list(range(len(sizes)))
    assert all(len({places[number] for number in group}) == 1 for group in found)
    return found


def test_tasks_that_run_at_a_time_need_a_small_share_of_a_workers_memory():
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 20, 200) * MB
    limits = {"a": (2, 1_600 * MB), "b": (4, 800 * MB)}
    places = rng.choice(["a", "b"], 200).tolist()
    found = groups(sizes, limits, places)
    for group in found:
        threads, limit = limits[places[group[0]]]
        # Shards are not cut: a task may need a part of one more.
        assert sizes[group].sum() <= SHARE_OF_MEMORY * limit / threads + 20 * MB
    assert len(found) < 100


def test_a_pass_over_little_is_one_task_for_each_thread():
    for limit in (100_000 * MB, 0, None):
        found = groups([MB] * 50, {"a": (2, limit), "b": (3, limit)}, ["a"] * 20 + ["b"] * 30)
        assert len(found) == 5
    assert groups([MB] * 2, {"a": (8, 10_000 * MB)}, ["a", "a"]) == [[0], [1]]


def doubled(target):
    return 2 * target


def test_rows_are_released_as_soon_as_targets_are_made_of_them(client):
    old = [client.scatter(MarkedShard(np.full(1_000, i), b"mark")) for i in range(6)]
    keys = [future.key for future in old]
    shards = DaskShards(client, list(old), [1_000] * 6, [b"mark"] * 6)
    copies = shards.map_shards(doubled)
    assert all(client.who_has(keys).values())
    old.clear()
    made = shards.map_shards(doubled, in_place=True)
    while any(client.who_has(keys).values()):
        time.sleep(0.01)  # The scheduler tells the workers.
    for found in (made, copies):
        assert found.count(np.sum) == 2 * 1_000 * sum(range(6))


def test_sizes_of_targets_are_exact_whatever_their_number_of_fields():
    """Of longer tuples Dask looks at ten random entries, and would move a table for an empty one."""
    target = (np.zeros(10**6), *map(np.zeros, [0] * 30))
    found = {sizeof(MarkedShard(target, b"")) for _ in range(20)}
    assert len(found) == 1 and min(found) >= 8 * MB


def drawn(number):
    """Return some 40 MB of rows."""
    return np.random.default_rng(number).normal(size=(100_000, 50)) / 8.0


def peak():
    """Return the largest memory that a process has had, in MiB; that of `getrusage` may be its parent's."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    return int(re.search(r"VmHWM:\s+(\d+)", status.read_text())[1]) / 2**10


@pytest.mark.nightly
def test_a_table_larger_than_its_worker_has_the_draws_of_memory():
    """27 partitions of 38 MiB are 1,030 MiB."""
    parts = [da.from_delayed(dask.delayed(drawn)(i), (100_000, 50), float) for i in range(27)]
    X = da.concatenate(parts)
    model = DPBayesianLogisticRegression(classes=[False, True], data_norm=2.0, random_state=0)
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(memory_limit="900MiB", **options) as cluster:
        with distributed.Client(cluster, set_as_default=False) as client:
            there = model.fit(X, X[:, 0] > 0, client=client).posterior_samples_
            (most,) = client.run(peak).values()
    assert most < 900
    np.testing.assert_array_equal(model.fit(X, X[:, 0] > 0).posterior_samples_, there)
