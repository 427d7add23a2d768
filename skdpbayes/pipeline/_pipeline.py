"""A Pipeline whose private steps share one budget, with warnings about steps that may leak.

plan (public numbers) -> rehearse -> reserve the whole budget -> fit the steps, each with its part
"""

from contextlib import contextmanager
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter
from sklearn.utils.metaestimators import available_if

from .._checks import check_sizes, table_shape
from .._tables.collections import header_of, is_collection
from .._tables.order import rows_compared
from .._typing import MatrixLike
from ..exceptions import PrivacyLeakWarning, PrivacyWarning
from ..privacy.deferred_warnings import warn, warns_last
from ..privacy.release import keep_spent
from ..privacy.reserve import charges_beside, reserve
from ..privacy.vouchers import vouchers
from ..random import announce_seed, has_seeds
from ._account import about_of_private, account_of_private
from ._arguments import check_arguments
from ._collections import OnPartitions, fit_steps
from ._leaks import (
    leaks,
    paths_without_budget,
    refuse_learning,
    refuse_selections_by_rows,
    refuse_tools,
)
from ._names import names_within, tell_names
from ._persons import rows_of_persons
from ._plan import PipelinePlan, plan_pipeline, seed_of
from ._predictions import CoefficientsOfLastMixin, PredictionsMixin
from ._rehearsal import rehearse
from ._steps_of_persons import settings_for_persons
from ._told import tell, tell_of_steps


def _transforms(pipeline):
    last = pipeline._final_estimator
    return last == "passthrough" or hasattr(last, "transform")


def _predicts(pipeline):
    return hasattr(pipeline._final_estimator, "predict")


class PrivatePipeline(CoefficientsOfLastMixin, PredictionsMixin, Pipeline):
    """A scikit-learn Pipeline with one budget for all of its private steps.

    Where public steps bound the length of rows, as scalers and encoders do, a fit gives this bound to a last
    step whose ``data_norm`` is None; one that is set wins.

    During a fit, every spending step has its part of the budget as ``epsilon`` and ``delta``, including those
    inside a ``ColumnTransformer``, a ``FeatureUnion`` or a ``Pipeline``. Earlier steps get their shares, and
    the last one gets the rest. What a step would refuse is refused before anything is charged, as far as it
    is known without a release.

    Parameters
    ----------
    steps : list of (str, estimator)
        As for scikit-learn's Pipeline. Leave ``epsilon`` and ``delta`` of steps at their defaults; others
        are refused.
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
    learns_nothing : list of str, default=None
        Names of steps for which you vouch: they learn nothing from these rows, and transform each row by
        itself and in its place. An example is a ``FrozenEstimator`` that was fitted on public rows. Names of
        inner steps are joined by ``__``.
    max_rows_per_group : int, default=None
        With ``fit(X, y, groups=...)``, protects persons instead of rows, and uses at most this many rows of
        each person, chosen at random and the same in all steps. Steps are then planned and fitted for what a
        person's rows may do: with more than one, the number of rows is private, and steps are fitted under
        "add_or_remove_one". Quantiles, before the last step, are then of one row of each person. The seed of
        the last step that is charged, if there is one, decides which rows are chosen. The costs that steps
        report themselves are for rows.
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

    predict = OnPartitions()
    predict_proba = OnPartitions()
    predict_log_proba = OnPartitions()
    decision_function = OnPartitions()
    score_samples = OnPartitions()
    transform = OnPartitions()
    score = OnPartitions(lazily=False)

    _parameter_constraints = {
        **Pipeline._parameter_constraints,
        "strict": ["boolean"],
        "learns_nothing": [None, list, tuple],
    }

    def __init__(
        self,
        steps: list[tuple[str, Any]],
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        shares: dict[str, float] | None = None,
        strict: bool = False,
        learns_nothing: list[str] | None = None,
        max_rows_per_group: int | None = None,
        memory: Any = None,
        verbose: bool = False,
    ):
        super().__init__(steps, memory=memory, verbose=verbose)
        self.epsilon = epsilon
        self.delta = delta
        self.shares = shares
        self.strict = strict
        self.learns_nothing = learns_nothing
        self.max_rows_per_group = max_rows_per_group

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        steps = [step for _, step in self.steps if hasattr(step, "__sklearn_tags__")]
        tags.non_deterministic = any(get_tags(step).non_deterministic for step in steps)
        return tags

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
        self._check_parameters()
        check_sizes(n_samples=n_samples, n_features=n_features)
        return plan_pipeline(self, n_samples, n_features)

    def _about(self):
        return about_of_private(self)

    def _privacy_account(self):
        if not hasattr(self, "plan_"):
            raise NotFittedError(
                "this pipeline is not fitted: fit it, or report its plan, "
                "privacy_report(pipeline.privacy_plan(n_samples, n_features))."
            )
        return account_of_private(self)

    def _check_parameters(self):
        self._validate_params()
        if not all(isinstance(step, tuple | list) and len(step) == 2 for step in self.steps):
            raise TypeError(
                "steps must be a list of (name, estimator), such as [('scale', DPQuantileScaler()), ...]: "
                "make_private_pipeline(DPQuantileScaler(), ...) finds names by itself."
            )
        for _, step in self.steps:  # Before scikit-learn says that a sampler does not transform.
            refuse_tools(step)
        self._validate_steps()
        paths = paths_without_budget(self)
        if unknown := sorted(set(self.learns_nothing or ()) - set(paths)):
            raise ValueError(
                f"learns_nothing names {unknown}, but the steps without a budget are {paths}."
            )

    @warns_last
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
            Passed to the steps, as in scikit-learn's Pipeline, such as ``model__sample_weight``. Where rows
            of persons are chosen, they bring theirs along.

        Returns
        -------
        self : PrivatePipeline

        Warns
        -----
        PrivacyLeakWarning
            If a step may learn from the rows without noise.
        UserWarning
            What the plan warns of: of steps whose part of the budget is too small for the rows, or if a
            ``data_norm`` that is set is much larger than the norm of any row that can reach the last step.
            What fitted steps warn of comes last, after their names.

        Raises
        ------
        ValueError, TypeError
            If a step may leak and ``strict`` is set, if the budget cannot be split, or if a step would refuse
            its rows or labels, as far as that is known before a release. Nothing is spent.
        BudgetExceededError
            If an active `PrivacyLedger` does not allow the cost. Nothing is spent.
        """
        self._check_parameters()
        check_arguments(self, params, X, y)
        n_rows, n_columns = table_shape(X)
        found = self._report_leaks(issparse(X))
        if is_collection(X):
            refuse_learning(self)
        limit, header = self.max_rows_per_group, header_of(X)
        seed = partial(seed_of, self, n_columns, header)
        n_samples, chosen = rows_of_persons(X, y, groups, params, limit, n_rows, seed)
        if not is_collection(X):  # Whose header is all that selects.
            refuse_selections_by_rows(self, X, header)
        plan = plan_pipeline(self, n_samples, n_columns, header).changed(leaks=tuple(found))
        tell(plan, self.get_params())
        if is_collection(X):
            from .._tables.dask.partitions import refuse_other_order_in_parts

            refuse_other_order_in_parts(X, y=y, **params)
        # Partitions of groups are compared only where rows are taken.
        with self._parts_of_budget(plan), rows_compared(not is_collection(X)):
            # All rows, also those that would not be chosen.
            rehearse(Pipeline(self.steps), X, y, params, self.learns_nothing or ())
            X, y, params, firsts = chosen()
            beside = self._fit_within(plan, X, y, params, firsts)
        keep_spent(self, plan)
        if beside:
            self._add_to_spent(beside)
        tell_names(self)
        tell_of_steps(self, plan)
        return self

    @available_if(_transforms)
    def fit_transform(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        **params: Any,
    ) -> MatrixLike:
        """Fit, and transform the same rows. Only if the last step transforms.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,), default=None
        **params : dict

        Returns
        -------
        Xt : ndarray
            All rows, also those that were not chosen from their person's.
        """
        return self.fit(X, y, groups, **params).transform(X)

    @available_if(_predicts)
    def fit_predict(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        **params: Any,
    ) -> np.ndarray:
        """Fit, and predict the same rows. Only if the last step predicts.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,), default=None
        **params : dict

        Returns
        -------
        y_pred : ndarray
        """
        return self.fit(X, y, groups, **params).predict(X)

    @contextmanager
    def _parts_of_budget(self, plan):
        """Give all spending steps their parts, and then their own parameters: a fit changes none."""
        steps = self.get_params()
        given = [(steps[path], part) for path, part in plan.steps.items()]
        own = []
        for step, (epsilon, delta) in given:
            settings = {"epsilon": epsilon, "delta": delta}
            if plan.persons is not None:
                of_rows = plan.budget.neighboring_relation, plan.n_samples, plan.persons.max_rows
                settings |= settings_for_persons(step, *of_rows)
            if plan.data_norm is not None and step is given[-1][0]:
                settings["data_norm"] = plan.data_norm
            own.append((step, {name: getattr(step, name) for name in settings}))
            step.set_params(**settings)
        try:
            yield
        finally:
            # A fit may have put fitted copies in the places of steps.
            steps = self.get_params()
            for (step, values), path in zip(own, plan.steps, strict=True):
                for one in (step, steps[path]):
                    one.set_params(**values)

    def _fit_within(self, plan, X, y, params, firsts):
        """Charge a plan, and fit the steps."""
        if has_seeds(self):
            announce_seed()
        reservations = reserve(plan, self)
        try:
            paid = vouchers(self._paid_steps(plan, firsts))
            with charges_beside() as beside, paid, names_within(self):
                if is_collection(X):
                    fit_steps(self, X, y, params)
                else:
                    super().fit(X, y, **params)
        except BaseException as error:
            reservations.close("failed")
            error.add_note(
                f"The whole plan of the pipeline counts as spent, whichever step failed: epsilon = "
                f"{plan.epsilon:.4g} at delta = {plan.delta:.3g}."
            )
            raise
        reservations.close("completed")
        return beside

    def _add_to_spent(self, costs):
        """Add what a step was charged that fits more often than the plan says, as ledgers do."""
        spent = self.plan_.cost
        for cost in costs:
            spent = spent + cost
        self.privacy_cost_ = spent
        self.spent_epsilon_ = spent.epsilon(self.plan_.delta)
        warn(
            f"A step made {len(costs)} private fits that the pipeline's plan does not contain. They were "
            f"charged, too: spent_epsilon_ = {self.spent_epsilon_:.4g} instead of {self.plan_.epsilon:.4g}. "
            "Put private estimators directly into the pipeline, and let each fit once.",
            PrivacyWarning,
        )

    def _report_leaks(self, is_sparse):
        found = leaks(self, is_sparse)
        if found and self.strict:
            raise ValueError(f"{' '.join(found)} Nothing was read.")
        for text in found:
            warn(f"{text} The pipeline's epsilon does not cover it.", PrivacyLeakWarning)
        return found

    def _paid_steps(self, plan, firsts):
        """Return the private steps of a plan, each with what is charged for it, and the rows it may read."""
        steps = self.get_params()
        return [
            (steps[path], cost, firsts if path in plan.of_one_row else None)
            for path, cost in plan.costs.items()
        ]
