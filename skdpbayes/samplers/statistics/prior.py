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

from ..._linalg import inv

# Logarithms of scales.
_LOGS = np.linspace(np.log(1 / 16), np.log(32), 57)


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
    ) -> Self:
        """A group whose scale is learnt, in predictions with a ``narrow`` law if there is one."""
        wide, other = law.logs, None
        if narrow is not None:
            parts = (1.0 - _AS_ABOVE) * softmax(narrow.logs) + _AS_ABOVE * softmax(wide)
            other = np.log(parts)
        return cls(precision, rank, _LOGS, wide, other)

    @cached_property
    def line(self):
        """The logarithm of ``w tau^-k``, and ``1 / (2 tau^2)``, of every scale."""
        return self.weights - self.rank * self.logs, 0.5 * np.exp(-2.0 * self.logs)

    def weight(self, u):
        """``h_v / h_w``, up to a constant, for ``u`` of shape (n_points, n): the mean of ``v / w``."""
        if self.in_predictions is None:
            return np.ones(len(u))
        squares = np.sum(u * (u @ self.precision), axis=1)
        start, halves = self.line
        shares = softmax(start - squares[:, None] * halves, axis=1)
        return shares @ np.exp(self.in_predictions - self.weights)

    def likeliest(self, u, covariance):
        """The likeliest scale, ``u`` being known up to a covariance."""
        square = u @ self.precision @ u + np.sum(covariance * self.precision)
        start, halves = self.line
        return np.exp(self.logs[np.argmax(start - square * halves)])


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
    """The prior of ``u``: a tuple of `Group`, which share its coordinates among them."""

    groups: tuple[Group, ...]

    @property
    def is_learnt(self):
        """Whether a scale is."""
        return any(group.logs.size > 1 for group in self.groups)

    @property
    def prior_mode(self):
        """The likeliest scales a priori."""
        return np.array([np.exp(group.logs[np.argmax(group.weights)]) for group in self.groups])

    @cached_property
    def _lines(self):
        """Stack precisions; pad grids to equal length with log-weight -inf."""
        most = max(group.logs.size for group in self.groups)
        lines = np.array([np.full((len(self.groups), most), fill) for fill in (-np.inf, 1.0)])
        for k, group in enumerate(self.groups):
            lines[:, k, : group.logs.size] = group.line
        return np.hstack([group.precision for group in self.groups]), *lines

    def _squares(self, u):
        """``P_g u``, of shape (n_points, n_groups, n), and ``q_g``."""
        gradients = (u @ self._lines[0]).reshape(len(u), len(self.groups), -1)
        return gradients, np.einsum("pi,pgi->pg", u, gradients)

    def energy(self, u):
        """The negative log density, scales integrated out, for ``u`` of shape (n_points, n)."""
        if not self.groups:
            return np.zeros(len(u))
        _, starts, halves = self._lines
        terms = starts - self._squares(u)[1][:, :, None] * halves
        # scipy's logsumexp takes most of its time for checks.
        top = terms.max(axis=2)
        return -(top + np.log(np.exp(terms - top[:, :, None]).sum(axis=2))).sum(axis=1)

    def scales_given(self, u, random):
        """Draws of scales given ``u``, of shape (n_points, n_groups)."""
        if not self.groups:
            return np.empty((len(u), 0))
        _, starts, halves = self._lines
        odds = softmax(starts - self._squares(u)[1][:, :, None] * halves, axis=2).cumsum(axis=2)
        # Post-processing.
        places = np.sum(odds < random.random((len(u), len(self.groups), 1)), axis=2)
        logs = [
            group.logs[np.minimum(k, group.logs.size - 1)]
            for group, k in zip(self.groups, places.T, strict=True)
        ]
        return np.exp(logs).T

    def energy_given(self, u, scales):
        """The negative log density given scales, up to a constant, and its gradient.

        ``scales`` are those of every point, of shape (n_points, n_groups), or of all.
        """
        if not self.groups:
            return np.zeros(len(u)), np.zeros_like(u)
        gradients, squares = self._squares(u)
        precisions = np.broadcast_to(scales**-2.0, squares.shape)
        gradient = np.einsum("pg,pgi->pi", precisions, gradients)
        return 0.5 * np.sum(precisions * squares, axis=1), gradient

    def importance_weights(self, u):
        """Weights of draws in predictions, of shape (n_draws,), which add up to one."""
        with np.errstate(under="ignore"):  # Whatever a user has set.
            weights = np.prod([group.weight(u) for group in self.groups], axis=0)
        return weights / weights.sum()

    def precision(self, scales):
        """That at given scales."""
        return sum(g.precision / t**2 for g, t in zip(self.groups, scales, strict=True))

    def likeliest(self, u, covariance):
        """The likeliest scales, ``u`` being known up to a covariance."""
        return np.array([group.likeliest(u, covariance) for group in self.groups])

    def padded(self):
        """The same with one more coordinate, of which nothing is said."""
        groups = [
            replace(group, precision=np.pad(group.precision, (0, 1))) for group in self.groups
        ]
        return Prior(tuple(groups))


def prior_of(bounds, n_blocks, precisions, transform):
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
    """
    parts = [slice(len(transform))]
    if bounds.constant:
        parts = [slice(len(transform) - 1), slice(len(transform) - 1, None)]
    groups = []
    laws = (
        (_COEFFICIENT_SCALE_PRIOR, _PREDICTIVE_SCALE_PRIOR),
        (_law_of_intercept(bounds, precisions[-1]),),
    )
    for part, is_learnt, own_laws in zip(parts, bounds.learns_scales, laws, strict=False):
        rows = transform[part]
        block = np.kron(np.eye(n_blocks), (rows.T * precisions[part]) @ rows)
        rank = n_blocks * len(rows)
        groups.append(
            Group.learnt(block, rank, *own_laws) if is_learnt else Group.known(block, rank)
        )
    return Prior(tuple(groups))


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
