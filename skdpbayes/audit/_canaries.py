"""Canaries: records that are easy to find again, and how to look for them in what was released.

A canary has two forms, of which a coin decides: a record, and another one that is as far from it as records
can be, or none at all. By default a row has a length of ``data_norm`` along a single column, where few others
disturb it, and the two forms have opposite labels, the lowest and the highest response, or opposite rows.
Without a public norm rows are corners of the box around the table.
"""

import math
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier, is_regressor

from ..preprocessing.one_hot import canonical


class Canaries(NamedTuple):
    """Records of either form, one in each row.

    Attributes
    ----------
    X_in, X_out : array-like of shape (n_canaries, n_features) or (n_canaries,)
        Rows, the former of those that are in the table; the latter may be None under
        "add_or_remove_one", where canaries are in the table or not.
    y_in, y_out : array-like of shape (n_canaries,) or None
        Their labels or responses.
    """

    X_in: Any
    X_out: Any
    y_in: Any = None
    y_out: Any = None


def default_canaries(estimator, X, y, n_canaries, generator):
    """Return `Canaries` for an estimator or a score.

    Parameters
    ----------
    estimator : estimator or callable
    X : array-like of shape (n_samples, n_features), or (n_samples,) for a score
    y : array-like of shape (n_samples,) or None
    n_canaries : int
    generator : Generator
        Of what is public.
    """
    if not hasattr(estimator, "fit"):
        values = np.unique(np.asarray(X))
        low, high = np.full(n_canaries, values[0]), np.full(n_canaries, values[-1])
        # In: the prediction is right.
        return Canaries(high, high, high, low)
    if hasattr(estimator, "categories"):
        return _new_categories(X, n_canaries)
    rows = _rows(estimator, X, n_canaries, generator)
    if y is None or not (is_classifier(estimator) or is_regressor(estimator)):
        labels = [None, None] if y is None else [np.asarray(y)[:1].repeat(n_canaries)] * 2
        if not _has_norm(estimator):
            rows, opposite = _corner(X, n_canaries, 1), _corner(X, n_canaries, 0)
        else:
            opposite = -rows
        return Canaries(rows, opposite, *labels)
    low, high = _extremes(estimator, y)
    return Canaries(rows, rows, np.full(n_canaries, high), np.full(n_canaries, low))


def number_of_directions(estimator, X):
    """Return how many default canaries can be told apart: one for each column, or number, that is released.

    Of categories each canary brings its own.
    """
    if not hasattr(estimator, "fit"):
        return 1
    if hasattr(estimator, "categories"):
        return math.inf
    return _numbers(X).shape[1]


def _numbers(X):
    try:
        return np.asarray(X, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            "default canaries are for tables of numbers: for this one, give canaries=Canaries(X_in, X_out, "
            "y_in, y_out)."
        ) from None


def _has_norm(estimator):
    own = estimator.get_params(deep=False).get("data_norm")
    return isinstance(own, Real) and math.isfinite(own)


def _rows(estimator, X, n_canaries, generator):
    n_features = _numbers(X).shape[1]
    signs = generator.choice([-1.0, 1.0], (n_canaries, n_features))  # Public: canaries.
    if not _has_norm(estimator):
        return np.where(signs > 0, _corner(X, 1, 1), _corner(X, 1, 0))
    rows, which = np.zeros((n_canaries, n_features)), np.arange(n_canaries)
    rows[which, which % n_features] = signs[:, 0] * float(estimator.data_norm)
    return rows


def _corner(X, n_canaries, side):
    box = np.nanmax(_numbers(X), axis=0) if side else np.nanmin(_numbers(X), axis=0)
    return np.tile(box, (n_canaries, 1))


def _extremes(estimator, y):
    """Return the two labels, or responses, that are farthest apart."""
    own = estimator.get_params(deep=True)
    for name, value in own.items():
        last = name.rpartition("__")[2]
        if last == "max_count" and isinstance(value, Real):
            return 0, value
        if last == "target_bounds" and not isinstance(value, str) and value is not None:
            return value
        if last == "classes" and value is not None and is_classifier(estimator):
            return value[0], value[-1]
    values = np.unique(np.asarray(y))
    return values[0], values[-1]


def _new_categories(X, n_canaries):
    """Return rows of categories that no other row has, and rows as they are."""
    table = np.asarray(X, dtype=object)
    others = table[np.arange(n_canaries) % len(table)]
    fresh = np.empty(others.shape, dtype=object)
    for place in np.ndindex(fresh.shape):
        is_number = isinstance(others[place], Real)
        fresh[place] = 1e9 + place[0] if is_number else f"canary {place[0]}"
    return Canaries(fresh, others)


def default_score(released, canaries):
    """Return for each canary a number that is large if its first form seems to be in.

    Parameters
    ----------
    released : fitted estimator, or what a score returned
    canaries : Canaries
    """
    n = len(canaries.X_in)
    if not hasattr(released, "fit"):
        return np.full(n, np.sum(released, dtype=float))
    # Pipelines hand on their last step's methods.
    if is_classifier(released):
        return _log_odds(released, canaries)
    if hasattr(released, "predict") and is_regressor(released):
        return np.asarray(released.predict(canaries.X_in), dtype=float)
    if hasattr(released, "score_samples"):
        out = 0.0 if canaries.X_out is None else released.score_samples(canaries.X_out)
        return released.score_samples(canaries.X_in) - out
    return _learnt(released, canaries)


def _log_odds(released, canaries):
    proba = released.predict_proba(canaries.X_in)
    places = {label: k for k, label in enumerate(released.classes_)}
    rows = np.arange(len(proba))
    inside = proba[rows, [places[label] for label in canaries.y_in]]
    if canaries.y_out is None:
        return np.log(np.maximum(inside, 1e-300))
    out = proba[rows, [places[label] for label in canaries.y_out]]
    return np.log(np.maximum(inside, 1e-300)) - np.log(np.maximum(out, 1e-300))


def _learnt(released, canaries):
    """Return what a transformer has learnt, along the canaries."""
    n = len(canaries.X_in)
    if hasattr(released, "categories_"):
        kept = [set(one) for one in released.categories_]
        rows = np.asarray(canaries.X_in, dtype=object)
        return np.array(
            [
                sum(canonical(cell) in own for cell, own in zip(row, kept, strict=True))
                for row in rows
            ],
            dtype=float,
        )
    for names in (("lower_", "upper_"), ("statistics_",)):
        if all(hasattr(released, name) for name in names):
            learnt = np.sum([getattr(released, name) for name in names], axis=0)
            return np.full(n, float(np.sum(learnt)))
    raise ValueError(
        f"how to look for a canary in a {type(released).__name__} is not known: give score=, a function of "
        "the fitted estimator and the canaries that returns one number for each."
    )
