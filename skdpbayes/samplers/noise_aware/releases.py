"""The releases of a noise-aware posterior, one after the other.

    A  ->  W, C  ->  t  ->  a_1 at the mode given t, a_2 at the mode given a_1, too, ...,  F with some of them

Each is a sum over records with Gaussian noise, on a lattice. What comes between follows from them alone.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ..._linalg import eigh
from ...targets import second_moment
from ...targets.linear.weighted import reweighted, weighted_scores, weighted_sums
from .._machinery.execution import progress_bar, single_threaded_blas
from .._machinery.lattice import release_moment, release_vector
from .._machinery.shards import mapped, total
from .._paid_noise import free_shift
from .._protocol import Released
from .coordinates import coordinates_for
from .design import (
    Design,
    estimate_design,
    hidden_columns,
    number_of_records,
    share_of_a_direction,
    share_of_norm,
    with_constant,
)
from .draws import settle
from .misfit import learn_misfit
from .plan import CLIPPING, N_ROWS, released_moment
from .population import make_population
from .posterior import Posterior, deviations_in_common
from .rarest import rarest_class
from .scales import prior_of
from .sensitivity import joint_multiplier, noise_factor
from .surrogate import Surrogate

# Least eigenvalue of a curvature, relative to the mean: there may be directions of which records say nothing.
_LEAST_EIGENVALUE = 1e-4
# By what rounding may enlarge noise if curvatures are summed before they are transformed.
_EARLY = 1.0 + 2.0**-10
# How many rounds look for the likeliest prior scales before each look.
_ROUNDS = 3


@single_threaded_blas()  # Blocks of rows are not worth more.
def run_noise_aware(plan, target, generator, verbose):
    """Carry out a `NoiseAwarePlan`."""
    with progress_bar(plan.n_steps, plan.name, verbose) as advance:
        released = Releases(plan, target, generator, advance)
        released.look_around()
        posterior = released.posterior()
    draws = posterior.draw(plan.n_draws, generator)
    other = {
        "second_moment": released.moment,
        "posterior": posterior,
        **released.shares,
    }
    if constant := plan.bounds.constant:
        other["rarest_class"] = rarest_class(posterior, draws, constant)
    return Released(draws, plan, {"unit": np.ones(plan.n_parameters)}, other)


class NoisyValue(NamedTuple):
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
        self.looks, self.curvatures = [], []
        self._release_moment()
        self.target = mapped(reweighted, target, *self._own, instead=True)
        advance()

    @property
    def _own(self):
        """Coordinates, and the norm of records in them."""
        return self.coordinates.transform, self.coordinates.norm

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
        of_rows = release_design(plan, self.target, self.generator)
        self.advance()
        self.moment, self.moment_noise, design, n_records, self.shares = of_rows
        self.coordinates = coordinates_for(design, self.moment_noise, bounds, n_records, CLIPPING)
        transform = self.coordinates.transform
        precisions = self.target.prior_precision[: len(transform)]
        self.prior = prior_of(bounds, self.family.n_blocks, precisions, transform)
        self.scales = self.prior.usual
        noise = self.moment_noise / n_records * np.sum(transform**2, axis=0)
        moments = np.sum(transform * (design.second_moment @ transform), axis=0)
        self.doubts = (noise / np.maximum(moments, 1e-300)) ** 2
        self.population = make_population(
            design,
            transform,
            self.family,
            self.coordinates.norm,
            n_records,
            N_ROWS,
        )

    def _room(self, theta):
        """Return by what rounding may enlarge what a record moves, relative to a score."""
        of_gradient = self.coordinates.inflation(self.plan, theta) - 1.0
        return 1.0 + of_gradient * self.family.residual_bound / self.family.score_bound

    def release_labels(self):
        """Release the sum of weighted labels, which is minus the gradient at zero."""
        family, (transform, norm) = self.family, self._own
        zero = np.zeros((family.n_blocks, len(transform)))
        gradient, _ = total(weighted_sums, self.target, family, None, zero, curvature=False)
        moved = self.plan.budget.records_moved * self.largest
        bound = moved * family.score_bound * norm * self._room(zero)
        self.label_noise = bound / free_shift(self.plan.label_multiplier, zero.size)
        labels = -(gradient @ transform).ravel()
        mu = 1.0 / self.plan.label_multiplier
        # Proposition 32.
        self.labels = release_vector(labels, self.label_noise, self.generator, mu=mu)
        self.advance()

    def release(self, point, multiplier, curvature_multiplier=None):
        """Release the score at ``point``, and a curvature if it is wanted."""
        family, (transform, norm) = self.family, self._own
        moved = self.plan.budget.records_moved
        theta = point.reshape(family.n_blocks, -1) @ transform.T
        wanted = curvature_multiplier is not None
        score, matrix, room = self._sums(theta, wanted)
        factor = self.largest * noise_factor(
            family,
            self.coordinates.reach(family, point, theta),
            moved == 2,
            (multiplier, curvature_multiplier),
            room,
            theta.size + wanted * theta.size**2,
        )
        noise = moved * family.score_bound * norm * factor * multiplier
        mu = 1.0 / joint_multiplier(family, multiplier, curvature_multiplier)
        # Propositions 32 and 71.
        score = release_vector(score, noise, self.generator, mu=mu)
        self.looks.append(NoisyValue(point, score, noise))
        if wanted:
            bound = math.sqrt(moved) * family.slope_bound * norm**2
            noise = bound * factor * curvature_multiplier
            # Propositions 32 and 71.
            matrix = release_moment(matrix, noise, self.generator, mu=mu, is_joint=True)
            self.curvatures.append(NoisyValue(point, matrix, noise))
        self.advance()

    def _sums(self, theta, wanted):
        """Return the score and the curvature at ``theta``, or None, and by what rounding may enlarge them."""
        transform, family = self.coordinates.transform, self.family
        room, of_matrix = self._room(theta), self.coordinates.inflation(self.plan, theta, power=2)
        # Curvatures in the coordinates of the rows take half the time.
        early = wanted and of_matrix <= _EARLY
        score, matrix = total(
            weighted_scores,
            self.target,
            family,
            theta,
            None if early else transform,
            curvature=wanted,
        )
        if early:
            room = max(room, of_matrix)
            blocks = np.kron(np.eye(family.n_blocks), transform)
            matrix = blocks.T @ matrix @ blocks
            matrix = 0.5 * (matrix + matrix.T)
        return (score @ transform).ravel(), matrix, room

    def look_around(self):
        """Release labels, and scores at one mode after the other, with curvatures on the way."""
        plan = self.plan
        self.release_labels()
        for pair in zip(plan.score_multipliers, plan.curvature_multipliers, strict=True):
            settled = settle(self.surrogate(), _ROUNDS)
            self.scales = settled.scales
            self.release(settled.start, *pair)

    def surrogate(self):
        """Return what is believed given all that is released."""
        population, size = self.population, self.labels.size
        last = self.looks[-1].point if self.looks else np.zeros(size)
        misfit = learn_misfit(population, self.looks, self.curvatures, last, self.doubts)
        at = population.at(np.array([last]))
        matrix = population.curvature(last)
        matrix = matrix + misfit.mean @ matrix
        values, basis = eigh(0.5 * (matrix + matrix.T))
        values = np.maximum(values, _LEAST_EIGENVALUE * max(values.mean(), 1e-300))
        return Surrogate(
            population=population,
            prior=self.prior,
            scales=self.scales,
            target=self.labels,
            noise=self.label_noise,
            misfit=misfit,
            origin=population.origin,
            slope=float(population.mean_variance(at)[0]),
            basis=basis,
            sampling=values,
            start=last,
        )

    def posterior(self):
        """Return the `Posterior` that all releases amount to."""
        settled = settle(self.surrogate(), 2 * _ROUNDS)
        shift = deviations_in_common(self.target, self.family, settled.scales)
        transform, norm = self._own
        return Posterior(settled, transform, norm, shift)


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
    shares : dict of {str: float or ndarray}
        Of what second moments can be at most: along a direction, and of the trace; and ``hidden_columns``.
    """

    moment: np.ndarray
    noise: float
    design: Design
    n_records: float
    shares: dict[str, Any]


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
    largest, is_weighted = bounds.max_weight or 1.0, bounds.max_weight is not None
    norm, constant, noise = released_moment(plan)
    moment = total(_moment, target, constant, is_weighted)
    mu = 1.0 / plan.moment_multiplier
    moment = release_moment(moment, noise, generator, mu=mu)  # Proposition 32.
    n_records = plan.n_samples
    if is_weighted:  # Records are as many as they count.
        n_records *= 0.5 * largest
    is_exact = not is_weighted and plan.budget.neighboring_relation == "replace_one"
    known = moment, noise, constant
    shares = {
        share.__name__: share(*known, norm, n_records, is_exact)
        for share in (share_of_a_direction, share_of_norm)
    }
    if not is_exact:
        n_records = number_of_records(*known, n_records)
    shares["hidden_columns"] = hidden_columns(*known, norm, n_records)
    design = estimate_design(*known, norm, n_records)
    if bounds.constant:
        design = with_constant(design, constant)
    return ReleasedDesign(moment, noise, design, n_records, shares)


def _moment(target, constant, is_weighted):
    return second_moment(target, constant, target.weights if is_weighted else None)
