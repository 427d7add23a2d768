"""What can be computed from a mixture's draws: densities, labels, synthetic rows, intervals.

    p(x | data) = mean over draws of sum_k w_k N(x; m_k, C_k)

Everything here is post-processing of what was released.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp, softmax

from .._linalg import inv, solve
from ..models.mixture import unpack_mixture
from ..samplers.plan import check_draws
from .classifier import normalized
from .posterior import DrawnPosterior, generator_of

# One labelling of the components for all draws of a mixture.
#
# The posterior of a mixture does not change if components change places, so a chain may switch them.
# Each draw ``s`` gets the permutation ``p_s`` which, together with a reference, minimises
#
#     sum_s sum_k KL( w_sj N(m_sj, C_sj) || w_k N(m_k, C_k) ),    j = p_s(k),
#
# the sum of the Kullback-Leibler divergences of the relabelled, weighted components from those of the
# reference. For one draw, the sum over ``k`` is the divergence between the joint distributions of
# label and point. It depends neither on the units of the columns nor on the original labels of a
# draw. Two steps alternate until nothing changes:
#
# 1. The reference becomes the mean of the relabelled components, each a distribution of points that
#    counts with its weight: ``w_k = mean_s w_sj``, and ``m_k`` and ``C_k`` are the mean and covariance of
#    the mixture of these components. No other reference has a smaller sum.
# 2. Each draw takes the best permutation, by the Hungarian method.
#
# Neither step increases the sum, so the iteration ends. It starts from the draw that is nearest to a
# few others. Terms that do not depend on the labels are left out of the costs, which makes these
# cross-entropies.
#
# Stephens (2000), "Dealing with label switching in mixture models", JRSS B 62, section 4; Celeux,
# Hurn and Robert (2000), "Computational and inferential difficulties with mixture posterior
# distributions", JASA 95.


# Most rounds of matching components. If draws say nothing of components, further rounds do not help.
_MAX_ROUNDS = 40
# Number of draws that are tried as the one that others are matched with.
_PIVOT_CANDIDATES = 24
# Keeps the logarithm of an empty component's weight finite.
_LEAST_WEIGHT = 1e-100


class _Components(NamedTuple):
    """Components of many draws (first axis), or of a reference (without it)."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray


def relabel(weights, means, covariances):
    """Find common labels for all draws, in descending order of the mean weight.

    Parameters
    ----------
    weights : ndarray of shape (n_draws, n_components)
        Mixture weights.
    means : ndarray of shape (n_draws, n_components, n_features)
        Means.
    covariances : ndarray of shape (n_draws, n_components, n_features), or \
            (n_draws, n_components or 1, n_features, n_features)
        Variances of the coordinates, or covariance matrices; a single matrix of a draw is shared.

    Returns
    -------
    order : ndarray of int of shape (n_draws, n_components)
        The component of draw ``s`` with the common label ``k`` is ``order[s, k]``.
    """
    draws = _Components(np.maximum(weights, _LEAST_WEIGHT), means, covariances)
    order, _ = _assign(draws, _pivot(draws))
    for _ in range(_MAX_ROUNDS - 1):
        before, (order, _) = order, _assign(draws, _mean_components(draws, order))
        if np.array_equal(order, before):
            break
    falling = np.argsort(-np.take_along_axis(weights, order, axis=1).mean(axis=0), kind="stable")
    return order[:, falling]


def reorder(part, order):
    """Put the second axis of draws into the order of the common labels."""
    return part[np.arange(order.shape[0])[:, None], order]


def _pivot(draws):
    """The one of a few draws along the chain that is nearest to the others."""
    count = draws.weights.shape[0]
    few = np.unique(np.linspace(0, count - 1, _PIVOT_CANDIDATES).astype(int))
    candidates = _Components(*(part[few] for part in draws))
    # The mean of one draw is that draw, with a matrix for each component.
    alone = np.arange(draws.weights.shape[1])[None]
    references = [
        _mean_components(_Components(*(part[i : i + 1] for part in candidates)), alone)
        for i in range(few.size)
    ]
    totals = [_assign(candidates, reference)[1] for reference in references]
    return references[int(np.argmin(totals))]


def _mean_components(draws, order):
    """The reference that is nearest to the relabelled draws."""
    weights, means = reorder(draws.weights, order), reorder(draws.means, order)
    shares = weights / weights.sum(axis=0)
    center = np.einsum("sk,skj->kj", shares, means)
    gaps = means - center
    if draws.covariances.ndim == 3:
        within = reorder(draws.covariances, order)
        spread = np.einsum("sk,skj->kj", shares, within + gaps**2)
    else:
        if draws.covariances.shape[1] == 1:
            spread = np.tensordot(shares.T, draws.covariances[:, 0], axes=1)
        else:
            spread = np.einsum("sk,skij->kij", shares, reorder(draws.covariances, order))
        spread += (shares[:, :, None] * gaps).transpose(1, 2, 0) @ gaps.swapaxes(0, 1)
    return _Components(weights.mean(axis=0), center, spread)


def _cross_entropies(draws, reference):
    """Costs of shape (n_draws, n_components of the reference, n_components of a draw)."""
    if reference.covariances.ndim == 2:
        precisions = 1.0 / reference.covariances
        log_det = np.log(reference.covariances).sum(axis=1)
        costs = draws.covariances @ precisions.T
    else:
        precisions = inv(reference.covariances)
        log_det = np.linalg.slogdet(reference.covariances)[1]
        # A shared matrix costs the same for every label.
        traces = np.tensordot(draws.covariances, precisions, axes=((2, 3), (1, 2)))
        costs = np.broadcast_to(traces, (*draws.weights.shape, log_det.size)).copy()
    costs += log_det - 2.0 * np.log(reference.weights)
    for k, (mean, precision) in enumerate(zip(reference.means, precisions, strict=True)):
        gaps = draws.means - mean
        images = gaps * precision if precision.ndim == 1 else gaps @ precision
        costs[:, :, k] += np.einsum("sjd,sjd->sj", gaps, images)
    return 0.5 * (draws.weights[:, :, None] * costs).swapaxes(1, 2)


def _assign(draws, reference):
    """Every draw's best permutation, and the sum of their costs."""
    costs = _cross_entropies(draws, reference)
    order = np.array([linear_sum_assignment(cost)[1] for cost in costs])
    return order, float(np.take_along_axis(costs, order[:, :, None], axis=2).sum())


# Densities of many Gaussian mixtures at many points, computed in small blocks.
#
#     log p(x, k | s) = log w_sk + log det F_sk - |F_sk^T (x - m_sk)|^2 / 2 - (d / 2) log 2 pi,
#     log p(x)        = log (1/S) sum_s sum_k p(x, k | s),
#     p(k | x)        = (1/S) sum_s p(k | x, s),
#
# with factors ``F F^T`` of the precisions. All on the log scale, so that results stay finite at far
# points. Factors have shape (S, K, 1 or d) if they are diagonal, else (S, 1 or K, d, d), lower
# triangular.


_BLOCK_ENTRIES = 2**18
# Square root of the largest double, with room for a sum of squares.
_LARGEST_SUMMED_NUMBER = 1e153


class Mixtures(NamedTuple):
    """Draws of a mixture in the form that densities are computed from.

    Attributes
    ----------
    weights : ndarray of shape (S, K)
        Mixture weights.
    means : ndarray of shape (S, K, d)
        Means.
    factors : ndarray of shape (S, K, 1 or d) or (S, 1 or K, d, d)
        Factors of the precisions.
    """

    weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray


class MixtureDraws(NamedTuple):
    """Draws of a mixture, with consistent labels of the components.

    Attributes
    ----------
    weights : ndarray of shape (n_draws, n_components)
        Weights; they sum to one.
    means : ndarray of shape (n_draws, n_components, n_features)
        Means.
    covariances : ndarray
        Shape (n_draws, n_components) if "spherical" (variances), (n_draws, n_components, n_features) if
        "diag" (variances), (n_draws, n_features, n_features) if "tied", and (n_draws, n_components,
        n_features, n_features) if "full".
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray


def relabelled(weights, means, factors, covariance_type, order=None):
    """Give draws one labelling.

    Parameters
    ----------
    weights, means, factors : ndarray
        Draws, as `unpack_mixture` returns them.
    covariance_type : {"spherical", "diag", "tied", "full"}
    order : ndarray of shape (n_components,) or None, default=None
        The order of the components, if all draws have the same labels already.

    Returns
    -------
    mixtures : Mixtures
        Draws with common labels.
    draws : MixtureDraws
        The same, with covariances.
    """
    if covariance_type == "tied":
        factors = factors[:, None]
    covariances = _covariances_of(factors)
    if order is not None:
        order = np.broadcast_to(order, weights.shape)
    elif covariance_type == "spherical":
        order = relabel(weights, means, np.broadcast_to(covariances[:, :, None], means.shape))
    else:
        order = relabel(weights, means, covariances)
    weights, means = reorder(weights, order), reorder(means, order)
    if covariance_type == "tied":
        return Mixtures(weights, means, factors), MixtureDraws(weights, means, covariances[:, 0])
    if covariance_type == "spherical":
        factors = factors[:, :, None]
    mixtures = Mixtures(weights, means, reorder(factors, order))
    return mixtures, MixtureDraws(weights, means, reorder(covariances, order))


def _covariances_of(factors):
    """The inverses of ``F F^T``, for matrices of shape (S, 1 or K, d, d) or for numbers."""
    if factors.ndim < 4:
        return factors**-2.0
    inverse = inv(factors)
    covariances = inverse.swapaxes(-1, -2) @ inverse
    return (covariances + covariances.swapaxes(-1, -2)) / 2.0


def log_density(X, mixtures):
    """The log of the density averaged over the draws, of shape (n,)."""
    log_sums = np.full(X.shape[0], -np.inf)
    for rows, block in _log_joint_blocks(X, mixtures):
        log_sums[rows] = np.logaddexp(log_sums[rows], logsumexp(block, axis=(0, 1)))
    return log_sums - math.log(mixtures.weights.shape[0])


def mean_responsibilities(X, mixtures):
    """The probabilities of the components, averaged over the draws, of shape (n, K)."""
    sums = np.zeros((X.shape[0], mixtures.weights.shape[1]))
    for rows, block in _log_joint_blocks(X, mixtures):
        sums[rows] += softmax(block, axis=1).sum(axis=0).T
    return normalized(sums)


def sample_mixtures(n_samples, mixtures, rng):
    """Sample points, each from one of the draws, and return them with their components."""
    n_draws, _, n_features = mixtures.means.shape
    draws = rng.randint(n_draws, size=n_samples)  # Post-processing.
    cumulative = np.cumsum(mixtures.weights[draws], axis=1)
    # Post-processing.
    labels = (rng.uniform(size=(n_samples, 1)) * cumulative[:, -1:] > cumulative).sum(axis=1)
    points = rng.standard_normal((n_samples, n_features))  # Post-processing.
    if mixtures.factors.ndim == 3:
        points /= mixtures.factors[draws, labels]
    else:
        size = max(1, _BLOCK_ENTRIES // n_features**2)
        for i in range(0, n_samples, size):
            rows = slice(i, i + size)
            shared = mixtures.factors.shape[1] == 1
            factors = mixtures.factors[draws[rows], 0 if shared else labels[rows]]
            points[rows] = solve(factors.swapaxes(1, 2), points[rows, :, None])[:, :, 0]
    return points + mixtures.means[draws, labels], labels


def _log_joint_blocks(X, mixtures):
    """Yield slices of rows with ``log p(x, k | s)``, of shape (some draws, K, these rows)."""
    n_draws, n_components, n_features = mixtures.means.shape
    # Beyond this limit, squares would overflow.
    limit = _LARGEST_SUMMED_NUMBER / (
        n_features**1.5 * max(1.0, float(np.abs(mixtures.factors).max()))
    )
    n_rows = max(1, _BLOCK_ENTRIES // (n_components * n_features))
    for i in range(0, X.shape[0], n_rows):
        rows = slice(i, i + n_rows)
        points = np.clip(X[rows].astype(np.float64), -limit, limit)
        size = max(1, _BLOCK_ENTRIES // (points.size * n_components))
        for s in range(0, n_draws, size):
            yield rows, _log_joint(points, Mixtures(*(part[s : s + size] for part in mixtures)))


def _log_joint(points, mixtures):
    weights, means, factors = mixtures
    n_features = means.shape[2]
    gaps = points - means[:, :, None]
    if factors.ndim == 3:
        gaps *= factors[:, :, None]
        log_det = np.log(factors).sum(axis=2) * (n_features / factors.shape[2])
    else:
        gaps = gaps @ factors
        log_det = np.log(np.diagonal(factors, axis1=2, axis2=3)).sum(axis=2)
    # The weight of an empty component may underflow.
    constants = np.log(weights) + log_det - 0.5 * n_features * math.log(2.0 * math.pi)
    return constants[:, :, None] - 0.5 * np.einsum("sknj,sknj->skn", gaps, gaps)


# Dimensions of a draw's covariances, by their type.
COVARIANCE_DIMS = {
    "spherical": ("component",),
    "diag": ("component", "feature"),
    "tied": ("feature", "other_feature"),
    "full": ("component", "feature", "other_feature"),
}


# Number of draws for deviations without privacy.
_N_PRIOR_DRAWS = 400


@dataclass(frozen=True, eq=False)
class MixturePosterior(DrawnPosterior):
    """Draws of a mixture, `MixtureDraws`.

    Attributes
    ----------
    covariance_type : {"spherical", "diag", "tied", "full"}
    order : ndarray of shape (n_components,) or None
        The order of the components, if all draws have the same labels already.
    """

    covariance_type: str = "diag"
    order: np.ndarray | None = None

    def variables(self):
        """Weights, means and covariances."""
        dims = ("component",), ("component", "feature"), COVARIANCE_DIMS[self.covariance_type]
        pairs = zip(self.draws, dims, strict=True)
        return dict(zip(MixtureDraws._fields, pairs, strict=True))

    def coords(self):
        """Components and columns."""
        coords = {"component": np.arange(self.draws.weights.shape[1]), "feature": self.columns}
        if "other_feature" in COVARIANCE_DIMS[self.covariance_type]:
            coords["other_feature"] = self.columns
        return coords

    def index(self):
        """Names such as ``means[0, age]``."""
        names, coords = [], self.coords()
        for name, (draws, dims) in self.variables().items():
            for place in np.ndindex(draws.shape[1:]):
                labels = (str(coords[dim][i]) for dim, i in zip(dims, place, strict=True))
                names.append(f"{name}[{', '.join(labels)}]")
        return names

    def redraw(self, n_draws, generator):
        """New draws given the released statistics, under the labels of the others."""
        if "posterior" not in self.released:
            return None
        check_draws(n_draws, sum(part[0].size for part in self.draws))
        return self._drawn(self.released["posterior"], n_draws, generator)

    def deviations_without_noise(self, posterior):
        """The deviations of draws from the posterior of statistics without noise."""
        generator = generator_of(0)
        quiet = self._drawn(posterior.density.without_noise, _N_PRIOR_DRAWS, generator)
        return np.concatenate([np.ravel(part.std(axis=0)) for part in quiet])

    def _drawn(self, posterior, n_draws, generator):
        draws = posterior.draw(n_draws, generator)
        weights, means, factors = unpack_mixture(draws, posterior.density.model)
        return relabelled(weights, means, factors, self.covariance_type, self.order)[1]


def row_limits(bounds, n_features):
    """The lower and upper bounds of all columns; raises a ValueError."""
    if len(bounds) != 2:
        raise ValueError(f"bounds must be a pair (low, high), got {len(bounds)} entries.")
    ends = [np.asarray(part, dtype=np.float64) for part in bounds]
    for name, part in zip(("low", "high"), ends, strict=True):
        if part.shape not in ((), (n_features,)):
            raise ValueError(
                f"bounds: {name} must be one number, or one for each of the {n_features} columns; its shape "
                f"is {part.shape}."
            )
    if not (ends[0] < ends[1]).all():
        raise ValueError("bounds: low must be below high in every column.")
    return ends
