"""How surprising released labels are under their prior, for each group of coefficients.

    t* = (I + m) f(u*) + N(0, V(u*)),    u* ~ prior,    C = Cov t*

    p_g = P(h_g(t*) >= h_g(t)),    h_g(t) = t^T C^-1 S_g C^-1 t

with ``S_g`` the covariance of the mean of ``t*`` where only coefficients of the group vary. For a normal
``t*`` the derivative of the log density by the square of the prior scale of the group is half of ``h_g`` but
for a constant, so that no statistic is better at finding a scale that is slightly too narrow. Its law need
not be known: it is compared with its values for other ``t*`` (Evans and Moshonov, "Checking for prior-data
conflict", Bayesian Analysis 2006).
"""

import numpy as np
from scipy.special import softmax

from ..._linalg import inv

# How many labels the prior predicts, half of them for the statistics, and in how many parts, to save memory.
_N_PREDICTED, _N_PARTS = 2000, 20


def surprises(surrogate, transform):
    """Return a probability for each group of the prior.

    Parameters
    ----------
    surrogate : Surrogate
    transform : ndarray of shape (length, length)
        ``W``.

    Returns
    -------
    surprises : ndarray of shape (n_groups,)
        Small where released labels say that a group's prior scale is too narrow.
    """
    # Post-processing.
    generator = np.random.default_rng(0)
    parts = _from_prior(surrogate.prior.groups, transform, surrogate.target.size, generator)
    predicted = in_parts(surrogate.predict, sum(parts), generator)
    first, second = np.array_split(predicted, 2)
    precision = inv(np.cov(first.T).reshape(len(first.T), -1))
    found = []
    for part in parts:
        means = in_parts(surrogate.mean, part[: len(first)]) @ precision
        weight = np.cov(means.T).reshape(len(precision), -1)
        sizes = np.einsum("ij,jk,ik->i", second, weight, second)
        found.append(np.mean(sizes >= surrogate.target @ weight @ surrogate.target))
    return np.array(found)


def in_parts(function, points, *arguments):
    """Return a function of points, taken so many at a time that arrays stay small."""
    parts = np.array_split(points, _N_PARTS)
    return np.concatenate([function(part, *arguments) for part in parts])


def _from_prior(groups, transform, size, generator):
    """Return points from the prior, for each group those where the others are zero."""
    length, back = len(transform), inv(transform)
    parts = []
    for group in groups:
        precisions = np.einsum("ji,jk,ki->i", back, group.precision[:length, :length], back)
        is_own = precisions > 1e-9 * precisions.max()
        deviations = np.where(is_own, np.where(is_own, precisions, 1.0) ** -0.5, 0.0)
        # Post-processing.
        scales = np.exp(generator.choice(group.logs, p=softmax(group.weights), size=_N_PREDICTED))
        # Post-processing.
        normal = generator.standard_normal((_N_PREDICTED, size // length, length))
        theta = scales[:, None, None] * deviations * normal
        parts.append((theta @ back.T).reshape(_N_PREDICTED, size))
    return parts
