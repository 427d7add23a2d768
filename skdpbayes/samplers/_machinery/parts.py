"""Sums over records that are in several parts, wherever these are.

    sum_i f(x_i) = sum_p sum_{i in part p} f(x_i)

Every part is a target of its own, of whose records compiled cores form sums. These are added up exactly, and
rounded once (Shewchuk, 1997; `math.fsum`): what is released depends neither on where parts are nor on their
order. Batches are drawn where noise is, and parts are told the numbers of their records, so that a chain on
parts is that on one table.

What goes wrong inside a core is kept until the core is done, whose sums are zero from then on.
"""

import ctypes
import math

import numpy as np

from ...privacy.floating_point import RECORDS_PER_CHUNK
from .execution import cores
from .gradients import gradient_oracle, sums_at
from .linking import count_examples, several_cores

_Function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)
_open = {}


class Parts:
    """Records in several parts; a context, outside of which nothing can be asked.

    Parameters
    ----------
    sizes : sequence of int
        How many records are in each part.
    """

    def __init__(self, sizes):
        self.sizes = tuple(int(size) for size in sizes)
        self.error, self._children = None, []
        self._ends = np.cumsum(self.sizes)
        self._function = _Function(self._answer)
        self.address = ctypes.cast(self._function, ctypes.c_void_p).value

    def each(self, function, *args, of_parts=None, **options):
        """Return what a function returns for each part, in their order.

        Parameters
        ----------
        function : callable
            Of a target, of what is this part's of ``of_parts`` if that is given, and of ``args`` and
            ``options``. It can be imported by name.
        """
        raise NotImplementedError

    def kept(self, function, *args):
        """Return the parts that a function makes of these, which stay where they are."""
        raise NotImplementedError

    def without_empty(self):
        """Return the parts with records, or raise a ValueError if there are none."""
        full = [p for p, size in enumerate(self.sizes) if size]
        if not full:
            raise ValueError("X has 0 rows, and at least 1 is required.")
        return self.chosen(full)

    def chosen(self, numbers):
        """Return the parts with some numbers."""
        raise NotImplementedError

    def total(self, function, *args, **options):
        """Return the sum over parts of what a function returns: an array, a number, None or a tuple."""
        return exact_sum(self.each(function, *args, **options))

    def __enter__(self):
        _open[self.address] = self
        return self

    def __exit__(self, *error):
        _open.pop(self.address, None)
        for child in self._children:
            child.__exit__(*error)

    def child(self, parts):
        """Return other parts, open for as long as these are."""
        self._children.append(parts.__enter__())
        return parts

    def failure(self):
        """Return the first error that was kept, or None."""
        return next((p.error for p in (self, *self._children) if p.error is not None), None)

    def _answer(self, theta, n_theta, members, count, out, n_out):
        """Add the sum of some records' gradients at an address to that at another."""
        out = _numbers(out, n_out, ctypes.c_double)
        if self.error is None:
            try:
                theta = _numbers(theta, n_theta, ctypes.c_double).copy()
                chosen = _numbers(members, count, ctypes.c_int64).copy() if members else None
                out += self.total(gradient_of_part, theta, n_out, of_parts=self._split(chosen))
            except BaseException as error:
                self.error = error
        return 1

    def _split(self, members):
        """Return the numbers within each part of records, None for whole parts."""
        if members is None:
            return [None] * len(self.sizes)
        part = np.searchsorted(self._ends, members, side="right")
        starts = self._ends - self.sizes
        return [members[part == p] - start for p, start in enumerate(starts)]


class PartsHere(Parts):
    """Parts in this process.

    Parameters
    ----------
    targets : list
        Targets, or whatever `kept` makes them of.
    sizes : sequence of int
    """

    def __init__(self, targets, sizes):
        super().__init__(sizes)
        self.targets = targets

    def each(self, function, *args, of_parts=None, **options):
        """Return what a function returns for each part, in their order."""
        if of_parts is None:
            return [function(target, *args, **options) for target in self.targets]
        pairs = zip(self.targets, of_parts, strict=True)
        return [function(target, own, *args, **options) for target, own in pairs]

    def chosen(self, numbers):
        """Return the parts with some numbers."""
        return PartsHere([self.targets[p] for p in numbers], [self.sizes[p] for p in numbers])

    def kept(self, function, *args):
        """Return the parts that a function makes of these."""
        return PartsHere(self.each(function, *args), self.sizes)


def _numbers(address, size, kind):
    return np.ctypeslib.as_array((kind * size).from_address(address))


def gradient_of_part(target, members, theta, n_sums):
    """Return the sum of gradients of a part's records, or of those with some numbers."""
    n = count_examples(target)
    # Into so many chunks that none is longer than those of the whole table.
    counted, rate = (n, 1.0) if members is None else (2 * members.size, 0.5)
    oracle, _ = gradient_oracle(
        target, n_sums, counted + RECORDS_PER_CHUNK / rate, rate, sums_only=True
    )
    with cores(rate * counted * n_sums) as parallel:
        return sums_at(oracle, theta, several_cores() if parallel else 0, members)


def exact_sum(results):
    """Return the sum of arrays, numbers, or tuples of them, rounded once; None of Nones."""
    first = results[0]
    if first is None:
        return None
    if isinstance(first, tuple):
        return tuple(exact_sum(list(part)) for part in zip(*results, strict=True))
    table = np.stack([np.ravel(result) for result in results], axis=1)
    # Of numbers that are not finite the plain sum is what is wanted, and not an error.
    finite = np.isfinite(table).all(axis=1)
    total = [math.fsum(row) if ok else row.sum() for row, ok in zip(table, finite, strict=True)]
    return np.array(total).reshape(np.shape(first))


def _parts_of(target):
    return _open.get(getattr(target, "address", None))


def total(function, target, *args, **options):
    """Return the sum over a target's records that a function computes, wherever they are.

    ``function`` takes a target, ``args`` and ``options``, and is a sum over records.
    """
    parts = _parts_of(target)
    if parts is None:
        return function(target, *args, **options)
    return parts.total(function, *args, **options)


def mapped(function, target, *args):
    """Return what a function makes of a target, record by record, wherever these are."""
    parts = _parts_of(target)
    if parts is None:
        return function(target, *args)
    return target._replace(address=parts.child(parts.kept(function, *args)).address)


def raise_failure(target):
    """Raise the error that was kept while a core was running, if there was one."""
    for own in (target, getattr(target, "table", None)):
        parts = _parts_of(own)
        if parts is not None and parts.failure() is not None:
            raise parts.failure()
