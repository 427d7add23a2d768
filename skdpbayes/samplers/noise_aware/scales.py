"""Prior scales of groups of coefficients, known or learnt.

    u | tau ~ N(0, (sum_g P_g / tau_g^2)^-1),        log tau_g ~ N(m_g, 1) on a grid

Scales are integrated out: the prior of ``u`` is a product over groups of

    h(q) = sum_tau w(tau) tau^-k exp(-q / (2 tau^2)),        q = u^T P_g u,    k the rank of P_g
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

# Logarithms of scales, relative to the default, and their deviation a priori.
_GRID = np.linspace(np.log(1 / 16), np.log(32), 57)
_DOUBT = 1.0


@dataclass(frozen=True)
class Group:
    """Coordinates with one scale.

    Attributes
    ----------
    precision : ndarray of shape (n, n)
        ``P_g``, at the scale 1.
    rank : int
        ``k``.
    logs : ndarray of shape (n_scales,)
        Logarithms of the scales that are possible.
    weights : ndarray of shape (n_scales,)
        Logarithms of ``w tau^-k``.
    """

    precision: np.ndarray
    rank: int
    logs: np.ndarray
    weights: np.ndarray

    def energy(self, squares):
        """Return ``-log h`` and its derivative by ``q``, for ``q`` of shape (n_points,)."""
        terms = self.weights - 0.5 * squares[:, None] * np.exp(-2.0 * self.logs)
        total = logsumexp(terms, axis=1)
        return -total, 0.5 * np.exp(terms - total[:, None]) @ np.exp(-2.0 * self.logs)

    def likeliest(self, square):
        """Return the scale that is likeliest, given what ``q`` is expected to be."""
        return np.exp(self.logs[np.argmax(self.weights - 0.5 * square * np.exp(-2.0 * self.logs))])


def known(precision, rank):
    """Return a group whose scale is 1."""
    return Group(precision, rank, np.zeros(1), np.zeros(1))


def learnt(precision, rank, centre=0.0):
    """Return a group whose scale is learnt."""
    weights = -rank * _GRID - 0.5 * ((_GRID - centre) / _DOUBT) ** 2
    return Group(precision, rank, _GRID, weights)


@dataclass(frozen=True)
class Prior:
    """The prior of ``u``."""

    groups: tuple

    def energy(self, u):
        """Return minus the log density and its gradient, for ``u`` of shape (n_points, n)."""
        energy, gradient = 0.0, 0.0
        for group in self.groups:
            pulled = u @ group.precision
            own, slope = group.energy(np.sum(u * pulled, axis=1))
            energy, gradient = energy + own, gradient + 2.0 * slope[:, None] * pulled
        return energy, gradient

    def at(self, scales):
        """Return the prior precision at given scales."""
        return sum(g.precision / t**2 for g, t in zip(self.groups, scales, strict=True))

    @property
    def usual(self):
        """The likeliest scales a priori."""
        return np.array([np.exp(g.logs[np.argmax(g.weights + g.rank * g.logs)]) for g in self.groups])

    def likeliest(self, u, covariance):
        """Return the likeliest scales, ``u`` being known up to a covariance."""
        squares = [u @ g.precision @ u + np.sum(covariance * g.precision) for g in self.groups]
        return np.array([g.likeliest(s) for g, s in zip(self.groups, squares, strict=True)])
