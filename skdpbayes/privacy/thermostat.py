"""Plans for Nose-Hoover thermostats (SGNHT), whole path released.

    u <- (1 - f) u - kappa (g(theta) + tau lambda theta) + N(0, 2 kappa a I),   theta <- theta + u,

with ``f`` free to move and ``a`` fixed: the same access to the records as SGHMC's, and the same cost,
``mu^2 = s^2 t / (2 tau)`` with ``t = T kappa tau / a``. The temperature ``tau`` of the draws is 1 unless it
is fixed otherwise: where the budget allows less diffusion time than the slowest direction needs, the time
is cut and the draws are not heated. What privacy asks for beyond SGHMC's friction shows as
``noise_temperature``; what batches add, the thermostat takes out again.

Ding, Fang, Babbush, Chen, Skeel and Neven (2014); Wang, Fienberg and Smola (2015).
"""

from functools import lru_cache

from .hamiltonian import HamiltonianCalibration
from .langevin_plans import ThermostatPlan
from .options import SamplerOptions
from .paths import calibrate_path

# Friction starts where it has room to rise: below this at most, and as far below as batches may need.
_MOST_FRICTION = 0.5
_ROOM = 0.9
# Of the mean square that it regulates to; its fluctuations are sqrt(gain / n_parameters) of the friction.
_GAIN = 0.1


class ThermostatCalibration(HamiltonianCalibration):
    """Solves for the diffusion time and the steps; every method sees public numbers only."""

    # Heat is taken out again, so there may be as much with privacy as without.
    heating = (0.5, 0.5)

    def __init__(self, bounds, n_samples, budget, options, start=None):
        if options.temperature is None:
            options = options._replace(temperature=1.0)
        super().__init__(bounds, n_samples, budget, options, start)

    def friction(self, temperature, step, steps):
        """Return the friction to start with: the velocity takes in ``1 / M`` of the gradient at most."""
        if self.options.friction is not None:
            return self.options.friction
        stable = min(_MOST_FRICTION, 1.0 / (step * self._stiffness(temperature)))
        heat = step * self._batch_trace() / (2.0 * temperature)
        return min(max(super().friction(temperature, step, steps), stable), _ROOM / (1.0 + heat))


def thermostat_gain(friction, temperature):
    """Return how fast friction follows the kinetic temperature."""
    return _GAIN * friction**2 / temperature


@lru_cache(maxsize=512)
def plan_thermostat(bounds, n_samples, budget, options=SamplerOptions()):  # noqa: B008
    """Find the schedule of a path with a thermostat (SGNHT) whose exact cost stays within a budget.

    Parameters
    ----------
    bounds : TargetBounds
        Public bounds of the target.
    n_samples : int
        Public size of the table.
    budget : Budget
        Ceiling on the cost.
    options : SamplerOptions, default=SamplerOptions()
        What the user fixes; a ``temperature`` of None is 1.

    Returns
    -------
    plan : ThermostatPlan

    Raises
    ------
    ValueError
        If an option is out of range, or if the options cannot all hold.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget, plan_thermostat
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(0.1, 0.1))
    >>> plan = plan_thermostat(bounds, 100_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.temperature
    1.0
    """
    solved, start = calibrate_path(ThermostatCalibration, bounds, n_samples, budget, options)
    friction = solved.friction(solved.temperature, solved.step, solved.steps)
    return solved.make(
        ThermostatPlan,
        "sgnht",
        start=start,
        friction=friction,
        thermostat_gain=thermostat_gain(friction, solved.temperature),
    )
