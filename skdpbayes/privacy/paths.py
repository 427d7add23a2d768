"""Calibrating a path together with what it starts at: zero, or a posterior sample (the hybrid).

    theta_0 ~ OPS at cost mu_0,   then a path at cost mu_1:        mu^2 = mu_0^2 + mu_1^2

Wang, Fienberg and Smola (2015).
"""

import math

from .cost import gaussian_epsilon, gaussian_mu
from .last_state import plan_last_state
from .last_state_calibration import LastStateCalibration
from .options import SamplerOptions, check_options


def calibrate_path(calibration_class, bounds, n_samples, budget, options):
    """Solve for a path's schedule, and plan its start.

    Returns
    -------
    calibration : LangevinCalibration
        Solved.
    start : LastStatePlan or None
        None starts at zero.
    """
    check_options(bounds, n_samples, budget, options)
    if options.friction is not None and not calibration_class.has_velocity:
        raise ValueError(
            f"friction={options.friction:g} is for underdamped samplers, e.g. sampler='sghmc'."
        )
    if options.init == "zeros":
        return calibration_class(bounds, n_samples, budget, options).solved(), None
    bounds.checked_convex()
    if options.init_share is None:  # The start is drawn at the path's own temperature.
        draw = LastStateCalibration(bounds, n_samples, budget, SamplerOptions())

        def start_cost(temperature):
            return draw.cost(temperature, *draw.schedule(temperature))
    else:
        start = plan_last_state(bounds, n_samples, _part(budget, options.init_share))

        def start_cost(temperature):
            return start.cost

    calibration = calibration_class(bounds, n_samples, budget, options, start_cost).solved()
    if options.init_share is None:
        at_the_same = SamplerOptions(temperature=calibration.temperature)
        start = plan_last_state(bounds, n_samples, budget, at_the_same)
    return calibration, start


def _part(budget, share):
    """Return a budget of a share of another's ``mu^2``."""
    mu = math.sqrt(share) * gaussian_mu(budget.epsilon, budget.delta)
    return budget._replace(epsilon=gaussian_epsilon(mu, budget.delta))
