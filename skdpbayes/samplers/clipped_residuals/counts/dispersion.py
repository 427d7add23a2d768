"""How much more counts vary than Poisson's law says, given what was released of all of them.

    Var Y = phi E Y,      log E Y = z . u + o + a

``phi`` and a shift ``a`` of all logits are looked for together, on a grid: of what is released, the histogram
``h_b``, the squares ``s_k`` and the sums ``w . g_k`` with ``w . z = 1`` depend on little else. Where few
counts are clipped, a look says what their mean is, and otherwise how many are not zero: then ``phi`` matters,
and so does what is not known of it.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ....targets.linear.families.dispersed import distribution
from .law import clipped_count

_DISPERSIONS = np.array([1.0, 1.04, 1.09, 1.15, 1.23, 1.35, 1.5, 1.7, 2.0, 2.5, 3.3, 5.0, 9.0])
_SHIFTS = np.linspace(-0.6, 0.6, 9)
# Mean of ``phi - 1`` a priori, and the least deviation of ``log phi``.
_USUAL_EXCESS, _LEAST_DOUBT = 0.3, 0.02
# Relative errors of expectations: rows are not quite those of the population.
_OF_ROWS = 0.03
# Relative error of squares of residuals, where it is asked whether counts vary less than Poisson's law says.
_OF_SQUARES = 0.03
_TINY = 1e-12


class Dispersion(NamedTuple):
    """What is believed of ``phi``: a value, and the deviation of what is not known."""

    value: float
    doubt: float

    @property
    def ends(self):
        """Two values, twice the deviation apart, of which none is below 1."""
        low = max(1.0, self.value - self.doubt)
        return low, low + 2.0 * self.doubt


# What is believed before anything is released.
USUAL = Dispersion(1.0 + _USUAL_EXCESS, _USUAL_EXCESS)


class Margin(NamedTuple):
    """Released numbers that depend on ``phi`` and a shift.

    Attributes
    ----------
    values, noises : ndarray of shape (n,)
        What was released, and deviations of the noise, both over the number of records.
    expected : callable
        Maps means of rows and ``phi`` to expectations of what a record adds, and of its square.
    """

    values: np.ndarray
    noises: np.ndarray
    expected: Callable


def of_histogram(values, noise, edges):
    """Return the `Margin` of a histogram with edges between its bins."""

    def expected(means, dispersion):
        up_to = distribution(np.ceil(edges) - 1.0, means[:, None], dispersion).mean(axis=0)
        shares = np.maximum(np.diff(up_to, prepend=0.0, append=1.0), 0.0)
        return shares, shares

    return Margin(values, np.full(values.size, noise), expected)


def of_look(look, weights, centres, largest, along):
    """Return the `Margin` of a look.

    Parameters
    ----------
    look : CountLook
    weights, centres : ndarray of shape (n_rows,)
    largest : float
        Of counts.
    along : tuple of (float, float) or None
        ``w . g`` and the deviation of its noise; None without an intercept.
    """

    def expected(means, dispersion):
        value, square = clipped_count(means, centres, look.clip, dispersion, largest)
        first, second = [square.mean()], [look.clip**2 * square.mean()]
        if along is not None:
            first.append(np.mean(weights * value))
            second.append(np.mean(weights**2 * square))
        return np.array(first), np.array(second)

    pairs = [(look.square, look.square_noise)] + ([] if along is None else [along])
    values, noises = map(np.array, zip(*pairs, strict=True))
    return Margin(values, noises, expected)


def dispersion_given(margins, logits, n_records, shifts):
    """Return the `Dispersion`.

    Parameters
    ----------
    margins : list of Margin
    logits : ndarray of shape (n_rows,)
        Of rows, with what is not known of them.
    n_records : float
    shifts : bool
        Whether there is an intercept, so that all may be shifted.
    """
    steps = _SHIFTS if shifts else np.zeros(1)
    energies = np.array(
        [
            [_energy(margins, logits + shift, dispersion, n_records) for shift in steps]
            for dispersion in _DISPERSIONS
        ]
    )
    prior = (_DISPERSIONS - 1.0) / _USUAL_EXCESS - np.log(np.gradient(_DISPERSIONS))
    energies += prior[:, None]
    weights = np.exp(energies.min() - energies).sum(axis=1)
    weights /= weights.sum()
    logs = np.log(_DISPERSIONS)
    mean = weights @ logs
    doubt = np.sqrt(weights @ (logs - mean) ** 2 + _LEAST_DOUBT**2)
    return Dispersion(float(np.exp(mean)), float(np.exp(mean) * doubt))


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
    fits = []
    for shift in _SHIFTS if shifts else np.zeros(1):
        means = np.exp(np.minimum(logits + shift, 30.0))
        for dispersion in _DISPERSIONS:
            expected, variance = _expected(histogram, means, dispersion, n_records)
            errors = (histogram.values - expected) / np.sqrt(variance)
            fits.append((float(errors @ errors), float(errors[0])))
    return min(fits)[1]


def shortfall(look, centres, logits, doubts, largest):
    """Return by how much squares of residuals fall short of Poisson's law: the share, and its deviation.

    Parameters
    ----------
    look : CountLook
    centres, logits, doubts : ndarray of shape (n_rows,)
        Of rows: what was subtracted from counts, logits, and their deviations.
    largest : float
        Of counts.
    """
    expected, lower = (
        clipped_count(np.exp(np.minimum(at, 30.0)), centres, look.clip, 1.0, largest)[1].mean()
        for at in (logits, logits - doubts)
    )
    expected = max(expected, _TINY)
    of_rates = np.abs(expected - lower) / expected
    deviation = np.sqrt((look.square_noise / expected) ** 2 + of_rates**2 + _OF_SQUARES**2)
    return float(1.0 - look.square / expected), float(deviation)


def _expected(margin, means, dispersion, n_records):
    """Expectations of what was released, and their variances, noise included."""
    first, second = margin.expected(means, dispersion)
    variance = margin.noises**2 + np.maximum(second - first**2, 0.0) / n_records
    return first, variance + (_OF_ROWS * first) ** 2 + _TINY


def _energy(margins, logits, dispersion, n_records):
    means, energy = np.exp(np.minimum(logits, 30.0)), 0.0
    for margin in margins:
        first, variance = _expected(margin, means, dispersion, n_records)
        energy += 0.5 * np.sum((margin.values - first) ** 2 / variance + np.log(variance))
    return energy
