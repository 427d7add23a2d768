"""Sums of gradients over the table, or over a batch of it.

    full batch:     g(theta) = sum_i grad ell_i(theta)
    Poisson batch:  g(theta) = (1/q) sum_{i in S} grad ell_i(theta),   each i in S with probability q
    cyclic batch:   the same with q = 1/L, S the next of L batches into which the table is cut

A sum is cut into chunks whose number depends on public sizes only and which are added up in order, so
the result is the same on any number of cores.
"""

import math
import weakref
from typing import NamedTuple

import numpy as np
from numba import njit, typeof, types

from ..._compiled import compilable, compiled_for
from ...privacy.floating_point import n_chunks
from ...targets import (
    add_gradient,
    implements,
    n_examples,
    pullback,
    selected_from,
    shared_parameters,
)
from ...targets._interface import ALIGNMENT, has_table, in_random_order, is_in_random_order
from .compiled_entries import (
    NO_LOOP,
    ONE_CHUNK,
    CompiledCore,
    Entry,
    address_of,
    at,
    do_chunks,
    laid_out,
)


class GradientOracle(NamedTuple):
    """A target's gradients as cores know them: see `gradient_oracle`.

    Attributes
    ----------
    target, table : int
        Addresses of the target and of its table, which live as long as ``chunks``.
    shared_parameters, of_rows, of_members, pullback : int
        Addresses of entries; those that are not needed are zero.
    inner, sums : ndarray
        Room for the table's parameters, and for its sums.
    chunks : ndarray of shape (n_chunks, n_sums)
        Room for those of chunks of the table.
    n_examples : int
    """

    target: int
    table: int
    shared_parameters: int
    of_rows: int
    of_members: int
    pullback: int
    inner: np.ndarray
    sums: np.ndarray
    chunks: np.ndarray
    n_examples: int


class _Point(NamedTuple):
    theta: np.ndarray
    inner: np.ndarray


class _Rows(NamedTuple):
    theta: np.ndarray
    size: int
    chunks: np.ndarray


class _Members(NamedTuple):
    theta: np.ndarray
    members: np.ndarray
    size: int
    chunks: np.ndarray


class _Sums(NamedTuple):
    theta: np.ndarray
    inner: np.ndarray
    sums: np.ndarray
    size: int
    gradient: np.ndarray
    prior: np.ndarray


_VECTOR, _MATRIX, _NUMBERS = types.float64[::1], types.float64[:, ::1], types.int64[::1]


def _add_chunk(target, theta, selection, count, chunks, chunk):
    unit = ALIGNMENT if in_random_order(target) else 1
    units = (count + unit - 1) // unit
    for j in range(chunks.shape[1]):
        chunks[chunk, j] = 0.0
    start = min(count, units * chunk // chunks.shape[0] * unit)
    size = min(count, units * (chunk + 1) // chunks.shape[0] * unit) - start
    add_gradient(target, theta, selected_from(selection, start, size), size, chunks[chunk])


_add_chunk = njit(error_model="numpy", inline="always")(_add_chunk)


@Entry(_Rows, [_VECTOR, types.int64, _MATRIX])
def _of_rows(target, job, chunk):
    job = at(job)
    _add_chunk(at(target), job.theta, 0, job.size, job.chunks, chunk)
    return 1


@Entry(_Members, [_VECTOR, _NUMBERS, types.int64, _MATRIX])
def _of_members(target, job, chunk):
    job = at(job)
    _add_chunk(at(target), job.theta, job.members, job.size, job.chunks, chunk)
    return 1


@Entry(_Point, [_VECTOR, _VECTOR])
def _shared_parameters(target, job, chunk):
    job = at(job)
    shared_parameters(at(target), job.theta, job.inner)
    return 1


@Entry(_Sums, [_VECTOR, _VECTOR, _VECTOR, types.int64, _VECTOR, _VECTOR])
def _pullback(target, job, chunk):
    job = at(job)
    pullback(at(target), job.theta, job.inner, job.sums, job.size, job.gradient, job.prior)
    return 1


def gradient_oracle(target, n_parameters, n_samples, rate=1.0, n_batches=None, sums_only=False):
    """Return what a core needs for a target's gradients.

    Parameters
    ----------
    target : NamedTuple
    n_parameters : int
        Length of a gradient.
    n_samples : int
        Public size of the table, by which sums are cut into chunks.
    rate : float, default=1.0
        At which records are in a Poisson batch; 1 is for the full table.
    n_batches : int or None, default=None
        For batches that take turns, into how many the table is cut.
    sums_only : bool, default=False
        Whether only `sums_at` is asked for.

    Returns
    -------
    oracle : GradientOracle
        For cores in the place of the target.
    batch : None, ndarray, InRandomOrder or CyclicBatches
        For `estimate_gradient`.
    """
    memory, n = laid_out(target)
    table, table_memory, sizes = target, memory, (0, n_parameters)
    if has_table(target):
        table, sizes = target.table, target.table_sizes
        table_memory, n = laid_out(table)
    if n_batches is not None:
        batch = cyclic_batches(n, n_batches)
    elif is_in_random_order(typeof(table)):
        batch = InRandomOrder(np.empty(n, np.int64))
    else:
        batch = np.empty(n, np.int64) if rate < 1 else None
    count = getattr(table, "n_chunks", n_chunks(rate * n_samples))
    chunks = np.empty((count, sizes[1]))
    # If the oracle had the memory as a field, its type would be compiled into all that takes an oracle.
    weakref.finalize(chunks, len, (memory, table_memory)).atexit = False
    oracle = GradientOracle(
        memory.ctypes.data,
        table_memory.ctypes.data,
        _shared_parameters.address(target) if table is not target else 0,
        _of_rows.address(table) if batch is None else 0,
        0 if batch is None else _of_members.address(table),
        0 if sums_only else _pullback.address(target),
        np.empty(sizes[0]),
        np.empty(sizes[1]),
        chunks,
        n,
    )
    return oracle, batch


def start_of(target, plan):
    """Return where a chain starts: at the target's own start, which is public, or at zero."""
    start = getattr(target, "start", None)
    return np.zeros(plan.bounds.n_parameters) if start is None else np.array(start, dtype=float)


@implements(n_examples, GradientOracle)
def _count(oracle):
    return oracle.n_examples


@compilable
def _inner_point(oracle, theta):
    """Return the parameters of the table at ``theta``."""
    if oracle.shared_parameters == 0:
        return theta
    job = address_of(_Point(theta, oracle.inner))
    do_chunks(oracle.shared_parameters, oracle.target, job, ONE_CHUNK, NO_LOOP)
    return oracle.inner


@compilable
def _add_up(oracle, inner, members, count, loop):
    """Write the table's sums to the oracle's ``sums``, on several cores if ``loop`` is an address."""
    chunks, sums = oracle.chunks, oracle.sums
    if members is None:
        job = address_of(_Rows(inner, count, chunks))
        do_chunks(oracle.of_rows, oracle.table, job, chunks.shape[0], loop)
    else:
        job = address_of(_Members(inner, members, count, chunks))
        do_chunks(oracle.of_members, oracle.table, job, chunks.shape[0], loop)
    for j in range(sums.size):
        sums[j] = 0.0
        for chunk in range(chunks.shape[0]):
            sums[j] += chunks[chunk, j]


@compilable
def gradient_sum(oracle, theta, members, count, loop, gradient, prior):
    """Write the sum of records' gradients, and the prior's; on several cores if ``loop`` is an address.

    The records are the first ``count`` of those whose numbers are in ``members``; None is for the table's.
    """
    inner = _inner_point(oracle, theta)
    _add_up(oracle, inner, members, count, loop)
    job = address_of(_Sums(theta, inner, oracle.sums, count, gradient, prior))
    do_chunks(oracle.pullback, oracle.target, job, ONE_CHUNK, NO_LOOP)


@CompiledCore
def _evaluate(oracle, theta, members, count, loop):
    _add_up(oracle, _inner_point(oracle, theta), members, count, loop)


def sums_at(oracle, theta, loop, members=None):
    """Return the sums of a table, or of the records with given numbers, and nothing else."""
    count = oracle.n_examples if members is None else members.size
    _evaluate(oracle, theta, members, count, loop)
    return oracle.sums.copy()


@compilable
def poisson_batch(generator, n, rate, batch):
    """Write the numbers of a Poisson batch to ``batch`` (length n), and return how many they are.

    Gaps between members are geometric: ``floor(E / -log(1 - q))`` with ``E`` a unit exponential.
    """
    decay = -math.log1p(-rate)
    count = 0
    i = math.floor(generator.standard_exponential() / decay)  # Proposition 7.
    while i < n:
        batch[count] = np.int64(i)
        count += 1
        i += 1.0 + math.floor(generator.standard_exponential() / decay)  # Proposition 7.
    return count


@compilable
def shuffle(generator, batch, count):
    """Bring the first ``count`` numbers of a batch into random order (Fisher and Yates)."""
    for i in range(count - 1, 0, -1):
        j = int(generator.random() * (i + 1))  # Proposition 31.
        batch[i], batch[j] = batch[j], batch[i]


class InRandomOrder(NamedTuple):
    """The full table or Poisson batches, in random order: room for the numbers of their records."""

    members: np.ndarray


class CyclicBatches(NamedTuple):
    """Batches that take turns: record numbers, where each batch ends, and whose turn it is."""

    order: np.ndarray
    ends: np.ndarray
    turn: np.ndarray


def cyclic_batches(n, n_batches):
    """Return batches of equal size (to within one) that have yet to be cut."""
    ends = n * np.arange(1, n_batches + 1, dtype=np.int64) // n_batches
    return CyclicBatches(np.arange(n), ends, np.full(1, -1))


@compilable
def next_batch(generator, batches):
    """Return the numbers of the records whose turn it is; cut the table at random before the first."""
    order, ends = batches.order, batches.ends
    if batches.turn[0] < 0:
        batches.turn[0] = 0
        for i in range(order.size - 1, 0, -1):
            j = generator.integers(0, i + 1)  # Proposition 12.
            order[i], order[j] = order[j], order[i]
        for k in range(ends.size):  # The order in which records are read fastest.
            order[(ends[k - 1] if k > 0 else 0) : ends[k]].sort()
    turn = batches.turn[0]
    batches.turn[0] = (turn + 1) % ends.size
    return order[(ends[turn - 1] if turn > 0 else 0) : ends[turn]]


def cut_anew(batch):
    """Have batches that take turns cut anew before the next step (generic, compiled)."""
    raise NotImplementedError("cut_anew is a generic of compiled code.")


@compiled_for(cut_anew)
def _cut_anew(batch):
    if isinstance(batch, types.BaseNamedTuple) and batch.instance_class is CyclicBatches:

        def forget(batch):
            batch.turn[0] = -1

        return forget
    return lambda batch: None


def estimate_gradient(oracle, generator, theta, rate, batch, loop, gradient, prior):
    """Write the gradients of the negative log likelihood and of the prior's (generic, compiled).

    ``batch`` is what `gradient_oracle` returned with the oracle, ``loop`` as in `gradient_sum`.
    """
    raise NotImplementedError("estimate_gradient is a generic of compiled code.")


@compiled_for(estimate_gradient)
def _estimate_gradient(oracle, generator, theta, rate, batch, loop, gradient, prior):
    def full(oracle, generator, theta, rate, batch, loop, gradient, prior):
        gradient_sum(oracle, theta, None, oracle.n_examples, loop, gradient, prior)

    def poisson(oracle, generator, theta, rate, batch, loop, gradient, prior):
        count = poisson_batch(generator, oracle.n_examples, rate, batch)  # Proposition 7.
        gradient_sum(oracle, theta, batch, count, loop, gradient, prior)
        for j in range(gradient.size):
            gradient[j] /= rate

    def shuffled(oracle, generator, theta, rate, batch, loop, gradient, prior):
        members, count = batch.members, oracle.n_examples
        if rate < 1.0:
            count = poisson_batch(generator, count, rate, members)  # Proposition 7.
        else:
            for i in range(count):
                members[i] = i
        shuffle(generator, members, count)  # Proposition 31.
        gradient_sum(oracle, theta, members, count, loop, gradient, prior)
        for j in range(gradient.size):
            gradient[j] /= rate

    def cyclic(oracle, generator, theta, rate, batch, loop, gradient, prior):
        selected = next_batch(generator, batch)  # Proposition 12.
        gradient_sum(oracle, theta, selected, selected.size, loop, gradient, prior)
        for j in range(gradient.size):
            gradient[j] /= rate

    if isinstance(batch, types.NoneType):
        return full
    if isinstance(batch, types.BaseNamedTuple):
        return cyclic if batch.instance_class is CyclicBatches else shuffled
    return poisson
