"""The hidden-state accountant, against the exact law of quadratic chains, closed forms and a solver."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from skdpbayes.privacy import (
    hidden_state_mu,
    hidden_state_mu_constant,
    hidden_state_mu_cyclic,
)


def exact_mu(contraction, shifts, noise):
    """Separation of the two last states of ``theta <- c theta + shift + noise``: a Gaussian's."""
    distance, variance = 0.0, 0.0
    for c, s, sigma in zip(contraction, shifts, noise, strict=True):
        distance = c * distance + s
        variance = c**2 * variance + sigma**2
    return distance / math.sqrt(variance)


def composition(shifts, noise):
    return math.sqrt(np.sum((np.asarray(shifts) / noise) ** 2))


def solve(contraction, shifts, noise, start=0.0):
    """The convex program as it is stated, by a general solver, over the states ``z_k``."""
    n = len(contraction)

    def cost(z):
        z = np.concatenate([[start], z, [0.0]])
        a = contraction * z[:-1] + shifts - z[1:]
        gradient_of_a = 2 * a / noise**2
        return np.sum(a**2 / noise**2), contraction[1:] * gradient_of_a[1:] - gradient_of_a[:-1]

    def reached(z):
        z = np.concatenate([[start], z, [0.0]])
        return contraction * z[:-1] + shifts - z[1:]

    if n == 1:
        return (contraction[0] * start + shifts[0]) ** 2 / noise[0] ** 2
    feasible = [start]
    for c, s in zip(contraction[:-1], shifts[:-1], strict=True):
        feasible.append(0.5 * (c * feasible[-1] + s))
    result = optimize.minimize(
        cost,
        feasible[1:],
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * (n - 1),
        constraints={"type": "ineq", "fun": reached},
        options={"maxiter": 1000, "ftol": 1e-15},
    )
    return result.fun


def random_schedule(rng, n):
    shifts = rng.exponential(size=n) * (rng.random(n) < 0.7)
    return rng.uniform(0.2, 1.0, n), shifts, rng.uniform(0.3, 2.0, n)


@pytest.mark.parametrize("seed", range(20))
def test_it_solves_the_stated_program(seed):
    rng = np.random.default_rng(seed)
    schedule = random_schedule(rng, int(rng.integers(1, 9)))
    assert hidden_state_mu(*schedule) ** 2 == pytest.approx(solve(*schedule), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("diameter", [0.2, 1.0, 5.0])
def test_chains_that_stay_in_a_set_may_start_late(seed, diameter):
    rng = np.random.default_rng(seed)
    contraction, shifts, noise = random_schedule(rng, 6)
    late = [
        solve(contraction[k:], shifts[k:], noise[k:], start=diameter if k else 0.0)
        for k in range(6)
    ]
    # Or nothing was forgotten: the chains start a diameter apart before the first step, too.
    late.append(solve(contraction, shifts, noise, start=diameter))
    found = hidden_state_mu(contraction, shifts, noise, diameter=diameter)
    assert found**2 == pytest.approx(min(late), rel=1e-5, abs=1e-9)
    assert found <= hidden_state_mu(contraction, shifts, noise) + 1e-12


def test_a_large_ball_changes_nothing_and_a_small_one_forgets():
    eta = np.full(500, 0.01)
    schedule = (1 - 0.1 * eta, eta, np.sqrt(2 * eta))
    free = hidden_state_mu(*schedule)
    assert hidden_state_mu(*schedule, diameter=1e6) == pytest.approx(free, rel=1e-12)
    costs = [hidden_state_mu(*schedule, diameter=d) for d in (0.01, 0.1, 1.0, 10.0)]
    assert costs == sorted(costs) and costs[0] < 0.2 * free
    # Never less than the last step alone.
    assert costs[0] >= 0.01 / math.sqrt(0.02)


@pytest.mark.parametrize("contraction", [0.0, 1e-9, 0.3, 0.9, 1 - 1e-6, 1 - 1e-12, 1.0])
@pytest.mark.parametrize("n_steps", [1, 2, 17, 1000])
def test_equal_steps_have_a_closed_form_that_quadratics_attain(contraction, n_steps):
    schedule = [np.full(n_steps, value) for value in (contraction, 0.3, 0.7)]
    closed = hidden_state_mu_constant(contraction, 0.3, 0.7, n_steps)
    assert hidden_state_mu(*schedule) == pytest.approx(closed, rel=1e-9)
    assert exact_mu(*schedule) == pytest.approx(closed, rel=1e-9)
    c, T = contraction, n_steps
    if 1e-9 < c < 1 - 1e-9:
        formula = (0.3 / 0.7) * math.sqrt((1 - c**T) / (1 + c**T) * (1 + c) / (1 - c))
        assert closed == pytest.approx(formula, rel=1e-9)


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_between_what_quadratics_attain_and_composition(seed):
    rng = np.random.default_rng(seed)
    schedule = random_schedule(rng, int(rng.integers(1, 40)))
    mu = hidden_state_mu(*schedule)
    assert exact_mu(*schedule) <= mu * (1 + 1e-9)
    assert mu <= composition(*schedule[1:]) * (1 + 1e-9)


def test_decreasing_steps_on_quadratics_are_exact_while_all_is_pooled():
    steps = 0.2 * np.arange(1, 200) ** -0.3
    schedule = (1 - steps, 0.1 * steps, np.sqrt(2 * steps))
    assert hidden_state_mu(*schedule) == pytest.approx(exact_mu(*schedule), rel=1e-9)


def test_the_cost_grows_with_the_number_of_steps_up_to_its_limit():
    eta, m, s, tau = 0.05, 0.4, 0.3, 2.0
    c, sigma = 1 - eta * m, math.sqrt(2 * eta * tau)
    costs = [hidden_state_mu_constant(c, eta * s, sigma, T) for T in range(1, 2000)]
    assert (np.diff(costs) >= 0).all()
    assert costs[-1] <= s / math.sqrt(tau * m)
    assert costs[-1] == pytest.approx(s / math.sqrt(tau * m) * math.sqrt(1 - eta * m / 2), rel=1e-9)


@pytest.mark.parametrize("n_batches", [1, 2, 5, 7])
@pytest.mark.parametrize("decay", [0.0, 0.4])
def test_cyclic_batches_for_every_position_of_the_record(n_batches, decay):
    n_steps = 60
    steps = 0.1 * np.arange(1, n_steps + 1) ** -decay
    contraction, shifts, noise = 1 - steps, n_batches * 0.2 * steps, np.sqrt(2 * steps)
    found = hidden_state_mu_cyclic(contraction, shifts, noise, n_batches)
    assert found.shape == (n_batches,)
    for j in range(n_batches):
        mine = np.where(np.arange(n_steps) % n_batches == j, shifts, 0.0)
        assert exact_mu(contraction, mine, noise) <= found[j] * (1 + 1e-9)
        assert found[j] <= composition(mine, noise) * (1 + 1e-9)
        assert found[j] == pytest.approx(hidden_state_mu(contraction, mine, noise), rel=1e-12)
    if decay == 0:
        assert found.argmax() == (n_steps - 1) % n_batches


def test_batches_can_make_the_whole_difference():
    """A record in the last batch is covered by that step's noise alone, and the bound knows it."""
    steps = np.full(100, 0.5)
    found = hidden_state_mu_cyclic(1 - steps, steps, np.sqrt(2 * steps), 10)
    last = 0.5 / math.sqrt(2 * 0.5)
    assert found[-1] >= last
    assert found[0] < 0.1 * found[-1]


def test_long_schedules_neither_underflow_nor_take_long():
    steps = np.full(100_000, 0.5)
    found = hidden_state_mu(1 - steps, steps, np.sqrt(2 * steps))
    assert found == pytest.approx(hidden_state_mu_constant(0.5, 0.5, 1.0, 100_000), rel=1e-12)
    # A record that took part only long ago is all but forgotten, and nothing is divided by zero.
    shifts = np.where(np.arange(100_000) < 10, 0.5, 0.0)
    assert hidden_state_mu(1 - steps, shifts, np.sqrt(2 * steps)) < 1e-100
    # A map that forgets everything leaves the steps after it.
    contraction = np.array([0.9, 0.0, 0.9])
    forgetful = hidden_state_mu(contraction, np.full(3, 0.2), np.ones(3))
    assert forgetful == pytest.approx(hidden_state_mu([0.9, 0.9], [0.2, 0.2], [1.0, 1.0]))


@pytest.mark.parametrize(
    "schedule, error, named",
    [
        (([1.1], [0.1], [1.0]), ValueError, "expands"),
        (([0.9, 1.2], [0.1, 0.1], [1.0, 1.0]), ValueError, "step 2 expands"),
        (([-0.1], [0.1], [1.0]), ValueError, "contraction"),
        (([0.9], [-0.1], [1.0]), ValueError, "sensitivity"),
        (([0.9], [math.nan], [1.0]), ValueError, "sensitivity"),
        (([0.9], [0.1], [0.0]), ValueError, "noise_scale"),
        (([0.9], [0.1], [math.inf]), ValueError, "noise_scale"),
        (([0.9, 0.9], [0.1], [1.0, 1.0]), ValueError, "one number for each step"),
        (([], [], []), ValueError, "shape"),
        (([[0.9]], [0.1], [1.0]), ValueError, "shape"),
        ((lambda theta: 0.9, [0.1], [1.0]), TypeError, "adapts"),
    ],
)
def test_what_has_no_guarantee_is_refused(schedule, error, named):
    with pytest.raises(error, match=named):
        hidden_state_mu(*schedule)


def test_bad_sets_and_batches_are_refused():
    with pytest.raises(ValueError, match="diameter"):
        hidden_state_mu([0.9], [0.1], [1.0], diameter=0.0)
    with pytest.raises(ValueError, match="n_batches"):
        hidden_state_mu_cyclic([0.9], [0.1], [1.0], 0)


def test_the_published_bound_is_twice_too_large_with_full_batches():
    """It states twice the mu^2 that holds, and 1.6 times as much where chains mix at half the speed."""
    eta, m, s, tau = 1e-4, 0.5, 0.3, 1.5
    for n_steps in (10, 10**4, 10**7):
        mu = hidden_state_mu_constant(1 - eta * m, eta * s, math.sqrt(2 * eta * tau), n_steps)
        stated = s**2 / (m * tau) * -math.expm1(-m * eta * n_steps / 2)
        assert stated > 1.6 * mu**2 / 2
        # At both ends; in between it mixes at half the speed.
        if n_steps != 10**4:
            assert stated == pytest.approx(mu**2, rel=2e-3)


def test_the_published_bound_fails_for_one_step_on_a_random_batch():
    """The exact Renyi divergence of a Poisson-subsampled step passes what is stated for it."""
    q, eta, m, s, tau, order = 0.01, 1e-4, 1.0, 2.0, 1.0, 64
    stated = order * s**2 / (m * tau) * -math.expm1(-m * eta / 2)
    noise = math.sqrt(2 * eta * tau)
    shift = eta * s / 2 / q  # By one record, either way: s is the difference of two.
    x = np.linspace(-order * shift - 12 * noise, order * shift + 12 * noise, 400_001)

    def log_density(centre):
        rest = -(x**2) / (2 * noise**2) + math.log1p(-q)
        mine = -((x - centre) ** 2) / (2 * noise**2) + math.log(q)
        return np.logaddexp(rest, mine) - math.log(noise * math.sqrt(2 * math.pi))

    exponent = order * log_density(shift) + (1 - order) * log_density(-shift)
    top = exponent.max()
    integral = np.trapezoid(np.exp(exponent - top), x)
    exact = (math.log(integral) + top) / (order - 1)
    assert exact > 10 * stated
