"""Reading Dask collections: partitions are validated, and labels encoded, where the partitions are.

partitions of X, y, sample_weight -> Rows on the workers -> labels that occur, sizes, marks
"""

import secrets

import numpy as np
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils import check_consistent_length

from ...samplers._machinery.shards import LocalShards
from ..collections import example_of
from ..labels import labels_in
from ..order import refuse_columns_in_other_order
from ..persons import has_persons
from ..rows import UNLABELLED, Rows, Table, chosen_rows, prepared
from .marks import mark_of
from .partitions import aligned, blocks_of, client_or_none, in_whole_rows
from .persons import choose_in_parts
from .shards import DaskShards, Failed, MarkedShard, do_one, raised, says_why

# What scikit-learn records about columns in a fit, and checks later.
_COLUMNS = ("n_features_in_", "feature_names_in_")


class RemoteTable(Table):
    """Rows in shards, which can be read only within its context.

    Parameters
    ----------
    shards : Shards
        Those of `Rows`.
    n_features : int
    classes : ndarray of shape (n_classes,) or None
    n_samples : int or None, default=None
        The number of persons, if these are protected.
    one_of_each : bool, default=False
        As for `Table`.
    """

    def __init__(self, shards, n_features, classes, n_samples=None, one_of_each=False):
        self.shards, self.n_features, self.classes = shards, n_features, classes
        self.one_of_each = one_of_each
        self.n_samples = sum(shards.sizes) if n_samples is None else n_samples

    def __enter__(self):
        self.shards.__enter__()
        return self

    def __exit__(self, *error):
        self.shards.__exit__(*error)

    def count(self, function, *args):
        """Return the sum over shards of what a function of `Rows` computes, in integers."""
        return self.shards.count(function, *args)

    def target(self, make, remote):
        """Return what ``remote`` makes of the address of the targets that ``make`` builds on the shards."""
        # The rows from which targets are built are not needed any more.
        made = self.shards.kept(make, instead=True)
        self.__exit__()
        self.shards = made.__enter__()
        return remote(made.address, sum(made.sizes))


def read_collection(estimator, X, y, sample_weight, exposure, groups, client, validate, only=None):
    """Return the `RemoteTable` of a collection; parameters are those of `read_table`."""
    _check(estimator, y)
    limit = getattr(estimator, "max_rows_per_group", None)
    protects_persons = has_persons(groups, limit)
    # Sets names and the number of features, and refuses columns of text.
    n_features = validate(estimator, example_of(X), reset=True).shape[1]
    columns = {name: vars(estimator)[name] for name in _COLUMNS if hasattr(estimator, name)}
    client, labelled = client_or_none(client), not (isinstance(y, str) and y == UNLABELLED)
    X = in_whole_rows(X)
    blocks = blocks_of(X)
    beside = [
        [None] * len(blocks) if part is None else aligned(part, X, len(blocks), name)
        for name, part in (
            ("y", y if labelled else None),
            ("sample_weight", sample_weight),
            ("exposure", exposure),
        )
    ]
    blocks, n_samples = list(zip(blocks, *beside, strict=True)), None
    if protects_persons:
        # Proposition 60.
        chosen = choose_in_parts(groups, X, limit, estimator.random_state, client)
        blocks, n_samples = chosen.of(blocks, "X", "y"), chosen.n_persons
    if only is not None and len(only) != len(blocks):
        raise RuntimeError("a step gets other partitions than its pipeline has chosen rows of.")
    only = [None] * len(blocks) if only is None else only
    shards = _load(blocks, client, only, labelled, validate, columns)
    classes = None
    if labelled:
        classes = None if is_regressor(estimator) else _classes(estimator, shards)
        of_rows = prepared(estimator, classes, sample_weight)
        shards = shards.kept(_prepared, of_rows, instead=True)
    return RemoteTable(shards, n_features, classes, n_samples, only[0] is not None)


def _classes(estimator, shards):
    """Return the labels that are declared, or those that occur."""
    declared = estimator.classes
    return labels_in(
        None if declared is not None else np.concatenate(shards.each(_labels)), declared
    )


def _check(estimator, y):
    if not getattr(estimator, "_reads_collections", False):
        raise TypeError(
            f"{type(estimator).__name__} is for tables in memory: pass X.compute() if it fits, or use "
            "DPBayesianLogisticRegression, which reads Dask collections."
        )
    if y is None:
        raise ValueError(
            "y is None, but a fit needs labels or responses: pass a column of the collection."
        )


def _load(blocks, client, only, *how):
    """Validate the partitions, and return those with rows as `Shards`."""
    import dask

    read, key = dask.delayed(_read_part, pure=False), secrets.token_bytes(32)
    read = [
        read(block, key, number, (one, *how))
        for number, (block, one) in enumerate(zip(blocks, only, strict=True))
    ]
    if client is None:
        rows = dask.compute(*read)
        return LocalShards(raised(rows), [_size_and_mark(part)[0] for part in rows]).without_empty()
    futures = client.compute(read)
    known = raised(client.gather(client.map(_size_and_mark, futures, pure=False)))
    return DaskShards(client, futures, *zip(*known, strict=True)).without_empty()


def _read_part(block, key, number, how):
    """Return the validated `Rows` of a partition as a `MarkedShard`, or the failure."""
    rows = do_one(_read, block, *how)
    mark = do_one(mark_of, rows, key, number)
    return mark if isinstance(mark, Failed) else MarkedShard(rows, mark)


@says_why
def _read(block, only, labelled, validate, columns):
    """Return the validated `Rows` of a partition, whose columns must be those the collection declares."""
    X, y, *beside = block
    check_consistent_length(X, y, *beside)
    if X.shape[0] == 0:
        return Rows(X, y, *beside)
    own = BaseEstimator()
    vars(own).update(columns)
    if not labelled:
        return Rows(chosen_rows(validate(own, X, reset=False), only))
    refuse_columns_in_other_order(
        X=X, y=y, **dict(zip(("sample_weight", "exposure"), beside, strict=True))
    )
    X, y = validate(own, X, y, reset=False)
    return Rows(X, y, *beside)


def _size_and_mark(part):
    return part if isinstance(part, Failed) else (part.target.X.shape[0], part.mark)


def _labels(rows):
    return np.unique(rows.labels)


@says_why
def _prepared(rows, prepare):
    return prepare(rows)
