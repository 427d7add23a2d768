"""Expected sufficient statistics of Gaussian mixtures: all that a sum over records has to know.

    r_k(x) = pi_k N(x; m_k, Lambda_k^-1) / sum_j pi_j N(x; m_j, Lambda_j^-1)
    S_k    = sum_i r_k(x_i) (1, x_i, x_i^2),      x_i x_i^T in the place of x_i^2 where factors are matrices

Rows are in the unit ball. A precision is given by a factor ``F`` with ``Lambda = F F^T``: a vector of square
roots, or a lower triangular matrix. Statistics are kept in one vector, ``[counts (K) | sums (K d) | second
moments (K d)]``, or with the lower triangles, row by row, at the end (``K d (d + 1) / 2``). So is the
mixture: ``[K | 1 for matrices, else 0 | log pi_k + log |F_k| (K) | means (K d) | factors]``.
"""

import math
from typing import NamedTuple

import numpy as np

from ..._compiled import compilable
from .._interface import add_gradient, implements, n_examples, record

# Where the offsets begin.
HEADER = 2


class Components(NamedTuple):
    """A mixture with unit-ball coordinates.

    Attributes
    ----------
    log_weights : ndarray of shape (n_components,)
    means : ndarray of shape (n_components, n_features)
    factors : ndarray of shape (n_components, n_features) or (n_components, n_features, n_features)
        Square roots of precisions, or lower triangular factors of precision matrices.
    """

    log_weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray

    def as_vector(self) -> np.ndarray:
        """Return the mixture as statistics need it."""
        diagonals = self.factors
        if self.factors.ndim == 3:
            diagonals = np.diagonal(self.factors, axis1=1, axis2=2)
        offsets = self.log_weights + np.log(diagonals).sum(axis=1)
        header = [float(len(self.means)), float(self.factors.ndim == 3)]
        return np.concatenate([header, offsets, self.means.ravel(), self.factors.ravel()])


class MixtureTable(NamedTuple):
    """Rows in the unit ball, of which statistics are released; ``scale_i values_i`` is a row."""

    values: np.ndarray
    scale: np.ndarray
    gradient_bound: float
    data_norm: float

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.values.shape[1]


@compilable
def statistics_size(n_components: int, n_features: int, triangular: bool) -> int:
    """Return the length of a vector of statistics."""
    second = n_features * (n_features + 1) // 2 if triangular else n_features
    return n_components * (1 + n_features + second)


@compilable
def exponents(mixture, row, centred, out):
    """Write ``log pi_k N(x; m_k, Lambda_k^-1)``, up to a constant, and return the largest."""
    d, largest = row.size, -np.inf
    first_mean = HEADER + out.size
    first_factor = first_mean + out.size * d
    for k in range(out.size):
        for j in range(d):
            centred[j] = row[j] - mixture[first_mean + k * d + j]
        square = 0.0
        for j in range(d):
            if mixture[1] == 0.0:
                product = mixture[first_factor + k * d + j] * centred[j]
            else:
                product = 0.0
                for i in range(j, d):
                    product += mixture[first_factor + (k * d + i) * d + j] * centred[i]
            square += product**2
        out[k] = mixture[HEADER + k] - 0.5 * square
        largest = max(largest, out[k])
    return largest


@compilable
def _responsibilities(mixture, row, centred, out):
    """Write ``r_k(x)``; they sum to one whatever the row."""
    largest = exponents(mixture, row, centred, out)
    total = 0.0
    for k in range(out.size):
        out[k] = math.exp(out[k] - largest)
        total += out[k]
    # The largest counts 1, so that a smaller total is no number. A record weighs 1 in all, even then.
    valid = total >= 1.0
    for k in range(out.size):
        out[k] = out[k] / total if valid else 1.0 / out.size


@compilable
def read_row(table, number, out):
    """Write a row to ``out``."""
    for j in range(out.size):
        out[j] = table.scale[number] * table.values[number, j]


@compilable
def add_row(triangular, row, k, share, n_components, out):
    """Add a share of a row's statistics to those of component ``k``."""
    d = row.size
    out[k] += share
    for j in range(d):
        out[n_components + k * d + j] += share * row[j]
    place = n_components * (1 + d) + k * (d * (d + 1) // 2 if triangular else d)
    for i in range(d):
        weighted = share * row[i]
        for j in range(0 if triangular else i, i + 1):
            out[place] += weighted * row[j]
            place += 1


@implements(n_examples, MixtureTable)
def _count(target):
    return target.values.shape[0]


@implements(add_gradient, MixtureTable)
def _add_statistics(target, theta, selection, count, out):
    d = target.values.shape[1]
    row, centred = np.empty(d), np.empty(d)
    shares = np.empty(int(theta[0]))
    for i in range(count):
        read_row(target, record(selection, i), row)
        _responsibilities(theta, row, centred, shares)
        for k in range(shares.size):
            add_row(theta[1] != 0.0, row, k, shares[k], shares.size, out)
