"""Differences of losses over the table, or of records by their numbers, and the prior's potential.

    u_i = (ell_i(theta) - ell_i(theta')) / tau,   confined to [-a, a]

Of a whole table their sum is formed in chunks, added up in order.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from ..._compiled import compilable
from ...targets import implements, loss_differences, n_examples, prior_potential
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

# Records whose losses are computed at once.
CHUNK = 256

_VECTOR = types.float64[::1]


class LossOracle(NamedTuple):
    """A target's losses and its prior, as cores know them: see `loss_oracle`.

    Attributes
    ----------
    memory : ndarray of uint8
        The target, as compiled code has it; keeps it alive.
    target : int
        Its address.
    sums, differences, potential : int
        Addresses of entries; one of the first two is not needed, and zero.
    n_examples : int
    """

    memory: np.ndarray
    target: int
    sums: int
    differences: int
    potential: int
    n_examples: int


class _Sums(NamedTuple):
    theta: np.ndarray
    proposal: np.ndarray
    temperature: float
    bound: float
    chunks: np.ndarray


class _Differences(NamedTuple):
    theta: np.ndarray
    proposal: np.ndarray
    members: np.ndarray
    size: int
    out: np.ndarray


class _Potential(NamedTuple):
    theta: np.ndarray
    out: np.ndarray


@compilable
def confined(value, bound):
    """Return the value, clipped to the bound on either side; 0 if it is not a number."""
    if value != value:
        return 0.0
    return min(max(value, -bound), bound)


@Entry(_Sums, [_VECTOR, _VECTOR, types.float64, types.float64, _VECTOR])
def _sums(target, job, chunk):
    target, job = at(target), at(job)
    n = n_examples(target)
    start, stop = n * chunk // job.chunks.size, n * (chunk + 1) // job.chunks.size
    differences = np.empty(CHUNK)
    total = 0.0
    for first in range(start, stop, CHUNK):
        size = min(CHUNK, stop - first)
        loss_differences(target, job.theta, job.proposal, first, size, differences)
        for i in range(size):
            total += confined(differences[i] / job.temperature, job.bound)
    job.chunks[chunk] = total
    return 1


@Entry(_Differences, [_VECTOR, _VECTOR, types.int64[::1], types.int64, _VECTOR])
def _differences(target, job, chunk):
    job = at(job)
    loss_differences(at(target), job.theta, job.proposal, job.members, job.size, job.out)
    return 1


@Entry(_Potential, [_VECTOR, _VECTOR])
def _potential(target, job, chunk):
    job = at(job)
    job.out[0] = prior_potential(at(target), job.theta)
    return 1


def loss_oracle(target, by_numbers):
    """Return what a core needs for a target's losses.

    Parameters
    ----------
    target : NamedTuple
    by_numbers : bool
        Whether records are asked for by their numbers, instead of the whole table.

    Returns
    -------
    oracle : LossOracle
        For cores in the place of the target.
    """
    memory, n = laid_out(target)
    return LossOracle(
        memory,
        memory.ctypes.data,
        0 if by_numbers else _sums.address(target),
        _differences.address(target) if by_numbers else 0,
        _potential.address(target),
        n,
    )


@implements(n_examples, LossOracle)
def _count(oracle):
    return oracle.n_examples


@implements(prior_potential, LossOracle)
def _potential_of_oracle(oracle, theta):
    out = np.empty(1)
    do_chunks(
        oracle.potential, oracle.target, address_of(_Potential(theta, out)), ONE_CHUNK, NO_LOOP
    )
    return out[0]


@implements(loss_differences, LossOracle)
def _differences_of_oracle(oracle, theta, proposal, members, count, out):
    job = address_of(_Differences(theta, proposal, members, count, out))
    do_chunks(oracle.differences, oracle.target, job, ONE_CHUNK, NO_LOOP)


@compilable
def log_ratio_of_all(oracle, theta, proposal, temperature, bound, chunks, loop):
    """Return ``sum_i u_i`` over the whole table, on several cores if ``loop`` is an address."""
    job = address_of(_Sums(theta, proposal, temperature, bound, chunks))
    do_chunks(oracle.sums, oracle.target, job, chunks.size, loop)
    total = 0.0
    for chunk in range(chunks.size):
        total += chunks[chunk]
    return total


@CompiledCore
def _potential_at(oracle, theta):
    return prior_potential(oracle, theta)


def potential_at(target, theta):
    """Return ``-log p(theta)`` up to a constant."""
    memory, n = laid_out(target)
    oracle = LossOracle(memory, memory.ctypes.data, 0, 0, _potential.address(target), n)
    return _potential_at(oracle, theta)
