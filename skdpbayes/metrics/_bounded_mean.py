"""How the mean of bounded numbers is released, with its interval.

    mean = (S + noise) / n,    S = sum_i u_i,   u_i in [0, 1], rounded to multiples of 2^-24

Under ``replace_one``, ``n`` is public and ``S`` changes by at most 1. Under ``add_or_remove_one``, ``n`` is
private: ``(sum u_i, sum (1 - u_i))`` is released, which changes by exactly 1 in L1 norm, and whose sum is a
noisy ``n``. If the numbers are not all 0 or 1, a tenth of epsilon is spent on ``sum u_i^2``, for the interval
only. Of persons with several rows, ``u_i`` is the mean over all rows of a person, as in `_persons`.
"""

import math
from functools import partial

import numpy as np

from .._checks import is_number
from .._mechanisms.discrete_laplace import laplace_scale, with_noise
from ..privacy.written import as_written, most_below
from ._interval import inverted
from ._persons import means_of, persons_of, relation_of
from ._plan import plan_score, spend, warn_if_drowned
from ._result import PrivateScore

UNIT = 2**24

# Smallest distance of bounds, and their largest size: of both, squares are normal doubles.
LEAST = 1e-150
_MOST = 1e150
# Bounds of a mean, of which nothing is squared.
_MOST_OF_MEAN = 1e300


def _levels(epsilon):
    """Split epsilon into a part for the sum and one for the sum of squares, exactly as they are written."""
    if math.isinf(epsilon):
        return epsilon, epsilon
    whole = as_written(epsilon)
    for_sum = most_below(whole * 9 / 10)
    return for_sum, most_below(whole - as_written(for_sum))


def checked_bounds(bounds, name="bounds"):
    """Return public bounds as doubles, of which differences and their squares are normal ones."""
    if len(bounds) != 2 or not all(is_number(b) and math.isfinite(b) for b in bounds):
        raise ValueError(f"{name} must be two finite numbers, got {bounds!r}.")
    low, high = map(float, bounds)
    if not low < high:
        raise ValueError(f"{name} must be (low, high) with low < high, got {bounds!r}.")
    most, least = (
        (_MOST, LEAST) if name == "target_bounds" else (_MOST_OF_MEAN, 1.0 / _MOST_OF_MEAN)
    )
    if max(-low, high) > most or high - low < least:
        raise ValueError(
            f"{name} must be within {most:g} of 0 and at least {least:g} apart, got {bounds!r}: choose "
            "another unit."
        )
    return low, high


def bounded_mean(name, shares, epsilon, delta, relation, groups, random_state, low, high):
    """Release the mean of ``low + (high - low) * shares``, over rows or over persons."""
    persons = persons_of(groups, len(shares))
    shares, relation = means_of(shares, persons), relation_of(relation, persons)
    plan = plan_score(name, epsilon, delta, relation, len(shares), _levels(float(epsilon)))
    units = np.rint(shares * UNIT).astype(np.int64)
    squares = np.rint(np.square(shares) * UNIT).astype(np.int64)
    return mean_of(units, UNIT, plan, random_state, low, high, squares)


def mean_of(units, unit, plan, random_state, low=0.0, high=1.0, squares=None):
    """Release ``low + (high - low) mean(units) / unit``, with its interval.

    ``squares`` are those of the numbers, in ``UNIT``; without them all numbers are 0 or 1.
    """
    epsilon = plan.budget.epsilon
    level, other = (epsilon, None) if squares is None else _levels(epsilon)
    scale = laplace_scale(unit, level)
    noise = float(scale) / unit
    other_scale = scale if squares is None else laplace_scale(UNIT, other)
    generator, second = spend(plan, random_state, noise), None
    if squares is not None:
        # Proposition 40.
        square = with_noise([squares.sum()], other_scale, generator, epsilon=other)[0]
        second = square / UNIT, float(other_scale) / UNIT
    sums = [units.sum()] if plan.replaces else [units.sum(), (unit - units).sum()]
    sums = with_noise(sums, scale, generator, epsilon=level) / unit  # Proposition 40.
    size = float(plan.n_samples if plan.replaces else max(sums.sum(), 0.0))
    share = float(np.clip(sums[0] / size, 0.0, 1.0)) if size > 0 else 0.5
    if not plan.replaces:
        warn_if_drowned(plan, noise, size)
    at = partial(
        _interval_of_mean, sums[0], size, noise, plan.replaces, second, share, low, high - low
    )
    return PrivateScore(low + (high - low) * share)._release(plan, at)


def _interval_of_mean(total, size, noise, replaces, second, share, low, width, level):
    """Return the interval of a mean at a level."""
    if size <= 0:
        return low, low + width
    largest, wanted = math.inf, level
    if second is not None:
        # A tenth of the error probability is spent on an upper bound of the second moment.
        risk = 0.1 * (1.0 - level)
        largest = (second[0] - second[1] * math.log(2.0 * risk)) / size
        wanted = level + risk

    def spread(value):
        variance = max(0.0, min(value * (1.0 - value), largest - value**2))
        weights = [noise] if replaces else [noise * (1.0 - value), noise * value]
        return math.sqrt(size * variance), weights

    ends = inverted(lambda value: total - value * size, spread, share, wanted)
    return low + width * ends[0], low + width * ends[1]
