"""What plans for Langevin chains say.

    theta <- theta - eta_k (g(theta) + tau lambda theta) + N(0, 2 eta_k tau I),   eta_k = eta_1 k^-a,

with the whole path released, or with only the last state of each of a few segments; and for underdamped
chains, whose ``eta_k`` is diffusion time per step, too.
"""

import math
from dataclasses import dataclass

import numpy as np

from .calibration import power_sum
from .plan import Plan

# Subsampling may add this share to the temperature when the plan is free to choose its steps.
HEATING = 0.5


@dataclass(frozen=True, kw_only=True)
class DiffusionPlan(Plan):
    """What plans for a path and for last states share.

    Attributes
    ----------
    step_size : float
        First step size.
    step_decay : float
        Step ``k`` (from 1, of a segment) has size ``step_size * k ** -step_decay``.
    noise_multiplier : float
        Noise of the first step relative to what one record can contribute to the gradient sum.
    wanted_relaxations : float
        How often the slowest direction should relax; see ``relaxations``.
    least_data_curvature : float, default=0.0
        In whitened coordinates, what the data are taken to contribute to the curvature of a direction that
        they speak of; where it is 0, only the prior's is sure.
    """

    step_size: float
    step_decay: float
    noise_multiplier: float
    wanted_relaxations: float
    least_data_curvature: float = 0.0

    def step_sizes(self):
        """Return the size of every step of a segment, the shortest if they differ."""
        return self.step_size * np.arange(1, self._segment_steps + 1) ** -self.step_decay

    @property
    def _segment_steps(self):
        return self.n_steps // self.n_segments

    @property
    def diffusion_time(self):
        """Sum of the step sizes of a segment."""
        return self.step_size * power_sum(self._segment_steps, self.step_decay)

    @property
    def relaxations(self):
        """Diffusion time of a segment in relaxation times of the slowest direction."""
        return self.diffusion_time * self.slowest_curvature

    @property
    def slowest_curvature(self):
        """Curvature of the potential in its slowest direction: the prior's, or what data are taken to add."""
        return self.least_data_curvature or self.temperature * self.bounds.prior_precision[0]

    @property
    def n_segments(self):
        """How many chains follow each other, each starting where the one before has ended."""
        return 1

    @property
    def subsampling_temperature(self):
        """Public bound on the temperature that batches add in any direction.

        The covariance of the batch gradient has a trace of at most ``((1-q)/q) n G^2``; noise of
        variance ``v`` per step acts like ``eta v / 2`` of temperature. Batches that take turns add no
        more than that, on average over the orders that may have been drawn.
        """
        variance = batch_trace(self.bounds, self.n_samples, self.sampling_rate)
        return self.step_size * variance / 2

    @property
    def notes(self):
        """What the user should know before running it, a tuple of str."""
        notes = super().notes
        if self.relaxations < 0.99 * self.wanted_relaxations:
            notes += (self._short_note(),)
        if self._is_overheated():
            notes += (self._heat_note(),)
        return notes

    def _short_note(self):
        return (
            f"the slowest direction relaxes {self.relaxations:.2g} times instead of "
            f"{self.wanted_relaxations:g}: draws stay near where they start where the data say "
            "little; raise n_steps, or leave temperature and step_size to the plan."
        )

    def _is_overheated(self):
        return self.subsampling_temperature > 1.001 * HEATING * self.temperature

    def _heat_note(self):
        hottest = self.temperature + self.subsampling_temperature
        return (
            f"batches may heat the draws from temperature {self.temperature:.3g} to as "
            f"much as {hottest:.3g}: raise batch_size or n_steps."
        )

    def _rows(self):
        rows = super()._rows()
        decay = f", step k times k^-{self.step_decay:.3g}" if self.step_decay else ""
        rows.append(("step size", f"{self.step_size:.4g}{decay}"))
        rows.append(("noise multiplier", f"{self.noise_multiplier:.4g}"))
        rows.append(("relaxations", f"{self.relaxations:.3g} of the slowest direction"))
        if self.sampling_rate < 1:
            heat = f"batches add at most {self.subsampling_temperature:.3g} to the temperature"
            rows.append(("subsampling", heat))
        return rows


@dataclass(frozen=True, kw_only=True)
class PathPlan(DiffusionPlan):
    """What plans share that release the whole path.

    Attributes
    ----------
    start : LastStatePlan or None
        How the first state is drawn; None starts at zero.
    """

    start: "LastStatePlan | None" = None

    @property
    def record_gradients(self):
        """How many gradients of single records are expected to be computed."""
        before = self.start.record_gradients if self.start else 0
        return super().record_gradients + before

    @property
    def needs_contraction(self):
        """Whether the cost holds only for convex targets whose gradients are not clipped one by one."""
        return self.start is not None

    @property
    def n_updates(self):
        """Updates in all, those of the start included."""
        return self.n_steps + (self.start.n_steps if self.start else 0)

    def kept_steps(self):
        """Return the steps whose midpoints are released: evenly spaced in diffusion time."""
        if self.step_decay == 0:
            times = np.arange(self.n_burn_in + 1, self.n_steps + 1, dtype=np.float64)
        else:
            times = np.cumsum(self.step_sizes())[self.n_burn_in :]
        start = times[0] - self.step_size * (self.n_burn_in + 1) ** -self.step_decay
        if self.step_decay == 0:
            start = times[0] - 1
        wanted = start + (times[-1] - start) * np.arange(1, self.n_draws + 1) / self.n_draws
        kept = np.searchsorted(times, wanted * (1 - 1e-12))
        # Later steps are smaller: early draws may want the same step, and then take the next ones.
        order = np.arange(self.n_draws)
        kept = np.maximum.accumulate(kept - order) + order
        return self.n_burn_in + np.minimum(kept, times.size - self.n_draws + order)

    def _rows(self):
        rows = super()._rows()
        if self.start:
            start = self.start
            text = f"a posterior sample at temperature {start.temperature:.4g}, {start.n_steps:,} steps"
            rows.append(("starts at", f"{text}, epsilon = {start.epsilon:.4g} by itself"))
        return rows


@dataclass(frozen=True, kw_only=True)
class LangevinPlan(PathPlan):
    """A plan for SGLD, whole path released."""


@dataclass(frozen=True, kw_only=True)
class HamiltonianPlan(PathPlan):
    """A plan for SGHMC, whole path released.

    ``step_size`` is diffusion time per step, as for SGLD: what privacy pays for.

    Attributes
    ----------
    friction : float
        Share of the velocity that a step loses.
    thermostat_gain : float
        How fast the friction follows the kinetic temperature; 0 keeps it as it is.
    """

    friction: float
    thermostat_gain: float = 0.0

    @property
    def gradient_step(self):
        """``kappa``: by how much of the (first step's) gradient the velocity moves."""
        return self.step_size * self.friction

    def _rows(self):
        rows = super()._rows()
        rows.append(("friction", f"{self.friction:.4g} of the velocity per step"))
        return rows


@dataclass(frozen=True, kw_only=True)
class ThermostatPlan(HamiltonianPlan):
    """A plan for SGNHT, whole path released: ``friction`` is where the thermostat starts."""

    @property
    def noise_temperature(self):
        """Temperature to which this noise would heat SGHMC, which relaxes as often as is wanted."""
        goal = self.wanted_relaxations
        relaxed = self.gradient_step * self.slowest_curvature / goal
        return self.temperature * self.friction / min(1.0, math.sqrt(forgetting(goal) * relaxed))

    def _short_note(self):
        return (
            f"at temperature {self.temperature:.3g} the budget lets the slowest direction relax "
            f"{self.relaxations:.2g} times instead of {self.wanted_relaxations:g}: draws stay near "
            "where they start where the data say little. sampler='sghmc' heats them instead."
        )

    def _is_overheated(self):
        # Friction can rise to 1.
        return self.friction * (1.0 + self.subsampling_temperature / self.temperature) > 1

    def _heat_note(self):
        return (
            f"batches may heat the draws by as much as {self.subsampling_temperature:.3g}, more than "
            "the thermostat can take out: raise batch_size or n_steps."
        )

    def _rows(self):
        rows = super()._rows()
        heat = f"{self.noise_temperature:.4g}, held at {self.temperature:.4g} by the thermostat"
        rows.append(("noise temperature", heat))
        return rows


@dataclass(frozen=True, kw_only=True)
class LastStatePlan(DiffusionPlan):
    """A plan for one posterior sample, or for a few: the path to each stays hidden.

    The chain starts at zero, and after every released draw at that draw. Batches, if any, take turns,
    and are cut at random for every draw, without looking at the records.
    """

    @property
    def n_segments(self):
        """How many chains follow each other, each starting where the one before has ended."""
        return self.n_draws

    @property
    def needs_contraction(self):
        """Whether the cost holds only for convex targets whose gradients are not clipped one by one."""
        return True

    @property
    def n_batches(self):
        """How many batches take turns; 1 is the full table."""
        return round(1 / self.sampling_rate)

    @property
    def n_updates(self):
        """Updates in all."""
        return self.n_steps

    @property
    def notes(self):
        """What the user should know before running it, a tuple of str."""
        notes = super().notes
        if self._segment_steps < self.n_batches:
            share = f"{self._segment_steps} of {self.n_batches} batches"
            notes += (f"a draw sees only {share}: raise n_steps or batch_size.",)
        return notes

    def kept_steps(self):
        """Return the last step of every segment."""
        return np.cumsum(segment_lengths(self.n_steps, self.n_draws)) - 1

    def _rows(self):
        rows = dict(super()._rows())
        each = f", {self._segment_steps:,} for each draw" if self.n_draws > 1 else ""
        rows["steps"] = f"{self.n_steps:,}{each}; the states between draws stay hidden"
        if self.n_batches > 1:
            size = self.n_samples / self.n_batches
            rows["a step reads"] = (
                f"one of {self.n_batches:,} batches of {size:.6g} records, in turn"
            )
        return list(rows.items())


def batch_trace(bounds, n_samples, sampling_rate):
    """Return a bound on the trace of a batch gradient's covariance, ``((1-q)/q) n G^2``."""
    return (1 - sampling_rate) / sampling_rate * n_samples * bounds.gradient_bound**2


def forgetting(relaxations):
    """Return how often an underdamped chain forgets its velocity while the slowest direction relaxes.

    What swings in stiffer directions decays by ``exp(-forgetting / 2)``.
    """
    return max(16.0, 4.0 * relaxations)


def segment_lengths(n_steps, n_segments):
    """Return how many steps every segment has: equally many, or one more at the end."""
    ends = n_steps * np.arange(1, n_segments + 1, dtype=np.int64) // n_segments
    return np.diff(ends, prepend=0)
