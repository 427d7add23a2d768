"""Mixtures: a private start, a path in coordinates that are whitened around it, and back.

    start = f(S_1 + noise, S_2 + noise, ...),   path from theta = 0,   draws in canonical parameters

See `skdpbayes.privacy.mixture` for what it costs, `skdpbayes.targets.mixture` for the coordinates.
"""

import math

import numpy as np

from ..privacy.mixture import MixturePlan
from ..targets.mixture import (
    components_at,
    largest_gradient,
    mixture_target,
    pack_mixture,
    prior_curvature_at,
)
from ._execution import progress_bar
from ._interface import CompiledCore, Released, run
from ._mixture_start import find_start
from ._statistics import StatisticsReleases


@CompiledCore
def _components(target, theta):
    return components_at(target, theta)[0]


@CompiledCore
def _gradient_bound(target, theta):
    components, local = components_at(target, theta)
    return largest_gradient(target, components, local, target.halved)


@run.register
def _(plan: MixturePlan, target, generator, verbose):
    model = plan.model
    releases = StatisticsReleases(target, plan.n_samples, generator)
    with progress_bar(plan.start_passes, "start", verbose) as advance:
        start = find_start(model, plan.phases, releases, plan.n_samples, advance)
    origin = np.zeros(plan.bounds.n_parameters)
    halved = plan.halves_distances
    whitened = mixture_target(target, model, start, halved=halved)
    bound = _gradient_bound(whitened, origin)
    path = plan.complete(bound, prior_curvature_at(whitened))
    if not math.isinf(plan.budget.epsilon):
        bound = path.bounds.gradient_bound
        whitened = mixture_target(target, model, start, bound, halved)
    draws = run(path, whitened, generator, verbose)
    draws = np.array([pack_mixture(_components(whitened, theta), model) for theta in draws])
    return Released(draws, path, {})
