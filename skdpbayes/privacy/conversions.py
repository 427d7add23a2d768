"""Gaussian and zero-concentrated privacy as (epsilon, delta) and back, rounded on the safe side.

    delta(eps) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)

(Balle and Wang, 2018; Dong, Roth and Su, 2022). What is computed is rounded to the safe side.
"""

import math
import sys
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

# How small a delta may be.
#
#     budgets:      delta = 0  or  1e-300 <= delta < 1
#     conversions:  every double in [0, 1), by its logarithm
#
# What is planned divides a delta among parts. Numbers near the smallest doubles have few digits, so
# that a part of them may be rounded up to several times what it is, or down to zero, which is another
# promise.


SMALLEST_DELTA = 1e-300


def round_down_delta(part):
    """A part of a delta; 0 if it has lost digits, at which every epsilon is larger."""
    return part if part >= sys.float_info.min else 0.0


def rounded_up(delta):
    """An upper bound on a computed delta, which may be 0 by rounding alone."""
    return max(delta, SMALLEST_DELTA)


# Root finding for plans: the smallest argument that keeps to a budget, by Brent's method.
#
#     min { x > 0 : excess(x) <= 0 },     excess falling
#
# Every answer is feasible itself: a root that is found to a tolerance may lie on the wrong side of
# it.


# Exponents beyond this overflow.
_LARGEST_EXPONENT = 700.0


class _CloseEnoughError(Exception):
    pass


def smallest_within(excess, guess=1.0, tolerance=1e-12, farthest=_LARGEST_EXPONENT):
    """The smallest ``x > 0`` with ``excess(x) <= 0``, where the excess falls with x.

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
    """The point from which a condition holds, between one at which it does not and one at which it does.

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
    """The least argument that was found to be feasible on the way to the root."""
    known = dict((infeasible, feasible))
    best = feasible[0]

    def value(x):
        nonlocal best
        if x in known:
            return known[x]
        excess = aimed(x)
        if excess <= 0.3 * tolerance:
            best = min(best, x)
        if -tolerance <= excess - 0.3 * tolerance <= 0 and tolerance > 0:
            raise _CloseEnoughError
        return excess

    with suppress(_CloseEnoughError):
        width = max(resolution, 1e-14 * feasible[0])
        brentq(value, infeasible[0], feasible[0], xtol=width, rtol=1e-14, maxiter=500)
    return best


def _bracket(excess, high, tolerance, farthest):
    """(infeasible point, its finite excess, feasible point, its excess)."""
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


# Sums of epsilons as they are written: a float stands for the shortest decimal that is read as it.
#
# 0.1 + 0.1 + 0.1 = 0.3
#
# In binary, three doubles nearest to 0.1 are more than the one nearest to 0.3. Sums are formed
# exactly, and rounded up where no double is written like them.


def decimal_exact(number):
    """A finite float as the decimal that it is written as.

    Examples
    --------
    >>> from skdpbayes.privacy.conversions import decimal_exact
    >>> decimal_exact(0.1)
    Fraction(1, 10)
    """
    return Fraction(repr(float(number)))


def round_up(total):
    """The least float that is written as a fraction or more."""
    try:
        number = float(total)
    except OverflowError:
        return math.inf
    return number if decimal_exact(number) >= total else math.nextafter(number, math.inf)


def round_down(total):
    """The largest float that is written as a fraction, at least 0, or less."""
    number = float(total)
    return number if decimal_exact(number) <= total else math.nextafter(number, 0.0)


# The two terms of a Gaussian's delta cancel to within mu. Below this value too few digits
# would remain, so a smaller mu is rounded up to it.
SMALLEST_MU = 1e-7
# Error of roots, which is added to a conversion.
_ROOT_ERROR = 1e-12
# Relative error of a delta, times mu, by which it is enlarged.
_LOST = 1e-11
# Conversions are exact to some 1e-12, and at this epsilon noise counts for as much as a billion rows.
LEAST_EPSILON = 1e-9
# Beyond this the search for mu may not end, and the noise makes no difference to privacy.
LARGEST_EPSILON = 1e9


class TooSmallBudget(ValueError):
    """A budget is too small for noise to be accounted for."""


def gaussian_delta(mu, epsilon):
    """Smallest delta at which a ``mu``-GDP mechanism is (epsilon, delta)-private; mu is rounded up."""
    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    mu = max(mu, SMALLEST_MU)
    accept = log_ndtr(-epsilon / mu + mu / 2)
    reject = epsilon + log_ndtr(-epsilon / mu - mu / 2)
    delta = float(-math.exp(accept) * math.expm1(min(reject - accept, 0.0)))
    return min(1.0, rounded_up(delta * (1.0 + _LOST / mu)))


@lru_cache(maxsize=1024)
def gaussian_epsilon(mu, delta):
    """Smallest epsilon at which a ``mu``-GDP mechanism is (epsilon, delta)-private; mu is rounded up."""
    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return math.inf
    import dp_accounting

    with np.errstate(all="ignore"):  # On its way the search passes deltas of zero.
        mu = max(mu, SMALLEST_MU)
        epsilon = float(dp_accounting.get_epsilon_gaussian(1.0 / mu, delta))
    return epsilon + _ROOT_ERROR * (1.0 + epsilon) if epsilon > 0 else 0.0


@lru_cache(maxsize=1024)
def gaussian_mu(epsilon, delta):
    """Largest mu for which ``mu``-GDP implies (epsilon, delta)-privacy, with epsilon capped at 1e9.

    Raises
    ------
    TooSmallBudget
        If mu would be below `SMALLEST_MU`.
    """
    if math.isinf(epsilon):
        return math.inf
    if delta == 0:
        return 0.0
    import dp_accounting

    epsilon = min(epsilon, LARGEST_EPSILON)
    if gaussian_epsilon(2.0 * SMALLEST_MU, delta) > epsilon:
        raise TooSmallBudget(
            f"epsilon={epsilon:g} at delta={delta:g} is too small for Gaussian noise to be accounted for: "
            "raise epsilon or delta."
        )
    # Roots are found to 1e-12; a distance from them keeps the ceiling for all that costs less, too.
    with np.errstate(all="ignore"):
        mu = 1.0 / float(dp_accounting.get_sigma_gaussian(epsilon, delta)) * (1.0 - 1e-10)
    # Of an epsilon below 1e-2, errors of roots are more than that distance.
    step, room = 1e-10, min(2.0 * _ROOT_ERROR, 1e-3 * epsilon) if epsilon < 1e-2 else 0.0
    while gaussian_epsilon(mu * (1.0 + 9e-11), delta) + room > epsilon:
        mu *= 1.0 - step
        step *= 2.0
    return mu


# Zero-concentrated differential privacy, in Rényi orders: ``D_alpha <= rho alpha`` for all
# ``alpha > 1``.
#
#     epsilon(delta)     = min over alpha of  rho alpha + log(1 - 1/alpha) - log(delta alpha) / (alpha - 1)
#  log delta(epsilon) = min over alpha of  (alpha - 1) (rho alpha - epsilon + log(1 - 1/alpha)) - log(alpha)
#
# over a grid of orders around the best one (Canonne, Kamath and Steinke, 2020, Prop. 12). From
# ``D_1 <= rho`` it follows that ``delta(0)^2 <= 1 - exp(-rho)`` (Bretagnolle and Huber, 1979).


# Least rho: smaller ones are rounded up to it, so that products of three numbers are doubles.
_LEAST_RHO = 1e-90
# Largest rho, and largest epsilon: larger ones are rounded down to it.
_LARGEST_RHO = 1e90


def zcdp_epsilon(rho, delta):
    """Smallest epsilon that follows from ``rho``-zCDP at ``delta``."""
    if rho == 0:
        return 0.0
    if delta == 0 or rho > _LARGEST_RHO:
        return math.inf
    rho = max(rho, _LEAST_RHO)
    log_delta = math.log(delta)
    if 2.0 * log_delta >= _log_square(rho):
        return 0.0
    above, alpha = _orders(math.sqrt(-log_delta / rho))
    epsilon = rho * alpha + np.log(above / alpha) - (log_delta + np.log(alpha)) / above
    return max(0.0, float(epsilon.min()))


def zcdp_delta(rho, epsilon):
    """Smallest delta that follows from ``rho``-zCDP at ``epsilon``."""
    if rho == 0:
        return 0.0
    if rho > _LARGEST_RHO:
        return 1.0
    rho, epsilon = max(rho, _LEAST_RHO), min(epsilon, _LARGEST_RHO)
    above, alpha = _orders(min(max(epsilon / (2.0 * rho), 1e-2), _LARGEST_RHO))
    log_delta = above * (rho * alpha - epsilon + np.log(above / alpha)) - np.log(alpha)
    return rounded_up(math.exp(min(0.0, _log_square(rho) / 2.0, float(log_delta.min()))))


def _orders(best):
    """``alpha - 1`` and ``alpha``."""
    above = best * np.geomspace(0.02, 50.0, 1000)
    return above, 1.0 + above


def _log_square(rho):
    return math.log(-math.expm1(-rho))
