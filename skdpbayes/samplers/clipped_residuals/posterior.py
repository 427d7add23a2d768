"""Draws of coefficients and of the errors' deviation: those of a surrogate, in the user's coordinates.

theta = W (u^ + T (u - u^)) + delta / c,    s = exp(log s)

at the mode ``u^``, with ``T`` as in `sandwich`, and with ``delta`` of the intercept as in `tails`.
"""

from dataclasses import dataclass

import numpy as np

from ..._linalg import inv
from ..noise_aware.draws import Settled, draw, seed_of
from .clipped_normal import clipped_normal
from .surrogate import Surrogate
from .tails import Tails


@dataclass(frozen=True)
class Posterior(Settled):
    """A posterior given what was released.

    Attributes
    ----------
    surrogate : Surrogate
    transform : ndarray of shape (length, length)
        ``W``.
    stretch : ndarray of shape (length, length) or None
        ``T``; None is one.
    tails : Tails or None
        None is of normal errors.
    constant : float
        ``c``, that of rows.
    """

    surrogate: Surrogate
    transform: np.ndarray
    stretch: np.ndarray | None = None
    tails: Tails | None = None
    constant: float = 0.0

    def draw(self, n_draws, random):
        """Return draws of coefficients, of shape (n_draws, length).

        Parameters
        ----------
        n_draws : int
        random : Generator or RandomState
            It need not be secret.
        """
        return self.draw_all(n_draws, random)[0]

    def draw_all(self, n_draws, random):
        """Return draws of coefficients, and of the errors' deviation, of shape (n_draws,)."""
        points = draw(self.surrogate, n_draws, seed_of(random), self._chains)
        u = points[:, :-1]
        if self.stretch is not None:
            mode = self.surrogate.start[:-1]
            u = mode + (u - mode) @ self.stretch.T
        theta, deviations = u @ self.transform.T, np.exp(points[:, -1])
        if self.tails is not None:
            delta, deviations = self.tails.given(self.surrogate, u, deviations, random)
            theta[:, -1] += delta / self.constant
        return theta, deviations

    def asymmetry(self):
        """Mean of residuals at a wide clip beyond that of normal errors, its deviation, and the errors' size.

        Of symmetric errors the first is 0 up to the second, however heavy their tails. It is None where
        nothing was released at a wide clip.
        """
        if self.tails is None:
            return None
        tails, given = self.tails, self.surrogate
        mode = given.start
        _, a, sigma = given.residuals(mode[None, :-1], mode[-1:], tails.point[None])
        law = clipped_normal(a[:, 0], sigma[:, 0], tails.clip)
        mean = given.mean if self.stretch is None else given.mean @ self.stretch
        covariance = inv(given.information(mode))[:-1, :-1]
        square = max(tails.square, float(law.square[0]))
        variance = tails.mean_noise**2 + tails.weight * square / given.n_samples
        variance += float(mean @ covariance @ mean)
        return tails.mean - float(law.mean[0]), float(np.sqrt(variance)), float(np.sqrt(square))

    def surprises(self):
        """Return 1: without a known deviation of errors, what is released says nothing against a prior."""
        return 1.0

    def deviations_without_privacy(self):
        """Return the deviations that coefficients would have without noise, as far as that is known."""
        given = self.surrogate
        precision = given.prior.precision(given.scales)[:-1, :-1]
        variance = np.exp(2.0 * given.start[-1])
        precision = precision + np.diag(given.n_samples * given.squares / variance)
        back = self.transform if self.stretch is None else self.transform @ self.stretch
        covariance = back @ inv(precision) @ back.T
        return np.sqrt(np.diag(covariance))
