"""What is released for a noise-aware posterior, and what it costs.

    A   = sum_i (x_i, c) (x_i, c)^T + N                       share .16 of mu^2
    g_k = sum_i v_i H^T (p_i - e_{y_i}) (x) z_i + N, k = 0..7  share .49 in all, growing 1.4 times each
    F   = sum_i v_i H^T (diag(p_i) - p_i p_i^T) H (x) z_i z_i^T + N, where g_4 is    share .15
    g   = a last gradient, at m                               share .20

with ``z = W^T x``, ``W = (A' / n + floor)^(-1/2)``, ``A'`` being what ``A`` says (`design`), and weights
``v_i`` with which no ``v |z|`` exceeds ``C``. ``H`` is 1 for two classes, see `skdpbayes.targets._links`.
Each is a Gaussian mechanism; ``u_k``, ``m``, ``W`` and ``C`` follow from what was released before. Two tables
are at most ``sqrt(q) (R^2 + c^2)``, ``q C`` and ``sqrt(q) C^2 / 4`` apart, ``sqrt(2) q C`` and
``sqrt(q) C^2 / 2`` with more than two classes, ``q`` being 2 under replace_one and else 1: positive matrices
are at most ``sqrt(2)`` times as far apart as the larger is large.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...privacy.cost import PrivacyCost
from ...targets._links import link_of
from .._plan import Plan
from ..langevin.at_noise import free_shift

MOMENT_SHARE, PILOT_SHARE, CURVATURE_SHARE, GRADIENT_SHARE = 0.16, 0.49, 0.15, 0.20
N_PILOTS, GROWTH = 8, 1.4
# Number of the gradient, from 0, with which the curvature is released.
CURVATURE_AT = 4
N_DRAWS = 400
# Chains that draw in step, leapfrog steps to a draw, and rounds before the first.
N_CHAINS, LEAPS, BURN_IN = 50, 6, 40
# Of the population that stands for the table, at least.
N_ROWS = 1000
# C^2 over the mean square of whitened rows.
CLIPPING = 1.3
# Of the expected width: the share of a squared curvature that is not known where its release drowns.
_UNKNOWN = 0.5


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
    def is_calibrated(self):
        """Whether draws are a posterior that knows what privacy hides."""
        return True

    @property
    def link(self):
        """Link of the classes; a draw has its blocks, and one more for more than two classes."""
        return link_of(max(self.bounds.n_blocks, 2))

    @property
    def estimated_seconds(self):
        """A rough guess of the run time, that for drawing included."""
        points = N_CHAINS * LEAPS * (BURN_IN + self.n_draws / N_CHAINS)
        entries = 4.0 * points * N_ROWS * self.n_parameters
        return super().estimated_seconds + entries / 1e10

    @property
    def widening(self):
        """How much wider privacy makes intervals, about, for rows that use the norm bound in all directions.

        The square root of ``(F + P) / (P + F^2 / V)`` in whitened coordinates, with ``F = n h`` for the mean
        slope ``h`` of logits as the prior has them, and ``V`` the variance of a gradient: sampling, noise,
        and what is not known of the curvature. Columns that hardly vary are widened more.
        """
        length, link, moved = self.bounds.block_length, self.link, self.budget.records_moved
        prior = self.bounds.prior_precision[0] / self.bounds.row_norm**2
        data = self.n_samples / (4.0 * math.sqrt(1.0 + math.pi / 8.0 / prior))
        norm = math.sqrt(CLIPPING * length)
        looks = (self.gradient_multiplier, *self.pilot_multipliers)
        noise = (moved * norm * link.residual_bound) ** 2 / sum(m**-2.0 for m in looks)
        of_curvature = math.sqrt(moved) * norm**2 * link.slope_bound * self.curvature_multiplier
        seen = 2.0 * (data / of_curvature) ** 2 / (length * link.n_blocks)
        variance = (data + noise) / (1.0 - 1.0 / (seen + 1.0 / _UNKNOWN))
        prior *= length
        return math.sqrt((data + prior) / (prior + data * (data / variance)))

    def summary(self):
        """Return the lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        lines["temperature"] = "1: the posterior given what is released, noise included"
        lines["steps"] = f"{self.n_steps} passes"
        lines["spent on"] = (
            f"second moment {MOMENT_SHARE:.0%}, {N_PILOTS} gradients on the way {PILOT_SHARE:.0%}, "
            f"curvature {CURVATURE_SHARE:.0%}, last gradient {GRADIENT_SHARE:.0%} of mu^2"
        )
        lines["intervals"] = (
            f"about {self.widening:.2g} times as wide as without privacy, where rows use data_norm"
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

    size = link_of(max(bounds.n_blocks, 2)).n_blocks * bounds.block_length + 1
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
        free_shift(value, size**2)  # Raises where rounding would take too much of it.
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
