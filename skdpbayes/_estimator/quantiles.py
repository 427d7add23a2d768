"""Quantiles of mixtures of a law over draws, of many rows at once.

    F(t) = mean over draws of P(y <= t | x, theta) = q,       t_{n+1} = t_n - (g(t_n) - g(q)) / slope

with secants of ``g = Phi^-1(F)``, which is nearly linear in numbers, and in square roots of counts. Brackets
are kept, and a secant that leaves them is replaced by their middle. Rows whose quantile is found are done
with.
"""

import numpy as np
from scipy.special import ndtri

# Evaluations at most, how many come between two that halve a bracket, and the error of a number that is left,
# relative to the deviation of its law.
_MOST, _HALVED, _ENOUGH = 200, 8, 1e-7
# Relative error of a count that is left: larger ones are not exact.
_OF_COUNT = 1e-9
# Probabilities are kept from 0 and 1, and counts within the square root.
_LEAST, _IN_ROOT = 1e-16, 0.75


@np.errstate(invalid="ignore", over="ignore")
def mixture_quantile(law, probability, logits, noise):
    """Return quantiles of mixtures of a law over draws.

    Parameters
    ----------
    law : NumberFamily
    probability : float
        In (0, 1).
    logits : ndarray of shape (n_rows, n_draws)
    noise : ndarray of shape (n_draws,) or None

    Returns
    -------
    quantiles : ndarray of shape (n_rows,)
        Of whole numbers the least that has at least the probability.
    """
    wanted, whole = ndtri(probability), law.whole_numbers
    found, slope, width = _guess(law, probability, wanted, logits, noise)
    low, high = np.full(found.size, -1.0 if whole else -np.inf), np.full(found.size, np.inf)
    active, last = np.arange(found.size), None
    for turn in range(1, _MOST + 1):
        x = found[active]
        share = law.cdf(x[:, None], logits[active], noise).mean(axis=1)
        above = share >= probability
        low[active], high[active] = (
            np.where(above, low[active], x),
            np.where(above, x, high[active]),
        )
        off = ndtri(np.clip(share, _LEAST, 1.0 - _LEAST)) - wanted
        at = np.sqrt(x + _IN_ROOT) if whole else x
        if last is not None:
            change = (off - last[1]) / np.where(at == last[0], 1.0, at - last[0])
            slope = np.where((change > 0.0) & np.isfinite(change), change, slope)
        step = off / slope
        new = _within(at - step, low[active], high[active], whole, turn % _HALVED == 0)
        if whole:
            left = high[active] - low[active] > np.maximum(1.0, _OF_COUNT * low[active])
            new = np.where(left, new, high[active])
        else:
            left = np.abs(new - x) > _ENOUGH * width[active]
        found[active] = new
        if not left.any():
            break
        active, last, slope = active[left], (at[left], off[left]), slope[left]
    return found


def _guess(law, probability, wanted, logits, noise):
    """Return about where quantiles are, slopes of probits there, and a deviation of the law."""
    means, whole = law.prediction(logits), law.whole_numbers
    middle, tail = np.quantile(means, [0.5, probability], axis=1)
    if whole:
        own = np.sqrt(middle * (1.0 if noise is None else np.mean(noise)))
    else:
        own = np.full(middle.size, np.sqrt(np.mean(noise**2)))
    away = np.hypot(tail - middle, wanted * own)
    width = np.maximum(np.maximum(own, away), 1e-300)
    guess = middle + np.sign(wanted) * away
    if not whole:
        return guess, abs(wanted) / np.maximum(away, 1e-300) if wanted else 1.0 / width, width
    guess = np.floor(np.maximum(guess, 0.0))
    # The square root of a count has a deviation of a half, about.
    return guess, np.minimum(2.0, 2.0 * np.sqrt(middle + _IN_ROOT) / width), width


def _within(at, low, high, whole, halve):
    """Return where to go on: within brackets, and at a whole number if these are wanted."""
    middle = 0.5 * (low + high)
    if whole:
        at = np.ceil(np.maximum(at, 0.0) ** 2 - _IN_ROOT)
        # Without an upper bracket at most by a few times as much.
        at = np.minimum(at, np.where(np.isfinite(high), high - 1.0, 4.0 * low + 8.0))
        at, middle = np.maximum(at, low + 1.0), np.ceil(middle)
    is_out = (at <= low) | (at >= high) | halve
    return np.where(is_out & np.isfinite(middle), middle, at)
