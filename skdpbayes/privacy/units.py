"""Guarantees for persons, who have at most ``k`` rows each, from guarantees for rows.

    tables that differ in a person  =  a chain of at most  j  tables that differ in a row
    mu -> j mu,      rho -> j^2 rho,      log-odds range -> j range,      epsilon (delta = 0) -> j epsilon

A person who comes or goes brings up to ``k`` rows, ``j = k``. One who is replaced takes up to ``k`` rows away
and brings up to ``k`` others, ``j = 2 k`` tables of different sizes: how many rows there are is private then,
how many persons is public. With ``k = 1`` it is a row that is replaced, or comes or goes, and any guarantee
for rows, of whatever kind, is one for persons. See Proposition 60.

Such a person is also ``k`` rows, each of which takes the place of another, of none, or leaves it empty.
What one of these does to Gaussian releases, ``m``, is at most ``2 mu``, and only ``sqrt(2) mu`` for sums to
which no two rows add vectors at an obtuse angle: ``mu -> k m``. See Proposition 72.

A release that reads one of the kept rows of each person costs a person what it costs a row, ``j = 1``. See
Proposition 54.
"""

import math
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from .budget import Budget
from .conversions import TooSmallBudget
from .cost import PrivacyCost
from .losses import between_persons, between_rows

# Largest factor of the budget of a row from one try to the next.
_LARGEST_FACTOR = 0.995
# Smallest factor of the budget of a row from one try to the next.
_SMALLEST_FACTOR = 0.8
# Number of tries.
_TRIES = 60


class Persons(NamedTuple):
    """The privacy units that a plan protects, if not rows: persons.

    Attributes
    ----------
    budget : Budget
        What was asked for, for persons.
    max_rows : int
        ``k``.
    cost_of_rows : PrivacyCost
        What the plan costs for rows.
    """

    budget: Budget
    max_rows: int
    cost_of_rows: PrivacyCost


def row_relation_and_distance(neighboring_relation, max_rows):
    """The relation between rows, and how many steps of it lead to a table with another person.

    Parameters
    ----------
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        Of persons.
    max_rows : int
        ``k``.

    Returns
    -------
    relation : {"replace_one", "add_or_remove_one"}
        Of rows.
    steps : int
        ``j``.
    """
    if neighboring_relation == "replace_one" and max_rows > 1:
        return "add_or_remove_one", 2 * max_rows
    return neighboring_relation, max_rows


def rows_between_neighbours(persons):
    """Number of steps between rows lead to a table with another person, of a plan's `Persons`."""
    relation = between_rows(persons.budget.neighboring_relation)
    return row_relation_and_distance(relation, persons.max_rows)[1]


def cost_for_persons(cost, neighboring_relation, steps, mu=None, failure_is_of_persons=False):
    """The cost of a release for persons.

    Parameters
    ----------
    cost : PrivacyCost
        For rows.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        Of persons.
    steps : int
        Of `row_relation_and_distance`.
    mu : float or None, default=None
        Of all Gaussian releases; None is ``steps`` times a row's.
    failure_is_of_persons : bool, default=False
        Whether ``failure`` is that of persons already, as by `plan_threshold` with ``max_records``.

    Returns
    -------
    cost : PrivacyCost
        Under the relation of persons.

    Raises
    ------
    ValueError
        If a part of the cost is of a kind for which no theorem is at hand.

    Examples
    --------
    >>> from skdpbayes.privacy import PrivacyCost
    >>> from skdpbayes.privacy.units import cost_for_persons
    >>> cost_for_persons(PrivacyCost("add_or_remove_one", mu=0.1), "add_or_remove_one", 5).mu
    0.5
    """
    if cost.sampled or cost.counted:
        raise ValueError(
            "batches draw rows, not persons, and do not protect people with several rows: with "
            "max_rows_per_group, read the full table (sampler__batch_size=None)."
        )
    if steps > 1 and (
        cost.selection_events or (cost.failure_probability > 0 and not failure_is_of_persons)
    ):
        raise ValueError(
            "the cost of private searches, and of what may fail with a delta of its own, is not known for "
            "persons with several rows: take max_rows_per_group=1, or another sampler."
        )
    return PrivacyCost(
        between_persons(neighboring_relation),
        mu=steps * cost.mu if mu is None else mu,
        rho=steps**2 * cost.rho,
        decisions=tuple(
            replace(p, log_odds_range=steps * p.log_odds_range) for p in cost.decisions
        ),
        pure_events=tuple(replace(p, level=steps * p.level) for p in cost.pure_events),
        selection_events=cost.selection_events,
        failure_probability=cost.failure_probability,
    )


def plan_for_persons(make_plan, budget, max_rows):
    """A plan whose cost for persons keeps to a budget.

    Parameters
    ----------
    make_plan : callable
        Takes the `Budget` of a row, and returns a `PlannedRelease` with ``changed``.
    budget : Budget
        Of persons, with the relation of the same name between rows.
    max_rows : int
        ``k``.

    Returns
    -------
    plan : Plan

    Raises
    ------
    ValueError
        If there is none, or as by `cost_for_persons`.
    """
    relation, steps = row_relation_and_distance(budget.neighboring_relation, max_rows)
    asked = budget._replace(neighboring_relation=between_persons(budget.neighboring_relation))

    def attempt(share):
        plan = make_plan(_part(budget._replace(neighboring_relation=relation), share, steps))
        mu = max_rows * _mu_of_replacing(plan) if steps == 2 * max_rows else None
        given = budget.neighboring_relation, steps, mu, plan.failure_is_of_persons
        cost = cost_for_persons(plan.cost_of_all_rows, *given)
        if plan.cost_of_single_row_steps is not None:
            cost += _cost_of_one_row(plan.cost_of_single_row_steps, budget.neighboring_relation)
        return plan, cost

    with suppress(TooSmallBudget):
        plan, cost = attempt(1.0)
        share = _first_share(plan.cost, cost, steps)
        if share > 1.0:
            plan, cost = attempt(share)
        for _ in range(_TRIES):
            if asked.allows(cost):
                return plan.changed(cost=cost, persons=Persons(asked, max_rows, plan.cost))
            share *= min(
                _LARGEST_FACTOR, max(_SMALLEST_FACTOR, asked.epsilon / cost.epsilon(asked.delta))
            )
            plan, cost = attempt(share)
    raise ValueError(
        f"no plan keeps to epsilon={budget.epsilon:g} for persons with up to max_rows_per_group={max_rows} "
        "rows: too little is left for a row. Lower max_rows_per_group, or raise epsilon."
    )


def _cost_of_one_row(cost, neighboring_relation):
    """Quantiles computed from one row per person cost a person what they cost a row.

    Raises
    ------
    ValueError
        If there are other releases, which may cost more where a row is replaced than where it comes or goes.
    """
    if not (
        cost.is_infinite or cost == PrivacyCost(cost.neighboring_relation, decisions=cost.decisions)
    ):
        raise ValueError("only choices cost a person of whom one row is read what they cost a row.")
    return cost_for_persons(cost, neighboring_relation, 1)


def _mu_of_replacing(plan):
    """``m``."""
    # A norm that is drawn first may lead to another plan, of which only the cost is fixed.
    return plan.mu_of_replacing if plan.bound_release is None else 2.0 * plan.cost.mu


def _first_share(of_row, of_person, steps):
    """The factor by which rows may cost more where Gaussian releases cost less than group privacy."""
    if not 0.0 < of_person.mu < math.inf:
        return 1.0
    return steps * of_row.mu / of_person.mu


def _part(budget, share, steps):
    """The cost of a row of which ``steps`` cost a share; exact for Gaussian and pure costs."""
    if not budget.is_private or (steps == 1 and share == 1):
        return budget
    share *= (1.0 - 1e-9) / steps
    if budget.delta == 0:
        return budget._replace(epsilon=share * budget.epsilon)
    return budget.with_mu(share * budget.mu)
