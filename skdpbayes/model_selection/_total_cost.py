"""The total cost of cross-validations, searches and ensembles of private estimators.

    record in fold j:  sum over candidates of (sum over i != j of fit_i + score_j),  then the refit

The training parts of the folds overlap: a record is in all of them except one, where it is scored. Which one
depends only on the record's position, so the cost is that of the worst fold, not the sum over folds. The same
holds for persons who are dealt out to folds, each with all their rows.
"""

from functools import reduce
from typing import Any

from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    GroupKFold,
    KFold,
    RandomizedSearchCV,
    ShuffleSplit,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier

from ..metrics import PrivateScorer
from ..pipeline._steps import refuse_hidden, spends
from ..privacy.cost import PrivacyCost, in_parallel
from ..privacy.losses import PERSON_RELATIONS, between_rows
from ..privacy.unsafe_callers import (
    fitted_tree,
    is_private,
    step_tree,
    tool_of,
    what_breaks_the_rule,
    what_is_learnt,
)

# The fits inside scikit-learn's meta-estimators that learn nothing themselves, all on the same table.
#
# record in the table:  fit_1 + ... + fit_k


_ALL_KEPT = (VotingClassifier, OneVsRestClassifier, MultiOutputClassifier, ClassifierChain)
_ONE_KEPT = (FixedThresholdClassifier, SelectFromModel)


def members_of(ensemble):
    """The members of a fitted ensemble, whose costs add up to its own, or None if it is none.

    Raises
    ------
    ValueError
        If it has no total, with the reason.
    """
    if reason := _why_not(ensemble):
        raise ValueError(f"there is no total: {reason}")
    if type(ensemble) in _ALL_KEPT:
        return list(getattr(ensemble, "estimators_", ())) or None
    if type(ensemble) in _ONE_KEPT and hasattr(ensemble, "estimator_"):
        return [ensemble.estimator_]
    return None


def _why_not(ensemble):
    tool = tool_of(ensemble)
    if tool is not None:
        return what_breaks_the_rule(tool) if tool.breaks_rule else what_is_learnt(tool)
    if isinstance(ensemble, BaggingClassifier):
        return (
            "BaggingClassifier seeds the noise of its members and keeps the seeds, from which anyone can "
            "compute it again: fit the members one by one, and add up their privacy_cost_."
        )
    if isinstance(ensemble, RFE):
        return (
            "RFE does not keep the fits between the first and the last: fit within a PrivacyLedger, which "
            "counts them."
        )
    if isinstance(ensemble, ClassifierChain) and ensemble.cv is not None:
        return "ClassifierChain does not keep the fits of its cross-validation: use cv=None."
    asked = (getattr(ensemble, name, None) for name in ("max_features", "importance_getter"))
    if isinstance(ensemble, SelectFromModel) and any(map(callable, asked)):
        return "a function of SelectFromModel may read the rows: give a number and a name."
    return None


def total_privacy_cost(
    results: BaseEstimator | dict[str, Any],
    *,
    cv: Any = None,
    scoring: PrivateScorer | dict[str, PrivateScorer] | None = None,
) -> PrivacyCost:
    """The total cost of a fitted search or ensemble, or of a cross-validation.

    Parameters
    ----------
    results : GridSearchCV, RandomizedSearchCV, DPRandomizedSearchCV, dict or ensemble
        A fitted search with ``refit``, whose estimator is one of the package, a pipeline that ends in one,
        or a `PrivatePipeline`. Or the result of `cross_validate` with ``return_estimator=True``. Or a fitted
        ``VotingClassifier``, ``OneVsRestClassifier``, ``MultiOutputClassifier``, ``ClassifierChain``,
        ``FixedThresholdClassifier`` or ``SelectFromModel`` of such estimators, whose costs add up. The
        labels of the first two are read from ``y``, as with ``classes=None``.
    cv : splitter, default=None
        The splitter of a cross-validation; a search knows its own.
    scoring : PrivateScorer or dict of PrivateScorer, default=None
        The scorers of a cross-validation; a search knows its own.

    Returns
    -------
    cost : PrivacyCost
        Cost of the fits on folds, the scores and the refit, composed exactly.

    Raises
    ------
    ValueError
        If there is no guarantee: for scores without noise, folds that depend on the rows (such as stratified
        ones; pass ``cv=KFold(5, shuffle=True)``), ``add_or_remove_one`` (where an additional row moves others
        to different folds), fits that protect persons together with scores that do not, or with folds that
        may part a person's rows (pass ``cv=GroupKFold(5, shuffle=True)``), steps of unknown cost, or
        ensembles that learn from rows themselves, or select, repeat or weight them by other rows, such as
        ``BaggingClassifier``, where a row may occur as often as there are rows.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.model_selection import GridSearchCV, KFold
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.metrics import make_private_scorer
    >>> from skdpbayes.model_selection import total_privacy_cost
    >>> X, y = make_classification(2000, 5, random_state=0)
    >>> search = GridSearchCV(
    ...     DPBayesianLogisticRegression(delta=1e-5, classes=[0, 1], random_state=0),
    ...     {"epsilon": [0.5, 1.0]},
    ...     scoring=make_private_scorer("accuracy", epsilon=0.1, random_state=0),
    ...     cv=KFold(4, shuffle=True, random_state=0),
    ... ).fit(X, y)
    >>> round(total_privacy_cost(search).epsilon(1e-5), 1)
    2.3
    """
    if hasattr(results, "privacy_cost_"):
        return results.privacy_cost_
    if isinstance(results, dict):
        return _of_cross_validation(results, cv, scoring)
    if members := members_of(results):
        return _sum(fit_cost(member) for member in members)
    # Other searches fit on other parts, such as growing ones, which this account does not cover.
    known = isinstance(results, GridSearchCV | RandomizedSearchCV)
    if not known or not hasattr(results, "best_estimator_"):
        raise ValueError(
            "total_privacy_cost needs a fitted GridSearchCV or RandomizedSearchCV with refit=True, the "
            "result of cross_validate with return_estimator=True, or a fitted ensemble that it knows, such "
            "as VotingClassifier: it does not know what others fitted."
        )
    return _of_search(results)


def _of_cross_validation(results, cv, scoring):
    if "estimator" not in results or cv is None or scoring is None:
        raise ValueError(
            "the total of a cross-validation needs return_estimator=True, cv and scoring: "
            "total_privacy_cost(cross_validate(..., return_estimator=True), cv=cv, scoring=scorer)."
        )
    fits = [fit_cost(estimator) for estimator in results["estimator"]]
    score = _score_cost(scoring)
    dealt_out = _is_dealt_out(cv, results["estimator"][0], _are_persons(fits[0], score, cv))
    trained = any(key.startswith("train_") for key in results)
    return _over_folds([fits], score, dealt_out, trained)


def _of_search(search):
    best, n_splits = search.best_estimator_, search.n_splits_
    refit, score = fit_cost(best), _score_cost(search.scorer_)
    dealt_out = _is_dealt_out(search.cv, best, _are_persons(refit, score, search.cv))
    final = final_step(best)
    n_samples, n_classes = _size_of(best), len(getattr(final, "classes_", ())) or None
    shape = (best if is_private(best) else final).n_features_in_, n_classes
    # Only the plans of fits know whether weights were passed.
    weighted = getattr(getattr(final.plan_, "bounds", None), "max_weight", None) is not None
    fits = []
    for params in search.cv_results_["params"]:
        candidate = clone(search.estimator).set_params(**clone(params, safe=False))
        sizes = _train_sizes(search.cv, n_samples, n_splits)
        fits.append([planned_cost(candidate, size, *shape, weighted) for size in sizes])
    return _over_folds(fits, score, dealt_out, search.return_train_score) + refit


def _size_of(estimator):
    """The number of rows, or of persons, that a fitted estimator or pipeline has planned for."""
    plan = (estimator if is_private(estimator) else final_step(estimator)).plan_
    persons = getattr(plan, "persons", None)
    return plan.n_samples if persons is None else plan.n_samples // persons.max_rows


def _are_persons(fit, score, cv):
    """Whether fits, scores and folds all are of persons; raises a ValueError if only some are."""
    relations = fit.neighboring_relation, score.neighboring_relation
    if not set(relations) & set(PERSON_RELATIONS):
        return False
    if relations[0] != relations[1]:
        raise ValueError(
            f"there is no total of fits under {relations[0]!r} and scores under {relations[1]!r}: for "
            "persons, fit with max_rows_per_group, let tools route the persons of rows to fits and scores, "
            "estimator.set_fit_request(groups=True) and scorer.set_score_request(groups=True), and pass "
            "cv=GroupKFold(5, shuffle=True). Or keep one row of each person beforehand, so that rows are "
            "persons, and leave max_rows_per_group=None."
        )
    # By a known seed, a fold would be a function of the order of all labels.
    if not (type(cv) is GroupKFold and cv.shuffle and cv.random_state is None):
        raise ValueError(
            "there is no total for these folds: all rows of a person must be in one, which is drawn whatever "
            "others there are. Pass cv=GroupKFold(5, shuffle=True), without a random_state."
        )
    return True


def _over_folds(fits, score, dealt_out, train_scores):
    """Compose fits, given as a list of fits on the folds for each candidate, with their scores."""
    if between_rows(score.neighboring_relation) != "replace_one":
        raise ValueError(
            "folds depend on row numbers: under 'add_or_remove_one' an additional row moves others to "
            "different folds, so there is no total. Use neighboring_relation='replace_one'."
        )
    fits = [[fit + score if train_scores else fit for fit in folds] for folds in fits]
    places = range(len(fits[0]))
    if not dealt_out:
        # Each split is drawn anew, and a record may be where it costs most every time.
        return _sum(in_parallel(folds[i], score) for folds in fits for i in places)
    return in_parallel(
        *(
            _sum(score if i == test else folds[i] for folds in fits for i in places)
            for test in places
        ),
        one_part_per_person=True,
    )


def _is_dealt_out(cv, estimator, persons):
    """Whether rows are divided into folds once, or splits are drawn one by one."""
    if type(cv) is ShuffleSplit:
        return False
    if persons:
        return True
    if type(cv) is KFold or ((cv is None or isinstance(cv, int)) and not is_classifier(estimator)):
        return True
    raise ValueError(
        "there is no total for these folds: the fold of a row may depend on other rows, as in stratified "
        "folds (scikit-learn's default for classifiers). Pass cv=KFold(5, shuffle=True)."
    )


def _train_sizes(cv, n_samples, n_splits):
    """The numbers of rows that are fitted on."""
    if type(cv) is ShuffleSplit:
        return [len(next(cv.split(range(n_samples)))[0])] * n_splits
    return [n_samples - n_samples // n_splits - (i < n_samples % n_splits) for i in range(n_splits)]


def _sum(costs):
    return reduce(lambda a, b: a + b, costs)


def _score_cost(scorers):
    scorers = list(scorers.values()) if isinstance(scorers, dict) else [scorers]
    if not all(isinstance(scorer, PrivateScorer) for scorer in scorers):
        raise ValueError(
            "the scores were released without noise, so there is no total: pass "
            "scoring=skdpbayes.metrics.make_private_scorer(...)."
        )
    return _sum(scorer.privacy_cost for scorer in scorers)


def fit_cost(estimator):
    """The cost of a fitted estimator, or of all steps of a fitted pipeline."""
    costs = planned_step_costs(fitted_tree(estimator))
    if not costs:
        raise ValueError(f"{type(estimator).__name__} has no privacy_cost_: it is not private.")
    refuse_leaks(estimator)
    return _sum(costs)


def planned_step_costs(node):
    """The costs of a fitted step, a `StepTree`, or of all steps inside it."""
    cost = getattr(node.estimator, "privacy_cost_", None)
    if cost is not None:
        return [] if cost.is_zero else [cost]
    return [cost for child in node.children for cost in planned_step_costs(child)]


def refuse_leaks(estimator):
    """Raise a ValueError if a step may leak."""
    if leaking := step_tree(estimator).leaks():
        raise ValueError(f"there is no total for steps that may leak: {' '.join(leaking)}")


def final_step(estimator):
    """The last step of a pipeline, which may be a pipeline, too; of others the estimator itself."""
    return step_tree(estimator).steps[-1].estimator


def is_private_pipeline(candidate):
    """Whether a candidate is a private pipeline, which splits its budget itself."""
    return step_tree(candidate).kind == "pipeline" and is_private(candidate)


def planned_cost(candidate, n_samples, n_features, n_classes, weighted=False):
    """The planned cost of a candidate's fit on a number of rows. Mixtures have no classes.

    ``weighted`` is for fits that may have been given weights of rows, and may then cost more.
    """
    if is_private_pipeline(candidate):
        refuse_leaks(candidate)
        return candidate.privacy_plan(n_samples, n_features).cost
    classes = () if n_classes is None else (n_classes,)
    final = spending_step(candidate)
    cost = final.privacy_plan(n_samples, n_features, *classes).cost
    if not weighted:
        return cost
    largest = float(final.max_sample_weight)
    plan = final._plan(n_samples, n_features, *classes, max_sample_weight=largest)
    return in_parallel(cost, plan.cost)


def spending_step(candidate):
    """A candidate's last step; raises if other steps spend or may leak."""
    tree = step_tree(candidate)
    *others, last = tree.steps
    final = last.estimator
    if not hasattr(final, "privacy_plan") or any(spends(node) for node in others):
        raise ValueError(
            "the costs of the candidates cannot be planned: the search's estimator must be one of the "
            "package, or a pipeline in which only the last step spends. Use earlier steps with public "
            "parameters, such as BoundedScaler, DPImputer() or OneHotEncoder(categories=[...], "
            "handle_unknown='ignore'). If other steps spend, a PrivacyLedger adds up the cost of the search."
        )
    refuse_hidden(tree)
    refuse_leaks(candidate)
    return final
