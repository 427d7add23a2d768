"""Plans for stochastic gradient Fisher scoring (SGFS): sampling in whitened coordinates.

A share of ``mu^2`` releases the second moment of the rows once, a Gaussian mechanism on a symmetric matrix:

    A = sum_i z_i z_i^T + N,    ||z z^T - z' z'^T||_F <= sqrt(2) R^2   (R^2 under add_or_remove_one),

``N_jj ~ N(0, sigma^2)``, ``N_jk ~ N(0, sigma^2 / 2)``, so that ``||N||_2`` is about ``nu = sqrt(2 d) sigma``.
With its eigenvalues floored there, ``theta = W u``, ``W = (A / n)^(-1/2)``: in ``u`` all directions that the
data speak of have about the same curvature. Records are weighted by ``v = min(1, C^2 / ||W^T z||^2)``, where
``C^2`` is 1.2 times the mean square that ``A`` predicts, or more if the path is not tempered even then. The
softmax does not change when one vector is added to the coefficients of all classes. Only the prior acts in
these directions, where coordinates follow from the floor: ``theta = D m``, ``D = (n / 4 lambda)^(1/2)``.

The rest of the budget buys ``T`` steps of an underdamped chain in ``u`` at a noise multiplier that is fixed
beforehand, so that the cost is, too. Only then does the matrix decide on the step and the temperature,
the lowest at which directions of curvature ``0.03 n`` relax ``k`` times: in whitened coordinates a record
adds ``p (1 - p)`` to the curvature on average, and this is a modest value of it.

Without privacy `reference` finds better coordinates. In these, ``2.5 (M / m)^(1/2)`` steps say as much of
deviations as an independent draw, and more of means. As many steps are planned as 800 such draws need if
``M`` is the largest curvature that is possible and ``p (1 - p)`` is 0.03 for all records. How many are run
follows from the true ``M / m``, and is usually less.

Ahn, Korattikara and Welling (2012), with the Fisher information of records of equal weight.
"""

import math
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from ..._linalg import eigh
from ...privacy.floating_point import UNIT_ROUNDOFF, covered_records
from ...privacy.root_finding import boundary
from ...targets import MOMENT_ROWS
from .._chain_length import chain_length, most_steps, number_of_draws
from .._paid_noise import free_shift, path_multiplier
from .._plan import Plan
from ..langevin.geometry import PriorGeometry
from ..langevin.plan import check_batches

MOMENT_SHARE = 0.2
# Draws without privacy say as much of deviations as so many independent ones.
EFFECTIVE_SIZE = 800
# Steps for each of these, over the root of the largest curvature: see `reference`.
STEPS_PER_DRAW = 2.5
# How often the slowest direction relaxes, with privacy and without.
RELAXATIONS = (3.0, 10.0)
N_STEPS = 300
N_DRAWS, BURN_IN = (100, 2000), (0.25, 0.05)
# C^2 over the mean square of the whitened rows.
_WEIGHTING = 1.2
# A record's Hessian is at most a quarter of z z^T: below so many prior precisions the prior decides.
_PRIOR_FLOOR = 4.0
# In whitened coordinates a record's Fisher information is p (1 - p): taken to be at least this.
_LEAST_INFORMATION = 0.03


@dataclass(frozen=True, kw_only=True)
class WhitenedGeometry(PriorGeometry):
    """The geometry of whitened rows, of which records are taken to say something.

    Attributes
    ----------
    least_data_curvature : float
        What data add to the curvature of a direction that they speak of.
    shift_curvature : float, default=0.0
        The prior's where all classes move alike, of which records say nothing.
    growth : float, default=1.0
        By how much the transform can enlarge errors, relative to the bound on weighted rows: at least 1.
    """

    least_data_curvature: float
    shift_curvature: float = 0.0
    growth: float = 1.0

    def slowest(self, temperature):
        """Return the curvature of the slowest direction that data speak of."""
        return self.least_data_curvature

    def stiffest(self, temperature):
        """Return the largest curvature that the potential can have."""
        return max(super().stiffest(temperature), temperature * self.shift_curvature)

    def inflation(self, budget):
        """Sums are rounded before they are transformed, which can make their errors as much larger.

        So are norms, by which records are weighted.
        """
        records = covered_records(self.n_samples, budget.neighboring_relation)
        weights = 8.0 * UNIT_ROUNDOFF * (self.bounds.block_length + 4) * records
        return 1.0 + (super().inflation(budget) - 1.0 + weights) * self.growth


@dataclass(frozen=True, kw_only=True)
class FisherPlan(Plan):
    """A plan for SGFS, as far as it can be made before the second moment is released.

    ``temperature`` is nan until then; `complete` returns the rest.

    Attributes
    ----------
    share : float
        Share of ``mu^2`` that the matrix costs.
    nominal_temperatures : tuple of (float, float) or None, default=None
        On batches and on the full table, if rows of the largest norm went in all directions alike; None where
        there are no batches, or the temperature is fixed.
    moment_noise : float
        Standard deviation of the noise on its diagonal; off it, ``1 / sqrt(2)`` of that.
    noise_multiplier : float
        Of every step, relative to what one record can contribute to the whitened gradient.
    """

    share: float
    moment_noise: float
    noise_multiplier: float
    nominal_temperatures: tuple[float, float] | None = None

    def summary(self):
        """Return the lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        if math.isnan(self.temperature):
            lines["temperature"] = "from the released second moment"
        if not self.budget.is_private and "n_steps" not in self.fixed:
            lines["steps"] = f"{self.n_steps:,}, or as many as the posterior turns out to take"
        lines["second moment"] = (
            f"noise of deviation {self.moment_noise:.4g}, {100 * self.share:.3g}% of mu^2"
        )
        lines["noise multiplier"] = f"{self.noise_multiplier:.4g}"
        if self.nominal_temperatures is not None:
            lines["full table"] = "temperature about {1:.3g} in place of {0:.3g}, say".format(
                *self.nominal_temperatures
            )
        return lines

    @property
    def mu_of_matrix(self):
        """Return what the matrix costs."""
        return math.sqrt(self.share) * self.budget.mu

    def on_the_full_table(self):
        """Return the plan with the same number of steps on the full table, and the same budget."""
        multiplier, cost = path_multiplier(
            self.bounds, self.budget, 1.0, self.n_steps, self.mu_of_matrix
        )
        return self.changed(cost=cost, sampling_rate=1.0, noise_multiplier=multiplier)


def whiten(plan, moment):
    """Return (transform ``W``, floor of the eigenvalues, bound ``C`` on weighted rows).

    Parameters
    ----------
    plan : FisherPlan
    moment : ndarray of shape (length, length)
        As released.
    """
    noise = math.sqrt(2.0 * len(moment)) * plan.moment_noise
    floor = max(noise, _PRIOR_FLOOR * plan.bounds.prior_precision[0])
    values, vectors = eigh(moment)
    floored = np.maximum(values, floor)
    transform = np.ascontiguousarray(vectors * np.sqrt(plan.n_samples / floored))
    mean_square = np.sum(np.maximum(values, 0.0) / floored)
    return transform, floor, math.sqrt(max(_WEIGHTING * mean_square, 1.0))


def shift_scale(prior_precision, n_samples):
    """Return ``D``'s diagonal, for the prior precision of a block."""
    return np.sqrt(n_samples / (_PRIOR_FLOOR * prior_precision))


def nominal_temperatures(plan, chain):
    """Return `FisherPlan.nominal_temperatures`, or raise a ValueError where batches leave nothing to see."""
    if plan.sampling_rate == 1 or not (plan.budget.is_private and math.isnan(plan.temperature)):
        return None
    length = plan.bounds.block_length
    moment = plan.n_samples * plan.bounds.row_norm**2 / length * np.eye(length)
    path, _, _ = complete(plan, moment, chain)
    check_batches(path)
    return path.temperature, path.full_table_temperature


def complete(plan, moment, chain):
    """Return the plan of the path, post-processing of the released matrix.

    Parameters
    ----------
    plan : FisherPlan
    moment : ndarray of shape (length, length)
        As released.
    chain : SGHMC
        What runs in whitened coordinates.

    Returns
    -------
    path : LangevinPlan
        In whitened coordinates; its cost is the whole plan's.
    transform : ndarray of shape (length, length)
        ``W``.
    norm : float
        ``C``.
    """
    transform, floor, norm = whiten(plan, moment)
    fixed = None if math.isnan(plan.temperature) else plan.temperature

    def path_at(norm):
        geometry = _whitened_geometry(plan, transform, floor, norm)
        return chain.plan_at_paid_noise(
            geometry,
            plan.n_samples,
            plan.noise_multiplier,
            plan.n_steps,
            plan.cost,
            budget=plan.budget,
            temperature=fixed,
            n_draws=plan.n_draws,
            relaxations=RELAXATIONS,
        )

    path = path_at(norm)
    if fixed is None and path.temperature == 1.0:
        norm = _longest_untempered(path_at, norm, plan.bounds.row_norm, transform)
        path = path_at(norm)
    full = None
    if fixed is None and plan.sampling_rate < 1:
        reading_all = clone(chain).set_params(batch_size=None)
        full = complete(plan.on_the_full_table(), moment, reading_all)[0].temperature
    path = path.changed(sampler=plan.sampler, fixed=plan.fixed, full_table_temperature=full)
    return path, transform, norm


def _whitened_geometry(plan, transform, floor, norm):
    bounds, grown = plan.bounds, norm / plan.bounds.row_norm
    low, high = bounds.prior_precision
    largest = float(np.linalg.norm(transform, 2)) ** 2
    whitened = bounds._replace(
        gradient_bound=bounds.gradient_bound * grown,
        smoothness=bounds.smoothness * grown**2,
        prior_precision=(min(low * plan.n_samples / floor, high * largest), high * largest),
    )
    return WhitenedGeometry(
        whitened,
        plan.n_samples,
        least_data_curvature=_LEAST_INFORMATION * plan.n_samples,
        shift_curvature=plan.n_samples / _PRIOR_FLOOR if bounds.n_blocks > 1 else 0.0,
        growth=max(1.0, float(np.linalg.norm(transform)) / grown),
    )


def _longest_untempered(path_at, norm, row_norm, transform):
    """Return the largest norm of rows at which a path is not tempered, and relaxes as often as is wanted."""
    # No row is longer than this.
    top = max(row_norm * float(np.linalg.norm(transform, 2)), norm)

    def is_untempered(shrunk):
        path = path_at(top * math.exp(-shrunk))
        relaxes = path.relaxations >= path.wanted_relaxations * (1 - 1e-9)
        return path.temperature == 1.0 and relaxes

    most = math.log(top / norm)
    if most == 0 or not is_untempered(most):
        return norm
    return top * math.exp(-boundary(is_untempered, 0.0, most, 2.0**-30 * most))


def plan_fisher(sampler, bounds, n_samples, budget, rate, burn_in, temperature, n_steps, n_draws):
    """Find the noise of a second moment and of an underdamped path that a budget affords together.

    Parameters
    ----------
    sampler : SGFS
    bounds, n_samples, budget, temperature, n_steps, n_draws
        As for its `plan`.
    rate : float
        Share of the records that a step reads.
    burn_in : float or None
        Fraction of the steps before the first draw; None is the default.

    Returns
    -------
    plan : FisherPlan
    """
    if bounds.row_norm is None:
        raise ValueError("Fisher scoring needs a target of rows, whose bounds state a row_norm.")
    which = 0 if budget.is_private else 1
    burn_in = BURN_IN[which] if burn_in is None else burn_in
    draws = number_of_draws(n_draws, N_DRAWS[which], n_steps, burn_in)
    steps = chain_length(n_steps, _default_steps(bounds, budget, rate), draws, burn_in, rate)
    of_matrix = math.sqrt(MOMENT_SHARE) * budget.mu
    multiplier, cost = path_multiplier(bounds, budget, rate, steps, of_matrix)
    return FisherPlan(
        sampler=sampler,
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=cost,
        temperature=math.nan if temperature is None else temperature,
        n_steps=steps,
        n_burn_in=math.floor(steps * burn_in),
        n_draws=draws,
        sampling_rate=rate,
        share=MOMENT_SHARE,
        moment_noise=moment_noise(bounds, n_samples, budget, 1.0 / of_matrix),
        noise_multiplier=multiplier,
    )


def _default_steps(bounds, budget, rate):
    if budget.is_private:  # They cost no privacy; colder chains have farther to go.
        steps = N_STEPS * max(1.0, 2.0 * budget.mu)
    else:
        curvature = bounds.smoothness / bounds.row_norm**2
        steps = STEPS_PER_DRAW * EFFECTIVE_SIZE * math.sqrt(curvature / _LEAST_INFORMATION)
    # As many passes over the table, or batches would heat the draws.
    return math.ceil(steps if rate == 1 else min(steps / rate, most_steps(rate)[1]))


def moment_noise(bounds, n_samples, budget, multiplier):
    """Return the deviation of the noise on a second moment's diagonal, at a noise multiplier."""
    if multiplier == 0:
        return 0.0
    records = covered_records(n_samples, budget.neighboring_relation)
    # Rounding of the sum, in both tables, of rows' norms, and of every entry to the lattice of its noise.
    chain = MOMENT_ROWS + records / MOMENT_ROWS + max(8, bounds.block_length / n_samples)
    sums = 1.0 + 2.0 * UNIT_ROUNDOFF * chain * records
    sensitivity = math.sqrt(budget.records_moved) * bounds.row_norm**2 * sums
    return sensitivity / free_shift(multiplier, bounds.block_length**2)
