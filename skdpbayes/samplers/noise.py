"""Noisy steps and sums on a lattice, and noise that is paid for before coordinates are known.

    q = round(N(0, sigma^2 I)) - round(eta g)

is all that a step reveals about the records: a Gaussian mechanism, see `skdpbayes.privacy.rounding`.
The prior's part does not depend on the records, and is rounded separately: far from zero, the sum of both
would be rounded differently on two tables.

A sampler may move in coordinates ``u`` with ``theta = W u``; gradients are then ``W^T g``. If parameters are
in several blocks, one for each class, their mean has a matrix of its own,

    theta_k = W (u_k - m) + D m,     m the mean of u_k,     g_k -> W^T (g_k - mean) + D mean:

the softmax does not change when all blocks move alike. Records have nothing to say there, and what rounding
leaves of the mean of their gradients is taken out.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import types

from .._jit import compilable, compiled_for
from .._mechanisms.audit_hook import ReleaseEvent, audited_release
from ..models import MOMENT_ROWS
from ..privacy.conversions import smallest_within
from ..privacy.cost import PrivacyCost
from ..privacy.losses import SampledGaussian, sensitivity_factor
from ..privacy.rounding import (
    LARGEST_UNITS,
    LATTICE_BITS,
    UNIT_ROUNDOFF,
    covered_records,
    lattice_spacing,
    on_lattice,
)


@compilable
def _rounded(move, spacing):
    """A move in units of the lattice, cut: sums stay exact wherever a chain goes."""
    return np.rint(min(max(move / spacing, -LARGEST_UNITS), LARGEST_UNITS))


@compilable
def noisy_step(gradient, size, noise_scale, spacing, generator, out):
    """Write ``q`` to ``out``, the gradient being that of the records alone."""
    for j in range(out.size):
        noise = noise_scale * generator.standard_normal()  # Proposition 17.
        # Dividing by a power of two is exact, and so is the sum of lattice points.
        out[j] = spacing * (np.rint(noise / spacing) - _rounded(size * gradient[j], spacing))


@compilable
def add_prior_step(prior, size, spacing, out):
    """Add ``-round(size * prior)`` to ``out``, the gradient being that of ``-log p(theta)``."""
    for j in range(out.size):
        out[j] -= spacing * _rounded(size * prior[j], spacing)


def release_vector(values, noise_scales, generator, charged_mu=None, is_joint=False):
    """Numbers with noise of one deviation, or of one for each, on the lattice of the smallest.

    ``noise_scales`` alone sets the noise. ``charged_mu`` and ``is_joint`` are for audits: what is charged
    for it, if that is known here, and whether the charge covers what was released before, too; see
    `ReleaseEvent`.
    """

    def release():
        noise = noise_scales * generator.standard_normal(values.size)  # Proposition 17.
        return on_lattice(values, noise, lattice_spacing(np.min(noise_scales)))

    event = ReleaseEvent("gaussian", values, noise_scales, charged_mu, is_joint)
    return audited_release(event, release, generator)


def moment_noise(bounds, n_samples, budget, multiplier):
    """The deviation of the noise on a second moment's diagonal, at a noise multiplier."""
    if multiplier == 0:
        return 0.0
    records = covered_records(n_samples, budget.neighboring_relation)
    # Rounding of the sum, in both tables, of rows' norms, and of every entry to the lattice of its noise.
    chain = MOMENT_ROWS + records / MOMENT_ROWS + max(8, bounds.block_length / n_samples)
    sums = 1.0 + 2.0 * UNIT_ROUNDOFF * chain * records
    sensitivity = math.sqrt(budget.sensitivity_factor) * bounds.row_norm**2 * sums
    return sensitivity / sensitivity_after_rounding(multiplier, bounds.block_length**2)


def release_moment(moment, noise_scale, generator, charged_mu=None, is_joint=False):
    """A symmetric matrix with noise: half the variance off the diagonal, where entries count twice.

    ``charged_mu`` and ``is_joint`` are as for `release_vector`.
    """
    if noise_scale == 0:
        return moment
    spacing = lattice_spacing(noise_scale / math.sqrt(2.0))

    def release():
        noise = noise_scale * generator.standard_normal(moment.shape)  # Proposition 17.
        noise[np.triu_indices_from(noise, 1)] /= math.sqrt(2.0)
        upper = np.triu(on_lattice(moment, noise, spacing))
        return upper + np.triu(upper, 1).T

    deviations = np.full(moment.shape, noise_scale / math.sqrt(2.0))
    np.fill_diagonal(deviations, noise_scale)
    # Entries below the diagonal are those above, and are not counted again.
    deviations[np.tril_indices_from(deviations, -1)] = math.inf
    return audited_release(
        ReleaseEvent("gaussian", moment, deviations, charged_mu, is_joint), release, generator
    )


class OfBlocks(NamedTuple):
    """Coordinates of several blocks: ``W`` of their differences, and the diagonal of their mean's ``D``."""

    differences: np.ndarray
    mean: np.ndarray


def to_parameters(transform, coordinates, out):
    """Write ``theta`` to ``out`` (generic, compiled); without a transform, ``u`` itself."""
    raise NotImplementedError("to_parameters is a generic of compiled code.")


def to_coordinates(transform, gradient, is_prior, out):
    """Write a gradient in ``u``, of records or of the prior, to ``out`` (generic, compiled)."""
    raise NotImplementedError("to_coordinates is a generic of compiled code.")


@compilable
def _multiply(matrix, vector, out):
    for i in range(out.size):
        total = 0.0
        for j in range(out.size):
            total += matrix[i, j] * vector[j]
        out[i] = total


@compilable
def _multiply_blocks(matrix, diagonal, vector, out):
    length = diagonal.size
    mean, difference = np.zeros(length), np.empty(length)
    for j in range(out.size):
        mean[j % length] += vector[j] * length / out.size
    for first in range(0, out.size, length):
        for j in range(length):
            difference[j] = vector[first + j] - mean[j]
        _multiply(matrix, difference, out[first : first + length])
        for j in range(length):
            out[first + j] += diagonal[j] * mean[j]


@compilable
def _copy(vector, out):
    for j in range(out.size):
        out[j] = vector[j]


@compiled_for(to_parameters)
def _to_parameters(transform, coordinates, out):
    if isinstance(transform, types.NoneType):
        return lambda transform, coordinates, out: _copy(coordinates, out)
    if isinstance(transform, types.Array):
        return lambda transform, coordinates, out: _multiply(transform, coordinates, out)
    return lambda transform, coordinates, out: _multiply_blocks(
        transform.differences, transform.mean, coordinates, out
    )


@compiled_for(to_coordinates)
def _to_coordinates(transform, gradient, is_prior, out):
    if isinstance(transform, types.NoneType):
        return lambda transform, gradient, is_prior, out: _copy(gradient, out)
    if isinstance(transform, types.Array):
        return lambda transform, gradient, is_prior, out: _multiply(transform.T, gradient, out)
    return lambda transform, gradient, is_prior, out: _multiply_blocks(
        transform.differences.T, transform.mean * is_prior, gradient, out
    )


# Noise that is fixed and paid for before a step or a statistic is computed.
#
#     what a record moves <= (1 / nu - sqrt(d) 2^-b) sigma,      mu = q sqrt(T) / nu
#
# for ``T`` releases of ``d`` numbers. ``nu`` is the noise multiplier, ``sigma`` the deviation of the
# noise, and ``2^-b sigma`` the spacing of the lattice to which sums are rounded. ``q`` is 2 if
# records are replaced, and otherwise 1.


# With less noise the loss of a single step is so large that no useful guarantee can follow.
SMALLEST_MULTIPLIER = 0.5


def sensitivity_after_rounding(noise_multiplier, n_parameters):
    """The sensitivity of a step, in units of its noise, that is left once rounding has its share.

    Raises
    ------
    ValueError
        If rounding takes more than half of what is paid for.
    """
    paid, rounding = 1.0 / noise_multiplier, math.sqrt(n_parameters) * 2.0**-LATTICE_BITS
    if rounding > 0.5 * paid:
        raise ValueError(
            "the budget is too small for this many steps and parameters (of networks, by "
            "hidden_layer_sizes): what one record may "
            "change in a step is lost in rounding. Raise epsilon or, for a chain, lower n_steps."
        )
    return paid - rounding


def path_cost(relation, rate, steps, multiplier, of_start=0.0):
    """The cost of equal steps, and of what is ``of_start``-GDP before."""
    if rate == 1:
        path = sensitivity_factor(relation) * math.sqrt(steps) / multiplier
        return PrivacyCost(relation, mu=math.hypot(of_start, path))
    return PrivacyCost(relation, mu=of_start, sampled=(SampledGaussian(multiplier, rate, steps),))


def path_multiplier(bounds, budget, rate, steps, of_start=0.0):
    """(noise multiplier of a step, cost of all steps and of what is ``of_start``-GDP before).

    Raises
    ------
    ValueError
        If steps are so many that rounding would cost as much as they do.
    """
    relation = budget.neighboring_relation
    if not budget.is_private:
        return 0.0, PrivacyCost(relation, mu=math.inf)
    mu_left = math.sqrt(budget.mu**2 - of_start**2)
    limit = budget.sensitivity_factor * rate * math.sqrt(steps) / mu_left
    if rate == 1:
        multiplier = limit * (1 + 1e-12)
        sensitivity_after_rounding(multiplier, bounds.n_parameters)
        return multiplier, path_cost(relation, rate, steps, multiplier, of_start)

    def excess(log_excess):
        cost = path_cost(relation, rate, steps, 0.5 * limit * math.exp(log_excess), of_start)
        return cost.epsilon(budget.delta) / budget.epsilon - 1.0

    if limit < SMALLEST_MULTIPLIER:  # Costs of less noise take minutes to compute, and mean little.
        least = path_cost(relation, rate, steps, SMALLEST_MULTIPLIER, of_start)
        if least.epsilon(budget.delta) <= budget.epsilon:
            return SMALLEST_MULTIPLIER, least

    # At least the noise that the limit of small steps needs; half of it is certainly too little.
    multiplier = 0.5 * limit * math.exp(smallest_within(excess, tolerance=1e-3))
    sensitivity_after_rounding(multiplier, bounds.n_parameters)
    return multiplier, path_cost(relation, rate, steps, multiplier, of_start)
