"""Privacy loss distributions of what samplers do, all on one grid; `composition` composes them.

A pair (P, Q) dominates a mechanism if its hockey-stick curve ``H(e) = sup_A P(A) - exp(e) Q(A)`` is above
that of any pair of neighbouring tables; dominating pairs compose, however mechanisms depend on earlier
results (Zhu, Dong and Wang, 2022). ``H`` is convex in ``exp(e)``: a curve that is known at a few points and
drawn straight between them is above it, and is that of a discrete loss (Doroshenko et al., 2022).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr
from scipy.stats import poisson

from .accept_bits import BLOCK_BITS, LARGEST_BLOCK_RANGE, accept_bits_curve

RELATIONS = {"replace_one": "REPLACE_ONE", "add_or_remove_one": "ADD_OR_REMOVE_ONE"}
_PERSON = "_person"
# The same for all rows of a person. Costs of one kind are not added to those of another.
PERSON_RELATIONS = {name + _PERSON: relation for name, relation in RELATIONS.items()}


def between_persons(relation):
    """Return the relation between tables that differ in a person, of one between rows."""
    return relation + _PERSON


def between_rows(relation):
    """Return the relation between tables that differ in a row, of either kind."""
    return relation.removesuffix(_PERSON)


def relation_of(name):
    """Return dp-accounting's relation."""
    from dp_accounting import NeighboringRelation

    return NeighboringRelation[{**RELATIONS, **PERSON_RELATIONS}[name]]


def _pld():
    # Importing it takes nearly as long as all of this package.
    from dp_accounting import pld

    return pld


def records_moved(neighboring_relation):
    """Return how many records' contributions the sums of two neighbours may differ by: 2 or 1."""
    return {"replace_one": 2.0, "add_or_remove_one": 1.0}[neighboring_relation]


# A Poisson number beyond what is listed has less than this probability.
_NEGLIGIBLE = 1e-30
# Losses that are larger with less than this probability count as infinite.
_UNLIKELY = 1e-22
# A curve is known at so many points at least, and at more where their shifts are few.
_FEWEST_CUTS = 4001
_CURVE_WORK = 300_000
_LARGEST_RATE = 100.0
# Intervals of a grid; ten million take a tenth of a gigabyte.
_LARGEST_GRID = 1e7
# Of a sum of losses with batches: it says nothing, and needs a grid beyond memory.
_LARGEST_TOTAL = 1e6
_MOST_POINTS = 2e6
# Larger losses have exponentials that are no doubles, or whose inverses are none.
_LARGEST_LOSS = 300.0


@dataclass(frozen=True, order=True)
class SampledGaussian:
    """``count`` Poisson-subsampled Gaussian mechanisms.

    Attributes
    ----------
    noise_multiplier : float
        Standard deviation of the noise, relative to the bound on one record's contribution.
    sampling_rate : float
        Probability that a record takes part.
    count : int
        Number of decisions or mechanisms.
    """

    noise_multiplier: float
    sampling_rate: float
    count: int

    def invalid(self) -> bool:
        """Tell whether this is no mechanism."""
        return not (self.noise_multiplier > 0 and 0 < self.sampling_rate <= 1 and self.count >= 1)

    def moves(self, relation: str) -> tuple[float, float]:
        """Return (number of compositions, typical size of a loss) for the choice of a grid."""
        shift = records_moved(relation)
        return self.count, shift * self.sampling_rate / self.noise_multiplier

    def composed(self, relation: str, interval: float) -> Any:
        """Return the privacy loss distribution of all of them."""
        return (
            _pld()
            .privacy_loss_distribution.from_gaussian_mechanism(
                self.noise_multiplier,
                sampling_prob=self.sampling_rate,
                value_discretization_interval=interval,
                neighboring_relation=relation_of(relation),
            )
            .self_compose(self.count)
        )


@dataclass(frozen=True, order=True)
class PoissonGaussian:
    """``count`` Gaussian mechanisms on sums in which a record counts a Poisson number of times.

    Attributes
    ----------
    noise_multiplier : float
        Standard deviation of the noise, relative to the bound on what a record adds each time.
    rate : float
        Upper bound on how often a record counts, on average.
    count : int
        Number of decisions or mechanisms.
    """

    noise_multiplier: float
    rate: float
    count: int

    def invalid(self) -> bool:
        """Tell whether this is no mechanism, or one with rates beyond what is listed."""
        return not (
            self.noise_multiplier > 0 and 0 < self.rate <= _LARGEST_RATE and self.count >= 1
        )

    def moves(self, relation: str) -> tuple[float, float]:
        """Return (number of compositions, typical size of a loss) for the choice of a grid."""
        shift = records_moved(relation)
        spread = math.sqrt(
            min(self.rate, self.rate**2 * math.exp(min(self.noise_multiplier**-2, 700.0)))
        )
        return self.count, shift * spread / self.noise_multiplier

    def composed(self, relation: str, interval: float) -> Any:
        """Return the privacy loss distribution of all of them."""
        times = np.arange(int(20.0 * self.rate) + 80)
        times = times[poisson.sf(times - 1, self.rate) > _NEGLIGIBLE]
        weights = poisson.pmf(times, self.rate)
        one = _of_noisy_counts(self.noise_multiplier, times, weights, relation, interval)
        return one.self_compose(self.count)


@dataclass(frozen=True, order=True)
class AcceptBits:
    """``count`` accept/reject decisions, each of which may depend on earlier ones.

    A choice among more than two outcomes costs as much as a bit of the same range.

    Attributes
    ----------
    log_odds_range : float
        How far the log-odds of a bit, or of any two outcomes of a choice, may differ between neighbouring
        tables.
    count : int
        Number of decisions or mechanisms.
    """

    log_odds_range: float
    count: int

    def invalid(self) -> bool:
        """Tell whether these are no bits."""
        return not (0 < self.log_odds_range < math.inf and self.count >= 1)

    @property
    def has_curve(self) -> bool:
        """Whether the range is moderate enough for a privacy loss distribution."""
        return self.log_odds_range * min(BLOCK_BITS, self.count) <= LARGEST_BLOCK_RANGE

    def moves(self, relation: str) -> tuple[float, float]:
        """Return (number of compositions, typical size of a loss) for the choice of a grid."""
        block = min(BLOCK_BITS, self.count)
        return math.ceil(self.count / block), self.log_odds_range * math.sqrt(block) / 2.0

    def composed(self, relation: str, interval: float) -> Any:
        """Return the privacy loss distribution of all of them."""
        total = None
        blocks, rest = divmod(self.count, BLOCK_BITS)
        for n_bits, times in ((BLOCK_BITS, blocks), (rest, 1)):
            if n_bits and times:
                epsilons, deltas = accept_bits_curve(self.log_odds_range, n_bits)
                block = _from_curve(epsilons, deltas, interval)
                part = block.self_compose(times)
                total = part if total is None else total.compose(part)
        return total


def _of_noisy_counts(noise, times, weights, relation, interval):
    """Build the distribution of a Poisson number of shifts, under Gaussian noise.

    Under ``replace_one`` they go up in one table and down in the other; under ``add_or_remove_one`` one of
    the tables has none, and it matters which.
    """
    lowest = -times[-1] if relation == "replace_one" else 0
    n_cuts = max(_FEWEST_CUTS, _CURVE_WORK // times.size)
    cuts = np.linspace(lowest - 12.0 * noise, times[-1] + 12.0 * noise, n_cuts)
    none, once = np.zeros(1), np.ones(1)
    high = times, weights
    low = (-times, weights) if relation == "replace_one" else (none, once)
    losses = _log_density(cuts, noise, *high) - _log_density(cuts, noise, *low)
    # Beyond, exponentials would overflow; what is left there counts as an infinite loss.
    kept = np.abs(losses) <= _LARGEST_LOSS
    cuts, losses = cuts[kept], losses[kept]
    above = [_probability_above(cuts, noise, *law) for law in (high, low)]
    epsilons, deltas = _curve_of_cuts(losses, *above)
    pmf = _pmf_of_curve(epsilons, deltas, interval)
    if relation == "replace_one":
        return _pld().privacy_loss_distribution.PrivacyLossDistribution(pmf)
    below = [_probability_above(-cuts, noise, -shifts, w) for shifts, w in (low, high)]
    epsilons, deltas = _curve_of_cuts(-losses, *below)
    return _pld().privacy_loss_distribution.PrivacyLossDistribution(
        pmf, _pmf_of_curve(epsilons, deltas, interval)
    )


def _log_density(cuts, noise, shifts, weights):
    log_weights = np.log(np.maximum(weights, 1e-300))
    distances = (cuts[:, None] - shifts) / noise
    return logsumexp(log_weights - distances**2 / 2.0, axis=1)


def _probability_above(cuts, noise, shifts, weights):
    return ndtr((shifts - cuts[:, None]) / noise) @ weights


def _curve_of_cuts(losses, first, second):
    """Return the curve of two laws whose likelihood ratio is monotone, from the half-lines it defines.

    Parameters
    ----------
    losses : ndarray of shape (n_cuts,)
        Log likelihood ratios at the ends of half-lines.
    first, second : ndarray of shape (n_cuts,)
        Probabilities of the half-lines on which the ratio is larger, under either law.
    """
    deltas = first - np.exp(losses) * second
    deltas = np.clip(deltas, np.maximum(0.0, -np.expm1(losses)), 1.0)
    losses, kept = np.unique(losses, return_index=True)
    deltas = np.minimum.accumulate(deltas[kept])
    # What is left of the last point counts as an infinite loss.
    last = np.searchsorted(-deltas, -_UNLIKELY) + 1
    return losses[:last], deltas[:last]


def _from_curve(epsilons, deltas, interval):
    """Build the distribution of a symmetric pair from points of its curve."""
    return _pld().privacy_loss_distribution.PrivacyLossDistribution(
        _pmf_of_curve(epsilons, deltas, interval)
    )


def _from_atoms(losses, masses, infinite, interval):
    """Build the distribution of a symmetric pair from the losses that it takes.

    Each is replaced by the two points of the grid around it, with the same probability under either law, as
    the straight line between these does to a curve.
    """
    places = np.floor(losses / interval).astype(np.int64)
    first, above = int(places[0]), losses - places * interval
    upper = masses * np.clip(np.expm1(-above) / np.expm1(-interval), 0.0, 1.0)
    probabilities = np.zeros(int(places[-1]) - first + 2)
    np.add.at(probabilities, places - first, masses - upper)
    np.add.at(probabilities, places - first + 1, upper)
    return _pld().privacy_loss_distribution.PrivacyLossDistribution(
        _pld().pld_pmf.DensePLDPmf(interval, first, probabilities, float(infinite), True)
    )


def _pmf_of_curve(epsilons, deltas, interval):
    """Return losses on a grid whose curve is above the one that is drawn straight between the points."""
    first, last = math.floor(epsilons[0] / interval) - 1, math.ceil(epsilons[-1] / interval) + 1
    grid = interval * np.arange(first, last + 1)
    values = np.interp(np.exp(grid), np.exp(epsilons), deltas)
    values[grid < epsilons[0]] = -np.expm1(grid[grid < epsilons[0]])
    values = np.minimum.accumulate(np.clip(values, 0.0, 1.0))
    pmf = _pld().pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        interval, first, last, values
    )
    # A short one comes as a dict, which takes its length to the power of how often it is composed.
    return pmf.to_dense_pmf()


def _interval(parts, relation):
    # The interval must resolve the loss of one composition, or rounding it at each of them would
    # dominate: at a sixth, epsilon is 0.3% too large. It is 1, 2 or 5 times a power of ten.
    moves = [part.moves(relation) for part in parts]
    total = sum(count for count, _ in moves)
    squares = sum(count * size**2 for count, size in moves)
    wanted = min(max(math.sqrt(squares / total) / 6.0, 1e-5), 1e-3)
    decade = 10.0 ** math.floor(math.log10(wanted) + 1e-9)
    return decade * max(m for m in (1.0, 2.0, 5.0) if m * decade <= wanted * (1 + 1e-9))


def has_grid(parts, mu, relation):
    """Tell whether the losses of some parts and of a ``mu``-GDP mechanism, of up to ``mu^2``, fit a grid."""
    moves = [
        part.moves(relation)
        for part in parts
        if isinstance(part, SampledGaussian | PoissonGaussian)
    ]
    totals = sum(count * spread * spread for count, spread in moves)
    return totals <= _LARGEST_TOTAL and mu**2 <= _LARGEST_GRID * _interval(parts, relation)


def fitting_interval(parts, mu, relation, largest=0.0):
    """Return the grid's interval for some parts and a ``mu``-GDP mechanism; pure ones lose ``largest``."""
    interval = _interval(parts, relation)
    # Losses spread so far; a grid of more points takes minutes, and is no use at this width.
    while max((mu + 20.0) * mu, largest) > _MOST_POINTS * interval:
        interval *= 10.0
    return interval
