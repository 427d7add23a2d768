"""Columns: labels and numbers beside a table, and public lists that columns are matched with.

    array_of -> column_of -> label_column or number_column -> count_column
    encode_labels:   y_i -> k with classes_k = y_i

Numbers are matched exactly, and text and numbers never match. Errors say what is wrong with the format, and
none quotes an entry.
"""

import math
from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
from sklearn.utils._missing import is_pandas_na, is_scalar_nan
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from .._errors import (
    column_names,
    doubles,
    holds_dates,
    refuse_fractions,
    reraise_if_safe,
    sanitize_errors,
    to_native,
)
from ..privacy.deferred_warnings import warn
from .partitions import in_memory


def label_column(y, name):
    """Labels as an array of one dimension."""
    y = column_of(y, name)
    if y.dtype.kind == "c":
        raise ValueError(f"{name} holds complex numbers: labels are text or real numbers.")
    if y.dtype.kind == "O":
        missing = any(v is None or is_scalar_nan(v) or is_pandas_na(v) for v in y)
        numbers = Real, np.bool_
        kinds = {str if isinstance(v, str) else Real if isinstance(v, numbers) else None for v in y}
        if not missing and kinds not in ({str}, {Real}):
            raise ValueError(
                f"{name} holds labels of several kinds, such as text and numbers: make them one kind, e.g. "
                f"with [str(label) for label in {name}]."
            )
        if not missing:
            y = y.astype(str) if kinds == {str} else _real_labels(y, name)
    else:
        missing = y.dtype.kind in "fmM" and not np.isfinite(y).all()
    if missing:
        raise ValueError(f"{name} holds missing labels: score only rows whose label is known.")
    return y


def _real_labels(y, name):
    finite_numbers(y, name)
    return sanitize_errors(
        exact_labels, y, on_error=reraise_if_safe(f"{name} must hold real numbers.")
    )


def number_column(values, name):
    """Finite numbers as an array of one dimension."""
    return finite_numbers(column_of(values, name), name)


def finite_numbers(values, name):
    """An array of finite numbers, in double precision."""
    if holds_dates(values):
        raise ValueError(f"{name} holds dates or durations, and must hold real numbers.")
    on_error = reraise_if_safe(f"{name} must hold real numbers.")
    values = sanitize_errors(doubles, values, on_error=on_error)
    if not np.isfinite(values).all():
        raise ValueError(
            f"{name} contains NaN or infinity: scores need finite numbers. Leave these rows out where it is "
            "public which they are, or score under neighboring_relation='add_or_remove_one'."
        )
    return values


def count_column(values, name):
    """Whole numbers, none negative, as an array of one dimension."""
    values = number_column(values, name)
    refuse_fractions(values, name)
    if (values < 0).any():
        raise ValueError(f"{name} must hold counts, none below 0: leave out rows that have none.")
    return values


def column_of(values, name):
    """A column as an array of one dimension; an empty one is of numbers."""
    values = array_of(values, name)
    if values.shape == (0,):
        return np.empty(0)
    if values.ndim == 2 and values.shape[1] != 1:
        raise ValueError(
            f"{name} must be a column, with one label or number for each row, and has {values.shape[1]} "
            "columns."
        )
    return sanitize_errors(
        column_or_1d, values, on_error=reraise_if_safe(f"{name} must be a column.")
    )


def array_of(values, name):
    """An array, in this process."""
    (values,) = in_memory(to_native(values, name))
    if sp.issparse(values):
        raise TypeError(f"{name} is sparse, but scores need dense columns: pass {name}.toarray().")
    # As objects, since a single string or float would convert all entries of a list.
    kind = None if hasattr(values, "dtype") else object
    return sanitize_errors(
        np.asarray, values, dtype=kind, on_error=reraise_if_safe(f"{name} must be a column.")
    )


# Class labels: which labels can occur is public, which of them do occur is private.


_LABELS_OF_SEVERAL_KINDS = (
    "{name} holds labels of several kinds, such as numbers, text and None, which have no order: make "
    "all labels one kind, e.g. by {name} = np.asarray({name}).astype(str). Rows without a label get any of "
    "them, and sample_weight=0."
)
_ONE_AGAINST_REST = "; in OneVsRestClassifier each fit has two, classes=[0, 1]"
# More labels, most of them consecutive integers, are rather counts or measurements.
_LARGEST_N_LABELS = 30
# Numbers of labels up to which a message lists them.
_MOST_LABELS_LISTED = 10


def label_set(classes):
    """The declared labels, sorted; raises if they are invalid."""
    if np.ndim(classes) != 1:
        nested = f" of {np.ndim(classes)} dimensions" if np.ndim(classes) else ""
        raise ValueError(
            f"classes must be a list of labels, such as [0, 1], and is a {type(classes).__name__}{nested}: "
            "pass list(...) of a set or a dict, or of a table the list of its labels."
        )
    if len({isinstance(label, str) for label in classes}) > 1:
        raise ValueError(_LABELS_OF_SEVERAL_KINDS.format(name="classes"))
    labels = np.asarray(classes)
    if (integers := integer_array(classes)) is not None:
        labels = integers
    elif labels.dtype.kind == "f" and any(
        isinstance(label, int) and abs(label) > 2**53 for label in classes
    ):
        raise ValueError(
            "classes holds long integers beside other numbers, which would round them: list text, e.g. "
            "classes=[str(label) for label in classes]."
        )
    unique = _distinct(labels, "classes")
    if unique.size < 2 or unique.size != labels.size:
        # Not quoted: it may be the column itself.
        raise ValueError(
            "classes must list at least two different labels, each once, such as [0, 1], and lists "
            f"{labels.size}, of which {unique.size} are different."
        )
    return unique


def _distinct(labels, name):
    """The distinct labels, sorted."""
    try:
        return np.unique(labels)
    except Exception:  # Of NumPy's, or of labels of a class of their own.
        pass
    # Outside the handler, because the caught error names types and would not help.
    raise ValueError(_LABELS_OF_SEVERAL_KINDS.format(name=name))


def looks_like_numbers(labels):
    """Whether sorted labels are many, and most of them consecutive integers."""
    if labels.size <= _LARGEST_N_LABELS or labels.dtype.kind not in "iuf":
        return False
    return bool(np.mean(np.diff(labels) == 1) > 0.5)


def _numbers(n_classes):
    return list(range(n_classes)) if n_classes <= _MOST_LABELS_LISTED else f"range({n_classes})"


def labels_in(y, classes):
    """The sorted labels: those that are declared or, if ``classes`` is None, those that occur."""
    if classes is not None:
        return label_set(classes)
    labels = _distinct(y, "y")
    if labels.dtype == object and all(isinstance(label, Real) for label in labels):
        labels = y = np.unique(np.array(labels.tolist()))
    if labels.dtype.kind not in "biu":  # Whole numbers are labels, whatever they are.
        unknown = "y holds labels of a kind that is not known: use text or whole numbers, e.g. y.astype(int)."
        on_error = reraise_if_safe(unknown)
        if labels.dtype == object and not all(isinstance(label, str) for label in labels):
            raise ValueError(unknown)
        sanitize_errors(check_classification_targets, y, on_error=on_error)
    if labels.size < 2:
        raise ValueError(
            "y holds only one class, and a classifier needs two: if others can occur, list all labels, "
            "e.g. classes=[0, 1]."
        )
    if looks_like_numbers(labels):
        warn(
            f"y has {labels.size} different labels, most of them consecutive whole numbers, as counts "
            "have: a classifier learns each one by itself, and knows no order. To predict a count, take "
            "DPBayesianPoissonRegressor; to predict a number, DPBayesianRidge. If these are labels, list "
            "them in classes.",
        )
    return labels


def encode_labels(y, classes):
    """The index of every row's label among ``classes``.

    The only condition on ``y`` is that it holds no others. Whether its entries are whole numbers, and how
    many different ones occur, must not be revealed.
    """
    labels = label_set(classes)
    refuse_rounded_labels(labels, y, "y")
    try:
        listed, y = comparable(labels, y)
        codes = np.minimum(np.searchsorted(listed, y), labels.size - 1)
        known = np.array_equal(listed[codes], y)
    except Exception:  # Labels of another kind, which cannot be compared.
        known = False
    if not known:
        raise ValueError(
            "y holds labels that are not in classes: list all labels that can occur, and give rows without "
            "a label any of them and sample_weight=0. Where another tool numbers the labels first, as "
            "VotingClassifier does, the numbers are the labels: "
            f"classes={_numbers(labels.size)}{_ONE_AGAINST_REST * (labels.size > 2)}."
        )
    return codes


# Public lists of categories, levels and labels.
#
# A list and its column are of one type, text or numbers. What decides is the list and the type of the column,
# both public. Cells of a column of objects are not looked at for this.


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
