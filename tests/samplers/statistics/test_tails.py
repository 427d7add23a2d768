"""Errors that are not normal: the mean that clips take from them, and their deviation."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from fit_warnings import refuse_fit_warnings
from scipy import stats
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from skdpbayes import DPBayesianRidge
from skdpbayes.audit import replay
from skdpbayes.exceptions import DataScalingWarning, PosteriorWarning
from skdpbayes.models import LinearModel, Normal
from skdpbayes.privacy import Budget
from skdpbayes.samplers import ClippedResiduals, sample
from skdpbayes.samplers.statistics import requests
from skdpbayes.samplers.statistics.curvature import Curvature
from skdpbayes.samplers.statistics.design import Coordinates
from skdpbayes.samplers.statistics.heavy_tails import _SCALES, _SHARES, HeavyTailCorrection
from skdpbayes.samplers.statistics.normal import NormalDensity
from skdpbayes.samplers.statistics.plan import Request, clipped_normal, wide_clip
from skdpbayes.samplers.statistics.requests import NoisySum, Question, Records

BOUND = 4.0
ERRORS = {
    "exponential": lambda rng, n: rng.exponential(size=n) - 1.0,
    "two points": lambda rng, n: np.where(rng.random(n) < 0.2, -2.0, 0.5),
    "normal": lambda rng, n: rng.normal(size=n),
}


def a_table(errors, seed, n=20_000):
    rng = np.random.default_rng(seed)
    rows, truth = rng.uniform(-1.0, 1.0, size=(n, 3)), np.array([0.6, -0.3, 0.0, 0.5])
    return rows, rows @ truth[:3] + truth[3] + 0.3 * ERRORS[errors](rng, n), truth


def fitted(errors, seed, epsilon, with_tails=True):
    """Return draws and the truth, in deviations of the errors."""
    rows, y, truth = a_table(errors, seed)
    model = LinearModel(
        family=Normal(-BOUND, BOUND), n_features=3, norm=math.sqrt(3.0), constant=1.0
    )
    plan = ClippedResiduals().plan(model.bounds(), len(rows), Budget(epsilon, 1e-5))
    if not with_tails:
        plan = plan.changed(wide_clip_multipliers=None, wide_residuals_multiplier=None)
    draws = sample(model.target(rows, np.clip(y, -BOUND, BOUND)), plan, random_state=seed)
    return draws / 0.3, truth / 0.3


@pytest.mark.daily(1)
@pytest.mark.parametrize("errors", ["exponential", "two points"])
def test_an_intercept_is_that_of_the_mean_where_errors_are_skewed(errors):
    off, without = [], []
    for seed in range(4):
        draws, truth = fitted(errors, seed, 3.0)
        off.append((draws.mean(axis=0) - truth)[3] / draws.std(axis=0)[3])
        draws, truth = fitted(errors, seed, 3.0, with_tails=False)
        without.append((draws.mean(axis=0) - truth)[3] / draws.std(axis=0)[3])
    assert np.sqrt(np.mean(np.square(off))) < 1.7 and np.abs(off).max() < 3.0
    assert np.sqrt(np.mean(np.square(without))) > 7.0 and np.abs(without).min() > 3.5


def test_symmetric_errors_have_an_intercept_nearly_as_narrow_as_without():
    ratios = [
        fitted("normal", seed, 3.0)[0].std(axis=0)
        / fitted("normal", seed, 3.0, False)[0].std(axis=0)
        for seed in range(3)
    ]
    assert 0.9 < np.mean(ratios, axis=0)[3] < 1.3
    assert np.mean(ratios, axis=0)[:3] == pytest.approx(1.0, abs=0.15)


def test_responses_at_both_bounds_are_not_taken_for_ones_that_were_cut():
    """Nothing is cut at the origin by a clip at the bound, however many responses are there."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1.0, 1.0, size=(10_000, 3))
    y = np.where(rng.random(10_000) < 0.5 + 0.3 * rows[:, 0], 3.9, -3.9)
    model = DPBayesianRidge((-BOUND, BOUND), epsilon=3.0, delta=1e-5, random_state=0)
    with pytest.warns(DataScalingWarning, match="both ends of target_bounds"):
        model.fit(rows, y)
    assert model.coef_ == pytest.approx([0.6 * 3.9, 0.0, 0.0], abs=1.0)
    assert model.noise_samples_.mean() == pytest.approx(np.std(y - 0.6 * 3.9 * rows[:, 0]), rel=0.1)


def test_the_deviation_of_errors_is_that_of_all_of_them():
    rng = np.random.default_rng(1)
    rows = rng.uniform(-1.0, 1.0, size=(20_000, 3))
    y = rows[:, 0] + 0.3 * (rng.exponential(size=20_000) - 1.0)
    model = DPBayesianRidge((-BOUND, BOUND), epsilon=3.0, delta=1e-5, random_state=0).fit(rows, y)
    assert model.noise_samples_.mean() == pytest.approx(0.3, rel=0.1)
    low, high = model.prediction_interval(rows, 0.9).T
    assert 0.87 < np.mean((low < y) & (y < high)) < 0.97


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_intervals_of_new_responses_have_their_tail_where_errors_have_it(sign):
    rng = np.random.default_rng(2)
    rows = rng.uniform(-1.0, 1.0, size=(40_000, 3))
    y = sign * 0.3 * (rng.exponential(size=40_000) - 1.0)
    model = DPBayesianRidge((-BOUND, BOUND), epsilon=3.0, delta=1e-5, random_state=0)
    y += rows[:, 0]
    model.fit(rows[:20_000], y[:20_000])
    assert sign * model.released_["error_skewness"] > 0.5
    rows, y = rows[20_000:], y[20_000:]
    low, high = np.sort(sign * model.prediction_interval(rows, 0.9), axis=1).T
    mean = sign * model.predict(rows)
    assert np.all(high - mean > 1.25 * (mean - low))
    above = np.mean(sign * y > high)
    drawn = sign * (model.posterior_predictive(rows[:1], 4000, random_state=0)[:, 0])
    assert stats.skew(drawn) > 0.5
    assert drawn.mean() == pytest.approx(mean[0], abs=5.0 * 0.3 / math.sqrt(4000))
    assert drawn.std() == pytest.approx(0.3, rel=0.15)
    model.released_["error_skewness"] = 0.0
    of_normal = np.mean(sign * y > np.max(sign * model.prediction_interval(rows, 0.9), axis=1))
    assert abs(above - 0.05) < abs(of_normal - 0.05) - 0.003


def test_symmetric_errors_have_no_tail_to_one_side():
    rng = np.random.default_rng(3)
    for seed in range(4):
        rows = rng.uniform(-1.0, 1.0, size=(5_000, 3))
        y = rows[:, 0] + 0.3 * rng.standard_t(5, size=5_000)
        model = DPBayesianRidge((-BOUND, BOUND), epsilon=1.0, delta=1e-5, random_state=seed)
        assert model.fit(rows, y).released_["error_skewness"] == 0.0


@pytest.mark.parametrize("ratio", [1.2, 1.8, 2.5])
@pytest.mark.parametrize("skewness", [-0.6, 0.3])
def test_a_skewness_follows_from_how_far_a_mean_is_from_a_centre(ratio, skewness):
    """Against the centre of a gamma law, to the first order; and none where noise hides it."""
    law = stats.pearson3(skewness)
    sums = (NoisySum(np.zeros(1), 0.1, point=np.zeros(1), clip=2.0 * ratio),)
    density = replace(plain_density(1e6), noisy_sums=sums)
    points, weights = np.polynomial.legendre.leggauss(2000)
    points, weights = 10.0 * points, 10.0 * weights
    centre = brentq(
        lambda c: weights @ (np.clip(points - c, -ratio, ratio) * law.pdf(points)), -1.0, 1.0
    )
    found = density.error_skewness((-2.0 * centre, 1e-6, 2.0))
    assert found == pytest.approx(skewness, rel=0.25)
    assert abs(density.error_skewness((-2.0 * centre, 10.0, 2.0))) < 0.01
    assert density.error_skewness((-100.0 * centre, 1e-6, 2.0)) == math.copysign(1.5, skewness)


def plain_density(n):
    """A density that knows all but the errors' law."""
    none, one = np.zeros(1), np.ones(1)
    return NormalDensity(
        n_samples=n,
        curvature=Curvature(np.eye(1), one, none, none, mean=one, squares=one, hidden=0.0),
        prior=None,
        scales=one,
        growth=None,
        prior_median=1.0,
        log_sd=1.0,
        noisy_sums=(),
        mean_squares=(),
        start=np.zeros(2),
    )


@pytest.mark.parametrize("mean", [0.0, 0.05, 0.4])
def test_what_is_missing_from_a_mean_has_the_law_of_a_mixture(rng, mean):
    """Against an integral over it; without noise of privacy, and with squares as for normal errors."""
    n, size = 1000.0, 40_000
    square = clipped_normal(0.0, 1.0, 4.0).square
    at = dict(point=np.zeros(1), clip=4.0)
    tails = HeavyTailCorrection(NoisySum(mean, 0.02, **at), NoisySum(square, 1e-3, **at))
    slopes, delta, deviations = tails.given(
        plain_density(n), np.zeros((size, 1)), np.ones(size), rng
    )
    assert not np.any(slopes)

    def density(x):
        prior = np.sum(_SHARES * norm.pdf(x, 0.0, _SCALES * math.sqrt(square)))
        return prior * norm.pdf(mean, x, math.sqrt(0.02**2 + square / n))

    ends = dict(points=[0.0, 0.01, -0.01, mean], limit=200)
    mass = quad(density, -1.5, 1.5, **ends)[0]
    expected = quad(lambda x: x * density(x), -1.5, 1.5, **ends)[0] / mass
    assert delta.mean() == pytest.approx(expected, abs=5.0 * delta.std() / math.sqrt(size))
    spread = quad(lambda x: x**2 * density(x), -1.5, 1.5, **ends)[0] / mass - expected**2
    # What noisy sums and the mean have in common is added, at most once.
    assert 0.98 * spread < delta.var() < spread + square / n
    assert deviations.mean() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("errors, wider", [("exponential", 1.15), ("normal", 1.0)])
def test_an_intercept_is_as_wide_whatever_the_unit_of_weights(errors, wider):
    """Ten times the weight is neither ten times the records nor a smaller variance of their mean."""
    rows, y, _ = a_table(errors, 0)
    widths = []
    for weight in (1.0, 10.0):
        model = DPBayesianRidge(
            (-BOUND, BOUND), epsilon=10.0, delta=1e-5, max_sample_weight=weight, random_state=0
        )
        model.fit(rows, y, sample_weight=np.full(len(y), weight))
        widths.append(model.posterior_samples_[:, 0, 3].std())
    assert widths[1] == pytest.approx(wider * widths[0], rel=0.15)


@pytest.mark.parametrize("constant", [0.3, 1.0])
def test_a_mean_of_clipped_residuals_is_moved_by_at_most_the_clip(rng, constant, monkeypatch):
    """Whatever weights rows have where long ones count less."""
    monkeypatch.setattr(requests, "release_sum", lambda parts, *_: parts)
    model = LinearModel(
        family=Normal(-2.0, 2.0), n_features=3, norm=1.0, constant=constant, max_weight=3.0
    )
    rows, y, weights = rng.normal(size=(60, 3)), rng.uniform(-3, 3, size=60), 3.0 * rng.random(60)
    weights[:30], moved = 3.0, []
    target = model.target(np.ascontiguousarray(rows), y, weights)
    plan = ClippedResiduals().plan(model.bounds(), 60, Budget(1.0, 1e-5, "add_or_remove_one"))
    requests_of = Request.alone("wide_clip", 1.0, 1.0), Request.alone("wide_residuals", 1.0)
    for clip in (0.1, 1.0, 10.0):
        question = Question(np.eye(4), rng.normal(size=4), clip)
        for i in range(60):
            only = target._replace(weights=np.where(np.arange(60) == i, target.weights, 0.0))
            records = Records(plan, only, rng)
            records.set_weights(Coordinates(np.eye(4), 0.1, 1.5), 2.0)
            (mean, square), (score,) = records.ask(requests_of, (question, question))
            assert mean.sensitivity == 3.0 * clip and square.sensitivity == 3.0 * clip**2
            assert score.sensitivity == pytest.approx(0.3 * clip)  # Rows are at most .1 long.
            parts = (abs(mean.value), square.value, np.linalg.norm(score.value))
            moved.append(
                np.divide(parts, (mean.sensitivity, square.sensitivity, score.sensitivity))
            )
    largest = np.max(moved, axis=0)
    assert np.all(largest <= 1.0 + 1e-12) and np.all(largest > 0.9)


def test_a_wide_clip_is_as_wide_as_noise_allows():
    clips = [wide_clip(n, 10.0, 2) for n in (100, 20_000, 2_000_000)]
    assert clips[0] == 3.5 and clips[1] == pytest.approx(math.sqrt(0.03 * 20_000 / 20.0), abs=0.01)
    assert clips[2] == pytest.approx(math.sqrt(0.03 * 2_000_000 / 20.0), abs=0.1)
    # With little noise it is half of the sampling error that counts.
    assert wide_clip(10_000, 0.1, 1) == pytest.approx(500.0)


@pytest.mark.daily(4)
@pytest.mark.parametrize("kind", ["wide_clip", "wide_residuals"])
@pytest.mark.parametrize("factor, is_found", [(1.0, False), (0.5, True)])
@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_half_of_the_noise_at_a_wide_clip_is_found(monkeypatch, relation, factor, is_found, kind):
    """A row without columns whose residual is at the clip, against one at the other."""
    rng, n = np.random.default_rng(0), 3000
    rows = rng.uniform(-0.5, 0.5, size=(n, 2))
    y = np.clip(0.3 * rows[:, 0] + 0.05 * rng.normal(size=n), -1.0, 1.0)
    rows[0], y[0] = 0.0, -1.0
    options = dict(epsilon=10.0, delta=1e-5, data_norm=1.0, n_draws=20)
    if relation == "add_or_remove_one":
        options["public_size"] = n
    model = DPBayesianRidge((-1.0, 1.0), neighboring_relation=relation, **options)
    release = getattr(Records, f"_release_{kind}")

    def planted(records, multipliers, *asked):
        return release(records, tuple(factor * each for each in multipliers), *asked)

    monkeypatch.setattr(Records, f"_release_{kind}", planted)
    record = {"X": np.zeros(2), "y": 1.0} if relation == "replace_one" else None
    result = replay(model, rows, y, record, index=0)
    assert result.passed is not is_found


# Slopes of the mean


def two_columns(n):
    """A density in coordinates that are white, in which the first column is a constant."""
    none, one = np.zeros(2), np.ones(2)
    return replace(
        plain_density(n),
        curvature=Curvature(
            np.eye(2), one, none, none, mean=np.array([1.0, 0.0]), squares=one, hidden=0.0
        ),
        start=np.zeros(3),
    )


def slopes_given(rng, skew, slope, noise, n=20_000.0, size=20_000):
    """Draws of what skewed errors change of an intercept and a slope."""
    at = dict(point=np.zeros(2), clip=8.0)
    square = (1.5 if skew else 1.0) * clipped_normal(0.0, 1.0, 8.0).square
    tails = HeavyTailCorrection(
        NoisySum(skew, 1e-3, **at),
        NoisySum(square, 1e-3, **at),
        score=NoisySum(n * np.array([skew, slope]), n * noise, **at),
    )
    slopes, intercepts, _ = tails.given(two_columns(n), np.zeros((size, 2)), np.ones(size), rng)
    return slopes, intercepts


def test_slopes_of_skewed_errors_are_those_of_a_wide_clip(rng):
    """Their mean is no less than what is seen at the clip, and beyond it there may be a tenth more."""
    slopes, intercepts = slopes_given(rng, 0.3, 0.15, noise=1e-3)
    assert 0.15 < slopes[:, 1].mean() < 0.15 * 1.15
    assert np.quantile(slopes[:, 1], 0.05) < 0.15 < np.quantile(slopes[:, 1], 0.95)
    assert 0.3 < intercepts.mean() < 0.3 * 1.15
    # The mean of responses is told by the intercept.
    np.testing.assert_allclose(slopes[:, 0], 0.0, atol=1e-12)


def test_slopes_that_noise_hides_are_as_wide_as_skewed_errors_allow(rng):
    hidden = slopes_given(rng, 0.3, 0.0, noise=10.0)[0][:, 1]
    seen = slopes_given(rng, 0.3, 0.0, noise=1e-3)[0][:, 1]
    assert 0.3 * 0.3 < hidden.std() < 0.3 and seen.std() < 0.02


def test_slopes_of_symmetric_errors_stay_as_they_are(rng):
    """Whatever noise there is at the wide clip."""
    for noise in (1e-3, 0.1, 10.0):
        slopes, _ = slopes_given(rng, 0.0, 0.0, noise)
        assert slopes[:, 1].std() < 0.1 / math.sqrt(20_000.0)


def skewed_table(seed, n):
    """Errors of a gamma law that grow along a column, and the coefficients of the mean."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1.0, 1.0, size=(n, 3))
    errors = rng.gamma(2.0, 0.5, size=n) * (1.5 + rows[:, 0])
    return rows, np.clip(rows @ [0.5, -0.5, 0.0] + errors, -10.0, 20.0), [1.5, -0.5, 0.0]


def share_held(seeds, n, epsilon):
    """How many 90% intervals hold the slopes of the mean, of each column."""
    held = []
    for seed in seeds:
        rows, y, slopes = skewed_table(seed, n)
        model = DPBayesianRidge((-10.0, 20.0), epsilon=epsilon, delta=1e-5, random_state=seed)
        table = model.fit(rows, y).coef_table().iloc[:3]
        held.append((table["5%"] <= slopes) & (slopes <= table["95%"]))
    return np.mean(held, axis=0)


def test_intervals_hold_slopes_of_the_mean_where_errors_are_skewed():
    with warnings.catch_warnings():
        refuse_fit_warnings()
        assert np.all(share_held(range(6), 20_000, 3.0) > 0.6)


@pytest.mark.nightly
@pytest.mark.parametrize("n, epsilon", [(20_000, 1.0), (20_000, 10.0), (100_000, 1.0)])
def test_nine_of_ten_intervals_hold_slopes_of_skewed_errors(n, epsilon):
    held = share_held(range(100, 180), n, epsilon)
    assert held.mean() > 0.85 and held.min() > 0.75


def test_slopes_of_the_mean_need_a_budget_that_shows_them():
    """Elsewhere a fit says that its slopes are those of a centre, and warns where they surely are."""
    rng = np.random.default_rng(4)
    rows = rng.uniform(-1.0, 1.0, (3_000, 40))
    y = rows[:, 1] + rng.lognormal(size=len(rows)) * (1.5 + rows[:, 0])
    few = DPBayesianRidge((-20.0, 20.0), epsilon=1.0, delta=1e-5, random_state=4)
    with pytest.warns(PosteriorWarning, match="errors are skewed.*noise hides how it changes"):
        few.fit(rows, y)
    assert few.released_["noise_of_skewed_slopes"] == np.inf
    plan = DPBayesianRidge((-10.0, 20.0), epsilon=0.1).privacy_plan(1000, 3)
    assert plan.wide_residuals_multiplier is None and "of a centre" in plan.summary()["slopes"]
