"""What is computed from a mixture's draws, against scipy: densities, responsibilities, samples, summaries."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.mixture import GaussianMixture

from skdpbayes._estimator import mixture
from skdpbayes._estimator.mixture import MixtureDraws
from skdpbayes.mixture import DPGaussianMixturePosterior

KINDS = ["spherical", "diag", "tied", "full"]
rng = np.random.default_rng(0)
labels = rng.choice(2, size=1500, p=[0.7, 0.3])
X = rng.normal(np.where(labels[:, None] == 1, 1.0, -0.5), 0.25, size=(1500, 2))


def make(*args, **options):
    return DPGaussianMixturePosterior(*args, random_state=0, **options)


def some_draws(kind, n_draws=6, n_components=3, n_features=2, seed=0):
    """Return a fitted estimator without a fit: these draws are as good as any."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.arange(5, 5 + n_components), size=n_draws)
    means = rng.normal(size=(n_draws, n_components, n_features))
    shape = {
        "spherical": (n_components,),
        "diag": (n_components, n_features),
        "tied": (n_features, n_features),
        "full": (n_components, n_features, n_features),
    }
    factors = rng.normal(size=(n_draws, *shape[kind]))
    if kind in ("tied", "full"):
        diagonal = np.arange(n_features)
        factors = np.tril(factors)
        factors[..., diagonal, diagonal] = 0.5 + np.abs(factors[..., diagonal, diagonal])
    else:
        factors = 0.5 + np.abs(factors)
    estimator = make(n_components, covariance_type=kind)
    estimator.n_features_in_ = n_features
    estimator._summarise(weights, means, factors)
    estimator.released_, estimator.plan_ = {}, None
    return estimator


def matrices(estimator):
    """Covariance matrices of all draws and components."""
    weights, means, covariances = estimator.posterior_samples_
    eye = np.eye(means.shape[2])
    full = {
        "spherical": lambda c: c[..., None, None] * eye,
        "diag": lambda c: c[..., None] * eye,
        "tied": lambda c: c[:, None] + np.zeros((*weights.shape, 1, 1)),
        "full": lambda c: c,
    }
    return full[estimator.covariance_type](covariances)


def log_joint(estimator, rows):
    """log p(x, component | draw), of shape (n_rows, n_draws, n_components), by scipy."""
    weights, means, _ = estimator.posterior_samples_
    covariances = matrices(estimator)
    joint = np.empty((len(rows), *weights.shape))
    for s, k in np.ndindex(weights.shape):
        law = multivariate_normal(means[s, k], covariances[s, k])
        joint[:, s, k] = np.log(weights[s, k]) + law.logpdf(rows)
    return joint


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block", [2**18, 40, 1])
def test_densities_and_responsibilities_average_over_the_draws(kind, block, monkeypatch):
    monkeypatch.setattr(mixture, "_BLOCK_ENTRIES", block)
    estimator = some_draws(kind)
    joint = log_joint(estimator, X[:50])
    expected = logsumexp(joint, axis=(1, 2)) - np.log(6)
    np.testing.assert_allclose(estimator.score_samples(X[:50]), expected, rtol=1e-10)
    assert estimator.score(X[:50]) == pytest.approx(expected.mean())
    expected = np.exp(joint - logsumexp(joint, axis=2, keepdims=True)).mean(axis=1)
    proba = estimator.predict_proba(X[:50])
    np.testing.assert_allclose(proba, expected, rtol=1e-10)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(estimator.predict(X[:50]), expected.argmax(axis=1))


@pytest.mark.parametrize("kind", KINDS)
def test_densities_integrate_to_one(kind):
    estimator = some_draws(kind, n_features=1)
    total, _ = quad(lambda x: np.exp(estimator.score_samples([[x]])[0]), -40, 40, limit=200)
    assert total == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_far_points_stay_finite(kind):
    estimator = some_draws(kind)
    far = np.array([[1e3, 0.0], [1e10, -1e10], [-1e150, 1e-150], [1e150, 1e150], [1e308, -1e308]])
    log_density = estimator.score_samples(far)
    assert np.isfinite(log_density).all() and (np.diff(log_density) < 0).all()
    np.testing.assert_allclose(estimator.predict_proba(far).sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_samples_follow_the_law_of_the_draws(kind):
    estimator = some_draws(kind)
    weights, means, _ = estimator.posterior_samples_
    rows, components = estimator.sample(200_000, random_state=1)
    assert rows.shape == (200_000, 2) and components.shape == (200_000,)
    frequencies = np.bincount(components, minlength=3) / 200_000
    np.testing.assert_allclose(frequencies, weights.mean(axis=0), atol=0.01)
    shares = weights / weights.shape[0]
    mean = np.einsum("sk,skj->j", shares, means)
    gaps = means - mean
    second = matrices(estimator) + gaps[..., :, None] * gaps[..., None, :]
    covariance = np.einsum("sk,skij->ij", shares, second)
    deviation = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(rows.mean(axis=0), mean, atol=0.015 * deviation.max())
    np.testing.assert_allclose(np.cov(rows.T), covariance, atol=0.03 * deviation.max() ** 2)
    for k in range(3):
        expected = np.einsum("s,sj->j", weights[:, k] / weights[:, k].sum(), means[:, k])
        inside = rows[components == k]
        np.testing.assert_allclose(inside.mean(axis=0), expected, atol=0.04 * deviation.max())


def test_samples_repeat_with_their_seed_and_are_counted():
    estimator = some_draws("full")
    first, again = (estimator.sample(5, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first[0], again[0])
    assert estimator.sample()[0].shape == (1, 2)
    for wrong in (0, -1, 2.5, True, "all"):
        with pytest.raises(ValueError, match="n_samples"):
            estimator.sample(wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_summaries_have_the_shapes_of_gaussian_mixture(kind):
    estimator = some_draws(kind)
    reference = GaussianMixture(3, covariance_type=kind, random_state=0).fit(X)
    for name in ("weights_", "means_", "covariances_", "precisions_"):
        assert getattr(estimator, name).shape == getattr(reference, name).shape, name
    draws = estimator.posterior_samples_
    for name, part in zip(("weights_", "means_", "covariances_"), draws, strict=True):
        np.testing.assert_allclose(getattr(estimator, name), part.mean(axis=0))
    assert estimator.weights_.sum() == pytest.approx(1.0)
    assert (np.diff(estimator.weights_) <= 0).all()
    if kind in ("spherical", "diag"):
        np.testing.assert_allclose(estimator.precisions_ * estimator.covariances_, 1.0)
    else:
        product = estimator.precisions_ @ estimator.covariances_
        np.testing.assert_allclose(product, np.broadcast_to(np.eye(2), product.shape), atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_relabelling_moves_all_of_a_component_and_no_density(kind, rng):
    estimator, again = some_draws(kind, 40), make(3, covariance_type=kind)
    again.n_features_in_ = 2
    weights, means, factors = estimator._mixtures
    order = np.array([rng.permutation(3) for _ in weights])
    chosen = (np.arange(40)[:, None], order)
    if kind == "spherical":
        factors = factors[:, :, 0]
    factors = factors[:, 0] if kind == "tied" else factors[chosen]
    again._summarise(weights[chosen], means[chosen], factors)
    np.testing.assert_allclose(again.score_samples(X[:9]), estimator.score_samples(X[:9]))
    for new, old in zip(again.posterior_samples_, estimator.posterior_samples_, strict=True):
        np.testing.assert_array_equal(new, old)


def test_sample_posterior_subsamples_without_replacement():
    estimator = some_draws("full", n_draws=30)
    everything = estimator.sample_posterior()
    assert isinstance(everything, MixtureDraws)
    for part, kept in zip(everything, estimator.posterior_samples_, strict=True):
        np.testing.assert_array_equal(part, kept)
        assert not np.shares_memory(part, kept)
    some = estimator.sample_posterior(10, random_state=0)
    assert [part.shape for part in some] == [(10, 3), (10, 3, 2), (10, 3, 2, 2)]
    first = some.means[:, 0, 0]
    places = [np.flatnonzero(estimator.posterior_samples_.means[:, 0, 0] == m)[0] for m in first]
    assert (np.diff(places) > 0).all(), "in their order, and no two the same"
    for wrong in (31, 0, -1, 2.5, "all", True):
        with pytest.raises(ValueError, match="n_draws"):
            estimator.sample_posterior(wrong)
