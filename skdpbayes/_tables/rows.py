"""Validated rows of a table, in this process, and what a fit does with them.

rows -> labels in numbers, weights of records -> a target
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from .labels import encode_labels
from .weights import record_weights

# As in scikit-learn.
UNLABELLED = "no_validation"


class Rows(NamedTuple):
    """Validated rows.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,) or None
    weights : ndarray of shape (n_samples,) or None
    """

    X: np.ndarray | csr_array
    labels: np.ndarray | None = None
    weights: np.ndarray | None = None


class Table:
    """Rows in this process; a context manager, which tables elsewhere need to release their parts.

    Parameters
    ----------
    rows : Rows
    classes : ndarray of shape (n_classes,) or None
    n_samples : int or None, default=None
        The size that plans are for: the number of persons, if these are protected.
    """

    def __init__(self, rows, classes, n_samples=None):
        self.rows, self.classes = rows, classes
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


def weighing(estimator, sample_weight):
    """Return (weights of classes, public maximum of records' own weights or None)."""
    largest = None if sample_weight is None else float(estimator.max_sample_weight)
    return getattr(estimator, "class_weight", None), largest


def encoded(rows, classes, class_weight, largest):
    """Return `Rows` with encoded labels and effective weights."""
    labels = encode_labels(rows.labels, classes)[1]
    weights = record_weights(class_weight, classes, labels, rows.weights, largest, rows.X)
    return Rows(rows.X, labels, weights)
