"""The share of the rarest class in what rows count, by draws.

    share_k(u) = 1 / K + (H W^-T f(u))_k / (c n v),      f(u) = S(u) - S(0),   S = sum_i v_i mean_i z_i

of the population, where the last row of ``W`` is the intercept's, whose constant is ``c``, ``v`` is what
records count on average, and ``H`` maps blocks to classes.
"""

from typing import NamedTuple

import numpy as np

from ..._linalg import inv
from .predictive import in_parts


class RarestClass(NamedTuple):
    """Quantiles of the share that the rarest class has of what rows count: 5%, 50% and 95%."""

    low: float
    median: float
    high: float


def rarest_class(posterior, draws, constant):
    """Return a `RarestClass`.

    Parameters
    ----------
    posterior : Posterior
    draws : ndarray of shape (n_draws, n_parameters)
    constant : float
        ``c``.
    """
    population, back = posterior.surrogate.population, inv(posterior.transform)
    contrasts = population.family.contrasts
    # Whatever ``n v`` is: all rows of one class are a share of 1.
    moved = in_parts(population.change, posterior.surrogate_points(draws))
    moved = moved.reshape(len(draws), -1, len(back)) @ back[:, -1]
    shares = moved / (constant * population.total_weight)
    # Of two classes the last is what is counted, and the other one is the rest.
    shares = shares @ contrasts.T if len(contrasts) > 2 else np.hstack([-shares, shares])
    shares = np.clip(shares + 1.0 / len(contrasts), 0.0, 1.0)
    quantiles = np.quantile(shares, [0.05, 0.5, 0.95], axis=0)
    return RarestClass(*map(float, quantiles[:, np.argmin(quantiles[1])]))
