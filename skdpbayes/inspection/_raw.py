"""Coefficients in the units of the columns before scaling.

    z = A x + c,      theta^T z + b = (A^T theta)^T x + (b + theta^T c)

``x`` are the columns of the table, or what an encoder makes of them. The steps of a pipeline are followed
from there: scalers with public or released bounds change ``A`` and ``c``, branches take rows of them, and a
step that combines or bends columns begins anew, which it may only before any scaling. The levels of which
an encoder makes indicators are remembered with them.
"""

import copy
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    StandardScaler,
)

from ..pipeline._names import fitted_branches, names_behind
from ..preprocessing import BoundedScaler, DPImputer, DPQuantileScaler, RowNormClipper
from ._levels import Indicators, indicators_of

# Steps whose columns are the raw ones where these keep their names. Others may bend them.
_KEEPS = (PolynomialFeatures, SimpleImputer)


class Affine(NamedTuple):
    """``A`` of shape (n_columns, n_raw), ``c`` of shape (n_columns,), and what the raw columns are called.

    ``indicators`` has, by the column of a table, those of its levels among the raw columns; None if they
    are combined with others.
    """

    matrix: np.ndarray
    shift: np.ndarray
    names: tuple[str, ...]
    indicators: Mapping[str, Indicators | None] = MappingProxyType({})

    def rows(self, places):
        """Return some of the columns."""
        return self._replace(matrix=self.matrix[places], shift=self.shift[places])

    def scaled(self, scale, shift=0.0):
        """Return columns times ``scale`` plus ``shift``."""
        matrix = self.matrix * np.reshape(scale, (-1, 1))
        return self._replace(matrix=matrix, shift=self.shift * scale + shift)

    @property
    def column_names(self):
        """Names of the columns if they are raw ones, else None."""
        is_raw = not self.shift.any() and np.all(np.sort(self.matrix, axis=1)[:, :-1] == 0)
        if not (is_raw and np.all(self.matrix.max(axis=1, initial=0.0) == 1.0)):
            return None
        return [self.names[j] for j in self.matrix.argmax(axis=1)]


def raw_columns(names, indicators: Mapping[str, Any] = MappingProxyType({})):
    """Return the `Affine` of columns that are as in the table."""
    return Affine(np.eye(len(names)), np.zeros(len(names)), tuple(map(str, names)), indicators)


def raw_draws(estimator, model, draws, names):
    """Return draws of coefficients of raw columns, the constant last, and the names of the columns.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
    model : estimator
        The last step.
    draws : ndarray of shape (n_draws, n_blocks, n_features + fit_intercept)
    names : list of str
        Names of the columns of the last step.

    Raises
    ------
    ValueError
        If a step combines or bends columns that were scaled before it.
    """
    found, d = affine_of(estimator, model, names), model.n_features_in_
    constant = draws[:, :, d:].sum(axis=2) + draws[:, :, :d] @ found.shift
    used = np.flatnonzero(found.matrix.any(axis=0))
    raw = draws[:, :, :d] @ found.matrix[:, used]
    if draws.shape[2] > d or found.shift.any():
        raw = np.concatenate([raw, constant[:, :, None]], axis=2)
    return raw, [found.names[j] for j in used]


def affine_of(estimator, model, names):
    """Return the `Affine` of the columns of the last step, as for `raw_draws`."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    if not isinstance(estimator, Pipeline):
        if estimator._told_names is not None:
            raise ValueError(
                "this is the last step of a pipeline, and it does not know what the steps before it did to "
                "the columns of the table: pass the fitted pipeline itself."
            )
        return raw_columns(names)
    found = _of_steps(estimator, raw_columns(_names_before(estimator)))
    if len(found.matrix) != model.n_features_in_:
        raise ValueError(
            f"the steps before the last give {len(found.matrix)} columns, not {model.n_features_in_}."
        )
    return found


def _names_before(step):
    """Return the names of a fitted step's own columns."""
    while isinstance(step, Pipeline) and not hasattr(step, "feature_names_in_"):
        step = step.steps[0][1]
    names = getattr(step, "feature_names_in_", None)
    return [f"x{j}" for j in range(step.n_features_in_)] if names is None else list(names)


def _of_steps(pipeline, before):
    """Follow all steps but the last model's."""
    for name, step in pipeline.steps:
        if hasattr(step, "_posterior_variables"):
            break
        before = follow(step, before, name)
    return before


def follow(step, before, name):
    """Return the `Affine` behind a fitted step."""
    if step is None or isinstance(step, str):
        return before
    if isinstance(step, FrozenEstimator):
        return follow(step.estimator, before, name)
    if isinstance(step, Pipeline):
        return _of_steps(step, before)
    if isinstance(step, ColumnTransformer):
        weights = step.transformer_weights or {}
        parts = [
            (inner, follow(one, before.rows(places), inner).scaled(weights.get(inner, 1.0)))
            for inner, one, places in fitted_branches(step)
        ]
        return _side_by_side(parts, before.names)
    if isinstance(step, FeatureUnion):
        weights = step.transformer_weights or {}
        parts = [
            (inner, follow(one, before, inner).scaled(weights.get(inner, 1.0)))
            for inner, one in step.transformer_list
            if not (isinstance(one, str) and one == "drop")
        ]
        return _side_by_side(parts, before.names)
    if hasattr(step, "_affine"):
        return _of_terms(step, before, name)
    if (change := _scaling(step)) is not None:
        return before.scaled(*change)
    if isinstance(step, DPImputer):
        return _with_indicators(step, before, name)
    if isinstance(step, SelectorMixin):
        return before.rows(step.get_support(indices=True))
    names = before.column_names
    after = None if names is None else _new_names(step, names, name)
    if after is None:
        raise ValueError(
            f"there are no coefficients in raw units behind {name}, a {type(step).__name__}: it "
            + (
                "does not name its columns."
                if names is not None
                else "combines or bends columns that were scaled before it. Put it before the scaler."
            )
        )
    if isinstance(step, _KEEPS) and list(after) == names:
        return raw_columns(after, before.indicators)
    found = indicators_of(step, before.indicators, names)
    return raw_columns(after, found)


def _new_names(step, names, label):
    """Return the names behind a step that makes columns of its own, or None if it does not tell.

    A step may keep the name of a column that it bends, which is then no longer the raw one.
    """
    told = copy.copy(step)
    vars(told).pop("feature_names_in_", None)
    after = names_behind(told, names)
    after = names_behind(step, names) if after is None else after
    if after is None or isinstance(step, _KEEPS):
        return after
    old = {*names, *getattr(step, "feature_names_in_", ())}
    return [f"{label}({name})" if name in old else name for name in after]


def _scaling(step):
    """Return (scale, shift) of a step that scales columns one by one, or None. Clipping is left out."""
    kind = type(step)
    if kind is BoundedScaler or kind is MinMaxScaler:
        return step.scale_, step.min_
    if kind is DPQuantileScaler:
        half = 0.5 * (step.upper_ - step.lower_)
        return 1.0 / half, -0.5 * (step.upper_ + step.lower_) / half
    if kind is StandardScaler:
        scale = 1.0 / (1.0 if step.scale_ is None else step.scale_)
        return scale, 0.0 if step.mean_ is None else -step.mean_ * scale
    if kind is MaxAbsScaler:
        return 1.0 / step.scale_, 0.0
    if kind is RowNormClipper or (kind is FunctionTransformer and step.func is None):
        return 1.0, 0.0
    return None


def _with_indicators(step, before, label):
    """Return the columns as they are, and the indicators of missing values as columns of their own."""
    if not step.add_indicator:
        return before
    sources = [before.names[j] for j in np.abs(before.matrix).argmax(axis=1)]
    found = raw_columns([f"missingindicator_{name}" for name in sources])
    return _side_by_side([(label, before), (label, found)], before.names)


def _side_by_side(parts, common):
    """Return the columns of all parts, pairs of a name and an `Affine`.

    Of the raw columns before the parts, ``common``, those of one name are one. Others may differ between
    the parts, whatever their names, and have the name of the part before theirs if need be.
    """
    count = Counter(name for _, part in parts for name in part.names if name not in common)
    named = [
        [f"{label}__{name}" if count[name] > 1 else name for name in part.names]
        for label, part in parts
    ]
    names = tuple(dict.fromkeys(name for some in named for name in some))
    matrices = []
    for (_, part), some in zip(parts, named, strict=True):
        wide = np.zeros((len(part.matrix), len(names)))
        wide[:, [names.index(name) for name in some]] = part.matrix
        matrices.append(wide)
    shift = np.concatenate([part.shift for _, part in parts])
    return Affine(np.vstack(matrices), shift, names, _all_indicators(parts, named))


def _all_indicators(parts, named):
    """Return the indicators of all parts under their new names; None of a column that has several."""
    found: dict[str, Indicators | None] = {}
    for (_, part), some in zip(parts, named, strict=True):
        renamed = dict(zip(part.names, some, strict=True))
        for column, one in part.indicators.items():
            one = None if one is None else one.renamed(renamed)
            found[column] = one if found.get(column, one) == one else None
    return found


def _of_terms(step, before, name):
    """Return what a step that knows its own raw columns says of them."""
    if before.column_names is None:
        raise ValueError(
            f"there are no coefficients in raw units behind {name}: columns were scaled before it."
        )
    matrix, shift, names = step._affine()
    return Affine(matrix, shift, names, indicators_of(step, before.indicators, ()))
