"""Scores that are normal: how far apart an attack can tell two neighbouring tables.

    mu = (mean_1 - mean_0) / s,      se^2 = 1/n_1 + 1/n_0 + mu^2 / (2 (n_1 + n_0 - 2))

For scores that are normal with a common variance the trade-off between the two errors of an attack is that of
``mu``-GDP, and a mechanism that is ``mu``-GDP admits no score with a larger one. This uses every repetition,
and is worth nothing for scores of another law: two coins are told apart by their means, too, and a rare
give-away hardly moves one. So the law is checked: skewness and tails of either side (D'Agostino and Pearson,
1973), and whether the variances are equal.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import brentq
from scipy.special import fdtr

from ..privacy.gaussian import gaussian_epsilon

# Scores of a normal law are taken for another one this often.
LEAST_NORMALITY = 0.01
# With fewer on a side the check sees nothing.
_FEWEST = 20


@dataclass(frozen=True)
class Separation:
    """How far apart two sets of scores are, if they are normal.

    Attributes
    ----------
    mu : float
        Estimated distance of the means in standard deviations.
    standard_error : float
        Standard error of ``mu``.
    scores : tuple of two ndarrays
        What it is estimated from.
    """

    mu: float
    standard_error: float
    scores: tuple[np.ndarray, np.ndarray] = field(repr=False, compare=False)

    @cached_property
    def normality(self) -> float:
        """A p-value: how likely scores that look less normal, or variances less equal, would be if they were.

        0 if there are too few to tell.
        """
        return _normality(*self.scores)

    @property
    def is_normal(self) -> bool:
        """Whether ``mu`` means something."""
        return self.normality >= LEAST_NORMALITY

    def epsilon(self, delta: float, n_standard_errors: float = 0.0) -> float:
        """Epsilon that corresponds to the separation minus so many standard errors."""
        return gaussian_epsilon(max(0.0, self.mu - n_standard_errors * self.standard_error), delta)


def audit_separation(scores: ArrayLike, neighboring_scores: ArrayLike) -> Separation:
    """Estimate how well normal scores tell two neighbouring tables apart.

    It is an estimate, and means nothing unless ``is_normal``; `audit_scores` has bounds that hold always.

    Parameters
    ----------
    scores, neighboring_scores : array-like of shape (n_repetitions,)
        An attack's score of independent releases from one table and from its neighbour, e.g. the
        log likelihood ratio.

    Returns
    -------
    separation : Separation

    Raises
    ------
    ValueError
        If there are fewer than two scores on a side, or some are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.audit import audit_separation
    >>> rng = np.random.default_rng(0)
    >>> found = audit_separation(rng.normal(0.5, size=20_000), rng.normal(size=20_000))
    >>> round(found.mu, 1), found.is_normal
    (0.5, True)
    """
    a = np.asarray(scores, dtype=float).ravel()
    b = np.asarray(neighboring_scores, dtype=float).ravel()
    if min(a.size, b.size) < 2 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("an audit needs at least two finite scores on each side.")
    pooled = math.sqrt(0.5 * (a.var(ddof=1) + b.var(ddof=1)))
    distance = float(a.mean() - b.mean())
    if pooled == 0:
        return Separation(math.inf if distance else 0.0, 0.0, (a, b))
    mu = distance / pooled
    # Delta method: of the means' difference, and of the pooled deviation.
    error = math.sqrt(1 / a.size + 1 / b.size + mu**2 / (2 * (a.size + b.size - 2)))
    return Separation(mu, error, (a, b))


def _normality(a, b):
    """Return the least of three p-values, times three."""
    if min(a.size, b.size) < _FEWEST or min(np.ptp(a), np.ptp(b)) == 0:
        return 0.0
    least = min(float(stats.normaltest(one).pvalue) for one in (a, b))
    ratio = float(fdtr(a.size - 1, b.size - 1, a.var(ddof=1) / b.var(ddof=1)))
    return min(1.0, 3.0 * min(least, 2.0 * min(ratio, 1.0 - ratio)))


def least_separation(a, b, error):
    """Return a bound below ``mu``, for normal scores, of whichever sign, right with probability 1 - error.

    The difference of means over its estimated deviation has a noncentral t distribution.
    """
    degrees, unit = a.size + b.size - 2, math.sqrt(1 / a.size + 1 / b.size)
    squares = (a.size - 1) * a.var(ddof=1) + (b.size - 1) * b.var(ddof=1)
    t = abs(float(a.mean() - b.mean())) / (math.sqrt(squares / degrees) * unit)

    def excess(mu):
        return float(stats.nct.sf(t, degrees, mu / unit)) - 0.5 * error

    return 0.0 if excess(0.0) >= 0 else float(brentq(excess, 0.0, t * unit, xtol=1e-6))
