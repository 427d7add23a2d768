"""An attack on the released path: it must never beat the claim, and nearly reach it in the worst case.

Two tables differ in one extreme record. The attacker knows everything but which of the two was used,
sees every state of the chain, and takes the likelihood ratio of the path, which is the optimal test.
"""

import numpy as np
import pytest
from references import Tilt
from scipy.special import expit, softmax

from skdpbayes.privacy import (
    Budget,
    SamplerOptions,
    audit_separation,
    plan_langevin,
    plan_last_state,
    plan_network,
)
from skdpbayes.privacy.cost import gaussian_epsilon
from skdpbayes.samplers import _gradients, sample
from skdpbayes.targets import TargetBounds, mlp_bounds
from skdpbayes.targets.mlp import make_mlp

REPETITIONS = 3000
DELTA = 1e-5


def path_of(target, plan, seed):
    """Recover every state from the released midpoints, as an attacker would."""
    midpoints = sample(target, plan, random_state=seed)
    states = np.zeros((plan.n_steps + 1, plan.bounds.n_parameters))
    for k, midpoint in enumerate(midpoints):
        states[k + 1] = 2 * midpoint - states[k]
    return states


def whole_path_plan(bounds, n, relation, epsilon=6.0, n_steps=25, **options):
    options = SamplerOptions(n_steps=n_steps, n_draws=n_steps, burn_in=0.0, **options)
    return plan_langevin(bounds, n, Budget(epsilon, DELTA, relation), options)


def separation(tables, gradients, plan, repetitions=REPETITIONS):
    """Audit the path's likelihood ratio, given each table's gradient as a function of theta."""
    steps = plan.step_sizes()[:, None]
    variance = 2 * steps * plan.temperature
    precision = tables[0].prior_precision

    def score(states):
        before, after = states[:-1], states[1:]
        total = 0.0
        for gradient, sign in zip(gradients, (0.5, -0.5), strict=True):
            drift = steps * (gradient(before) + plan.temperature * precision * before)
            total += sign * np.sum((after - before + drift) ** 2 / variance)
        return total

    scores = [
        [score(path_of(table, plan, seed=2 * r + which)) for r in range(repetitions)]
        for which, table in enumerate(tables)
    ]
    return audit_separation(scores[1], scores[0])


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("decay", [0.0, 1 / 3])
def test_the_bound_is_nearly_reached_where_the_sensitivity_is(relation, decay):
    n = 12
    bounds = TargetBounds(2, gradient_bound=1.0, smoothness=0.25, prior_precision=(0.2, 0.2))
    plan = whole_path_plan(bounds, n, relation, step_decay=decay)
    common = np.tile([0.0, 0.5], (n - 1, 1))
    extreme = np.array([[1.0, 0.0]])
    first = np.vstack([common, extreme])
    second = np.vstack([common, -extreme]) if relation == "replace_one" else common
    tables = [Tilt(z, np.full(2, 0.2), 1.0) for z in (first, second)]
    gradients = [
        lambda theta, z=z: np.tile(-z.sum(axis=0), (len(theta), 1)) for z in (first, second)
    ]
    result = separation(tables, gradients, plan)
    assert result.mu - 3.5 * result.standard_error <= plan.cost.mu, "the claim is broken"
    assert result.mu >= 0.9 * plan.cost.mu, "the claim is loose, or the noise is too large"
    assert result.epsilon(DELTA, 3.5) <= plan.epsilon


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_logistic_paths_stay_within_the_claim(make_target, relation):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = rng.integers(2, size=12)
    other_X, other_y = X.copy(), y.copy()
    X[0], y[0] = [1.0, 0.0], 1
    other_X[0], other_y[0] = [-1.0, 0.0], 1
    if relation == "add_or_remove_one":
        other_X, other_y = X[1:], y[1:]
    target, bounds = make_target(X, y, prior_scale=2.0)
    neighbor, _ = make_target(other_X, other_y, prior_scale=2.0)
    plan = whole_path_plan(bounds, 12, relation)

    def gradient(rows, labels):
        return lambda theta: (expit(theta @ rows.T) - labels) @ rows

    result = separation([target, neighbor], [gradient(X, y), gradient(other_X, other_y)], plan)
    assert result.mu - 3.5 * result.standard_error <= plan.cost.mu
    # The extreme record's gradient is about half of its bound here, and the attack sees that much.
    assert result.mu > 0.35 * plan.cost.mu


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_networks_nearly_reach_the_claim_with_a_record_that_is_clipped(relation):
    """Two outputs, no hidden layer: the gradients of one row with either label are opposite."""
    # The prior keeps outputs from being certain, where gradients would be shorter than the bound.
    n, clip_norm, width, precision = 12, 0.05, 2, 50.0
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, width)), rng.integers(2, size=n)
    X[0], y[0] = [2.0, 0.0], 0
    keep = slice(None) if relation == "replace_one" else slice(1, None)
    other = y.copy()
    other[0] = 1
    sizes, data_norm = (width, 2), 2.0
    bounds = mlp_bounds(sizes, clip_norm, precision)
    options = SamplerOptions(n_steps=25, n_draws=25, burn_in=0.0)
    plan = plan_network(bounds, n, Budget(6.0, DELTA, relation), options, sampler="sgld")
    tables, gradients = [], []
    for rows, labels in ((X, y), (X[keep], other[keep])):
        start = np.zeros(bounds.n_parameters)
        tables.append(make_mlp(rows, labels, data_norm, sizes, "tanh", clip_norm, precision, start))
        scaled = rows * (4.0 / np.maximum(np.linalg.norm(rows, axis=1), data_norm))[:, None]
        inputs = np.hstack([scaled, np.ones((len(rows), 1))])
        gradients.append(lambda theta, z=inputs, k=labels: clipped(theta, z, k, clip_norm))
    result = separation(tables, gradients, plan, 2000)
    assert result.mu - 3.5 * result.standard_error <= plan.cost.mu, "the claim is broken"
    assert result.mu >= 0.9 * plan.cost.mu, "the claim is loose, or the noise is too large"


def clipped(states, inputs, labels, clip_norm):
    """Sum of clipped gradients of softmax regression at every state; weights, then biases."""
    width = inputs.shape[1]
    logits = np.einsum("nj,tjk->tnk", inputs, states.reshape(-1, width, 2))
    errors = softmax(logits, axis=2) - np.eye(2)[labels]
    norms = np.linalg.norm(errors, axis=2) * np.linalg.norm(inputs, axis=1)
    errors *= np.minimum(1.0, clip_norm / np.maximum(norms, 1e-300))[:, :, None]
    return np.einsum("nj,tnk->tjk", inputs, errors).reshape(len(states), -1)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_poisson_batches_stay_within_the_claim(relation):
    """The likelihood ratio of the two mixtures at every step, one record at a time."""
    n, rate = 4, 0.5
    bounds = TargetBounds(1, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0))
    plan = whole_path_plan(bounds, n, relation, n_steps=40, batch_size=2)
    first = np.array([[0.0], [0.0], [0.0], [1.0]])
    second = first.copy()
    second[3] = -1.0
    if relation == "add_or_remove_one":
        second = first[:3]
    tables = [Tilt(z, np.ones(1), 1.0) for z in (first, second)]
    noise = np.sqrt(2 * plan.step_size * plan.temperature)
    shift = plan.step_size / rate

    def log_likelihood(residual, extreme):
        inside = -((residual - shift * extreme) ** 2) / (2 * noise**2) + np.log(rate)
        outside = -(residual**2) / (2 * noise**2) + np.log1p(-rate)
        return np.logaddexp(inside, outside).sum()

    def score(states):
        before, after = states[:-1], states[1:]
        residual = after - before + plan.step_size * plan.temperature * before
        other = -1.0 if relation == "replace_one" else 0.0
        return log_likelihood(residual, 1.0) - log_likelihood(residual, other)

    scores = [
        [score(path_of(t, plan, seed=2 * r + which)) for r in range(REPETITIONS)]
        for which, t in enumerate(tables)
    ]
    result = audit_separation(scores[0], scores[1])
    # The scores are sums of forty bounded terms, and so nearly normal.
    attack = result.epsilon(DELTA, 3.5)
    assert attack <= plan.epsilon
    assert gaussian_epsilon(result.mu, 1e-2) >= 0.8 * plan.cost.epsilon(1e-2)


def test_an_attack_on_too_little_noise_is_noticed():
    """The audit itself has power: records an eighth beyond their bound break the claim."""
    n = 12
    bounds = TargetBounds(2, gradient_bound=1.0, smoothness=0.25, prior_precision=(0.2, 0.2))
    plan = whole_path_plan(bounds, n, "replace_one")
    common = np.tile([0.0, 0.5], (n - 1, 1))
    tables, gradients = [], []
    for extreme in (1.12, -1.12):
        z = np.vstack([common, [[extreme, 0.0]]])
        tables.append(Tilt(z, np.full(2, 0.2), 1.2))
        gradients.append(lambda theta, z=z: np.tile(-z.sum(axis=0), (len(theta), 1)))
    # The records exceed the bound that the plan was made for: sampling must refuse ...
    with pytest.raises(ValueError, match="gradient_bound"):
        sample(tables[0], plan, random_state=0)
    # ... and, with the check out of the way, the attack beats the claim.
    object.__setattr__(plan, "bounds", plan.bounds._replace(gradient_bound=1.2))
    result = separation(tables, gradients, plan)
    assert result.mu - 3.5 * result.standard_error > plan.cost.mu


def neighbors(n, dimension=1, size=1.0):
    """Return two tables of tilts that differ as much as one record can."""
    common = np.zeros((n - 1, dimension))
    extreme = np.zeros((1, dimension))
    extreme[0, 0] = size
    return [Tilt(np.vstack([common, z]), np.full(dimension, 0.2), 1.0) for z in (extreme, -extreme)]


def last_state_plan(n, epsilon, **options):
    bounds = TargetBounds(1, 1.0, 1e-3, (0.2, 0.2), convex=True)
    return plan_last_state(bounds, n, Budget(epsilon, DELTA), SamplerOptions(**options))


def released(table, plan, seeds):
    return np.array([sample(table, plan, random_state=seed)[:, 0] for seed in seeds])


@pytest.mark.parametrize("options", [{}, {"n_steps": 1}, {"n_steps": 40, "step_decay": 0.5}])
def test_one_draw_reaches_the_claim_and_does_not_pass_it(options):
    """With a Gaussian posterior the draw is Gaussian: its value is the best score there is."""
    plan = last_state_plan(12, 6.0, **options)
    tables = neighbors(12)
    seeds = np.arange(4 * REPETITIONS)
    ours, theirs = (released(t, plan, 2 * seeds + which)[:, 0] for which, t in enumerate(tables))
    result = audit_separation(ours, theirs)
    assert result.mu - 3.5 * result.standard_error <= plan.cost.mu, "the claim is broken"
    assert result.mu >= 0.97 * plan.cost.mu, "the claim is loose, or the noise is too large"


def test_several_draws_reach_the_claim_for_all_of_them():
    """Against the law of every draw given the one before, which the attacker knows."""
    plan = last_state_plan(12, 6.0, n_draws=4, n_steps=40)
    curvature = plan.temperature * 0.2
    tables = neighbors(12)
    step, kept = plan.step_size, 1 - plan.step_size * curvature
    n_before = plan.n_steps // plan.n_draws - 1
    half = (1 + kept) / 2
    # The midpoint of the last step, as a function of the segment's start and the record's tilt.
    carried = half * kept**n_before
    tilt = half * step * sum(kept**k for k in range(n_before)) + step / 2
    noise = 2 * step * plan.temperature
    variance = half**2 * noise * sum(kept ** (2 * k) for k in range(n_before)) + noise / 4

    def score(draws):
        before = np.column_stack([np.zeros(len(draws)), draws[:, :-1]])
        rest = draws - carried * before
        return ((rest + tilt) ** 2 - (rest - tilt) ** 2).sum(axis=1) / (2 * variance)

    seeds = np.arange(2 * REPETITIONS)
    scores = [score(released(t, plan, 2 * seeds + which)) for which, t in enumerate(tables)]
    result = audit_separation(*scores)
    assert result.mu - 3.5 * result.standard_error <= plan.cost.mu
    assert result.mu >= 0.97 * plan.cost.mu


def test_the_record_in_the_last_batch_reaches_the_claim(monkeypatch):
    """Batches in the table's order, which an attacker may hope for: the last record comes last."""
    plan = last_state_plan(12, 6.0, batch_size=3, n_steps=16)
    tables = neighbors(12)
    uncut = _gradients.CyclicBatches

    def in_order(order, ends, turn):
        return uncut(order, ends, np.zeros(1, np.int64))

    seeds = np.arange(3 * REPETITIONS)
    drawn = [released(t, plan, 2 * seeds + which)[:, 0] for which, t in enumerate(tables)]
    random_order = audit_separation(*drawn)
    monkeypatch.setattr(_gradients, "CyclicBatches", in_order)
    drawn = [released(t, plan, 2 * seeds + which)[:, 0] for which, t in enumerate(tables)]
    worst = audit_separation(*drawn)
    assert worst.mu - 3.5 * worst.standard_error <= plan.cost.mu
    assert worst.mu >= 0.6 * plan.cost.mu
    assert random_order.mu < worst.mu + 3.5 * worst.standard_error


def test_a_logistic_draw_stays_within_the_claim(make_target):
    X = np.vstack([np.tile([[0.3, 0.4]], (11, 1)), [[1.0, 0.0]]])
    y = np.array([0, 1] * 6)
    other = X.copy()
    other[-1] = [-1.0, 0.0]
    target, bounds = make_target(X, y, prior_scale=2.0)
    neighbor, _ = make_target(other, y, prior_scale=2.0)
    plan = plan_last_state(bounds, 12, Budget(6.0, DELTA))
    seeds = np.arange(3 * REPETITIONS)
    ours, theirs = (
        released(t, plan, 2 * seeds + which)[:, 0] for which, t in enumerate((target, neighbor))
    )
    result = audit_separation(ours, theirs)
    assert result.mu - 3.5 * result.standard_error <= plan.cost.mu
    assert result.mu > 0.3 * plan.cost.mu
