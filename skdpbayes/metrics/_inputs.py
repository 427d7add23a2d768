"""What scores read: a column of labels and one of predictions, which belong together.

Columns are read by `skdpbayes._tables.columns`, and compared here: lengths, kinds of labels, and ranges.

Errors say what is wrong with the format, and none quotes an entry.
"""

import inspect
from functools import wraps
from numbers import Integral, Real

import numpy as np
from sklearn.utils._param_validation import StrOptions, validate_params

from .._checks import RANDOM_STATE, Interval
from .._inputs import unless_harmless, unquoted
from .._silence import silently
from .._tables.columns import array_of, finite_numbers, label_column, number_column
from ..privacy.cost import NEIGHBORING_RELATIONS

COMMON = {
    "epsilon": [Interval(Real, 0, None, closed="right")],
    "delta": [None, Interval(Real, 0, 1, closed="left")],
    "neighboring_relation": [StrOptions(set(NEIGHBORING_RELATIONS))],
    "random_state": RANDOM_STATE,
    "groups": "no_validation",
}
# Not validated by scikit-learn, whose errors would quote entries.
COLUMN = "no_validation"
LABEL = [None, Real, str, "boolean"]
PUBLIC_SIZE = [None, Interval(Integral, 2, None, closed="left")]


def score_function(**parameters):
    """Declare a function a private score, with constraints of its own parameters.

    What columns hold shows neither in warnings nor in errors of floating-point operations.
    """

    def declare(function):
        constraints = {**parameters, **COMMON}
        checked = validate_params(constraints, prefer_skip_nested_validation=True)(function)
        own = inspect.signature(function).parameters.values()
        columns = [one.name for one in own if one.kind is one.POSITIONAL_OR_KEYWORD]

        @wraps(function)
        def score(*args, **options):
            if len(args) > len(columns):
                name = function.__name__
                raise TypeError(
                    f"{name} takes {' and '.join(columns)} by position, and the rest by name: write "
                    f"{name}({', '.join(columns)}, epsilon=1.0)."
                )
            with silently():
                return checked(*args, **options)

        return score

    return declare


def probability_column(values, name):
    """Return probabilities as an array of one dimension."""
    return _in_unit_interval(number_column(values, name), name)


def probability_table(values, name):
    """Return probabilities of all classes, of shape (n_samples, n_classes), also from the second's alone."""
    values = array_of(values, name)
    if values.ndim == 2 and values.shape[1] > 1:
        return _in_unit_interval(finite_numbers(values, name), name)
    second = probability_column(values, name)
    return np.column_stack([1.0 - second, second])


def check_classes(table, n_classes, name):
    """Raise a ValueError if a table of probabilities has another number of classes."""
    if table.shape[1] != n_classes:
        raise ValueError(
            f"{name} has probabilities of {table.shape[1]} classes, but there are {n_classes} labels: pass "
            "all labels that can occur, in the order of the columns."
        )


def _in_unit_interval(values, name):
    if values.size and not (values.min() >= 0 and values.max() <= 1):
        raise ValueError(
            f"{name} must hold probabilities between 0 and 1: pass the result of predict_proba."
        )
    return values


def same_length(neighboring_relation, **columns):
    """Raise a ValueError if columns differ in length, or have no rows and that is public."""
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"{' and '.join(columns)} must have the same number of rows.")
    if lengths == {0} and neighboring_relation == "replace_one":
        raise ValueError(f"{' and '.join(columns)} are empty: there is nothing to score.")


def agree_in_kind(first, second, names):
    """Raise a ValueError if one column holds text and the other does not."""
    text = [column.size and isinstance(column[0], str) for column in (first, second)]
    if first.size and text[0] != text[1]:
        listed = names[1] == "labels"
        remedy = (
            "list the labels of the rows, e.g. labels=clf.classes_"
            if listed
            else "make them one kind"
        )
        raise ValueError(
            f"{names[0]} and {names[1]} hold labels of different kinds, text and numbers: {remedy}."
        )


def is_positive(y, pos_label):
    """Tell which labels are positive; None means 1, with labels 0 (or -1) and 1."""
    y = label_column(y, "y_true")
    if y.size == 0:
        return np.zeros(0, dtype=bool)
    if pos_label is not None:
        if isinstance(y[0], str) != isinstance(pos_label, str):
            raise ValueError(
                "pos_label and y_true hold labels of different kinds, text and numbers: pass a pos_label of "
                "the kind of y_true."
            )
        return y == pos_label
    if y.dtype.kind not in "biuf" or not np.isin(y, (-1, 0, 1)).all():
        raise ValueError(
            "y_true holds labels other than 0 (or -1) and 1: say which label is positive, "
            "e.g. pos_label=clf.classes_[1] for the second column of predict_proba."
        )
    return y == 1


def public_labels(labels):
    """Return the declared labels in their order."""
    labels = label_column(labels, "labels")
    if len(labels) < 2 or np.unique(labels).size != len(labels):
        raise ValueError("labels must list all labels that can occur, at least two, each once.")
    return labels


def label_numbers(y, labels, name):
    """Return the index of each label in the list."""
    y = label_column(y, name)
    if y.size == 0:
        return np.zeros(0, dtype=int)
    agree_in_kind(y, labels, (name, "labels"))
    order, text = np.argsort(labels), f"{name} holds labels that are not in labels"
    # Labels of kinds that cannot be compared, such as dates and numbers, differ.
    places = unquoted(np.searchsorted, labels, y, sorter=order, told=unless_harmless(f"{text}."))
    numbers = order[np.minimum(places, len(labels) - 1)]
    if not np.array_equal(labels[numbers], y):
        raise ValueError(f"{text}: list all that can occur.")
    return numbers
