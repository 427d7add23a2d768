"""Posterior intervals from draws, and a table of them.

    interval  = quantiles of the draws at (1 - level) / 2 and (1 + level) / 2
    widening  = 1 - (deviation without privacy) / (deviation of the draws)

Everything here is post-processing of what was released.
"""

import warnings

import numpy as np

from .._checks import callers_level, check_level

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
    if estimator.plan_.n_draws < _FEW and "posterior" in estimator.released_:  # New ones are free.
        draws = estimator.sample_posterior(_FEW, random_state=0)
    quantiles = [(1 - level) / 2, (1 + level) / 2]
    if isinstance(draws, tuple):
        return [np.moveaxis(np.quantile(part, quantiles, axis=0), 0, -1) for part in draws]
    return np.moveaxis(np.quantile(draws, quantiles, axis=0), 0, -1)


def warn_unless_calibrated(estimator):
    """Warn if a fitted estimator's draws are not a calibrated posterior."""
    if not (plan := estimator.plan_).is_calibrated:
        # With exposures counts may be of survival, for which no posterior is calibrated.
        is_exposed = getattr(estimator, "_is_exposed", False)
        calibrated = "" if is_exposed else plan.sampler.calibrated_names(plan.bounds.family)
        of_others = f" Draws of {calibrated} are." if calibrated else ""
        warnings.warn(
            f"draws of sampler={plan.name!r} under privacy are not a calibrated posterior: the "
            f"coverage of intervals may be below or above their level.{of_others}",
            UserWarning,
            stacklevel=callers_level(),
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
    pd = required_pandas()
    deviations = draws.std(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.clip(1.0 - without / deviations, 0.0, 1.0)
    ends = [f"{50 * (1 + side * level):.10g}%" for side in (-1, 1)]
    columns = {
        "mean": draws.mean(axis=0),
        "sd": deviations,
        ends[0]: interval[:, 0],
        ends[1]: interval[:, 1],
        "sd_without_privacy": without,
        "share_of_privacy": share,
    }
    return pd.DataFrame(columns, index=index)


def required_pandas():
    """Return the module pandas, or raise an ImportError that says why it is needed."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "summary returns a data frame and requires pandas: pip install pandas"
        ) from error
    return pd
