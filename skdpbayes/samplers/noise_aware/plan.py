"""What is released for a noise-aware posterior, and what it costs.

    A   = sum_i x_i x_i^T + N                                   share .12 of mu^2
    g_k = sum_i v_i (sigma(z_i . u_k) - y_i) z_i + N, k = 1..4  share .22 in all, doubling
    F   = sum_i v_i sigma'(z_i . m) z_i z_i^T + N               share .20
    g   = the gradient at m                                     share .46

with ``z = W^T x``, ``W = (A / n)^(-1/2)``, eigenvalues floored at the edge of the noise, and weights ``v_i``
with which no ``v |z|`` exceeds ``C``. Each is a Gaussian mechanism; ``u_k``, ``m``, ``W`` and ``C`` follow
from what was released before. Two tables are at most ``sqrt(q) R^2``, ``q C`` and ``sqrt(q) C^2 / 4`` apart,
``q`` being 2 under replace_one and else 1: positive matrices of rank one are at most ``sqrt(2)`` times as far
apart as the larger is large.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...privacy.cost import PrivacyCost
from ...privacy.floating_point import covered_records
from ...targets import MOMENT_ROWS
from .._plan import Plan
from ..fisher.plan import whitening
from ..langevin.at_noise import free_shift

MOMENT_SHARE, PILOT_SHARE, CURVATURE_SHARE, GRADIENT_SHARE = 0.12, 0.22, 0.20, 0.46
N_PILOTS, GROWTH = 4, 2.0
N_DRAWS = 1000
# Of the chain that draws given what was released: sweeps before the first draw, and from one to the next.
BURN_IN, THINNING = 1000, 3
# C^2 over the mean square that the released matrix predicts.
_CLIPPING = 1.3
_UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True, kw_only=True)
class NoiseAwarePlan(Plan):
    """A plan for a noise-aware posterior: the noise of every release, relative to what a record can do.

    Attributes
    ----------
    moment_multiplier, curvature_multiplier, gradient_multiplier : float
        Noise multipliers of ``A``, ``F`` and ``g``.
    pilot_multipliers : tuple of float
        Those of the gradients on the way to ``m``.
    """

    moment_multiplier: float
    pilot_multipliers: tuple
    curvature_multiplier: float
    gradient_multiplier: float

    @property
    def estimated_seconds(self):
        """A rough guess of the run time: most of it is for drawing, not for reading the table."""
        drawing = (BURN_IN + THINNING * self.n_draws) * 1e-7 * self.n_parameters**2
        return super().estimated_seconds + drawing

    def summary(self):
        """Return the lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        lines["temperature"] = "1: the posterior given what is released, noise included"
        lines["steps"] = f"{self.n_steps} passes"
        lines["spent on"] = (
            f"second moment {MOMENT_SHARE:.0%}, {N_PILOTS} gradients on the way {PILOT_SHARE:.0%}, "
            f"curvature {CURVATURE_SHARE:.0%}, last gradient {GRADIENT_SHARE:.0%} of mu^2"
        )
        return lines


def plan_noise_aware(sampler, bounds, n_samples, budget, n_draws):
    """Share a budget among the releases.

    Parameters
    ----------
    sampler : NoiseAware
    bounds, n_samples, budget, n_draws
        As for its `plan`.

    Returns
    -------
    plan : NoiseAwarePlan
    """
    growth = GROWTH ** np.arange(N_PILOTS)

    def multiplier(share):
        return (1.0 + 1e-12) / (math.sqrt(share) * budget.mu)

    length = bounds.block_length
    multipliers = {
        "moment_multiplier": multiplier(MOMENT_SHARE),
        "pilot_multipliers": tuple(multiplier(PILOT_SHARE * s) for s in growth / growth.sum()),
        "curvature_multiplier": multiplier(CURVATURE_SHARE),
        "gradient_multiplier": multiplier(GRADIENT_SHARE),
    }
    each = (
        multipliers["moment_multiplier"],
        multipliers["curvature_multiplier"],
        multipliers["gradient_multiplier"],
        *multipliers["pilot_multipliers"],
    )
    for value in each:
        free_shift(value, length**2)  # Raises where rounding would take too much of it.
    return NoiseAwarePlan(
        sampler=sampler,
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=PrivacyCost(
            budget.neighboring_relation, mu=math.sqrt(sum(value**-2.0 for value in each))
        ),
        temperature=1.0,
        n_steps=N_PILOTS + 3,
        n_burn_in=0,
        n_draws=n_draws or N_DRAWS,
        **multipliers,
    )


@dataclass(frozen=True)
class Coordinates:
    """Coordinates ``theta = W u`` that a released second moment whitens.

    Attributes
    ----------
    transform : ndarray of shape (length, length)
        ``W``.
    seen : ndarray of shape (length,)
        ``W^T A W / n``: 1 where the matrix is above its noise.
    norm : float
        ``C``.
    row_norm : float
        Of rows as they were.
    """

    transform: np.ndarray
    seen: np.ndarray
    norm: float
    row_norm: float

    def inflation(self, plan, theta):
        """Return by what rounding can enlarge the difference of two tables' sums at ``theta``.

        Sums are rounded before they are transformed, and so are squared norms and logits, for every record:
        relative to ``C`` by as much as ``W`` can enlarge a row.
        """
        length, n = theta.size, covered_records(plan.n_samples, plan.budget.neighboring_relation)
        growth = max(1.0, float(np.linalg.norm(self.transform)) * self.row_norm / self.norm)
        chain = MOMENT_ROWS + n / MOMENT_ROWS
        logits = self.row_norm * float(np.linalg.norm(theta))
        operations = chain + length * (16.0 + logits)
        return 1.0 + 4.0 * _UNIT_ROUNDOFF * n * growth**2 * operations


def whiten(plan, moment, noise_scale):
    """Return the `Coordinates` that follow from a released second moment."""
    bounds = plan.bounds
    transform, values, floor = whitening(moment, noise_scale, bounds, plan.n_samples)
    seen = np.maximum(values, 0.0) / np.maximum(values, floor)
    mean_square = max(1.0, float(seen.sum()))
    return Coordinates(transform, seen, math.sqrt(_CLIPPING * mean_square), bounds.row_norm)


def noise_for(bound, multiplier, size):
    """Return the deviation of noise on ``size`` numbers for tables that are ``bound`` apart."""
    return bound / free_shift(multiplier, size)
