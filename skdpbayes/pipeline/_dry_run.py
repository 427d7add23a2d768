"""A fit without its releases, so that what a step would refuse is refused before the budget is charged.

    free steps run; private steps validate, plan, and learn made-up values; nothing is released

It works on copies and goes as far as columns are public. Behind a step whose output is not known without a
release, such as private lists of categories, the columns that are known go on, and parameters, the number of
rows and what belongs to these are checked.
"""

import copy
import inspect
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_consistent_length

from .._data.collections import example_of, is_collection
from .._data.columns import refuse_other_types
from .._data.read import read_table, validate_table
from .._errors import sanitize_errors
from ..preprocessing import BoundedScaler
from ..privacy.charge import without_releases
from ..privacy.deferred_warnings import ignored_warnings
from ..privacy.unsafe_callers import step_tree
from ._fit import copied, fit_branches, refusal, refuse_models, transformed


class DryRun(NamedTuple):
    """The result of a dry run: what is known without a release.

    Attributes
    ----------
    output : table or None
        Made-up output of a transformer, with the right columns and missing values.
    n_columns : int or None
        Number of columns that reach the last step.
    classes : ndarray or None
        The labels that the last step would have.
    part : table or None
        Those columns of the output that are known, if others are not.
    is_sparse : bool
        Whether an output of which nothing else is known will be sparse.
    fitted : estimator, str or None
        The copy of the step that made the output.
    """

    output: Any = None
    n_columns: int | None = None
    classes: np.ndarray | None = None
    part: Any = None
    is_sparse: bool = False
    fitted: Any = None


def dry_run(tree, X, y=None, params=None):
    """Do what a fit does before it is charged, with copies of all steps.

    Parameters
    ----------
    tree : StepTree
        Of a private estimator, or a pipeline.
    X, y
        As for its `fit`.
    params : dict, default=None
        Other arguments of its `fit`.

    Returns
    -------
    result : DryRun

    Raises
    ------
    ValueError, TypeError
        What the fit would raise. No error quotes a cell of the table.
    """
    if y is not None and not is_collection(X):
        check_consistent_length(X, y)
    fixed: frozenset[str] = frozenset()
    if tree.kind == "pipeline" and tree.is_private:
        fixed = frozenset(tree.estimator.learns_nothing or ())
        # Arguments are passed on to its steps as an ordinary pipeline does.
        tree = tree._replace(estimator=Pipeline(tree.estimator.steps))
    # The fit itself shows warnings.
    with ignored_warnings(), without_releases():
        return _run(tree, X, y, params or {}, fixed)


def labels_of(tree, y):
    """The labels that the last step of a fit would find in ``y``, or None without labels."""
    last = tree.last.estimator
    # Label encoding does not depend on groups; pass dummies.
    has_persons = getattr(last, "max_rows_per_group", None) is not None
    return _run_rows(last, y, {"groups": np.arange(len(y))} if has_persons else {})


def _run(node, X, y, params, fixed, before=None):
    """The `DryRun` of a step; ``X`` is None if its columns are not known but for those of ``before``."""
    step = node.estimator
    if node.kind == "word":
        return before if X is None and before is not None else DryRun(output=X, fitted=step)
    if node.is_composite:  # Subclasses may do anything, like other unknown steps.
        if node.kind == "pipeline":
            return _run_pipeline(node, X, y, params, fixed, before)
        if X is not None:
            return _run_branches(node, X, y, fixed)
        return _run_unknown_branches(node, y, fixed, before or DryRun())
    if y is None and _needs_labels(step):
        raise ValueError(
            f"This {type(step).__name__} estimator requires y to be passed, but the target y is None."
        )
    if X is None:
        return _run_unknown(node, y, params, fixed, before or DryRun())
    if node.is_private:
        return _run_private(step, X, y, params)
    if not hasattr(step, "transform") or (node.path not in fixed and node.leaks()):
        return DryRun(n_columns=_width(X))
    if isinstance(step, OneHotEncoder | OrdinalEncoder) and not isinstance(step.categories, str):
        refuse_other_types(step.categories, X, "categories", cast=True)
    # A step that was fitted elsewhere may hold more than its parameters.
    step_copy = copy.deepcopy(step) if node.path in fixed else clone(step)
    if is_collection(X):
        step_copy.fit(example_of(X))
        return DryRun(output=transformed(step_copy, X), fitted=step_copy)
    return DryRun(output=_transformed(step_copy, X, y, params), fitted=step_copy)


def _refuse_bounds_by_column(step):
    """Raise a ValueError for bounds that have to match columns whose number only a release tells."""
    if isinstance(step, BoundedScaler) and any(
        isinstance(bound, Mapping) or np.size(bound) > 1 for bound in (step.lower, step.upper)
    ):
        raise ValueError(
            "BoundedScaler has bounds for each column behind a step that finds its columns privately, so "
            "that these are not known yet: give public lists of categories, or one bound for all columns."
        )


def _run_unknown(node, y, params, fixed, before):
    """The `DryRun` of a step of which only some columns are known beforehand."""
    step = node.estimator
    _refuse_bounds_by_column(step)
    if hasattr(step, "_parameter_constraints"):
        step._validate_params()
    if before.part is not None:
        _refuse_cells(node, before.part)
    is_our_transformer = hasattr(step, "transform") and type(step).__module__.startswith(
        "skdpbayes."
    )
    if before.is_sparse and not (is_our_transformer or get_tags(step).input_tags.sparse):
        raise TypeError(
            f"{type(step).__name__} takes no sparse rows, and a private encoder before it makes them: set "
            "its sparse_output to False."
        )
    classes = _run_rows(step, y, params, before.is_sparse)
    keeps_private = node.is_private or node.leaks() or node.path in fixed
    if not hasattr(step, "transform") or keeps_private:
        return DryRun(classes=classes, is_sparse=before.is_sparse and node.is_private)
    if is_our_transformer:
        clone(step).fit_transform(_made_up_column(range(2), before.is_sparse))
    part = None
    if before.part is not None and _width(before.part) and not is_collection(before.part):
        # Of an error, the reason may be that columns are missing here.
        with suppress(Exception):
            part = _transformed(clone(step), before.part, y, {})
    return DryRun(part=part, is_sparse=before.is_sparse)


def _run_unknown_branches(node, y, fixed, before):
    """The `DryRun` of branches, of which those of a ColumnTransformer select columns not known yet."""
    keeps_all = node.kind == "union"
    results = [
        _run(child, None, y, {}, fixed, before if keeps_all else None) for child in node.children
    ]
    parts = [result.part for result in results]
    is_known = keeps_all and bool(parts) and not any(part is None for part in parts)
    return DryRun(part=np.hstack([np.asarray(part) for part in parts]) if is_known else None)


def _run_pipeline(node, X, y, params, fixed, before=None):
    node.estimator._validate_steps()
    routed = node.estimator._check_method_params(method="fit", props=params)
    result, fitted = before or DryRun(output=X), []
    for child in node.children:
        named = routed[child.name] if child.kind != "word" else {}
        given = named.get("fit") or named.get("fit_transform") or {}
        result = _run(child, result.output, y, given, fixed, result)
        fitted.append((child.name, result.fitted))
    return result._replace(fitted=None if result.fitted is None else Pipeline(fitted))


def _run_branches(node, X, y, fixed):
    """Rehearse a ColumnTransformer or FeatureUnion by fitting it with stand-ins for its steps."""
    if is_collection(X):
        return _run_partitions(node, X, y, fixed)
    branches = clone(node.estimator)
    known: list[bool] = []
    errors: list[Exception] = []
    stand_ins = {
        child.name: _StandIn(child, fixed, known, errors)
        for child in node.children
        if child.kind != "word"
    }
    for name, child in stand_ins.items():
        refuse_models(branches, name, child.node.estimator)
    # Without other processes, in which nothing would be noted.
    branches.set_params(n_jobs=None, verbose=False, **stand_ins)

    def on_error(error):
        return error if any(error is child for child in errors) else refusal(branches, error)

    output = sanitize_errors(branches.fit_transform, X, y, on_error=on_error)
    return DryRun(output=output) if all(known) else DryRun(part=output)


def _run_partitions(node, X, y, fixed):
    """Rehearse a ColumnTransformer or FeatureUnion on a collection."""
    branches, known = step_tree(clone(node.estimator), node.path), []

    def made_up(child, part):
        result = _run(child, part, y, {}, fixed)
        known.append(result.fitted is not None)
        return FunctionTransformer(_no_columns) if result.fitted is None else result.fitted

    fit_branches(branches, X, made_up)
    output = transformed(branches.estimator, X)
    if not all(known):
        return DryRun(part=output)
    return DryRun(output=output, fitted=branches.estimator)


def _no_columns(X):
    return np.zeros((_num_samples(X), 0))


def _refuse_cells(node, X):
    """Run the step's input validation on a table with an unknown number of columns."""
    step = node.estimator
    if not type(step).__module__.startswith(("sklearn.", "skdpbayes.")):
        return
    takes = get_tags(step)
    reads_numbers = not (
        takes.no_validation or takes.input_tags.string or takes.input_tags.categorical
    )
    if reads_numbers and not node.is_composite and _width(X):
        finite = not takes.input_tags.allow_nan
        if is_collection(X):
            with read_table(_Cells(), X, accept_sparse=True, ensure_all_finite=finite):
                return
        validate_table(clone(step), X, reset=True, accept_sparse=True, ensure_all_finite=finite)


class _Cells(BaseEstimator):
    """Stands for a step whose cells are read where they are."""

    _reads_collections = True


def _run_private(step, X, y, params):
    if not hasattr(step, "_dry_run"):
        # A third-party estimator, of which only plans are known.
        return DryRun(n_columns=_width(X))
    step_copy = clone(step)
    _check_arguments(step_copy, X, y, params)
    if hasattr(step_copy, "transform"):
        if not step_copy._dry_run(X, y, **params):
            return DryRun(is_sparse=getattr(step, "sparse_output", False))
        return DryRun(output=step_copy.transform(X), fitted=step_copy)
    return DryRun(n_columns=_width(X), classes=step_copy._dry_run(X, y, **params))


def _check_arguments(step, X, y, params):
    """Raise a TypeError for arguments that a step's fit does not have."""
    try:
        inspect.signature(step.fit).bind(X, y, **params)
    except TypeError as error:
        raise TypeError(f"{type(step).__name__}.fit() {error}") from None


def _run_rows(step, y, params, is_sparse=False):
    """The labels of an estimator that gets rows of unknown columns."""
    if y is None or hasattr(step, "transform") or not hasattr(step, "_dry_run"):
        return None
    if is_collection(y):
        from .._data.partitions import map_blocks

        X = map_blocks(_made_up_column, y)  # Labels stay where they are.
    else:
        X = _made_up_column(y, is_sparse)
    return clone(step)._dry_run(X, y, planned=False, **params)


def _made_up_column(y, is_sparse=False):
    column = np.zeros((_num_samples(y), 1))
    return csr_array(column) if is_sparse else column


def _transformed(step, X, y, params):
    """The output of a step that learns nothing."""
    return sanitize_errors(_fit_transform, step, X, y, params, on_error=partial(refusal, step))


def _fit_transform(step, X, y, params):
    if not type(step).__module__.startswith("skdpbayes."):
        # The step may work in place, and the fit itself is to find the rows as they are.
        X = copied(X)
    if hasattr(step, "fit_transform"):
        return step.fit_transform(X, y, **params)
    return step.fit(X, y, **params).transform(X)


def _needs_labels(step):
    return hasattr(step, "__sklearn_tags__") and get_tags(step).target_tags.required


def _width(X):
    shape = np.shape(X) if not hasattr(X, "shape") else X.shape
    return shape[1] if len(shape) == 2 else None


def _has_transform(stand_in):
    return hasattr(stand_in.node.estimator, "transform")


class _StandIn(BaseEstimator):
    """A branch that is run on a copy where it would be fitted; it notes whether its columns are known."""

    def __init__(self, node, fixed, known, errors):
        self.node = node
        self.fixed = fixed
        self.known = known
        self.errors = errors

    def __sklearn_clone__(self):
        return self

    def fit(self, X, y=None):
        return self

    def fit_transform(self, X, y=None):
        try:
            result = _run(self.node, X, y, {}, self.fixed)
        except Exception as error:
            self.errors.append(error)  # It quotes no cell.
            raise
        self.known.append(result.output is not None)
        known = (output for output in (result.output, result.part) if output is not None)
        output = next(known, np.zeros((_num_samples(X), 0)))
        self.names = [str(name) for name in getattr(output, "columns", range(output.shape[1]))]
        return output

    def get_feature_names_out(self, input_features=None):
        return self.names

    @available_if(_has_transform)
    def transform(self, X):
        return self.fit_transform(X)
