"""The posterior of Poisson regression given sums of clipped residuals of counts.

    g_k ~ N(f_k(u) + E x_k, B_k),      x_k = H^-1 (f_k(u) - f_k(u_k))

``f_k`` is what a noisy sum sees of a synthetic design, whose curvature is ``H``. ``E`` is what is not known
of the table's (`curvature`): it is symmetric, with entries of variances ``p_i p_j`` and ``2 p_i^2 + h_i`` in
the basis of the eigenvectors of ``H``, and integrated out. ``B`` has the noise, what noisy sums of the same
counts have in common, and what is not known of how they are dispersed. It does not depend on ``u``: where
that is hardly known, noise is most of it.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._linalg import inv, solve
from ...models.families.poisson import CountLaw
from ..base import Diagnostics
from .curvature import (
    CountCurvature,
    conditioned,
    curvature_given,
    moment_given,
    positive_inverse,
    rescaled_to,
    share_given,
)
from .dispersion import (
    PRIOR_LAWS,
    best_count_clip,
    centre_for,
    clipped_count,
    count_edges,
    counts_seen,
    hidden_share_of_large,
    laws_given,
    log_exposures_seen,
    margin_of_sum,
    of_histogram,
    share_of_largest,
    tabulated,
    typical_exposure,
)
from .hmc import Density, deviations_of_all_records
from .normal import coordinates_of_numbers
from .plan import N_ROWS
from .population import CountPopulation, count_population, enough_rows, split
from .prior import Growth, Prior, growth_of, prior_of
from .release import Likelihood
from .requests import Question


@dataclass(frozen=True)
class PoissonDensity(Density):
    """The likelihood of noisy sums, and the prior.

    Attributes
    ----------
    synthetic_design : CountPopulation
    curvature : CountCurvature
    prior : Prior
    scales : ndarray of shape (n_scales,)
        Prior scales at which the mode is looked for.
    growth : Growth
    transform : ndarray of shape (length, length)
        ``W``.
    centres : ndarray of shape (n_sums, n_rows)
        Logits of the population at the noisy sums' points.
    tables : ndarray of shape (n_sums, n_rows, n_nodes, 2)
        Of clipped means.
    origins : ndarray of shape (n_sums, length)
        ``f_k(u_k)``.
    values : ndarray of shape (n_sums, length)
        ``g``.
    blocks : ndarray of shape (n_sums, n_sums, length)
        ``B``, for each eigenvector.
    start : ndarray of shape (length,)
        Where to look for the mode.
    law : CountLaw
    unweighted : CountPopulation or None, default=None
        Rows with the moments of the design, before they have those of weighted ones; None before the last
        answer.
    design : Design or None, default=None
        Of rows as they are.
    """

    synthetic_design: CountPopulation
    curvature: CountCurvature
    prior: Prior
    scales: np.ndarray
    growth: Growth
    transform: np.ndarray
    centres: np.ndarray
    tables: np.ndarray
    origins: np.ndarray
    values: np.ndarray
    blocks: np.ndarray
    start: np.ndarray
    law: CountLaw
    unweighted: Any = None
    design: Any = None

    @cached_property
    def _turned(self):
        """The noisy sums less those at their points, in the basis."""
        return ((self.values - self.origins) @ self.curvature.basis)[:, None]

    def negative_log_likelihood(self, u):
        """The negative log likelihood, up to a constant, and its gradient, for (n_points, length)."""
        curvature, turn = self.curvature, self.curvature.basis
        f, slopes = self.synthetic_design.expected_sums(u, self.centres, self.tables)
        changed = (f - self.origins[:, None]) @ turn
        energy, by_r, _, by_x = conditioned(
            self._turned - changed,
            self.blocks[:, :, None],
            changed / curvature.values,
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
        p, h = curvature.variance_factor, curvature.diagonal_variance
        v = self.blocks + ((x * p) @ x.T)[..., None] * p + x[:, None] * x * h
        inverse = positive_inverse(v)[0]
        turned = np.einsum("kab,ai->kib", jacobians, turn)
        return matrix + np.einsum("kia,kli,lib->ab", turned, inverse, turned, optimize=True)

    def parameters(self, u, random):
        """Draws of coefficients, and nothing else."""
        return u @ self.transform.T, Diagnostics()

    def level(self, u):
        """The logarithm of the mean of means, of shape (n_points, 1)."""
        return self.synthetic_design.level(u)

    def deviations_without_noise(self):
        """The deviations that coefficients would have without noise, as far as that is known."""
        if self.unweighted is None:
            return np.full(self.transform.shape[0], np.nan)
        deviations = []
        for each in (self.synthetic_design, self.unweighted):
            # Without privacy records count fully, and no mean is cut.
            rows, means = each.rows, each.means(self.start)
            factors = each.size * means**2 / self.law.variance(means)
            precision = (rows * factors[:, None]).T @ rows + self.prior.precision(self.scales)
            covariance = self.transform @ inv(precision) @ self.transform.T
            deviations.append(np.sqrt(np.maximum(np.diag(covariance), 1e-300)))
        weighted, of_design = deviations
        return deviations_of_all_records(weighted, of_design, self.design)


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
_N_FEWER_ROWS = 64
# The same where results need be even less exact.
_N_FEWEST_ROWS = 16
# Least weight of a row.
_LEAST_WEIGHT = 1e-12
# Digits of parameters of laws that have tables of their own.
_LAW_DIGITS = 3
# How many counts stand for those of the histogram.
_N_COUNTS = 4000


class PoissonLikelihood(Likelihood):
    """Counts: a histogram tells a first rate, and each noisy sum the point, the clip and the dispersion.

    All that comes between requests follows from what was released.
    """

    def __init__(self, plan, released, prior_precision):
        super().__init__(plan, released, prior_precision)
        self.coordinates, self.matrix_norm = coordinates_of_numbers(plan, released, 1.0)
        self.transform = self.coordinates.transform
        self.prior = prior_of(plan.bounds, 1, prior_precision, self.transform, self.design)
        self.growth = growth_of(self.constant, 1, self.transform)
        self.scales, self.laws = self.prior.prior_mode, PRIOR_LAWS
        self.noisy_sums, self.squares, self._tables = [], [], {}

    def question(self, request):
        """At the mode, at a clip that says most there."""
        if request.kind != "residuals":
            return Question(self.transform)
        q = self.plan.budget.sensitivity_factor
        moved = (self.plan.bounds.max_weight or 1.0) * q * self.coordinates.norm
        clip = self.next_clip(moved * request.multipliers[0])
        centre = centre_for(clip, self.laws.mean, self.family.max_count)
        return Question(self.transform, self.start, clip, centre)

    def _learn_curvature(self, matrix):
        self.matrix = matrix

    def _learn_histograms(self, counts, exposures=None):
        """Set rows that stand for those of the table, a histogram of counts, and a first point."""
        n_rows = enough_rows(N_ROWS, self.transform)
        # Post-processing.
        generator, offsets = np.random.default_rng(0), np.zeros(n_rows)
        self.histograms, self.typical_exposure = (counts, exposures), None
        if exposures is not None:
            log_exposures = log_exposures_seen(exposures.value, exposures.noise, n_rows)
            self.typical_exposure = typical_exposure(
                exposures.value, exposures.noise, log_exposures
            )
            # Post-processing.
            offsets = generator.permutation(log_exposures)
        n, largest = self.n_records, self.family.max_count
        self.counts = counts_seen(counts.value, counts.noise, largest, _N_COUNTS)
        shares = counts.per_record(n)
        self.histogram = of_histogram(shares.value, shares.noise, count_edges(largest))
        rate = max(self.counts.mean(), counts.noise / n) / np.exp(offsets).mean()
        theta = np.zeros(len(self.transform))
        if self.constant:
            theta[-1] = math.log(rate) / self.constant
        self.start = solve(self.transform, theta)
        known = self.design, self.coordinates, offsets, n, self.family
        self.unweighted = count_population(*known, generator)
        self._reshape(self.unweighted)
        self._learn_design_curvature()

    def _reshape(self, synthetic_design):
        """Let rows have the weighted second moment that was released, and note what is not known of it."""
        transform, n, constant = self.transform, self.n_records, self.constant
        unknown = transform.T**2 @ self.design.uncertainty @ transform**2
        noisy_moment = unknown, *self.matrix.per_record(n)[:2]
        along = inv(transform)[:, -1]
        flat, varying = split(synthetic_design.moment, along, constant)
        varying = rescaled_to(flat, varying, *noisy_moment)
        share = share_given(flat + varying, *noisy_moment)
        moment, self.unknown = moment_given(flat, varying, *noisy_moment)
        norm = self.coordinates.norm
        self.synthetic_design = synthetic_design.reshaped(moment, share, along, constant, norm)

    def _learn_design_curvature(self):
        """Note the curvature at the next point."""
        of_design = self.synthetic_design.curvature(self.start)
        rows = np.maximum(np.diag(self.synthetic_design.moment), _LEAST_WEIGHT)
        factors = np.diag(of_design) / rows
        self.curvature = curvature_given(of_design, self.unknown * np.outer(factors, factors))

    def _learn_residuals(self, value, square):
        """Find the mode and the dispersion."""
        self.noisy_sums.append(value)
        self.squares.append(square.per_record(self.n_records))
        self.update_mode()
        self.laws = self._laws()
        self.update_mode()

    def _deviations(self):
        """The posterior deviations of the synthetic design's logits."""
        covariance, rows = inv(self.at_mode.information(self.start)), self.synthetic_design.rows
        variances = np.einsum("ij,jk,ik->i", rows, covariance, rows)
        return np.minimum(np.sqrt(np.maximum(variances, 0.0)), _LARGEST_LOGIT_SD)

    def _laws(self):
        synthetic_design, margins = self.synthetic_design, [self.histogram]
        # Post-processing.
        normal = np.random.default_rng(2).standard_normal(len(synthetic_design.rows))
        logits = synthetic_design.logits(self.start) + normal * self._deviations()
        step = max(1, len(logits) // _N_FEWEST_ROWS)
        some = np.argsort(logits)[step // 2 :: step]  # Their law is that of all.
        n = self.n_records
        pairs = zip(self.noisy_sums, self.squares, strict=True)
        for noisy_sum, square in list(pairs)[-_N_SUMS_FOR_DISPERSION:]:
            along = None
            if self.constant:
                w = inv(self.transform)[:, -1] / self.constant
                along = w @ noisy_sum.value / n, float(np.linalg.norm(w)) * noisy_sum.noise / n
            centres = noisy_sum.centre(synthetic_design.logits(noisy_sum.point))[some]
            margins.append(
                margin_of_sum(
                    square,
                    synthetic_design.weights[some],
                    centres,
                    synthetic_design.largest,
                    along,
                )
            )
        return laws_given(margins, logits[some], n, bool(self.constant), logits)

    def next_clip(self, noise_per_clip):
        """The clip for the next noisy sum.

        Parameters
        ----------
        noise_per_clip : float
            Deviation of its noise, for a clip of 1.
        """
        synthetic_design, largest = self.synthetic_design, self.synthetic_design.largest
        n = self.n_records
        if not self.noisy_sums:
            means = np.full(self.counts.size, self.counts.mean())
            return best_count_clip(self.counts, means, means, noise_per_clip, n, largest)
        # Post-processing.
        generator = np.random.default_rng(0)
        counts, means = synthetic_design.simulated(
            self.start, self._deviations(), self.laws.mean, generator
        )
        centres = np.minimum(synthetic_design.means(self.start), largest)
        centres = np.broadcast_to(centres, counts.shape)
        return best_count_clip(
            counts.ravel(),
            means.ravel(),
            centres.ravel(),
            noise_per_clip,
            n,
            largest,
            lambda clips: self._leanings(clips, centres[0]),
        )

    def _leanings(self, clips, centres):
        """Errors that one record may have in a noisy sum, as the law of counts is not fully known.

        Independent parts of it, of shape (n_parts, n_clips, length).
        """
        synthetic_design = self.synthetic_design
        some = slice(None, None, max(1, len(synthetic_design.rows) // _N_FEWER_ROWS))
        rows, weights = synthetic_design.rows[some], synthetic_design.weights[some]
        means = np.exp(np.minimum(synthetic_design.logits(self.start)[some], 30.0))
        parts = self.laws.leanings(means, centres[some], clips, synthetic_design.largest)
        return synthetic_design.share * (weights * parts) @ rows / len(rows)

    def density(self):
        """The posterior given the last noisy sums."""
        noisy_sums, synthetic_design = self.noisy_sums[-_N_SUMS_USED:], self.synthetic_design
        centres = np.array([synthetic_design.logits(noisy_sum.point) for noisy_sum in noisy_sums])
        tables = np.array([self._table(noisy_sum) for noisy_sum in noisy_sums])
        origins = [
            synthetic_design.expected_sums(noisy_sum.point[None], centre[None], table[None])[0][
                0, 0
            ]
            for noisy_sum, centre, table in zip(noisy_sums, centres, tables, strict=True)
        ]
        scores, _ = synthetic_design.expected_sums(self.start[None], centres, tables)
        away = (scores[:, 0] - origins) @ self.curvature.basis
        blocks, own = self._blocks(noisy_sums), np.arange(len(noisy_sums))
        blocks[own, own] += (_SHAPE_ERROR * away) ** 2
        return PoissonDensity(
            synthetic_design=synthetic_design,
            curvature=self.curvature,
            prior=self.prior,
            scales=self.scales,
            growth=self.growth,
            transform=self.transform,
            centres=centres,
            tables=tables,
            origins=np.array(origins),
            values=np.array([noisy_sum.value for noisy_sum in noisy_sums]),
            blocks=blocks,
            start=self.start,
            law=self.laws.mean,
            unweighted=self.unweighted,
            design=self.design,
        )

    def _table(self, noisy_sum):
        """The table of a noisy sum's clipped means, which is kept as long as laws are close."""
        law = CountLaw(*np.round(self.laws.mean, _LAW_DIGITS))
        key = noisy_sum.clip, noisy_sum.noise, law
        if key not in self._tables:
            logits = self.synthetic_design.logits(noisy_sum.point)
            centres, largest = noisy_sum.centre(logits), self.synthetic_design.largest
            self._tables[key] = tabulated(logits, centres, noisy_sum.clip, law, largest)
        return self._tables[key]

    def _blocks(self, noisy_sums):
        """The covariances of noisy sums along each eigenvector, noise included, as a density has them."""
        synthetic_design, law = self.synthetic_design, self.laws.mean
        # Post-processing.
        generator = np.random.default_rng(1)
        counts, means = synthetic_design.simulated(self.start, 0.0, law, generator)
        residuals, leanings = [], []
        for noisy_sum in noisy_sums:
            centres = noisy_sum.centre(synthetic_design.logits(noisy_sum.point))
            clip, largest = noisy_sum.clip, synthetic_design.largest
            mean = clipped_count(means[0], centres, clip, law, largest).mean
            residuals.append(np.clip(counts - centres, -clip, clip) - mean)
            leanings.append(self._leanings(np.array([clip]), centres)[:, 0] @ self.curvature.basis)
        remaining = np.array(residuals)
        covariances = np.einsum("krp,lrp->klp", remaining, remaining) / len(counts)
        turned = (
            synthetic_design.weights[:, None] * (synthetic_design.rows @ self.curvature.basis)
        ) ** 2
        blocks = synthetic_design.size * synthetic_design.share * covariances @ turned
        blocks += self.n_records**2 * np.einsum("kvp,lvp->klp", leanings, leanings)
        indices = np.arange(len(noisy_sums))
        noises = np.array([noisy_sum.noise for noisy_sum in noisy_sums])
        blocks[indices, indices] += noises[:, None] ** 2
        return blocks

    def diagnostics(self, posterior, draws):
        """The dispersion of counts, and whether they follow the law."""
        counts = self.histograms[0]
        law, means = self.laws.mean, self.synthetic_design.means(self.start)
        return Diagnostics(
            law=law,
            law_discrepancy=self.laws.discrepancy,
            unexplained_large_counts=float(self.laws.tails[1].max() / means.mean()),
            hidden_share_of_large=hidden_share_of_large(
                counts.noise, self.synthetic_design.largest, means.mean(), self.n_records
            ),
            dispersion=float(law.variance(means).sum() / means.sum()),
            share_of_largest=share_of_largest(counts.value, counts.noise),
            typical_exposure=self.typical_exposure,
        )
