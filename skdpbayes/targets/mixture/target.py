"""Gaussian mixtures, in coordinates that are whitened around a reference.

    ell_i(theta) = -log sum_k pi_k N(x_i; m_k, (F_k F_k^T)^-1)

with a reference ``(pi0, m0, F0)`` and ``theta = (b, a, t)``:

    log pi = log pi0 + B b + constant,    B = diag(pi0)^(-1/2) H,  H an orthonormal basis of what sqrt(pi0) is
                                          orthogonal to
    m_k    = m0_k + F0_k^-T a_k / sqrt(pi0_k)
    F_k    = F0_k T_k,   log (T_k)_jj = t_kjj / sqrt(2 pi0_k),   (T_k)_ij = t_kij / sqrt(pi0_k)

At the reference a record whose component is known adds the identity to the expected curvature. Diagonal
factors have the entries ``jj`` only, spherical ones a single ``t_k / sqrt(2 d pi0_k)``, and a tied factor
``t_jj / sqrt(2)`` and ``t_ij``.

Prior: ``pi ~ Dirichlet(alpha)``, ``m_kj ~ N(0, s^2)``, and Wishart's law with ``nu`` degrees of freedom and
mean ``I / c`` for precision matrices, or Gamma's with shape ``nu / 2`` and mean ``1 / c`` for precisions.

The data enter through expected sufficient statistics alone: no gradient is ever clipped. Where the public
bound on a record's gradient grows beyond ``gradient_bound``, all of it is scaled down by the same public
factor.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..._compiled import compilable
from ..._silence import silently
from ..._typing import MatrixLike
from .._clipping import clip_rows
from .._interface import (
    implements,
    loss_differences,
    n_examples,
    prior_potential,
    pullback,
    record,
    shared_parameters,
)
from .._rows import read_only
from .coordinates import chain_rule, go_to, place_in, place_size, prior_energy, prior_slope
from .model import COVARIANCE_TYPES, STATISTICS_NORM, MixtureModel, pack_mixture, unpack_mixture
from .sensitivity import largest_gradient, largest_gradient_near
from .statistics import Components, MixtureTable, exponents, read_row, statistics_size

__all__ = [
    "STATISTICS_NORM",
    "STEEPER",
    "Components",
    "MixtureModel",
    "MixtureTable",
    "MixtureTarget",
    "bound_near",
    "make_mixture",
    "mixture_target",
    "pack_mixture",
    "place_in",
    "prior_curvature_at",
    "statistics_size",
    "unpack_mixture",
]


# How many times steeper than the reference components may be before gradients are scaled down for it.
STEEPER = 4.0


class MixtureTarget(NamedTuple):
    """The records, and a reference: see the top of this file. All in unit-ball coordinates.

    Attributes
    ----------
    table : MixtureTable
        The rows.
    gradient_bound : float
        What a record's gradient is accounted for with; ``inf`` without privacy.
    halved : bool
        Whether that bounds half the distance of two records' gradients, instead of the norm.
    mixing : ndarray of shape (n_components,)
        ``c`` of `skdpbayes.targets.mixture.sensitivity`.
    log_weights, means, factors : ndarray
        The reference.
    basis : ndarray of shape (n_components, n_components - 1)
        ``B``.
    mean_maps : ndarray of the factors' shape
        ``F0_k^-1 / sqrt(pi0_k)``.
    factor_scales : ndarray of shape (n_components, 2)
        What entries of ``t`` are multiplied by, on and off the diagonal.
    kind : int
        Place of the covariance type in ``COVARIANCE_TYPES``.
    prior : ndarray of shape (4,)
        ``alpha, s, nu, c``.
    limit : float
        Largest deviation from the reference that has a prior density, ``inf`` for none.
    steepness : float
        What an error in statistics can be multiplied by in a gradient around the reference.
    """

    table: MixtureTable
    gradient_bound: float
    halved: bool
    mixing: np.ndarray
    log_weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    basis: np.ndarray
    mean_maps: np.ndarray
    factor_scales: np.ndarray
    kind: int
    prior: np.ndarray
    limit: float
    steepness: float

    @property
    def table_sizes(self) -> tuple[int, ...]:
        """Lengths of the vectors that go to the table and come back: a `Place`, and statistics."""
        shape, matrices = self.means.shape, self.factors.ndim == 3
        return place_size(self), statistics_size(*shape, matrices)


@silently()
def make_mixture(X: MatrixLike, model: MixtureModel) -> Any:
    """Clip rows to the unit ball, in units of the model's ``data_norm``.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Finite numbers.
    model : MixtureModel

    Returns
    -------
    table : MixtureTable
    """
    X, scale = clip_rows(X, model.data_norm)
    scale = read_only(scale / model.data_norm)
    return MixtureTable(read_only(X), scale, STATISTICS_NORM, float(model.data_norm))


def mixture_target(
    table: MixtureTable,
    model: MixtureModel,
    reference: Components,
    gradient_bound: float = math.inf,
    halved: bool = False,
    limit: float = math.inf,
) -> Any:
    """Return the target in coordinates around a reference.

    Parameters
    ----------
    table : MixtureTable
        The rows.
    model : MixtureModel
        The prior.
    reference : Components
        In unit-ball coordinates; every weight is positive.
    gradient_bound : float, default=inf
        Beyond which the gradient is scaled down; see `MixtureTarget`.
    halved : bool, default=False
        What it bounds.
    limit : float, default=inf
        Of the deviations from the reference.

    Returns
    -------
    target : MixtureTarget
    """
    weights = np.exp(reference.log_weights)
    weights /= weights.sum()
    root = np.sqrt(weights)
    # The rows behind the first of an orthonormal basis that begins with sqrt(pi0).
    complement = np.linalg.svd(root[None, :])[2][1:]
    if model.is_triangular:
        inverses = np.linalg.inv(reference.factors) / root[:, None, None]
    else:
        inverses = 1.0 / (reference.factors * root[:, None])
    shared = np.ones_like(root) if model.covariance_type == "tied" else root
    twice = 2.0 * model.n_features if model.covariance_type == "spherical" else 2.0
    scales = np.column_stack((1.0 / (math.sqrt(twice) * shared), 1.0 / shared))
    radius = model.data_norm
    prior = np.array(
        [
            model.weight_concentration,
            model.mean_scale / radius,
            model.degrees_of_freedom,
            model.covariance / radius**2,
        ]
    )
    target = MixtureTarget(
        table=table,
        gradient_bound=float(gradient_bound),
        halved=bool(halved),
        mixing=_mixing(reference, weights),
        log_weights=np.log(weights),
        means=np.ascontiguousarray(reference.means, dtype=np.float64),
        factors=np.ascontiguousarray(reference.factors, dtype=np.float64),
        basis=np.ascontiguousarray(complement.T / root[:, None]),
        mean_maps=np.ascontiguousarray(inverses),
        factor_scales=scales,
        kind=COVARIANCE_TYPES.index(model.covariance_type),
        prior=prior,
        limit=float(limit),
        steepness=math.nan,
    )
    return target._replace(
        steepness=float(_steepness(target, target.factors.ravel(), target.means.ravel()))
    )


def _mixing(reference, weights):
    """Return weights ``c`` for which the farthest point, as it is bounded, is nearest; any are valid."""
    if weights.size == 1:
        return np.ones(1)
    precisions = reference.factors**2
    if reference.factors.ndim == 3:
        precisions = reference.factors @ reference.factors.transpose(0, 2, 1)
    pulls = np.einsum(
        "kj,kj->kj" if precisions.ndim == 2 else "kij,kj->ki", precisions, reference.means
    )
    diagonals = reference.factors
    if reference.factors.ndim == 3:
        diagonals = np.diagonal(reference.factors, axis1=1, axis2=2)
    logs = np.log(diagonals).sum(axis=1)
    constants = 0.5 * (pulls * reference.means).sum(axis=1) - np.log(weights) - logs

    def bound(mixing):
        curvature = np.tensordot(mixing, precisions, axes=1)
        steepest = curvature.max() if curvature.ndim == 1 else np.linalg.norm(curvature, 2)
        return 0.5 * steepest + np.linalg.norm(mixing @ pulls) + mixing @ constants

    start = np.full(weights.size, 1.0 / weights.size)
    found = minimize(
        bound,
        start,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * weights.size,
        constraints={"type": "eq", "fun": lambda mixing: mixing.sum() - 1.0},
    ).x
    candidates = [np.clip(found, 0.0, None), start, *np.eye(weights.size)]
    candidates = [c / c.sum() for c in candidates if np.isfinite(c).all() and c.sum() > 0]
    return min(candidates, key=bound)


def prior_curvature_at(target: Any) -> float:
    """Return a bound on the prior's curvature around the reference, with room for a factor of two."""
    alpha, scale, degrees, covariance = target.prior
    of_means = np.linalg.norm(target.mean_maps.reshape(len(target.means), -1), axis=1).max()
    of_factors = np.abs(target.factors).reshape(len(target.means), -1).max()
    if target.factors.ndim == 3:
        of_factors = max(np.linalg.norm(factor, 2) for factor in target.factors)
    curved = 2.0 * degrees * covariance * (of_factors * target.factor_scales.max()) ** 2
    return 2.0 * max(alpha * len(target.means), (of_means / scale) ** 2, curved)


@compilable
def _steepness(target, factors, means):
    """Return ``max_k |F_k|^2 max(1, |m_k|^2) / sqrt(pi0_k)``: it multiplies rounding of statistics."""
    found = 0.0
    for k in range(target.log_weights.size):
        # Means within the ball add nothing to what a row does.
        square = _square_of(factors, k, target) * max(1.0, _square_of(means, k, target))
        found = max(found, square * math.exp(-0.5 * target.log_weights[k]))
    return found


@compilable
def _square_of(parts, k, target):
    length = parts.size // target.log_weights.size
    total = 0.0
    for j in range(k * length, (k + 1) * length):
        total += parts[j] ** 2
    return total


def bound_near(target: Any, limit: float) -> float:
    """Return a bound on a record's gradient wherever theta is within the limit of the reference."""
    origin = np.zeros(target.basis.shape[1] + target.means.size + target.factors.size)
    return largest_gradient_near(target, go_to(target, origin, np.empty(place_size(target))), limit)


@implements(n_examples, MixtureTarget)
def _count(target):
    return n_examples(target.table)


@implements(shared_parameters, MixtureTarget)
def _shared_parameters(target, theta, out):
    place = go_to(target, theta, out)
    bound = largest_gradient(target, place)
    place.scaling[0] = bound
    factors, means = (
        place.factors.reshape(place.factors.size),
        place.means.reshape(place.means.size),
    )
    place.scaling[1] = _shrinking(target, bound, factors, means)


@compilable
def _shrinking(target, bound, factors, means):
    """Return the factor by which all gradients are scaled down, from public numbers."""
    if target.gradient_bound == np.inf:
        return 1.0
    if not bound < np.inf:  # Where the bound is no number, nothing is let through.
        return 0.0
    # Where components are narrow or far out, rounding of statistics is multiplied by more than is paid for.
    steeper = _steepness(target, factors, means) / target.steepness
    return min(1.0, target.gradient_bound / max(bound, target.gradient_bound * steeper / STEEPER))


@implements(pullback, MixtureTarget)
def _pullback(target, theta, inner, sums, count, gradient, prior):
    place = place_in(target, inner)
    chain_rule(target, place, sums, count, gradient)
    prior_slope(target, place, prior)


@implements(loss_differences, MixtureTarget)
def _loss_differences(target, theta, proposal, selection, count, out):
    n_components, d = target.means.shape
    here, there = np.empty(place_size(target)), np.empty(place_size(target))
    go_to(target, theta, here)
    go_to(target, proposal, there)
    row, centred, terms = np.empty(d), np.empty(d), np.empty(n_components)
    for i in range(count):
        read_row(target.table, record(selection, i), row)
        out[i] = _log_density(there, row, centred, terms)
        out[i] -= _log_density(here, row, centred, terms)


@compilable
def _log_density(mixture, row, centred, terms):
    largest = exponents(mixture, row, centred, terms)
    total = 0.0
    for k in range(terms.size):
        total += math.exp(terms[k] - largest)
    return largest + math.log(total)


@implements(prior_potential, MixtureTarget)
def _prior_potential(target, theta):
    return prior_energy(target, go_to(target, theta, np.empty(place_size(target))))
