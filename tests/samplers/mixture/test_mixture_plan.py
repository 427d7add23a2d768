"""Plans for mixtures: a start and a path are paid for together, before the start is known."""

import inspect
import math

import pytest

from skdpbayes.privacy import Budget
from skdpbayes.privacy.gaussian import gaussian_mu
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
    PenaltyMH,
)
from skdpbayes.samplers.mixture import MixtureSampler
from skdpbayes.samplers.mixture.path import complete_path
from skdpbayes.targets.mixture.target import MixtureModel

MODEL = MixtureModel(3, 4, "diag", 4.0, 1.0, 4.0, 6.0, 0.5)
DIFFUSIONS = (SGLD, SGHMC, SGNHT)
WALKS = (DPMH, DPFastMH, PenaltyMH, DPFastMHGaussian)
RELATIONS = ["replace_one", "add_or_remove_one"]


def plan(
    sampler=SGLD,
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


def completed(made, bound_within, prior_curvature):
    """Return the path, once the start is known."""
    return complete_path(made, made.sampler.path, bound_within, prior_curvature)


def statistics_sensitivity(relation):
    """Of (1, x, x^2) for rows in the unit ball, two of which are never at an obtuse angle."""
    return math.sqrt(6.0 if relation == "replace_one" else 3.0)


def start_mu(made):
    """What the start costs, from its noise alone."""
    sensitivity = statistics_sensitivity(made.budget.neighboring_relation)
    return math.sqrt(
        sum(phase.n_passes * (sensitivity / phase.noise_scale) ** 2 for phase in made.phases)
    )


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sampler", DIFFUSIONS)
def test_start_and_path_together_use_up_the_budget(sampler, relation, epsilon):
    made = plan(sampler, epsilon=epsilon, relation=relation)
    total = gaussian_mu(epsilon, made.delta)
    shift = 2.0 if relation == "replace_one" else 1.0
    path = shift * math.sqrt(made.n_steps) / made.noise_multiplier
    # Rounding of statistics is charged with them: the exact sum is below the total by that little.
    assert total * (1 - 3e-4) < math.hypot(start_mu(made), path) <= total
    assert total * (1 - 1e-6) < made.cost.mu <= total * (1 + 1e-12)
    assert epsilon * (1 - 1e-5) < made.epsilon <= epsilon


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sampler", WALKS)
def test_start_and_walk_together_stay_within_the_budget(sampler, relation):
    made = plan(sampler, relation=relation)
    total = gaussian_mu(1.0, made.delta)
    assert start_mu(made) < 0.9 * total
    both = made.walk.cost.epsilon(made.delta)
    assert both < made.epsilon <= 1.0
    assert made.epsilon > 0.9
    # The walk alone must leave room for the start.
    assert both < 1.0 - 0.1 * start_mu(made)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(
    "sampler, options",
    [(sampler, {"batch_size": 500}) for sampler in DIFFUSIONS]
    + [(sampler, {"temperature": 3.0}) for sampler in DIFFUSIONS]
    + [(sampler, {"temperature": 50.0}) for sampler in WALKS]
    + [(SGLD, {"n_steps": 1000, "burn_in": 0.5}), (DPFastMH, {"n_steps": 500})],
)
def test_options_do_not_lead_beyond_the_budget(sampler, options, relation):
    made = plan(sampler, relation=relation, **options)
    assert 0.9 < made.epsilon <= 1.0 or sampler in WALKS
    assert 0 < made.epsilon <= 1.0
    if "batch_size" in options:
        assert made.sampling_rate == 500 / 50_000
        (sampled,) = made.cost.sampled
        assert sampled.noise_multiplier == made.noise_multiplier
        assert sampled.sampling_rate == made.sampling_rate
        assert sampled.count == made.n_steps
        assert made.cost.mu >= start_mu(made)


@pytest.mark.parametrize("sampler", (*DIFFUSIONS, *WALKS))
def test_a_plan_never_costs_more_than_is_asked_for(sampler):
    asked = [(0.05, 10**6, 1e-9), (2.0, 50, 1e-3)]
    if sampler in DIFFUSIONS:
        asked += [(0.7, 300, 1e-5), (20.0, 300, 1e-9), (20.0, 10**6, 1e-3)]
    for epsilon, n, delta in asked:
        for kind, n_components in (("spherical", 7), ("full", 1)):
            model = MODEL._replace(covariance_type=kind, n_components=n_components)
            made = plan(sampler, epsilon=epsilon, delta=delta, n=n, model=model)
            assert 0 < made.epsilon <= epsilon


def test_one_component_needs_a_single_look():
    made = plan(model=MODEL._replace(n_components=1))
    assert [phase.n_passes for phase in made.phases] == [1]
    assert made.start_passes == 1
    assert made.n_updates == made.n_steps + 1


def test_without_privacy_nothing_is_noisy():
    made = plan(epsilon=math.inf)
    assert {phase.noise_scale for phase in made.phases} == {0.0}
    assert made.noise_multiplier == 0.0
    assert made.epsilon == math.inf


def test_a_smaller_budget_means_more_noise_everywhere():
    less, more = plan(epsilon=0.5), plan(epsilon=2.0)
    for first, second in zip(less.phases, more.phases, strict=True):
        assert first.noise_scale > 2.0 * second.noise_scale
    assert less.noise_multiplier > 2.0 * more.noise_multiplier


# The path, once the start is known


def actual_multiplier(path):
    """Noise of a step over what one record can move it by, from the recursions themselves."""
    moved = path.bounds.gradient_bound / path.sampling_rate
    if isinstance(path.sampler, SGLD):
        # theta - eta g + N(0, 2 eta tau)
        return math.sqrt(2.0 * path.step_size * path.temperature) / (path.step_size * moved)
    # u - kappa g + N(0, 2 kappa f tau)
    noise = math.sqrt(2.0 * path.gradient_step * path.friction * path.temperature)
    return noise / (path.gradient_step * moved)


PATHS = [
    {},
    {"temperature": 1.0},
    {"temperature": 30.0},
    {"batch_size": 2000},
    {"n_steps": 400, "batch_size": 500, "temperature": 2.0},
    {"n_draws": 10, "n_steps": 40, "temperature": 5.0},
]


@pytest.mark.parametrize("options", PATHS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sampler", DIFFUSIONS)
def test_no_step_has_less_noise_than_was_paid_for(sampler, relation, options):
    made = plan(sampler, relation=relation, **options)
    for bound in (1.0, 7.0, 100.0, 1e3, 1e5):
        for prior_curvature in (1e-8, 3.0, 1e6):
            path = completed(made, lambda _, bound=bound: bound, prior_curvature)
            assert path.bounds.gradient_bound >= bound
            assert actual_multiplier(path) >= made.noise_multiplier * (1 - 1e-9)
            assert path.noise_multiplier == made.noise_multiplier
            assert (path.n_steps, path.n_draws) == (made.n_steps, made.n_draws)
            assert path.sampling_rate == made.sampling_rate
            assert path.step_decay == 0
            assert path.cost is made.cost
            assert path.step_size > 0
            if "temperature" in options:
                assert path.temperature == options["temperature"]
            assert path.temperature >= 1


@pytest.mark.parametrize("sampler", DIFFUSIONS)
def test_most_of_what_was_paid_for_is_used_where_noise_binds(sampler):
    path = completed(plan(sampler), lambda _: 1e4, 1.0)
    assert actual_multiplier(path) == pytest.approx(path.noise_multiplier, rel=1e-3)


@pytest.mark.parametrize("sampler", [SGLD, SGHMC])
def test_the_temperature_is_the_lowest_that_affords_the_relaxations(sampler):
    made = plan(sampler)
    cold = completed(made, lambda _: 1.0, 1.0)
    assert cold.temperature == 1
    assert cold.relaxations == pytest.approx(cold.wanted_relaxations)
    hot = completed(made, lambda _: 1.5e2, 1.0)
    assert hot.temperature > 10
    assert hot.relaxations == pytest.approx(hot.wanted_relaxations, rel=1e-6)
    colder = completed(plan(sampler, temperature=0.97 * hot.temperature), lambda _: 1.5e2, 1.0)
    assert colder.relaxations < 0.98 * colder.wanted_relaxations
    assert "relaxes" in colder.warnings[0]
    # Gradients twice as long need four times the temperature.
    hotter = completed(made, lambda _: 3e2, 1.0)
    assert hotter.temperature == pytest.approx(4.0 * hot.temperature, rel=1e-3)


def test_a_thermostat_stays_at_temperature_one_and_cuts_time():
    made = plan(SGNHT)
    short, long = completed(made, lambda _: 1e3, 1.0), completed(made, lambda _: 1.0, 1.0)
    assert short.temperature == long.temperature == 1
    assert short.relaxations < 0.1 * short.wanted_relaxations
    assert long.relaxations == pytest.approx(long.wanted_relaxations)


def test_a_path_has_room_where_its_draws_are():
    """Bounds grow with the distance from the start, and temperatures with bounds."""
    made = plan()
    path = completed(made, lambda spread: 100.0 * (1.0 + 3.0 * spread), 1.0)
    spread = math.sqrt(path.temperature / made.n_samples)
    assert path.bounds.gradient_bound >= 1.19 * 100.0 * (1.0 + 3.0 * spread)
    assert path.relaxations == pytest.approx(path.wanted_relaxations, rel=1e-6)
    # Where that has no end, the temperature does, and time is cut.
    endless = completed(made, lambda spread: 100.0 * math.exp(50.0 * spread), 1.0)
    assert endless.temperature == pytest.approx(0.01 * made.n_samples)
    assert endless.relaxations < 0.5 * endless.wanted_relaxations
    assert actual_multiplier(endless) >= endless.noise_multiplier * (1 - 1e-9)


def test_batches_raise_the_temperature_until_there_is_time():
    made = plan(batch_size=10_000, n=50_000)
    path = completed(made, lambda _: 100.0, 1.0)
    assert path.temperature > 1
    assert path.relaxations == pytest.approx(path.wanted_relaxations, rel=1e-6)


@pytest.mark.parametrize("sampler", [SGLD, SGHMC])
def test_steps_that_are_lost_in_rounding_are_refused(sampler):
    """A record may move a step by less than rounding does: nothing can be claimed of it."""
    large = MixtureModel(10, 30, "full", 4.0, 1.0, 4.0, 32.0, 0.5)
    with pytest.raises(ValueError, match="lost in rounding"):
        plan(sampler, epsilon=0.01, delta=1e-7, n=10**6, model=large, n_steps=10**6)
    with pytest.raises(ValueError, match="lost in rounding"):
        plan(sampler, epsilon=1e-4, delta=1e-7, n=10**6, model=large)


def test_scales_that_have_nothing_to_do_with_rows_are_refused():
    with pytest.raises(ValueError, match="too far apart"):
        plan(model=MODEL._replace(data_norm=1e-200))
    with pytest.raises(ValueError, match="too far apart"):
        plan(model=MODEL._replace(mean_scale=1e-200))


def test_a_path_is_stable():
    """No step goes further than the curvature of data and prior allows."""
    for epsilon in (1.0, 50.0, math.inf):
        made = plan(epsilon=epsilon)
        for prior_curvature in (1e-8, 1.0, 1e7):
            path = completed(made, lambda _: 1.0, prior_curvature)
            stiffest = 50_000 * path.bounds.smoothness + path.temperature * prior_curvature
            assert path.step_size * stiffest <= 1 + 1e-9


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("sampler", WALKS)
def test_a_walk_keeps_the_range_that_was_paid_for(sampler, relation):
    """Accept bits cost by a = bound * distance / temperature; distances shrink as the bound grows."""
    made = plan(sampler, relation=relation, temperature=5.0)
    nominal = made.walk.bounds.gradient_bound * made.walk.step_size / made.walk.temperature
    for bound in (1.0, 30.0, 1e5):
        walk = made.complete_walk(bound)
        assert walk.bounds.gradient_bound == bound
        assert bound * walk.step_size / walk.temperature == pytest.approx(nominal, rel=1e-12)
        assert walk.temperature == made.temperature == 5.0
        assert walk.cost is made.cost and walk.budget == made.budget
        assert walk.batch_size == made.walk.batch_size
        assert walk.lambda_t == pytest.approx(made.walk.lambda_t, rel=1e-12)
        assert walk.noise_variance == made.walk.noise_variance
        assert walk.n_steps == made.n_steps
        # What the clock charges for the nominal distance stays the same, too.
        charge = walk.clock.coefficient * walk.step_size**2
        nominal_charge = made.walk.clock.coefficient * made.walk.step_size**2
        assert charge == pytest.approx(nominal_charge, rel=1e-12)
        assert walk.clock.total == made.walk.clock.total


# What is refused, and what a plan depends on


@pytest.mark.parametrize(
    "options, named",
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": 0.0, "sampler": DPFastMH}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"relation": "swap"}, "neighboring_relation"),
        ({"n": 0}, "n_samples"),
        ({"step_size": 1e-6}, "step_size"),
        ({"step_decay": 0.3}, "step_decay"),
        ({"init": "ops"}, "init"),
        ({"release": "last_iterate"}, "release"),
        ({"sampler": OPS}, "sampler='ops' does not support mixtures"),
        ({"sampler": SGFS}, "sampler='sgfs' does not support mixtures"),
        ({"sampler": BayesByBackprop}, "sampler='bbb' does not support mixtures"),
        ({"sampler": DPMH, "step_size": 1e-6}, "step_size"),
        ({"temperature": 0.5}, "temperature"),
        ({"n_steps": 50, "n_draws": 100}, "n_steps"),
        ({"batch_size": 50_001}, "batch_size"),
        ({"sampler": SGHMC, "friction": 1.5}, "friction"),
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
        ({"model": MODEL._replace(data_norm=math.inf)}, "data_norm"),
        ({"model": MODEL._replace(weight_concentration=0.0)}, "weight_concentration"),
    ],
)
def test_options_that_cannot_hold_are_refused_by_name(options, named):
    with pytest.raises(ValueError, match=named):
        plan(**options)


def test_the_least_degrees_of_freedom_are_enough():
    for kind, degrees in (("full", 3.01), ("tied", 3.01), ("diag", 0.01), ("spherical", 0.01)):
        model = MODEL._replace(covariance_type=kind, degrees_of_freedom=degrees)
        assert plan(model=model).model.degrees_of_freedom == degrees


def test_a_plan_sees_public_numbers_only():
    names = list(inspect.signature(MixtureSampler(SGLD()).plan).parameters)
    assert names == ["model", "n_samples", "budget", "n_draws"]


@pytest.mark.parametrize("sampler", [SGLD, DPFastMH])
def test_equal_numbers_have_the_same_plan(sampler):
    made = plan(sampler)
    assert plan(sampler) == made and hash(plan(sampler)) == hash(made)
    assert len({made, plan(sampler), plan(sampler, epsilon=2.0)}) == 2


def test_auto_is_underdamped():
    made = plan(Auto, friction=0.3)
    assert made.name == "sghmc" and made.sampler.path.friction == 0.3
    assert made == plan(SGHMC, friction=0.3)


@pytest.mark.parametrize("sampler", [*DIFFUSIONS, *WALKS])
def test_a_plan_prints_what_it_does(sampler):
    text = str(plan(sampler, temperature=50.0))
    for word in ("epsilon", "delta", "replace-one", "40 passes to refine", "noise on statistics"):
        assert word in text
    assert "released start" in str(plan(SGLD))
