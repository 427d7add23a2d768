"""Tables that a fit reads: validated, and then numbers, in this process or in remote shards.

    validate, encode labels, weigh -> rows -> a target

Validation is scikit-learn's, and no error quotes a cell. Rows are handed out within a context in which no
floating-point operation warns or raises. If a table is in shards, all of this happens where the shards are.
Only the labels that occur, sizes and sums over records come back.
"""

from contextlib import contextmanager
from functools import partial

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_regressor
from sklearn.utils import _safe_indexing
from sklearn.utils._missing import is_pandas_na
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _num_samples,
    check_array,
    validate_data,
)

from .._errors import (
    holds_dates,
    reraise_if_safe,
    same_kind,
    sanitize_errors,
    suppress_fp_warnings,
    to_native,
)
from ..models.rows import without_duplicates
from .collections import is_collection, refuse_columns_in_other_order, refuse_other_order_around
from .columns import column_cells, integer_array, labels_in
from .privacy_units import check_groups, choose_rows, count_persons
from .table import UNLABELLED, WITHOUT_OUTCOME, Rows, Table, chosen_rows, prepared

_TEXT = ("str", "utf8", "category", "categorical", "enum")
_DATES = ("date", "time", "duration", "period")
_MISSING_RESPONSE = f"Input y contains NaN: {WITHOUT_OUTCOME}"
# The beginning of a message of scikit-learn or NumPy, and what is said instead.
_REMEDIES = {
    ("could not convert string",): (
        "X holds text where numbers are expected: encode categories with a public list of them, "
        "e.g. OneHotEncoder(categories=[...], handle_unknown='ignore'), or with DPOneHotEncoder, which "
        "finds them privately. To turn marks such as '?' in a column of numbers into NaN, use "
        "pandas.to_numeric(column, errors='coerce')."
    ),
    ("float() argument must be", "must be real number", "cannot convert"): (
        "X holds dates or other objects, and every argument must be a string of digits or a real number: "
        "turn dates into numbers, e.g. days since a public date, and use NaN for missing values."
    ),
    # scikit-learn's message recommends imputers, most of which learn from the rows.
    ("Input X contains NaN", "Input contains NaN"): (
        "Input X contains NaN: put skdpbayes.preprocessing.DPImputer() into the pipeline, after the "
        "scaler. It fills in a public constant for free, or private medians with strategy='median'. "
        "Without noise, means and medians would leak."
    ),
    ("Input X contains infinity",): (
        "Input X contains infinity or a value too large for its type: replace it by NaN, which "
        "skdpbayes.preprocessing.DPImputer fills in, or by a public bound of its column."
    ),
    ("Input y contains NaN", "boolean value of NA"): _MISSING_RESPONSE,
    ("Complex data not supported",): (
        "Complex data not supported: X must hold real numbers, and y labels that are not complex."
    ),
    ("Expected 2D",): (
        "Expected 2D array, got one of fewer dimensions instead. Reshape your data: "
        "array.reshape(-1, 1) if there is a single feature, array.reshape(1, -1) if there is a "
        "single sample."
    ),
    ("setting an array element with a sequence",): (
        "X or y has rows of different lengths, or lists in its cells: every row of X needs one number for "
        "each column, and y one label for each row."
    ),
}
_UNREADABLE = (
    "X or y could not be read: X must be a table of real numbers, such as an array of two dimensions, and y "
    "a column of labels."
)


@suppress_fp_warnings()
def validate_table(
    estimator,
    X,
    y="no_validation",
    *,
    reset,
    accept_sparse="csr",
    ensure_all_finite=True,
    dtype=(np.float64, np.float32),
):
    """Validate a table with scikit-learn; no error quotes a cell, and no warning depends on one.

    ``accept_sparse``, ``ensure_all_finite`` and ``dtype`` are as in scikit-learn's `check_array`. A sparse
    matrix is returned with one entry in a place.

    Raises
    ------
    ValueError, TypeError
        If the table does not consist of finite numbers.
    """
    X, y = to_native(X, "X"), _exact_integers(to_native(y, "y"))
    _refuse_columns(X)
    X = _without_na(X)
    if sanitize_errors(_holds_dates, X, on_error=without_cells):
        raise ValueError(
            "X holds dates or durations: turn them into numbers, e.g. days since a public date."
        )
    array = sanitize_errors(
        validate_data,
        estimator,
        X,
        y,
        reset=reset,
        accept_sparse=accept_sparse,
        dtype=list(dtype),
        order="C",
        ensure_all_finite=ensure_all_finite,
        on_error=partial(_table_error, X=X),
    )
    return (
        (without_duplicates(array[0]), array[1])
        if isinstance(array, tuple)
        else without_duplicates(array)
    )


def validate_objects(estimator, X, on_error, *, reset):
    """The cells of a table of any kind as objects, of shape (n_samples, n_features).

    ``on_error`` is as for `sanitize_errors`.

    Raises
    ------
    ValueError, TypeError
        If it is no table, or its columns are not those of the fit.
    """
    X = to_native(X, "X")
    is_frame = hasattr(X, "columns") and hasattr(X, "shape")
    # As objects, since a single string would turn all numbers of a list into strings.
    table = (
        X
        if is_frame
        else sanitize_errors(
            check_array, X, dtype=object, ensure_all_finite=False, on_error=on_error
        )
    )
    _check_feature_names(estimator, X, reset=reset)
    _check_n_features(estimator, table, reset=reset)
    if _num_samples(table) < 1 or table.shape[1] < 1:
        raise ValueError(f"X has shape {table.shape}: at least one row and one column are needed.")
    cells = np.empty(table.shape, dtype=object)
    for j in range(table.shape[1]):
        column = sanitize_errors(_safe_indexing, table, j, axis=1, on_error=on_error)
        column = sanitize_errors(column_cells, column, on_error=on_error)
        cells[:, j] = np.fromiter(column, object, len(column))
    return cells


def without_cells(error, unknown=_UNREADABLE):
    """The error to raise instead of one that may hold a cell; ``unknown`` is its text for other forms."""
    for beginnings, remedy in _REMEDIES.items():
        if str(error).startswith(beginnings):
            return same_kind(error, remedy)
    return reraise_if_safe(unknown)(error)


def _table_error(error, X):
    """Error that `validate_table` raises; scikit-learn does not name y if it holds objects."""
    if str(error).startswith("Input contains NaN"):
        return ValueError(_MISSING_RESPONSE)
    shown = without_cells(error)
    names = _no_numbers(X) if str(shown).startswith("X holds") else []
    text = str(shown).replace("X holds", f"X, in columns {names}, holds", bool(names))
    return same_kind(shown, text)


def _objects_of(X):
    """{name: column} of a frame of pandas, of those that hold objects."""
    if not (_is_frame(X) and hasattr(X, "iloc")):
        return {}
    return {str(X.columns[j]): X.iloc[:, j] for j in _places_of_objects(X)}


def _places_of_objects(X):
    return np.flatnonzero(X.dtypes.astype(str) == "object")


def _no_numbers(X):
    """The names of columns of objects that are no numbers."""

    def is_none(column):
        try:
            with suppress_fp_warnings():
                np.asarray(column).astype(float)
        except Exception:  # Whose message may hold a cell.
            return True
        return False

    return [name for name, column in _objects_of(X).items() if is_none(column)]


def _without_na(X):
    """A table with NaN in the place of pandas.NA among objects, which NumPy does not read."""
    if isinstance(X, np.ndarray) and X.dtype == object:
        missing = np.array([is_pandas_na(cell) for cell in X.flat], bool).reshape(X.shape)
        return np.where(missing, np.nan, X) if missing.any() else X
    columns = _objects_of(X)
    if not columns:
        return X
    marks = {
        name: np.array([is_pandas_na(cell) for cell in column], bool)
        for name, column in columns.items()
    }
    if not any(missing.any() for missing in marks.values()):
        return X
    X = X.copy(deep=False)
    for j in _places_of_objects(X):
        column = X.iloc[:, j].to_numpy(dtype=object)
        X.isetitem(j, np.where(marks[str(X.columns[j])], np.nan, column))
    return X


def _exact_integers(y):
    """Integers as an array of NumPy's, since scikit-learn would round those of other types to doubles."""
    if y is None or isinstance(y, str | np.ndarray):
        return y
    array = sanitize_errors(integer_array, y, on_error=without_cells)
    # Other types, and integers beside missing ones, are left to scikit-learn.
    return y if array is None else array


def _holds_dates(X):
    # Columns of other types were refused by name.
    kinds = {str(kind).lower() for kind in X.dtypes} if _is_frame(X) else {"object"}
    return not sp.issparse(X) and "object" in kinds and holds_dates(X)


def _is_frame(X):
    return hasattr(X, "dtypes") and hasattr(X, "columns")


def _refuse_columns(X):
    """Raise a ValueError if a data frame has columns of text or dates, or of one name; names are public."""
    if not _is_frame(X):
        return
    names = [str(name) for name in X.columns]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"X has several columns named {repeated}: give every column a name of its own."
        )
    kinds = [(str(name), str(kind).lower()) for name, kind in zip(X.columns, X.dtypes, strict=True)]
    if dates := [name for name, kind in kinds if kind.startswith(_DATES)]:
        raise ValueError(
            f"columns {dates} hold dates or durations: turn them into numbers, e.g. days since a public date."
        )
    if text := [name for name, kind in kinds if kind.startswith(_TEXT)]:
        raise ValueError(
            f"columns {text} are not numeric: encode categories in a ColumnTransformer, with a public list "
            "of them, e.g. OneHotEncoder(categories=[...], handle_unknown='ignore'), or with "
            "DPOneHotEncoder, which finds them privately."
        )


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
        from .dask_table import read_collection

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
    limit = getattr(estimator, "max_rows_per_group", None)
    if groups is None and limit is None:
        return Table(rows, classes, one_of_each=only is not None)
    persons = check_groups(groups, limit, rows.X.shape[0], **beside)
    # Proposition 60.
    kept = choose_rows(persons, limit, estimator.random_state)
    rows = Rows(*(None if part is None else part[kept] for part in rows))
    return Table(rows, classes, count_persons(persons), only is not None)
