"""Clipped rows of a table, dense or CSR, read in place.

A row ``x_i`` counts as ``scale_i x_i`` with ``scale_i = min(1, R / ||x_i||)``, and is followed by
the constant ``b`` if there is an intercept. Neither is ever written out: no copy of the table is
made, so memory-mapped and sparse tables stay what they are.

A target carries the fields of its rows itself (numba's parallel loops take no nested tuples), and
``rows_of`` puts them together again.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba.extending import overload

from ._interface import implements, record

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


def read_only(array):
    """Return a read-only view: samplers cannot write to a table, and compile for one type only."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def rows_of(target):
    """Return a target's rows, from its fields of the same names (generic, compiled)."""
    raise NotImplementedError("rows_of is a generic of compiled code.")


@overload(rows_of)
def _rows_of(target):
    if "starts" in target.fields:
        return lambda target: SparseRows(target.values, target.columns, target.starts, target.scale)
    return lambda target: DenseRows(target.values, target.scale)


def project(rows, selection, coefficients, out):
    """Write the inner products of the selected rows with ``coefficients`` (generic, compiled)."""
    raise NotImplementedError("project is a generic of compiled code.")


def add_weighted(rows, selection, weights, out):
    """Add the selected rows, each times its weight, to ``out`` (generic, compiled)."""
    raise NotImplementedError("add_weighted is a generic of compiled code.")


@implements(project, DenseRows, **_FAST)
def _project_dense(rows, selection, coefficients, out):
    for i in range(out.size):
        row = rows.values[record(selection, i)]
        total = 0.0
        for j in range(row.size):
            total += row[j] * coefficients[j]
        out[i] = total * rows.scale[record(selection, i)]


@implements(add_weighted, DenseRows, **_FAST)
def _add_weighted_dense(rows, selection, weights, out):
    # Four rows at a time: the accumulator is loaded and stored once for all of them.
    whole = weights.size - weights.size % 4
    for i in range(0, whole, 4):
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
    for i in range(whole, weights.size):
        row = rows.values[record(selection, i)]
        weight = weights[i] * rows.scale[record(selection, i)]
        for j in range(row.size):
            out[j] += weight * row[j]


@implements(project, SparseRows)
def _project_sparse(rows, selection, coefficients, out):
    for i in range(out.size):
        r = record(selection, i)
        total = 0.0
        for k in range(rows.starts[r], rows.starts[r + 1]):
            total += rows.values[k] * coefficients[rows.columns[k]]
        out[i] = total * rows.scale[r]


@implements(add_weighted, SparseRows)
def _add_weighted_sparse(rows, selection, weights, out):
    for i in range(weights.size):
        r = record(selection, i)
        weight = weights[i] * rows.scale[r]
        for k in range(rows.starts[r], rows.starts[r + 1]):
            out[rows.columns[k]] += weight * rows.values[k]
