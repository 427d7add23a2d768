"""Gaussian mixtures: public numbers, rows in the unit ball, and expected sufficient statistics.

[weights (K) | means (K d) | factors F],    precisions are F F^T
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np

from .._errors import suppress_fp_warnings
from .._jit import compilable
from .._typing import MatrixLike
from .base import add_gradient, implements, n_examples, of_remote_rows, record
from .rows import clip_rows, read_only

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
        """The public model, all of which plans may know."""
        return self

    def checked(self) -> Self:
        """The model itself; raises a ValueError that names what is out of range."""
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

    def target_of(self, rows: Any) -> Any:
        """The target of validated rows of a table."""
        return make_mixture(rows.X, self)

    def remote(self, address: int, count: int) -> Any:
        """The remote handle of targets of remote rows."""
        return remote_mixture(address, count, self)

    def in_blocks(self, draws: np.ndarray) -> np.ndarray:
        """Draws as they are, which `unpack_mixture` takes apart."""
        return draws

    @property
    def is_triangular(self) -> bool:
        """Whether factors are matrices."""
        return self.covariance_type in ("tied", "full")

    @property
    def factor_parameters(self) -> int:
        """The number of numbers that describe all factors."""
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
    """Components of unit-ball coordinates as one vector of canonical parameters."""
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


# Expected sufficient statistics of Gaussian mixtures: all that a sum over records has to know.
#
#     r_k(x) = pi_k N(x; m_k, Lambda_k^-1) / sum_j pi_j N(x; m_j, Lambda_j^-1)
#     S_k    = sum_i r_k(x_i) (1, x_i, x_i^2),      x_i x_i^T in the place of x_i^2 where factors are matrices
#
# Rows are in the unit ball. A precision is given by a factor ``F`` with ``Lambda = F F^T``: a
# vector of square roots, or a lower triangular matrix. Statistics are kept in one vector,
# ``[counts (K) | sums (K d) | second moments (K d)]``, or with the lower triangles, row by row, at
# the end (``K d (d + 1) / 2``). So is the mixture:
# ``[K | 1 for matrices, else 0 | log pi_k + log |F_k| (K) | means (K d) | factors]``.


# Where the offsets begin.
HEADER = 2


class Components(NamedTuple):
    """A mixture with unit-ball coordinates.

    Attributes
    ----------
    log_weights : ndarray of shape (n_components,)
    means : ndarray of shape (n_components, n_features)
    factors : ndarray of shape (n_components, n_features) or (n_components, n_features, n_features)
        Square roots of precisions, or lower triangular factors of precision matrices.
    """

    log_weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray

    def as_vector(self) -> np.ndarray:
        """The mixture as statistics need it."""
        diagonals = self.factors
        if self.factors.ndim == 3:
            diagonals = np.diagonal(self.factors, axis1=1, axis2=2)
        offsets = self.log_weights + np.log(diagonals).sum(axis=1)
        header = [float(len(self.means)), float(self.factors.ndim == 3)]
        return np.concatenate([header, offsets, self.means.ravel(), self.factors.ravel()])


class MixtureTable(NamedTuple):
    """Rows in the unit ball, of which statistics are released; ``scale_i values_i`` is a row."""

    values: np.ndarray
    scale: np.ndarray
    gradient_bound: float
    data_norm: float

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.values.shape[1]


@compilable
def statistics_size(n_components: int, n_features: int, triangular: bool) -> int:
    """The length of a vector of statistics."""
    second = n_features * (n_features + 1) // 2 if triangular else n_features
    return n_components * (1 + n_features + second)


@compilable
def exponents(mixture, row, centred, out):
    """Write ``log pi_k N(x; m_k, Lambda_k^-1)``, up to a constant, and return the largest."""
    d, largest = row.size, -np.inf
    first_mean = HEADER + out.size
    first_factor = first_mean + out.size * d
    for k in range(out.size):
        for j in range(d):
            centred[j] = row[j] - mixture[first_mean + k * d + j]
        square = 0.0
        for j in range(d):
            if mixture[1] == 0.0:
                product = mixture[first_factor + k * d + j] * centred[j]
            else:
                product = 0.0
                for i in range(j, d):
                    product += mixture[first_factor + (k * d + i) * d + j] * centred[i]
            square += product**2
        out[k] = mixture[HEADER + k] - 0.5 * square
        largest = max(largest, out[k])
    return largest


@compilable
def _responsibilities(mixture, row, centred, out):
    """Write ``r_k(x)``; they sum to one whatever the row."""
    largest = exponents(mixture, row, centred, out)
    total = 0.0
    for k in range(out.size):
        out[k] = math.exp(out[k] - largest)
        total += out[k]
    # The largest counts 1, so that a smaller total is no number. A record weighs 1 in all, even then.
    valid = total >= 1.0
    for k in range(out.size):
        out[k] = out[k] / total if valid else 1.0 / out.size


@compilable
def read_row(table, number, out):
    """Write a row to ``out``."""
    for j in range(out.size):
        out[j] = table.scale[number] * table.values[number, j]


@compilable
def add_row(triangular, row, k, share, n_components, out):
    """Add a share of a row's statistics to those of component ``k``."""
    d = row.size
    out[k] += share
    for j in range(d):
        out[n_components + k * d + j] += share * row[j]
    place = n_components * (1 + d) + k * (d * (d + 1) // 2 if triangular else d)
    for i in range(d):
        weighted = share * row[i]
        for j in range(0 if triangular else i, i + 1):
            out[place] += weighted * row[j]
            place += 1


@implements(n_examples, MixtureTable)
def _count(target):
    return target.values.shape[0]


@implements(add_gradient, MixtureTable)
def _add_statistics(target, theta, selection, count, out):
    d = target.values.shape[1]
    row, centred = np.empty(d), np.empty(d)
    shares = np.empty(int(theta[0]))
    for i in range(count):
        read_row(target, record(selection, i), row)
        _responsibilities(theta, row, centred, shares)
        for k in range(shares.size):
            add_row(theta[1] != 0.0, row, k, shares[k], shares.size, out)


# Sufficient statistics of rows of which each is allocated to one component at random.
#
#     z_i ~ r(x_i),      S_k = sum_{i: z_i = k} (1, x_i, x_i^2)
#
# with responsibilities ``r`` as in `skdpbayes.models.mixture`, whose statistics are the
# mean of these. The mixture is the same vector, followed by a key of two numbers below 2^32. Sums of
# row ``i``'s responsibilities are compared with ``h(key + (i + 1) gamma) / 2^64``, where ``h`` is the
# mixing function of SplitMix64: whatever holds the row, and in whatever order rows are read, its
# allocation is the same.
#
# Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.


# Numbers at the end of the mixture's vector.
KEY_LENGTH = 2
_HALF = np.uint64(32)
_TO_DOUBLE = np.uint64(11)
_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST_SHIFT = np.uint64(30)
_HASH_START = np.uint64(0xBF58476D1CE4E5B9)
_SECOND_SHIFT = np.uint64(27)
_SECOND = np.uint64(0x94D049BB133111EB)
_LAST_SHIFT = np.uint64(31)


class AllocatedTable(NamedTuple):
    """Rows in the unit ball, as in a `MixtureTable`.

    Attributes
    ----------
    values, scale : ndarray
        ``scale_i values_i`` is a row.
    first : int
        Number of the first row among those of all shards.
    """

    values: np.ndarray
    scale: np.ndarray
    first: int


@compilable
def uniform_of(high, low, number):
    """A uniform number in [0, 1) for a row, given the halves of a key."""
    word = (np.uint64(high) << _HALF) + np.uint64(low) + _GAMMA * np.uint64(number + 1)
    word = (word ^ (word >> _FIRST_SHIFT)) * _HASH_START
    word = (word ^ (word >> _SECOND_SHIFT)) * _SECOND
    word = word ^ (word >> _LAST_SHIFT)
    return np.float64(word >> _TO_DOUBLE) * 2.0**-53


@implements(n_examples, AllocatedTable)
def _count_allocated(target):
    return target.values.shape[0]


@implements(add_gradient, AllocatedTable)
def _add_allocated_statistics(target, theta, selection, count, out):
    d = target.values.shape[1]
    row, centred = np.empty(d), np.empty(d)
    shares = np.empty(int(theta[0]))
    for i in range(count):
        number = record(selection, i)
        read_row(target, number, row)
        largest, total = exponents(theta, row, centred, shares), 0.0
        for k in range(shares.size):
            shares[k] = math.exp(shares[k] - largest)
            total += shares[k]
        remainder = total * uniform_of(theta[-2], theta[-1], target.first + number)
        k = 0
        # Rounding may leave a sum below the total: the last component has the rest.
        while k < shares.size - 1 and remainder >= shares[k]:
            remainder -= shares[k]
            k += 1
        add_row(theta[1] != 0.0, row, k, 1.0, shares.size, out)


def allocated(table: Any, first: int) -> AllocatedTable:
    """A `MixtureTable` as one whose rows are allocated; its first row has some number."""
    return AllocatedTable(table.values, table.scale, first)


# What stands for a mixture's remote rows, in sums over records.


@of_remote_rows
class RemoteMixtureTable(NamedTuple):
    """A mixture's rows in the unit ball."""

    address: int
    count: int  # type: ignore[assignment]  # Nobody counts entries of this tuple.
    gradient_bound: float
    n_features: int
    data_norm: float


def remote_mixture(address, count, model):
    """The remote handle of a mixture's remote rows."""
    return RemoteMixtureTable(
        address, count, STATISTICS_NORM, model.n_features, float(model.data_norm)
    )


# Gaussian mixtures: the likelihood, the prior, and the rows in the unit ball.
#
#     ell_i(theta) = -log sum_k pi_k N(x_i; m_k, (F_k F_k^T)^-1)
#
# Prior: ``pi ~ Dirichlet(alpha)``, ``m_kj ~ N(0, s^2)``, and Wishart's law with ``nu`` degrees of
# freedom and mean ``I / c`` for precision matrices, or Gamma's with shape ``nu / 2`` and mean
# ``1 / c`` for precisions.
#
# The data enter through sufficient statistics alone (`skdpbayes.models.mixture`): no
# record's contribution is ever clipped but by bringing its row into the ball.


@suppress_fp_warnings()
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
