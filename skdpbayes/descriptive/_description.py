"""Estimates from released sums, with intervals, and the table that they form.

    share or mean = A / B,      {v : (A - v B)^2 <= q^2 (B s^2(v) + var(noise of A - v B))}

with ``A`` and ``B`` sums of cells, and ``s^2(v)`` the variance of one row: of a share ``v (1 - v)`` (Wilson's
interval, with noise), and of a mean what the squares say, with Student's ``q`` for how well they say it
(Fieller's interval, with noise). If noise hides ``B``, every ``v`` is in it. Before, cells that add up to the
number of rows are made to do so by least squares, and so is the number itself:

    N = (N_0 / v_0 + sum_b S_b / m_b) / (1 / v_0 + sum_b 1 / m_b),      x_b -> x_b + (N - S_b) / m_b

for ``m_b`` cells ``x_b`` with the sum ``S_b``; ``v_0`` is 0 if ``N`` is public. All of it is post-processing.
"""

import html
import importlib
import math
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm, t

from ..privacy.cost import PrivacyCost
from ..privacy.planned_release import Disclosure, StepDisclosure, as_json
from ._plan import (
    MOST_NOISE_SHARE,
    OTHER_LABEL,
    OVERALL,
    ColumnCells,
    DescriptionPlan,
    TableLayout,
    middle_and_half,
)

# What counts as hidden: a number of rows, or a variance, below so many deviations of its noise.
_FEWEST_NOISE_DEVIATIONS = 3.0
# Least degrees of freedom of Student's law.
_LEAST_FREEDOM = 2.0


class DescribedCell(NamedTuple):
    """A number of a description.

    Attributes
    ----------
    group : object
        The group, or "overall".
    variable : object
        The column, None of the number of rows.
    level : object
        The label of a category, or the bin of a histogram; None otherwise.
    statistic : {"count", "mean", "std", "share", "missing"}
        Shares are among values that are not missing, and "missing" is the share of those that are.
    estimate : float
        nan if the noise hides it.
    low, high : float
        The interval; nan of a deviation, which has none.
    """

    group: Any
    variable: Any
    level: Any
    statistic: str
    estimate: float
    low: float
    high: float


class GroupSums(NamedTuple):
    """Sums of one group, or of all, after least squares.

    Attributes
    ----------
    values : ndarray of shape (width,)
    covariance : ndarray of shape (width, width)
        Of the noise.
    level : float
    most : float
        A public bound on counts.
    """

    values: np.ndarray
    covariance: np.ndarray
    level: float
    most: float

    def combine(self, *terms):
        """(sums of cells, covariance of their noise), of dicts of {place: factor}."""
        places = sorted(set().union(*terms))
        weights = np.array([[each.get(place, 0.0) for place in places] for each in terms])
        covariance = weights @ self.covariance[np.ix_(places, places)] @ weights.T
        return weights @ self.values[places], covariance

    def shows(self, place):
        """Whether the sum of a cell is above its noise, and not 0 but for rounding."""
        limit = _FEWEST_NOISE_DEVIATIONS * math.sqrt(self.covariance[place, place])
        return self.values[place] > max(limit, 0.5)

    def count(self, place):
        """(estimate, low, high) of the number of rows of a cell, in the table itself."""
        half = norm.ppf(0.5 + 0.5 * self.level) * math.sqrt(self.covariance[place, place])
        number = self.values[place]
        ends = np.clip([number, number - half, number + half], 0.0, self.most)
        return tuple(map(float, ends))

    def share(self, top, bottom):
        """(estimate, low, high) of a share."""
        (a, b), noise = self.combine(top, bottom)
        a, q = min(max(a, 0.0), b), norm.ppf(0.5 + 0.5 * self.level)
        low, high = _ratio_interval(a, b, noise, q, (0.0, b, -b), (0.0, 1.0))
        return (math.nan if _is_hidden(b, noise[1, 1]) else float(a / b)), low, high

    def moments(self, block):
        """(mean, variance, its noise variance, low, high) of a number, in units of half its range."""
        known = {0: 1.0, block.missing: -1.0}
        second = {block.start + 1: math.sqrt(2.0)}  # The sum of ``2 z^2 - 1``.
        (total, size, squares), noise = self.combine({block.start: 1.0}, known, second)
        if not size > 0.0:
            return math.nan, math.nan, math.inf, -1.0, 1.0
        total = min(max(total, -size), size)
        mean = total / size
        shown = math.nan if _is_hidden(size, noise[1, 1]) else mean
        if size <= 1.0:
            return shown, math.nan, math.inf, -1.0, 1.0
        noise_of_mean = noise[0, 0] - 2.0 * mean * noise[0, 1] + mean**2 * noise[1, 1]
        # The square of a noisy mean is too large by its noise.
        square = min(max(0.5 + 0.5 * squares / size, 0.0), 1.0)
        variance = max(square - mean**2 + noise_of_mean / size**2, 0.0)
        variance *= size / (size - 1.0) if size > 2.0 else 2.0
        sampled = size * variance
        # How ``size * variance`` changes with the three sums.
        slope = np.array([-2.0 * mean, 0.5 + mean**2, 0.5])
        noise_of_variance = max(float(slope @ noise @ slope), 0.0)
        spread = sampled + noise_of_mean
        variance_of_spread = 2.0 * sampled**2 / max(size - 1.0, 1.0) + noise_of_variance
        freedom = 2.0 * spread**2 / variance_of_spread if variance_of_spread > 0.0 else math.inf
        q = t.ppf(0.5 + 0.5 * self.level, max(freedom, _LEAST_FREEDOM))
        low, high = _ratio_interval(total, size, noise, q, (sampled, 0.0, 0.0), (-1.0, 1.0))
        return shown, variance, noise_of_variance / size**2, low, high


def _is_hidden(size, variance):
    return not size > _FEWEST_NOISE_DEVIATIONS * math.sqrt(max(variance, 0.0))


def _ratio_interval(a, b, noise, q, sampling, limits):
    """All ``v`` with ``(a - v b)^2 <= q^2 (s_0 + s_1 v + s_2 v^2 + noise of a - v b)``, within limits."""
    if not b > 0.0:
        return limits
    s_0, s_1, s_2 = sampling
    square = b**2 - q**2 * (s_2 + noise[1, 1])
    linear = a * b + q**2 * (0.5 * s_1 - noise[0, 1])
    constant = a**2 - q**2 * (s_0 + noise[0, 0])
    if square <= 0.0:
        return limits
    root = math.sqrt(max(linear**2 - square * constant, 0.0))
    ends = np.clip([(linear - root) / square, (linear + root) / square], *limits)
    return float(ends[0]), float(ends[1])


def _least_squares(layout, is_public):
    """The matrix that makes the cells of a group add up, and the variances of cells in units of the noise."""
    matrix, variances = np.eye(layout.width), np.ones(layout.width)
    parts = [block.partition for block in layout.blocks if block.partition.size]
    if is_public:
        variances[0] = 0.0
    else:
        weight = 1.0 + sum(1.0 / part.size for part in parts)
        matrix[0, 0] = 1.0 / weight
        for part in parts:
            matrix[0, part] = 1.0 / (part.size * weight)
    for part in parts:
        total = matrix[0].copy()
        total[part] -= 1.0
        matrix[part] += total / part.size
    return matrix, variances


def group_sums(
    layout: TableLayout, plan: DescriptionPlan, released: np.ndarray, level: float
) -> dict:
    """The `GroupSums` by group, those of all groups together first."""
    is_public = not layout.is_counted
    matrix, variances = _least_squares(layout, is_public)
    covariance = plan.noise_scale**2 * (matrix * variances) @ matrix.T
    raw = released.copy()
    if is_public:
        raw[:, 0] = plan.n_samples
    values = raw @ matrix.T
    most = math.inf if plan.n_samples is None else float(plan.n_samples)
    together = GroupSums(values.sum(axis=0), layout.n_groups * covariance, level, most)
    single = {
        name: GroupSums(own, covariance, level, most)
        for name, own in zip(layout.levels, values, strict=False)
    }
    return {OVERALL: together, **single}


def described_cells(sums: GroupSums, group: Any, layout: TableLayout) -> list[DescribedCell]:
    """All numbers of a group."""
    cells = [DescribedCell(group, None, None, "count", *sums.count(0))]

    def add(block, label, statistic, numbers):
        cells.append(DescribedCell(group, block.name, label, statistic, *numbers))

    for block in layout.blocks:
        known = {0: 1.0, block.missing: -1.0}
        if block.bounds is None:
            labels = [*block.levels, OTHER_LABEL]
            first = block.start
        else:
            labels, first = _bin_labels(block), block.start + 3
            middle, half = middle_and_half(block.bounds)
            mean, variance, noise, low, high = sums.moments(block)
            add(block, None, "mean", [middle + half * v for v in (mean, low, high)])
            least = _FEWEST_NOISE_DEVIATIONS * math.sqrt(noise)
            is_shown = variance >= least and not math.isnan(mean)
            deviation = half * math.sqrt(variance) if is_shown else math.nan
            add(block, None, "std", (deviation, math.nan, math.nan))
        for k, label in enumerate(labels):
            add(block, label, "count", sums.count(first + k))
            add(block, label, "share", sums.share({first + k: 1.0}, known))
        add(block, None, "missing", sums.share({block.missing: 1.0}, {0: 1.0}))
    return cells


def _bin_labels(block: ColumnCells):
    if block.edges is None:
        return []
    # The fewest digits, from 6, by which all edges can be told apart; doubles have 17.
    each = ([f"{edge:.{digits}g}" for edge in block.edges] for digits in range(6, 18))
    edges = next(texts for texts in each if len(set(texts)) == len(texts))
    closing = [")"] * (len(edges) - 2) + ["]"]
    return [
        f"[{low}, {high}{end}" for (low, high), end in zip(pairwise(edges), closing, strict=True)
    ]


def _declared(layout):
    """The public bounds and lists of a description."""
    for block in layout.blocks:
        what, value = "range", block.bounds
        if value is None:
            what, value = "categories", block.levels
        yield Disclosure(what, as_json(list(value)), "declared", str(block.name))
        if block.edges is not None:
            yield Disclosure("bins", as_json(block.edges), "declared", str(block.name))
    if layout.by is not None:
        yield Disclosure("groups", as_json(list(layout.levels)), "declared", str(layout.by))


class Description:
    """A description of a table, released with noise. It prints as a table of baseline characteristics.

    Attributes
    ----------
    plan_ : DescriptionPlan
        What was released, and its cost.
    cells_ : list of DescribedCell
        All numbers, with their intervals.
    level : float
        Confidence level of the intervals.

    Examples
    --------
    >>> from skdpbayes.descriptive import dp_describe
    >>> table = {"age": [30.0, 50.0, None, 70.0], "sex": ["f", "m", "f", "f"]}
    >>> bounds, categories = {"age": (0, 100)}, {"sex": ["f", "m"]}
    >>> print(dp_describe(table, bounds=bounds, categories=categories, epsilon=float("inf")))
    description of rows, 90% intervals, no noise
                  overall
    n             4
    age, mean     50 (16 to 84)
    age, std      20
    age, missing  25% (6 to 64)
    sex: f        3, 75% (36 to 94)
    sex: m        1, 25% (6 to 64)
    sex, missing  0% (0 to 40)
    """

    def __init__(
        self,
        layout: TableLayout,
        plan: DescriptionPlan,
        released: np.ndarray,
        level: float,
        is_seeded: bool = False,
    ):
        self.plan_ = plan
        self.level = level
        self._is_seeded = is_seeded
        self._facts = tuple(_declared(layout))
        sums = group_sums(layout, plan, released, level)
        self._groups = {  # As they are called where people read of them.
            group: str(group) if group == OVERALL else f"{layout.by}: {group}" for group in sums
        }
        self._noise = {group: math.sqrt(own.covariance[0, 0]) for group, own in sums.items()}
        self._with_others = {  # Columns with labels that are not listed, as far as noise shows.
            block.name
            for block in layout.blocks
            if block.bounds is None and sums[OVERALL].shows(block.start + len(block.levels))
        }
        self.cells_ = [
            cell for group, own in sums.items() for cell in described_cells(own, group, layout)
        ]
        if layout.by is not None and plan.n_samples is not None:
            n, *ends = sums[OVERALL].count(0)
            outside = plan.n_samples - n, plan.n_samples - ends[1], plan.n_samples - ends[0]
            self.cells_.append(DescribedCell(OTHER_LABEL, None, None, "count", *outside))

    def _about(self):
        return StepDisclosure(self._facts)

    @property
    def privacy_cost_(self) -> PrivacyCost:
        """The cost; it converts to any (epsilon, delta) and composes with ``+``."""
        return self.plan_.cost

    @property
    def spent_epsilon_(self) -> float:
        """The epsilon that was spent, at ``spent_delta_``."""
        return self.plan_.epsilon

    @property
    def spent_delta_(self) -> float:
        """The delta of the budget."""
        return self.plan_.delta

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings about groups whose numbers are private, and too small for the noise."""
        if self.plan_.says_little:
            return ()  # As the plan has warned.
        small = [
            called
            for group, called in self._groups.items()
            if self._noise[group] > MOST_NOISE_SHARE * self.cell("count", group=group).estimate
        ]
        if not small:
            return ()
        return (
            f"{self.plan_.name}: the noise is more than a fifth of the number of {self.plan_.counts} in "
            f"{', '.join(small)}, of which the description says little; see its intervals. Raise epsilon, or "
            "describe fewer columns or groups.",
        )

    @cached_property
    def table_(self) -> Any:
        """The numbers as a data frame, with the fields of `DescribedCell` as columns.

        Without pandas, a list of dicts.
        """
        records = [cell._asdict() for cell in self.cells_]
        try:
            return importlib.import_module("pandas").DataFrame(records)
        except ImportError:
            return records

    def cell(
        self, statistic: str, variable: Any = None, level: Any = None, group: Any = OVERALL
    ) -> DescribedCell:
        """A number with its interval.

        Parameters
        ----------
        statistic : {"count", "mean", "std", "share", "missing"}
        variable : str or int, default=None
            The column; None is for the number of rows.
        level : object, default=None
            The label of a category, or the bin of a histogram.
        group : object, default="overall"

        Returns
        -------
        cell : DescribedCell

        Raises
        ------
        KeyError
            If there is no such number.
        """
        wanted = (group, variable, level, statistic)
        for cell in self.cells_:
            if cell[:4] == wanted:
                return cell
        raise KeyError(
            f"there is no {statistic} of variable={variable!r}, level={level!r} in group={group!r}: see "
            "table_ for what there is."
        )

    def _has_seeds(self):
        return self._is_seeded

    def _lines(self):
        """The printed table as lists of texts, the first with the groups."""
        cells: dict = {}
        for cell in self.cells_:
            cells.setdefault((cell.variable, cell.level), {})[cell.group, cell.statistic] = cell
        lines = [["", *self._groups.values()]]
        for (variable, label), own in cells.items():
            if label == OTHER_LABEL and variable not in self._with_others:
                continue
            for statistic in ("count", "mean", "std", "share", "missing"):
                if (OVERALL, statistic) not in own or (
                    variable is not None and statistic == "count"
                ):
                    continue
                texts = [_text(own, group, statistic) for group in self._groups]
                lines.append([_head(variable, label, statistic), *texts])
        return lines

    def _title(self):
        spent = f"epsilon = {self.spent_epsilon_:.4g} at delta = {self.spent_delta_:.3g}"
        if self.plan_.cost.is_infinite:
            spent = "no noise"
        title = f"description of {self.plan_.counts}, {100 * self.level:.4g}% intervals, {spent}"
        if self.plan_.counts == "persons":
            title += "; a person with several rows counts in each line with the share of these rows"
        return title

    def __str__(self):
        lines = self._lines()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            [
                self._title(),
                *(
                    "  ".join(
                        text.ljust(width) for text, width in zip(line, widths, strict=True)
                    ).rstrip()
                    for line in lines
                ),
            ]
        )

    __repr__ = __str__

    def to_markdown(self) -> str:
        """The table in Markdown."""
        head, *lines = [[text.replace("|", "\\|") for text in line] for line in self._lines()]
        rows = [head, ["---"] * len(head), *lines]
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    def to_html(self) -> str:
        """The table in HTML."""
        head, *lines = [[html.escape(text) for text in line] for line in self._lines()]
        rows = [f"<tr>{''.join(f'<th>{text}</th>' for text in head)}</tr>"]
        for first, *others in lines:
            rows.append(
                f"<tr><th>{first}</th>{''.join(f'<td>{text}</td>' for text in others)}</tr>"
            )
        return f"<table><caption>{html.escape(self._title())}</caption>{''.join(rows)}</table>"

    _repr_html_ = to_html


def _head(variable, label, statistic):
    if variable is None:
        return "n"
    return f"{variable}: {label}" if statistic == "share" else f"{variable}, {statistic}"


def _text(cells, group, statistic):
    """A number and its interval in a table."""
    cell = cells[group, statistic]
    numbers, unit = list(cell[-3:]), ""
    if statistic in ("share", "missing"):
        numbers, unit = [100.0 * number for number in numbers], "%"
    if statistic == "count":
        digits = 0
    else:
        like = cells[group, "mean"] if statistic == "std" else cell
        width = (like.high - like.low) * (100.0 if unit else 1.0)
        digits = max(math.ceil(1.0 - math.log10(width)), 0) if width > 0.0 else 1
        digits = min(digits, 1) if unit else digits
    number, low, high = (f"{number:,.{digits}f}" for number in numbers)
    shown = "hidden" if math.isnan(numbers[0]) else f"{number}{unit}"
    if statistic == "share":
        shown = f"{cells[group, 'count'].estimate:,.0f}, {shown}"
    if math.isnan(numbers[1]) or (statistic == "count" and low == high):
        return shown
    return f"{shown} ({low} to {high})"
