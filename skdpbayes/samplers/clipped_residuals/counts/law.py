"""Moments of a count that is clipped, of Poisson's law or with more variance.

    psi = min(max(min(Y, L) - m, -tau), tau),      E Y = mu,  Var Y = phi mu

For ``phi > 1`` counts are negative binomial, see `targets.linear.families.dispersed`. With ``F_j`` the
distribution function for ``mu + j (phi - 1)`` in the place of ``mu``,

    E[Y; Y <= k] = mu F_1(k - 1),      E[Y (Y - 1); Y <= k] = mu (mu + phi - 1) F_2(k - 2).
"""

import numpy as np

from ....targets.linear.families.dispersed import distribution

# Means are cut here: all counts are clipped.
_LARGEST_MEAN = 1e15


def clipped_count(mean, centre, clip, dispersion, largest):
    """Return the mean of ``psi`` and that of its square, for arrays that are broadcast together.

    Parameters
    ----------
    mean : ndarray
        ``mu``.
    centre : ndarray
        ``m``.
    clip, dispersion, largest : float
        ``tau``, ``phi`` and ``L``.
    """
    mean = np.minimum(mean, _LARGEST_MEAN)
    low, high = centre - clip, np.minimum(centre + clip, largest)
    high = np.maximum(low, high)
    # Counts up to ``first`` are clipped to ``low``, and those above ``last`` to ``high``.
    first, last = np.floor(low), np.ceil(high) - 1.0
    below, inside = (distribution(k, mean, dispersion) for k in (first, last))
    inside = np.maximum(inside, below)

    def between(shift):
        of_last = distribution(last - shift, mean, dispersion, shift)
        return np.maximum(of_last - distribution(first - shift, mean, dispersion, shift), 0.0)

    of_count = mean * between(1)
    of_square = of_count + mean * (mean + dispersion - 1.0) * between(2)
    above = 1.0 - inside
    value = low * below + of_count + high * above
    square = low**2 * below + of_square + high**2 * above
    return value - centre, np.maximum(square - 2.0 * centre * value + centre**2, 0.0)
