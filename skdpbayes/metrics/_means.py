"""Means of bounded numbers: accuracy, log loss, Brier score, and means of your own.

mean of u(row), in [0, 1], released as `_bounded_mean` says
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Real

from .._checks import Interval
from .._tables.columns import label_column, number_column
from .._typing import Label, RandomStateLike, Relation
from ._bounded_mean import bounded_mean, checked_bounds, mean_of
from ._inputs import (
    COLUMN,
    LABEL,
    agree_in_kind,
    check_classes,
    check_column_names,
    is_positive,
    label_numbers,
    probability_column,
    probability_table,
    public_labels,
    refuse_fractions_of_labels,
    same_length,
    score_function,
)
from ._persons import columns_and_groups
from ._plan import called_directly, plan_score
from ._result import PrivateScore


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
    if called_directly():  # What a classifier predicts are its labels.
        refuse_fractions_of_labels(true, predicted)
    right = np.asarray(true == predicted, dtype=np.int64)
    if groups is not None:
        own = (epsilon, delta, neighboring_relation, groups, random_state)
        return bounded_mean("accuracy", right, *own, 0.0, 1.0)
    plan = plan_score("accuracy", epsilon, delta, neighboring_relation, len(true))
    return mean_of(right, 1, plan, random_state)


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
    low, high = checked_bounds(bounds)
    values, groups = columns_and_groups(groups, values=values)
    values = number_column(values, "values")
    same_length(neighboring_relation, values=values)
    shares = (np.clip(values, low, high) - low) / (high - low)
    own = (epsilon, delta, neighboring_relation, groups, random_state)
    return bounded_mean("mean", shares, *own, low, high)


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
        Probabilities of the labels, which add up to 1 in each row, but for rounding; a single column holds
        those of the second label. Columns of a frame that have the names of labels must be in their order.
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
    check_column_names(y_pred, classes.tolist(), "y_pred")
    numbers = label_numbers(y_true, classes, "y_true")
    check_classes(table, len(classes), "y_pred")
    same_length(neighboring_relation, y_true=numbers, y_pred=table)
    largest = -math.log(smallest_probability)
    right = np.maximum(table[np.arange(len(numbers)), numbers], smallest_probability)
    shares = np.clip(-np.log(right) / largest, 0.0, 1.0)
    own = (epsilon, delta, neighboring_relation, groups, random_state)
    return bounded_mean("log loss", shares, *own, 0.0, largest)


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
    positive = is_positive(y_true, pos_label, y_proba)
    proba = probability_column(y_proba, "y_proba")
    same_length(neighboring_relation, y_true=positive, y_proba=proba)
    shares = np.square(positive - proba)
    own = (epsilon, delta, neighboring_relation, groups, random_state)
    return bounded_mean("Brier score", shares, *own, 0.0, 1.0)
