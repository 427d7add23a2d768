"""Bayes by backprop: a mean-field Gaussian, fitted by noisy gradients at its own draws.

    q = N(m, diag(s^2)),    min over m, s of  E_q sum_i ell_i(theta) + tau KL(q || p)

`plan_variational` says what it costs and how its temperature follows, `run_variational` fits it.
"""

import math
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from .._arguments import Interval
from .._compute.execution import run_in_blocks
from .._compute.gradients import CompiledCore, estimate_gradient, gradient_oracle, start_of
from .._jit import compilable
from .._mechanisms.audit_hook import trace_chain
from .._typing import GeneratorLike
from ..models import has_own_prior
from ..privacy.rounding import lattice_spacing, sum_inflation
from .base import (
    AUTO,
    CONSTRAINTS,
    Released,
    TemperedSampler,
    checked_gaussian,
    options,
    resolve_auto,
    resolved_batch_size,
)
from .noise import noisy_step, path_multiplier, sensitivity_after_rounding
from .plan import Plan, check_draws, check_plan_matches_target, most_steps

__all__ = ["BayesByBackprop"]

# Bayes by backprop: a mean-field Gaussian, fitted by noisy gradients at its own draws.
#
#     q = N(m, diag(s^2)),    theta = m + s e,  e ~ N(0, I)  (one for all records),
#     g = sum_i grad ell_i(theta) + noise,                                            released
#     d/dm = g + tau lambda m,    d/ds = g e + tau (lambda s - 1 / s),
#
# the gradients of ``E_q sum_i ell_i + tau KL(q || p)`` with the closed form of the Kullback-Leibler
# term for the prior ``N(0, 1 / lambda)``. Everything runs in units of the prior's deviations,
# ``m = lambda^(-1/2) u``, ``s = lambda^(-1/2) exp(r)``:
#
#     d/du = lambda^(-1/2) g + tau u,    d/dr = exp(r) e lambda^(-1/2) g + tau (exp(2r) - 1).
#
# Adam steps on ``u`` and ``r``; both are averaged over the last steps, which takes out most of the
# noise. Only ``g`` depends on the records: drift and noise are rounded to one lattice, as in every
# step of a chain (see `skdpbayes.privacy.rounding`), and the rest is post-processing.
#
# A parameter that the records say nothing of has its prior's deviation, and none has a larger one:
# ``r`` keeps to ``r <= 0``, or noise might carry it anywhere.
#
# Blundell, Cornebise, Kavukcuoglu and Wierstra (2015); Kingma and Ba (2015).


# Share of Adam's average of gradients that a step keeps.
MOMENTUM = 0.9
# Share of Adam's average of squares that a step keeps. Gradients of ``r`` shrink with ``s`` by orders of
# magnitude, and squares must be forgotten as fast.
SQUARES_KEPT = 0.99
_SMALLEST_DIVISOR = 1e-12


class VariationalState(NamedTuple):
    """The state of a fit; rows of pairs are the mean ``u`` and the log deviation ``r``.

    Attributes
    ----------
    values, first, second, average : ndarray of shape (2, n_parameters)
        The parameters of ``q``, Adam's averages, and the parameters' average over the last steps.
    released : ndarray of shape (n_parameters,)
        The last step's noisy gradient, all that a step reveals about the records.
    """

    values: np.ndarray
    first: np.ndarray
    second: np.ndarray
    average: np.ndarray
    released: np.ndarray


class Steps(NamedTuple):
    """The constants of all steps of a fit; ``noise`` is the deviation of that on a gradient."""

    size: float
    temperature: float
    rate: float
    noise: float
    spacing: float
    n_steps: int
    n_averaged: int


@compilable
def variational_gradient(pull, draw, values, temperature, out):
    """Write (d/du, d/dr) to the rows of ``out``; ``pull`` is ``lambda^(-1/2) g``, ``draw`` is ``e``."""
    for j in range(pull.size):
        width = math.exp(values[1, j])
        out[0, j] = pull[j] + temperature * values[0, j]
        out[1, j] = width * draw[j] * pull[j] + temperature * (width * width - 1.0)


@compilable
def adam_step(gradient, size, k, state):
    """Move the parameters of ``q`` by Adam's k-th step, from 0."""
    unbiased = 1.0 - MOMENTUM ** (k + 1.0)
    unbiased_squares = 1.0 - SQUARES_KEPT ** (k + 1.0)
    for i in range(2):
        for j in range(gradient.shape[1]):
            slope = gradient[i, j]
            state.first[i, j] += (1.0 - MOMENTUM) * (slope - state.first[i, j])
            state.second[i, j] += (1.0 - SQUARES_KEPT) * (slope * slope - state.second[i, j])
            deviation = math.sqrt(state.second[i, j] / unbiased_squares)
            state.values[i, j] -= (
                size * state.first[i, j] / (unbiased * (deviation + _SMALLEST_DIVISOR))
            )
    for j in range(gradient.shape[1]):
        state.values[1, j] = min(state.values[1, j], 0.0)


@CompiledCore
def _advance(oracle, generator, state, prior_scale, steps, first, stop, batch, loop):
    """Perform the steps ``first`` to ``stop - 1`` on ``state``."""
    length = prior_scale.size
    theta, draw, estimate = np.empty(length), np.empty(length), np.empty(length)
    prior, gradient = np.empty(length), np.empty((2, length))
    for k in range(first, stop):
        for j in range(length):
            draw[j] = generator.standard_normal()  # Public: the same for all records.
            width = math.exp(state.values[1, j])
            theta[j] = prior_scale[j] * (state.values[0, j] + width * draw[j])
        estimate_gradient(oracle, generator, theta, steps.rate, batch, loop, estimate, prior)
        if steps.noise > 0.0:
            # Proposition 30.
            noisy_step(estimate, -1.0, steps.noise, steps.spacing, generator, state.released)
        else:
            for j in range(length):
                state.released[j] = estimate[j]
        for j in range(length):
            estimate[j] = prior_scale[j] * state.released[j]
        variational_gradient(estimate, draw, state.values, steps.temperature, gradient)
        adam_step(gradient, steps.size, k, state)
        if k >= steps.n_steps - steps.n_averaged:
            for i in range(2):
                for j in range(length):
                    state.average[i, j] += state.values[i, j] / steps.n_averaged


class VariationalFit:
    """A fit under way.

    Parameters
    ----------
    plan : VariationalPlan
    target : NamedTuple
        With a ``prior_precision``; its attribute ``start``, if it has one, is where the means start: a
        public array, which must not depend on the records.
    generator : Generator
    """

    def __init__(self, plan, target, generator):
        self.plan, self.target, self.generator = plan, target, generator
        self.prior_scale = np.asarray(target.prior_precision, dtype=np.float64) ** -0.5
        length = plan.bounds.n_parameters
        values, first, second, average = np.zeros((4, 2, length))
        self.state = VariationalState(values, first, second, average, np.zeros(length))
        self.state.values[0] = start_of(target, plan) / self.prior_scale
        self.state.values[1] = math.log(plan.initial_scale)
        spacing = lattice_spacing(plan.noise_scale) if plan.noise_scale > 0 else 1.0
        self.steps = Steps(
            size=plan.step_size,
            temperature=plan.temperature,
            rate=plan.sampling_rate,
            noise=plan.noise_scale,
            spacing=spacing,
            n_steps=plan.n_steps,
            n_averaged=plan.n_averaged,
        )
        records = plan.sampling_rate * plan.n_samples
        self.work = records * length
        self.oracle, self.batch = gradient_oracle(
            target, length, plan.n_samples, plan.sampling_rate
        )

    def advance(self, first, stop, loop, oracle=None):
        """Perform the steps ``first`` to ``stop - 1``."""
        _advance(
            self.oracle if oracle is None else oracle,
            self.generator,
            self.state,
            self.prior_scale,
            self.steps,
            first,
            stop,
            self.batch,
            loop,
        )

    def watched(self):
        """The steps as an observer sees them, or None."""
        values, first, second, average, released = self.state
        return trace_chain(
            self.plan,
            "steps of a variational fit",
            self.generator,
            lambda k: (released, values, first, second, average),
            lambda k: self.steps.noise,
            partial(self.advance, oracle=self.oracle._replace(n_examples=0)),
            self._follows,
        )

    def _follows(self, number, before, released):
        """The other arrays of the state, as they follow from a step's noisy gradient."""
        _, values, first, second, average = before
        state, steps = VariationalState(values, first, second, average, released), self.steps
        # Public: the same for all records.
        draw, gradient = self.generator.standard_normal(released.size), np.empty((2, released.size))
        pull = self.prior_scale * released
        variational_gradient(pull, draw, values, steps.temperature, gradient)
        adam_step(gradient, steps.size, number, state)
        if number >= steps.n_steps - steps.n_averaged:
            average += values / steps.n_averaged
        return values, first, second, average

    def fitted(self):
        """Mean and deviation of ``q``, in the parameters' own units."""
        mean, log_scale = self.state.average
        return self.prior_scale * mean, self.prior_scale * np.exp(log_scale)


def run_variational(plan, target, generator, verbose):
    """Fit a Gaussian, and draw from it."""
    fit = VariationalFit(plan, target, generator)
    run_in_blocks(fit.advance, plan, fit.work, verbose, plan.name.upper(), fit.watched())
    mean, scale = fit.fitted()
    draws = mean + scale * generator.standard_normal((plan.n_draws, mean.size))  # Post-processing.
    return Released(draws, plan, {"variational_mean": mean, "variational_scale": scale})


# Plans for Bayes by backprop: a mean-field Gaussian, fitted by noisy gradients.
#
#     q = N(m, diag(s^2)),    min over m, s of  E_q sum_i ell_i(theta) + tau KL(q || p)
#
# Every step releases the gradient ``g`` of the records at one draw of ``q``, with noise; ``m`` and
# ``s``, their moving averages and draws from ``q`` are post-processing. ``T`` steps on the full table
# are ``mu``-GDP with
#
#     mu^2 = T (s / sigma)^2,    s = 2G under replace_one, G under add_or_remove_one,
#
# and on Poisson batches, with ``1/q`` times the batch's sum, ``T`` subsampled Gaussians of noise
# multiplier ``q sigma / G``. The number of steps is fixed, and the noise is the least that the budget
# affords.
#
# Averaged over all steps the noise has deviation ``s / mu``, and in a direction where records add
# ``h`` to the curvature it moves ``m`` by ``s / (mu (h + tau lambda))``. Nowhere is that more than
# the deviation ``(tau / (h + tau lambda))^(1/2)`` of ``q`` itself if it is not where ``h = 0``, which
# gives the untuned rule
#
#     tau = max(1, s / (mu lambda^(1/2))):
#
# the fitted Gaussian is then as wide as the noise that privacy adds to its mean.
#
# Adam moves a parameter in which noise drowns the gradient like a random walk with steps of about
# its learning rate. Rates are therefore ``c / sqrt(T)`` prior deviations: over all steps noise
# alone moves a parameter by a fixed share of its prior's deviation, a steady gradient moves it
# ``c sqrt(T)`` deviations.
#
# Blundell, Cornebise, Kavukcuoglu and Wierstra (2015).


N_STEPS = 1000
N_STEPS_WITHOUT_PRIVACY = 5000
N_DRAWS = 100
# What noise alone moves a parameter by, in deviations of its prior, is about this.
RATE = 1.0
# Deviations of ``q`` at the start, over the prior's.
INITIAL_SCALE = 0.1
# The same of networks, small beside their start, so that noise does not hide it.
INITIAL_SCALE_OF_NETWORKS = 0.02
# Share of the steps over which ``m`` and ``log s`` are averaged.
AVERAGED = 0.5


@dataclass(frozen=True, kw_only=True)
class VariationalPlan(Plan):
    """A plan for Bayes by backprop; every noisy gradient is released.

    ``temperature`` is the weight ``tau`` of the Kullback-Leibler term.

    Attributes
    ----------
    step_size : float
        Learning rate of Adam, in deviations of a parameter's prior; for ``log s`` without a unit.
    initial_scale : float
        Deviation at which every parameter's starts, over its prior's.
    noise_multiplier : float
        Of every step, relative to what one record can contribute to a batch's sum.
    noise_scale : float
        Deviation of the noise on the estimated gradient of all records; 0 without privacy.
    n_averaged : int
        How many of the last steps are averaged over.
    """

    step_size: float
    initial_scale: float
    noise_multiplier: float
    noise_scale: float
    n_averaged: int

    @property
    def warnings(self):
        """Warnings that the user should read before the fit, a tuple of str."""
        found = super().warnings
        reach = self.n_steps * self.step_size
        if reach < 1:
            found += (
                f"{self.n_steps:,} steps move a parameter by {reach:.2g} deviations of its prior at "
                "most: raise n_steps or step_size.",
            )
        return found

    def summary(self):
        """The lines of the printed plan, a dict of {name: text}."""
        lines = super().summary()
        lines["temperature"] = f"{self.temperature:.4g}, the weight of the Kullback-Leibler term"
        lines["draws"] = f"{self.n_draws:,} of the fitted Gaussian; more are free"
        lines["step size"] = f"{self.step_size:.4g} deviations of the prior"
        lines["starts at"] = f"a deviation of {self.initial_scale:.4g} times the prior's"
        lines["averages"] = f"the last {self.n_averaged:,} steps"
        lines["noise multiplier"] = f"{self.noise_multiplier:.4g}"
        return lines


def plan_variational(sampler, bounds, n_samples, budget, rate, temperature, n_steps, n_draws):
    """Find the noise at which the steps of Bayes by backprop cost no more than a budget.

    Parameters
    ----------
    sampler : BayesByBackprop
    bounds, n_samples, budget, temperature, n_steps, n_draws
        As for its `plan`; the temperature is the weight of the Kullback-Leibler term.
    rate : float
        Share of the records that a step reads.

    Returns
    -------
    plan : VariationalPlan
    """
    steps = _number_of_steps(budget, n_steps, rate)
    multiplier, cost = path_multiplier(bounds, budget, rate, steps)
    return VariationalPlan(
        sampler=sampler,
        n_samples=n_samples,
        bounds=bounds,
        budget=budget,
        cost=cost,
        temperature=_temperature(bounds, budget) if temperature is None else float(temperature),
        n_steps=steps,
        n_burn_in=0,
        n_draws=n_draws or N_DRAWS,
        sampling_rate=rate,
        step_size=sampler.step_size_or(RATE / math.sqrt(steps)),
        initial_scale=sampler.initial_scale_or(
            INITIAL_SCALE_OF_NETWORKS if bounds.clipped else INITIAL_SCALE
        ),
        noise_multiplier=multiplier,
        noise_scale=_noise_scale(bounds, n_samples, budget, rate, multiplier),
        n_averaged=math.ceil(AVERAGED * steps),
    )


def _temperature(bounds, budget):
    if bounds.clipped:
        return 1.0
    sensitivity = budget.sensitivity_factor * bounds.gradient_bound
    return max(1.0, sensitivity / (budget.mu * math.sqrt(bounds.prior_precision[0])))


def _number_of_steps(budget, n_steps, rate):
    if n_steps is None:
        return N_STEPS if budget.is_private else N_STEPS_WITHOUT_PRIVACY
    most, _ = most_steps(rate)
    if n_steps > most:
        raise ValueError(
            f"n_steps={n_steps} is more than the {most} whose cost can be computed: take fewer."
        )
    return n_steps


def _noise_scale(bounds, n_samples, budget, rate, multiplier):
    """The noise that covers a record of the bound, with what rounding adds."""
    if multiplier == 0:
        return 0.0
    relation = budget.neighboring_relation
    largest = bounds.gradient_bound * sum_inflation(n_samples, bounds.n_parameters, relation)
    return largest / (rate * sensitivity_after_rounding(multiplier, bounds.n_parameters))


# A step of a whole prior deviation is no use, and states must stay finite.
_SHARE = [AUTO, Interval(Real, 0, 1, closed="right")]


@options()
class BayesByBackprop(TemperedSampler):
    """Bayes by backprop: a Gaussian approximation of a tempered posterior.

    Minimises ``E_q sum_i ell_i + tau KL(q || p)`` over ``q = N(m, diag(s^2))`` by Adam [1]_. Every noisy
    gradient is released, so the cost is that of ``T`` Gaussian mechanisms, subsampled on Poisson batches. Any
    number of draws is free, but the approximation has no correlations among parameters.
    ``variational_mean`` and ``variational_scale`` are released.

    Parameters
    ----------
    temperature : float or "auto", default="auto"
        The weight ``tau``, at least 1. "auto" is the lowest at which the draws spread at least as much as
        noise moves their mean, and 1 for networks.
    n_steps : int or "auto", default="auto"
        Number of updates. "auto" is 1,000, and 5,000 without privacy.
    batch_size : int, "auto" or None, default="auto"
        Expected size of a Poisson batch. None reads the full table at every step. "auto" does the same,
        except for networks, where it is 4,096.
    step_size : float or "auto", default="auto"
        Adam's learning rate, in standard deviations of the prior, at most 1. "auto" is ``1 / sqrt(n_steps)``.
    initial_scale : float or "auto", default="auto"
        Initial standard deviation of every coordinate, relative to that of its prior, at most 1. "auto" is
        0.1, and 0.02 for networks.

    References
    ----------
    .. [1] C. Blundell, J. Cornebise, K. Kavukcuoglu and D. Wierstra, "Weight uncertainty in neural networks",
       ICML 2015.

    Examples
    --------
    >>> from skdpbayes.privacy import Budget
    >>> from skdpbayes.samplers import BayesByBackprop
    >>> from skdpbayes.models import TargetBounds
    >>> bounds = TargetBounds(3, gradient_bound=1.0, smoothness=0.25, prior_precision=(1.0, 1.0))
    >>> plan = BayesByBackprop().plan(bounds, 10_000, Budget(epsilon=1.0, delta=1e-6))
    >>> 0.999 < plan.epsilon <= 1.0
    True
    """

    name = "bbb"
    proof = "Proposition 30"
    targets = frozenset({"linear", "network"})
    _parameter_constraints = {
        **{name: CONSTRAINTS[name] for name in ("temperature", "n_steps", "batch_size")},
        "step_size": _SHARE,
        "initial_scale": _SHARE,
    }

    batch_size: int | str | None = "auto"
    step_size: float | str = "auto"
    initial_scale: float | str = "auto"

    def step_size_or(self, default: Any) -> float:
        """The step size that is given, or a default."""
        return default if resolve_auto(self.step_size) is None else float(self.step_size)

    def initial_scale_or(self, default: Any) -> float:
        """The initial scale that is given, or a default."""
        return default if resolve_auto(self.initial_scale) is None else float(self.initial_scale)

    def _plan(self, bounds, n_samples, budget, n_draws):
        checked_gaussian(self, bounds, budget)
        batch = resolved_batch_size(self.batch_size, bounds, n_samples)
        rate = 1.0 if batch is None else batch / n_samples
        return plan_variational(self, bounds, n_samples, budget, rate, *self.fixed(), n_draws)

    def check(self, plan: Any, target: Any) -> None:
        """Raise a ValueError if a plan was made for another target, or the prior is not Gaussian."""
        check_plan_matches_target(plan, target)
        precision = getattr(target, "prior_precision", None)
        if precision is None or has_own_prior(target):
            raise ValueError(
                f"sampler={self.name!r} needs an independent Gaussian prior around zero, given by "
                f"an array prior_precision, and {type(target).__name__} has another: add the field and no "
                "prior_gradient, or plan another sampler."
            )
        start = getattr(target, "start", None)
        if start is not None and np.shape(start) != np.shape(precision):
            raise ValueError(
                f"the target's start has shape {np.shape(start)}, its prior_precision "
                f"{np.shape(precision)}."
            )

    def run(self, plan: Any, target: Any, generator: np.random.Generator, verbose: int) -> Any:
        """Fit the Gaussian, and draw from it."""

        return run_variational(plan, target, generator, verbose)

    def redraw(self, released: Any, n_draws: int, random_state: GeneratorLike) -> np.ndarray | None:
        """New draws from the fitted Gaussian."""
        mean, scale = released["variational_mean"], released["variational_scale"]
        check_draws(n_draws, mean.size)
        # Post-processing.
        return mean + scale * random_state.standard_normal((n_draws, *mean.shape))
