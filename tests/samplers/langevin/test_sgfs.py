"""Fisher scoring: the released second moment is a Gaussian mechanism, and the rest keeps to its noise."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from references import logistic_moments, planned, standard_error
from scipy.special import expit

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.audit import audit_separation
from skdpbayes.models import (
    Logistic,
    TargetBounds,
    potential_gradient,
    record_weights,
    second_moment,
)
from skdpbayes.models.families import classifier
from skdpbayes.models.linear import linear_bounds, linear_prior_precision, make_linear
from skdpbayes.privacy import Budget
from skdpbayes.privacy.conversions import gaussian_mu
from skdpbayes.samplers import SGFS, SGHMC
from skdpbayes.samplers.base import run_plan
from skdpbayes.samplers.langevin.fisher import WhitenedGeometry, complete, posterior_mode
from skdpbayes.samplers.noise import OfBlocks, release_moment, to_coordinates

BOUNDS = TargetBounds(10, 1.0, 0.25, (0.16, 0.16), row_norm=1.0, family=Logistic())


def correlated(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) @ np.array([[1.0, 0.9], [0.0, 0.15]])
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1) / 2.0)[:, None]
    return X, (rng.random(n) < expit(2 * X[:, 0] - X[:, 1])).astype(int)


def logistic(X, y, norm=2.0, prior_scale=2.0, constant=0.0, n_classes=2):
    precision = linear_prior_precision(
        classifier(n_classes), X.shape[1], prior_scale, prior_scale, constant
    )
    bounds = linear_bounds(classifier(n_classes), np.hypot(norm, constant), precision, constant)
    return make_linear(X, y, classifier(n_classes), norm, constant, precision), bounds


# What is released of the second moment


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
def test_the_sensitivity_of_the_second_moment_by_brute_force(relation):
    """Over a grid of rows in the disc, with and without a constant: the noise covers every pair."""
    angles, radii = np.linspace(0, 2 * np.pi, 49), np.linspace(0, 2.0, 9)
    points = np.array([(r * np.cos(a), r * np.sin(a)) for r in radii for a in angles])
    for constant in (0.0, 1.5):
        rows = np.column_stack([points, np.full(len(points), constant)])
        bound = np.hypot(2.0, constant)
        bounds = TargetBounds(3, bound, bound**2 / 4, (1.0, 1.0), row_norm=bound, family=Logistic())
        plan = SGFS().plan(bounds, 100, Budget(1.0, 1e-5, relation))
        products = rows[:, :, None] * rows[:, None, :]
        # Entries off the diagonal have half the variance and stand for two: the Frobenius norm.
        if relation == "replace_one":
            moved = max(
                np.sqrt(((products - other) ** 2).sum(axis=(1, 2))).max() for other in products
            )
        else:
            moved = np.sqrt((products**2).sum(axis=(1, 2))).max()
        mu = math.sqrt(plan.share) * gaussian_mu(1.0, 1e-5)
        assert moved / plan.moment_noise <= mu
        assert moved / plan.moment_noise > 0.999 * mu


def test_the_noise_is_symmetric_and_has_half_the_variance_off_the_diagonal():
    generator = np.random.default_rng(0)
    exact = np.array([[5.0, 1.0, 0.2], [1.0, 3.0, -2.0], [0.2, -2.0, 8.0]])
    drawn = np.array([release_moment(exact, 4.0, generator) for _ in range(6000)])
    assert np.array_equal(drawn, drawn.transpose(0, 2, 1))
    assert np.allclose(drawn.mean(axis=0), exact, atol=4 * 4 / np.sqrt(6000))
    expected = 16 * (0.5 + 0.5 * np.eye(3))
    assert np.allclose(drawn.var(axis=0), expected, rtol=0.08)
    assert abs(np.corrcoef(drawn[:, 0, 1], drawn[:, 0, 2])[0, 1]) < 0.055


def test_an_attack_on_the_matrix_reaches_its_share_and_not_more():
    common = np.full((20, 2), 0.3)
    first = np.vstack([common, [[1.0, 0.0]]])
    second = np.vstack([common, [[0.0, 1.0]]])
    y = np.zeros(21, dtype=int)
    targets = [logistic(X, y, norm=1.0)[0] for X in (first, second)]
    bounds = logistic(first, y, norm=1.0)[1]
    plan = SGFS().plan(bounds, 21, Budget(20.0, 1e-5))
    generator = np.random.default_rng(1)
    scores = [
        [
            np.subtract(*np.diag(release_moment(second_moment(t), plan.moment_noise, generator)))
            for _ in range(4000)
        ]
        for t in targets
    ]
    result = audit_separation(*scores)
    mu = math.sqrt(plan.share) * gaussian_mu(20.0, 1e-5)
    assert result.mu - 3.5 * result.standard_error <= mu
    assert result.mu > 0.95 * mu


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_an_attack_by_rows_that_are_too_long_for_squares_gains_nothing(container):
    """The norm over theirs is no normal double: rounded up, it would leave them four times as long."""
    norm, a, b = 1e-18, 4e305, 3.92e305
    common = np.full((20, 4), 0.3 * norm)
    tables = [np.vstack([common, row]) for row in ([a, a, a, b], [a, -a, b, -a])]
    y = np.zeros(21, dtype=int)
    targets = [logistic(container(table), y, norm=norm)[0] for table in tables]
    plan = SGFS().plan(logistic(tables[0], y, norm=norm)[1], 21, Budget(3.0, 1e-5))
    first, second = (second_moment(target) for target in targets)
    moved = np.linalg.norm(first - second)
    assert moved / norm**2 == pytest.approx(math.sqrt(2.0), rel=1e-12)
    generator = np.random.default_rng(1)
    scores = [
        [
            np.sum((first - second) * release_moment(moment, plan.moment_noise, generator)) / moved
            for _ in range(5_000)
        ]
        for moment in (first, second)
    ]
    result = audit_separation(*scores)
    mu = math.sqrt(plan.share) * gaussian_mu(3.0, 1e-5)
    assert result.mu - 3.5 * result.standard_error <= mu
    assert result.mu > 0.9 * mu


@pytest.mark.parametrize("constant", [0.0, 1.5])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_moments_and_weights_of_any_table(constant, sparse, n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 4)) * [1.0, 0.2, 3.0, 0.01]
    X[rng.random(X.shape) < 0.3] = 0.0
    y = rng.integers(n_classes, size=5000)
    target, _ = logistic(
        sp.csr_matrix(X) if sparse else X, y, constant=constant, n_classes=n_classes
    )
    rows = X * np.minimum(1.0, 2.0 / np.maximum(np.linalg.norm(X, axis=1), 1e-300))[:, None]
    if constant:
        rows = np.column_stack([rows, np.full(5000, constant)])
    assert np.allclose(second_moment(target), rows.T @ rows, rtol=1e-10)
    length = rows.shape[1]
    transform = rng.normal(size=(length, length))
    squares = np.sum((rows @ transform) ** 2, axis=1)
    norm = math.sqrt(np.median(squares))
    weights = record_weights(target, transform, norm)
    assert np.allclose(weights, np.minimum(1.0, norm**2 / np.maximum(squares, 1e-300)), rtol=1e-10)
    assert 0.05 < np.mean(weights < 1) < 0.95


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [5e-324, 1e-310, 1e-160])
def test_rows_whose_squares_underflow_count_in_full(size):
    target, _ = logistic(np.array([[size, 0.0], [1.0, 1.0]]), np.array([0, 1]))
    weights = record_weights(target, np.eye(2) + 0.1, 0.5)
    assert weights[0] == 1.0 and weights[1] < 1.0


def whitened_gradients(n_classes, constant, seed):
    """Gradients of single records in ``u``, as a step adds them up, and the bound on them.

    Records of any length, at any point, in coordinates that stretch some directions a lot.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3)) * rng.choice([1e-6, 0.1, 1.0, 10.0], size=(60, 1))
    y = np.arange(60) % n_classes
    target, bounds = logistic(X, y, constant=constant, n_classes=n_classes)
    length = 3 + (constant > 0)
    transform = rng.normal(size=(length, length)) * 10.0 ** rng.uniform(-1, 2, size=length)
    norm = 10.0 ** rng.uniform(-1, 1)
    weights = record_weights(target, transform, norm)
    scale = 10.0 ** rng.uniform(-2, 2, size=length)
    coordinates = OfBlocks(transform, scale) if n_classes > 2 else transform
    theta = rng.normal(size=bounds.n_parameters) * 10.0 ** rng.uniform(-2, 3)
    found = []
    for i in range(60):
        own = target._replace(weights=np.where(np.arange(60) == i, weights, 0.0))
        moved = np.empty(theta.size)
        to_u(coordinates, potential_gradient(own, theta, 0.0), False, moved)
        found.append(moved)
    return np.array(found), bounds.gradient_bound * norm / bounds.row_norm


@njit
def to_u(coordinates, gradient, is_prior, out):
    to_coordinates(coordinates, gradient, is_prior, out)


@pytest.mark.nightly
@pytest.mark.parametrize("n_classes, constant", [(2, 0.0), (2, 0.7), (3, 0.7)])
def test_no_pair_of_records_is_farther_apart_than_noise_is_scaled_for(n_classes, constant):
    """By brute force, over all pairs; and a bound that is not met would cost accuracy."""
    longest = 0.0
    for seed in range(20):
        found, bound = whitened_gradients(n_classes, constant, seed)
        apart = max(np.linalg.norm(found - one, axis=1).max() for one in found)
        assert apart <= 2.0 * bound * (1 + 1e-9)
        assert np.linalg.norm(found, axis=1).max() <= bound * (1 + 1e-9)
        longest = max(longest, apart / (2.0 * bound))
    assert longest > 0.5


def test_what_rounding_lets_through_is_allowed_for():
    """Rows that are all but orthogonal to what stretches most: their norms lose digits, and weights, too."""
    rng = np.random.default_rng(0)
    d, norm = 6, 2.0
    worst = 0.0
    for growth in (1.0, 1e8, 1e17):
        stretched = np.linalg.qr(rng.normal(size=(d, d)))[0]
        X = rng.normal(size=(4000, d)) @ stretched[:, 1:] @ stretched[:, 1:].T
        target, bounds = logistic(np.ascontiguousarray(X), np.arange(4000) % 2, norm=norm)
        transform = stretched * np.where(np.arange(d) == 0, growth, 1.0)
        weights = record_weights(target, transform, 1.0)
        rows = X * target.scale[:, None]
        exact = rows.astype(np.longdouble) @ transform.astype(np.longdouble)
        longest = float((weights * np.linalg.norm(exact, axis=1)).max())
        whitened = bounds._replace(gradient_bound=1.0)
        geometry = WhitenedGeometry(
            whitened,
            4000,
            least_data_curvature=1.0,
            growth=max(1.0, float(np.linalg.norm(transform)) * norm),
        )
        assert longest <= geometry.inflation(Budget(1.0, 1e-5))
        worst = max(worst, longest)
    assert worst > 1.0 + 1e-3  # What a fixed margin would not have covered.


def test_the_mode_stays_where_it_was_on_columns_of_rare_ones():
    """A row that is shortened has another logit: the mode moved by six deviations for that."""
    rng = np.random.default_rng(0)
    n, frequencies = 20_000, np.geomspace(0.5, 0.01, 10)
    X = (rng.random((n, 10)) < frequencies).astype(float)
    y = (rng.random(n) < expit(X @ rng.normal(size=10) * 1.5 - 0.5)).astype(int)
    target, bounds = logistic(X, y, norm=10**0.5, prior_scale=0.8, constant=1.0)
    plan = SGFS().plan(bounds, n, Budget(1.0, 1e-6))
    moment = release_moment(second_moment(target), plan.moment_noise, rng)
    _, transform, norm = complete(plan, moment, SGHMC())
    weights = record_weights(target, transform, norm)
    assert np.mean(weights < 1) > 0.1
    rows = np.column_stack([X, np.ones(n)])
    mode, hessian = posterior_mode(target, 1.0)
    moved = mode.copy()
    for _ in range(20):
        p = expit(rows @ moved)
        curvature = (rows * (weights * p * (1 - p))[:, None]).T @ rows
        gradient = rows.T @ (weights * (p - y)) + target.prior_precision * moved
        moved -= np.linalg.solve(curvature + np.diag(target.prior_precision), gradient)
    # What weights leave out is information, so that the mode may differ by part of a deviation.
    deviations = np.sqrt(np.diag(np.linalg.inv(hessian)))
    assert np.abs((moved - mode) / deviations).max() < 2.0


# What the rest may do


@given(
    st.integers(0, 10**6),
    st.sampled_from([0.1, 1.0, 10.0]),
    st.sampled_from(["replace_one", "add_or_remove_one"]),
)
@settings(max_examples=60, deadline=None)
def test_no_step_has_less_noise_than_is_paid_for_by_any_matrix(seed, epsilon, relation):
    rng = np.random.default_rng(seed)
    n = int(10 ** rng.uniform(1, 6))
    plan = SGFS().plan(BOUNDS, n, Budget(epsilon, 1e-5, relation))
    root = rng.normal(size=(10, 10)) * 10 ** rng.uniform(-2, 2, 10)
    matrix = root @ root.T * 10 ** rng.uniform(-3, 3) + rng.normal() * np.eye(10)
    path, transform, norm = complete(plan, 0.5 * (matrix + matrix.T), SGHMC())
    noise = math.sqrt(2 * path.gradient_step * path.friction * path.temperature)
    # One record's contribution to the gradient in whitened coordinates.
    assert path.gradient_step * norm / noise <= 1 / plan.noise_multiplier
    assert path.cost is plan.cost and path.temperature >= 1
    assert np.linalg.norm(transform, 2) < np.inf
    stiffest = n * norm**2 / 4 + path.temperature * 0.16 * np.linalg.norm(transform, 2) ** 2
    assert path.gradient_step <= 1 / stiffest * (1 + 1e-9)


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one"])
@pytest.mark.parametrize("options", [{}, {"batch_size": 1000}, {"n_steps": 500, "n_draws": 7}])
def test_the_budget_is_spent_between_the_matrix_and_the_path(relation, options):
    plan = planned(SGFS, BOUNDS, 20_000, Budget(1.0, 1e-5, relation), **options)
    assert 0.995 < plan.epsilon <= 1.0
    of_matrix = math.sqrt(plan.share) * gaussian_mu(1.0, 1e-5)
    if plan.sampling_rate < 1:
        assert plan.cost.mu == pytest.approx(of_matrix)
        assert plan.cost.sampled[0].count == plan.n_steps
    else:
        shift = 2.0 if relation == "replace_one" else 1.0
        of_path = shift * math.sqrt(plan.n_steps) / plan.noise_multiplier
        assert plan.cost.mu == pytest.approx(math.hypot(of_matrix, of_path), rel=1e-9)
    assert "second moment" in str(plan) and "from the released" in str(plan)


@pytest.mark.parametrize(
    "options, bounds, named",
    [
        ({"n_steps": 10, "n_draws": 20}, BOUNDS, "n_steps"),
        ({}, BOUNDS._replace(row_norm=None), "row_norm"),
    ],
)
def test_what_cannot_be_fixed_beforehand_is_refused(options, bounds, named):
    with pytest.raises(ValueError, match=named):
        planned(SGFS, bounds, 1000, Budget(1.0, 1e-5), **options)


# The draws


@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_the_law_against_quadrature_on_correlated_columns(constant):
    n = 300
    X, y = correlated(n)
    if constant:
        X = np.ascontiguousarray(X[:, :1])
    target, bounds = logistic(X, y, constant=constant)
    plan = planned(SGFS, bounds, n, Budget(np.inf, 1e-5), n_steps=100_000, n_draws=30_000)
    released = run_plan(target, plan, 0, 0)
    rows = np.column_stack([X, np.full(n, constant)]) if constant else X
    assert np.allclose(released.other["second_moment"], rows.T @ rows)
    # The coordinate of the constant column is the intercept over the constant.
    scale = np.array([2.0, 2.0 / constant]) if constant else np.array([2.0, 2.0])
    mean, covariance = logistic_moments(rows, y, scale)
    deviations = np.sqrt(np.diag(covariance))
    draws = released.draws
    error = 4 * standard_error(draws)
    assert (error < 0.15 * deviations).all()
    assert (np.abs(draws.mean(axis=0) - mean) < error + 0.05 * deviations).all()
    found = np.cov(draws.T) / np.outer(deviations, deviations)
    assert np.allclose(found, covariance / np.outer(deviations, deviations), atol=0.12)


@pytest.mark.nightly
@pytest.mark.parametrize("epsilon", [pytest.param(1.0, marks=pytest.mark.nightly), np.inf])
def test_directions_in_which_all_classes_move_alike_follow_the_prior(epsilon):
    """The softmax says nothing of them, and whitening by rows left them where they began."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (10_000, 3))
    y = np.argmax(X @ rng.normal(size=(3, 3)) + rng.gumbel(size=(10_000, 3)), axis=1)
    draws = [
        DPBayesianLogisticRegression(
            epsilon, sampler="sgfs", data_norm=2.0, prior_scale=0.5, random_state=seed
        )
        .fit(X, y)
        .posterior_samples_.mean(axis=1)
        for seed in range(2)
    ]
    spread = np.sqrt(np.mean(np.square(draws), axis=(0, 1))) / (0.5 / math.sqrt(3))
    assert np.all((spread > 0.7) & (spread < 1.35))


def test_the_estimator_publishes_the_matrix_it_has_paid_for():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 4))
    y = (X[:, 0] > 0).astype(int)
    clf = DPBayesianLogisticRegression(5.0, sampler="sgfs", random_state=0).fit(X, y)
    assert clf.released_.second_moment.shape == (5, 5)
    assert np.array_equal(clf.released_.second_moment, clf.released_.second_moment.T)
    assert 0.99 < clf.spent_epsilon_ <= 5.0
    assert clf.temperature_ >= 1 and clf.n_iter_ >= 300
    assert clf.score(X, y) > 0.9
    beforehand = clf.privacy_plan(5000, 4)
    assert beforehand.epsilon == clf.plan_.epsilon
    assert np.isnan(beforehand.temperature)
    three = DPBayesianLogisticRegression(5.0, sampler="sgfs", random_state=0).fit(
        X, np.digitize(X[:, 0], [-0.5, 0.5])
    )
    assert (
        three.posterior_samples_.shape == (100, 3, 5)
        and three.score(X, np.digitize(X[:, 0], [-0.5, 0.5])) > 0.6
    )
