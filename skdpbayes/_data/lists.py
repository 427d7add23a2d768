"""Public lists that columns are matched with: categories, levels and labels.

A list and its column are of one type, text or numbers, and numbers are matched exactly. What decides is the
list and the type of the column, both public. Cells of a column of objects are not looked at for this.
"""

import math
from numbers import Integral, Real

import numpy as np
from sklearn.utils._missing import is_pandas_na, is_scalar_nan

from .._errors import column_names

_TEXT = "text"
_NUMBERS = "numbers"
# How names of types begin, in lower case: of NumPy, pandas, polars and Arrow.
_BEGINNINGS = {
    _TEXT: (
        "str",
        "utf8",
        "large_str",
        "large_utf8",
        "categorical",
        "enum",
        "dictionary<values=str",
        "dictionary<values=large_str",
    ),
    _NUMBERS: (
        "int",
        "uint",
        "float",
        "double",
        "half",
        "bool",
        "decimal",
        "dictionary<values=int",
    ),
}
# The only category of a categorical column of Dask whose categories are not known yet.
_UNKNOWN_CATEGORIES = "__UNKNOWN_CATEGORIES__"
# Doubles have all whole numbers below.
_EXACT = 2**53


def exact_number(value):
    """The Python number that stands for all spellings of a real one; a whole one is an integer.

    Raises
    ------
    OverflowError
        If it is a whole number beyond the largest double.
    """
    if not math.isfinite(value):
        return float(value)
    integer = int(value)
    if integer != value:
        return float(value)
    double = float(integer)
    # Doubles of so many digits are written by their exponent.
    return double if abs(integer) >= 2**64 and double == integer else integer


def column_precision(X, column):
    """The floating-point type of NumPy's in which a column holds numbers, if it is no double, else None.

    A fraction in a public list is compared in this type: 0.1 is no number of single precision.

    Parameters
    ----------
    X : table
        Its cells are not looked at.
    column : int
        Its place.
    """
    types = _dtypes(X)
    name = "" if types is None else str(list(types.values())[column]).lower()
    name = name.removeprefix("sparse[")
    # Arrow has names of its own, which end in its brackets where pandas holds its columns.
    if name.startswith("float32") or name.partition("[")[0] == "float":
        return np.float32
    return np.float16 if name.startswith(("float16", "halffloat")) else None


def in_precision(number, precision):
    """A listed number as cells of a precision hold it; anything else is itself."""
    if precision is None or not isinstance(number, Real):
        return number
    with np.errstate(over="ignore"):
        return exact_number(float(precision(number)))


def column_cells(column):
    """Cells of a column, in which integers beside missing ones stay integers."""
    for name in ("to_list", "to_pylist"):  # Of pandas and polars, and of Arrow.
        if hasattr(column, name):
            return getattr(column, name)()
    return np.asarray(column, dtype=object)


def refuse_other_types(lists, X, parameter, names=None, *, wholly=False, cast=False):
    """Raise a ValueError for a list with entries of another type than its column, which would match no cell.

    Parameters
    ----------
    lists : sequence of (sequence or None)
        One for each column of the table, or for each of ``names``.
    X : table
        Its cells are not looked at.
    parameter : str
        What the lists are called.
    names : sequence of str, default=None
        Names of columns of a data frame; None is all columns.
    wholly : bool, default=False
        Whether a list is refused only if all of its entries are of another type.
    cast : bool, default=False
        Whether scikit-learn turns the list into the type of the column, where this is NumPy's.
    """
    types = _column_types(X)
    if types is None or (cast and isinstance(X, np.ndarray)):
        return
    columns = list(types) if names is None else names
    for column, entries in zip(columns, lists, strict=False):
        held = types[column]
        known = [entry for entry in (() if entries is None else entries) if not _is_missing(entry)]
        if cast and held == _NUMBERS:
            others = [not _spells_number(entry) for entry in known]
        else:
            others = [isinstance(entry, str) != (held == _TEXT) for entry in known]
        if held is None or not others or not (all if wholly else any)(others):
            continue
        listed, remedy = (
            (_NUMBERS, "str(value)") if held == _TEXT else (_TEXT, "int(value) or float(value)")
        )
        raise ValueError(
            f"{parameter}: the list of column {column!r} has {listed}, and the column holds {held} by its "
            "type, so that they match no cell. Make both one type: the list by "
            f"[{remedy} for value in ...], or the column by X[{column!r}].astype(...)."
        )


def refuse_rounded_labels(labels, y, name):
    """Raise a ValueError for whole labels that the type of a column rounds."""
    if np.asarray(y).dtype.kind == "f" and labels.dtype.kind in "iu" and _are_long(labels):
        raise ValueError(
            f"{name} holds floating-point numbers, which round integers as long as the declared labels: read "
            f"{name} as integers or text, also where values are missing, e.g. pandas.read_csv(..., "
            "dtype='Int64')."
        )


def comparable(labels, y):
    """Two columns of labels, as objects where NumPy would round numbers to compare them."""
    labels, y = np.asarray(labels), np.asarray(y)
    kinds = {labels.dtype.kind, y.dtype.kind}
    if len(kinds) == 2 and kinds <= set("iuf") and _are_long(labels):
        return labels.astype(object), y.astype(object)
    return labels, y


def integer_array(labels):
    """Labels as an array of integers of 64 bits, where NumPy would make some lists doubles, or None."""
    array = np.asarray(labels)
    if array.dtype.kind in "iu":
        return array
    entries = np.asarray(labels, dtype=object)
    if array.dtype.kind not in "fO" or not entries.size:
        return None
    if not all(isinstance(entry, Integral) for entry in entries.flat):
        return None
    for kind in (np.int64, np.uint64):
        try:
            return entries.astype(kind)
        except OverflowError:
            pass
    return None


def exact_labels(labels):
    """Real numbers of a column of objects as an array, each equal to what it is equal to by itself.

    Doubles for all would round a label because another one is a fraction, so that one record could change
    what those of others are equal to.
    """
    numbers = [exact_number(label) for label in labels]
    if any(abs(number) >= _EXACT for number in numbers):
        exact = np.empty(len(numbers), dtype=object)
        exact[:] = numbers
        return exact
    # Of so few digits both types are exact, also beside the other.
    are_integers = all(isinstance(number, int) for number in numbers)
    return np.array(numbers, dtype=np.int64 if are_integers else np.float64)


def typed_labels(labels):
    """Labels as an array of numbers, where they are objects that are real numbers."""
    array = np.asarray(labels)
    if array.dtype != object or not all(isinstance(label, Real) for label in array.flat):
        return labels
    integers = integer_array(array)
    return exact_labels(array) if integers is None else integers


def _are_long(labels):
    return bool(labels.size) and max(abs(int(labels.max())), abs(int(labels.min()))) > _EXACT


def _spells_number(entry):
    try:
        float(entry)
    except (TypeError, ValueError):
        return False
    return True


def _is_missing(entry):
    return entry is None or is_scalar_nan(entry) or is_pandas_na(entry)


def _column_types(X):
    """{column: text, numbers or None if its type does not tell}, or None of what has no types."""
    types = _dtypes(X)
    return None if types is None else {name: _type_of(kind) for name, kind in types.items()}


def _dtypes(X):
    """{column: its type}, or None of what has no types."""
    names = column_names(X)
    if names is not None:
        types = X.schema.types if hasattr(X, "column_names") else getattr(X, "dtypes", None)
        return None if types is None else dict(zip(names, types, strict=True))
    if not hasattr(X, "dtype") or len(X.shape) != 2:
        return None
    return dict.fromkeys(range(X.shape[1]), X.dtype)


def _type_of(dtype):
    if getattr(dtype, "kind", None) == "U" and isinstance(dtype, np.dtype):
        return _TEXT
    name = str(dtype).lower().removeprefix("sparse[")
    if (
        name == "category"
    ):  # Of pandas: the type of the categories decides, and not which there are.
        categories = dtype.categories
        unknown = categories is None or list(categories[:1]) == [_UNKNOWN_CATEGORIES]
        return None if unknown else _type_of(categories.dtype)
    if name.startswith("interval"):
        return None
    known = (held for held, begins in _BEGINNINGS.items() if name.startswith(begins))
    return next(known, None)
