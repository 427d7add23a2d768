"""How many components: two become one if that explains what was released as well.

    log p(S | K) - log p(S | K - 1)  <  q log(n) / 2,      S ~ N(E S, V + sigma^2 I)

Schwarz's criterion, with the law that statistics have given a mixture (`looks`), noise included, at its mode;
``q`` is the number of a component's parameters. It is asked of the pair that looks most like one Gaussian,
again and again. Everything is post-processing. Schwarz, "Estimating the dimension of a model", 1978.
"""

import math

import numpy as np

from ..._linalg import cholesky
from .local import Reference
from .scales import statistics_length
from .start import merged


def fewer_components(at, settle, evidence, n_samples):
    """Return the mixture with as few components as statistics ask for.

    Parameters
    ----------
    at : Reference
    settle : callable
        Of a mixture: that at the mode near it.
    evidence : callable
        Of a mixture: ``log p(S)``.
    n_samples : int
    """
    best = evidence(at)
    while len(at.counts) > 1:
        fewer = settle(merge_closest(at))
        found = evidence(fewer)
        if best - found > 0.5 * parameters_of_component(at) * math.log(n_samples):
            break
        at, best = fewer, found
    return at


def parameters_of_component(reference):
    """Return how many parameters a mixture has for another component."""
    d = reference.means.shape[1]
    shared = reference.covariance_type == "tied"
    return 1 + d if shared else statistics_length(reference.covariance_type, d)


def merge_closest(reference):
    """Return a `Reference` with the two components as one that look most like one Gaussian."""
    kind, factors = reference.covariance_type, reference.factors
    covariances = factors**2 if factors.ndim == 2 else factors @ factors.transpose(0, 2, 1)
    groups = reference.weights, reference.means, covariances
    weights, means, covariances = merged(*groups, len(covariances) - 1)
    return reference_of(kind, reference.counts.sum() * weights, means, covariances)


def reference_of(kind, counts, means, covariances):
    """Return a `Reference` of some kind, with the mean of variances or covariances that are shared."""
    if kind == "spherical":
        covariances = np.repeat(covariances.mean(axis=1, keepdims=True), means.shape[1], axis=1)
    if kind == "tied":
        tied = np.tensordot(counts / counts.sum(), covariances, axes=1)
        covariances = np.repeat(tied[None], len(counts), axis=0)
    factors = np.sqrt(covariances) if covariances.ndim == 2 else cholesky(covariances)
    return Reference(kind, counts, means, factors).regular()
