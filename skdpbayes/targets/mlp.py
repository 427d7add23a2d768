"""A multi-layer perceptron with a softmax over its outputs; records' gradients are clipped one by one.

    a_0 = x,   z_l = a_{l-1} W_l + b_l,   a_l = h(z_l),   p = softmax(z_L),   ell = -log p_y
    delta_L = p - e_y,     delta_l = (delta_{l+1} W_{l+1}^T) h'(z_l)
    |grad ell|^2 = sum_l (|a_{l-1}|^2 + 1) |delta_l|^2
    sum_i w_i grad ell_i:   A_{l-1}^T diag(w) Delta_l,   w_i = min(1, C / |grad ell_i|)

A record's gradient is never written out: its norm takes two sums a layer, and the weighted sum over
records one matrix product (Goodfellow, 2015). ``theta`` has layers one after the other, each ``W_l`` row
by row, then ``b_l``. Rows are brought to at most ``ROW_NORM``.

Products are in single precision, over chunks of ``CHUNK`` records, of which the last is filled up with
records of weight zero: a row of a product does not depend on the other rows of its chunk. Chunks are
added up in double precision. A chunk's own sum errs by ``gamma m C``, ``m = CHUNK``; records are in random
order (`in_random_order`), so that one more or less changes two chunks at most, and that error is in
``gradient_bound``.
"""

import itertools
import math
from typing import NamedTuple

import numpy as np
from numba import njit

from .._silence import silently
from ._clipping import clip_rows
from ._interface import (
    ALIGNMENT,
    TargetBounds,
    add_gradient,
    implements,
    in_random_order,
    n_examples,
    record,
)
from ._rows import read_only

# Records whose gradients are computed at once.
CHUNK = ALIGNMENT
# Norm of a row at the bound of the table's. Steps are reckoned for it.
ROW_NORM = 4.0
ACTIVATIONS = ("tanh", "relu")
# Beyond these, weights that clip are no normal numbers of single precision, or sums overflow.
CLIP_NORMS = (1e-6, 1e6)
# A longer gradient counts as none.
_LONGEST = 1e15
# Unit roundoff of single precision.
_ROUNDOFF = 2.0**-24
_BLOCK_ROWS = 8192


class MLPTarget(NamedTuple):
    """The records, and the shape of the network.

    Attributes
    ----------
    values : ndarray of shape (n_samples, n_features), float32
        Rows of norm ``ROW_NORM`` at most.
    labels : ndarray of shape (n_samples,), int64
    sizes : ndarray of int64
        Units of every layer: features, hidden layers, classes.
    activation : int
        Place in ``ACTIVATIONS``.
    clip_norm : float
        ``C``.
    gradient_bound : float
        ``C`` and what rounding adds.
    prior_precision : ndarray of shape (n_parameters,)
    start : ndarray of shape (n_parameters,)
        Public.
    """

    values: np.ndarray
    labels: np.ndarray
    sizes: np.ndarray
    activation: int
    clip_norm: float
    gradient_bound: float
    prior_precision: np.ndarray
    start: np.ndarray


def layer_sizes(n_features, hidden_layer_sizes, n_classes):
    """Return the units of all layers as one tuple."""
    return (n_features, *hidden_layer_sizes, n_classes)


def mlp_size(sizes):
    """Return the number of parameters of a network with these layers."""
    return sum((before + 1) * after for before, after in itertools.pairwise(sizes))


def mlp_bounds(sizes, clip_norm, prior_precision):
    """Return the public bounds of a network's target.

    Parameters
    ----------
    sizes : tuple of int
        Units of every layer.
    clip_norm : float
        Norm to which records' gradients are clipped.
    prior_precision : float
        Of every weight and bias.

    Returns
    -------
    bounds : TargetBounds
        Its ``smoothness`` is nominal, ``clip_norm``'s: clipped gradients of a network have none that is
        of use.

    Raises
    ------
    ValueError
        If a bound is not positive and finite.

    Examples
    --------
    >>> from skdpbayes.targets import mlp_bounds
    >>> mlp_bounds((20, 16, 3), 1.0, 1.0).n_parameters
    387
    """
    low, high = CLIP_NORMS
    if not low <= clip_norm <= high:
        raise ValueError(f"clip_norm must be between {low:g} and {high:g}, got {clip_norm:g}.")
    # Two chunks of each of two tables, and the products with the weights that clip.
    inflation = 1.0 + 4.0 * _ROUNDOFF * CHUNK * (CHUNK + 8.0)
    bound = clip_norm * inflation
    precisions = (prior_precision, prior_precision)
    return TargetBounds(mlp_size(sizes), bound, bound, precisions, clipped=True).checked()


def make_mlp(X, labels, data_norm, sizes, activation, clip_norm, prior_precision, start):
    """Wrap a validated table.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,)
        Numbers of the classes.
    data_norm : float
        To which rows are clipped.
    sizes : tuple of int
        Units of every layer.
    activation : {"tanh", "relu"}
        Of the hidden layers.
    clip_norm : float
        Norm to which records' gradients are clipped.
    prior_precision : float
        Of every weight and bias.
    start : ndarray of shape (n_parameters,)
        Where chains start: public numbers.

    Returns
    -------
    target : MLPTarget
    """
    bounds = mlp_bounds(sizes, clip_norm, prior_precision)
    return MLPTarget(
        read_only(scaled_rows(X, data_norm)),
        read_only(np.ascontiguousarray(labels, dtype=np.int64)),
        read_only(np.asarray(sizes, dtype=np.int64)),
        ACTIVATIONS.index(activation),
        float(clip_norm),
        bounds.gradient_bound,
        read_only(np.full(bounds.n_parameters, float(prior_precision))),
        read_only(np.ascontiguousarray(start, dtype=np.float64)),
    )


@silently()
def scaled_rows(X, data_norm):
    """Return rows as float32, divided by ``data_norm / ROW_NORM`` and of norm ``ROW_NORM`` at most."""
    X, scale = clip_rows(X, data_norm)
    factors = scale / data_norm
    rows = np.empty(X.shape, np.float32)
    for i in range(0, len(rows), _BLOCK_ROWS):
        part = slice(i, i + _BLOCK_ROWS)
        rows[part] = ROW_NORM * (X[part] * factors[part, None])
    return rows


def random_start(sizes, generator):
    """Return weights with deviations of one over the root of what a unit takes in; biases are zero.

    The first layer's are such that a row at the norm bound has units of deviation ``1/3``.
    """
    layers = []
    for number, (before, after) in enumerate(itertools.pairwise(sizes)):
        deviation = 1.0 / (3.0 * ROW_NORM) if number == 0 else before**-0.5
        layers.append(deviation * generator.standard_normal(before * after))
        layers.append(np.zeros(after))
    return np.concatenate(layers)


def layers_of(theta, sizes):
    """Return the list of (weights, biases) of every layer; views, of leading dimensions as ``theta``."""
    layers, first = [], 0
    for before, after in itertools.pairwise(sizes):
        middle, last = first + before * after, first + (before + 1) * after
        weights = theta[..., first:middle].reshape(*theta.shape[:-1], before, after)
        layers.append((weights, theta[..., middle:last]))
        first = last
    return layers


@implements(n_examples, MLPTarget)
def _count(target):
    return target.values.shape[0]


@implements(in_random_order, MLPTarget)
def _random_order(target):
    return True


@njit(error_model="numpy")
def _layer(flat, first, rows, width):
    return flat[first : first + rows * width].reshape((rows, width))


@njit(error_model="numpy")
def _gather(target, selection, start, size, rows):
    for i in range(CHUNK):
        if i < size:
            number = record(selection, start + i)
            for j in range(rows.shape[1]):
                rows[i, j] = target.values[number, j]
        else:
            rows[i, :] = np.float32(0.0)


@njit(error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _activate(z, biases, activation):
    """Add biases to ``z``, and apply ``h``."""
    for i in range(z.shape[0]):
        for j in range(z.shape[1]):
            z[i, j] += biases[j]
    if activation == 0:
        for i in range(z.shape[0]):
            for j in range(z.shape[1]):
                # Rational arithmetic after one exponential, whatever the sign: no branch.
                e = np.exp(np.float32(-2.0) * abs(z[i, j]))
                z[i, j] = math.copysign((np.float32(1.0) - e) / (np.float32(1.0) + e), z[i, j])
    else:
        for i in range(z.shape[0]):
            for j in range(z.shape[1]):
                z[i, j] = max(z[i, j], np.float32(0.0))


@njit(error_model="numpy")
def _pull_back(activation, a, delta):
    """Multiply ``delta`` by ``h'``, from ``a = h(z)``."""
    one = np.float32(1.0)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            if activation == 0:
                delta[i, j] *= one - a[i, j] * a[i, j]
            elif a[i, j] <= 0:
                delta[i, j] = np.float32(0.0)


@njit(error_model="numpy")
def _softmax_error(z, biases, target, selection, start, size):
    """Turn ``z`` into ``softmax(z + b) - e_y``; rows beyond ``size`` into zeros."""
    for i in range(CHUNK):
        if i >= size:
            z[i, :] = np.float32(0.0)
            continue
        largest = -np.float32(np.inf)
        for k in range(z.shape[1]):
            z[i, k] += biases[k]
            largest = max(largest, z[i, k])
        total = np.float32(0.0)
        for k in range(z.shape[1]):
            z[i, k] = np.exp(z[i, k] - largest)
            total += z[i, k]
        for k in range(z.shape[1]):
            z[i, k] /= total
        z[i, target.labels[record(selection, start + i)]] -= np.float32(1.0)


@njit(error_model="numpy", fastmath={"reassoc", "contract", "nsz"})
def _add_squares(a, delta, squares):
    """Add ``(|a|^2 + 1) |delta|^2`` of every record."""
    for i in range(squares.size):
        inputs, errors = 1.0, 0.0
        for j in range(a.shape[1]):
            inputs += np.float64(a[i, j]) * np.float64(a[i, j])
        for j in range(delta.shape[1]):
            errors += np.float64(delta[i, j]) * np.float64(delta[i, j])
        squares[i] += inputs * errors


@implements(add_gradient, MLPTarget)
def _add_gradient(target, theta, selection, count, out):
    sizes = target.sizes
    n_layers = sizes.size - 1
    weights = theta.astype(np.float32)
    summed = np.empty(weights.size, np.float32)
    acts = np.empty(CHUNK * sizes[:-1].sum(), np.float32)
    deltas = np.empty(CHUNK * sizes[1:].sum(), np.float32)
    squares = np.empty(CHUNK)
    for start in range(0, count, CHUNK):
        size = min(CHUNK, count - start)
        _gather(target, selection, start, size, _layer(acts, 0, CHUNK, sizes[0]))
        _forward(target, weights, acts, deltas, selection, start, size)
        _backward(target, weights, acts, deltas, squares)
        _weigh(target, acts, deltas, squares)
        first, act, delta = 0, 0, 0
        for layer in range(n_layers):
            before, after = sizes[layer], sizes[layer + 1]
            a = _layer(acts, act, CHUNK, before)
            d = _layer(deltas, delta, CHUNK, after)
            np.dot(a.T, d, _layer(summed, first, before, after))
            first += before * after
            for k in range(after):
                total = np.float32(0.0)
                for i in range(CHUNK):
                    total += d[i, k]
                summed[first + k] = total
            first += after
            act += CHUNK * before
            delta += CHUNK * after
        for j in range(out.size):
            out[j] += summed[j]


@njit(error_model="numpy")
def _forward(target, weights, acts, deltas, selection, start, size):
    """Fill in the activations, and the error of the last layer."""
    sizes = target.sizes
    n_layers = sizes.size - 1
    first, act = 0, 0
    for layer in range(n_layers):
        before, after = sizes[layer], sizes[layer + 1]
        a = _layer(acts, act, CHUNK, before)
        act += CHUNK * before
        matrix = _layer(weights, first, before, after)
        first += before * after
        biases = weights[first : first + after]
        first += after
        if layer < n_layers - 1:
            z = _layer(acts, act, CHUNK, after)
            np.dot(a, matrix, z)
            _activate(z, biases, target.activation)
        else:
            z = _layer(deltas, deltas.size - CHUNK * after, CHUNK, after)
            np.dot(a, matrix, z)
            _softmax_error(z, biases, target, selection, start, size)


@njit(error_model="numpy")
def _backward(target, weights, acts, deltas, squares):
    """Fill in the errors of the other layers, and the squared norms of the gradients."""
    sizes = target.sizes
    squares[:] = 0.0
    first, act, delta = weights.size, acts.size, deltas.size
    for layer in range(sizes.size - 2, -1, -1):
        before, after = sizes[layer], sizes[layer + 1]
        act -= CHUNK * before
        delta -= CHUNK * after
        a = _layer(acts, act, CHUNK, before)
        d = _layer(deltas, delta, CHUNK, after)
        _add_squares(a, d, squares)
        first -= (before + 1) * after
        if layer > 0:
            pulled = _layer(deltas, delta - CHUNK * before, CHUNK, before)
            np.dot(d, _layer(weights, first, before, after).T, pulled)
            _pull_back(target.activation, a, pulled)


@njit(error_model="numpy")
def _weigh(target, acts, deltas, squares):
    """Multiply every record's errors by its weight."""
    sizes = target.sizes
    act, delta = 0, 0
    for layer in range(sizes.size - 1):
        a = _layer(acts, act, CHUNK, sizes[layer])
        d = _layer(deltas, delta, CHUNK, sizes[layer + 1])
        act += CHUNK * sizes[layer]
        delta += CHUNK * sizes[layer + 1]
        for i in range(CHUNK):
            norm = math.sqrt(squares[i])
            if not norm < _LONGEST:  # Or of no direction: the record counts as zero.
                a[i, :] = np.float32(0.0)
                d[i, :] = np.float32(0.0)
            elif norm > target.clip_norm:
                # Rounded down, so that the norm of the product is not above the bound.
                weight = np.float32(target.clip_norm / norm * (1.0 - 2.0**-22))
                for k in range(d.shape[1]):
                    d[i, k] *= weight
