"""Rows that stand for those of a table, their exposures, and what a look sees of them.

f_k(u) = (n a / M) sum_i v_i z_i e_k(z_i . u + o_i),        e_k the mean of a clipped count, see `table`
"""

from dataclasses import dataclass, replace

import numpy as np

from ...._linalg import eigh
from ....targets.linear.families.dispersed import drawn
from ...noise_aware.population import rows_like
from .table import looked_up

# Logits are cut here: means are large enough to be clipped.
_TOP = 30.0
# Counts for each row, where counts are simulated.
_REPEATED = 8
# The largest mean that counts fully for a curvature, relative to the average mean: others are clipped.
_MOST = 2.0
# Rounds in which rows are moved until they have another moment; least variance that is moved, relative to the
# largest.
_ROUNDS, _LEAST = 4, 1e-9


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
    share : float, default=1
        ``a``: what records count, relative to rows that are normal.
    """

    rows: np.ndarray
    weights: np.ndarray
    offsets: np.ndarray
    size: float
    largest: float
    largest_mean: float
    share: float = 1.0

    def logits(self, u):
        """Return logits for points of shape (n_points, length), or for one."""
        return u @ self.rows.T + self.offsets

    def means(self, u):
        """Return means at a point."""
        return np.minimum(np.exp(np.minimum(self.logits(u), 700.0)), self.largest_mean)

    @property
    def moment(self):
        """Mean of ``a v z z^T``."""
        return self._mean_product(self.weights)

    def curvature(self, u):
        """Return the mean of ``a v min(m, 2 m') z z^T``, ``m`` being means at a point, ``m'`` their mean."""
        means = self.means(u)
        factors = self.weights * np.minimum(means, _MOST * np.mean(self.weights * means))
        return self._mean_product(factors)

    def _mean_product(self, factors):
        return self.share * (self.rows * factors[:, None]).T @ self.rows / len(self.rows)

    def reshaped(self, moment, share, along, constant, norm):
        """Return a population whose mean of ``v z z^T`` is another, but for how much a constant counts.

        Parameters
        ----------
        moment : ndarray of shape (length, length)
            Positive.
        share : float
            Of the new population.
        along : ndarray of shape (length,)
            ``z . along`` is the constant.
        constant : float
            Of the intercept's column; 0 without one.
        norm : float
            ``C``.
        """
        mean, root = _mean_and_root(moment / share, along, constant)
        found = replace(self, share=1.0)
        for _ in range(_ROUNDS):  # Rows that are moved count as much as they are long then.
            found = replace(found, weights=counted(found.rows, norm))
            of_own, inverse = _mean_and_root(found.moment, along, constant, power=-0.5)
            found = replace(found, rows=mean + (found.rows - of_own) @ inverse @ root)
        return replace(found, share=share)

    def seen(self, u, centres, tables):
        """Return ``f_k`` for points, of shape (n_points, n_looks, length), and slopes by logits."""
        means, slopes = looked_up(self.logits(u), centres, tables)
        return self.size * self.share * (means * self.weights) @ self.rows, slopes

    def pulled(self, by_f, slopes):
        """Return gradients by points of what has the gradients ``by_f`` by ``f_k``."""
        factors = np.sum((by_f @ self.rows.T) * slopes, axis=1) * self.weights
        return self.size * self.share * factors @ self.rows

    def jacobians(self, u, centres, tables):
        """Return ``f_k`` at one point, and its derivatives, of shape (n_looks, length, length)."""
        f, slopes = self.seen(u[None], centres, tables)
        factors = self.size * self.share * slopes[0] * self.weights
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


def counted(rows, norm):
    """Return ``v``, what rows count."""
    return np.minimum(1.0, norm**2 / np.maximum(np.sum(rows**2, axis=1), 1e-300))


def split(moment, along, constant):
    """Return what a second moment would be if rows did not differ, 0 without a constant, and the rest."""
    if not constant:
        return np.zeros_like(moment), moment
    of_constant = moment @ along
    flat = np.outer(of_constant, of_constant) / (along @ of_constant)
    return flat, moment - flat


def _mean_and_root(moment, along, constant, power=0.5):
    """Return the mean that a second moment tells, 0 without a constant, and a power of the covariance."""
    mean, covariance = np.zeros(len(moment)), moment
    if constant:
        of_constant = moment @ along
        whole = float(along @ of_constant)
        mean = constant * of_constant / whole
        covariance = moment * constant**2 / whole - np.outer(mean, mean)
    values, vectors = eigh(covariance)
    used = values > _LEAST * values[-1]
    return mean, (vectors[:, used] * values[used] ** power) @ vectors[:, used].T


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
