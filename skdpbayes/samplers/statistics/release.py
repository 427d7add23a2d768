"""The releases for labels, numbers and counts: noisy sums over records, each at the mode given those before.

    A  ->  W, C  ->  t  ->  a_1 at the mode given t, a_2 at the mode given a_1, too, ...,  F with some of them

Each is a sum over records with Gaussian noise, on a lattice. What comes between follows from them alone.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..._compute.execution import progress_bar, single_threaded_blas
from ..._data.shards import map_records, total
from ..._linalg import eigh, inv, solve
from ...models import second_moment
from ...models.sums import (
    binned,
    clipped_sums,
    reweighted,
    squares_moment,
    weighted_moment,
    weighted_scores,
    weighted_sums,
)
from ..base import Released
from ..noise import release_moment, release_vector, sensitivity_after_rounding
from .design import (
    Design,
    coordinates_for,
    estimate_design,
    moment_diagnostics,
    number_of_records,
    with_constant,
)
from .dispersion import (
    count_edges,
    counts_seen,
    evidence_of_few_trials,
    exposure_edges,
    log_exposures_seen,
    of_histogram,
    share_of_largest,
    typical_exposure,
)
from .hmc import find_mode_and_scales
from .logistic import (
    LogisticPosterior,
    LogisticSurrogate,
    deviations_in_common,
    enough_rows,
    estimate_discrepancy,
    moment_matched_sample,
    rarest_class,
)
from .normal import (
    HeavyTailCorrection,
    NoisyMeanSquare,
    NoisySum,
    NormalPosterior,
    NormalSurrogate,
    combined,
    sandwich_factor_of,
    slopes_of,
    varying_part,
)
from .plan import (
    CLIPPING,
    N_MEAN_SQUARES,
    N_ROWS,
    best_clip,
    clipped_normal,
    deviation_of,
    moment_geometry,
)
from .poisson import (
    FIRST_NODE,
    Centre,
    CountPosterior,
    PosteriorState,
    centre_for,
    count_population,
    moment_given,
    rescaled_to,
    share_given,
    split,
)
from .prior import Prior, prior_of
from .sensitivity import joint_multiplier, noise_factor, residual_mu_squared

# Least eigenvalue of a curvature, relative to the mean: there may be directions of which records say nothing.
_LEAST_EIGENVALUE = 1e-4
# Largest rounding inflation for which we sum Hessians in the original coordinates.
_EARLY_SUM_INFLATION = 1.0 + 2.0**-10
# How many rounds look for the likeliest prior scales before each noisy sum.
_LOGISTIC_ROUNDS = 3


@single_threaded_blas()  # Blocks of rows are not worth more.
def run_noise_aware(plan, target, generator, verbose):
    """Carry out a `NoiseAwarePlan`."""
    with progress_bar(plan.n_steps, plan.name, verbose) as advance:
        released = LogisticReleases(plan, target, generator, advance)
        released.run_rounds()
        posterior = released.posterior()
    draws = posterior.draw(plan.n_draws, generator)
    other = {
        "second_moment": released.moment,
        "posterior": posterior,
        **released.diagnostics,
    }
    if constant := plan.bounds.constant:
        other["rarest_class"] = rarest_class(posterior, draws, constant)
    return Released(draws, plan, {"coordinate_scale": np.ones(plan.n_parameters)}, other)


class NoisyValue(NamedTuple):
    """A noisy value that was released at a point, with the deviation of its noise.

    Off the diagonal of a matrix it is ``1 / sqrt(2)`` of that.
    """

    point: np.ndarray
    value: np.ndarray
    noise: float


class LogisticReleases:
    """The releases so far, and the posterior given them.

    Parameters
    ----------
    plan : NoiseAwarePlan
    target : NamedTuple
        A logistic target.
    generator : Generator
        Of the noise.
    advance : callable
        Called after every pass.
    """

    def __init__(self, plan, target, generator, advance=lambda: None):
        self.plan, self.target, self.generator, self.advance = plan, target, generator, advance
        self.family = plan.family
        self.noisy_sums, self.curvatures = [], []
        self._release_moment()
        self.target = map_records(reweighted, target, *self._whitening_and_norm, in_place=True)
        advance()

    @property
    def _whitening_and_norm(self):
        """Coordinates, and the norm of records in them."""
        return self.coordinates.transform, self.coordinates.norm

    @property
    def is_weighted(self):
        """Whether records have weights of their own."""
        return self.plan.bounds.max_weight is not None

    @property
    def max_weight(self):
        """The largest weight of a record."""
        return self.plan.bounds.max_weight or 1.0

    def _release_moment(self):
        """Release the second moment, and fix coordinates and a population by it."""
        plan, bounds = self.plan, self.plan.bounds
        of_rows = release_design(plan, self.target, self.generator)
        self.advance()
        self.moment, self.moment_noise, design, n_records, self.diagnostics = of_rows
        self.coordinates = coordinates_for(design, self.moment_noise, bounds, n_records, CLIPPING)
        transform = self.coordinates.transform
        precisions = self.target.prior_precision[: len(transform)]
        self.prior = prior_of(bounds, self.family.n_blocks, precisions, transform)
        self.scales = self.prior.prior_mode
        noise = self.moment_noise / n_records * np.sum(transform**2, axis=0)
        moments = np.sum(transform * (design.second_moment @ transform), axis=0)
        self.relative_variances = (noise / np.maximum(moments, 1e-300)) ** 2
        self.synthetic_design = moment_matched_sample(
            design,
            transform,
            self.family,
            self.coordinates.norm,
            n_records,
            N_ROWS,
        )

    def _rounding_inflation(self, theta):
        """The factor by which rounding may enlarge the contribution of a record, relative to a score."""
        of_gradient = self.coordinates.inflation(self.plan, theta) - 1.0
        return 1.0 + of_gradient * self.family.residual_bound / self.family.score_bound

    def release_label_sum(self):
        """Release the sum of weighted labels, which is minus the gradient at zero."""
        family, (transform, norm) = self.family, self._whitening_and_norm
        zero = np.zeros((family.n_blocks, len(transform)))
        gradient, _ = total(weighted_sums, self.target, family, None, zero, curvature=False)
        sensitivity_factor = self.plan.budget.sensitivity_factor * self.max_weight
        bound = sensitivity_factor * family.score_bound * norm * self._rounding_inflation(zero)
        self.label_sum_noise = bound / sensitivity_after_rounding(
            self.plan.label_multiplier, zero.size
        )
        label_sum = -(gradient @ transform).ravel()
        mu = 1.0 / self.plan.label_multiplier
        # Proposition 32.
        self.label_sum = release_vector(
            label_sum, self.label_sum_noise, self.generator, charged_mu=mu
        )
        self.advance()

    def release(self, point, multiplier, curvature_multiplier=None):
        """Release the score at ``point``, and a curvature if it is wanted."""
        family, (transform, norm) = self.family, self._whitening_and_norm
        sensitivity_factor = self.plan.budget.sensitivity_factor
        theta = point.reshape(family.n_blocks, -1) @ transform.T
        wanted = curvature_multiplier is not None
        score, matrix, rounding_inflation = self._sums(theta, wanted)
        factor = self.max_weight * noise_factor(
            family,
            self.coordinates.logit_bound(family, point, theta),
            sensitivity_factor == 2,
            (multiplier, curvature_multiplier),
            rounding_inflation,
            theta.size + wanted * theta.size**2,
        )
        noise = sensitivity_factor * family.score_bound * norm * factor * multiplier
        mu = 1.0 / joint_multiplier(family, multiplier, curvature_multiplier)
        # Propositions 32 and 71.
        score = release_vector(score, noise, self.generator, charged_mu=mu)
        self.noisy_sums.append(NoisyValue(point, score, noise))
        if wanted:
            bound = math.sqrt(sensitivity_factor) * family.slope_bound * norm**2
            noise = bound * factor * curvature_multiplier
            # Propositions 32 and 71.
            matrix = release_moment(matrix, noise, self.generator, charged_mu=mu, is_joint=True)
            self.curvatures.append(NoisyValue(point, matrix, noise))
        self.advance()

    def _sums(self, theta, wanted):
        """The score and the curvature at ``theta``, or None, and by what rounding may enlarge them."""
        transform, family = self.coordinates.transform, self.family
        rounding_inflation, of_matrix = (
            self._rounding_inflation(theta),
            self.coordinates.inflation(self.plan, theta, power=2),
        )
        # Curvatures in the coordinates of the rows take half the time.
        early = wanted and of_matrix <= _EARLY_SUM_INFLATION
        score, matrix = total(
            weighted_scores,
            self.target,
            family,
            theta,
            None if early else transform,
            curvature=wanted,
        )
        if early:
            rounding_inflation = max(rounding_inflation, of_matrix)
            blocks = np.kron(np.eye(family.n_blocks), transform)
            matrix = blocks.T @ matrix @ blocks
            matrix = 0.5 * (matrix + matrix.T)
        return (score @ transform).ravel(), matrix, rounding_inflation

    def run_rounds(self):
        """Release labels, and scores at one mode after the other, with curvatures on the way."""
        plan = self.plan
        self.release_label_sum()
        for pair in zip(plan.score_multipliers, plan.curvature_multipliers, strict=True):
            settled = find_mode_and_scales(self.surrogate(), _LOGISTIC_ROUNDS)
            self.scales = settled.scales
            self.release(settled.start, *pair)

    def surrogate(self):
        """The posterior given all that is released."""
        synthetic_design, size = self.synthetic_design, self.label_sum.size
        last = self.noisy_sums[-1].point if self.noisy_sums else np.zeros(size)
        score_discrepancy = estimate_discrepancy(
            synthetic_design, self.noisy_sums, self.curvatures, last, self.relative_variances
        )
        moments = synthetic_design.at(np.array([last]))
        matrix = synthetic_design.curvature(last)
        matrix = matrix + score_discrepancy.mean @ matrix
        values, basis = eigh(0.5 * (matrix + matrix.T))
        values = np.maximum(values, _LEAST_EIGENVALUE * max(values.mean(), 1e-300))
        return LogisticSurrogate(
            synthetic_design=synthetic_design,
            prior=self.prior,
            scales=self.scales,
            label_sum=self.label_sum,
            noise=self.label_sum_noise,
            score_discrepancy=score_discrepancy,
            origin=synthetic_design.origin,
            slope=float(synthetic_design.mean_variance(moments)[0]),
            basis=basis,
            sampling=values,
            start=last,
        )

    def posterior(self):
        """The posterior that all releases amount to."""
        settled = find_mode_and_scales(self.surrogate(), 2 * _LOGISTIC_ROUNDS)
        shift = deviations_in_common(self.target, self.family, settled.scales)
        transform, norm = self._whitening_and_norm
        return LogisticPosterior(settled, transform, norm, shift)


class ReleasedDesign(NamedTuple):
    """A released second moment, and what it says.

    Attributes
    ----------
    moment : ndarray of shape (length, length)
        With a constant, that of the intercept or one that was added, in its last row and column.
    noise : float
        Deviation of the noise on its diagonal.
    design : Design
        Of rows as they are.
    n_records : float
        How many records there are, or what they count.
    diagnostics : dict of {str: float or ndarray}
        Shares of the largest possible second moment, along one direction and of the trace, and the columns
        that `hidden_columns` finds.
    """

    moment: np.ndarray
    noise: float
    design: Design
    n_records: float
    diagnostics: dict[str, Any]


def release_design(plan, target, generator):
    """Release the second moment of rows with a constant, and return the `ReleasedDesign`.

    Parameters
    ----------
    plan : Plan
        With a ``moment_multiplier``.
    target : NamedTuple
        A linear model's target.
    generator : Generator
        Of the noise.
    """
    bounds = plan.bounds
    max_weight, is_weighted = bounds.max_weight or 1.0, bounds.max_weight is not None
    norm, constant, noise = moment_geometry(plan)
    moment = total(_moment, target, constant, is_weighted)
    mu = 1.0 / plan.moment_multiplier
    moment = release_moment(moment, noise, generator, charged_mu=mu)  # Proposition 32.
    n_records = plan.n_samples
    if is_weighted:  # Records are as many as they count.
        n_records *= 0.5 * max_weight
    is_exact = not is_weighted and plan.budget.neighboring_relation == "replace_one"
    known = moment, noise, constant
    diagnostics = moment_diagnostics(*known, norm, n_records, is_exact)
    if not is_exact:
        n_records = number_of_records(*known, n_records)
    design = estimate_design(*known, norm, n_records)
    if bounds.constant:
        design = with_constant(design, constant)
    return ReleasedDesign(moment, noise, design, n_records, diagnostics)


def _moment(target, constant, is_weighted):
    return second_moment(target, constant, target.weights if is_weighted else None)


# A noisy sum: the sum of rows times clipped residuals, and that of the squares of these, with noise.
#
#     g = sum_i v_i z_i psi_i + N,    s = sum_i psi_i^2 + N,    psi_i = psi_tau(y_i - m(theta x_i))
#     t = sum_i psi_i + N             in the place of g, where the mean of errors is asked for
#
# What a record can move does not depend on the family: residuals are clipped to ``tau``, whatever is
# subtracted from a response.


def residual_sums(releases, theta, clip, centre=None):
    """The sums in the coordinates of the rows. **They are not private.**

    Parameters
    ----------
    releases : RowReleases
        Its ``target`` has the weights ``v``, its ``table`` what records count by themselves.
    theta : ndarray of shape (length,)
        In the coordinates of the rows.
    clip : float
        ``tau``.
    centre : callable or None, default=None
        Maps logits to what is subtracted from responses; None is the mean.
    """
    sums, square = total(
        clipped_sums, releases.target, theta, clip, is_weighted=False, centre=centre
    )
    if releases.is_weighted:
        _, square = total(clipped_sums, releases.table, theta, clip, centre=centre)
    return sums, square


def release_sums(releases, theta, transform, clip, multipliers, rounding_inflation, centre=None):
    """``g``, the deviation of its noise, ``s``, and that of its noise.

    Parameters
    ----------
    releases, theta, clip
        As for `residual_sums`.
    transform : ndarray of shape (length, length)
        ``W``, by which ``z = W^T x``.
    multipliers : tuple of (float, float)
        Noise multipliers of both.
    rounding_inflation : float
        By what rounding may enlarge what a record moves.
    centre : callable or None, default=None
        As for `residual_sums`.
    """
    sums, square = residual_sums(releases, theta, clip, centre)
    return _released(
        releases, (transform.T @ sums, square), releases.norm, clip, multipliers, rounding_inflation
    )


def release_wide_clip_sums(releases, theta, clip, multipliers, rounding_inflation):
    """The sum of clipped residuals, the deviation of its noise, that of squares, and of its noise.

    Parameters are those of `release_sums`. Rows have a constant, and all of them count, however long.
    """
    sums, square = total(clipped_sums, releases.table, theta, clip)
    sums_of_wide_clip = sums[-1:] / releases.plan.bounds.constant, square
    value, *others = _released(
        releases, sums_of_wide_clip, 1.0, clip, multipliers, rounding_inflation
    )
    return float(value[0]), *others


def _released(releases, statistics, norm, clip, multipliers, rounding_inflation):
    """Sums over rows of at most a norm, and of squares, with noise, and the deviations of that."""
    sums, square = statistics
    a, b = (multiplier**-2.0 for multiplier in multipliers)
    paid = math.sqrt(residual_mu_squared(a, b, releases.sensitivity_factor == 2))
    factor = (paid + (rounding_inflation - 1.0) * math.sqrt(a + b)) / sensitivity_after_rounding(
        1.0 / paid, sums.size + 1
    )
    noise = (
        releases.max_weight * releases.sensitivity_factor * norm * clip * multipliers[0] * factor
    )
    of_square = releases.max_weight * clip**2 * multipliers[1] * factor
    # Propositions 73 and 74.
    value = release_vector(sums, noise, releases.generator, charged_mu=paid)
    # Propositions 73 and 74.
    square = release_vector(
        np.array([square]), of_square, releases.generator, charged_mu=paid, is_joint=True
    )[0]
    return value, noise, square, of_square


# What is released of rows before any response: a second moment, and the coordinates that follow from it.
#
#     A = sum_i w_i (x_i, c) (x_i, c)^T + N   ->   W, C, K,
#     z = W^T x,     v_i = min(1, C / |z_i|, K^2 / |z_i|^2)


# Deviations of the noise on an entry of ``A`` at which whitening stops.
_NOISE_FLOOR = 1.5


class RowReleases:
    """The releases so far of rows.

    Parameters
    ----------
    plan : ClippedResidualsPlan
    target : NamedTuple
        A linear model's target.
    generator : Generator
        Of the noise.
    advance : callable
        Called after every pass.
    unit : float
        Deviation of the errors of rows that a prior is worth.
    """

    def __init__(self, plan, target, generator, advance, unit):
        self.plan, self.table, self.generator, self.advance = plan, target, generator, advance
        self.sensitivity_factor = plan.budget.sensitivity_factor
        self.max_weight = plan.bounds.max_weight or 1.0
        self.is_weighted = plan.bounds.max_weight is not None
        of_rows = release_design(plan, target, generator)
        advance()
        self.moment, self.moment_noise, self.design, self.n_records, self.diagnostics = of_rows
        precision = min(plan.bounds.prior_precision[0] * unit**2, self.moment_noise)
        self.coordinates = coordinates_for(
            self.design,
            self.moment_noise,
            plan.bounds._replace(prior_precision=(precision, precision)),
            self.n_records,
            plan.row_clipping,
            noise_floor=_NOISE_FLOOR,
        )
        self.norm = self.coordinates.norm
        self.matrix_norm = self.norm * math.sqrt(plan.matrix_clipping / plan.row_clipping)
        self.target = self.reweighted(1)
        advance()

    def reweighted(self, power):
        """The table with weights ``w^power v``. **It is not private.**"""
        transform, norms = self.coordinates.transform, (self.norm, power, self.matrix_norm)
        return map_records(reweighted, self.table, transform, *norms)

    def release_curvature(self):
        """Release ``F``, the weighted second moment in these coordinates, and return it and its noise."""
        plan, transform = self.plan, self.coordinates.transform
        bound = math.sqrt(self.sensitivity_factor) * self.matrix_norm**2 * self.max_weight
        bound *= self.coordinates.inflation_within(plan, 0.0)
        noise = bound / sensitivity_after_rounding(plan.curvature_multiplier, len(transform) ** 2)
        matrix = total(weighted_moment, self.target, transform)
        mu = 1.0 / plan.curvature_multiplier
        # Propositions 73 and 76.
        matrix = release_moment(matrix, noise, self.generator, charged_mu=mu)
        self.advance()
        self.released_curvature = matrix, noise
        return self.released_curvature


# The releases for counts, one after the other, and the posterior state given them.
#
#     A -> W, C -> histograms -> F -> u_0, tau_0 -> g_0, s_0 -> u_1, tau_1 -> ...
#
# Each is a sum over records with Gaussian noise, on a lattice. What comes between follows from them
# alone.


# How many rounds look for the likeliest prior scales before each noisy sum.
_POISSON_ROUNDS = 3
# How many counts stand for those of the histogram.
_N_COUNTS = 4000
# What rounding can do to an exponential, or between nodes, in units of that of an inner product.
_FUNCTION_ROUNDING = 11.0


@single_threaded_blas()  # Blocks of rows are not worth more.
def run_counts(plan, target, generator, verbose):
    """Carry out a `ClippedCountsPlan`."""
    with progress_bar(plan.n_steps, plan.name, verbose) as advance:
        released = PoissonReleases(plan, target, generator, advance)
        released.run_rounds()
    posterior = released.posterior()
    other = {
        "second_moment": released.moment,
        "posterior": posterior,
        **released.diagnostics,
        "dispersion": posterior.dispersion.value,
        "share_of_largest": share_of_largest(released.histograms[0], released.histogram_noise),
        "shortfall": released.state.shortfall(),
        "few_trials": released.few_trials(),
        "excess_zeros": released.state.excess_zeros(),
    }
    if released.typical_exposure is not None:
        other["typical_exposure"] = released.typical_exposure
    draws = posterior.draw(plan.n_draws, generator)
    return Released(draws, plan, {"coordinate_scale": np.ones(plan.n_parameters)}, other)


class NoisyCountSum(NamedTuple):
    """A release at a point.

    Attributes
    ----------
    point : ndarray of shape (length,)
    clip : float
    centre : Centre
        What was subtracted from counts.
    value : ndarray of shape (length,)
        Sums of rows times clipped residuals.
    noise : float
        Deviation of their noise.
    square, square_noise : float
        The mean square of clipped residuals, and the deviation of its noise.
    """

    point: np.ndarray
    clip: float
    centre: Centre
    value: np.ndarray
    noise: float
    square: float
    square_noise: float


class PoissonReleases(RowReleases):
    """The releases so far.

    Parameters
    ----------
    plan : ClippedCountsPlan
    target : NamedTuple
        A linear model's target with counts as responses.
    generator : Generator
        Of the noise.
    advance : callable
        Called after every pass.
    """

    def __init__(self, plan, target, generator, advance=lambda: None):
        super().__init__(plan, target, generator, advance, 1.0)
        self.family = plan.bounds.family
        self.typical_exposure = None
        self._release_histograms()

    def _release_histograms(self):
        """Release histograms of counts and, if there are any, of exposures, and set the state."""
        n_rows = enough_rows(N_ROWS, self.coordinates.transform)
        # Post-processing.
        generator = np.random.default_rng(0)
        edges, offsets = count_edges(self.family.max_count), np.zeros(n_rows)
        of_counts, of_exposures, are_exposed = total(binned, self.table, edges, exposure_edges())
        # Without exposures counts have what is planned for both.
        multiplier = self.plan.mean_square_multiplier * (1.0 if are_exposed else 0.5**0.5)
        noise = (
            self.max_weight
            * math.sqrt(self.sensitivity_factor)
            * self.coordinates.inflation_within(self.plan, 0.0)
        )
        noise /= sensitivity_after_rounding(multiplier, max(of_counts.size, of_exposures.size))
        mu = 1.0 / multiplier
        of_counts = release_vector(
            of_counts, noise, self.generator, charged_mu=mu
        )  # Proposition 76.
        self.histograms = [of_counts]
        self.histogram_noise = noise
        self.advance()
        if are_exposed:
            # Proposition 76.
            of_exposures = release_vector(of_exposures, noise, self.generator, charged_mu=mu)
            self.histograms.append(of_exposures)
            log_exposures = log_exposures_seen(of_exposures, noise, n_rows)
            self.typical_exposure = typical_exposure(of_exposures, noise, log_exposures)
            # Post-processing.
            offsets = generator.permutation(log_exposures)
        counts = counts_seen(of_counts, noise, self.family.max_count, _N_COUNTS)
        rate = max(counts.mean(), noise / self.n_records) / np.exp(offsets).mean()
        theta = np.zeros(len(self.coordinates.transform))
        constant = self.plan.bounds.constant
        if constant:
            theta[-1] = math.log(rate) / constant
        transform = self.coordinates.transform
        synthetic_design, unknown = self._reshaped(
            count_population(
                self.design, self.coordinates, offsets, self.n_records, self.family, generator
            )
        )
        self.state = PosteriorState(
            synthetic_design=synthetic_design,
            unknown=unknown,
            transform=transform,
            constant=constant,
            prior=prior_of(self.plan.bounds, 1, self.table.prior_precision, transform),
            counts=counts,
            histogram=of_histogram(of_counts / self.n_records, noise / self.n_records, edges),
            start=solve(transform, theta),
        )

    def _rounding_bound(self, theta, logit):
        """The bound on the rounding of functions of logits with slopes up to 1 (Proposition 77).

        Parameters
        ----------
        theta : ndarray of shape (length,)
        logit : float
            Where logits are larger, or smaller than its opposite, functions stay.
        """
        longest = self.coordinates.row_norm * float(np.linalg.norm(theta))
        return 2.0 * (longest + 3.0 * max(1.0, logit) + _FUNCTION_ROUNDING)

    def _reshaped(self, synthetic_design):
        """Release the weighted second moment, and return a population that has it, and what is not known."""
        plan, transform = self.plan, self.coordinates.transform
        matrix, noise = self.release_curvature()
        unknown = transform.T**2 @ self.design.uncertainty @ transform**2
        noisy_moment = unknown, matrix / self.n_records, noise / self.n_records
        along, constant = inv(transform)[:, -1], plan.bounds.constant
        flat, varying = split(synthetic_design.moment, along, constant)
        varying = rescaled_to(flat, varying, *noisy_moment)
        share = share_given(flat + varying, *noisy_moment)
        moment, unknown = moment_given(flat, varying, *noisy_moment)
        return synthetic_design.reshaped(moment, share, along, constant, self.norm), unknown

    def release_residual_sum(self, clip, multipliers):
        """Release sums of clipped residuals at the mode."""
        point, transform = self.state.start, self.coordinates.transform
        theta, largest = transform @ point, self.family.max_count
        centre = centre_for(clip, self.state.dispersion.value, largest)
        reach = (
            self._rounding_bound(theta, max(-FIRST_NODE, centre.nodes[-1]))
            * max(centre.largest, largest)
            / clip
        )
        rounding_inflation = self.coordinates.inflation_within(self.plan, reach)
        value, noise, square, of_square = release_sums(
            self, theta, transform, clip, multipliers, rounding_inflation, centre
        )
        n = self.n_records
        self.state.noisy_sums.append(
            NoisyCountSum(point, clip, centre, value, noise, square / n, of_square / n)
        )
        self.advance()

    def run_rounds(self):
        """Release noisy sums at one mode after the other."""
        plan, state = self.plan, self.state
        pairs = zip(plan.residual_multipliers, plan.square_multipliers, strict=True)
        reach = self.max_weight * self.sensitivity_factor * self.norm
        for pair in pairs:
            self.release_residual_sum(state.clip(reach * pair[0]), pair)
            state.learn(_POISSON_ROUNDS)

    def few_trials(self):
        """The logarithm of how much likelier the histogram is if counts are of a few trials."""
        n, edges = self.n_records, count_edges(self.family.max_count)
        of_counts, logits = self.histograms[0] / n, self.state.some_logits()
        return evidence_of_few_trials(of_counts, self.histogram_noise / n, edges, logits, n)

    def posterior(self):
        """The `CountPosterior` that all releases amount to."""
        state = self.state
        state.settled = find_mode_and_scales(state.surrogate(), 2 * _POISSON_ROUNDS)
        return CountPosterior(
            surrogate=state.settled,
            transform=self.coordinates.transform,
            dispersion=state.dispersion,
            deviations=state.deviations_without_noise(),
        )


# The releases for numbers, one after the other, and the residual deviation given them.
#
#     A  ->  W, C, K  ->  F  ->  q_0, q_1 -> tau_0  ->  g_0, s_0  ->  the mode given these -> u_1 ...  M, t
#
# Each is a sum over records with Gaussian noise, on a lattice. What comes between follows from them
# alone.


# How many rounds look for the likeliest prior scales before each noisy sum.
_NORMAL_ROUNDS = 3
# How many of the last noisy sums the posterior is given: earlier ones add little.
_N_SUMS_USED = 4
# A clip stays as it is if the mean square is nearly the square of the clip, which says little of residuals.
_SATURATED = 0.8
# A first step leaves at least this share of the deviation of residuals.
_LEAST_RESIDUAL_SHARE = 0.1
# Prior median of the errors' deviation, over the bound of responses.
_PRIOR_ERROR_SD_RATIO = 0.1
# Least clip, over the bound of responses.
_LEAST_CLIP = 1e-6
# A clip that cuts nothing, over the bound of responses.
_UNCLIPPED_RATIO = 8.0
# How much of a mean square may be that of a point which is off, or noise, if it is to tell of errors.
_MOST_OF_POINT = 0.5
# Prior deviation of the logarithm of the errors' deviation.
_PRIOR_LOG_SD = 1.5
# The same where the deviation is given.
_GIVEN_LOG_SD = 1e-3
# Posterior deviations that are added where an upper bound on errors is wanted.
_UPPER_SDS = 1.0
# Largest logarithm of a deviation, whose square is then still a double.
_LARGEST_LOG_DEVIATION = 300.0


@single_threaded_blas()  # Blocks of rows are not worth more.
def run_clipped_residuals(plan, target, generator, verbose):
    """Carry out a `ClippedResidualsPlan`."""
    with progress_bar(plan.n_steps, plan.name, verbose) as advance:
        released = NormalReleases(plan, target, generator, advance)
        released.run_rounds()
    posterior = released.posterior()
    draws, deviations = posterior.draw_all(plan.n_draws, generator)
    other = {
        "second_moment": released.moment,
        "posterior": posterior,
        **released.diagnostics,
        "noise_deviations": deviations,
        "chi2_per_dof": posterior.surrogate.chi2_per_dof(),
        "chi2_dof": len(posterior.surrogate.noisy_sums) * plan.n_parameters,
        "hidden_directions": released.curvature.hidden,
    }
    if (asymmetry := posterior.asymmetry()) is not None:
        other["asymmetry"] = asymmetry
    return Released(draws, plan, {"coordinate_scale": np.ones(plan.n_parameters)}, other)


class NormalReleases(RowReleases):
    """The releases so far, and the posterior given them.

    Parameters
    ----------
    plan : ClippedResidualsPlan
    target : NamedTuple
        A linear model's target with numbers as responses.
    generator : Generator
        Of the noise.
    advance : callable
        Called after every pass.
    """

    def __init__(self, plan, target, generator, advance=lambda: None):
        family = plan.bounds.family
        self.bound = family.half_width
        self.prior_median = (
            _PRIOR_ERROR_SD_RATIO * self.bound if family.deviation is None else family.deviation
        )
        self.log_sd = _PRIOR_LOG_SD if family.deviation is None else _GIVEN_LOG_SD
        self.noisy_sums, self.mean_squares, self.meat, self.heavy_tails = [], [], None, None
        super().__init__(plan, target, generator, advance, self.prior_median)
        self._release_curvature()

    def _release_curvature(self):
        """Release the weighted second moment, and fix the prior by both."""
        plan, transform = self.plan, self.coordinates.transform
        matrix, noise = self.release_curvature()
        self.curvature = combined(
            self.design, transform, matrix, noise, self.n_records, self.moment_noise
        )
        prior = prior_of(plan.bounds, 1, self.table.prior_precision, self.curvature.transform)
        groups = [
            replace(group, precision=np.pad(group.precision, (0, 1))) for group in prior.groups
        ]
        self.prior = Prior(tuple(groups))
        self.scales = self.prior.prior_mode
        self.start = np.append(np.zeros(len(transform)), math.log(self.prior_median))

    def _rounding_inflation(self, theta, clip, power=1.0):
        """The factor by which rounding may enlarge a record's contribution, by a power of residuals."""
        reach = (self.coordinates.row_norm * float(np.linalg.norm(theta)) + self.bound) / clip
        return self.coordinates.inflation_within(self.plan, power * reach)

    def _effective_clip(self, point, clip):
        """A clip as it works: one at the bound of responses cuts nothing at the origin."""
        return _UNCLIPPED_RATIO * self.bound if clip >= self.bound and not np.any(point) else clip

    def _note(self, point, clip, square, noise):
        clip = self._effective_clip(point, clip)
        self.mean_squares.append(
            NoisyMeanSquare(point, clip, square / self.n_records, noise / self.n_records)
        )
        self.advance()

    def release_mean_square(self, clip):
        """Release the mean square of clipped responses, and return the clip that follows from it."""
        point = np.zeros(self.curvature.values.size)
        _, square = residual_sums(self, point, clip)
        noise = self.max_weight * clip**2 * self._rounding_inflation(point, clip)
        noise /= sensitivity_after_rounding(self.plan.mean_square_multiplier, 1)
        mu = 1.0 / self.plan.mean_square_multiplier
        # Proposition 73.
        square = release_vector(np.array([square]), noise, self.generator, charged_mu=mu)[0]
        self._note(point, clip, square, noise)
        mean_square, clip = self.mean_squares[-1], self.mean_squares[-1].clip
        value = max(mean_square.value, 0.0)
        upper = value + math.hypot(mean_square.noise, value * math.sqrt(2.0 / self.n_records))
        return deviation_of(upper, clip) if upper < _SATURATED * clip**2 else math.inf

    def release_residual_sum(self, point, clip, multiplier, square_multiplier):
        """Release sums of clipped residuals at a point."""
        transform = self.curvature.transform
        theta = transform @ point
        value, noise, square, of_square = release_sums(
            self,
            theta,
            transform,
            clip,
            (multiplier, square_multiplier),
            self._rounding_inflation(theta, clip),
        )
        self.noisy_sums.append(NoisySum(point, self._effective_clip(point, clip), value, noise))
        self._note(point, clip, square, of_square)

    def release_sandwich_meat(self):
        """Release how squares of clipped residuals vary with the rows, at the last point."""
        noisy_sum, transform = self.noisy_sums[-1], self.curvature.transform
        theta = transform @ noisy_sum.point
        bound = (
            math.sqrt(self.sensitivity_factor)
            * (self.max_weight * self.matrix_norm * noisy_sum.clip) ** 2
        )
        bound *= self._rounding_inflation(theta, noisy_sum.clip, 2.0)
        noise = bound / sensitivity_after_rounding(self.plan.meat_multiplier, len(transform) ** 2)
        target = self.reweighted(2) if self.is_weighted else self.target
        matrix = total(squares_moment, target, theta, noisy_sum.clip, transform)
        mu = 1.0 / self.plan.meat_multiplier
        # Proposition 73.
        self.meat = release_moment(matrix, noise, self.generator, charged_mu=mu), noise
        self.advance()

    def release_wide_clip(self, residual_sd):
        """Release the mean of residuals at the last point, and that of their squares, at a wide clip."""
        plan, point = self.plan, self.noisy_sums[-1].point
        theta = self.curvature.transform @ point
        clip = min(plan.wide_clip * max(residual_sd, self._widest()), 2.0 * self.bound)
        rounding_inflation = self._rounding_inflation(theta, clip)
        wide = release_wide_clip_sums(
            self, theta, clip, plan.wide_clip_multipliers, rounding_inflation
        )
        self.heavy_tails = HeavyTailCorrection(
            point, clip, *(number / self.n_records for number in wide)
        )
        self.advance()

    def _widest(self):
        """The largest deviation of errors that a mean square tells, and points do not."""
        largest = 0.0
        for mean_square in self.mean_squares:
            d = self.start[:-1] - mean_square.point
            square = (
                min(mean_square.value, _SATURATED * mean_square.clip**2)
                if mean_square.value > 0.0
                else 0.0
            )
            variance, of_point = (
                deviation_of(square, mean_square.clip) ** 2,
                float(d**2 @ self.curvature.squares),
            )
            if (
                of_point < _MOST_OF_POINT * variance
                and mean_square.noise < _MOST_OF_POINT * mean_square.value
            ):
                largest = max(largest, math.sqrt(variance - of_point))
        return largest

    def run_rounds(self):
        """Release mean squares, and noisy sums at one mode after the other."""
        plan, clip, residual_sd = self.plan, self.bound, math.inf
        for _ in range(N_MEAN_SQUARES):
            residual_sd = min(residual_sd, self.release_mean_square(clip))
            clip = self._clip(clip, residual_sd)
        for pair in zip(plan.residual_multipliers, plan.square_multipliers, strict=True):
            clip = self._clip(clip, residual_sd)
            self.release_residual_sum(self.start[:-1], clip, *pair)
            self.start = self._started()
            settled = find_mode_and_scales(self.surrogate(), _NORMAL_ROUNDS)
            self.start, self.scales = settled.start, settled.scales
            residual_sd = self._residual_sd(settled)
        if plan.meat_multiplier is not None:
            self.release_sandwich_meat()
        if plan.wide_clip_multipliers is not None:
            self.release_wide_clip(residual_sd)

    def _started(self):
        """The start of the search for the mode: from the last noisy sum, or the one before if likelier."""
        noisy_sum, mean_square, f = (
            self.noisy_sums[-1],
            self.mean_squares[-1],
            self.curvature.values,
        )
        sigma = deviation_of(
            min(max(mean_square.value, mean_square.noise), _SATURATED * noisy_sum.clip**2),
            noisy_sum.clip,
        )
        slope = clipped_normal(0.0, sigma, noisy_sum.clip).slope * self.n_records * f
        step = slope * noisy_sum.value / (slope**2 + noisy_sum.noise**2 / sigma**2)
        variance_left = max(
            sigma**2 - self.curvature.squares @ step**2, (_LEAST_RESIDUAL_SHARE * sigma) ** 2
        )
        points = np.array(
            [self.start, np.append(noisy_sum.point + step, 0.5 * math.log(variance_left))]
        )
        return points[np.argmin(self.surrogate().potential(points)[0])]

    def _clip(self, clip, residual_sd):
        """The clip for residuals of a deviation, never larger than the last."""
        mu = math.sqrt(sum(multiplier**-2.0 for multiplier in self.plan.residual_multipliers))
        best, _ = best_clip(
            self.n_records, self.max_weight * self.sensitivity_factor * self.norm, mu
        )
        return max(min(clip, best * residual_sd), _LEAST_CLIP * self.bound)

    def _residual_sd(self, settled):
        """The deviation that residuals have at the mode, from above."""
        variances = np.maximum(np.diag(inv(settled.information(settled.start))), 0.0)
        log_s = settled.start[-1] + _UPPER_SDS * math.sqrt(variances[-1])
        log_s = min(log_s, _LARGEST_LOG_DEVIATION)
        return math.sqrt(math.exp(2.0 * log_s) + variances[:-1] @ settled.squares)

    def surrogate(self):
        """The posterior given all that is released."""
        return NormalSurrogate(
            n_samples=self.n_records,
            curvature=self.curvature.values,
            variance_factor=self.curvature.variance_factor,
            diagonal_variance=self.curvature.diagonal_variance,
            mean=self.curvature.mean,
            squares=self.curvature.squares,
            prior=self.prior,
            scales=self.scales,
            prior_median=self.prior_median,
            log_sd=self.log_sd,
            noisy_sums=tuple(self.noisy_sums[-_N_SUMS_USED:]),
            mean_squares=tuple(self.mean_squares),
            start=self.start,
        )

    def posterior(self):
        """The posterior that all releases amount to."""
        settled = find_mode_and_scales(self.surrogate(), 2 * _NORMAL_ROUNDS)
        sandwich_factor, weight = self._sandwich_factor(settled)
        tails = None if self.heavy_tails is None else self.heavy_tails._replace(weight=weight)
        constant = self.plan.bounds.constant
        return NormalPosterior(settled, self.curvature.transform, sandwich_factor, tails, constant)

    def _sandwich_factor(self, settled):
        """The sandwich factor of draws, None if it is not known that errors vary, and a mean weight."""
        mean_square = self.mean_squares[-1]
        if self.meat is None or mean_square.value <= mean_square.noise:
            return None, self.max_weight
        f, clip = self.curvature.values, self.noisy_sums[-1].clip
        max_weight = self.max_weight if self.is_weighted else None
        matrix, noise = self.meat
        factor_of_all, varying = varying_part(
            matrix, noise, self.n_records * mean_square.value, f, max_weight
        )
        changed = factor_of_all * (np.diag(f) + varying) - np.diag(f)
        return sandwich_factor_of(
            settled, changed, slopes_of(varying, f, mean_square.value, clip)
        ), factor_of_all
