"""An attack on what chains release: it must never beat the claim, and nearly reach it in the worst case.

Two tables differ in one extreme record. The attacker knows everything but which of the two was used, sees
every iterate that is released, and takes the likelihood ratio, which is the optimal test.
"""

import numpy as np
import pytest
from attacks import audit_path, path_of
from references import planned
from scipy.special import expit

from skdpbayes._compute import gradients as machinery
from skdpbayes.audit import audit_separation
from skdpbayes.privacy import Budget, PrivacyCost, SampledGaussian
from skdpbayes.privacy.conversions import gaussian_epsilon
from skdpbayes.samplers import OPS, SGLD, sample
from skdpbayes.samplers import plan as _made_for

DELTA = 1e-5
NOT_PRIVATE = Budget(np.inf, DELTA)
RELATIONS = ["replace_one", "add_or_remove_one"]


@pytest.fixture(autouse=True)
def closer(monkeypatch):
    """Gradients here have closer bounds than a target of such rows says by itself."""
    monkeypatch.setattr(_made_for, "_check_bounds", lambda own, bounds: None)


def relabelled(make_target, norm=1.0, n=12, last=False):
    """Return two tables that differ in one label, their gradients, and bounds.

    ``(sigma - 1) z`` and ``sigma z`` differ by ``z``, wherever a chain is: no pair of records of gradients
    up to ``norm / 2`` can differ by more.
    """
    X, extreme = np.tile([[0.0, 0.5]], (n, 1)), n - 1 if last else 0
    X[extreme] = [norm, 0.0]
    tables, gradients = [], []
    for label in (0, 1):
        y = np.arange(n) % 2
        y[extreme] = label
        target, bounds = make_target(X, y, norm=norm, prior_scale=0.2**-0.5)
        tables.append(target._replace(gradient_bound=norm / 2))
        gradients.append(lambda theta, y=y: (expit(theta @ X.T) - y) @ X)
    return tables, gradients, bounds._replace(gradient_bound=norm / 2)


# Paths


@pytest.mark.parametrize("decay", [0.0, 1 / 3])
def test_a_path_reaches_the_claim_and_does_not_pass_it(make_target, decay):
    tables, gradients, bounds = relabelled(make_target)
    steps = 50_000
    sampler = SGLD(burn_in=0.0, step_size=0.35, step_decay=decay)
    plan = planned(sampler, bounds, 12, NOT_PRIVATE, temperature=3.0, n_steps=steps, n_draws=steps)
    result, claim = audit_path(tables, gradients, plan)
    assert result.mu - 3.5 * result.standard_error <= claim, "the claim is broken"
    assert result.mu >= 0.9 * claim, "the claim is loose, or the noise is too large"
    assert claim > 0.5 or decay


def test_an_attack_on_too_little_noise_is_noticed(make_target):
    """The audit itself has power: records an eighth beyond their bound break the claim."""
    tables, gradients, bounds = relabelled(make_target, norm=1.12)
    bounds = bounds._replace(gradient_bound=0.5)
    sampler = SGLD(burn_in=0.0, step_size=0.35)
    plan = planned(
        sampler, bounds, 12, NOT_PRIVATE, temperature=1.0, n_steps=50_000, n_draws=50_000
    )
    # The records exceed the bound that the plan was made for: sampling must refuse ...
    with pytest.raises(ValueError, match="gradient_bound"):
        sample(tables[0], plan, random_state=0)
    # ... and, with the check out of the way, the attack beats the claim.
    object.__setattr__(plan, "bounds", plan.bounds._replace(gradient_bound=0.56))
    result, claim = audit_path(tables, gradients, plan)
    assert result.mu - 3.5 * result.standard_error > claim


@pytest.mark.parametrize("relation", RELATIONS)
def test_poisson_batches_stay_within_the_claim(make_target, relation):
    """The likelihood ratio of the two mixtures at every step; a prior keeps the chain near zero."""
    n, rate, piece, steps, bound = 4, 0.5, 1000, 400_000, 0.59
    X, y = np.zeros((n, 1)), np.array([1, 0, 1, 0])
    X[0] = 1.0
    first, bounds = make_target(X, y, prior_scale=300.0**-0.5)
    if relation == "replace_one":
        second, _ = make_target(X, 1 - y, prior_scale=300.0**-0.5)
    else:
        second, _ = make_target(X[1:], y[1:], prior_scale=300.0**-0.5)
    tables = [table._replace(gradient_bound=bound) for table in (first, second)]
    bounds = bounds._replace(gradient_bound=bound)
    sampler = SGLD(burn_in=0.0, batch_size=2, step_size=0.7 / 300.0)
    fixed = {"temperature": 1.0, "n_steps": steps, "n_draws": steps}
    plan = planned(sampler, bounds, n, Budget(np.inf, DELTA, relation), **fixed)
    noise = np.sqrt(2 * plan.step_size)

    def log_likelihood(residual, gradient):
        moved = residual + plan.step_size / rate * gradient
        inside = -(moved**2) / (2 * noise**2) + np.log(rate)
        outside = -(residual**2) / (2 * noise**2) + np.log1p(-rate)
        return np.logaddexp(inside, outside)

    def scores(table, seed):
        states = path_of(table, plan, seed)[:, 0]
        before, after = states[:-1], states[1:]
        assert expit(np.abs(before)).max() <= bound
        residual = after - before + plan.step_size * 300.0 * before
        other = expit(before) if relation == "replace_one" else 0.0
        ratio = log_likelihood(residual, expit(before) - 1) - log_likelihood(residual, other)
        return ratio.reshape(-1, piece).sum(axis=1)

    result = audit_separation(*(scores(table, seed) for seed, table in enumerate(tables)))
    part = SampledGaussian(plan.noise_multiplier, rate, piece)
    claim = PrivacyCost(relation, sampled=(part,))
    # The scores are sums of hundreds of bounded terms, and so nearly normal.
    assert result.epsilon(DELTA, 3.5) <= claim.epsilon(DELTA)
    assert gaussian_epsilon(result.mu, 1e-2) >= 0.8 * claim.epsilon(1e-2)


# Last iterates


def audit_draws(tables, plan):
    """Return the audit of draws, each given the one before, and what each of them may cost."""
    scores = []
    for seed, table in enumerate(tables):
        draws = np.append(0.0, sample(table, plan, random_state=seed)[:, 0])
        before, after = draws[:-1] - draws.mean(), draws[1:] - draws.mean()
        scores.append(draws[1:] - (before @ after) / (before @ before) * draws[:-1])
    return audit_separation(scores[1], scores[0]), plan.cost.mu / np.sqrt(plan.n_draws)


@pytest.mark.daily(1)
@pytest.mark.parametrize("length, options", [(20, {}), (1, {}), (20, {"step_decay": 0.5})])
def test_a_draw_reaches_the_claim_and_does_not_pass_it(make_target, length, options):
    """The posterior is nearly Gaussian along the record's direction, and so is a draw given its start."""
    tables, _, bounds = relabelled(make_target)
    draws = 40_000
    fixed = {"temperature": 9.0, "n_draws": draws, "n_steps": draws * length}
    plan = planned(OPS, bounds, 12, NOT_PRIVATE, step_size=0.3, **options, **fixed)
    result, claim = audit_draws(tables, plan)
    assert result.mu - 3.5 * result.standard_error <= claim, "the claim is broken"
    assert result.mu >= 0.85 * claim, "the claim is loose, or the noise is too large"


CYCLIC_BATCHES = machinery.cyclic_batches


def in_table_order(n, n_batches):
    batches = CYCLIC_BATCHES(n, n_batches)
    return batches._replace(turn=np.zeros(1, np.int64))


@pytest.mark.nightly
def test_the_record_in_the_last_batch_stays_within_the_claim(make_target, monkeypatch):
    """Batches in the table's order, which an attacker may hope for: the last record comes last."""
    monkeypatch.setattr(machinery, "cyclic_batches", in_table_order)
    tables, _, bounds = relabelled(make_target, last=True)
    sampler = SGLD(release="last_iterate", batch_size=3)
    plan = planned(sampler, bounds, 12, Budget(3.0, DELTA), n_steps=16)
    drawn = [
        [sample(table, plan, random_state=2 * r + which)[0, 0] for r in range(600)]
        for which, table in enumerate(tables)
    ]
    result = audit_separation(drawn[1], drawn[0])
    assert result.mu - 3.5 * result.standard_error <= plan.cost.mu
    assert result.mu >= 0.5 * plan.cost.mu
