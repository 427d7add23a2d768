"""Auditing a claim: how far apart an attack can tell two neighbouring tables.

An attack reduces every release to one score. For scores that are normal with a common variance the
trade-off between its two errors is that of ``mu``-GDP with ``mu`` the distance of the two means in
standard deviations, and a mechanism that is ``mu``-GDP admits no score with a larger one. Estimating
this separation uses every repetition; an attack that merely counts errors needs many more of them to
say anything about small ``delta``. The confidence bound is on the separation, and is converted to
epsilon by the closed form (compare Nasr et al. 2023, "Tight auditing of differentially private
machine learning").
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .gaussian import gaussian_epsilon


class AuditResult(NamedTuple):
    """What an attack achieved.

    Attributes
    ----------
    mu : float
        Estimated separation of the two score distributions.
    standard_error : float
        Standard error of ``mu``.
    """

    mu: float
    standard_error: float

    def epsilon(self, delta: float, n_standard_errors: float = 0.0) -> float:
        """Epsilon that corresponds to the separation minus so many standard errors."""
        return gaussian_epsilon(max(0.0, self.mu - n_standard_errors * self.standard_error), delta)


def audit_separation(scores: ArrayLike, neighboring_scores: ArrayLike) -> "AuditResult":
    """Estimate how well scores tell two neighbouring tables apart.

    Parameters
    ----------
    scores, neighboring_scores : array-like of shape (n_repetitions,)
        An attack's score of independent releases from one table and from its neighbour, e.g. the
        log likelihood ratio.

    Returns
    -------
    result : AuditResult

    Raises
    ------
    ValueError
        If there are fewer than two scores on a side, or some are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.privacy import audit_separation
    >>> rng = np.random.default_rng(0)
    >>> result = audit_separation(rng.normal(0.5, size=20_000), rng.normal(size=20_000))
    >>> round(result.mu, 1)
    0.5
    """
    a = np.asarray(scores, dtype=float).ravel()
    b = np.asarray(neighboring_scores, dtype=float).ravel()
    if min(a.size, b.size) < 2 or not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError("an audit needs at least two finite scores on each side.")
    pooled = math.sqrt(0.5 * (a.var(ddof=1) + b.var(ddof=1)))
    distance = float(a.mean() - b.mean())
    if pooled == 0:
        return AuditResult(math.inf if distance else 0.0, 0.0)
    mu = distance / pooled
    # Delta method: of the means' difference, and of the pooled deviation.
    error = math.sqrt(1 / a.size + 1 / b.size + mu**2 / (2 * (a.size + b.size - 2)))
    return AuditResult(mu, error)
