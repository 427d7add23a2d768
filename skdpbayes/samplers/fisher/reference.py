"""Fisher scoring without privacy: a chain at the posterior's mode, in coordinates in which it is round.

    theta = W u,    W = (H + tau P)^(-1/2),    H = sum_i hess ell_i at the mode, P the prior's precision

At the mode all curvatures are 1, and ``M = |W^T (sum_i B_i + tau P) W|`` at most anywhere, ``B_i`` a bound on
a record's Hessian. With steps ``kappa = 1 / M`` and friction ``M^(-1/2) / 2``, a quarter of the critical one,
coordinates swing: on a normal posterior means are known as well as from an independent draw every ``M^(1/2)``
steps, and deviations as from one every ``2.5 M^(1/2)``.
"""

import math
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from ..._linalg import eigh, eigvalsh, solve
from ...targets import second_moment
from ...targets.linear.curvature import curvature_bound, loss_and_derivatives
from .._chain_length import chain_length
from .._machinery.shards import total
from .._protocol import Released, given
from ..langevin.geometry import PriorGeometry
from ..langevin.underdamped import run_underdamped
from .plan import BURN_IN, EFFECTIVE_SIZE, RELAXATIONS, STEPS_PER_DRAW

_NEWTON_STEPS = 100
# Of the squared length of a step, in deviations of the posterior.
_CLOSE = 1e-12


@dataclass(frozen=True, kw_only=True)
class _RoundGeometry(PriorGeometry):
    """Curvatures 1 at the mode, and at most ``largest`` anywhere."""

    largest: float

    def slowest(self, temperature):
        """Return the curvature of all directions at the mode."""
        return 1.0

    def stiffest(self, temperature):
        """Return the largest curvature that the potential can have."""
        return self.largest


def find_mode(target, temperature):
    """Return the mode of a linear model's posterior, and the Hessian there, by Newton's method."""
    precision = temperature * target.prior_precision
    theta = np.zeros(precision.size)

    def potential(theta):
        loss, gradient, hessian = total(loss_and_derivatives, target, theta)
        return (
            loss + 0.5 * np.sum(precision * theta**2),
            gradient + precision * theta,
            hessian + np.diag(precision),
        )

    value, gradient, hessian = potential(theta)
    for _ in range(_NEWTON_STEPS):
        step = solve(hessian, gradient)
        decrease, share = gradient @ step, 1.0
        if decrease <= _CLOSE:
            break
        trial = potential(theta - step)
        while trial[0] > value - 1e-4 * share * decrease and share > 1e-6:
            share *= 0.5
            trial = potential(theta - share * step)
        theta = theta - share * step
        value, gradient, hessian = trial
    return theta, hessian


def _number_of_steps(plan, chain, largest):
    """Return the user's number of steps, or as many as it takes: up to ten times what was planned."""
    if "n_steps" in plan.fixed or plan.sampling_rate < 1:  # With batches, heat decides.
        return plan.n_steps
    wanted = math.ceil(STEPS_PER_DRAW * EFFECTIVE_SIZE * math.sqrt(largest))
    most = 10 * plan.n_steps
    return chain_length(None, min(wanted, most), plan.n_draws, chain.burn_in, 1.0)


def run_reference(plan, chain, target, generator, verbose):
    """Carry out a `FisherPlan` without privacy."""
    temperature = 1.0 if np.isnan(plan.temperature) else plan.temperature
    mode, hessian = find_mode(target, temperature)
    moment = total(second_moment, target)
    values, vectors = eigh(hessian)
    transform = np.ascontiguousarray(vectors / np.sqrt(values))
    most = curvature_bound(moment, target.family)
    most[np.diag_indices_from(most)] += temperature * target.prior_precision
    curvatures = eigvalsh(transform.T @ most @ transform)
    # No less than at the mode, which rounding could make it.
    largest = max(1.0, float(curvatures[-1]))
    # No residual is longer than twice the root of its bound on curvatures: what batches add up to.
    norm = 2.0 * np.sqrt(curvatures.sum() / plan.n_samples)
    bounds = plan.bounds._replace(gradient_bound=float(norm))
    if given(chain.friction) is None:
        chain = clone(chain).set_params(friction=0.5 * largest**-0.5)
    if given(chain.burn_in) is None:
        chain = clone(chain).set_params(burn_in=BURN_IN[1])
    path = chain.plan_at_paid_noise(
        _RoundGeometry(bounds, plan.n_samples, largest=largest),
        plan.n_samples,
        plan.noise_multiplier,
        _number_of_steps(plan, chain, largest),
        plan.cost,
        budget=plan.budget,
        temperature=temperature,
        n_draws=plan.n_draws,
        relaxations=RELAXATIONS,
    )
    start = np.sqrt(values) * (vectors.T @ mode)
    draws = run_underdamped(path, target, generator, verbose, start=start, transform=transform)
    path = path.changed(sampler=plan.sampler, fixed=plan.fixed)
    return Released(draws @ transform.T, path, other={"second_moment": moment})
