"""Bounds from the rows: quantiles of their norms or responses, each drawn with a small share of the budget.

    plan for any bounds -> reserve it -> R ~ exp(-a d(R)) -> plan at R, with the rest of the budget

Quantiles are drawn as in `skdpbayes._mechanisms.quantiles`. The rest of the budget is fixed beforehand,
as a ``mu``, so that the total cost does not depend on the bounds. The idea is due to Andrew, Thakkar, McMahan
and Ramaswamy (2021).
"""

import math
from contextlib import contextmanager

from scipy.special import ndtri
from sklearn.exceptions import ConvergenceWarning

from .._mechanisms.quantiles import draw_quantiles, draws_cost
from ..privacy.cost import PrivacyCost
from ..privacy.deferred_warnings import warn
from ..privacy.reserve import reserve
from ..privacy.root_finding import smallest_within
from ..privacy.vouchers import vouchers
from ..random import separate_generator
from ..samplers._plan import NormRelease
from ..samplers._resources import check_plan
from ..targets._clipping import checked_norm, row_norms

# Share of the squared mu.
BOUNDS_SHARE = 0.02
# Ranks between the quantile and the largest norm, in units of the noise; the highest and the lowest quantile.
_SAFE, _HIGHEST, _LOWEST = 12.0, 0.95, 0.5
# The highest of responses, of which larger ones are not shortened in proportion, and the lowest.
_HIGHEST_RESPONSE, _LOWEST_RESPONSE = 0.99, 0.75
_SHARPEST = 128.0
# What to pass instead of bounds that are released.
_PUBLIC = {("low", "high"): "target_bounds=(low, high)", ("high",): "max_count=..., a number"}
_ROOM = 1.0 + 1e-8


def plan_with_bounds(make_plan, n_samples, budget, norm=True, sides=()):
    """Return a plan that begins with the release of a norm, or of bounds of responses.

    Parameters
    ----------
    make_plan : callable
        Maps a `Budget` to a plan that is valid for any norm and any bounds.
    n_samples : int
        Public number of rows that a table has at least, about.
    budget : Budget
    norm : bool, default=True
        Whether a norm is released.
    sides : tuple of {"low", "high"}, default=()
        Which bounds of responses are.

    Returns
    -------
    plan : Plan
        A plan without the release of a norm if there are too few rows to find a quantile.

    Raises
    ------
    ValueError
        If the plan's cost is not Gaussian, or there are too few rows to find bounds of responses.
    """
    level = 2.0 * math.sqrt(BOUNDS_SHARE) * budget.mu if budget.is_private else _SHARPEST
    outside = _SAFE / (n_samples * level / 2.0) if level > 0 else math.inf
    least = _LOWEST_RESPONSE if sides else _LOWEST
    if budget.is_private and budget.delta > 0 and outside > 1.0 - least:
        if sides:
            raise ValueError(
                f"{n_samples:,} rows are too few to learn bounds of responses at epsilon="
                f"{budget.epsilon:g}: give public ones, {_PUBLIC[tuple(sides)]}, or raise epsilon."
            )
        return make_plan(budget)
    quantile, high = min(_HIGHEST, 1.0 - outside), min(_HIGHEST_RESPONSE, 1.0 - outside)
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
    release = NormRelease(budget, level, quantile if norm else None, plan.cost, of_responses)
    if not budget.is_private:
        return plan.changed(norm=release)
    fit = PrivacyCost(budget.neighboring_relation, mu=_ROOM * part.mu)
    return plan.changed(cost=choice + fit, norm=release._replace(cost_of_fit=fit))


def _rest(budget, choice):
    """Return the budget that a choice leaves."""

    def excess(noise):
        if noise == 0:
            return math.inf
        mu = _ROOM * budget.with_mu(budget.mu / noise).mu
        cost = choice + PrivacyCost(budget.neighboring_relation, mu=mu)
        return cost.epsilon(budget.delta) / budget.epsilon - 1.0

    return budget.with_mu(budget.mu / smallest_within(excess, 1.0, 1e-4))


@contextmanager
def released_bounds(estimator, plan, table, model, at_norm):
    """Charge a plan, release its norm and bounds, and yield the model and the plan with them.

    Without any to release, both are yielded as they are. ``at_norm`` maps a norm to a model; an estimator's
    ``_with_responses`` maps a model, quantiles of responses, and how many deviations the upper one is above
    the mean of a normal law, to another model.
    """
    if plan.norm is None:
        yield model, plan
        return
    check_plan(plan)
    generator = separate_generator(estimator.random_state, 2)
    reservations = reserve(plan, estimator)
    try:
        norm, responses = _draw(plan, table, estimator, generator)
        with vouchers([(estimator, plan.cost)]):
            yield _at_bounds(estimator, plan, model, at_norm, norm, responses)
    except BaseException:
        reservations.close("failed")
        raise
    reservations.close("completed")


def _draw(plan, table, estimator, generator):
    """Return the norm and the quantiles of responses that are drawn; None and () if none are."""
    norm, responses, how = None, (), (plan.norm.log_odds_range, generator, plan.n_samples)
    if plan.norm.quantile is not None:
        # Proposition 62.
        norm = draw_quantiles(table, _norms, (plan.norm.quantile,), *how)[0].value
        # The drawn decimal may be 0 or negative if most rows are zero.
        norm = norm * estimator._norm_room if norm > 0 else float(table.n_features) ** 0.5
    if plan.norm.of_responses:
        # Proposition 62.
        responses = draw_quantiles(table, _responses, plan.norm.of_responses, *how)
    return norm, responses


def _norms(rows):
    return row_norms(rows.X)


def _responses(rows):
    return rows.labels


def _at_bounds(estimator, plan, model, at_norm, norm, responses):
    """Return the model and the plan at what was drawn, or those before it where none can be made there.

    What was drawn is released. A plan that was charged can be carried out at the public bounds that it was
    made for, whatever is drawn.
    """
    own = model
    try:
        if norm is not None:
            own = at_norm(checked_norm(norm, "data_norm"))
        if len(responses):
            own = estimator._with_responses(own, responses, ndtri(plan.norm.of_responses[-1]))
        path = estimator._plan_of_budget(own.bounds(), plan.n_samples)(plan.budget)
        check_plan(path)
        fit = plan.norm.cost_of_fit
        if fit.is_nothing or (path.cost.is_gaussian and path.cost.mu <= fit.mu):
            return own, path.changed(cost=plan.cost, norm=plan.norm, persons=plan.persons)
    except (ArithmeticError, ValueError):  # These numbers are far out of any usual range.
        pass
    values = [*([] if norm is None else [norm]), *(one.value for one in responses)]
    drawn = ", ".join(f"{value:.4g}" for value in values)
    warn(
        f"no fit can be made at the bounds that were drawn, {drawn}. It was made at the public ones "
        "that it was planned for, and says next to nothing: multiply columns and responses by public numbers "
        "that bring them to a usual size, or give bounds as numbers. Fitting again spends budget again.",
        ConvergenceWarning,
    )
    return model, plan
