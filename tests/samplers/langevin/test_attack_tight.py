"""Attacks on linear losses, where every claim of a chain's cost is tight, for nights: they take minutes.

`test_attack` has shorter ones of the same claims.
"""

import numpy as np
import pytest
from attacks import audit_path, draws_of, path_of
from references import Tilt, planned

from skdpbayes._compute import gradients as machinery
from skdpbayes.audit import audit_separation
from skdpbayes.models import TargetBounds
from skdpbayes.privacy import Budget
from skdpbayes.privacy.conversions import gaussian_epsilon
from skdpbayes.samplers import SGLD

pytestmark = pytest.mark.nightly
REPETITIONS = 3000
DELTA = 1e-5
RELATIONS = ["replace_one", "add_or_remove_one"]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("decay", [0.0, 1 / 3])
def test_a_path_reaches_the_claim_where_the_sensitivity_is(relation, decay):
    n, steps = 12, 75_000
    bounds = TargetBounds(2, gradient_bound=1.0, smoothness=0.25, prior_precision=(0.2, 0.2))
    # By itself a plan would take short steps, which no attack of this length tells from none.
    size = {0.0: 0.02, 1 / 3: 0.3}[decay]
    sampler = SGLD(burn_in=0.0, step_decay=decay, step_size=size)
    plan = planned(
        sampler, bounds, n, Budget(9000.0, DELTA, relation), n_steps=steps, n_draws=steps
    )
    common = np.tile([0.0, 0.5], (n - 1, 1))
    extreme = np.array([[1.0, 0.0]])
    second = np.vstack([common, -extreme]) if relation == "replace_one" else common
    rows = np.vstack([common, extreme]), second
    tables = [Tilt(z, np.full(2, 0.2), 1.0) for z in rows]
    gradients = [lambda theta, z=z: np.tile(-z.sum(axis=0), (len(theta), 1)) for z in rows]
    result, claim = audit_path(tables, gradients, plan)
    assert result.mu - 3.5 * result.standard_error <= claim, "the claim is broken"
    assert result.mu >= 0.9 * claim, "the claim is loose, or the noise is too large"
    assert claim > 0.3


@pytest.mark.parametrize("relation", RELATIONS)
def test_poisson_batches_stay_within_the_claim(relation):
    """The likelihood ratio of the two mixtures at every step, one record at a time."""
    n, rate = 4, 0.5
    bounds = TargetBounds(1, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0))
    sampler = SGLD(burn_in=0.0, batch_size=2)
    plan = planned(sampler, bounds, n, Budget(6.0, DELTA, relation), n_steps=40, n_draws=40)
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


def neighbors(n, dimension=1, size=1.0):
    """Return two tables of tilts that differ as much as one record can."""
    common = np.zeros((n - 1, dimension))
    extreme = np.zeros((1, dimension))
    extreme[0, 0] = size
    return [Tilt(np.vstack([common, z]), np.full(dimension, 0.2), 1.0) for z in (extreme, -extreme)]


def last_iterate_plan(n, epsilon, **options):
    bounds = TargetBounds(1, 1.0, 1e-3, (0.2, 0.2), convex=True)
    budget = Budget(epsilon, DELTA)
    return planned(SGLD, bounds, n, budget, release="last_iterate", **options)


def released(table, plan, seeds):
    return np.array([draws_of(table, plan, seed)[:, 0] for seed in seeds])


@pytest.mark.parametrize("options", [{}, {"n_steps": 40, "step_decay": 0.5}])
def test_one_draw_reaches_the_claim_and_does_not_pass_it(options):
    """With a Gaussian posterior the draw is Gaussian: its value is the best score there is."""
    plan = last_iterate_plan(12, 6.0, **options)
    tables = neighbors(12)
    seeds = np.arange(4 * REPETITIONS)
    ours, theirs = (released(t, plan, 2 * seeds + which)[:, 0] for which, t in enumerate(tables))
    result = audit_separation(ours, theirs)
    assert result.mu - 3.5 * result.standard_error <= plan.cost.mu, "the claim is broken"
    assert result.mu >= 0.97 * plan.cost.mu, "the claim is loose, or the noise is too large"


def test_several_draws_reach_the_claim_for_all_of_them():
    """Against the law of every draw given the one before, which the attacker knows."""
    plan = last_iterate_plan(12, 6.0, n_draws=4, n_steps=40)
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
    plan = last_iterate_plan(12, 6.0, batch_size=3, n_steps=16)
    tables, cut = neighbors(12), machinery.cyclic_batches

    def in_order(n, n_batches):
        return cut(n, n_batches)._replace(turn=np.zeros(1, np.int64))

    seeds = np.arange(3 * REPETITIONS)
    drawn = [released(t, plan, 2 * seeds[::3] + which)[:, 0] for which, t in enumerate(tables)]
    random_order = audit_separation(*drawn)
    monkeypatch.setattr(machinery, "cyclic_batches", in_order)
    drawn = [released(t, plan, 2 * seeds + which)[:, 0] for which, t in enumerate(tables)]
    worst = audit_separation(*drawn)
    assert worst.mu - 3.5 * worst.standard_error <= plan.cost.mu
    assert worst.mu >= 0.6 * plan.cost.mu
    assert random_order.mu < worst.mu + 3.5 * worst.standard_error
