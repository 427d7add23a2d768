"""Collections of Dask among the tables that are passed, told without importing it.

    f(X) = (f(X_1), f(X_2), ...)

What is computed row by row is computed partition by partition of a collection, when it is asked for.
"""

import sys
from functools import partial, wraps

import numpy as np


def is_collection(X):
    """Tell whether a table is a collection of Dask, without importing it."""
    dask = sys.modules.get("dask")
    return dask is not None and dask.is_dask_collection(X)


def in_memory(values):
    """Return values, computed if they are a collection of Dask."""
    return values.compute() if is_collection(values) else values


def example_of(X):
    """Return a row of a collection's kind, which says what is public; other tables as they are."""
    if not is_collection(X):
        return X
    if hasattr(X, "columns"):
        return X._meta_nonempty.iloc[:1]
    return np.zeros((1, *X.shape[1:]), dtype=X.dtype)


def by_blocks(method):
    """Have a method of one table take collections, of which it returns such a collection."""

    @wraps(method)
    def either(self, X):
        if not is_collection(X):
            return method(self, X)
        from ._dask.blocks import map_blocks

        return map_blocks(partial(method, self), X)

    return either
