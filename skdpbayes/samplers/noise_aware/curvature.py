"""What released curvatures say beyond that of a population, and how surely.

    F = J + D + N,    D_ij ~ N(0, w_ij + k^2 J_ii J_jj / n)    a priori

``J`` is the population's. It differs from the table's as the released moments do, by variances ``w``, and as
rows differ from normal ones, by ``k``, which is estimated. ``D`` has a normal posterior, entry by entry. What
is believed of a curvature at another point starts from it: ``D`` fades with the slopes, and a new ``k``,
smaller a priori, says by how much it may have changed otherwise. ``J + D`` is made positive, and its
eigenvectors are the basis in which draws are made.
"""

from dataclasses import dataclass, replace

import numpy as np

from ...targets.linear.weighted import slope_matrix
from .design import variance_component

# ``k`` a priori, at first and from one release to the next, and of how many entries' weight that is.
_MISFIT, _CHANGE, _WORTH = 0.2, 0.1, 4.0
# Least eigenvalue, relative to the mean: there may be directions of which the records say nothing.
_LEAST_EIGENVALUE = 1e-4


@dataclass(frozen=True)
class Curvature:
    """What is believed of the curvature at a point; ``n`` stands for ``n_blocks * length``.

    Attributes
    ----------
    of_population : ndarray of shape (n, n)
        ``J``.
    slope : float
        Mean slope of the population there.
    correction : ndarray of shape (n, n)
        ``D``.
    known : ndarray of shape (n, n)
        Variances of its entries, apart from ``k``.
    misfit : float
        ``k^2`` a priori.
    basis : ndarray of shape (n, n)
        Eigenvectors, or any.
    values : ndarray of shape (n,)
        Curvatures along them.
    """

    of_population: np.ndarray
    slope: float
    correction: np.ndarray
    known: np.ndarray
    misfit: float
    basis: np.ndarray
    values: np.ndarray

    @property
    def variances(self):
        """Variances of the entries of ``D`` in the basis."""
        own = (self.basis**2).T @ (self.known + self.misfit * self._units()) @ self.basis**2
        return np.maximum(own, 1e-300)

    def _units(self):
        diagonal = np.maximum(np.diag(self.of_population), 0.0)
        return np.outer(diagonal, diagonal) / diagonal.size

    def at(self, population, point):
        """Return what is believed of the curvature at another point, before it is released there."""
        matrix, slope = _curvature_of(population, population.probabilities(point[None])[0])
        fading = slope / self.slope
        return replace(
            self,
            of_population=matrix,
            slope=slope,
            correction=fading * self.correction,
            known=fading**2 * self.known,
            misfit=_CHANGE**2,
        )

    def given(self, released, noise_scale):
        """Return what is believed of it given its release, with noise of a deviation on the diagonal."""
        noise = np.full(released.shape, noise_scale**2 / 2.0)
        np.fill_diagonal(noise, noise_scale**2)
        believed, units = self.of_population + self.correction, self._units()
        excess = released - believed
        misfit = variance_component(
            excess**2, noise + self.known, units, self.misfit, _WORTH, (0.01 * self.misfit, 4.0)
        )
        variances = self.known + misfit * units
        shares = variances / (variances + noise)
        values, basis = np.linalg.eigh(believed + excess * shares)
        least = _LEAST_EIGENVALUE * np.trace(self.of_population) / values.size
        values = np.maximum(values, least)
        return replace(
            self,
            correction=(basis * values) @ basis.T - self.of_population,
            known=noise * shares,
            misfit=0.0,
            basis=basis,
            values=values,
        )


def curvature_of(population, point, uncertainty):
    """Return the `Curvature` at a point before any is released, given variances of the rows' moments."""
    probabilities, family = population.probabilities(point[None])[0], population.family
    matrix, slope = _curvature_of(population, probabilities)
    sizes = np.empty((family.n_blocks, family.n_blocks))
    for j, unit in enumerate(np.eye(family.n_blocks)):
        slopes = family.slope_times(probabilities, unit[:, None])
        sizes[j] = slopes @ population.weights * population.size
    return Curvature(
        of_population=matrix,
        slope=slope,
        correction=np.zeros_like(matrix),
        known=np.kron(sizes**2, uncertainty),
        misfit=_MISFIT**2,
        basis=np.eye(len(matrix)),
        values=np.diag(matrix),
    )


def _curvature_of(population, probabilities):
    """Return (``J``, mean slope) for probabilities of shape (..., n_rows)."""
    matrix = slope_matrix(population.family, probabilities, population.weights, population.rows)
    return population.size * matrix, float(population.mean_variance(probabilities[None])[0])
