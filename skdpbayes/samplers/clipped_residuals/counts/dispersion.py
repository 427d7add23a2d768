"""How much more counts vary than Poisson's law says, given what was released of all of them.

    Var Y = phi E Y,      log eta -> eta + a

``phi`` and a shift ``a`` of all logits are looked for together on a grid: of what is released, the histogram
``h_b``, the squares ``s_k`` and the sums ``w . g_k`` with ``w . z = 1`` depend on little else. If few counts
are clipped, a look says the mean of counts, and otherwise how many are not zero: then ``phi`` matters, and
what is not known of it.
"""

from typing import NamedTuple

import numpy as np

from .law import clipped_count, distribution

_DISPERSIONS = np.array([1.0, 1.15, 1.35, 1.6, 2.0, 2.5, 3.2, 4.5, 7.0, 12.0])
_SHIFTS = np.linspace(-0.6, 0.6, 9)
# Mean of ``phi - 1`` a priori, and the least deviation of ``log phi``.
_USUAL_EXCESS, _LEAST_DOUBT = 0.3, 0.01
# Relative errors of expectations: rows are not quite those of the population.
_OF_ROWS = 0.03


class Dispersion(NamedTuple):
    """What is believed of ``phi``: its mean, and the deviation of what is not known."""

    value: float
    doubt: float


class Margin(NamedTuple):
    """Numbers with the same law given ``phi`` and a shift: expectations are of one record.

    Attributes
    ----------
    values : ndarray
        What was released, over the number of records.
    noises : ndarray
        Deviations of the noise, likewise.
    expected : callable
        Of means and a dispersion; returns expectations of the numbers, and of their squares.
    """

    values: np.ndarray
    noises: np.ndarray
    expected: object


def of_histogram(values, noise, edges):
    """Return the `Margin` of a histogram."""

    def expected(means, dispersion):
        up_to = distribution(edges - 1.0, means[:, None], dispersion).mean(axis=0)
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
    along : tuple of (float, float) or None
        The look along ``w``, of one record, and the deviation of its noise.
    """

    def expected(means, dispersion):
        value, square = clipped_count(means, centres, look.clip, dispersion, largest)
        fourth = square * look.clip**2
        found = [square.mean()], [fourth.mean()]
        if along is not None:
            found[0].append(np.mean(weights * value))
            found[1].append(np.mean(weights**2 * square))
        return tuple(map(np.array, found))

    pairs = [(look.square, look.square_noise)] + ([along] if along is not None else [])
    values, noises = map(np.array, zip(*pairs, strict=True))
    return Margin(values, noises, expected)


def estimated(margins, logits, n_records, shifts=True):
    """Return the `Dispersion`.

    Parameters
    ----------
    margins : list of Margin
    logits : ndarray of shape (n_rows,)
        As they are believed to be, what is not known of each included.
    n_records : float
    shifts : bool, default=True
        Whether there may be one.
    """
    steps = _SHIFTS if shifts else np.zeros(1)
    logs = np.empty((len(_DISPERSIONS), len(steps)))
    for i, dispersion in enumerate(_DISPERSIONS):
        for j, shift in enumerate(steps):
            means, energy = np.exp(np.minimum(logits + shift, 30.0)), 0.0
            for margin in margins:
                first, second = margin.expected(means, dispersion)
                variance = margin.noises**2 + np.maximum(second - first**2, 0.0) / n_records
                variance = variance + _OF_ROWS**2 * first**2 + 1e-12
                energy += 0.5 * np.sum((margin.values - first) ** 2 / variance + np.log(variance))
            logs[i, j] = -energy
    log_phi = np.log(_DISPERSIONS)
    width = np.gradient(_DISPERSIONS)
    logs += (np.log(width) - (_DISPERSIONS - 1.0) / _USUAL_EXCESS)[:, None]
    weights = np.exp(logs - logs.max()).sum(axis=1)
    weights /= weights.sum()
    mean = weights @ log_phi
    doubt = np.sqrt(weights @ (log_phi - mean) ** 2 + _LEAST_DOUBT**2)
    value = float(np.exp(mean))
    return Dispersion(value, float(value * doubt))
