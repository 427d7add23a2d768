"""The plan of a pipeline: one budget, split over its steps by public numbers only.

mu_i^2 = s_i mu(epsilon, delta)^2  for all spending steps but the last, which gets what is left
"""

import inspect
import math
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple, Self

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer

from .._arguments import is_number, planned_size
from ..exceptions import PrivacyWarning, SeedWarning
from ..models.rows import NORMS
from ..preprocessing import DPImputer, DPOneHotEncoder, DPQuantileScaler
from ..privacy.budget import Budget, default_delta, too_large_delta
from ..privacy.charge import dominates
from ..privacy.conversions import gaussian_epsilon, gaussian_mu, smallest_within
from ..privacy.cost import PrivacyCost
from ..privacy.deferred_warnings import ignored_own_warnings, take_warnings, warn
from ..privacy.losses import PureMechanism
from ..privacy.planned_release import PlannedRelease
from ..privacy.units import Persons, plan_for_persons, row_relation_and_distance
from ..privacy.unsafe_callers import StepRows, StepTree
from ._report import account_of_plan, costs_of_steps, described
from ._steps import misplaced_imputers, norm_warnings, paid_steps, refuse_hidden, with_rows

# What is left of a budget for the last step of a pipeline, and what is charged for it.
#
# largest epsilon_k with  epsilon(cost_1 + ... + cost_k, delta) <= epsilon
#
# ``cost_k`` is that of the Gaussian mechanism at ``(epsilon_k, delta)`` if the plan of the last step
# costs no more, whatever the number of columns if that is not known yet; what the plan says if bounds
# are learnt before the fit; and otherwise that of randomised response at ``epsilon_k`` that fails
# with probability ``delta / 2`` (Proposition 52). With ``delta = 0`` nothing is searched for:
# ``epsilon_k`` is what the others leave.


_SHARE_TOLERANCE = 1e-3
# Numbers of columns that represent all others if that of the last step is not known beforehand.
_WIDTHS = (1, 8, 64, 256, 1024)
# Parameters whose "auto" releases bounds before a fit.
_LEARNT_BOUNDS = ("data_norm", "target_bounds", "max_count")


def cost_of_step(step, epsilon, delta, n_samples, n_columns):
    """The cost of a private step with its part of a budget."""
    step = clone(step).set_params(epsilon=epsilon, delta=delta)
    return step.privacy_plan(n_samples, n_columns).cost


def remainder(final, budget, spent, n_samples, width):
    """(epsilon, delta) of the last step, and the cost that is charged for it."""
    relation = budget.neighboring_relation
    if not budget.is_private:
        # There is no plan where a parameter of the step is wrong.
        _is_gaussian(final, math.inf, budget.delta, n_samples, width, math.inf)
        return (math.inf, budget.delta), PrivacyCost(relation, mu=math.inf)
    if budget.delta == 0:
        epsilon_left = (budget.epsilon - spent.epsilon(0.0)) * (1.0 - 1e-12)
        cost = cost_of_step(final, epsilon_left, 0.0, n_samples, width or 1)
        any_width = PrivacyCost(relation, pure_events=(PureMechanism(epsilon_left),))
        return (epsilon_left, 0.0), any_width if width is None else cost

    def gaussian(epsilon):
        return PrivacyCost(relation, mu=gaussian_mu(epsilon, budget.delta))

    def learnt_bounds(epsilon):
        return cost_of_step(final, epsilon, budget.delta, n_samples, width or 1)

    if any(_is_auto(final, name) for name in _LEARNT_BOUNDS):
        # The release of bounds and the mu of the fit depend only on the budget and the size.
        exact = learnt_bounds(budget.epsilon)
        if len(exact.decisions) == 1 and not exact.pure_events:
            epsilon, cost = _largest(learnt_bounds, budget, spent)
            # There may be too few rows to release a norm with the rest of the budget, and the form of the
            # cost may then depend on the number of columns.
            if cost.decisions:
                return (epsilon, budget.delta), cost
    epsilon, cost = _largest(gaussian, budget, spent)
    if _is_gaussian(final, epsilon, budget.delta, n_samples, width, cost.mu):
        return (epsilon, budget.delta), cost

    # Randomised response that fails with probability delta dominates any (epsilon, delta) mechanism.
    def any_mechanism(epsilon):
        failure = 0.5 * budget.delta
        return PrivacyCost(
            relation, pure_events=(PureMechanism(epsilon),), failure_probability=failure
        )

    epsilon, cost = _largest(any_mechanism, budget, spent)
    return (epsilon, cost.failure_probability), cost


def _is_auto(final, name):
    return isinstance(value := getattr(final, name, None), str) and value == "auto"


def _largest(charged, budget, spent):
    """The largest epsilon of the last step that the budget allows, and the cost charged for it."""

    def at(noise):
        epsilon = gaussian_epsilon(budget.mu / noise, budget.delta)
        return epsilon * (1.0 - 1e-8), charged(epsilon)

    def excess(noise):
        if noise == 0:
            return math.inf
        return (spent + at(noise)[1]).epsilon(budget.delta) / budget.epsilon - 1.0

    nothing = spent == PrivacyCost(budget.neighboring_relation)
    return at(
        1.0 if nothing and excess(1.0) <= 0 else smallest_within(excess, 1.2, _SHARE_TOLERANCE)
    )


def _is_gaussian(final, epsilon, delta, n_samples, width, mu):
    """Whether the last step is ``mu``-GDP, for several widths if its own is not known yet.

    Raises
    ------
    ValueError
        The error of its plan, if there is no plan for any width.
    """
    known = False
    error: ValueError | None = None
    for columns in _WIDTHS if width is None else (width,):
        try:
            cost = cost_of_step(final, epsilon, delta, n_samples, columns)
        except ValueError as one:
            error = error or one
            continue
        if not (cost.is_gaussian and cost.mu <= mu):
            return False
        known = True
    if error is not None and not known:
        raise error
    return True


# What the steps of a pipeline are given, and what they cost, where a person has up to ``k`` rows.
#
#     mu_i^2 = s_i (j mu)^2,    cost_i counts for  r / j  when it is added to those of others
#
# ``mu`` is what a row may cost, and ``r`` the log-odds range of choices. ``j`` is that of
# `row_relation_and_distance` for a step that reads one row of each person, which costs a person what it costs
# a row, while the others cost ``j`` times as much (Proposition 54); for these others it is 1. All are
# planned for rows, of which there may be ``k`` times as many as persons.


def settings_for_persons(step, relation, n_samples, max_rows):
    """The parameters that a private step has where persons have several rows.

    Parameters
    ----------
    step : private step
    relation : {"replace_one", "add_or_remove_one"}
        Of rows, that of `row_relation_and_distance`.
    n_samples : int
        The largest number of rows, if it is not declared.
    max_rows : int

    Returns
    -------
    settings : dict
    """
    if max_rows == 1:
        return {}
    settings: dict[str, Any] = {}
    # Of n rows, at least n / k persons have one.
    fewest = int(max_rows) if reads_one_row(step, max_rows) else 1
    if step.neighboring_relation != relation:
        planned_size(n_samples, step.neighboring_relation, step.public_size)
        settings = {"neighboring_relation": relation, "public_size": int(n_samples) // fewest}
    elif step.public_size is not None:
        settings = {"public_size": max(1, int(step.public_size) // fewest)}
    if "rows_per_person" in step.get_params(deep=False):
        settings["rows_per_person"] = max(int(max_rows), int(step.rows_per_person))
    return settings


def reads_one_row(step, max_rows):
    """Whether a step before the last reads one row of each person, and not all that are kept.

    It draws quantiles: what others release of rows would have to be shown to cost the same under both
    relations between rows.
    """
    return max_rows > 1 and type(step) in (DPQuantileScaler, DPImputer)


def cheaper_steps(spending, relation, limit):
    """The factors by which steps that read one row of each person cost less than others, by path.

    The last step reads all rows that are kept.
    """
    if limit is None:
        return {}
    _, steps = row_relation_and_distance(relation, int(limit))
    return {node.path: steps for node in spending[:-1] if reads_one_row(node.estimator, limit)}


def larger_budget(budget, factor):
    """The budget of a step that costs a person as much less than the other steps do."""
    if factor == 1 or not budget.is_private:
        return budget
    if budget.delta == 0:
        return budget._replace(epsilon=factor * budget.epsilon)
    return budget.with_mu(factor * budget.mu)


def smaller_cost(cost, factor):
    """The cost of a row that, as much larger for a person, is that of choices from a row of each."""
    if factor == 1:
        return cost
    bits = (
        replace(decision, log_odds_range=decision.log_odds_range / factor)
        for decision in cost.decisions
    )
    return replace(cost, decisions=tuple(bits))


# How many columns the last step can take, where encoders find categories.
#
#     columns(k_1, k_2, ...) <= most,    k_i categories found by encoder i
#
# ``most`` is public: the largest number of columns for which the last step has a plan that costs no more
# than is charged for it.


# Columns; a last step that takes as many takes any number.
_ANY_NUMBER = 2**20


class ColumnLimit(NamedTuple):
    """The number of columns that a last step can take.

    Attributes
    ----------
    n_columns : int
        The most that it can take.
    encoders : tuple of str
        Paths of the encoders that find categories.
    last : str
        Path of the last step.
    rows : StepRows
        Number of columns of the pipeline's table, and their names.
    """

    n_columns: int
    encoders: tuple[str, ...]
    last: str
    rows: StepRows

    def columns_with(self, tree: StepTree, learnt: dict[str, int]) -> Any:
        """The number of columns, given the number of categories that each encoder finds, by path."""
        return with_rows(tree, self.rows, learnt).at(self.last).before.n_columns


def column_limit_of_last(tree, plan, spending, labels):
    """The `ColumnLimit` of a pipeline's last step, None if it takes all that encoders may find.

    The number of its columns is not known before the fit.

    Parameters
    ----------
    tree : StepTree
        Of the pipeline, with rows.
    plan : PipelinePlan
    spending : list of StepTree
        Its private steps as they are fitted.
    labels : callable or None
        Returns the labels that the last step finds, or None.

    Raises
    ------
    ValueError
        If the last step cannot even take the columns that there are if nothing is found.
    """
    *early, last = spending
    if not any(map(_finds_categories, early)):
        return None
    encoders = tuple(node.path for node in early if type(node.estimator) is DPOneHotEncoder)
    limit = ColumnLimit(0, encoders, last.path, tree.before)
    fewest = limit.columns_with(tree, {})
    most = _most_columns(plan, last, 1 if fewest is None else fewest, labels)
    if fewest is not None:
        return None if most is None else limit._replace(n_columns=most)
    # A step behind the encoders makes its own number of columns.
    if most is None or not _may_add_columns(tree):
        return None
    raise ValueError(
        f"{last.path} can take {most} columns, and how many a step behind a private encoder makes is not "
        "known before the fit: give public lists of categories. Nothing was read."
    )


def _finds_categories(node):
    """Whether a private step finds the categories of a column."""
    if type(node.estimator) is not DPOneHotEncoder:
        return False
    n_columns = node.before.n_columns
    return n_columns is None or None in node.estimator._public_lists(None, n_columns)


def _may_add_columns(tree):
    """Whether a step that makes its own number of columns may make more than it is given."""
    *early, _ = (node for node in tree.walk() if node.kind != "word" and not node.is_composite)
    own_number = [
        node.estimator
        for node in early
        if with_rows(node, StepRows(3), {}).behind.n_columns is None
    ]
    return not all(
        isinstance(step, SelectorMixin)
        or (isinstance(step, SimpleImputer) and not step.add_indicator)
        for step in own_number
    )


def _most_columns(plan, last, fewest, labels):
    """The largest number of columns for which there is a plan of the cost, None if for any."""
    epsilon, delta = plan.step_budgets[last.path]
    final, sizes = clone(last.estimator).set_params(epsilon=epsilon, delta=delta), {}
    learns_labels = labels is not None and getattr(final, "classes", ()) is None
    if learns_labels and (names := labels()) is not None and len(names) > 1:
        sizes["n_classes"] = len(names)

    def is_paid(width):
        cost = final.privacy_plan(plan.n_samples, width, **sizes).cost
        return dominates(plan.step_costs[last.path], cost)

    def is_taken(width):
        try:
            return is_paid(width)
        except ValueError:
            return False

    if not is_paid(fewest):
        raise ValueError(
            f"{last.path} costs more at {fewest} columns than can be charged while their number is not "
            "known: set its sampler or its data_norm, or give public lists of categories."
        )
    taken = fewest
    while taken < _ANY_NUMBER and is_taken(2 * taken):
        taken *= 2
    if taken >= _ANY_NUMBER:
        return None
    refused = 2 * taken
    while refused - taken > 1:
        middle = (taken + refused) // 2
        taken, refused = (middle, refused) if is_taken(middle) else (taken, middle)
    return taken


# What a pipeline says of its steps: once, before rows are read or when all of them are fitted.
#
# plan of each step, at public sizes -> its warnings, after the step's name -> what fitted steps add
# to them


class StepWarning(NamedTuple):
    """A warning of a step's own plan."""

    path: str
    text: str
    category: type[Warning]


def plans_of_steps(spending, parts, n_samples, n_persons=None):
    """The warnings of private steps' plans, the seconds of fits, and the plan of the last step.

    Parameters
    ----------
    spending : list of StepTree
        Private steps; one whose number of columns is not known says itself what it has to say.
    parts : dict of {str: (float, float)}
        Epsilon and delta of each step.
    n_samples : int
        The public size of the table; for persons, the largest.
    n_persons : int, default=None
        With ``n_samples`` rows of persons at most, there may be no more than one of each.

    Returns
    -------
    warnings : tuple of StepWarning
    seconds : float
        A rough guess, as far as plans have one.
    plan : PlannedRelease or None
        None if the number of columns of the last step is not known.
    """
    warnings, seconds, plan = [], 0.0, None
    for node in spending:
        plan = None
        if node.path not in parts or node.before.n_columns is None:
            continue
        epsilon, delta = parts[node.path]
        step = clone(node.estimator).set_params(epsilon=epsilon, delta=delta)
        if n_persons is not None and hasattr(step, "transform"):
            step.set_params(public_size=int(n_persons))
        plan = step.privacy_plan(n_samples, node.before.n_columns)
        # A third-party step need have neither.
        usual = PrivacyWarning if hasattr(step, "transform") else ConvergenceWarning
        category = getattr(plan, "warning_category", usual)
        for text in getattr(plan, "warnings", ()):
            warnings.append(StepWarning(node.path, text, category))
        seconds += getattr(plan, "estimated_seconds", 0.0)
    return tuple(warnings), seconds, plan


def emit_plan_warnings(plan):
    """Show the warnings of a plan, those of a step as the step itself would."""
    of_steps = len(plan.step_warnings)
    for text in plan.warnings[: len(plan.warnings) - of_steps]:
        warn(text)
    for warning in plan.step_warnings:
        warn(f"{warning.path}: {warning.text}", warning.category)


def tell_of_steps(tree, plan):
    """Warn of what fitted steps have to say, after their names, if the plan has not said it."""
    of_pipeline = too_large_delta(plan.budget, plan.n_samples)
    of_steps = {(warning.path, warning.text) for warning in plan.step_warnings}
    for node in tree.walk():
        for text, category in take_warnings(node.estimator):
            # A pipeline speaks of its delta, and of all seeds at once, before it is charged.
            is_said = text in of_pipeline or (node.path, text) in of_steps
            if not is_said and category is not SeedWarning:
                warn(f"{node.path}: {text}", category)


_FINAL_SHARE = 0.8
# Share of delta for all steps but the last, which they need for categories of a single row.
_DELTA_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class PipelinePlan(PlannedRelease):
    """The plan of a pipeline: what it does and costs. Attributes are public numbers.

    Attributes
    ----------
    budget : Budget
        The requested budget; with ``persons``, the budget of a row.
    cost : PrivacyCost
        What all steps spend together, whatever the rows hold.
    n_samples : int
        The public size of the table.
    step_budgets : dict of {str: (float, float)}
        Epsilon and delta of each spending step; with ``persons``, those for rows that it is given.
    step_costs : dict of {str: PrivacyCost}
        What is charged for each spending step; with ``persons``, for rows.
    warnings : tuple of str
        What to know before running it.
    persons : Persons or None, default=None
        The persons that ``cost`` protects, if not rows.
    failure_is_of_persons : bool, default=False
        Whether the failure of the cost of rows is that of persons with several rows.
    data_norm : float or None, default=None
        The length of the longest row that can reach the last step, which a fit gives to it as ``data_norm``;
        None if the last step has its own, or if no step before it bounds rows.
    column_limit : ColumnLimit or None, default=None
        How many columns the last step can take, where encoders may find more categories: the rarest are then
        put together. None is any number, or that the number of columns is known.
    of_one_row : tuple of str, default=()
        Spending steps that read one row of each person, and cost a person what they cost a row.
    described : tuple of Step, default=()
        What is known of all steps beforehand, for reports.
    leaks : tuple of str, default=()
        What ``cost`` does not cover, because steps may learn without noise.
    step_warnings : tuple of StepWarning, default=()
        Those of ``warnings``, the last, that the steps' own plans gave.
    estimated_seconds : float, default=0.0
        A rough guess of the run time of private models; 0 if their numbers of columns are not known yet.
    plan_of_last : PlannedRelease or None, default=None
        The plan of the last spending step, for the rows and the budget that it is given; None if its number
        of columns is not known yet.
    """

    budget: Budget
    cost: PrivacyCost
    n_samples: int
    step_budgets: dict[str, tuple[float, float]]
    step_costs: dict[str, PrivacyCost]
    warnings: tuple[str, ...] = ()
    persons: Persons | None = None
    failure_is_of_persons: bool = False
    data_norm: float | None = None
    column_limit: ColumnLimit | None = None
    of_one_row: tuple[str, ...] = ()
    described: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    leaks: tuple[str, ...] = field(default=(), compare=False, repr=False)
    step_warnings: tuple[StepWarning, ...] = field(default=(), compare=False, repr=False)
    estimated_seconds: float = field(default=0.0, compare=False, repr=False)
    plan_of_last: Any = field(default=None, compare=False, repr=False)

    @property
    def requested_budget(self) -> Budget:
        """The requested budget, under the neighbouring relation of rows or persons."""
        return self.budget if self.persons is None else self.persons.budget

    @property
    def last(self) -> str:
        """The path of the last spending step."""
        return list(self.step_budgets)[-1]

    @property
    def cost_of_single_row_steps(self) -> PrivacyCost:
        """The cost for a row of the steps that read one row of each person."""
        return self._cost_of([path for path in self.step_costs if path in self.of_one_row])

    @property
    def cost_of_all_rows(self) -> PrivacyCost:
        """The cost for a row of the other steps."""
        return self._cost_of([path for path in self.step_costs if path not in self.of_one_row])

    def _cost_of(self, paths):
        nothing = PrivacyCost(self.budget.neighboring_relation)
        return sum((self.step_costs[path] for path in paths), nothing)

    def changed(self, **fields: Any) -> Self:
        """A plan with other fields; the caller vouches for their cost."""
        return replace(self, **fields)

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name in reports and ledgers."""
        return "pipeline"

    @property
    def proof(self) -> str:
        """The proposition by which costs of steps add up."""
        return "Proposition 52"

    def _privacy_account(self):
        return account_of_plan(self)

    def _title(self):
        return "Pipeline plan"

    def summary(self) -> dict[str, str]:
        """The lines of the printed plan, a dict of {name: text}."""
        return dict(self._lines())

    def _report_lines(self):
        return dict(self._own_lines()) | self._work()

    def _lines(self):
        own, of_last = self._own_lines(), self.plan_of_last
        last = dict(of_last._lines()) if isinstance(of_last, PlannedRelease) else {}
        last |= self._work()  # It stands where that of the last step does, which is part of it.
        known = {"spends", "protects", *dict(own)} - {"work"}
        return own + [(name, text) for name, text in last.items() if name not in known]

    def _own_lines(self):
        """The lines about all steps together, without those of the plan of the last one."""
        ends = self.step_budgets
        if self.persons is not None:
            costs = costs_of_steps(self)
            ends = {name: (cost.epsilon(self.delta), self.delta) for name, cost in costs.items()}
        steps = [(n, f"epsilon = {e:.4g}, delta = {d:.3g}") for n, (e, d) in ends.items()]
        if self.data_norm is not None:
            last = self.last
            steps.append(
                ("longest row", f"{self.data_norm:.4g}, by the steps before: data_norm of {last}")
            )
        if self.column_limit is not None:
            last = self.last
            steps.append(
                ("at most", f"{self.column_limit.n_columns:,} columns, which {last} can take")
            )
        return super()._lines() + steps

    def _work(self):
        """The line about the work of all steps, a dict of {name: text}."""
        seconds = self.estimated_seconds
        return {"work": f"very roughly {seconds:.2g} s"} if seconds > 0 else {}

    def _width(self, names):
        # Names of steps may be long.
        of_last = [name for name in names if name not in self.step_budgets]
        return len("protects") if self.plan_of_last is None else max(map(len, of_last))


def plan_pipeline(tree, n_samples, n_columns, header=None, labels=None):
    """The plan of a pipeline.

    Parameters
    ----------
    tree : StepTree
        Of a `PrivatePipeline`.
    n_samples, n_columns : int
    header : table without rows, default=None
        Given in a fit: the names and types of its columns.
    labels : callable, default=None
        Given in a fit: returns the labels that the last step finds, or None.

    Returns
    -------
    plan : PipelinePlan
    """
    with ignored_own_warnings():  # Of a step that is planned again and again.
        plan = _plan_pipeline(tree, n_samples, StepRows(n_columns, header=header), labels)
    for text in too_large_delta(plan.budget, plan.n_samples):
        warn(text, PrivacyWarning)
    return plan


def _plan_pipeline(tree, n_samples, rows, labels):
    pipeline = tree.estimator
    for child in tree.children:
        refuse_hidden(child)
    tree = with_rows(tree, rows)
    spending = paid_steps(tree)
    if not spending:
        raise ValueError(
            "no step of the pipeline is private: there is nothing to spend the budget on. Add a private "
            "step, or use scikit-learn's Pipeline."
        )
    if len({id(node.estimator) for node in spending}) < len(spending):
        raise ValueError(
            "the same private step is in the pipeline more than once, but it has only one epsilon: put "
            "sklearn.base.clone(step) in the other places."
        )
    _check_limits(pipeline, spending)
    _check_own_budgets(spending)
    final = spending[-1].estimator
    limit = pipeline.max_rows_per_group
    n_samples = planned_size(n_samples, final.neighboring_relation, final.public_size)
    relation = final.neighboring_relation
    n_persons = None
    if limit is not None and row_relation_and_distance(relation, limit)[0] != relation:
        n_persons, n_samples = n_samples, n_samples * int(limit)
    delta = default_delta(n_samples) if pipeline.delta is None else pipeline.delta
    budget = Budget(pipeline.epsilon, delta, final.neighboring_relation).checked()
    # What steps before the last one bound, from public information only.
    norm = spending[-1].before.norm if spending[-1] is tree.last else None
    if norm is not None and not NORMS[0] <= norm <= NORMS[1]:
        norm = None
    warnings = (*norm_warnings(final, norm), *misplaced_imputers(tree))
    if not hasattr(final, "data_norm") or final.data_norm is not None:
        norm = None  # The user's own wins.
    if norm is not None:
        spending[-1] = _with_settings(spending[-1], {"data_norm": norm})
    if limit is not None:
        of_rows = row_relation_and_distance(relation, limit)[0], n_samples, limit
        spending = [
            _with_settings(node, settings_for_persons(node.estimator, *of_rows))
            for node in spending
        ]
    cheaper = cheaper_steps(spending, relation, limit)
    make = partial(_split, pipeline.shares, spending, n_samples, warnings, cheaper)
    plan = make(budget) if limit is None else plan_for_persons(make, budget, int(limit))
    of_steps, seconds, plan_of_last = plans_of_steps(
        spending, plan.step_budgets, n_samples, n_persons
    )
    return plan.changed(
        warnings=(*plan.warnings, *(f"{path}: {text}" for path, text, _ in of_steps)),
        step_warnings=of_steps,
        estimated_seconds=seconds,
        plan_of_last=plan_of_last,
        described=described(tree, n_samples),
        leaks=tuple(tree.leaks()),
        data_norm=norm,
        column_limit=column_limit_of_last(tree, plan, spending, labels)
        if spending[-1].before.n_columns is None
        else None,
    )


def _with_settings(node, settings):
    """A node with a copy of its step that has other parameters."""
    return node._replace(estimator=clone(node.estimator).set_params(**settings))


def seed_of(tree):
    """The seed of the last step that is paid for and has one, or None.

    Other steps may have seeds that are public. Those that are paid for void the guarantee anyway, and say so.
    """
    seeds = [getattr(node.estimator, "random_state", None) for node in paid_steps(tree)]
    return next((seed for seed in reversed(seeds) if seed is not None), None)


def _check_own_budgets(spending):
    """Raise a ValueError if a step has a budget of its own, which a fit would not keep to."""
    given_budgets = []
    for node in spending:
        step = node.estimator
        parameters = inspect.signature(type(step)).parameters
        for name in {"epsilon", "delta"} & set(parameters):
            default, value = parameters[name].default, getattr(step, name)
            if default is not inspect.Parameter.empty and value != default:
                given_budgets.append(f"{node.path}__{name}={value!r}")
    if given_budgets:
        raise ValueError(
            f"{', '.join(sorted(given_budgets))}: a private pipeline splits its own epsilon and delta over "
            "its steps, and would ignore those of a step. Leave them at their defaults, and set those of the "
            "pipeline. "
            f"Its shares decide who gets how much, e.g. shares={{{spending[0].path!r}: 0.1}}."
        )


def _check_limits(pipeline, spending):
    """Raise a ValueError if the limit of rows per person is invalid, or set in a step."""
    limit = pipeline.max_rows_per_group
    if limit is not None and not (
        is_number(limit) and isinstance(limit, Integral) and int(limit) >= 1
    ):
        raise ValueError(f"max_rows_per_group must be a positive integer or None, got {limit!r}.")
    limited = [
        node.path
        for node in spending
        if getattr(node.estimator, "max_rows_per_group", None) is not None
    ]
    if limited:
        raise ValueError(
            f"max_rows_per_group is set in {limited}, and the other steps would still use all rows of a "
            "person: set it in the pipeline, and leave it None in the steps."
        )


def _split(shares, spending, n_samples, warnings, cheaper, budget):
    """The plan that splits a budget over private steps."""
    *early, final = spending
    for node in early:
        if node.before.n_columns is None:
            raise ValueError(
                f"{node.path} comes after a step whose number of output columns is not public: put it before "
                "that step."
            )
    early = [node for node in early if node.before.n_columns > 0]
    last, width = final.path, final.before.n_columns
    if width == 0:
        raise ValueError(
            f"no column reaches {last}: give the steps before it columns. A function that selects columns "
            "sees their names and types in a plan, and no rows."
        )
    shares = _shares(shares, early, last)
    steps, costs = {}, {}
    for node in early:
        part = larger_budget(budget, cheaper.get(node.path, 1))
        epsilon, delta = steps[node.path] = _part_of(part, shares[node.path], len(early))
        costs[node.path] = cost_of_step(
            node.estimator, epsilon, delta, n_samples, node.before.n_columns
        )
    nothing = PrivacyCost(budget.neighboring_relation)
    spent = sum((smaller_cost(cost, cheaper.get(path, 1)) for path, cost in costs.items()), nothing)
    steps[last], costs[last] = remainder(final.estimator, budget, spent, n_samples, width)
    failing = [
        node.estimator
        for node in spending
        if node.path in costs and costs[node.path].failure_probability > 0
    ]
    return PipelinePlan(
        budget=budget,
        cost=sum(costs.values(), nothing),
        n_samples=n_samples,
        step_budgets=steps,
        step_costs=costs,
        warnings=warnings,
        of_one_row=tuple(path for path in steps if path in cheaper),
        failure_is_of_persons=all(getattr(step, "rows_per_person", 1) > 1 for step in failing),
    )


def _shares(given, early, last):
    """The share of each step but the last."""
    paths = [node.path for node in early]
    if given is None:
        widths = [node.before.n_columns for node in early]
        parts = [(1.0 - _FINAL_SHARE) * width / sum(widths) for width in widths]
        return dict(zip(paths, parts, strict=True))
    if set(given) - {last} != set(paths) or not all(
        is_number(share) and 0 < share < 1 for share in given.values()
    ):
        raise ValueError(f"shares must have a number in (0, 1) for each of {[*paths, last]}.")
    total = sum(given.values()) if last in given else 1.0
    shares = {path: given[path] / total for path in paths}
    if sum(shares.values()) >= 1:
        raise ValueError(f"shares of {paths} leave nothing for {last}: their sum must be below 1.")
    return shares


def _part_of(budget, share, n_steps):
    """(epsilon, delta) of a step."""
    if not budget.is_private:
        return math.inf, budget.delta
    if budget.delta == 0:
        return share * budget.epsilon, 0.0
    delta = _DELTA_SHARE * budget.delta / n_steps
    return gaussian_epsilon(math.sqrt(share) * budget.mu, delta), delta
