"""Stochastic gradient Fisher scoring (SGFS): an underdamped chain in whitened coordinates.

    A = sum_i z_i z_i^T + noise,    theta = W u,    W = (A / n)^(-1/2)
    g(u) = W^T sum_i v_i grad ell_i,    v_i = min(1, C^2 / ||W^T z_i||^2)

See `skdpbayes.samplers.fisher.plan` for the floor of ``A``'s eigenvalues, ``C`` and the schedule, all of
which follow from the released matrix.

Ahn, Korattikara and Welling (2012).
"""

from ...targets import second_moment
from ...targets.linear.weighted import reweighted
from .._machinery.lattice import OfBlocks, release_moment
from .._machinery.shards import mapped, total
from .._protocol import Released
from ..langevin.underdamped import run_underdamped
from .plan import complete, shift_scale


def run_fisher(plan, chain, target, generator, verbose):
    """Release a second moment, and run an underdamped chain in the coordinates that it whitens."""
    own = total(second_moment, target)
    # Proposition 15.
    moment = release_moment(own, plan.moment_noise, generator, mu=plan.mu_of_matrix)
    path, transform, norm = complete(plan, moment, chain)
    target = mapped(reweighted, target, transform, norm, instead=True)
    n_blocks = plan.bounds.n_blocks
    scale = shift_scale(target.prior_precision.reshape(n_blocks, -1).max(axis=0), plan.n_samples)
    coordinates = OfBlocks(transform, scale) if n_blocks > 1 else transform
    draws = run_underdamped(path, target, generator, verbose, transform=coordinates)
    blocks = draws.reshape(plan.n_draws, n_blocks, -1)
    mean = (n_blocks > 1) * blocks.mean(axis=1, keepdims=True)
    blocks = (blocks - mean) @ transform.T + mean * scale
    return Released(blocks.reshape(draws.shape), path, other={"second_moment": moment})
