"""Random walks and exact samples of mixtures: their law where it is known, and what their plans say."""

import math
import warnings

import numpy as np
import pytest
from scipy.stats import multivariate_normal, special_ortho_group
from skdpbayes.privacy.mixture_sample import largest_factor, log_density_range

from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.privacy import Budget, SamplerOptions, plan_mixture
from skdpbayes.samplers import carry_out
from skdpbayes.targets import MixtureModel, make_mixture, unpack_mixture

MODEL = MixtureModel(2, 1, "diag", 3.0, 1.0, 3.0, 3.0, 0.5)
CENTRES, DEVIATION, SIZE = np.array([-1.5, 1.5]), 0.3, 1000


@pytest.fixture
def rows(rng):
    labels = np.arange(SIZE) % 2
    return (CENTRES[labels] + DEVIATION * rng.standard_normal(SIZE))[:, None]


def draws_of(rows, sampler, temperature, model=MODEL, **options):
    """Sorted means, a column for each component, without privacy."""
    plan = plan_mixture(
        model,
        len(rows),
        Budget(math.inf, 1e-6),
        SamplerOptions(temperature=temperature, n_draws=1500, **options),
        sampler=sampler,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        released = carry_out(make_mixture(rows, model), plan, 0, 0)
    weights, means, factors = unpack_mixture(released.draws, model)
    order = np.argsort(means[:, :, 0], axis=1)
    return [
        np.take_along_axis(part[:, :, 0] if part.ndim == 3 else part, order, 1)
        for part in (weights, means, factors)
    ]


@pytest.mark.parametrize(
    "sampler, options",
    [
        ("dp_mh", {"n_steps": 20_000}),
        ("dp_fast_mh", {"n_steps": 20_000}),
        ("ops", {"n_steps": 20_000}),
    ],
)
@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_a_walk_has_the_posterior_of_components_that_are_far_apart(
    rows, sampler, options, temperature
):
    """Labels are known there: means are normal, weights Beta, precisions Gamma, of n / tau rows."""
    weights, means, factors = draws_of(rows, sampler, temperature, **options)
    for k, centre in enumerate(CENTRES):
        own = rows[np.abs(rows[:, 0] - centre) < 1.5, 0]
        n = len(own) / temperature
        deviation = own.std() / math.sqrt(n)
        assert means[:, k].mean() == pytest.approx(own.mean(), abs=0.25 * deviation)
        assert means[:, k].std() == pytest.approx(deviation, rel=0.2)
        log_factors = np.log(factors[:, k])
        spread = 1.0 / math.sqrt(2.0 * n)
        # The prior counts as few rows of a larger variance.
        expected = -0.5 * math.log(
            (n * own.var() + 3.0 * MODEL.covariance) / (n + MODEL.degrees_of_freedom)
        )
        assert log_factors.mean() == pytest.approx(expected, abs=0.3 * spread)
        assert log_factors.std() == pytest.approx(spread, rel=0.2)
    n = SIZE / temperature
    assert weights[:, 0].mean() == pytest.approx(0.5, abs=0.2 / math.sqrt(n))
    assert weights[:, 0].std() == pytest.approx(0.5 / math.sqrt(n + 2.0), rel=0.2)


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_a_walk_spends_what_its_plan_says_and_stays_near_the_start(rng, kind):
    model = MixtureModel(2, 4, kind, 3.0, 1.0, 3.0, 6.0, 0.5)
    n = 20_000
    X = rng.choice([-1.0, 1.0], size=(n, 1)) + 0.3 * rng.standard_normal((n, 4))
    plan = plan_mixture(model, n, Budget(3.0, 1e-6), sampler="dp_fast_mh")
    assert 0.9 < plan.epsilon <= 3.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        released = carry_out(make_mixture(X, model), plan, 0, 0)
    assert released.plan.cost is plan.cost
    assert np.isfinite(released.draws).all()
    assert 0 < released.other["acceptance_rate"] < 1


# Exact samples


@pytest.mark.parametrize("kind", ["spherical", "diag", "full"])
def test_log_densities_stay_within_the_range_that_is_charged(rng, kind):
    """Over rows and means in the unit ball, and singular values up to the largest."""
    d = 3
    model = MixtureModel(1, d, kind, 1.0, 1.0, 1.0, 5.0, 0.4)
    f = largest_factor(model)
    low, high = math.inf, -math.inf

    def ends():
        row, mean = rng.standard_normal((2, d))
        row, mean = row / np.linalg.norm(row), mean / np.linalg.norm(mean)
        yield from ((row, row), (row, -row), (row, mean))

    for _ in range(300):
        turn = special_ortho_group.rvs(d, random_state=rng)
        values = np.where(rng.random(d) < 0.5, 1.0, f)
        for row, mean in ends():
            along = turn.copy()
            along[:, 0] = row  # A singular direction that a worst row lies in.
            basis = np.linalg.qr(along)[0] if kind == "full" else np.eye(d)
            covariance = (basis / values**2) @ basis.T
            density = multivariate_normal(mean, covariance).logpdf(row)
            low, high = min(low, density), max(high, density)
    assert high - low <= log_density_range(model) * (1 + 1e-9)
    if kind == "full":
        assert high - low >= 0.99 * log_density_range(model)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_exact_samples_are_charged_their_range(relation):
    plan = plan_mixture(
        MODEL, 10_000, Budget(5.0, 1e-6, relation), SamplerOptions(n_draws=1), sampler="ops"
    )
    shift = 2.0 if relation == "replace_one" else 1.0
    assert plan.cost.pure_epsilon == pytest.approx(
        shift * log_density_range(MODEL) / plan.temperature
    )
    assert 4.9 < plan.epsilon <= 5.0
    several = plan_mixture(
        MODEL, 10_000, Budget(5.0, 1e-6, relation), SamplerOptions(n_draws=4), sampler="ops"
    )
    assert several.temperature > 1.5 * plan.temperature
    assert several.epsilon <= 5.0


def test_exact_samples_say_what_their_cost_rests_on(rows):
    plan = plan_mixture(
        MODEL, SIZE, Budget(10.0, 1e-6), SamplerOptions(n_steps=200, n_draws=2), sampler="ops"
    )
    assert "exact" in plan.condition and "condition" in str(plan)
    with pytest.warns(PrivacyWarning, match="draws are exact"):
        carry_out(make_mixture(rows, MODEL), plan, 0, 0)
    assert plan_mixture(MODEL, SIZE, Budget(10.0, 1e-6)).condition == ""


def test_options_of_exact_samples_are_checked():
    budget = Budget(1.0, 1e-6)
    for options, match in (
        (SamplerOptions(batch_size=10), "batch_size"),
        (SamplerOptions(temperature=2.0), "temperature=2 costs more"),
        (SamplerOptions(n_steps=5, n_draws=10), "n_steps=5 leaves fewer"),
    ):
        with pytest.raises(ValueError, match=match):
            plan_mixture(MODEL, 1000, budget, options, sampler="ops")
