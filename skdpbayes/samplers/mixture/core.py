"""Running a mixture's start and its path: see `skdpbayes.samplers.mixture.plan` for what they cost.

start = f(S_1 + noise, S_2 + noise, ...),   path from theta = 0,   draws in canonical parameters
"""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...targets.mixture.target import (
    Components,
    bound_near,
    mixture_target,
    pack_mixture,
    place_in,
    prior_curvature_at,
)
from .._machinery.execution import progress_bar
from .._machinery.gradients import gradient_oracle, table_at
from .path import complete_path
from .start import find_start
from .statistics import StatisticsReleases

# Random walks keep within this distance of the start, in units of a component's own width; logarithms
# of weights and of scales likewise.
WALK_LIMIT = 0.25
# Public points around the start at which bounds of gradients are computed, and the share that is covered.
_N_SIMULATED, _SHARE_COVERED = 20, 0.9
# Where all draws have gradients scaled down by this, they follow a posterior of a higher temperature.
_WORTH_SAYING = 0.9


def places(target, points):
    """Return the mixtures at some points, and by what gradients are scaled there."""
    oracle, _ = gradient_oracle(target, points.shape[1], 1, sums_only=True)
    return [place_in(target, table_at(oracle, theta)) for theta in points]


def run_mixture(plan, target, generator, verbose):
    """Carry out a `MixturePlan`."""
    model = plan.model
    releases = StatisticsReleases(target, plan.n_samples, generator)
    with progress_bar(plan.start_passes, "start", verbose) as advance:
        start = find_start(model, plan.phases, releases, plan.n_samples, advance)
    path, whitened = _path(plan, target, start)
    released = path.sampler.run(path, whitened, generator, verbose)
    found = places(whitened, released.draws)
    if plan.walk is None:
        _tell_scale(float(np.median([place.scaling[1] for place in found])))
    draws = [
        pack_mixture(Components(place.log_weights, place.means, place.factors), model)
        for place in found
    ]
    return released._replace(draws=np.array(draws))


def _tell_scale(scale):
    if scale < _WORTH_SAYING:
        warnings.warn(
            "some draws went so far from the start that their gradients were scaled by "
            f"{scale:.2g} to keep the guarantee. The draws are as wide as at a temperature that "
            "is higher by the same factor. Take more "
            "rows, a simpler covariance_type, or a larger epsilon.",
            ConvergenceWarning,
            stacklevel=2,
        )


def _path(plan, table, start):
    """Return the plan of the path, and the target in coordinates around its start."""
    model = plan.model
    if plan.walk is not None:
        whitened = mixture_target(table, model, start, limit=WALK_LIMIT)
        bound = bound_near(whitened, WALK_LIMIT)
        return plan.complete_walk(bound), whitened._replace(gradient_bound=bound)
    whitened = mixture_target(table, model, start, halved=plan.halves_distances)
    # Public: fixed points.
    points = np.random.default_rng(0).standard_normal((_N_SIMULATED, plan.n_parameters))

    def bound_within(deviation):
        found = places(whitened, deviation * points)
        return float(np.quantile([place.scaling[0] for place in found], _SHARE_COVERED))

    curvature, steepness = prior_curvature_at(whitened), whitened.steepness
    path = complete_path(plan, plan.sampler.path, bound_within, curvature, steepness)
    if not plan.budget.is_private:
        return path, whitened
    return path, whitened._replace(gradient_bound=path.bounds.gradient_bound)
