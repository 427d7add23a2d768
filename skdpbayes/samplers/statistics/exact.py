"""The posterior of labels or counts without privacy, which is that of `NoiseAware` without noise.

    p(u | table) ~ exp(-sum_i w_i ell_i(W u)) E_tau[p(u | tau)]

The prior is that of private fits: scales that are not given are learnt, and columns that vary little within
their bounds may have large coefficients (`prior`). Chains of `hmc` read the whole table for every point, all
of them at once.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..._data.shards import map_records, total
from ...models import second_moment
from ...models.families.base import NumberFamily
from ...models.sums import compacted, losses_and_gradients, sum_of_blocks, weighted_sums
from ..base import Released
from ..plan import PlanWithoutPrivacy
from .design import Design, Numbers, centred_coordinates, repeated_columns, with_constant
from .hmc import Posterior, find_mode_and_scales
from .logistic import DensityOfContrasts, deviations_in_common
from .plan import BURN_IN, LEAPS, N_CHAINS, norm_without_constant
from .prior import LARGEST_FACTOR, Growth, Prior, growth_of, prior_of

# Draws, which chains make in no more time than it takes them to settle.
N_EXACT_DRAWS = 1000
# Least total weight of records.
_LEAST_RECORDS = 1e-9
# Least variance of a column, over the mean of its squares and by itself, and that of one that varies.
_ROUNDING_SHARE = 1e-13
_LEAST_VARIANCE = 1e-250
_VARYING_SHARE = 2e-13
# Norm of rows over the root mean square of their distances from their mean, beyond which scales of
# coefficients are looked for around what that allows. Columns that use their bounds evenly have 3^0.5.
_LARGEST_EXCESS = 4.0
# Seconds of a record's logit in one block for one of the chains, of an entry of its row, and of the chains'
# own part in a step for each coordinate: guesses.
_LOGIT_SECONDS = 2.5e-8
_ENTRY_SECONDS = 3e-10
_CHAIN_SECONDS = 6e-5
# Rounds of expectation and maximisation of prior scales.
_N_SCALE_ROUNDS = 6


@dataclass(frozen=True, kw_only=True)
class ExactPlan(PlanWithoutPrivacy):
    """A plan for the posterior without privacy; a step is a path of all chains."""

    @property
    def record_gradients(self) -> float:
        """The expected number of gradients of single records."""
        return float(self.n_steps * LEAPS * N_CHAINS * self.n_samples)

    @property
    def estimated_seconds(self) -> float:
        """A rough guess of the run time, for dense rows."""
        blocks, d = self.bounds.family.identified.n_blocks, self.bounds.block_length
        of_rows = self.record_gradients * blocks * (_LOGIT_SECONDS + _ENTRY_SECONDS * d)
        return 0.1 + of_rows + self.n_steps * LEAPS * _CHAIN_SECONDS * blocks * d

    def summary(self) -> dict[str, str]:
        """The lines of the printed plan, a dict of {name: text}."""
        steps = f"about {self.n_steps} paths of each of {N_CHAINS} Hamiltonian chains"
        return {**super().summary(), "steps": steps}


def plan_exact(sampler, bounds, n_samples, budget, n_draws):
    """The `ExactPlan` of a linear model of classes or counts; parameters are those of `Sampler.plan`."""
    draws = n_draws or N_EXACT_DRAWS
    steps = BURN_IN + math.ceil(draws / N_CHAINS)
    length = {"n_steps": steps, "n_burn_in": BURN_IN, "n_draws": draws}
    return ExactPlan.made_for(sampler, bounds, n_samples, budget, **length)


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


class TableSums(NamedTuple):
    """Sums over a table's records, which are **not private**.

    Attributes
    ----------
    moment : ndarray of shape (n_features + 1, n_features + 1)
        Weighted, of rows with a constant.
    others : ndarray of shape (n_features,)
        Numbers of entries other than 0 and 1.
    response, exposure : float
        Weighted, of counts.
    """

    moment: np.ndarray
    others: np.ndarray
    response: float
    exposure: float


def _sums_of(target, constant):
    def others_of_block(part, block):
        values = block.rows.data if not block.is_dense else block.rows
        others = (values != 0.0) & (values != 1.0)
        if block.is_dense:
            return (others.sum(axis=0),)
        return (np.bincount(block.rows.indices[others], minlength=block.rows.shape[1]),)

    offsets, weights = getattr(target, "offsets", ()), target.weights
    exposure = weights @ np.exp(offsets) if len(offsets) else weights.sum()
    moment = second_moment(target, constant, weights)
    others = sum_of_blocks(target, others_of_block)[0]
    return moment, others, float(weights @ target.responses), float(exposure)


def exact_design(sums, constant):
    """The `Design` of a table that is known, without the column that was added for it.

    Parameters
    ----------
    sums : TableSums
    constant : float
        The value of that column.
    """
    moment = sums.moment
    n_records = max(moment[-1, -1] / constant**2, _LEAST_RECORDS)
    mean, second = moment[-1, :-1] / (n_records * constant), moment[:-1, :-1] / n_records
    covariance = second - np.outer(mean, mean)
    squares = np.diag(second)
    variances = np.maximum(np.diag(covariance), _ROUNDING_SHARE * squares + _LEAST_VARIANCE)
    np.fill_diagonal(covariance, variances)
    is_number = (sums.others > 0) & (variances > _VARYING_SHARE * squares)
    # Effects for two deviations are as large as for the presence of something: see `design`.
    usual = float(np.mean(np.where(is_number, variances, 0.25)))
    numbers = Numbers(is_number.astype(float), variances, np.zeros(len(mean)), usual)
    return Design(mean, covariance, numbers=numbers)


def precisions_for(design, precisions, norm):
    """Prior precisions around which scales are looked for, of shape (n_features,).

    Where columns vary by far less than the norm of rows allows, or one by far less than others do, the scales
    that are looked for would be too small.
    """
    numbers, squares = design.numbers, np.diag(design.second_moment)
    varies = numbers.variances > _VARYING_SHARE * squares + 2.0 * _LEAST_VARIANCE
    variances = np.where(varies, numbers.variances, 0.0)
    if not variances.any():
        return precisions
    of_table = _LARGEST_EXCESS * math.sqrt(variances.sum()) / norm
    of_columns = LARGEST_FACTOR * np.sqrt(numbers.variances / numbers.usual)
    of_columns = np.where(numbers.probability > 0, np.minimum(1.0, of_columns), 1.0)
    return precisions * (min(1.0, of_table) * of_columns) ** 2


def _density(plan, target, sums):
    """The `TableDensity` at its mode and likeliest prior scales."""
    bounds, family = plan.bounds, plan.bounds.family.identified
    constant = bounds.constant or bounds.row_norm / 2.0
    design, length = exact_design(sums, constant), bounds.block_length
    precisions = target.prior_precision[:length].copy()
    if bounds.learns_scales[0]:
        own = slice(len(design.mean))
        precisions[own] = precisions_for(design, precisions[own], norm_without_constant(bounds))
    if bounds.constant:
        design = with_constant(design, constant)
    transform = centred_coordinates(design, 0.0, bounds, plan.n_samples, 1.0).transform
    prior = prior_of(bounds, family.n_blocks, precisions, transform, design)
    growth = growth_of(bounds.constant, family.n_blocks, transform)
    level = 0.0
    if isinstance(family, NumberFamily) and sums.exposure > 0:
        level = math.log((sums.response + 1.0) / sums.exposure)
    density = TableDensity(
        family=family,
        transform=transform,
        shift=np.empty(0),
        target=target,
        prior=prior,
        scales=prior.prior_mode,
        growth=growth,
        mean=design.mean @ transform,
        start=level * np.tile(growth.intercept, family.n_blocks),
    )
    density = find_mode_and_scales(density, _N_SCALE_ROUNDS)
    if family.n_blocks == 1:
        return density
    known = np.tile(precisions, len(family.contrasts)), family, density.scales
    return replace(density, shift=deviations_in_common(*known, prior.columns))


def run_exact(plan, target, generator, verbose):
    """Carry out an `ExactPlan`. **Draws are not private.**"""
    bounds = plan.bounds
    assert not plan.budget.is_private
    target = map_records(compacted, target, in_place=True)
    sums = TableSums(*total(_sums_of, target, bounds.constant or bounds.row_norm / 2.0))
    density = _density(plan, target, sums)
    draws, drawn = Posterior(density).draw_all(plan.n_draws, generator)
    is_left_out = np.ones(bounds.block_length, dtype=bool)
    is_left_out[: len(sums.others)] = sums.others == 0
    prior, information = density.prior.precision(density.scales), density.information(density.start)
    repeated = repeated_columns(information, prior, density.transform, is_left_out)
    other = replace(drawn, repeated_columns=repeated)
    return Released(draws, plan, {"coordinate_scale": np.ones(plan.n_parameters)}, other)
