"""The spending steps of a pipeline and their numbers of columns, from public information only."""

from collections.abc import Mapping

import numpy as np
from sklearn.base import MetaEstimatorMixin, OneToOneFeatureMixin
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.utils._indexing import _get_column_indices

from ..metrics import PrivateScorer
from ..preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    FormulaEncoder,
    RowNormClipper,
)
from ._leaks import children, is_free, is_known_ufunc, is_private

# Longer lists are categories or weights.
_LONGEST = 1000
_COMPOSED = (Pipeline, ColumnTransformer, FeatureUnion)


def spending_steps(step, n_columns, header=None, path=""):
    """Return [(path, step, number of input columns)] of the private steps, and the number of output columns.

    A number of columns is None if it is not known before the fit.
    """
    if step is None or isinstance(step, str):
        return [], 0 if step == "drop" else n_columns
    if isinstance(step, Pipeline):
        if path and is_private(step):
            raise ValueError(
                f"{path.removesuffix('__')} is a private pipeline with a budget of its own, which the outer "
                "pipeline cannot split: put its steps into scikit-learn's Pipeline."
            )
        found: list[tuple] = []
        for name, one in step.steps:
            inner, n_columns = spending_steps(one, n_columns, header, f"{path}{name}__")
            found, header = found + inner, None
        return found, n_columns
    if isinstance(step, ColumnTransformer | FeatureUnion):
        parts = [
            spending_steps(one, n, part, f"{path}{name}__")
            for name, one, n, part in branches(step, n_columns, header)
        ]
        widths = [width for _, width in parts]
        return [f for inner, _ in parts for f in inner], None if None in widths else sum(widths)
    found = [(path.removesuffix("__"), step, n_columns)] if is_private(step) else []
    if isinstance(step, FormulaEncoder):
        return found, step.n_columns
    if isinstance(step, DPImputer) and step.add_indicator:
        return found, None if n_columns is None else 2 * n_columns
    if n_columns is not None and (encoded := _n_indicators(step, n_columns)):
        return found, encoded
    return found, n_columns if _keeps_columns(step) else None


def _keeps_columns(step):
    """Tell whether a step has as many columns before as behind it."""
    if type(step) is FunctionTransformer:
        return step.func is None or is_known_ufunc(step.func)
    if type(step) is SimpleImputer:
        return step.keep_empty_features and not step.add_indicator
    return isinstance(step, OneToOneFeatureMixin | BoundedScaler | RowNormClipper | DPImputer)


def _n_indicators(step, n_columns):
    """Return the number of output columns of an encoder with public lists, or None."""
    if type(step) is DPOneHotEncoder:
        lists = step._public_lists(None, n_columns)
        return None if None in lists else sum(len(one) + 1 for one in lists)
    if type(step) is not OneHotEncoder or isinstance(step.categories, str):
        return None
    others = (step.drop, step.min_frequency, step.max_categories)
    return sum(map(len, step.categories)) if others == (None, None, None) else None


def branches(step, n_columns, header):
    """Return (name, step, number of input columns, header or None) of each parallel branch."""
    if isinstance(step, FeatureUnion):
        return [(name, one, n_columns, header) for name, one in step.transformer_list]
    branches, used = [], set()
    for name, one, columns in step.transformers:
        places = _places(columns, n_columns, header)
        used.update(places)
        branches.append((name, one, len(places), None))
    rest = None if n_columns is None else n_columns - len(used)
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


def refuse_hidden(step):
    """Raise a ValueError if something that spends is held where no plan looks for it.

    A plan knows how often the steps of scikit-learn's own pipelines are fitted. It does not know how often a
    meta-estimator fits what it holds, or on which rows.
    """
    if type(step) is FrozenEstimator:
        return  # It never fits what it holds.
    if is_private(step) and isinstance(step, MetaEstimatorMixin):
        raise ValueError(
            f"{type(step).__name__} splits and charges the rows by itself, and cannot be a part of another "
            "plan: search over scikit-learn's Pipeline, in which only the last step spends."
        )
    if type(step) in _COMPOSED or is_private(step):
        for _, one in (children(step) or ()) if type(step) in _COMPOSED else ():
            refuse_hidden(one)
        return
    for held in _held(step):
        if isinstance(held, PrivateScorer) or (is_private(held) and not is_free(held)):
            raise ValueError(
                f"{type(step).__name__} holds a {type(held).__name__}, whose releases the plan does not "
                "contain, because it cannot know how often, and on which rows, they would be made. "
                "Put private steps directly into the pipeline, or into scikit-learn's own Pipeline, "
                "ColumnTransformer or FeatureUnion, or fit outside of it within a PrivacyLedger."
            )


def _held(step):
    """Return everything that a step has as a parameter, or in lists and mappings of them."""
    found = list(step.get_params().values()) if hasattr(step, "get_params") else []
    seen = set()
    for value in found:  # It grows meanwhile; what is held by other objects is not looked into.
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Mapping):
            found.extend(value.values())
        elif isinstance(value, list | tuple | set) and len(value) <= _LONGEST:
            found.extend(value)
    return found
