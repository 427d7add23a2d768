"""Paths of mixtures: their law where it is known, and fits at the cost of their plans."""

import math

import numpy as np
import pytest
from references import effective_size

from skdpbayes.privacy import Budget
from skdpbayes.samplers import DPMH, SGHMC, SGLD, SGNHT, DPFastMH, sample
from skdpbayes.samplers._protocol import carry_out
from skdpbayes.samplers.mixture import MixtureSampler
from skdpbayes.targets.mixture.target import MixtureModel, make_mixture, unpack_mixture

NOT_PRIVATE = Budget(np.inf, 1e-5)


# Draws against a grid


PRIOR_DEVIATION = 3.0


def gridded_moments(x, temperature=1.0):
    """(mean, deviation) of the middle of two means and of their distance, x ~ N(m1, 2)/2 + N(m2, 2)/2."""
    axis = np.linspace(-3.0, 6.0, 361)
    one = -((x[:, None] - axis) ** 2) / 4.0
    log_density = sum(np.logaddexp(row[:, None], row) for row in one) / temperature
    log_density -= np.add.outer(axis**2, axis**2) / (2.0 * PRIOR_DEVIATION**2)
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    edge = max(density[0].max(), density[-1].max())
    assert edge < 1e-6 * density.max()
    moments = []
    for value in (np.add.outer(axis, axis) / 2.0, np.abs(np.subtract.outer(axis, axis))):
        mean = (density * value).sum()
        moments.append((mean, math.sqrt((density * (value - mean) ** 2).sum())))
    return moments


@pytest.mark.parametrize(
    "sampler, n_steps",
    [
        (SGHMC, 50_000),
        pytest.param(SGLD, 100_000, marks=pytest.mark.nightly),
        pytest.param(SGNHT, 50_000, marks=pytest.mark.nightly),
    ],
)
def test_two_means_against_a_grid(sampler, n_steps):
    """Weights and variances are pinned by their prior, which leaves the two means free."""
    rng = np.random.default_rng(1)
    n = 250
    x = np.where(rng.random(n) < 0.5, 0.0, 3.0) + math.sqrt(2.0) * rng.standard_normal(n)
    model = MixtureModel(2, 1, "diag", 20.0, 500.0, PRIOR_DEVIATION, 1000.0, 2.0)
    assert np.abs(x).max() < model.data_norm
    made = MixtureSampler(sampler(burn_in=0.1, n_steps=n_steps))
    plan = made.plan(model, n, NOT_PRIVATE, n_draws=n_steps // 4)
    draws = sample(make_mixture(x[:, None], model), plan, random_state=0)
    weights, means, factors = unpack_mixture(draws, model)
    assert np.abs(weights[:, 0] - 0.5).max() < 0.1
    assert np.abs(factors**-2.0 - 2.0).max() < 0.6
    first, second = means[:, 0, 0], means[:, 1, 0]
    found = ((first + second) / 2.0, np.abs(first - second))
    expected, hotter = gridded_moments(x), gridded_moments(x, 2.0)
    for values, (mean, deviation), (_, hot) in zip(found, expected, hotter, strict=True):
        size = effective_size(values)
        assert abs(values.mean() - mean) < (4.0 / math.sqrt(size) + 0.05) * deviation
        tolerance = 3.5 / math.sqrt(2.0 * size) + 0.04
        assert values.std() == pytest.approx(deviation, rel=tolerance)
        # A temperature off by two would be noticed.
        assert hot > (1.0 + 2.0 * tolerance) * deviation


# Everything together


def blobs(n=10_000):
    """Return (true means, table) of three blobs that are apart."""
    rng = np.random.default_rng(3)
    truth = np.array([[1.2, 0.0], [-0.8, 1.0], [-0.8, -1.0]])
    rows = truth[rng.choice(3, size=n, p=[0.5, 0.3, 0.2])] + 0.2 * rng.normal(size=(n, 2))
    return truth, make_mixture(rows, blob_plan("diag", SGLD, n)[0])


def blob_plan(kind, sampler, n=10_000):
    model = MixtureModel(3, 2, kind, 2.0, 1.0, 2.0, 4.0, 0.05)
    budget = Budget(10.0, 1e-5)
    return model, MixtureSampler(sampler(n_steps=150)).plan(model, n, budget, n_draws=50)


FITS = [("spherical", SGLD), ("tied", SGLD)]
FITS += [(kind, sampler) for kind in ("diag", "full") for sampler in (SGLD, SGHMC, SGNHT)]
FITS += [
    pytest.param(kind, sampler, marks=pytest.mark.nightly)
    for kind in ("spherical", "tied")
    for sampler in (SGHMC, SGNHT)
]


@pytest.mark.parametrize("kind, sampler", FITS)
def test_blobs_are_fitted_at_the_plans_cost(kind, sampler):
    truth, table = blobs()
    model, plan = blob_plan(kind, sampler)
    released = carry_out(table, plan, 5, 0)
    assert released.plan.cost is plan.cost and released.plan.epsilon <= 10.0
    assert released.plan.noise_multiplier == plan.noise_multiplier
    weights, means, _ = unpack_mixture(released.draws, model)
    assert means.shape == (50, 3, 2)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    distances = np.linalg.norm(means.mean(axis=0)[:, None] - truth, axis=2)
    nearest = distances.argmin(axis=0)
    assert sorted(nearest) == [0, 1, 2]
    assert distances.min(axis=0).max() < 0.05
    assert np.abs(weights.mean(axis=0)[nearest] - [0.5, 0.3, 0.2]).max() < 0.03


@pytest.mark.parametrize("sampler", [SGLD, SGHMC, SGNHT])
def test_a_seed_says_it_all_and_another_table_costs_as_much(sampler):
    _, table = blobs(2000)
    model, plan = blob_plan("diag", sampler, 2000)
    first, again, other = (carry_out(table, plan, seed, 0) for seed in (5, 5, 6))
    np.testing.assert_array_equal(again.draws, first.draws)
    assert (other.draws != first.draws).any()
    blank = carry_out(make_mixture(np.zeros((2000, 2)), model), plan, 5, 0)
    assert blank.plan.cost is plan.cost is first.plan.cost
    assert np.isfinite(blank.draws).all()


# Random walks


MODEL = MixtureModel(2, 1, "diag", 3.0, 1.0, 3.0, 3.0, 0.5)
CENTRES, DEVIATION, SIZE = np.array([-1.5, 1.5]), 0.3, 1000


@pytest.fixture
def rows(rng):
    labels = np.arange(SIZE) % 2
    return (CENTRES[labels] + DEVIATION * rng.standard_normal(SIZE))[:, None]


def draws_of(rows, sampler, temperature):
    """Weights, means and factors, a column for each component in the order of means, without privacy."""
    made = MixtureSampler(sampler(temperature=temperature, n_steps=20_000))
    plan = made.plan(MODEL, len(rows), NOT_PRIVATE, n_draws=1500)
    draws = sample(make_mixture(rows, MODEL), plan, random_state=0)
    weights, means, factors = unpack_mixture(draws, MODEL)
    order = np.argsort(means[:, :, 0], axis=1)
    return [
        np.take_along_axis(part[:, :, 0] if part.ndim == 3 else part, order, 1)
        for part in (weights, means, factors)
    ]


@pytest.mark.parametrize(
    "sampler, temperature",
    [
        (DPMH, 4.0),
        (DPFastMH, 1.0),
        pytest.param(DPMH, 1.0, marks=pytest.mark.nightly),
        pytest.param(DPFastMH, 4.0, marks=pytest.mark.nightly),
    ],
)
def test_a_walk_has_the_posterior_of_components_that_are_far_apart(rows, sampler, temperature):
    """Labels are known there: means are normal, weights Beta, precisions Gamma, of n / tau rows."""
    weights, means, factors = draws_of(rows, sampler, temperature)
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


@pytest.mark.parametrize("kind", ["diag", pytest.param("full", marks=pytest.mark.nightly)])
def test_a_walk_spends_what_its_plan_says_and_stays_near_the_start(rng, kind):
    model = MixtureModel(2, 4, kind, 3.0, 1.0, 3.0, 6.0, 0.5)
    n = 20_000
    X = rng.choice([-1.0, 1.0], size=(n, 1)) + 0.3 * rng.standard_normal((n, 4))
    plan = MixtureSampler(DPFastMH()).plan(model, n, Budget(3.0, 1e-6))
    assert 0.9 < plan.epsilon <= 3.0
    released = carry_out(make_mixture(X, model), plan, 0, 0)
    assert released.plan.cost is plan.cost
    assert np.isfinite(released.draws).all()
    assert 0 < released.other["acceptance_rate"] < 1
