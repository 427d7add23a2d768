"""What clips take of errors that are not normal: their mean, and what is beyond.

    t = mean of psi_T(y_i - u . z_i),   q = mean of psi_T^2   at the last point and a wide clip T, with noise
    t ~ N(E psi_T + delta, noise + q / n),   delta ~ sum_j pi_j N(0, h_j^2 q)

Looks clip residuals at 1.2 to 2.5 deviations, and so their sum is zero between a median and a mean: where
errors are skewed, an intercept is off by ``delta``. What is seen of it is a normal number around it, so that
given a draw of the coefficients and of the deviation ``s`` it has a mixture of normal laws. Errors that are
symmetric have none; the more of ``q`` is beyond ``E psi_T^2``, the less probable that is a priori, and the
more may lie beyond ``T``. The variance of errors is ``s^2`` and what ``q`` has beyond, as far as it is known.
"""

from typing import NamedTuple

import numpy as np

from .clipped_normal import clipped_normal

# Of ``delta``: deviations over the root of ``q``, and how often each is so.
_SCALES, _SHARES = np.array([0.003, 0.03, 0.1, 0.3]), np.array([0.4, 0.15, 0.25, 0.2])
# Deviation of the variance beyond that of the looks, over that, if there is any; the least share left.
_BEYOND, _LEAST = 0.5, 0.25
# Of ``delta`` beyond the wide clip: what a variance allows at most, ``q / (4 T)``.
_FARTHER = 0.25


class Tails(NamedTuple):
    """What was released of residuals at a point and a wide clip.

    Attributes
    ----------
    point : ndarray of shape (length,)
    clip : float
        ``T``.
    mean, mean_noise : float
        ``t``, and the deviation of its noise.
    square, square_noise : float
        ``q``, and the deviation of its noise.
    weight : float, default=1
        ``o``: a mean weight, by which the variance of a weighted mean is larger; the largest if unknown.
    """

    point: np.ndarray
    clip: float
    mean: float
    mean_noise: float
    square: float
    square_noise: float
    weight: float = 1.0

    def given(self, surrogate, u, deviations, random):
        """Return draws of ``delta``, and deviations of errors, given draws.

        Parameters
        ----------
        surrogate : Surrogate
        u : ndarray of shape (n_draws, length)
        deviations : ndarray of shape (n_draws,)
            ``s``.
        random : Generator or RandomState
            It need not be secret.
        """
        _, a, sigma = surrogate.residuals(u, np.log(deviations), self.point[None])
        law = clipped_normal(a[:, 0], sigma[:, 0], self.clip)
        square = np.maximum(self.square, _LEAST * law.square)
        of_sampling = self.weight * square / surrogate.n_samples
        noise = self.mean_noise**2 + of_sampling
        off = self.mean - law.mean
        heavy = np.clip(1.0 - (law.square + self.square_noise) / square, 0.0, 1.0)
        variance = self._scale(off, noise, square, heavy, random) ** 2 * square
        share = variance / (variance + noise)
        # Looks saw the same errors: what these have in common is no news.
        spread = share * (noise + (1.0 - share) * of_sampling)
        spread += (_FARTHER * heavy * square / self.clip) ** 2
        # Post-processing.
        delta = share * off + np.sqrt(spread) * random.normal(size=len(u))
        return delta, np.sqrt(self._squares(self.square - law.square, deviations**2, random))

    def _squares(self, off, squares, random):
        """Return variances of errors: those of looks, which are as often right as not, and what is beyond."""
        usual, noise = (_BEYOND * squares) ** 2, self.square_noise**2
        share = usual / (usual + noise)
        odds = np.sqrt(1.0 - share) * np.exp(0.5 * np.minimum(share * off**2 / noise, 1e3))
        # Post-processing.
        is_off = random.random(size=off.size) * (1.0 + odds) > 1.0
        # Post-processing.
        beyond = share * off + np.sqrt(share * noise) * random.normal(size=off.size)
        return np.maximum(squares + is_off * beyond, _LEAST * squares)

    def _scale(self, off, noise, square, heavy, random):
        """Return ``h_j`` for every draw, at random as probable as it is given what was seen."""
        shares = np.repeat(_SHARES[:, None], off.size, axis=1)
        shares[0] *= (1.0 - heavy) ** 2
        variance = _SCALES[:, None] ** 2 * square + noise
        odds = shares * np.exp(-0.5 * (off**2 / variance - (off**2 / variance).min(axis=0)))
        odds = np.cumsum(odds / np.sqrt(variance), axis=0)
        # Post-processing.
        return _SCALES[np.sum(random.random(size=off.size) * odds[-1] > odds, axis=0)]
