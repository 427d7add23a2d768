"""Random walks on targets of one's own: what is read of them, and what they must have."""

from typing import NamedTuple

import numpy as np
import pytest
from references import planned
from scipy.stats import truncnorm
from walks import BATCHED, NOISY, SAMPLERS, assert_moments, propose_often, repeated, watched

from skdpbayes.models import TargetBounds, example_gradient, implements, n_examples
from skdpbayes.privacy import Budget, PrivacyLedger
from skdpbayes.random import private_generator
from skdpbayes.samplers import DPMH, DPFastMH, sample
from skdpbayes.samplers.base import run_plan


@pytest.mark.daily(1)
@pytest.mark.parametrize("sampler", BATCHED)
@pytest.mark.parametrize("n, step_size", [(3, 0.5), (30, 0.3)])
def test_batches_are_exact_however_noisy_their_ratio(sampler, n, step_size):
    """Every record pulls as hard as it may, and as few of them are looked at as may be."""
    pull = np.resize([1.0, -1.0, 1.0], (n, 1))
    target, bounds = watched(pull, precision=4.0)
    options = {"temperature": 1.0, "step_size": step_size}
    options["batch_size"] = int(np.ceil(n * step_size * (1 + 1 / 1.4)))
    if sampler in NOISY:
        options["noise_multiplier"] = 0.6
    plan = repeated(sampler, bounds, n, 600_000, 60_000, **options)
    draws = sample(target, plan, random_state=2)
    assert_moments(draws, pull.sum() / 4.0, np.array([[0.25]]), least_size=1500)


def test_one_dimension_is_no_lattice():
    """At a fixed distance a chain on a line would only ever visit multiples of it."""
    target, bounds = watched(np.zeros((5, 1)))
    sampler = DPFastMH(burn_in=0.0, step_size=0.5)
    plan = planned(sampler, bounds, 5, Budget(np.inf, 0.0), n_steps=4000, n_draws=4000)
    moved = np.abs(np.diff(sample(target, plan, random_state=0)[:, 0]))
    moved = moved[moved > 0]
    assert moved.max() <= 0.5 and np.unique(moved).size > 0.99 * moved.size > 1000
    # Distances are uniform: a tenth of them in each tenth, apart from the few that are refused.
    shares = np.histogram(moved, bins=10, range=(0.0, 0.5))[0] / moved.size
    assert (np.abs(shares - 0.1) < 0.04).all()
    _, charged = propose_often(private_generator(0), 1, 0.5, False, 1000)
    assert (charged == 0.5).all()


# What is read


def test_a_step_reads_its_poisson_batch_and_nothing_else():
    n, n_steps = 5000, 2000
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(n, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    target, bounds = watched(directions)
    options = {"step_size": 0.004, "batch_size": 25, "temperature": 2.0}
    plan = repeated(DPFastMH, bounds, n, n_steps, 10, **options)
    assert plan.batch_size == pytest.approx(25) and plan.sampling_rate == pytest.approx(25 / n)
    sample(target, plan, random_state=0)
    looked_up = target.reads / 2  # Here and at the proposal.
    expected = plan.sampling_rate * n_steps
    assert looked_up.sum() == pytest.approx(n * expected, abs=6 * np.sqrt(n * expected))
    # Every record alike: the counts have the variance of Poisson numbers.
    assert looked_up.var() == pytest.approx(expected, rel=6 * np.sqrt(2.2 / n))


def test_without_batches_a_step_reads_every_record_once():
    target, bounds = watched(np.zeros((30, 2)))
    plan = repeated(DPMH, bounds, 30, 50, 10, step_size=0.1, temperature=1.0)
    sample(target, plan, random_state=0)
    assert (target.reads == 2 * 50).all()


# Other people's targets


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_target_of_ones_own_needs_no_more_than_losses(sampler):
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(200, 2))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    target, bounds = watched(directions, precision=2.0)
    plan = sampler().plan(bounds, 200, Budget(2.0, 1e-5))
    released = run_plan(target, plan, 0, 0)
    assert released.draws.shape == (100, 2) and np.isfinite(released.draws).all()
    assert 0 < released.other["acceptance_rate"] < 1
    assert released.other["n_iter"] == plan.n_steps


class NoLosses(NamedTuple):
    """Gradients only."""

    points: np.ndarray
    prior_precision: np.ndarray
    gradient_bound: float


@implements(n_examples, NoLosses)
def _count_no_losses(target):
    return target.points.shape[0]


@implements(example_gradient, NoLosses)
def _gradient_no_losses(target, theta, i, out):
    out[0] = 1.0


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_target_without_losses_is_refused_before_anything_is_spent(sampler):
    target = NoLosses(np.zeros((50, 1)), np.ones(1), 1.0)
    bounds = TargetBounds(1, 1.0, 0.25, (1.0, 1.0))
    plan = sampler().plan(bounds, 50, Budget(1.0, 1e-5))
    with PrivacyLedger(1.0, 1e-5) as ledger:
        with pytest.raises(ValueError, match="example_loss"):
            sample(target, plan, random_state=0)
    assert ledger.spent_epsilon == 0.0


def test_a_chain_cannot_start_where_the_prior_forbids_it():
    target, bounds = watched(np.zeros((50, 1)), wall=-1.0)
    plan = DPFastMH().plan(bounds, 50, Budget(1.0, 1e-5))
    with PrivacyLedger(1.0, 1e-5) as ledger:
        with pytest.raises(ValueError, match="starts at zero"):
            sample(target, plan, random_state=0)
    assert ledger.spent_epsilon == 0.0


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_proposals_beyond_the_priors_support_are_never_taken(sampler):
    wall = 0.4
    target, bounds = watched(np.tile([[0.6], [-0.6], [0.9]], (10, 1)), precision=2.0, wall=wall)
    options = {"step_size": 0.3, "temperature": 3.0}
    if sampler in BATCHED:
        options["batch_size"] = 10
    if sampler in NOISY:
        options["noise_multiplier"] = 1.0
    plan = repeated(sampler, bounds, 30, 200_000, 50_000, **options)
    draws = sample(target, plan, random_state=0)
    assert np.abs(draws).max() <= wall
    center, scale = 10 * 0.9 / 3.0 / 2.0, np.sqrt(0.5)
    law = truncnorm((-wall - center) / scale, (wall - center) / scale, center, scale)
    assert_moments(draws, law.mean(), np.array([[law.var()]]))
