"""Calibrating Langevin paths: the lowest temperature, or the longest chain, that a budget affords.

    tau = min { tau >= 1 : cost(tau, t = k / (tau lambda)) <= budget }

See `skdpbayes.privacy.langevin` for what a schedule costs and why; here it is computed, floating point
included, and solved for.
"""

import math

from .calibration import (
    MAX_STEPS,
    gaussian_limit,
    levels,
    power_sum,
    smallest_within,
    steps_for,
)
from .cost import PrivacyCost, SampledGaussian, gaussian_mu
from .floating_point import rounding_shift, sum_inflation
from .given_noise import SMALLEST_MULTIPLIER
from .langevin_plans import HEATING, batch_trace

# The posterior of fewer records than this may be far from normal, where midpoints are exact: half the
# step then keeps the bias of mean and deviation below 5% of the deviation.
_FEW_RECORDS = 100
# Of batches the rule takes at most so many by itself, hotter ones if need be; and more than the second
# number are refused, because composing their costs would take minutes.
_MOST_BATCHES = 300_000
COMPOSABLE_BATCHES = 3_000_000


class LangevinCalibration:
    """Solves for the temperature and the steps; every method sees public numbers only.

    Parameters
    ----------
    bounds, n_samples, budget, options
        As for `plan_langevin`.
    start : callable or None, default=None
        Maps a temperature to the cost of drawing the first state; None starts at zero, for nothing.
    """

    # How often the slowest direction relaxes, with privacy and without.
    relaxations = (1.0, 10.0)
    default_burn_in = 0.25
    default_draws = 100
    has_velocity = False
    # Chains one after the other, each of as many steps.
    segments = 1
    # What random batches may add to the temperature, relatively, with privacy and without.
    heating = (HEATING, 0.05)

    def __init__(self, bounds, n_samples, budget, options, start=None):
        self.bounds, self.n, self.budget, self.options = bounds, n_samples, budget, options
        self.start = start
        self.q = self._sampling_rate()
        self.private = not math.isinf(budget.epsilon)
        self.goal = self.relaxations[0 if self.private else 1]
        self.burn_in = self.default_burn_in if options.burn_in is None else options.burn_in
        if options.burn_in is None and start is not None:  # It starts where it would burn in to.
            self.burn_in = 0.0
        self.draws = self.default_draws if options.n_draws is None else options.n_draws
        self.most, self.most_batches = self._most_steps()
        self.fewest = self._fewest_steps()
        self.mu = gaussian_mu(budget.epsilon, budget.delta)
        relation = budget.neighboring_relation
        inflation = sum_inflation(n_samples, bounds.n_parameters, relation)
        self.record_bound = bounds.gradient_bound * inflation
        self.sensitivity = self.record_bound * (2.0 if relation == "replace_one" else 1.0)

    # What the options ask for

    def _sampling_rate(self):
        size = self.options.batch_size
        return 1.0 if size is None else size / self.n

    def _most_steps(self):
        """Return how many steps can be accounted for, and how many batches the rule takes at most."""
        if self.q == 1:
            return MAX_STEPS, MAX_STEPS
        return COMPOSABLE_BATCHES, _MOST_BATCHES

    def _fewest_steps(self):
        fewest = max(1, math.floor(self.draws / (1 - self.burn_in)))
        while fewest - math.floor(fewest * self.burn_in) < self.draws:
            fewest += 1
        given = self.options.n_steps
        if given is not None and given < fewest:
            raise ValueError(
                f"n_steps={given} leaves fewer than n_draws={self.draws} steps"
                + (f" after burn_in={self.burn_in:g}" if self.burn_in else "")
                + f": take n_steps >= {fewest}, or lower n_draws"
                + (" or burn_in." if self.burn_in else ".")
            )
        if given is not None and given > self.most:
            raise ValueError(
                f"n_steps={given} is more than the {self.most} whose cost can be computed: take fewer"
                + (", with a larger batch_size or batch_size=None." if self.q < 1 else ".")
            )
        return fewest

    def _slowest(self, temperature):
        """``m``, the curvature of a direction about which the data say nothing."""
        return temperature * self.bounds.prior_precision[0]

    def _stiffness(self, temperature):
        """``M``, the largest curvature that the potential can have."""
        return self.n * self.bounds.smoothness + temperature * self.bounds.prior_precision[1]

    def _stiff_step(self, temperature):
        """``1 / M``: at it, the stiffest direction forgets in a single step."""
        share = 0.5 if self.n < _FEW_RECORDS else 1.0
        return share / self._stiffness(temperature)

    def _calm_step(self, temperature):
        """Largest stable step at which random batches heat the draws by no more than a stated share."""
        return min(self._stiff_step(temperature), self._cool_step(temperature))

    def _cool_step(self, temperature):
        """Largest step at which random batches heat the draws by no more than a stated share."""
        if self.q == 1:
            return math.inf
        share = self.heating[0 if self.private else 1]
        return 2.0 * share * temperature / self._batch_trace()

    def _batch_trace(self):
        """Bound on the trace of a batch gradient's covariance."""
        return batch_trace(self.bounds, self.n, self.q)

    def schedule(self, temperature):
        """Return (first step size, number of steps) that the rule takes at a temperature."""
        time = self._time(temperature)
        step, steps, decay = self.options.step_size, self.options.n_steps, self.options.step_decay
        if step is not None:
            self._check_stable(step, temperature)
            wanted = self.segments * steps_for(time / step, decay)
            return step, steps or self._whole(min(max(self.fewest, wanted), self.most))
        calm = self._calm_step(temperature)
        if steps is None:
            steps = min(self._wanted_steps(temperature), max(self.fewest, self.most_batches))
            steps = self._whole(max(self.fewest, steps))
        step = time / power_sum(steps // self.segments, decay)
        # Diffusion time is what privacy pays for; without privacy, more of it only helps.
        return min(self._stiff_step(temperature), step if self.private else max(step, calm)), steps

    def _wanted_steps(self, temperature):
        calm = self._calm_step(temperature)
        return self.segments * steps_for(self._time(temperature) / calm, self.options.step_decay)

    def _time(self, temperature):
        """Diffusion time in which the slowest direction relaxes as often as is wanted, once a segment."""
        return self.goal / self._slowest(temperature)

    def _whole(self, steps):
        """Round a number of steps up to what the schedule can be cut into."""
        return steps

    def _largest_step(self, temperature):
        return 2.0 / self._stiffness(temperature)

    def _check_stable(self, step, temperature):
        limit = self._largest_step(temperature)
        # Rounding of norms may not decide on which side of the limit a step is.
        if not 0 < step < limit * (1 - 1e-9):
            raise ValueError(
                f"step_size={step:g} must be positive and below {limit:.4g}, where the chain may "
                "diverge at this data_norm and number of rows; step_size='auto' stays below it."
            )

    # What a schedule costs

    def cost(self, temperature, step, steps):
        """Exact cost of a schedule, floating point and start included."""
        cost = self._path_cost(temperature, step, steps)
        return cost if self.start is None else cost + self.start(temperature)

    def _path_cost(self, temperature, step, steps):
        relation = self.budget.neighboring_relation
        decay = self.options.step_decay
        if self.q == 1:
            # The squared shifts, drift plus rounding, summed over the steps.
            spacing = self._rounding(temperature, step * steps**-decay)
            square = (
                self.sensitivity**2 * step * power_sum(steps, decay)
                + 2 * self.sensitivity * spacing * steps
                + spacing**2 / step * power_sum(steps, -decay)
            ) / (2 * temperature)
            return PrivacyCost(relation, mu=math.sqrt(square) * (1 + 1e-12))
        if not self.private:  # Nothing was asked for, and composing may take long.
            return PrivacyCost(relation, mu=math.inf)
        sampled = tuple(
            SampledGaussian(self._multiplier(temperature, step, first, steps), self.q, count)
            for first, count in levels(steps, decay)
        )
        if sampled[0].noise_multiplier < SMALLEST_MULTIPLIER:
            return PrivacyCost(relation, mu=math.inf)
        return PrivacyCost(relation, sampled=sampled)

    def _rounding(self, temperature, smallest_step):
        """How far rounding can move an update, in the units of theta."""
        noise = math.sqrt(2 * smallest_step * temperature)
        return rounding_shift(self.bounds.n_parameters, noise)

    def _multiplier(self, temperature, step, k, steps):
        """Noise of the k-th step over what one record can move, rounding included."""
        decay = self.options.step_decay
        size = step * k**-decay
        moved = size * self.record_bound / self.q + self._rounding(
            temperature, step * steps**-decay
        )
        return math.sqrt(2 * size * temperature) / moved

    def excess(self, temperature, step, steps):
        """How far a schedule is beyond the budget, relatively: at most 0 is within it."""
        if not self.private:
            return -1.0
        cost = self.cost(temperature, step, steps)
        if not cost.sampled:
            return cost.mu / self.mu - 1.0
        # Far beyond the budget the Gaussian limit decides: composing would be slow there.
        limit = gaussian_limit(cost)
        if limit > 3.0 * self.mu:
            return limit / self.mu
        return cost.epsilon(self.budget.delta) / self.budget.epsilon - 1.0

    # Solving

    def solved(self):
        """Solve for ``temperature``, (first) ``step`` size and number of ``steps``; return self."""
        self.temperature, self.step, self.steps = self._solve()
        return self

    def make(self, plan_class, name, **more):
        """Return the plan of the solution."""
        return plan_class(
            sampler=name,
            n_samples=self.n,
            bounds=self.bounds,
            budget=self.budget,
            cost=self.cost(self.temperature, self.step, self.steps),
            temperature=self.temperature,
            n_steps=self.steps,
            n_burn_in=math.floor(self.steps * self.burn_in),
            n_draws=self.draws,
            sampling_rate=self.q,
            step_size=self.step,
            step_decay=self.options.step_decay,
            noise_multiplier=(
                self.q * math.sqrt(2.0 * self.temperature / self.step) / self.bounds.gradient_bound
            ),
            wanted_relaxations=self.goal,
            **more,
        )

    def _solve(self):
        if self.options.temperature is None:
            temperature = self._lowest_temperature()
            step, steps = self.schedule(temperature)
        else:
            temperature = float(self.options.temperature)
            step, steps = self._within_budget(temperature, *self.schedule(temperature))
        free = self.options.n_steps is None and self.options.step_size is None
        if free and self.most == self.most_batches and self._wanted_steps(temperature) > self.most:
            raise ValueError(
                f"the plan would need {self._wanted_steps(temperature):.2g} steps: fix n_steps, or lower "
                "prior_scale, data_norm or step_decay."
            )
        return temperature, step, steps

    def _lowest_temperature(self):
        def excess(log_temperature):
            temperature = math.exp(log_temperature)
            return self.excess(temperature, *self.schedule(temperature))

        def limit_excess(log_temperature):
            temperature = math.exp(log_temperature)
            cost = self.cost(temperature, *self.schedule(temperature))
            return gaussian_limit(cost) / self.mu - 1.0

        if excess(0.0) <= 0:
            return 1.0
        guess = 1.0
        if self.q < 1 and limit_excess(0.0) > 0:
            guess = smallest_within(limit_excess, guess, 1e-6)
        return math.exp(smallest_within(excess, guess, self._tolerance()))

    def _within_budget(self, temperature, step, steps):
        """Take less diffusion time where the temperature is fixed and the budget binds."""
        if self.excess(temperature, step, steps) <= 0:
            return step, steps
        if self.start is not None and self.excess(temperature, step * 1e-12, self.fewest) > 0:
            raise ValueError(
                f"at temperature={temperature:g} the start alone (init='ops') costs more than "
                f"epsilon={self.budget.epsilon:g}: raise temperature or epsilon, or leave init='zeros'."
            )
        if self.options.step_size is None:
            shrink = smallest_within(
                lambda log: self.excess(temperature, step * math.exp(-log), steps),
                1.0,
                self._tolerance(),
            )
            return step * math.exp(-shrink), steps
        if self.options.n_steps is None and self.excess(temperature, step, self.fewest) <= 0:
            low, high = self.fewest, steps
            while high - low > 1:
                middle = (low + high) // 2
                if self.excess(temperature, step, middle) <= 0:
                    low = middle
                else:
                    high = middle
            return step, low
        raise ValueError(
            f"temperature={temperature:g}, step_size={step:g} and n_steps={steps} together cost "
            f"more than epsilon={self.budget.epsilon:g} at delta={self.budget.delta:g}: drop one of "
            "temperature, step_size and n_steps, or raise epsilon."
        )

    def _tolerance(self):
        return 1e-12 if self.q == 1 else 1e-3
