"""Sums over records that are in several shards, wherever these are.

    sum_i f(x_i) = sum_p sum_{i in shard p} f(x_i)

Every shard is a target of its own, and compiled cores sum over its records. The sums are added up exactly and
rounded once (Shewchuk, 1997; `math.fsum`): what is released depends neither on where shards are nor on their
order. Batches are drawn where noise is drawn, and each shard gets the numbers of its records, so that a chain
on shards is the same as a chain on one table.

An error inside a core is kept until the core has ended; from the error on, its sums are zero.
"""

import ctypes
import math
import weakref
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from .._compute.execution import cores
from .._compute.gradients import count_examples, gradient_oracle, several_cores, sums_at
from ..privacy.rounding import RECORDS_PER_CHUNK

_Function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 7)
_open: dict[Any, Any] = {}


class Shard:
    """A shard, with what cores need to sum over it, which is kept from one pass to the next.

    Parameters
    ----------
    target : object
        A target, or whatever one is made of.
    """

    def __init__(self, target):
        self.target = target
        self._oracles = {}

    def __reduce__(self):
        return Shard, (self.target,)

    def gradient(self, members, theta, n_sums):
        """The sum of gradients of all records, or of those with given numbers."""
        # Threads that ask at the same time need an oracle each.
        kind = members is None, n_sums
        oracle = self._oracles.pop(kind, None) or self._oracle(*kind)
        with cores(oracle.n_examples * n_sums) as parallel:
            total = sums_at(oracle, theta, several_cores() if parallel else 0, members)
        self._oracles[kind] = oracle
        return total

    def _oracle(self, is_full_table, n_sums):
        # There are so many chunks that none is longer than the chunks of a whole table.
        chunks = count_examples(self.target) + RECORDS_PER_CHUNK - 1
        rate = 1.0 if is_full_table else math.nextafter(1.0, 0.0)
        return gradient_oracle(self.target, n_sums, chunks, rate, sums_only=True)[0]


class Shards:
    """Sharded records. Use as a context manager; methods raise outside it.

    Parameters
    ----------
    sizes : sequence of int
        How many records are in each shard.
    """

    def __init__(self, sizes):
        self.sizes = tuple(int(size) for size in sizes)
        self.error, self._children = None, []
        self._ends = np.cumsum(self.sizes)
        # A strong reference would be a cycle, and would keep memory of workers until the garbage is
        # collected.
        weakly = weakref.proxy(self)
        self._function = _Function(lambda *numbers: weakly._answer(*numbers))
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value

    def call(self, function, of_shards, *args):
        """The results of a function for each `Shard`, in their order.

        Parameters
        ----------
        function : callable
            Called with a `Shard`, its entry of ``of_shards``, and ``args``. It can be imported by name.
        of_shards : list
        *args
        """
        raise NotImplementedError

    def map_shards(self, function, *args, numbered=False, in_place=False):
        """Shards in the same places, with targets that a function makes from the targets of these.

        If ``numbered``, the function takes the number of a shard's first record before ``args``. If
        ``in_place``, these shards are gone afterwards, one by one.
        """
        raise NotImplementedError

    def own_args(self, args, numbered):
        """The arguments of a function, other than the target, for each shard."""
        firsts = (self._ends - self.sizes).tolist()
        return [(first, *args) if numbered else args for first in firsts]

    def each(self, function, *args, **options):
        """Call a function with each shard's target, ``args`` and ``options``; return the results."""
        return self.call(of_target, [function] * len(self.sizes), args, options)

    def without_empty(self):
        """The shards with records; raises a ValueError if there are none."""
        full = [p for p, size in enumerate(self.sizes) if size]
        if not full:
            raise ValueError("X has 0 rows, and at least 1 is required.")
        return self.chosen(full)

    def chosen(self, numbers):
        """The shards with given numbers."""
        raise NotImplementedError

    def count(self, function, *args):
        """The sum over shards of a function's results, which add up exactly, as integers do."""
        return reduce(add, self.each(function, *args))

    def total(self, function, *args, **options):
        """The sum over shards of a function's results: arrays, numbers, None or tuples of them."""
        return exact_sum(self.each(function, *args, **options))

    def __enter__(self):
        _open[self.address] = self
        return self

    def __exit__(self, *error):
        _open.pop(self.address, None)
        for child in self._children:
            child.__exit__(*error)

    def child(self, shards):
        """Other shards, which stay open as long as these do."""
        self._children.append(shards.__enter__())
        return shards

    def failure(self):
        """The first error that was kept, or None."""
        return next((p.error for p in (self, *self._children) if p.error is not None), None)

    def _answer(self, theta, n_theta, members, count, out, n_out, answered):
        """Add the sum of some records' gradients to the numbers at an address."""
        out = _numbers(out, n_out, ctypes.c_double)
        if self.error is None:
            try:
                theta = _numbers(theta, n_theta, ctypes.c_double).copy()
                chosen = _numbers(members, count, ctypes.c_int64).copy() if members else None
                out += exact_sum(self.call(Shard.gradient, self._split(chosen), theta, n_out))
            except BaseException as error:
                self.error = error
        _numbers(answered, 1, ctypes.c_int64)[0] = 1
        return 1

    def _split(self, members):
        """The numbers that records have within their shards, a list for each shard; None means all."""
        if members is None:
            return [None] * len(self.sizes)
        shard = np.searchsorted(self._ends, members, side="right")
        starts = self._ends - self.sizes
        return [members[shard == p] - start for p, start in enumerate(starts)]


class LocalShards(Shards):
    """Shards in this process.

    Parameters
    ----------
    shards : list of Shard
    sizes : sequence of int
    """

    def __init__(self, shards, sizes):
        super().__init__(sizes)
        self.shards = shards

    def call(self, function, of_shards, *args):
        """A function's result for each shard, in their order."""
        return [
            function(shard, arguments, *args)
            for shard, arguments in zip(self.shards, of_shards, strict=True)
        ]

    def chosen(self, numbers):
        """The shards with given numbers."""
        return LocalShards([self.shards[p] for p in numbers], [self.sizes[p] for p in numbers])

    def map_shards(self, function, *args, numbered=False, in_place=False):
        """Shards with targets that a function makes from the targets of these."""
        made = []
        for number, arguments in enumerate(self.own_args(args, numbered)):
            made.append(Shard(function(self.shards[number].target, *arguments)))
            if in_place:
                self.shards[number] = None
        return LocalShards(made, self.sizes)


def _numbers(address, size, kind):
    return np.ctypeslib.as_array((kind * size).from_address(address))


def of_target(shard, function, args, options):
    """A function's result for a shard's target."""
    return function(shard.target, *args, **options)


def exact_sum(results):
    """The sum of arrays, numbers, or tuples of them, rounded once; None of Nones."""
    first = results[0]
    if first is None:
        return None
    if isinstance(first, tuple):
        return tuple(exact_sum(list(entry)) for entry in zip(*results, strict=True))
    table = np.stack([np.ravel(result) for result in results], axis=1)
    # `math.fsum` raises errors for numbers that are not finite, and their plain sum is wanted.
    finite = np.isfinite(table).all(axis=1)
    total = [math.fsum(row) if ok else row.sum() for row, ok in zip(table, finite, strict=True)]
    return np.array(total).reshape(np.shape(first))


def _shards_of(target):
    return _open.get(getattr(target, "address", None))


def total(function, target, *args, **options):
    """The sum that a function computes over a target's records, wherever the records are.

    ``function`` takes a target, ``args`` and ``options``, and is a sum over records.
    """
    shards = _shards_of(target)
    if shards is None:
        return function(target, *args, **options)
    return shards.total(function, *args, **options)


def map_records(function, target, *args, numbered=False, in_place=False):
    """The target that a function makes of another record by record, wherever the records are.

    If ``numbered``, the function takes the number of the target's first record before ``args``. If
    ``in_place``, nothing may be asked of ``target`` afterwards, and workers need not hold it.
    """
    shards = _shards_of(target)
    if shards is None:
        return function(target, 0, *args) if numbered else function(target, *args)
    made = shards.map_shards(function, *args, numbered=numbered, in_place=in_place)
    return target._replace(address=shards.child(made).address)


def check_in_memory(sampler, target):
    """Raise a ValueError if a sampler needs more than sums, and the records are remote."""
    if _shards_of(target) is not None:
        raise ValueError(
            f"sampler={sampler.name!r} compares losses record by record, but Dask collections "
            "return sums of gradients only: take sampler='auto', or pass X.compute() if it fits "
            "into memory."
        )


def raise_failure(target):
    """Raise the error that was kept while a core was running, if there was one."""
    for holder in (target, getattr(target, "table", None)):
        shards = _shards_of(holder)
        if shards is not None and shards.failure() is not None:
            raise shards.failure()
