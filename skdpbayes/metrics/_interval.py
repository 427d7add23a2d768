"""Confidence intervals that account for both sampling error and noise.

The released number is ``T = t(value) + sampling error + noise``. An interval holds all values for which ``T``
is not too far from ``t(value)``,

    P(|s Z + sum_j w_j L_j| <= |T - t(value)|) <= level,     Z standard normal, L_j Laplace of scale 1,

where the deviation ``s`` and the weights ``w`` depend on the value: Wilson's interval, with noise. The
probability is found by inverting the characteristic function, ``exp(-s^2 u^2 / 2) / prod_j (1 + w_j^2 u^2)``.
"""

import math

import numpy as np
from scipy.optimize import brentq

_STEP = 0.2
_FARTHEST = 12.0
_NEGLIGIBLE = 1e-12


def probability_within(distance, deviation, weights):
    """Return the probability that sampling error plus noise is no larger than a distance.

    Parameters
    ----------
    distance : float
        At least 0.
    deviation : float
        ``s``, at least 0.
    weights : sequence of float
        ``w``, of any sign.

    Returns
    -------
    probability : float
    """
    squares = np.square(np.asarray(weights, dtype=float))
    spread = math.sqrt(deviation**2 + 2.0 * squares.sum())
    if spread == 0 or distance >= _FARTHEST * spread:
        return float(distance > 0)
    # In units of the total deviation. A single Laplace variable has a closed form, and its transform decays
    # slowest.
    q, normal, squares = distance / spread, deviation / spread, squares / spread**2
    squares = squares[squares > _NEGLIGIBLE]
    if normal < 1e-3 and squares.size == 1:
        return -math.expm1(-q / math.sqrt(squares[0]))
    u = np.arange(_STEP, 8.0 / max(normal, 0.02), _STEP)
    transform = np.exp(-((normal * u) ** 2) / 2.0) / np.prod(1.0 + np.outer(u**2, squares), axis=1)
    return 2.0 / np.pi * _STEP * (0.5 * q + np.sum(np.sin(q * u) / u * transform))


def inverted(distance, spread, estimate, level):
    """Return the smallest and the largest value in [0, 1] that are compatible with what was released.

    Parameters
    ----------
    distance : callable
        ``T - t(value)``, decreasing in the value.
    spread : callable
        ``(s, w)`` of a value.
    estimate : float
        The value in [0, 1] with the smallest absolute distance.
    level : float

    Returns
    -------
    interval : (float, float)

    Raises
    ------
    ValueError
        If the level is not in (0, 1).
    """

    def excess(value):
        return probability_within(abs(distance(value)), *spread(value)) - level

    def end(farthest):
        if excess(farthest) <= 0:
            return farthest
        return (
            float(brentq(excess, farthest, estimate, xtol=1e-6))
            if excess(estimate) < 0
            else estimate
        )

    return end(0.0), end(1.0)
