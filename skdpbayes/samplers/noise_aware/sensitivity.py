"""How far a record can move a gradient and a curvature that are released at one point.

    J = max  a |g - m|^2 / (b_1 C)^2 + b |F|^2 / (b_2 C^2)^2        over what one record can add, g and F

is the square of ``mu`` for multipliers ``a^(-1/2)`` of a gradient and ``b^(-1/2)`` of a curvature; ``m``
is 0. Gradients are longest where a probability is 1, curvatures where two are 1/2. So ``J < a + b``, and a
curvature is free if its multiplier is large enough. At a point that is known, ``J`` is smaller: logits are
bounded there, so that residuals are; and if records are replaced, ``m`` may be any vector, since two within a
distance of it are within twice that of each other. See Propositions 70 and 71.
"""

import math

import numpy as np
from scipy.special import expit

from ...targets.linear.families import Softmax
from ..langevin.paid_noise import free_shift

# Angles and lengths of ``m`` that are tried. What lies between angles is allowed for.
_N_ANGLES, _N_CENTRES = 4097, 33
# Logits beyond which a residual may as well be 1.
_FAR = 1e3
_ROUNDING = 1.0 + 1e-9


def free_curvature(family):
    """Return the largest ``b / a`` at which a curvature adds nothing to the cost of its gradient."""
    return 0.25 if isinstance(family, Softmax) else 0.5


def joint_precision(family, of_gradient, of_curvature=0.0):
    """Return ``J`` wherever the point is.

    Parameters
    ----------
    family : Logistic or Softmax
    of_gradient, of_curvature : float
        ``a`` and ``b``: squares of the inverse noise multipliers.

    Returns
    -------
    precision : float
        At least ``a``, at most ``a + b``.
    """
    if isinstance(family, Softmax):
        return max(of_gradient, 0.75 * of_gradient + of_curvature)
    if of_curvature <= 0.5 * of_gradient:
        return of_gradient
    # A maximum of r^2 (a + 16 b (1 - r)^2) within (0, 1).
    r = 0.25 * (3.0 - math.sqrt(1.0 - 0.5 * of_gradient / of_curvature))
    return max(of_gradient, r**2 * (of_gradient + 16.0 * of_curvature * (1.0 - r) ** 2))


def joint_multiplier(family, of_gradient, of_curvature=None):
    """Return the noise multiplier of a release whose parts have two, the second or None."""
    return joint_precision(family, *_precisions(of_gradient, of_curvature)) ** -0.5


def noise_factor(family, reach, replaces, multipliers, room, size):
    """Return by what noise at a point is multiplied, relative to multipliers times ``b_1 C`` and ``b_2 C^2``.

    Parameters
    ----------
    family, reach, replaces
        As for `joint_precision_at`.
    multipliers : tuple of float
        Of a gradient, and of a curvature or None.
    room : float
        By what rounding may enlarge what a record moves, in units of ``b_1 C`` and ``b_2 C^2``.
    size : int
        How many numbers are rounded to a lattice.
    """
    precisions = _precisions(*multipliers)
    moved = math.sqrt(joint_precision_at(family, reach, replaces, *precisions))
    errors = (room - 1.0) * math.sqrt(sum(precisions))
    return (moved + errors) / free_shift(joint_multiplier(family, *multipliers), size)


def _precisions(of_gradient, of_curvature):
    return of_gradient**-2.0, 0.0 if of_curvature is None else of_curvature**-2.0


def joint_precision_at(family, reach, replaces, of_gradient, of_curvature=0.0):
    """Return ``J`` at a point where logits are bounded.

    Parameters
    ----------
    family : Logistic or Softmax
    reach : float
        For two classes the logit of a record of norm ``C`` along the point, otherwise the most by which
        logits of two classes differ.
    replaces : bool
        Whether a record is replaced.
    of_gradient, of_curvature : float
        As for `joint_precision`.

    Returns
    -------
    precision : float
        No larger than that of `joint_precision`.
    """
    anywhere = joint_precision(family, of_gradient, of_curvature)
    if isinstance(family, Softmax):
        of_residual = _largest_residual(family.n_classes, reach) ** 2 / family.residual_bound**2
        return min(anywhere, _ROUNDING * (of_gradient * of_residual + of_curvature))
    if not reach < _FAR:
        return anywhere
    # Records of norm C at all angles to the point; those that are shorter or longer move it less.
    cosines = np.linspace(-1.0, 1.0, _N_ANGLES)
    p = expit(reach * cosines)
    centres = np.linspace(0.0, 0.5, _N_CENTRES)[:, None] if replaces else np.zeros((1, 1))
    of_curvatures = 16.0 * of_curvature * (p * (1.0 - p)) ** 2
    squares = np.maximum(p**2 - 2.0 * centres * p * cosines, 0.0) + centres**2
    slopes = of_gradient * (0.3 * reach + 2.5 * centres[:, 0]) + 0.6 * of_curvature * reach
    found = np.max(of_gradient * squares + of_curvatures, axis=1) + slopes / (_N_ANGLES - 1)
    return min(anywhere, _ROUNDING * float(found.min()))


def _largest_residual(n_classes, spread):
    """Return the longest ``p - e_y`` where logits of two classes differ by at most ``spread``.

    The probabilities with ``p_i <= exp(spread) p_j`` are a polytope whose corners have two values, and a
    norm is largest at a corner.
    """
    others = np.arange(1, n_classes)  # How many have the larger one.
    low = 1.0 / (n_classes - others + others * np.exp(min(spread, 700.0)))
    high = (1.0 - (n_classes - others) * low) / others
    return float(
        np.sqrt((1.0 - low) ** 2 + others * high**2 + (n_classes - others - 1) * low**2).max()
    )
