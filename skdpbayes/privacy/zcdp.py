"""Zero-concentrated differential privacy, in Rényi orders: ``D_alpha <= rho alpha`` for all ``alpha > 1``.

dp-accounting converts it to (epsilon, delta), on a grid of orders around the best one.
"""

import math

import numpy as np
from dp_accounting.rdp.rdp_privacy_accountant import compute_delta, compute_epsilon


def zcdp_epsilon(rho, delta):
    """Smallest epsilon that follows from ``rho``-zCDP at ``delta``."""
    if rho == 0:
        return 0.0
    if delta == 0 or math.isinf(rho):
        return math.inf
    orders = _orders(math.sqrt(math.log(1.0 / delta) / rho))
    return float(compute_epsilon(orders, rho * orders, delta)[0])


def zcdp_delta(rho, epsilon):
    """Smallest delta that follows from ``rho``-zCDP at ``epsilon``."""
    if rho == 0:
        return 0.0
    if math.isinf(rho):
        return 1.0
    orders = _orders(max(epsilon / (2.0 * rho), 1e-2))
    return min(1.0, float(compute_delta(orders, rho * orders, epsilon)[0]))


def _orders(best):
    return 1.0 + best * np.geomspace(0.02, 50.0, 1000)
