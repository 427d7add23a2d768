"""Scorers by name: which score, of which response of an estimator, and whether more is better."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..privacy.budget import Budget
from ._means import dp_accuracy_score, dp_brier_score, dp_log_loss, dp_mean_score
from ._numbers import (
    dp_mean_absolute_error,
    dp_mean_poisson_deviance,
    dp_mean_squared_error,
    dp_r2_score,
)
from ._ranking import dp_roc_auc_score
from ._scorer import PrivateScorer

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

    Every call spends epsilon on the rows that it scores, and is charged to the active ledger. The total cost
    of a cross-validation or search is given by `skdpbayes.model_selection.total_privacy_cost`.

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
