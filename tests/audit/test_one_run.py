"""Guesses about many coins at once."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, norm

from skdpbayes.audit._one_run import bound_of_guesses, p_value, refutes_mu

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


def largest_probability(m, r, v, mu):
    """Return the largest P(V >= v) that tangents of the trade-off curve leave: a linear programme."""
    z = np.linspace(-6.0, 4.0, 400)
    x, y, slope = norm.cdf(z), norm.cdf(z + mu), norm.pdf(z + mu) / norm.pdf(z)
    i, rows, limits = np.arange(r + 1), [], []
    for c in range(1, r + 1):
        right = np.where(i >= c, i / m, 0.0)
        wrong = np.where(i >= c - 1, (r - i) / m, 0.0)
        rows += list(right - slope[:, None] * wrong)
        limits += list(y - slope * x)
    found = linprog(
        -(i >= v).astype(float), np.array(rows), limits, np.ones((1, r + 1)), [1.0], method="highs"
    )
    return -found.fun


@pytest.mark.parametrize("m, r, v, mu", [(10, 10, 9, 0.5), (20, 10, 10, 1.0), (20, 20, 16, 0.8)])
def test_the_recursion_of_mu_is_the_best_that_its_inequalities_allow(m, r, v, mu):
    most = largest_probability(m, r, v, mu)
    assert refutes_mu(m, r, v, mu, 1.001 * most) and not refutes_mu(m, r, v, mu, 0.995 * most)


def guesses(draw, claim, n_repetitions, seed=0):
    rng, found = np.random.default_rng(seed), []
    for _ in range(n_repetitions):
        inside = rng.random(M) < 0.5
        found.append(bound_of_guesses(draw(rng, inside), inside, claim, 1e-5, 0.05))
    return np.array(found)


def coins(rng, inside):
    return np.where(rng.random(M) < 1 / (1 + math.exp(-1.0)), inside, ~inside).astype(float)


def gaussian(rng, inside):
    return inside + rng.normal(size=M)


@pytest.mark.parametrize("draw, claim, least", [(coins, "epsilon", 0.6), (gaussian, "mu", 0.4)])
def test_bounds_are_below_the_truth_and_near_it(draw, claim, least):
    """In either case it is 1; a single run cannot find all of a mu."""
    found = guesses(draw, claim, 10)
    assert found.max() <= 1.0 and found.mean() > least


@pytest.mark.nightly
@pytest.mark.parametrize("draw, claim", [(coins, "epsilon"), (gaussian, "mu")])
def test_a_thousand_bounds_are_below_the_truth(draw, claim):
    found = guesses(draw, claim, 1000, seed=1)
    assert (found > 1.0).sum() <= binom.ppf(0.999, found.size, 0.05)


def test_guesses_that_are_no_better_than_coins_say_nothing():
    inside = np.arange(100) % 2 == 0
    assert bound_of_guesses(np.arange(100.0), inside, "epsilon", 0.0, 0.05) == 0.0
    assert bound_of_guesses(np.arange(100.0), inside, "mu", 1e-5, 0.05) == 0.0
