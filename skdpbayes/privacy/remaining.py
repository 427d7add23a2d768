"""What is left of a budget: the largest epsilon that one more release may have.

    max { epsilon(mu, delta) :  epsilon(spent + mu, delta) <= epsilon },      mu^2 = mu_budget^2 - mu_spent^2

where all that is spent is Gaussian.
"""

import math
from dataclasses import replace
from decimal import ROUND_FLOOR, Context

from .cost import PrivacyCost
from .gaussian import gaussian_epsilon
from .root_finding import boundary
from .written import as_written, most_below

_RESOLUTION = 0.01
_LEAST = 1e-4


def largest_epsilon(budget, spent):
    """Return the largest epsilon, at a budget's delta, of a Gaussian release that it still allows.

    Of a pure one where delta is 0.

    Parameters
    ----------
    budget : Budget
    spent : PrivacyCost

    Returns
    -------
    epsilon : float
        Not rounded up; ``inf`` where the budget is, and 0 where less than a ten-thousandth of it would fit.
    """
    if not budget.is_private or spent == PrivacyCost(budget.neighboring_relation):
        return float(budget.epsilon)
    if not budget.allows(spent):
        return 0.0
    if budget.delta == 0:
        left = as_written(budget.epsilon) - as_written(spent.pure_epsilon)
        return most_below(left) if left > _LEAST * budget.epsilon else 0.0
    elif spent.is_gaussian:
        left = gaussian_epsilon(math.sqrt(max(0.0, budget.mu**2 - spent.mu**2)), budget.delta)
    else:
        left = gaussian_epsilon(_largest_mu(budget, spent), budget.delta)
    return left * (1.0 - 1e-9) if left > _LEAST * budget.epsilon else 0.0


def _largest_mu(budget, spent):
    def holds(less):
        return budget.allows(replace(spent, mu=math.hypot(spent.mu, -less)))

    most = budget.mu
    return -boundary(holds, -most, 0.0, _RESOLUTION * most)


def rounded_down(number):
    """Return a number in four digits, none of them rounded up."""
    return float(Context(prec=4, rounding=ROUND_FLOOR).create_decimal_from_float(number))
