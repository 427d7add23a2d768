"""What tests of random walks share: a target that counts its reads, and chains of steps that cost nothing."""

from typing import NamedTuple

import numpy as np
from numba import njit
from references import effective_size, planned, standard_error
from scipy.special import expit

import skdpbayes.samplers.metropolis.chain as core
from skdpbayes._compute.gradients import loss_oracle
from skdpbayes.models import TargetBounds, example_loss, implements, n_examples, prior_potential
from skdpbayes.privacy import Budget
from skdpbayes.random import private_generator
from skdpbayes.samplers import DPMH, DPFastMH, DPFastMHGaussian, PenaltyMH

SAMPLERS = (DPMH, DPFastMH, PenaltyMH, DPFastMHGaussian)
NOISY = (PenaltyMH, DPFastMHGaussian)
BATCHED = (DPFastMH, DPFastMHGaussian)


class Watched(NamedTuple):
    """ell_i = -z_i . theta, a Gaussian prior between walls, and a count of how often a loss is looked up."""

    directions: np.ndarray
    reads: np.ndarray
    wall: float
    prior_precision: np.ndarray
    gradient_bound: float


@implements(n_examples, Watched)
def _count(target):
    return target.directions.shape[0]


@implements(example_loss, Watched)
def _loss(target, theta, i):
    target.reads[i] += 1
    total = 0.0
    for j in range(theta.size):
        total -= target.directions[i, j] * theta[j]
    return total


@implements(prior_potential, Watched)
def _potential(target, theta):
    total = 0.0
    for j in range(theta.size):
        if abs(theta[j]) > target.wall:
            return np.inf
        total += target.prior_precision[j] * theta[j] ** 2
    return total / 2.0


def watched(directions, precision=1.0, wall=np.inf, gradient_bound=1.0):
    """Build a target on the rows of ``directions``, and its bounds."""
    z = np.ascontiguousarray(directions, dtype=float)
    n, d = z.shape
    target = Watched(z, np.zeros(n, np.int64), wall, np.full(d, float(precision)), gradient_bound)
    return target, TargetBounds(d, gradient_bound, 0.25, (precision, precision))


def cliffs(*directions):
    """Build a target whose losses are far steeper than their bound: a record's pull is always an extreme."""
    rows = [[1e6 * direction, 0.0] for direction in directions]
    return watched(rows, precision=1e-9)


def logistic_table(n, d):
    """Return (X, y), y depending on the first column."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, (rng.random(n) < expit(X[:, 0])).astype(int)


def repeated(
    sampler,
    bounds,
    n,
    n_steps,
    n_draws,
    *,
    epsilon=1e4,
    temperature=None,
    burn_in_end=0.05,
    **options,
):
    """Plan one step, and let it be repeated beyond any budget: what is tested is what a step does."""
    budget = Budget(epsilon, 1e-6 if sampler in NOISY else 0.0)
    plan = planned(
        sampler,
        bounds,
        n,
        budget,
        burn_in=0.0,
        temperature=temperature,
        n_steps=1,
        n_draws=n_draws,
        **options,
    )
    clock = plan.privacy_filter._replace(total=float(n_steps), burn_in_end=burn_in_end * n_steps)
    return plan.changed(n_steps=n_steps, expected_steps=n_steps, privacy_filter=clock)


def blocks(target, plan, seed, block):
    """Run a chain a block at a time, and return its states and records after each."""
    generator = private_generator(seed)
    theta, state = np.zeros(plan.n_parameters), np.zeros(6)
    state[core._SCALE] = 1.0
    walk = core.Walk(
        step_size=plan.step_size,
        lipschitz=plan.bounds.gradient_bound,
        temperature=plan.temperature,
        batch_ratio=plan.batch_ratio,
        barker=plan.rule == "barker",
        noise_variance=plan.noise_variance,
        gaussian=plan.proposal == "gaussian",
    )
    fixed = (plan.draw_marks(), np.empty((plan.n_draws, theta.size)), np.empty(1))
    oracle = loss_oracle(target, plan.batch_ratio > 0)
    passed = []
    for first in range(0, plan.n_steps, block):
        stop = min(first + block, plan.n_steps)
        core._advance(
            oracle, generator, theta, state, walk, plan.privacy_filter, first, stop, *fixed, 0
        )
        passed.append(np.concatenate([theta, state]))
        if state[core._OVER]:
            break
    passed = np.array(passed)
    return passed[:, : theta.size], passed[:, theta.size :]


@njit
def propose_often(generator, dimension, step_size, gaussian, repeats):
    """Return moves and what they are charged for."""
    theta = np.linspace(-1.0, 2.0, dimension)
    moves, charged = np.empty((repeats, dimension)), np.empty(repeats)
    for k in range(repeats):
        charged[k] = core.propose(generator, theta, step_size, gaussian, moves[k])
        moves[k] -= theta
    return moves, charged


def assert_moments(draws, mean, covariance, least_size=4000):
    """Seven standard errors, of batch means with 39 degrees of freedom: once in a hundred million."""
    deviation = np.sqrt(np.diag(covariance))
    size = min(effective_size(column) for column in draws.T)
    assert size > least_size, "too few effective draws to tell anything"
    assert (np.abs(draws.mean(axis=0) - mean) < 7 * standard_error(draws)).all()
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=6 / np.sqrt(size))
