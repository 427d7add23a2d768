"""Mixtures: a private start, a path in coordinates that are whitened around it, and back.

    start = f(S_1 + noise, S_2 + noise, ...),   path from theta = 0,   draws in canonical parameters

See `skdpbayes.privacy.mixture` for what it costs, `skdpbayes.targets.mixture` for the coordinates.
"""

import math

import numpy as np

from ..privacy.mixture import MixturePlan
from ..targets.mixture import (
    gradient_bound_at,
    mixture_target,
    parameters_of,
    prior_curvature_at,
)
from ._execution import progress_bar
from ._interface import Released, run
from ._mixture_start import find_start
from ._statistics import StatisticsReleases


@run.register
def _(plan: MixturePlan, target, generator, verbose):
    model = plan.model
    releases = StatisticsReleases(target, plan.n_samples, generator)
    with progress_bar(plan.start_passes, "start", verbose) as advance:
        start = find_start(model, plan.phases, releases, plan.n_samples, advance)
    origin = np.zeros(plan.bounds.n_parameters)
    halved = plan.halves_distances
    whitened = mixture_target(target, model, start, halved=halved)
    bound = gradient_bound_at(whitened, origin)
    path = plan.complete(bound, prior_curvature_at(whitened))
    if not math.isinf(plan.budget.epsilon):
        bound = path.bounds.gradient_bound
        whitened = mixture_target(target, model, start, bound, halved)
    draws = run(path, whitened, generator, verbose)
    return Released(parameters_of(whitened, model, draws), path, {})
