"""One labelling of the components for all draws of a mixture.

The posterior of a mixture does not change if components change places, so a chain may switch them. Each draw
``s`` gets the permutation ``p_s`` which, together with a reference, minimises

    sum_s sum_k KL( w_sj N(m_sj, C_sj) || w_k N(m_k, C_k) ),    j = p_s(k),

the sum of the Kullback-Leibler divergences of the relabelled, weighted components from those of the
reference. For one draw, the sum over ``k`` is the divergence between the joint distributions of label and
point. It depends neither on the units of the columns nor on the original labels of a draw. Two steps
alternate until nothing changes:

1. The reference becomes the mean of the relabelled components, each a distribution of points that counts with
   its weight: ``w_k = mean_s w_sj``, and ``m_k`` and ``C_k`` are the mean and covariance of the mixture of
   these components. No other reference has a smaller sum.
2. Each draw takes the best permutation, by the Hungarian method.

Neither step increases the sum, so the iteration ends. It starts from the draw that is nearest to a few
others. Terms that do not depend on the labels are left out of the costs, which makes these cross-entropies.

Stephens (2000), "Dealing with label switching in mixture models", JRSS B 62, section 4; Celeux, Hurn and
Robert (2000), "Computational and inferential difficulties with mixture posterior distributions", JASA 95.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from .._linalg import inv

# If the draws carry no information about the components, further rounds do not help.
_MAX_ROUNDS = 40
_PIVOT_CANDIDATES = 24
# Keeps the logarithm of an empty component's weight finite.
_LEAST_WEIGHT = 1e-100


class _Components(NamedTuple):
    """Components of many draws (first axis), or of a reference (without it)."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray


def relabel(weights, means, covariances):
    """Find common labels for all draws, in descending order of the mean weight.

    Parameters
    ----------
    weights : ndarray of shape (n_draws, n_components)
        Mixture weights.
    means : ndarray of shape (n_draws, n_components, n_features)
        Means.
    covariances : ndarray of shape (n_draws, n_components, n_features), or \
            (n_draws, n_components or 1, n_features, n_features)
        Variances of the coordinates, or covariance matrices; a single matrix of a draw is shared.

    Returns
    -------
    order : ndarray of int of shape (n_draws, n_components)
        The component of draw ``s`` with the common label ``k`` is ``order[s, k]``.
    """
    draws = _Components(np.maximum(weights, _LEAST_WEIGHT), means, covariances)
    order, _ = _assign(draws, _pivot(draws))
    for _ in range(_MAX_ROUNDS - 1):
        before, (order, _) = order, _assign(draws, _mean_components(draws, order))
        if np.array_equal(order, before):
            break
    falling = np.argsort(-np.take_along_axis(weights, order, axis=1).mean(axis=0), kind="stable")
    return order[:, falling]


def reorder(part, order):
    """Put the second axis of draws into the order of the common labels."""
    return part[np.arange(order.shape[0])[:, None], order]


def _pivot(draws):
    """Return the one of a few draws along the chain that is nearest to the others."""
    count = draws.weights.shape[0]
    few = np.unique(np.linspace(0, count - 1, _PIVOT_CANDIDATES).astype(int))
    candidates = _Components(*(part[few] for part in draws))
    # The mean of one draw is that draw, with a matrix for each component.
    alone = np.arange(draws.weights.shape[1])[None]
    references = [
        _mean_components(_Components(*(part[i : i + 1] for part in candidates)), alone)
        for i in range(few.size)
    ]
    totals = [_assign(candidates, reference)[1] for reference in references]
    return references[int(np.argmin(totals))]


def _mean_components(draws, order):
    """Return the reference that is nearest to the relabelled draws."""
    weights, means = reorder(draws.weights, order), reorder(draws.means, order)
    shares = weights / weights.sum(axis=0)
    center = np.einsum("sk,skj->kj", shares, means)
    gaps = means - center
    if draws.covariances.ndim == 3:
        within = reorder(draws.covariances, order)
        spread = np.einsum("sk,skj->kj", shares, within + gaps**2)
    else:
        if draws.covariances.shape[1] == 1:
            spread = np.tensordot(shares.T, draws.covariances[:, 0], axes=1)
        else:
            spread = np.einsum("sk,skij->kij", shares, reorder(draws.covariances, order))
        spread += (shares[:, :, None] * gaps).transpose(1, 2, 0) @ gaps.swapaxes(0, 1)
    return _Components(weights.mean(axis=0), center, spread)


def _cross_entropies(draws, reference):
    """Return costs of shape (n_draws, n_components of the reference, n_components of a draw)."""
    if reference.covariances.ndim == 2:
        precisions = 1.0 / reference.covariances
        log_det = np.log(reference.covariances).sum(axis=1)
        costs = draws.covariances @ precisions.T
    else:
        precisions = inv(reference.covariances)
        log_det = np.linalg.slogdet(reference.covariances)[1]
        # A shared matrix costs the same for every label.
        traces = np.tensordot(draws.covariances, precisions, axes=((2, 3), (1, 2)))
        costs = np.broadcast_to(traces, (*draws.weights.shape, log_det.size)).copy()
    costs += log_det - 2.0 * np.log(reference.weights)
    for k, (mean, precision) in enumerate(zip(reference.means, precisions, strict=True)):
        gaps = draws.means - mean
        images = gaps * precision if precision.ndim == 1 else gaps @ precision
        costs[:, :, k] += np.einsum("sjd,sjd->sj", gaps, images)
    return 0.5 * (draws.weights[:, :, None] * costs).swapaxes(1, 2)


def _assign(draws, reference):
    """Return every draw's best permutation, and the sum of their costs."""
    costs = _cross_entropies(draws, reference)
    order = np.array([linear_sum_assignment(cost)[1] for cost in costs])
    return order, float(np.take_along_axis(costs, order[:, :, None], axis=2).sum())
