"""Attacks on random walks: they must never beat the claim, and come close to it in the worst case.

Two tables differ in one record, which pulls as hard as it may, one way or the other. One attacker knows every
proposal and every bit, and takes their likelihood ratio, which is the optimal test. Another knows what is
released, every state and so all moves, but not what was refused: about seven tenths of that.
"""

import numpy as np
import pytest
from numba import njit
from references import planned
from scipy.special import expit
from scipy.stats import poisson
from walks import cliffs

from skdpbayes._compute.gradients import log_ratio_of_all, loss_oracle
from skdpbayes.audit import audit_separation
from skdpbayes.privacy import Budget
from skdpbayes.random import private_generator
from skdpbayes.samplers import DPMH, DPFastMH, DPFastMHGaussian, PenaltyMH
from skdpbayes.samplers.base import run_plan
from skdpbayes.samplers.metropolis.chain import is_accepted_by_barker, log_ratio_of_batch, propose
from skdpbayes.samplers.metropolis.plan import Kernel

# What bits tell

CHAINS, BITS = 10_000, 200
BOUND = 0.08


@njit
def ask(oracle, generator, bound, ratio, chains, steps):
    """Return, for each step of each chain, where the proposal went and whether it was accepted."""
    upward = np.empty((chains, steps), np.bool_)
    accepted = np.empty((chains, steps), np.bool_)
    parts = np.empty(1)
    for chain in range(chains):
        theta, proposal = np.zeros(2), np.empty(2)
        for step in range(steps):
            propose(generator, theta, 1.0, False, proposal)
            if ratio > 0.0:
                odds = log_ratio_of_batch(oracle, generator, theta, proposal, 1.0, bound, ratio)
            else:
                odds = log_ratio_of_all(oracle, theta, proposal, 1.0, bound, parts, 0)
            upward[chain, step] = proposal[0] > theta[0]
            accepted[chain, step] = is_accepted_by_barker(generator, odds)
            if accepted[chain, step]:
                theta[:] = proposal
    return upward, accepted


def acceptance(u, bound, ratio):
    """Probability of acceptance, exactly: the record counts a Poisson number of times."""
    if ratio == 0:
        return expit(u)
    shape = bound * (1 + 2 / ratio)
    times = np.arange(60)
    weights = poisson.pmf(times, bound / ratio + (bound - u) / 2)
    return weights @ expit(times * np.log((shape + u) / (shape - u)))


def likelihood_ratios(direction, ratio, seed, bound=BOUND):
    """Log likelihood ratios of chains from the table of one direction against that of the other."""
    oracle = loss_oracle(cliffs(direction)[0], ratio > 0)
    upward, accepted = ask(oracle, private_generator(seed), bound, ratio, CHAINS, BITS)
    with_pull, against = (acceptance(u, BOUND, ratio) for u in (BOUND, -BOUND))
    gain = np.where(accepted, np.log(with_pull / against), np.log((1 - with_pull) / (1 - against)))
    return np.where(upward, gain, -gain).sum(axis=1)


def cost_of(ratio):
    return Kernel(ratio > 0, False, "replace_one", True, 1).cost(BOUND, ratio, 0.0, BITS)


@pytest.mark.nightly
@pytest.mark.parametrize("ratio", [0.0, 1.0])
def test_bits_tell_nearly_as_much_as_is_claimed_and_no_more(ratio):
    ours, others = (likelihood_ratios(z, ratio, seed) for z, seed in ((1.0, 1), (-1.0, 2)))
    cost = cost_of(ratio)
    for epsilon in (0.0, 0.5, 1.0, 2.0, 3.0):
        hits, false_alarms = (ours > epsilon).mean(), (others > epsilon).mean()
        error = np.sqrt((hits + np.exp(2 * epsilon) * false_alarms) / CHAINS)
        gained = hits - np.exp(epsilon) * false_alarms
        assert gained <= cost.delta(epsilon) + 5 * error
    # A batch tells most where the others have all but decided; here they say nothing.
    share = 0.95 if ratio == 0 else 0.75
    claimed = np.sqrt(BITS) * cost.decisions[0].log_odds_range / 2
    reached = audit_separation(ours, others)
    assert share * claimed <= reached.mu <= claimed * (1 + 0.03)


@pytest.mark.nightly
def test_the_attack_notices_a_record_that_is_not_confined_enough():
    ours, others = (
        likelihood_ratios(z, 0.0, seed, bound=1.3 * BOUND) for z, seed in ((1.0, 3), (-1.0, 4))
    )
    reached = audit_separation(ours, others)
    assert reached.epsilon(1e-5, n_standard_errors=5) > cost_of(0.0).epsilon(1e-5)


# What draws tell

CHAINS_OF_DRAWS, STEPS = 1200, 30
DELTA = 1e-2


def plan_of(sampler, **options):
    """Plan a chain that releases every step."""
    _, bounds = cliffs(0.0, 0.0, 1.0)
    made = sampler(step_size=0.55, burn_in=0.0, **options)
    fixed = {"temperature": 2.0, "n_steps": STEPS, "n_draws": STEPS}
    return planned(made, bounds, 3, Budget(50.0, DELTA), **fixed)


def moves_up(plan, direction, seed):
    """How many moves more went up than down: the likelihood ratio of a chain, but for a factor.

    Where a chain is makes no difference to what its bits tell, so that one long chain is many.
    """
    steps = CHAINS_OF_DRAWS * plan.n_steps
    privacy_filter = plan.privacy_filter._replace(total=float(steps))
    long = plan.changed(n_steps=steps, n_draws=steps, privacy_filter=privacy_filter)
    released = run_plan(cliffs(0.0, 0.0, direction)[0], long, seed, 0)
    moves = np.diff(released.draws[:, 0], prepend=0.0)
    assert released.other["n_iter"] == steps
    assert released.other["acceptance_rate"] == np.count_nonzero(moves) / steps
    return np.sign(moves).reshape(CHAINS_OF_DRAWS, plan.n_steps).sum(axis=1)


def audit(plan):
    return audit_separation(moves_up(plan, 1.0, 1), moves_up(plan, -1.0, 2))


@pytest.mark.parametrize(
    "sampler, options",
    [
        (DPMH, {}),
        (DPFastMH, {"batch_size": 2}),
        (PenaltyMH, {"noise_multiplier": 2.5}),
        (DPFastMHGaussian, {"batch_size": 2, "noise_multiplier": 2.0}),
    ],
)
def test_draws_tell_no_more_than_is_claimed_and_not_much_less(sampler, options):
    plan = plan_of(sampler, **options)
    reached = audit(plan)
    claimed = plan.cost.epsilon(DELTA)
    assert reached.epsilon(DELTA, n_standard_errors=5) <= claimed, "the claim is broken"
    # Noise and small batches are charged for worse than what happens here.
    least = {DPMH: 0.6, DPFastMH: 0.4}.get(sampler, 0.3)
    assert reached.epsilon(DELTA) >= least * claimed, "the claim is loose"
    assert 0.5 < claimed < 8.0


def test_steps_that_are_far_too_long_are_noticed():
    plan = plan_of(DPFastMH, batch_size=2)
    longer = plan.changed(step_size=2.5 * plan.step_size)
    assert audit(longer).epsilon(DELTA, n_standard_errors=5) > plan.cost.epsilon(DELTA)
