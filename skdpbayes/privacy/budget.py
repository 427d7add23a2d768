"""A budget: a ceiling on what a release may cost.

    allowed  <=>  epsilon(cost, delta) <= epsilon

Everything that is planned keeps to one, from public quantities alone.
"""

import math
from dataclasses import replace
from decimal import ROUND_FLOOR, Context
from typing import Any, NamedTuple, Self

from .._arguments import check_number
from ..exceptions import BudgetExceededError
from .conversions import (
    LARGEST_EPSILON,
    LEAST_EPSILON,
    SMALLEST_DELTA,
    TooSmallBudget,
    boundary,
    decimal_exact,
    gaussian_epsilon,
    gaussian_mu,
    round_down,
)
from .cost import PrivacyCost, check_relation
from .losses import RELATIONS


class Budget(NamedTuple):
    """An upper limit on the cost of a run.

    Attributes
    ----------
    epsilon : float
        Positive; ``inf`` means no limit.
    delta : float
        0, or at least 1e-300 and below 1.
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        Which tables are neighbours; for ledgers also "replace_one_person" or "add_or_remove_one_person".
    """

    epsilon: float
    delta: float
    neighboring_relation: str = "replace_one"

    @property
    def is_private(self) -> bool:
        """Whether epsilon is finite."""
        return not math.isinf(self.epsilon)

    @property
    def mu(self) -> float:
        """The largest mu for which ``mu``-GDP keeps to the budget."""
        return gaussian_mu(self.epsilon, self.delta)

    @property
    def sensitivity_factor(self) -> float:
        """Number of records' contributions by which the sums of neighbours may differ: 2 or 1."""
        return RELATIONS[self.neighboring_relation]

    def with_mu(self, mu: float) -> Self:
        """The budget that a ``mu``-GDP release uses up, at the same delta.

        Raises
        ------
        TooSmallBudget
            If delta alone covers the release, so that its epsilon is 0.
        """
        epsilon = gaussian_epsilon(mu, self.delta)
        if epsilon == 0 and mu > 0:
            raise TooSmallBudget(
                f"epsilon={self.epsilon:g} is so small beside delta={self.delta:g} that a part of this "
                "budget has no epsilon at all: raise epsilon, or lower delta."
            )
        return self._replace(epsilon=epsilon)

    def checked(self, *, persons: bool = False) -> Self:
        """Self with plain floats; raises an error that names what is wrong.

        Parameters
        ----------
        persons : bool, default=False
            Whether relations between persons are allowed.

        Raises
        ------
        ValueError, TypeError
        """
        check_number("epsilon", self.epsilon)
        check_number("delta", self.delta)
        if not self.epsilon > 0:
            raise ValueError(f"epsilon must be positive (or inf), got {self.epsilon}.")
        if self.epsilon < LEAST_EPSILON:
            raise TooSmallBudget(
                f"epsilon={self.epsilon:g} is below {LEAST_EPSILON:g}, where the noise outweighs a "
                "billion rows: raise epsilon; few tables say anything below 0.01."
            )
        if self.is_private and self.epsilon > LARGEST_EPSILON:
            raise ValueError(
                f"epsilon={self.epsilon:g} is above {LARGEST_EPSILON:g}, which protects nobody: lower it, or "
                "take epsilon=inf, which claims nothing."
            )
        check_delta(self.delta)
        check_relation(self.neighboring_relation, persons=persons)
        return self._replace(epsilon=float(self.epsilon), delta=float(self.delta))

    def checked_gaussian(self, name: str, others: str = "", note: str = "") -> Self:
        """The budget itself; raises a ValueError where delta is 0, which Gaussian noise cannot give.

        ``others`` are names of what gives it, and ``note`` is a sentence at the end of the error.
        """
        if self.delta == 0 and self.is_private:
            instead = "; no sampler takes this model at delta=0"
            if others:
                instead = f", or take another sampler that takes this model at delta=0 ({others})"
            raise ValueError(
                f"delta=0 asks for pure differential privacy, and {name} adds Gaussian noise, which has "
                f"none: give a delta in (0, 1), e.g. delta=None for the default{instead}.{note}"
            )
        return self

    def allows(self, cost: Any) -> bool:
        """Whether a cost stays within the budget."""
        return not self.is_private or cost.epsilon(self.delta) <= self.epsilon


def check_ceiling(plan):
    """Raise a BudgetExceededError if a plan costs more than what it was made for, or something else.

    Parameters
    ----------
    plan : object
        With a ``cost`` and, if it was made for one, a `Budget`: ``asked`` or ``budget``.
    """
    asked = getattr(plan, "requested_budget", getattr(plan, "budget", None))
    if asked is None:
        return
    if plan.cost.neighboring_relation != asked.neighboring_relation:
        raise BudgetExceededError(
            f"the plan was made for neighboring_relation={asked.neighboring_relation!r}, but its cost is "
            f"one under {plan.cost.neighboring_relation!r}: correct what planned it. Nothing was read."
        )
    if not asked.allows(plan.cost):
        raise BudgetExceededError(
            f"the plan costs epsilon = {plan.cost.epsilon(asked.delta):.10g} at delta = {asked.delta:g}, "
            f"and was made for at most {asked.epsilon:.10g}: correct what planned it. Nothing was read."
        )


def check_delta(delta):
    """Raise a ValueError if a budget may not have this delta."""
    if not 0 <= delta < 1:
        raise ValueError(
            f"delta must be in [0, 1), got {delta}: choose it well below 1 / n_samples."
        )
    if 0 < delta < SMALLEST_DELTA:
        raise ValueError(
            f"delta must be 0 or at least {SMALLEST_DELTA:g}, got {delta}: take delta=0 for pure "
            "differential privacy, or a larger delta."
        )


def default_delta(n_samples: int) -> float:
    """``min(1e-5, 1 / (10 n))``: well below ``1 / n``."""
    check_number("n_samples", n_samples)
    if not n_samples >= 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}.")
    return min(1e-5, 1.0 / (10.0 * n_samples))


def too_large_delta(budget, n_samples):
    """A warning about a delta that is too large to be of use, a tuple of at most one str."""
    if not budget.is_private or budget.delta * n_samples <= 1.0:
        return ()
    return (
        f"delta={budget.delta:g} is above 1 / n = {1 / n_samples:.3g}: publishing one row at "
        "random would be as private. Take delta=None, or a number well below 1 / n.",
    )


# What is left of a budget: the largest epsilon that one more release may have.
#
#     max { epsilon(mu, delta) :  epsilon(spent + mu, delta) <= epsilon },
#     mu^2 = mu_budget^2 - mu_spent^2
#
# where all that is spent is Gaussian.


# Resolution of the mu that is left of a budget, relative to the most that it may be.
_RESOLUTION = 0.01
# Least part of epsilon that counts as left.
_LEAST_SHARE_LEFT = 1e-4


def largest_epsilon(budget, spent):
    """The largest epsilon, at a budget's delta, of a Gaussian release that it still allows.

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
        epsilon_left = decimal_exact(budget.epsilon) - decimal_exact(spent.pure_epsilon)
        return (
            round_down(epsilon_left) if epsilon_left > _LEAST_SHARE_LEFT * budget.epsilon else 0.0
        )
    elif spent.is_gaussian:
        epsilon_left = gaussian_epsilon(
            math.sqrt(max(0.0, budget.mu**2 - spent.mu**2)), budget.delta
        )
    else:
        epsilon_left = gaussian_epsilon(_largest_mu(budget, spent), budget.delta)
    return epsilon_left * (1.0 - 1e-9) if epsilon_left > _LEAST_SHARE_LEFT * budget.epsilon else 0.0


def _largest_mu(budget, spent):
    def holds(less):
        return budget.allows(replace(spent, mu=math.hypot(spent.mu, -less)))

    most = budget.mu
    return -boundary(holds, -most, 0.0, _RESOLUTION * most)


def round_down_epsilon(number):
    """A number in four digits, none of them rounded up."""
    return float(Context(prec=4, rounding=ROUND_FLOOR).create_decimal_from_float(number))
