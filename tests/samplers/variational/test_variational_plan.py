"""Plans for Bayes by backprop spend what they say, and no more."""

import math

import numpy as np
import pytest
from references import planned

from skdpbayes.models import TargetBounds
from skdpbayes.privacy import Budget, PrivacyCost, SampledGaussian
from skdpbayes.privacy.conversions import gaussian_epsilon
from skdpbayes.samplers import SGHMC, BayesByBackprop, DPFastMH

BOUNDS = TargetBounds(5, gradient_bound=2.0, smoothness=1.0, prior_precision=(0.25, 1.0))
RELATIONS = ["replace_one", "add_or_remove_one"]


def plan(epsilon=1.0, relation="replace_one", n=1000, delta=1e-5, bounds=BOUNDS, **options):
    return planned(BayesByBackprop, bounds, n, Budget(epsilon, delta, relation), **options)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_full_batches_cost_the_closed_form(relation, epsilon):
    found = plan(epsilon, relation, n_steps=700)
    shift = 2.0 if relation == "replace_one" else 1.0
    mu = math.sqrt(700) * shift / found.noise_multiplier
    assert found.cost.mu == pytest.approx(mu, rel=1e-12) and not found.cost.sampled
    assert found.noise_scale * (1 + 1e-12) >= 2.0 * found.noise_multiplier
    assert 0.99 * epsilon < gaussian_epsilon(mu, 1e-5) <= epsilon
    assert found.epsilon <= epsilon


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("epsilon", "batch_size"), [(0.5, 100), (4.0, 20)])
def test_batches_cost_subsampled_gaussians(relation, epsilon, batch_size):
    found = plan(epsilon, relation, n_steps=200, batch_size=batch_size)
    rate = batch_size / 1000
    assert found.sampling_rate == rate
    added = found.noise_scale * rate / BOUNDS.gradient_bound
    assert added >= found.noise_multiplier
    cost = PrivacyCost(relation, sampled=(SampledGaussian(found.noise_multiplier, rate, 200),))
    assert found.cost == cost
    assert 0.99 * epsilon < cost.epsilon(1e-5) <= epsilon


def test_without_privacy_there_is_no_noise():
    found = plan(math.inf)
    assert found.noise_scale == found.noise_multiplier == 0
    assert math.isinf(found.cost.mu) and math.isinf(found.epsilon)
    assert plan(math.inf, batch_size=10).noise_scale == 0


def test_noise_scales_with_the_bound_and_the_rate():
    assert plan(bounds=BOUNDS._replace(gradient_bound=6.0)).noise_scale == pytest.approx(
        3 * plan().noise_scale
    )
    small = plan(batch_size=100)
    assert small.noise_scale == pytest.approx(20 * small.noise_multiplier, rel=1e-3)


def test_defaults_follow_from_public_numbers():
    found = plan()
    assert found.name == "bbb" and found.n_burn_in == 0 and found.n_draws == 100
    assert found.n_updates == found.n_steps
    assert 0 < found.n_averaged <= found.n_steps
    four = plan(n_steps=4 * found.n_steps)
    assert four.step_size == pytest.approx(found.step_size / 2)
    assert plan(n_steps=1).n_averaged == 1
    given = plan(temperature=3.0, step_size=0.02, initial_scale=0.3, n_draws=7)
    assert (given.temperature, given.step_size, given.initial_scale) == (3.0, 0.02, 0.3)
    assert given.n_draws == 7
    assert plan(math.inf).temperature == 1.0
    for name in ("Kullback-Leibler", "step size", "noise multiplier"):
        assert name in str(found)
    assert found is plan()


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_fitted_gaussian_is_no_narrower_than_the_noise_on_its_mean(relation):
    """Whatever records add to the curvature of a direction; equally wide where they add nothing."""
    found = plan(relation=relation)
    averaged = found.noise_scale / math.sqrt(found.n_steps)
    curvature = np.concatenate([[0.0], np.geomspace(1e-3, 1e4, 50)])
    for precision in BOUNDS.prior_precision:
        total = curvature + found.temperature * precision
        share = averaged / total / np.sqrt(found.temperature / total)
        assert share.max() <= 1 + 1e-4
        if precision == BOUNDS.prior_precision[0]:
            assert share[0] == pytest.approx(1.0, rel=1e-4)
    assert plan(1000.0).temperature == 1.0


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"step_size": 1.5}, "step_size"),
        ({"step_size": np.nan}, "step_size"),
        ({"initial_scale": 1.5}, "initial_scale"),
        ({"temperature": 0.5}, "temperature"),
        ({"n_steps": 0}, "n_steps"),
        ({"n_steps": 10**10}, "n_steps"),
        ({"n_draws": 0}, "n_draws"),
        ({"batch_size": 1001}, "batch_size"),
        ({"delta": 0.0}, "delta=0"),
        ({"epsilon": 1e-12, "n_steps": 100_000}, "is below 1e-09"),
        ({"epsilon": 2e-9, "n_steps": 100_000}, "budget is too small"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(options, what):
    with pytest.raises(ValueError, match=what):
        plan(**options)


def test_what_has_no_meaning_here_is_no_option():
    chains = {"step_decay", "friction", "init", "burn_in"}
    walks = {"proposal", "adapt_step_size", "noise_multiplier", "max_batch_size", "n_effective"}
    assert (chains | walks).isdisjoint(BayesByBackprop().get_params())
    for sampler in (SGHMC, DPFastMH):
        assert "initial_scale" not in sampler().get_params()


def test_too_short_a_fit_is_noted():
    assert "raise n_steps" in " ".join(plan(n_steps=10, step_size=0.01).warnings)
    assert plan().warnings == ()
