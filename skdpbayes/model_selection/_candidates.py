"""Candidates of a private selection, drawn from public distributions, each with its part of the budget."""

from numbers import Integral, Real

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, ParameterSampler
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from .._checks import table_shape
from .._tables.collections import header_of, is_collection
from .._tables.order import rows_compared
from .._tables.persons import number_persons
from ..metrics._exposure import fit_params, last_step
from ..pipeline._arguments import check_arguments
from ..pipeline._columns import refuse_hidden
from ..pipeline._leaks import is_private, refuse_selections_by_rows
from ..pipeline._plan import plan_pipeline
from ..pipeline._rehearsal import labels_of, rehearse
from ..privacy.deferred_warnings import ignored_warnings
from ..privacy.vouchers import covers
from ..random import has_seeds
from ._total import planned_cost, refuse_leaks, spending_step

_OWN = ("epsilon", "delta", "neighboring_relation")
# Largest number of candidates that are planned to see the form of their costs.
_MOST_KINDS = 48
# Values that are tried of a distribution with ``rvs``.
_VALUES = 2
# Columns of the table that is planned for, on which the form does not depend.
_COLUMNS = 8
# What an estimator learns by choices of its own, at a cost of each fit, and what to pass instead.
_LEARNT = {
    "target_bounds": "(low, high) with two public numbers",
    "max_count": "a public number",
    "data_norm": "a public number",
}


def draw_candidate(search, plan, generator):
    """Return the parameters of a candidate, and an estimator with these and its part of the budget."""
    seed = int(generator.integers(2**32))  # Proposition 43.
    params = next(iter(ParameterSampler(search.param_distributions, 1, random_state=seed)))
    prefix = private_prefix(search.estimator)
    if own := sorted(set(params) & {prefix + name for name in _OWN}):
        raise ValueError(
            f"param_distributions must not contain {own}, which the search sets: leave them out."
        )
    bounds = any(name.rpartition("__")[-1] == "target_bounds" for name in params)
    if bounds and "target_bounds" not in search._scorer().options:
        raise ValueError(
            "candidates would be scored within target_bounds of their own, of which the narrowest win: give "
            "scoring=make_private_scorer(..., target_bounds=(low, high)), or do not search target_bounds."
        )
    candidate = clone(search.estimator).set_params(**clone(params, safe=False))
    values = candidate.get_params()
    if last_step(candidate).neighboring_relation != search.neighboring_relation:
        raise ValueError(
            "the estimator and the search differ in neighboring_relation: give both the same."
        )
    _check_limit(candidate, f"{prefix}max_rows_per_group", plan.protects_persons)
    changes = {prefix + "epsilon": plan.fit_epsilon, prefix + "delta": plan.fit_delta}
    for name in values:
        # Progress would reveal the number of runs.
        if name.endswith("verbose"):
            changes[name] = False
        if name.endswith("random_state") and search.random_state is not None:
            changes[name] = int(generator.integers(2**31))  # Public: the search has a seed, too.
    return params, candidate.set_params(**changes)


def limits_of(search):
    """Return the numbers of rows per person that a search's estimator or its distributions name."""
    name = f"{private_prefix(search.estimator)}max_rows_per_group"
    given = search.param_distributions
    drawn = (one[name] for one in ([given] if isinstance(given, dict) else given) if name in one)
    listed = [limit for one in drawn for limit in (one if isinstance(one, list | tuple) else [one])]
    own = search.estimator.get_params().get(name)
    return [limit for limit in (own, *listed) if limit is not None]


def most_rows_of(search):
    """Return how many rows of a person a candidate uses at most; None if rows are protected, or not known."""
    limits = limits_of(search)
    return int(max(limits)) if limits and all(isinstance(k, Integral) for k in limits) else None


def expected_size(search):
    """Return a size for the plan if the table's is private; the plan uses it only for expectations."""
    values = search.estimator.get_params().items()
    sizes = [value for name, value in values if name.endswith("public_size")]
    if not any(sizes):
        raise ValueError(
            "neighboring_relation='add_or_remove_one' keeps the number of rows private: set the "
            "estimator's public_size, to a number that does not come from the data."
        )
    # Persons may have fewer rows than that, and be more.
    most_rows = max((one for one in limits_of(search) if isinstance(one, Integral)), default=1)
    return round(max(filter(None, sizes)) / most_rows / (1.0 - search.test_size))


def draws_seeds(distributions):
    """Tell whether candidates of these may have seeds of their own."""
    given = distributions if isinstance(distributions, list) else [distributions]
    if any(name.endswith("random_state") for one in given for name in one):
        return True
    listed = (v for one in given for v in one.values() if isinstance(v, list | tuple))
    return any(has_seeds(value) for values in listed for value in values)


def refuse_collections(X, y):
    """Raise a TypeError for tables in Dask, whose rows cannot be taken by their places."""
    for name, one in (("X", X), ("y", y)):
        if is_collection(one):
            raise TypeError(
                f"{name} is a Dask collection, and searches read tables in memory: pass {name}.compute() if "
                "it fits. Nothing was read."
            )


def persons_of(search, groups, X, y):
    """Return the person of each row, or None if rows are protected."""
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
    final = spender(candidate)
    if exposure is not None:
        scorer._check_exposed(candidate)
    if is_private_pipeline(candidate):
        expected = _rehearse_whole(candidate, plan, X, y, exposure, groups)
    else:
        expected = rehearse(candidate, X, y, fit_params(candidate, exposure, groups))
    n_columns, classes = expected.n_columns, expected.classes
    train, test = parts if y is None else (_safe_indexing(y, rows) for rows in parts)
    if classes is not None:
        classes = labels_of(candidate, train)
    scorer._check(candidate, classes, None if y is None else test)
    if n_columns is not None and not is_private_pipeline(candidate):
        n_classes = 2 if hasattr(final, "predict_proba") and hasattr(final, "classes") else None
        n_classes = n_classes if classes is None else len(classes)
        cost = planned_cost(final, plan.n_train, n_columns, n_classes)
        refuse_unless_covered(cost, plan, final)


def _rehearse_whole(candidate, plan, X, y, exposure, groups):
    """Rehearse a private pipeline and check that the plan covers its own, which does not depend on rows."""
    params = fit_params(candidate, exposure)
    check_arguments(candidate, params, X, y)
    candidate._check_parameters()
    header = header_of(X)
    refuse_selections_by_rows(candidate, X, header)
    own = plan_pipeline(candidate, plan.n_train, table_shape(X)[1], header)
    refuse_unless_covered(own.cost, plan, candidate)
    with candidate._parts_of_budget(own), rows_compared():
        return rehearse(Pipeline(candidate.steps), X, y, params, candidate.learns_nothing or ())


def is_private_pipeline(candidate):
    """Tell whether a candidate is a private pipeline, which splits its budget itself."""
    return isinstance(candidate, Pipeline) and is_private(candidate)


def spender(candidate):
    """Return what spends a candidate's part of the budget: a private pipeline, or the last step.

    Raises
    ------
    ValueError
        If a step may leak, or spends beside it.
    """
    if not is_private_pipeline(candidate):
        return spending_step(candidate)
    refuse_hidden(candidate)
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
    if covers(plan.fit_cost, cost):
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
    """Return the name of a model that the search may draw, of a cost that is not Gaussian; "" without one.

    It depends on the distributions and not on what is drawn of them, because a plan is public and the number
    of candidates is not. Of numbers it tries the ends, of other values all.
    """
    given = search.param_distributions
    given = [given] if isinstance(given, dict) else given
    grids = [{name: _kinds(values, name) for name, values in one.items()} for one in given]
    kinds = ParameterGrid(grids)
    if len(kinds) > _MOST_KINDS:
        kinds = ParameterSampler(grids, _MOST_KINDS, random_state=0)  # Public.
    for params in kinds:
        try:
            with ignored_warnings():
                candidate = clone(search.estimator).set_params(**clone(params, safe=False))
                prefix = private_prefix(candidate)
                own = search.epsilon, search.delta or 1e-6, search.neighboring_relation
                candidate.set_params(
                    **{prefix + name: value for name, value in zip(_OWN, own, strict=True)}
                )
                final = spending_step(candidate)
                of_classes = (2,) if hasattr(final, "classes") else ()
                cost = final.privacy_plan(n_train, _COLUMNS, *of_classes).cost
        except Exception:  # A fit raises it, if it draws the candidate, and says why.
            continue
        learns = any(isinstance(getattr(final, name, None), str) for name in _LEARNT)
        if not (cost.is_gaussian or learns):
            return type(final).__name__
    return ""


def _kinds(values, name):
    """Return those of a parameter's values on which the form of a cost may depend."""
    if hasattr(values, "rvs"):
        drawn = ParameterSampler({name: values}, _VALUES, random_state=0)  # Public.
        return [one[name] for one in drawn]
    is_number = [isinstance(value, Real) and not isinstance(value, bool) for value in values]
    numbers = [value for value, is_one in zip(values, is_number, strict=True) if is_one]
    others = [value for value, is_one in zip(values, is_number, strict=True) if not is_one]
    return others + ([min(numbers), max(numbers)] if numbers else [])


def private_prefix(estimator):
    """Return the prefix of the private step's parameters."""
    prefix, names = "", estimator.get_params()
    if is_private_pipeline(estimator):
        return ""
    if isinstance(estimator, Pipeline):
        prefix = f"{estimator.steps[-1][0]}__"
    if not {prefix + name for name in _OWN} <= set(names):
        raise ValueError(
            f"{type(estimator).__name__} has no {', '.join(_OWN)}: the search needs a private estimator of "
            "the package, or a pipeline that ends in one."
        )
    return prefix
