"""The law of several looks, in which what is not known of a symmetric matrix is integrated out.

    r_k ~ (D^1/2 S D^1/2 + T) x_k + N(0, blocks),      S_ij ~ N(0, 1 + [i = j]) symmetric,  T_ii ~ N(0, h_i)

with diagonal ``D`` and ``T``. ``S y_k`` and ``S y_l`` have the covariance ``y_k . y_l I + y_l y_k^T``.
Without the second part entries are independent. That part is ``U J U^T``, where ``J`` exchanges the looks
of a pair: by Woodbury's identity only matrices over pairs of looks are inverted besides.
"""

import numpy as np


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
    n_points, n_looks = x.shape[:2]
    pairs = n_looks**2
    gram = np.einsum("bkj,blj,j->bkl", x, x, doubt)
    blocks = blocks + doubt[:, None, None] * gram[:, None]
    inverse, log_det = inverted(blocks + np.einsum("bki,bli,i->bikl", x, x, own_doubt))
    scaled = doubt * x
    # Of pairs (k, l): row k of the inverse times entry l of a point.
    spread = np.einsum("bikm,bli->bimkl", inverse, scaled)
    columns = scaled.transpose(0, 2, 1)
    s = np.einsum("bimkl,bin->bmnkl", spread, columns, optimize=True)
    s = s.reshape(n_points, pairs, pairs)
    exchange = np.arange(pairs).reshape(n_looks, n_looks).T.ravel()
    s[:, np.arange(pairs), exchange] += 1.0
    m = np.linalg.inv(s)
    solved = np.einsum("bikl,bli->bki", inverse, r)
    t = np.einsum("bki,bli->bkl", solved, scaled).reshape(n_points, pairs, 1)
    seen = (m @ t).reshape(n_points, n_looks, n_looks)
    alpha = solved - np.einsum("bikl,blm,bmi->bki", inverse, seen, scaled, optimize=True)
    energy = 0.5 * np.sum(r * alpha, axis=(1, 2))
    energy += 0.5 * (log_det.sum(axis=1) + np.linalg.slogdet(s)[1])
    m = m.reshape(n_points, n_looks, n_looks, n_looks, n_looks)
    half = np.einsum("bkmln,bin->bikml", m, columns, optimize=True)  # One point of two is in.
    q = np.einsum("bikml,bim->bikl", half, columns)
    w = inverse - inverse @ q @ inverse - np.einsum("bki,bli->bikl", alpha, alpha)
    w *= 0.5
    by_gram = np.einsum("i,bikl->bkl", doubt, w)
    by_x = 2.0 * np.einsum("bkl,blj->bkj", by_gram, x) * doubt
    by_x += 2.0 * np.einsum("bikl,bli->bki", w, x) * own_doubt
    by_scaled = np.einsum("bikl,bilmk->bmi", inverse, half)
    found = np.einsum("bki,bli->bkl", alpha, scaled)
    by_scaled -= np.einsum("bki,blk->bli", alpha, found)
    return energy, alpha, w, by_x + doubt * by_scaled


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
    return -np.moveaxis(a, (0, 1), (-2, -1)), log_det
