"""An audit of fits: canaries are in a table or not by the throw of a coin, and an attack guesses which.

    b_i ~ Bernoulli(1/2),     table = rows and the forms b of the canaries,     fit,     guess b

A run has as many coins as canaries (`epsilon_of_scores`, `mu_of_scores`); with one canary, runs are
independent releases from two tables, and their scores are compared (`audit_scores`).
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtrc
from sklearn.base import clone, is_classifier, is_regressor

from .._arguments import check_sizes
from .._compute.execution import progress_bar
from .._data.collections import refuse_columns_in_other_order
from .._typing import Claim, MatrixLike, RandomStateLike
from ..model_selection._total_cost import planned_step_costs
from ..preprocessing.one_hot import canonical
from ..privacy.conversions import gaussian_epsilon
from ..privacy.cost import composed
from ..privacy.unsafe_callers import fitted_tree
from ..random import public_generator
from ._bounds import AuditResult, _check_options, audit_scores, mu_of_scores

# Canaries: records that are easy to find again, and how to look for them in what was released.
#
# A canary has two forms, of which a coin decides: a record, and another one that is as far from it as
# records can be, or none at all. By default a row has a length of ``data_norm`` along a single
# column, where few others disturb it, and the two forms have opposite labels, the lowest and the
# highest response, or opposite rows. Without a public norm rows are corners of the box around the
# table.


class Canaries(NamedTuple):
    """Records of either form, one in each row.

    Attributes
    ----------
    X_in, X_out : array-like of shape (n_canaries, n_features) or (n_canaries,)
        Rows, the former of those that are in the table; the latter may be None under
        "add_or_remove_one", where canaries are in the table or not.
    y_in, y_out : array-like of shape (n_canaries,) or None
        Their labels or responses.
    """

    X_in: Any
    X_out: Any
    y_in: Any = None
    y_out: Any = None


def default_canaries(estimator, X, y, n_canaries, generator):
    """`Canaries` for an estimator or a score.

    Parameters
    ----------
    estimator : estimator or callable
    X : array-like of shape (n_samples, n_features), or (n_samples,) for a score
    y : array-like of shape (n_samples,) or None
    n_canaries : int
    generator : Generator
        Of what is public.
    """
    if not hasattr(estimator, "fit"):
        # In the order of a matrix, if it is one.
        values = getattr(estimator, "keywords", {}).get("labels", np.unique(np.asarray(X)))
        low, high = np.full(n_canaries, values[0]), np.full(n_canaries, values[-1])
        # In: the prediction is right.
        return Canaries(high, high, high, low)
    if hasattr(estimator, "categories"):
        return _new_categories(X, n_canaries)
    rows = _rows(estimator, X, n_canaries, generator)
    if y is None or not (is_classifier(estimator) or is_regressor(estimator)):
        labels = [None, None] if y is None else [np.asarray(y)[:1].repeat(n_canaries)] * 2
        if not _has_norm(estimator):
            rows, opposite = _corner(X, n_canaries, 1), _corner(X, n_canaries, 0)
        else:
            opposite = -rows
        return Canaries(rows, opposite, *labels)
    low, high = _extremes(estimator, y)
    return Canaries(rows, rows, np.full(n_canaries, high), np.full(n_canaries, low))


def number_of_directions(estimator, X):
    """Number of default canaries can be told apart: one for each column, or number, that is released.

    Of categories each canary brings its own.
    """
    if not hasattr(estimator, "fit"):
        return 1
    if hasattr(estimator, "categories"):
        return math.inf
    return _numbers(X).shape[1]


def _numbers(X):
    try:
        return np.asarray(X, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(
            "default canaries are for tables of numbers: for this one, give canaries=Canaries(X_in, X_out, "
            "y_in, y_out)."
        ) from None


def _has_norm(estimator):
    data_norm = estimator.get_params(deep=False).get("data_norm")
    return isinstance(data_norm, Real) and math.isfinite(data_norm)


def _rows(estimator, X, n_canaries, generator):
    n_features = _numbers(X).shape[1]
    signs = generator.choice([-1.0, 1.0], (n_canaries, n_features))  # Public: canaries.
    if not _has_norm(estimator):
        return np.where(signs > 0, _corner(X, 1, 1), _corner(X, 1, 0))
    rows, which = np.zeros((n_canaries, n_features)), np.arange(n_canaries)
    rows[which, which % n_features] = signs[:, 0] * float(estimator.data_norm)
    return rows


def _corner(X, n_canaries, side):
    box = np.nanmax(_numbers(X), axis=0) if side else np.nanmin(_numbers(X), axis=0)
    return np.tile(box, (n_canaries, 1))


def _extremes(estimator, y):
    """The two labels, or responses, that are farthest apart."""
    parameters = estimator.get_params(deep=True)
    for name, value in parameters.items():
        last = name.rpartition("__")[2]
        if last == "max_count" and isinstance(value, Real):
            return 0, value
        if last == "target_bounds" and not isinstance(value, str) and value is not None:
            return value
        if last == "classes" and value is not None and is_classifier(estimator):
            return value[0], value[-1]
    values = np.unique(np.asarray(y))
    return values[0], values[-1]


def _new_categories(X, n_canaries):
    """Rows of categories that no other row has, and rows as they are."""
    table = np.asarray(X, dtype=object)
    others = table[np.arange(n_canaries) % len(table)]
    fresh = np.empty(others.shape, dtype=object)
    for place in np.ndindex(fresh.shape):
        is_number = isinstance(others[place], Real)
        fresh[place] = 1e9 + place[0] if is_number else f"canary {place[0]}"
    return Canaries(fresh, others)


def default_score(released, canaries):
    """The score of each canary, which is large if its first form seems to be in the table.

    Parameters
    ----------
    released : fitted estimator, or what a score returned
    canaries : Canaries
    """
    n = len(canaries.X_in)
    if not hasattr(released, "fit"):
        # Of a matrix: its last label is predicted right in a canary's first form, as the first label in its
        # second one.
        is_matrix = np.ndim(released) == 2
        return np.full(
            n, released[-1, -1] - released[-1, 0] if is_matrix else np.sum(released, dtype=float)
        )
    # Pipelines hand on their last step's methods.
    if is_classifier(released):
        return _log_odds(released, canaries)
    if hasattr(released, "predict") and is_regressor(released):
        return np.asarray(released.predict(canaries.X_in), dtype=float)
    if hasattr(released, "score_samples"):
        out = 0.0 if canaries.X_out is None else released.score_samples(canaries.X_out)
        return released.score_samples(canaries.X_in) - out
    return _learnt(released, canaries)


def _log_odds(released, canaries):
    proba = released.predict_proba(canaries.X_in)
    places = {label: k for k, label in enumerate(released.classes_)}
    rows = np.arange(len(proba))
    inside = proba[rows, [places[label] for label in canaries.y_in]]
    if canaries.y_out is None:
        return np.log(np.maximum(inside, 1e-300))
    out = proba[rows, [places[label] for label in canaries.y_out]]
    return np.log(np.maximum(inside, 1e-300)) - np.log(np.maximum(out, 1e-300))


def _learnt(released, canaries):
    """The parameters that a transformer has learnt, along the canaries."""
    n = len(canaries.X_in)
    if hasattr(released, "categories_"):
        kept = [set(categories) for categories in released.categories_]
        rows = np.asarray(canaries.X_in, dtype=object)
        return np.array(
            [
                sum(
                    canonical(cell) in categories
                    for cell, categories in zip(row, kept, strict=True)
                )
                for row in rows
            ],
            dtype=float,
        )
    for names in (("lower_", "upper_"), ("statistics_",)):
        if all(hasattr(released, name) for name in names):
            learnt = np.sum([getattr(released, name) for name in names], axis=0)
            return np.full(n, float(np.sum(learnt)))
    raise ValueError(
        f"how to look for a canary in a {type(released).__name__} is not known: give score=, a function of "
        "the fitted estimator and the canaries that returns one number for each."
    )


# Bounds from guesses about many records at once, each of which was in a table by the throw of a coin.
#
#     P(V >= v) <= P(B >= v) + 2 m delta max_i P(v > B >= v - i) / i,
#     B ~ Binomial(r, 1 / (1 + e^-epsilon))
#
# for ``v`` right ones of ``r`` guesses about ``m`` coins, if the mechanism is (epsilon,
# delta)-private where one coin is turned (Steinke, Nasr and Jagielski, "Privacy auditing with one (1)
# training run", NeurIPS 2023, Theorem 5.2). Claims of ``mu`` are in `mu_of_scores`.
#
# Runs are independent: ``m`` and ``r`` are added up, because turning a coin changes a single run.


# Shares of the canaries that are guessed, at a third of the error each: few sure guesses are best for a large
# epsilon, and all for coins that are as sure as each other.
_SHARES = (1.0, 0.25, 0.05)
# Largest epsilon that is searched.
_LARGEST_EPSILON = 64.0


def p_value(n_canaries, n_guesses, n_right, epsilon, delta):
    """A bound on how likely so many right guesses are under (epsilon, delta)."""
    q = 1.0 / (1.0 + math.exp(-epsilon))
    at_least = bdtrc(n_right - 1, n_guesses, q)
    if delta == 0:
        return float(at_least)
    i = np.arange(1, n_right + 1)
    steepest = np.max((bdtrc(n_right - i - 1, n_guesses, q) - at_least) / i, initial=0.0)
    return min(1.0, float(at_least + 2.0 * n_canaries * delta * steepest))


def epsilon_of_guesses(n_canaries, n_guesses, n_right, delta, error):
    """The largest epsilon that so many right guesses refute."""

    def is_refuted(epsilon):
        return p_value(n_canaries, n_guesses, n_right, epsilon, delta) < error

    if not is_refuted(0.0):
        return 0.0
    if is_refuted(_LARGEST_EPSILON):
        return _LARGEST_EPSILON
    low, high = 0.0, _LARGEST_EPSILON
    while high - low > 1e-5:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_refuted(middle) else (low, middle)
    return low


def epsilon_of_scores(scores, inside, delta, error):
    """The best bound on epsilon, the choice of how many to guess being paid for.

    Parameters
    ----------
    scores : ndarray of shape (n_canaries,)
        Large for canaries that seem to be in: the largest are guessed to be in, as many smallest to be out.
    inside : ndarray of shape (n_canaries,), bool
    delta, error : float
    """
    order, best = np.argsort(scores, kind="stable"), 0.0
    for share in _SHARES:
        half = max(1, round(0.5 * share * scores.size))
        high, low = order[-half:], order[: min(half, scores.size - half)]
        right = int(inside[high].sum() + (~inside[low]).sum())
        sizes = scores.size, high.size + low.size, right
        best = max(best, epsilon_of_guesses(*sizes, delta, error / len(_SHARES)))
    return best


# Fewer runs of each form say more together with guesses.
_FEWEST_RUNS = 8
# Canaries in a run by default, if there are as many directions.
_DEFAULT_N_CANARIES = 100


def audit_fit(
    estimator: Any,
    X: MatrixLike,
    y: ArrayLike | None = None,
    *,
    n_canaries: int | None = None,
    n_runs: int = 1,
    canaries: Canaries | None = None,
    score: Callable[[Any, Canaries], ArrayLike] | None = None,
    delta: float | None = None,
    confidence: float = 0.95,
    claim: Claim | Literal["auto"] = "auto",
    random_state: RandomStateLike = None,
    verbose: int = 0,
) -> AuditResult:
    """Bound what a fit spends by an attack on it, which guesses which canaries were in the table.

    Take a table that is no secret, e.g. a made-up one of the same size: an active `PrivacyLedger` is charged
    for every run. A single run is cheap and finds large gaps only. Small ones are found by many runs with one
    canary.

    Parameters
    ----------
    estimator : estimator or callable
        An estimator, pipeline, transformer or search of this package, or a score such as
        ``functools.partial(dp_accuracy_score, epsilon=1.0)``. Clones are fitted, each with randomness of its
        own.
    X : array-like of shape (n_samples, n_features)
        The other records. Of a score: the first column it takes.
    y : array-like of shape (n_samples,), default=None
        Of a score: the second column.
    n_canaries : int or None, default=None
        Canaries in a run. Those that share a direction disturb each other: a model of ``d`` columns has room
        for about ``d``. None takes as many as the table has columns, up to 100, and a single one for a
        score; for transformers that find categories it is 100.
    n_runs : int, default=1
        Independent runs. With few canaries a single run finds nothing: ``n_canaries=1, n_runs=1000`` finds
        most.
    canaries : Canaries, default=None
        Your own, instead of ``n_canaries`` default ones.
    score : callable, default=None
        Maps the fitted estimator, or the released score, and the `Canaries` to a number for each, large if
        its first form seems to be in. None takes the log odds of the two labels, the prediction, the log
        density, or what a transformer has learnt.
    delta : float, default=None
        At which epsilon is bounded. None is that of the fit.
    confidence : float, default=0.95
        Probability with which the bound is right.
    claim : {"auto", "epsilon", "mu", "normal"}, default="auto"
        As for `audit_scores`. "auto" is "mu" if the cost of the fit is Gaussian and nothing else, and
        otherwise "epsilon"; of scikit-learn's pipelines the cost is that of all steps. "normal" is for one
        canary in many runs.
    random_state : None, int, RandomState or Generator, default=None
        For a repeatable audit: seeds for coins and fits follow from it. None takes fresh ones.
    verbose : int, default=0
        Show progress over runs if positive.

    Returns
    -------
    result : AuditResult
        Its ``epsilon_lower_bound`` is right with probability ``confidence``; print it for a verdict.

    Raises
    ------
    ValueError
        If an option is out of range, or there are no default canaries for the table.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes import DPBayesianLogisticRegression
    >>> from skdpbayes.audit import audit_fit
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, (200, 4))
    >>> y = np.arange(200) % 2
    >>> clf = DPBayesianLogisticRegression(epsilon=1.0, data_norm=1.0, classes=[0, 1], n_draws=10)
    >>> result = audit_fit(clf, X, y, n_canaries=4, n_runs=5, random_state=0)
    >>> result.contradicts
    False
    """
    check_sizes(n_runs=n_runs)
    refuse_columns_in_other_order(X=X, y=y)
    generator, notes = public_generator(random_state), ()
    if canaries is None:
        n_directions = number_of_directions(estimator, X)
        n_canaries = min(_DEFAULT_N_CANARIES, n_directions) if n_canaries is None else n_canaries
        check_sizes(n_canaries=n_canaries)
        notes = _of_directions(n_canaries, n_directions)
        canaries = default_canaries(estimator, X, y, int(n_canaries), generator)
        if _adds(estimator):
            canaries = canaries._replace(X_out=None, y_out=None)
    elif _adds(estimator) == (canaries.X_out is not None):
        raise ValueError(
            "canaries need a second form, X_out, under neighboring_relation='replace_one', where records are "
            "replaced by others, and none under 'add_or_remove_one'."
        )
    inside, scores, claims = [], [], []
    with progress_bar(int(n_runs), "audit", verbose) as advance:
        for _ in range(int(n_runs)):
            # Public: coins of canaries.
            coins = generator.integers(2, size=len(canaries.X_in)) == 1
            # Public: seeds are for tests.
            seed = None if random_state is None else int(generator.integers(2**31))
            released = _run(estimator, _table(X, y, canaries, coins), seed)
            own = (score or default_score)(released, canaries)
            inside.append(coins)
            claims.append(claimed_cost(released))
            scores.append(np.asarray(own, dtype=float).reshape(coins.size))
            advance()
    result = _judged(claims, scores, inside, delta, confidence, claim)
    return replace(result, notes=(*result.notes, *notes))


def _of_directions(n_canaries, n_directions):
    """A tuple with a note if canaries are more than a model can tell apart, else an empty one."""
    if n_canaries <= n_directions:
        return ()
    is_single = n_directions == 1
    what = "a single number or column" if is_single else f"{n_directions} columns"
    return (
        f"{n_canaries} canaries share {what} and hide each other, so that it finds far less than that: "
        f"take n_canaries={n_directions}{'' if is_single else ' or fewer'}, and more runs, e.g. "
        "n_canaries=1, n_runs=1000.",
    )


def _table(X, y, canaries, coins):
    """Rows and labels with the canaries, in their forms, at the end."""
    rows = _chosen(canaries.X_in, canaries.X_out, coins)
    X = _stacked(X, rows)
    if y is None:
        return X, None
    return X, _stacked(y, _chosen(canaries.y_in, canaries.y_out, coins))


def _adds(estimator):
    """Whether neighbouring tables have a record more or less."""
    if hasattr(estimator, "get_params"):
        parameters = estimator.get_params(deep=True)
    else:
        parameters = getattr(estimator, "keywords", {})
    relations = {v for name, v in parameters.items() if name.endswith("neighboring_relation")}
    return "add_or_remove_one" in relations


def _chosen(inside, out, coins):
    inside = np.asarray(inside)
    if out is None:
        return inside[coins]
    return np.where(coins.reshape(-1, *[1] * (inside.ndim - 1)), inside, np.asarray(out))


def _stacked(table, rows):
    if hasattr(table, "iloc"):
        import pandas as pd

        if table.ndim == 1:
            rows = pd.Series(rows, name=table.name).astype(table.dtype)
        else:
            rows = pd.DataFrame(rows, columns=table.columns).astype(table.dtypes)
        return pd.concat([table, rows], ignore_index=True)
    return np.concatenate([np.asarray(table), rows])


def _run(estimator, table, seed):
    """A clone that is fitted with randomness of its own, or what a score returns."""
    with warnings.catch_warnings(action="ignore"):
        if not hasattr(estimator, "fit"):
            return estimator(*table, random_state=seed)
        fitted = clone(estimator)
        fitted.set_params(**dict.fromkeys(parameters_named("random_state", fitted), seed))
        return fitted.fit(*table)


def parameters_named(name, estimator):
    """The parameters of that name of an estimator, and of those that it holds."""
    return [
        parameter
        for parameter in estimator.get_params(deep=True)
        if parameter.rpartition("__")[2] == name
    ]


def claimed_cost(released):
    """(cost, delta) of a fitted estimator or a score; (None, 0) if it says nothing."""
    if hasattr(released, "steps") and not hasattr(released, "privacy_cost_"):
        # A pipeline of scikit-learn's, whose steps have budgets of their own.
        last, delta = claimed_cost(released.steps[-1][1])
        early = fitted_tree(released).children[:-1]
        others = [cost for node in early for cost in planned_step_costs(node)]
        return None if last is None else composed((last, *others)), delta
    cost = getattr(released, "privacy_cost_", None) or getattr(released, "privacy_cost", None)
    plan = getattr(released, "plan_", None) or getattr(released, "plan", None)
    delta = getattr(released, "spent_delta_", None)
    return cost, float(getattr(plan, "delta", 0.0) if delta is None else delta)


def _judged(claims, scores, inside, delta, confidence, claim):
    costs, deltas = zip(*dict.fromkeys(claims), strict=True)  # Nearly always one for all runs.
    delta = max(deltas) if delta is None else float(delta)
    if claim == "auto":
        is_gaussian = all(cost is not None and cost.is_gaussian for cost in costs)
        claim = "mu" if delta > 0 and is_gaussian else "epsilon"
    _check_options(delta, confidence, claim)
    claimed = None if None in costs else max(cost.epsilon(delta) for cost in costs)
    n_runs, n_canaries = len(scores), scores[0].size
    scores, inside = np.concatenate(scores), np.concatenate(inside)
    if np.isnan(scores).any():
        raise ValueError("a score of a canary is nan: give another score.")
    options = {"delta": delta, "confidence": confidence, "claim": claim, "claimed_epsilon": claimed}
    if n_canaries == 1 and min(inside.sum(), (~inside).sum()) >= _FEWEST_RUNS:
        return audit_scores(scores[inside], scores[~inside], **options)
    if claim == "normal":
        raise ValueError(
            "claim='normal' is for one canary in many runs: n_canaries=1, n_runs=1000."
        )
    error = 1.0 - confidence
    best = inside.astype(float)
    if claim == "mu":
        mu = mu_of_scores(scores, inside, error)
        bound, most = (
            gaussian_epsilon(bound_on_mu, delta)
            for bound_on_mu in (mu, mu_of_scores(best, inside, error))
        )
    else:
        mu = None
        bound, most = (epsilon_of_scores(values, inside, delta, error) for values in (scores, best))
    return AuditResult(
        float(bound),
        delta,
        float(confidence),
        claim,
        mu,
        float(most),
        scores.size,
        claimed,
        n_runs,
    )
