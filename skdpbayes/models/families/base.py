"""What a family says: the law of a response given linear predictors, called logits here.

    eta = theta x,    ell(eta, y) = -log p(y | eta),    mean = E[T(y)],    slope = d mean / d eta

with ``grad ell = (mean - T(y)) x^T``, so that a record's gradient is at most ``residual_bound |x|`` and its
curvature at most ``slope_bound |x|^2``.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ..._jit import compiled_for
from ..base import (
    BLOCK,
    add_gradient,
    implements,
    loss_differences,
    n_examples,
    record,
    selected_from,
)
from ..rows import add_weighted, project, rows_of


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
    has_unknown_error_sd : bool
        Whether responses have a noise deviation that is not given, so that it has to be learnt.
    """

    residual_bound: float
    slope_bound: float
    logit_scale: float = 2.5
    intercept_scale: float = 1.25
    has_offsets = False
    has_unknown_error_sd = False

    @property
    @abstractmethod
    def n_blocks(self) -> int:
        """Number of logits, and of blocks of coefficients."""

    @property
    @abstractmethod
    def target_classes(self) -> tuple[type, type, type]:
        """Compiled targets of dense rows, of sparse rows, and of remote rows."""

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
        """Responses as an array; raises a ValueError that names none of them."""

    @abstractmethod
    def inverse_link(self, logits: np.ndarray) -> np.ndarray:
        """The numbers of which means and slopes are functions, for logits of shape (..., n_blocks, n)."""

    @abstractmethod
    def mean(self, predicted: np.ndarray) -> np.ndarray:
        """Means, of shape (..., n_blocks, n), for what `inverse_link` returns."""

    @abstractmethod
    def residuals(self, predicted: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """Means minus responses, of shape (n_blocks, n)."""

    @abstractmethod
    def slope_times(self, predicted: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Products of slopes with ``vectors`` of shape (..., n_blocks, n)."""

    @abstractmethod
    def mean_variance(self, predicted: np.ndarray) -> np.ndarray:
        """The trace of a response's covariance over the number of blocks, of shape (..., n)."""

    @abstractmethod
    def mean_variance_by_mean(self, predicted: np.ndarray) -> np.ndarray:
        """The derivatives of `mean_variance` by `mean`, of shape (..., n_blocks, n)."""

    @abstractmethod
    def losses(self, logits: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """``-log p(y | eta)``, of shape (n,), for logits of shape (n_blocks, n)."""

    def losses_and_residuals(
        self, logits: np.ndarray, responses: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """`losses`, up to a constant, and `residuals`, for logits of shape (n_blocks, n)."""
        return self.losses(logits, responses), self.residuals(self.inverse_link(logits), responses)

    @abstractmethod
    def expected_slope(self, variance: float) -> float:
        """A slope's mean, about, for logits with mean 0 and some variance."""

    def sums_of_block(
        self, block: Any, weights: Any, theta: Any, responses: Any, curvature: bool, transform: Any
    ) -> Any:
        """The sums of a block of rows that `weighted_sums` adds up, or None where no compiled loop does it.

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

    @property
    def of_classes(self) -> "ClassFamily":
        """The law with a logit for every class of more than two."""
        return self


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
        """Means of responses, whatever their bounds."""

    @abstractmethod
    def cdf(self, values: np.ndarray, logits: np.ndarray, noise: Any) -> np.ndarray:
        """Probabilities of responses up to ``values``; ``noise`` is their `ErrorLaw` or `CountLaw`."""

    @abstractmethod
    def simulated(self, logits: np.ndarray, noise: Any, generator: Any) -> np.ndarray:
        """Responses drawn at random, one for each logit."""


# Sums over records of families with one logit, in blocks of rows that stay in the cache.
#
#     grad ell_i = w_i (mean(x_i . theta + o_i) - y_i) x_i
#
# A family says how logits become residuals, and differences of losses. Offsets ``o`` are 0 but for
# families that have them.


def write_residuals(target: Any, logits: np.ndarray, responses: np.ndarray) -> None:
    """Write means minus responses to ``logits`` (generic, compiled)."""
    raise NotImplementedError("write_residuals is a generic of compiled code.")


def write_loss_differences(
    target: Any, logits: np.ndarray, others: np.ndarray, responses: np.ndarray
) -> None:
    """Write losses at ``logits`` minus those at ``others`` to ``logits`` (generic, compiled)."""
    raise NotImplementedError("write_loss_differences is a generic of compiled code.")


def add_offsets(target: Any, selection: Any, logits: np.ndarray) -> None:
    """Add the offsets of the selected records to ``logits``, if there are any (generic, compiled)."""
    raise NotImplementedError("add_offsets is a generic of compiled code.")


@compiled_for(add_offsets)
def _add_offsets(target, selection, logits):
    if "offsets" not in target.fields:
        return lambda target, selection, logits: None

    def add(target, selection, logits):
        if target.offsets.size:
            for i in range(logits.size):
                logits[i] += target.offsets[record(selection, i)]

    return add


def has_one_block(target_class):
    """Declare a class of targets whose family has one logit."""
    implements(n_examples, target_class)(count_responses)
    implements(add_gradient, target_class)(_add_gradient)
    implements(loss_differences, target_class)(_loss_differences)
    return target_class


def count_responses(target):
    """The number of records."""
    return target.responses.size


def _add_gradient(target, theta, selection, count, out):
    rows = rows_of(target)
    z = np.empty(BLOCK)
    y = np.empty(BLOCK)
    intercept = target.constant > 0.0
    last = theta.size - 1
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        block = selected_from(selection, start, size)
        residuals = z[:size]
        ahead = selected_from(selection, min(start + BLOCK, count - size), size)
        project(rows, block, theta, residuals, ahead)
        offset = target.constant * theta[last] if intercept else 0.0
        for i in range(size):
            residuals[i] += offset
            y[i] = target.responses[record(block, i)]
        add_offsets(target, block, residuals)
        write_residuals(target, residuals, y[:size])
        for i in range(size):
            residuals[i] *= target.weights[record(block, i)]
        add_weighted(rows, block, residuals, out, ahead)
        if intercept:
            for i in range(size):
                out[last] += target.constant * residuals[i]


def _loss_differences(target, theta, proposal, selection, count, out):
    rows = rows_of(target)
    w = np.empty(BLOCK)
    y = np.empty(BLOCK)
    intercept = target.constant > 0.0
    last = theta.size - 1
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        block = selected_from(selection, start, size)
        z = out[start : start + size]
        # Each projection asks for the first half of what it is told comes next.
        first_half = selected_from(selection, min(start + BLOCK, count - size), size)
        second_half = selected_from(selection, min(start + BLOCK + BLOCK // 2, count - size), size)
        project(rows, block, theta, z, first_half)
        project(rows, block, proposal, w[:size], second_half)
        for i in range(size):
            if intercept:
                z[i] += target.constant * theta[last]
                w[i] += target.constant * proposal[last]
            y[i] = target.responses[record(block, i)]
        add_offsets(target, block, z)
        add_offsets(target, block, w[:size])
        write_loss_differences(target, z, w[:size], y[:size])
