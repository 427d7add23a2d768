"""Bayes by backprop: a mean-field Gaussian, fitted by noisy gradients at its own draws.

    q = N(m, diag(s^2)),    theta = m + s e,  e ~ N(0, I)  (one for all records),
    g = sum_i grad ell_i(theta) + noise,                                            released
    d/dm = g + tau lambda m,    d/ds = g e + tau (lambda s - 1 / s),

the gradients of ``E_q sum_i ell_i + tau KL(q || p)`` with the closed form of the Kullback-Leibler term for
the prior ``N(0, 1 / lambda)``. Everything runs in units of the prior's deviations, ``m = lambda^(-1/2) u``,
``s = lambda^(-1/2) exp(r)``:

    d/du = lambda^(-1/2) g + tau u,    d/dr = exp(r) e lambda^(-1/2) g + tau (exp(2r) - 1).

Adam steps on ``u`` and ``r``; both are averaged over the last steps, which takes out most of the noise.
Only ``g`` depends on the records: drift and noise are rounded to one lattice, as in every step of a
chain (see `skdpbayes.privacy.floating_point`), and the rest is post-processing.

A parameter that the records say nothing of has its prior's deviation, and none has a larger one: ``r``
keeps to ``r <= 0``, or noise might carry it anywhere.

Blundell, Cornebise, Kavukcuoglu and Wierstra (2015); Kingma and Ba (2015).
"""

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from ..._compiled import compilable
from ...privacy.floating_point import lattice_spacing
from .._machinery.compiled_entries import CompiledCore
from .._machinery.execution import run_in_blocks
from .._machinery.gradients import estimate_gradient, gradient_oracle, start_of
from .._machinery.lattice import noisy_step
from .._machinery.watched import watched_chain
from .._protocol import Released

# Adam's: how much of its averages of gradients and of their squares a step keeps. Gradients of ``r`` shrink
# with ``s`` by orders of magnitude, and squares must be forgotten as fast.
MOMENTUM, SQUARES_KEPT = 0.9, 0.99
_TINY = 1e-12


class VariationalState(NamedTuple):
    """What a fit goes on from; rows of pairs are the mean ``u`` and the log deviation ``r``.

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
    """What all steps of a fit have in common; ``noise`` is the deviation of that on a gradient."""

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
            state.values[i, j] -= size * state.first[i, j] / (unbiased * (deviation + _TINY))
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
        """Return what a listener is told of the steps, or None."""
        values, first, second, average, released = self.state
        return watched_chain(
            self.plan,
            "steps of a variational fit",
            self.generator,
            lambda k: (released, values, first, second, average),
            lambda k: self.steps.noise,
            partial(self.advance, oracle=self.oracle._replace(n_examples=0)),
            self._follows,
        )

    def _follows(self, number, before, released):
        """Return the other arrays of the state, as they follow from a step's noisy gradient."""
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
        """Return mean and deviation of ``q``, in the parameters' own units."""
        mean, log_scale = self.state.average
        return self.prior_scale * mean, self.prior_scale * np.exp(log_scale)


def run_variational(plan, target, generator, verbose):
    """Fit a Gaussian, and draw from it."""
    fit = VariationalFit(plan, target, generator)
    run_in_blocks(fit.advance, plan, fit.work, verbose, plan.name.upper(), fit.watched())
    mean, scale = fit.fitted()
    draws = mean + scale * generator.standard_normal((plan.n_draws, mean.size))  # Post-processing.
    return Released(draws, plan, {"variational_mean": mean, "variational_scale": scale})
