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
    applies : callable
        Whether an object of it does so.
    breaks_rule : bool
        Whether it selects, repeats or weights rows by other rows, so that the cost of a fit is wrong. If
        not, only what it learns itself is not private.
    """

    name: str
    module: str
    does: str
    instead: str
    functions: tuple[str, ...] = ("",)
    applies: Callable[[Any], bool] = lambda tool: True
    breaks_rule: bool = False


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


def _chooses_without_noise(search):
    """Whether any score that a search or a selection chooses by is without noise."""
    scoring = getattr(search, "scoring", None)
    scores = scoring.values() if isinstance(scoring, dict) else [scoring]
    return not all(hasattr(score, "privacy_cost") for score in scores)


def _transforms_by_rows(regressor):
    transformer = getattr(regressor, "transformer", None)
    return transformer is not None and not hasattr(transformer, "privacy_plan")


_BY_SCORES = "by scores of the rows"
_NO_WEIGHTS = (
    "use one estimator, with class_weight={label: number} by public numbers if you need it"
)
_ONE = "use one estimator with the whole budget"
_CALIBRATED = "use the estimator's own probabilities, which average over the posterior"
_FEATURES = "choose columns by knowledge, or by DPRandomizedSearchCV over ColumnTransformers"
_SEARCH = "use DPRandomizedSearchCV, or scoring=make_private_scorer(...)"

# fmt: off
_BREAKING = (
    ("AdaBoostClassifier", "sklearn.ensemble._weight_boosting",
     "weights rows by how well its members predict the others", _ONE),
    ("imbalanced-learn", "imblearn",
     "repeats, drops or invents rows to balance labels, or by their neighbours", _NO_WEIGHTS,
     ("",), _resamples),
    ("BaggingClassifier with bootstrap=True", "sklearn.ensemble._bagging",
     "repeats rows, up to as many times as there are rows",
     f"{_ONE}; with bootstrap=False rows are not repeated, but the members' noise is seeded",
     ("_parallel_build_estimators", "BaggingClassifier", "BaggingRegressor"), _repeats),
    ("SelfTrainingClassifier", "sklearn.semi_supervised._self_training",
     "selects the rows to fit on by their predictions", "fit the rows with labels only"),
    ("OneVsOneClassifier", "sklearn.multiclass",
     "fits on the rows of two labels, whose number is private",
     "use the estimator itself, which takes several classes", ("OneVsOneClassifier", "_fit_ovo_binary")),
    ("fairlearn's reductions", "fairlearn.reductions",
     "weights or relabels rows by the predictions for others", _NO_WEIGHTS),
    ("cleanlab", "cleanlab", "drops or weights rows by the predictions for all of them", _ONE),
    ("RANSACRegressor", "sklearn.linear_model._ransac",
     "selects the rows to fit on by their residuals",
     "use the estimator itself, whose responses have bounds"),
    ("IterativeImputer", "sklearn.impute._iterative",
     "fits on values that it has filled in from other rows", "use DPImputer"),
)
_LEARNING = (
    ("fairlearn's ThresholdOptimizer", "fairlearn.postprocessing",
     "chooses thresholds by the rows' labels", "choose thresholds on public rows"),
    ("CalibratedClassifierCV", "sklearn.calibration", "fits a calibrator on the rows' labels", _CALIBRATED,
     ("CalibratedClassifierCV", "_fit_classifier_calibrator_pair")),
    ("StackingClassifier", "sklearn.ensemble._stacking",
     "splits rows by the labels of others, and fits a model on its members' predictions", _ONE),
    ("VotingClassifier", "sklearn.ensemble._voting",
     "fits members that are not private", "vote with private estimators only", ("",), _has_others),
    ("TunedThresholdClassifierCV", "sklearn.model_selection._classification_threshold",
     f"chooses a threshold {_BY_SCORES}", "use FixedThresholdClassifier with a public threshold",
     ("TunedThresholdClassifierCV", "_fit_and_score_over_thresholds")),
    ("RFECV", "sklearn.feature_selection._rfe",
     f"chooses columns {_BY_SCORES}", _FEATURES, ("RFECV",), _chooses_without_noise),
    ("SequentialFeatureSelector", "sklearn.feature_selection._sequential",
     f"chooses columns {_BY_SCORES}", _FEATURES, ("",), _chooses_without_noise),
    ("TransformedTargetRegressor", "sklearn.compose._target", "fits a transformer on the responses",
     "give functions, func and inverse_func, with public numbers, or target_bounds alone",
     ("",), _transforms_by_rows),
    ("a search of scikit-learn", "sklearn.model_selection._search",
     f"chooses parameters {_BY_SCORES}", _SEARCH,
     ("BaseSearchCV", "GridSearchCV", "RandomizedSearchCV"), _chooses_without_noise),
    ("a halving search of scikit-learn", "sklearn.model_selection._search_successive_halving",
     f"chooses parameters {_BY_SCORES}", _SEARCH, ("",), _chooses_without_noise),
    ("OutputCodeClassifier", "sklearn.multiclass",
     "reads which labels there are, and fits on codes of these",
     "use the estimator itself with classes=[...], which takes several", ("OutputCodeClassifier",)),
    ("MAPIE", "mapie", "computes quantiles of scores of the rows", _CALIBRATED),
    ("venn-abers", "venn_abers", "fits a calibrator on the rows' labels", _CALIBRATED),
    ("a selection of feature-engine", "feature_engine.selection", "chooses columns by the rows", _FEATURES),
    ("a selection of mlxtend", "mlxtend.feature_selection", f"chooses columns {_BY_SCORES}", _FEATURES),
)
# fmt: on
TOOLS = (
    *(Tool(*row)._replace(breaks_rule=True) for row in _BREAKING),
    *(Tool(*row) for row in _LEARNING),
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
        for tool in _tools_of(kind.__module__, kind.__qualname__):
            if tool.applies(estimator):
                return tool
    return None


def check_callers(plan, depth=1):
    """Yield warnings about tools around a fit that learn without noise; one that breaks the rule is refused.

    Each call of a tool is told of once: a search fits its estimator many times. Where a warning is an error,
    those behind it count as not told of.

    Parameters
    ----------
    plan : Plan
        Of the fit. If it costs nothing, or is without privacy, nothing is claimed or checked.
    depth : int, default=1
        Number of callers to leave out.

    Raises
    ------
    ValueError
        If a tool around the fit breaks the rule.
    """
    budget = getattr(plan, "budget", None)
    if plan.cost.is_infinite or not (budget is None or budget.is_private):
        return
    tools: dict = {}  # Of each tool the outermost call.
    frame: Any = sys._getframe(depth)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] in _PACKAGES:
            for tool in _tools_of(module, frame.f_code.co_qualname):
                owner = frame.f_locals.get("self", frame.f_locals.get("ensemble"))
                if tool.applies(owner):
                    tools[tool] = owner, id(frame)
        frame = frame.f_back
    for tool in tools:
        if tool.breaks_rule:
            raise ValueError(f"{what_breaks_the_rule(tool)} Nothing was read.")
    for tool, call in tools.items():
        if not _was_told(*call):
            yield f"{what_is_learnt(tool)} Its members' epsilons do not cover it."


# The call of a tool of which users have been told.
_told: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _was_told(owner, call):
    if owner is None or _told.get(owner) == call:
        return owner is not None
    _told[owner] = call
    return False


def _tools_of(module, name):
    """Yield the tools whose code has a function or class of this module and name."""
    for tool in TOOLS:
        if f"{module}.".startswith(f"{tool.module}.") and name.startswith(tool.functions):
            yield tool
