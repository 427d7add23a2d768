"""Underdamped Langevin dynamics with full batches: a plan, its planner, and a sampler for it.

    v     <- v - gamma h v - h (g(theta) + tau lambda theta) + N(0, 2 gamma tau h I)
    theta <- theta + h v

with ``g`` the sum of the records' gradients, of sensitivity ``s``. A step is a Gaussian mechanism
of sensitivity ``h s`` and deviation ``sqrt(2 gamma tau h)``; ``theta`` follows from released
velocities. ``T`` steps are therefore ``mu``-GDP with ``mu^2 = s^2 T h / (2 gamma tau)``.

Chen, Fox and Guestrin (2014).
"""

import math
from dataclasses import dataclass

import numpy as np

from skdpbayes.privacy import Plan, PrivacyCost
from skdpbayes.privacy.cost import gaussian_mu
from skdpbayes.privacy.floating_point import (
    lattice_spacing,
    n_chunks,
    rounding_shift,
    sum_inflation,
)
from skdpbayes.samplers._execution import run_in_blocks
from skdpbayes.samplers._gradients import gradient_sum
from skdpbayes.samplers._interface import CompiledCore, run
from skdpbayes.targets import n_examples, prior_gradient


@dataclass(frozen=True, kw_only=True)
class UnderdampedPlan(Plan):
    """A plan for underdamped Langevin dynamics, with its friction and step size."""

    friction: float
    step_size: float


def plan_underdamped(bounds, n_samples, budget, *, relaxations=1.0, n_draws=100):
    """Find the lowest temperature at which the slowest direction relaxes so often in the budget.

    At critical friction, ``2 sqrt(tau lambda)``, a direction of curvature ``tau lambda`` takes a
    time of ``1 / sqrt(tau lambda)`` to relax.
    """
    bounds.checked()
    budget.checked()
    if budget.delta == 0 and not math.isinf(budget.epsilon):
        raise ValueError("delta must be positive: Gaussian noise gives no pure privacy.")
    doubled = 2.0 if budget.neighboring_relation == "replace_one" else 1.0
    inflated = bounds.gradient_bound * sum_inflation(
        n_samples, bounds.n_parameters, budget.neighboring_relation
    )
    weakest, strongest = bounds.prior_precision

    def schedule(temperature):
        slowest = temperature * weakest
        stiffest = n_samples * bounds.smoothness + temperature * strongest
        time = relaxations / math.sqrt(slowest)
        largest = 0.5 / math.sqrt(stiffest)
        n_steps = max(math.ceil(time / largest), 2 * n_draws)
        return 2.0 * math.sqrt(slowest), min(largest, time / n_steps), n_steps

    def cost(temperature):
        friction, step_size, n_steps = schedule(temperature)
        noise = math.sqrt(2.0 * friction * temperature * step_size)
        moved = step_size * doubled * inflated + rounding_shift(bounds.n_parameters, noise)
        return PrivacyCost(budget.neighboring_relation, mu=math.sqrt(n_steps) * moved / noise)

    ceiling = gaussian_mu(budget.epsilon, budget.delta)
    temperature = 1.0
    while cost(temperature).mu > ceiling:
        temperature *= 1.001
    friction, step_size, n_steps = schedule(temperature)
    return UnderdampedPlan(
        sampler="underdamped",
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=cost(temperature),
        temperature=temperature,
        n_steps=n_steps,
        n_burn_in=n_steps // 4,
        n_draws=n_draws,
        sampling_rate=1.0,
        friction=friction,
        step_size=step_size,
    )


@CompiledCore
def _advance(target, generator, state, schedule, first, stop, kept, draws, parts, parallel):
    theta, velocity = state
    step, friction, temperature, spacing = schedule
    noise_scale = np.sqrt(2.0 * friction * temperature * step)
    gradient = np.empty(theta.size)
    prior = np.empty(theta.size)
    draw = np.searchsorted(kept, first)
    for k in range(first, stop):
        gradient_sum(target, theta, 0, n_examples(target), parts, parallel, gradient)
        prior_gradient(target, theta, prior)
        for j in range(theta.size):
            kick = step * (gradient[j] + temperature * prior[j])
            noise = noise_scale * generator.standard_normal()
            slowed = (1.0 - friction * step) * velocity[j]
            # Three roundings to one lattice: their sum is exact, and the first is public.
            moved = np.rint(noise / spacing) - np.rint(kick / spacing)
            velocity[j] = spacing * (np.rint(slowed / spacing) + moved)
            theta[j] += step * velocity[j]
        if draw < kept.size and kept[draw] == k:
            draws[draw] = theta
            draw += 1


@run.register
def _(plan: UnderdampedPlan, target, generator, verbose):
    state = np.zeros((2, plan.bounds.n_parameters))
    draws = np.empty((plan.n_draws, plan.bounds.n_parameters))
    after = plan.n_steps - plan.n_burn_in
    kept = plan.n_burn_in + (np.arange(1, plan.n_draws + 1) * after) // plan.n_draws - 1
    spacing = lattice_spacing(math.sqrt(2.0 * plan.friction * plan.temperature * plan.step_size))
    schedule = (plan.step_size, plan.friction, plan.temperature, spacing)
    parts = np.empty((n_chunks(plan.n_samples), plan.bounds.n_parameters))
    run_in_blocks(
        lambda first, stop, parallel: _advance(
            target, generator, state, schedule, first, stop, kept, draws, parts, parallel
        ),
        plan,
        plan.n_samples * plan.bounds.n_parameters,
        verbose,
        "underdamped Langevin",
    )
    return draws
