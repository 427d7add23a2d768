"""Second moments of a target's rows, followed by the constant ``b`` of their intercept.

A = sum_i z_i z_i^T,      z_i = (scale_i x_i, b)
"""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..._silence import silently
from .._clipping import scale_rows

# Rows that are handled at once.
MOMENT_ROWS = 4096


def _table(target):
    """Return the unscaled rows as an array or a CSR matrix."""
    if not hasattr(target, "starts"):
        return target.values
    rows = (target.values, target.columns, target.starts)
    return sp.csr_array(rows, shape=(target.scale.size, target.n_features))


def _blocks(target):
    """Yield (slice, scaled rows without their constant) for a few thousand rows at a time."""
    table = _table(target)
    for first in range(0, target.scale.size, MOMENT_ROWS):
        part = slice(first, first + MOMENT_ROWS)
        scale = target.scale[part, None]
        rows = table[part]
        yield part, (rows.multiply(scale).tocsr() if sp.issparse(rows) else rows * scale)


@silently()
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
        What records count; None is 1.

    Returns
    -------
    moment : ndarray of shape (length, length)
        With a last row and column for a constant other than zero.
    """
    if constant is None:
        constant = target.constant
    length = target.n_features + (constant > 0)
    moment = np.zeros((length, length))
    for part, rows in _blocks(target):
        counted, count = rows, rows.shape[0]
        if weights is not None:
            own = weights[part]
            counted, count = scale_rows(rows, own), own.sum()
        product = rows.T @ counted
        size = rows.shape[1]
        moment[:size, :size] += product.toarray() if sp.issparse(product) else product
        if constant > 0:
            total = constant * np.asarray(counted.sum(axis=0)).ravel()
            moment[-1, :-1] += total
            moment[:-1, -1] += total
            moment[-1, -1] += constant**2 * count
    return moment
