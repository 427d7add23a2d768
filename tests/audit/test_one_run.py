"""Guesses about many coins at once."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq, linprog
from scipy.stats import binom, norm

from skdpbayes.audit._bounds import (
    WEIGHTS,
    halves_of,
    largest_probability,
    mu_of_scores,
    mu_of_weight,
)
from skdpbayes.audit._fit import epsilon_of_scores, p_value
from skdpbayes.privacy.conversions import gaussian_delta, gaussian_epsilon

M = 1000


def test_p_value_of_pure_claims_is_binomial_and_that_of_the_paper():
    assert p_value(100, 100, 75, math.log(3.0), 0.0) == pytest.approx(0.5535, abs=1e-4)
    exact = binom.sf(39, 50, 1 / (1 + math.exp(-1.0)))
    assert p_value(100, 50, 40, 1.0, 0.0) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("n_right", [50, 60, 80, 100])
def test_p_value_holds_for_what_tells_all_with_probability_delta(n_right):
    """It is (0, delta)-private, and the guesses are right then."""
    delta = 0.002
    true = delta + (1.0 - delta) * binom.sf(n_right - 1, 100, 0.5)
    assert p_value(100, 100, n_right, 0.0, delta) >= true


def sure_at_once(m, sizes, weight, mu):
    """Return P(W >= weight) of a mechanism that is mu-GDP, and as sure of all guesses as of one.

    It draws one privacy loss, of the largest that Gaussian noise has, for all coins that it guesses.
    """
    share = sum(sizes) / m
    least = brentq(lambda z: norm.sf(z - mu / 2) + norm.sf(z + mu / 2) - share, 0.0, 12.0)
    z = np.linspace(least, least + 8.0, 4001)
    right = 1.0 / (1.0 + np.exp(-mu * z))
    sure = np.arange(sizes[0] + 1)[:, None]
    tail = binom.pmf(sure, sizes[0], right) * binom.sf(weight - 2 * sure - 1, sizes[1], right)
    density = (norm.pdf(z - mu / 2) + norm.pdf(z + mu / 2)) / share
    return np.trapezoid(tail.sum(axis=0) * density, z)


@pytest.mark.daily(3)
@pytest.mark.parametrize("m, sizes", [(20, (8, 12)), (100, (18, 32)), (400, (40, 60))])
@pytest.mark.parametrize("mu", [0.3, 0.7, 1.2])
def test_the_bound_of_mu_allows_what_is_private_and_little_more(m, sizes, mu):
    everything = range(sizes[0] + sizes[1], 2 * sizes[0] + sizes[1] + 1)
    true = {weight: sure_at_once(m, sizes, weight, mu) for weight in everything}
    matter = [weight for weight in true if 0.005 < true[weight] < 0.3][:: max(1, m // 100)]
    assert len(matter) > 1
    for weight in matter:
        bound = largest_probability(m, sizes, weight, mu)
        assert true[weight] - 1e-5 <= bound <= 3.5 * true[weight]


def most_likely(m, sizes, weight, mu, deviations):
    """Return the largest P(W >= weight) of all mechanisms, by how many guesses of either rank are right.

    Coins can be turned and exchanged, so a mechanism may do that itself, at random, and no more is in it.
    """
    right = np.array([(a, b) for a in range(sizes[0] + 1) for b in range(sizes[1] + 1)])
    n, columns, rows = len(right), sizes[1] + 1, []
    steps = (columns, 1)
    for i, one in enumerate(right):
        for k in range(2):
            here, below, above = np.zeros((3, n))
            here[i] = 1.0
            if one[k] > 0:
                below[i - steps[k]] = sizes[k] - one[k] + 1.0
                rows.append((one[k] * here, below))
            if one[k] < sizes[k]:
                above[i + steps[k]] = one[k] + 1.0
                rows.append(((sizes[k] - one[k]) * here, above))
    held, turned = (np.array(part) for part in zip(*rows, strict=True))
    epsilons = mu * (0.5 * mu + np.asarray(deviations))
    own = len(rows)
    parts, sums, limits = np.eye(own * epsilons.size), [], []
    for e, epsilon in enumerate(epsilons):
        sums.append(np.r_[np.zeros(n), np.repeat(np.arange(epsilons.size) == e, own)])
        limits.append(m * gaussian_delta(mu, epsilon))
    moved = np.vstack([held - math.exp(epsilon) * turned for epsilon in epsilons])
    at_most = np.vstack([np.hstack([moved, -parts]), sums])
    goal = np.r_[-1.0 * (right @ WEIGHTS >= weight), np.zeros(len(parts))]
    limits = np.r_[np.zeros(len(parts)), limits]
    all_of_p = np.r_[np.ones(n), np.zeros(len(parts))][None]
    found = linprog(goal, at_most, limits, all_of_p, [1.0], method="highs-ds")
    return -found.fun


@pytest.mark.parametrize("m", [4, 6, 8])
@pytest.mark.parametrize("mu", [0.1, 0.7, 3.0])
def test_no_mechanism_on_few_coins_is_right_more_often(m, mu):
    """A solver alone said 0.1% too little of eight coins at mu = 3."""
    sizes = tuple(2 * half for half in halves_of(m))
    for weight in range(sizes[0] + sizes[1] - 1, 2 * sizes[0] + sizes[1] + 1):
        bound = largest_probability(m, sizes, weight, mu)
        true = most_likely(m, sizes, weight, mu, (0.8, 1.4, 2.0, 2.6, 3.2, -0.5, 0.0))
        assert true - 1e-6 <= bound <= 2.0 * true
        assert bound >= most_likely(m, sizes, weight, mu, np.linspace(0.8, 3.2, 9)) - 1e-6


def test_a_bound_of_mu_is_where_chance_is_as_small_as_the_error():
    m, sizes, weight = 100, (18, 32), 56
    found = mu_of_weight(m, sizes, weight, 0.05)
    assert 0.3 < found < 1.0
    assert largest_probability(m, sizes, weight, found) < 0.05
    assert largest_probability(m, sizes, weight, found + 0.01) > 0.05


def guesses(draw, bound, n_repetitions, m=M, seed=0):
    rng, found = np.random.default_rng(seed), []
    for _ in range(n_repetitions):
        inside = rng.random(m) < 0.5
        found.append(bound(draw(rng, inside), inside))
    return np.array(found)


def coins(rng, inside):
    truth = rng.random(inside.size) < 1 / (1 + math.exp(-1.0))
    return np.where(truth, inside, ~inside).astype(float)


def gaussian(rng, inside):
    return inside + rng.normal(size=inside.size)


def by_epsilon(scores, inside):
    return epsilon_of_scores(scores, inside, 1e-5, 0.05)


def by_mu(scores, inside):
    return mu_of_scores(scores, inside, 0.05)


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    "draw, bound, m, least", [(coins, by_epsilon, M, 0.6), (gaussian, by_mu, 200, 0.4)]
)
def test_bounds_are_below_the_truth_and_near_it(draw, bound, m, least):
    """In either case it is 1; a single run cannot find all of a mu."""
    found = guesses(draw, bound, 10, m)
    assert found.max() <= 1.0 and found.mean() > least


@pytest.mark.nightly
@pytest.mark.parametrize("draw, bound", [(coins, by_epsilon), (gaussian, by_mu)])
def test_a_thousand_bounds_are_below_the_truth_and_find_most_of_epsilon(draw, bound):
    found = guesses(draw, bound, 1000, seed=1)
    assert (found > 1.0).sum() <= binom.ppf(0.999, found.size, 0.05)
    if bound is by_mu:
        found = np.array([gaussian_epsilon(mu, 1e-5) for mu in found]) / gaussian_epsilon(1.0, 1e-5)
    assert found.mean() > 0.6


def test_guesses_that_are_no_better_than_coins_say_nothing():
    inside = np.arange(100) % 2 == 0
    assert epsilon_of_scores(np.arange(100.0), inside, 0.0, 0.05) == 0.0
    assert by_mu(np.arange(100.0), inside) == 0.0


@pytest.mark.parametrize("m", range(1, 9))
def test_few_coins_say_little_and_are_no_error(m):
    inside = np.arange(m) % 2 == 0
    assert by_mu(inside.astype(float), inside) < 1.0
