"""Whether a plan holds for a target: all that a plan relies on is compared, one number by one.

    G, B, R, w, G / R, B / R^2  of the target  <=  those of the plan,        b, blocks, records  the same

A plan relies on more than the product of these numbers. Rows that are ten times as long, with weights of a
tenth, have the same bound on gradients, and second moments that are a hundred times as large.
"""

import numpy as np

from ..targets import TargetBounds
from ..targets.linear.target import LinearTarget
from ._machinery.compiled_entries import count_examples

# What is computed in another order may differ by rounding.
_CLOSE = 1.0 + 1e-12


def check_made_for(plan, target):
    """Raise a ValueError if a plan was not made for a target."""
    bounds = plan.bounds
    _check_at_most("gradient_bound", target.gradient_bound, bounds.gradient_bound)
    precision = getattr(target, "prior_precision", None)
    if precision is not None:
        _check_precision(precision, bounds)
    if hasattr(target, "smoothness"):
        _check_at_most("smoothness", target.smoothness, bounds.smoothness * _CLOSE)
    own = getattr(target, "bounds", None)
    if isinstance(own, TargetBounds):
        _check_bounds(own, bounds)
    # The number of records is public under replace_one only, and otherwise not compared.
    replaced = plan.budget.neighboring_relation == "replace_one"
    if replaced and count_examples(target) != plan.n_samples:
        raise ValueError(
            f"the plan is for {plan.n_samples} records, but the target has {count_examples(target)}."
        )


def _check_precision(precision, bounds):
    low, high = bounds.prior_precision
    if np.shape(precision) != (bounds.n_parameters,):
        raise ValueError(
            f"the plan is for {bounds.n_parameters} parameters, but the target's "
            f"prior_precision has shape {np.shape(precision)}."
        )
    if not (low <= precision.min() and precision.max() <= high):
        raise ValueError(f"the plan assumes prior precisions between {low:g} and {high:g}.")


def check_linear(plan, target, kind, remedy="plan another sampler"):
    """Raise a ValueError if a plan was made for another target, or this one is of no linear model.

    Parameters
    ----------
    plan : Plan
    target : NamedTuple
    kind, remedy : str
        Which targets are needed, and what to do if this is none of them, for the message.
    """
    check_made_for(plan, target)
    if not isinstance(target, LinearTarget):
        raise ValueError(
            f"sampler={plan.name!r} needs one of the package's own {kind}, and {type(target).__name__} is "
            f"not one: {remedy}."
        )


def _check_bounds(own, bounds):
    """Compare a target's own bounds with a plan's; those on rows only if the plan knows of rows."""
    _check_at_most("gradient_bound", own.gradient_bound, bounds.gradient_bound)
    _check_at_most("smoothness", own.smoothness, bounds.smoothness * _CLOSE)
    _check_at_most("max_weight", own.max_weight or 1.0, bounds.max_weight or 1.0)
    if bounds.convex and not own.convex:
        raise ValueError("the plan assumes convex=True, but the target may not be convex.")
    if bounds.row_norm is None:
        return
    if own.row_norm is None:
        raise ValueError(
            "the plan is for a target of rows, with a row_norm, but the target has none: make the plan from "
            "the target's own bounds."
        )
    if bounds.family is not None and own.family != bounds.family:
        raise ValueError(
            f"the plan is for {bounds.family}, but the target's is {own.family}: make the plan from the "
            "target's own bounds."
        )
    for name in ("n_blocks", "constant"):
        value, planned = getattr(own, name), getattr(bounds, name)
        if value != planned:
            raise ValueError(
                f"the plan is for {name}={planned:g}, but the target's is {value:g}: make the plan from the "
                "target's own bounds."
            )
    _check_at_most("row_norm", own.row_norm, bounds.row_norm * _CLOSE)
    for name, power in (("gradient_bound", 1), ("smoothness", 2)):
        ratios = [getattr(one, name) / one.row_norm**power for one in (own, bounds)]
        _check_at_most(f"{name} / row_norm^{power}", ratios[0], ratios[1] * _CLOSE)


def _check_at_most(name, value, largest):
    if not value <= largest:
        raise ValueError(
            f"the plan assumes {name}={largest:g}, but the target's is {value:g}: make the plan from the "
            "target's own bounds."
        )
