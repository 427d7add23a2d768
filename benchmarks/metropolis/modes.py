"""How well two modes are found, against the epsilon of the whole run.

    python -m benchmarks.metropolis modes --output modes.png

Table of two modes in "Random walks" of docs/benchmarks.rst.

The posterior of `examples/two_modes.py` has two parameters, so that it can be computed on a grid. A run is
judged by

    (KL(p, q) + KL(q, p)) / 2,     p the gridded posterior, q a histogram of 2,000 draws,

as `symmetric_kl` there says. Random walks use up the budget, in at most 20,000 steps. So does SGLD: a plan of
its own ends when it has been long enough for one mode, and goes on here while there is budget.

The second table is what Zhang and Zhang (2023) set: (0.05, 1e-5) for each of 20,000 steps, lambda = 10,
batches of at most K = 60 records, else the table, likelihood to the power of 1/500. With one bound c for all
records and a = c M / 500 for steps of length M, their noise has the deviation sigma Delta,

    on a batch:    Delta = 2 log(1 + n a / lambda),   sigma = sqrt(2 log(1.25 / delta')) / epsilon',
                   epsilon' = 0.05 n / (6 K),   delta' = 1e-5 n / (2 K)      (so in their code)
    on the table:  Delta = 2 a,                       sigma = sqrt(2 log(1.25 / 1e-5)) / 0.05

and they leave it out where Delta is below epsilon' (0.05 on the table). Left out, a step that one table is
certain to accept and its neighbour is not has no finite epsilon when it is rejected, and neither has the run.
The table says what the steps amount to if noise is never left out, exactly. Their steps are Gaussian, 0.06 in
each direction; here all have the length 0.06.
"""

import math
import time

import numpy as np

from benchmarks.common import plot_against_epsilon, print_heads
from examples import two_modes
from skdpbayes.privacy import Budget, PoissonGaussian, PrivacyCost
from skdpbayes.privacy.conversions import gaussian_mu
from skdpbayes.samplers import SGLD, DPFastMHGaussian, PenaltyMH, resolve_sampler
from skdpbayes.samplers.base import run_plan

SAMPLERS = ("dp_fast_mh", "dp_mh", "penalty", "dp_fast_mh_gaussian", "sgld")
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, math.inf)
N, DELTA, BOUNDS = two_modes.N_RECORDS, two_modes.DELTA, two_modes.BOUNDS

# What was published, and the least batch for which this package proves anything: n a (1 + 1 / sqrt(2)).
STEP_EPSILON, STEP_DELTA, PUBLISHED_STEPS, PUBLISHED_TEMPERATURE = 0.05, 1e-5, 20_000, 500.0
PUBLISHED_DISTANCE, PUBLISHED_LAMBDA, LARGEST_BATCH = 0.06, 10.0, 60


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


_HEADS = "spent | steps | distance | records a step | acceptance planned | measured | symmetric KL | seconds"


def _row(plan, divergences, acceptance, seconds):
    planned = getattr(plan, "expected_acceptance", math.nan)
    spread = np.std(divergences, ddof=len(divergences) > 1)
    return (
        f"{plan.epsilon:.4g} | {plan.n_steps:,} | {plan.step_size:.3g} "
        f"| {plan.sampling_rate * N:,.0f} | {planned:.2f} | {acceptance:.2f} "
        f"| {np.mean(divergences):.3f} +- {spread:.3f} | {seconds:.2f}"
    )


def compare_samplers(target, samplers, epsilons, temperature, n_seeds, path):
    """Print a row for every sampler and budget, and save the plot."""
    posterior = two_modes.gridded_posterior(target, temperature)
    exact = exact_divergence(posterior)
    print(f"Temperature {temperature:g}, {n_seeds} seeds, +- standard deviation over them.")
    print(f"Independent draws from the posterior have a symmetric KL of {exact:.4f}.\n")
    print_heads(f"sampler | epsilon | {_HEADS}")
    results = {sampler: {} for sampler in samplers}
    for sampler in samplers:
        for epsilon in epsilons:
            plan = make_plan(sampler, epsilon, temperature)
            judged = judge(target, plan, posterior, n_seeds)
            results[sampler][epsilon] = judged[0]
            print(f"| {sampler} | {epsilon:g} | {_row(plan, *judged)} |", flush=True)
    label = "symmetric KL to the posterior (less is better)"
    plot_against_epsilon(results, {"independent draws": exact}, label, path, logarithmic=True)
    print(f"\nplot: {path}")


# What was published


def published_noise():
    """Return (sigma on a batch, epsilon' there, sigma on the table)."""
    epsilon = STEP_EPSILON * N / (6 * LARGEST_BATCH)
    delta = STEP_DELTA * N / (2 * LARGEST_BATCH)
    on_table = math.sqrt(2 * math.log(1.25 / STEP_DELTA)) / STEP_EPSILON
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon, epsilon, on_table


def published_costs():
    """Return the exact cost of all steps on (batches, the table), by the published noise and lambda."""
    on_batch, _, on_table = published_noise()
    bound = BOUNDS.gradient_bound * PUBLISHED_DISTANCE / PUBLISHED_TEMPERATURE
    rate = bound + PUBLISHED_LAMBDA / N
    # Half of Delta is what a record adds each time that it counts.
    batches = PoissonGaussian(2 * on_batch, rate, PUBLISHED_STEPS)
    return (
        PrivacyCost("replace_one", counted=(batches,)),
        PrivacyCost("replace_one", mu=math.sqrt(PUBLISHED_STEPS) / on_table),
    )


def published_samplers():
    """Return the published steps in this package: {what they read: sampler}."""
    on_batch, _, on_table = published_noise()
    in_batch = N * BOUNDS.gradient_bound * PUBLISHED_DISTANCE / PUBLISHED_TEMPERATURE
    return {
        "on batches": DPFastMHGaussian(
            step_size=PUBLISHED_DISTANCE,
            noise_multiplier=on_batch,
            max_batch_size=LARGEST_BATCH,
            batch_size=math.ceil(in_batch * (1 + math.sqrt(0.5))),
        ),
        "on the table": PenaltyMH(step_size=PUBLISHED_DISTANCE, noise_multiplier=on_table),
    }


def published_plan(sampler):
    """Plan so many steps as were published."""
    # A budget that such steps stay within; what they cost is then computed exactly.
    ample = 1.05 * max(cost.epsilon(DELTA) for cost in published_costs())
    sampler.set_params(temperature=PUBLISHED_TEMPERATURE, n_steps=PUBLISHED_STEPS)
    return sampler.plan(BOUNDS, N, Budget(ample, DELTA), n_draws=two_modes.N_DRAWS)


def compare_published(target, n_seeds):
    """Print what the published setting amounts to, how well it does, and what does at its cost."""
    posterior = two_modes.gridded_posterior(target, PUBLISHED_TEMPERATURE)
    _, epsilon, _ = published_noise()
    bound = BOUNDS.gradient_bound * PUBLISHED_DISTANCE / PUBLISHED_TEMPERATURE
    ratio = N * bound / PUBLISHED_LAMBDA
    batches, table = (cost.epsilon(DELTA) for cost in published_costs())
    print(
        f"\nPublished: ({STEP_EPSILON:g}, {STEP_DELTA:g}) a step, {PUBLISHED_STEPS:,} steps, which simply "
        f"added up\nare epsilon = {PUBLISHED_STEPS * STEP_EPSILON:,.0f} at delta = "
        f"{PUBLISHED_STEPS * STEP_DELTA:g}. Exactly, at delta = {DELTA:g}, if noise is never left out:\n"
        f"  on batches of {N * bound + PUBLISHED_LAMBDA:.1f} (lambda = {PUBLISHED_LAMBDA:g}, ratio "
        f"{ratio:.2f}): epsilon = {batches:.3f}\n  on the table: epsilon = {table:.3f}\n"
        f"Delta is {2 * math.log1p(ratio):.3f} on a batch and {2 * bound:.5f} on the table, below "
        f"{epsilon:.3f} and {STEP_EPSILON:g}:\nas published there is no noise at all, and no finite "
        "epsilon.\n"
    )
    print_heads(f"temperature {PUBLISHED_TEMPERATURE:g} | {_HEADS}")
    for what, sampler in published_samplers().items():
        plan = published_plan(sampler)
        judged = judge(target, plan, posterior, n_seeds)
        name = f"published noise {what}"
        if plan.batch_ratio:
            name += f", lambda = {plan.lambda_t:.1f}"
        print(f"| {name} | {_row(plan, *judged)} |", flush=True)
        rival = two_modes.make_plan(plan.epsilon, temperature=PUBLISHED_TEMPERATURE)
        judged = judge(target, rival, posterior, n_seeds)
        print(f"| dp_fast_mh at its cost | {_row(rival, *judged)} |", flush=True)
    print(f"\nIndependent draws: {exact_divergence(posterior):.4f}.")


def main(arguments):
    """Print both tables."""
    target = two_modes.make_target()
    epsilons = EPSILONS[:3] if arguments.quick else EPSILONS
    samplers = [name for name in arguments.samplers if not (arguments.quick and name == "sgld")]
    warm_up(target, {*samplers, "dp_fast_mh", "dp_fast_mh_gaussian", "penalty"})
    settings = (epsilons, arguments.temperature, arguments.seeds, arguments.output)
    compare_samplers(target, samplers, *settings)
    compare_published(target, arguments.seeds)
