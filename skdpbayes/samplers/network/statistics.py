"""Sums over a network's records that come out even where a fit is calibrated.

    v_i(r) = (|x_i|^2 - r^2) / (|x_i|^2 + r^2),
    v_i(s) = max_k p_k(x_i) - [y_i = argmax_k p_k(x_i)],     p(x) = mean over draws of softmax(s z(x))

The first is ``tanh log(|x_i| / r)``: it sums to zero where ``r`` is a typical norm of rows. The second does
where the mean confidence is the accuracy. Both are between -1 and 1, and of a record's own row and label
alone, to the last bit (`targets.network.mlp`); they are rounded to multiples of ``UNIT`` and summed as
integers.
"""

import numpy as np

from ..._compiled import compilable
from ..._mechanisms.even_choice import UNIT
from ...targets.network.mlp import CHUNK, forward, square_norms
from ...targets.network.single_precision import exp
from .._machinery.compiled_entries import CompiledCore

_ZERO = np.float32(0.0)


@compilable
def _rounded(value):
    """Return a number between -1 and 1 in units of ``UNIT``; what is none counts as 1."""
    if not -1.0 <= value <= 1.0:
        value = 1.0
    return np.int64(np.rint(value / UNIT))


@CompiledCore
def norm_sums(target, norms):
    """Return the sums of ``v(r)`` for some norms ``r``."""
    sums = np.zeros(norms.size, np.int64)
    rows = target.values
    for first in range(0, rows.shape[0], 4):
        squares = square_norms(rows, first)
        for i in range(min(4, rows.shape[0] - first)):
            for j in range(norms.size):
                square = norms[j] * norms[j]
                sums[j] += _rounded((squares[i] - square) / (squares[i] + square))
    return sums


@compilable
def _outputs(target, draws, acts, deltas, start, size, outputs):
    """Write every draw's ``z`` of some records, less its maximum."""
    n_classes = outputs.shape[2]
    for t in range(draws.shape[0]):
        forward(target, draws[t], acts, deltas, start, 0, size)
        z = deltas[deltas.size - size * n_classes :].reshape((size, n_classes))
        for i in range(size):
            largest = -np.float32(np.inf)
            for k in range(n_classes):
                largest = max(largest, z[i, k])
            for k in range(n_classes):
                outputs[i, t, k] = z[i, k] - largest


@compilable
def _confidence(z, label, scale, terms, mean):
    """Return ``v_i(s)`` of a record, from its outputs by all draws."""
    for j in range(terms.size):
        terms[j] = exp(scale * z[j])
    for k in range(mean.size):
        mean[k] = _ZERO
    for first in range(0, terms.size, mean.size):
        total = _ZERO
        for k in range(mean.size):
            total += terms[first + k]
        for k in range(mean.size):
            mean[k] += terms[first + k] / total
    top = 0
    for k in range(mean.size):
        top = k if mean[k] > mean[top] else top
    return np.float64(mean[top]) * mean.size / terms.size - (1.0 if top == label else 0.0)


@CompiledCore
def confidence_sums(target, draws, scales):
    """Return the sums of ``v(s)`` for some scales ``s`` (both and the draws in single precision)."""
    sums, sizes = np.zeros(scales.size, np.int64), target.sizes
    n_classes = sizes[-1]
    n_inputs, n_outputs = np.sum(sizes[:-1] + 1), np.sum(sizes[1:])
    outputs = np.empty((CHUNK, draws.shape[0], n_classes), np.float32)
    buffer = np.empty(CHUNK * (n_inputs + n_outputs), np.float32)
    terms, mean = np.empty(outputs[0].size, np.float32), np.empty(n_classes, np.float32)
    for start in range(0, target.values.shape[0], CHUNK):
        size = min(CHUNK, target.values.shape[0] - start)
        acts = buffer[: size * n_inputs]
        deltas = buffer[size * n_inputs : size * (n_inputs + n_outputs)]
        _outputs(target, draws, acts, deltas, start, size, outputs)
        for i in range(size):
            z, label = outputs[i].reshape(terms.size), target.labels[start + i]
            for j in range(scales.size):
                sums[j] += _rounded(_confidence(z, label, scales[j], terms, mean))
    return sums
