"""Posterior samples of a mixture (OPS), private on condition that they are exact.

    eta = 2 W / tau  (replace_one),   W / tau  (add_or_remove_one),
    W = sup log p(x | theta) - inf log p(x | theta)

is the range of the log ratio of two neighbours' tempered posteriors, if rows and parameters are in
bounded sets; an exact draw is ``eta``-bounded-range, at most as revealing as a bit of that range (Dong,
Durfee and Rogers, 2020). For rows and means in the unit ball and factors ``F`` with singular values
between 1 and ``f``,

    W = (d - 1) log f + 2 f^2:

a density is at most ``f^d`` and at least that of the farthest component, ``f exp(-(2 f)^2 / 2)``, with
the rest of its axes as wide as the ball. No chain is known to draw exactly from such a posterior. This
guarantee is asked for by name, and what it rests on is reported with it.

Wang, Fienberg and Smola (2015); Dimitrakakis, Nelson, Mitrokotsa and Rubinstein (2014).
"""

import math

from .accept_bits import LARGEST_BLOCK_RANGE
from .calibration import smallest_within
from .cost import AcceptBits, PrivacyCost
from .metropolis_plans import Clock, MetropolisPlan

# No component is narrower, in any direction, than this share of the prior's own deviation.
_NARROWEST = 0.25
DEFAULT_STEPS, DEFAULT_BURN_IN, DEFAULT_DRAWS = 4000, 0.25, 1
_SHORT_WALK = 2.38
# The walk takes the whole table, and reckons with no bound on what a record adds.
_UNBOUNDED = 1e100
CONDITION = "draws are exact, which the chain is not known to be"


def largest_factor(model):
    """Return ``f``: what no singular value of a factor exceeds, in unit-ball coordinates."""
    deviation = math.sqrt(model.covariance) / model.data_norm
    return max(1.0, 1.0 / (_NARROWEST * deviation))


def log_density_range(model):
    """Return ``W``: between the largest and the smallest log density of a row in the ball."""
    f = largest_factor(model)
    return (model.n_features - 1) * math.log(f) + 2.0 * f * f


def sample_cost(model, budget, temperature, n_draws):
    """Return what draws cost, if they are exact."""
    relation = budget.neighboring_relation
    shift = 2.0 if relation == "replace_one" else 1.0
    spread = shift * log_density_range(model) / temperature
    return PrivacyCost(relation, bits=(AcceptBits(spread, n_draws),))


def plan_walk(model, bounds, n_samples, budget, options):
    """Return the plan of the chain that draws, at the lowest temperature that the budget affords.

    Returns
    -------
    walk : MetropolisPlan

    Raises
    ------
    ValueError
        If the options cannot all hold.
    """
    options.refuse(
        (
            "batch_size",
            "max_batch_size",
            "noise_multiplier",
            "adapt_step_size",
            "n_effective",
            "friction",
        ),
        "does not go with sampler='ops', whose chain takes the whole table: leave it out.",
    )
    draws = DEFAULT_DRAWS if options.n_draws is None else options.n_draws
    burn_in = DEFAULT_BURN_IN if options.burn_in is None else options.burn_in
    steps = options.n_steps or max(DEFAULT_STEPS, math.ceil((draws + 1) / (1.0 - burn_in)))
    burnt = math.floor(steps * burn_in)
    if steps - burnt < draws:
        raise ValueError(
            f"n_steps={steps} leaves fewer than n_draws={draws} steps after burn_in={burn_in:g}."
        )
    temperature = _temperature(model, budget, options.temperature, draws)
    deviation = math.sqrt(temperature / (n_samples + temperature))
    return MetropolisPlan(
        sampler="ops",
        n_samples=n_samples,
        bounds=bounds._replace(gradient_bound=_UNBOUNDED),
        budget=budget,
        cost=sample_cost(model, budget, temperature, draws),
        temperature=temperature,
        n_steps=steps,
        n_burn_in=burnt,
        n_draws=draws,
        sampling_rate=1.0,
        step_size=_SHORT_WALK * deviation,
        proposal="sphere",
        rule="metropolis",
        noise_variance=0.0,
        batch_ratio=0.0,
        adapt_step_size=False,
        clock=Clock(0.0, float(steps), float(burnt), 0.0),
        expected_acceptance=0.25,
        typical_deviation=deviation,
        relaxations=1.0,
        wanted_relaxations=1.0,
        expected_steps=steps,
    )


def _temperature(model, budget, given, n_draws):
    if math.isinf(budget.epsilon):
        return 1.0 if given is None else given
    if given is not None:
        if not budget.allows(sample_cost(model, budget, given, n_draws)):
            raise ValueError(
                f"temperature={given:g} costs more than epsilon={budget.epsilon:g} for n_draws={n_draws} "
                "draws: raise temperature or epsilon, or lower n_draws."
            )
        return given
    # Beyond this range a bit has no curve, and costs more than any usual budget anyway.
    lowest = max(1.0, 2.0 * log_density_range(model) / LARGEST_BLOCK_RANGE)

    def excess(log_ratio):
        cost = sample_cost(model, budget, lowest * math.exp(log_ratio), n_draws)
        return cost.epsilon(budget.delta) / budget.epsilon - 1.0

    return lowest if excess(0.0) <= 0 else lowest * math.exp(smallest_within(excess, 1.0, 1e-4))
