"""The posterior of a mixture's parameters given noisy statistics.

    S = A eta(u) + N(0, V + sigma^2 I),      eta_k = N_k (1, a_k, T_k T_k^T + a_k a_k^T)
    m_k = m0_k + L0_k a_k,      L_k = L0_k T_k,      log N = log N0 + H b,      u = (b, a, log-diagonal T)

A row's expected statistics are linear in the moments ``eta`` of components near the mixture 0, whatever is
cut off and however components overlap: ``A`` and ``V`` are of simulated rows (`looks`). What is left is a
normal likelihood ``eta' P eta / 2 - h' eta``, in which ``eta(u)`` is exact, and the prior of
`skdpbayes.targets.mixture`: Dirichlet for weights, normal for means, Wishart or Gamma for precisions. Where
the size of the table is private, the sum of ``N`` is log-normal around the public one a priori.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..._linalg import inv
from ...targets.mixture.target import MixtureModel
from .local import Reference, lower_entries

# Logarithms of deviations are cut here.
_LARGEST_LOG = 30.0


@dataclass(frozen=True)
class Conditioned:
    """A posterior, for `skdpbayes.samplers.noise_aware.draws`.

    Attributes
    ----------
    model : MixtureModel
    at : Reference
        The mixture 0, in the unit ball.
    precision : ndarray of shape (n_moments, n_moments)
        ``P``.
    linear : ndarray of shape (n_moments,)
        ``h``.
    is_size_public : bool
    leash : float
        Deviation of a further normal prior around ``u = 0``.
    """

    model: MixtureModel
    at: Reference
    precision: np.ndarray
    linear: np.ndarray
    is_size_public: bool = True
    leash: float = math.inf

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
        """Return (log counts, ``a``, ``T``), the last of shape (n, K, 1 or d) or (n, 1 or K, d, d)."""
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
        """Return (counts, means, ``L``) of points ``u``, in the unit ball."""
        logs, shift, local = self.place(u)
        if self.at.factors.ndim == 2:
            return np.exp(logs), self.at.means + self.at.factors * shift, self.at.factors * local
        means = self.at.means + np.einsum("kij,ckj->cki", self.at.factors, shift)
        return np.exp(logs), means, self.at.factors[: local.shape[1]] @ local

    def reference(self, u):
        """Return the mixture at a point, as a regular `Reference`."""
        counts, means, factors = (part[0] for part in self.mixtures(u[None]))
        factors = np.broadcast_to(factors, self.at.factors.shape)
        return Reference(self.model.covariance_type, counts, means, factors).regular()

    def potential(self, u):
        """Return (energies, gradients) of points ``u``."""
        place = self.place(u)
        energy, slopes = self._prior(*place)
        moments = self._moments(*place)
        flat = moments.reshape(len(u), -1)
        product = flat @ self.precision
        energy = energy + np.einsum("ci,ci->c", flat, 0.5 * product - self.linear)
        pull = (product - self.linear).reshape(moments.shape)
        of_logs, of_shift, of_factors = (
            prior + data for prior, data in zip(slopes, self._pulled(pull, *place), strict=True)
        )
        of_logs = of_logs + np.einsum("ckt,ckt->ck", pull, moments)
        if self.is_size_public:
            shares = self.at.counts.sum() ** -1.0 * np.exp(place[0])
            of_logs = of_logs - shares * of_logs.sum(axis=1, keepdims=True)
        gradient = np.hstack(
            [of_logs @ self.contrasts, of_shift.reshape(len(u), -1), self._flat(of_factors)]
        )
        return energy + 0.5 * np.sum((u / self.leash) ** 2, axis=1), gradient + u / self.leash**2

    # No scales are integrated out.
    energy = potential
    learns_scales = False

    def information(self, u):
        """Return about the curvature, positive: that at 0."""
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
            own = first + j * d + np.arange(d)
            jacobian[j, 1 + np.arange(d), own] = counts[j]
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
            at = first + (0 if kind == "tied" else j * entries) + np.arange(entries)
            jacobian[j, 1 + d + np.arange(entries), at] = counts[j] * slopes

    def _moments(self, logs, shift, local):
        """Return ``eta``, of shape (n, K, length)."""
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

    def _pulled(self, pull, logs, shift, local):
        """Return the data's (part of the) gradients by log counts, ``a`` and ``log T``."""
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
        """Return (energy, gradients by log counts, ``a`` and ``log T``)."""
        scale, _, _ = self._numbers
        alpha, at = self.model.weight_concentration, self.at
        total = np.exp(logs).sum(axis=1, keepdims=True)
        shares, off = np.exp(logs) / total, np.log(total / at.counts.sum())
        energy = -alpha * (logs - np.log(total)).sum(axis=1)
        of_logs = alpha * (len(at.counts) * shares - 1.0)
        if not self.is_size_public:
            energy = energy + 0.5 * off[:, 0] ** 2
            of_logs = of_logs + off * shares
        if local.ndim == 3:
            means = at.means + at.factors * shift
            of_shift = at.factors * means / scale**2
        else:
            means = at.means + np.einsum("kij,ckj->cki", at.factors, shift)
            of_shift = np.einsum("kij,cki->ckj", at.factors, means) / scale**2
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
        whole = inverse @ inv(self.at.factors[: local.shape[1]])
        i = np.arange(d)
        exponents = (
            degrees + i
        )  # nu + d + 1, less d - i for the volume of T T^T and 1 for logarithms.
        logs = np.log(local[..., i, i])
        energy = np.sum(exponents * logs, axis=(1, 2))
        energy = energy + 0.5 * degrees * covariance * np.sum(whole**2, axis=(1, 2, 3))
        slope = -degrees * covariance * inverse.swapaxes(-1, -2) @ (whole @ whole.swapaxes(-1, -2))
        slope = _by_log_diagonal(slope, local)
        slope[..., i, i] += exponents
        return energy, slope

    def _prior_curvature(self):
        """Return about the curvature of the prior at 0, coordinate by coordinate."""
        scale, degrees, covariance = self._numbers
        at, factors = self.at, self.at.factors
        of_logs = np.full(self.contrasts.shape[1], self.model.weight_concentration)
        if factors.ndim == 2:
            of_shift = factors**2 / scale**2
            kept = factors[:, :1] if self.model.covariance_type == "spherical" else factors
            of_factors = 2.0 * degrees * covariance / kept**2
        else:
            of_shift = np.sum(factors**2, axis=1) / scale**2
            inverse = inv(factors)
            rows, _, _ = lower_entries(at.means.shape[1])
            of_factors = degrees * covariance * np.sum(inverse**2, axis=2)[:, rows]
            if self.model.covariance_type == "tied":
                of_factors = of_factors[:1]
        return np.concatenate([of_logs, of_shift.ravel(), of_factors.ravel()])


def _lower_inverse(matrices):
    """Return the inverses of lower triangular matrices; where numbers overflow, they are not finite."""
    inverse = np.zeros_like(matrices)
    for i in range(matrices.shape[-1]):
        inverse[..., i, i] = 1.0 / matrices[..., i, i]
        above = matrices[..., i, None, :i] @ inverse[..., :i, :i]
        inverse[..., i, :i] = -inverse[..., i, i, None] * above[..., 0, :]
    return inverse


def _by_log_diagonal(slope, local):
    """Return derivatives by ``T`` as derivatives by its entries below, and by logarithms on, the diagonal."""
    i = np.arange(local.shape[-1])
    slope = slope.copy()
    slope[..., i, i] *= local[..., i, i]
    return slope
