"""Gibbs sampling: sweeps over the table from a start that a search without noise finds.

    z_i | theta ~ r(x_i),      theta | z     (`conditionals`)

Rows keep their allocations, which are drawn anew at the next sweep: only sums over the rows of each component
come back, wherever the rows are (`skdpbayes.targets.mixture.allocations`).
"""

from typing import Any

import numpy as np

from ...targets.mixture.allocations import KEY_LENGTH, allocated
from ...targets.mixture.target import Components, pack_mixture, statistics_size
from .._machinery.execution import progress_bar, run_in_blocks
from .._machinery.gradients import gradient_oracle, sums_at
from .._machinery.shards import mapped
from .._protocol import Released
from ..mixture.start import find_groups, starting_components
from ..mixture.statistics import Statistics, StatisticsReleases
from .conditionals import draw_parameters


def run_gibbs(plan: Any, table: Any, generator: np.random.Generator, verbose: int) -> Released:
    """Carry out a `GibbsPlan`. **Draws are not private.**"""
    releases = StatisticsReleases(table, plan.n_samples, generator)
    with progress_bar(plan.start_passes, "start", verbose) as advance:
        groups = find_groups(plan.model, plan.phases, releases, plan.n_samples, advance)
    sweeps = Sweeps(plan, table, starting_components(plan.model, *groups), generator)
    work = plan.n_samples * sweeps.allocations.size
    run_in_blocks(sweeps.advance, plan, work, verbose, plan.name)
    return Released(np.array(sweeps.draws), plan)


class Sweeps:
    """A chain of sweeps, and the draws that it has kept.

    Parameters
    ----------
    plan : GibbsPlan
    table : MixtureTable
    start : Components
    generator : numpy.random.Generator
    """

    def __init__(self, plan: Any, table: Any, start: Components, generator: np.random.Generator):
        self.model, self.at, self.generator = plan.model, start, generator
        self.allocations = Allocations(table, plan.n_samples, start)
        self.draws: list[np.ndarray] = []
        self._kept = set(plan.kept_steps().tolist())
        self._found: Statistics | None = None

    def advance(self, first: int, stop: int, loop: int) -> bool:
        """Make some sweeps; ``loop`` is as for `run_in_blocks`."""
        for step in range(first, stop):
            # A single component always has the same rows.
            if self._found is None or self.model.n_components > 1:
                self._found = self.allocations.draw(self.at, self.generator, loop)
            self.at = draw_parameters(self.model, self._found, self.at.factors, self.generator)
            if step in self._kept:
                self.draws.append(pack_mixture(self.at, self.model))
        return False


class Allocations:
    """Allocates the rows of a table to components, again and again.

    Parameters
    ----------
    table : MixtureTable
    public_size : int
        By which sums are cut into chunks.
    components : Components
        Of the shape of all that rows are allocated to.
    """

    def __init__(self, table: Any, public_size: int, components: Components):
        self.size = statistics_size(*components.means.shape, components.factors.ndim == 3)
        table = mapped(allocated, table, numbered=True)
        self._oracle, _ = gradient_oracle(table, self.size, public_size, sums_only=True)

    def draw(
        self, components: Components, generator: np.random.Generator, loop: int = 0
    ) -> Statistics:
        """Return the statistics of all components, of rows that are allocated at random.

        ``loop`` is the address of the loop over several cores, or zero for one.
        """
        key = generator.integers(2**32, size=KEY_LENGTH)  # Without privacy.
        vector = np.concatenate([components.as_vector(), key.astype(np.float64)])
        return Statistics.of_vector(sums_at(self._oracle, vector, loop), components)
