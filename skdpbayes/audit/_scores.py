"""Bounds from scores of independent releases of two neighbouring tables, whatever their law.

    epsilon >= log((p - delta) / q),      mu >= z(p) - z(q),      p <= P(T > t),   q >= P(T' > t)

for a threshold ``t``, with Clopper and Pearson's bounds ``p`` and ``q``, each with half of the error. Which
threshold is best is not known beforehand, and a choice is paid for. Half of the error goes to thresholds at
fixed ranks of one side's scores, where ``P(T' > t)`` is Beta distributed: each has an equal part. The other
half goes to a threshold that the first quarter of the scores chooses and the rest, which is independent, is
tested at. Ranks find tails, and choices scores that take few values. Both sides are tried for either table.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv
from scipy.stats import norm

from .._typing import Claim
from ..privacy.gaussian import gaussian_epsilon
from ._normal import LEAST_NORMALITY, audit_separation, least_separation
from ._result import AuditResult

# Of the scores, for the choice of a threshold.
_CHOOSING = 0.25
# By how much the next rank is larger.
_GROWTH = 3


def audit_scores(
    scores: ArrayLike,
    neighboring_scores: ArrayLike,
    *,
    delta: float,
    confidence: float = 0.95,
    claim: Claim = "epsilon",
    claimed_epsilon: float | None = None,
) -> AuditResult:
    """Bound what a mechanism spends, by an attack's scores of releases from two neighbouring tables.

    Parameters
    ----------
    scores, neighboring_scores : array-like of shape (n_repetitions,)
        An attack's score of independent releases from one table, and from its neighbour. Any numbers, in the
        order in which releases were made; infinite ones are the surest.
    delta : float in [0, 1)
        At which epsilon is bounded; positive for claims of ``mu``.
    confidence : float, default=0.95
        Probability with which the bound is right.
    claim : {"epsilon", "mu", "normal"}, default="epsilon"
        What is claimed. "epsilon": no more than (epsilon, delta). "mu": that the mechanism is ``mu``-GDP, as
        Gaussian noise is. Epsilon is that of the bound on ``mu``, which needs far fewer releases at a small
        delta, and says nothing of mechanisms that claim no ``mu``. "normal": that scores are normal with
        equal variances, too. This is checked, and where it does not seem so, "mu" is taken.
    claimed_epsilon : float, default=None
        What the bound is compared with.

    Returns
    -------
    result : AuditResult

    Raises
    ------
    ValueError
        If there are fewer than eight scores on a side, one is missing, or an option is out of range.

    Examples
    --------
    Randomised response that is 3-private, of which a difference of means makes 26:

    >>> import numpy as np
    >>> from skdpbayes.audit import audit_scores
    >>> rng = np.random.default_rng(0)
    >>> p = 1 / (1 + np.exp(-3.0))
    >>> result = audit_scores(
    ...     rng.random(2000) < p, rng.random(2000) < 1 - p, delta=1e-5, claimed_epsilon=3.0
    ... )
    >>> 2.5 < result.epsilon_lower_bound < 3.0
    True
    """
    a, b = _checked(scores, neighboring_scores)
    _check_options(delta, confidence, claim)
    error, notes = 1.0 - confidence, ()
    # As many scores, of an attack that is always right.
    ones, zeros = np.ones(a.size), np.zeros(b.size)
    if claim == "normal":
        mu, notes = _normal_bound(a, b, error)
        claim = claim if mu is not None else "mu"
    if claim == "epsilon":
        mu, epsilon = None, _best(a, b, error, _Epsilon(delta))
        most = _best(ones, zeros, error, _Epsilon(delta))
    else:
        mu = _best(a, b, error, _mu) if claim == "mu" else mu
        epsilon = gaussian_epsilon(mu, delta)
        most = gaussian_epsilon(_best(ones, zeros, error, _mu), delta)
    return AuditResult(
        float(epsilon),
        float(delta),
        float(confidence),
        claim,
        mu,
        math.inf if claim == "normal" else float(most),
        a.size + b.size,
        claimed_epsilon,
        notes=notes,
    )


def _checked(scores, neighboring_scores):
    both = [np.asarray(one, dtype=float).ravel() for one in (scores, neighboring_scores)]
    if min(one.size for one in both) < 8 or any(np.isnan(one).any() for one in both):
        raise ValueError(
            "an audit needs at least eight scores on each side, and none that is missing: repeat the release "
            "more often."
        )
    return both


def _check_options(delta, confidence, claim):
    if claim not in ("epsilon", "mu", "normal"):
        raise ValueError(f"claim must be 'epsilon', 'mu' or 'normal', got {claim!r}.")
    if not 0 <= delta < 1 or (delta == 0 and claim != "epsilon"):
        raise ValueError(f"delta must be in [0, 1), and positive for claims of mu, got {delta}.")
    if not 0.5 < confidence < 1:
        raise ValueError(f"confidence must be between 0.5 and 1, e.g. 0.95, got {confidence}.")


def _normal_bound(a, b, error):
    """Return a bound on ``mu`` for normal scores, or None if they are not, and what to note."""
    if not np.isfinite(np.concatenate([a, b])).all():
        return None, ("Infinite scores are not normal: the bound is that for scores of any law.",)
    found = audit_separation(a, b)
    if not found.is_normal:
        return None, (
            f"Scores do not look normal with equal variances (p = {found.normality:.2g}, less than "
            f"{LEAST_NORMALITY:g}): the bound is that for scores of any law.",
        )
    return least_separation(a, b, error), ("The bound is for normal scores, which these may be.",)


class _Epsilon:
    """``log((p - delta) / q)``, or 0."""

    def __init__(self, delta):
        self.delta = delta

    def __call__(self, p, q):
        with np.errstate(all="ignore"):
            found = np.log(np.maximum(p - self.delta, 0.0)) - np.log(q)
        return np.maximum(found, 0.0)


def _mu(p, q):
    """``z(p) - z(q)``, or 0."""
    with np.errstate(all="ignore"):
        return np.fmax(norm.ppf(p) - norm.ppf(q), 0.0)


def _at_least(k, n, error):
    """Clopper and Pearson's lower bound on a probability, from ``k`` of ``n``."""
    return np.where(k > 0, betaincinv(np.maximum(k, 1e-9), n - k + 1, error), 0.0)


def _at_most(k, n, error):
    """The upper one, which also bounds what is above the ``k + 1``-th largest of ``n``."""
    return np.where(k < n, betaincinv(k + 1, np.maximum(n - k, 1e-9), 1.0 - error), 1.0)


def _best(a, b, error, bound):
    """Return the best bound of all thresholds, right with probability ``1 - error``."""
    sides = (a, b), (-b, -a), (b, a), (-a, -b)
    ranks = [
        _at_ranks(above, below, 0.125 * error, bound) for above, below in sides
    ]  # Half of the error, over four.
    return float(max(*ranks, _at_choice(sides, 0.5 * error, bound)))


def _at_ranks(above, below, error, bound):
    """Return the best bound of thresholds at ranks of one side's scores."""
    ranks = [0]
    while 3 * ranks[-1] + 1 < below.size // 2:
        ranks.append(_GROWTH * ranks[-1] + 1)
    thresholds = np.sort(below)[::-1][ranks]
    over = (above[None] > thresholds[:, None]).sum(axis=1)
    part = 0.5 * error / len(ranks)
    p, q = _at_least(over, above.size, part), _at_most(np.array(ranks), below.size, part)
    return bound(p, q).max()


def _at_choice(sides, error, bound):
    """Return the bound at the threshold that the first scores choose."""
    best = -1.0
    for above, below in sides:
        first, other = (one[: int(_CHOOSING * one.size)] for one in (above, below))
        left = above.size - first.size, below.size - other.size
        # Of the rest there will be about as many above; a little less is more likely to hold.
        thresholds = np.concatenate([[-np.inf], np.unique(np.concatenate([first, other]))])
        over, wrong = (
            one.size - np.searchsorted(np.sort(one), thresholds, side="right")
            for one in (first, other)
        )
        p = _at_least(over * left[0] / first.size, left[0], 0.5 * error)
        q = _at_most((wrong + 0.5) / (other.size + 1) * left[1], left[1], 0.5 * error)
        values = bound(p, q)
        if values.max() > best:
            best, at = values.max(), thresholds[values.argmax()]
            rest = above[first.size :], below[other.size :]
    over, wrong = ((one > at).sum() for one in rest)
    return bound(
        _at_least(over, rest[0].size, 0.5 * error), _at_most(wrong, rest[1].size, 0.5 * error)
    )
