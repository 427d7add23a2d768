"""Noise on sums in which records count a Poisson number of times, against quadrature and dp_accounting."""

import math
import time
from itertools import pairwise

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_mixture_gaussian_mechanism
from scipy.special import logsumexp, ndtr
from scipy.stats import poisson

from skdpbayes.privacy import PoissonGaussian, PrivacyCost, SampledGaussian
from skdpbayes.privacy.losses import _interval

RELATIONS = ("replace_one", "add_or_remove_one")
DELTA = 1e-6


def test_equal_numbers_of_different_mechanisms_are_kept_apart():
    """A cache that compared numbers only would give the second what it found for the first."""
    numbers = (10.0, 0.01, 20_000)
    sampled = PrivacyCost("replace_one", sampled=(SampledGaussian(*numbers),))
    counted = PrivacyCost("replace_one", counted=(PoissonGaussian(*numbers),))
    assert sampled.epsilon(DELTA) != counted.epsilon(DELTA)
    assert counted.epsilon(DELTA) == pytest.approx(sampled.epsilon(DELTA), rel=0.02)


def noisy_counts(y, noise, law):
    """Log density of Poisson many jumps under Gaussian noise; a law is a rate and a jump."""
    rate, jump = law
    times = np.arange(int(rate + 14 * math.sqrt(rate) + 40))
    distances = (y[:, None] - jump * times) / noise
    return logsumexp(poisson.logpmf(times, rate) - distances**2 / 2, axis=1) - math.log(noise)


def probability_below(cut, noise, law):
    rate, jump = law
    times = np.arange(int(rate + 14 * math.sqrt(rate) + 40))
    return ndtr((cut - jump * times) / noise) @ poisson.pmf(times, rate)


def noisy_counts_delta(noise, first, second, epsilon):
    """Hockey-stick divergence of two such laws: from the places where their ratio crosses exp(epsilon)."""
    reach = 9 * noise + max(abs(jump) * (3 * rate + 12) for rate, jump in (first, second))
    y = np.linspace(-reach, reach, 1501)
    ratio = noisy_counts(y, noise, first) - noisy_counts(y, noise, second) - epsilon
    if np.abs(ratio).max() < 1e-9:  # A law against itself: there is nothing to cross.
        return 0.0
    before = np.flatnonzero((ratio[:-1] > 0) != (ratio[1:] > 0))
    cuts = y[before] - ratio[before] * (y[1] - y[0]) / (ratio[before + 1] - ratio[before])
    total = 0.0
    for left, right in pairwise([-math.inf, *cuts, math.inf]):
        p, q = (
            probability_below(right, noise, law) - probability_below(left, noise, law)
            for law in (first, second)
        )
        total += max(p - math.exp(epsilon) * q, 0.0)
    return total


ABSENT = (0.0, 0.0)


def worst_pairs(rate, jump=1.0):
    """The pair that is accounted for under either relation, in all its orders."""
    up, down = (rate, jump), (rate, -jump)
    return {"replace_one": [(up, down)], "add_or_remove_one": [(up, ABSENT), (ABSENT, up)]}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("noise, rate", [(0.8, 1.0), (4.0, 0.2), (5.0, 1.0)])
def test_a_poisson_number_of_shifts_against_quadrature(noise, rate, relation):
    cost = PrivacyCost(relation, counted=(PoissonGaussian(noise, rate, 1),))
    for epsilon in (0.0, 0.03, 0.2):
        exact = max(
            noisy_counts_delta(noise, *pair, epsilon) for pair in worst_pairs(rate)[relation]
        )
        assert exact <= cost.delta(epsilon) + 1e-8
        assert cost.delta(epsilon) == pytest.approx(exact, rel=0.01, abs=1e-6)


@pytest.mark.parametrize(
    "noise, rate, count", [(4.0, 0.2, 1), (25.0, 1.5, 400), (10.0, 0.01, 20_000)]
)
def test_counts_of_one_table_cost_what_dp_accounting_says(noise, rate, count):
    """It connects the same dots, with the half-lines of every one of them found by bisection."""
    part = PoissonGaussian(noise, rate, count)
    cost = PrivacyCost("add_or_remove_one", counted=(part,))
    times = np.arange(40)
    weights = poisson.pmf(times, rate)
    interval = _interval((part,), "add_or_remove_one")
    one = from_mixture_gaussian_mechanism(
        noise, times.astype(float), weights, value_discretization_interval=interval
    )
    exact = one.self_compose(count).get_epsilon_for_delta(DELTA)
    assert exact * (1 - 1e-6) <= cost.epsilon(DELTA) <= exact * (1 + 1e-5)


@pytest.mark.parametrize("relation", RELATIONS)
def test_little_noise_on_counts_is_accounted_for_quickly(relation):
    cost = PrivacyCost(relation, counted=(PoissonGaussian(1.0, 4.0, 1),))
    start = time.process_time()
    assert cost.epsilon(DELTA) > 100
    assert time.process_time() - start < 10


@pytest.mark.daily(1)
@pytest.mark.parametrize("noise", [0.7, 3.0])
@pytest.mark.parametrize(
    "bound, ratio",
    [
        pytest.param(0.02, 0.05, marks=pytest.mark.nightly),
        (0.1, 1.4),
        pytest.param(1.0, 0.5, marks=pytest.mark.nightly),
        (1.0, 1.4),
    ],
)
def test_no_two_records_differ_more_than_the_pair_that_is_accounted_for(bound, ratio, noise):
    """What a record adds to the log ratio of a batch, under noise, against any other record or none."""
    shape = bound * (1 + 2 / ratio)
    laws = [
        (bound / ratio + (bound - u) / 2, math.log((shape + u) / (shape - u)))
        for u in np.linspace(-bound, bound, 5)
    ]
    worst = worst_pairs(bound * (1 + 1 / ratio), math.log1p(ratio))
    for epsilon in (0.0, 0.1, 0.5):
        replaced, added = (
            max(noisy_counts_delta(noise, *pair, epsilon) for pair in worst[relation])
            for relation in RELATIONS
        )
        for law in laws:
            for other in laws:
                assert noisy_counts_delta(noise, law, other, epsilon) <= replaced + 1e-7
            assert noisy_counts_delta(noise, law, ABSENT, epsilon) <= added + 1e-7
            assert noisy_counts_delta(noise, ABSENT, law, epsilon) <= added + 1e-7


@pytest.mark.parametrize("relation", RELATIONS)
def test_records_that_rarely_count_twice_are_as_if_they_were_sampled(relation):
    counted = PrivacyCost(relation, counted=(PoissonGaussian(4.0, 1e-3, 50_000),))
    sampled = PrivacyCost(relation, sampled=(SampledGaussian(4.0, 1e-3, 50_000),))
    assert counted.epsilon(DELTA) == pytest.approx(sampled.epsilon(DELTA), rel=0.01)
    with pytest.raises(NotImplementedError, match="no event"):
        counted.dp_event()
    assert counted.epsilon(0.0) == math.inf


@pytest.mark.parametrize(
    ("noise", "rate", "least"), [(0.9, 1.0, 0.32), (1.0, 4.0, 0.95), (0.1, 2.0, 0.8)]
)
def test_huge_losses_are_not_taken_for_none(noise, rate, least):
    cost = PrivacyCost("replace_one", counted=(PoissonGaussian(noise, rate, 1),))
    assert cost.delta(1.0 if noise == 0.9 else 0.0) > least
    assert cost.epsilon(1e-6) > 10
