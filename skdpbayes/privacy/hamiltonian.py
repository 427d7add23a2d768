"""Plans for underdamped Langevin chains (SGHMC, SGNHT), whole path released.

    u <- (1 - f) u - kappa (g(theta) + tau lambda theta) + N(0, 2 kappa f tau I),   theta <- theta + u

is at every step a Gaussian mechanism on the summed gradient, of sensitivity ``kappa s`` and deviation
``sqrt(2 kappa f tau)``. With ``eta = kappa / f`` that is what an overdamped step of size ``eta`` costs, and
the path is ``mu``-GDP with

    mu^2 = s^2 t / (2 tau),        t = sum of the eta_k,

as in `skdpbayes.privacy.langevin`; Poisson batches likewise. What differs is how far a step may go. The
slowest direction has curvature ``m = tau lambda``. It is damped critically if ``f = 1 - (1 - y)^2`` with
``y = sqrt(kappa m)``, whence ``y = 2 eta m / (1 + eta m)``; and ``kappa <= 1/M`` allows ``eta`` up to
``1 / (2 sqrt(m M) - m)``. So ``k`` relaxations (``t = k / m``) take ``2 k sqrt(M / m)`` steps, where an
overdamped chain takes ``k M / m``.

Chen, Fox and Guestrin (2014); Ding et al. (2014).
"""

import math
from functools import lru_cache

from .langevin_calibration import LangevinCalibration
from .langevin_options import LangevinOptions
from .langevin_plans import HamiltonianPlan
from .paths import calibrate_path


class HamiltonianCalibration(LangevinCalibration):
    """Solves for the temperature and the steps; every method sees public numbers only."""

    has_velocity = True

    def _slowest(self, temperature):
        return temperature * self.bounds.prior_precision[0]

    def _stiff_step(self, temperature):
        """Diffusion time of a step at which the velocity takes in ``1 / M`` of the gradient."""
        curvature = 1.0 / super()._stiff_step(temperature)
        if self.options.friction is not None:
            return 1.0 / (self.options.friction * curvature)
        y = math.sqrt(self._slowest(temperature) / curvature)
        return y / (self._slowest(temperature) * (2.0 - y))

    def _largest_step(self, temperature):
        # Twice the curvature's share: stable whatever the friction.
        if self.options.friction is not None:
            return 2.0 / (self.options.friction * self._stiffness(temperature))
        y = min(1.0, math.sqrt(2.0 * self._slowest(temperature) / self._stiffness(temperature)))
        return y / (self._slowest(temperature) * (2.0 - y))

    def friction(self, temperature, step):
        """Return the share of the velocity that a step loses: critical for the slowest direction."""
        if self.options.friction is not None:
            return self.options.friction
        relaxed = step * self._slowest(temperature)
        y = 2.0 * relaxed / (1.0 + relaxed)
        return y * (2.0 - y)


@lru_cache(maxsize=512)
def plan_hamiltonian(bounds, n_samples, budget, options=LangevinOptions()):  # noqa: B008
    """Find the schedule of an underdamped path (SGHMC) whose exact cost stays within a budget.

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
    plan : HamiltonianPlan

    Raises
    ------
    ValueError
        If an option is out of range, or if the options cannot all hold.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget, plan_hamiltonian, plan_langevin
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(0.1, 0.1))
    >>> budget = Budget(epsilon=1.0, delta=1e-6)
    >>> [plan(bounds, 100_000, budget).n_steps for plan in (plan_hamiltonian, plan_langevin)]
    [230, 13233]
    """
    solved, start = calibrate_path(HamiltonianCalibration, bounds, n_samples, budget, options)
    friction = solved.friction(solved.temperature, solved.step)
    return solved.make(HamiltonianPlan, "sghmc", start=start, friction=friction)
