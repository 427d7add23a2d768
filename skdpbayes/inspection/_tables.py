"""What a statistician says of coefficients: raw units, contrasts, and probabilities of statements.

    quantity of a draw -> median and quantiles over draws;  P(statement) = share of draws with it

Everything here is post-processing of what was released: it spends no budget.
"""

from __future__ import annotations

import copy
import reprlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._arguments import check_level, is_number
from .._estimator.base import PrivatePosterior
from .._estimator.model_checks import NotedColumn, listed
from .._estimator.summaries import (
    append_intercept,
    coefficient_index,
    median_table,
    names_of_ends,
    required_pandas,
    statement_table,
    whole_table,
    with_notes,
)
from .._typing import Label, RandomStateLike
from ..linear_model._base import LinearPosterior
from ..mixture import DPGaussianMixturePosterior
from ..pipeline._steps import names_of_last
from ..preprocessing import FormulaEncoder
from ..privacy.unsafe_callers import fitted_tree
from ._raw import affine_of, raw_draws, raw_moments, with_references, without_doubt

# Coefficients as rows: from named arrays of draws to one column of draws and one label each.


# The most rows that are legible in one figure.
MOST_SHOWN_ROWS = 20


def coefficient_columns(feature_names, coords):
    """The names of the columns: as given, else as far as they are known."""
    known = coords["feature"]
    if feature_names is not None:
        if len(feature_names) != len(known):
            raise ValueError(
                f"feature_names has {len(feature_names)} names for {len(known)} features: give one for each."
            )
        return np.asarray(feature_names, dtype=str)
    return known


def take(variables, coords, dim, indices):
    """Variables and coordinates at the given indices along a dimension."""
    taken = {
        name: (draws.take(indices, axis=1 + dims.index(dim)), dims)
        if dim in dims
        else (draws, dims)
        for name, (draws, dims) in variables.items()
    }
    return taken, {**coords, dim: [coords[dim][i] for i in indices]}


def class_index(label, classes):
    """The index of a label among the classes that have coefficients."""
    for i, known in enumerate(classes):
        if known == label:
            return i
    raise ValueError(
        f"class_of_interest={label!r} has no coefficients of its own: choose one of "
        f"{np.asarray(classes).tolist()}."
    )


def feature_indices(features, variables, coords):
    """The indices of the requested columns, or of those with the clearest coefficients."""
    names = list(coords["feature"])
    if features is not None:
        wanted = [features] if isinstance(features, str | Integral) else features
        return [_column_index(feature, names) for feature in wanted]
    draws, dims = next(pair for pair in variables.values() if "feature" in pair[1])
    draws = np.moveaxis(draws, 1 + dims.index("feature"), -1).reshape(len(draws), -1, len(names))
    size, deviation = np.abs(draws.mean(axis=0)), draws.std(axis=0)
    clarity = np.divide(size, deviation, out=size, where=deviation > 0).max(axis=0)
    n_shown = max(1, MOST_SHOWN_ROWS // draws.shape[1])
    return np.sort(np.argsort(-clarity, kind="stable")[:n_shown]).tolist()


def _column_index(feature, names):
    if isinstance(feature, str):
        if feature in names:
            return names.index(feature)
    elif isinstance(feature, Integral) and -len(names) <= int(feature) < len(names):
        return int(feature) % len(names)
    raise ValueError(
        f"feature {feature!r} is unknown: choose among the {len(names)} features "
        f"{reprlib.repr([str(name) for name in names])}."
    )


def rows(variables, coords, several):
    """(draws of shape (n_draws, n_rows), labels), with the columns as the outermost dimension."""
    columns, labels = [], []
    for name, (draws, dims) in variables.items():
        order = sorted(dims, key=lambda dim: dim != "feature")
        draws = draws.transpose(0, *(1 + dims.index(dim) for dim in order))
        for place in np.ndindex(draws.shape[1:]):
            at = {dim: coords[dim][i] for dim, i in zip(order, place, strict=True)}
            label = str(at.get("feature", name))
            others = ", ".join(str(at[dim]) for dim in order if dim in several)
            columns.append(draws[:, *place])
            labels.append(f"{label} [{others}]" if others else label)
    return np.column_stack(columns), labels


# Draws of coefficients under their names, from an estimator or a pipeline that ends in one.
#
#     pipeline -> names behind its steps -> last step -> draws of shape (n_draws, n_coefficients)
#
# Everything here is post-processing of what was released.


if TYPE_CHECKING:
    import pandas as pd


def named_model(estimator: Any) -> Any:
    """The model at the end of a fitted pipeline, under the names that its steps give to its columns.

    A `skdpbayes.pipeline.PrivatePipeline` tells its last step these names by itself. scikit-learn's
    pipelines do not: there the last step sees an array without names.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        Fitted: an estimator of this package, a pipeline that ends in one, or a search for one of these.

    Returns
    -------
    model : estimator
        A copy of the last step that shares its draws. Its ``summary``, ``coef_table`` and ``to_arviz`` use
        the names.

    Raises
    ------
    NotFittedError
        If it is not fitted.
    TypeError
        If there is no private posterior at the end.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.inspection import named_model
    >>> from skdpbayes.preprocessing import BoundedScaler
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.uniform(18, 90, 5000)})
    >>> model = DPBayesianLogisticRegression(random_state=0)
    >>> model = make_pipeline(BoundedScaler(18, 90), model).fit(X, X["age"] > 50)
    >>> list(model[-1].summary().index), list(named_model(model).summary().index)
    (['x0', 'intercept'], ['age', 'intercept'])
    """
    estimator = getattr(estimator, "best_estimator_", estimator)
    model, names = estimator, None
    tree = fitted_tree(estimator)
    if tree.kind == "pipeline":
        check_is_fitted(estimator)
        model, names = tree.last.estimator, names_of_last(tree)
    if not isinstance(model, PrivatePosterior):
        raise TypeError(
            f"{type(model).__name__} has no private posterior: pass an estimator of skdpbayes, or "
            "a pipeline that ends in one."
        )
    check_is_fitted(model)
    if names is not None:
        model = copy.copy(model)
        model._feature_names_from_pipeline = names
    return model


def linear_model_of(estimator):
    """`named_model`; raises a TypeError unless it has coefficients."""
    model = named_model(estimator)
    if not isinstance(model, LinearPosterior):
        raise TypeError(
            f"{type(model).__name__} has no coefficients: pass DPBayesianLogisticRegression, "
            "DPBayesianRidge or DPBayesianPoissonRegressor, or a pipeline that ends in one."
        )
    return model


def draws_of(model, n_draws, random_state):
    """Draws of a model, new ones if there are few and new ones are free."""
    if n_draws is None:
        return model._posterior.enough()
    return model.sample_posterior(n_draws, random_state)


class Blocks(NamedTuple):
    """Draws of shape (n_draws, n_blocks, n), the constant last, and names of the others."""

    model: Any
    draws: np.ndarray
    names: list[str]
    # Those of the names that are reference levels.
    references: tuple[str, ...] = ()


def draw_blocks(estimator, n_draws, random_state, raw, reference_levels=None):
    """The `Blocks` of a fitted estimator or pipeline with coefficients."""
    model = linear_model_of(estimator)
    model._posterior.warn_unless_calibrated()
    draws = draws_of(model, n_draws, random_state)
    names = [str(name) for name in model._column_names()]
    if reference_levels is not None:
        affine = affine_of(estimator, model, names)
        return Blocks(model, *with_references(draws, names, affine, raw, reference_levels))
    if raw:
        draws, names = raw_draws(estimator, model, draws, names)
    return Blocks(model, draws, names)


def _refuse_scaled(per, estimator, model):
    """Refuse ``per`` for columns that were scaled, since it is in units of the table."""
    names = [str(name) for name in model._column_names()]
    wanted = [name for name in per or () if name in names]
    try:
        affine = affine_of(estimator, model, names)
    except ValueError:
        if estimator is not model:
            return  # A step combines or bends what was scaled, and there are no other units.
        scaled = wanted  # The last step alone does not know what was done before it.
    else:
        as_passed = (np.count_nonzero(affine.matrix, axis=1) == 1) & (affine.shift == 0)
        as_passed &= affine.matrix.sum(axis=1) == 1
        scaled = [name for name in wanted if not as_passed[names.index(name)]]
    if scaled:
        raise ValueError(
            f"per is in units of the table, but {scaled} were scaled before they reached the model: pass "
            "raw=True, with the fitted pipeline."
        )


def notes_of(estimator, raw, more=()):
    """Notes on a fitted estimator or pipeline: its intervals, ``more``, and what missing cells count as.

    Of indicators that an encoder made they say that few rows have a level; with ``raw`` columns are those of
    the table.
    """
    first = fitted_tree(getattr(estimator, "best_estimator_", estimator)).first.estimator
    marked, on_cells = set(), ()
    if isinstance(first, FormulaEncoder):
        marked, on_cells = first._indicator_names(), first._notes()
    return (*_notes_on_intervals(estimator, raw, marked), *more, *on_cells)


def _notes_on_intervals(estimator, raw, marked):
    """Notes on intervals; ``marked`` are columns of the model that are known to be indicators."""
    model = linear_model_of(estimator)
    names = [str(name) for name in model._column_names()]
    try:
        affine = affine_of(estimator, model, names)
    except ValueError:  # A step combines or bends what was scaled, or the last one came alone.
        return model.interval_notes()
    levels = (each.names for each in affine.indicators.values() if each is not None)
    indicators = {name for some in levels for name in some}
    columns = []
    for name, row in zip(names, affine.matrix, strict=True):
        behind = np.flatnonzero(row)
        column = NotedColumn(name)
        if raw and behind.size == 1:
            (j,) = behind
            column = NotedColumn(affine.names[j], 1.0 / abs(row[j]))
        is_indicator = bool(behind.size) and indicators.issuperset(affine.names[j] for j in behind)
        columns.append(column._replace(is_indicator=is_indicator or name in marked))
    return model._notes_on(columns)


def _notes_on_levels(estimator, reference_levels):
    """Notes beneath ratios: which level those of other levels are against, if no row of the table says it."""
    model = linear_model_of(estimator)
    try:
        affine = affine_of(estimator, model, [str(name) for name in model._column_names()])
    except ValueError:
        return ()
    known = {
        column: levels
        for column, levels in affine.indicators.items()
        if levels is not None and column not in (reference_levels or ())
    }
    without = {column: levels.without_indicator for column, levels in known.items()}
    against = [f"{column} = {some[0]!r}" for column, some in without.items() if some]
    notes: tuple[str, ...] = ()
    if against:
        notes += (f"ratios of levels are against {listed(against)}.",)
    if apart := [str(column) for column, some in without.items() if not some]:
        example = {apart[0]: known[apart[0]].levels[0]}
        notes += (
            f"every level of {listed(apart)} has an indicator: its ratio is against rows of no level, if "
            "there are any, and not against another level. To compare levels, pass "
            f"reference_levels={example}.",
        )
    return notes


def coefficient_draws(
    estimator: Any,
    n_draws: int | None = None,
    random_state: RandomStateLike = 0,
    *,
    raw: bool = False,
) -> pd.DataFrame:
    """Draws of the coefficients as a data frame: one row a draw, one column a coefficient.

    Whatever is computed from them draw by draw has its posterior. They spend no budget.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        Fitted, with coefficients.
    n_draws : int or None, default=None
        Number of draws. None returns those of the fit, or 400 new ones if there are fewer and new ones are
        free.
    random_state : None, int, RandomState or Generator, default=0
        It need not be kept private, because the draws are public.
    raw : bool, default=False
        Whether coefficients are in the units of the columns before scaling; see `raw_coefficients`.

    Returns
    -------
    draws : pandas.DataFrame of shape (n_draws, n_coefficients)
        Columns are names, or ``name[class]`` with more than two classes.

    Raises
    ------
    ImportError
        If pandas is not installed.
    ValueError
        If there are fewer draws than requested, or if there are no coefficients in raw units.
    TypeError
        If the estimator has no coefficients.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.inspection import coefficient_draws
    >>> X, y = make_classification(5000, 4, n_redundant=0, n_informative=4, random_state=0)
    >>> clf = DPBayesianLogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
    >>> coefficient_draws(clf, 1000).shape
    (1000, 5)
    """
    pd = required_pandas()
    model, draws, columns, _ = draw_blocks(estimator, n_draws, random_state, raw)
    names = append_intercept(columns, draws.shape[2])
    if draws.shape[1] > 1:
        names = [f"{name}[{label}]" for label in model.classes_ for name in names]
    return pd.DataFrame(np.reshape(draws, (len(draws), -1)), columns=names)


# Values of contrasts and statements in all draws.
#
#     w^T theta,      an expression in names of coefficients,      f(frame of draws)
#
# Everything here is post-processing of what was released.


def contrasted(contrasts, draws):
    """{name: values of all draws} of contrasts in any form."""
    names = list(draws.columns)
    if isinstance(contrasts, str):
        contrasts = [contrasts]
    if isinstance(contrasts, list | tuple) and all(
        isinstance(statement, str) for statement in contrasts
    ):
        contrasts = {text: text for text in contrasts}
    if hasattr(contrasts, "columns"):
        contrasts = _of_rows(contrasts)
    if isinstance(contrasts, Mapping) and contrasts:
        return {name: _quantity(statement, draws) for name, statement in contrasts.items()}
    weights = np.atleast_2d(_numbers(contrasts))
    if weights.ndim != 2 or weights.shape[1] != len(names):
        raise ValueError(
            f"contrasts of shape {weights.shape} do not have weights for the {len(names)} coefficients "
            f"{names}."
        )
    return dict(enumerate(weights @ draws.to_numpy().T))


def true_where(statement, draws):
    """The draws in which a statement is true, as a mask; raises a ValueError if it cannot be read."""
    mask = np.asarray(_evaluated(statement, draws))
    if mask.dtype != bool or mask.shape not in ((), (len(draws),)):
        raise ValueError(
            f"{statement!r} must be true or false of each draw, as 'x0 > 0' is: it is of type {mask.dtype}."
        )
    return mask


def _of_rows(frame):
    """{name: weights} of the rows of a data frame."""
    pd = required_pandas()
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(
            f"contrasts must be a data frame of pandas, whose index names them, got {type(frame).__name__}: "
            "use its to_pandas(), or a dict."
        )
    if not (frame.index.is_unique and frame.columns.is_unique):
        raise ValueError("contrasts must have an index and columns without repeated names.")
    return frame.to_dict(orient="index")


def _numbers(weights):
    try:
        numbers = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.array([np.nan])
    if not numbers.size or not np.isfinite(numbers).all():
        raise ValueError(
            "contrasts must have finite numbers as weights: 0 for what does not count."
        )
    return numbers


def _quantity(contrast, draws):
    """The values of a contrast, of shape (n_draws,)."""
    if not isinstance(contrast, Mapping):
        return _broadcast(contrast, draws)
    weights = np.zeros(draws.shape[1])
    for name, weight in contrast.items():
        if not is_number(weight) or not np.isfinite(weight):
            raise ValueError(
                f"contrasts must have finite numbers as weights, got {weight!r} for {name!r}: "
                "0 is for what does not count."
            )
        weights[_column(name, draws)] = weight
    return draws.to_numpy() @ weights


def _broadcast(contrast, draws):
    values = _evaluated(contrast, draws)
    try:
        return np.broadcast_to(np.asarray(values, dtype=float), len(draws))
    except (TypeError, ValueError):
        raise ValueError(f"the contrast {contrast!r} must be a number for each draw.") from None


def _column(name, draws):
    if name not in draws.columns:
        raise ValueError(f"there is no coefficient {name!r}, only {list(draws.columns)}.")
    return draws.columns.get_loc(name)


def _evaluated(statement, draws):
    if callable(statement):
        return statement(draws)
    if not isinstance(statement, str):
        raise TypeError(
            f"{statement!r} must be an expression in names of coefficients, or a function of draws."
        )
    pd = required_pandas()
    errors = (
        *(SyntaxError, LookupError, ValueError, TypeError, ArithmeticError),
        *(NotImplementedError, AttributeError),
    )
    try:
        return draws.eval(statement, engine="python")
    except (pd.errors.UndefinedVariableError, *errors) as error:
        raise ValueError(
            f"{statement!r} cannot be evaluated ({error}): the coefficients are {list(draws.columns)}; "
            "names that are no words stand within backticks."
        ) from error


if TYPE_CHECKING:
    import pandas as pd

# An expression in names of coefficients, or a function of a frame of draws.
Statement: TypeAlias = str | Callable[[Any], Any]


def raw_coefficients(
    estimator: Any,
    level: float = 0.9,
    *,
    per: Mapping[str, float] | None = None,
    reference_levels: Mapping[str, Label] | None = None,
    n_draws: int | None = None,
    random_state: RandomStateLike = 0,
) -> pd.DataFrame:
    """Table of the coefficients in the units of the columns before scaling: per year, per euro.

    Undoes scalers with public or released bounds (`BoundedScaler`, `DPQuantileScaler`, and scikit-learn's
    that were fitted on public rows). Indicators of an encoder stay as they are, and what other steps make
    of a column is a column of its own, such as ``binarizer(age)``. Applied to raw rows, these
    coefficients give the predictions of the pipeline, for rows within the bounds of the scalers and not
    longer than ``data_norm``: beyond these, predictions do not change, and straight lines do.

    Parameters
    ----------
    estimator : Pipeline or search
        Fitted; for an estimator, its own coefficients.
    level : float, default=0.9
        Posterior probability of the intervals.
    per : mapping of str to float, default=None
        By how much a column grows, such as ``{"age": 10}`` for ten years. Others grow by one.
    reference_levels : mapping of str to label, default=None
        As for `odds_ratios`. The intercept is then of rows with these levels.
    n_draws, random_state
        As for `coefficient_draws`.

    Returns
    -------
    table : pandas.DataFrame
        One row for each coefficient, by class with more than two classes. The columns are ``mean``, ``sd``,
        the ends of the interval and ``P(> 0)``.

    Raises
    ------
    ValueError
        If ``level`` is out of range, if ``per`` names an unknown column, or if a step combines or bends
        columns that were scaled before it, so that there are no coefficients in raw units.
    TypeError
        If there are no coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpbayes import DPBayesianRidge
    >>> from skdpbayes.inspection import raw_coefficients
    >>> from skdpbayes.pipeline import make_private_pipeline
    >>> from skdpbayes.preprocessing import BoundedScaler
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"age": rng.uniform(18, 90, 20_000)})
    >>> y = 30 + 0.5 * X["age"] + rng.normal(size=20_000)
    >>> model = DPBayesianRidge((30, 85), data_norm=1.0, random_state=0)
    >>> model = make_private_pipeline(BoundedScaler(18, 90), model).fit(X, y)
    >>> raw_coefficients(model)["mean"].round(1).to_dict()
    {'age': 0.5, 'intercept': 30...}
    """
    required_pandas()
    model, draws, columns, references = draw_blocks(
        estimator, n_draws, random_state, True, reference_levels
    )
    if per:
        draws = draws.copy()
        draws[:, :, : len(columns)] *= _steps_of(per, columns)
    labels = model.classes_ if draws.shape[1] > 1 else None
    index = coefficient_index(append_intercept(columns, draws.shape[2]), labels)
    table = statement_table(np.reshape(draws, (len(draws), -1)), index, level)
    return with_notes(without_doubt(table, references), notes_of(estimator, raw=True))


def raw_components(
    estimator: Any,
    level: float = 0.9,
    *,
    n_draws: int | None = None,
    random_state: RandomStateLike = 0,
) -> pd.DataFrame:
    """Table of a mixture's components in the units of the columns before a pipeline scaled them.

    Requires pandas. It spends no budget.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        Fitted, with a `DPGaussianMixturePosterior` at its end. Scalers such as `BoundedScaler` and
        `DPQuantileScaler` are undone. Other steps may stand before the first scaler: what they make of
        columns is then in raw units. Components are those of clipped rows.
    level : float, default=0.9
        Posterior probability of the intervals.
    n_draws, random_state
        As for `coefficient_draws`.

    Returns
    -------
    table : pandas.DataFrame
        One row for each parameter (``"mean"`` and ``"deviation"``, of the rows of a component), component and
        column. The columns are ``median`` and the ends of the interval.

    Raises
    ------
    ValueError
        If ``level`` is out of range, or if a step combines or bends columns that were scaled before it.
    TypeError
        If there is no mixture.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpbayes import DPGaussianMixturePosterior
    >>> from skdpbayes.inspection import raw_components
    >>> from skdpbayes.pipeline import make_private_pipeline
    >>> from skdpbayes.preprocessing import BoundedScaler
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"spend": rng.normal(np.repeat([20.0, 80.0], [12_000, 8_000]), 5.0)})
    >>> mixture = DPGaussianMixturePosterior(2, random_state=0)
    >>> model = make_private_pipeline(BoundedScaler(0, 100), mixture).fit(X)
    >>> raw_components(model)["median"].round().to_dict()
    {('mean', 0, 'spend'): 20.0, ('mean', 1, 'spend'): 80.0, ('deviation', 0, 'spend'): 5.0, ...}
    """
    pd = required_pandas()
    model = named_model(estimator)
    if not isinstance(model, DPGaussianMixturePosterior):
        raise TypeError(
            f"{type(model).__name__} has no components: pass DPGaussianMixturePosterior, or a pipeline that "
            "ends in it."
        )
    check_level(level)
    model._posterior.warn_unless_calibrated()
    means, deviations, columns = raw_moments(
        estimator, model, draws_of(model, n_draws, random_state)
    )
    index = pd.MultiIndex.from_product(
        [["mean", "deviation"], range(model.n_components_), columns],
        names=["parameter", "component", "column"],
    )
    flat = np.stack([means, deviations], axis=1).reshape(len(means), -1)
    ends = np.quantile(flat, [(1 - level) / 2, (1 + level) / 2], axis=0)
    table = {
        "median": np.median(flat, axis=0),
        **dict(zip(names_of_ends(level), ends, strict=True)),
    }
    return whole_table(table, index)


def contrasts(
    estimator: Any,
    contrasts: Any,
    level: float = 0.9,
    *,
    raw: bool = False,
    n_draws: int | None = None,
    random_state: RandomStateLike = 0,
) -> pd.DataFrame:
    """Table of contrasts: linear combinations of coefficients, or any function of them.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        Fitted, with coefficients.
    contrasts : dict, str, list of str, DataFrame or array-like of shape (n_contrasts, n_coefficients)
        A dict has a name for each contrast, and as its value weights by coefficient, such as ``{"north": 1,
        "south": -1}``, an expression such as ``"north - south"``, or a function of a frame of draws. An
        expression alone is its own name. A data frame of pandas has a row of weights for each contrast, and
        the coefficients as columns. An array has weights for all coefficients, in the order of
        `coefficient_draws`.
    level, raw, n_draws, random_state
        As for `odds_ratios`.

    Returns
    -------
    table : pandas.DataFrame
        One row for each contrast. The columns are ``median``, the ends of the interval, ``P(> 0)``, and last
        ``mean`` and ``sd``, which need not mean anything for a ratio of coefficients.

    Raises
    ------
    ValueError
        If ``level`` is out of range, if a contrast names an unknown coefficient, if weights are no finite
        numbers, or if the index of a data frame has a name twice.
    TypeError
        If the estimator has no coefficients.

    Notes
    -----
    With more than two classes the coefficients are ``name[class]``; in an expression such names stand within
    backticks, as in ``"`age[bus]` - `age[car]`"``.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.inspection import contrasts
    >>> X, y = make_classification(5000, 4, n_redundant=0, n_informative=4, random_state=0)
    >>> clf = DPBayesianLogisticRegression(epsilon=1.0, random_state=0).fit(X, y)
    >>> table = contrasts(clf, {"difference": {"x0": 1, "x1": -1}, "again": "x0 - x1"})
    >>> bool(table.loc["difference", "mean"] == table.loc["again", "mean"])
    True
    """
    check_level(level)
    draws = coefficient_draws(estimator, n_draws, random_state, raw=raw)
    draws_of_contrasts = contrasted(contrasts, draws)
    pd = required_pandas()
    index = pd.Index(list(draws_of_contrasts), name="contrast")
    table = median_table(np.column_stack(list(draws_of_contrasts.values())), index, level)
    return with_notes(table, notes_of(estimator, raw))


def probability(
    estimator: Any,
    statement: Statement | Sequence[Statement] | Mapping[Hashable, Statement],
    *,
    raw: bool = False,
    n_draws: int | None = None,
    random_state: RandomStateLike = 0,
) -> Any:
    """The posterior probability of a statement about the coefficients, one-sided or joint.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        Fitted, with coefficients.
    statement : str, callable, or several of these
        Such as ``"age > 0 and income < 0"``: an expression that `pandas.DataFrame.eval` understands, in the
        names of `coefficient_draws`, or a function of that frame that returns a truth value for each draw. A
        joint statement is one statement. A list or dict has several, each by itself.
    raw, n_draws, random_state
        As for `odds_ratios`. Among ``n`` draws, a probability is known to about ``1 / sqrt(4 n)``: ask for
        10,000 where new draws are free.

    Returns
    -------
    probability : float, or pandas.Series with one for each statement

    Raises
    ------
    ValueError
        If a statement names an unknown coefficient, or is not true or false of each draw.
    TypeError
        If the estimator has no coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.inspection import probability
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame(rng.uniform(-1, 1, (20_000, 2)), columns=["dose", "age"])
    >>> y = rng.random(20_000) < 1 / (1 + np.exp(X["age"] - X["dose"]))
    >>> clf = DPBayesianLogisticRegression(random_state=0).fit(X, y)
    >>> probability(clf, "dose > 0 and age < 0", n_draws=10_000)
    1.0
    """
    draws = coefficient_draws(estimator, n_draws, random_state, raw=raw)
    if isinstance(statement, str) or callable(statement):
        return float(np.mean(true_where(statement, draws)))
    if not isinstance(statement, Mapping):
        statement = {getattr(part, "__name__", str(part)): part for part in statement}
    pd = required_pandas()
    shares = {name: float(np.mean(true_where(part, draws))) for name, part in statement.items()}
    return pd.Series(shares, name="probability")


# Odds ratios and rate ratios: what multiplies odds, or an expected count, if a column grows.
#
#     ratio = exp(step * theta),  for each draw
#
# Everything here is post-processing of what was released: it spends no budget.


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
        By how much a column grows, such as ``{"age": 10}`` for ten years, in units of the table: columns
        that were scaled need ``raw=True``. Others grow by one. A logarithm grows by ``log(2)`` if a column
        doubles: ``{"log(income)": math.log(2)}``.
    reference : label, default=None
        With more than two classes, the class that others are compared with. None is the first.
    reference_levels : mapping of str to label, default=None
        The level that other levels of a column are compared with, such as ``{"region": "north"}``, for
        columns of which an encoder or ``C(...)`` in a formula makes indicators. The rows of the column
        then begin with that level, whose ratio is 1. Without, a ratio is for an indicator by itself, and a
        note says what that is against, but for levels in products.
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
        If ``level`` is out of range, if ``per`` names an unknown column, or one that was scaled without
        ``raw=True``, if ``reference`` is no class, or if ``reference_levels`` names a column without levels,
        or a level that it does not have.
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
    if not raw:
        _refuse_scaled(per, estimator, linear_model_of(estimator))
    model, draws, columns, references = draw_blocks(
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
    table = _ratios(draws, columns, labels, _steps_of(per, columns), level, references)
    more = _notes_on_levels(estimator, reference_levels)
    return with_notes(table, notes_of(estimator, raw, more))


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
        If ``level`` is out of range, if ``per`` or ``reference_levels`` names what there is not, or if
        ``per`` names a column that was scaled, without ``raw=True``.
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
    if not linear_model_of(estimator)._reads_counts:
        raise TypeError("rates are of counts: of classes take odds_ratios.")
    if not raw:
        _refuse_scaled(per, estimator, linear_model_of(estimator))
    _, draws, columns, references = draw_blocks(
        estimator, n_draws, random_state, raw, reference_levels
    )
    table = _ratios(draws, columns, None, _steps_of(per, columns), level, references)
    more = _notes_on_levels(estimator, reference_levels)
    return with_notes(table, notes_of(estimator, raw, more))


def _steps_of(per, columns):
    """By how much each column grows, of shape (n_columns,); raises a ValueError."""
    steps = np.ones(len(columns))
    for name, step in (per or {}).items():
        if name not in columns:
            bent = [column for column in columns if f"({name})" in column]
            hint = f" Of a logarithm, per={{{bent[0]!r}: log(2)}} is a doubling." if bent else ""
            raise ValueError(f"per names {name!r}, and the columns are {columns}.{hint}")
        if not is_number(step) or not np.isfinite(step):
            raise ValueError(f"per must have finite numbers, got {step!r} for {name!r}.")
        steps[columns.index(name)] = step
    return steps


def _ratios(draws, columns, labels, steps, level, references):
    """A table of exponentials of draws of shape (n_draws, n_blocks, n), without the constant."""
    check_level(level)
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
