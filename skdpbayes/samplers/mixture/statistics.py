"""Releases of a mixture's expected sufficient statistics, and the search that begins with them.

    S + N(0, sigma^2 I),   S_k = sum_i r_k(x_i) (1, x_i, x_i^2)

with half the variance off the diagonal of second moments, where entries count twice. Statistics and noise are
rounded to one lattice, on which their sum is exact (`skdpbayes.privacy.rounding`).
"""

import math
from functools import cache
from typing import NamedTuple, Self

import numpy as np

from ..._compute.execution import cores
from ..._compute.gradients import gradient_oracle, several_cores, sums_at
from ..._linalg import cholesky, inv, solve
from ...models.mixture import Components, statistics_size
from ..noise import release_vector
from .plan import CELLS


class Statistics(NamedTuple):
    """Statistics, or running means of them, with the deviation of the noise in their entries.

    Attributes
    ----------
    counts : ndarray of shape (n_components,)
    sums : ndarray of shape (n_components, n_features)
    seconds : ndarray of shape (n_components, n_features) or (n_components, n_features, n_features)
    """

    counts: np.ndarray
    sums: np.ndarray
    seconds: np.ndarray

    @classmethod
    def of_vector(cls, total: np.ndarray, components: Components) -> Self:
        """The components that one vector describes: with squares, or lower triangles of second moments."""
        k, d = components.means.shape
        counts, sums, seconds = np.split(total, [k, k * (1 + d)])
        if components.factors.ndim == 2:
            return cls(counts, sums.reshape(k, d), seconds.reshape(k, d))
        rows, columns = np.tril_indices(d)
        matrices = np.zeros((k, d, d))
        matrices[:, rows, columns] = matrices[:, columns, rows] = seconds.reshape(k, -1)
        return cls(counts, sums.reshape(k, d), matrices)

    def towards(self, other, share):
        """This plus a share of the way to another."""
        pairs = zip(self, other, strict=True)
        return Statistics(*((1.0 - share) * mine + share * theirs for mine, theirs in pairs))


class StatisticsReleases:
    """Releases statistics of a table, again and again.

    Parameters
    ----------
    table : MixtureTable
        Rows in the unit ball.
    public_size : int
        By which sums are cut into chunks.
    generator : numpy.random.Generator
        Of the noise.
    """

    def __init__(self, table, public_size, generator):
        self.table, self.public_size, self.generator = table, public_size, generator

    def release(self, components, noise_scale, mu=None):
        """Noisy `Statistics` of the responsibilities of some components, which cost ``mu``."""
        k, d = components.means.shape
        triangular = components.factors.ndim == 3
        size = statistics_size(k, d, triangular)
        oracle, _ = gradient_oracle(self.table, size, self.public_size, sums_only=True)
        with cores(oracle.n_examples * size) as parallel:
            total = sums_at(oracle, components.as_vector(), several_cores() if parallel else 0)
        scales = np.full(size, noise_scale)
        rows, columns = np.tril_indices(d)
        if triangular:
            seconds = scales[k * (1 + d) :].reshape(k, -1)
            seconds[:, rows != columns] /= np.sqrt(2.0)
        if noise_scale > 0:
            total = release_vector(total, scales, self.generator, charged_mu=mu)  # Proposition 27.
        return Statistics.of_vector(total, components)


# A search for a mixture's groups: cells, which are refined and merged, all of it from released
# statistics.
#
# 1. Cells. From one cell on, those with the largest spread ``N_k max_j v_kj`` are cut in two along that
#    axis, at ``m_kj -+ 0.8 sqrt(v_kj)``, until there are several for every component; rows go to the
#    nearest mean.
# 2. Soft. Expectation maximisation with a diagonal component for each cell: a Gaussian that was cut into
#    pieces makes them overlap again, two that are apart stay apart. Then the pair is merged, and again,
#    that looks most like one Gaussian, ``N_ij`` with mean and covariance of both together:
#
#        KL( w_i N_i + w_j N_j || (w_i + w_j) N_ij )   is smallest.
#
#    It is computed at fixed normal points. Runnalls' bound on it, which has a closed form, counts pieces that
#    overlap as if they were apart, and merges what is small instead.
# Where statistics are noisy their running mean is used, which weighs pass ``t`` by ``1 / (t + 2)``, but not
# less than by a stated share; and variances are drawn towards the components' pooled ones, these towards
# their mean over columns,
#
#     v <- p + s^2 / (s^2 + e^2) (v - p),
#
# where ``e`` is what noise does to them and ``s`` half of ``p``.
#
# Everything is in unit-ball coordinates. Linde, Buzo and Gray (1980); Runnalls (2007); Delyon,
# Lavielle and Moulines (1999) for the running means.


# Factors so steep that rows belong to the nearest mean.
_STEEP = 1e5
# A cell whose count is not above so many deviations of its noise is given up.
_EMPTY = 5.0
# A variance is kept above this share of the pooled one while it is noisy, and above the second number always.
_POOLED_SHARE = 0.15
_LEAST_VARIANCE = 1e-6
# Rows are in the unit ball.
_LARGEST_VARIANCE = 1.0
# By how much variances are taken to differ from their mean, before they are seen.
_VARIANCE_SPREAD = 0.5
_LEAST_WEIGHT = 0.002
# In deviations: the mean of one half of a normal law is so far from the mean of the whole.
_OFFSET = 0.8
# Of the cells' pooled variance.
_WIDEST_PIECE = 4.0
_SOFT_GAIN = 0.15
# Pairs of points at which divergences are computed.
_N_POINTS = 100


def find_groups(model, phases, releases, n_samples, advance=lambda: None, at_most=False):
    """(weights, means, variances) of as many groups as components.

    Parameters
    ----------
    model : MixtureModel
    phases : tuple of Phase
        Of a plan.
    releases : StatisticsReleases
        The only access to the records.
    n_samples : int
        Public size of the table.
    advance : callable
        Called after every pass.
    at_most : bool, default=False
        Whether there may be fewer, if fewer were found.
    """
    search = _Search(model, {phase.name: phase for phase in phases}, releases, n_samples, advance)
    return search.groups(at_most)


def starting_components(model, weights, means, variances):
    """Groups as `Components` of the model's kind."""
    if model.covariance_type == "spherical":
        mean = variances.mean(axis=1, keepdims=True)
        variances = np.repeat(mean, variances.shape[1], axis=1)
    if model.covariance_type == "tied":
        variances = np.repeat(weights[None] @ variances, len(weights), axis=0)
    components = _diagonal(weights, means, variances)
    if model.is_triangular:
        return components._replace(
            factors=components.factors[:, :, None] * np.eye(model.n_features)
        )
    return components


class _Search:
    def __init__(self, model, phases, releases, n_samples, advance):
        self.model, self.phases, self.releases = model, phases, releases
        self.n, self.advance = n_samples, advance

    def _release(self, name, components):
        phase = self.phases[name]
        statistics = self.releases.release(components, phase.noise_scale, phase.mu)
        self.advance()
        return statistics

    def groups(self, at_most=False):
        """(weights, means, variances) of as many groups as there are to be components."""
        components = self.cells()
        if self.model.n_components == 1:
            weights, means, variances = components
            return weights, means, np.clip(variances, _LEAST_VARIANCE, _LARGEST_VARIANCE)
        (weights, means, variances), wanted = self.soft(*components), self.model.n_components
        if at_most:
            wanted = min(wanted, len(weights))
        return merged(weights, means, variances, wanted)

    # Cells

    def cells(self):
        """(weights, means, variances) of cells."""
        phase = self.phases["cells"]
        most = CELLS * self.model.n_components
        centres = np.zeros((1, self.model.n_features))
        for remaining in range(phase.n_passes - 1, -1, -1):
            statistics = self._release("cells", _nearest(centres))
            alive = statistics.counts > _EMPTY * phase.noise_scale
            alive[np.argmax(statistics.counts)] = True
            statistics = Statistics(*(part[alive] for part in statistics))
            counts, means, variances = self._moments(statistics)
            centres = means
            if remaining:
                centres = _split(counts, means, variances, most, 3.0 * phase.noise_scale)
        return counts / counts.sum(), means, variances

    def _moments(self, statistics):
        counts = np.maximum(statistics.counts, _LEAST_WEIGHT * self.n)
        means = _into_ball(statistics.sums / counts[:, None])
        return counts, means, statistics.seconds / counts[:, None] - means**2

    # Soft

    def soft(self, weights, means, variances):
        """(weights, means, variances) of as many components, after expectation maximisation."""
        counts = self.n * weights
        # A piece of a component is at most a few cells wide, whatever noise says.
        widest = _WIDEST_PIECE * self._pooled(counts, variances, "cells", 1.0)
        variances = self._known(counts, variances, "cells", 1.0)
        mean = _as_statistics(counts, means, variances)
        for gain in self._gains("soft"):
            components = _diagonal(weights, means, variances)
            mean = mean.towards(self._release("soft", components), gain)
            counts, means, variances = self._moments(mean)
            weights = counts / counts.sum()
            variances = np.minimum(self._known(counts, variances, "soft", gain), widest)
        return weights, means, variances

    def _gains(self, name):
        phase = self.phases[name]
        if phase.noise_scale == 0 or phase.n_passes == 1:
            return np.ones(phase.n_passes)
        return np.maximum(1.0 / (np.arange(phase.n_passes) + 2.0), _SOFT_GAIN)

    def _known(self, counts, variances, name, gain):
        """Variances that are drawn towards the pooled ones by as much as noise hides them."""
        noise = self._noise(counts, name, gain)
        pooled = self._pooled(counts, variances, name, gain)
        drawn = pooled + _known_share(pooled, noise) * (variances - pooled)
        return np.clip(drawn, _floor(pooled, noise), _LARGEST_VARIANCE)

    def _pooled(self, counts, variances, name, gain):
        """All components' pooled variances, drawn towards their mean over columns likewise."""
        shares = counts / counts.sum()
        noise = np.linalg.norm(shares[:, None] * self._noise(counts, name, gain))
        pooled = np.tensordot(shares, variances, axes=1)
        mean = max(np.mean(pooled), noise, _LEAST_VARIANCE)
        drawn = mean + _known_share(mean, noise) * (pooled - mean)
        return np.maximum(drawn, _floor(mean, noise))

    def _noise(self, counts, name, gain):
        """The approximate errors of variances, a column."""
        return self.phases[name].noise_scale * math.sqrt(6.0 * gain) / counts[:, None]


def _known_share(centre, noise):
    """The factor that shrinks a noisy deviation from ``centre``."""
    spread = (_VARIANCE_SPREAD * centre) ** 2
    return spread / (spread + noise**2)


def _floor(pooled, noise):
    return np.maximum(np.minimum(_POOLED_SHARE * pooled, 2.0 * noise), _LEAST_VARIANCE)


def _nearest(centres):
    return Components(np.zeros(len(centres)), centres, np.full_like(centres, _STEEP))


def _diagonal(weights, means, variances):
    return Components(np.log(weights), means, 1.0 / np.sqrt(variances))


def factors_of(covariances):
    """Lower triangular ``F`` with ``F F^T = C^-1``: inverses of ``U^T`` with ``U U^T = C``."""
    flipped = cholesky(covariances[..., ::-1, ::-1])[..., ::-1, ::-1]
    return np.ascontiguousarray(np.tril(inv(flipped).swapaxes(-1, -2)))


def _as_statistics(counts, means, variances):
    share = counts[:, None]
    return Statistics(counts, share * means, share * (variances + means**2))


def _into_ball(means):
    norms = np.linalg.norm(means, axis=1, keepdims=True)
    return means / np.maximum(norms, 1.0)


def _split(counts, means, variances, most, least_spread):
    """The means, those of the cells with the largest spread cut in two."""
    axes = variances.argmax(axis=1)
    widths = np.maximum(variances.max(axis=1), _LEAST_VARIANCE)
    spread = counts * widths
    chosen = [k for k in np.argsort(-spread)[: most - len(counts)] if spread[k] > least_spread]
    if len(counts) == 1:
        chosen = [0]
    offsets = np.zeros_like(means)
    offsets[chosen, axes[chosen]] = _OFFSET * np.sqrt(widths[chosen])
    return np.concatenate([means + offsets, (means - offsets)[chosen]])


def merged(weights, means, variances, n_components):
    """(weights, means, variances) of fewer components, merged pair by pair.

    If there are too few, those with the widest axis are cut in two.
    """
    parts = dict(enumerate(zip(weights, means, variances, strict=True)))
    costs = {(i, j): merging_cost(parts[i], parts[j]) for i in parts for j in range(i)}
    while len(parts) > n_components:
        pair = min(costs, key=costs.__getitem__)
        new, merged_piece = max(parts) + 1, together(*(parts.pop(i) for i in pair))
        costs = {other: cost for other, cost in costs.items() if not set(pair) & set(other)}
        costs |= {(new, i): merging_cost(merged_piece, part) for i, part in parts.items()}
        parts[new] = merged_piece
    pieces = list(parts.values())
    while len(pieces) < n_components:
        widest = max(range(len(pieces)), key=lambda k: pieces[k][2].max())
        weight, mean, variance = pieces.pop(widest)
        axis = variance.argmax()
        offset, rest = np.zeros_like(mean), variance.copy()
        offset[axis] = _OFFSET * math.sqrt(variance[axis])
        rest[axis] *= 1.0 - _OFFSET**2
        pieces += [(weight / 2.0, mean + offset, rest), (weight / 2.0, mean - offset, rest)]
    return tuple(np.array(part) for part in zip(*pieces, strict=True))


def together(first, second):
    """The weight, mean and (co)variances of two weighted Gaussians' mixture."""
    weight = first[0] + second[0]
    share = first[0] / weight
    apart = first[1] - second[1]
    mean = second[1] + share * apart
    spread = apart**2 if first[2].ndim == 1 else np.outer(apart, apart)
    covariance = share * first[2] + (1.0 - share) * second[2] + share * (1.0 - share) * spread
    return weight, mean, covariance


def merging_cost(first, second):
    """The Kullback-Leibler divergence of two weighted Gaussians from the one that replaces them."""
    both = together(first, second)
    points = _normal_points(first[1].size)
    total = 0.0
    for weight, mean, covariance in (first, second):
        matrix = covariance.ndim == 2
        moved = points @ cholesky(covariance).T if matrix else np.sqrt(covariance) * points
        x = mean + moved
        two = np.logaddexp(_log_density(x, first), _log_density(x, second))
        total += weight * (two - _log_density(x, both)).mean()
    return total


@cache
def _normal_points(n_features):
    # Public: fixed points.
    points = np.random.default_rng(0).standard_normal((_N_POINTS, n_features))
    return np.concatenate([points, -points])


def _log_density(x, part):
    weight, mean, covariance = part
    if covariance.ndim == 2:
        factor = cholesky(covariance)
        distance = (solve(factor, (x - mean).T) ** 2).sum(axis=0)
        return math.log(weight) - 0.5 * distance - np.log(np.diag(factor)).sum()
    distance = ((x - mean) ** 2 / covariance).sum(axis=1)
    return math.log(weight) - 0.5 * (distance + np.log(covariance).sum())
