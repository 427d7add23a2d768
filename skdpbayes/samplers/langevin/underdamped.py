"""Stochastic gradient Hamiltonian Monte Carlo (SGHMC), with or without a thermostat (SGNHT).

    u     <- (1 - f) u - kappa (g(theta) - tau grad log p(theta)) + N(0, 2 kappa a I)
    theta <- theta + u

with ``a = f tau``: underdamped Langevin dynamics, semi-implicit, ``u`` the velocity times the step and
``f`` the friction of a step. Released are midpoints ``theta - u / 2``: for curvature ``h`` states have a
variance of ``(tau / h) / (1 - kappa h / (2 (2 - f)))``, midpoints of exactly ``tau / h``.

The thermostat moves the friction by what the records reveal anyway,

    f <- f + gain (|(u + u')/2|^2 / (d kappa) - tau),

and so keeps the temperature of the draws at ``tau`` whatever noise batches add: the mean square of the
midpoint of successive velocities is exactly ``kappa tau`` per coordinate on a quadratic potential.

Chen, Fox and Guestrin (2014); Ding, Fang, Babbush, Chen, Skeel and Neven (2014).
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from ...privacy.floating_point import lattice_spacing
from .._machinery.compiled_entries import CompiledCore
from .._machinery.execution import run_in_blocks
from .._machinery.gradients import estimate_gradient, gradient_oracle, start_of
from .._machinery.lattice import add_prior_step, noisy_step, to_coordinates, to_parameters
from .._machinery.watched import rows_of, watched_chain


class Steps(NamedTuple):
    """What all steps of a run have in common; ``noise`` is ``a``."""

    size: float
    decay: float
    temperature: float
    noise: float
    gain: float
    rate: float
    spacing: float


class Motion(NamedTuple):
    """Where a chain is: arrays that steps overwrite."""

    place: np.ndarray
    velocity: np.ndarray
    friction: np.ndarray


@CompiledCore
def _advance(oracle, generator, motion, steps, first, stop, kept, draws, batch, transform, loop):
    """Perform the steps ``first`` to ``stop - 1`` on ``motion``, and fill in their draws."""
    place, velocity, friction = motion.place, motion.velocity, motion.friction
    theta, gradient, prior = np.empty(place.size), np.empty(place.size), np.empty(place.size)
    pull, pushed = np.empty(place.size), np.empty(place.size)
    draw = 0
    while draw < kept.size and kept[draw] < first:
        draw += 1
    for k in range(first, stop):
        to_parameters(transform, place, theta)
        estimate_gradient(oracle, generator, theta, steps.rate, batch, loop, gradient, prior)
        to_coordinates(transform, gradient, False, pull)
        kappa = steps.size * (k + 1.0) ** -steps.decay
        noise_scale = np.sqrt(2.0 * kappa * steps.noise)
        noisy_step(pull, kappa, noise_scale, steps.spacing, generator, pushed)  # Proposition 13.
        to_coordinates(transform, prior, True, pull)
        add_prior_step(pull, kappa * steps.temperature, steps.spacing, pushed)
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
        if steps.gain > 0.0:
            measured = kinetic / (place.size * kappa)
            changed = friction[0] + steps.gain * (measured - steps.temperature)
            friction[0] = min(max(changed, 0.0), 1.0)


def _follows(steps, number, before, after):
    """Return place, friction and draws, if any, as they follow from a step's velocity."""
    velocity, place, friction, draws = before
    if steps.gain > 0.0:
        kappa = steps.size * (number + 1.0) ** -steps.decay
        measured = np.mean((velocity + after) ** 2) / (4.0 * kappa)
        changed = friction + steps.gain * (measured - steps.temperature)
        friction = np.clip(changed, 0.0, 1.0)
    return place + after, friction, np.broadcast_to(place + 0.5 * after, draws.shape)


def run_underdamped(plan, target, generator, verbose, start=None, transform=None):
    """Carry out a `LangevinPlan` with friction from a given start, in given coordinates."""
    place = start_of(target, plan) if start is None else start
    smallest = plan.gradient_step * plan.n_steps**-plan.step_decay
    noise = plan.friction * plan.temperature
    steps = Steps(
        size=plan.gradient_step,
        decay=plan.step_decay,
        temperature=plan.temperature,
        noise=noise,
        gain=plan.thermostat_gain,
        rate=plan.sampling_rate,
        spacing=lattice_spacing(np.sqrt(2.0 * smallest * noise)),
    )
    draws = np.empty((plan.n_draws, place.size))
    records = plan.sampling_rate * plan.n_samples
    oracle, batch = gradient_oracle(target, place.size, plan.n_samples, plan.sampling_rate)
    # At rest a chain would take a while to warm up.
    # Public: the records have no part in it.
    velocity = np.sqrt(plan.gradient_step * plan.temperature) * generator.standard_normal(
        place.size
    )
    motion = Motion(place, velocity, np.array([plan.friction]))
    kept = plan.kept_steps()

    def advance(first, stop, loop, oracle=oracle):
        fixed = (kept, draws, batch, transform, loop)
        _advance(oracle, generator, motion, steps, first, stop, *fixed)

    watched = watched_chain(
        plan,
        "steps of an underdamped chain",
        generator,
        lambda k: (velocity, place, motion.friction, rows_of(draws, kept, k)),
        lambda k: np.sqrt(2.0 * steps.size * (k + 1.0) ** -steps.decay * steps.noise),
        partial(advance, oracle=oracle._replace(n_examples=0)),
        partial(_follows, steps),
    )
    run_in_blocks(advance, plan, records * place.size, verbose, plan.name.upper(), watched)
    return draws
