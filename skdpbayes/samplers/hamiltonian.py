"""Stochastic gradient Hamiltonian Monte Carlo (SGHMC), with or without a thermostat (SGNHT).

    u     <- (1 - f) u - kappa (g(theta) - tau grad log p(theta)) + N(0, 2 kappa a I)
    theta <- theta + u

with ``a = f tau``: underdamped Langevin dynamics, semi-implicit, ``u`` the velocity times the step and
``f`` the friction of a step. Released are midpoints ``theta - u / 2``: for curvature ``h`` states have a
variance of ``(tau / h) / (1 - kappa h / (2 (2 - f)))``, midpoints of exactly ``tau / h``.

The thermostat moves the friction by what the records let out anyway,

    f <- f + gain (|(u + u')/2|^2 / (d kappa) - tau),

and so keeps the temperature of the draws at ``tau`` whatever noise batches add: the mean square of the
midpoint of successive velocities is exactly ``kappa tau`` per coordinate on a quadratic potential.

Chen, Fox and Guestrin (2014); Ding, Fang, Babbush, Chen, Skeel and Neven (2014).
"""

import numpy as np

from ..privacy.floating_point import lattice_spacing, n_chunks
from ..privacy.langevin_plans import HamiltonianPlan
from ..targets import prior_gradient
from ._execution import run_in_blocks
from ._gradients import estimate_gradient
from ._interface import CompiledCore, count_examples, run, start_of
from ._steps import noisy_step, to_coordinates, to_parameters


@CompiledCore
def _advance(
    target, generator, state, schedule, first, stop, kept, draws, batch, parts, transform, parallel
):
    """Perform the steps ``first`` to ``stop - 1`` on ``state``, and fill in their draws."""
    place, velocity, friction = state
    size, decay, temperature, noise, gain, rate, spacing = schedule
    theta, gradient, prior = np.empty(place.size), np.empty(place.size), np.empty(place.size)
    pull, pushed = np.empty(place.size), np.empty(place.size)
    draw = 0
    while draw < kept.size and kept[draw] < first:
        draw += 1
    for k in range(first, stop):
        to_parameters(transform, place, theta)
        estimate_gradient(target, generator, theta, rate, batch, parts, parallel, gradient)
        prior_gradient(target, theta, prior)
        for j in range(theta.size):
            gradient[j] += temperature * prior[j]
        to_coordinates(transform, gradient, pull)
        kappa = size * (k + 1.0) ** -decay
        noisy_step(pull, kappa, np.sqrt(2.0 * kappa * noise), spacing, generator, pushed)
        release = draw < kept.size and kept[draw] == k
        kinetic = 0.0
        for j in range(place.size):
            after = (1.0 - friction[0]) * velocity[j] + pushed[j]
            kinetic += (velocity[j] + after) ** 2 / 4.0
            velocity[j] = after
            if release:
                draws[draw, j] = place[j] + 0.5 * after
            place[j] += after
        draw += release
        if gain > 0.0:
            measured = kinetic / (place.size * kappa)
            friction[0] = min(max(friction[0] + gain * (measured - temperature), 0.0), 1.0)


def run_hamiltonian(plan, target, generator, verbose, start=None, transform=None):
    """Carry out a plan from a given start, in given coordinates."""
    place = start_of(target, plan) if start is None else start
    smallest = plan.gradient_step * plan.n_steps**-plan.step_decay
    noise = plan.friction * plan.temperature
    schedule = (
        plan.gradient_step,
        plan.step_decay,
        plan.temperature,
        noise,
        plan.thermostat_gain,
        plan.sampling_rate,
        lattice_spacing(np.sqrt(2.0 * smallest * noise)),
    )
    draws = np.empty((plan.n_draws, place.size))
    records = plan.sampling_rate * plan.n_samples
    batch = np.empty(count_examples(target), np.int64) if plan.sampling_rate < 1 else None
    parts = np.empty((n_chunks(records), place.size))
    # At rest a chain would take a while to warm up.
    velocity = np.sqrt(plan.gradient_step * plan.temperature) * generator.standard_normal(
        place.size
    )
    state = (place, velocity, np.array([plan.friction]))
    fixed = (plan.kept_steps(), draws, batch, parts, transform)
    run_in_blocks(
        lambda first, stop, parallel: _advance(
            target, generator, state, schedule, first, stop, *fixed, parallel
        ),
        plan,
        records * place.size,
        verbose,
        plan.sampler.upper(),
    )
    return draws


@run.register
def _(plan: HamiltonianPlan, target, generator, verbose):
    start = None if plan.start is None else run(plan.start, target, generator, verbose)[0]
    return run_hamiltonian(plan, target, generator, verbose, start)
