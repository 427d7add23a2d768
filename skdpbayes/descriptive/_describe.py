"""A description of a table: columns are read, summed in their groups, and released once.

    columns -> codes and numbers -> charge -> exact sums of integers -> sums + N(0, sigma^2 I) -> estimates

All sums are one vector, to which a row adds its own ``f`` (see `_plan`), and a person with several rows the
mean of theirs. Errors of validation come before the charge, and quote no cell.
"""

from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from numbers import Integral, Real
from types import SimpleNamespace

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._missing import is_pandas_na, is_scalar_nan

from .._arguments import Interval
from .._data.collections import refuse_other_order
from .._data.columns import (
    column_cells,
    column_of,
    column_precision,
    in_precision,
    refuse_other_types,
    refuse_rounded_labels,
)
from .._data.partitions import in_memory
from .._data.privacy_units import count_persons, number_persons
from .._errors import column_names, doubles, reraise_if_safe, sanitize_errors, to_native
from .._typing import MatrixLike, RandomStateLike, Relation
from ..exceptions import PrivacyWarning
from ..metrics._base import COLUMN, PERSON_UNIT, score_function, weights_of
from ..privacy.charge import charge
from ..privacy.deferred_warnings import warn
from ..privacy.losses import between_persons
from ..random import private_generator
from ..samplers.noise import release_vector
from ._description import Description
from ._plan import MOST_DESCRIBED_ROWS, make_layout, middle_and_half, plan_layout


@score_function(
    table=COLUMN,
    bounds=[Mapping, None],
    categories=[Mapping, None],
    by=COLUMN,
    bins=[Interval(Integral, 1, None, closed="left"), "array-like", Mapping, None],
    level=[Interval(Real, 0, 1, closed="neither")],
)
def dp_describe(
    table: MatrixLike,
    *,
    bounds: Mapping[Hashable, tuple[float, float]] | None = None,
    categories: Mapping[Hashable, ArrayLike] | None = None,
    by: Hashable | None = None,
    bins: int | Sequence[float] | Mapping[Hashable, int | Sequence[float]] | None = None,
    epsilon: float,
    delta: float | None = None,
    neighboring_relation: Relation = "replace_one",
    groups: ArrayLike | None = None,
    level: float = 0.9,
    random_state: RandomStateLike = None,
) -> Description:
    """Describe a table, also by group: counts, means, deviations, shares and histograms, with noise.

    All numbers of a table of baseline characteristics are released at once, within one budget. What is public
    has to be given: bounds of numbers, lists of categories, groups. Nothing of it is read off the rows.

    Parameters
    ----------
    table : DataFrame, dict of columns, or array of shape (n_samples, n_columns)
        The columns to describe, of pandas, polars, Arrow or Dask, which is computed. Columns of an array are
        numbered from 0.
    bounds : dict of {column: (low, high)}, default=None
        Public bounds of numbers, to which values are clipped, in their units. The noise on a mean is
        proportional to ``high - low``.
    categories : dict of {column: list}, default=None
        Public lists of all labels of the other columns. Values that are not listed are counted as "(other)".
    by : column, default=None
        One of ``categories``, in whose groups everything is described as well. Rows whose group is missing or
        not listed are left out, as by ``groupby`` of pandas, and "overall" are the groups together.
    bins : int, list or dict of {column: int or list}, default=None
        Histograms of numbers: a number of bins of equal width between the bounds, or a list of edges from one
        bound to the other; for all columns with bounds, or by column. A bin contains its lower edge, and the
        last one both.
    epsilon : float
        Privacy budget of the description; ``inf`` adds no noise.
    delta : float, default=None
        Delta of the budget. None is ``min(1e-5, 1 / (10 n_samples))``, of the number of rows, or persons.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Whether the number of rows is public or private.
    groups : array-like of shape (n_samples,), default=None
        The person each row belongs to. The description then protects persons, who may have any number of
        rows, and counts persons: all rows of a person count for one.
    level : float, default=0.9
        Confidence level of the intervals.
    random_state : None, int, RandomState instance or Generator, default=None
        None uses cryptographic randomness; a known or repeated seed voids the guarantee.

    Returns
    -------
    description : Description
        ``table_``, a data frame with a row for each number, its interval beside it; it prints as a table of
        baseline characteristics.

    Raises
    ------
    ValueError, TypeError
        If a column has neither bounds nor categories, or if an argument is invalid. Nothing is spent.
    BudgetExceededError
        If an active `PrivacyLedger` does not allow the cost. Nothing is spent.

    Notes
    -----
    Intervals of means and shares are for the population that rows are drawn from, and cover sampling and
    noise. Those of counts are for the table itself. Deviations have none. Missing values have a share of
    their own, and are in no other statistic. A mean or share is nan where noise hides how many rows it is of,
    and a deviation where noise hides the variance.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.descriptive import dp_describe
    >>> rng = np.random.default_rng(0)
    >>> arm = rng.choice(["drug", "placebo"], 5000)
    >>> table = {"age": rng.normal(55.0, 10.0, 5000), "sex": rng.choice(["f", "m"], 5000), "arm": arm}
    >>> description = dp_describe(
    ...     table,
    ...     bounds={"age": (18, 90)},
    ...     categories={"sex": ["f", "m"], "arm": ["drug", "placebo"]},
    ...     by="arm",
    ...     epsilon=1.0,
    ...     random_state=0,
    ... )
    >>> mean = description.cell("mean", "age", group="placebo")
    >>> 54.0 < mean.low < mean.estimate < mean.high < 56.0
    True
    >>> round(description.spent_epsilon_, 6)
    1.0
    """
    table = to_native(table, "table")
    names = _names(table)
    layout = make_layout(names, bounds, categories, by, bins, neighboring_relation)
    listed: dict = {block.name: block.levels or None for block in layout.blocks}
    listed[by] = layout.levels or None
    types = _types(table)
    refuse_other_types([listed.get(name) for name in names], types, "categories")
    *columns, groups = in_memory(*(_column(table, name) for name in names), groups)
    first = {f"column {names[0]!r}": columns[0]}
    columns = dict(zip(names, columns, strict=True))
    for name, column in columns.items():
        refuse_other_order(f"column {name!r}", column, **first)
    codes = _codes(layout, types, columns)
    n_rows, *others = {len(code) for code in codes.values()}
    if others:
        raise ValueError("columns of the table must have the same number of rows.")
    if n_rows == 0 and neighboring_relation == "replace_one":
        raise ValueError("the table has no rows: there is nothing to describe.")
    persons = None
    if groups is not None:
        persons = number_persons(groups, n_rows, **first)
    size = n_rows if persons is None else count_persons(persons)
    if size > MOST_DESCRIBED_ROWS:
        raise ValueError(f"the table has more than {MOST_DESCRIBED_ROWS:,} rows.")
    relation = neighboring_relation if persons is None else between_persons(neighboring_relation)
    plan = plan_layout(layout, size, epsilon, delta, relation)
    generator = private_generator(random_state)
    for text in plan.warnings:
        warn(f"{plan.name}: {text}", PrivacyWarning)
    charge(plan).close("completed")  # The release itself takes no time.
    weights = np.full(n_rows, PERSON_UNIT) if persons is None else weights_of(persons)
    sums = exact_sums(layout, codes, weights)
    released = _release(layout, sums, plan, generator)
    description = Description(layout, plan, released, level, random_state is not None)
    for text in description.warnings:
        warn(text, PrivacyWarning)
    return description


def _release(layout, sums, plan, generator):
    """The sums in rows, with noise, of shape (n_groups, width); nan where the number of rows is public."""
    first = 0 if layout.is_counted else 1
    values = (layout.scales * (sums / PERSON_UNIT))[:, first:].ravel()
    if plan.budget.is_private:
        # Proposition 80.
        values = release_vector(values, plan.noise_scale, generator, plan.cost.mu)
    released = np.full(sums.shape, np.nan)
    released[:, first:] = values.reshape(len(sums), -1)
    return released


def exact_sums(layout, codes, weights):
    """The sums of all cells in integers, of shape (n_groups, width), where a row counts as its weight.

    Parameters
    ----------
    layout : TableLayout
    codes : dict of {column: ndarray of shape (n_samples,)}
        Numbers in [-1, 1] or nan, and places of levels.
    weights : ndarray of shape (n_samples,) of int64
        Not negative; those of a person add up to a unit.
    """
    sums = np.zeros((layout.n_groups, layout.width), dtype=np.int64)
    group = np.zeros(weights.size, dtype=np.int64)
    if layout.by is not None:
        group = codes[layout.by]
        kept = group < layout.n_groups
        group, weights = group[kept], weights[kept]
        codes = {name: code[kept] for name, code in codes.items()}
    np.add.at(sums, (group, np.zeros_like(group)), weights)
    for block in layout.blocks:
        code = codes[block.name]
        if block.bounds is None:
            np.add.at(sums, (group, block.start + code), weights)
            continue
        known = ~np.isnan(code)
        np.add.at(sums, (group[~known], block.missing), weights[~known])
        number, its_group, weight = code[known], group[known], weights[known]
        # Squares are rounded up, so that ``(z, z^2)`` is on its parabola or above, as means of persons are.
        part = np.trunc(weight * number).astype(np.int64)
        square = -(-(part**2) // np.maximum(weight, 1))
        np.add.at(sums, (its_group, block.start), part)
        np.add.at(sums, (its_group, block.start + 1), 2 * square - weight)
        if block.edges is not None:
            bins = np.searchsorted(scaled(block.edges, block.bounds)[1:-1], number, side="right")
            np.add.at(sums, (its_group, block.start + 3 + bins), weight)
    return sums


def scaled(numbers, bounds):
    """Numbers in units of half their range, from its middle, clipped to [-1, 1]."""
    middle, half = middle_and_half(bounds)
    return np.clip((np.clip(numbers, *bounds) - middle) / half, -1.0, 1.0)


def _names(table):
    """The names of the columns of a table."""
    names = list(table) if isinstance(table, Mapping) else column_names(table)
    if names is None:
        shape = getattr(table, "shape", None)
        if shape is None or len(shape) != 2 or hasattr(table, "toarray"):
            raise TypeError(
                "table must be a data frame, a dict of columns, or a dense array with rows and columns, and "
                f"is a {type(table).__name__}: of a single column pass {{'name': column}}."
            )
        names = list(range(shape[1]))
    twice = sorted({str(name) for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"columns {', '.join(twice)} are in the table twice: rename them.")
    if not names:
        raise ValueError("table has no columns.")
    return names


def _column(table, name):
    if isinstance(table, Mapping) or column_names(table) is not None:
        return table[name]
    return table[:, name]


def _types(table):
    """An object that has the types of columns, as data frames do, and a dict does not."""
    if not isinstance(table, Mapping):
        return table
    dtypes = [getattr(column, "dtype", None) for column in table.values()]
    return SimpleNamespace(columns=list(table), dtypes=dtypes)


def _codes(layout, types, columns):
    """Numbers in [-1, 1], nan where they are missing, and places of levels, by column."""
    names = list(columns)
    codes = {}
    for block in layout.blocks:
        column = columns[block.name]
        if block.bounds is not None:
            codes[block.name] = scaled(_numbers(column, block.name), block.bounds)
        else:
            precision = column_precision(types, names.index(block.name))
            codes[block.name] = _places(column, block.name, block.levels, precision)
    if layout.by is not None:
        precision = column_precision(types, names.index(layout.by))
        codes[layout.by] = _places(columns[layout.by], layout.by, layout.levels, precision)
    return codes


def _is_missing(cell):
    is_none = cell is None or is_scalar_nan(cell) or is_pandas_na(cell)
    return is_none or type(cell).__name__ == "NaTType"


def _numbers(column, name):
    """A column of numbers as doubles, nan where it has none."""
    text = (
        f"column {name!r} has bounds, and must hold numbers: give categories of a column of text, and turn "
        "other columns into numbers, with pandas.to_numeric(column, errors='coerce')."
    )
    values = column_of(column, f"column {name!r}")
    if values.dtype == object:
        # Others might be turned into numbers with a warning, such as complex ones.
        held = [isinstance(cell, Real | np.bool_ | Decimal) or _is_missing(cell) for cell in values]
        if not all(held):
            raise ValueError(text)
    return sanitize_errors(_doubles, values, on_error=reraise_if_safe(text))


def _doubles(values):
    if values.dtype == object:
        values = np.where([_is_missing(cell) for cell in values], np.nan, values)
    return doubles(values)


def _places(column, name, levels, precision):
    """The place of every cell's level in a list; the place after it is of others, and the next of missing."""
    values = column_of(column, f"column {name!r}")
    refuse_rounded_labels(np.asarray(levels), values, f"column {name!r}")
    place = {in_precision(level, precision): k for k, level in enumerate(levels)}
    n_levels = len(levels)

    def place_of(cell):
        try:
            listed = place.get(cell)
        except TypeError:  # Of cells that have no hash.
            return n_levels
        return n_levels + _is_missing(cell) if listed is None else listed

    cells = column_cells(
        column if hasattr(column, "to_pylist") or hasattr(column, "to_list") else values
    )
    on_error = reraise_if_safe(f"column {name!r} must hold labels, which can be compared.")
    places = sanitize_errors(list, map(place_of, cells), on_error=on_error)
    return np.array(places, dtype=np.int64)
