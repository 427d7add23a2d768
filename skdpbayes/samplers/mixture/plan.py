"""What plans for mixtures share: a search for groups, by expected sufficient statistics alone.

For rows in the unit ball

    S_k = sum_i r_k(x_i) (1, x_i, x_i^2),     sum_k r_k = 1,     |(1, x, x^2)|^2 <= 3.

One record moves them by at most ``sqrt(3)``, under ``replace_one`` by ``sqrt(6)``: ``1 + x.x' +
x^2.x'^2 >= 0`` for rows in the unit ball, so that two records' statistics are never at an obtuse angle.
The search is a fixed number of passes, each of which releases all statistics with Gaussian noise, in two
phases:

- cells: the table is cut into ``CELLS K`` cells, by splitting those of largest spread, and by Lloyd's
  steps;
- soft: expectation maximisation with a component for each cell; then components are merged down to
  ``K``.

It is ``mu``-GDP with ``mu^2 = sum_phases T (Delta / sigma)^2``, all of it fixed beforehand. What comes after
it, `rounds` and `skdpbayes.samplers.gibbs.plan` say.
"""

import math
from dataclasses import dataclass

from ...privacy.floating_point import sum_inflation
from ...targets import TargetBounds
from ...targets.mixture.target import STATISTICS_NORM, MixtureModel
from .._paid_noise import free_shift
from .._plan import Plan

# How many cells there are for a component, and how often Lloyd's steps are taken when all are there.
CELLS, LLOYD = 4, 2
SOFT_PASSES = 12
# Shares of mu^2 of the phases, and of a single component's first look: it needs no search.
SHARES = {"cells": 0.12, "soft": 0.23}
SHARE_OF_FIRST_LOOK = 0.05
# Seconds of a row for each component, and for each entry of its factor: guesses.
_COMPONENT_SECONDS, _ENTRY_SECONDS = 3e-8, 3e-9
N_DRAWS = 100
# How much more statistics can err, relative to gradients, than sums of gradients.
_STATISTICS_ROUNDING = 8.0


@dataclass(frozen=True)
class Phase:
    """A part of the search.

    Attributes
    ----------
    name : str
        What it is for.
    n_passes : int
        Over the table.
    noise_scale : float
        Standard deviation of the noise on statistics of rows in the unit ball.
    mu : float or None
        What a pass costs.
    """

    name: str
    n_passes: int
    noise_scale: float
    mu: float | None = None


@dataclass(frozen=True, kw_only=True)
class MixturePlan(Plan):
    """A plan for a mixture.

    Attributes
    ----------
    model : MixtureModel
        The mixture and its prior.
    phases : tuple of Phase
        The search.
    """

    model: MixtureModel
    phases: tuple[Phase, ...]

    @property
    def start_passes(self):
        """How many passes over the table the search takes."""
        return sum(phase.n_passes for phase in self.phases)

    @property
    def record_gradients(self):
        """How many records are read, again and again."""
        return super().record_gradients + self.start_passes * self.n_samples

    @property
    def estimated_seconds(self):
        """A rough guess of the run time on one core."""
        model = self.model
        entries = model.n_features * (model.n_features if model.is_triangular else 1)
        each = _COMPONENT_SECONDS + _ENTRY_SECONDS * entries
        return (self.start_passes + self.n_steps) * self.n_samples * model.n_components * each

    @property
    def n_updates(self):
        """Updates in all, those of the search included."""
        return self.n_steps + self.start_passes

    def summary(self):
        """Return the lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        lines["start"] = ", ".join(f"{p.n_passes} passes to {p.name}" for p in self.phases)
        return lines


def statistics_bounds(model):
    """Return the bounds of statistics' sums, by which a search is accounted for."""
    return TargetBounds(model.n_parameters, STATISTICS_NORM, 1.0, (1.0, 1.0))


def search_shares(model):
    """Return the phases' shares of ``mu^2``."""
    return {"cells": SHARE_OF_FIRST_LOOK} if model.n_components == 1 else SHARES


def search_phases(model, n_samples, budget):
    """Return (bounds of statistics, phases of the search).

    Parameters
    ----------
    model : MixtureModel
    n_samples : int
    budget : Budget
    """
    cells = math.ceil(math.log2(CELLS * model.n_components)) + 1 + LLOYD
    passes = {"cells": 1} if model.n_components == 1 else {"cells": cells, "soft": SOFT_PASSES}
    bounds, shares = statistics_bounds(model), search_shares(model)
    rounding = sum_inflation(n_samples, bounds.n_parameters, budget.neighboring_relation) - 1.0
    inflation = 1.0 + _STATISTICS_ROUNDING * rounding
    sensitivity = math.sqrt(budget.records_moved) * STATISTICS_NORM * inflation
    # Statistics of all cells are one vector, rounded to the lattice of its noise.
    triangular = model.n_features * (model.n_features + 3) // 2 + 1
    size = CELLS * model.n_components * triangular
    phases = []
    for name, count in passes.items():
        mu = math.sqrt(shares[name] / count) * budget.mu
        noise = sensitivity / free_shift(1.0 / mu, size) if budget.is_private else 0.0
        phases.append(Phase(name, count, noise, mu))
    return bounds, tuple(phases)
