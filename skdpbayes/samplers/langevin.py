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

import numpy as np

from ..privacy.floating_point import box_half_width, lattice_spacing, n_chunks
from ..privacy.langevin_plans import DiffusionPlan, LastStatePlan
from ..targets import prior_gradient
from ._execution import run_in_blocks
from ._gradients import cut_anew, cyclic_batches, estimate_gradient
from ._interface import CompiledCore, count_examples, run, start_of
from ._steps import noisy_step


@CompiledCore
def _advance(target, generator, theta, schedule, first, stop, kept, draws, batch, parts, parallel):
    """Perform the steps ``first`` to ``stop - 1`` on ``theta``, and fill in their draws."""
    step_size, step_decay, temperature, rate, spacing, box, anew = schedule
    gradient = np.empty(theta.size)
    prior = np.empty(theta.size)
    moved = np.empty(theta.size)
    draw = 0
    while draw < kept.size and kept[draw] < first:
        draw += 1
    for k in range(first, stop):
        estimate_gradient(target, generator, theta, rate, batch, parts, parallel, gradient)
        prior_gradient(target, theta, prior)
        begun = kept[draw - 1] + 1 if anew and draw > 0 else 0
        step = step_size * (k - begun + 1.0) ** -step_decay
        for j in range(theta.size):
            gradient[j] += temperature * prior[j]
        noise_scale = np.sqrt(2.0 * step * temperature)
        noisy_step(gradient, step, noise_scale, spacing, generator, moved)
        for j in range(theta.size):
            moved[j] += theta[j]
        if draw < kept.size and kept[draw] == k:
            for j in range(theta.size):
                draws[draw, j] = 0.5 * (theta[j] + moved[j])
                if anew:
                    moved[j] = spacing * np.rint(draws[draw, j] / spacing)
            if anew:
                cut_anew(batch)
            draw += 1
        # Assigning to a slice would compile the text of an error about shapes, for two seconds.
        for j in range(theta.size):
            theta[j] = min(max(moved[j], -box), box)


def _batches(plan, target):
    if plan.sampling_rate == 1:
        return None
    n = count_examples(target)
    if isinstance(plan, LastStatePlan):
        return cyclic_batches(n, plan.n_batches)
    return np.empty(n, np.int64)


@run.register
def _(plan: DiffusionPlan, target, generator, verbose):
    hidden = isinstance(plan, LastStatePlan)
    theta = start_of(target, plan)
    if not hidden and plan.start is not None:
        theta = run(plan.start, target, generator, verbose)[0]
    draws = np.empty((plan.n_draws, theta.size))
    longest = -(-plan.n_steps // plan.n_segments)
    smallest_noise = np.sqrt(2.0 * plan.step_size * longest**-plan.step_decay * plan.temperature)
    schedule = (
        plan.step_size,
        plan.step_decay,
        plan.temperature,
        plan.sampling_rate,
        lattice_spacing(smallest_noise),
        box_half_width(smallest_noise),
        hidden,
    )
    records = plan.sampling_rate * plan.n_samples
    parts = np.empty((n_chunks(records), theta.size))
    fixed = (plan.kept_steps(), draws, _batches(plan, target), parts)
    run_in_blocks(
        lambda first, stop, parallel: _advance(
            target, generator, theta, schedule, first, stop, *fixed, parallel
        ),
        plan,
        records * theta.size,
        verbose,
        "OPS" if plan.sampler == "ops" else "SGLD",
    )
    return draws
