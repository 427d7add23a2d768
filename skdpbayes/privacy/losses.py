"""Privacy loss distributions of all mechanisms, on one grid, and their composition.

A pair (P, Q) dominates a mechanism if its hockey-stick curve ``H(e) = sup_A P(A) - exp(e) Q(A)`` is above
that of any pair of neighbouring tables; dominating pairs compose, however mechanisms depend on earlier
results (Zhu, Dong and Wang, 2022). ``H`` is convex in ``exp(e)``: a curve that is known at a few points and
drawn straight between them is above it, and is that of a discrete loss (Doroshenko et al., 2022).
"""

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logsumexp, ndtr
from scipy.stats import binom, poisson

from .._jit import compilable, compiled
from .conversions import boundary, decimal_exact, round_down_delta, round_up

# What a decision of a Barker test, to accept or to reject, tells about one record.
#
# A proposal at distance ``M`` moves a record's tempered log likelihood by ``|u| <= a = c M / tau``,
# and the log-odds of its acceptance differ between neighbouring tables by at most ``eta``,
#
#     all records:     eta = 2 a                             (replace_one),   a           (add_or_remove_one)
#     Poisson batch:   eta = a (2 + r^2 / (1 + r))           (replace_one),   a (1 + r)   (add_or_remove_one)
#
# with ``r = n a / lambda_T`` at most ``sqrt(2)``: the batch has ``n a (1 + 1 / r)`` records on
# average.
#
# The decision is a bit. It is ``eta``-DP and ``eta^2 / 8``-zCDP, and the best that can be said of
# ``k`` of them, however each depends on those before, is the hockey-stick curve ``D_k`` of
#
#     D_0(e) = (1 - exp(e))_+,    D_{k+1}(e) = max over 0 <= s <= eta of
#                                              P_s D_k(e - s) + (1 - P_s) D_k(e - s + eta)
#
# where ``s`` and ``s - eta`` are the losses of a bit's two values and ``P_s`` is the probability of
# the first. The largest ``D_1`` is ``(exp(eta/2) - exp(e/2))^2 / (exp(eta) - 1)``, which no single
# pair of bits attains.
#
# Propositions 19 to 22 have the proofs. Barker (1965); Zhang, Cooper and De Sa (2020) for the
# batch; Dong, Durfee and Rogers (2020) for bounded ranges.


# The bounds above are proved up to here: a smaller batch would leak more than they say.
LARGEST_BATCH_RATIO = math.sqrt(2.0)
# Bits are put together exactly in blocks of so many; blocks compose as privacy loss distributions.
BLOCK_BITS = 64
# Blocks of a larger range have no curve: exponentials would overflow, and a pure epsilon says as much.
LARGEST_BLOCK_RANGE = 30.0
# Losses of a bit are rounded up to a grid of so many cells: 0.8% of the range.
_CELLS = 128


def accept_range(record_bound, batch_ratio, neighboring_relation):
    """The largest difference of the log-odds of an accept/reject decision between neighbouring tables.

    Parameters
    ----------
    record_bound : float or ndarray
        ``a``: what a record may add to the log ratio.
    batch_ratio : float or ndarray
        ``n a / lambda_T``; 0 is the full table.
    neighboring_relation : {"replace_one", "add_or_remove_one"}

    Returns
    -------
    log_odds_range : float or ndarray

    Raises
    ------
    ValueError
        If the batch is too small for the bound to be proved.
    """
    if not np.all((batch_ratio >= 0) & (batch_ratio <= LARGEST_BATCH_RATIO)):
        raise ValueError(
            f"batch_ratio must be between 0 and sqrt(2), got {batch_ratio}: raise batch_size, or lower "
            "step_size."
        )
    if neighboring_relation == "replace_one":
        return record_bound * (2.0 + batch_ratio**2 / (1.0 + batch_ratio))
    return record_bound * (1.0 + batch_ratio)


@compilable
def _first_probabilities(spacing, cells):
    """The probability of a bit's first value, for every cell that its loss may lie in."""
    # A loss between two points of the grid is dominated by the pair of the farther ones.
    first = np.empty(cells)
    for j in range(cells):
        above, below = (j + 1) * spacing, (j - cells) * spacing
        first[j] = math.expm1(below) / math.expm1(below - above)
    return first


def _extend_once(curve, log_odds_range, cells):
    """Perform one step of the recursion on the curve of no bit, without the compiler."""
    spacing = log_odds_range / cells
    middle = curve.size // 2
    first = _first_probabilities(spacing, cells)
    before = [-math.expm1((i - middle) * spacing) for i in range(-cells, 0)]
    known = np.concatenate([before, curve, np.zeros(cells)])
    points, losses = np.arange(curve.size)[:, None], np.arange(cells)
    loss = known[cells + points - (losses + 1)]
    gain = known[cells + points + cells - losses]
    return np.maximum(0.0, (first * loss + (1.0 - first) * gain).max(axis=1))


@compiled
def _extend(curve, log_odds_range, n_bits, cells):
    """Perform ``n_bits`` steps of the recursion on a curve over a grid of spacing ``range / cells``."""
    spacing = log_odds_range / cells
    middle = curve.size // 2
    first = _first_probabilities(spacing, cells)
    extended = curve.copy()
    for bit in range(n_bits):
        reach = min((bit + 1) * (cells + 1), middle)
        for i in range(middle - reach, middle + reach + 1):
            largest = 0.0
            for j in range(cells):
                low, high = i - (j + 1), i + cells - j
                loss = curve[low] if low >= 0 else -math.expm1((low - middle) * spacing)
                gain = curve[high] if high < curve.size else 0.0
                largest = max(largest, first[j] * loss + (1.0 - first[j]) * gain)
            extended[i] = largest
        # Assigning to a slice would compile the text of an error about shapes, for three seconds.
        for i in range(curve.size):
            curve[i] = extended[i]
    return curve


def accept_bits_curve(log_odds_range, n_bits):
    """The worst hockey-stick divergence of so many decisions, chosen adaptively.

    Parameters
    ----------
    log_odds_range : float
    n_bits : int

    Returns
    -------
    epsilons : ndarray of shape (n_points,)
        A grid; beyond its ends the curve is ``(1 - exp(epsilon))_+``.
    deltas : ndarray of shape (n_points,)
        At least the divergence at every point; lines between them (as functions of ``exp(epsilon)``)
        are above the curve, too.
    """
    spacing = log_odds_range / _CELLS
    reach = n_bits * (_CELLS + 1)
    epsilons = spacing * np.arange(-reach, reach + 1)
    start = np.maximum(0.0, -np.expm1(epsilons))
    if n_bits == 1:
        return epsilons, _extend_once(start, log_odds_range, _CELLS)
    return epsilons, _extend(start, log_odds_range, n_bits, _CELLS)


# Number of records' contributions by which the sums of two neighbours may differ, by the relation.
RELATIONS = {"replace_one": 2.0, "add_or_remove_one": 1.0}
_PERSON = "_person"
# The same for all rows of a person. Costs of one kind are not added to those of another.
PERSON_RELATIONS = {name + _PERSON: name for name in RELATIONS}


def between_persons(relation):
    """The relation between tables that differ in a person, of one between rows."""
    return relation + _PERSON


def between_rows(relation):
    """The relation between tables that differ in a row, of either kind."""
    return relation.removesuffix(_PERSON)


def relation_of(name):
    """Dp-accounting's relation."""
    from dp_accounting import NeighboringRelation

    return NeighboringRelation[between_rows(name).upper()]


def _pld():
    # Importing it takes nearly as long as all of this package.
    from dp_accounting import pld

    return pld


def sensitivity_factor(neighboring_relation):
    """Number of records' contributions the sums of two neighbours may differ by: 2 or 1."""
    return RELATIONS[neighboring_relation]


# A Poisson number beyond what is listed has less than this probability.
_POISSON_TAIL = 1e-30
# Losses that are larger with less than this probability count as infinite.
_UNLIKELY = 1e-22
# Least number of points at which a curve is known.
_FEWEST_CUTS = 4001
# Number of points times that of shifts of a curve: there are more points where shifts are few.
_CURVE_WORK = 300_000
# Largest rate of a Poisson number of times.
_LARGEST_RATE = 100.0
# Intervals of a grid; ten million take a tenth of a gigabyte.
_LARGEST_GRID = 1e7
# Largest sum of losses with batches: beyond, it says nothing, and needs a grid beyond memory.
_LARGEST_TOTAL = 1e6
# Most points of a grid: with more, a composition takes minutes.
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
        """Whether this is no mechanism."""
        return not (self.noise_multiplier > 0 and 0 < self.sampling_rate <= 1 and self.count >= 1)

    def moves(self, relation: str) -> tuple[float, float]:
        """(number of compositions, typical size of a loss) for the choice of a grid."""
        shift = sensitivity_factor(relation)
        return self.count, shift * self.sampling_rate / self.noise_multiplier

    def composed(self, relation: str, interval: float) -> Any:
        """The privacy loss distribution of all of them."""
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
        """Whether this is no mechanism, or one with rates beyond what is listed."""
        return not (
            self.noise_multiplier > 0 and 0 < self.rate <= _LARGEST_RATE and self.count >= 1
        )

    def moves(self, relation: str) -> tuple[float, float]:
        """(number of compositions, typical size of a loss) for the choice of a grid."""
        shift = sensitivity_factor(relation)
        spread = math.sqrt(
            min(self.rate, self.rate**2 * math.exp(min(self.noise_multiplier**-2, 700.0)))
        )
        return self.count, shift * spread / self.noise_multiplier

    def composed(self, relation: str, interval: float) -> Any:
        """The privacy loss distribution of all of them."""
        times = np.arange(int(20.0 * self.rate) + 80)
        times = times[poisson.sf(times - 1, self.rate) > _POISSON_TAIL]
        weights = poisson.pmf(times, self.rate)
        single = _of_noisy_counts(self.noise_multiplier, times, weights, relation, interval)
        return single.self_compose(self.count)


@dataclass(frozen=True, order=True)
class BoundedRangeDecisions:
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
        """Whether these are no bits."""
        return not (0 < self.log_odds_range < math.inf and self.count >= 1)

    @property
    def has_curve(self) -> bool:
        """Whether the range is moderate enough for a privacy loss distribution."""
        return self.log_odds_range * min(BLOCK_BITS, self.count) <= LARGEST_BLOCK_RANGE

    def moves(self, relation: str) -> tuple[float, float]:
        """(number of compositions, typical size of a loss) for the choice of a grid."""
        block = min(BLOCK_BITS, self.count)
        return math.ceil(self.count / block), self.log_odds_range * math.sqrt(block) / 2.0

    def composed(self, relation: str, interval: float) -> Any:
        """The privacy loss distribution of all of them."""
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
    """The curve of two laws whose likelihood ratio is monotone, from the half-lines it defines.

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
    """Losses on a grid whose curve is above the one that is drawn straight between the points."""
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
    """Whether the losses of some parts and of a ``mu``-GDP mechanism, of up to ``mu^2``, fit a grid."""
    moves = [
        part.moves(relation)
        for part in parts
        if isinstance(part, SampledGaussian | PoissonGaussian)
    ]
    totals = sum(count * spread * spread for count, spread in moves)
    return totals <= _LARGEST_TOTAL and mu**2 <= _LARGEST_GRID * _interval(parts, relation)


def fitting_interval(parts, mu, relation, largest=0.0):
    """The grid's interval for some parts and a ``mu``-GDP mechanism; pure ones lose ``largest``."""
    interval = _interval(parts, relation)
    # Losses spread so far; a grid of more points takes minutes, and is no use at this width.
    while max((mu + 20.0) * mu, largest) > _MOST_POINTS * interval:
        interval *= 10.0
    return interval


# Mechanisms that are known by a curve ``delta(epsilon)``: pure ones, and the best of several runs.
#
# Randomised response dominates all that is ``e``-private with delta 0, and is what a count with
# discrete Laplace noise amounts to:
#
#     delta(epsilon) = (exp(e) - exp(epsilon))_+ / (1 + exp(e)).
#
# Of ``K`` runs the best is released. With ``f`` the probability generating function of ``K``, and
# ``F`` the probability that a run is no better than some outcome, that outcome is ``f'(F)`` times as
# likely as from a single run (Papernot and Steinke, 2022). If ``f'(F) <= exp(c) f'(F')`` for all
# neighbours, then
#
#     delta(epsilon) <= E[K] delta_run(epsilon - c)        (Koskela, Redberg and Wang, 2024).
#
# For truncated negative binomial laws of shape ``s`` and parameter ``g``, ``c = (1 + s) e`` where
# ``delta_run(e) = (exp(e) - 1) g / (1 - g)``; for a Poisson law of mean ``m``,
# ``c = m delta_run(0)``.


# Largest loss of a curve; losses beyond count as infinite.
_LARGEST_CURVE_LOSS = 500.0
# Delta from which on a curve is not followed.
_CURVE_TAIL = 1e-25
# Number of points of a curve.
_POINTS = 4000


@dataclass(frozen=True, order=True)
class PureMechanism:
    """``count`` mechanisms that are private with delta 0.

    Attributes
    ----------
    level : float
        Epsilon of each of them.
    count : int, default=1
        Number of mechanisms.
    """

    level: float
    count: int = 1

    def invalid(self) -> bool:
        """Whether these are no mechanisms."""
        return not (0 < self.level < math.inf and self.count >= 1)

    @property
    def pure_epsilon(self) -> float:
        """Epsilon of all of them at delta 0."""
        return round_up(decimal_exact(self.level) * self.count)

    def delta(self, epsilon: float) -> float:
        """The delta of one of them."""
        return max(0.0, -math.expm1(epsilon - self.level)) / (1.0 + math.exp(-self.level))

    def epsilon(self, delta: float) -> float:
        """The epsilon of one of them."""
        if delta >= self.delta(0.0):
            return 0.0
        found = self.level + math.log1p(-delta * (1.0 + math.exp(-self.level)))
        # Rounding is up by two units of the level, in which the terms are rounded.
        return min(self.level, max(0.0, found + 2.0 * math.ulp(self.level)))

    def moves(self, relation: str) -> tuple[float, float]:
        """(number of compositions, typical size of a loss) for the choice of a grid."""
        return self.count, self.level

    def composed(self, relation: str, interval: float) -> Any:
        """The privacy loss distribution of all of them."""
        if self.count > 1 or self.level > _LARGEST_LOSS:
            return self._of_binomial(interval)
        ends = np.array([-self.level, self.level])
        return _from_curve(ends, np.array([-math.expm1(-self.level), 0.0]), interval)

    def _of_binomial(self, interval):
        """The losses of all answers of randomised response at once: a binomial number is honest."""
        honest = binom(self.count, expit(self.level))
        # Beyond, losses count as infinite; below, as the least that is kept.
        least, most = int(honest.ppf(_CURVE_TAIL)), int(honest.isf(_CURVE_TAIL))
        numbers = np.arange(least, most + 1)
        masses = honest.pmf(numbers)
        masses[0] += honest.cdf(least - 1)
        return _from_atoms(
            self.level * (2.0 * numbers - self.count), masses, honest.sf(most), interval
        )


@dataclass(frozen=True)
class SelectedRun:
    """The best of a random number of independent runs. Neither the other runs nor their number is released.

    Parameters
    ----------
    costs : tuple of PrivacyCost
        Cost of a run for the records of each of several disjoint parts of the table. The largest counts.
    mean_runs : float, default=1.0
        Expected number of runs; 1 is a single run.
    shape : float, default=1.0
        Shape of the truncated negative binomial distribution of the number of runs: 0 is logarithmic, 1
        geometric, and ``inf`` a Poisson distribution that is at least 1.
    count : int, default=1
        Number of such selections.
    """

    costs: tuple
    mean_runs: float = 1.0
    shape: float = 1.0
    count: int = 1

    def __lt__(self, other):
        return repr(self) < repr(other)

    def invalid(self) -> bool:
        """Whether this is no selection."""
        in_range = 1 <= self.mean_runs < math.inf and self.shape >= 0 and self.count >= 1
        return not (in_range and len({cost.neighboring_relation for cost in self.costs}) == 1)

    @property
    def law(self) -> float:
        """Parameter of the law of the number of runs: ``g``, or the Poisson law's mean."""
        return number_law(self.mean_runs, self.shape)

    @cached_property
    def shifts(self):
        """``c`` for each of the costs: by how much the choice may enlarge a run's losses."""
        return tuple(self._shift(cost) for cost in self.costs)

    def _shift(self, cost):
        if self.mean_runs == 1:
            return 0.0
        if math.isinf(self.shape):
            return self.law * cost.delta(0.0)
        odds = self.law / (1.0 - self.law)

        def bounds_choice(e):
            return cost.delta(e) <= odds * math.expm1(e)

        if not bounds_choice(_LARGEST_CURVE_LOSS):
            return math.inf
        return (1.0 + self.shape) * boundary(bounds_choice, 0.0, _LARGEST_CURVE_LOSS, 1e-10)

    @property
    def pure_epsilon(self) -> float:
        """Epsilon of all selections at delta 0."""
        return self.count * self.epsilon(0.0)

    def delta(self, epsilon: float) -> float:
        """The delta of one selection."""
        return max(
            min(1.0, self.mean_runs * cost.delta(epsilon - shift)) if epsilon >= shift else 1.0
            for cost, shift in zip(self.costs, self.shifts, strict=True)
        )

    def epsilon(self, delta: float) -> float:
        """The epsilon of one selection; ``inf`` where there is none."""
        share = round_down_delta(delta / self.mean_runs)
        return max(
            shift + cost.epsilon(share) for cost, shift in zip(self.costs, self.shifts, strict=True)
        )

    def moves(self, relation: str) -> tuple[float, float]:
        """(number of compositions, typical size of a loss) for the choice of a grid."""
        return self.count, max(self.epsilon(0.1), 1e-3)

    def composed(self, relation: str, interval: float) -> Any:
        """The privacy loss distribution of all of them."""
        epsilons, deltas = self._curve()
        return _from_curve(epsilons, deltas, interval).self_compose(self.count)

    def _curve(self):
        """Points of a convex symmetric curve above ``delta``, as `accept_bits_curve` does."""
        last = min(self.epsilon(_CURVE_TAIL), _LARGEST_CURVE_LOSS)
        epsilons = np.linspace(0.0, last, _POINTS)
        deltas = np.array([self.delta(epsilon) for epsilon in epsilons])
        # From the touching point of the steepest symmetric line on: below, the curve is not convex.
        first = np.argmax((1.0 - deltas) / (1.0 + np.exp(epsilons)))
        epsilons, deltas = epsilons[first:], deltas[first:]
        mirrored = -np.expm1(-epsilons) + np.exp(-epsilons) * deltas
        return np.append(-epsilons[::-1], epsilons), np.append(mirrored[::-1], deltas)


@lru_cache(maxsize=256)
def number_law(mean, shape):
    """The parameter of the law of the number of runs: ``g``, or the Poisson law's mean."""
    if mean == 1:
        return 0.0 if math.isinf(shape) else 1.0
    if math.isinf(shape):
        return brentq(lambda m: m / -math.expm1(-m) - mean, 1e-12, mean)

    def excess(log_g):
        g = math.exp(log_g)
        if shape == 0:
            return math.expm1(-log_g) / -log_g - mean
        return shape * (1.0 - g) / (g * -math.expm1(shape * log_g)) - mean

    return math.exp(brentq(excess, -60.0, -1e-9, xtol=1e-14))


# The privacy loss distribution of many parts, to which one more is added at little cost.
#
#     T(S) = T(S_0) * T(S_1),      S_b the parts of S whose digests go on with the bit b,
#
# where ``*`` is dp-accounting's composition and a set of a single part is that part's own
# distribution. The tree depends on what is in it, never on the order in which it came, so that equal
# costs have equal epsilons; and since subsets are kept, a set of ``N`` parts with one more takes a
# composition for each of some ``log2(N)`` levels, most of them of few parts.


# Bytes of distributions that are kept.
_CACHE_BYTES = 2**27
_DIGEST_BITS = 256


class _Kept:
    """Distributions by what they are of, the latest ones, up to a number of bytes."""

    def __init__(self, capacity):
        self.capacity, self.used = capacity, 0
        self._found: OrderedDict = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key):
        """The distribution that is kept for a key, or None."""
        with self._lock:
            entry = self._found.get(key)
            if entry is not None:
                self._found.move_to_end(key)
                return entry[0]
        return None

    def put(self, key, losses):
        """Keep a distribution, and forget those that were not asked for longest."""
        size = 8 * (len(key[0]) + sum(getattr(pmf, "size", 0) for pmf in vars(losses).values()))
        with self._lock:
            if key not in self._found and size <= self.capacity:
                self._found[key] = losses, size
                self.used += size
            while self.used > self.capacity:
                _, (_, freed) = self._found.popitem(last=False)
                self.used -= freed


_kept = _Kept(_CACHE_BYTES)


@lru_cache(maxsize=2**14)
def _digest(part):
    """Bits that are those of a kind of mechanism in every process, however often it occurs."""
    text = repr(replace(part, count=1))
    return int.from_bytes(hashlib.sha256(text.encode()).digest())


def _of_parts(parts, relation, interval, level=0):
    """The distribution of some parts whose digests agree in their first bits, so many."""
    key = parts, relation, interval
    losses = _kept.get(key)
    if losses is None:
        losses = _composed(parts, relation, interval, level)
        _kept.put(key, losses)
    return losses


def _composed(parts, relation, interval, level):
    if len(parts) == 1:
        return parts[0].composed(relation, interval)
    halves: tuple[list, list] = ([], [])
    while not all(halves) and level < _DIGEST_BITS:
        halves = [], []
        for part in parts:
            halves[_digest(part) >> (_DIGEST_BITS - 1 - level) & 1].append(part)
        level += 1
    if not all(halves):  # Of one digest, if there ever are any.
        halves = list(parts[:1]), list(parts[1:])
    first, second = (_of_parts(tuple(half), relation, interval, level) for half in halves)
    return first.compose(second)


@lru_cache(maxsize=64)
def compose_losses(parts: Sequence[Any], mu: float, relation: str) -> Any:
    """The privacy loss distribution of some parts and of a ``mu``-GDP mechanism.

    Parameters
    ----------
    parts : tuple of SampledGaussian, PoissonGaussian, BoundedRangeDecisions, PureMechanism or SelectedRun
        At least one.
    mu : float
    relation : {"replace_one", "add_or_remove_one"}

    Returns
    -------
    distribution : dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
    """
    largest = sum(part.pure_epsilon for part in parts if isinstance(part, PureMechanism))
    interval = fitting_interval(parts, mu, relation, largest)
    total = _of_parts(tuple(parts), relation, interval)
    if mu > 0:
        gaussian = _pld().privacy_loss_distribution.from_gaussian_mechanism(
            1.0 / mu, value_discretization_interval=interval
        )
        total = total.compose(gaussian)
    return total
