"""Gaussian mixtures: the likelihood, the prior, and the rows in the unit ball.

    ell_i(theta) = -log sum_k pi_k N(x_i; m_k, (F_k F_k^T)^-1)

Prior: ``pi ~ Dirichlet(alpha)``, ``m_kj ~ N(0, s^2)``, and Wishart's law with ``nu`` degrees of freedom and
mean ``I / c`` for precision matrices, or Gamma's with shape ``nu / 2`` and mean ``1 / c`` for precisions.

The data enter through sufficient statistics alone (`skdpbayes.targets.mixture.statistics`): no record's
contribution is ever clipped but by bringing its row into the ball.
"""

from typing import Any

from ..._silence import silently
from ..._typing import MatrixLike
from .._clipping import clip_rows
from .._rows import read_only
from .model import STATISTICS_NORM, MixtureModel, pack_mixture, unpack_mixture
from .statistics import Components, MixtureTable, statistics_size

__all__ = [
    "STATISTICS_NORM",
    "Components",
    "MixtureModel",
    "MixtureTable",
    "make_mixture",
    "pack_mixture",
    "statistics_size",
    "unpack_mixture",
]


@silently()
def make_mixture(X: MatrixLike, model: MixtureModel) -> Any:
    """Clip rows to the unit ball, in units of the model's ``data_norm``.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Finite numbers.
    model : MixtureModel

    Returns
    -------
    table : MixtureTable
    """
    X, scale = clip_rows(X, model.data_norm)
    scale = read_only(scale / model.data_norm)
    return MixtureTable(read_only(X), scale, STATISTICS_NORM, float(model.data_norm))
