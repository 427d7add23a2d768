"""What an estimator says of its bounds in a report, and who said so."""

import math
from numbers import Real

from ..privacy.facts import LONGEST_ROW, Fact, as_json, given


def facts_of(estimator):
    """Return the bounds that a private posterior uses: its parameters, defaults, and what it released.

    Parameters
    ----------
    estimator : estimator
        Fitted or not.

    Returns
    -------
    facts : tuple of Fact
    """
    return (
        *_norm(estimator),
        *_responses(estimator),
        *_labels(estimator),
        *_weights(estimator),
    )


def _norm(estimator):
    columns = getattr(estimator, "n_features_in_", None)
    default = None if columns is None else math.sqrt(columns)
    used = getattr(estimator, "data_norm_", default)
    value, source = given(estimator.data_norm, used, used)
    if source == "learnt" and not _learns_norm(estimator):
        source = "default"
    if estimator.data_norm is None and value != default:
        source = "steps"  # Only a pipeline gives another.
    yield Fact(LONGEST_ROW, as_json(value), source)
    if getattr(estimator, "calibration", 0) > 0:
        yield Fact(
            "typical length of rows", as_json(getattr(estimator, "row_norm_", None)), "learnt"
        )
    if hasattr(estimator, "clip_norm"):
        source = "default" if estimator.clip_norm == 1 else "declared"
        yield Fact("longest gradient of a row", as_json(estimator.clip_norm), source)


def _learns_norm(estimator):
    """Tell whether "auto" is a release of its own; with few rows, and of networks, it is a default."""
    plan = getattr(estimator, "plan_", None)
    if plan is None:
        return estimator._releases_norm
    return plan.norm is not None and plan.norm.quantile is not None


def _responses(estimator):
    if hasattr(estimator, "target_bounds"):
        value = estimator.target_bounds
        source = "learnt" if isinstance(value, str) else "declared"
        if source == "learnt":
            value = getattr(estimator, "target_bounds_", None)
        yield Fact("range of responses", as_json(value), source)
    if hasattr(estimator, "max_count"):
        value, source = given(estimator.max_count, None, getattr(estimator, "max_count_", None))
        yield Fact("largest count", as_json(value), source)


def _labels(estimator):
    if not hasattr(estimator, "classes"):
        return
    if estimator.classes is None:
        yield Fact("labels", None, "labels")  # They may not be told, as they come from the rows.
    else:
        yield Fact("labels", as_json(list(estimator.classes)), "declared")


def _weights(estimator):
    plan = getattr(estimator, "plan_", None)
    if getattr(getattr(plan, "bounds", None), "max_weight", None) is not None:
        largest = getattr(estimator, "max_sample_weight", None)
        if isinstance(largest, Real):
            source = "default" if largest == 1 else "declared"
            yield Fact("largest weight of a row", as_json(largest), source)
    if isinstance(weights := getattr(estimator, "class_weight", None), dict):
        texts = [f"{label}: {weight}" for label, weight in weights.items()]
        yield Fact("weights of labels", texts, "declared")
