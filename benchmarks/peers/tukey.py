"""TukeyEM: a point deep among the coefficients of many regressions, without any bounds.

    depth(theta) = min over columns of min(#{models below}, #{models above}),
    density of the answer ~ exp(eta depth) where depth >= t,   t = m / 4

after K. Amin, M. Joseph, M. Ribero and S. Vassilvitskii, "Easy differentially private linear
regression", ICLR 2023: m = 1,000 models, each from rows of its own, and a test that this is safe,
which may abstain.

Replacing a record changes one model, hence depths by at most 1. Let V(q) be the volume of depths
from q on, and Z = integral of exp(eta depth) over depths from t on. Between neighbours the density
changes by exp(2 eta), but for two errors: depth t may drop out, and depth t - 1 come in, which are
at most V(t - 1) exp(eta t) / Z together. For whatever is k replacements away that is at most

    R_k = V(t - 1 - k) exp(eta (t + k)) / integral of exp(eta depth) over depths from t + k on,

since its depths are within k of these. So answers on all such tables are (2 eta, delta)-close to
those of their neighbours if exp(2 eta) R_{k+1} <= delta; the largest such k changes by at most 1
with a record, and is tested with Laplace noise: it must exceed log(1 / (2 delta)) / epsilon_test,
which it does with a probability of delta at most where k < 0. Half of epsilon goes to the test,
half to the answer: eta = epsilon / 4. (The authors' code has twice this eta, for a depth that a
record can only raise; and a smaller noise of the test.)
"""

import math

import numpy as np
from scipy.special import logsumexp

DELTA = 1e-5
N_MODELS = 1_000
# A break of ties, far below the coefficients.
JITTER = 1e-10


class AbstainedError(ValueError):
    """The test has found no safe distance; the method has no answer."""


def tukey_em(z, responses, bound, epsilon, seed, norm):
    """Return (coefficients,); bound and norm are not used."""
    rng, (n, size) = np.random.default_rng(seed), z.shape
    models = least_squares(z, responses, min(N_MODELS, n // size), rng)
    return (deep_point(models, epsilon, DELTA, rng),)


def least_squares(z, responses, n_models, rng):
    """Return coefficients of shape (n_models, size), of equal parts of the rows in random order."""
    order, in_part = rng.permutation(len(z)), len(z) // n_models
    parts = order[: in_part * n_models].reshape(n_models, in_part)
    return np.stack([np.linalg.lstsq(z[part], responses[part], rcond=None)[0] for part in parts])


def deep_point(models, epsilon, delta, rng):
    """Return a point of the exponential mechanism, or raise `AbstainedError`."""
    columns = np.sort(models + JITTER * rng.random(models.shape), axis=0)
    m, test, eta, least = len(models), epsilon / 2.0, epsilon / 4.0, len(models) // 4
    log_volumes = volumes(columns)
    found = safe_distance(log_volumes, eta, delta, least) + rng.laplace(scale=1.0 / test)
    if found <= math.log(0.5 / delta) / test:
        raise AbstainedError(f"abstained: {m} models are not close enough together")
    depths = np.arange(least, len(log_volumes) + 1)
    chances = exact(log_volumes)[least - 1 :] + eta * depths
    depth = depths[np.argmax(chances + rng.gumbel(size=len(chances)))]
    low, high = columns[depth - 1], columns[-depth]
    while True:  # Uniform in the box of this depth, less the one inside.
        point = rng.uniform(low, high)
        if depth == depths[-1] or not np.all(
            (columns[depth] < point) & (point < columns[-depth - 1])
        ):
            return point


def volumes(columns):
    """Return the logarithms of volumes of depths from 1, 2, ... on, of sorted columns."""
    half = len(columns) // 2
    return np.log(columns[::-1][:half] - columns[:half]).sum(axis=1)


def exact(log_volumes):
    """Return the logarithms of volumes of each depth."""
    inner = np.append(log_volumes[1:], -np.inf)
    with np.errstate(divide="ignore"):
        return log_volumes + np.log(-np.expm1(inner - log_volumes))


def safe_distance(log_volumes, eta, delta, least):
    """Return the largest k with exp(2 eta) R_{k+1} <= delta, or -1."""
    depths = np.arange(1, len(log_volumes) + 1)
    masses = exact(log_volumes) + eta * depths
    for k in range(least - 2):
        inside = logsumexp(masses[least + k :])  # Depths from least + k + 1 on.
        error = log_volumes[least - k - 3] + eta * (least + k + 1) - inside
        if 2.0 * eta + error > math.log(delta):
            return k - 1
    return least - 3
