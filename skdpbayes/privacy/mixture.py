"""Plans for mixtures: a private start, then a path in coordinates around it.

The data enter through expected sufficient statistics, for rows in the unit ball

    S_k = sum_i r_k(x_i) (1, x_i, x_i^2),     sum_k r_k = 1,     |(1, x, x^2)|^2 <= 3.

One record moves them by at most ``sqrt(3)``, under ``replace_one`` by ``sqrt(6)``: ``1 + x.x' +
x^2.x'^2 >= 0`` for rows in the unit ball, so that two records' statistics are never at an obtuse angle.
The start is a fixed number of passes, each of which releases all statistics with Gaussian noise, in
three phases:

- cells: the table is cut into ``CELLS K`` cells, by splitting those of largest spread, and by Lloyd's
  steps;
- soft: expectation maximisation with a component for each cell; then components are merged down to
  ``K``;
- refine: expectation maximisation with ``K`` components and running means of the statistics.

Together with the path, in coordinates whitened at the start, this is ``mu``-GDP with ``mu^2 =
sum_phases T (Delta / sigma)^2 + mu_path^2``, all of it fixed beforehand. What the start decides on is
the bound ``G`` of a record's gradient, and through it the temperature
(`skdpbayes.privacy.given_noise`). The target is not log-concave: last states cannot be accounted for,
and the whole path is released.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from ..targets import TargetBounds
from ..targets.mixture import STATISTICS_NORM, MixtureModel
from .cost import PrivacyCost, gaussian_epsilon, gaussian_mu
from .given_noise import chain_length, free_shift, path_multiplier
from .metropolis import METROPOLIS_SAMPLERS, plan_metropolis
from .metropolis_plans import MetropolisPlan
from .mixture_path import RULES, complete_path, statistics_inflation
from .mixture_sample import CONDITION, plan_walk
from .options import SamplerOptions, check_common_options, check_options
from .plan import Plan

MIXTURE_SAMPLERS = ("sgld", "sghmc", "sgnht", "ops", *METROPOLIS_SAMPLERS)
# How many cells there are for a component, and how often Lloyd's steps are taken when all are there.
CELLS, LLOYD = 4, 2
SOFT_PASSES, REFINING_PASSES = 12, 40
# Shares of mu^2; the path has the rest.
SHARES = {"cells": 0.1, "soft": 0.15, "refine": 0.15}
# Seconds of a row for each component, and for each entry of its factor: guesses.
_COMPONENT_SECONDS, _ENTRY_SECONDS = 3e-8, 3e-9
N_STEPS, N_STEPS_WITHOUT_PRIVACY = 300, 3000
# Random walks keep within this distance of the start, in units of a component's own width; logarithms
# of weights and of scales likewise. Their plan reckons with records that are at most so far, squared.
WALK_LIMIT = 0.25
_NOMINAL_SQUARE = 100.0


@dataclass(frozen=True)
class Phase:
    """A part of the start.

    Attributes
    ----------
    name : str
        What it is for.
    n_passes : int
        Over the table.
    noise_scale : float
        Standard deviation of the noise on statistics of rows in the unit ball.
    """

    name: str
    n_passes: int
    noise_scale: float


@dataclass(frozen=True, kw_only=True)
class MixturePlan(Plan):
    """A plan for a mixture, as far as it can be made before the start is released.

    ``temperature`` is nan until then, unless it is fixed; `complete` returns the rest.

    Attributes
    ----------
    model : MixtureModel
        The mixture and its prior.
    phases : tuple of Phase
        The start.
    noise_multiplier : float
        Of every step of the path, relative to the bound on a record's gradient.
    options : SamplerOptions
        What the user has fixed.
    walk : MetropolisPlan or None
        For the samplers of Metropolis' family, the path in units of the bound on a record's gradient.
    """

    model: MixtureModel
    phases: tuple[Phase, ...]
    noise_multiplier: float
    options: SamplerOptions
    walk: MetropolisPlan | None = None

    @property
    def start_passes(self):
        """How many passes over the table the start takes."""
        return sum(phase.n_passes for phase in self.phases)

    @property
    def record_gradients(self):
        """How many records are read, again and again."""
        return super().record_gradients + self.start_passes * self.n_samples

    @property
    def estimated_seconds(self):
        """A rough guess of the run time on one core."""
        model, passes = self.model, self.start_passes + self.n_steps * self.sampling_rate
        entries = model.n_features * (model.n_features if model.is_triangular else 1)
        each = _COMPONENT_SECONDS + _ENTRY_SECONDS * entries
        return passes * self.n_samples * model.n_components * each

    @property
    def n_updates(self):
        """Updates in all, those of the start included."""
        return self.n_steps + self.start_passes

    @property
    def halves_distances(self):
        """Whether noise is relative to half the distance of two records' gradients, not to their norm.

        On Poisson batches a record's own gradient counts, also where neighbours replace one.
        """
        return self.budget.neighboring_relation == "replace_one" and self.sampling_rate == 1

    def _rows(self):
        rows = dict(super()._rows())
        if math.isnan(self.temperature):
            rows["temperature"] = "from the released start"
        rows["start"] = ", ".join(
            f"{phase.n_passes} passes to {phase.name}" for phase in self.phases
        )
        rows["noise on statistics"] = ", ".join(f"{p.noise_scale:.4g}" for p in self.phases)
        if self.walk is None:
            rows["noise multiplier"] = f"{self.noise_multiplier:.4g}"
        return list(rows.items())

    @property
    def condition(self):
        """What the cost holds under: exact draws, for posterior samples."""
        return CONDITION if self.sampler == "ops" else ""

    @property
    def notes(self):
        """What the user should know before running it, a tuple of str."""
        return super().notes + (() if self.walk is None else self.walk.notes)

    def complete_walk(self, gradient_bound):
        """Return the plan of a random walk, post-processing of the released start.

        Parameters
        ----------
        gradient_bound : float
            What a record's gradient is bounded by within the walk's limit.

        Returns
        -------
        path : MetropolisPlan
            In whitened coordinates; its cost is the whole plan's.
        """
        return replace(self.walk.scaled(gradient_bound), budget=self.budget, cost=self.cost)

    def complete(self, bound_within, prior_curvature, steepness=1.0):
        """Return the plan of the path, post-processing of the released start.

        Parameters
        ----------
        bound_within : callable
            Maps a deviation of the coordinates to what a record's gradient is bounded by there, as
            `halves_distances` says.
        prior_curvature : float
            A bound on the prior's curvature at the start.
        steepness : float, default=1.0
            What rounding of statistics is multiplied by in a gradient.

        Returns
        -------
        path : LangevinPlan, HamiltonianPlan or ThermostatPlan
            In whitened coordinates; its cost is the whole plan's.
        """
        return complete_path(self, bound_within, prior_curvature, steepness)


@lru_cache(maxsize=512)
def plan_mixture(model, n_samples, budget, options=SamplerOptions(), *, sampler="sgld"):  # noqa: B008
    """Divide a budget among a private start and a path.

    Parameters
    ----------
    model : MixtureModel
        The mixture and its prior.
    n_samples : int
        Public size of the table.
    budget : Budget
        Ceiling on the cost.
    options : SamplerOptions, default=SamplerOptions()
        What the user fixes; step sizes follow from the start.
    sampler : {"sgld", "sghmc", "sgnht", "ops", "dp_fast_mh", "dp_mh", "penalty", "dp_fast_mh_gaussian"}, \
            default="sgld"
        The algorithm of the path.

    Returns
    -------
    plan : MixturePlan

    Raises
    ------
    ValueError
        If a number of the model or an option is out of range, or if the options cannot all hold.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget, plan_mixture
    >>> from skdpbayes.targets import MixtureModel
    >>> model = MixtureModel(2, 3, "diag", 4.0, 1.0, 4.0, 5.0, 0.5)
    >>> plan = plan_mixture(model, 100_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.epsilon <= 1.0
    True
    """
    model.checked()
    bounds = TargetBounds(model.n_parameters, STATISTICS_NORM, 1.0, (1.0, 1.0))
    walks = sampler in METROPOLIS_SAMPLERS or sampler == "ops"
    (check_common_options if walks else check_options)(bounds, n_samples, budget, options)
    _check(budget, options, sampler)
    total = gaussian_mu(budget.epsilon, budget.delta)
    phases = _phases(model, bounds, n_samples, budget, total)
    shares = sum(SHARES[phase.name] for phase in phases)
    common = {
        "sampler": sampler,
        "n_samples": n_samples,
        "bounds": bounds,
        "budget": budget,
        "model": model,
        "phases": phases,
        "options": options,
    }
    if sampler == "ops":
        walk = plan_walk(model, bounds, n_samples, budget, options)
        common["phases"] = tuple(replace(phase, noise_scale=0.0) for phase in phases)
        return _walking(common, walk, walk.cost)
    if walks:
        return _walking(common, *_walk(model, n_samples, budget, options, sampler, shares))
    rule_class = RULES[sampler]
    private = not math.isinf(budget.epsilon)
    steps = chain_length(rule_class, options, N_STEPS if private else N_STEPS_WITHOUT_PRIVACY)
    # It checks the options against each other, and knows the defaults.
    rule = rule_class(bounds, n_samples, budget, options._replace(n_steps=steps))
    multiplier, cost = path_multiplier(
        bounds, budget, rule.q, steps, total, math.sqrt(shares) * total
    )
    return MixturePlan(
        **common,
        cost=cost,
        temperature=math.nan if options.temperature is None else options.temperature,
        n_steps=steps,
        n_burn_in=math.floor(steps * rule.burn_in),
        n_draws=rule.draws,
        sampling_rate=rule.q,
        noise_multiplier=multiplier,
    )


def _walking(common, walk, cost):
    """Return a plan that says what its walk does, and what start and walk cost."""
    names = ("temperature", "n_steps", "n_burn_in", "n_draws", "sampling_rate")
    same = {name: getattr(walk, name) for name in names}
    return MixturePlan(**common, **same, cost=cost, noise_multiplier=math.nan, walk=walk)


def _walk(model, n_samples, budget, options, sampler, shares):
    """Return (plan of a random walk in units of the bound, cost of the start and of the walk)."""
    nominal = _NOMINAL_SQUARE * math.sqrt(model.n_components / 2.0)
    bounds = TargetBounds(model.n_parameters, 1.0, nominal**-2, (nominal**-2, nominal**-2))
    total = gaussian_mu(budget.epsilon, budget.delta)
    start = PrivacyCost(budget.neighboring_relation, mu=math.sqrt(shares) * total)
    mu = math.sqrt(1.0 - shares) * total
    while True:
        part = budget._replace(epsilon=gaussian_epsilon(mu, budget.delta))
        walk = plan_metropolis(bounds, n_samples, part, options, sampler=sampler)
        cost = start + walk.cost
        if budget.allows(cost):
            return walk, cost
        # Bits and Gaussians together cost a little more than Gaussians alone.
        mu *= 0.98


def _phases(model, bounds, n_samples, budget, total):
    splits = math.ceil(math.log2(CELLS * model.n_components))
    passes = {"cells": splits + 1 + LLOYD, "soft": SOFT_PASSES, "refine": REFINING_PASSES}
    if model.n_components == 1:  # Its statistics do not depend on where it is.
        passes = {"refine": 1}
    inflation = statistics_inflation(bounds, n_samples, budget)
    replaced = budget.neighboring_relation == "replace_one"
    sensitivity = (math.sqrt(2.0) if replaced else 1.0) * STATISTICS_NORM * inflation
    # Statistics of all cells are one vector, rounded to the lattice of its noise.
    triangular = model.n_features * (model.n_features + 3) // 2 + 1
    size = CELLS * model.n_components * triangular
    phases = []
    for name, count in passes.items():
        mu = math.sqrt(SHARES[name] / count) * total
        noise = 0.0 if math.isinf(total) else sensitivity / free_shift(1.0 / mu, size)
        phases.append(Phase(name, count, noise))
    return tuple(phases)


def _check(budget, options, sampler):
    if sampler not in MIXTURE_SAMPLERS:
        raise ValueError(f"sampler must be one of {MIXTURE_SAMPLERS}, got {sampler!r}.")
    underdamped = sampler in ("sghmc", "sgnht")
    options.refuse(
        ("step_size", "step_decay", "init", *(() if underdamped else ("friction",))),
        f"does not go with sampler={sampler!r} of mixtures, whose steps follow from the start that is "
        "released first: leave it out.",
    )
    if budget.delta == 0 and not math.isinf(budget.epsilon):
        raise ValueError(
            "delta=0 asks for pure differential privacy, which the Gaussian noise of a mixture's start does "
            "not have: give a delta in (0, 1), e.g. delta=None for the default."
        )
