"""Coordinates ``theta = W u`` in which rows say about as much in all directions.

    W = (A' / n + floor)^(-1/2),    C^2 = 1.3 tr(W^T A' W / n)

The floor is a few deviations of the noise on an entry of ``A``, or where the prior decides: a direction below
it would cost all others, through ``C``, what it says.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..._linalg import eigh
from ...privacy.floating_point import UNIT_ROUNDOFF, covered_records
from ...targets import MOMENT_ROWS

_NOISE_FLOOR, _PRIOR_FLOOR = 3.0, 4.0


@dataclass(frozen=True)
class Coordinates:
    """Coordinates, and a norm beyond which records count less.

    Attributes
    ----------
    transform : ndarray of shape (length, length)
        ``W``.
    norm : float
        ``C``.
    row_norm : float
        Of rows as they were.
    """

    transform: np.ndarray
    norm: float
    row_norm: float

    def reach(self, family, point, theta):
        """Return what bounds logits at a point, which is ``theta`` in the coordinates of the rows.

        With two classes, the logit of a record of norm ``C`` along the point; otherwise the most by which
        logits of two classes differ.
        """
        if family.n_blocks == 1:
            return self.norm * float(np.linalg.norm(point))
        of_classes = family.contrasts @ theta
        apart = of_classes[:, None] - of_classes[None]
        return self.row_norm * float(np.linalg.norm(apart, axis=2).max())

    def inflation(self, plan, theta, power=1):
        """Return by what rounding can enlarge the difference of two tables' sums at ``theta``.

        Gradients are summed before they are transformed, and rows rounded when they are: relative to ``C`` by
        as much as ``W`` can enlarge a row, for every record. Curvatures that are summed before, too, are
        relative to ``C^2``, which is a ``power`` of 2.
        """
        return self.inflation_within(plan, self.row_norm * float(np.linalg.norm(theta)), power)

    def inflation_within(self, plan, reach, power=1):
        """Return `inflation` where no logit exceeds ``reach`` times the bound on residuals."""
        length = len(self.transform)
        n = covered_records(plan.n_samples, plan.budget.neighboring_relation)
        growth = max(1.0, float(np.linalg.norm(self.transform)) * self.row_norm / self.norm)
        chain = MOMENT_ROWS + n / MOMENT_ROWS
        operations = chain + (length + 8 * plan.bounds.n_blocks) * (16.0 + reach)
        return 1.0 + 4.0 * UNIT_ROUNDOFF * n * growth**power * operations


def coordinates_for(design, noise_scale, bounds, n_samples, clipping, noise_floor=_NOISE_FLOOR):
    """Return the `Coordinates` for a `Design`, known through noise of a deviation."""
    noise = max(noise_floor * noise_scale, _PRIOR_FLOOR * bounds.prior_precision[0])
    values, vectors = eigh(design.second_moment)
    values = np.maximum(values, 0.0)
    floored = values + noise / n_samples
    transform = np.ascontiguousarray(vectors / np.sqrt(floored))
    mean_square = max(1.0, float(np.sum(values / floored)))
    return Coordinates(transform, math.sqrt(clipping * mean_square), bounds.row_norm)
