"""What a report says of the steps of a pipeline: those that spend, and those that are known to be free.

cost = cost of step 1 + ... + cost of step k

Fitted steps tell what they used; a plan tells what is known of them beforehand.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from ..privacy.budget import Budget
from ..privacy.cost import composed
from ..privacy.losses import between_rows
from ..privacy.planned_release import LONGEST_ROW, Disclosure, StepDisclosure, as_json
from ..privacy.units import cost_for_persons, row_relation_and_distance
from ..report.account import (
    Account,
    Step,
    asked_for,
    cost_fields,
    finite,
    plan_account,
    register,
    release_of,
    step_of,
    takes_labels_from_rows,
    with_seeds,
)
from ._steps import (
    children,
    fitted_branches,
    is_free,
    is_private,
    leaks,
    leaks_by_path,
    names_behind,
    walk,
)

_READS_ONE_ROW = (
    "Reads one row of each person, and costs a person what it costs a row (Proposition 54)."
)


class _Leaf(NamedTuple):
    """A step that holds no others: its name in the pipeline, and the names of its columns, if known."""

    path: str
    step: Any
    names: Any = None


def account_of_private(pipeline: Any) -> Account:
    """The account of a fitted `PrivatePipeline`."""
    plan = pipeline.plan_
    steps = _noted(_described(pipeline, costs_of_steps(plan), plan.n_samples), plan)
    known = [leaf.step for leaf in leaves(pipeline)]
    account = plan_account(plan, "pipeline")._replace(
        name=type(pipeline).__name__,
        steps=tuple(steps),
        releases=tuple(_release(step, plan.delta) for step in steps if step.role == "charged"),
        unprotected=unprotected_by(known),
        warnings=plan.leaks or tuple(leaks(pipeline)),
    )
    return with_seeds(account, pipeline)


def account_of_plan(plan: Any) -> Account:
    """The account of the plan of a pipeline."""
    costs = costs_of_steps(plan)
    known = {step.name: step for step in plan.described}
    steps = []
    for name in dict.fromkeys([*known, *costs]):
        step = known.get(name) or Step(name, "", "charged", rows=plan.n_samples)
        if (cost := costs.get(name)) is not None:
            step = step._replace(cost=cost, role="free" if cost.is_zero else "charged")
        steps.append(step)
    steps = _noted(steps, plan)
    return plan_account(plan)._replace(
        name="PrivatePipeline",
        steps=tuple(steps),
        releases=tuple(_release(step, plan.delta) for step in steps if step.role == "charged"),
        warnings=plan.leaks,
    )


def account_of_ordinary(pipeline: Any) -> Account:
    """The account of a fitted pipeline of scikit-learn: its private steps have budgets of their own.

    Raises
    ------
    NotFittedError
    TypeError
        If no step is private.
    ValueError
        If its steps protect different things.
    """
    try:
        check_is_fitted(pipeline)
        private_leaves = [leaf for leaf in leaves(pipeline) if is_private(leaf.step)]
        fitted = all(hasattr(leaf.step, "plan_") for leaf in private_leaves)
    except NotFittedError:
        fitted = False
    if not fitted:
        raise NotFittedError(
            "a step of this pipeline is not fitted: fit the pipeline, or report the plan of its last step."
        )
    if not private_leaves:
        raise TypeError(
            "no step of the pipeline is private, and there is nothing to report: a report needs a fitted "
            "estimator of skdpbayes, or a pipeline that holds one."
        )
    plans = {leaf.path: leaf.step.plan_ for leaf in private_leaves}
    costs = {path: plan.cost for path, plan in plans.items()}
    last = list(plans.values())[-1]
    asked = asked_for(last)
    if len([cost for cost in costs.values() if not cost.is_zero]) > 1:
        # Each step had a ceiling, and the whole had none.
        asked = Budget(float("inf"), asked.delta, asked.neighboring_relation)
    rows = getattr(plans[private_leaves[0].path], "n_samples", None)
    account = plan_account(last, "pipeline")._replace(
        cost=composed(tuple(costs.values())),
        budget=asked,
        name=type(pipeline).__name__,
        steps=tuple(_described(pipeline, costs, rows)),
        releases=tuple(
            {"estimator": type(leaf.step).__name__, **release_of(leaf.step.plan_)}
            for leaf in private_leaves
            if not leaf.step.plan_.cost.is_zero
        ),
        unprotected=unprotected_by([leaf.step for leaf in private_leaves]),
        warnings=tuple(leaks(pipeline)),
        rows=rows,
        proof="Proposition 2",
        may_have_changed=True,
    )
    return with_seeds(account, pipeline)


def steps_within(pipeline: Any, rows: int | None) -> tuple[Step, ...]:
    """The steps before the last of a fitted pipeline that a search has chosen, and has paid for."""
    spending = {
        leaf.path for leaf in leaves(pipeline) if is_private(leaf.step) and _spends(leaf.step)
    }
    return tuple(
        step._replace(role="within") if step.name in spending else step
        for step in _described(pipeline, {}, rows)[:-1]
    )


def _spends(step):
    plan = getattr(step, "plan_", None)
    return not (is_free(step) if plan is None else plan.cost.is_zero)


def described(pipeline: Any, rows: int) -> tuple[Step, ...]:
    """The disclosures of a pipeline's steps before a fit."""
    disclosures = []
    for path, step, held in walk(pipeline):
        if step is None or isinstance(step, str) or held is not None or _is_identity(step):
            continue
        step_copy = (
            clone(step) if hasattr(step, "_about") else step
        )  # Without what an earlier fit left.
        disclosed = _step(pipeline, _Leaf(path, step_copy), None, rows, {})
        disclosures.append(disclosed if is_private(step) else disclosed._replace(columns=None))
    return tuple(disclosures)


def costs_of_steps(plan: Any) -> dict[str, Any]:
    """The cost of each step for what the plan protects: rows, or persons."""
    if plan.persons is None:
        return dict(plan.step_costs)
    relation = between_rows(plan.requested_budget.neighboring_relation)
    _, count = row_relation_and_distance(relation, plan.persons.max_rows)
    hidden = plan.failure_is_of_persons
    return {
        path: cost_for_persons(
            cost, relation, 1 if path in plan.of_one_row else count, failure_is_of_persons=hidden
        )
        for path, cost in plan.step_costs.items()
    }


def _noted(steps, plan):
    """Steps with a note where one row of each person is read, and with the norm that the plan gives."""
    noted = []
    for step in steps:
        if step.name in plan.of_one_row:
            step = step._replace(note=_READS_ONE_ROW)
        if plan.data_norm is not None and step.name == list(plan.step_budgets)[-1]:
            norm = Disclosure(LONGEST_ROW, as_json(plan.data_norm), "steps")
            facts = tuple(norm if fact.what == LONGEST_ROW else fact for fact in step.about.facts)
            step = step._replace(about=step.about._replace(facts=facts))
        noted.append(step)
    return noted


def _release(step, delta):
    return {
        "estimator": step.kind,
        "step": step.name,
        "epsilon": finite(step.cost.epsilon(delta)),
        "cost": cost_fields(step.cost),
    }


def about_of_private(pipeline: Any) -> StepDisclosure:
    """The disclosures of a private pipeline's steps, together."""
    steps = _described(pipeline, {}, None)
    return StepDisclosure(tuple(fact for step in steps for fact in step.about.facts))


def unprotected_by(steps: Any) -> tuple[str, ...]:
    """The numbers that fitted steps, or those of pipelines among them, took from the rows as public."""
    inside = [leaf.step for step in steps if isinstance(step, Pipeline) for leaf in leaves(step)]
    if any(map(takes_labels_from_rows, [*steps, *inside])):
        return ("The set of labels, which was taken from the data (classes=None)",)
    return ()


def _described(pipeline, costs, rows):
    leak_texts, steps, leaked = dict(leaks_by_path(pipeline)), [], False
    for leaf in leaves(pipeline):
        step = _step(pipeline, leaf, costs.get(leaf.path), rows, leak_texts)
        steps.append(_without_columns(step) if leaked else step)
        leaked |= step.role == "unproven"
    return steps


def _without_columns(step):
    """A step behind one that may have learnt from the rows, whose columns' names may tell of them."""
    facts = tuple(fact for fact in step.about.facts if fact.column is None)
    return step._replace(columns=None, about=step.about._replace(facts=facts))


def _step(pipeline, leaf, cost, rows, leak_texts):
    path, step, names = leaf
    fields = {"rows": rows}
    if getattr(step, "feature_names_in_", None) is None and names is not None:
        count = getattr(step, "n_features_in_", len(names))
        fields["columns"] = tuple(map(str, names)) if count == len(names) else count
    if not is_private(step):
        fields["role"], fields["note"] = _role(pipeline, path, step, leak_texts)
    result = step_of(step, cost, path, **fields)
    return (
        result
        if result.about.facts
        else result._replace(about=result.about._replace(facts=_facts(step)))
    )


def _role(pipeline, path, step, leak_texts):
    if path in (getattr(pipeline, "learns_nothing", None) or ()):
        return "vouched", ""
    text = leak_texts.get(path) or next(iter(leaks(step)), "")
    return ("unproven", text) if text else ("free", "")


def _facts(step):
    """The public lists of an encoder of scikit-learn, and the constant of an imputer."""
    facts = []
    lists = getattr(step, "categories", None)
    if isinstance(lists, list | tuple):
        names = getattr(step, "feature_names_in_", range(len(lists)))
        facts += [
            Disclosure("categories", as_json(list(values)), "declared", str(name))
            for name, values in zip(names, lists, strict=False)
        ]
    if getattr(step, "strategy", None) == "constant" and hasattr(step, "fill_value"):
        facts.append(Disclosure("value for missing ones", as_json(step.fill_value), "declared"))
    return tuple(facts)


def leaves(step: Any, path: str = "", names: Any = None) -> Iterator[_Leaf]:
    """Yield the steps of a fitted pipeline that hold no others, in their order."""
    if step is None or isinstance(step, str) or _is_identity(step):
        return
    # A private pipeline inside another has a budget of its own, and may protect persons.
    if children(step) is None or (path and is_private(step)):
        yield _Leaf(path.removesuffix("__"), step, names)
    elif isinstance(step, Pipeline):
        for name, child in step.steps:
            yield from leaves(child, f"{path}{name}__", names)
            names = names_behind(child, names)
    elif isinstance(step, ColumnTransformer):
        yield from _leaves_of_columns(step, path)
    elif isinstance(step, FeatureUnion):
        for name, child in step.transformer_list:
            yield from leaves(child, f"{path}{name}__", names)


def _leaves_of_columns(step, path):
    check_is_fitted(step)
    own = getattr(step, "feature_names_in_", None)
    taken = set()
    for name, child, places in fitted_branches(step):
        taken.add(name)
        names = [f"column {j}" for j in places] if own is None else [own[j] for j in places]
        yield from leaves(child, f"{path}{name}__", names)
    for name, child, _ in step.transformers_:  # Branches of which no column comes out.
        if name not in taken:
            yield from leaves(child, f"{path}{name}__")


def _is_identity(step):
    return type(step) is FunctionTransformer and step.func is None and step.inverse_func is None


register(Pipeline, account_of_ordinary)
