"""A Pipeline whose private steps share one budget, and which says what may leak.

plan (public numbers) -> reserve the whole -> fit the steps, each with its part
"""

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline, _name_estimators
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from .._checks import check_sizes
from .._estimator.persons import check_groups, choose_rows
from .._typing import MatrixLike
from ..exceptions import PrivacyLeakWarning
from ..privacy.ledger import prepaid, reserve
from ._leaks import leaks
from ._plan import plan_pipeline


class PrivatePipeline(Pipeline):
    """A scikit-learn Pipeline with one budget for all of its private steps.

    A fit sets ``epsilon`` and ``delta`` of every spending step, also inside a ``ColumnTransformer``, a
    ``FeatureUnion`` or a ``Pipeline``: earlier steps get their shares, and the last one all that is left.

    Parameters
    ----------
    steps : list of (str, estimator)
        As for scikit-learn's Pipeline.
    epsilon : float, default=1.0
        What all steps may spend together.
    delta : float, default=None
        None takes ``min(1e-5, 1 / (10 n))``.
    shares : dict of {str: float}, default=None
        Shares of the squared ``mu`` (of epsilon, if delta is 0) of the spending steps, by their names, those
        of inner steps joined by ``__``. The last step may be left out. None gives it four fifths, and the
        others the rest in proportion to their columns.
    strict : bool, default=False
        Whether steps that may leak are an error, and not a warning.
    max_rows_per_group : int, default=None
        With ``fit(X, y, groups=...)`` the budget is for persons, each with all rows. At most so many of these
        are used, chosen at random, the same by all steps. What steps report of themselves is for rows then.
    memory, verbose
        As for scikit-learn's Pipeline.

    Attributes
    ----------
    plan_ : PipelinePlan
        What the fit did.
    privacy_cost_ : PrivacyCost
        What all steps spent together.
    spent_epsilon_, spent_delta_ : float
        The cost as numbers.
    """

    def __init__(
        self,
        steps: Any,
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

    def get_metadata_routing(self) -> Any:
        """Return how metadata are routed: ``groups`` to the pipeline itself, others to its steps."""
        return super().get_metadata_routing().add_self_request(self)

    def privacy_plan(self, n_samples: int, n_features: int) -> Any:
        """Return what a fit would do and cost, without any data.

        Parameters
        ----------
        n_samples : int
            Number of rows; of persons, with ``max_rows_per_group``.
        n_features : int
            Columns that come in.

        Returns
        -------
        plan : PipelinePlan

        Raises
        ------
        ValueError
            If no step is private, or numbers of columns are not known beforehand.
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
            Passed on, as by scikit-learn's Pipeline.

        Returns
        -------
        self : PrivatePipeline

        Warns
        -----
        PrivacyLeakWarning
            If a step may learn from the rows without noise.
        UserWarning
            If ``data_norm`` of the last step is much longer than any row that can reach it.

        Raises
        ------
        ValueError
            The same with ``strict``; or if the budget cannot be split. Nothing is spent then.
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
                raise ValueError(f"{sorted(params)} cannot be given together with groups.")
            kept = choose_rows(persons, self.max_rows_per_group, None)
            X, y = _safe_indexing(X, kept), None if y is None else _safe_indexing(y, kept)
        for path, (epsilon, delta) in plan.steps.items():
            self.set_params(**{f"{path}__epsilon": epsilon, f"{path}__delta": delta})
        reservations = reserve(plan, type(self).__name__)
        try:
            with prepaid():
                super().fit(X, y, **params)
            self._check_charge(plan)
        except BaseException as error:
            reservations.close("failed")
            error.add_note(
                f"The pipeline's whole plan counts as spent, epsilon = {plan.epsilon:.4g} at delta = "
                f"{plan.delta:.3g}, whichever step failed; nothing beyond it is."
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
        """Raise if the last step, whose columns are known now, has a cost of another form than planned."""
        cost, charged = getattr(self.steps[-1][1], "privacy_cost_", None), plan.final_cost
        if cost is None or charged.is_nothing or not (charged.is_gaussian or charged.bits):
            return
        ranges = [[bit.log_odds_range for bit in one.bits] for one in (cost, charged)]
        only = replace(cost, bits=()).is_gaussian and len(ranges[0]) == len(ranges[1])
        if not (only and cost.mu <= charged.mu and ranges[0] <= ranges[1]):
            raise RuntimeError(
                "the last step's cost is of another form than was planned for it: fix its sampler, or give "
                "public lists of categories. The budget is spent."
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
) -> "PrivatePipeline":
    """Make a pipeline whose private steps share one budget; steps are named as by `make_pipeline`.

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
