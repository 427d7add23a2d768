"""Methods of single rows, applied to a table silently, or lazily to each partition of a Dask collection.

f(X) = (f(X_1), f(X_2), ...)
"""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

from .._errors import suppress_fp_warnings, to_native
from .._typing import MatrixLike
from .collections import index_of, is_collection, refuse_columns_in_other_order, refuse_other_order

_Method = TypeVar("_Method", bound=Callable[..., Any])


def in_memory(*columns):
    """Columns, those that are Dask collections computed, in one computation.

    In two, a source that changes could give columns that are not of the same rows.
    """
    lazy = [number for number, column in enumerate(columns) if is_collection(column)]
    if not lazy:
        return columns
    from .dask_partitions import computed

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
        from .dask_partitions import map_blocks

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
