"""Shards of a table that a cluster's workers hold, in memory or in files.

    theta -> workers -> one sum for each shard -> the client, which adds them up

A pass is one task for each thread of a worker, for the shards that the worker holds; or more, so that a task
needs a small share of the worker's memory at a time. What Dask has moved to files for want of memory comes
back for its task, and may go again after it: shards as a whole may be larger than memory. Every other pass
runs backwards, and begins with what was used last. If a worker is lost, Dask recomputes its shards from their
source. Every task compares a shard's mark with that of the rows that
were read first, because a source that changes could put one record into two shards. Workers log the arguments
of tasks that fail, records included. Tasks therefore never fail: they return the kind of the error instead.
"""

import math
from functools import reduce
from operator import add
from typing import Any
from uuid import uuid4

from dask.sizeof import sizeof

from ..._silence import silently
from ...exceptions import ChangedRowsError
from ...samplers._machinery.execution import single_threaded_blas
from ...samplers._machinery.shards import Shard, Shards, of_target

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
        One for each shard, a `MarkedShard`: with a target, or another object that `kept` turns into one.
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
        """Return the results of a function for all shards, in their order."""
        found = [None] * len(self.futures)
        self._groups.reverse()
        of_groups = [[of_shards[p] for p in group] for group in self._groups]
        tasks = self._tasks = self._asked(do_each, function, of_groups, args)
        for group, results in zip(self._groups, self.client.gather(tasks), strict=True):
            for p, result in zip(group, results, strict=True):
                found[p] = result
        return raised(found)

    def count(self, function, *args):
        """Return the sum over shards, of integers; each worker adds up its own, and some those of others.

        So the client gets few results, however many workers there are.
        """
        unused = [None] * len(self._groups)
        tasks = self._asked(do_sum, function, unused, args)
        everything = list(tasks)
        while len(tasks) > TOGETHER:
            parts = [tasks[first : first + TOGETHER] for first in range(0, len(tasks), TOGETHER)]
            tasks = self.client.map(do_add, parts, key=[_name(do_add) for _ in parts])
            everything += tasks
        self._tasks = everything
        return reduce(add, raised(self.client.gather(tasks)))

    def _asked(self, do, function, of_groups, args):
        """Return the futures of one task for each group of shards.

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
        """Return the shards with the given indices."""
        own = ([each[p] for p in numbers] for each in (self.futures, self.sizes, self.marks))
        return DaskShards(self.client, *own)

    def kept(self, function, *args, numbered=False, instead=False):
        """Return new shards on the same workers, with targets that a function makes from these."""
        futures = self.client.map(
            make_one,
            [function] * len(self.futures),
            self.futures,
            self.marks,
            self.own_args(args, numbered),
            key=[_name(function) for _ in self.futures],
        )
        if instead:
            # Each is released when what is made of it is there, and not when all is.
            self.futures = []
        raised(self.client.gather(self.client.map(failure, futures, pure=False)))
        return DaskShards(self.client, futures, self.sizes, self.marks)


@sizeof.register(Shard)
def _size_of(shard):
    """Return the size of a shard in bytes, by which Dask decides what to move to other workers or to disk."""
    target = shard.target
    # Of tuples with more than ten entries, Dask looks at a random ten.
    return sum(map(sizeof, target)) if isinstance(target, tuple) else sizeof(target)


def _name(function):
    """Return a name for a task: it is visible, does not reveal arguments, and is unique among clients."""
    named = getattr(function, "func", function)  # Of a partial.
    return f"{named.__name__.strip('_')}-{uuid4().hex}"


def _groups(client, futures):
    """Return the indices of the futures of each task: some of those on a worker, which are small together.

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
    """Return results, or raise the first error among them."""
    for found in filter(failure, results):
        raise found.error
    return results


# Run by workers


def failure(result):
    """Return a result if it is a failure, else None."""
    return result if isinstance(result, Failed) else None


def says_why(function):
    """Declare that the errors of a function say nothing about records."""
    function.says_why = True
    return function


def do_one(function, shard, *args):
    """Return the result of a function, or its failure; earlier failures are passed on."""
    if isinstance(shard, Failed):
        return shard
    try:
        # Tasks run side by side, each on a core.
        with silently(), single_threaded_blas():
            return function(shard, *args)
    except Exception as error:
        if getattr(function, "says_why", False):
            return Failed(error)
        return Failed(RuntimeError(f"a task of a worker ended with {type(error).__name__}."))


def as_read(shard, mark):
    """Return a shard, or a failure if its rows are not those that were read first."""
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
    """Return the shard that a function makes from the target of another, or the failure."""
    shard = as_read(shard, mark)
    made = do_one(function, shard if isinstance(shard, Failed) else shard.target, *args)
    return made if isinstance(made, Failed) else MarkedShard(made, mark)


def do_each(function, shards, marks, of_shards, args):
    """Return the results of a function for each shard of a worker."""
    shards = map(as_read, shards, marks)
    return [
        do_one(function, shard, own, *args) for shard, own in zip(shards, of_shards, strict=True)
    ]


def do_sum(function, shards, marks, _, args):
    """Return the sum of the results of a function for the targets of a worker's shards."""
    found = [do_one(of_target, shard, function, args, {}) for shard in map(as_read, shards, marks)]
    return do_add(found)


def do_add(results):
    """Return the sum of some results, or the first failure among them."""
    return next(filter(failure, results), None) or reduce(add, results)
