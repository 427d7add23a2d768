"""Dask collections as tables, recognised without importing Dask, and the order of rows."""

import sys
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

import numpy as np

from .._errors import reraise_if_safe, sanitize_errors, to_native


def is_collection(X):
    """Whether a table is a Dask collection, without importing Dask."""
    dask = sys.modules.get("dask")
    return dask is not None and dask.is_dask_collection(X)


def header_of(X):
    """The names and types of a table's columns, as a table without rows; None if it has neither."""
    if not hasattr(X, "shape"):
        return None
    if not hasattr(X, "columns"):
        return np.empty((0, X.shape[1]))
    if is_collection(X):
        return X._meta
    return X.head(0) if hasattr(X, "head") else X[:0]


def example_of(X):
    """A made-up row with a collection's columns and types; other tables as they are."""
    if not is_collection(X):
        return X
    if hasattr(X, "_meta_nonempty"):
        return X._meta_nonempty.iloc[:1]
    return np.zeros((1, *X.shape[1:]), dtype=X.dtype)


# Columns beside a table are taken row by row, by their places: those in another order are refused.
#
# index of a column = index of the table, where both have one
#
# An index is as public as names of columns are: the error depends on indices, and on no cell. Labels
# and predictions, weights, exposures and groups are all compared here. Arrays, lists, and frames of
# polars have no index, and leave the order to whoever passes them.


# What is wrong with rows in another order.
_CONSEQUENCE_FOR_GROUPS = "the wrong persons might be protected"
_CONSEQUENCE_FOR_ROWS = "rows would get those of other rows"
# In a context, since steps and tools of other packages stand between a pipeline and what reads its columns.
_compared: ContextVar[bool] = ContextVar("compared", default=False)


@contextmanager
def rows_compared(compared=True):
    """Take columns as they are within: they were compared with rows that steps may have numbered anew."""
    before = _compared.set(compared)
    try:
        yield
    finally:
        _compared.reset(before)


def refuse_other_order(called, column, **beside):
    """Raise a ValueError if a column and what it belongs to have indices, and these differ.

    Parameters
    ----------
    called : str
        The name of the column.
    column : array-like or None
    **beside : table or column
        What it belongs to, by its name.
    """
    column = to_native(column, called)
    if _compared.get():
        return
    for name, table in beside.items():
        table = to_native(table, name)
        if not (_has_index(column) and _has_index(table)) or len(column) != len(table):
            continue  # Another length is refused by its shape.
        consequence = _CONSEQUENCE_FOR_GROUPS if called == "groups" else _CONSEQUENCE_FOR_ROWS
        text = (
            f"{called} has another index than {name}, and rows are taken by their places, so that "
            f"{consequence}: pass {called} of the same rows in the same order, e.g. "
            f"{called}.loc[{name}.index]; or, if the order is right as it is, {called}.to_numpy()."
        )
        if not sanitize_errors(column.index.equals, table.index, on_error=reraise_if_safe(text)):
            raise ValueError(text)


def refuse_columns_in_other_order(**columns):
    """Raise a ValueError if a column has another index than one that is named before it.

    Parameters
    ----------
    **columns : table, column or None
        By name. What is in memory is compared, and collections are not.
    """
    beside: dict[str, Any] = {}
    for name, column in columns.items():
        refuse_other_order(name, column, **beside)
        beside[name] = column


def refuse_other_order_around():
    """Raise a ValueError if a tool of scikit-learn's, in whose method this is, has rows in another order.

    A pipeline whose steps make arrays of rows, and an ensemble that numbers labels first, hand on columns
    without an index. What they were given themselves shows the call stack, if it is in this process.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] == "sklearn" and frame.f_code.co_name in ("fit", "score"):
            given = frame.f_locals
            refuse_columns_in_other_order(X=given.get("X"), y=given.get("y"))
        frame = frame.f_back


def index_of(X):
    """A Dask frame without its columns, whose index can be computed, and any other table as it is."""
    return X[[]] if is_collection(X) and hasattr(X, "divisions") else X


def _has_index(table):
    return hasattr(table, "iloc") and not is_collection(table)
