"""Rows that stand for those of a table, their exposures, and what a look sees of them.

f_k(u) = (n / M) sum_i v_i z_i e_k(z_i . u + o_i),        e_k the mean of a clipped count, see `table`
"""

from dataclasses import dataclass

import numpy as np

from ....targets.linear.families.dispersed import drawn
from ...noise_aware.population import rows_like
from .table import looked_up

# Logits are cut here: means are large enough to be clipped.
_TOP = 30.0
# Counts for each row, where counts are simulated.
_REPEATED = 8


@dataclass(frozen=True)
class CountPopulation:
    """Rows that stand for those of a table.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, length)
        In whitened coordinates.
    weights : ndarray of shape (n_rows,)
        ``v``.
    offsets : ndarray of shape (n_rows,)
        ``o``, logarithms of exposures.
    size : float
        ``n / M``, how many records a row stands for.
    largest, largest_mean : float
        Of counts, and of means where these are factors.
    """

    rows: np.ndarray
    weights: np.ndarray
    offsets: np.ndarray
    size: float
    largest: float
    largest_mean: float

    def logits(self, u):
        """Return logits for points of shape (n_points, length), or for one."""
        return u @ self.rows.T + self.offsets

    def means(self, u):
        """Return means at a point."""
        return np.minimum(np.exp(np.minimum(self.logits(u), 700.0)), self.largest_mean)

    def curvature(self, u, most):
        """Return the mean of ``v min(1, m / most) z z^T``, ``m`` being means at a point; 0 is no factor."""
        factors = self.weights * (np.minimum(1.0, self.means(u) / most) if most else 1.0)
        return (self.rows * factors[:, None]).T @ self.rows / len(self.rows)

    def seen(self, u, centres, tables):
        """Return ``f_k`` for points, of shape (n_points, n_looks, length), and slopes by logits."""
        means, slopes = looked_up(self.logits(u), centres, tables)
        return self.size * (means * self.weights) @ self.rows, slopes

    def pulled(self, by_f, slopes):
        """Return gradients by points of what has the gradients ``by_f`` by ``f_k``."""
        factors = np.sum((by_f @ self.rows.T) * slopes, axis=1) * self.weights
        return self.size * factors @ self.rows

    def jacobians(self, u, centres, tables):
        """Return ``f_k`` at one point, and its derivatives, of shape (n_looks, length, length)."""
        f, slopes = self.seen(u[None], centres, tables)
        factors = self.size * slopes[0] * self.weights
        return f[0], np.array([(self.rows * each[:, None]).T @ self.rows for each in factors])

    def simulated(self, u, deviations, dispersion, generator):
        """Return counts, and their means, of shape (n_repeated, n_rows).

        Parameters
        ----------
        u : ndarray of shape (length,)
        deviations : ndarray of shape (n_rows,) or float
            Of logits around those at ``u``.
        dispersion : float
        generator : Generator
            It need not be secret.
        """
        # Post-processing.
        normal = generator.standard_normal((_REPEATED, len(self.rows)))
        means = np.exp(np.minimum(self.logits(u) + deviations * normal, _TOP))
        # Post-processing.
        return np.minimum(drawn(means, dispersion, generator), self.largest), means


def count_population(design, coordinates, offsets, n_records, family, generator):
    """Return rows with exactly the moments of a `Design`, and offsets that do not depend on them.

    Parameters
    ----------
    design : Design
    coordinates : Coordinates
    offsets : ndarray of shape (n_rows,)
        Of an even number of rows, at least twice as many as there are columns.
    n_records : float
    family : Poisson
    generator : Generator
        It need not be secret.
    """
    transform, norm, n_rows = coordinates.transform, coordinates.norm, len(offsets)
    rows, weights = rows_like(design, transform, norm, n_rows, generator)
    return CountPopulation(
        rows=rows,
        weights=weights,
        offsets=offsets,
        size=n_records / n_rows,
        largest=family.max_count,
        largest_mean=family.slope_bound,
    )
