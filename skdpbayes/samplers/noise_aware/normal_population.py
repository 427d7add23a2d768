"""The score of endlessly many normal rows with weights, for two classes.

    S(u) = n E[v(z) (sigma(u . z) - 1/2) z],      z ~ N(m, Sigma),      v(z) = min(1, C^2 / |z|^2)

Weights are written as ``sum_k w_k exp(-lambda_k |z|^2 / 2)``, which makes ``v`` times the density a sum of
normal ones, of masses ``W_k``, means ``m_k`` and covariances ``Sigma_k = (Sigma^-1 + lambda_k I)^-1``. The
logistic law is a mixture of normal ones of deviations ``1 / s = 2 kappa``, with ``kappa`` of Kolmogorov's law
[1]_, so that with ``mu = m_k . u``, ``q = u . Sigma_k u`` and ``tau = s / sqrt(1 + s^2 q)``

    A = E[sigma(u . z)] - 1/2 = E[Phi(tau mu)] - 1/2,      B = E[sigma'(u . z)] = E[tau phi(tau mu)],

    S(u) = n sum_k W_k (A m_k + B Sigma_k u).

The second derivative of ``A`` by ``mu`` is twice the first by ``q``. Here ``Sigma`` is diagonal.

References
----------
.. [1] D. F. Andrews and C. L. Mallows, "Scale mixtures of normal distributions", JRSS B 36(1), 1974.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import erf
from scipy.stats import gamma, kstwobign

from ..._linalg import eigh, lstsq
from ...targets.linear.family import ClassFamily

# ``kappa`` by the trapezoidal rule for its logarithm: the logistic law to 5e-7.
_KAPPAS = np.geomspace(0.35, 2.3, 8)
_SLOPES = 0.5 / _KAPPAS
_SHARES = kstwobign.pdf(_KAPPAS) * _KAPPAS
_SHARES /= _SHARES.sum()
_DENSITIES = _SHARES / math.sqrt(2.0 * math.pi)
# ``lambda`` times half the mean of ``|z|^2``: scores are off by about a hundredth at most.
_RATES = np.array([0.0, 0.25, 0.5, 1.0])
# Quantiles of ``|z|^2`` at which weights are fitted.
_QUANTILES = (np.arange(400) + 0.5) / 400
# Values over the mean that count a little, so that weights are positive where hardly any row is, too.
_ANYWHERE, _LITTLE = np.linspace(0.0, 8.0, 33), 0.01
# Least variance of ``|z|^2``, relative to its squared mean, that makes a difference.
_LEAST_SPREAD = 1e-9


class LogisticNormal(NamedTuple):
    """Expectations for points and normal parts, arrays of shape (n_points, n_parts).

    Attributes
    ----------
    points : ndarray of shape (n_points, length)
        In the population's own coordinates.
    mean, slope, first, second : ndarray
        ``A``, ``B``, and the first two derivatives of ``B`` by ``mu``.
    """

    points: np.ndarray
    mean: np.ndarray
    slope: np.ndarray
    first: np.ndarray
    second: np.ndarray


@dataclass(frozen=True)
class NormalPopulation:
    """A normal law of rows that stands for those of a table. It has the methods of `Population`.

    Attributes
    ----------
    family : ClassFamily
        That of two classes.
    size : float
        ``n``.
    axes : ndarray of shape (length, length)
        Eigenvectors of ``Sigma``, the coordinates of means and variances.
    masses : ndarray of shape (n_parts,)
        ``W``.
    means, variances : ndarray of shape (n_parts, length)
        ``m_k``, and the diagonals of ``Sigma_k``.
    mean_squares : ndarray of shape (length,)
        Of coordinates ``z`` before they are turned, without weights.
    """

    family: ClassFamily
    size: float
    axes: np.ndarray
    masses: np.ndarray
    means: np.ndarray
    variances: np.ndarray
    mean_squares: np.ndarray

    @property
    def mean_weight(self):
        """Mean of ``v``."""
        return float(self.masses.sum())

    @property
    def total_weight(self):
        """Sum of ``v`` over records."""
        return float(self.size * self.mean_weight)

    @cached_property
    def origin(self):
        """``S(0)``."""
        return np.zeros(len(self.axes))

    def at(self, u):
        """Return the `LogisticNormal` for points of shape (n_points, length)."""
        points = u @ self.axes
        shape = len(points), self.masses.size
        mu, q = points @ self.means.T, points**2 @ self.variances.T
        # Matrices of eight columns: a product of three axes would be one for every point.
        tau = np.sqrt(_SLOPES**-2.0 + q.reshape(-1, 1))
        np.reciprocal(tau, out=tau)
        x = tau * (math.sqrt(0.5) * mu.reshape(-1, 1))
        squares = x**2
        densities = tau * np.exp(-squares)
        of_second = tau**2 * densities
        once = (of_second @ _DENSITIES).reshape(shape)
        squares *= of_second
        return LogisticNormal(
            points,
            (erf(x) @ (0.5 * _SHARES)).reshape(shape),
            (densities @ _DENSITIES).reshape(shape),
            -mu * once,
            2.0 * (squares @ _DENSITIES).reshape(shape) - once,
        )

    def score(self, at):
        """Return ``S``, of shape (n_points, length)."""
        return self._summed(at, self.size * at.mean, self.size * at.slope)

    def change(self, u):
        """Return ``f``."""
        return self.score(self.at(u))

    def mean_variance(self, at):
        """Return the mean slope of a row, of shape (n_points,)."""
        return at.slope @ self.masses

    def curvature(self, u):
        """Return ``S'`` at one point."""
        return self.slope_times(self.at(u[None]), np.eye(u.size))

    def slope_times(self, at, vectors):
        """Return ``S' a`` for vectors ``a`` like points."""
        return self.pulled(at, vectors, np.zeros(1))

    def pulled(self, at, vectors, factors):
        """Return ``S' a`` plus ``factors``, of shape (n_points,), times the gradients of the mean slope."""
        turned = self.size * (vectors @ self.axes)
        of_mu, of_q = turned @ self.means.T, (at.points * turned) @ self.variances.T
        of_q += factors[:, None]
        along = at.slope * of_mu + at.first * of_q
        across = at.first * of_mu + at.second * of_q
        rest = turned * ((at.slope * self.masses) @ self.variances)
        return self._summed(at, along, across, rest)

    def _summed(self, at, along, across, rest=0.0):
        """Return ``sum_k W_k (along m_k + across Sigma_k u)``, and the rest, in the coordinates ``z``."""
        sums = (across * self.masses) @ self.variances
        sums *= at.points
        sums += (along * self.masses) @ self.means
        return (sums + rest) @ self.axes.T


def normal_population(design, transform, family, norm, n_samples):
    """Return the `NormalPopulation` of a design, given what `make_population` takes."""
    mean = design.mean @ transform
    covariance = transform.T @ design.covariance @ transform
    values, axes = eigh(covariance)
    values, turned = np.maximum(values, 0.0), mean @ axes
    rates, shares = _weights(values, turned**2, norm)
    shrunk = 1.0 + rates[:, None] * values
    logs = np.log(shrunk).sum(axis=1) + rates * np.sum(turned**2 / shrunk, axis=1)
    return NormalPopulation(
        family,
        n_samples,
        axes,
        shares * np.exp(-0.5 * logs),
        turned / shrunk,
        values / shrunk,
        np.diag(covariance) + mean**2,
    )


def _weights(values, squares, norm):
    """Return ``lambda`` and ``w``, by least squares over ``|z|^2``.

    Its law is taken to be a gamma law, moved to have the same first three moments.

    Parameters
    ----------
    values, squares : ndarray of shape (length,)
        Variances and squared means of coordinates.
    norm : float
        ``C``.
    """
    unit = float(np.sum(values + squares)) or 1.0
    values, squares, largest = values / unit, squares / unit, norm**2 / unit
    first = float(np.sum(values + squares))
    second = 2.0 * float(np.sum(values**2 + 2.0 * values * squares))
    third = 8.0 * float(np.sum(values**3 + 3.0 * values**2 * squares))
    at = np.full(_QUANTILES.size, first)
    if second > _LEAST_SPREAD:
        shape, scale = 4.0 * second**3 / third**2, third / (2.0 * second)
        at = np.maximum(first + scale * (gamma.ppf(_QUANTILES, shape) - shape), 0.0)
    sizes = [at.size, _ANYWHERE.size]
    roots = np.sqrt(np.repeat([1.0 / sizes[0], _LITTLE / sizes[1]], sizes))
    at = np.concatenate([at, _ANYWHERE])
    wanted = largest / np.maximum(at, largest)
    parts = np.exp(-np.outer(at, _RATES)) * roots[:, None]
    shares = lstsq(parts, wanted * roots)
    if shares[0] < 0.0:  # What weights are far from all rows.
        shares = np.append(0.0, lstsq(parts[:, 1:], wanted * roots))
    return 2.0 / unit * _RATES, shares
