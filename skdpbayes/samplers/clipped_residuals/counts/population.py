"""Rows that stand for those of a table, their exposures, and what a look sees of them.

    f_k(u) = (n / M) sum_i v_i z_i e(z_i . u + o_i),        e the mean of a clipped count, see `table`
"""

from dataclasses import dataclass

import numpy as np

from .law import clipped_count, drawn
from .table import looked_up

# Counts of each row in what is simulated.
_REPEATED = 8
_SPARSE = 5


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
    largest, largest_centre : float
        Of counts, and of means that residuals are taken from.
    """

    rows: np.ndarray
    weights: np.ndarray
    offsets: np.ndarray
    size: float
    largest: float
    largest_centre: float

    def logits(self, u):
        """Return logits for points of shape (n_points, length)."""
        return u @ self.rows.T + self.offsets

    def centres(self, u):
        """Return the means that residuals at one point are taken from."""
        return np.minimum(np.exp(np.minimum(self.logits(u), 700.0)), self.largest_centre)

    def curvature(self, u, most):
        """Return the mean of ``v z z^T`` times means at a point, over ``most`` and at most 1."""
        factors = self.weights * np.minimum(1.0, self.centres(u) / most)
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
        """Return ``f_k`` at one point, and the derivatives, of shape (n_looks, length, length)."""
        f, slopes = self.seen(u[None], centres, tables)
        factors = self.size * slopes[0] * self.weights
        return f[0], np.array([(self.rows * each[:, None]).T @ self.rows for each in factors])

    def simulated(self, u, deviations, dispersion, generator):
        """Return counts, and their means, of shape (n_repeated, n_rows).

        Parameters
        ----------
        u : ndarray of shape (length,)
        deviations : ndarray of shape (n_rows,)
            Of logits, around those at ``u``.
        dispersion : float
        generator : Generator
            It need not be secret.
        """
        # Post-processing.
        normal = generator.standard_normal((_REPEATED, len(self.rows)))
        means = np.exp(np.minimum(self.logits(u) + deviations * normal, 30.0))
        return np.minimum(drawn(means, dispersion, generator), self.largest), means

    def square(self, u, centre_point, clip, dispersion):
        """Return the mean square of clipped residuals at a point if ``u`` is true."""
        means = np.exp(np.minimum(self.logits(u), 30.0))[::_SPARSE]
        centres = self.centres(centre_point)[::_SPARSE]
        return clipped_count(means, centres, clip, dispersion, self.largest)[1].mean()
