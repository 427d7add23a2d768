"""Draws of parameters: those of a surrogate, in the user's coordinates.

    theta_k = sum_j H_kj W u_j + s / sqrt(K),      s ~ N(0, P^-1)

With more than two classes labels tell contrasts of coefficients only; what is added to all classes alike
follows the prior.
"""

from dataclasses import dataclass

import numpy as np

from ..._linalg import inv
from .draws import Settled, draw, seed_of
from .predictive import surprises
from .surrogate import Surrogate


@dataclass(frozen=True)
class Posterior(Settled):
    """A posterior given what was released.

    Attributes
    ----------
    surrogate : Surrogate
    transform : ndarray of shape (length, length)
        ``W``.
    norm : float
        ``C``, beyond which records count less.
    shift : ndarray of shape (length,)
        Prior deviation of what classes have in common; empty for two.
    """

    surrogate: Surrogate
    transform: np.ndarray
    norm: float
    shift: np.ndarray

    def draw(self, n_draws, random):
        """Return draws of shape (n_draws, n_parameters).

        Parameters
        ----------
        n_draws : int
        random : Generator or RandomState
            It need not be secret.
        """
        seed = seed_of(random)
        u = draw(self.surrogate, n_draws, seed, self._chains)
        blocks = u.reshape(n_draws, -1, len(self.transform)) @ self.transform.T
        if not self.shift.size:
            return blocks.reshape(n_draws, -1)
        contrasts = self.surrogate.population.family.contrasts
        generator = np.random.default_rng([seed, 1])
        # Post-processing.
        common = self.shift * generator.standard_normal((n_draws, 1, self.shift.size))
        blocks = contrasts @ blocks + common / np.sqrt(len(contrasts))
        return blocks.reshape(n_draws, -1)

    def weigh(self, draws):
        """Return how much draws count in predictions: an array of shape (n_draws,) that adds up to one.

        Parameters
        ----------
        draws : ndarray of shape (n_draws, n_parameters)
        """
        return self.surrogate.prior.weigh(self.surrogate_points(draws))

    def surrogate_points(self, draws):
        """Return ``u`` of draws, of shape (n_draws, n_blocks * length): what `draw` made them from."""
        blocks = draws.reshape(len(draws), -1, len(self.transform))
        if self.shift.size:
            # Contrasts are orthonormal, and leave out what classes have in common.
            blocks = self.surrogate.population.family.contrasts.T @ blocks
        return (blocks @ inv(self.transform).T).reshape(len(draws), -1)

    def surprises(self):
        """Return the probability of labels that say at least as much against a narrow prior.

        Of coefficients and, if there is one, of the intercept: an array of shape (1 or 2,).
        """
        return surprises(self.surrogate, self.transform)

    def deviations_without_privacy(self):
        """Return the deviations that parameters would have without noise, as far as that is known."""
        given = self.surrogate
        # Without privacy all records count fully.
        weight = max(given.population.mean_weight, 1e-300)
        curvature = (given.basis * (given.sampling / weight)) @ given.basis.T
        n_blocks = given.population.family.n_blocks
        blocks = np.kron(np.eye(n_blocks), self.transform)
        covariance = inv(curvature + given.prior.precision(given.scales))
        covariance = blocks @ covariance @ blocks.T
        if not self.shift.size:
            return np.sqrt(np.diag(covariance))
        contrasts = np.kron(given.population.family.contrasts, np.eye(len(self.transform)))
        variances = np.einsum("ij,jk,ik->i", contrasts, covariance, contrasts)
        n_classes = n_blocks + 1
        return np.sqrt(variances + np.tile(self.shift**2, n_classes) / n_classes)


def deviations_in_common(target, family, scales):
    """Return prior deviations of what classes have in common, none for two.

    Parameters
    ----------
    target : NamedTuple
    family : ClassFamily
    scales : ndarray of shape (n_groups,)
        Of all coefficients or, if there is an intercept, of the others and of it.
    """
    if family.n_blocks == 1:
        return np.empty(0)
    length = target.prior_precision.size // len(family.contrasts)
    deviations = target.prior_precision[:length] ** -0.5 * scales[0]
    if len(scales) > 1:
        deviations[-1] *= scales[1] / scales[0]
    return deviations
