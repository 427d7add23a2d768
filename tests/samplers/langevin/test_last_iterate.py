"""One posterior sample follows the posterior, whatever it is asked through, and hides its path."""

import types
from typing import NamedTuple

import numpy as np
import pytest
from references import Tilt, logistic_moments, planned
from scipy.special import expit

from skdpbayes._compute import gradients
from skdpbayes.linear_model import DPBayesianLogisticRegression
from skdpbayes.models import TargetBounds, add_gradient, example_gradient, implements, n_examples
from skdpbayes.privacy import Budget
from skdpbayes.privacy.rounding import box_half_width, lattice_spacing
from skdpbayes.samplers import OPS, SGLD, sample
from skdpbayes.samplers.langevin import chains

NOT_PRIVATE = Budget(np.inf, 1e-5)
# As Python runs them.
STEPS = chains._advance_overdamped._fresh.py_func


def plan_last(bounds, n, budget, **options):
    return planned(SGLD, bounds, n, budget, release="last_iterate", **options)


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


def interpreted(estimate_gradient, precision=1.0):
    """Return the chain's steps as Python runs them, with gradients and a prior of one's own."""

    def estimate(oracle, generator, theta, rate, batch, loop, gradient, prior):
        estimate_gradient(generator, theta, batch, gradient)
        prior[:] = precision * theta

    names = {
        **STEPS.__globals__,
        "estimate_gradient": estimate,
        "reshuffle_batches": lambda batch: None if batch is None else batch.turn.fill(-1),
    }
    return types.FunctionType(STEPS.__code__, names)


@pytest.mark.daily(1)
@pytest.mark.parametrize("epsilon, temperature", [(np.inf, 1.0), (np.inf, 3.0), (40.0, None)])
def test_draws_follow_the_posterior_in_two_dimensions(make_target, epsilon, temperature):
    rng = np.random.default_rng(3)
    n, n_draws = 80, 2000
    X = rng.normal(size=(n, 2))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1))[:, None]
    y = (rng.random(n) < expit(3 * X[:, 0] - X[:, 1])).astype(int)
    target, bounds = make_target(X, y, prior_scale=1.0)
    budget = Budget(epsilon, 1e-5)
    plan = planned(OPS, bounds, n, budget, n_draws=n_draws, temperature=temperature)
    draws = sample(target, plan, random_state=1)
    assert (plan.temperature > 5) == (epsilon == 40.0)
    mean, covariance = logistic_moments(X, y, 1.0, plan.temperature)
    deviations = np.sqrt(np.diag(covariance))
    # Draws are independent but for exp(-relaxations), 5% at most.
    error = 4 * 1.05 / np.sqrt(n_draws)
    assert (np.abs(draws.mean(axis=0) - mean) < (error + 0.05) * deviations).all()
    scaled = (np.cov(draws.T) - covariance) / np.outer(deviations, deviations)
    assert (np.abs(scaled) < 1.5 * error + 0.05).all()
    neighbors = [np.corrcoef(column[:-1], column[1:])[0, 1] for column in draws.T]
    assert np.abs(neighbors).max() < 0.05 + 4 / np.sqrt(n_draws)


def test_the_released_iterate_has_exactly_the_variance_of_a_quadratic(make_target):
    """Rows of zeros say nothing: the posterior is the prior, and steps are as long as they may be."""
    target, bounds = make_target(np.zeros((40, 2)), np.arange(40) % 2, norm=0.05)
    precision = np.array([1.0, 4.0])
    target = target._replace(prior_precision=precision)
    bounds = bounds._replace(prior_precision=(1.0, 4.0))
    plan = planned(OPS, bounds, 40, NOT_PRIVATE, n_draws=4000, temperature=2.0)
    assert plan.step_size * 2.0 * precision[1] > 0.45
    draws = sample(target, plan, random_state=0)
    error = 4.5 / np.sqrt(plan.n_draws)
    assert (np.abs(draws.mean(axis=0)) < error * precision**-0.5).all()
    assert np.allclose(draws.std(axis=0), precision**-0.5, rtol=error)


@pytest.mark.nightly
@pytest.mark.parametrize("batch_size", [None, 7])
def test_the_released_iterate_has_exactly_the_law_of_a_quadratic(batch_size):
    directions = np.random.default_rng(0).uniform(-0.5, 0.7, size=(40, 2))
    target = Tilt(directions, np.array([1.0, 4.0]), 1.0)
    bounds = TargetBounds(2, 1.0, 1e-3, (1.0, 4.0), convex=True)
    options = {"n_draws": 4000, "temperature": 2.0, "batch_size": batch_size}
    plan = plan_last(bounds, 40, NOT_PRIVATE, **options)
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
    first, second = (
        DPBayesianLogisticRegression(random_state=3, sampler=sampler).fit(X, y)
        for sampler in ("ops", SGLD(release="last_iterate"))
    )
    assert np.array_equal(first.posterior_samples_, second.posterior_samples_)
    assert first.posterior_samples_.shape == (1, 1, 4)
    assert first.plan_ == second.plan_


def test_every_draw_starts_where_the_one_before_was_released(make_target):
    """The first of many draws is the only one of a chain of one segment; the second depends on it."""
    rows = np.random.default_rng(0).uniform(-0.5, 0.7, size=(40, 2))
    target, bounds = make_target(rows, np.arange(40) % 2)
    sampler, fixed = OPS(step_size=0.01), {"temperature": 5.0}
    plan = planned(sampler, bounds, 40, NOT_PRIVATE, n_draws=3, n_steps=300, **fixed)
    draws = sample(target, plan, random_state=8)
    alone = planned(sampler, bounds, 40, NOT_PRIVATE, n_draws=1, n_steps=100, **fixed)
    assert np.array_equal(draws[:1], sample(target, alone, random_state=8))
    # A single step from a draw moves it by no more than a midpoint of one step's noise.
    short = planned(sampler, bounds, 40, NOT_PRIVATE, n_draws=2000, n_steps=2000, **fixed)
    chain = sample(target, short, random_state=8)
    steps = np.diff(chain, axis=0)
    # theta + (drift + noise) / 2, noise of variance 2 eta tau.
    assert np.allclose(steps.std(axis=0), np.sqrt(2 * 0.01 * 5.0) / 2, rtol=0.06)


def test_iterates_stay_on_the_lattice_and_in_the_box(make_target, monkeypatch):
    """A gradient that pushes far out is stopped at the box, and restarts are on the lattice."""

    def pushing(generator, theta, batch, out):
        out[:] = -40 * 0.7

    monkeypatch.setattr(chains, "_advance_overdamped", interpreted(pushing, 1e-9))
    rows, labels = np.zeros((40, 2)), np.arange(40) % 2
    target, bounds = make_target(rows, labels, norm=1e-5, prior_scale=1e-9**-0.5)
    plan = planned(OPS, bounds, 40, NOT_PRIVATE, step_size=1e7, n_steps=6000, n_draws=3)
    noise = np.sqrt(2 * plan.step_size * plan.temperature)
    draws = sample(target, plan, random_state=0)
    box, spacing = box_half_width(noise), lattice_spacing(noise)
    drift = plan.step_size * 40 * 0.7
    # The last iterate before a draw is at the box; the draw is the midpoint of it and the next.
    assert np.all(
        np.abs(draws - (box + drift / 2)) < 1.01 * 1e-9 * plan.step_size * box + 10 * noise
    )
    assert np.array_equal(draws / (spacing / 2), np.rint(draws / (spacing / 2)))


def bowl(start, direction=(0.9, 0.436), stiffness=4.0):
    """Stiff in one direction; the step is almost the longest that contracts."""
    curvature = stiffness * np.outer(direction, direction)
    bounds = TargetBounds(2, 1.0, stiffness, (0.01, 0.01), convex=True)
    sampler = OPS(step_size=1.999 / (stiffness + 0.02))
    plan = planned(sampler, bounds, 1, NOT_PRIVATE, temperature=1.0, n_steps=1, n_draws=1)
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


def test_each_draw_starts_on_the_lattice_with_reshuffled_batches(make_target, monkeypatch):
    """Seen from inside: the states at which gradients are asked for, and the records that are read."""
    states, selections = [], []

    def noting(generator, theta, batch, out):
        states.append(theta.copy())
        selections.append(gradients.next_batch(generator, batch).copy())
        out[:] = 0.0

    monkeypatch.setattr(chains, "_advance_overdamped", interpreted(noting))
    target, bounds = make_target(np.zeros((60, 2)), np.arange(60) % 2, prior_scale=1.0)
    plan = plan_last(bounds, 60, NOT_PRIVATE, n_steps=24, n_draws=3, batch_size=20)
    spacing = lattice_spacing(np.sqrt(2 * plan.step_size * plan.temperature))
    draws = sample(target, plan, random_state=0)
    assert all(np.array_equal(s / spacing, np.rint(s / spacing)) for s in states)
    assert np.any(draws / spacing != np.rint(draws / spacing))
    for first in range(0, 24, 8):
        assert np.abs(states[first] - (draws[first // 8 - 1] if first else 0)).max() <= spacing
        turns = selections[first : first + 8]
        assert sorted(np.concatenate(turns[:3])) == list(range(60))
        assert all(np.array_equal(turns[k], turns[k + 3]) for k in range(5))
    assert not np.array_equal(selections[0], selections[8])


def test_cyclic_batches_on_a_sorted_table(make_target):
    rng = np.random.default_rng(5)
    n = 300
    X = rng.uniform(-1, 1, size=(n, 1))
    y = (rng.random(n) < expit(2 * X[:, 0])).astype(int)
    order = np.argsort(y)
    target, bounds = make_target(X[order], y[order], prior_scale=1.0)
    plan = plan_last(bounds, n, NOT_PRIVATE, n_draws=800, batch_size=60, temperature=10.0)
    draws = sample(target, plan, random_state=1)[:, 0]
    mean, variance = (moment.item() for moment in logistic_moments(X, y, 1.0, 10.0))
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
        sampler = SGLD(init=init, burn_in=0.0, step_size=1e-5)
        fixed = {"n_steps": 1, "n_draws": 1, "temperature": 50.0}
        plan = planned(sampler, bounds, n, Budget(50.0, 1e-5), **fixed)
        for seed in range(60):
            firsts[init].append(sample(target, plan, random_state=seed)[0, 0])
    mean, variance = (moment.item() for moment in logistic_moments(X, y, 2.0, 50.0))
    deviation = np.sqrt(variance)
    assert abs(np.mean(firsts["ops"]) - mean) < 4 * deviation / np.sqrt(60)
    assert 0.6 < np.std(firsts["ops"]) / deviation < 1.4
    assert np.mean(firsts["zeros"]) < 0.1 < 2.0 < mean


def test_gradients_that_are_clipped_one_by_one_are_refused():
    bounds = TargetBounds(2, 1.0, 1e-3, (1.0, 4.0), convex=True)
    target = ClippedTilt(np.ones((40, 2)), np.array([1.0, 4.0]), 1.0)
    for sampler in (OPS(), SGLD(init="ops")):
        with pytest.raises(ValueError, match="add_gradient"):
            sample(target, sampler.plan(bounds, 40, Budget(1.0, 1e-5)), random_state=0)
    SGLD().check(SGLD().plan(bounds, 40, Budget(1.0, 1e-5)), target)


def test_targets_rougher_than_the_plan_assumes_are_refused(make_target):
    rng = np.random.default_rng(0)
    target, bounds = make_target(rng.normal(size=(40, 2)), rng.integers(2, size=40))
    smooth = bounds._replace(smoothness=bounds.smoothness / 2)
    with pytest.raises(ValueError, match="smoothness"):
        sample(target, OPS().plan(smooth, 40, Budget(1.0, 1e-5)), random_state=0)
