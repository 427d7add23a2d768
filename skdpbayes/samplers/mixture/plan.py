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
(`skdpbayes.samplers.langevin.paid_noise`). The target is not log-concave: last iterates cannot be accounted
for, and the whole path is released.
"""

import math
from dataclasses import dataclass

from ...privacy.cost import PrivacyCost
from ...targets import TargetBounds
from ...targets.mixture.target import STATISTICS_NORM, MixtureModel
from .._plan import Plan
from ..langevin.paid_noise import chain_length, free_shift, path_multiplier
from ..langevin.schedule import number_of_draws
from ..metropolis.plan import MetropolisPlan
from .path import statistics_inflation

# How many cells there are for a component, and how often Lloyd's steps are taken when all are there.
CELLS, LLOYD = 4, 2
SOFT_PASSES, REFINING_PASSES = 12, 40
# Shares of mu^2; the path has the rest.
SHARES = {"cells": 0.1, "soft": 0.15, "refine": 0.15}
# Seconds of a row for each component, and for each entry of its factor: guesses.
_COMPONENT_SECONDS, _ENTRY_SECONDS = 3e-8, 3e-9
N_STEPS, N_STEPS_WITHOUT_PRIVACY = 300, 3000
N_DRAWS = 100
# A random walk's plan reckons with records that are at most so far from a component, in units of its width,
# squared.
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

    ``temperature`` is nan until then, unless it is fixed.

    Attributes
    ----------
    model : MixtureModel
        The mixture and its prior.
    phases : tuple of Phase
        The start.
    noise_multiplier : float
        Of every step of the path, relative to the bound on a record's gradient; nan for random walks.
    halves_distances : bool
        Whether noise is relative to half the distance of two records' gradients, not to their norm. On
        Poisson batches a record's own gradient counts, also where neighbours replace one.
    walk : MetropolisPlan or None
        For random walks, the path in units of the bound on a record's gradient.
    """

    model: MixtureModel
    phases: tuple[Phase, ...]
    noise_multiplier: float = math.nan
    halves_distances: bool = False
    walk: MetropolisPlan | None = None

    @property
    def mu_of_replacing(self):
        """``mu`` of another row in the place of one; only the start's statistics form no obtuse angles."""
        if not self.budget.is_private:
            return math.inf
        of_start = sum(SHARES[phase.name] for phase in self.phases) * self.budget.mu**2
        return math.sqrt(2.0 * of_start + 4.0 * (self.cost.mu**2 - of_start))

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
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        return super().warnings + (() if self.walk is None else self.walk.warnings)

    def summary(self):
        """Return the lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        if math.isnan(self.temperature):
            lines["temperature"] = "from the released start"
        lines["start"] = ", ".join(f"{p.n_passes} passes to {p.name}" for p in self.phases)
        lines["noise on statistics"] = ", ".join(f"{p.noise_scale:.4g}" for p in self.phases)
        if self.walk is None:
            lines["noise multiplier"] = f"{self.noise_multiplier:.4g}"
        return lines

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
        return self.walk.scaled(gradient_bound).changed(budget=self.budget, cost=self.cost)


def statistics_bounds(model):
    """Return the bounds of statistics' sums, by which a start is accounted for."""
    return TargetBounds(model.n_parameters, STATISTICS_NORM, 1.0, (1.0, 1.0))


def plan_noisy_path(sampler, model, n_samples, budget, rate, burn_in, halves, fixed):
    """Divide a budget among a private start and a path of noisy gradients.

    Parameters
    ----------
    sampler : MixtureSampler
    model : MixtureModel
    n_samples : int
    budget : Budget
    rate, burn_in : float
        Share of the records that a step reads, and of the steps before the first draw.
    halves : bool
        Whether the path's noise may be relative to half the distance of two records' gradients.
    fixed : tuple
        (temperature, n_steps, n_draws), None for what is left to the rule.

    Returns
    -------
    plan : MixturePlan
    """
    temperature, n_steps, n_draws = fixed
    bounds, phases, share = _start(model, n_samples, budget)
    draws = number_of_draws(n_draws, N_DRAWS, n_steps, burn_in)
    default = N_STEPS if budget.is_private else N_STEPS_WITHOUT_PRIVACY
    steps = chain_length(n_steps, default, draws, burn_in, rate)
    multiplier, cost = path_multiplier(bounds, budget, rate, steps, math.sqrt(share) * budget.mu)
    return MixturePlan(
        sampler=sampler,
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=cost,
        model=model,
        phases=phases,
        temperature=math.nan if temperature is None else float(temperature),
        n_steps=steps,
        n_burn_in=math.floor(steps * burn_in),
        n_draws=draws,
        sampling_rate=rate,
        noise_multiplier=multiplier,
        halves_distances=halves and budget.records_moved == 2 and rate == 1,
    )


def plan_walk(sampler, walk_sampler, model, n_samples, budget, n_draws):
    """Divide a budget among a private start and a random walk, in units of the bound on a gradient.

    Parameters are as for `plan_noisy_path`, and ``walk_sampler``, a `RandomWalk`.
    """
    bounds, phases, share = _start(model, n_samples, budget)
    nominal = _NOMINAL_SQUARE * math.sqrt(model.n_components / 2.0)
    units = TargetBounds(model.n_parameters, 1.0, nominal**-2, (nominal**-2, nominal**-2))
    start = PrivacyCost(budget.neighboring_relation, mu=math.sqrt(share) * budget.mu)
    mu = math.sqrt(1.0 - share) * budget.mu
    while True:
        walk = walk_sampler.plan(units, n_samples, budget.with_mu(mu), n_draws=n_draws)
        cost = start + walk.cost
        if budget.allows(cost):
            break
        # Decisions and Gaussians together cost a little more than Gaussians alone.
        mu *= 0.98
    same = {
        name: getattr(walk, name)
        for name in ("temperature", "n_steps", "n_burn_in", "n_draws", "sampling_rate")
    }
    return MixturePlan(
        sampler=sampler,
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=cost,
        model=model,
        phases=phases,
        walk=walk,
        **same,
    )


def _start(model, n_samples, budget):
    """Return (bounds of statistics, phases of the start, their share of ``mu^2``)."""
    passes = {"cells": search_passes(model), "soft": SOFT_PASSES, "refine": REFINING_PASSES}
    if model.n_components == 1:  # Its statistics do not depend on where it is.
        passes = {"refine": 1}
    bounds, phases = start_phases(model, n_samples, budget, passes, SHARES)
    return bounds, phases, sum(SHARES[name] for name in passes)


def search_passes(model):
    """Return how many passes it takes to cut a table into cells."""
    return math.ceil(math.log2(CELLS * model.n_components)) + 1 + LLOYD


def start_phases(model, n_samples, budget, passes, shares):
    """Return (bounds of statistics, phases of a start).

    Parameters
    ----------
    model : MixtureModel
    n_samples : int
    budget : Budget
    passes : dict of {str: int}
        Passes of the phases.
    shares : dict of {str: float}
        Shares of ``mu^2`` of the phases.
    """
    bounds = statistics_bounds(model)
    inflation = statistics_inflation(bounds, n_samples, budget)
    sensitivity = math.sqrt(budget.records_moved) * STATISTICS_NORM * inflation
    # Statistics of all cells are one vector, rounded to the lattice of its noise.
    triangular = model.n_features * (model.n_features + 3) // 2 + 1
    size = CELLS * model.n_components * triangular
    phases = []
    for name, count in passes.items():
        mu = math.sqrt(shares[name] / count) * budget.mu
        noise = sensitivity / free_shift(1.0 / mu, size) if budget.is_private else 0.0
        phases.append(Phase(name, count, noise))
    return bounds, tuple(phases)
