"""How long a record's gradient can be at a given theta, and how far apart two can be, whatever the records.

Of a record in the unit ball, with responsibilities ``r_k``, ``v_k = F_k^T (x - m_k)`` and ``q_k =
|v_k|^2``, the gradient consists of ``B^T (pi - r)``, ``-r_k T_k v_k / sqrt(pi0_k)`` and the lower
triangle of ``r_k (y_k v_k^T - I) / sqrt(pi0_k)``, ``y_k = T_k^-T v_k``, whose diagonal counts ``T_jj /
sqrt(2)``. All but the first and the ``I`` is ``h``, and

    |h|^2 <= sum_k r_k H_k(q_k),      H_k(q) = (a_k q + b_k q^2) / pi0_k,     a_k = |T_k|^2,

by Jensen's inequality. Let ``E_k = q_k / 2 - log pi_k - log |F_k|``, so that ``r_k ~ exp(-E_k)``, and
``E_k = min_j E_j + e_k``. For any weights ``c`` on the components

    min_j E_j <= U = max_{|x| <= 1} sum_k c_k E_k(x),

a quadratic in ``x``; and with ``q_k = 2 (U + e_k + log pi_k + log |F_k|)`` the average is at most
``lambda`` if

    H_i(q_i at e_i = 0) - lambda + sum_{k != i} max_{e >= 0} exp(-e) (H_k(q_k) - lambda) <= 0   for all i:

a point that is far from a component belongs to it only if it is as far from all others. So, with what
the first part and the ``I`` can differ by,

    |g|^2      <= max_k |B^T (e_k - pi)|^2      + (sqrt(lambda) + s)^2
    |g - g'|^2 <= max_{k,l} |B^T (e_k - e_l)|^2 + (sqrt(2 lambda + o) + s')^2
    s^2 = max_k d / (2 pi0_k),   s'^2 = max_{k,l} d (1/pi0_k + 1/pi0_l) / 2

where ``o = max_k a_k^2 d / pi0_k`` is twice the least that ``-h.h'`` can be: each of ``T_j^2 z + z^2 /
2``, ``z = v_j v'_j``, is at least ``-T_j^4 / 2``.

diag: ``b = 1/2``; spherical: ``b = 1 / (2 d)``. Matrices: ``v v^T`` has a weighted lower triangle of
norm ``q / sqrt(2)``, ``b = 1/2``, and that of ``y v^T`` is within ``e q`` of it, where ``e`` is the
smaller of two bounds. One is the larger of the spectral norms of ``U = T^-T - I`` and ``U' = diag(T)
T^-T - I``. The other is ``|U| / sqrt(2)`` in Frobenius' norm, each row the longer of the two: row ``i``
of an upper triangle sees ``v_l`` with ``l >= i`` only, of square ``s_i``, and is multiplied by ``v_j``
with ``j < i`` and half of ``v_i^2``, so that it adds at most ``|U_i|^2 s_i (q - s_i + v_i^2 / 2) <=
|U_i|^2 q^2 / 2``. All in all ``h`` is within ``e sqrt(2 lambda)`` of what it is without ``U``; that is
added to ``sqrt(lambda)`` once, and twice to ``sqrt(2 lambda + o)``. Besides ``|T^T T - I|`` is added to
``a``, and ``o = max_k 1 / pi0_k``, since ``z + z^2 / 2 >= -1/2``. A tied factor has no ``pi0_k``, so
that ``b`` is multiplied by it, ``o = max_k 1 / pi0_k^2``, and ``I`` cancels, ``s' = 0``.
"""

import math

import numpy as np
from numba import njit
from numba.extending import overload

from ._mixture_coordinates import has_matrices
from ._mixture_model import SPHERICAL, TIED
from ._mixture_statistics import log_offsets

# All of it is computed in a few operations: far more than they can err by.
_ROUNDING = 1.0 + 1e-9
_BISECTIONS = 30


def component_bounds(target, components, local, out):
    """Write (a / pi0, b / pi0, rho^2, o, e) of every component to the rows of ``out`` (generic, compiled)."""
    raise NotImplementedError("component_bounds is a generic of compiled code.")


def farthest(target, components, offsets):
    """Return ``U`` (generic, compiled)."""
    raise NotImplementedError("farthest is a generic of compiled code.")


@overload(component_bounds, jit_options={"error_model": "numpy"})
def _component_bounds(target, components, local, out):
    def diagonal(target, components, local, out):
        n_components, d = components.means.shape
        for k in range(n_components):
            weight = math.exp(target.log_weights[k])
            steepest, stretch, offset = 0.0, 0.0, 0.0
            for j in range(d):
                steepest = max(steepest, components.factors[k, j])
                stretch = max(stretch, local[k, j] ** 2)
                offset += (components.factors[k, j] * components.means[k, j]) ** 2
            out[k, 0] = stretch / weight
            out[k, 1] = 0.5 / weight / (d if target.kind == SPHERICAL else 1)
            out[k, 2] = (steepest + math.sqrt(offset)) ** 2
            out[k, 3] = stretch**2 * d / weight
            out[k, 4] = 0.0

    def triangular(target, components, local, out):
        n_components, d = components.means.shape
        for k in range(n_components):
            weight = math.exp(target.log_weights[k])
            factors, own = components.factors[k], local[k]
            offset = factors.T @ components.means[k]
            square = own.T @ own
            for j in range(d):
                square[j, j] -= 1.0
            out[k, 0] = (_spectral_norm(own) ** 2 + _spectral_norm(square)) / weight
            out[k, 1] = 0.5
            out[k, 2] = (_spectral_norm(factors) + math.sqrt(np.sum(offset**2))) ** 2
            out[k, 3] = 1.0 / weight**2
            out[k, 4] = _off_identity(own)
            if target.kind != TIED:
                out[k, 1] /= weight
                out[k, 3] = 1.0 / weight

    return triangular if has_matrices(target) else diagonal


@overload(farthest, jit_options={"error_model": "numpy"})
def _farthest(target, components, offsets):
    def diagonal(target, components, offsets):
        n_components, d = components.means.shape
        total, slope, steepest = 0.0, 0.0, 0.0
        for k in range(n_components):
            total -= target.mixing[k] * offsets[k]
        for j in range(d):
            curvature, pull = 0.0, 0.0
            for k in range(n_components):
                weighted = target.mixing[k] * components.factors[k, j] ** 2
                mean = components.means[k, j]
                curvature += weighted
                pull += weighted * mean
                total += 0.5 * weighted * mean**2
            slope += pull**2
            steepest = max(steepest, curvature)
        return total + 0.5 * steepest + math.sqrt(slope)

    def triangular(target, components, offsets):
        n_components, d = components.means.shape
        total, pull, curvature = 0.0, np.zeros(d), np.zeros((d, d))
        for k in range(n_components):
            weighted = target.mixing[k] * (components.factors[k] @ components.factors[k].T)
            pulled = weighted @ components.means[k]
            total += 0.5 * np.sum(pulled * components.means[k]) - target.mixing[k] * offsets[k]
            for i in range(d):
                pull[i] += pulled[i]
                for j in range(d):
                    curvature[i, j] += weighted[i, j]
        return total + 0.5 * _spectral_norm(curvature) + math.sqrt(np.sum(pull**2))

    return triangular if has_matrices(target) else diagonal


@njit(error_model="numpy")
def _spectral_norm(matrix):
    """Return a bound on the largest singular value: ``tr((M^T M)^16)^(1/32)``."""
    square = matrix.T @ matrix
    largest = np.max(np.abs(square))
    if not largest < np.inf:  # It is no number, or beyond all.
        return np.inf
    if largest == 0.0:
        return 0.0
    power = square / largest
    for _ in range(4):
        power = power @ power
    return math.sqrt(largest * np.trace(power) ** (1.0 / 16.0))


@njit(error_model="numpy")
def _off_identity(local):
    """Return ``e``: how far the lower triangle of ``y v^T`` can be from ``v v^T``'s, over ``|v|^2``."""
    d = local.shape[0]
    # U^T and U'^T, whose rows are the columns here.
    plain, scaled = np.zeros((d, d)), np.zeros((d, d))
    for j in range(d):
        plain[j, j] = 1.0 / local[j, j]
        for i in range(j + 1, d):
            total = 0.0
            for h in range(j, i):
                total += local[i, h] * plain[h, j]
            plain[i, j] = -total / local[i, i]
    rows = 0.0
    for j in range(d):
        longest, longest_scaled = 0.0, 0.0
        for i in range(j, d):
            scaled[i, j] = local[j, j] * plain[i, j]
        plain[j, j] -= 1.0
        scaled[j, j] -= 1.0
        for i in range(j, d):
            longest += plain[i, j] ** 2
            longest_scaled += scaled[i, j] ** 2
        rows += max(longest, longest_scaled)
    if not rows < np.inf:
        return np.inf
    return min(math.sqrt(0.5 * rows), max(_spectral_norm(plain), _spectral_norm(scaled)))


@njit(error_model="numpy")
def _largest_excess(value, slope, curve):
    """Return ``max_{e >= 0} exp(-e) (value + slope e + curve e^2)``, or 0 if it is negative."""
    # Where the derivative vanishes: curve e^2 + (slope - 2 curve) e + value - slope = 0, the larger root.
    half = 0.5 * (slope - 2.0 * curve) / curve
    inside = half**2 - (value - slope) / curve
    e = max(0.0, -half + math.sqrt(inside)) if inside > 0.0 else 0.0
    return max(0.0, math.exp(-e) * (value + slope * e + curve * e * e))


@njit(error_model="numpy")
def largest_average(bounds, offsets, energy):
    """Return ``lambda``: a bound on ``sum_k r_k H_k(q_k)`` if the least ``E_k`` is at most ``energy``."""
    n_components = offsets.size
    nearest = np.empty(n_components)
    low, high = 0.0, 0.0
    for k in range(n_components):
        linear, square, farthest_square = bounds[k, 0], bounds[k, 1], bounds[k, 2]
        q = min(max(0.0, 2.0 * (energy + offsets[k])), farthest_square)
        nearest[k] = q
        low = max(low, q * (linear + square * q))
        high = max(high, farthest_square * (linear + square * farthest_square))
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        total, worst = 0.0, -np.inf
        for k in range(n_components):
            linear, square, q = bounds[k, 0], bounds[k, 1], nearest[k]
            value = q * (linear + square * q) - middle
            excess = _largest_excess(value, 2.0 * linear + 4.0 * square * q, 4.0 * square)
            total += excess
            worst = max(worst, value - excess)
        if worst + total <= 0.0:
            high = middle
        else:
            low = middle
    return high


@njit(error_model="numpy")
def largest_gradient(target, components, local, halved):
    """Return the bound on a record's gradient, or half that on the distance of two."""
    n_components = components.log_weights.size
    bounds = np.empty((n_components, 5))
    component_bounds(target, components, local, bounds)
    offsets = log_offsets(components)
    average = largest_average(bounds, offsets, farthest(target, components, offsets))
    return _with_constants(target, components, bounds, average, halved)


@njit(error_model="numpy")
def largest_gradient_near(target, components, local, limit):
    """Return a bound on a record's gradient wherever theta is within the limit of the reference.

    There ``|T - I|`` is at most ``h``, the limit, in Frobenius' norm (for vectors in every entry), so
    that ``|v| <= (1 + h) (|v0| + h)``, ``q <= (1 + h)^2 ((1 + h) q0 + h + h^2)``, ``e <= 2 h / (1 - h)``, and
    logarithms of weights and of determinants change by ``2 h - d log(1 - h)`` at most.
    """
    n_components, d = components.means.shape
    matrices = target.factors.ndim == 3
    stretch = (1.0 + limit) ** 2
    constant = stretch * (limit + limit**2)
    bounds = np.empty((n_components, 5))
    component_bounds(target, components, local, bounds)
    offsets = log_offsets(components)
    shift = 2.0 * limit - d * math.log(1.0 - limit)
    # Without the offsets, which do not grow.
    energy = farthest(target, components, offsets) + np.sum(target.mixing * offsets)
    energy = stretch * (1.0 + limit) * energy + constant / 2.0
    energy += shift - np.sum(target.mixing * offsets)
    for k in range(n_components):
        bounds[k, 0] *= stretch + (stretch - 1.0 if matrices else 0.0)
        bounds[k, 2] = stretch * (1.0 + limit) * bounds[k, 2] + constant
        bounds[k, 4] = 2.0 * limit / (1.0 - limit) if matrices else 0.0
    average = largest_average(bounds, offsets + shift, energy)
    return _with_constants(target, components, bounds, average, False) * math.exp(limit)


@njit(error_model="numpy")
def _with_constants(target, components, bounds, average, halved):
    """Add what weights and the ``I`` contribute to a bound on the rest."""
    n_components, d = components.means.shape
    # B B^T, with the weights as they are at theta.
    gram = target.basis @ target.basis.T
    weights = np.exp(components.log_weights)
    pulled = gram @ weights
    constant = np.sum(weights * pulled)
    norm, apart, obtuse, single, double, off = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(n_components):
        norm = max(norm, gram[k, k] - 2.0 * pulled[k] + constant)
        obtuse = max(obtuse, bounds[k, 3])
        off = max(off, bounds[k, 4] * math.sqrt(2.0 * average))
        own = d / 2.0 * math.exp(-target.log_weights[k])
        single = max(single, own)
        for other in range(k):
            apart = max(apart, gram[k, k] + gram[other, other] - 2.0 * gram[k, other])
            double = max(double, own + d / 2.0 * math.exp(-target.log_weights[other]))
    if target.kind == TIED:
        single, double = d / 2.0, 0.0
    if not halved:
        return _ROUNDING * math.sqrt(norm + (math.sqrt(average) + off + math.sqrt(single)) ** 2)
    spread = math.sqrt(2.0 * average + obtuse) + 2.0 * off + math.sqrt(double)
    return _ROUNDING * 0.5 * math.sqrt(apart + spread**2)
