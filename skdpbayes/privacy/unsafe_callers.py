"""What other packages' ensembles and pipelines do to rows before a private fit reads them.

The cost of a fit is proven for tables that differ in one row. It says nothing about the table that the rows
came from if one of its rows decides which others are fitted, how often, or with what weight.

An estimator is not told who calls its ``fit``. The call stack shows it, as far as the fit has not been sent
to another process. This finds what is listed here; that it finds nothing is no proof.

The steps of a pipeline are a tree, of which each node tells whether it may learn from the rows without noise:

    pipeline: one step behind the other;    columns, union: branches side by side;    leaf: a step of its own

Nothing else looks into scikit-learn's Pipeline, ColumnTransformer and FeatureUnion. What is public of rows
behind steps, and what the steps spend, follows from the tree elsewhere.
"""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from scipy import special
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

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
    beside : str
        What the fits inside cost beside what it learns.
    """

    name: str
    module: str
    does: str
    instead: str
    functions: tuple[str, ...] = ("",)
    applies: Callable[[Any], bool] = lambda tool: True
    breaks_rule: bool = False
    beside: str = "The epsilons of the fits inside do not cover it."


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


def _chooses_at_once_without_noise(search):
    """Whether a search does, and is no halving one, whose code calls that of other searches."""
    modules = (kind.__module__ for kind in type(search).__mro__)
    return _chooses_without_noise(search) and _HALVING not in modules


def _transforms_by_rows(regressor):
    transformer = getattr(regressor, "transformer", None)
    return transformer is not None and not hasattr(transformer, "privacy_plan")


# Module of halving searches.
_HALVING = "sklearn.model_selection._search_successive_halving"
_BY_SCORES = "by scores of the rows"
_NO_WEIGHTS = (
    "use one estimator, with class_weight={label: number} by public numbers if you need it"
)
_ONE = "use one estimator with the whole budget"
_CALIBRATED = "use the estimator's own probabilities, which average over the posterior"
_FEATURES = "choose columns by knowledge, or by DPRandomizedSearchCV over ColumnTransformers"
_SEARCH = "use DPRandomizedSearchCV, or scoring=make_private_scorer(...)"
_SCORES = (
    "pass scoring=make_private_scorer(...) and cv=KFold(5, shuffle=True), or fit on some rows and score "
    "others by dp_accuracy_score or its like"
)
_PREDICTIONS = (
    "publish none of them, and score them by dp_accuracy_score(..., epsilon=...) or its like"
)
_COSTS_OF_SEARCH = (
    "The choice is not private: the epsilons of its fits do not cover it. Each of these fits spends its own "
    "epsilon, too: with private scores and cv=KFold(5, shuffle=True), total_privacy_cost(search) adds all of "
    "them up."
)
_COSTS_OF_HALVING = (
    "The choice is not private: the epsilons of its fits do not cover it. Each of these fits spends its own "
    "epsilon, too: a PrivacyLedger adds them up."
)
_COSTS_OF_FOLDS = (
    "The epsilons of its fits do not cover them. The fit of each fold spends its own epsilon, too: "
    "a PrivacyLedger adds them up."
)
# Module of the functions that cross-validate.
_VALIDATION = "sklearn.model_selection._validation"
# Module that checks the arguments of functions before it calls them.
_CHECKS = "sklearn.utils._param_validation"
# Key of the tools that users have been told of, in the locals of a call.
_TOLD = "skdpbayes has told"
# Code of pipelines.
_PIPELINES = ("sklearn.pipeline", "imblearn.pipeline")
_BEFORE_STEPS = "A step of this Pipeline is not covered by any epsilon."
_AFTER_STEPS = (
    "make_private_pipeline(...) in place of make_pipeline splits one epsilon over all private steps. "
    "privacy_report(pipeline) tells of each step."
)

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
     ("BaseSearchCV", "GridSearchCV", "RandomizedSearchCV"), _chooses_at_once_without_noise, False,
     _COSTS_OF_SEARCH),
    ("a halving search of scikit-learn", _HALVING,
     f"chooses parameters {_BY_SCORES}", _SEARCH, ("",), _chooses_without_noise, False, _COSTS_OF_HALVING),
    ("a cross-validation of scikit-learn", _VALIDATION, "computes scores of the rows",
     _SCORES, ("cross_validate", "cross_val_score", "learning_curve", "validation_curve",
               "permutation_test_score"),
     _chooses_without_noise, False, _COSTS_OF_FOLDS),
    ("cross_val_predict", _VALIDATION, "predicts each row from the row itself",
     _PREDICTIONS, ("cross_val_predict",), lambda call: True, False, _COSTS_OF_FOLDS),
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


# The steps of pipelines.

# Their fit reads only the number of columns, and each row is transformed by itself.
_LEARN_NOTHING = {
    "AdditiveChi2Sampler",
    "Binarizer",
    "FeatureHasher",
    "HashingVectorizer",
    "Normalizer",
    "PolynomialFeatures",
    "PolynomialCountSketch",
    "SkewedChi2Sampler",
}


_REMEDIES = {
    "StandardScaler": "DPQuantileScaler or BoundedScaler",
    "MinMaxScaler": "DPQuantileScaler or BoundedScaler",
    "MaxAbsScaler": "DPQuantileScaler or BoundedScaler",
    "RobustScaler": "DPQuantileScaler or BoundedScaler",
    "SimpleImputer": "DPImputer, or strategy='constant' with keep_empty_features=True",
    "OneHotEncoder": "DPOneHotEncoder, or public categories with handle_unknown='ignore' and none of drop, "
    "min_frequency and max_categories",
    "OrdinalEncoder": "public categories with handle_unknown='use_encoded_value' and neither min_frequency "
    "nor max_categories",
    "FunctionTransformer": "a ufunc of NumPy or scipy.special of one argument, which transforms each entry "
    "by itself, without kw_args, and with check_inverse=False if there is an inverse_func",
    "RBFSampler": "a number as gamma",
    "MissingIndicator": "DPImputer(add_indicator=True), or features='all'",
}


class StepRows(NamedTuple):
    """What is public of the rows that reach a step.

    Attributes
    ----------
    n_columns : int or None
        None if it is not known before the fit.
    norm : float, default=inf
        A bound on their norm.
    header : table without rows, default=None
        The names and types of their columns, if they are known.
    """

    n_columns: int | None
    norm: float = math.inf
    header: Any = None


class StepTree(NamedTuple):
    """A step, and the steps that it holds; made by `step_tree` or `fitted_tree`.

    Attributes
    ----------
    path : str
        The names of the steps down to it, joined by ``__``; empty for the whole.
    name : str
        The last of them.
    estimator : estimator, "drop", "passthrough" or None
    kind : {"pipeline", "columns", "union", "leaf", "word"}
        A word stands for a step, and is no estimator.
    is_composite : bool
        Whether it does nothing but fit and apply its children. A subclass of another package may do more.
    is_private : bool
        Whether it has a privacy budget.
    children : tuple of StepTree
    columns : list, array, slice, callable or None
        What a branch of a ColumnTransformer selects; None of the remainder. Of a fitted one, the places of
        its columns, and None of a branch that adds none to the output.
    before, behind : StepRows
        The rows that reach it, and those that it makes of them, as far as they have been worked out.
    """

    path: str
    name: str
    estimator: Any
    kind: str
    is_composite: bool
    is_private: bool
    children: tuple["StepTree", ...] = ()
    columns: Any = None
    before: StepRows = StepRows(None)
    behind: StepRows = StepRows(None)

    @property
    def is_nested_private(self) -> bool:
        """Whether it is a private pipeline inside another, which has a budget of its own."""
        return self.kind == "pipeline" and self.path != "" and self.is_private

    @property
    def shown_children(self) -> tuple["StepTree", ...]:
        """The branches of a fitted ColumnTransformer of which columns come out."""
        return tuple(child for child in self.children if child.columns is not None)

    @property
    def steps(self) -> tuple["StepTree", ...]:
        """The steps of a pipeline; of others itself."""
        return self.children if self.kind == "pipeline" else (self,)

    @property
    def first(self) -> "StepTree":
        """The first step of the first of pipelines inside each other."""
        node = self
        while node.kind == "pipeline":
            node = node.children[0]
        return node

    @property
    def last(self) -> "StepTree":
        """The last step of the last of pipelines inside each other."""
        node = self
        while node.kind == "pipeline":
            node = node.children[-1]
        return node

    @property
    def before_last(self) -> tuple["StepTree", ...]:
        """The steps before the last, those of a pipeline at the end among them."""
        if self.kind != "pipeline":
            return ()
        return (*self.children[:-1], *self.children[-1].before_last)

    def walk(self, into: Callable[["StepTree"], bool] | None = None) -> Iterator["StepTree"]:
        """Yield each node, those that hold others first; ``into`` says which to look into."""
        yield self
        if self.is_composite if into is None else into(self):
            for child in self.children:
                yield from child.walk(into)

    def at(self, path: str) -> "StepTree":
        """The node of a path."""
        return next(node for node in self.walk() if node.path == path)

    def leaks(self, is_sparse: bool = False) -> list[str]:
        """One message for each step that may leak; ``is_sparse`` refers to the table.

        Steps that a private pipeline names in ``learns_nothing`` are left out.
        """
        fixed = getattr(self.estimator, "learns_nothing", None) or ()
        nodes = (node for node in self.walk() if node.path not in fixed)
        return [text for node in nodes for text in own_leaks(node, is_sparse)]


# The classes that hold steps, by the kind of their node.
COMPOSITE_CLASSES = {"pipeline": Pipeline, "columns": ColumnTransformer, "union": FeatureUnion}


def step_tree(
    step: Any, path: str = "", name: str = "", columns: Any = None, fitted: bool = False
) -> StepTree:
    """The `StepTree` of a step, by its parameters; see `fitted_tree`."""
    if step is None or isinstance(step, str):
        return StepTree(path, name, step, "word", False, False, columns=columns)
    kinds = [kind for kind, composite in COMPOSITE_CLASSES.items() if isinstance(step, composite)]
    if not kinds:
        return StepTree(path, name, step, "leaf", False, is_private(step), columns=columns)
    kind = kinds[0]
    if kind == "columns" and fitted and hasattr(step, "output_indices_"):
        held = _fitted_branches(step)
    elif kind == "columns":
        held = [*step.transformers, ("remainder", step.remainder, None)]
    else:
        steps = step.steps if kind == "pipeline" else step.transformer_list
        held = [(name, child, None) for name, child in steps]
    prefix = f"{path}__" if path else ""
    children = [step_tree(child, prefix + key, key, part, fitted) for key, child, part in held]
    private = is_private(step)
    # Of a private pipeline, also one of a user's class.
    is_composite = type(step) is COMPOSITE_CLASSES[kind] or (kind == "pipeline" and private)
    return StepTree(path, name, step, kind, is_composite, private, tuple(children), columns)


def fitted_tree(step: Any, name: str = "") -> StepTree:
    """The `StepTree` of a fitted step: of a ColumnTransformer the fitted branches, as in its output."""
    return step_tree(step, name=name, fitted=True)


def _fitted_branches(step):
    """[(name, step, places)] of a fitted ColumnTransformer: those of which columns come out are first."""
    branches = {name: child for name, child, _ in step.transformers_}
    parts = sorted(step.output_indices_.items(), key=lambda item: item[1].start)
    shown = {
        name: list(step._transformer_to_input_indices[name])
        for name, part in parts
        if name in branches and branches[name] != "drop" and part.stop > part.start
    }
    names = [*shown, *(name for name in branches if name not in shown)]
    return [(name, branches[name], shown.get(name)) for name in names]


def is_private(step):
    """Whether a step has a privacy budget."""
    return hasattr(step, "privacy_plan") and "epsilon" in step.get_params(deep=False)


def pipeline_leaks(pipeline):
    """Messages about the steps of an ordinary pipeline that may learn from the rows, after their names.

    A private pipeline, also one inside, speaks for itself. So does a tool around private estimators. A
    FunctionTransformer learns nothing in a fit, and users know what their own function does.
    """
    if is_private(pipeline):
        return []
    tree = step_tree(pipeline)

    def holds_steps(node):
        # Also a subclass, such as imbalanced-learn's.
        return (node.kind == "pipeline" and not node.is_private) or node.is_composite

    texts = []
    for node in tree.walk(lambda node: holds_steps(node) and not node.is_private):
        step = node.estimator
        is_function = type(step) is FunctionTransformer
        if is_function or node.kind == "pipeline" or (node.kind == "leaf" and _holds_private(step)):
            continue
        texts += [f"{node.path}: {text}" for text in own_leaks(node)]
    return texts


def _holds_private(step):
    """Whether a step is a meta-estimator of private estimators.

    An ordinary pipeline also fits steps that do not tell their parameters.
    """
    parts: Any = ()
    with suppress(Exception):
        parts = step.get_params(deep=True).values()
    return any(is_private(part) for part in parts if not isinstance(part, type))


def own_leaks(node, is_sparse=False):
    """Messages about a step that may leak, those that it holds apart, whatever ``learns_nothing`` names."""
    path, step = node.path, node.estimator
    if node.is_composite:
        is_columns = node.kind == "columns"
        return _selections(node) + _densities(node, is_sparse) if is_columns else []
    if node.kind == "word" or node.is_private or _learns_nothing(step):
        return []
    if tool := tool_of(step):
        return [what_is_learnt(tool)]
    name = type(step).__name__
    remedy = _REMEDIES.get(name, "a step of skdpbayes, or one with public parameters")
    if path and (name == "FrozenEstimator" or not type(step).__module__.startswith("sklearn.")):
        remedy += (
            "; or, if it learns nothing from these rows and transforms each by itself and in its place, name "
            f"it in the private pipeline's learns_nothing=[{path!r}]"
        )
    return [f"{name} may learn from the rows without noise: use {remedy}."]


def _selections(node):
    """Messages about columns that are selected by what may depend on the rows."""
    return [
        f"the columns of {child.name} are selected by a function or by their types, which may depend on the "
        "rows, as a single text among numbers changes a type: use a list, or "
        "make_column_selector(pattern=...)."
        for child in node.children
        if callable(child.columns) and not _reads_names_only(child.columns)
    ]


def _reads_names_only(selector):
    return (
        type(selector) is make_column_selector
        and selector.dtype_include is None
        and selector.dtype_exclude is None
    )


def _densities(node, is_sparse):
    """Messages about ``sparse_output_``, a fitted attribute that tells whether entries are few."""
    if not node.estimator.sparse_threshold > 0:
        return []
    leaves = (leaf.estimator for leaf in node.walk() if not leaf.is_composite)
    makers = [type(leaf).__name__ for leaf in leaves if _may_be_sparse(leaf)]
    if not makers and not is_sparse:
        return []
    return [
        f"ColumnTransformer counts the entries of {makers[0] if makers else 'a sparse table'} to choose "
        "between sparse and dense output, and the choice reveals something about them: set its "
        "sparse_threshold=0, or sparse_output=False in its encoders. DPOneHotEncoder has the same number of "
        "entries in every row."
    ]


def _may_be_sparse(step):
    """Whether a step turns dense tables into sparse ones with a private number of entries."""
    if type(step).__name__ in ("FeatureHasher", "HashingVectorizer"):
        return True
    asked = getattr(step, "sparse_output", False) or getattr(step, "sparse", False) is True
    own = any(kind.__module__.startswith("skdpbayes.") for kind in type(step).__mro__)
    return bool(asked) and not own


def _learns_nothing(step):
    name, module = type(step).__name__, type(step).__module__
    if module.startswith("skdpbayes."):
        return name in ("BoundedScaler", "FormulaEncoder", "RowNormClipper")
    if not module.startswith("sklearn."):
        return False
    if name == "FunctionTransformer":
        return _is_elementwise(step)
    options = step.get_params(deep=False).values()
    if any(callable(value) and not isinstance(value, type) for value in options):
        return False
    if name in _LEARN_NOTHING:
        return True
    if name == "RBFSampler":
        return not isinstance(step.gamma, str)
    if name in ("OneHotEncoder", "OrdinalEncoder"):
        counts = step.min_frequency is not None or step.max_categories is not None
        # Errors and warnings must not reveal unknown categories either.
        tells = step.handle_unknown in ("error", "warn") or getattr(step, "drop", None) is not None
        return not (isinstance(step.categories, str) or counts or tells)
    if name == "SimpleImputer":
        return (
            step.strategy == "constant"
            and step.fill_value is not None
            and step.keep_empty_features
            and not step.add_indicator
        )
    return name == "MissingIndicator" and step.features == "all"


def _is_elementwise(step):
    """Whether a FunctionTransformer maps each entry by itself, and checks no inverse on the rows."""
    functions = [function for function in (step.func, step.inverse_func) if function is not None]
    checks = step.check_inverse and len(functions) == 2
    return all(map(is_known_ufunc, functions)) and not (checks or step.kw_args)


def is_known_ufunc(function):
    """Whether a function is one of NumPy's or SciPy's own that map one entry to one."""
    name = getattr(function, "__name__", "")
    known = isinstance(function, np.ufunc) and any(
        getattr(module, name, None) is function for module in (np, special)
    )
    return known and (function.nin, function.nout, function.signature) == (1, 1, None)


# The callers of a fit.


def check_callers(plan, depth=1):
    """Yield warnings about tools around a fit that learn without noise; one that breaks the rule is refused.

    Of a pipeline without a budget of its own, the steps that may learn are named.

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
    tools: dict = {}  # The outermost frame of each.
    pipelines: dict = {}  # The outermost frame of each, those inside first.
    frame: Any = sys._getframe(depth)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] in _PACKAGES:
            name = frame.f_code.co_qualname
            if module in _PIPELINES and name.startswith("Pipeline."):
                pipelines[id(frame.f_locals.get("self"))] = frame
            for tool in _tools_of(module, name):
                if tool.module == _VALIDATION and _caller_of(frame).startswith("sklearn."):
                    continue  # What has called it speaks for itself.
                values = frame.f_locals
                owner = values.get("self", values.get("ensemble"))
                if owner is None:  # A function.
                    owner = SimpleNamespace(scoring=values.get("scoring"))
                if tool.applies(owner):
                    tools[tool] = frame
        frame = frame.f_back
    for tool in tools:
        if tool.breaks_rule:
            raise ValueError(f"{what_breaks_the_rule(tool)} Nothing was read.")
    for tool, frame in tools.items():
        if not _was_told(tool, frame):
            yield f"{what_is_learnt(tool)} {tool.beside}"
    frames = list(reversed(pipelines.values()))
    if frames and not _was_told("pipeline", frames[0]):
        texts = [text for frame in frames for text in pipeline_leaks(frame.f_locals.get("self"))]
        if texts:
            yield f"{_BEFORE_STEPS} {' '.join(dict.fromkeys(texts))} {_AFTER_STEPS}"


def _caller_of(frame):
    """The module that has called a function of scikit-learn, whose arguments are checked in between."""
    caller = frame.f_back
    while caller is not None and caller.f_globals.get("__name__") == _CHECKS:
        caller = caller.f_back
    return "" if caller is None else caller.f_globals.get("__name__", "")


def _was_told(what, frame):
    """Whether users have been told of this call, which its frame remembers: another has another frame."""
    before = frame.f_locals.setdefault(_TOLD, set())
    was_told = what in before
    before.add(what)
    return was_told


def _tools_of(module, name):
    """Yield the tools whose code has a function or class of this module and name."""
    for tool in TOOLS:
        if f"{module}.".startswith(f"{tool.module}.") and name.startswith(tool.functions):
            yield tool
