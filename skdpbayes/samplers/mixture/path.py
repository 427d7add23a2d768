"""The path of a mixture, in coordinates that are whitened at its released start.

    tau = max(1, eta (nu G(r))^2 / 2),   r = sqrt(tau / n),   eta = 1 / (T kappa n)

with the noise multiplier ``nu`` and the number of steps ``T`` that are paid for, and ``kappa n`` the
curvature of a direction in which records say little. The bound ``G`` on a record's gradient grows with
the distance ``r`` from the start, and so does the temperature with the bound: room is made until the
bound covers where draws of that temperature are. Where that has no end, the temperature does, and there
is less time instead.
"""

import math
from dataclasses import dataclass

from ...privacy.floating_point import sum_inflation
from ...targets.mixture.target import STEEPER
from ..langevin.geometry import PriorGeometry

# In whitened coordinates a record adds 1 to the curvature where its component is known, less where components
# overlap: taken to be at least the first number, and at most the second.
_LEAST_INFORMATION, _MOST_INFORMATION = 0.5, 2.0
# Room for the bound on a record's gradient beyond what it is at simulated draws; and how far these may
# spread, in units of a component's width, before time is cut instead of raising the temperature further.
_SLACK, _MOST_SPREAD = 1.2, 0.1
# How much more statistics can err, relative to gradients, than sums of gradients.
_STATISTICS_ROUNDING = 8.0


@dataclass(frozen=True)
class InformationGeometry(PriorGeometry):
    """The geometry around a start, where directions relax by what records say of them, not by the prior.

    Attributes
    ----------
    steepness : float, default=1.0
        What rounding of statistics is multiplied by in a gradient.
    """

    steepness: float = 1.0

    def slowest(self, temperature):
        """Return the curvature of a direction of which records say little."""
        return _LEAST_INFORMATION * self.n_samples

    def inflation(self, budget):
        """Return the factor by which rounding can enlarge what a record adds to a gradient."""
        rounding = statistics_inflation(self.bounds, self.n_samples, budget) - 1.0
        steeper = STEEPER * self.steepness / self.bounds.gradient_bound
        return 1.0 + rounding * max(1.0, steeper)


def statistics_inflation(bounds, n_samples, budget):
    """Return by how much rounding can enlarge what one record does to statistics."""
    relation = budget.neighboring_relation
    rounding = sum_inflation(n_samples, bounds.n_parameters, relation) - 1.0
    return 1.0 + _STATISTICS_ROUNDING * rounding


def complete_path(plan, sampler, bound_within, prior_curvature, steepness=1.0):
    """Return the plan of a path, post-processing of the released start.

    Parameters
    ----------
    plan : MixturePlan
    sampler : Sampler
        Of the path.
    bound_within : callable
        Maps a deviation of the coordinates to what a record's gradient is bounded by there, as
        `MixturePlan.halves_distances` says.
    prior_curvature : float
        A bound on the prior's curvature at the start.
    steepness : float, default=1.0
        What rounding of statistics is multiplied by in a gradient.

    Returns
    -------
    path : Plan
        In whitened coordinates; its cost is the whole plan's.
    """

    def path_at(bound, temperature):
        bounds = plan.bounds._replace(
            gradient_bound=bound,
            smoothness=_MOST_INFORMATION,
            prior_precision=(min(1e-6, prior_curvature), prior_curvature),
        )
        return sampler.plan_at_paid_noise(
            InformationGeometry(bounds, plan.n_samples, steepness=steepness),
            plan.n_samples,
            plan.noise_multiplier,
            plan.n_steps,
            plan.cost,
            budget=plan.budget,
            temperature=temperature,
            n_draws=plan.n_draws,
        )

    fixed = None if math.isnan(plan.temperature) else plan.temperature
    hottest = max(1.0, _MOST_SPREAD**2 * plan.n_samples)

    def together(bound):
        """Return the path at the lowest temperature with time enough that keeps draws together."""
        path = path_at(bound, fixed)
        return path if fixed or path.temperature <= hottest else path_at(bound, hottest)

    bound = bound_within(0.0)
    path = together(bound)
    while plan.budget.is_private:
        spread = math.sqrt(path.temperature / plan.n_samples)
        wider = _SLACK * bound_within(min(spread, _MOST_SPREAD))
        if wider <= bound * (1 + 1e-3):
            break
        bound = wider
        path = together(bound)
    return path
