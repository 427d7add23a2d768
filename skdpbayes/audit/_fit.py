"""An audit of fits: canaries are in a table or not by the throw of a coin, and an attack guesses which.

    b_i ~ Bernoulli(1/2),     table = rows and the forms b of the canaries,     fit,     guess b

A run has as many coins as canaries (`_one_run`); with one canary, runs are independent releases from two
tables, and their scores are compared (`_scores`).
"""

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from .._checks import check_sizes
from .._tables.order import refuse_columns_in_other_order
from .._typing import Claim, MatrixLike, RandomStateLike
from ..model_selection._total import costs_of_steps
from ..privacy.cost import composed
from ..privacy.gaussian import gaussian_epsilon
from ..random import public_generator
from ..samplers._machinery.execution import progress_bar
from ._canaries import Canaries, default_canaries, default_score, number_of_directions
from ._one_run import epsilon_of_scores
from ._ranked_guesses import mu_of_scores
from ._result import AuditResult
from ._scores import _check_options, audit_scores

# Fewer runs of each form say more together with guesses.
_FEWEST = 8
# Canaries in a run by default, if there are as many directions.
_MOST = 100


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
        n_canaries = min(_MOST, n_directions) if n_canaries is None else n_canaries
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
    """Return a tuple with a note if canaries are more than a model can tell apart, else an empty one."""
    if n_canaries <= n_directions:
        return ()
    one = n_directions == 1
    what = "a single number or column" if one else f"{n_directions} columns"
    return (
        f"{n_canaries} canaries share {what} and hide each other, so that it finds far less than that: "
        f"take n_canaries={n_directions}{'' if one else ' or fewer'}, and more runs, e.g. n_canaries=1, "
        "n_runs=1000.",
    )


def _table(X, y, canaries, coins):
    """Return rows and labels with the canaries, in their forms, at the end."""
    rows = _chosen(canaries.X_in, canaries.X_out, coins)
    X = _stacked(X, rows)
    if y is None:
        return X, None
    return X, _stacked(y, _chosen(canaries.y_in, canaries.y_out, coins))


def _adds(estimator):
    """Tell whether neighbouring tables have a record more or less."""
    if hasattr(estimator, "get_params"):
        own = estimator.get_params(deep=True)
    else:
        own = getattr(estimator, "keywords", {})
    relations = {v for name, v in own.items() if name.endswith("neighboring_relation")}
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
    """Return a clone that is fitted with randomness of its own, or what a score returns."""
    with warnings.catch_warnings(action="ignore"):
        if not hasattr(estimator, "fit"):
            return estimator(*table, random_state=seed)
        fitted = clone(estimator)
        fitted.set_params(**dict.fromkeys(parameters_named("random_state", fitted), seed))
        return fitted.fit(*table)


def parameters_named(name, estimator):
    """Return the parameters of that name of an estimator, and of those that it holds."""
    return [own for own in estimator.get_params(deep=True) if own.rpartition("__")[2] == name]


def claimed_cost(released):
    """Return (cost, delta) of a fitted estimator or a score; (None, 0) if it says nothing."""
    if hasattr(released, "steps") and not hasattr(released, "privacy_cost_"):
        # A pipeline of scikit-learn's, whose steps have budgets of their own.
        last, delta = claimed_cost(released.steps[-1][1])
        others = [cost for _, step in released.steps[:-1] for cost in costs_of_steps(step)]
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
    if n_canaries == 1 and min(inside.sum(), (~inside).sum()) >= _FEWEST:
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
            gaussian_epsilon(own, delta) for own in (mu, mu_of_scores(best, inside, error))
        )
    else:
        mu = None
        bound, most = (epsilon_of_scores(own, inside, delta, error) for own in (scores, best))
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
