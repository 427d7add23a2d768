"""Bounds from guesses about many records at once, each of which was in a table by the throw of a coin.

    P(V >= v) <= P(B >= v) + 2 m delta max_i P(v > B >= v - i) / i,      B ~ Binomial(r, 1 / (1 + e^-epsilon))

for ``v`` right ones of ``r`` guesses about ``m`` coins, if the mechanism is (epsilon, delta)-private where
one coin is turned (Steinke, Nasr and Jagielski, "Privacy auditing with one (1) training run", NeurIPS 2023,
Theorem 5.2). Claims of ``mu`` are in `_ranked_guesses`.

Runs are independent: ``m`` and ``r`` are added up, because turning a coin changes a single run.
"""

import math

import numpy as np
from scipy.special import bdtrc

# Shares of the canaries that are guessed, at a third of the error each: few sure guesses are best for a large
# epsilon, and all for coins that are as sure as each other.
_SHARES = (1.0, 0.25, 0.05)
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


def epsilon_of_guesses(n_canaries, n_guesses, n_right, delta, error):
    """Return the largest epsilon that so many right guesses refute."""

    def is_refuted(epsilon):
        return p_value(n_canaries, n_guesses, n_right, epsilon, delta) < error

    if not is_refuted(0.0):
        return 0.0
    if is_refuted(_LARGEST):
        return _LARGEST
    low, high = 0.0, _LARGEST
    while high - low > 1e-5:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low


def epsilon_of_scores(scores, inside, delta, error):
    """Return the best bound on epsilon, the choice of how many to guess being paid for.

    Parameters
    ----------
    scores : ndarray of shape (n_canaries,)
        Large for canaries that seem to be in: the largest are guessed to be in, as many smallest to be out.
    inside : ndarray of shape (n_canaries,), bool
    delta, error : float
    """
    order, best = np.argsort(scores, kind="stable"), 0.0
    for share in _SHARES:
        half = max(1, round(0.5 * share * scores.size))
        high, low = order[-half:], order[: min(half, scores.size - half)]
        right = int(inside[high].sum() + (~inside[low]).sum())
        sizes = scores.size, high.size + low.size, right
        best = max(best, epsilon_of_guesses(*sizes, delta, error / len(_SHARES)))
    return best
