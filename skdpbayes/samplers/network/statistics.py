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
from ...targets.network.layers import layers_of
from ...targets.network.mlp import ACTIVATIONS
from ...targets.network.single_precision import PLAIN, exponential, multiply
from .._machinery.compiled_entries import CompiledCore

_BLOCK_ROWS = 8192
# Numbers of a layer's outputs that are added to at once: they stay in the cache.
_BLOCK_SIZE = 32768


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
        sums += _rounded(shares)
    return sums


def _rounded(shares):
    """Return sums over records of multiples of ``UNIT``; what is no number counts as 1."""
    shares[~(np.abs(shares) <= 1.0)] = 1.0
    return np.rint(shares / UNIT).astype(np.int64).sum(axis=0)


@compilable
def _multiply(a, b, out):
    multiply(a, PLAIN, b, PLAIN, out)


@CompiledCore
def _product(a, b, out):
    # A core has other options than gradients have, and would compile this once more if it called it.
    _multiply(a, b, out)


def _outputs(rows, layers, is_tanh):
    """Return ``z`` less its maximum, of shape (n_classes, n_rows)."""
    for number, (weights, biases) in enumerate(layers):
        z = np.empty((len(rows), biases.size), np.float32)
        _product(rows, weights, z)
        z += biases
        if number < len(layers) - 1 and is_tanh:
            shrunk = exponential(np.float32(-2.0) * np.abs(z))
            rows = np.copysign((1 - shrunk) / (1 + shrunk), z)
        elif number < len(layers) - 1:
            rows = np.maximum(z, 0)
    return (z - z.max(axis=1, keepdims=True)).T


def _confidences(outputs, labels, scale):
    """Return ``v_i(s)``, from outputs of shape (n_draws, n_classes, n_rows)."""
    mean = np.zeros(outputs.shape[1:], np.float32)
    for of_draw in outputs:
        terms = exponential(scale * of_draw)
        total = np.zeros(len(labels), np.float32)
        for term in terms:
            total += term
        mean += terms / total
    top, places = mean.argmax(axis=0), np.arange(len(labels))
    return mean[top, places].astype(float) / len(outputs) - (top == labels)


@silently()
def confidence_sums(target, draws, scales):
    """Return the sums of ``v(s)`` for some scales ``s`` (both and the draws in single precision)."""
    is_tanh = ACTIVATIONS[target.activation] == "tanh"
    sums = np.zeros(scales.size, np.int64)
    step = max(1, _BLOCK_SIZE // int(target.sizes[1:].max()))
    for first in range(0, len(target.values), step):
        part = slice(first, first + step)
        # A copy: for one that is read only, products would be compiled once more.
        rows, labels = target.values[part].copy(), target.labels[part]
        outputs = np.array(
            [_outputs(rows, layers_of(draw, tuple(target.sizes)), is_tanh) for draw in draws]
        )
        sums += _rounded(np.stack([_confidences(outputs, labels, s) for s in scales], axis=1))
    return sums
