"""What Langevin chains cost: every iterate released, or the last one only.

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

from ...privacy.cost import PrivacyCost
from ...privacy.hidden_state import geometric_sums, hidden_state_mu, hidden_state_mu_cyclic
from ...privacy.losses import SampledGaussian
from ...privacy.rounding import contraction_slack, rounding_shift
from ..noise import SMALLEST_MULTIPLIER
from ..plan import COMPOSABLE_BATCHES, MAX_STEPS, most_steps
from .plan import excess, power_sum, segment_lengths

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
        """Number of chains follow each other."""
        return 1

    def whole(self, chain, steps):
        """A number of steps into which the schedule can be cut."""
        return steps

    def most_steps(self, chain):
        """Number of steps can be accounted for, and how many the rule takes at most."""
        return most_steps(chain.sampling_rate)

    def batch_safe_step(self, chain, temperature):
        """The step beyond which batches would cost more than the full table."""
        return math.inf

    def limit(self, chain, temperature):
        """The upper limit of a step size that is given."""
        return chain.dynamics.limit(chain.geometry, temperature)

    def tolerance(self, chain):
        """The relative tolerance with which budgets are met."""
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
        """The exact cost of a schedule, floating point and start included."""
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
        for first, count in runs_of_similar_noise(steps, decay):
            size = step * first**-decay
            moved = size * chain.record_bound / chain.sampling_rate + spacing
            multiplier = math.sqrt(2 * size * temperature) / moved
            sampled.append(SampledGaussian(multiplier, chain.sampling_rate, count))
        if sampled[0].noise_multiplier < SMALLEST_MULTIPLIER:
            return PrivacyCost(relation, mu=math.inf)
        return PrivacyCost(relation, sampled=tuple(sampled))


def _rounding(chain, temperature, smallest_step):
    """The largest distance by which rounding can move an update, in the units of theta."""
    noise = math.sqrt(2 * smallest_step * temperature)
    return rounding_shift(chain.bounds.n_parameters, noise)


def runs_of_similar_noise(n_steps, decay):
    """Cut the steps 1..T into runs of similar noise: [(first step, how many)].

    Noise grows with ``k``, so accounting a run at its first step's noise rounds it down.
    """
    if decay == 0:
        return [(1, n_steps)]
    firsts = np.unique(np.geomspace(1, n_steps + 1, _NOISE_LEVELS + 1).astype(np.int64))
    return [(int(a), int(b - a)) for a, b in itertools.pairwise(firsts)]


# What chains cost of which only last iterates are released: one posterior sample (OPS), or a few.
#
# The targets must be convex, and steps short enough to contract. A segment of ``T`` equal full-batch
# steps at ``eta <= 2 / (m + M)``, ``m = tau lambda``, contracts by ``c = 1 - eta m`` at every step.
# What is released of it is the midpoint of its last two iterates, which is one more step of the kind
# that `skdpbayes.privacy.hidden_state` accounts for, of half the shift and half the noise, that
# contracts by ``(1 + c) / 2``. In exact arithmetic
#
#     mu^2 <= s^2 / (tau m) = s^2 / (tau^2 lambda)
#
# after any number of steps: never more than an exact posterior sample costs. ``K`` segments, each
# from where the last one was released, cost ``sqrt(K)`` times as much, so that ``K`` draws within
# ``mu`` allow ``1 / tau = min(1, mu sqrt(lambda) / (s sqrt(K)))``.
#
# Wang, Fienberg and Smola (2015); Bok, Su and Altschuler (2024).


# Batches may cost this share more than the full table does where the plan is free to choose its steps.
_COST_OF_BATCHES = 0.1
_ROUNDOFF = 1e-10


class LastIterate(NamedTuple):
    """The release of the last iterate of every segment, one for each draw.

    Attributes
    ----------
    n_batches : int, default=1
        How many batches take turns; 1 is the full table.
    """

    n_batches: int = 1

    def n_segments(self, chain):
        """Number of chains follow each other: one for each draw."""
        return chain.n_draws

    def whole(self, chain, steps):
        """Round a number of steps up to whole rounds of all batches, as many for every draw."""
        unit = chain.n_draws * self.n_batches
        return -(-steps // unit) * unit

    def most_steps(self, chain):
        """Number of steps can be accounted for, and how many the rule takes at most."""
        most = MAX_STEPS
        if not self._has_closed_form(chain):
            most = min(MAX_STEPS, COMPOSABLE_BATCHES * chain.n_draws)
        return most, most

    def batch_safe_step(self, chain, temperature):
        """The step beyond which batches would cost clearly more than the full table."""
        if self.n_batches == 1 or not chain.budget.is_private:
            return math.inf
        # The record may be in the last batch, whose noise alone covers it: eta m L^2 / 2 of the rest.
        return 2.0 * _COST_OF_BATCHES / (chain.geometry.slowest(temperature) * self.n_batches**2)

    def limit(self, chain, temperature):
        """The upper limit of a step size that is given, from which on steps cease to contract."""
        geometry = chain.geometry
        return 2.0 / (geometry.slowest(temperature) + geometry.stiffest(temperature))

    def tolerance(self, chain):
        """The relative tolerance with which budgets are met."""
        return 1e-12 if self._has_closed_form(chain) else 1e-6

    def check_affordable(self, chain, temperature, step, fewest):
        """Do nothing: a chain that is short enough costs next to nothing."""

    def _has_closed_form(self, chain):
        return self.n_batches == 1 and not chain.step_decay

    def cost(self, chain, temperature, step, steps):
        """The exact cost of a schedule, floating point included."""
        lengths, counts = np.unique(segment_lengths(steps, chain.n_draws), return_counts=True)
        of_one = self._full_square if self._has_closed_form(chain) else self._square
        square = sum(
            count * of_one(chain, temperature, step, int(length))
            for length, count in zip(lengths, counts, strict=True)
        )
        relation = chain.budget.neighboring_relation
        return PrivacyCost(relation, mu=math.sqrt(square) * (1 + _ROUNDOFF))

    def _full_square(self, chain, temperature, step, n_steps):
        """``mu^2`` of a segment of equal full-batch steps: its last one, and all before it as one."""
        contraction = max(0.0, 1 - step * chain.geometry.slowest(temperature))
        noise = math.sqrt(2 * step * temperature)
        slack = contraction_slack(chain.bounds.n_parameters, noise)
        shift = step * chain.sensitivity + slack
        last_shift = step * chain.sensitivity / 2 + slack
        last_square = noise**2 / 4
        if n_steps == 1:
            return last_shift**2 / last_square
        total, squares = geometric_sums(contraction, n_steps - 1)
        forgotten = (1 + contraction) / 2
        before = forgotten * shift * total
        before_square = forgotten**2 * noise**2 * squares
        if before * last_square >= last_shift * before_square:
            return (before + last_shift) ** 2 / (before_square + last_square)
        return before**2 / before_square + last_shift**2 / last_square

    def _square(self, chain, temperature, step, n_steps):
        """``mu^2`` of a segment of any steps, for the batch in which the differing record costs most."""
        sizes = step * np.arange(1, n_steps + 1) ** -chain.step_decay
        contraction = np.maximum(0.0, 1 - sizes * chain.geometry.slowest(temperature))
        unrounded = chain.budget.sensitivity_factor * chain.bounds.gradient_bound
        shifts = self.n_batches * unrounded * sizes
        noise = np.sqrt(2 * sizes * temperature)
        smallest = noise[-1]
        contraction[-1] = (1 + contraction[-1]) / 2
        shifts[-1] /= 2
        noise[-1] /= 2
        # Rounding shifts every step, the record's turn or not. Sums of shifts cost at most sums of costs.
        slack = contraction_slack(chain.bounds.n_parameters, smallest)
        sums = (chain.sensitivity - unrounded) * sizes
        rounding = hidden_state_mu(contraction, slack + sums, noise)
        record = hidden_state_mu_cyclic(contraction, shifts, noise, self.n_batches).max()
        return float(record + rounding) ** 2
