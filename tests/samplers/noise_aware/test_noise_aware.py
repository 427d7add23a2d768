"""A noise-aware posterior: what is released and what it costs, and whether the draws are a posterior."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit, logsumexp

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.privacy import Budget, audit_separation
from skdpbayes.samplers import NoiseAware, sample
from skdpbayes.samplers.fisher.plan import moment_noise
from skdpbayes.samplers.noise_aware import surrogate as surrogates
from skdpbayes.samplers.noise_aware.plan import Coordinates
from skdpbayes.samplers.noise_aware.releases import release_all, release_vector
from skdpbayes.targets import TargetBounds
from skdpbayes.targets._weighted import record_weights, weighted_sums

PRIOR_SCALE = 3.0


def unit_rows(rng, n, d):
    rows = rng.normal(size=(n, d))
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))


def labels_of(rng, rows, theta):
    return (rng.random(len(rows)) < expit(rows @ theta)).astype(int)


def a_plan(bounds, n, epsilon=1.0, relation="replace_one", n_draws=None):
    return NoiseAware().plan(bounds, n, Budget(epsilon, 1e-6, relation), n_draws=n_draws)


# What it costs


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
def test_the_parts_cost_what_the_plan_says_and_no_more_than_the_budget(epsilon, relation):
    bounds = TargetBounds(7, 1.0, 0.25, (0.1, 0.1), row_norm=1.0)
    plan = a_plan(bounds, 50_000, epsilon, relation)
    multipliers = [
        plan.moment_multiplier,
        *plan.pilot_multipliers,
        plan.curvature_multiplier,
        plan.gradient_multiplier,
    ]
    assert plan.cost.mu == pytest.approx(math.sqrt(sum(m**-2.0 for m in multipliers)), rel=1e-12)
    assert plan.cost.neighboring_relation == relation
    assert 0.999 * epsilon < plan.epsilon <= epsilon


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("constant", [0.0, 0.7])
def test_no_record_weighs_more_than_the_bounds_that_noise_is_scaled_by(
    rng, make_target, is_sparse, constant
):
    """Records of any length, at any point, in coordinates that stretch some directions a lot."""
    d = 4
    rows = unit_rows(rng, 60, d) * rng.choice([1e-6, 0.1, 1.0], size=(60, 1))
    table = sp.csr_matrix(rows) if is_sparse else rows
    labels = np.arange(60) % 2
    target, _ = make_target(table, labels, intercept_scaling=constant)
    length = d + (constant > 0)
    longest, steepest = 0.0, 0.0
    for _ in range(20):
        transform = rng.normal(size=(length, length)) * 10.0 ** rng.uniform(-1, 2, size=length)
        norm = 10.0 ** rng.uniform(-1, 1)
        weights = record_weights(target, transform, norm)
        theta = rng.normal(size=length) * 10.0 ** rng.uniform(-2, 3)
        matrices, gradients = [], []
        for i in range(0, 60, 3):
            own = np.where(np.arange(60) == i, weights, 0.0)
            gradient, matrix = weighted_sums(target, own, theta, True)
            gradients.append(transform.T @ gradient / norm)
            matrices.append(transform.T @ matrix @ transform / norm**2)
        longest = max(longest, np.linalg.norm(gradients, axis=1).max())
        steepest = max(steepest, max(np.linalg.norm(m) for m in matrices))
        apart = max(np.linalg.norm(m - other) for m in matrices for other in matrices)
        assert apart <= math.sqrt(2.0) / 4.0 * (1 + 1e-9)
    assert 0.5 < longest <= 1 + 1e-9
    assert 0.1 < steepest <= 0.25 * (1 + 1e-9)


def test_weighted_sums_are_derivatives_of_each_other(rng, make_target):
    rows, constant = unit_rows(rng, 300, 3), 0.5
    target, _ = make_target(rows, np.arange(300) % 2, intercept_scaling=constant)
    weights, theta = rng.uniform(size=300), rng.normal(size=4)
    gradient, matrix = weighted_sums(target, weights, theta, True)
    z = np.column_stack([rows, np.full(300, constant)])
    np.testing.assert_allclose(gradient, z.T @ (weights * (expit(z @ theta) - target.labels)))
    step = 1e-5
    for j, unit in enumerate(np.eye(4)):
        ahead, behind = (
            weighted_sums(target, weights, theta + h * unit, False)[0] for h in (step, -step)
        )
        np.testing.assert_allclose((ahead - behind) / (2 * step), matrix[j], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_an_attack_on_all_releases_stays_within_the_claim(make_target, relation):
    """The likelihood ratio of gradients and curvature, given the coordinates that were released."""
    n, d = 30, 2
    rows = np.zeros((n, d))
    rows[:, 0] = 0.02
    labels = np.arange(n) % 2
    rows[0] = [0.0, 1.0]
    other_rows, other_labels = rows.copy(), labels.copy()
    other_labels[0] = 1 - labels[0]
    if relation == "add_or_remove_one":
        other_rows, other_labels = rows[1:], labels[1:]
    tables = [make_target(*part)[0] for part in ((rows, labels), (other_rows, other_labels))]
    bounds = make_target(rows, labels)[1]
    plan = a_plan(bounds, n, 2.0, relation)
    scores = []
    for which, table in enumerate(tables):
        found = []
        for seed in range(400):
            released, _ = release_all(plan, table, np.random.default_rng(1000 * which + seed))
            found.append(log_ratio(released, tables))
        scores.append(np.array(found))
    audit = audit_separation(*scores)
    assert audit.mu <= plan.cost.mu
    assert audit.mu > 0.1 * plan.cost.mu


@pytest.mark.parametrize("relation, moved", [("replace_one", 2), ("add_or_remove_one", 1)])
def test_noise_is_as_large_as_multipliers_and_bounds_say(rng, make_target, relation, moved):
    """Nothing here may be off by a factor: what a release adds, and what the draws are told of it."""
    target, bounds = make_target(unit_rows(rng, 500, 3), np.arange(500) % 2)
    plan = a_plan(bounds, 500, 1.0, relation)
    found, _ = release_all(plan, target, np.random.default_rng(0))
    norm = math.sqrt(1.3 * max(1.0, found.seen.sum()))
    multipliers = np.array([*plan.pilot_multipliers, plan.gradient_multiplier])
    np.testing.assert_allclose(found.noises, moved * norm * multipliers, rtol=1e-4)
    expected = math.sqrt(moved) * norm**2 / 4.0 * plan.curvature_multiplier
    assert found.curvature_noise == pytest.approx(expected, rel=1e-4)
    assert moment_noise(bounds, 500, plan.budget, plan.moment_multiplier) == pytest.approx(
        math.sqrt(moved) * plan.moment_multiplier, rel=1e-4
    )
    released = release_vector(np.zeros(100_000), 0.7, rng)
    assert released.std() == pytest.approx(0.7, rel=0.02)


def log_ratio(released, tables):
    """Log likelihood ratio of the gradients and the curvature, at their points, of two tables."""
    total, transform = 0.0, released.transform
    norm = math.sqrt(1.3 * max(1.0, released.seen.sum()))
    all_weights = [record_weights(table, transform, norm) for table in tables]
    for k, point in enumerate(released.points):
        last = k == len(released.points) - 1
        for sign, table, weights in zip((1, -1), tables, all_weights, strict=True):
            gradient, matrix = weighted_sums(table, weights, transform @ point, last)
            miss = released.gradients[k] - transform.T @ gradient
            total -= sign * np.sum(miss**2) / (2 * released.noises[k] ** 2)
            if last:
                miss = released.curvature - transform.T @ matrix @ transform
                total -= sign * np.sum(miss**2) / (2 * released.curvature_noise**2)
    return total


@pytest.mark.parametrize(
    "changed, options, message",
    [
        ({"n_blocks": 3, "n_parameters": 9}, {}, "two classes"),
        ({"row_norm": None}, {}, "two classes"),
        ({"n_parameters": 201}, {}, "201"),
        ({}, {"temperature": 2.0}, "temperature"),
        ({}, {"n_steps": 5}, "n_steps"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(changed, options, message):
    bounds = TargetBounds(3, 1.0, 0.25, (0.1, 0.1), row_norm=1.0)._replace(**changed)
    with pytest.raises(ValueError, match=message):
        NoiseAware().plan(bounds, 1000, Budget(1.0, 1e-6), **options)
    with pytest.raises(ValueError, match="delta=0"):
        NoiseAware().plan(bounds, 1000, Budget(1.0, 0.0))


# Whether the draws are a posterior


def a_surrogate(rng, length, n=400, noise=6.0, curvature_noise=25.0):
    """Releases of a made-up table, around a mode that is not at zero."""
    matrix = rng.normal(size=(length, length))
    curvature = n * (0.15 * np.eye(length) + 0.03 * (matrix + matrix.T))
    points = np.array([np.zeros(length), np.full(length, 0.6)])
    return surrogates.Surrogate(
        n_samples=n,
        transform=np.eye(length),
        seen=np.ones(length),
        prior=np.diag(np.full(length, 2.0)),
        points=points,
        gradients=rng.normal(size=(2, length)) * 12.0 + [[-40.0] * length, [0.0] * length],
        noises=np.array([3.0 * noise, noise]),
        curvature=curvature,
        curvature_noise=curvature_noise,
    )


def log_density_in_one_dimension(given, u, log_value):
    """The model at the top of ``surrogate.py``, written once more for a single parameter."""
    n, m = given.n_samples, given.points[-1, 0]
    h = surrogates.average_slope

    def score(x):
        return n * x * h(np.abs(x))

    slope = (score(m + 1e-4) - score(m - 1e-4)) / 2e-4
    value = np.exp(log_value)

    def difference(x):
        return value * (x - m) + score(x) - score(m) - slope * (x - m)

    bends = np.array([score(x) - score(m) - slope * (x - m) for x in given.points[:, 0]])
    squares = given.noises**2 + bends**2 / 4.0
    shares = squares**-1.0 / np.sum(squares**-1.0)
    gradient = shares @ given.gradients[:, 0]
    at_points = sum(s * difference(x) for s, x in zip(shares, given.points[:, 0], strict=True))
    variance = value * h(np.abs(u)) / h(abs(m)) + 1.0 / np.sum(squares**-1.0)
    total = -((gradient + difference(u) - at_points) ** 2) / (2 * variance) - np.log(variance) / 2
    total -= given.prior[0, 0] * u**2 / 2
    return total - (given.curvature[0, 0] - value) ** 2 / (2 * given.curvature_noise**2)


def log_prior_of_logs(log_value, centre):
    """Of a single eigenvalue, whose mean and deviation are integrated out on a grid."""
    mean = np.linspace(-5.0, 5.0, 81)[:, None]
    deviation = np.exp(np.linspace(-3.0, 4.0, 80))
    # The variance has an inverse Gamma law of shape 1 and rate 1/4; the grid is even in logarithms.
    log_law = -(mean**2) / 2 - 0.25 / deviation**2 - 2 * np.log(deviation)
    each = log_law - ((log_value - centre)[:, None, None] - mean) ** 2 / (2 * deviation**2)
    return logsumexp(each - np.log(deviation), axis=(1, 2))


def test_draws_in_one_dimension_against_a_grid(rng):
    given = a_surrogate(rng, 1)
    centre = math.log(given.n_samples * surrogates.average_slope(0.6))
    u, log_value = np.linspace(-4.0, 4.0, 801)[:, None], np.linspace(-6.0, 6.5, 800)
    log_density = log_density_in_one_dimension(given, u, log_value)
    log_density = log_density + log_prior_of_logs(log_value, centre)
    density = np.exp(log_density - log_density.max()).sum(axis=1)
    density /= density.sum()
    grid = u.ravel()
    expected = density @ grid
    spread = math.sqrt(density @ (grid - expected) ** 2)
    draws = surrogates.draw(given, 20_000, np.random.default_rng(0))[:, 0]
    assert draws.mean() == pytest.approx(expected, abs=0.05 * spread)
    assert draws.std() == pytest.approx(spread, rel=0.05)
    tail = np.cumsum(density)[np.searchsorted(grid, expected + spread)]
    assert np.mean(draws < expected + spread) == pytest.approx(tail, abs=0.02)


def test_without_noise_to_speak_of_draws_follow_the_linear_posterior(rng):
    """A curvature that is known, a budget that hides nothing: normal, with the precision F + P."""
    d, n = 3, 10**6
    curvature = n * np.diag([0.24, 0.2, 0.15])
    given = dataclasses.replace(
        a_surrogate(rng, d, n),
        curvature=curvature,
        curvature_noise=n * 1e-5,
        gradients=np.zeros((2, d)),
        points=np.zeros((2, d)),
        noises=np.array([1.0, 1.0]),
    )
    draws = surrogates.draw(given, 20_000, np.random.default_rng(1))
    expected = 1.0 / np.sqrt(np.diag(curvature) + 2.0)
    np.testing.assert_allclose(draws.std(axis=0), expected, rtol=0.05)
    assert (np.abs(draws.mean(axis=0)) < 0.06 * expected).all()


def test_the_score_of_a_gaussian_design_is_what_simulated_rows_have(rng):
    seen, n = np.array([1.0, 0.4]), 2_000_000
    rows = rng.normal(size=(n, 2)) * np.sqrt(seen)
    for u in (np.array([0.3, -0.2]), np.array([2.0, 3.0])):
        found = (rows * (expit(rows @ u) - 0.5)[:, None]).mean(axis=0)
        expected = seen * u * surrogates.average_slope(math.sqrt(np.sum(seen * u**2)))
        np.testing.assert_allclose(found, expected, atol=2e-3)


def covered(n, d, epsilon, repetitions):
    """Share of 90% intervals, of parameters drawn from the prior, that cover them."""
    shares = []
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        rows, theta = unit_rows(rng, n, d), PRIOR_SCALE * rng.normal(size=d)
        clf = DPBayesianLogisticRegression(
            epsilon=epsilon,
            data_norm=1.0,
            prior_scale=PRIOR_SCALE,
            fit_intercept=False,
            sampler="noise_aware",
            n_draws=400,
            classes=[0, 1],
            random_state=seed,
        ).fit(rows, labels_of(rng, rows, theta))
        low, high = np.quantile(clf.posterior_samples_[:, 0], [0.05, 0.95], axis=0)
        shares.append(np.mean((low < theta) & (theta < high)))
    return np.mean(shares)


@pytest.mark.parametrize("n, d, epsilon", [(2000, 4, 0.3), (2000, 4, 1.0), (3000, 3, 10.0)])
def test_intervals_cover_as_often_as_they_say(n, d, epsilon):
    assert 0.83 <= covered(n, d, epsilon, 60) <= 0.97


@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_noise_of_the_wrong_size_would_not_cover(monkeypatch, factor):
    """The test above can fail: draws that are told another noise cover too rarely, or always."""
    from skdpbayes.samplers.noise_aware import releases

    draw = releases.draw

    def deluded(surrogate, *args):
        scaled = dataclasses.replace(
            surrogate,
            noises=factor * surrogate.noises,
            curvature_noise=factor * surrogate.curvature_noise,
        )
        return draw(scaled, *args)

    monkeypatch.setattr(releases, "draw", deluded)
    found = covered(2000, 4, 1.0, 40)
    assert found < 0.8 if factor < 1 else found > 0.96


# As users meet it


def test_any_number_of_draws_is_free(rng):
    rows = unit_rows(rng, 2000, 3)
    labels = labels_of(rng, rows, np.array([2.0, 0.0, -1.0]))
    clf = DPBayesianLogisticRegression(sampler="noise_aware", n_draws=50, random_state=0)
    clf.fit(rows, labels)
    assert clf.posterior_samples_.shape == (50, 1, 4)
    many = clf.sample_posterior(5000, random_state=1)
    assert many.shape == (5000, 1, 4)
    error = many.std(axis=0) * 4.0 / math.sqrt(10)  # Of 50 draws that are worth ten.
    assert (np.abs(many.mean(axis=0) - clf.posterior_samples_.mean(axis=0)) < error).all()
    assert clf.temperature_ == 1.0
    assert clf.n_iter_ == 7


def test_without_privacy_the_plan_is_a_chain_s():
    bounds = TargetBounds(3, 1.0, 0.25, (0.1, 0.1), row_norm=1.0)
    plan = NoiseAware().plan(bounds, 1000, Budget(math.inf, 1e-6))
    assert plan.name == "sghmc"


def test_other_targets_are_refused(make_target, rng):
    target, bounds = make_target(unit_rows(rng, 50, 2), np.arange(50) % 3, n_classes=3)
    binary = dataclasses.replace(
        a_plan(TargetBounds(6, 1.0, 0.25, (0.1, 0.1), row_norm=1.0), 50),
        bounds=bounds,
    )
    with pytest.raises(ValueError, match="binary logistic"):
        sample(target, binary, random_state=0)


def test_room_for_rounding_is_small_and_grows_with_what_it_is_for():
    plan = a_plan(TargetBounds(3, 1.0, 0.25, (0.1, 0.1), row_norm=1.0), 100_000)
    near = Coordinates(np.eye(3), np.ones(3), 1.0, 1.0)
    far = Coordinates(1e3 * np.eye(3), np.ones(3), 1.0, 1.0)
    theta = np.ones(3)
    assert 1.0 < near.inflation(plan, theta) < 1 + 1e-5
    assert near.inflation(plan, 1e4 * theta) > near.inflation(plan, theta)
    assert far.inflation(plan, theta) - 1 > 1e5 * (near.inflation(plan, theta) - 1)


@pytest.mark.parametrize("kind", ["zero", "one", "huge", "tiny"])
@pytest.mark.parametrize("epsilon", [1e-3, 1e3])
def test_tables_that_say_nothing_still_have_a_posterior(rng, kind, epsilon):
    rows = {
        "zero": np.zeros((4, 2)),
        "one": np.ones((1, 2)),
        "huge": 1e300 * rng.normal(size=(4, 2)),
        "tiny": 1e-310 * rng.normal(size=(4, 2)),
    }[kind]
    clf = DPBayesianLogisticRegression(
        epsilon=epsilon, sampler="noise_aware", n_draws=10, classes=[0, 1], random_state=0
    ).fit(rows, np.arange(len(rows)) % 2)
    assert np.isfinite(clf.posterior_samples_).all()
    assert clf.spent_epsilon_ <= epsilon
