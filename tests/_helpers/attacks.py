"""Attacks on released paths: the likelihood ratio of every step, for one who knows all but the table.

A long path is many trials: each of its pieces has its share of the cost.
"""

import numpy as np

from skdpbayes.audit import audit_separation
from skdpbayes.random import _generator

# Steps of a piece.
PIECE = 25


def draws_of(target, plan, seed):
    """Return what `sample` draws, without its look for ledgers each time."""
    return plan.sampler.run(plan.as_run(), target, _generator(seed), 0).draws


def path_of(target, plan, seed):
    """Recover every iterate from the released midpoints, as an attacker would.

    Each is twice the midpoint less the one before, from zero; on the lattice their sums are exact.
    """
    midpoints = draws_of(target, plan, seed)
    signs = (-1.0) ** np.arange(plan.n_steps)[:, None]
    states = 2.0 * signs * np.cumsum(signs * midpoints, axis=0)
    return np.vstack([np.zeros(plan.n_parameters), states])


def scores_of(states, plan, gradients, precision):
    """Log of the likelihood ratio of every step that follows a known one, overdamped or not."""
    keeps = 0.0 if plan.friction is None else 1.0 - plan.friction
    sizes = plan.step_sizes()[1:, None] * (1.0 if plan.friction is None else plan.friction)
    velocities = np.diff(states, axis=0)
    place, pushed = states[1:-1], velocities[1:] - keeps * velocities[:-1]
    variance = 2 * sizes * (1.0 - keeps) * plan.temperature
    total = 0.0
    for gradient, sign in zip(gradients, (0.5, -0.5), strict=True):
        drift = sizes * (gradient(place) + plan.temperature * precision * place)
        total += sign * np.sum((pushed + drift) ** 2 / variance, axis=1)
    return total


def audit_path(tables, gradients, plan, seed=0):
    """Return the audit of a path's pieces, and what each of them may cost."""
    times = np.cumsum(plan.step_sizes())[1:]
    n_pieces = plan.n_steps // PIECE
    firsts = np.searchsorted(times, times[-1] * np.arange(n_pieces) / n_pieces)
    scores = [
        np.add.reduceat(
            scores_of(path_of(table, plan, seed + which), plan, gradients, table.prior_precision),
            firsts,
        )
        for which, table in enumerate(tables)
    ]
    return audit_separation(scores[1], scores[0]), plan.cost.mu / np.sqrt(n_pieces)
