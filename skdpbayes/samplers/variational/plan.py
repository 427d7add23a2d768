"""Plans for Bayes by backprop: a mean-field Gaussian, fitted by noisy gradients.

    q = N(m, diag(s^2)),    min over m, s of  E_q sum_i ell_i(theta) + tau KL(q || p)

Every step releases the gradient ``g`` of the records at one draw of ``q``, with noise; ``m`` and ``s``,
their moving averages and draws from ``q`` are post-processing. ``T`` steps on the full table are
``mu``-GDP with

    mu^2 = T (s / sigma)^2,    s = 2G under replace_one, G under add_or_remove_one,

and on Poisson batches, with ``1/q`` times the batch's sum, ``T`` subsampled Gaussians of noise multiplier
``q sigma / G``. The number of steps is fixed, and the noise is the least that the budget affords.

Averaged over all steps the noise has deviation ``s / mu``, and in a direction where records add ``h`` to the
curvature it moves ``m`` by ``s / (mu (h + tau lambda))``. Nowhere is that more than the deviation
``(tau / (h + tau lambda))^(1/2)`` of ``q`` itself if it is not where ``h = 0``, which gives the untuned rule

    tau = max(1, s / (mu lambda^(1/2))):

the fitted Gaussian is then as wide as the noise that privacy adds to its mean.

Adam moves a parameter in which noise drowns the gradient like a random walk with steps of about its
learning rate. Rates are therefore ``c / sqrt(T)`` prior deviations: over all steps noise alone moves a
parameter by a fixed share of its prior's deviation, a steady gradient moves it ``c sqrt(T)`` deviations.

Blundell, Cornebise, Kavukcuoglu and Wierstra (2015).
"""

import math
from dataclasses import dataclass

from ...privacy.floating_point import sum_inflation
from .._chain_length import most_steps
from .._paid_noise import free_shift, path_multiplier
from .._plan import Plan

N_STEPS, N_STEPS_WITHOUT_PRIVACY = 1000, 5000
N_DRAWS = 100
# What noise alone moves a parameter by, in deviations of its prior, is about this.
RATE = 1.0
# Share of the prior's deviation at which those of ``q`` start; small beside the start of a network, so that
# their noise does not hide it.
INITIAL_SCALE, INITIAL_SCALE_OF_NETWORKS = 0.1, 0.02
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
        """Return the lines of the printed plan, a dict of {name: text}."""
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
    sensitivity = budget.records_moved * bounds.gradient_bound
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
    """Return the noise that covers a record of the bound, with what rounding adds."""
    if multiplier == 0:
        return 0.0
    relation = budget.neighboring_relation
    largest = bounds.gradient_bound * sum_inflation(n_samples, bounds.n_parameters, relation)
    return largest / (rate * free_shift(multiplier, bounds.n_parameters))
