"""The posterior given looks at counts: laws, derivatives, draws against quadrature, and coverage."""

import math
import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats
from summed import weighted_moment

from skdpbayes import DPBayesianPoissonRegressor
from skdpbayes.models import LinearModel, Poisson
from skdpbayes.models.families.poisson import CountLaw, distribution, drawn, law_of
from skdpbayes.privacy import Budget
from skdpbayes.samplers import Auto, ClippedResiduals
from skdpbayes.samplers.base import run_plan
from skdpbayes.samplers.statistics import dispersion as table
from skdpbayes.samplers.statistics import poisson
from skdpbayes.samplers.statistics.curvature import curvature_given, moment_given, rescaled_to
from skdpbayes.samplers.statistics.dispersion import (
    BelievedLaws,
    best_count_clip,
    centre_for,
    clipped_count,
    count_edges,
    counts_seen,
    exposure_edges,
    laws_given,
    log_exposures_seen,
    lognormal_excess,
    looked_up,
    margin_of_sum,
    of_histogram,
    stacked,
    tabulated,
)
from skdpbayes.samplers.statistics.hmc import draw
from skdpbayes.samplers.statistics.poisson import PoissonLikelihood
from skdpbayes.samplers.statistics.population import CountPopulation, counted
from skdpbayes.samplers.statistics.prior import Group, Prior, growth_of
from skdpbayes.samplers.statistics.release import released_design
from skdpbayes.samplers.statistics.requests import NoisySum, Records

# Laws


LAWS = [CountLaw(), CountLaw(1.3), CountLaw(4.0), CountLaw(1.0, 0.7), CountLaw(1.2, 0.5, 0.3)]


def probabilities(mean, law, counts):
    """Of counts ``counts``, written another way."""
    law = law_of(law)
    inner = mean / (1.0 - law.zeros)
    variance = inner * (law.dispersion + law.growth * inner)
    own = stats.poisson(inner)
    if variance > inner:
        own = stats.nbinom(inner**2 / (variance - inner), inner / variance)
    return law.zeros * (counts == 0) + (1.0 - law.zeros) * own.pmf(counts)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("clip", [0.4, 1.0, 3.7, 50.0])
def test_moments_of_a_clipped_count_are_sums(law, clip):
    mean, centre = np.array([0.03, 1.0, 7.0, 2.0]), np.array([0.5, 0.2, 9.3, 30.0])
    found = clipped_count(mean, centre, clip, law, 20.0)
    y = np.arange(3000)
    off = np.minimum(y, 20.0) - centre[:, None]
    psi = np.clip(off, -clip, clip)
    p = np.array([probabilities(m, law, y) for m in mean])
    # What is above the largest count is taken, too.
    above = np.maximum(y - np.maximum(np.minimum(centre + clip, 20.0), centre - clip)[:, None], 0.0)
    below = np.maximum(centre[:, None] - clip - y, 0.0)
    for got, values in zip(found, (psi, psi**2, below, above), strict=True):
        np.testing.assert_allclose(got, np.sum(p * values, axis=1), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("law", LAWS)
def test_laws_have_their_variances(law, rng):
    y, mean = np.arange(5000), 6.0
    p = probabilities(mean, law, y)
    assert p @ y == pytest.approx(mean) and p @ (y - mean) ** 2 == pytest.approx(law.variance(mean))
    counts = drawn(np.full(200_000, mean), law, rng)
    assert counts.mean() == pytest.approx(mean, rel=0.02)
    assert counts.var() == pytest.approx(law.variance(mean), rel=0.04)
    np.testing.assert_allclose(distribution(y[:40], mean, law), np.cumsum(p)[:40], atol=1e-12)


def test_what_is_above_an_end_where_rates_are_lognormal(rng):
    law, mean, ends = CountLaw(1.5, 0.4, 0.2), np.array([2.0, 20.0]), np.array([5.0, 30.0])
    inner = mean / 0.8
    spread = np.log1p(0.5 / inner + 0.4)
    rates = inner * np.exp(np.sqrt(spread) * rng.normal(size=(2_000_000, 2)) - 0.5 * spread)
    above = 0.8 * np.maximum(rates - ends, 0.0).mean(axis=0)
    np.testing.assert_allclose(lognormal_excess(mean, ends, law), above, rtol=0.02)


def test_dispersed_counts_have_their_law_and_their_moments(rng):
    k = np.arange(-2, 30)
    dispersion = np.array([1.0, 1.0 + 1e-9, 1.5, 6.0])
    for mean in (0.2, 5.0):
        for phi in (1.0, 1.5, 6.0):
            np.testing.assert_allclose(
                distribution(k, mean, phi), np.cumsum(probabilities(mean, phi, k)), atol=1e-12
            )
        # One for each draw, some of which are Poisson's to within a thousandth.
        found = distribution(k[:, None] + 0.5, mean, dispersion)
        expected = np.transpose(
            [np.cumsum(probabilities(mean, phi, k)) for phi in (1.0, 1.0, 1.5, 6.0)]
        )
        np.testing.assert_allclose(found, expected, atol=1e-3)
    counts = drawn(np.full((4, 40_000), 3.0), dispersion[:, None], rng)
    assert counts.mean(axis=1) == pytest.approx(3.0, rel=0.05)
    assert counts.var(axis=1) / 3.0 == pytest.approx(dispersion, rel=0.06)


def test_tables_are_the_law_and_their_slopes_its_derivatives(rng):
    logits, clip = np.array([-2.0, 0.0, 1.5]), 1.8
    tables = tabulated(logits, np.exp(logits), clip, 1.4, 20.0)
    at = np.linspace(-6.0, 6.0, 201)[:, None] + logits
    found, slopes = looked_up(at, logits[None], tables[None])
    exact = clipped_count(np.exp(at), np.exp(logits), clip, 1.4, 20.0).mean
    inside = np.abs(at - logits) <= table.LARGEST_LOGIT
    assert np.max(np.abs(found[0] - exact)[inside]) < 4e-3 * clip
    far = at > logits + table.LARGEST_LOGIT + 0.2
    assert np.all(slopes[0][far] == 0.0) and np.max(np.abs(found[0] - exact)[far]) < 0.02
    step = 1e-6
    ahead, behind = (looked_up(at + s, logits[None], tables[None])[0] for s in (step, -step))
    smooth = np.abs(np.abs(at - logits) - table.LARGEST_LOGIT) > 0.01
    change = ((ahead - behind) / (2 * step))[0]
    np.testing.assert_allclose(slopes[0][smooth], change[smooth], atol=1e-6)


@pytest.mark.parametrize("clip, dispersion", [(1.0, 1.0), (2.7, 1.0), (1.3, 2.5), (40.0, 1.0)])
def test_centres_are_where_clips_take_as_much_from_either_tail(clip, dispersion):
    """Between nodes, too; with a wide clip they are means, of counts that are cut."""
    centre = centre_for(clip, dispersion, 20.0)
    logits = np.linspace(-11.0, 3.5, 500)
    values, squares, *_ = clipped_count(np.exp(logits), centre(logits), clip, dispersion, 20.0)
    assert np.max(np.abs(values) / np.sqrt(squares)) < 0.03
    assert np.all(np.diff(centre.values) >= 0.0)
    slopes = np.diff(centre(logits)) / np.diff(logits)
    assert centre.largest >= max(centre(99.0), slopes.max() * (1 - 1e-12))
    if clip == 40.0:
        np.testing.assert_allclose(centre(logits[:300]), np.exp(logits[:300]), rtol=1e-3)


# What is read off releases


def test_histograms_tell_counts_and_exposures_in_any_unit(rng):
    y, edges = rng.poisson(2.0, size=20_000), count_edges(200.0)
    bins = np.bincount(np.searchsorted(edges, y, side="right"), minlength=edges.size + 1)
    seen = counts_seen(bins + 30.0 * rng.normal(size=bins.size), 30.0, 200.0, 4000)
    assert seen.mean() == pytest.approx(2.0, rel=0.1)
    assert seen.var() == pytest.approx(2.0, rel=0.2)
    for unit in (1e-3, 1.0, 1e3):
        offsets = np.log(unit) + 0.6 * rng.normal(size=20_000)
        edges = exposure_edges()
        bins = np.bincount(np.searchsorted(edges, offsets, side="right"), minlength=81)
        found = log_exposures_seen(bins + 30.0 * rng.normal(size=81), 30.0, 1000)
        assert found.mean() == pytest.approx(np.log(unit), abs=0.03)
        assert found.std() == pytest.approx(0.6, rel=0.1)
    alike = np.zeros(81)
    alike[40] = 1000.0
    assert np.all(log_exposures_seen(alike, 5.0, 100) == 0.0)
    # Where noise hides all, it is some bin.
    assert np.all(np.isfinite(counts_seen(-np.ones(count_edges(1e30).size + 1), 1.0, 1e30, 100)))


@pytest.mark.parametrize(
    "law",
    [
        CountLaw(),
        CountLaw(2.0),
        CountLaw(1.0, 0.8),
        CountLaw(1.0, 0.0, 0.35),
        CountLaw(1.0, 1.0, 0.4),
    ],
)
def test_a_histogram_tells_how_counts_vary(rng, law):
    """In which of the ways, as far as it matters: variances of large and small means, and zeros."""
    spread = 0.5 * rng.normal(size=(50_000))
    logits = 1.2 + np.sort(spread)[::800]
    edges, n = count_edges(60.0), 50_000
    y = drawn(np.exp(1.2 + spread), law, rng)
    bins = np.bincount(np.searchsorted(edges, y, side="right"), minlength=edges.size + 1)
    margin = of_histogram(bins / n, 20.0 / n, edges)
    believed = laws_given([margin], logits, n, shifts=True)
    means = np.array([1.0, 3.0, 9.0])
    np.testing.assert_allclose(believed.mean.variance(means), law.variance(means), rtol=0.25)
    zeros = (distribution(0, means, given) for given in (believed.mean, law))
    np.testing.assert_allclose(*zeros, atol=0.05)
    assert believed.discrepancy < 2.0 and believed.probabilities.sum() == pytest.approx(1.0)
    hidden = margin._replace(noises=np.full(bins.size, 10.0))
    assert len(laws_given([hidden], logits, n, shifts=True).laws) > len(believed.laws)


def test_a_histogram_is_expected_as_each_law_says(rng):
    """Shares of bins, tabulated for all laws at once, are those of each law at each mean."""
    edges, means = count_edges(60.0), np.exp(rng.normal(size=(3, 20)))
    shares, _ = of_histogram(np.zeros(edges.size + 1), 1.0, edges).expected(means, stacked(LAWS))
    for law, found in zip(LAWS, shares, strict=True):
        up_to = distribution(np.ceil(edges) - 1.0, means[..., None], law).mean(axis=1)
        np.testing.assert_allclose(np.cumsum(found, axis=1)[:, :-1], up_to, atol=5e-4)


@pytest.mark.parametrize("largest", [60.0, 4000.0])
def test_laws_that_are_compared_at_once_are_those_that_are_alone(largest, rng):
    edges, means = count_edges(largest), 0.05 * largest * np.exp(rng.normal(size=(2, 20)))
    histogram = of_histogram(np.zeros(edges.size + 1), 1.0, edges)
    square = NoisySum(0.0, 1.0, clip=0.2 * largest)
    of_sum = margin_of_sum(square, rng.random(20), means[0], largest, (0.0, 1.0))
    for margin in (histogram, of_sum):
        at_once = margin.expected(means, stacked(LAWS))[0]
        for law, found in zip(LAWS, at_once, strict=True):
            alone = margin.expected(means, stacked([law]))[0][0]
            np.testing.assert_allclose(found, alone, rtol=1e-3, atol=1e-5)
            assert law.zeros or law.growth or np.allclose(found, alone, rtol=1e-9, atol=1e-9)


def test_a_histogram_of_another_law_does_not_fit(rng):
    """Of yes and no, and of rates with a heavier tail than a gamma law's."""
    logits = 0.3 * rng.normal(size=64)
    edges, n = count_edges(400.0), 50_000
    spread = 0.3 * rng.normal(size=n)
    for y, size in (
        (rng.random(n) < 0.4 * np.exp(spread), 0.4),
        (rng.poisson(30.0 * np.exp(spread + rng.normal(size=n) - 0.5)), 30.0),
    ):
        bins = np.bincount(np.searchsorted(edges, y, side="right"), minlength=edges.size + 1)
        margin = of_histogram(bins / n, 20.0 / n, edges)
        believed = laws_given([margin], logits + math.log(size), n, shifts=True)
        assert believed.discrepancy > 4.0
        given = np.array([size]), np.array([size]), np.array([2.0 * size]), 400.0
        usual = believed._replace(discrepancy=0.0).leanings(*given)
        assert np.sum(believed.leanings(*given) ** 2) > 2.0 * np.sum(usual**2)


def test_clips_are_tighter_where_noise_is_larger(rng):
    means = np.full(4000, 3.0)
    counts = rng.poisson(3.0, size=4000).astype(float)
    clips = [best_count_clip(counts, means, means, reach, 5000, 40.0) for reach in (0.1, 30.0, 1e4)]
    assert clips[0] > clips[1] >= clips[2]
    leaning = best_count_clip(
        counts,
        means,
        means,
        1e4,
        5000,
        40.0,
        lambda clips: np.tile(9.0 / clips[:, None], (2, 1, 3)),
    )
    assert leaning > clips[2]


def test_a_released_moment_is_believed_as_far_as_noise_allows(rng):
    own = np.diag([1.0, 2.0, 0.5])
    change = 0.2 * rng.normal(size=(3, 3))
    true = own + change + change.T
    for noise, tolerance in ((1e-4, 1e-3), (0.1, 0.4)):
        found, unknown = moment_given(*np.zeros((1, 3, 3)), own, np.zeros((3, 3)), true, noise)
        np.testing.assert_allclose(found, true, atol=tolerance)
        assert np.linalg.eigvalsh(found)[0] > 0.0 and np.all(unknown < (2.0 * noise) ** 2)
    drowned, _ = moment_given(*np.zeros((1, 3, 3)), own, np.zeros((3, 3)), true, 100.0)
    np.testing.assert_allclose(drowned, own, atol=0.1)


def a_release(rng, true, noise):
    """Deviation of the noise on the diagonal."""
    errors = noise * rng.normal(size=true.shape) / 2.0
    return true + errors + errors.T


@pytest.mark.parametrize("noise, within", [(0.01, 0.02), (0.5, 0.25)])
def test_variances_that_are_all_too_large_are_told_by_their_sum(rng, noise, within):
    """Where no single one is; not if they were known before."""
    length = 21
    mean = np.append(rng.normal(size=length - 1), 3.0)
    flat, varying = np.outer(mean, mean), np.diag([*np.ones(length - 1), 0.0])
    found = {0.3: [], 1e-4: []}
    for _ in range(20):
        matrix = a_release(rng, flat + 0.4 * varying, noise)
        for doubt in found:
            unknown = doubt**2 * np.eye(length)
            level = rescaled_to(flat, varying, unknown, matrix, noise)[0, 0]
            found[doubt].append(level)
    assert np.median(found[0.3]) == pytest.approx(0.4, abs=within)
    if noise == 0.5:
        assert np.median(found[1e-4]) == pytest.approx(1.0, abs=0.01)
    everything_known = rescaled_to(0.0 * flat, varying, 0.0 * varying, flat + varying, noise)
    np.testing.assert_allclose(everything_known, varying, rtol=1e-5)


@pytest.mark.parametrize("mean", [0.0, 5.0])
def test_columns_that_vary_together_are_told_from_noise(rng, mean):
    """Whatever the mean: entries of it are known, and are no measure of the others."""
    length, noise = 21, 0.4
    flat = np.outer(*2 * [np.append(np.zeros(length - 1), mean)])
    wrong = {}
    for kind in ("together", "apart"):
        errors = []
        for _ in range(10):
            values = np.ones(length)
            if kind == "together":
                values = 8.0 * np.arange(1, length + 1) ** -1.4
            basis, _ = np.linalg.qr(rng.normal(size=(length, length)))
            true = flat + (basis * values) @ basis.T
            varying = np.eye(length) * values.mean()
            matrix = a_release(rng, true, noise)
            found, _ = moment_given(flat, varying, 0.1 * np.eye(length), matrix, noise)
            before = np.linalg.norm(flat + varying - true)
            errors.append(np.linalg.norm(found - true) / max(before, 1.0))
        wrong[kind] = np.mean(errors)
    assert wrong["together"] < 0.7 and wrong["apart"] < 1.5


@pytest.mark.parametrize("constant", [0.0, 0.6])
def test_a_population_takes_another_moment_and_keeps_its_constant(rng, constant):
    """Long rows count less before and after."""

    def some(scales):
        half = rng.normal(size=(300, 4)) * scales
        rows = np.vstack([half, -half])
        if constant:
            rows[:, -1] = constant
        return rows

    before, after = some([1.0, 1.0, 2.0, 0.5]), some([0.2, 2.0, 1.0, 0.7])
    transform = rng.normal(size=(4, 4))
    rows, others = before @ transform, after @ transform
    norm = 1.2 * math.sqrt(np.mean(np.sum(rows**2, axis=1)))
    population = CountPopulation(rows, counted(rows, norm), np.zeros(600), 1.0, 20.0, 40.0)
    wanted = (others * counted(others, norm)[:, None]).T @ others / 600
    along = np.linalg.inv(transform)[:, -1]
    for share in (1.0, 0.8):
        found = population.reshaped(wanted, share, along, constant, norm)
        if constant:
            np.testing.assert_allclose(found.rows @ along, constant, rtol=1e-9)
        # How much the constant counts in all follows from the rows.
        got = found.moment / (along @ found.moment @ along) ** bool(constant)
        aim = wanted / (along @ wanted @ along) ** bool(constant)
        np.testing.assert_allclose(got, aim, atol=1e-9 * np.trace(aim))
        assert np.max(np.abs(found.weights - counted(found.rows, norm))) < 0.05


ONE_LAW = BelievedLaws((CountLaw(1.3),), np.ones(1))


def some_beliefs(rng, length=3, n=3000.0, noise=40.0, **changed):
    """What is believed after four noisy sums, at points that come closer to ``truth``."""
    rows = rng.normal(size=(400, length))
    rows[:, -1] = 1.0
    population = CountPopulation(rows, np.ones(400), np.zeros(400), n / 400, 20.0, 40.0)
    truth = 0.3 * rng.normal(size=length)
    given = PoissonLikelihood.__new__(PoissonLikelihood)
    fields = dict(
        unweighted=None,
        design=None,
        synthetic_design=population,
        n_records=n,
        transform=np.eye(length),
        prior=Prior((Group.learnt(np.eye(length), length),)),
        growth=growth_of(0.0, 1, np.eye(length)),
        scales=np.ones(1),
        laws=ONE_LAW,
        noisy_sums=[],
        _tables={},
        start=truth,
        curvature=curvature_given(population.curvature(truth), 1e-3 * np.eye(length)),
    )
    vars(given).update({**fields, **changed})
    for k, clip in enumerate((5.0, 2.0, 1.5, 1.2)):
        point = truth + 0.5 ** (k + 1) * rng.normal(size=length)
        means, centre = np.exp(population.logits(truth)), centre_for(clip, 1.3, 20.0)
        centres = centre(population.logits(point))
        value = clipped_count(means, centres, clip, given.laws.mean, 20.0).mean
        sums = population.size * value @ rows + noise * clip * rng.normal(size=length)
        given.noisy_sums.append(NoisySum(sums, noise * clip, point, clip, centre))
    return given, truth


def test_gradients_are_derivatives(rng):
    density = some_beliefs(rng)[0].density()
    points, step = density.start + 0.2 * rng.normal(size=(3, 3)), 1e-5
    for of_point in (density.negative_log_likelihood, density.potential):
        _, gradient = of_point(points)
        change = [
            (of_point(points + step * unit)[0] - of_point(points - step * unit)[0]) / (2 * step)
            for unit in np.eye(3)
        ]
        np.testing.assert_allclose(gradient, np.transpose(change), rtol=1e-4, atol=1e-4)


def test_looks_have_the_mean_and_the_covariance_that_is_believed(rng):
    """Of tables whose rows are those of the population: what clips take is in the mean."""
    given, truth = some_beliefs(rng, noise=1e-9)
    population, density = given.synthetic_design, given.density()
    mean, _ = population.expected_sums(truth[None], density.centres, density.tables)
    copies = int(population.size * 2)  # Half a record is no record.
    found = []
    for _ in range(1500):
        noisy_sums = np.zeros((4, 3))
        counts = drawn(np.tile(np.exp(population.logits(truth)), (copies, 1)), 1.3, rng)
        for k, noisy_sum in enumerate(given.noisy_sums):
            centres = noisy_sum.centre(population.logits(noisy_sum.point))
            psi = np.clip(np.minimum(counts, 20.0) - centres, -noisy_sum.clip, noisy_sum.clip)
            noisy_sums[k] = psi.sum(axis=0) @ population.rows
        found.append(noisy_sums)
    found = np.array(found) / 2.0
    error = found.std(axis=0) / math.sqrt(len(found))
    assert np.max(np.abs(found.mean(axis=0) - mean[:, 0]) / error) < 5.0
    # Noise and what rows may change are left out.
    turned = np.sqrt(2.0) * (found - found.mean(axis=0)) @ given.curvature.basis
    blocks, own = given._blocks(given.noisy_sums), []
    for noisy_sum in given.noisy_sums:
        centres = noisy_sum.centre(population.logits(noisy_sum.point))
        leanings = given._leanings(np.array([noisy_sum.clip]), centres)[:, 0]
        own.append(given.n_records * leanings @ given.curvature.basis)
    blocks = blocks - np.einsum("kvi,lvi->kli", np.array(own), np.array(own))
    seen = np.einsum("bki,bli->kli", turned, turned) / len(turned)
    for i in range(3):
        own = seen[..., i]
        np.testing.assert_allclose(blocks[..., i], own, rtol=0.25, atol=0.1 * own.max())


def test_draws_follow_the_density(rng):
    """Of one coefficient, with noise that is known, against quadrature."""
    given, _ = some_beliefs(rng, length=1, noise=30.0)
    density = given.density()
    grid = density.start + np.linspace(-1.5, 1.5, 4001)[:, None]
    energy = density.negative_log_likelihood(grid)[0] + density.prior.energy(grid)
    weights = np.exp(energy.min() - energy)
    weights /= weights.sum()
    mean = weights @ grid[:, 0]
    deviation = math.sqrt(weights @ (grid[:, 0] - mean) ** 2)
    draws = draw(density, 10_000, 0)[0][:, 0]
    assert abs(draws.mean() - mean) < 0.1 * deviation
    assert math.isclose(draws.std(), deviation, rel_tol=0.1)


@pytest.mark.daily(1)
@pytest.mark.parametrize("rate", [0.2, 3.0])
def test_with_much_budget_it_is_the_posterior_by_quadrature(rate):
    """One coefficient, no intercept, Poisson's likelihood on a grid: a wrong temperature would show."""
    rng, n = np.random.default_rng(1), 5000
    rows = rng.uniform(-1.0, 1.0, size=(n, 1))
    offsets = np.full(n, math.log(rate))
    counts = rng.poisson(rate * np.exp(0.3 * rows[:, 0]))
    model = LinearModel(family=Poisson(20.0), n_features=1, norm=1.0, constant=0.0, prior_scale=1.0)
    plan = ClippedResiduals().plan(model.bounds(), n, Budget(2000.0, 1e-6), n_draws=4000)
    target = model.target(rows, counts, None, offsets)
    draws = run_plan(target, plan, 0, 0).draws[:, 0]
    grid = np.linspace(-0.5, 1.0, 3001)
    log_p = counts @ (rows * grid) - rate * np.exp(rows * grid).sum(axis=0) - 0.5 * grid**2
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ grid
    deviation = math.sqrt(p @ (grid - mean) ** 2)
    # Clips leave out a little, and so do rows that are not normal.
    assert abs(draws.mean() - mean) < 0.6 * deviation
    assert math.isclose(draws.std(), deviation, rel_tol=0.15)


# Fits


def a_table(seed, n, d, rate, dispersion=1.0, kind="uniform"):
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1.0, 1.0, size=(n, d))
    if kind == "binary":
        rows = (rng.random((n, d)) < np.linspace(0.2, 0.7, d)).astype(float)
    theta = 0.5 * rng.normal(size=d)
    intercept = math.log(rate) - rows.mean(axis=0) @ theta
    counts = drawn(np.exp(rows @ theta + intercept), dispersion, rng)
    return np.ascontiguousarray(rows), counts.astype(float), np.append(theta, intercept)


def decaying(seed, n, d, rate):
    """A table of normal columns of ever smaller deviations, in a random basis."""
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
    rows = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.7 @ basis / 1.5
    rows = np.ascontiguousarray(np.clip(rows, -1.0, 1.0))
    theta = 0.5 * rng.normal(size=d)
    counts = rng.poisson(rate * np.exp((rows - rows.mean(axis=0)) @ theta))
    return rows, counts.astype(float), np.append(theta, math.log(rate) - rows.mean(axis=0) @ theta)


def fitted(seed, n, d, epsilon, rate=1.0, weights=None, relation="replace_one", **options):
    rows, counts, truth = a_table(seed, n, d, rate, **options)
    model = LinearModel(
        family=Poisson(20.0),
        n_features=d,
        norm=math.sqrt(d),
        max_weight=None if weights is None else weights.max(),
    )
    plan = ClippedResiduals().plan(model.bounds(), n, Budget(epsilon, 1e-6, relation))
    released = run_plan(model.target(rows, counts, weights), plan, seed, 0)
    return model.in_blocks(released.draws.copy())[:, 0], truth, released


def coverage(repetitions, *arguments, **options):
    shares = []
    for seed in range(repetitions):
        draws, truth, _ = fitted(seed, *arguments, **options)
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        shares.append(np.mean((low < truth) & (truth < high)))
    return np.mean(shares)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "repetitions, epsilon, rate, dispersion, kind",
    [
        # Noise hides nearly all, effects are smaller than the prior has them: 0.96 of them are covered.
        (40, 0.1, 1.0, 1.0, "uniform"),
        (30, 1.0, 1.0, 2.0, "uniform"),
        (30, 10.0, 4.0, 1.0, "binary"),
    ],
)
def test_intervals_cover_as_often_as_they_say(repetitions, epsilon, rate, dispersion, kind):
    found = coverage(repetitions, 5000, 4, epsilon, rate, dispersion=dispersion, kind=kind)
    assert abs(found - 0.9) < 0.08


@pytest.mark.nightly
@pytest.mark.parametrize(
    "n_tables, epsilon, rate, least",
    [(24, 0.1, 20.0, 0.75), (6, 1.0, 20.0, 0.82), (6, 10.0, 5.0, 0.82)],
)
def test_intervals_cover_where_columns_decay(n_tables, epsilon, rate, least):
    """Where noise hides nearly all they held 0.82 of 24 tables, with a standard error of 0.03."""
    shares, n, d, largest = [], 5000, 20, 96.0
    for seed in range(n_tables):
        rows, counts, truth = decaying(seed, n, d, rate)
        model = LinearModel(
            family=Poisson(largest), n_features=d, norm=math.sqrt(d), constant="short"
        )
        plan = ClippedResiduals().plan(model.bounds(), n, Budget(epsilon, 1e-5))
        released = run_plan(model.target(rows, counts), plan, seed, 0)
        draws = model.in_blocks(released.draws.copy())[:, 0]
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        shares.append(np.mean((low < truth) & (truth < high)))
    assert np.mean(shares) > least


@pytest.mark.nightly
def test_intervals_do_not_cover_if_noise_is_not_accounted_for(monkeypatch):
    """The test above could fail."""
    exact = PoissonLikelihood._blocks

    def without_noise(self, noisy_sums):
        return exact(
            self, [noisy_sum._replace(noise=0.1 * noisy_sum.noise) for noisy_sum in noisy_sums]
        )

    monkeypatch.setattr(PoissonLikelihood, "_blocks", without_noise)
    assert coverage(8, 5000, 4, 0.3) < 0.7


@pytest.mark.nightly
def test_intervals_do_not_cover_if_clips_are_not_accounted_for(monkeypatch):
    """As if residuals had their own mean, and not that of clipped ones."""

    def unclipped(logits, centres, clip, law, largest):
        return tabulated(logits, centres, largest, 1.0, 10.0 * largest)

    monkeypatch.setattr(poisson, "tabulated", unclipped)
    assert coverage(12, 5000, 4, 1.0) < 0.8


def test_a_fit_is_near_the_truth_and_tells_how_near():
    draws, truth, released = fitted(0, 4000, 3, 3.0)
    off = (draws.mean(axis=0) - truth) / draws.std(axis=0)
    assert np.max(np.abs(off)) < 4.0 and draws.std(axis=0).max() < 0.1
    assert released.other["dispersion"] < 1.2
    without = released.other["posterior"].deviations_without_privacy()
    assert np.all(without < 1.15 * draws.std(axis=0))
    again = released.plan.sampler.redraw(
        {**released.parameters, **released.other}, 700, np.random.RandomState(0)
    ).reshape(700, -1)
    np.testing.assert_allclose(again.mean(axis=0), released.draws.mean(axis=0), atol=0.03)


@pytest.mark.daily(1)
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_weights_of_two_are_two_records(relation):
    draws, truth, released = fitted(1, 4000, 2, 3.0, weights=np.full(4000, 2.0), relation=relation)
    assert np.max(np.abs(draws.mean(axis=0) - truth) / draws.std(axis=0)) < 5.0
    assert released.plan.epsilon <= 3.0


def test_counts_that_vary_more_are_known_to(rng):
    draws, truth, released = fitted(2, 8000, 2, 3.0, dispersion=2.0)
    assert released.other["dispersion"] == pytest.approx(2.0, rel=0.2)
    assert np.max(np.abs(draws.mean(axis=0) - truth) / draws.std(axis=0)) < 4.0


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_rows_have_the_posterior_moments_where_noise_hides_columns(epsilon):
    """Of what noisy sums see a change of ``u`` by, in deviations of what is not known."""
    n, d = 4000, 12
    rows, counts, _ = decaying(0, n, d, 20.0)
    model = LinearModel(family=Poisson(96.0), n_features=d, norm=math.sqrt(d))
    plan = ClippedResiduals().plan(model.bounds(), n, Budget(epsilon, 1e-5))
    target = model.target(rows, counts)
    off = []
    for seed in range(4):
        records = Records(plan, target, np.random.default_rng(seed))
        (moment,), requests, *_ = plan.rounds
        released = released_design(plan, records.second_moment(moment))
        given = PoissonLikelihood(plan, released, target.prior_precision)
        records.set_weights(given.coordinates, given.matrix_norm)
        answers = records.ask(requests, [given.question(request) for request in requests])
        for request, sums in zip(requests, answers, strict=True):
            given.learn(request, *sums)
        matrix = weighted_moment(records.weighted, given.transform) / n
        curvature = given.curvature
        scale = np.trace(given.synthetic_design.curvature(given.start)) / np.trace(
            given.synthetic_design.moment
        )
        miss = (
            scale * curvature.basis.T @ (matrix - given.synthetic_design.moment) @ curvature.basis
        )
        unknown = np.outer(curvature.variance_factor, curvature.variance_factor) * (
            1.0 + np.eye(d + 1)
        )
        off.append(np.mean(miss**2 / (unknown + np.diag(curvature.diagonal_variance))))
    assert np.mean(off) < 1.5


# Public numbers


def test_it_may_be_asked_for_and_says_what_privacy_costs():
    bounds = LinearModel(family=Poisson(9.0), n_features=3, norm=1.0).bounds()
    plans = [ClippedResiduals().plan(bounds, n, Budget(0.1, 1e-6)) for n in (100, 10**6)]
    assert all(plan.is_calibrated and plan.temperature == 1.0 for plan in plans)
    assert plans[0].interval_inflation > plans[1].interval_inflation > 1.0
    assert any("noise hides nearly all" in text for text in plans[0].warnings)
    assert not plans[1].warnings and "histogram" in plans[1].summary()["spent on"]
    # Noise does not hide coefficients here, but how columns vary together.
    of_many = LinearModel(family=Poisson(9.0), n_features=20, norm=1.0).bounds()
    of_columns = [
        any("vary together" in text for text in plan.warnings)
        for plan in (
            ClippedResiduals().plan(of_many, 5000, Budget(epsilon, 1e-5)) for epsilon in (0.3, 1.0)
        )
    ]
    assert of_columns == [True, False]
    assert Auto().plan(bounds, 10_000, Budget(1.0, 1e-6)).name == "clipped_residuals"
    wide = LinearModel(family=Poisson(9.0), n_features=300, norm=1.0).bounds()
    with pytest.raises(ValueError, match="up to 200 coefficients"):
        ClippedResiduals().plan(wide, 1000, Budget(1.0, 1e-6))


def test_intervals_are_calibrated_whatever_the_unit_of_exposure():
    rng = np.random.default_rng(0)
    X, years = rng.uniform(-1, 1, size=(5000, 2)), rng.uniform(0.2, 2.0, size=5000)
    y = rng.poisson(years * np.exp(0.3 + X @ [0.7, 0.0]))
    truth = np.array([0.7, 0.0, 0.3])
    for unit in (1e-3, 1.0, 500.0):
        model = DPBayesianPoissonRegressor(
            max_count=12, epsilon=3.0, sampler="clipped_residuals", random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message="A seeded random_state")
            model.fit(X, y, exposure=unit * years)
            low, high = model.posterior_interval(0.999)[0].T
        shift = np.array([0.0, 0.0, math.log(unit)])
        assert np.all((low < truth - shift) & (truth - shift < high))
        assert model.plan_.name == "clipped_residuals"


@pytest.mark.nightly
def test_prediction_intervals_know_of_dispersion():
    X, y, _ = a_table(0, 6000, 2, 3.0, dispersion=3.0)
    model = DPBayesianPoissonRegressor(
        max_count=30, epsilon=3.0, sampler="clipped_residuals", random_state=0
    ).fit(X, y)
    assert model.dispersion_ > 1.8
    low, high = model.prediction_interval(X[:2000], 0.9).T
    assert 0.86 < np.mean((low <= y[:2000]) & (y[:2000] <= high)) < 0.97
    simulated = model.posterior_predictive(X[:500], 300, random_state=0)
    assert np.mean(simulated.var(axis=0) / simulated.mean(axis=0)) > 1.7


def test_tables_of_all_kinds_and_in_parts_give_the_same_draws():
    """Sparse, in single precision, and in unequal parts; with exposures and weights."""
    rng = np.random.default_rng(0)
    X, exposure = rng.integers(-4, 5, size=(600, 2)) / 4.0, rng.uniform(0.5, 2.0, size=600)
    y, weights = rng.poisson(exposure * np.exp(0.4 * X[:, 0])), rng.choice([0.5, 1.0], size=600)
    options = {"max_count": 9, "epsilon": 3.0, "n_draws": 50, "random_state": 0}
    options["sampler"] = "clipped_residuals"

    def draws(table, *others):
        counts, times, own = others
        model = DPBayesianPoissonRegressor(**options)
        return model.fit(table, counts, sample_weight=own, exposure=times).posterior_samples_

    expected = draws(X, y, exposure, weights)
    parts = [
        da.from_array(part, chunks=((400, 200), *[part.shape[1:]] * (part.ndim > 1)))
        for part in (X, y, exposure, weights)
    ]
    for found in (
        draws(sp.csr_matrix(X), y, exposure, weights),
        draws(X.astype(np.float32), y, exposure, weights),
        draws(*parts),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_persons_are_protected_with_all_their_rows():
    rng = np.random.default_rng(0)
    X, groups = rng.uniform(-1.0, 1.0, size=(3000, 1)), np.repeat(np.arange(1500), 2)
    y = rng.poisson(np.exp(0.5 * X[:, 0]))
    model = DPBayesianPoissonRegressor(
        max_count=9,
        epsilon=3.0,
        sampler="clipped_residuals",
        max_rows_per_group=2,
        n_draws=50,
        random_state=0,
    )
    model.fit(X, y, groups=groups)
    assert model.plan_.name == "clipped_residuals" and model.spent_epsilon_ <= 3.0
    assert abs(model.coef_[0] - 0.5) < 5.0 * model.posterior_samples_[:, 0, 0].std()
