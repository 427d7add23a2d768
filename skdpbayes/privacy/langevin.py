"""Plans for overdamped Langevin paths (SGLD), whole path released.

    theta <- theta - eta_k (g(theta) + tau lambda theta) + N(0, 2 eta_k tau I),   eta_k = eta_1 k^-a,

is at every step a Gaussian mechanism on the summed gradient ``g``, of sensitivity ``s`` (``2G`` under
``replace_one``, ``G`` under ``add_or_remove_one``). Full batch: the path is ``mu``-GDP with

    mu^2 = s^2 t / (2 tau),        t = sum of the step sizes,

and privacy buys diffusion time ``t``. On Poisson batches ``g`` is ``1/q`` times the batch's sum, and
step ``k`` is a Poisson-subsampled Gaussian of noise multiplier ``q sqrt(2 tau / eta_k) / G``.

The untuned rule: the slowest direction, whose curvature is only the prior's ``tau lambda``, is to
relax ``k`` times, ``t = k / (tau lambda)``; the temperature is the lowest ``tau >= 1`` at which that is
affordable. Where ``tau = 1`` is, the run costs less than was asked for. Steps are at most ``1/M``,
``M = n B + tau lambda_max``: released are midpoints of successive states, whose stationary variance is
exact on a quadratic potential at any stable step (Leimkuhler and Matthews 2013; Vilmart 2015).

Wang, Fienberg and Smola (2015); Li, Chen, Liu and Carin (2019) for decreasing steps.
"""

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .cost import PrivacyCost, SampledGaussian, gaussian_mu
from .floating_point import rounding_shift, sum_inflation
from .plan import Budget, Plan

# How often the slowest direction relaxes, with privacy and without.
RELAXATIONS = 1.0
RELAXATIONS_WITHOUT_PRIVACY = 10.0
DEFAULT_BURN_IN = 0.25
DEFAULT_DRAWS = 100
# Subsampling may add this share to the temperature when the plan is free to choose its steps.
_HEATING = 0.5
_HEATING_WITHOUT_PRIVACY = 0.05
# The posterior of fewer records than this may be far from normal, where midpoints are exact: half the
# step then keeps the bias of mean and deviation below 5% of the deviation.
_FEW_RECORDS = 100
# Below this the loss of a single step is so large that no useful guarantee can follow.
_SMALLEST_MULTIPLIER = 0.5
_NOISE_LEVELS = 24
_MAX_STEPS = 10**9


class LangevinOptions(NamedTuple):
    """What a user may fix; ``None`` leaves it to the rule.

    Attributes
    ----------
    temperature : float or None
        At least 1.
    step_size : float or None
        First step size.
    step_decay : float
        ``a`` in ``eta_k = eta_1 k^-a``, in [0, 1).
    n_steps : int or None
        Number of updates.
    burn_in : float or None
        Fraction of the updates before the first draw.
    n_draws : int or None
        Draws kept.
    batch_size : int or None
        Expected size of a Poisson batch; None is the full table.
    """

    temperature: float | None = None
    step_size: float | None = None
    step_decay: float = 0.0
    n_steps: int | None = None
    burn_in: float | None = None
    n_draws: int | None = None
    batch_size: int | None = None


@dataclass(frozen=True, kw_only=True)
class LangevinPlan(Plan):
    """A plan for SGLD.

    Attributes
    ----------
    step_size : float
        First step size.
    step_decay : float
        Step ``k`` (from 1) has size ``step_size * k ** -step_decay``.
    noise_multiplier : float
        Noise of the first step relative to what one record can contribute to the gradient sum.
    relaxations : float
        Diffusion time in relaxation times of the slowest direction.
    """

    step_size: float
    step_decay: float
    noise_multiplier: float
    relaxations: float

    def step_sizes(self):
        """Return the size of every step, an array of shape (n_steps,)."""
        return self.step_size * np.arange(1, self.n_steps + 1) ** -self.step_decay

    def kept_steps(self):
        """Return the steps whose midpoints are released: evenly spaced in diffusion time."""
        if self.step_decay == 0:
            times = np.arange(self.n_burn_in + 1, self.n_steps + 1, dtype=np.float64)
        else:
            times = np.cumsum(self.step_sizes())[self.n_burn_in :]
        start = times[0] - self.step_size * (self.n_burn_in + 1) ** -self.step_decay
        if self.step_decay == 0:
            start = times[0] - 1
        wanted = start + (times[-1] - start) * np.arange(1, self.n_draws + 1) / self.n_draws
        kept = np.searchsorted(times, wanted * (1 - 1e-12))
        # Later steps are smaller: early draws may want the same step, and then take the next ones.
        order = np.arange(self.n_draws)
        kept = np.maximum.accumulate(kept - order) + order
        return self.n_burn_in + np.minimum(kept, times.size - self.n_draws + order)

    @property
    def diffusion_time(self):
        """Sum of the step sizes."""
        return self.step_size * _power_sum(self.n_steps, self.step_decay)

    @property
    def subsampling_temperature(self):
        """Public bound on the temperature that random batches add in any direction.

        The covariance of the batch gradient has a trace of at most ``((1-q)/q) n G^2``; noise of
        variance ``v`` per step acts like ``eta v / 2`` of temperature.
        """
        q = self.sampling_rate
        variance = (1 - q) / q * self.n_samples * self.bounds.gradient_bound**2
        return self.step_size * variance / 2

    def _rows(self):
        rows = super()._rows()
        decay = f", step k times k^-{self.step_decay:.3g}" if self.step_decay else ""
        rows.append(("step size", f"{self.step_size:.4g}{decay}"))
        rows.append(("noise multiplier", f"{self.noise_multiplier:.4g}"))
        rows.append(("relaxations", f"{self.relaxations:.3g} of the slowest direction"))
        if self.sampling_rate < 1:
            heat = f"batches add at most {self.subsampling_temperature:.3g} to the temperature"
            rows.append(("subsampling", heat))
        return rows


@lru_cache(maxsize=512)
def plan_langevin(bounds, n_samples, budget, options=LangevinOptions()):  # noqa: B008
    """Find the schedule whose exact cost stays within a budget.

    Parameters
    ----------
    bounds : TargetBounds
        Public bounds of the target.
    n_samples : int
        Public size of the table.
    budget : Budget
        Ceiling on the cost.
    options : LangevinOptions, default=LangevinOptions()
        What the user fixes.

    Returns
    -------
    plan : LangevinPlan

    Raises
    ------
    ValueError
        If an option is out of range, or if the options cannot all hold.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget, plan_langevin
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0))
    >>> plan = plan_langevin(bounds, 10_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.epsilon <= 1.0
    True
    """
    bounds.checked()
    budget.checked()
    _check(options, n_samples, budget)
    return _Calibration(bounds, n_samples, budget, options).plan()


def _check(options, n_samples, budget):
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}.")
    if budget.delta == 0 and not math.isinf(budget.epsilon):
        raise ValueError(
            "delta=0 asks for pure differential privacy, and sampler='sgld' adds Gaussian noise, "
            "which has none: give a delta in (0, 1), e.g. delta=None for the default."
        )
    if options.batch_size is not None and not 1 <= options.batch_size <= n_samples:
        raise ValueError(
            f"batch_size={options.batch_size} must be between 1 and the table's public size, "
            f"{n_samples}; batch_size=None takes the full table."
        )
    if options.temperature is not None and not 1 <= options.temperature < math.inf:
        raise ValueError(f"temperature must be at least 1, got {options.temperature}.")
    if not 0 <= options.step_decay < 1:
        raise ValueError(f"step_decay must be in [0, 1), got {options.step_decay}.")
    if options.burn_in is not None and not 0 <= options.burn_in < 1:
        raise ValueError(f"burn_in is a fraction in [0, 1), got {options.burn_in}.")
    for name in ("n_steps", "n_draws"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")


def _power_sum(n_steps, decay):
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


class _Calibration:
    """Solves for the temperature and the steps; every method sees public numbers only."""

    def __init__(self, bounds, n_samples, budget, options):
        self.bounds, self.n, self.budget, self.options = bounds, n_samples, budget, options
        self.q = 1.0 if options.batch_size is None else options.batch_size / n_samples
        self.private = not math.isinf(budget.epsilon)
        self.goal = RELAXATIONS if self.private else RELAXATIONS_WITHOUT_PRIVACY
        self.burn_in = DEFAULT_BURN_IN if options.burn_in is None else options.burn_in
        self.draws = DEFAULT_DRAWS if options.n_draws is None else options.n_draws
        self.fewest = self._fewest_steps()
        self.mu = gaussian_mu(budget.epsilon, budget.delta)
        inflation = sum_inflation(n_samples, bounds.n_parameters)
        self.record_bound = bounds.gradient_bound * inflation
        doubled = budget.neighboring_relation == "replace_one"
        self.sensitivity = self.record_bound * (2.0 if doubled else 1.0)

    # What the options ask for

    def _fewest_steps(self):
        fewest = max(1, math.floor(self.draws / (1 - self.burn_in)))
        while fewest - math.floor(fewest * self.burn_in) < self.draws:
            fewest += 1
        given = self.options.n_steps
        if given is not None and given < fewest:
            raise ValueError(
                f"n_steps={given} leaves fewer than n_draws={self.draws} steps after "
                f"burn_in={self.burn_in:g}: take n_steps >= {fewest}, or lower n_draws or burn_in."
            )
        return fewest

    def _stiff_step(self, temperature):
        """``1 / M``: at it, the stiffest direction forgets in a single step."""
        stiffest = self.n * self.bounds.smoothness
        share = 0.5 if self.n < _FEW_RECORDS else 1.0
        return share / (stiffest + temperature * self.bounds.prior_precision[1])

    def _calm_step(self, temperature):
        """Largest step at which random batches heat the draws by no more than a stated share."""
        stiff = self._stiff_step(temperature)
        if self.q == 1:
            return stiff
        share = _HEATING if self.private else _HEATING_WITHOUT_PRIVACY
        trace = (1 - self.q) / self.q * self.n * self.bounds.gradient_bound**2
        return min(stiff, 2.0 * share * temperature / trace)

    def schedule(self, temperature):
        """Return (first step size, number of steps) that the rule takes at a temperature."""
        time = self.goal / (temperature * self.bounds.prior_precision[0])
        step, steps, decay = self.options.step_size, self.options.n_steps, self.options.step_decay
        if step is not None:
            self._check_stable(step, temperature)
            return step, steps or max(self.fewest, _steps_for(time / step, decay))
        calm = self._calm_step(temperature)
        if steps is None:
            steps = max(self.fewest, _steps_for(time / calm, decay))
        step = time / _power_sum(steps, decay)
        # Diffusion time is what privacy pays for; without privacy, more of it only helps.
        return min(self._stiff_step(temperature), step if self.private else max(step, calm)), steps

    def _check_stable(self, step, temperature):
        stiffest = self.n * self.bounds.smoothness
        limit = 2.0 / (stiffest + temperature * self.bounds.prior_precision[1])
        if not 0 < step < limit:
            raise ValueError(
                f"step_size={step:g} must be positive and below {limit:.4g}, where the chain may "
                "diverge at this data_norm and number of rows; step_size='auto' takes at most "
                "half of that."
            )

    # What a schedule costs

    def cost(self, temperature, step, steps):
        """Exact cost of a schedule, floating point included."""
        relation = self.budget.neighboring_relation
        decay = self.options.step_decay
        if self.q == 1:
            # The squared shifts, drift plus rounding, summed over the steps.
            spacing = self._rounding(temperature, step * steps**-decay)
            square = (
                self.sensitivity**2 * step * _power_sum(steps, decay)
                + 2 * self.sensitivity * spacing * steps
                + spacing**2 / step * _power_sum(steps, -decay)
            ) / (2 * temperature)
            return PrivacyCost(relation, mu=math.sqrt(square) * (1 + 1e-12))
        sampled = tuple(
            SampledGaussian(self._multiplier(temperature, step, first, steps), self.q, count)
            for first, count in _levels(steps, decay)
        )
        if sampled[0].noise_multiplier < _SMALLEST_MULTIPLIER:
            return PrivacyCost(relation, mu=math.inf)
        return PrivacyCost(relation, sampled=sampled)

    def _rounding(self, temperature, smallest_step):
        """How far rounding can move an update, in the units of theta."""
        noise = math.sqrt(2 * smallest_step * temperature)
        return rounding_shift(self.bounds.n_parameters, noise)

    def _multiplier(self, temperature, step, k, steps):
        """Noise of the k-th step over what one record can move, rounding included."""
        decay = self.options.step_decay
        size = step * k**-decay
        moved = size * self.record_bound / self.q + self._rounding(temperature, step * steps**-decay)
        return math.sqrt(2 * size * temperature) / moved

    def excess(self, temperature, step, steps):
        """How far a schedule is beyond the budget, relatively: at most 0 is within it."""
        if not self.private:
            return -1.0
        if steps > _MAX_STEPS:
            return math.inf
        cost = self.cost(temperature, step, steps)
        if not cost.sampled:
            return cost.mu / self.mu - 1.0
        # Far beyond the budget the Gaussian limit decides: composing would be slow there.
        limit = gaussian_limit(cost)
        if limit > 3.0 * self.mu:
            return limit / self.mu
        return cost.epsilon(self.budget.delta) / self.budget.epsilon - 1.0

    # Solving

    def plan(self):
        if self.options.temperature is None:
            temperature = self._lowest_temperature()
            step, steps = self.schedule(temperature)
        else:
            temperature = float(self.options.temperature)
            step, steps = self._within_budget(temperature, *self.schedule(temperature))
        if steps > _MAX_STEPS:
            raise ValueError(
                f"the plan would need {steps:.2g} steps: fix n_steps, or lower prior_scale, "
                "data_norm or step_decay, or raise batch_size."
            )
        return self._build(temperature, step, steps)

    def _lowest_temperature(self):
        def excess(log_temperature):
            temperature = math.exp(log_temperature)
            return self.excess(temperature, *self.schedule(temperature))

        def limit_excess(log_temperature):
            temperature = math.exp(log_temperature)
            cost = self.cost(temperature, *self.schedule(temperature))
            return gaussian_limit(cost) / self.mu - 1.0

        if excess(0.0) <= 0:
            return 1.0
        guess = 1.0
        if self.q < 1 and limit_excess(0.0) > 0:
            guess = _smallest_within(limit_excess, guess, 1e-6)
        return math.exp(_smallest_within(excess, guess, self._tolerance()))

    def _within_budget(self, temperature, step, steps):
        """Take less diffusion time where the temperature is fixed and the budget binds."""
        if self.excess(temperature, step, steps) <= 0:
            return step, steps
        if self.options.step_size is None:
            shrink = _smallest_within(
                lambda log: self.excess(temperature, step * math.exp(-log), steps),
                1.0,
                self._tolerance(),
            )
            return step * math.exp(-shrink), steps
        if self.options.n_steps is None and self.excess(temperature, step, self.fewest) <= 0:
            low, high = self.fewest, steps
            while high - low > 1:
                middle = (low + high) // 2
                if self.excess(temperature, step, middle) <= 0:
                    low = middle
                else:
                    high = middle
            return step, low
        raise ValueError(
            f"temperature={temperature:g}, step_size={step:g} and n_steps={steps} together cost "
            f"more than epsilon={self.budget.epsilon:g} at delta={self.budget.delta:g}: drop one of "
            "temperature, step_size and n_steps, or raise epsilon."
        )

    def _tolerance(self):
        return 1e-12 if self.q == 1 else 1e-3

    def _build(self, temperature, step, steps):
        cost = self.cost(temperature, step, steps)
        time = step * _power_sum(steps, self.options.step_decay)
        relaxations = time * temperature * self.bounds.prior_precision[0]
        multiplier = self.q * math.sqrt(2.0 * temperature / step) / self.bounds.gradient_bound
        plan = LangevinPlan(
            sampler="sgld",
            n_samples=self.n,
            bounds=self.bounds,
            budget=self.budget,
            cost=cost,
            temperature=temperature,
            n_steps=steps,
            n_burn_in=math.floor(steps * self.burn_in),
            n_draws=self.draws,
            sampling_rate=self.q,
            step_size=step,
            step_decay=self.options.step_decay,
            noise_multiplier=multiplier,
            relaxations=relaxations,
        )
        return _with_notes(plan, self.goal)


def _with_notes(plan, goal):
    notes = []
    if plan.relaxations < 0.99 * goal:
        notes.append(
            f"the slowest direction relaxes {plan.relaxations:.2g} times instead of {goal:g}: draws "
            "stay near the starting point (zero) where the data say little; raise n_steps, or "
            "leave temperature and step_size to the plan."
        )
    if plan.subsampling_temperature > _HEATING * 1.001 * plan.temperature:
        notes.append(
            f"random batches may heat the draws from temperature {plan.temperature:.3g} to as much "
            f"as {plan.temperature + plan.subsampling_temperature:.3g}: raise batch_size or n_steps."
        )
    object.__setattr__(plan, "notes", tuple(notes))
    return plan


def _steps_for(relative_time, decay):
    """Return the smallest number of steps with ``sum of k^-decay >= relative_time``."""
    relative_time *= 1 - 1e-12
    if decay == 0:
        return math.ceil(relative_time)
    low, high = 0, 1
    while _power_sum(high, decay) < relative_time:
        low, high = high, 2 * high
        if high > _MAX_STEPS:
            return 2 * _MAX_STEPS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _power_sum(middle, decay) < relative_time else (low, middle)
    return high


def _levels(n_steps, decay):
    """Cut the steps 1..T into runs of similar noise: [(first step, how many)].

    Noise grows with ``k``, so accounting a run at its first step's noise rounds it down.
    """
    if decay == 0:
        return [(1, n_steps)]
    firsts = np.unique(np.geomspace(1, n_steps + 1, _NOISE_LEVELS + 1).astype(np.int64))
    return [(int(a), int(b - a)) for a, b in itertools.pairwise(firsts)]


def gaussian_limit(cost):
    """Return the mu of a cost in the limit in which subsampled Gaussians are Gaussian."""
    shift = 2.0 if cost.neighboring_relation == "replace_one" else 1.0
    limit = sum(p.count * (shift * p.sampling_rate / p.noise_multiplier) ** 2 for p in cost.sampled)
    return math.hypot(cost.mu, math.sqrt(limit))


def _smallest_within(excess, guess, tolerance):
    """Return the smallest x > 0 with ``excess(x) <= 0``, where the excess falls with x.

    The answer has an excess in ``[-tolerance, 0]``, or the bracket is down to rounding: false
    position (the Illinois variant), safeguarded by halving.
    """
    low, high, width = 0.0, guess, 0.02
    value_low, value_high = math.inf, excess(high)
    while value_high > 0:
        low, value_low = high, value_high
        high, width = high + width, 4 * width
        if high > 700:
            raise ValueError("no schedule stays within the budget: raise epsilon or delta.")
        value_high = excess(high)
    while math.isinf(value_low) and high - low > width and value_high < -tolerance:
        probe = max(low, high - width)
        value = excess(probe)
        if value > 0:
            low, value_low = probe, value
        else:
            high, value_high, width = probe, value, 4 * width
    best = value_high
    while best < -tolerance and high - low > 1e-14 * high:
        middle = 0.5 * (low + high)
        if math.isfinite(value_low):
            # Aim just inside the budget, so that the answer is feasible at once.
            share = (value_low + 0.3 * tolerance) / (value_low - value_high)
            middle = low + min(max(share, 0.01), 0.99) * (high - low)
        value = excess(middle)
        if value > 0:
            low, value_low, value_high = middle, value, 0.5 * value_high
        else:
            high, value_high, best, value_low = middle, value, value, 0.5 * value_low
    return high
