"""Scores of predicted numbers: squared and absolute errors, R^2, and the deviance of counts.

    R^2 = 1 - S / T,    S = sum_i min(|y_i - p_i|, E)^2,    T = sum_i u_i^2 - (sum_i u_i)^2 / n

with ``y`` and ``p`` moved into public bounds, ``u = y - low``. Errors, and ``u`` and ``u^2``, are bounded, so
that means are released as in `_means`. For ``R^2`` half of epsilon is spent on ``S``, a quarter each on the
two sums of ``T``; the interval holds all values ``1 - q`` for which ``S - q T`` may be 0.
"""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy
from sklearn.utils._param_validation import Real

from .._checks import Interval, Pair
from .._mechanisms.discrete_laplace import laplace_scale, with_noise
from .._tables.columns import count_column, number_column
from .._typing import RandomStateLike, Relation
from ..privacy.written import as_written, most_below
from ._bounded_mean import LEAST, UNIT, bounded_mean, checked_bounds
from ._inputs import COLUMN, expected_counts, same_length, score_function
from ._interval import inverted
from ._persons import columns_and_groups, means_of, persons_of, relation_of, size_of
from ._plan import plan_score, spend, warn_if_drowned
from ._result import PrivateScore

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
    """Return (responses less the lower bound, over the distance; absolute errors over the largest, which)."""
    low, high = checked_bounds(bounds, "target_bounds")
    true, predicted = _columns(y_true, y_pred, relation)
    if largest is not None and not largest >= LEAST:
        raise ValueError(
            f"largest_error={largest:g} must be at least {LEAST:g}: choose another unit."
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
    own = (epsilon, delta, neighboring_relation, groups, random_state)
    return bounded_mean(name, shares**2, *own, 0.0, largest * largest)


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
    own = (epsilon, delta, neighboring_relation, groups, random_state)
    return bounded_mean(name, shares, *own, 0.0, largest)


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
    own = (epsilon, delta, neighboring_relation, groups, random_state)
    return bounded_mean("Poisson deviance", shares, *own, 0.0, float(largest_deviance))


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

    Half of epsilon is spent on squared errors, and half on the variance of the responses.

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
    persons = persons_of(groups, len(u))
    levels = _levels_of_r2(float(epsilon))
    relation = relation_of(neighboring_relation, persons)
    plan = plan_score("R^2", epsilon, delta, relation, size_of(len(u), persons), levels)
    scales = [laplace_scale(UNIT, level) for level in levels]
    noise = [float(scale) / UNIT for scale in scales]
    generator = spend(plan, random_state, noise[0])
    shares = [means_of(one, persons) for one in (errors**2, u, u**2)]
    units = [np.rint(one * UNIT).astype(np.int64) for one in shares]
    of_errors = [units[0].sum()] if plan.replaces else [units[0].sum(), (UNIT - units[0]).sum()]
    # Proposition 40.
    of_errors = with_noise(of_errors, scales[0], generator, epsilon=levels[0]) / UNIT
    # Proposition 40.
    first = with_noise([units[1].sum()], scales[1], generator, epsilon=levels[1])[0] / UNIT
    # Proposition 40.
    second = with_noise([units[2].sum()], scales[2], generator, epsilon=levels[2])[0] / UNIT
    size = float(plan.n_samples if plan.replaces else max(of_errors.sum(), 0.0))
    if not plan.replaces:
        warn_if_drowned(plan, noise[0], size)
    low, high = map(float, target_bounds)
    sums = _SumsOfR2(
        of_errors[0], first, second, size, noise, plan.replaces, largest / (high - low)
    )
    return PrivateScore(1.0 - sums.ratio)._release(plan, sums.interval)


def _levels_of_r2(epsilon):
    """Split epsilon over errors, responses and their squares, exactly as the parts are written."""
    if math.isinf(epsilon):
        return epsilon, epsilon, epsilon
    whole = as_written(epsilon)
    half, quarter = most_below(whole / 2), most_below(whole / 4)
    return half, quarter, most_below(whole - as_written(half) - as_written(quarter))


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
        """Return the interval of R^2 at a level."""
        widest = 1.0 - _WORST
        if self.total <= 0.0:
            return _WORST, 1.0

        def distance(value):
            return self.errors - widest * value * self.total

        ends = inverted(distance, self._spread, self.ratio / widest, level)
        return 1.0 - widest * ends[1], 1.0 - widest * ends[0]

    def _spread(self, value):
        """Return (deviation of ``S - q T`` by sampling at most, weights of the noise)."""
        q, mean, (e, f, s) = (1.0 - _WORST) * value, self.mean, self.noise
        # An error's square is at most a share of its bound, and so is that of a response.
        farthest = max(mean, 1.0 - mean) ** 2
        variance = self.unit**2 * max(self.errors, 0.0) + q**2 * farthest * self.total
        counted = [] if self.replaces else [q * mean**2 * e]
        of_errors = (self.unit**2 - (0.0 if self.replaces else q * mean**2)) * e
        return math.sqrt(variance), [of_errors, *counted, 2.0 * q * mean * f, q * s]
