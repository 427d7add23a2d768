"""From the limit of many small steps to exact costs: what the search found is kept to its budget.

A walk whose cost ``e`` at the budget's delta is beyond its epsilon has distances that are shorter by
``e / epsilon``, for as long as it takes. Where they are fixed it has fewer steps, and where those are fixed,
too, a higher temperature.
"""

import math

import numpy as np

from ...privacy.cost import PrivacyCost
from .plan import LARGEST_CHANGE, Clock, MetropolisPlan
from .search import (
    FEWEST,
    GIVEN_UP,
    batch_ratios,
    best_walk,
    impossible,
    noise_variances,
    reckoned,
    relaxations,
)

N_DRAWS = 100
_MOST_BURN_IN = 0.75


def plan_walk(sampler, problem):
    """Return the plan of the quickest walk that is good enough and within the budget.

    Parameters
    ----------
    sampler : RandomWalk
    problem : WalkProblem

    Returns
    -------
    plan : MetropolisPlan

    Raises
    ------
    ValueError
        If what is fixed cannot all hold.
    """
    walk, n_steps, cost = _within_budget(problem, *best_walk(problem))
    options = problem.options
    burn_in = options.burn_in
    if burn_in is None:
        burn_in = min(walk.burn_in / n_steps, _MOST_BURN_IN)
    most = n_steps
    if problem.is_filtered:
        # Lengths differ, and so does the number of steps: there are a few to spare.
        most = math.ceil(1.2 * n_steps * (LARGEST_CHANGE**2 if options.adapt_step_size else 1)) + 8
    return MetropolisPlan(
        sampler=sampler,
        n_samples=problem.n_samples,
        bounds=problem.bounds,
        budget=problem.budget,
        cost=cost,
        temperature=walk.temperature,
        n_steps=most,
        expected_steps=n_steps,
        n_burn_in=round(burn_in * n_steps),
        n_draws=options.n_draws or N_DRAWS,
        sampling_rate=1.0 if walk.ratio == 0 else walk.bound * (1.0 + 1.0 / walk.ratio),
        step_size=walk.distance,
        proposal=options.proposal,
        rule=problem.kernel.rule,
        noise_variance=walk.noise,
        batch_ratio=walk.ratio,
        adapt_step_size=options.adapt_step_size,
        clock=_clock(problem, walk, n_steps, most, burn_in),
        expected_acceptance=walk.acceptance,
        typical_deviation=walk.deviation,
        relaxations=max(0.0, relaxations(walk, n_steps, options.burn_in)),
        wanted_relaxations=(1.0 - GIVEN_UP) * FEWEST,
    )


def _clock(problem, walk, n_steps, most, burn_in):
    aim = walk.acceptance if problem.options.adapt_step_size else 0.0
    if not problem.is_filtered:
        return Clock(0.0, float(n_steps), burn_in * n_steps, aim)
    charge = _charge(problem, walk)
    # Rounding adds e to what a step of any length moves. At x times the planned length it moves w x + e and
    # is charged for (w + e) x: short by less than e / (2 w) of a planned step's charge.
    short = problem.kernel.fixed_rounding(walk.ratio, walk.noise) / (
        2.0 * problem.kernel.sides * walk.bound
    )
    # Sums of charges are rounded, too.
    kept_back = 1e-9 + short * most / n_steps
    if kept_back > 0.5:
        raise ValueError(
            f"steps of {walk.distance:.3g} at temperature {walk.temperature:.3g} are so short "
            "that the influence of one record is lost in rounding: raise step_size, or lower temperature."
        )
    total = n_steps * charge * (1.0 - kept_back)
    return Clock(charge / walk.distance**2, total, burn_in * total, aim)


def _within_budget(problem, walk, n_steps):
    """Return (walk, number of steps, their cost), what is free being shortened until that is allowed."""
    options, budget = problem.options, problem.budget
    for _ in range(60):
        cost = _cost(problem, walk, n_steps)
        if budget.allows(cost):
            return walk, n_steps, cost
        excess = min(cost.epsilon(budget.delta) / budget.epsilon, 4.0) * 1.0005
        if options.step_size is None and _can_be_tamed(options, walk):
            walk = _tamed(problem, walk, shortened=excess)
        elif options.n_steps is None and n_steps > 1:
            shorter = excess if problem.is_pure else excess**2
            n_steps = max(1, min(n_steps - 1, math.floor(n_steps / shorter)))
        elif options.temperature is None and _can_be_tamed(options, walk):
            walk = _tamed(problem, walk, heated=excess)
        else:
            break
    raise impossible(problem)


def _cost(problem, walk, n_steps):
    if problem.is_filtered:
        relation = problem.budget.neighboring_relation
        return PrivacyCost(relation, rho=n_steps * _charge(problem, walk))
    return problem.kernel.cost(walk.bound, walk.ratio, walk.noise, n_steps)


def _charge(problem, walk):
    return problem.kernel.concentrated(walk.bound, walk.ratio, walk.noise)


def _can_be_tamed(options, walk):
    """Tell whether shorter distances cost less: not where noise and batches are fixed against them."""
    sized = options.batch_size is not None or walk.ratio == 0
    return not (sized and options.noise_multiplier is not None)


def _tamed(problem, walk, shortened=1.0, heated=1.0):
    """Return the walk of a shorter distance or a higher temperature, with the batch and noise asked for."""
    temperature = walk.temperature * heated
    distance, ratio, noise = (np.full(1, v) for v in (walk.distance, walk.ratio, walk.noise))
    distance = distance / shortened
    bound = problem.lipschitz * distance / temperature
    if problem.options.batch_size is not None:
        ratio = batch_ratios(problem, bound)
    if problem.options.noise_multiplier is not None:
        noise = noise_variances(problem, bound, ratio)
    return reckoned(problem, temperature, distance, ratio, noise).single()
