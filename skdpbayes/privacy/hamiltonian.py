"""Plans for underdamped Langevin chains (SGHMC, SGNHT), whole path released.

    u <- (1 - f) u - kappa (g(theta) + tau lambda theta) + N(0, 2 kappa f tau I),   theta <- theta + u

is at every step a Gaussian mechanism on the summed gradient, of sensitivity ``kappa s`` and deviation
``sqrt(2 kappa f tau)``. With ``eta = kappa / f`` that is what an overdamped step of size ``eta`` costs, and
the path is ``mu``-GDP with

    mu^2 = s^2 t / (2 tau),        t = sum of the eta_k,

as in `skdpbayes.privacy.langevin`; Poisson batches likewise. What differs is how far a step may go. With
friction ``f = F / T`` velocities are forgotten ``F`` times in ``T`` steps, and what swings in stiff
directions decays by ``exp(-F / 2)``; ``kappa <= 1/M`` then allows ``k`` relaxations of the slowest
direction, of curvature ``m = tau lambda``, in

    T = sqrt(F k M / m)

steps, where an overdamped chain takes ``k M / m``. ``F`` is 16, or ``4 k`` if that is more: critical damping
of the slowest direction.

Chen, Fox and Guestrin (2014); Ding et al. (2014).
"""

import math
from functools import lru_cache

from .langevin_calibration import LangevinCalibration
from .langevin_plans import HamiltonianPlan, forgetting
from .options import SamplerOptions
from .paths import calibrate_path


class HamiltonianCalibration(LangevinCalibration):
    """Solves for the temperature and the steps; every method sees public numbers only."""

    has_velocity = True

    def _stiff_step(self, temperature):
        """Diffusion time of a step at which the velocity takes in ``1 / M`` of the gradient."""
        curvature = 1.0 / super()._stiff_step(temperature)
        if self.options.friction is not None:
            return 1.0 / (self.options.friction * curvature)
        product = forgetting(self.goal) * self._slowest(temperature) * curvature
        # An overdamped step is never longer.
        return max(math.sqrt(self.goal / product), 1.0 / curvature)

    def _largest_step(self, temperature):
        # Twice the curvature's share: stable whatever the friction.
        if self.options.friction is not None:
            return 2.0 / (self.options.friction * self._stiffness(temperature))
        # Friction follows the step, so any is stable; beyond this a chain would hardly forget its velocity.
        return 2.0 * self._stiff_step(1.0)

    def friction(self, temperature, step, steps):
        """Return the share of the velocity that a step loses."""
        if self.options.friction is not None:
            return self.options.friction
        stable = super()._stiff_step(temperature) / step
        # Of a chain that is cut short, all the same; of one that goes on, in every such time.
        in_a_run = max(1.0 / steps, step * self._slowest(temperature) / self.goal)
        return min(1.0, forgetting(self.goal) * in_a_run, stable)


@lru_cache(maxsize=512)
def plan_hamiltonian(bounds, n_samples, budget, options=SamplerOptions()):  # noqa: B008
    """Find the schedule of an underdamped path (SGHMC) whose exact cost stays within a budget.

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
    [461, 13233]
    """
    solved, start = calibrate_path(HamiltonianCalibration, bounds, n_samples, budget, options)
    friction = solved.friction(solved.temperature, solved.step, solved.steps)
    return solved.make(HamiltonianPlan, "sghmc", start=start, friction=friction)
