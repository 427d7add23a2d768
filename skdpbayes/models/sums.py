"""Sums over a linear model's rows: gradients, scores, curvatures and second moments, with weights.

    v_i = min(1, C / |W^T x_i|, K^2 / |W^T x_i|^2)                           K >= C, mostly the same
    g(u) = sum_i v_i H^T (p_i - e_{y_i}) (x) W^T x_i,                        |g_i| <= C,    times sqrt(2)
    F(u) = sum_i v_i H^T (diag(p_i) - p_i p_i^T) H (x) W^T x_i x_i^T W,      |F_i| <= K^2 / 4,    times 2

with ``H`` as in `families`, and the factors for more than two classes. A score ``a`` is a gradient without
labels, with ``1/K`` in the place of ``e_y``: half as long, or ``sqrt(1 - 1/K)``. A record that is long
counts less, and is never shortened: its logits keep the whole row, so that the weighted sum of losses has
its minimum where the model says (Mallows' weights).
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import gen_batches

from .._errors import suppress_fp_warnings
from .kernels import logistic_sums, moment, squared_lengths
from .rows import make_rows, map_chunks, read_only

# Sums over the rows of a target: blocks that stay in the cache, in chunks that cores share.
#
#     sum_i f(z_i) = sum_chunks sum_blocks sum_{i in block} f(z_i),      z_i = (scale_i x_i, b)
#
# Chunks are fixed by the number of rows alone and added in their order, so that sums do not depend on
# how many cores there are. Results are multiplied by the factors of rows, instead of the rows: rows
# are copied only where they must be.


# Largest number of rows added up in a chain: no entry has a longer one than
# ``MOMENT_ROWS + n / MOMENT_ROWS``.
MOMENT_ROWS = 4096
# Most rows of a block that is summed at once.
_LARGEST_BLOCK = 4096
# Least rows of such a block.
_SMALLEST_BLOCK = 512
# Entries of a block that stay in a processor's cache.
_BLOCK_ENTRIES = 2**17
# Most products of two entries of a row that are held at once.
_MOST_PRODUCTS = 2**22
# Fewest columns of an array whose zeros are worth leaving out, and the largest share of other entries.
_LEAST_SPARSE_COLUMNS = 32
_LARGEST_SPARSE_DENSITY = 1 / 8
# Most chunks that are summed at once.
_MOST_CHUNKS = 32


@dataclass(frozen=True)
class Block:
    """Some rows of a table.

    Attributes
    ----------
    rows : {ndarray, CSR array} of shape (n, n_features)
        In single or double precision.
    scale : ndarray of shape (n,)
    constant : float
        Of the last column of ``z``, which is left out if this is 0.
    offsets : ndarray of shape (n,) or None
        Of the logits.
    buffer : ndarray
        For as many doubles as there are entries.
    """

    rows: np.ndarray | sp.csr_array
    scale: np.ndarray
    constant: float
    offsets: np.ndarray | None
    buffer: np.ndarray

    @cached_property
    def doubles(self):
        """Rows in double precision."""
        if self.rows.dtype == np.float64 or not self.is_dense:
            return self.rows.astype(np.float64, copy=False)
        doubles = self.buffer[: self.rows.size].reshape(self.rows.shape)
        np.copyto(doubles, self.rows)
        return doubles

    @property
    def is_dense(self):
        """Whether rows are an array."""
        return isinstance(self.rows, np.ndarray)

    def logistic_sums(self, theta, centres, weights, curvature, transform=None):
        """The sums of `kernels.logistic_sums`, the first in one block."""
        given = self.rows, self.scale, self.constant
        gradient, matrix = logistic_sums(*given, theta, centres, weights, curvature, transform)
        return gradient[None], matrix

    def logits(self, theta):
        """``theta z`` and the offsets, of shape (n_blocks, n)."""
        logits = (self.doubles @ theta[:, : self.rows.shape[1]].T).T * self.scale
        if self.offsets is not None:
            logits += self.offsets
        return logits + self.constant * theta[:, -1:] if self.constant else logits

    def summed(self, factors):
        """``sum_i f_i z_i``, of shape (n_blocks, length), for factors of shape (n_blocks, n)."""
        sums = (self.doubles.T @ (factors * self.scale).T).T
        if not self.constant:
            return sums
        return np.column_stack([sums, self.constant * factors.sum(axis=1)])

    def moved(self, transform):
        """``W^T z``, of shape (n, length)."""
        moved = self.doubles @ transform[: self.rows.shape[1]]
        moved *= self.scale[:, None]
        if self.constant:
            moved += self.constant * transform[-1]
        return moved

    def squared_lengths(self, transform):
        """``|W^T z|^2``, of shape (n,)."""
        return squared_lengths(self.rows, self.scale, self.constant, transform)

    def moment(self, factors):
        """``sum_i f_i z_i z_i^T``, of shape (length, length)."""
        return moment(self.rows, factors, self.scale, self.constant)


def sum_of_blocks(target, sums_over_block):
    """The sums over blocks of a tuple of arrays or None.

    Parameters
    ----------
    target : NamedTuple
        A linear model's target.
    sums_over_block : callable
        Of a slice and the `Block` of these rows.
    """
    table, n = _table(target), target.scale.size
    length = max(1, target.n_features if isinstance(table, np.ndarray) else table.nnz // max(1, n))
    size = min(max(_BLOCK_ENTRIES // length, _SMALLEST_BLOCK), _LARGEST_BLOCK)
    n_chunks = min(_MOST_CHUNKS, max(1, -(-n // MOMENT_ROWS)))

    def of_chunk(first, stop):
        starts = range(first, stop, size) or (first,)  # The sums of no rows have a shape, too.
        parts = (slice(k, min(k + size, stop)) for k in starts)
        # Memory that were allocated for every block would be cleared by the system every time.
        buffer = np.empty(min(size, stop - first) * length)
        return reduce(
            _added, (sums_over_block(part, _block(target, table, part, buffer)) for part in parts)
        )

    return reduce(_added, map_chunks(of_chunk, n, n_chunks, n * length))


def compacted(target):
    """The target with its rows as a CSR matrix, if so few entries differ from 0 that sums are faster so.

    Rows are the same numbers; sums over them may be rounded otherwise.

    Parameters
    ----------
    target : NamedTuple
        A linear model's target.
    """
    rows = target.values
    if hasattr(target, "starts") or rows.shape[1] < _LEAST_SPARSE_COLUMNS:
        return target
    # Most tables show by a few rows that they are dense.
    for part in (rows[:_LARGEST_BLOCK], rows):
        if np.count_nonzero(part) > _LARGEST_SPARSE_DENSITY * part.size:
            return target
    _, sparse, _ = target.family.target_classes
    fields = make_rows(sp.csr_array(rows), target.scale)._asdict()
    return sparse(**{**target._asdict(), **fields})


def _added(sums, more):
    return tuple(None if a is None else a + b for a, b in zip(sums, more, strict=True))


def _table(target):
    """The unscaled rows as an array or a CSR matrix."""
    if not hasattr(target, "starts"):
        return target.values
    rows = (target.values, target.columns, target.starts)
    return sp.csr_array(rows, shape=(target.scale.size, target.n_features))


def _rows_of(table, part):
    """Some of a table's rows, without a copy."""
    if isinstance(table, np.ndarray):
        return table[part]
    starts = table.indptr[part.start : part.stop + 1]
    own = slice(starts[0], starts[-1])
    rows = table.data[own], table.indices[own], starts - starts[0]
    return sp.csr_array(rows, shape=(starts.size - 1, table.shape[1]))


def _block(target, table, part, buffer):
    rows, offsets = _rows_of(table, part), getattr(target, "offsets", ())
    if rows.dtype not in (np.float32, np.float64):
        rows = rows.astype(np.float64)
    offsets = offsets[part] if len(offsets) else None
    return Block(rows, target.scale[part], target.constant, offsets, buffer)


@suppress_fp_warnings()
def record_weights(
    target: Any, transform: np.ndarray, norm: float, of_matrices: float | None = None
) -> np.ndarray:
    """``v``: what records count. **It is not private.**

    Parameters
    ----------
    target : NamedTuple
        A linear model's target.
    transform : ndarray of shape (length, length)
        ``W``.
    norm : float
        ``C``.
    of_matrices : float or None, default=None
        ``K``; None is ``C``, so that ``v`` is ``min(1, C^2 / |z|^2)``.

    Returns
    -------
    weights : ndarray of shape (n_samples,)
        In [0, 1].
    """
    of_matrices = norm if of_matrices is None else of_matrices
    weights = np.empty(target.scale.size)

    def sums_over_block(part, block):
        squares = block.squared_lengths(transform)
        # What is no number does not count.
        least = np.minimum(norm / np.sqrt(squares), of_matrices**2 / squares)
        weights[part] = np.nan_to_num(np.minimum(1.0, least), nan=0.0)
        return ()

    sum_of_blocks(target, sums_over_block)
    return weights


def reweighted(target, transform, norm, power=1, of_matrices=None):
    """A target of which records count ``w^power v``, ``w`` being their weights. **It is not private.**

    Parameters
    ----------
    target, transform, norm, of_matrices
        As for `record_weights`.
    power : int, default=1
    """
    weights = target.weights**power * record_weights(target, transform, norm, of_matrices)
    return target._replace(weights=read_only(weights))


def weighted_sums(target, family, weights, theta, transform=None, *, curvature=True):
    """The sums of weighted gradients, and of curvatures if wanted, at ``theta``. **Not private.**

    Parameters
    ----------
    target : NamedTuple
        A linear model's target.
    family : Family
        The target's, or its identified one.
    weights : ndarray of shape (n_samples,) or None
        None is the target's.
    theta : ndarray of shape (n_blocks, length)
        In the blocks of the family.
    transform : ndarray of shape (length, length) or None, default=None
        ``W`` of the second; None has it in the coordinates of the rows.
    curvature : bool, default=True
        Whether the second is wanted.

    Returns
    -------
    gradient : ndarray of shape (n_blocks, length)
        In the coordinates of the rows, before ``W``.
    matrix : ndarray of shape (n_blocks * length, n_blocks * length) or None
    """
    return _sums(target, family, weights, theta, transform, target.responses, curvature)


def weighted_scores(target, family, theta, transform=None, *, curvature=True):
    """The sums of weighted means less those at zero, and of curvatures if wanted. **Not private.**

        a(u) = sum_i v_i H^T (p_i - 1/K) (x) W^T x_i

    which is a gradient without the responses. Parameters and returns are those of `weighted_sums`.
    """
    return _sums(target, family, None, theta, transform, None, curvature)


@suppress_fp_warnings()
def read_together(target, reads):
    """Several sums over a target's records in one pass. **They are not private.**

    Parameters
    ----------
    target : NamedTuple
        A linear model's target.
    reads : tuple of (callable, tuple)
        `moment_of_block`, `clipped_of_block` and the like, which make a function of a slice and its `Block`,
        and their arguments.

    Returns
    -------
    sums : tuple of tuple
        A pair for each, of which the second is None if there is only one sum.
    """
    of_blocks = [make(target, *args) for make, args in reads]

    def sums_over_block(part, block):
        return tuple(number for each in of_blocks for number in each(part, block))

    sums = sum_of_blocks(target, sums_over_block)
    return tuple(zip(sums[::2], sums[1::2], strict=True))


def moment_of_block(target, transform, theta=None, clip=None):
    """For `read_together`, ``sum_i w_i z_i z_i^T`` with ``z = W^T x``, or with ``w_i psi_i^2`` for ``w_i``.

    Parameters
    ----------
    target : NamedTuple
        A linear model's target, whose family has one logit.
    transform : ndarray of shape (length, length)
        ``W``.
    theta, clip
        As for `clipped_of_block`; None is without residuals.
    """

    def sums_over_block(part, block):
        weights = target.weights[part]
        if theta is not None:
            weights = weights * _clipped(target, theta, clip, part, block) ** 2
        return moment(block.moved(transform), weights), None

    return sums_over_block


def clipped_of_block(target, theta, clip, centre=None, weighs_squares=True):
    """For `read_together`, ``sum_i w_i psi_i x_i`` and ``sum_i w_i psi_i^2``.

        psi_i = min(max(y_i - m(theta x_i), -clip), clip)

    Parameters
    ----------
    target : NamedTuple
        A linear model's target, whose family has one logit.
    theta : ndarray of shape (length,)
    clip : float
    centre : callable or None, default=None
        Maps logits to what is subtracted from responses; None is the mean.
    weighs_squares : bool, default=True
        Whether squares are weighted, too.
    """

    def sums_over_block(part, block):
        residuals = _clipped(target, theta, clip, part, block, centre)
        weighted = target.weights[part] * residuals
        square = residuals @ (weighted if weighs_squares else residuals)
        return block.summed(weighted[None])[0], float(square)

    return sums_over_block


def residuals_of_block(target, theta, clip, centre=None, is_weighted=True):
    """For `read_together`, ``sum_i psi_i`` and ``sum_i psi_i^2``, with weights or without.

    Parameters are those of `clipped_of_block`.
    """

    def sums_over_block(part, block):
        residuals = _clipped(target, theta, clip, part, block, centre)
        weighted = target.weights[part] * residuals if is_weighted else residuals
        return float(weighted.sum()), float(residuals @ weighted)

    return sums_over_block


def _clipped(target, theta, clip, part, block, centre=None):
    """``psi`` of a block's records, of shape (n,)."""
    means = (centre or target.family.inverse_link)(block.logits(theta[None]))[0]
    return np.clip(target.responses[part] - means, -clip, clip)


def _sums(target, family, weights, theta, transform, responses, curvature):
    """Sums of residuals, or of scores if there are no responses, and of curvatures if wanted."""
    weights = target.weights if weights is None else weights
    at_zero = family.mean(family.inverse_link(np.zeros((family.n_blocks, 1))))

    def sums_over_block(part, block):
        given = None if responses is None else responses[part]
        sums = family.sums_of_block(block, weights[part], theta, given, curvature, transform)
        if sums is not None:
            return sums
        predicted = family.inverse_link(block.logits(theta))
        apart = (
            family.mean(predicted) - at_zero
            if given is None
            else family.residuals(predicted, given)
        )
        gradient = block.summed(weights[part] * apart)
        if not curvature:
            return gradient, None
        rows = block if transform is None else block.moved(transform)
        return gradient, slope_matrix(family, predicted, weights[part], rows)

    return sum_of_blocks(target, sums_over_block)


def sum_of_losses(target, family, theta):
    """The sum of all records' losses at ``theta``. **It is not private.**

    Parameters
    ----------
    target, family, theta
        As for `weighted_sums`.
    """

    def sums_over_block(part, block):
        return (family.losses(block.logits(theta), target.responses[part]).sum(),)

    return sum_of_blocks(target, sums_over_block)[0]


@suppress_fp_warnings()
def losses_and_gradients(target, family, points):
    """The sums of weighted losses, and their gradients, at several points. **They are not private.**

    Parameters
    ----------
    target, family
        As for `weighted_sums`.
    points : ndarray of shape (n_points, n_blocks, length)

    Returns
    -------
    losses : ndarray of shape (n_points,)
    gradients : ndarray of shape (n_points, n_blocks, length)
    """
    theta = points.reshape(-1, points.shape[2])

    def sums_over_block(part, block):
        responses, weights = target.responses[part], target.weights[part]
        logits = np.ascontiguousarray(block.logits(theta)).reshape(*points.shape[:2], -1)
        losses, factors = np.empty(len(points)), np.empty_like(logits)
        for k, own in enumerate(logits):
            of_rows, residuals = family.losses_and_residuals(own, responses)
            losses[k], factors[k] = weights @ of_rows, weights * residuals
        return losses, block.summed(factors.reshape(len(theta), -1))

    losses, gradients = sum_of_blocks(target, sums_over_block)
    return losses, gradients.reshape(points.shape)


def slope_matrix(family, predicted, weights, rows):
    """``sum_i w_i slope_i (x) x_i x_i^T``, blocks of coefficients one after the other.

    Parameters
    ----------
    family : Family
    predicted : ndarray of shape (..., n)
        As its inverse link returns them.
    weights : ndarray of shape (n,)
        Not negative.
    rows : {ndarray of shape (n, length), Block}

    Returns
    -------
    matrix : ndarray of shape (n_blocks * length, n_blocks * length)
    """
    units = np.eye(family.n_blocks)[:, :, None]
    slopes = weights * np.array([family.slope_times(predicted, unit) for unit in units])
    if not isinstance(rows, Block) and rows.size * rows.shape[1] <= _MOST_PRODUCTS:
        n, length = rows.shape
        products = (rows[:, :, None] * rows[:, None]).reshape(n, length**2)
        moments = slopes.reshape(family.n_blocks**2, n) @ products
        moments = moments.reshape(family.n_blocks, family.n_blocks, length, length)
        return moments.swapaxes(1, 2).reshape(2 * [family.n_blocks * length])
    moment_with = rows.moment if isinstance(rows, Block) else partial(moment, rows)
    blocks = range(family.n_blocks)
    found = {(i, j): moment_with(slopes[j, i]) for j in blocks for i in blocks if i >= j}
    if family.n_blocks == 1:
        return found[0, 0]
    return np.block([[found[max(i, j), min(i, j)] for j in blocks] for i in blocks])


def binned(target: Any, edges: np.ndarray, offset_edges: np.ndarray) -> tuple:
    """Total weights of the records whose responses, or offsets, are between edges. **Not private.**

    The third number is positive if there are offsets, and otherwise 0. Weights are added as those of other
    sums, ``MOMENT_ROWS`` at a time, which rounding of a long chain would spoil.
    """

    def counted(values, inner):
        places, total = np.searchsorted(inner, values, side="right"), np.zeros(inner.size + 1)
        for part in gen_batches(len(places), MOMENT_ROWS):
            total += np.bincount(places[part], target.weights[part], minlength=total.size)
        return total

    offsets = getattr(target, "offsets", ())
    if not len(offsets):
        return counted(target.responses, edges), np.zeros(offset_edges.size + 1), 0.0
    return counted(target.responses, edges), counted(offsets, offset_edges), 1.0


# Second moments of a target's rows, followed by the constant ``b`` of their intercept.
#
#     A = sum_i z_i z_i^T,      z_i = (scale_i x_i, b)


@suppress_fp_warnings()
def second_moment(
    target: Any, constant: float | None = None, weights: np.ndarray | None = None
) -> np.ndarray:
    """Sum of ``z z^T`` over the records, weighted if asked for. **It is not private.**

    Parameters
    ----------
    target : NamedTuple
        A linear model's target.
    constant : float or None, default=None
        A constant column in the intercept's place; None is the intercept's, if there is one.
    weights : ndarray of shape (n_samples,) or None, default=None
        What records count, not negative; None is 1.

    Returns
    -------
    moment : ndarray of shape (length, length)
        With a last row and column for a constant other than zero.
    """
    constant = target.constant if constant is None else constant

    def sums_over_block(part, block):
        factors = np.ones(block.scale.size) if weights is None else weights[part]
        return (replace(block, constant=constant).moment(factors),)

    return sum_of_blocks(target, sums_over_block)[0]


# Losses of linear models with their first two derivatives, for those who read records without
# privacy.
#
#     g = sum_i r_i (x) x_i,      H = sum_i S_i (x) x_i x_i^T <= B (x) sum_i x_i x_i^T
#
# with a family's residuals ``r``, its slopes ``S``, and ``B`` its largest slope: 1/4 for two classes,
# and ``(I - 1 1^T / K) / 2`` for the softmax of ``K`` (Böhning, 1992).


def loss_and_derivatives(target, theta):
    """The summed loss, its gradient and its Hessian at ``theta``. **They are not private.**

    Parameters
    ----------
    target : NamedTuple
        A linear model's target.
    theta : ndarray of shape (n_parameters,)

    Returns
    -------
    loss : float
    gradient : ndarray of shape (n_parameters,)
    hessian : ndarray of shape (n_parameters, n_parameters)
    """
    family = target.family
    blocks = theta.reshape(family.n_blocks, -1)
    gradient, hessian = weighted_sums(target, family, np.ones(target.scale.size), blocks)
    return sum_of_losses(target, family, blocks), gradient.ravel(), hessian


def curvature_bound(moment, family):
    """A matrix that is nowhere smaller than the Hessian, from the rows' second moment."""
    return np.kron(family.largest_slope, moment)
