"""What scores read: a column of labels and one of predictions, which belong together.

Columns are read by `skdpbayes._tables.columns`, and compared here: lengths, kinds of labels, and ranges.

Errors say what is wrong with the format, and none quotes an entry. Predictions that cannot be, such as
negative expected counts, are refused as missing labels are, before anything is spent: like all errors of
validation these depend on rows, and are not to be published.
"""

import inspect
from functools import wraps
from numbers import Integral, Real

import numpy as np
from sklearn.utils._param_validation import StrOptions, validate_params

from .._checks import RANDOM_STATE, Interval
from .._inputs import column_names, plain, unless_harmless, unquoted
from .._tables.columns import array_of, column_of, finite_numbers, label_column, number_column
from .._tables.lists import comparable
from ..privacy.cost import NEIGHBORING_RELATIONS
from ..privacy.deferred_warnings import warnings_last

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
            with warnings_last(object()) as call:
                call.score = checked(*args, **options)
                return call.score

        return score

    return declare


def refuse_tables(values, name):
    """Raise a ValueError if what is of the positive label alone is of several classes."""
    shape = np.shape(array_of(values, name))
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"{name} has {shape[1]} columns, and must have one: pass that of the positive label, such as "
            "predict_proba(X)[:, 1]."
        )


def probability_column(values, name):
    """Return probabilities of the positive label as an array of one dimension."""
    refuse_tables(values, name)
    column = column_of(values, name)
    return _in_unit_interval(finite_numbers(column, name), name, _rounding(column))


def probability_table(values, name):
    """Return probabilities of all classes, of shape (n_samples, n_classes), also from the second's alone."""
    values = array_of(values, name)
    if values.ndim == 2 and values.shape[1] > 1:
        rounding = _rounding(values)
        table = _in_unit_interval(finite_numbers(values, name), name, rounding)
        if np.any(np.abs(table.sum(axis=1) - 1.0) > rounding):
            raise ValueError(
                f"rows of {name} must add up to 1, as probabilities of all classes do: pass the result of "
                "predict_proba with all its columns. If numbers were rounded, divide each row by its sum."
            )
        return table
    second = probability_column(values, name)
    return np.column_stack([1.0 - second, second])


def check_column_names(values, labels, name):
    """Raise a ValueError if columns of a frame have names of labels, and not of those in their places.

    Names that are none of the labels say nothing, nor do numbers from 0, which pandas gives by itself.
    """
    values = plain(values, name)
    names = (
        [values.name] if hasattr(values, "iloc") and np.ndim(values) == 1 else column_names(values)
    )
    named, shown = [_shown(one) for one in names or ()], [_shown(one) for one in labels]
    places = shown[-1:] if len(named) == 1 else shown
    moved = any(one in shown and one != own for one, own in zip(named, places, strict=False))
    numbered = named == [str(j) for j in range(len(named))] and sorted(named) != sorted(shown)
    if moved and not numbered:
        raise ValueError(
            f"columns of {name} have the names of labels, in another order than labels: pass "
            f"{name}[list(labels)], or of a single column that of the last label; or, if the order is right "
            f"as it is, {name}.to_numpy()."
        )


def _shown(label):
    """Return a label as text, in which 1, 1.0 and '1' are the same."""
    return str(
        int(float(label)) if isinstance(label, Real) and float(label).is_integer() else label
    )


def _rounding(values):
    """Return the tolerance for probabilities and their sums, which scikit-learn has for single precision."""
    single = np.finfo(np.float32).eps
    return float(
        np.sqrt(max(np.finfo(values.dtype).eps, single) if values.dtype.kind == "f" else single)
    )


def check_classes(table, n_classes, name):
    """Raise a ValueError if a table of probabilities has another number of classes."""
    if table.shape[1] != n_classes:
        raise ValueError(
            f"{name} has probabilities of {table.shape[1]} classes, but there are {n_classes} labels: pass "
            "all labels that can occur, in the order of the columns."
        )


def _in_unit_interval(values, name, rounding):
    if values.size and not (values.min() >= -rounding and values.max() <= 1 + rounding):
        raise ValueError(
            f"{name} must hold probabilities between 0 and 1: pass the result of predict_proba."
        )
    return np.clip(values, 0.0, 1.0)


def expected_counts(values, name):
    """Return expected counts, none negative but by rounding, as an array of one dimension."""
    values = number_column(values, name)
    if (values < -1e-9).any():
        raise ValueError(
            f"{name} must hold expected counts, none below 0: if these are logarithms, pass np.exp({name}); "
            "if a model of numbers, such as least squares, predicts negative ones, take a model of counts, "
            f"such as DPBayesianPoissonRegressor, or np.maximum({name}, smallest) with a public number."
        )
    return np.maximum(values, 0.0)


def refuse_fractions_of_labels(y_true, y_pred):
    """Raise a ValueError if all labels are whole numbers, and predictions are not."""
    fractions = y_pred.dtype.kind == "f" and not np.array_equal(y_pred, np.rint(y_pred))
    if fractions and y_true.dtype.kind in "biuf" and not np.any(np.asarray(y_true, float) % 1):
        raise ValueError(
            "y_pred holds fractions, and y_true whole numbers: accuracy compares labels, so pass those of "
            "predict, not probabilities or scores."
        )


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


def is_positive(y, pos_label, predicted=None):
    """Tell which labels are positive; None means 1, with labels 0 (or -1) and 1.

    A column of predictions, if there is one, must not have the name of another label.
    """
    y = label_column(y, "y_true")
    name = predicted.name if hasattr(predicted, "iloc") and hasattr(predicted, "name") else None
    if isinstance(name, str) and name != pos_label and y.dtype.kind in "UO" and (y == name).any():
        raise ValueError(
            f"the column of predictions has the name of a label, and pos_label={pos_label!r} is another: "
            "pass the column of that label; or, if it is right as it is, its to_numpy()."
        )
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
    if np.ndim(labels) != 1:
        raise ValueError(
            f"labels must be a list, whose order is that of columns, and is a {type(labels).__name__}."
        )
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
    labels, y = comparable(labels, y)
    order, text = np.argsort(labels), f"{name} holds labels that are not in labels"
    # Labels of kinds that cannot be compared, such as dates and numbers, differ.
    places = unquoted(np.searchsorted, labels, y, sorter=order, told=unless_harmless(f"{text}."))
    numbers = order[np.minimum(places, len(labels) - 1)]
    if not np.array_equal(labels[numbers], y):
        raise ValueError(f"{text}: list all that can occur.")
    return numbers
