"""What Langevin samplers share: from options and public numbers to a schedule, and from that to a plan.

What is released is a whole path (`all_iterates`), or the last iterates of a few chains (`last_iterate`);
`dynamics` says how long steps are, and `schedule` how many there are and at which temperature. `paid_noise`
and `clipped` do so for chains whose noise is paid for first.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ...targets import clips_each_example
from .._chain_length import number_of_draws
from .._made_for import check_made_for
from .._protocol import (
    Released,
    TemperedSampler,
    checked_gaussian,
    given,
    resolved_batch_size,
)
from .all_iterates import AllIterates
from .clipped import BURN_IN as CLIPPED_BURN_IN
from .clipped import ClippedGeometry, plan_clipped
from .dynamics import Overdamped
from .geometry import PriorGeometry
from .last_iterate import LastIterate
from .paid_noise import schedule_at_noise
from .plan import LangevinPlan, check_batches
from .schedule import Chain, solve

# How often the slowest direction relaxes: along a path and before a last iterate, with privacy and without.
PATH_RELAXATIONS, LAST_RELAXATIONS = (1.0, 10.0), (3.0, 10.0)
PATH_BURN_IN, PATH_DRAWS = 0.25, (100, 1000)


class LangevinSampler(TemperedSampler):
    """What Langevin samplers share; see `SGLD`."""

    is_overdamped = True
    # What a sampler does if it has no such option.
    release: str = "all_iterates"
    batch_size: int | str | None = None
    step_size: float | str = "auto"
    step_decay: float = 0.0
    friction: float | str = "auto"
    burn_in: float | str = "auto"
    init: str = "zeros"

    @property
    def takes_weights(self) -> bool:  # type: ignore[override]  # It depends on options.
        """Whether records may have weights; the theorems on hidden states assume none."""
        return self.release == "all_iterates" and self.init == "zeros"

    def burn_in_or(self, default: Any) -> float:
        """Return the burn-in that is given, or a default."""
        return default if given(self.burn_in) is None else float(self.burn_in)

    def friction_or(self, default: float | None) -> float | None:
        """Return the friction that is given, or a default."""
        return default if given(self.friction) is None else float(self.friction)

    def _dynamics(self, relaxations, bounds, n_samples, rate):
        return Overdamped()

    # Plans

    def _plan(self, bounds, n_samples, budget, n_draws):
        checked_gaussian(self, bounds, budget)
        batch = resolved_batch_size(self.batch_size, bounds, n_samples)
        rate = 1.0 if batch is None else batch / n_samples
        temperature, n_steps = self.fixed()
        if bounds.clipped:
            return self._plan_clipped(
                bounds, n_samples, budget, rate, temperature, n_steps, n_draws
            )
        if self.release == "last_iterate":
            return self._plan_last(bounds, n_samples, budget, batch, temperature, n_steps, n_draws)
        return self._plan_path(bounds, n_samples, budget, rate, temperature, n_steps, n_draws)

    def _plan_clipped(self, bounds, *args):
        if self.release == "last_iterate" or self.init != "zeros":
            option = "init='zeros'" if self.init != "zeros" else "release='all_iterates'"
            other = "sampler='sghmc' or 'sgld'" if self.name == "ops" else option
            raise ValueError(
                "the cost of one posterior sample is known only for models with a concave log "
                f"likelihood, such as logistic regression, and not for networks: take {other}, "
                "which pays for a whole path."
            )
        if self.step_decay:
            raise ValueError(
                f"step_decay={self.step_decay:g} cannot be combined with per-example clipping, "
                "which networks use: leave it at 0."
            )
        return plan_clipped(self, bounds, *args)

    def _plan_path(self, bounds, n_samples, budget, rate, temperature, n_steps, n_draws):
        burn_in = self.burn_in_or(PATH_BURN_IN if self.init == "zeros" else 0.0)
        chain = self._chain(
            PriorGeometry(bounds, n_samples),
            budget,
            AllIterates(self._start_cost(bounds, n_samples, budget)),
            PATH_RELAXATIONS,
            rate,
            burn_in=burn_in,
            n_draws=number_of_draws(n_draws, _default_draws(budget), n_steps, burn_in),
            n_steps=n_steps,
        )
        wanted = self._own_temperature(temperature)
        solved, full = solve(chain, wanted), None
        if rate < 1 and wanted is None:
            full = solve(replace(chain, sampling_rate=1.0), None).temperature
        start = self._planned_start(bounds, n_samples, budget, solved.temperature)
        plan = self._made(chain, solved, start=start, full_table_temperature=full)
        check_batches(plan)
        return plan

    def _plan_last(self, bounds, n_samples, budget, batch, temperature, n_steps, n_draws):
        bounds.checked_convex()
        _check_hidden(self, budget)
        n_batches = 1 if batch is None else math.ceil(n_samples / batch)
        chain = self.last_chain(bounds, n_samples, budget, n_batches, n_draws or 1, n_steps)
        return self._made(chain, solve(chain, temperature), hides_path=True)

    def last_chain(
        self,
        bounds: Any,
        n_samples: int,
        budget: Any,
        n_batches: int = 1,
        n_draws: int = 1,
        n_steps: int | None = None,
    ) -> Any:
        """Return the chain of which last iterates are released."""
        return self._chain(
            PriorGeometry(bounds, n_samples, n_batches),
            budget,
            LastIterate(n_batches),
            LAST_RELAXATIONS,
            1.0 / n_batches,
            burn_in=0.0,
            n_draws=n_draws,
            n_steps=n_steps,
        )

    def _own_temperature(self, temperature):
        """Return the temperature that is given, or the sampler's own, None for what a budget affords."""
        return temperature

    def _start_cost(self, bounds, n_samples, budget):
        """Return what maps a temperature to the cost of a path's start, or None if it is zero."""
        return None

    def _planned_start(self, bounds, n_samples, budget, temperature):
        """Return the plan of a path's start, or None if it is zero."""
        return None

    def plan_at_paid_noise(
        self,
        geometry: Any,
        n_samples: int,
        noise_multiplier: Any,
        n_steps: int,
        cost: Any,
        *,
        budget: Any,
        temperature: float | None = None,
        n_draws: int | None = None,
        relaxations: Any = PATH_RELAXATIONS,
    ) -> Any:
        """Plan a path in coordinates that were released, at noise that is paid for.

        Parameters
        ----------
        geometry : Geometry
            Of the coordinates; knows their bounds.
        n_samples : int
            Public size of the table.
        noise_multiplier : float
            Of every step on the full table, relative to the bound on a record's gradient; 0 without privacy.
        n_steps : int
            How many steps are paid for.
        cost : PrivacyCost
            Of these steps and of all that was released before: the plan's.
        budget : Budget
            Of the whole.
        temperature, n_draws
            As for `plan`.
        relaxations : tuple of float
            How often the slowest direction is to relax, with privacy and without.

        Returns
        -------
        plan : LangevinPlan
        """
        batch = resolved_batch_size(self.batch_size, geometry.bounds, n_samples)
        clipped = isinstance(geometry, ClippedGeometry)
        chain = self._chain(
            geometry,
            budget,
            AllIterates(),
            (0.0, 0.0) if clipped else relaxations,
            1.0 if batch is None else batch / n_samples,
            burn_in=self.burn_in_or(CLIPPED_BURN_IN if clipped else PATH_BURN_IN),
            n_draws=n_draws or _default_draws(budget),
            n_steps=n_steps,
        )
        if clipped:
            solved = geometry.schedule_at_noise(chain, noise_multiplier, temperature)
        else:
            wanted = self._own_temperature(temperature)
            solved = schedule_at_noise(chain, noise_multiplier, wanted)
        return self._made(chain, solved, cost=cost, noise_multiplier=noise_multiplier)

    def _chain(self, geometry, budget, release, relaxations, rate, *, burn_in, n_draws, n_steps):
        goal = relaxations[0 if budget.is_private else 1]
        bounds, n_samples = geometry.bounds, geometry.n_samples
        step_size = given(self.step_size)
        return Chain(
            bounds=bounds,
            n_samples=n_samples,
            budget=budget,
            geometry=geometry,
            dynamics=self._dynamics(goal, bounds, n_samples, rate),
            release=release,
            relaxations=goal,
            burn_in=burn_in,
            n_draws=n_draws,
            sampling_rate=rate,
            step_size=None if step_size is None else float(step_size),
            step_decay=float(self.step_decay),
            n_steps=n_steps,
        )

    def _made(self, chain, solved, cost=None, noise_multiplier=None, **more):
        """Return the plan of a schedule."""
        temperature, step, steps = solved
        if cost is None:
            cost = chain.release.cost(chain, *solved)
            noise = math.sqrt(2.0 * temperature / step)
            noise_multiplier = chain.sampling_rate * noise / chain.bounds.gradient_bound
        geometry = chain.geometry
        clipped = isinstance(geometry, ClippedGeometry)
        friction = geometry.friction if clipped else chain.dynamics.friction(geometry, *solved)
        return LangevinPlan(
            sampler=self,
            n_samples=chain.n_samples,
            bounds=chain.bounds,
            budget=chain.budget,
            cost=cost,
            temperature=temperature,
            n_steps=steps,
            n_burn_in=math.floor(steps * chain.burn_in),
            n_draws=chain.n_draws,
            sampling_rate=chain.sampling_rate,
            step_size=step,
            step_decay=chain.step_decay,
            noise_multiplier=noise_multiplier,
            wanted_relaxations=chain.relaxations,
            slowest_curvature=None if clipped else geometry.slowest(temperature),
            friction=friction,
            thermostat_gain=self._gain(friction, temperature),
            **more,
        )

    def _gain(self, friction, temperature):
        return 0.0

    # Runs

    def check(self, plan: Any, target: Any) -> None:
        """Raise a ValueError if a plan was made for another target, or does not hold for this one."""
        check_made_for(plan, target)
        if plan.hides_path or plan.start is not None:
            _check_contraction(plan, target)

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Draw along a path, or draw the last iterates of a few."""
        from .overdamped import run_overdamped
        from .underdamped import run_underdamped

        start = None
        if plan.start is not None:
            start = plan.start.sampler.run(plan.start, target, generator, verbose).draws[0]
        run = run_overdamped if self.is_overdamped else run_underdamped
        return Released(run(plan, target, generator, verbose, start), plan)


def _default_draws(budget):
    return PATH_DRAWS[0 if budget.is_private else 1]


def _check_hidden(sampler, budget):
    if budget.neighboring_relation != "replace_one":
        raise ValueError(
            "releasing last iterates only needs a bound on the number of records, without which "
            "steps are not known to contract. neighboring_relation='add_or_remove_one' keeps that "
            "number private: use "
            "'replace_one', or release='all_iterates'."
        )
    if given(sampler.burn_in) is not None:
        raise ValueError(
            f"burn_in={sampler.burn_in:g} has no effect where only last iterates are released: leave "
            "burn_in='auto', and raise n_steps for longer segments."
        )
    if sampler.init != "zeros":
        raise ValueError(
            f"init={sampler.init!r} needs release='all_iterates'. With release='last_iterate' a "
            "chain starts at zero, and each later draw starts at the one before."
        )


def _check_contraction(plan, target):
    plan.bounds.checked_convex()
    if clips_each_example(target):
        raise ValueError(
            f"{type(target).__name__} clips each example's gradient, and clipping can undo the "
            "contraction on which hidden iterates rely: implement add_gradient with a gradient "
            "that is bounded without clipping (clip the rows), or release all iterates."
        )
