"""An attack on what a random walk releases: its draws must not tell more than its plan claims.

Two tables differ in one record, which pulls as hard as it may. The attacker sees every state of the chain,
and so all moves, but not what was refused: about seven tenths of what bits and proposals would tell.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
import pytest

from skdpbayes.privacy import Budget, SamplerOptions, audit_separation, plan_metropolis
from skdpbayes.samplers import carry_out
from skdpbayes.targets import TargetBounds, example_loss, implements, n_examples

REPETITIONS, STEPS = 1200, 30
DELTA = 1e-2


class Cliff(NamedTuple):
    """Losses far steeper than their bound, which has to confine them."""

    directions: np.ndarray
    prior_precision: np.ndarray
    gradient_bound: float


@implements(n_examples, Cliff)
def _count(target):
    return target.directions.size


@implements(example_loss, Cliff)
def _loss(target, theta, i):
    return -1e6 * target.directions[i] * theta[0]


def table(direction):
    return Cliff(np.array([0.0, 0.0, direction]), np.full(2, 1e-6), 1.0)


def plan_of(sampler, **options):
    bounds = TargetBounds(2, gradient_bound=1.0, smoothness=1e-6, prior_precision=(1e-6, 1e-6))
    fixed = {"n_steps": STEPS, "n_draws": STEPS, "burn_in": 0.0}
    options = SamplerOptions(temperature=2.0, step_size=0.55, **fixed, **options)
    return plan_metropolis(bounds, 3, Budget(50.0, DELTA), options, sampler=sampler)


def moves_up(plan, direction, seed):
    """How many moves more went up than down: the likelihood ratio, but for a factor."""
    released = carry_out(table(direction), plan, seed, 0)
    steps = np.diff(released.draws[:, 0], prepend=0.0)
    assert released.other["n_iter"] == STEPS
    assert released.other["acceptance_rate"] == np.count_nonzero(steps) / STEPS
    return np.sign(steps).sum()


def audit(plan):
    scores = [
        [moves_up(plan, direction, 2 * r + which) for r in range(REPETITIONS)]
        for which, direction in enumerate((1.0, -1.0))
    ]
    return audit_separation(*scores)


@pytest.mark.parametrize(
    "sampler, options",
    [
        ("dp_mh", {}),
        ("dp_fast_mh", {"batch_size": 2}),
        ("penalty", {"noise_multiplier": 2.5}),
        ("dp_fast_mh_gaussian", {"batch_size": 2, "noise_multiplier": 2.0}),
    ],
)
def test_draws_tell_no_more_than_is_claimed_and_not_much_less(sampler, options):
    plan = plan_of(sampler, **options)
    reached = audit(plan)
    claimed = plan.cost.epsilon(DELTA)
    assert reached.epsilon(DELTA, n_standard_errors=5) <= claimed, "the claim is broken"
    # Noise and small batches are charged for worse than what happens here.
    least = {"dp_mh": 0.6, "dp_fast_mh": 0.4}.get(sampler, 0.3)
    assert reached.epsilon(DELTA) >= least * claimed, "the claim is loose"
    assert 0.5 < claimed < 8.0


@pytest.mark.parametrize("sampler, options", [("dp_mh", {}), ("dp_fast_mh", {"batch_size": 2})])
def test_steps_that_are_far_too_long_are_noticed(sampler, options):
    plan = plan_of(sampler, **options)
    longer = dataclasses.replace(plan, step_size=2.5 * plan.step_size)
    assert audit(longer).epsilon(DELTA, n_standard_errors=5) > plan.cost.epsilon(DELTA)
