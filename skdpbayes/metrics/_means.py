"""Means of bounded numbers: accuracy, log loss, Brier score, and means of your own.

    mean = (S + noise) / n,    S = sum_i u_i,   u_i in [0, 1], rounded to multiples of 2^-24

Under ``replace_one``, ``n`` is public and ``S`` changes by at most 1. Under ``add_or_remove_one``, ``n`` is
private: ``(sum u_i, sum (1 - u_i))`` is released, which changes by exactly 1 in L1 norm, and whose sum is a
noisy ``n``. If the numbers are not all 0 or 1, a tenth of epsilon is spent on ``sum u_i^2``, for the interval
only. Of persons with several rows, ``u_i`` is the mean over all rows of a person, as in `_persons`.
"""

import math
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Real

from .._checks import Interval, is_number
from .._mechanisms.discrete_laplace import laplace_scale, with_noise
from .._tables.columns import label_column, number_column
from .._typing import Label, RandomStateLike, Relation
from ..privacy.written import as_written, most_below
from ._inputs import (
    COLUMN,
    LABEL,
    agree_in_kind,
    check_classes,
    is_positive,
    label_numbers,
    probability_column,
    probability_table,
    public_labels,
    same_length,
    score_function,
)
from ._interval import inverted
from ._persons import columns_and_groups, means_of, persons_of, relation_of
from ._plan import plan_score, spend, warn_if_drowned
from ._result import PrivateScore

_UNIT = 2**24


def _levels(epsilon):
    """Split epsilon into a part for the sum and one for the sum of squares, exactly as they are written."""
    if math.isinf(epsilon):
        return epsilon, epsilon
    whole = as_written(epsilon)
    for_sum = most_below(whole * 9 / 10)
    return for_sum, most_below(whole - as_written(for_sum))


@score_function(
    y_true=COLUMN,
    y_pred=COLUMN,
)
def dp_accuracy_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    epsilon: float,
    delta: float | None = None,
    neighboring_relation: Relation = "replace_one",
    groups: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> PrivateScore:
    """Accuracy, released with noise.

    One row changes the number of correct predictions by at most 1. It is released with discrete Laplace
    noise.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of held-out rows.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    epsilon : float
        Privacy budget of the score; ``inf`` adds no noise.
    delta : float, default=None
        The delta at which ``spent_epsilon`` is reported. It does not change the noise, which needs no delta.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Whether the number of rows is public or private.
    groups : array-like of shape (n_samples,), default=None
        The person each row belongs to. The score then protects persons, who may have any number of rows: all
        rows of a person count for one, and the score is that of a random row of a random person. The number
        of persons takes the place of the number of rows.
    random_state : None, int, RandomState instance or Generator, default=None
        None uses cryptographic randomness; a known or repeated seed voids the guarantee.

    Returns
    -------
    score : PrivateScore
        A float, clipped to [0, 1], with ``interval(level)``, ``privacy_cost`` and ``spent_epsilon``. The
        interval is for the probability that a new row is predicted correctly.

    Raises
    ------
    ValueError, TypeError
        If the columns are not labels of the same length. Nothing is spent.
    BudgetExceededError
        If an active `PrivacyLedger` does not allow the cost. Nothing is spent.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.metrics import dp_accuracy_score
    >>> y_true = np.arange(1000) % 2
    >>> y_pred = np.where(np.arange(1000) < 100, 1 - y_true, y_true)
    >>> score = dp_accuracy_score(y_true, y_pred, epsilon=1.0, random_state=0)
    >>> abs(score - 0.9) < 0.02
    True
    >>> low, high = score.interval(0.9)
    >>> low < score < high, score.spent_epsilon
    (True, 1.0)
    """
    y_true, y_pred, groups = columns_and_groups(groups, y_true=y_true, y_pred=y_pred)
    true, predicted = label_column(y_true, "y_true"), label_column(y_pred, "y_pred")
    same_length(neighboring_relation, y_true=true, y_pred=predicted)
    agree_in_kind(true, predicted, ("y_true", "y_pred"))
    right = np.asarray(true == predicted, dtype=np.int64)
    if groups is not None:
        own = (epsilon, delta, neighboring_relation, groups, random_state)
        return _bounded_mean("accuracy", right, *own, 0.0, 1.0)
    plan = plan_score("accuracy", epsilon, delta, neighboring_relation, len(true))
    generator = spend(plan, random_state)
    return _mean_of(right, 1, plan, generator)


@score_function(
    values=COLUMN,
    bounds=[tuple, list],
)
def dp_mean_score(
    values: ArrayLike,
    *,
    bounds: tuple[float, float],
    epsilon: float,
    delta: float | None = None,
    neighboring_relation: Relation = "replace_one",
    groups: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> PrivateScore:
    """Mean of bounded numbers, such as log densities, errors or costs, released with noise.

    Nine tenths of epsilon are spent on the sum, one tenth on the sum of squares, which the interval uses.

    Parameters
    ----------
    values : array-like of shape (n_samples,)
        One number for each held-out row.
    bounds : (float, float)
        Public bounds to which the values are clipped, in the units of the values. The noise is proportional
        to ``high - low``.
    epsilon : float
        Privacy budget of the score; ``inf`` adds no noise.
    delta : float, default=None
        As for `dp_accuracy_score`.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Whether the number of rows is public or private.
    groups : array-like of shape (n_samples,), default=None
        As for `dp_accuracy_score`.
    random_state : None, int, RandomState instance or Generator, default=None
        As for `dp_accuracy_score`.

    Returns
    -------
    score : PrivateScore
        Clipped to the bounds. The interval is for the expectation of the clipped values.

    Raises
    ------
    ValueError, TypeError
        If the bounds are invalid, or the values not finite. Nothing is spent.
    BudgetExceededError
        If an active `PrivacyLedger` does not allow the cost. Nothing is spent.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.metrics import dp_mean_score
    >>> values = np.linspace(-4.0, 0.0, 2001)
    >>> score = dp_mean_score(values, bounds=(-5.0, 0.0), epsilon=1.0, random_state=0)
    >>> abs(score + 2.0) < 0.05
    True
    """
    low, high = _checked_bounds(bounds)
    values, groups = columns_and_groups(groups, values=values)
    values = number_column(values, "values")
    same_length(neighboring_relation, values=values)
    shares = (np.clip(values, low, high) - low) / (high - low)
    own = (epsilon, delta, neighboring_relation, groups, random_state)
    return _bounded_mean("mean", shares, *own, low, high)


@score_function(
    y_true=COLUMN,
    y_pred=COLUMN,
    labels=["array-like", None],
    smallest_probability=[Interval(Real, 0, 1, closed="neither")],
)
def dp_log_loss(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    epsilon: float,
    delta: float | None = None,
    labels: ArrayLike | None = None,
    smallest_probability: float = 0.01,
    neighboring_relation: Relation = "replace_one",
    groups: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> PrivateScore:
    """Log loss, released with noise; probabilities are clipped from below.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of held-out rows.
    y_pred : array-like of shape (n_samples, n_classes) or (n_samples,)
        Probabilities of the labels; a single column holds those of the second label.
    epsilon : float
        Privacy budget of the score; ``inf`` adds no noise.
    delta : float, default=None
        As for `dp_accuracy_score`.
    labels : array-like of shape (n_classes,), default=None
        All labels that can occur, in the order of the columns: public. None is 0, 1, ...
    smallest_probability : float, default=0.01
        Smaller probabilities of the true label count as this, so that a loss is at most
        ``-log(smallest_probability)``, 4.6 by default. The noise is proportional to this maximum.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Whether the number of rows is public or private.
    groups : array-like of shape (n_samples,), default=None
        As for `dp_accuracy_score`.
    random_state : None, int, RandomState instance or Generator, default=None
        As for `dp_accuracy_score`.

    Returns
    -------
    loss : PrivateScore
        Clipped to the range from 0 to the largest loss. The interval is for the expected clipped loss.

    Raises
    ------
    ValueError, TypeError
        If a column or an option is invalid. Nothing is spent.
    BudgetExceededError
        If an active `PrivacyLedger` does not allow the cost. Nothing is spent.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.metrics import dp_log_loss
    >>> y_true = np.arange(2000) % 2
    >>> loss = dp_log_loss(y_true, np.where(y_true, 0.8, 0.2), epsilon=1.0, random_state=0)
    >>> abs(loss + np.log(0.8)) < 0.02
    True
    """
    y_true, y_pred, groups = columns_and_groups(groups, y_true=y_true, y_pred=y_pred)
    table = probability_table(y_pred, "y_pred")
    classes = public_labels(np.arange(table.shape[1]) if labels is None else labels)
    numbers = label_numbers(y_true, classes, "y_true")
    check_classes(table, len(classes), "y_pred")
    same_length(neighboring_relation, y_true=numbers, y_pred=table)
    largest = -math.log(smallest_probability)
    right = np.maximum(table[np.arange(len(numbers)), numbers], smallest_probability)
    shares = np.clip(-np.log(right) / largest, 0.0, 1.0)
    own = (epsilon, delta, neighboring_relation, groups, random_state)
    return _bounded_mean("log loss", shares, *own, 0.0, largest)


@score_function(
    y_true=COLUMN,
    y_proba=COLUMN,
    pos_label=LABEL,
)
def dp_brier_score(
    y_true: ArrayLike,
    y_proba: ArrayLike,
    *,
    epsilon: float,
    delta: float | None = None,
    pos_label: Label | None = None,
    neighboring_relation: Relation = "replace_one",
    groups: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> PrivateScore:
    """Brier score of two classes, released with noise: the mean of ``(y - p)^2``.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels of held-out rows.
    y_proba : array-like of shape (n_samples,)
        Probabilities of the positive label.
    epsilon : float
        Privacy budget of the score; ``inf`` adds no noise.
    delta : float, default=None
        As for `dp_accuracy_score`.
    pos_label : int, float, bool or str, default=None
        The positive label. None is 1 if the labels are 0 (or -1) and 1.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Whether the number of rows is public or private.
    groups : array-like of shape (n_samples,), default=None
        As for `dp_accuracy_score`.
    random_state : None, int, RandomState instance or Generator, default=None
        As for `dp_accuracy_score`.

    Returns
    -------
    score : PrivateScore
        Clipped to [0, 1]. The interval is for the expected score.

    Raises
    ------
    ValueError, TypeError
        If a column or an option is invalid. Nothing is spent.
    BudgetExceededError
        If an active `PrivacyLedger` does not allow the cost. Nothing is spent.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.metrics import dp_brier_score
    >>> y_true = np.arange(2000) % 2
    >>> score = dp_brier_score(y_true, np.where(y_true, 0.8, 0.2), epsilon=1.0, random_state=0)
    >>> abs(score - 0.04) < 0.01
    True
    """
    y_true, y_proba, groups = columns_and_groups(groups, y_true=y_true, y_proba=y_proba)
    positive = is_positive(y_true, pos_label)
    proba = probability_column(y_proba, "y_proba")
    same_length(neighboring_relation, y_true=positive, y_proba=proba)
    shares = np.square(positive - proba)
    own = (epsilon, delta, neighboring_relation, groups, random_state)
    return _bounded_mean("Brier score", shares, *own, 0.0, 1.0)


def _checked_bounds(bounds):
    if len(bounds) != 2 or not all(is_number(b) and math.isfinite(b) for b in bounds):
        raise ValueError(f"bounds must be two finite numbers, got {bounds!r}.")
    low, high = map(float, bounds)
    if math.isinf(high - low):
        raise ValueError(
            "bounds are too far apart, and their difference overflows: use narrower ones."
        )
    if not low < high:
        raise ValueError(f"bounds must be (low, high) with low < high, got {bounds!r}.")
    return low, high


def _bounded_mean(name, shares, epsilon, delta, relation, groups, random_state, low, high):
    """Release the mean of ``low + (high - low) * shares``, over rows or over persons."""
    persons = persons_of(groups, len(shares))
    shares, relation = means_of(shares, persons), relation_of(relation, persons)
    plan = plan_score(name, epsilon, delta, relation, len(shares), _levels(float(epsilon)))
    generator = spend(plan, random_state)
    units = np.rint(shares * _UNIT).astype(np.int64)
    squares = np.rint(np.square(shares) * _UNIT).astype(np.int64)
    level = _levels(plan.budget.epsilon)[1]
    scale = laplace_scale(_UNIT, level)
    # Proposition 40.
    square = with_noise([squares.sum()], scale, generator, epsilon=level)[0]
    second = square / _UNIT, float(scale) / _UNIT
    return _mean_of(units, _UNIT, plan, generator, low, high, second)


def _mean_of(units, unit, plan, generator, low=0.0, high=1.0, second=None):
    """Release ``low + (high - low) mean(units) / unit``, with its interval.

    ``second`` is the released sum of squares and the scale of its noise; without it all numbers are 0 or 1.
    """
    epsilon = plan.budget.epsilon
    level = epsilon if second is None else _levels(epsilon)[0]
    scale = laplace_scale(unit, level)
    sums = [units.sum()] if plan.replaces else [units.sum(), (unit - units).sum()]
    sums = with_noise(sums, scale, generator, epsilon=level) / unit  # Proposition 40.
    size = float(plan.n_samples if plan.replaces else max(sums.sum(), 0.0))
    share = float(np.clip(sums[0] / size, 0.0, 1.0)) if size > 0 else 0.5
    noise = float(scale) / unit
    warn_if_drowned(plan, noise, size)
    at = partial(
        _interval_of_mean, sums[0], size, noise, plan.replaces, second, share, low, high - low
    )
    return PrivateScore(low + (high - low) * share)._release(plan, at)


def _interval_of_mean(total, size, noise, replaces, second, share, low, width, level):
    """Return the interval of a mean at a level."""
    if size <= 0:
        return low, low + width
    largest, wanted = math.inf, level
    if second is not None:
        # A tenth of the error probability is spent on an upper bound of the second moment.
        risk = 0.1 * (1.0 - level)
        largest = (second[0] - second[1] * math.log(2.0 * risk)) / size
        wanted = level + risk

    def spread(value):
        variance = max(0.0, min(value * (1.0 - value), largest - value**2))
        weights = [noise] if replaces else [noise * (1.0 - value), noise * value]
        return math.sqrt(size * variance), weights

    ends = inverted(lambda value: total - value * size, spread, share, wanted)
    return low + width * ends[0], low + width * ends[1]
