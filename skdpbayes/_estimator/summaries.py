"""Tables of what draws say of parameters: moments, intervals, and probabilities of signs.

Everything here is post-processing of what was released.
"""

from __future__ import annotations

import numpy as np

from .._arguments import check_level


def interval_table(draws, interval, without, index, level):
    """A data frame; raises an ImportError without pandas.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n)
    interval : ndarray of shape (n, 2)
    without : ndarray of shape (n,)
        Deviations without privacy.
    index : sequence or pandas.Index
        Names of the rows.
    level : float
        Level of the intervals.
    """
    moments = _moments(draws)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip(1.0 - without / moments["sd"], 0.0, 1.0)
    return whole_table(
        {
            **moments,
            **dict(zip(names_of_ends(level), interval.T, strict=True)),
            "sd_without_privacy": without,
            "share_of_privacy": share,
        },
        index,
    )


def statement_table(draws, index, level):
    """A data frame with what draws say of coefficients; raises an ImportError without pandas.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n)
    index : sequence or pandas.Index
        Names of the rows.
    level : float
        Level of the intervals.
    """
    return whole_table({**_moments(draws), **_quantiles(draws, level)}, index)


def median_table(draws, index, level, null=0.0, moments=True):
    """A `statement_table` of any functions of coefficients, which leads with medians.

    Unlike a mean, the median of a bent function is the function of a median, and within every interval.

    Parameters
    ----------
    draws, index, level
        As for `statement_table`.
    null : float, default=0.0
        What quantities are compared with: the column of probabilities says how likely they are larger.
    moments : bool, default=True
        Whether means and deviations come last. Without, there are none.
    """
    columns = {"median": np.median(draws, axis=0), **_quantiles(draws, level, null)}
    return whole_table({**columns, **(_moments(draws) if moments else {})}, index)


def _moments(draws):
    return {"mean": draws.mean(axis=0), "sd": draws.std(axis=0)}


def _quantiles(draws, level, null=0.0):
    """The ends of intervals, and probabilities of being larger than ``null``."""
    check_level(level)
    interval = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    ends = dict(zip(names_of_ends(level), interval, strict=True))
    return {**ends, f"P(> {null:g})": (draws > null).mean(axis=0)}


def names_of_ends(level):
    """The percentages that the ends of an interval are called."""
    return [f"{50 * (1 + side * level):.10g}%" for side in (-1, 1)]


def whole_table(columns, index):
    """A data frame that prints all of its columns and rows; raises an ImportError without pandas."""
    required_pandas()
    from .untruncated_frame import UntruncatedDataFrame

    return UntruncatedDataFrame(columns, index=index)


def with_notes(table, notes):
    """A table of intervals, beneath which notes are printed."""
    table.attrs["notes"] = notes
    return table


def required_pandas():
    """The module pandas; raises an ImportError that says why it is needed."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "tables are data frames, which require pandas: pip install pandas"
        ) from error
    return pd


def append_intercept(columns, length):
    """The names of coefficients: those of their columns, and of a constant if there is one more."""
    names = [str(name) for name in columns]
    if length == len(names):
        return names
    return [*names, "intercept" if "intercept" not in names else "intercept (constant)"]


def coefficient_index(names, labels=None):
    """An index of names, by class if there are labels; an ImportError without pandas."""
    pd = required_pandas()
    if labels is None:
        return pd.Index(names, name="coefficient")
    return pd.MultiIndex.from_product([labels, names], names=["class", "coefficient"])
