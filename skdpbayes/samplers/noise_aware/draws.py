"""Draws from a `Surrogate`: its mode, and Hamiltonian chains around it, all chains in step.

H(u, q) = U(u) + |q|^2 / 2,      u = mode + L x,      L L^T the inverse curvature at the mode

Where prior scales are learnt, they are integrated out of ``U``, and every round also tries ``e^c u``.
"""

from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from .plan import BURN_IN, LEAPS, N_CHAINS

# Acceptance to which the step size is tuned in the first rounds.
_WANTED = 0.75


def find_mode(surrogate):
    """Return the mode, by Newton's steps that are damped until they descend."""
    u, damping = surrogate.start, 1e-3
    energy, gradient = (part[0] for part in surrogate.potential(u[None]))
    for _ in range(60):
        information = surrogate.information(u)
        for _ in range(10):
            damped = information + damping * np.diag(np.diag(information))
            step = np.linalg.solve(damped, gradient)
            new_energy, new_gradient = (part[0] for part in surrogate.potential((u - step)[None]))
            if new_energy <= energy:
                break
            damping *= 4.0
        else:
            return u
        gained = energy - new_energy
        u, energy, gradient = u - step, new_energy, new_gradient
        damping = max(damping / 4.0, 1e-6)
        if gained < 1e-4:
            return u
    return u


def settle(surrogate, rounds):
    """Return a surrogate with the likeliest scales, starting at its mode."""
    for _ in range(rounds):
        surrogate = replace(surrogate, start=find_mode(surrogate))
        covariance = np.linalg.inv(surrogate.information(surrogate.start))
        scales = surrogate.prior.likeliest(surrogate.start, covariance)
        before, surrogate = surrogate.scales, replace(surrogate, scales=scales)
        if np.array_equal(before, scales):
            return surrogate
    return replace(surrogate, start=find_mode(surrogate))


@threadpool_limits.wrap(limits=1, user_api="blas")  # Fifty rows are not worth more.
def draw(surrogate, n_draws, seed):
    """Return draws of ``u``.

    Parameters
    ----------
    surrogate : Surrogate
    n_draws : int
    seed : int
        It need not be secret.

    Returns
    -------
    draws : ndarray of shape (n_draws, n)
        Draws that follow each other come from different chains.
    """
    generator = np.random.default_rng(seed)
    surrogate = settle(surrogate, 8)
    mode = surrogate.start
    scale = np.linalg.inv(np.linalg.cholesky(surrogate.information(mode)))  # L^T

    def potential(u):
        (energy, gradient), (more, pulled) = surrogate.likelihood(u), surrogate.prior.energy(u)
        return energy + more, gradient + pulled

    # Not as far out as draws go: a tail may be steep.
    # Post-processing.
    u = mode + 0.5 * generator.standard_normal((N_CHAINS, mode.size)) @ scale
    energy, gradient = potential(u)
    size, kept = 0.6 / mode.size**0.25, []
    learns = any(g.logs.size > 1 for g in surrogate.prior.groups)
    for turn in range(BURN_IN - (-n_draws // N_CHAINS)):
        momentum = generator.standard_normal(u.shape)  # Post-processing.
        start = energy + 0.5 * np.sum(momentum**2, axis=1)
        step = size * generator.uniform(0.7, 1.2)  # Post-processing.
        proposal, force = u, gradient
        for _ in range(LEAPS):
            momentum = momentum - 0.5 * step * force @ scale.T
            proposal = proposal + step * momentum @ scale
            new_energy, force = potential(proposal)
            momentum = momentum - 0.5 * step * force @ scale.T
        change = start - new_energy - 0.5 * np.sum(momentum**2, axis=1)
        chance = np.exp(np.minimum(0.0, np.nan_to_num(change, nan=-np.inf)))
        accepted = generator.random(N_CHAINS) < chance  # Post-processing.
        u, gradient = (
            np.where(accepted[:, None], *pair) for pair in ((proposal, u), (force, gradient))
        )
        energy = np.where(accepted, new_energy, energy)
        if turn < BURN_IN:
            size *= np.exp(0.3 * (chance.mean() - _WANTED) / (1.0 + turn / 20.0))
        if learns:
            c = 0.4 * generator.standard_normal(N_CHAINS)
            proposal = np.exp(c)[:, None] * u
            new_energy, force = potential(proposal)
            change = energy - new_energy + mode.size * c
            accepted = np.log(generator.random(N_CHAINS)) < change
            u, gradient = (
                np.where(accepted[:, None], *pair) for pair in ((proposal, u), (force, gradient))
            )
            energy = np.where(accepted, new_energy, energy)
        if turn >= BURN_IN:
            kept.append(u)
    return np.concatenate(kept)[:n_draws]
