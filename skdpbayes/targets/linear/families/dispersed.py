"""Counts that may vary more than Poisson's law says.

    E Y = mu,  Var Y = phi mu:      Poisson's law for phi = 1, and a negative binomial one for phi > 1

of ``mu / (phi - 1)`` failures with the probability ``1 / phi`` of each. Its distribution function is an
incomplete beta function, as Poisson's is a gamma function.
"""

import numpy as np
from scipy.special import betainc, pdtr

# Dispersions that are closer to 1 are counted as 1.
_LEAST_EXCESS = 1e-3
# Means are cut here, as counts are drawn as integers of 64 bits.
_LARGEST_MEAN = 1e18


def distribution(counts, mean, dispersion, shift=0):
    """Return ``P(Y <= k)`` for arrays that are broadcast together.

    Parameters
    ----------
    counts, mean, dispersion : ndarray or float
        ``k``, ``mu`` and ``phi``.
    shift : int, default=0
        By how many failures more it is.
    """
    counts, excess = np.floor(counts), np.asarray(dispersion) - 1.0
    if np.all(excess < _LEAST_EXCESS):
        found = pdtr(np.maximum(counts, 0.0), mean)
    else:
        excess = np.maximum(excess, _LEAST_EXCESS)
        failures = mean / excess + shift
        found = betainc(failures, np.maximum(counts, 0.0) + 1.0, 1.0 / (1.0 + excess))
    return np.where(counts < 0.0, 0.0, found)


def drawn(mean, dispersion, generator):
    """Return counts drawn at random."""
    mean, excess = np.minimum(mean, _LARGEST_MEAN), np.asarray(dispersion) - 1.0
    if np.any(excess >= _LEAST_EXCESS):
        excess = np.maximum(excess, _LEAST_EXCESS)
        # Post-processing.
        mean = np.minimum(generator.gamma(mean / excess, excess), _LARGEST_MEAN)
    # Post-processing.
    return generator.poisson(mean)
