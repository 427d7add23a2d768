"""Plans for networks: what steps cost, and how long they are."""

import math

import numpy as np
import pytest
from references import planned

from skdpbayes.models import mlp_bounds
from skdpbayes.models.mlp import make_mlp
from skdpbayes.privacy import Budget, PrivacyCost
from skdpbayes.privacy.losses import SampledGaussian
from skdpbayes.samplers import OPS, SGHMC, SGLD, SGNHT, sample
from skdpbayes.samplers import plan as _made_for

BOUNDS = mlp_bounds((20, 16, 3), clip_norm=1.5, prior_precision=1.0)
SAMPLERS = [SGLD, SGHMC, SGNHT]
RELATIONS = ["replace_one", "add_or_remove_one"]


def plan(sampler=SGHMC, epsilon=2.0, n=10_000, relation="replace_one", bounds=BOUNDS, **options):
    options = {"batch_size": None, **options} if sampler is not OPS else options
    return planned(sampler, bounds, n, Budget(epsilon, 1e-5, relation), **options)


def actual_multiplier(made):
    """Noise of a step over what one record can move it by, from the recursions themselves."""
    moved = made.bounds.gradient_bound / made.sampling_rate
    if made.name == "sgld":
        return math.sqrt(2.0 * made.step_size * made.temperature) / (made.step_size * moved)
    noise = math.sqrt(2.0 * made.gradient_step * made.friction * made.temperature)
    return noise / (made.gradient_step * moved)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("batch_size", [None, 1000])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_plan_costs_what_its_noise_does_and_spends_the_budget(sampler, batch_size, relation):
    for options in ({}, {"n_steps": 250}, {"friction": 0.5} if sampler is not SGLD else {}):
        made = plan(sampler, relation=relation, batch_size=batch_size, **options)
        noise, steps = made.noise_multiplier, made.n_steps
        if batch_size is None:
            shift = 2.0 if relation == "replace_one" else 1.0
            expected = PrivacyCost(relation, mu=shift * math.sqrt(steps) / noise)
        else:
            sampled = (SampledGaussian(noise, batch_size / 10_000, steps),)
            expected = PrivacyCost(relation, sampled=sampled)
        assert made.epsilon == pytest.approx(expected.epsilon(1e-5), rel=1e-6)
        assert 0.99 * 2.0 <= made.epsilon <= 2.0
        assert noise <= actual_multiplier(made) <= 1.001 * noise


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_steps_are_the_longest_of_use(sampler):
    """Where noise is large temperature 1 decides; where it is small, what is stable."""
    noisy, calm = plan(sampler, epsilon=0.3), plan(sampler, epsilon=50.0)
    assert noisy.temperature == pytest.approx(1.0)
    assert calm.temperature < 0.5
    reach = 20.0 if sampler is SGLD else 40.0
    longest = reach / (10_000 * BOUNDS.gradient_bound)
    assert calm.step_size == pytest.approx(longest)
    assert noisy.step_size < 0.5 * longest
    # Twice the record's gradients: as far as before.
    doubled = mlp_bounds((20, 16, 3), clip_norm=3.0, prior_precision=1.0)
    assert plan(sampler, epsilon=50.0, bounds=doubled).step_size == pytest.approx(longest / 2.0)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_strong_prior_shortens_steps(sampler):
    """A step of the gradient times the prior's curvature is at most 1, or the chain would diverge."""
    for temperature in (None, 7.0):
        for n in (5, 10_000):
            bounds = mlp_bounds((20, 16, 3), clip_norm=0.01, prior_precision=30.0)
            made = plan(sampler, epsilon=500.0, n=n, bounds=bounds, temperature=temperature)
            step = made.step_size if sampler is SGLD else made.gradient_step
            assert step * made.temperature * 30.0 <= 1.0 + 1e-9


def test_friction_leaves_the_gradient_step_as_it_is_where_it_is_what_binds():
    slow, quick = plan(epsilon=50.0, friction=0.05), plan(epsilon=50.0, friction=0.5)
    assert slow.gradient_step == pytest.approx(quick.gradient_step)


def test_a_fixed_temperature_is_kept_and_unneeded_noise_costs_less():
    made = plan(epsilon=50.0, temperature=2.0)
    assert made.temperature == 2.0
    assert made.epsilon < 10.0
    assert actual_multiplier(made) >= made.noise_multiplier
    hot = plan(epsilon=0.3, temperature=2.0)
    assert hot.step_size == pytest.approx(2.0 * plan(epsilon=0.3).step_size)
    assert hot.epsilon == pytest.approx(plan(epsilon=0.3).epsilon)


def test_a_fixed_step_decides_on_the_temperature():
    auto = plan(epsilon=1.0)
    made = plan(epsilon=1.0, step_size=3.0 * auto.step_size)
    assert made.step_size == 3.0 * auto.step_size
    assert made.temperature == pytest.approx(3.0 * auto.temperature)
    assert made.noise_multiplier == auto.noise_multiplier
    with pytest.raises(ValueError, match="leave one of them 'auto'"):
        plan(epsilon=1.0, step_size=5.0 * auto.step_size, temperature=1.0)


@pytest.mark.nightly
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_batches_of_large_tables_are_4096_by_default(sampler):
    bounds, budget = mlp_bounds((10, 128, 2), 1.0, 1.0), Budget(1.0, 1e-5)
    assert sampler().plan(bounds, 60_000, budget).sampling_rate == pytest.approx(4096 / 60_000)
    assert sampler().plan(bounds, 4000, budget).sampling_rate == 1
    assert sampler(batch_size=None).plan(bounds, 60_000, budget).sampling_rate == 1
    fewer = sampler(batch_size=100).plan(bounds, 60_000, budget)
    assert fewer.sampling_rate == pytest.approx(1 / 600)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_without_privacy_the_temperature_is_one(sampler):
    made = plan(sampler, epsilon=math.inf, batch_size=100)
    assert made.temperature == 1.0
    assert made.epsilon == math.inf


@pytest.mark.parametrize(
    "options, named",
    [
        ({"sampler": OPS}, "logistic regression.*sampler='sghmc'"),
        ({"sampler": SGLD, "release": "last_iterate"}, "release='all_iterates'"),
        ({"init": "ops"}, "init='zeros'"),
        ({"init_share": 0.5}, "init_share"),
        ({"step_decay": 0.3}, "step_decay"),
        ({"step_size": -1.0}, "step_size"),
        ({"step_size": math.inf}, "step_size"),
        ({"step_size": 1.0, "n": 300}, "diverge"),
        ({"step_size": 1e-200}, "too short"),
        ({"step_size": 1e200}, "diverge"),
        ({"temperature": 0.5}, "temperature"),
        ({"n_steps": 10, "n_draws": 20}, "n_steps"),
        ({"batch_size": 20_000}, "batch_size"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": 1e-9}, "budget is too small"),
    ],
)
def test_what_cannot_hold_is_named(options, named):
    with pytest.raises(ValueError, match=named):
        plan(**options)


def test_enormous_budgets_are_planned_at_once():
    """Noise is not planned below what has a cost that can be computed in a moment."""
    made = plan(epsilon=1e3, n=300, batch_size=20, n_steps=200)
    assert made.noise_multiplier == 0.5
    assert made.epsilon < 1e3


def test_a_plan_that_hides_iterates_of_another_target_is_refused(monkeypatch):
    """The loss is not convex, and gradients are clipped one by one."""
    budget = Budget(1.0, 1e-5)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 20)), rng.integers(3, size=100)
    target = make_mlp(X, y, 4.0, (20, 16, 3), "tanh", 1.5, 1.0, np.zeros(BOUNDS.n_parameters))
    pretended = OPS().plan(BOUNDS._replace(convex=True, clipped=False), 100, budget)
    with pytest.raises(ValueError, match="convex"):
        sample(target, pretended)
    # Targets need not have bounds of their own: that gradients are clipped is seen without.
    monkeypatch.setattr(_made_for, "_check_bounds", lambda own, bounds: None)
    with pytest.raises(ValueError, match="clip"):
        sample(target, pretended)


def test_the_printed_plan_says_what_is_done():
    text = str(plan(batch_size=500))
    for part in ("sghmc", "noise multiplier", "friction", "500 records expected", "temperature"):
        assert part in text
    assert "relax" not in text
    for sampler in SAMPLERS:
        made = plan(sampler)
        # No public number says how fast a network relaxes, or how hot a thermostat's noise would be.
        assert math.isnan(made.relaxations) and made.warnings == ()
        assert "noise temperature" not in str(made)
