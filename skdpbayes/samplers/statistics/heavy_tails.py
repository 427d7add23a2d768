"""What clips take of the mean of responses where errors are skewed, and what is beyond the clips.

    t = mean of psi_T(r),    q = mean of psi_T^2,    g_T = sum v z psi_T(r)      at the last point, with noise
    t ~ N(E psi_T + delta, noise + q / n),           delta ~ sum_j pi_j N(0, h_j^2 q)
    g_T ~ N(E g_T + n diag(f) beta, noise + n q),    beta ~ sum_j pi_j N(0, k_j^2 delta^2 / f)

Noisy sums clip residuals at 1.2 to 2.5 deviations, and so their sum is zero between a median and a mean:
where errors are skewed an intercept is off by ``delta``, and slopes by ``beta`` if errors grow along a
column. At a wide clip ``T`` both are seen, with noise, so that given a draw of the coefficients and of the
deviation ``s`` they have a mixture of normal laws. The more of ``q`` is beyond ``E psi_T^2``, that of normal
errors, the less probable it is that errors are symmetric, and the more may lie beyond ``T``. The variance of
errors is ``s^2`` and what ``q`` has beyond, as far as it is known.
"""

import math
from typing import NamedTuple

import numpy as np

from .plan import LEAST_WIDE_CLIP, clipped_normal
from .requests import NoisySum

# Grid for the deviations of ``delta``, over the root of ``q``.
_SCALES = np.array([0.003, 0.03, 0.1, 0.3])
# Prior probabilities of these deviations.
_SHARES = np.array([0.4, 0.15, 0.25, 0.2])
# Grid for the deviations of slopes, over ``delta`` of the intercept: by how much errors grow along a column.
_GROWTHS = np.array([0.05, 0.2, 0.5, 1.2])
# Prior probabilities of these deviations.
_GROWTH_SHARES = np.array([0.02, 0.08, 0.3, 0.6])
# Deviations of sampling and noise beyond which a variance surely is larger than that of normal errors.
_SURE_DEVIATIONS = 2.0
# What is added to ``delta`` for that, over the root of the variance beyond that of normal errors: errors may
# be skewed to one side here and to the other there.
_SKEWED_EITHER_WAY = 0.06
# Prior deviation of the variance beyond that of the noisy sums, over that.
_PRIOR_SD_BEYOND_CLIP = 0.5
# Least share of a variance that is left.
_LEAST_VARIANCE_SHARE = 0.25
# Of ``delta`` beyond the wide clip: what a variance allows at most, ``q / (4 T)``.
_BEYOND_CLIP_FACTOR = 0.25
# By how much slopes may grow beyond a clip of 3.5 deviations, at most, over the share of ``q`` that is beyond
# normal errors. It is .7 for lognormal errors whose logarithm has a deviation of 1.2, .8 for exponential
# ones, and 1.8 for gamma ones of shape 4, and falls with the square of the clip.
_MOST_OF_SLOPES_BEYOND = 2.0
# By how much ``delta`` of the intercept grows beyond a clip ``T``, over ``3.5^2 q / T^2``: the median. It is
# .1 to .25 for exponential errors and sums of gamma ones, .3 to .7 for lognormal errors whose logarithm has a
# deviation of 1 or 1.2, and .6 to 1.5 if these grow with a column, or some are 0.
_MEANS_BEYOND = 0.35
# The deviation of the logarithm.
_LOG_SD_MEANS_BEYOND = 0.8
# Share of ``q`` beyond normal errors from which on that is so; below it is less, by the cube of the ratio.
_HEAVY = 0.4


class HeavyTailCorrection(NamedTuple):
    """What residuals at a point and a wide clip say of errors.

    Attributes
    ----------
    mean, square : NoisySum
        ``t`` and ``q``.
    weight : float, default=1
        ``o``: a mean weight, by which the variance of a weighted mean is larger; the largest if unknown.
    score : NoisySum or None, default=None
        ``g_T``; None if it was not released.
    """

    mean: NoisySum
    square: NoisySum
    weight: float = 1.0
    score: NoisySum | None = None

    def given(self, density, u, deviations, random):
        """Draws of ``delta`` of slopes and of the intercept, and deviations of errors, given draws.

        Parameters
        ----------
        density : NormalDensity
        u : ndarray of shape (n_draws, length)
        deviations : ndarray of shape (n_draws,)
            ``s``.
        random : Generator or RandomState
            It need not be secret.

        Returns
        -------
        slopes : ndarray of shape (n_draws, length)
            They leave the mean of responses as it is.
        intercepts, deviations : ndarray of shape (n_draws,)
        """
        _, a, sigma = density.residuals(u, np.log(deviations), self.mean.point[None])
        law = clipped_normal(a[0], sigma[0], self.mean.clip)
        square = np.maximum(self.square.value, _LEAST_VARIANCE_SHARE * law.square)
        of_sampling = self.weight * square / density.n_samples
        heavy = np.clip(1.0 - (law.square + self.square.noise) / square, 0.0, 1.0)
        off = (self.mean.value - law.mean)[:, None]
        shares = np.repeat(_SHARES[:, None], len(u), axis=1)
        shares[0] *= (1.0 - heavy) ** 2
        variances, noise = _SCALES[:, None] ** 2 * square, self.mean.noise**2
        intercepts = _drawn(off, variances, shares, of_sampling, noise, random)[:, 0]
        beyond = _BEYOND_CLIP_FACTOR * heavy * square / self.mean.clip
        # Post-processing.
        intercepts += beyond * random.normal(size=len(u))
        # Post-processing.
        beyond = random.random(size=len(u)) * LEAST_WIDE_CLIP**2 * square
        slopes = np.zeros_like(u)
        if self.score is not None:
            # Post-processing.
            seen = self.square.value + self.square.noise * random.normal(size=len(u))
            share = 1.0 - law.square / np.maximum(seen, law.square)
            margin = (
                self.square.noise + _SURE_DEVIATIONS * math.sqrt(2.0 / density.n_samples) * square
            )
            surely = np.maximum(heavy * square - margin, 0.0)
            # Only as far as a skew is seen beyond its own error.
            errors = of_sampling + self.mean.noise**2
            share *= 1.0 - errors / np.maximum(off[:, 0] ** 2, errors)
            of_skew = share * intercepts**2 + _SKEWED_EITHER_WAY**2 * surely
            variances = _GROWTHS[:, None] ** 2 * of_skew
            shares = np.repeat(_GROWTH_SHARES[:, None], len(u), axis=1)
            unit, off, noise = self._off_slopes(density, u, deviations)
            slopes = _drawn(off, variances, shares, of_sampling, noise**2, random)
            slopes *= 1.0 + (_MOST_OF_SLOPES_BEYOND * share / self.score.clip**2 * beyond)[:, None]
            slopes = (slopes - np.outer(slopes @ unit, unit)) / np.sqrt(density.curvature.values)
        # Post-processing.
        growth = np.exp(_LOG_SD_MEANS_BEYOND * random.normal(size=len(u)))
        growth *= _MEANS_BEYOND * np.minimum(heavy / _HEAVY, 1.0) ** 3
        intercepts *= 1.0 + growth * square * (LEAST_WIDE_CLIP / self.mean.clip) ** 2
        squares = self._squares(self.square.value - law.square, deviations**2, random)
        return slopes, intercepts, np.sqrt(squares)

    def _off_slopes(self, density, u, deviations):
        """The direction of the intercept, and what ``g_T`` has across it beyond the law of normal errors.

        In coordinates in which rows have a second moment of one; and the deviation of its noise.
        """
        n, f, m = density.n_samples, density.curvature.values, density.curvature.mean
        assert self.score is not None
        d, a, sigma = (
            part[0] for part in density.residuals(u, np.log(deviations), self.score.point[None])
        )
        law = clipped_normal(a, sigma, self.score.clip)
        expected = law.slope[:, None] * (f * d - a[:, None] * m) + law.mean[:, None] * m
        off = (self.score.value / n - expected) / np.sqrt(f)
        unit = _of_intercept(density)
        return unit, off - np.outer(off @ unit, unit), self.score.noise / (n * np.sqrt(f))

    def directions(self, density):
        """Directions along which a skew moves noisy sums of tight clips, of shape (1 or 2, length).

        That of the intercept and, if slopes of the mean were asked for, that in which these are others; as
        `NormalDensity.chi2` has them. What is seen along them is in draws.
        """
        mode, found = density.start, [_of_intercept(density)]
        if self.score is not None:
            _, off, _ = self._off_slopes(density, mode[None, :-1], np.exp(mode[-1:]))
            found.append(off[0] / max(np.linalg.norm(off), 1e-300))
        return np.array(found)

    def noise_of_slopes(self, density):
        """The deviation of the noise on slopes of the mean, over that of errors; inf where none is known.

        In coordinates in which rows have a second moment of one.
        """
        if self.score is None:
            return math.inf
        noise = self.score.noise / (density.n_samples * np.sqrt(density.curvature.values))
        square = max(self.square.value, math.exp(2.0 * density.start[-1]))
        return float(np.sqrt(np.mean(noise**2) / square))

    def _squares(self, off, squares, random):
        """Error variance: the clipped estimate with probability 1/2, else plus a tail contribution."""
        prior_variance, noise_variance = (
            (_PRIOR_SD_BEYOND_CLIP * squares) ** 2,
            self.square.noise**2,
        )
        share = prior_variance / (prior_variance + noise_variance)
        odds = np.sqrt(1.0 - share) * np.exp(0.5 * np.minimum(share * off**2 / noise_variance, 1e3))
        # Post-processing.
        is_off = random.random(size=off.size) * (1.0 + odds) > 1.0
        # Post-processing.
        beyond = share * off + np.sqrt(share * noise_variance) * random.normal(size=off.size)
        return np.maximum(squares + is_off * beyond, _LEAST_VARIANCE_SHARE * squares)


def _of_intercept(density):
    """The direction of the intercept, in coordinates in which rows have a second moment of one."""
    unit = density.curvature.mean / np.sqrt(density.curvature.values)
    return unit / max(np.linalg.norm(unit), 1e-300)


def _drawn(off, variances, shares, of_sampling, noise, random):
    """Draws of ``delta`` given what was seen of it.

    Parameters
    ----------
    off : ndarray of shape (n_draws, n)
        Numbers of one scale, with errors.
    variances, shares : ndarray of shape (n_scales, n_draws)
        ``h_j^2 q``, and their prior probabilities.
    of_sampling : ndarray of shape (n_draws,)
        Variance of the errors of sampling, which other noisy sums share: it is not to count twice.
    noise : float or ndarray of shape (n,)
        Variance of the noise.
    random : Generator or RandomState
        It need not be secret.
    """
    errors = of_sampling[:, None] + noise
    whole = variances[..., None] + errors
    logs = np.log(np.maximum(shares, 1e-300))
    logs -= 0.5 * np.sum(off**2 / whole + np.log(whole), axis=2)
    odds = np.cumsum(np.exp(logs - logs.max(axis=0)), axis=0)
    # Post-processing.
    places = np.sum(random.random(size=len(off)) * odds[-1] > odds, axis=0)
    variance = variances[places, np.arange(len(off))][:, None]
    share = variance / (variance + errors)
    left = share * (errors + (1.0 - share) * of_sampling[:, None])
    # Post-processing.
    return share * off + np.sqrt(left) * random.normal(size=off.shape)
