"""Coefficients, and components of mixtures, in the units of the columns before scaling.

    z = A x + c,      theta^T z + b = (A^T theta)^T x + (b + theta^T c)
    z_i = a x_j + c,  x_j has mean (m - c) / a and deviation s / |a|, if z_i has m and s

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
from sklearn.feature_selection import SelectorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

from .._estimator.base import PrivatePosterior
from ..pipeline._steps import names_behind
from ..preprocessing import (
    BoundedScaler,
    DPImputer,
    DPOneHotEncoder,
    DPQuantileScaler,
    FormulaEncoder,
    RowNormClipper,
)
from ..preprocessing._factors import Levels, category_text
from ..privacy.unsafe_callers import fitted_tree

# Levels of a category, each compared with a reference level.
#
#     effect of level l = theta_l - theta_r,      constant = b + theta_r
#
# ``theta_l`` is the coefficient of the indicator of ``l`` before any scaling, and 0 of a level
# without one, as of that which an encoder drops. Differences are the same for all that an encoder may
# do with a reference.


class Indicators(NamedTuple):
    """The levels of a column, and names of their indicators; None of a level that has none."""

    levels: tuple[Any, ...]
    names: tuple[str | None, ...]

    @property
    def without_indicator(self):
        """The level that has none, which others are compared with, in a tuple; an empty one if all have."""
        return tuple(
            level for level, name in zip(self.levels, self.names, strict=True) if name is None
        )

    def renamed(self, names):
        """The same under new names, a dict."""
        return self._replace(names=tuple(names.get(name) for name in self.names))

    def place(self, column, level):
        """The place of a level; raises a ValueError."""
        known = [category_text(one) for one in self.levels]
        try:
            return known.index(category_text(level))
        except (ValueError, TypeError, OverflowError):
            levels = ["missing" if one is None else one for one in self.levels]
            raise ValueError(
                f"reference_levels: {level!r} is no level of {column!r}, whose levels are {levels}."
            ) from None


def indicators_of(step, before, names):
    """The indicators by column behind a step that makes columns of its own.

    Parameters
    ----------
    step : estimator
        Fitted.
    before : mapping
        Those before the step, which it combines or bends.
    names : sequence of str
        Names of the columns before it.
    """
    indicators: dict[str, Indicators | None] = dict.fromkeys(before)
    if isinstance(step, FormulaEncoder):
        return indicators | _of_formula(step)
    if isinstance(step, DPOneHotEncoder):
        levels = [(step._levels(j), None) for j in range(len(names))]
    elif isinstance(step, OneHotEncoder):
        levels = [_of_column(step, j) for j in range(len(names))]
    else:
        return indicators
    called = iter(step.get_feature_names_out(np.asarray(names, dtype=object)))
    for column, (some, dropped) in zip(names, levels, strict=True):
        kept = [None if j == dropped else str(next(called)) for j in range(len(some))]
        indicators[column] = Indicators(tuple(some), tuple(kept))
    return indicators


def _of_column(step, j):
    """(levels, place of the dropped one or None) of a column of scikit-learn's encoder."""
    levels = step.categories_[j].tolist()
    dropped = None if step.drop_idx_ is None else step.drop_idx_[j]
    infrequent = getattr(step, "infrequent_categories_", [None] * (j + 1))[j]
    if infrequent is None:
        return levels, dropped
    lost = None if dropped is None else levels[dropped]
    kept = [level for level in levels if level not in infrequent]
    place = None if lost is None else kept.index(lost) if lost in kept else len(kept)
    return [*kept, "infrequent_sklearn"], place


def _of_formula(step):
    indicators: dict[str, Indicators | None] = {}
    terms = step._terms()
    for factor in (factor for term in terms for factor in term if isinstance(factor, Levels)):
        names = dict(zip(factor.kept, factor.names, strict=True))
        indicators[factor.column] = Indicators(factor.levels, tuple(map(names.get, factor.levels)))
    for term in terms:
        if len(term) > 1:
            indicators |= {factor.column: None for factor in term if isinstance(factor, Levels)}
    return indicators


def with_references(draws, names, affine, raw, reference_levels):
    """Draws and names of effects in which levels are compared with references.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n_blocks, n_features + fit_intercept)
    names : list of str of length n_features
    affine : Affine
        Of the columns of the last step.
    raw : bool
        Whether other columns than indicators are in their own units.
    reference_levels : mapping of str to level

    Returns
    -------
    draws : ndarray of shape (n_draws, n_blocks, n_names + 1)
        The constant, which is of rows with all reference levels, last.
    names : list of str
    references : list of str
        Those of ``names`` that are references.
    """
    d = len(names)
    effects, constant = draws[:, :, :d] @ affine.matrix, draws[:, :, d:].sum(axis=2)
    reaches = affine.matrix != 0
    taken = np.zeros(len(affine.names), dtype=bool)
    groups: dict[int, list] = {}
    references = []
    for column, level in _checked(reference_levels).items():
        levels = _known(affine, column)
        places = [None if name is None else affine.names.index(name) for name in levels.names]
        shown = places if raw else [_last(reaches, place) for place in places]
        called = _called(levels, column, affine.names if raw else names, shown)
        each = [np.zeros_like(constant) if p is None else effects[:, :, p] for p in places]
        place = levels.place(column, level)
        reference = each[place]
        order = [place, *(j for j in range(len(each)) if j != place)]
        references.append(f"{called[place]} (reference)")
        called[place] = references[-1]
        first = min((p for p in shown if p is not None), default=0)
        groups.setdefault(first, []).extend((called[j], each[j] - reference) for j in order)
        taken[[p for p in places if p is not None]] = True
        constant = constant + reference
    if raw:
        rest, others, values = ~taken & reaches.any(axis=0), affine.names, effects
        constant = constant + draws[:, :, :d] @ affine.shift
    else:
        bound = reaches[:, taken].any(axis=1)
        rest, others, values = ~bound, names, draws[:, :, :d]
        constant = constant + draws[:, :, :d][:, :, bound] @ affine.shift[bound]
    pairs = []
    for j in range(len(others)):
        pairs += groups.get(j, [])
        if rest[j]:
            pairs.append((str(others[j]), values[:, :, j]))
    out = np.stack([*(value for _, value in pairs), constant], axis=2)
    return out, [name for name, _ in pairs], references


def without_doubt(table, references):
    """A table whose rows of reference levels have a number by definition, and nothing beside it."""
    rows = table.index.get_level_values("coefficient").isin(references)
    table.loc[rows, table.columns[1:]] = np.nan
    return table


def _checked(reference_levels):
    if not isinstance(reference_levels, Mapping) or not reference_levels:
        given = "an empty one" if reference_levels == {} else type(reference_levels).__name__
        raise TypeError(
            "reference_levels must be a dict of columns and levels, such as {'region': 'north'}, got "
            f"{given}."
        )
    return reference_levels


def _known(affine, column):
    if column not in affine.indicators:
        raise ValueError(
            f"reference_levels names {column!r}, and the columns with levels are "
            f"{list(affine.indicators)}: those of OneHotEncoder, DPOneHotEncoder, or C(...) in a formula, if "
            "the fitted pipeline is passed, and not its last step."
        )
    levels = affine.indicators[column]
    if levels is None:
        raise ValueError(
            f"reference_levels names {column!r}, whose levels have no effects of their own: its indicators "
            "are part of products, combined by a later step, or encoded more than once. Take contrasts, at "
            "the values that you want to compare."
        )
    return levels


def _last(reaches, place):
    """The first column of the last step that has an indicator, or None."""
    if place is None or not reaches[:, place].any():
        return None
    return int(np.argmax(reaches[:, place]))


def _called(levels, column, names, shown):
    """A name for each level; those without an indicator are called like the others."""
    called = [None if place is None else str(names[place]) for place in shown]
    pairs = (
        (name, shown_name)
        for name, shown_name in zip(called, levels.names, strict=True)
        if name and shown_name
    )
    prefix = next(
        (name.removesuffix(shown_name) for name, shown_name in pairs if name.endswith(shown_name)),
        "",
    )
    is_formula = any((shown_name or "").startswith(f"{column}[") for shown_name in levels.names)
    start, end = ("[", "]") if is_formula else ("_", "")
    return [
        f"{prefix}{column}{start}{level}{end}" if name is None else name
        for name, level in zip(called, levels.levels, strict=True)
    ]


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
        """Some of the columns."""
        return self._replace(matrix=self.matrix[places], shift=self.shift[places])

    def scaled(self, scale, shift=0.0):
        """Columns times ``scale`` plus ``shift``."""
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
    """The `Affine` of columns that are as in the table."""
    return Affine(np.eye(len(names)), np.zeros(len(names)), tuple(map(str, names)), indicators)


def raw_draws(estimator, model, draws, names):
    """Draws of coefficients of raw columns, the constant last, and the names of the columns.

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
    affine, d = affine_of(estimator, model, names), model.n_features_in_
    constant = draws[:, :, d:].sum(axis=2) + draws[:, :, :d] @ affine.shift
    used = np.flatnonzero(affine.matrix.any(axis=0))
    raw = draws[:, :, :d] @ affine.matrix[:, used]
    if draws.shape[2] > d or affine.shift.any():
        raw = np.concatenate([raw, constant[:, :, None]], axis=2)
    return raw, [affine.names[j] for j in used]


def raw_moments(estimator, model, draws):
    """Draws of means and of deviations, of shape (n_draws, n_components, n), and the names of raw columns.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
    model : DPGaussianMixturePosterior
        The last step.
    draws : MixtureDraws

    Raises
    ------
    ValueError
        If a column of the last step is not one of the raw columns, up to a factor and a constant.
    """
    names = [str(name) for name in model._column_names()]
    affine = affine_of(estimator, model, names)
    places = np.abs(affine.matrix).argmax(axis=1)
    for name, row in zip(names, affine.matrix, strict=True):
        if np.count_nonzero(row) != 1:
            raise ValueError(
                f"there are no components in raw units: {name!r} is made of {np.count_nonzero(row)} columns."
            )
    scale = affine.matrix[np.arange(len(names)), places]
    variances = draws.covariances
    if model.covariance_type in ("tied", "full"):
        variances = np.diagonal(variances, axis1=-2, axis2=-1)
    if model.covariance_type == "tied":
        variances = variances[:, None]
    if model.covariance_type == "spherical":
        variances = variances[:, :, None]
    deviations = np.broadcast_to(np.sqrt(variances), draws.means.shape) / np.abs(scale)
    return (draws.means - affine.shift) / scale, deviations, [affine.names[j] for j in places]


def affine_of(estimator, model, names):
    """The `Affine` of the columns of the last step, as for `raw_draws`."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    tree = fitted_tree(estimator)
    if tree.kind != "pipeline":
        if estimator._feature_names_from_pipeline is not None:
            raise ValueError(
                "this is the last step of a pipeline, and it does not know what the steps before it did to "
                "the columns of the table: pass the fitted pipeline itself."
            )
        return raw_columns(names)
    affine = follow(tree, raw_columns(_names_before(tree)))
    if len(affine.matrix) != model.n_features_in_:
        raise ValueError(
            f"the steps before the last give {len(affine.matrix)} columns, not {model.n_features_in_}."
        )
    return affine


def _names_before(node):
    """The names of a fitted step's own columns."""
    while node.kind == "pipeline" and not hasattr(node.estimator, "feature_names_in_"):
        # A word before it leaves the columns as they are.
        node = next(child for child in node.children if child.kind != "word")
    names = getattr(node.estimator, "feature_names_in_", None)
    return [f"x{j}" for j in range(node.estimator.n_features_in_)] if names is None else list(names)


def follow(node, before):
    """The `Affine` behind a fitted step; of a model, before it."""
    step, name = node.estimator, node.name
    if node.kind == "word" or isinstance(step, PrivatePosterior):
        return before
    if isinstance(step, FrozenEstimator):
        return follow(fitted_tree(step.estimator, name=name), before)
    if node.kind == "pipeline":
        for child in node.children:
            before = follow(child, before)
        return before
    if node.kind != "leaf":
        weights = step.transformer_weights or {}
        parts = [
            (child.name, follow(child, before.rows(places)).scaled(weights.get(child.name, 1.0)))
            for child, places in _branches(node)
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
    after = None if names is None else _new_names(node, names)
    if after is None:
        raise ValueError(
            f"there are no raw units behind {name}, a {type(step).__name__}: it "
            + (
                "does not name its columns."
                if names is not None
                else "combines or bends columns that were scaled before it. Put it before the scaler."
            )
        )
    if isinstance(step, _KEEPS) and list(after) == names:
        return raw_columns(after, before.indicators)
    indicators = indicators_of(step, before.indicators, names)
    return raw_columns(after, indicators)


def _branches(node):
    """[(branch, its places among the columns)] of parallel branches."""
    if node.kind == "columns":
        return [(child, child.columns) for child in node.shown_children]
    return [(child, slice(None)) for child in node.children if child.estimator != "drop"]


def _new_names(node, names):
    """The names behind a step that makes columns of its own, or None if it does not tell.

    A step may keep the name of a column that it bends, which is then no longer the raw one.
    """
    step, unnamed = node.estimator, copy.copy(node.estimator)
    vars(unnamed).pop("feature_names_in_", None)
    after = names_behind(node._replace(estimator=unnamed), names)
    after = names_behind(node, names) if after is None else after
    if after is None or isinstance(step, _KEEPS):
        return after
    old = {*names, *getattr(step, "feature_names_in_", ())}
    return [f"{node.name}({name})" if name in old else name for name in after]


def _scaling(step):
    """(scale, shift) of a step that scales columns one by one, or None. Clipping is left out."""
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
    """The columns as they are, and the indicators of missing values as columns of their own."""
    if not step.add_indicator:
        return before
    sources = [before.names[j] for j in np.abs(before.matrix).argmax(axis=1)]
    raw = raw_columns([f"missingindicator_{name}" for name in sources])
    return _side_by_side([(label, before), (label, raw)], before.names)


def _side_by_side(parts, common):
    """The columns of all parts, pairs of a name and an `Affine`.

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
    """The indicators of all parts under their new names; None of a column that has several."""
    indicators: dict[str, Indicators | None] = {}
    for (_, part), some in zip(parts, named, strict=True):
        renamed = dict(zip(part.names, some, strict=True))
        for column, levels in part.indicators.items():
            levels = None if levels is None else levels.renamed(renamed)
            indicators[column] = levels if indicators.get(column, levels) == levels else None
    return indicators


def _of_terms(step, before, name):
    """The effects of raw columns by a step that knows them itself."""
    if before.column_names is None:
        raise ValueError(f"there are no raw units behind {name}: columns were scaled before it.")
    matrix, shift, names = step._affine()
    return Affine(matrix, shift, names, indicators_of(step, before.indicators, ()))
