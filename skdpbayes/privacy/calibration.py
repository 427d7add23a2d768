"""Calibration: sums of decreasing steps, and the smallest argument that a budget affords.

    sum_{k=1}^T k^-a,        min { x > 0 : excess(x) <= 0 }

Everything here is a function of public numbers.
"""

import itertools
import math

import numpy as np

# A plan of more steps than this is refused.
MAX_STEPS = 10**9
# Decreasing steps are accounted in so many runs of equal noise.
_NOISE_LEVELS = 24


def power_sum(n_steps, decay):
    """Return ``sum_{k=1}^T k^-a``, by Euler and Maclaurin's formula beyond the first terms."""
    if decay == 0:
        return float(n_steps)
    head = min(n_steps, 2048)
    total = float(np.sum(np.arange(1, head + 1, dtype=np.float64) ** -decay))
    if n_steps == head:
        return total
    first, last = float(head + 1), float(n_steps)
    integral = (last ** (1 - decay) - first ** (1 - decay)) / (1 - decay)
    ends = (first**-decay + last**-decay) / 2
    slope = decay * (first ** (-decay - 1) - last ** (-decay - 1)) / 12
    return total + integral + ends + slope


def steps_for(relative_time, decay):
    """Return the smallest number of steps with ``sum of k^-decay >= relative_time``."""
    relative_time *= 1 - 1e-12
    if decay == 0:
        return math.ceil(relative_time)
    low, high = 0, 1
    while power_sum(high, decay) < relative_time:
        low, high = high, 2 * high
        if high > MAX_STEPS:
            return 2 * MAX_STEPS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if power_sum(middle, decay) < relative_time else (low, middle)
    return high


def levels(n_steps, decay):
    """Cut the steps 1..T into runs of similar noise: [(first step, how many)].

    Noise grows with ``k``, so accounting a run at its first step's noise rounds it down.
    """
    if decay == 0:
        return [(1, n_steps)]
    firsts = np.unique(np.geomspace(1, n_steps + 1, _NOISE_LEVELS + 1).astype(np.int64))
    return [(int(a), int(b - a)) for a, b in itertools.pairwise(firsts)]


def gaussian_limit(cost):
    """Return the mu of a cost in the limit of many small parts, which is Gaussian."""
    shift = 2.0 if cost.neighboring_relation == "replace_one" else 1.0
    limit = sum(p.count * (shift * p.sampling_rate / p.noise_multiplier) ** 2 for p in cost.sampled)
    limit += sum(p.count * (shift * p.rate / p.noise_multiplier) ** 2 for p in cost.counted)
    limit += sum(p.count * p.log_odds_range**2 / 4.0 for p in cost.bits)
    return math.sqrt(limit + cost.mu**2 + 2.0 * cost.rho)


def smallest_within(excess, guess, tolerance):
    """Return the smallest x > 0 with ``excess(x) <= 0``, where the excess falls with x.

    The answer has an excess in ``[-tolerance, 0]``, or the bracket is down to rounding: false
    position (the Illinois variant), safeguarded by halving.
    """
    low, high, width = 0.0, guess, 0.02
    value_low, value_high = math.inf, excess(high)
    while value_high > 0:
        low, value_low = high, value_high
        high, width = high + width, 4 * width
        if high > 700:
            raise ValueError("no schedule stays within the budget: raise epsilon or delta.")
        value_high = excess(high)
    while math.isinf(value_low) and high - low > width and value_high < -tolerance:
        probe = max(low, high - width)
        value = excess(probe)
        if value > 0:
            low, value_low = probe, value
        else:
            high, value_high, width = probe, value, 4 * width
    best = value_high
    while best < -tolerance and high - low > 1e-14 * high:
        middle = 0.5 * (low + high)
        if math.isfinite(value_low):
            # Aim just inside the budget, so that the answer is feasible at once.
            share = (value_low + 0.3 * tolerance) / (value_low - value_high)
            middle = low + min(max(share, 0.01), 0.99) * (high - low)
        value = excess(middle)
        if value > 0:
            low, value_low, value_high = middle, value, 0.5 * value_high
        else:
            high, value_high, best, value_low = middle, value, value, 0.5 * value_low
    return high
