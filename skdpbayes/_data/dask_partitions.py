"""Partitions of Dask collections: functions of rows, marks of their rows, and sums that workers form."""

import hmac
import math
from contextlib import suppress
from functools import reduce
from operator import add
from typing import Any
from uuid import uuid4

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask.sizeof import sizeof
from sklearn import config_context, get_config

from .._compute.execution import single_threaded_blas
from .._errors import reraise_if_safe, sanitize_errors, suppress_fp_warnings
from ..exceptions import ChangedRowsError
from .collections import example_of, is_collection, refuse_other_order
from .shards import Shard, Shards, of_target

# Marks of partitions, which tell whether one that is computed again still has the same rows.
#
#     mark = HMAC_key(number of the partition, types, shapes and bytes of X, y and weights)
#
# The key is drawn for each fit: marks say nothing about rows, not even that two tables have the same.


def mark_of(rows, key, number):
    """The mark of the `Rows` of a partition.

    Parameters
    ----------
    rows : Rows
        Validated.
    key : bytes
    number : int
        Of the partition.

    Returns
    -------
    mark : bytes
    """
    mark = hmac.new(key, digestmod="sha256")  # Which processors have instructions for.
    mark.update(repr(number).encode())
    for part in rows:
        for array in _arrays_of(part):
            mark.update(repr((array.dtype.str, array.shape)).encode())
            mark.update(_bytes_of(array))
    return mark.digest()


def _arrays_of(part):
    if part is None:
        return ()
    if sp.issparse(part):
        return np.array(part.shape), part.data, part.indices, part.indptr
    return (np.asarray(part),)


def _bytes_of(array):
    if array.dtype.kind not in "OT":
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    # Labels and categories, whose own bytes are addresses: their different values, and which is where.
    values, numbers = array.ravel().tolist(), dict[Any, int]()
    try:
        places = [numbers.setdefault(value, len(numbers)) for value in values]
        if all(value == value for value in numbers):
            return np.array(places).tobytes() + repr(list(numbers)).encode()
    except TypeError:  # Some cannot be compared.
        pass
    return repr(values).encode()


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
# Workers log the arguments of tasks that fail, records included. Tasks therefore never fail: they
# return the kind of the error instead.


# What tasks that run at a time may need of a worker's memory, if no shard is larger. Dask moves what it holds
# to files beyond six tenths.
SHARE_OF_MEMORY = 1 / 8


# How many sums of integers one task adds up, and how many the client gets at most.
TOGETHER = 16


class Failed:
    """The result of a failed task: an error that says nothing about records."""

    def __init__(self, error):
        self.error = error


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


def raised(results):
    """Results; raises the first error among them."""
    for result in filter(failure, results):
        raise result.error
    return results


# Run by workers


def failure(result):
    """A result if it is a failure, else None."""
    return result if isinstance(result, Failed) else None


def with_sanitized_traceback(function):
    """Declare that the errors of a function say nothing about records."""
    function.has_sanitized_errors = True
    return function


def run_on_shard(function, shard, *args):
    """The result of a function, or its failure; earlier failures are passed on."""
    if isinstance(shard, Failed):
        return shard
    try:
        # Tasks run side by side, each on a core.
        with suppress_fp_warnings(), single_threaded_blas():
            return function(shard, *args)
    except Exception as error:
        if getattr(function, "has_sanitized_errors", False):
            return Failed(error)
        return Failed(RuntimeError(f"a task of a worker ended with {type(error).__name__}."))


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


def client_or_none(client):
    """The given client, or the current one, or None."""
    try:
        from distributed import get_client, secede

        client = get_client() if client is None else client
    except (ImportError, ValueError):
        return None
    if client.asynchronous:
        raise ValueError(
            "client is asynchronous, but a fit waits for results: pass one with asynchronous=False."
        )
    # A fit that is itself a task of a worker leaves its thread, once, to the tasks that it waits for.
    with suppress(ValueError, KeyError):
        secede()
    return client


def in_whole_rows(X):
    """A collection whose partitions have all columns, as those of data frames always do."""
    return X.rechunk({1: -1}) if hasattr(X, "rechunk") else X


def blocks_of(collection):
    """The partitions of a collection, in their order.

    Graphs are not optimised, because each column of a data frame could then get a shuffle of its own, with a
    different order of rows.
    """
    return list(np.ravel(np.array(collection.to_delayed(optimize_graph=False), dtype=object)))


def aligned(part, X, n_blocks, name):
    """The blocks of labels or weights that belong to the partitions of X."""
    chunks = X.chunks[0] if hasattr(X, "chunks") else (np.nan,)
    if is_collection(part):
        if hasattr(part, "rechunk") and part.shape[0] == sum(chunks):
            part = part.rechunk({0: chunks})
        blocks = blocks_of(part)
        if len(blocks) == n_blocks:
            return blocks
    else:
        size = sanitize_errors(
            np.shape, part, on_error=reraise_if_safe(f"{name} must be a column.")
        )[:1]
        if size == (sum(chunks),):
            return np.split(np.asarray(part), np.cumsum(chunks)[:-1])
        if size and not np.isnan(sum(chunks)):
            raise ValueError(
                f"{name} has {size[0]} entries, and X has {sum(chunks)} rows: give one for each row, as a "
                "column in memory or as a Dask collection with the partitions of X."
            )
    raise ValueError(
        f"{name} must have the partitions of X: pass a Dask collection that was made in the same way, e.g. a "
        "column of the same data frame."
    )


def refuse_other_order_in_parts(X, **columns):
    """Raise a ValueError if a partition of a column has another index than that of the table.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
    **columns : collection, array-like or None
        By name. Only frames and columns of frames have an index.
    """
    if not hasattr(X, "divisions"):
        return
    blocks, check = blocks_of(X), dask.delayed(_checked, pure=False)
    for name, column in columns.items():
        if is_collection(column) and hasattr(column, "divisions"):
            parts = aligned(column, X, len(blocks), name)
            raised(dask.compute(*map(check, blocks, parts, [name] * len(blocks))))


def _checked(block, part, name):
    return run_on_shard(_in_same_order, block, part, name)


@with_sanitized_traceback
def _in_same_order(block, part, name):
    refuse_other_order(name, part, X=block)


# Functions of rows, applied to the partitions of a collection, and columns brought to the client.


# What scikit-learn's configuration says about the form of tables, in this process and not on workers.
_FORMS = ("transform_output",)


def map_blocks(function, X):
    """Apply a function to each partition, and return a collection with the same partitions.

    A task that reads rows never fails, because Dask logs the arguments of tasks that do: the next one, which
    is given the error alone, raises it.

    Parameters
    ----------
    function : callable
        Maps a table to one with an entry, or a row, for each row of the table.
    X : dask.array.Array, dask.dataframe.DataFrame or dask.dataframe.Series

    Returns
    -------
    partitions : dask.array.Array, or dask.dataframe.DataFrame if the function returns data frames
    """
    X = in_whole_rows(X)
    like = function(example_of(X))
    attempt, raising = (dask.delayed(one, pure=True) for one in (_attempt, unless_failed))
    forms = {name: get_config()[name] for name in _FORMS}
    function, none = dask.delayed(function), like[:0]
    partitions = [raising(attempt(function, block, none, forms)) for block in blocks_of(X)]
    sizes = X.chunks[0] if hasattr(X, "chunks") else (np.nan,) * X.npartitions
    return collection_of(partitions, none, sizes)


def collection_of(blocks, none, sizes=None):
    """A collection of partitions that are delayed.

    Parameters
    ----------
    blocks : list of dask.delayed.Delayed
    none : ndarray, data frame or column
        One without rows, which has the columns and types of the partitions.
    sizes : sequence of int or None, default=None
        Of the partitions of an array; None if they are not known.
    """
    if hasattr(none, "iloc"):
        import dask.dataframe as dd

        return dd.from_delayed(blocks, meta=none, verify_meta=False)
    sizes = (np.nan,) * len(blocks) if sizes is None else sizes
    return da.concatenate(
        [
            da.from_delayed(block, (size, *none.shape[1:]), meta=none)
            for size, block in zip(sizes, blocks, strict=True)
        ],
        allow_unknown_chunksizes=True,
    )


def _attempt(function, block, none, forms):
    """The result of a function for a partition, or its error, which must quote no row."""
    if isinstance(block, Failed):
        return block
    try:
        # Tasks run side by side, each on a core.
        with suppress_fp_warnings(), config_context(**forms), single_threaded_blas():
            return function(block) if block.shape[0] else none
    except Exception as error:
        return Failed(error.with_traceback(None))  # Frames hold rows.


def unless_failed(result):
    """A result; raises the error that it is instead."""
    if isinstance(result, Failed):
        raise result.error
    return result


def computed(columns):
    """Some collections in memory, whose common sources are read once."""
    graphs = [np.array(c.to_delayed(optimize_graph=False), dtype=object).tolist() for c in columns]
    joined = [column.__dask_postcompute__() for column in columns]
    return [
        join(blocks, *extra)
        for (join, extra), blocks in zip(joined, dask.compute(*graphs), strict=True)
    ]
