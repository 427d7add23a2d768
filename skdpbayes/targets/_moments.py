"""Second moments of a target's rows, and rows clipped in another norm.

    A = sum_i z_i z_i^T,      z_i = (scale_i x_i, b)

    ||W^T (s_i scale_i x_i, b)|| <= C,      s_i the largest in [0, 1]

The constant ``b`` of the intercept is public, and is not clipped.
"""

import numpy as np
import scipy.sparse as sp

from .._silence import silently

# Rows that are handled at once.
MOMENT_ROWS = 4096
# Norms are computed to a few units of rounding; this much is kept as a distance.
_MARGIN = 1e-9


def _n_features(target):
    """Return the number of columns, the constant one apart."""
    length = target.prior_precision.size // getattr(target, "n_classes", 1)
    return length - (target.intercept_scaling > 0)


def _table(target):
    """Return the unscaled rows as an array or a CSR matrix."""
    if not hasattr(target, "starts"):
        return target.values
    rows = (target.values, target.columns, target.starts)
    return sp.csr_array(rows, shape=(target.scale.size, _n_features(target)))


def _blocks(target):
    """Yield (slice, scaled rows without their constant) for a few thousand rows at a time."""
    table = _table(target)
    for first in range(0, target.scale.size, MOMENT_ROWS):
        part = slice(first, first + MOMENT_ROWS)
        scale = target.scale[part, None]
        rows = table[part]
        yield part, (rows.multiply(scale).tocsr() if sp.issparse(rows) else rows * scale)


@silently()
def second_moment(target, constant=None):
    """Sum of ``z z^T`` over the records. **It is not private.**

    Parameters
    ----------
    target : NamedTuple
        A logistic target.
    constant : float or None, default=None
        A constant column in the intercept's place; None is the intercept's, if there is one.

    Returns
    -------
    moment : ndarray of shape (length, length)
        With a last row and column for a constant other than zero.
    """
    if constant is None:
        constant = target.intercept_scaling
    length = _n_features(target) + (constant > 0)
    moment = np.zeros((length, length))
    for _, rows in _blocks(target):
        product = rows.T @ rows
        size = rows.shape[1]
        moment[:size, :size] += product.toarray() if sp.issparse(product) else product
        if constant > 0:
            total = constant * np.asarray(rows.sum(axis=0)).ravel()
            moment[-1, :-1] += total
            moment[:-1, -1] += total
            moment[-1, -1] += constant**2 * rows.shape[0]
    return moment


@silently()
def clip_transformed(target, transform, norm):
    """Return the target with its rows clipped to ``||W^T z|| <= norm``.

    Parameters
    ----------
    target : NamedTuple
        A logistic target.
    transform : ndarray of shape (length, length)
        ``W``.
    norm : float
        More than the transformed constant's own norm.

    Returns
    -------
    clipped : NamedTuple
        Its ``gradient_bound`` is still that of rows as they were.
    """
    scale = np.array(target.scale)
    norm = norm * (1.0 - _MARGIN)
    constant = target.intercept_scaling * transform[-1]
    for part, rows in _blocks(target):
        moved = rows @ transform[: rows.shape[1]]
        # The larger root of ||s a + c||^2 = C^2, which is at least 0 as ||c|| < C.
        a, b = np.einsum("ij,ij->i", moved, moved), moved @ constant
        slack = norm**2 - constant @ constant
        root = slack / (b + np.sqrt(b**2 + a * slack))
        # A root that is no number is 0: what cannot be seen to fit does not count.
        scale[part] *= np.where(a + 2 * b <= slack, 1.0, np.clip(np.nan_to_num(root), 0.0, 1.0))
    scale.flags.writeable = False
    return target._replace(scale=scale)
