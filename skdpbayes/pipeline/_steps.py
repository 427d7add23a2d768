"""The steps of a pipeline: which learn without noise, what they spend, their columns, names and norms."""

import math
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from scipy import special
from sklearn.base import MetaEstimatorMixin, OneToOneFeatureMixin, clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures
from sklearn.utils._indexing import _get_column_indices

from .._arguments import is_number
from ..metrics import PrivateScorer
from ..models.rows import NORMS
from ..preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    FormulaEncoder,
    RowNormClipper,
)
from ..privacy.unsafe_callers import tool_of, what_breaks_the_rule, what_is_learnt

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


def children(step):
    """[(name, step)] of a composite step, or None; a subclass may do more than fit what it holds."""
    is_ours = type(step).__module__.startswith("skdpbayes.")
    if type(step) is Pipeline or (is_ours and isinstance(step, Pipeline)):
        return list(step.steps)
    if type(step) is ColumnTransformer:
        held = [(name, child) for name, child, _ in step.transformers]
        return [*held, ("remainder", step.remainder)]
    if type(step) is FeatureUnion:
        return list(step.transformer_list)
    return None


class Node(NamedTuple):
    """A step, and the steps that it holds.

    Attributes
    ----------
    path : str
        The names of the steps down to it, joined by ``__``; empty for the whole.
    estimator : estimator, "drop", "passthrough" or None
    held : list of (str, estimator) or None
        As of `children`.
    """

    path: str
    estimator: Any
    held: list[tuple[str, Any]] | None


def walk(step, into=None, path=""):
    """Yield each `Node` of a pipeline, those that hold others first; ``into`` says which to look into."""
    held = children(step)
    yield Node(path, step, held)
    for name, child in (held or ()) if into is None or into(step) else ():
        yield from walk(child, into, f"{path}__{name}" if path else name)


def is_private(step):
    """Whether a step has a privacy budget."""
    return hasattr(step, "privacy_plan") and "epsilon" in step.get_params(deep=False)


def is_free(step):
    """Whether a private step spends nothing, whatever its budget and its table."""
    if isinstance(step, DPOneHotEncoder):
        lists = step.categories  # A dict has the lists of some columns.
        private = (isinstance(categories, str) and categories == "private" for categories in lists)
        return isinstance(lists, list | tuple) and not any(private)
    return isinstance(step, DPImputer) and step.strategy == "constant"


def leaks(step, is_sparse=False):
    """One message for each step that may leak; ``is_sparse`` refers to the table.

    Steps that a private pipeline names in ``learns_nothing`` are left out.
    """
    fixed = getattr(step, "learns_nothing", None)
    return [text for path, text in _leaks(step, is_sparse) if path not in (fixed or ())]


def refuse_learning(pipeline):
    """Raise a TypeError if a step of a private pipeline learns from rows that are not in this process."""
    steps, fixed = pipeline.get_params(), pipeline.learns_nothing or ()
    learning = [
        text
        for path, text in _leaks(pipeline)
        if path not in fixed and children(steps.get(path)) is None and path
    ]
    if learning:
        raise TypeError(
            f"{' '.join(learning)} X is a Dask collection, and only private steps read those: pass "
            "X.compute() if it fits. Nothing was read."
        )


def leaks_by_path(step):
    """{name of the step: message} of the same, whatever is named in ``learns_nothing``."""
    return dict(reversed(list(_leaks(step))))


def paths_without_budget(pipeline):
    """The paths of all steps inside that have no budget, and are in none that has one."""
    steps = walk(pipeline, lambda step: step is pipeline or not is_private(step))
    return [
        path
        for path, step, _ in steps
        if path and not (step is None or isinstance(step, str) or is_private(step))
    ]


def _leaks(step, is_sparse=False):
    """Yield (path, message)."""
    for node in walk(step):
        for text in _leaks_of_step(node, is_sparse):
            yield node.path, text


def _leaks_of_step(node, is_sparse):
    """Messages about a step, those that it holds apart."""
    path, step, held = node
    if held is not None:
        return _selections(step) + _densities(step, is_sparse)
    if step is None or isinstance(step, str) or is_private(step) or _learns_nothing(step):
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


def refuse_tools(step):
    """Raise a ValueError if a step, or one inside it, fits rows that other rows select, repeat or weight."""
    inside = [] if step is None or isinstance(step, str) else [step]
    if hasattr(step, "get_params") and not isinstance(step, type):
        inside += step.get_params(deep=True).values()
    for child in inside:
        tool = tool_of(child)
        if tool is not None and tool.breaks_rule:
            raise ValueError(f"{what_breaks_the_rule(tool)} Nothing was read.")


def _selections(step):
    """Messages about columns that are selected by what may depend on the rows."""
    if type(step) is not ColumnTransformer:
        return []
    return [
        f"the columns of {name} are selected by a function or by their types, which may depend on the rows, "
        "as a single text among numbers changes a type: use a list, or make_column_selector(pattern=...)."
        for name, _, columns in step.transformers
        if callable(columns) and not _reads_names_only(columns)
    ]


def refuse_selections_by_rows(step, X, header):
    """Raise a ValueError if a function selects other columns of a table than of its header.

    A plan knows the header only, and would not count a step that it takes to have no columns.
    """
    if isinstance(step, Pipeline) and step.steps:
        refuse_selections_by_rows(step.steps[0][1], X, header)
    for child in step.transformer_list if isinstance(step, FeatureUnion) else ():
        refuse_selections_by_rows(child[1], X, header)
    for name, _, columns in step.transformers if isinstance(step, ColumnTransformer) else ():
        if not callable(columns) or header is None:
            continue
        planned, chosen = (_get_column_indices(table, columns(table)) for table in (header, X))
        if list(planned) != list(chosen):
            raise ValueError(
                f"the function that selects the columns of {name} chooses others with rows than without: "
                "give a list of columns. Nothing was read by a private step."
            )


def _reads_names_only(selector):
    return (
        type(selector) is make_column_selector
        and selector.dtype_include is None
        and selector.dtype_exclude is None
    )


def _densities(step, is_sparse):
    """Messages about ``sparse_output_``, a fitted attribute that tells whether entries are few."""
    if type(step) is not ColumnTransformer or not step.sparse_threshold > 0:
        return []
    leaves = (leaf for _, leaf, held in walk(step) if held is None)
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
    return bool(asked) and not isinstance(step, DPOneHotEncoder)


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


# The spending steps of a pipeline and their numbers of columns, from public information only.


# Longer lists are categories or weights.
_LONGEST_LIST = 1000
_COMPOSED = (Pipeline, ColumnTransformer, FeatureUnion)


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


def spending_steps(step, n_columns, header=None, learnt=None):
    """[(path, step, number of input columns)] of the private steps, and the number of output columns.

    ``learnt`` has the number of categories that encoders are taken to find, by path, and 0 for those that it
    does not name.
    """
    spending, rows = behind(step, StepRows(n_columns, header=header), learnt)
    return spending, rows.n_columns


def behind(step, rows, learnt=None, path=""):
    """The private steps inside a step, as of `spending_steps`, and the `StepRows` behind it."""
    n_columns, norm, header = rows
    if step is None or isinstance(step, str):
        if step == "drop":
            return [], StepRows(0, 0.0)
        return [], StepRows(n_columns, 0.0 if n_columns == 0 else norm)
    if isinstance(step, Pipeline):
        if path and is_private(step):
            raise ValueError(
                f"{path.removesuffix('__')} is a private pipeline with a budget of its own, which the outer "
                "pipeline cannot split: put its steps into scikit-learn's Pipeline."
            )
        spending: list[tuple] = []
        for name, child in step.steps:
            inner, rows = behind(child, rows, learnt, f"{path}{name}__")
            spending += inner
        return spending, rows
    if isinstance(step, ColumnTransformer | FeatureUnion):
        parts = [
            behind(child, StepRows(n, norm, part), learnt, f"{path}{name}__")
            for name, child, n, part in branches(step, n_columns, header)
        ]
        widths = [part.n_columns for _, part in parts]
        norms = (math.inf,) if step.transformer_weights else (part.norm for _, part in parts)
        width = None if None in widths else sum(widths)
        return [found for inner, _ in parts for found in inner], StepRows(width, math.hypot(*norms))
    name = path.removesuffix("__")
    spending = [(name, step, n_columns)] if is_private(step) else []
    n_learnt = None if learnt is None else learnt.get(name, 0)
    return spending, StepRows(
        _n_outputs(step, n_columns, n_learnt), _longest_row(step, n_columns, norm)
    )


def _n_outputs(step, n_columns, n_learnt):
    """The number of output columns of a step that holds no others, or None."""
    if isinstance(step, FormulaEncoder):
        return step.n_columns
    if n_columns is None:
        return None
    if isinstance(step, DPImputer) and step.add_indicator:
        return 2 * n_columns
    if type(step) is PolynomialFeatures:
        return clone(step).fit(np.zeros((1, n_columns))).n_output_features_
    encoded = _n_indicators(step, n_columns, n_learnt)
    return encoded or (n_columns if _keeps_columns(step) else None)


def _longest_row(step, n_columns, norm):
    """A bound on the norm of the output rows of a step that holds no others, inf if there is none.

    |(x_1, ..., x_m)|^2 = sum_j |x_j|^2 over parallel branches;  |x|^2 <= k for k columns within [-1, 1]

    A column of categories becomes indicators with a single 1, and counts as one column within [-1, 1].
    """
    if isinstance(step, RowNormClipper):
        return min(norm, float(step.norm))
    if isinstance(step, FormulaEncoder):
        return step.norm
    within_one = isinstance(step, DPQuantileScaler | DPOneHotEncoder | OneHotEncoder)
    if n_columns is not None and (within_one or isinstance(step, BoundedScaler)):
        largest = 1.0 if within_one else max(map(abs, step.feature_range))
        return largest * math.sqrt(n_columns)
    if isinstance(step, DPImputer) and step.strategy == "constant" and not np.any(step.fill_value):
        indicators = (n_columns or math.inf) if step.add_indicator else 0
        return math.sqrt(norm**2 + indicators)
    return math.inf


def _keeps_columns(step):
    """Whether a step has as many columns before as behind it."""
    if type(step) is FunctionTransformer:
        return step.func is None or is_known_ufunc(step.func)
    if type(step) is SimpleImputer:
        return step.keep_empty_features and not step.add_indicator
    return isinstance(step, OneToOneFeatureMixin | BoundedScaler | RowNormClipper | DPImputer)


def _n_indicators(step, n_columns, n_learnt):
    """The number of output columns of an encoder with public lists, or None.

    One that finds categories is taken to find ``n_learnt``, if that is not None.
    """
    if type(step) is DPOneHotEncoder:
        lists = step._public_lists(None, n_columns)
        known = sum(len(categories or ()) + 1 for categories in lists)
        if None in lists:
            return None if n_learnt is None else known + n_learnt
        return known
    if type(step) is not OneHotEncoder or isinstance(step.categories, str):
        return None
    others = (step.drop, step.min_frequency, step.max_categories)
    return sum(map(len, step.categories)) if others == (None, None, None) else None


def branches(step, n_columns, header):
    """(name, step, number of input columns, header or None) of each parallel branch."""
    if isinstance(step, FeatureUnion):
        return [(name, child, n_columns, header) for name, child in step.transformer_list]
    branches, used = [], set()
    for name, child, columns in step.transformers:
        places = _places(columns, n_columns, header)
        used.update(places)
        branches.append((name, child, len(places), None))
    rest = None if n_columns is None else n_columns - len(used)
    if rest is not None and rest < 0:
        raise ValueError(
            f"a ColumnTransformer selects {len(used)} columns, and its table has {n_columns}: pass the "
            "number of columns of the table, or the table itself."
        )
    return [*branches, ("remainder", step.remainder, rest, None)]


def _places(columns, n_columns, header):
    if header is not None:
        return list(_get_column_indices(header, columns(header) if callable(columns) else columns))
    if callable(columns) or (isinstance(columns, slice) and n_columns is None):
        raise ValueError(
            "the columns that a ColumnTransformer selects are not known before the fit: give lists of "
            "columns."
        )
    if isinstance(columns, slice):
        return list(np.arange(n_columns)[columns])
    columns = [columns] if np.isscalar(columns) else list(columns)
    if columns and all(isinstance(c, bool | np.bool_) for c in columns):
        return list(np.flatnonzero(columns))
    return columns


def misplaced_imputers(step, before=None):
    """Warnings about imputers of the default value, 0, before their column is scaled."""
    if isinstance(step, Pipeline):
        texts, previous = (), None
        for _, child in step.steps:
            texts += misplaced_imputers(child, previous)
            previous = child
        return texts
    if isinstance(step, ColumnTransformer):
        return tuple(t for _, child in children(step) or () for t in misplaced_imputers(child))
    is_default = (
        type(before) is DPImputer
        and before.strategy == "constant"
        and not np.any(before.fill_value)
    )
    if not (is_default and isinstance(step, BoundedScaler | DPQuantileScaler)):
        return ()
    return (
        f"DPImputer() before {type(step).__name__} fills in 0 in the unit of the column, which may be far "
        "from all of its values: put it after the scaler, where 0 is the middle of the bounds, or give it a "
        "fill_value.",
    )


def spends(step):
    """Whether a step, or one that it holds, spends some of a budget."""
    return any(is_private(inner) and not is_free(inner) for _, inner, _ in walk(step))


def refuse_hidden(pipeline):
    """Raise a ValueError if something that spends is held where no plan looks for it.

    A plan knows how often the steps of scikit-learn's own pipelines are fitted. It does not know how often a
    meta-estimator fits what it holds, or on which rows.
    """
    for _, step, _ in walk(pipeline, lambda step: type(step) in _COMPOSED):
        if type(step) is FrozenEstimator:
            continue  # It never fits what it holds.
        if is_private(step) and isinstance(step, MetaEstimatorMixin):
            raise ValueError(
                f"{type(step).__name__} splits and charges the rows by itself, and cannot be a part of "
                "another plan: search over scikit-learn's Pipeline, in which only the last step spends."
            )
        if type(step) in _COMPOSED or is_private(step):
            continue
        for held in _held(step):
            if isinstance(held, PrivateScorer) or (is_private(held) and not is_free(held)):
                raise ValueError(
                    f"{type(step).__name__} holds a {type(held).__name__}, whose releases the plan does not "
                    "contain, because it cannot know how often, and on which rows, they would be made. "
                    "Put private steps directly into the pipeline, or into scikit-learn's own Pipeline, "
                    "ColumnTransformer or FeatureUnion, or fit outside of it within a PrivacyLedger."
                )


def _held(step):
    """Everything that a step has as a parameter, or in lists and mappings of them."""
    objects = list(step.get_params().values()) if hasattr(step, "get_params") else []
    visited = set()
    for value in objects:  # It grows meanwhile; what is held by other objects is not looked into.
        if id(value) in visited:
            continue
        visited.add(id(value))
        if isinstance(value, Mapping):
            objects.extend(value.values())
        elif isinstance(value, list | tuple | set) and len(value) <= _LONGEST_LIST:
            objects.extend(value)
    return objects


# What the columns of a table are called behind the steps of a fitted pipeline.
#
#     names of the table -> get_feature_names_out of each step -> names of the columns of the last step
#
# A step knows the names that it saw, and is told them otherwise. Of steps that do not name their
# columns, a ufunc names them after its argument, such as log1p(income), and those of other branches
# keep their names.


@contextmanager
def names_within(pipeline):
    """Let the last step ask, while it is fitted, what its columns are called."""
    last = pipeline
    while isinstance(last, Pipeline):
        last = last.steps[-1][1]
    if not hasattr(last, "_names_in_pipeline"):
        yield
        return
    last._names_in_pipeline = _NamesOfLast(pipeline)
    try:
        yield
    finally:
        del last._names_in_pipeline


class _NamesOfLast:
    """Names of the columns of a pipeline's last step; a copy of the step does not hold the pipeline."""

    def __init__(self, pipeline):
        self._pipeline = pipeline

    def __call__(self):
        try:
            return last_step(self._pipeline)[1]
        except Exception:  # As in `set_feature_names`.
            return None

    def __reduce__(self):
        return type(None), ()


def set_feature_names(pipeline):
    """Tell the last step of a fitted pipeline what its columns are called."""
    try:
        last, names = last_step(pipeline)
    except (
        Exception
    ):  # What third-party steps say of their columns is not worth a fit that is paid for.
        return
    if hasattr(last, "_feature_names_from_pipeline"):
        last._feature_names_from_pipeline = names


def last_step(pipeline, names=None):
    """The last step of a fitted pipeline, and the names of its columns; None if they are not known."""
    for _, step in pipeline.steps[:-1]:
        names = names_behind(step, names)
    last = pipeline.steps[-1][1]
    if isinstance(last, Pipeline):
        return last_step(last, names)
    fits = names is not None and len(names) == getattr(last, "n_features_in_", None)
    return last, np.asarray(names, dtype=str) if fits else None


def names_behind(step, names=None):
    """The names of the columns behind a fitted step, or None if it does not tell.

    Parameters
    ----------
    step : estimator or str
    names : sequence of str or None, default=None
        Names of the columns before the step, if they are known.

    Returns
    -------
    names : ndarray of str or None
    """
    if step is None or isinstance(step, str):
        return names
    names_seen = getattr(step, "feature_names_in_", None)
    if names_seen is not None:
        names = names_seen
    try:
        known = None if names is None else np.asarray(names, dtype=object)
        return np.asarray(step.get_feature_names_out(known), dtype=str)
    except Exception:  # As in `set_feature_names`.
        pass
    if isinstance(step, Pipeline):
        for _, child in step.steps:
            names = names_behind(child, names)
        return names
    if isinstance(step, ColumnTransformer):
        fits = names is not None and len(names) == step.n_features_in_
        return _of_branches(step, names if fits else None)
    if type(step) is FunctionTransformer and names is not None:
        if step.func is None:
            return names
        if is_known_ufunc(step.func):
            return np.asarray([f"{step.func.__name__}({name})" for name in names], dtype=str)
    return None


def _of_branches(step, names):
    """The names behind a fitted ColumnTransformer some of whose branches do not tell them."""
    names_of_branches = []
    for name, child, places in fitted_branches(step):
        part = step.output_indices_[name]
        inner = names_behind(child, None if names is None else np.asarray(names)[places])
        width = part.stop - part.start
        if inner is None or len(inner) != width:
            inner = [f"x{j}" for j in range(width)]
        prefix = f"{name}__" if step.verbose_feature_names_out is True else ""
        names_of_branches += [f"{prefix}{child}" for child in inner]
    return np.asarray(names_of_branches, dtype=str)


def fitted_branches(step):
    """Yield (name, fitted step, indices of its columns) of a ColumnTransformer, as in the output."""
    branches = {name: child for name, child, _ in step.transformers_ if child != "drop"}
    for name, part in sorted(step.output_indices_.items(), key=lambda item: item[1].start):
        if name in branches and part.stop > part.start:
            yield name, branches[name], list(step._transformer_to_input_indices[name])


# Warn of a data_norm that is larger than necessary by this factor.
_TOO_LONG = 1.5


def longest_last_row(pipeline, final, n_columns, header=None):
    """Public bound on the norm of rows that reach the last step, None if there is none.

    Parameters
    ----------
    pipeline : Pipeline
    final : estimator
        Its last private step; it may be the end of a pipeline that is the last step.
    n_columns : int or None
        Number of columns of the table.
    header : table without rows, default=None
        The names and types of its columns.

    Returns
    -------
    norm : float or None
    """
    before, last = [], pipeline
    while isinstance(last, Pipeline) and last is not final:
        before += last.steps[:-1]
        last = last.steps[-1][1]
    if last is not final or not before:
        return None
    norm = behind(Pipeline(before), StepRows(n_columns, header=header))[1].norm
    return norm if NORMS[0] <= norm <= NORMS[1] else None


def norm_warnings(final, norm):
    """A tuple with a warning if a last step's own ``data_norm`` is far above the longest row."""
    allowed = getattr(final, "data_norm", None)
    if norm is None or not is_number(allowed) or allowed <= _TOO_LONG * norm:
        return ()
    return (
        f"no row that reaches the last step is longer than {norm:.4g}, but data_norm is {allowed:g}, and the "
        f"noise is proportional to it: leave data_norm out, and the pipeline sets it to {norm:.4g}.",
    )
