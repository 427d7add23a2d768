"""The law of several looks, in which what is not known of a symmetric matrix is integrated out.

    r_k ~ (D^1/2 S D^1/2 + T) x_k + N(0, blocks),      S_ij ~ N(0, 1 + [i = j]) symmetric,  T_ii ~ N(0, h_i)

with diagonal ``D`` and ``T``. ``S y_k`` and ``S y_l`` have the covariance ``y_k . y_l I + y_l y_k^T``.
Without the second part entries are independent. That part is ``U J U^T``, where ``J`` exchanges the looks
of a pair: by Woodbury's identity only matrices over pairs of looks are inverted besides.
"""

import numpy as np

from ..._linalg import inv


def conditioned(r, blocks, x, doubt, own_doubt):
    """Return minus the log density of ``r``, up to a constant, and its derivatives.

    Parameters
    ----------
    r, x : ndarray of shape (n_points, n_looks, length)
    blocks : ndarray of shape (n_points, length, n_looks, n_looks)
    doubt, own_doubt : ndarray of shape (length,)
        ``D`` and ``h``.

    Returns
    -------
    energy : ndarray of shape (n_points,)
    by_r : ndarray of shape (n_points, n_looks, length)
    by_blocks : ndarray of shape (n_points, length, n_looks, n_looks)
    by_x : ndarray of shape (n_points, n_looks, length)
    """
    n_points, n_looks, length = x.shape
    pairs, square = n_looks**2, (n_looks, n_looks)
    scaled, at = doubt * x, x.swapaxes(1, 2)
    columns = np.ascontiguousarray(scaled.swapaxes(1, 2))
    blocks = blocks + doubt[:, None, None] * (scaled @ at)[:, None]
    blocks += own_doubt[:, None, None] * _outer(at)
    inverse, log_det = inverted(blocks)
    # Of pairs (m, n) and (k, l): row k of the inverse times entries l and n of points.
    rows = inverse.reshape(n_points, length, pairs).swapaxes(1, 2)
    s = rows @ _outer(columns).reshape(n_points, length, pairs)
    s = s.reshape(n_points, *square, *square).transpose(0, 1, 3, 2, 4)
    s = s.reshape(n_points, pairs, pairs)
    exchange = np.arange(pairs).reshape(square).T.ravel()
    s[:, np.arange(pairs), exchange] += 1.0
    m = inv(s)
    solved = _times(inverse, r)
    seen = (m @ (solved @ columns).reshape(n_points, pairs, 1)).reshape(n_points, *square)
    alpha = solved - _times(inverse, seen @ scaled)
    energy = 0.5 * np.sum(r * alpha, axis=(1, 2))
    energy += 0.5 * (log_det.sum(axis=1) + np.linalg.slogdet(s)[1])
    # One point of two is in: axes are (point, entry, k, m, l).
    half = columns @ m.reshape(n_points, pairs * n_looks, n_looks).swapaxes(1, 2)
    half = half.reshape(n_points, length, n_looks, *square)
    q = (half.swapaxes(3, 4) @ columns[:, :, None, :, None])[..., 0]
    w = 0.5 * (inverse - inverse @ q @ inverse - _outer(alpha.swapaxes(1, 2)))
    by_gram = (doubt @ w.reshape(n_points, length, pairs)).reshape(n_points, *square)
    by_x = 2.0 * (by_gram @ x * doubt + _times(w, x) * own_doubt)
    half = half.swapaxes(2, 3).reshape(n_points, length, n_looks, pairs)
    by_scaled = (half @ inverse.reshape(n_points, length, pairs, 1))[..., 0].swapaxes(1, 2)
    by_scaled = by_scaled - alpha @ columns @ alpha
    return energy, alpha, w, by_x + doubt * by_scaled


def _outer(columns):
    return columns[..., :, None] * columns[..., None, :]


def _times(matrices, x):
    """Return products of the matrix of each entry and what looks have there."""
    return (matrices @ x.swapaxes(1, 2)[..., None])[..., 0].swapaxes(1, 2)


def inverted(matrices):
    """Return inverses and log determinants of positive matrices in the last two axes, by sweeps.

    Matrices are small and many, so a sweep works on all of them at once.
    """
    a = np.moveaxis(matrices, (-2, -1), (0, 1)).copy()
    log_det = np.zeros(a.shape[2:])
    for k in range(len(a)):
        log_det += np.log(a[k, k])
        column, pivot = a[:, k].copy(), 1.0 / a[k, k]
        scaled = column * pivot
        a -= column[:, None] * scaled[None]
        a[k] = a[:, k] = scaled
        a[k, k] = -pivot
    return -np.ascontiguousarray(np.moveaxis(a, (0, 1), (-2, -1))), log_det
