"""Classes: one logit for two of them, a logit for each of more.

ell = log(1 + exp(eta)) - y eta,    mean = sigma(eta),    slope = sigma (1 - sigma) <= 1/4
"""

import math
from collections import namedtuple
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import helmert
from scipy.special import logsumexp

from ..._jit import compiled
from ..base import (
    BLOCK,
    add_gradient,
    implements,
    loss_differences,
    n_examples,
    of_remote_rows,
    record,
    selected_from,
)
from ..kernels import log_sum_exp, softmax, subtract_from_sigmoid, subtract_losses
from ..linear import DENSE, REMOTE, SPARSE, LinearTarget
from ..rows import add_weighted, class_numbers, project, rows_of
from .base import (
    ClassFamily,
    count_responses,
    has_one_block,
    write_loss_differences,
    write_residuals,
)


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
        """Compiled targets of dense rows, of sparse rows, and of remote rows."""
        return DenseLogistic, SparseLogistic, RemoteLogistic

    def checked_responses(self, responses: Any, n_rows: int) -> np.ndarray:
        """Class numbers."""
        return class_numbers(responses, n_rows, 2)

    def inverse_link(self, logits: np.ndarray) -> np.ndarray:
        """The second class's probabilities."""
        # Four times as fast as scipy's expit, because numpy's exp is vectorised.
        with np.errstate(over="ignore"):
            p = np.negative(logits)
            np.exp(p, out=p)
        p += 1.0
        return np.reciprocal(p, out=p)

    def mean(self, predicted: np.ndarray) -> np.ndarray:
        """Probabilities."""
        return predicted

    def residuals(self, predicted: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """``p - y``."""
        return predicted - responses

    def slope_times(self, predicted: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """``p (1 - p) a``."""
        slopes = 1.0 - predicted
        slopes *= predicted
        return slopes * vectors

    def mean_variance(self, predicted: np.ndarray) -> np.ndarray:
        """``p (1 - p)``."""
        return (predicted * (1.0 - predicted))[..., 0, :]

    def mean_variance_by_mean(self, predicted: np.ndarray) -> np.ndarray:
        """``1 - 2 p``."""
        odd = -2.0 * predicted
        odd += 1.0
        return odd

    def losses(self, logits: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """``-log p_y``."""
        return np.logaddexp(0.0, logits[0]) - responses * logits[0]

    def losses_and_residuals(
        self, logits: np.ndarray, responses: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """``log(p_0 / p_y)``, with ``p_0`` a half, and ``p - y``, by compiled loops."""
        losses, residuals, responses = logits[0].copy(), logits.copy(), responses.astype(np.float64)
        _write_losses_and_residuals(losses, residuals[0], responses)
        return losses, residuals

    def expected_slope(self, variance: float) -> float:
        """MacKay's approximation."""
        return 1.0 / (4.0 * math.sqrt(1.0 + math.pi / 8.0 * variance))

    def sums_of_block(
        self, block: Any, weights: Any, theta: Any, responses: Any, curvature: bool, transform: Any
    ) -> Any:
        """Sums of weighted residuals and slopes."""
        centres = np.full(weights.size, 0.5) if responses is None else responses.astype(np.float64)
        return block.logistic_sums(theta[0], centres, weights, curvature, transform)

    @property
    def largest_slope(self) -> np.ndarray:
        """One quarter."""
        return np.array([[0.25]])


class _LogisticTarget(LinearTarget):
    __slots__ = ()
    family = Logistic()


@has_one_block
class DenseLogistic(_LogisticTarget, namedtuple("DenseLogistic", DENSE)):  # type: ignore[misc]  # Of shared fields.
    """Two classes, rows of an array."""


@has_one_block
class SparseLogistic(_LogisticTarget, namedtuple("SparseLogistic", SPARSE)):  # type: ignore[misc]  # Of shared fields.
    """Two classes, rows of a CSR matrix."""


@of_remote_rows
class RemoteLogistic(_LogisticTarget, namedtuple("RemoteLogistic", REMOTE)):  # type: ignore[misc]  # Of shared fields.
    """Two classes, remote rows."""


@implements(write_residuals, DenseLogistic)
@implements(write_residuals, SparseLogistic)
def _write_residuals(target, logits, responses):
    subtract_from_sigmoid(logits, responses)


@implements(write_loss_differences, DenseLogistic)
@implements(write_loss_differences, SparseLogistic)
def _write_loss_differences(target, logits, others, responses):
    subtract_losses(logits, others, responses)


@compiled
def _write_losses_and_residuals(losses, residuals, responses):
    subtract_losses(losses, np.zeros(losses.size), responses)
    subtract_from_sigmoid(residuals, responses)


# ``K > 2`` classes: a logit each, or as many contrasts of them as labels can tell apart.
#
#     p = softmax(H eta),    mean = H^T p,    slope = H^T (diag(p) - p p^T) H,    ell = -log p_y
#
# ``H`` has a row for every class. It is the identity for the coefficients that chains draw. Since
# adding one vector to the coefficients of all classes changes no probability, the *identified* law
# has ``K - 1`` logits: the columns of its ``H`` are orthonormal and sum to 0.
#
# A residual is at most ``sqrt(2)``, two probability vectors being no farther apart, and a slope at
# most 1/2, in its Frobenius norm as well:
#
#     ||diag(p) - p p^T||_F^2 = s - 2 c + s^2 <= s - s^2 <= 1/4,    s = sum p_k^2,  c = sum p_k^3 >= s^2.


@dataclass(frozen=True)
class Softmax(ClassFamily):
    """The multinomial logistic law.

    Parameters
    ----------
    n_classes : int
        At least 3.
    only_contrasts : bool, default=False
        Whether logits are ``n_classes - 1`` contrasts of those of the classes.
    """

    n_classes: int
    only_contrasts: bool = field(default=False, repr=False)

    residual_bound = math.sqrt(2.0)
    slope_bound = 0.5

    def __post_init__(self):
        # Bounds of two classes are those of one logit.
        if self.n_classes < 3:
            raise ValueError(
                f"Softmax is for at least 3 classes, not {self.n_classes}: take Logistic()."
            )

    @property
    def n_blocks(self) -> int:
        """Number of logits."""
        return self.n_classes - self.only_contrasts

    @property
    def score_bound(self) -> float:  # type: ignore[override]  # It depends on a field.
        """``sqrt(1 - 1/K)``: a certain class is farthest from even probabilities."""
        return math.sqrt(1.0 - 1.0 / self.n_classes)

    @cached_property
    def contrasts(self) -> np.ndarray:
        """``H``, of shape (n_classes, n_blocks)."""
        return helmert(self.n_classes).T if self.only_contrasts else np.eye(self.n_classes)

    @property
    def identified(self) -> "Softmax":
        """The law of contrasts."""
        return replace(self, only_contrasts=True)

    @property
    def of_classes(self) -> "Softmax":
        """The law with a logit for every class."""
        return replace(self, only_contrasts=False)

    @property
    def target_classes(self) -> tuple[type, type, type]:
        """Compiled targets of dense rows, of sparse rows, and of remote rows."""
        return DenseSoftmax, SparseSoftmax, RemoteSoftmax

    @property
    def target_fields(self) -> tuple:
        """The number of classes."""
        return (self.n_classes,)

    def checked_responses(self, responses: Any, n_rows: int) -> np.ndarray:
        """Class numbers."""
        return class_numbers(responses, n_rows, self.n_classes)

    def inverse_link(self, logits: np.ndarray) -> np.ndarray:
        """``p``, of shape (..., n_classes, n)."""
        # In place, where scipy's softmax spends most of its time on arrays in between.
        p = self._expanded(logits)
        p = p - p.max(axis=-2, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(axis=-2, keepdims=True)
        return p

    def mean(self, predicted: np.ndarray) -> np.ndarray:
        """``H^T p``."""
        return self._contrasted(predicted)

    def residuals(self, predicted: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """``H^T (p - e_y)``."""
        return self.mean(predicted) - self.contrasts[responses].T

    def slope_times(self, predicted: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """``H^T (diag(p) - p p^T) H a``."""
        moved = predicted * self._expanded(vectors)
        moved -= predicted * moved.sum(axis=-2, keepdims=True)
        return self._contrasted(moved)

    def mean_variance(self, predicted: np.ndarray) -> np.ndarray:
        """``(1 - |p|^2) / (K - 1)``, the mean over contrasts."""
        squares = np.einsum("...kn,...kn->...n", predicted, predicted)
        return (1.0 - squares) / (self.n_classes - 1)

    def mean_variance_by_mean(self, predicted: np.ndarray) -> np.ndarray:
        """``-2 H^T p / (K - 1)``."""
        return -2.0 / (self.n_classes - 1) * self.mean(predicted)

    def losses(self, logits: np.ndarray, responses: np.ndarray) -> np.ndarray:
        """``-log p_y``."""
        logits = self._expanded(logits)
        return logsumexp(logits, axis=0) - logits[responses, np.arange(responses.size)]

    def losses_and_residuals(
        self, logits: np.ndarray, responses: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """``-log p_y`` and ``H^T (p - e_y)``, of the same exponentials."""
        logits = self._expanded(logits)
        logits = logits - logits.max(axis=0)
        p = np.exp(logits)
        total = p.sum(axis=0)
        p /= total
        losses = np.log(total) - logits[responses, np.arange(responses.size)]
        return losses, self.residuals(p, responses)

    # Products with an identity would take most of the time.
    def _expanded(self, logits: np.ndarray) -> np.ndarray:
        return self.contrasts @ logits if self.only_contrasts else logits

    def _contrasted(self, values: np.ndarray) -> np.ndarray:
        return self.contrasts.T @ values if self.only_contrasts else values

    def expected_slope(self, variance: float) -> float:
        """The expected slope for two classes."""
        return Logistic().expected_slope(variance)

    @property
    def largest_slope(self) -> np.ndarray:
        """``H^T (I - 1 1^T / K) H / 2`` (Böhning, 1992)."""
        bound = (np.eye(self.n_classes) - 1.0 / self.n_classes) / 2.0
        return self.contrasts.T @ bound @ self.contrasts


class _SoftmaxTarget(LinearTarget):
    __slots__ = ()
    n_classes: int

    @property
    def family(self) -> Softmax:
        """The law of a response."""
        return Softmax(self.n_classes)


class DenseSoftmax(_SoftmaxTarget, namedtuple("DenseSoftmax", (*DENSE, "n_classes"))):  # type: ignore[misc]  # Of shared fields.
    """Several classes, rows of an array."""


class SparseSoftmax(_SoftmaxTarget, namedtuple("SparseSoftmax", (*SPARSE, "n_classes"))):  # type: ignore[misc]  # Of shared fields.
    """Several classes, rows of a CSR matrix."""


@of_remote_rows
class RemoteSoftmax(_SoftmaxTarget, namedtuple("RemoteSoftmax", (*REMOTE, "n_classes"))):  # type: ignore[misc]  # Of shared fields.
    """Several classes, remote rows."""


def _add_gradient(target, theta, selection, count, out):
    rows = rows_of(target)
    n_classes = target.n_classes
    parameters = theta.reshape((n_classes, theta.size // n_classes))
    gradient = out.reshape((n_classes, theta.size // n_classes))
    z = np.empty((n_classes, BLOCK))
    p = np.empty(n_classes)
    intercept = target.constant > 0.0
    last = parameters.shape[1] - 1
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        block = selected_from(selection, start, size)
        for k in range(n_classes):
            project(rows, block, parameters[k], z[k, :size], None)
        for i in range(size):
            for k in range(n_classes):
                offset = target.constant * parameters[k, last] if intercept else 0.0
                p[k] = z[k, i] + offset
            softmax(p)
            p[target.responses[record(block, i)]] -= 1.0
            for k in range(n_classes):
                z[k, i] = target.weights[record(block, i)] * p[k]
        for k in range(n_classes):
            add_weighted(rows, block, z[k, :size], gradient[k], None)
            if intercept:
                gradient[k, last] += target.constant * z[k, :size].sum()


def _loss_differences(target, theta, proposal, selection, count, out):
    rows = rows_of(target)
    n_classes = target.n_classes
    length = theta.size // n_classes
    here = theta.reshape((n_classes, length))
    there = proposal.reshape((n_classes, length))
    z = np.empty((2, n_classes, BLOCK))
    logits = np.empty(n_classes)
    intercept = target.constant > 0.0
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        block = selected_from(selection, start, size)
        for k in range(n_classes):
            project(rows, block, here[k], z[0, k, :size], None)
            project(rows, block, there[k], z[1, k, :size], None)
        for i in range(size):
            label = target.responses[record(block, i)]
            difference = 0.0
            for side in range(2):
                for k in range(n_classes):
                    logits[k] = z[side, k, i]
                    if intercept:
                        constant = here[k, length - 1] if side == 0 else there[k, length - 1]
                        logits[k] += target.constant * constant
                loss = log_sum_exp(logits) - logits[label]
                difference += loss if side == 0 else -loss
            out[start + i] = difference


for _class in (DenseSoftmax, SparseSoftmax):
    implements(n_examples, _class)(count_responses)
    implements(add_gradient, _class)(_add_gradient)
    implements(loss_differences, _class)(_loss_differences)


def classifier(n_classes: int) -> Logistic | Softmax:
    """The family of a response with some number of classes."""
    return Logistic() if n_classes == 2 else Softmax(n_classes)
