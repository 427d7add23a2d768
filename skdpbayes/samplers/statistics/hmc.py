"""Draws from a posterior given releases: its mode, and Hamiltonian chains around it, all chains in step.

H(u, q) = U(u) + |q|^2 / 2,      u = mode + L x,      L L^T the inverse curvature at the mode

Prior scales that are learnt are integrated out of ``U``, and every round also tries ``e^c u``. Chains
settle once: whoever draws again goes on from where they were, after some rounds that are forgotten.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..._compute.execution import drawing_bar, single_threaded_blas
from ..._linalg import cholesky, inv, solve
from .plan import BURN_IN, LEAPS, N_CHAINS

# Chains that go on make so many times the rounds of ``BURN_IN`` before other draws. States before and after
# then have hardly anything in common. Only if noise hides nearly all and a scale is learnt, their ranks have
# correlations of up to 0.3.
_N_FORGOTTEN_ROUNDS = 6
# The seed of chains that settle, which `chain_seed` never returns.
_CHAIN_SEED = 2**31

# Acceptance to which the step size is tuned in the first rounds.
_TARGET_ACCEPTANCE = 0.75
# Deviation of ``c``.
_LOG_SCALE_MOVE_SD = 0.4


def _refusing_what_overflows():
    """A context for steps that go too far: their energy is nan, which refuses them, and no error."""
    return np.errstate(over="ignore", invalid="ignore")


def find_mode(surrogate):
    """The mode, by Newton's steps that are damped until they descend."""
    u, damping = surrogate.start, 1e-3
    energy, gradient = (part[0] for part in surrogate.potential(u[None]))
    for _ in range(60):
        information = surrogate.information(u)
        for _ in range(10):
            damped = information + damping * np.diag(np.diag(information))
            step = solve(damped, gradient)
            with _refusing_what_overflows():
                new_energy, new_gradient = (
                    part[0] for part in surrogate.potential((u - step)[None])
                )
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


def find_mode_and_scales(surrogate, rounds):
    """A surrogate with the likeliest prior scales, which starts at its mode.

    Expectation and maximisation, with a normal law around the mode, until scales stay or for some rounds.
    """
    for _ in range(rounds if surrogate.learns_scales else 0):
        mode = find_mode(surrogate)
        covariance = inv(surrogate.information(mode))
        scales = surrogate.prior.likeliest(mode, covariance)
        if np.array_equal(scales, surrogate.scales):
            return replace(surrogate, start=mode)
        surrogate = replace(surrogate, start=mode, scales=scales)
    return replace(surrogate, start=find_mode(surrogate))


def chain_seed(random):
    """A seed for `draw` from a Generator or RandomState, which need not be secret."""
    # Post-processing.
    return int(random.integers(2**31) if hasattr(random, "integers") else random.randint(2**31))


class Chains(NamedTuple):
    """Chains that have settled.

    Attributes
    ----------
    points : ndarray of shape (N_CHAINS, n)
    scale : ndarray of shape (n, n)
        ``L^T``.
    size : float
        Of a step, on average.
    energy : callable
        ``U`` and its gradient.
    """

    points: np.ndarray
    scale: np.ndarray
    size: float
    energy: Callable


@single_threaded_blas()  # Fifty rows are not worth more.
def warmed_up_chains(surrogate):
    """`Chains` that have forgotten where they started."""
    generator = np.random.default_rng(_CHAIN_SEED)
    mode = find_mode(surrogate)
    scale = inv(cholesky(surrogate.information(mode)))
    # Start chains nearer the mode than posterior draws; tails can be stiff.
    # Post-processing.
    u = mode + 0.5 * generator.standard_normal((N_CHAINS, mode.size)) @ scale
    chains = Chains(u, scale, 0.6 / mode.size**0.25, surrogate.energy)
    state = (u, *surrogate.energy(u))
    with drawing_bar(BURN_IN - _N_FORGOTTEN_ROUNDS) as advance:
        for turn in range(BURN_IN - _N_FORGOTTEN_ROUNDS):
            state, chance = _round(surrogate, chains, state, generator)
            grown = np.exp(0.3 * (chance.mean() - _TARGET_ACCEPTANCE) / (1.0 + turn / 20.0))
            chains = chains._replace(size=chains.size * grown)
            advance()
    return chains._replace(points=state[0])


class HMCPosterior:
    """A posterior, given a ``surrogate``, whose chains settle once, at the first draws."""

    surrogate: Any

    @cached_property
    def _chains(self):
        return warmed_up_chains(self.surrogate)


@single_threaded_blas()
def draw(surrogate, n_draws, seed, chains=None):
    """Draws of ``u``.

    Parameters
    ----------
    surrogate : LogisticSurrogate, NormalSurrogate, CountSurrogate or ConditionalPosterior
    n_draws : int
    seed : int
        It need not be secret.
    chains : Chains or None, default=None
        Those of the surrogate, if they have settled already.

    Returns
    -------
    draws : ndarray of shape (n_draws, n)
        Draws that follow each other come from different chains.
    """
    chains = chains or warmed_up_chains(surrogate)
    generator, kept = np.random.default_rng(seed), []
    state = (chains.points, *chains.energy(chains.points))
    n_rounds = _N_FORGOTTEN_ROUNDS - (-n_draws // N_CHAINS)
    with drawing_bar(n_rounds) as advance:
        for turn in range(n_rounds):
            state, _ = _round(surrogate, chains, state, generator)
            if turn >= _N_FORGOTTEN_ROUNDS:
                kept.append(state[0])
            advance()
    return np.concatenate(kept)[:n_draws]


def _round(surrogate, chains, state, generator):
    """(states after a path and a move of the scale that is learnt, the path's chances)."""
    step = chains.size * generator.uniform(0.7, 1.2)  # Post-processing.
    with _refusing_what_overflows():
        state, chance = _leap(chains.energy, state, step, chains.scale, generator)
        if surrogate.learns_scales:
            state = _rescaled_states(chains.energy, state, surrogate.n_scaled, generator)
    return state, chance


def _leap(energy, state, step, scale, generator):
    """(states after a Hamiltonian path or as they were, chances of acceptance)."""
    u, value, force = state
    momentum = generator.standard_normal(u.shape)  # Post-processing.
    start = value + 0.5 * np.sum(momentum**2, axis=1)
    kick = 0.5 * step * force @ scale.T
    for _ in range(LEAPS):
        momentum = momentum - kick
        u = u + step * momentum @ scale
        value, force = energy(u)
        kick = 0.5 * step * force @ scale.T
        momentum = momentum - kick
    change = start - value - 0.5 * np.sum(momentum**2, axis=1)
    return _accepted(state, (u, value, force), change, generator)


def _rescaled_states(energy, state, n_scaled, generator):
    """States whose first coordinates are multiplied by numbers in some, as prior scales may be."""
    c = _LOG_SCALE_MOVE_SD * generator.standard_normal((N_CHAINS, 1))  # Post-processing.
    u = state[0].copy()
    u[:, :n_scaled] *= np.exp(c)
    value, gradient = energy(u)
    # Volumes grow by e^(n c).
    change = state[1] - value + n_scaled * c[:, 0]
    return _accepted(state, (u, value, gradient), change, generator)[0]


def _accepted(state, proposal, change, generator):
    """(one of two states for every chain, chances that it is the second)."""
    chance = np.exp(np.minimum(0.0, np.nan_to_num(change, nan=-np.inf)))
    accepted = generator.random(N_CHAINS) < chance  # Post-processing.
    pairs = zip(proposal, state, strict=True)
    rows = tuple(np.where(accepted.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in pairs)
    return rows, chance
