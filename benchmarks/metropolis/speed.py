"""How fast random walks are: kernels, samplers, batch sizes.

    python -m benchmarks.metropolis speed

First table of "Random walks" of docs/benchmarks.rst.

Logistic regression with three coefficients, rows in the unit ball, epsilon = 1 in all, delta = 1e-6.

1. A step on a Poisson batch against one over the whole table at the same distance, and against the same
   TunaMH step in plain NumPy.
2. Records read, seconds, and effective sample size by ArviZ, the least over the coefficients. A plan ends
   at an effective size of 25 where the budget reaches that far, which is less than draws can estimate well:
   sizes are means over seeds (one at a million rows), and rough. Acceptance is measured over the whole
   chain, and planned for what follows its way from zero.
3. The same for batches larger and smaller than the plan's own, its distance being kept.

A random walk moves as far as its budget affords whatever it reads, so a batch should save time only.
"""

import math
import time
import warnings

import numpy as np
from scipy.special import expit
from sklearn.base import clone

from benchmarks.common import print_heads, show_ratio, show_times, take_turns
from skdpbayes.models import Logistic
from skdpbayes.models.linear import linear_bounds, linear_prior_precision, make_linear
from skdpbayes.privacy import Budget
from skdpbayes.samplers import DPMH, DPFastMH, DPFastMHGaussian, PenaltyMH, sample
from skdpbayes.samplers.base import run_plan

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)
    import arviz

SAMPLERS = (DPFastMH(), DPMH(), PenaltyMH(), DPFastMHGaussian())
BUDGET = Budget(1.0, 1e-6)
TRUTH = np.array([3.0, -2.0, 1.0])
PRECISION = linear_prior_precision(Logistic(), TRUTH.size, 2.5, 1.25, 0.0)
BOUNDS = linear_bounds(Logistic(), 1.0, PRECISION)
KERNEL_TABLE, KERNEL_STEPS = 200_000, 20_000
SIZES = (10_000, 100_000, 1_000_000)
SWEPT_TABLE, FACTORS = 200_000, (0.3, 1.0, 3.0, 10.0)
N_DRAWS = 1000


def make_table(n_samples, seed=0):
    """Return rows spread evenly over the unit ball, and labels from a logistic model."""
    generator = np.random.default_rng(seed)
    X = generator.standard_normal((n_samples, TRUTH.size))
    X *= (generator.random(n_samples) ** (1 / TRUTH.size) / np.linalg.norm(X, axis=1))[:, None]
    return X, (generator.random(n_samples) < expit(X @ TRUTH)).astype(np.int64)


def make_target(X, y):
    """Return the logistic target of a table, without an intercept."""
    return make_linear(X, y, Logistic(), 1.0, 0.0, PRECISION)


# 1. Steps


def numpy_tunamh(X, y, plan, n_steps, generator):
    """Perform the steps of a plan for "dp_fast_mh" in NumPy, and return where they end."""
    theta, (n_samples, n_features) = np.zeros(X.shape[1]), X.shape
    bound = plan.bounds.gradient_bound * plan.step_size / plan.temperature
    shape = bound * (1 + 2 / plan.batch_ratio)
    for _ in range(n_steps):
        direction = generator.standard_normal(n_features)
        proposal = theta + plan.step_size * direction / math.sqrt(direction @ direction)
        count = generator.poisson(n_samples * (shape + bound) / 2)
        records = generator.integers(n_samples, size=count)
        rows, labels = X[records], y[records]
        here, there = rows @ theta, rows @ proposal
        u = np.logaddexp(0.0, here) - np.logaddexp(0.0, there) - labels * (here - there)
        u = np.clip(u / plan.temperature, -bound, bound)
        u = u[generator.random(count) * (shape + bound) < shape - u]
        log_ratio = np.log((shape + u) / (shape - u)).sum()
        log_ratio += PRECISION @ (theta**2 - proposal**2) / 2
        if generator.random() < expit(log_ratio):
            theta = proposal
    return theta


def compare_steps(n_rounds, n_steps):
    """Time steps of one distance by three kernels, in turns."""
    X, y = make_table(KERNEL_TABLE)
    target = make_target(X, y)
    plan = DPFastMH(n_steps=n_steps).plan(BOUNDS, len(X), BUDGET)
    steps = {"batch": n_steps, "table": n_steps // 20, "numpy": n_steps // 20}
    same = DPMH(temperature=plan.temperature, n_steps=steps["table"], step_size=plan.step_size)
    whole = same.plan(BOUNDS, len(X), BUDGET, n_draws=10)
    generator = np.random.default_rng(0)
    contestants = {
        "batch": lambda: sample(target, plan),
        "table": lambda: sample(target, whole),
        "numpy": lambda: numpy_tunamh(X, y, plan, steps["numpy"], generator),
    }
    seconds = take_turns(contestants, n_rounds)
    seconds = {name: values / steps[name] for name, values in seconds.items()}
    show_times(
        f"A step on {len(X):,} x {TRUTH.size}: {n_steps:,} of distance {plan.step_size:.3g}, "
        f"batches of {plan.batch_size:.0f}",
        {
            "skdpbayes, Poisson batch, one core": seconds["batch"],
            "skdpbayes, whole table": seconds["table"],
            "NumPy, Poisson batch": seconds["numpy"],
        },
    )
    show_ratio("whole table / batch", seconds["table"], seconds["batch"], ">= 15x")
    show_ratio("NumPy / batch", seconds["numpy"], seconds["batch"], "none")


# 2. and 3. Chains


def effective_size(draws):
    """Return ArviZ's effective sample size of a chain, the least over its parameters."""
    return min(float(arviz.ess(column[None, :])) for column in draws.T)


def measure(target, plan, n_seeds):
    """Return means over seeds: (seconds, effective size, acceptance rate)."""
    rows = []
    for seed in range(n_seeds):
        start = time.perf_counter()
        released = run_plan(target, plan, seed, 0)
        seconds = time.perf_counter() - start
        effective = effective_size(released.draws)
        rows.append((seconds, effective, released.other["acceptance_rate"]))
    return np.mean(rows, axis=0)


def warm_up():
    """Compile what is timed afterwards."""
    target = make_target(*make_table(1000))
    for sampler in SAMPLERS:
        short = clone(sampler).set_params(n_steps=50)
        run_plan(target, short.plan(BOUNDS, 1000, BUDGET), 0, 0)


_HEADS = (
    "steps | distance | records a step | records in all | acceptance planned | measured "
    "| effective size planned | measured | seconds planned | measured | seconds per effective draw"
)


def _start_table(first):
    print()
    print_heads(f"{first} | {_HEADS}")


def _show_chain(name, plan, measured):
    seconds, effective, acceptance = measured
    print(
        f"| {name} | {plan.n_steps:,} | {plan.step_size:.3g} | {plan.batch_size:,.0f} "
        f"| {plan.record_gradients:.3g} | {plan.expected_acceptance:.3f} | {acceptance:.3f} "
        f"| {plan.relaxations / 2:.1f} | {effective:.1f} | {plan.estimated_seconds:.3g} "
        f"| {seconds:.3g} | {seconds / effective:.3g} |",
        flush=True,
    )


def compare_samplers(sizes, n_seeds):
    """Print a row for every size of the table and every sampler."""
    _start_table("rows, sampler")
    for n_samples in sizes:
        target = make_target(*make_table(n_samples))
        for sampler in SAMPLERS:
            plan = sampler.plan(BOUNDS, n_samples, BUDGET, n_draws=N_DRAWS)
            name = f"{n_samples:,} {plan.name}, temperature {plan.temperature:.3g}"
            _show_chain(name, plan, measure(target, plan, n_seeds if n_samples < SIZES[-1] else 1))


def compare_batches(n_samples, n_seeds):
    """Print a row for every batch size, at the distance of the plan's own rule."""
    _start_table("batch")
    target = make_target(*make_table(n_samples))
    own = DPFastMH().plan(BOUNDS, n_samples, BUDGET, n_draws=N_DRAWS)
    for factor in FACTORS:
        batch_size = math.ceil(factor * own.batch_size)
        try:
            sized = DPFastMH(step_size=own.step_size, batch_size=batch_size)
            plan = sized.plan(BOUNDS, n_samples, BUDGET, n_draws=N_DRAWS)
        except ValueError as error:
            print(f"| {factor:g} times the plan's | {error} |")
            continue
        name = f"{factor:g} times the plan's, {n_samples:,} rows"
        _show_chain(name, plan, measure(target, plan, n_seeds))


def main(arguments):
    """Measure all three."""
    warm_up()
    if arguments.quick:
        compare_steps(1, KERNEL_STEPS)
        compare_samplers(SIZES[:1], 1)
        compare_batches(SIZES[0], 1)
        return
    compare_steps(7, KERNEL_STEPS)
    compare_samplers(SIZES, arguments.seeds)
    compare_batches(SWEPT_TABLE, arguments.seeds)
