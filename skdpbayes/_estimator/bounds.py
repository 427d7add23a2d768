"""Bounds from the rows: quantiles of their norms or responses, each drawn with a small share of the budget.

    plan for any bounds -> charge it -> R ~ exp(-a d(R)) -> plan at R, with the rest of the budget

Quantiles are drawn as in `skdpbayes._mechanisms.exponential`. The rest of the budget is fixed beforehand, as
a ``mu``, so that the total cost does not depend on the bounds. The idea is due to Andrew, Thakkar, McMahan
and Ramaswamy (2021). An estimator says by `BoundsToLearn` which bounds it draws, and a plan that begins with
this by its ``bound_release``.
"""

import math
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, NamedTuple

from scipy.special import ndtri

from .._mechanisms.exponential import draw_quantiles, draws_cost
from ..exceptions import DataScalingWarning
from ..models.rows import checked_norm, row_norms
from ..privacy.charge import authorizations, charge
from ..privacy.conversions import smallest_within
from ..privacy.cost import PrivacyCost
from ..privacy.deferred_warnings import warn
from ..random import separate_generator
from ..samplers.plan import BoundRelease, check_plan

# Share of the squared mu.
BOUNDS_SHARE = 0.02
# Ranks between the quantile and the largest norm, in units of the noise.
_RANKS_TO_LARGEST = 12.0
# Highest quantile level of norms.
_HIGHEST_NORM_LEVEL = 0.95
# Lowest quantile level of norms.
_LOWEST_NORM_LEVEL = 0.5
# Highest quantile level for learnt target_bounds. Responses are cut, not rescaled, so it is higher than for
# norms.
_HIGHEST_RESPONSE_LEVEL = 0.99
# Lowest quantile level for learnt target_bounds.
_LOWEST_RESPONSE_LEVEL = 0.75
# Log-odds range of a choice of bounds without privacy.
_RANGE_WITHOUT_PRIVACY = 128.0
# Arguments to pass instead of bounds that are released.
_PUBLIC_BOUNDS = {
    ("low", "high"): "target_bounds=(low, high)",
    ("high",): "max_count=..., a number",
}
# Factor of a fit's mu, so that rounding leaves the total within the budget.
_ROUNDING_ALLOWANCE = 1.0 + 1e-8


class BoundsToLearn(NamedTuple):
    """The bounds that a fit draws before all else, and what a model is at them.

    Attributes
    ----------
    norm : bool, default=False
        Whether the norm to which rows are clipped is drawn.
    sides : tuple of {"low", "high"}, default=()
        Which bounds of responses are drawn.
    norm_safety_factor : float, default=1.0
        The bound on rows over the quantile that is drawn.
    at_norm : callable or None, default=None
        Maps a model and a norm to a model.
    at_responses : callable or None, default=None
        Maps a model, quantiles of responses, how many deviations the upper one is above the mean of a normal
        law, and whether the plan is of a calibrated posterior, to a model.
    """

    norm: bool = False
    sides: tuple[str, ...] = ()
    norm_safety_factor: float = 1.0
    at_norm: Callable[..., Any] | None = None
    at_responses: Callable[..., Any] | None = None


def plan_with_bounds(make_plan, n_samples, budget, learns):
    """A plan that begins with the release of a norm, or of bounds of responses.

    Parameters
    ----------
    make_plan : callable
        Maps a `Budget` to a plan that is valid for any norm and any bounds.
    n_samples : int
        Public number of rows that a table has at least, about.
    budget : Budget
    learns : BoundsToLearn

    Returns
    -------
    plan : Plan
        A plan without the release of a norm if there are too few rows to find a quantile.

    Raises
    ------
    ValueError
        If the plan's cost is not Gaussian, or there are too few rows to find bounds of responses.
    """
    norm, sides = learns.norm, learns.sides
    level = (
        2.0 * math.sqrt(BOUNDS_SHARE) * budget.mu if budget.is_private else _RANGE_WITHOUT_PRIVACY
    )
    outside = _RANKS_TO_LARGEST / (n_samples * level / 2.0) if level > 0 else math.inf
    least = _LOWEST_RESPONSE_LEVEL if sides else _LOWEST_NORM_LEVEL
    if budget.is_private and budget.delta > 0 and outside > 1.0 - least:
        if sides:
            raise ValueError(
                f"{n_samples:,} rows are too few to learn bounds of responses at epsilon="
                f"{budget.epsilon:g}: give public ones, {_PUBLIC_BOUNDS[tuple(sides)]}, or raise epsilon."
            )
        return make_plan(budget)
    quantile, high = (
        min(_HIGHEST_NORM_LEVEL, 1.0 - outside),
        min(_HIGHEST_RESPONSE_LEVEL, 1.0 - outside),
    )
    of_responses = tuple({"low": 1.0 - high, "high": high}[side] for side in sides)
    count = norm + len(sides)
    choice = draws_cost(level, count, budget.neighboring_relation) if level > 0 else None
    part = budget if choice is None or not budget.is_private else _rest(budget, choice)
    plan = make_plan(part)
    if choice is None or not plan.cost.is_gaussian:
        raise ValueError(
            "bounds that are learnt ('auto') leave a Gaussian budget to the fit, and this sampler's cost is "
            f"not Gaussian: give {'data_norm' if norm else 'the bounds'} as numbers, or use sampler='auto'."
        )
    release = BoundRelease(budget, level, quantile if norm else None, plan.cost, of_responses)
    if not budget.is_private:
        return plan.changed(bound_release=release)
    rest = PrivacyCost(budget.neighboring_relation, mu=_ROUNDING_ALLOWANCE * part.mu)
    return plan.changed(cost=choice + rest, bound_release=release._replace(cost_of_fit=rest))


def _rest(budget, choice):
    """The budget that a choice leaves."""

    def excess(noise):
        if noise == 0:
            return math.inf
        mu = _ROUNDING_ALLOWANCE * budget.with_mu(budget.mu / noise).mu
        cost = choice + PrivacyCost(budget.neighboring_relation, mu=mu)
        return cost.epsilon(budget.delta) / budget.epsilon - 1.0

    return budget.with_mu(budget.mu / smallest_within(excess, 1.0, 1e-4))


@contextmanager
def charge_and_release_bounds(estimator, plan, table, model):
    """Charge a plan, release its norm and bounds, and yield the model and the plan at them."""
    check_plan(plan)
    generator = separate_generator(estimator.random_state, 2)
    reservations = charge(plan, estimator)
    try:
        learns = estimator._bounds_to_learn()
        norm, responses = _draw_bounds(plan, table, learns.norm_safety_factor, generator)
        with authorizations([(estimator, plan.cost, None, reservations.charges)]):
            yield _at_bounds(estimator, learns, plan, model, norm, responses)
    except BaseException:
        reservations.close("failed")
        raise
    reservations.close("completed")


def _draw_bounds(plan, table, norm_safety_factor, generator):
    """The norm and the quantiles of responses that are drawn; None and () if none are."""
    norm, responses, how = None, (), (plan.bound_release.log_odds_range, generator, plan.n_samples)
    if plan.bound_release.norm_quantile is not None:
        # Proposition 62.
        norm = draw_quantiles(table, _norms, (plan.bound_release.norm_quantile,), *how)[0].value
        # The drawn decimal may be 0 or negative if most rows are zero.
        norm = norm * norm_safety_factor if norm > 0 else float(table.n_features) ** 0.5
    if plan.bound_release.response_quantiles:
        # Proposition 62.
        responses = draw_quantiles(table, _responses, plan.bound_release.response_quantiles, *how)
    return norm, responses


def _norms(rows):
    return row_norms(rows.X)


def _responses(rows):
    return rows.labels


def _at_bounds(estimator, learns, plan, model, norm, responses):
    """The model and the plan at what was drawn, or those before it where none can be made there.

    What was drawn is released. A plan that was charged can be carried out at the public bounds that it was
    made for, whatever is drawn.
    """
    bounded_model = model
    try:
        if norm is not None:
            bounded_model = learns.at_norm(model, checked_norm(norm, "data_norm"))
        if len(responses):
            deviations = ndtri(plan.bound_release.response_quantiles[-1])
            bounded_model = learns.at_responses(
                bounded_model, responses, deviations, plan.is_calibrated
            )
        path = estimator._planner(bounded_model.bounds(), plan.n_samples)(plan.budget)
        check_plan(path)
        paid = plan.bound_release.cost_of_fit
        if paid.is_infinite or (path.cost.is_gaussian and path.cost.mu <= paid.mu):
            return bounded_model, path.changed(
                cost=plan.cost, bound_release=plan.bound_release, persons=plan.persons
            )
    except (ArithmeticError, ValueError):  # These numbers are far out of any usual range.
        pass
    values = [*([] if norm is None else [norm]), *(bound.value for bound in responses)]
    drawn = ", ".join(f"{value:.4g}" for value in values)
    warn(
        f"no fit can be made at the bounds that were drawn, {drawn}. It was made at the public ones "
        "that it was planned for, and says next to nothing: multiply columns and responses by public numbers "
        "that bring them to a usual size, or give bounds as numbers. Fitting again spends budget again.",
        DataScalingWarning,
    )
    return model, plan
