"""The posterior of logistic regression given noisy sums, the noise and what they leave open included.

    t = sum_i v_i H^T (e_{y_i} - 1/K) (x) z_i + N(0, s^2 I),      the sum ~ N(a(u), a'(u)) given rows and u

    a(u) = (I + M) f(u),      f = S - S(0),      M with mean m given other releases, see `score_discrepancy`

With the basis of the eigenvectors of ``a'`` at the last point and its eigenvalues ``T``, and ``r`` the mean
slope of the population over that at this point,

    t - (I + m) f(u) ~ N(0, V(u)),        V(u) = s^2 + r T + what is not known of a(u)

in that basis, in which covariances are taken to be diagonal.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from ..._linalg import eigh, inv
from ..base import Diagnostics
from .design import centred_coordinates
from .hmc import Density, Posterior, deviations_of_all_records
from .plan import N_ROWS
from .population import NormalPopulation, Population, moment_matched_sample
from .prior import Growth, Prior, growth_of, prior_of
from .release import Likelihood
from .requests import Question

# Discrepancy between the data's score and the synthetic design's, estimated from all releases.
#
#     a(u) = (I + M) f(u),    f(u) = S(u) - S(0),    M_ij ~ N(0, k^2 / length (l_i / l_j)^2 + [i = j] h_i)
#
#     a_k = (I + M) f(u_k) + N(0, s_k^2),        F_k = (I + M) f'(u_k) + N(0, s_k^2)
#
# a priori. ``S`` is the population's score, ``l`` the root mean squares of its rows' coordinates,
# and ``h`` what is not known of their second moment, relative to ``l_j^2``: where columns hardly vary, add
# up to one, or depend on each other in another way, noise hides it. Both kinds of releases are
# linear in ``M``. Without ``h``, given ``G``, the sum of ``f f^T / s^2`` and ``f' f'^T / s^2``,
# with ``L = diag(l)``,
#
#     L^-1 G L^-1 = Q diag(g) Q^T,    B = L^-1 Q,
#     Cov(M_i) = B diag(1 / (length / (k l_i)^2 + g)) B^T = C_i
#
# With it, ``D_i = diag(1 / e_ij - 1 / (e_ij + h_ij))``, ``e_ij = (k l_i / l_j)^2 / length``, is taken off a
# precision, for the columns ``J`` with an ``h_ij``, and
#
#     Cov(M_i) = C_i + C_iJ (D_i^-1 - C_iJJ)^-1 C_iJ^T
#
# ``k`` is chosen by the evidence. As ``f`` is bounded, so is what is not known of a score, at any
# point. ``M`` is not quite the same everywhere, so that variances grow with the distance from the
# last point.


# Least eigenvalue of a curvature, relative to the mean: there may be directions of which records say nothing.
_LEAST_EIGENVALUE = 1e-4
# Grid for ``k``.
_SIZES = np.geomspace(0.03, 1.5, 9)
# Prior median of ``k``.
_PRIOR_MEDIAN_SIZE = 0.2
# Prior deviation of ``log k``.
_PRIOR_LOG_SD_SIZE = 0.7
# Where ``h`` is less, the rest of ``M`` is enough.
_LEAST_RELATIVE_VARIANCE = 0.05
# Where ``h`` is more, nothing is known of the row of ``M``, and doubles can still tell ``h`` from that.
_LARGEST_RELATIVE_VARIANCE = 1e12
# Most entries of an array over rows of ``M`` and pairs of columns.
_MOST_ENTRIES = 2**20
# Of ``k^2 / length``: by how much ``M`` may change on the way, relative to the change of ``f``.
_CHANGE = 0.1


@dataclass(frozen=True)
class ScoreDiscrepancy:
    """The posterior of ``M``; ``n`` stands for ``n_blocks * length``.

    Attributes
    ----------
    mean : ndarray of shape (n, n)
        Of ``M``.
    factor : ndarray of shape (n, n)
        ``B``.
    shares : ndarray of shape (n, n)
        The variances in the coordinates ``B``, row by row of ``M``.
    uncertain : ndarray of shape (m,)
        Rows of ``M`` with more variance, each as often as it has columns in ``J``.
    pulls : ndarray of shape (m, n)
        What they have besides, in the coordinates ``B``: a sum of outer products.
    size : float
        ``k``.
    squares : ndarray of shape (n,)
        ``l^2``.
    centre : ndarray of shape (n,)
        ``f`` at the last point.
    """

    mean: np.ndarray
    factor: np.ndarray
    shares: np.ndarray
    uncertain: np.ndarray
    pulls: np.ndarray
    size: float
    squares: np.ndarray
    centre: np.ndarray

    @property
    def change(self):
        """Variances of the entries of a score per squared distance from ``centre``."""
        return _CHANGE * self.size**2 / self.squares.size * self.squares

    @cached_property
    def parts(self):
        """Matrices ``P`` and ``Q``: variances of the entries of a score at ``centre`` are ``(f P)^2 Q``."""
        parts_of_uncertain = np.zeros((self.uncertain.size, self.squares.size))
        parts_of_uncertain[np.arange(self.uncertain.size), self.uncertain] = 1.0
        return (
            np.hstack([self.factor, self.factor @ self.pulls.T]),
            np.vstack([self.shares.T, parts_of_uncertain]),
        )


def estimate_discrepancy(synthetic_design, noisy_sums, curvatures, point, relative_variances=None):
    """The `ScoreDiscrepancy` given all releases.

    Parameters
    ----------
    synthetic_design : Population or NormalPopulation
    noisy_sums, curvatures : list of NoisySum
        Scores, and curvatures, with the deviations of their noise.
    point : ndarray of shape (n,)
        The last point.
    relative_variances : ndarray of shape (length, length) or None, default=None
        ``h``, of a block; None is 0.
    """
    n, centre = point.size, synthetic_design.change(point[None])[0]
    squares = np.tile(synthetic_design.mean_squares, synthetic_design.family.n_blocks)
    squares = np.maximum(squares, 1e-9 * squares.max())
    f = synthetic_design.change(
        np.array([noisy_sum.point for noisy_sum in noisy_sums]).reshape(-1, n)
    )
    residual = np.array([noisy_sum.value for noisy_sum in noisy_sums]).reshape(-1, n) - f
    noises = np.array([noisy_sum.noise**2 for noisy_sum in noisy_sums])
    far = np.sum((f - centre) ** 2 / squares, axis=1)
    observed = [(f.T, residual.T, noises, far)]
    matrix = synthetic_design.curvature(point) if curvatures else None
    for noisy_sum in curvatures:
        slope = synthetic_design.curvature(noisy_sum.point)
        # Scores tell ``M`` on the way from 0, and curvatures how it goes on from there.
        far = (slope - matrix) ** 2 + slope**2
        far = np.mean(np.sum(far / squares[:, None], axis=0))
        observed.append((slope, noisy_sum.value - slope, noisy_sum.noise**2 / 2.0, far))
    variances, units = np.zeros((n, n)), squares[:, None] / squares
    if relative_variances is not None:
        variances = np.kron(np.eye(synthetic_design.family.n_blocks), relative_variances)
    is_large = variances > _LEAST_RELATIVE_VARIANCE * units
    variances = np.where(is_large, np.minimum(variances, _LARGEST_RELATIVE_VARIANCE * units), 0.0)
    candidates = (_given(observed, size, squares, centre, variances) for size in _SIZES)
    return max(candidates, key=lambda each: each[0])[1]


def _groups_of(counts):
    """Lists of places of equal positive numbers, so few that arrays of their squares stay small."""
    groups = []
    for count in np.unique(counts[counts > 0]):
        (rows,) = np.nonzero(counts == count)
        groups += np.array_split(rows, -(-len(rows) * count**2 // _MOST_ENTRIES))
    return groups


def _given(observed, size, squares, centre, relative_variances):
    """(log evidence, `ScoreDiscrepancy`) for a size, with ``h`` of shape (n, n)."""
    n, of_size = squares.size, size**2 / squares.size
    precision, onto, twice_log_evidence = np.zeros((n, n)), np.zeros((n, n)), 0.0
    for slopes, residual, noises, far in observed:
        variances = noises + _CHANGE * of_size * squares.mean() * far
        variances = np.broadcast_to(variances, slopes.shape[1:])
        precision += (slopes / variances) @ slopes.T
        onto += (residual / variances) @ slopes.T
        twice_log_evidence -= np.sum(residual**2 / variances) + n * np.log(variances).sum()
    roots = np.sqrt(squares)
    g, turn = eigh(precision / np.outer(roots, roots))
    factor, g = turn / roots[:, None], np.maximum(g, 0.0)
    prior = of_size * squares[:, None]
    shares = prior / (1.0 + prior * g)
    turned = onto @ factor
    mean = turned * shares
    twice_log_evidence += np.sum(turned * mean) - np.log1p(prior * g).sum()
    uncertain, pulls = [np.empty(0, dtype=int)], [np.empty((0, n))]
    has_more = relative_variances > 0.0
    counts = has_more.sum(axis=1)
    for rows in _groups_of(counts):  # Rows with as many columns are treated together.
        count = counts[rows[0]]
        columns = np.nonzero(has_more[rows])[1].reshape(len(rows), count)
        less = of_size * squares[rows, None] / squares[columns]
        more = less + relative_variances[rows[:, None], columns]
        taken = 1.0 / less - 1.0 / more
        of_columns = shares[rows, None] * factor[columns]
        left = -of_columns @ factor[columns].swapaxes(1, 2)
        left[:, range(count), range(count)] += 1.0 / taken
        values, basis = eigh(0.5 * (left + left.swapaxes(1, 2)))
        # By rounding it might be 0, where a row is known to no digit.
        values = np.maximum(values, (less / more / taken).min(axis=1, keepdims=True))
        pull = (basis / np.sqrt(values)[:, None]).swapaxes(1, 2) @ of_columns
        along = (pull @ turned[rows, :, None])[..., 0]
        mean[rows] += (along[:, None] @ pull)[:, 0]
        twice_log_evidence += np.sum(along**2 + np.log(less / more / taken) - np.log(values))
        uncertain.append(np.repeat(rows, count))
        pulls.append(pull.reshape(-1, n))
    evidence = (
        0.5 * twice_log_evidence
        - 0.5 * (np.log(size / _PRIOR_MEDIAN_SIZE) / _PRIOR_LOG_SD_SIZE) ** 2
    )
    known = mean @ factor.T, factor, shares, np.concatenate(uncertain), np.concatenate(pulls)
    return evidence, ScoreDiscrepancy(*known, size, squares, centre)


# How surprising released labels are under their prior, for each group of coefficients.
#
#     t* = (I + m) f(u*) + N(0, V(u*)),    u* ~ prior,    C = Cov t*
#
#     p_g = P(h_g(t*) >= h_g(t)),    h_g(t) = t^T C^-1 S_g C^-1 t
#
# with ``S_g`` the covariance of the mean of ``t*`` where only coefficients of the group vary. For a
# normal ``t*`` the derivative of the log density by the square of the prior scale of the group is
# half of ``h_g`` but for a constant, so that no statistic is better at finding a scale that is
# slightly too narrow. Its law need not be known: it is compared with its values for other ``t*``
# (Evans and Moshonov, "Checking for prior-data conflict", Bayesian Analysis 2006).


# Number of labels that the prior predicts, half of them for the statistics.
_N_PREDICTED = 2000
# Number of parts in which they are computed, to save memory.
_N_PARTS = 20


def prior_predictive_p_values(density, transform):
    """A probability for each group of the prior.

    Parameters
    ----------
    density : LogisticDensity
    transform : ndarray of shape (length, length)
        ``W``.

    Returns
    -------
    prior_predictive_p_values : ndarray of shape (n_groups,)
        Small where released labels say that a group's prior scale is too narrow.
    """
    # Post-processing.
    generator = np.random.default_rng(0)
    parts = _from_prior(density.prior, transform, density.label_sum.size, generator)
    predicted = in_parts(density.predict, sum(parts), generator)
    first, second = np.array_split(predicted, 2)
    precision = inv(np.cov(first.T).reshape(len(first.T), -1))
    p_values = []
    for part in parts:
        means = in_parts(density.mean, part[: len(first)]) @ precision
        weight = np.cov(means.T).reshape(len(precision), -1)
        sizes = np.einsum("ij,jk,ik->i", second, weight, second)
        p_values.append(np.mean(sizes >= density.label_sum @ weight @ density.label_sum))
    return np.array(p_values)


def in_parts(function, points, *arguments):
    """A function of points, taken so many at a time that arrays stay small."""
    parts = np.array_split(points, _N_PARTS)
    return np.concatenate([function(part, *arguments) for part in parts])


def _from_prior(prior, transform, size, generator):
    """Points from the prior, for each group those where the others are zero."""
    length, back = len(transform), inv(transform)
    parts: list[np.ndarray] = []
    columns = prior.columns
    for group in prior.groups:
        precisions = np.einsum("ji,jk,ki->i", back, group.precision[:length, :length], back)
        is_own = precisions > 1e-9 * max(precisions.max(), 1e-300)
        deviations = np.where(is_own, np.where(is_own, precisions, 1.0) ** -0.5, 0.0)
        if columns is not None and not parts:
            own = columns.drawn_deviations(length, _N_PREDICTED, generator)
            deviations = deviations + own[:, None]
        # Post-processing.
        scales = np.exp(generator.choice(group.logs, p=softmax(group.weights), size=_N_PREDICTED))
        # Post-processing.
        normal = generator.standard_normal((_N_PREDICTED, size // length, length))
        theta = scales[:, None, None] * deviations * normal
        parts.append((theta @ back.T).reshape(_N_PREDICTED, size))
    return parts


# The share of the rarest class in what rows count, by draws.
#
#     share_k(u) = 1 / K + (H W^-T f(u))_k / (c n v),      f(u) = S(u) - S(0),   S = sum_i v_i mean_i z_i
#
# of the population, where the last row of ``W`` is the intercept's, whose constant is ``c``, ``v`` is
# what records count on average, and ``H`` maps blocks to classes.


class RarestClass(NamedTuple):
    """Quantiles of the share that the rarest class has of what rows count: 5%, 50% and 95%."""

    low: float
    median: float
    high: float


def rarest_class(density, draws, constant):
    """A `RarestClass`.

    Parameters
    ----------
    density : LogisticDensity
    draws : ndarray of shape (n_draws, n_parameters)
    constant : float
        ``c``.
    """
    synthetic_design, back = density.synthetic_design, inv(density.transform)
    contrasts = synthetic_design.family.contrasts
    # Whatever ``n v`` is: all rows of one class are a share of 1.
    intercept_shift = in_parts(synthetic_design.change, density.points(draws))
    intercept_shift = intercept_shift.reshape(len(draws), -1, len(back)) @ back[:, -1]
    shares = intercept_shift / (constant * synthetic_design.total_weight)
    # Of two classes the last is what is counted, and the other one is the rest.
    shares = shares @ contrasts.T if len(contrasts) > 2 else np.hstack([-shares, shares])
    shares = np.clip(shares + 1.0 / len(contrasts), 0.0, 1.0)
    quantiles = np.quantile(shares, [0.05, 0.5, 0.95], axis=0)
    return RarestClass(*map(float, quantiles[:, np.argmin(quantiles[1])]))


# Draws of parameters: with more than two classes labels tell contrasts of coefficients only, and what is
# added to all classes alike follows the prior.
#
#     theta_k = sum_j H_kj W u_j + s / sqrt(K),      s ~ N(0, P^-1)


@dataclass(frozen=True)
class DensityOfContrasts(Density):
    """A density of contrasts between classes, or of a single block.

    Attributes
    ----------
    family : Family
        With as many blocks as responses can tell apart.
    transform : ndarray of shape (length, length)
        ``W``.
    shift : ndarray of shape (length,)
        Prior deviation of what classes have in common; empty for one block.
    """

    family: Any
    transform: np.ndarray
    shift: np.ndarray

    def parameters(self, u, random):
        """Draws of parameters, and nothing else."""
        blocks = u.reshape(len(u), -1, len(self.transform)) @ self.transform.T
        if self.shift.size:
            # Post-processing.
            common = self.shift * random.normal(size=(len(u), 1, self.shift.size))
            blocks = self.family.contrasts @ blocks + common / np.sqrt(len(self.family.contrasts))
        return blocks.reshape(len(u), -1), Diagnostics()


# Numbers in an array over points and rows of the population: larger ones are allocated anew each time.
_SMALL = 2**15
# Deviation of logits at the mode beyond which it does not tell how wide a posterior without noise is: classes
# are nearly separated. Below, deviations are a quarter too small at most, and from 5 on two to fifty times.
_SEPARATING_LOGIT_SD = 4.0


@dataclass(frozen=True)
class LogisticDensity(DensityOfContrasts):
    """The likelihood of ``t``, and the prior. ``n`` stands for ``n_blocks * length``.

    Attributes
    ----------
    synthetic_design : Population or NormalPopulation
    prior : Prior
    scales : ndarray of shape (n_scales,)
        Prior scales at which the mode is looked for.
    growth : Growth
    label_sum : ndarray of shape (n,)
        ``t``.
    noise : float
        ``s``.
    score_discrepancy : ScoreDiscrepancy
    origin : ndarray of shape (n,)
        ``S(0)``.
    slope : float
        Mean slope of the population at the last point.
    basis : ndarray of shape (n, n)
        Eigenvectors of ``a'`` there.
    sampling : ndarray of shape (n,)
        ``T``.
    start : ndarray of shape (n,)
        Where to look for the mode.
    whole : ndarray of shape (n, n) or None, default=None
        Curvature of the likelihood at the mode where all records count fully; None before the last answer,
        and where classes are nearly separated.
    design : Design or None, default=None
        Of rows as they are; None before the last answer.
    """

    synthetic_design: Population | NormalPopulation
    prior: Prior
    scales: np.ndarray
    growth: Growth
    label_sum: np.ndarray
    noise: float
    score_discrepancy: ScoreDiscrepancy
    origin: np.ndarray
    slope: float
    basis: np.ndarray
    sampling: np.ndarray
    start: np.ndarray
    whole: np.ndarray | None = None
    design: Any = None

    weighs_draws = True

    def negative_log_likelihood(self, u):
        """The negative log likelihood, up to a constant, and its gradient, for (n_points, n)."""
        synthetic_design = self.synthetic_design
        if isinstance(synthetic_design, NormalPopulation):
            return self._negative_log_likelihood(u)
        groups = np.array_split(u, -(-synthetic_design.n_logits * len(u) // _SMALL))
        return tuple(
            map(np.concatenate, zip(*map(self._negative_log_likelihood, groups), strict=True))
        )

    def mean(self, u):
        """Expected labels for points of shape (n_points, n)."""
        f = self.synthetic_design.change(u)
        return f + f @ self.score_discrepancy.mean.T

    def predict(self, u, generator):
        """Labels as they might be released for points of shape (n_points, n)."""
        moments = self.synthetic_design.at(u)
        f, *_, variances = self._law(moments)
        # Post-processing.
        errors = np.sqrt(variances) * generator.standard_normal(u.shape)
        return f + f @ self.score_discrepancy.mean.T + errors @ self.basis.T

    @cached_property
    def _constants(self):
        """The factors of ``f`` and the parts of variances, in ``basis``; and the labels."""
        score_discrepancy, squares = self.score_discrepancy, self.basis**2
        onto, shares = score_discrepancy.parts
        variances = np.vstack(
            [shares @ squares, score_discrepancy.change @ squares, self.sampling / self.slope]
        )
        means = self.basis + score_discrepancy.mean.T @ self.basis
        return onto, variances, means, self.label_sum @ self.basis, 1.0 / score_discrepancy.squares

    def _law(self, moments):
        """``f``, its projections on the discrepancy's parts, its distance, and variances of the label sum."""
        onto, variances, *_, per_square = self._constants
        f = self.synthetic_design.score(moments) - self.origin
        turned, away = f @ onto, f - self.score_discrepancy.centre
        of = np.empty((len(f), len(variances)))
        np.multiply(turned, turned, out=of[:, :-2])
        of[:, -2], of[:, -1] = away**2 @ per_square, self.synthetic_design.mean_variance(moments)
        return f, turned, away, self.noise**2 + of @ variances

    def _negative_log_likelihood(self, u):
        _, of_variances, means, label_sum, per_square = self._constants
        moments = self.synthetic_design.at(u)
        f, turned, away, variances = self._law(moments)
        residual = f @ means - label_sum
        solved = residual / variances
        energy = 0.5 * (np.einsum("ij,ij->i", residual, solved) + np.log(variances).sum(axis=1))
        by_variance = (1.0 / variances - solved**2) @ of_variances.T
        turned *= by_variance[:, :-2]
        away *= by_variance[:, -2, None] * per_square
        of_f = solved @ means.T + turned @ self._constants[0].T + away
        return energy, self.synthetic_design.vjp(moments, of_f, 0.5 * by_variance[:, -1])

    def information(self, u):
        """The curvature of the potential at one point, taking variances to be fixed."""
        synthetic_design, score_discrepancy = self.synthetic_design, self.score_discrepancy
        moments = synthetic_design.at(u[None])
        variances = self._law(moments)[-1][0]
        slopes = synthetic_design.curvature(u)
        turned = (slopes + slopes @ score_discrepancy.mean.T) @ (self.basis / np.sqrt(variances))
        return turned @ turned.T + self.prior.precision(self.scales)

    def points(self, draws):
        """``u`` of draws, of shape (n_draws, n)."""
        blocks = draws.reshape(len(draws), -1, len(self.transform))
        if self.shift.size:
            # Contrasts are orthonormal, and leave out what classes have in common.
            blocks = self.family.contrasts.T @ blocks
        return (blocks @ inv(self.transform).T).reshape(len(draws), -1)

    def level(self, u):
        """The mean logit of each block, of shape (n_points, n_blocks)."""
        return u.reshape(len(u), -1, len(self.transform)) @ self.synthetic_design.mean

    def prior_predictive_p_values(self):
        """See `prior_predictive_p_values`."""
        return prior_predictive_p_values(self, self.transform)

    def deviations_without_noise(self):
        """The deviations that parameters would have without noise, nan where that is not known."""
        n_blocks, length = self.family.n_blocks, len(self.transform)
        if self.whole is None:
            return np.full(length * (n_blocks + bool(self.shift.size)), np.nan)
        weight = max(self.synthetic_design.mean_weight, 1e-300)
        blocks = np.kron(np.eye(n_blocks), self.transform)
        weighted = (self.basis * (self.sampling / weight)) @ self.basis.T
        curvatures = np.stack([weighted, self.whole])
        covariances = blocks @ inv(curvatures + self.prior.precision(self.scales)) @ blocks.T
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        if self.shift.size:
            n_classes, contrasts = n_blocks + 1, np.kron(self.family.contrasts, np.eye(length))
            variances = np.sum((contrasts @ covariances) * contrasts, axis=2)
            variances = variances + np.tile(self.shift**2, n_classes) / n_classes
        weighted, of_design = np.sqrt(np.maximum(variances, 1e-300))
        return deviations_of_all_records(weighted, of_design, self.design)


class LogisticLikelihood(Likelihood):
    """Labels: their sum is asked once, and then scores and curvatures, which do not depend on them."""

    def __init__(self, plan, released, prior_precision):
        super().__init__(plan, released, prior_precision)
        design, noise, n_records = self.design, released.noise, self.n_records
        self.coordinates = centred_coordinates(
            design, noise, plan.bounds, n_records, plan.row_clipping
        )
        transform = self.coordinates.transform
        n_blocks, length = self.family.n_blocks, len(transform)
        known = plan.bounds, n_blocks, prior_precision[:length], transform
        self.prior = prior_of(*known, design)
        self.growth = growth_of(self.constant, n_blocks, transform)
        self.scales = self.prior.prior_mode
        self.relative_variances = _relative_variances(released, transform, bool(self.constant))
        self.synthetic_design = moment_matched_sample(
            design, transform, self.family, self.coordinates.norm, n_records, N_ROWS
        )
        self.noisy_sums, self.curvatures = [], []
        self.start = np.zeros(n_blocks * length)

    def question(self, request):
        """At the mode."""
        return Question(self.coordinates.transform, self.start)

    def learn(self, request, *sums):
        """Take over labels, or a score with a curvature or without, and find the mode."""
        if request.kind == "labels":
            (self.label_sum,) = sums
        else:
            self.noisy_sums.append(sums[0])
            self.curvatures.extend(sums[1:])
        if request != self.plan.rounds[-1][-1]:
            self.update_mode()

    def density(self):
        """The density given labels, scores and curvatures."""
        synthetic_design = self.synthetic_design
        last = self.noisy_sums[-1].point if self.noisy_sums else np.zeros(self.start.size)
        score_discrepancy = estimate_discrepancy(
            synthetic_design, self.noisy_sums, self.curvatures, last, self.relative_variances
        )
        moments = synthetic_design.at(np.array([last]))
        matrix = synthetic_design.curvature(last)
        matrix = matrix + score_discrepancy.mean @ matrix
        values, basis = eigh(0.5 * (matrix + matrix.T))
        values = np.maximum(values, _LEAST_EIGENVALUE * max(values.mean(), 1e-300))
        return LogisticDensity(
            family=self.family,
            synthetic_design=synthetic_design,
            prior=self.prior,
            scales=self.scales,
            growth=self.growth,
            transform=self.coordinates.transform,
            shift=np.empty(0),  # It follows from the last scales.
            label_sum=self.label_sum.value,
            noise=self.label_sum.noise,
            score_discrepancy=score_discrepancy,
            origin=synthetic_design.origin,
            slope=float(synthetic_design.mean_variance(moments)[0]),
            basis=basis,
            sampling=values,
            start=self.start,
        )

    def posterior(self):
        """The posterior that all releases amount to."""
        density = super().posterior().density
        known = self.prior_precision, self.family, density.scales
        shift = deviations_in_common(*known, self.prior.columns)
        theta = density.start.reshape(self.family.n_blocks, -1) @ density.transform.T
        covariance, whole = self.design.covariance, None
        with np.errstate(over="ignore", invalid="ignore"):
            logit_variance = np.max(np.sum(theta @ covariance * theta, axis=1))
        if logit_variance < _SEPARATING_LOGIT_SD**2:
            whole = self.synthetic_design.unweighted.curvature(density.start)
        return Posterior(replace(density, shift=shift, whole=whole, design=self.design))

    def diagnostics(self, posterior, draws):
        """With an intercept, the share of the rarest class."""
        if not self.constant:
            return Diagnostics()
        return Diagnostics(rarest_class=rarest_class(posterior.density, draws, self.constant))


def _relative_variances(released, transform, has_intercept):
    """``h``: what is not known of second moments in whitened coordinates, of shape (length, length)."""
    design, squares = released.design, transform**2
    moments = np.sum(transform * (design.second_moment @ transform), axis=0)
    moments = np.maximum(moments, 1e-300)
    units = np.outer(moments, moments)
    hidden = np.broadcast_to(design.hidden, design.covariance.shape)
    unknown = squares.T @ hidden @ squares
    if has_intercept:  # Means of columns, by which a level changes slopes and slopes a level.
        of_means = design.mean_variance * squares[:-1, :-1].sum(axis=0) * moments[-1]
        unknown[-1, :-1] = unknown[:-1, -1] = of_means
    # A covariance is no larger than the variances allow.
    unknown = np.minimum(unknown, units)
    np.fill_diagonal(unknown, (released.noise / released.n_records * squares.sum(axis=0)) ** 2)
    if has_intercept and released.is_exact:
        unknown[-1, -1] = 0.0  # A constant is known.
    return unknown / moments**2


def deviations_in_common(prior_precision, family, scales, columns=None):
    """Prior deviations of what classes have in common, none for two.

    Parameters
    ----------
    prior_precision : ndarray of shape (n_parameters,)
    family : ClassFamily
    scales : ndarray of shape (n_scales,)
        Of all coefficients or, if there is an intercept, of the others and of it; and of columns.
    columns : ColumnScales or None, default=None
    """
    if family.n_blocks == 1:
        return np.empty(0)
    length = prior_precision.size // len(family.contrasts)
    n_columns = 0 if columns is None else len(columns.chosen)
    of_groups, of_columns = np.split(scales, [len(scales) - n_columns])
    scale = np.full(length, of_groups[0])
    if len(of_groups) > 1:
        scale[-1] = of_groups[1]
    if columns is not None:
        scale[columns.chosen] = of_columns
    return prior_precision[:length] ** -0.5 * scale
