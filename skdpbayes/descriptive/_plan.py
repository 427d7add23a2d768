"""The sums that describe a table, how far one row moves all of them together, and their noise.

    f(row) = (1;  of a number z, (2 z^2 - 1) / sqrt(2), 0, or 0, 0, 1 where it is missing;  of a label e_l)

in the cells of the row's group, with ``z`` in [-1, 1] the number in units of half its public range. Between
neighbours the sum of ``f`` moves by at most

    sqrt(1 + 3/2 numbers + categories)                                           (add_or_remove_one),
    sqrt(max(4 numbers + 2 categories, 2 (1 + 3/2 numbers + categories)))        (replace_one, groups)

where a histogram counts as one more category. The second sum of a number is for its deviation. Where rows
are replaced it costs nothing if there are two numbers, and neither does the count. See Proposition 80.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._arguments import check_sizes, is_number
from .._typing import Relation
from ..metrics._scores import checked_bounds
from ..privacy.budget import Budget, default_delta, too_large_delta
from ..privacy.cost import PrivacyCost
from ..privacy.losses import RELATIONS, between_persons, between_rows
from ..privacy.planned_release import UnitRelease
from ..samplers.noise import sensitivity_after_rounding

# Most cells of a description.
_MOST_CELLS = 10**6
# Most of a group, of which the noise of every two has a covariance.
_MOST_CELLS_OF_GROUP = 2_000
# What doubles may add to each cell between two tables: sums are integers, and exact as such, of units of
# 2^-24 rows. Of up to `MOST_DESCRIBED_ROWS` rows they are rounded by 2^-20 rows to become doubles, and once
# more to be scaled.
_CONVERSION_ERROR = 2.0**-18
# Largest table for which that is so.
MOST_DESCRIBED_ROWS = 2**33
# Noise that is more than this share of a number of rows is warned of.
MOST_NOISE_SHARE = 0.2
# Deviations of the noise up to which its lattice goes, which has 2^51 units of 2^-25 of them.
_LARGEST_SUM = 2.0**26
# The number of rows up to which sums are exact if it is private.
_EXACT_PRIVATE_ROWS = 2**22
# How values that are not listed are called.
OTHER_LABEL = "(other)"
# What groups together are called.
OVERALL = "overall"


class ColumnCells(NamedTuple):
    """The cells of a column, side by side in every group.

    Attributes
    ----------
    name : str or int
        The column.
    start : int
        Place of the first cell among those of a group, of which the number of rows is the first.
    bounds : (float, float) or None
        Of a number. Its first cells are the two sums, and the number of missing values.
    edges : ndarray or None
        Of the bins of a number's histogram, whose cells come next.
    levels : tuple
        Of a category. Its cells are the levels, those that are not listed, and those that are missing.
    """

    name: Any
    start: int
    bounds: tuple[float, float] | None = None
    edges: np.ndarray | None = None
    levels: tuple = ()

    @property
    def size(self) -> int:
        """Number of cells."""
        if self.bounds is None:
            return len(self.levels) + 2
        return 3 if self.edges is None else 2 + len(self.edges)

    @property
    def missing(self) -> int:
        """Place of the number of missing values."""
        return self.start + (2 if self.bounds is not None else len(self.levels) + 1)

    @property
    def partition(self) -> np.ndarray:
        """Places of cells that add up to the number of rows; there may be none."""
        skipped = 0 if self.bounds is None else 2
        if self.bounds is not None and self.edges is None:
            return np.arange(0)
        return np.arange(self.start + skipped, self.start + self.size)


def middle_and_half(bounds):
    """The middle of public bounds, and half of their distance, which is the unit of numbers."""
    low, high = bounds
    return low / 2.0 + high / 2.0, high / 2.0 - low / 2.0


class TableLayout(NamedTuple):
    """The cells of a description.

    Attributes
    ----------
    blocks : tuple of ColumnCells
    by : str, int or None
        The column of groups.
    levels : tuple
        The groups. Rows of others are in no cell, as for ``groupby`` of pandas.
    is_counted : bool
        Whether the number of rows is released, because it is not public.
    """

    blocks: tuple[ColumnCells, ...]
    by: Any
    levels: tuple
    is_counted: bool

    @property
    def n_groups(self) -> int:
        """Number of groups, 1 if there is no column of groups."""
        return 1 if self.by is None else len(self.levels)

    @property
    def width(self) -> int:
        """Number of cells of a group, the number of rows among them."""
        return 1 + sum(block.size for block in self.blocks)

    @property
    def n_released(self) -> int:
        """Number of cells that are released."""
        return self.n_groups * (self.width - (not self.is_counted))

    @property
    def scales(self) -> np.ndarray:
        """The factors of the cells of a group: those for deviations are sums of ``2 z^2 - 1``."""
        scales = np.ones(self.width)
        scales[[block.start + 1 for block in self.blocks if block.bounds is not None]] = math.sqrt(
            0.5
        )
        return scales

    def sensitivity(self, replaces: bool) -> float:
        """The largest distance, in rows, of the sums of two neighbouring tables."""
        numbers = sum(block.bounds is not None for block in self.blocks)
        binned = sum(block.edges is not None for block in self.blocks)
        parts = len(self.blocks) - numbers + binned
        length = self.is_counted + 1.5 * numbers + parts
        if not replaces:
            return math.sqrt(length)
        apart = 4.0 * numbers + 2.0 * parts
        if self.by is not None:  # Or the row goes to another group.
            apart = max(apart, (2.0 if self.n_groups > 1 else 1.0) * length)
        return math.sqrt(apart)


@dataclass(frozen=True)
class DescriptionPlan(UnitRelease):
    """The plan of a description: what it releases and costs. Attributes are public numbers.

    Attributes
    ----------
    budget : Budget
        The requested budget.
    cost : PrivacyCost
        What is spent, whatever the rows hold.
    n_samples : int or None
        Number of rows, or of persons, if it is public.
    n_cells : int
        Number of sums that are released.
    sensitivity : float
        How far one row, or person, moves all of them together, in rows.
    noise_scale : float
        Standard deviation of the noise on each of them, in rows.
    n_groups : int
        Number of groups that the cells are of.
    """

    budget: Budget
    cost: PrivacyCost
    n_samples: int | None
    n_cells: int
    sensitivity: float
    noise_scale: float
    n_groups: int
    name: str = "description"

    @property
    def proof(self) -> str:
        """The proposition by which its cost is known."""
        return "Proposition 80"

    @property
    def says_little(self) -> bool:
        """Whether the noise is known to be more than a fifth of the rows of a group, on average."""
        size = math.inf if self.n_samples is None else self.n_samples / self.n_groups
        return self.noise_scale > MOST_NOISE_SHARE * size

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings about the plan, for before it is run."""
        if self.n_samples is None:
            return ()
        found = too_large_delta(self.budget, self.n_samples)
        if self.says_little:
            found += (
                f"the noise on each count is {self.noise_scale:.3g} {self.counts}, and a group has "
                f"{self.n_samples / self.n_groups:.4g} of them on average, so that the description says "
                f"little: raise epsilon, or describe fewer columns or groups, or more {self.counts}.",
            )
        return found

    def _lines(self):
        return [
            *super()._lines(),
            (
                "releases",
                f"{self.n_cells:,} sums at once, each with noise of {self.noise_scale:.3g} {self.counts}",
            ),
        ]


def plan_description(
    n_samples: int,
    *,
    bounds: Mapping | None = None,
    categories: Mapping | None = None,
    by: Any = None,
    bins: Any = None,
    epsilon: float,
    delta: float | None = None,
    neighboring_relation: Relation = "replace_one",
    of_persons: bool = False,
) -> DescriptionPlan:
    """The plan of a description, made without data: its cost, and the noise on each count.

    Parameters
    ----------
    n_samples : int
        Number of rows, or of persons.
    bounds, categories, by, bins, epsilon, delta, neighboring_relation
        As for `dp_describe`.
    of_persons : bool, default=False
        Whether ``groups`` will be given.

    Returns
    -------
    plan : DescriptionPlan

    Raises
    ------
    ValueError, TypeError
        If a public list or number is invalid.

    Examples
    --------
    >>> from skdpbayes.descriptive import plan_description
    >>> bounds, categories = {"age": (18, 90)}, {"sex": ["f", "m"]}
    >>> print(plan_description(5000, bounds=bounds, categories=categories, epsilon=1.0))
    description plan
      spends    epsilon = 1 at delta = 1e-05 (asked for at most 1)
      protects  replace-one
      releases  7 sums at once, each with noise of 9.14 rows
    """
    check_sizes(n_samples=n_samples)
    names = list(dict.fromkeys([*(bounds or ()), *(categories or ())]))
    relation = between_persons(neighboring_relation) if of_persons else neighboring_relation
    layout = make_layout(names, bounds, categories, by, bins, neighboring_relation)
    return plan_layout(layout, n_samples, epsilon, delta, relation)


def plan_layout(layout, n_samples, epsilon, delta, relation):
    """The `DescriptionPlan` of a layout, under a relation between rows or persons."""
    replaces = between_rows(relation) == "replace_one"
    if delta is None:
        if not (replaces or math.isinf(epsilon)):
            raise ValueError(
                "neighboring_relation='add_or_remove_one' keeps the number of rows private, and delta=None "
                "would be taken from it: give a delta, well below 1 over the number of rows, e.g. delta=1e-6."
            )
        delta = 0.0 if math.isinf(epsilon) else default_delta(max(1, n_samples))
    budget = Budget(float(epsilon), delta, relation).checked(persons=True)
    if budget.is_private and budget.delta == 0:
        raise ValueError(
            "delta=0 asks for pure differential privacy, and dp_describe adds Gaussian noise, which has "
            "none: give a delta in (0, 1), e.g. delta=None for the default; or release single means by "
            "skdpbayes.metrics.dp_mean_score."
        )
    sensitivity, noise_scale, mu = layout.sensitivity(replaces), 0.0, math.inf
    if budget.is_private:
        mu = budget.mu
        moved = sensitivity + math.sqrt(layout.n_released) * _CONVERSION_ERROR
        noise_scale = moved / sensitivity_after_rounding(1.0 / mu, layout.n_released)
        rows = n_samples if replaces else _EXACT_PRIVATE_ROWS
        noise_scale = max(noise_scale, rows / _LARGEST_SUM)
    cost = PrivacyCost(relation, mu=mu)
    plan = DescriptionPlan(
        budget, cost, int(n_samples), layout.n_released, sensitivity, noise_scale, layout.n_groups
    )
    return plan if replaces else replace(plan, n_samples=None)


def make_layout(names, bounds, categories, by, bins, neighboring_relation):
    """The `TableLayout` of the columns of a table, from public lists alone.

    Raises
    ------
    ValueError, TypeError
        If a column has neither bounds nor categories or has both, or if these are invalid.
    """
    if neighboring_relation not in RELATIONS:
        raise ValueError(
            f"neighboring_relation must be one of {sorted(RELATIONS)}, got {neighboring_relation!r}."
        )
    bounds, categories = _mapping("bounds", bounds), _mapping("categories", categories)
    for parameter, columns in (("bounds", bounds), ("categories", categories)):
        unknown = [name for name in columns if name not in names]
        if unknown:
            raise ValueError(
                f"{parameter} has columns that are not in the table: {_listed(unknown)}. There are "
                f"{_listed(names)}."
            )
    both = [name for name in bounds if name in categories]
    if both:
        raise ValueError(
            f"columns {_listed(both)} have bounds and categories: give bounds of numbers, and bins for "
            "shares of their ranges; and categories of other columns."
        )
    neither = [name for name in names if name not in bounds and name not in categories]
    if neither:
        raise ValueError(
            f"columns {_listed(neither)} have neither bounds nor categories: give public bounds of a number, "
            f"bounds={{{neither[0]!r}: (low, high)}}, or a public list of labels, "
            f"categories={{{neither[0]!r}: [...]}}; or leave the column out, table.drop(columns=...). "
            "Neither is read off the rows."
        )
    if not isinstance(by, Hashable):  # Such as the column itself, whose cells no message may quote.
        raise TypeError(f"by must be the name of a column, and is a {type(by).__name__}.")
    if by is not None and by not in categories:
        raise ValueError(
            f"by={by!r} must be a column of which categories has the public list of groups, as in "
            f"categories={{{by!r}: ['a', 'b']}}."
        )
    edges_of = _edges(bins, bounds)
    blocks, start = [], 1
    for name in names:
        if name == by:
            continue
        if name in bounds:
            pair = _pair(name, bounds[name])
            block = ColumnCells(name, start, pair, _checked_edges(name, edges_of.get(name), pair))
        else:
            block = ColumnCells(name, start, levels=_checked_levels(name, categories[name]))
        blocks.append(block)
        start += block.size
    levels = () if by is None else _checked_levels(by, categories[by])
    if OVERALL in levels:
        raise ValueError(f"groups may not be called {OVERALL!r}: rename them.")
    is_counted = by is not None or neighboring_relation != "replace_one"
    layout = TableLayout(tuple(blocks), by, levels, is_counted)
    if not (blocks or is_counted):
        raise ValueError("there is nothing to describe: give bounds or categories of a column.")
    if layout.n_released > _MOST_CELLS or layout.width > _MOST_CELLS_OF_GROUP:
        raise ValueError(
            f"{layout.width:,} cells in each of {layout.n_groups:,} groups are too many: take fewer "
            f"categories, bins or groups, with at most {_MOST_CELLS_OF_GROUP:,} cells in each and "
            f"{_MOST_CELLS:,} in all."
        )
    return layout


def _listed(names):
    shown = ", ".join(repr(name) for name in names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"


def _mapping(parameter, value):
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(
            f"{parameter} must be a dict by column, such as bounds={{'age': (18, 90)}} or "
            f"categories={{'sex': ['f', 'm']}}, and is a {type(value).__name__}."
        )
    return dict(value)


def _pair(name, value):
    if not isinstance(value, tuple | list | np.ndarray):
        got = value if is_number(value) else f"a {type(value).__name__}"
        raise TypeError(f"bounds[{name!r}] must be two public numbers (low, high), got {got}.")
    if len(value) != 2:
        raise ValueError(f"bounds[{name!r}] must be two finite numbers, got {len(value)}.")
    return checked_bounds(tuple(value), f"bounds[{name!r}]")


def _checked_levels(name, value):
    if isinstance(value, str | Mapping) or np.ndim(np.asarray(value, dtype=object)) != 1:
        raise TypeError(
            f"categories[{name!r}] must be a list of labels, such as ['f', 'm'], and is a "
            f"{type(value).__name__}."
        )
    levels = tuple(value.tolist() if hasattr(value, "tolist") else value)
    for level in levels:
        is_label = isinstance(level, str | bool | np.bool_) or is_number(level)
        if not is_label or level != level:
            raise ValueError(
                f"categories[{name!r}] must list text, numbers or booleans; missing values are counted by "
                "themselves, so leave out None and NaN."
            )
    if not levels or len(set(levels)) < len(levels):
        raise ValueError(f"categories[{name!r}] must list at least one label, each once.")
    if OTHER_LABEL in levels:
        raise ValueError(
            f"categories[{name!r}] may not list {OTHER_LABEL!r}, the name of others: leave it out."
        )
    return levels


def _edges(bins, bounds):
    if bins is None or isinstance(bins, Mapping):
        edges_of = dict(bins or {})
        unknown = [name for name in edges_of if name not in bounds]
        if unknown:
            raise ValueError(f"bins has columns without bounds: {_listed(unknown)}.")
        return edges_of
    return dict.fromkeys(bounds, bins)


def _checked_edges(name, bins, bounds):
    """Edges of the bins of a column: as they are, or so many bins of equal width between the bounds."""
    if bins is None:
        return None
    if is_number(bins):
        if isinstance(bins, float) or not 1 <= bins <= _MOST_CELLS_OF_GROUP:
            raise ValueError(
                f"bins of {name!r} must be a number of bins from 1, or a list of edges."
            )
        return np.linspace(bounds[0], bounds[1], int(bins) + 1)
    is_list = isinstance(bins, list | tuple | np.ndarray)
    if not is_list or len(bins) < 2 or not all(is_number(edge) for edge in bins):
        raise ValueError(
            f"bins of {name!r} must be a number of bins, or a list of at least two edges, got a "
            f"{type(bins).__name__}."
        )
    edges = np.asarray(bins, dtype=float)
    if not (np.isfinite(edges).all() and (np.diff(edges) > 0).all()):
        raise ValueError(f"edges of bins of {name!r} must increase, and be finite.")
    if edges[0] != bounds[0] or edges[-1] != bounds[1]:
        raise ValueError(
            f"the first and last edge of bins of {name!r} must be its bounds, {bounds[0]:g} and "
            f"{bounds[1]:g}, to which values are clipped."
        )
    return edges
