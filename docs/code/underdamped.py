"""Underdamped Langevin dynamics with full batches: a sampler, its plan, and its core.

    v     <- v - gamma h v - h (g(theta) + tau lambda theta) + N(0, 2 gamma tau h I)
    theta <- theta + h v

with ``g`` the sum of the records' gradients, of sensitivity ``s``. A step is a Gaussian mechanism of
sensitivity ``h s`` and deviation ``sqrt(2 gamma tau h)``; velocities and places follow from what it lets
out. ``T`` steps are therefore ``mu``-GDP with ``mu^2 = s^2 T h / (2 gamma tau)``.

Chen, Fox and Guestrin (2014).
"""

import math
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import Interval

from skdpbayes._compute.execution import run_in_blocks
from skdpbayes._compute.gradients import CompiledCore, estimate_gradient, gradient_oracle, start_of
from skdpbayes.privacy import PrivacyCost
from skdpbayes.privacy.conversions import smallest_within
from skdpbayes.privacy.rounding import lattice_spacing, rounding_shift, sum_inflation
from skdpbayes.samplers import Plan, Released, Sampler
from skdpbayes.samplers.noise import noisy_step


@dataclass(frozen=True, kw_only=True)
class UnderdampedPlan(Plan):
    """A plan for underdamped Langevin dynamics, with its friction and its step size."""

    friction: float
    step_size: float

    @property
    def noise_scale(self):
        """Deviation of a step's noise."""
        return math.sqrt(2.0 * self.friction * self.temperature * self.step_size)

    def summary(self):
        """Return the lines of the printed plan, a dict of {name: text}."""
        own = f"{self.step_size:.4g}, at friction {self.friction:.4g}"
        return super().summary() | {"step size": own}


class Underdamped(Sampler):
    """Underdamped Langevin dynamics at critical friction.

    Parameters
    ----------
    relaxations : float, default=1.0
        How often the slowest direction relaxes.
    """

    name = "underdamped"
    _parameter_constraints = {"relaxations": [Interval(Real, 0, None, closed="neither")]}

    def __init__(self, *, relaxations=1.0):
        self.relaxations = relaxations

    def plan(self, bounds, n_samples, budget, *, n_draws=None):
        """Find the lowest temperature at which the budget affords the relaxations."""
        self._validate_params()
        bounds.checked()
        budget.checked().checked_gaussian(f"sampler={self.name!r}")

        def planned(temperature):
            return self._at(temperature, bounds, n_samples, budget, n_draws or 100)

        def excess(log_temperature):
            return planned(math.exp(log_temperature)).cost.mu / budget.mu - 1.0

        affordable = excess(0.0) <= 0
        return planned(1.0 if affordable else math.exp(smallest_within(excess, tolerance=1e-9)))

    def _at(self, temperature, bounds, n_samples, budget, n_draws):
        """Return the plan at a temperature, whatever it costs.

        A direction of curvature ``tau lambda`` takes a time of ``1 / sqrt(tau lambda)`` to relax, at the
        critical friction of ``2 sqrt(tau lambda)``.
        """
        relation, length = budget.neighboring_relation, bounds.n_parameters
        weakest, strongest = bounds.prior_precision
        slowest = math.sqrt(temperature * weakest)
        longest = 0.5 / math.sqrt(n_samples * bounds.smoothness + temperature * strongest)
        n_steps = max(math.ceil(self.relaxations / (slowest * longest)), 2 * n_draws)
        friction = 2.0 * slowest
        step = min(longest, self.relaxations / (slowest * n_steps))
        noise = math.sqrt(2.0 * friction * temperature * step)
        record = bounds.gradient_bound * sum_inflation(n_samples, length, relation)
        moved = step * budget.sensitivity_factor * record + rounding_shift(length, noise)
        return UnderdampedPlan(
            sampler=clone(self),  # The caller may change the options of this one later.
            n_samples=n_samples,
            bounds=bounds,
            budget=budget,
            cost=PrivacyCost(relation, mu=math.sqrt(n_steps) * moved / noise),
            temperature=temperature,
            n_steps=n_steps,
            n_burn_in=n_steps // 4,
            n_draws=n_draws,
            friction=friction,
            step_size=step,
        )

    def run(self, plan, target, generator, verbose):
        """Draw along the path."""
        chain = Chain(start_of(target, plan), np.zeros(plan.n_parameters))
        steps = Steps(
            plan.step_size,
            plan.friction,
            plan.temperature,
            plan.noise_scale,
            lattice_spacing(plan.noise_scale),
        )
        draws = np.empty((plan.n_draws, plan.n_parameters))
        after = plan.n_steps - plan.n_burn_in
        kept = plan.n_burn_in + np.arange(1, plan.n_draws + 1) * after // plan.n_draws - 1
        oracle, batch = gradient_oracle(target, plan.n_parameters, plan.n_samples)
        fixed = (kept, draws, batch)
        run_in_blocks(
            lambda first, stop, loop: _advance(
                oracle, generator, chain, steps, first, stop, *fixed, loop
            ),
            plan,
            plan.n_samples * plan.n_parameters,
            verbose,
            self.name,
        )
        return Released(draws, plan)


class Chain(NamedTuple):
    """Where a chain is: arrays that steps overwrite."""

    place: np.ndarray
    velocity: np.ndarray


class Steps(NamedTuple):
    """What all steps have in common."""

    size: float
    friction: float
    temperature: float
    noise_scale: float
    spacing: float


@CompiledCore
def _advance(oracle, generator, chain, steps, first, stop, kept, draws, batch, loop):
    place, velocity = chain.place, chain.velocity
    gradient, prior, pushed = np.empty(place.size), np.empty(place.size), np.empty(place.size)
    draw = 0
    while draw < kept.size and kept[draw] < first:
        draw += 1
    for k in range(first, stop):
        estimate_gradient(oracle, generator, place, 1.0, batch, loop, gradient, prior)
        # All that the records do to this step, noise included: what follows is post-processing.
        noisy_step(gradient, steps.size, steps.noise_scale, steps.spacing, generator, pushed)
        for j in range(place.size):
            pushed[j] -= steps.size * steps.temperature * prior[j]
            velocity[j] += pushed[j] - steps.friction * steps.size * velocity[j]
            place[j] += steps.size * velocity[j]
        if draw < kept.size and kept[draw] == k:
            for j in range(place.size):
                draws[draw, j] = place[j]
            draw += 1
