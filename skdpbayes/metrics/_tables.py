"""Private tables of counts: confusion matrices, calibration curves, and the area under the ROC curve.

    N_c = #{i : row i falls into cell c} + noise_c,     noise_c discrete Laplace

Each row is in one cell. Under ``add_or_remove_one`` the table changes by 1 in L1 norm; under ``replace_one``
by 2, as one count increases by 1 and another decreases by 1. A person with several rows adds parts of 1
(`means_of`), and moves a table as far as a row would.
"""

import math
from functools import partial
from numbers import Integral
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.utils._param_validation import StrOptions

from .._arguments import Interval, planned_size
from .._data.columns import number_column
from .._mechanisms.laplace import laplace_scale, with_noise
from .._typing import Label, RandomStateLike, Relation
from ..privacy.conversions import decimal_exact, round_down
from ._base import (
    COLUMN,
    LABEL,
    PERSON_UNIT,
    PUBLIC_SIZE,
    PrivateArray,
    PrivateCurve,
    PrivateScore,
    ScoreRequest,
    columns_and_groups,
    invert_test,
    is_positive,
    label_numbers,
    one_row_each,
    probability_column,
    public_labels,
    refuse_tables,
    same_length,
    score_function,
    warn_if_noise_dominates,
    weights_of,
)

_MOST_BINS = 10**6


@score_function(
    y_true=COLUMN,
    y_pred=COLUMN,
    labels=["array-like"],
    normalize=[StrOptions({"true", "pred", "all"}), None],
)
def dp_confusion_matrix(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    labels: ArrayLike,
    epsilon: float,
    delta: float | None = None,
    normalize: Literal["true", "pred", "all"] | None = None,
    neighboring_relation: Relation = "replace_one",
    groups: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> PrivateArray:
    """Confusion matrix, released with noise.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of held-out rows.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    labels : array-like of shape (n_classes,)
        All labels that can occur, in the order of rows and columns. They are public; which of them do occur
        is private.
    epsilon : float
        Privacy budget of the matrix; ``inf`` adds no noise.
    delta : float, default=None
        As for `dp_accuracy_score`.
    normalize : {"true", "pred", "all"} or None, default=None
        Divide the noisy counts by the sums of their rows, of their columns, or of the whole matrix.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Whether the number of rows is public or private. If it is private, cells have half the noise.
    groups : array-like of shape (n_samples,), default=None
        As for `dp_accuracy_score`. The cells add up to the number of persons.
    random_state : None, int, RandomState instance or Generator, default=None
        As for `dp_accuracy_score`.

    Returns
    -------
    matrix : PrivateArray of shape (n_classes, n_classes)
        Counts with true labels in rows, where negative ones are clipped to 0; or shares. ``interval(level)``
        holds a separate interval for each cell: for the number of rows times the probability of the cell, or
        for the probability (given the row or column) if normalized.

    Raises
    ------
    ValueError, TypeError
        If the columns are not labels of the same length, or hold labels that are not listed. Nothing is
        spent.
    BudgetExceededError
        If an active `PrivacyLedger` does not allow the cost. Nothing is spent.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.metrics import dp_confusion_matrix
    >>> y_true = np.arange(1000) % 2
    >>> y_pred = np.where(np.arange(1000) < 100, 1 - y_true, y_true)
    >>> matrix = dp_confusion_matrix(y_true, y_pred, labels=[0, 1], epsilon=1.0, random_state=0)
    >>> bool((abs(matrix - [[450, 50], [50, 450]]) < 30).all())
    True
    >>> low, high = matrix.interval(0.9)
    >>> low.shape
    (2, 2)
    """
    classes = public_labels(labels)
    y_true, y_pred, groups = columns_and_groups(groups, y_true=y_true, y_pred=y_pred)
    true, predicted = (
        label_numbers(y, classes, name) for y, name in ((y_true, "y_true"), (y_pred, "y_pred"))
    )
    same_length(neighboring_relation, y_true=true, y_pred=predicted)
    n_classes = len(classes)
    request = ScoreRequest(epsilon, delta, neighboring_relation, groups, random_state, len(true))
    unit = 1 if groups is None else PERSON_UNIT
    plan = request.plan("confusion matrix", _table_levels(epsilon, neighboring_relation))
    scale = _table_scale(plan, unit)
    noise = float(scale) / unit
    generator = request.spend(plan, noise)
    counts = np.zeros((n_classes, n_classes), dtype=np.int64)
    np.add.at(counts, (true, predicted), 1 if groups is None else weights_of(request.persons))
    counts = with_noise(counts, scale, generator, epsilon=plan.budget.epsilon)  # Proposition 40.
    counts = counts if unit == 1 else counts / unit
    if not plan.replaces:
        warn_if_noise_dominates(plan, noise, counts.sum())
    wholes, n_cells = _wholes(counts, normalize or "all", plan)
    shares = _shares(counts, wholes)
    size = wholes if normalize is None else 1.0
    interval_at = partial(_intervals, counts, wholes, 1, n_cells, noise, size)
    return PrivateArray.released(
        np.maximum(counts, 0) if normalize is None else shares, plan, interval_at
    )


@score_function(
    y_true=COLUMN,
    y_prob=COLUMN,
    pos_label=LABEL,
    n_bins=[Interval(Integral, 1, _MOST_BINS, closed="both")],
)
def dp_calibration_curve(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    epsilon: float,
    delta: float | None = None,
    pos_label: Label | None = None,
    n_bins: int = 5,
    neighboring_relation: Relation = "replace_one",
    groups: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> PrivateCurve:
    """True and predicted probabilities in bins of the predicted ones, released with noise.

    A row with probability ``p`` in the bin from ``a`` to ``b`` adds ``(p - a) / (b - a)`` to one cell of its
    bin and label, and the rest to another. The four noisy sums of each bin determine its number of rows, its
    number of positive rows, and its mean prediction.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of held-out rows.
    y_prob : array-like of shape (n_samples,)
        Probabilities of the positive label.
    epsilon : float
        Privacy budget of the curve; ``inf`` adds no noise.
    delta : float, default=None
        As for `dp_accuracy_score`.
    pos_label : int, float, bool or str, default=None
        The positive label. None is 1 if the labels are 0 (or -1) and 1.
    n_bins : int, default=5
        Number of bins of equal width. (Quantiles of the predictions would depend on the rows.)
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Whether the number of rows is public or private.
    groups : array-like of shape (n_samples,), default=None
        As for `dp_accuracy_score`.
    random_state : None, int, RandomState instance or Generator, default=None
        As for `dp_accuracy_score`.

    Returns
    -------
    curve : PrivateCurve
        Unpacks into ``prob_true`` and ``prob_pred`` of shape (n_bins,), like scikit-learn's curve, and has
        ``counts``, the noisy numbers of rows. All bins are present; those whose noisy count is at most four
        times the scale of the noise are nan. ``interval(level)`` holds a separate interval for each bin, for
        the probability of the positive label.

    Raises
    ------
    ValueError, TypeError
        If a column or an option is invalid. Nothing is spent.
    BudgetExceededError
        If an active `PrivacyLedger` does not allow the cost. Nothing is spent.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.metrics import dp_calibration_curve
    >>> rng = np.random.default_rng(0)
    >>> y_prob = rng.random(5000)
    >>> y_true = rng.random(5000) < y_prob
    >>> prob_true, prob_pred = dp_calibration_curve(y_true, y_prob, epsilon=1.0, random_state=0)
    >>> bool(abs(prob_true - prob_pred).max() < 0.1)
    True
    """
    y_true, y_prob, groups = columns_and_groups(groups, y_true=y_true, y_prob=y_prob)
    positive = is_positive(y_true, pos_label, y_prob)
    proba = probability_column(y_prob, "y_prob")
    same_length(neighboring_relation, y_true=positive, y_prob=proba)
    request = ScoreRequest(epsilon, delta, neighboring_relation, groups, random_state, len(proba))
    plan = request.plan("calibration curve", _table_levels(epsilon, neighboring_relation))
    scale = _table_scale(plan, PERSON_UNIT)
    noise = float(scale) / PERSON_UNIT
    generator = request.spend(plan, noise, n_bins)
    cells = np.zeros((n_bins, 2, 2), dtype=np.int64)
    bins = np.minimum((proba * n_bins).astype(int), n_bins - 1)
    weights_of_rows = PERSON_UNIT if groups is None else weights_of(request.persons)
    above = np.clip(np.rint((proba * n_bins - bins) * weights_of_rows), 0, weights_of_rows).astype(
        np.int64
    )
    label = positive.astype(int)
    np.add.at(cells, (bins, label, 1), above)
    np.add.at(cells, (bins, label, 0), weights_of_rows - above)
    # Proposition 40.
    cells = with_noise(cells, scale, generator, epsilon=plan.budget.epsilon) / PERSON_UNIT
    positives, counts = cells[:, 1].sum(axis=1), cells.sum(axis=(1, 2))
    if not plan.replaces:
        warn_if_noise_dominates(plan, noise, counts.sum() / n_bins)
    kept = counts > 4.0 * noise
    shares = np.where(kept, _shares(positives, counts), np.nan)
    places = np.clip(_shares(cells[:, :, 1].sum(axis=1), counts), 0.0, 1.0)
    predicted = np.where(kept, (np.arange(n_bins) + places) / n_bins, np.nan)
    interval_at = partial(_intervals, positives, counts, 2, 4, noise, 1.0)
    return PrivateCurve(shares, predicted, np.maximum(counts, 0.0))._release(plan, interval_at)


def _table_levels(epsilon, relation):
    """Epsilons of a table's mechanisms: increasing and decreasing a count are two."""
    half = epsilon if math.isinf(epsilon) else round_down(decimal_exact(epsilon) / 2)
    return [half] * 2 if relation == "replace_one" else [epsilon]


def _table_scale(plan, unit):
    return laplace_scale((2 if plan.replaces else 1) * unit, plan.budget.epsilon)


def _wholes(counts, normalize, plan):
    """The totals that cells are divided by, and their number of noisy cells, 0 if they are public."""
    if normalize == "all":
        public = plan.replaces
        total = plan.n_samples if public else counts.sum()
        return np.full(counts.shape, float(total)), 0 if public else counts.size
    axis = 1 if normalize == "true" else 0
    wholes = np.broadcast_to(counts.sum(axis=axis, keepdims=True), counts.shape)
    return wholes.astype(float), counts.shape[axis]


def _shares(counts, wholes):
    return np.clip(np.where(wholes > 0, counts / np.maximum(wholes, 1e-300), 0.0), 0.0, 1.0)


def _intervals(counts, wholes, n_part, n_whole, noise, size, level):
    """The ends of the intervals of all cells, in units of ``size``."""
    ends = [
        _interval_of_share(count, total, n_part, n_whole, noise, level)
        for count, total in zip(np.ravel(counts), np.ravel(wholes), strict=True)
    ]
    low, high = np.array(ends).T.reshape(2, *np.shape(counts))
    return low * size, high * size


def _interval_of_share(count, total, n_part, n_whole, noise, level):
    """The interval of the share of ``n_part`` noisy cells in ``n_whole``, or in a public number."""
    if total <= 0:
        return 0.0, 1.0

    def spread(value):
        deviation = math.sqrt(total * value * (1.0 - value))
        if n_whole == 0:
            return deviation, [noise] * n_part
        rest = [noise * value] * (n_whole - n_part)
        return deviation, [noise * (1.0 - value)] * n_part + rest

    share = min(max(count / total, 0.0), 1.0)
    return invert_test(lambda value: count - value * total, spread, share, level)


# Area under the ROC curve, without bins.
#
#     AUC = 1/2 + V / (P N),    2 V = sum over positive i, negative j of sign(s_i - s_j)
#
# With ``m`` rows, replacing one changes ``2 V`` by at most ``2 (m - 1)`` if its label stays the same,
# and by at most ``m - 1`` if its label changes. Only in the second case do ``P`` and ``N = m - P``
# change, by 1. Noise of scale ``2 (m - 1) / epsilon`` on ``2 V`` therefore leaves half of epsilon for
# ``P``, which is released at no extra cost. Of persons with several rows, one row each is drawn and
# ranked (`one_row_each`).


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
    request = ScoreRequest(epsilon, delta, neighboring_relation, groups, random_state, len(scores))
    largest = planned_size(request.size, neighboring_relation, public_size)
    plan = request.plan("ROC AUC", size=largest)
    # Both counts may change, because removing a row lets one from beyond the limit take its place.
    count_sensitivity = 2 if plan.replaces else 4
    epsilon = plan.budget.epsilon
    scales = [laplace_scale(s, epsilon) for s in (2 * (largest - 1), count_sensitivity)]
    generator = request.spend(plan)
    positive, scores = one_row_each(request.persons, random_state, positive, scores)
    twice, n_positive, n_negative = _twice_excess(positive[:largest], scores[:largest])
    twice = with_noise([twice], scales[0], generator, epsilon=epsilon)[0]  # Proposition 41.
    sizes = [n_positive, n_negative][: 1 if plan.replaces else 2]
    # Proposition 41.
    counts = with_noise(sizes, scales[1], generator, epsilon=epsilon, is_joint=True)
    counts = np.append(counts, largest - counts) if plan.replaces else counts
    n_positive, n_negative = np.maximum(counts, 1).tolist()
    noise = float(scales[0]) / 2.0, float(scales[1])
    warn_if_noise_dominates(
        plan, noise[0] / max(n_positive, n_negative), min(n_positive, n_negative)
    )
    score = min(max(0.5 + 0.5 * twice / (n_positive * n_negative), 0.0), 1.0)
    interval_at = partial(
        _interval, twice / 2.0, n_positive, n_negative, noise, plan.replaces, score
    )
    return PrivateScore(score)._release(plan, interval_at)


def _twice_excess(positive, scores):
    """``(2 V, P, N)``, exactly."""
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    # Twice a mean rank is an integer.
    twice_ranks = np.rint(2.0 * rankdata(scores)[positive]).astype(np.int64)
    twice = int(twice_ranks.sum()) - n_positive * (n_positive + 1) - n_positive * n_negative
    return twice, n_positive, n_negative


def _interval(excess, n_positive, n_negative, noise, replaces, score, level):
    """The interval of an AUC ``a``, whose estimate has variance at most ``a (1 - a) / min(P, N)``."""
    pairs = n_positive * n_negative

    def spread(value):
        deviation = pairs * math.sqrt(value * (1.0 - value) / min(n_positive, n_negative))
        moves = [n_negative - n_positive] if replaces else [n_negative, n_positive]
        return deviation, [noise[0], *((value - 0.5) * noise[1] * move for move in moves)]

    return invert_test(lambda value: excess - (value - 0.5) * pairs, spread, score, level)
