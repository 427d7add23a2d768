"""Intervals of "noise_aware" on one-hot tables with more columns than the default takes.

    python -m benchmarks.intervals.wide [--seeds 2] [--results docs/results/wide.csv]

"More than 200 coefficients" of docs/benchmarks_intervals.rst.

Twenty categorical columns with skewed frequencies of levels, coefficients of deviation 0.7, 50,000 rows.
Printed are the coverage of 90% intervals of coefficients, of coefficients less the mean of their column's,
and of probabilities of 300 new rows; and the log loss on 10,000 new rows over that of the truth.
"""

import argparse
import time
import warnings

import numpy as np
from scipy.special import expit
from sklearn.metrics import log_loss

from benchmarks.common import ResultsTable
from skdpbayes import DPBayesianLogisticRegression

N, N_NEW, N_COLUMNS, DEVIATION, INTERCEPT = 50_000, 10_000, 20, 0.7, -0.5


def one_hot_table(n_levels, seed, drops_first):
    """Return (rows, labels, coefficients, intercept), the last `N_NEW` rows being new ones."""
    generator, size = np.random.default_rng(seed), N + N_NEW
    X = np.zeros((size, N_COLUMNS, n_levels), np.float32)
    theta = np.zeros((N_COLUMNS, n_levels))
    for column in range(N_COLUMNS):
        shares = 0.9 * generator.dirichlet(np.full(n_levels, 0.7)) + 0.1 / n_levels
        X[np.arange(size), column, generator.choice(n_levels, size=size, p=shares)] = 1.0
        theta[column] = generator.normal(0.0, DEVIATION, n_levels)
    logits = X.reshape(size, -1) @ theta.ravel() + INTERCEPT
    y = (generator.random(size) < expit(logits)).astype(int)
    if not drops_first:
        return X.reshape(size, -1), y, theta, INTERCEPT
    intercept = INTERCEPT + theta[:, 0].sum()
    return (
        np.ascontiguousarray(X[:, :, 1:]).reshape(size, -1),
        y,
        theta[:, 1:] - theta[:, :1],
        intercept,
    )


def coverage(truth, draws):
    """Return how many 90% intervals cover."""
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    return np.mean((low <= truth) & (truth <= high))


def measured(name, epsilon, seed, drops_first, n_levels):
    """Return (coverages of coefficients, of differences and of probabilities, excess loss, CPU seconds)."""
    table = X, y, theta, intercept = one_hot_table(n_levels, seed, drops_first)
    model = DPBayesianLogisticRegression(
        epsilon=epsilon, delta=1e-6, data_norm=N_COLUMNS**0.5, sampler=name, random_state=seed
    )
    started = time.process_time()
    model.fit(X[:N], y[:N])
    seconds = time.process_time() - started
    true = expit(X[N:] @ theta.ravel() + intercept)
    excess = log_loss(y[N:], model.predict_proba(X[N:])[:, 1]) - log_loss(y[N:], true)
    return *coverages(table, model.posterior_samples_[:, 0], true), excess, seconds


def coverages(table, draws, true):
    """Return what draws, their intercepts last, cover."""
    X, _, theta, _ = table
    coefficients = draws[:, :-1]
    by_column = coefficients.reshape(len(draws), *theta.shape)
    apart = (by_column - by_column.mean(axis=2, keepdims=True)).reshape(coefficients.shape)
    logits = X[N : N + 300] @ coefficients.T + draws[:, -1]
    return (
        coverage(theta.ravel(), coefficients),
        coverage((theta - theta.mean(axis=1, keepdims=True)).ravel(), apart),
        coverage(true[:300], expit(logits).T),
    )


# Samplers, and whether first levels are dropped.
CASES = (("noise_aware", False), ("noise_aware", True), ("sghmc", False))


def main():
    """Print a line for each sampler, epsilon and coding of levels."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--levels", type=int, default=25)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--results", help="a CSV file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = (
        "sampler | levels | epsilon | coefficients | differences | probabilities | excess loss | s"
    )
    results = ResultsTable(heads, options.results)
    for name, drops_first in CASES:
        for epsilon in options.epsilons:
            found = [
                measured(name, epsilon, seed, drops_first, options.levels)
                for seed in range(options.seeds)
            ]
            *shares, excess, seconds = np.mean(found, axis=0)
            shown = *(f"{share:.2f}" for share in shares), f"{excess:.4f}", f"{seconds:.0f}"
            results.add(name, "but the first" if drops_first else "all", f"{epsilon:g}", *shown)


if __name__ == "__main__":
    main()
