"""At most ``k`` rows of each person in a collection: the client chooses, and rows stay where they are.

    labels of a partition -> keyed marks of persons -> the client, which chooses -> the partition

A person may have rows in several partitions. The client holds marks of 16 bytes for each row, and some 65
more while it chooses. Marks are keyed for each fit: to those who do not know the key they say which rows have
one person, and not whom. A partition that is computed again for its rows must have the labels that it had
when rows were chosen.
"""

import hashlib
import secrets
from typing import Any, NamedTuple

import dask
import numpy as np
from sklearn.utils import _safe_indexing, check_consistent_length

from ..._inputs import plain, unless_harmless, unquoted
from ...exceptions import ChangedRowsError
from ..collections import example_of, is_collection
from ..order import refuse_other_order
from ..persons import NO_ORDER, choose_with_firsts, count_persons, labels_of_rows
from .blocks import collection_of, unless_failed
from .marks import mark_of
from .partitions import aligned, blocks_of, client_or_none, in_whole_rows
from .shards import Failed, do_one, raised, says_why

_KINDS = "groups of Dask collections must be text or whole numbers: take groups.astype(str), for example."


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
        """Return lists of the kept rows, or failures, for what lies side by side in each partition.

        The first of these have names, and indices that must not differ from those of the labels.
        """
        take = dask.delayed(_take, pure=False)
        own = zip(blocks, self.blocks, self.marks, self.kept, strict=True)
        return [take(list(block), names, *one, self.key, p) for p, (block, *one) in enumerate(own)]

    def of_part(self, part, X, name):
        """Return a collection of the kept rows of a table, or of a column that belongs to it."""
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
    """Return the `ChosenRows` of a collection, chosen as `choose_with_firsts` does in memory.

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
        groups = plain(groups, "groups")
        groups = labels_of_rows(groups, len(groups))
    blocks = aligned(groups, X, len(blocks_of(X)), "groups")
    read = dask.delayed(_read, pure=False)
    read = [read(block, key, number) for number, block in enumerate(blocks)]
    found = dask.compute(*read) if client is None else client.gather(client.compute(read))
    codes, kinds, marks = zip(*raised(found), strict=True)
    if len(set().union(*kinds)) > 1:
        raise ValueError(NO_ORDER)
    sizes = np.cumsum([len(one) for one in codes])
    persons = _numbered(np.concatenate(codes))
    kept = np.zeros(persons.size, bool)
    chosen, is_first = choose_with_firsts(persons, max_rows, random_state)  # Proposition 60.
    kept[chosen] = True
    firsts = np.split(is_first, np.searchsorted(chosen, sizes[:-1]))
    parts = [np.packbits(part) for part in np.split(kept, sizes[:-1])]
    return ChosenRows(count_persons(persons), blocks, list(marks), parts, key, firsts)


def _numbered(codes):
    """Return the numbers of persons, from 0, given an array of shape (n_rows, 2) with equal rows for one."""
    order = np.lexsort(codes.T)
    ordered = codes[order]
    is_new = (ordered[1:] != ordered[:-1]).any(axis=1)
    numbers = np.empty(len(codes), np.intp)
    numbers[order[:1]] = 0
    numbers[order[1:]] = np.cumsum(is_new)
    return numbers


# Run by workers


def _read(groups, key, number):
    """Return the marks of a partition's persons, the kinds of labels, and the mark of all; or a failure."""
    return do_one(_marked, groups, key, number)


@says_why
def _marked(groups, key, number):
    labels = _labels(groups)
    told = unless_harmless(_KINDS)
    codes, kinds = unquoted(_codes, labels, key, told=told)
    return codes, kinds, mark_of((labels,), key, number)


def _labels(groups):
    groups = plain(groups, "groups")
    return labels_of_rows(groups, len(groups))


def _codes(labels, key):
    """Return 16 bytes for each label, as two numbers, and the kinds of labels."""
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
    """Return bytes that are the same for equal labels, whatever types partitions have.

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
    """Return the kept rows of what lies side by side in a partition, as a list, or the failure."""
    failed = [one for one in (*rows, groups) if isinstance(one, Failed)]
    return failed[0] if failed else do_one(_taken, rows, names, groups, mark, kept, key, number)


@says_why
def _taken(rows, names, groups, mark, kept, key, number):
    check_consistent_length(*rows, groups)
    refuse_other_order("groups", groups, **dict(zip(names, rows, strict=False)))
    if mark_of((_labels(groups),), key, number) != mark:
        raise ChangedRowsError(
            "a partition was computed again and came with other groups, so that more rows of a person might "
            "have counted: sources of a fit have to be deterministic. Write the rows to files first."
        )
    kept = np.flatnonzero(np.unpackbits(kept, count=len(groups)))
    told = unless_harmless("rows must be in tables and columns of which some can be taken.")
    return [
        None if part is None else unquoted(_safe_indexing, part, kept, told=told) for part in rows
    ]


def _only(rows):
    return unless_failed(rows)[0]
