"""Sums of gradients over the table, or over a batch of it.

    full batch:     g(theta) = sum_i grad ell_i(theta)
    Poisson batch:  g(theta) = (1/q) sum_{i in S} grad ell_i(theta),   each i in S with probability q
    cyclic batch:   the same with q = 1/L, S the next of L parts into which the table is cut

A sum is cut into parts whose number depends on public sizes only and which are added up in order, so
the result is the same on any number of cores.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit, typeof, types
from numba.extending import overload

from ...targets import add_gradient, implements, n_examples, prior_gradient, selected_from
from ...targets._interface import ALIGNMENT, in_random_order, is_in_random_order
from .linking import Entry, address_of, at, do_parts, laid_out


class GradientOracle(NamedTuple):
    """A target's gradients, and what its prior adds, as cores know them: see `gradient_oracle`.

    Attributes
    ----------
    memory : ndarray of uint8
        The target, as compiled code has it; keeps it alive.
    target : int
        Its address.
    of_rows, of_members, prior : int
        Addresses of entries; of the first two the one that is not needed is zero.
    n_examples : int
    """

    memory: np.ndarray
    target: int
    of_rows: int
    of_members: int
    prior: int
    n_examples: int


class _Rows(NamedTuple):
    theta: np.ndarray
    count: int
    parts: np.ndarray


class _Members(NamedTuple):
    theta: np.ndarray
    members: np.ndarray
    count: int
    parts: np.ndarray


class _Prior(NamedTuple):
    theta: np.ndarray
    out: np.ndarray


_VECTOR, _MATRIX, _NUMBERS = types.float64[::1], types.float64[:, ::1], types.int64[::1]


def _add_part(target, theta, selection, count, parts, part):
    unit = ALIGNMENT if in_random_order(target) else 1
    units = (count + unit - 1) // unit
    for j in range(theta.size):
        parts[part, j] = 0.0
    start = min(count, units * part // parts.shape[0] * unit)
    size = min(count, units * (part + 1) // parts.shape[0] * unit) - start
    add_gradient(target, theta, selected_from(selection, start, size), size, parts[part])


_add_part = njit(error_model="numpy", inline="always")(_add_part)


@Entry(_Rows, [_VECTOR, types.int64, _MATRIX])
def _of_rows(target, job, part):
    job = at(job)
    _add_part(at(target), job.theta, 0, job.count, job.parts, part)
    return 1


@Entry(_Members, [_VECTOR, _NUMBERS, types.int64, _MATRIX])
def _of_members(target, job, part):
    job = at(job)
    _add_part(at(target), job.theta, job.members, job.count, job.parts, part)
    return 1


@Entry(_Prior, [_VECTOR, _VECTOR])
def _prior(target, job, part):
    job = at(job)
    prior_gradient(at(target), job.theta, job.out)
    return 1


def gradient_oracle(target, rate=1.0, n_batches=None):
    """Return what a core needs for a target's gradients.

    Parameters
    ----------
    target : NamedTuple
    rate : float, default=1.0
        At which records are in a Poisson batch; 1 is for the full table.
    n_batches : int or None, default=None
        For batches that take turns, into how many the table is cut.

    Returns
    -------
    oracle : GradientOracle
        For cores in the place of the target.
    batch : None, ndarray, InRandomOrder or CyclicBatches
        For `estimate_gradient`.
    """
    memory, n = laid_out(target)
    if n_batches is not None:
        batch = cyclic_batches(n, n_batches)
    elif is_in_random_order(typeof(target)):
        batch = InRandomOrder(np.empty(n, np.int64))
    else:
        batch = np.empty(n, np.int64) if rate < 1 else None
    by_rows = batch is None
    oracle = GradientOracle(
        memory,
        memory.ctypes.data,
        _of_rows.address(target) if by_rows else 0,
        0 if by_rows else _of_members.address(target),
        _prior.address(target),
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


@implements(prior_gradient, GradientOracle)
def _prior_of_oracle(oracle, theta, out):
    do_parts(oracle.prior, oracle.target, address_of(_Prior(theta, out)), 1, 0)


@njit(error_model="numpy")
def gradient_sum(oracle, theta, members, count, parts, loop, out):
    """Write the sum of records' gradients to ``out``, on several cores if ``loop`` is an address.

    The records are the first ``count`` of those whose numbers are in ``members``; None is for the table's.
    """
    if members is None:
        job = address_of(_Rows(theta, count, parts))
        do_parts(oracle.of_rows, oracle.target, job, parts.shape[0], loop)
    else:
        job = address_of(_Members(theta, members, count, parts))
        do_parts(oracle.of_members, oracle.target, job, parts.shape[0], loop)
    for j in range(out.size):
        out[j] = 0.0
    for part in range(parts.shape[0]):
        for j in range(out.size):
            out[j] += parts[part, j]


@njit(error_model="numpy")
def poisson_batch(generator, n, rate, batch):
    """Write the numbers of a Poisson batch to ``batch`` (length n), and return how many they are.

    Gaps between members are geometric: ``floor(E / -log(1 - q))`` with ``E`` a unit exponential.
    """
    decay = -math.log1p(-rate)
    count = 0
    i = math.floor(generator.standard_exponential() / decay)
    while i < n:
        batch[count] = np.int64(i)
        count += 1
        i += 1.0 + math.floor(generator.standard_exponential() / decay)
    return count


@njit(error_model="numpy")
def shuffle(generator, batch, count):
    """Bring the first ``count`` numbers of a batch into random order (Fisher and Yates)."""
    for i in range(count - 1, 0, -1):
        j = int(generator.random() * (i + 1))
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


@njit(error_model="numpy")
def next_batch(generator, batches):
    """Return the numbers of the records whose turn it is; cut the table at random before the first."""
    order, ends = batches.order, batches.ends
    if batches.turn[0] < 0:
        batches.turn[0] = 0
        for i in range(order.size - 1, 0, -1):
            j = generator.integers(0, i + 1)
            order[i], order[j] = order[j], order[i]
        for k in range(ends.size):  # The order in which records are read fastest.
            order[(ends[k - 1] if k > 0 else 0) : ends[k]].sort()
    turn = batches.turn[0]
    batches.turn[0] = (turn + 1) % ends.size
    return order[(ends[turn - 1] if turn > 0 else 0) : ends[turn]]


def cut_anew(batch):
    """Have batches that take turns cut anew before the next step (generic, compiled)."""
    raise NotImplementedError("cut_anew is a generic of compiled code.")


@overload(cut_anew)
def _cut_anew(batch):
    if isinstance(batch, types.BaseNamedTuple) and batch.instance_class is CyclicBatches:

        def forget(batch):
            batch.turn[0] = -1

        return forget
    return lambda batch: None


def estimate_gradient(oracle, generator, theta, rate, batch, parts, loop, out):
    """Write the gradient of the negative log likelihood to ``out`` (generic, compiled).

    ``batch`` is what `gradient_oracle` returned with the oracle, ``loop`` as in `gradient_sum`.
    """
    raise NotImplementedError("estimate_gradient is a generic of compiled code.")


@overload(estimate_gradient, jit_options={"error_model": "numpy"})
def _estimate_gradient(oracle, generator, theta, rate, batch, parts, loop, out):
    def full(oracle, generator, theta, rate, batch, parts, loop, out):
        gradient_sum(oracle, theta, None, oracle.n_examples, parts, loop, out)

    def poisson(oracle, generator, theta, rate, batch, parts, loop, out):
        count = poisson_batch(generator, oracle.n_examples, rate, batch)
        gradient_sum(oracle, theta, batch, count, parts, loop, out)
        for j in range(out.size):
            out[j] /= rate

    def shuffled(oracle, generator, theta, rate, batch, parts, loop, out):
        members, count = batch.members, oracle.n_examples
        if rate < 1.0:
            count = poisson_batch(generator, count, rate, members)
        else:
            for i in range(count):
                members[i] = i
        shuffle(generator, members, count)
        gradient_sum(oracle, theta, members, count, parts, loop, out)
        for j in range(out.size):
            out[j] /= rate

    def cyclic(oracle, generator, theta, rate, batch, parts, loop, out):
        selected = next_batch(generator, batch)
        gradient_sum(oracle, theta, selected, selected.size, parts, loop, out)
        for j in range(out.size):
            out[j] /= rate

    if isinstance(batch, types.NoneType):
        return full
    if isinstance(batch, types.BaseNamedTuple):
        return cyclic if batch.instance_class is CyclicBatches else shuffled
    return poisson
