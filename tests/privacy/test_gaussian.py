"""Gaussian differential privacy: closed forms, and conversions there and back."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from skdpbayes.privacy import PrivacyCost
from skdpbayes.privacy.conversions import SMALLEST_MU, gaussian_delta, gaussian_epsilon, gaussian_mu


@pytest.mark.parametrize("mu", [0.01, 0.25, 1.0, 5.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 8.0])
def test_gaussian_delta_is_the_hockey_stick_of_two_normals(mu, epsilon):
    x = np.linspace(-12, 12 + mu, 400_001)
    difference = stats.norm.pdf(x, mu) - np.exp(epsilon) * stats.norm.pdf(x)
    exact = np.trapezoid(np.maximum(difference, 0.0), x)
    assert gaussian_delta(mu, epsilon) == pytest.approx(exact, rel=1e-5, abs=1e-12)


def test_gaussian_epsilon_of_a_known_case():
    # Noise multiplier 4 at sensitivity 2, delta 1e-5.
    assert gaussian_epsilon(0.5, 1e-5) == pytest.approx(1.993, abs=1e-3)


@given(
    epsilon=st.floats(1e-3, 50.0),
    log_delta=st.floats(math.log(1e-12), math.log(0.1)),
)
@settings(max_examples=60, deadline=None)
def test_conversions_invert_each_other_and_never_exceed(epsilon, log_delta):
    delta = math.exp(log_delta)
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_epsilon(mu, delta) <= epsilon
    assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-6)


@given(
    mu=st.floats(0.01, 8.0),
    factor=st.floats(1.01, 3.0),
    epsilon=st.floats(0.0, 10.0),
    delta=st.floats(1e-9, 0.1),
)
@settings(max_examples=60, deadline=None)
def test_gaussian_costs_are_monotone(mu, factor, epsilon, delta):
    small, large = PrivacyCost("replace_one", mu), PrivacyCost("replace_one", mu * factor)
    assert small.epsilon(delta) <= large.epsilon(delta)
    assert small.delta(epsilon) <= large.delta(epsilon)
    assert small.epsilon(delta * factor) <= small.epsilon(delta)
    assert small.delta(epsilon * factor) <= small.delta(epsilon) * (1 + 1e-12)


def test_gaussians_too_weak_to_be_computed_cost_what_the_weakest_does():
    """Of a delta of about ``mu / 3`` rounding would leave a few digits, and then none."""
    for mu in (1e-8, 1e-12, 1e-300):
        assert gaussian_epsilon(mu, 1e-15) == gaussian_epsilon(SMALLEST_MU, 1e-15) > 0
        assert gaussian_delta(mu, 1e-9) == gaussian_delta(SMALLEST_MU, 1e-9) > 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="epsilon=1e-12 at delta=1e-15"):
            gaussian_mu(1e-12, 1e-15)
        for epsilon, delta in ((1e-5, 1e-15), (1e-12, 1e-6), (1e6, 1e-300)):
            assert gaussian_epsilon(gaussian_mu(epsilon, delta), delta) <= epsilon


def test_budgets_that_protect_nobody_take_no_time():
    assert gaussian_mu(1e15, 1e-6) == gaussian_mu(1e9, 1e-6) < gaussian_mu(np.inf, 1e-6)
    assert gaussian_epsilon(gaussian_mu(1e15, 1e-6), 1e-6) <= 1e9


@pytest.mark.parametrize("less", [1e-13, 6.5e-13, 1e-12, 1e-11, 1e-9])
def test_what_costs_a_little_less_than_a_budget_keeps_to_it(less):
    # Errors of roots are absolute: where an epsilon is tiny they are more than a share of it.
    for epsilon in np.geomspace(1e-9, 1.0, 40):
        mu = gaussian_mu(epsilon, 1e-5)
        assert gaussian_epsilon(mu * (1.0 - less), 1e-5) <= epsilon
