"""Two classes, ``y`` in {0, 1}: one logit, that of the second.

ell = log(1 + exp(eta)) - y eta,    mean = sigma(eta),    slope = sigma (1 - sigma) <= 1/4
"""

import math
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._interface import implements
from ..._remote import of_remote_rows
from ..._rows import class_numbers
from ..family import ClassFamily
from ..one_block import has_one_block, write_loss_differences, write_residuals
from ..target import DENSE, REMOTE, SPARSE, LinearTarget
from ..vector_math import subtract_from_sigmoid, subtract_losses


@dataclass(frozen=True)
class Logistic(ClassFamily):
    """The logistic law of two classes."""

    n_blocks = 1
    n_classes = 2
    residual_bound = 1.0
    score_bound = 0.5
    slope_bound = 0.25
    contrasts = np.array([[0.0], [1.0]])

    @property
    def target_classes(self) -> tuple[type, type, type]:
        """Compiled targets of dense rows, of sparse rows, and of rows elsewhere."""
        return DenseLogistic, SparseLogistic, RemoteLogistic

    def checked_responses(self, responses: Any, n_rows: int) -> np.ndarray:
        """Return class numbers."""
        return class_numbers(responses, n_rows, 2)

    def inverse_link(self, logits: np.ndarray) -> np.ndarray:
        """Return the second class's probabilities."""
        # Four times as fast as scipy's expit, because numpy's exp is vectorised.
        with np.errstate(over="ignore"):
            p = np.negative(logits)
            np.exp(p, out=p)
        p += 1.0
        return np.reciprocal(p, out=p)

    def mean(self, predicted: np.ndarray) -> np.ndarray:
        """Return probabilities."""
        return predicted

    def residuals(self, predicted: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """Return ``p - y``."""
        return predicted - responses

    def slope_times(self, predicted: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Return ``p (1 - p) a``."""
        slopes = 1.0 - predicted
        slopes *= predicted
        return slopes * vectors

    def mean_variance(self, predicted: np.ndarray) -> np.ndarray:
        """Return ``p (1 - p)``."""
        return (predicted * (1.0 - predicted))[..., 0, :]

    def mean_variance_by_mean(self, predicted: np.ndarray) -> np.ndarray:
        """Return ``1 - 2 p``."""
        odd = -2.0 * predicted
        odd += 1.0
        return odd

    def losses(self, logits: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """Return ``-log p_y``."""
        return np.logaddexp(0.0, logits[0]) - responses * logits[0]

    def expected_slope(self, variance: float) -> float:
        """Return MacKay's approximation."""
        return 1.0 / (4.0 * math.sqrt(1.0 + math.pi / 8.0 * variance))

    def sums_of_block(
        self, block: Any, weights: Any, theta: Any, responses: Any, curvature: bool
    ) -> Any:
        """Return sums of weighted residuals and slopes if rows are dense."""
        if not block.is_dense:
            return None
        centres = np.full(weights.size, 0.5) if responses is None else responses.astype(np.float64)
        return block.logistic_sums(theta[0], centres, weights, curvature)

    @property
    def largest_slope(self) -> np.ndarray:
        """One quarter."""
        return np.array([[0.25]])


class _Target(LinearTarget):
    __slots__ = ()
    family = Logistic()


@has_one_block
class DenseLogistic(_Target, namedtuple("DenseLogistic", DENSE)):  # type: ignore[misc]  # Of shared fields.
    """Two classes, rows of an array."""


@has_one_block
class SparseLogistic(_Target, namedtuple("SparseLogistic", SPARSE)):  # type: ignore[misc]  # Of shared fields.
    """Two classes, rows of a CSR matrix."""


@of_remote_rows
class RemoteLogistic(_Target, namedtuple("RemoteLogistic", REMOTE)):  # type: ignore[misc]  # Of shared fields.
    """Two classes, rows elsewhere."""


@implements(write_residuals, DenseLogistic)
@implements(write_residuals, SparseLogistic)
def _write_residuals(target, logits, responses):
    subtract_from_sigmoid(logits, responses)


@implements(write_loss_differences, DenseLogistic)
@implements(write_loss_differences, SparseLogistic)
def _write_loss_differences(target, logits, others, responses):
    subtract_losses(logits, others, responses)
