"""What is released for a noise-aware posterior, and what it costs.

    A   = sum_i (x_i, c) (x_i, c)^T + N                                      share .19 of mu^2
    t   = sum_i v_i H^T (e_{y_i} - 1/K) (x) z_i + N                          share .41
    a_k = sum_i v_i H^T (p_i - 1/K) (x) z_i + N at u_k, k = 0..7             shares .40, growing
    F_k = sum_i v_i H^T (diag(p_i) - p_i p_i^T) H (x) z_i z_i^T + N          with five of them, of no cost

with ``z = W^T x``, ``W = (A' / n + floor)^(-1/2)``, ``A'`` being what ``A`` says (`design`), and weights
``v_i`` with which no ``v |z|`` exceeds ``C``. ``H`` is 1 for two classes, see `targets.linear.families`.
Labels are read once, by ``t``. Each is a Gaussian mechanism; ``u_k``, ``W`` and ``C`` follow from what was
released before. With ``q = 2`` under replace_one and else 1, two tables are at most ``sqrt(q) (R^2 + c^2)``,
``q C b_1``, ``q C b_1`` and ``sqrt(q) C^2 b_2`` apart, where ``b_1, b_2`` are 1/2, 1/4 for two classes and
``sqrt(1 - 1/K)``, 1/2 for more: positive matrices are at most ``sqrt(2)`` times as far apart as the larger is
large. No record moves a score and a curvature by that much at once, nor a score where logits are small
(`sensitivity`).
"""

import math
from dataclasses import dataclass

import numpy as np

from ...privacy.cost import PrivacyCost
from .._paid_noise import free_shift
from .._plan import Plan
from ..fisher.plan import moment_noise
from .sensitivity import free_curvature, joint_multiplier

MOMENT_SHARE, LABEL_SHARE, SCORE_SHARE = 0.19, 0.41, 0.40
# Points at which scores are released; by how much their shares grow.
N_LOOKS, GROWTH = 8, 1.3
# Numbers, from 0, of the scores with which curvatures are released.
CURVATURES = (2, 4, 5, 6, 7)
N_DRAWS = 400
# Chains that draw in step, leapfrog steps to a draw, and rounds before the first.
N_CHAINS, LEAPS, BURN_IN = 50, 6, 40
# Of the population that stands for a table of more than two classes, at least.
N_ROWS = 1000
# C^2 over the mean square of whitened rows.
CLIPPING = 1.3
# Deviations of noise below which a released variance says no more than "less than".
INVISIBLE = 1.5
# Standard deviation of a column that is spread evenly over its bounds, over half their width.
EVEN_DEVIATION = 3.0**-0.5
# For the expected width: the share of a squared curvature that is not known if noise drowns its release.
_UNKNOWN = 0.5
# What is learnt does not show in predictions if it is less than this share of the prior's precision.
_LITTLE = 0.1
_MANY_DRAWS = 50_000
# With more coefficients, noise drowns correlations of columns, and "auto" takes a chain.
DEFAULT_SIZE = 200


def released_moment(plan):
    """Norm of rows, their constant, and the deviation of the noise on the diagonal of ``A``.

    Parameters
    ----------
    plan : Plan
        With a ``moment_multiplier``.
    """
    bounds = plan.bounds
    constant = bounds.constant or bounds.row_norm / 2.0
    norm = math.sqrt(max(bounds.row_norm**2 - bounds.constant**2, 0.0))
    grown = bounds._replace(
        row_norm=math.hypot(norm, constant), n_parameters=bounds.n_parameters + bounds.n_blocks
    )
    noise = moment_noise(grown, plan.n_samples, plan.budget, plan.moment_multiplier)
    return norm, constant, (bounds.max_weight or 1.0) * noise


def half_width(data_norm, n_features):
    """Half the width of columns' bounds, as far as a norm tells: 1, as scalers make them, where it may be."""
    if 1.0 <= data_norm <= math.sqrt(n_features):
        return 1.0
    return data_norm / math.sqrt(n_features)


def hidden_deviation(plan):
    """Standard deviation of columns that noise hides, over half the width of their bounds."""
    norm, _, noise = released_moment(plan)
    n_features = plan.bounds.block_length - (plan.bounds.constant > 0)
    return math.sqrt(INVISIBLE * noise / plan.n_samples) / half_width(norm, n_features)


def hidden_columns_line(plan):
    """Line of a printed plan on columns that hardly vary, a dict of {name: text}."""
    if not plan.budget.is_private:
        return {}
    hidden = hidden_deviation(plan)
    text = "noise hides how much any varies within its bounds"
    if hidden < 1.0:  # The deviation of a column that is at either end.
        width = f"{hidden:.2g} of half their bounds' width"
        text = f"intervals of those with a deviation below {width} are too short"
    return {"columns": text}


def hidden_columns_warning(plan):
    """A tuple with a warning if noise hides how much any column varies, else an empty one."""
    if not plan.budget.is_private or hidden_deviation(plan) < EVEN_DEVIATION:
        return ()
    return (
        f"noise hides how much any column varies, in {plan.n_samples:,} rows at epsilon="
        f"{plan.budget.epsilon:g}: intervals of columns that vary by far less than their bounds allow are "
        "too short, and often miss. Take more rows, a larger epsilon, fewer columns, or a data_norm that is "
        "closer to the length of rows.",
    )


@dataclass(frozen=True, kw_only=True)
class NoiseAwarePlan(Plan):
    """A plan for a noise-aware posterior: the noise of every release, relative to what a record can do.

    Attributes
    ----------
    moment_multiplier : float
        Noise multiplier of ``A``.
    label_multiplier : float
        That of ``t``.
    score_multipliers : tuple of float
        Those of ``a_k``.
    curvature_multipliers : tuple of float or None
        Those of the curvatures with them, None where there is none.
    """

    moment_multiplier: float
    label_multiplier: float
    score_multipliers: tuple[float, ...]
    curvature_multipliers: tuple[float | None, ...]

    @property
    def is_calibrated(self):
        """Whether draws are a posterior that knows what privacy hides."""
        return True

    @property
    def family(self):
        """The law of a label; a draw has its blocks, and one more for more than two classes."""
        return self.bounds.family.identified

    @property
    def mu_of_replacing(self):
        """``mu`` where one row is replaced by another; second moments are positive."""
        of_moment = self.moment_multiplier**-2.0
        return math.sqrt(2.0 * of_moment + 4.0 * (self.cost.mu**2 - of_moment))

    @property
    def estimated_seconds(self):
        """A rough guess of the run time, that for drawing included."""
        entries = self.n_samples * self.n_parameters
        reading = entries * (7.5e-8 + 1.1e-9 * self.bounds.block_length)
        points = N_CHAINS * LEAPS * (BURN_IN + self.n_draws / N_CHAINS)
        blocks = self.family.n_blocks
        if blocks == 1:  # Without rows, products with matrices are what takes time.
            return reading + points * (1.2e-5 + 3e-9 * self.n_parameters**2)
        return reading + points * N_ROWS * (2e-8 * blocks + 7e-10 * self.n_parameters)

    @property
    def widening(self):
        """How much wider privacy makes intervals, about, for rows that use the norm bound in all directions.

        The square root of ``(F + P) / (P + F^2 / V)`` in whitened coordinates, with ``F = n h`` for the mean
        slope ``h`` of logits as the prior has them, and ``V`` the variance of a gradient: sampling, noise,
        and what is not known of the curvature. Columns that hardly vary are widened more.
        """
        data, learnt, prior = self._precisions
        return math.sqrt((data + prior) / (prior + learnt))

    @property
    def _precisions(self):
        """``F``, ``F^2 / V`` and ``P``."""
        length, family, moved = self.bounds.block_length, self.family, self.budget.records_moved
        assert self.bounds.row_norm is not None  # The sampler is for no other targets.
        prior = self.bounds.prior_precision[0] / self.bounds.row_norm**2
        data = self.n_samples * family.expected_slope(1.0 / prior)
        norm = math.sqrt(CLIPPING * length)
        released = self.label_multiplier**2 + 1.0 / _precision(self.score_multipliers)
        noise = (moved * norm * family.score_bound) ** 2 * released
        multiplier = _precision(filter(None, self.curvature_multipliers)) ** -0.5
        of_curvature = math.sqrt(moved) * norm**2 * family.slope_bound * multiplier
        seen = 2.0 * (data / of_curvature) ** 2 / (length * family.n_blocks)
        variance = (data + noise) / (1.0 - 1.0 / (seen + 1.0 / _UNKNOWN))
        prior *= length
        return data, data * (data / variance), prior

    @property
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        found, (_, learnt, prior) = super().warnings, self._precisions
        if self.budget.is_private and learnt < _LITTLE * prior:
            found += (self._drowned(),)
        else:
            found += hidden_columns_warning(self)
        size = self.family.n_blocks * self.bounds.block_length
        if self.budget.is_private and size > DEFAULT_SIZE:
            found += (
                f"with {size} coefficients intervals of probabilities hold, but those of single coefficients "
                "may be too narrow where columns nearly add up to a constant, above all for large epsilon: "
                f"take {DEFAULT_SIZE} or fewer.",
            )
        if self.n_draws > _MANY_DRAWS:
            found += (
                f"n_draws={self.n_draws:,} take about {self.estimated_seconds:.0f} seconds: fit with the "
                "default, and draw more by sample_posterior(n), which spends nothing.",
            )
        return found

    def summary(self):
        """Return the lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        lines["temperature"] = "1: the posterior given what is released, noise included"
        lines["steps"] = f"{self.n_steps} passes"
        lines["spent on"] = (
            f"second moment {MOMENT_SHARE:.0%}, sum of labels {LABEL_SHARE:.0%}, {N_LOOKS} scores "
            f"{SCORE_SHARE:.0%} of mu^2, curvatures with them at no cost"
        )
        lines["intervals"] = (
            f"about {self.widening:.2g} times as wide as without privacy, where rows use data_norm"
        )
        return lines | hidden_columns_line(self)


def _precision(multipliers):
    """Return what releases with some noise multipliers amount to, as a squared ``mu``."""
    return sum(value**-2.0 for value in multipliers)


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
    growth = GROWTH ** np.arange(N_LOOKS)
    shares = SCORE_SHARE * growth / growth.sum()

    def multiplier(share):
        return (1.0 + 1e-12) / (math.sqrt(share) * budget.mu)

    family = bounds.family.identified
    of_moment, of_labels = multiplier(MOMENT_SHARE), multiplier(LABEL_SHARE)
    of_scores = tuple(multiplier(share) for share in shares)
    of_curvatures = tuple(
        multiplier(free_curvature(family) * share) if k in CURVATURES else None
        for k, share in enumerate(shares)
    )
    pairs = zip(of_scores, of_curvatures, strict=True)
    each = (of_moment, of_labels, *(joint_multiplier(family, *pair) for pair in pairs))
    size = family.n_blocks * bounds.block_length + 1
    for value in each:
        free_shift(value, 2 * size**2)  # Raises where rounding would take too much of it.
    return NoiseAwarePlan(
        sampler=sampler,
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=PrivacyCost(budget.neighboring_relation, mu=math.sqrt(_precision(each))),
        temperature=1.0,
        n_steps=3 + len(of_scores),  # Weights are a pass of their own.
        n_burn_in=0,
        n_draws=n_draws or N_DRAWS,
        moment_multiplier=of_moment,
        label_multiplier=of_labels,
        score_multipliers=of_scores,
        curvature_multipliers=of_curvatures,
    )
