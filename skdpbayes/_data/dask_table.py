"""Tables in shards: read, and summed over, where the partitions of a Dask collection are.

partitions of X, y, sample_weight -> Rows on the workers -> labels that occur, sizes, marks
sum_i f(x_i) = sum_p sum_{i in shard p} f(x_i), each sum over p where the shard is
"""

import math
import secrets
from functools import reduce
from operator import add
from typing import Any
from uuid import uuid4

import dask
import numpy as np
from dask.sizeof import sizeof
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils import check_consistent_length

from ..exceptions import ChangedRowsError
from .collections import example_of, refuse_columns_in_other_order
from .columns import labels_in
from .partitions import (
    Failed,
    aligned,
    blocks_of,
    client_or_none,
    failure,
    in_whole_rows,
    mark_of,
    raised,
    run_on_shard,
    with_sanitized_traceback,
)
from .privacy_units import choose_in_parts, has_persons
from .shards import LocalShards, Shard, Shards, of_target
from .table import UNLABELLED, Rows, Table, chosen_rows, prepared

# What scikit-learn records about columns in a fit, and checks later.
_COLUMNS = ("n_features_in_", "feature_names_in_")


class RemoteTable(Table):
    """Rows in shards, which can be read only within its context.

    Parameters
    ----------
    shards : Shards
        Those of `Rows`.
    n_features : int
    classes : ndarray of shape (n_classes,) or None
    n_samples : int or None, default=None
        The number of persons, if these are protected.
    one_of_each : bool, default=False
        As for `Table`.
    """

    def __init__(self, shards, n_features, classes, n_samples=None, one_of_each=False):
        self.shards, self.n_features, self.classes = shards, n_features, classes
        self.one_of_each = one_of_each
        self.n_samples = sum(shards.sizes) if n_samples is None else n_samples

    def __enter__(self):
        self.shards.__enter__()
        return self

    def __exit__(self, *error):
        self.shards.__exit__(*error)

    def count(self, function, *args):
        """The sum over shards of what a function of `Rows` computes, in integers."""
        return self.shards.count(function, *args)

    def target(self, make, remote):
        """Build the targets on the workers and return a remote handle to them."""
        # The rows from which targets are built are not needed any more.
        made = self.shards.map_shards(make, in_place=True)
        self.__exit__()
        self.shards = made.__enter__()
        return remote(made.address, sum(made.sizes))


def read_collection(estimator, X, y, sample_weight, exposure, groups, client, validate, only=None):
    """The `RemoteTable` of a collection; parameters are those of `read_table`."""
    _check(estimator, y)
    limit = getattr(estimator, "max_rows_per_group", None)
    protects_persons = has_persons(groups, limit)
    # Sets names and the number of features, and refuses columns of text.
    n_features = validate(estimator, example_of(X), reset=True).shape[1]
    columns = {name: vars(estimator)[name] for name in _COLUMNS if hasattr(estimator, name)}
    client, labelled = client_or_none(client), not (isinstance(y, str) and y == UNLABELLED)
    X = in_whole_rows(X)
    blocks = blocks_of(X)
    beside = [
        [None] * len(blocks) if part is None else aligned(part, X, len(blocks), name)
        for name, part in (
            ("y", y if labelled else None),
            ("sample_weight", sample_weight),
            ("exposure", exposure),
        )
    ]
    blocks, n_samples = list(zip(blocks, *beside, strict=True)), None
    if protects_persons:
        # Proposition 60.
        chosen = choose_in_parts(groups, X, limit, estimator.random_state, client)
        blocks, n_samples = chosen.of(blocks, "X", "y"), chosen.n_persons
    if only is not None and len(only) != len(blocks):
        raise RuntimeError("a step gets other partitions than its pipeline has chosen rows of.")
    only = [None] * len(blocks) if only is None else only
    shards = _load(blocks, client, only, labelled, validate, columns)
    classes = None
    if labelled:
        classes = None if is_regressor(estimator) else _classes(estimator, shards)
        of_rows = prepared(estimator, classes, sample_weight)
        shards = shards.map_shards(_prepared, of_rows, in_place=True)
    return RemoteTable(shards, n_features, classes, n_samples, only[0] is not None)


def _classes(estimator, shards):
    """The labels that are declared, or those that occur."""
    declared = estimator.classes
    return labels_in(
        None if declared is not None else np.concatenate(shards.each(_distinct_labels)), declared
    )


def _check(estimator, y):
    if not getattr(estimator, "_reads_collections", False):
        raise TypeError(
            f"{type(estimator).__name__} is for tables in memory: pass X.compute() if it fits, or use "
            "DPBayesianLogisticRegression, which reads Dask collections."
        )
    if y is None:
        raise ValueError(
            "y is None, but a fit needs labels or responses: pass a column of the collection."
        )


def _load(blocks, client, only, *how):
    """Validate the partitions, and return those with rows as `Shards`."""
    read, key = dask.delayed(_read_part, pure=False), secrets.token_bytes(32)
    read = [
        read(block, key, number, (block_rows, *how))
        for number, (block, block_rows) in enumerate(zip(blocks, only, strict=True))
    ]
    if client is None:
        rows = dask.compute(*read)
        return LocalShards(raised(rows), [_size_and_mark(part)[0] for part in rows]).without_empty()
    futures = client.compute(read)
    known = raised(client.gather(client.map(_size_and_mark, futures, pure=False)))
    return DaskShards(client, futures, *zip(*known, strict=True)).without_empty()


def _read_part(block, key, number, how):
    """The validated `Rows` of a partition as a `MarkedShard`, or the failure."""
    rows = run_on_shard(_read_partition, block, *how)
    mark = run_on_shard(mark_of, rows, key, number)
    return mark if isinstance(mark, Failed) else MarkedShard(rows, mark)


@with_sanitized_traceback
def _read_partition(block, only, labelled, validate, columns):
    """The validated `Rows` of a partition, whose columns must be those the collection declares."""
    X, y, *beside = block
    check_consistent_length(X, y, *beside)
    if X.shape[0] == 0:
        return Rows(X, y, *beside)
    reader = BaseEstimator()
    vars(reader).update(columns)
    if not labelled:
        return Rows(chosen_rows(validate(reader, X, reset=False), only))
    refuse_columns_in_other_order(
        X=X, y=y, **dict(zip(("sample_weight", "exposure"), beside, strict=True))
    )
    X, y = validate(reader, X, y, reset=False)
    return Rows(X, y, *beside)


def _size_and_mark(part):
    return part if isinstance(part, Failed) else (part.target.X.shape[0], part.mark)


def _distinct_labels(rows):
    return np.unique(rows.labels)


@with_sanitized_traceback
def _prepared(rows, prepare):
    return prepare(rows)


# Shards of a table that a cluster's workers hold, in memory or in files.
#
#     theta -> workers -> one sum for each shard -> the client, which adds them up
#
# A pass is one task for each thread of a worker, for the shards that the worker holds; or more, so
# that a task needs a small share of the worker's memory at a time. What Dask has moved to files for
# want of memory comes back for its task, and may go again after it: shards as a whole may be larger
# than memory. Every other pass runs backwards, and begins with what was used last. If a worker is
# lost, Dask recomputes its shards from their source. Every task compares a shard's mark with that of
# the rows that were read first, because a source that changes could put one record into two shards.


# What tasks that run at a time may need of a worker's memory, if no shard is larger. Dask moves what it holds
# to files beyond six tenths.
SHARE_OF_MEMORY = 1 / 8


# How many sums of integers one task adds up, and how many the client gets at most.
TOGETHER = 16


class MarkedShard(Shard):
    """A shard with a mark of its rows, which is passed on to targets that are made of these.

    Parameters
    ----------
    target : object
    mark : bytes
    """

    def __init__(self, target, mark):
        super().__init__(target)
        self.mark = mark

    def __reduce__(self):
        return MarkedShard, (self.target, self.mark)


class DaskShards(Shards):
    """Shards on a cluster.

    Parameters
    ----------
    client : distributed.Client
    futures : list of distributed.Future
        One for each shard, a `MarkedShard`: with a target, or an object that `map_shards` turns into one.
    sizes : sequence of int
        Numbers of rows.
    marks : sequence of bytes
        Marks of the rows that were read first; a sum over others is an error.
    """

    def __init__(self, client, futures, sizes, marks):
        super().__init__(sizes)
        self.client, self.futures, self.marks, self._tasks = client, futures, tuple(marks), []
        self._groups = _groups(client, futures)

    def call(self, function, of_shards, *args):
        """The results of a function for all shards, in their order."""
        found = [None] * len(self.futures)
        self._groups.reverse()
        of_groups = [[of_shards[p] for p in group] for group in self._groups]
        tasks = self._tasks = self._asked(results_of_shards, function, of_groups, args)
        for group, results in zip(self._groups, self.client.gather(tasks), strict=True):
            for p, result in zip(group, results, strict=True):
                found[p] = result
        return raised(found)

    def count(self, function, *args):
        """The sum over shards, of integers; each worker adds up its own, and some those of others.

        So the client gets few results, however many workers there are.
        """
        unused = [None] * len(self._groups)
        tasks = self._asked(sum_shards, function, unused, args)
        everything = list(tasks)
        while len(tasks) > TOGETHER:
            parts = [tasks[first : first + TOGETHER] for first in range(0, len(tasks), TOGETHER)]
            tasks = self.client.map(add_results, parts, key=[_name(add_results) for _ in parts])
            everything += tasks
        self._tasks = everything
        return reduce(add, raised(self.client.gather(tasks)))

    def _asked(self, do, function, of_groups, args):
        """The futures of one task for each group of shards.

        The client sends messages every 10 ms, so all tasks go into one. Tasks of the previous pass are
        released only after that.
        """
        return self.client.map(
            do,
            [function] * len(self._groups),
            [[self.futures[p] for p in group] for group in self._groups],
            [[self.marks[p] for p in group] for group in self._groups],
            of_groups,
            [args] * len(self._groups),
            key=[_name(function) for _ in self._groups],
        )

    def chosen(self, numbers):
        """The shards with the given indices."""
        selected = ([each[p] for p in numbers] for each in (self.futures, self.sizes, self.marks))
        return DaskShards(self.client, *selected)

    def map_shards(self, function, *args, numbered=False, in_place=False):
        """New shards on the same workers, with targets that a function makes from these."""
        futures = self.client.map(
            make_one,
            [function] * len(self.futures),
            self.futures,
            self.marks,
            self.own_args(args, numbered),
            key=[_name(function) for _ in self.futures],
        )
        if in_place:
            # Each is released when what is made of it is there, and not when all is.
            self.futures = []
        raised(self.client.gather(self.client.map(failure, futures, pure=False)))
        return DaskShards(self.client, futures, self.sizes, self.marks)


@sizeof.register(Shard)
def _size_of(shard):
    """The size of a shard in bytes, by which Dask decides what to move to other workers or to disk."""
    target = shard.target
    # Of tuples with more than ten entries, Dask looks at a random ten.
    return sum(map(sizeof, target)) if isinstance(target, tuple) else sizeof(target)


def _name(function):
    """A name for a task: it is visible, does not reveal arguments, and is unique among clients."""
    named = getattr(function, "func", function)  # Of a partial.
    return f"{named.__name__.strip('_')}-{uuid4().hex}"


def _groups(client, futures):
    """The indices of the futures of each task: some of those on a worker, which are small together.

    There are as many tasks as the worker has threads, or more if they would need much of its memory.
    """
    places, workers = client.who_has(futures), client.sync(client.scheduler.identity)["workers"]
    held = client.nbytes([future.key for future in futures], summary=False)
    on: dict[Any, list[int]] = {}
    for number, future in enumerate(futures):
        on.setdefault(next(iter(places.get(future.key, ())), None), []).append(number)
    groups = []
    for worker, numbers in on.items():
        known = workers.get(worker, {})
        limit, n = known.get("memory_limit"), known.get("nthreads", 1)
        numbers.sort(key=lambda number: -held[futures[number].key])  # So that groups are alike.
        if limit:
            total = sum(held[futures[number].key] for number in numbers)
            n = max(n, math.ceil(total * known["nthreads"] / (SHARE_OF_MEMORY * limit)))
        groups += [numbers[first::n] for first in range(min(n, len(numbers)))]
    return groups


# Run by workers


def as_read(shard, mark):
    """A shard, or a failure if its rows are not those that were read first."""
    if isinstance(shard, Failed) or shard.mark == mark:
        return shard
    return Failed(
        ChangedRowsError(
            "a partition was computed again and came with other rows, so that a record might have "
            "counted twice: sources of a fit have to be deterministic. Write the rows to files first, "
            "or seed what draws them; shuffles may change their order."
        )
    )


def make_one(function, shard, mark, args):
    """The shard that a function makes from the target of another, or the failure."""
    shard = as_read(shard, mark)
    made = run_on_shard(function, shard if isinstance(shard, Failed) else shard.target, *args)
    return made if isinstance(made, Failed) else MarkedShard(made, mark)


def results_of_shards(function, shards, marks, of_shards, args):
    """The results of a function for each shard of a worker."""
    shards = map(as_read, shards, marks)
    return [
        run_on_shard(function, shard, arguments, *args)
        for shard, arguments in zip(shards, of_shards, strict=True)
    ]


def sum_shards(function, shards, marks, _, args):
    """The sum of the results of a function for the targets of a worker's shards."""
    results = [
        run_on_shard(of_target, shard, function, args, {}) for shard in map(as_read, shards, marks)
    ]
    return add_results(results)


def add_results(results):
    """The sum of some results, or the first failure among them."""
    return next(filter(failure, results), None) or reduce(add, results)
