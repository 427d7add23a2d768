"""What is released of rows before any response: a second moment, and the coordinates that follow from it.

A = sum_i w_i (x_i, c) (x_i, c)^T + N   ->   W, C, K,    z = W^T x,    v_i = min(1, C / |z_i|, K^2 / |z_i|^2)
"""

import math

from ...targets.linear.weighted import reweighted, weighted_moment
from .._machinery.lattice import release_moment
from .._machinery.shards import mapped, total
from .._paid_noise import free_shift
from ..noise_aware.coordinates import coordinates_for
from ..noise_aware.releases import release_design

# Deviations of the noise on an entry of ``A`` at which whitening stops.
_NOISE_FLOOR = 1.5


class RowReleases:
    """What has been released of rows.

    Parameters
    ----------
    plan : ClippedResidualsPlan
    target : NamedTuple
        A linear model's target.
    generator : Generator
        Of the noise.
    advance : callable
        Called after every pass.
    unit : float
        Deviation of the errors of rows that a prior is worth.
    """

    def __init__(self, plan, target, generator, advance, unit):
        self.plan, self.table, self.generator, self.advance = plan, target, generator, advance
        self.moved = plan.budget.records_moved
        self.largest = plan.bounds.max_weight or 1.0
        self.is_weighted = plan.bounds.max_weight is not None
        of_rows = release_design(plan, target, generator)
        advance()
        self.moment, self.moment_noise, self.design, self.n_records, self.shares = of_rows
        precision = min(plan.bounds.prior_precision[0] * unit**2, self.moment_noise)
        self.coordinates = coordinates_for(
            self.design,
            self.moment_noise,
            plan.bounds._replace(prior_precision=(precision, precision)),
            self.n_records,
            plan.row_clipping,
            noise_floor=_NOISE_FLOOR,
        )
        self.norm = self.coordinates.norm
        self.matrix_norm = self.norm * math.sqrt(plan.matrix_clipping / plan.row_clipping)
        self.target = self.reweighted(1)
        advance()

    def reweighted(self, power):
        """Return the table with weights ``w^power v``. **It is not private.**"""
        transform, norms = self.coordinates.transform, (self.norm, power, self.matrix_norm)
        return mapped(reweighted, self.table, transform, *norms)

    def release_curvature(self):
        """Release ``F``, the weighted second moment in these coordinates, and return it and its noise."""
        plan, transform = self.plan, self.coordinates.transform
        bound = math.sqrt(self.moved) * self.matrix_norm**2 * self.largest
        bound *= self.coordinates.inflation_within(plan, 0.0)
        noise = bound / free_shift(plan.curvature_multiplier, len(transform) ** 2)
        matrix = total(weighted_moment, self.target, transform)
        mu = 1.0 / plan.curvature_multiplier
        # Propositions 73 and 76.
        matrix = release_moment(matrix, noise, self.generator, mu=mu)
        self.advance()
        self.released_curvature = matrix, noise
        return self.released_curvature
