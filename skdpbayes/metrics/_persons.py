"""Scores of persons who may have several rows: all rows of a person count for one.

    u_p = (1 / k_p) sum of u_i over the k_p rows of person p,      sum_p u_p  in the place of  sum_i u_i

A person moves a sum as far as a row would, whatever ``k_p`` is: means of numbers in [0, 1] are in [0, 1]. To
a table of counts each person adds parts of a whole, integers that add up to ``UNIT``. Where pairs of rows are
compared, one row of each person is drawn instead. See Proposition 44.
"""

import numpy as np

from .._tables.blockwise import in_memory
from .._tables.order import refuse_columns_in_other_order
from .._tables.persons import choose_rows, count_persons, number_persons
from ..privacy.loss_distributions import between_persons

# What a person adds to a table of counts, in all.
UNIT = 2**24


def columns_and_groups(groups, **columns):
    """Return columns, and the groups of their rows, in memory.

    Raises
    ------
    ValueError
        If one of them is in another order than one before it.
    """
    values = in_memory(*columns.values(), groups)
    refuse_columns_in_other_order(**dict(zip((*columns, "groups"), values, strict=True)))
    return values


def persons_of(groups, n_rows):
    """Return the index of every row's person, or None if rows are protected."""
    return None if groups is None else number_persons(groups, n_rows)


def relation_of(neighboring_relation, persons):
    """Return what neighbouring tables differ in."""
    return neighboring_relation if persons is None else between_persons(neighboring_relation)


def size_of(n_rows, persons):
    """Return the number of rows, or of persons."""
    return n_rows if persons is None else count_persons(persons)


def means_of(shares, persons):
    """Return the mean of each person's numbers, which are in [0, 1]; of rows, the numbers themselves."""
    if persons is None:
        return shares
    # Each person's sum is formed from its own rows, in their order.
    return np.clip(np.bincount(persons, weights=shares) / np.bincount(persons), 0.0, 1.0)


def weights_of(persons):
    """Return an integer for every row: equal ones for a person's rows, up to 1, that add up to ``UNIT``."""
    n_rows = np.bincount(persons)
    order = np.argsort(persons, kind="stable")
    place = np.empty(persons.size, dtype=np.int64)
    place[order] = np.arange(persons.size) - np.repeat(np.cumsum(n_rows) - n_rows, n_rows)
    each = n_rows[persons]
    return UNIT // each + (place < UNIT % each)


def one_row_each(persons, random_state, *columns):
    """Return columns, of one row of each person drawn at random; of rows, the columns themselves."""
    if persons is None:
        return columns
    kept = choose_rows(persons, 1, random_state)  # Proposition 60.
    return tuple(column[kept] for column in columns)
