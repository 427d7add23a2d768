"""How to share a budget among releases, from public numbers: a recursion of expected errors.

    err_{k+1}^-2 = err_k^-2 + 1 / (length (q C t sigma_k / (m_k n c))^2 + rho^2 err_k^2 / 2),
    sigma_k^2 = s^2 + err_k^2,      tau_k = t sigma_k,      c = P(|N(0, 1)| < t)

``m_k`` is the ``mu`` of look ``k``, ``rho`` what is not known of the curvature. ``t`` makes
``(q C t / m)^2 + n E psi^2``, over ``c^2``, least. Errors are relative to the bound of responses. Weights are
taken to be near their maximum, by which noise and sums are both larger: how many are not is private.
"""

import math
from itertools import product
from typing import NamedTuple

import numpy as np

from .clipped_normal import clipped_normal

# C^2 over the mean square of whitened rows.
CLIPPING = 1.3
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
_ERRORS_SHARE, _MOST_NOISE = 0.04, 0.7


class Shares(NamedTuple):
    """Shares of ``mu^2``: of the second moment, the curvature, all sizes, errors, and each look."""

    moment: float
    curvature: float
    sizes: float
    errors: float
    looks: tuple


def best_clip(n_samples, reach, mu):
    """Return (clip over the deviation, slope) with which a look of a given ``mu`` says most.

    Parameters
    ----------
    n_samples : float
    reach : float
        ``q C``.
    mu : float
    """
    best = np.argmin(((reach / mu * _CLIPS) ** 2 + n_samples * _UNIT.square) / _UNIT.slope**2)
    return float(_CLIPS[best]), float(_UNIT.slope[best])


def share_budget(n_samples, length, mu, moved):
    """Return the `Shares` whose expected error is least, and that error over the bound of responses.

    Parameters
    ----------
    n_samples, length : int
    mu : float
        Of the whole budget.
    moved : int
        ``q``: how many records' contributions differ between neighbours.
    """
    best, least = None, math.inf
    errors = _share_of_errors(n_samples, length, mu, moved)
    ways = product(_MOMENTS, _CURVATURES, range(1, _MOST_LOOKS + 1), _GROWTHS)
    for moment, curvature, n_looks, growth in ways:
        each = curvature / CLIPPING**2 + moment / _OF_MOMENT**2
        known = 2.0 / moved * (mu * n_samples) ** 2 / length**3 * each
        looks = growth ** np.arange(n_looks)
        looks *= (1.0 - SIZE_SHARE - errors - moment - curvature) / looks.sum()
        error = _expected_error(n_samples, length, mu, moved, looks, min(1.0 / known, 1.0))
        if error < least * (1.0 - 1e-3):
            best, least = (
                Shares(moment, curvature, SIZE_SHARE, errors, tuple(looks.tolist())),
                error,
            )
    return best, least


def _share_of_errors(n_samples, length, mu, moved):
    """Return the share of ``M``, or 0 if noise would hide it."""
    square = CLIPPING * length * float(_CLIPS[-1] ** 2 / _UNIT.square[-1])
    noise = math.sqrt(moved) * square / (n_samples * mu * math.sqrt(_ERRORS_SHARE))
    return _ERRORS_SHARE if noise < _MOST_NOISE else 0.0


def _expected_error(n_samples, length, mu, moved, shares, unknown):
    reach = moved * math.sqrt(CLIPPING * length)
    precision = _RESPONSES**-2
    for share in shares:
        m = mu * math.sqrt(share)
        square = ERRORS**2 + 1.0 / precision
        clip, slope = best_clip(n_samples, reach, m)
        noise = length * square * (reach * clip / (m * n_samples * slope)) ** 2
        precision += 1.0 / (noise + 0.5 * unknown / precision)
    return precision**-0.5
