"""Levels of a category, each compared with a reference level.

    effect of level l = theta_l - theta_r,      constant = b + theta_r

``theta_l`` is the coefficient of the indicator of ``l`` before any scaling, and 0 of a level without one, as
of that which an encoder drops. Differences are the same for all that an encoder may do with a reference.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import OneHotEncoder

from ..preprocessing import DPOneHotEncoder, FormulaEncoder
from ..preprocessing._formula_parts import Levels
from ..preprocessing._formula_rows import canonical


class Indicators(NamedTuple):
    """The levels of a column, and names of their indicators; None of a level that has none."""

    levels: tuple[Any, ...]
    names: tuple[str | None, ...]

    def renamed(self, names):
        """Return the same under new names, a dict."""
        return self._replace(names=tuple(names.get(name) for name in self.names))

    def place(self, column, level):
        """Return the place of a level, or raise a ValueError."""
        known = [canonical(one) for one in self.levels]
        try:
            return known.index(canonical(level))
        except (ValueError, TypeError, OverflowError):
            levels = ["missing" if one is None else one for one in self.levels]
            raise ValueError(
                f"reference_levels: {level!r} is no level of {column!r}, whose levels are {levels}."
            ) from None


def indicators_of(step, before, names):
    """Return the indicators by column behind a step that makes columns of its own.

    Parameters
    ----------
    step : estimator
        Fitted.
    before : mapping
        Those before the step, which it combines or bends.
    names : sequence of str
        Names of the columns before it.
    """
    found: dict[str, Indicators | None] = dict.fromkeys(before)
    if isinstance(step, FormulaEncoder):
        return found | _of_formula(step)
    if isinstance(step, DPOneHotEncoder):
        levels = [(step._levels(j), None) for j in range(len(names))]
    elif isinstance(step, OneHotEncoder):
        levels = [_of_column(step, j) for j in range(len(names))]
    else:
        return found
    called = iter(step.get_feature_names_out(np.asarray(names, dtype=object)))
    for column, (some, dropped) in zip(names, levels, strict=True):
        kept = [None if j == dropped else str(next(called)) for j in range(len(some))]
        found[column] = Indicators(tuple(some), tuple(kept))
    return found


def _of_column(step, j):
    """Return (levels, place of the dropped one or None) of a column of scikit-learn's encoder."""
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
    found: dict[str, Indicators | None] = {}
    terms = step._terms()
    for factor in (factor for term in terms for factor in term if isinstance(factor, Levels)):
        names = dict(zip(factor.kept, factor.names, strict=True))
        found[factor.column] = Indicators(factor.levels, tuple(map(names.get, factor.levels)))
    for term in terms:
        if len(term) > 1:
            found |= {factor.column: None for factor in term if isinstance(factor, Levels)}
    return found


def with_references(draws, names, found, raw, reference_levels):
    """Return draws and names of effects in which levels are compared with references.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n_blocks, n_features + fit_intercept)
    names : list of str of length n_features
    found : Affine
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
    effects, constant = draws[:, :, :d] @ found.matrix, draws[:, :, d:].sum(axis=2)
    reaches = found.matrix != 0
    taken = np.zeros(len(found.names), dtype=bool)
    groups: dict[int, list] = {}
    references = []
    for column, level in _checked(reference_levels).items():
        one = _known(found, column)
        places = [None if name is None else found.names.index(name) for name in one.names]
        shown = places if raw else [_last(reaches, place) for place in places]
        called = _called(one, column, found.names if raw else names, shown)
        each = [np.zeros_like(constant) if p is None else effects[:, :, p] for p in places]
        place = one.place(column, level)
        reference = each[place]
        order = [place, *(j for j in range(len(each)) if j != place)]
        references.append(f"{called[place]} (reference)")
        called[place] = references[-1]
        first = min((p for p in shown if p is not None), default=0)
        groups.setdefault(first, []).extend((called[j], each[j] - reference) for j in order)
        taken[[p for p in places if p is not None]] = True
        constant = constant + reference
    if raw:
        rest, others, values = ~taken & reaches.any(axis=0), found.names, effects
        constant = constant + draws[:, :, :d] @ found.shift
    else:
        bound = reaches[:, taken].any(axis=1)
        rest, others, values = ~bound, names, draws[:, :, :d]
        constant = constant + draws[:, :, :d][:, :, bound] @ found.shift[bound]
    pairs = []
    for j in range(len(others)):
        pairs += groups.get(j, [])
        if rest[j]:
            pairs.append((str(others[j]), values[:, :, j]))
    out = np.stack([*(value for _, value in pairs), constant], axis=2)
    return out, [name for name, _ in pairs], references


def without_doubt(table, references):
    """Return a table whose rows of reference levels have a number by definition, and nothing beside it."""
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


def _known(found, column):
    if column not in found.indicators:
        raise ValueError(
            f"reference_levels names {column!r}, and the columns with levels are "
            f"{list(found.indicators)}: those of OneHotEncoder, DPOneHotEncoder, or C(...) in a formula, if "
            "the fitted pipeline is passed, and not its last step."
        )
    one = found.indicators[column]
    if one is None:
        raise ValueError(
            f"reference_levels names {column!r}, whose levels have no effects of their own: its indicators "
            "are part of products, combined by a later step, or encoded more than once. Take contrasts, at "
            "the values that you want to compare."
        )
    return one


def _last(reaches, place):
    """Return the first column of the last step that has an indicator, or None."""
    if place is None or not reaches[:, place].any():
        return None
    return int(np.argmax(reaches[:, place]))


def _called(one, column, names, shown):
    """Return a name for each level; those without an indicator are called like the others."""
    called = [None if place is None else str(names[place]) for place in shown]
    pairs = ((name, own) for name, own in zip(called, one.names, strict=True) if name and own)
    prefix = next((name.removesuffix(own) for name, own in pairs if name.endswith(own)), "")
    is_formula = any((own or "").startswith(f"{column}[") for own in one.names)
    start, end = ("[", "]") if is_formula else ("_", "")
    return [
        f"{prefix}{column}{start}{level}{end}" if name is None else name
        for name, level in zip(called, one.levels, strict=True)
    ]
