"""What is released for a posterior from clipped residuals, and what it costs.

    A   = sum_i (x_i, c) (x_i, c)^T + N
    F   = sum_i v_i z_i z_i^T + N                                   z = W^T x
    q_j = sum_i psi_i^2 + N            at 0, to find the first clip
    g_k = sum_i v_i z_i psi_i + N,     s_k = sum_i psi_i^2 + N      psi_i = psi_{tau_k}(y_i - u_k . z_i)
    M   = sum_i v_i psi_i^2 z_i z_i^T + N                         at the last point, if noise leaves enough
    t   = sum_i psi_i + N,             q = sum_i psi_i^2 + N      there, at a wide clip, the same

with ``v_i = min(1, C / |z_i|, K^2 / |z_i|^2)``. Each is a Gaussian mechanism; ``W``, ``C``, ``K``, the points
``u_k`` and the clips ``tau_k`` follow from what was released before. With ``q = 2`` under replace_one and
else 1, two tables are at most ``sqrt(q) (R^2 + c^2)``, ``sqrt(q) K^2``, ``tau^2``, ``q C tau`` and
``sqrt(q) K^2 tau^2`` apart, and ``t`` is like ``g_k`` with ``C = 1``; see `sensitivity` for ``g_k`` and
``s_k`` together. `schedule` finds shares, and ``C^2`` and ``K^2`` relative to the mean square of rows.
"""

import math
from dataclasses import dataclass

import numpy as np

from ...privacy.cost import PrivacyCost
from .._paid_noise import free_shift
from .._plan import Plan
from ..noise_aware.plan import (
    BURN_IN,
    LEAPS,
    N_CHAINS,
    N_DRAWS,
    hidden_columns_line,
    hidden_columns_warning,
)
from .schedule import ERRORS, tails_clip
from .sensitivity import FREE, look_precision

# How many sizes of responses are released before the first look.
N_SIZES = 2
# What squares cost, relative to sums, where they are not free.
_OF_SQUARE = 0.05
# An expected error, relative to the bound of responses, at which nothing is learnt.
_NOTHING = 0.25


@dataclass(frozen=True, kw_only=True)
class ClippedResidualsPlan(Plan):
    """A plan for a posterior from clipped residuals: the noise of every release, relative to a record's.

    Attributes
    ----------
    moment_multiplier, curvature_multiplier : float
        Noise multipliers of ``A`` and of ``F``.
    size_multiplier : float
        That of each ``q_j``.
    look_multipliers, square_multipliers : tuple of float
        Those of ``g_k`` and of ``s_k``.
    errors_multiplier : float or None
        That of ``M``; None if it is not released.
    tails_multipliers : tuple of (float, float) or None
        Those of ``t`` and of its ``q``; None if they are not released.
    tails_clip : float
        Their clip, over the deviation that residuals are believed to have.
    expected_error : float
        Of predictions, about, over the bound of responses, if errors are a twentieth of it.
    row_clipping, matrix_clipping : float
        ``C^2`` and ``K^2`` over the mean square of rows in coordinates that ``A`` whitens. Rows longer than
        ``C`` count less: their part of a look is at most that of a row of norm ``C``, and of a matrix that of
        one of norm ``K``. The less noise there is, the larger they are.
    """

    moment_multiplier: float
    curvature_multiplier: float
    size_multiplier: float
    look_multipliers: tuple[float, ...]
    square_multipliers: tuple[float, ...]
    expected_error: float
    row_clipping: float
    matrix_clipping: float
    errors_multiplier: float | None = None
    tails_multipliers: tuple[float, float] | None = None
    tails_clip: float = 0.0

    @property
    def is_calibrated(self):
        """Whether draws are a posterior that knows what privacy hides."""
        return True

    @property
    def mu_of_replacing(self):
        """``mu`` where one row is replaced by another; second moments are positive."""
        of_matrices = self.moment_multiplier**-2.0 + self.curvature_multiplier**-2.0
        if self.errors_multiplier is not None:
            of_matrices += self.errors_multiplier**-2.0
        return math.sqrt(2.0 * of_matrices + 4.0 * (self.cost.mu**2 - of_matrices))

    @property
    def estimated_seconds(self):
        """A rough guess of the run time, that for drawing included."""
        entries = self.n_samples * self.n_parameters
        reading = entries * (1.2e-8 * self.n_steps + 1.1e-9 * self.n_parameters)
        return reading + 4e-6 * self.n_parameters * LEAPS * (BURN_IN * N_CHAINS + self.n_draws)

    @property
    def widening(self):
        """How much wider privacy makes intervals, if errors are a twentieth of the bound of responses."""
        sampling = ERRORS * math.sqrt(self.n_parameters / self.n_samples)
        return math.hypot(1.0, self.expected_error / sampling)

    @property
    def is_drowned(self):
        """Whether noise hides nearly all."""
        return self.expected_error > _NOTHING

    @property
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        found = super().warnings
        if self.is_drowned:
            return (*found, self._drowned())
        return found + hidden_columns_warning(self)

    def summary(self):
        """Return the lines of the printed plan, a dict of {name: text}."""
        lines, mu = super().summary(), self.cost.mu
        lines["temperature"] = "1: the posterior given what is released, noise included"
        lines["steps"] = f"{self.n_steps} passes"
        moment, curvature = (
            (multiplier * mu) ** -2.0
            for multiplier in (self.moment_multiplier, self.curvature_multiplier)
        )
        lines["spent on"] = (
            f"second moments {moment:.0%} and {curvature:.0%} of mu^2, sizes of responses, and "
            f"{len(self.look_multipliers)} looks at residuals"
        )
        if self.errors_multiplier is not None:
            lines["spent on"] += ", and how errors vary with the rows"
        if self.tails_multipliers is not None:
            lines["spent on"] += ", and their mean"
        lines["long rows"] = (
            f"count less from {math.sqrt(self.row_clipping):.2g} times the root mean square of rows on, in "
            "coordinates in which they vary alike"
        )
        lines["intervals"] = (
            f"about {self.widening:.2g} times as wide as without privacy, if errors have a deviation of a "
            "twentieth of the bound of responses"
        )
        lines["slopes"] = (
            "of a centre: where errors are skewed, as of costs or many zeros, they are not those of the mean"
        )
        return lines | hidden_columns_line(self)


def plan_clipped_residuals(kind, share, sampler, bounds, n_samples, budget, n_draws):
    """Share a budget among the releases.

    Parameters
    ----------
    kind : type
        `ClippedResidualsPlan`, or one for other responses.
    share : callable
        `share_budget`, or what takes its place.
    sampler : ClippedResiduals
    bounds, n_samples, budget, n_draws
        As for its `plan`.

    Returns
    -------
    plan : kind
    """
    length, replaces = bounds.n_parameters, budget.records_moved == 2
    shares, clippings, error = share(n_samples, length, budget.mu, budget.records_moved)

    def multiplier(share):
        return (1.0 + 1e-12) / (math.sqrt(share) * budget.mu)

    of_square = FREE * (1.0 - 1e-9) if replaces else _OF_SQUARE
    of_sum = 1.0 if replaces else 1.0 / (1.0 + _OF_SQUARE)

    def pair(share):
        return multiplier(of_sum * share), multiplier(of_sum * of_square * share)

    looks = [pair(share) for share in shares.looks]
    of_tails = [pair(shares.tails)] if shares.tails else []
    of_matrices = multiplier(shares.moment), multiplier(shares.curvature)
    of_size = multiplier(shares.sizes / N_SIZES)
    precisions = [value**-2.0 for value in (*of_matrices, *[of_size] * N_SIZES)]
    precisions += [look_precision(a**-2.0, b**-2.0, replaces) for a, b in looks + of_tails]
    of_errors = multiplier(shares.errors) if shares.errors else None
    if of_errors is not None:
        precisions.append(of_errors**-2.0)
    for precision in precisions:  # Raises where rounding would take too much of one.
        free_shift(precision**-0.5, (length + 1) ** 2)
    sums, squares = zip(*looks, strict=True)
    return kind(
        sampler=sampler,
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=PrivacyCost(budget.neighboring_relation, mu=float(np.sqrt(np.sum(precisions)))),
        temperature=1.0,
        n_steps=3
        + N_SIZES
        + len(looks + of_tails)
        + (of_errors is not None),  # Weights are a pass of their own.
        n_burn_in=0,
        n_draws=n_draws or N_DRAWS,
        moment_multiplier=of_matrices[0],
        curvature_multiplier=of_matrices[1],
        size_multiplier=of_size,
        look_multipliers=sums,
        square_multipliers=squares,
        errors_multiplier=of_errors,
        tails_multipliers=of_tails[0] if of_tails else None,
        tails_clip=tails_clip(n_samples, of_tails[0][0], budget.records_moved) if of_tails else 0.0,
        expected_error=error,
        row_clipping=clippings.rows,
        matrix_clipping=clippings.matrices,
    )
