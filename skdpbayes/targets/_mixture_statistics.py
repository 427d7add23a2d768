"""Expected sufficient statistics of Gaussian mixtures: all that a sum over records has to know.

    r_k(x) = pi_k N(x; m_k, Lambda_k^-1) / sum_j pi_j N(x; m_j, Lambda_j^-1)
    S_k    = sum_i r_k(x_i) (1, x_i, x_i^2),      x_i x_i^T in the place of x_i^2 where factors are matrices

Rows are in the unit ball. A precision is given by a factor ``F`` with ``Lambda = F F^T``: a vector of square
roots, or a lower triangular matrix. Statistics are kept in one vector, ``[counts (K) | sums (K d) | second
moments (K d)]``, or with the lower triangles, row by row, at the end (``K d (d + 1) / 2``).
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

from ._interface import record


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


@njit(error_model="numpy")
def statistics_size(n_components, n_features, triangular):
    """Return the length of a vector of statistics."""
    second = n_features * (n_features + 1) // 2 if triangular else n_features
    return n_components * (1 + n_features + second)


def whitened_square(factors, k, centred):
    """Return ``|F_k^T (x - m_k)|^2`` (generic, compiled)."""
    raise NotImplementedError("whitened_square is a generic of compiled code.")


def add_second(factors, weight, row, out, first):
    """Add ``weight`` times a row's second moments to ``out`` from ``first`` on (generic, compiled)."""
    raise NotImplementedError("add_second is a generic of compiled code.")


def log_determinant(factors, k):
    """Return ``log |F_k|`` (generic, compiled)."""
    raise NotImplementedError("log_determinant is a generic of compiled code.")


def is_triangular(factors):
    """Tell whether factors are matrices, by their type in compiled code."""
    return isinstance(factors, types.Array) and factors.ndim == 3


@overload(whitened_square, jit_options={"error_model": "numpy"})
def _whitened_square(factors, k, centred):
    def diagonal(factors, k, centred):
        total = 0.0
        for j in range(centred.size):
            total += (factors[k, j] * centred[j]) ** 2
        return total

    def triangular(factors, k, centred):
        total = 0.0
        for j in range(centred.size):
            product = 0.0
            for i in range(j, centred.size):
                product += factors[k, i, j] * centred[i]
            total += product**2
        return total

    return triangular if is_triangular(factors) else diagonal


@overload(add_second, jit_options={"error_model": "numpy"})
def _add_second(factors, weight, row, out, first):
    def diagonal(factors, weight, row, out, first):
        for j in range(row.size):
            out[first + j] += weight * row[j] * row[j]

    def triangular(factors, weight, row, out, first):
        place = first
        for i in range(row.size):
            weighted = weight * row[i]
            for j in range(i + 1):
                out[place] += weighted * row[j]
                place += 1

    return triangular if is_triangular(factors) else diagonal


@overload(log_determinant, jit_options={"error_model": "numpy"})
def _log_determinant(factors, k):
    def diagonal(factors, k):
        total = 0.0
        for j in range(factors.shape[1]):
            total += math.log(factors[k, j])
        return total

    def triangular(factors, k):
        total = 0.0
        for j in range(factors.shape[1]):
            total += math.log(factors[k, j, j])
        return total

    return triangular if is_triangular(factors) else diagonal


@njit(error_model="numpy")
def log_offsets(components):
    """Return ``log pi_k + log |F_k|``, what the exponents of a mixture's density add."""
    offsets = np.empty(components.log_weights.size)
    for k in range(offsets.size):
        offsets[k] = components.log_weights[k] + log_determinant(components.factors, k)
    return offsets


@njit(error_model="numpy")
def exponents(components, offsets, row, centred, out):
    """Write ``log pi_k N(x; m_k, Lambda_k^-1)``, up to a constant, and return the largest."""
    largest = -np.inf
    for k in range(out.size):
        for j in range(row.size):
            centred[j] = row[j] - components.means[k, j]
        out[k] = offsets[k] - 0.5 * whitened_square(components.factors, k, centred)
        largest = max(largest, out[k])
    return largest


@njit(error_model="numpy")
def responsibilities(components, offsets, row, centred, out):
    """Write ``r_k(x)``; they sum to one whatever the row."""
    largest = exponents(components, offsets, row, centred, out)
    total = 0.0
    for k in range(out.size):
        out[k] = math.exp(out[k] - largest)
        total += out[k]
    # The largest counts 1. Anything else is no number: a record must weigh 1 in all whatever happens.
    valid = total >= 1.0
    for k in range(out.size):
        out[k] = out[k] / total if valid else 1.0 / out.size


@njit(error_model="numpy")
def add_statistics(values, scale, selection, count, components, out):
    """Add the statistics of ``count`` records to ``out``; rows are ``scale_i values_i``."""
    n_components, n_features = components.means.shape
    second = (out.size - n_components * (1 + n_features)) // n_components
    row, centred = np.empty(n_features), np.empty(n_features)
    shares = np.empty(n_components)
    offsets = log_offsets(components)
    first_second = n_components * (1 + n_features)
    for i in range(count):
        number = record(selection, i)
        for j in range(n_features):
            row[j] = scale[number] * values[number, j]
        responsibilities(components, offsets, row, centred, shares)
        for k in range(n_components):
            share = shares[k]
            if share == 0.0:
                continue
            out[k] += share
            place = n_components + k * n_features
            for j in range(n_features):
                out[place + j] += share * row[j]
            add_second(components.factors, share, row, out, first_second + k * second)
