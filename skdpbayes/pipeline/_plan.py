"""How one budget is split over the steps of a pipeline, from public numbers only.

mu_i^2 = s_i mu(epsilon, delta)^2  for all spending steps but the last, which gets what is left
"""

import inspect
import math
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any, Self

from sklearn.base import clone

from .._checks import is_number, planned_size
from ..privacy.budget import Budget, default_delta
from ..privacy.cost import PrivacyCost
from ..privacy.gaussian import gaussian_epsilon
from ..privacy.persons import Persons, chain_of_rows, plan_for_persons
from ..privacy.release import PlannedRelease
from ._account import account_of_plan, costs_of_steps, described
from ._columns import refuse_hidden, spending_steps
from ._last_step import cost_of_step, remainder
from ._leaks import is_free, leaks
from ._norms import longest_last_row, norm_warnings
from ._steps_of_persons import cheaper_steps, larger_budget, settings_for_persons, smaller_cost
from ._told import step_warnings

_FINAL_SHARE = 0.8
# Share of delta for all steps but the last, which they need for categories of a single row.
_DELTA_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class PipelinePlan(PlannedRelease):
    """What a pipeline does and costs. Attributes are public numbers.

    Attributes
    ----------
    budget : Budget
        The requested budget; with ``persons``, the budget of a row.
    cost : PrivacyCost
        What all steps spend together, whatever the rows hold.
    n_samples : int
        The public size of the table.
    steps : dict of {str: (float, float)}
        Epsilon and delta of each spending step; with ``persons``, those for rows that it is given.
    costs : dict of {str: PrivacyCost}
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
    of_one_row : tuple of str, default=()
        Spending steps that read one row of each person, and cost a person what they cost a row.
    described : tuple of Step, default=()
        What is known of all steps beforehand, for reports.
    leaks : tuple of str, default=()
        What ``cost`` does not cover, because steps may learn without noise.
    """

    budget: Budget
    cost: PrivacyCost
    n_samples: int
    steps: dict[str, tuple[float, float]]
    costs: dict[str, PrivacyCost]
    warnings: tuple[str, ...] = ()
    persons: Persons | None = None
    failure_is_of_persons: bool = False
    data_norm: float | None = None
    of_one_row: tuple[str, ...] = ()
    described: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    leaks: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def asked(self) -> Budget:
        """The requested budget, under the neighbouring relation of rows or persons."""
        return self.budget if self.persons is None else self.persons.budget

    @property
    def cost_of_one_row(self) -> PrivacyCost:
        """What the steps that read one row of each person cost together, for a row."""
        return self._cost_of([path for path in self.costs if path in self.of_one_row])

    @property
    def cost_of_all_rows(self) -> PrivacyCost:
        """What the other steps cost together, for a row."""
        return self._cost_of([path for path in self.costs if path not in self.of_one_row])

    def _cost_of(self, paths):
        nothing = PrivacyCost(self.budget.neighboring_relation)
        return sum((self.costs[path] for path in paths), nothing)

    def changed(self, **fields: Any) -> Self:
        """Return a plan with other fields; the caller vouches for their cost."""
        return replace(self, **fields)

    @property
    def name(self) -> str:  # type: ignore[override]
        """What it is called in reports and ledgers."""
        return "pipeline"

    @property
    def proof(self) -> str:
        """The proposition by which costs of steps add up."""
        return "Proposition 52"

    def _privacy_account(self):
        return account_of_plan(self)

    def _title(self):
        return "Pipeline plan"

    def _lines(self):
        ends = self.steps
        if self.persons is not None:
            costs = costs_of_steps(self)
            ends = {name: (cost.epsilon(self.delta), self.delta) for name, cost in costs.items()}
        steps = [(n, f"epsilon = {e:.4g}, delta = {d:.3g}") for n, (e, d) in ends.items()]
        if self.data_norm is not None:
            last = list(self.steps)[-1]
            steps.append(
                ("longest row", f"{self.data_norm:.4g}, by the steps before: data_norm of {last}")
            )
        return super()._lines() + steps

    def _width(self, names):
        # Names of steps may be long.
        return len("protects")


def plan_pipeline(pipeline, n_samples, n_columns, header=None):
    """Return the plan of a pipeline.

    Parameters
    ----------
    pipeline : PrivatePipeline
    n_samples, n_columns : int
    header : table without rows, default=None
        Given in a fit: the names and types of its columns.

    Returns
    -------
    plan : PipelinePlan
    """
    for _, step in pipeline.steps:
        refuse_hidden(step)
    found = [one for one in spending_steps(pipeline, n_columns, header)[0] if not is_free(one[1])]
    if not found:
        raise ValueError(
            "no step of the pipeline is private: there is nothing to spend the budget on. Add a private "
            "step, or use scikit-learn's Pipeline."
        )
    if len({id(step) for _, step, _ in found}) < len(found):
        raise ValueError(
            "the same private step is in the pipeline more than once, but it has only one epsilon: put "
            "sklearn.base.clone(step) in the other places."
        )
    _check_limits(pipeline, found)
    _check_own_budgets(found)
    last, final, width = found[-1]
    limit = pipeline.max_rows_per_group
    n_samples = planned_size(n_samples, final.neighboring_relation, final.public_size)
    relation = final.neighboring_relation
    n_persons = None
    if limit is not None and chain_of_rows(relation, limit)[0] != relation:
        n_persons, n_samples = n_samples, n_samples * int(limit)
    delta = default_delta(n_samples) if pipeline.delta is None else pipeline.delta
    budget = Budget(pipeline.epsilon, delta, final.neighboring_relation).checked()
    norm = longest_last_row(pipeline, final, n_columns, header)
    told = norm_warnings(final, norm)
    if not hasattr(final, "data_norm") or final.data_norm is not None:
        norm = None  # The user's own wins.
    if norm is not None:
        found[-1] = last, clone(final).set_params(data_norm=norm), width
    if limit is not None:
        of_rows = chain_of_rows(relation, limit)[0]
        found = [
            (
                path,
                clone(step).set_params(**settings_for_persons(step, of_rows, n_samples, limit)),
                n,
            )
            for path, step, n in found
        ]
    make = partial(
        _split, pipeline.shares, found, n_samples, told, cheaper_steps(found, relation, limit)
    )
    plan = make(budget) if limit is None else plan_for_persons(make, budget, int(limit))
    return plan.changed(
        warnings=plan.warnings + step_warnings(found, plan.steps, n_samples, n_persons),
        described=described(pipeline, n_samples),
        leaks=tuple(leaks(pipeline)),
        data_norm=norm,
    )


def seed_of(pipeline, n_columns, header):
    """Return the seed of the last step that is paid for and has one, or None.

    Other steps may have seeds that are public. Those that are paid for void the guarantee anyway, and say so.
    """
    found = [step for _, step, _ in spending_steps(pipeline, n_columns, header)[0]]
    seeds = [getattr(step, "random_state", None) for step in found if not is_free(step)]
    return next((seed for seed in reversed(seeds) if seed is not None), None)


def _check_own_budgets(found):
    """Raise a ValueError if a step has a budget of its own, which a fit would not keep to."""
    own = []
    for path, step, _ in found:
        parameters = inspect.signature(type(step)).parameters
        for name in {"epsilon", "delta"} & set(parameters):
            default, value = parameters[name].default, getattr(step, name)
            if default is not inspect.Parameter.empty and value != default:
                own.append(f"{path}__{name}={value!r}")
    if own:
        raise ValueError(
            f"{', '.join(sorted(own))}: a private pipeline splits its own epsilon and delta over its steps, "
            "and would ignore those of a step. Leave them at their defaults, and set those of the pipeline. "
            f"Its shares decide who gets how much, e.g. shares={{{found[0][0]!r}: 0.1}}."
        )


def _check_limits(pipeline, found):
    """Raise a ValueError if the limit of rows per person is invalid, or set in a step."""
    limit = pipeline.max_rows_per_group
    if limit is not None and not (
        is_number(limit) and isinstance(limit, Integral) and int(limit) >= 1
    ):
        raise ValueError(f"max_rows_per_group must be a positive integer or None, got {limit!r}.")
    own = [path for path, step, _ in found if getattr(step, "max_rows_per_group", None) is not None]
    if own:
        raise ValueError(
            f"max_rows_per_group is set in {own}, and the other steps would still use all rows of a person: "
            "set it in the pipeline, and leave it None in the steps."
        )


def _split(shares, found, n_samples, told, cheaper, budget):
    """Return the plan that splits a budget over private steps."""
    *early, (last, final, width) = found
    early = [one for one in early if _has_columns(*one)]
    if width == 0:
        raise ValueError(
            f"no column reaches {last}: give the steps before it columns. A function that selects columns "
            "sees their names and types in a plan, and no rows."
        )
    shares = _shares(shares, early, last)
    steps, costs = {}, {}
    for path, step, columns in early:
        part = larger_budget(budget, cheaper.get(path, 1))
        epsilon, delta = steps[path] = _part_of(part, shares[path], len(early))
        costs[path] = cost_of_step(step, epsilon, delta, n_samples, columns)
    nothing = PrivacyCost(budget.neighboring_relation)
    spent = sum((smaller_cost(cost, cheaper.get(path, 1)) for path, cost in costs.items()), nothing)
    steps[last], costs[last] = remainder(final, budget, spent, n_samples, width)
    failing = [step for path, step, _ in found if path in costs and costs[path].failure > 0]
    return PipelinePlan(
        budget=budget,
        cost=sum(costs.values(), nothing),
        n_samples=n_samples,
        steps=steps,
        costs=costs,
        warnings=told,
        of_one_row=tuple(path for path in steps if path in cheaper),
        failure_is_of_persons=all(getattr(step, "rows_per_person", 1) > 1 for step in failing),
    )


def _has_columns(path, step, columns):
    if columns is None:
        raise ValueError(
            f"{path} comes after a step whose number of output columns is not public: put it before that "
            "step."
        )
    return columns > 0


def _shares(given, early, last):
    """Return the share of each step but the last."""
    paths = [path for path, _, _ in early]
    if given is None:
        total = sum(columns for _, _, columns in early)
        return {path: (1.0 - _FINAL_SHARE) * columns / total for path, _, columns in early}
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
    """Return (epsilon, delta) of a step."""
    if not budget.is_private:
        return math.inf, budget.delta
    if budget.delta == 0:
        return share * budget.epsilon, 0.0
    delta = _DELTA_SHARE * budget.delta / n_steps
    return gaussian_epsilon(math.sqrt(share) * budget.mu, delta), delta
