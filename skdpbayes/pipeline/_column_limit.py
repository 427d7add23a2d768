"""How many columns the last step of a pipeline can take, and what is done with categories beyond them.

columns(k_1, k_2, ...) <= most,    k_i categories found by encoder i

``most`` is public: the largest number of columns for which the last step has a plan that costs no more than
is charged for it. Categories beyond them are put together, the smallest noisy counts first, once all encoders
are fitted and before the last step is; these counts have been released, so that this costs nothing.
"""

from bisect import bisect_left
from collections import Counter
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import _safe_indexing

from .._data.collections import example_of, is_collection
from ..exceptions import PrivacyWarning
from ..preprocessing import DPOneHotEncoder
from ..privacy.charge import dominates
from ..privacy.deferred_warnings import warn
from ._dask import columns_of_branches, copied, fit_steps, transformed
from ._report import leaves
from ._steps import fitted_branches, paths_without_budget, spending_steps

# Columns; a last step that takes as many takes any number.
_ANY_NUMBER = 2**20


class ColumnLimit(NamedTuple):
    """The number of columns that a last step can take.

    Attributes
    ----------
    n_columns : int
        The most that it can take.
    encoders : tuple of str
        Paths of the encoders that find categories.
    last : str
        Path of the last step.
    n_inputs, header
        Number of columns of the pipeline's table, and their names.
    """

    n_columns: int
    encoders: tuple[str, ...]
    last: str
    n_inputs: int | None
    header: Any

    def columns_with(self, pipeline, learnt):
        """The number of columns, given the number of categories that each encoder finds, by path."""
        return _columns_with(pipeline, self.n_inputs, self.header, self.last, learnt)


def _columns_with(pipeline, n_inputs, header, last, learnt):
    steps, _ = spending_steps(pipeline, n_inputs, header, learnt=learnt)
    return next(n for path, _, n in steps if path == last)


def column_limit_of_last(pipeline, plan, spending, n_columns, header, labels):
    """The `ColumnLimit` of a pipeline's last step, None if it takes all that encoders may find.

    The number of its columns is not known before the fit.

    Parameters
    ----------
    pipeline : PrivatePipeline
    plan : PipelinePlan
    spending : list of (str, private step, int or None)
        Paths, steps as they are fitted, and numbers of columns of the plan.
    n_columns : int or None
        Number of columns of the table.
    header : table without rows or None
        The names and types of its columns.
    labels : callable or None
        Returns the labels that the last step finds, or None.

    Raises
    ------
    ValueError
        If the last step cannot even take the columns that there are if nothing is found.
    """
    last, final, _ = spending[-1]
    fewest = _columns_with(pipeline, n_columns, header, last, {})
    if not any(_finds_categories(step, n) for _, step, n in spending[:-1]):
        return None
    if fewest is None:  # A step behind the encoders makes its own number of columns.
        most = _most_columns(plan, last, final, 1, labels)
        if most is None or not _may_add_columns(pipeline):
            return None
        raise ValueError(
            f"{last} can take {most} columns, and how many a step behind a private encoder makes is not "
            "known before the fit: give public lists of categories. Nothing was read."
        )
    most = _most_columns(plan, last, final, fewest, labels)
    encoders = tuple(path for path, step, _ in spending[:-1] if type(step) is DPOneHotEncoder)
    return None if most is None else ColumnLimit(most, encoders, last, n_columns, header)


def _finds_categories(step, n_columns):
    """Whether a private step finds the categories of a column."""
    if type(step) is not DPOneHotEncoder:
        return False
    return n_columns is None or None in step._public_lists(None, n_columns)


def _may_add_columns(pipeline):
    """Whether a step that makes its own number of columns may make more than it is given."""
    own_number = [
        leaf.step
        for leaf in [*leaves(pipeline)][:-1]
        if spending_steps(leaf.step, 3, learnt={})[1] is None
    ]
    return not all(
        isinstance(step, SelectorMixin)
        or (isinstance(step, SimpleImputer) and not step.add_indicator)
        for step in own_number
    )


def _most_columns(plan, last, final, fewest, labels):
    """The largest number of columns for which there is a plan of the cost, None if for any."""
    epsilon, delta = plan.step_budgets[last]
    final, sizes = clone(final).set_params(epsilon=epsilon, delta=delta), {}
    learns_labels = labels is not None and getattr(final, "classes", ()) is None
    if learns_labels and (names := labels()) is not None and len(names) > 1:
        sizes["n_classes"] = len(names)

    def is_paid(width):
        cost = final.privacy_plan(plan.n_samples, width, **sizes).cost
        return dominates(plan.step_costs[last], cost)

    def is_taken(width):
        try:
            return is_paid(width)
        except ValueError:
            return False

    if not is_paid(fewest):
        raise ValueError(
            f"{last} costs more at {fewest} columns than can be charged while their number is not known: set "
            "its sampler or its data_norm, or give public lists of categories."
        )
    taken = fewest
    while taken < _ANY_NUMBER and is_taken(2 * taken):
        taken *= 2
    if taken >= _ANY_NUMBER:
        return None
    refused = 2 * taken
    while refused - taken > 1:
        middle = (taken + refused) // 2
        taken, refused = (middle, refused) if is_taken(middle) else (taken, middle)
    return taken


def fit_within_limit(pipeline, limit, X, y, params, fit):
    """Fit the steps of a pipeline, the last one with as many columns as it can take.

    Parameters
    ----------
    pipeline : PrivatePipeline
    limit : ColumnLimit
    X, y, params
        As for its `fit`.
    fit : callable
        That of scikit-learn's Pipeline.
    """
    make = partial(_merge_rare_categories, pipeline, limit, _kept_as_they_are(pipeline, X), y)
    if is_collection(X):
        fit_steps(pipeline, X, y, params, make)
        return
    last = pipeline
    while isinstance(last.steps[-1][1], Pipeline):
        last = last.steps[-1][1]
    fit_others = last._fit  # All but the last.
    last._fit = lambda *args, **options: make(fit_others(*args, **options))
    try:
        fit(X, y, **params)
    finally:
        del last._fit


def _kept_as_they_are(pipeline, X):
    """Rows that third-party steps cannot change in place."""
    steps = pipeline.get_params()
    are_kept = all(
        type(steps[path]).__module__.startswith("skdpbayes.")
        for path in paths_without_budget(pipeline)
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
    encoders = {leaf.path: leaf.step for leaf in leaves(pipeline) if leaf.path in limit.encoders}
    counts = {
        (path, j, category): count
        for path, encoder in encoders.items()
        for j, kept in encoder._noisy_counts.items()
        for category, count in kept.items()
    }
    by_count = sorted(counts, key=counts.__getitem__)  # Ties are in the order of columns.

    def fits_without(n_rare):
        kept = Counter(path for path, *_ in by_count[n_rare:])
        return limit.columns_with(pipeline, dict(kept)) <= limit.n_columns

    rare: dict[str, list[tuple]] = {}
    for path, *which in by_count[: bisect_left(range(len(by_count)), True, key=fits_without)]:
        rare.setdefault(path, []).append(tuple(which))
    for path, which in rare.items():
        encoders[path]._put_together(which)
    n_rare, n_found = sum(len(which) for which in rare.values()), len(counts)
    columns = ", ".join(
        _of_columns(path, encoders[path], [j for j, _ in which]) for path, which in rare.items()
    )
    warn(
        f"{n_found} categories were found, and the last step can take {limit.n_columns} columns: the "
        f"{n_rare} with the smallest noisy counts count as infrequent ({columns}). To decide which, give "
        "public lists of categories.",
        PrivacyWarning,
    )
    changed = {id(encoders[path]) for path in rare}
    for step in _flat(pipeline)[:-1]:
        X = _again(step, X, y, changed)
    return X


def _of_columns(path, encoder, places):
    names = getattr(encoder, "feature_names_in_", None)
    counts = np.bincount(places)
    shown = [
        f"{counts[j]} of {f'column {j}' if names is None else repr(str(names[j]))}"
        for j in np.flatnonzero(counts)
    ]
    return f"{path}: {', '.join(shown)}"


def _flat(pipeline):
    """The steps of a pipeline, and of one at its end."""
    *before, (_, last) = pipeline.steps
    steps = [step for _, step in before]
    return steps + (_flat(last) if isinstance(last, Pipeline) else [last])


def _again(step, X, y, changed):
    """The output of a fitted step, now that encoders in it or before it have fewer columns."""
    if step is None or isinstance(step, str):
        return X
    if _holds(step, changed):
        if isinstance(step, Pipeline):
            for _, child in step.steps:
                X = _again(child, X, y, changed)
            return X
        if isinstance(step, ColumnTransformer | FeatureUnion):
            _change_branches(step, X, y, changed)
    elif getattr(step, "n_features_in_", None) not in (None, X.shape[1]):
        # It learns nothing, or the pipeline has said so.
        step.fit(example_of(X) if is_collection(X) else copied(X), y)
    return transformed(step, X) if is_collection(X) else step.transform(X)


def _change_branches(step, X, y, changed):
    if isinstance(step, FeatureUnion):
        for _, child in step.transformer_list:
            if _holds(child, changed):
                _again(child, copied(X), y, changed)
        return
    parts = columns_of_branches(step, X) if is_collection(X) else {}
    first, places = 0, dict(step.output_indices_)
    for name, child, columns in fitted_branches(step):
        part = step.output_indices_[name]
        width = part.stop - part.start
        if _holds(child, changed):
            part = parts[name] if is_collection(X) else _safe_indexing(X, columns, axis=1)
            width = _again(child, part, y, changed).shape[1]
        places[name] = slice(first, first + width)
        first += width
    step.output_indices_ = places


def _holds(step, changed):
    return any(id(leaf.step) in changed for leaf in leaves(step))
