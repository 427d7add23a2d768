"""Intervals of "noise_aware" on one-hot tables with more columns than the default takes.

    python -m benchmarks.intervals.wide --levels 25 --epsilon 1 --seeds 0 1 --samplers noise_aware sghmc
        [--drop-first]

Table "Wide tables" of docs/benchmarks_intervals.rst.

Twenty categorical columns with skewed frequencies of levels, coefficients of deviation 0.7, 50,000 rows.
Printed are the coverage of 90% intervals and their median widths, for coefficients, for coefficients less the
mean of their column's, and for probabilities of 300 new rows; and the log loss on 10,000 new rows.
"""

import argparse
import resource
import time
import warnings

import numpy as np
from scipy.special import expit
from sklearn.metrics import log_loss

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
    """Return how many 90% intervals cover, and their median width."""
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    return f"{np.mean((low <= truth) & (truth <= high)):.3f}/{np.median(high - low):.2f}"


def measure(name, epsilon, seed, table):
    """Print what a fit covers, its log loss, and what it took."""
    X, y, _, _ = table
    model = DPBayesianLogisticRegression(
        epsilon=epsilon, delta=1e-6, data_norm=N_COLUMNS**0.5, sampler=name, random_state=seed
    )
    started = time.process_time()
    model.fit(X[:N], y[:N])
    seconds = time.process_time() - started
    draws = model.posterior_samples_[:, 0]
    found = figures(table, draws, model.predict_proba(X[N:])[:, 1])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{name}, epsilon {epsilon:g}, table {seed}, {found}, {seconds:.0f} s of CPU, {memory:.2f} GiB",
        flush=True,
    )


def figures(table, draws, predicted):
    """Return as text what draws, their intercepts last, cover, and the log loss of predictions."""
    X, y, theta, intercept = table
    coefficients = draws[:, :-1]
    by_column = coefficients.reshape(len(draws), *theta.shape)
    apart = (by_column - by_column.mean(axis=2, keepdims=True)).reshape(coefficients.shape)
    logits = X[N : N + 300] @ coefficients.T + draws[:, -1]
    true = expit(X[N:] @ theta.ravel() + intercept)
    found = [
        coverage(theta.ravel(), coefficients),
        coverage((theta - theta.mean(axis=1, keepdims=True)).ravel(), apart),
        coverage(true[:300], expit(logits).T),
    ]
    loss, best = log_loss(y[N:], predicted), log_loss(y[N:], true)
    return (
        f"{theta.size} columns: coefficients {found[0]}, less means {found[1]}, probabilities {found[2]}, "
        f"log loss {loss:.4f} (truth {best:.4f})"
    )


def main():
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--levels", type=int, default=25)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--samplers", nargs="+", default=["noise_aware"])
    parser.add_argument("--drop-first", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for seed in options.seeds:
        table = one_hot_table(options.levels, seed, options.drop_first)
        for name in options.samplers:
            measure(name, options.epsilon, seed, table)


if __name__ == "__main__":
    main()
