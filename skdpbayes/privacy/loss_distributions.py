"""Privacy loss distributions of what samplers do, all on one grid, composed by dp-accounting.

A pair (P, Q) dominates a mechanism if its hockey-stick curve ``H(e) = sup_A P(A) - exp(e) Q(A)`` is above
that of any pair of neighbouring tables; dominating pairs compose, however mechanisms depend on earlier
results (Zhu, Dong and Wang, 2022). ``H`` is convex in ``exp(e)``: a curve that is known at a few points and
drawn straight between them is above it, and is that of a discrete loss (Doroshenko et al., 2022).
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from dp_accounting import NeighboringRelation
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_distribution import (
    PrivacyLossDistribution,
    from_gaussian_mechanism,
    from_mixture_gaussian_mechanism,
)
from scipy.special import logsumexp, ndtr
from scipy.stats import poisson

from .accept_bits import BLOCK_BITS, LARGEST_BLOCK_RANGE, accept_bits_curve

RELATIONS = {
    "replace_one": NeighboringRelation.REPLACE_ONE,
    "add_or_remove_one": NeighboringRelation.ADD_OR_REMOVE_ONE,
}
# A Poisson number beyond what is listed has less than this probability.
_NEGLIGIBLE = 1e-30
_CURVE_POINTS = 4001
_LARGEST_RATE = 100.0
_LARGEST_LOSS = 300.0


@dataclass(frozen=True, order=True)
class SampledGaussian:
    """``count`` Poisson-subsampled Gaussian mechanisms.

    Attributes
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the bound on one record's contribution.
    sampling_rate : float
        Probability that a record takes part.
    count : int
        How many of them.
    """

    noise_multiplier: float
    sampling_rate: float
    count: int

    def invalid(self):
        """Tell whether this is no mechanism."""
        return not (self.noise_multiplier > 0 and 0 < self.sampling_rate <= 1 and self.count >= 1)

    def moves(self, relation):
        """Return (number of compositions, typical size of a loss) for the choice of a grid."""
        shift = 2.0 if relation == "replace_one" else 1.0
        return self.count, shift * self.sampling_rate / self.noise_multiplier

    def composed(self, relation, interval):
        """Return the privacy loss distribution of all of them."""
        return from_gaussian_mechanism(
            self.noise_multiplier,
            sampling_prob=self.sampling_rate,
            value_discretization_interval=interval,
            neighboring_relation=RELATIONS[relation],
        ).self_compose(self.count)


@dataclass(frozen=True, order=True)
class PoissonGaussian:
    """``count`` Gaussian mechanisms on sums in which a record counts a Poisson number of times.

    Attributes
    ----------
    noise_multiplier : float
        Standard deviation of the noise over the bound on what a record adds each time.
    rate : float
        How often a record counts, on average, at most.
    count : int
        How many of them.
    """

    noise_multiplier: float
    rate: float
    count: int

    def invalid(self):
        """Tell whether this is no mechanism, or one with rates beyond what is listed."""
        return not (
            self.noise_multiplier > 0 and 0 < self.rate <= _LARGEST_RATE and self.count >= 1
        )

    def moves(self, relation):
        """Return (number of compositions, typical size of a loss) for the choice of a grid."""
        shift = 2.0 if relation == "replace_one" else 1.0
        spread = math.sqrt(min(self.rate, self.rate**2 * math.exp(self.noise_multiplier**-2)))
        return self.count, shift * spread / self.noise_multiplier

    def composed(self, relation, interval):
        """Return the privacy loss distribution of all of them."""
        times = np.arange(int(20.0 * self.rate) + 80)
        times = times[poisson.sf(times - 1, self.rate) > _NEGLIGIBLE]
        weights = poisson.pmf(times, self.rate)
        if relation == "add_or_remove_one":
            one = from_mixture_gaussian_mechanism(
                self.noise_multiplier,
                times.astype(float),
                weights / weights.sum(),
                value_discretization_interval=interval,
            )
        else:
            one = _from_curve(*_opposite_curve(self.noise_multiplier, times, weights), interval)
        return one.self_compose(self.count)


@dataclass(frozen=True, order=True)
class AcceptBits:
    """``count`` accept bits, each free to depend on those before it.

    Attributes
    ----------
    log_odds_range : float
        By how much the log-odds of a bit may differ between neighbouring tables.
    count : int
        How many of them.
    """

    log_odds_range: float
    count: int

    def invalid(self):
        """Tell whether these are no bits."""
        return not (0 < self.log_odds_range < math.inf and self.count >= 1)

    @property
    def has_curve(self):
        """Whether the range is moderate enough for a privacy loss distribution."""
        return self.log_odds_range * min(BLOCK_BITS, self.count) <= LARGEST_BLOCK_RANGE

    def moves(self, relation):
        """Return (number of compositions, typical size of a loss) for the choice of a grid."""
        block = min(BLOCK_BITS, self.count)
        return math.ceil(self.count / block), self.log_odds_range * math.sqrt(block) / 2.0

    def composed(self, relation, interval):
        """Return the privacy loss distribution of all of them."""
        total = None
        blocks, rest = divmod(self.count, BLOCK_BITS)
        for n_bits, times in ((BLOCK_BITS, blocks), (rest, 1)):
            if n_bits and times:
                block = _from_curve(*accept_bits_curve(self.log_odds_range, n_bits), interval)
                part = block.self_compose(times)
                total = part if total is None else total.compose(part)
        return total


def _opposite_curve(noise, times, weights):
    """Curve of sums of Poisson many shifts up against as many down, under Gaussian noise.

    The likelihood ratio rises with the sum, so the sets that tell the two apart are half-lines.
    """
    reach = times[-1] + 12.0 * noise
    cuts = np.linspace(-reach, reach, _CURVE_POINTS)[:, None]
    log_weights = np.log(np.maximum(weights, 1e-300))
    up = logsumexp(log_weights - (cuts - times) ** 2 / (2 * noise**2), axis=1)
    down = logsumexp(log_weights - (cuts + times) ** 2 / (2 * noise**2), axis=1)
    # Beyond, exponentials would overflow; what is left there counts as an infinite loss.
    kept = np.abs(up - down) <= _LARGEST_LOSS
    cuts, epsilons = cuts[kept], (up - down)[kept]
    above = ndtr((times - cuts) / noise) @ weights
    below = ndtr((-times - cuts) / noise) @ weights
    deltas = np.clip(above - np.exp(epsilons) * below, np.maximum(0.0, -np.expm1(epsilons)), 1.0)
    epsilons, kept = np.unique(epsilons, return_index=True)
    return epsilons, np.minimum.accumulate(deltas[kept])


def _from_curve(epsilons, deltas, interval):
    """Build the distribution of a symmetric pair from points of its curve."""
    reach = math.ceil(epsilons[-1] / interval) + 1
    grid = interval * np.arange(-reach, reach + 1)
    values = np.interp(np.exp(grid), np.exp(epsilons), deltas)
    values[grid < epsilons[0]] = -np.expm1(grid[grid < epsilons[0]])
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
        interval, -reach, reach, np.minimum.accumulate(np.clip(values, 0.0, 1.0))
    )
    return PrivacyLossDistribution(pmf)


def _interval(parts, relation):
    # The interval must resolve the loss of one composition, or rounding it at each of them would
    # dominate: at a sixth, epsilon is 0.3% too large. It is 1, 2 or 5 times a power of ten.
    moves = [part.moves(relation) for part in parts]
    total = sum(count for count, _ in moves)
    squares = sum(count * size**2 for count, size in moves)
    wanted = min(max(math.sqrt(squares / total) / 6.0, 1e-5), 1e-3)
    decade = 10.0 ** math.floor(math.log10(wanted) + 1e-9)
    return decade * max(m for m in (1.0, 2.0, 5.0) if m * decade <= wanted * (1 + 1e-9))


@lru_cache(maxsize=64)
def compose_losses(parts, mu, relation):
    """Return the privacy loss distribution of some parts and of a ``mu``-GDP mechanism.

    Parameters
    ----------
    parts : tuple of SampledGaussian, PoissonGaussian or AcceptBits
        At least one.
    mu : float
    relation : {"replace_one", "add_or_remove_one"}

    Returns
    -------
    distribution : dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
    """
    interval = _interval(parts, relation)
    total = None
    for part in parts:
        losses = part.composed(relation, interval)
        total = losses if total is None else total.compose(losses)
    if mu > 0:
        gaussian = from_gaussian_mechanism(1.0 / mu, value_discretization_interval=interval)
        total = total.compose(gaussian)
    return total
