"""Posterior intervals from draws, and a table of them.

    interval  = quantiles of the draws at (1 - level) / 2 and (1 + level) / 2
    widening  = 1 - (deviation without privacy) / (deviation of the draws)

Everything here is post-processing of what was released.
"""

import numpy as np

from .._checks import check_level
from ..privacy.deferred_warnings import warn

# Number of draws that intervals are computed from, if new ones are free.
_FEW = 400


def interval_ends(estimator, level, draws):
    """Return the ends of posterior intervals, along a last axis of length 2.

    Parameters
    ----------
    estimator : estimator instance
        Fitted.
    level : float
        In (0, 1).
    draws : ndarray or tuple of ndarray
        All of its draws.

    Returns
    -------
    ends : ndarray or list of ndarray
    """
    check_level(level)
    warn_unless_calibrated(estimator)
    draws = enough_draws(estimator, draws)
    quantiles = [(1 - level) / 2, (1 + level) / 2]
    if isinstance(draws, tuple):
        return [np.moveaxis(np.quantile(part, quantiles, axis=0), 0, -1) for part in draws]
    return np.moveaxis(np.quantile(draws, quantiles, axis=0), 0, -1)


def enough_draws(estimator, draws=None):
    """Return the draws of a fitted estimator, or new ones if there are few and new ones are free."""
    if estimator.plan_.n_draws < _FEW and "posterior" in estimator.released_:
        return estimator.sample_posterior(_FEW, random_state=0)
    return estimator.posterior_samples_ if draws is None else draws


def warn_unless_calibrated(estimator):
    """Warn if a fitted estimator's draws are not a calibrated posterior."""
    if not (plan := estimator.plan_).is_calibrated:
        # With exposures counts may be of survival, for which no posterior is calibrated.
        is_exposed = getattr(estimator, "_is_exposed", False)
        calibrated = plan.sampler.calibrated_names(plan.bounds.family)
        unless = (
            ", but not of survival, where an exposure ends with the event" if is_exposed else ""
        )
        if getattr(plan.bounds.family, "whole_numbers", False):
            unless = f", for counts that vary about as Poisson's law says{unless}"
        named = calibrated.replace(", ", " or sampler=")
        of_others = f" sampler={named} gives calibrated draws{unless}." if calibrated else ""
        warn(
            f"draws of sampler={plan.name!r} under privacy are not a calibrated posterior: the "
            f"coverage of intervals may be below or above their level.{of_others}"
        )


def interval_table(draws, interval, without, index, level):
    """Return a data frame, or raise an ImportError without pandas.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n)
    interval : ndarray of shape (n, 2)
    without : ndarray of shape (n,)
        Deviations without privacy.
    index : sequence or pandas.Index
        Names of the rows.
    level : float
        Level of the intervals.
    """
    moments = _moments(draws)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip(1.0 - without / moments["sd"], 0.0, 1.0)
    return whole_table(
        {
            **moments,
            **dict(zip(names_of_ends(level), interval.T, strict=True)),
            "sd_without_privacy": without,
            "share_of_privacy": share,
        },
        index,
    )


def statement_table(draws, index, level):
    """Return a data frame with what draws say of coefficients, or raise an ImportError without pandas.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n)
    index : sequence or pandas.Index
        Names of the rows.
    level : float
        Level of the intervals.
    """
    return whole_table({**_moments(draws), **_quantiles(draws, level)}, index)


def median_table(draws, index, level, null=0.0, moments=True):
    """Return a `statement_table` of any functions of coefficients, which leads with medians.

    Unlike a mean, the median of a bent function is the function of a median, and within every interval.

    Parameters
    ----------
    draws, index, level
        As for `statement_table`.
    null : float, default=0.0
        What quantities are compared with: the column of probabilities says how likely they are larger.
    moments : bool, default=True
        Whether means and deviations come last. Without, there are none.
    """
    columns = {"median": np.median(draws, axis=0), **_quantiles(draws, level, null)}
    return whole_table({**columns, **(_moments(draws) if moments else {})}, index)


def _moments(draws):
    return {"mean": draws.mean(axis=0), "sd": draws.std(axis=0)}


def _quantiles(draws, level, null=0.0):
    """Return the ends of intervals, and probabilities of being larger than ``null``."""
    check_level(level)
    interval = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    ends = dict(zip(names_of_ends(level), interval, strict=True))
    return {**ends, f"P(> {null:g})": (draws > null).mean(axis=0)}


def names_of_ends(level):
    """Return the percentages that the ends of an interval are called."""
    return [f"{50 * (1 + side * level):.10g}%" for side in (-1, 1)]


def whole_table(columns, index):
    """Return a data frame that prints all of its columns and rows, or raise an ImportError without pandas."""
    required_pandas()
    from .whole import WholeTable

    return WholeTable(columns, index=index)


def required_pandas():
    """Return the module pandas, or raise an ImportError that says why it is needed."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "tables are data frames, which require pandas: pip install pandas"
        ) from error
    return pd
