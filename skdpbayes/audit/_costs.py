"""Whether what is charged at the door adds up to the cost that a plan states.

    sum mu_i^2 = mu^2,     as many choices of a range as there are bits,     sum epsilon_i = epsilon

What costs more than was seen at the door was released elsewhere, by compiled chains or by code of others, and
is not covered.
"""

import math

import numpy as np
from scipy.stats import binom, norm

from ..privacy.loss_distributions import between_rows, records_moved

_ROUNDING = 1.0 + 1e-6
# Of a squared mu, what may be left over.
_LEFT = 0.02
# A record is in so many batches, or more, with this probability.
_UNLIKELY = 1e-8


def check_costs(cost, movements, max_records=1):
    """Return (list of (kind, text) where charges and a cost do not agree, whether all was at the door).

    Parameters
    ----------
    cost : PrivacyCost or None
    movements : list of (Passage, float)
        Releases, and how far a record moved each.
    max_records : int, default=1
        How many records of a person there may be.
    """
    if cost is None:
        return [("not covered", "nothing is said of the cost, to compare charges with")], True
    if cost.is_nothing:
        return [("not covered", "the cost is infinite, so that nothing is claimed")], False
    if cost.selected:
        text = "the number of runs that a selection costs; the releases of each were compared"
        return [("not covered", text)], None not in [one.charged for one, _ in movements]
    found = _gaussian(cost, movements) + _choices(cost, movements) + _laplace(cost, movements)
    found += _batches(cost, movements) + _thresholds(cost, movements, max_records)
    for name, text in (
        ("counted", "steps on batches, which are charged for"),
        ("rho", "a part that is known as zCDP only"),
    ):
        if getattr(cost, name):
            found.append(("not covered", text))
    return found, all(kind != "not covered" for kind, _ in found)


def check_cost_of_persons(cost, movements):
    """Return a list of (kind, text) where a cost for persons is less than how far a person moved releases.

    Parameters
    ----------
    cost : PrivacyCost
    movements : list of (Passage, float)
        Releases, and how far the person moved each, in deviations of Gaussian noise.
    """
    if cost.is_nothing or cost.selected:
        return []
    mu = math.hypot(*(own for one, own in movements if one.kind in ("gaussian", "counts")), 0.0)
    n_drawn = sum(one.kind == "choice" for one, _ in movements)
    n_paid = sum(bit.count for bit in cost.bits)
    found = []
    if mu > cost.mu * _ROUNDING:
        text = f"a person moved Gaussian releases by mu = {mu:.6g}, and they cost {cost.mu:.6g}"
        found.append(("cost", text))
    if n_drawn > n_paid:
        found.append(("cost", f"{n_drawn} choices, of which {n_paid} are charged for a person"))
    return found


def _groups(movements, kind):
    """Return charges of one kind, joint ones once; None stands for one that is not known."""
    charged = []
    for passage, _ in movements:
        if passage.kind == kind and not passage.is_joint:
            charged.append(passage.charged)
    return charged


def _gaussian(cost, movements):
    charged, limit = _groups(movements, "gaussian"), cost.mu**2
    if None in charged:
        return [("not covered", "it is not known what a release with Gaussian noise is charged")]
    paid = math.fsum(mu**2 for mu in charged)
    if paid > limit * _ROUNDING:
        mu = math.sqrt(paid)
        return [("cost", f"Gaussian releases are charged mu = {mu:.6g}, and cost {cost.mu:.6g}")]
    of_counts = [own for passage, own in movements if passage.kind == "counts"]
    if of_counts:
        moved = math.fsum(own**2 for own in of_counts)
        left = (limit - paid) * _ROUNDING
        return [] if moved <= left else [("sensitivity", "counts moved by more than is charged")]
    if paid < limit * (1.0 - _LEFT):
        text = f"of mu = {cost.mu:.4g} only {math.sqrt(paid):.4g} passed the door"
        return [("not covered", f"{text}: steps of compiled chains, or noise of one's own")]
    return []


def _batches(cost, movements):
    """Compare steps on batches, each with what it is charged, and how often the record was in one."""
    steps = [(passage, own) for passage, own in movements if passage.kind == "batch"]
    if len(steps) < sum(part.count for part in cost.sampled):
        return [("not covered", "steps on batches, which are charged for")]
    if not steps:
        return []
    most = records_moved(cost.neighboring_relation)
    paid = sorted(most / part.noise_multiplier for part in cost.sampled for _ in range(part.count))
    drawn = sorted(passage.charged for passage, _ in steps)
    rates = {passage.rate for passage, _ in steps}
    if (
        len(drawn) > len(paid)
        or rates != {part.sampling_rate for part in cost.sampled}
        or any(own > charge * _ROUNDING for own, charge in zip(drawn, paid, strict=True))
    ):
        return [("cost", f"{len(drawn)} steps on batches, of which {len(paid)} are charged for")]
    text = check_rate([own / passage.charged for passage, own in steps], max(rates))
    return [("sensitivity", text)] if text else []


def check_rate(shares, rate):
    """Return what is wrong if a record moved more steps on batches than it may at a rate, or None."""
    shares = np.asarray(shares)
    # Of records that are alike in both tables none is seen.
    n_seen = int((shares > 1e-6).sum())
    if binom.sf(n_seen - 1, shares.size, rate) < _UNLIKELY:
        return f"the record was in {n_seen} of {shares.size} batches, of rate {rate:.3g}"
    return None


def _thresholds(cost, movements, max_records):
    """Compare with what they cost how likely values of a single record, or person, reach thresholds."""
    counts = [passage for passage, _ in movements if passage.kind == "counts" and passage.noise]
    if any(one.threshold is None for one in counts):
        return [("not covered", "a threshold of counts, or their noise")]
    moves = (
        records_moved(between_rows(cost.neighboring_relation))
        if max_records == 1
        else 2 * max_records
    )
    kept = [norm.sf((one.threshold - max_records) / one.noise) for one in counts]
    # Propositions 51 and 53.
    likely = math.fsum(f / (1.0 - f) if f < 1.0 else math.inf for f in kept) * moves
    if likely > cost.failure * _ROUNDING:
        text = (
            f"values of one {'record' if max_records == 1 else 'person'} are kept with probability "
            f"{likely:.3g}, and {cost.failure:.3g} of delta is charged for that"
        )
        return [("cost", text)]
    return []


def _choices(cost, movements):
    drawn = sorted(_groups(movements, "choice"), reverse=True)
    paid = sorted((bit.log_odds_range for bit in cost.bits for _ in range(bit.count)), reverse=True)
    if len(drawn) < len(paid):
        return [("not covered", f"of {len(paid)} choices only {len(drawn)} passed the door")]
    ranges = zip(drawn, [*paid, *[0.0] * (len(drawn) - len(paid))], strict=True)
    if any(own > most * _ROUNDING for own, most in ranges):
        return [("cost", f"{len(drawn)} choices, of which {len(paid)} are charged for")]
    return []


def _laplace(cost, movements):
    charged = _groups(movements, "laplace")
    paid = math.fsum(part.level * part.count for part in cost.pure)
    if None in charged:
        return [("not covered", "it is not known what a release with Laplace noise is charged")]
    drawn = math.fsum(charged)
    if drawn > paid * _ROUNDING:
        return [("cost", f"Laplace noise is charged epsilon = {drawn:.6g}, and costs {paid:.6g}")]
    if drawn < paid * (1.0 - _LEFT):
        return [("not covered", f"of epsilon = {paid:.4g} only {drawn:.4g} passed the door")]
    return []
