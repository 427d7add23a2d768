"""A multi-layer perceptron with a softmax over its outputs; records' gradients are clipped one by one.

    a_0 = (x, 1),   z_l = a_{l-1} W_l,   a_l = (h(z_l), 1),   p = softmax(z_L),   ell = -log p_y
    delta_L = p - e_y,     delta_l = (delta_{l+1} W_{l+1}^T) h'(z_l)
    |grad ell|^2 = sum_l |a_{l-1}|^2 |delta_l|^2
    sum_i w_i grad ell_i:   A_{l-1}^T diag(w) Delta_l,   w_i = min(1, C / (m_i |grad ell_i|)),
    m_i = max(1, kappa max_k |p - e_k| / |p - e_y|),     kappa = 0.4 / number of classes

With ``m_i = 1`` this is plain clipping. Records that contradict a network count for less than they should
beside those that agree with it, and it becomes overconfident. With ``kappa = 1`` weights would hardly depend
on labels, and probabilities be honest, but records that agree count for so little that noise hides them. With
the ``kappa`` above, they weigh at most ``1 / kappa`` times as much as with 1, and a calibration takes out the
bias that is left (`skdpbayes.samplers.network`).

A record's gradient is never written out: its norm takes two sums a layer, and the weighted sum over
records one matrix product (Goodfellow, 2015). ``theta`` has layers one after the other, each ``W_l`` row
by row; the last row holds the biases. Rows at the bound of the table's norm are brought to ``ROW_NORM``.

Products are in single precision, over chunks of ``CHUNK`` records, and chunks are added up in double
precision. A chunk's own sum errs by ``gamma m C``, ``m = CHUNK``; records are in random order
(`in_random_order`), so that one more or less changes two chunks at most, and that error is in
``gradient_bound``.

That needs a record's clipped gradient to be the same, to the last bit, in any chunk and at any place of it.
It is: its activations, errors, norm and weight come of single operations of IEEE 754 on its own row and on
``theta``, in an order that is written down here and in `single_precision`. No ``fastmath`` flag lets the
compiler reassociate or contract them, so that a loop's vectors and its remainder agree, and no library
computes any of them.
"""

import itertools
import math
from typing import Any, Literal, NamedTuple

import numpy as np

from .._errors import suppress_fp_warnings
from .._jit import compilable, matrix_at, vector_at
from .._typing import MatrixLike
from .base import (
    ALIGNMENT,
    TargetBounds,
    add_gradient,
    implements,
    in_random_order,
    n_examples,
    record,
)
from .rows import class_numbers, clip_rows, read_only
from .single_precision import PLAIN, TRANSPOSED, exp_float32, multiply

# The layers of a perceptron in one vector: ``W_1, W_2, ...`` row by row, the last row of each the
# biases.


# Norm of a typical row. Steps are reckoned for it.
ROW_NORM = 4.0


def layer_sizes(n_features, hidden_layer_sizes, n_classes):
    """The units of all layers as one tuple."""
    return (n_features, *hidden_layer_sizes, n_classes)


def mlp_size(sizes):
    """The number of parameters of a network with these layers."""
    return sum((before + 1) * after for before, after in itertools.pairwise(sizes))


def random_start(sizes, generator):
    """Weights with the deviation ``1 / sqrt(number of inputs of a unit)``, and biases of zero.

    In the first layer, a row at the norm bound gives units a deviation of ``1/3``.
    """
    layers = []
    for number, (before, after) in enumerate(itertools.pairwise(sizes)):
        deviation = 1.0 / (3.0 * ROW_NORM) if number == 0 else before**-0.5
        # Public: where a chain starts.
        layers.append(deviation * generator.standard_normal(before * after))
        layers.append(np.zeros(after))
    return np.concatenate(layers)


def layers_of(theta, sizes):
    """The list of (weights, biases) of every layer; views, of leading dimensions as ``theta``."""
    layers, first = [], 0
    for before, after in itertools.pairwise(sizes):
        middle, last = first + before * after, first + (before + 1) * after
        weights = theta[..., first:middle].reshape(*theta.shape[:-1], before, after)
        layers.append((weights, theta[..., middle:last]))
        first = last
    return layers


# Records whose gradients are computed at once.
CHUNK = ALIGNMENT
ACTIVATIONS = ("tanh", "relu")
# Beyond these, weights that clip are no normal numbers of single precision, or sums overflow.
CLIP_NORMS = (1e-6, 1e6)
# kappa, times the number of classes.
_BLINDNESS = 0.4
# A record with a longer gradient does not count.
_LONGEST_GRADIENT = 1e15
# Unit roundoff of single precision.
_ROUNDOFF = 2.0**-24
_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)
# Smallest normal number of single precision.
_LEAST_NORMAL = np.finfo(np.float32).smallest_normal
# Rows whose predictions are computed at once.
_BLOCK_ROWS = 8192


class MLPTarget(NamedTuple):
    """The records, and the shape of the network.

    Attributes
    ----------
    values : ndarray of shape (n_samples, n_features), float32
        Rows of about norm ``ROW_NORM``.
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

    @property
    def bounds(self) -> TargetBounds:
        """The public bounds of the target, by what it was made with."""
        low, high = float(self.prior_precision.min()), float(self.prior_precision.max())
        public_bounds = mlp_bounds(tuple(self.sizes), self.clip_norm, low)
        return public_bounds._replace(prior_precision=(low, high))


def mlp_bounds(sizes: tuple[int, ...], clip_norm: float, prior_precision: float) -> TargetBounds:
    """The public bounds of a network's target.

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
        Its ``smoothness`` is nominal and equal to ``gradient_bound``: the clipped gradients of a
        network have no useful smoothness.

    Raises
    ------
    ValueError
        If a bound is not positive and finite.

    Examples
    --------
    >>> from skdpbayes.models import mlp_bounds
    >>> mlp_bounds((20, 16, 3), 1.0, 1.0).n_parameters
    387
    """
    low, high = CLIP_NORMS
    if not low <= clip_norm <= high:
        raise ValueError(f"clip_norm must be between {low:g} and {high:g}, got {clip_norm:g}.")
    # Two chunks of each of two tables, and the weights that clip: see Proposition 31.
    inflation = 1.0 + 4.0 * _ROUNDOFF * CHUNK * (CHUNK + 8.0)
    bound = clip_norm * inflation
    precisions = (prior_precision, prior_precision)
    return TargetBounds(mlp_size(sizes), bound, bound, precisions, clipped=True).checked()


@suppress_fp_warnings()
def make_mlp(
    X: MatrixLike,
    labels: np.ndarray,
    data_norm: float,
    sizes: tuple[int, ...],
    activation: Literal["tanh", "relu"],
    clip_norm: float,
    prior_precision: float,
    start: np.ndarray,
) -> Any:
    """Build the target of a validated table.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
    labels : ndarray of shape (n_samples,)
        Class numbers, from 0.
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
        Public starting point of chains.

    Returns
    -------
    target : MLPTarget
    """
    bounds = mlp_bounds(sizes, clip_norm, prior_precision)
    return MLPTarget(
        read_only(scaled_rows(X, data_norm)),
        read_only(class_numbers(labels, len(X), sizes[-1])),
        read_only(np.asarray(sizes, dtype=np.int64)),
        ACTIVATIONS.index(activation),
        float(clip_norm),
        bounds.gradient_bound,
        read_only(np.full(bounds.n_parameters, float(prior_precision))),
        read_only(np.ascontiguousarray(start, dtype=np.float64)),
    )


class MLPModel(NamedTuple):
    """A multi-layer perceptron: what an estimator makes, a plan reads, and a table becomes.

    Attributes
    ----------
    sizes : tuple of int
        Units of every layer.
    activation : {"tanh", "relu"}
        Of the hidden layers.
    norm : float
        To which rows are clipped.
    clip_norm : float
        Norm to which records' gradients are clipped.
    prior_precision : float
        Of every weight and bias.
    start : ndarray of shape (n_parameters,) or None, default=None
        Public starting point of chains, which plans do not need.
    """

    sizes: tuple[int, ...]
    activation: Literal["tanh", "relu"]
    norm: float
    clip_norm: float
    prior_precision: float
    start: np.ndarray | None = None

    def bounds(self) -> TargetBounds:
        """The public bounds, which plans may know; raises a ValueError if a number is out of range."""
        return mlp_bounds(self.sizes, self.clip_norm, self.prior_precision)

    def target_of(self, rows: Any) -> MLPTarget:
        """The target of validated rows of a table."""
        if self.start is None:
            raise ValueError("a network's target needs a point to start from.")
        return make_mlp(
            rows.X,
            rows.labels,
            self.norm,
            self.sizes,
            self.activation,
            self.clip_norm,
            self.prior_precision,
            self.start,
        )

    def remote(self, address: int, count: int) -> Any:
        """Networks read tables in memory."""
        raise NotImplementedError("a network reads no remote rows.")

    def in_blocks(self, draws: np.ndarray) -> np.ndarray:
        """Draws as they are, which `layers_of` takes apart."""
        return draws


def scaled_rows(X, data_norm):
    """Rows as float32, divided by ``data_norm / ROW_NORM`` and of norm ``ROW_NORM`` at most."""
    X, scale = clip_rows(X, data_norm)
    factors = scale / data_norm
    rows = np.empty(X.shape, np.float32)
    for i in range(0, len(rows), _BLOCK_ROWS):
        part = slice(i, i + _BLOCK_ROWS)
        rows[part] = ROW_NORM * (X[part] * factors[part, None])
    return rows


@implements(n_examples, MLPTarget)
def _count(target):
    return target.values.shape[0]


@implements(in_random_order, MLPTarget)
def _random_order(target):
    return True


@compilable
def _gather(values, selection, start, rows):
    for i in range(rows.shape[0]):
        number = record(selection, start + i)
        for j in range(rows.shape[1] - 1):
            rows[i, j] = values[number, j]
        rows[i, rows.shape[1] - 1] = _ONE


@compilable
def _activate(z, activation):
    """Apply ``h`` to all but the last column, which becomes one."""
    for i in range(z.shape[0]):
        if activation == 0:
            for j in range(z.shape[1] - 1):
                # Rational arithmetic after one exponential, whatever the sign: no branch.
                e = exp_float32(np.float32(-2.0) * abs(z[i, j]))
                z[i, j] = math.copysign((_ONE - e) / (_ONE + e), z[i, j])
        else:
            for j in range(z.shape[1] - 1):
                z[i, j] = max(z[i, j], _ZERO)
        z[i, z.shape[1] - 1] = _ONE


@compilable
def _pullback(activation, a, delta):
    """Multiply ``delta`` by ``h'``, from ``a = h(z)``."""
    for i in range(delta.shape[0]):
        for j in range(delta.shape[1]):
            if activation == 0:
                delta[i, j] *= _ONE - a[i, j] * a[i, j]
            elif a[i, j] <= _ZERO:
                delta[i, j] = _ZERO


@compilable
def _softmax_error(labels, n_classes, deltas, selection, start, size, floors):
    """Turn the last layer's ``z`` into ``softmax(z) - e_y``, and fill in ``max(1, kappa r)^2``."""
    z = vector_at(deltas, deltas.size - size * n_classes, size * n_classes)
    for i in range(size):
        row = range(i * n_classes, (i + 1) * n_classes)
        largest = -np.float32(np.inf)
        for k in row:
            largest = max(largest, z[k])
        total = _ZERO
        for k in row:
            z[k] = exp_float32(z[k] - largest)
            total += z[k]
        least, squared = 1.0, 1.0
        for k in row:
            z[k] /= total
            share = np.float64(z[k])
            least = min(least, share)
            squared += share * share
        z[i * n_classes + labels[record(selection, start + i)]] -= _ONE
        error = 0.0
        for k in row:
            error += np.float64(z[k]) * np.float64(z[k])
        farthest = (_BLINDNESS / n_classes) ** 2 * (squared - 2.0 * least)
        floors[i] = farthest / error if 0.0 < error < farthest else 1.0


@compilable
def _square_norms(rows, i):
    """The squared norms of four rows from the i-th: each sum is in order, and waits for itself."""
    last = rows.shape[0] - 1
    second, third, fourth = min(i + 1, last), min(i + 2, last), min(i + 3, last)
    a = b = c = d = 0.0
    for j in range(rows.shape[1]):
        a += np.float64(rows[i, j]) * np.float64(rows[i, j])
        b += np.float64(rows[second, j]) * np.float64(rows[second, j])
        c += np.float64(rows[third, j]) * np.float64(rows[third, j])
        d += np.float64(rows[fourth, j]) * np.float64(rows[fourth, j])
    return a, b, c, d


@compilable
def _add_squares(a, delta, size, squares):
    """Add ``|a|^2 |delta|^2`` of every record."""
    for i in range(0, size, 4):
        inputs, errors = _square_norms(a, i), _square_norms(delta, i)
        for r in range(min(4, size - i)):
            squares[i + r] += inputs[r] * errors[r]


@implements(add_gradient, MLPTarget)
def _add_gradient(target, theta, selection, count, out):
    weights = theta.astype(np.float32)
    summed = np.empty(weights.size, np.float32)
    # Every use of the target itself, a tuple of arrays, is a hundred lines of machine code.
    values, labels, sizes, activation = (
        target.values,
        target.labels,
        target.sizes,
        target.activation,
    )
    clip_norm = target.clip_norm
    n_inputs = n_outputs = 0
    for layer in range(sizes.size - 1):
        n_inputs += sizes[layer] + 1
        n_outputs += sizes[layer + 1]
    most = min(CHUNK, count)
    all_acts = np.empty(most * n_inputs, np.float32)
    all_deltas = np.empty(most * n_outputs, np.float32)
    squares, floors = np.empty(most), np.empty(most)
    for start in range(0, count, CHUNK):
        size = min(CHUNK, count - start)
        acts = vector_at(all_acts, 0, size * n_inputs)
        deltas = vector_at(all_deltas, 0, size * n_outputs)
        forward(values, sizes, activation, weights, acts, deltas, selection, start, size)
        _softmax_error(labels, sizes[-1], deltas, selection, start, size, floors)
        _backward(sizes, activation, weights, acts, deltas, size, squares)
        _weighted_sum(sizes, clip_norm, acts, deltas, squares, floors, size, summed)
        for j in range(out.size):
            out[j] += summed[j]


@compilable
def forward(values, sizes, activation, weights, acts, deltas, selection, start, size):
    """Fill in the activations, and at the end of ``deltas`` the last layer's ``z``."""
    first, act = 0, 0
    a = matrix_at(acts, 0, size, sizes[0] + 1)
    _gather(values, selection, start, a)
    for layer in range(1, sizes.size):
        before, after = sizes[layer - 1], sizes[layer]
        matrix = matrix_at(weights, first, before + 1, after)
        first += matrix.size
        act += a.size
        if layer < sizes.size - 1:
            z = matrix_at(acts, act, size, after + 1)
        else:
            z = matrix_at(deltas, deltas.size - size * after, size, after)
        multiply(a, PLAIN, matrix, PLAIN, z)
        if layer < sizes.size - 1:
            _activate(z, activation)
            a = z


@compilable
def _backward(sizes, activation, weights, acts, deltas, size, squares):
    """Fill in the errors of the other layers, and the squared norms of the gradients."""
    for i in range(size):
        squares[i] = 0.0
    first, act, delta = weights.size, acts.size, deltas.size
    for layer in range(sizes.size - 2, -1, -1):
        before, after = sizes[layer], sizes[layer + 1]
        act -= size * (before + 1)
        delta -= size * after
        a = matrix_at(acts, act, size, before + 1)
        d = matrix_at(deltas, delta, size, after)
        _add_squares(a, d, size, squares)
        first -= (before + 1) * after
        if layer > 0:
            pulled = matrix_at(deltas, delta - size * before, size, before)
            multiply(d, PLAIN, matrix_at(weights, first, before, after), TRANSPOSED, pulled)
            _pullback(activation, a, pulled)


@compilable
def _weighted_sum(sizes, clip_norm, acts, deltas, squares, floors, size, summed):
    """Multiply every record's errors by its weight, and add its gradient up with the others'."""
    first, act, delta = 0, 0, 0
    for layer in range(sizes.size - 1):
        a = matrix_at(acts, act, size, sizes[layer] + 1)
        d = matrix_at(deltas, delta, size, sizes[layer + 1])
        for i in range(size):
            norm = math.sqrt(squares[i] * floors[i])
            if not norm < _LONGEST_GRADIENT:  # Or of no direction: the record counts as zero.
                for j in range(a.shape[1]):
                    a[i, j] = _ZERO
                for k in range(d.shape[1]):
                    d[i, k] = _ZERO
            elif norm > clip_norm:
                # Rounded down, so that the norm of the product is not above the bound.
                weight = np.float32(clip_norm / norm * (1.0 - 2.0**-22))
                for k in range(d.shape[1]):
                    # A subnormal number may be much more than what was rounded to it.
                    weighed = d[i, k] * weight
                    d[i, k] = weighed if abs(weighed) >= _LEAST_NORMAL else _ZERO
        summed_layer = matrix_at(summed, first, a.shape[1], d.shape[1])
        multiply(a, TRANSPOSED, d, PLAIN, summed_layer)
        first += summed_layer.size
        act += a.size
        delta += d.size
