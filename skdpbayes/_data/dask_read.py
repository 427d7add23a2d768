"""Reading Dask collections: rows are validated, labelled and chosen where the partitions are.

partitions of X, y, sample_weight -> Rows on the workers -> labels that occur, sizes, marks
"""

import hashlib
import secrets
from typing import Any, NamedTuple

import dask
import numpy as np
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils import _safe_indexing, check_consistent_length

from .._errors import reraise_if_safe, sanitize_errors, to_native
from ..exceptions import ChangedRowsError
from .collections import (
    example_of,
    is_collection,
    refuse_columns_in_other_order,
    refuse_other_order,
)
from .columns import labels_in
from .dask_partitions import (
    DaskShards,
    Failed,
    MarkedShard,
    aligned,
    blocks_of,
    client_or_none,
    collection_of,
    in_whole_rows,
    mark_of,
    raised,
    run_on_shard,
    unless_failed,
    with_sanitized_traceback,
)
from .privacy_units import NO_ORDER, choose_with_firsts, count_persons, has_persons, labels_of_rows
from .shards import LocalShards
from .table import UNLABELLED, Rows, Table, chosen_rows, prepared

# At most ``k`` rows of each person in a collection: the client chooses, and rows stay where they are.
#
#     labels of a partition -> keyed marks of persons -> the client, which chooses -> the partition
#
# A person may have rows in several partitions. The client holds marks of 16 bytes for each row, and
# some 65 more while it chooses. Marks are keyed for each fit: to those who do not know the key they
# say which rows have one person, and not whom. A partition that is computed again for its rows must
# have the labels that it had when rows were chosen.


_UNKNOWN_GROUPS = (
    "groups of Dask collections must be text or whole numbers: take groups.astype(str), for "
    "example."
)


class ChosenRows(NamedTuple):
    """The rows that are kept of a collection.

    Attributes
    ----------
    n_persons : int
    blocks : list
        The partitions of the labels.
    marks : list of bytes
        Of the labels.
    kept : list of ndarray of uint8
        Whether each row of a partition is kept, eight in a byte.
    key : bytes
        Of the marks.
    firsts : list of ndarray of bool
        Which of the kept rows of a partition are the first of their person.
    """

    n_persons: int
    blocks: list[Any]
    marks: list[bytes]
    kept: list[np.ndarray]
    key: bytes
    firsts: list[np.ndarray]

    def of(self, blocks, *names):
        """Lists of the kept rows, or failures, for what lies side by side in each partition.

        The first of these have names, and indices that must not differ from those of the labels.
        """
        take = dask.delayed(_take, pure=False)
        parts = zip(blocks, self.blocks, self.marks, self.kept, strict=True)
        return [
            take(list(block), names, *columns, self.key, p)
            for p, (block, *columns) in enumerate(parts)
        ]

    def of_part(self, part, X, name):
        """A collection of the kept rows of a table, or of a column that belongs to it."""
        if part is None:
            return None
        X, none = in_whole_rows(X), example_of(part)
        blocks = blocks_of(X) if name == "X" else aligned(part, X, len(self.blocks), name)
        only, none = (
            dask.delayed(_only, pure=True),
            none if hasattr(none, "iloc") else np.asarray(none),
        )
        kept = self.of([(block,) for block in blocks], name)
        return collection_of([only(rows) for rows in kept], none[:0])


def choose_in_parts(groups, X, max_rows, random_state, client):
    """The `ChosenRows` of a collection, chosen as `choose_with_firsts` does in memory.

    Parameters
    ----------
    groups : collection or array-like
        The person of each row, in the partitions of ``X``.
    X : dask.array.Array or dask.dataframe.DataFrame
    max_rows : int
    random_state
        As for `choose_with_firsts`.
    client : distributed.Client or None

    Raises
    ------
    ValueError
        If a row has no group, or groups are neither text nor whole numbers. Errors quote no group.
    """
    key, client, X = secrets.token_bytes(32), client_or_none(client), in_whole_rows(X)
    if not is_collection(groups):  # Its parts might hide what is wrong with the whole.
        groups = to_native(groups, "groups")
        groups = labels_of_rows(groups, len(groups))
    blocks = aligned(groups, X, len(blocks_of(X)), "groups")
    read = dask.delayed(_mark_partition, pure=False)
    read = [read(block, key, number) for number, block in enumerate(blocks)]
    results = dask.compute(*read) if client is None else client.gather(client.compute(read))
    codes, kinds, marks = zip(*raised(results), strict=True)
    if len(set().union(*kinds)) > 1:
        raise ValueError(NO_ORDER)
    sizes = np.cumsum([len(part_codes) for part_codes in codes])
    persons = _numbered(np.concatenate(codes))
    kept = np.zeros(persons.size, bool)
    chosen, is_first = choose_with_firsts(persons, max_rows, random_state)  # Proposition 60.
    kept[chosen] = True
    firsts = np.split(is_first, np.searchsorted(chosen, sizes[:-1]))
    parts = [np.packbits(part) for part in np.split(kept, sizes[:-1])]
    return ChosenRows(count_persons(persons), blocks, list(marks), parts, key, firsts)


def _numbered(codes):
    """The numbers of persons, from 0, given an array of shape (n_rows, 2) with equal rows for one."""
    order = np.lexsort(codes.T)
    ordered = codes[order]
    is_new = (ordered[1:] != ordered[:-1]).any(axis=1)
    numbers = np.empty(len(codes), np.intp)
    numbers[order[:1]] = 0
    numbers[order[1:]] = np.cumsum(is_new)
    return numbers


# Run by workers


def _mark_partition(groups, key, number):
    """The marks of a partition's persons, the kinds of labels, and the mark of all; or a failure."""
    return run_on_shard(_marked, groups, key, number)


@with_sanitized_traceback
def _marked(groups, key, number):
    labels = _group_labels(groups)
    on_error = reraise_if_safe(_UNKNOWN_GROUPS)
    codes, kinds = sanitize_errors(_codes, labels, key, on_error=on_error)
    return codes, kinds, mark_of((labels,), key, number)


def _group_labels(groups):
    groups = to_native(groups, "groups")
    return labels_of_rows(groups, len(groups))


def _codes(labels, key):
    """16 bytes for each label, as two numbers, and the kinds of labels."""
    if labels.dtype.kind in "mM":
        raise TypeError("dates, which some units turn into numbers")
    places: dict[Any, int] = {}
    numbers = [places.setdefault(label, len(places)) for label in labels.tolist()]
    # Beyond this, a float is the same for several whole numbers.
    digits = np.finfo(labels.dtype if labels.dtype.kind == "f" else float).nmant + 1
    texts = [_bytes_of(label, 2**digits) for label in places]
    digests = [hashlib.blake2b(text, digest_size=16, key=key).digest() for text in texts]
    table = np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)
    return table[np.array(numbers, np.intp)], {text[:1] for text in texts}


def _bytes_of(label, most):
    """Bytes that are the same for equal labels, whatever types partitions have.

    Floats are less than ``most``.
    """
    if isinstance(label, str):
        # Arrays of text know no zeros at the end.
        return b"t" + str.encode(label.rstrip("\0"), "utf-8", "surrogatepass")
    if isinstance(label, int | np.integer | np.bool_) or (
        isinstance(label, float | np.floating) and abs(label) < most and label == int(label)
    ):
        return b"n%d" % int(label)
    raise TypeError("neither text nor a whole number that is exact")


def _take(rows, names, groups, mark, kept, key, number):
    """The kept rows of what lies side by side in a partition, as a list, or the failure."""
    failed = [part for part in (*rows, groups) if isinstance(part, Failed)]
    return (
        failed[0] if failed else run_on_shard(_taken, rows, names, groups, mark, kept, key, number)
    )


@with_sanitized_traceback
def _taken(rows, names, groups, mark, kept, key, number):
    check_consistent_length(*rows, groups)
    refuse_other_order("groups", groups, **dict(zip(names, rows, strict=False)))
    if mark_of((_group_labels(groups),), key, number) != mark:
        raise ChangedRowsError(
            "a partition was computed again and came with other groups, so that more rows of a person might "
            "have counted: sources of a fit have to be deterministic. Write the rows to files first."
        )
    kept = np.flatnonzero(np.unpackbits(kept, count=len(groups)))
    on_error = reraise_if_safe("rows must be in tables and columns of which some can be taken.")
    return [
        None if part is None else sanitize_errors(_safe_indexing, part, kept, on_error=on_error)
        for part in rows
    ]


def _only(rows):
    return unless_failed(rows)[0]


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
        """The sum over shards of what a function of `Rows` computes, in integers."""
        return self.shards.count(function, *args)

    def target(self, make, remote):
        """Build the targets on the workers and return a remote handle to them."""
        # The rows from which targets are built are not needed any more.
        made = self.shards.map_shards(make, in_place=True)
        self.__exit__()
        self.shards = made.__enter__()
        return remote(made.address, sum(made.sizes))


def read_collection(estimator, X, y, sample_weight, exposure, groups, client, validate, only=None):
    """The `RemoteTable` of a collection; parameters are those of `read_table`."""
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
        shards = shards.map_shards(_prepared, of_rows, in_place=True)
    return RemoteTable(shards, n_features, classes, n_samples, only[0] is not None)


def _classes(estimator, shards):
    """The labels that are declared, or those that occur."""
    declared = estimator.classes
    return labels_in(
        None if declared is not None else np.concatenate(shards.each(_distinct_labels)), declared
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
        read(block, key, number, (block_rows, *how))
        for number, (block, block_rows) in enumerate(zip(blocks, only, strict=True))
    ]
    if client is None:
        rows = dask.compute(*read)
        return LocalShards(raised(rows), [_size_and_mark(part)[0] for part in rows]).without_empty()
    futures = client.compute(read)
    known = raised(client.gather(client.map(_size_and_mark, futures, pure=False)))
    return DaskShards(client, futures, *zip(*known, strict=True)).without_empty()


def _read_part(block, key, number, how):
    """The validated `Rows` of a partition as a `MarkedShard`, or the failure."""
    rows = run_on_shard(_read_partition, block, *how)
    mark = run_on_shard(mark_of, rows, key, number)
    return mark if isinstance(mark, Failed) else MarkedShard(rows, mark)


@with_sanitized_traceback
def _read_partition(block, only, labelled, validate, columns):
    """The validated `Rows` of a partition, whose columns must be those the collection declares."""
    X, y, *beside = block
    check_consistent_length(X, y, *beside)
    if X.shape[0] == 0:
        return Rows(X, y, *beside)
    reader = BaseEstimator()
    vars(reader).update(columns)
    if not labelled:
        return Rows(chosen_rows(validate(reader, X, reset=False), only))
    refuse_columns_in_other_order(
        X=X, y=y, **dict(zip(("sample_weight", "exposure"), beside, strict=True))
    )
    X, y = validate(reader, X, y, reset=False)
    return Rows(X, y, *beside)


def _size_and_mark(part):
    return part if isinstance(part, Failed) else (part.target.X.shape[0], part.mark)


def _distinct_labels(rows):
    return np.unique(rows.labels)


@with_sanitized_traceback
def _prepared(rows, prepare):
    return prepare(rows)
