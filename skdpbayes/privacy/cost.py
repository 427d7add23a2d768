"""The cost of mechanisms, and its exact conversion to (epsilon, delta).

Two exact forms are kept apart and composed when a number is asked for:

- Gaussian mechanisms, as ``mu``-GDP: ``delta(eps) = Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2)``,
  composed by ``mu = sqrt(sum mu_i^2)`` (Dong, Roth and Su, 2022);
- Poisson-subsampled Gaussian mechanisms, as privacy loss distributions: with record bound 1, noise
  ``nu`` and rate ``q`` the pair ``((1-q) N(0, nu^2) + q N(1, nu^2), N(0, nu^2))`` and its reverse under
  ``add_or_remove_one``, and ``(1-q) N(0, nu^2) + q N(-1, nu^2)`` against ``(1-q) N(0, nu^2) + q N(1, nu^2)``
  under ``replace_one``. dp-accounting builds and composes them, rounding the loss up; what its Fourier
  transforms may lose to rounding is added to delta.
"""

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import dp_accounting
from dp_accounting.pld import privacy_loss_distribution
from scipy.special import log_ndtr

NEIGHBORING_RELATIONS = {
    "replace_one": dp_accounting.NeighboringRelation.REPLACE_ONE,
    "add_or_remove_one": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
}


class SampledGaussian(NamedTuple):
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


class PublishedEvent(NamedTuple):
    """A dp-accounting event, and the only relation under which it means this cost."""

    event: dp_accounting.DpEvent
    neighboring_relation: dp_accounting.NeighboringRelation


def gaussian_delta(mu, epsilon):
    """Smallest delta at which a ``mu``-GDP mechanism is (epsilon, delta)-private."""
    if mu == 0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    accept = log_ndtr(-epsilon / mu + mu / 2)
    reject = epsilon + log_ndtr(-epsilon / mu - mu / 2)
    return float(-math.exp(accept) * math.expm1(min(reject - accept, 0.0)))


def gaussian_epsilon(mu, delta):
    """Smallest epsilon at which a ``mu``-GDP mechanism is (epsilon, delta)-private."""
    if mu == 0:
        return 0.0
    return float(dp_accounting.get_epsilon_gaussian(1.0 / mu, delta)) if mu < math.inf else math.inf


@lru_cache(maxsize=1024)
def gaussian_mu(epsilon, delta):
    """Largest mu for which ``mu``-GDP implies (epsilon, delta)-privacy."""
    if math.isinf(epsilon):
        return math.inf
    if delta == 0:
        return 0.0
    # Roots are found to 1e-12; a distance from them keeps the ceiling for all that costs less, too.
    mu = 1.0 / float(dp_accounting.get_sigma_gaussian(epsilon, delta)) * (1.0 - 1e-10)
    while gaussian_epsilon(mu, delta) > epsilon:
        mu *= 1.0 - 1e-10
    return mu


@dataclass(frozen=True)
class PrivacyCost:
    """What a release costs, exactly, under one neighbouring relation.

    Costs compose with ``+`` (adaptively, in any order).

    Parameters
    ----------
    neighboring_relation : {"replace_one", "add_or_remove_one"}
        What a neighbouring table is.
    mu : float, default=0.0
        Gaussian differential privacy of the unsampled part; ``inf`` is no privacy.
    sampled : tuple of SampledGaussian, default=()
        The Poisson-subsampled part.

    Examples
    --------
    >>> from skdpbayes.privacy import PrivacyCost
    >>> release = PrivacyCost("replace_one", mu=0.25)
    >>> round(release.epsilon(delta=1e-5), 3)
    0.926
    >>> round((release + release).epsilon(delta=1e-5), 3)
    1.356
    """

    neighboring_relation: str
    mu: float = 0.0
    sampled: tuple[SampledGaussian, ...] = ()

    def __post_init__(self):
        if self.neighboring_relation not in NEIGHBORING_RELATIONS:
            raise ValueError(
                f"neighboring_relation must be one of {sorted(NEIGHBORING_RELATIONS)}, "
                f"got {self.neighboring_relation!r}."
            )
        if not self.mu >= 0:
            raise ValueError(f"mu must be at least 0, got {self.mu}.")
        for part in self.sampled:
            if not (part.noise_multiplier > 0 and 0 < part.sampling_rate <= 1 and part.count >= 1):
                raise ValueError(f"not a subsampled Gaussian mechanism: {part}.")

    def __add__(self, other):
        if not isinstance(other, PrivacyCost):
            return NotImplemented
        if other.neighboring_relation != self.neighboring_relation:
            raise ValueError(
                f"costs under {self.neighboring_relation!r} and {other.neighboring_relation!r} "
                "protect against different things and cannot be added."
            )
        counts = Counter()
        for multiplier, rate, count in self.sampled + other.sampled:
            counts[multiplier, rate] += count
        sampled = tuple(SampledGaussian(*kind, count) for kind, count in sorted(counts.items()))
        return PrivacyCost(self.neighboring_relation, math.hypot(self.mu, other.mu), sampled)

    def epsilon(self, delta):
        """Return the smallest epsilon that holds with ``delta``.

        Parameters
        ----------
        delta : float in [0, 1)

        Returns
        -------
        epsilon : float
            ``inf`` where there is none.

        Raises
        ------
        ValueError
            If delta is not in [0, 1).
        """
        if not 0 <= delta < 1:
            raise ValueError(f"delta must be in [0, 1), got {delta}.")
        if not self.sampled or math.isinf(self.mu):
            return gaussian_epsilon(self.mu, delta)
        resolved = delta - _roundoff(self)
        return float(_composed(self).get_epsilon_for_delta(resolved)) if resolved > 0 else math.inf

    def delta(self, epsilon):
        """Return the smallest delta that holds with ``epsilon``.

        Parameters
        ----------
        epsilon : float, at least 0

        Returns
        -------
        delta : float

        Raises
        ------
        ValueError
            If epsilon is negative or not a number.
        """
        if not epsilon >= 0:
            raise ValueError(f"epsilon must be at least 0, got {epsilon}.")
        if math.isinf(epsilon):
            return 0.0
        if not self.sampled or math.isinf(self.mu):
            return gaussian_delta(self.mu, epsilon)
        computed = float(_composed(self).get_delta_for_epsilon(epsilon))
        return min(1.0, max(0.0, computed) + _roundoff(self))

    def dp_event(self):
        """Return the cost as a dp-accounting event, with the relation that it is valid for.

        dp-accounting measures noise against one record's bound, and its PLD accountant doubles the
        sensitivity under ``REPLACE_ONE`` where its Rényi accountant does not. Under ``replace_one``
        a Gaussian is therefore published as sampled with probability 1: the PLD accountant reads
        that exactly, and the Rényi accountant, which would read it wrongly, refuses it.

        Returns
        -------
        published : PublishedEvent
        """
        relation = NEIGHBORING_RELATIONS[self.neighboring_relation]
        if math.isinf(self.mu):
            return PublishedEvent(dp_accounting.NonPrivateDpEvent(), relation)
        events = [
            dp_accounting.SelfComposedDpEvent(
                dp_accounting.PoissonSampledDpEvent(
                    part.sampling_rate, dp_accounting.GaussianDpEvent(part.noise_multiplier)
                ),
                part.count,
            )
            for part in self.sampled
        ]
        if self.mu > 0 and self.neighboring_relation == "replace_one":
            gaussian = dp_accounting.GaussianDpEvent(2.0 / self.mu)
            events.append(dp_accounting.PoissonSampledDpEvent(1.0, gaussian))
        elif self.mu > 0:
            events.append(dp_accounting.GaussianDpEvent(1.0 / self.mu))
        if len(events) == 1:
            return PublishedEvent(events[0], relation)
        return PublishedEvent(dp_accounting.ComposedDpEvent(events), relation)


def _roundoff(cost):
    # A composition is a power of a Fourier transform, taken in doubles: every step adds up to about
    # one unit of rounding to delta, which would pass unnoticed where delta itself is as small.
    return 2.0**-52 * (64 + sum(part.count for part in cost.sampled))


def _grid(cost):
    # The interval must resolve one step's loss (its deviation is about q times the separation), or
    # rounding it up at every step would dominate: at a sixth, epsilon is 0.3% too large. It is 1, 2
    # or 5 times a power of ten.
    shift = 2.0 if cost.neighboring_relation == "replace_one" else 1.0
    steps = sum(part.count for part in cost.sampled)
    squares = sum(
        part.count * (shift * part.sampling_rate / part.noise_multiplier) ** 2
        for part in cost.sampled
    )
    wanted = min(max(math.sqrt(squares / max(steps, 1)) / 6.0, 1e-5), 1e-3)
    decade = 10.0 ** math.floor(math.log10(wanted) + 1e-9)
    return decade * max(m for m in (1.0, 2.0, 5.0) if m * decade <= wanted * (1 + 1e-9))


@lru_cache(maxsize=64)
def _composed(cost):
    """Return the composed privacy loss distribution of a cost with a subsampled part."""
    interval = _grid(cost)
    relation = NEIGHBORING_RELATIONS[cost.neighboring_relation]
    total = None
    for part in cost.sampled:
        step = privacy_loss_distribution.from_gaussian_mechanism(
            part.noise_multiplier,
            sampling_prob=part.sampling_rate,
            value_discretization_interval=interval,
            neighboring_relation=relation,
        ).self_compose(part.count)
        total = step if total is None else total.compose(step)
    if cost.mu > 0:
        gaussian = privacy_loss_distribution.from_gaussian_mechanism(
            1.0 / cost.mu, value_discretization_interval=interval
        )
        total = total.compose(gaussian)
    return total
