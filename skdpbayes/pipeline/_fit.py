"""Fitting the steps of a pipeline: scikit-learn does it in memory, and this on Dask collections.

    private steps read the partitions;  steps that learn nothing are fitted on a made-up row
    transform of a fitted step -> each partition, lazily

Of a collection, rows stay where they are, and only releases come back. scikit-learn fits a ColumnTransformer
or FeatureUnion on the made-up row, too, with stand-ins for its branches, which fit these on their columns of
the collection.

Before the last step is fitted, categories that leave it too many columns are put together, the smallest
noisy counts first; these counts have been released, so that this costs nothing.
"""

import copy
from bisect import bisect_left
from collections import Counter
from functools import partial, wraps
from inspect import signature

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils._indexing import _get_column_indices
from sklearn.utils.validation import check_is_fitted

from .._data.collections import example_of, header_of, is_collection, rows_compared
from .._data.partitions import in_memory_and_order
from .._data.read import without_cells
from .._errors import same_kind, sanitize_errors
from ..exceptions import PrivacyWarning
from ..privacy.charge import UnplannedReleaseError
from ..privacy.deferred_warnings import warn
from ..privacy.unsafe_callers import fitted_tree, step_tree
from ._steps import steps_without_budget


def fit_steps(node, X, y, params, within_limit=None):
    """Fit the steps of a pipeline on a collection, as the `fit` of scikit-learn's Pipeline does in memory.

    ``within_limit`` maps the columns of the last step of all to those that it can take.
    """
    routed = node.estimator._check_method_params(method="fit", props=params)
    for child in node.children[:-1]:
        if child.kind != "word":
            _fit(child, X, y, routed[child.name].get("fit"))
            X = transformed(child.estimator, X)
    last = node.children[-1]
    if last.kind == "pipeline":
        fit_steps(last, X, y, routed[last.name].get("fit") or {}, within_limit)
    elif last.kind != "word":
        given = routed[last.name].get("fit")
        _fit(last, X if within_limit is None else within_limit(X), y, given)


def _fit(node, X, y, params=None):
    """Fit a step on a collection, in place."""
    if node.kind == "pipeline":
        fit_steps(node, X, y, params or {})
    elif node.kind in ("columns", "union"):
        fit_branches(node, X, partial(_fit_branch, y=y, copies=node.kind == "columns"))
    elif node.is_private:
        node.estimator.fit(X, y, **(params or {}))
    else:
        node.estimator.fit(example_of(X))


def _fit_branch(node, X, y, copies):
    # As in memory: a ColumnTransformer fits copies, a FeatureUnion does not.
    step = clone(node.estimator) if copies else node.estimator
    _fit(step_tree(step) if copies else node, X, y)
    return step


def transformed(step, X):
    """The collection of what a fitted step makes of the partitions."""
    from .._data.partitions import map_blocks

    return map_blocks(partial(_on_rows, step, "transform"), X)


def _on_rows(step, method, X):
    """The result of a fitted step's method for rows; raises an error that quotes none."""
    if not type(step).__module__.startswith("skdpbayes.preprocessing."):
        X = copied(X)  # The step may work in place.
    return sanitize_errors(getattr(step, method), X, on_error=partial(refusal, step))


def _through(pipeline, method, X):
    """The result of a fitted pipeline's method for rows; raises an error that quotes none."""
    for _, _, step in pipeline._iter(with_final=False):
        X = _on_rows(step, "transform", X)
    last = pipeline.steps[-1][1]
    return X if last is None or isinstance(last, str) else _on_rows(last, method, X)


def fit_branches(node, X, fit):
    """Fit a ColumnTransformer or FeatureUnion on a collection, in place.

    Parameters
    ----------
    node : StepTree
    X : dask.array.Array or dask.dataframe.DataFrame
    fit : callable
        Maps the node of a branch and its columns of the collection to a fitted step.
    """
    step, parts = node.estimator, columns_of_branches(node, X)
    stand_ins = {
        child.name: _StandIn(child.estimator, partial(fit, child, parts[child.name]))
        for child in node.children
        if child.kind != "word"
    }
    for name, child in stand_ins.items():
        refuse_models(step, name, child.step)
    params = step.get_params(deep=False)
    try:
        # In this process, in which stand-ins note what they fitted.
        step.set_params(n_jobs=None, verbose=False, **stand_ins)
        step.fit_transform(example_of(X))
    finally:
        vars(step).update(params)
    if node.kind == "union":
        step.transformer_list = [
            (name, stand_ins[name].fitted if name in stand_ins else child)
            for name, child in step.transformer_list
        ]
        return
    name, _, columns = step._remainder
    step._remainder = (name, step.remainder, columns)
    step.transformers_ = [
        (name, child.fitted if isinstance(child, _StandIn) else child, columns)
        for name, child, columns in step.transformers_
    ]


def columns_of_branches(node, X):
    """{name of a branch: its columns of a collection}; 1-dimensional where the row would be."""
    if node.kind == "union":
        return {child.name: X for child in node.children}
    header, parts, used = header_of(X), {}, set()
    if hasattr(X, "columns") and not X.columns.is_unique:
        raise ValueError("X has several columns of one name: give every column a name of its own.")
    for name, _, columns in node.estimator.transformers:
        columns = columns(header) if callable(columns) else columns
        places = [int(place) for place in _get_column_indices(header, columns)]
        used.update(places)
        parts[name] = _taken(X, places[0] if isinstance(columns, str | int) else places)
    rest = [place for place in range(header.shape[1]) if place not in used]
    return parts | {"remainder": _taken(X, rest)}


def _taken(X, places):
    if not hasattr(X, "columns"):
        return X[:, places]
    return X[X.columns[places] if isinstance(places, int) else list(X.columns[places])]


class _StandIn(BaseEstimator):
    """A branch that is fitted on its columns of a collection where scikit-learn fits it on a row."""

    def __init__(self, step, fit_there):
        self.step = step
        self.fit_there = fit_there
        self.fitted = step  # If it has no columns, it is not fitted.

    def __sklearn_clone__(self):
        return self

    def fit(self, X, y=None):
        self.fitted = self.fit_there()
        return self

    def transform(self, X):
        return self.fitted.transform(X)


class OnPartitions:
    """A method of scikit-learn's pipelines that takes collections, too.

    Parameters
    ----------
    lazily : bool, default=True
        Whether the answer is a collection; if not, the last step gives it.
    """

    def __init__(self, lazily=True):
        self.lazily = lazily

    def __set_name__(self, owner, name):
        self.owner, self.name = owner, name

    def __get__(self, pipeline, kind=None):
        if pipeline is None:
            return getattr(Pipeline, self.name)
        # Raises an AttributeError if the last step has no such method.
        method = getattr(super(self.owner, pipeline), self.name)

        @wraps(method)  # With its signature, too.
        def either(X, *args, **params):
            if self.name == "score":
                given = signature(method).bind_partial(X, *args, **params).arguments
                in_memory_and_order(**given.pop("params", {}), **given)
            if not is_collection(X):
                with rows_compared(self.name == "score"):
                    return method(X, *args, **params)
            if not self.lazily:
                return pipeline._of_last(self.name, X, *args, **params)
            check_is_fitted(pipeline)
            if args or params:
                raise TypeError(
                    f"{self.name} takes nothing but rows if these are a Dask collection: pass X.compute() if "
                    "it fits."
                )
            from .._data.partitions import map_blocks

            return map_blocks(partial(_through, pipeline, self.name), X)

        return either


def refuse_models(step, name, branch):
    """Raise a TypeError if a branch of a composite step does not transform."""
    if not hasattr(branch, "transform"):
        raise TypeError(
            f"{name} in {type(step).__name__} is a {type(branch).__name__}, which has no transform: put it "
            "at the end of the pipeline."
        )


def refusal(step, error):
    """The error to raise instead of that of a step, which might quote rows."""
    if isinstance(error, UnplannedReleaseError):
        return error
    if type(step).__module__.startswith("skdpbayes."):
        return same_kind(error, str(error))
    return without_cells(
        error,
        f"{type(step).__name__} refuses the rows that reach it. Its message is not shown, because it may "
        "quote them: fit the step on made-up rows of the same columns and types.",
    )


def copied(X):
    """A copy of rows."""
    return X.copy() if hasattr(X, "copy") and not isinstance(X, list) else copy.deepcopy(X)


# The last step's columns, where encoders have found more categories than it can take.


def fit_within_limit(tree, limit, X, y, params, fit):
    """Fit the steps of a pipeline, the last one with as many columns as it can take.

    Parameters
    ----------
    tree : StepTree
    limit : ColumnLimit
    X, y, params
        As for its `fit`.
    fit : callable
        That of scikit-learn's Pipeline.
    """
    make = partial(_merge_rare_categories, tree.estimator, limit, _kept_as_they_are(tree, X), y)
    if is_collection(X):
        fit_steps(tree, X, y, params, make)
        return
    node = tree
    while node.children[-1].kind == "pipeline":
        node = node.children[-1]
    innermost = node.estimator
    fit_others = innermost._fit  # All but the last.
    innermost._fit = lambda *args, **options: make(fit_others(*args, **options))
    try:
        fit(X, y, **params)
    finally:
        del innermost._fit


def _kept_as_they_are(tree, X):
    """Rows that third-party steps cannot change in place."""
    are_kept = all(
        type(node.estimator).__module__.startswith("skdpbayes.")
        for node in steps_without_budget(tree)
    )
    return X if are_kept else copied(X)


def _merge_rare_categories(pipeline, limit, X, y, output):
    """Put the rarest categories of encoders together where there is no room for all.

    Parameters
    ----------
    pipeline : PrivatePipeline
        All of its steps but the last are fitted.
    limit : ColumnLimit
    X, y
        What they were fitted with.
    output : table
        What they make of it.

    Returns
    -------
    output : table
        What they make of it now.
    """
    if output.shape[1] <= limit.n_columns:
        return output
    tree, planned = fitted_tree(pipeline), step_tree(pipeline)
    encoders = {node.path: node.estimator for node in tree.walk() if node.path in limit.encoders}
    counts = {
        (path, j, category): count
        for path, encoder in encoders.items()
        for j, kept in encoder._noisy_counts.items()
        for category, count in kept.items()
    }
    by_count = sorted(counts, key=counts.__getitem__)  # Ties are in the order of columns.

    def fits_without(n_rare):
        kept = Counter(path for path, *_ in by_count[n_rare:])
        return limit.columns_with(planned, dict(kept)) <= limit.n_columns

    rare: dict[str, list[tuple]] = {}
    for path, *which in by_count[: bisect_left(range(len(by_count)), True, key=fits_without)]:
        rare.setdefault(path, []).append(tuple(which))
    for path, which in rare.items():
        encoders[path]._put_together(which)
    n_rare, n_found = sum(len(which) for which in rare.values()), len(counts)
    columns = ", ".join(
        _counts_of_rare(path, encoders[path], [j for j, _ in which]) for path, which in rare.items()
    )
    warn(
        f"{n_found} categories were found, and the last step can take {limit.n_columns} columns: the "
        f"{n_rare} with the smallest noisy counts count as infrequent ({columns}). To decide which, give "
        "public lists of categories.",
        PrivacyWarning,
    )
    for node in tree.before_last:
        X = _again(node, X, y, set(rare))
    return X


def _counts_of_rare(path, encoder, places):
    """Text of how many categories of each column of an encoder count as infrequent."""
    names = getattr(encoder, "feature_names_in_", None)
    counts = np.bincount(places)
    shown = [
        f"{counts[j]} of {f'column {j}' if names is None else repr(str(names[j]))}"
        for j in np.flatnonzero(counts)
    ]
    return f"{path}: {', '.join(shown)}"


def _again(node, X, y, changed):
    """The output of a fitted step, now that encoders in it or before it have fewer columns.

    ``changed`` are the paths of these encoders.
    """
    if node.kind == "word":
        return X
    step = node.estimator
    if _holds(node, changed):
        if node.kind == "pipeline":
            for child in node.children:
                X = _again(child, X, y, changed)
            return X
        if node.kind != "leaf":
            _change_branches(node, X, y, changed)
    elif getattr(step, "n_features_in_", None) not in (None, X.shape[1]):
        # It learns nothing, or the pipeline has said so.
        step.fit(example_of(X) if is_collection(X) else copied(X), y)
    return transformed(step, X) if is_collection(X) else step.transform(X)


def _change_branches(node, X, y, changed):
    if node.kind == "union":
        for child in node.children:
            if _holds(child, changed):
                _again(child, copied(X), y, changed)
        return
    step = node.estimator
    parts = columns_of_branches(node, X) if is_collection(X) else {}
    first, places = 0, dict(step.output_indices_)
    for child in node.shown_children:
        part = step.output_indices_[child.name]
        width = part.stop - part.start
        if _holds(child, changed):
            whole = is_collection(X)
            part = parts[child.name] if whole else _safe_indexing(X, child.columns, axis=1)
            width = _again(child, part, y, changed).shape[1]
        places[child.name] = slice(first, first + width)
        first += width
    step.output_indices_ = places


def _holds(node, changed):
    return any(inner.path in changed for inner in node.walk())
