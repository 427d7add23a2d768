"""Chains whose noise and number of steps are fixed, and paid for, before their coordinates are known.

Part of a budget releases something (a second moment, a start), the rest buys ``T`` steps at the noise
multiplier ``nu``: a cost that is known beforehand. What was released then decides on coordinates, and
with them on the bound ``G`` of a record's gradient; a step of diffusion time ``eta`` at temperature
``tau`` has the multiplier ``q sqrt(2 tau / eta) / G``, so that

    eta <= 2 tau (q / (nu G))^2,

and the temperature is the lowest from 1 at which the chain gets the time that it wants.
"""

import math

from .calibration import smallest_within
from .cost import PrivacyCost, SampledGaussian
from .floating_point import LATTICE_BITS

# With less noise the loss of a single step is so large that no useful guarantee can follow.
SMALLEST_MULTIPLIER = 0.5


class GivenNoise:
    """The schedule of a chain at a noise that is paid for.

    Parameters
    ----------
    rule : LangevinCalibration
        For the chain's own coordinates; knows the slowest direction.
    noise_multiplier : float
        What a step's noise is, relative to the bound on a record's gradient; 0 without privacy.
    n_steps : int
        How many.
    inflation : float
        By how much rounding may enlarge that bound.
    """

    def __init__(self, rule, noise_multiplier, n_steps, inflation):
        self.rule, self.noise_multiplier, self.n_steps = rule, noise_multiplier, n_steps
        self.inflation = inflation

    def wanted_step(self, temperature):
        """Return the diffusion time of a step at which the slowest direction relaxes as is wanted."""
        if not self.rule.private:  # More diffusion time only helps.
            return self.rule._calm_step(temperature)
        return min(self.rule._time(temperature) / self.n_steps, self.rule._stiff_step(temperature))

    def affordable_step(self, temperature):
        """Return the largest diffusion time of a step that the noise multiplier covers."""
        if self.noise_multiplier == 0:
            return math.inf
        bounds = self.rule.bounds
        moved = free_shift(self.noise_multiplier, bounds.n_parameters)
        share = moved * self.rule.q / (bounds.gradient_bound * self.inflation)
        return 2.0 * temperature * share**2

    def _allowed_step(self, temperature):
        """What noise is paid for, and what batches heat by no more than a stated share."""
        return min(self.affordable_step(temperature), self.rule._cool_step(temperature))

    def step(self, temperature):
        """Return the diffusion time of a step."""
        return min(self.wanted_step(temperature), self._allowed_step(temperature))

    def is_affordable(self, temperature):
        """Tell whether the wanted step is."""
        return self.wanted_step(temperature) <= self._allowed_step(temperature)

    def lowest_temperature(self):
        """Return the lowest temperature from 1 at which the wanted step is affordable."""
        if self.is_affordable(1.0):
            return 1.0

        def excess(log_temperature):
            temperature = math.exp(log_temperature)
            return self.wanted_step(temperature) / self._allowed_step(temperature) - 1.0

        return math.exp(smallest_within(excess, 1.0, 1e-9))


def free_shift(noise_multiplier, n_parameters):
    """Return by how much a record may move a step, in units of its noise, beside what rounding does.

    Raises
    ------
    ValueError
        If rounding takes more than half of what is paid for.
    """
    paid, rounding = 1.0 / noise_multiplier, math.sqrt(n_parameters) * 2.0**-LATTICE_BITS
    if rounding > 0.5 * paid:
        raise ValueError(
            "the budget is too small for so many steps of so many parameters: what a record may move a "
            "single step is lost in rounding. Raise epsilon, or lower n_steps."
        )
    return paid - rounding


def chain_length(calibration_class, options, n_steps):
    """Return ``n_steps``, or as many as the wanted draws after the burn-in need; the user's own if given."""
    if options.n_steps is not None:
        return options.n_steps
    draws = calibration_class.default_draws if options.n_draws is None else options.n_draws
    burn_in = calibration_class.default_burn_in if options.burn_in is None else options.burn_in
    return max(n_steps, math.ceil((draws + 1) / (1.0 - burn_in)))


def path_cost(relation, rate, steps, multiplier, of_start=0.0):
    """Return the cost of equal steps, and of what is ``of_start``-GDP before."""
    if rate == 1:
        shift = 2.0 if relation == "replace_one" else 1.0
        return PrivacyCost(relation, mu=math.hypot(of_start, shift * math.sqrt(steps) / multiplier))
    return PrivacyCost(relation, mu=of_start, sampled=(SampledGaussian(multiplier, rate, steps),))


def path_multiplier(bounds, budget, rate, steps, total, of_start):
    """Return (noise multiplier of a step, cost of all steps and of what is ``of_start``-GDP before).

    Raises
    ------
    ValueError
        If steps are so many that rounding would cost as much as they do.
    """
    relation = budget.neighboring_relation
    if math.isinf(budget.epsilon):
        return 0.0, PrivacyCost(relation, mu=math.inf)
    shift = 2.0 if relation == "replace_one" else 1.0
    limit = shift * rate * math.sqrt(steps) / math.sqrt(total**2 - of_start**2)
    if rate == 1:
        multiplier = limit * (1 + 1e-12)
        free_shift(multiplier, bounds.n_parameters)
        return multiplier, path_cost(relation, rate, steps, multiplier, of_start)

    def cost(log_excess):
        multiplier = 0.5 * limit * math.exp(log_excess)
        return path_cost(relation, rate, steps, multiplier, of_start)

    def excess(log_excess):
        return cost(log_excess).epsilon(budget.delta) / budget.epsilon - 1.0

    if limit < SMALLEST_MULTIPLIER:  # Costs of less noise take minutes to compute, and mean little.
        least = path_cost(relation, rate, steps, SMALLEST_MULTIPLIER, of_start)
        if least.epsilon(budget.delta) <= budget.epsilon:
            return SMALLEST_MULTIPLIER, least

    # At least the noise that the limit of small steps needs; half of it is certainly too little.
    found = smallest_within(excess, 1.0, 1e-3)
    free_shift(cost(found).sampled[0].noise_multiplier, bounds.n_parameters)
    return cost(found).sampled[0].noise_multiplier, cost(found)
