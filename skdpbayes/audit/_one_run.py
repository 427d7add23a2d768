"""Bounds from guesses about many records at once, each of which was in a table by the throw of a coin.

    P(V >= v) <= P(B >= v) + 2 m delta max_i P(v > B >= v - i) / i,      B ~ Binomial(r, 1 / (1 + e^-epsilon))

for ``v`` right ones of ``r`` guesses about ``m`` coins, if the mechanism is (epsilon, delta)-private where
one coin is turned (Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023,
Theorem 5.2). If it is ``mu``-GDP, with ``p_i = P(V = i)`` and for every ``c``

    A_c <= Phi(Phi^-1(B_(c-1)) + mu),    A_c = sum_(i >= c) i p_i / m,    B_c = sum_(i >= c) (r - i) p_i / m

(Mahloujifar, Melis and Chaudhuri, "Auditing f-differential privacy in one run", 2024): being right about a
random coin while at least ``c - 1`` others are guessed right, against being wrong then. From
``P(V >= v) = s`` on, that leaves a least total probability; where it exceeds 1, ``P(V >= v) < s``.

Runs are independent: ``m`` and ``r`` are added up, because turning a coin changes a single run.
"""

import math

import numpy as np
from scipy.special import bdtrc, ndtr, ndtri

from ..privacy.gaussian import SMALLEST_MU

# Shares of the canaries that are guessed, and of the error for each. Few sure guesses are best for a large
# epsilon, about a quarter for claims of mu, and all for coins that are as sure as each other.
_SHARES = {"epsilon": (1.0, 0.25, 0.05), "mu": (1.0, 0.25, 0.05)}
_ERRORS = {"epsilon": (1 / 3, 1 / 3, 1 / 3), "mu": (0.1, 0.8, 0.1)}
_LARGEST = 64.0


def p_value(n_canaries, n_guesses, n_right, epsilon, delta):
    """Return a bound on how likely so many right guesses are under (epsilon, delta)."""
    q = 1.0 / (1.0 + math.exp(-epsilon))
    at_least = bdtrc(n_right - 1, n_guesses, q)
    if delta == 0:
        return float(at_least)
    i = np.arange(1, n_right + 1)
    steepest = np.max((bdtrc(n_right - i - 1, n_guesses, q) - at_least) / i, initial=0.0)
    return min(1.0, float(at_least + 2.0 * n_canaries * delta * steepest))


def refutes_mu(n_canaries, n_guesses, n_right, mu, error):
    """Tell whether so many right guesses are less likely than ``error`` under ``mu``-GDP."""
    m, r = n_canaries, n_guesses
    right, wrong = error * n_right / m, error * (r - n_right) / m
    for i in range(n_right - 1, -1, -1):
        needed = float(ndtr(ndtri(right) - mu))
        if needed <= wrong:
            return False  # From here on nothing changes.
        right, wrong = right + i / (r - i) * (needed - wrong), needed
        if right + wrong > r / m:
            return True
    return False


def epsilon_of_guesses(n_canaries, n_guesses, n_right, delta, error):
    """Return the largest epsilon that so many right guesses refute."""

    def is_refuted(epsilon):
        return p_value(n_canaries, n_guesses, n_right, epsilon, delta) < error

    return _largest(is_refuted)


def mu_of_guesses(n_canaries, n_guesses, n_right, error):
    """Return the largest ``mu`` that so many right guesses refute."""

    def is_refuted(mu):
        return refutes_mu(n_canaries, n_guesses, n_right, max(mu, SMALLEST_MU), error)

    return _largest(is_refuted)


def _largest(is_refuted):
    """Return the end of what is refuted, from below; 0 if nothing is."""
    if not is_refuted(0.0):
        return 0.0
    if is_refuted(_LARGEST):
        return _LARGEST
    low, high = 0.0, _LARGEST
    while high - low > 1e-5:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low


def bound_of_guesses(scores, inside, claim, delta, error):
    """Return the best bound on epsilon or ``mu``, the choice of how many to guess being paid for.

    Parameters
    ----------
    scores : ndarray of shape (n_canaries,)
        Large for canaries that seem to be in: the largest are guessed to be in, as many smallest to be out.
    inside : ndarray of shape (n_canaries,), bool
    claim : {"epsilon", "mu"}
    delta, error : float
    """
    order, best = np.argsort(scores, kind="stable"), 0.0
    for share, part in zip(_SHARES[claim], _ERRORS[claim], strict=True):
        half = max(1, round(0.5 * share * scores.size))
        high, low = order[-half:], order[: min(half, scores.size - half)]
        right = int(inside[high].sum() + (~inside[low]).sum())
        sizes = scores.size, high.size + low.size, right
        if claim == "epsilon":
            best = max(best, epsilon_of_guesses(*sizes, delta, part * error))
        else:
            best = max(best, mu_of_guesses(*sizes, part * error))
    return best
