"""A step of a random walk: what its batch adds, how often it accepts, and how far it proposes to go."""

import itertools
import math
import types
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pytest
from compiling import called
from numba import njit
from references import planned
from scipy.special import expit, ndtr
from scipy.stats import poisson
from walks import propose_often, watched

import skdpbayes.samplers.metropolis.chain as core
from skdpbayes._compute.gradients import log_ratio_of_all, loss_oracle
from skdpbayes.models import example_loss, implements, n_examples, prior_potential
from skdpbayes.privacy import Budget
from skdpbayes.random import private_generator
from skdpbayes.samplers import DPFastMH, sample
from skdpbayes.samplers import plan as _resources

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
def decide_on_batches(oracle, generator, theta, proposal, temperature, bound, ratio, repeats):
    """Return every log ratio of a batch, and how often Barker's rule accepts with the prior's part."""
    ratios = np.empty(repeats)
    accepted = 0
    prior = prior_potential(oracle, theta) - prior_potential(oracle, proposal)
    for k in range(repeats):
        ratios[k] = core.log_ratio_of_batch(
            oracle, generator, theta, proposal, temperature, bound, ratio
        )
        accepted += core.is_accepted(generator, prior + ratios[k], True, 0.0)
    return ratios, accepted


def batch_decisions(target, *arguments):
    return decide_on_batches(loss_oracle(target, True), *arguments)


@pytest.mark.nightly
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


def thinned(u, bound, ratio, digits):
    """Thin a record that was drawn with these digits: whether it counts, or with what probability."""
    asked = []
    names = {
        **core.log_ratio_of_batch.__globals__,
        "n_examples": lambda target: 5,
        "poisson": lambda generator, rate: 1,
        "choose": lambda generator, n: (0, digits),
        "loss_differences": lambda target, theta, proposal, batch, size, out: out.fill(u),
        "exact_bernoulli": lambda generator, probability: bool(asked.append(probability)),
    }
    ratio_of = types.FunctionType(core.log_ratio_of_batch.__code__, names)
    total = ratio_of(None, None, None, None, 1.0, bound, ratio)
    return asked[0] if asked else float(total != 0.0)


@pytest.mark.parametrize("ratio", [0.01, 1.0, 2**0.5])
@pytest.mark.parametrize("share", [-1.0, -0.3, 1e-9, 0.7, 1.0])
def test_a_drawn_record_counts_with_exactly_its_probability(ratio, share):
    bound = 0.013
    u, shape = share * bound, bound * (1 + 2 / ratio)
    wanted = (shape - u) / (shape + bound)
    last = math.floor(wanted * 2**21)
    assert thinned(u, bound, ratio, last - 2) == 1.0
    assert last + 2 > 2**21 or thinned(u, bound, ratio, last + 2) == 0.0
    around = range(last - 1, min(last + 2, 2**21))
    counted = last - 1 + sum(thinned(u, bound, ratio, digits) for digits in around)
    assert counted / 2**21 == pytest.approx(wanted, abs=2**-50)


def test_a_batchs_ratio_is_rounded_by_less_than_is_allowed_for():
    """Of a single record, it is a whole number times the logarithm of a quotient."""
    bound, ratio = 900.0, 2**0.5
    for direction in (1.0, -0.4):
        target, _ = watched(np.array([[direction]]))
        ratios, _ = batch_decisions(
            target, private_generator(0), np.zeros(1), np.array([bound]), 1.0, bound, ratio, 200
        )
        shape, u = bound * (1 + 2 / ratio), direction * bound
        jump = Decimal((shape + u) / (shape - u)).ln()
        times = [round(Decimal(value) / jump) for value in ratios]
        assert min(times) > 500
        for value, count in zip(ratios, times, strict=True):
            assert abs(Decimal(value) - count * jump) < 2**-53 * (3.7 * count + 4)


class Countless(NamedTuple):
    """More records than batches are drawn of; none of them is looked at."""

    prior_precision: np.ndarray
    gradient_bound: float


@implements(n_examples, Countless)
def _countless(target):
    return 2**31


@implements(example_loss, Countless)
def _no_loss(target, theta, i):
    return 0.0


def test_batches_of_tables_that_records_cannot_be_numbered_in_are_refused(monkeypatch):
    monkeypatch.setattr(_resources, "memory_of_machine", lambda: 2**60)
    target, bounds = watched(np.zeros((3, 1)))
    sampler = DPFastMH(step_size=0.1)
    plan = planned(sampler, bounds, 3, Budget(np.inf, 1e-5), temperature=1.0, n_steps=9, n_draws=1)
    plan = plan.changed(batch_ratio=1.0)
    target = Countless(target.prior_precision, 1.0)
    with pytest.raises(ValueError, match="2\\^31 records: take sampler='dp_mh'"):
        sample(target, plan.changed(n_samples=2**31), random_state=0)


def whole_table(target, theta, proposal, temperature, bound, parts):
    oracle = loss_oracle(target, False)
    return called(log_ratio_of_all)(oracle, theta, proposal, temperature, bound, parts, 0)


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


@pytest.mark.parametrize("dimension", [2, 7])
def test_proposals_lie_on_a_sphere(dimension):
    moves, charged = propose_often(private_generator(0), dimension, 0.3, False, 100_000)
    np.testing.assert_allclose(np.linalg.norm(moves, axis=1), 0.3, rtol=1e-12)
    assert (charged == 0.3).all()
    covariance = moves.T @ moves / 100_000 * dimension / 0.09
    # A product of two coordinates of a unit vector has a deviation below 2 / d.
    np.testing.assert_allclose(covariance, np.eye(dimension), atol=6 * 2 / np.sqrt(100_000))


@pytest.mark.parametrize("dimension", [1, 7])
def test_gaussian_proposals_are_charged_for_their_own_distance(dimension):
    moves, charged = propose_often(private_generator(0), dimension, 0.3, True, 100_000)
    np.testing.assert_allclose(np.linalg.norm(moves, axis=1), charged, rtol=1e-9)
    error = 0.09 * np.sqrt(2 / dimension / 100_000)
    assert np.mean(charged**2) == pytest.approx(0.09, abs=6 * error)
