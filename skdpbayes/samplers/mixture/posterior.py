"""The posterior of a mixture's parameters and number of components, given noisy statistics.

    S = A eta(u) + N(0, V + sigma^2 I),      eta_k = N_k (1, a_k, T_k T_k^T + a_k a_k^T)
    m_k = m0_k + L0_k a_k,      L_k = L0_k T_k,      log N = log N0 + H b,      u = (b, a, log-diagonal T)

A row's expected statistics are linear in the moments ``eta`` of components near the mixture 0, whatever is
cut off and however components overlap: ``A`` and ``V`` are of simulated rows (`noisy_sums`). What is left is
a normal likelihood ``eta' P eta / 2 - h' eta``, in which ``eta(u)`` is exact, and the prior of
`skdpbayes.models.mixture`: Dirichlet for weights, normal for means, Wishart or Gamma for precisions. Where
the size of the table is private, the sum of ``N`` is log-normal around the public one a priori.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2, norm, qmc

from ..._linalg import cholesky, eigh, inv, pinv, solve
from ...models.mixture import Components, MixtureModel, pack_mixture
from ...privacy.rounding import UNIT_ROUNDOFF, covered_records
from ..base import Diagnostics
from ..statistics.hmc import Density
from ..statistics.prior import Prior
from ..statistics.requests import NoisySum
from .plan import UNSCALED, Scales, statistics_length
from .statistics import factors_of, merged

# Statistics in the components' own coordinates, in which records that are far away count less.
#
#     z_k = L_k^-1 (x - m_k),      t(z) = (c_0, c_1 z, c_2 z z^T),      v_k = r_k(x) min(1, B / |t(z_k)|)
#     S_k = sum_i v_k(x_i) t(z_k(x_i)),      |(v_k t_k)_k| <= B
#
# ``z^2`` or ``|z|^2`` is in the place of ``z z^T`` where covariances are diagonal or spherical. As
# ``B`` is a few standard deviations of ``t``, noise is relative to the components, and not to the
# ball of the rows.


BLOCK_ROWS = 4096
# Smallest of a reference's variances, in the unit ball, and of its weights.
LEAST_VARIANCE = 1e-6
LEAST_WEIGHT = 0.002
# Quantiles at which moments of ``v t`` are averaged.
_N_QUANTILES = 2**17


class MixtureState(NamedTuple):
    """A mixture in the unit ball.

    Attributes
    ----------
    covariance_type : str
    counts : ndarray of shape (n_components,)
        How many records the components have.
    means : ndarray of shape (n_components, n_features)
    factors : ndarray of shape (n_components, n_features) or (n_components, n_features, n_features)
        ``L``, deviations or lower triangular.
    """

    covariance_type: str
    counts: np.ndarray
    means: np.ndarray
    factors: np.ndarray

    @property
    def weights(self):
        """Shares of the components."""
        return self.counts / self.counts.sum()

    def widened(self, factor):
        """A mixture whose deviations are larger."""
        return self._replace(factors=factor * self.factors)

    def regular(self):
        """The nearest mixture with no component that is empty, degenerate or outside the ball."""
        counts = np.maximum(self.counts, LEAST_WEIGHT * self.counts.sum())
        means = self.means / np.maximum(1.0, np.linalg.norm(self.means, axis=1, keepdims=True))
        if self.factors.ndim == 2:
            factors = np.clip(self.factors, math.sqrt(LEAST_VARIANCE), 1.0)
        else:
            values, vectors = eigh(self.factors @ self.factors.transpose(0, 2, 1))
            values = np.clip(values, LEAST_VARIANCE, 1.0)
            covariances = (vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1)
            factors = cholesky(covariances)
        return MixtureState(
            self.covariance_type, counts / counts.sum() * self.counts.sum(), means, factors
        )

    def rounding_amplification(self):
        """The factor by which the rounding error of a row can grow in its coordinates."""
        inverse = 1.0 / self.factors if self.factors.ndim == 2 else inv(self.factors)
        norms = np.linalg.norm(inverse.reshape(len(inverse), -1), axis=1)
        return float(np.max(norms * (1.0 + np.linalg.norm(self.means, axis=1))))

    def points(self, component, normal):
        """Rows of a component, for standard normal ones."""
        factor = self.factors[component]
        moved = normal * factor if factor.ndim == 1 else normal @ factor.T
        return self.means[component] + moved


def _weighted(rows, reference, scales):
    """(a list of ``z_k``, their squared norms, ``v``)."""
    is_matrix = reference.factors.ndim == 3
    inverses = inv(reference.factors) if is_matrix else 1.0 / reference.factors
    logits = np.empty((len(rows), len(reference.counts)))
    shrinking = np.empty_like(logits)
    local, squares = [], []
    logs = np.log(reference.weights)
    for k, inverse in enumerate(inverses):
        gaps = rows - reference.means[k]
        z = gaps @ inverse.T if is_matrix else gaps * inverse
        square = np.einsum("ij,ij->i", z, z)
        fourth = square**2
        if reference.covariance_type == "diag":
            fourth = np.einsum("ij,ij->i", z**2, z**2)
        length = np.sqrt(scales.count**2 + scales.mean**2 * square + scales.second**2 * fourth)
        shrinking[:, k] = np.minimum(1.0, scales.norm / length)
        diagonal = np.diagonal(inverse) if is_matrix else inverse
        logits[:, k] = logs[k] + np.log(diagonal).sum() - 0.5 * square
        local.append(z)
        squares.append(square)
    logits -= logits.max(axis=1, keepdims=True)
    shares = np.exp(logits)
    shares /= shares.sum(axis=1, keepdims=True)
    return local, squares, shares * shrinking


@lru_cache(maxsize=32)
def lower_entries(n_features):
    """(rows, columns, weights) of a symmetric matrix's lower triangle, with its norm."""
    rows, columns = np.tril_indices(n_features)
    return rows, columns, np.where(rows == columns, 1.0, math.sqrt(2.0))


def local_sums(table, reference, scales):
    """``S``, a vector. **It is not private.**"""
    total: np.ndarray | float = 0.0
    rows, columns, twice = lower_entries(reference.means.shape[1])
    for first in range(0, len(table.scale), BLOCK_ROWS):
        part = slice(first, first + BLOCK_ROWS)
        block = table.values[part].astype(np.float64) * table.scale[part, None]
        local, squares, v = _weighted(block, reference, scales)
        sums = []
        for k, z in enumerate(local):
            values_of_row = v[:, k]
            if reference.covariance_type == "diag":
                second = values_of_row @ z**2
            elif reference.covariance_type == "spherical":
                second = np.array([values_of_row @ squares[k]])
            else:
                second = ((z * values_of_row[:, None]).T @ z)[rows, columns] * twice
            sums += [
                [scales.count * values_of_row.sum()],
                scales.mean * (values_of_row @ z),
                scales.second * second,
            ]
        total = total + np.concatenate(sums)
    return total


def local_features(rows, reference, scales):
    """The contribution of each row to ``S``, of shape (n_rows, n)."""
    local, _, v = _weighted(rows, reference, scales)
    factors = np.repeat(scales[:3], [1, rows.shape[1], _n_second(reference)])
    return np.hstack(
        [
            v[:, k, None] * (factors * sufficient(z, reference.covariance_type))
            for k, z in enumerate(local)
        ]
    )


def _n_second(reference):
    return statistics_length(reference.covariance_type, reference.means.shape[1]) - (
        1 + reference.means.shape[1]
    )


def sufficient(z, covariance_type):
    """``(1, z, z z^T)`` of rows, of shape (n_rows, length)."""
    if covariance_type == "diag":
        second = z**2
    elif covariance_type == "spherical":
        second = np.einsum("ij,ij->i", z, z)[:, None]
    else:
        rows, columns, twice = lower_entries(z.shape[1])
        second = z[:, rows] * z[:, columns] * twice
    return np.hstack([np.ones((len(z), 1)), z, second])


@lru_cache(maxsize=8)
def normal_points(n_points, n_features):
    """Fixed standard normal points, evenly spread, with the first two moments as they should be.

    Sobol's points and their opposites; ``n_points`` is a power of two.
    """
    uniform = qmc.Sobol(n_features, seed=0).random(n_points // 2)  # Public: fixed points.
    points = norm.ppf(np.clip(uniform, 1e-9, 1.0 - 1e-9))
    points = np.concatenate([points, -points])
    factor = cholesky(points.T @ points / len(points))
    points = solve(factor, points.T).T
    points.setflags(write=False)
    return points


@lru_cache(maxsize=32)
def own_moments(covariance_type, n_features, scales):
    """The mean of ``min(1, B / |t|) t`` of a standard normal vector."""
    d, diagonal = n_features, covariance_type == "diag"
    if diagonal and d > 1:
        squares = normal_points(2 ** min(18, 23 - d.bit_length()), d) ** 2
        square, fourth = squares.sum(axis=1), (squares**2).sum(axis=1)
    else:
        square = chi2.ppf((np.arange(_N_QUANTILES) + 0.5) / _N_QUANTILES, d)
        fourth = square**2
    length = np.sqrt(scales.count**2 + scales.mean**2 * square + scales.second**2 * fourth)
    shrinking = np.minimum(1.0, scales.norm / length)
    each = float(np.mean(shrinking * square)) / d
    rows, columns, _ = lower_entries(d)
    second = {"diag": np.full(d, each), "spherical": np.array([d * each])}.get(
        covariance_type, np.where(rows == columns, each, 0.0)
    )
    return np.concatenate([[scales.count * shrinking.mean()], np.zeros(d), scales.second * second])


def inflation(n_samples, relation, reference):
    """The factor by which rounding can enlarge the difference of two tables' sums.

    A row's coordinates are off by ``d u`` times the steepness, the logarithm of its density by as much times
    the distance, which is at most twice the steepness; and there are as many additions as rows in a block,
    and blocks.
    """
    n = covered_records(n_samples, relation)
    steep = reference.rounding_amplification()
    of_row = (reference.means.shape[1] + 8) * (16.0 + 8.0 * steep**2)
    chain = BLOCK_ROWS + n / BLOCK_ROWS
    return 1.0 + 4.0 * UNIT_ROUNDOFF * n * (chain + of_row)


# Logarithms of deviations are cut here.
_LARGEST_LOG = 30.0


@dataclass(frozen=True)
class MixtureDensity(Density):
    """A mixture's log density given statistics around a mixture.

    Attributes
    ----------
    model : MixtureModel
    at : MixtureState
        The mixture 0, in the unit ball.
    precision : ndarray of shape (n_moments, n_moments)
        ``P``.
    linear : ndarray of shape (n_moments,)
        ``h``.
    is_size_public : bool
    leash : float
        Deviation of a further normal prior around ``u = 0``.
    without_noise : Posterior or None
        What it would be without noise, as far as that is known.
    """

    model: MixtureModel
    at: MixtureState
    precision: np.ndarray
    linear: np.ndarray
    is_size_public: bool = True
    leash: float = math.inf
    without_noise: Any = None

    # No scales are learnt, and none are looked for.
    prior, growth = Prior(()), None
    scales = np.empty(0)

    @cached_property
    def contrasts(self):
        """``H``."""
        k = len(self.at.counts)
        if not self.is_size_public:
            return np.eye(k)
        return np.linalg.svd(np.ones((1, k)))[2][1:].T

    @property
    def start(self):
        """The mixture 0."""
        return np.zeros(self.contrasts.shape[1] + self.at.means.size + self._n_factors)

    @property
    def _n_factors(self):
        (k, d), kind = self.at.means.shape, self.model.covariance_type
        triangle = d * (d + 1) // 2
        return {"spherical": k, "diag": k * d, "tied": triangle}.get(kind, k * triangle)

    def place(self, u):
        """(log counts, ``a``, ``T``), the last of shape (n, K, 1 or d) or (n, 1 or K, d, d)."""
        k, d = self.at.means.shape
        logs, shift, factors = np.split(
            u, [self.contrasts.shape[1], self.contrasts.shape[1] + k * d], axis=1
        )
        logs = np.log(self.at.counts) + logs @ self.contrasts.T
        if self.is_size_public:
            largest = logs.max(axis=1, keepdims=True)
            total = largest + np.log(np.exp(logs - largest).sum(axis=1, keepdims=True))
            logs = logs - total + math.log(self.at.counts.sum())
        shift = shift.reshape(-1, k, d)
        if self.at.factors.ndim == 2:
            local = np.clip(factors.reshape(len(u), k, -1), -_LARGEST_LOG, _LARGEST_LOG)
            return logs, shift, np.exp(local)
        rows, columns, _ = lower_entries(d)
        factors = factors.reshape(len(u), -1, rows.size)
        local = np.zeros((*factors.shape[:2], d, d))
        local[..., rows, columns] = factors
        i = np.arange(d)
        local[..., i, i] = np.exp(np.clip(local[..., i, i], -_LARGEST_LOG, _LARGEST_LOG))
        return logs, shift, local

    def mixtures(self, u):
        """(counts, means, ``L``) of points ``u``, in the unit ball."""
        logs, shift, local = self.place(u)
        if self.at.factors.ndim == 2:
            return np.exp(logs), self.at.means + self.at.factors * shift, self.at.factors * local
        means = self.at.means + np.einsum("kij,ckj->cki", self.at.factors, shift)
        return np.exp(logs), means, self.at.factors[: local.shape[1]] @ local

    def reference(self, u):
        """The mixture at a point, as a regular `MixtureState`."""
        counts, means, factors = (part[0] for part in self.mixtures(u[None]))
        factors = np.broadcast_to(factors, self.at.factors.shape)
        return MixtureState(self.model.covariance_type, counts, means, factors).regular()

    def negative_log_likelihood(self, u):
        """(energies, gradients) of points ``u``."""
        place = self.place(u)
        energy, slopes = self._prior(*place)
        moments = self._moments(*place)
        flat = moments.reshape(len(u), -1)
        product = flat @ self.precision
        energy = energy + np.einsum("ci,ci->c", flat, 0.5 * product - self.linear)
        pull = (product - self.linear).reshape(moments.shape)
        of_logs, of_shift, of_factors = (
            prior + data for prior, data in zip(slopes, self._vjp(pull, *place), strict=True)
        )
        of_logs = of_logs + np.einsum("ckt,ckt->ck", pull, moments)
        if self.is_size_public:
            shares = self.at.counts.sum() ** -1.0 * np.exp(place[0])
            of_logs = of_logs - shares * of_logs.sum(axis=1, keepdims=True)
        gradient = np.hstack(
            [of_logs @ self.contrasts, of_shift.reshape(len(u), -1), self._flat(of_factors)]
        )
        return energy + 0.5 * np.sum((u / self.leash) ** 2, axis=1), gradient + u / self.leash**2

    def parameters(self, u, random):
        """Draws for `unpack_mixture`, and nothing else."""
        with np.errstate(all="ignore"):
            counts, means, factors = self.mixtures(u)
            logs = np.log(counts / counts.sum(axis=1, keepdims=True))
            matrices = factors.ndim == 4
            inverse = factors_of(factors @ factors.swapaxes(-1, -2)) if matrices else 1.0 / factors
        parts = zip(logs, means, inverse, strict=True)
        draws = [pack_mixture(Components(*part), self.model) for part in parts]
        return np.array(draws), Diagnostics()

    def information(self, u):
        """A positive approximation of the curvature: that at 0."""
        (k, d), counts = self.at.means.shape, self.at.counts
        length = self.linear.size // k
        place = tuple(self.place(self.start[None]))
        moments = self._moments(*place)[0]
        shares = counts / counts.sum()
        of_logs = np.diag(np.ones(k)) - self.is_size_public * shares  # Of log N_j, by b_i.
        n_shift, size = k * d, self.start.size
        jacobian = np.zeros((k, length, size))
        jacobian[:, :, : self.contrasts.shape[1]] = (
            moments[:, :, None] * (of_logs @ self.contrasts)[:, None]
        )
        first = self.contrasts.shape[1]
        for j in range(k):
            diagonal = first + j * d + np.arange(d)
            jacobian[j, 1 + np.arange(d), diagonal] = counts[j]
        self._factor_slopes(jacobian, first + n_shift)
        jacobian = jacobian.reshape(-1, size)
        curved = jacobian.T @ self.precision @ jacobian
        return curved + np.diag(self._prior_curvature() + self.leash**-2.0)

    def _factor_slopes(self, jacobian, first):
        """Write the derivatives of ``T T^T`` at ``T = I``."""
        k, d = self.at.means.shape
        kind, counts = self.model.covariance_type, self.at.counts
        for j in range(k):
            if kind == "spherical":
                jacobian[j, 1 + d, first + j] = 2.0 * d * counts[j]
                continue
            if kind == "diag":
                entries, slopes = d, np.full(d, 2.0)
            else:
                rows, columns, twice = lower_entries(d)
                entries, slopes = rows.size, np.where(rows == columns, 2.0, twice)
            entries_of_factor = first + (0 if kind == "tied" else j * entries) + np.arange(entries)
            jacobian[j, 1 + d + np.arange(entries), entries_of_factor] = counts[j] * slopes

    def _moments(self, logs, shift, local):
        """``eta``, of shape (n, K, length)."""
        counts, d = np.exp(logs)[:, :, None], shift.shape[2]
        if local.ndim == 3:
            second = local**2 + shift**2
            if self.model.covariance_type == "spherical":
                second = d * local**2 + np.sum(shift**2, axis=2, keepdims=True)
        else:
            rows, columns, twice = lower_entries(d)
            outer = local @ local.swapaxes(-1, -2) + shift[..., :, None] * shift[..., None, :]
            second = outer[..., rows, columns] * twice
        return counts * np.concatenate([np.ones_like(counts), shift, second], axis=2)

    def _vjp(self, pull, logs, shift, local):
        """The data's (part of the) gradients by log counts, ``a`` and ``log T``."""
        counts, d = np.exp(logs), shift.shape[2]
        of_mean, of_second = pull[:, :, 1 : 1 + d], pull[:, :, 1 + d :]
        if local.ndim == 3:
            of_shift = counts[:, :, None] * (of_mean + 2.0 * of_second * shift)
            times = d if self.model.covariance_type == "spherical" else 1
            return 0.0, of_shift, 2.0 * times * counts[:, :, None] * of_second * local**2
        rows, columns, twice = lower_entries(d)
        matrix = np.zeros((*of_mean.shape, d))
        matrix[..., rows, columns] = matrix[..., columns, rows] = of_second / twice
        of_shift = of_mean + 2.0 * np.einsum("ckij,ckj->cki", matrix, shift)
        of_local = 2.0 * counts[:, :, None, None] * (matrix @ local)
        if self.model.covariance_type == "tied":
            of_local = of_local.sum(axis=1, keepdims=True)
        return 0.0, counts[:, :, None] * of_shift, _by_log_diagonal(of_local, local)

    def _flat(self, of_factors):
        if self.at.factors.ndim == 2:
            return of_factors.reshape(len(of_factors), -1)
        rows, columns, _ = lower_entries(self.at.means.shape[1])
        return of_factors[..., rows, columns].reshape(len(of_factors), -1)

    # The prior

    @property
    def _numbers(self):
        """``s, nu, c`` in units of the ball."""
        radius = self.model.data_norm
        scale, covariance = self.model.mean_scale / radius, self.model.covariance / radius**2
        return scale, self.model.degrees_of_freedom, covariance

    def _prior(self, logs, shift, local):
        """(energy, gradients by log counts, ``a`` and ``log T``)."""
        scale, _, _ = self._numbers
        alpha, state = self.model.weight_concentration, self.at
        total = np.exp(logs).sum(axis=1, keepdims=True)
        shares, off = np.exp(logs) / total, np.log(total / state.counts.sum())
        energy = -alpha * (logs - np.log(total)).sum(axis=1)
        of_logs = alpha * (len(state.counts) * shares - 1.0)
        if not self.is_size_public:
            energy = energy + 0.5 * off[:, 0] ** 2
            of_logs = of_logs + off * shares
        if local.ndim == 3:
            means = state.means + state.factors * shift
            of_shift = state.factors * means / scale**2
        else:
            means = state.means + np.einsum("kij,ckj->cki", state.factors, shift)
            of_shift = np.einsum("kij,cki->ckj", state.factors, means) / scale**2
        energy = energy + 0.5 * np.sum(means**2, axis=(1, 2)) / scale**2
        of_covariances, of_factors = self._covariance_prior(local)
        return energy + of_covariances, (of_logs, of_shift, of_factors)

    def _covariance_prior(self, local):
        _, degrees, covariance = self._numbers
        if local.ndim == 3:
            factors = self.at.factors[:, : local.shape[2]]
            precisions = 0.5 * degrees * covariance / (factors * local) ** 2
            energy = np.sum(degrees * np.log(local) + precisions, axis=(1, 2))
            return energy, degrees - 2.0 * precisions
        d = local.shape[-1]
        inverse = _lower_inverse(local)
        inverse_product = inverse @ inv(self.at.factors[: local.shape[1]])
        i = np.arange(d)
        exponents = (
            degrees + i
        )  # nu + d + 1, less d - i for the volume of T T^T and 1 for logarithms.
        logs = np.log(local[..., i, i])
        energy = np.sum(exponents * logs, axis=(1, 2))
        energy = energy + 0.5 * degrees * covariance * np.sum(inverse_product**2, axis=(1, 2, 3))
        slope = (
            -degrees
            * covariance
            * inverse.swapaxes(-1, -2)
            @ (inverse_product @ inverse_product.swapaxes(-1, -2))
        )
        slope = _by_log_diagonal(slope, local)
        slope[..., i, i] += exponents
        return energy, slope

    def _prior_curvature(self):
        """An approximation of the prior's curvature at 0, coordinate by coordinate."""
        scale, degrees, covariance = self._numbers
        state, factors = self.at, self.at.factors
        of_logs = np.full(self.contrasts.shape[1], self.model.weight_concentration)
        if factors.ndim == 2:
            of_shift = factors**2 / scale**2
            kept = factors[:, :1] if self.model.covariance_type == "spherical" else factors
            of_factors = 2.0 * degrees * covariance / kept**2
        else:
            of_shift = np.sum(factors**2, axis=1) / scale**2
            inverse = inv(factors)
            rows, _, _ = lower_entries(state.means.shape[1])
            of_factors = degrees * covariance * np.sum(inverse**2, axis=2)[:, rows]
            if self.model.covariance_type == "tied":
                of_factors = of_factors[:1]
        return np.concatenate([of_logs, of_shift.ravel(), of_factors.ravel()])


def _lower_inverse(matrices):
    """The inverses of lower triangular matrices; where numbers overflow, they are not finite."""
    inverse = np.zeros_like(matrices)
    for i in range(matrices.shape[-1]):
        inverse[..., i, i] = 1.0 / matrices[..., i, i]
        above = matrices[..., i, None, :i] @ inverse[..., :i, :i]
        inverse[..., i, :i] = -inverse[..., i, i, None] * above[..., 0, :]
    return inverse


def _by_log_diagonal(slope, local):
    """Derivatives by ``T`` as derivatives by its entries below, and by logarithms on, the diagonal."""
    i = np.arange(local.shape[-1])
    slope = slope.copy()
    slope[..., i, i] *= local[..., i, i]
    return slope


# How many components: two become one if that explains what was released as well.
#
#     log p(S | K) - log p(S | K - 1)  <  q log(n) / 2,      S ~ N(E S, V + sigma^2 I)
#
# Schwarz's criterion, with the law that statistics have given a mixture (`noisy_sums`), noise included, at
# its mode; ``q`` is the number of a component's parameters. It is asked of the pair that looks most
# like one Gaussian, again and again. Everything is post-processing. Schwarz, "Estimating the
# dimension of a model", 1978.


def fewer_components(state, settle, evidence, n_samples):
    """The mixture with as few components as statistics ask for.

    Parameters
    ----------
    state : MixtureState
    settle : callable
        Of a mixture: that at the mode near it.
    evidence : callable
        Of a mixture: ``log p(S)``.
    n_samples : int
    """
    best = evidence(state)
    while len(state.counts) > 1:
        fewer = settle(merge_closest(state))
        evidence_of_fewer = evidence(fewer)
        if best - evidence_of_fewer > 0.5 * parameters_of_component(state) * math.log(n_samples):
            break
        state, best = fewer, evidence_of_fewer
    return state


def parameters_of_component(reference):
    """Number of parameters a mixture has for another component."""
    d = reference.means.shape[1]
    shared = reference.covariance_type == "tied"
    return 1 + d if shared else statistics_length(reference.covariance_type, d)


def merge_closest(reference):
    """A `MixtureState` with the two components as one that look most like one Gaussian."""
    kind, factors = reference.covariance_type, reference.factors
    covariances = factors**2 if factors.ndim == 2 else factors @ factors.transpose(0, 2, 1)
    groups = reference.weights, reference.means, covariances
    weights, means, covariances = merged(*groups, len(covariances) - 1)
    return reference_of(kind, reference.counts.sum() * weights, means, covariances)


def reference_of(kind, counts, means, covariances):
    """A `MixtureState` of some kind, with the mean of variances or covariances that are shared."""
    if kind == "spherical":
        covariances = np.repeat(covariances.mean(axis=1, keepdims=True), means.shape[1], axis=1)
    if kind == "tied":
        tied = np.tensordot(counts / counts.sum(), covariances, axes=1)
        covariances = np.repeat(tied[None], len(counts), axis=0)
    factors = np.sqrt(covariances) if covariances.ndim == 2 else cholesky(covariances)
    return MixtureState(kind, counts, means, factors).regular()


# What released statistics say of a mixture: their mean and covariance, by simulated rows.
#
#     E S = sum_j A_j eta_j,     A_j = E_j[f tau^T] E_j[tau tau^T]^-1,     tau = (1, z_j, z_j z_j^T)
#     V   = sum_j N_j E_j[f f^T] - n (E f)(E f)^T
#
# with a row's own statistics ``f`` and means over a component ``j`` of the current mixture. A
# regression of ``f`` on ``tau`` gives the derivatives by the moments exactly, that being how
# exponential families change with their moments. At the mixture at which statistics were released,
# means are known, for responsibilities undo the mixture: ``E r_k t = w_k E_k t``. All means are
# corrected by the error that simulated rows have there.


# Simulated rows of a component, and how many there are at least for each of its statistics.
N_POINTS = 2048
_TIMES = 4
_JITTER = 1e-12


class NoisyStatistics(NamedTuple):
    """Statistics as they were released.

    Attributes
    ----------
    reference : MixtureState
        Whose responsibilities and coordinates were used.
    scales : Scales
    noisy_sum : NoisySum
    missed : ndarray
        By how much the mean of a simulated row's statistics is below what it is.
    """

    reference: MixtureState
    scales: Scales
    noisy_sum: NoisySum
    missed: np.ndarray


def noisy_statistics(reference, scales, noisy_sum):
    """A `NoisyStatistics`."""
    kind, d = reference.covariance_type, reference.means.shape[1]
    normal, simulated = points_for(reference), 0.0
    for j, weight in enumerate(reference.weights):
        rows = reference.points(j, normal)
        simulated = simulated + weight * local_features(rows, reference, scales).mean(axis=0)
    known = np.outer(reference.weights, own_moments(kind, d, scales)).ravel()
    return NoisyStatistics(reference, scales, noisy_sum, known - simulated)


def points_for(reference):
    """Standard normal points, of which rows of any component are made."""
    d = reference.means.shape[1]
    length = sufficient(np.zeros((1, d)), reference.covariance_type).shape[1]
    return normal_points(max(N_POINTS, 2 ** (_TIMES * length).bit_length()), d)


def gaussian_conditional(model, state, noisy_sums, is_size_public, **options):
    """The `MixtureDensity` given some noisy sums, as far as moments are near those of a mixture.

    Parameters
    ----------
    model : MixtureModel
    state : MixtureState
        That mixture.
    noisy_sums : list of NoisyStatistics
        Their rows are the same, their noise is not.
    is_size_public : bool
    **options
        Of `MixtureDensity`.

    Returns
    -------
    conditioned : MixtureDensity
    """
    maps, sums, factor, _ = _scaled(state, noisy_sums, is_size_public)
    scaled = solve(factor, maps.T)
    linear = scaled.T @ solve(factor, sums)
    return MixtureDensity(model, state, scaled.T @ scaled, linear, is_size_public, **options)


def log_evidence(state, noisy_sums, is_size_public):
    """The log density of noisy sums' statistics given a mixture, up to a constant."""
    maps, sums, factor, units = _scaled(state, noisy_sums, is_size_public)
    moments = own_moments(state.covariance_type, state.means.shape[1], UNSCALED)
    off = solve(factor, sums - np.outer(state.counts, moments).ravel() @ maps)
    return -0.5 * off @ off - np.log(np.diag(factor)).sum() + np.log(units).sum()


def _scaled(state, noisy_sums, is_size_public):
    """(``A^T``, sums, a factor of ``V`` with noise, their units), in those units."""
    maps, covariance = _map_and_covariance(state, noisy_sums, is_size_public)
    noise = np.concatenate(
        [np.full(each.missed.size, each.noisy_sum.noise**2) for each in noisy_sums]
    )
    covariance[np.diag_indices_from(covariance)] += noise
    units = np.diag(covariance) ** -0.5
    covariance *= np.outer(units, units)
    covariance[np.diag_indices_from(covariance)] += _JITTER
    sums = np.concatenate([each.noisy_sum.value for each in noisy_sums])
    return maps * units, sums * units, cholesky(covariance), units


def _map_and_covariance(state, noisy_sums, is_size_public):
    """``A^T`` and ``V``."""
    normal = points_for(state)
    regression = pinv(sufficient(normal, state.covariance_type))
    maps, covariance, mean = [], 0.0, 0.0
    for j, count in enumerate(state.counts):
        rows = state.points(j, normal)
        features = np.hstack(
            [local_features(rows, each.reference, each.scales) for each in noisy_sums]
        )
        maps.append(regression @ features)
        maps[-1][0] += np.concatenate([each.missed for each in noisy_sums])
        covariance = covariance + count / len(rows) * (features.T @ features)
        mean = mean + count * features.mean(axis=0)
    if is_size_public:
        covariance = covariance - np.outer(mean, mean) / state.counts.sum()
    return np.vstack(maps), covariance
