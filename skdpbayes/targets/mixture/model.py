"""The public numbers of a mixture, and its parameters as one vector.

[weights (K) | means (K d) | factors F],    precisions are F F^T
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np

COVARIANCE_TYPES = ("spherical", "diag", "tied", "full")
# Of (1, x, x^2) for a row in the unit ball, whatever the responsibilities.
STATISTICS_NORM = math.sqrt(3.0)
# Beyond this, scales have nothing to do with rows of the given norm, and doubles would not do.
_SMALLEST_RATIO = 1e-30
_PARAMETERS = {"mean_scale": "mean_prior_scale", "covariance": "covariance_prior"}


class MixtureModel(NamedTuple):
    """The public numbers of a mixture and of its prior.

    Attributes
    ----------
    n_components, n_features : int
        Size of the model.
    covariance_type : {"spherical", "diag", "tied", "full"}
        As in scikit-learn.
    data_norm : float
        Norm to which rows are clipped.
    weight_concentration : float
        ``alpha`` of every component.
    mean_scale : float
        Prior standard deviation of a mean's coordinate.
    degrees_of_freedom : float
        ``nu``, more than ``n_features - 1``.
    covariance : float
        ``c``: the prior mean of a precision is ``1 / c``.
    """

    n_components: int
    n_features: int
    covariance_type: str
    data_norm: float
    weight_concentration: float
    mean_scale: float
    degrees_of_freedom: float
    covariance: float

    def bounds(self) -> Self:
        """Return what plans may know: all of it."""
        return self

    def checked(self) -> Self:
        """Return self, or raise a ValueError that names what is out of range."""
        if self.covariance_type not in COVARIANCE_TYPES:
            raise ValueError(
                f"covariance_type must be one of {COVARIANCE_TYPES}, got {self.covariance_type!r}."
            )
        for name in ("n_components", "n_features"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}.")
        for name in ("data_norm", "weight_concentration", "mean_scale", "covariance"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} must be positive and finite, got {value}.")
        for name, ratio in (
            ("mean_scale", self.mean_scale / self.data_norm),
            ("covariance", self.covariance / self.data_norm / self.data_norm),
        ):
            if not _SMALLEST_RATIO < ratio < 1.0 / _SMALLEST_RATIO:
                raise ValueError(
                    f"{name}={getattr(self, name):g} (of an estimator {_PARAMETERS[name]}) and "
                    f"data_norm={self.data_norm:g} are too far apart: choose another unit."
                )
        least = self.n_features - 1 if self.is_triangular else 0
        if not least < self.degrees_of_freedom < math.inf:
            raise ValueError(
                f"degrees_of_freedom_prior must be finite and more than {least}, got "
                f"{self.degrees_of_freedom}."
            )
        return self

    @property
    def is_triangular(self) -> bool:
        """Whether factors are matrices."""
        return self.covariance_type in ("tied", "full")

    @property
    def factor_parameters(self) -> int:
        """How many numbers describe all factors."""
        d, k = self.n_features, self.n_components
        triangle = d * (d + 1) // 2
        return {"spherical": k, "diag": k * d, "tied": triangle, "full": k * triangle}[
            self.covariance_type
        ]

    @property
    def n_parameters(self) -> int:
        """Length of ``theta``."""
        return self.n_components * (1 + self.n_features) - 1 + self.factor_parameters


def pack_mixture(components: Any, model: Any) -> np.ndarray:
    """Return components of unit-ball coordinates as one vector of canonical parameters."""
    factors = components.factors / model.data_norm
    kept = {"spherical": factors[:, :1], "tied": factors[:1]}.get(model.covariance_type, factors)
    weights = np.exp(components.log_weights)
    means = components.means * model.data_norm
    return np.concatenate([(weights / weights.sum()), means.ravel(), kept.ravel()])


def unpack_mixture(draws: np.ndarray, model: "MixtureModel") -> tuple[np.ndarray, ...]:
    """Take canonical draws apart.

    Parameters
    ----------
    draws : ndarray of shape (n_draws, n)
        As released.
    model : MixtureModel

    Returns
    -------
    weights : ndarray of shape (n_draws, n_components)
    means : ndarray of shape (n_draws, n_components, n_features)
    factors : ndarray
        Precisions are ``F F^T``. Of shape (n_draws, n_components) for "spherical", (n_draws,
        n_components, n_features) for "diag", both square roots of precisions; lower triangular, of
        shape (n_draws, n_features, n_features) for "tied" and (n_draws, n_components, n_features,
        n_features) for "full".
    """
    k, d = model.n_components, model.n_features
    weights, means, factors = np.split(draws, [k, k + k * d], axis=1)
    shape = {"spherical": (k,), "diag": (k, d), "tied": (d, d), "full": (k, d, d)}
    factors = factors.reshape(-1, *shape[model.covariance_type])
    return weights, means.reshape(-1, k, d), factors
