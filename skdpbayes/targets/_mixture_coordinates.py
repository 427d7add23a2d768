"""From coordinates around a reference to a mixture, and gradients back by the chain rule.

With ``N_k, M_k, Q_k`` the statistics, ``C_k = Q_k - M_k m_k^T - m_k M_k^T + N_k m_k m_k^T`` and ``n``
records,

    d/db   = B^T (n pi - N)
    d/da_k = -F0_k^-1 F_k F_k^T (M_k - N_k m_k) / sqrt(pi0_k)
    d/dT_k = tril(F0_k^T C_k F_k) - diag(N_k / (T_k)_jj),    d/dt by the scales of `MixtureTarget`

are the derivatives of ``sum_i ell_i``. For diagonal factors ``T_k`` is a vector, and so is all else.
"""

import math

import numpy as np
from numba import njit
from numba.extending import overload

from ._mixture_model import SPHERICAL, TIED
from ._mixture_statistics import Components, is_triangular, whitened_square

# Deviations from the reference are cut here: logarithms of ratios, and all others. Nothing overflows then.
_LARGEST_LOG, _LARGEST = 30.0, 1e6


@njit(error_model="numpy")
def _cut(value, bound):
    return min(max(value, -bound), bound)


def components_at(target, theta):
    """Return (components, ``T`` of every component) at ``theta`` (generic, compiled)."""
    raise NotImplementedError("components_at is a generic of compiled code.")


def chain_rule(target, components, local, statistics, count, factor, out):
    """Add ``factor`` times the gradient of ``count`` records to ``out`` (generic, compiled)."""
    raise NotImplementedError("chain_rule is a generic of compiled code.")


def factor_energy(target, components, local):
    """Return minus the log prior density of the factors (generic, compiled)."""
    raise NotImplementedError("factor_energy is a generic of compiled code.")


def deviation(local):
    """Return the largest ``|T_k - I|``, Frobenius' norm or an entry of a vector (generic, compiled)."""
    raise NotImplementedError("deviation is a generic of compiled code.")


def has_matrices(target):
    """Tell whether a target's factors are matrices, by its type in compiled code."""
    return is_triangular(target[target.fields.index("factors")])


@njit(error_model="numpy")
def _weights_and_means(target, theta):
    n_components = target.log_weights.size
    log_weights = np.empty(n_components)
    largest = -np.inf
    for k in range(n_components):
        total = target.log_weights[k]
        for j in range(n_components - 1):
            total += target.basis[k, j] * theta[j]
        log_weights[k] = _cut(total, _LARGEST)
        largest = max(largest, log_weights[k])
    total = 0.0
    for k in range(n_components):
        log_weights[k] = max(log_weights[k] - largest, -_LARGEST_LOG * 10)
        total += math.exp(log_weights[k])
    for k in range(n_components):
        log_weights[k] -= math.log(total)
    return log_weights, target.means.copy()


@overload(components_at, jit_options={"error_model": "numpy"})
def _components_at(target, theta):
    def diagonal(target, theta):
        n_components, n_features = target.means.shape
        log_weights, means = _weights_and_means(target, theta)
        local, factors = np.empty_like(target.factors), np.empty_like(target.factors)
        first, last = n_components - 1, n_components - 1 + means.size
        for k in range(n_components):
            for j in range(n_features):
                moved = target.mean_maps[k, j] * theta[first + k * n_features + j]
                means[k, j] += _cut(moved, _LARGEST)
                place = last + (k if target.kind == SPHERICAL else k * n_features + j)
                log_local = _cut(target.factor_scales[k, 0] * theta[place], _LARGEST_LOG)
                local[k, j] = math.exp(log_local)
                factors[k, j] = target.factors[k, j] * local[k, j]
        return Components(log_weights, means, factors), local

    def triangular(target, theta):
        n_components, d = target.means.shape
        log_weights, means = _weights_and_means(target, theta)
        local, factors = np.zeros_like(target.factors), np.zeros_like(target.factors)
        first, last = n_components - 1, n_components - 1 + means.size
        for k in range(n_components):
            place = last + (0 if target.kind == TIED else k * (d * (d + 1) // 2))
            for i in range(d):
                moved = 0.0
                for j in range(i, d):
                    moved += target.mean_maps[k, j, i] * theta[first + k * d + j]
                means[k, i] += _cut(moved, _LARGEST)
                for j in range(i):
                    local[k, i, j] = _cut(target.factor_scales[k, 1] * theta[place], _LARGEST)
                    place += 1
                log_local = _cut(target.factor_scales[k, 0] * theta[place], _LARGEST_LOG)
                local[k, i, i] = math.exp(log_local)
                place += 1
            for i in range(d):
                for j in range(i + 1):
                    total = 0.0
                    for h in range(j, i + 1):
                        total += target.factors[k, i, h] * local[k, h, j]
                    factors[k, i, j] = total
        return Components(log_weights, means, factors), local

    return triangular if has_matrices(target) else diagonal


@njit(error_model="numpy")
def _weight_rule(target, components, counts, count, factor, out):
    for k in range(counts.size):
        pull = factor * (count * math.exp(components.log_weights[k]) - counts[k])
        for j in range(counts.size - 1):
            out[j] += target.basis[k, j] * pull


@overload(chain_rule, jit_options={"error_model": "numpy"})
def _chain_rule(target, components, local, statistics, count, factor, out):
    def diagonal(target, components, local, statistics, count, factor, out):
        n_components, n_features = target.means.shape
        _weight_rule(target, components, statistics[:n_components], count, factor, out)
        first, last = n_components - 1, n_components - 1 + target.means.size
        sums = n_components
        squares = n_components + target.means.size
        for k in range(n_components):
            number = statistics[k]
            for j in range(n_features):
                place = k * n_features + j
                mean, precision = components.means[k, j], components.factors[k, j] ** 2
                total = statistics[sums + place]
                centred = statistics[squares + place] - mean * (2.0 * total - number * mean)
                slope = -target.mean_maps[k, j] * precision * (total - number * mean)
                out[first + place] += factor * slope
                scale = factor * target.factor_scales[k, 0]
                place = last + (k if target.kind == SPHERICAL else place)
                out[place] += scale * (precision * centred - number)

    def triangular(target, components, local, statistics, count, factor, out):
        n_components, d = target.means.shape
        _weight_rule(target, components, statistics[:n_components], count, factor, out)
        first, last = n_components - 1, n_components - 1 + target.means.size
        triangle = d * (d + 1) // 2
        centred = np.empty((d, d))
        for k in range(n_components):
            number = statistics[k]
            total = statistics[n_components + k * d : n_components + (k + 1) * d]
            mean = components.means[k]
            shift = total - number * mean
            factors = components.factors[k]
            pull = target.mean_maps[k] @ (factors @ (factors.T @ shift))
            place = n_components + target.means.size + k * triangle
            for i in range(d):
                out[first + k * d + i] -= factor * pull[i]
                for j in range(i + 1):
                    value = statistics[place] - total[i] * mean[j] - mean[i] * total[j]
                    centred[i, j] = value + number * mean[i] * mean[j]
                    centred[j, i] = centred[i, j]
                    place += 1
            product = target.factors[k].T @ (centred @ factors)
            place = last + (0 if target.kind == TIED else k * triangle)
            for i in range(d):
                for j in range(i):
                    out[place] += factor * target.factor_scales[k, 1] * product[i, j]
                    place += 1
                slope = local[k, i, i] * product[i, i] - number
                out[place] += factor * target.factor_scales[k, 0] * slope
                place += 1

    return triangular if has_matrices(target) else diagonal


# The prior


@njit(error_model="numpy")
def prior_energy(target, components, local):
    """Return ``-log p`` up to a constant, ``inf`` beyond the target's limit."""
    if target.limit < np.inf and _is_outside(target, components, local):
        return np.inf
    alpha, scale = target.prior[0], target.prior[1]
    total = 0.0
    for k in range(components.log_weights.size):
        total -= alpha * components.log_weights[k]
        for j in range(components.means.shape[1]):
            total += (components.means[k, j] / scale) ** 2 / 2.0
    return total + factor_energy(target, components, local)


@njit(error_model="numpy")
def _is_outside(target, components, local):
    largest = deviation(local)
    for k in range(components.log_weights.size):
        # Compared with the reference's by the differences to the first.
        change = components.log_weights[k] - target.log_weights[k]
        change -= components.log_weights[0] - target.log_weights[0]
        largest = max(largest, abs(change))
    shifted = components.means - target.means
    for k in range(shifted.shape[0]):
        largest = max(largest, math.sqrt(whitened_square(target.factors, k, shifted[k])))
    return largest > target.limit


@overload(deviation, jit_options={"error_model": "numpy"})
def _deviation(local):
    def diagonal(local):
        found = 0.0
        for k in range(local.shape[0]):
            for j in range(local.shape[1]):
                found = max(found, abs(local[k, j] - 1.0))
        return found

    def triangular(local):
        found = 0.0
        for k in range(local.shape[0]):
            square = 0.0
            for i in range(local.shape[1]):
                for j in range(i + 1):
                    square += (local[k, i, j] - (1.0 if i == j else 0.0)) ** 2
            found = max(found, math.sqrt(square))
        return found

    return triangular if is_triangular(local) else diagonal


@njit(error_model="numpy")
def _weight_and_mean_slope(target, components, out):
    n_components = target.log_weights.size
    alpha = target.prior[0]
    out[: n_components - 1] = 0.0
    for k in range(n_components):
        pull = alpha * (n_components * math.exp(components.log_weights[k]) - 1.0)
        for j in range(n_components - 1):
            out[j] += target.basis[k, j] * pull


@overload(factor_energy, jit_options={"error_model": "numpy"})
def _factor_energy(target, components, local):
    def diagonal(target, components, local):
        degrees, covariance = target.prior[2], target.prior[3]
        total = 0.0
        for k in range(local.shape[0]):
            for j in range(1 if target.kind == SPHERICAL else local.shape[1]):
                total -= degrees * math.log(local[k, j])
                total += degrees * covariance * components.factors[k, j] ** 2 / 2.0
        return total

    def triangular(target, components, local):
        degrees, covariance = target.prior[2], target.prior[3]
        total = 0.0
        for k in range(1 if target.kind == TIED else local.shape[0]):
            for i in range(local.shape[1]):
                total -= (degrees - i) * math.log(local[k, i, i])
                for j in range(i + 1):
                    total += degrees * covariance * components.factors[k, i, j] ** 2 / 2.0
        return total

    return triangular if has_matrices(target) else diagonal


def prior_slope(target, components, local, out):
    """Write the gradient of `prior_energy` to ``out`` (generic, compiled)."""
    raise NotImplementedError("prior_slope is a generic of compiled code.")


@overload(prior_slope, jit_options={"error_model": "numpy"})
def _prior_slope(target, components, local, out):
    def diagonal(target, components, local, out):
        n_components, n_features = target.means.shape
        _weight_and_mean_slope(target, components, out)
        square, degrees, covariance = target.prior[1] ** 2, target.prior[2], target.prior[3]
        first, last = n_components - 1, n_components - 1 + target.means.size
        out[last:] = 0.0
        for k in range(n_components):
            for j in range(n_features):
                place = k * n_features + j
                out[first + place] = target.mean_maps[k, j] * components.means[k, j] / square
                if target.kind == SPHERICAL and j > 0:
                    continue
                slope = degrees * (covariance * components.factors[k, j] ** 2 - 1.0)
                place = last + (k if target.kind == SPHERICAL else place)
                out[place] = target.factor_scales[k, 0] * slope

    def triangular(target, components, local, out):
        n_components, d = target.means.shape
        _weight_and_mean_slope(target, components, out)
        square, degrees, covariance = target.prior[1] ** 2, target.prior[2], target.prior[3]
        first, place = n_components - 1, n_components - 1 + target.means.size
        for k in range(n_components):
            pull = target.mean_maps[k] @ components.means[k]
            for i in range(d):
                out[first + k * d + i] = pull[i] / square
        for k in range(1 if target.kind == TIED else n_components):
            product = degrees * covariance * (target.factors[k].T @ components.factors[k])
            for i in range(d):
                for j in range(i):
                    out[place] = target.factor_scales[k, 1] * product[i, j]
                    place += 1
                slope = local[k, i, i] * product[i, i] - (degrees - i)
                out[place] = target.factor_scales[k, 0] * slope
                place += 1

    return triangular if has_matrices(target) else diagonal
