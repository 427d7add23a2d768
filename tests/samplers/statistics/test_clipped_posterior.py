"""The posterior given looks at clipped residuals: its law, its draws, and whether intervals cover."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from skdpbayes import DPBayesianRidge
from skdpbayes.models import LinearModel, Logistic, Normal
from skdpbayes.privacy import Budget
from skdpbayes.samplers import Auto, ClippedResiduals, sample
from skdpbayes.samplers.base import run_plan
from skdpbayes.samplers.statistics.curvature import Curvature, conditioned, positive_inverse
from skdpbayes.samplers.statistics.hmc import draw
from skdpbayes.samplers.statistics.normal import NormalDensity, NormalLikelihood
from skdpbayes.samplers.statistics.plan import (
    _CLIPPING_TOLERANCE,
    ERRORS,
    N_SUMS_USED,
    NORMAL_CLIPPING,
    Clippings,
    _best_shares,
    _expected_error,
    clipped_normal,
    share_budget,
)
from skdpbayes.samplers.statistics.prior import Group, Growth, Prior
from skdpbayes.samplers.statistics.release import posterior_of
from skdpbayes.samplers.statistics.requests import NoisySum

# Laws


@pytest.mark.parametrize(
    "mean, deviation, clip", [(0.0, 1.0, 1.5), (0.7, 0.4, 0.5), (-3.0, 2.0, 1.0)]
)
def test_moments_of_a_clipped_normal_number_are_integrals(mean, deviation, clip):
    law = clipped_normal(mean, deviation, clip)

    def expected(function):
        ends = [-clip, clip, mean]
        inner = lambda r: function(np.clip(r, -clip, clip)) * norm.pdf(r, mean, deviation)  # noqa: E731
        return quad(inner, mean - 12 * deviation, mean + 12 * deviation, points=ends)[0]

    assert law.mean == pytest.approx(expected(lambda x: x), abs=1e-7)
    assert law.square == pytest.approx(expected(lambda x: x**2), abs=1e-7)
    inside = norm.cdf(clip, mean, deviation) - norm.cdf(-clip, mean, deviation)
    assert law.slope == pytest.approx(inside)
    step = 1e-6
    for by, (of_slope, of_mean, of_square) in (
        ((step, 0.0), (law.slope_by_mean, law.slope, law.square_by_mean)),
        ((0.0, step), (law.slope_by_deviation, law.mean_by_deviation, law.square_by_deviation)),
    ):
        ahead = clipped_normal(mean + by[0], deviation + by[1], clip)
        behind = clipped_normal(mean - by[0], deviation - by[1], clip)
        for found, name in ((of_slope, "slope"), (of_mean, "mean"), (of_square, "square")):
            change = (getattr(ahead, name) - getattr(behind, name)) / (2 * step)
            assert found == pytest.approx(change, abs=1e-7)


def test_the_law_of_looks_is_that_of_a_symmetric_matrix_integrated_out(rng):
    """Against the dense covariance of all noisy sums, entry by entry of the matrix."""
    n_sums, length = 3, 4
    x, r = rng.normal(size=(2, n_sums, 1, length))
    root = rng.normal(size=(length, n_sums, n_sums))
    blocks = root @ root.swapaxes(1, 2) + 0.3 * np.eye(n_sums)
    p, h = rng.uniform(0.2, 1.0, size=(2, length))
    covariance = np.zeros((n_sums, length, n_sums, length))
    for i in range(length):
        covariance[:, i, :, i] = blocks[i]
    for i in range(length):
        for j in range(i + 1):
            # What one entry, and its mirror image, adds to all noisy sums.
            unit = np.zeros((length, length))
            unit[i, j] = unit[j, i] = math.sqrt(p[i] * p[j] if i != j else 2 * p[i] ** 2 + h[i])
            added = (x[:, 0] @ unit).ravel()
            covariance += np.outer(added, added).reshape(covariance.shape)
    covariance = covariance.reshape(n_sums * length, -1)
    flat = r.ravel()
    expected = 0.5 * flat @ np.linalg.solve(covariance, flat)
    expected += 0.5 * np.linalg.slogdet(covariance)[1]
    energy, alpha, _, _ = conditioned(r, blocks.transpose(1, 2, 0)[:, :, None], x, p, h)
    assert energy[0] == pytest.approx(expected)
    np.testing.assert_allclose(alpha.ravel(), np.linalg.solve(covariance, flat), rtol=1e-9)


def test_inverses_and_determinants_of_many_small_matrices(rng):
    root = rng.normal(size=(3, 4, 5, 5))
    matrices = root @ root.swapaxes(-1, -2) + 0.1 * np.eye(5)
    inverse, log_det = positive_inverse(matrices.transpose(2, 3, 0, 1))
    np.testing.assert_allclose(inverse.transpose(2, 3, 0, 1), np.linalg.inv(matrices), rtol=1e-9)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(matrices)[1], rtol=1e-9)


def a_density(rng, length=5, curvature=None, **changed):
    """A density given noisy sums from far off to close by."""
    clips = (2.0, 1.0, 0.7, 0.5)
    own = Curvature(
        transform=np.eye(length),
        values=rng.uniform(0.1, 1.0, length),
        variance_factor=rng.uniform(0.01, 0.1, length),
        diagonal_variance=rng.uniform(0.001, 0.01, length),
        mean=0.1 * rng.normal(size=length),
        squares=rng.uniform(0.2, 1.2, length),
        hidden=0.0,
    )
    but_deviation = np.pad(np.eye(length), (0, 1))
    fields = dict(
        n_samples=500.0,
        curvature=replace(own, **(curvature or {})),
        prior=Prior((Group.learnt(but_deviation, length),)),
        scales=np.ones(1),
        growth=Growth(but_deviation, length, np.zeros(length + 1)),
        prior_median=0.5,
        log_sd=1.5,
        noisy_sums=tuple(
            NoisySum(30 * rng.normal(size=length), 5.0 + t, 0.3 * rng.normal(size=length), t)
            for t in clips
        ),
        mean_squares=tuple(NoisySum(0.3, 0.05, 0.3 * rng.normal(size=length), t) for t in clips),
        start=np.zeros(length + 1),
    )
    return NormalDensity(**{**fields, **changed})


@pytest.mark.parametrize("bound", [math.inf, 0.7])
def test_gradients_are_derivatives(rng, bound):
    density = a_density(rng, bound=bound)
    points = np.column_stack(
        [0.4 * rng.normal(size=(3, 5)), np.log(0.4) + 0.2 * rng.normal(size=3)]
    )
    step = 1e-6
    for of_point in (density.negative_log_likelihood, density.potential):
        _, gradient = of_point(points)
        change = [
            (of_point(points + step * unit)[0] - of_point(points - step * unit)[0]) / (2 * step)
            for unit in np.eye(6)
        ]
        np.testing.assert_allclose(gradient, np.transpose(change), rtol=1e-5, atol=1e-5)


def test_noisy_sums_have_the_moments_that_the_surrogate_says(rng, monkeypatch):
    """Tables of normal rows and errors: what clips take is in the mean, what sums share is not noise."""
    monkeypatch.setattr("skdpbayes.samplers.statistics.normal._SHAPE_ERROR", 0.0)
    n, s, clips = 400, 0.5, (0.9, 0.6)
    mean, deviations = np.array([0.4, 0.0, 0.3]), np.array([1.0, 0.6, 0.0])
    truth, points = np.array([0.5, -0.3, 0.4]), np.array([[0.0, 0.3, 0.0], [0.3, -0.1, 0.5]])
    curvature = np.diag(deviations**2) + np.outer(mean, mean)
    values, basis = np.linalg.eigh(curvature)
    values = np.maximum(values, 1e-9)
    found = []
    for _ in range(3000):
        rows = mean + deviations * rng.normal(size=(n, 3))
        errors = s * rng.normal(size=n)
        noisy_sums = []
        for point, clip in zip(points, clips, strict=True):
            psi = np.clip(rows @ (truth - point) + errors, -clip, clip)
            # The curvature of this very table is what a posterior knows.
            own = (rows.T @ rows / n - curvature) @ (truth - point)
            away = mean @ (truth - point)
            spread = math.sqrt(s**2 + (truth - point) @ curvature @ (truth - point) - away**2)
            noisy_sums.append(psi @ rows - n * clipped_normal(away, spread, clip).slope * own)
        found.append(np.array(noisy_sums) @ basis)
    found = np.array(found)
    zero, own = np.zeros(3), dict(values=values, mean=mean @ basis, squares=values)
    density = a_density(
        rng,
        length=3,
        curvature=dict(variance_factor=zero, diagonal_variance=zero, **own),
        n_samples=float(n),
        noisy_sums=tuple(
            NoisySum(zero, 1e-9, point @ basis, clip)
            for point, clip in zip(points, clips, strict=True)
        ),
        mean_squares=(NoisySum(0.3, 0.05, zero, 1.0),),
    )
    means, covariance = implied(density, np.append(truth @ basis, math.log(s)))
    error = found.std(axis=0) / math.sqrt(len(found))
    assert np.max(np.abs(found.mean(axis=0) - means) / error) < 4.5
    seen = np.cov(found.reshape(len(found), -1).T)
    # Coordinates of which rows say something.
    for i in (1, 2):
        own = seen[np.ix_([i, i + 3], [i, i + 3])]
        np.testing.assert_allclose(own, covariance[i], rtol=0.25)


def implied(density, at):
    """Return the means of noisy sums, where the energy is least, and covariances from its curvature."""
    n_sums, length = len(density.noisy_sums), density.curvature.mean.size

    def energy(values):
        noisy_sums = tuple(
            noisy_sum._replace(value=value)
            for noisy_sum, value in zip(density.noisy_sums, values, strict=True)
        )
        return replace(density, noisy_sums=noisy_sums).negative_log_likelihood(at[None])[0][0]

    zero, step = np.zeros((n_sums, length)), 1.0
    means, covariance = np.zeros((n_sums, length)), np.zeros((length, n_sums, n_sums))
    for i in range(length):
        hessian, gradient = np.empty((n_sums, n_sums)), np.empty(n_sums)
        units = []
        for k in range(n_sums):
            unit = zero.copy()
            unit[k, i] = step
            units.append(unit)
            gradient[k] = (energy(unit) - energy(-unit)) / (2 * step)
        for k, one in enumerate(units):
            for m, other in enumerate(units):
                hessian[k, m] = (
                    energy(one + other) - energy(one) - energy(other) + energy(zero)
                ) / step**2
        covariance[i] = np.linalg.inv(hessian)
        means[:, i] = -covariance[i] @ gradient
    return means, covariance


def test_draws_follow_the_density(rng):
    """Of one coefficient and the errors' deviation, against a grid, with noisy sums that may well be."""
    curvature, truth, s = 0.8, 0.4, 0.5
    noisy_sums, sizes = [], []
    for point, clip in ((0.0, 1.5), (0.3, 1.0), (0.5, 0.8)):
        law = clipped_normal(0.0, math.hypot(s, math.sqrt(curvature) * (truth - point)), clip)
        noise = 20.0 * clip
        value = 500.0 * law.slope * curvature * (truth - point) + noise * rng.normal()
        noisy_sums.append(NoisySum(np.array([value]), noise, np.array([point]), clip))
        sizes.append(NoisySum(float(law.square), 0.05, np.array([point]), clip))
    density = a_density(
        rng,
        length=1,
        curvature=dict(values=np.array([curvature]), mean=np.zeros(1)),
        noisy_sums=tuple(noisy_sums),
        mean_squares=tuple(sizes),
    )
    u, log_s = np.meshgrid(np.linspace(-1, 2, 301), np.linspace(-4, 2, 401), indexing="ij")
    points = np.column_stack([u.ravel(), log_s.ravel()])
    energy = density.negative_log_likelihood(points)[0] + density.prior.energy(points)
    weights = np.exp(energy.min() - energy)
    weights /= weights.sum()
    draws, _ = draw(density, 10_000, 0)
    for values, column in ((u, draws[:, 0]), (log_s, draws[:, 1])):
        mean = weights @ values.ravel()
        deviation = math.sqrt(weights @ (values.ravel() - mean) ** 2)
        assert abs(column.mean() - mean) < 0.1 * deviation
        assert math.isclose(column.std(), deviation, rel_tol=0.07)


# Fits


def a_table(seed, n, d, deviation=0.3, heavy=False):
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1.0, 1.0, size=(n, d))
    theta, intercept = 0.5 * rng.normal(size=d), 0.5 * rng.normal()
    errors = rng.standard_t(3, size=n) / math.sqrt(3) if heavy else rng.normal(size=n)
    return rows, rows @ theta + intercept + deviation * errors, np.append(theta, intercept)


def fitted(
    seed, n, d, epsilon, relation="replace_one", bound=4.0, weights=None, n_draws=None, **options
):
    rows, responses, truth = a_table(seed, n, d, **options)
    model = LinearModel(
        family=Normal(-bound, bound),
        n_features=d,
        norm=math.sqrt(d),
        max_weight=None if weights is None else weights.max(),
    )
    plan = ClippedResiduals().plan(model.bounds(), n, Budget(epsilon, 1e-6, relation))
    plan = plan.changed(n_draws=n_draws or plan.n_draws)
    released = run_plan(model.target(rows, responses, weights), plan, seed, 0)
    return model.in_blocks(released.draws.copy())[:, 0], truth, released


def test_with_much_budget_it_is_the_posterior_without_privacy():
    """Least squares' covariance and mean: a wrong temperature, or a factor of two, would show."""
    n, d = 20_000, 3
    draws, _, released = fitted(0, n, d, 1000.0, n_draws=4000)
    rows, responses, _ = a_table(0, n, d)
    z = np.column_stack([rows, np.ones(n)])
    least, rest, *_ = np.linalg.lstsq(z, responses, rcond=None)
    deviations = np.sqrt(rest[0] / n * np.diag(np.linalg.inv(z.T @ z)))
    # Clips leave out a little of what errors in the tails say.
    assert np.all(np.abs(draws.mean(axis=0) - least) < deviations)
    np.testing.assert_allclose(draws.std(axis=0), deviations, rtol=0.1)
    assert np.mean(released.other["noise_deviations"]) == pytest.approx(0.3, rel=0.05)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_weights_of_two_are_two_records(relation):
    draws, truth, released = fitted(1, 4000, 2, 3.0, relation, weights=np.full(4000, 2.0))
    assert np.max(np.abs(draws.mean(axis=0) - truth)) < 6.0 * draws.std(axis=0).max()
    assert np.mean(released.other["noise_deviations"]) == pytest.approx(0.3, rel=0.3)
    assert released.plan.epsilon <= 3.0


@pytest.mark.nightly
def test_a_loose_bound_costs_little():
    """One that is ten times as wide: what sums of responses release would be as much worse."""
    errors = [
        np.mean(
            [
                np.linalg.norm(draws.mean(axis=0) - truth)
                for draws, truth, _ in (fitted(seed, 5000, 3, 1.0, bound=b) for seed in range(3))
            ]
        )
        for b in (4.0, 40.0)
    ]
    assert errors[1] < 2.5 * errors[0]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "n, d, epsilon, heavy, repetitions",
    [
        (5000, 5, 0.1, False, 60),
        (2000, 4, 1.0, True, 60),
        (2000, 4, 10.0, False, 60),
    ],
)
def test_intervals_cover_as_often_as_they_say(n, d, epsilon, heavy, repetitions):
    shares = []
    for seed in range(repetitions):
        draws, truth, _ = fitted(seed, n, d, epsilon, heavy=heavy)
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        shares.append(np.mean((low < truth) & (truth < high)))
    assert abs(np.mean(shares) - 0.9) < 0.07 * math.sqrt(40 / repetitions)


def plan_for(epsilon, n=20_000, d=3):
    bounds = LinearModel(family=Normal(-4.0, 4.0), n_features=d, norm=math.sqrt(d)).bounds()
    return ClippedResiduals().plan(bounds, n, Budget(epsilon, 1e-6))


def test_long_rows_count_the_more_the_less_noise_there_is():
    plans = [plan_for(epsilon) for epsilon in (0.01, 0.3, 1.0, 3.0, 30.0)]
    rows = [plan.row_clipping for plan in plans]
    assert rows == sorted(rows) and rows[0] == NORMAL_CLIPPING and rows[-1] > 6.0 * NORMAL_CLIPPING
    assert plans[0].matrix_clipping == NORMAL_CLIPPING
    assert all(plan.row_clipping <= plan.matrix_clipping for plan in plans)
    assert plan_for(1.0, n=2000).row_clipping <= plan_for(1.0, n=200_000).row_clipping
    for plan in plans:
        assert f"{math.sqrt(plan.row_clipping):.2g} times" in plan.summary()["long rows"]


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("length", [3, 20])
def test_letting_long_rows_count_costs_little_of_what_can_be_learnt(epsilon, length):
    """Against the least error that the recursion expects, that of sampling included."""
    known = 20_000, length, Budget(epsilon, 1e-6).mu, 2
    wide = share_budget(*known)[0]
    shares, _ = _best_shares(*known, Clippings(), (wide.wide_clip, wide.wide_residuals))
    least = _expected_error(*known, Clippings(), shares)
    _, _, error = share_budget(*known)
    sampling = ERRORS * math.sqrt(length / 20_000)
    most = (1.0 + _CLIPPING_TOLERANCE) ** 2 * (1.0 + 1e-3)
    assert math.hypot(error, sampling) <= most * math.hypot(least, sampling)


def test_noise_that_hides_all_lets_no_long_rows_count():
    """What releases say counts, not what is known beforehand, of which no clip takes anything."""
    for n, length in ((294, 14), (300, 40)):
        shares, clippings, _ = share_budget(n, length, Budget(0.1, 1e-5).mu, 2)
        assert clippings == Clippings()
        assert len(shares.noisy_sums) <= N_SUMS_USED


def test_a_small_budget_does_not_predict_worse_than_the_middle_of_bounds():
    """Few rows, noise over all: on average over tables, half of the middle's squared error, or nearly."""
    ratios = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows = np.clip(rng.normal([0.3, -0.2, 0.0, 0.1], 0.35, size=(300, 4)), -1.0, 1.0)
        rows = np.column_stack([rows, np.eye(4)[rng.integers(4, size=300)]])
        means = rows @ (0.25 * rng.normal(size=8)) - 0.25
        y = np.clip(means + 0.1 * rng.normal(size=300), -1.0, 1.0)
        model = DPBayesianRidge((-1.0, 1.0), epsilon=0.2, delta=1e-5, data_norm=math.sqrt(5.0))
        model = model.set_params(random_state=seed).fit(rows, y)
        ratios.append(np.mean((model.predict(rows) - y) ** 2) / np.mean(y**2))
    assert np.mean(ratios) < 0.8


def test_responses_at_both_bounds_have_errors_as_large_as_that():
    """What bounds say of explained responses says nothing of errors."""
    deviations = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(200, 3))
        y = np.where(rng.random(200) < 0.5 + 0.15 * np.clip(rows[:, 0], -1.0, 1.0), 1.0, -1.0)
        model = DPBayesianRidge((-1.0, 1.0), epsilon=0.5, delta=1e-5, random_state=seed)
        deviations.append(model.fit(rows, y).noise_samples_.mean())
    assert np.mean(deviations) > 0.5


def bent_table(seed, n=20_000):
    """A mean that is no linear function of rows, some of which are long."""
    rng = np.random.default_rng(seed)
    rows = 0.15 * rng.standard_t(4, size=(n, 2))
    rows = np.clip(rows, -1.0, 1.0)
    means = rows[:, 0] + 2.0 * rows[:, 0] ** 2 + 2.0 * np.maximum(rows[:, 1], 0.0)
    return rows, means + 0.1 * rng.normal(size=n)


def away_from_least_squares(plan, seed):
    """How far predictions are from those of least squares, over the deviation of residuals."""
    rows, responses = bent_table(seed)
    z = np.column_stack([rows, np.ones(len(rows))])
    least, rest, *_ = np.linalg.lstsq(z, responses, rcond=None)
    model = LinearModel(family=Normal(-4.0, 4.0), n_features=2, norm=math.sqrt(2.0))
    released = run_plan(model.target(rows, responses), plan, seed, 0)
    found = model.in_blocks(released.draws.copy())[:, 0].mean(axis=0)
    return np.linalg.norm(z @ (found - least)) / math.sqrt(rest[0])


def test_where_no_line_is_right_a_large_budget_finds_that_of_least_squares():
    # Which mend both.
    plan = plan_for(10.0, d=2).changed(wide_clip_multipliers=None, wide_residuals_multiplier=None)
    held = plan.changed(row_clipping=NORMAL_CLIPPING, matrix_clipping=NORMAL_CLIPPING)
    far, near = (away_from_least_squares(p, 0) for p in (held, plan))
    assert near < 0.6 * far


def of_one_column(design, seed, n=20_000):
    """Rows of one column, without an intercept, responses, and the coefficient."""
    rng = np.random.default_rng(seed)
    if design == "steep":
        rows, truth = rng.uniform(-1.0, 1.0, size=(n, 1)), np.array([2.0])
    else:
        rows, truth = rng.integers(0, 2, size=(n, 1)).astype(float), 0.5 * rng.normal(size=1)
    return rows, rows @ truth + 0.3 * rng.normal(size=n), truth


@pytest.mark.nightly
@pytest.mark.parametrize("design", ["steep", "binary"])
def test_a_single_column_through_zero_is_covered(design):
    """Where long rows count much less, residuals are larger than weighted rows say."""
    z = []
    for seed in range(60):
        rows, responses, truth = of_one_column(design, seed)
        model = LinearModel(family=Normal(-4.0, 4.0), n_features=1, norm=1.0, constant=0.0)
        plan = ClippedResiduals().plan(model.bounds(), len(rows), Budget(1.0, 1e-5))
        generator = np.random.default_rng(1000 + seed)
        target = model.target(rows, responses)
        at = posterior_of(plan, target, NormalLikelihood, generator)[0].density
        factor = at.curvature.transform
        if at.sandwich_factor is not None:
            factor = factor @ at.sandwich_factor
        covariance = factor @ np.linalg.inv(at.information(at.start))[:-1, :-1] @ factor.T
        mean = at.curvature.transform @ at.start[:-1]
        z.append((mean - truth)[0] / math.sqrt(covariance[0, 0]))
    assert 0.6 < np.sqrt(np.mean(np.square(z))) < 1.25
    assert np.mean(np.abs(z) < 1.6449) > 0.83


def test_rows_that_count_less_where_they_are_long_are_as_large_as_they_are(rng):
    rows = rng.uniform(-1.0, 1.0, size=(20_000, 1))
    model = LinearModel(family=Normal(-4.0, 4.0), n_features=1, norm=1.0, constant=0.0)
    plan = ClippedResiduals().plan(model.bounds(), len(rows), Budget(1.0, 1e-5))
    plan = plan.changed(row_clipping=NORMAL_CLIPPING, matrix_clipping=NORMAL_CLIPPING)
    _, likelihood = posterior_of(plan, model.target(rows, rows[:, 0]), NormalLikelihood, rng)
    found, moved = likelihood.curvature, rows @ likelihood.curvature.transform
    assert found.squares == pytest.approx(np.mean(moved**2, axis=0), rel=0.03)
    assert found.values[0] < 0.85 * found.squares[0]


@pytest.mark.nightly
def test_intervals_do_not_cover_if_noise_is_not_accounted_for(monkeypatch):
    """The test above could fail."""
    learn = NormalLikelihood._learn_residuals

    def deceived(likelihood, value, square):
        learn(likelihood, value._replace(noise=0.03 * value.noise), square)

    monkeypatch.setattr(NormalLikelihood, "_learn_residuals", deceived)
    shares = []
    for seed in range(5):
        draws, truth, _ = fitted(seed, 2000, 4, 0.3)
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        shares.append(np.mean((low < truth) & (truth < high)))
    assert np.mean(shares) < 0.7


def test_clips_follow_residuals_and_never_grow():
    rows, responses, _ = a_table(0, 5000, 3)
    model = LinearModel(family=Normal(-40.0, 40.0), n_features=3, norm=math.sqrt(3))
    plan = ClippedResiduals().plan(model.bounds(), 5000, Budget(3.0, 1e-6))
    target, generator = model.target(rows, responses), np.random.default_rng(0)
    _, likelihood = posterior_of(plan, target, NormalLikelihood, generator)
    clips = np.array([noisy_sum.clip for noisy_sum in likelihood.noisy_sums])
    assert np.all(np.diff(clips) <= 0) and clips[-1] < 0.8 * clips[0] < 40.0
    # At most 2.5 deviations of the errors, and what is not known of them and of the mode.
    assert 1.2 * 0.3 < clips[-1] < 2.8 * 0.3
    assert len(likelihood.noisy_sums) == len(plan.residual_multipliers)


# Public numbers


def test_it_is_what_auto_takes_for_numbers_and_says_what_it_is_for():
    bounds = LinearModel(family=Normal(-1.0, 1.0), n_features=3, norm=1.0).bounds()
    budget = Budget(1.0, 1e-6)
    assert Auto().plan(bounds, 1000, budget).name == "clipped_residuals"
    of_classes = LinearModel(family=Logistic(), n_features=3, norm=1.0).bounds()
    with pytest.raises(ValueError, match="responses that are numbers: take sampler='auto'"):
        ClippedResiduals().plan(of_classes, 1000, budget)
    wide = LinearModel(family=Normal(-1.0, 1.0), n_features=300, norm=1.0).bounds()
    with pytest.raises(ValueError, match="up to 200 coefficients, and there are 301"):
        ClippedResiduals().plan(wide, 1000, budget)
    with pytest.raises(ValueError, match="finite epsilon"):
        ClippedResiduals().plan(bounds, 1000, Budget(math.inf, 1e-6))


def test_plans_tell_what_privacy_costs():
    bounds = LinearModel(family=Normal(-1.0, 1.0), n_features=10, norm=1.0).bounds()
    few, many = (ClippedResiduals().plan(bounds, n, Budget(0.1, 1e-6)) for n in (100, 10**6))
    assert few.interval_inflation > many.interval_inflation > 1.0
    assert any("noise hides nearly all" in text for text in few.warnings) and not many.warnings
    assert "sums of clipped residuals" in many.summary()["spent on"]


def test_new_draws_are_free_and_of_the_same_posterior():
    _, _, released = fitted(0, 2000, 2, 1.0)
    given = {**released.parameters, **released.other}
    draws = released.plan.sampler.redraw(given, 700, np.random.RandomState(0))
    draws = draws.reshape(700, -1)
    np.testing.assert_allclose(draws.mean(axis=0), released.draws.mean(axis=0), atol=0.05)
    deviations = released.other["posterior"].deviations_without_privacy()
    assert np.all(deviations < 1.2 * draws.std(axis=0))


def test_the_same_seed_gives_the_same_draws():
    rows, responses, _ = a_table(0, 500, 2)
    model = LinearModel(family=Normal(-4.0, 4.0), n_features=2, norm=math.sqrt(2))
    plan = ClippedResiduals().plan(model.bounds(), 500, Budget(1.0, 1e-6), n_draws=50)
    one, other = (sample(model.target(rows, responses), plan, random_state=0) for _ in range(2))
    np.testing.assert_array_equal(one, other)
    assert one.shape == (50, 3)
