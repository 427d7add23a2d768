"""The releases of a noise-aware posterior, one after the other.

    A  ->  W, C  ->  g_0 at 0, g_1 at the mode given g_0, ...  ->  g_4 and F  ->  ...  ->  g_8 and F

Each is a sum over records with Gaussian noise, on a lattice. What comes between follows from them alone.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ...targets import second_moment
from ...targets.linear.weighted import reweighted, weighted_sums
from .._machinery.execution import progress_bar
from .._machinery.lattice import release_moment, release_vector
from .._machinery.shards import mapped, total
from .._protocol import Released
from ..fisher.plan import moment_noise
from .coordinates import whiten
from .curvature import curvature_of
from .design import (
    estimate_design,
    number_of_records,
    share_of_a_direction,
    with_constant,
)
from .draws import find_mode
from .plan import CLIPPING, N_ROWS
from .posterior import Posterior, deviations_in_common
from .sensitivity import noise_factor
from .surrogate import Surrogate, make_population


@threadpool_limits.wrap(limits=1, user_api="blas")  # Blocks of rows are not worth more.
def run_noise_aware(plan, target, generator, verbose):
    """Carry out a `NoiseAwarePlan`."""
    with progress_bar(plan.n_steps, plan.name, verbose) as advance:
        released = Releases(plan, target, generator, advance)
        released.look_around()
        posterior = released.posterior()
    draws = posterior.draw(plan.n_draws, generator)
    other = {
        "second_moment": released.moment,
        "share_of_a_direction": released.share_of_a_direction,
        "posterior": posterior,
    }
    return Released(draws, plan, {"unit": np.ones(plan.n_parameters)}, other)


class NoisyGradient(NamedTuple):
    """What was released at a point, and the deviation of its noise.

    Off the diagonal of a matrix it is ``1 / sqrt(2)`` of that.
    """

    point: np.ndarray
    value: np.ndarray
    noise: float


class Releases:
    """What has been released, and what is believed given it.

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
        self.looks, self.curvatures, self.curvature = [], [], None
        self._release_moment()
        transform, norm = self.coordinates.transform, self.coordinates.norm
        self.target = mapped(reweighted, target, transform, norm)
        advance()

    @property
    def is_weighted(self):
        """Whether records have weights of their own."""
        return self.plan.bounds.max_weight is not None

    @property
    def largest(self):
        """The most that a record counts."""
        return self.plan.bounds.max_weight or 1.0

    def _release_moment(self):
        """Release the second moment, and fix coordinates and a population by it."""
        plan, bounds = self.plan, self.plan.bounds
        constant = bounds.constant or bounds.row_norm / 2.0
        norm = math.sqrt(max(bounds.row_norm**2 - bounds.constant**2, 0.0))
        grown = bounds._replace(
            row_norm=math.hypot(norm, constant), n_parameters=bounds.n_parameters + bounds.n_blocks
        )
        self.moment_noise = moment_noise(grown, plan.n_samples, plan.budget, plan.moment_multiplier)
        self.moment_noise *= self.largest
        moment = total(_moment, self.target, constant, self.is_weighted)
        self.moment = release_moment(moment, self.moment_noise, self.generator)  # Proposition 32.
        self.advance()
        n_records = plan.n_samples
        if self.is_weighted:  # Records are as many as they count.
            n_records *= 0.5 * self.largest
        is_exact = not self.is_weighted and plan.budget.neighboring_relation == "replace_one"
        known = self.moment, self.moment_noise, constant
        self.share_of_a_direction = share_of_a_direction(*known, norm, n_records, is_exact)
        if not is_exact:
            n_records = number_of_records(*known, n_records)
        design, of_mean = estimate_design(self.moment, self.moment_noise, constant, norm, n_records)
        if bounds.constant:
            design = with_constant(design, of_mean, constant)
        self.coordinates = whiten(design, self.moment_noise, bounds, n_records, CLIPPING)
        transform = self.coordinates.transform
        self.uncertainty = (transform**2).T @ design.uncertainty @ transform**2
        self.prior = (transform.T * self.target.prior_precision[: len(transform)]) @ transform
        self.population = make_population(
            design,
            transform,
            self.family,
            self.coordinates.norm,
            n_records,
            N_ROWS,
            np.random.default_rng(0),
        )

    def release(self, point, multiplier, curvature_multiplier=None):
        """Add a look at ``point``, and a curvature if it is wanted."""
        family, transform, norm = self.family, self.coordinates.transform, self.coordinates.norm
        moved = self.plan.budget.records_moved
        theta = point.reshape(family.n_blocks, -1) @ transform.T
        wanted = curvature_multiplier is not None
        gradient, matrix = total(
            weighted_sums, self.target, family, None, theta, transform, curvature=wanted
        )
        factor = self.largest * noise_factor(
            family,
            self.coordinates.reach(family, point, theta),
            moved == 2,
            (multiplier, curvature_multiplier),
            self.coordinates.inflation(self.plan, theta),
            theta.size + wanted * theta.size**2,
        )
        noise = moved * family.residual_bound * norm * factor * multiplier
        # Propositions 32 and 71.
        gradient = release_vector((gradient @ transform).ravel(), noise, self.generator)
        self.looks.append(NoisyGradient(point, gradient, noise))
        if wanted:
            bound = math.sqrt(moved) * family.slope_bound * norm**2
            noise = bound * factor * curvature_multiplier
            # Propositions 32 and 71.
            look = NoisyGradient(point, release_moment(matrix, noise, self.generator), noise)
            self.curvatures.append(look)
            self.curvature = self._curvature_at(point).given(look.value, look.noise)
        self.advance()

    def look_around(self):
        """Release gradients at one mode after the other, and curvatures on the way."""
        plan, point = self.plan, np.zeros(self.family.n_blocks * len(self.prior))
        multipliers = zip(plan.gradient_multipliers, plan.curvature_multipliers, strict=True)
        for k, pair in enumerate(multipliers):
            if k:
                point = find_mode(self._guess())
            self.release(point, *pair)

    def _guess(self):
        """Return what is believed given all looks; before a curvature is released, as if there were no ``E``.

        Until then the population is the table: the next look tells how far it is not.
        """
        found = self.surrogate()
        return found if self.curvature else replace(found, spread=np.zeros_like(found.spread))

    def _curvature_at(self, point):
        """Return what is believed of the curvature at ``point``, before it is released there."""
        if self.curvature is None:
            return curvature_of(self.population, point, self.uncertainty)
        return self.curvature.at(self.population, point)

    def surrogate(self):
        """Return what is believed given all that is released."""
        points, gradients, noises = (np.array(part) for part in zip(*self.looks, strict=True))
        population, last = self.population, points[-1]
        curvature = self.curvature or self._curvature_at(last)
        # What is not known of a look that is far from the last counts as noise: of the curvature, and as much
        # as the score of the population bends on the way.
        away, scores = points - last, population.score(population.probabilities(points))
        bends = scores - scores[-1] - away @ curvature.of_population
        variances = curvature.variances
        squares = noises**2 + variances.mean() * np.sum(away**2, axis=1)
        squares += np.mean(bends**2, axis=1)
        shares = squares**-1.0 / np.sum(squares**-1.0)
        return Surrogate(
            population=population,
            prior=self.prior,
            look=shares @ (gradients - scores),
            centre=shares @ points,
            variance=float(1.0 / np.sum(squares**-1.0)),
            slope=curvature.slope,
            basis=curvature.basis,
            correction=curvature.correction,
            sampling=curvature.values,
            spread=variances.mean(axis=1) / math.sqrt(variances.mean()),
            start=last,
        )

    def posterior(self):
        """Return the `Posterior` that all releases amount to."""
        return Posterior(
            self.surrogate(),
            self.coordinates.transform,
            self.coordinates.norm,
            deviations_in_common(self.target, self.family),
        )


def _moment(target, constant, is_weighted):
    return second_moment(target, constant, target.weights if is_weighted else None)
