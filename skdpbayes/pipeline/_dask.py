"""Steps of a pipeline on Dask collections: rows stay where they are, and only releases come back.

    private steps read the partitions;  steps that learn nothing are fitted on a made-up row
    transform of a fitted step -> each partition, lazily

scikit-learn fits a ColumnTransformer or FeatureUnion on the made-up row, too, with stand-ins for its
branches, which fit these on their columns of the collection.
"""

import copy
from functools import partial, wraps
from inspect import signature

from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils._indexing import _get_column_indices
from sklearn.utils.validation import check_is_fitted

from .._data.collections import example_of, header_of, is_collection, rows_compared
from .._data.partitions import in_memory_and_order
from .._data.read import without_cells
from .._errors import same_kind, sanitize_errors
from ..privacy.charge import UnplannedReleaseError
from ._steps import children, is_private


def fit_steps(pipeline, X, y, params, within_limit=None):
    """Fit the steps of a pipeline on a collection, as the `fit` of scikit-learn's Pipeline does in memory.

    ``within_limit`` maps the columns of the last step of all to those that it can take.
    """
    routed = pipeline._check_method_params(method="fit", props=params)
    for name, step in pipeline.steps[:-1]:
        if _is_step(step):
            _fit(step, X, y, routed[name].get("fit"))
            X = transformed(step, X)
    name, last = pipeline.steps[-1]
    if isinstance(last, Pipeline):
        fit_steps(last, X, y, routed[name].get("fit") or {}, within_limit)
    elif _is_step(last):
        _fit(last, X if within_limit is None else within_limit(X), y, routed[name].get("fit"))


def _fit(step, X, y, params=None):
    """Fit a step on a collection, in place."""
    if isinstance(step, Pipeline):
        fit_steps(step, X, y, params or {})
    elif isinstance(step, ColumnTransformer | FeatureUnion):
        fit_branches(step, X, partial(_fit_branch, y=y, copies=isinstance(step, ColumnTransformer)))
    elif is_private(step):
        step.fit(X, y, **(params or {}))
    else:
        step.fit(example_of(X))


def _fit_branch(name, step, X, y, copies):
    # As in memory: a ColumnTransformer fits copies, a FeatureUnion does not.
    step = clone(step) if copies else step
    _fit(step, X, y)
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
    return _on_rows(last, method, X) if _is_step(last) else X


def fit_branches(step, X, fit):
    """Fit a ColumnTransformer or FeatureUnion on a collection, in place.

    Parameters
    ----------
    step : ColumnTransformer or FeatureUnion
    X : dask.array.Array or dask.dataframe.DataFrame
    fit : callable
        Maps the name of a branch, its step and its columns of the collection to a fitted step.
    """
    parts = columns_of_branches(step, X)
    stand_ins = {
        name: _StandIn(child, partial(fit, name, child, parts[name]))
        for name, child in children(step)
        if _is_step(child)
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
    if isinstance(step, FeatureUnion):
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


def columns_of_branches(step, X):
    """{name of a branch: its columns of a collection}; 1-dimensional where the row would be."""
    if isinstance(step, FeatureUnion):
        return {name: X for name, _ in step.transformer_list}
    header, parts, used = header_of(X), {}, set()
    if hasattr(X, "columns") and not X.columns.is_unique:
        raise ValueError("X has several columns of one name: give every column a name of its own.")
    for name, _, columns in step.transformers:
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


def _is_step(step):
    return step is not None and not isinstance(step, str)
