"""Numbers and arrays that carry their interval and their cost."""

from typing import Any, Self

import numpy as np

from .._checks import check_level


class _Released:
    """What every released score tells.

    Attributes
    ----------
    plan : ScorePlan
        What the fit did.
    """

    plan = None
    _interval_at = None

    def _release(self, plan, interval_at):
        self.plan, self._interval_at = plan, interval_at
        return self

    @property
    def privacy_cost(self) -> Any:
        """The cost: converts to any (epsilon, delta), and composes with ``+``."""
        return self.plan.cost

    @property
    def spent_epsilon(self) -> float:
        """The epsilon that was spent, at the delta that was given (0 for None)."""
        return self.plan.epsilon

    def interval(self, level: float = 0.9) -> Any:
        """Return a confidence interval of the population's value: sampling and noise included.

        Parameters
        ----------
        level : float, default=0.9
            In (0, 1).

        Returns
        -------
        interval : (low, high)
            Numbers for a number, arrays (each entry by itself) for an array.
        """
        if self._interval_at is None:
            raise AttributeError(
                "only the returned score has an interval, not what is computed from it."
            )
        check_level(level)
        return self._interval_at(level)


class PrivateScore(_Released, float):
    """A float that was released with noise."""


class PrivateArray(_Released, np.ndarray):
    """An array that was released with noise; parts and results of arithmetic are plain arrays."""

    @classmethod
    def released(cls, values: np.ndarray, plan: Any, interval_at: Any) -> Self:
        """Return values with their plan and their interval."""
        return np.asarray(values).view(cls)._release(plan, interval_at)

    def __array_finalize__(self, other):
        """Forget nothing that was never there."""

    def __array_wrap__(self, array, context=None, return_scalar=False):
        """Return a plain array, or a number."""
        return array[()] if return_scalar else np.asarray(array)

    def __getitem__(self, key):
        """Return plain entries."""
        return np.asarray(self)[key]

    def __reduce__(self):
        return PrivateArray.released, (np.asarray(self), self.plan, self._interval_at)


class PrivateCurve(_Released, tuple):
    """A calibration curve that was released with noise: the tuple ``(prob_true, prob_pred)``.

    Attributes
    ----------
    prob_true, prob_pred : ndarray of shape (n_bins,)
    counts : ndarray of shape (n_bins,)
        Noisy numbers of rows.
    """

    def __new__(cls, prob_true, prob_pred, counts):
        curve = super().__new__(cls, (prob_true, prob_pred))
        curve.counts = counts
        return curve

    def __getnewargs__(self):
        return (*self, self.counts)

    @property
    def prob_true(self) -> np.ndarray:
        """Shares of positive rows."""
        return self[0]

    @property
    def prob_pred(self) -> np.ndarray:
        """Mean predictions."""
        return self[1]
