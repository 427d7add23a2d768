"""Dask collections as tables, recognised without importing Dask."""

import sys

import numpy as np


def is_collection(X):
    """Tell whether a table is a Dask collection, without importing Dask."""
    dask = sys.modules.get("dask")
    return dask is not None and dask.is_dask_collection(X)


def header_of(X):
    """Return the names and types of a table's columns, as a table without rows; None if it has neither."""
    if not hasattr(X, "shape"):
        return None
    if not hasattr(X, "columns"):
        return np.empty((0, X.shape[1]))
    if is_collection(X):
        return X._meta
    return X.head(0) if hasattr(X, "head") else X[:0]


def example_of(X):
    """Return a made-up row with a collection's columns and types; other tables as they are."""
    if not is_collection(X):
        return X
    if hasattr(X, "_meta_nonempty"):
        return X._meta_nonempty.iloc[:1]
    return np.zeros((1, *X.shape[1:]), dtype=X.dtype)
