"""Fisher scoring without privacy: coordinates of the Hessian at the mode, and the posterior itself."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from fit_warnings import refuse_fit_warnings

from skdpbayes import DPBayesianLogisticRegression
from skdpbayes._estimator.model_checks import effective_size
from skdpbayes.models import potential_gradient, second_moment
from skdpbayes.models.sums import curvature_bound, loss_and_derivatives
from skdpbayes.samplers.langevin.fisher import posterior_mode


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", ["ball", "binary"])
def test_a_default_fit_without_privacy_has_the_moments_of_the_posterior(
    make_target, kind, n_classes
):
    """Of Laplace's approximation, which is close here: means within 0.15 of a deviation, those within 15%."""
    rng = np.random.default_rng(1)
    n, d = 4_000, 6
    X = rng.normal(size=(n, d)) / 3 if kind == "ball" else (rng.random((n, d)) < 0.2).astype(float)
    y = np.argmax(X @ rng.normal(size=(d, n_classes)) + rng.gumbel(size=(n, n_classes)), axis=1)
    clf = DPBayesianLogisticRegression(
        np.inf, sampler="sgfs", data_norm=2.0, prior_scale=1.0, random_state=0
    )
    with warnings.catch_warnings():
        refuse_fit_warnings()
        draws = clf.fit(X, y).posterior_samples_.reshape(
            -1, (d + 1) * (n_classes if n_classes > 2 else 1)
        )
    target, _ = make_target(
        X, y, norm=2.0, prior_scale=1.0, intercept_scaling=1.0, n_classes=n_classes
    )
    mode, hessian = posterior_mode(target, 1.0)
    deviations = np.sqrt(np.diag(np.linalg.inv(hessian)))
    assert np.abs((draws.mean(axis=0) - mode) / deviations).max() < 0.15
    assert np.abs(draws.std(axis=0) / deviations - 1.0).max() < 0.15


def test_without_privacy_steps_are_as_many_as_the_posterior_takes():
    """Labels that the rows tell apart leave little curvature at the mode, and much elsewhere."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2_000, 3))
    easy, hard = rng.integers(2, size=2_000), (X[:, 0] > 0.8).astype(int)
    steps = []
    for y in (easy, hard):
        clf = DPBayesianLogisticRegression(
            np.inf, sampler="sgfs", data_norm=2.0, prior_scale=5.0, random_state=0
        )
        with warnings.catch_warnings():
            refuse_fit_warnings()
            warnings.filterwarnings("ignore", "(coefficients|intercepts) are .* prior deviations")
            clf.fit(X, y)
        assert effective_size(clf.posterior_samples_) > 400
        steps.append(clf.n_iter_)
    assert steps[0] < clf.privacy_plan(2_000, 3).n_steps < steps[1]
    assert clf.set_params(sampler__n_steps=500).fit(X, easy).n_iter_ == 500


@pytest.mark.daily(1)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_losses_gradients_and_hessians_are_derivatives_of_each_other(
    make_target, sparse, n_classes
):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 3)) * (rng.random((5000, 3)) < 0.6)
    y = rng.integers(n_classes, size=5000)
    table = sp.csr_array(X) if sparse else X
    target, bounds = make_target(table, y, norm=2.0, intercept_scaling=0.5, n_classes=n_classes)
    theta = rng.normal(size=bounds.n_parameters)
    _, gradient, hessian = loss_and_derivatives(target, theta)
    np.testing.assert_allclose(gradient, potential_gradient(target, theta, 0.0), rtol=1e-9)
    step = 1e-5
    for j, unit in enumerate(np.eye(theta.size)):
        ahead, behind = (loss_and_derivatives(target, theta + h * unit) for h in (step, -step))
        assert (ahead[0] - behind[0]) / (2 * step) == pytest.approx(gradient[j], rel=1e-5)
        np.testing.assert_allclose(
            (ahead[1] - behind[1]) / (2 * step), hessian[j], rtol=1e-5, atol=1e-4
        )
    bound = curvature_bound(second_moment(target), target.family)
    assert np.linalg.eigvalsh(bound - hessian).min() > -1e-8 * np.abs(bound).max()
