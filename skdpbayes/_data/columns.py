"""Columns beside a table: labels, numbers and counts of one dimension, and weights of records.

array_of -> column_of -> label_column or number_column -> count_column

Errors say what is wrong with the format, and none quotes an entry.
"""

from numbers import Real

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array
from sklearn.utils._missing import is_pandas_na, is_scalar_nan
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_non_negative, column_or_1d

from .._errors import (
    doubles,
    holds_dates,
    refuse_fractions,
    reraise_if_safe,
    sanitize_errors,
    to_native,
)
from ..privacy.deferred_warnings import warn
from .blocks import in_memory
from .lists import comparable, exact_labels, integer_array, refuse_rounded_labels


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


# Weights of records: their own, reduced to a public maximum, times that of their class.
#
#     w_i = c(y_i) min(s_i, s_max),      0 <= w_i <= s_max max_k c(k)


def largest_weight(class_weight, n_classes, max_sample_weight):
    """The public maximum of a record's weight, or None if all weights are 1.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
    n_classes : int
    max_sample_weight : float or None
        None if records have no weights of their own.

    Raises
    ------
    ValueError
        If the weights of classes are invalid, or not public.
    """
    if class_weight is None:
        return max_sample_weight
    if isinstance(class_weight, str):
        raise ValueError(
            "class_weight='balanced' counts the labels, which are private: give a dict of public weights, "
            "e.g. class_weight={0: 0.2, 1: 1.0}."
        )
    values = list(class_weight.values()) + [1.0] * (len(class_weight) < n_classes)
    are_real = all(isinstance(v, Real) and not isinstance(v, bool) for v in values)
    if not are_real or not all(0 <= v < np.inf for v in values) or not max(values) > 0:
        raise ValueError(
            f"class_weight must hold non-negative numbers, at least one of them positive, got {class_weight}."
        )
    return float(max(values)) * (1.0 if max_sample_weight is None else max_sample_weight)


def effective_weights(class_weight, classes, labels, sample_weight, max_sample_weight, X):
    """The weights of all records, or None if all are 1.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
    classes : ndarray of shape (n_classes,)
    labels : ndarray of shape (n_samples,)
        Indices of classes.
    sample_weight : array-like of shape (n_samples,) or None
    max_sample_weight : float
    X : array-like of shape (n_samples, n_features)

    Raises
    ------
    ValueError
        As in `largest_weight`; or if a weight is negative, not finite, or for a label that cannot occur.
    """
    if class_weight is None and sample_weight is None:
        return None
    largest_weight(class_weight, len(classes), max_sample_weight)  # Refuses invalid weights.
    weights = np.ones(X.shape[0])
    if sample_weight is not None:
        weights = np.minimum(own_weights(sample_weight, X.shape[0]), max_sample_weight)
    if class_weight is not None:
        unknown = [label for label in class_weight if label not in classes]
        if unknown:
            raise ValueError(
                f"class_weight has weights for {unknown}, but these are not in classes={classes.tolist()}."
            )
        of_classes = np.array([float(class_weight.get(c, 1.0)) for c in classes.tolist()])
        weights = weights * of_classes[labels]
    return weights


def own_weights(weights, n_samples):
    """The records' own weights. All may be 0, because whether any is positive is private."""
    if isinstance(weights, Real):
        weights = np.full(n_samples, weights)
    on_error = reraise_if_safe("sample_weight must hold real numbers, one for each row.")
    if sanitize_errors(holds_dates, weights, on_error=on_error):
        raise ValueError("sample_weight holds dates or durations: it must hold real numbers.")
    weights = sanitize_errors(
        check_array,
        weights,
        dtype=np.float64,
        ensure_2d=False,
        input_name="sample_weight",
        on_error=on_error,
    )
    if weights.shape != (n_samples,):
        raise ValueError(
            f"sample_weight is of shape {weights.shape} and must be ({n_samples},): one for each row."
        )
    check_non_negative(weights, "sample_weight")
    return weights


def refuse_weights(estimator, others):
    """Raise a TypeError for unknown arguments of a fit, with advice if they are weights.

    Parameters
    ----------
    estimator : estimator
    others : dict
    """
    name = type(estimator).__name__
    for argument, value in others.items():
        if argument != "sample_weight":
            raise TypeError(f"{name}.fit() got an unexpected keyword argument {argument!r}.")
        if value is not None:
            raise TypeError(
                f"{name} does not support sample_weight, and every row has weight 1: leave it out, or use "
                "DPBayesianLogisticRegression. Do not repeat rows instead: only one copy would be protected."
            )
