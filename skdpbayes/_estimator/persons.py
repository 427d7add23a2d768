"""At most ``k`` rows of each person, chosen at random.

    kept = {i : i is among the first k rows of its person in a random order of all rows}

What is kept of a person is a uniformly random choice from that person's rows, whatever others have.
"""

import numpy as np
from sklearn.utils._missing import is_pandas_na

from ..random import separate_generator


def check_groups(groups, max_rows, n_samples):
    """Return the number of every row's person, or None where rows are protected.

    Parameters
    ----------
    groups : array-like of shape (n_samples,) or None
    max_rows : int or None
    n_samples : int

    Raises
    ------
    ValueError
        If one is given without the other, or if a row has no group. No group is quoted.
    """
    if max_rows is None:
        if groups is not None:
            raise ValueError(
                "groups were given, and max_rows_per_group=None: choose how many rows of a person may count, "
                "a public number, e.g. max_rows_per_group=5; or leave groups out to protect rows."
            )
        return None
    if groups is None:
        raise ValueError(
            f"max_rows_per_group={max_rows} needs to know whose rows they are: pass "
            "fit(X, y, groups=...), one label a row; or set max_rows_per_group=None."
        )
    return _numbered(_column(groups, n_samples))


def _column(groups, n_samples):
    if not (hasattr(groups, "dtype") or hasattr(groups, "columns")):
        # As objects: one text would turn all entries of a list into texts, NaN into "nan".
        groups = np.asarray(groups, dtype=object)
    groups = np.asarray(groups)
    if groups.shape not in ((n_samples,), (n_samples, 1)):
        raise ValueError(
            f"groups is of shape {groups.shape}, and must be ({n_samples},): one label for each row."
        )
    return groups.ravel().astype(object if groups.dtype.kind == "T" else groups.dtype)


def _is_missing(labels):
    if labels.dtype != object:
        return (labels != labels).any()
    return any(one is None or is_pandas_na(one) or bool(one != one) for one in labels)


def _numbered(groups):
    if _is_missing(groups):
        raise ValueError(
            "groups has missing values: give rows whose person is not known a group each, or leave them out."
        )
    try:
        labels, numbers = np.unique(groups, return_inverse=True)
        # Of what is only partially ordered, such as sets, equal labels may not come next to each other.
        if groups.dtype != object or len(set(labels)) == len(labels):
            return numbers
    except TypeError:
        pass
    # Outside the handler: that error names kinds of values, and is no help.
    raise ValueError(
        "groups holds labels that have no order, such as numbers and text together: make them one kind, e.g. "
        "by groups = np.asarray(groups).astype(str)."
    )


def choose_rows(persons, max_rows, random_state):
    """Return the numbers of the rows that are kept, ascending.

    Parameters
    ----------
    persons : ndarray of shape (n_samples,)
        The number of every row's person.
    max_rows : int
    random_state
        As for `separate_generator`.
    """
    order = separate_generator(random_state, 1).permutation(persons.size)
    order = order[np.argsort(persons[order], kind="stable")]
    sorted_persons = persons[order]
    first = np.searchsorted(sorted_persons, sorted_persons, side="left")
    return np.sort(order[np.arange(order.size) - first < max_rows])
