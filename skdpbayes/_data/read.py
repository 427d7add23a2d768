"""Tables that a fit reads: in this process, or in remote shards.

    validate, encode labels, weigh -> rows -> a target

Rows are handed out within a context in which no floating-point operation warns or raises. If a table is in
shards, all of this happens where the shards are. Only the labels that occur, sizes and sums over records come
back.
"""

from contextlib import contextmanager
from functools import partial

from sklearn.base import is_regressor

from .._errors import suppress_fp_warnings, to_native
from .collections import is_collection, refuse_columns_in_other_order, refuse_other_order_around
from .columns import labels_in
from .privacy_units import check_groups, choose_rows
from .table import UNLABELLED, Rows, Table, chosen_rows, prepared, validate_table


@contextmanager
def read_table(
    estimator,
    X,
    y=UNLABELLED,
    sample_weight=None,
    groups=None,
    client=None,
    validate=validate_table,
    exposure=None,
    only=None,
    **options,
):
    """Validate a table, and hand it out within a context that hides what its numbers do.

    Parameters
    ----------
    estimator : estimator instance
        Its feature names and number of features are set; ``max_sample_weight`` and ``max_rows_per_group``
        are read if there are labels, and ``classes`` and ``class_weight`` unless it is a regressor.
    X, y, sample_weight, groups, exposure
        As for `fit`.
    client : distributed.Client or None, default=None
        For Dask collections.
    validate : callable
        `validate_table`, or a function with the same signature.
    only : ndarray of shape (n_samples,) of bool, or list of such, default=None
        Which rows the table shall have, of a collection for each partition; None is all. Only without labels.
    **options
        Passed to ``validate``.

    Yields
    ------
    table : Table

    Raises
    ------
    ValueError, TypeError
        If the table is invalid.
    """
    given = {"y": y, "sample_weight": sample_weight, "exposure": exposure, "groups": groups}
    columns = [to_native(values, name) for name, values in given.items()]
    validate = partial(validate, **options)
    with (
        suppress_fp_warnings(),
        _read(estimator, to_native(X, "X"), columns, client, validate, only) as table,
    ):
        yield table


def _read(estimator, X, columns, client, validate, only):
    y, sample_weight, exposure, groups = columns
    if is_collection(X):
        from .dask_read import read_collection

        return read_collection(
            estimator, X, y, sample_weight, exposure, groups, client, validate, only
        )
    if client is not None:
        raise ValueError(
            f"client is for collections of Dask, but X is of type {type(X).__name__}: leave client=None, or "
            "pass dask.array.from_array(X, chunks=(rows, -1))."
        )
    beside = {"X": X, "y": y}
    refuse_other_order_around()
    refuse_columns_in_other_order(X=X, y=y, sample_weight=sample_weight, exposure=exposure)
    if isinstance(y, str) and y == UNLABELLED:
        rows, classes = Rows(chosen_rows(validate(estimator, X, reset=True), only)), None
    else:
        X, y = validate(estimator, X, y, reset=True)
        rows, classes = Rows(X, y, sample_weight, exposure), None
        if not is_regressor(estimator):
            classes = labels_in(y, estimator.classes)
        rows = prepared(estimator, classes, sample_weight)(rows)
    n_samples = None
    limit = getattr(estimator, "max_rows_per_group", None)
    persons = check_groups(groups, limit, rows.X.shape[0], **beside)
    if persons is not None:
        # Proposition 60.
        kept = choose_rows(persons, int(estimator.max_rows_per_group), estimator.random_state)
        n_samples = int(persons.max()) + 1
        rows = Rows(*(None if part is None else part[kept] for part in rows))
    return Table(rows, classes, n_samples, only is not None)
