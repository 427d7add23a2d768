"""The law of counts given what was released of them: their spread, and moments where they are clipped.

    Y ~ law(mu),      log mu = z . u + o + shift

A `CountLaw` and a shift of all logits are looked for together, on a grid: of what is released, the histogram
``h_b``, the squares ``s_k`` and the sums ``w . g_k`` with ``w . z = 1`` depend on little else. Where few
counts are clipped, a noisy sum says what their mean is, and otherwise how many are not zero: then the law
matters, and so does what is not known of it.
"""

import math
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr, pdtrc, softmax

from ..._jit import compiled
from ...models.families.poisson import CountLaw, distribution, partial_moments

# How many records have which counts and exposures. It says where to begin, however large both are.
#
#     h_b = sum_i w_i [y_i in bin b] + N,      bins 0, 1, 2, 3, 4, 5 to 6, 7 to 8, ..., L
#
# A record is in one bin, so that two tables are at most ``sqrt(q) w`` apart. ``L``, to which larger
# counts are reduced, has the last bin, which says how many they may be. Exposures have bins of a
# constant ratio, beyond the last of which they are counted there.


# Ratio of the ends of neighbouring bins of counts.
_BIN_GROWTH = 1.4
# Most bins of counts.
_MOST_BINS = 300
# Ratio of the ends of a bin of exposures. An exposure of 1 is in the middle of one.
_RATIO = np.sqrt(2.0)
# Number of bins of exposures.
_N_EXPOSURES = 81
# Number of bins next to the largest that count as near it.
_N_NEAR_BINS = 4
# Deviations of the noise up to which a bin near the largest is taken to be empty.
_NEAR_BIN_Z_SCORE = 2.5
# Deviations of the noise up to which a bin farther off is taken to be empty.
_FAR_BIN_Z_SCORE = 4.0
# How much larger a rate of a few records may be.
_LARGER_RATE = 10.0
# Over the mean, counts that tell of it.
_LARGE_COUNTS = 5.0
# Deviations of the noise that hide how many there are.
_HIDING_Z_SCORE = 2.0


def count_edges(largest):
    """The first counts of all bins but the first, which begins at 0; the last has the largest."""
    edges = [1.0]
    while edges[-1] < largest and len(edges) < _MOST_BINS:
        edges.append(max(edges[-1] + 1.0, float(np.floor(edges[-1] * _BIN_GROWTH))))
    return np.array([*(edge for edge in edges if edge < largest), float(largest)])


def exposure_edges():
    """The logarithms of exposures between two bins."""
    return np.log(_RATIO) * (np.arange(_N_EXPOSURES - 1) - 0.5 * (_N_EXPOSURES - 2))


def counts_seen(values, noise, largest, n):
    """Numbers distributed as released counts say they are, in order.

    Parameters
    ----------
    values : ndarray of shape (n_bins,)
        The histogram, with noise.
    noise : float
        Deviation of the noise.
    largest : float
        Of counts.
    n : int
        How many numbers.
    """
    edges = count_edges(largest)
    ends = np.concatenate([[0.0], edges, [largest + 1.0]])
    return np.minimum(np.floor(_spread(ends, values, noise, n)), largest)


def share_of_largest(values, noise):
    """The share of counts at the largest, from below.

    Parameters
    ----------
    values : ndarray of shape (n_bins,)
        The histogram, with noise.
    noise : float
        Deviation of the noise.
    """
    total = values.sum()
    if total <= _FAR_BIN_Z_SCORE * noise * np.sqrt(values.size):
        return 0.0  # Noise hides how many counts there are.
    share = values[-1] / total
    of_whole = 1.0 - 2.0 * share + values.size * share**2
    return float(share - _NEAR_BIN_Z_SCORE * noise * np.sqrt(of_whole) / total)


def hidden_share_of_large(noise, largest, mean, n_records):
    """The share of records with ten times the rate of others that a histogram leaves open, 1 at most.

    It is what noise hides of counts that are five times the mean or more, and what others have there, which
    the law of counts may have to explain, over the share of such records that have as large a count.

    Parameters
    ----------
    noise : float
        Deviation of the noise of a bin.
    largest, mean : float
        Of counts.
    n_records : float
    """
    first = math.ceil(_LARGE_COUNTS * mean)
    if first > largest:
        return 0.0  # Where counts are reduced to less, so are those of such records.
    n_bins = max(int(np.count_nonzero(count_edges(largest) >= first)), 1)
    hidden = _HIDING_Z_SCORE * noise * math.sqrt(n_bins) / n_records
    unexplained = _TAIL_ERROR * float(pdtrc(first - 1, mean))
    return min((hidden + unexplained) / float(pdtrc(first - 1, _LARGER_RATE * mean)), 1.0)


def log_exposures_seen(values, noise, n):
    """Logarithms of exposures as released ones say they are, in order; as for `counts_seen`."""
    edges = exposure_edges()
    step = edges[1] - edges[0]
    log_exposures = _spread(
        np.concatenate([[edges[0] - step], edges, [edges[-1] + step]]), values, noise, n
    )
    # Exposures that do not differ are most likely 1.
    return np.zeros(n) if np.all(np.abs(log_exposures) <= 0.5 * step) else log_exposures


def typical_exposure(values, noise, log_exposures):
    """The exposure that half of all exceed; at most 1 if noise hides it, as units should make it.

    Parameters
    ----------
    values : ndarray of shape (n_bins,)
        The histogram, with noise.
    noise : float
        Deviation of the noise.
    log_exposures : ndarray of shape (n,)
        Of `log_exposures_seen`.
    """
    exposure = float(np.exp(np.median(log_exposures)))
    return exposure if values.max() > _FAR_BIN_Z_SCORE * noise else min(exposure, 1.0)


def _spread(ends, values, noise, n):
    """Numbers of which each bin has its share, evenly between its ends."""
    largest = int(np.argmax(values))
    near = np.abs(np.arange(values.size) - largest) <= _N_NEAR_BINS
    kept = np.where(
        values > np.where(near, _NEAR_BIN_Z_SCORE, _FAR_BIN_Z_SCORE) * noise, values, 0.0
    )
    kept[largest] = max(values[largest], noise)
    shares = np.append(0.0, np.cumsum(kept / kept.sum()))
    return np.interp((np.arange(n) + 0.5) / n, shares, ends)


# Moments of a count that is clipped.
#
#     psi = min(max(min(Y, L) - m, -tau), tau),      Y ~ law(mu)


# Means are cut here: all counts are clipped.
_LARGEST_MEAN = 1e15


class ClippedCount(NamedTuple):
    """Moments of a clipped count.

    Attributes
    ----------
    mean, square : ndarray
        ``E psi`` and ``E psi^2``.
    below, above : ndarray
        What clips take on average, on either side: ``E max(m - tau - Y, 0)``, and that of what is too large.
    """

    mean: np.ndarray
    square: np.ndarray
    below: np.ndarray
    above: np.ndarray


def clipped_count(mean, centre, clip, law, largest):
    """The `ClippedCount` of arrays that are broadcast together.

    Parameters
    ----------
    mean, centre, clip : ndarray or float
        ``mu``, ``m`` and ``tau``.
    law : CountLaw or float
        A number is the dispersion.
    largest : float
        ``L``.
    """
    mean = np.minimum(mean, _LARGEST_MEAN)
    low, high = centre - clip, np.minimum(centre + clip, largest)
    high = np.maximum(low, high)
    # Counts up to ``first`` are clipped to ``low``, and those above ``last`` to ``high``.
    first = np.floor(low)
    last = np.maximum(np.ceil(high) - 1.0, first)
    below, *sums_below = partial_moments(first, mean, law)
    inside, *sums_inside = partial_moments(last, mean, law)
    inside = np.maximum(inside, below)
    of_count, of_pairs = (
        np.maximum(larger - smaller, 0.0)
        for larger, smaller in zip(sums_inside, sums_below, strict=True)
    )
    above = 1.0 - inside
    value = low * below + of_count + high * above
    square = low**2 * below + of_count + of_pairs + high**2 * above
    return ClippedCount(
        value - centre,
        np.maximum(square - 2.0 * centre * value + centre**2, 0.0),
        np.maximum(low * below - sums_below[0], 0.0),
        np.maximum(mean - sums_inside[0] - high * above, 0.0),
    )


def lognormal_excess(mean, ends, law, inflation=1.0):
    """``E max(rate - end, 0)`` if rates differ as a law says, and have a lognormal law.

    Parameters
    ----------
    mean, ends : ndarray
        Of counts, and where they are cut.
    law : CountLaw
    inflation : float, default=1
        Of the variance of rates.
    """
    inner = np.maximum(mean, _LEAST_SHARE_SQUARE) / (1.0 - law.zeros)
    variance = np.log1p(inflation * ((law.dispersion - 1.0) / inner + law.growth))
    variance = variance + _LEAST_SHARE_SQUARE
    ends = np.maximum(ends, _LEAST_SHARE_SQUARE)
    place, sd = np.log(inner / ends), np.sqrt(variance)
    above = inner * ndtr(place / sd + 0.5 * sd) - ends * ndtr(place / sd - 0.5 * sd)
    return (1.0 - law.zeros) * np.maximum(above, 0.0)


# What is believed of the law, on a grid: Poisson's, one whose variance grows with the mean or with its
# square, more zeros, and more zeros with a variance that grows with the square.
_DISPERSIONS = (1.04, 1.09, 1.15, 1.23, 1.35, 1.5, 1.7, 2.0, 2.5, 3.3, 5.0, 9.0, 16.0, 30.0)
_GROWTHS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0)
_ZEROS = (0.03, 0.07, 0.15, 0.25, 0.4, 0.55, 0.7, 0.85)
_BOTH = tuple(product((0.35, 1.0, 2.5), (0.15, 0.4, 0.7)))
_SHIFTS = np.linspace(-0.6, 0.6, 9)
# Logarithms of means at which the distribution function of counts is tabulated.
_LOG_MEAN_STEP = 0.05
# Prior mean of ``phi - 1``, ``a`` and the odds of ``pi``, beyond which large ones become improbable.
_USUAL_EXCESS = 0.3
# Relative errors of expectations: rows are not quite those of the population.
_EXPECTATION_ERROR = 0.03
_LEAST_SHARE_SQUARE = 1e-12
# Laws that have at least this share of the probability of the likeliest one are kept.
_LEAST_RELATIVE_PROBABILITY = 0.02
# Most laws that are kept.
_MOST_LAWS = 8
# Factors by which parameters of the likeliest law are changed, one round after the other.
_REFINEMENTS = (1.3, 1.14)
# By how much of what clips take on average the law may be wrong, for each deviation by which it is off.
_LAW_ERROR = 0.1
# Deviations of noise beyond which a bin is seen not to be empty.
_VISIBLE_BIN = 3.0
# Deviations beyond which counts are seen to have more above a bin.
_SEEN_TAIL = 2.0
# Relative error of what a law has above a bin, as rows are about known.
_TAIL_ERROR = 0.5
# By how much of the difference to rates with a lognormal law it may be wrong.
_MIXING_ERROR = 0.7
# Deviations by which releases are off on average, though the law is right, as rows are about known.
_USUAL_DISCREPANCY = 1.5


def _log_prior(law):
    """The logarithm of a law's prior density, up to a constant."""
    excess = max(law.dispersion - 1.0, law.growth) + law.zeros / (1.0 - law.zeros)
    return -2.0 * math.log1p(excess / _USUAL_EXCESS)


@cache
def _grid():
    """Laws, and the logarithms of their prior probabilities, by which no family is preferred."""
    families = (
        [(1.0, 0.0, 0.0)],
        [(value, 0.0, 0.0) for value in _DISPERSIONS],
        [(1.0, value, 0.0) for value in _GROWTHS],
        [(1.0, 0.0, value) for value in _ZEROS],
        [(1.0, *values) for values in _BOTH],
    )
    found: dict[CountLaw, float] = {}
    for family in families:
        logs = {CountLaw(*values): _log_prior(CountLaw(*values)) for values in family}
        total = logsumexp(list(logs.values()))
        found |= {law: log - total for law, log in logs.items()}
    return found


def stacked(laws):
    """One `CountLaw` with parameters of shape (n_laws, 1, 1)."""
    return CountLaw(*np.array(list(laws)).T[:, :, None, None])


def _near(law, factor):
    """Laws with a parameter that is larger, or smaller, by a factor."""
    for ratio in (factor, 1.0 / factor):
        if law.dispersion > 1.0:
            yield law._replace(dispersion=1.0 + ratio * (law.dispersion - 1.0))
        if law.growth:
            yield law._replace(growth=ratio * law.growth)
        if law.zeros:
            odds = ratio * law.zeros / (1.0 - law.zeros)
            yield law._replace(zeros=odds / (1.0 + odds))


class BelievedLaws(NamedTuple):
    """Laws of counts and their posterior probabilities.

    Attributes
    ----------
    laws : tuple of CountLaw
    probabilities : ndarray of shape (n_laws,)
    discrepancy : float
        Deviations by which releases are off on average (root mean square) under the likeliest law.
    tails : ndarray of shape (2, n_bins)
        What counts have above the bins of a histogram, on average, under that law, in ascending order, and by
        how much more they are seen to have.
    """

    laws: tuple
    probabilities: np.ndarray
    discrepancy: float = _USUAL_DISCREPANCY
    tails: np.ndarray = np.zeros((2, 1))

    @property
    def mean(self):
        """The `CountLaw` with their mean parameters."""
        return CountLaw(*map(float, self.probabilities @ np.array(self.laws)))

    def leanings(self, means, centres, clips, largest):
        """Errors that means of clipped counts may have, as the law is not known: independent parts.

        Parameters
        ----------
        means, centres : ndarray of shape (n_rows,)
            Of counts, and what is subtracted from them.
        clips : ndarray of shape (n_clips,)
        largest : float
            Of counts.

        Returns
        -------
        parts : ndarray of shape (n_parts, n_clips, n_rows)
        """
        given = means, centres, clips[:, None]
        believed = clipped_count(*given, self.mean, largest)
        low = centres - clips[:, None]
        high = np.maximum(low, np.minimum(centres + clips[:, None], largest))
        # What is beyond an end, and what is on its other side, are as wrong: their difference is known.
        below = np.minimum(believed.below, believed.below + means - low)
        above = np.minimum(believed.above, np.maximum(believed.above + high - means, 0.0))
        discrepancy = max(self.discrepancy, _USUAL_DISCREPANCY)
        error = _LAW_ERROR * discrepancy
        taken = np.maximum(above.mean(axis=1, keepdims=True), _LEAST_SHARE_SQUARE)
        of_tail = np.interp(taken, *self.tails) / taken
        parts = [error * below, np.maximum(error, of_tail) * above]
        # Rates that differ need not have a gamma law, as counts are taken to have, nor its variance.
        inflation = discrepancy / _USUAL_DISCREPANCY
        heavier = lognormal_excess(means, high, self.mean, inflation) - believed.above
        parts.append(_MIXING_ERROR * np.maximum(heavier, 0.0))
        if len(self.laws) > 1:
            apart = clipped_count(*given, stacked(self.laws), largest).mean - believed.mean
            parts.extend(np.sqrt(self.probabilities)[:, None, None] * apart)
        # Where all counts are cut below the lower end, nothing depends on the law.
        return np.array(parts) * (low < largest)


# What is believed before anything is released.
PRIOR_LAWS = BelievedLaws(
    (CountLaw(), CountLaw(1.3), CountLaw(1.0, 0.3)), np.array([0.4, 0.3, 0.3])
)


class Margin(NamedTuple):
    """Released numbers that depend on the law and a shift.

    Attributes
    ----------
    values, noises : ndarray of shape (n,)
        What was released, and deviations of the noise, both over the number of records.
    expected : callable
        Maps means of rows, of shape (n_shifts, n_rows), and laws, stacked, to expectations of what a record
        adds, of shape (n_laws, n_shifts, n), and of its square.
    counts : ndarray of shape (n,) or None, default=None
        Of a histogram, those in the middle of its bins.
    """

    values: np.ndarray
    noises: np.ndarray
    expected: Callable
    counts: np.ndarray | None = None


def of_histogram(values, noise, edges):
    """The `Margin` of a histogram with edges between its bins."""
    last = np.ceil(edges) - 1.0

    def expected(means, law):
        # Of means of a law with more zeros, those of the law without them are tabulated.
        logs = np.log(np.maximum(means, _LEAST_SHARE_SQUARE) / (1.0 - law.zeros))
        low = logs.min()
        nodes = low + _LOG_MEAN_STEP * np.arange(2 + int((logs.max() - low) / _LOG_MEAN_STEP))
        table = distribution(last, np.exp(nodes)[:, None], law._replace(zeros=0.0))
        place = (logs - low) / _LOG_MEAN_STEP
        node = np.minimum(place.astype(int), nodes.size - 2)
        up_to = law.zeros + (1.0 - law.zeros) * _mean_between(table, node, place - node)
        shares = np.maximum(np.diff(up_to, axis=-1, prepend=0.0, append=1.0), 0.0)
        return shares, shares

    first = np.concatenate([[0.0], np.ceil(edges)])
    counts = np.append(0.5 * (first[:-1] + first[1:] - 1.0), edges[-1])
    return Margin(values, np.full(values.size, noise), expected, counts)


@compiled
def _mean_between(tables, nodes, t):
    """Means over rows, of shape (n_laws, n_shifts, n), of tables (n_laws, n_nodes, n) between their nodes."""
    n_laws, n_shifts, n_rows = nodes.shape
    means = np.zeros((n_laws, n_shifts, tables.shape[2]))
    for law in range(n_laws):
        for shift in range(n_shifts):
            for i in range(n_rows):
                node, share = nodes[law, shift, i], t[law, shift, i]
                for k in range(tables.shape[2]):
                    low, high = tables[law, node, k], tables[law, node + 1, k]
                    means[law, shift, k] += (low + share * (high - low)) / n_rows
    return means


def margin_of_sum(square, weights, centres, largest, along):
    """The `Margin` of a noisy sum.

    Parameters
    ----------
    square : NoisySum
        The mean square of its residuals.
    weights, centres : ndarray of shape (n_rows,)
    largest : float
        Of counts.
    along : tuple of (float, float) or None
        ``w . g`` and the deviation of its noise; None without an intercept.
    """

    def expected(means, law):
        clipped = clipped_count(means, centres, square.clip, law, largest)
        mean = clipped.square.mean(axis=-1)
        first, second = [mean], [square.clip**2 * mean]
        if along is not None:
            first.append(np.mean(weights * clipped.mean, axis=-1))
            second.append(np.mean(weights**2 * clipped.square, axis=-1))
        return np.stack(first, axis=-1), np.stack(second, axis=-1)

    pairs = [(square.value, square.noise)] + ([] if along is None else [along])
    values, noises = map(np.array, zip(*pairs, strict=True))
    return Margin(values, noises, expected)


def laws_given(margins, logits, n_records, shifts, all_logits=None):
    """The `BelievedLaws`.

    Parameters
    ----------
    margins : list of Margin
    logits : ndarray of shape (n_rows,)
        Of rows, with what is not known of them.
    n_records : float
    shifts : bool
        Whether there is an intercept, so that all may be shifted.
    all_logits : ndarray of shape (n_all_rows,) or None, default=None
        Of more rows, since how well a histogram fits depends on the largest; None is ``logits``.
    """
    all_logits = logits if all_logits is None else all_logits
    shift = _SHIFTS if shifts else np.zeros(1)
    found: dict[CountLaw, float] = {}
    logits = logits + shift[:, None]

    def explore(priors):
        energies = _energies(margins, logits, stacked(priors), n_records)
        logs = np.logaddexp.reduce(-energies, axis=1) + list(priors.values())
        found.update(zip(priors, map(float, logs), strict=True))
        return max(found, key=lambda law: found[law])

    priors = _grid()
    best = explore(priors)
    prior = priors[best]
    for factor in _REFINEMENTS:
        if near := dict.fromkeys(_near(best, factor), prior):  # Poisson's law has none.
            best = explore(near)
    logs = np.array(list(found.values()))
    kept = np.argsort(-logs)[:_MOST_LAWS]
    kept = kept[logs[kept] >= logs[kept[0]] + math.log(_LEAST_RELATIVE_PROBABILITY)]
    laws, of_best = list(found), np.argmin(_energies(margins, logits, stacked([best]), n_records))
    discrepancy = _discrepancy(margins[0], all_logits + shift[of_best], best, n_records)
    return BelievedLaws(tuple(laws[k] for k in kept), softmax(logs[kept]), *discrepancy)


def _discrepancy(histogram, logits, law, n_records):
    """Deviations by which a histogram is off on average, and tails, as `BelievedLaws` has them."""
    means = np.exp(np.minimum(logits, 30.0))[None]
    first, variance = (
        array[0, 0] for array in _expected(histogram, means, stacked([law]), n_records)
    )
    apart = histogram.values - first
    above = np.maximum(histogram.counts - histogram.counts[:, None], 0.0)
    # What noise makes of empty bins would be taken for a tail.
    visible = histogram.values > _VISIBLE_BIN * histogram.noises
    more, expected = np.maximum(above @ (visible * apart), 0.0), above @ first
    known = _SEEN_TAIL**2 * (above**2 @ (visible * variance)) + (_TAIL_ERROR * expected) ** 2
    tails = np.array([expected, np.sqrt(np.maximum(more**2 - known, 0.0))])
    return float(np.sqrt(np.mean(apart**2 / variance))), tails[:, ::-1]


def _expected(margin, means, law, n_records):
    """Expectations of what was released, and their variances, noise included."""
    first, second = margin.expected(means, law)
    variance = margin.noises**2 + np.maximum(second - first**2, 0.0) / n_records
    return first, variance + (_EXPECTATION_ERROR * first) ** 2 + _LEAST_SHARE_SQUARE


def _energies(margins, logits, law, n_records):
    """The energies of stacked laws, of shape (n_laws, n_shifts), for logits of shape (n_shifts, n_rows)."""
    means, energies = np.exp(np.minimum(logits, 30.0)), 0.0
    for margin in margins:
        first, variance = _expected(margin, means, law, n_records)
        squares = (margin.values - first) ** 2 / variance
        energies = energies + 0.5 * np.sum(squares + np.log(variance), axis=-1)
    return energies


# Clipped means as functions of logits, by cubic polynomials between nodes.
#
#     e(eta) = E psi,      eta = eta_k + delta,      nodes at delta = -4 .. 4
#
# Draws ask for many of them. Beyond the last nodes a mean stays, as all counts are clipped there.


# Largest logit of the table of means; compiled code has it as a constant.
LARGEST_LOGIT = 4.0
# Spacing of the table's nodes.
SPACING = 0.2
_NODES = np.arange(-LARGEST_LOGIT, LARGEST_LOGIT + 0.5 * SPACING, SPACING)


def tabulated(logits, centres, clip, law, largest):
    """Means, and their slopes times the spacing, at the nodes, of shape (n_rows, n_nodes, 2).

    Parameters
    ----------
    logits, centres : ndarray of shape (n_rows,)
        Logits at the noisy sum's point, and what is subtracted from counts there.
    clip, law, largest
        As for `clipped_count`.
    """
    means = np.exp(np.minimum(logits[:, None] + _NODES, 30.0))
    values = clipped_count(means, centres[:, None], clip, law, largest).mean
    slopes = np.gradient(values, axis=1)
    slopes[:, [0, -1]] = 0.0
    return np.stack([values, slopes], axis=2)


@compiled
def looked_up(logits, centres, tables):
    """Means and slopes, of shape (n_sums, n_points, n_rows), for logits of shape (n_points, n_rows).

    ``centres`` has the shape (n_sums, n_rows), and ``tables`` (n_sums, n_rows, n_nodes, 2).
    """
    n_points, n_rows = logits.shape
    n_sums, last = tables.shape[0], tables.shape[2] - 1
    means = np.empty((n_sums, n_points, n_rows))
    slopes = np.empty((n_sums, n_points, n_rows))
    # A row's table is read from memory once for all points.
    for k in range(n_sums):
        for i in range(n_rows):
            table = tables[k, i]
            for b in range(n_points):
                place = (logits[b, i] - centres[k, i] + LARGEST_LOGIT) * (1.0 / SPACING)
                inside = 0.0 < place < last
                place = min(max(place, 0.0), last - 1e-9)
                node = np.uint64(place)
                t = place - node
                y, m = table[node, 0], table[node, 1]
                node += np.uint64(1)
                step, n = table[node, 0] - y, table[node, 1]
                c, d = 3.0 * step - 2.0 * m - n, m + n - 2.0 * step
                means[k, b, i] = y + t * (m + t * (c + t * d))
                slopes[k, b, i] = (
                    (m + t * (2.0 * c + 3.0 * t * d)) * (1.0 / SPACING) if inside else 0.0
                )
    return means, slopes


# What is subtracted from counts, so that clips take as much from one tail as from the other.
#
#     E psi_tau(min(Y, L) - a(eta)) = 0      for  E Y = exp(eta)
#
# With ``a`` in the place of the mean, a noisy sum at the true point has the mean 0, whatever
# the rows. ``a`` is monotone, and linear between nodes; beyond the last it stays.


# Logit of the first node.
FIRST_NODE = -12.0
# Distance of two nodes.
_DISTANCE = 0.04
# Number of bisections.
_HALVINGS = 30


class Centre(NamedTuple):
    """A function of logits, linear between nodes.

    Attributes
    ----------
    nodes, values : ndarray of shape (n_nodes,)
    """

    nodes: np.ndarray
    values: np.ndarray

    def __call__(self, logits):
        """The centres that are subtracted from counts."""
        return np.interp(logits, self.nodes, self.values)

    @property
    def largest(self):
        """No value, and no slope, is larger."""
        slopes = np.diff(self.values) / np.diff(self.nodes)
        return float(max(self.values[-1], slopes.max()))


def centre_for(clip, law, largest):
    """The `Centre` for a clip, a law and the largest count.

    Parameters
    ----------
    clip, law, largest
        As for `clipped_count`; the clip is at least 1, so that the equation has one solution.
    """
    last = max(np.log(2.0 * largest), FIRST_NODE + 1.0)
    nodes = np.linspace(FIRST_NODE, last, int(np.ceil((last - FIRST_NODE) / _DISTANCE)) + 1)
    low, high = np.zeros(nodes.size), np.full(nodes.size, float(largest))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        value = clipped_count(np.exp(nodes), middle, clip, law, largest).mean
        low, high = np.where(value > 0, middle, low), np.where(value > 0, high, middle)
    return Centre(nodes, np.maximum.accumulate(0.5 * (low + high)))


# The clip with which a sum of clipped counts says most.
#
#     (q C tau nu)^2 + n E psi^2 + |n b|^2 / length,      over  Cov(psi, y)^2,      is least
#
# The tighter a clip, the more a noisy sum depends on the law of counts: ``b`` is how much its mean may be
# off, as the law is not known. So clips are wider where noise is small.


# Least clip: with a smaller one, a count of 1 would be reduced, too, where most are 0.
LEAST_CLIP = 1.0
# Least clip in deviations of residuals, as a noisy sum far from the mode should tell how far it is.
_LEAST_CLIP_IN_SDS = 1.0
# Number of clips that are tried.
_N_CLIPS = 25


def best_count_clip(counts, means, centres, noise_per_clip, n_records, largest, leanings=None):
    """The clip.

    Parameters
    ----------
    counts, means, centres : ndarray of shape (n,)
        Counts as they may be, their means, and what is subtracted from them.
    noise_per_clip : float
        Noise of a noisy sum, for a clip of 1.
    n_records : float
    largest : float
        Of counts.
    leanings : callable or None, default=None
        Maps clips to ``b`` for each, independent parts of it: of shape (n_parts, n_clips, length).
    """
    least = max(LEAST_CLIP, _LEAST_CLIP_IN_SDS * float(np.std(counts - centres)))
    most = max(largest, float(np.max(means)), 2.0 * least)
    clips = np.geomspace(least, most, _N_CLIPS)
    psi = np.clip(counts - centres, -clips[:, None], clips[:, None])
    variances = (noise_per_clip * clips) ** 2 + n_records * np.mean(psi**2, axis=1)
    if leanings is not None:
        variances += n_records**2 * np.sum(np.mean(leanings(clips) ** 2, axis=2), axis=0)
    raised = counts - means
    slopes = psi @ (raised - raised.mean()) / raised.size
    return float(clips[np.argmin(variances / np.maximum(slopes, 1e-12) ** 2)])
