"""Columns that are read without a table: labels, and finite numbers, of one dimension.

array_of -> column_of -> label_column or number_column -> count_column

Errors say what is wrong with the format, and none quotes an entry.
"""

from numbers import Real

import numpy as np
import scipy.sparse as sp
from sklearn.utils._missing import is_pandas_na, is_scalar_nan
from sklearn.utils.validation import column_or_1d

from .._inputs import doubles, holds_dates, plain, refuse_fractions, unless_harmless, unquoted
from .blockwise import in_memory
from .lists import exact_labels


def label_column(y, name):
    """Return labels as an array of one dimension."""
    y = column_of(y, name)
    if y.dtype.kind == "c":
        raise ValueError(f"{name} holds complex numbers: labels are text or real numbers.")
    if y.dtype.kind == "O":
        missing = any(v is None or is_scalar_nan(v) or is_pandas_na(v) for v in y)
        kinds = {str if isinstance(v, str) else Real if isinstance(v, Real) else None for v in y}
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
    return unquoted(exact_labels, y, told=unless_harmless(f"{name} must hold real numbers."))


def number_column(values, name):
    """Return finite numbers as an array of one dimension."""
    return finite_numbers(column_of(values, name), name)


def finite_numbers(values, name):
    """Return an array of finite numbers, in double precision."""
    if holds_dates(values):
        raise ValueError(f"{name} holds dates or durations, and must hold real numbers.")
    told = unless_harmless(f"{name} must hold real numbers.")
    values = unquoted(doubles, values, told=told)
    if not np.isfinite(values).all():
        raise ValueError(
            f"{name} contains NaN or infinity: scores need finite numbers. Leave these rows out where it is "
            "public which they are, or score under neighboring_relation='add_or_remove_one'."
        )
    return values


def count_column(values, name):
    """Return whole numbers, none negative, as an array of one dimension."""
    values = number_column(values, name)
    refuse_fractions(values, name)
    if (values < 0).any():
        raise ValueError(f"{name} must hold counts, none below 0: leave out rows that have none.")
    return values


def column_of(values, name):
    """Return a column as an array of one dimension; an empty one is of numbers."""
    values = array_of(values, name)
    if values.shape == (0,):
        return np.empty(0)
    if values.ndim == 2 and values.shape[1] != 1:
        raise ValueError(
            f"{name} must be a column, with one label or number for each row, and has {values.shape[1]} "
            "columns."
        )
    return unquoted(column_or_1d, values, told=unless_harmless(f"{name} must be a column."))


def array_of(values, name):
    """Return an array, in this process."""
    (values,) = in_memory(plain(values, name))
    if sp.issparse(values):
        raise TypeError(f"{name} is sparse, but scores need dense columns: pass {name}.toarray().")
    # As objects, since a single string or float would convert all entries of a list.
    kind = None if hasattr(values, "dtype") else object
    return unquoted(
        np.asarray, values, dtype=kind, told=unless_harmless(f"{name} must be a column.")
    )
