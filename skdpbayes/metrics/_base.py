"""Private scores: their plan and cost, what they read, and results that know interval and cost."""

import inspect
import math
from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy.optimize import brentq
from sklearn.utils._param_validation import StrOptions, validate_params

from .._arguments import RANDOM_STATE, Interval, check_level
from .._data.collections import refuse_columns_in_other_order
from .._data.columns import (
    array_of,
    column_of,
    comparable,
    finite_numbers,
    label_column,
    number_column,
)
from .._data.partitions import in_memory
from .._data.privacy_units import choose_rows, count_persons, number_persons
from .._errors import column_names, reraise_if_safe, sanitize_errors, to_native
from ..exceptions import PrivacyWarning
from ..privacy.budget import Budget
from ..privacy.charge import charge
from ..privacy.cost import PrivacyCost
from ..privacy.deferred_warnings import warn, warnings_last
from ..privacy.losses import (
    RELATIONS,
    PureMechanism,
    between_persons,
)
from ..privacy.planned_release import UnitRelease
from ..random import private_generator
from ..report.account import plan_account


@dataclass(frozen=True)
class ScorePlan(UnitRelease):
    """The plan of a score: what it does and costs. Attributes are public numbers.

    Attributes
    ----------
    name : str
        Name of the score.
    budget : Budget
        The requested budget.
    cost : PrivacyCost
        What is spent, whatever the rows hold.
    n_samples : int or None
        Number of rows, or of persons, if it is public.
    """

    name: str
    budget: Budget
    cost: PrivacyCost
    n_samples: int | None

    @property
    def proof(self) -> str:
        """The proposition by which its cost is known."""
        return "Proposition 41" if self.name == "ROC AUC" else "Proposition 40"


def plan_score(name, epsilon, delta, neighboring_relation, n_samples, levels=None):
    """The plan of a score.

    Parameters
    ----------
    name : str
    epsilon : float
    delta : float or None
    neighboring_relation : str
        Of rows or of persons.
    n_samples : int
        Number of rows, or of persons, which the plan keeps if it is public.
    levels : sequence of float, default=None
        Epsilons of the independent pure mechanisms that the score consists of; None is a single mechanism.

    Returns
    -------
    plan : ScorePlan
    """
    budget = Budget(float(epsilon), 0.0 if delta is None else delta, neighboring_relation)
    budget = budget.checked(persons=True)
    if budget.is_private:
        pure = (
            PrivacyCost(neighboring_relation, pure_events=(PureMechanism(level),))
            for level in levels or [budget.epsilon]
        )
        cost = sum(pure, PrivacyCost(neighboring_relation))
    else:
        cost = PrivacyCost(neighboring_relation, mu=math.inf)
    plan = ScorePlan(name, budget, cost, int(n_samples))
    return plan if plan.replaces else replace(plan, n_samples=None)


# The scorer that calls a score, in this very thread, and that may have an authorization for it.
_scorer = ContextVar("scorer", default=None)


@contextmanager
def called_by(scorer):
    """Charge the next score to a scorer's authorization, if it has one."""
    token = _scorer.set(scorer)
    try:
        yield
    finally:
        _scorer.reset(token)


def called_directly():
    """Whether no scorer calls the score."""
    return _scorer.get() is None


@dataclass(frozen=True, eq=False)
class ScoreRequest:
    """What a score is asked with, beside its columns: it plans the score, and charges the plan.

    Attributes
    ----------
    epsilon : float
    delta : float or None
    neighboring_relation : str
        Of rows.
    groups : array-like or None
        The person of each row, in memory. If there are any, persons are protected.
    random_state : None, int, RandomState instance or Generator
    n_rows : int
    """

    epsilon: float
    delta: float | None
    neighboring_relation: str
    groups: Any
    random_state: Any
    n_rows: int

    @cached_property
    def persons(self):
        """The index of every row's person, or None if rows are protected."""
        return None if self.groups is None else number_persons(self.groups, self.n_rows)

    @property
    def size(self):
        """The number of rows, or of persons."""
        return self.n_rows if self.persons is None else count_persons(self.persons)

    def plan(self, name, levels=None, size=None):
        """The `plan_score` of these rows, or of a smaller ``size``."""
        relation = self.neighboring_relation
        relation = relation if self.persons is None else between_persons(relation)
        size = self.size if size is None else size
        return plan_score(name, self.epsilon, self.delta, relation, size, levels)

    def spend(self, plan, noise=0.0, n_parts=1):
        """Charge a plan to the active ledgers, and return the generator of its noise.

        A public number of rows, or of persons, in each of ``n_parts`` that is drowned by ``noise`` is told of
        before the charge; of a private one, `warn_if_noise_dominates` tells when it is released.
        """
        generator = private_generator(self.random_state)
        if plan.replaces:
            warn_if_noise_dominates(plan, noise, plan.n_samples / n_parts)
        charge(plan, _scorer.get()).close("completed")  # The release itself takes no time.
        return generator


def warn_if_noise_dominates(plan, noise, size):
    """Warn if the noise is large compared to the table; both numbers are public, or released."""
    what = plan.counts
    if noise > 0.2 * size:
        warn(
            f"{plan.name}: with this epsilon the noise is worth {noise:.3g} {what} of {max(size, 0):.4g}, so "
            f"the score says little: raise epsilon, or score more {what}. See its interval.",
            PrivacyWarning,
        )


# What scores read: a column of labels and one of predictions, which belong together.
#
# Columns are read by `skdpbayes._data.columns`, and compared here: lengths, kinds of labels, and
# ranges.
#
# Errors say what is wrong with the format, and none quotes an entry. Predictions that cannot be, such
# as negative expected counts, are refused as missing labels are, before anything is spent: like all
# errors of validation these depend on rows, and are not to be published.


COMMON = {
    "epsilon": [Interval(Real, 0, None, closed="right")],
    "delta": [None, Interval(Real, 0, 1, closed="left")],
    "neighboring_relation": [StrOptions(set(RELATIONS))],
    "random_state": RANDOM_STATE,
    "groups": "no_validation",
}
# Not validated by scikit-learn, whose errors would quote entries.
COLUMN = "no_validation"
LABEL = [None, Real, str, "boolean"]
PUBLIC_SIZE = [None, Interval(Integral, 2, None, closed="left")]


def score_function(**parameters):
    """Declare a function a private score, with constraints of its own parameters.

    What columns hold shows neither in warnings nor in errors of floating-point operations.
    """

    def declare(function):
        constraints = {**parameters, **COMMON}
        checked = validate_params(constraints, prefer_skip_nested_validation=True)(function)
        own = inspect.signature(function).parameters.values()
        columns = [
            parameter.name for parameter in own if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]

        @wraps(function)
        def score(*args, **options):
            if len(args) > len(columns):
                name = function.__name__
                raise TypeError(
                    f"{name} takes {' and '.join(columns)} by position, and the rest by name: write "
                    f"{name}({', '.join(columns)}, epsilon=1.0)."
                )
            with warnings_last(object()) as call:
                call.score = checked(*args, **options)
                return call.score

        return score

    return declare


def refuse_tables(values, name):
    """Raise a ValueError if what is of the positive label alone is of several classes."""
    shape = np.shape(array_of(values, name))
    if len(shape) == 2 and shape[1] > 1:
        raise ValueError(
            f"{name} has {shape[1]} columns, and must have one: pass that of the positive label, such as "
            "predict_proba(X)[:, 1]."
        )


def probability_column(values, name):
    """Probabilities of the positive label as an array of one dimension."""
    refuse_tables(values, name)
    column = column_of(values, name)
    return _in_unit_interval(finite_numbers(column, name), name, _rounding(column))


def probability_table(values, name):
    """Probabilities of all classes, of shape (n_samples, n_classes), also from the second's alone."""
    values = array_of(values, name)
    if values.ndim == 2 and values.shape[1] > 1:
        rounding = _rounding(values)
        table = _in_unit_interval(finite_numbers(values, name), name, rounding)
        if np.any(np.abs(table.sum(axis=1) - 1.0) > rounding):
            raise ValueError(
                f"rows of {name} must add up to 1, as probabilities of all classes do: pass the result of "
                "predict_proba with all its columns. If numbers were rounded, divide each row by its sum."
            )
        return table
    second = probability_column(values, name)
    return np.column_stack([1.0 - second, second])


def check_column_names(values, labels, name):
    """Raise a ValueError if columns of a frame have names of labels, and not of those in their places.

    Names that are none of the labels say nothing, nor do numbers from 0, which pandas gives by itself.
    """
    values = to_native(values, name)
    names = (
        [values.name] if hasattr(values, "iloc") and np.ndim(values) == 1 else column_names(values)
    )
    named, shown = [_shown(label) for label in names or ()], [_shown(label) for label in labels]
    places = shown[-1:] if len(named) == 1 else shown
    moved = any(
        label in shown and label != place for label, place in zip(named, places, strict=False)
    )
    numbered = named == [str(j) for j in range(len(named))] and sorted(named) != sorted(shown)
    if moved and not numbered:
        raise ValueError(
            f"columns of {name} have the names of labels, in another order than labels: pass "
            f"{name}[list(labels)], or of a single column that of the last label; or, if the order is right "
            f"as it is, {name}.to_numpy()."
        )


def _shown(label):
    """A label as text, in which 1, 1.0 and '1' are the same."""
    return str(
        int(float(label)) if isinstance(label, Real) and float(label).is_integer() else label
    )


def _rounding(values):
    """The tolerance for probabilities and their sums, which scikit-learn has for single precision."""
    single = np.finfo(np.float32).eps
    return float(
        np.sqrt(max(np.finfo(values.dtype).eps, single) if values.dtype.kind == "f" else single)
    )


def check_classes(table, n_classes, name):
    """Raise a ValueError if a table of probabilities has another number of classes."""
    if table.shape[1] != n_classes:
        raise ValueError(
            f"{name} has probabilities of {table.shape[1]} classes, but there are {n_classes} labels: pass "
            "all labels that can occur, in the order of the columns."
        )


def _in_unit_interval(values, name, rounding):
    if values.size and not (values.min() >= -rounding and values.max() <= 1 + rounding):
        raise ValueError(
            f"{name} must hold probabilities between 0 and 1: pass the result of predict_proba."
        )
    return np.clip(values, 0.0, 1.0)


def expected_counts(values, name):
    """Expected counts, none negative but by rounding, as an array of one dimension."""
    values = number_column(values, name)
    if (values < -1e-9).any():
        raise ValueError(
            f"{name} must hold expected counts, none below 0: if these are logarithms, pass np.exp({name}); "
            "if a model of numbers, such as least squares, predicts negative ones, take a model of counts, "
            f"such as DPBayesianPoissonRegressor, or np.maximum({name}, smallest) with a public number."
        )
    return np.maximum(values, 0.0)


def refuse_fractions_of_labels(y_true, y_pred):
    """Raise a ValueError if all labels are whole numbers, and predictions are not."""
    fractions = y_pred.dtype.kind == "f" and not np.array_equal(y_pred, np.rint(y_pred))
    if fractions and y_true.dtype.kind in "biuf" and not np.any(np.asarray(y_true, float) % 1):
        raise ValueError(
            "y_pred holds fractions, and y_true whole numbers: accuracy compares labels, so pass those of "
            "predict, not probabilities or scores."
        )


def same_length(neighboring_relation, **columns):
    """Raise a ValueError if columns differ in length, or have no rows and that is public."""
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"{' and '.join(columns)} must have the same number of rows.")
    if lengths == {0} and neighboring_relation == "replace_one":
        raise ValueError(f"{' and '.join(columns)} are empty: there is nothing to score.")


def agree_in_kind(first, second, names):
    """Raise a ValueError if one column holds text and the other does not."""
    text = [column.size and isinstance(column[0], str) for column in (first, second)]
    if first.size and text[0] != text[1]:
        listed = names[1] == "labels"
        remedy = (
            "list the labels of the rows, e.g. labels=clf.classes_"
            if listed
            else "make them one kind"
        )
        raise ValueError(
            f"{names[0]} and {names[1]} hold labels of different kinds, text and numbers: {remedy}."
        )


def is_positive(y, pos_label, predicted=None):
    """Mask of the positive labels; None means 1, with labels 0 (or -1) and 1.

    A column of predictions, if there is one, must not have the name of another label.
    """
    y = label_column(y, "y_true")
    name = predicted.name if hasattr(predicted, "iloc") and hasattr(predicted, "name") else None
    if isinstance(name, str) and name != pos_label and y.dtype.kind in "UO" and (y == name).any():
        raise ValueError(
            f"the column of predictions has the name of a label, and pos_label={pos_label!r} is another: "
            "pass the column of that label; or, if it is right as it is, its to_numpy()."
        )
    if y.size == 0:
        return np.zeros(0, dtype=bool)
    if pos_label is not None:
        if isinstance(y[0], str) != isinstance(pos_label, str):
            raise ValueError(
                "pos_label and y_true hold labels of different kinds, text and numbers: pass a pos_label of "
                "the kind of y_true."
            )
        others = y != pos_label
        if np.unique(y[others]).size > 1:
            raise ValueError(
                f"y_true holds several labels besides pos_label={pos_label!r}: this score is for two classes."
            )
        return ~others
    if y.dtype.kind not in "biuf" or not np.isin(y, (-1, 0, 1)).all():
        raise ValueError(
            "y_true holds labels other than 0 (or -1) and 1: say which label is positive, "
            "e.g. pos_label=clf.classes_[1] for the second column of predict_proba."
        )
    return y == 1


def public_labels(labels):
    """The declared labels in their order."""
    if np.ndim(labels) != 1:
        raise ValueError(
            f"labels must be a list, whose order is that of columns, and is a {type(labels).__name__}."
        )
    labels = label_column(labels, "labels")
    if len(labels) < 2 or np.unique(labels).size != len(labels):
        raise ValueError("labels must list all labels that can occur, at least two, each once.")
    return labels


def label_numbers(y, labels, name):
    """The index of each label in the list."""
    y = label_column(y, name)
    if y.size == 0:
        return np.zeros(0, dtype=int)
    agree_in_kind(y, labels, (name, "labels"))
    labels, y = comparable(labels, y)
    order, text = np.argsort(labels), f"{name} holds labels that are not in labels"
    # Labels of kinds that cannot be compared, such as dates and numbers, differ.
    places = sanitize_errors(
        np.searchsorted, labels, y, sorter=order, on_error=reraise_if_safe(f"{text}.")
    )
    numbers = order[np.minimum(places, len(labels) - 1)]
    if not np.array_equal(labels[numbers], y):
        raise ValueError(f"{text}: list all that can occur.")
    return numbers


# Confidence intervals that account for both sampling error and noise.
#
# The released number is ``T = t(value) + sampling error + noise``. An interval holds all values for
# which ``T`` is not too far from ``t(value)``,
#
#     P(|s Z + sum_j w_j L_j| <= |T - t(value)|) <= level,     Z standard normal, L_j Laplace of scale 1,
#
# where the deviation ``s`` and the weights ``w`` depend on the value: Wilson's interval, with
# noise. The probability is found by inverting the characteristic function,
# ``exp(-s^2 u^2 / 2) / prod_j (1 + w_j^2 u^2)``.


# Step of a sum over a noise law, in its deviations.
_INTEGRATION_STEP = 0.2
# Largest deviation of that sum.
_INTEGRATION_END = 12.0
# Weights below this are left out.
_NEGLIGIBLE = 1e-12


def probability_within(distance, deviation, weights):
    """The probability that sampling error plus noise is no larger than a distance.

    Parameters
    ----------
    distance : float
        At least 0.
    deviation : float
        ``s``, at least 0.
    weights : sequence of float
        ``w``, of any sign.

    Returns
    -------
    probability : float
    """
    squares = np.square(np.asarray(weights, dtype=float))
    spread = math.sqrt(deviation**2 + 2.0 * squares.sum())
    if spread == 0 or distance >= _INTEGRATION_END * spread:
        return float(distance > 0)
    # In units of the total deviation. A single Laplace variable has a closed form, and its transform decays
    # slowest.
    q, normal, squares = distance / spread, deviation / spread, squares / spread**2
    squares = squares[squares > _NEGLIGIBLE]
    if normal < 1e-3 and squares.size == 1:
        return -math.expm1(-q / math.sqrt(squares[0]))
    u = np.arange(_INTEGRATION_STEP, 8.0 / max(normal, 0.02), _INTEGRATION_STEP)
    transform = np.exp(-((normal * u) ** 2) / 2.0) / np.prod(1.0 + np.outer(u**2, squares), axis=1)
    return 2.0 / np.pi * _INTEGRATION_STEP * (0.5 * q + np.sum(np.sin(q * u) / u * transform))


def invert_test(distance, spread, estimate, level):
    """The smallest and the largest value in [0, 1] that are compatible with what was released.

    Parameters
    ----------
    distance : callable
        ``T - t(value)``, decreasing in the value.
    spread : callable
        ``(s, w)`` of a value.
    estimate : float
        The value in [0, 1] with the smallest absolute distance.
    level : float

    Returns
    -------
    interval : (float, float)

    Raises
    ------
    ValueError
        If the level is not in (0, 1).
    """

    def excess(value):
        return probability_within(abs(distance(value)), *spread(value)) - level

    def end(farthest):
        if excess(farthest) <= 0:
            return farthest
        return (
            float(brentq(excess, farthest, estimate, xtol=1e-6))
            if excess(estimate) < 0
            else estimate
        )

    return end(0.0), end(1.0)


# Scores of persons who may have several rows: all rows of a person count for one.
#
#     u_p = (1 / k_p) sum of u_i over the k_p rows of person p,      sum_p u_p  in the place of  sum_i u_i
#
# A person moves a sum as far as a row would, whatever ``k_p`` is: means of numbers in [0, 1] are in
# [0, 1]. To a table of counts each person adds parts of a whole, integers that add up to ``UNIT``.
# Where pairs of rows are compared, one row of each person is drawn instead. See Proposition 44.


# What a person adds to a table of counts, in all.
PERSON_UNIT = 2**24


def columns_and_groups(groups, **columns):
    """Columns, and the groups of their rows, in memory.

    Raises
    ------
    ValueError
        If one of them is in another order than one before it.
    """
    values = in_memory(*columns.values(), groups)
    refuse_columns_in_other_order(**dict(zip((*columns, "groups"), values, strict=True)))
    return values


def means_of(shares, persons):
    """The mean of each person's numbers, which are in [0, 1]; of rows, the numbers themselves."""
    if persons is None:
        return shares
    # Each person's sum is formed from its own rows, in their order.
    return np.clip(np.bincount(persons, weights=shares) / np.bincount(persons), 0.0, 1.0)


def weights_of(persons):
    """An integer for every row: equal ones for a person's rows, up to 1, that add up to ``UNIT``."""
    n_rows = np.bincount(persons)
    order = np.argsort(persons, kind="stable")
    place = np.empty(persons.size, dtype=np.int64)
    place[order] = np.arange(persons.size) - np.repeat(np.cumsum(n_rows) - n_rows, n_rows)
    each = n_rows[persons]
    return PERSON_UNIT // each + (place < PERSON_UNIT % each)


def one_row_each(persons, random_state, *columns):
    """Columns, of one row of each person drawn at random; of rows, the columns themselves."""
    if persons is None:
        return columns
    kept = choose_rows(persons, 1, random_state)  # Proposition 60.
    return tuple(column[kept] for column in columns)


# Numbers and arrays that know their interval and their cost.


class _Released:
    """Base class of released scores.

    Attributes
    ----------
    plan : ScorePlan
        The plan of the score.
    """

    plan: Any = None
    _interval_at = None

    def _release(self, plan, interval_at):
        self.plan, self._interval_at = plan, interval_at
        return self

    def _privacy_account(self):
        if self.plan is None:
            raise TypeError(
                "only a score itself has a report, not values computed from it: keep the score."
            )
        return plan_account(self.plan, "score")

    @property
    def privacy_cost(self) -> PrivacyCost:
        """The cost; it converts to any (epsilon, delta) and composes with ``+``."""
        return self.plan.cost

    @property
    def spent_epsilon(self) -> float:
        """The epsilon that was spent, at the delta that was given (0 for None)."""
        return self.plan.epsilon

    def interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """A confidence interval for the value in the population; it covers sampling error and noise.

        Parameters
        ----------
        level : float, default=0.9
            Confidence level, in (0, 1).

        Returns
        -------
        interval : (low, high)
            Two numbers for a number, and two arrays for an array, with a separate interval for each entry.
        """
        if self._interval_at is None:
            raise AttributeError(
                "only the score itself has an interval, not values computed from it: keep the score."
            )
        check_level(level)
        return self._interval_at(level)


class PrivateScore(_Released, float):
    """A float that was released with noise."""


class PrivateArray(_Released, np.ndarray):
    """An array that was released with noise; parts and results of arithmetic are plain arrays."""

    @classmethod
    def released(cls, values: np.ndarray, plan: ScorePlan, interval_at: Callable) -> Self:
        """Values with their plan and their interval."""
        return np.asarray(values).view(cls)._release(plan, interval_at)

    def __array_finalize__(self, other):
        """Do nothing: a derived array has no plan and no interval."""

    def __array_wrap__(self, array, context=None, return_scalar=False):
        """A plain array, or a number."""
        return array[()] if return_scalar else np.asarray(array)

    def __getitem__(self, key):
        """Plain entries."""
        return np.asarray(self)[key]

    def __reduce__(self):
        return PrivateArray.released, (np.asarray(self), self.plan, self._interval_at)


class PrivateCurve(_Released, tuple):
    """A calibration curve that was released with noise: the tuple ``(prob_true, prob_pred)``.

    Attributes
    ----------
    prob_true, prob_pred : ndarray of shape (n_bins,)
    counts : ndarray of shape (n_bins,)
        Noisy numbers of rows in the bins.
    """

    counts: np.ndarray

    def __new__(cls, prob_true, prob_pred, counts):
        curve = super().__new__(cls, (prob_true, prob_pred))
        curve.counts = counts
        return curve

    def __getnewargs__(self):
        return (*self, self.counts)

    @property
    def prob_true(self) -> np.ndarray:
        """Share of positive rows in each bin."""
        return self[0]

    @property
    def prob_pred(self) -> np.ndarray:
        """Mean predicted probability in each bin."""
        return self[1]
