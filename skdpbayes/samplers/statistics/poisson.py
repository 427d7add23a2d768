"""The posterior of Poisson regression given sums of clipped residuals of counts.

    g_k ~ N(f_k(u) + E x_k, B_k),      x_k = H^-1 (f_k(u) - f_k(u_k))

``f_k`` is what a noisy sum sees of a synthetic design, whose curvature is ``H``. ``E`` is what is not known
of the table's (`curvature`): it is symmetric, with entries of variances ``p_i p_j`` and ``2 p_i^2 + h_i`` in
the basis of the eigenvectors of ``H``, and integrated out. ``B`` has the noise, what noisy sums of the same
counts have in common, and what is not known of how they are dispersed. It does not depend on ``u``: where
that is hardly known, noise is most of it.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from ..._linalg import eigh, inv, solve
from ...models.families.poisson import drawn
from .dispersion import (
    PRIOR_DISPERSION,
    Dispersion,
    clipped_count,
    dispersion_given,
    excess_zeros,
    looked_up,
    margin_of_sum,
    shortfall,
    tabulated,
)
from .hmc import HMCPosterior, chain_seed, draw, find_mode_and_scales
from .logistic import rows_like
from .normal import conditioned, positive_inverse, spectrum, turned, variance_factors
from .prior import Prior, WithPrior

# What is subtracted from counts, so that clips take as much from one tail as from the other.
#
#     E psi_tau(min(Y, L) - a(eta)) = 0      for  E Y = exp(eta)
#
# With ``a`` in the place of the mean, a noisy sum at the true point has the mean 0, whatever
# the rows. ``a`` is monotone, and linear between nodes; beyond the last it stays.


# Logit of the first node.
FIRST_NODE = -12.0
# Distance of two nodes.
_DISTANCE = 0.02
# Number of bisections.
_HALVINGS = 40


class Centre(NamedTuple):
    """A function of logits, linear between nodes.

    Attributes
    ----------
    nodes, values : ndarray of shape (n_nodes,)
    """

    nodes: np.ndarray
    values: np.ndarray

    def __call__(self, logits):
        """The centres that are subtracted from counts."""
        return np.interp(logits, self.nodes, self.values)

    @property
    def largest(self):
        """No value, and no slope, is larger."""
        slopes = np.diff(self.values) / np.diff(self.nodes)
        return float(max(self.values[-1], slopes.max()))


def centre_for(clip, dispersion, largest):
    """The `Centre` for a clip, a dispersion and the largest count.

    Parameters
    ----------
    clip, dispersion, largest : float
        As for `clipped_count`; the clip is at least 1, so that the equation has one solution.
    """
    last = max(np.log(2.0 * largest), FIRST_NODE + 1.0)
    nodes = np.linspace(FIRST_NODE, last, int(np.ceil((last - FIRST_NODE) / _DISTANCE)) + 1)
    low, high = np.zeros(nodes.size), np.full(nodes.size, float(largest))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        value, _ = clipped_count(np.exp(nodes), middle, clip, dispersion, largest)
        low, high = np.where(value > 0, middle, low), np.where(value > 0, high, middle)
    return Centre(nodes, np.maximum.accumulate(0.5 * (low + high)))


# The clip with which a sum of clipped counts says most.
#
#     (q C tau nu)^2 + n E psi^2 + |n b|^2 / length,      over  Cov(psi, y)^2,      is least
#
# The tighter a clip, the more a noisy sum depends on how dispersed counts are (`dispersion`): ``b`` is how
# much its mean may be off. So clips are wider where noise is small.


# Least clip: with a smaller one, a count of 1 would be reduced, too, where most are 0.
LEAST_CLIP = 1.0
# Least clip in deviations of residuals, as a noisy sum far from the mode should tell how far it is.
_LEAST_CLIP_IN_SDS = 1.0
# Number of clips that are tried.
_N_CLIPS = 40


def best_count_clip(counts, means, centres, noise_per_clip, n_records, largest, leaning=None):
    """The clip.

    Parameters
    ----------
    counts, means, centres : ndarray of shape (n,)
        Counts as they may be, their means, and what is subtracted from them.
    noise_per_clip : float
        Noise of a noisy sum, for a clip of 1.
    n_records : float
    largest : float
        Of counts.
    leaning : callable or None, default=None
        Maps a clip to ``b``.
    """
    least = max(LEAST_CLIP, _LEAST_CLIP_IN_SDS * float(np.std(counts - centres)))
    clips = np.geomspace(least, max(largest, 2.0 * least), _N_CLIPS)
    psi = np.clip(counts - centres, -clips[:, None], clips[:, None])
    variances = (noise_per_clip * clips) ** 2 + n_records * np.mean(psi**2, axis=1)
    if leaning is not None:
        of_clips = np.array([leaning(clip) for clip in clips])
        variances += n_records**2 * np.mean(of_clips**2, axis=1)
    raised = counts - means
    slopes = psi @ (raised - raised.mean()) / raised.size
    return float(clips[np.argmin(variances / np.maximum(slopes, 1e-12) ** 2)])


# What is believed of a table's rows given two noisy second moments, and of its curvature given a
# population.
#
#     F / n = P + X + noise,      X_ij ~ N(0, U_ij + k^2 f_i f_j / length)
#     P = M + b V,                f = diag(b V)
#
# ``M + V`` is that of a population whose rows have the second moment that was released first, and
# ``M`` what it would be if rows did not differ. ``U`` is what that leaves unknown. All variances of
# columns may be off by a common factor ``b``, as where noise hides them. ``k``, which is learnt, too,
# is how much rows vary together that in the population do not. As for responses that are numbers, see
# `normal.Curvature`, eigenvalues that noise has spread are gathered, but ``P`` is not
# diagonal. The population is then changed to have the ``F`` that is believed (`reshaped`):
# its curvatures are those of the table but for what ``F`` leaves unknown, and rows that are not
# normal.


# Prior median of ``k^2``.
_PRIOR_MEDIAN_SQUARED_SIZE = 0.04
# Prior deviation of ``log k^2``.
_PRIOR_LOG_SD_SQUARED_SIZE = 2.0
# Grid for ``k^2``.
_SIZES = np.geomspace(0.0004, 4.0, 41)
# Largest prior deviation of ``b``.
_LARGEST_LEVEL_SD = 1.0
# Prior deviation of the factor of ``M``.
_MEAN_FACTOR_SD = 0.2
# Least ``b``.
_LEAST_LEVEL = 0.1
# Least eigenvalue, relative to the mean: smaller ones are drowned in noise.
_LEAST_EIGENVALUE = 1e-3
# Least entry of ``f``, relative to the mean.
_LEAST_SHARE = 0.2
# ``U`` off the diagonal, at most, in units of ``f_i f_j / length``: ``P + X`` is positive.
_LARGEST_UNKNOWN_ENTRY = 0.25
# Prior deviation of the weight of records, as rows are not normal.
_WEIGHT_SD = 0.2
# Limits of the relative excess of that weight.
_WEIGHT_EXCESS_LIMITS = (-0.5, 1.0)
_SMALLEST_DIVISOR = 1e-12


class CountCurvature(NamedTuple):
    """The posterior of the table's curvature ``H``, of one record.

    Attributes
    ----------
    basis : ndarray of shape (length, length)
        Eigenvectors of ``H``.
    values : ndarray of shape (length,)
        Its eigenvalues.
    variance_factor, diagonal_variance : ndarray of shape (length,)
        ``p`` and ``h``: in the basis entries have variances ``p_i p_j``, and ``2 p_i^2 + h_i`` on the
        diagonal.
    """

    basis: np.ndarray
    values: np.ndarray
    variance_factor: np.ndarray
    diagonal_variance: np.ndarray


def rescaled_to(flat, varying, unknown, matrix, noise_scale):
    """``b V``.

    Parameters
    ----------
    flat, varying : ndarray of shape (length, length)
        ``M`` and ``V``.
    unknown, matrix, noise_scale
        As for `moment_given`. An error that columns have in common is taken to be as large as that of one.
    """
    parts = np.stack([flat.ravel(), varying.ravel()])
    scale_variance = np.trace(unknown) / max(np.sum(np.diag(varying) ** 2), _SMALLEST_DIVISOR)
    # No part has a precision of 0, and that of the mean is 0 without a constant.
    precision = np.diag(
        [
            _MEAN_FACTOR_SD**-2.0,
            1.0 / max(min(scale_variance, _LARGEST_LEVEL_SD**2), _SMALLEST_DIVISOR),
        ]
    )
    off = (matrix - flat - varying).ravel()
    of_noise = noise_scale**-2.0
    change = solve(precision + of_noise * parts @ parts.T, of_noise * parts @ off)
    return varying * max(1.0 + change[1], _LEAST_LEVEL)


def moment_given(flat, varying, unknown, matrix, noise_scale):
    """The posterior mean of ``F / n``, which is positive, and variances of its entries.

    Parameters
    ----------
    flat, varying : ndarray of shape (length, length)
        ``M`` and ``b V``.
    unknown : ndarray of shape (length, length)
        ``U`` before it is cut.
    matrix : ndarray of shape (length, length)
        ``F / n``, with noise.
    noise_scale : float
        Deviation of the noise on its diagonal.
    """
    moment, (f, units) = flat + varying, _units(varying)
    unknown = _cut(unknown, _units(moment)[1])
    noise = noise_scale**2 * 0.5 * (1.0 + np.eye(len(moment)))
    excess = matrix - moment
    prior = unknown + _size(excess**2, noise + unknown, units) * units
    share = prior / (prior + noise)
    values, basis, entry_variances = spectrum(
        moment + excess * share, noise * share, share**2 * noise
    )
    values = np.maximum(values, _LEAST_EIGENVALUE * f.mean())
    return (basis * values) @ basis.T, turned(entry_variances, basis.T)


def _size(squares, known, units):
    """The posterior mean of ``k^2``, ``squares`` being those of entries of ``known + k^2 units``."""
    pairs = np.triu_indices(len(units))
    variances = known[pairs] + _SIZES[:, None] * units[pairs]
    logs = -0.5 * np.sum(np.log(variances) + squares[pairs] / variances, axis=1)
    logs -= 0.5 * (np.log(_SIZES / _PRIOR_MEDIAN_SQUARED_SIZE) / _PRIOR_LOG_SD_SQUARED_SIZE) ** 2
    return softmax(logs) @ _SIZES


def share_given(moment, unknown, matrix, noise_scale):
    """The weight of records relative to rows that are normal: ``tr F / tr P``, as far as both are known.

    Parameters
    ----------
    moment : ndarray of shape (length, length)
        ``P``.
    unknown, matrix, noise_scale
        As for `moment_given`.
    """
    trace = np.trace(moment)
    hidden = (np.trace(unknown) + len(moment) * noise_scale**2) / trace**2
    off = np.clip(np.trace(matrix) / trace - 1.0, *_WEIGHT_EXCESS_LIMITS)
    return float(1.0 + off * _WEIGHT_SD**2 / (_WEIGHT_SD**2 + hidden))


def curvature_given(moment, unknown):
    """The `CountCurvature`, given a population's and what is not known of it.

    Parameters
    ----------
    moment, unknown : ndarray of shape (length, length)
        ``P``, and variances of entries, to which is added what rows that are not normal may change.
    """
    f, units = _units(moment)
    values, basis = eigh(moment)
    values = np.maximum(values, _LEAST_EIGENVALUE * f.mean())
    entry_variances = _cut(unknown, units) + _PRIOR_MEDIAN_SQUARED_SIZE * units
    return CountCurvature(basis, values, *variance_factors(turned(entry_variances, basis)))


def _units(matrix):
    """``f``, the diagonal, and the unit of variances."""
    f = np.diag(matrix)
    f = np.maximum(f, _LEAST_SHARE * f.mean())
    return f, np.outer(f, f) / len(f)


def _cut(unknown, units):
    """``U``."""
    length = len(unknown)
    return np.minimum(
        unknown,
        units * (_LARGEST_UNKNOWN_ENTRY + (length - _LARGEST_UNKNOWN_ENTRY) * np.eye(length)),
    )


# Rows that stand for those of a table, their exposures, and what a noisy sum sees of them.
#
#     f_k(u) = (n a / M) sum_i v_i z_i e_k(z_i . u + o_i)
#
# with ``e_k`` the mean of a clipped count, looked up in a table (`dispersion.looked_up`).


# Logits are cut here: means are large enough to be clipped.
_LARGEST_LOGIT = 30.0
# Counts for each row, where counts are simulated.
_REPEATED = 8
# The largest mean that counts fully for a curvature, relative to the average mean: others are clipped.
_LARGEST_RELATIVE_MEAN = 2.0
# Rounds in which rows are moved until they have another moment.
_ROUNDS = 4
# Least variance that is moved, relative to the largest.
_LEAST_MOVED_VARIANCE = 1e-9


@dataclass(frozen=True)
class CountPopulation:
    """Rows that stand for those of a table.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, length)
        In whitened coordinates.
    weights : ndarray of shape (n_rows,)
        ``v``.
    offsets : ndarray of shape (n_rows,)
        ``o``, logarithms of exposures.
    size : float
        ``n / M``, how many records a row stands for.
    largest, largest_mean : float
        Of counts, and of means where these are factors.
    share : float, default=1
        ``a``: what records count, relative to rows that are normal.
    """

    rows: np.ndarray
    weights: np.ndarray
    offsets: np.ndarray
    size: float
    largest: float
    largest_mean: float
    share: float = 1.0

    def logits(self, u):
        """Logits for points of shape (n_points, length), or for one."""
        return u @ self.rows.T + self.offsets

    def means(self, u):
        """Means at a point."""
        return np.minimum(np.exp(np.minimum(self.logits(u), 700.0)), self.largest_mean)

    @property
    def moment(self):
        """Mean of ``a v z z^T``."""
        return self._mean_product(self.weights)

    def curvature(self, u):
        """The mean of ``a v min(m, 2 m') z z^T``, ``m`` being means at a point, ``m'`` their mean."""
        means = self.means(u)
        factors = self.weights * np.minimum(
            means, _LARGEST_RELATIVE_MEAN * np.mean(self.weights * means)
        )
        return self._mean_product(factors)

    def _mean_product(self, factors):
        return self.share * (self.rows * factors[:, None]).T @ self.rows / len(self.rows)

    def reshaped(self, moment, share, along, constant, norm):
        """A population whose mean of ``v z z^T`` is another, but for how much a constant counts.

        Parameters
        ----------
        moment : ndarray of shape (length, length)
            Positive.
        share : float
            Of the new population.
        along : ndarray of shape (length,)
            ``z . along`` is the constant.
        constant : float
            Of the intercept's column; 0 without one.
        norm : float
            ``C``.
        """
        mean, root = _mean_and_root(moment / share, along, constant)
        reshaped_design = replace(self, share=1.0)
        for _ in range(_ROUNDS):  # Rows that are moved count as much as they are long then.
            reshaped_design = replace(reshaped_design, weights=counted(reshaped_design.rows, norm))
            of_own, inverse = _mean_and_root(reshaped_design.moment, along, constant, power=-0.5)
            reshaped_design = replace(
                reshaped_design, rows=mean + (reshaped_design.rows - of_own) @ inverse @ root
            )
        return replace(reshaped_design, share=share)

    def seen(self, u, centres, tables):
        """``f_k`` for points, of shape (n_points, n_sums, length), and slopes by logits."""
        means, slopes = looked_up(self.logits(u), centres, tables)
        return self.size * self.share * (means * self.weights) @ self.rows, slopes

    def vjp(self, by_f, slopes):
        """Gradients by points of what has the gradients ``by_f`` by ``f_k``."""
        factors = np.sum((by_f @ self.rows.T) * slopes, axis=1) * self.weights
        return self.size * self.share * factors @ self.rows

    def jacobians(self, u, centres, tables):
        """``f_k`` at one point, and its derivatives, of shape (n_sums, length, length)."""
        f, slopes = self.seen(u[None], centres, tables)
        factors = self.size * self.share * slopes[0] * self.weights
        return f[0], np.array([(self.rows * each[:, None]).T @ self.rows for each in factors])

    def simulated(self, u, deviations, dispersion, generator):
        """Counts, and their means, of shape (n_repeated, n_rows).

        Parameters
        ----------
        u : ndarray of shape (length,)
        deviations : ndarray of shape (n_rows,) or float
            Of logits around those at ``u``.
        dispersion : float
        generator : Generator
            It need not be secret.
        """
        # Post-processing.
        normal = generator.standard_normal((_REPEATED, len(self.rows)))
        means = np.exp(np.minimum(self.logits(u) + deviations * normal, _LARGEST_LOGIT))
        # Post-processing.
        return np.minimum(drawn(means, dispersion, generator), self.largest), means


def counted(rows, norm):
    """``v``, what rows count."""
    return np.minimum(1.0, norm**2 / np.maximum(np.sum(rows**2, axis=1), 1e-300))


def split(moment, along, constant):
    """The second moment if rows did not differ, 0 without a constant, and the rest."""
    if not constant:
        return np.zeros_like(moment), moment
    of_constant = moment @ along
    flat = np.outer(of_constant, of_constant) / (along @ of_constant)
    return flat, moment - flat


def _mean_and_root(moment, along, constant, power=0.5):
    """The mean that a second moment tells, 0 without a constant, and a power of the covariance."""
    mean, covariance = np.zeros(len(moment)), moment
    if constant:
        of_constant = moment @ along
        total = float(along @ of_constant)
        mean = constant * of_constant / total
        covariance = moment * constant**2 / total - np.outer(mean, mean)
    values, vectors = eigh(covariance)
    used = values > _LEAST_MOVED_VARIANCE * values[-1]
    return mean, (vectors[:, used] * values[used] ** power) @ vectors[:, used].T


def count_population(design, coordinates, offsets, n_records, family, generator):
    """Rows with exactly the moments of a `Design`, and offsets that do not depend on them.

    Parameters
    ----------
    design : Design
    coordinates : Coordinates
    offsets : ndarray of shape (n_rows,)
        Of an even number of rows, at least twice as many as there are columns.
    n_records : float
    family : Poisson
    generator : Generator
        It need not be secret.
    """
    transform, norm, n_rows = coordinates.transform, coordinates.norm, len(offsets)
    rows, weights = rows_like(design, transform, norm, n_rows, generator)
    return CountPopulation(
        rows=rows,
        weights=weights,
        offsets=offsets,
        size=n_records / n_rows,
        largest=family.max_count,
        largest_mean=family.slope_bound,
    )


@dataclass(frozen=True)
class CountSurrogate(WithPrior):
    """The likelihood of noisy sums, and the prior.

    Attributes
    ----------
    synthetic_design : CountPopulation
    curvature : CountCurvature
    prior : Prior
    scales : ndarray of shape (n_groups,)
        Prior scales at which the mode is looked for.
    centres : ndarray of shape (n_sums, n_rows)
        Logits of the population at the noisy sums' points.
    tables : ndarray of shape (n_sums, n_rows, n_nodes, 2)
        Of clipped means.
    origins : ndarray of shape (n_sums, length)
        ``f_k(u_k)``.
    values : ndarray of shape (n_sums, length)
        ``g``.
    blocks : ndarray of shape (length, n_sums, n_sums)
        ``B``, for each eigenvector.
    start : ndarray of shape (length,)
        Where to look for the mode.
    """

    synthetic_design: CountPopulation
    curvature: CountCurvature
    prior: Prior
    scales: np.ndarray
    centres: np.ndarray
    tables: np.ndarray
    origins: np.ndarray
    values: np.ndarray
    blocks: np.ndarray
    start: np.ndarray

    @property
    def n_scaled(self):
        """The number of coordinates, the first ones, that prior scales multiply."""
        return self.start.size

    @cached_property
    def _turned(self):
        """The noisy sums less those at their points, in the basis."""
        return (self.values - self.origins) @ self.curvature.basis

    def negative_log_likelihood(self, u):
        """The negative log likelihood, up to a constant, and its gradient, for (n_points, length)."""
        curvature, turn = self.curvature, self.curvature.basis
        f, slopes = self.synthetic_design.seen(u, self.centres, self.tables)
        changed = (f - self.origins) @ turn
        x = changed / curvature.values
        energy, by_r, _, by_x = conditioned(
            self._turned - changed,
            self.blocks[None],
            x,
            curvature.variance_factor,
            curvature.diagonal_variance,
        )
        by_changed = by_x / curvature.values - by_r
        return energy, self.synthetic_design.vjp(by_changed @ turn.T, slopes)

    def information(self, u):
        """The curvature of the potential at one point, taking variances to be fixed."""
        matrix = self.prior.precision(self.scales)
        curvature, turn = self.curvature, self.curvature.basis
        f, jacobians = self.synthetic_design.jacobians(u, self.centres, self.tables)
        changed = (f - self.origins) @ turn
        x = changed / curvature.values
        v = self.blocks + curvature.variance_factor[:, None, None] * (
            (x * curvature.variance_factor) @ x.T
        )
        v = v + np.einsum("ki,li,i->ikl", x, x, curvature.diagonal_variance)
        inverse = positive_inverse(v)[0]
        turned = np.einsum("kab,ai->kib", jacobians, turn)
        return matrix + np.einsum("kia,ikl,lib->ab", turned, inverse, turned, optimize=True)


# What is believed of coefficients, curvature and dispersion, given what has been released of counts.
#
#     noisy sums -> mode and prior scales -> dispersion -> mode again -> the next point and clip
#
# All of it follows from what was released: no record is read here.


# Number of the last noisy sums that the posterior is given: earlier ones say little.
_N_SUMS_USED = 4
# Number of the last noisy sums that the dispersion is given.
_N_SUMS_FOR_DISPERSION = 2
# The largest deviation of a logit that is allowed for where clips are chosen.
_LARGEST_LOGIT_SD = 1.5
# By how much noisy sums far from the mode may be off, relative to the change that they see.
_SHAPE_ERROR = 0.1
# Number of rows of the synthetic design that are used where results need not be exact.
_N_FEWER_ROWS = 200
# The same where results need be even less exact.
_N_FEWEST_ROWS = 64
# Least weight of a row.
_LEAST_WEIGHT = 1e-12
# Dispersions closer than this, on a scale of logarithms, share tables.
_DISPERSION_TOLERANCE = 0.01


class PosteriorState:
    """The state of the posterior; it changes with every release.

    Parameters
    ----------
    synthetic_design : CountPopulation
    unknown : ndarray of shape (length, length)
        Variances of the entries of its second moment, weighted.
    transform : ndarray of shape (length, length)
        ``W``.
    constant : float
        Of the intercept's column; 0 without one.
    prior : Prior
    counts : ndarray of shape (n,)
        Counts distributed as the table's, about.
    histogram : Margin
    start : ndarray of shape (length,)
        The first point.
    """

    settled: CountSurrogate

    def __init__(
        self, *, synthetic_design, unknown, transform, constant, prior, counts, histogram, start
    ):
        self.synthetic_design, self.unknown, self.transform = synthetic_design, unknown, transform
        self.constant, self.prior, self.counts = constant, prior, counts
        self.histogram, self.start = histogram, start
        self.scales, self.dispersion = prior.prior_mode, PRIOR_DISPERSION
        self.noisy_sums, self._tables = [], {}
        self._learn_curvature()

    def _learn_curvature(self):
        """Note the curvature at the next point."""
        curvature_of_design, rows = (
            self.synthetic_design.curvature(self.start),
            self.synthetic_design.moment,
        )
        factors = np.diag(curvature_of_design) / np.maximum(np.diag(rows), _LEAST_WEIGHT)
        self.curvature = curvature_given(
            curvature_of_design, self.unknown * np.outer(factors, factors)
        )

    def learn(self, rounds):
        """Find the mode given all that is released, and the dispersion that follows from it."""
        for turn in range(2):
            self.settled = find_mode_and_scales(self.surrogate(), rounds)
            self.start, self.scales = self.settled.start, self.settled.scales
            if turn == 0:
                self.dispersion = self._dispersion()

    def _deviations(self):
        """The posterior deviations of the synthetic design's logits."""
        covariance, rows = inv(self.settled.information(self.start)), self.synthetic_design.rows
        variances = np.einsum("ij,jk,ik->i", rows, covariance, rows)
        return np.minimum(np.sqrt(np.maximum(variances, 0.0)), _LARGEST_LOGIT_SD)

    def _dispersion(self):
        synthetic_design, margins = self.synthetic_design, [self.histogram]
        # Post-processing.
        normal = np.random.default_rng(2).standard_normal(len(synthetic_design.rows))
        logits = synthetic_design.logits(self.start) + normal * self._deviations()
        step = max(1, len(logits) // _N_FEWEST_ROWS)
        some = np.argsort(logits)[step // 2 :: step]  # Their law is that of all.
        n = synthetic_design.size * len(synthetic_design.rows)
        for noisy_sum in self.noisy_sums[-_N_SUMS_FOR_DISPERSION:]:
            along = None
            if self.constant:
                w = inv(self.transform)[:, -1] / self.constant
                along = w @ noisy_sum.value / n, float(np.linalg.norm(w)) * noisy_sum.noise / n
            centres = noisy_sum.centre(synthetic_design.logits(noisy_sum.point))[some]
            margins.append(
                margin_of_sum(
                    noisy_sum,
                    synthetic_design.weights[some],
                    centres,
                    synthetic_design.largest,
                    along,
                )
            )
        return dispersion_given(margins, logits[some], n, bool(self.constant))

    def shortfall(self):
        """The share by which the last noisy sum's squares fall short of Poisson's law; see `shortfall`."""
        noisy_sum, synthetic_design = self.noisy_sums[-1], self.synthetic_design
        centres = noisy_sum.centre(synthetic_design.logits(noisy_sum.point))
        logits = synthetic_design.logits(self.start)
        return shortfall(noisy_sum, centres, logits, self._deviations(), synthetic_design.largest)

    def excess_zeros(self):
        """Zeros beyond those of the law of counts, in deviations; see `dispersion.excess_zeros`."""
        n = self.synthetic_design.size * len(self.synthetic_design.rows)
        return excess_zeros(self.histogram, self.some_logits(), n, bool(self.constant))

    def some_logits(self):
        """Logits at the mode of some rows, whose law is that of all."""
        logits = np.sort(self.synthetic_design.logits(self.start))
        step = max(1, len(logits) // _N_FEWEST_ROWS)
        return logits[step // 2 :: step]

    def clip(self, noise_per_clip):
        """The clip for the next noisy sum.

        Parameters
        ----------
        noise_per_clip : float
            Deviation of its noise, for a clip of 1.
        """
        synthetic_design, largest = self.synthetic_design, self.synthetic_design.largest
        n = synthetic_design.size * len(synthetic_design.rows)
        if not self.noisy_sums:
            means = np.full(self.counts.size, self.counts.mean())
            return best_count_clip(self.counts, means, means, noise_per_clip, n, largest)
        # Post-processing.
        generator = np.random.default_rng(0)
        counts, means = synthetic_design.simulated(
            self.start, self._deviations(), self.dispersion.value, generator
        )
        centres = np.broadcast_to(synthetic_design.means(self.start), counts.shape)
        return best_count_clip(
            counts.ravel(),
            means.ravel(),
            centres.ravel(),
            noise_per_clip,
            n,
            largest,
            lambda clip: self._leaning(clip, centres[0]),
        )

    def _leaning(self, clip, centres):
        """The error of one record's noisy sum, because the dispersion is not fully known."""
        synthetic_design = self.synthetic_design
        some = slice(None, None, max(1, len(synthetic_design.rows) // _N_FEWER_ROWS))
        rows, weights = synthetic_design.rows[some], synthetic_design.weights[some]
        means = np.exp(np.minimum(synthetic_design.logits(self.start)[some], 30.0))
        ends = [
            clipped_count(means, centres[some], clip, value, synthetic_design.largest)[0]
            for value in self.dispersion.ends
        ]
        return 0.5 * synthetic_design.share * (weights * (ends[1] - ends[0])) @ rows / len(rows)

    def surrogate(self):
        """The posterior given the last noisy sums."""
        noisy_sums, synthetic_design = self.noisy_sums[-_N_SUMS_USED:], self.synthetic_design
        centres = np.array([synthetic_design.logits(noisy_sum.point) for noisy_sum in noisy_sums])
        tables = np.array([self._table(noisy_sum) for noisy_sum in noisy_sums])
        origins = [
            synthetic_design.seen(noisy_sum.point[None], centre[None], table[None])[0][0, 0]
            for noisy_sum, centre, table in zip(noisy_sums, centres, tables, strict=True)
        ]
        scores, _ = synthetic_design.seen(self.start[None], centres, tables)
        away = (scores[0] - origins) @ self.curvature.basis
        blocks, centre = self._blocks(noisy_sums), np.arange(len(noisy_sums))
        blocks[:, centre, centre] += (_SHAPE_ERROR * away.T) ** 2
        return CountSurrogate(
            synthetic_design=synthetic_design,
            curvature=self.curvature,
            prior=self.prior,
            scales=self.scales,
            centres=centres,
            tables=tables,
            origins=np.array(origins),
            values=np.array([noisy_sum.value for noisy_sum in noisy_sums]),
            blocks=blocks,
            start=self.start,
        )

    def _table(self, noisy_sum):
        """The table of a noisy sum's clipped means, which is kept as long as dispersions are close."""
        key = (
            noisy_sum.clip,
            noisy_sum.noise,
            round(math.log(self.dispersion.value) / _DISPERSION_TOLERANCE),
        )
        if key not in self._tables:
            synthetic_design = self.synthetic_design
            self._tables[key] = tabulated(
                synthetic_design.logits(noisy_sum.point),
                noisy_sum.centre(synthetic_design.logits(noisy_sum.point)),
                noisy_sum.clip,
                math.exp(key[-1] * _DISPERSION_TOLERANCE),
                synthetic_design.largest,
            )
        return self._tables[key]

    def _blocks(self, noisy_sums):
        """The covariances of noisy sums along each eigenvector, noise included."""
        synthetic_design, value = self.synthetic_design, self.dispersion.value
        # Post-processing.
        generator = np.random.default_rng(1)
        counts, means = synthetic_design.simulated(self.start, 0.0, value, generator)
        residuals, leanings = [], []
        for noisy_sum in noisy_sums:
            centres = noisy_sum.centre(synthetic_design.logits(noisy_sum.point))
            mean, _ = clipped_count(
                means[0], centres, noisy_sum.clip, value, synthetic_design.largest
            )
            residuals.append(np.clip(counts - centres, -noisy_sum.clip, noisy_sum.clip) - mean)
            leanings.append(self._leaning(noisy_sum.clip, centres) @ self.curvature.basis)
        remaining = np.array(residuals)
        covariances = np.einsum("krp,lrp->pkl", remaining, remaining) / len(counts)
        turned = (
            synthetic_design.weights[:, None] * (synthetic_design.rows @ self.curvature.basis)
        ) ** 2
        blocks = (
            synthetic_design.size
            * synthetic_design.share
            * np.tensordot(turned, covariances, axes=(0, 0))
        )
        leanings = synthetic_design.size * len(synthetic_design.rows) * np.array(leanings)
        blocks += np.einsum("ki,li->ikl", leanings, leanings)
        indices = np.arange(len(noisy_sums))
        blocks[:, indices, indices] += np.array([noisy_sum.noise**2 for noisy_sum in noisy_sums])
        return blocks

    def deviations_without_noise(self):
        """The deviations that coefficients would have without noise, as far as that is known."""
        synthetic_design = self.synthetic_design
        # Without privacy records count fully, and no mean is cut.
        factors = synthetic_design.means(self.start) * synthetic_design.size / self.dispersion.value
        precision = (synthetic_design.rows * factors[:, None]).T @ synthetic_design.rows
        precision += self.prior.precision(self.scales)
        covariance = self.transform @ inv(precision) @ self.transform.T
        return np.sqrt(np.diag(covariance))


# Draws of coefficients of counts: those of a surrogate, in the user's coordinates, ``theta = W u``.


@dataclass(frozen=True)
class CountPosterior(HMCPosterior):
    """A posterior given what was released.

    Attributes
    ----------
    surrogate : CountSurrogate
    transform : ndarray of shape (length, length)
        ``W``.
    dispersion : Dispersion
    deviations : ndarray of shape (length,)
        Those that coefficients would have without noise, as far as that is known.
    """

    surrogate: CountSurrogate
    transform: np.ndarray
    dispersion: Dispersion
    deviations: np.ndarray

    def draw(self, n_draws, random):
        """Draws of shape (n_draws, length).

        Parameters
        ----------
        n_draws : int
        random : Generator or RandomState
            It need not be secret.
        """
        u = draw(self.surrogate, n_draws, chain_seed(random), self._chains)
        return u @ self.transform.T

    def prior_predictive_p_values(self):
        """1: what is released of counts is not compared with a prior."""
        return 1.0

    def deviations_without_privacy(self):
        """The deviations that coefficients would have without noise, as far as that is known."""
        return self.deviations
