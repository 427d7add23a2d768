"""Linear regression by boosting AdaSSP: T noisy gradients, against one noisy second moment.

    A = sum z z^T + noise + lambda I,    g_t = sum z clip(y - z^T theta_t, C) + noise,
    theta_{t+1} = theta_t + s_t A^-1 g_t

after S. Tang, S. Aydore, M. Kearns, S. Rho, A. Roth, Y. Wang, Y.-X. Wang and Z. S. Wu, "Improved
differentially private regression via gradient boosting", 2023. T = 100 is their default. Of the
steps that their code offers, 1, 1 / sqrt(t) and 1 / t, the second is the default here, and
residuals are clipped to a quarter of the bound of responses: both were best on tables like those of
this benchmark, where steps of 1 and residuals within the bound leave ten times the error and more.

Neighbours replace a record. With rows of norm R, a replacement moves the second moment by at most
sqrt(2) R^2, its least eigenvalue by R^2 and a gradient by 2 R C. Each of these T + 2 gets as much
of mu^2 as any other. lambda is what the noise of the second moment may take away, less what the
eigenvalue is known to be, each with a probability of 97.5%, as in the authors' code.
"""

import math

import numpy as np

from benchmarks.common import symmetric_noise
from skdpbayes.privacy import Budget

DELTA = 1e-5
QUANTILE = 1.96


def boosted_ada_ssp(z, responses, bound, epsilon, seed, norm, n_rounds=100, power=0.5, clip=0.25):
    """Return (coefficients,) for rows z whose last column is constant, and others of this norm.

    Steps are t^-power; residuals are clipped to ``clip`` times the bound of responses.
    """
    rng, size = np.random.default_rng(seed), z.shape[1]
    square, most = norm**2 + 1.0, clip * bound
    of_square, of_gradient = deviations(square, most, Budget(epsilon, DELTA).mu, n_rounds)
    moment = z.T @ z
    least = np.linalg.eigvalsh(moment)[0] + of_square * rng.normal()
    least = max(least - QUANTILE * of_square, 0.0)
    ridge = max(QUANTILE * math.sqrt(size) * of_square - least, 0.0)
    noisy = moment + symmetric_noise((size, size), math.sqrt(2.0) * of_square, rng)
    inverse = np.linalg.inv(noisy + ridge * np.eye(size))
    theta = np.zeros(size)
    for t in range(1, n_rounds + 1):
        gradient = z.T @ np.clip(responses - z @ theta, -most, most)
        theta += inverse @ (gradient + of_gradient * rng.normal(size=size)) / t**power
    return (theta,)


def deviations(square, most, mu, n_rounds):
    """Return the noise of what moves by R^2, and that of each of so many gradients of clipped residuals."""
    share = mu / math.sqrt(n_rounds + 2.0)
    return square / share, 2.0 * math.sqrt(square) * most / share
