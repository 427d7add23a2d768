"""The posterior of ``u`` given looks at clipped residuals of counts.

    g_k ~ N(f^c_k(u) + E x_k, B_k),      f^c_k = f_k(u_k) + (I + M) (f_k(u) - f_k(u_k))

``f_k`` is what a look sees of a population (`population`). ``I + M = H P^-1`` takes its curvature ``P`` to
that of the table, ``H``, as far as that is known (`curvature`). ``E`` is what is not known of ``H``: it is
symmetric, with entries of variances ``p_i p_j`` and ``2 p_i^2 + h_i`` in the basis of the eigenvectors of
``H``, and integrated out; ``x_k = H^-1 (f^c_k - f_k(u_k))``. ``B`` has the noise, what looks at the same
counts have in common, and what is not known of how they are dispersed. It does not depend on ``u``: where
that is hardly known, noise is most of it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...noise_aware.scales import Prior, WithPrior
from ..conditioned import conditioned, inverted
from .curvature import CountCurvature
from .population import CountPopulation

# By how much what the table's looks see may be off, relative to how it changes from the look's point.
_OF_SHAPE = 0.1


@dataclass(frozen=True)
class CountSurrogate(WithPrior):
    """The likelihood of looks, and the prior.

    Attributes
    ----------
    population : CountPopulation
    curvature : CountCurvature
    prior : Prior
    scales : ndarray of shape (n_groups,)
        Prior scales at which the mode is looked for.
    centres : ndarray of shape (n_looks, n_rows)
        Logits of the population at the looks' points.
    tables : ndarray of shape (n_looks, n_rows, n_nodes, 2)
        Of clipped means.
    origins : ndarray of shape (n_looks, length)
        ``f_k(u_k)``.
    values : ndarray of shape (n_looks, length)
        ``g``.
    blocks : ndarray of shape (length, n_looks, n_looks)
        ``B``, for each eigenvector.
    start : ndarray of shape (length,)
        Where to look for the mode.
    """

    population: CountPopulation
    curvature: CountCurvature
    prior: Prior
    scales: np.ndarray
    centres: np.ndarray
    tables: np.ndarray
    origins: np.ndarray
    values: np.ndarray
    blocks: np.ndarray
    start: np.ndarray

    @property
    def n_scaled(self):
        """How many coordinates, the first ones, prior scales multiply."""
        return self.start.size

    @cached_property
    def _turned(self):
        """What turns changes of looks, and the looks less those at their points, in the basis."""
        basis = self.curvature.basis
        return self.curvature.change.T @ basis, (self.values - self.origins) @ basis

    def likelihood(self, u):
        """Return minus the log likelihood, up to a constant, and its gradient, for (n_points, length)."""
        if not len(self.values):
            return np.zeros(len(u)), np.zeros_like(u)
        turn, target = self._turned
        curvature = self.curvature
        f, slopes = self.population.seen(u, self.centres, self.tables)
        changed = (f - self.origins) @ turn
        x = changed / curvature.values
        blocks = np.repeat(self.blocks[None], len(u), axis=0)
        own = np.arange(len(self.values))
        blocks[..., own, own] += (_OF_SHAPE * changed.transpose(0, 2, 1)) ** 2
        energy, by_r, by_blocks, by_x = conditioned(
            target - changed, blocks, x, curvature.doubt, curvature.own_doubt
        )
        by_changed = by_x / curvature.values - by_r
        by_own = np.einsum("bikk->bki", by_blocks)
        by_changed += 2.0 * _OF_SHAPE**2 * by_own * changed
        return energy, self.population.pulled(by_changed @ turn.T, slopes)

    def information(self, u):
        """Return the curvature of the potential at one point, taking variances to be fixed."""
        matrix = self.prior.precision(self.scales)
        if not len(self.values):
            return matrix
        turn, _ = self._turned
        curvature = self.curvature
        f, jacobians = self.population.jacobians(u, self.centres, self.tables)
        changed = (f - self.origins) @ turn
        x = changed / curvature.values
        v = self.blocks + curvature.doubt[:, None, None] * ((x * curvature.doubt) @ x.T)
        v = v + np.einsum("ki,li,i->ikl", x, x, curvature.own_doubt)
        own = np.arange(len(x))
        v[:, own, own] += (_OF_SHAPE * changed.T) ** 2
        inverse = inverted(v)[0]
        turned = np.einsum("kab,ai->kib", jacobians, turn)
        return matrix + np.einsum("kia,ikl,lib->ab", turned, inverse, turned, optimize=True)
