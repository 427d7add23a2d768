"""Noise that is fixed and paid for before a step or a statistic is computed.

    what a record moves <= (1 / nu - sqrt(d) 2^-b) sigma,      mu = q sqrt(T) / nu

for ``T`` releases of ``d`` numbers. ``nu`` is the noise multiplier, ``sigma`` the deviation of the noise, and
``2^-b sigma`` the spacing of the lattice to which sums are rounded. ``q`` is 2 if records are replaced, and
otherwise 1.
"""

import math

from ..privacy.cost import PrivacyCost, SampledGaussian, records_moved
from ..privacy.floating_point import LATTICE_BITS
from ..privacy.root_finding import smallest_within

# With less noise the loss of a single step is so large that no useful guarantee can follow.
SMALLEST_MULTIPLIER = 0.5


def free_shift(noise_multiplier, n_parameters):
    """Return by how much a record may move a step, in units of its noise, once rounding has its share.

    Raises
    ------
    ValueError
        If rounding takes more than half of what is paid for.
    """
    paid, rounding = 1.0 / noise_multiplier, math.sqrt(n_parameters) * 2.0**-LATTICE_BITS
    if rounding > 0.5 * paid:
        raise ValueError(
            "the budget is too small for this many steps and parameters (of networks, by "
            "hidden_layer_sizes): what one record may "
            "change in a step is lost in rounding. Raise epsilon or, for a chain, lower n_steps."
        )
    return paid - rounding


def path_cost(relation, rate, steps, multiplier, of_start=0.0):
    """Return the cost of equal steps, and of what is ``of_start``-GDP before."""
    if rate == 1:
        path = records_moved(relation) * math.sqrt(steps) / multiplier
        return PrivacyCost(relation, mu=math.hypot(of_start, path))
    return PrivacyCost(relation, mu=of_start, sampled=(SampledGaussian(multiplier, rate, steps),))


def path_multiplier(bounds, budget, rate, steps, of_start=0.0):
    """Return (noise multiplier of a step, cost of all steps and of what is ``of_start``-GDP before).

    Raises
    ------
    ValueError
        If steps are so many that rounding would cost as much as they do.
    """
    relation = budget.neighboring_relation
    if not budget.is_private:
        return 0.0, PrivacyCost(relation, mu=math.inf)
    left = math.sqrt(budget.mu**2 - of_start**2)
    limit = budget.records_moved * rate * math.sqrt(steps) / left
    if rate == 1:
        multiplier = limit * (1 + 1e-12)
        free_shift(multiplier, bounds.n_parameters)
        return multiplier, path_cost(relation, rate, steps, multiplier, of_start)

    def excess(log_excess):
        cost = path_cost(relation, rate, steps, 0.5 * limit * math.exp(log_excess), of_start)
        return cost.epsilon(budget.delta) / budget.epsilon - 1.0

    if limit < SMALLEST_MULTIPLIER:  # Costs of less noise take minutes to compute, and mean little.
        least = path_cost(relation, rate, steps, SMALLEST_MULTIPLIER, of_start)
        if least.epsilon(budget.delta) <= budget.epsilon:
            return SMALLEST_MULTIPLIER, least

    # At least the noise that the limit of small steps needs; half of it is certainly too little.
    multiplier = 0.5 * limit * math.exp(smallest_within(excess, tolerance=1e-3))
    free_shift(multiplier, bounds.n_parameters)
    return multiplier, path_cost(relation, rate, steps, multiplier, of_start)
