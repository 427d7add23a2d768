"""Bringing rows into a ball, without a copy of the table.

    x_i -> scale_i x_i,    scale_i = min(1, R / ||x_i||)

What a record can do to a sum rests on this, whatever numbers a table holds.
"""

import math

import numpy as np
import scipy.sparse as sp

# Beyond this a row's products with moderate coefficients could overflow before they are scaled.
_EXTREME_NORM = 1e150


def row_scales(X, norm):
    """Return the factors ``min(1, norm / ||x_i||)`` that bring every row into a ball.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
        Finite numbers.
    norm : float
        Radius of the ball.

    Returns
    -------
    scale : ndarray of shape (n_samples,)

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.preprocessing import row_scales
    >>> row_scales(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    array([0.2, 1. ])
    """
    norms = _row_norms(X)
    scale = norm / np.maximum(norms, norm)
    for i in np.flatnonzero(np.isinf(norms)):
        row = X.data[X.indptr[i] : X.indptr[i + 1]] if sp.issparse(X) else X[i]
        largest = np.abs(row).max()
        # Squares overflow, and the norm itself may be beyond the largest double.
        scale[i] = (norm / largest) / math.sqrt(np.sum(np.square(row / largest)))
    if not np.isfinite(scale).all():  # What is validated cannot get here; a guarantee rests on it.
        raise ValueError("rows must hold finite numbers.")
    return scale


def clip_rows(X, norm):
    """Return ``(X, scale)`` such that ``scale_i X_i`` has at most the norm, in finite arithmetic.

    ``X`` is copied only if it is a sparse matrix with several entries in one place, or holds absurdly
    long rows, whose products could overflow.
    """
    X = canonical(X)
    scale = row_scales(X, norm)
    extreme = scale < norm / _EXTREME_NORM
    # Other rows stay as they are, to the last bit: what is done to a row is its own.
    if extreme.any():
        return scale_rows(X, np.where(extreme, scale, 1.0)), np.where(extreme, 1.0, scale)
    return X, scale


def canonical(X):
    """Return a sparse matrix with one entry in a place: entries that add up would dodge a bound.

    Raises
    ------
    ValueError
        If column numbers are out of range, or entries add up to infinity.
    """
    if not sp.issparse(X):
        return X
    # A new wrapper of the same arrays, so that no remembered flag is believed.
    fresh = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
    fresh.check_format(full_check=True)
    if fresh.has_canonical_format:
        return fresh
    fresh = fresh.copy()
    with np.errstate(over="ignore", invalid="ignore"):
        fresh.sum_duplicates()
    if np.isinf(fresh.data).any():
        raise ValueError("Input X contains infinity: several entries in one place add up to it.")
    return fresh


def _row_norms(X):
    """Euclidean norms in double precision; inf where the squares overflow."""
    with np.errstate(over="ignore"):
        if sp.issparse(X):
            squares = sp.csr_array(
                (np.square(X.data, dtype=np.float64), X.indices, X.indptr), shape=X.shape
            )
            norms = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
        else:
            norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    return norms


def scale_rows(X, scale):
    """Return the rows times their factors, in a copy."""
    if not sp.issparse(X):
        return X * scale[:, None].astype(X.dtype)
    X = X.copy()
    X.data = X.data * np.repeat(scale, np.diff(X.indptr)).astype(X.dtype)
    return X
