"""Stochastic gradient Langevin dynamics (SGLD), and one posterior sample (OPS).

    theta_{k+1} = theta_k - eta_k (g(theta_k) - tau grad log p(theta_k)) + N(0, 2 eta_k tau I)

with ``g`` the gradient of the negative log likelihood, over the table or a Poisson batch; stationary at
``exp(-(1/tau) sum_i ell_i(theta)) p(theta)``. Released are midpoints ``(theta_k + theta_{k+1}) / 2``: for
curvature ``h`` successive states have variance ``tau / (h (1 - eta h / 2))`` and correlation ``1 - eta h``,
so their midpoint has exactly ``tau / h``. Drift and noise are rounded to a common lattice, so that their
sum is exact (see `skdpbayes.privacy.floating_point`).

A path goes on from the state behind the last midpoint. Where states are to stay hidden, the chain starts
anew from every midpoint that is released; OPS is such a chain with a single draw.

Welling and Teh (2011); Wang, Fienberg and Smola (2015). Midpoints: Leimkuhler and Matthews (2013).
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from ...privacy.floating_point import box_half_width, lattice_spacing
from .._machinery.compiled_entries import CompiledCore
from .._machinery.execution import run_in_blocks
from .._machinery.gradients import cut_anew, estimate_gradient, gradient_oracle, start_of
from .._machinery.lattice import add_prior_step, noisy_step
from .._machinery.watched import rows_of, watched_chain


class Steps(NamedTuple):
    """What all steps of a run have in common."""

    size: float
    decay: float
    temperature: float
    rate: float
    spacing: float
    box: float
    anew: bool


@CompiledCore
def _advance(oracle, generator, theta, steps, first, stop, kept, draws, batch, loop):
    """Perform the steps ``first`` to ``stop - 1`` on ``theta``, and fill in their draws."""
    gradient = np.empty(theta.size)
    prior = np.empty(theta.size)
    moved = np.empty(theta.size)
    draw = 0
    while draw < kept.size and kept[draw] < first:
        draw += 1
    for k in range(first, stop):
        estimate_gradient(oracle, generator, theta, steps.rate, batch, loop, gradient, prior)
        begun = kept[draw - 1] + 1 if steps.anew and draw > 0 else 0
        step = steps.size * (k - begun + 1.0) ** -steps.decay
        noise_scale = np.sqrt(2.0 * step * steps.temperature)
        # Propositions 3 and 8.
        noisy_step(gradient, step, noise_scale, steps.spacing, generator, moved)
        add_prior_step(prior, step * steps.temperature, steps.spacing, moved)
        for j in range(theta.size):
            moved[j] += theta[j]
        if draw < kept.size and kept[draw] == k:
            for j in range(theta.size):
                draws[draw, j] = 0.5 * (theta[j] + moved[j])
                if steps.anew:
                    # Beyond, a drift that was cut would show.
                    draws[draw, j] = min(max(draws[draw, j], -2.0 * steps.box), 2.0 * steps.box)
                    moved[j] = steps.spacing * np.rint(draws[draw, j] / steps.spacing)
            if steps.anew:
                cut_anew(batch)
            draw += 1
        # Assigning to a slice would compile the text of an error about shapes, for two seconds.
        for j in range(theta.size):
            theta[j] = min(max(moved[j], -steps.box), steps.box)


def _follows(number, before, after):
    """Return a step's draws, if it has any: midpoints between where it began and where it ended."""
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
    steps = Steps(
        size=plan.step_size,
        decay=plan.step_decay,
        temperature=plan.temperature,
        rate=plan.sampling_rate,
        spacing=spacing,
        box=box,
        anew=plan.hides_path,
    )
    records = plan.sampling_rate * plan.n_samples
    n_batches = plan.n_batches if plan.hides_path and plan.sampling_rate < 1 else None
    oracle, batch = gradient_oracle(
        target, theta.size, plan.n_samples, plan.sampling_rate, n_batches
    )
    kept = plan.kept_steps()

    def advance(first, stop, loop, oracle=oracle):
        _advance(oracle, generator, theta, steps, first, stop, kept, draws, batch, loop)

    watched = watched_chain(
        plan,
        "steps of an overdamped chain",
        generator,
        lambda k: (theta, rows_of(draws, kept, k)),
        lambda k: np.sqrt(2.0 * steps.size * (k + 1.0) ** -steps.decay * steps.temperature),
        partial(advance, oracle=oracle._replace(n_examples=0)),
        _follows,
    )
    run_in_blocks(advance, plan, records * theta.size, verbose, plan.name.upper(), watched)
    return draws
