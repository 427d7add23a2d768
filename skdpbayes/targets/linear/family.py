"""What a family says: the law of a response given linear predictors, called logits here.

    eta = theta x,    ell(eta, y) = -log p(y | eta),    mean = E[T(y)],    slope = d mean / d eta

with ``grad ell = (mean - T(y)) x^T``, so that a record's gradient is at most ``residual_bound |x|`` and its
curvature at most ``slope_bound |x|^2``.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np


class Family(ABC):
    """A law of responses; families that are equal have the same law.

    Attributes
    ----------
    residual_bound : float
        No residual is longer, whatever the logits and the response.
    slope_bound : float
        No eigenvalue of a slope is larger.
    logit_scale, intercept_scale : float
        By default, prior deviations of the logit of a row at the norm bound, and of an intercept.
    has_offsets : bool
        Whether a record may have a known number that is added to its logit.
    has_unknown_noise : bool
        Whether responses have a noise deviation that is not given, so that it has to be learnt.
    """

    residual_bound: float
    slope_bound: float
    logit_scale: float = 2.5
    intercept_scale: float = 1.25
    has_offsets = False
    has_unknown_noise = False

    @property
    @abstractmethod
    def n_blocks(self) -> int:
        """Number of logits, and of blocks of coefficients."""

    @property
    @abstractmethod
    def target_classes(self) -> tuple[type, type, type]:
        """Compiled targets of dense rows, of sparse rows, and of rows elsewhere."""

    @property
    def identified(self) -> "Family":
        """The same law with as many blocks as responses can tell apart."""
        return self

    @property
    def target_fields(self) -> tuple:
        """Public numbers that targets have in addition to those of all families."""
        return ()

    @abstractmethod
    def checked_responses(self, responses: Any, n_rows: int) -> np.ndarray:
        """Return responses as an array, or raise a ValueError that names none of them."""

    @abstractmethod
    def inverse_link(self, logits: np.ndarray) -> np.ndarray:
        """Return what means and slopes are functions of, for logits of shape (..., n_blocks, n)."""

    @abstractmethod
    def mean(self, predicted: np.ndarray) -> np.ndarray:
        """Return means, of shape (..., n_blocks, n), for what `inverse_link` returns."""

    @abstractmethod
    def residuals(self, predicted: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """Return means minus responses, of shape (n_blocks, n)."""

    @abstractmethod
    def slope_times(self, predicted: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return products of slopes with ``vectors`` of shape (..., n_blocks, n)."""

    @abstractmethod
    def mean_variance(self, predicted: np.ndarray) -> np.ndarray:
        """Return the trace of a response's covariance over the number of blocks, of shape (..., n)."""

    @abstractmethod
    def mean_variance_by_mean(self, predicted: np.ndarray) -> np.ndarray:
        """Return the derivatives of `mean_variance` by `mean`, of shape (..., n_blocks, n)."""

    @abstractmethod
    def losses(self, logits: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """Return ``-log p(y | eta)``, of shape (n,), for logits of shape (n_blocks, n)."""

    @abstractmethod
    def expected_slope(self, variance: float) -> float:
        """Return a slope's mean, about, for logits with mean 0 and some variance."""

    def sums_of_block(
        self, block: Any, weights: Any, theta: Any, responses: Any, curvature: bool
    ) -> Any:
        """Return what `weighted_sums` sums of a block of rows, or None where no compiled loop does it.

        If there are no responses, ``None``, it is what `weighted_scores` sums.
        """
        return None

    @property
    @abstractmethod
    def largest_slope(self) -> np.ndarray:
        """A matrix of shape (n_blocks, n_blocks) that is nowhere smaller than a slope."""


class ClassFamily(Family):
    """A law of responses that are classes.

    Attributes
    ----------
    n_classes : int
        How many there are.
    score_bound : float
        No mean is farther from the mean at logits of 0.
    """

    n_classes: int
    score_bound: float

    @property
    @abstractmethod
    def contrasts(self) -> np.ndarray:
        """``H``, of shape (n_classes, n_blocks), which maps logits of blocks to logits of classes."""


class NumberFamily(Family):
    """A law of responses that are numbers, with one logit.

    Attributes
    ----------
    whole_numbers : bool
        Whether responses are whole numbers, from 0 on.
    centre : float
        What is subtracted from responses. The methods below take logits to which it was added again.
    """

    n_blocks = 1  # type: ignore[assignment]  # No property.
    whole_numbers = False
    centre = 0.0

    @abstractmethod
    def prediction(self, logits: np.ndarray) -> np.ndarray:
        """Return means of responses, whatever their bounds."""

    @abstractmethod
    def cdf(self, values: np.ndarray, logits: np.ndarray, noise: Any) -> np.ndarray:
        """Return probabilities of responses up to ``values``; ``noise`` is their deviation or dispersion."""

    @abstractmethod
    def simulated(self, logits: np.ndarray, noise: Any, generator: Any) -> np.ndarray:
        """Return responses drawn at random, one for each logit."""
