"""How a potential is curved, as far as public numbers say: what lengths of steps follow from.

    m(tau) = tau lambda_min,      M(tau) = n B + tau lambda_max

for a posterior at temperature ``tau`` of which nothing is known but its bounds. Other rooms have geometries
of their own: of whitened rows, of gradients that are clipped.
"""

from dataclasses import dataclass
from typing import Protocol

from ...privacy.floating_point import sum_inflation
from ...targets import TargetBounds


class Geometry(Protocol):
    """What schedules ask of a geometry.

    Attributes
    ----------
    bounds : TargetBounds
        In these coordinates.
    n_samples : int
        Public size of the table.
    """

    bounds: TargetBounds
    n_samples: int

    def slowest(self, temperature):
        """Return the curvature of the slowest direction that is to relax."""

    def stiffest(self, temperature):
        """Return the largest curvature that the potential can have."""

    def inflation(self, budget):
        """Return the factor by which rounding can enlarge what a record adds to a gradient."""


@dataclass(frozen=True)
class PriorGeometry:
    """The geometry of which only bounds are known: the prior's curvature is all that is sure.

    Attributes
    ----------
    bounds : TargetBounds
    n_samples : int
    n_batches : int, default=1
        How many batches take turns; the largest, times their number, is what a step may see.
    """

    bounds: TargetBounds
    n_samples: int
    n_batches: int = 1

    def slowest(self, temperature):
        """Return the curvature of a direction about which the data say nothing."""
        return temperature * self.bounds.prior_precision[0]

    def stiffest(self, temperature):
        """Return the largest curvature that the potential can have."""
        records = self.n_batches * -(-self.n_samples // self.n_batches)
        return records * self.bounds.smoothness + temperature * self.bounds.prior_precision[1]

    def inflation(self, budget):
        """Return the factor by which rounding can enlarge what a record adds to a gradient."""
        relation = budget.neighboring_relation
        return sum_inflation(self.n_samples, self.bounds.n_parameters, relation)
