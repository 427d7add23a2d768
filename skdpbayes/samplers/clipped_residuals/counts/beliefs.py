"""What is believed of coefficients, curvature and dispersion, given what has been released of counts.

    looks -> mode and prior scales -> dispersion -> mode again -> the next point and clip

All of it follows from what was released: no record is read here.
"""

import math

import numpy as np

from ...._linalg import inv
from ...noise_aware.draws import settle
from .clips import best_clip
from .curvature import curvature_given
from .dispersion import USUAL, dispersion_given, excess_zeros, of_look, shortfall
from .law import clipped_count
from .surrogate import CountSurrogate
from .table import tabulated

# How many of the last looks the posterior is given, and how many the dispersion: earlier ones say little.
_USED, _OF_DISPERSION = 4, 2
# The largest deviation of a logit that is allowed for where clips are chosen.
_LARGEST_DOUBT = 1.5
# By how much looks far from the mode may be off, relative to the change that they see.
_OF_SHAPE = 0.1
# Least number of rows of the population that are used where results need not be exact.
_FEW, _FEWER = 200, 64
_TINY = 1e-12
# Dispersions closer than this, on a scale of logarithms, share tables.
_CLOSE = 0.01


class Beliefs:
    """What is believed; it changes with every release.

    Parameters
    ----------
    population : CountPopulation
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
        self, *, population, unknown, transform, constant, prior, counts, histogram, start
    ):
        self.population, self.unknown, self.transform = population, unknown, transform
        self.constant, self.prior, self.counts = constant, prior, counts
        self.histogram, self.start = histogram, start
        self.scales, self.dispersion = prior.usual, USUAL
        self.looks, self._tables = [], {}
        self._learn_curvature()

    def _learn_curvature(self):
        """Note the curvature at the next point."""
        own, rows = self.population.curvature(self.start), self.population.moment
        factors = np.diag(own) / np.maximum(np.diag(rows), _TINY)
        self.curvature = curvature_given(own, self.unknown * np.outer(factors, factors))

    def learn(self, rounds):
        """Find the mode given all that is released, and the dispersion that follows from it."""
        for turn in range(2):
            self.settled = settle(self.surrogate(), rounds)
            self.start, self.scales = self.settled.start, self.settled.scales
            if turn == 0:
                self.dispersion = self._dispersion()

    def _deviations(self):
        """Return what is not known of the population's logits."""
        covariance, rows = inv(self.settled.information(self.start)), self.population.rows
        variances = np.einsum("ij,jk,ik->i", rows, covariance, rows)
        return np.minimum(np.sqrt(np.maximum(variances, 0.0)), _LARGEST_DOUBT)

    def _dispersion(self):
        population, margins = self.population, [self.histogram]
        # Post-processing.
        normal = np.random.default_rng(2).standard_normal(len(population.rows))
        logits = population.logits(self.start) + normal * self._deviations()
        step = max(1, len(logits) // _FEWER)
        some = np.argsort(logits)[step // 2 :: step]  # Their law is that of all.
        n = population.size * len(population.rows)
        for look in self.looks[-_OF_DISPERSION:]:
            along = None
            if self.constant:
                w = inv(self.transform)[:, -1] / self.constant
                along = w @ look.value / n, float(np.linalg.norm(w)) * look.noise / n
            centres = look.centre(population.logits(look.point))[some]
            margins.append(
                of_look(look, population.weights[some], centres, population.largest, along)
            )
        return dispersion_given(margins, logits[some], n, bool(self.constant))

    def shortfall(self):
        """Return by how much the last look's squares fall short of Poisson's law; see `shortfall`."""
        look, population = self.looks[-1], self.population
        centres = look.centre(population.logits(look.point))
        logits = population.logits(self.start)
        return shortfall(look, centres, logits, self._deviations(), population.largest)

    def excess_zeros(self):
        """Zeros beyond those of the law of counts, in deviations; see `dispersion.excess_zeros`."""
        n = self.population.size * len(self.population.rows)
        return excess_zeros(self.histogram, self.some_logits(), n, bool(self.constant))

    def some_logits(self):
        """Return logits at the mode of some rows, whose law is that of all."""
        logits = np.sort(self.population.logits(self.start))
        step = max(1, len(logits) // _FEWER)
        return logits[step // 2 :: step]

    def clip(self, reach):
        """Return the clip for the next look.

        Parameters
        ----------
        reach : float
            Deviation of its noise, for a clip of 1.
        """
        population, largest = self.population, self.population.largest
        n = population.size * len(population.rows)
        if not self.looks:
            means = np.full(self.counts.size, self.counts.mean())
            return best_clip(self.counts, means, means, reach, n, largest)
        # Post-processing.
        generator = np.random.default_rng(0)
        counts, means = population.simulated(
            self.start, self._deviations(), self.dispersion.value, generator
        )
        centres = np.broadcast_to(population.means(self.start), counts.shape)
        return best_clip(
            counts.ravel(),
            means.ravel(),
            centres.ravel(),
            reach,
            n,
            largest,
            lambda clip: self._leaning(clip, centres[0]),
        )

    def _leaning(self, clip, centres):
        """Return by how much a look of one record may be off, because the dispersion is not fully known."""
        population = self.population
        some = slice(None, None, max(1, len(population.rows) // _FEW))
        rows, weights = population.rows[some], population.weights[some]
        means = np.exp(np.minimum(population.logits(self.start)[some], 30.0))
        ends = [
            clipped_count(means, centres[some], clip, value, population.largest)[0]
            for value in self.dispersion.ends
        ]
        return 0.5 * population.share * (weights * (ends[1] - ends[0])) @ rows / len(rows)

    def surrogate(self):
        """Return the posterior given the last looks."""
        looks, population = self.looks[-_USED:], self.population
        centres = np.array([population.logits(look.point) for look in looks])
        tables = np.array([self._table(look) for look in looks])
        origins = [
            population.seen(look.point[None], own[None], table[None])[0][0, 0]
            for look, own, table in zip(looks, centres, tables, strict=True)
        ]
        seen, _ = population.seen(self.start[None], centres, tables)
        away = (seen[0] - origins) @ self.curvature.basis
        blocks, own = self._blocks(looks), np.arange(len(looks))
        blocks[:, own, own] += (_OF_SHAPE * away.T) ** 2
        return CountSurrogate(
            population=population,
            curvature=self.curvature,
            prior=self.prior,
            scales=self.scales,
            centres=centres,
            tables=tables,
            origins=np.array(origins),
            values=np.array([look.value for look in looks]),
            blocks=blocks,
            start=self.start,
        )

    def _table(self, look):
        """Return the table of a look's clipped means, which is kept as long as dispersions are close."""
        key = look.clip, look.noise, round(math.log(self.dispersion.value) / _CLOSE)
        if key not in self._tables:
            population = self.population
            self._tables[key] = tabulated(
                population.logits(look.point),
                look.centre(population.logits(look.point)),
                look.clip,
                math.exp(key[-1] * _CLOSE),
                population.largest,
            )
        return self._tables[key]

    def _blocks(self, looks):
        """Return the covariances of looks along each eigenvector, noise included."""
        population, value = self.population, self.dispersion.value
        # Post-processing.
        generator = np.random.default_rng(1)
        counts, means = population.simulated(self.start, 0.0, value, generator)
        residuals, leanings = [], []
        for look in looks:
            centres = look.centre(population.logits(look.point))
            mean, _ = clipped_count(means[0], centres, look.clip, value, population.largest)
            residuals.append(np.clip(counts - centres, -look.clip, look.clip) - mean)
            leanings.append(self._leaning(look.clip, centres) @ self.curvature.basis)
        left = np.array(residuals)
        covariances = np.einsum("krp,lrp->pkl", left, left) / len(counts)
        turned = (population.weights[:, None] * (population.rows @ self.curvature.basis)) ** 2
        blocks = population.size * population.share * np.tensordot(turned, covariances, axes=(0, 0))
        leanings = population.size * len(population.rows) * np.array(leanings)
        blocks += np.einsum("ki,li->ikl", leanings, leanings)
        own = np.arange(len(looks))
        blocks[:, own, own] += np.array([look.noise**2 for look in looks])
        return blocks

    def deviations_without_noise(self):
        """Return the deviations that coefficients would have without noise, as far as that is known."""
        population = self.population
        # Without privacy records count fully, and no mean is cut.
        factors = population.means(self.start) * population.size / self.dispersion.value
        precision = (population.rows * factors[:, None]).T @ population.rows
        precision += self.prior.precision(self.scales)
        covariance = self.transform @ inv(precision) @ self.transform.T
        return np.sqrt(np.diag(covariance))
