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

from ..._compiled import by_dimension, compilable
from .coordinates import product_of, transposed_times
from .model import SPHERICAL, TIED

# All of it is computed in a few operations: far more than they can err by.
_ROUNDING = 1.0 + 1e-9
_BISECTIONS = 30


# What bounds of components write to ``out``: rows of (a / pi0, b / pi0, rho^2, o, e).


def _bounds_of_vectors(target, factors, place, out):
    n_components, d = target.means.shape
    for k in range(n_components):
        weight = math.exp(target.log_weights[k])
        steepest, stretch, offset = 0.0, 0.0, 0.0
        for j in range(d):
            steepest = max(steepest, factors[k, j])
            stretch = max(stretch, place.local[k, j] ** 2)
            offset += (factors[k, j] * place.means[k, j]) ** 2
        out[k, 0] = stretch / weight
        out[k, 1] = 0.5 / weight / (d if target.kind == SPHERICAL else 1)
        out[k, 2] = (steepest + math.sqrt(offset)) ** 2
        out[k, 3] = stretch**2 * d / weight
        out[k, 4] = 0.0


def _bounds_of_matrices(target, factors, place, out):
    n_components, d = target.means.shape
    offset, square = np.empty(d), np.empty((d, d))
    for k in range(n_components):
        weight = math.exp(target.log_weights[k])
        own = place.local[k]
        transposed_times(factors[k], place.means[k], offset)
        length = 0.0
        for j in range(d):
            length += offset[j] ** 2
        product_of(own, own, square)
        for j in range(d):
            square[j, j] -= 1.0
        out[k, 0] = (_spectral_norm(own) ** 2 + _spectral_norm(square)) / weight
        out[k, 1] = 0.5
        out[k, 2] = (_spectral_norm(factors[k]) + math.sqrt(length)) ** 2
        out[k, 3] = 1.0 / weight**2
        out[k, 4] = _off_identity(own)
        if target.kind != TIED:
            out[k, 1] /= weight
            out[k, 3] = 1.0 / weight


_component_bounds = by_dimension(_bounds_of_vectors, _bounds_of_matrices)


@compilable
def farthest(target, factors, place):
    """Return ``U``."""
    n_components, d = target.means.shape
    total, steepest, slope = 0.0, 0.0, 0.0
    for k in range(n_components):
        total -= target.mixing[k] * place.offsets[k]
    if factors.ndim == 2:
        for j in range(d):
            curvature, pull = 0.0, 0.0
            for k in range(n_components):
                weighted = target.mixing[k] * factors[k, j] ** 2
                mean = place.means[k, j]
                curvature += weighted
                pull += weighted * mean
                total += 0.5 * weighted * mean**2
            slope += pull**2
            steepest = max(steepest, curvature)
        return total + 0.5 * steepest + math.sqrt(slope)
    pull, curvature = np.zeros(d), np.zeros((d, d))
    for k in range(n_components):
        for i in range(d):
            for j in range(d):
                weighted = 0.0
                for h in range(min(i, j) + 1):
                    weighted += target.mixing[k] * factors[k, i, h] * factors[k, j, h]
                curvature[i, j] += weighted
                pull[i] += weighted * place.means[k, j]
                total += 0.5 * weighted * place.means[k, i] * place.means[k, j]
    for i in range(d):
        slope += pull[i] ** 2
    return total + 0.5 * _spectral_norm(curvature) + math.sqrt(slope)


@compilable
def _spectral_norm(matrix):
    """Return a bound on the largest singular value: ``tr((M^T M)^16)^(1/32)``."""
    d, largest = matrix.shape[0], 0.0
    power, square = np.empty((d, d)), np.empty((d, d))
    product_of(matrix, matrix, square)
    for j in range(d):  # No entry of a square is larger than those on its diagonal.
        if not square[j, j] < np.inf:  # It is no number, or beyond all.
            return np.inf
        largest = max(largest, square[j, j])
    if largest == 0.0:
        return 0.0
    for i in range(d):
        for j in range(d):
            power[i, j] = square[i, j] / largest
    for _ in range(2):
        product_of(power, power, square)
        product_of(square, square, power)
    trace = 0.0
    for j in range(d):
        trace += power[j, j]
    return math.sqrt(largest * trace ** (1.0 / 16.0))


@compilable
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


@compilable
def _largest_excess(value, slope, curve):
    """Return ``max_{e >= 0} exp(-e) (value + slope e + curve e^2)``, or 0 if it is negative."""
    # Where the derivative vanishes: curve e^2 + (slope - 2 curve) e + value - slope = 0, the larger root.
    half = 0.5 * (slope - 2.0 * curve) / curve
    inside = half**2 - (value - slope) / curve
    e = max(0.0, -half + math.sqrt(inside)) if inside > 0.0 else 0.0
    return max(0.0, math.exp(-e) * (value + slope * e + curve * e * e))


@compilable
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


@compilable
def largest_gradient(target, place):
    """Return the bound on a record's gradient, or half that on the distance of two."""
    bounds = np.empty((target.log_weights.size, 5))
    _component_bounds(target, place.factors, place, bounds)
    energy = farthest(target, place.factors, place)
    average = largest_average(bounds, place.offsets, energy)
    return _with_constants(target, place, bounds, average, target.halved)


def largest_gradient_near(target, place, limit):
    """Return a bound on a record's gradient wherever theta is within the limit of the reference.

    There ``|T - I|`` is at most ``h``, the limit, in Frobenius' norm (for vectors in every entry), so
    that ``|v| <= (1 + h) (|v0| + h)``, ``q <= (1 + h)^2 ((1 + h) q0 + h + h^2)``, ``e <= 2 h / (1 - h)``, and
    logarithms of weights and of determinants change by ``2 h - d log(1 - h)`` at most.
    """
    n_components, d = target.means.shape
    matrices = target.factors.ndim == 3
    stretch = (1.0 + limit) ** 2
    constant = stretch * (limit + limit**2)
    bounds = np.empty((n_components, 5))
    _component_bounds(target, place.factors, place, bounds)
    shift = 2.0 * limit - d * math.log(1.0 - limit)
    # Without the offsets, which do not grow.
    offset = float(target.mixing @ place.offsets)
    energy = farthest(target, place.factors, place) + offset
    energy = stretch * (1.0 + limit) * energy + constant / 2.0 + shift - offset
    bounds[:, 0] *= stretch + (stretch - 1.0 if matrices else 0.0)
    bounds[:, 2] = stretch * (1.0 + limit) * bounds[:, 2] + constant
    bounds[:, 4] = 2.0 * limit / (1.0 - limit) if matrices else 0.0
    average = largest_average(bounds, place.offsets + shift, energy)
    return float(_with_constants(target, place, bounds, average, False) * math.exp(limit))


@compilable
def _with_constants(target, place, bounds, average, halved):
    """Add what weights and the ``I`` contribute to a bound on the rest.

    Of vectors whose entries add up to 0, ``B B^T`` is ``diag(1 / pi0)``.
    """
    d = target.means.shape[1]
    constant = 0.0
    for k in range(place.log_weights.size):
        constant += math.exp(2.0 * place.log_weights[k] - target.log_weights[k])
    norm, obtuse, off, rarest, next_rarest = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(place.log_weights.size):
        inverse = math.exp(-target.log_weights[k])
        norm = max(norm, inverse * (1.0 - 2.0 * math.exp(place.log_weights[k])) + constant)
        obtuse = max(obtuse, bounds[k, 3])
        off = max(off, bounds[k, 4] * math.sqrt(2.0 * average))
        next_rarest = max(next_rarest, min(rarest, inverse))
        rarest = max(rarest, inverse)
    apart = rarest + next_rarest if place.log_weights.size > 1 else 0.0
    single, double = d / 2.0 * rarest, d / 2.0 * apart
    if target.kind == TIED:
        single, double = d / 2.0, 0.0
    if not halved:
        return _ROUNDING * math.sqrt(norm + (math.sqrt(average) + off + math.sqrt(single)) ** 2)
    spread = math.sqrt(2.0 * average + obtuse) + 2.0 * off + math.sqrt(double)
    return _ROUNDING * 0.5 * math.sqrt(apart + spread**2)
