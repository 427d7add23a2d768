"""Chains on clipped gradients, as networks have: a budget fixes the noise, and the noise the longest step.

    nu  from the budget, the batches and the number of steps,
    eta = min( S / (n C),  2 (q / (nu C))^2 ),      tau = eta nu^2 C^2 / (2 q^2)

``eta`` is diffusion time per step (``kappa = f eta`` for underdamped chains), ``C`` the norm to which
gradients of records are clipped. The second length is that at which the noise is the posterior's own, at
temperature 1: steps are no longer, because noise would take the weights farther than the posterior does.
The first was found to be stable: a step moves nothing by more than ``S``, and changes no velocity by more
than ``f S``, because gradients are clipped. (No public number gives a useful bound on a network's curvature.)
If it is the shorter one, or if the prior's curvature allows only a shorter one still, draws on the whole
budget are colder than the posterior (``tau < 1``). A fixed temperature raises the noise, and less is spent.

The likelihood is not convex and gradients are clipped one by one: whole paths are released and accounted
for, hidden states are not. Li, Chen, Liu and Carin (2019); Abadi et al. (2016) for the clipping.
"""

import math
from dataclasses import dataclass

from .._chain_length import chain_length, number_of_draws
from .._paid_noise import free_shift, path_cost, path_multiplier
from .geometry import PriorGeometry
from .paid_noise import affordable_step
from .schedule import Schedule

N_STEPS, N_STEPS_WITHOUT_PRIVACY = 600, 3000
N_DRAWS, BURN_IN = 100, 0.5
# Of an underdamped chain's velocity, a step.
FRICTION = 0.1
_SHORTEST_STEP = 1e-30
# S: overdamped, and underdamped at that friction.
_OVERDAMPED_REACH, _UNDERDAMPED_REACH = 20.0, 40.0


@dataclass(frozen=True)
class ClippedGeometry(PriorGeometry):
    """The geometry of clipped gradients, which move nothing by more than their reach.

    Attributes
    ----------
    friction : float or None, default=None
        Share of the velocity that a step loses; None is for overdamped chains.
    """

    friction: float | None = None

    def step_at_one(self, budget, rate, noise_multiplier):
        """Return the diffusion time of a step at which the noise is that of temperature 1."""
        record_bound = self.bounds.gradient_bound * self.inflation(budget)
        n_parameters = self.bounds.n_parameters
        return affordable_step(record_bound, rate, n_parameters, noise_multiplier, 1.0)

    def schedule_at_noise(self, chain, noise_multiplier, temperature):
        """Return the `Schedule` of a chain at noise that is paid for."""
        friction = 1.0 if self.friction is None else self.friction
        reach = _OVERDAMPED_REACH
        if self.friction is not None:
            # Of what a velocity adds up to, whatever the friction.
            reach = _UNDERDAMPED_REACH * FRICTION / friction
        at_one = self.step_at_one(chain.budget, chain.sampling_rate, noise_multiplier)
        # In one step the prior alone takes away what it pulls at, and no more.
        fixed, precision = temperature, self.bounds.prior_precision[1]
        stiffest = (1.0 if fixed is None else fixed) * precision
        longest = min(
            reach / (self.n_samples * self.bounds.gradient_bound), 1.0 / (friction * stiffest)
        )
        step = chain.step_size
        if step is None:
            step = min(longest, at_one * (1.0 if fixed is None else fixed))
        needed = 1.0 if math.isinf(at_one) else step / at_one
        temperature = needed if fixed is None else max(needed, fixed)
        _check_step(step, friction, temperature, precision)
        if fixed is not None and needed > fixed * (1.0 + 1e-9):
            raise ValueError(
                f"step_size={step:g} asks for a temperature of {needed:.4g} within this budget, and "
                f"temperature={fixed:g} is lower: leave one of them 'auto'."
            )
        return Schedule(temperature, step, chain.n_steps)


def plan_clipped(sampler, bounds, n_samples, budget, rate, temperature, n_steps, n_draws):
    """Plan a path on clipped gradients that spends a budget.

    Parameters
    ----------
    sampler : LangevinSampler
    bounds, n_samples, budget, temperature, n_steps, n_draws
        As for its `plan`.
    rate : float
        Share of the records that a step reads.

    Returns
    -------
    plan : LangevinPlan

    Raises
    ------
    ValueError
        If the options cannot all hold.
    """
    burn_in = sampler.burn_in_or(BURN_IN)
    default = N_STEPS if budget.is_private else N_STEPS_WITHOUT_PRIVACY
    n_draws = number_of_draws(n_draws, N_DRAWS, n_steps, burn_in)
    steps = chain_length(n_steps, default, n_draws, burn_in, rate)
    multiplier, cost = path_multiplier(bounds, budget, rate, steps)
    friction = None if sampler.is_overdamped else sampler.friction_or(FRICTION)
    geometry = ClippedGeometry(bounds, n_samples, friction=friction)
    plan = sampler.plan_at_paid_noise(
        geometry,
        n_samples,
        multiplier,
        steps,
        cost,
        budget=budget,
        temperature=temperature,
        n_draws=n_draws,
    )
    if not budget.is_private:
        return plan
    used = plan.temperature * geometry.step_at_one(budget, rate, multiplier) / plan.step_size
    if used <= 1.0 + 1e-9:
        return plan
    # More noise than the budget asks for.
    multiplier = _raised(multiplier, used * (1.0 - 1e-9), bounds.n_parameters)
    cost = path_cost(budget.neighboring_relation, rate, steps, multiplier)
    return plan.changed(noise_multiplier=multiplier, cost=cost)


def _check_step(step, friction, temperature, precision):
    """Refuse steps at which the prior's own pull makes the chain diverge, or that do nothing."""
    if friction * step * temperature * precision > 1.0 + 1e-9:
        raise ValueError(
            f"step_size={step:g} is too long: at temperature {temperature:.3g}, which this budget's noise "
            "implies, the prior alone would make the chain diverge: take step_size='auto', or less."
        )
    if step < _SHORTEST_STEP:
        raise ValueError(f"step_size={step:g} is too short to be useful: take step_size='auto'.")


def _raised(multiplier, factor, n_parameters):
    """Return the multiplier of noise with ``factor`` times the variance; rounding stays as it is."""
    moved = free_shift(multiplier, n_parameters)
    return 1.0 / (moved / math.sqrt(factor) + (1.0 / multiplier - moved))
