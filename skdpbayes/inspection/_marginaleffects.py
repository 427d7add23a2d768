"""A posterior for the package marginaleffects: means of the draws as estimates, their covariance as variance.

    estimate = f(mean),      variance = J V J^T,  V the covariance of the draws

This delta method is close to what draws say where ``f`` is nearly straight within the posterior.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from .._estimator.coefficients import with_constant
from .._estimator.intervals import warn_unless_calibrated
from .._typing import MatrixLike, RandomStateLike
from ._draws import draws_of, linear_model_of
from ._effects import codes_of, design_of, is_binary, is_number, levels, public_frame, responses

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
    """Return a model that the functions of the package marginaleffects take.

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
    warn_unless_calibrated(model)
    kind = _posterior_model()
    draws = draws_of(model, n_draws, random_state)
    frame = public_frame(X_public, estimator)
    codes = [one for one in codes_of(estimator, frame, categorical) if is_number(frame[one])]
    return kind(estimator, model, draws, frame, response, codes)


@cache
def _posterior_model():
    """Return the class that marginaleffects sees, or raise an ImportError without that package."""
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
            names = with_constant(model._column_names(), draws.shape[2])
            if draws.shape[1] > 1:
                names = [f"{name}[{label}]" for label in model.classes_ for name in names]
            vault = ModelVault(
                coef=flat.mean(axis=0),
                coefnames=np.asarray(names),
                formula="",  # Names of variables are given, below.
                vcov=np.atleast_2d(np.cov(flat.T)),
                modeldata=pl.DataFrame(
                    {name: _column(pl, name, frame[name], name in codes) for name in frame}
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
    """Return what marginaleffects calls the type of a column."""
    if not is_number(column):
        return "character"
    return "binary" if is_binary(column) else "numeric"


def _column(pl, name, column, is_code):
    """Return a column for polars; categories have the same order as in `average_marginal_effects`."""
    if is_number(column) and not is_code:
        return pl.Series(name, column.tolist())
    texts = [None if lost else str(one) for one, lost in zip(column, column.isna(), strict=True)]
    return pl.Series(name, texts, dtype=pl.Enum(list(map(str, levels(column)))))
