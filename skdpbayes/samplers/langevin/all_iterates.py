"""What a whole path costs: every iterate is released.

    theta <- theta - eta_k (g(theta) + tau lambda theta) + N(0, 2 eta_k tau I),   eta_k = eta_1 k^-a,

is at every step a Gaussian mechanism on the summed gradient ``g``, of sensitivity ``s`` (``2G`` under
``replace_one``, ``G`` under ``add_or_remove_one``). Full batch: the path is ``mu``-GDP with

    mu^2 = s^2 t / (2 tau),        t = sum of the step sizes,

and privacy buys diffusion time ``t``; for underdamped chains ``eta_k`` is diffusion time per step, too. On
Poisson batches ``g`` is ``1/q`` times the batch's sum, and step ``k`` is a Poisson-subsampled Gaussian of
noise multiplier ``q sqrt(2 tau / eta_k) / G``. Floating point is included in both.

A path may start at a posterior sample that is released, too: ``mu^2 = mu_0^2 + mu_1^2``.

Wang, Fienberg and Smola (2015); Li, Chen, Liu and Carin (2019).
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...privacy.cost import PrivacyCost, SampledGaussian
from ...privacy.floating_point import rounding_shift
from .._chain_length import most_steps
from .._paid_noise import SMALLEST_MULTIPLIER
from .schedule import excess, power_sum

# Decreasing steps are accounted in so many runs of equal noise.
_NOISE_LEVELS = 24


class AllIterates(NamedTuple):
    """The release of a whole path.

    Attributes
    ----------
    start_cost : callable or None, default=None
        Maps a temperature to the cost of drawing the first state; None starts at zero, for nothing.
    """

    start_cost: Callable | None = None

    def n_segments(self, chain):
        """Return how many chains follow each other."""
        return 1

    def whole(self, chain, steps):
        """Return a number of steps into which the schedule can be cut."""
        return steps

    def most_steps(self, chain):
        """Return how many steps can be accounted for, and how many the rule takes at most."""
        return most_steps(chain.sampling_rate)

    def quiet_step(self, chain, temperature):
        """Return the step beyond which batches would cost more than the full table."""
        return math.inf

    def limit(self, chain, temperature):
        """Return what a step size that is given must stay below."""
        return chain.dynamics.limit(chain.geometry, temperature)

    def tolerance(self, chain):
        """Return how closely budgets are met."""
        return 1e-12 if chain.sampling_rate == 1 else 1e-3

    def check_affordable(self, chain, temperature, step, fewest):
        """Raise a ValueError if a start at this temperature leaves nothing for the path."""
        if self.start_cost is None or excess(chain, temperature, step * 1e-12, fewest) <= 0:
            return
        raise ValueError(
            f"at temperature={temperature:g} the start alone (init='ops') costs more than "
            f"epsilon={chain.budget.epsilon:g}: raise temperature or epsilon, or leave init='zeros'."
        )

    def cost(self, chain, temperature, step, steps):
        """Return the exact cost of a schedule, floating point and start included."""
        cost = self._path_cost(chain, temperature, step, steps)
        return cost if self.start_cost is None else cost + self.start_cost(temperature)

    def _path_cost(self, chain, temperature, step, steps):
        relation, decay = chain.budget.neighboring_relation, chain.step_decay
        spacing = _rounding(chain, temperature, step * steps**-decay)
        if chain.sampling_rate == 1:
            # The squared shifts, drift plus rounding, summed over the steps.
            square = (
                chain.sensitivity**2 * step * power_sum(steps, decay)
                + 2 * chain.sensitivity * spacing * steps
                + spacing**2 / step * power_sum(steps, -decay)
            ) / (2 * temperature)
            return PrivacyCost(relation, mu=math.sqrt(square) * (1 + 1e-12))
        if not chain.budget.is_private:  # Nothing was asked for, and composing may take long.
            return PrivacyCost(relation, mu=math.inf)
        sampled = []
        for first, count in levels(steps, decay):
            size = step * first**-decay
            moved = size * chain.record_bound / chain.sampling_rate + spacing
            multiplier = math.sqrt(2 * size * temperature) / moved
            sampled.append(SampledGaussian(multiplier, chain.sampling_rate, count))
        if sampled[0].noise_multiplier < SMALLEST_MULTIPLIER:
            return PrivacyCost(relation, mu=math.inf)
        return PrivacyCost(relation, sampled=tuple(sampled))


def _rounding(chain, temperature, smallest_step):
    """How far rounding can move an update, in the units of theta."""
    noise = math.sqrt(2 * smallest_step * temperature)
    return rounding_shift(chain.bounds.n_parameters, noise)


def levels(n_steps, decay):
    """Cut the steps 1..T into runs of similar noise: [(first step, how many)].

    Noise grows with ``k``, so accounting a run at its first step's noise rounds it down.
    """
    if decay == 0:
        return [(1, n_steps)]
    firsts = np.unique(np.geomspace(1, n_steps + 1, _NOISE_LEVELS + 1).astype(np.int64))
    return [(int(a), int(b - a)) for a, b in itertools.pairwise(firsts)]
