"""Plans for Langevin chains: temperature, steps and noise that a budget affords.

    theta <- theta - eta_k (g(theta) + tau lambda theta) + N(0, 2 eta_k tau I),   eta_k = eta_1 k^-a,

with all iterates released, or with only the last one of each of a few segments; and for underdamped chains,
whose ``eta_k`` is diffusion time per step, too: what privacy pays for.
"""

import bisect
import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from ...models import TargetBounds
from ...privacy.budget import Budget
from ...privacy.conversions import smallest_within
from ...privacy.cost import gaussian_limit
from ...privacy.rounding import sum_inflation
from ..noise import path_cost, path_multiplier, sensitivity_after_rounding
from ..plan import LARGEST_TEMPERATURE, MAX_STEPS, Plan, chain_length, fewest_steps, number_of_draws

# How far a step may go, and how much of its velocity a chain loses by it.
#
# Overdamped (SGLD): steps ``eta`` up to ``1 / M``, at which the stiffest direction forgets in a
# single one.
#
# Underdamped (SGHMC, SGNHT):
#
#     u <- (1 - f) u - kappa (g(theta) + tau lambda theta) + N(0, 2 kappa f tau I),   theta <- theta + u
#
# is at every step a Gaussian mechanism on the summed gradient, of sensitivity ``kappa s`` and
# deviation ``sqrt(2 kappa f tau)``: with ``eta = kappa / f`` what an overdamped step of size
# ``eta`` costs. What differs is how far a step may go. With friction ``f = F / T`` velocities are
# forgotten ``F`` times in ``T`` steps, and what swings in stiff directions decays by
# ``exp(-F / 2)``; ``kappa <= 1/M`` then allows ``k`` relaxations of the slowest direction, of
# curvature ``m``, in
#
#     T = sqrt(F k M / m)
#
# steps, where an overdamped chain takes ``k M / m``. ``F`` is 16, or ``4 k`` if that is more:
# critical damping of the slowest direction.
#
# With a thermostat ``f`` is free to move and the noise is fixed: what batches add to the temperature
# is taken out again, so friction starts where it has room to rise.
#
# Chen, Fox and Guestrin (2014); Ding, Fang, Babbush, Chen, Skeel and Neven (2014).


# What random batches may add to the temperature, relatively, with privacy and without.
HEATING = 0.5
HEATING_WITHOUT_PRIVACY = 0.05
# Midpoints are exact for normal posteriors. That of fewer records than this may be far from normal: half the
# step then keeps the bias of mean and deviation below 5% of the deviation.
_FEW_RECORDS = 100
# A thermostat's friction starts below this, and as far below as the heat of batches may need.
_MOST_FRICTION = 0.5
_ROUNDING_ALLOWANCE = 0.9
# Gain of a thermostat, relative to the mean square that it aims at. Friction fluctuates by a share of
# sqrt(gain / n_parameters).
_GAIN = 0.1


class Dynamics(Protocol):
    """The interface of a dynamics, as schedules use it.

    Attributes
    ----------
    heating : tuple of (float, float)
        What random batches may add to the temperature, relatively, with privacy and without.
    """

    heating: tuple[float, float]

    def longest_step(self, geometry, temperature):
        """The largest diffusion time of a step that the rule takes."""

    def limit(self, geometry, temperature):
        """The diffusion time of a step at which a chain may diverge."""

    def friction(self, geometry, temperature, step, n_steps):
        """The share of its velocity that a step loses; None where there is none."""


def stable_step(geometry, temperature):
    """``1 / M``: at it, the stiffest direction forgets in a single step."""
    share = 0.5 if geometry.n_samples < _FEW_RECORDS else 1.0
    return share / geometry.stiffest(temperature)


class Overdamped(NamedTuple):
    """The dynamics of SGLD."""

    heating: tuple[float, float] = (HEATING, HEATING_WITHOUT_PRIVACY)

    def longest_step(self, geometry, temperature):
        """The largest diffusion time of a step that the rule takes."""
        return stable_step(geometry, temperature)

    def limit(self, geometry, temperature):
        """The diffusion time of a step at which a chain may diverge."""
        return 2.0 / geometry.stiffest(temperature)

    def friction(self, geometry, temperature, step, n_steps):
        """None: there is no velocity."""
        return None


class Underdamped(NamedTuple):
    """The dynamics of SGHMC.

    Attributes
    ----------
    relaxations : float
        How often the slowest direction is to relax.
    given_friction : float or None
    """

    relaxations: float
    given_friction: float | None = None
    heating: tuple[float, float] = (HEATING, HEATING_WITHOUT_PRIVACY)

    def longest_step(self, geometry, temperature):
        """Diffusion time of a step at which the velocity takes in ``1 / M`` of the gradient."""
        curvature = 1.0 / stable_step(geometry, temperature)
        if self.given_friction is not None:
            return 1.0 / (self.given_friction * curvature)
        product = damping_times(self.relaxations) * geometry.slowest(temperature) * curvature
        # An overdamped step is never longer.
        return max(math.sqrt(self.relaxations / product), 1.0 / curvature)

    def limit(self, geometry, temperature):
        """The diffusion time of a step at which a chain may diverge."""
        # Twice the curvature's share: stable whatever the friction.
        if self.given_friction is not None:
            return 2.0 / (self.given_friction * geometry.stiffest(temperature))
        # Friction follows the step, so any is stable; beyond this a chain would hardly forget its velocity.
        return 2.0 * self.longest_step(geometry, 1.0)

    def friction(self, geometry, temperature, step, n_steps):
        """The share of the velocity that a step loses."""
        if self.given_friction is not None:
            return self.given_friction
        stable = stable_step(geometry, temperature) / step
        # A chain that is cut short forgets so often in all, and one that goes on in every such time.
        in_a_run = max(1.0 / n_steps, step * geometry.slowest(temperature) / self.relaxations)
        return min(1.0, damping_times(self.relaxations) * in_a_run, stable)


class Thermostat(NamedTuple):
    """The dynamics of SGNHT.

    Attributes
    ----------
    underdamped : Underdamped
        Without the thermostat.
    batch_trace : float
        Bound on the trace of a batch gradient's covariance.
    """

    underdamped: Underdamped
    batch_trace: float
    # Heat is taken out again, so there may be as much without privacy.
    heating: tuple[float, float] = (HEATING, HEATING)

    def longest_step(self, geometry, temperature):
        """The largest diffusion time of a step that the rule takes."""
        return self.underdamped.longest_step(geometry, temperature)

    def limit(self, geometry, temperature):
        """The diffusion time of a step at which a chain may diverge."""
        return self.underdamped.limit(geometry, temperature)

    def friction(self, geometry, temperature, step, n_steps):
        """The friction to start with: the velocity takes in ``1 / M`` of the gradient at most."""
        if self.underdamped.given_friction is not None:
            return self.underdamped.given_friction
        stable = min(_MOST_FRICTION, 1.0 / (step * geometry.stiffest(temperature)))
        heat = step * self.batch_trace / (2.0 * temperature)
        without = self.underdamped.friction(geometry, temperature, step, n_steps)
        return min(max(without, stable), _ROUNDING_ALLOWANCE / (1.0 + heat))


def damping_times(relaxations):
    """The number of damping times of the velocity while the slowest direction relaxes.

    What swings in stiffer directions decays by ``exp(-forgetting / 2)``.
    """
    return max(16.0, 4.0 * relaxations)


def thermostat_gain(friction, temperature):
    """The rate at which friction follows the kinetic temperature."""
    return _GAIN * friction**2 / temperature


# How a potential is curved, as far as public numbers say: what lengths of steps follow from.
#
#     m(tau) = tau lambda_min,      M(tau) = n B + tau lambda_max
#
# for a posterior at temperature ``tau`` of which nothing is known but its bounds. Other coordinates have
# geometries of their own: of whitened rows, of gradients that are clipped.


class Geometry(Protocol):
    """The interface of a geometry, as schedules use it.

    Attributes
    ----------
    bounds : TargetBounds
        In these coordinates.
    n_samples : int
        Public size of the table.
    """

    bounds: TargetBounds
    n_samples: int

    def slowest(self, temperature):
        """The curvature of the slowest direction that is to relax."""

    def stiffest(self, temperature):
        """The largest curvature that the potential can have."""

    def inflation(self, budget):
        """The factor by which rounding can enlarge what a record adds to a gradient."""


@dataclass(frozen=True)
class PriorGeometry:
    """The geometry of which only bounds are known: the prior's curvature is all that is sure.

    Attributes
    ----------
    bounds : TargetBounds
    n_samples : int
    n_batches : int, default=1
        How many batches take turns; the largest, times their number, is what a step may see.
    """

    bounds: TargetBounds
    n_samples: int
    n_batches: int = 1

    def slowest(self, temperature):
        """The curvature of a direction about which the data say nothing."""
        return temperature * self.bounds.prior_precision[0]

    def stiffest(self, temperature):
        """The largest curvature that the potential can have."""
        records = self.n_batches * -(-self.n_samples // self.n_batches)
        return records * self.bounds.smoothness + temperature * self.bounds.prior_precision[1]

    def inflation(self, budget):
        """The factor by which rounding can enlarge what a record adds to a gradient."""
        relation = budget.neighboring_relation
        return sum_inflation(self.n_samples, self.bounds.n_parameters, relation)


# Schedules of Langevin chains: the lowest temperature, or the longest chain, that a budget affords.
#
#     tau = min { tau >= 1 : cost(tau, t = k / m(tau)) <= budget },     t = sum of eta_k,   eta_k = eta_1 k^-a
#
# The slowest direction, of curvature ``m``, is to relax ``k`` times; a geometry says what ``m`` is, a
# dynamics how long a step may be, and a release what a schedule costs. Where ``tau = 1`` is
# affordable, the run costs less than was asked for. Everything here is a function of public numbers.
#
# Wang, Fienberg and Smola (2015); Li, Chen, Liu and Carin (2019) for decreasing steps.


# How far temperatures are raised, and steps are shortened, in logarithms: numbers stay normal doubles.
_LARGEST_LOG_CHANGE = math.log(LARGEST_TEMPERATURE)


class Release(Protocol):
    """The interface of `AllIterates` and `LastIterate`, as schedules use it."""

    def n_segments(self, chain):
        """Number of chains follow each other."""

    def whole(self, chain, steps):
        """A number of steps, at least as many, into which the schedule can be cut."""

    def most_steps(self, chain):
        """Number of steps can be accounted for, and how many the rule takes at most."""

    def batch_safe_step(self, chain, temperature):
        """The step beyond which batches would cost more than the full table."""

    def limit(self, chain, temperature):
        """The upper limit of a step size that is given."""

    def tolerance(self, chain):
        """The relative tolerance with which budgets are met."""

    def check_affordable(self, chain, temperature, step, fewest):
        """Raise a ValueError if a start at this temperature leaves nothing for the path."""

    def cost(self, chain, temperature, step, steps):
        """The exact cost of a schedule, floating point included."""


@dataclass(frozen=True, kw_only=True)
class ScheduleProblem:
    """The problem of a schedule: public numbers, and the objects that know more about them.

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
        """The number of steps that the draws need."""
        most, _ = self.release.most_steps(self)
        return fewest_steps(self.n_steps, self.n_draws, self.burn_in, most, self.sampling_rate)

    @property
    def record_bound(self):
        """The largest contribution of a record to a gradient, rounding included."""
        return self.bounds.gradient_bound * self.geometry.inflation(self.budget)

    @property
    def sensitivity(self):
        """``s``: how far one record can move a gradient of the full table."""
        return self.record_bound * self.budget.sensitivity_factor

    def time(self, temperature):
        """Diffusion time in which the slowest direction relaxes as often as is wanted."""
        return self.relaxations / self.geometry.slowest(temperature)


class Schedule(NamedTuple):
    """The solution: a schedule."""

    temperature: float
    step_size: float
    n_steps: int


def solve_schedule(chain, temperature):
    """The schedule of a chain, at a temperature or (None) at the lowest that is affordable.

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
        chain.release.batch_safe_step(chain, temperature),
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
    """(first step size, number of steps) that the rule takes at a temperature."""
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
    """The cost of what the rule takes at a temperature."""
    schedule = wanted_schedule(chain, temperature)
    return chain.release.cost(chain, temperature, *schedule)


def excess(chain, temperature, step, steps):
    """The relative excess of a schedule over the budget: at most 0 is within it."""
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
        guess = smallest_within(limit_excess, guess, 1e-6, _LARGEST_LOG_CHANGE)
    tolerance = chain.release.tolerance(chain)
    return math.exp(smallest_within(excess_at, guess, tolerance, _LARGEST_LOG_CHANGE))


def _within_budget(chain, temperature):
    """(step size, steps) at a fixed temperature: less diffusion time where the budget binds."""
    (step, steps), fewest = wanted_schedule(chain, temperature), chain.fewest_steps
    if excess(chain, temperature, step, steps) <= 0:
        return step, steps
    chain.release.check_affordable(chain, temperature, step, fewest)
    if chain.step_size is None:
        shrink = smallest_within(
            lambda log: excess(chain, temperature, step * math.exp(-log), steps),
            tolerance=chain.release.tolerance(chain),
            farthest=_LARGEST_LOG_CHANGE,
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
    """``sum_{k=1}^T k^-a``, by Euler and Maclaurin's formula beyond the first terms."""
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
    """The smallest number of steps with ``sum of k^-decay >= relative_time``."""
    relative_time *= 1 - 1e-12
    if decay == 0:
        return 2 * MAX_STEPS if relative_time > MAX_STEPS else math.ceil(relative_time)
    if power_sum(MAX_STEPS, decay) < relative_time:
        return 2 * MAX_STEPS
    possible = range(1, MAX_STEPS + 1)
    return 1 + bisect.bisect_left(possible, relative_time, key=lambda n: power_sum(n, decay))


def batch_trace(bounds, n_samples, sampling_rate):
    """A bound on the trace of a batch gradient's covariance, ``((1-q)/q) n G^2``."""
    return (1 - sampling_rate) / sampling_rate * n_samples * bounds.gradient_bound**2


# Batches that raise the temperature by more than this are worth a warning, and by more than that an error.
_MUCH_HOTTER = 2.0
HOTTEST = 1000.0


@dataclass(frozen=True, kw_only=True)
class LangevinPlan(Plan):
    """A plan for a Langevin chain.

    Attributes
    ----------
    step_size : float
        First step size.
    step_decay : float, default=0.0
        Step ``k`` (from 1, of a segment) has size ``step_size * k ** -step_decay``.
    noise_multiplier : float
        Noise of the first step relative to what one record can contribute to the gradient sum.
    wanted_relaxations : float
        How often the slowest direction should relax; see ``relaxations``.
    slowest_curvature : float or None
        Of the slowest direction that is to relax; None where no public number says anything of it.
    friction : float or None, default=None
        Share of its velocity that an underdamped chain loses in a step (where a thermostat starts).
    thermostat_gain : float, default=0.0
        How fast the friction follows the kinetic temperature; 0 keeps it as it is.
    start : LangevinPlan or None, default=None
        How the first state is drawn; None starts at zero.
    full_table_temperature : float or None, default=None
        At which the full table would be sampled, all else being left as it is; None where there are no
        batches, or the temperature is fixed.
    hides_path : bool, default=False
        Whether only the last iterate of every segment is released. Batches, if any, take turns then, and
        are cut at random for every draw, without looking at the records.
    """

    step_size: float
    step_decay: float = 0.0
    noise_multiplier: float
    wanted_relaxations: float
    slowest_curvature: float | None
    friction: float | None = None
    thermostat_gain: float = 0.0
    start: "LangevinPlan | None" = None
    full_table_temperature: float | None = None
    hides_path: bool = False

    # Steps

    @property
    def n_segments(self):
        """The number of chains that follow each other, each starting where the one before has ended."""
        return self.n_draws if self.hides_path else 1

    @property
    def segment_steps(self):
        """Steps of the shortest segment."""
        return self.n_steps // self.n_segments

    @property
    def n_batches(self):
        """The number of batches that take turns where the path is hidden; 1 is the full table."""
        return round(1 / self.sampling_rate) if self.hides_path else 1

    @property
    def gradient_step(self):
        """``kappa``: by how much of the (first step's) gradient a velocity moves."""
        # Overdamped chains lose all of their velocity in every step.
        return self.step_size * (1.0 if self.friction is None else self.friction)

    @property
    def n_updates(self):
        """Updates in all, those of the start included."""
        return self.n_steps + (self.start.n_steps if self.start else 0)

    @property
    def record_gradients(self):
        """The expected number of gradients of single records."""
        before = self.start.record_gradients if self.start else 0
        return super().record_gradients + before

    def step_sizes(self):
        """The size of every step of a segment, the shortest if they differ."""
        return self.step_size * np.arange(1, self.segment_steps + 1) ** -self.step_decay

    def kept_steps(self):
        """The steps of which a midpoint is released.

        Evenly spaced in diffusion time along a path; the last of every segment where the path is hidden.
        """
        if self.hides_path:
            return np.cumsum(segment_lengths(self.n_steps, self.n_draws)) - 1
        if self.step_decay == 0:
            times = np.arange(self.n_burn_in + 1, self.n_steps + 1, dtype=np.float64)
            start = times[0] - 1
        else:
            times = np.cumsum(self.step_sizes())[self.n_burn_in :]
            start = times[0] - self.step_size * (self.n_burn_in + 1) ** -self.step_decay
        wanted = start + (times[-1] - start) * np.arange(1, self.n_draws + 1) / self.n_draws
        kept = np.searchsorted(times, wanted * (1 - 1e-12))
        # Later steps are smaller: early draws may want the same step, and then take the next ones.
        order = np.arange(self.n_draws)
        kept = np.maximum.accumulate(kept - order) + order
        return self.n_burn_in + np.minimum(kept, times.size - self.n_draws + order)

    # What they amount to

    @property
    def diffusion_time(self):
        """Sum of the step sizes of a segment."""
        return self.step_size * power_sum(self.segment_steps, self.step_decay)

    @property
    def relaxations(self):
        """Diffusion time of a segment in relaxation times of the slowest direction; nan if unknown."""
        if self.slowest_curvature is None:
            return math.nan
        return self.diffusion_time * self.slowest_curvature

    @property
    def subsampling_temperature(self):
        """Public bound on the temperature that batches add in any direction.

        The covariance of the batch gradient has a trace of at most ``((1-q)/q) n G^2``; noise of
        variance ``v`` per step acts like ``eta v / 2`` of temperature. Batches that take turns add no
        more than that, on average over the orders that may have been drawn.
        """
        return self.step_size * batch_trace(self.bounds, self.n_samples, self.sampling_rate) / 2

    @property
    def noise_temperature(self):
        """Temperature to which a thermostat's noise would heat SGHMC that relaxes as often as is wanted."""
        goal = self.wanted_relaxations
        if self.friction is None or self.slowest_curvature is None or not goal:
            return math.nan
        relaxed = self.gradient_step * self.slowest_curvature / goal
        return self.temperature * self.friction / min(1.0, math.sqrt(damping_times(goal) * relaxed))

    @property
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        found = super().warnings
        if self.hides_path and self.segment_steps < self.n_batches:
            share = f"{self.segment_steps} of {self.n_batches} batches"
            found += (f"a draw sees only {share}: raise n_steps or batch_size.",)
        if self.slowest_curvature is None:
            return found
        if self.relaxations < 0.99 * self.wanted_relaxations:
            found += (self._short_warning(),)
        return found + self._heat_warnings() + self._batch_warnings()

    def _short_warning(self):
        if self.thermostat_gain and self.budget.is_private:
            return (
                f"at temperature {self.temperature:.3g} the budget lets the slowest direction relax "
                f"{self.relaxations:.2g} times instead of {self.wanted_relaxations:g}: draws stay "
                "near their start in directions about which the data say little. sampler='sghmc' "
                "heats them instead."
            )
        return (
            f"the slowest direction relaxes {self.relaxations:.2g} times instead of "
            f"{self.wanted_relaxations:g}: draws stay near their start in directions about which "
            f"the data say little; {self._longer()}."
        )

    def _longer(self):
        """The advice that makes the chain longer."""
        # Where the budget is used up, more steps would only be shorter ones.
        spent = self.budget.is_private and self.epsilon > 0.99 * self.requested_budget.epsilon
        if "temperature" in self.fixed and spent:
            return "raise temperature, or leave it 'auto'"
        if "step_size" in self.fixed:
            return f"raise {'n_steps or ' * ('n_steps' in self.fixed)}step_size, or leave it 'auto'"
        if "n_steps" in self.fixed:
            return "raise n_steps, or leave it 'auto'"
        kind = type(self.sampler).__name__
        other = "raise batch_size, or " * (self.sampling_rate < 1)
        return (
            f"{other}fix n_steps above {self.n_steps:,}, by set_params(sampler__n_steps=...) or "
            f"sampler={kind}(n_steps=...)"
        )

    def _heat_warnings(self):
        heat = self.subsampling_temperature
        other = "lower step_size" if "step_size" in self.fixed else "raise n_steps"
        # A thermostat's friction can rise to 1.
        if self.thermostat_gain and self.friction * (1.0 + heat / self.temperature) > 1:
            return (
                f"batches may heat the draws by as much as {heat:.3g}, more than "
                f"the thermostat can take out: raise batch_size, or {other}.",
            )
        if self.thermostat_gain or heat <= 1.001 * HEATING * self.temperature:
            return ()
        return (
            f"batches may heat the draws from temperature {self.temperature:.3g} to as "
            f"much as {self.temperature + heat:.3g}: raise batch_size, or {other}.",
        )

    def _batch_warnings(self):
        full = self.full_table_temperature
        if full is None or self.temperature <= _MUCH_HOTTER * full:
            return ()
        return (
            f"batches raise the temperature to {self.temperature:.3g}, and the full table would have "
            f"{full:.3g}: raise batch_size, or n_steps, or take batch_size=None.",
        )

    def summary(self):
        """The lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        if self.hides_path:
            each = f", {self.segment_steps:,} for each draw" if self.n_draws > 1 else ""
            lines["steps"] = f"{self.n_steps:,}{each}; the iterates between draws stay hidden"
        if self.n_batches > 1:
            size = self.n_samples / self.n_batches
            lines["a step reads"] = (
                f"one of {self.n_batches:,} batches of {size:.6g} records, in turn"
            )
        decay = f", step k times k^-{self.step_decay:.3g}" if self.step_decay else ""
        lines["step size"] = f"{self.step_size:.4g}{decay}"
        lines["noise multiplier"] = f"{self.noise_multiplier:.4g}"
        if self.slowest_curvature is not None:
            lines["relaxations"] = f"{self.relaxations:.3g} of the slowest direction"
            if self.sampling_rate < 1:
                heat = f"{self.subsampling_temperature:.3g}"
                lines["subsampling"] = f"batches add at most {heat} to the temperature"
        if self.full_table_temperature is not None:
            lines["full table"] = f"would have temperature {self.full_table_temperature:.4g}"
        if self.start:
            start_text = f"a posterior sample at temperature {self.start.temperature:.4g}"
            spent = f"epsilon = {self.start.epsilon:.4g} by itself"
            lines["starts at"] = f"{start_text}, {self.start.n_steps:,} steps, {spent}"
        if self.friction is not None:
            lines["friction"] = f"{self.friction:.4g} of the velocity per step"
        if self.thermostat_gain and self.slowest_curvature is not None:
            held = f"held at {self.temperature:.4g} by the thermostat"
            lines["noise temperature"] = f"{self.noise_temperature:.4g}, {held}"
        return lines


def check_batches(plan):
    """Raise a ValueError if batches heat a posterior until it says nothing."""
    full = plan.full_table_temperature
    hottest = plan.temperature + plan.subsampling_temperature
    if full is not None and hottest > HOTTEST * full:
        raise ValueError(
            f"batches of {plan.sampling_rate * plan.n_samples:.6g} records can raise the temperature from "
            f"{full:.3g}, that of the full table, to {hottest:.3g}: raise batch_size, or n_steps, or take "
            "batch_size=None."
        )


def segment_lengths(n_steps, n_segments):
    """Number of steps every segment has: equally many, or one more at the end."""
    ends = n_steps * np.arange(1, n_segments + 1, dtype=np.int64) // n_segments
    return np.diff(ends, prepend=0)


# Chains whose noise and number of steps are fixed, and paid for, before their coordinates are known.
#
# Part of a budget releases something (a second moment, a start), the rest buys ``T`` steps at the
# noise multiplier ``nu``: a cost that is known beforehand. What was released then decides on
# coordinates, and with them on the bound ``G`` of a record's gradient; a step of diffusion time
# ``eta`` at temperature ``tau`` has the multiplier ``q sqrt(2 tau / eta) / G``, so that
#
#     eta <= 2 tau (q / (nu G))^2,
#
# and the temperature is the lowest from 1 at which the chain gets the time that it wants.


def schedule_at_noise(chain, noise_multiplier, temperature):
    """The schedule of a chain at noise that is paid for.

    Parameters
    ----------
    chain : ScheduleProblem
        With its number of steps.
    noise_multiplier : float
        What a step's noise is, relative to the bound on a record's gradient; 0 without privacy.
    temperature : float or None
        None is the lowest from 1 at which the wanted step is affordable.

    Returns
    -------
    schedule : Schedule
    """

    def shortage(log_temperature):
        temperature = math.exp(log_temperature)
        return (
            _wanted_step(chain, temperature) / _allowed_step(chain, noise_multiplier, temperature)
            - 1.0
        )

    if temperature is None:
        affordable = shortage(0.0) <= 0
        temperature = 1.0 if affordable else math.exp(smallest_within(shortage, tolerance=1e-9))
    allowed = _allowed_step(chain, noise_multiplier, temperature)
    return Schedule(temperature, min(_wanted_step(chain, temperature), allowed), chain.n_steps)


def _wanted_step(chain, temperature):
    """The diffusion time of a step at which the slowest direction relaxes as is wanted."""
    if not chain.budget.is_private:  # More diffusion time only helps.
        return well_damped_step(chain, temperature)
    longest = chain.dynamics.longest_step(chain.geometry, temperature)
    return min(chain.time(temperature) / chain.n_steps, longest)


def _allowed_step(chain, noise_multiplier, temperature):
    """The longest step that noise pays for, and at which batches heat by a stated share at most."""
    paid = affordable_step(
        chain.record_bound,
        chain.sampling_rate,
        chain.bounds.n_parameters,
        noise_multiplier,
        temperature,
    )
    return min(paid, heat_limited_step(chain, temperature))


def affordable_step(record_bound, rate, n_parameters, noise_multiplier, temperature):
    """The largest diffusion time of a step that the noise multiplier covers."""
    if noise_multiplier == 0:
        return math.inf
    moved = sensitivity_after_rounding(noise_multiplier, n_parameters)
    return 2.0 * temperature * (moved * rate / record_bound) ** 2


# Chains on clipped gradients, as networks have: a budget fixes the noise, and the noise the longest
# step.
#
#     nu  from the budget, the batches and the number of steps,
#     eta = min( S / (n C),  2 (q / (nu C))^2 ),      tau = eta nu^2 C^2 / (2 q^2)
#
# ``eta`` is diffusion time per step (``kappa = f eta`` for underdamped chains), ``C`` the norm to
# which gradients of records are clipped. The second length is that at which the noise is the
# posterior's own, at temperature 1: steps are no longer, because noise would take the weights
# farther than the posterior does. The first was found to be stable: a step moves nothing by more
# than ``S``, and changes no velocity by more than ``f S``, because gradients are clipped. (No
# public number gives a useful bound on a network's curvature.) If it is the shorter one, or if the
# prior's curvature allows only a shorter one still, draws on the whole budget are colder than the
# posterior (``tau < 1``). A fixed temperature raises the noise, and less is spent.
#
# The likelihood is not convex and gradients are clipped one by one: whole paths are released and
# accounted for, hidden states are not. Li, Chen, Liu and Carin (2019); Abadi et al. (2016) for the
# clipping.


N_STEPS = 600
N_STEPS_WITHOUT_PRIVACY = 3000
N_DRAWS = 100
BURN_IN = 0.5
# Of an underdamped chain's velocity, a step.
FRICTION = 0.1
_SHORTEST_STEP = 1e-30
# S: overdamped, and underdamped at that friction.
_OVERDAMPED_REACH = 20.0
_UNDERDAMPED_REACH = 40.0


@dataclass(frozen=True)
class ClippedGeometry(PriorGeometry):
    """The geometry of clipped gradients, which move nothing by more than their reach.

    Attributes
    ----------
    friction : float or None, default=None
        Share of the velocity that a step loses; None is for overdamped chains.
    """

    friction: float | None = None

    def step_at_one(self, budget, rate, noise_multiplier):
        """The diffusion time of a step at which the noise is that of temperature 1."""
        record_bound = self.bounds.gradient_bound * self.inflation(budget)
        n_parameters = self.bounds.n_parameters
        return affordable_step(record_bound, rate, n_parameters, noise_multiplier, 1.0)

    def schedule_at_noise(self, chain, noise_multiplier, temperature):
        """The `Schedule` of a chain at noise that is paid for."""
        friction = 1.0 if self.friction is None else self.friction
        reach = _OVERDAMPED_REACH
        if self.friction is not None:
            # Of what a velocity adds up to, whatever the friction.
            reach = _UNDERDAMPED_REACH * FRICTION / friction
        at_one = self.step_at_one(chain.budget, chain.sampling_rate, noise_multiplier)
        # In one step the prior alone takes away what it pulls at, and no more.
        fixed, precision = temperature, self.bounds.prior_precision[1]
        stiffest = (1.0 if fixed is None else fixed) * precision
        longest = min(
            reach / (self.n_samples * self.bounds.gradient_bound), 1.0 / (friction * stiffest)
        )
        step = chain.step_size
        if step is None:
            step = min(longest, at_one * (1.0 if fixed is None else fixed))
        needed = 1.0 if math.isinf(at_one) else step / at_one
        temperature = needed if fixed is None else max(needed, fixed)
        _check_step(step, friction, temperature, precision)
        if fixed is not None and needed > fixed * (1.0 + 1e-9):
            raise ValueError(
                f"step_size={step:g} asks for a temperature of {needed:.4g} within this budget, and "
                f"temperature={fixed:g} is lower: leave one of them 'auto'."
            )
        return Schedule(temperature, step, chain.n_steps)


def plan_clipped(sampler, bounds, n_samples, budget, rate, temperature, n_steps, n_draws):
    """Plan a path on clipped gradients that spends a budget.

    Parameters
    ----------
    sampler : LangevinSampler
    bounds, n_samples, budget, temperature, n_steps, n_draws
        As for its `plan`.
    rate : float
        Share of the records that a step reads.

    Returns
    -------
    plan : LangevinPlan

    Raises
    ------
    ValueError
        If the options cannot all hold.
    """
    burn_in = sampler.burn_in_or(BURN_IN)
    default = N_STEPS if budget.is_private else N_STEPS_WITHOUT_PRIVACY
    n_draws = number_of_draws(n_draws, N_DRAWS, n_steps, burn_in)
    steps = chain_length(n_steps, default, n_draws, burn_in, rate)
    multiplier, cost = path_multiplier(bounds, budget, rate, steps)
    friction = None if sampler.is_overdamped else sampler.friction_or(FRICTION)
    geometry = ClippedGeometry(bounds, n_samples, friction=friction)
    plan = sampler.plan_for_noise_multiplier(
        geometry,
        n_samples,
        multiplier,
        steps,
        cost,
        budget=budget,
        temperature=temperature,
        n_draws=n_draws,
    )
    if not budget.is_private:
        return plan
    used = plan.temperature * geometry.step_at_one(budget, rate, multiplier) / plan.step_size
    if used <= 1.0 + 1e-9:
        return plan
    # More noise than the budget asks for.
    multiplier = _raised(multiplier, used * (1.0 - 1e-9), bounds.n_parameters)
    cost = path_cost(budget.neighboring_relation, rate, steps, multiplier)
    return plan.changed(noise_multiplier=multiplier, cost=cost)


def _check_step(step, friction, temperature, precision):
    """Refuse steps at which the prior's own pull makes the chain diverge, or that do nothing."""
    if friction * step * temperature * precision > 1.0 + 1e-9:
        raise ValueError(
            f"step_size={step:g} is too long: at temperature {temperature:.3g}, which this budget's noise "
            "implies, the prior alone would make the chain diverge: take step_size='auto', or less."
        )
    if step < _SHORTEST_STEP:
        raise ValueError(f"step_size={step:g} is too short to be useful: take step_size='auto'.")


def _raised(multiplier, factor, n_parameters):
    """The multiplier of noise with ``factor`` times the variance; rounding stays as it is."""
    moved = sensitivity_after_rounding(multiplier, n_parameters)
    return 1.0 / (moved / math.sqrt(factor) + (1.0 / multiplier - moved))
