"""Linear algebra of matrices that carry noise, which never raises.

    A = 2^k B,  1/4 <= max |B_ij| < 1:      eigh(A) = (2^k values, vectors) of B,      A^-1 = 2^-k B^-1

A released matrix may be singular, indefinite, or so large that its squares are no doubles. Where
`numpy.linalg` then raises depends on the processor's kernels, and what it raises loses a fit that was paid
for. These functions call `numpy.linalg`, and return its result to the bit wherever that is finite. Otherwise
they take ``B``, with 0 in the place of what is not a number, and least eigenvalues or singular values of
``2^-52`` times the largest. All is post-processing of what was released.
"""

import numpy as np

_EPS = 2.0**-52


def eigh(matrix):
    """Ascending eigenvalues and orthonormal eigenvectors of symmetric matrices (..., n, n)."""
    return _first_finite(np.linalg.eigh, _scaled_eigh, matrix)


def eigvalsh(matrix):
    """Ascending eigenvalues of symmetric matrices (..., n, n)."""
    return _first_finite(np.linalg.eigvalsh, lambda m: _scaled_eigh(m)[0], matrix)


def cholesky(matrix):
    """Lower triangular factors of matrices (..., n, n), or of the nearest positive definite ones."""
    return _first_finite(np.linalg.cholesky, _each(_floored_cholesky), matrix)


def inv(matrix):
    """Inverses of matrices (..., n, n), or those of the nearest that are not singular."""
    return _first_finite(np.linalg.inv, _each(_floored_inverse), matrix)


def solve(matrix, right):
    """``A^-1 b`` for matrices (..., n, n), as `numpy.linalg.solve` does."""

    def by_inverse(matrix, right):
        columns = right[..., None] if right.ndim == 1 else right
        solved = inv(matrix) @ _finite(columns)
        return _finite(solved[..., 0] if right.ndim == 1 else solved)

    return _first_finite(np.linalg.solve, by_inverse, matrix, right)


def lstsq(matrix, right):
    """The least-squares solution of least norm for a matrix of shape (m, n)."""
    return _first_finite(
        lambda a, b: np.linalg.lstsq(a, b)[0],
        lambda a, b: _finite(pinv(a) @ _finite(b)),
        matrix,
        right,
    )


def pinv(matrix):
    """The pseudo-inverse of a matrix of shape (m, n)."""
    return _first_finite(np.linalg.pinv, _floored_inverse, matrix)


def _first_finite(function, fallback, *arrays):
    """Result of ``function`` if it is finite, and of ``fallback`` if it is not, or if LAPACK fails."""
    arrays = tuple(map(np.asarray, arrays))
    with np.errstate(all="ignore"):
        if _all_finite(arrays):  # LAPACK may go on without end where an entry is not.
            try:
                result = function(*arrays)
            except np.linalg.LinAlgError:
                return fallback(*arrays)
            if _all_finite(result if isinstance(result, tuple) else (result,)):
                return result
        return fallback(*arrays)


def _all_finite(arrays):
    return all(np.all(np.isfinite(array)) for array in arrays)


def _finite(array):
    return np.nan_to_num(array, nan=0.0)


def _each(function):
    """Function of matrices (..., m, n) that applies one of a single matrix to each of them."""

    def stacked(matrices):
        flat = matrices.reshape(-1, *matrices.shape[-2:])
        each = np.array([function(matrix) for matrix in flat])
        return each.reshape(matrices.shape[:-2] + each.shape[1:])

    return stacked


def _scaled(matrix):
    """``B`` and ``k``, which is even."""
    matrix = _finite(matrix)
    exponent = int(np.frexp(np.abs(matrix).max(initial=0.0))[1])
    exponent += exponent % 2  # A Cholesky factor is scaled by the root.
    return np.ldexp(matrix, -exponent), exponent


def _scaled_eigh(matrices):
    if matrices.ndim > 2:
        each = [_scaled_eigh(matrix) for matrix in matrices]
        return tuple(np.array(part) for part in zip(*each, strict=True))
    scaled, exponent = _scaled(matrices)
    try:
        values, vectors = np.linalg.eigh(scaled)
    except np.linalg.LinAlgError:
        values = vectors = np.array(np.nan)
    if not _all_finite((values, vectors)):
        order = np.argsort(np.diag(scaled))
        values, vectors = np.diag(scaled)[order], np.eye(len(scaled))[:, order]
    return _finite(np.ldexp(values, exponent)), vectors


def _floored_cholesky(matrix):
    scaled, exponent = _scaled(matrix)
    values, vectors = _scaled_eigh(scaled)
    values = np.maximum(values, _EPS)
    upper = np.asarray(np.linalg.qr((vectors * np.sqrt(values)).T, mode="r"))
    upper *= np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]
    return np.ldexp(upper.T, exponent // 2)


def _floored_inverse(matrix):
    scaled, exponent = _scaled(matrix)
    try:
        left_vectors, values, right = np.linalg.svd(scaled, full_matrices=False)
    except np.linalg.LinAlgError:
        diagonal = np.diag(scaled) if scaled.shape[0] == scaled.shape[1] else np.zeros(0)
        diagonal = np.where(np.abs(diagonal) > _EPS, diagonal, _EPS)
        size = diagonal.size
        left_vectors, values, right = (
            np.eye(len(scaled), size),
            diagonal,
            np.eye(size, scaled.shape[1]),
        )
    values = np.where(np.abs(values) > _EPS, values, _EPS)
    return _finite(np.ldexp((right.T / values) @ left_vectors.T, -exponent))
