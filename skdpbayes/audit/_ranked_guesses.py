"""A bound on ``mu`` from guesses of two ranks, sure ones and others, about many coins in one run.

    W = 2 V_1 + V_2,      P(W >= w) <= max over p, R of sum_(c >= w) p_c

for ``V_k`` right ones of the ``r_k`` guesses of a rank, ``p_c = P(W = c)`` and ``R_kc = E[V_k; W = c]``, so
that ``2 R_1c + R_2c = c p_c`` and ``R_kc <= r_k p_c``. Turning one coin makes a right guess of rank ``k``
wrong, and ``W`` less by its weight ``w_k``. If the mechanism is ``mu``-GDP where one of ``m`` coins is
turned, then for every epsilon > 0, by the mean over coins (divergences are convex),

    sum_kc [R_kc - e^epsilon (r_k p_(c - w_k) - R_k(c - w_k))]_+
      + sum_kc [r_k p_c - R_kc - e^epsilon R_k(c + w_k)]_+  <=  m delta_mu(epsilon)

which is a linear programme. A few epsilons, and outcomes from half of all weight on, are conditions enough:
fewer make the maximum larger. Mahloujifar, Melis and Chaudhuri ("Auditing f-differential privacy in one run",
2024) have such a bound for one rank, by the first sums over upper sets of outcomes alone.
"""

import math
from functools import lru_cache

import numpy as np
from scipy import sparse
from scipy.optimize import brentq, linprog

from ..privacy.gaussian import gaussian_delta

WEIGHTS = (2, 1)
# Guesses are so many times the root of the number of canaries, and at most so many: what found most of a mu
# of .4 to 3, for normal scores of 20 to 1,000 canaries. Three of eight are sure ones.
_OF_ROOT, _MOST, _SURE = 5.0, 320, 3 / 8
# With fewer coins all guesses are right often enough by chance.
_FEWEST = 4
# Deviations of the privacy loss from its mean at which a condition is set.
_DEVIATIONS = np.linspace(0.8, 3.2, 9)
# What is searched, and how well.
_SMALLEST, _LARGEST, _ROOT = 0.05, 5.0, 1e-3


def mu_of_scores(scores, inside, error):
    """Return a bound on ``mu`` that is right with probability 1 - error.

    Parameters
    ----------
    scores : ndarray of shape (n_canaries,)
        Large for canaries that seem to be in: the largest are guessed to be in, as many smallest to be out.
    inside : ndarray of shape (n_canaries,), bool
    error : float
    """
    if scores.size < _FEWEST:
        return 0.0
    order, weight, start = np.argsort(scores, kind="stable"), 0, 0
    halves = halves_of(scores.size)
    for own, half in zip(WEIGHTS, halves, strict=True):
        places = np.arange(start, start + half)
        weight += own * int(inside[order[::-1][places]].sum() + (~inside[order[places]]).sum())
        start += half
    return mu_of_weight(scores.size, tuple(2 * half for half in halves), weight, error)


def halves_of(n_canaries):
    """Return how many canaries of either rank are guessed to be in, and as many to be out."""
    n_guesses = min(_OF_ROOT * math.sqrt(n_canaries), _MOST, n_canaries)
    sure = max(1, round(0.5 * _SURE * n_guesses))
    return sure, max(1, min(round(0.5 * (1.0 - _SURE) * n_guesses), n_canaries // 2 - sure))


@lru_cache(maxsize=1024)
def mu_of_weight(n_canaries, sizes, weight, error):
    """Return the largest ``mu`` under which ``W`` is less likely to be so large than ``error``."""

    def excess(mu):
        likely = largest_probability(n_canaries, sizes, weight, mu)
        return math.log(max(likely, 1e-12) / error)

    low, high = 0.0, _SMALLEST
    while excess(high) < 0:
        low, high = high, 4.0 * high
        if low >= _LARGEST:
            return low
    return float(brentq(excess, low, high, xtol=_ROOT)) - _ROOT if low else 0.0


def largest_probability(n_canaries, sizes, weight, mu):
    """Return a bound on P(W >= weight) under ``mu``-GDP.

    Parameters
    ----------
    n_canaries : int
    sizes : tuple of int
        Guesses of each rank.
    weight : int
        Of those that are right.
    mu : float
    """
    most = int(np.dot(sizes, WEIGHTS))
    outcomes = np.arange(min(most // 2, weight), most + 1)
    n, identity = outcomes.size, sparse.eye_array(outcomes.size)
    epsilons = mu * (0.5 * mu + _DEVIATIONS)
    moved = sparse.vstack([_moved(sizes, n, math.exp(epsilon)) for epsilon in epsilons])
    sums = sparse.kron(
        sparse.eye_array(epsilons.size), np.ones((1, moved.shape[0] // epsilons.size))
    )
    # Variables: p, R of either rank, and the positive parts of what has moved.
    at_most_all = [[-size * identity for size in sizes], sparse.eye_array(len(sizes) * n)]
    at_most_all = sparse.hstack([sparse.vstack(at_most_all[0]), at_most_all[1]])
    all_of_p = sparse.csr_array(np.r_[np.ones(n), np.zeros(len(sizes) * n)][None])
    at_most = sparse.block_array(
        [
            [at_most_all, None],
            [all_of_p, None],
            [moved, -sparse.eye_array(moved.shape[0])],
            [None, sums],
        ]
    )
    limits = np.zeros(at_most.shape[0])
    limits[len(sizes) * n] = 1.0
    limits[-epsilons.size :] = [n_canaries * gaussian_delta(mu, epsilon) for epsilon in epsilons]
    weights = [-sparse.diags_array(outcomes.astype(float)), *(own * identity for own in WEIGHTS)]
    equal = sparse.hstack([*weights, sparse.csr_array((n, moved.shape[0]))])
    goal = np.zeros(at_most.shape[1])
    goal[:n][outcomes >= weight] = -1.0
    found = linprog(goal, at_most.tocsr(), limits, equal.tocsr(), np.zeros(n), method="highs-ds")
    if not found.success:
        return 1.0  # What was not solved refutes nothing.
    # A solver is not exact. Prices of conditions bound the maximum, whatever they are, with the most that all
    # of a kind of variable can be together where their prices are too low.
    paid, other = np.maximum(-found.ineqlin.marginals, 0.0), -found.eqlin.marginals
    too_low = np.maximum(-goal - at_most.T @ paid - equal.T @ other, 0.0)
    of_outcomes, moves = np.split(too_low, [(1 + len(sizes)) * n])
    extra = of_outcomes.reshape(-1, n).max(axis=1) @ np.r_[1.0, sizes]
    extra += moves.reshape(epsilons.size, -1).max(axis=1) @ limits[-epsilons.size :]
    return min(1.0, float(paid @ limits + extra))


def _moved(sizes, n, factor):
    """Return the rows whose positive parts are added up for one epsilon."""
    identity, rows = sparse.eye_array(n), []
    for k, (size, weight) in enumerate(zip(sizes, WEIGHTS, strict=True)):
        below, above = sparse.eye_array(n, k=-weight), sparse.eye_array(n, k=weight)
        # Of the first outcomes those below are not among the variables.
        known = sparse.diags_array((np.arange(n) >= weight).astype(float))
        empty = [None] * len(sizes)
        right, wrong = [-factor * size * below, *empty], [size * identity, *empty]
        right[1 + k], wrong[1 + k] = known + factor * below, -identity - factor * above
        rows += [right, wrong]
    return sparse.block_array(rows)
