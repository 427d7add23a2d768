"""Langevin dynamics: SGLD and its underdamped relatives SGHMC and SGNHT, and one posterior sample (OPS).

    theta <- theta - eta (g(theta) + tau lambda theta) + N(0, 2 eta tau I)                      SGLD, OPS
    u <- (1 - f) u - kappa (g(theta) + tau lambda theta) + N(0, 2 kappa f tau I),
    theta <- theta + u                                                                       SGHMC, SGNHT

These are their options. `plan` makes schedules of them, `cost` says what a schedule costs, and `chains` runs
it.
"""

import math
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions

from ..._arguments import Interval
from ...models import clips_each_example
from ..base import (
    AUTO,
    CONSTRAINTS,
    Released,
    TemperedSampler,
    checked_gaussian,
    options,
    resolve_auto,
    resolved_batch_size,
)
from ..plan import check_plan_matches_target, number_of_draws
from .cost import AllIterates, LastIterate
from .plan import BURN_IN as CLIPPED_BURN_IN
from .plan import (
    ClippedGeometry,
    LangevinPlan,
    Overdamped,
    PriorGeometry,
    ScheduleProblem,
    Thermostat,
    Underdamped,
    batch_trace,
    check_batches,
    cost_at,
    plan_clipped,
    schedule_at_noise,
    solve_schedule,
    thermostat_gain,
)

# What Langevin samplers share: from options and public numbers to a schedule, and from that to a
# plan.
#
# What is released is a whole path (`AllIterates`), or the last iterates of a few chains
# (`LastIterate`); `Overdamped` and `Underdamped` say how long steps are, and `solve_schedule` how many
# there are and at which temperature. `schedule_at_noise` and `plan_clipped` do so for chains whose noise
# is paid for first.


# How often the slowest direction relaxes: along a path and before a last iterate, with privacy and without.
PATH_RELAXATIONS = (1.0, 10.0)
LAST_RELAXATIONS = (3.0, 10.0)
PATH_BURN_IN = 0.25
PATH_DRAWS = (100, 1000)


class LangevinSampler(TemperedSampler):
    """Base class of the Langevin samplers; see `SGLD`."""

    is_overdamped = True
    # Default for samplers without a `start` option.
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
        """The burn-in that is given, or a default."""
        return default if resolve_auto(self.burn_in) is None else float(self.burn_in)

    def friction_or(self, default: float | None) -> float | None:
        """The friction that is given, or a default."""
        return default if resolve_auto(self.friction) is None else float(self.friction)

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
        solved, full = solve_schedule(chain, wanted), None
        if rate < 1 and wanted is None:
            full = solve_schedule(replace(chain, sampling_rate=1.0), None).temperature
        start = self._planned_start(bounds, n_samples, budget, solved.temperature)
        plan = self._made(chain, solved, start=start, full_table_temperature=full)
        check_batches(plan)
        return plan

    def _plan_last(self, bounds, n_samples, budget, batch, temperature, n_steps, n_draws):
        bounds.checked_convex()
        _check_hidden(self, budget)
        n_batches = 1 if batch is None else math.ceil(n_samples / batch)
        chain = self.last_chain(bounds, n_samples, budget, n_batches, n_draws or 1, n_steps)
        return self._made(chain, solve_schedule(chain, temperature), hides_path=True)

    def last_chain(
        self,
        bounds: Any,
        n_samples: int,
        budget: Any,
        n_batches: int = 1,
        n_draws: int = 1,
        n_steps: int | None = None,
    ) -> Any:
        """The chain of which last iterates are released."""
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
        """The temperature that is given, or the sampler's own, None for what a budget affords."""
        return temperature

    def _start_cost(self, bounds, n_samples, budget):
        """The function from a temperature to the cost of a path's start, or None if it is zero."""
        return None

    def _planned_start(self, bounds, n_samples, budget, temperature):
        """The plan of a path's start, or None if it is zero."""
        return None

    def plan_for_noise_multiplier(
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
        step_size = resolve_auto(self.step_size)
        return ScheduleProblem(
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
        """The plan of a schedule."""
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
        check_plan_matches_target(plan, target)
        if plan.hides_path or plan.start is not None:
            _check_contraction(plan, target)

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Draw along a path, or draw the last iterates of a few."""
        from .chains import run_overdamped, run_underdamped

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
    if resolve_auto(sampler.burn_in) is not None:
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


_RELEASE = StrOptions({"all_iterates", "last_iterate"})
_INIT = {
    "init": [StrOptions({"zeros", "ops"})],
    "init_share": [AUTO, Interval(Real, 1e-6, 1, closed="left")],
}
_STEPS = ("temperature", "n_steps", "step_size", "step_decay")
_PATH = {name: CONSTRAINTS[name] for name in (*_STEPS, "batch_size", "burn_in")} | _INIT


@options()
class OPS(LangevinSampler):
    """One posterior sample: tempered draws, each the last iterate of a full-batch chain.

    The published sampler assumes an exact draw from the posterior [1]_, which no chain makes. Releasing only
    the last iterate of a contracting chain does not need exactness: after any number of steps it is
    ``mu``-GDP with ``mu <= s / (tau sqrt(lambda))``, the cost of an exact draw [2]_. Targets must be convex.
    Draws follow the posterior at temperature ``tau``, more closely the more steps there are.

    Parameters
    ----------
    temperature : float or "auto", default="auto"
        ``tau``, at least 1. "auto" is the lowest temperature that the budget affords.
    n_steps : int or "auto", default="auto"
        Number of updates, of all draws together. "auto" leaves it to the plan.
    step_size : float or "auto", default="auto"
        (First) step size of every chain.
    step_decay : float, default=0.0
        ``a`` in ``eta_k = eta_1 k^-a``.

    References
    ----------
    .. [1] Y.-X. Wang, S. E. Fienberg and A. Smola, "Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo", ICML 2015.
    .. [2] J. Bok, W. J. Su and J. Altschuler, "Shifted interpolation for differential privacy", ICML 2024.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import OPS
    >>> from skdpbayes.models import TargetBounds
    >>> bounds = TargetBounds(
    ...     3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0), convex=True
    ... )
    >>> plan = OPS().plan(bounds, 10_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.epsilon <= 1.0, plan.n_draws
    (True, 1)
    """

    name = "ops"
    proof = "Propositions 8 to 11, and 18"
    note_without_delta = (
        " One exact draw of the posterior would need no delta, but no exact sampler of it is known."
    )
    targets = frozenset({"linear"})
    release = "last_iterate"
    _parameter_constraints = {name: CONSTRAINTS[name] for name in _STEPS}

    step_size: float | str = "auto"
    step_decay: float = 0.0


@options()
class PathSampler(LangevinSampler):
    """Base class of samplers that release a path; see `SGLD`."""

    init: str = "zeros"
    init_share: float | str = "auto"
    batch_size: int | str | None = "auto"
    step_size: float | str = "auto"
    step_decay: float = 0.0
    burn_in: float | str = "auto"

    def _plan(self, *args):
        if resolve_auto(self.init_share) is not None and self.init == "zeros":
            raise ValueError(f"init_share={self.init_share} is for init='ops': leave it 'auto'.")
        return super()._plan(*args)

    def _start_cost(self, bounds, n_samples, budget):
        if self.init == "zeros":
            return None
        bounds.checked_convex()
        if resolve_auto(self.init_share) is not None:
            start = self._planned_start(bounds, n_samples, budget, None)
            return lambda temperature: start.cost
        # The start is drawn at the path's own temperature.
        draw = OPS().last_chain(bounds, n_samples, budget)
        return lambda temperature: cost_at(draw, temperature)

    def _planned_start(self, bounds, n_samples, budget, temperature):
        if self.init == "zeros":
            return None
        share = resolve_auto(self.init_share)
        if share is not None:
            part = budget.with_mu(math.sqrt(share) * budget.mu)
            return OPS().plan(bounds, n_samples, part)
        return OPS(temperature=temperature).plan(bounds, n_samples, budget)


@options()
class SGLD(PathSampler):
    """Stochastic gradient Langevin dynamics: tempered draws along a path.

    ``theta <- theta - eta_k (g(theta) + tau lambda theta) + N(0, 2 eta_k tau I)``, where ``g`` is the summed
    gradient of the records' losses. Draws are midpoints of successive iterates, which on quadratic
    potentials follow the posterior at temperature ``tau`` exactly at any stable step. A released path is
    ``mu``-GDP with ``mu^2 = s^2 t / (2 tau)``, where ``t`` is the sum of the step sizes [1]_. A last iterate
    costs no more than an exact posterior sample, ``mu = s / (tau sqrt(lambda))``, after any number of steps
    [2]_.

    Parameters
    ----------
    temperature : float or "auto", default="auto"
        ``tau``, at least 1: draws follow the posterior with the likelihood to the power of ``1 / tau``.
        "auto" is the lowest temperature that the budget affords. For networks it follows from the noise of
        the budget and the longest useful step, and is at most 1.
    n_steps : int or "auto", default="auto"
        Number of updates; their total if only last iterates are released. The updates that draw the start
        of a path are not included. "auto" leaves it to the plan, and is 600 for networks.
    release : {"all_iterates", "last_iterate"}, default="all_iterates"
        What is released: the whole path of the chain, or only its last iterate. The latter is for convex
        targets under "replace_one". The default is then one draw; ``n_draws=K`` costs ``sqrt(K)`` times the
        ``mu`` of one.
    init : {"zeros", "ops"}, default="zeros"
        Where a path starts: at zero, or at a posterior sample, for which part of the budget pays.
    init_share : float or "auto", default="auto"
        With ``init="ops"``: the share of ``mu^2`` that the start costs. "auto" draws the start at the
        temperature of the path.
    batch_size : int, "auto" or None, default="auto"
        Expected size of a Poisson batch. If last iterates are released: size of the batches, which take
        turns. None reads the full table at every step. "auto" does the same, except for networks, where it is
        4,096.
    step_size : float or "auto", default="auto"
        Size of the (first) step. Privacy pays for the sum of the step sizes.
    step_decay : float, default=0.0
        ``a`` in ``eta_k = eta_1 k^-a``.
    burn_in : float or "auto", default="auto"
        Fraction of the updates before the first draw. "auto" is 0.25; 0.5 for networks, 0 with
        ``init="ops"``.

    References
    ----------
    .. [1] Y.-X. Wang, S. E. Fienberg and A. Smola, "Privacy for free: posterior sampling and stochastic
       gradient Monte Carlo", ICML 2015.
    .. [2] J. Bok, W. J. Su and J. Altschuler, "Shifted interpolation for differential privacy", ICML 2024.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import SGLD
    >>> from skdpbayes.models import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0))
    >>> plan = SGLD().plan(bounds, 10_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.epsilon <= 1.0
    True
    """

    name = "sgld"
    proof = "Proposition 3, on Poisson batches 7; of a last iterate, Propositions 8 to 12, and 18"
    _parameter_constraints = {"release": [_RELEASE], **_PATH}

    release: str = "all_iterates"


@options()
class SGHMC(PathSampler):
    """Stochastic gradient Hamiltonian Monte Carlo: tempered draws along a path.

    ``u <- (1 - f) u - kappa (g(theta) + tau lambda theta) + N(0, 2 kappa f tau I)``, ``theta <- theta + u``
    [1]_: underdamped Langevin dynamics. With ``eta = kappa / f`` it costs as much as a path of SGLD, ``mu^2 =
    s^2 t / (2 tau)``, and needs about the square root of its number of steps. Draws are midpoints ``theta - u
    / 2``, which follow the posterior at temperature ``tau`` exactly on quadratic potentials.

    Parameters
    ----------
    friction : float or "auto", default="auto"
        ``f``: share of its velocity that the chain loses in a step, in (0, 1]. "auto" lets the velocity
        forget itself 16 times in the run, or, if that is more, damps the slowest direction critically; 0.1
        for networks.
    temperature, n_steps, init, init_share, batch_size, step_size, step_decay, burn_in
        As for `SGLD`.

    References
    ----------
    .. [1] T. Chen, E. B. Fox and C. Guestrin, "Stochastic gradient Hamiltonian Monte Carlo", ICML 2014.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import SGHMC, SGLD
    >>> from skdpbayes.models import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(0.1, 0.1))
    >>> budget = Budget(epsilon=1.0, delta=1e-6)
    >>> [sampler.plan(bounds, 100_000, budget).n_steps for sampler in (SGHMC(), SGLD())]
    [461, 13233]
    """

    name = "sghmc"
    proof = "Proposition 13; on Poisson batches, Proposition 7"
    is_overdamped = False
    _parameter_constraints = {"friction": CONSTRAINTS["friction"], **_PATH}

    friction: float | str = "auto"

    def _dynamics(self, relaxations, bounds, n_samples, rate):
        return Underdamped(relaxations, self.friction_or(None))


class SGNHT(SGHMC):
    """Stochastic gradient Nose-Hoover thermostat: SGHMC that controls its temperature.

    ``f <- f + gain (|(u + u')/2|^2 / (d kappa) - tau)`` removes the heat that batches add [1]_, and reads
    only released velocities. If the budget does not allow the diffusion time that the slowest direction
    needs, the run is shorter and the draws are not heated. The cost is that of SGHMC with the friction at
    which the thermostat starts.

    Parameters
    ----------
    temperature : float or "auto", default="auto"
        ``tau`` of the draws, at least 1. "auto" is 1, except for networks, where it is as for `SGLD`.
    friction : float or "auto", default="auto"
        Friction at which the thermostat starts, in (0, 1].
    n_steps, init, init_share, batch_size, step_size, step_decay, burn_in
        As for `SGLD`.

    References
    ----------
    .. [1] N. Ding, Y. Fang, R. Babbush, C. Chen, R. D. Skeel and H. Neven, "Bayesian sampling using
       stochastic gradient thermostats", NIPS 2014.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import SGNHT
    >>> from skdpbayes.models import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(0.1, 0.1))
    >>> plan = SGNHT().plan(bounds, 100_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.temperature
    1.0
    """

    name = "sgnht"

    def _dynamics(self, relaxations, bounds, n_samples, rate):
        underdamped = super()._dynamics(relaxations, bounds, n_samples, rate)
        return Thermostat(underdamped, batch_trace(bounds, n_samples, rate))

    def _own_temperature(self, temperature):
        return 1.0 if temperature is None else temperature

    def _gain(self, friction, temperature):
        return thermostat_gain(friction, temperature)
