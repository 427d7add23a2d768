"""The conditional laws of a mixture's parameters, given to which components its rows belong.

With the sums ``N_k, M_k, Q_k`` of ``(1, x, x x^T)`` over a component's rows, ``S_k = Q_k - M_k m_k^T - m_k
M_k^T + N_k m_k m_k^T``, and the prior of `skdpbayes.targets.mixture.target`,

    w   | ...  ~  Dirichlet(alpha + N)
    m_k | ...  ~  N(P_k^-1 Lambda_k M_k, P_k^-1),      P_k = N_k Lambda_k + I / s^2
    Lambda_k     | ...  ~  Wishart(nu + N_k, (nu c I + S_k)^-1)                           full
    Lambda       | ...  ~  Wishart(nu + n, (nu c I + sum_k S_k)^-1)                       tied
    lambda_kj    | ...  ~  Gamma((nu + N_k) / 2, rate (nu c + (S_k)_jj) / 2)              diag
    lambda_k     | ...  ~  Gamma((nu + d N_k) / 2, rate (nu c + tr S_k) / 2)              spherical

All numbers are in units of the ball. Nothing here is private: `run_gibbs` is for plans without privacy only.

Diebolt and Robert, "Estimation of finite mixture distributions through Bayesian sampling", JRSS B, 1994.
"""

from typing import Any

import numpy as np

from ..._linalg import cholesky, eigh, solve
from ...targets.mixture.target import Components, MixtureModel
from ..mixture.statistics import Statistics

# Square roots of precisions are kept within these limits, and weights above the last. Only empty components
# can reach them, under priors that say nothing of scales or weights.
_LEAST_FACTOR, _LARGEST_FACTOR, _LEAST_WEIGHT = 1e-6, 1e13, 1e-300


def draw_parameters(
    model: MixtureModel, found: Statistics, factors: np.ndarray, generator: Any
) -> Components:
    """Return new weights, means, and factors of precisions, one after the other.

    Parameters
    ----------
    model : MixtureModel
    found : Statistics
        Of the rows of every component.
    factors : ndarray
        Present factors of precisions, as those of `Components`.
    generator : numpy.random.Generator
    """
    # Without privacy.
    weights = np.maximum(
        generator.dirichlet(model.weight_concentration + found.counts), _LEAST_WEIGHT
    )
    draw_means = _means_given_matrices if factors.ndim == 3 else _means_given_vectors
    means = draw_means(model, found, factors, generator)
    draw_factors = _matrices if factors.ndim == 3 else _vectors
    return Components(np.log(weights), means, draw_factors(model, found, means, generator))


def _means_given_vectors(model, found, factors, generator):
    precisions = factors**2
    total = found.counts[:, None] * precisions + (model.data_norm / model.mean_scale) ** 2
    normal = generator.standard_normal(total.shape)  # Without privacy.
    return precisions * found.sums / total + normal / np.sqrt(total)


def _means_given_matrices(model, found, factors, generator):
    precisions = factors @ factors.swapaxes(-1, -2)
    prior = (model.data_norm / model.mean_scale) ** 2 * np.eye(model.n_features)
    lower = cholesky(found.counts[:, None, None] * precisions + prior)
    pulled = solve(lower, precisions @ found.sums[:, :, None])
    normal = generator.standard_normal(pulled.shape)  # Without privacy.
    return solve(lower.swapaxes(-1, -2), pulled + normal)[:, :, 0]


def _vectors(model, found, means, generator):
    counts, scatter = found.counts[:, None], found.seconds - means * (2.0 * found.sums)
    scatter = np.maximum(scatter + counts * means**2, 0.0)
    if model.covariance_type == "spherical":
        counts, scatter = counts * model.n_features, scatter.sum(axis=1, keepdims=True)
    degrees, width = model.degrees_of_freedom, _prior_width(model)
    shape = np.broadcast_to((degrees + counts) / 2.0, scatter.shape)
    drawn = generator.standard_gamma(shape) / ((width + scatter) / 2.0)  # Without privacy.
    factors = np.clip(np.sqrt(drawn), _LEAST_FACTOR, _LARGEST_FACTOR)
    return np.broadcast_to(factors, means.shape).copy()


def _matrices(model, found, means, generator):
    cross = means[:, :, None] * found.sums[:, None, :]
    scatter = found.seconds - cross - cross.swapaxes(-1, -2)
    scatter = scatter + found.counts[:, None, None] * means[:, :, None] * means[:, None, :]
    counts = found.counts
    if model.covariance_type == "tied":
        counts, scatter = counts.sum(keepdims=True), scatter.sum(axis=0, keepdims=True)
    degrees = model.degrees_of_freedom + counts
    factors = wishart_factors(scatter, _prior_width(model), degrees, generator)
    return np.repeat(factors, len(means) // len(factors), axis=0)


def _prior_width(model):
    """Return ``nu c``."""
    return model.degrees_of_freedom * model.covariance / model.data_norm**2


def wishart_factors(
    scatter: np.ndarray, width: float, degrees: np.ndarray, generator: Any
) -> np.ndarray:
    """Return lower triangular ``F``, ``F F^T ~ Wishart(degrees, (width I + scatter)^-1)`` (Bartlett).

    Parameters
    ----------
    scatter : ndarray of shape (n, d, d)
        Positive semidefinite, but for rounding.
    width : float
    degrees : ndarray of shape (n,)
        More than ``d - 1``.
    generator : numpy.random.Generator
    """
    values, vectors = eigh(scatter)
    roots = vectors / np.sqrt(width + np.maximum(values, 0.0))[:, None, :]
    d = scatter.shape[1]
    triangle = np.tril(generator.standard_normal(scatter.shape), -1)  # Without privacy.
    i = np.arange(d)
    triangle[:, i, i] = np.sqrt(generator.chisquare(degrees[:, None] - i))  # Without privacy.
    # A lower triangular factor of the same product.
    upper = np.asarray(np.linalg.qr((roots @ triangle).swapaxes(-1, -2), mode="r"))
    factors = upper.swapaxes(-1, -2)
    factors = factors * np.where(factors[:, i, i] < 0, -1.0, 1.0)[:, None, :]
    factors[:, i, i] = np.clip(factors[:, i, i], _LEAST_FACTOR, _LARGEST_FACTOR)
    return factors
