"""Plans for overdamped Langevin paths (SGLD), whole path released.

    theta <- theta - eta_k (g(theta) + tau lambda theta) + N(0, 2 eta_k tau I),   eta_k = eta_1 k^-a,

is at every step a Gaussian mechanism on the summed gradient ``g``, of sensitivity ``s`` (``2G`` under
``replace_one``, ``G`` under ``add_or_remove_one``). Full batch: the path is ``mu``-GDP with

    mu^2 = s^2 t / (2 tau),        t = sum of the step sizes,

and privacy buys diffusion time ``t``. On Poisson batches ``g`` is ``1/q`` times the batch's sum, and
step ``k`` is a Poisson-subsampled Gaussian of noise multiplier ``q sqrt(2 tau / eta_k) / G``.

The untuned rule: the slowest direction, whose curvature is only the prior's ``tau lambda``, is to
relax ``k`` times, ``t = k / (tau lambda)``; the temperature is the lowest ``tau >= 1`` at which that is
affordable. Where ``tau = 1`` is, the run costs less than was asked for. Steps are at most ``1/M``,
``M = n B + tau lambda_max``: released are midpoints of successive states, whose stationary variance is
exact on a quadratic potential at any stable step (Leimkuhler and Matthews 2013; Vilmart 2015).

Wang, Fienberg and Smola (2015); Li, Chen, Liu and Carin (2019) for decreasing steps.
"""

from functools import lru_cache

from .langevin_calibration import LangevinCalibration
from .langevin_plans import LangevinPlan
from .options import SamplerOptions
from .paths import calibrate_path


@lru_cache(maxsize=512)
def plan_langevin(bounds, n_samples, budget, options=SamplerOptions()):  # noqa: B008
    """Find the schedule of a path whose exact cost stays within a budget.

    Parameters
    ----------
    bounds : TargetBounds
        Public bounds of the target.
    n_samples : int
        Public size of the table.
    budget : Budget
        Ceiling on the cost.
    options : SamplerOptions, default=SamplerOptions()
        What the user fixes.

    Returns
    -------
    plan : LangevinPlan

    Raises
    ------
    ValueError
        If an option is out of range, or if the options cannot all hold.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget, plan_langevin
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0))
    >>> plan = plan_langevin(bounds, 10_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.epsilon <= 1.0
    True
    """
    solved, start = calibrate_path(LangevinCalibration, bounds, n_samples, budget, options)
    return solved.make(LangevinPlan, "sgld", start=start)
