"""What Metropolis' samplers compare: differences of a record's loss, against NumPy."""

from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from compiling import called
from numba import njit
from scipy.special import expit

from skdpbayes.models import example_loss, has_losses, implements, loss_differences, n_examples
from skdpbayes.models.kernels import log_sum_exp, subtract_losses

subtracted, total_of = called(subtract_losses), called(log_sum_exp)


@njit
def differences(target, theta, proposal, selection, count):
    out = np.full(count, np.nan)
    loss_differences(target, theta, proposal, selection, count, out)
    return out


def log1pexp(z):
    return np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z)))


def losses(theta, X, y, norm, constant, n_classes):
    """Every record's loss from its definition."""
    X = np.asarray(X, dtype=float)
    length = np.sqrt((X**2).sum(axis=1))
    rows = X * np.minimum(1, norm / np.where(length > 0, length, 1))[:, None]
    if constant:
        rows = np.column_stack([rows, np.full(len(rows), constant)])
    if n_classes == 2:
        z = rows @ theta
        return log1pexp(z) - y * z
    z = rows @ theta.reshape(n_classes, -1).T
    top = z.max(axis=1, keepdims=True)
    total = top[:, 0] + np.log(np.exp(z - top).sum(axis=1))
    return total - z[np.arange(len(y)), y]


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    "kind, n_classes",
    [
        ("dense", 2),
        ("float32", 2),
        ("sparse", 2),
        ("dense", 3),
        pytest.param("float32", 3, marks=pytest.mark.nightly),
        pytest.param("sparse", 3, marks=pytest.mark.nightly),
    ],
)
def test_differences_are_those_of_the_definition(rng, make_target, kind, n_classes):
    """Tables of more and of fewer rows than a block, a batch with repeats, near and far proposals."""
    n, constant, norm = 71, 0.7, 2.0
    X = rng.normal(size=(n, 5)) * (rng.random((n, 5)) < 0.6)
    X = X.astype(np.float32 if kind == "float32" else np.float64)
    y = rng.integers(n_classes, size=n)
    table = sp.csr_matrix(X) if kind == "sparse" else X
    target, bounds = make_target(table, y, norm, intercept_scaling=constant, n_classes=n_classes)
    assert has_losses(target)
    theta = rng.normal(size=bounds.n_parameters)
    batch = rng.integers(n, size=37)
    for distance in (1e-3, 0.1, 30.0):
        step = rng.normal(size=theta.size)
        proposal = theta + distance * step / np.linalg.norm(step)
        expected = losses(theta, X, y, norm, constant, n_classes)
        expected = expected - losses(proposal, X, y, norm, constant, n_classes)
        bound = bounds.gradient_bound * distance
        close = {"rtol": 0, "atol": 1e-14 + 1e-12 * bound}
        for first, count in ((0, n), (3, 20), (66, 5)):
            found = differences(target, theta, proposal, first, count)
            np.testing.assert_allclose(found, expected[first : first + count], **close)
        found = differences(target, theta, proposal, batch, 37)
        np.testing.assert_allclose(found, expected[batch], **close)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_difference_exceeds_the_bound_that_privacy_rests_on(rng, make_target, n_classes):
    """It is nearly attained, too: a smaller bound would be wrong."""
    largest = 0.0
    for _ in range(300):
        x = rng.normal(size=(1, 2)) * 10.0 ** rng.integers(-1, 5)
        y = rng.integers(n_classes, size=1)
        target, bounds = make_target(x, y, 2.0, intercept_scaling=0.5, n_classes=n_classes)
        theta = rng.choice([0.3, 5.0, 800.0]) * rng.normal(size=bounds.n_parameters)
        row = np.append(2.0 * x[0] / max(2.0, np.linalg.norm(x)), 0.5)
        along = row if n_classes == 2 else np.concatenate([row, -row, np.zeros(3)])
        step = along + 0.1 * rng.normal(size=theta.size)
        distance = rng.choice([1e-3, 1.0, 50.0])
        proposal = theta + distance * step / np.linalg.norm(step)
        found = abs(differences(target, theta, proposal, 0, 1)[0])
        # Logits near 800 are known to 1e-13, and no better.
        bound = bounds.gradient_bound * distance
        assert found <= bound * (1 + 1e-12) + 1e-12 * np.linalg.norm(theta)
        largest = max(largest, found / bound)
    assert largest > 0.95


EXTREME = [-1e300, -800.0, -709.0, -40.0, -1.0, -1e-9, 0.0, 1e-9, 1.0, 40.0, 709.0, 800.0, 1e300]


def test_extreme_logits_have_finite_and_right_differences():
    z, w, y = (part.ravel().copy() for part in np.meshgrid(EXTREME, EXTREME, [0.0, 1.0]))
    exact = log1pexp(z) - log1pexp(w) - y * (z - w)
    found = z.copy()
    subtracted(found, w, y)
    scale = np.maximum(np.abs(z), np.abs(w))
    assert np.isfinite(found).all()
    assert (np.abs(found - exact) <= 2e-15 + 5e-16 * scale).all()


def test_logits_that_hardly_differ_keep_their_difference():
    """A short proposal moves a loss by little; that little must not drown in the losses themselves."""
    rng = np.random.default_rng(0)
    w = rng.uniform(-30, 30, size=2000)
    y = rng.integers(2, size=2000).astype(float)
    for distance in (1e-2, 1e-5, 1e-8):
        z = w + distance * rng.choice([-1, 1], size=2000)
        exact = np.log1p(expit(w) * np.expm1(z - w)) - y * (z - w)
        found = z.copy()
        subtracted(found, w, y)
        assert np.abs(found - exact).max() < 5e-16
        assert (np.abs(found) <= np.abs(z - w) * (1 + 1e-12) + 5e-16).all()


def test_log_sum_exp_at_any_logit():
    for logits in (
        [1e300, -1e300, 0.0],
        [800.0, 799.0, -800.0],
        [-800.0, -801.0],
        [0.3, 0.1, -0.2],
    ):
        z = np.array(logits)
        exact = z.max() + np.log(np.exp(z - z.max()).sum())
        assert total_of(z.copy()) == pytest.approx(exact, rel=5e-16)


def test_losses_of_ones_own_are_subtracted_one_by_one():
    class Squares(NamedTuple):
        points: np.ndarray

    @implements(n_examples, Squares)
    def count(target):
        return target.points.size

    assert not has_losses(Squares(np.zeros(3)))

    @implements(example_loss, Squares)
    def loss(target, theta, i):
        return (theta[0] - target.points[i]) ** 2

    target = Squares(np.array([0.0, 1.0, 5.0]))
    assert has_losses(target)
    here, there = np.array([1.0]), np.array([2.0])
    np.testing.assert_allclose(differences(target, here, there, 0, 3), [-3.0, -1.0, 7.0])
    chosen = np.array([2, 2, 0])
    np.testing.assert_allclose(differences(target, here, there, chosen, 3), [7.0, 7.0, -3.0])
