"""Dask collections by their partitions, each a table: functions of single rows, and columns in memory.

    f(X) = (f(X_1), f(X_2), ...)

Dask is imported only where there is a collection. Workers log the arguments of tasks that fail, records
included. Tasks therefore never fail: they return the kind of the error instead, which the next one, or the
client, raises.
"""

import hmac
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from typing import Any, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from sklearn import config_context, get_config

from .._compute.execution import single_threaded_blas
from .._errors import reraise_if_safe, sanitize_errors, suppress_fp_warnings, to_native
from .._typing import MatrixLike
from .collections import (
    example_of,
    index_of,
    is_collection,
    refuse_columns_in_other_order,
    refuse_other_order,
)

_Method = TypeVar("_Method", bound=Callable[..., Any])


class Failed:
    """The result of a failed task: an error that says nothing about records."""

    def __init__(self, error):
        self.error = error


def failure(result):
    """A result if it is a failure, else None."""
    return result if isinstance(result, Failed) else None


def with_sanitized_traceback(function):
    """Declare that the errors of a function say nothing about records."""
    function.has_sanitized_errors = True
    return function


def run_on_shard(function, shard, *args):
    """The result of a function, or its failure; earlier failures are passed on."""
    if isinstance(shard, Failed):
        return shard
    try:
        # Tasks run side by side, each on a core.
        with suppress_fp_warnings(), single_threaded_blas():
            return function(shard, *args)
    except Exception as error:
        if getattr(function, "has_sanitized_errors", False):
            return Failed(error)
        return Failed(RuntimeError(f"a task of a worker ended with {type(error).__name__}."))


def unless_failed(result):
    """A result; raises the error that it is instead."""
    if isinstance(result, Failed):
        raise result.error
    return result


def raised(results):
    """Results; raises the first error among them."""
    for result in results:
        unless_failed(result)
    return results


def client_or_none(client):
    """The given client, or the current one, or None."""
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
    """A collection whose partitions have all columns, as those of data frames always do."""
    return X.rechunk({1: -1}) if hasattr(X, "rechunk") else X


def blocks_of(collection):
    """The partitions of a collection, in their order.

    Graphs are not optimised, because each column of a data frame could then get a shuffle of its own, with a
    different order of rows.
    """
    return list(np.ravel(np.array(collection.to_delayed(optimize_graph=False), dtype=object)))


def aligned(part, X, n_blocks, name):
    """The blocks of labels or weights that belong to the partitions of X."""
    chunks = X.chunks[0] if hasattr(X, "chunks") else (np.nan,)
    if is_collection(part):
        if hasattr(part, "rechunk") and part.shape[0] == sum(chunks):
            part = part.rechunk({0: chunks})
        blocks = blocks_of(part)
        if len(blocks) == n_blocks:
            return blocks
    else:
        size = sanitize_errors(
            np.shape, part, on_error=reraise_if_safe(f"{name} must be a column.")
        )[:1]
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
    import dask

    blocks, check = blocks_of(X), dask.delayed(_checked, pure=False)
    for name, column in columns.items():
        if is_collection(column) and hasattr(column, "divisions"):
            parts = aligned(column, X, len(blocks), name)
            raised(dask.compute(*map(check, blocks, parts, [name] * len(blocks))))


def _checked(block, part, name):
    return run_on_shard(_in_same_order, block, part, name)


@with_sanitized_traceback
def _in_same_order(block, part, name):
    refuse_other_order(name, part, X=block)


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
    partitions : dask.array.Array, or dask.dataframe.DataFrame if the function returns data frames
    """
    import dask

    X = in_whole_rows(X)
    like = function(example_of(X))
    attempt, raising = (dask.delayed(one, pure=True) for one in (_attempt, unless_failed))
    forms = {name: get_config()[name] for name in _FORMS}
    function, none = dask.delayed(function), like[:0]
    partitions = [raising(attempt(function, block, none, forms)) for block in blocks_of(X)]
    sizes = X.chunks[0] if hasattr(X, "chunks") else (np.nan,) * X.npartitions
    return collection_of(partitions, none, sizes)


def collection_of(blocks, none, sizes=None):
    """A collection of partitions that are delayed.

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
    import dask.array as da

    sizes = (np.nan,) * len(blocks) if sizes is None else sizes
    return da.concatenate(
        [
            da.from_delayed(block, (size, *none.shape[1:]), meta=none)
            for size, block in zip(sizes, blocks, strict=True)
        ],
        allow_unknown_chunksizes=True,
    )


def _attempt(function, block, none, forms):
    """The result of a function for a partition, or its error, which must quote no row."""
    if isinstance(block, Failed):
        return block
    try:
        # Tasks run side by side, each on a core.
        with suppress_fp_warnings(), config_context(**forms), single_threaded_blas():
            return function(block) if block.shape[0] else none
    except Exception as error:
        return Failed(error.with_traceback(None))  # Frames hold rows.


def computed(columns):
    """Some collections in memory, whose common sources are read once."""
    import dask

    graphs = [np.array(c.to_delayed(optimize_graph=False), dtype=object).tolist() for c in columns]
    joined = [column.__dask_postcompute__() for column in columns]
    return [
        join(blocks, *extra)
        for (join, extra), blocks in zip(joined, dask.compute(*graphs), strict=True)
    ]


def in_memory(*columns):
    """Columns, those that are Dask collections computed, in one computation.

    In two, a source that changes could give columns that are not of the same rows.
    """
    lazy = [number for number, column in enumerate(columns) if is_collection(column)]
    if not lazy:
        return columns
    computed_columns = list(columns)
    for number, column in zip(lazy, computed([columns[number] for number in lazy]), strict=True):
        computed_columns[number] = column
    return computed_columns


def in_memory_and_order(X, *predicted, **columns):
    """Columns in memory, computed together with the index of their table, if they have no other index.

    Parameters
    ----------
    X : table
    *predicted : column
        What a model returned for these rows, which is not compared.
    **columns : column or None
        By name.

    Returns
    -------
    computed : list
        ``predicted``, and then ``columns``.

    Raises
    ------
    ValueError
        If a column has another index than the table, or than a column before it.
    """
    rows, *computed = in_memory(index_of(X), *predicted, *columns.values())
    named = zip(columns, computed[len(predicted) :], strict=True)
    refuse_columns_in_other_order(X=rows, **dict(named))
    return computed


def by_blocks(method: _Method) -> _Method:
    """Make a method of one table silent, and return a collection if it is given one."""

    @wraps(method)
    def either(self, X):
        X = to_native(X, "X")
        if not is_collection(X):
            with suppress_fp_warnings():
                return method(self, X)
        return map_blocks(partial(method, self), X)

    return cast(_Method, either)


class OutputByBlocks:
    """Mixin of transformers, before scikit-learn's: ``set_output`` is obeyed where the partitions are.

    scikit-learn puts what methods return into a data frame, and would bring all rows of a collection
    here.
    """

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if "transform" in vars(cls):
            setattr(cls, "transform", by_blocks(vars(cls)["transform"]))  # noqa: B010

    def fit_transform(self, X: MatrixLike, y: Any = None, **params: Any) -> MatrixLike:
        """Fit, and transform the same rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y, **params
            As for `fit`.

        Returns
        -------
        X : ndarray, data frame or collection
            What ``transform`` makes of the rows.
        """
        refuse_other_order("y", y, X=X)  # Which a step after this one may read.
        return self.fit(X, y, **params).transform(X)  # type: ignore[attr-defined]


# Marks of partitions, which tell whether one that is computed again still has the same rows.
#
#     mark = HMAC_key(number of the partition, types, shapes and bytes of X, y and weights)
#
# The key is drawn for each fit: marks say nothing about rows, not even that two tables have the same.


def mark_of(rows, key, number):
    """The mark of the `Rows` of a partition.

    Parameters
    ----------
    rows : Rows
        Validated.
    key : bytes
    number : int
        Of the partition.

    Returns
    -------
    mark : bytes
    """
    mark = hmac.new(key, digestmod="sha256")  # Which processors have instructions for.
    mark.update(repr(number).encode())
    for part in rows:
        for array in _arrays_of(part):
            mark.update(repr((array.dtype.str, array.shape)).encode())
            mark.update(_bytes_of(array))
    return mark.digest()


def _arrays_of(part):
    if part is None:
        return ()
    if sp.issparse(part):
        return np.array(part.shape), part.data, part.indices, part.indptr
    return (np.asarray(part),)


def _bytes_of(array):
    if array.dtype.kind not in "OT":
        return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    # Labels and categories, whose own bytes are addresses: their different values, and which is where.
    values, numbers = array.ravel().tolist(), dict[Any, int]()
    try:
        places = [numbers.setdefault(value, len(numbers)) for value in values]
        if all(value == value for value in numbers):
            return np.array(places).tobytes() + repr(list(numbers)).encode()
    except TypeError:  # Some cannot be compared.
        pass
    return repr(values).encode()
