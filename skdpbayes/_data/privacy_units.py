"""At most ``k`` rows of each person, chosen at random.

    kept = {i : i is among the first k rows of its person in a random order of all rows}
    firsts = {i : i is the first}, of which quantiles are taken

The rows kept of a person are a uniformly random choice from that person's rows, whatever the rows of others.
"""

import hashlib
import secrets
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import _safe_indexing, check_consistent_length
from sklearn.utils._missing import is_pandas_na

from .._errors import reraise_if_safe, sanitize_errors, to_native
from ..exceptions import ChangedRowsError
from ..random import separate_generator
from .collections import example_of, is_collection, refuse_other_order
from .partitions import (
    Failed,
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

NO_ORDER = (
    "groups holds labels that have no order, such as both numbers and text: make them one kind, e.g. by "
    "groups = np.asarray(groups).astype(str)."
)
# Propositions 54 and 60 hold for every order of a person's rows that others do not decide. In a context,
# since an audit replays whatever is fitted, also pipelines and searches.
_in_order: ContextVar[bool] = ContextVar("in_order", default=False)
_NOT_COMPARED = "groups must be a column of labels, which can be compared."


def check_groups(groups, max_rows, n_samples, **beside):
    """The index of every row's person, or None if rows are protected.

    Parameters
    ----------
    groups : array-like of shape (n_samples,) or None
    max_rows : int or None
    n_samples : int
    **beside
        As for `number_persons`.

    Raises
    ------
    ValueError
        If only one of ``groups`` and ``max_rows`` is given, if a row has no group, or if rows are in another
        order. Errors quote no group.
    """
    return number_persons(groups, n_samples, **beside) if has_persons(groups, max_rows) else None


def has_persons(groups, max_rows):
    """Whether persons are protected; raises a ValueError if only one of two arguments is given."""
    if max_rows is None:
        if groups is not None:
            raise ValueError(
                "groups were given, but max_rows_per_group is None: choose how many rows of a person may "
                "count, a public number, e.g. max_rows_per_group=5 (in a private pipeline, of the pipeline "
                "and not of its steps); or leave out groups to protect rows."
            )
        return False
    if groups is None:
        raise ValueError(
            f"max_rows_per_group={max_rows} needs to know the person of each row: pass "
            "fit(X, y, groups=...), with one label per row; or set max_rows_per_group=None."
        )
    return True


def number_persons(groups, n_samples, **beside):
    """The index of every row's person, from 0.

    Parameters
    ----------
    groups : array-like of shape (n_samples,)
    n_samples : int
    **beside : table or column
        What ``groups`` belongs to, by its name.

    Raises
    ------
    ValueError
        If a row has no group, or if the indices of ``groups`` and of what it belongs to differ. Errors quote
        no group and no index.
    """
    refuse_other_order("groups", groups, **beside)
    return _numbered(labels_of_rows(to_native(groups, "groups"), n_samples))


def count_persons(persons):
    """Number of persons there are, given the index of every row's."""
    return int(persons.max()) + 1 if persons.size else 0


def labels_of_rows(groups, n_samples):
    """Groups as an array; raises an error if they are no column, or have missing values."""
    if isinstance(groups, str):
        raise TypeError(
            "groups is text, but must be a column with one label for each row: pass the column itself, e.g. "
            "groups=df['person']."
        )
    if not (hasattr(groups, "dtype") or hasattr(groups, "columns")):
        # As objects, since a single string would turn all entries of a list into strings, NaN into "nan".
        groups = np.asarray(groups, dtype=object)
    groups = sanitize_errors(
        np.asarray, groups, on_error=reraise_if_safe("groups must be a column of labels.")
    )
    if groups.shape not in ((n_samples,), (n_samples, 1)):
        raise ValueError(
            f"groups is of shape {groups.shape} and must be ({n_samples},): one label for each row."
        )
    groups = groups.ravel().astype(object if groups.dtype.kind == "T" else groups.dtype)
    on_error = reraise_if_safe(_NOT_COMPARED)
    if sanitize_errors(_is_missing, groups, on_error=on_error):
        raise ValueError(
            "groups has missing values: give each row of an unknown person a group of its own, or leave them "
            "out."
        )
    return groups


def _is_missing(labels):
    if labels.dtype != object:
        return (labels != labels).any()
    return any(label is None or is_pandas_na(label) or bool(label != label) for label in labels)


def _numbered(groups):
    try:
        labels, numbers = np.unique(groups, return_inverse=True)
        # If labels are only partially ordered, such as sets, sorting may not put equal ones side by side.
        if groups.dtype != object or len(set(labels)) == len(labels):
            return numbers
    except Exception:  # Of NumPy's, or of labels of a class of their own.
        pass
    # Outside the handler, because the caught error may hold a label.
    raise ValueError(NO_ORDER)


@contextmanager
def rows_in_order():
    """Keep rows in their order, so that a person who comes or goes changes no choice of another's rows."""
    before = _in_order.set(True)
    try:
        yield
    finally:
        _in_order.reset(before)


def choose_rows(persons, max_rows, random_state):
    """The indices of the rows that are kept, in ascending order, as `choose_with_firsts`."""
    return choose_with_firsts(persons, max_rows, random_state)[0]  # Proposition 60.


def choose_with_firsts(persons, max_rows, random_state):
    """The indices of the rows that are kept, in ascending order, and which of these are firsts.

    Parameters
    ----------
    persons : ndarray of shape (n_samples,)
        The index of every row's person.
    max_rows : int
    random_state
        As for `separate_generator`.

    Returns
    -------
    kept : ndarray of shape (n_kept,)
    is_first : ndarray of shape (n_kept,) of bool
        Whether a row is the first of its person in the random order: one of each is.
    """
    generator = separate_generator(random_state, 1)
    # Proposition 60.
    order = np.arange(persons.size) if _in_order.get() else generator.permutation(persons.size)
    order = order[np.argsort(persons[order], kind="stable")]
    sorted_persons = persons[order]
    first = np.searchsorted(sorted_persons, sorted_persons, side="left")
    places = np.empty_like(order)
    places[order] = np.arange(order.size) - first
    kept = np.flatnonzero(places < max_rows)
    return kept, places[kept] == 0


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
        import dask

        take = dask.delayed(_take, pure=False)
        parts = zip(blocks, self.blocks, self.marks, self.kept, strict=True)
        return [
            take(list(block), names, *columns, self.key, p)
            for p, (block, *columns) in enumerate(parts)
        ]

    def kept_rows(self, part, X, name):
        """A collection of the kept rows of a table, or of a column that belongs to it."""
        if part is None:
            return None
        import dask

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
    import dask

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
    persons = _numbered_codes(np.concatenate(codes))
    kept = np.zeros(persons.size, bool)
    chosen, is_first = choose_with_firsts(persons, max_rows, random_state)  # Proposition 60.
    kept[chosen] = True
    firsts = np.split(is_first, np.searchsorted(chosen, sizes[:-1]))
    parts = [np.packbits(part) for part in np.split(kept, sizes[:-1])]
    return ChosenRows(count_persons(persons), blocks, list(marks), parts, key, firsts)


def _numbered_codes(codes):
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
