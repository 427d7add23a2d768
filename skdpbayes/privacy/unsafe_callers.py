"""What other packages' ensembles and pipelines do to rows before a private fit reads them.

The cost of a fit is proven for tables that differ in one row. It says nothing about the table that the rows
came from if one of its rows decides which others are fitted, how often, or with what weight.

An estimator is not told who calls its ``fit``. The call stack shows it, as far as the fit has not been sent
to another process. This finds what is listed here; that it finds nothing is no proof.
"""

import sys
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from ..exceptions import PrivacyLeakWarning
from .deferred_warnings import warn

RULE = "rows must not be selected, repeated or weighted by other rows"


class Tool(NamedTuple):
    """An ensemble, search or pipeline of another package, and what it does.

    Attributes
    ----------
    name : str
        How users know it.
    module : str
        Module or package of its code.
    does : str
        What it does beside calling ``fit``.
    instead : str
        What to do instead.
    functions : tuple of str
        Beginnings of the qualified names of its functions, and names of its classes.
    breaks_rule : bool
        Whether it selects, repeats or weights rows by other rows, so that the cost of a fit is wrong. If
        not, only what it learns itself is not private.
    applies : callable or None
        Whether an object of it does so.
    """

    name: str
    module: str
    does: str
    instead: str
    functions: tuple[str, ...] = ("",)
    breaks_rule: bool = False
    applies: Callable[[Any], bool] | None = None


def _repeats(ensemble):
    return getattr(ensemble, "bootstrap", True)


def _resamples(pipeline):
    steps = getattr(pipeline, "steps", None)
    return steps is None or any(hasattr(step, "fit_resample") for _, step in steps)


def _has_others(ensemble):
    members = [
        member for _, member in getattr(ensemble, "estimators", ()) if not isinstance(member, str)
    ]
    last = [member.steps[-1][1] if hasattr(member, "steps") else member for member in members]
    return not all(hasattr(member, "privacy_plan") for member in last)


def _scores_without_noise(selector):
    return not hasattr(getattr(selector, "scoring", None), "privacy_cost")


def _chooses_without_noise(search):
    """Whether any score that a search of scikit-learn chooses by is without noise."""
    scoring = getattr(search, "scoring", None)
    scores = scoring.values() if isinstance(scoring, dict) else [scoring]
    return not all(hasattr(score, "privacy_cost") for score in scores)


def _transforms_by_rows(regressor):
    transformer = getattr(regressor, "transformer", None)
    return transformer is not None and not hasattr(transformer, "privacy_plan")


_NO_WEIGHTS = (
    "use one estimator, with class_weight={label: number} by public numbers if you need it"
)
_ONE = "use one estimator with the whole budget"
_CALIBRATED = "use the estimator's own probabilities, which average over the posterior"
_FEATURES = "choose columns by knowledge, or by DPRandomizedSearchCV over ColumnTransformers"

TOOLS = (
    Tool(
        "AdaBoostClassifier",
        "sklearn.ensemble._weight_boosting",
        "weights rows by how well its members predict the others",
        _ONE,
        breaks_rule=True,
    ),
    Tool(
        "imbalanced-learn",
        "imblearn",
        "repeats, drops or invents rows to balance labels, or by their neighbours",
        _NO_WEIGHTS,
        breaks_rule=True,
        applies=_resamples,
    ),
    Tool(
        "BaggingClassifier with bootstrap=True",
        "sklearn.ensemble._bagging",
        "repeats rows, up to as many times as there are rows",
        f"{_ONE}; with bootstrap=False rows are not repeated, but the members' noise is seeded",
        functions=("_parallel_build_estimators", "BaggingClassifier", "BaggingRegressor"),
        breaks_rule=True,
        applies=_repeats,
    ),
    Tool(
        "SelfTrainingClassifier",
        "sklearn.semi_supervised._self_training",
        "selects the rows to fit on by their predictions",
        "fit the rows with labels only",
        breaks_rule=True,
    ),
    Tool(
        "OneVsOneClassifier",
        "sklearn.multiclass",
        "fits on the rows of two labels, whose number is private",
        "use the estimator itself, which takes several classes",
        functions=("OneVsOneClassifier", "_fit_ovo_binary"),
        breaks_rule=True,
    ),
    Tool(
        "fairlearn's reductions",
        "fairlearn.reductions",
        "weights or relabels rows by the predictions for others",
        _NO_WEIGHTS,
        breaks_rule=True,
    ),
    Tool(
        "cleanlab",
        "cleanlab",
        "drops or weights rows by the predictions for all of them",
        _ONE,
        breaks_rule=True,
    ),
    Tool(
        "fairlearn's ThresholdOptimizer",
        "fairlearn.postprocessing",
        "chooses thresholds by the rows' labels",
        "choose thresholds on public rows",
    ),
    Tool(
        "CalibratedClassifierCV",
        "sklearn.calibration",
        "fits a calibrator on the rows' labels",
        _CALIBRATED,
        functions=("CalibratedClassifierCV", "_fit_classifier_calibrator_pair"),
    ),
    Tool(
        "StackingClassifier",
        "sklearn.ensemble._stacking",
        "splits rows by the labels of others, and fits a model on its members' predictions",
        _ONE,
    ),
    Tool(
        "VotingClassifier",
        "sklearn.ensemble._voting",
        "fits members that are not private",
        "vote with private estimators only",
        applies=_has_others,
    ),
    Tool(
        "TunedThresholdClassifierCV",
        "sklearn.model_selection._classification_threshold",
        "chooses a threshold by scores of the rows",
        "use FixedThresholdClassifier with a public threshold",
        functions=("TunedThresholdClassifierCV", "_fit_and_score_over_thresholds"),
    ),
    Tool(
        "RFECV",
        "sklearn.feature_selection._rfe",
        "chooses columns by scores of the rows",
        _FEATURES,
        functions=("RFECV",),
        applies=_scores_without_noise,
    ),
    Tool(
        "SequentialFeatureSelector",
        "sklearn.feature_selection._sequential",
        "chooses columns by scores of the rows",
        _FEATURES,
        applies=_scores_without_noise,
    ),
    Tool(
        "TransformedTargetRegressor",
        "sklearn.compose._target",
        "fits a transformer on the responses",
        "give functions, func and inverse_func, with public numbers, or target_bounds alone",
        applies=_transforms_by_rows,
    ),
    Tool(
        "a search of scikit-learn",
        "sklearn.model_selection._search",
        "chooses parameters by scores of the rows",
        "use DPRandomizedSearchCV, or scoring=make_private_scorer(...)",
        functions=("BaseSearchCV", "GridSearchCV", "RandomizedSearchCV"),
        applies=_chooses_without_noise,
    ),
    Tool(
        "a halving search of scikit-learn",
        "sklearn.model_selection._search_successive_halving",
        "chooses parameters by scores of the rows",
        "use DPRandomizedSearchCV, or scoring=make_private_scorer(...)",
        applies=_chooses_without_noise,
    ),
    Tool(
        "RANSACRegressor",
        "sklearn.linear_model._ransac",
        "selects the rows to fit on by their residuals",
        "use the estimator itself, whose responses have bounds",
        breaks_rule=True,
    ),
    Tool(
        "IterativeImputer",
        "sklearn.impute._iterative",
        "fits on values that it has filled in from other rows",
        "use DPImputer",
        breaks_rule=True,
    ),
    Tool(
        "OutputCodeClassifier",
        "sklearn.multiclass",
        "reads which labels there are, and fits on codes of these",
        "use the estimator itself with classes=[...], which takes several",
        functions=("OutputCodeClassifier",),
    ),
    Tool("MAPIE", "mapie", "computes quantiles of scores of the rows", _CALIBRATED),
    Tool("venn-abers", "venn_abers", "fits a calibrator on the rows' labels", _CALIBRATED),
    Tool(
        "a selection of feature-engine",
        "feature_engine.selection",
        "chooses columns by the rows",
        _FEATURES,
    ),
    Tool(
        "a selection of mlxtend",
        "mlxtend.feature_selection",
        "chooses columns by scores of the rows",
        _FEATURES,
    ),
)


_PACKAGES = {tool.module.partition(".")[0] for tool in TOOLS}


def what_breaks_the_rule(tool):
    """The warning about a tool that breaks the rule, with what to do instead."""
    return (
        f"{tool.name} {tool.does}, so that epsilon would be false: {RULE}. Instead, {tool.instead}."
    )


def what_is_learnt(tool):
    """The warning about what a tool learns without noise, with what to do instead."""
    return f"{tool.name} {tool.does}, without noise. Instead, {tool.instead}."


def tool_of(estimator):
    """The `Tool` that an estimator is, or None."""
    for kind in type(estimator).__mro__:
        for tool in TOOLS:
            if _is_in(tool, kind.__module__, kind.__qualname__) and _applies(tool, estimator):
                return tool
    return None


def check_surroundings(plan, depth=1):
    """Refuse a fit inside a tool that breaks the rule, and warn inside one that learns more.

    Parameters
    ----------
    plan : Plan
        Of the fit. If it costs nothing, or is without privacy, nothing is claimed or checked.
    depth : int, default=1
        Number of callers to leave out.

    Warns
    -----
    PrivacyLeakWarning
        If a tool around the fit learns from the rows without noise.

    Raises
    ------
    ValueError
        If a tool around the fit breaks the rule.
    """
    budget = getattr(plan, "budget", None)
    if plan.cost.is_infinite or not (budget is None or budget.is_private):
        return
    # Of each tool the outermost call.
    tools = dict(_tools_around(sys._getframe(depth)))
    for tool in tools:
        if tool.breaks_rule:
            raise ValueError(f"{what_breaks_the_rule(tool)} Nothing was read.")
    for tool, call in tools.items():
        if _was_told(*call):
            continue
        warn(
            f"{what_is_learnt(tool)} Its members' epsilons do not cover it.",
            PrivacyLeakWarning,
        )


# The call of a tool of which users have been told: a search fits its estimator many times.
_told: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _was_told(owner, call):
    if owner is None or _told.get(owner) == call:
        return owner is not None
    _told[owner] = call
    return False


def _tools_around(frame):
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        for tool in TOOLS if module.partition(".")[0] in _PACKAGES else ():
            if _is_in(tool, module, frame.f_code.co_qualname):
                local = frame.f_locals
                owner = local.get("self", local.get("ensemble"))
                if _applies(tool, owner):
                    yield tool, (owner, id(frame))
        frame = frame.f_back


def _is_in(tool, module, name):
    return f"{module}.".startswith(f"{tool.module}.") and name.startswith(tool.functions)


def _applies(tool, estimator):
    return tool.applies is None or tool.applies(estimator)
