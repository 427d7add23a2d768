"""Public numbers of a plan, and how large they may be, whatever the sampler.

Within these limits plans are computed from normal doubles: squares of squares, over squares of numbers of
records.
"""

import math

from ._resources import check_draws

LARGEST_NUMBER = 2**53
_GRADIENT_BOUNDS = (1e-75, 1e75)
_DEVIATIONS = (1e-30, 1e15)
_LARGEST_PRECISION = 1e150
# Constant column over the norm of rows: fourth powers of it are normal doubles.
_SHORTEST = 1e-75


def check_public(bounds, n_samples, budget, n_draws):
    """Raise a ValueError that names a number that is out of range whatever the sampler."""
    bounds.checked()
    check_scales(bounds)
    budget.checked()
    for name, value in (("n_samples", n_samples), ("n_draws", n_draws)):
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
        if value is not None and value > LARGEST_NUMBER:
            raise ValueError(f"{name} must be at most 2^53.")
    if n_draws is not None:
        check_draws(n_draws, bounds.n_parameters)


def check_scales(bounds):
    """Raise a ValueError if the numbers of a target are so far apart that plans cannot be computed."""
    low, high = bounds.prior_precision
    # Noise that is learnt has the unit of responses; otherwise the unit is 1.
    learnt = getattr(bounds.family, "has_unknown_noise", False)
    unit = bounds.family.half_width if learnt else 1.0
    least, most = _GRADIENT_BOUNDS
    if not least <= bounds.gradient_bound <= most:
        raise ValueError(
            f"gradient_bound={bounds.gradient_bound:g} must be between {least:g} and {most:g}: change the "
            "units of the parameters (for networks, change clip_norm)."
        )
    least, most = _DEVIATIONS
    deviation = bounds.gradient_bound / unit / math.sqrt(low) / unit
    if not least <= deviation <= most:
        raise ValueError(
            f"a record of the largest norm has a logit of prior deviation {deviation:.3g}, which must be "
            f"between {least:g} and {most:g} (gradient_bound={bounds.gradient_bound:g} over the "
            "root of the "
            f"smallest prior precision, {low:g}): choose prior_scale nearer to 1 / data_norm, a smaller "
            "intercept_prior_scale or "
            "max_count, and leave "
            "intercept_scaling=None; for networks, choose prior_scale nearer to 1 / clip_norm."
        )
    if not high <= _LARGEST_PRECISION:
        raise ValueError(
            f"a prior precision of {high:g} is beyond {_LARGEST_PRECISION:g}: choose prior_scale nearer to "
            "1 / data_norm, or intercept_scaling=None."
        )
    if not high <= most**2 * low:
        raise ValueError(
            f"prior precisions between {low:g} and {high:g} are too far apart: leave "
            "intercept_scaling=None, "
            "which gives all coordinates the same, or choose intercept_prior_scale nearer to "
            "prior_scale * data_norm."
        )
    if bounds.row_norm is not None and 0 < bounds.constant < _SHORTEST * bounds.row_norm:
        raise ValueError(
            f"the constant column, {bounds.constant:g}, is too short beside rows of norm "
            f"{bounds.row_norm:g}: choose intercept_prior_scale nearer to prior_scale * data_norm, leave "
            "intercept_scaling=None, or set fit_intercept=False."
        )
    if not bounds.smoothness / unit / unit <= most**2 * low:
        raise ValueError(
            f"smoothness={bounds.smoothness:g} is too far from the smallest prior precision, "
            f"{low:g}: lower "
            "data_norm or prior_scale."
        )
