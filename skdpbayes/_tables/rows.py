"""Validated rows of a table, in this process, and what a fit does with them.

rows -> labels or responses in numbers, weights and offsets of records -> a target
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils import get_tags

from .._inputs import doubles, refuse_fractions, unless_harmless, unquoted
from ..targets._rows import real_numbers
from .labels import encode_labels
from .validation import WITHOUT_OUTCOME
from .weights import effective_weights

# As in scikit-learn.
UNLABELLED = "no_validation"


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
    """Rows in this process; a context manager, which tables elsewhere need to release their shards.

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
        """Return what a function of `Rows` computes: a sum of integers over records."""
        return function(self.rows, *args)

    def target(self, make, remote):
        """Return the target that ``make`` builds from `Rows`; tables elsewhere use ``remote``, too."""
        return make(self.rows)


def chosen_rows(X, only):
    """Return the rows of a validated table of which an array tells that they are wanted; all for None."""
    if only is None:
        return X
    if only.shape != X.shape[:1]:
        raise RuntimeError(
            "a step gets another number of rows than its pipeline has chosen, and cannot know whose they "
            "are: steps before it must return a row for each row."
        )
    return X[only]


def prepared(estimator, classes, sample_weight):
    """Return a function, with public arguments only, that makes of validated `Rows` what targets are made of.

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
    """Return `Rows` with encoded labels and effective weights."""
    labels = encode_labels(rows.labels, classes)
    weights = effective_weights(class_weight, classes, labels, rows.weights, largest, rows.X)
    return Rows(rows.X, labels, weights)


def numbered(rows, least, largest, counts):
    """Return `Rows` of a regressor: responses of at least ``least``, weights, logarithms of exposures."""
    count = rows.X.shape[0]
    # scikit-learn looks for NaN only.
    if np.asarray(rows.labels).dtype.kind == "O" and any(one is None for one in rows.labels):
        raise ValueError(f"Input y contains None: {WITHOUT_OUTCOME}")
    responses = real_numbers(rows.labels, count, least, name="y")
    if counts:
        refuse_fractions(responses, "y")
    weights = effective_weights(None, (), None, rows.weights, largest, rows.X)
    return Rows(rows.X, responses, weights, logarithms(rows.offsets, count))


def logarithms(exposure, n_rows):
    """Return the logarithms of exposures, of shape (n_rows,), or None of None."""
    if exposure is None:
        return None
    exposure = exposures(exposure, n_rows)
    if not np.all(exposure > 0):
        raise ValueError(
            "exposure must be positive: give rows that were not exposed an exposure of 1 and sample_weight=0."
        )
    return np.log(exposure)


def _with_nan(values):
    """Return `doubles`; what types of pandas have in the place of missing values is NaN."""
    if hasattr(values, "to_numpy") and hasattr(values, "isna"):
        values = values.to_numpy(dtype=object, na_value=np.nan)
    return doubles(values)


def exposures(values, n_rows):
    """Return exposures that may be 0 as an array of doubles, of shape (n_rows,).

    A single column is taken for what it holds.

    Raises
    ------
    ValueError
        If they are no such numbers. Each cause has a message of its own, which quotes no cell.
    """
    told = unless_harmless("exposure must hold real numbers, not text, dates or objects.")
    numbers = unquoted(_with_nan, values, told=told)
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
