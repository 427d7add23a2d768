"""The law of counts given what was released of them: dispersion, few trials, clipped moments.

    Var Y = phi E Y,      log E Y = z . u + o + a

``phi`` and a shift ``a`` of all logits are looked for together, on a grid: of what is released, the histogram
``h_b``, the squares ``s_k`` and the sums ``w . g_k`` with ``w . z = 1`` depend on little else. Where few
counts are clipped, a noisy sum says what their mean is, and otherwise how many are not zero: then ``phi``
matters, and so does what is not known of it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr, logsumexp, pdtr

from ..._jit import compiled
from ...models.families.poisson import distribution, partial_moments

# Whether counts are of a few trials, as answers of yes and no are, by their released histogram.
#
#     B = mean over N of  p(h | Y_i ~ Binomial(N, m_i / N))  /  p(h | Y_i ~ Poisson(m_i)),      N = 1, 2, 3, 5
#
# ``p`` is a mean over shifts of all logits and over how much they differ, with the same weights above
# and below. If counts follow Poisson's law, ``B`` has the mean 1 a priori, whatever the noise, and
# exceeds ``b`` with a probability of at most ``1 / b``. Overdispersed counts make the evidence smaller
# still. Where noise hides the histogram, ``B`` is about 1.


_TRIALS = (1, 2, 3, 5)
# Grid for the shift by which logits may be off.
_LOGIT_SHIFTS = np.linspace(-1.5, 1.5, 151)
# Grid for the spread of logits, relative to the one expected.
_SPREADS = (0.0, 0.5, 1.0)
# Relative error of shares, as rows are not quite those of the synthetic design.
_SHARE_ERROR = 0.05
# Largest logarithm of a mean.
_LARGEST_LOG_MEAN = 30.0
# Least variance of a share.
_LEAST_SHARE = 1e-24


def evidence_of_few_trials(values, noise, edges, logits, n_records):
    """The logarithm of ``B``.

    Parameters
    ----------
    values : ndarray of shape (n_bins,)
        The histogram, over the number of records.
    noise : float
        Deviation of its noise, over the number of records.
    edges : ndarray of shape (n_bins - 1,)
        First counts of all bins but the first.
    logits : ndarray of shape (n_rows,)
        Of rows, as far as they are known.
    n_records : float
    """

    def density(up_to):
        parts = [_logs(values, noise, edges, means, n_records, up_to) for means in _means(logits)]
        return logsumexp(parts)

    few = [density(lambda k, mean, n=n: _binomial(k, n, mean)) for n in _TRIALS]
    return float(logsumexp(few) - np.log(len(few)) - density(pdtr))


def _binomial(counts, n_trials, mean):
    """``P(Y <= k)``."""
    probabilities = bdtr(np.minimum(counts, n_trials), n_trials, np.minimum(mean / n_trials, 1.0))
    return np.where(counts >= n_trials, 1.0, probabilities)


def _means(logits):
    """Yield means of rows of shape (n_shifts, n_rows), for all spreads."""
    for spread in _SPREADS:
        spread_out = spread * logits
        spread_out += logsumexp(logits) - logsumexp(spread_out)  # Of the same mean.
        yield np.exp(np.minimum(spread_out + _LOGIT_SHIFTS[:, None], _LARGEST_LOG_MEAN))


def _logs(values, noise, edges, means, n_records, up_to):
    """Logarithms of densities of the histogram, one for each shift, up to a constant."""
    inside = up_to(np.ceil(edges) - 1.0, means[:, :, None]).mean(axis=1)
    shares = np.maximum(np.diff(inside, prepend=0.0, append=1.0), 0.0)
    of_one = shares * (1.0 - shares)
    variances = noise**2 + of_one / n_records + (_SHARE_ERROR * of_one) ** 2 + _LEAST_SHARE
    return -0.5 * np.sum((values - shares) ** 2 / variances + np.log(variances), axis=1)


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


# Moments of a count that is clipped, of Poisson's law or with more variance.
#
#     psi = min(max(min(Y, L) - m, -tau), tau),      E Y = mu,  Var Y = phi mu
#
# For ``phi > 1`` counts are negative binomial, see `skdpbayes.models.families.poisson`.


# Means are cut here: all counts are clipped.
_LARGEST_MEAN = 1e15


def clipped_count(mean, centre, clip, dispersion, largest):
    """The mean of ``psi`` and that of its square, for arrays that are broadcast together.

    Parameters
    ----------
    mean : ndarray
        ``mu``.
    centre : ndarray
        ``m``.
    clip, dispersion, largest : float
        ``tau``, ``phi`` and ``L``.
    """
    mean = np.minimum(mean, _LARGEST_MEAN)
    low, high = centre - clip, np.minimum(centre + clip, largest)
    high = np.maximum(low, high)
    # Counts up to ``first`` are clipped to ``low``, and those above ``last`` to ``high``.
    first, last = np.floor(low), np.ceil(high) - 1.0
    below, *sums_below = partial_moments(first, mean, dispersion)
    inside, *sums_inside = partial_moments(last, mean, dispersion)
    inside = np.maximum(inside, below)
    of_count, of_pairs = (
        np.maximum(larger - smaller, 0.0)
        for larger, smaller in zip(sums_inside, sums_below, strict=True)
    )
    above = 1.0 - inside
    value = low * below + of_count + high * above
    square = low**2 * below + of_count + of_pairs + high**2 * above
    return value - centre, np.maximum(square - 2.0 * centre * value + centre**2, 0.0)


_DISPERSIONS = np.array([1.0, 1.04, 1.09, 1.15, 1.23, 1.35, 1.5, 1.7, 2.0, 2.5, 3.3, 5.0, 9.0])
_SHIFTS = np.linspace(-0.6, 0.6, 9)
# Logarithms of means at which the distribution function of counts is tabulated.
_LOG_MEAN_STEP = 0.04
_LOG_MEANS = np.arange(-12.0, 16.0, _LOG_MEAN_STEP)
# Prior mean of ``phi - 1``.
_USUAL_EXCESS = 0.3
# Least deviation of ``log phi``.
_LEAST_LOG_SD = 0.02
# Relative errors of expectations: rows are not quite those of the population.
_EXPECTATION_ERROR = 0.03
# Relative error of squares of residuals, where it is asked whether counts vary less than Poisson's law says.
_SQUARE_ERROR = 0.03
_LEAST_SHARE_SQUARE = 1e-12


class Dispersion(NamedTuple):
    """The posterior of ``phi``: its median and the standard deviation."""

    value: float
    sd: float

    @property
    def ends(self):
        """Two values, twice the deviation apart, of which none is below 1."""
        low = max(1.0, self.value - self.sd)
        return low, low + 2.0 * self.sd


# What is believed before anything is released.
PRIOR_DISPERSION = Dispersion(1.0 + _USUAL_EXCESS, _USUAL_EXCESS)


class Margin(NamedTuple):
    """Released numbers that depend on ``phi`` and a shift.

    Attributes
    ----------
    values, noises : ndarray of shape (n,)
        What was released, and deviations of the noise, both over the number of records.
    expected : callable
        Maps means of rows, of shape (..., n_rows), and ``phi`` to expectations of what a record adds, of
        shape (..., n), and of its square.
    """

    values: np.ndarray
    noises: np.ndarray
    expected: Callable


def of_histogram(values, noise, edges):
    """The `Margin` of a histogram with edges between its bins."""
    last, tables = np.ceil(edges) - 1.0, {}

    def expected(means, dispersion):
        if dispersion not in tables:
            table = distribution(last[:, None], np.exp(_LOG_MEANS), dispersion)
            tables[dispersion] = np.vstack(
                [np.zeros(_LOG_MEANS.size), table, np.ones(_LOG_MEANS.size)]
            )
        place = (np.log(np.maximum(means, _LEAST_SHARE_SQUARE)) - _LOG_MEANS[0]) / _LOG_MEAN_STEP
        place = np.clip(place, 0.0, _LOG_MEANS.size - 1.001)
        node = place.astype(int)
        table, t = tables[dispersion], place - node
        up_to = np.mean(table[:, node] * (1.0 - t) + table[:, node + 1] * t, axis=-1)
        shares = np.maximum(np.diff(up_to, axis=0), 0.0).T
        return shares, shares

    return Margin(values, np.full(values.size, noise), expected)


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

    def expected(means, dispersion):
        value, of_square = clipped_count(means, centres, square.clip, dispersion, largest)
        mean = of_square.mean(axis=-1)
        first, second = [mean], [square.clip**2 * mean]
        if along is not None:
            first.append(np.mean(weights * value, axis=-1))
            second.append(np.mean(weights**2 * of_square, axis=-1))
        return np.stack(first, axis=-1), np.stack(second, axis=-1)

    pairs = [(square.value, square.noise)] + ([] if along is None else [along])
    values, noises = map(np.array, zip(*pairs, strict=True))
    return Margin(values, noises, expected)


def dispersion_given(margins, logits, n_records, shifts):
    """The `Dispersion`.

    Parameters
    ----------
    margins : list of Margin
    logits : ndarray of shape (n_rows,)
        Of rows, with what is not known of them.
    n_records : float
    shifts : bool
        Whether there is an intercept, so that all may be shifted.
    """
    logits = logits + (_SHIFTS if shifts else np.zeros(1))[:, None]
    energies = np.array(
        [_energies(margins, logits, dispersion, n_records) for dispersion in _DISPERSIONS]
    )
    prior = (_DISPERSIONS - 1.0) / _USUAL_EXCESS - np.log(np.gradient(_DISPERSIONS))
    energies += prior[:, None]
    weights = np.exp(energies.min() - energies).sum(axis=1)
    weights /= weights.sum()
    logs = np.log(_DISPERSIONS)
    mean = weights @ logs
    sd = np.sqrt(weights @ (logs - mean) ** 2 + _LEAST_LOG_SD**2)
    return Dispersion(float(np.exp(mean)), float(np.exp(mean) * sd))


def excess_zeros(histogram, logits, n_records, shifts):
    """Zeros beyond those of the law that fits a histogram best, in deviations, noise included.

    Parameters
    ----------
    histogram : Margin
        Its first bin is that of zeros.
    logits, n_records, shifts
        As for `dispersion_given`.

    Returns
    -------
    zeros : float
        At most about 1 if counts follow the law: rows are known to 3%.
    """
    logits = logits + (_SHIFTS if shifts else np.zeros(1))[:, None]
    means = np.exp(np.minimum(logits, 30.0))
    fits: list = []
    for dispersion in _DISPERSIONS:
        expected, variance = _expected(histogram, means, dispersion, n_records)
        errors = (histogram.values - expected) / np.sqrt(variance)
        fits.extend(zip(np.sum(errors**2, axis=-1), errors[:, 0], strict=True))
    return float(min(fits)[1])


def shortfall(square, centres, logits, doubts, largest):
    """The share by which squares of residuals fall short of Poisson's law, and its deviation.

    Parameters
    ----------
    square : NoisySum
        The mean square of residuals.
    centres, logits, doubts : ndarray of shape (n_rows,)
        Of rows: what was subtracted from counts, logits, and their deviations.
    largest : float
        Of counts.
    """
    expected, lower = (
        clipped_count(np.exp(np.minimum(shifted_logits, 30.0)), centres, square.clip, 1.0, largest)[
            1
        ].mean()
        for shifted_logits in (logits, logits - doubts)
    )
    expected = max(expected, _LEAST_SHARE_SQUARE)
    of_rates = np.abs(expected - lower) / expected
    deviation = np.sqrt((square.noise / expected) ** 2 + of_rates**2 + _SQUARE_ERROR**2)
    return float(1.0 - square.value / expected), float(deviation)


def _expected(margin, means, dispersion, n_records):
    """Expectations of what was released, and their variances, noise included."""
    first, second = margin.expected(means, dispersion)
    variance = margin.noises**2 + np.maximum(second - first**2, 0.0) / n_records
    return first, variance + (_EXPECTATION_ERROR * first) ** 2 + _LEAST_SHARE_SQUARE


def _energies(margins, logits, dispersion, n_records):
    """The energies of dispersed counts, for logits of shape (n_shifts, n_rows)."""
    means, energies = np.exp(np.minimum(logits, 30.0)), 0.0
    for margin in margins:
        first, variance = _expected(margin, means, dispersion, n_records)
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


def tabulated(logits, centres, clip, dispersion, largest):
    """Means, and their slopes times the spacing, at the nodes, of shape (n_rows, n_nodes, 2).

    Parameters
    ----------
    logits, centres : ndarray of shape (n_rows,)
        Logits at the noisy sum's point, and what is subtracted from counts there.
    clip, dispersion, largest : float
        As for `clipped_count`.
    """
    means = np.exp(np.minimum(logits[:, None] + _NODES, 30.0))
    values, _ = clipped_count(means, centres[:, None], clip, dispersion, largest)
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
_DISTANCE = 0.02
# Number of bisections.
_HALVINGS = 40


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


def centre_for(clip, dispersion, largest):
    """The `Centre` for a clip, a dispersion and the largest count.

    Parameters
    ----------
    clip, dispersion, largest : float
        As for `clipped_count`; the clip is at least 1, so that the equation has one solution.
    """
    last = max(np.log(2.0 * largest), FIRST_NODE + 1.0)
    nodes = np.linspace(FIRST_NODE, last, int(np.ceil((last - FIRST_NODE) / _DISTANCE)) + 1)
    low, high = np.zeros(nodes.size), np.full(nodes.size, float(largest))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        value, _ = clipped_count(np.exp(nodes), middle, clip, dispersion, largest)
        low, high = np.where(value > 0, middle, low), np.where(value > 0, high, middle)
    return Centre(nodes, np.maximum.accumulate(0.5 * (low + high)))


# The clip with which a sum of clipped counts says most.
#
#     (q C tau nu)^2 + n E psi^2 + |n b|^2 / length,      over  Cov(psi, y)^2,      is least
#
# The tighter a clip, the more a noisy sum depends on how dispersed counts are (`dispersion`): ``b`` is how
# much its mean may be off. So clips are wider where noise is small.


# Least clip: with a smaller one, a count of 1 would be reduced, too, where most are 0.
LEAST_CLIP = 1.0
# Least clip in deviations of residuals, as a noisy sum far from the mode should tell how far it is.
_LEAST_CLIP_IN_SDS = 1.0
# Number of clips that are tried.
_N_CLIPS = 25


def best_count_clip(counts, means, centres, noise_per_clip, n_records, largest, leaning=None):
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
    leaning : callable or None, default=None
        Maps a clip to ``b``.
    """
    least = max(LEAST_CLIP, _LEAST_CLIP_IN_SDS * float(np.std(counts - centres)))
    clips = np.geomspace(least, max(largest, 2.0 * least), _N_CLIPS)
    psi = np.clip(counts - centres, -clips[:, None], clips[:, None])
    variances = (noise_per_clip * clips) ** 2 + n_records * np.mean(psi**2, axis=1)
    if leaning is not None:
        of_clips = np.array([leaning(clip) for clip in clips])
        variances += n_records**2 * np.mean(of_clips**2, axis=1)
    raised = counts - means
    slopes = psi @ (raised - raised.mean()) / raised.size
    return float(clips[np.argmin(variances / np.maximum(slopes, 1e-12) ** 2)])
