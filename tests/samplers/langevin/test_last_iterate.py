"""One posterior sample follows the posterior, whatever it is asked through, and hides its path."""

import types
from typing import NamedTuple

import numpy as np
import pytest
from references import Tilt, logistic_moments
from scipy.special import expit
from skdpbayes.samplers._gradients import cyclic_batches, next_batch

from skdpbayes.linear_model import DPBayesianLogisticRegression
from skdpbayes.privacy import Budget, SamplerOptions, plan_langevin, plan_last_state
from skdpbayes.privacy.floating_point import box_half_width, lattice_spacing
from skdpbayes.samplers import _gradients, _steps, langevin, sample
from skdpbayes.targets import (
    TargetBounds,
    add_gradient,
    example_gradient,
    implements,
    n_examples,
)

NOT_PRIVATE = Budget(np.inf, 1e-5)


class ClippedTilt(NamedTuple):
    directions: np.ndarray
    prior_precision: np.ndarray
    gradient_bound: float


@implements(n_examples, ClippedTilt)
def _count_clipped(target):
    return target.directions.shape[0]


@implements(example_gradient, ClippedTilt)
def _clipped_gradient(target, theta, i, out):
    for j in range(theta.size):
        out[j] = -target.directions[i, j]


class Bowl(NamedTuple):
    """ell = theta' A theta / 2, of one record, and a chain that starts where it is told to."""

    curvature: np.ndarray
    start: np.ndarray
    prior_precision: np.ndarray
    gradient_bound: float


@implements(n_examples, Bowl)
def _count_bowl(target):
    return 1


@implements(add_gradient, Bowl)
def _bowl_gradient(target, theta, selection, count, out):
    for i in range(theta.size):
        for j in range(theta.size):
            out[i] += target.curvature[i, j] * theta[j]


def tilt(n=40, precision=(1.0, 4.0), seed=0):
    directions = np.random.default_rng(seed).uniform(-0.5, 0.7, size=(n, 2))
    bounds = TargetBounds(2, 1.0, 1e-3, (min(precision), max(precision)), convex=True)
    return Tilt(directions, np.array(precision), 1.0), bounds


@pytest.mark.parametrize("epsilon, temperature", [(np.inf, 1.0), (np.inf, 3.0), (40.0, None)])
def test_draws_follow_the_posterior_in_two_dimensions(make_target, epsilon, temperature):
    rng = np.random.default_rng(3)
    n, n_draws = 80, 2000
    X = rng.normal(size=(n, 2))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = (rng.random(n) < expit(3 * X[:, 0] - X[:, 1])).astype(int)
    target, bounds = make_target(X, y, prior_scale=2.0)
    plan = plan_last_state(
        bounds,
        n,
        Budget(epsilon, 1e-5),
        SamplerOptions(n_draws=n_draws, temperature=temperature),
    )
    draws = sample(target, plan, random_state=1)
    assert (plan.temperature > 5) == (epsilon == 40.0)
    mean, covariance = logistic_moments(X, y, 2.0, plan.temperature)
    deviations = np.sqrt(np.diag(covariance))
    # Draws are independent but for exp(-relaxations), 5% at most.
    error = 4 * 1.05 / np.sqrt(n_draws)
    assert (np.abs(draws.mean(axis=0) - mean) < (error + 0.05) * deviations).all()
    scaled = (np.cov(draws.T) - covariance) / np.outer(deviations, deviations)
    assert (np.abs(scaled) < 1.5 * error + 0.05).all()
    neighbors = [np.corrcoef(column[:-1], column[1:])[0, 1] for column in draws.T]
    assert np.abs(neighbors).max() < 0.05 + 4 / np.sqrt(n_draws)


@pytest.mark.parametrize("batch_size", [None, 7])
def test_the_released_state_has_exactly_the_law_of_a_quadratic(batch_size):
    target, bounds = tilt()
    options = SamplerOptions(n_draws=4000, temperature=2.0, batch_size=batch_size)
    plan = plan_last_state(bounds, 40, NOT_PRIVATE, options)
    draws = sample(target, plan, random_state=0)
    # exp((sum z . theta) / tau - theta' P theta / 2)
    mean = target.directions.sum(axis=0) / (2.0 * target.prior_precision)
    deviation = target.prior_precision**-0.5
    error = 4.5 / np.sqrt(plan.n_draws)
    heat = plan.subsampling_temperature / plan.temperature
    assert heat < 0.06
    assert (np.abs(draws.mean(axis=0) - mean) < error * deviation).all()
    assert np.allclose(draws.std(axis=0), deviation, rtol=error + heat)


def test_one_mechanism_under_two_names(rng):
    X, y = rng.normal(size=(60, 3)), rng.integers(2, size=60)
    names = {"sampler": "ops"}, {"sampler": "sgld", "release": "last"}
    first, second = (
        DPBayesianLogisticRegression(random_state=3, **name).fit(X, y) for name in names
    )
    assert np.array_equal(first.posterior_samples_, second.posterior_samples_)
    assert first.posterior_samples_.shape == (1, 1, 4)
    assert first.plan_ == second.plan_


def test_every_draw_starts_where_the_one_before_was_released(make_target):
    """The first of many draws is the only one of a chain of one segment; the second depends on it."""
    target, bounds = tilt()
    options = SamplerOptions(n_draws=3, n_steps=300, temperature=5.0, step_size=0.01)
    draws = sample(target, plan_last_state(bounds, 40, NOT_PRIVATE, options), random_state=8)
    alone = options._replace(n_draws=1, n_steps=100)
    first = sample(target, plan_last_state(bounds, 40, NOT_PRIVATE, alone), random_state=8)
    assert np.array_equal(draws[:1], first)
    # A single step from a draw moves it by no more than a midpoint of one step's noise.
    short = options._replace(n_draws=2000, n_steps=2000)
    chain = sample(target, plan_last_state(bounds, 40, NOT_PRIVATE, short), random_state=8)
    steps = np.diff(chain, axis=0)
    # theta + (drift + noise) / 2, noise of variance 2 eta tau.
    assert np.allclose(steps.std(axis=0), np.sqrt(2 * 0.01 * 5.0) / 2, rtol=0.06)


def test_states_stay_on_the_lattice_and_in_the_box():
    """A target that pushes far out is stopped at the box, and restarts are on the lattice."""
    bounds = TargetBounds(2, 1.0, 1e-9, (1e-9, 1e-9), convex=True)
    target = Tilt(np.full((40, 2), 0.7), np.full(2, 1e-9), 1.0)
    options = SamplerOptions(n_steps=6000, step_size=1e7, n_draws=3)
    plan = plan_last_state(bounds, 40, NOT_PRIVATE, options)
    noise = np.sqrt(2 * plan.step_size * plan.temperature)
    draws = sample(target, plan, random_state=0)
    box, spacing = box_half_width(noise), lattice_spacing(noise)
    drift = plan.step_size * 40 * 0.7
    # The last state before a draw is at the box; the draw is the midpoint of it and the next.
    assert np.all(
        np.abs(draws - (box + drift / 2)) < 1.01 * 1e-9 * plan.step_size * box + 10 * noise
    )
    assert np.array_equal(draws / (spacing / 2), np.rint(draws / (spacing / 2)))


def bowl(start, direction=(0.9, 0.436), stiffness=4.0):
    """Stiff in one direction; the step is almost the longest that contracts."""
    curvature = stiffness * np.outer(direction, direction)
    bounds = TargetBounds(2, 1.0, stiffness, (0.01, 0.01), convex=True)
    options = SamplerOptions(
        n_steps=1, n_draws=1, temperature=1.0, step_size=1.999 / (stiffness + 0.02)
    )
    plan = plan_last_state(bounds, 1, NOT_PRIVATE, options)
    box = box_half_width(np.sqrt(2 * plan.step_size))
    return Bowl(curvature, np.array(start) * box, np.full(2, 0.01), 1.0), plan, box


def test_steps_contract_wherever_in_the_box_two_chains_are():
    """Here the drift is larger than the box in one coordinate only: cut there, it would expand."""
    starts = np.array([[0.8, 0.5], [0.89, 0.46]])
    ends = []
    for start in starts:
        target, plan, box = bowl(start)
        ends.append(sample(target, plan, random_state=0)[0] / box)
    drift = plan.step_size * target.curvature @ starts[0]
    assert drift[0] > 1 > drift[1]
    contraction = 1 - plan.step_size * 0.01 / 2
    moved, before = np.diff(ends, axis=0), np.diff(starts, axis=0)
    assert np.linalg.norm(moved) <= contraction * np.linalg.norm(before)
    step = np.eye(2) - plan.step_size / 2 * (target.curvature + 0.01 * np.eye(2))
    np.testing.assert_allclose(moved, before @ step, atol=1e-12)


@pytest.mark.parametrize("push", [1e12, 1e300, -1e300])
def test_a_drift_that_is_cut_ends_where_an_uncut_one_would(push):
    target, plan, box = bowl((1.0, -1.0), (0.0, 0.0))
    target = target._replace(curvature=np.diag([push, push]))
    draw = sample(target, plan, random_state=0)
    np.testing.assert_array_equal(draw, [[-2 * np.sign(push) * box, 2 * np.sign(push) * box]])


def test_a_start_is_taken_to_the_lattice_and_into_the_box():
    target, plan, box = bowl((1e-13, 3.0), (0.0, 0.0))
    spacing = lattice_spacing(np.sqrt(2 * plan.step_size))
    draw = sample(target, plan, random_state=0)[0]
    assert np.array_equal(draw / (spacing / 2), np.rint(draw / (spacing / 2)))
    assert abs(draw[1] - box) < 0.01 * box


def test_each_draw_starts_on_the_lattice_with_batches_cut_anew():
    """Seen from inside: the states at which gradients are asked for, and the records that are read."""
    states, selections = [], []

    def noting(target, generator, theta, rate, batch, parts, parallel, out):
        states.append(theta.copy())
        selections.append(_gradients.next_batch.py_func(generator, batch).copy())
        out[:] = 0.0

    plan = plan_last_state(
        TargetBounds(2, 1.0, 0.25, (1.0, 1.0), convex=True),
        60,
        NOT_PRIVATE,
        SamplerOptions(n_steps=24, n_draws=3, batch_size=20),
    )
    noise = np.sqrt(2 * plan.step_size * plan.temperature)
    spacing, box = lattice_spacing(noise), box_half_width(noise)
    target = Tilt(np.zeros((60, 2)), np.ones(2), 1.0)
    schedule = (plan.step_size, 0.0, plan.temperature, plan.sampling_rate, spacing, box, True)
    draws = np.empty((3, 2))
    batches = cyclic_batches(60, plan.n_batches)
    names = {
        **langevin._advance._fresh.py_func.__globals__,
        "estimate_gradient": noting,
        "prior_gradient": lambda target, theta, out: np.copyto(out, theta),
        "cut_anew": lambda batch: batch.turn.fill(-1),
        "noisy_step": _steps.noisy_step.py_func,
    }
    advance = types.FunctionType(langevin._advance._fresh.py_func.__code__, names)
    generator = np.random.default_rng(0)
    fixed = (plan.kept_steps(), draws, batches, np.empty((1, 2)), False)
    advance(target, generator, np.zeros(2), schedule, 0, 24, *fixed)
    assert all(np.array_equal(s / spacing, np.rint(s / spacing)) for s in states)
    assert np.any(draws / spacing != np.rint(draws / spacing))
    for first in range(0, 24, 8):
        assert np.abs(states[first] - (draws[first // 8 - 1] if first else 0)).max() <= spacing
        turns = selections[first : first + 8]
        assert sorted(np.concatenate(turns[:3])) == list(range(60))
        assert all(np.array_equal(turns[k], turns[k + 3]) for k in range(5))
    assert not np.array_equal(selections[0], selections[8])


def test_batches_take_turns_in_an_order_that_sees_no_record():
    generator = np.random.default_rng(0)
    batches = cyclic_batches(103, 10)
    taken = [next_batch(generator, batches).copy() for _ in range(20)]
    for first, again in zip(taken[:10], taken[10:], strict=True):
        assert np.array_equal(first, again)
    sizes = np.diff(batches.ends, prepend=0)
    assert sizes.sum() == 103 and set(sizes) == {10, 11}
    assert np.array_equal(np.sort(batches.order), np.arange(103))
    assert np.array_equal(np.concatenate(taken[:10]), batches.order)
    assert all((np.diff(part) > 0).all() for part in taken), "within a batch the table's order"
    # Every record is as often in the first batch as in any other.
    counts = np.zeros(103)
    for _ in range(2000):
        counts[next_batch(generator, cyclic_batches(103, 10))] += 1
    assert np.abs(counts / 2000 - 10 / 103).max() < 5 * np.sqrt(0.1 * 0.9 / 2000)


def test_cyclic_batches_on_a_sorted_table(make_target):
    rng = np.random.default_rng(5)
    n = 300
    X = rng.uniform(-1, 1, size=(n, 1))
    y = (rng.random(n) < expit(2 * X[:, 0])).astype(int)
    order = np.argsort(y)
    target, bounds = make_target(X[order], y[order], prior_scale=2.0)
    options = SamplerOptions(n_draws=800, batch_size=60, temperature=10.0)
    plan = plan_last_state(bounds, n, NOT_PRIVATE, options)
    draws = sample(target, plan, random_state=1)[:, 0]
    mean, variance = (moment.item() for moment in logistic_moments(X, y, 2.0, 10.0))
    deviation = np.sqrt(variance)
    heat = plan.subsampling_temperature / plan.temperature
    assert heat < 0.06
    assert abs(draws.mean() - mean) < (0.05 + 4 / np.sqrt(draws.size)) * deviation
    assert draws.std() == pytest.approx(deviation, rel=0.08)


def test_a_path_may_start_at_a_draw(make_target):
    """Its first draws follow the posterior already; from zero they could not."""
    n = 2000
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, 1))
    y = (rng.random(n) < expit(4 * X[:, 0])).astype(int)
    target, bounds = make_target(X, y, prior_scale=2.0)
    firsts = {"zeros": [], "ops": []}
    for init in firsts:
        options = SamplerOptions(
            init=init, n_steps=1, n_draws=1, burn_in=0.0, step_size=1e-5, temperature=50.0
        )
        plan = plan_langevin(bounds, n, Budget(50.0, 1e-5), options)
        for seed in range(60):
            firsts[init].append(sample(target, plan, random_state=seed)[0, 0])
    mean, variance = (moment.item() for moment in logistic_moments(X, y, 2.0, 50.0))
    deviation = np.sqrt(variance)
    assert abs(np.mean(firsts["ops"]) - mean) < 4 * deviation / np.sqrt(60)
    assert 0.6 < np.std(firsts["ops"]) / deviation < 1.4
    assert np.mean(firsts["zeros"]) < 0.1 < 2.0 < mean


def test_gradients_that_are_clipped_one_by_one_are_refused():
    _, bounds = tilt()
    target = ClippedTilt(np.ones((40, 2)), np.array([1.0, 4.0]), 1.0)
    for plan in (
        plan_last_state(bounds, 40, Budget(1.0, 1e-5)),
        plan_langevin(bounds, 40, Budget(1.0, 1e-5), SamplerOptions(init="ops")),
    ):
        with pytest.raises(ValueError, match="add_gradient"):
            sample(target, plan, random_state=0)
    path = plan_langevin(bounds, 40, Budget(1.0, 1e-5))
    assert sample(target, path, random_state=0).shape == (100, 2)


def test_targets_rougher_than_the_plan_assumes_are_refused(make_target):
    rng = np.random.default_rng(0)
    target, bounds = make_target(rng.normal(size=(40, 2)), rng.integers(2, size=40))
    smooth = bounds._replace(smoothness=bounds.smoothness / 2)
    with pytest.raises(ValueError, match="smoothness"):
        sample(target, plan_last_state(smooth, 40, Budget(1.0, 1e-5)), random_state=0)
