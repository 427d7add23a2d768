"""The design of a table given a released second moment: columns, correlations, and whitening coordinates.

    A = sum_i (x_i, c) (x_i, c)^T + noise,      c public

    C~ = A_xx / n - m m^T,      m, C_jj given A_xc / (n c) and A_jj / n, see `columns`

Axes of a table mean something, and most noise is in the many entries off the diagonal. A priori
correlations, or these over some power of the columns' deviations because those of rare columns are small,
follow a mixture of normal laws around 0 of many deviations, whose weights are estimated from all of them
[1]_: a few of a table are large. ``C`` has the posterior means, and eigenvalues ``l`` of the correlations,
known up to a variance ``s^2``, become the mode of ``N(x; l, s^2)`` times ``x``,

    x = (l + sqrt(l^2 + 4 s^2)) / 2,

because they are positive and the least are those that noise has made small. At small budgets ``C`` is nearly
diagonal, at large ones it is ``C~``.

References
----------
.. [1] M. Stephens, "False discovery rates: a new deal", Biostatistics 18(2), 2017.
.. [2] A. Gelman, "Scaling regression inputs by dividing by two standard deviations", Statistics in Medicine
   27(15), 2008.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtri, softmax
from scipy.stats import gamma

from ..._linalg import eigh, eigvalsh, inv
from ...models import MOMENT_ROWS
from ...privacy.rounding import UNIT_ROUNDOFF, covered_records
from ..base import Diagnostics
from .plan import INVISIBLE, half_width

# Means and mean squares of columns, given noisy ones of both.
#
#     m'_j = m_j + N(0, t^2),      s'_j = s_j + N(0, e^2),      s_j ~ Gamma(shape, usual) on a grid
#
#     m_j | s_j  ~  sum_k w_k N(0, k s_j)  +  sum_v w_v N(s_j / v, (s_j / 10 v)^2)
#                   +  sum_r w_r N(r s_j^(1/2), s_j / 100)
#
# The first parts are numbers around zero. The second are indicators: a column that is ``v`` or 0 has
# a mean of ``s / v``, so that two noisy numbers say the same. The third are numbers at one side of their
# bounds: where columns have this in common, those that noise drowns have it, too. Weights ``w`` are the
# likeliest ones, and shapes count by their evidence, which is how a table says what its columns are. If
# most hardly vary, the shape is small, and columns that noise drowns are taken to vary little, too; if they
# vary alike, it is large. Each point of the grid stands for a normal law as wide as its cell, so that
# nothing is lost where noise is smaller. Of a number, what indicators vary by says nothing (`Numbers`).


# Grid for the square of the mean over the mean square of numeric columns.
_NUMERIC_GRID = (1e-4, 0.01, 0.1, 1.0)
# Grid for the value of binary columns.
_VALUES = np.geomspace(0.01, 1.0, 26)
# Means over root mean squares of numeric columns that are far from 0.
_MEANS_OVER_ROOTS = (-0.95, -0.85, -0.7, -0.5, 0.5, 0.7, 0.85, 0.95)
# Which parts, in this order, are no indicators.
_IS_NUMBER = np.repeat(
    [True, False, True], [len(_NUMERIC_GRID), len(_VALUES), len(_MEANS_OVER_ROOTS)]
)
# Relative tolerance of both.
_VARIES = 0.1
# Shapes of the gamma law of mean squares; 1 is exponential.
_SHAPES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0)
# Number of points of the grid of mean squares.
_N_POINTS = 400
# Prior median of the mean square of rows, over the largest, its log-sd, and the least.
_USUAL_TRACE = 0.1
_LOG_SD_TRACE = 1.0
_LEAST_TRACE = 1e-9
# Deviations of noise around a released trace within which it is looked for.
_ENDS = 8.0
# Least mean square, relative to the mean of all.
_LEAST_SQUARE = 1e-3
# Least density of a column.
_LEAST_DENSITY = 1e-300
# Share of indicators, and of other columns, of a table, at least.
_LEAST_OF_KIND = 0.02
# Dirichlet pseudo-count of the first mixture component.
_MIXTURE_COUNT = 1.0
# Number of EM iterations.
_EM_ITERATIONS = 30


class Numbers(NamedTuple):
    """What columns are if they are no indicators, arrays of shape (n_features,).

    Attributes
    ----------
    probability : ndarray
        Of being none, if as many columns are indicators as are not, and of seeing what is usual.
    variances, uncertainty : ndarray
        Posterior means and variances of ``s - m^2`` given that a column is none.
    usual : float
        What is usual of them: the mean over columns, that of an indicator being a quarter of its squared
        value, so that effects for two deviations are as large as for the presence of something [2]_.
    """

    probability: np.ndarray
    variances: np.ndarray
    uncertainty: np.ndarray
    usual: float


class Columns(NamedTuple):
    """The posterior of columns' moments, arrays of shape (n_features,).

    Attributes
    ----------
    means, squares, variances : ndarray
        Posterior means of ``m``, ``s`` and ``s - m^2``.
    mean_uncertainty, uncertainty : ndarray
        Posterior variances of ``m`` and of ``s - m^2``.
    numbers : Numbers
    """

    means: np.ndarray
    squares: np.ndarray
    variances: np.ndarray
    mean_uncertainty: np.ndarray
    uncertainty: np.ndarray
    numbers: Numbers


def estimate_columns(means, squares, of_means, noise):
    """The `Columns`.

    Parameters
    ----------
    means, squares : ndarray of shape (n_features,)
        ``m'`` and ``s'``, in a unit in which no mean square exceeds 1.
    of_means, noise : float
        ``t`` and ``e``.
    """
    prior_value = _trace(float(squares.sum()), noise * math.sqrt(squares.size)) / squares.size
    top = max(float(squares.max()) + 5.0 * noise, prior_value)
    grid = np.geomspace(_LEAST_SQUARE * prior_value, top, _N_POINTS)
    cells = np.gradient(grid) ** 2 / 12.0
    centres, spreads = _parts(grid)
    # Arrays are of shape (n_parts, n_features, n_points) from here on.
    off, off_squares = means[:, None] - centres[:, None], squares[:, None] - grid
    variances, of_cells = of_means**2 + spreads[:, None], noise**2 + cells
    logs = -0.5 * (np.log(variances) + off**2 / variances)
    logs -= 0.5 * (np.log(of_cells) + off_squares**2 / of_cells)
    # Masses of gamma laws on a grid that is even in logarithms, a row for each shape.
    shapes = np.array(_SHAPES)[:, None]
    priors = gamma.logpdf(grid, shapes, scale=prior_value / shapes) + np.log(grid)
    priors -= logsumexp(priors, axis=1, keepdims=True)
    logs += priors[0]
    joint = np.exp(logs - logs.max(axis=(0, 2))[:, None])
    priors = np.exp(priors - priors[0])
    likelihood = np.moveaxis(joint @ priors.T, 2, 0)
    weights = mixture_weights(likelihood, _MIXTURE_COUNT, _EM_ITERATIONS)
    of_parts, joint = joint, _posterior(joint, likelihood, weights, priors, np.ones(squares.size))
    share = spreads[:, None] / variances
    values, unknown = centres[:, None] + share * off, of_means**2 * share
    means_of_columns, mean_uncertainty = _mean_and_variance(joint, values, unknown)
    share = cells / of_cells
    # Noise may have left less than nothing.
    of_points = np.maximum(grid + share * off_squares, 0.5 * grid)
    # Of a normal mean, the square has a variance, too.
    variances, unknown = (
        of_points - values**2 - unknown,
        share * noise**2 + 2.0 * unknown * (2.0 * values**2 + unknown),
    )
    squares = np.sum(joint.sum(axis=0) * of_points, axis=1)
    # If it is no indicator, what indicators vary by says nothing of a column.
    share = joint[_IS_NUMBER].sum(axis=(0, 2))
    weights = weights[:, _IS_NUMBER] / weights[:, _IS_NUMBER].sum(axis=1, keepdims=True)
    of_numbers = _posterior(of_parts[_IS_NUMBER], likelihood[:, _IS_NUMBER], weights, priors, share)
    known, doubts = _mean_and_variance(of_numbers, variances[_IS_NUMBER], unknown[_IS_NUMBER])
    variances, uncertainty = _mean_and_variance(joint, variances, unknown)
    is_seen = variances**4 / (variances**4 + (INVISIBLE * noise) ** 4)
    of_values = joint[~_IS_NUMBER].sum(axis=2).T @ _VALUES**2
    numbers = _numbers(share, known, doubts, of_values, is_seen)
    return Columns(means_of_columns, squares, variances, mean_uncertainty, uncertainty, numbers)


def _posterior(of_parts, likelihood, weights, priors, counts):
    """Probabilities of parts and points of every column, shapes of the law counting by their evidence.

    Parameters
    ----------
    of_parts : ndarray of shape (n_parts, n_features, n_points)
        Likelihoods.
    likelihood : ndarray of shape (n_shapes, n_parts, n_features)
        The same for every shape, points integrated out.
    weights : ndarray of shape (n_shapes, n_parts, 1)
    priors : ndarray of shape (n_shapes, n_points)
    counts : ndarray of shape (n_features,)
        How much columns count in the evidence.
    """
    densities = _density(weights * likelihood)
    of_shapes = softmax(np.log(densities) @ counts, axis=0)[..., None] / densities
    return of_parts * np.einsum("spf,sx->pfx", of_shapes * weights, priors)


def _numbers(share, variances, uncertainty, squares, is_seen):
    """The `Numbers` of a table.

    Parameters
    ----------
    share : ndarray of shape (n_features,)
        Probabilities of being one.
    variances, uncertainty : ndarray of shape (n_features,)
    squares : ndarray of shape (n_features,)
        Means of the squared value of an indicator, 0 if a column is none.
    is_seen : ndarray of shape (n_features,)
        Whether noise leaves how much a column varies, between 0 and 1.
    """
    of_columns = share * variances + squares / 4.0
    usual = float(of_columns.mean())
    # Tables mix both: what others are says little of one of which noise hides what it is.
    of_table = np.clip(share.mean(), _LEAST_OF_KIND, 1.0 - _LEAST_OF_KIND)
    odds, others = share * (1.0 - of_table), (1.0 - share) * of_table
    # Where noise hides what is usual, none is known to be another.
    probability = odds / (odds + others) * (of_columns @ is_seen) / of_columns.sum()
    return Numbers(probability, variances, uncertainty, usual)


def _trace(noisy, noise):
    """The mean square of rows, of which 1 is the largest: its posterior mean on a log scale.

    Overstating it costs predictions more than understating it, as levels would offset effects that are not
    there.
    """
    low, high = np.clip([noisy - _ENDS * noise, noisy + _ENDS * noise], _LEAST_TRACE, 1.0)
    grid = np.linspace(low, high, _N_POINTS)
    logs = -0.5 * ((grid - noisy) / noise) ** 2 - np.log(grid)
    logs -= 0.5 * (np.log(grid / _USUAL_TRACE) / _LOG_SD_TRACE) ** 2
    return float(np.exp(softmax(logs) @ np.log(grid)))


def _mean_and_variance(joint, values, variances):
    """Moments over parts and points of numbers with a mean and a variance at each."""
    mean = np.sum(joint * values, axis=(0, 2))
    variances = np.sum(joint * ((values - mean[:, None]) ** 2 + variances), axis=(0, 2))
    return mean, variances


def _parts(grid):
    """Means and variances of the parts at mean squares, of shape (n_parts, n_points)."""
    numbers, roots = np.outer(_NUMERIC_GRID, grid), np.sqrt(grid)
    # No mean's square is more than the mean square.
    indicators = np.minimum(grid / _VALUES[:, None], roots)
    moved = np.outer(_MEANS_OVER_ROOTS, roots)
    centres = np.concatenate([np.zeros_like(numbers), indicators, moved])
    spreads = [
        numbers,
        (_VARIES * indicators) ** 2,
        np.tile((_VARIES * roots) ** 2, (len(moved), 1)),
    ]
    return centres, np.concatenate(spreads)


def mixture_weights(likelihood, worth, rounds):
    """The likeliest weights of the parts of a mixture, of shape (..., n_parts, 1).

    Parameters
    ----------
    likelihood : ndarray of shape (..., n_parts, n)
        Of each number under each part.
    worth : float
        How many numbers the first part is worth beforehand.
    rounds : int
        Of expectation and maximisation.
    """
    n_parts = likelihood.shape[-2]
    weights = np.full((*likelihood.shape[:-2], n_parts, 1), 1.0 / n_parts)
    for _ in range(rounds):
        odds = weights * likelihood
        weights = (odds / _density(odds)).sum(axis=-1, keepdims=True)
        weights[..., 0, :] += worth
        weights /= weights.sum(axis=-2, keepdims=True)
    return weights


def _density(odds):
    """Sums over parts; that of a column that is far larger than others may be no double for some shape."""
    return np.maximum(odds.sum(axis=-2, keepdims=True), _LEAST_DENSITY)


# Coordinates ``theta = W u`` in which rows say about as much in all directions.
#
#     W = (A' / n + floor)^(-1/2),    C^2 = r tr(W^T A' W / n),     r the plan's `row_clipping`
#
# Labels with an intercept have ``z = (W_x^T (x - m), 1)``, ``W_x`` being that of the covariance.
# The floor is a few deviations of the noise on an entry of ``A``, or where the prior decides: a
# direction below it would cost all others, through ``C``, what it says.


# Amount that is added to second moments before they are whitened, in deviations of their noise.
_NOISE_FLOOR = 3.0
# The same, at least, over the prior precision.
_PRIOR_FLOOR = 4.0
# Rounding of a weight of a record, relative to it, at most: see Proposition 37.
_LARGEST_SHARE_OF_ROUNDING = 1e-2


@dataclass(frozen=True)
class Coordinates:
    """Coordinates, and a norm beyond which records count less.

    Attributes
    ----------
    transform : ndarray of shape (length, length)
        ``W``.
    norm : float
        ``C``.
    row_norm : float
        Of rows as they were.
    """

    transform: np.ndarray
    norm: float
    row_norm: float

    def logit_bound(self, family, point, theta):
        """The bound on logits at a point, which is ``theta`` in the coordinates of the rows.

        With two classes, the logit of a record of norm ``C`` along the point; otherwise the most by which
        logits of two classes differ.
        """
        if family.n_blocks == 1:
            return self.norm * float(np.linalg.norm(point))
        of_classes = family.contrasts @ theta
        apart = of_classes[:, None] - of_classes[None]
        return self.row_norm * float(np.linalg.norm(apart, axis=2).max())

    def inflation(self, plan, theta, power=1):
        """The factor by which rounding can enlarge the difference of two tables' sums at ``theta``.

        Gradients are summed before they are transformed, and rows rounded when they are: relative to ``C`` by
        as much as ``W`` can enlarge a row, for every record. Curvatures that are summed before, too, are
        relative to ``C^2``, which is a ``power`` of 2.
        """
        return self.inflation_within(plan, self.row_norm * float(np.linalg.norm(theta)), power)

    def inflation_within(self, plan, logit_bound, power=1):
        """`inflation` where no logit exceeds ``logit_bound`` times the bound on residuals."""
        length = len(self.transform)
        n = covered_records(plan.n_samples, plan.budget.neighboring_relation)
        growth = max(1.0, float(np.linalg.norm(self.transform)) * self.row_norm / self.norm)
        chain = MOMENT_ROWS + n / MOMENT_ROWS
        operations = chain + (length + 8 * plan.bounds.n_blocks) * (16.0 + logit_bound)
        return 1.0 + 4.0 * UNIT_ROUNDOFF * n * growth**power * operations


def coordinates_for(design, noise_scale, bounds, n_samples, clipping, noise_floor=_NOISE_FLOOR):
    """The `Coordinates` for a `Design`, known through noise of a deviation."""
    transform, mean_square = _whitening(
        design.second_moment, noise_scale, bounds, n_samples, noise_floor
    )
    norm = math.sqrt(clipping * max(1.0, mean_square))
    return Coordinates(np.ascontiguousarray(transform), norm, bounds.row_norm)


def centred_coordinates(design, noise_scale, bounds, n_samples, clipping):
    """The same with an intercept, ``z = (W^T (x - m), 1)``: where noise hides slopes, a level is still seen.

    It is `coordinates_for` without an intercept, and where a constant is so small beside the norm of rows
    that the condition of Proposition 37 would not hold.
    """
    given = design, noise_scale, bounds, n_samples, clipping
    if not bounds.constant:
        return coordinates_for(*given)
    mean, constant = design.mean[:-1], design.mean[-1]
    moment = design.covariance[:-1, :-1] + design.mean_variance * np.eye(len(mean))
    of_columns, mean_square = _whitening(moment, noise_scale, bounds, n_samples)
    transform = np.zeros_like(design.covariance)
    transform[:-1, :-1] = of_columns
    transform[-1] = np.append(-mean @ of_columns, 1.0) / constant
    norm = math.sqrt(clipping * (mean_square + 1.0))
    growth = float(np.linalg.norm(transform)) * bounds.row_norm / norm
    if 3.0 * (len(transform) + 2) * UNIT_ROUNDOFF * growth > _LARGEST_SHARE_OF_ROUNDING:
        return coordinates_for(*given)
    return Coordinates(transform, norm, bounds.row_norm)


def _whitening(moment, noise_scale, bounds, n_samples, noise_floor=_NOISE_FLOOR):
    """A transform of rows of a second moment, and the mean square of such rows."""
    noise = max(noise_floor * noise_scale, _PRIOR_FLOOR * bounds.prior_precision[0])
    values, vectors = eigh(moment)
    values = np.maximum(values, 0.0)
    floored = values + noise / n_samples
    return vectors / np.sqrt(floored), float(np.sum(values / floored))


# Grid of prior variances for correlations.
_CORRELATION_VARIANCES = np.geomspace(1e-5, 1.0, 9)[:, None]
# Exponents of the shrinkage of correlations with columns' variances.
_POWERS = np.array([0.0, 0.5, 1.0])[:, None, None]
# Dirichlet pseudo-count of the least prior variance.
_LEAST_VARIANCE_COUNT = 3.0
# Prior variance of correlations of columns that hardly vary where noise hides how much, whatever others have.
_HIDDEN_CORRELATION_VARIANCE = 0.25
# Number of such columns with which another is taken to be correlated.
_N_CORRELATED = 2.0
# Variance of such columns, over the usual one, at most.
_SMALL_VARIANCE = 0.5
# Columns are hidden from this inverse of the relative deviation of a variance on, and partly before.
_DOUBT_FACTOR = 2.0
# Number of EM iterations for the weights of prior variances.
_WEIGHT_ITERATIONS = 49
# Least eigenvalue of the correlations.
_LEAST_EIGENVALUE = 1e-4
# Least variance of a column, relative to the deviation with which it is known.
_LEAST_VARIANCE = 0.1
# Least variance of a column, relative to its mean square.
_LEAST_OF_SQUARE = 1e-9
# z-score from which on a column is not called binary.
_NOT_BINARY_Z_SCORE = 2.5
# z-score from which on the sum of a column is called non-zero.
_NONZERO_SUM_Z_SCORE = 8.0
# Variance of a column that uses its bounds, over the square of half their width.
USUAL_VARIANCE = 1.0 / 9.0
# Probability with which noise makes a table have a hidden column where all columns use their bounds, or are
# indicators.
_FALSE_ALARMS = 0.01
# Deviations of noise from 0 of the mean of a column that is seen to be an indicator.
_INDICATED = 3.0
# Rounding of moments without noise, relative to them.
_ROUNDING_SHARE = 1e-9
# Deviations of noise from 0 of a variance beyond which it is seen how much a column varies.
_SEEN = 2.0


@dataclass(frozen=True)
class Design:
    """The first two moments of rows, their constant column included.

    Attributes
    ----------
    mean : ndarray of shape (length,)
    covariance : ndarray of shape (length, length)
        Zero for the constant column.
    uncertainty : ndarray of shape (length, length)
        Variances of the entries of the covariance given what was released, about.
    mean_variance : float
        Those of the mean.
    hidden : ndarray of shape (length, length)
        Those of covariances of columns that hardly vary, of which other columns say nothing; 0 elsewhere.
    numbers : Numbers or None
        What columns are if they are no indicators; None if that is not known.
    """

    mean: np.ndarray
    covariance: np.ndarray
    uncertainty: np.ndarray | float = 0.0
    mean_variance: float = 0.0
    hidden: np.ndarray | float = 0.0
    numbers: Numbers | None = None

    @property
    def second_moment(self):
        """Mean of ``x x^T``."""
        return self.covariance + np.outer(self.mean, self.mean)


def number_of_records(moment, noise_scale, constant, public_size):
    """The approximate number of records of a table whose public size is another.

    A normal posterior mean: the last entry of ``A`` is ``n c^2``, the public size is taken to be off by half.
    """
    prior, noise = (public_size / 2.0) ** 2, (noise_scale / constant**2) ** 2
    n_records = (moment[-1, -1] / constant**2 * prior + public_size * noise) / (prior + noise)
    return min(max(n_records, 1.0), 10.0 * public_size)


def estimate_design(moment, noise_scale, constant, data_norm, n_samples):
    """The `Design` given a released second moment, without the column that was added for it.

    Parameters
    ----------
    moment : ndarray of shape (n_features + 1, n_features + 1)
        With the constant in its last row and column.
    noise_scale : float
        Deviation of the noise on its diagonal; elsewhere ``1 / sqrt(2)`` of it.
    constant : float
        ``c``.
    data_norm : float
        Of rows without it.
    n_samples : int

    Returns
    -------
    design : Design
        Of rows without the constant.
    """
    unit = data_norm**2  # Squares of squares of any unit might not be doubles.
    noise = noise_scale / n_samples / unit
    of_mean = noise * data_norm / (math.sqrt(2.0) * constant)
    means = moment[-1, :-1] / (n_samples * constant * data_norm)
    second = moment[:-1, :-1] / n_samples / unit
    columns = estimate_columns(means, np.diag(second), of_mean, noise)
    mean = columns.means * min(1.0, 1.0 / max(float(np.linalg.norm(columns.means)), 1e-300))
    deviations = np.sqrt(columns.uncertainty)
    variances = np.maximum(columns.variances, _LEAST_VARIANCE * deviations)
    variances = np.maximum(variances, _LEAST_OF_SQUARE * columns.squares)
    covariance, uncertainty = _shrunk(second - np.outer(mean, mean), noise, variances)
    # Other columns say nothing of how columns vary together whose variances noise hides.
    doubts = np.minimum(_DOUBT_FACTOR * deviations / variances, 1.0)
    numbers = columns.numbers
    is_small = variances < _SMALL_VARIANCE * numbers.usual
    units = (variances + deviations) * np.where(is_small, doubts, 0.0) ** 2
    # A column is correlated with a few others: more doubts than that are of matrices with large eigenvalues,
    # which no table of many columns has.
    few = _N_CORRELATED / max(np.sum(np.where(is_small, doubts, 0.0)), _N_CORRELATED)
    hidden = few * _HIDDEN_CORRELATION_VARIANCE * np.outer(units, units)
    np.fill_diagonal(hidden, 0.0)
    hidden *= noise**2 / np.maximum(2.0 * hidden + noise**2, 1e-300)
    uncertainty = np.maximum(uncertainty, hidden)
    np.fill_diagonal(uncertainty, columns.uncertainty)
    return Design(
        data_norm * mean,
        unit * covariance,
        unit**2 * uncertainty,
        unit * float(columns.mean_uncertainty.mean()),
        unit**2 * hidden,
        numbers._replace(
            variances=unit * numbers.variances,
            uncertainty=unit**2 * numbers.uncertainty,
            usual=unit * numbers.usual,
        ),
    )


def share_of_a_direction(moment, noise_scale, constant, data_norm, n_samples, is_exact=True):
    """The share of ``n data_norm^2``, the largest trace, along one direction, from below.

    Long rows of columns that are not scaled are clipped to nearly one vector, or its opposite. A single
    column has only one direction: there it is the squared mean that counts. Two deviations of the noise are
    taken off, and what noise adds to a largest eigenvalue ``l``, ``length noise^2 / (2 l)``. It is 0 where
    noise alone may have a large eigenvalue.

    Parameters
    ----------
    moment, noise_scale, constant, data_norm
        As for `estimate_design`.
    n_samples : int
        Public size.
    is_exact : bool
        Whether it is the size; otherwise that is estimated from ``moment``, from above.

    Returns
    -------
    share : float
        In [0, 1].
    """
    n_samples = _at_most(moment, noise_scale, constant, n_samples, is_exact)
    length, largest_trace = len(moment) - 1, n_samples * data_norm**2
    if noise_scale * (2.0 + math.sqrt(2.0 * length)) > largest_trace / 2.0:
        return 0.0  # The largest eigenvalue may be that of the noise.
    if length == 1:
        most = abs(moment[0, 1]) - math.sqrt(2.0) * noise_scale
        share = max(0.0, most / (n_samples * constant * data_norm)) ** 2
    else:
        largest = max(float(eigvalsh(moment[:-1, :-1])[-1]), 1e-300)
        added = (
            0.5 * length * (noise_scale / largest_trace) ** 2 / max(largest / largest_trace, 1e-300)
        )
        share = (largest - 2.0 * noise_scale) / largest_trace - added
    return min(max(share, 0.0), 1.0)


def share_of_norm(moment, noise_scale, constant, data_norm, n_samples, is_exact=True):
    """The share of ``n data_norm^2`` that the trace is, from below: 1 where all rows have this norm.

    Two deviations of the noise are taken off. It is 0 if a column is binary, since a row that is cut has no
    entry of 1: the squares of such a column are its values, or 1, as far as noise can tell.

    Parameters
    ----------
    moment, noise_scale, constant, data_norm, n_samples, is_exact
        As for `share_of_a_direction`.

    Returns
    -------
    share : float
        In [0, 1].
    """
    n_samples = _at_most(moment, noise_scale, constant, n_samples, is_exact)
    squares, sums = np.diag(moment)[:-1], moment[-1, :-1] / constant
    n_seen, of_sums = moment[-1, -1] / constant**2, noise_scale * math.sqrt(0.5) / constant
    of_ones = np.abs(squares - n_seen) < _NOT_BINARY_Z_SCORE * noise_scale * math.hypot(
        1.0, 1.0 / constant**2
    )
    of_values = np.abs(squares - sums) < _NOT_BINARY_Z_SCORE * math.hypot(noise_scale, of_sums)
    if np.any(of_ones | (of_values & (sums > _NONZERO_SUM_Z_SCORE * of_sums))):
        return 0.0
    noise = 2.0 * noise_scale * math.sqrt(squares.size)
    return min(max((float(squares.sum()) - noise) / (n_samples * data_norm**2), 0.0), 1.0)


def moment_diagnostics(moment, noise_scale, constant, data_norm, n_samples, is_exact=True):
    """Diagnostics of rows from a noisy second moment.

    Parameters
    ----------
    moment, noise_scale, constant, data_norm, n_samples, is_exact
        As for `share_of_a_direction`.

    Returns
    -------
    diagnostics : Diagnostics
        Shares of the largest possible second moment, along one direction and of the trace, the columns
        that `hidden_columns` finds, and the deviation below which noise hides how much a column around 0
        varies, infinite if it is that of no column within usual bounds.
    """
    known = moment, noise_scale, constant
    n_records = n_samples if is_exact else number_of_records(*known, n_samples)
    hidden, candidates, unseen = hidden_columns(*known, data_norm, n_records)
    deviation = math.sqrt(_SEEN * noise_scale / n_records)
    is_within_bounds = deviation < half_width(data_norm, len(moment) - 1)
    return Diagnostics(
        share_of_a_direction=share_of_a_direction(*known, data_norm, n_samples, is_exact),
        share_of_norm=share_of_norm(*known, data_norm, n_samples, is_exact),
        hidden_columns=hidden,
        hidden_or_rare_columns=candidates,
        unseen_columns=unseen,
        unseen_deviation=deviation if is_within_bounds else math.inf,
    )


def hidden_columns(moment, noise_scale, constant, data_norm, n_records):
    """Indices of columns that hardly vary, surely and perhaps, and of all whose variance noise hides.

    Those that hardly vary have a variance within 1.5 deviations of its noise from 0, and below that of a
    column that uses its bounds by as many deviations as a table exceeds by chance once in a hundred times.
    Indicators of rare events have such a variance, too, but intervals that cover: columns whose moments may
    be those of an indicator, ``E[x^2] = E[x]`` (0 and 1) or ``E[x^2] = 1`` (-1 and 1), are left out where a
    table shows an indicator; elsewhere the latter are named, as columns at an end of their bounds, and the
    former are candidates. Of others whose variance is within two deviations of 0 nothing tells whether they
    use their bounds.

    Parameters
    ----------
    moment, noise_scale, constant, data_norm
        As for `estimate_design`.
    n_records : float

    Returns
    -------
    hidden, candidates, unseen : ndarray of int
        Candidates may be indicators of rare events. The last are all whose variance noise hides.
    """
    length = len(moment) - 1
    noise = noise_scale / n_records
    of_means = noise / (math.sqrt(2.0) * constant)
    means, squares = moment[-1, :-1] / (n_records * constant), np.diag(moment)[:-1] / n_records
    variances = squares - means**2 + of_means**2
    deviations = np.hypot(noise, 2.0 * means * of_means)
    prior_value = USUAL_VARIANCE * half_width(data_norm, length) ** 2
    quantile = float(ndtri(1.0 - _FALSE_ALARMS / length))
    is_hidden = (variances < INVISIBLE * deviations) & (
        variances + quantile * deviations < prior_value
    )
    is_zero_one, is_indicator = indicators(moment, noise_scale, constant, n_records)
    ones = moment[-1, -1] / (n_records * constant**2)  # The number of records may be off.
    is_sign = np.abs(squares - ones) < quantile * noise * math.hypot(1.0, 1.0 / constant**2)
    is_binary = is_zero_one | is_sign
    is_seen = (is_sign & ~is_hidden) | is_indicator
    has_indicators = np.any(is_seen)
    # A column at an end of its bounds has part of the intercept's effect.
    is_named = is_hidden & (~is_binary | (is_sign & ~is_zero_one & ~has_indicators))
    candidates = is_hidden & ~is_named & ~has_indicators
    unseen = variances < _SEEN * deviations
    return np.flatnonzero(is_named), np.flatnonzero(candidates), np.flatnonzero(unseen)


def indicators(moment, noise_scale, constant, n_records):
    """Whether columns may have only values of 0 and 1, as far as two moments tell, and whether surely.

    Parameters are those of `hidden_columns`.

    Returns
    -------
    may_be, is_seen : ndarray of bool of shape (n_features,)
        Where ``E[x^2] = E[x] >= 0`` up to noise and rounding, and where noise does not hide that mean.
    """
    noise = noise_scale / n_records
    of_means = noise / (math.sqrt(2.0) * constant)
    means, squares = moment[-1, :-1] / (n_records * constant), np.diag(moment)[:-1] / n_records
    quantile = float(ndtri(1.0 - _FALSE_ALARMS / means.size))
    limit = quantile * math.hypot(noise, of_means) + _ROUNDING_SHARE * squares
    may_be = (np.abs(squares - means) <= limit) & (means >= -quantile * of_means)
    return may_be, may_be & (means > _INDICATED * of_means)


def _at_most(moment, noise_scale, constant, public_size, is_exact):
    """Number of records a table has, from above."""
    if is_exact:
        return public_size
    deviation = min(public_size / 2.0, noise_scale / constant**2)
    return number_of_records(moment, noise_scale, constant, public_size) + 2.0 * deviation


def with_constant(design, constant):
    """A `Design` with the constant column of an intercept at its end."""
    uncertainty = np.pad(np.broadcast_to(design.uncertainty, design.covariance.shape), (0, 1))
    uncertainty[-1, :-1] = uncertainty[:-1, -1] = constant**2 * design.mean_variance
    covariance = np.pad(design.covariance, (0, 1))
    hidden = np.pad(np.broadcast_to(design.hidden, design.covariance.shape), (0, 1))
    mean = np.append(design.mean, constant)
    return Design(mean, covariance, uncertainty, design.mean_variance, hidden, design.numbers)


def _shrunk(noisy, noise, variances):
    """The posterior mean of a covariance, and about the variances of its entries off the diagonal."""
    deviations = np.sqrt(variances)
    units = np.outer(deviations, deviations)
    correlation, posterior_variance = _correlations(noisy, units, noise**2 / 2.0)
    values, vectors = eigh(correlation)
    squares = vectors**2
    eigenvalue_variances = 2.0 * np.sum(squares * (posterior_variance @ squares), axis=0)
    values = np.maximum(
        (values + np.sqrt(values**2 + 4.0 * eigenvalue_variances)) / 2.0, _LEAST_EIGENVALUE
    )
    correlation = (vectors * values) @ vectors.T
    norms = np.sqrt(np.diag(correlation))
    return correlation * units / np.outer(norms, norms), posterior_variance * units**2


def _correlations(noisy, units, half):
    """Posterior means of correlations, 1 on the diagonal, and their variances.

    Parameters
    ----------
    noisy, units : ndarray of shape (length, length)
        Covariances, with noise, and what they would be if correlations were 1.
    half : float
        Variance of the noise.
    """
    length = len(noisy)
    mean, posterior_variance = np.eye(length), np.zeros((length, length))
    if length == 1:
        return mean, posterior_variance
    pairs = np.triu_indices(length, 1)
    unit = units[pairs]
    rare, r, noise = unit / units.max(), noisy[pairs] / unit, half / unit**2
    evidence, *laws = _mixture(r, _CORRELATION_VARIANCES * rare ** (2.0 * _POWERS), noise)
    mean[pairs], posterior_variance[pairs] = np.array(laws)[:, np.argmax(evidence)]
    # The other half is still zero.
    return mean + np.triu(mean, 1).T, posterior_variance + posterior_variance.T


def _mixture(r, prior, noise):
    """The posterior of numbers from a mixture, the weights of which are learnt from all of them.

    Parameters
    ----------
    r, noise : ndarray of shape (n,)
        What was seen of them, and variances of its noise.
    prior : ndarray of shape (..., n_parts, n)
        Variances of the numbers around 0, of one mixture or several.

    Returns
    -------
    evidence : ndarray of shape (...,)
        Logarithm of the density of ``r``, up to a constant.
    means, variances : ndarray of shape (..., n)
        Of the numbers given ``r``.
    """
    variances = prior + noise
    logs = -0.5 * (np.log(variances) + r**2 / variances)
    top = logs.max(axis=-2, keepdims=True)
    likelihood = np.exp(logs - top)
    odds = mixture_weights(likelihood, _LEAST_VARIANCE_COUNT, _WEIGHT_ITERATIONS) * likelihood
    density = odds.sum(axis=-2, keepdims=True)
    odds /= density
    share = prior / variances
    means = np.sum(odds * share, axis=-2, keepdims=True) * r
    posterior_variances = np.sum(odds * (share * noise + (share * r - means) ** 2), axis=-2)
    evidence = np.sum(np.log(density) + top, axis=(-2, -1))
    return evidence, means[..., 0, :], posterior_variances


def variance_component(squares, known, units, prior_value, worth, limits):
    """``s^2``, ``squares`` being those of normal numbers of variances ``known + s^2 units``.

    By moments that are weighted by their precision, together with what is usual, which is worth a number of
    numbers.
    """
    square = prior_value
    for _ in range(5):
        precision = (known + square * units) ** -2.0
        excess_variance = np.sum(precision * units * (squares - known)) / np.sum(
            precision * units**2
        )
        if worth:
            n_entries = np.sum(precision * (square * units) ** 2) / 2.0
            excess_variance = (n_entries * excess_variance + worth * prior_value) / (
                n_entries + worth
            )
        square = min(max(float(excess_variance), limits[0]), limits[1])
    return square


# Columns that others nearly repeat, so that the prior decides how effects are shared among them.
#
#     C = (L + P)^-1 = C L C + C P C,      share_j = (C P C)_jj / C_jj,      growth_j = C_jj (C^-1)_jj
#
# ``L`` is the information of a likelihood on coefficients, ``P`` that of the prior. ``C P C`` is the part of
# the posterior's covariance by which the pull of the prior moves means: by ``k share^(1/2)`` posterior
# deviations if effects along it are ``k`` prior deviations from 0. A share is large where little is known of
# a coefficient. That other columns are the reason is told by ``growth``, the factor by which a variance is
# larger than if the other coefficients were known: with a flat prior it is the variance inflation factor.


# Least share of the prior: effects that are three prior deviations from 0 move a mean by a posterior
# deviation, and three of four 90% intervals hold.
_LEAST_PRIOR_SHARE = 0.1
# Least growth of a variance: intervals are twice as wide as if other coefficients were known.
_LEAST_GROWTH_FACTOR = 4.0
# Least eigenvalue of an information, relative to the largest: rounding leaves nothing below.
_LEAST_EIGENVALUE_RATIO = 1e-13


def repeated_columns(information, prior, transform, is_left_out):
    """Indices of columns whose single coefficients the prior decides, as others nearly repeat them.

    Parameters
    ----------
    information, prior : ndarray of shape (n, n)
        ``L + P`` and ``P``, for the coordinates ``u`` of a posterior.
    transform : ndarray of shape (length, length)
        Coefficients of each block are this matrix times so many coordinates; any others come last.
    is_left_out : ndarray of bool of shape (length,)
        Columns that are not named, as the constant is not. Indicators of all levels of a category add up to
        it: their single coefficients follow the prior by design, and are compared with each other.

    Returns
    -------
    repeated : ndarray of int
    """
    if len(transform) == 1:
        return np.empty(0, dtype=int)
    values, vectors = eigh(information)
    roots = vectors / np.sqrt(np.maximum(values, _LEAST_EIGENVALUE_RATIO * values[-1]))
    n_blocks, length = len(roots) // len(transform), len(transform)
    own = transform @ roots[: n_blocks * length].reshape(n_blocks, length, -1)
    own = own.reshape(n_blocks * length, -1)
    covariance, pulled = own @ own.T, own @ (roots.T @ prior @ roots) @ own.T
    each = np.array([covariance, pulled, inv(covariance)])
    variances, of_prior, known = np.einsum("kii->ki", each).reshape(3, n_blocks, length)
    share = of_prior.sum(axis=0) / variances.sum(axis=0)
    growth = (variances * known).mean(axis=0)
    is_repeated = (share >= _LEAST_PRIOR_SHARE) & (growth >= _LEAST_GROWTH_FACTOR)
    return np.flatnonzero(is_repeated & ~is_left_out)
