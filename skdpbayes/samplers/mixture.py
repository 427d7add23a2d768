"""Mixtures: a private start, a path in coordinates that are whitened around it, and back.

    start = f(S_1 + noise, S_2 + noise, ...),   path from theta = 0,   draws in canonical parameters

See `skdpbayes.privacy.mixture` for what it costs, `skdpbayes.targets.mixture` for the coordinates.
"""

import math
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..privacy.mixture import WALK_LIMIT, MixturePlan
from ..privacy.mixture_sample import largest_factor
from ..targets.mixture import (
    components_at,
    largest_gradient,
    largest_gradient_near,
    mixture_target,
    pack_mixture,
    prior_curvature_at,
    shrinking,
    steepness_of,
)
from ._execution import progress_bar
from ._interface import CompiledCore, Released, run
from ._mixture_start import find_start, supported
from ._statistics import StatisticsReleases

# Public points around the start at which bounds of gradients are computed, and the share that is covered.
_N_SIMULATED, _SHARE_COVERED = 20, 0.9
# Where all draws have gradients scaled down by this, they follow a posterior of a higher temperature.
_WORTH_SAYING = 0.9


@CompiledCore
def _components(target, theta):
    return components_at(target, theta)[0]


@CompiledCore
def _gradient_bound(target, theta):
    components, local = components_at(target, theta)
    return largest_gradient(target, components, local, target.halved)


@CompiledCore
def _scale(target, theta):
    components, local = components_at(target, theta)
    return shrinking(target, components, local)


@CompiledCore
def _bound_near(target, theta, limit):
    components, local = components_at(target, theta)
    return largest_gradient_near(target, components, local, limit)


@run.register
def _(plan: MixturePlan, target, generator, verbose):
    model = plan.model
    releases = StatisticsReleases(target, plan.n_samples, generator)
    with progress_bar(plan.start_passes, "start", verbose) as advance:
        start = find_start(model, plan.phases, releases, plan.n_samples, advance)
    path, whitened = _path(plan, target, start)
    released = run(path, whitened, generator, verbose)
    other = {}
    if isinstance(released, Released):
        released, path, other = released
    if plan.sampler == "ops":
        path = plan
    elif plan.walk is None:
        _tell_scale(float(np.median([_scale(whitened, theta) for theta in released])))
    draws = np.array([pack_mixture(_components(whitened, theta), model) for theta in released])
    return Released(draws, path, other)


def _tell_scale(scale):
    if scale < _WORTH_SAYING:
        warnings.warn(
            f"the draws went so far from the start that gradients were scaled by {scale:.2g} there, to keep "
            "the guarantee: the draws are as wide as at a temperature that is higher by as much. Take more "
            "rows, a simpler covariance_type, or a larger epsilon.",
            ConvergenceWarning,
            stacklevel=2,
        )


def _path(plan, table, start):
    """Return the plan of the path, and the target in coordinates around its start."""
    model, origin = plan.model, np.zeros(plan.bounds.n_parameters)
    if plan.sampler == "ops":  # Nothing but the draws is released; the whole plan is what was done.
        support = largest_factor(model)
        whitened = mixture_target(table, model, supported(start, support), support=support)
        return plan.walk, whitened
    if plan.walk is not None:
        whitened = mixture_target(table, model, start, limit=WALK_LIMIT)
        bound = _bound_near(whitened, origin, WALK_LIMIT)
        return plan.complete_walk(bound), whitened._replace(gradient_bound=bound)
    halved = plan.halves_distances
    whitened = mixture_target(table, model, start, halved=halved)
    points = np.random.default_rng(0).standard_normal((_N_SIMULATED, origin.size))

    def bound_within(deviation):
        found = [_gradient_bound(whitened, deviation * point) for point in points]
        return float(np.quantile(found, _SHARE_COVERED))

    path = plan.complete(bound_within, prior_curvature_at(whitened), steepness_of(whitened))
    if math.isinf(plan.budget.epsilon):
        return path, whitened
    return path, whitened._replace(gradient_bound=path.bounds.gradient_bound)
