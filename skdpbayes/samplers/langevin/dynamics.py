"""How far a step may go, and how much of its velocity a chain loses by it.

Overdamped (SGLD): steps ``eta`` up to ``1 / M``, at which the stiffest direction forgets in a single one.

Underdamped (SGHMC, SGNHT):

    u <- (1 - f) u - kappa (g(theta) + tau lambda theta) + N(0, 2 kappa f tau I),   theta <- theta + u

is at every step a Gaussian mechanism on the summed gradient, of sensitivity ``kappa s`` and deviation
``sqrt(2 kappa f tau)``: with ``eta = kappa / f`` what an overdamped step of size ``eta`` costs. What
differs is how far a step may go. With friction ``f = F / T`` velocities are forgotten ``F`` times in ``T``
steps, and what swings in stiff directions decays by ``exp(-F / 2)``; ``kappa <= 1/M`` then allows ``k``
relaxations of the slowest direction, of curvature ``m``, in

    T = sqrt(F k M / m)

steps, where an overdamped chain takes ``k M / m``. ``F`` is 16, or ``4 k`` if that is more: critical damping
of the slowest direction.

With a thermostat ``f`` is free to move and the noise is fixed: what batches add to the temperature is taken
out again, so friction starts where it has room to rise.

Chen, Fox and Guestrin (2014); Ding, Fang, Babbush, Chen, Skeel and Neven (2014).
"""

import math
from typing import NamedTuple, Protocol

# What random batches may add to the temperature, relatively, with privacy and without.
HEATING, HEATING_WITHOUT_PRIVACY = 0.5, 0.05
# Midpoints are exact for normal posteriors. That of fewer records than this may be far from normal: half the
# step then keeps the bias of mean and deviation below 5% of the deviation.
_FEW_RECORDS = 100
# A thermostat's friction starts below this, and as far below as the heat of batches may need.
_MOST_FRICTION = 0.5
_ROOM = 0.9
# Gain of a thermostat, relative to the mean square that it aims at. Friction fluctuates by a share of
# sqrt(gain / n_parameters).
_GAIN = 0.1


class Dynamics(Protocol):
    """What schedules ask of a dynamics.

    Attributes
    ----------
    heating : tuple of (float, float)
        What random batches may add to the temperature, relatively, with privacy and without.
    """

    heating: tuple[float, float]

    def longest_step(self, geometry, temperature):
        """Return the largest diffusion time of a step that the rule takes."""

    def limit(self, geometry, temperature):
        """Return the diffusion time of a step at which a chain may diverge."""

    def friction(self, geometry, temperature, step, n_steps):
        """Return the share of its velocity that a step loses; None where there is none."""


def stable_step(geometry, temperature):
    """``1 / M``: at it, the stiffest direction forgets in a single step."""
    share = 0.5 if geometry.n_samples < _FEW_RECORDS else 1.0
    return share / geometry.stiffest(temperature)


class Overdamped(NamedTuple):
    """The dynamics of SGLD."""

    heating: tuple[float, float] = (HEATING, HEATING_WITHOUT_PRIVACY)

    def longest_step(self, geometry, temperature):
        """Return the largest diffusion time of a step that the rule takes."""
        return stable_step(geometry, temperature)

    def limit(self, geometry, temperature):
        """Return the diffusion time of a step at which a chain may diverge."""
        return 2.0 / geometry.stiffest(temperature)

    def friction(self, geometry, temperature, step, n_steps):
        """Return None: there is no velocity."""
        return None


class Underdamped(NamedTuple):
    """The dynamics of SGHMC.

    Attributes
    ----------
    relaxations : float
        How often the slowest direction is to relax.
    given_friction : float or None
    """

    relaxations: float
    given_friction: float | None = None
    heating: tuple[float, float] = (HEATING, HEATING_WITHOUT_PRIVACY)

    def longest_step(self, geometry, temperature):
        """Diffusion time of a step at which the velocity takes in ``1 / M`` of the gradient."""
        curvature = 1.0 / stable_step(geometry, temperature)
        if self.given_friction is not None:
            return 1.0 / (self.given_friction * curvature)
        product = forgetting(self.relaxations) * geometry.slowest(temperature) * curvature
        # An overdamped step is never longer.
        return max(math.sqrt(self.relaxations / product), 1.0 / curvature)

    def limit(self, geometry, temperature):
        """Return the diffusion time of a step at which a chain may diverge."""
        # Twice the curvature's share: stable whatever the friction.
        if self.given_friction is not None:
            return 2.0 / (self.given_friction * geometry.stiffest(temperature))
        # Friction follows the step, so any is stable; beyond this a chain would hardly forget its velocity.
        return 2.0 * self.longest_step(geometry, 1.0)

    def friction(self, geometry, temperature, step, n_steps):
        """Return the share of the velocity that a step loses."""
        if self.given_friction is not None:
            return self.given_friction
        stable = stable_step(geometry, temperature) / step
        # A chain that is cut short forgets so often in all, and one that goes on in every such time.
        in_a_run = max(1.0 / n_steps, step * geometry.slowest(temperature) / self.relaxations)
        return min(1.0, forgetting(self.relaxations) * in_a_run, stable)


class Thermostat(NamedTuple):
    """The dynamics of SGNHT.

    Attributes
    ----------
    underdamped : Underdamped
        Without the thermostat.
    batch_trace : float
        Bound on the trace of a batch gradient's covariance.
    """

    underdamped: Underdamped
    batch_trace: float
    # Heat is taken out again, so there may be as much without privacy.
    heating: tuple[float, float] = (HEATING, HEATING)

    def longest_step(self, geometry, temperature):
        """Return the largest diffusion time of a step that the rule takes."""
        return self.underdamped.longest_step(geometry, temperature)

    def limit(self, geometry, temperature):
        """Return the diffusion time of a step at which a chain may diverge."""
        return self.underdamped.limit(geometry, temperature)

    def friction(self, geometry, temperature, step, n_steps):
        """Return the friction to start with: the velocity takes in ``1 / M`` of the gradient at most."""
        if self.underdamped.given_friction is not None:
            return self.underdamped.given_friction
        stable = min(_MOST_FRICTION, 1.0 / (step * geometry.stiffest(temperature)))
        heat = step * self.batch_trace / (2.0 * temperature)
        without = self.underdamped.friction(geometry, temperature, step, n_steps)
        return min(max(without, stable), _ROOM / (1.0 + heat))


def forgetting(relaxations):
    """Return how often an underdamped chain forgets its velocity while the slowest direction relaxes.

    What swings in stiffer directions decays by ``exp(-forgetting / 2)``.
    """
    return max(16.0, 4.0 * relaxations)


def thermostat_gain(friction, temperature):
    """Return how fast friction follows the kinetic temperature."""
    return _GAIN * friction**2 / temperature
