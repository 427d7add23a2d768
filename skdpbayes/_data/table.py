"""Rows of a table in numbers, in this process, and what a fit does with them.

    validated rows -> labels or responses in numbers, weights and offsets of records -> a target

Which labels can occur is public, and said in `skdpbayes._data.columns`.
"""

from functools import partial
from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils import check_array, get_tags
from sklearn.utils.validation import check_non_negative

from .._errors import doubles, holds_dates, refuse_fractions, reraise_if_safe, sanitize_errors
from ..models.rows import real_numbers
from .columns import encode_labels

# As in scikit-learn.
UNLABELLED = "no_validation"
FIT_WITHOUT_OUTCOME = (
    "fit(X, y.fillna(label), sample_weight=y.notna()), where label is one of the classes, such as 0 or 'no', "
    "or a number within the bounds; in a pipeline, model__sample_weight=y.notna(), after the name of the step"
)
WITHOUT_OUTCOME = (
    "keep rows without a label or response, with any valid y and sample_weight=0, so that the number of rows "
    f"stays public, e.g. {FIT_WITHOUT_OUTCOME}. Leave them out only where it is public which they are, or "
    "under neighboring_relation='add_or_remove_one'."
)


class Rows(NamedTuple):
    """Validated rows.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,) or None
        Classes as numbers, or the responses of a regressor.
    weights : ndarray of shape (n_samples,) or None
    offsets : ndarray of shape (n_samples,) or None
        Logarithms of exposures, which are added to logits.
    """

    X: np.ndarray | csr_array
    labels: np.ndarray | None = None
    weights: np.ndarray | None = None
    offsets: np.ndarray | None = None


class Table:
    """Rows in this process; a context manager, which remote tables need to release their shards.

    Parameters
    ----------
    rows : Rows
    classes : ndarray of shape (n_classes,) or None
    n_samples : int or None, default=None
        The size that plans are for: the number of persons, if these are protected.
    one_of_each : bool, default=False
        Whether it has one row of each person, chosen of those that others read.
    """

    def __init__(self, rows, classes, n_samples=None, one_of_each=False):
        self.rows, self.classes, self.one_of_each = rows, classes, one_of_each
        self.n_features = rows.X.shape[1]
        self.n_samples = rows.X.shape[0] if n_samples is None else n_samples

    @property
    def sizes(self):
        """The public size of what labels are, besides that of the table: the number of classes, if any."""
        return () if self.classes is None else (self.classes.size,)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def count(self, function, *args):
        """The sum over records of the integers that a function of `Rows` computes."""
        return function(self.rows, *args)

    def target(self, make, remote):
        """The target that ``make`` builds from `Rows`; remote tables use ``remote``, too."""
        return make(self.rows)


def chosen_rows(X, only):
    """The rows of a validated table of which an array tells that they are wanted; all for None."""
    if only is None:
        return X
    if only.shape != X.shape[:1]:
        raise RuntimeError(
            "a step gets another number of rows than its pipeline has chosen, and cannot know whose they "
            "are: steps before it must return a row for each row."
        )
    return X[only]


def prepared(estimator, classes, sample_weight):
    """A function, with public arguments only, that makes of validated `Rows` what targets are made of.

    Parameters
    ----------
    estimator : estimator
    classes : ndarray of shape (n_classes,) or None
        None for regressors.
    sample_weight : object or None
        Whether records have weights of their own.
    """
    largest = None if sample_weight is None else float(estimator.max_sample_weight)
    if classes is None:
        least = 0.0 if get_tags(estimator).target_tags.positive_only else -np.inf
        counts = getattr(estimator, "_reads_counts", False)
        return partial(numbered, least=least, largest=largest, counts=counts)
    weights = getattr(estimator, "class_weight", None)
    return partial(encoded, classes=classes, class_weight=weights, largest=largest)


def encoded(rows, classes, class_weight, largest):
    """`Rows` with encoded labels and effective weights."""
    labels = encode_labels(rows.labels, classes)
    weights = effective_weights(class_weight, classes, labels, rows.weights, largest, rows.X)
    return Rows(rows.X, labels, weights)


def numbered(rows, least, largest, counts):
    """`Rows` of a regressor: responses of at least ``least``, weights, logarithms of exposures."""
    count = rows.X.shape[0]
    # scikit-learn looks for NaN only.
    if np.asarray(rows.labels).dtype.kind == "O" and any(label is None for label in rows.labels):
        raise ValueError(f"Input y contains None: {WITHOUT_OUTCOME}")
    responses = real_numbers(rows.labels, count, least, name="y")
    if counts:
        refuse_fractions(responses, "y")
    weights = effective_weights(None, (), None, rows.weights, largest, rows.X)
    return Rows(rows.X, responses, weights, logarithms(rows.offsets, count))


def logarithms(exposure, n_rows):
    """The logarithms of exposures, of shape (n_rows,), or None of None."""
    if exposure is None:
        return None
    exposure = exposures(exposure, n_rows)
    if not np.all(exposure > 0):
        raise ValueError(
            "exposure must be positive: give rows that were not exposed an exposure of 1 and sample_weight=0."
        )
    return np.log(exposure)


def _with_nan(values):
    """`doubles`; what types of pandas have in the place of missing values is NaN."""
    if hasattr(values, "to_numpy") and hasattr(values, "isna"):
        values = values.to_numpy(dtype=object, na_value=np.nan)
    return doubles(values)


def exposures(values, n_rows):
    """Exposures that may be 0 as an array of doubles, of shape (n_rows,).

    A single column is taken for what it holds.

    Raises
    ------
    ValueError
        If they are no such numbers. Each cause has a message of its own, which quotes no cell.
    """
    on_error = reraise_if_safe("exposure must hold real numbers, not text, dates or objects.")
    numbers = sanitize_errors(_with_nan, values, on_error=on_error)
    if numbers.shape == (n_rows, 1):
        numbers = numbers[:, 0]
    if numbers.shape != (n_rows,):
        raise ValueError(
            f"exposure is of shape {numbers.shape} and must be ({n_rows},): one number for each row."
        )
    if np.isnan(numbers).any():
        raise ValueError(
            "exposure has missing values: give rows without one an exposure of 1 and sample_weight=0."
        )
    if np.isinf(numbers).any():
        raise ValueError("exposure must be finite, and holds infinity or a number too large.")
    if (numbers < 0).any():
        raise ValueError("exposure must be positive, and holds numbers below 0.")
    return numbers


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


def weight_warnings(class_weight, sample_weight, max_sample_weight):
    """Warnings about weights, from public numbers and the type of a column: no weight is read.

    Parameters
    ----------
    class_weight : dict, "balanced" or None
    sample_weight : array-like of shape (n_samples,) or None
    max_sample_weight : float or None
        None if records have no weights of their own.
    """
    texts = []
    values = class_weight.values() if isinstance(class_weight, dict) else ()
    largest = max((float(value) for value in values if isinstance(value, Real)), default=1.0)
    if largest > 1.0:
        texts.append(
            "class_weight has weights above 1, and a row of weight w counts as w rows: intervals are too "
            f"short. Divide all weights by the largest, {largest:g}, also the 1 of a label that is left out."
        )
    kind = getattr(sample_weight, "dtype", getattr(sample_weight, "type", None))
    are_marks = sample_weight is None or sample_weight is True or "bool" in str(kind).lower()
    if not are_marks and max_sample_weight == 1:
        texts.append(
            "sample_weight is given, and weights above max_sample_weight=1 count as 1: set "
            "max_sample_weight to a public number that most weights keep, unless yours are at most 1. True "
            "and False count as 1 and 0: an array or a column of type bool is not told of this, and a list "
            "is, because it has no type that can be known unread."
        )
    return texts


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
