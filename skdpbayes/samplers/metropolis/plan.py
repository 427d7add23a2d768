"""Plans for Metropolis-Hastings: what a step costs, how often it accepts, and the quickest affordable walk.

A chain's privacy filter adds up what its accept/reject decisions cost. With steps of one length all cost the
same, and the filter counts steps. Where lengths differ, as those of Gaussian proposals or adapted ones do, it
counts zCDP of every step as it is proposed, and ends the chain before its total would be passed: a privacy
filter (Rogers et al., 2016; Feldman and Zrnic, 2021; Whitehouse et al., 2023).
"""

import math
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from ...models import TargetBounds
from ...privacy.budget import Budget
from ...privacy.conversions import boundary, smallest_within, zcdp_epsilon
from ...privacy.cost import PrivacyCost
from ...privacy.losses import (
    LARGEST_BATCH_RATIO,
    BoundedRangeDecisions,
    PoissonGaussian,
    accept_range,
    sensitivity_factor,
)
from ...privacy.rounding import covered_records, sum_inflation
from ..plan import COMPOSABLE_BATCHES, Plan

# Seconds of a step, of a record that is looked up, and of one in a pass over the table; the second numbers
# are for each parameter. They choose between plans that cost the same, and are guesses on any machine.
STEP_SECONDS = (1e-6, 4e-8)
LOOKUP_SECONDS = (3e-8, 2e-9)
PASS_SECONDS = (8e-9, 1.5e-9)
# Time that a fit takes over the sum of these.
_SECONDS_FACTOR = 1.4
# Exact costs shorten steps by some hundredths more than the search reckons with: no reason for a warning.
_SHORT_SHARE = 0.85
# The distance that is adapted to decisions keeps within this factor of the plan's.
LARGEST_CHANGE = 4.0


class PrivacyFilter(NamedTuple):
    """The charge of a step, and the total at which the chain ends: a privacy filter.

    Attributes
    ----------
    coefficient : float
        A step is charged so many times its squared distance; 0 charges 1 for any step.
    total : float
        No step is made that would pass it.
    burn_in_end : float
        Where burn-in ends.
    target_acceptance : float
        At which step sizes are aimed until then; 0 leaves them alone.
    """

    coefficient: float
    total: float
    burn_in_end: float
    target_acceptance: float


@dataclass(frozen=True, kw_only=True)
class MetropolisPlan(Plan):
    """A plan for a random walk, of which accept/reject decisions are paid for.

    Where steps differ in length, ``n_steps`` is how many there are at most.

    Attributes
    ----------
    step_size : float
        Distance of a proposal (in one dimension at most; for Gaussian ones its root mean square).
    proposal : {"sphere", "gaussian"}
        Law of the proposals.
    rule : {"barker", "metropolis"}
        How a ratio becomes a probability.
    noise_variance : float
        Variance of the Gaussian noise on the log ratio.
    batch_ratio : float
        ``n a / lambda_T`` of the Poisson batch; 0 takes the whole table.
    adapt_step_size : bool
        Whether the step size follows the accept/reject decisions of the burn-in.
    privacy_filter : PrivacyFilter
        What is charged, and when the chain ends.
    expected_acceptance : float
        Share of proposals that a typical posterior accepts.
    typical_deviation : float
        Deviation of a parameter under a posterior whose curvature is typical of the bounds.
    relaxations : float
        How often such a posterior relaxes after burn-in; half of it is its effective sample size.
    wanted_relaxations : float
        How often it should at least.
    expected_steps : int
        How many steps are expected where the privacy filter decides.
    advice : str
        What else to try, if the budget moves too little.
    """

    step_size: float
    proposal: str
    rule: str
    noise_variance: float
    batch_ratio: float
    adapt_step_size: bool
    privacy_filter: PrivacyFilter
    expected_acceptance: float
    typical_deviation: float
    relaxations: float
    wanted_relaxations: float
    expected_steps: int
    advice: str = ""

    @property
    def lambda_t(self):
        """``lambda_T``: the part of the batch's expected size that does not depend on the distance."""
        if self.batch_ratio == 0:
            return 0.0
        bound = self.bounds.gradient_bound * self.step_size / self.temperature
        return self.n_samples * bound / self.batch_ratio

    @property
    def batch_size(self):
        """Expected number of records that a step reads."""
        return self.sampling_rate * self.n_samples

    @property
    def record_gradients(self):
        """The expected number of records that are read."""
        return self.expected_steps * self.batch_size

    @property
    def estimated_seconds(self):
        """A rough guess of the run time, for dense rows."""
        return (
            _SECONDS_FACTOR
            * self.expected_steps
            * step_seconds(self.bounds.n_parameters, self.batch_size, self.batch_ratio == 0)
        )

    @property
    def is_short(self):
        """Whether the chain relaxes clearly less often than it should."""
        return self.relaxations < _SHORT_SHARE * self.wanted_relaxations

    @property
    def memory_bytes(self):
        """Memory that a run needs beside the table: draws, and what clipping keeps."""
        return 8 * ((self.n_draws + 4) * self.bounds.n_parameters + 2 * self.n_samples)

    @property
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        found = super().warnings
        if self.is_short:
            found += (
                f"a typical direction of the posterior relaxes {self.relaxations:.2g} times instead of "
                f"{self.wanted_relaxations:g}: the chain hardly leaves its start.",
            )
        return found + ((self.advice,) if self.advice else ())

    def draw_marks(self):
        """The times at which draws are kept: evenly spaced after burn-in."""
        spacing = (self.privacy_filter.total - self.privacy_filter.burn_in_end) / self.n_draws
        marks = self.privacy_filter.burn_in_end + spacing * np.arange(1, self.n_draws + 1)
        # Sums of many charges fall short of the total by rounding.
        return np.minimum(marks, self.privacy_filter.total) * (1 - 1e-9)

    def summary(self):
        """The lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        if self.n_steps != self.expected_steps:
            most = f"about {self.expected_steps:,}, at most {self.n_steps:,}"
            lines["steps"] = f"{most}, the first {self.n_burn_in:,} or so discarded"
        law = "on a sphere" if self.proposal == "sphere" else "Gaussian"
        adapted = ", adapted to accept/reject decisions in burn-in" if self.adapt_step_size else ""
        lines["proposals"] = f"{law}, at distance {self.step_size:.4g}{adapted}"
        noise = f", noise of variance {self.noise_variance:.4g}" if self.noise_variance else ""
        expected = f"about {100 * self.expected_acceptance:.0f}% expected"
        rule = "Barker's" if self.rule == "barker" else "Metropolis'"
        lines["acceptance"] = f"{rule} rule{noise}, {expected}"
        if self.batch_ratio:
            lines["batch"] = f"lambda_T = {self.lambda_t:.4g} of it, ratio {self.batch_ratio:.3g}"
        typical = f"of a typical direction (deviation {self.typical_deviation:.3g})"
        lines["relaxations"] = f"{self.relaxations:.3g} {typical}"
        return lines


def step_seconds(n_parameters, records, whole_table):
    """A rough guess of the seconds of a step."""
    fixed, each = PASS_SECONDS if whole_table else LOOKUP_SECONDS
    step = STEP_SECONDS[0] + STEP_SECONDS[1] * n_parameters
    return step + records * (fixed + each * n_parameters)


# What a step of each of Metropolis' samplers costs, and how often it accepts.
#
# The log ratio at distance ``M = x sigma`` is ``N(-x^2/2, x^2)`` on a normal posterior, and what
# batches and noise add has the same form. With ``s^2`` the sum of the variances, a share
#
#     A(s) = exp(-s^2/8) E[sech(s Z / 2)] / 2   (Barker's rule),      A(s) = 2 Phi(-s / 2)   (Metropolis')
#
# of the proposals is accepted, ``Z`` standard normal.


# More than the rounding of log-odds that decide anything, which are at most 40.
ROUNDED_LOG_ODDS = 2.0**-45


def rounded_noisy_ratio(noise_variance):
    """The largest distance that rounding can add between two log ratios to which noise is added.

    Ratios of more than ``v + 256`` in size leave next to nothing open: see "Noise" in
    docs/theory/decisions_in_floating_point.rst.
    """
    return 2.0**-50 * (noise_variance + 256.0)


def barker_acceptance(deviation):
    """The mean of ``1 / (1 + exp(-x))``, ``x`` normal with mean ``-deviation^2 / 2``."""
    deviation = np.asarray(deviation, dtype=float)
    # The mean of sech is smooth, and is looked up; beyond the table it hardly matters.
    mean = np.interp(deviation, *_mean_sech())
    return np.exp(-(deviation**2) / 8.0) * mean / 2.0


@cache
def _mean_sech():
    """Deviations, and the mean of ``sech(x / 2)`` for ``x`` normal with them and mean 0."""
    deviations, nodes = np.linspace(0.0, 40.0, 4001), np.linspace(0.0, 9.0, 181)
    weights = np.exp(-(nodes**2) / 2.0) * np.where(nodes == 0, 0.5, 1.0)
    sech = 1.0 / np.cosh(np.multiply.outer(deviations, nodes) / 2.0)
    return deviations, (sech @ weights) / weights.sum()


def metropolis_acceptance(deviation):
    """The mean of ``min(1, exp(x))``, ``x`` normal with mean ``-deviation^2 / 2``."""
    return 2.0 * ndtr(-np.asarray(deviation) / 2.0)


class Kernel:
    """The cost of a step of one of the samplers: public numbers only.

    Parameters
    ----------
    on_batches : bool
        Whether it may read Poisson batches.
    noisy : bool
        Whether Gaussian noise protects it; else Barker's rule does.
    relation : str
        Neighbouring relation.
    private : bool
        Whether anything is to be protected; else Metropolis' rule is better.
    n_samples : int
        Public size of the table.
    """

    def __init__(self, on_batches, noisy, relation, private, n_samples):
        self.on_batches, self.relation, self.n = on_batches, relation, n_samples
        self.noisy = noisy and private
        self.rule = "metropolis" if noisy or not private else "barker"
        self.sensitivity_factor = sensitivity_factor(relation)

    def acceptance(self, deviation):
        """The share of proposals that is accepted, given the deviation of the log ratio."""
        exact = metropolis_acceptance if self.rule == "metropolis" else barker_acceptance
        return exact(deviation)

    def _range(self, bound, ratio):
        """The range of a bit's log-odds, with what rounding can add to it."""
        exact = accept_range(bound, ratio, self.relation)
        return exact + ROUNDED_LOG_ODDS + self._rounded_batch(bound, ratio)

    def _rounded_batch(self, bound, ratio):
        """The largest distance that rounding can add between the log ratios of batches of two tables."""
        records = covered_records(self.n, self.relation)
        with np.errstate(divide="ignore"):
            size = records * bound * (1.0 + np.divide(1.0, ratio))
        return np.where(ratio == 0, 0.0, 2.0**-48 * (size + 128.0))

    def _counted(self, bound, ratio, noise_variance):
        """(what a record adds each time that it counts, how often it does)."""
        rounded = self._rounded_batch(bound, ratio) + rounded_noisy_ratio(noise_variance)
        return np.log1p(ratio) + rounded, bound * (1.0 + np.divide(1.0, ratio))

    def _shift(self, bound, noise_variance):
        """The largest distance between the noisy log ratios of two tables' records, rounding included."""
        return self.sensitivity_factor * bound + rounded_noisy_ratio(noise_variance)

    def fixed_rounding(self, ratio, noise_variance):
        """The share of rounding in a step's range, or shift, however short the step is."""
        if self.noisy:
            return rounded_noisy_ratio(noise_variance)
        return ROUNDED_LOG_ODDS + (0.0 if ratio == 0 else float(self._rounded_batch(0.0, ratio)))

    def units(self, bound, ratio, noise_variance, pure):
        """The shares of steps in a budget's epsilon if it is pure, else in its ``mu^2``, as arrays.

        In the limit of many small steps.
        """
        if self.rule == "metropolis" and not self.noisy:
            return np.zeros(np.broadcast_shapes(bound.shape, ratio.shape))
        if not self.noisy:
            moved = self._range(bound, np.minimum(ratio, LARGEST_BATCH_RATIO))
            return moved if pure else moved**2 / 4.0
        with np.errstate(divide="ignore", invalid="ignore"):
            jump, rate = self._counted(bound, ratio, noise_variance)
            all_records = self._shift(bound, noise_variance)
            moved = np.where(ratio == 0, all_records, self.sensitivity_factor * jump * rate)
        return moved**2 / noise_variance

    def cost(self, bound, ratio, noise_variance, n_steps):
        """The cost of steps of one length, whose record bound is ``bound``."""
        if self.rule == "metropolis" and not self.noisy:
            return PrivacyCost(self.relation, mu=math.inf)
        if not self.noisy:
            bits = BoundedRangeDecisions(float(self._range(bound, ratio)), n_steps)
            return PrivacyCost(self.relation, decisions=(bits,))
        deviation = math.sqrt(noise_variance)
        if ratio == 0:
            mu = self._shift(bound, noise_variance) / deviation * math.sqrt(n_steps)
            return PrivacyCost(self.relation, mu=mu)
        jump, rate = map(float, self._counted(bound, ratio, noise_variance))
        counted = PoissonGaussian(deviation / jump, rate, n_steps)
        return PrivacyCost(self.relation, counted=(counted,))

    def concentrated(self, bound, ratio, noise_variance):
        """The cost of one step of a filtered chain, as zCDP."""
        return self.cost(bound, ratio, noise_variance, 1).concentrated


# Searching for a random walk: the quickest run that mixes as often as the budget allows.
#
# A random walk of ``T`` proposals at distance ``M``, of which a share ``A`` is accepted, moves like a
# diffusion for a time ``T A M^2 / (2 d)``. In a direction of curvature ``h = 1 / sigma^2`` it relaxes
#
#     k = T A M^2 h / (2 d)
#
# times, and is worth ``k / 2`` independent draws. Curvatures are not public. Their average over
# directions is at most ``lambda + n B / (d tau)`` where a record's Hessian has rank one; half of its
# second part stands for a typical direction here: it decides on lengths, never on the cost.
#
# The variance of the log ratio, and from it ``A``, is that of a normal posterior. What a Poisson
# batch adds to it is ``2 r / (a (2 + r)) sum_i u_i^2``, about ``2 x^2 r / (a tau (2 + r))`` with
# ``x = M / sigma``.
#
# Rule: of all distances, batches and noise levels take the quickest that reaches the wanted effective
# sample size within the budget, and stop there; if the budget does not allow that, the quickest that
# relaxes seven tenths as often as the best: that third buys most of the time. If even the best
# relaxes less than `FEWEST_RELAXATIONS` times, the temperature rises until it does; where it is fixed so low
# that burn-in takes all, the quickest that comes seven tenths as far in that as any. `exact` then keeps
# what was found to its exact cost.


FEWEST_RELAXATIONS = 3.0
# The share of the relaxations that a budget could buy which is given up to save time.
GIVEN_UP = 0.3
# Effective sample size that is enough for means and deviations, with privacy and without.
_EFFECTIVE_SIZE = (25, 100)
# A typical direction has this share of the largest average curvature.
_TYPICAL_SHARE = 0.5
# From zero a walk goes half of a typical distance under the prior, at the speed of one that only accepts on
# one side. It ends about sqrt(d) sigma / x from the posterior, x = M / sigma. Forgetting that takes 1 + log(1
# + sqrt(d) / x) relaxations, and half as many again if curvature is less than typical.
_N_RELAXATIONS_OF_START = 1.5
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
    """The options of a random walk that a user fixes; None leaves one to the search.

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
    """The problem of a random walk: public numbers.

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
        """The number of relaxations that a chain is to have: two for a draw of its effective sample size."""
        default = _EFFECTIVE_SIZE[not self.budget.is_private]
        return 2.0 * (default if self.options.n_effective is None else self.options.n_effective)

    @cached_property
    def lipschitz(self):
        """The Lipschitz constant of a record's loss, rounding included."""
        relation = self.budget.neighboring_relation
        inflation = sum_inflation(self.n_samples, self.bounds.n_parameters, relation)
        # The probabilities by which batches are drawn are rounded.
        rounding = 1e-9 + 2.0**-46 * self.n_samples
        return self.bounds.gradient_bound * inflation * (1.0 + rounding)

    @cached_property
    def allowance(self):
        """The budget in the units of `Kernel.units`, in which steps add up."""
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
        """One of them."""
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
    walks, relaxed = _searched(problem, options.temperature or _lowest_temperature(problem))
    possible = _is_possible(walks, relaxed)
    if not possible.any():
        raise impossible(problem, walks.ratio)
    if relaxed[possible].max() <= 0:
        # If no candidate completes burn-in, prefer the one that gets furthest.
        relaxed = walks.affordable / walks.burn_in
    goal = min(problem.wanted, (1.0 - GIVEN_UP) * relaxed[possible].max())
    steps = np.minimum(walks.affordable, _steps_for(walks, problem.wanted, options.burn_in or 0.0))
    if options.n_steps is not None:
        steps = walks.affordable
    enough = possible & (relaxed >= goal * (1.0 - 1e-9))
    chosen = int(np.argmin(np.where(enough, steps * walks.seconds, np.inf)))
    return walks.single(chosen), max(1, math.floor(steps[chosen]))


def _searched(problem, temperature):
    """(all candidates, how often they relax, -inf for what is not to be had)."""
    private = problem.budget.is_private
    x = _DISTANCES if problem.is_pure or not private else _PRIVATE_DISTANCES
    distance = x / math.sqrt(_curvature(problem, temperature))
    if problem.options.step_size is not None:
        distance = np.full((1, 1, 1), problem.options.step_size)
    bound = problem.lipschitz * distance / temperature
    ratio = batch_ratios(problem, bound)
    walks = evaluate_candidates(
        problem, temperature, distance, ratio, noise_variances(problem, bound, ratio)
    )
    relaxed = relaxations(walks, walks.affordable, problem.options.burn_in)
    return walks, np.where(walks.ratio <= LARGEST_BATCH_RATIO, relaxed, -np.inf)


def _is_possible(walks, relaxed):
    return np.isfinite(relaxed) & (walks.affordable >= 1)


def _curvature(problem, temperature):
    bounds = problem.bounds
    data = problem.n_samples * bounds.smoothness / (bounds.n_parameters * temperature)
    return bounds.prior_precision[0] + _TYPICAL_SHARE * data


@np.errstate(divide="ignore")
def evaluate_candidates(problem, temperature, distance, ratio, noise):
    """The `Candidates` of all distances, batches and noise levels, whose shapes are broadcast."""
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
    damping_time = _N_RELAXATIONS_OF_START * (1.0 + np.log1p(math.sqrt(d) * deviation / distance))
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
        burn_in=way * math.sqrt(d) / (_SPEED * distance) + damping_time / relaxing,
        seconds=np.where(ratio == 0, step_seconds(d, n, True), step_seconds(d, size, False)),
    )
    return Candidates(*(values.ravel() for values in np.broadcast_arrays(*every)))


def _affordable(problem, bound, ratio, noise, size):
    """Number of steps the budget pays for; 0 where they are too few, or batches too large."""
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
    """The ratios of batches to look at, 0 for the whole table."""
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
    """The variances of noise to look at."""
    if not problem.kernel.noisy:
        return _NONE
    multiplier = problem.options.noise_multiplier
    if multiplier is None:
        return _NOISE_VARIANCES
    jump = np.where(ratio == 0, bound, np.log1p(ratio))
    return (multiplier * problem.kernel.sensitivity_factor * jump) ** 2


def relaxations(walks, n_steps, burn_in):
    """The number of relaxations of a typical direction after burn-in; negative if that takes longer."""
    needed = np.maximum(walks.burn_in, (burn_in or 0.0) * n_steps)
    return (n_steps - needed) * walks.relaxing


def _steps_for(walks, relaxations, burn_in):
    after = relaxations / walks.relaxing
    return np.ceil(np.maximum(after + walks.burn_in, after / (1.0 - burn_in)))


def _lowest_temperature(problem):
    """The lowest temperature at which a chain relaxes, or where that is out of reach, runs."""
    if not problem.budget.is_private:
        return 1.0
    temperature = _lowest_where(lambda tau: _searched(problem, tau)[1].max() >= FEWEST_RELAXATIONS)
    if temperature is None:
        temperature = _lowest_where(lambda tau: _is_possible(*_searched(problem, tau)).any())
    if temperature is None:
        raise impossible(problem, _searched(problem, _HIGHEST_TEMPERATURE)[0].ratio)
    return temperature


def _lowest_where(holds):
    """The lowest temperature from 1 on at which something holds, to a thousandth; None if nowhere."""
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
    """The largest rho for which ``rho``-zCDP implies (epsilon, delta)-privacy."""

    def excess(log_shortage):
        return zcdp_epsilon((epsilon + 1.0) * math.exp(-log_shortage), delta) / epsilon - 1.0

    return (epsilon + 1.0) * math.exp(-smallest_within(excess))


def impossible(problem, ratios=0.0):
    """The error that says which options cannot hold together."""
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


# From the limit of many small steps to exact costs: what the search found is kept to its budget.
#
# A walk whose cost ``e`` at the budget's delta is beyond its epsilon has distances that are shorter
# by ``e / epsilon``, for as long as it takes. Where they are fixed it has fewer steps, and where
# those are fixed, too, a higher temperature.


N_DRAWS = 100
_MOST_BURN_IN = 0.75


def plan_walk(sampler, problem):
    """The plan of the quickest walk that is good enough and within the budget.

    Parameters
    ----------
    sampler : RandomWalk
    problem : WalkProblem

    Returns
    -------
    plan : MetropolisPlan

    Raises
    ------
    ValueError
        If what is fixed cannot all hold.
    """
    walk, n_steps, cost = _within_budget(problem, *best_walk(problem))
    options = problem.options
    burn_in = options.burn_in
    if burn_in is None:
        burn_in = min(walk.burn_in / n_steps, _MOST_BURN_IN)
    most = n_steps
    if problem.is_filtered:
        # Lengths differ, and so does the number of steps: there are a few to spare.
        most = math.ceil(1.2 * n_steps * (LARGEST_CHANGE**2 if options.adapt_step_size else 1)) + 8
    return MetropolisPlan(
        sampler=sampler,
        n_samples=problem.n_samples,
        bounds=problem.bounds,
        budget=problem.budget,
        cost=cost,
        temperature=walk.temperature,
        n_steps=most,
        expected_steps=n_steps,
        n_burn_in=round(burn_in * n_steps),
        n_draws=options.n_draws or N_DRAWS,
        sampling_rate=1.0 if walk.ratio == 0 else walk.bound * (1.0 + 1.0 / walk.ratio),
        step_size=walk.distance,
        proposal=options.proposal,
        rule=problem.kernel.rule,
        noise_variance=walk.noise,
        batch_ratio=walk.ratio,
        adapt_step_size=options.adapt_step_size,
        privacy_filter=_privacy_filter(problem, walk, n_steps, most, burn_in),
        expected_acceptance=walk.acceptance,
        typical_deviation=walk.deviation,
        relaxations=max(0.0, relaxations(walk, n_steps, options.burn_in)),
        wanted_relaxations=(1.0 - GIVEN_UP) * FEWEST_RELAXATIONS,
    )


def _privacy_filter(problem, walk, n_steps, most, burn_in):
    aim = walk.acceptance if problem.options.adapt_step_size else 0.0
    if not problem.is_filtered:
        return PrivacyFilter(0.0, float(n_steps), burn_in * n_steps, aim)
    charge = _charge(problem, walk)
    # Rounding adds e to what a step of any length moves. At x times the planned length it moves w x + e and
    # is charged for (w + e) x: short by less than e / (2 w) of a planned step's charge.
    short = problem.kernel.fixed_rounding(walk.ratio, walk.noise) / (
        2.0 * problem.kernel.sensitivity_factor * walk.bound
    )
    # Sums of charges are rounded, too.
    kept_back = 1e-9 + short * most / n_steps
    if kept_back > 0.5:
        raise ValueError(
            f"steps of {walk.distance:.3g} at temperature {walk.temperature:.3g} are so short "
            "that the influence of one record is lost in rounding: raise step_size, or lower temperature."
        )
    total = n_steps * charge * (1.0 - kept_back)
    return PrivacyFilter(charge / walk.distance**2, total, burn_in * total, aim)


def _within_budget(problem, walk, n_steps):
    """(walk, number of steps, their cost), what is free being shortened until that is allowed."""
    options, budget = problem.options, problem.budget
    for _ in range(60):
        cost = _cost(problem, walk, n_steps)
        if budget.allows(cost):
            return walk, n_steps, cost
        excess = min(cost.epsilon(budget.delta) / budget.epsilon, 4.0) * 1.0005
        if options.step_size is None and _fits_budget(options, walk):
            walk = _shrink_to_budget(problem, walk, shortened=excess)
        elif options.n_steps is None and n_steps > 1:
            shorter = excess if problem.is_pure else excess**2
            n_steps = max(1, min(n_steps - 1, math.floor(n_steps / shorter)))
        elif options.temperature is None and _fits_budget(options, walk):
            walk = _shrink_to_budget(problem, walk, heated=excess)
        else:
            break
    raise impossible(problem)


def _cost(problem, walk, n_steps):
    if problem.is_filtered:
        relation = problem.budget.neighboring_relation
        return PrivacyCost(relation, rho=n_steps * _charge(problem, walk))
    return problem.kernel.cost(walk.bound, walk.ratio, walk.noise, n_steps)


def _charge(problem, walk):
    return problem.kernel.concentrated(walk.bound, walk.ratio, walk.noise)


def _fits_budget(options, walk):
    """Whether shorter distances cost less: not where noise and batches are fixed against them."""
    sized = options.batch_size is not None or walk.ratio == 0
    return not (sized and options.noise_multiplier is not None)


def _shrink_to_budget(problem, walk, shortened=1.0, heated=1.0):
    """The walk of a shorter distance or a higher temperature, with the batch and noise asked for."""
    temperature = walk.temperature * heated
    distance, ratio, noise = (np.full(1, v) for v in (walk.distance, walk.ratio, walk.noise))
    distance = distance / shortened
    bound = problem.lipschitz * distance / temperature
    if problem.options.batch_size is not None:
        ratio = batch_ratios(problem, bound)
    if problem.options.noise_multiplier is not None:
        noise = noise_variances(problem, bound, ratio)
    return evaluate_candidates(problem, temperature, distance, ratio, noise).single()
