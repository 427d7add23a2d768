"""Tables that a fit reads: in this process, or in parts elsewhere.

    validate, encode labels, weigh -> rows -> a target

Rows are handed out within a context in which no floating-point operation warns or raises. If a table is in
parts, all of this happens where the parts are. Only the labels that occur, sizes and sums over records come
back.
"""

from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from .._collections import is_collection
from .._inputs import plain
from .._silence import silently
from ..targets import make_logistic, make_mixture
from .labels import encode_labels
from .persons import check_groups, choose_rows
from .validation import validate_table
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

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def count(self, function, *args):
        """Return what a function of `Rows` computes: a sum of integers over records."""
        return function(self.rows, *args)

    def target(self, make, elsewhere, *args):
        """Return the target that ``make`` builds from `Rows`; tables elsewhere use ``elsewhere``."""
        return make(self.rows, *args)


@contextmanager
def read_table(
    estimator,
    X,
    y=UNLABELLED,
    sample_weight=None,
    groups=None,
    client=None,
    validate=validate_table,
    **options,
):
    """Validate a table, and hand it out within a context that hides what its numbers do.

    Parameters
    ----------
    estimator : estimator instance
        Its feature names and number of features are set; ``classes``, ``class_weight``,
        ``max_sample_weight`` and ``max_rows_per_group`` are read if there are labels.
    X, y, sample_weight, groups
        As for `fit`.
    client : distributed.Client or None, default=None
        For Dask collections.
    validate : callable
        `validate_table`, or a function with the same signature.
    **options
        Passed to ``validate``.

    Yields
    ------
    table : Table

    Raises
    ------
    ValueError, TypeError
        If the table is invalid.
    """
    columns = {"y": y, "sample_weight": sample_weight, "groups": groups}
    columns = [plain(values, name) for name, values in columns.items()]
    validate = partial(validate, **options)
    with silently(), _read(estimator, plain(X, "X"), *columns, client, validate) as table:
        yield table


def _read(estimator, X, y, sample_weight, groups, client, validate):
    if is_collection(X):
        from .._dask.tables import read_collection

        return read_collection(estimator, X, y, sample_weight, groups, client, validate)
    if client is not None:
        raise ValueError(
            f"client is for collections of Dask, but X is of type {type(X).__name__}: leave client=None, or "
            "pass dask.array.from_array(X, chunks=(rows, -1))."
        )
    if isinstance(y, str) and y == UNLABELLED:
        rows, classes = Rows(validate(estimator, X, reset=True)), None
    else:
        X, y = validate(estimator, X, y, reset=True)
        classes = encode_labels(y, estimator.classes)[0]
        rows = encoded(Rows(X, y, sample_weight), classes, *weighing(estimator, sample_weight))
    n_samples = None
    persons = check_groups(groups, getattr(estimator, "max_rows_per_group", None), rows.X.shape[0])
    if persons is not None:
        # Proposition 60.
        kept = choose_rows(persons, int(estimator.max_rows_per_group), estimator.random_state)
        n_samples = int(persons.max()) + 1
        rows = Rows(*(None if part is None else part[kept] for part in rows))
    return Table(rows, classes, n_samples)


def weighing(estimator, sample_weight):
    """Return (weights of classes, public maximum of records' own weights or None)."""
    largest = None if sample_weight is None else float(estimator.max_sample_weight)
    return getattr(estimator, "class_weight", None), largest


def encoded(rows, classes, class_weight, largest):
    """Return `Rows` with encoded labels and effective weights."""
    labels = encode_labels(rows.labels, classes)[1]
    weights = record_weights(class_weight, classes, labels, rows.weights, largest, rows.X)
    return Rows(rows.X, labels, weights)


def logistic_of(rows, norm, n_classes, constant, prior_precision, max_weight):
    """Return the logistic target of `Rows`; parameters are those of `make_logistic`."""
    return make_logistic(
        rows.X, rows.labels, norm, n_classes, constant, prior_precision, rows.weights, max_weight
    )


def mixture_of(rows, model):
    """Return the mixture target of `Rows`."""
    return make_mixture(rows.X, model)
