"""The releases for counts, one after the other, and what is believed given them.

    A -> W, C -> histograms -> u_0, tau_0 -> g_0, s_0 -> u_1, tau_1 -> ... , F at one of these points

Each is a sum over records with Gaussian noise, on a lattice. What comes between follows from them alone.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ....targets.linear.weighted import binned, bounded_curvature, clipped_sums, reweighted
from ..._machinery.lattice import release_moment, release_vector
from ..._machinery.shards import mapped, total
from ...langevin.paid_noise import free_shift
from ...noise_aware.coordinates import whiten
from ...noise_aware.design import variance_component
from ...noise_aware.draws import settle
from ...noise_aware.plan import N_ROWS
from ...noise_aware.releases import release_design
from ...noise_aware.scales import prior_of
from ..schedule import CLIPPING
from ..sensitivity import look_precision
from ..curvature import _apart, _cut, _turned
from .histogram import count_edges, exposure_edges, quantiles, shares_of_bins
from .dispersion import Dispersion, estimated, of_histogram, of_look
from .law import clipped_count
from .population import CountPopulation
from .surrogate import CountCurvature, CountSurrogate
from .table import tabulated

_NOISE_FLOOR = 1.5
_ROUNDS = 3
_USED = 4
_LEAST_CLIP = 1.0
_MOST = 2.0
_POSITIVE = 0.25
_USUAL, _WORTH, _LIMITS = 0.04, 4.0, (0.0004, 4.0)
_LEAST_EIGENVALUE = 1e-3
_LEAST_SHARE = 0.2


class CountLook(NamedTuple):
    point: np.ndarray
    clip: float
    value: np.ndarray
    noise: float
    square: float
    square_noise: float


class CountReleases:
    def __init__(self, plan, target, generator, advance=lambda: None):
        self.plan, self.table, self.generator, self.advance = plan, target, generator, advance
        family = plan.bounds.family
        self.family = family
        self.moved = plan.budget.records_moved
        self.largest = plan.bounds.max_weight or 1.0
        self.is_weighted = plan.bounds.max_weight is not None
        self.looks = []
        self.phi = Dispersion(1.3, 0.3)
        self.last = None
        self.released_curvature = None
        self._release_rows()
        self._release_histograms()
        self.curvature = self._curvature_from_rows()

    def _release_rows(self):
        plan, bounds = self.plan, self.plan.bounds
        of_rows = release_design(plan, self.table, self.generator)
        self.advance()
        self.moment, self.moment_noise, self.design, self.n_records, self.shares = of_rows
        precision = min(bounds.prior_precision[0], self.moment_noise)
        bounds = bounds._replace(prior_precision=(precision, precision))
        self.coordinates = whiten(self.design, self.moment_noise, bounds, self.n_records, CLIPPING, noise_floor=_NOISE_FLOOR)
        self.transform, self.norm = self.coordinates.transform, self.coordinates.norm
        self.target = mapped(reweighted, self.table, self.transform, self.norm)
        self.advance()
        self.prior = prior_of(plan.bounds, 1, self.table.prior_precision, self.transform)
        self.scales = self.prior.usual

    def _release_histograms(self):
        largest = self.family.max_count
        generator = np.random.default_rng(0)
        edges = count_edges(largest)
        values, of_offsets = total(binned, self.table, edges, exposure_edges())
        multiplier = self.plan.size_multiplier * math.sqrt(0.5 * (1 + (of_offsets is not None)))
        noise = self.largest * math.sqrt(self.moved) / free_shift(multiplier, values.size)
        counts = release_vector(values, noise, self.generator)
        self.advance()
        n_rows = max(N_ROWS, 4 * len(self.transform))
        offsets = np.zeros(n_rows)
        if of_offsets is not None:
            e = exposure_edges()
            step = e[1] - e[0]
            e = np.concatenate([[e[0] - step], e, [e[-1] + step]])
            of_offsets = release_vector(of_offsets, noise, self.generator)
            offsets = generator.permutation(quantiles(e, shares_of_bins(of_offsets, noise), n_rows))
        self.histogram = of_histogram(counts / self.n_records, noise / self.n_records, edges)
        shares = shares_of_bins(counts, noise)
        ends = np.concatenate([[0.0], edges, [max(largest, edges[-1]) + 1.0]])
        self.seen_counts = np.minimum(np.floor(quantiles(ends, shares, 4000)), largest)
        rate = max(self.seen_counts.mean(), noise / self.n_records) / np.exp(offsets).mean()
        theta = np.zeros(len(self.transform))
        if self.plan.bounds.constant:
            theta[-1] = math.log(rate) / self.plan.bounds.constant
        self.start = np.linalg.solve(self.transform, theta)
        self.population = self._population(generator, offsets, n_rows)

    def _population(self, generator, offsets, n_rows):
        design, transform = self.design, self.transform
        values, vectors = np.linalg.eigh(transform.T @ design.covariance @ transform)
        used = values > 1e-12 * values[-1]
        half = generator.standard_normal((n_rows // 2, int(used.sum())))
        normal = np.vstack([half, -half])
        factor = np.linalg.cholesky(normal.T @ normal / len(normal))
        normal = np.linalg.solve(factor, normal.T).T
        rows = design.mean @ transform + (normal * np.sqrt(values[used])) @ vectors[:, used].T
        weights = np.minimum(1.0, self.norm**2 / np.maximum(np.sum(rows**2, axis=1), 1e-300))
        return CountPopulation(rows, weights, offsets[: len(rows)], self.n_records / len(rows), self.family.max_count, self.family.slope_bound)

    def _curvature_from_rows(self):
        matrix = self.population.curvature(self.start, 1.0)
        return self._combined(matrix, self._most(self.start), None, None)

    def _most(self, u):
        return _MOST * float(np.mean(self.population.weights * self.population.centres(u)))

    def release_curvature(self, u):
        self.most = most = self._most(u)
        theta = self.transform @ u
        bound = math.sqrt(self.moved) * self.norm**2 * self.largest
        bound *= self.coordinates.inflation(self.plan, theta, 2)
        noise = bound / free_shift(self.plan.curvature_multiplier, len(theta) ** 2)
        matrix = total(bounded_curvature, self.target, self.transform, theta, most)
        matrix = release_moment(matrix, noise, self.generator)
        self.advance()
        self.released_curvature = u, most, matrix, noise
        self.curvature = self._combined(self.population.curvature(u, most), most, matrix, noise)

    def _combined(self, own, most, matrix, noise_scale):
        length = len(own)
        before = np.diag(own)
        before = np.maximum(before, _LEAST_SHARE * before.mean())
        squares = self.transform**2
        rows = np.sum(self.population.weights[:, None] * self.population.rows**2, axis=0) / len(self.population.rows)
        ratio = before / np.maximum(rows, 1e-12)
        unknown = (squares.T @ self.design.uncertainty @ squares) * np.sqrt(np.outer(ratio, ratio)) ** 2
        units = np.outer(before, before) / length
        unknown = np.minimum(unknown, units * (_POSITIVE + (length - _POSITIVE) * np.eye(length)))
        if matrix is None:
            found, doubt = own, unknown + _USUAL * units
        else:
            noise = (noise_scale / self.n_records) ** 2 * 0.5 * (1.0 + np.eye(length))
            excess = matrix / self.n_records - own
            size = variance_component(excess**2, noise + unknown, units, _USUAL, _WORTH, _LIMITS)
            prior = unknown + size * units
            share = prior / (prior + noise)
            found, doubt = own + excess * share, noise * share
        values, basis = np.linalg.eigh(found)
        values = _cut(values, np.sqrt(np.diag(_turned(doubt, basis))))
        values = np.maximum(values, _LEAST_EIGENVALUE * before.sum() / length)
        table = (basis * values) @ basis.T
        own_values, own_basis = np.linalg.eigh(own)
        own_values = np.maximum(own_values, _LEAST_EIGENVALUE * before.sum() / length)
        change = table @ (own_basis / own_values) @ own_basis.T
        of_own = np.maximum(np.sum(basis * (own @ basis), axis=0), _LEAST_EIGENVALUE * before.sum() / length)
        return CountCurvature(basis, values, of_own, change, *_apart(_turned(doubt, basis)))

    def release_look(self, point, clip, multiplier, square_multiplier):
        theta = self.transform @ point
        sums, square = total(clipped_sums, self.target, theta, clip, is_weighted=False)
        if self.is_weighted:
            _, square = total(clipped_sums, self.table, theta, clip)
        reach = 4.0 * (self.coordinates.row_norm * float(np.linalg.norm(theta)) + 8.0) * self.family.slope_bound / clip
        room = self.coordinates.inflation_within(self.plan, reach)
        parts = multiplier**-2.0, square_multiplier**-2.0
        paid = math.sqrt(look_precision(*parts, self.moved == 2))
        factor = (paid + (room - 1.0) * math.sqrt(sum(parts))) / free_shift(1.0 / paid, point.size + 1)
        noise = self.largest * self.moved * self.norm * clip * multiplier * factor
        of_square = self.largest * clip**2 * square_multiplier * factor
        value = release_vector(self.transform.T @ sums, noise, self.generator)
        square = release_vector(np.array([square]), of_square, self.generator)[0]
        self.looks.append(CountLook(point, clip, value, noise, square / self.n_records, of_square / self.n_records))
        self.advance()

    def look_around(self):
        plan = self.plan
        clip = self._best_clip(self.seen_counts, np.full(4000, self.seen_counts.mean()), np.full(4000, self.seen_counts.mean()), plan.look_multipliers[0])
        pairs = list(zip(plan.look_multipliers, plan.square_multipliers, strict=True))
        pilot = len(pairs) // 2
        for k, pair in enumerate(pairs):
            if k == pilot:
                self.release_curvature(self.start)
            self.release_look(self.start, clip, *pair)
            self._settle(_ROUNDS)
            if k + 1 < len(pairs):
                clip = self._clip(pairs[k + 1][0])

    @property
    def dispersion(self):
        return self.phi.value

    def _settle(self, rounds):
        """Find the mode, and the dispersion that follows from it."""
        for turn in range(2):
            settled = settle(self.surrogate(), rounds)
            self.start, self.scales = settled.start, settled.scales
            if turn == 0:
                self.phi = self._dispersion(settled)
        self.last = settled
        return settled

    def _doubts(self, settled):
        """Deviations of the logits of rows."""
        covariance = np.linalg.inv(settled.information(settled.start))
        rows = self.population.rows
        return np.minimum(np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", rows, covariance, rows), 0.0)), 1.5)

    def _dispersion(self, settled):
        normal = np.random.default_rng(2).standard_normal(len(self.population.rows))
        step = max(1, len(normal) // 64)
        logits = self.population.logits(self.start) + normal * self._doubts(settled)
        margins = [self.histogram]
        along = None
        constant = self.plan.bounds.constant
        for look in self.looks[-2:]:
            if constant:
                w = np.linalg.solve(self.transform, np.eye(len(self.transform))[-1]) / constant
                w = np.linalg.inv(self.transform)[:, -1] / constant
                along = float(w @ look.value) / self.n_records, float(np.linalg.norm(w)) * look.noise / self.n_records
            margins.append(of_look(look, self.population.weights[::step], self.population.centres(look.point)[::step], self.family.max_count, along))
        return estimated(margins, logits[::step], self.n_records, bool(constant))

    def _clip(self, multiplier):
        settled = self.last
        deviations = self._doubts(settled)
        counts, means = self.population.simulated(self.start, deviations, self.dispersion, np.random.default_rng(0))
        centres = np.broadcast_to(self.population.centres(self.start), counts.shape)
        return self._best_clip(counts.ravel(), means.ravel(), centres.ravel(), multiplier, self._leaning)

    def _leaning(self, clip, point=None):
        """What a deviation of the dispersion changes of a look at a point, over the number of records."""
        step = max(1, len(self.population.rows) // 200)
        rows, weights = self.population.rows[::step], self.population.weights[::step]
        means = np.exp(np.minimum(self.population.logits(self.start), 30.0))[::step]
        centres = self.population.centres(self.start if point is None else point)[::step]
        low = max(1.0, self.phi.value - self.phi.doubt)
        ends = [clipped_count(means, centres, clip, d, self.family.max_count)[0] for d in (low, low + 2 * self.phi.doubt)]
        return 0.5 * (weights * (ends[1] - ends[0])) @ rows / len(rows)

    def _best_clip(self, counts, means, centres, multiplier, leaning=None):
        top = max(self.family.max_count, 2 * _LEAST_CLIP)
        clips = np.geomspace(_LEAST_CLIP, top, 40)
        reach = (self.largest * self.moved * self.norm * multiplier * clips) ** 2
        psi = np.clip(counts - centres, -clips[:, None], clips[:, None])
        square = np.mean(psi**2, axis=1)
        # The slope of a clipped mean by a logit.
        slope = np.mean(psi * (counts - means), axis=1) - np.mean(psi, axis=1) * np.mean(counts - means)
        if leaning is not None:
            reach = reach + np.array([np.mean((self.n_records * leaning(c)) ** 2) for c in clips])
        return float(clips[np.argmin((reach + self.n_records * square) / np.maximum(slope, 1e-12) ** 2)])

    def surrogate(self):
        looks, population, basis = self.looks[-_USED:], self.population, self.curvature.basis
        length = len(self.transform)
        centres = np.array([population.logits(look.point) for look in looks]).reshape(len(looks), -1)
        tables = np.array([self._table(look, c) for look, c in zip(looks, centres)])
        points = np.array([look.point for look in looks]).reshape(-1, length)
        origins = np.array([population.seen(p[None], c[None], t[None])[0][0, 0] for p, c, t in zip(points, centres, tables)]).reshape(-1, length)
        return CountSurrogate(population, self.curvature, self.prior, self.scales, centres, tables, origins,
            np.array([look.value for look in looks]).reshape(-1, length), self._blocks(looks, basis), self.start)

    def _table(self, look, centres):
        cache = self.__dict__.setdefault("_cache", {})
        key = id(look), round(math.log(self.dispersion) * 20)
        if key not in cache:
            cache[key] = tabulated(centres, self.family.slope_bound, look.clip, math.exp(key[1] / 20), self.family.max_count), look
        return cache[key][0]

    def _blocks(self, looks, basis):
        population = self.population
        counts, means = population.simulated(self.start, np.zeros(len(population.rows)), self.dispersion, np.random.default_rng(1))
        psi = []
        for look in looks:
            c = population.centres(look.point)
            mean = clipped_count(means[0], c, look.clip, self.dispersion, population.largest)[0]
            psi.append(np.clip(counts - c, -look.clip, look.clip) - mean)
        psi = np.array(psi)
        turned = (population.weights[:, None] * (population.rows @ basis)) ** 2
        cov = np.einsum("krp,lrp->klp", psi, psi) / psi.shape[1]
        blocks = self.population.size * np.einsum("klp,pi->ikl", cov, turned) * (self.curvature.values / self.curvature.own)[:, None, None]
        leaning = np.array([self.n_records * self._leaning(look.clip, look.point) @ basis for look in looks]).reshape(len(looks), -1)
        blocks += np.einsum("ki,li->ikl", leaning, leaning)
        own = np.arange(len(looks))
        blocks[:, own, own] += np.array([look.noise**2 for look in looks])
        return blocks
