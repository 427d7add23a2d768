"""Tables and plans for the tests of noise-aware posteriors, and how far off believed scores may be."""

import numpy as np
from scipy.special import expit

from skdpbayes.privacy import Budget
from skdpbayes.samplers import NoiseAware

PRIOR_SCALE = 3.0


def unit_rows(rng, n, d):
    rows = rng.normal(size=(n, d))
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))


def labels_of(rng, rows, theta):
    return (rng.random(len(rows)) < expit(rows @ theta)).astype(int)


def a_plan(bounds, n, epsilon=1.0, relation="replace_one", n_draws=None):
    return NoiseAware().plan(bounds, n, Budget(epsilon, 1e-6, relation), n_draws=n_draws)


def variances_of(score_discrepancy, f):
    """Variances of scores, as at the top of ``misfit.py``, for ``f`` of shape (n_points, n)."""
    found = []
    for one in f:
        unknown = [
            one @ (score_discrepancy.factor * shares) @ score_discrepancy.factor.T @ one
            for shares in score_discrepancy.shares
        ]
        for i, pull in zip(score_discrepancy.uncertain, score_discrepancy.pulls, strict=True):
            unknown[i] += (one @ score_discrepancy.factor @ pull) ** 2
        away = np.sum((one - score_discrepancy.centre) ** 2 / score_discrepancy.squares)
        found.append(
            unknown + 0.1 * score_discrepancy.size**2 / one.size * score_discrepancy.squares * away
        )
    return np.array(found)


def uniform_table(seed, n, d, times):
    """Columns in [-1, 1], coefficients with ``times`` the deviation of the default prior for them."""
    rng = np.random.default_rng(seed)
    rows = rng.uniform(-1.0, 1.0, size=(n, d))
    theta = times * 2.5 / np.sqrt(d) * rng.normal(size=d)
    return rows, labels_of(rng, rows, theta), theta
