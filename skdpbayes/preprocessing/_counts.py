"""What the parts of a table count for quantiles of its columns."""

from .._mechanisms.quantiles import count_candidates


def count_column(rows, column, bounds):
    """Return the counts of a column of some `Rows`. **They are not private.**"""
    return count_candidates(rows.X[:, column], bounds)
