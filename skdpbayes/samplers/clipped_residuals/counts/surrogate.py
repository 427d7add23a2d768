"""The posterior of ``u`` given looks at clipped residuals of counts.

    g_k ~ N(f_k(u) + E x_k, B_k),      x_k = H^-1 (f_k(u) - f_k(u_k))

``f_k`` is what a look sees of a population (`population`), whose curvature is ``H``. ``E`` is what is not
known of the table's (`curvature`): it is symmetric, with entries of variances ``p_i p_j`` and ``2 p_i^2 +
h_i`` in the basis of the eigenvectors of ``H``, and integrated out. ``B`` has the noise, what looks at the
same counts have in common, and what is not known of how they are dispersed. It does not depend on ``u``:
where that is hardly known, noise is most of it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...noise_aware.scales import Prior, WithPrior
from ..conditioned import conditioned, inverted
from .curvature import CountCurvature
from .population import CountPopulation


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
        """The looks less those at their points, in the basis."""
        return (self.values - self.origins) @ self.curvature.basis

    def likelihood(self, u):
        """Return minus the log likelihood, up to a constant, and its gradient, for (n_points, length)."""
        curvature, turn = self.curvature, self.curvature.basis
        f, slopes = self.population.seen(u, self.centres, self.tables)
        changed = (f - self.origins) @ turn
        x = changed / curvature.values
        energy, by_r, _, by_x = conditioned(
            self._turned - changed, self.blocks[None], x, curvature.doubt, curvature.own_doubt
        )
        by_changed = by_x / curvature.values - by_r
        return energy, self.population.pulled(by_changed @ turn.T, slopes)

    def information(self, u):
        """Return the curvature of the potential at one point, taking variances to be fixed."""
        matrix = self.prior.precision(self.scales)
        curvature, turn = self.curvature, self.curvature.basis
        f, jacobians = self.population.jacobians(u, self.centres, self.tables)
        changed = (f - self.origins) @ turn
        x = changed / curvature.values
        v = self.blocks + curvature.doubt[:, None, None] * ((x * curvature.doubt) @ x.T)
        v = v + np.einsum("ki,li,i->ikl", x, x, curvature.own_doubt)
        inverse = inverted(v)[0]
        turned = np.einsum("kab,ai->kib", jacobians, turn)
        return matrix + np.einsum("kia,ikl,lib->ab", turned, inverse, turned, optimize=True)
