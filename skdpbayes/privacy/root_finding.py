"""Root finding for plans: the smallest argument that keeps to a budget, by Brent's method.

    min { x > 0 : excess(x) <= 0 },     excess falling

Every answer is feasible itself: a root that is found to a tolerance may lie on the wrong side of it.
"""

import math
from contextlib import suppress

from scipy.optimize import brentq

# Exponents beyond this overflow.
_FARTHEST = 700.0


class _CloseEnoughError(Exception):
    pass


def smallest_within(excess, guess=1.0, tolerance=1e-12, farthest=_FARTHEST):
    """Return the smallest ``x > 0`` with ``excess(x) <= 0``, where the excess falls with x.

    Parameters
    ----------
    excess : callable
    guess : float, default=1.0
        Where to look for the first feasible point; 0 is none.
    tolerance : float, default=1e-12
        The answer has an excess in ``[-tolerance, 0]``, or its bracket is down to rounding.
    farthest : float, default=700.0
        The largest ``x`` to look at.

    Returns
    -------
    x : float

    Raises
    ------
    ValueError
        If there is none in reach.
    """
    low, value_low, high, value_high = _bracket(excess, guess, tolerance, farthest)
    if value_high >= -tolerance:
        return high
    # Just inside the budget, so that the answer is feasible at once.
    aim = 0.3 * tolerance
    return _first_feasible(
        lambda x: excess(x) + aim, (low, value_low + aim), (high, value_high + aim), tolerance
    )


def boundary(holds, low, high, resolution):
    """Return where a condition begins to hold, between a point at which it does not and one at which it does.

    Parameters
    ----------
    holds : callable
        True from some point on.
    low, high : float
    resolution : float
        Width of a bracket that is narrow enough.

    Returns
    -------
    x : float
        At which the condition holds.
    """
    return _first_feasible(
        lambda x: -1.0 if holds(x) else 1.0, (low, 1.0), (high, -1.0), 0.0, resolution
    )


def _first_feasible(aimed, infeasible, feasible, tolerance, resolution=0.0):
    """Return the least argument that was found to be feasible on the way to the root."""
    known = dict((infeasible, feasible))
    best = feasible[0]

    def value(x):
        nonlocal best
        if x in known:
            return known[x]
        found = aimed(x)
        if found <= 0.3 * tolerance:
            best = min(best, x)
        if -tolerance <= found - 0.3 * tolerance <= 0 and tolerance > 0:
            raise _CloseEnoughError
        return found

    with suppress(_CloseEnoughError):
        width = max(resolution, 1e-14 * feasible[0])
        brentq(value, infeasible[0], feasible[0], xtol=width, rtol=1e-14, maxiter=500)
    return best


def _bracket(excess, high, tolerance, farthest):
    """Return (infeasible point, its finite excess, feasible point, its excess)."""
    low, value_low, width = 0.0, math.inf, 0.02
    value_high = excess(high)
    while value_high > 0:
        low, value_low = high, value_high
        if high >= farthest:
            raise ValueError(
                "no schedule stays within the budget: raise epsilon or delta, or lower n_steps."
            )
        high, width = min(high + width, farthest), 4.0 * width
        value_high = excess(high)
    # Costs far beyond a budget take long to compute: come from the feasible side.
    while math.isinf(value_low) and value_high < -tolerance:
        probe = max(low, high - width)
        value = excess(probe)
        if value <= 0:
            high, value_high, width = probe, value, 4.0 * width
            if probe <= low:
                return low, 1.0, high, 0.0
        else:
            low, value_low = probe, min(value, 1e300)
    return low, min(value_low, 1e300), high, value_high
