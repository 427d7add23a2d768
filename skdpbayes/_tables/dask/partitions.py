"""The partitions of a collection, what lies beside them, and the client that computes them."""

from contextlib import suppress

import dask
import numpy as np

from ..._inputs import unless_harmless, unquoted
from ..collections import is_collection
from ..order import refuse_other_order
from .shards import do_one, raised, says_why


def client_or_none(client):
    """Return the given client, or the current one, or None."""
    try:
        from distributed import get_client, secede

        client = get_client() if client is None else client
    except (ImportError, ValueError):
        return None
    if client.asynchronous:
        raise ValueError(
            "client is asynchronous, but a fit waits for results: pass one with asynchronous=False."
        )
    # A fit that is itself a task of a worker leaves its thread, once, to the tasks that it waits for.
    with suppress(ValueError, KeyError):
        secede()
    return client


def in_whole_rows(X):
    """Return a collection whose partitions have all columns, as those of data frames always do."""
    return X.rechunk({1: -1}) if hasattr(X, "rechunk") else X


def blocks_of(collection):
    """Return the partitions of a collection, in their order.

    Graphs are not optimised, because each column of a data frame could then get a shuffle of its own, with a
    different order of rows.
    """
    return list(np.ravel(np.array(collection.to_delayed(optimize_graph=False), dtype=object)))


def aligned(part, X, n_blocks, name):
    """Return the blocks of labels or weights that belong to the partitions of X."""
    chunks = X.chunks[0] if hasattr(X, "chunks") else (np.nan,)
    if is_collection(part):
        if hasattr(part, "rechunk") and part.shape[0] == sum(chunks):
            part = part.rechunk({0: chunks})
        blocks = blocks_of(part)
        if len(blocks) == n_blocks:
            return blocks
    else:
        size = unquoted(np.shape, part, told=unless_harmless(f"{name} must be a column."))[:1]
        if size == (sum(chunks),):
            return np.split(np.asarray(part), np.cumsum(chunks)[:-1])
        if size and not np.isnan(sum(chunks)):
            raise ValueError(
                f"{name} has {size[0]} entries, and X has {sum(chunks)} rows: give one for each row, as a "
                "column in memory or as a Dask collection with the partitions of X."
            )
    raise ValueError(
        f"{name} must have the partitions of X: pass a Dask collection that was made in the same way, e.g. a "
        "column of the same data frame."
    )


def refuse_other_order_in_parts(X, **columns):
    """Raise a ValueError if a partition of a column has another index than that of the table.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
    **columns : collection, array-like or None
        By name. Only frames and columns of frames have an index.
    """
    if not hasattr(X, "divisions"):
        return
    blocks, check = blocks_of(X), dask.delayed(_checked, pure=False)
    for name, column in columns.items():
        if is_collection(column) and hasattr(column, "divisions"):
            parts = aligned(column, X, len(blocks), name)
            raised(dask.compute(*map(check, blocks, parts, [name] * len(blocks))))


def _checked(block, part, name):
    return do_one(_in_same_order, block, part, name)


@says_why
def _in_same_order(block, part, name):
    refuse_other_order(name, part, X=block)
