"""Whether counts are of a few trials, as answers of yes and no are, by their released histogram.

    B = mean over N of  p(h | Y_i ~ Binomial(N, m_i / N))  /  p(h | Y_i ~ Poisson(m_i)),      N = 1, 2, 3, 5

``p`` is a mean over shifts of all logits and over how much they differ, with the same weights above and
below. If counts follow Poisson's law, ``B`` has the mean 1 a priori, whatever the noise, and exceeds ``b``
with a probability of at most ``1 / b``. Counts that vary more are farther from all of this. Where noise hides
the histogram, ``B`` is about 1.
"""

import numpy as np
from scipy.special import bdtr, logsumexp, pdtr

_TRIALS = (1, 2, 3, 5)
# Of logits: shifts, as far as they may be off, and how much they differ, relative to what is believed.
_SHIFTS, _SPREADS = np.linspace(-1.5, 1.5, 151), (0.0, 0.5, 1.0)
# Relative errors of shares: rows are not quite those of the population.
_OF_ROWS = 0.05
_TOP, _TINY = 30.0, 1e-24


def evidence_of_few_trials(values, noise, edges, logits, n_records):
    """Return the logarithm of ``B``.

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
    """Return ``P(Y <= k)``."""
    found = bdtr(np.minimum(counts, n_trials), n_trials, np.minimum(mean / n_trials, 1.0))
    return np.where(counts >= n_trials, 1.0, found)


def _means(logits):
    """Yield means of rows of shape (n_shifts, n_rows), for all spreads."""
    for spread in _SPREADS:
        spread_out = spread * logits
        spread_out += logsumexp(logits) - logsumexp(spread_out)  # Of the same mean.
        yield np.exp(np.minimum(spread_out + _SHIFTS[:, None], _TOP))


def _logs(values, noise, edges, means, n_records, up_to):
    """Return logarithms of densities of the histogram, one for each shift, up to a constant."""
    inside = up_to(np.ceil(edges) - 1.0, means[:, :, None]).mean(axis=1)
    shares = np.maximum(np.diff(inside, prepend=0.0, append=1.0), 0.0)
    of_one = shares * (1.0 - shares)
    variances = noise**2 + of_one / n_records + (_OF_ROWS * of_one) ** 2 + _TINY
    return -0.5 * np.sum((values - shares) ** 2 / variances + np.log(variances), axis=1)
