"""Lower bounds on a privacy loss from scores or guesses of independent releases.

    epsilon >= log((p - delta) / q),      mu >= z(p) - z(q),      p <= P(T > t),   q >= P(T' > t)

for a threshold ``t``, with Clopper and Pearson's bounds ``p`` and ``q``, each with half of the error. Which
threshold is best is not known beforehand, and a choice is paid for. Half of the error goes to thresholds at
fixed ranks of one side's scores, where ``P(T' > t)`` is Beta distributed: each has an equal part. The other
half goes to a threshold that the first quarter of the scores chooses and the rest, which is independent, is
tested at. Ranks find tails, and choices scores that take few values. Both sides are tried for either table.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse, stats
from scipy.optimize import brentq, linprog
from scipy.special import betaincinv, fdtr
from scipy.stats import norm

from .._typing import Claim
from ..privacy.conversions import gaussian_delta, gaussian_epsilon

# Scores that are normal: how far apart an attack can tell two neighbouring tables.
#
#     mu = (mean_1 - mean_0) / s,      se^2 = 1/n_1 + 1/n_0 + mu^2 / (2 (n_1 + n_0 - 2))
#
# For scores that are normal with a common variance the trade-off between the two errors of an attack
# is that of ``mu``-GDP, and a mechanism that is ``mu``-GDP admits no score with a larger one. This
# uses every repetition, and is worth nothing for scores of another law: two coins are told apart by
# their means, too, and a rare give-away hardly moves one. So the law is checked: skewness and tails
# of either side (D'Agostino and Pearson, 1973), and whether the variances are equal.


# Scores of a normal law are taken for another one this often.
LEAST_NORMALITY = 0.01
# With fewer on a side the check sees nothing.
_FEWEST_SCORES = 20


@dataclass(frozen=True)
class Separation:
    """The distance of two sets of scores, if they are normal.

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
    """The least of three p-values, times three."""
    if min(a.size, b.size) < _FEWEST_SCORES or min(np.ptp(a), np.ptp(b)) == 0:
        return 0.0
    least = min(float(stats.normaltest(sample).pvalue) for sample in (a, b))
    ratio = float(fdtr(a.size - 1, b.size - 1, a.var(ddof=1) / b.var(ddof=1)))
    return min(1.0, 3.0 * min(least, 2.0 * min(ratio, 1.0 - ratio)))


def least_separation(a, b, error):
    """A bound below ``mu``, for normal scores, of whichever sign, right with probability 1 - error.

    The difference of means over its estimated deviation has a noncentral t distribution.
    """
    degrees, unit = a.size + b.size - 2, math.sqrt(1 / a.size + 1 / b.size)
    squares = (a.size - 1) * a.var(ddof=1) + (b.size - 1) * b.var(ddof=1)
    t = abs(float(a.mean() - b.mean())) / (math.sqrt(squares / degrees) * unit)

    def excess(mu):
        return float(stats.nct.sf(t, degrees, mu / unit)) - 0.5 * error

    return 0.0 if excess(0.0) >= 0 else float(brentq(excess, 0.0, t * unit, xtol=1e-6))


# A bound on ``mu`` from guesses of two ranks, sure ones and others, about many coins in one run.
#
#     W = 2 V_1 + V_2,      P(W >= w) <= max over p, R of sum_(c >= w) p_c
#
# for ``V_k`` right ones of the ``r_k`` guesses of a rank, ``p_c = P(W = c)`` and
# ``R_kc = E[V_k; W = c]``, so that ``2 R_1c + R_2c = c p_c`` and ``R_kc <= r_k p_c``. Turning one
# coin makes a right guess of rank ``k`` wrong, and ``W`` less by its weight ``w_k``. If the
# mechanism is ``mu``-GDP where one of ``m`` coins is turned, then for every epsilon > 0, by the
# mean over coins (divergences are convex),
#
#     sum_kc [R_kc - e^epsilon (r_k p_(c - w_k) - R_k(c - w_k))]_+
#       + sum_kc [r_k p_c - R_kc - e^epsilon R_k(c + w_k)]_+  <=  m delta_mu(epsilon)
#
# which is a linear programme. A few epsilons, and outcomes from half of all weight on, are conditions
# enough: fewer make the maximum larger. Mahloujifar, Melis and Chaudhuri ("Auditing f-differential
# privacy in one run", 2024) have such a bound for one rank, by the first sums over upper sets of
# outcomes alone.


WEIGHTS = (2, 1)
# Number of guesses over the root of the number of canaries, which found most of a mu of .4 to 3, for normal
# scores of 20 to 1,000 canaries.
_GUESSES_PER_ROOT = 5.0
# Most guesses.
_MOST_GUESSES = 320
# Share of the guesses that are sure ones.
_SURE = 3 / 8
# With fewer coins all guesses are right often enough by chance.
_FEWEST_COINS = 4
# Deviations of the privacy loss from its mean at which a condition is set.
_CONDITION_SDS = np.linspace(0.8, 3.2, 9)
# Smallest mu that is searched.
_SMALLEST_MU = 0.05
# Largest mu that is searched.
_LARGEST_MU = 5.0
# Tolerance of the search.
_SEARCH_TOLERANCE = 1e-3


def mu_of_scores(scores, inside, error):
    """A bound on ``mu`` that is right with probability 1 - error.

    Parameters
    ----------
    scores : ndarray of shape (n_canaries,)
        Large for canaries that seem to be in: the largest are guessed to be in, as many smallest to be out.
    inside : ndarray of shape (n_canaries,), bool
    error : float
    """
    if scores.size < _FEWEST_COINS:
        return 0.0
    order, weight, start = np.argsort(scores, kind="stable"), 0, 0
    halves = halves_of(scores.size)
    for own, half in zip(WEIGHTS, halves, strict=True):
        places = np.arange(start, start + half)
        weight += own * int(inside[order[::-1][places]].sum() + (~inside[order[places]]).sum())
        start += half
    return mu_of_weight(scores.size, tuple(2 * half for half in halves), weight, error)


def halves_of(n_canaries):
    """Number of canaries of either rank are guessed to be in, and as many to be out."""
    n_guesses = min(_GUESSES_PER_ROOT * math.sqrt(n_canaries), _MOST_GUESSES, n_canaries)
    sure = max(1, round(0.5 * _SURE * n_guesses))
    return sure, max(1, min(round(0.5 * (1.0 - _SURE) * n_guesses), n_canaries // 2 - sure))


@lru_cache(maxsize=1024)
def mu_of_weight(n_canaries, sizes, weight, error):
    """The largest ``mu`` under which ``W`` is less likely to be so large than ``error``."""

    def excess(mu):
        likely = largest_probability(n_canaries, sizes, weight, mu)
        return math.log(max(likely, 1e-12) / error)

    low, high = 0.0, _SMALLEST_MU
    while excess(high) < 0:
        low, high = high, 4.0 * high
        if low >= _LARGEST_MU:
            return low
    return (
        float(brentq(excess, low, high, xtol=_SEARCH_TOLERANCE)) - _SEARCH_TOLERANCE if low else 0.0
    )


def largest_probability(n_canaries, sizes, weight, mu):
    """A bound on P(W >= weight) under ``mu``-GDP.

    Parameters
    ----------
    n_canaries : int
    sizes : tuple of int
        Guesses of each rank.
    weight : int
        Of those that are right.
    mu : float
    """
    most = int(np.dot(sizes, WEIGHTS))
    outcomes = np.arange(min(most // 2, weight), most + 1)
    n, identity = outcomes.size, sparse.eye_array(outcomes.size)
    epsilons = mu * (0.5 * mu + _CONDITION_SDS)
    moved = sparse.vstack([_moved(sizes, n, math.exp(epsilon)) for epsilon in epsilons])
    sums = sparse.kron(
        sparse.eye_array(epsilons.size), np.ones((1, moved.shape[0] // epsilons.size))
    )
    # Variables: p, R of either rank, and the positive parts of what has moved.
    at_most_all = [[-size * identity for size in sizes], sparse.eye_array(len(sizes) * n)]
    at_most_all = sparse.hstack([sparse.vstack(at_most_all[0]), at_most_all[1]])
    all_of_p = sparse.csr_array(np.r_[np.ones(n), np.zeros(len(sizes) * n)][None])
    at_most = sparse.block_array(
        [
            [at_most_all, None],
            [all_of_p, None],
            [moved, -sparse.eye_array(moved.shape[0])],
            [None, sums],
        ]
    )
    limits = np.zeros(at_most.shape[0])
    limits[len(sizes) * n] = 1.0
    limits[-epsilons.size :] = [n_canaries * gaussian_delta(mu, epsilon) for epsilon in epsilons]
    weights = [-sparse.diags_array(outcomes.astype(float)), *(own * identity for own in WEIGHTS)]
    equal = sparse.hstack([*weights, sparse.csr_array((n, moved.shape[0]))])
    goal = np.zeros(at_most.shape[1])
    goal[:n][outcomes >= weight] = -1.0
    solution = linprog(goal, at_most.tocsr(), limits, equal.tocsr(), np.zeros(n), method="highs-ds")
    if not solution.success:
        return 1.0  # What was not solved refutes nothing.
    # A solver is not exact. Prices of conditions bound the maximum, whatever they are, with the most that all
    # of a kind of variable can be together where their prices are too low.
    paid, other = np.maximum(-solution.ineqlin.marginals, 0.0), -solution.eqlin.marginals
    too_low = np.maximum(-goal - at_most.T @ paid - equal.T @ other, 0.0)
    of_outcomes, moves = np.split(too_low, [(1 + len(sizes)) * n])
    extra = of_outcomes.reshape(-1, n).max(axis=1) @ np.r_[1.0, sizes]
    extra += moves.reshape(epsilons.size, -1).max(axis=1) @ limits[-epsilons.size :]
    return min(1.0, float(paid @ limits + extra))


def _moved(sizes, n, factor):
    """The rows whose positive parts are added up for one epsilon."""
    identity, rows = sparse.eye_array(n), []
    for k, (size, weight) in enumerate(zip(sizes, WEIGHTS, strict=True)):
        below, above = sparse.eye_array(n, k=-weight), sparse.eye_array(n, k=weight)
        # Of the first outcomes those below are not among the variables.
        known = sparse.diags_array((np.arange(n) >= weight).astype(float))
        empty = [None] * len(sizes)
        right, wrong = [-factor * size * below, *empty], [size * identity, *empty]
        right[1 + k], wrong[1 + k] = known + factor * below, -identity - factor * above
        rows += [right, wrong]
    return sparse.block_array(rows)


# What an audit says, in words.


@dataclass(frozen=True)
class AuditResult:
    """A lower bound on what a mechanism spends, from what an attack achieved.

    Attributes
    ----------
    epsilon_lower_bound : float
        If the mechanism were (epsilon, delta)-private with a smaller epsilon, an attack would be as
        successful with probability at most ``1 - confidence``.
    delta : float
    confidence : float
    claim : {"epsilon", "mu", "normal"}
        What is refuted: that the mechanism is (epsilon, delta)-private; that it is ``mu``-GDP, ``mu`` being
        that of this epsilon and delta; or the latter, if scores are normal.
    mu_lower_bound : float or None
        The same for ``mu``, for claims of ``mu``.
    largest_possible : float
        The bound if the attack had been right each time: no audit of this size finds more.
    n_scores : int
        How many scores, or canaries, the bound is from.
    claimed_epsilon : float or None
        The epsilon that is claimed at this delta.
    n_runs : int or None
        How many releases the scores are from, where it is not one for each.
    notes : tuple of str
    """

    epsilon_lower_bound: float
    delta: float
    confidence: float
    claim: Claim
    mu_lower_bound: float | None
    largest_possible: float
    n_scores: int
    claimed_epsilon: float | None = None
    n_runs: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def contradicts(self) -> bool:
        """Whether the bound is above what is claimed."""
        claimed = self.claimed_epsilon
        return claimed is not None and self.epsilon_lower_bound > claimed

    @property
    def verdict(self) -> str:
        """The result in a few sentences."""
        meaning = (
            f"With {100 * self.confidence:g}% confidence, epsilon is at least "
            f"{self.epsilon_lower_bound:.3g} at delta = {self.delta:.3g}"
        )
        if self.claimed_epsilon is None:
            return (
                f"{meaning}. Nothing is claimed that it could be compared with. {self._at_best()}."
            )
        claimed = f"the claimed {self.claimed_epsilon:.3g}"
        if self.contradicts:
            return (
                f"{meaning}: more than {claimed}. The claim is wrong, or the records that were exchanged are "
                f"no neighbours, or releases were not independent. {self._at_best()}."
            )
        text = f"{meaning}: no contradiction to {claimed}, and no proof of it. {self._at_best()}"
        if self.largest_possible <= self.claimed_epsilon and math.isfinite(self.largest_possible):
            return f"{text}: take more runs, or more canaries."
        return f"{text}."

    def _at_best(self):
        if math.isinf(self.largest_possible):
            return "As scores are taken to be normal, no size of an audit limits what it finds"
        most = f"{self.largest_possible:.3g}"
        return f"An audit of this size finds at most {most}, even if every guess is right"

    def __str__(self):
        size = f"{self.n_scores} scores"
        if self.n_runs is not None:
            size = f"{self.n_scores} canaries in {self.n_runs} run{'s' * (self.n_runs != 1)}"
        lines = [f"Audit: {size}", f"  {self.verdict}", *(f"  {note}" for note in self.notes)]
        return "\n".join(lines)


# Of the scores, for the choice of a threshold.
_CHOOSING = 0.25
# By how much the next rank is larger.
_RANK_GROWTH = 3


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
    both = [np.asarray(sample, dtype=float).ravel() for sample in (scores, neighboring_scores)]
    if min(sample.size for sample in both) < 8 or any(np.isnan(sample).any() for sample in both):
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
    """A bound on ``mu`` for normal scores, or None if they are not, and what to note."""
    if not np.isfinite(np.concatenate([a, b])).all():
        return None, ("Infinite scores are not normal: the bound is that for scores of any law.",)
    separation = audit_separation(a, b)
    if not separation.is_normal:
        return None, (
            f"Scores do not look normal with equal variances (p = {separation.normality:.2g}, less than "
            f"{LEAST_NORMALITY:g}): the bound is that for scores of any law.",
        )
    return least_separation(a, b, error), ("The bound is for normal scores, which these may be.",)


class _Epsilon:
    """``log((p - delta) / q)``, or 0."""

    def __init__(self, delta):
        self.delta = delta

    def __call__(self, p, q):
        with np.errstate(all="ignore"):
            log_ratios = np.log(np.maximum(p - self.delta, 0.0)) - np.log(q)
        return np.maximum(log_ratios, 0.0)


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
    """The best bound of all thresholds, right with probability ``1 - error``."""
    sides = (a, b), (-b, -a), (b, a), (-a, -b)
    ranks = [
        _at_ranks(above, below, 0.125 * error, bound) for above, below in sides
    ]  # Half of the error, over four.
    return float(max(*ranks, _at_choice(sides, 0.5 * error, bound)))


def _at_ranks(above, below, error, bound):
    """The best bound of thresholds at ranks of one side's scores."""
    ranks = [0]
    while 3 * ranks[-1] + 1 < below.size // 2:
        ranks.append(_RANK_GROWTH * ranks[-1] + 1)
    thresholds = np.sort(below)[::-1][ranks]
    over = (above[None] > thresholds[:, None]).sum(axis=1)
    part = 0.5 * error / len(ranks)
    p, q = _at_least(over, above.size, part), _at_most(np.array(ranks), below.size, part)
    return bound(p, q).max()


def _at_choice(sides, error, bound):
    """The bound at the threshold that the first scores choose."""
    best = -1.0
    for above, below in sides:
        first, other = (sample[: int(_CHOOSING * sample.size)] for sample in (above, below))
        n_left = above.size - first.size, below.size - other.size
        # Of the rest there will be about as many above; a little less is more likely to hold.
        thresholds = np.concatenate([[-np.inf], np.unique(np.concatenate([first, other]))])
        over, wrong = (
            sample.size - np.searchsorted(np.sort(sample), thresholds, side="right")
            for sample in (first, other)
        )
        p = _at_least(over * n_left[0] / first.size, n_left[0], 0.5 * error)
        q = _at_most((wrong + 0.5) / (other.size + 1) * n_left[1], n_left[1], 0.5 * error)
        values = bound(p, q)
        if values.max() > best:
            best, threshold = values.max(), thresholds[values.argmax()]
            rest = above[first.size :], below[other.size :]
    over, wrong = ((sample > threshold).sum() for sample in rest)
    return bound(
        _at_least(over, rest[0].size, 0.5 * error), _at_most(wrong, rest[1].size, 0.5 * error)
    )
