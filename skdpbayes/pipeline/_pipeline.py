"""A Pipeline whose private steps share one budget, with warnings about steps that may leak.

plan (public numbers) -> dry_run -> charge the whole budget -> fit the steps, each with its part
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, _name_estimators
from sklearn.utils import _safe_indexing, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, _routing_enabled
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import (
    _check_method_params,
    check_is_fitted,
    check_memory,
    has_fit_parameter,
)

from .._arguments import check_sizes, table_shape
from .._data.collections import (
    header_of,
    is_collection,
    refuse_columns_in_other_order,
    rows_compared,
)
from .._data.privacy_units import check_groups, choose_with_firsts, count_persons, has_persons
from .._data.table import FIT_WITHOUT_OUTCOME
from .._errors import sanitize_errors
from .._typing import MatrixLike, RandomStateLike
from ..exceptions import PrivacyLeakWarning, PrivacyWarning
from ..privacy.charge import authorizations, charge, charges_beside
from ..privacy.deferred_warnings import warn, warns_last
from ..privacy.planned_release import set_privacy_attributes
from ..privacy.unsafe_callers import fitted_tree, step_tree
from ..random import announce_seed, has_seeds
from ._dry_run import dry_run, labels_of
from ._fit import OnPartitions, fit_steps, fit_within_limit, refusal, transformed
from ._plan import (
    PipelinePlan,
    emit_plan_warnings,
    plan_pipeline,
    seed_of,
    settings_for_persons,
    tell_of_steps,
)
from ._report import about_of_private, account_of_private
from ._steps import (
    names_within,
    refuse_learning,
    refuse_selections_by_rows,
    refuse_tools,
    set_feature_names,
    steps_without_budget,
)

# What a pipeline's fit is given beside its table: for a step, by name, and of its rows.


def _is_ours(step):
    return type(step).__module__.startswith("skdpbayes.")


def _nothing():
    """A function whose result a memory can keep."""


# What statsmodels calls arguments of a fit, by what to write here, after the name of the last step.
_WEIGHTS = (
    "rows have weights by {last}__sample_weight=..., up to the max_sample_weight of the model."
)
_ERRORS = (
    "there is no covariance to choose. Rows of the same person are groups=..., with max_rows_per_group=1 in "
    "the pipeline, so that intervals treat rows as independent, and are right to."
)
_ELSEWHERE = {
    "offset": "counts have an exposure instead, {last}__exposure=np.exp(offset); others have no offset.",
    **dict.fromkeys(("freq_weights", "var_weights", "weights"), _WEIGHTS),
    **dict.fromkeys(("cov_type", "cov_kwds"), _ERRORS),
}


def check_arguments(pipeline, params, X, y):
    """Raise an error for arguments that no step is named for, or takes, or in another order than rows.

    Parameters
    ----------
    pipeline : Pipeline
    params : dict
        Other arguments of its fit.
    X, y : table and labels
    """
    names = [name for name, _ in pipeline.steps]
    last = names[-1]
    # Metadata that is routed belongs to whichever step requests it.
    for given in () if _routing_enabled() else sorted(params):
        step, separator, argument = given.partition("__")
        instead = _ELSEWHERE.get(argument if separator else given, "").format(last=last)
        if not separator:
            instead = instead or f"say which step it is for, e.g. {last}__{given}=..."
            raise ValueError(f"fit of a pipeline does not accept {given}=...: {instead}")
        if step not in names:
            raise ValueError(
                f"{given}=... is for a step {step!r}, which the pipeline does not have: its steps are "
                f"{names}."
            )
        estimator = dict(pipeline.steps)[step]
        if instead and _is_ours(estimator) and not has_fit_parameter(estimator, argument):
            raise TypeError(
                f"{type(estimator).__name__}.fit() got an unexpected keyword argument {argument!r}: {instead}"
            )
    refuse_columns_in_other_order(X=X, y=y, **params)


def of_chosen(params, X, kept):
    """Arguments of the rows that are kept; what does not belong to rows is as it is.

    A row brings its weight and its exposure along: to a step that is bounded by its rows and these, what a
    person brings is that many rows, whatever else they hold.
    """
    return _check_method_params(X, params, kept)


# What a pipeline asks of its last step, besides what scikit-learn's pipelines pass on.
#
#     of new rows:      transform of all steps but the last -> a method of the last step
#     of coefficients:  a method of the last step, which has been told the names of its columns


if TYPE_CHECKING:
    import pandas as pd


def _last_has(name):
    def check(pipeline):
        # Raises an AttributeError that names the step.
        getattr(pipeline._final_estimator, name)
        return True

    return check


class PredictionsMixin:
    """Intervals and draws for new rows, where the last step has them; they spend no budget."""

    _iter: Any
    _final_estimator: Any

    def _of_last(self, name, X, *args, **params):
        check_is_fitted(self)
        for _, _, step in self._iter(with_final=False):
            X = transformed(step, X) if is_collection(X) else step.transform(X)
        return getattr(self._final_estimator, name)(X, *args, **params)

    @available_if(_last_has("prediction_interval"))
    def prediction_interval(self, X: MatrixLike, level: float = 0.9, **params: Any) -> np.ndarray:
        """Equal-tailed intervals of the responses of new rows. Only if the last step has them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows as in `fit`, before any step.
        level : float, default=0.9
            Posterior predictive probability of each interval, in (0, 1).
        **params : dict
            Passed to the last step, such as ``exposure``.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper ends.

        Examples
        --------
        >>> import numpy as np
        >>> from skdpbayes import DPBayesianRidge
        >>> from skdpbayes.pipeline import make_private_pipeline
        >>> from skdpbayes.preprocessing import BoundedScaler
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 10, size=(5000, 1))
        >>> y = X[:, 0] + rng.normal(size=5000)
        >>> ridge = DPBayesianRidge((-5, 15), data_norm=1.0, random_state=0)
        >>> model = make_private_pipeline(BoundedScaler(0, 10), ridge).fit(X, y)
        >>> low, high = model.prediction_interval([[5.0]], 0.9)[0]
        >>> bool(2.9 < low < 3.9 and 6.1 < high < 7.1)
        True
        """
        return self._of_last("prediction_interval", X, level, **params)

    @available_if(_last_has("probability_interval"))
    def probability_interval(self, X: MatrixLike, level: float = 0.9) -> np.ndarray:
        """Equal-tailed intervals of the class probabilities of new rows. Only if the last step has them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows as in `fit`, before any step.
        level : float, default=0.9
            Posterior probability of each interval, in (0, 1).

        Returns
        -------
        interval : ndarray of shape (n_samples, n_classes, 2)
            Lower and upper ends, in the order of ``classes_``.
        """
        return self._of_last("probability_interval", X, level)

    @available_if(_last_has("posterior_predictive"))
    def posterior_predictive(
        self,
        X: MatrixLike,
        n_draws: int | None = None,
        random_state: RandomStateLike = None,
        **params: Any,
    ) -> np.ndarray:
        """Draw responses of new rows. Only if the last step does.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows as in `fit`, before any step.
        n_draws : int or None, default=None
            None is the number of posterior draws.
        random_state : None, int, RandomState or Generator, default=None
            It need not be kept private.
        **params : dict
            Passed to the last step, such as ``exposure``.

        Returns
        -------
        responses : ndarray of shape (n_draws, n_samples)
        """
        return self._of_last("posterior_predictive", X, n_draws, random_state, **params)


class CoefficientsOfLastMixin:
    """Tables and draws of the last step's parameters, where it has them; they spend no budget."""

    _final_estimator: Any

    def _from_last(self, name, *args):
        check_is_fitted(self)
        return getattr(self._final_estimator, name)(*args)

    @available_if(_last_has("summary"))
    def summary(self, level: float = 0.9) -> pd.DataFrame:
        """Table of the last step's parameters, under the names that the steps before give to its columns.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of the intervals.

        Returns
        -------
        table : pandas.DataFrame
            As `DPBayesianLogisticRegression.summary` has it: one row for each parameter, in the units of
            the columns that reach the last step.

        See Also
        --------
        skdpbayes.inspection.raw_coefficients : In the units of the columns before scaling.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from skdpbayes import DPBayesianLogisticRegression
        >>> from skdpbayes.pipeline import make_private_pipeline
        >>> from skdpbayes.preprocessing import BoundedScaler
        >>> rng = np.random.default_rng(0)
        >>> X = pd.DataFrame({"age": rng.uniform(18, 90, 5000)})
        >>> y = rng.random(5000) < X["age"] / 100
        >>> model = DPBayesianLogisticRegression(random_state=0)
        >>> model = make_private_pipeline(BoundedScaler(18, 90), model).fit(X, y)
        >>> list(model.summary().index)
        ['age', 'intercept']
        """
        return self._from_last("summary", level)

    @available_if(_last_has("coef_table"))
    def coef_table(self, level: float = 0.9) -> pd.DataFrame:
        """Table of the last step's coefficients to publish, under the names of its columns.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of the intervals.

        Returns
        -------
        table : pandas.DataFrame
            As `DPBayesianLogisticRegression.coef_table` has it.
        """
        return self._from_last("coef_table", level)

    @available_if(_last_has("posterior_interval"))
    def posterior_interval(self, level: float = 0.9) -> Any:
        """Equal-tailed posterior intervals of the last step's parameters.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of each interval, in (0, 1).

        Returns
        -------
        interval : ndarray of shape (1 or n_classes, n_features + fit_intercept, 2) or MixtureDraws
            As the last step has it.
        """
        return self._from_last("posterior_interval", level)

    @available_if(_last_has("sample_posterior"))
    def sample_posterior(
        self, n_draws: int | None = None, random_state: RandomStateLike = None
    ) -> Any:
        """Draws of the last step's parameters.

        Parameters
        ----------
        n_draws : int or None, default=None
            Number of draws. None returns all that were released.
        random_state : None, int, RandomState or Generator, default=None
            It need not be kept private, because the draws are public.

        Returns
        -------
        draws : ndarray of shape (n_draws, ...) or MixtureDraws
            As the last step has it.
        """
        return self._from_last("sample_posterior", n_draws, random_state)


# The rows that a pipeline reads if persons are protected: at most ``k`` of each, the same in all
# steps.


def rows_of_persons(X, y, groups, params, max_rows, n_rows, seed):
    """Number of persons there are, and a function that chooses their rows.

    Parameters
    ----------
    X : table or collection
    y : column or None
    groups : column or None
    params : dict
        Other arguments of a fit.
    max_rows : int or None
    n_rows : int
        The number of rows, which is returned if rows are protected; all are then kept.
    seed : callable
        Returns a ``random_state`` as for `choose_with_firsts`, once persons are known to be protected.

    Returns
    -------
    n_samples : int
    choose : callable
        Returns ``(X, y, params, firsts)`` of the rows that are kept, where ``firsts`` tells which are the
        first of their person; of partitions a list; None if rows are protected. Draws are made at most once.

    Raises
    ------
    ValueError
        As in `check_groups`, or if there are arguments besides for a collection.
    """
    if is_collection(X) and has_persons(groups, max_rows):
        from .._data.privacy_units import choose_in_parts

        if params:
            raise ValueError(
                f"{sorted(params)} cannot be used together with groups for a Dask collection in a private "
                "pipeline: leave out one of them, or fit the estimator alone, which takes both."
            )
        chosen = choose_in_parts(groups, X, max_rows, seed(), None)  # Proposition 60.
        parts = chosen.kept_rows(X, X, "X"), chosen.kept_rows(y, X, "y")
        return chosen.n_persons, lambda: (*parts, params, chosen.firsts)
    persons = check_groups(groups, max_rows, n_rows, X=X, y=y)
    if persons is None:
        return n_rows, lambda: (X, y, params, None)

    def choose():
        kept, firsts = choose_with_firsts(persons, max_rows, seed())  # Proposition 60.
        rows = _safe_indexing(X, kept), None if y is None else _safe_indexing(y, kept)
        return *rows, of_chosen(params, X, kept), firsts

    return count_persons(persons), choose


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
    the last one gets the rest. If encoders find more categories than the last step can take columns, those
    with the smallest noisy counts are put together with the infrequent ones, which costs nothing. What a step
    would refuse is refused before anything is charged, as far as it is known without a release.

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
        """The routing of metadata: ``groups`` to the pipeline itself, others to its steps."""
        return super().get_metadata_routing().add_self_request(self)

    def privacy_plan(self, n_samples: int, n_features: int) -> PipelinePlan:
        """The plan of a fit, what it would do and cost, without any data.

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
        tree = self._checked_tree()
        check_sizes(n_samples=n_samples, n_features=n_features)
        return plan_pipeline(tree, n_samples, n_features)

    def _about(self):
        return about_of_private(self)

    def _privacy_account(self):
        if not hasattr(self, "plan_"):
            raise NotFittedError(
                "this pipeline is not fitted: fit it, or report its plan, "
                "privacy_report(pipeline.privacy_plan(n_samples, n_features))."
            )
        return account_of_private(self)

    def _checked_tree(self):
        """The `StepTree` of the pipeline, once its parameters are known to be right."""
        self._validate_params()
        are_pairs = all(isinstance(step, tuple | list) and len(step) == 2 for step in self.steps)
        if not (self.steps and are_pairs):
            raise TypeError(
                "steps must be a list of (name, estimator) that is not empty, such as [('scale', "
                "DPQuantileScaler()), ...]: make_private_pipeline(DPQuantileScaler(), ...) finds names."
            )
        for name, step in self.steps:  # Before scikit-learn says that a sampler does not transform.
            if isinstance(step, type):
                raise TypeError(f"step {name!r} is a class: pass an instance, {step.__name__}().")
            refuse_tools(step)
        self._validate_steps()
        try:
            if self.memory is not None:
                check_memory(self.memory).cache(_nothing)()
        except OSError as error:
            raise ValueError(f"memory={self.memory!r} cannot be used: {error}.") from None
        tree = step_tree(self)
        if self.learns_nothing:
            paths = [node.path for node in steps_without_budget(tree)]
            if unknown := sorted(set(self.learns_nothing) - set(paths)):
                raise ValueError(
                    f"learns_nothing names {unknown}, but the steps without a budget are {paths}."
                )
        return tree

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
        tree = self._checked_tree()
        check_arguments(self, params, X, y)
        n_rows, n_columns = table_shape(X)
        leaking = tree.leaks(issparse(X))
        if leaking and self.strict:
            raise ValueError(f"{' '.join(leaking)} Nothing was read.")
        for text in leaking:
            warn(f"{text} The pipeline's epsilon does not cover it.", PrivacyLeakWarning)
        if is_collection(X):
            refuse_learning(tree)
        limit, header = self.max_rows_per_group, header_of(X)
        seed = partial(seed_of, tree)
        n_samples, chosen = rows_of_persons(X, y, groups, params, limit, n_rows, seed)
        if not is_collection(X):  # Whose header is all that selects.
            refuse_selections_by_rows(tree, X, header)
        labels = partial(labels_of, tree, y)
        with self._outcomes_explained():
            plan = plan_pipeline(tree, n_samples, n_columns, header, labels).changed(
                leaks=tuple(leaking)
            )
        emit_plan_warnings(plan)
        if is_collection(X):
            from .._data.partitions import refuse_other_order_in_parts

            refuse_other_order_in_parts(X, y=y, **params)
        # Partitions of groups are compared only where rows are taken.
        with self._step_budgets_set(plan, tree), rows_compared(not is_collection(X)):
            # All rows, also those that would not be chosen.
            with self._outcomes_explained():
                dry_run(tree, X, y, params)
            X, y, params, firsts = chosen()
            beside = self._fit_within(plan, tree, X, y, params, firsts)
        set_privacy_attributes(self, plan)
        if beside:
            self._add_to_spent(beside)
        fitted = fitted_tree(self)
        set_feature_names(fitted)
        tell_of_steps(fitted, plan)
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
    def _outcomes_explained(self):
        """Make errors about missing outcomes name a fit of the pipeline, and not of its last step."""
        try:
            yield
        except ValueError as error:
            # The same error: another one would have this one as its context.
            error.args = (
                str(error).replace(FIT_WITHOUT_OUTCOME, self._fit_without_outcome()),
                *error.args[1:],
            )
            raise

    def _fit_without_outcome(self):
        """Text of a fit in which rows without an outcome have no weight."""
        name = f"{self.steps[-1][0]}__sample_weight="
        return FIT_WITHOUT_OUTCOME.partition(";")[0].replace("sample_weight=", name)

    @contextmanager
    def _step_budgets_set(self, plan, tree):
        """Give all spending steps their parts, and then their own parameters: a fit changes none."""
        own = {}
        for path, (epsilon, delta) in plan.step_budgets.items():
            step, settings = tree.at(path).estimator, {"epsilon": epsilon, "delta": delta}
            if plan.persons is not None:
                of_rows = plan.budget.neighboring_relation, plan.n_samples, plan.persons.max_rows
                settings |= settings_for_persons(step, *of_rows)
            if plan.data_norm is not None and path == plan.last:
                settings["data_norm"] = plan.data_norm
            own[path] = step, {name: getattr(step, name) for name in settings}
            step.set_params(**settings)
        try:
            yield
        finally:
            # A fit may have put fitted copies in the places of steps.
            now = step_tree(self)
            for path, (step, values) in own.items():
                for estimator in (step, now.at(path).estimator):
                    estimator.set_params(**values)

    def _fit_within(self, plan, tree, X, y, params, firsts):
        """Charge a plan, and fit the steps."""
        # What is charged for each step, and the rows that it may read.
        paid = [
            (tree.at(path).estimator, cost, firsts if path in plan.of_one_row else None)
            for path, cost in plan.step_costs.items()
        ]
        if has_seeds(self):
            announce_seed()
        reservations = charge(plan, self)
        try:
            fit = partial(sanitize_errors, super().fit, on_error=self._without_cells)
            with charges_beside() as beside, authorizations(paid), names_within(tree):
                if plan.column_limit is not None:
                    fit_within_limit(tree, plan.column_limit, X, y, params, fit)
                elif is_collection(X):
                    fit_steps(tree, X, y, params)
                else:
                    fit(X, y, **params)
        except BaseException as error:
            reservations.close("failed")
            error.add_note(
                f"The whole plan of the pipeline counts as spent, whichever step failed: epsilon = "
                f"{plan.epsilon:.4g} at delta = {plan.delta:.3g}."
            )
            raise
        reservations.close("completed")
        return beside

    def _without_cells(self, error):
        """An error of this package, or the one to raise instead of another, which may quote rows."""
        frames = [frame for frame, _ in walk_tb(error.__traceback__)]
        if frames[-1].f_globals.get("__name__", "").startswith("skdpbayes."):
            return error
        callers = [frame.f_locals.get("self") for frame in frames]
        steps = [step for step in callers if isinstance(step, BaseEstimator) and not _is_ours(step)]
        return refusal(steps[-1] if steps else Pipeline(self.steps), error)

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


# A private pipeline from its steps alone.


def make_private_pipeline(
    *steps: Any,
    epsilon: float = 1.0,
    delta: float | None = None,
    shares: dict[str, float] | None = None,
    strict: bool = False,
    learns_nothing: list[str] | None = None,
    max_rows_per_group: int | None = None,
    memory: Any = None,
    verbose: bool = False,
) -> PrivatePipeline:
    """Make a pipeline whose private steps share one budget; steps are named as in `make_pipeline`.

    Parameters
    ----------
    *steps : estimators
    epsilon, delta, shares, strict, learns_nothing, max_rows_per_group, memory, verbose
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
        learns_nothing=learns_nothing,
        max_rows_per_group=max_rows_per_group,
        memory=memory,
        verbose=verbose,
    )
