"""What a report says of the steps of a pipeline: those that spend, and those that are known to be free.

cost = cost of step 1 + ... + cost of step k

Fitted steps tell what they used; a plan tells what is known of them beforehand.
"""

from typing import Any

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..privacy.budget import Budget
from ..privacy.cost import composed
from ..privacy.losses import between_rows
from ..privacy.planned_release import LONGEST_ROW, Disclosure, StepDisclosure, as_json
from ..privacy.units import cost_for_persons, row_relation_and_distance
from ..privacy.unsafe_callers import StepTree, fitted_tree, own_leaks, step_tree
from ..report.account import (
    Account,
    Step,
    cost_fields,
    finite,
    plan_account,
    register,
    release_of,
    step_of,
    takes_labels_from_rows,
    with_seeds,
)
from ._steps import is_free, is_identity, leaves

_READS_ONE_ROW = (
    "Reads one row of each person, and costs a person what it costs a row (Proposition 54)."
)


def account_of_private(pipeline: Any) -> Account:
    """The account of a fitted `PrivatePipeline`."""
    plan = pipeline.plan_
    steps = _noted(_described(pipeline, costs_of_steps(plan), plan.n_samples), plan)
    account = plan_account(plan, "pipeline")._replace(
        name=type(pipeline).__name__,
        steps=tuple(steps),
        releases=tuple(_release(step, plan.delta) for step in steps if step.role == "charged"),
        unprotected=unprotected_by([pipeline]),
        warnings=plan.leaks or tuple(step_tree(pipeline).leaks()),
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
        private = [leaf for leaf, _ in leaves(fitted_tree(pipeline)) if leaf.is_private]
        fitted = all(hasattr(leaf.estimator, "plan_") for leaf in private)
    except NotFittedError:
        fitted = False
    if not fitted:
        raise NotFittedError(
            "a step of this pipeline is not fitted: fit the pipeline, or report the plan of its last step."
        )
    if not private:
        raise TypeError(
            "no step of the pipeline is private, and there is nothing to report: a report needs a fitted "
            "estimator of skdpbayes, or a pipeline that holds one."
        )
    plans = {leaf.path: leaf.estimator.plan_ for leaf in private}
    costs = {path: plan.cost for path, plan in plans.items()}
    account = plan_account(list(plans.values())[-1], "pipeline")
    asked = account.budget
    if len([cost for cost in costs.values() if not cost.is_zero]) > 1:
        # Each step had a ceiling, and the whole had none.
        asked = Budget(float("inf"), asked.delta, asked.neighboring_relation)
    rows = getattr(plans[private[0].path], "n_samples", None)
    # Their plans are read now, so that what this costs is what they cost.
    fits = tuple(leaf.estimator for leaf in private if not leaf.estimator.plan_.cost.is_zero)
    account = account._replace(
        cost=composed(tuple(costs.values())),
        budget=asked,
        name=type(pipeline).__name__,
        steps=tuple(_described(pipeline, costs, rows)),
        releases=tuple(
            {"estimator": type(leaf.estimator).__name__, **release_of(leaf.estimator.plan_)}
            for leaf in private
            if not leaf.estimator.plan_.cost.is_zero
        ),
        unprotected=unprotected_by([leaf.estimator for leaf in private]),
        warnings=tuple(step_tree(pipeline).leaks()),
        rows=rows,
        proof="Proposition 2",
        may_have_changed=True,
        fits=fits,
        charges=tuple(getattr(fit, "_charges_of_fit", None) for fit in fits),
    )
    return with_seeds(account, pipeline)


def steps_within(pipeline: Any, rows: int | None) -> tuple[Step, ...]:
    """The steps before the last of a fitted pipeline that a search has chosen, and has paid for."""
    spending = {
        leaf.path
        for leaf, _ in leaves(fitted_tree(pipeline))
        if leaf.is_private and _spends(leaf.estimator)
    }
    return tuple(
        step._replace(role="within") if step.name in spending else step
        for step in _described(pipeline, {}, rows)[:-1]
    )


def _spends(step):
    plan = getattr(step, "plan_", None)
    return not (is_free(step) if plan is None else plan.cost.is_zero)


def described(tree: StepTree, rows: int) -> tuple[Step, ...]:
    """The disclosures of a pipeline's steps before a fit."""
    fixed = getattr(tree.estimator, "learns_nothing", None) or ()
    disclosures = []
    for node in tree.walk():
        if node.kind != "word" and not node.is_composite and not is_identity(node.estimator):
            # Without what an earlier fit left.
            step = clone(node.estimator) if hasattr(node.estimator, "_about") else node.estimator
            disclosed = _step(node._replace(estimator=step), None, rows, fixed, {})
            disclosures.append(disclosed if node.is_private else disclosed._replace(columns=None))
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
        if plan.data_norm is not None and step.name == plan.last:
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
    inside = [leaf.estimator for step in steps for leaf, _ in leaves(fitted_tree(step))]
    if any(map(takes_labels_from_rows, [*steps, *inside])):
        return ("The set of labels, which was taken from the data (classes=None)",)
    return ()


def _described(pipeline, costs, rows):
    fixed = getattr(pipeline, "learns_nothing", None) or ()
    nodes = step_tree(pipeline).walk()
    leak_texts = {node.path: text for node in nodes for text in own_leaks(node)[:1]}
    steps, leaked = [], False
    for leaf, names in leaves(fitted_tree(pipeline)):
        step = _step(leaf, costs.get(leaf.path), rows, fixed, leak_texts, names)
        steps.append(_without_columns(step) if leaked else step)
        leaked |= step.role == "unproven"
    return steps


def _without_columns(step):
    """A step behind one that may have learnt from the rows, whose columns' names may tell of them."""
    facts = tuple(fact for fact in step.about.facts if fact.column is None)
    return step._replace(columns=None, about=step.about._replace(facts=facts))


def _step(node, cost, rows, fixed, leak_texts, names=None):
    """The `Step` of a node; ``fixed`` are the paths of those that learn nothing in the user's word."""
    step = node.estimator
    fields = {"rows": rows}
    if getattr(step, "feature_names_in_", None) is None and names is not None:
        count = getattr(step, "n_features_in_", len(names))
        fields["columns"] = tuple(map(str, names)) if count == len(names) else count
    if node.path in fixed and not node.is_private:
        fields["role"] = "vouched"
    elif not node.is_private:
        text = leak_texts.get(node.path) or next(iter(step_tree(step).leaks()), "")
        fields["role"], fields["note"] = ("unproven", text) if text else ("free", "")
    result = step_of(step, cost, node.path, **fields)
    return (
        result
        if result.about.facts
        else result._replace(about=result.about._replace(facts=_facts(step)))
    )


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


register(Pipeline, account_of_ordinary)
