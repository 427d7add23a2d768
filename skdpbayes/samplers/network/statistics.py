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
from ..._silence import silently
from ...targets.network.mlp import CHUNK, forward
from ...targets.network.single_precision import exp
from .._machinery.compiled_entries import CompiledCore

_ZERO = np.float32(0.0)
_BLOCK_ROWS = 8192


@silently()
def norm_sums(target, norms):
    """Return the sums of ``v(r)`` for some norms ``r``."""
    sums, thresholds = np.zeros(norms.size, np.int64), norms * norms
    for first in range(0, len(target.values), _BLOCK_ROWS):
        rows = target.values[first : first + _BLOCK_ROWS].astype(np.float64)
        # Number by number: NumPy's own sums depend on the place of a row.
        squares = np.zeros((len(rows), 1))
        for j in range(rows.shape[1]):
            squares += rows[:, j, None] * rows[:, j, None]
        shares = (squares - thresholds) / (squares + thresholds)
        shares[~(np.abs(shares) <= 1.0)] = 1.0  # What is no number counts as 1.
        sums += np.rint(shares / UNIT).astype(np.int64).sum(axis=0)
    return sums


@compilable
def _outputs(values, sizes, activation, draws, acts, z, members, start, size, outputs):
    """Write every draw's ``z`` of some records, less its maximum."""
    n_draws, n_classes = draws.shape[0], sizes[-1]
    for t in range(n_draws):
        forward(values, sizes, activation, draws[t], acts, z, members, start, size)
        here = z.size - size * n_classes
        for there in range(t * n_classes, size * n_draws * n_classes, n_draws * n_classes):
            largest = -np.float32(np.inf)
            for k in range(n_classes):
                largest = max(largest, z[here + k])
            for k in range(n_classes):
                outputs[there + k] = z[here + k] - largest
            here += n_classes


@compilable
def _confidence(outputs, first, label, scale, terms, mean):
    """Return ``v_i(s)`` of a record, from its outputs by all draws, which begin at ``first``."""
    for j in range(terms.size):
        terms[j] = exp(scale * outputs[first + j])
    for k in range(mean.size):
        mean[k] = _ZERO
    for draw in range(0, terms.size, mean.size):
        total = _ZERO
        for k in range(mean.size):
            total += terms[draw + k]
        for k in range(mean.size):
            mean[k] += terms[draw + k] / total
    top = 0
    for k in range(mean.size):
        top = k if mean[k] > mean[top] else top
    return np.float64(mean[top]) * mean.size / terms.size - (1.0 if top == label else 0.0)


@CompiledCore
def _add_confidences(target, draws, scales, members, acts, z, outputs, terms, mean, sums):
    values, labels, sizes, activation = (
        target.values,
        target.labels,
        target.sizes,
        target.activation,
    )
    for start in range(0, members.size, CHUNK):
        size = min(CHUNK, members.size - start)
        _outputs(values, sizes, activation, draws, acts, z, members, start, size, outputs)
        for i in range(size):
            label, first = labels[start + i], i * terms.size
            for j in range(scales.size):
                share = _confidence(outputs, first, label, scales[j], terms, mean)
                # What is no number counts as 1.
                sums[j] += np.int64(np.rint((share if -1.0 <= share <= 1.0 else 1.0) / UNIT))


def confidence_sums(target, draws, scales):
    """Return the sums of ``v(s)`` for some scales ``s`` (both and the draws in single precision)."""
    n_classes, n_inputs = target.sizes[-1], int(np.sum(target.sizes[:-1] + 1))
    n_terms = len(draws) * n_classes
    sizes = (CHUNK * n_inputs, CHUNK * n_classes, CHUNK * n_terms, n_terms, n_classes)
    room = [np.empty(size, np.float32) for size in sizes]
    # A selection, as for gradients: for a first record's number more would have to be compiled.
    members, sums = np.arange(len(target.values)), np.zeros(scales.size, np.int64)
    _add_confidences(target, draws, scales, members, *room, sums)
    return sums
