"""What a released curvature says beyond that of a population, and how surely.

    F = J + D + N,    D_ij ~ N(0, w_ij + k^2 J_ii J_jj / n)    a priori

``J`` is the population's. It differs from the table's as the released moments do, by variances ``w``, and as
rows differ from normal ones, by ``k``, which is estimated. ``D`` has a normal posterior, entry by entry. The
curvature ``J + D`` is made positive, and its eigenvectors are the basis in which draws are made.
"""

import numpy as np

# ``k`` a priori, and of how many entries' weight that is.
_MISFIT, _WORTH = 0.2, 4.0
# Least eigenvalue, relative to the mean: there may be directions of which the records say nothing.
_LEAST_EIGENVALUE = 1e-4


def prior_variances(curvature, of_moments, square=_MISFIT**2):
    """Return variances of ``D``'s entries.

    Parameters
    ----------
    curvature : ndarray of shape (n, n)
        ``J``.
    of_moments : ndarray of shape (n, n)
        ``w``.
    square : float
        ``k^2``.
    """
    diagonal = np.maximum(np.diag(curvature), 0.0)
    return of_moments + square / len(curvature) * np.outer(diagonal, diagonal)


def of_moments(population, probabilities, uncertainty):
    """Return ``w``: variances of the entries of ``J`` given those of the rows' second moment."""
    n_blocks = population.link.n_blocks
    sizes = np.empty((n_blocks, n_blocks))
    for j, unit in enumerate(np.eye(n_blocks)):
        slopes = population.link.slope_times(probabilities, unit[:, None])
        sizes[j] = slopes @ population.weights * population.size
    return np.kron(sizes**2, uncertainty)


def correct(released, noise_scale, curvature, of_moments):
    """Return (``D``, its entries' variances, the basis, eigenvalues of ``J + D``).

    Parameters
    ----------
    released : ndarray of shape (n, n)
        ``F``.
    noise_scale : float
        Deviation of the noise on its diagonal; elsewhere ``1 / sqrt(2)`` of it.
    curvature, of_moments : ndarray of shape (n, n)
        ``J`` and ``w``.
    """
    noise = np.full(curvature.shape, noise_scale**2 / 2.0)
    np.fill_diagonal(noise, noise_scale**2)
    excess = released - curvature
    square = _misfit(excess, noise + of_moments, curvature)
    variances = prior_variances(curvature, of_moments, square)
    shares = variances / (variances + noise)
    values, basis = np.linalg.eigh(curvature + excess * shares)
    values = np.maximum(values, _LEAST_EIGENVALUE * np.trace(curvature) / len(curvature))
    return (basis * values) @ basis.T - curvature, noise * shares, basis, values


def _misfit(excess, known, curvature):
    """Return ``k^2``, by moments that are weighted by their precision, with what is known a priori."""
    unit, square = prior_variances(curvature, 0.0, 1.0), _MISFIT**2
    for _ in range(5):
        precision = (known + square * unit) ** -2.0
        found = np.sum(precision * unit * (excess**2 - known)) / np.sum(precision * unit**2)
        worth = np.sum(precision * (square * unit) ** 2) / 2.0
        square = (worth * found + _WORTH * _MISFIT**2) / (worth + _WORTH)
        square = min(max(float(square), 0.01 * _MISFIT**2), 4.0)
    return square
