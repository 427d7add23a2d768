"""A fit of few rows, or of a small budget, predicts no worse than the share of a class."""

import math
import warnings

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from skdpbayes.linear_model import DPBayesianLogisticRegression
from skdpbayes.samplers.statistics import logistic
from skdpbayes.samplers.statistics.design import Design, with_constant
from skdpbayes.samplers.statistics.release import ReleasedDesign

N_TEST = 2_000


def a_table(seed, n, n_columns):
    """Numbers that vary by a fifth of their bounds around -.4, a third of which matter; 17% are positive."""
    rng = np.random.default_rng(seed)
    X = np.clip(-0.4 + 0.2 * rng.normal(size=(n + N_TEST, n_columns)), -1.0, 1.0)
    logits = X[:, : n_columns // 3] @ rng.normal(size=n_columns // 3)
    logits = 0.8 * (logits - logits.mean()) / logits.std() - 1.7
    return X, (rng.random(n + N_TEST) < expit(logits)).astype(int)


def loss_over_base_rate(seed, n, n_columns, epsilon):
    """Log loss of a fit less that of the share of positive labels, on other rows."""
    X, y = a_table(seed, n, n_columns)
    model = DPBayesianLogisticRegression(epsilon, delta=1e-5, classes=[0, 1], random_state=seed)
    with warnings.catch_warnings(action="ignore"):
        model.fit(X[:n], y[:n])
    base_rate = log_loss(y[n:], np.full(N_TEST, y[:n].mean()))
    return log_loss(y[n:], model.predict_proba(X[n:])) - base_rate


@pytest.mark.nightly
@pytest.mark.parametrize(
    "n, n_columns, epsilon, most",
    [(1_500, 30, 0.1, 0.03), (1_500, 30, 0.3, 0.006), (3_000, 15, 0.1, 0.01)],
)
def test_predictions_are_no_worse_than_a_base_rate(n, n_columns, epsilon, most):
    found = [loss_over_base_rate(seed, n, n_columns, epsilon) for seed in range(16)]
    assert np.mean(found) < most


@pytest.mark.parametrize("is_exact", [True, False])
def test_a_constant_is_known_where_the_number_of_rows_is(is_exact):
    """Noise hides what columns do, but not that of a constant; their means are known up to an error."""
    mean_variance, constant = 0.01, 0.5
    design = with_constant(Design(np.zeros(3), np.eye(3) / 9.0, 0.0, mean_variance), constant)
    released = ReleasedDesign(np.eye(4), 30.0, design, 1_000.0, {}, is_exact)
    transform = np.diag([3.0, 3.0, 3.0, 1.0 / constant])
    h = logistic._relative_variances(released, transform, True)
    np.testing.assert_allclose(np.diag(h)[:-1], (30.0 / 1_000.0 * 9.0) ** 2)
    assert h[-1, -1] == (0.0 if is_exact else pytest.approx((30.0 / 1_000.0 / constant**2) ** 2))
    np.testing.assert_allclose(h[-1, :-1], mean_variance * 9.0)
    np.testing.assert_allclose(h[:-1, -1], mean_variance * 9.0)
    # Without an intercept the last column is like the others.
    last = logistic._relative_variances(released, transform, False)[-1, -1]
    assert math.isclose(last, (30.0 / 1_000.0 / constant**2) ** 2)
