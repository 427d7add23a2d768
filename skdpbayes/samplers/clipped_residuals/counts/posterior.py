"""Draws of coefficients of counts: those of a surrogate, in the user's coordinates, ``theta = W u``."""

from dataclasses import dataclass

import numpy as np

from ...noise_aware.draws import Settled, draw, seed_of
from .dispersion import Dispersion
from .surrogate import CountSurrogate


@dataclass(frozen=True)
class CountPosterior(Settled):
    """A posterior given what was released.

    Attributes
    ----------
    surrogate : CountSurrogate
    transform : ndarray of shape (length, length)
        ``W``.
    dispersion : Dispersion
    deviations : ndarray of shape (length,)
        Those that coefficients would have without noise, as far as that is known.
    """

    surrogate: CountSurrogate
    transform: np.ndarray
    dispersion: Dispersion
    deviations: np.ndarray

    def draw(self, n_draws, random):
        """Return draws of shape (n_draws, length).

        Parameters
        ----------
        n_draws : int
        random : Generator or RandomState
            It need not be secret.
        """
        u = draw(self.surrogate, n_draws, seed_of(random), self._chains)
        return u @ self.transform.T

    def surprises(self):
        """Return 1: what is released of counts is not compared with a prior."""
        return 1.0

    def deviations_without_privacy(self):
        """Return the deviations that coefficients would have without noise, as far as that is known."""
        return self.deviations
