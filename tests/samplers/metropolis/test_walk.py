"""Metropolis' family samples what it says, from bits that depend on what it may read and on nothing else."""

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit
from references import effective_size, logistic_moments, standard_error
from scipy.special import expit, ndtr
from scipy.stats import poisson, truncnorm

from skdpbayes.privacy import Budget, PrivacyLedger, SamplerOptions, plan_metropolis
from skdpbayes.random import private_generator
from skdpbayes.samplers import carry_out, sample
from skdpbayes.samplers import metropolis as core
from skdpbayes.targets import (
    TargetBounds,
    example_gradient,
    example_loss,
    implements,
    n_examples,
    prior_potential,
)

SAMPLERS = ("dp_mh", "dp_fast_mh", "penalty", "dp_fast_mh_gaussian")
NOISY = ("penalty", "dp_fast_mh_gaussian")
BATCHED = ("dp_fast_mh", "dp_fast_mh_gaussian")


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


def kernel_plan(bounds, n, sampler, n_steps, n_draws, epsilon=1e4, **options):
    """Plan one step, and let it be repeated beyond any budget: what is tested is what a step does."""
    budget = Budget(epsilon, 1e-6 if sampler in NOISY else 0.0)
    options = SamplerOptions(n_steps=1, n_draws=n_draws, burn_in=0.0, **options)
    plan = plan_metropolis(bounds, n, budget, options, sampler=sampler)
    clock = plan.clock._replace(total=float(n_steps), burnt=0.05 * n_steps)
    return dataclasses.replace(plan, n_steps=n_steps, expected_steps=n_steps, clock=clock)


def assert_moments(draws, mean, covariance, least_size=4000):
    """Seven standard errors, of batch means with 39 degrees of freedom: once in a hundred million."""
    deviation = np.sqrt(np.diag(covariance))
    size = min(effective_size(column) for column in draws.T)
    assert size > least_size, "too few effective draws to tell anything"
    assert (np.abs(draws.mean(axis=0) - mean) < 7 * standard_error(draws)).all()
    assert draws.std(axis=0) == pytest.approx(deviation, rel=6 / np.sqrt(size))


# The law of the chain


@pytest.fixture(scope="module")
def small_table():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 2))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = (rng.random(40) < expit(3 * X[:, 0] - X[:, 1])).astype(int)
    return X, y


@pytest.mark.parametrize("epsilon, temperature", [(1e4, 1.0), (1e4, 3.0), (np.inf, 3.0)])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_stationary_law_against_quadrature(make_target, small_table, sampler, epsilon, temperature):
    X, y = small_table
    target, bounds = make_target(X, y, prior_scale=1.0)
    options = {"temperature": temperature, "step_size": 0.9}
    if sampler in BATCHED:
        # The smallest batches whose cost is known: the noisiest ratio.
        options["step_size"] = 0.5 * temperature
        options["batch_size"] = 35
    if sampler in NOISY and epsilon < np.inf:
        options["noise_multiplier"] = 0.5 * temperature
    plan = kernel_plan(bounds, 40, sampler, 300_000, 60_000, epsilon, **options)
    private = epsilon < np.inf
    assert plan.rule == ("barker" if private and sampler not in NOISY else "metropolis")
    assert (plan.noise_variance > 0.5) == (private and sampler in NOISY)
    assert (plan.batch_ratio > 1.3) == (sampler in BATCHED)
    draws = sample(target, plan, random_state=1)
    assert_moments(draws, *logistic_moments(X, y, 1.0, temperature))


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
    plan = kernel_plan(bounds, n, sampler, 600_000, 60_000, **options)
    draws = sample(target, plan, random_state=2)
    assert_moments(draws, pull.sum() / 4.0, np.array([[0.25]]), least_size=1500)


# Exact, on problems that can be enumerated

STATES = np.array([-0.5, 0.1, 0.6])
TILTS = np.array([0.9, -0.4, 0.7])


def exact_acceptance(x, y, temperature, bound, ratio, precision):
    """Probability that Barker's rule on a batch takes ``y`` at ``x``, by adding up counts of all records."""
    u = TILTS * (y - x) / temperature
    shape = bound * (1 + 2 / ratio)
    rates, jumps = (shape - u) / 2, np.log((shape + u) / (shape - u))
    times = np.arange(40)
    total = precision * (x**2 - y**2) / 2
    probability = 1.0
    for axis, (rate, jump) in enumerate(zip(rates, jumps, strict=True)):
        place = [-1 if k == axis else 1 for k in range(3)]
        total = total + (times * jump).reshape(place)
        probability = probability * poisson.pmf(times, rate).reshape(place)
    return float(np.sum(probability * expit(total)))


@njit
def batch_decisions(target, generator, theta, proposal, temperature, bound, ratio, repeats):
    """Return every log ratio of a batch, and how often Barker's rule accepts with the prior's part."""
    ratios = np.empty(repeats)
    accepted = 0
    prior = prior_potential(target, theta) - prior_potential(target, proposal)
    for k in range(repeats):
        ratios[k] = core.log_ratio_of_batch(
            target, generator, theta, proposal, temperature, bound, ratio
        )
        accepted += core.is_accepted(generator, prior + ratios[k], True, 0.0)
    return ratios, accepted


@pytest.mark.parametrize("ratio", [0.2, 1.0, 1.4])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_barkers_rule_on_batches_is_in_detailed_balance(ratio, temperature):
    precision = 1.5
    log_density = STATES * TILTS.sum() / temperature - precision * STATES**2 / 2
    for i, j in itertools.combinations(range(3), 2):
        x, y = STATES[i], STATES[j]
        arguments = (temperature, abs(y - x) / temperature, ratio, precision)
        there, back = exact_acceptance(x, y, *arguments), exact_acceptance(y, x, *arguments)
        balance = np.log(there / back) - (log_density[j] - log_density[i])
        assert abs(balance) < 1e-10
        # And this is what the sampler's compiled decisions do.
        target, _ = watched(TILTS[:, None], precision)
        repeats = 200_000
        _, accepted = batch_decisions(
            target,
            private_generator(i + 3 * j),
            np.array([x]),
            np.array([y]),
            *arguments[:3],
            repeats,
        )
        error = np.sqrt(there * (1 - there) / repeats)
        assert accepted / repeats == pytest.approx(there, abs=6 * error)


def test_a_batch_estimates_the_ratio_without_bias():
    """E exp(log ratio) is the ratio, and E exp(-log ratio) what the range of a bit is made of."""
    target, _ = watched(TILTS[:, None])
    bound, ratio, u = 0.8, 0.7, 0.8 * TILTS
    ratios, _ = batch_decisions(
        target, private_generator(0), np.zeros(1), np.full(1, 0.8), 1.0, bound, ratio, 400_000
    )
    jumps = np.log((bound * (1 + 2 / ratio) + u) / (bound * (1 + 2 / ratio) - u))
    for sign, exact in ((1, np.exp(u.sum())), (-1, np.exp(-np.sum(u * np.exp(-jumps))))):
        values = np.exp(sign * ratios)
        assert values.mean() == pytest.approx(exact, abs=6 * values.std() / np.sqrt(values.size))


# Single decisions


@njit
def count_decisions(generator, log_ratio, barker, noise_variance, repeats):
    accepted = 0
    for _ in range(repeats):
        accepted += core.is_accepted(generator, log_ratio, barker, noise_variance)
    return accepted


def assert_accepts(probability, log_ratio, barker, noise_variance=0.0, repeats=1_000_000):
    generator = private_generator(5)
    accepted = count_decisions(generator, log_ratio, barker, noise_variance, repeats)
    error = np.sqrt(probability * (1 - probability) / repeats)
    assert accepted / repeats == pytest.approx(probability, abs=6 * error)


@pytest.mark.parametrize("log_odds", [0.0, 2.0, -2.0, 8.0, -8.0])
def test_barkers_rule_accepts_as_often_as_it_says(log_odds):
    assert_accepts(expit(log_odds), log_odds, True)


@pytest.mark.parametrize("log_ratio", [0.3, 0.0, -0.01, -2.0])
def test_metropolis_rule_accepts_as_often_as_it_says(log_ratio):
    assert_accepts(min(1.0, np.exp(log_ratio)), log_ratio, False)


@pytest.mark.parametrize("log_ratio", [-1.5, 0.0, 0.8])
@pytest.mark.parametrize("variance", [0.5, 4.0])
def test_noise_leaves_metropolis_rule_in_balance(log_ratio, variance):
    def probability(ratio):
        a, b = ratio / np.sqrt(variance), np.sqrt(variance) / 2
        return ndtr(a - b) + np.exp(ratio) * ndtr(-a - b)

    assert_accepts(probability(log_ratio), log_ratio, False, variance)
    odds = probability(log_ratio) / probability(-log_ratio)
    assert odds == pytest.approx(np.exp(log_ratio))


@pytest.mark.parametrize("barker, variance", [(True, 0.0), (False, 0.0), (False, 4.0)])
def test_certain_decisions_are_certain(barker, variance):
    for log_ratio, share in ((-np.inf, 0), (-1e9, 0), (1e9, 1)):
        accepted = count_decisions(private_generator(0), log_ratio, barker, variance, 100_000)
        assert accepted == share * 100_000


@pytest.mark.parametrize("barker", [True, False])
def test_ratios_that_are_no_numbers_are_refused(barker):
    assert count_decisions(private_generator(0), np.nan, barker, 0.0, 1000) == 0


# Proposals


@njit
def proposals(generator, dimension, step_size, gaussian, repeats):
    theta = np.linspace(-1.0, 2.0, dimension)
    moves, charged = np.empty((repeats, dimension)), np.empty(repeats)
    for k in range(repeats):
        charged[k] = core.propose(generator, theta, step_size, gaussian, moves[k])
        moves[k] -= theta
    return moves, charged


@pytest.mark.parametrize("dimension", [2, 7])
def test_proposals_lie_on_a_sphere(dimension):
    moves, charged = proposals(private_generator(0), dimension, 0.3, False, 100_000)
    np.testing.assert_allclose(np.linalg.norm(moves, axis=1), 0.3, rtol=1e-12)
    assert (charged == 0.3).all()
    covariance = moves.T @ moves / 100_000 * dimension / 0.09
    # A product of two coordinates of a unit vector has a deviation below 2 / d.
    np.testing.assert_allclose(covariance, np.eye(dimension), atol=6 * 2 / np.sqrt(100_000))


@pytest.mark.parametrize("dimension", [1, 7])
def test_gaussian_proposals_are_charged_for_their_own_distance(dimension):
    moves, charged = proposals(private_generator(0), dimension, 0.3, True, 100_000)
    np.testing.assert_allclose(np.linalg.norm(moves, axis=1), charged, rtol=1e-9)
    error = 0.09 * np.sqrt(2 / dimension / 100_000)
    assert np.mean(charged**2) == pytest.approx(0.09, abs=6 * error)


def test_one_dimension_is_no_lattice():
    """At a fixed distance a chain on a line would only ever visit multiples of it."""
    target, bounds = watched(np.zeros((5, 1)))
    options = SamplerOptions(n_steps=4000, n_draws=4000, burn_in=0.0, step_size=0.5)
    plan = plan_metropolis(bounds, 5, Budget(np.inf, 0.0), options)
    moved = np.abs(np.diff(sample(target, plan, random_state=0)[:, 0]))
    moved = moved[moved > 0]
    assert moved.max() <= 0.5 and np.unique(moved).size > 0.99 * moved.size > 1000
    # Distances are uniform: a tenth of them in each tenth, apart from the few that are refused.
    shares = np.histogram(moved, bins=10, range=(0.0, 0.5))[0] / moved.size
    assert (np.abs(shares - 0.1) < 0.04).all()
    _, charged = proposals(private_generator(0), 1, 0.5, False, 1000)
    assert (charged == 0.5).all()


# What is read


def test_a_step_reads_its_poisson_batch_and_nothing_else():
    n, n_steps = 5000, 2000
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(n, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    target, bounds = watched(directions)
    options = {"step_size": 0.004, "batch_size": 25, "temperature": 2.0}
    plan = kernel_plan(bounds, n, "dp_fast_mh", n_steps, 10, **options)
    assert plan.batch_size == pytest.approx(25) and plan.sampling_rate == pytest.approx(25 / n)
    sample(target, plan, random_state=0)
    looked_up = target.reads / 2  # Here and at the proposal.
    expected = plan.sampling_rate * n_steps
    assert looked_up.sum() == pytest.approx(n * expected, abs=6 * np.sqrt(n * expected))
    # Every record alike: the counts have the variance of Poisson numbers.
    assert looked_up.var() == pytest.approx(expected, rel=6 * np.sqrt(2.2 / n))


def test_without_batches_a_step_reads_every_record_once():
    target, bounds = watched(np.zeros((30, 2)))
    plan = kernel_plan(bounds, 30, "dp_mh", 50, 10, step_size=0.1, temperature=1.0)
    sample(target, plan, random_state=0)
    assert (target.reads == 2 * 50).all()


# Other people's targets


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_target_of_ones_own_needs_no_more_than_losses(sampler):
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(200, 2))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    target, bounds = watched(directions, precision=2.0)
    plan = plan_metropolis(bounds, 200, Budget(2.0, 1e-5), sampler=sampler)
    released = carry_out(target, plan, 0, 0)
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
    plan = plan_metropolis(bounds, 50, Budget(1.0, 1e-5), sampler=sampler)
    with PrivacyLedger(1.0, 1e-5) as ledger:
        with pytest.raises(ValueError, match="example_loss"):
            sample(target, plan, random_state=0)
    assert ledger.spent_epsilon == 0.0


def test_a_chain_cannot_start_where_the_prior_forbids_it():
    target, bounds = watched(np.zeros((50, 1)), wall=-1.0)
    plan = plan_metropolis(bounds, 50, Budget(1.0, 1e-5))
    with PrivacyLedger(1.0, 1e-5) as ledger:
        with pytest.raises(ValueError, match="starts at zero"):
            sample(target, plan, random_state=0)
    assert ledger.spent_epsilon == 0.0


@njit
def whole_table(target, theta, proposal, temperature, bound, parts):
    return core.log_ratio_of_all(target, theta, proposal, temperature, bound, parts, False)


def test_losses_that_lie_about_their_bound_are_confined_to_it():
    """Records 50 times beyond it, one infinite and one without a value at all."""
    directions = np.array([[50.0], [-50.0], [50.0], [0.5], [np.inf], [np.nan]])
    target, _ = watched(directions)
    here, there = np.array([0.1]), np.array([0.4])
    bound = 0.3 / 2.0
    for count in (1, 3):
        total = whole_table(target, here, there, 2.0, bound, np.empty(count))
        # inf - inf has no value either.
        assert total == pytest.approx(bound * (1 - 1 + 1 + 0.5))
    for row, u in ((50.0, bound), (-50.0, -bound), (np.nan, 0.0)):
        liar, _ = watched(np.array([[row]]))
        ratios, _ = batch_decisions(liar, private_generator(0), here, there, 2.0, bound, 1.0, 1000)
        jump = np.log((3 * bound + u) / (3 * bound - u))
        times = ratios / jump if u else ratios
        assert np.abs(times - np.rint(times)).max() < 1e-9
        assert times.max() >= 1 if u else (ratios == 0).all()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_proposals_beyond_the_priors_support_are_never_taken(sampler):
    wall = 0.4
    target, bounds = watched(np.tile([[0.6], [-0.6], [0.9]], (10, 1)), precision=2.0, wall=wall)
    options = {"step_size": 0.3, "temperature": 3.0}
    if sampler in BATCHED:
        options["batch_size"] = 10
    if sampler in NOISY:
        options["noise_multiplier"] = 1.0
    plan = kernel_plan(bounds, 30, sampler, 200_000, 50_000, **options)
    draws = sample(target, plan, random_state=0)
    assert np.abs(draws).max() <= wall
    center, scale = 10 * 0.9 / 3.0 / 2.0, np.sqrt(0.5)
    law = truncnorm((-wall - center) / scale, (wall - center) / scale, center, scale)
    assert_moments(draws, law.mean(), np.array([[law.var()]]))


# Filters: steps of different lengths


def blocks(target, plan, seed, block):
    """Run a chain a block at a time, and return its states and records after each."""
    generator = private_generator(seed)
    theta, state = np.zeros(plan.bounds.n_parameters), np.zeros(6)
    state[core._SCALE] = 1.0
    kernel = (
        plan.step_size,
        plan.bounds.gradient_bound,
        plan.temperature,
        plan.batch_ratio,
        plan.rule == "barker",
        plan.noise_variance,
        plan.proposal == "gaussian",
    )
    fixed = (plan.draw_marks(), np.empty((plan.n_draws, theta.size)), np.empty(1))
    passed = []
    for first in range(0, plan.n_steps, block):
        stop = min(first + block, plan.n_steps)
        core._advance(
            target, generator, theta, state, kernel, plan.clock, first, stop, *fixed, False
        )
        passed.append(np.concatenate([theta, state]))
        if state[core._OVER]:
            break
    passed = np.array(passed)
    return passed[:, : theta.size], passed[:, theta.size :]


@pytest.mark.parametrize("sampler", ["dp_mh", "dp_fast_mh", "penalty"])
@pytest.mark.parametrize(
    "options",
    [
        {"proposal": "gaussian"},
        {"adapt_step_size": True},
        {"proposal": "gaussian", "adapt_step_size": True},
    ],
    ids=lambda options: " ".join(options),
)
def test_no_chain_with_steps_of_different_lengths_passes_what_was_planned(
    make_target, sampler, options
):
    rng = np.random.default_rng(0)
    n = 3000
    X = rng.normal(size=(n, 3))
    y = (rng.random(n) < expit(X[:, 0])).astype(int)
    target, bounds = make_target(X, y, norm=2.0, prior_scale=1.0)
    plan = plan_metropolis(bounds, n, Budget(4.0, 1e-6), SamplerOptions(**options), sampler=sampler)
    assert plan.epsilon <= 4.0
    assert plan.clock.total <= plan.cost.rho == plan.cost.concentrated
    for seed in range(3):
        states, records = blocks(target, plan, seed, 1)
        spent = records[:, core._SPENT]
        assert (spent <= plan.clock.total).all() and (np.diff(spent) >= 0).all()
        # What is left would not have paid for a step of ordinary length ...
        assert spent[-1] > 0.5 * plan.clock.total and len(spent) <= plan.n_steps
        # ... and every step that was taken was charged for its distance.
        distances = np.linalg.norm(np.diff(states, axis=0), axis=1)
        taken = distances > 0
        charges = plan.clock.coefficient * distances**2
        np.testing.assert_allclose(np.diff(spent)[taken], charges[taken], rtol=1e-6)
        assert taken.any()
        released = carry_out(target, plan, seed, 0)
        assert released.other["n_iter"] == records[-1, core._STEPS] <= plan.n_steps
        share = records[-1, core._ACCEPTED] / records[-1, core._STEPS]
        assert released.other["acceptance_rate"] == share
        np.testing.assert_array_equal(released.draws[-1], states[-1])


@pytest.mark.parametrize("sampler", ["dp_mh", "dp_fast_mh"])
def test_a_charge_is_what_a_bit_of_that_distance_costs(sampler):
    _, bounds = watched(np.zeros((3000, 3)))
    options = SamplerOptions(proposal="gaussian")
    plan = plan_metropolis(bounds, 3000, Budget(1.0, 1e-6), options, sampler=sampler)
    for distance in (0.3 * plan.step_size, plan.step_size, 4.0 * plan.step_size):
        a, r = distance / plan.temperature, plan.batch_ratio
        log_odds_range = a * (2 + r**2 / (1 + r))
        charge = plan.clock.coefficient * distance**2
        assert charge == pytest.approx(log_odds_range**2 / 8, rel=1e-6)
        assert charge >= log_odds_range**2 / 8


def test_adaptation_follows_accept_bits_and_nothing_else():
    """Tables whose bits agree have the same steps, to the last digit."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(400, 2))
    directions /= 1.01 * np.linalg.norm(directions, axis=1)[:, None]
    _, bounds = watched(directions)
    options = SamplerOptions(adapt_step_size=True, proposal="gaussian")
    plan = plan_metropolis(bounds, 400, Budget(2.0, 1e-6), options, sampler="dp_mh")
    total = 200.0 * plan.clock.total
    clock = plan.clock._replace(total=total, burnt=0.3 * total)
    plan = dataclasses.replace(plan, n_steps=5000, clock=clock)
    paths = [
        blocks(watched(table)[0], plan, 3, 1)
        for table in (directions, directions * (1 + 1e-12), directions[::-1])
    ]
    for states, records in paths[1:]:
        np.testing.assert_array_equal(states, paths[0][0])
        np.testing.assert_array_equal(records, paths[0][1])
    records = paths[0][1]
    assert records[-1, core._OVER] == 1
    scales = records[:, core._SCALE]
    assert np.unique(scales).size > 20 and 0.25 <= scales.min() < scales.max() <= 4.0
    # After burn-in nothing is adapted any more.
    after = records[:, core._SPENT] >= clock.burnt
    assert np.unique(scales[after]).size == 1 and after.sum() > 100


@pytest.fixture
def adapted(make_target):
    """Return a function that gives a plan, and the public record of some chains that follow it."""

    def chains(n, d, epsilon, repeats):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, d))
        y = (rng.random(n) < expit(X[:, 0])).astype(int)
        target, bounds = make_target(X, y, norm=2.0, prior_scale=1.0)
        options = SamplerOptions(adapt_step_size=True)
        plan = plan_metropolis(bounds, n, Budget(epsilon, 1e-6), options)
        return plan, [carry_out(target, plan, seed, 0).other for seed in range(repeats)]

    return chains


@pytest.mark.parametrize("n", [100, 1000])
def test_short_adapted_chains_make_about_as_many_steps_as_planned(adapted, n):
    """Few bits say little on how long steps should be, and their number falls with the square of that."""
    plan, released = adapted(n, 3, 1.0, 30)
    assert 60 < plan.expected_steps < 200
    steps = np.array([other["n_iter"] for other in released])
    assert (np.abs(np.log(steps / plan.expected_steps)) < np.log(2.2)).all()
    assert np.median(steps) == pytest.approx(plan.expected_steps, rel=0.2)


def test_long_adapted_chains_accept_as_often_as_wanted(adapted):
    """Steps grow until they do: this posterior is wider than a typical one of its bounds."""
    plan, released = adapted(20_000, 2, 2.0, 5)
    shares = [other["acceptance_rate"] for other in released]
    assert np.mean(shares) == pytest.approx(plan.clock.wanted_acceptance, abs=0.02)
    # Longer ones cost more each, and are fewer.
    assert np.mean([other["n_iter"] for other in released]) < 0.5 * plan.expected_steps


# Draws


def test_the_same_seed_gives_the_same_draws(make_target, small_table):
    X, y = small_table
    target, bounds = make_target(X, y)
    for sampler in SAMPLERS:
        options = SamplerOptions(n_draws=37)
        plan = plan_metropolis(bounds, 40, Budget(1.0, 1e-5), options, sampler=sampler)
        draws = sample(target, plan, random_state=1)
        assert draws.shape == (37, 2)
        np.testing.assert_array_equal(draws, sample(target, plan, random_state=1))
        assert not np.array_equal(draws, sample(target, plan, random_state=2))
        assert not np.array_equal(sample(target, plan), sample(target, plan))


def test_blocks_of_any_length_give_the_same_chain():
    target, bounds = watched(np.eye(2))
    plan = kernel_plan(bounds, 2, "dp_mh", 60, 20, step_size=0.3, temperature=1.0)
    states, records = blocks(target, plan, 0, 1)
    for block in (7, 60):
        others, other_records = blocks(target, plan, 0, block)
        np.testing.assert_array_equal(others[-1], states[-1])
        np.testing.assert_array_equal(other_records[-1], records[-1])


def test_draws_are_evenly_spaced_after_burn_in():
    target, bounds = watched(np.eye(2))
    options = SamplerOptions(n_steps=1000, n_draws=90, burn_in=0.1, step_size=0.3)
    plan = plan_metropolis(bounds, 2, Budget(np.inf, 1e-6), options, sampler="dp_mh")
    assert plan.n_burn_in == 100
    states, _ = blocks(target, plan, 4, 1)
    np.testing.assert_array_equal(sample(target, plan, random_state=4), states[109::10])


def test_one_core_and_two_give_the_same_draws(make_target):
    import numba

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 20))
    target, bounds = make_target(X, rng.integers(2, size=20_000), norm=4.0)
    options = SamplerOptions(n_steps=60, n_draws=60, burn_in=0.0, temperature=500.0)
    plan = plan_metropolis(bounds, 20_000, Budget(1.0, 1e-5), options, sampler="dp_mh")
    threads = numba.get_num_threads()
    both = sample(target, plan, random_state=7)
    try:
        numba.set_num_threads(1)
        one = sample(target, plan, random_state=7)
    finally:
        numba.set_num_threads(threads)
    np.testing.assert_array_equal(both, one)
