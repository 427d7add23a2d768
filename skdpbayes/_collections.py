"""Methods of single rows, and Dask collections as tables, recognised without importing Dask.

    f(X) = (f(X_1), f(X_2), ...)

They are applied to a table silently, or lazily to each partition of a collection.
"""

import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

import numpy as np

from ._inputs import plain
from ._silence import silently

_Method = TypeVar("_Method", bound=Callable[..., Any])


def is_collection(X):
    """Tell whether a table is a Dask collection, without importing Dask."""
    dask = sys.modules.get("dask")
    return dask is not None and dask.is_dask_collection(X)


def in_memory(*columns):
    """Return columns, those that are Dask collections computed, in one computation.

    In two, a source that changes could give columns that are not of the same rows.
    """
    lazy = [number for number, column in enumerate(columns) if is_collection(column)]
    if not lazy:
        return columns
    from ._dask.blocks import computed

    columns = list(columns)
    for number, column in zip(lazy, computed([columns[number] for number in lazy]), strict=True):
        columns[number] = column
    return columns


def example_of(X):
    """Return a made-up row with a collection's columns and types; other tables as they are."""
    if not is_collection(X):
        return X
    if hasattr(X, "columns"):
        return X._meta_nonempty.iloc[:1]
    return np.zeros((1, *X.shape[1:]), dtype=X.dtype)


def by_blocks(method: _Method) -> _Method:
    """Make a method of one table silent, and return a collection if it is given one."""

    @wraps(method)
    def either(self, X):
        X = plain(X, "X")
        if not is_collection(X):
            with silently():
                return method(self, X)
        from ._dask.blocks import map_blocks

        return map_blocks(partial(method, self), X)

    return either
