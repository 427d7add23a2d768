"""The logistic targets: gradients, and the public bounds that privacy rests on."""

import numpy as np
import pytest
import scipy.sparse as sp
from compiling import called
from numba import njit
from scipy.special import log_softmax, logsumexp

from skdpbayes.models import potential_gradient
from skdpbayes.models.kernels import exp, softmax, subtract_from_sigmoid


def potential(target, X, y, theta, norm, constant, n_classes, precision, temperature):
    """The same potential from its definition, in plain NumPy."""
    rows = X * np.minimum(1.0, norm / np.linalg.norm(X, axis=1))[:, None]
    if constant:
        rows = np.column_stack([rows, np.full(len(rows), constant)])
    if n_classes == 2:
        z = rows @ theta
        losses = np.logaddexp(0.0, z) - y * z
    else:
        z = rows @ theta.reshape(n_classes, -1).T
        losses = logsumexp(z, axis=1) - z[np.arange(len(y)), y]
    return losses.sum() + temperature * 0.5 * np.sum(precision * theta**2)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("constant", [0.0, 0.7])
def test_gradient_is_the_derivative_of_the_potential(rng, make_target, n_classes, constant):
    X = 2.0 * rng.normal(size=(71, 5))
    y = rng.integers(n_classes, size=71)
    target, bounds = make_target(
        X, y, norm=3.0, prior_scale=0.8, intercept_scaling=constant, n_classes=n_classes
    )
    theta = rng.normal(size=bounds.n_parameters)

    def value(t):
        return potential(
            target, X, y, t, 3.0, constant, n_classes, target.prior_precision, temperature=1.7
        )

    step = 1e-6
    numeric = [
        (value(theta + step * e) - value(theta - step * e)) / (2 * step) for e in np.eye(theta.size)
    ]
    np.testing.assert_allclose(
        potential_gradient(target, theta, temperature=1.7), numeric, rtol=1e-6, atol=1e-6
    )


@pytest.mark.daily(1)
@pytest.mark.parametrize(
    "n_classes, dtype",
    [
        (2, np.float64),
        (3, np.float64),
        (2, np.float32),
        pytest.param(3, np.float32, marks=pytest.mark.nightly),
    ],
)
def test_sparse_and_dense_rows_agree(rng, make_target, n_classes, dtype):
    X = sp.random(90, 7, density=0.3, random_state=0, format="csr", dtype=np.float64).astype(dtype)
    y = rng.integers(n_classes, size=90)
    theta = rng.normal(size=(8 if n_classes == 2 else 24))
    options = {"norm": 0.5, "intercept_scaling": 0.4, "n_classes": n_classes}
    sparse, _ = make_target(X, y, **options)
    dense, _ = make_target(X.toarray(), y, **options)
    np.testing.assert_allclose(
        potential_gradient(sparse, theta), potential_gradient(dense, theta), rtol=1e-10, atol=1e-12
    )


@pytest.mark.parametrize("n_classes", [2, 5])
def test_no_record_moves_the_gradient_by_more_than_its_bound(rng, make_target, n_classes):
    largest = 0.0
    for _ in range(200):
        x = rng.normal(size=(1, 4)) * 10.0 ** rng.integers(-2, 6)
        y = rng.integers(n_classes, size=1)
        target, bounds = make_target(
            x, y, norm=2.0, prior_scale=1e6, intercept_scaling=0.5, n_classes=n_classes
        )
        theta = 5.0 * rng.normal(size=bounds.n_parameters)
        norm = np.linalg.norm(potential_gradient(target, theta, temperature=0.0))
        assert norm <= bounds.gradient_bound * (1 + 1e-12)
        largest = max(largest, norm / bounds.gradient_bound)
    assert largest > 0.95, "the bound is attained: a smaller one would be wrong"


@pytest.mark.parametrize("n_classes", [2, 3])
def test_smoothness_bounds_the_hessian_and_is_attained(rng, make_target, n_classes):
    x = np.array([[0.6, 0.8, 0.0]])
    target, bounds = make_target(x, np.array([0]), norm=1.0, prior_scale=1e6, n_classes=n_classes)

    def hessian(theta):
        step = 1e-5
        columns = [
            potential_gradient(target, theta + step * e, 0.0)
            - potential_gradient(target, theta - step * e, 0.0)
            for e in np.eye(theta.size)
        ]
        return np.array(columns) / (2 * step)

    worst = max(
        np.linalg.eigvalsh(hessian(scale * rng.normal(size=bounds.n_parameters))).max()
        for scale in (0.0, 0.1, 1.0, 3.0)
        for _ in range(5)
    )
    assert worst <= bounds.smoothness * (1 + 1e-6)
    if n_classes == 2:
        assert worst == pytest.approx(bounds.smoothness, rel=1e-6)
    else:
        # Attained where two classes share all probability.
        theta = np.zeros((3, 3))
        theta[2] = -50.0 * x[0]
        top = np.linalg.eigvalsh(hessian(theta.ravel())).max()
        assert top == pytest.approx(bounds.smoothness, rel=1e-5)


@pytest.mark.parametrize("labels", [[-1, 0], [0, 2], [0], [[0, 1]]])
def test_labels_that_are_no_class_numbers_would_break_the_bound(make_target, labels):
    with pytest.raises(ValueError, match="labels"):
        make_target(np.ones((2, 3)), np.array(labels))


def test_vectorised_exponential_is_accurate_to_rounding():
    @njit
    def every(x):
        return np.array([exp(v) for v in x])

    x = np.concatenate([np.linspace(-708.0, 708.0, 20001), np.linspace(-1e-3, 1e-3, 2001)])
    np.testing.assert_allclose(every(x), np.exp(x), rtol=5e-16)


def test_residuals_and_probabilities_stay_bounded_at_any_logit():
    z = np.array([-1e308, -800.0, -1.0, 0.0, 1.0, 800.0, 1e308])
    called(subtract_from_sigmoid)(z, np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
    np.testing.assert_allclose(
        z, [-1.0, 0.0, 0.2689414213699951, 0.5, 0.7310585786300049, 1.0, 0.0], atol=1e-15
    )
    for logits in ([1e308, -1e308, 0.0], [800.0, 799.0, -800.0], [3.0, 1.0, -2.0]):
        p = np.array(logits)
        called(softmax)(p)
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(p, np.exp(log_softmax(logits)), atol=1e-15)
