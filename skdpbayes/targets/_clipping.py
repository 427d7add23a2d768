"""Bringing rows into a ball, without a copy of the table.

    x_i -> scale_i x_i,    scale_i = min(1, R / ||x_i||)

What a record can do to a sum rests on this, whatever numbers a table holds. Squares of a row beyond 1e150
may overflow, and its factor may be no normal double: such a row is divided by its largest entry first,

    x_i -> R (x_i / m_i) / ||x_i / m_i||,    m_i = max_j |x_ij|,

in a copy. What counts is at most ``R (1 + (d + 8) u / 2)`` long, ``u`` being the unit roundoff.
"""

import numpy as np
import scipy.sparse as sp

from .._inputs import unless_harmless, unquoted
from .._silence import silently
from .._typing import MatrixLike
from ._threads import of_chunks

# Steps follow from fourth powers of norms over squared numbers of records, which are normal doubles here.
NORMS = (1e-60, 1e60)
# Beyond this a row's products with moderate coefficients could overflow before they are scaled.
_EXTREME_NORM = 1e150
# Chunks whose norms are computed at once, and rows that are worth one.
_MOST_CHUNKS, _CHUNK_ROWS = 32, 4096


def checked_norm(norm, name="norm"):
    """Return a norm to which rows are clipped, or raise a ValueError if it is out of range."""
    low, high = NORMS
    if not low <= norm <= high:
        raise ValueError(
            f"{name}={norm:g} must be between {low:g} and {high:g}: multiply the columns and it by a "
            "public number that brings them to a usual size."
        )
    return float(norm)


@silently()
def row_scales(X: MatrixLike, norm: float) -> np.ndarray:
    """Return the factors ``min(1, norm / ||x_i||)`` that bring every row into a ball.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
        Finite numbers.
    norm : float
        Radius of the ball, between 1e-60 and 1e60.

    Returns
    -------
    scale : ndarray of shape (n_samples,)
        0 where the factor is no normal double.

    Raises
    ------
    ValueError
        If a number is not finite, or the radius is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from skdpbayes.preprocessing import row_scales
    >>> row_scales(np.array([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    array([0.2, 1. ])
    """
    checked_norm(norm)
    scale = norm / np.maximum(row_norms(canonical(X)), norm)
    return np.where(scale < np.finfo(scale.dtype).tiny, 0.0, scale)


def clip_rows(X, norm):
    """Return ``(X, scale)`` such that ``scale_i X_i`` has at most the norm, in finite arithmetic.

    ``X`` is copied only if it is a sparse matrix with several entries in one place, or holds absurdly
    long rows.

    Raises
    ------
    ValueError
        If a number is not finite, or the norm is out of range.
    """
    checked_norm(norm)
    X = canonical(X)
    norms = row_norms(X)
    extreme = np.flatnonzero(norms > _EXTREME_NORM)
    # Other rows stay as they are, to the last bit: what is done to a row is its own.
    if extreme.size:
        X = X.copy()
        for i in extreme:
            row = _entries(X, i)
            row /= np.abs(row).max()
            row *= norm / np.linalg.norm(row)
        norms[extreme] = norm
    return X, norm / np.maximum(norms, norm)


def canonical(X):
    """Return a sparse matrix with one entry in a place: entries that add up would dodge a bound.

    Raises
    ------
    TypeError
        If a table holds anything but real numbers.
    ValueError
        If column numbers are out of range, or entries add up to infinity.
    """
    X = (
        X
        if hasattr(X, "dtype")
        else unquoted(np.asarray, X, told=unless_harmless("X must be an array."))
    )
    if X.dtype.kind not in "biuf":
        raise TypeError(f"X must hold real numbers, but its type is {X.dtype}.")
    if not sp.issparse(X):
        return X
    # A new wrapper of the same arrays, so that no remembered flag is believed.
    fresh = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
    fresh.check_format(full_check=True)
    if fresh.has_canonical_format:
        return fresh
    fresh = fresh.copy()
    fresh.sum_duplicates()
    if np.isinf(fresh.data).any():
        raise ValueError("Input X contains infinity: duplicate entries add up to it.")
    return fresh


def _entries(X, i):
    """Return a view of the entries of a row that are stored."""
    return X.data[X.indptr[i] : X.indptr[i + 1]] if sp.issparse(X) else X[i]


def row_norms(X):
    """Return Euclidean norms in double precision; inf beyond the largest double."""
    if sp.issparse(X):
        squares = np.square(X.data, dtype=np.float64)
        squares = sp.csr_array((squares, X.indices, X.indptr), shape=X.shape)
        norms = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
    else:
        norms = np.empty(len(X))

        def write(first, stop):
            rows = X[first:stop]
            squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64, out=norms[first:stop])
            np.sqrt(squares, out=squares)

        of_chunks(write, len(X), 1 + min(len(X) // _CHUNK_ROWS, _MOST_CHUNKS - 1), X.size)
    for i in np.flatnonzero(np.isinf(norms)):
        row = _entries(X, i)
        largest = np.abs(row).max()
        norms[i] = largest * np.linalg.norm(row / largest)
    if np.isnan(norms).any():  # What is validated cannot get here; a guarantee rests on it.
        raise ValueError("rows must hold finite numbers.")
    return norms


def scale_rows(X, scale):
    """Return the rows times their factors, in a copy of their own precision."""
    # A factor that this precision does not have as a normal number is applied in two parts.
    small = scale < np.finfo(X.dtype).tiny
    if small.any():
        first = np.where(small, 2.0**-120, 1.0)
        X, scale = _times(X, first), scale / first
    return _times(X, scale)


def _times(X, scale):
    if not sp.issparse(X):
        return X * scale[:, None].astype(X.dtype)
    X = X.copy()
    X.data = X.data * np.repeat(scale, np.diff(X.indptr)).astype(X.dtype)
    return X
