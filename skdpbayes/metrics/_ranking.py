"""Area under the ROC curve, without bins.

    AUC = 1/2 + V / (P N),    2 V = sum over positive i, negative j of sign(s_i - s_j)

With ``m`` rows, replacing one changes ``2 V`` by at most ``2 (m - 1)`` if its label stays the same, and by at
most ``m - 1`` if its label changes. Only in the second case do ``P`` and ``N = m - P`` change, by 1. Noise of
scale ``2 (m - 1) / epsilon`` on ``2 V`` therefore leaves half of epsilon for ``P``, which is released at no
extra cost. Of persons with several rows, one row each is drawn and ranked, as in `_persons`.
"""

import math
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from .._checks import planned_size
from .._mechanisms.discrete_laplace import laplace_scale, with_noise
from .._tables.columns import number_column
from .._typing import Label, RandomStateLike, Relation
from ._inputs import (
    COLUMN,
    LABEL,
    PUBLIC_SIZE,
    is_positive,
    refuse_tables,
    same_length,
    score_function,
)
from ._interval import inverted
from ._persons import columns_and_groups, one_row_each, persons_of, relation_of, size_of
from ._plan import plan_score, spend, warn_if_drowned
from ._result import PrivateScore


@score_function(
    y_true=COLUMN,
    y_score=COLUMN,
    pos_label=LABEL,
    public_size=PUBLIC_SIZE,
)
def dp_roc_auc_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    epsilon: float,
    delta: float | None = None,
    pos_label: Label | None = None,
    neighboring_relation: Relation = "replace_one",
    public_size: int | None = None,
    groups: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> PrivateScore:
    """Area under the ROC curve of two classes, released with noise.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of held-out rows.
    y_score : array-like of shape (n_samples,)
        Probabilities of the positive label, or any other scores; only their order matters.
    epsilon : float
        Privacy budget of the score; ``inf`` adds no noise.
    delta : float, default=None
        As for `dp_accuracy_score`.
    pos_label : int, float, bool or str, default=None
        The positive label. None is 1 if the labels are 0 (or -1) and 1.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Whether the number of rows is public or private.
    public_size : int, default=None
        Under "add_or_remove_one", a public number of at least 2. Only this many rows are read, and the noise
        is proportional to it.
    groups : array-like of shape (n_samples,), default=None
        The person each row belongs to. The score then protects persons, of each of whom it reads a single
        row, drawn at random; the number of persons takes the place of the number of rows.
    random_state : None, int, RandomState instance or Generator, default=None
        As for `dp_accuracy_score`.

    Returns
    -------
    score : PrivateScore
        A float, clipped to [0, 1]. The interval is for the probability that a positive row has a higher
        score than a negative one, where ties count half. It is valid for all distributions of the scores, and
        wider than necessary for most. If ``y_true`` holds a single class, the score is noise, as its interval
        shows; an error would reveal that.

    Raises
    ------
    ValueError, TypeError
        If a column or an option is invalid. Nothing is spent.
    BudgetExceededError
        If an active `PrivacyLedger` does not allow the cost. Nothing is spent.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.metrics import dp_roc_auc_score
    >>> rng = np.random.default_rng(0)
    >>> y_true = rng.random(4000) < 0.3
    >>> score = dp_roc_auc_score(y_true, y_true + rng.normal(size=4000), epsilon=1.0, random_state=0)
    >>> abs(score - 0.76) < 0.03
    True
    """
    y_true, y_score, groups = columns_and_groups(groups, y_true=y_true, y_score=y_score)
    positive = is_positive(y_true, pos_label, y_score)
    refuse_tables(y_score, "y_score")
    scores = number_column(y_score, "y_score")
    same_length(neighboring_relation, y_true=positive, y_score=scores)
    persons = persons_of(groups, len(scores))
    largest = planned_size(size_of(len(scores), persons), neighboring_relation, public_size)
    relation = relation_of(neighboring_relation, persons)
    plan = plan_score("ROC AUC", epsilon, delta, relation, largest)
    # Both counts may change, because removing a row lets one from beyond the limit take its place.
    count_sensitivity = 2 if plan.replaces else 4
    epsilon = plan.budget.epsilon
    scales = [laplace_scale(s, epsilon) for s in (2 * (largest - 1), count_sensitivity)]
    generator = spend(plan, random_state)
    positive, scores = one_row_each(persons, random_state, positive, scores)
    twice, n_positive, n_negative = _twice_excess(positive[:largest], scores[:largest])
    twice = with_noise([twice], scales[0], generator, epsilon=epsilon)[0]  # Proposition 41.
    sizes = [n_positive, n_negative][: 1 if plan.replaces else 2]
    # Proposition 41.
    counts = with_noise(sizes, scales[1], generator, epsilon=epsilon, is_joint=True)
    counts = np.append(counts, largest - counts) if plan.replaces else counts
    n_positive, n_negative = np.maximum(counts, 1).tolist()
    noise = float(scales[0]) / 2.0, float(scales[1])
    warn_if_drowned(plan, noise[0] / max(n_positive, n_negative), min(n_positive, n_negative))
    score = min(max(0.5 + 0.5 * twice / (n_positive * n_negative), 0.0), 1.0)
    at = partial(_interval, twice / 2.0, n_positive, n_negative, noise, plan.replaces, score)
    return PrivateScore(score)._release(plan, at)


def _twice_excess(positive, scores):
    """Return ``(2 V, P, N)``, exactly."""
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    # Twice a mean rank is an integer.
    twice_ranks = np.rint(2.0 * rankdata(scores)[positive]).astype(np.int64)
    twice = int(twice_ranks.sum()) - n_positive * (n_positive + 1) - n_positive * n_negative
    return twice, n_positive, n_negative


def _interval(excess, n_positive, n_negative, noise, replaces, score, level):
    """Return the interval of an AUC ``a``, whose estimate has variance at most ``a (1 - a) / min(P, N)``."""
    pairs = n_positive * n_negative

    def spread(value):
        deviation = pairs * math.sqrt(value * (1.0 - value) / min(n_positive, n_negative))
        moves = [n_negative - n_positive] if replaces else [n_negative, n_positive]
        return deviation, [noise[0], *((value - 0.5) * noise[1] * move for move in moves)]

    return inverted(lambda value: excess - (value - 0.5) * pairs, spread, score, level)
