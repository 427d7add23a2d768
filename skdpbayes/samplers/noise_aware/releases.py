"""The releases of a noise-aware posterior, one after the other.

    A  ->  W, C  ->  g_0 at 0, g_1 at the mode given g_0, ...  ->  F with g_4  ->  ...  ->  m  ->  g at m

Each is a sum over records with Gaussian noise, on a lattice. What comes between follows from them alone.
"""

import math
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from ...privacy.floating_point import lattice_spacing
from ...targets import second_moment
from ...targets._links import slope_matrix
from ...targets._weighted import record_weights, weighted_sums
from .._machinery.execution import progress_bar
from .._machinery.lattice import on_lattice
from .._protocol import Released
from ..fisher.core import release_moment
from ..fisher.plan import moment_noise
from ..langevin.at_noise import free_shift
from .coordinates import whiten
from .curvature import correct, of_moments, prior_variances
from .design import estimate_design, number_of_records, with_constant
from .draws import find_mode
from .plan import CLIPPING, CURVATURE_AT, N_ROWS
from .posterior import Posterior, unit_scales
from .surrogate import Surrogate, make_population


@threadpool_limits.wrap(limits=1, user_api="blas")  # Blocks of rows are not worth more.
def run_noise_aware(plan, target, generator, verbose):
    """Carry out a `NoiseAwarePlan`."""
    with progress_bar(plan.n_steps, plan.name, verbose) as advance:
        released = Releases(plan, target, generator, advance)
        released.look_around()
        posterior = released.posterior()
    draws = posterior.draw(plan.n_draws, generator)
    other = {"second_moment": released.moment, "posterior": posterior}
    return Released(draws, plan, {"unit": np.ones(plan.n_parameters)}, other)


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
        self.link = plan.link
        self.looks = []
        self._release_moment()
        self.weights = record_weights(target, self.coordinates.transform, self.coordinates.norm)
        advance()

    def _release_moment(self):
        """Release the second moment, and fix coordinates and a population by it."""
        plan, bounds = self.plan, self.plan.bounds
        constant = bounds.constant or bounds.row_norm / 2.0
        norm = math.sqrt(max(bounds.row_norm**2 - bounds.constant**2, 0.0))
        self.moment_bounds = bounds._replace(
            row_norm=math.hypot(norm, constant), n_parameters=bounds.n_parameters + bounds.n_blocks
        )
        self.moment_noise = moment_noise(
            self.moment_bounds, plan.n_samples, plan.budget, plan.moment_multiplier
        )
        moment = second_moment(self.target, constant)
        self.moment = release_moment(moment, self.moment_noise, self.generator)
        self.advance()
        n_records = plan.n_samples
        if plan.budget.neighboring_relation == "add_or_remove_one":
            n_records = number_of_records(self.moment, self.moment_noise, constant, n_records)
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
            self.link,
            self.coordinates.norm,
            n_records,
            N_ROWS,
            np.random.default_rng(0),
        )

    def release(self, point, multiplier, curvature_multiplier=None):
        """Add a look at ``point``; return a curvature and the deviation of its noise if it is wanted."""
        plan, transform, norm = self.plan, self.coordinates.transform, self.coordinates.norm
        moved = plan.budget.records_moved
        theta = point.reshape(self.link.n_blocks, -1) @ transform.T
        room = self.coordinates.inflation(plan, theta)
        wanted = curvature_multiplier is not None
        gradient, matrix = weighted_sums(
            self.target, self.link, self.weights, theta, transform if wanted else None
        )
        noise = noise_for(moved * self.link.residual_bound * norm * room, multiplier, theta.size)
        gradient = release_vector((gradient @ transform).ravel(), noise, self.generator)
        self.looks.append((point, gradient, noise))
        self.advance()
        if not wanted:
            return None
        bound = math.sqrt(moved) * self.link.slope_bound * norm**2 * room
        noise = noise_for(bound, curvature_multiplier, theta.size**2)
        return release_moment(matrix, noise, self.generator), noise

    def look_around(self):
        """Release gradients at one mode after the other, and a curvature on the way."""
        plan, point = self.plan, np.zeros(self.link.n_blocks * len(self.prior))
        for multiplier in plan.pilot_multipliers[:CURVATURE_AT]:
            self.release(point, multiplier)
            # As if the population were the table: the next look tells how far it is not.
            point = find_mode(replace(self.surrogate(), spread=np.zeros(point.size)))
        multipliers = (*plan.pilot_multipliers[CURVATURE_AT:], plan.gradient_multiplier)
        self.curvature = self.release(point, multipliers[0], plan.curvature_multiplier)
        for multiplier in multipliers[1:]:
            self.release(find_mode(self.surrogate(self.curvature)), multiplier)

    def surrogate(self, curvature=None):
        """Return what is believed given all looks, and a curvature at the last if there is one."""
        points, gradients, noises = (np.array(part) for part in zip(*self.looks, strict=True))
        population, last = self.population, points[-1]
        probabilities = population.probabilities(points)
        here = probabilities[min(len(points) - 1, CURVATURE_AT)]
        expected = (
            slope_matrix(self.link, here, population.weights, population.rows) * population.size
        )
        known = of_moments(population, here, self.uncertainty)
        if curvature is None:
            basis, correction = np.eye(last.size), np.zeros((last.size, last.size))
            variances, eigenvalues = prior_variances(expected, known), np.diag(expected)
        else:
            correction, variances, basis, eigenvalues = correct(*curvature, expected, known)
            variances = (basis**2).T @ variances @ basis**2
        # What is not known of a look that is far from the last counts as noise: of the curvature, and half
        # of how the score of the population bends on the way.
        away, scores = points - last, population.score(probabilities)
        bends = scores - scores[-1] - away @ expected
        squares = noises**2 + variances.mean() * np.sum(away**2, axis=1)
        squares += np.mean(bends**2, axis=1) / 4.0
        shares = squares**-1.0 / np.sum(squares**-1.0)
        return Surrogate(
            population=population,
            prior=self.prior,
            look=shares @ (gradients - scores),
            centre=shares @ points,
            variance=float(1.0 / np.sum(squares**-1.0)),
            slope=float(population.mean_slope(here[None])[0]),
            basis=basis,
            correction=correction,
            sampling=eigenvalues,
            spread=variances.mean(axis=1) / math.sqrt(max(variances.mean(), 1e-300)),
            start=last,
        )

    def posterior(self):
        """Return the `Posterior` that all releases amount to."""
        return Posterior(
            self.surrogate(self.curvature),
            self.coordinates.transform,
            self.coordinates.norm,
            unit_scales(self.target, self.link),
        )


def noise_for(bound, multiplier, size):
    """Return the deviation of noise on ``size`` numbers for tables that are ``bound`` apart."""
    return bound / free_shift(multiplier, size)


def release_vector(vector, noise_scale, generator):
    """Return a vector with noise, both rounded to one lattice, on which their sum is exact."""
    spacing = lattice_spacing(noise_scale)
    noise = noise_scale * generator.standard_normal(vector.size)
    return on_lattice(vector, noise, spacing)
