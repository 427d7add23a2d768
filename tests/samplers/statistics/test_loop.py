"""One loop asks what a plan says, pays what it says, and checks its chains."""

import math
import pickle
import re
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import nbinom, poisson
from summed import clipped_sums, squares_moment, weighted_moment

from skdpbayes.linear_model import (
    DPBayesianLogisticRegression,
    DPBayesianPoissonRegressor,
    DPBayesianRidge,
)
from skdpbayes.models import LinearModel, Logistic, Normal
from skdpbayes.models.families.poisson import partial_moments
from skdpbayes.models.sums import (
    clipped_of_block,
    moment_of_block,
    read_together,
    residuals_of_block,
)
from skdpbayes.samplers import ClippedResiduals, NoiseAware
from skdpbayes.samplers.statistics import hmc
from skdpbayes.samplers.statistics import release as module_of_bars
from skdpbayes.samplers.statistics import requests as module
from skdpbayes.samplers.statistics.design import Design
from skdpbayes.samplers.statistics.hmc import effective_sample_size, r_hat
from skdpbayes.samplers.statistics.population import normal_population
from skdpbayes.samplers.statistics.prior import Prior, growth_of
from skdpbayes.samplers.statistics.requests import Part, Question, release_sum

RELATIONS = ("replace_one", "add_or_remove_one")


def estimators(**options):
    """One estimator of each kind of responses, and their names."""
    given = {"epsilon": 1.0, "delta": 1e-6, "data_norm": 1.5, **options}
    return {
        "labels": DPBayesianLogisticRegression(sampler="noise_aware", **given),
        "numbers": DPBayesianRidge((-3.0, 3.0), **given),
        "counts": DPBayesianPoissonRegressor(max_count=30, sampler="clipped_residuals", **given),
    }


def small_table(kind, n=3000):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1.0, 1.0, (n, 2))
    signal = X @ [0.6, -0.4]
    y = {
        "labels": lambda: (rng.random(n) < 1.0 / (1.0 + np.exp(-signal))).astype(int),
        "numbers": lambda: signal + 0.3 * rng.normal(size=n),
        "counts": lambda: rng.poisson(np.exp(signal + 1.0)),
    }[kind]()
    return X, y


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("kind", ["labels", "numbers", "counts"])
def test_rounds_cost_together_what_a_plan_costs(kind, relation):
    public_size = 3000 if relation == "add_or_remove_one" else None
    estimator = estimators(neighboring_relation=relation, public_size=public_size)[kind]
    plan = estimator.privacy_plan(3000, 2)
    requests = [request for together in plan.rounds for request in together]
    total = math.sqrt(sum(request.mu_squared for request in requests))
    assert plan.cost.mu == pytest.approx(total, rel=1e-12)
    assert plan.cost.epsilon(1e-6) <= 1.0
    alone = [r for r in requests if r.kind not in ("score", "residuals", "wide_clip")]
    for request in alone:  # What is not read together with another sum costs what it would alone.
        expected = sum(multiplier**-2.0 for multiplier in request.multipliers)
        assert request.mu_squared == pytest.approx(expected)


@pytest.mark.parametrize("kind", ["labels", "numbers", "counts"])
def test_what_is_released_is_what_the_rounds_say(kind, monkeypatch):
    """Every request is asked once, in the order of the plan, and costs are those that are charged."""
    charged = []
    for name in ("release_vector", "release_moment"):
        original = getattr(module, name)

        def told(*args, original=original, charged_mu=None, is_joint=False):
            if not is_joint:
                charged.append(charged_mu)
            return original(*args, charged_mu=charged_mu, is_joint=is_joint)

        monkeypatch.setattr(module, name, told)
    fitted = estimators(random_state=0)[kind].fit(*small_table(kind))
    rounds = fitted.plan_.rounds
    assert math.sqrt(np.sum(np.square(charged))) == pytest.approx(fitted.plan_.cost.mu)
    assert len(charged) == sum(len(together) for together in rounds)


@pytest.mark.parametrize("weights", [None, np.full(3000, 0.5)], ids=["alone", "weighted"])
@pytest.mark.parametrize("kind", ["labels", "numbers", "counts"])
def test_a_plan_says_how_often_a_fit_reads_the_table(kind, weights, monkeypatch):
    reads = []
    for name in ("total", "map_records"):
        original = getattr(module, name)

        def counted(*args, original=original, **options):
            reads.append(original)
            return original(*args, **options)

        monkeypatch.setattr(module, name, counted)
    model = estimators(random_state=0)[kind].fit(*small_table(kind), weights)
    assert len(reads) == model.plan_.n_passes
    assert f"  {len(reads)} passes over the table" in str(model.plan_)


@pytest.mark.parametrize("kind", ["labels", "numbers", "counts"])
def test_a_plan_says_how_many_sums_a_fit_asks_for(kind, monkeypatch):
    """With the weights of long rows, as a progress bar counts them."""
    totals, bars = [], module_of_bars.progress_bar
    monkeypatch.setattr(
        module_of_bars, "progress_bar", lambda *args: totals.append(args) or counted(bars(*args))
    )
    steps = []

    @contextmanager
    def counted(bar):
        with bar as advance:
            yield lambda: (steps.append(1), advance())

    model = estimators()[kind].fit(*small_table(kind))
    assert len(steps) == totals[0][0] == model.plan_.n_steps == model.n_iter_


@pytest.mark.parametrize("kind", ["labels", "numbers", "counts"])
def test_a_printed_plan_says_what_each_release_costs(kind):
    plan = estimators(random_state=0)[kind].privacy_plan(20_000, 3)
    shares = [int(share) for share in re.findall(r"(\d+)%", plan.summary()["spent on"])]
    assert len(shares) >= 3 and abs(sum(shares) - 100) <= len(shares) // 2
    assert "{" not in plan.summary()["spent on"]
    names = [line.split("  ")[1] for line in str(plan).splitlines()[1:]]
    assert names[:3] == ["spends", "protects", "spent on"]
    assert names.index("intervals") < names.index("work") < names.index("parameters")


def test_noise_is_sensitivity_times_multiplier(rng):
    """Of a sum alone, and of sums that no record moves as much at once."""
    question = Question(np.eye(2), np.ones(2), 3.0)
    n, values = 4000, []
    for _ in range(n):
        (found,) = release_sum((Part(np.zeros(2), 5.0, 2.0),), rng, question)
        values.append(found.value)
    assert found.noise == pytest.approx(10.0, rel=1e-5) and found.clip == 3.0
    assert np.std(values) == pytest.approx(10.0, rel=4.0 / math.sqrt(4 * n))
    parts = Part(np.zeros(2), 5.0, 2.0), Part(np.zeros((2, 2)), 1.0, 4.0)
    half = math.sqrt(0.25 + 0.0625) / 2.0
    first, second = release_sum(parts, rng, question, moved=half, paid=2.0 * half)
    assert first.noise == pytest.approx(5.0, rel=1e-5)
    assert second.noise == pytest.approx(2.0, rel=1e-5)
    (inflated,) = release_sum(parts[:1], rng, question, inflation=1.5)
    assert inflated.noise == pytest.approx(15.0, rel=1e-5)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_sums_that_are_read_together_are_those_read_one_by_one(rng, is_sparse):
    X = rng.uniform(-1.0, 1.0, (700, 3)) * (rng.random((700, 3)) < 0.6)
    model = LinearModel(family=Normal(-2.0, 2.0), n_features=3, norm=2.0, constant=1.0)
    target = model.target(sp.csr_array(X) if is_sparse else X, rng.normal(size=700))
    theta, transform = rng.normal(size=4), rng.normal(size=(4, 4))
    found = read_together(
        target,
        (
            (moment_of_block, (transform,)),
            (moment_of_block, (transform, theta, 0.7)),
            (clipped_of_block, (theta, 0.7)),
            (residuals_of_block, (theta, 0.7)),
        ),
    )
    np.testing.assert_allclose(found[0][0], weighted_moment(target, transform))
    np.testing.assert_allclose(found[1][0], squares_moment(target, theta, 0.7, transform))
    sums, square = clipped_sums(target, theta, 0.7)
    np.testing.assert_allclose(found[2][0], sums)
    # The constant column is 1, so that its entry is the sum of residuals.
    np.testing.assert_allclose(found[3], (sums[-1], square))


# Up to 200 counts are summed, and more are not.
@pytest.mark.parametrize(
    "mean, dispersion",
    [(3.0, 1.5), (60.0, 4.0), (90.0, 4.0), (90.0, 1.0), (0.05, 1.1), (8.0, 1.0)],
)
def test_partial_moments_are_sums_over_counts(mean, dispersion):
    size = mean / (dispersion - 1.0) if dispersion > 1.0 else math.inf
    law = poisson(mean) if dispersion == 1.0 else nbinom(size, 1.0 / dispersion)
    counts = np.arange(0, int(20 * mean) + 40)
    p = law.pmf(counts)
    ends = np.array([-1.0, 0.0, 1.0, 2.5, mean, 3.0 * mean + 4.0])
    for found, values in zip(
        partial_moments(ends, mean, dispersion),
        (p, counts * p, counts * (counts - 1.0) * p),
        strict=True,
    ):
        expected = [values[: max(int(np.floor(end)) + 1, 0)].sum() for end in ends]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_r_hat_is_one_of_chains_that_agree_and_large_of_others(rng):
    draws = rng.normal(size=(14, 50, 3))
    assert np.all(np.abs(r_hat(draws) - 1.0) < 0.06)
    draws[:, :, 1] += np.linspace(-2.0, 2.0, 50)
    assert r_hat(draws)[1] > 1.5


def test_effective_sizes_are_those_of_autoregressions(rng):
    """First-order ones of a coefficient ``a`` are worth a share ``(1 - a) / (1 + a)`` of their draws."""
    states = [rng.normal(size=(400, 2))]
    coefficients = np.array([0.0, 0.6])
    for _ in range(199):
        noise = np.sqrt(1.0 - coefficients**2) * rng.normal(size=(400, 2))
        states.append(coefficients * states[-1] + noise)
    sizes = effective_sample_size(np.array(states)) / 80_000
    np.testing.assert_allclose(sizes, [1.0, 0.25], rtol=0.15)


@pytest.mark.parametrize("slow", [False, True])
def test_a_warm_up_is_five_autocorrelation_times(monkeypatch, slow):
    """Chains of normal numbers, of which one is an autoregression where they are slow."""
    times = []

    def round_of(density, chains, state, generator):
        u = state[0] * (np.array([0.0, 0.85 if slow else 0.0]))
        noise = generator.standard_normal(u.shape) * [1.0, math.sqrt(1 - 0.85**2) if slow else 1.0]
        times.append(len(times) + 1)
        return (u + noise, 0.5 * np.sum((u + noise) ** 2, axis=1), u), 0.75, 0.45

    class NormalDensity(hmc.Density):
        prior, scales, start, growth = Prior(()), np.empty(0), np.zeros(2), None

        def negative_log_likelihood(self, u):
            return 0.5 * np.sum(u**2, axis=1), u

        def information(self, u):
            return np.eye(2)

    monkeypatch.setattr(hmc, "_round", round_of)
    chains = hmc.warmed_up_chains(NormalDensity())
    # An autoregression of .85 has a time of 1.85 / .15.
    assert (50 < len(times) < 90) if slow else len(times) == 12
    assert chains.thinning in ((4, 5) if slow else (1,))
    np.testing.assert_allclose(chains.points.std(axis=0), 1.0, atol=0.3)


@pytest.mark.parametrize("kind", ["labels", "numbers", "counts"])
def test_a_fit_tells_how_its_chains_mixed(kind):
    fitted = estimators(random_state=0)[kind].fit(*small_table(kind))
    table = fitted.diagnostics()
    assert list(table.index) == list(fitted.summary().index)
    np.testing.assert_array_equal(table["r_hat"], fitted.released_["r_hat"])
    assert np.all(table["r_hat"] < 1.2) and np.all(table["effective_sample_size"] > 60)
    assert np.all(table["effective_sample_size"] <= 400)


def test_a_single_chain_is_compared_with_itself():
    X, y = small_table("labels")
    fitted = DPBayesianLogisticRegression(
        sampler="sghmc", data_norm=1.5, delta=1e-6, random_state=0
    ).fit(X, y)
    table = fitted.diagnostics()
    assert np.all(np.isfinite(table)) and np.all(table["effective_sample_size"] < 150)


@pytest.mark.parametrize("kind", ["numbers", "counts"])
def test_both_names_make_one_plan_and_the_same_draws(kind):
    X, y = small_table(kind)
    names = ClippedResiduals(), NoiseAware()
    fits = [estimators(random_state=0, n_draws=20)[kind].set_params(sampler=each) for each in names]
    first, second = (each.fit(X, y) for each in fits)
    assert [each.plan_.name for each in fits] == ["clipped_residuals", "noise_aware"]
    np.testing.assert_array_equal(first.posterior_samples_, second.posterior_samples_)
    assert first.plan_.cost == second.plan_.cost


@pytest.mark.parametrize("kind", ["labels", "numbers", "counts"])
def test_posteriors_draw_the_same_after_pickling(kind):
    fitted = estimators(random_state=0, n_draws=20)[kind].fit(*small_table(kind))
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(
        fitted.sample_posterior(30, random_state=1), again.sample_posterior(30, random_state=1)
    )


def test_coefficients_that_grow_leave_the_mean_logit(rng):
    """The move of the chains keeps what labels tell best, and is undone by its opposite."""
    transform = rng.normal(size=(3, 3))
    mean = np.array([0.2, -0.4, 1.5])  # A constant of 1.5 comes last.
    design = Design(mean, np.diag([0.3, 0.2, 0.0]))
    rows = normal_population(design, transform, Logistic(), 3.0, 100)
    growth = growth_of(1.5, 1, transform)
    u = rng.normal(size=(5, 3))

    def grown(u, c):
        own = u @ growth.matrix.T
        shift = (own - np.exp(c) * own) @ rows.mean
        return u + np.expm1(c) * own + shift[:, None] * growth.intercept

    after = grown(u, 0.7)
    np.testing.assert_allclose(after @ rows.mean, u @ rows.mean)
    np.testing.assert_allclose((after @ transform.T)[:, :2], np.exp(0.7) * (u @ transform.T)[:, :2])
    np.testing.assert_allclose(grown(after, -0.7), u)
