"""Functions of rows, applied to the partitions of a collection, and columns brought to the client."""

import dask
import dask.array as da
import numpy as np

from ..._silence import silently
from ..collections import example_of
from .read import blocks_of, in_whole_rows


def map_blocks(function, X):
    """Apply a function to each partition, and return a Dask array with the same partitions.

    Parameters
    ----------
    function : callable
        Maps a table to an array with one entry, or one row, for each row of the table.
    X : dask.array.Array or dask.dataframe.DataFrame
    """
    X = in_whole_rows(X)
    like = function(example_of(X))
    one = dask.delayed(_on_block, pure=True)
    function, none = dask.delayed(function), like[:0]
    sizes = X.chunks[0] if hasattr(X, "chunks") else (np.nan,) * X.npartitions
    return da.concatenate(
        [
            da.from_delayed(one(function, block, none), (size, *like.shape[1:]), meta=none)
            for size, block in zip(sizes, blocks_of(X), strict=True)
        ],
        allow_unknown_chunksizes=True,
    )


def _on_block(function, block, none):
    with silently():
        return function(block) if block.shape[0] else none


def computed(columns):
    """Return some collections in memory, whose common sources are read once."""
    graphs = [np.array(c.to_delayed(optimize_graph=False), dtype=object).tolist() for c in columns]
    joined = [column.__dask_postcompute__() for column in columns]
    return [
        join(blocks, *extra)
        for (join, extra), blocks in zip(joined, dask.compute(*graphs), strict=True)
    ]
