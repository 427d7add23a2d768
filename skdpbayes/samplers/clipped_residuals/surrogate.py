"""The posterior of coefficients ``u`` and the errors' deviation ``s`` given looks and sizes.

    g_k = sum_i v_i z_i psi_k(y_i - u_k . z_i) + N(0, N_k^2 I),     q_k = mean psi_k^2 + noise

Rows are taken to be normal with mean ``m`` and second moment ``diag(f)``, errors normal. Without the
weights ``v``, mean squares of rows are ``S_j``, no less than ``f_j``. With ``d = u - u_k`` a residual is
``N(a, sigma^2)``, ``a = m . d``, ``sigma^2 = s^2 + sum_j S_j d_j^2 - a^2``; its clipped mean is ``e``, of
slope ``c`` and mean square ``b``, and by Stein's identity

    E g_k = n c (diag(f) + E) d + n (e - c a) m,       Cov(g_k, g_l) = n s^2 c_k c_l diag(f),  k /= l,

because looks see the same errors. On the diagonal there is ``n (b - e^2 - c^2 sigma^2) f`` besides, and what
rows that are not normal may change. ``E``, what is not known of the curvature, is symmetric with entries of
variances ``p_i p_j``, and ``2 p_i^2 + h_i`` on the diagonal, and is integrated out.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..noise_aware.scales import Prior, WithPrior
from .clipped_normal import clipped_normal
from .conditioned import conditioned, inverted

# How much rows that are not normal may change a look, relative to what clips take from it.
_OF_SHAPE = 0.25
# Error of a mean square, relative to it: errors are not quite normal, and rows, of which it has what it is
# larger than the last, even less.
_OF_ERRORS, _OF_ROWS = 0.02, 0.1


class Look(NamedTuple):
    """What was released at a point.

    Attributes
    ----------
    point : ndarray of shape (length,)
    clip : float
    value : ndarray of shape (length,)
    noise : float
        Deviation of its noise.
    """

    point: np.ndarray
    clip: float
    value: np.ndarray
    noise: float


class Size(NamedTuple):
    """The mean square of clipped residuals at a point, released with noise.

    Attributes are those of `Look`, with one number as the value.
    """

    point: np.ndarray
    clip: float
    value: float
    noise: float


@dataclass(frozen=True)
class Surrogate(WithPrior):
    """The likelihood of looks and sizes, and the prior; a point is ``(u, log s)``.

    Attributes
    ----------
    n_samples : float
        ``n``.
    curvature : ndarray of shape (length,)
        ``f``.
    doubt, own_doubt : ndarray of shape (length,)
        ``p`` and ``h``.
    mean : ndarray of shape (length,)
        ``m``.
    squares : ndarray of shape (length,)
        ``S``.
    prior : Prior
        Of points; it says nothing of the last coordinate.
    scales : ndarray of shape (n_groups,)
        Prior scales at which the mode is looked for.
    usual, spread : float
        Median of the errors' deviation a priori, and the deviation of its logarithm.
    looks : tuple of Look
    sizes : tuple of Size
    start : ndarray of shape (length + 1,)
    """

    n_samples: float
    curvature: np.ndarray
    doubt: np.ndarray
    own_doubt: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    prior: Prior
    scales: np.ndarray
    usual: float
    spread: float
    looks: tuple
    sizes: tuple
    start: np.ndarray

    @property
    def n_scaled(self):
        """How many coordinates, the first ones, prior scales multiply."""
        return self.curvature.size

    def likelihood(self, points):
        """Return minus the log likelihood, up to a constant, and its gradient, for (n_points, length + 1)."""
        u, log_s = points[:, :-1], points[:, -1]
        away = (log_s - np.log(self.usual)) / self.spread
        energy, gradient = 0.5 * away**2, np.zeros_like(points)
        gradient[:, -1] = away / self.spread
        for found, of_found in (self._of_sizes(u, log_s), self._of_looks(u, log_s)[:2]):
            energy, gradient = energy + found, gradient + of_found
        return energy, gradient

    def residuals(self, u, log_s, points):
        """Return differences to points, and means and deviations of residuals there.

        Arrays are of shape (n_points, n_looks, length) and (n_points, n_looks).
        """
        d = u[:, None] - points
        a = d @ self.mean
        variance = np.maximum(d**2 @ self.squares - a**2, 0.0)
        return d, a, np.sqrt(np.exp(2.0 * log_s)[:, None] + variance)

    def _pulled(self, d, a, sigma, log_s, by_a, by_sigma):
        """Return the gradient by a point of what depends on ``a`` and ``sigma`` of all looks."""
        by_variance = by_sigma / (2.0 * sigma)
        gradient = np.empty((len(d), self.mean.size + 1))
        by_mean = (by_a - 2.0 * a * by_variance).sum(axis=1)
        gradient[:, :-1] = by_mean[:, None] * self.mean
        gradient[:, :-1] += 2.0 * self.squares * np.einsum("bk,bkj->bj", by_variance, d)
        gradient[:, -1] = 2.0 * np.exp(2.0 * log_s) * by_variance.sum(axis=1)
        return gradient

    @cached_property
    def _size_arrays(self):
        points, clips, values, noises = (np.array(part) for part in zip(*self.sizes, strict=True))
        squares = np.maximum(values, 0.0)
        error = _OF_ERRORS * squares + _OF_ROWS * np.maximum(squares - squares[-1], 0.0)
        sampling = np.maximum(values, noises) * np.sqrt(2.0 / self.n_samples)
        return points, clips, values, np.sqrt(noises**2 + error**2 + sampling**2)

    def _of_sizes(self, u, log_s):
        points, clips, values, deviations = self._size_arrays
        d, a, sigma = self.residuals(u, log_s, points)
        law = clipped_normal(a, sigma, clips)
        off = (law.square - values) / deviations
        by = off / deviations
        by_a, by_sigma = by * law.square_by_mean, by * law.square_by_deviation
        return 0.5 * np.sum(off**2, axis=1), self._pulled(d, a, sigma, log_s, by_a, by_sigma)

    @cached_property
    def _look_arrays(self):
        return tuple(np.array(part) for part in zip(*self.looks, strict=True))

    def _of_looks(self, u, log_s):
        if not self.looks:
            return 0.0, 0.0, 0.0
        n, f, m = self.n_samples, self.curvature, self.mean
        points, clips, values, noises = self._look_arrays
        d, a, sigma = self.residuals(u, log_s, points)
        law, s2 = clipped_normal(a, sigma, clips), np.exp(2.0 * log_s)
        c, e = law.slope, law.mean
        seen = n * f * d  # (n_points, n_looks, length), as all of looks
        x = n * c[..., None] * d
        r = values - c[..., None] * seen - n * (e - c * a)[..., None] * m
        own = np.maximum(law.square - e**2 - (c * sigma) ** 2, 0.0)
        of_shape = (_OF_SHAPE * (1.0 - c)) ** 2
        cc = c[:, :, None] * c[:, None, :]
        blocks = (n * s2[:, None] * f)[..., None, None] * cc[:, None]
        diagonal = noises**2 + n * own[:, None] * f[:, None]
        diagonal = diagonal + (of_shape[..., None] * seen**2).transpose(0, 2, 1)
        own_axis = np.arange(c.shape[1])
        blocks[..., own_axis, own_axis] += diagonal
        energy, alpha, w, by_x = conditioned(r, blocks, x, self.doubt, self.own_doubt)
        square = np.sum(r * alpha, axis=(1, 2))
        by_x = n * by_x
        w_own = np.einsum("bikk->bki", w)
        by_cc = n * s2[:, None, None] * np.einsum("i,bikl->bkl", f, w)
        by_h = -n * (alpha @ m)
        by_seen = 2.0 * w_own * of_shape[..., None] * seen - c[..., None] * alpha
        by_own = n * (w_own @ f) * (own > 0)
        by_c = np.sum(by_x * d - alpha * seen, axis=2) + 2.0 * np.einsum("bkl,bl->bk", by_cc, c)
        by_c -= 2.0 * _OF_SHAPE**2 * (1.0 - c) * np.sum(w_own * seen**2, axis=2)
        by_c -= 2.0 * by_own * c * sigma**2 + by_h * a
        by_e = by_h - 2.0 * by_own * e
        by_a = by_own * law.square_by_mean + by_e * c + by_c * law.slope_by_mean - by_h * c
        by_sigma = by_own * (law.square_by_deviation - 2.0 * c**2 * sigma)
        by_sigma += by_e * law.mean_by_deviation + by_c * law.slope_by_deviation
        gradient = self._pulled(d, a, sigma, log_s, by_a, by_sigma)
        gradient[:, :-1] += np.sum(c[..., None] * by_x + n * f * by_seen, axis=1)
        gradient[:, -1] += 2.0 * np.sum(by_cc * cc, axis=(1, 2))
        return energy, gradient, square

    def contradiction(self):
        """Return the square of looks at the mode, in their deviations, over how many numbers they are.

        It is about 1, or less, if looks follow the law that is assumed.
        """
        if not self.looks:
            return 0.0
        square = self._of_looks(self.start[None, :-1], self.start[-1:])[2]
        return float(square[0]) / (len(self.looks) * self.mean.size)

    def information(self, point):
        """Return the curvature of the potential at one point, about."""
        u, log_s = point[None, :-1], point[-1:]
        matrix = self.prior.precision(self.scales)
        matrix[-1, -1] += self.spread**-2.0
        points, clips, _, deviations = self._size_arrays
        d, a, sigma = self.residuals(u, log_s, points)
        law = clipped_normal(a, sigma, clips)
        for k, deviation in enumerate(deviations):
            by_a = np.where(np.arange(len(clips)) == k, law.square_by_mean, 0.0)
            by_sigma = np.where(np.arange(len(clips)) == k, law.square_by_deviation, 0.0)
            slope = self._pulled(d, a, sigma, log_s, by_a, by_sigma)[0] / deviation
            matrix = matrix + np.outer(slope, slope)
        if self.looks:
            matrix[np.arange(u.size), np.arange(u.size)] += self._look_information(u, log_s)
        return matrix

    def _look_information(self, u, log_s):
        c, _, v = self._laws_of_looks(u, log_s)
        return (self.n_samples * self.curvature) ** 2 * np.einsum(
            "k,ikl,l->i", c, inverted(v)[0], c
        )

    def scores_of_looks(self, point):
        """Return weights of looks in the score of coefficients, and what errors of looks have in common.

        Parameters
        ----------
        point : ndarray of shape (length + 1,)

        Returns
        -------
        weights : ndarray of shape (n_looks, length)
        errors : ndarray of shape (n_looks, n_looks)
            Looks have covariances of these times ``n diag(f)``, besides noise.
        slopes : ndarray of shape (n_looks,)
        """
        c, errors, v = self._laws_of_looks(point[None, :-1], point[-1:])
        weights = np.einsum("ikl,l->ki", inverted(v)[0], c)
        return self.n_samples * self.curvature * weights, errors, c

    def _laws_of_looks(self, u, log_s):
        """Return slopes, what errors have in common, and covariances of shape (length, n_looks, n_looks)."""
        n, f = self.n_samples, self.curvature
        points, clips, _, noises = self._look_arrays
        d, a, sigma = self.residuals(u, log_s, points)
        law, s2 = clipped_normal(a, sigma, clips), np.exp(2.0 * log_s[0])
        c = law.slope[0]
        own = np.maximum(law.square - law.mean**2 - (law.slope * sigma) ** 2, 0.0)[0]
        errors = s2 * np.outer(c, c) + np.diag(own)
        v = n * f[:, None, None] * errors
        x = n * c[:, None] * d[0] * np.sqrt(self.doubt)
        v = v + self.doubt[:, None, None] * (x @ x.T)
        x = n * c[:, None] * d[0] * np.sqrt(self.own_doubt)
        v += np.einsum("ki,li->ikl", x, x)
        of_shape = ((_OF_SHAPE * (1.0 - c)) * (n * f[:, None]) * d[0].T) ** 2
        v[:, np.arange(c.size), np.arange(c.size)] += noises**2 + of_shape
        return c, errors, v
