"""Running a calibrated network: see `skdpbayes.samplers.network.plan` for what it costs.

The scale goes into the weights and biases of the last layer: calibrated draws are those of a network.
"""

import numpy as np

from ..._mechanisms.even_choice import choose_even
from ...targets._rows import read_only
from ...targets.network.layers import ROW_NORM
from .plan import LOG_WEIGHTS_OF_NORMS, LOG_WEIGHTS_OF_SCALES, NORMS, SCALES
from .statistics import confidence_sums, norm_sums

# Draws of a path are alike: confidence is averaged over so many of them.
_SOME_DRAWS = 10


def release_norm(target, log_odds_range, records_moved, generator):
    """Return a typical norm of the rows, as a part of the bound on them."""
    sums = norm_sums(target, ROW_NORM * NORMS)
    # Proposition 34.
    chosen = choose_even(sums, LOG_WEIGHTS_OF_NORMS, log_odds_range, records_moved, generator)
    return float(NORMS[chosen])


def release_scale(target, draws, log_odds_range, records_moved, generator):
    """Return the factor of the logits at which the draws are about as sure as they are right."""
    step = -(-len(draws) // _SOME_DRAWS)
    some = np.ascontiguousarray(draws[step // 2 :: step], dtype=np.float32)
    sums = confidence_sums(target, some, SCALES.astype(np.float32))
    # Proposition 34.
    chosen = choose_even(sums, LOG_WEIGHTS_OF_SCALES, log_odds_range, records_moved, generator)
    return float(SCALES[chosen])


def run_network(plan, target, generator, verbose):
    """Carry out a `NetworkPlan`."""
    of_norm, of_scale = plan.log_odds_ranges
    moved = plan.budget.records_moved
    norm = release_norm(target, of_norm, moved, generator)
    target = target._replace(values=read_only(target.values * np.float32(1.0 / norm)))
    released = plan.path.sampler.run(plan.path, target, generator, verbose)
    scale = release_scale(target, released.draws, of_scale, moved, generator)
    factors = np.ones(plan.n_parameters)
    factors[-(target.sizes[-2] + 1) * target.sizes[-1] :] = scale
    return released._replace(
        draws=released.draws * factors,
        plan=plan.changed(path=released.plan, temperature=released.plan.temperature),
        parameters={name: factors * vector for name, vector in released.parameters.items()},
        other={**released.other, "row_norm": norm, "logit_scale": scale},
    )
