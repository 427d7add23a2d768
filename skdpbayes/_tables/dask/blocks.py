"""Functions of rows, applied to the partitions of a collection, and columns brought to the client."""

import dask
import dask.array as da
import numpy as np
from sklearn import config_context, get_config

from ..._silence import silently
from ...samplers._machinery.execution import single_threaded_blas
from ..collections import example_of
from .partitions import blocks_of, in_whole_rows
from .shards import Failed

# What scikit-learn's configuration says about the form of tables, in this process and not on workers.
_FORMS = ("transform_output",)


def map_blocks(function, X):
    """Apply a function to each partition, and return a collection with the same partitions.

    A task that reads rows never fails, because Dask logs the arguments of tasks that do: the next one, which
    is given the error alone, raises it.

    Parameters
    ----------
    function : callable
        Maps a table to one with an entry, or a row, for each row of the table.
    X : dask.array.Array, dask.dataframe.DataFrame or dask.dataframe.Series

    Returns
    -------
    mapped : dask.array.Array, or dask.dataframe.DataFrame if the function returns data frames
    """
    X = in_whole_rows(X)
    like = function(example_of(X))
    attempt, raising = (dask.delayed(one, pure=True) for one in (_attempt, unless_failed))
    forms = {name: get_config()[name] for name in _FORMS}
    function, none = dask.delayed(function), like[:0]
    mapped = [raising(attempt(function, block, none, forms)) for block in blocks_of(X)]
    sizes = X.chunks[0] if hasattr(X, "chunks") else (np.nan,) * X.npartitions
    return collection_of(mapped, none, sizes)


def collection_of(blocks, none, sizes=None):
    """Return a collection of partitions that are delayed.

    Parameters
    ----------
    blocks : list of dask.delayed.Delayed
    none : ndarray, data frame or column
        One without rows, which has the columns and types of the partitions.
    sizes : sequence of int or None, default=None
        Of the partitions of an array; None if they are not known.
    """
    if hasattr(none, "iloc"):
        import dask.dataframe as dd

        return dd.from_delayed(blocks, meta=none, verify_meta=False)
    sizes = (np.nan,) * len(blocks) if sizes is None else sizes
    return da.concatenate(
        [
            da.from_delayed(block, (size, *none.shape[1:]), meta=none)
            for size, block in zip(sizes, blocks, strict=True)
        ],
        allow_unknown_chunksizes=True,
    )


def _attempt(function, block, none, forms):
    """Return what a function makes of a partition, or its error, which must quote no row."""
    if isinstance(block, Failed):
        return block
    try:
        # Tasks run side by side, each on a core.
        with silently(), config_context(**forms), single_threaded_blas():
            return function(block) if block.shape[0] else none
    except Exception as error:
        return Failed(error.with_traceback(None))  # Frames hold rows.


def unless_failed(result):
    """Return a result, or raise the error that it is instead."""
    if isinstance(result, Failed):
        raise result.error
    return result


def computed(columns):
    """Return some collections in memory, whose common sources are read once."""
    graphs = [np.array(c.to_delayed(optimize_graph=False), dtype=object).tolist() for c in columns]
    joined = [column.__dask_postcompute__() for column in columns]
    return [
        join(blocks, *extra)
        for (join, extra), blocks in zip(joined, dask.compute(*graphs), strict=True)
    ]
