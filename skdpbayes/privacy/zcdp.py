"""Zero-concentrated differential privacy, in Rényi orders: ``D_alpha <= rho alpha`` for all ``alpha > 1``.

    epsilon(delta)     = min over alpha of  rho alpha + log(1 - 1/alpha) - log(delta alpha) / (alpha - 1)
    log delta(epsilon) = min over alpha of  (alpha - 1) (rho alpha - epsilon + log(1 - 1/alpha)) - log(alpha)

over a grid of orders around the best one (Canonne, Kamath and Steinke, 2020, Prop. 12). From
``D_1 <= rho`` it follows that ``delta(0)^2 <= 1 - exp(-rho)`` (Bretagnolle and Huber, 1979).
"""

import math

import numpy as np

from .deltas import rounded_up

# Numbers are confined to where no product of three of them overflows: rho is rounded up, epsilon down.
_LEAST, _LARGEST = 1e-90, 1e90


def zcdp_epsilon(rho, delta):
    """Smallest epsilon that follows from ``rho``-zCDP at ``delta``."""
    if rho == 0:
        return 0.0
    if delta == 0 or rho > _LARGEST:
        return math.inf
    rho = max(rho, _LEAST)
    log_delta = math.log(delta)
    if 2.0 * log_delta >= _log_square(rho):
        return 0.0
    above, alpha = _orders(math.sqrt(-log_delta / rho))
    found = rho * alpha + np.log(above / alpha) - (log_delta + np.log(alpha)) / above
    return max(0.0, float(found.min()))


def zcdp_delta(rho, epsilon):
    """Smallest delta that follows from ``rho``-zCDP at ``epsilon``."""
    if rho == 0:
        return 0.0
    if rho > _LARGEST:
        return 1.0
    rho, epsilon = max(rho, _LEAST), min(epsilon, _LARGEST)
    above, alpha = _orders(min(max(epsilon / (2.0 * rho), 1e-2), _LARGEST))
    found = above * (rho * alpha - epsilon + np.log(above / alpha)) - np.log(alpha)
    return rounded_up(math.exp(min(0.0, _log_square(rho) / 2.0, float(found.min()))))


def _orders(best):
    """Return ``alpha - 1`` and ``alpha``."""
    above = best * np.geomspace(0.02, 50.0, 1000)
    return above, 1.0 + above


def _log_square(rho):
    return math.log(-math.expm1(-rho))
