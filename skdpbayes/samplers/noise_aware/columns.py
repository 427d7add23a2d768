"""Means and mean squares of columns, given noisy ones of both.

    m'_j = m_j + N(0, t^2),      s'_j = s_j + N(0, e^2),      s_j ~ Gamma(shape, usual) on a grid

    m_j | s_j  ~  sum_k w_k N(0, k s_j)  +  sum_v w_v N(s_j / v, (s_j / 10 v)^2)

The first parts are numbers around zero. The others are indicators: a column that is ``v`` or 0 has a mean
of ``s / v``, so that two noisy numbers say the same. Weights ``w`` and the shape are the likeliest ones,
which is how a table says whether its columns are one or the other. If most hardly vary, the shape is small,
and columns that noise drowns are taken to vary little, too. Each point of the grid stands for a normal law as
wide as its cell, so that nothing is lost where noise is smaller.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import gamma

# Squares of numbers' means over their mean squares; values of indicators; by how much these vary.
_OF_NUMBERS, _VALUES, _VARIES = (1e-4, 0.01, 0.1, 1.0), np.geomspace(0.01, 1.0, 26), 0.1
# Shapes of the law of mean squares; 1 is exponential. Points of its grid.
_SHAPES, _N_POINTS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0), 400
# Least of the mean of all mean squares, relative to the noise of a trace; of a mean square, relative to it.
_LEAST_TRACE, _LEAST_SQUARE = 0.5, 1e-3
# Least density of a column.
_TINY = 1e-300
# How many columns the first part is worth beforehand; rounds of learning weights.
_WORTH, _ROUNDS = 1.0, 30


class Columns(NamedTuple):
    """What is believed of columns, arrays of shape (n_features,).

    Attributes
    ----------
    means, squares : ndarray
        Posterior means of ``m`` and ``s``.
    mean_doubts, square_doubts : ndarray
        Their variances.
    """

    means: np.ndarray
    squares: np.ndarray
    mean_doubts: np.ndarray
    square_doubts: np.ndarray


def estimate_columns(means, squares, of_means, noise):
    """Return the `Columns`.

    Parameters
    ----------
    means, squares : ndarray of shape (n_features,)
        ``m'`` and ``s'``, in a unit in which no mean square exceeds 1.
    of_means, noise : float
        ``t`` and ``e``.
    """
    usual = max(float(squares.sum()), _LEAST_TRACE * noise * math.sqrt(squares.size))
    usual = min(usual / squares.size, 1.0)
    top = max(float(squares.max()) + 5.0 * noise, usual)
    grid = np.geomspace(_LEAST_SQUARE * usual, top, _N_POINTS)
    cells = np.gradient(grid) ** 2 / 12.0
    centres, spreads = _parts(grid)
    # Arrays are of shape (n_parts, n_features, n_points) from here on.
    off, off_squares = means[:, None] - centres[:, None], squares[:, None] - grid
    variances, of_cells = of_means**2 + spreads[:, None], noise**2 + cells
    logs = -0.5 * (np.log(variances) + off**2 / variances)
    logs -= 0.5 * (np.log(of_cells) + off_squares**2 / of_cells)
    priors = np.array([_log_prior(grid, shape, usual) for shape in _SHAPES])
    logs += priors[0]
    joint = np.exp(logs - logs.max(axis=(0, 2))[:, None])
    priors = np.exp(priors - priors[0])
    laws = [_weights(of_parts) for of_parts in np.moveaxis(joint @ priors.T, 2, 0)]
    best = int(np.argmax([evidence for evidence, _ in laws]))
    joint *= laws[best][1][:, :, None] * priors[best]
    share = spreads[:, None] / variances
    at = centres[:, None] + share * off
    found, seconds = np.sum(joint * at, axis=(0, 2)), np.sum(joint * at**2, axis=(0, 2))
    seconds += of_means**2 * np.sum(joint * share, axis=(0, 2))
    joint, share = joint.sum(axis=0), cells / of_cells
    # Noise may have left less than nothing.
    at = np.maximum(grid + share * off_squares, 0.5 * grid)
    mean = np.sum(joint * at, axis=1)
    doubts = np.sum(joint * ((at - mean[:, None]) ** 2 + share * noise**2), axis=1)
    return Columns(found, mean, np.maximum(seconds - found**2, 0.0), doubts)


def _parts(grid):
    """Return means and variances of the parts at mean squares, of shape (n_parts, n_points)."""
    numbers = np.outer(_OF_NUMBERS, grid)
    # No mean's square is more than the mean square.
    indicators = np.minimum(grid / _VALUES[:, None], np.sqrt(grid))
    return (
        np.concatenate([np.zeros_like(numbers), indicators]),
        np.concatenate([numbers, (_VARIES * indicators) ** 2]),
    )


def _log_prior(grid, shape, usual):
    """Return logarithms of the masses of a gamma law on a grid that is even in logarithms."""
    logs = gamma.logpdf(grid, shape, scale=usual / shape) + np.log(grid)
    return logs - logsumexp(logs)


def _weights(of_parts):
    """Return (log evidence, the likeliest weights of parts over the density of every column).

    Parameters
    ----------
    of_parts : ndarray of shape (n_parts, n_features)
        Likelihoods.
    """
    weights = mixture_weights(of_parts, _WORTH, _ROUNDS)
    density = _density(weights * of_parts)
    return np.log(density).sum(), weights / density


def mixture_weights(likelihood, worth, rounds):
    """Return the likeliest weights of the parts of a mixture, of shape (n_parts, 1).

    Parameters
    ----------
    likelihood : ndarray of shape (n_parts, n)
        Of each number under each part.
    worth : float
        How many numbers the first part is worth beforehand.
    rounds : int
        Of expectation and maximisation.
    """
    weights = np.full((len(likelihood), 1), 1.0 / len(likelihood))
    for _ in range(rounds):
        odds = weights * likelihood
        weights = (odds / _density(odds)).sum(axis=1, keepdims=True)
        weights[0] += worth
        weights /= weights.sum()
    return weights


def _density(odds):
    """Return their sums; that of a column that is far larger than others may be no double for some shape."""
    return np.maximum(odds.sum(axis=0), _TINY)
