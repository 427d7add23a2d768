"""Compiled Langevin chains: SGLD and OPS, SGHMC and SGNHT.

    theta_{k+1} = theta_k - eta_k (g(theta_k) - tau grad log p(theta_k)) + N(0, 2 eta_k tau I)

with ``g`` the gradient of the negative log likelihood, over the table or a Poisson batch; stationary at
``exp(-(1/tau) sum_i ell_i(theta)) p(theta)``. Released are midpoints ``(theta_k + theta_{k+1}) / 2``: for
curvature ``h`` successive states have variance ``tau / (h (1 - eta h / 2))`` and correlation ``1 - eta h``,
so their midpoint has exactly ``tau / h``. Drift and noise are rounded to a common lattice, so that their
sum is exact (see `skdpbayes.privacy.rounding`).

A path goes on from the state behind the last midpoint. Where states are to stay hidden, the chain starts
anew from every midpoint that is released; OPS is such a chain with a single draw.

Welling and Teh (2011); Wang, Fienberg and Smola (2015). Midpoints: Leimkuhler and Matthews (2013).
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from ..._compute.execution import run_in_blocks
from ..._compute.gradients import (
    CompiledCore,
    estimate_gradient,
    gradient_oracle,
    reshuffle_batches,
    start_of,
)
from ..._mechanisms.audit_hook import trace_chain, traced_rows
from ...privacy.rounding import box_half_width, lattice_spacing
from ..noise import add_prior_step, noisy_step, to_coordinates, to_parameters


class OverdampedSteps(NamedTuple):
    """The constants of all steps of a run."""

    size: float
    decay: float
    temperature: float
    rate: float
    spacing: float
    box: float
    restarts_at_draw: bool


@CompiledCore
def _advance_overdamped(oracle, generator, theta, steps, first, stop, kept, draws, batch, loop):
    """Perform the steps ``first`` to ``stop - 1`` on ``theta``, and fill in their draws."""
    gradient = np.empty(theta.size)
    prior = np.empty(theta.size)
    moved = np.empty(theta.size)
    draw = 0
    while draw < kept.size and kept[draw] < first:
        draw += 1
    for k in range(first, stop):
        estimate_gradient(oracle, generator, theta, steps.rate, batch, loop, gradient, prior)
        begun = kept[draw - 1] + 1 if steps.restarts_at_draw and draw > 0 else 0
        step = steps.size * (k - begun + 1.0) ** -steps.decay
        noise_scale = np.sqrt(2.0 * step * steps.temperature)
        # Propositions 3, 7 and 8.
        noisy_step(gradient, step, noise_scale, steps.spacing, generator, moved)
        add_prior_step(prior, step * steps.temperature, steps.spacing, moved)
        for j in range(theta.size):
            moved[j] += theta[j]
        if draw < kept.size and kept[draw] == k:
            for j in range(theta.size):
                draws[draw, j] = 0.5 * (theta[j] + moved[j])
                if steps.restarts_at_draw:
                    # Beyond, a drift that was cut would show.
                    draws[draw, j] = min(max(draws[draw, j], -2.0 * steps.box), 2.0 * steps.box)
                    moved[j] = steps.spacing * np.rint(draws[draw, j] / steps.spacing)
            if steps.restarts_at_draw:
                reshuffle_batches(batch)
            draw += 1
        # Assigning to a slice would compile the text of an error about shapes, for two seconds.
        for j in range(theta.size):
            theta[j] = min(max(moved[j], -steps.box), steps.box)


def _follow_overdamped(number, before, after):
    """A step's draws, if it has any: midpoints between where it began and where it ended."""
    return (np.broadcast_to(0.5 * (before[0] + after), before[1].shape),)


def run_overdamped(plan, target, generator, verbose, start=None):
    """Carry out a `LangevinPlan` without friction from a given start, or from where the target starts."""
    theta = start_of(target, plan) if start is None else start
    draws = np.empty((plan.n_draws, theta.size))
    longest = -(-plan.n_steps // plan.n_segments)
    smallest_noise = np.sqrt(2.0 * plan.step_size * longest**-plan.step_decay * plan.temperature)
    spacing, box = lattice_spacing(smallest_noise), box_half_width(smallest_noise)
    if plan.hides_path:
        theta = np.clip(spacing * np.rint(theta / spacing), -box, box)
    steps = OverdampedSteps(
        size=plan.step_size,
        decay=plan.step_decay,
        temperature=plan.temperature,
        rate=plan.sampling_rate,
        spacing=spacing,
        box=box,
        restarts_at_draw=plan.hides_path,
    )
    records = plan.sampling_rate * plan.n_samples
    n_batches = plan.n_batches if plan.hides_path and plan.sampling_rate < 1 else None
    oracle, batch = gradient_oracle(
        target, theta.size, plan.n_samples, plan.sampling_rate, n_batches
    )
    kept = plan.kept_steps()

    def advance(first, stop, loop, oracle=oracle):
        _advance_overdamped(oracle, generator, theta, steps, first, stop, kept, draws, batch, loop)

    watched = trace_chain(
        plan,
        "steps of an overdamped chain",
        generator,
        lambda k: (theta, traced_rows(draws, kept, k)),
        lambda k: np.sqrt(2.0 * steps.size * (k + 1.0) ** -steps.decay * steps.temperature),
        partial(advance, oracle=oracle._replace(n_examples=0)),
        _follow_overdamped,
    )
    run_in_blocks(advance, plan, records * theta.size, verbose, plan.name.upper(), watched)
    return draws


# Stochastic gradient Hamiltonian Monte Carlo (SGHMC), with or without a thermostat (SGNHT).
#
#     u     <- (1 - f) u - kappa (g(theta) - tau grad log p(theta)) + N(0, 2 kappa a I)
#     theta <- theta + u
#
# with ``a = f tau``: underdamped Langevin dynamics, semi-implicit, ``u`` the velocity times the
# step and ``f`` the friction of a step. Released are midpoints ``theta - u / 2``: for curvature
# ``h`` states have a variance of ``(tau / h) / (1 - kappa h / (2 (2 - f)))``, midpoints of exactly
# ``tau / h``.
#
# The thermostat moves the friction by what the records reveal anyway,
#
#     f <- f + gain (|(u + u')/2|^2 / (d kappa) - tau),
#
# and so keeps the temperature of the draws at ``tau`` whatever noise batches add: the mean square of
# the midpoint of successive velocities is exactly ``kappa tau`` per coordinate on a quadratic
# potential.
#
# Chen, Fox and Guestrin (2014); Ding, Fang, Babbush, Chen, Skeel and Neven (2014).


class UnderdampedSteps(NamedTuple):
    """The constants of all steps of a run; ``noise`` is ``a``."""

    size: float
    decay: float
    temperature: float
    noise: float
    gain: float
    rate: float
    spacing: float


class Motion(NamedTuple):
    """The state of a chain: arrays that steps overwrite."""

    place: np.ndarray
    velocity: np.ndarray
    friction: np.ndarray


@CompiledCore
def _advance_underdamped(
    oracle, generator, motion, steps, first, stop, kept, draws, batch, transform, loop
):
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


def _follow_underdamped(steps, number, before, after):
    """Place, friction and draws, if any, as they follow from a step's velocity."""
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
    steps = UnderdampedSteps(
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
        _advance_underdamped(oracle, generator, motion, steps, first, stop, *fixed)

    watched = trace_chain(
        plan,
        "steps of an underdamped chain",
        generator,
        lambda k: (velocity, place, motion.friction, traced_rows(draws, kept, k)),
        lambda k: np.sqrt(2.0 * steps.size * (k + 1.0) ** -steps.decay * steps.noise),
        partial(advance, oracle=oracle._replace(n_examples=0)),
        partial(_follow_underdamped, steps),
    )
    run_in_blocks(advance, plan, records * place.size, verbose, plan.name.upper(), watched)
    return draws
