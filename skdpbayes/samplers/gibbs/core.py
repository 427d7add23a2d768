"""Gibbs sampling: sweeps over the table from a start that a search without noise finds.

    z_i | theta ~ r(x_i),      theta | z     (`conditionals`)

Rows keep their allocations, which are drawn anew at the next sweep: only sums over the rows of each component
come back, wherever the rows are (`skdpbayes.targets.mixture.allocations`).
"""

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ...targets.mixture.allocations import KEY_LENGTH, allocated
from ...targets.mixture.target import Components, pack_mixture, statistics_size
from .._machinery.compiled_entries import several_cores
from .._machinery.execution import cores, progress_bar
from .._machinery.gradients import gradient_oracle, sums_at
from .._machinery.shards import mapped
from .._protocol import Released
from ..mixture.start import find_groups, starting_components
from ..mixture.statistics import Statistics, StatisticsReleases
from .conditionals import draw_parameters


@threadpool_limits.wrap(limits=1, user_api="blas")  # Matrices are small.
def run_gibbs(plan: Any, table: Any, generator: np.random.Generator, verbose: int) -> Released:
    """Carry out a `GibbsPlan`. **Draws are not private.**"""
    model, draws, kept = plan.model, [], set(plan.kept_steps().tolist())
    releases = StatisticsReleases(table, plan.n_samples, generator)
    with progress_bar(plan.n_updates, plan.name, verbose) as advance:
        groups = find_groups(model, plan.phases, releases, plan.n_samples, advance)
        at, found = starting_components(model, *groups), None
        allocations = Allocations(table, plan.n_samples, at)
        for step in range(plan.n_steps):
            if found is None or model.n_components > 1:
                found = allocations.draw(at, generator)
            at = draw_parameters(model, found, at.factors, generator)
            if step in kept:
                draws.append(pack_mixture(at, model))
            advance()
    return Released(np.array(draws), plan)


class Allocations:
    """Allocates the rows of a table to components, again and again.

    Parameters
    ----------
    table : MixtureTable
    public_size : int
        By which sums are cut into parts.
    components : Components
        Of the shape of all that rows are allocated to.
    """

    def __init__(self, table: Any, public_size: int, components: Components):
        shape = components.means.shape
        self._size = statistics_size(*shape, components.factors.ndim == 3)
        table = mapped(allocated, table, numbered=True)
        self._oracle, _ = gradient_oracle(table, self._size, public_size, sums_only=True)

    def draw(self, components: Components, generator: np.random.Generator) -> Statistics:
        """Return the statistics of all components, of rows that are allocated at random."""
        key = generator.integers(2**32, size=KEY_LENGTH)  # Without privacy.
        vector = np.concatenate([components.as_vector(), key.astype(np.float64)])
        with cores(self._oracle.n_examples * self._size) as parallel:
            total = sums_at(self._oracle, vector, several_cores() if parallel else 0)
        return Statistics.of_vector(total, components)
