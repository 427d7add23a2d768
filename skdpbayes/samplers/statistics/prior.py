"""Prior scales of groups of coefficients, known or learnt.

    u | tau ~ N(0, (sum_g P_g / tau_g^2)^-1),        log tau_g on a grid, normal on either side of its mode

Scales are integrated out: the prior of ``u`` is a product over groups, of

    h(q) = sum_tau w(tau) tau^-k exp(-q / (2 tau^2)),        q = u^T P_g u,    k the rank of P_g

A scale is relative to that of ``P_g``. The grid ends where all probabilities are about 1/2, or 0 and 1.
The prior of a scale of coefficients is right-skewed, with a larger log-sd above its mode than below. Where
noise hides effects, small scales fit as well as any: a symmetric prior would then exclude effects of ordinary
size. With a higher mode, effects that noise hides would be so large that the intercept, which offsets them,
is biased. The prior of the intercept's scale is narrower above, since an intercept is the logarithm of a base
rate.

Public bounds may be far wider than what a column uses, and effects are then of one size for a deviation
of a column, ``s_j``, rather than for a unit. Which of both, and ``s_j``, is not known (`unusual_columns`):

    theta_j | tau, c_j  ~  N(0, (tau c_j)^2 / p_j),        c_j = 1 or, more probably, usual s / s_j

with ``c_j`` on a grid, too, for columns that may vary less or more than is usual and may be no indicators
(`ColumnScales`). Where noise hides ``s_j``, effects may be as large as small deviations allow.

Intervals have to cover effects that are large; predictions are of tables in which most are not. So draws of
``u`` have weights in predictions, as if the law of scales were another one, ``v``, most of which is narrower:

    weight(u) = prod_g h_v(q_g) / h_w(q_g)

A part of ``v`` is ``w``: no weight is far below the others, and where releases say that effects are large,
predictions follow them.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from scipy.special import softmax
from scipy.stats import gamma

from ..._linalg import inv

# Logarithms of scales.
_LOGS = np.linspace(np.log(1 / 16), np.log(32), 57)
# Every so many are used where columns have factors.
_COARSE = 2
# Logarithms of factors ``c``, every so many of these, and of products of factors and scales.
_FACTOR_STEP = 2
_N_SMALL_FACTORS = 5
_N_LARGE_FACTORS = 9
_LOG_STEP = _COARSE * (_LOGS[1] - _LOGS[0])
_FACTOR_LOGS = _FACTOR_STEP * _LOG_STEP * np.arange(-_N_SMALL_FACTORS, _N_LARGE_FACTORS + 1)
# The largest factor ``c``.
LARGEST_FACTOR = float(np.exp(_FACTOR_LOGS[-1]))
_PRODUCT_LOGS = np.arange(
    _LOGS[0] + _FACTOR_LOGS[0], _LOGS[-1] + _FACTOR_LOGS[-1] + 0.5 * _LOG_STEP, _LOG_STEP
)
# Probability that effects are of one size for a deviation of a column.
_PER_DEVIATION = 0.75
# Columns have a factor if this or less is the ratio of their variance to the usual one, or its inverse, with
# a probability that makes a difference.
_UNUSUAL_RATIO = 0.5
_LEAST_PROBABILITY = 0.2
# Least shape of the gamma law of a variance.
_LEAST_SHAPE = 0.5
# Least variance of a column, relative to the usual one, and the least that is not known of it, relative
# to its square.
_LEAST_VARIANCE = 1e-9
_LEAST_UNKNOWN_VARIANCE = 1e-6


class SplitLogNormal(NamedTuple):
    """Split log-normal prior of a scale: mode and log-sd on each side."""

    mode: float
    below: float
    above: float

    @property
    def logs(self):
        """Logarithms of its density on the grid, up to a constant."""
        away = _LOGS - np.log(self.mode)
        away /= np.where(away < 0.0, self.below, self.above)
        return -0.5 * away**2


_COEFFICIENT_SCALE_PRIOR = SplitLogNormal(1.2, 0.7, 1.4)
# Relative to the family's default, which is narrow, or to what is given if that is larger.
_INTERCEPT_SCALE_PRIOR = SplitLogNormal(2.0, 0.7, 0.8)
# Prior of coefficients' scales in predictions.
_PREDICTIVE_SCALE_PRIOR = SplitLogNormal(1.2, 0.7, 0.7)
# Share of the wider prior in predictions.
_AS_ABOVE = 0.2


@dataclass(frozen=True)
class Group:
    """Coordinates with one scale.

    Attributes
    ----------
    precision : ndarray of shape (n, n)
        ``P_g``.
    rank : int
        ``k``.
    logs : ndarray of shape (n_scales,)
        Logarithms of the scales that are possible; a known scale is the only one.
    weights : ndarray of shape (n_scales,)
        Logarithms of ``w``.
    in_predictions : ndarray of shape (n_scales,) or None
        Logarithms of ``v``; None is ``w``.
    """

    precision: np.ndarray
    rank: int
    logs: np.ndarray
    weights: np.ndarray
    in_predictions: np.ndarray | None = None

    @classmethod
    def known(cls, precision: np.ndarray, rank: int) -> Self:
        """A group with the scale 1."""
        return cls(precision, rank, *np.zeros((2, 1)))

    @classmethod
    def learnt(
        cls,
        precision: np.ndarray,
        rank: int,
        law: SplitLogNormal = _COEFFICIENT_SCALE_PRIOR,
        narrow: SplitLogNormal | None = None,
        step: int = 1,
    ) -> Self:
        """A group whose scale is learnt, in predictions with a ``narrow`` law if there is one."""
        wide, other = law.logs[::step], None
        if narrow is not None:
            parts = (1.0 - _AS_ABOVE) * softmax(narrow.logs[::step]) + _AS_ABOVE * softmax(wide)
            other = np.log(parts)
        return cls(precision, rank, _LOGS[::step], wide, other)

    @cached_property
    def line(self):
        """The logarithm of ``w tau^-k``, and ``1 / (2 tau^2)``, of every scale."""
        return self.weights - self.rank * self.logs, 0.5 * np.exp(-2.0 * self.logs)

    def weight(self, terms):
        """``h_v / h_w``, up to a constant: the mean of ``v / w``, given log probabilities of scales."""
        if self.in_predictions is None:
            return np.ones(len(terms))
        shares = softmax(terms[:, : self.logs.size], axis=1)
        return shares @ np.exp(self.in_predictions - self.weights)


@dataclass(frozen=True)
class ColumnScales:
    """Columns whose coefficients have scales of their own: that of the first group times a factor.

    Attributes
    ----------
    chosen : ndarray of shape (n_columns,)
        Which columns of a row they are.
    deviations : ndarray of shape (n_columns,)
        Prior deviations of coefficients if their scales are 1.
    rows : ndarray of shape (n_columns, n_blocks, n)
        Coefficients over these deviations are ``rows @ u``.
    weights : ndarray of shape (n_columns, n_factors)
        Logarithms of the probabilities of factors.
    """

    chosen: np.ndarray
    deviations: np.ndarray
    rows: np.ndarray
    weights: np.ndarray

    @cached_property
    def _mixing(self):
        """Probabilities of products given scales, of shape (n_columns, n_products, n_scales)."""
        n_scales = _LOGS[::_COARSE].size
        mixing, scales = (
            np.zeros((len(self.rows), _PRODUCT_LOGS.size, n_scales)),
            np.arange(n_scales),
        )
        for k, odds in enumerate(np.exp(self.weights).T):
            mixing[:, scales + _FACTOR_STEP * k, scales] = odds[:, None]
        return mixing

    def _values(self, u):
        return np.tensordot(u, self.rows, axes=(1, 2))

    def log_densities(self, u, extra=0.0):
        """Logarithms of a column's density for every product, of shape (n_columns, n_points, n_products).

        ``extra`` is what is added to squares, of shape (n_columns,).
        """
        squares = (np.sum(self._values(u) ** 2, axis=2) + extra).T[:, :, None]
        return -self.rows.shape[1] * _PRODUCT_LOGS - squares * (0.5 * np.exp(-2.0 * _PRODUCT_LOGS))

    def log_density(self, log_densities):
        """The sum over columns for every scale of the group, factors integrated out, (n_points, n_scales)."""
        top = log_densities.max(axis=2, keepdims=True)
        mixed = np.matmul(np.exp(log_densities - top), self._mixing)
        return np.sum(np.log(np.maximum(mixed, 1e-300)) + top, axis=0)

    def factor_logits(self, log_densities, places):
        """Logarithms of probabilities of factors, up to a constant, (n_columns, n_points, n_factors).

        ``places`` are those of the group's scale on its grid, of shape (n_points,).
        """
        at = places[:, None] + _FACTOR_STEP * np.arange(_FACTOR_LOGS.size)
        at = np.broadcast_to(at, (len(self.rows), *at.shape))
        return self.weights[:, None] + np.take_along_axis(log_densities, at, axis=2)

    def energy_given(self, u, scales):
        """As of a `Prior`, for ``scales`` of columns."""
        values = self._values(u)
        precisions = np.broadcast_to(scales**-2.0, values.shape[:2])[:, :, None]
        pull = np.tensordot(precisions * values, self.rows, axes=((1, 2), (0, 1)))
        return 0.5 * np.sum(precisions * values**2, axis=(1, 2)), pull

    def drawn_deviations(self, length, n_draws, random):
        """Prior deviations of a block's coefficients if the group's scale is 1, of shape (n_draws, length).

        They are 0 for other columns.
        """
        # Post-processing.
        factors = _drawn(np.repeat(self.weights[:, None], n_draws, axis=1), random)
        deviations = np.zeros((n_draws, length))
        deviations[:, self.chosen] = np.exp(_FACTOR_LOGS[factors]).T * self.deviations
        return deviations


class Growth(NamedTuple):
    """A move by which all coefficients grow by a factor, and the level of predictions stays.

        u -> u + (e^c - 1) G u + (level(G u) - level(e^c G u)) e,      level(u) a block's mean logit

    It is its own inverse with ``-c``, and volumes grow by ``e^(c rank)``.

    Attributes
    ----------
    matrix : ndarray of shape (n, n)
        ``G``, onto what intercepts are not.
    rank : int
        Number of coefficients.
    intercept : ndarray of shape (length,)
        ``e`` of a block, by which its logits grow by one; zero without an intercept.
    """

    matrix: np.ndarray
    rank: int
    intercept: np.ndarray


@dataclass(frozen=True)
class Prior:
    """The prior of ``u``: a tuple of `Group`, and columns of the first that have scales of their own.

    Scales are those of groups and, after them, of these columns.
    """

    groups: tuple[Group, ...]
    columns: ColumnScales | None = None

    @property
    def is_learnt(self):
        """Whether a scale is."""
        return any(group.logs.size > 1 for group in self.groups)

    @property
    def prior_mode(self):
        """The likeliest scales a priori, with the mean logarithm of factors."""
        modes = np.array([np.exp(group.logs[np.argmax(group.weights)]) for group in self.groups])
        if self.columns is None:
            return modes
        return np.append(modes, modes[0] * np.exp(np.exp(self.columns.weights) @ _FACTOR_LOGS))

    @cached_property
    def _lines(self):
        """Precisions side by side; lines and logarithms of scales, padded with log-weight -inf."""
        most = max(group.logs.size for group in self.groups)
        lines = np.array([np.full((len(self.groups), most), fill) for fill in (-np.inf, 1.0, 0.0)])
        for k, group in enumerate(self.groups):
            lines[:, k, : group.logs.size] = *group.line, group.logs
        return np.hstack([group.precision for group in self.groups]), *lines

    def _squares(self, u):
        """``P_g u``, of shape (n_points, n_groups, n), and ``q_g``."""
        gradients = (u @ self._lines[0]).reshape(len(u), len(self.groups), -1)
        return gradients, np.einsum("pi,pgi->pg", u, gradients)

    def _terms(self, u, extra=0.0, extra_of_columns=0.0):
        """Logarithms of densities for all scales of groups, and for all products of columns or None."""
        _, starts, halves, _ = self._lines
        terms = starts - (self._squares(u)[1] + extra)[:, :, None] * halves
        if self.columns is None:
            return terms, None
        of_columns = self.columns.log_densities(u, extra_of_columns)
        terms[:, 0, : self.groups[0].logs.size] += self.columns.log_density(of_columns)
        return terms, of_columns

    def energy(self, u):
        """The negative log density, scales integrated out, for ``u`` of shape (n_points, n)."""
        if not self.groups:
            return np.zeros(len(u))
        terms, _ = self._terms(u)
        # scipy's logsumexp takes most of its time for checks.
        top = terms.max(axis=2)
        return -(top + np.log(np.exp(terms - top[:, :, None]).sum(axis=2))).sum(axis=1)

    def scales_given(self, u, random):
        """Draws of scales given ``u``, of shape (n_points, n_scales)."""
        if not self.groups:
            return np.empty((len(u), 0))
        terms, of_columns = self._terms(u)
        places = _drawn(terms, random)
        logs = self._lines[3][np.arange(len(self.groups)), places]
        if self.columns is not None:
            factors = _drawn(self.columns.factor_logits(of_columns, places[:, 0]), random)
            logs = np.hstack([logs, logs[:, :1] + _FACTOR_LOGS[factors].T])
        return np.exp(logs)

    def energy_given(self, u, scales):
        """The negative log density given scales, up to a constant, and its gradient.

        ``scales`` are those of every point, of shape (n_points, n_scales), or of all.
        """
        if not self.groups:
            return np.zeros(len(u)), np.zeros_like(u)
        gradients, squares = self._squares(u)
        of_groups, of_columns = np.split(scales, [len(self.groups)], axis=-1)
        precisions = np.broadcast_to(of_groups**-2.0, squares.shape)
        gradient = np.einsum("pg,pgi->pi", precisions, gradients)
        energy = 0.5 * np.sum(precisions * squares, axis=1)
        if self.columns is not None:
            more, pull = self.columns.energy_given(u, of_columns)
            energy, gradient = energy + more, gradient + pull
        return energy, gradient

    def importance_weights(self, u):
        """Weights of draws in predictions, of shape (n_draws,), which add up to one."""
        terms = np.moveaxis(self._terms(u)[0], 1, 0)
        with np.errstate(under="ignore"):  # Whatever a user has set.
            parts = [group.weight(each) for group, each in zip(self.groups, terms, strict=True)]
            weights = np.prod(parts, axis=0)
        return weights / weights.sum()

    def precision(self, scales):
        """That at given scales."""
        of_groups, of_columns = np.split(scales, [len(self.groups)])
        total = sum(g.precision / t**2 for g, t in zip(self.groups, of_groups, strict=True))
        if self.columns is not None:
            rows = self.columns.rows / of_columns[:, None, None]
            total = total + np.tensordot(rows, rows, axes=((0, 1), (0, 1)))
        return total

    def squares_along(self, vectors):
        """Squares ``q`` of each scale for the columns of a matrix (n, m), of shape (n_scales, m)."""
        if not self.groups:
            return np.empty((0, vectors.shape[1]))
        squares = self._squares(vectors.T)[1].T
        if self.columns is None:
            return squares
        return np.vstack([squares, np.sum((self.columns.rows @ vectors) ** 2, axis=1)])

    def likeliest(self, u, covariance):
        """The likeliest scales, ``u`` being known up to a covariance.

        Those of columns have the mean precision given that of the group.
        """
        extra, of_columns = [np.sum(covariance * group.precision) for group in self.groups], 0.0
        if self.columns is not None:
            rows = self.columns.rows
            of_columns = np.einsum("jbi,ik,jbk->j", rows, covariance, rows, optimize=True)
        terms, of_columns = self._terms(u[None], np.array(extra), of_columns)
        places = np.argmax(terms[0], axis=1)
        logs = self._lines[3][np.arange(len(self.groups)), places]
        if self.columns is not None:
            logits = self.columns.factor_logits(of_columns, places[:1])[:, 0]
            factors = -0.5 * np.log(softmax(logits, axis=1) @ np.exp(-2.0 * _FACTOR_LOGS))
            # On the grid, so that rounds of expectation and maximisation end.
            logs = np.append(logs, logs[0] + _LOG_STEP * np.rint(factors / _LOG_STEP))
        return np.exp(logs)

    def padded(self):
        """The same with one more coordinate, of which nothing is said."""
        groups = [
            replace(group, precision=np.pad(group.precision, (0, 1))) for group in self.groups
        ]
        columns = self.columns
        if columns is not None:
            columns = replace(columns, rows=np.pad(columns.rows, ((0, 0), (0, 0), (0, 1))))
        return Prior(tuple(groups), columns)


def _drawn(logits, random):
    """Numbers along the last axis, drawn by logarithms of probabilities, up to a constant."""
    odds = softmax(logits, axis=-1).cumsum(axis=-1)
    # Post-processing.
    places = np.sum(odds < random.random((*odds.shape[:-1], 1)), axis=-1)
    return np.minimum(places, logits.shape[-1] - 1)


def prior_of(bounds, n_blocks, precisions, transform, design=None):
    """The `Prior` of a linear model in coordinates ``theta = W u``.

    Parameters
    ----------
    bounds : TargetBounds
        Which scales are learnt, and whether there is an intercept.
    n_blocks : int
    precisions : ndarray of shape (length,)
        Of a block of coefficients, the intercept's last.
    transform : ndarray of shape (length, length)
        ``W``.
    design : Design or None, default=None
        How much columns vary; None is as much as each other.
    """
    n_columns = len(transform) - (bounds.constant > 0)
    chosen, weights = np.zeros(0, dtype=int), np.empty((0, 0))
    if design is not None and design.numbers is not None and bounds.learns_scales[0]:
        chosen, weights = unusual_columns(design.numbers)
    parts = [np.setdiff1d(np.arange(n_columns), chosen)]
    if bounds.constant:
        parts.append(np.array([n_columns]))
    laws = (
        (_COEFFICIENT_SCALE_PRIOR, _PREDICTIVE_SCALE_PRIOR),
        (_law_of_intercept(bounds, precisions[-1]), None),
    )
    groups, step = [], _COARSE if chosen.size else 1
    for part, is_learnt, own_laws in zip(parts, bounds.learns_scales, laws, strict=False):
        rows = transform[part]
        block = np.kron(np.eye(n_blocks), (rows.T * precisions[part]) @ rows)
        known = block, n_blocks * len(rows)
        groups.append(Group.learnt(*known, *own_laws, step) if is_learnt else Group.known(*known))
    if not chosen.size:
        return Prior(tuple(groups))
    rows = np.sqrt(precisions[chosen])[:, None] * transform[chosen]
    rows = np.stack([np.kron(np.eye(n_blocks), row) for row in rows])
    columns = ColumnScales(chosen, precisions[chosen] ** -0.5, rows, weights)
    return Prior(tuple(groups), columns)


def unusual_columns(numbers):
    """Columns that may vary less or more than is usual, and the law of their factors.

    Effects of indicators, of which rare ones hardly vary, are of one size for a unit. The variance of a
    number follows a gamma law with the mean and the variance that a release leaves.

    Parameters
    ----------
    numbers : Numbers

    Returns
    -------
    chosen : ndarray of int of shape (m,)
    weights : ndarray of shape (m, n_factors)
        Logarithms of probabilities.
    """
    variances = np.maximum(numbers.variances, _LEAST_VARIANCE * numbers.usual)
    unknown = np.maximum(numbers.uncertainty, _LEAST_UNKNOWN_VARIANCE * variances**2)
    shapes = np.maximum(variances**2 / unknown, _LEAST_SHAPE)
    laws = gamma(shapes, scale=variances / shapes)
    half = 0.5 * _FACTOR_STEP * _LOG_STEP
    ends = np.exp(-2.0 * np.append(_FACTOR_LOGS - half, _FACTOR_LOGS[-1] + half))
    ends[0], ends[-1] = np.inf, 0.0
    below = laws.cdf(numbers.usual * ends[:, None]).T
    per_deviation = (_PER_DEVIATION * numbers.probability)[:, None]
    probabilities = per_deviation * np.maximum(below[:, :-1] - below[:, 1:], 0.0)
    probabilities[:, _N_SMALL_FACTORS] += 1.0 - per_deviation[:, 0]
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    unusual = laws.cdf(_UNUSUAL_RATIO * numbers.usual) + laws.sf(numbers.usual / _UNUSUAL_RATIO)
    (chosen,) = np.nonzero(per_deviation[:, 0] * unusual > _LEAST_PROBABILITY)
    with np.errstate(divide="ignore"):
        return chosen, np.log(probabilities[chosen])


def growth_of(constant, n_blocks, transform):
    """The `Growth` of a linear model in coordinates ``theta = W u``, with an intercept if ``constant``."""
    length, back = len(transform), inv(transform)
    coefficients, intercept = np.eye(length), np.zeros(length)
    if constant:
        coefficients[-1, -1], intercept = 0.0, back[:, -1] / constant
    matrix = np.kron(np.eye(n_blocks), back @ coefficients @ transform)
    return Growth(matrix, n_blocks * (length - (constant > 0)), intercept)


def _law_of_intercept(bounds, precision):
    if not (bounds.constant and bounds.family):
        return _INTERCEPT_SCALE_PRIOR
    given = bounds.constant * precision**-0.5
    scale_ratio = max(1.0, bounds.family.intercept_scale / given)
    return _INTERCEPT_SCALE_PRIOR._replace(mode=_INTERCEPT_SCALE_PRIOR.mode * scale_ratio)
