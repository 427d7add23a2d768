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
that comes seven tenths as far in that as any.
"""

import math
from typing import NamedTuple

import numpy as np

from ...privacy.accept_bits import LARGEST_BATCH_RATIO
from ...privacy.cost import PrivacyCost, zcdp_epsilon
from ...privacy.floating_point import sum_inflation
from ...privacy.root_finding import boundary, smallest_within
from ..langevin.schedule import COMPOSABLE_BATCHES
from .kernel import ROUNDED_LOG_ODDS
from .plan import LARGEST_CHANGE, Clock, MetropolisPlan, step_seconds

FEWEST = 3.0
# Of the relaxations that a budget could buy, so much is given up for time.
_GIVEN_UP = 0.3
# Effective sample size that is enough for means and deviations, with privacy and without.
_EFFECTIVE_SIZE = (25, 100)
# A typical direction has this share of the largest average curvature.
_TYPICAL_SHARE = 0.5
# From zero a walk goes half of a typical distance under the prior, at the speed of one that only accepts on
# one side. That ends about sqrt(d) sigma / x from the posterior, x = M / sigma, and to forget so much takes
# 1 + log(1 + sqrt(d) / x) relaxations; half as many again where curvature is less than typical.
_FORGETTING = 1.5
_MOST_BURN_IN = 0.75
_WAY_SHARE = 0.5
_SPEED = 0.4
_DISTANCES = np.geomspace(1e-4, 3.0, 90)[:, None, None]
# Shorter steps cost no more by zCDP, and rely less on what is typical.
_PRIVATE_DISTANCES = _DISTANCES[_DISTANCES[:, 0, 0] <= 1.0]
_BATCH_RATIOS = np.append(0.0, np.geomspace(0.01, 1.4, 30))[None, :, None]
_NOISE_VARIANCES = np.geomspace(1.0, 8.0, 7)[None, None, :]
_MOST_STEPS = 50_000_000
_HIGHEST_TEMPERATURE = 1e9
# How far below the limit in which many bits are Gaussian their cost is looked for.
_MARGIN = 0.984


class WalkOptions(NamedTuple):
    """What a user fixes of a random walk; None leaves it to the search.

    Attributes are those of `DPFastMHGaussian`, which has all of them, and of its `plan`.
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


class WalkSearch:
    """Solves for temperature, distance, batch, noise and number of steps.

    Parameters
    ----------
    bounds : TargetBounds
    n_samples : int
        Public size of the table.
    budget : Budget
    options : WalkOptions
    kernel : Kernel
    """

    def __init__(self, bounds, n_samples, budget, options, kernel):
        self.bounds, self.n, self.budget, self.options = bounds, n_samples, budget, options
        self.kernel = kernel
        self.private = budget.is_private
        self.pure = self.private and budget.delta == 0
        # Steps of different lengths are charged as they are proposed.
        self.filtered = options.is_varied and self.private
        self.draws = 100 if options.n_draws is None else options.n_draws
        size = (
            _EFFECTIVE_SIZE[not self.private]
            if options.n_effective is None
            else options.n_effective
        )
        self.wanted = 2.0 * size
        inflation = sum_inflation(n_samples, bounds.n_parameters, budget.neighboring_relation)
        # Probabilities are rounded to the grid of uniforms, which also number the records.
        rounding = 1e-9 + 2.0**-46 * n_samples
        self.lipschitz = bounds.gradient_bound * inflation * (1.0 + rounding)
        self.allowance = self._allowance()
        self.temperature = options.temperature

    # What a budget buys, in units in which steps add up

    def _allowance(self):
        if not self.private:
            return math.inf
        if self.pure:
            return self.budget.epsilon
        if self.filtered:
            return 2.0 * _largest_rho(self.budget.epsilon, self.budget.delta)
        margin = 1.0 if self.kernel.noisy else _MARGIN
        return (margin * self.budget.mu) ** 2

    # The search

    def _curvature(self, temperature):
        data = self.n * self.bounds.smoothness / (self.bounds.n_parameters * temperature)
        return self.bounds.prior_precision[0] + _TYPICAL_SHARE * data

    def _candidates(self, temperature):
        """Return everything about every candidate."""
        x = _DISTANCES if self.pure or not self.private else _PRIVATE_DISTANCES
        distance = x / math.sqrt(self._curvature(temperature))
        if self.options.step_size is not None:
            distance = np.full((1, 1, 1), self.options.step_size)
        bound = self.lipschitz * distance / temperature
        ratio = self._batch_ratios(bound)
        return self._reckoned(temperature, distance, ratio, self._noise_variances(bound, ratio))

    def _reckoned(self, temperature, distance, ratio, noise):
        """Return what follows from distances, batches and noise, as a dict of arrays of one shape."""
        options, d = self.options, self.bounds.n_parameters
        deviation = 1.0 / math.sqrt(self._curvature(temperature))
        bound = self.lipschitz * distance / temperature
        # In one dimension distances are uniform below this one.
        square = distance**2 / (3.0 if d == 1 and options.proposal == "sphere" else 1.0)
        share = 1.0 - self.bounds.prior_precision[0] * deviation**2
        with np.errstate(divide="ignore"):
            heat = 2.0 * square * share * ratio / (bound * temperature * (2.0 + ratio))
        variance = (square + heat) / deviation**2 + noise
        acceptance = self.kernel.acceptance(np.sqrt(variance))
        units = self.kernel.units(bound, ratio, noise, self.pure)
        with np.errstate(divide="ignore"):
            size = np.where(
                ratio == 0, self.n, self.n * bound * (1.0 + 1.0 / np.maximum(ratio, 1e-300))
            )
            affordable = np.floor(np.minimum(self.allowance / units, self._most_steps(ratio)))
        relaxing = np.maximum(acceptance * square / (2.0 * d * deviation**2), 1e-200)
        way = _WAY_SHARE * math.sqrt(d / self.bounds.prior_precision[0])
        forgetting = _FORGETTING * (1.0 + np.log1p(math.sqrt(d) * deviation / distance))
        burn_in = way * math.sqrt(d) / (_SPEED * distance) + forgetting / relaxing
        if options.n_steps is not None:
            affordable = np.where(affordable >= options.n_steps, float(options.n_steps), 0.0)
        affordable = np.where(self._is_read(size, ratio, bound), affordable, 0.0)
        seconds = np.where(ratio == 0, step_seconds(d, self.n, True), step_seconds(d, size, False))
        arrays = {
            "distance": distance,
            "ratio": ratio,
            "noise": noise,
            "acceptance": acceptance,
            "relaxing": relaxing,
            "affordable": affordable,
            "burn_in": burn_in,
            "seconds": seconds,
            "deviation": np.full((1, 1, 1), deviation),
        }
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
        return {name: np.broadcast_to(array, shape).ravel() for name, array in arrays.items()}

    def _most_steps(self, ratio):
        """Return how many steps are made, or composed, at most."""
        composed = self.kernel.noisy and self.private
        return np.where((ratio > 0) & composed, COMPOSABLE_BATCHES, _MOST_STEPS)

    def _is_read(self, size, ratio, bound):
        """Tell which batches are no larger than the largest; the table is read where all of them are."""
        if not self.kernel.on_batches:
            return True
        largest = self.options.max_batch_size or self.n
        smallest_batch = self.n * bound * (1.0 + 1.0 / LARGEST_BATCH_RATIO)
        return np.where(ratio == 0, smallest_batch > largest, size <= largest)

    def _batch_ratios(self, bound):
        if not self.kernel.on_batches:
            return np.zeros((1, 1, 1))
        size = self.options.batch_size
        if size is None:
            return _BATCH_RATIOS
        # size = n a (1 + 1 / ratio); what is not to be had so is marked by a ratio beyond the bound.
        expected = size / (self.n * bound) - 1.0
        with np.errstate(divide="ignore"):
            ratio = np.where(expected > 0, 1.0 / expected, np.inf)
        return np.minimum(ratio, 10.0)

    def _noise_variances(self, bound, ratio):
        if not self.kernel.noisy:
            return np.zeros((1, 1, 1))
        multiplier = self.options.noise_multiplier
        if multiplier is None:
            return _NOISE_VARIANCES
        jump = np.where(ratio == 0, bound, np.log1p(ratio))
        return (multiplier * self.kernel.sides * jump) ** 2

    def _relaxations(self, candidates, n_steps):
        """Return how often a typical direction relaxes after burn-in; negative if that takes longer."""
        needed = np.maximum(candidates["burn_in"], (self.options.burn_in or 0.0) * n_steps)
        return (n_steps - needed) * candidates["relaxing"]

    def _best(self, temperature):
        candidates = self._candidates(temperature)
        valid = candidates["ratio"] <= LARGEST_BATCH_RATIO
        found = np.where(valid, self._relaxations(candidates, candidates["affordable"]), -np.inf)
        return candidates, found

    def solved(self):
        """Find the temperature, then the quickest candidate; return self."""
        if self.temperature is None:
            self.temperature = self._lowest_temperature()
        candidates, found = self._best(self.temperature)
        possible = self._possible(candidates, found)
        if not possible.any():
            raise ValueError(self._impossible(candidates["ratio"]))
        if found[possible].max() <= 0:
            # What never gets through its burn-in is to come as far in it as it can.
            found = candidates["affordable"] / candidates["burn_in"]
        goal = min(self.wanted, (1.0 - _GIVEN_UP) * found[possible].max())
        steps = np.minimum(candidates["affordable"], self._steps_for(candidates, self.wanted))
        if self.options.n_steps is not None:
            steps = candidates["affordable"]
        seconds = np.where(
            possible & (found >= goal * (1.0 - 1e-9)), steps * candidates["seconds"], np.inf
        )
        chosen = int(np.argmin(seconds))
        self.choice = {name: float(array[chosen]) for name, array in candidates.items()}
        self.n_steps = max(1, math.floor(steps[chosen]))
        self._keep_to_budget()
        return self

    def _steps_for(self, candidates, relaxations):
        after = relaxations / candidates["relaxing"]
        share = self.options.burn_in or 0.0
        return np.ceil(np.maximum(after + candidates["burn_in"], after / (1.0 - share)))

    def _lowest_temperature(self):
        """Return the lowest temperature at which a chain relaxes, or where that is out of reach, runs."""
        if not self.private:
            return 1.0
        for holds in (
            lambda tau: self._best(tau)[1].max() >= FEWEST,
            lambda tau: self._possible(*self._best(tau)).any(),
        ):
            if holds(1.0):
                return 1.0
            if holds(_HIGHEST_TEMPERATURE):
                return _lowest_where(holds)
        raise ValueError(self._impossible(self._candidates(_HIGHEST_TEMPERATURE)["ratio"]))

    def _possible(self, candidates, found):
        return np.isfinite(found) & (candidates["affordable"] >= 1)

    # The plan

    def plan(self, sampler):
        """Return the plan of what was solved."""
        most = self.n_steps
        if self.filtered:
            # Lengths differ, and so does the number of steps; a few are to spare.
            most = (
                math.ceil(1.2 * most * (LARGEST_CHANGE**2 if self.options.adapt_step_size else 1))
                + 8
            )
        return MetropolisPlan(
            sampler=sampler,
            n_samples=self.n,
            bounds=self.bounds,
            budget=self.budget,
            cost=self.cost,
            temperature=self.temperature,
            n_steps=most,
            expected_steps=self.n_steps,
            n_burn_in=round(self._burn_in() * self.n_steps),
            n_draws=self.draws,
            sampling_rate=self._sampling_rate(),
            step_size=self.choice["distance"],
            proposal=self.options.proposal,
            rule=self.kernel.rule,
            noise_variance=self.choice["noise"],
            batch_ratio=self.choice["ratio"],
            adapt_step_size=self.options.adapt_step_size,
            clock=self._clock(),
            expected_acceptance=self.choice["acceptance"],
            typical_deviation=self.choice["deviation"],
            relaxations=max(0.0, self._relaxations(self.choice, self.n_steps)),
            wanted_relaxations=(1.0 - _GIVEN_UP) * FEWEST,
        )

    def _sampling_rate(self):
        if self.choice["ratio"] == 0:
            return 1.0
        return self.record_bound * (1.0 + 1.0 / self.choice["ratio"])

    def _burn_in(self):
        """Return the share of the steps before the first draw."""
        if self.options.burn_in is not None:
            return self.options.burn_in
        return min(self.choice["burn_in"] / self.n_steps, _MOST_BURN_IN)

    def _clock(self):
        aim = self.choice["acceptance"] if self.options.adapt_step_size else 0.0
        if not self.filtered:
            return Clock(0.0, float(self.n_steps), self._burn_in() * self.n_steps, aim)
        coefficient = self._charge() / self.choice["distance"] ** 2
        # Sums are rounded, and so are the log-odds of steps that are shorter than planned.
        rounding = 1e-9 + 100.0 * ROUNDED_LOG_ODDS / self.record_bound
        total = self.n_steps * self._charge() * (1.0 - rounding)
        return Clock(coefficient, total, self._burn_in() * total, aim)

    def _impossible(self, ratios=0.0):
        fixed = [
            f"{name}={getattr(self.options, name):g}"
            for name in ("n_steps", "step_size", "batch_size", "temperature", "noise_multiplier")
            if getattr(self.options, name) is not None
        ]
        if np.min(ratios) > LARGEST_BATCH_RATIO:
            return (
                f"no chain with {', '.join(fixed)} is private: so small a batch tells too much about steps "
                "that are so long. Raise batch_size, or lower step_size."
            )
        return (
            f"no chain with {', '.join(fixed) or 'these bounds'} costs at most epsilon="
            f"{self.budget.epsilon:g} at delta={self.budget.delta:g}: leave one out, or raise epsilon."
        )

    # From the limit of many small steps to exact costs

    @property
    def record_bound(self):
        """``a`` of the chosen distance."""
        return self.lipschitz * self.choice["distance"] / self.temperature

    def _cost(self):
        if self.filtered:
            return PrivacyCost(self.budget.neighboring_relation, rho=self.n_steps * self._charge())
        bound, ratio = self.record_bound, self.choice["ratio"]
        return self.kernel.cost(bound, ratio, self.choice["noise"], self.n_steps)

    def _charge(self):
        return self.kernel.concentrated(
            self.record_bound, self.choice["ratio"], self.choice["noise"]
        )

    def _tame(self, shortened=1.0, heated=1.0):
        """Take a shorter distance or a higher temperature, with the batch and noise that were asked for."""
        self.choice["distance"] /= shortened
        self.temperature *= heated
        bound = np.array(self.record_bound)
        if self.options.batch_size is not None:
            self.choice["ratio"] = float(self._batch_ratios(bound))
        if self.options.noise_multiplier is not None:
            ratio = np.array(self.choice["ratio"])
            self.choice["noise"] = float(self._noise_variances(bound, ratio))
        distance, ratio, noise = (
            np.full(1, self.choice[n]) for n in ("distance", "ratio", "noise")
        )
        reckoned = self._reckoned(self.temperature, distance, ratio, noise)
        self.choice = {name: float(array[0]) for name, array in reckoned.items()}

    def _can_be_tamed(self):
        """Tell whether shorter distances cost less: not where noise and batches are fixed against them."""
        sized = self.options.batch_size is not None or self.choice["ratio"] == 0
        return not (sized and self.options.noise_multiplier is not None)

    def _keep_to_budget(self):
        """Shorten what is free to be shortened until the exact cost is within the budget."""
        for _ in range(60):
            self.cost = self._cost()
            if self.budget.allows(self.cost):
                return
            excess = min(self.cost.epsilon(self.budget.delta) / self.budget.epsilon, 4.0) * 1.0005
            if self.options.step_size is None and self._can_be_tamed():
                self._tame(shortened=excess)
            elif self.options.n_steps is None and self.n_steps > 1:
                shorter = excess if self.pure else excess**2
                self.n_steps = max(1, min(self.n_steps - 1, math.floor(self.n_steps / shorter)))
            elif self.options.temperature is None and self._can_be_tamed():
                self._tame(heated=excess)
            else:
                break
        raise ValueError(self._impossible())


def _largest_rho(epsilon, delta):
    """Return the largest rho for which ``rho``-zCDP implies (epsilon, delta)-privacy."""

    def excess(log_shortage):
        return zcdp_epsilon((epsilon + 1.0) * math.exp(-log_shortage), delta) / epsilon - 1.0

    return (epsilon + 1.0) * math.exp(-smallest_within(excess))


def _lowest_where(holds):
    """Return the lowest temperature from 1 on at which something holds, to a thousandth."""
    high = 2.0
    while not holds(high):
        high *= 2.0
    ends = math.log(high / 2.0), math.log(high)
    return math.exp(boundary(lambda log: holds(math.exp(log)), *ends, math.log(1.001)))
