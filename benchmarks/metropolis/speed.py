"""How long random walks take for an effective draw.

    python -m benchmarks.metropolis speed [--results docs/results/walks_speed.csv]

Logistic regression with three coefficients, rows in the unit ball, epsilon = 1 in all, delta = 1e-6. Printed
are records read in a step, seconds, and the effective sample size by ArviZ, the least over the coefficients.
A plan ends at an effective size of 25 where the budget reaches that far, which is less than draws can
estimate well: sizes are means over seeds, and rough.

A random walk moves as far as its budget affords whatever it reads, so a batch should save time only.
"""

import time
import warnings

import numpy as np
from scipy.special import expit
from sklearn.base import clone

from benchmarks.common import ResultsTable
from skdpbayes.models import Logistic
from skdpbayes.models.linear import linear_bounds, linear_prior_precision, make_linear
from skdpbayes.privacy import Budget
from skdpbayes.samplers import DPMH, DPFastMH, DPFastMHGaussian, PenaltyMH
from skdpbayes.samplers.base import run_plan

with warnings.catch_warnings():
    warnings.simplefilter("ignore", FutureWarning)
    import arviz

SAMPLERS = (DPFastMH(), DPFastMHGaussian(), DPMH(), PenaltyMH())
BUDGET = Budget(1.0, 1e-6)
TRUTH = np.array([3.0, -2.0, 1.0])
PRECISION = linear_prior_precision(Logistic(), TRUTH.size, 2.5, 1.25, 0.0)
BOUNDS = linear_bounds(Logistic(), 1.0, PRECISION)
SIZES = (10_000, 100_000)
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


def effective_size(draws):
    """Return ArviZ's effective sample size of a chain, the least over its parameters."""
    return min(float(arviz.ess(column[None, :])) for column in draws.T)


def measure(target, plan, n_seeds):
    """Return means over seeds: (seconds, effective size)."""
    found = []
    for seed in range(n_seeds):
        start = time.perf_counter()
        draws = run_plan(target, plan, seed, 0).draws
        seconds = time.perf_counter() - start
        found.append((seconds, effective_size(draws)))
    return np.mean(found, axis=0)


def warm_up():
    """Compile what is timed afterwards."""
    target = make_target(*make_table(1000))
    for sampler in SAMPLERS:
        short = clone(sampler).set_params(n_steps=50)
        run_plan(target, short.plan(BOUNDS, 1000, BUDGET), 0, 0)


def main(arguments):
    """Print a line for every size of the table and every sampler."""
    warm_up()
    heads = "rows | sampler | temperature | steps | records a step | seconds | effective draws"
    results = ResultsTable(heads, arguments.results)
    for n_samples in arguments.sizes:
        target = make_target(*make_table(n_samples))
        for sampler in SAMPLERS:
            plan = sampler.plan(BOUNDS, n_samples, BUDGET, n_draws=N_DRAWS)
            seconds, effective = measure(target, plan, arguments.seeds)
            length = f"{plan.temperature:.3g}", plan.n_steps, round(plan.batch_size)
            results.add(n_samples, plan.name, *length, f"{seconds:.2f}", f"{effective:.1f}")
