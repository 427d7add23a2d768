"""Dask collections as tables, recognised without importing Dask."""

import sys

import numpy as np


def is_collection(X):
    """Tell whether a table is a Dask collection, without importing Dask."""
    dask = sys.modules.get("dask")
    return dask is not None and dask.is_dask_collection(X)


def example_of(X):
    """Return a made-up row with a collection's columns and types; other tables as they are."""
    if not is_collection(X):
        return X
    if hasattr(X, "columns"):
        return X._meta_nonempty.iloc[:1]
    return np.zeros((1, *X.shape[1:]), dtype=X.dtype)
