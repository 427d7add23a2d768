"""The second table of a replay: the first one with another record, or without it."""

import math

import numpy as np

from .._inputs import column_names


def frame_of(column):
    """Return a frame of pandas in the place of another library's, in which rows can be changed."""
    names = column_names(column)
    if names is None or hasattr(column, "iloc"):
        return column
    import pandas as pd

    return pd.DataFrame({name: np.asarray(column[name]) for name in names})


def with_record(columns, index, record):
    """Return the columns of a table, a dict by argument, in which a record takes the place of ``index``.

    Raises
    ------
    ValueError
        If the record has not one value for each column.
    """
    if isinstance(record, tuple) and len(record) != 2:
        raise ValueError(
            f"record is a tuple of {len(record)}: give (x, y), or x as an array or list, or a dict."
        )
    parts = {name: _part(record, name) for name in columns}
    for name, part in parts.items():
        _check_part(name, columns[name], index, part)
    return {name: _changed(one, index, parts[name]) for name, one in columns.items()}


def _part(record, name):
    """Return a record's part in an argument: ``...`` if it stays, and None if the record is taken out."""
    if record is None:
        return None
    if isinstance(record, dict):
        return record.get(name, ...)
    if isinstance(record, tuple):
        return record[("X", "y").index(name)] if name in ("X", "y") else ...
    return record if name == "X" else ...


def _check_part(name, column, index, value):
    """Raise a ValueError if a record has not a value for each column, which NumPy would repeat."""
    if value is ... or value is None:
        return
    shape = np.shape(column)[1:]
    needed = (*np.shape(index), *shape)
    given = np.shape(value) if not isinstance(value, dict) else (len(value),)
    # A person may have one label in all rows.
    is_one = not given and not shape
    if not is_one and math.prod(given) != math.prod(needed):
        raise ValueError(
            f"record has values of shape {given} for {name}, and needs {needed or 'a single one'}: one for "
            f"each column{', of each row of index' if np.ndim(index) else ''}. (A tuple is (x, y).)"
        )


def _changed(column, index, value):
    if value is ...:
        return column
    if hasattr(column, "iloc"):
        if value is None:
            return column.drop(column.index[index])
        column = column.copy()
        column.iloc[index] = value
        return column
    column = np.array(column)
    if value is None:
        return np.delete(column, index, axis=0)
    if column.dtype.kind in "iu":  # A record is not rounded.
        column = column.astype(np.result_type(column, np.asarray(value)))
    column[index] = value
    return column
