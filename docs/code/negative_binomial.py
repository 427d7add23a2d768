"""Counts of which the dispersion is known, as a likelihood of noisy sums.

    g_k = sum_i v_i z_i psi(y_i - m(z_i . u_k)) + N(0, N_k^2 I),      Var y = m + m^2 / size,      m = exp

A sum is about normal: its mean is that of a synthetic design's rows, and its variance that of counts and the
noise.
"""

from dataclasses import dataclass
from functools import partial
from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Interval

from skdpbayes.samplers import ClippedResiduals
from skdpbayes.samplers.base import Diagnostics
from skdpbayes.samplers.statistics.curvature import conditioned, positive_inverse
from skdpbayes.samplers.statistics.dispersion import counts_seen
from skdpbayes.samplers.statistics.hmc import Density
from skdpbayes.samplers.statistics.normal import coordinates_of_numbers
from skdpbayes.samplers.statistics.population import enough_rows, rows_like
from skdpbayes.samplers.statistics.prior import Growth, Prior, growth_of, prior_of
from skdpbayes.samplers.statistics.release import Likelihood
from skdpbayes.samplers.statistics.requests import Question

# Logarithms of means are cut here.
LARGEST_LOG_MEAN = 10.0
# What is not known of the curvature, relative to it.
UNKNOWN_CURVATURE = 0.1


@dataclass(frozen=True)
class NegativeBinomialDensity(Density):
    """The log density of ``u`` given sums at points."""

    rows: np.ndarray
    weights: np.ndarray
    n_records: float
    values: np.ndarray
    points: np.ndarray
    blocks: np.ndarray
    slopes: np.ndarray
    transform: np.ndarray
    prior: Prior
    scales: np.ndarray
    growth: Growth
    start: np.ndarray

    def sums(self, u):
        """Expected sums without a centre at points of shape (n_points, length), and means of rows."""
        means = np.exp(np.minimum(u @ self.rows.T, LARGEST_LOG_MEAN))
        return self.n_records / len(self.rows) * (self.weights * means) @ self.rows, means

    def negative_log_likelihood(self, u):
        """The negative log likelihood, up to a constant, and its gradient."""
        seen, means = self.sums(u)
        apart = seen - self.sums(self.points)[0][:, None]
        unknown, nothing = UNKNOWN_CURVATURE * self.slopes, np.zeros(self.slopes.size)
        energy, by_r, _, by_x = conditioned(
            self.values[:, None] - apart,
            self.blocks[:, :, None],
            apart / self.slopes,
            unknown,
            nothing,
        )
        by_seen = np.sum(by_x / self.slopes - by_r, axis=0)
        factors = self.n_records / len(self.rows) * self.weights * means
        return energy, (by_seen @ self.rows.T * factors) @ self.rows

    def information(self, u):
        """The curvature of the potential at a point, taking variances to be fixed."""
        _, means = self.sums(u[None])
        factors = self.n_records / len(self.rows) * self.weights * means[0]
        slopes = (self.rows * factors[:, None]).T @ self.rows
        precisions = positive_inverse(self.blocks)[0].sum(axis=(0, 1))
        return (slopes * precisions) @ slopes + self.prior.precision(self.scales)

    def level(self, u):
        """The logarithm of the mean of rows, which coefficients that grow keep."""
        return np.log(
            (np.exp(np.minimum(u @ self.rows.T, LARGEST_LOG_MEAN)) @ self.weights)[:, None]
        )

    def parameters(self, u, random):
        """Coefficients, and nothing else."""
        return u @ self.transform.T, Diagnostics()


class NegativeBinomialLikelihood(Likelihood):
    """Sums of clipped residuals, each at the mode given those before."""

    def __init__(self, plan, released, prior_precision, size):
        super().__init__(plan, released, prior_precision)
        self.size = size
        self.coordinates, self.matrix_norm = coordinates_of_numbers(plan, released, 1.0)
        transform, norm = self.coordinates.transform, self.coordinates.norm
        n_rows, generator = enough_rows(256, transform), np.random.default_rng(0)
        self.rows, self.weights = rows_like(self.design, transform, norm, n_rows, generator)
        self.prior = prior_of(plan.bounds, 1, prior_precision, transform, self.design)
        self.growth = growth_of(self.constant, 1, transform)
        self.scales, self.start = self.prior.prior_mode, np.zeros(len(transform))
        self.sums, self.clip = [], plan.bounds.family.max_count

    def question(self, request):
        """Sums of residuals at the mode; the other requests need no point."""
        transform = self.coordinates.transform
        if request.kind != "residuals":
            return Question(transform)
        return Question(transform, self.start, self.clip)

    def learn(self, request, *sums):
        """A histogram says at which rate to begin; after a sum, the mode is found."""
        largest = self.family.max_count
        if request.kind == "histograms":
            counts = counts_seen(sums[0].value, sums[0].noise, largest, 1000)
            rate = max(counts.mean(), sums[0].noise / self.n_records)
            if self.constant:
                self.start = np.log(rate) * self.growth.intercept
        elif request.kind == "residuals":
            self.sums.append(sums[0])
            self.update_mode()
        # Residuals are rarely beyond five deviations of the counts of rows with large means.
        mean = np.quantile(self.means(), 0.99)
        self.clip = min(max(5.0 * np.sqrt(mean + mean**2 / self.size), 1.0), largest)

    def means(self):
        """Means of rows at the mode."""
        return np.exp(np.minimum(self.rows @ self.start, LARGEST_LOG_MEAN))

    def density(self):
        """The density given all sums so far."""
        means = self.means()
        of_counts = self.weights**2 * (means + means**2 / self.size)
        squares, noises = self.rows**2, np.array([each.noise for each in self.sums])
        # Sums see the same counts, and noise of their own.
        blocks = np.diag(noises**2)[..., None] + self.n_records * np.mean(
            of_counts[:, None] * squares, axis=0
        )
        return NegativeBinomialDensity(
            rows=self.rows,
            weights=self.weights,
            n_records=self.n_records,
            values=np.array([each.value for each in self.sums]),
            points=np.array([each.point for each in self.sums]),
            blocks=blocks,
            slopes=self.n_records * np.mean((self.weights * means)[:, None] * squares, axis=0),
            transform=self.coordinates.transform,
            prior=self.prior,
            scales=self.scales,
            growth=self.growth,
            start=self.start,
        )


class NegativeBinomial(ClippedResiduals):
    """Calibrated draws for counts whose variance is ``m + m^2 / size``."""

    name = "negative_binomial"
    _parameter_constraints = {"size": [Interval(Real, 0, None, closed="neither")]}

    def __init__(self, size=2.0):
        self.size = size

    def likelihood(self, family):
        """That of this module."""
        return partial(NegativeBinomialLikelihood, size=self.size)
