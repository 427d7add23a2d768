"""Discrete random numbers have the probabilities that they are said to have, to the last digit."""

import math
import types
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from scipy.stats import chisquare, poisson

from skdpbayes.random import private_generator
from skdpbayes.samplers.metropolis import chain

RATES = (0.01, 0.9, 1.0, 4.5, 30.0, 3000.0, 1e5)


class Script:
    """Uniforms that were written down beforehand."""

    def __init__(self, uniforms):
        self.uniforms = iter(uniforms)

    def random(self):
        return next(self.uniforms)


# Events


@given(
    probability=st.floats(2.0**-140, 1.0),
    digits=st.lists(st.integers(-1, 1), min_size=4, max_size=4),
)
@settings(deadline=None)
def test_an_event_happens_if_a_uniform_is_below_its_probability(probability, digits):
    """As many digits as it takes: here they are those of the probability itself, or next to them."""
    uniforms, left, value = [], Fraction(probability), Fraction(0)
    for place, off in enumerate(digits, start=1):
        whole = min(max(math.floor(left * 2**53) + off, 0), 2**53 - 1)
        left = left * 2**53 - math.floor(left * 2**53)
        uniforms.append(whole / 2**53)
        value += Fraction(whole, 2 ** (53 * place))
    # Whatever follows, it decides nothing.
    happened = chain.exact_bernoulli(Script([*uniforms, 0.0]), probability)
    assert happened == (value < Fraction(probability))


@njit
def count_events(generator, probability, repeats):
    count = 0
    for _ in range(repeats):
        count += chain.exact_bernoulli(generator, probability)
    return count


@pytest.mark.parametrize("probability", [0.0, 0.001, 0.3, 1.0])
def test_events_happen_as_often_as_they_should(probability):
    count = count_events(private_generator(1), probability, 1_000_000)
    error = math.sqrt(probability * (1 - probability) * 1e6)
    assert abs(count - 1e6 * probability) <= 6 * error


# Choices


def choice(k, n):
    """Return the number that a uniform of 32 digits stands for; None if it is drawn again."""
    try:
        number, digits = chain.choose(Script([(k * 2**21 + 12345) / 2**53]), n)
    except StopIteration:
        return None
    assert digits == 12345
    return number


@pytest.mark.parametrize("n", [1, 3, 1000, 2**20, 2**31 - 1])
def test_every_number_is_chosen_by_as_many_uniforms(n):
    for number in {0, 1 % n, n // 3, n // 2, n - 1}:
        first, end = (-(-i * 2**32 // n) for i in (number, number + 1))
        # Of a number's uniforms only the first may be drawn again.
        assert {choice(k, n) for k in (first + 1, end - 1)} == {number}
        assert choice(first, n) in (number, None)
        assert end - first - (choice(first, n) is None) == 2**32 // n


# Poisson numbers


@njit
def draw(generator, rate, size):
    numbers = np.empty(size, np.int64)
    for i in range(size):
        numbers[i] = chain.poisson(generator, rate)
    return numbers


@pytest.mark.parametrize("rate", RATES)
def test_poisson_numbers_are_distributed_as_scipy_says(rate):
    size = 400_000
    numbers = draw(private_generator(3), rate, size)
    edges = np.unique(poisson.ppf(np.linspace(0, 1, 102)[1:-1], rate))
    tails = poisson.ppf([1e-4, 1 - 1e-4], rate)
    edges = np.unique(np.concatenate([edges, tails]))
    expected = np.diff(poisson.cdf(edges, rate), prepend=0.0, append=1.0) * size
    observed = np.bincount(np.searchsorted(edges, numbers), minlength=edges.size + 1)
    large = expected > 10
    observed = np.append(observed[large], observed[~large].sum())
    expected = np.append(expected[large], expected[~large].sum() + 1e-9)
    expected *= size / expected.sum()
    assert chisquare(observed, expected).pvalue > 1e-4


def law(rate, reach):
    """Return the law of the numbers up to ``reach`` from the rate, exactly, but for a common factor.

    Every choice that can lead to them is tried, and its weight, a double, is intercepted.
    """
    taken = []

    def happens(generator, probability):
        taken.append(probability)
        return True

    names = {**chain.poisson.__globals__, "exact_bernoulli": happens}
    once = types.FunctionType(chain.poisson.__code__, names)
    length = math.floor(0.6 * math.sqrt(rate) + 1.5) if rate >= 1 else 1
    places = 8
    while places < 6 * length:
        places *= 2
    masses = defaultdict(Fraction)
    for place in range(6 * length):
        late = place % (3 * length) >= 2 * length
        for j in range(1 + (reach // length + 1) * late):
            # Heads as often as blocks are passed, then tails.
            coins = [0.25] * j + [0.75] if late else []
            number = once(Script([(place + 0.5) / places, *coins]), rate)
            masses[number] += Fraction(taken[-1]) / 2 ** len(coins)
    assert max(taken) <= 1.0
    return masses


@pytest.mark.parametrize("rate", [0.0, 1e-300, 0.3, 1.0, 2.5, 8.0, 30.7, 1000.0])
def test_ratios_of_poisson_probabilities_are_exact_but_for_rounding(rate):
    """Out to where less than 2^-122 is left."""
    reach = math.floor(14 * math.sqrt(rate)) + 67
    masses = law(rate, reach)
    mode = math.floor(rate)
    numbers = range(max(0, mode - reach), mode + reach)
    for k in numbers:
        if masses[k] > 2.0**-900:  # Doubles end somewhere.
            ratio = masses[k + 1] / masses[k] * (k + 1)
            assert abs(ratio - Fraction(rate)) <= Fraction(rate) / 2**51
    whole = sum(masses.values())
    shares = np.array([float(masses[k] / whole) for k in numbers])
    np.testing.assert_allclose(shares, poisson.pmf(numbers, rate), rtol=1e-11, atol=1e-280)


@pytest.mark.parametrize("rate", [1e-6, 0.3, 1.0, 7.0, 50.0, 1e3, 1e5, 1e8])
def test_few_numbers_are_far_from_the_rate(rate):
    reach = 14 * math.sqrt(rate) + 66
    left = poisson.logsf(rate + reach, rate), poisson.logcdf(rate - reach, rate)
    assert max(left) < -122 * math.log(2)
