"""The releases for counts, one after the other, and what is believed given them.

    A -> W, C -> histograms -> F -> u_0, tau_0 -> g_0, s_0 -> u_1, tau_1 -> ...

Each is a sum over records with Gaussian noise, on a lattice. What comes between follows from them alone.
"""

import math
from typing import NamedTuple

import numpy as np

from ...._linalg import inv, solve
from ....targets.linear.weighted import binned
from ..._machinery.execution import progress_bar, single_threaded_blas
from ..._machinery.lattice import release_vector
from ..._machinery.shards import total
from ..._paid_noise import free_shift
from ..._protocol import Released
from ...noise_aware.draws import settle
from ...noise_aware.plan import N_ROWS
from ...noise_aware.population import enough_rows
from ...noise_aware.scales import prior_of
from ..rows import RowReleases
from ..sums import release_sums
from .beliefs import Beliefs
from .centre import FIRST, Centre, centre_for
from .curvature import levelled, moment_given, share_given
from .dispersion import of_histogram
from .few_trials import evidence_of_few_trials
from .histogram import (
    count_edges,
    counts_seen,
    exposure_edges,
    log_exposures_seen,
    share_of_largest,
    typical_exposure,
)
from .population import count_population, split
from .posterior import CountPosterior

# How many rounds look for the likeliest prior scales before each look.
_ROUNDS = 3
# How many counts stand for those of the histogram.
_N_COUNTS = 4000
# What rounding can do to an exponential, or between nodes, in units of that of an inner product.
_OF_FUNCTION = 11.0


@single_threaded_blas()  # Blocks of rows are not worth more.
def run_counts(plan, target, generator, verbose):
    """Carry out a `ClippedCountsPlan`."""
    with progress_bar(plan.n_steps, plan.name, verbose) as advance:
        released = CountReleases(plan, target, generator, advance)
        released.look_around()
    posterior = released.posterior()
    other = {
        "second_moment": released.moment,
        "posterior": posterior,
        **released.shares,
        "dispersion": posterior.dispersion.value,
        "share_of_largest": share_of_largest(released.histograms[0], released.histogram_noise),
        "shortfall": released.beliefs.shortfall(),
        "few_trials": released.few_trials(),
        "excess_zeros": released.beliefs.excess_zeros(),
    }
    if released.typical_exposure is not None:
        other["typical_exposure"] = released.typical_exposure
    draws = posterior.draw(plan.n_draws, generator)
    return Released(draws, plan, {"unit": np.ones(plan.n_parameters)}, other)


class CountLook(NamedTuple):
    """What was released at a point.

    Attributes
    ----------
    point : ndarray of shape (length,)
    clip : float
    centre : Centre
        What was subtracted from counts.
    value : ndarray of shape (length,)
        Sums of rows times clipped residuals.
    noise : float
        Deviation of their noise.
    square, square_noise : float
        The mean square of clipped residuals, and the deviation of its noise.
    """

    point: np.ndarray
    clip: float
    centre: Centre
    value: np.ndarray
    noise: float
    square: float
    square_noise: float


class CountReleases(RowReleases):
    """What has been released.

    Parameters
    ----------
    plan : ClippedCountsPlan
    target : NamedTuple
        A linear model's target with counts as responses.
    generator : Generator
        Of the noise.
    advance : callable
        Called after every pass.
    """

    def __init__(self, plan, target, generator, advance=lambda: None):
        super().__init__(plan, target, generator, advance, 1.0)
        self.family = plan.bounds.family
        self.typical_exposure = None
        self._release_histograms()

    def _release_histograms(self):
        """Release which counts there are, and which exposures if there are any, and what is believed then."""
        n_rows = enough_rows(N_ROWS, self.coordinates.transform)
        # Post-processing.
        generator = np.random.default_rng(0)
        edges, offsets = count_edges(self.family.max_count), np.zeros(n_rows)
        of_counts, of_exposures, are_exposed = total(binned, self.table, edges, exposure_edges())
        # Without exposures counts have what is planned for both.
        multiplier = self.plan.size_multiplier * (1.0 if are_exposed else 0.5**0.5)
        noise = (
            self.largest * math.sqrt(self.moved) * self.coordinates.inflation_within(self.plan, 0.0)
        )
        noise /= free_shift(multiplier, max(of_counts.size, of_exposures.size))
        mu = 1.0 / multiplier
        of_counts = release_vector(of_counts, noise, self.generator, mu=mu)  # Proposition 76.
        self.histograms = [of_counts]
        self.histogram_noise = noise
        self.advance()
        if are_exposed:
            # Proposition 76.
            of_exposures = release_vector(of_exposures, noise, self.generator, mu=mu)
            self.histograms.append(of_exposures)
            seen = log_exposures_seen(of_exposures, noise, n_rows)
            self.typical_exposure = typical_exposure(of_exposures, noise, seen)
            # Post-processing.
            offsets = generator.permutation(seen)
        counts = counts_seen(of_counts, noise, self.family.max_count, _N_COUNTS)
        rate = max(counts.mean(), noise / self.n_records) / np.exp(offsets).mean()
        theta = np.zeros(len(self.coordinates.transform))
        constant = self.plan.bounds.constant
        if constant:
            theta[-1] = math.log(rate) / constant
        transform = self.coordinates.transform
        population, unknown = self._reshaped(
            count_population(
                self.design, self.coordinates, offsets, self.n_records, self.family, generator
            )
        )
        self.beliefs = Beliefs(
            population=population,
            unknown=unknown,
            transform=transform,
            constant=constant,
            prior=prior_of(self.plan.bounds, 1, self.table.prior_precision, transform),
            counts=counts,
            histogram=of_histogram(of_counts / self.n_records, noise / self.n_records, edges),
            start=solve(transform, theta),
        )

    def _reach(self, theta, logit):
        """Return what bounds the rounding of functions of logits with slopes up to 1 (Proposition 77).

        Parameters
        ----------
        theta : ndarray of shape (length,)
        logit : float
            Where logits are larger, or smaller than its opposite, functions stay.
        """
        longest = self.coordinates.row_norm * float(np.linalg.norm(theta))
        return 2.0 * (longest + 3.0 * max(1.0, logit) + _OF_FUNCTION)

    def _reshaped(self, population):
        """Release the weighted second moment, and return a population that has it, and what is not known."""
        plan, transform = self.plan, self.coordinates.transform
        matrix, noise = self.release_curvature()
        unknown = transform.T**2 @ self.design.uncertainty @ transform**2
        seen = unknown, matrix / self.n_records, noise / self.n_records
        along, constant = inv(transform)[:, -1], plan.bounds.constant
        flat, varying = split(population.moment, along, constant)
        varying = levelled(flat, varying, *seen)
        share = share_given(flat + varying, *seen)
        moment, unknown = moment_given(flat, varying, *seen)
        return population.reshaped(moment, share, along, constant, self.norm), unknown

    def release_look(self, clip, multipliers):
        """Release sums of clipped residuals at the mode."""
        point, transform = self.beliefs.start, self.coordinates.transform
        theta, largest = transform @ point, self.family.max_count
        centre = centre_for(clip, self.beliefs.dispersion.value, largest)
        reach = (
            self._reach(theta, max(-FIRST, centre.nodes[-1])) * max(centre.largest, largest) / clip
        )
        room = self.coordinates.inflation_within(self.plan, reach)
        value, noise, square, of_square = release_sums(
            self, theta, transform, clip, multipliers, room, centre
        )
        n = self.n_records
        self.beliefs.looks.append(
            CountLook(point, clip, centre, value, noise, square / n, of_square / n)
        )
        self.advance()

    def look_around(self):
        """Release looks at one mode after the other."""
        plan, beliefs = self.plan, self.beliefs
        pairs = zip(plan.look_multipliers, plan.square_multipliers, strict=True)
        reach = self.largest * self.moved * self.norm
        for pair in pairs:
            self.release_look(beliefs.clip(reach * pair[0]), pair)
            beliefs.learn(_ROUNDS)

    def few_trials(self):
        """Return the logarithm of how much likelier the histogram is if counts are of a few trials."""
        n, edges = self.n_records, count_edges(self.family.max_count)
        of_counts, logits = self.histograms[0] / n, self.beliefs.some_logits()
        return evidence_of_few_trials(of_counts, self.histogram_noise / n, edges, logits, n)

    def posterior(self):
        """Return the `CountPosterior` that all releases amount to."""
        beliefs = self.beliefs
        beliefs.settled = settle(beliefs.surrogate(), 2 * _ROUNDS)
        return CountPosterior(
            surrogate=beliefs.settled,
            transform=self.coordinates.transform,
            dispersion=beliefs.dispersion,
            deviations=beliefs.deviations_without_noise(),
        )
