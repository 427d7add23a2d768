"""Checks of public arguments that every part of the package shares."""

import sys
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval as ScikitLearnInterval
from sklearn.utils._param_validation import Options
from sklearn.utils.validation import _num_samples, check_scalar


class Interval(ScikitLearnInterval):
    """scikit-learn's constraint on a number, which refuses booleans: ``True`` is no epsilon of 1.

    Nor are integers numbers of which no double is near, and fractions.
    """

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether a value is a number of the interval."""
        return is_number(val) and super().is_satisfied_by(val)


class Pair(Options):
    """Constraint on a parameter that is a pair. Its entries are validated where they are used."""

    def __init__(self):
        super().__init__(object, {"(low, high)"})

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether a value is a tuple, a list or an array of one dimension."""
        return isinstance(val, tuple | list) or (isinstance(val, np.ndarray) and val.ndim == 1)

    def __str__(self) -> str:
        return "two public numbers (low, high)"


# As scikit-learn's, and generators, but no booleans.
RANDOM_STATE = [
    None,
    Interval(Integral, 0, 2**32 - 1, closed="both"),
    np.random.RandomState,
    np.random.Generator,
]


# Largest public number of rows: whole numbers up to it are exact doubles.
_MOST_ROWS = 2**53
# Largest public number of columns: a plan's matrices have a size at all.
_MOST_COLUMNS = 2**24
_LARGEST_DOUBLE = int(np.finfo(np.float64).max)
# Modules whose calls a user did not write: contexts are entered through the second.
_OWN_FRAMES = ("skdpbayes.", "contextlib")


def callers_level():
    """The ``stacklevel`` at which a warning points to the code that called this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(_OWN_FRAMES):
        level, frame = level + 1, frame.f_back
    return level


def is_number(value):
    """Whether a value is an integer or floating-point number that a double is near, and no boolean."""
    if isinstance(value, bool) or not isinstance(value, Real | np.number):
        return False
    if isinstance(value, int):
        return abs(value) <= _LARGEST_DOUBLE
    return isinstance(value, float | np.integer | np.floating)


def check_number(name, value):
    """Raise a TypeError unless a value is a real number, and no boolean."""
    if not is_number(value):
        raise TypeError(f"{name} must be a number, got {value!r}.")


def check_sizes(least=1, **sizes):
    """Raise a TypeError or a ValueError unless all sizes are integers of at least ``least``."""
    for name, value in sizes.items():
        if np.ndim(value) or value is None or isinstance(value, bool):
            raise TypeError(
                f"{name} must be an instance of int, not {type(value).__name__}: a plan takes sizes and no "
                "data, as in privacy_plan(*X.shape)."
            )
        check_scalar(value, name, Integral, min_val=least)
        most = _MOST_COLUMNS if name == "n_features" else _MOST_ROWS
        if value > most:
            raise ValueError(
                f"{name} must be at most {most:,}, got {float(min(value, _LARGEST_DOUBLE)):g}."
            )


def planned_size(n_samples, neighboring_relation, public_size):
    """The number of rows that a plan may use: that of the table, or the declared one if it is private.

    Raises
    ------
    ValueError
        If a public size is missing, or given although the table's own is public.
    """
    if neighboring_relation == "add_or_remove_one":
        if public_size is None:
            raise ValueError(
                "neighboring_relation='add_or_remove_one' keeps the size of the table private: "
                "declare a public one, e.g. public_size=10_000, that does not come from the data."
            )
        return int(public_size)
    if public_size is not None:
        raise ValueError(
            f"public_size={public_size} is for neighboring_relation='add_or_remove_one'; "
            "under 'replace_one' the size of the table is public: leave public_size=None."
        )
    return int(n_samples)


def table_shape(X):
    """The numbers of rows and columns of a table; raises a ValueError if it is none."""
    shape = X.shape if hasattr(X, "shape") else np.shape(np.asarray(X, dtype=object))
    if len(shape) != 2:
        raise ValueError(
            f"X must be a table with rows and columns, but has the shape {shape}: reshape your data, with "
            "array.reshape(-1, 1) if there is a single column."
        )
    if 0 in shape[1:]:
        raise ValueError(
            f"X has 0 feature(s) (shape={shape}) while a minimum of 1 is required: give it columns."
        )
    n_rows = _num_samples(X) if hasattr(X, "shape") else shape[0]
    if n_rows == 0:
        raise ValueError("X has 0 sample(s) while a minimum of 1 is required: give it rows.")
    return n_rows, shape[1]


def check_level(level):
    """Raise a ValueError unless a level is a number in (0, 1)."""
    if not (is_number(level) and 0 < level < 1):
        raise ValueError(
            f"level must be a number in (0, 1), e.g. 0.9 for 90 percent, got {level!r}."
        )
