"""Searching for a random walk: the quickest run that mixes as often as the budget allows.

A random walk of ``T`` proposals at distance ``M``, of which a share ``A`` is accepted, moves like a diffusion
for a time ``T A M^2 / (2 d)``. In a direction of curvature ``h = 1 / sigma^2`` it relaxes

    k = T A M^2 h / (2 d)

times, and is worth ``k / 2`` independent draws. Curvatures are not public. Their average over directions is
at most ``lambda + n B / (d tau)`` where a record's Hessian has rank one; half of its second part stands for a
typical direction here: it decides on lengths, never on the cost.

The variance of the log ratio, and from it ``A``, is that of a normal posterior. What a Poisson batch adds to
it is ``2 r / (a (2 + r)) sum_i u_i^2``, about ``2 x^2 r / (a tau (2 + r))`` with ``x = M / sigma``.

Rule: of all distances, batches and noise levels take the quickest that reaches the wanted effective sample
size within the budget, and stop there; if the budget does not allow that, the quickest that relaxes seven
tenths as often as the best: that third buys most of the time. If even the best relaxes less than `FEWEST`
times, the temperature rises until it does; where it is fixed so low that burn-in takes all, the quickest
that comes seven tenths as far in that as any. `exact` then keeps what was found to its exact cost.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...privacy.accept_bits import LARGEST_BATCH_RATIO
from ...privacy.budget import Budget
from ...privacy.floating_point import sum_inflation
from ...privacy.root_finding import boundary, smallest_within
from ...privacy.zcdp import zcdp_epsilon
from ...targets import TargetBounds
from .._chain_length import COMPOSABLE_BATCHES
from .kernel import Kernel
from .plan import step_seconds

FEWEST = 3.0
# The share of the relaxations that a budget could buy which is given up to save time.
GIVEN_UP = 0.3
# Effective sample size that is enough for means and deviations, with privacy and without.
_EFFECTIVE_SIZE = (25, 100)
# A typical direction has this share of the largest average curvature.
_TYPICAL_SHARE = 0.5
# From zero a walk goes half of a typical distance under the prior, at the speed of one that only accepts on
# one side. It ends about sqrt(d) sigma / x from the posterior, x = M / sigma. Forgetting that takes 1 + log(1
# + sqrt(d) / x) relaxations, and half as many again if curvature is less than typical.
_FORGETTING = 1.5
_WAY_SHARE = 0.5
_SPEED = 0.4
_DISTANCES = np.geomspace(1e-4, 3.0, 90)[:, None, None]
# Shorter steps cost no more by zCDP, and rely less on what is typical.
_PRIVATE_DISTANCES = _DISTANCES[_DISTANCES[:, 0, 0] <= 1.0]
_BATCH_RATIOS = np.append(0.0, np.geomspace(0.01, 1.4, 30))[None, :, None]
_NOISE_VARIANCES = np.geomspace(1.0, 8.0, 7)[None, None, :]
_NONE = np.zeros((1, 1, 1))
# One for each candidate, or that of a single one.
_Numbers = np.ndarray | float
_MOST_STEPS = 50_000_000
_HIGHEST_TEMPERATURE = 1e9
# How far below the limit in which many bits are Gaussian their cost is looked for.
_MARGIN = 0.984


class WalkOptions(NamedTuple):
    """What a user fixes of a random walk; None leaves it to the search.

    Attributes are the options of `DPFastMHGaussian`, which has all of them, and ``n_draws``.
    """

    temperature: float | None = None
    n_steps: int | None = None
    n_draws: int | None = None
    step_size: float | None = None
    proposal: str = "sphere"
    adapt_step_size: bool = False
    n_effective: int | None = None
    burn_in: float | None = None
    batch_size: int | None = None
    max_batch_size: int | None = None
    noise_multiplier: float | None = None

    @property
    def is_varied(self):
        """Whether steps differ in length."""
        return self.proposal == "gaussian" or self.adapt_step_size


@dataclass(frozen=True)
class WalkProblem:
    """What a random walk is wanted for: public numbers.

    Attributes
    ----------
    bounds : TargetBounds
    n_samples : int
        Public size of the table.
    budget : Budget
    options : WalkOptions
    kernel : Kernel
    """

    bounds: TargetBounds
    n_samples: int
    budget: Budget
    options: WalkOptions
    kernel: Kernel

    @property
    def is_pure(self):
        """Whether costs are epsilons that add up, at delta 0."""
        return self.budget.is_private and self.budget.delta == 0

    @property
    def is_filtered(self):
        """Whether steps differ in length, and are charged as they are proposed."""
        return self.budget.is_private and self.options.is_varied

    @property
    def wanted(self):
        """How often a chain is to relax: twice for a draw of its effective sample size."""
        default = _EFFECTIVE_SIZE[not self.budget.is_private]
        return 2.0 * (default if self.options.n_effective is None else self.options.n_effective)

    @cached_property
    def lipschitz(self):
        """What a record's loss changes by per distance, with what rounding adds."""
        relation = self.budget.neighboring_relation
        inflation = sum_inflation(self.n_samples, self.bounds.n_parameters, relation)
        # The probabilities by which batches are drawn are rounded.
        rounding = 1e-9 + 2.0**-46 * self.n_samples
        return self.bounds.gradient_bound * inflation * (1.0 + rounding)

    @cached_property
    def allowance(self):
        """What the budget buys, in the units of `Kernel.units`, in which steps add up."""
        if not self.budget.is_private:
            return math.inf
        if self.is_pure:
            return self.budget.epsilon
        if self.is_filtered:
            return 2.0 * _largest_rho(self.budget.epsilon, self.budget.delta)
        margin = 1.0 if self.kernel.noisy else _MARGIN
        return (margin * self.budget.mu) ** 2


class Candidates(NamedTuple):
    """Random walks, arrays of one length, or one of them, numbers.

    Attributes
    ----------
    temperature, distance, ratio, noise
        What is chosen: ``tau``, ``M``, ``r``, and the variance of the noise.
    bound
        ``a``: what a record may add to the log ratio.
    deviation
        Of a parameter in a typical direction.
    acceptance, relaxing
        The share of proposals that is accepted there, and relaxations per proposal.
    affordable, burn_in
        Numbers of steps.
    seconds
        Of a step.
    """

    temperature: _Numbers
    distance: _Numbers
    ratio: _Numbers
    noise: _Numbers
    bound: _Numbers
    deviation: _Numbers
    acceptance: _Numbers
    relaxing: _Numbers
    affordable: _Numbers
    burn_in: _Numbers
    seconds: _Numbers

    def single(self, index=0):
        """Return one of them."""
        return Candidates(*(float(np.ravel(values)[index]) for values in self))


def best_walk(problem):
    """Find the temperature, then the quickest walk.

    Parameters
    ----------
    problem : WalkProblem

    Returns
    -------
    walk : Candidates
        A single one.
    n_steps : int
    """
    options = problem.options
    walks, found = _searched(problem, options.temperature or _lowest_temperature(problem))
    possible = _is_possible(walks, found)
    if not possible.any():
        raise impossible(problem, walks.ratio)
    if found[possible].max() <= 0:
        # What never gets through its burn-in is to come as far in it as it can.
        found = walks.affordable / walks.burn_in
    goal = min(problem.wanted, (1.0 - GIVEN_UP) * found[possible].max())
    steps = np.minimum(walks.affordable, _steps_for(walks, problem.wanted, options.burn_in or 0.0))
    if options.n_steps is not None:
        steps = walks.affordable
    enough = possible & (found >= goal * (1.0 - 1e-9))
    chosen = int(np.argmin(np.where(enough, steps * walks.seconds, np.inf)))
    return walks.single(chosen), max(1, math.floor(steps[chosen]))


def _searched(problem, temperature):
    """Return (all candidates, how often they relax, -inf for what is not to be had)."""
    private = problem.budget.is_private
    x = _DISTANCES if problem.is_pure or not private else _PRIVATE_DISTANCES
    distance = x / math.sqrt(_curvature(problem, temperature))
    if problem.options.step_size is not None:
        distance = np.full((1, 1, 1), problem.options.step_size)
    bound = problem.lipschitz * distance / temperature
    ratio = batch_ratios(problem, bound)
    walks = reckoned(problem, temperature, distance, ratio, noise_variances(problem, bound, ratio))
    found = relaxations(walks, walks.affordable, problem.options.burn_in)
    return walks, np.where(walks.ratio <= LARGEST_BATCH_RATIO, found, -np.inf)


def _is_possible(walks, found):
    return np.isfinite(found) & (walks.affordable >= 1)


def _curvature(problem, temperature):
    bounds = problem.bounds
    data = problem.n_samples * bounds.smoothness / (bounds.n_parameters * temperature)
    return bounds.prior_precision[0] + _TYPICAL_SHARE * data


@np.errstate(divide="ignore")
def reckoned(problem, temperature, distance, ratio, noise):
    """Return the `Candidates` of all distances, batches and noise levels, whose shapes are broadcast."""
    bounds, n, options = problem.bounds, problem.n_samples, problem.options
    d, precision = bounds.n_parameters, bounds.prior_precision[0]
    deviation = 1.0 / math.sqrt(_curvature(problem, temperature))
    bound = problem.lipschitz * distance / temperature
    # In one dimension distances are uniform below this one.
    square = distance**2 / (3.0 if d == 1 and options.proposal == "sphere" else 1.0)
    share = max(0.0, 1.0 - precision * deviation**2)
    heat = 2.0 * square * share * ratio / (bound * temperature * (2.0 + ratio))
    variance = (square + heat) / deviation**2 + noise
    acceptance = problem.kernel.acceptance(np.sqrt(variance))
    relaxing = np.maximum(acceptance * square / (2.0 * d * deviation**2), 1e-200)
    way = _WAY_SHARE * math.sqrt(d / precision)
    forgetting = _FORGETTING * (1.0 + np.log1p(math.sqrt(d) * deviation / distance))
    size = np.where(ratio == 0, n, n * bound * (1.0 + 1.0 / np.maximum(ratio, 1e-300)))
    every = Candidates(
        temperature=temperature,
        distance=distance,
        ratio=ratio,
        noise=noise,
        bound=bound,
        deviation=deviation,
        acceptance=acceptance,
        relaxing=relaxing,
        affordable=_affordable(problem, bound, ratio, noise, size),
        burn_in=way * math.sqrt(d) / (_SPEED * distance) + forgetting / relaxing,
        seconds=np.where(ratio == 0, step_seconds(d, n, True), step_seconds(d, size, False)),
    )
    return Candidates(*(values.ravel() for values in np.broadcast_arrays(*every)))


def _affordable(problem, bound, ratio, noise, size):
    """Return how many steps the budget pays for; 0 where they are too few, or batches too large."""
    options, kernel = problem.options, problem.kernel
    most = np.where((ratio > 0) & kernel.noisy, COMPOSABLE_BATCHES, _MOST_STEPS)
    units = kernel.units(bound, ratio, noise, problem.is_pure)
    steps = np.floor(np.minimum(problem.allowance / units, most))
    if options.n_steps is not None:
        steps = np.where(steps >= options.n_steps, float(options.n_steps), 0.0)
    if not kernel.on_batches:
        return steps
    # The table is read where all batches are too large.
    largest = options.max_batch_size or problem.n_samples
    smallest_batch = problem.n_samples * bound * (1.0 + 1.0 / LARGEST_BATCH_RATIO)
    return np.where(np.where(ratio == 0, smallest_batch > largest, size <= largest), steps, 0.0)


def batch_ratios(problem, bound):
    """Return the ratios of batches to look at, 0 for the whole table."""
    if not problem.kernel.on_batches:
        return _NONE
    size = problem.options.batch_size
    if size is None:
        return _BATCH_RATIOS
    # size = n a (1 + 1 / ratio); what is not to be had so is marked by a ratio beyond the bound.
    expected = size / (problem.n_samples * bound) - 1.0
    with np.errstate(divide="ignore"):
        ratio = np.where(expected > 0, 1.0 / expected, np.inf)
    return np.minimum(ratio, 10.0)


def noise_variances(problem, bound, ratio):
    """Return the variances of noise to look at."""
    if not problem.kernel.noisy:
        return _NONE
    multiplier = problem.options.noise_multiplier
    if multiplier is None:
        return _NOISE_VARIANCES
    jump = np.where(ratio == 0, bound, np.log1p(ratio))
    return (multiplier * problem.kernel.sides * jump) ** 2


def relaxations(walks, n_steps, burn_in):
    """Return how often a typical direction relaxes after burn-in; negative if that takes longer."""
    needed = np.maximum(walks.burn_in, (burn_in or 0.0) * n_steps)
    return (n_steps - needed) * walks.relaxing


def _steps_for(walks, relaxations, burn_in):
    after = relaxations / walks.relaxing
    return np.ceil(np.maximum(after + walks.burn_in, after / (1.0 - burn_in)))


def _lowest_temperature(problem):
    """Return the lowest temperature at which a chain relaxes, or where that is out of reach, runs."""
    if not problem.budget.is_private:
        return 1.0
    found = _lowest_where(lambda tau: _searched(problem, tau)[1].max() >= FEWEST)
    if found is None:
        found = _lowest_where(lambda tau: _is_possible(*_searched(problem, tau)).any())
    if found is None:
        raise impossible(problem, _searched(problem, _HIGHEST_TEMPERATURE)[0].ratio)
    return found


def _lowest_where(holds):
    """Return the lowest temperature from 1 on at which something holds, to a thousandth; None if nowhere."""
    if holds(1.0):
        return 1.0
    high = 2.0
    while not holds(high):  # It may fail again at higher temperatures.
        high *= 2.0
        if high > _HIGHEST_TEMPERATURE:
            return None
    ends = math.log(high / 2.0), math.log(high)
    return math.exp(boundary(lambda log: holds(math.exp(log)), *ends, math.log(1.001)))


def _largest_rho(epsilon, delta):
    """Return the largest rho for which ``rho``-zCDP implies (epsilon, delta)-privacy."""

    def excess(log_shortage):
        return zcdp_epsilon((epsilon + 1.0) * math.exp(-log_shortage), delta) / epsilon - 1.0

    return (epsilon + 1.0) * math.exp(-smallest_within(excess))


def impossible(problem, ratios=0.0):
    """Return the error that says which options cannot hold together."""
    fixed = [
        f"{name}={getattr(problem.options, name):g}"
        for name in ("n_steps", "step_size", "batch_size", "temperature", "noise_multiplier")
        if getattr(problem.options, name) is not None
    ]
    if np.min(ratios) > LARGEST_BATCH_RATIO:
        return ValueError(
            f"no chain with {', '.join(fixed)} is private: batches this small reveal too much "
            "about steps this long. Raise batch_size, or lower step_size."
        )
    remedy = "leave one of these out, or raise epsilon" if fixed else "raise epsilon"
    return ValueError(
        f"no chain with {', '.join(fixed) or 'these bounds'} costs at most epsilon="
        f"{problem.budget.epsilon:g} at delta={problem.budget.delta:g}: {remedy}."
    )
