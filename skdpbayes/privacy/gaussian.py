"""Gaussian differential privacy, and its conversion to (epsilon, delta) and back.

    delta(eps) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)

(Balle and Wang, 2018; Dong, Roth and Su, 2022). What is computed is rounded to the safe side.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr

from .deltas import rounded_up

# The two terms of a Gaussian's delta cancel to within mu. Below this value too few digits
# would remain, so a smaller mu is rounded up to it.
SMALLEST_MU = 1e-7
# What is added to a conversion: roots are found to 1e-12, and of a delta less than 1e-11 / mu is lost.
_ROOT = 1e-12
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
    return epsilon + _ROOT * (1.0 + epsilon) if epsilon > 0 else 0.0


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
    step, room = 1e-10, min(2.0 * _ROOT, 1e-3 * epsilon) if epsilon < 1e-2 else 0.0
    while gaussian_epsilon(mu * (1.0 + 9e-11), delta) + room > epsilon:
        mu *= 1.0 - step
        step *= 2.0
    return mu
