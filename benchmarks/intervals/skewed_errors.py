"""Do intervals hold the slopes of least squares where errors are skewed, and is it said where they do not?

    python -m benchmarks.intervals.skewed_errors [--repetitions 16] [--designs held_out]

"Skewed errors" of docs/benchmarks_intervals.rst, by ``--results docs/results/skewed_errors.csv``.

Spreads grow along the first column, so that slopes of the mean are not those of a centre. The default was
made on ``made_on``: lognormal errors with a deviation of 1.2 and of 1 of their logarithm, exponential ones,
amounts of which a share that depends on a column is 0, and, for the mean alone, costs that are lognormal or
0 and grow by a factor. Designs of ``held_out`` are others: costs as sums of a few gamma payments, Weibull
waiting times that are longer with an indicator, scores with a ceiling, and, with symmetric errors, Student's
law with four degrees of freedom and the normal law.

Printed are the shares of 90% intervals that hold the slopes of least squares on the whole population, all
columns and the worst one; of those that hold the mean of responses, at the mean row; the median width of
slopes' over that of least squares on the same rows; the share of fits that warn of skewed errors; the share
of tables in which the interval of the worst column misses while nothing is said of skewed errors or of a
centre, neither by a warning nor by a note; and the shares of new responses below and above their 90%
intervals. Delta is 1e-5.
"""

import argparse
import warnings
from itertools import product

import numpy as np

from benchmarks.common import QUANTILE, ResultsTable, allow_seeds, sandwich_deviations
from skdpbayes import DPBayesianRidge

DESIGNS = {
    "made_on": ("lognormal 1.2", "lognormal 1", "exponential", "zeros", "costs"),
    "held_out": ("payments", "waiting times", "a ceiling", "Student's law", "normal"),
}
SIZES = ((1_000, 1.0), (2_000, 1.0), (3_000, 1.0), (10_000, 1.0), (40_000, 0.5), (40_000, 3.0))
POPULATION = 2_000_000
N_NEW = 2_000


def a_table(kind, n, rng):
    """Rows of four or six columns in [-1, 1], responses and the half width of their bounds."""
    rows = rng.uniform(-1.0, 1.0, (n, 4))
    grows = 1.5 + rows[:, 0]
    if kind.startswith("lognormal"):
        sd = float(kind.split()[1])
        return rows, 0.5 * rows[:, 1] + np.exp(sd * rng.normal(size=n)) * grows, 100.0
    if kind == "exponential":
        return rows, rows[:, 1] + 1.5 * rng.exponential(size=n) * grows, 60.0
    if kind == "zeros":
        is_there = rng.random(n) < 0.4 + 0.2 * rows[:, 1]
        return rows, is_there * rng.gamma(2.0, size=n) * grows, 50.0
    if kind == "costs":
        is_there = rng.random(n) < 0.65
        return rows, is_there * np.exp(0.8 * rows[:, 0] + 1.2 * rng.normal(size=n)), 50.0
    if kind == "payments":
        levels = (rng.choice(3, n, p=[0.6, 0.3, 0.1])[:, None] == [1, 2]).astype(float)
        rows = np.hstack([rows, levels])
        n_payments = rng.poisson(np.exp(0.5 * rows[:, 0] - 0.7 + 0.5 * levels[:, 1]))
        return rows, rng.gamma(np.maximum(0.7 * n_payments, 1e-9)) * (n_payments > 0), 40.0
    if kind == "waiting times":
        rows[:, 3] = rng.random(n) < 0.3
        scales = np.exp(0.3 * rows[:, 0] + 0.7 * rows[:, 3])
        return rows, 2.0 * scales * rng.weibull(0.7, size=n), 100.0
    if kind == "a ceiling":
        errors = rng.normal(size=n) * (1.0 + 0.5 * rows[:, 0])
        return rows, np.minimum(rows[:, 1] + errors, 0.7), 10.0
    errors = rng.standard_t(4, size=n) if kind == "Student's law" else rng.normal(size=n)
    return rows, rows[:, 1] + errors * grows, 60.0


def least_squares(rows, y):
    """Slopes, and their deviations whatever errors vary with."""
    z = np.column_stack([rows, np.ones(len(rows))])
    found = np.linalg.lstsq(z, y, rcond=None)[0]
    return found[:-1], sandwich_deviations(z, y - z @ found)[:-1]


def held(kind, n, epsilon, slopes, mean, seed):
    """Which intervals hold the slopes, their widths, what is said of them, and shares of new responses."""
    rows, y, half = a_table(kind, n, np.random.default_rng(seed))
    model = DPBayesianRidge((-half, half), epsilon=epsilon, delta=1e-5, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        allow_seeds()
        low, high = model.fit(rows, y).posterior_interval()[0, : len(slopes)].T
    warns = any("errors are skewed" in str(each.message) for each in caught)
    notes = " ".join(model.interval_notes())
    is_told = warns or "of a centre" in notes or "skewed" in notes
    is_held = (low <= slopes) & (slopes <= high)
    widths = (high - low) / (2.0 * QUANTILE * least_squares(rows, y)[1])
    draws = model.posterior_samples_[:, 0] @ np.append(rows.mean(axis=0), 1.0)
    holds_mean = (np.quantile(draws, 0.05) <= mean) & (mean <= np.quantile(draws, 0.95))
    new_rows, new, _ = a_table(kind, N_NEW, np.random.default_rng((seed, 1)))
    low, high = model.prediction_interval(new_rows).T
    beyond = np.mean(new < low), np.mean(new > high)
    return is_held, widths, warns, ~is_held & (not is_told), beyond, holds_mean


def main():
    """Print a line for each design and size."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repetitions", type=int, default=16)
    parser.add_argument("--rows", type=int, nargs="+", help="sizes of tables, all if left out")
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--results", help="a CSV file")
    options = parser.parse_args()
    allow_seeds()
    results = ResultsTable(
        "errors | rows | epsilon | held | worst | mean | width | warn | silent misses | below | above",
        options.results,
    )
    kinds = [kind for name in options.designs for kind in DESIGNS[name]]
    sizes = [size for size in SIZES if options.rows is None or size[0] in options.rows]
    aims = {}
    for kind in kinds:
        rows, y, _ = a_table(kind, POPULATION, np.random.default_rng(999))
        aims[kind] = least_squares(rows, y)[0], y.mean()
    for kind, (n, epsilon) in product(kinds, sizes):
        found = [held(kind, n, epsilon, *aims[kind], seed) for seed in range(options.repetitions)]
        are_held, widths, warn, missed, beyond, means = (
            np.array(part) for part in zip(*found, strict=True)
        )
        shares = are_held.mean(), are_held.mean(axis=0).min(), means.mean(), np.median(widths)
        figures = (f"{value:.2f}" for value in (*shares, warn.mean(), missed.mean(axis=0).max()))
        results.add(
            kind, n, f"{epsilon:g}", *figures, *(f"{share:.3f}" for share in beyond.mean(axis=0))
        )


if __name__ == "__main__":
    main()
