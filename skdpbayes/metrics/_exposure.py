"""Exposures on their way to predictions: of a model of rates, for the rows that are scored.

E[y] = e r(x),    e the exposure of a row, r its rate

Exposures change predictions, which are private whatever they are: a score's bounds are those of its loss.
"""

import inspect
from functools import partial

from sklearn import config_context

# A pipeline then hands what else it is given to its last step, whatever steps request.
to_last_step = partial(config_context, enable_metadata_routing=False)


def last_step(estimator):
    """Return the last step of a pipeline, and any other estimator itself."""
    while hasattr(estimator, "steps"):
        estimator = estimator.steps[-1][1]
    return estimator


def check_exposed(estimator, method):
    """Raise a TypeError if a method of an estimator, or of a pipeline's last step, takes no exposure."""
    final = last_step(estimator)
    if "exposure" not in inspect.signature(getattr(final, method)).parameters:
        raise TypeError(
            f"{type(final).__name__}.{method} takes no exposure: leave it out, or use a model of rates, such "
            "as DPBayesianPoissonRegressor."
        )


def respond(estimator, method, X, exposure=None):
    """Return what a method of an estimator makes of rows, with their exposures if there are any."""
    if exposure is None:
        return getattr(estimator, method)(X)
    check_exposed(estimator, method)
    with to_last_step():
        return getattr(estimator, method)(X, exposure=exposure)


def refuse_rates(estimator):
    """Raise a ValueError if an estimator was fitted with exposures: counts are not to be scored by rates.

    Of searches it is the best estimator that predicts.
    """
    if getattr(last_step(getattr(estimator, "best_estimator_", estimator)), "_is_exposed", False):
        raise ValueError(
            "the model was fitted with exposure, and would predict rates of the rows that are scored, not "
            "counts: pass their exposure, too (ones, if all were exposed for 1). In scikit-learn's tools, "
            "enable_metadata_routing and scorer.set_score_request(exposure=True) pass it on."
        )


def fit_params(estimator, exposure=None, groups=None):
    """Return the arguments by which an estimator, or a pipeline's last step, is fitted with exposures.

    Persons are told to what chooses their rows: a private pipeline itself, or the last step.
    """
    found, prefix = {}, ""
    while hasattr(estimator, "steps"):
        if groups is not None and hasattr(estimator, "max_rows_per_group"):
            found[f"{prefix}groups"], groups = groups, None
        name, estimator = estimator.steps[-1]
        prefix += f"{name}__"
    own = {f"{prefix}exposure": exposure, f"{prefix}groups": groups}
    return found | {name: one for name, one in own.items() if one is not None}
