"""Sensitivity of sums that are released together.

    J = max  a |g - m|^2 / (b_1 C)^2 + b |F|^2 / (b_2 C^2)^2        over what one record can add, g and F

is the square of ``mu`` for multipliers ``a^(-1/2)`` of a score and ``b^(-1/2)`` of a curvature. ``m`` is 0,
and ``b_1`` the ``score_bound`` of the family. Scores are longest where a probability is 1, curvatures where
two are 1/2, so that a curvature is free if its multiplier is large enough. At a point that is known, logits
are bounded, and so is a score. If records are replaced, ``m`` may be any vector: what records add lies on one
side of zero, and a vector in the middle is best.
"""

import math

import numpy as np

# Number of angles that are tried. Values between them are allowed for.
_N_ANGLES = 4097
# Number of lengths of ``m`` that are tried.
_N_CENTRES = 33
# Logit bound beyond which little is saved. Rounding of points is allowed for up to it (Proposition 37).
_LARGEST_LOGIT_BOUND = 64.0
# Factor that allows for rounding.
_ROUNDING_FACTOR = 1.0 + 1e-9


def free_curvature(family):
    """The largest ``b / a`` at which a curvature adds nothing to the cost of its score."""
    return 0.5 * family.n_classes / (family.n_classes - 1)


def joint_mu_squared(family, score, curvature=0.0):
    """``J`` wherever the point is.

    Parameters
    ----------
    family : ClassFamily
    score, curvature : float
        ``a`` and ``b``: squares of the inverse noise multipliers.

    Returns
    -------
    mu_squared : float
        At least ``a``, at most ``a + b``.
    """
    return max(score, score * (1.0 - free_curvature(family)) + curvature)


def joint_mu_squared_at(family, logit_bound, replaces, score, curvature=0.0):
    """``J`` at a point where logits are bounded.

    Parameters
    ----------
    family : ClassFamily
    logit_bound : float
        For two classes the logit of a record of norm ``C`` along the point, otherwise the most by which
        logits of two classes differ.
    replaces : bool
        Whether a record is replaced.
    score, curvature : float
        As for `joint_mu_squared`.

    Returns
    -------
    mu_squared : float
        No larger than that of `joint_mu_squared`.
    """
    anywhere = joint_mu_squared(family, score, curvature)
    if family.n_classes > 2:
        # It is largest at the longest ``p - 1/K``, or where the norm of ``p`` is that of two halves.
        even = 1.0 / family.n_classes
        longest = _longest(family.n_classes, logit_bound) ** 2
        squares = np.array([min(longest, 0.5 - even), longest])
        slopes = (1.0 - even - squares) * np.minimum(even + squares, 1.0 - even - squares)
        candidates = score * squares / (1.0 - even) + 4.0 * curvature * slopes
        return min(anywhere, _ROUNDING_FACTOR * float(candidates.max()))
    if not logit_bound < _LARGEST_LOGIT_BOUND:
        return anywhere
    # Records of norm C at all angles to the point; those that are shorter or longer move it less.
    cosines = np.linspace(0.0, 1.0, _N_ANGLES)
    sizes, largest = np.tanh(0.5 * logit_bound * cosines), math.tanh(0.5 * logit_bound)
    centres = np.linspace(0.0, 0.5 * largest, _N_CENTRES)[:, None] if replaces else np.zeros((1, 1))
    of_curvatures = curvature * (1.0 - sizes**2) ** 2
    squares = -2.0 * centres * (sizes * cosines)
    squares += sizes**2
    np.maximum(squares, 0.0, out=squares)
    squares += centres**2
    # Bounds on the derivatives by cosines: of squares of sizes, of what centres take off, of curvatures.
    of_squares, of_centres = (
        logit_bound * min(0.4, largest),
        min(2.5, 4.0 * largest) * centres[:, 0],
    )
    slopes = score * (of_squares + of_centres)
    slopes += curvature * logit_bound * min(0.6, 2.0 * largest)
    squares *= score
    squares += of_curvatures
    candidates = np.max(squares, axis=1) + 0.5 * slopes / (_N_ANGLES - 1)
    return min(anywhere, _ROUNDING_FACTOR * float(candidates.min()))


def _longest(n_classes, logit_range):
    """The longest ``p - 1/K`` where logits of two classes differ by at most ``logit_range``.

    The probabilities with ``p_i <= exp(logit_range) p_j`` are a polytope whose corners have two values, and a
    norm is largest at a corner.
    """
    larger = np.arange(1, n_classes)  # How many have the larger one.
    growth = math.expm1(min(logit_range, 700.0))
    # Between the values. Squares of the norms of p, less 1/K, would be lost in rounding.
    apart = growth / (n_classes + larger * growth)
    return float(np.max(apart * np.sqrt(larger * (n_classes - larger) / n_classes)))


# What one record can move of a noisy sum: a sum of rows times clipped residuals, and the sum of their
# squares.
#
#     J = sup  a |g - g'|^2 / (q C tau)^2 + b (s - s')^2 / tau^4,      g = w v psi z,  s = w psi^2
#
# is the square of ``mu`` for multipliers ``a^(-1/2)`` of the sum and ``b^(-1/2)`` of the square. Sums
# are farthest apart where both residuals are at the clip, and then squares are the same: if records
# are replaced, the square is free up to a multiple of what the sum costs.


# The largest ``b / a`` at which squares add nothing if records are replaced.
FREE_SQUARE_RATIO = (11.0 + 5.0 * math.sqrt(5.0)) / 32.0


def residual_mu_squared(residual_sum, mean_square, replaces):
    """A bound on ``J``, exact where squares are free or records are not replaced.

    Parameters
    ----------
    residual_sum, mean_square : float
        ``a`` and ``b``: squares of the inverse noise multipliers.
    replaces : bool
        Whether a record is replaced.
    """
    if not replaces:
        return residual_sum + mean_square
    return residual_sum + max(0.0, mean_square - FREE_SQUARE_RATIO * residual_sum)
