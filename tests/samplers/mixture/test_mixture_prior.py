"""The prior of what is given statistics: by scipy, in the space of weights, means and precisions."""

import numpy as np
import pytest
from scipy.stats import dirichlet, gamma, norm, wishart

from skdpbayes.models import MixtureModel
from skdpbayes.samplers.mixture.plan import statistics_length
from skdpbayes.samplers.mixture.posterior import MixtureDensity, MixtureState

KINDS = ["spherical", "diag", "tied", "full"]


def free_precisions(precisions, model):
    """The entries of precisions that are parameters."""
    d = model.n_features
    if model.covariance_type == "spherical":
        return precisions[:, 0, 0]
    if model.covariance_type == "diag":
        return np.diagonal(precisions, axis1=1, axis2=2).ravel()
    kept = precisions[:1] if model.covariance_type == "tied" else precisions
    return kept[(slice(None), *np.tril_indices(d))].ravel()


def log_prior(weights, means, precisions, model):
    """In the space of weights, means and precisions."""
    degrees, c = model.degrees_of_freedom, model.covariance
    total = dirichlet.logpdf(
        weights / weights.sum(), np.full(len(weights), model.weight_concentration)
    )
    total += norm.logpdf(means, scale=model.mean_scale).sum()
    if not model.is_triangular:
        law = gamma(degrees / 2.0, scale=2.0 / (degrees * c))
        return total + law.logpdf(free_precisions(precisions, model)).sum()
    law = wishart(degrees, np.eye(model.n_features) / (degrees * c))
    kept = precisions[:1] if model.covariance_type == "tied" else precisions
    return total + sum(law.logpdf(precision) for precision in kept)


def parameters(given, u):
    """Return (weights, means, precisions) of all components; a tied precision is repeated."""
    (counts, means, factors), model = (part[0] for part in given.mixtures(u[None])), given.model
    radius, (k, d) = model.data_norm, means.shape
    if factors.ndim == 2:
        precisions = np.broadcast_to(factors, (k, d))[:, :, None] ** -2.0 * np.eye(d)
    else:
        precisions = np.linalg.inv(factors @ factors.swapaxes(-1, -2)) + np.zeros((k, d, d))
    return counts / counts.sum(), radius * means, precisions / radius**2


def derivatives(function, u, step=0.005):
    """Central differences of sixth order: one row of the result for every coordinate."""
    rows = []
    for unit in np.eye(u.size):
        values = {h: function(u + h * step * unit) for h in (-3, -2, -1, 1, 2, 3)}
        shares = ((1, 45.0), (2, -9.0), (3, 1.0))
        rows.append(sum(share * (values[h] - values[-h]) for h, share in shares) / (60.0 * step))
    return np.array(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_the_prior_is_that_of_the_density_by_scipy(rng, kind):
    """Exponents and Jacobians of all coordinates included: what Gibbs sampling draws from, too."""
    k, d = 3, 2
    model = MixtureModel(k, d, kind, 3.0, 1.7, 2.3, 4.5, 0.4)
    factors = rng.uniform(0.2, 0.4, size=(k, d))
    if kind == "spherical":
        factors[:] = factors[:, :1]
    if model.is_triangular:
        factors = factors[:, :, None] * (np.eye(d) + 0.3 * np.tril(rng.normal(size=(k, d, d)), -1))
    if kind == "tied":
        factors[:] = factors[0]
    at = MixtureState(kind, rng.uniform(20, 50, size=k), 0.3 * rng.normal(size=(k, d)), factors)
    size = k * statistics_length(kind, d)
    given = MixtureDensity(model, at, np.zeros((size, size)), np.zeros(size))

    def mapped(u):
        weights, means, precisions = parameters(given, u)
        return np.concatenate([weights[:-1], means.ravel(), free_precisions(precisions, model)])

    points = 0.4 * rng.normal(size=(6, given.start.size))
    expected = [
        log_prior(*parameters(given, u), model) + np.linalg.slogdet(derivatives(mapped, u))[1]
        for u in points
    ]
    found = -given.potential(points)[0]
    np.testing.assert_allclose(found - found[0], np.subtract(expected, expected[0]), atol=1e-6)
    assert np.ptp(found) > 1.0
