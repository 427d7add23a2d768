"""Numbers and arrays that know their interval and their cost."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from .._checks import check_level
from ..privacy.cost import PrivacyCost
from ..privacy.report import of_plan
from ._plan import ScorePlan


class _Released:
    """What all released scores have in common.

    Attributes
    ----------
    plan : ScorePlan
        The plan of the score.
    """

    plan: Any = None
    _interval_at = None

    def _release(self, plan, interval_at):
        self.plan, self._interval_at = plan, interval_at
        return self

    def _privacy_account(self):
        if self.plan is None:
            raise TypeError(
                "only a score itself has a report, not values computed from it: keep the score."
            )
        return of_plan(self.plan, "score")

    @property
    def privacy_cost(self) -> PrivacyCost:
        """The cost; it converts to any (epsilon, delta) and composes with ``+``."""
        return self.plan.cost

    @property
    def spent_epsilon(self) -> float:
        """The epsilon that was spent, at the delta that was given (0 for None)."""
        return self.plan.epsilon

    def interval(self, level: float = 0.9) -> tuple[Any, Any]:
        """Return a confidence interval for the value in the population; it covers sampling error and noise.

        Parameters
        ----------
        level : float, default=0.9
            Confidence level, in (0, 1).

        Returns
        -------
        interval : (low, high)
            Two numbers for a number, and two arrays for an array, with a separate interval for each entry.
        """
        if self._interval_at is None:
            raise AttributeError(
                "only the score itself has an interval, not values computed from it: keep the score."
            )
        check_level(level)
        return self._interval_at(level)


class PrivateScore(_Released, float):
    """A float that was released with noise."""


class PrivateArray(_Released, np.ndarray):
    """An array that was released with noise; parts and results of arithmetic are plain arrays."""

    @classmethod
    def released(cls, values: np.ndarray, plan: ScorePlan, interval_at: Callable) -> Self:
        """Return values with their plan and their interval."""
        return np.asarray(values).view(cls)._release(plan, interval_at)

    def __array_finalize__(self, other):
        """Do nothing: a derived array has no plan and no interval."""

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
        Noisy numbers of rows in the bins.
    """

    counts: np.ndarray

    def __new__(cls, prob_true, prob_pred, counts):
        curve = super().__new__(cls, (prob_true, prob_pred))
        curve.counts = counts
        return curve

    def __getnewargs__(self):
        return (*self, self.counts)

    @property
    def prob_true(self) -> np.ndarray:
        """Share of positive rows in each bin."""
        return self[0]

    @property
    def prob_pred(self) -> np.ndarray:
        """Mean predicted probability in each bin."""
        return self[1]
