"""Scorers that release their scores with noise, for `cross_val_score`, `GridSearchCV` and similar tools.

scorer(estimator, X, y) = sign * score_func(y, estimator.response_method(X), epsilon=...)

Rows that were exposed for different times have expected counts of their own: the estimator's response gets
``exposure``, too. Scores of persons get the person of each row, ``groups``.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn import config_context
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import UNCHANGED, MetadataRequest

from .._data.collections import is_collection, refuse_columns_in_other_order
from .._data.columns import count_column, label_column, number_column
from .._data.partitions import in_memory_and_order
from .._typing import MatrixLike
from ..privacy.budget import Budget
from ..privacy.cost import PrivacyCost
from ..privacy.losses import between_persons
from ._base import called_by, is_positive, label_numbers, plan_score, public_labels
from ._scores import (
    dp_accuracy_score,
    dp_brier_score,
    dp_log_loss,
    dp_mean_absolute_error,
    dp_mean_poisson_deviance,
    dp_mean_score,
    dp_mean_squared_error,
    dp_r2_score,
)
from ._tables import dp_roc_auc_score

# Exposures on their way to predictions: of a model of rates, for the rows that are scored.
#
#     E[y] = e r(x),    e the exposure of a row, r its rate
#
# Exposures change predictions, which are private whatever they are: a score's bounds are those of its
# loss.


# A pipeline then hands what else it is given to its last step, whatever steps request.
to_last_step = partial(config_context, enable_metadata_routing=False)


def final_estimator(estimator):
    """The last step of a pipeline, and any other estimator itself."""
    while hasattr(estimator, "steps"):
        estimator = estimator.steps[-1][1]
    return estimator


def check_exposed(estimator, method):
    """Raise a TypeError if a method of an estimator, or of a pipeline's last step, takes no exposure."""
    final = final_estimator(estimator)
    if "exposure" not in inspect.signature(getattr(final, method)).parameters:
        raise TypeError(
            f"{type(final).__name__}.{method} takes no exposure: leave it out, or use a model of rates, such "
            "as DPBayesianPoissonRegressor."
        )


def respond(estimator, method, X, exposure=None):
    """The result of an estimator's method for rows, with their exposures if there are any."""
    if exposure is None:
        return getattr(estimator, method)(X)
    check_exposed(estimator, method)
    with to_last_step():
        return getattr(estimator, method)(X, exposure=exposure)


def refuse_rates(estimator):
    """Raise a ValueError if an estimator was fitted with exposures: counts are not to be scored by rates.

    Of searches it is the best estimator that predicts.
    """
    if getattr(
        final_estimator(getattr(estimator, "best_estimator_", estimator)), "_is_exposed", False
    ):
        raise ValueError(
            "the model was fitted with exposure, and would predict rates of the rows that are scored, not "
            "counts: pass their exposure, too (ones, if all were exposed for 1). In scikit-learn's tools, "
            "enable_metadata_routing and scorer.set_score_request(exposure=True) pass it on."
        )


def fit_params(estimator, exposure=None, groups=None):
    """The arguments by which an estimator, or a pipeline's last step, is fitted with exposures.

    Persons are told to what chooses their rows: a private pipeline itself, or the last step.
    """
    params, prefix = {}, ""
    while hasattr(estimator, "steps"):
        if groups is not None and hasattr(estimator, "max_rows_per_group"):
            params[f"{prefix}groups"], groups = groups, None
        name, estimator = estimator.steps[-1]
        prefix += f"{name}__"
    columns = {f"{prefix}exposure": exposure, f"{prefix}groups": groups}
    return params | {name: column for name, column in columns.items() if column is not None}


_REGRESSION_SCORES = (
    dp_r2_score,
    dp_mean_squared_error,
    dp_mean_absolute_error,
    dp_mean_poisson_deviance,
)
# Which of their methods scores of classes read, where another one's answer looks like it.
_METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")
_CLASSIFICATION_METHODS = {
    dp_accuracy_score: "predict",
    dp_log_loss: "predict_proba",
    dp_brier_score: "predict_proba",
}


class PrivateScorer:
    """A scorer made by `make_private_scorer`; call it with ``(estimator, X, y)``.

    With scikit-learn's metadata routing it takes part as scikit-learn's own scorers do:
    ``scorer.set_score_request(exposure=True)``, or ``scorer.set_score_request(groups=True)`` for scores that
    protect persons.

    Attributes
    ----------
    score_func : callable
        The score function.
    epsilon : float
        What each call spends.
    delta : float or None
        The delta at which costs are reported.
    greater_is_better : bool
        Whether the score is to be maximised; if not, it is negated.
    """

    def __init__(
        self,
        score_func: Callable,
        epsilon: float,
        delta: float | None,
        response_method: str | tuple[str, ...],
        greater_is_better: bool,
        options: dict[str, Any],
    ):
        self.score_func = score_func
        self.epsilon = epsilon
        self.delta = delta
        self.response_method = response_method
        self.greater_is_better = greater_is_better
        self.options = options
        self._requests: dict[str, Any] = {"exposure": None, "groups": None}

    def get_metadata_routing(self) -> MetadataRequest:
        """The request to scikit-learn's metadata routing: ``exposure`` and ``groups``."""
        request = MetadataRequest(owner=self)
        for name, alias in self._requests.items():
            request.score.add_request(param=name, alias=alias)
        return request

    def set_score_request(
        self, *, exposure: bool | str | None = UNCHANGED, groups: bool | None = UNCHANGED
    ) -> Self:
        """Set whether tools with metadata routing pass ``exposure`` and ``groups`` to the scorer.

        Parameters
        ----------
        exposure : bool, str or None
            Whether it is passed, or the name under which the tool is given it. None, as before any call,
            refuses it.
        groups : bool or None
            Whether the person of each row is passed, under this name, as it is to the folds. If it is, all
            scores protect persons, and a call without groups is an error.

        Returns
        -------
        self : PrivateScorer

        Raises
        ------
        TypeError
            If ``groups`` is another name: folds, fits and scores need the same persons.
        """
        if isinstance(groups, str) and groups != UNCHANGED:
            raise TypeError(
                f"groups={groups!r} is another name, and scores would be of other persons than folds: pass "
                "True or False."
            )
        for name, alias in (("exposure", exposure), ("groups", groups)):
            if alias != UNCHANGED:
                self._requests[name] = alias
        return self

    @property
    def _protects_persons(self):
        """Whether every call is about persons, as tools pass them."""
        return self._requests["groups"] is True

    @property
    def neighboring_relation(self) -> str:
        """The relation under which the scores are private."""
        return self.options.get("neighboring_relation", "replace_one")

    @property
    def privacy_cost(self) -> PrivacyCost:
        """Upper bound on the cost of a call, for any score function; for persons, if groups are requested."""
        relation = self.neighboring_relation
        relation = between_persons(relation) if self._protects_persons else relation
        return plan_score("score", self.epsilon, self.delta, relation, 0).cost

    def _has_seeds(self):
        return self.options.get("random_state") is not None

    def with_options(self, **changes: Any) -> Self:
        """A copy with another ``epsilon``, ``delta``, or options of the score function."""
        budget = {name: changes.pop(name, getattr(self, name)) for name in ("epsilon", "delta")}
        changed = type(self)(
            self.score_func,
            budget["epsilon"],
            budget["delta"],
            self.response_method,
            self.greater_is_better,
            {**self.options, **changes},
        )
        return changed.set_score_request(**self._requests)

    def __call__(
        self,
        estimator: Any,
        X: MatrixLike,
        y_true: Any = None,
        *,
        exposure: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> float:
        """The released score; if lower is better, its negative as a plain float.

        Parameters
        ----------
        estimator : estimator
            Fitted on other rows.
        X : array-like of shape (n_samples, n_features)
        y_true : array-like of shape (n_samples,)
            Not needed by scores of values alone, such as log densities.
        exposure : array-like of shape (n_samples,), default=None
            Of the rows, for scores of numbers and estimators whose predictions take it. None is 1.
        groups : array-like of shape (n_samples,), default=None
            The person each row belongs to, for a score that protects persons.

        Returns
        -------
        score : float

        Raises
        ------
        TypeError
            If the score is not for such an estimator, or one of them knows no exposure. Nothing is spent.
        ValueError
            If the estimator was fitted with exposure, and none is given, or if groups are requested and not
            given. Nothing is spent.
        """
        if groups is None and self._protects_persons:
            raise ValueError(
                "the scorer requests groups, so that its scores protect persons, and got none: pass groups, "
                "or take the request back by set_score_request(groups=None)."
            )
        refuse_columns_in_other_order(X=X, y_true=y_true, exposure=exposure, groups=groups)
        takes = inspect.signature(self.score_func).parameters
        options = self._completed(getattr(estimator, "classes_", None), takes, estimator)
        response = self._response(estimator, X, options.get("pos_label"), exposure)
        # In one computation, so that columns of a source that changes are of the same rows.
        response, y_true, groups = in_memory_and_order(X, response, y_true=y_true, groups=groups)
        given = {"epsilon": self.epsilon, "delta": self.delta, **options, "groups": groups}
        with called_by(self):
            score = self.score_func(*([] if "values" in takes else [y_true]), response, **given)
        return score if self.greater_is_better else -score

    def _check_exposed(self, estimator):
        """Raise a TypeError if the score, or an estimator, which need not be fitted, knows no exposure."""
        if self.score_func not in _REGRESSION_SCORES:
            raise TypeError(
                f"{self.score_func.__name__} takes no exposure: leave it out, or score counts, as by "
                "'neg_mean_poisson_deviance'."
            )
        check_exposed(estimator, self._method_of(estimator))

    def _check(self, estimator, classes, y_true):
        """Raise what a call would raise for labels, or for a score that an estimator does not have.

        The estimator need not be fitted; ``classes`` are the labels that it will have, None if not known.
        """
        takes, name = inspect.signature(self.score_func).parameters, self.score_func.__name__
        self._method_of(estimator)
        if "values" in takes:
            self._check_values(estimator, classes)
            return
        if y_true is None:
            raise ValueError(f"{name} compares predictions with labels, but y is None: pass y.")
        if self.score_func in _REGRESSION_SCORES:
            of_counts = self.score_func is dp_mean_poisson_deviance
            (count_column if of_counts else number_column)(y_true, "y_true")
            if of_counts and classes is not None:
                raise TypeError(
                    f"{name} is for predicted means of counts, and {type(estimator).__name__} predicts "
                    "classes: choose another score, such as 'accuracy' or 'neg_log_loss'."
                )
            if "target_bounds" in takes and "target_bounds" not in self.options:
                _refuse_without_bounds(final_estimator(estimator), "target_bounds")
            return
        options = self._completed(classes, takes, estimator)
        if "pos_label" in takes and classes is not None and len(classes) > 2:
            raise ValueError(
                f"{name} is for two classes, and there are {len(classes)}: choose another score, such as "
                "'accuracy' or 'neg_log_loss'."
            )
        if options.get("pos_label") is not None:
            is_positive(y_true, options["pos_label"])
        elif options.get("labels") is not None:
            labels = public_labels(options["labels"])
            label_numbers(y_true, labels, "y_true")
            if classes is not None and len(labels) != len(classes):
                raise ValueError(
                    f"labels lists {len(labels)} labels, but the estimator has {len(classes)}: leave it out."
                )
        else:
            label_column(y_true, "y_true")

    def _check_values(self, estimator, classes):
        """Raise a ValueError if an estimator with these classes predicts no single numbers."""
        method = self._method_of(estimator)
        if classes is None:
            return
        is_text = method == "predict" and np.asarray(classes).dtype.kind in "OUS"
        if is_text or (method in ("predict_proba", "predict_log_proba") and len(classes) > 2):
            raise ValueError(
                f"{self.score_func.__name__} is a mean of numbers, and {method} of {len(classes)} classes "
                "gives none for each row: choose another response_method, or a score of labels."
            )

    def _completed(self, classes, takes, estimator):
        """The options, with the labels or the bounds of responses that an estimator has."""
        options = dict(self.options)
        if "target_bounds" in takes and "target_bounds" not in options:
            options["target_bounds"] = _bounds_of(estimator)
        if classes is not None and "labels" in takes:
            # As in scikit-learn, labels in any order name the columns, which are in that of classes.
            given, known = np.asarray(options.get("labels", classes)), np.asarray(classes)
            are_alike = (given.dtype.kind in "OUS") == (known.dtype.kind in "OUS")
            if given.ndim == 1 and len(given) == len(known) and are_alike:
                if set(given.tolist()) != set(known.tolist()):
                    raise ValueError(
                        f"labels={given.tolist()} are not the estimator's classes, {known.tolist()}: leave "
                        "them out."
                    )
                options["labels"] = classes
        if classes is not None and "pos_label" in takes and len(classes) == 2:
            options.setdefault("pos_label", np.asarray(classes)[1].item())
        label = options.get("pos_label")
        if label is not None and classes is not None and label not in np.asarray(classes).tolist():
            raise ValueError(
                f"pos_label={label!r} is none of the estimator's classes: leave it out for the second, or "
                "pass one of classes_."
            )
        return options

    def _response(self, estimator, X, pos_label, exposure):
        """An estimator's response to rows, as a single column for two classes."""
        if exposure is None:
            refuse_rates(estimator)
        else:
            self._check_exposed(estimator)
        method = self._method_of(estimator)
        response = respond(estimator, method, X, exposure)
        if hasattr(response, "iloc") and not is_collection(response):
            response = response.to_numpy()  # It is of these rows, however a model numbers them.
        if method == "predict" or getattr(estimator, "classes_", None) is None:
            return response
        second = pos_label is None or pos_label == estimator.classes_[-1]
        two_columns = np.ndim(response) == 2 and np.shape(response)[1] == 2
        if two_columns and self.score_func is not dp_log_loss:
            return response[:, 1 if second else 0]
        return response if second or np.ndim(response) == 2 else -response

    def _method_of(self, estimator):
        """The name of the method that responds to rows, of an estimator that the score is for."""
        # Numbers may rank rows, or be probabilities, but are not labels.
        if self.score_func is dp_accuracy_score and is_regressor(estimator):
            raise TypeError(
                f"accuracy is for classes, and {type(final_estimator(estimator)).__name__} predicts numbers: "
                "choose 'r2', 'neg_mean_squared_error', 'neg_mean_absolute_error' or, for counts, "
                "'neg_mean_poisson_deviance'."
            )
        final = final_estimator(getattr(estimator, "best_estimator_", estimator))
        is_of_counts = self.score_func is dp_mean_poisson_deviance and is_regressor(estimator)
        if is_of_counts and not getattr(final, "_reads_counts", True):
            # Known of the model, so that an error says nothing about rows, in a search in particular.
            raise TypeError(
                f"the Poisson deviance is for expected counts, and {type(final).__name__} may predict "
                "negative numbers: choose DPBayesianPoissonRegressor, or another score, such as "
                "'neg_mean_squared_error'."
            )
        methods = self.response_method
        methods = (methods,) if isinstance(methods, str) else methods
        for method in methods:
            if hasattr(estimator, method):
                self._check_method(estimator, method)
                return method
        raise AttributeError(
            f"{type(estimator).__name__} has none of {', '.join(methods)}: choose another "
            "response_method."
        )

    def _check_method(self, estimator, method):
        """Raise a TypeError if a classifier's method does not return what the score reads."""
        needed = _CLASSIFICATION_METHODS.get(self.score_func, method)
        if is_classifier(estimator) and method in _METHODS and method != needed:
            raise TypeError(
                f"{self.score_func.__name__} reads what {needed} returns, and response_method is {method!r}: "
                f"pass response_method={needed!r}."
            )

    def __repr__(self):
        return (
            f"make_private_scorer({getattr(self.score_func, '__name__', self.score_func)}, "
            f"epsilon={self.epsilon:g})"
        )


def _bounds_of(estimator):
    """The public bounds of responses of a fitted regressor, or of a pipeline's last step."""
    estimator = final_estimator(estimator)
    # Scores on data-dependent bounds are not comparable between candidates.
    _refuse_without_bounds(estimator, "target_bounds_")
    return estimator.target_bounds_


def _refuse_without_bounds(estimator, attribute):
    """Raise a ValueError if bounds of responses are learnt, or there are none."""
    if isinstance(getattr(estimator, "target_bounds", None), str):
        raise ValueError(
            "bounds of responses that are learnt differ from fit to fit, and errors within them cannot be "
            "compared: give public ones to the scorer, target_bounds=(low, high)."
        )
    if getattr(estimator, attribute, None) is None:
        raise ValueError(
            f"{type(estimator).__name__} has no bounds of responses: give public ones to the scorer, "
            "target_bounds=(low, high)."
        )


# Scorers by name: which score, of which response of an estimator, and whether more is better.


# Name: (function, response method of the estimator, whether greater is better).
NAMED: dict[str, tuple[Callable, str | tuple[str, ...], bool]] = {
    "accuracy": (dp_accuracy_score, "predict", True),
    "neg_log_loss": (dp_log_loss, "predict_proba", False),
    "neg_brier_score": (dp_brier_score, "predict_proba", False),
    "roc_auc": (dp_roc_auc_score, ("decision_function", "predict_proba"), True),
    "r2": (dp_r2_score, "predict", True),
    "neg_mean_squared_error": (dp_mean_squared_error, "predict", False),
    "neg_mean_absolute_error": (dp_mean_absolute_error, "predict", False),
    "neg_mean_poisson_deviance": (dp_mean_poisson_deviance, "predict", False),
}
_SCORES = (dp_mean_score, *(score for score, *_ in NAMED.values()))


def make_private_scorer(
    score_func: Callable | str,
    *,
    epsilon: float,
    delta: float | None = None,
    response_method: str | tuple[str, ...] = "predict",
    greater_is_better: bool = True,
    **options: Any,
) -> PrivateScorer:
    """Make a scorer that releases its scores with noise.

    Every call spends epsilon on the rows that it scores, and is charged to the active ledger: a
    cross-validation with five folds spends it five times, and fits five models. The total cost of a search,
    or of ``cross_validate``, is given by `skdpbayes.model_selection.total_privacy_cost`; ``cross_val_score``
    keeps too little to know it. Noise hides "r2" unless bounds of responses are narrow: see `dp_r2_score`.

    Parameters
    ----------
    score_func : callable or str
        A function of `skdpbayes.metrics`, called as ``score_func(y_true, y_pred, epsilon=..., delta=...,
        **options)``, or ``score_func(values, ...)`` for `dp_mean_score`. Or a name, which also sets
        ``response_method`` and ``greater_is_better``: "accuracy", "neg_log_loss", "neg_brier_score",
        "roc_auc", "r2", "neg_mean_squared_error", "neg_mean_absolute_error" or "neg_mean_poisson_deviance".
    epsilon : float
        What each call may spend.
    delta : float, default=None
        Passed to ``score_func``.
    response_method : str or tuple of str, default="predict"
        Method of the estimator; of several names, the first that the estimator has. If the method returns
        probabilities of two classes, the score gets the column of the second class, and `dp_log_loss` gets
        both.
    greater_is_better : bool, default=True
        Whether the score is to be maximised; if not, it is negated.
    **options
        Passed to ``score_func``, such as ``labels``, ``pos_label``, ``neighboring_relation`` or
        ``random_state``. Labels default to the estimator's ``classes_``, and ``target_bounds`` to its
        ``target_bounds_``. An integer ``random_state`` starts
        one stream of noise for all calls.

    Returns
    -------
    scorer : PrivateScorer

    Raises
    ------
    ValueError, TypeError
        If the function is not supported, or a parameter is out of range.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.model_selection import KFold, cross_val_score
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.metrics import make_private_scorer
    >>> X, y = make_classification(2000, 5, random_state=0)
    >>> scorer = make_private_scorer("accuracy", epsilon=0.5, random_state=0)
    >>> clf = DPBayesianLogisticRegression(epsilon=1.0, classes=[0, 1], random_state=0)
    >>> cross_val_score(clf, X, y, cv=KFold(4, shuffle=True, random_state=0), scoring=scorer).shape
    (4,)
    """
    if isinstance(score_func, str):
        if score_func not in NAMED:
            raise ValueError(f"score_func must be one of {sorted(NAMED)}, got {score_func!r}.")
        function, response_method, greater_is_better = NAMED[score_func]
    else:
        function = score_func
    if function not in _SCORES:
        raise TypeError(
            f"score_func must be one of {', '.join(score.__name__ for score in _SCORES)}: the privacy of "
            "other functions is not known."
        )
    takes = inspect.signature(function).parameters
    if "groups" in options:
        raise TypeError(
            "groups belong to rows, not to a scorer: pass scorer(model, X, y, groups=...); or "
            "let tools pass them, by scorer.set_score_request(groups=True)."
        )
    if unknown := sorted(set(options) - set(takes)):
        raise TypeError(f"{function.__name__} does not accept {', '.join(unknown)}: leave it out.")
    relation = options.get("neighboring_relation", "replace_one")
    Budget(epsilon, 0.0 if delta is None else delta, relation).checked()
    if isinstance(options.get("random_state"), int | np.integer):
        options["random_state"] = check_random_state(options["random_state"])
    return PrivateScorer(function, epsilon, delta, response_method, greater_is_better, options)
