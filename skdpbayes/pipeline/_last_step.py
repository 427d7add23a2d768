"""What is left of a budget for the last step of a pipeline, and what is charged for it.

largest epsilon_k with  epsilon(cost_1 + ... + cost_k, delta) <= epsilon

``cost_k`` is that of the Gaussian mechanism at ``(epsilon_k, delta)`` if the plan of the last step costs no
more, whatever the number of columns if that is not known yet; what the plan says if bounds are learnt before
the fit; and otherwise that of randomised response at ``epsilon_k`` that fails with probability ``delta / 2``
(Proposition 52). With ``delta = 0`` nothing is searched for: ``epsilon_k`` is what the others leave.
"""

import math

from sklearn.base import clone

from ..privacy.cost import PrivacyCost
from ..privacy.gaussian import gaussian_epsilon, gaussian_mu
from ..privacy.profiles import PureMechanism
from ..privacy.root_finding import smallest_within

_CLOSE = 1e-3
# Numbers of columns that represent all others if that of the last step is not known beforehand.
_WIDTHS = (1, 8, 64, 256, 1024)
# Parameters whose "auto" releases bounds before a fit.
_LEARNT_BOUNDS = ("data_norm", "target_bounds", "max_count")


def cost_of_step(step, epsilon, delta, n_samples, n_columns):
    """Return what a private step costs with its part of a budget."""
    step = clone(step).set_params(epsilon=epsilon, delta=delta)
    return step.privacy_plan(n_samples, n_columns).cost


def remainder(final, budget, spent, n_samples, width):
    """Return (epsilon, delta) of the last step, and the cost that is charged for it."""
    relation = budget.neighboring_relation
    if not budget.is_private:
        # There is no plan where a parameter of the step is wrong.
        _is_gaussian(final, math.inf, budget.delta, n_samples, width, math.inf)
        return (math.inf, budget.delta), PrivacyCost(relation, mu=math.inf)
    if budget.delta == 0:
        left = (budget.epsilon - spent.epsilon(0.0)) * (1.0 - 1e-12)
        cost = cost_of_step(final, left, 0.0, n_samples, width or 1)
        any_width = PrivacyCost(relation, pure=(PureMechanism(left),))
        return (left, 0.0), any_width if width is None else cost

    def gaussian(epsilon):
        return PrivacyCost(relation, mu=gaussian_mu(epsilon, budget.delta))

    def learnt_bounds(epsilon):
        return cost_of_step(final, epsilon, budget.delta, n_samples, width or 1)

    if any(_is_auto(final, name) for name in _LEARNT_BOUNDS):
        # The release of bounds and the mu of the fit depend only on the budget and the size.
        exact = learnt_bounds(budget.epsilon)
        if len(exact.bits) == 1 and not exact.pure:
            epsilon, cost = _largest(learnt_bounds, budget, spent)
            # There may be too few rows to release a norm with the rest of the budget, and the form of the
            # cost may then depend on the number of columns.
            if cost.bits:
                return (epsilon, budget.delta), cost
    epsilon, cost = _largest(gaussian, budget, spent)
    if _is_gaussian(final, epsilon, budget.delta, n_samples, width, cost.mu):
        return (epsilon, budget.delta), cost

    # Randomised response that fails with probability delta dominates any (epsilon, delta) mechanism.
    def any_mechanism(epsilon):
        failure = 0.5 * budget.delta
        return PrivacyCost(relation, pure=(PureMechanism(epsilon),), failure=failure)

    epsilon, cost = _largest(any_mechanism, budget, spent)
    return (epsilon, cost.failure), cost


def _is_auto(final, name):
    return isinstance(value := getattr(final, name, None), str) and value == "auto"


def _largest(charged, budget, spent):
    """Return the largest epsilon of the last step that the budget allows, and the cost charged for it."""

    def at(noise):
        epsilon = gaussian_epsilon(budget.mu / noise, budget.delta)
        return epsilon * (1.0 - 1e-8), charged(epsilon)

    def excess(noise):
        if noise == 0:
            return math.inf
        return (spent + at(noise)[1]).epsilon(budget.delta) / budget.epsilon - 1.0

    nothing = spent == PrivacyCost(budget.neighboring_relation)
    return at(1.0 if nothing and excess(1.0) <= 0 else smallest_within(excess, 1.2, _CLOSE))


def _is_gaussian(final, epsilon, delta, n_samples, width, mu):
    """Tell whether the last step is ``mu``-GDP, for several widths if its own is not known yet.

    Raises
    ------
    ValueError
        The error of its plan, if there is no plan for any width.
    """
    known = False
    error: ValueError | None = None
    for columns in _WIDTHS if width is None else (width,):
        try:
            cost = cost_of_step(final, epsilon, delta, n_samples, columns)
        except ValueError as one:
            error = error or one
            continue
        if not (cost.is_gaussian and cost.mu <= mu):
            return False
        known = True
    if error is not None and not known:
        raise error
    return True
