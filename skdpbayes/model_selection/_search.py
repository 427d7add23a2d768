"""Random search with private selection, by Papernot and Steinke ("Hyperparameter tuning with Rényi
differential privacy", ICLR 2022), accounted for by Koskela, Redberg and Wang ("Privacy profiles for
private selection", ICML 2024).

    K ~ truncated negative binomial;   run k = 1..K:  candidate ~ param_distributions,
                                       fit on one part of the rows, score on the other with noise
    release the run with the best score, and nothing else

The split of the rows, the number of runs and the candidates do not depend on the contents of the rows. Where
persons are protected, they are split, each with all their rows.
"""

import math
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from .._arguments import RANDOM_STATE, Interval, check_sizes, table_shape
from .._data.collections import (
    header_of,
    is_collection,
    refuse_columns_in_other_order,
    rows_compared,
)
from .._data.privacy_units import count_persons, number_persons
from .._errors import reraise_if_safe, sanitize_errors, to_native
from .._mechanisms.histogram import draw_number
from .._typing import MatrixLike, RandomStateLike, Relation
from ..exceptions import PrivacyWarning, SeedWarning
from ..metrics import PrivateScorer, make_private_scorer
from ..metrics._scorer import NAMED, final_estimator, fit_params, respond, to_last_step
from ..pipeline._dry_run import dry_run, labels_of
from ..pipeline._pipeline import check_arguments
from ..pipeline._plan import plan_pipeline
from ..pipeline._report import steps_within, unprotected_by
from ..pipeline._steps import leaves, paid_steps, refuse_hidden, refuse_selections_by_rows
from ..privacy.budget import Budget, default_delta
from ..privacy.charge import authorizations, charge, dominates
from ..privacy.deferred_warnings import ignored_warnings, take_warnings, warn, warns_last
from ..privacy.losses import RELATIONS, between_persons
from ..privacy.planned_release import Disclosure, StepDisclosure, as_json, set_privacy_attributes
from ..privacy.unsafe_callers import fitted_tree, step_tree
from ..random import announce_seed, has_seeds, private_generator
from ..report.account import of_estimator, with_seeds
from ._plan import SelectionPlan, plan_selection
from ._total_cost import (
    final_step,
    fit_cost,
    is_private_pipeline,
    planned_cost,
    refuse_leaks,
    spending_step,
)

# What a fitted search passes on to the estimator that it chose.


# What reports call a parameter.
_FACTS = {
    "data_norm": "longest row",
    "target_bounds": "range of responses",
    "max_count": "largest count",
    "clip_norm": "longest gradient of a row",
}


def _best_has(name):
    def check(search):
        fitted = hasattr(search, "best_estimator_")
        getattr(search.best_estimator_ if fitted else search.estimator, name)
        return True

    return check


def _delegated(name, what):
    @available_if(_best_has(name))
    def method(self, X):
        check_is_fitted(self)
        return getattr(self.best_estimator_, name)(X)

    method.__name__ = name
    method.__doc__ = f"""{what} of the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        values : ndarray
        """
    return method


class BestEstimatorMixin:
    """Predictions and scores of ``best_estimator_``, at no cost but that of a score."""

    best_estimator_: Any
    scorer_: PrivateScorer

    def _keep(self, best, scorer):
        """Keep what is released of the best ((score, tie-breaker), parameters, fitted estimator)."""
        (score, _), self.best_params_, self.best_estimator_ = best
        self._paid_fits = _fits_of(self.best_estimator_)
        self.best_score_, self.best_index_, self.scorer_ = score, 0, scorer
        self.cv_results_ = {
            "params": [self.best_params_],
            "mean_test_score": np.array([score]),
            "rank_test_score": np.array([1], dtype=np.int32),
        }

    def _holds_what_it_chose(self):
        """Whether ``best_estimator_``, and each step of it, is as the search has fitted it."""
        paid, held = self._paid_fits, _fits_of(self.best_estimator_)
        return len(paid) == len(held) and all(
            one is other
            for pair in zip(paid, held, strict=True)
            for one, other in zip(*pair, strict=True)
        )

    def _privacy_account(self):
        if not hasattr(self, "plan_"):
            raise NotFittedError(
                "this search is not fitted: fit it, or report its plan, "
                "privacy_report(search.privacy_plan(n_samples))."
            )
        account = of_estimator(self, "search")
        best = self.best_estimator_
        if not account.seeds:
            account = with_seeds(account, best)
        account = account._replace(unprotected=unprotected_by([best]))
        if self._holds_what_it_chose():
            account = account._replace(fits=(self, budgeted_step(best)))
        else:
            warning = (
                "best_estimator_ was fitted again or replaced, which the search has not paid for."
            )
            account = account._replace(warnings=(*account.warnings, warning))
        tree = step_tree(best)
        if tree.kind != "pipeline":
            return account
        warnings = (*account.warnings, *tree.leaks())
        steps = (*steps_within(best, self.plan_.n_samples), *account.steps)
        return account._replace(steps=steps, warnings=warnings)

    def _about(self):
        if not hasattr(self, "best_params_"):
            return StepDisclosure()
        chosen = {name.rpartition("__")[2]: value for name, value in self.best_params_.items()}
        facts = [
            Disclosure(f"chosen {name}", as_json(value), "learnt") for name, value in chosen.items()
        ]
        last = getattr(final_estimator(self.best_estimator_), "_about", StepDisclosure)()
        of_choices = {_FACTS[name] for name in chosen if name in _FACTS}
        return StepDisclosure(
            (*facts, *(fact for fact in last.facts if fact.what not in of_choices))
        )

    @property
    def classes_(self) -> np.ndarray:
        """Class labels of the best estimator."""
        return self.best_estimator_.classes_

    @property
    def n_features_in_(self) -> int:
        """Number of columns that the best estimator saw in `fit`."""
        return self.best_estimator_.n_features_in_

    @property
    def _is_exposed(self):
        return getattr(final_estimator(self.best_estimator_), "_is_exposed", False)

    @available_if(_best_has("predict"))
    def predict(self, X: MatrixLike, exposure: ArrayLike | None = None) -> np.ndarray:
        """Predictions of the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        exposure : array-like of shape (n_samples,), default=None
            Of the rows, for estimators whose predictions take it.

        Returns
        -------
        values : ndarray
        """
        check_is_fitted(self)
        return respond(self.best_estimator_, "predict", X, exposure)

    predict_proba = _delegated("predict_proba", "Probabilities of the classes")
    predict_log_proba = _delegated("predict_log_proba", "Log of the probabilities of the classes")
    decision_function = _delegated("decision_function", "Scores")
    score_samples = _delegated("score_samples", "Log densities")

    @available_if(_best_has("posterior_interval"))
    def posterior_interval(self, level: float = 0.9) -> Any:
        """Equal-tailed posterior intervals of the parameters of the best estimator.

        Parameters
        ----------
        level : float, default=0.9
            Posterior probability of each interval, in (0, 1).

        Returns
        -------
        interval : ndarray of shape (1 or n_classes, n_features + fit_intercept, 2) or MixtureDraws
            As the best estimator has it.
        """
        check_is_fitted(self)
        return self.best_estimator_.posterior_interval(level)

    @available_if(_best_has("prediction_interval"))
    def prediction_interval(self, X: MatrixLike, level: float = 0.9, **params: Any) -> np.ndarray:
        """Equal-tailed intervals of the responses of new rows, by the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        level : float, default=0.9
            Posterior predictive probability of each interval, in (0, 1).
        **params : dict
            Passed to the best estimator, such as ``exposure``.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2)
            Lower and upper ends.
        """
        check_is_fitted(self)
        return self.best_estimator_.prediction_interval(X, level, **params)

    @available_if(_best_has("probability_interval"))
    def probability_interval(self, X: MatrixLike, level: float = 0.9) -> np.ndarray:
        """Equal-tailed intervals of the class probabilities of new rows, by the best estimator.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        level : float, default=0.9
            Posterior probability of each interval, in (0, 1).

        Returns
        -------
        interval : ndarray of shape (n_samples, n_classes, 2)
            Lower and upper ends, in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self.best_estimator_.probability_interval(X, level)

    def score(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> float:
        """Noisy score of the best estimator on other rows, on which it spends ``scorer_.epsilon``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
        exposure : array-like of shape (n_samples,), default=None
            Of the rows; required if the search was given exposures.
        groups : array-like of shape (n_samples,), default=None
            The person each row belongs to, for a score that protects persons.

        Returns
        -------
        score : float
        """
        check_is_fitted(self)
        return self.scorer_(self.best_estimator_, X, y, exposure=exposure, groups=groups)


# Candidates of a private selection, drawn from public distributions, each with its part of the
# budget.


_BUDGET_PARAMETERS = ("epsilon", "delta", "neighboring_relation")
# Largest number of candidates that are planned to see the form of their costs.
_MOST_CANDIDATES_PLANNED = 48
# Values that are tried of a distribution with ``rvs``.
_N_VALUES_TRIED = 2
# Columns of the table that is planned for, on which the form does not depend.
_N_COLUMNS_PLANNED = 8
# What an estimator learns by choices of its own, at a cost of each fit, and what to pass instead.
_LEARNT = {
    "target_bounds": "(low, high) with two public numbers",
    "max_count": "a public number",
    "data_norm": "a public number",
}


def check_distributions(given):
    """Raise an error for parameters that cannot be drawn from; the number of candidates, inf if endless."""
    grids = [given] if isinstance(given, dict) else list(given)
    if not grids:
        raise ValueError(
            "param_distributions is empty: name at least one parameter and its values."
        )
    sizes = []
    for grid in grids:
        for name, values in grid.items():
            if not hasattr(values, "rvs") and (isinstance(values, str) or not np.iterable(values)):
                raise TypeError(
                    f"param_distributions: {name} must be a list of values, or a distribution with rvs, and "
                    f"is {values!r}."
                )
        sizes.append(
            math.prod(len(v) if hasattr(v, "__len__") else math.inf for v in grid.values())
        )
    return sum(sizes)


def draw_candidate(search, plan, generator):
    """The parameters of a candidate, and an estimator with these and its part of the budget."""
    seed = int(generator.integers(2**32))  # Proposition 43.
    params = next(iter(ParameterSampler(search.param_distributions, 1, random_state=seed)))
    prefix = private_prefix(search.estimator)
    if reserved := sorted(set(params) & {prefix + name for name in _BUDGET_PARAMETERS}):
        raise ValueError(
            f"param_distributions must not contain {reserved}, which the search sets: leave them out."
        )
    bounds = any(name.rpartition("__")[-1] == "target_bounds" for name in params)
    if bounds and "target_bounds" not in search._scorer().options:
        raise ValueError(
            "candidates would be scored within target_bounds of their own, of which the narrowest win: give "
            "scoring=make_private_scorer(..., target_bounds=(low, high)), or do not search target_bounds."
        )
    candidate = clone(search.estimator).set_params(**clone(params, safe=False))
    values = candidate.get_params()
    if final_estimator(candidate).neighboring_relation != search.neighboring_relation:
        raise ValueError(
            "the estimator and the search differ in neighboring_relation: give both the same."
        )
    _check_limit(candidate, f"{prefix}max_rows_per_group", plan.protects_persons)
    changes = {prefix + "epsilon": plan.fit_epsilon, prefix + "delta": plan.fit_delta}
    for name in values:
        # Progress would reveal the number of runs.
        if name.endswith("verbose"):
            changes[name] = False
        if name == "memory" or name.endswith(
            "__memory"
        ):  # It would keep what all candidates learnt.
            changes[name] = None
        if name.endswith("random_state") and search.random_state is not None:
            changes[name] = int(generator.integers(2**31))  # Public: the search has a seed, too.
    return params, candidate.set_params(**changes)


def limits_of(search):
    """The numbers of rows per person that a search's estimator or its distributions name."""
    name = f"{private_prefix(search.estimator)}max_rows_per_group"
    given = search.param_distributions
    drawn = (grid[name] for grid in ([given] if isinstance(given, dict) else given) if name in grid)
    listed = [
        limit for grid in drawn for limit in (grid if isinstance(grid, list | tuple) else [grid])
    ]
    value = search.estimator.get_params().get(name)
    return [limit for limit in (value, *listed) if limit is not None]


def most_rows_of(search):
    """Number of rows of a person a candidate uses at most; None if rows are protected, or not known."""
    limits = limits_of(search)
    return int(max(limits)) if limits and all(isinstance(k, Integral) for k in limits) else None


def expected_size(search):
    """A size for the plan if the table's is private; the plan uses it only for expectations."""
    values = search.estimator.get_params().items()
    sizes = [value for name, value in values if name.endswith("public_size")]
    if not any(sizes):
        raise ValueError(
            "neighboring_relation='add_or_remove_one' keeps the number of rows private: set the "
            "estimator's public_size, to a number that does not come from the data."
        )
    # Persons with fewer rows mean more persons; use the largest limit.
    most_rows = max(
        (limit for limit in limits_of(search) if isinstance(limit, Integral)), default=1
    )
    return round(max(filter(None, sizes)) / most_rows / (1.0 - search.test_size))


def draws_seeds(distributions):
    """Whether candidates of these may have seeds of their own."""
    given = distributions if isinstance(distributions, list) else [distributions]
    if any(name.endswith("random_state") for grid in given for name in grid):
        return True
    listed = (v for grid in given for v in grid.values() if isinstance(v, list | tuple))
    return any(has_seeds(value) for values in listed for value in values)


def refuse_collections(X, y):
    """Raise a TypeError for tables in Dask, whose rows cannot be taken by their places."""
    for name, table in (("X", X), ("y", y)):
        if is_collection(table):
            raise TypeError(
                f"{name} is a Dask collection, and searches read tables in memory: pass {name}.compute() if "
                "it fits. Nothing was read."
            )


def persons_of(search, groups, X, y):
    """The person of each row, or None if rows are protected."""
    limits = limits_of(search)
    if groups is None and limits:
        raise ValueError(
            f"max_rows_per_group={limits[0]} protects persons, and the search needs to know the person of "
            "each row: pass fit(X, y, groups=...); or leave max_rows_per_group=None."
        )
    if groups is not None and not limits:
        raise ValueError(
            "groups were given, but max_rows_per_group of the estimator is None: choose how many rows of a "
            "person may count in a fit, a public number; or leave out groups to protect rows."
        )
    return None if groups is None else number_persons(groups, _num_samples(X), X=X, y=y)


def _check_limit(candidate, name, protects_persons):
    """Raise a ValueError if a candidate protects rows, where the others protect persons."""
    if protects_persons and candidate.get_params().get(name) is None:
        raise ValueError(
            f"{name} is None for some candidates, which would protect rows, and a number for others, which "
            "protect persons: give numbers only, or leave it None everywhere."
        )


def check_candidate(candidate, plan, scorer, X, y, parts, exposure=None, groups=None):
    """Raise what a fit or a score of a candidate would raise, or a ValueError if the plan does not cover it.

    Parameters
    ----------
    candidate : estimator
    plan : SelectionPlan
    scorer : PrivateScorer
    X, y
        The whole table.
    parts : (ndarray, ndarray)
        The rows to fit on and the rows to score on.
    exposure : array-like or None, default=None
        Of the whole table.
    groups : ndarray or None, default=None
        The person of each of its rows.
    """
    final = budgeted_step(candidate)
    if exposure is not None:
        scorer._check_exposed(candidate)
    if is_private_pipeline(candidate):
        expected = _dry_run_whole(candidate, plan, X, y, exposure, groups)
    else:
        expected = dry_run(step_tree(candidate), X, y, fit_params(candidate, exposure, groups))
    n_columns, classes = expected.n_columns, expected.classes
    train, test = parts if y is None else (_safe_indexing(y, rows) for rows in parts)
    if classes is not None:
        classes = labels_of(step_tree(candidate), train)
    if n_columns is not None and not is_private_pipeline(candidate):
        n_classes = 2 if hasattr(final, "predict_proba") and hasattr(final, "classes") else None
        n_classes = n_classes if classes is None else len(classes)
        cost = planned_cost(final, plan.n_train, n_columns, n_classes)
        refuse_unless_covered(cost, plan, final)
    scorer._check(candidate, classes, None if y is None else test)


def _dry_run_whole(candidate, plan, X, y, exposure, groups):
    """Rehearse a private pipeline and check that the plan covers its own, which does not depend on rows."""
    params = fit_params(candidate, exposure)
    check_arguments(candidate, params, X, y)
    tree = candidate._checked_tree()
    header = header_of(X)
    refuse_selections_by_rows(tree, X, header)
    step_plan = plan_pipeline(tree, plan.n_train, table_shape(X)[1], header)
    refuse_unless_covered(step_plan.cost, plan, candidate)
    with candidate._step_budgets_set(step_plan, tree), rows_compared():
        return dry_run(tree, X, y, params)


def _fits_of(estimator):
    """(step, record of its fit) of an estimator and all its steps: every fit makes such a record anew."""
    steps = [estimator, *(leaf.estimator for leaf, _ in leaves(fitted_tree(estimator)))]
    return [(step, getattr(step, "_parameters_of_fit", None)) for step in steps]


def budgeted_step(candidate):
    """The estimator that spends a candidate's part of the budget: a private pipeline, or the last step.

    Raises
    ------
    ValueError
        If a step may leak, or spends beside it.
    """
    if not is_private_pipeline(candidate):
        return spending_step(candidate)
    refuse_hidden(step_tree(candidate))
    refuse_leaks(candidate)
    return candidate


def refuse_unless_covered(cost, plan, final):
    """Raise a ValueError if the plan does not cover the cost of a fit, which does not depend on rows."""
    for name, instead in _LEARNT.items():
        if isinstance(value := getattr(final, name, None), str):
            raise ValueError(
                f"{name}={value!r} of {type(final).__name__} is learnt in every fit, at a cost that the "
                f"search cannot cover: pass {name}={instead}, not taken from the rows, to "
                f"{type(final).__name__}."
            )
    if dominates(plan.fit_cost, cost):
        return
    what = f"{type(final).__name__}'s fit costs {cost}"
    if plan.fit_cost.is_gaussian:
        raise ValueError(
            f"{what}, which is not Gaussian, or exceeds what the search gives a candidate, "
            f"{plan.fit_cost}: use another sampler, without batches, and earlier steps that spend nothing. "
            "Nothing was spent."
        )
    raise ValueError(
        f"{what}, which exceeds what the search gives a candidate, epsilon = {plan.fit_epsilon:.4g} at delta "
        f"= {plan.fit_delta:.4g}: use another sampler, or raise the search's epsilon. Nothing was spent."
    )


def not_gaussian(search, n_train):
    """The name of a model that the search may draw, of a cost that is not Gaussian; "" without one.

    It depends on the distributions and not on what is drawn of them, because a plan is public and the number
    of candidates is not. Of numbers it tries the ends, of other values all. The cost of a private pipeline is
    Gaussian if that of its last step is, and no other step is charged; where that is not known of all its
    candidates, it is taken not to be.
    """
    splits, whole = is_private_pipeline(search.estimator), type(search.estimator).__name__
    if splits and not _ends_alone(search.estimator):
        return whole
    given = search.param_distributions
    given = [given] if isinstance(given, dict) else given
    grids = [{name: _kinds(values, name) for name, values in grid.items()} for grid in given]
    kinds = ParameterGrid(grids)
    if len(kinds) > _MOST_CANDIDATES_PLANNED:
        if splits:
            return whole
        kinds = ParameterSampler(grids, _MOST_CANDIDATES_PLANNED, random_state=0)  # Public.
    for params in kinds:
        try:
            with ignored_warnings():
                candidate = clone(search.estimator).set_params(**clone(params, safe=False))
                tree = step_tree(candidate)
                last = tree.last.estimator if splits else tree.steps[-1].estimator
                budget = search.epsilon, search.delta or 1e-6, search.neighboring_relation
                last.set_params(**dict(zip(_BUDGET_PARAMETERS, budget, strict=True)))
                final = last if splits else spending_step(candidate)
                of_classes = (2,) if hasattr(final, "classes") else ()
                cost = final.privacy_plan(n_train, _N_COLUMNS_PLANNED, *of_classes).cost
        except Exception:  # A fit raises it, if it draws the candidate, and says why.
            if splits:
                return whole
            continue
        learns = any(isinstance(getattr(final, name, None), str) for name in _LEARNT)
        if splits and (learns or not _ends_alone(candidate)):
            return whole
        if not (cost.is_gaussian or learns):
            return whole if splits else type(final).__name__
    return ""


def _ends_alone(pipeline):
    """Whether the last step of a private pipeline is the only one that is charged."""
    tree = step_tree(pipeline)
    return [node.path for node in paid_steps(tree)] == [tree.last.path]


def _kinds(values, name):
    """Values of a parameter on which the form of a cost may depend."""
    if hasattr(values, "rvs"):
        drawn = ParameterSampler({name: values}, _N_VALUES_TRIED, random_state=0)  # Public.
        return [params[name] for params in drawn]
    is_number = [isinstance(value, Real) and not isinstance(value, bool) for value in values]
    numbers = [value for value, is_one in zip(values, is_number, strict=True) if is_one]
    others = [value for value, is_one in zip(values, is_number, strict=True) if not is_one]
    return others + ([min(numbers), max(numbers)] if numbers else [])


def private_prefix(estimator):
    """The prefix of the private step's parameters."""
    prefix, names = "", estimator.get_params()
    if is_private_pipeline(estimator):
        return ""
    tree = step_tree(estimator)
    if tree.kind == "pipeline":
        prefix = f"{tree.steps[-1].name}__"
    if not {prefix + name for name in _BUDGET_PARAMETERS} <= set(names):
        raise ValueError(
            f"{type(estimator).__name__} has no {', '.join(_BUDGET_PARAMETERS)}: the search needs a private "
            "estimator of the package, or a pipeline that ends in one."
        )
    return prefix


class DPRandomizedSearchCV(BestEstimatorMixin, MetaEstimatorMixin, BaseEstimator):
    """Random search with a private choice: the best of a random number of candidates.

    The rows are split once. Every candidate is fitted on one part and scored with noise on the other. Only
    the best one is released, as it was fitted; the other scores and the number of candidates stay hidden.
    This costs little more than a single fit, however many candidates there are.

    Parameters
    ----------
    estimator : estimator
        A private estimator of the package, or a pipeline that ends in one and whose other steps spend
        nothing. The search sets its ``epsilon`` and ``delta``. Where the costs of all candidates are
        Gaussian, as those of linear models are, each fit gets most of the budget. Where some are not, as
        those of networks, random walks and samplers with batches, or of a `PrivatePipeline` in which more
        than the last step spends, all get an epsilon and a delta, which every cost has, and less of the
        budget: the plan says how much.
    param_distributions : dict or list of dict
        As for scikit-learn's `RandomizedSearchCV`: lists, or distributions with ``rvs``. They are public;
        candidates are drawn from them independently.
    epsilon : float, default=1.0
        Upper limit of the privacy loss of the whole search.
    delta : float, default=None
        In (0, 1), for the whole search; None is ``min(1e-5, 1 / (10 n))``.
    mean_candidates : float, default=10.0
        Expected number of candidates, which are drawn with replacement. If few are listed, set it to about
        twice their number: fewer candidates leave each fit more of the budget.
    shape : float, default=1.0
        Shape of the distribution of their number: 1 is geometric; 0 is logarithmic, which is slightly cheaper
        but often gives a single candidate; ``inf`` is Poisson, which stays close to the mean and costs most.
    scoring : str, PrivateScorer or None, default=None
        A name that `make_private_scorer` knows, or a scorer made by it, whose epsilon is replaced. None is
        "accuracy" for classifiers, "neg_mean_absolute_error" for numbers (noise hides "r2" unless bounds of
        responses are narrow), and "neg_mean_poisson_deviance" for counts.
    test_size : float, default=0.25
        Share of the rows that are held out for scoring.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        Must be that of the estimator, too. Under "add_or_remove_one" each row is assigned to one of the parts
        independently, ``delta`` is required, and the estimator's ``public_size`` is for the part to fit on.
        With ``max_rows_per_group`` of the estimator, and ``fit(X, y, groups=...)``, the same between persons.
    random_state : None, int, RandomState instance or Generator, default=None
        None uses cryptographic randomness. A known or repeated seed voids the guarantee, and also fixes
        the random states of candidates.

    Attributes
    ----------
    best_estimator_ : estimator
        The chosen candidate, as fitted in the search. The cost that it reports is that of its own fit only.
    best_params_ : dict
        Parameters of the chosen candidate.
    best_score_ : float
        Its noisy score. If it is no better than guessing, there were few or bad candidates. As the largest of
        several scores it is too optimistic on average; score other rows for an unbiased one.
    best_index_ : int
        Always 0, because there is one row of results.
    cv_results_ : dict of arrays
        ``params``, ``mean_test_score`` and ``rank_test_score`` of the chosen candidate only.
    scorer_ : PrivateScorer
        The scorer that was used, with the epsilon of one score.
    spent_epsilon_, spent_delta_ : float
        Cost of the search.
    privacy_cost_ : PrivacyCost
        The cost itself; it converts to any (epsilon, delta) and composes with ``+``.
    plan_ : SelectionPlan
        What the fit did; printing it gives a readable summary.
    classes_, n_features_in_
        Those of the best estimator.

    Warns
    -----
    PrivacyWarning
        If the plan says that selection does not pay.

    Notes
    -----
    Candidates that fail count as the worst. Warnings of single runs are not shown, because they would reveal
    the number of runs. The time that a search takes does so, too.

    Examples
    --------
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import make_classification
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.model_selection import DPRandomizedSearchCV
    >>> X, y = make_classification(5000, 8, random_state=0)
    >>> search = DPRandomizedSearchCV(
    ...     DPBayesianLogisticRegression(classes=[0, 1]),
    ...     {"data_norm": loguniform(0.3, 30.0)},
    ...     mean_candidates=4.0,
    ...     epsilon=2.0,
    ...     random_state=0,
    ... ).fit(X, y)
    >>> search.spent_epsilon_ <= 2.0, list(search.best_params_)
    (True, ['data_norm'])
    >>> search.predict(X[:3]).shape
    (3,)
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit"])],
        "param_distributions": [dict, list],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "delta": [None, Interval(Real, 0, 1, closed="neither")],
        "mean_candidates": [Interval(Real, 1, 10_000, closed="both")],
        "shape": [Interval(Real, 0, None, closed="both")],
        "scoring": [StrOptions(set(NAMED)), PrivateScorer, None],
        "test_size": [Interval(Real, 0, 1, closed="neither")],
        "neighboring_relation": [StrOptions(set(RELATIONS))],
        "random_state": RANDOM_STATE,
    }

    def __init__(
        self,
        estimator: BaseEstimator,
        param_distributions: dict[str, Any] | list[dict[str, Any]],
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        mean_candidates: float = 10.0,
        shape: float = 1.0,
        scoring: str | PrivateScorer | None = None,
        test_size: float = 0.25,
        neighboring_relation: Relation = "replace_one",
        random_state: RandomStateLike = None,
    ):
        self.estimator = estimator
        self.param_distributions = param_distributions
        self.epsilon = epsilon
        self.delta = delta
        self.mean_candidates = mean_candidates
        self.shape = shape
        self.scoring = scoring
        self.test_size = test_size
        self.neighboring_relation = neighboring_relation
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags, estimator_tags = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = estimator_tags.estimator_type
        tags.classifier_tags = estimator_tags.classifier_tags
        tags.target_tags = estimator_tags.target_tags
        tags.input_tags.sparse = estimator_tags.input_tags.sparse
        return tags

    def privacy_plan(self, n_samples: int) -> SelectionPlan:
        """The plan of a search, what it would do and cost, without any data.

        Parameters
        ----------
        n_samples : int
            Number of rows, which must be public; of persons, if the estimator has ``max_rows_per_group``.

        Returns
        -------
        plan : SelectionPlan
            Printing it shows the budget of a single fit, and whether selection can pay.

        Raises
        ------
        ValueError
            If a parameter is invalid, the budget too small, or the estimator not private.

        Examples
        --------
        >>> from skdpbayes import DPBayesianLogisticRegression
        >>> from skdpbayes.model_selection import DPRandomizedSearchCV
        >>> search = DPRandomizedSearchCV(DPBayesianLogisticRegression(), {"data_norm": [1, 3]}, delta=1e-5)
        >>> plan = search.privacy_plan(20_000)
        >>> print(f"{plan.fit_epsilon:.2f} {plan.score_epsilon:.2f} {plan.score_error:.3f}")
        0.60 0.38 0.007
        """
        self._validate_params()
        check_distributions(self.param_distributions)
        check_sizes(n_samples=n_samples)
        protects_persons = bool(limits_of(self))
        if self.delta is None and self.neighboring_relation == "add_or_remove_one":
            raise ValueError(
                "neighboring_relation='add_or_remove_one' keeps the number of rows private, and the default "
                "delta depends on it: set delta to a number."
            )
        n_test = round(n_samples * self.test_size)
        if not 1 <= n_test < n_samples:
            raise ValueError(
                f"test_size={self.test_size} of {n_samples} rows leaves no row to fit on, or none to score: "
                "choose another test_size."
            )
        delta = default_delta(n_samples) if self.delta is None else float(self.delta)
        relation = self.neighboring_relation
        relation = between_persons(relation) if protects_persons else relation
        budget = Budget(float(self.epsilon), delta, relation).checked(persons=True)
        law = float(self.mean_candidates), float(self.shape)
        n_train = n_samples - n_test
        other = not_gaussian(self, n_train)
        plan = plan_selection(budget, *law, n_train, n_test, not other)
        return replace(plan, max_rows=most_rows_of(self), not_gaussian=other)

    @warns_last
    def fit(
        self,
        X: MatrixLike,
        y: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Draw candidates, fit and score them, and keep the best.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            Labels.
        exposure : array-like of shape (n_samples,), default=None
            How long, or how many, each row was exposed, for estimators of rates such as
            `DPBayesianPoissonRegressor`. It is split as the rows are: candidates are fitted with it, and
            their expected counts are scored. Positive, and as private as the rows.
        groups : array-like of shape (n_samples,), default=None
            The person each row belongs to; required with ``max_rows_per_group`` of the estimator. A person
            with all their rows is either fitted on or scored, and scores count each person once.

        Returns
        -------
        self : DPRandomizedSearchCV

        Raises
        ------
        ValueError, TypeError, AttributeError
            If a parameter, the rows or the labels are invalid for a candidate that was drawn, if it does not
            have the score, if the candidate or the score does not know an exposure that is given, or if the
            plan does not cover its cost. Nothing is spent.
        BudgetExceededError
            If an active `PrivacyLedger` does not allow the plan. Nothing is spent.
        RuntimeError
            If all candidates fail all the same; the plan is spent.
        """
        refuse_collections(X, y)
        on_error = reraise_if_safe("X must be a table and y a column, with one label for each row.")
        given = to_native(X, "X"), to_native(y, "y"), to_native(exposure, "exposure")
        refuse_columns_in_other_order(X=X, y=y, exposure=exposure)
        X, y, exposure = sanitize_errors(indexable, *given, on_error=on_error)
        table_shape(X)
        self._validate_params()
        persons = persons_of(self, groups, X, y)
        n_samples = _num_samples(X) if persons is None else count_persons(persons)
        replaces = self.neighboring_relation == "replace_one"
        plan = self.privacy_plan(n_samples if replaces else expected_size(self))
        generator = private_generator(self.random_state)
        scorer = self._private_scorer(plan, generator)
        number = draw_number(generator, plan.mean_candidates, plan.shape)  # Proposition 43.
        with ignored_warnings():  # Those of candidates could be counted.
            # Proposition 43.
            candidates = [draw_candidate(self, plan, generator) for _ in range(number)]
        seeded = has_seeds(self) or any(has_seeds(candidate) for _, candidate in candidates)
        if self.random_state is None and seeded:
            announce_seed()
        parts = self._parts(n_samples, plan, generator, persons)
        with ignored_warnings(), to_last_step():
            for _, candidate in candidates:
                check_candidate(candidate, plan, self._scorer(), X, y, parts, exposure, persons)
        if check_distributions(self.param_distributions) <= 1:
            warn(
                "there is one candidate, so that nothing is chosen, and the search still pays for choosing: "
                "fit the estimator itself, with the whole budget.",
                PrivacyWarning,
            )
        for text in plan.warnings:
            warn(text, PrivacyWarning)
        reservations = charge(plan, self)
        try:
            table = X, y, exposure, persons
            best = self._best_of(candidates, scorer, table, parts, plan, generator)
        except BaseException:
            reservations.close("failed")
            raise
        del candidates
        failed = best[0][0] == -np.inf
        reservations.close("failed" if failed else "completed")
        if failed:
            raise RuntimeError(
                "every candidate failed, and the plan is spent, although parameters, rows, labels and "
                "scoring were found valid. The reason is not shown, because an error may quote rows: to find "
                "it, fit the estimator on synthetic rows."
            )
        self._keep(best, scorer)
        set_privacy_attributes(self, plan)
        # What the best one says is a function of what is released of it.
        for text, category in take_warnings(budgeted_step(self.best_estimator_)):
            if category is not SeedWarning:  # Seeds were announced before the charge.
                warn(f"best_estimator_: {text}", category)
        return self

    def _best_of(self, candidates, scorer, table, parts, plan, generator):
        """The ((score, tie-breaker), parameters, fitted estimator) of the best candidate."""
        train, test = (
            [None if column is None else _safe_indexing(column, rows) for column in table]
            for rows in parts
        )
        best = None
        for params, candidate in candidates:
            score = self._run(candidate, scorer, train, test, plan)
            # Ties are broken at random, also among failed candidates.
            rank = score, generator.random()  # Proposition 43.
            if best is None or rank > best[0]:
                best = rank, params, candidate
        return best

    def _has_seeds(self):
        """Whether the search has a seed, or candidates may have one; `has_seeds` asks the rest."""
        return self.random_state is not None or draws_seeds(self.param_distributions)

    def _private_scorer(self, plan, generator):
        options = {"epsilon": plan.score_epsilon, "delta": None}
        if self.random_state is not None:
            # Public: the search has a seed, too.
            options["random_state"] = RandomState(generator.integers(2**32, size=4))
        return self._scorer().with_options(**options)

    def _scorer(self):
        """The scorer before the search has set its epsilon."""
        relation = self.neighboring_relation
        if not isinstance(self.scoring, PrivateScorer):
            scoring = getattr(final_step(self.estimator), "_search_score", "accuracy")
            name = self.scoring or scoring
            return make_private_scorer(name, epsilon=1.0, neighboring_relation=relation)
        if self.scoring.neighboring_relation != relation:
            raise ValueError("scoring and the search differ in neighboring_relation: change one.")
        return self.scoring

    def _parts(self, n_samples, plan, generator, persons):
        """The rows to fit on and the rows to score on, of ``n_samples`` rows or persons."""
        if self.neighboring_relation == "replace_one":
            tests = np.zeros(n_samples, dtype=bool)
            tests[generator.permutation(n_samples)[plan.n_train :]] = True  # Proposition 43.
        else:
            tests = generator.random(n_samples) < self.test_size  # Proposition 43.
        tests = tests if persons is None else tests[persons]
        return np.flatnonzero(~tests), np.flatnonzero(tests)

    def _run(self, candidate, scorer, train, test, plan):
        """Fit and score one candidate, and return its score, or -inf if it fails.

        ``train`` and ``test`` are (rows, labels, exposures, persons).
        """
        fit, score = plan.costs_of_run
        columns = {"exposure": test[2], "groups": test[3]}
        columns = {name: column for name, column in columns.items() if column is not None}
        with (
            authorizations([(budgeted_step(candidate), fit), (scorer, score)]),
            ignored_warnings(),
            to_last_step(),
        ):
            try:
                candidate.fit(*train[:2], **fit_params(candidate, *train[2:]))
                score = float(scorer(candidate, *test[:2], **columns))
            except Exception:
                return -np.inf
        refuse_unless_covered(fit_cost(candidate), plan, budgeted_step(candidate))
        return score
