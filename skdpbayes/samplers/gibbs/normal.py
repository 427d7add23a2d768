"""A normal linear model without privacy: coefficients, noise and prior scale, each given the others.

    G = sum_i w_i z_i z_i^T,   t = sum_i w_i z_i y_i,   S = sum_i w_i (y_i - z_i u)^2,   n = sum_i w_i
    u     | s, tau  ~  N(L^-1 t / s^2, L^-1),     L = G / s^2 + P(tau)
    s^2   | u, a    ~  IG((1 + n) / 2, 1 / a + S / 2),          a | s  ~  IG(1, 1 / A^2 + 1 / s^2)
    tau^2 | u, b    ~  IG((1 + d) / 2, 1 / b + sum_j P_j u_j^2 / 2),     b | tau  ~  IG(1, 1 + 1 / tau^2)

``P`` is the prior's precision, over ``tau^2`` for coefficients unless their scale is given. ``s`` and ``tau``
are half-Cauchy with scales ``A``, half the width of the bounds of responses, and 1 (Makalic and Schmidt,
2016). The sums are computed once. Nothing here is private.
"""

from typing import Any

import numpy as np

from ..._linalg import eigh
from ...targets.linear.weighted import weighted_sums
from .._machinery.shards import total
from .._protocol import Released

# Squares of scales are kept within these factors of their units: beyond, sums would overflow.
_NARROWEST, _WIDEST = 1e-24, 1e24


def sums_of(target: Any) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Return ``(G, t, sum_i w_i y_i^2, n)``. **They are not private.**"""
    origin = np.zeros((1, target.prior_precision.size))
    gradient, moment = weighted_sums(target, target.family, None, origin)
    weights, responses = target.weights, target.responses
    return moment, -gradient[0], float(weights @ responses**2), float(weights.sum())


def run_normal(plan: Any, target: Any, generator: np.random.Generator) -> Released:
    """Carry out a `NormalGibbsPlan`. **Draws are not private.**"""
    sums = total(sums_of, target)
    kept = set(plan.kept_steps().tolist())
    state = _Sweeps(plan.bounds, target.prior_precision, sums, generator)
    draws, noise, scales = [], [], []
    for step in range(plan.n_steps):
        u = state.advance()
        if step in kept:
            draws.append(u)
            noise.append(np.sqrt(state.noise))
            scales.append(np.sqrt(state.scale))
    own = np.array(scales) * target.prior_precision[0] ** -0.5
    other = {"noise_deviations": np.array(noise), "prior_scale": own}
    return Released(np.array(draws), plan, other=other)


class _Sweeps:
    """A chain of sweeps: ``noise`` is ``s^2``, ``scale`` is ``tau^2``."""

    def __init__(self, bounds, precision, sums, generator):
        self.moment, self.cross, self.square, self.count = sums
        self.generator, self.precision = generator, precision
        self.unit, self.learns = bounds.family.half_width**2, bounds.learns_scales[0]
        self.coefficients = precision.size - (bounds.constant > 0)
        self.noise = self.wide_noise = self.unit
        self.scale = self.wide_scale = 1.0

    def advance(self):
        """Draw all parameters once, and return ``u``."""
        first = slice(self.coefficients)
        prior = self.precision.copy()
        prior[first] /= self.scale
        # Eigenvalues are safe if rows lie in a subspace and hardly any noise is left. A symmetric root does
        # not depend on the signs of the vectors.
        values, vectors = eigh(self.moment / self.noise + np.diag(prior))
        values = np.maximum(values, prior.min())
        normal = vectors.T @ self.generator.standard_normal(values.size)  # Without privacy.
        pulled = vectors.T @ self.cross / self.noise
        u = vectors @ (pulled / values + normal / np.sqrt(values))
        left = max(self.square - 2.0 * u @ self.cross + u @ self.moment @ u, 0.0)
        self.noise, self.wide_noise = self._scale_of(
            self.count, left, self.unit, self.noise, self.wide_noise
        )
        if self.learns:
            left = float(self.precision[first] @ u[first] ** 2)
            self.scale, self.wide_scale = self._scale_of(
                self.coefficients, left, 1.0, self.scale, self.wide_scale
            )
        return u

    def _scale_of(self, count, square, unit, present, wide):
        """Return a half-Cauchy scale's square, given ``count`` numbers, and its mixing variable."""
        # Without privacy.
        gamma = self.generator.standard_gamma([0.5 * (1.0 + count), 1.0])
        found = float((1.0 / wide + 0.5 * square) / max(gamma[0], 1e-300))
        found = min(max(found, _NARROWEST * unit), _WIDEST * unit)
        return found, float((1.0 / unit + 1.0 / found) / max(gamma[1], 1e-300))
