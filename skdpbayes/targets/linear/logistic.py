"""Logistic regression, binary and softmax.

Binary, ``y`` in {0, 1}, ``x`` a clipped row followed by the constant ``b``:

    ell_i(theta) = log(1 + exp(x_i . theta)) - y_i x_i . theta,
    grad ell_i   = (sigmoid(x_i . theta) - y_i) x_i,

so that ``G = ||x||`` and ``B = ||x||^2 / 4``. Softmax, ``theta`` one block per class:

    ell_i(theta) = log sum_k exp(x_i . theta_k) - x_i . theta_{y_i},
    grad_k ell_i = (softmax_k(x_i . theta) - 1[y_i = k]) x_i,

``G = sqrt(2) ||x||`` (two probability vectors are at most that far apart) and ``B = ||x||^2 / 2``
(the largest eigenvalue of ``diag(p) - p p^T`` is at most 1/2). The prior is Gaussian, independent. Gradients
of records are multiplied by their weights, all 1 unless given, or set by a sampler; losses are not. A target
knows ``||x||``, the largest weight and ``b`` one by one, since their product says too little of a plan.
"""

import math
from typing import NamedTuple

import numpy as np

from ..._silence import silently
from ..._typing import MatrixLike
from .._bounds import TargetBounds
from .._clipping import NORMS, clip_rows
from .._interface import (
    BLOCK,
    add_gradient,
    implements,
    loss_differences,
    n_examples,
    record,
    selected_from,
)
from .._rows import SparseRows, add_weighted, class_numbers, make_rows, project, read_only, rows_of
from .vector_math import log_sum_exp, softmax, subtract_from_sigmoid, subtract_losses


def _bounds(target):
    """The public bounds of the target, by what it was made with."""
    return logistic_bounds(
        target.row_norm,
        max(getattr(target, "n_classes", 1), 2),
        target.prior_precision,
        target.intercept_scaling,
        target.max_weight,
    )


BOUNDS = property(_bounds)


class DenseBinaryLogistic(NamedTuple):
    """Binary logistic regression on the rows of an array."""

    values: np.ndarray
    scale: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    intercept_scaling: float
    prior_precision: np.ndarray
    gradient_bound: float
    row_norm: float
    max_weight: float

    bounds = BOUNDS


class SparseBinaryLogistic(NamedTuple):
    """Binary logistic regression on the rows of a CSR matrix."""

    values: np.ndarray
    columns: np.ndarray
    starts: np.ndarray
    scale: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    intercept_scaling: float
    prior_precision: np.ndarray
    gradient_bound: float
    row_norm: float
    max_weight: float

    bounds = BOUNDS


class DenseSoftmaxLogistic(NamedTuple):
    """Multinomial logistic regression on the rows of an array; one block of theta per class."""

    values: np.ndarray
    scale: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    intercept_scaling: float
    prior_precision: np.ndarray
    gradient_bound: float
    row_norm: float
    max_weight: float
    n_classes: int

    bounds = BOUNDS


class SparseSoftmaxLogistic(NamedTuple):
    """Multinomial logistic regression on the rows of a CSR matrix; one block per class."""

    values: np.ndarray
    columns: np.ndarray
    starts: np.ndarray
    scale: np.ndarray
    labels: np.ndarray
    weights: np.ndarray
    intercept_scaling: float
    prior_precision: np.ndarray
    gradient_bound: float
    row_norm: float
    max_weight: float
    n_classes: int

    bounds = BOUNDS


def logistic_prior_precision(
    n_features: int,
    n_classes: int,
    prior_scale: float | None,
    intercept_prior_scale: float | None,
    intercept_scaling: float,
) -> np.ndarray:
    """Precision of every sampled coordinate.

    The coordinate of the constant column is the intercept divided by ``intercept_scaling``.

    Returns
    -------
    prior_precision : ndarray of shape (n_blocks * (n_features + fit_intercept),)
    """
    with np.errstate(over="ignore"):  # What is not finite is refused with the bounds.
        block = np.full(n_features + (intercept_scaling > 0), np.float64(prior_scale) ** -2.0)
        if intercept_scaling > 0:
            block[-1] = (np.float64(intercept_scaling) / intercept_prior_scale) ** 2
    return np.tile(block, 1 if n_classes == 2 else n_classes)


def logistic_bounds(
    norm: float,
    n_classes: int,
    prior_precision: np.ndarray,
    intercept_scaling: float = 0.0,
    max_weight: float | None = None,
) -> TargetBounds:
    """Public bounds of the target for rows of norm at most ``norm``, including the constant column.

    Parameters
    ----------
    norm : float
        ``sqrt(data_norm^2 + intercept_scaling^2)``, with both at most 1e60.
    n_classes : int
        2 is the binary target.
    prior_precision : ndarray
        From `logistic_prior_precision`.
    intercept_scaling : float, default=0.0
        The constant column; 0 for none.
    max_weight : float or None, default=None
        Public maximum of the records' weights; None if all weights are 1.

    Returns
    -------
    bounds : TargetBounds

    Raises
    ------
    ValueError
        If a bound is out of range.
    """
    binary = n_classes == 2
    if not norm <= 2.0 * NORMS[1]:
        raise ValueError(
            f"rows of norm {norm:g}, the constant column included, are too long: data_norm and "
            f"intercept_scaling, by default intercept_prior_scale over prior_scale, are at most {NORMS[1]:g}."
        )
    square, largest = float(norm * norm), 1.0 if max_weight is None else max_weight
    return TargetBounds(
        n_parameters=prior_precision.size,
        gradient_bound=largest * (norm if binary else math.sqrt(2.0) * norm),
        smoothness=largest * square / (4.0 if binary else 2.0),
        prior_precision=(float(prior_precision.min()), float(prior_precision.max())),
        convex=True,
        row_norm=norm,
        constant=intercept_scaling,
        n_blocks=1 if binary else n_classes,
        max_weight=max_weight,
    ).checked()


@silently()
def make_logistic(
    X: MatrixLike,
    labels: np.ndarray,
    data_norm: float,
    n_classes: int,
    intercept_scaling: float,
    prior_precision: np.ndarray,
    weights: np.ndarray | None = None,
    max_weight: float | None = None,
) -> NamedTuple:
    """Build the target of a table, clipping its rows.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
        Finite numbers; an array must be C-contiguous.
    labels : ndarray of shape (n_samples,)
        Class numbers, from 0.
    data_norm : float
        Norm to which rows are clipped.
    n_classes : int
    intercept_scaling : float
        The constant column; 0 for none.
    prior_precision : ndarray of shape (n_parameters,)
    weights : ndarray of shape (n_samples,) or None, default=None
        Weights of the records; None means 1.
    max_weight : float or None, default=None
        Public maximum of ``weights``.

    Returns
    -------
    target : NamedTuple
        One of the four classes above.

    Raises
    ------
    ValueError
        If labels are not class numbers, a weight is out of range, or a bound is not positive and finite.
    """
    labels = class_numbers(labels, X.shape[0], n_classes)
    rows = make_rows(*clip_rows(X, data_norm))
    sparse = isinstance(rows, SparseRows)
    fields = (
        *rows,
        read_only(labels),
        read_only(_checked(weights, labels, max_weight)),
        *public_numbers(data_norm, n_classes, intercept_scaling, prior_precision, max_weight),
    )
    if n_classes == 2:
        return (SparseBinaryLogistic if sparse else DenseBinaryLogistic)(*fields)
    return (SparseSoftmaxLogistic if sparse else DenseSoftmaxLogistic)(*fields, n_classes)


def public_numbers(data_norm, n_classes, intercept_scaling, prior_precision, max_weight):
    """Return the public fields that all these targets have, in their order."""
    norm = math.hypot(data_norm, intercept_scaling)
    bounds = logistic_bounds(norm, n_classes, prior_precision, max_weight=max_weight)
    largest = 1.0 if max_weight is None else float(max_weight)
    return float(intercept_scaling), prior_precision, bounds.gradient_bound, norm, largest


def _checked(weights, labels, max_weight):
    if weights is None:
        return np.ones(labels.size)
    if weights.shape != labels.shape or not np.all((weights >= 0) & (weights <= max_weight)):
        raise ValueError("weights must be one number from 0 to max_weight for each row.")
    return weights


def _count(target):
    return target.labels.size


def _add_binary_gradient(target, theta, selection, count, out):
    rows = rows_of(target)
    z = np.empty(BLOCK)
    y = np.empty(BLOCK)
    intercept = target.intercept_scaling > 0.0
    last = theta.size - 1
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        block = selected_from(selection, start, size)
        residuals = z[:size]
        ahead = selected_from(selection, min(start + BLOCK, count - size), size)
        project(rows, block, theta, residuals, ahead)
        offset = target.intercept_scaling * theta[last] if intercept else 0.0
        for i in range(size):
            residuals[i] += offset
            y[i] = target.labels[record(block, i)]
        subtract_from_sigmoid(residuals, y[:size])
        for i in range(size):
            residuals[i] *= target.weights[record(block, i)]
        add_weighted(rows, block, residuals, out, ahead)
        if intercept:
            for i in range(size):
                out[last] += target.intercept_scaling * residuals[i]


def _add_softmax_gradient(target, theta, selection, count, out):
    rows = rows_of(target)
    n_classes = target.n_classes
    parameters = theta.reshape((n_classes, theta.size // n_classes))
    gradient = out.reshape((n_classes, theta.size // n_classes))
    z = np.empty((n_classes, BLOCK))
    p = np.empty(n_classes)
    intercept = target.intercept_scaling > 0.0
    last = parameters.shape[1] - 1
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        block = selected_from(selection, start, size)
        for k in range(n_classes):
            project(rows, block, parameters[k], z[k, :size], None)
        for i in range(size):
            for k in range(n_classes):
                offset = target.intercept_scaling * parameters[k, last] if intercept else 0.0
                p[k] = z[k, i] + offset
            softmax(p)
            p[target.labels[record(block, i)]] -= 1.0
            for k in range(n_classes):
                z[k, i] = target.weights[record(block, i)] * p[k]
        for k in range(n_classes):
            add_weighted(rows, block, z[k, :size], gradient[k], None)
            if intercept:
                gradient[k, last] += target.intercept_scaling * z[k, :size].sum()


def _binary_loss_differences(target, theta, proposal, selection, count, out):
    rows = rows_of(target)
    w = np.empty(BLOCK)
    y = np.empty(BLOCK)
    intercept = target.intercept_scaling > 0.0
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
                z[i] += target.intercept_scaling * theta[last]
                w[i] += target.intercept_scaling * proposal[last]
            y[i] = target.labels[record(block, i)]
        subtract_losses(z, w[:size], y[:size])


def _softmax_loss_differences(target, theta, proposal, selection, count, out):
    rows = rows_of(target)
    n_classes = target.n_classes
    length = theta.size // n_classes
    here = theta.reshape((n_classes, length))
    there = proposal.reshape((n_classes, length))
    z = np.empty((2, n_classes, BLOCK))
    logits = np.empty(n_classes)
    intercept = target.intercept_scaling > 0.0
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        block = selected_from(selection, start, size)
        for k in range(n_classes):
            project(rows, block, here[k], z[0, k, :size], None)
            project(rows, block, there[k], z[1, k, :size], None)
        for i in range(size):
            label = target.labels[record(block, i)]
            difference = 0.0
            for side in range(2):
                for k in range(n_classes):
                    logits[k] = z[side, k, i]
                    if intercept:
                        constant = here[k, length - 1] if side == 0 else there[k, length - 1]
                        logits[k] += target.intercept_scaling * constant
                loss = log_sum_exp(logits) - logits[label]
                difference += loss if side == 0 else -loss
            out[start + i] = difference


for _target in (DenseBinaryLogistic, SparseBinaryLogistic):
    implements(n_examples, _target)(_count)
    implements(add_gradient, _target)(_add_binary_gradient)
    implements(loss_differences, _target)(_binary_loss_differences)
for _target in (DenseSoftmaxLogistic, SparseSoftmaxLogistic):
    implements(n_examples, _target)(_count)
    implements(add_gradient, _target)(_add_softmax_gradient)
    implements(loss_differences, _target)(_softmax_loss_differences)
