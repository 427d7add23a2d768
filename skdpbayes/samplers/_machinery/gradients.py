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
from numba import njit, prange, types
from numba.extending import overload

from ...targets import add_gradient, n_examples, selected_from
from ...targets._interface import ALIGNMENT, in_random_order, is_in_random_order


def _sum_parts(target, theta, selection, count, parts):
    unit = ALIGNMENT if in_random_order(target) else 1
    units = (count + unit - 1) // unit
    for part in prange(parts.shape[0]):
        parts[part, :] = 0.0
        start = min(count, units * part // parts.shape[0] * unit)
        size = min(count, units * (part + 1) // parts.shape[0] * unit) - start
        add_gradient(target, theta, selected_from(selection, start, size), size, parts[part])


_sum_in_order = njit(error_model="numpy")(_sum_parts)
_sum_at_once = njit(error_model="numpy", parallel=True)(_sum_parts)


@njit(error_model="numpy")
def gradient_sum(target, theta, selection, count, parts, parallel, out):
    """Write the sum of the selected records' gradients to ``out``."""
    if parallel:
        _sum_at_once(target, theta, selection, count, parts)
    else:
        _sum_in_order(target, theta, selection, count, parts)
    out[:] = 0.0
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
    if isinstance(batch, types.BaseNamedTuple):

        def forget(batch):
            batch.turn[0] = -1

        return forget
    return lambda batch: None


def estimate_gradient(target, generator, theta, rate, batch, parts, parallel, out):
    """Write the gradient of the negative log likelihood to ``out`` (generic, compiled).

    Over the full table if ``batch`` is None, over the next batch if it is `CyclicBatches`; else
    ``batch`` is scratch space for a Poisson batch.
    """
    raise NotImplementedError("estimate_gradient is a generic of compiled code.")


@overload(estimate_gradient, jit_options={"error_model": "numpy"})
def _estimate_gradient(target, generator, theta, rate, batch, parts, parallel, out):
    def full(target, generator, theta, rate, batch, parts, parallel, out):
        gradient_sum(target, theta, 0, n_examples(target), parts, parallel, out)

    def poisson(target, generator, theta, rate, batch, parts, parallel, out):
        count = poisson_batch(generator, n_examples(target), rate, batch)
        gradient_sum(target, theta, batch, count, parts, parallel, out)
        for j in range(out.size):
            out[j] /= rate

    def shuffled_full(target, generator, theta, rate, batch, parts, parallel, out):
        order = np.arange(n_examples(target))
        shuffle(generator, order, order.size)
        gradient_sum(target, theta, order, order.size, parts, parallel, out)

    def shuffled_poisson(target, generator, theta, rate, batch, parts, parallel, out):
        count = poisson_batch(generator, n_examples(target), rate, batch)
        shuffle(generator, batch, count)
        gradient_sum(target, theta, batch, count, parts, parallel, out)
        for j in range(out.size):
            out[j] /= rate

    def cyclic(target, generator, theta, rate, batch, parts, parallel, out):
        selected = next_batch(generator, batch)
        gradient_sum(target, theta, selected, selected.size, parts, parallel, out)
        for j in range(out.size):
            out[j] /= rate

    shuffled = is_in_random_order(target)
    if isinstance(batch, types.NoneType):
        return shuffled_full if shuffled else full
    if isinstance(batch, types.BaseNamedTuple):
        return cyclic
    return shuffled_poisson if shuffled else poisson
