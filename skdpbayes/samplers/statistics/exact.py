"""The posterior of labels or counts without privacy, which is that of `NoiseAware` without noise.

    p(u | table) ~ exp(-sum_i w_i ell_i(W u)) E_tau[p(u | tau)]

The prior is that of private fits: scales that are not given are learnt, and columns that vary little within
their bounds may have large coefficients (`prior`). Chains of `hmc` read the whole table for every point, all
of them at once.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..._data.shards import map_records, total
from ...models import second_moment
from ...models.sums import compacted, losses_and_gradients, weighted_sums
from ...privacy.cost import PrivacyCost
from ..base import Released
from ..plan import Plan
from .design import (
    centred_coordinates,
    estimate_design,
    indicators,
    repeated_columns,
    with_constant,
)
from .hmc import Posterior, find_mode_and_scales
from .logistic import DensityOfContrasts, deviations_in_common
from .plan import BURN_IN, LEAPS, N_CHAINS, norm_without_constant
from .prior import Growth, Prior, growth_of, prior_of

# Draws, which chains make in no more time than it takes them to settle.
N_EXACT_DRAWS = 1000
# Deviation of the noise of a second moment, over its largest trace, through which columns are seen: `design`
# has laws of noisy numbers.
_MOMENT_NOISE = 1e-7
# Rounds of expectation and maximisation of prior scales.
_N_SCALE_ROUNDS = 6


@dataclass(frozen=True, kw_only=True)
class ExactPlan(Plan):
    """A plan for the posterior without privacy; a step is a path of all chains."""

    @property
    def mu_of_replacing(self) -> float:
        """``mu`` where one row is replaced by another."""
        return math.inf

    @property
    def record_gradients(self) -> float:
        """The expected number of gradients of single records."""
        return float(self.n_steps * LEAPS * N_CHAINS * self.n_samples)

    def summary(self) -> dict[str, str]:
        """The lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        lines["temperature"] = "1: the posterior, without privacy"
        lines["steps"] = f"about {self.n_steps} paths of each of {N_CHAINS} Hamiltonian chains"
        return lines


def plan_exact(sampler, bounds, n_samples, budget, n_draws):
    """The `ExactPlan` of a linear model of classes or counts; parameters are those of `Sampler.plan`."""
    draws = n_draws or N_EXACT_DRAWS
    return ExactPlan(
        sampler=sampler,
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=PrivacyCost(budget.neighboring_relation, mu=math.inf),
        temperature=1.0,
        n_steps=BURN_IN + math.ceil(draws / N_CHAINS),
        n_burn_in=BURN_IN,
        n_draws=draws,
    )


@dataclass(frozen=True)
class TableDensity(DensityOfContrasts):
    """The likelihood of a table, and the prior. ``n`` stands for ``n_blocks * length``.

    Attributes
    ----------
    target : NamedTuple
        A linear model's target.
    prior : Prior
    scales : ndarray of shape (n_scales,)
    growth : Growth
    mean : ndarray of shape (length,)
        Of rows in the coordinates of ``u``.
    start : ndarray of shape (n,)
    """

    target: Any
    prior: Prior
    scales: np.ndarray
    growth: Growth
    mean: np.ndarray
    start: np.ndarray

    def _blocks(self, u):
        return u.reshape(*u.shape[:-1], -1, len(self.transform)) @ self.transform.T

    def negative_log_likelihood(self, u):
        """The negative log likelihood and its gradient, for (n_points, n)."""
        losses, gradients = total(losses_and_gradients, self.target, self.family, self._blocks(u))
        return losses, (gradients @ self.transform).reshape(u.shape)

    def information(self, u):
        """The curvature of the potential at one point."""
        given = self.target, self.family, None, self._blocks(u), self.transform
        return total(weighted_sums, *given)[1] + self.prior.precision(self.scales)

    def level(self, u):
        """The mean logit of each block, of shape (n_points, n_blocks)."""
        return u.reshape(len(u), -1, len(self.transform)) @ self.mean


def _density(plan, target, moment):
    """The `TableDensity` at its mode and likeliest prior scales."""
    bounds, family = plan.bounds, plan.bounds.family.identified
    norm, constant = norm_without_constant(bounds), bounds.constant or bounds.row_norm / 2.0
    n_records = moment[-1, -1] / constant**2
    noise = _MOMENT_NOISE * n_records * bounds.row_norm**2
    design = estimate_design(moment, noise, constant, norm, n_records)
    if bounds.constant:
        design = with_constant(design, constant)
    transform = centred_coordinates(design, noise, bounds, n_records, 1.0).transform
    length, precisions = len(transform), target.prior_precision
    prior = prior_of(bounds, family.n_blocks, precisions[:length], transform, design)
    density = TableDensity(
        target=target,
        family=family,
        prior=prior,
        scales=prior.prior_mode,
        growth=growth_of(bounds.constant, family.n_blocks, transform),
        transform=transform,
        shift=np.empty(0),
        mean=design.mean @ transform,
        start=np.zeros(family.n_blocks * length),
    )
    return find_mode_and_scales(density, _N_SCALE_ROUNDS)


def run_exact(plan, target, generator, verbose):
    """Carry out an `ExactPlan`. **Draws are not private.**"""
    bounds = plan.bounds
    target = map_records(compacted, target, in_place=True)
    constant = bounds.constant or bounds.row_norm / 2.0
    moment = total(_weighted_moment, target, constant)
    density = _density(plan, target, moment)
    known = target.prior_precision, density.family, density.scales
    shift = deviations_in_common(*known, density.prior.columns)
    posterior = Posterior(replace(density, shift=shift))
    draws, drawn = posterior.draw_all(plan.n_draws, generator)
    is_left_out = np.ones(bounds.block_length, dtype=bool)
    known = moment, 0.0, constant, moment[-1, -1] / constant**2
    is_left_out[: len(moment) - 1] = indicators(*known)[1]
    prior, information = density.prior.precision(density.scales), density.information(density.start)
    repeated = repeated_columns(information, prior, density.transform, is_left_out)
    other = replace(drawn, repeated_columns=repeated)
    return Released(draws, plan, {"coordinate_scale": np.ones(plan.n_parameters)}, other)


def _weighted_moment(target, constant):
    return second_moment(target, constant, target.weights)
