"""A private pipeline whose columns, and whose response, a formula names.

table -> columns of the formula -> model;   the response is a column of the table, too
"""

from typing import Any, Self

from numpy.typing import ArrayLike

from .._arguments import is_number
from .._errors import column_names, to_native
from .._estimator.model_checks import NotedColumn
from .._estimator.summaries import with_notes
from .._typing import MatrixLike
from ..preprocessing import FormulaEncoder
from ..preprocessing._factors import Missing
from ..preprocessing.formula import parsed
from ..privacy.deferred_warnings import warn, warns_last
from ._pipeline import PrivatePipeline
from ._plan import PipelinePlan


class FormulaPipeline(PrivatePipeline):
    """A private pipeline that takes its response from the table; made by ``from_formula`` of an estimator.

    Parameters
    ----------
    steps : list of (str, estimator)
        As for `PrivatePipeline`: a `FormulaEncoder` and a model.
    response : str or None, default=None
        Column of the table that is the response, where ``y`` is not given.
    epsilon, delta, shares, strict, learns_nothing, max_rows_per_group, memory, verbose
        As for `PrivatePipeline`.

    Attributes
    ----------
    plan_, privacy_cost_, spent_epsilon_, spent_delta_
        As for `PrivatePipeline`.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> people = pd.DataFrame({"age": rng.uniform(18, 90, 5000)})
    >>> people["agrees"] = rng.random(5000) < people["age"] / 100
    >>> model = DPBayesianLogisticRegression.from_formula(
    ...     "agrees ~ bounded(age, 18, 90)", epsilon=1.0, random_state=0
    ... ).fit(people)
    >>> list(model.coef_table().index)
    ['age', 'intercept']
    """

    def __init__(
        self,
        steps: list[tuple[str, Any]],
        *,
        response: str | None = None,
        epsilon: float = 1.0,
        delta: float | None = None,
        shares: dict[str, float] | None = None,
        strict: bool = False,
        learns_nothing: list[str] | None = None,
        max_rows_per_group: int | None = None,
        memory: Any = None,
        verbose: bool = False,
    ):
        super().__init__(
            steps,
            epsilon=epsilon,
            delta=delta,
            shares=shares,
            strict=strict,
            learns_nothing=learns_nothing,
            max_rows_per_group=max_rows_per_group,
            memory=memory,
            verbose=verbose,
        )
        self.response = response

    def privacy_plan(self, n_samples: int, n_features: int | None = None) -> PipelinePlan:
        """The plan of a fit, what it would do and cost, without any data.

        Parameters
        ----------
        n_samples : int
            Number of rows; of persons, with ``max_rows_per_group``.
        n_features : int, default=None
            Number of columns of the table. None are those that the formula names; others change nothing.

        Returns
        -------
        plan : PipelinePlan
            Printed, it has the lines of the model's own plan, too.

        Raises
        ------
        ValueError
            If a parameter is wrong, or if the formula is not understood.
        """
        if n_features is None:
            n_features = len(self.steps[0][1].columns)
        return super().privacy_plan(n_samples, n_features)

    @warns_last
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Fit the model of the formula within the budget.

        Parameters
        ----------
        X : data frame of shape (n_samples, n_columns)
            With the columns that the formula names, and any others.
        y : array-like of shape (n_samples,), default=None
            None takes the response from the table.
        groups, **params
            As for `PrivatePipeline.fit`, such as ``model__sample_weight``.

        Returns
        -------
        self : FormulaPipeline

        Raises
        ------
        ValueError, TypeError
            As `PrivatePipeline.fit`, if the table lacks a column, or if the formula has been changed to one
            with another response, or with a constant where the model has none. Nothing is spent.
        BudgetExceededError
            If an active `PrivacyLedger` does not allow the cost. Nothing is spent.
        """
        self._check_formula()
        return super().fit(X, self._response(X, y), groups, **params)

    def score(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        **params: Any,
    ) -> float:
        """Score of the model, without noise: for public rows.

        Parameters
        ----------
        X : data frame of shape (n_samples, n_columns)
        y : array-like of shape (n_samples,), default=None
            None takes the response from the table.
        sample_weight, **params
            As for scikit-learn's pipelines.

        Returns
        -------
        score : float
        """
        return super().score(X, self._response(X, y), sample_weight, **params)

    def _check_formula(self):
        """Refuse a formula that says otherwise than pipeline and model: each can be set alone."""
        (_, encoder), (_, model) = self.steps[0], self.steps[-1]
        if not isinstance(encoder, FormulaEncoder):
            return
        response, _, constant = parsed(encoder.formula)
        if None not in (response, self.response) and response != self.response:
            raise ValueError(
                f"the formula's response is {response!r}, and the pipeline's is {self.response!r}: make a "
                "new model with from_formula."
            )
        if constant != getattr(model, "fit_intercept", constant):
            raise ValueError(
                f"the formula has {'a' if constant else 'no'} constant, and fit_intercept="
                f"{model.fit_intercept}: write '0 + ...' in a formula without one, and make a new model with "
                "from_formula."
            )
        encoder._check_constant(constant)
        norm: Any = getattr(model, "data_norm", None)
        if len(self.steps) == 2 and is_number(norm) and norm < encoder.norm * (1 - 1e-9):
            warn(
                f"data_norm={norm:.4g} is below {encoder.norm:.4g}, the length of the formula's longest row: "
                "longer rows are clipped. Leave data_norm to from_formula, unless this is meant."
            )

    @property
    def _ledger_label(self):
        """The response and the columns of each term, by which ledgers call a fit."""
        encoder = self.steps[0][1]
        if not isinstance(encoder, FormulaEncoder):
            return None
        terms = (
            ":".join(
                name
                for factor in term
                for name in (factor.names if isinstance(factor, Missing) else factor.columns)
            )
            for term in encoder._terms()
        )
        label = f"{self.response or ''} ~ {' + '.join(dict.fromkeys(terms))}".strip()
        return label if label.isprintable() else None

    def _from_last(self, name, *args):
        found, encoder = super()._from_last(name, *args), self.steps[0][1]
        if name in ("summary", "coef_table") and isinstance(encoder, FormulaEncoder):
            model, indicators = self._final_estimator, encoder._indicator_names()
            columns = [
                NotedColumn(name, is_indicator=name in indicators)
                for name in map(str, model._column_names())
            ]
            with_notes(found, (*model._notes_on(columns), *encoder._notes()))
        return found

    def _fit_without_outcome(self):
        if self.response is None:
            return super()._fit_without_outcome()
        filled, known = (
            f"table.fillna({{{self.response!r}: 0}})",
            f"table[{self.response!r}].notna()",
        )
        return f"fit({filled}, {self.steps[-1][0]}__sample_weight={known})"

    def _response(self, X, y):
        if y is not None or self.response is None:
            return y
        X = to_native(X, "X")
        names = column_names(X)
        if names is None:
            raise TypeError("a formula needs a data frame, whose columns have names.")
        if names.count(self.response) != 1:
            raise ValueError(
                f"X has no column {self.response!r} (or several), which is the response."
            )
        return X[self.response]
