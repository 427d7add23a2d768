"""The path of a mixture, in coordinates that are whitened at its released start.

    tau = max(1, eta (nu G(r))^2 / 2),   r = sqrt(tau / n),   eta = 1 / (T kappa n)

with the noise multiplier ``nu`` and the number of steps ``T`` that are paid for, and ``kappa n`` the
curvature of a direction in which records say little. The bound ``G`` on a record's gradient grows with
the distance ``r`` from the start, and so does the temperature with the bound: room is made until the
bound covers where draws of that temperature are. Where that has no end, the temperature does, and there
is less time instead.
"""

import math

from ..targets.mixture import STEEPER
from .floating_point import sum_inflation
from .given_noise import GivenNoise
from .hamiltonian import HamiltonianCalibration
from .langevin_calibration import LangevinCalibration
from .langevin_plans import HamiltonianPlan, LangevinPlan, ThermostatPlan
from .thermostat import ThermostatCalibration, thermostat_gain

# In whitened coordinates a record adds 1 to the curvature where its component is known, less where components
# overlap: taken to be at least the first number, and at most the second.
_LEAST_INFORMATION, _MOST_INFORMATION = 0.5, 2.0
# Room for the bound on a record's gradient beyond what it is at simulated draws; and how far these may
# spread, in units of a component's width, before time is cut instead of raising the temperature further.
_SLACK, _MOST_SPREAD = 1.2, 0.1
# How much more statistics can err, relative to gradients, than sums of gradients.
_STATISTICS_ROUNDING = 8.0


class _InformationCurvature:
    """Directions relax by what the records say of them, not by the prior."""

    relaxations = (1.0, 10.0)

    def _slowest(self, temperature):
        return _LEAST_INFORMATION * self.n


class _Langevin(_InformationCurvature, LangevinCalibration):
    pass


class _Hamiltonian(_InformationCurvature, HamiltonianCalibration):
    pass


class _Thermostat(_InformationCurvature, ThermostatCalibration):
    pass


RULES = {"sgld": _Langevin, "sghmc": _Hamiltonian, "sgnht": _Thermostat}


def statistics_inflation(bounds, n_samples, budget):
    """Return by how much rounding can enlarge what one record does."""
    relation = budget.neighboring_relation
    rounding = sum_inflation(n_samples, bounds.n_parameters, relation) - 1.0
    return 1.0 + _STATISTICS_ROUNDING * rounding


def complete_path(plan, bound_within, prior_curvature, steepness):
    """Return the plan of a path: see `MixturePlan.complete`."""
    bound = bound_within(0.0)
    chain = _chain(plan, bound, prior_curvature, steepness)
    while not math.isinf(plan.budget.epsilon):
        spread = math.sqrt(_temperature(plan, chain) / plan.n_samples)
        wider = _SLACK * bound_within(min(spread, _MOST_SPREAD))
        if wider <= bound * (1 + 1e-3):
            break
        bound = wider
        chain = _chain(plan, bound, prior_curvature, steepness)
    return _path(plan, chain)


def _temperature(plan, chain):
    """Return what is fixed, or the lowest with time enough that keeps draws together."""
    fixed = chain.rule.options.temperature
    if fixed is not None:
        return fixed
    return min(chain.lowest_temperature(), max(1.0, _MOST_SPREAD**2 * plan.n_samples))


def _chain(plan, gradient_bound, prior_curvature, steepness):
    bounds = plan.bounds._replace(
        gradient_bound=gradient_bound,
        smoothness=_MOST_INFORMATION,
        prior_precision=(min(1e-6, prior_curvature), prior_curvature),
    )
    options = plan.options._replace(n_steps=plan.n_steps, n_draws=plan.n_draws)
    rule = RULES[plan.sampler](bounds, plan.n_samples, plan.budget, options)
    inflation = statistics_inflation(bounds, plan.n_samples, plan.budget)
    inflation = 1.0 + (inflation - 1.0) * max(1.0, STEEPER * steepness / gradient_bound)
    return GivenNoise(rule, plan.noise_multiplier, plan.n_steps, inflation)


def _path(plan, chain):
    rule = chain.rule
    temperature = _temperature(plan, chain)
    step = chain.step(temperature)
    common = {
        "sampler": plan.sampler,
        "n_samples": plan.n_samples,
        "bounds": rule.bounds,
        "budget": plan.budget,
        "cost": plan.cost,
        "temperature": temperature,
        "n_steps": plan.n_steps,
        "n_burn_in": plan.n_burn_in,
        "n_draws": plan.n_draws,
        "sampling_rate": plan.sampling_rate,
        "step_size": step,
        "step_decay": 0.0,
        "noise_multiplier": plan.noise_multiplier,
        "wanted_relaxations": rule.goal,
        "least_data_curvature": rule._slowest(temperature),
    }
    if plan.sampler == "sgld":
        return LangevinPlan(**common)
    friction = rule.friction(temperature, step, plan.n_steps)
    if plan.sampler == "sghmc":
        return HamiltonianPlan(**common, friction=friction)
    gain = thermostat_gain(friction, temperature)
    return ThermostatPlan(**common, friction=friction, thermostat_gain=gain)
