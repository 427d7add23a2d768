"""Private means of bounded numbers: accuracy, log loss, Brier score, errors of predicted numbers.

mean of u(row), in [0, 1], with noise as the comment below says
"""

import math
from functools import partial

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy
from sklearn.utils._param_validation import Real

from .._arguments import Interval, Pair, is_number
from .._data.columns import count_column, label_column, number_column
from .._mechanisms.laplace import laplace_scale, with_noise
from .._typing import Label, RandomStateLike, Relation
from ..privacy.conversions import decimal_exact, round_down
from ._base import (
    COLUMN,
    LABEL,
    PrivateScore,
    ScoreRequest,
    agree_in_kind,
    called_directly,
    check_classes,
    check_column_names,
    columns_and_groups,
    expected_counts,
    invert_test,
    is_positive,
    label_numbers,
    means_of,
    probability_column,
    probability_table,
    public_labels,
    refuse_fractions_of_labels,
    same_length,
    score_function,
    warn_if_noise_dominates,
)

# How the mean of bounded numbers is released, with its interval.
#
#     mean = (S + noise) / n,    S = sum_i u_i,   u_i in [0, 1], rounded to multiples of 2^-24
#
# Under ``replace_one``, ``n`` is public and ``S`` changes by at most 1. Under ``add_or_remove_one``,
# ``n`` is private: ``(sum u_i, sum (1 - u_i))`` is released, which changes by exactly 1 in L1 norm,
# and whose sum is a noisy ``n``. If the numbers are not all 0 or 1, a tenth of epsilon is spent on
# ``sum u_i^2``, for the interval only. Of persons with several rows, ``u_i`` is the mean over all
# rows of a person, as in `means_of`.


UNIT = 2**24

# Smallest distance of bounds: its square is a normal double.
LEAST_BOUND_DISTANCE = 1e-150
# Largest size of bounds: its square is a double.
_LARGEST_BOUND = 1e150
# Bounds of a mean, of which nothing is squared.
_MOST_OF_MEAN = 1e300


def _levels(epsilon):
    """Split epsilon into a part for the sum and one for the sum of squares, exactly as they are written."""
    if math.isinf(epsilon):
        return epsilon, epsilon
    epsilon_total = decimal_exact(epsilon)
    for_sum = round_down(epsilon_total * 9 / 10)
    return for_sum, round_down(epsilon_total - decimal_exact(for_sum))


def checked_bounds(bounds, name="bounds"):
    """Public bounds as doubles, of which differences and their squares are normal ones."""
    if len(bounds) != 2 or not all(is_number(b) and math.isfinite(b) for b in bounds):
        raise ValueError(f"{name} must be two finite numbers, got {bounds!r}.")
    low, high = map(float, bounds)
    if not low < high:
        raise ValueError(f"{name} must be (low, high) with low < high, got {bounds!r}.")
    most, least = (
        (_LARGEST_BOUND, LEAST_BOUND_DISTANCE)
        if name == "target_bounds"
        else (_MOST_OF_MEAN, 1.0 / _MOST_OF_MEAN)
    )
    if max(-low, high) > most or high - low < least:
        raise ValueError(
            f"{name} must be within {most:g} of 0 and at least {least:g} apart, got {bounds!r}: choose "
            "another unit."
        )
    return low, high


def release_mean(name, request, shares, low=0.0, high=1.0, *, is_binary=False):
    """Plan, charge and release the mean of ``low + (high - low) * shares``, over rows or over persons.

    Binary shares of rows are counted, and their squares, which the interval needs, are not asked for.
    """
    is_count = is_binary and request.persons is None
    epsilon = float(request.epsilon)
    unit, levels = (1, [epsilon]) if is_count else (UNIT, _levels(epsilon))
    plan = request.plan(name, levels)
    scales = [laplace_scale(unit, level) for level in levels]
    noise = float(scales[0]) / unit
    generator, second = request.spend(plan, noise), None
    shares = means_of(shares, request.persons)
    units = np.rint(shares * unit).astype(np.int64)
    if not is_count:
        squares = np.rint(np.square(shares) * UNIT).astype(np.int64)
        # Proposition 40.
        square = with_noise([squares.sum()], scales[1], generator, epsilon=levels[1])[0]
        second = square / UNIT, float(scales[1]) / UNIT
    sums = [units.sum()] if plan.replaces else [units.sum(), (unit - units).sum()]
    # Proposition 40.
    sums = with_noise(sums, scales[0], generator, epsilon=levels[0]) / unit
    size = float(plan.n_samples if plan.replaces else max(sums.sum(), 0.0))
    share = float(np.clip(sums[0] / size, 0.0, 1.0)) if size > 0 else 0.5
    if not plan.replaces:
        warn_if_noise_dominates(plan, noise, size)
    interval_at = partial(
        _interval_of_mean, sums[0], size, noise, plan.replaces, second, share, low, high - low
    )
    return PrivateScore(low + (high - low) * share)._release(plan, interval_at)


def _interval_of_mean(total, size, noise, replaces, second, share, low, width, level):
    """The interval of a mean at a level."""
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

    ends = invert_test(lambda value: total - value * size, spread, share, wanted)
    return low + width * ends[0], low + width * ends[1]


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
    request = ScoreRequest(epsilon, delta, neighboring_relation, groups, random_state, len(true))
    return release_mean("accuracy", request, right, is_binary=True)


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
    request = ScoreRequest(epsilon, delta, neighboring_relation, groups, random_state, len(shares))
    return release_mean("mean", request, shares, low, high)


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
    request = ScoreRequest(epsilon, delta, neighboring_relation, groups, random_state, len(shares))
    return release_mean("log loss", request, shares, 0.0, largest)


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
    request = ScoreRequest(epsilon, delta, neighboring_relation, groups, random_state, len(shares))
    return release_mean("Brier score", request, shares)


# Scores of predicted numbers: squared and absolute errors, R^2, and the deviance of counts.
#
#     R^2 = 1 - S / T,    S = sum_i min(|y_i - p_i|, E)^2,    T = sum_i u_i^2 - (sum_i u_i)^2 / n
#
# with ``y`` and ``p`` moved into public bounds, ``u = y - low``. Errors, and ``u`` and ``u^2``, are
# bounded, so that means are released as in `release_mean`. For ``R^2`` half of epsilon is spent on ``S``, a
# quarter each on the two sums of ``T``; the interval holds all values ``1 - q`` for which ``S - q T``
# may be 0.


_ERRORS = {
    "y_true": COLUMN,
    "y_pred": COLUMN,
    "target_bounds": [Pair()],
    "largest_error": [None, Interval(Real, 0, None, closed="neither")],
}
# R^2 is reported from here to 1.
_WORST = -1.0


def _columns(y_true, y_pred, relation, read_true=number_column, read_predicted=number_column):
    true, predicted = read_true(y_true, "y_true"), read_predicted(y_pred, "y_pred")
    same_length(relation, y_true=true, y_pred=predicted)
    return true, predicted


def _errors(y_true, y_pred, bounds, largest, relation):
    """(responses less the lower bound, over the distance; absolute errors over the largest, which)."""
    low, high = checked_bounds(bounds, "target_bounds")
    true, predicted = _columns(y_true, y_pred, relation)
    if largest is not None and not largest >= LEAST_BOUND_DISTANCE:
        raise ValueError(
            f"largest_error={largest:g} must be at least {LEAST_BOUND_DISTANCE:g}: choose another unit."
        )
    largest = high - low if largest is None else min(float(largest), high - low)
    true, predicted = np.clip(true, low, high), np.clip(predicted, low, high)
    shares = np.minimum(np.abs(true - predicted) / largest, 1.0)
    return np.clip((true - low) / (high - low), 0.0, 1.0), shares, largest


@score_function(**_ERRORS)
def dp_mean_squared_error(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    target_bounds: tuple[float, float],
    epsilon: float,
    delta: float | None = None,
    largest_error: float | None = None,
    neighboring_relation: Relation = "replace_one",
    groups: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> PrivateScore:
    """Mean squared error, released with noise.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Responses of held-out rows.
    y_pred : array-like of shape (n_samples,)
        Predicted means.
    target_bounds : (float, float)
        Public bounds, to which responses and predictions are moved.
    epsilon : float
        Privacy budget of the score; ``inf`` adds no noise.
    delta : float, default=None
        As for `dp_accuracy_score`.
    largest_error : float, default=None
        Public number to which absolute errors are reduced. The noise is proportional to its square. None is
        the distance of the bounds.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Whether the number of rows is public or private.
    groups : array-like of shape (n_samples,), default=None
        As for `dp_accuracy_score`.
    random_state : None, int, RandomState instance or Generator, default=None
        As for `dp_accuracy_score`.

    Returns
    -------
    error : PrivateScore
        The interval is for the expectation of the squared error, reduced as described.

    Raises
    ------
    ValueError, TypeError
        If a column or an option is invalid. Nothing is spent.
    BudgetExceededError
        If an active `PrivacyLedger` does not allow the cost. Nothing is spent.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.metrics import dp_mean_squared_error
    >>> y = np.linspace(0.0, 1.0, 5000)
    >>> error = dp_mean_squared_error(y, y + 0.1, target_bounds=(0, 1), epsilon=1.0, random_state=0)
    >>> abs(error - 0.01) < 0.005
    True
    """
    y_true, y_pred, groups = columns_and_groups(groups, y_true=y_true, y_pred=y_pred)
    _, shares, largest = _errors(y_true, y_pred, target_bounds, largest_error, neighboring_relation)
    if math.isinf(largest * largest):
        raise ValueError(
            f"squares of errors up to {largest:.4g} overflow: give a smaller largest_error, or divide "
            "responses, predictions and bounds by a public number."
        )
    name = "mean squared error"
    request = ScoreRequest(epsilon, delta, neighboring_relation, groups, random_state, len(shares))
    return release_mean(name, request, shares**2, 0.0, largest * largest)


@score_function(**_ERRORS)
def dp_mean_absolute_error(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    target_bounds: tuple[float, float],
    epsilon: float,
    delta: float | None = None,
    largest_error: float | None = None,
    neighboring_relation: Relation = "replace_one",
    groups: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> PrivateScore:
    """Mean absolute error, released with noise.

    Parameters
    ----------
    y_true, y_pred, target_bounds, epsilon, delta, neighboring_relation, groups, random_state
        As for `dp_mean_squared_error`.
    largest_error : float, default=None
        Public number to which errors are reduced. The noise is proportional to it. None is the distance of
        the bounds.

    Returns
    -------
    error : PrivateScore
        The interval is for the expectation of the error, reduced as described.

    Raises
    ------
    ValueError, TypeError
        If a column or an option is invalid. Nothing is spent.
    BudgetExceededError
        If an active `PrivacyLedger` does not allow the cost. Nothing is spent.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.metrics import dp_mean_absolute_error
    >>> y = np.linspace(0.0, 1.0, 5000)
    >>> error = dp_mean_absolute_error(y, y + 0.1, target_bounds=(0, 1), epsilon=1.0, random_state=0)
    >>> abs(error - 0.1) < 0.01
    True
    """
    y_true, y_pred, groups = columns_and_groups(groups, y_true=y_true, y_pred=y_pred)
    _, shares, largest = _errors(y_true, y_pred, target_bounds, largest_error, neighboring_relation)
    name = "mean absolute error"
    request = ScoreRequest(epsilon, delta, neighboring_relation, groups, random_state, len(shares))
    return release_mean(name, request, shares, 0.0, largest)


@score_function(
    y_true=COLUMN,
    y_pred=COLUMN,
    largest_deviance=[Interval(Real, 0, None, closed="neither")],
)
def dp_mean_poisson_deviance(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    epsilon: float,
    delta: float | None = None,
    largest_deviance: float = 10.0,
    neighboring_relation: Relation = "replace_one",
    groups: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> PrivateScore:
    """Mean Poisson deviance of counts, released with noise: ``2 (y log(y / p) - y + p)``.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Counts of held-out rows: whole numbers, none negative, as in `DPBayesianPoissonRegressor.fit`.
    y_pred : array-like of shape (n_samples,)
        Expected counts, not their logarithms: fractions included, none negative. One of 0, as of a row that
        was not exposed, has a deviance of 0 where the count is 0, and the largest elsewhere. Of rows that
        were exposed for different times, they are ``model.predict(X, exposure=exposure)``.
    epsilon : float
        Privacy budget of the score; ``inf`` adds no noise.
    delta : float, default=None
        As for `dp_accuracy_score`.
    largest_deviance : float, default=10.0
        Public number to which a row's deviance is reduced; it is about 1 on average where predictions are
        right. The noise is proportional to it, and to nothing else: exposures and expected counts may be as
        large as they like.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Whether the number of rows is public or private.
    groups : array-like of shape (n_samples,), default=None
        As for `dp_accuracy_score`.
    random_state : None, int, RandomState instance or Generator, default=None
        As for `dp_accuracy_score`.

    Returns
    -------
    deviance : PrivateScore
        The interval is for the expected reduced deviance.

    Raises
    ------
    ValueError, TypeError
        If a column or an option is invalid. Nothing is spent.
    BudgetExceededError
        If an active `PrivacyLedger` does not allow the cost. Nothing is spent.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.metrics import dp_mean_poisson_deviance
    >>> y = np.random.default_rng(0).poisson(3.0, size=5000)
    >>> deviance = dp_mean_poisson_deviance(y, np.full(5000, 3.0), epsilon=1.0, random_state=0)
    >>> abs(deviance - 1.1) < 0.1
    True

    Rows that were exposed for different times:

    >>> from skdpbayes import DPBayesianPoissonRegressor
    >>> rng = np.random.default_rng(0)
    >>> X, years = rng.uniform(-1, 1, size=(5000, 2)), rng.uniform(0.2, 2.0, size=5000)
    >>> y = rng.poisson(years * np.exp(X[:, 0]))
    >>> fitted, held_out = slice(4000), slice(4000, None)
    >>> model = DPBayesianPoissonRegressor(max_count=12, random_state=0)
    >>> model = model.fit(X[fitted], y[fitted], exposure=years[fitted])
    >>> expected = model.predict(X[held_out], exposure=years[held_out])
    >>> deviance = dp_mean_poisson_deviance(y[held_out], expected, epsilon=1.0, random_state=0)
    >>> abs(deviance - 1.1) < 0.15
    True
    """
    y_true, y_pred, groups = columns_and_groups(groups, y_true=y_true, y_pred=y_pred)
    true, predicted = _columns(y_true, y_pred, neighboring_relation, count_column, expected_counts)
    # No count where none is expected is a deviance of 0.
    ratio = true / np.maximum(predicted, 1e-300)
    deviances = 2.0 * (xlogy(true, ratio) - true + predicted)
    shares = np.clip(deviances / largest_deviance, 0.0, 1.0)
    request = ScoreRequest(epsilon, delta, neighboring_relation, groups, random_state, len(shares))
    return release_mean("Poisson deviance", request, shares, 0.0, float(largest_deviance))


@score_function(**_ERRORS)
def dp_r2_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    target_bounds: tuple[float, float],
    epsilon: float,
    delta: float | None = None,
    largest_error: float | None = None,
    neighboring_relation: Relation = "replace_one",
    groups: ArrayLike | None = None,
    random_state: RandomStateLike = None,
) -> PrivateScore:
    """R^2, the share of the variance that predictions explain, released with noise.

    Half of epsilon is spent on squared errors, and half on the variance of the responses. The noise is about
    ``5 (b / s)^2 / (n epsilon)``, with ``b`` the distance of the bounds and ``s`` the deviation of the
    responses. Unless bounds are narrow, it hides the score: take `dp_mean_absolute_error`, whose noise is
    proportional to ``b`` alone, or narrower public bounds.

    Parameters
    ----------
    y_true, y_pred, target_bounds, epsilon, delta, neighboring_relation, groups, random_state
        As for `dp_mean_squared_error`.
    largest_error : float, default=None
        Public number to which absolute errors are reduced. The noise on squared errors is proportional to its
        square. None is the distance of the bounds.

    Returns
    -------
    score : PrivateScore
        From -1, the lowest that is reported, to 1. The interval is for the share in the population, with
        errors reduced as described; it allows for the largest variance that bounded errors can have, and is
        wider than it had to be.

    Raises
    ------
    ValueError, TypeError
        If a column or an option is invalid. Nothing is spent.
    BudgetExceededError
        If an active `PrivacyLedger` does not allow the cost. Nothing is spent.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.metrics import dp_r2_score
    >>> y = np.linspace(0.0, 1.0, 5000)
    >>> score = dp_r2_score(y, y + 0.1, target_bounds=(0, 1), epsilon=1.0, random_state=0)
    >>> abs(score - 0.88) < 0.05
    True
    """
    y_true, y_pred, groups = columns_and_groups(groups, y_true=y_true, y_pred=y_pred)
    u, errors, largest = _errors(y_true, y_pred, target_bounds, largest_error, neighboring_relation)
    request = ScoreRequest(epsilon, delta, neighboring_relation, groups, random_state, len(u))
    levels = _levels_of_r2(float(epsilon))
    plan = request.plan("R^2", levels)
    scales = [laplace_scale(UNIT, level) for level in levels]
    noise = [float(scale) / UNIT for scale in scales]
    generator = request.spend(plan, noise[0])
    shares = [means_of(terms, request.persons) for terms in (errors**2, u, u**2)]
    units = [np.rint(terms * UNIT).astype(np.int64) for terms in shares]
    of_errors = [units[0].sum()] if plan.replaces else [units[0].sum(), (UNIT - units[0]).sum()]
    # Proposition 40.
    of_errors = with_noise(of_errors, scales[0], generator, epsilon=levels[0]) / UNIT
    # Proposition 40.
    first = with_noise([units[1].sum()], scales[1], generator, epsilon=levels[1])[0] / UNIT
    # Proposition 40.
    second = with_noise([units[2].sum()], scales[2], generator, epsilon=levels[2])[0] / UNIT
    size = float(plan.n_samples if plan.replaces else max(of_errors.sum(), 0.0))
    if not plan.replaces:
        warn_if_noise_dominates(plan, noise[0], size)
    low, high = map(float, target_bounds)
    sums = _SumsOfR2(
        of_errors[0], first, second, size, noise, plan.replaces, largest / (high - low)
    )
    return PrivateScore(1.0 - sums.ratio)._release(plan, sums.interval)


def _levels_of_r2(epsilon):
    """Split epsilon over errors, responses and their squares, exactly as the parts are written."""
    if math.isinf(epsilon):
        return epsilon, epsilon, epsilon
    epsilon_total = decimal_exact(epsilon)
    half, quarter = round_down(epsilon_total / 2), round_down(epsilon_total / 4)
    return half, quarter, round_down(epsilon_total - decimal_exact(half) - decimal_exact(quarter))


class _SumsOfR2:
    """The released sums of R^2, in units of the largest: what they say of ``q = S / T``.

    Parameters
    ----------
    errors, first, second : float
        Sums of squared errors, of ``u``, and of ``u^2``.
    size : float
        Number of rows.
    noise : sequence of float
        Scales of the noise on the three.
    replaces : bool
        Whether the number of rows is public.
    unit : float
        The largest error over the distance of the bounds.
    """

    def __init__(self, errors, first, second, size, noise, replaces, unit):
        self.errors, self.size, self.noise = unit**2 * errors, size, noise
        self.replaces, self.unit = replaces, unit
        self.mean = min(max(first / size, 0.0), 1.0) if size > 0 else 0.5
        self.total = second - size * self.mean**2 if size > 0 else 0.0

    @property
    def ratio(self):
        """``q``, between 0 and 2; 1 where sums say nothing."""
        if self.total <= 0.0:
            return 1.0
        return min(max(self.errors / self.total, 0.0), 1.0 - _WORST)

    def interval(self, level):
        """The interval of R^2 at a level."""
        widest = 1.0 - _WORST
        if self.total <= 0.0:
            return _WORST, 1.0

        def distance(value):
            return self.errors - widest * value * self.total

        ends = invert_test(distance, self._spread, self.ratio / widest, level)
        return 1.0 - widest * ends[1], 1.0 - widest * ends[0]

    def _spread(self, value):
        """(deviation of ``S - q T`` by sampling at most, weights of the noise)."""
        q, mean, (e, f, s) = (1.0 - _WORST) * value, self.mean, self.noise
        # For u in [0, b], u² ≤ b·u; used for errors and for responses.
        farthest = max(mean, 1.0 - mean) ** 2
        variance = self.unit**2 * max(self.errors, 0.0) + q**2 * farthest * self.total
        counted = [] if self.replaces else [q * mean**2 * e]
        of_errors = (self.unit**2 - (0.0 if self.replaces else q * mean**2)) * e
        return math.sqrt(variance), [of_errors, *counted, 2.0 * q * mean * f, q * s]
