"""Calibrating chains of which only last states are seen: what they cost, floating point included.

A segment of ``T`` equal full-batch steps at ``eta <= 2 / (m + M)``, ``m = tau lambda``, contracts by
``c = 1 - eta m`` at every step. What is released of it is the midpoint of its last two states, which is
one more step of the kind that `skdpbayes.privacy.hidden_state` accounts for, of half the shift and half the
noise, that contracts by ``(1 + c) / 2``. In exact arithmetic

    mu^2 <= s^2 / (tau m) = s^2 / (tau^2 lambda)

after any number of steps: never more than an exact posterior sample costs. ``K`` segments, each from
where the last one was released, cost ``sqrt(K)`` times as much.
"""

import math

import numpy as np

from .calibration import MAX_STEPS
from .cost import PrivacyCost
from .floating_point import contraction_slack
from .hidden_state import geometric_sums, hidden_state_mu, hidden_state_mu_cyclic
from .langevin_calibration import COMPOSABLE_BATCHES, LangevinCalibration
from .langevin_plans import segment_lengths

# Batches may cost this share more than the full table does where the plan is free to choose its steps.
_COST_OF_BATCHES = 0.1
_ROUNDOFF = 1e-10


class LastStateCalibration(LangevinCalibration):
    """Solves for the temperature and the steps; every method sees public numbers only."""

    # Three relaxations leave 5% of the distance to the posterior that there was at the start.
    relaxations = (3.0, 10.0)
    default_burn_in = 0.0
    default_draws = 1

    # What the options ask for

    @property
    def n_batches(self):
        """How many batches take turns."""
        size = self.options.batch_size
        return 1 if size is None else math.ceil(self.n / size)

    @property
    def segments(self):
        """Chains one after the other: one for each draw."""
        return self.draws

    @property
    def _has_closed_form(self):
        return self.n_batches == 1 and not self.options.step_decay

    def _sampling_rate(self):
        return 1.0 / self.n_batches

    def _most_steps(self):
        most = (
            MAX_STEPS if self._has_closed_form else min(MAX_STEPS, COMPOSABLE_BATCHES * self.draws)
        )
        return most, most

    def _stiffness(self, temperature):
        largest_batch = math.ceil(self.n / self.n_batches)
        records = self.n_batches * largest_batch
        return records * self.bounds.smoothness + temperature * self.bounds.prior_precision[1]

    def _largest_step(self, temperature):
        return 2.0 / (self._slowest(temperature) + self._stiffness(temperature))

    def _calm_step(self, temperature):
        calm = super()._calm_step(temperature)
        if self.n_batches == 1 or not self.private:
            return calm
        # The record may be in the last batch, whose noise alone covers it: eta m L^2 / 2 of the rest.
        quiet = 2.0 * _COST_OF_BATCHES / (self._slowest(temperature) * self.n_batches**2)
        return min(calm, quiet)

    def _whole(self, steps):
        unit = self.draws * self.n_batches
        return -(-steps // unit) * unit

    def _tolerance(self):
        return 1e-12 if self._has_closed_form else 1e-6

    # What a schedule costs

    def _path_cost(self, temperature, step, steps):
        lengths, counts = np.unique(segment_lengths(steps, self.draws), return_counts=True)
        of_one = self._full_square if self._has_closed_form else self._square
        square = sum(
            count * of_one(temperature, step, int(length))
            for length, count in zip(lengths, counts, strict=True)
        )
        return PrivacyCost(self.budget.neighboring_relation, mu=math.sqrt(square) * (1 + _ROUNDOFF))

    def _full_square(self, temperature, step, n_steps):
        """``mu^2`` of a segment of equal full-batch steps: its last one, and all before it as one."""
        contraction = max(0.0, 1 - step * self._slowest(temperature))
        noise = math.sqrt(2 * step * temperature)
        slack = contraction_slack(self.bounds.n_parameters, noise)
        shift = step * self.sensitivity + slack
        last_shift = step * self.sensitivity / 2 + slack
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

    def _square(self, temperature, step, n_steps):
        """``mu^2`` of a segment of any steps, for the batch in which the differing record costs most."""
        sizes = step * np.arange(1, n_steps + 1) ** -self.options.step_decay
        smallest = sizes[-1]
        contraction = np.maximum(0.0, 1 - sizes * self._slowest(temperature))
        shifts = self.n_batches * 2.0 * self.bounds.gradient_bound * sizes
        noise = np.sqrt(2 * sizes * temperature)
        contraction[-1] = (1 + contraction[-1]) / 2
        shifts[-1] /= 2
        noise[-1] /= 2
        # Rounding shifts every step, the record's turn or not. Sums of shifts cost at most sums of costs.
        slack = contraction_slack(self.bounds.n_parameters, math.sqrt(2 * smallest * temperature))
        sums = (self.sensitivity - 2.0 * self.bounds.gradient_bound) * sizes
        rounding = hidden_state_mu(contraction, slack + sums, noise)
        record = hidden_state_mu_cyclic(contraction, shifts, noise, self.n_batches).max()
        return float(record + rounding) ** 2
