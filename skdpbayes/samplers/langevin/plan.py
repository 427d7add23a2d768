"""What plans for Langevin chains say.

    theta <- theta - eta_k (g(theta) + tau lambda theta) + N(0, 2 eta_k tau I),   eta_k = eta_1 k^-a,

with all iterates released, or with only the last one of each of a few segments; and for underdamped chains,
whose ``eta_k`` is diffusion time per step, too: what privacy pays for.
"""

import math
from dataclasses import dataclass

import numpy as np

from .._plan import Plan
from .dynamics import HEATING, forgetting
from .schedule import batch_trace, power_sum

# Batches that raise the temperature by more than this are worth a warning, and by more than that an error.
_MUCH_HOTTER, HOTTEST = 2.0, 1000.0


@dataclass(frozen=True, kw_only=True)
class LangevinPlan(Plan):
    """A plan for a Langevin chain.

    Attributes
    ----------
    step_size : float
        First step size.
    step_decay : float, default=0.0
        Step ``k`` (from 1, of a segment) has size ``step_size * k ** -step_decay``.
    noise_multiplier : float
        Noise of the first step relative to what one record can contribute to the gradient sum.
    wanted_relaxations : float
        How often the slowest direction should relax; see ``relaxations``.
    slowest_curvature : float or None
        Of the slowest direction that is to relax; None where no public number says anything of it.
    friction : float or None, default=None
        Share of its velocity that an underdamped chain loses in a step (where a thermostat starts).
    thermostat_gain : float, default=0.0
        How fast the friction follows the kinetic temperature; 0 keeps it as it is.
    start : LangevinPlan or None, default=None
        How the first state is drawn; None starts at zero.
    full_table_temperature : float or None, default=None
        At which the full table would be sampled, all else being left as it is; None where there are no
        batches, or the temperature is fixed.
    hides_path : bool, default=False
        Whether only the last iterate of every segment is released. Batches, if any, take turns then, and
        are cut at random for every draw, without looking at the records.
    """

    step_size: float
    step_decay: float = 0.0
    noise_multiplier: float
    wanted_relaxations: float
    slowest_curvature: float | None
    friction: float | None = None
    thermostat_gain: float = 0.0
    start: "LangevinPlan | None" = None
    full_table_temperature: float | None = None
    hides_path: bool = False

    # Steps

    @property
    def n_segments(self):
        """How many chains follow each other, each starting where the one before has ended."""
        return self.n_draws if self.hides_path else 1

    @property
    def segment_steps(self):
        """Steps of the shortest segment."""
        return self.n_steps // self.n_segments

    @property
    def n_batches(self):
        """How many batches take turns where the path is hidden; 1 is the full table."""
        return round(1 / self.sampling_rate) if self.hides_path else 1

    @property
    def gradient_step(self):
        """``kappa``: by how much of the (first step's) gradient a velocity moves."""
        # Overdamped chains lose all of their velocity in every step.
        return self.step_size * (1.0 if self.friction is None else self.friction)

    @property
    def n_updates(self):
        """Updates in all, those of the start included."""
        return self.n_steps + (self.start.n_steps if self.start else 0)

    @property
    def record_gradients(self):
        """How many gradients of single records are expected to be computed."""
        before = self.start.record_gradients if self.start else 0
        return super().record_gradients + before

    def step_sizes(self):
        """Return the size of every step of a segment, the shortest if they differ."""
        return self.step_size * np.arange(1, self.segment_steps + 1) ** -self.step_decay

    def kept_steps(self):
        """Return the steps of which a midpoint is released.

        Evenly spaced in diffusion time along a path; the last of every segment where the path is hidden.
        """
        if self.hides_path:
            return np.cumsum(segment_lengths(self.n_steps, self.n_draws)) - 1
        if self.step_decay == 0:
            times = np.arange(self.n_burn_in + 1, self.n_steps + 1, dtype=np.float64)
            start = times[0] - 1
        else:
            times = np.cumsum(self.step_sizes())[self.n_burn_in :]
            start = times[0] - self.step_size * (self.n_burn_in + 1) ** -self.step_decay
        wanted = start + (times[-1] - start) * np.arange(1, self.n_draws + 1) / self.n_draws
        kept = np.searchsorted(times, wanted * (1 - 1e-12))
        # Later steps are smaller: early draws may want the same step, and then take the next ones.
        order = np.arange(self.n_draws)
        kept = np.maximum.accumulate(kept - order) + order
        return self.n_burn_in + np.minimum(kept, times.size - self.n_draws + order)

    # What they amount to

    @property
    def diffusion_time(self):
        """Sum of the step sizes of a segment."""
        return self.step_size * power_sum(self.segment_steps, self.step_decay)

    @property
    def relaxations(self):
        """Diffusion time of a segment in relaxation times of the slowest direction; nan if unknown."""
        if self.slowest_curvature is None:
            return math.nan
        return self.diffusion_time * self.slowest_curvature

    @property
    def subsampling_temperature(self):
        """Public bound on the temperature that batches add in any direction.

        The covariance of the batch gradient has a trace of at most ``((1-q)/q) n G^2``; noise of
        variance ``v`` per step acts like ``eta v / 2`` of temperature. Batches that take turns add no
        more than that, on average over the orders that may have been drawn.
        """
        return self.step_size * batch_trace(self.bounds, self.n_samples, self.sampling_rate) / 2

    @property
    def noise_temperature(self):
        """Temperature to which a thermostat's noise would heat SGHMC that relaxes as often as is wanted."""
        goal = self.wanted_relaxations
        if self.friction is None or self.slowest_curvature is None or not goal:
            return math.nan
        relaxed = self.gradient_step * self.slowest_curvature / goal
        return self.temperature * self.friction / min(1.0, math.sqrt(forgetting(goal) * relaxed))

    @property
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        found = super().warnings
        if self.hides_path and self.segment_steps < self.n_batches:
            share = f"{self.segment_steps} of {self.n_batches} batches"
            found += (f"a draw sees only {share}: raise n_steps or batch_size.",)
        if self.slowest_curvature is None:
            return found
        if self.relaxations < 0.99 * self.wanted_relaxations:
            found += (self._short_warning(),)
        return found + self._heat_warnings() + self._batch_warnings()

    def _short_warning(self):
        if self.thermostat_gain and self.budget.is_private:
            return (
                f"at temperature {self.temperature:.3g} the budget lets the slowest direction relax "
                f"{self.relaxations:.2g} times instead of {self.wanted_relaxations:g}: draws stay "
                "near their start in directions about which the data say little. sampler='sghmc' "
                "heats them instead."
            )
        return (
            f"the slowest direction relaxes {self.relaxations:.2g} times instead of "
            f"{self.wanted_relaxations:g}: draws stay near their start in directions about which "
            f"the data say little; {self._longer()}."
        )

    def _longer(self):
        """Return the advice that makes the chain longer."""
        # Where the budget is used up, more steps would only be shorter ones.
        spent = self.budget.is_private and self.epsilon > 0.99 * self.asked.epsilon
        if "temperature" in self.fixed and spent:
            return "raise temperature, or leave it 'auto'"
        if "step_size" in self.fixed:
            return f"raise {'n_steps or ' * ('n_steps' in self.fixed)}step_size, or leave it 'auto'"
        if "n_steps" in self.fixed:
            return "raise n_steps, or leave it 'auto'"
        kind = type(self.sampler).__name__
        other = "raise batch_size, or " * (self.sampling_rate < 1)
        return (
            f"{other}fix n_steps above {self.n_steps:,}, by set_params(sampler__n_steps=...) or "
            f"sampler={kind}(n_steps=...)"
        )

    def _heat_warnings(self):
        heat = self.subsampling_temperature
        other = "lower step_size" if "step_size" in self.fixed else "raise n_steps"
        # A thermostat's friction can rise to 1.
        if self.thermostat_gain and self.friction * (1.0 + heat / self.temperature) > 1:
            return (
                f"batches may heat the draws by as much as {heat:.3g}, more than "
                f"the thermostat can take out: raise batch_size, or {other}.",
            )
        if self.thermostat_gain or heat <= 1.001 * HEATING * self.temperature:
            return ()
        return (
            f"batches may heat the draws from temperature {self.temperature:.3g} to as "
            f"much as {self.temperature + heat:.3g}: raise batch_size, or {other}.",
        )

    def _batch_warnings(self):
        full = self.full_table_temperature
        if full is None or self.temperature <= _MUCH_HOTTER * full:
            return ()
        return (
            f"batches raise the temperature to {self.temperature:.3g}, and the full table would have "
            f"{full:.3g}: raise batch_size, or n_steps, or take batch_size=None.",
        )

    def summary(self):
        """Return the lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        if self.hides_path:
            each = f", {self.segment_steps:,} for each draw" if self.n_draws > 1 else ""
            lines["steps"] = f"{self.n_steps:,}{each}; the iterates between draws stay hidden"
        if self.n_batches > 1:
            size = self.n_samples / self.n_batches
            lines["a step reads"] = (
                f"one of {self.n_batches:,} batches of {size:.6g} records, in turn"
            )
        decay = f", step k times k^-{self.step_decay:.3g}" if self.step_decay else ""
        lines["step size"] = f"{self.step_size:.4g}{decay}"
        lines["noise multiplier"] = f"{self.noise_multiplier:.4g}"
        if self.slowest_curvature is not None:
            lines["relaxations"] = f"{self.relaxations:.3g} of the slowest direction"
            if self.sampling_rate < 1:
                heat = f"{self.subsampling_temperature:.3g}"
                lines["subsampling"] = f"batches add at most {heat} to the temperature"
        if self.full_table_temperature is not None:
            lines["full table"] = f"would have temperature {self.full_table_temperature:.4g}"
        if self.start:
            at = f"a posterior sample at temperature {self.start.temperature:.4g}"
            spent = f"epsilon = {self.start.epsilon:.4g} by itself"
            lines["starts at"] = f"{at}, {self.start.n_steps:,} steps, {spent}"
        if self.friction is not None:
            lines["friction"] = f"{self.friction:.4g} of the velocity per step"
        if self.thermostat_gain and self.slowest_curvature is not None:
            held = f"held at {self.temperature:.4g} by the thermostat"
            lines["noise temperature"] = f"{self.noise_temperature:.4g}, {held}"
        return lines


def check_batches(plan):
    """Raise a ValueError if batches heat a posterior until it says nothing."""
    full = plan.full_table_temperature
    hottest = plan.temperature + plan.subsampling_temperature
    if full is not None and hottest > HOTTEST * full:
        raise ValueError(
            f"batches of {plan.sampling_rate * plan.n_samples:.6g} records can raise the temperature from "
            f"{full:.3g}, that of the full table, to {hottest:.3g}: raise batch_size, or n_steps, or take "
            "batch_size=None."
        )


def segment_lengths(n_steps, n_segments):
    """Return how many steps every segment has: equally many, or one more at the end."""
    ends = n_steps * np.arange(1, n_segments + 1, dtype=np.int64) // n_segments
    return np.diff(ends, prepend=0)
