"""How well two modes are found, against the epsilon of the whole run.

    python -m benchmarks.metropolis modes [--results docs/results/walks_modes.csv]

The posterior of `examples/two_modes.py` has two parameters, so that it can be computed on a grid. A run is
judged by

    (KL(p, q) + KL(q, p)) / 2,     p the gridded posterior, q a histogram of 2,000 draws,

as `symmetric_kl` there says. Random walks use up the budget, in at most 20,000 steps. So does SGLD: a plan of
its own ends when it has been long enough for one mode, and goes on here while there is budget.

A line of "independent draws" is for as many of the gridded posterior itself.
"""

import math
import time

import numpy as np

from benchmarks.common import ResultsTable, mean_with_error
from examples import two_modes
from skdpbayes.privacy import Budget
from skdpbayes.privacy.conversions import gaussian_mu
from skdpbayes.samplers import SGLD, resolve_sampler
from skdpbayes.samplers.base import run_plan

SAMPLERS = ("dp_fast_mh", "dp_fast_mh_gaussian", "dp_mh", "penalty", "sgld")
EPSILONS = (0.1, 0.3, 1.0, 3.0)
N, DELTA, BOUNDS = two_modes.N_RECORDS, two_modes.DELTA, two_modes.BOUNDS
TEMPERATURE = 500.0


def make_plan(sampler, epsilon, temperature):
    """Plan a run that uses up the budget, or all the steps that are allowed."""
    if sampler != "sgld":
        return two_modes.make_plan(epsilon, type(resolve_sampler(sampler)), temperature)
    budget = Budget(epsilon, DELTA)
    chain = SGLD(temperature=temperature)
    plan = chain.plan(BOUNDS, N, budget, n_draws=two_modes.N_DRAWS)
    if plan.epsilon > 0.99 * epsilon:
        return plan
    affordable = plan.n_steps * (gaussian_mu(epsilon, DELTA) / plan.cost.mu) ** 2
    n_steps = int(min(two_modes.MOST_STEPS, affordable))
    chain.set_params(step_size=plan.step_size, n_steps=n_steps)
    return chain.plan(BOUNDS, N, budget, n_draws=two_modes.N_DRAWS)


def judge(target, plan, posterior, n_seeds):
    """Return (divergences, acceptance rate or nan, seconds of a run)."""
    divergences, acceptance = [], []
    start = time.perf_counter()
    for seed in range(n_seeds):
        released = run_plan(target, plan, seed, 0)
        divergences.append(two_modes.symmetric_kl(released.draws, posterior))
        acceptance.append(released.other.get("acceptance_rate", math.nan))
    return divergences, np.mean(acceptance), (time.perf_counter() - start) / n_seeds


def warm_up(target, samplers):
    """Compile what is timed afterwards."""
    for sampler in map(resolve_sampler, samplers):
        sampler.set_params(temperature=two_modes.TEMPERATURE, n_steps=20)
        run_plan(target, sampler.plan(BOUNDS, N, Budget(1.0, DELTA), n_draws=2), 0, 0)


def exact_divergence(posterior, n_repeats=20):
    """Return the mean divergence of as many independent draws from the gridded posterior."""
    generator, points = np.random.default_rng(0), two_modes.grid()
    values = []
    for _ in range(n_repeats):
        cells = generator.choice(posterior.size, two_modes.N_DRAWS, p=posterior.ravel())
        draws = points[np.column_stack(np.unravel_index(cells, posterior.shape))]
        values.append(two_modes.symmetric_kl(draws, posterior))
    return np.mean(values)


def main(arguments):
    """Print a line for every sampler and budget."""
    target = two_modes.make_target()
    warm_up(target, arguments.samplers)
    posterior = two_modes.gridded_posterior(target, TEMPERATURE)
    heads = "sampler | epsilon | steps | records a step | divergence | error | acceptance | seconds"
    results = ResultsTable(heads, arguments.results)
    for sampler in arguments.samplers:
        for epsilon in arguments.epsilons:
            plan = make_plan(sampler, epsilon, TEMPERATURE)
            divergences, acceptance, seconds = judge(target, plan, posterior, arguments.seeds)
            shown = (f"{value:.3f}" for value in (*mean_with_error(divergences), acceptance))
            length = plan.n_steps, round(plan.sampling_rate * N)
            results.add(sampler, f"{epsilon:g}", *length, *shown, f"{seconds:.2f}")
    exact = f"{exact_divergence(posterior):.3f}"
    results.add("independent draws", "inf", two_modes.N_DRAWS, 0, exact, "", "", "")
