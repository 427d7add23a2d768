"""Stochastic gradient Fisher scoring (SGFS): an underdamped chain in coordinates that a release whitens.

    A = sum_i z_i z_i^T + noise,    theta = (A / n)^(-1/2) u

`plan_fisher` says what it costs, `complete` how the matrix decides on the path, and `run_fisher` does it.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ..._data.shards import map_records, total
from ..._linalg import eigh, eigvalsh, solve
from ...models import second_moment
from ...models.sums import curvature_bound, loss_and_derivatives, reweighted
from ...privacy.conversions import boundary
from ...privacy.rounding import UNIT_ROUNDOFF, covered_records
from ..base import (
    CONSTRAINTS,
    Diagnostics,
    Released,
    TemperedSampler,
    checked_gaussian,
    options,
    resolve_auto,
    resolved_batch_size,
)
from ..noise import OfBlocks, moment_noise, path_multiplier, release_moment
from ..plan import Plan, chain_length, check_linear, most_steps, number_of_draws
from ..statistics.design import moment_diagnostics
from ..statistics.plan import (
    hidden_columns_line,
    hidden_columns_warning,
    norm_without_constant,
)
from .chains import run_underdamped
from .plan import PriorGeometry, check_batches
from .sampler import SGHMC

__all__ = ["SGFS"]

# Plans for stochastic gradient Fisher scoring (SGFS): sampling in whitened coordinates.
#
# A share of ``mu^2`` releases the second moment of the rows once, a Gaussian mechanism on a symmetric
# matrix:
#
#     A = sum_i z_i z_i^T + N,    ||z z^T - z' z'^T||_F <= sqrt(2) R^2   (R^2 under add_or_remove_one),
#
# ``N_jj ~ N(0, sigma^2)``, ``N_jk ~ N(0, sigma^2 / 2)``, so that ``||N||_2`` is about
# ``nu = sqrt(2 d) sigma``. With its eigenvalues floored there, ``theta = W u``,
# ``W = (A / n)^(-1/2)``: in ``u`` all directions that the data speak of have about the same
# curvature. Records are weighted by ``v = min(1, C^2 / ||W^T z||^2)``, where ``C^2`` is 1.2 times
# the mean square that ``A`` predicts, or more if the path is not tempered even then. The softmax
# does not change when one vector is added to the coefficients of all classes. Only the prior acts
# in these directions, where coordinates follow from the floor: ``theta = D m``,
# ``D = (n / 4 lambda)^(1/2)``.
#
# The rest of the budget buys ``T`` steps of an underdamped chain in ``u`` at a noise multiplier that
# is fixed beforehand, so that the cost is, too. Only then does the matrix decide on the step and the
# temperature, the lowest at which directions of curvature ``0.03 n`` relax ``k`` times: in whitened
# coordinates a record adds ``p (1 - p)`` to the curvature on average, and this is a modest value of
# it.
#
# Without privacy `reference` finds better coordinates. In these, ``2.5 (M / m)^(1/2)`` steps say as
# much of deviations as an independent draw, and more of means. As many steps are planned as 800 such
# draws need if ``M`` is the largest curvature that is possible and ``p (1 - p)`` is 0.03 for all
# records. How many are run follows from the true ``M / m``, and is usually less.
#
# Ahn, Korattikara and Welling (2012), with the Fisher information of records of equal weight.


MOMENT_SHARE = 0.2
# Draws without privacy say as much of deviations as so many independent ones.
EFFECTIVE_SIZE = 800
# Steps for each of these, over the root of the largest curvature: see `reference`.
STEPS_PER_DRAW = 2.5
# How often the slowest direction relaxes, with privacy and without.
RELAXATIONS = (3.0, 10.0)
N_STEPS = 300
N_DRAWS = (100, 2000)
BURN_IN = (0.25, 0.05)
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
        """The curvature of the slowest direction that data speak of."""
        return self.least_data_curvature

    def stiffest(self, temperature):
        """The largest curvature that the potential can have."""
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
        """The lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        if math.isnan(self.temperature):
            lines["temperature"] = "from the released second moment"
        if not self.budget.is_private and "n_steps" not in self.fixed:
            lines["steps"] = f"{self.n_steps:,}, or as many as the posterior turns out to take"
        lines["second moment"] = (
            f"noise of deviation {self.moment_noise:.4g}, {100 * self.share:.3g}% of the budget"
        )
        lines["noise multiplier"] = f"{self.noise_multiplier:.4g}"
        if self.nominal_temperatures is not None:
            lines["full table"] = "temperature about {1:.3g} in place of {0:.3g}, say".format(
                *self.nominal_temperatures
            )
        if geometry := self._geometry():
            lines |= hidden_columns_line(self, geometry)
        return lines

    @property
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        texts = super().warnings
        if geometry := self._geometry():
            texts += hidden_columns_warning(self, geometry)
        return texts

    def _geometry(self):
        """(Norm of rows, their constant, noise) of the second moment, None without noise or a constant."""
        bounds = self.bounds
        if not (bounds.row_norm and bounds.constant and self.moment_noise > 0):
            return None
        return norm_without_constant(bounds), bounds.constant, self.moment_noise

    @property
    def mu_of_matrix(self):
        """The cost of the matrix, as ``mu``."""
        return math.sqrt(self.share) * self.budget.mu

    def on_the_full_table(self):
        """The plan with the same number of steps on the full table, and the same budget."""
        multiplier, cost = path_multiplier(
            self.bounds, self.budget, 1.0, self.n_steps, self.mu_of_matrix
        )
        return self.changed(cost=cost, sampling_rate=1.0, noise_multiplier=multiplier)


def whiten(plan, moment):
    """(transform ``W``, floor of the eigenvalues, bound ``C`` on weighted rows).

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
    """``D``'s diagonal, for the prior precision of a block."""
    return np.sqrt(n_samples / (_PRIOR_FLOOR * prior_precision))


def nominal_temperatures(plan, chain):
    """`FisherPlan.nominal_temperatures`; raises a ValueError where batches leave nothing to see."""
    if plan.sampling_rate == 1 or not (plan.budget.is_private and math.isnan(plan.temperature)):
        return None
    length = plan.bounds.block_length
    moment = plan.n_samples * plan.bounds.row_norm**2 / length * np.eye(length)
    path, _, _ = complete(plan, moment, chain)
    check_batches(path)
    return path.temperature, path.full_table_temperature


def complete(plan, moment, chain):
    """The plan of the path, post-processing of the released matrix.

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
        return chain.plan_for_noise_multiplier(
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
    """The largest norm of rows at which a path is not tempered, and relaxes as often as is wanted."""
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


@options()
class SGFS(TemperedSampler):
    """Stochastic gradient Fisher scoring: tempered draws in whitened coordinates.

    A share of the budget releases ``A = sum z z^T`` with noise. The rest pays for an underdamped chain in
    ``u``, with ``theta = (A / n)^(-1/2) u``, where all directions have similar curvature [1]_. Records that
    are far out in these coordinates count less. Draws follow the posterior of the weighted records at the
    lowest temperature that the budget allows, or at the given one. It is for linear models; the released
    matrix is ``second_moment``. Without privacy (``epsilon=inf``) a chain starts at the mode, in coordinates
    in which the posterior is round there, and draws are worth about a thousand independent ones.

    Parameters
    ----------
    temperature : float or "auto", default="auto"
        Temperature of the draws, at least 1. "auto" is the lowest that the budget affords given the released
        matrix.
    n_steps : int or "auto", default="auto"
        Number of updates. "auto" leaves it to the plan.
    friction : float or "auto", default="auto"
        Share of its velocity that the chain loses in a step. "auto" damps the slowest direction critically.
    batch_size : int, "auto" or None, default="auto"
        Expected size of a Poisson batch. "auto" and None read the full table at every step.
    burn_in : float or "auto", default="auto"
        Fraction of the updates before the first draw; "auto" is 0.25.

    References
    ----------
    .. [1] S. Ahn, A. Korattikara and M. Welling, "Bayesian posterior sampling via stochastic gradient Fisher
       scoring", ICML 2012.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import SGFS
    >>> from skdpbayes.models import TargetBounds
    >>> bounds = TargetBounds(3, 1.0, 0.25, (0.1, 0.1), row_norm=1.0)
    >>> plan = SGFS().plan(bounds, 100_000, Budget(epsilon=1.0, delta=1e-6))
    >>> plan.epsilon <= 1.0
    True
    """

    name = "sgfs"
    proof = "Propositions 15, 16 and 33"
    targets = frozenset({"linear"})
    is_whitened = True
    _parameter_constraints = {
        name: CONSTRAINTS[name]
        for name in ("temperature", "n_steps", "friction", "batch_size", "burn_in")
    }

    friction: float | str = "auto"
    batch_size: int | str | None = "auto"
    burn_in: float | str = "auto"

    def _plan(self, bounds, n_samples, budget, n_draws):
        checked_gaussian(self, bounds, budget)
        batch = resolved_batch_size(self.batch_size, bounds, n_samples)
        rate = 1.0 if batch is None else batch / n_samples
        burn_in = resolve_auto(self.burn_in, float)
        plan = plan_fisher(self, bounds, n_samples, budget, rate, burn_in, *self.fixed(), n_draws)
        return plan.changed(nominal_temperatures=nominal_temperatures(plan, self._chain()))

    def _chain(self):
        """The chain that runs in whitened coordinates."""
        return SGHMC(**self.get_params(deep=False))

    def check(self, plan: Any, target: Any) -> None:
        """Raise a ValueError if a plan was made for another target, or this one has no rows."""
        check_linear(
            plan,
            target,
            "linear targets",
            "leave row_norm out of its bounds, or plan another sampler",
        )

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Release the second moment, then draw along a path in the coordinates that it whitens."""

        run = run_fisher if plan.budget.is_private else run_reference
        return run(plan, self._chain(), target, generator, verbose)


# Stochastic gradient Fisher scoring (SGFS): an underdamped chain in whitened coordinates.
#
#     A = sum_i z_i z_i^T + noise,    theta = W u,    W = (A / n)^(-1/2)
#     g(u) = W^T sum_i v_i grad ell_i,    v_i = min(1, C^2 / ||W^T z_i||^2)
#
# See `skdpbayes.samplers.langevin.fisher` for the floor of ``A``'s eigenvalues, ``C`` and the schedule,
# all of which follow from the released matrix.
#
# Ahn, Korattikara and Welling (2012).


def run_fisher(plan, chain, target, generator, verbose):
    """Release a second moment, and run an underdamped chain in the coordinates that it whitens."""
    own = total(second_moment, target)
    # Proposition 15.
    moment = release_moment(own, plan.moment_noise, generator, charged_mu=plan.mu_of_matrix)
    path, transform, norm = complete(plan, moment, chain)
    target = map_records(reweighted, target, transform, norm, in_place=True)
    n_blocks = plan.bounds.n_blocks
    scale = shift_scale(target.prior_precision.reshape(n_blocks, -1).max(axis=0), plan.n_samples)
    coordinates = OfBlocks(transform, scale) if n_blocks > 1 else transform
    draws = run_underdamped(path, target, generator, verbose, transform=coordinates)
    blocks = draws.reshape(plan.n_draws, n_blocks, -1)
    mean = (n_blocks > 1) * blocks.mean(axis=1, keepdims=True)
    blocks = (blocks - mean) @ transform.T + mean * scale
    other = replace(_diagnostics(plan, moment), second_moment=moment)
    return Released(blocks.reshape(draws.shape), path, other=other)


def _diagnostics(plan, moment):
    """Diagnostics of rows from the released second moment, where there are a constant column and noise."""
    if (geometry := plan._geometry()) is None:
        return Diagnostics()
    norm, constant, noise = geometry
    is_exact = plan.budget.neighboring_relation == "replace_one"
    return moment_diagnostics(moment, noise, constant, norm, plan.n_samples, is_exact)


# Fisher scoring without privacy: a chain at the posterior's mode, in coordinates in which it is
# round.
#
#     theta = W u,    W = (H + tau P)^(-1/2),    H = sum_i hess ell_i at the mode, P the prior's precision
#
# At the mode all curvatures are 1, and ``M = |W^T (sum_i B_i + tau P) W|`` at most anywhere, ``B_i``
# a bound on a record's Hessian. With steps ``kappa = 1 / M`` and friction ``M^(-1/2) / 2``, a quarter
# of the critical one, coordinates swing: on a normal posterior means are known as well as from an
# independent draw every ``M^(1/2)`` steps, and deviations as from one every ``2.5 M^(1/2)``.


_NEWTON_STEPS = 100
# Of the squared length of a step, in deviations of the posterior.
_STEP_TOLERANCE = 1e-12


@dataclass(frozen=True, kw_only=True)
class _RoundGeometry(PriorGeometry):
    """Curvatures 1 at the mode, and at most ``largest`` anywhere."""

    largest: float

    def slowest(self, temperature):
        """The curvature of all directions at the mode."""
        return 1.0

    def stiffest(self, temperature):
        """The largest curvature that the potential can have."""
        return self.largest


def posterior_mode(target, temperature):
    """The mode of a linear model's posterior, and the Hessian there, by Newton's method."""
    precision = temperature * target.prior_precision
    theta = np.zeros(precision.size)

    def potential(theta):
        loss, gradient, hessian = total(loss_and_derivatives, target, theta)
        return (
            loss + 0.5 * np.sum(precision * theta**2),
            gradient + precision * theta,
            hessian + np.diag(precision),
        )

    value, gradient, hessian = potential(theta)
    for _ in range(_NEWTON_STEPS):
        step = solve(hessian, gradient)
        decrease, share = gradient @ step, 1.0
        if decrease <= _STEP_TOLERANCE:
            break
        trial = potential(theta - step)
        while trial[0] > value - 1e-4 * share * decrease and share > 1e-6:
            share *= 0.5
            trial = potential(theta - share * step)
        theta = theta - share * step
        value, gradient, hessian = trial
    return theta, hessian


def _number_of_steps(plan, chain, largest):
    """The user's number of steps, or as many as it takes: up to ten times what was planned."""
    if "n_steps" in plan.fixed or plan.sampling_rate < 1:  # With batches, heat decides.
        return plan.n_steps
    wanted = math.ceil(STEPS_PER_DRAW * EFFECTIVE_SIZE * math.sqrt(largest))
    most = 10 * plan.n_steps
    return chain_length(None, min(wanted, most), plan.n_draws, chain.burn_in, 1.0)


def run_reference(plan, chain, target, generator, verbose):
    """Carry out a `FisherPlan` without privacy."""
    temperature = 1.0 if np.isnan(plan.temperature) else plan.temperature
    mode, hessian = posterior_mode(target, temperature)
    moment = total(second_moment, target)
    values, vectors = eigh(hessian)
    transform = np.ascontiguousarray(vectors / np.sqrt(values))
    most = curvature_bound(moment, target.family)
    most[np.diag_indices_from(most)] += temperature * target.prior_precision
    curvatures = eigvalsh(transform.T @ most @ transform)
    # Guard against rounding: the minimum cannot exceed the value at the mode.
    largest = max(1.0, float(curvatures[-1]))
    # No residual is longer than twice the root of its bound on curvatures: what batches add up to.
    norm = 2.0 * np.sqrt(curvatures.sum() / plan.n_samples)
    bounds = plan.bounds._replace(gradient_bound=float(norm))
    if resolve_auto(chain.friction) is None:
        chain = clone(chain).set_params(friction=0.5 * largest**-0.5)
    if resolve_auto(chain.burn_in) is None:
        chain = clone(chain).set_params(burn_in=BURN_IN[1])
    path = chain.plan_for_noise_multiplier(
        _RoundGeometry(bounds, plan.n_samples, largest=largest),
        plan.n_samples,
        plan.noise_multiplier,
        _number_of_steps(plan, chain, largest),
        plan.cost,
        budget=plan.budget,
        temperature=temperature,
        n_draws=plan.n_draws,
        relaxations=RELAXATIONS,
    )
    start = np.sqrt(values) * (vectors.T @ mode)
    draws = run_underdamped(path, target, generator, verbose, start=start, transform=transform)
    path = path.changed(sampler=plan.sampler, fixed=plan.fixed)
    return Released(draws @ transform.T, path, other=Diagnostics(second_moment=moment))
