"""Average marginal effects: how much a mean response changes with a column, on average over public rows.

    number:    (1 / sum_i w_i) sum_i w_i [m(x_i + h e_j) - m(x_i - h e_j)] / (2 h)
    category:  (1 / sum_i w_i) sum_i w_i [m(x_i with level) - m(x_i with the reference)]

for each draw, where ``m`` is the probability of a class, the expected count, or the expected number.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from scipy.special import expit, softmax
from sklearn.utils import gen_batches

from .._arguments import check_level
from .._data.collections import refuse_columns_in_other_order
from .._data.columns import number_column
from .._data.read import validate_table
from .._errors import (
    column_names,
    reraise_if_safe,
    sanitize_errors,
    suppress_fp_warnings,
    to_native,
)
from .._estimator.regressor import PrivateRegressor
from .._estimator.summaries import (
    append_intercept,
    median_table,
    required_pandas,
    with_notes,
)
from .._typing import MatrixLike, RandomStateLike
from ..models.rows import clip_rows, scale_rows
from ..preprocessing import FormulaEncoder
from ..preprocessing._factors import Levels, Missing, category_text
from ..privacy.deferred_warnings import warn
from ..privacy.unsafe_callers import fitted_tree
from ._tables import draws_of, linear_model_of, notes_of

if TYPE_CHECKING:
    import pandas as pd

# Number of responses in memory at once.
_CHUNK_ENTRIES = 2**21
# Half the width of a difference, relative to the range of a column.
_HALF_DIFFERENCE = 1e-4
_NO_TABLE = "X_public must be a table with the columns that the model was fitted on."


@suppress_fp_warnings()
def average_marginal_effects(
    estimator: Any,
    X_public: MatrixLike,
    variables: Sequence[str] | str | None = None,
    level: float = 0.9,
    *,
    categorical: Sequence[str] | str = (),
    row_weights: ArrayLike | None = None,
    n_draws: int | None = None,
    random_state: RandomStateLike = 0,
) -> pd.DataFrame:
    """Table of average marginal effects over *public* rows.

    An effect is a slope of the mean response for a column of numbers, the difference between 1 and 0 for a
    column of zeros and ones, and the difference to a reference level for a column of text or categories: that
    of ``C(x, levels=[...], reference=level)`` in a formula, else the first level in sorted order. It is
    computed for each draw, through all steps of a pipeline, and averaged over the rows.

    **The rows must be public**: profiles that you write down, a published sample, or rows that a private
    release has made up. An average over the private rows, by which the model was fitted, is a new release
    about them that nothing pays for: neither ``epsilon`` nor a ledger covers it, and it must not be
    published. Nobody can tell from a table whether it is public, so this is yours to ensure.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        Fitted, with coefficients.
    X_public : array-like or data frame of shape (n_rows, n_features)
        Public rows, before any step.
    variables : str or sequence of str, default=None
        The columns whose effects are wanted. None is all that the model was fitted on. Further columns of
        the rows are not read.
    level : float, default=0.9
        Posterior probability of the intervals.
    categorical : str or sequence of str, default=()
        Columns of numbers that are codes of categories. Columns of text and truth values need not be named,
        nor those of ``C(...)`` in a formula.
    row_weights : array-like of shape (n_rows,), default=None
        How much each row counts, such as the sizes of strata in a census. Public, not negative.
    n_draws, random_state
        As for `coefficient_draws`.

    Returns
    -------
    table : pandas.DataFrame
        One row for each column and contrast, and for each class with more than two. The columns are
        ``median``, the ends of the interval, ``P(> 0)``, and last ``mean`` and ``sd``. Of two classes,
        effects are on the probability of the second.

    Raises
    ------
    ValueError
        If ``level`` is out of range, if the rows are no table, or if a column is unknown.
    TypeError
        If the estimator has no coefficients.

    Notes
    -----
    Beyond the bounds of a scaler, and for rows longer than ``data_norm``, predictions do not follow a column
    any further, and neither do effects. Intervals are about the coefficients only: the rows are taken as
    they are.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.inspection import average_marginal_effects
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame(rng.uniform(-1, 1, (20_000, 2)), columns=["dose", "age"])
    >>> y = rng.random(20_000) < 1 / (1 + np.exp(-X["dose"]))
    >>> clf = DPBayesianLogisticRegression(random_state=0).fit(X, y)
    >>> profiles = pd.DataFrame({"dose": [-0.5, 0.5], "age": [0.0, 0.0]})
    >>> bool(0.2 < average_marginal_effects(clf, profiles).loc[("dose", "slope"), "median"] < 0.27)
    True
    """
    check_level(level)
    model = linear_model_of(estimator)
    model._posterior.warn_unless_calibrated()
    draws = draws_of(model, n_draws, random_state)
    refuse_columns_in_other_order(X_public=X_public, row_weights=row_weights)
    frame = public_frame(X_public, estimator)
    shares = _shares(row_weights, len(frame))
    wanted = list(frame.columns) if variables is None else _known(variables, frame)
    codes = codes_of(estimator, frame, categorical)
    references = _references(estimator)
    effects, index = [], []
    for name in wanted:
        changes = _changes(frame[name], name in codes, references.get(name))
        for contrast, upper, lower, width in changes:
            ends = [frame.assign(**{name: values}) for values in (upper, lower)]
            means = [_mean(estimator, model, draws, end, shares) for end in ends]
            effects.append((means[0] - means[1]) / width)
            index.append((name, contrast))
            if not effects[-1].any():
                warn(
                    f"the effect {contrast!r} of {name!r} is 0 in all draws: the model does not follow this "
                    "column, or all of these rows are beyond its bounds, or without its levels."
                )
    if not effects:
        raise ValueError(f"nothing varies: {wanted} have one level in X_public each.")
    return _table(np.stack(effects, axis=2), index, model, level, notes_of(estimator, raw=True))


def responses(model, draws, design):
    """Mean responses for each draw.

    Parameters
    ----------
    model : estimator
        Fitted, with coefficients.
    draws : ndarray of shape (n_draws, n_blocks, length)
    design : ndarray of shape (n_rows, length)
        As `design_of` returns it.

    Returns
    -------
    means : ndarray of shape (n_rows, n_draws, n_blocks)
    """
    logits = np.stack([design @ block.T for block in draws.transpose(1, 0, 2)], axis=2)
    if isinstance(model, PrivateRegressor):
        return model._law.prediction(model._clip_logits(logits))
    return expit(logits) if logits.shape[2] == 1 else softmax(logits, axis=2)


def design_of(estimator, model, frame):
    """The rows of a frame as a fitted model's coefficients meet them: clipped, the constant last."""
    rows = validate_table(model, _behind_steps(estimator, frame), reset=False)
    rows = scale_rows(*clip_rows(rows, model.data_norm_))
    rows = np.asarray(rows.todense() if issparse(rows) else rows)
    length = model.posterior_samples_.shape[2]
    return np.hstack([rows, np.ones((len(rows), length - rows.shape[1]))])


def _behind_steps(estimator, frame):
    estimator = getattr(estimator, "best_estimator_", estimator)
    rows = frame if hasattr(estimator, "feature_names_in_") else frame.to_numpy()
    for node in fitted_tree(estimator).before_last:
        if node.kind != "word":
            transform = node.estimator.transform
            rows = sanitize_errors(transform, rows, on_error=reraise_if_safe(_NO_TABLE))
    return rows


def _mean(estimator, model, draws, frame, shares):
    """The average of mean responses over rows, of shape (n_draws, n_blocks)."""
    design = design_of(estimator, model, frame)
    total = np.zeros(draws.shape[:2])
    for part in gen_batches(len(frame), max(1, _CHUNK_ENTRIES // draws[:, :, 0].size)):
        total = total + np.tensordot(shares[part], responses(model, draws, design[part]), 1)
    return total


def public_frame(X, estimator):
    """Rows as a data frame whose numbers are in double precision."""
    required_pandas()
    outer = getattr(estimator, "best_estimator_", estimator)
    names = getattr(outer, "feature_names_in_", None)
    on_error = reraise_if_safe(_NO_TABLE)
    frame = sanitize_errors(_framed, to_native(X, "X_public"), names, on_error=on_error)
    if not len(frame) or not len(frame.columns):
        raise ValueError(_NO_TABLE)
    # Steps are small, so single precision and whole numbers are not enough.
    return frame.astype({name: float for name in frame if is_numeric_column(frame[name])})


def _framed(X, names):
    """A data frame of a table of any kind, without columns that are none of the model's."""
    pd = required_pandas()
    if (own := column_names(X)) is None:
        array = np.asarray(X)
        if array.ndim != 2:
            raise ValueError(_NO_TABLE)
        if names is None or len(names) != array.shape[1]:
            names = [f"x{j}" for j in range(array.shape[1])]
        columns = dict(zip(names, array.T, strict=True))
    else:
        known = set(() if names is None else names) <= set(own)
        wanted = own if names is None or not known else names
        columns = {name: np.asarray(X[name]) for name in wanted}
    return pd.DataFrame({str(name): column for name, column in columns.items()}).infer_objects()


def codes_of(estimator, frame, named):
    """The columns that are codes of categories: those named, and those that a formula declares."""
    return list(dict.fromkeys([*_known(named, frame), *_declared_codes(estimator, frame)]))


def _factors(estimator):
    """The factors of a formula at the beginning, none without a formula."""
    encoder = fitted_tree(getattr(estimator, "best_estimator_", estimator)).first.estimator
    terms = encoder._terms() if isinstance(encoder, FormulaEncoder) else []
    return [factor for term in terms for factor in term]


def _references(estimator):
    """The reference levels that a formula declares, by column."""
    levels = (factor for factor in _factors(estimator) if isinstance(factor, Levels))
    return {factor.column: factor.reference for factor in levels}


def _declared_codes(estimator, frame):
    """The columns of a frame of which a formula at the beginning reads categories, and no numbers."""
    factors = _factors(estimator)
    codes = {factor.column for factor in factors if isinstance(factor, Levels)}
    others = [factor for factor in factors if not isinstance(factor, Levels | Missing)]
    numbers = {name for factor in others for name in factor.columns}
    known = (codes - numbers).intersection(frame.columns)
    return [name for name in known if not is_binary(frame[name])]


def is_binary(column):
    """Whether a column of a frame has zeros and ones, but for missing cells."""
    return is_numeric_column(column) and set(column.dropna()) == {0.0, 1.0}


def is_numeric_column(column):
    """Whether a column of a frame holds numbers; truth values are categories."""
    return getattr(column.dtype, "kind", "O") in "iuf"


def sorted_levels(column, reference=None):
    """The levels of a column, a declared reference first if there is one, and then in sorted order."""
    levels = sorted(column.dropna().unique(), key=lambda level: (str(type(level)), level))
    if reference is None or not levels:
        return levels
    texts = list(map(category_text, levels))
    place = texts.index(category_text(reference)) if category_text(reference) in texts else None
    # Rows may have all levels but the reference.
    first = reference if place is None else levels.pop(place)
    return [first, *levels]


def _known(names, frame):
    """A list of names; raises a ValueError if one is unknown."""
    names = [names] if isinstance(names, str) else [str(name) for name in names]
    if unknown := [name for name in names if name not in frame.columns]:
        raise ValueError(f"X_public has no columns {unknown}, only {list(frame.columns)}.")
    return names


def _shares(weights, n_rows):
    """Weights that add up to one."""
    if weights is None:
        return np.full(n_rows, 1.0 / n_rows)
    weights = number_column(weights, "row_weights")
    if len(weights) != n_rows or np.any(weights < 0) or not weights.sum() > 0:
        raise ValueError(f"row_weights must have {n_rows} numbers, none negative and not all zero.")
    return weights / weights.sum()


def _changes(column, is_coded, reference=None):
    """Yield (contrast, upper values, lower values, width) of a column, with its declared reference level."""
    if not is_numeric_column(column) or is_coded:
        on_error = reraise_if_safe("levels must be numbers, text or truth values.")
        levels = sanitize_errors(sorted_levels, column, reference, on_error=on_error)
        first, *others = levels or [None]
        for level in others:
            yield f"{level} - {first}", level, first, 1.0
    elif is_binary(column):
        upper, lower = (0, 1) if reference == 1 else (1, 0)
        yield f"{upper} - {lower}", float(upper), float(lower), 1.0
    elif column.notna().any():
        values = column.to_numpy()
        spread = float(np.nanmax(values) - np.nanmin(values))
        half = _HALF_DIFFERENCE * (
            spread if spread > 0 else max(1.0, float(np.nanmax(np.abs(values))))
        )
        yield "slope", values + half, values - half, 2.0 * half


def _table(draws, index, model, level, notes):
    """The table of draws of shape (n_draws, n_blocks, n_contrasts)."""
    pd = required_pandas()
    names = ["column", "contrast"]
    if draws.shape[1] > 1:
        index = [(label, *pair) for label in model.classes_ for pair in index]
        names = ["class", *names]
    flat = draws.reshape(len(draws), -1)
    table = median_table(flat, pd.MultiIndex.from_tuples(index, names=names), level)
    return with_notes(table, notes)


# A posterior for the package marginaleffects: means of the draws as estimates, their covariance as
# variance.
#
#     estimate = f(mean),      variance = J V J^T,  V the covariance of the draws
#
# This delta method is close to what draws say where ``f`` is nearly straight within the posterior.


_FORMULAS: dict[str, Any] = {
    "number": {"model_type": "linear", "family": None, "link": None},
    "count": {"model_type": "glm", "family": "poisson", "link": "log"},
    "two classes": {"model_type": "glm", "family": "binomial", "link": "logit"},
    "classes": None,
}


def to_marginaleffects(
    estimator: Any,
    X_public: MatrixLike,
    *,
    response: str = "response",
    categorical: Sequence[str] | str = (),
    n_draws: int | None = None,
    random_state: RandomStateLike = 0,
) -> Any:
    """A model that the functions of the package marginaleffects take.

    Requires the extra ``marginaleffects``. It spends no budget.

    **The rows must be public**, as for `average_marginal_effects`: an average over private rows, with this
    package or another, is not covered by any budget.

    Parameters
    ----------
    estimator : estimator, Pipeline or search
        Fitted, with coefficients.
    X_public : array-like or data frame of shape (n_rows, n_features)
        Public rows, before any step: what ``newdata`` is by default.
    response : str, default="response"
        What the response is called.
    categorical : str or sequence of str, default=()
        Columns of numbers that are codes of categories; those of ``C(...)`` in a formula need not be named.
        To marginaleffects they are text, such as ``"2.0"``.
    n_draws, random_state
        As for `coefficient_draws`.

    Returns
    -------
    model : marginaleffects.classes.ModelAbstract
        For ``avg_slopes``, ``avg_comparisons``, ``avg_predictions``, ``hypotheses`` and others. Pass
        ``newdata`` for other public rows.

    Raises
    ------
    ImportError
        If marginaleffects is not installed.
    ValueError
        If the rows are no table, or if ``categorical`` names none of their columns.
    TypeError
        If the estimator has no coefficients.

    See Also
    --------
    average_marginal_effects : The same effects from the draws themselves.

    Notes
    -----
    marginaleffects 0.6 compares levels of categories with polars 1 only: of polars 2 it needs what that no
    longer has. `average_marginal_effects` compares them with either.
    """
    model = linear_model_of(estimator)
    model._posterior.warn_unless_calibrated()
    kind = _posterior_model()
    draws = draws_of(model, n_draws, random_state)
    frame = public_frame(X_public, estimator)
    codes = [
        name for name in codes_of(estimator, frame, categorical) if is_numeric_column(frame[name])
    ]
    return kind(estimator, model, draws, frame, response, codes)


@cache
def _posterior_model():
    """The class that marginaleffects sees; raises an ImportError without that package."""
    try:
        import polars as pl
        from marginaleffects.classes import ModelAbstract, ModelVault
    except ImportError as error:
        raise ImportError(
            "to_marginaleffects requires marginaleffects: pip install 'skdpbayes[marginaleffects]'"
        ) from error

    class PosteriorModel(ModelAbstract):
        """Coefficients in one vector, and mean responses as functions of it."""

        def __init__(self, estimator, model, draws, frame, response, codes):
            self._estimator, self._shape = estimator, draws.shape[1:]
            self._codes = codes
            self._law = _law_of(model, draws.shape[1])
            flat = draws.reshape(len(draws), -1)
            names = append_intercept(model._column_names(), draws.shape[2])
            if draws.shape[1] > 1:
                names = [f"{name}[{label}]" for label in model.classes_ for name in names]
            references = _references(estimator)
            vault = ModelVault(
                coef=flat.mean(axis=0),
                coefnames=np.asarray(names),
                formula="",  # Names of variables are given, below.
                vcov=np.atleast_2d(np.cov(flat.T)),
                modeldata=pl.DataFrame(
                    {
                        name: _column(pl, frame[name], name in codes, references.get(name))
                        for name in frame
                    }
                ),
                package="skdpbayes",
                variable_names=[response, *frame.columns],
            )
            super().__init__(model, vault)
            # Without a formula, none are found.
            self.vault.variables_type = {
                name: "character" if name in codes else _kind(frame[name]) for name in frame
            }

        def get_exog(self, newdata):
            rows = newdata.select(self.find_predictors())
            # Codes travel as text, and are numbers to the model.
            rows = rows.with_columns(
                pl.col(self._codes).cast(pl.String).cast(pl.Float64, strict=False)
            )
            frame = public_frame(rows, self._estimator)
            return design_of(self._estimator, self.model, frame)

        def get_autodiff_args(self):
            # The formulas of families that marginaleffects differentiates exactly.
            return _FORMULAS[self._law]

        def get_predict(self, params, newdata):
            draw = np.reshape(params, (1, *self._shape))
            means = responses(self.model, draw, newdata)[:, 0]
            places = np.arange(len(means), dtype=np.int32)
            if means.shape[1] == 1:
                return pl.DataFrame({"rowid": places, "estimate": means[:, 0]})
            labels = [str(label) for label in self.model.classes_]
            return pl.DataFrame(
                {
                    "rowid": np.tile(places, len(labels)),
                    "group": np.repeat(labels, len(means)),
                    "estimate": means.T.ravel(),
                }
            )

    return PosteriorModel


def _law_of(model, n_blocks):
    if hasattr(model, "classes_"):
        return "classes" if n_blocks > 1 else "two classes"
    return "count" if model._reads_counts else "number"


def _kind(column):
    """The name that marginaleffects has for the type of a column."""
    if not is_numeric_column(column):
        return "character"
    return "binary" if is_binary(column) else "numeric"


def _column(pl, column, is_code, reference):
    """A column for polars; categories have the same order as in `average_marginal_effects`."""
    if is_numeric_column(column) and not is_code:
        return pl.Series(column.name, column.tolist())
    texts = [
        None if lost else str(value) for value, lost in zip(column, column.isna(), strict=True)
    ]
    levels = pl.Enum(list(map(str, sorted_levels(column, reference))))
    return pl.Series(column.name, texts, dtype=levels)
