"""The cost of mechanisms, its exact conversion to (epsilon, delta), and what it is in words and events.

Four forms are kept apart and composed when a number is asked for:

- Gaussian mechanisms, as ``mu``-GDP (`skdpbayes.privacy.conversions`), composed by
  ``mu = sqrt(sum mu_i^2)`` (Dong, Roth and Su, 2022);
- parts whose privacy loss distribution is known. Poisson-subsampled Gaussian mechanisms: with record bound
  1, noise ``nu`` and rate ``q`` the pair ``((1-q) N(0, nu^2) + q N(1, nu^2), N(0, nu^2))`` and its reverse
  under ``add_or_remove_one``, and ``(1-q) N(0, nu^2) + q N(-1, nu^2)`` against
  ``(1-q) N(0, nu^2) + q N(1, nu^2)`` under ``replace_one``; the same with a Poisson number of shifts; and
  accept/reject decisions (`skdpbayes.privacy.losses`). dp-accounting composes them, rounding the loss
  up; what its Fourier transforms may lose to rounding is added to delta;
- parts whose curve ``delta(epsilon)`` is known: pure mechanisms, and the best of a random number of runs
  (`skdpbayes.privacy.losses`);
- what is only known to be ``rho``-zCDP, in Rényi orders: ``D_alpha <= rho alpha``. Gaussians are
  ``mu^2/2``-zCDP and bits of range ``eta`` are ``eta^2/8``-zCDP, so that this form can take them over.

A probability with which anything may be revealed is added to delta. Where no curve can be had, because losses
are too large or delta too small for it, what has an epsilon at delta 0 is added to the epsilon of the rest.

Every form that can express a whole cost gives a bound, and the smallest bound is reported.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._arguments import check_number
from .conversions import (
    SMALLEST_DELTA,
    decimal_exact,
    gaussian_delta,
    gaussian_epsilon,
    round_down_delta,
    round_up,
    zcdp_delta,
    zcdp_epsilon,
)
from .losses import (
    PERSON_RELATIONS,
    RELATIONS,
    BoundedRangeDecisions,
    PoissonGaussian,
    PureMechanism,
    SampledGaussian,
    SelectedRun,
    compose_losses,
    has_grid,
    relation_of,
    sensitivity_factor,
)

# A cost in words: the relation, and what was spent, part by part.
#
# replace-one: Gaussian noise of mu = 0.25; 4 exponential mechanisms of bounded range 0.1; pure epsilon = 0.5


def cost_in_words(cost):
    """The line that is printed of a `PrivacyCost`."""
    parts = "; ".join(_parts(cost)) or "nothing"
    return f"{cost.neighboring_relation.replace('_', '-')}: {parts}"


def _parts(cost):
    """Yield what a cost consists of, without what is empty."""
    if cost.is_infinite:
        yield "no privacy (epsilon = inf)"
        return
    if cost.mu > 0:
        yield f"Gaussian noise of mu = {cost.mu:.4g}"
    for part in cost.sampled:
        steps = _number(part.count, "step", "steps")
        yield (
            f"{steps} with Gaussian noise of {part.noise_multiplier:.4g} times the bound, on batches of rate "
            f"{part.sampling_rate:.4g}"
        )
    for part in cost.counted:
        steps = _number(part.count, "step", "steps")
        yield (
            f"{steps} with Gaussian noise of {part.noise_multiplier:.4g} times the bound, in which a record "
            f"counts {part.rate:.4g} times on average"
        )
    for part in cost.decisions:
        mechanisms = _number(part.count, "exponential mechanism", "exponential mechanisms")
        yield f"{mechanisms} of bounded range {part.log_odds_range:.4g}"
    if cost.rho > 0:
        yield f"zCDP of rho = {cost.rho:.4g}"
    for part in cost.pure_events:
        times = f"{part.count:,} times " if part.count > 1 else ""
        yield f"{times}pure epsilon = {part.level:.4g}"
    for part in cost.selection_events:
        yield _of_selection(part)
    if cost.failure_probability > 0:
        yield f"a delta of {cost.failure_probability:.3g} on top"


def _of_selection(part):
    runs = " | ".join("; ".join(_parts(cost)) or "nothing" for cost in part.costs)
    if len(part.costs) > 1:
        runs = f"the largest of {len(part.costs)} disjoint parts of the table: {runs}"
    if part.mean_runs > 1:
        runs = f"the best of {part.mean_runs:.4g} runs on average, each with {runs}"
    return f"{part.count:,} times ({runs})" if part.count > 1 else f"({runs})"


def _number(count, singular, many):
    return f"{count:,} {singular if count == 1 else many}"


# Costs as dp-accounting's events, for other tools to read.


if TYPE_CHECKING:
    import dp_accounting


class PublishedEvent(NamedTuple):
    """A dp-accounting event, and the only relation under which it means this cost."""

    event: "dp_accounting.DpEvent"
    neighboring_relation: "dp_accounting.NeighboringRelation"


def published_event(cost):
    """The `PublishedEvent` of a cost."""
    import dp_accounting

    relation = relation_of(cost.neighboring_relation)
    if cost.is_infinite:
        return PublishedEvent(dp_accounting.NonPrivateDpEvent(), relation)
    if (
        cost.decisions
        or cost.rho > 0
        or cost.counted
        or cost.pure_events
        or cost.selection_events
        or cost.failure_probability
    ):
        if math.isinf(cost.concentrated):
            raise NotImplementedError(f"dp-accounting has no event for {cost}.")
        return PublishedEvent(dp_accounting.dp_event.ZCDpEvent(cost.concentrated), relation)
    events = [
        dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(
                part.sampling_rate, dp_accounting.GaussianDpEvent(part.noise_multiplier)
            ),
            part.count,
        )
        for part in cost.sampled
    ]
    if cost.mu > 0 and relation == relation_of("replace_one"):
        gaussian = dp_accounting.GaussianDpEvent(2.0 / cost.mu)
        events.append(dp_accounting.PoissonSampledDpEvent(1.0, gaussian))
    elif cost.mu > 0:
        events.append(dp_accounting.GaussianDpEvent(1.0 / cost.mu))
    if len(events) == 1:
        return PublishedEvent(events[0], relation)
    return PublishedEvent(dp_accounting.ComposedDpEvent(events), relation)


# Fields that hold several mechanisms each.
_PARTS = ("sampled", "counted", "decisions", "pure_events", "selection_events")
# Most parts for which epsilons are added up.
_MOST_RUNS = 50
# How a delta is divided between two parts that no single form can express.
_SPLITS = (0.1, 0.5, 0.9)


def check_relation(relation, *, persons=False):
    """Raise a ValueError for an unknown neighbouring relation, of rows or, if allowed, of persons."""
    known = sorted({**RELATIONS, **(PERSON_RELATIONS if persons else {})})
    if relation not in known:
        raise ValueError(f"neighboring_relation must be one of {known}, got {relation!r}.")


def gaussian_limit(cost):
    """The mu of a cost in the limit of many small parts, which is Gaussian."""
    rows_only = cost.sampled or cost.counted
    shift = sensitivity_factor(cost.neighboring_relation) if rows_only else 0.0
    limit = sum(p.count * (shift * p.sampling_rate / p.noise_multiplier) ** 2 for p in cost.sampled)
    limit += sum(p.count * (shift * p.rate / p.noise_multiplier) ** 2 for p in cost.counted)
    limit += sum(p.count * p.log_odds_range**2 / 4.0 for p in cost.decisions)
    limit += sum(p.count * p.level**2 for p in cost.pure_events)
    return math.sqrt(limit + cost.mu**2 + 2.0 * cost.rho)


# Least number of a mechanism but 0, apart from counts: its square is a double.
_LEAST_FIELD = 1e-100
# Largest number of a mechanism but inf, apart from counts: its square is a double.
_LARGEST_FIELD = 1e100
# Largest count of a mechanism: whole numbers up to it are exact doubles.
_LARGEST_COUNT = 2**53
# A grid of losses up to this one, at most, is made.
_LARGEST_PURE_LOSS = 1e6


def _check_part(part):
    """Raise an error that names what makes a part of a cost none."""
    numbers = {name: one for name, one in vars(part).items() if not isinstance(one, tuple)}
    for name, value in numbers.items():
        check_number(name, value)
        if isinstance(value, np.generic):  # Single precision would do for no cost.
            object.__setattr__(part, name, value.item())
        if name == "noise_multiplier" and value > _LARGEST_FIELD:  # Less noise costs no less.
            object.__setattr__(part, name, _LARGEST_FIELD)
    numbers = {name: vars(part)[name] for name in numbers}
    if part.invalid():
        given = ", ".join(f"{name}={value!r}" for name, value in numbers.items())
        raise ValueError(f"not a mechanism: {type(part).__name__} with {given}.")
    for name, value in numbers.items():
        least, most = (1, _LARGEST_COUNT) if name == "count" else (_LEAST_FIELD, _LARGEST_FIELD)
        least = 0 if "rate" in name else least
        # A shape of inf is Poisson's law.
        if value != 0 and name != "shape" and not least <= value <= most:
            raise ValueError(f"{name}={value:g} must be between {least:g} and {most:g}.")


@dataclass(frozen=True)
class PrivacyCost:
    """Cost of a release under one neighbouring relation: exact if Gaussian, an upper bound otherwise.

    Costs compose with ``+`` (adaptively, in any order).

    Parameters
    ----------
    neighboring_relation : {"replace_one", "add_or_remove_one", "replace_one_person", \
            "add_or_remove_one_person"}
        Whether neighbouring tables differ in a row, or in all rows of a person.
    mu : float, default=0.0
        Gaussian differential privacy of the part without subsampling; ``inf`` means no privacy.
    sampled : tuple of SampledGaussian, default=()
        The Poisson-subsampled part.
    counted : tuple of PoissonGaussian, default=()
        Gaussian mechanisms on sums in which records count a Poisson number of times.
    decisions : tuple of BoundedRangeDecisions, default=()
        Mechanisms of a bounded range of log odds: choices by the exponential mechanism, such as those of
        quantiles, and accept/reject decisions of Barker tests.
    rho : float, default=0.0
        Zero-concentrated differential privacy of everything that has no tighter description.
    pure_events : tuple of PureMechanism, default=()
        Mechanisms with an epsilon at delta 0.
    selection_events : tuple of SelectedRun, default=()
        Selections, of which only the best run is released.
    failure_probability : float, default=0.0
        A delta that is added to the delta of everything else.

    Examples
    --------
    >>> from skdpbayes.privacy import PrivacyCost
    >>> release = PrivacyCost("replace_one", mu=0.25)
    >>> round(release.epsilon(delta=1e-5), 3)
    0.926
    >>> round((release + release).epsilon(delta=1e-5), 3)
    1.356
    >>> print(release)
    replace-one: Gaussian noise of mu = 0.25
    """

    neighboring_relation: str
    mu: float = 0.0
    sampled: tuple[SampledGaussian, ...] = ()
    counted: tuple[PoissonGaussian, ...] = ()
    decisions: tuple[BoundedRangeDecisions, ...] = ()
    rho: float = 0.0
    pure_events: tuple[PureMechanism, ...] = ()
    selection_events: tuple[SelectedRun, ...] = ()
    failure_probability: float = 0.0

    def __post_init__(self):
        check_relation(self.neighboring_relation, persons=True)
        if self.neighboring_relation in PERSON_RELATIONS and (self.sampled or self.counted):
            raise ValueError(
                "batches draw rows, so their cost for persons is not known: take full passes over the table."
            )
        for name in ("mu", "rho", "failure_probability"):
            check_number(name, getattr(self, name))
            value = float(getattr(self, name))
            object.__setattr__(self, name, value)
            if not (value >= 0 and (value <= _LARGEST_FIELD or math.isinf(value))):
                raise ValueError(
                    f"{name} must be at least 0, up to {_LARGEST_FIELD:g} or inf, got {value}."
                )
        for part in self._parts:
            _check_part(part)

    @property
    def _parts(self):
        return (
            self.sampled + self.counted + self.decisions + self.pure_events + self.selection_events
        )

    @property
    def is_zero(self) -> bool:
        """Whether nothing is revealed."""
        return self == PrivacyCost(self.neighboring_relation)

    @property
    def is_infinite(self) -> bool:
        """Whether the cost is infinite, so that nothing is claimed."""
        return math.isinf(self.mu) or math.isinf(self.rho)

    @property
    def is_gaussian(self) -> bool:
        """Whether the cost is ``mu``-GDP and no more."""
        return not self._parts and self.rho == self.failure_probability == 0

    @property
    def pure_epsilon(self) -> float:
        """Epsilon at delta 0, or ``inf``."""
        if (
            self.mu > 0
            or self.rho > 0
            or self.failure_probability > 0
            or self.sampled
            or self.counted
        ):
            return math.inf
        numbers = [part.log_odds_range * part.count for part in self.decisions]
        numbers += [part.pure_epsilon for part in self.selection_events]
        if math.inf in numbers:
            return math.inf
        pure = (decimal_exact(part.level) * part.count for part in self.pure_events)
        return round_up(sum(map(decimal_exact, numbers), sum(pure, Fraction(0))))

    @property
    def concentrated(self) -> float:
        """The cost as zCDP, or ``inf`` if it has no such form."""
        if self.sampled or self.counted or self.selection_events or self.failure_probability > 0:
            return math.inf
        bits = math.fsum(part.count * part.log_odds_range**2 / 8.0 for part in self.decisions)
        pure = math.fsum(part.count * part.level**2 / 2.0 for part in self.pure_events)
        return self.rho + self.mu**2 / 2.0 + bits + pure

    def __str__(self) -> str:
        return cost_in_words(self)

    def __add__(self, other: "PrivacyCost") -> "PrivacyCost":
        if not isinstance(other, PrivacyCost):
            return NotImplemented
        return composed((self, other))

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon that holds with ``delta``.

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
        check_number("delta", delta)
        delta = float(delta)
        if not 0 <= delta < 1:
            raise ValueError(f"delta must be in [0, 1), got {delta}.")
        if self.failure_probability > 0:
            delta_left = round_down_delta(delta - self.failure_probability)
            return (
                replace(self, failure_probability=0.0).epsilon(delta_left)
                if delta_left > 0
                else math.inf
            )
        if self.is_infinite:
            return math.inf
        if delta == 0:
            return self.pure_epsilon
        if self.is_gaussian:
            return gaussian_epsilon(self.mu, delta)
        if self._alone:
            return self._alone.epsilon(delta)
        forms = [self.pure_epsilon, zcdp_epsilon(self.concentrated, delta)]
        rest = self._without_rho()
        if self.rho == 0:
            forms.append(rest._exact_epsilon(delta))
        elif math.isinf(self.concentrated):
            forms.extend(
                zcdp_epsilon(self.rho, round_down_delta(share * delta))
                + rest._exact_epsilon(round_down_delta((1 - share) * delta))
                for share in _SPLITS
            )
        is_unknown = math.isinf(min(forms[2:], default=math.inf))
        if is_unknown:
            forms.extend(
                math.nextafter(pure + rest.epsilon(delta), math.inf) for pure, rest in self._sums()
            )
        forms.extend(
            math.nextafter(math.fsum(cost.epsilon(share) for cost, share in parts), math.inf)
            for parts in self._shared_out(delta, is_unknown)
        )
        return min(forms)

    def delta(self, epsilon: float) -> float:
        """The smallest delta that holds with ``epsilon``.

        Parameters
        ----------
        epsilon : float, at least 0

        Returns
        -------
        delta : float
            0 for what is pure, and otherwise at least 1e-300, smaller ones being rounded up.

        Raises
        ------
        ValueError
            If epsilon is negative or not a number.
        """
        check_number("epsilon", epsilon)
        epsilon = float(epsilon)
        if not epsilon >= 0:
            raise ValueError(f"epsilon must be at least 0, got {epsilon}.")
        if self.failure_probability > 0:
            return min(
                1.0,
                self.failure_probability + replace(self, failure_probability=0.0).delta(epsilon),
            )
        if math.isinf(epsilon) or self.pure_epsilon <= epsilon:
            return 0.0
        if self.is_infinite:
            return 1.0
        if self.is_gaussian:
            return gaussian_delta(self.mu, epsilon)
        if self._alone:
            return self._alone.delta(epsilon)
        if self.rho > 0 and math.isinf(self.concentrated):
            return self._smallest_delta(epsilon)
        exact = self._exact_delta(epsilon) if self.rho == 0 else 1.0
        forms = [exact, zcdp_delta(self.concentrated, epsilon)]
        is_unknown = exact == 1
        if next(self._shared_out(1e-6, is_unknown), None):
            forms.append(self._smallest_delta(epsilon))
        if is_unknown or exact <= 3.0 * self._roundoff():  # No curve says more.
            forms.extend(
                rest.delta(math.nextafter(epsilon - pure, 0.0))
                for pure, rest in self._sums()
                if pure < epsilon
            )
        return min(forms)

    def _sums(self):
        """Yield the epsilon at delta 0 of all pure mechanisms, or of all bits, and the cost of the rest.

        A cost at most is that epsilon and the rest's, added up, at the rest's delta.
        """
        relation = self.neighboring_relation
        for parts, rest in (
            (PrivacyCost(relation, pure_events=self.pure_events), replace(self, pure_events=())),
            (PrivacyCost(relation, decisions=self.decisions), replace(self, decisions=())),
        ):
            if not (parts.is_zero or rest.is_zero):
                yield parts.pure_epsilon, rest

    def _shared_out(self, delta, is_unknown):
        """Yield lists of (cost, its share of delta) whose epsilons add up to one of the whole cost.

        For selections, whose curves are coarse, and if the curve of the whole is not known, for parts that
        zCDP composes.
        """
        concentrated = replace(self, sampled=(), counted=(), selection_events=())
        rest = PrivacyCost(
            self.neighboring_relation,
            sampled=self.sampled,
            counted=self.counted,
            selection_events=self.selection_events,
        )
        if is_unknown and not (concentrated.is_zero or rest.is_zero):
            for share in _SPLITS:
                shares = round_down_delta(share * delta), round_down_delta((1.0 - share) * delta)
                yield list(zip((concentrated, rest), shares, strict=True))
        runs = [
            replace(
                PrivacyCost(self.neighboring_relation), selection_events=(replace(run, count=1),)
            )
            for run in self.selection_events
            for _ in range(run.count)
        ]
        without = replace(self, selection_events=())
        parts = [*runs, *([] if without.is_zero else [without])]
        if runs and 1 < len(parts) <= _MOST_RUNS:
            yield [(part, round_down_delta(delta / len(parts))) for part in parts]

    def _smallest_delta(self, epsilon):
        """The smallest delta whose epsilon is at most this one, to a thousandth, from above."""
        low, high = math.log(SMALLEST_DELTA), 0.0
        while high - low > 1e-3:
            middle = 0.5 * (low + high)
            if self.epsilon(math.exp(middle)) <= epsilon:
                high = middle
            else:
                low = middle
        return math.exp(high)

    def _without_rho(self):
        return replace(self, rho=0.0)

    @property
    def _alone(self):
        """The one part whose curve is the whole cost's, or None."""
        part = self._parts[0] if len(self._parts) == 1 and self.mu == self.rho == 0 else None
        return part if isinstance(part, SelectedRun | PureMechanism) and part.count == 1 else None

    @property
    def _has_curve(self):
        # What pure mechanisms lose at most says enough beyond.
        is_small = sum(part.pure_epsilon for part in self.pure_events) <= _LARGEST_PURE_LOSS
        return (
            is_small
            and all(part.has_curve for part in self.decisions)
            and has_grid(self._parts, self.mu, self.neighboring_relation)
        )

    def _exact_epsilon(self, delta):
        if not self._parts:
            return gaussian_epsilon(self.mu, delta)
        resolved = delta * (1.0 - self._relative_roundoff) - self._roundoff()
        if resolved <= 0 or not self._has_curve:
            return math.inf
        losses = compose_losses(self._parts, self.mu, self.neighboring_relation)
        return float(losses.get_epsilon_for_delta(resolved))

    def _exact_delta(self, epsilon):
        if not self._parts:
            return gaussian_delta(self.mu, epsilon)
        if not self._has_curve:
            return 1.0
        losses = compose_losses(self._parts, self.mu, self.neighboring_relation)
        computed = float(losses.get_delta_for_epsilon(epsilon))
        computed = max(0.0, computed) * (1.0 + self._relative_roundoff)
        return min(1.0, computed + self._roundoff())

    @property
    def _relative_roundoff(self):
        # Equal pure mechanisms are binomial, and computed binomial probabilities are off by some 1e-11.
        return 1e-10 if self.pure_events else 0.0

    def _roundoff(self):
        # A composition is a power of a Fourier transform, taken in doubles: every step adds up to about
        # one unit of rounding to delta, which would pass unnoticed where delta itself is as small.
        return 2.0**-52 * (64 + sum(part.count for part in self._parts))

    def dp_event(self) -> Any:
        """The cost as a dp-accounting event, with the relation that it is valid for.

        dp-accounting measures noise against one record's bound, and its PLD accountant doubles the
        sensitivity under ``REPLACE_ONE`` where its Rényi accountant does not. Under ``replace_one``
        a Gaussian is therefore published as sampled with probability 1: the PLD accountant reads
        that exactly, and the Rényi accountant, which would read it wrongly, refuses it. A cost with bits
        or a zCDP part is published as zCDP, which only the Rényi accountant reads.

        Returns
        -------
        published : PublishedEvent

        Raises
        ------
        NotImplementedError
            If there is no event for it: records that count a Poisson number of times, selected runs, or
            subsampled Gaussians together with a zCDP part.
        """
        return published_event(self)


def quick_epsilon(cost, delta):
    """An epsilon that holds with ``delta``, by a closed form if there is one."""
    if delta == 0 or cost.is_gaussian or cost.failure_probability > 0:
        return cost.epsilon(delta)
    closed = min(cost.pure_epsilon, zcdp_epsilon(cost.concentrated, delta))
    return cost.epsilon(delta) if math.isinf(closed) else closed


def composed(costs):
    """The sum of costs, in one pass.

    Parameters
    ----------
    costs : sequence of PrivacyCost
        At least one, all under one relation.
    """
    relations = dict.fromkeys(cost.neighboring_relation for cost in costs)
    if len(relations) > 1:
        persons = (
            " Scores, fits and searches protect persons if they are given groups=...; a scorer gets them "
            "from scikit-learn's tools after scorer.set_score_request(groups=True)."
        )
        raise ValueError(
            f"costs under {' and '.join(map(repr, relations))} protect against different things and cannot "
            "be added: give both the same neighboring_relation, or keep a PrivacyLedger(epsilon, delta, "
            "neighboring_relation) for each."
            + persons
            * (len({one in PERSON_RELATIONS for one in relations}) > 1)
        )
    (relation,) = relations
    fields: dict[str, Any] = {
        name: _merged(chain.from_iterable(getattr(cost, name) for cost in costs)) for name in _PARTS
    }
    for name in ("rho", "failure_probability"):
        fields[name] = math.fsum(getattr(cost, name) for cost in costs)
    return PrivacyCost(relation, mu=math.hypot(*(cost.mu for cost in costs)), **fields)


def _merged(parts):
    """Add up the counts of equal mechanisms."""
    counts: Counter[Any] = Counter()
    for part in parts:
        counts[replace(part, count=1)] += part.count
    return tuple(replace(kind, count=count) for kind, count in sorted(counts.items()))


# What costs amount to that are spent on disjoint parts of one table.
#
#     delta(epsilon) = max_j delta_j(epsilon)
#
# A record lies in one part, and what is computed of the others does not depend on it. That holds if
# which part a record belongs to does not depend on any other record, nor, under ``replace_one``, on
# the record itself. Of persons it holds where each has all of their records in one part.


def in_parallel(*costs: Any, one_part_per_person: bool = False) -> PrivacyCost:
    """The cost of releases from disjoint parts of a table.

    The parts must be fixed beforehand: under ``replace_one`` by the place of a row (its number, or a draw
    that does not look at the rows), under ``add_or_remove_one`` by each row alone (a draw for every row, or
    what the row holds). Stratified parts are neither: a replaced label moves other rows to other parts.

    Parameters
    ----------
    *costs : PrivacyCost
        Costs of the parts: at least one, all under the same neighbouring relation.
    one_part_per_person : bool, default=False
        Your promise, for costs that protect persons: all rows of a person are in one part, chosen by the
        place of the person or, under ``add_or_remove_one_person``, by the person alone. A person whose rows
        are in several parts pays in each of them: then add the costs up.

    Returns
    -------
    cost : PrivacyCost
        Cost of all parts together. It is at least as large as each of them at every delta.

    Raises
    ------
    ValueError
        If there are none, if they are under different relations, or if they protect persons and the promise
        is missing.

    Examples
    --------
    >>> from skdpbayes.privacy import PrivacyCost, PureMechanism, in_parallel
    >>> fit = PrivacyCost("replace_one", mu=0.25)
    >>> in_parallel(fit, fit) == fit
    True
    >>> score = PrivacyCost("replace_one", pure_events=(PureMechanism(0.5),))
    >>> cost = in_parallel(fit, score)
    >>> [round(one.epsilon(delta=1e-5), 3) for one in (fit, score, cost)]
    [0.926, 0.5, 0.926]
    """
    relations = {cost.neighboring_relation for cost in costs}
    if len(relations) != 1:
        raise ValueError(
            "in_parallel needs at least one cost, and all under one neighbouring relation, got "
            f"{sorted(relations)}."
        )
    if relations <= set(PERSON_RELATIONS) and not one_part_per_person:
        raise ValueError(
            "a person with several rows can be in every part, and then pays the sum of the costs: add them "
            "up. If all rows of each person are in one part, say so with one_part_per_person=True."
        )
    gaussian = [cost for cost in costs if cost.is_gaussian]
    largest = [max(gaussian, key=lambda cost: cost.mu)] if gaussian else []
    apart = tuple(dict.fromkeys(largest + [cost for cost in costs if not cost.is_gaussian]))
    if len(apart) == 1:
        return apart[0]
    return PrivacyCost(relations.pop(), selection_events=(SelectedRun(apart),))
