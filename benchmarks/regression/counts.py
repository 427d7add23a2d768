"""Errors and intervals of private Poisson regression.

    python -m benchmarks.regression.counts [--repetitions 8] [--sizes 10000x5] [--rates 0.5 5]
        [--dispersion 2]

"Counts as responses" of docs/benchmarks_numbers.rst; `benchmarks.refresh` has the commands.

Rows have columns that are uniform in [-1, 1], binary with shares of ones between 0.1 and 0.9, skewed
(exponential with a mean of 0.4, cut at 3), or decaying (normal with deviations ``j^-0.7`` in a random
basis). Coefficients have deviation 0.5, which no method knows. Counts are Poisson, or negative binomial
with a variance of ``dispersion`` times the mean; the rate is that of a row of mean columns. They are cut at
``max(20, 4 rate + 16)``. Exposures, if asked for, are lognormal with deviation 0.7. All are private under
replace_one at delta 1e-5, by the default, `ClippedResiduals`.

Printed are medians over tables of the error of logarithms of means, rows counting by their means, over that
of maximum likelihood without privacy; the share of 90% intervals that cover, of coefficients and of
intercepts; the median width over that of maximum likelihood; the learnt dispersion; and CPU seconds.
"""

import argparse
import math
import time

import numpy as np

from benchmarks.common import QUANTILE, ResultsTable, allow_seeds
from skdpbayes.models import LinearModel, Poisson
from skdpbayes.privacy import Budget
from skdpbayes.samplers import ClippedResiduals
from skdpbayes.samplers.base import run_plan

DELTA, COEFFICIENTS = 1e-5, 0.5


def make_table(design, n, d, rate, dispersion, exposed, rng):
    """Return (rows, counts, logarithms of exposures, true coefficients with the intercept last)."""
    if design == "uniform":
        rows = rng.uniform(-1.0, 1.0, size=(n, d))
    elif design == "binary":
        rows = (rng.random((n, d)) < np.linspace(0.1, 0.9, d)).astype(float)
    elif design == "skewed":
        rows = np.minimum(rng.exponential(0.4, size=(n, d)), 3.0)
    else:
        basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
        rows = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.7 @ basis / 1.5
        rows = np.clip(rows, -1.0, 1.0)
    truth = COEFFICIENTS * rng.normal(size=d + 1)
    truth[-1] = math.log(rate) - rows.mean(axis=0) @ truth[:-1]
    offsets = 0.7 * rng.normal(size=n) if exposed else np.zeros(n)
    means = np.exp(rows @ truth[:-1] + truth[-1] + offsets)
    if dispersion > 1:
        means = rng.gamma(means / (dispersion - 1.0), dispersion - 1.0)
    return np.ascontiguousarray(rows), rng.poisson(means).astype(float), offsets, truth


def maximum_likelihood(z, counts, offsets):
    """Return coefficients without privacy."""
    theta = np.zeros(z.shape[1])
    theta[-1] = math.log(counts.mean() / np.exp(offsets).mean())
    for _ in range(50):
        means = np.exp(z @ theta + offsets)
        step = np.linalg.solve((z * means[:, None]).T @ z, z.T @ (counts - means))
        theta += step * min(1.0, 1.0 / np.abs(step).max())
    return theta


def measured(design, n, d, rate, epsilon, arguments):
    """Return the printed numbers."""
    found = []
    for seed in range(arguments.first, arguments.first + arguments.repetitions):
        rng = np.random.default_rng(seed)
        options = rate, arguments.dispersion, arguments.exposures
        rows, counts, offsets, truth = make_table(design, n, d, *options, rng)
        largest = max(20.0, math.ceil(4.0 * rate + 16.0))
        model = LinearModel(
            family=Poisson(largest), n_features=d, norm=math.sqrt(d), constant="short"
        )
        target = model.target(rows, counts, None, offsets if arguments.exposures else None)
        start = time.process_time()
        plan = ClippedResiduals().plan(model.bounds(), n, Budget(epsilon, DELTA))
        released = run_plan(target, plan, seed, 0)
        seconds = time.process_time() - start
        draws = model.in_blocks(released.draws.copy())[:, 0]
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        z = np.column_stack([rows, np.ones(n)])
        means = np.exp(z @ truth + offsets)
        information = (z * means[:, None]).T @ z
        without, covers = maximum_likelihood(z, counts, offsets), (low < truth) & (truth < high)
        errors = [
            math.sqrt((one - truth) @ information @ (one - truth))
            for one in (draws.mean(axis=0), without)
        ]
        usual = np.sqrt(arguments.dispersion * np.diag(np.linalg.inv(information)))
        found.append(
            (
                errors[0] / errors[1],
                covers[:-1].mean(),
                covers[-1],
                np.median((high - low) / (2.0 * QUANTILE * usual)),
                released.other.get("dispersion", math.nan),
                seconds,
            )
        )
    medians, means = np.median(found, axis=0), np.mean(found, axis=0)
    return medians[0], means[1], means[2], medians[3], medians[4], medians[5]


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=8)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--designs", nargs="+", default=["uniform", "binary", "skewed", "decaying"])
    parser.add_argument("--sizes", nargs="+", default=["10000x5"])
    parser.add_argument("--rates", nargs="+", type=float, default=[0.05, 0.5, 5.0, 20.0])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--dispersion", type=float, default=1.0)
    parser.add_argument("--exposures", action="store_true")
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    allow_seeds()
    heads = (
        "design | rows | columns | rate | epsilon | error | covers | intercept | width | phi | s"
    )
    results = ResultsTable(heads, arguments.results)
    for design in arguments.designs:
        for size in arguments.sizes:
            n, d = map(int, size.split("x"))
            for rate in arguments.rates:
                for epsilon in arguments.epsilons:
                    found = measured(design, n, d, rate, epsilon, arguments)
                    numbers = (f"{value:.3g}" for value in found)
                    results.add(design, n, d, f"{rate:g}", f"{epsilon:g}", *numbers)


if __name__ == "__main__":
    main()
