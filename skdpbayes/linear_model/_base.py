"""What estimators of linear models share: the model of their parameters, and a fit.

validate -> LinearModel -> plan of its bounds -> draws from its target -> means
"""

from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from .._arguments import Interval
from .._data.read import read_table
from .._estimator.base import (
    POSTERIOR_CONSTRAINTS,
    PrivatePosteriorMixin,
    charge_and_release_bounds,
)
from .._estimator.model_checks import low_ess_warnings, model_checks
from .._estimator.summaries import CoefficientsMixin
from .._typing import MatrixLike
from ..models.linear import LinearModel
from ..privacy.deferred_warnings import warn, warns_last

LINEAR_CONSTRAINTS = {
    **POSTERIOR_CONSTRAINTS,
    "prior_scale": [None, Interval(Real, 0, None, closed="neither")],
    "intercept_prior_scale": [None, Interval(Real, 0, None, closed="neither")],
    "fit_intercept": ["boolean"],
    "intercept_scaling": [None, Interval(Real, 0, None, closed="neither")],
    "max_sample_weight": [Interval(Real, 1e-9, 1e9, closed="both")],
}


class PrivateLinearMixin(CoefficientsMixin, PrivatePosteriorMixin):
    """For private posteriors with ``_family(*sizes)`` and ``_largest_weight(max_sample_weight, *sizes)``.

    ``sizes`` is the number of classes of a classifier, and nothing otherwise.
    """

    coef_: np.ndarray
    fit_intercept: bool
    intercept_: Any
    max_sample_weight: float
    _reads_collections = True

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # From public quantities

    def _model(self, n_features, *sizes, max_sample_weight=None):
        """The `LinearModel`; weights have a maximum if they are passed."""
        constant: Literal["short", "equal"] | float = "short"
        if self._sampler().wants_equal_precisions:
            constant = "equal"
        if not self.fit_intercept:
            constant = 0.0
        elif self.intercept_scaling is not None:
            constant = float(self.intercept_scaling)
        return LinearModel(
            family=self._family(*sizes),
            n_features=n_features,
            norm=self._clip_norm(n_features),
            prior_scale=self.prior_scale,
            intercept_prior_scale=self.intercept_prior_scale,
            constant=constant,
            max_weight=self._largest_weight(max_sample_weight, *sizes),
        )

    def _plan(self, n_samples, n_features, *sizes, max_sample_weight=None):
        model = self._model(n_features, *sizes, max_sample_weight=max_sample_weight)
        return self._plan_for_model(model, n_samples)

    def _plan_for_model(self, model, n_samples):
        return self._plan_within_budget(model.bounds(), self._public_size(n_samples))

    # From the table

    def _read(self, X, y=None, sample_weight=None, groups=None, client=None, **options):
        self._validate_params()
        return read_table(self, X, y, sample_weight, groups, client, **options)

    @warns_last
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        client: Any = None,
    ) -> Self:
        """Draw from the posterior, within the budget.

        Parameters
        ----------
        X : {array-like, sparse matrix, Dask array or data frame} of shape (n_samples, n_features)
            Rows longer than ``data_norm`` are clipped to it. CSR stays sparse, float32 stays float32, and a
            memory-mapped array is read in place.
        y : array-like of shape (n_samples,)
            Labels of a classifier, responses of a regressor.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, from 0 to ``max_sample_weight``; as private as the rows.
        groups : array-like of shape (n_samples,), default=None
            The person each row belongs to; required with ``max_rows_per_group``.
        client : distributed.Client or None, default=None
            Dask client for collections. None uses the current client, or this process if there is none.

        Returns
        -------
        self : estimator
            Fitted.

        Raises
        ------
        ValueError
            If a parameter or the table is invalid, or if the options contradict each other. Nothing
            is spent.
        BudgetExceededError
            If an active `PrivacyLedger` does not allow the plan. Nothing is spent.
        """
        return self._fit(X, y, sample_weight, groups, client)

    def _fit(self, X, y, sample_weight, groups, client, **options):
        """Do what `fit` does; ``options`` are for `read_table`."""
        largest = None if sample_weight is None else float(self.max_sample_weight)
        with self._read(X, y, sample_weight, groups, client, **options) as table:
            model = self._model(table.n_features, *table.sizes, max_sample_weight=largest)
            plan = self._plan_for_model(model, table.n_samples)
            with charge_and_release_bounds(self, plan, table, model, model.at_norm) as (
                model,
                plan,
            ):
                draws = self._run_plan(
                    table.target(model.target_of, model.remote), plan, model.in_blocks
                )
        warnings = low_ess_warnings(draws, self.plan_)
        warnings += model_checks(draws, model, self.plan_, self.released_, self._column_names())
        for text in warnings:
            warn(text, ConvergenceWarning)
        self.data_norm_ = model.norm
        self.posterior_samples_ = draws = draws + self._origin()
        mean = draws.mean(axis=0)
        coefficients = mean[:, : model.n_features].copy()
        intercept = mean[:, -1].copy() if self.fit_intercept else np.zeros(len(mean))
        if table.classes is None:
            coefficients, intercept = coefficients[0], float(intercept[0])
        else:
            self.classes_ = table.classes
        self.coef_, self.intercept_ = coefficients, intercept
        return self
