"""From coordinates around a reference to a mixture, and gradients back by the chain rule.

With ``N_k, M_k, Q_k`` the statistics, ``C_k = Q_k - M_k m_k^T - m_k M_k^T + N_k m_k m_k^T`` and ``n``
records,

    d/db   = B^T (n pi - N)
    d/da_k = -F0_k^-1 F_k F_k^T (M_k - N_k m_k) / sqrt(pi0_k)
    d/dT_k = tril(F0_k^T C_k F_k) - diag(N_k / (T_k)_jj),    d/dt by the scales of `MixtureTarget`

are the derivatives of ``sum_i ell_i``. For diagonal factors ``T_k`` is a vector, and so is all else.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ..._compiled import by_dimension, compilable
from .model import SPHERICAL, TIED
from .statistics import HEADER

# Deviations from the reference are cut here: logarithms of ratios, and all others. Nothing overflows then.
_LARGEST_LOG, _LARGEST = 30.0, 1e6


class Place(NamedTuple):
    """A mixture near a reference: parts of one vector, which begins as that of `Components` does.

    Attributes
    ----------
    offsets : ndarray of shape (n_components,)
        ``log pi_k + log |F_k|``.
    means, factors : ndarray
        As those of `Components`.
    local : ndarray
        ``T`` of every component, of the factors' shape.
    log_weights : ndarray of shape (n_components,)
    scaling : ndarray of shape (2,)
        A bound on a record's gradient, and what gradients are multiplied by for it.
    """

    offsets: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    local: np.ndarray
    log_weights: np.ndarray
    scaling: np.ndarray


@compilable
def place_size(target):
    """Return the length of the vector of a `Place`."""
    return HEADER + 2 * target.log_weights.size + target.means.size + 2 * target.factors.size + 2


@compilable
def place_in(target: Any, vector: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the parts of the vector of a `Place`."""
    means = HEADER + target.log_weights.size
    factors = means + target.means.size
    local = factors + target.factors.size
    log_weights = local + target.factors.size
    scaling = log_weights + target.log_weights.size
    return Place(
        vector[HEADER:means],
        vector[means:factors].reshape(target.means.shape),
        vector[factors:local].reshape(target.factors.shape),
        vector[local:log_weights].reshape(target.factors.shape),
        vector[log_weights:scaling],
        vector[scaling:],
    )


@compilable
def _cut(value, bound):
    return min(max(value, -bound), bound)


@compilable
def go_to(target, theta, vector):
    """Write the mixture at ``theta`` to the vector of a `Place`, and return its parts."""
    place = place_in(target, vector)
    vector[0] = target.log_weights.size
    vector[1] = 0.0 if target.kind < TIED else 1.0
    _weights(target, theta, place.log_weights)
    _place_factors(target, target.factors, theta, place)
    return place


@compilable
def _weights(target, theta, log_weights):
    largest = -np.inf
    for k in range(log_weights.size):
        total = target.log_weights[k]
        for j in range(log_weights.size - 1):
            total += target.basis[k, j] * theta[j]
        log_weights[k] = _cut(total, _LARGEST)
        largest = max(largest, log_weights[k])
    total = 0.0
    for k in range(log_weights.size):
        log_weights[k] = max(log_weights[k] - largest, -_LARGEST_LOG * 10)
        total += math.exp(log_weights[k])
    for k in range(log_weights.size):
        log_weights[k] -= math.log(total)


# Those of places write means, factors, ``T`` and offsets; ``reference`` are the target's factors.


def _place_vectors(target, reference, theta, place):
    n_components, d = target.means.shape
    first, last = n_components - 1, n_components - 1 + target.means.size
    for k in range(n_components):
        place.offsets[k] = place.log_weights[k]
        for j in range(d):
            moved = target.mean_maps[k, j] * theta[first + k * d + j]
            place.means[k, j] = target.means[k, j] + _cut(moved, _LARGEST)
            of_factor = last + (k if target.kind == SPHERICAL else k * d + j)
            log_local = _cut(target.factor_scales[k, 0] * theta[of_factor], _LARGEST_LOG)
            place.local[k, j] = math.exp(log_local)
            place.factors[k, j] = reference[k, j] * place.local[k, j]
            place.offsets[k] += math.log(place.factors[k, j])


def _place_matrices(target, reference, theta, place):
    n_components, d = target.means.shape
    first, last = n_components - 1, n_components - 1 + target.means.size
    local = place.local
    for k in range(n_components):
        of_factor = last + (0 if target.kind == TIED else k * (d * (d + 1) // 2))
        for i in range(d):
            moved = 0.0
            for j in range(i, d):
                moved += target.mean_maps[k, j, i] * theta[first + k * d + j]
            place.means[k, i] = target.means[k, i] + _cut(moved, _LARGEST)
            for j in range(d):
                local[k, i, j] = 0.0
            for j in range(i):
                local[k, i, j] = _cut(target.factor_scales[k, 1] * theta[of_factor], _LARGEST)
                of_factor += 1
            log_local = _cut(target.factor_scales[k, 0] * theta[of_factor], _LARGEST_LOG)
            local[k, i, i] = math.exp(log_local)
            of_factor += 1
        place.offsets[k] = place.log_weights[k]
        for i in range(d):
            for j in range(d):
                total = 0.0
                for h in range(j, i + 1):
                    total += reference[k, i, h] * local[k, h, j]
                place.factors[k, i, j] = total
            place.offsets[k] += math.log(place.factors[k, i, i])


_place_factors = by_dimension(_place_vectors, _place_matrices)


# Back


@compilable
def chain_rule(target, place, statistics, count, gradient):
    """Write the gradient of ``count`` records, scaled, given their statistics."""
    n_components = target.log_weights.size
    factor = place.scaling[1]
    for j in range(gradient.size):
        gradient[j] = 0.0
    for k in range(n_components):
        pull = factor * (count * math.exp(place.log_weights[k]) - statistics[k])
        for j in range(n_components - 1):
            gradient[j] += target.basis[k, j] * pull
    _chain_factors(target, place.factors, place, statistics, gradient)


def _chain_vectors(target, factors, place, statistics, gradient):
    n_components, d = target.means.shape
    first, last = n_components - 1, n_components - 1 + target.means.size
    factor, sums = place.scaling[1], n_components
    squares = n_components + target.means.size
    for k in range(n_components):
        number = statistics[k]
        for j in range(d):
            entry = k * d + j
            mean, precision = place.means[k, j], factors[k, j] ** 2
            total = statistics[sums + entry]
            centred = statistics[squares + entry] - mean * (2.0 * total - number * mean)
            slope = -target.mean_maps[k, j] * precision * (total - number * mean)
            gradient[first + entry] += factor * slope
            scale = factor * target.factor_scales[k, 0]
            of_factor = last + (k if target.kind == SPHERICAL else entry)
            gradient[of_factor] += scale * (precision * centred - number)


def _chain_matrices(target, factors, place, statistics, gradient):
    n_components, d = target.means.shape
    first, last = n_components - 1, n_components - 1 + target.means.size
    triangle, factor = d * (d + 1) // 2, place.scaling[1]
    shift, pulled = np.empty(d), np.empty(d)
    centred, curved, product = np.empty((d, d)), np.empty((d, d)), np.empty((d, d))
    for k in range(n_components):
        number, mean = statistics[k], place.means[k]
        total = statistics[n_components + k * d : n_components + (k + 1) * d]
        for i in range(d):
            shift[i] = total[i] - number * mean[i]
        transposed_times(factors[k], shift, pulled)
        entry = n_components + target.means.size + k * triangle
        for i in range(d):
            pull = 0.0
            for h in range(d):
                along = 0.0
                for j in range(h + 1):
                    along += factors[k, h, j] * pulled[j]
                pull += target.mean_maps[k, i, h] * along
            gradient[first + k * d + i] -= factor * pull
            for j in range(i + 1):
                value = statistics[entry] - total[i] * mean[j] - mean[i] * total[j]
                centred[i, j] = value + number * mean[i] * mean[j]
                centred[j, i] = centred[i, j]
                entry += 1
        product_of(centred, factors[k], curved)
        product_of(target.factors[k], curved, product)
        of_factor = last + (0 if target.kind == TIED else k * triangle)
        for i in range(d):
            for j in range(i):
                gradient[of_factor] += factor * target.factor_scales[k, 1] * product[i, j]
                of_factor += 1
            slope = place.local[k, i, i] * product[i, i] - number
            gradient[of_factor] += factor * target.factor_scales[k, 0] * slope
            of_factor += 1


_chain_factors = by_dimension(_chain_vectors, _chain_matrices)


@compilable
def product_of(left, right, out):
    """Write ``left^T right`` to ``out``."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = 0.0
    for h in range(left.shape[0]):
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                out[i, j] += left[h, i] * right[h, j]


@compilable
def transposed_times(matrix, vector, out):
    """Write ``matrix^T vector`` to ``out``."""
    for j in range(out.size):
        total = 0.0
        for i in range(vector.size):
            total += matrix[i, j] * vector[i]
        out[j] = total


# The prior


@compilable
def prior_energy(target, place):
    """Return ``-log p`` up to a constant, ``inf`` beyond the target's limit."""
    if target.limit < np.inf and _deviation(target, target.factors, place) > target.limit:
        return np.inf
    alpha, scale = target.prior[0], target.prior[1]
    total = 0.0
    for k in range(place.log_weights.size):
        total -= alpha * place.log_weights[k]
        for j in range(place.means.shape[1]):
            total += (place.means[k, j] / scale) ** 2 / 2.0
    return total + _factor_energy(target, place.factors, place)


@compilable
def _deviation(target, reference, place):
    """Return how far a place is from the reference, by the largest of all its deviations."""
    largest, d = 0.0, target.means.shape[1]
    for k in range(place.log_weights.size):
        # Compared with the reference's by the differences to the first.
        change = place.log_weights[k] - target.log_weights[k]
        change -= place.log_weights[0] - target.log_weights[0]
        square, whitened = 0.0, 0.0
        for j in range(d):
            if reference.ndim == 2:
                square = max(square, (place.local[k, j] - 1.0) ** 2)
                along = reference[k, j] * (place.means[k, j] - target.means[k, j])
            else:
                along = 0.0
                for i in range(j, d):
                    square += (place.local[k, i, j] - (1.0 if i == j else 0.0)) ** 2
                    along += reference[k, i, j] * (place.means[k, i] - target.means[k, i])
            whitened += along**2
        largest = max(largest, abs(change), math.sqrt(square), math.sqrt(whitened))
    return largest


@compilable
def _factor_energy(target, factors, place):
    degrees, curvature = target.prior[2], target.prior[2] * target.prior[3]
    n_components, d = target.means.shape
    total = 0.0
    for k in range(1 if target.kind == TIED else n_components):
        for i in range(1 if target.kind == SPHERICAL else d):
            if factors.ndim == 2:
                total -= degrees * math.log(place.local[k, i])
                total += curvature * factors[k, i] ** 2 / 2.0
            else:
                total -= (degrees - i) * math.log(place.local[k, i, i])
                for j in range(i + 1):
                    total += curvature * factors[k, i, j] ** 2 / 2.0
    return total


@compilable
def prior_slope(target, place, out):
    """Write the gradient of `prior_energy`."""
    n_components, alpha = place.log_weights.size, target.prior[0]
    for j in range(out.size):
        out[j] = 0.0
    for k in range(n_components):
        pull = alpha * (n_components * math.exp(place.log_weights[k]) - 1.0)
        for j in range(n_components - 1):
            out[j] += target.basis[k, j] * pull
    _slope_of_factors(target, place.factors, place, out)


def _slope_of_vectors(target, factors, place, out):
    n_components, d = target.means.shape
    square, degrees, covariance = target.prior[1] ** 2, target.prior[2], target.prior[3]
    first, last = n_components - 1, n_components - 1 + target.means.size
    for k in range(n_components):
        for j in range(d):
            entry = k * d + j
            out[first + entry] = target.mean_maps[k, j] * place.means[k, j] / square
            if target.kind == SPHERICAL and j > 0:
                continue
            slope = degrees * (covariance * factors[k, j] ** 2 - 1.0)
            of_factor = last + (k if target.kind == SPHERICAL else entry)
            out[of_factor] = target.factor_scales[k, 0] * slope


def _slope_of_matrices(target, factors, place, out):
    n_components, d = target.means.shape
    square, degrees, covariance = target.prior[1] ** 2, target.prior[2], target.prior[3]
    first, of_factor = n_components - 1, n_components - 1 + target.means.size
    product = np.empty((d, d))
    for k in range(n_components):
        for i in range(d):
            pull = 0.0
            for j in range(d):
                pull += target.mean_maps[k, i, j] * place.means[k, j]
            out[first + k * d + i] = pull / square
        if target.kind == TIED and k > 0:
            continue
        product_of(target.factors[k], factors[k], product)
        for i in range(d):
            for j in range(i):
                slope = degrees * covariance * product[i, j]
                out[of_factor] = target.factor_scales[k, 1] * slope
                of_factor += 1
            slope = place.local[k, i, i] * degrees * covariance * product[i, i] - (degrees - i)
            out[of_factor] = target.factor_scales[k, 0] * slope
            of_factor += 1


_slope_of_factors = by_dimension(_slope_of_vectors, _slope_of_matrices)
