"""Stochastic gradient Fisher scoring (SGFS): an underdamped chain in whitened coordinates.

    A = sum_i z_i z_i^T + noise,    theta = W u,   W = (A / n)^(-1/2),   rows clipped to ||W^T z|| <= C

See `skdpbayes.samplers.fisher.plan` for the floor of ``A``'s eigenvalues, ``C`` and the schedule, all of
which follow from the released matrix.

Ahn, Korattikara and Welling (2012).
"""

import math

import numpy as np

from ...privacy.floating_point import lattice_spacing
from ...targets import clip_transformed, second_moment
from .._machinery.lattice import on_lattice
from .._protocol import Released
from ..langevin.underdamped import run_underdamped
from .plan import complete


def release_moment(moment, noise_scale, generator):
    """Return a symmetric matrix with noise: half the variance off the diagonal, where entries count twice."""
    if noise_scale == 0:
        return moment
    # Drift and noise on one lattice, whose sums are exact.
    spacing = lattice_spacing(noise_scale / math.sqrt(2.0))
    noise = noise_scale * generator.standard_normal(moment.shape)
    noise[np.triu_indices_from(noise, 1)] /= math.sqrt(2.0)
    upper = np.triu(on_lattice(moment, noise, spacing))
    return upper + np.triu(upper, 1).T


def run_fisher(plan, chain, target, generator, verbose):
    """Release a second moment, and run an underdamped chain in the coordinates that it whitens."""
    moment = release_moment(second_moment(target), plan.moment_noise, generator)
    path, transform, norm = complete(plan, moment, chain)
    clipped = clip_transformed(target, transform, norm)
    draws = run_underdamped(path, clipped, generator, verbose, transform=transform)
    blocks = draws.reshape(plan.n_draws, plan.bounds.n_blocks, -1) @ transform.T
    return Released(blocks.reshape(draws.shape), path, other={"second_moment": moment})
