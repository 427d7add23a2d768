"""At most ``k`` rows of each person, chosen at random.

    kept = {i : i is among the first k rows of its person in a random order of all rows}
    firsts = {i : i is the first}, of which quantiles are taken

The rows kept of a person are a uniformly random choice from that person's rows, whatever the rows of others.
"""

from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from sklearn.utils._missing import is_pandas_na

from .._errors import reraise_if_safe, sanitize_errors, to_native
from ..random import separate_generator
from .collections import refuse_other_order

NO_ORDER = (
    "groups holds labels that have no order, such as both numbers and text: make them one kind, e.g. by "
    "groups = np.asarray(groups).astype(str)."
)
# Propositions 54 and 60 hold for every order of a person's rows that others do not decide.
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
