"""Stability histograms, and the random number of runs of a private selection.

    kept = {c : count_c + N(0, sigma^2) >= threshold},    threshold = 1 + sigma z,    P(N(0, 1) >= z) = f

(stability-based histograms, Korolova et al., 2009). Only values that occur are counted. A value of a single
record is kept with probability ``f``, which delta pays for; the counts of all others are a Gaussian
mechanism. Where persons have up to ``k`` records, ``threshold = k + sigma z``, for values of one person only.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import norm

from ..privacy.conversions import gaussian_mu
from ..privacy.cost import PrivacyCost
from ..privacy.losses import number_law
from ..privacy.rounding import lattice_spacing, on_lattice
from .audit_hook import ReleaseEvent, audited_release

# Share of delta for values of a single record, or of a single person.
_FAILURE_SHARE = 0.5


class Threshold(NamedTuple):
    """Which counts are kept, and at what cost.

    Attributes
    ----------
    noise_scale : float
        Standard deviation of the noise of a count; 0 without privacy.
    threshold : float
        The noisy count from which on a value is kept.
    cost : PrivacyCost
        Of all histograms together.
    """

    noise_scale: float
    threshold: float
    cost: PrivacyCost


def plan_threshold(budget, n_histograms, max_records=1):
    """The threshold for histograms, in each of which a record counts once, within a budget.

    Parameters
    ----------
    budget : Budget
        With a delta above 0, if it is private.
    n_histograms : int
    max_records : int, default=1
        How many records of a person there may be. If more than one, the cost is for records, but for its
        ``failure``, which is for persons who come, go or are replaced.

    Returns
    -------
    threshold : Threshold
    """
    sensitivity = math.sqrt(budget.sensitivity_factor * n_histograms)
    share = _FAILURE_SHARE * budget.delta
    # Proposition 51: f / (1 - f) for each value that only a single record of one table has, and
    # Proposition 53 for each that only one person has.
    moves = budget.sensitivity_factor if max_records == 1 else 2 * max_records
    failure = share / (share + moves * n_histograms) if share else 0.0
    mu = gaussian_mu(budget.epsilon, budget.delta - share)
    scale = sensitivity / mu if budget.is_private else 0.0
    threshold = max_records + scale * (norm.isf(failure) + 1e-6) if budget.is_private else 1.0
    return Threshold(
        scale, threshold, PrivacyCost(budget.neighboring_relation, mu=mu, failure_probability=share)
    )


def stability_histogram(counts, noise_scale, threshold, generator):
    """The values whose noisy counts reach a threshold, with these counts.

    Parameters
    ----------
    counts : sequence of (value, int)
        Values that occur, in an order that they alone decide.
    noise_scale, threshold : float
        As in `Threshold`.
    generator : numpy.random.Generator

    Returns
    -------
    kept : dict of {value: float}
        In the order of ``counts``.
    """
    # Counts are points of any lattice as fine as the integers, so that rounding moves none.
    spacing = min(1.0, lattice_spacing(noise_scale)) if noise_scale else 0.0

    def release(counts=counts):
        kept = {}
        for value, count in counts:
            count = float(count)
            if noise_scale:
                noise = noise_scale * generator.standard_normal(1)  # Proposition 51.
                count = on_lattice(np.array([count]), noise, spacing)[0]
            if count >= threshold:
                kept[value] = float(count)
        return kept

    event = ReleaseEvent(
        "counts",
        dict(counts),
        noise_scale,
        without_records=release,
        threshold=threshold if noise_scale else None,
    )
    return audited_release(event, release, generator)


# The random number of runs of a private selection, of which only the best is released.


def draw_number(generator, mean, shape):
    """Draw the number of runs.

    Parameters
    ----------
    generator : numpy.random.Generator
        Of private randomness: the number is not to be known.
    mean, shape : float
        As for `SelectedRun`.

    Returns
    -------
    number : int
        At least 1.
    """
    law, number = number_law(mean, shape), 0
    if mean == 1:
        return 1
    if shape == 0:
        return int(generator.logseries(1.0 - law))  # Proposition 43.
    while number == 0:
        poisson = math.isinf(shape)
        # Proposition 43.
        number = generator.poisson(law) if poisson else generator.negative_binomial(shape, law)
    return int(number)
