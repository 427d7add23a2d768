"""Plans for overdamped Langevin paths (SGLD), whole path released.

    theta <- theta - eta_k (g(theta) + tau lambda theta) + N(0, 2 eta_k tau I),   eta_k = eta_1 k^-a,

is at every step a Gaussian mechanism on the summed gradient ``g``, of sensitivity ``s`` (``2G`` under
``replace_one``, ``G`` under ``add_or_remove_one``). Full batch: the path is ``mu``-GDP with

    mu^2 = s^2 t / (2 tau),        t = sum of the step sizes,

and privacy buys diffusion time ``t``. On Poisson batches ``g`` is ``1/q`` times the batch's sum, and
step ``k`` is a Poisson-subsampled Gaussian of noise multiplier ``q sqrt(2 tau / eta_k) / G``.

The untuned rule: the slowest direction, whose curvature is only the prior's ``tau lambda``, is to
relax ``k`` times, ``t = k / (tau lambda)``; the temperature is the lowest ``tau >= 1`` at which that is
affordable. Where ``tau = 1`` is, the run costs less than was asked for. Steps are at most ``1/M``,
``M = n B + tau lambda_max``: released are midpoints of successive states, whose stationary variance is
exact on a quadratic potential at any stable step (Leimkuhler and Matthews 2013; Vilmart 2015).

Wang, Fienberg and Smola (2015); Li, Chen, Liu and Carin (2019) for decreasing steps.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .calibration import power_sum
from .langevin_calibration import HEATING, LangevinCalibration
from .plan import Plan


class LangevinOptions(NamedTuple):
    """What a user may fix; ``None`` leaves it to the rule.

    Attributes
    ----------
    temperature : float or None
        At least 1.
    step_size : float or None
        First step size.
    step_decay : float
        ``a`` in ``eta_k = eta_1 k^-a``, in [0, 1).
    n_steps : int or None
        Number of updates.
    burn_in : float or None
        Fraction of the updates before the first draw.
    n_draws : int or None
        Draws kept.
    batch_size : int or None
        Expected size of a Poisson batch; None is the full table.
    """

    temperature: float | None = None
    step_size: float | None = None
    step_decay: float = 0.0
    n_steps: int | None = None
    burn_in: float | None = None
    n_draws: int | None = None
    batch_size: int | None = None


@dataclass(frozen=True, kw_only=True)
class LangevinPlan(Plan):
    """A plan for SGLD.

    Attributes
    ----------
    step_size : float
        First step size.
    step_decay : float
        Step ``k`` (from 1) has size ``step_size * k ** -step_decay``.
    noise_multiplier : float
        Noise of the first step relative to what one record can contribute to the gradient sum.
    wanted_relaxations : float
        How often the slowest direction should relax; see ``relaxations``.
    """

    step_size: float
    step_decay: float
    noise_multiplier: float
    wanted_relaxations: float

    def step_sizes(self):
        """Return the size of every step, an array of shape (n_steps,)."""
        return self.step_size * np.arange(1, self.n_steps + 1) ** -self.step_decay

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

    @property
    def diffusion_time(self):
        """Sum of the step sizes."""
        return self.step_size * power_sum(self.n_steps, self.step_decay)

    @property
    def relaxations(self):
        """Diffusion time in relaxation times of the slowest direction."""
        return self.diffusion_time * self.temperature * self.bounds.prior_precision[0]

    @property
    def subsampling_temperature(self):
        """Public bound on the temperature that random batches add in any direction.

        The covariance of the batch gradient has a trace of at most ``((1-q)/q) n G^2``; noise of
        variance ``v`` per step acts like ``eta v / 2`` of temperature.
        """
        q = self.sampling_rate
        variance = (1 - q) / q * self.n_samples * self.bounds.gradient_bound**2
        return self.step_size * variance / 2

    @property
    def notes(self):
        """What the user should know before running it, a tuple of str."""
        notes = []
        if self.relaxations < 0.99 * self.wanted_relaxations:
            notes.append(
                f"the slowest direction relaxes {self.relaxations:.2g} times instead of "
                f"{self.wanted_relaxations:g}: draws stay near the starting point (zero) where the "
                "data say little; raise n_steps, or leave temperature and step_size to the plan."
            )
        hottest = self.temperature + self.subsampling_temperature
        if hottest > (1 + 1.001 * HEATING) * self.temperature:
            notes.append(
                f"random batches may heat the draws from temperature {self.temperature:.3g} to as "
                f"much as {hottest:.3g}: raise batch_size or n_steps."
            )
        return tuple(notes)

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


@lru_cache(maxsize=512)
def plan_langevin(bounds, n_samples, budget, options=LangevinOptions()):  # noqa: B008
    """Find the schedule whose exact cost stays within a budget.

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
    plan : LangevinPlan

    Raises
    ------
    ValueError
        If an option is out of range, or if the options cannot all hold.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget, plan_langevin
    >>> from skdpbayes.targets import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0))
    >>> plan = plan_langevin(bounds, 10_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.epsilon <= 1.0
    True
    """
    bounds.checked()
    budget.checked()
    _check(options, n_samples, budget)
    calibration = LangevinCalibration(bounds, n_samples, budget, options)
    temperature, step, steps = calibration.solve()
    rate = calibration.q
    return LangevinPlan(
        sampler="sgld",
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=calibration.cost(temperature, step, steps),
        temperature=temperature,
        n_steps=steps,
        n_burn_in=math.floor(steps * calibration.burn_in),
        n_draws=calibration.draws,
        sampling_rate=rate,
        step_size=step,
        step_decay=options.step_decay,
        noise_multiplier=rate * math.sqrt(2.0 * temperature / step) / bounds.gradient_bound,
        wanted_relaxations=calibration.goal,
    )


def _check(options, n_samples, budget):
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1, got {n_samples}.")
    if budget.delta == 0 and not math.isinf(budget.epsilon):
        raise ValueError(
            "delta=0 asks for pure differential privacy, and sampler='sgld' adds Gaussian noise, "
            "which has none: give a delta in (0, 1), e.g. delta=None for the default."
        )
    if options.batch_size is not None and not 1 <= options.batch_size <= n_samples:
        raise ValueError(
            f"batch_size={options.batch_size} must be between 1 and the table's public size, "
            f"{n_samples}; batch_size=None takes the full table."
        )
    if options.temperature is not None and not 1 <= options.temperature < math.inf:
        raise ValueError(f"temperature must be at least 1, got {options.temperature}.")
    if not 0 <= options.step_decay < 1:
        raise ValueError(f"step_decay must be in [0, 1), got {options.step_decay}.")
    if options.burn_in is not None and not 0 <= options.burn_in < 1:
        raise ValueError(f"burn_in is a fraction in [0, 1), got {options.burn_in}.")
    for name in ("n_steps", "n_draws"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}.")
