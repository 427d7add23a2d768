"""Plans for mixtures: what is refused by name, and what plans depend on."""

import inspect
import math

import pytest

from skdpbayes.models.mixture import MixtureModel
from skdpbayes.privacy import Budget
from skdpbayes.samplers import (
    DPMH,
    OPS,
    SGFS,
    SGHMC,
    SGLD,
    SGNHT,
    Auto,
    BayesByBackprop,
    DPFastMH,
    DPFastMHGaussian,
    NoiseAware,
    PenaltyMH,
)
from skdpbayes.samplers.mixture import MixtureSampler

MODEL = MixtureModel(3, 4, "diag", 4.0, 1.0, 4.0, 6.0, 0.5)
CHAINS = (SGLD, SGHMC, SGNHT, DPMH, DPFastMH, PenaltyMH, DPFastMHGaussian)
EPSILONS = [1.0, math.inf]


def plan(
    sampler=Auto,
    *,
    epsilon=1.0,
    delta=1e-6,
    relation="replace_one",
    n=50_000,
    model=MODEL,
    **options,
):
    budget, n_draws = Budget(epsilon, delta, relation), options.pop("n_draws", None)
    return MixtureSampler(sampler(**options)).plan(model, n, budget, n_draws=n_draws)


def test_one_component_needs_a_single_round():
    for epsilon in EPSILONS:
        made = plan(model=MODEL._replace(n_components=1), epsilon=epsilon)
        assert [phase.n_passes for phase in made.phases] == [1]
        assert made.start_passes == 1 and made.n_updates == made.n_steps + 1


def test_without_privacy_nothing_is_noisy():
    made = plan(epsilon=math.inf)
    assert {phase.noise_scale for phase in made.phases} == {0.0}
    assert made.epsilon == math.inf


def test_a_smaller_budget_means_more_noise_everywhere():
    less, more = plan(epsilon=0.5), plan(epsilon=2.0)
    for first, second in zip(less.phases, more.phases, strict=True):
        assert first.noise_scale > 2.0 * second.noise_scale
    for first, second in zip(less.round_multipliers, more.round_multipliers, strict=True):
        assert first > 2.0 * second


def test_what_a_release_may_change_by_less_than_rounding_is_refused():
    large = MixtureModel(4, 30, "full", 4.0, 1.0, 4.0, 32.0, 0.5)
    with pytest.raises(ValueError, match="lost in rounding"):
        plan(epsilon=1e-7, delta=1e-7, n=10**6, model=large)


# What is refused, and what a plan depends on


@pytest.mark.parametrize("sampler", [*CHAINS, OPS, SGFS, BayesByBackprop])
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_chains_are_not_for_mixtures(sampler, epsilon):
    supported = "take one of 'auto', 'gibbs', 'noise_aware'"
    with pytest.raises(
        ValueError, match=f"'{sampler.name}' does not support mixtures: {supported}"
    ):
        plan(sampler, epsilon=epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(
    "options, named",
    [
        ({"delta": 1.0}, "delta"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"relation": "swap"}, "neighboring_relation"),
        ({"n": 0}, "n_samples"),
        ({"temperature": 0.5}, "temperature"),
        ({"temperature": 2.0}, "temperature"),
        ({"n_draws": 0}, "n_draws"),
        ({"n_steps": 0}, "n_steps"),
        ({"friction": 0.3}, "friction: sampler='auto' has no such options for mixtures"),
        ({"burn_in": 0.3, "batch_size": 100}, "batch_size, burn_in: sampler='auto' has no"),
        ({"model": MODEL._replace(covariance_type="round")}, "covariance_type"),
        ({"model": MODEL._replace(n_components=0)}, "n_components"),
        ({"model": MODEL._replace(n_features=0)}, "n_features"),
        ({"model": MODEL._replace(degrees_of_freedom=0.0)}, "degrees_of_freedom"),
        (
            {"model": MODEL._replace(covariance_type="full", degrees_of_freedom=3.0)},
            "degrees_of_freedom",
        ),
        (
            {"model": MODEL._replace(covariance_type="tied", degrees_of_freedom=2.9)},
            "degrees_of_freedom",
        ),
        ({"model": MODEL._replace(degrees_of_freedom=math.inf)}, "degrees_of_freedom"),
        ({"model": MODEL._replace(covariance=0.0)}, "covariance"),
        ({"model": MODEL._replace(covariance=math.nan)}, "covariance"),
        ({"model": MODEL._replace(mean_scale=-1.0)}, "mean_scale"),
        ({"model": MODEL._replace(mean_scale=1e-200)}, "too far apart"),
        ({"model": MODEL._replace(data_norm=math.inf)}, "data_norm"),
        ({"model": MODEL._replace(data_norm=1e-200)}, "too far apart"),
        ({"model": MODEL._replace(weight_concentration=0.0)}, "weight_concentration"),
    ],
)
def test_options_that_cannot_hold_are_refused_by_name(options, named, epsilon):
    with pytest.raises(ValueError, match=named):
        plan(**{"epsilon": epsilon, **options})


def test_noise_needs_a_delta():
    with pytest.raises(ValueError, match="delta"):
        plan(delta=0.0)
    assert plan(delta=0.0, epsilon=math.inf).name == "gibbs"


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_least_degrees_of_freedom_are_enough(epsilon):
    for kind, degrees in (("full", 3.01), ("tied", 3.01), ("diag", 0.01), ("spherical", 0.01)):
        model = MODEL._replace(covariance_type=kind, degrees_of_freedom=degrees)
        assert plan(model=model, epsilon=epsilon).model.degrees_of_freedom == degrees


def test_a_plan_sees_public_numbers_only():
    names = list(inspect.signature(MixtureSampler(NoiseAware()).plan).parameters)
    assert names == ["model", "n_samples", "budget", "n_draws"]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_equal_numbers_have_the_same_plan(epsilon):
    made = plan(epsilon=epsilon)
    assert plan(epsilon=epsilon) == made and hash(plan(epsilon=epsilon)) == hash(made)
    assert len({made, plan(epsilon=epsilon), plan(epsilon=2.0)}) == 2


def test_auto_is_noise_aware():
    assert plan(Auto) == plan(NoiseAware) and plan(Auto).name == "noise_aware"


def test_a_plan_prints_what_it_does():
    text = str(plan())
    for word in ("epsilon", "delta", "replace-one", "12 passes to soft", "noise on statistics"):
        assert word in text
