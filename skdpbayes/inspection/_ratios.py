"""Odds ratios and rate ratios: what multiplies odds, or an expected count, if a column grows.

    ratio = exp(step * theta),  for each draw

Everything here is post-processing of what was released: it spends no budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import check_level, is_number
from .._estimator.coefficients import coefficient_index
from .._estimator.intervals import median_table
from .._typing import Label, RandomStateLike
from ._draws import blocks_of, linear_model_of
from ._levels import without_doubt

if TYPE_CHECKING:
    import pandas as pd


def odds_ratios(
    estimator: Any,
    level: float = 0.9,
    *,
    per: Mapping[str, float] | None = None,
    reference: Label | None = None,
    reference_levels: Mapping[str, Label] | None = None,
    raw: bool = False,
    n_draws: int | None = None,
    random_state: RandomStateLike = 0,
) -> pd.DataFrame:
    """Table of odds ratios: by which factor the odds change if a column grows by one.

    Of two classes, the odds are those of the second. Of more, they are those of each class against a
    reference class (relative risk ratios), of which the labels know more than of single coefficients.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        Fitted, with a logistic regression at its end.
    level : float, default=0.9
        Posterior probability of the intervals.
    per : mapping of str to float, default=None
        By how much a column grows, such as ``{"age": 10}`` for ten years with ``raw=True``. Others grow
        by one.
    reference : label, default=None
        With more than two classes, the class that others are compared with. None is the first.
    reference_levels : mapping of str to label, default=None
        The level that other levels of a column are compared with, such as ``{"region": "north"}``, for
        columns of which an encoder or ``C(...)`` in a formula makes indicators. The rows of the column
        then begin with that level, whose ratio is 1. Without, a ratio is for an indicator by itself.
    raw : bool, default=False
        Whether columns grow by one in their own units, before scaling; see `raw_coefficients`.
    n_draws, random_state
        As for `coefficient_draws`.

    Returns
    -------
    table : pandas.DataFrame
        One row for each column but the intercept, by class with more than two. The columns are ``median``,
        the ends of the interval, and ``P(> 1)``. There is no mean: that of a ratio is as large as its
        largest draws make it, and where epsilon is small it may lie far outside the interval.

    Raises
    ------
    ValueError
        If ``level`` is out of range, if ``per`` names an unknown column, if ``reference`` is no class, or
        if ``reference_levels`` names a column without levels, or a level that it does not have.
    TypeError
        If the model is no classifier with coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.inspection import odds_ratios
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame(rng.uniform(-1, 1, (20_000, 2)), columns=["dose", "age"])
    >>> y = rng.random(20_000) < 1 / (1 + np.exp(-X["dose"]))
    >>> clf = DPBayesianLogisticRegression(random_state=0).fit(X, y)
    >>> bool(2.4 < odds_ratios(clf).loc["dose", "median"] < 3.0)  # e = 2.72
    True

    Levels against a reference:

    >>> from skdpbayes.pipeline import make_private_pipeline
    >>> from skdpbayes.preprocessing import DPOneHotEncoder
    >>> regions = pd.DataFrame({"region": rng.choice(["north", "south", "west"], 20_000)})
    >>> votes = rng.random(20_000) < np.where(regions["region"] == "south", 0.6, 0.4)
    >>> encoder = DPOneHotEncoder(categories=[["north", "south", "west"]])
    >>> clf = DPBayesianLogisticRegression(data_norm=1.0, random_state=0)
    >>> model = make_private_pipeline(encoder, clf, epsilon=2.0).fit(regions, votes)
    >>> table = odds_ratios(model, reference_levels={"region": "north"})
    >>> list(table.index[:3])
    ['region_north (reference)', 'region_south', 'region_west']
    >>> bool(1.9 < table.loc["region_south", "median"] < 2.6)  # (0.6 / 0.4) / (0.4 / 0.6) = 2.25
    True
    """
    if not hasattr(linear_model_of(estimator), "classes_"):
        raise TypeError(
            "odds are of classes: for counts take rate_ratios, for numbers raw_coefficients or contrasts."
        )
    if isinstance(reference, Mapping):
        raise TypeError(
            "reference is a class. Levels of columns that others are compared with are given as "
            "reference_levels={column: level}."
        )
    model, draws, columns, references = blocks_of(
        estimator, n_draws, random_state, raw, reference_levels
    )
    labels = None
    if draws.shape[1] > 1:
        place = _place_of(reference, model.classes_)
        labels = np.delete(model.classes_, place)
        draws = np.delete(draws, place, axis=1) - draws[:, [place]]
    elif reference is not None:
        first, second = model.classes_.tolist()
        raise ValueError(
            f"reference={reference!r} is for more than two classes. Of two, the odds are always those of the "
            f"second of classes_, {second!r}, against {first!r}: leave reference at None, and take 1 / ratio "
            f"for the odds of {first!r}."
        )
    return _ratios(draws, columns, labels, per, level, references)


def rate_ratios(
    estimator: Any,
    level: float = 0.9,
    *,
    per: Mapping[str, float] | None = None,
    reference_levels: Mapping[str, Label] | None = None,
    raw: bool = False,
    n_draws: int | None = None,
    random_state: RandomStateLike = 0,
) -> pd.DataFrame:
    """Table of rate ratios: by which factor an expected count changes if a column grows by one.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        Fitted, with a `DPBayesianPoissonRegressor` at its end.
    level, per, reference_levels, raw, n_draws, random_state
        As for `odds_ratios`.

    Returns
    -------
    table : pandas.DataFrame
        As of `odds_ratios`.

    Raises
    ------
    ValueError
        If ``level`` is out of range, or if ``per`` or ``reference_levels`` names what there is not.
    TypeError
        If the model is not one of counts.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpbayes import DPBayesianPoissonRegressor
    >>> from skdpbayes.inspection import rate_ratios
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.uniform(-1, 1, 20_000)})
    >>> y = rng.poisson(np.exp(X["age"]))
    >>> model = DPBayesianPoissonRegressor(max_count=10, random_state=0).fit(X, y)
    >>> bool(2.4 < rate_ratios(model).loc["age", "median"] < 3.0)
    True
    """
    if not getattr(linear_model_of(estimator), "_reads_counts", False):
        raise TypeError("rates are of counts: of classes take odds_ratios.")
    _, draws, columns, references = blocks_of(
        estimator, n_draws, random_state, raw, reference_levels
    )
    return _ratios(draws, columns, None, per, level, references)


def _ratios(draws, columns, labels, per, level, references):
    """Return a table of exponentials of draws of shape (n_draws, n_blocks, n), without the constant."""
    check_level(level)
    steps = np.ones(len(columns))
    for name, step in (per or {}).items():
        if name not in columns:
            raise ValueError(f"per names {name!r}, and the columns are {columns}.")
        if not is_number(step) or not np.isfinite(step):
            raise ValueError(f"per must have finite numbers, got {step!r} for {name!r}.")
        steps[columns.index(name)] = step
    ratios = np.exp(draws[:, :, : len(columns)] * steps)
    flat = ratios.reshape(len(draws), -1)
    index = coefficient_index(columns, labels)
    table = median_table(flat, index, level, null=1.0, moments=False)
    return without_doubt(table, references)


def _place_of(label, classes):
    if label is None:
        return 0
    places = np.flatnonzero(classes == label)
    if len(places) != 1:
        raise ValueError(f"reference={label!r} is none of the classes {classes.tolist()}.")
    return int(places[0])
