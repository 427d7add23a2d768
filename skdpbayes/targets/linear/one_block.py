"""Sums over records of families with one logit, in blocks of rows that stay in the cache.

    grad ell_i = w_i (mean(x_i . theta + o_i) - y_i) x_i

A family says how logits become residuals, and differences of losses. Offsets ``o`` are 0 but for families
that have them.
"""

from typing import Any

import numpy as np

from ..._compiled import compiled_for
from .._interface import (
    BLOCK,
    add_gradient,
    implements,
    loss_differences,
    n_examples,
    record,
    selected_from,
)
from .._rows import add_weighted, project, rows_of


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
    """Return the number of records."""
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
