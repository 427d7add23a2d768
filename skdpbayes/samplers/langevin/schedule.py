"""Schedules of Langevin chains: the lowest temperature, or the longest chain, that a budget affords.

    tau = min { tau >= 1 : cost(tau, t = k / m(tau)) <= budget },     t = sum of eta_k,   eta_k = eta_1 k^-a

The slowest direction, of curvature ``m``, is to relax ``k`` times; a geometry says what ``m`` is, a dynamics
how long a step may be, and a release what a schedule costs. Where ``tau = 1`` is affordable, the run costs
less than was asked for. Everything here is a function of public numbers.

Wang, Fienberg and Smola (2015); Li, Chen, Liu and Carin (2019) for decreasing steps.
"""

import bisect
import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from ...privacy.budget import Budget
from ...privacy.cost import gaussian_limit
from ...privacy.root_finding import smallest_within
from ...targets import TargetBounds
from .._chain_length import MAX_STEPS, fewest_steps
from .._plan import LARGEST_TEMPERATURE
from .dynamics import Dynamics
from .geometry import Geometry

# How far temperatures are raised, and steps are shortened, in logarithms: numbers stay normal doubles.
_FARTHEST = math.log(LARGEST_TEMPERATURE)


class Release(Protocol):
    """What schedules ask of `AllIterates` and `LastIterate`."""

    def n_segments(self, chain):
        """Return how many chains follow each other."""

    def whole(self, chain, steps):
        """Return a number of steps, at least as many, into which the schedule can be cut."""

    def most_steps(self, chain):
        """Return how many steps can be accounted for, and how many the rule takes at most."""

    def quiet_step(self, chain, temperature):
        """Return the step beyond which batches would cost more than the full table."""

    def limit(self, chain, temperature):
        """Return what a step size that is given must stay below."""

    def tolerance(self, chain):
        """Return how closely budgets are met."""

    def check_affordable(self, chain, temperature, step, fewest):
        """Raise a ValueError if a start at this temperature leaves nothing for the path."""

    def cost(self, chain, temperature, step, steps):
        """Return the exact cost of a schedule, floating point included."""


@dataclass(frozen=True, kw_only=True)
class Chain:
    """What is to be scheduled: public numbers, and what knows more about them.

    Attributes
    ----------
    bounds : TargetBounds
    n_samples : int
        Public size of the table.
    budget : Budget
    geometry : Geometry
    dynamics : Dynamics
    release : Release
        What is released, and what that costs.
    relaxations : float
        ``k``: how often the slowest direction is to relax, once a segment.
    burn_in : float
        Fraction of the steps before the first draw.
    n_draws : int
    sampling_rate : float
        Share of the records that a step reads.
    step_size : float or None
        First step size; None leaves it to the rule.
    step_decay : float
        ``a``.
    n_steps : int or None
        Number of steps, of all segments together; None leaves it to the rule.
    """

    bounds: TargetBounds
    n_samples: int
    budget: Budget
    geometry: Geometry
    dynamics: Dynamics
    release: Release
    relaxations: float
    burn_in: float
    n_draws: int
    sampling_rate: float
    step_size: float | None
    step_decay: float
    n_steps: int | None

    @cached_property
    def fewest_steps(self):
        """How many steps the draws need."""
        most, _ = self.release.most_steps(self)
        return fewest_steps(self.n_steps, self.n_draws, self.burn_in, most, self.sampling_rate)

    @property
    def record_bound(self):
        """What one record adds to a gradient at most, rounding included."""
        return self.bounds.gradient_bound * self.geometry.inflation(self.budget)

    @property
    def sensitivity(self):
        """``s``: how far one record can move a gradient of the full table."""
        return self.record_bound * self.budget.records_moved

    def time(self, temperature):
        """Diffusion time in which the slowest direction relaxes as often as is wanted."""
        return self.relaxations / self.geometry.slowest(temperature)


class Schedule(NamedTuple):
    """What was solved for."""

    temperature: float
    step_size: float
    n_steps: int


def solve(chain, temperature):
    """Return the schedule of a chain, at a temperature or (None) at the lowest that is affordable.

    Returns
    -------
    schedule : Schedule

    Raises
    ------
    ValueError
        If the options cannot all hold.
    """
    if temperature is None:
        temperature = _lowest_temperature(chain)
        step, steps = wanted_schedule(chain, temperature)
    else:
        step, steps = _within_budget(chain, temperature)
    free = chain.n_steps is None and chain.step_size is None
    most, taken = chain.release.most_steps(chain)
    if free and most == taken and _wanted_steps(chain, temperature) > most:
        raise ValueError(
            f"the plan would need {_wanted_steps(chain, temperature):.2g} steps: fix n_steps, or lower "
            f"{'step_decay, ' * bool(chain.step_decay)}prior_scale, "
            "intercept_prior_scale or data_norm, and leave intercept_scaling=None."
        )
    return Schedule(temperature, step, steps)


# What the rule takes at a temperature


def well_damped_step(chain, temperature):
    """Largest stable step at which batches heat the draws, and cost, no more than a stated share."""
    return min(
        chain.dynamics.longest_step(chain.geometry, temperature),
        heat_limited_step(chain, temperature),
        chain.release.quiet_step(chain, temperature),
    )


def heat_limited_step(chain, temperature):
    """Largest step at which random batches heat the draws by no more than a stated share."""
    if chain.sampling_rate == 1:
        return math.inf
    share = chain.dynamics.heating[0 if chain.budget.is_private else 1]
    trace = batch_trace(chain.bounds, chain.n_samples, chain.sampling_rate)
    return 2.0 * share * temperature / trace


def _wanted_steps(chain, temperature):
    lengths = chain.time(temperature) / well_damped_step(chain, temperature)
    return chain.release.n_segments(chain) * steps_for(lengths, chain.step_decay)


def wanted_schedule(chain, temperature):
    """Return (first step size, number of steps) that the rule takes at a temperature."""
    release, time = chain.release, chain.time(temperature)
    (most, taken), fewest = release.most_steps(chain), chain.fewest_steps
    step, steps, decay = chain.step_size, chain.n_steps, chain.step_decay
    segments = release.n_segments(chain)
    if step is not None:
        _check_stable(chain, step, temperature)
        wanted = segments * steps_for(time / step, decay)
        return step, steps or release.whole(chain, min(max(fewest, wanted), most))
    if steps is None:
        steps = min(_wanted_steps(chain, temperature), max(fewest, taken))
        steps = release.whole(chain, max(fewest, steps))
    step = time / power_sum(steps // segments, decay)
    if not chain.budget.is_private:
        # Diffusion time is what privacy pays for; without privacy, more of it only helps.
        step = max(step, well_damped_step(chain, temperature))
    return min(chain.dynamics.longest_step(chain.geometry, temperature), step), steps


def _check_stable(chain, step, temperature):
    limit = chain.release.limit(chain, temperature)
    # Rounding of norms may not decide on which side of the limit a step is.
    if not 0 < step < limit * (1 - 1e-9):
        raise ValueError(
            f"step_size={step:g} must be positive and below {limit:.4g}, where the chain may "
            "diverge at this data_norm and number of rows; step_size='auto' stays below it."
        )


# What a budget affords


def cost_at(chain, temperature):
    """Return the cost of what the rule takes at a temperature."""
    schedule = wanted_schedule(chain, temperature)
    return chain.release.cost(chain, temperature, *schedule)


def excess(chain, temperature, step, steps):
    """How far a schedule is beyond the budget, relatively: at most 0 is within it."""
    if not chain.budget.is_private:
        return -1.0
    cost = chain.release.cost(chain, temperature, step, steps)
    mu = chain.budget.mu
    if not cost.sampled:
        return cost.mu / mu - 1.0
    # Far beyond the budget the Gaussian limit decides: composing would be slow there.
    limit = gaussian_limit(cost)
    if limit > 3.0 * mu:
        return limit / mu
    return cost.epsilon(chain.budget.delta) / chain.budget.epsilon - 1.0


def _lowest_temperature(chain):
    def excess_at(log_temperature):
        temperature = math.exp(log_temperature)
        return excess(chain, temperature, *wanted_schedule(chain, temperature))

    def limit_excess(log_temperature):
        temperature = math.exp(log_temperature)
        schedule = wanted_schedule(chain, temperature)
        limit = gaussian_limit(chain.release.cost(chain, temperature, *schedule))
        return limit / chain.budget.mu - 1.0

    if excess_at(0.0) <= 0:
        return 1.0
    guess = 1.0
    if chain.sampling_rate < 1 and limit_excess(0.0) > 0:
        guess = smallest_within(limit_excess, guess, 1e-6, _FARTHEST)
    tolerance = chain.release.tolerance(chain)
    return math.exp(smallest_within(excess_at, guess, tolerance, _FARTHEST))


def _within_budget(chain, temperature):
    """Return (step size, steps) at a fixed temperature: less diffusion time where the budget binds."""
    (step, steps), fewest = wanted_schedule(chain, temperature), chain.fewest_steps
    if excess(chain, temperature, step, steps) <= 0:
        return step, steps
    chain.release.check_affordable(chain, temperature, step, fewest)
    if chain.step_size is None:
        shrink = smallest_within(
            lambda log: excess(chain, temperature, step * math.exp(-log), steps),
            tolerance=chain.release.tolerance(chain),
            farthest=_FARTHEST,
        )
        return step * math.exp(-shrink), steps
    if chain.n_steps is None and excess(chain, temperature, step, fewest) <= 0:
        affordable = bisect.bisect_left(
            range(fewest, steps), True, key=lambda n: excess(chain, temperature, step, n) > 0
        )
        return step, fewest + affordable - 1
    given = [f"temperature={temperature:g}", f"step_size={step:g}"]
    if chain.n_steps is not None:
        given.append(f"n_steps={steps}")
    raise ValueError(
        f"{', '.join(given)}: together these cost more than epsilon={chain.budget.epsilon:g} at "
        f"delta={chain.budget.delta:g}: drop one of them, or raise epsilon."
    )


# Sums of decreasing steps


def power_sum(n_steps, decay):
    """Return ``sum_{k=1}^T k^-a``, by Euler and Maclaurin's formula beyond the first terms."""
    if decay == 0:
        return float(n_steps)
    head = min(n_steps, 2048)
    total = float(np.sum(np.arange(1, head + 1, dtype=np.float64) ** -decay))
    if n_steps == head:
        return total
    first, last = float(head + 1), float(n_steps)
    integral = (last ** (1 - decay) - first ** (1 - decay)) / (1 - decay)
    ends = (first**-decay + last**-decay) / 2
    slope = decay * (first ** (-decay - 1) - last ** (-decay - 1)) / 12
    return total + integral + ends + slope


def steps_for(relative_time, decay):
    """Return the smallest number of steps with ``sum of k^-decay >= relative_time``."""
    relative_time *= 1 - 1e-12
    if decay == 0:
        return 2 * MAX_STEPS if relative_time > MAX_STEPS else math.ceil(relative_time)
    if power_sum(MAX_STEPS, decay) < relative_time:
        return 2 * MAX_STEPS
    possible = range(1, MAX_STEPS + 1)
    return 1 + bisect.bisect_left(possible, relative_time, key=lambda n: power_sum(n, decay))


def batch_trace(bounds, n_samples, sampling_rate):
    """Return a bound on the trace of a batch gradient's covariance, ``((1-q)/q) n G^2``."""
    return (1 - sampling_rate) / sampling_rate * n_samples * bounds.gradient_bound**2
