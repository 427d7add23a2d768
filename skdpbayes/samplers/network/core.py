"""Running a calibrated network: see `skdpbayes.samplers.network.plan` for what it costs.

The scale goes into the weights of the last layer, and into its biases: calibrated draws are those of a network.
"""

from dataclasses import replace

import numpy as np

from ...targets._rows import read_only
from ...targets.layers import ROW_NORM
from .choice import choose_even
from .plan import LOG_WEIGHTS_OF_NORMS, LOG_WEIGHTS_OF_SCALES, NORMS, SCALES
from .statistics import confidence_sums, norm_sums

# Draws of a path are alike: confidence is averaged over so many of them.
_SOME_DRAWS = 10


def run_network(plan, target, generator, verbose):
    """Carry out a `NetworkPlan`."""
    of_norm, of_scale = plan.log_odds_ranges
    moved = plan.budget.records_moved
    sums = norm_sums(target, ROW_NORM * NORMS)
    norm = NORMS[choose_even(sums, LOG_WEIGHTS_OF_NORMS, of_norm, moved, generator)]
    target = target._replace(values=read_only(target.values * np.float32(1.0 / norm)))
    released = plan.path.sampler.run(plan.path, target, generator, verbose)
    sums = confidence_sums(target, _some(released.draws), SCALES.astype(np.float32))
    scale = SCALES[choose_even(sums, LOG_WEIGHTS_OF_SCALES, of_scale, moved, generator)]
    factors = np.ones(plan.n_parameters)
    factors[-(target.sizes[-2] + 1) * target.sizes[-1] :] = scale
    return released._replace(
        draws=released.draws * factors,
        plan=replace(plan, path=released.plan),
        parameters={name: factors * vector for name, vector in released.parameters.items()},
        other={**released.other, "row_norm": float(norm), "logit_scale": float(scale)},
    )


def _some(draws):
    step = -(-len(draws) // _SOME_DRAWS)
    return np.ascontiguousarray(draws[step // 2 :: step], dtype=np.float32)
