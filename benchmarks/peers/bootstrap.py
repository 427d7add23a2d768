"""Linear regression from noisy sums, with intervals by a parametric bootstrap.

    A = sum x x^T + noise,   b = sum x y + noise,   c = sum y^2 + noise,   theta = A^-1 b,
    b* ~ N(A theta, s^2 A) + noise,   A* = A + noise,   theta* = A*^-1 b*,
    interval: (2 theta - upper quantile of theta*, 2 theta - lower quantile)

after C. Ferrando, S. Wang and D. Sheldon, "Parametric bootstrap for differentially private confidence
intervals", AISTATS 2022. The three sums are one Gaussian release of z z^T under replacement of a
record, with z = (x / R, y / B) for rows of norm R and responses within B: two such matrices are at most
2 sqrt(2) apart. There is no intercept.
"""

import numpy as np

from benchmarks.common import symmetric_noise

N_REPETITIONS = 2_000


def bootstrap_intervals(X, y, bound, norm, mu, level, seed):
    """Return (low, high) for each coefficient."""
    rng, (n, d) = np.random.default_rng(seed), X.shape
    z = np.column_stack([X / norm, y / bound])
    deviation = 2.0 * np.sqrt(2.0) / mu
    moment = z.T @ z + symmetric_noise((d + 1, d + 1), deviation, rng)
    values, vectors = np.linalg.eigh(moment[:d, :d])
    A = (vectors * np.maximum(values, deviation / 10.0)) @ vectors.T
    theta = np.linalg.solve(A, moment[:d, d])
    variance = max(moment[d, d] - theta @ A @ theta, 1e-6 * n) / n
    root = np.linalg.cholesky(variance * A)
    noise = symmetric_noise((N_REPETITIONS, d + 1, d + 1), deviation, rng)
    sums = A @ theta + rng.normal(size=(N_REPETITIONS, d)) @ root.T + noise[:, :d, d]
    found = np.linalg.solve(A + noise[:, :d, :d], sums[..., None])[..., 0]
    lower, upper = np.quantile(found, [(1.0 - level) / 2.0, (1.0 + level) / 2.0], axis=0)
    scale = bound / norm
    return scale * (2.0 * theta - upper), scale * (2.0 * theta - lower)
