"""What tests of mixtures share: models, references around which coordinates are made, and tables."""

import numpy as np

from skdpbayes.models.mixture import Components, MixtureModel, make_mixture

KINDS = ["spherical", "diag", "tied", "full"]
ALPHA, MEAN_SCALE, COVARIANCE = 1.7, 2.3, 0.4


def make_model(kind, n_components=2, n_features=2, data_norm=3.0):
    return MixtureModel(
        n_components,
        n_features,
        kind,
        data_norm,
        ALPHA,
        MEAN_SCALE,
        n_features + 2.5,
        COVARIANCE,
    )


def make_reference(rng, model, weights=None, size=3.0, spread=1.0, reach=0.6):
    """Components around which coordinates are made; ``spread`` is the ratio of their scales."""
    k, d = model.n_components, model.n_features
    scales = size * spread ** rng.uniform(-0.5, 0.5, size=(k, d))
    if model.is_triangular:
        skewed = np.tril(rng.normal(size=(k, d, d)), -1) * scales[:, None, :] * 0.5
        factors = skewed + scales[:, :, None] * np.eye(d)
    else:
        factors = scales
    if model.covariance_type == "spherical":
        factors = np.repeat(factors[:, :1], d, axis=1)
    if model.covariance_type == "tied":
        factors = np.repeat(factors[:1], k, axis=0)
    weights = rng.dirichlet(np.full(k, 4.0)) if weights is None else np.asarray(weights)
    means = rng.normal(size=(k, d))
    means *= reach / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)
    return Components(np.log(weights), means, factors)


def make_table(rng, model, n=60):
    rows = rng.normal(size=(n, model.n_features)) * 0.7 * model.data_norm
    return make_mixture(rows, model)
