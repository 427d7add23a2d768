"""A Pipeline whose private steps share one budget, with warnings about steps that may leak.

plan (public numbers) -> reserve the whole budget -> fit the steps, each with its part
"""

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline, _name_estimators
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import MetadataRouter
from sklearn.utils.validation import _num_samples

from .._checks import check_sizes
from .._estimator.persons import check_groups, choose_rows
from .._silence import silently
from .._typing import MatrixLike
from ..exceptions import PrivacyLeakWarning
from ..privacy.ledger import prepaid, reserve
from ._leaks import leaks
from ._plan import PipelinePlan, plan_pipeline


class PrivatePipeline(Pipeline):
    """A scikit-learn Pipeline with one budget for all of its private steps.

    A fit sets ``epsilon`` and ``delta`` of every spending step, including those inside a
    ``ColumnTransformer``, a ``FeatureUnion`` or a ``Pipeline``. Earlier steps get their shares, and the last
    one gets the rest.

    Parameters
    ----------
    steps : list of (str, estimator)
        As for scikit-learn's Pipeline.
    epsilon : float, default=1.0
        Upper limit of the privacy loss of all steps together.
    delta : float, default=None
        None is ``min(1e-5, 1 / (10 n))``.
    shares : dict of {str: float}, default=None
        Share of the squared ``mu`` (of epsilon, if delta is 0) for each spending step, by name; names of
        inner steps are joined by ``__``. The last step may be left out. None gives four fifths to the last
        step, and divides the rest among the others in proportion to their numbers of columns.
    strict : bool, default=False
        Whether steps that may leak raise an error instead of a warning.
    max_rows_per_group : int, default=None
        With ``fit(X, y, groups=...)``, protects persons instead of rows, and uses at most this many rows of
        each person, chosen at random and the same in all steps. The costs that steps report themselves are
        then for rows.
    memory, verbose
        As for scikit-learn's Pipeline.

    Attributes
    ----------
    plan_ : PipelinePlan
        What the fit did.
    privacy_cost_ : PrivacyCost
        Cost of all steps together.
    spent_epsilon_, spent_delta_ : float
        The cost as numbers.
    """

    def __init__(
        self,
        steps: list[tuple[str, Any]],
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        shares: dict[str, float] | None = None,
        strict: bool = False,
        max_rows_per_group: int | None = None,
        memory: Any = None,
        verbose: bool = False,
    ):
        super().__init__(steps, memory=memory, verbose=verbose)
        self.epsilon = epsilon
        self.delta = delta
        self.shares = shares
        self.strict = strict
        self.max_rows_per_group = max_rows_per_group

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the routing of metadata: ``groups`` to the pipeline itself, others to its steps."""
        return super().get_metadata_routing().add_self_request(self)

    def privacy_plan(self, n_samples: int, n_features: int) -> PipelinePlan:
        """Return what a fit would do and cost, without any data.

        Parameters
        ----------
        n_samples : int
            Number of rows; of persons, with ``max_rows_per_group``.
        n_features : int
            Number of columns.

        Returns
        -------
        plan : PipelinePlan

        Raises
        ------
        ValueError
            If no step is private, or if a number of columns that is needed is not known beforehand.
        """
        check_sizes(n_samples=n_samples, n_features=n_features)
        return plan_pipeline(self, n_samples, n_features)

    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        **params: Any,
    ) -> Self:
        """Fit all steps within the budget.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,), default=None
            The person each row belongs to; required with ``max_rows_per_group``.
        **params : dict
            Passed to the steps, as in scikit-learn's Pipeline.

        Returns
        -------
        self : PrivatePipeline

        Warns
        -----
        PrivacyLeakWarning
            If a step may learn from the rows without noise.
        UserWarning
            If ``data_norm`` of the last step is much larger than the norm of any row that can reach it.

        Raises
        ------
        ValueError
            If a step may leak and ``strict`` is set, or if the budget cannot be split. Nothing is spent.
        BudgetExceededError
            If an active `PrivacyLedger` does not allow the cost. Nothing is spent.
        """
        self._report_leaks(issparse(X))
        n_columns = X.shape[1] if hasattr(X, "shape") else len(X[0])
        table = X if hasattr(X, "shape") else None
        persons = check_groups(groups, self.max_rows_per_group, _num_samples(X))
        n_samples = _num_samples(X) if persons is None else int(persons.max()) + 1
        plan = plan_pipeline(self, n_samples, n_columns, table)
        for text in plan.warnings:
            warnings.warn(text, UserWarning, stacklevel=2)
        if persons is not None:
            if params:
                raise ValueError(
                    f"{sorted(params)} cannot be used together with groups: leave out one of them."
                )
            kept = choose_rows(persons, self.max_rows_per_group, None)
            X, y = _safe_indexing(X, kept), None if y is None else _safe_indexing(y, kept)
        for path, (epsilon, delta) in plan.steps.items():
            self.set_params(**{f"{path}__epsilon": epsilon, f"{path}__delta": delta})
        reservations = reserve(plan, type(self).__name__)
        try:
            with prepaid(), silently():
                super().fit(X, y, **params)
            self._check_charge(plan)
        except BaseException as error:
            reservations.close("failed")
            error.add_note(
                f"The whole plan of the pipeline counts as spent, whichever step failed: epsilon = "
                f"{plan.epsilon:.4g} at delta = {plan.delta:.3g}, and nothing beyond."
            )
            raise
        reservations.close("completed")
        self.plan_ = plan
        self.privacy_cost_ = plan.cost
        self.spent_epsilon_ = plan.epsilon
        self.spent_delta_ = plan.delta
        return self

    def fit_transform(self, X: MatrixLike, y: ArrayLike | None = None, **params: Any) -> MatrixLike:
        """Fit, and transform the same rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        **params : dict

        Returns
        -------
        Xt : ndarray
        """
        return self.fit(X, y, **params).transform(X)

    def fit_predict(self, X: MatrixLike, y: ArrayLike | None = None, **params: Any) -> np.ndarray:
        """Fit, and predict the same rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        **params : dict

        Returns
        -------
        y_pred : ndarray
        """
        return self.fit(X, y, **params).predict(X)

    def _report_leaks(self, is_sparse):
        found = leaks(Pipeline(self.steps), is_sparse)
        if found and self.strict:
            raise ValueError(f"{' '.join(found)} Nothing was read.")
        for text in found:
            warnings.warn(
                f"{text} The pipeline's epsilon does not cover it.",
                PrivacyLeakWarning,
                stacklevel=3,
            )

    def _check_charge(self, plan):
        """Raise if the last step's cost, now that its columns are known, does not have the planned form."""
        cost, charged = getattr(self.steps[-1][1], "privacy_cost_", None), plan.final_cost
        if cost is None or charged.is_nothing or not (charged.is_gaussian or charged.bits):
            return
        ranges = [[bit.log_odds_range for bit in one.bits] for one in (cost, charged)]
        only = replace(cost, bits=()).is_gaussian and len(ranges[0]) == len(ranges[1])
        if not (only and cost.mu <= charged.mu and ranges[0] <= ranges[1]):
            raise RuntimeError(
                "the cost of the last step does not have the planned form: set its sampler, or give public "
                "lists of categories. The budget is spent."
            )


def make_private_pipeline(
    *steps: Any,
    epsilon: float = 1.0,
    delta: float | None = None,
    shares: dict[str, float] | None = None,
    strict: bool = False,
    max_rows_per_group: int | None = None,
    memory: Any = None,
    verbose: bool = False,
) -> PrivatePipeline:
    """Make a pipeline whose private steps share one budget; steps are named as in `make_pipeline`.

    Parameters
    ----------
    *steps : estimators
    epsilon, delta, shares, strict, max_rows_per_group, memory, verbose
        As for `PrivatePipeline`.

    Returns
    -------
    pipeline : PrivatePipeline

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.pipeline import make_private_pipeline
    >>> from skdpbayes.preprocessing import DPImputer, DPQuantileScaler
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(1e4, 2e3, (5000, 3))
    >>> y = (X[:, 0] > 1e4).astype(int)
    >>> X[::7, 1] = np.nan
    >>> clf = make_private_pipeline(
    ...     DPQuantileScaler(random_state=0),
    ...     DPImputer(),
    ...     DPBayesianLogisticRegression(classes=[0, 1], random_state=0),
    ...     epsilon=1.0,
    ... ).fit(X, y)
    >>> 0.99 < clf.spent_epsilon_ <= 1.0, clf.score(X, y) > 0.9
    (True, True)
    """
    return PrivatePipeline(
        _name_estimators(steps),
        epsilon=epsilon,
        delta=delta,
        shares=shares,
        strict=strict,
        max_rows_per_group=max_rows_per_group,
        memory=memory,
        verbose=verbose,
    )
