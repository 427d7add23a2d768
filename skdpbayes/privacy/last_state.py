"""Plans that release last states only: one posterior sample (OPS), or a few.

The targets must be convex, and steps short enough to contract. Then a draw costs, after any number of
steps, no more than an exact sample of the posterior at temperature ``tau`` would:

    mu^2 <= s^2 / (tau^2 lambda)        (`skdpbayes.privacy.hidden_state`)

so that ``K`` draws within ``mu`` allow ``1 / tau = min(1, mu sqrt(lambda) / (s sqrt(K)))``. Where ``tau = 1``
is affordable, nothing is tempered, and the draws cost less than was asked for.

Wang, Fienberg and Smola (2015); Bok, Su and Altschuler (2024).
"""

from functools import lru_cache

from .langevin_plans import LastStatePlan
from .last_state_calibration import LastStateCalibration
from .options import SamplerOptions, check_options


@lru_cache(maxsize=512)
def plan_last_state(bounds, n_samples, budget, options=SamplerOptions()):  # noqa: B008
    """Find the schedule of which only the last state, or one per segment, is released.

    Parameters
    ----------
    bounds : TargetBounds
        Public bounds of the target, which must be convex.
    n_samples : int
        Public size of the table.
    budget : Budget
        Ceiling on the cost, under ``replace_one``.
    options : SamplerOptions, default=SamplerOptions()
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
    check_options(bounds, n_samples, budget, options)
    bounds.checked_convex()
    _check_hidden(options, budget)
    calibration = LastStateCalibration(bounds, n_samples, budget, options).solved()
    name = "ops" if calibration.n_batches == 1 else "sgld"
    return calibration.make(LastStatePlan, name)


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
    if options.friction is not None:
        raise ValueError(
            f"friction={options.friction:g} is for release='path' and sampler='sghmc'."
        )
    if options.init != "zeros":
        raise ValueError(
            f"init={options.init!r} is for release='path': last states start at zero, and each draw "
            "after the first at the one before."
        )
