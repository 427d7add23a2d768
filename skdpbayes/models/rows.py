"""Clipped rows of a table, dense or CSR, without a copy of it.

A row ``x_i`` counts as ``scale_i x_i`` with ``scale_i = min(1, R / ||x_i||)``, and is followed by
the constant ``b`` if there is an intercept. Neither is ever written out: no copy of the table is
made, so memory-mapped and sparse tables stay what they are.

A target carries the fields of its rows itself (numba's parallel loops take no nested tuples), and
`rows_of` puts them together again.
"""

import os
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import NamedTuple

import numba
import numpy as np
import scipy.sparse as sp
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .._errors import doubles, reraise_if_safe, sanitize_errors, suppress_fp_warnings
from .._jit import compilable, compiled_for
from .._typing import MatrixLike
from .base import implements, record

_FAST = {"fastmath": {"reassoc", "contract", "nsz"}}


class DenseRows(NamedTuple):
    """Rows of a C-contiguous array."""

    values: np.ndarray
    scale: np.ndarray


class SparseRows(NamedTuple):
    """Rows of a CSR matrix."""

    values: np.ndarray
    columns: np.ndarray
    starts: np.ndarray
    scale: np.ndarray


def make_rows(X, scale):
    """Wrap a validated table and its rows' scale factors.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    scale : ndarray of shape (n_samples,)

    Returns
    -------
    rows : DenseRows or SparseRows
    """
    if sp.issparse(X):
        return SparseRows(*map(read_only, (X.data, X.indices, X.indptr, scale)))
    return DenseRows(read_only(X), read_only(scale))


def class_numbers(labels, n_rows, n_classes):
    """Labels as an array of integers.

    Raises
    ------
    ValueError
        If they are not class numbers from 0, one for each row.
    """
    text = "labels must be one class number from 0 to n_classes - 1 for each row."
    numbers = sanitize_errors(
        np.ascontiguousarray, labels, dtype=np.int64, on_error=reraise_if_safe(text)
    )
    fits = numbers.shape == (n_rows,)
    if not fits or (n_rows and not 0 <= numbers.min() <= numbers.max() < n_classes):
        raise ValueError(text)
    return numbers


def real_numbers(values, n_rows, least=-np.inf, name="responses"):
    """Numbers as an array of doubles.

    Raises
    ------
    ValueError
        If they are not finite numbers that are at least ``least``, one for each row.
    """
    limit = "" if least == -np.inf else f", none below {least:g}"
    text = f"{name} must be finite numbers{limit}, one for each row."
    on_error = reraise_if_safe(f"{name} must be finite numbers, not text, dates or other objects.")
    numbers = sanitize_errors(doubles, values, on_error=on_error)
    if numbers.shape != (n_rows,) or not np.all(np.isfinite(numbers) & (numbers >= least)):
        raise ValueError(text)
    return numbers


def read_only(array):
    """A read-only view: samplers cannot write to a table, and compile for one type only."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def rows_of(target):
    """A target's rows, from its fields of the same names (generic, compiled)."""
    raise NotImplementedError("rows_of is a generic of compiled code.")


@compiled_for(rows_of)
def _rows_of(target):
    if "starts" in target.fields:
        return lambda target: SparseRows(target.values, target.columns, target.starts, target.scale)
    return lambda target: DenseRows(target.values, target.scale)


def project(rows, selection, coefficients, out, ahead):
    """Write the inner products of the selected rows with ``coefficients`` (generic, compiled).

    ``ahead`` is a selection of as many rows that are wanted next, or None: half of them are asked
    for here, and the other half by `add_weighted`, so that memory is never idle.
    """
    raise NotImplementedError("project is a generic of compiled code.")


def add_weighted(rows, selection, weights, out, ahead):
    """Add the selected rows, each times its weight, to ``out`` (generic, compiled).

    ``ahead`` is as in `project`.
    """
    raise NotImplementedError("add_weighted is a generic of compiled code.")


@intrinsic
def _prefetch(typing_context, array, offset):
    """Ask for the cache line at an offset in bytes; no more than a hint to the processor."""

    def generate(context, builder, signature, args):
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.gep(builder.bitcast(data, byte), [args[1]])
        signature = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        hint = cgutils.get_or_insert_function(builder.module, signature, "llvm.prefetch.p0i8")
        # For reading, to be kept in all levels, data.
        builder.call(hint, [address, word(0), word(3), word(1)])

    return types.void(array, types.int64), generate


@compilable
def _fetch_two(values, selection, i):
    width = values.shape[1] * values.itemsize
    for k in range(i, i + 2):
        start = record(selection, k) * width
        for offset in range(start, start + width, 64):
            _prefetch(values, offset)  # type: ignore[call-arg]  # numba gives the context.


@implements(project, DenseRows, **_FAST)
def _project_dense(rows, selection, coefficients, out, ahead):
    # Four rows at a time, here and below: coefficients and accumulators are loaded once for all.
    n_unrolled = out.size - out.size % 4
    for i in range(0, n_unrolled, 4):
        if ahead is not None:
            _fetch_two(rows.values, ahead, i // 2)
        a, b = record(selection, i), record(selection, i + 1)
        c, d = record(selection, i + 2), record(selection, i + 3)
        row_a, row_b, row_c, row_d = rows.values[a], rows.values[b], rows.values[c], rows.values[d]
        total_a = total_b = total_c = total_d = 0.0
        for j in range(row_a.size):
            total_a += row_a[j] * coefficients[j]
            total_b += row_b[j] * coefficients[j]
            total_c += row_c[j] * coefficients[j]
            total_d += row_d[j] * coefficients[j]
        out[i] = total_a * rows.scale[a]
        out[i + 1] = total_b * rows.scale[b]
        out[i + 2] = total_c * rows.scale[c]
        out[i + 3] = total_d * rows.scale[d]
    for i in range(n_unrolled, out.size):
        row = rows.values[record(selection, i)]
        total = 0.0
        for j in range(row.size):
            total += row[j] * coefficients[j]
        out[i] = total * rows.scale[record(selection, i)]


@implements(add_weighted, DenseRows, **_FAST)
def _add_weighted_dense(rows, selection, weights, out, ahead):
    n_unrolled = weights.size - weights.size % 4
    for i in range(0, n_unrolled, 4):
        if ahead is not None:
            _fetch_two(rows.values, ahead, weights.size // 2 + i // 2)
        a, b = record(selection, i), record(selection, i + 1)
        c, d = record(selection, i + 2), record(selection, i + 3)
        row_a, row_b, row_c, row_d = rows.values[a], rows.values[b], rows.values[c], rows.values[d]
        weight_a = weights[i] * rows.scale[a]
        weight_b = weights[i + 1] * rows.scale[b]
        weight_c = weights[i + 2] * rows.scale[c]
        weight_d = weights[i + 3] * rows.scale[d]
        for j in range(row_a.size):
            out[j] += (
                weight_a * row_a[j]
                + weight_b * row_b[j]
                + weight_c * row_c[j]
                + weight_d * row_d[j]
            )
    for i in range(n_unrolled, weights.size):
        row = rows.values[record(selection, i)]
        weight = weights[i] * rows.scale[record(selection, i)]
        for j in range(row.size):
            out[j] += weight * row[j]


@implements(project, SparseRows)
def _project_sparse(rows, selection, coefficients, out, ahead):
    for i in range(out.size):
        r = record(selection, i)
        total = 0.0
        for k in range(rows.starts[r], rows.starts[r + 1]):
            total += rows.values[k] * coefficients[rows.columns[k]]
        out[i] = total * rows.scale[r]


@implements(add_weighted, SparseRows)
def _add_weighted_sparse(rows, selection, weights, out, ahead):
    for i in range(weights.size):
        r = record(selection, i)
        weight = weights[i] * rows.scale[r]
        for k in range(rows.starts[r], rows.starts[r + 1]):
            out[rows.columns[k]] += weight * rows.values[k]


# Bringing rows into a ball, without a copy of the table.
#
#     x_i -> scale_i x_i,    scale_i = min(1, R / ||x_i||)
#
# What a record can do to a sum rests on this, whatever numbers a table holds. Squares of a row beyond
# 1e150 may overflow, and its factor may be no normal double: such a row is divided by its largest
# entry first,
#
#     x_i -> R (x_i / m_i) / ||x_i / m_i||,    m_i = max_j |x_ij|,
#
# in a copy. What counts is at most ``R (1 + (d + 8) u / 2)`` long, ``u`` being the unit roundoff.


# Steps follow from fourth powers of norms over squared numbers of records, which are normal doubles here.
NORMS = (1e-60, 1e60)
# Beyond this a row's products with moderate coefficients could overflow before they are scaled.
_EXTREME_NORM = 1e150
# Most chunks whose norms are computed at once.
_MOST_CHUNKS = 32
# Number of rows that are worth a chunk.
_CHUNK_ROWS = 4096


def checked_norm(norm, name="norm"):
    """A norm to which rows are clipped; raises a ValueError if it is out of range."""
    low, high = NORMS
    if not low <= norm <= high:
        raise ValueError(
            f"{name}={norm:g} must be between {low:g} and {high:g}: multiply the columns and it by a "
            "public number that brings them to a usual size."
        )
    return float(norm)


@suppress_fp_warnings()
def row_scales(X: MatrixLike, norm: float) -> np.ndarray:
    """The factors ``min(1, norm / ||x_i||)`` that bring every row into a ball.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
        Finite numbers.
    norm : float
        Radius of the ball, between 1e-60 and 1e60.

    Returns
    -------
    scale : ndarray of shape (n_samples,)
        0 where the factor is no normal double.

    Raises
    ------
    ValueError
        If a number is not finite, or the radius is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.preprocessing import row_scales
    >>> row_scales(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    array([0.2, 1. ])
    """
    checked_norm(norm)
    scale = norm / np.maximum(row_norms(without_duplicates(X)), norm)
    return np.where(scale < np.finfo(scale.dtype).tiny, 0.0, scale)


def clip_rows(X, norm):
    """``(X, scale)`` such that ``scale_i X_i`` has at most the norm, in finite arithmetic.

    ``X`` is copied only if it is a sparse matrix with several entries in one place, or holds absurdly
    long rows.

    Raises
    ------
    ValueError
        If a number is not finite, or the norm is out of range.
    """
    checked_norm(norm)
    X = without_duplicates(X)
    norms = row_norms(X)
    extreme = np.flatnonzero(norms > _EXTREME_NORM)
    # Other rows stay as they are, to the last bit: what is done to a row is its own.
    if extreme.size:
        X = X.copy()
        for i in extreme:
            row = _entries(X, i)
            row /= np.abs(row).max()
            row *= norm / np.linalg.norm(row)
        norms[extreme] = norm
    return X, norm / np.maximum(norms, norm)


def without_duplicates(X):
    """A sparse matrix with one entry in a place: entries that add up would dodge a bound.

    Raises
    ------
    TypeError
        If a table holds anything but real numbers.
    ValueError
        If column numbers are out of range, or entries add up to infinity.
    """
    X = (
        X
        if hasattr(X, "dtype")
        else sanitize_errors(np.asarray, X, on_error=reraise_if_safe("X must be an array."))
    )
    if X.dtype.kind not in "biuf":
        raise TypeError(f"X must hold real numbers, but its type is {X.dtype}.")
    if not sp.issparse(X):
        return X
    # A new wrapper of the same arrays, so that no remembered flag is believed.
    fresh = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
    fresh.check_format(full_check=True)
    if fresh.has_canonical_format:
        return fresh
    fresh = fresh.copy()
    fresh.sum_duplicates()
    if np.isinf(fresh.data).any():
        raise ValueError("Input X contains infinity: duplicate entries add up to it.")
    return fresh


def _entries(X, i):
    """A view of the entries of a row that are stored."""
    return X.data[X.indptr[i] : X.indptr[i + 1]] if sp.issparse(X) else X[i]


def row_norms(X):
    """Euclidean norms in double precision; inf beyond the largest double."""
    if sp.issparse(X):
        squares = np.square(X.data, dtype=np.float64)
        squares = sp.csr_array((squares, X.indices, X.indptr), shape=X.shape)
        norms = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    else:
        norms = np.empty(len(X))

        def write(first, stop):
            rows = X[first:stop]
            squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64, out=norms[first:stop])
            np.sqrt(squares, out=squares)

        map_chunks(write, len(X), 1 + min(len(X) // _CHUNK_ROWS, _MOST_CHUNKS - 1), X.size)
    for i in np.flatnonzero(np.isinf(norms)):
        row = _entries(X, i)
        largest = np.abs(row).max()
        norms[i] = largest * np.linalg.norm(row / largest)
    if np.isnan(norms).any():  # What is validated cannot get here; a guarantee rests on it.
        raise ValueError("rows must hold finite numbers.")
    return norms


def scale_rows(X, scale):
    """The rows times their factors, in a copy of their own precision."""
    # A factor that this precision does not have as a normal number is applied in two parts.
    small = scale < np.finfo(X.dtype).tiny
    if small.any():
        first = np.where(small, 2.0**-120, 1.0)
        X, scale = _times(X, first), scale / first
    return _times(X, scale)


def _times(X, scale):
    if not sp.issparse(X):
        return X * scale[:, None].astype(X.dtype)
    X = X.copy()
    X.data = X.data * np.repeat(scale, np.diff(X.indptr)).astype(X.dtype)
    return X


# Chunks of rows, shared out among threads, which wait for the next table.

# Entries of a table below which threads cost more than they save.
_WORTH_THREADS = 1_000_000

# By numbers of threads. A process that was forked has none of them.
_pools: dict[int, ThreadPoolExecutor] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pools.clear)


def map_chunks(function, n_rows, n_chunks, n_entries):
    """The results of a function for chunks of rows, in their order.

    Parameters
    ----------
    function : callable
        Of the numbers of a chunk's first row and of the one after its last.
    n_rows, n_chunks : int
    n_entries : int
        How large the table is.
    """
    ends = (n_rows * np.arange(n_chunks + 1) // n_chunks).tolist()
    waiting, results = deque(range(n_chunks)), {}

    def work():
        while waiting:
            try:
                chunk = waiting.popleft()
            except IndexError:  # Another thread was faster.
                return
            results[chunk] = function(ends[chunk], ends[chunk + 1])

    n_threads = min(numba.get_num_threads(), n_chunks) if n_entries >= _WORTH_THREADS else 1
    if n_threads == 1 or threading.current_thread() is not threading.main_thread():
        work()
    else:
        pool = _pools.get(n_threads) or _pools.setdefault(n_threads, ThreadPoolExecutor(n_threads))
        # numpy's error state lives in the context, so run workers in a copy of it.
        jobs = [pool.submit(copy_context().run, work) for _ in range(n_threads)]
        try:
            for job in jobs:
                job.result()
        finally:
            waiting.clear()
    return [results[chunk] for chunk in range(n_chunks)]
