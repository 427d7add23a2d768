"""What the columns of a table are called behind the steps of a fitted pipeline.

    names of the table -> get_feature_names_out of each step -> names of the columns of the last step

A step knows the names that it saw, and is told them otherwise. Of steps that do not name their columns, a
ufunc names them after its argument, such as log1p(income), and those of other branches keep their names.
"""

from contextlib import contextmanager

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from ._leaks import is_known_ufunc


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
        except Exception:  # As in `tell_names`.
            return None

    def __reduce__(self):
        return type(None), ()


def tell_names(pipeline):
    """Tell the last step of a fitted pipeline what its columns are called."""
    try:
        last, names = last_step(pipeline)
    except (
        Exception
    ):  # What steps from elsewhere say of their columns is not worth a fit that is paid for.
        return
    if hasattr(last, "_told_names"):
        last._told_names = names


def last_step(pipeline, names=None):
    """Return the last step of a fitted pipeline, and the names of its columns; None if they are not known."""
    for _, step in pipeline.steps[:-1]:
        names = names_behind(step, names)
    last = pipeline.steps[-1][1]
    if isinstance(last, Pipeline):
        return last_step(last, names)
    fits = names is not None and len(names) == getattr(last, "n_features_in_", None)
    return last, np.asarray(names, dtype=str) if fits else None


def names_behind(step, names=None):
    """Return the names of the columns behind a fitted step, or None if it does not tell.

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
    own = getattr(step, "feature_names_in_", None)
    if own is not None:
        names = own
    try:
        known = None if names is None else np.asarray(names, dtype=object)
        return np.asarray(step.get_feature_names_out(known), dtype=str)
    except Exception:  # As in `tell_names`.
        pass
    if isinstance(step, Pipeline):
        for _, one in step.steps:
            names = names_behind(one, names)
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
    """Return the names behind a fitted ColumnTransformer some of whose branches do not tell them."""
    found = []
    for name, one, places in fitted_branches(step):
        part = step.output_indices_[name]
        inner = names_behind(one, None if names is None else np.asarray(names)[places])
        width = part.stop - part.start
        if inner is None or len(inner) != width:
            inner = [f"x{j}" for j in range(width)]
        prefix = f"{name}__" if step.verbose_feature_names_out is True else ""
        found += [f"{prefix}{one}" for one in inner]
    return np.asarray(found, dtype=str)


def fitted_branches(step):
    """Yield (name, fitted step, indices of its columns) of a ColumnTransformer, as in the output."""
    branches = {name: one for name, one, _ in step.transformers_ if one != "drop"}
    for name, part in sorted(step.output_indices_.items(), key=lambda item: item[1].start):
        if name in branches and part.stop > part.start:
            yield name, branches[name], list(step._transformer_to_input_indices[name])
