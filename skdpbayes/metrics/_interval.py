"""Confidence intervals that know both of sampling and of noise.

What is released is ``T = t(value) + sampling + noise``. An interval holds all values for which ``T`` is no
farther from ``t(value)`` than ``q``,

    P(|s Z + sum_j w_j L_j| <= q) = level,     Z standard normal, L_j Laplace of scale 1,

the deviation ``s`` and the weights ``w`` being those of the value: Wilson's interval, with noise. The
probability is found by inverting the characteristic function, ``exp(-s^2 u^2 / 2) / prod_j (1 + w_j^2 u^2)``.
"""

import math

import numpy as np
from scipy.optimize import brentq

_POINTS = 1001
_SMALL = 1e-12


def quantile(deviation, weights, level):
    """Return ``q``.

    Parameters
    ----------
    deviation : float
        ``s``, at least 0.
    weights : sequence of float
        ``w``, of any sign.
    level : float
        In (0, 1).

    Returns
    -------
    q : float
    """
    squares = np.sort(np.square(np.asarray(weights, dtype=float)))[::-1]
    spread = math.sqrt(deviation**2 + 2.0 * squares.sum())
    if spread == 0:
        return 0.0
    # In units of the whole deviation; a single Laplace law is known, and has the slowest transform.
    normal, squares = deviation / spread, squares[squares > _SMALL * spread**2] / spread**2
    if normal < 1e-3 and squares.size == 1:
        return spread * math.sqrt(squares[0]) * -math.log1p(-level)
    highest = 8.0 / max(normal, 0.02)
    u = np.linspace(0.0, highest, _POINTS)[1:]
    transform = np.exp(-((normal * u) ** 2) / 2.0) / np.prod(1.0 + np.outer(u**2, squares), axis=1)

    def probability(q):
        values = np.append(q, np.sin(q * u) / u * transform)
        return 2.0 / np.pi * np.trapezoid(values, dx=highest / (_POINTS - 1))

    farthest = 4.0
    while probability(farthest) < level and farthest < 60:
        farthest += 2.0
    return spread * brentq(lambda q: probability(q) - level, 0.0, farthest, xtol=1e-4)


def inverted(distance, spread, estimate, level):
    """Return the smallest and the largest value in [0, 1] that what was released does not speak against.

    Parameters
    ----------
    distance : callable
        ``T - t(value)``, falling.
    spread : callable
        ``(s, w)`` of a value.
    estimate : float
        The value in [0, 1] where the distance is least.
    level : float

    Returns
    -------
    interval : (float, float)

    Raises
    ------
    ValueError
        If the level is not in (0, 1).
    """
    if not 0 < level < 1:
        raise ValueError(f"level must be in (0, 1), got {level}.")

    def excess(value):
        return abs(distance(value)) - quantile(*spread(value), level)

    def end(farthest):
        if excess(farthest) <= 0 or excess(estimate) >= 0:
            return farthest if excess(farthest) <= 0 else estimate
        return float(brentq(excess, farthest, estimate, xtol=1e-6))

    return end(0.0), end(1.0)
