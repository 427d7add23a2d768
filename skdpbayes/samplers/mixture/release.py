"""A mixture's posterior given what was released: a search, and rounds in the components' own coordinates.

    cells -> components -> S^(1) around them -> the mode given S^(1) -> S^(2) around it -> ...
    p(theta | S^(t), S^(t+1), ...) given the last rounds

Each release is a sum over records with Gaussian noise, on a lattice; what comes between follows from it. See
`RoundsPlan` for what it costs.
"""

from dataclasses import replace

import numpy as np

from ..._compute.execution import progress_bar, single_threaded_blas
from ..._data.shards import total
from ..base import Diagnostics, Released
from ..statistics.hmc import Posterior, find_mode
from ..statistics.requests import Part, release_sum
from .posterior import (
    fewer_components,
    gaussian_conditional,
    inflation,
    local_sums,
    log_evidence,
    noisy_statistics,
    reference_of,
)
from .statistics import StatisticsReleases, find_groups

# References of the first rounds are wider than the mixture.
_WIDENING = (1.5, 1.2)
# Deviation of the prior that keeps the mode near where rows were looked at, until the last round; how far it
# may go at once; and how often moments are simulated anew before a round, and after the last.
_LEASH = 0.7
_LARGEST_MOVE = 1.0
_REPEATS = 2
_LAST_REPEATS = 4
# As many of the last rounds are used together as have about so many statistics.
_MOST_STATISTICS = 1500


@single_threaded_blas()  # Blocks of rows are not worth more.
def run_rounds(plan, table, generator, verbose):
    """Carry out a `RoundsPlan`."""
    with progress_bar(plan.n_updates, plan.name, verbose) as advance:
        released = Rounds(plan, table, generator, advance)
        released.run_rounds()
    posterior = released.posterior()
    draws, drawn = posterior.draw_all(plan.n_draws, generator)
    return Released(draws, released.plan, other=Diagnostics(posterior=posterior, **drawn))


class Rounds:
    """The releases so far, and the mixture that they point to.

    Parameters
    ----------
    plan : RoundsPlan
    table : MixtureTable
    generator : Generator
        Of the noise.
    advance : callable
        Called after every pass.
    """

    def __init__(self, plan, table, generator, advance=lambda: None):
        self.plan, self.table, self.generator, self.advance = plan, table, generator, advance
        self.is_size_public = plan.budget.neighboring_relation == "replace_one"
        self.noisy_sums = []
        releases = StatisticsReleases(table, plan.n_samples, generator)
        self.chooses = plan.most_components is not None
        groups = find_groups(
            plan.model, plan.phases, releases, plan.n_samples, advance, self.chooses
        )
        self.at = self._as_reference(*groups)
        self._resize()

    def _as_reference(self, weights, means, variances):
        """Groups as a `MixtureState` of the model's kind."""
        if self.plan.model.is_triangular:
            variances = variances[:, :, None] * np.eye(means.shape[1])
        counts = self.plan.n_samples * weights
        return reference_of(self.plan.model.covariance_type, counts, means, variances)

    def _settled(self, state, repeats, **options):
        """The mixture at the mode given the last noisy sums."""
        for _ in range(repeats):
            given = self.given(state, **options)
            state = given.reference(_shortened(find_mode(given), given))
        return state

    def _resize(self):
        """Take over how many components there are."""
        self.plan = self.plan.with_components(len(self.at.counts))

    def run_rounds(self):
        """Release statistics round by round, each around the mode given those before."""
        n_rounds = len(self.plan.round_multipliers)
        for number, multiplier in enumerate(self.plan.round_multipliers):
            interval_inflation = _WIDENING[number] if number < len(_WIDENING) else 1.0
            self.release(self.at.widened(interval_inflation), self.plan.scales[number], multiplier)
            if number == n_rounds - 1:
                self.at = self._settled(self.at, _LAST_REPEATS)
                continue
            self.at = self._settled(self.at, _REPEATS, leash=_LEASH)
            if self.chooses and number == n_rounds - 1 - self.plan.n_together:
                self._choose()

    def _choose(self):
        """Keep the components that statistics ask for."""
        self.at = fewer_components(
            self.at,
            lambda state: self._settled(state, _REPEATS, leash=_LEASH),
            lambda state: log_evidence(state, self._together(), self.is_size_public),
            self.plan.n_samples,
        )
        self._resize()

    def release(self, reference, scales, multiplier):
        """Release statistics around a reference, and keep them."""
        plan, budget = self.plan, self.plan.budget
        rounding_inflation = inflation(plan.n_samples, budget.neighboring_relation, reference)
        sums = total(local_sums, self.table, reference, scales)
        part = Part(sums, np.sqrt(budget.sensitivity_factor) * scales.norm, multiplier)
        # Proposition 36.
        (noisy_sum,) = release_sum((part,), self.generator, inflation=rounding_inflation)
        self.noisy_sums.append(noisy_statistics(reference, scales, noisy_sum))
        self.advance()

    def given(self, state, **options):
        """The posterior given the last noisy sums, near a mixture."""
        model = self.plan.model._replace(n_components=len(state.counts))
        return gaussian_conditional(model, state, self._together(), self.is_size_public, **options)

    def _together(self):
        """The noisy sums that are used together."""
        most = max(1, _MOST_STATISTICS // self.noisy_sums[-1].missed.size)
        return self.noisy_sums[-min(most, self.plan.n_together) :]

    def posterior(self):
        """The posterior that the last noisy sums amount to."""
        last = self.noisy_sums[-1]
        quiet = last.noisy_sum._replace(noise=1e-3 * last.noisy_sum.noise)
        quiet = last._replace(noisy_sum=quiet)
        alone = gaussian_conditional(self.plan.model, self.at, [quiet], self.is_size_public)
        # Taken as if its statistics were the expected ones.
        moments = alone._moments(*alone.place(alone.start[None])).ravel()
        without_noise = Posterior(replace(alone, linear=alone.precision @ moments))
        return Posterior(replace(self.given(self.at), without_noise=without_noise))


def _shortened(u, given):
    """A mode that is no farther than moments are about linear."""
    first = given.contrasts.shape[1]
    return u * min(1.0, _LARGEST_MOVE / max(float(np.abs(u[first:]).max()), 1e-300))
