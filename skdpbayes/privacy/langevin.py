"""Plans for overdamped Langevin chains (SGLD): the whole path released, or last states only (OPS).

    theta <- theta - eta_k (g(theta) + tau lambda theta) + N(0, 2 eta_k tau I),   eta_k = eta_1 k^-a,

is at every step a Gaussian mechanism on the summed gradient ``g``, of sensitivity ``s`` (``2G`` under
``replace_one``, ``G`` under ``add_or_remove_one``).

**Path.** Full batch: it is ``mu``-GDP with

    mu^2 = s^2 t / (2 tau),        t = sum of the step sizes,

and privacy buys diffusion time ``t``. On Poisson batches ``g`` is ``1/q`` times the batch's sum, and
step ``k`` is a Poisson-subsampled Gaussian of noise multiplier ``q sqrt(2 tau / eta_k) / G``. The untuned
rule: the slowest direction, whose curvature is only the prior's ``tau lambda``, is to relax ``k`` times,
``t = k / (tau lambda)``; the temperature is the lowest ``tau >= 1`` at which that is affordable.

**Last states.** The targets must be convex, and a draw's cost is bounded after any number of steps:
``mu^2 <= s^2 / (tau^2 lambda)``. See `skdpbayes.privacy.hidden_state`.

Where ``tau = 1`` is affordable, a run costs less than was asked for. Steps are at most ``1/M``,
``M = n B + tau lambda_max``: released are midpoints of successive states, whose stationary variance is
exact on a quadratic potential at any stable step (Leimkuhler and Matthews 2013; Vilmart 2015).

Wang, Fienberg and Smola (2015); Li, Chen, Liu and Carin (2019) for decreasing steps.
"""

import math
from functools import lru_cache

from .cost import gaussian_epsilon, gaussian_mu
from .langevin_calibration import LangevinCalibration
from .langevin_plans import LangevinOptions, LangevinPlan, LastStatePlan
from .last_state_calibration import LastStateCalibration


@lru_cache(maxsize=512)
def plan_langevin(bounds, n_samples, budget, options=LangevinOptions()):  # noqa: B008
    """Find the schedule of a path whose exact cost stays within a budget.

    Parameters
    ----------
    bounds : TargetBounds
        Public bounds of the target.
    n_samples : int
        Public size of the table.
    budget : Budget
        Ceiling on the cost.
    options : LangevinOptions, default=LangevinOptions()
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
    bounds.checked()
    budget.checked()
    _check(options, n_samples, budget)
    if options.init == "zeros":
        calibration = LangevinCalibration(bounds, n_samples, budget, options)
        return _make(LangevinPlan, calibration, calibration.solve(), "sgld")
    bounds.checked_convex()
    if options.init_share is None:  # The start is drawn at the path's own temperature.
        draw = LastStateCalibration(bounds, n_samples, budget, LangevinOptions())

        def start_cost(temperature):
            return draw.cost(temperature, *draw.schedule(temperature))
    else:
        start = plan_last_state(bounds, n_samples, _part(budget, options.init_share))

        def start_cost(temperature):
            return start.cost

    calibration = LangevinCalibration(bounds, n_samples, budget, options, start_cost)
    solution = calibration.solve()
    if options.init_share is None:
        at_the_same = LangevinOptions(temperature=solution[0])
        start = plan_last_state(bounds, n_samples, budget, at_the_same)
    return _make(LangevinPlan, calibration, solution, "sgld", start=start)


@lru_cache(maxsize=512)
def plan_last_state(bounds, n_samples, budget, options=LangevinOptions()):  # noqa: B008
    """Find the schedule of which only the last state, or one per segment, is released.

    Parameters
    ----------
    bounds : TargetBounds
        Public bounds of the target, which must be convex.
    n_samples : int
        Public size of the table.
    budget : Budget
        Ceiling on the cost, under ``replace_one``.
    options : LangevinOptions, default=LangevinOptions()
        What the user fixes: ``n_draws`` is the number of segments (1 by default), ``n_steps`` counts
        them all, ``batch_size`` is the size of a batch when batches take turns.

    Returns
    -------
    plan : LastStatePlan

    Raises
    ------
    ValueError
        If an option is out of range, if the options cannot all hold, or if what the guarantee needs is
        not given: a convex target, a public number of records, steps that contract.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget, plan_last_state
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(
    ...     3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0), convex=True
    ... )
    >>> plan = plan_last_state(bounds, 10_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.epsilon <= 1.0, plan.n_draws
    (True, 1)
    """
    bounds.checked_convex()
    budget.checked()
    _check(options, n_samples, budget)
    _check_hidden(options, budget)
    calibration = LastStateCalibration(bounds, n_samples, budget, options)
    name = "ops" if calibration.n_batches == 1 else "sgld"
    return _make(LastStatePlan, calibration, calibration.solve(), name)


def _make(kind, calibration, solution, name, **more):
    temperature, step, steps = solution
    bounds, rate = calibration.bounds, calibration.q
    return kind(
        sampler=name,
        n_samples=calibration.n,
        bounds=bounds,
        budget=calibration.budget,
        cost=calibration.cost(temperature, step, steps),
        temperature=temperature,
        n_steps=steps,
        n_burn_in=math.floor(steps * calibration.burn_in),
        n_draws=calibration.draws,
        sampling_rate=rate,
        step_size=step,
        step_decay=calibration.options.step_decay,
        noise_multiplier=rate * math.sqrt(2.0 * temperature / step) / bounds.gradient_bound,
        wanted_relaxations=calibration.goal,
        **more,
    )


def _part(budget, share):
    """Return a budget of a share of another's ``mu^2``."""
    mu = math.sqrt(share) * gaussian_mu(budget.epsilon, budget.delta)
    return budget._replace(epsilon=gaussian_epsilon(mu, budget.delta))


def _check(options, n_samples, budget):
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}.")
    if budget.delta == 0 and not math.isinf(budget.epsilon):
        raise ValueError(
            "delta=0 asks for pure differential privacy, and Langevin samplers ('sgld', 'ops') add "
            "Gaussian noise, which has none: give a delta in (0, 1), e.g. delta=None for the default."
        )
    if options.batch_size is not None and not 1 <= options.batch_size <= n_samples:
        raise ValueError(
            f"batch_size={options.batch_size} must be between 1 and the table's public size, "
            f"{n_samples}; batch_size=None takes the full table."
        )
    if options.temperature is not None and not 1 <= options.temperature < math.inf:
        raise ValueError(f"temperature must be at least 1, got {options.temperature}.")
    if not 0 <= options.step_decay < 1:
        raise ValueError(f"step_decay must be in [0, 1), got {options.step_decay}.")
    if options.burn_in is not None and not 0 <= options.burn_in < 1:
        raise ValueError(f"burn_in is a fraction in [0, 1), got {options.burn_in}.")
    for name in ("n_steps", "n_draws"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
    if options.init not in ("zeros", "ops"):
        raise ValueError(f"init must be 'zeros' or 'ops', got {options.init!r}.")
    if options.init_share is not None and not 0 < options.init_share < 1:
        raise ValueError(f"init_share must be in (0, 1), got {options.init_share}.")
    if options.init_share is not None and options.init == "zeros":
        raise ValueError(
            f"init_share={options.init_share} is for init='ops': drop it, or set init."
        )


def _check_hidden(options, budget):
    if budget.neighboring_relation != "replace_one":
        raise ValueError(
            "releasing last states only needs a bound on the number of records, by which steps are "
            "known to contract, and neighboring_relation='add_or_remove_one' keeps it private: use "
            "'replace_one', or release='path'."
        )
    if options.burn_in is not None:
        raise ValueError(
            f"burn_in={options.burn_in:g} means nothing where only last states are released: leave "
            "burn_in='auto', and raise n_steps for longer segments."
        )
    if options.init != "zeros":
        raise ValueError(
            f"init={options.init!r} is for release='path': last states start at zero, and each draw "
            "after the first at the one before."
        )
