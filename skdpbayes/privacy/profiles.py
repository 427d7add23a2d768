"""Mechanisms that are known by a curve ``delta(epsilon)``: pure ones, and the best of several runs.

Randomised response dominates all that is ``e``-private with delta 0, and is what a count with discrete
Laplace noise amounts to:

    delta(epsilon) = (exp(e) - exp(epsilon))_+ / (1 + exp(e)).

Of ``K`` runs the best is released. With ``f`` the probability generating function of ``K``, and ``F`` the
probability that a run is no better than some outcome, that outcome is ``f'(F)`` times as likely as from a
single run (Papernot and Steinke, 2022). If ``f'(F) <= exp(c) f'(F')`` for all neighbours, then

    delta(epsilon) <= E[K] delta_run(epsilon - c)        (Koskela, Redberg and Wang, 2024).

For truncated negative binomial laws of shape ``s`` and parameter ``g``, ``c = (1 + s) e`` where
``delta_run(e) = (exp(e) - 1) g / (1 - g)``; for a Poisson law of mean ``m``, ``c = m delta_run(0)``.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import binom

from .deltas import rounded_down
from .loss_distributions import _LARGEST_LOSS, _from_atoms, _from_curve
from .root_finding import boundary
from .written import as_written, least_above

# No curve is followed farther; what is left there counts as an infinite loss.
_FARTHEST = 500.0
_NEGLIGIBLE = 1e-25
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
        """Tell whether these are no mechanisms."""
        return not (0 < self.level < math.inf and self.count >= 1)

    @property
    def pure_epsilon(self) -> float:
        """Epsilon of all of them at delta 0."""
        return least_above(as_written(self.level) * self.count)

    def delta(self, epsilon: float) -> float:
        """Return the delta of one of them."""
        return max(0.0, -math.expm1(epsilon - self.level)) / (1.0 + math.exp(-self.level))

    def epsilon(self, delta: float) -> float:
        """Return the epsilon of one of them."""
        if delta >= self.delta(0.0):
            return 0.0
        found = self.level + math.log1p(-delta * (1.0 + math.exp(-self.level)))
        # Rounding is up by two units of the level, in which the terms are rounded.
        return min(self.level, max(0.0, found + 2.0 * math.ulp(self.level)))

    def moves(self, relation: str) -> tuple[float, float]:
        """Return (number of compositions, typical size of a loss) for the choice of a grid."""
        return self.count, self.level

    def composed(self, relation: str, interval: float) -> Any:
        """Return the privacy loss distribution of all of them."""
        if self.count > 1 or self.level > _LARGEST_LOSS:
            return self._of_binomial(interval)
        ends = np.array([-self.level, self.level])
        return _from_curve(ends, np.array([-math.expm1(-self.level), 0.0]), interval)

    def _of_binomial(self, interval):
        """Return the losses of all answers of randomised response at once: a binomial number is honest."""
        honest = binom(self.count, expit(self.level))
        # Beyond, losses count as infinite; below, as the least that is kept.
        least, most = int(honest.ppf(_NEGLIGIBLE)), int(honest.isf(_NEGLIGIBLE))
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
        """Tell whether this is no selection."""
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

        if not bounds_choice(_FARTHEST):
            return math.inf
        return (1.0 + self.shape) * boundary(bounds_choice, 0.0, _FARTHEST, 1e-10)

    @property
    def pure_epsilon(self) -> float:
        """Epsilon of all selections at delta 0."""
        return self.count * self.epsilon(0.0)

    def delta(self, epsilon: float) -> float:
        """Return the delta of one selection."""
        return max(
            min(1.0, self.mean_runs * cost.delta(epsilon - shift)) if epsilon >= shift else 1.0
            for cost, shift in zip(self.costs, self.shifts, strict=True)
        )

    def epsilon(self, delta: float) -> float:
        """Return the epsilon of one selection; ``inf`` where there is none."""
        share = rounded_down(delta / self.mean_runs)
        return max(
            shift + cost.epsilon(share) for cost, shift in zip(self.costs, self.shifts, strict=True)
        )

    def moves(self, relation: str) -> tuple[float, float]:
        """Return (number of compositions, typical size of a loss) for the choice of a grid."""
        return self.count, max(self.epsilon(0.1), 1e-3)

    def composed(self, relation: str, interval: float) -> Any:
        """Return the privacy loss distribution of all of them."""
        epsilons, deltas = self._curve()
        return _from_curve(epsilons, deltas, interval).self_compose(self.count)

    def _curve(self):
        """Return points of a convex symmetric curve above ``delta``, as `accept_bits_curve` does."""
        last = min(self.epsilon(_NEGLIGIBLE), _FARTHEST)
        epsilons = np.linspace(0.0, last, _POINTS)
        deltas = np.array([self.delta(epsilon) for epsilon in epsilons])
        # From the touching point of the steepest symmetric line on: below, the curve is not convex.
        first = np.argmax((1.0 - deltas) / (1.0 + np.exp(epsilons)))
        epsilons, deltas = epsilons[first:], deltas[first:]
        mirrored = -np.expm1(-epsilons) + np.exp(-epsilons) * deltas
        return np.append(-epsilons[::-1], epsilons), np.append(mirrored[::-1], deltas)


@lru_cache(maxsize=256)
def number_law(mean, shape):
    """Return the parameter of the law of the number of runs: ``g``, or the Poisson law's mean."""
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
