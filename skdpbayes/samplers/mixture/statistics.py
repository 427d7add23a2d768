"""Releases of a mixture's expected sufficient statistics: one pass over the table each.

    S + N(0, sigma^2 I),   S_k = sum_i r_k(x_i) (1, x_i, x_i^2)

with half the variance off the diagonal of second moments, where entries count twice. Statistics and noise are
rounded to one lattice, on which their sum is exact (`skdpbayes.privacy.floating_point`).
"""

from typing import NamedTuple, Self

import numpy as np

from ...targets.mixture.target import Components, statistics_size
from .._machinery.compiled_entries import several_cores
from .._machinery.execution import cores
from .._machinery.gradients import gradient_oracle, sums_at
from .._machinery.lattice import release_vector


class Statistics(NamedTuple):
    """Statistics, or running means of them, with the deviation of the noise in their entries.

    Attributes
    ----------
    counts : ndarray of shape (n_components,)
    sums : ndarray of shape (n_components, n_features)
    seconds : ndarray of shape (n_components, n_features) or (n_components, n_features, n_features)
    """

    counts: np.ndarray
    sums: np.ndarray
    seconds: np.ndarray

    @classmethod
    def of_vector(cls, total: np.ndarray, components: Components) -> Self:
        """Return what one vector says of components: with squares, or lower triangles of second moments."""
        k, d = components.means.shape
        counts, sums, seconds = np.split(total, [k, k * (1 + d)])
        if components.factors.ndim == 2:
            return cls(counts, sums.reshape(k, d), seconds.reshape(k, d))
        rows, columns = np.tril_indices(d)
        matrices = np.zeros((k, d, d))
        matrices[:, rows, columns] = matrices[:, columns, rows] = seconds.reshape(k, -1)
        return cls(counts, sums.reshape(k, d), matrices)

    def towards(self, other, share):
        """Return this plus a share of the way to another."""
        pairs = zip(self, other, strict=True)
        return Statistics(*((1.0 - share) * mine + share * theirs for mine, theirs in pairs))


class StatisticsReleases:
    """Releases statistics of a table, again and again.

    Parameters
    ----------
    table : MixtureTable
        Rows in the unit ball.
    public_size : int
        By which sums are cut into chunks.
    generator : numpy.random.Generator
        Of the noise.
    """

    def __init__(self, table, public_size, generator):
        self.table, self.public_size, self.generator = table, public_size, generator

    def release(self, components, noise_scale, mu=None):
        """Return noisy `Statistics` of the responsibilities of some components, which cost ``mu``."""
        k, d = components.means.shape
        triangular = components.factors.ndim == 3
        size = statistics_size(k, d, triangular)
        oracle, _ = gradient_oracle(self.table, size, self.public_size, sums_only=True)
        with cores(oracle.n_examples * size) as parallel:
            total = sums_at(oracle, components.as_vector(), several_cores() if parallel else 0)
        scales = np.full(size, noise_scale)
        rows, columns = np.tril_indices(d)
        if triangular:
            seconds = scales[k * (1 + d) :].reshape(k, -1)
            seconds[:, rows != columns] /= np.sqrt(2.0)
        if noise_scale > 0:
            total = release_vector(total, scales, self.generator, mu=mu)  # Proposition 27.
        return Statistics.of_vector(total, components)
