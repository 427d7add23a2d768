"""How to share a budget among releases, and where to clip, from public numbers: a recursion of errors.

    err_{k+1}^-2 = err_k^-2 + 1 / (length (q C t sigma_k / (m_k n c))^2 + rho^2 err_k^2 / 2),
    sigma_k^2 = s^2 + err_k^2,      tau_k = t sigma_k,      c = P(|N(0, 1)| < t)

``m_k`` is the ``mu`` of look ``k``, ``rho`` what is not known of the curvature. ``t`` makes
``(q C t / m)^2 + n E psi^2``, over ``c^2``, least, with the ``m`` of all looks together. Errors are relative
to the bound of responses. Weights are taken to be near their maximum, by which noise and sums are both
larger: how many are not is private.

Rows beyond ``C`` count less. Where means are linear that costs little, and elsewhere it aims at other
coefficients than those of least squares. So ``C``, and ``K`` of second moments, are as large as they can be
without an error, sampling included, that is much larger than before.
"""

import math
from itertools import product
from typing import NamedTuple

import numpy as np

from .clipped_normal import clipped_normal

# C^2 and K^2 over the mean square of whitened rows: least, larger ones of both, K^2 over C^2, and the most.
CLIPPING = 1.3
_CLIPPINGS, _RATIOS, _MOST_CLIPPING = (2.0, 3.0, 5.0, 8.0, 12.0), (2.0, 4.0), 24.0
# By how much both, and then ``K`` alone, may make the error larger, and the most that may be unknown of the
# curvature then.
_TOLERANCE, _MOST_UNKNOWN = 0.03, 0.001
# Of all sizes before the first look.
SIZE_SHARE = 0.01
_MOMENTS, _CURVATURES = (0.08, 0.15, 0.25), (0.12, 0.2, 0.3)
_MOST_LOOKS, _GROWTHS = 7, (1.0, 1.5, 2.0, 3.0)
# The bound of responses over the errors' deviation, and over the responses'.
ERRORS, _RESPONSES = 0.05, 1.0 / 3.0
# The part of the second moment's noise that the curvature inherits from it.
_OF_MOMENT = 3.0
# Clips over the residuals' deviation.
_CLIPS = np.linspace(1.2, 2.5, 27)
_UNIT = clipped_normal(0.0, 1.0, _CLIPS)
# Of the matrix of squares of errors, and the most noise on its diagonal, over its expected size, for which it
# is released.
_ERRORS_SHARE, _MOST_NOISE = 0.04, 0.3
# Of the mean of residuals at a wide clip; the least such clip, over their deviation; the noise on the mean
# that is aimed at, over what sampling has; the most, over their deviation, for which it is released.
_TAILS_SHARE, _LEAST_TAILS, _OF_SAMPLING, _MOST_TAILS = 0.08, 3.5, 0.5, 0.25
# The most noise on ``M`` for which wider clipping is taken: it hides how much errors vary.
_LITTLE_NOISE = 0.1


class Clippings(NamedTuple):
    """``C^2`` and ``K^2`` over the mean square of whitened rows."""

    rows: float = CLIPPING
    matrices: float = CLIPPING


class Shares(NamedTuple):
    """Shares of ``mu^2``: of the second moment, the curvature, all sizes, errors, each look, and tails."""

    moment: float
    curvature: float
    sizes: float
    errors: float
    looks: tuple
    tails: float = 0.0


def best_clip(n_samples, reach, mu):
    """Return (clip over the deviation, slope) with which looks say most.

    Parameters
    ----------
    n_samples : float
    reach : float
        ``q C``.
    mu : float
        Of all looks together.
    """
    best = np.argmin(((reach / mu * _CLIPS) ** 2 + n_samples * _UNIT.square) / _UNIT.slope**2)
    return float(_CLIPS[best]), float(_UNIT.slope[best])


def tails_clip(n_samples, multiplier, moved):
    """Return the wide clip over the deviation of residuals.

    Parameters
    ----------
    n_samples : int
    multiplier : float
        Of the noise on their sum.
    moved : int
        As for `share_budget`.
    """
    return max(_LEAST_TAILS, _OF_SAMPLING * math.sqrt(n_samples) / (moved * multiplier))


def share_budget(n_samples, length, mu, moved, has_intercept=True):
    """Return `Shares`, `Clippings`, and the expected error over the bound of responses.

    Parameters
    ----------
    n_samples, length : int
    mu : float
        Of the whole budget.
    moved : int
        ``q``: how many records' contributions differ between neighbours.
    has_intercept : bool, default=True
        Without one nothing is asked of the mean of errors.
    """
    known = n_samples, length, mu, moved
    noise = moved * _LEAST_TAILS / (n_samples * mu * math.sqrt(_TAILS_SHARE))
    tails = _TAILS_SHARE if has_intercept and noise < _MOST_TAILS else 0.0
    shares, _ = _best_shares(*known, Clippings(), tails)
    wider = [Clippings(value, value) for value in _CLIPPINGS]
    clippings = _widest(*known, Clippings(), wider, shares)
    rows = clippings.rows
    wider = [Clippings(rows, min(ratio * rows, _MOST_CLIPPING)) for ratio in _RATIOS]
    clippings = _widest(*known, clippings, wider, shares)
    shares, error = _best_shares(*known, clippings, tails)
    return shares, clippings, error


def _widest(n_samples, length, mu, moved, clippings, wider, shares):
    """Return the widest `Clippings` that cost little and leave matrices what they say."""
    known, sampling = (n_samples, length, mu, moved), ERRORS * math.sqrt(length / n_samples)
    most = math.hypot(sampling, _expected_error(*known, clippings, shares)) * (1.0 + _TOLERANCE)
    for way in wider:
        is_drowned = bool(shares.errors) and _noise_of_errors(*known, way) > _LITTLE_NOISE
        if way.matrices > way.rows:
            is_drowned |= _unknown(*known, way, shares) > _MOST_UNKNOWN
        if is_drowned or math.hypot(sampling, _expected_error(*known, way, shares)) > most:
            break
        clippings = way
    return clippings


def _best_shares(n_samples, length, mu, moved, clippings, tails=0.0):
    """Return the `Shares` whose expected error is least, and that error."""
    best, least = None, math.inf
    errors = _share_of_errors(n_samples, length, mu, moved, clippings)
    ways = product(_MOMENTS, _CURVATURES, range(1, _MOST_LOOKS + 1), _GROWTHS)
    for moment, curvature, n_looks, growth in ways:
        looks = growth ** np.arange(n_looks)
        looks *= (1.0 - SIZE_SHARE - errors - tails - moment - curvature) / looks.sum()
        shares = Shares(moment, curvature, SIZE_SHARE, errors, tuple(looks.tolist()), tails)
        error = _expected_error(n_samples, length, mu, moved, clippings, shares)
        if error < least * (1.0 - 1e-3):
            best, least = shares, error
    return best, least


def _share_of_errors(n_samples, length, mu, moved, clippings):
    """Return the share of ``M``, or 0 if noise would hide it."""
    noise = _noise_of_errors(n_samples, length, mu, moved, clippings)
    return _ERRORS_SHARE if noise < _MOST_NOISE else 0.0


def _noise_of_errors(n_samples, length, mu, moved, clippings):
    """Return the noise on the diagonal of ``M`` over its expected size."""
    clip, _ = best_clip(n_samples, moved * math.sqrt(clippings.rows * length), mu)
    square = clippings.matrices * length * clip**2 / float(clipped_normal(0.0, 1.0, clip).square)
    return math.sqrt(moved) * square / (n_samples * mu * math.sqrt(_ERRORS_SHARE))


def _unknown(n_samples, length, mu, moved, clippings, shares):
    """Return ``rho^2``."""
    each = shares.curvature / clippings.matrices**2 + shares.moment / _OF_MOMENT**2
    return min(length**3 / (2.0 / moved * (mu * n_samples) ** 2 * each), 1.0)


def _expected_error(n_samples, length, mu, moved, clippings, shares):
    """Return the error of the last look by the recursion, over the bound of responses."""
    unknown = _unknown(n_samples, length, mu, moved, clippings, shares)
    reach = moved * math.sqrt(clippings.rows * length)
    precision, whole = _RESPONSES**-2, mu * math.sqrt(sum(shares.looks))
    for share in shares.looks:
        m = mu * math.sqrt(share)
        square = ERRORS**2 + 1.0 / precision
        clip, slope = best_clip(n_samples, reach, whole)
        noise = length * square * (reach * clip / (m * n_samples * slope)) ** 2
        precision += 1.0 / (noise + 0.5 * unknown / precision)
    return precision**-0.5
