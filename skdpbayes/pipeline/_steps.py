"""What follows from the tree of a pipeline's steps: columns, norms, budgets, refusals and names.

    rows that reach a step -> rows behind it, from public information only -> the rows of the last step

The tree itself, and which steps may leak, is in `skdpbayes.privacy.unsafe_callers`.
"""

import math
from collections.abc import Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import MetaEstimatorMixin, OneToOneFeatureMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures
from sklearn.utils._indexing import _get_column_indices
from sklearn.utils.validation import check_is_fitted

from .._arguments import is_number
from ..metrics import PrivateScorer
from ..preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    FormulaEncoder,
    RowNormClipper,
)
from ..privacy.unsafe_callers import (
    COMPOSITE_CLASSES,
    StepRows,
    StepTree,
    fitted_tree,
    is_known_ufunc,
    is_private,
    own_leaks,
    tool_of,
    what_breaks_the_rule,
)


def is_free(step):
    """Whether a private step spends nothing, whatever its budget and its table."""
    if isinstance(step, DPOneHotEncoder):
        lists = step.categories  # A dict has the lists of some columns.
        private = (isinstance(categories, str) and categories == "private" for categories in lists)
        return isinstance(lists, list | tuple) and not any(private)
    return isinstance(step, DPImputer) and step.strategy == "constant"


def spends(tree):
    """Whether a step, or one that it holds, spends some of a budget."""
    return any(node.is_private and not is_free(node.estimator) for node in tree.walk())


def paid_steps(tree):
    """The private steps that spend some of a budget, in their order."""
    nodes = (node for node in tree.walk(lambda node: True) if node.kind == "leaf")
    return [node for node in nodes if node.is_private and not is_free(node.estimator)]


def refuse_learning(tree):
    """Raise a TypeError if a step of a private pipeline learns from rows that are not in this process."""
    fixed = tree.estimator.learns_nothing or ()
    learning = [
        text
        for node in tree.walk()
        if not node.is_composite and node.path not in fixed
        for text in own_leaks(node)
    ]
    if learning:
        raise TypeError(
            f"{' '.join(learning)} X is a Dask collection, and only private steps read those: pass "
            "X.compute() if it fits. Nothing was read."
        )


def steps_without_budget(tree):
    """The nodes of all steps inside that have no budget, and are in none that has one."""
    nodes = tree.walk(lambda node: node is tree or (node.is_composite and not node.is_private))
    return [node for node in nodes if node.path and node.kind != "word" and not node.is_private]


def refuse_tools(step):
    """Raise a ValueError if a step, or one inside it, fits rows that other rows select, repeat or weight."""
    inside = [] if step is None or isinstance(step, str) else [step]
    if hasattr(step, "get_params") and not isinstance(step, type):
        inside += step.get_params(deep=True).values()
    for child in inside:
        tool = tool_of(child)
        if tool is not None and tool.breaks_rule:
            raise ValueError(f"{what_breaks_the_rule(tool)} Nothing was read.")


def refuse_selections_by_rows(tree, X, header):
    """Raise a ValueError if a function selects other columns of a table than of its header.

    A plan knows the header only, and would not count a step that it takes to have no columns.
    """
    reached = tree.children[:1] if tree.kind == "pipeline" else tree.children
    for node in reached if tree.kind != "columns" else ():
        refuse_selections_by_rows(node, X, header)
    for node in reached if tree.kind == "columns" else ():
        if not callable(node.columns) or header is None:
            continue
        planned, chosen = (_get_column_indices(table, node.columns(table)) for table in (header, X))
        if list(planned) != list(chosen):
            raise ValueError(
                f"the function that selects the columns of {node.name} chooses others with rows than "
                "without: give a list of columns. Nothing was read by a private step."
            )


# The rows behind steps, from public information only: their number of columns, and a bound on their norm.
#
#     |(x_1, ..., x_m)|^2 = sum_j |x_j|^2 over parallel branches;  |x|^2 <= k for k columns within [-1, 1]


def with_rows(tree: StepTree, rows: StepRows, learnt: dict[str, int] | None = None) -> StepTree:
    """The tree whose nodes know their rows, from public information only.

    Parameters
    ----------
    tree : StepTree
    rows : StepRows
        Those that reach it.
    learnt : dict of {str: int}, default=None
        The number of categories that encoders are taken to find, by path, and 0 for those that it does
        not name. None is that they are not known.
    """
    if tree.is_nested_private:
        raise ValueError(
            f"{tree.path} is a private pipeline with a budget of its own, which the outer pipeline "
            "cannot split: put its steps into scikit-learn's Pipeline."
        )
    children: list[StepTree] = []
    behind = rows
    if tree.kind == "pipeline":
        for child in tree.children:
            children.append(with_rows(child, behind, learnt))
            behind = children[-1].behind
    elif tree.kind == "word":
        is_empty = tree.estimator == "drop" or rows.n_columns == 0
        norm = 0.0 if is_empty else rows.norm
        behind = StepRows(0 if tree.estimator == "drop" else rows.n_columns, norm)
    elif tree.kind == "leaf":
        n_learnt = None if learnt is None else learnt.get(tree.path, 0)
        width = _n_outputs(tree.estimator, rows.n_columns, n_learnt)
        behind = StepRows(width, _longest_row(tree.estimator, rows.n_columns, rows.norm))
    else:
        for child, part in zip(tree.children, _rows_of_branches(tree, rows), strict=True):
            children.append(with_rows(child, part, learnt))
        widths: list[Any] = [child.behind.n_columns for child in children]
        norm = math.hypot(*(child.behind.norm for child in children))
        norm = math.inf if tree.estimator.transformer_weights else norm
        behind = StepRows(None if None in widths else sum(widths), norm)
    return tree._replace(children=tuple(children), before=rows, behind=behind)


def _rows_of_branches(node, rows):
    """The `StepRows` that reach each parallel branch."""
    n_columns, norm, header = rows
    if node.kind == "union":
        return [rows] * len(node.children)
    selected = [_places(child.columns, n_columns, header) for child in node.children[:-1]]
    used = {place for places in selected for place in places}
    rest = None if n_columns is None else n_columns - len(used)
    if rest is not None and rest < 0:
        raise ValueError(
            f"a ColumnTransformer selects {len(used)} columns, and its table has {n_columns}: pass the "
            "number of columns of the table, or the table itself."
        )
    return [StepRows(width, norm) for width in [*map(len, selected), rest]]


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


def misplaced_imputers(node, before=None):
    """Warnings about imputers of the default value, 0, before their column is scaled."""
    texts, previous = (), None
    for child in () if node.kind == "union" else node.children:
        texts += misplaced_imputers(child, previous)
        previous = child.estimator if node.kind == "pipeline" else None
    is_default = (
        type(before) is DPImputer
        and before.strategy == "constant"
        and not np.any(before.fill_value)
    )
    if not (is_default and isinstance(node.estimator, BoundedScaler | DPQuantileScaler)):
        return texts
    return (
        f"DPImputer() before {type(node.estimator).__name__} fills in 0 in the unit of the column, which may "
        "be far from all of its values: put it after the scaler, where 0 is the middle of the bounds, or "
        "give it a fill_value.",
    )


# Longer lists are categories or weights.
_LONGEST_LIST = 1000
# Classes whose parts a plan finds by itself.
_COMPOSED = tuple(COMPOSITE_CLASSES.values())


def refuse_hidden(tree):
    """Raise a ValueError if something that spends is held where no plan looks for it.

    A plan knows how often the steps of scikit-learn's own pipelines are fitted. It does not know how often a
    meta-estimator fits what it holds, or on which rows.
    """
    for node in tree.walk(lambda node: type(node.estimator) in _COMPOSED):
        step = node.estimator
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
def names_within(tree):
    """Let the last step of a pipeline ask, while it is fitted, what its columns are called."""
    last = tree.last.estimator
    if not hasattr(last, "_names_in_pipeline"):
        yield
        return
    last._names_in_pipeline = _NamesOfLast(tree.estimator)
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
            return names_of_last(fitted_tree(self._pipeline))
        except Exception:  # As in `set_feature_names`.
            return None

    def __reduce__(self):
        return type(None), ()


def set_feature_names(tree):
    """Tell the last step of a fitted pipeline what its columns are called."""
    try:
        names = names_of_last(tree)
    # What third-party steps say of their columns is not worth a fit that is paid for.
    except Exception:
        return
    if hasattr(tree.last.estimator, "_feature_names_from_pipeline"):
        tree.last.estimator._feature_names_from_pipeline = names


def names_of_last(tree):
    """The names of the columns of a fitted pipeline's last step; None if they are not known."""
    names, last = None, tree.last.estimator
    for node in tree.before_last:
        names = names_behind(node, names)
    fits = names is not None and len(names) == getattr(last, "n_features_in_", None)
    return np.asarray(names, dtype=str) if fits else None


def names_behind(node, names=None):
    """The names of the columns behind a fitted step, or None if it does not tell.

    Parameters
    ----------
    node : StepTree
        Of a fitted step.
    names : sequence of str or None, default=None
        Names of the columns before the step, if they are known.

    Returns
    -------
    names : ndarray of str or None
    """
    step = node.estimator
    if node.kind == "word":
        return names
    names_seen = getattr(step, "feature_names_in_", None)
    if names_seen is not None:
        names = names_seen
    try:
        known = None if names is None else np.asarray(names, dtype=object)
        return np.asarray(step.get_feature_names_out(known), dtype=str)
    except Exception:  # As in `set_feature_names`.
        pass
    if node.kind == "pipeline":
        for child in node.children:
            names = names_behind(child, names)
        return names
    if node.kind == "columns":
        fits = names is not None and len(names) == step.n_features_in_
        return _names_of_branches(node, names if fits else None)
    if type(step) is FunctionTransformer and names is not None:
        if step.func is None:
            return names
        if is_known_ufunc(step.func):
            return np.asarray([f"{step.func.__name__}({name})" for name in names], dtype=str)
    return None


def _names_of_branches(node, names):
    """The names behind a fitted ColumnTransformer some of whose branches do not tell them."""
    names_of_branches = []
    for child in node.shown_children:
        part = node.estimator.output_indices_[child.name]
        inner = names_behind(child, None if names is None else np.asarray(names)[child.columns])
        width = part.stop - part.start
        if inner is None or len(inner) != width:
            inner = [f"x{j}" for j in range(width)]
        prefix = f"{child.name}__" if node.estimator.verbose_feature_names_out is True else ""
        names_of_branches += [f"{prefix}{each}" for each in inner]
    return np.asarray(names_of_branches, dtype=str)


def leaves(node, names=None, reads_columns=True):
    """Yield (node, names of its columns, if known) of the steps of a fitted pipeline that hold no others.

    A private pipeline inside another has a budget of its own, and may protect persons: it is one step.
    Branches of no columns (``reads_columns=False``) were not fitted; for others a NotFittedError is raised.
    """
    if node.kind == "word" or is_identity(node.estimator):
        return
    if not node.is_composite or node.is_nested_private:
        yield node, names
        return
    own = getattr(node.estimator, "feature_names_in_", None)
    if node.kind == "columns" and reads_columns:
        check_is_fitted(node.estimator)
    for child in node.children:
        reads = reads_columns
        if node.kind == "columns":
            reads = reads and child.columns is not None
            names = None
            if reads:
                names = [f"column {j}" if own is None else own[j] for j in child.columns]
        yield from leaves(child, names, reads)
        if node.kind == "pipeline":
            names = names_behind(child, names)


def is_identity(step):
    """Whether a step is a FunctionTransformer without functions."""
    return type(step) is FunctionTransformer and step.func is None and step.inverse_func is None


# Warn of a data_norm that is larger than necessary by this factor.
_TOO_LONG = 1.5


def norm_warnings(final, norm):
    """A tuple with a warning if a last step's own ``data_norm`` is far above the longest row."""
    allowed = getattr(final, "data_norm", None)
    if norm is None or not is_number(allowed) or allowed <= _TOO_LONG * norm:
        return ()
    return (
        f"no row that reaches the last step is longer than {norm:.4g}, but data_norm is {allowed:g}, and the "
        f"noise is proportional to it: leave data_norm out, and the pipeline sets it to {norm:.4g}.",
    )
