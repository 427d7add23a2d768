"""The releases of a noise-aware posterior, one after the other.

    A  ->  W, C  ->  g_1 at 0, g_2 at the mode given g_1, ...  ->  m  ->  F and g at m

Each is a sum over records with Gaussian noise, on a lattice. What comes between follows from them alone.
"""

import numpy as np

from ...privacy.floating_point import lattice_spacing
from ...targets import second_moment
from ...targets._weighted import record_weights, weighted_sums
from .._machinery.execution import progress_bar
from .._machinery.lattice import on_lattice
from .._protocol import Released
from ..fisher.core import release_moment
from ..fisher.plan import moment_noise
from .plan import noise_for, whiten
from .surrogate import Surrogate, draw, find_mode


def run_noise_aware(plan, target, generator, verbose):
    """Carry out a `NoiseAwarePlan`."""
    with progress_bar(plan.n_steps, plan.name, verbose) as advance:
        surrogate, moment = release_all(plan, target, generator, advance)
    draws = draw(surrogate, plan.n_draws, generator)
    parameters = {"unit": np.ones(plan.n_parameters)}
    return Released(draws, plan, parameters, {"second_moment": moment, "surrogate": surrogate})


def release_all(plan, target, generator, advance=lambda: None):
    """Return (the `Surrogate` that all releases amount to, the released second moment)."""
    length, moved = plan.n_parameters, plan.budget.records_moved
    noise = moment_noise(plan.bounds, plan.n_samples, plan.budget, plan.moment_multiplier)
    moment = release_moment(second_moment(target), noise, generator)
    advance()
    coordinates = whiten(plan, moment, noise)
    transform, norm = coordinates.transform, coordinates.norm
    weights = record_weights(target, transform, norm)
    advance()

    def release(point, multiplier, curvature_multiplier=None):
        theta = transform @ point
        room = coordinates.inflation(plan, theta)
        gradient, matrix = weighted_sums(target, weights, theta, curvature_multiplier is not None)
        noise = noise_for(moved * norm * room, multiplier, length)
        gradient = release_vector(transform.T @ gradient, noise, generator)
        advance()
        if matrix is None:
            return gradient, noise
        bound = np.sqrt(moved) * norm**2 / 4.0 * room
        matrix_noise = noise_for(bound, curvature_multiplier, length**2)
        matrix = transform.T @ matrix @ transform
        return gradient, noise, release_moment(matrix, matrix_noise, generator), matrix_noise

    prior = (transform.T * target.prior_precision) @ transform
    points, gradients, noises = [np.zeros(length)], [], []
    for multiplier in plan.pilot_multipliers:
        gradient, noise = release(points[-1], multiplier)
        gradients.append(gradient)
        noises.append(noise)
        points.append(find_mode(plan.n_samples, coordinates.seen, prior, points, gradients, noises))
    gradient, noise, curvature, matrix_noise = release(
        points[-1], plan.gradient_multiplier, plan.curvature_multiplier
    )
    surrogate = Surrogate(
        n_samples=plan.n_samples,
        transform=transform,
        seen=coordinates.seen,
        prior=prior,
        points=np.array(points),
        gradients=np.array([*gradients, gradient]),
        noises=np.array([*noises, noise]),
        curvature=curvature,
        curvature_noise=float(matrix_noise),
    )
    return surrogate, moment


def release_vector(vector, noise_scale, generator):
    """Return a vector with noise, both rounded to one lattice, on which their sum is exact."""
    spacing = lattice_spacing(noise_scale)
    noise = noise_scale * generator.standard_normal(vector.size)
    return on_lattice(vector, noise, spacing)
