"""Private random search against fixed choices of the same total epsilon.

    python -m benchmarks.classification.selection [--results docs/results/selection.csv]

"A search within a budget" of docs/benchmarks.rst.

What is chosen is the norm to which rows are clipped, log-uniformly between 0.0001 and 100, on a made-up table
of 20,000 rows and 10 columns, in units in which rows have norms of about 0.01. Accuracy is that on a quarter
of the rows, which nothing else sees, without noise. The search keeps a quarter of the others for its scores.
Printed are the mean over seeds, and the worst.
"""

import argparse
import time
import warnings

import numpy as np
from scipy.special import expit
from scipy.stats import loguniform
from sklearn.model_selection import train_test_split

from benchmarks.common import ResultsTable
from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.model_selection import DPRandomizedSearchCV

DELTA = 1e-5
SMALLEST, LARGEST = 1e-4, 100.0
UNIT = 1.0 / 300.0
# A choice that is known to be good.
GOOD = 3.0 * UNIT


def made_up(n_samples=20_000, n_features=10):
    """Return (X, y)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, n_features))
    return UNIT * X, (rng.random(n_samples) < expit(X @ rng.normal(size=n_features))).astype(int)


def fixed(norm, epsilon, seed):
    """Return an estimator that spends the whole budget on one choice."""
    return DPBayesianLogisticRegression(
        epsilon, DELTA, data_norm=norm, classes=[0, 1], random_state=seed
    )


def search(epsilon, seed, mean_candidates):
    """Return a search that spends it on the choice as well."""
    return DPRandomizedSearchCV(
        DPBayesianLogisticRegression(classes=[0, 1]),
        {"data_norm": loguniform(SMALLEST, LARGEST)},
        epsilon=epsilon,
        delta=DELTA,
        mean_candidates=mean_candidates,
        random_state=seed,
    )


MODELS = {
    "the default": lambda epsilon, seed: fixed(None, epsilon, seed),
    "a bad choice, 100": lambda epsilon, seed: fixed(LARGEST, epsilon, seed),
    "the search, 5 candidates": lambda epsilon, seed: search(epsilon, seed, 5.0),
    "the search, 15 candidates": lambda epsilon, seed: search(epsilon, seed, 15.0),
    "a good choice, 0.01": lambda epsilon, seed: fixed(GOOD, epsilon, seed),
}


def main():
    """Print a line for each choice and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0])
    parser.add_argument("--results", help="a CSV file")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y = made_up()
    results = ResultsTable("choice | epsilon | accuracy | worst | seconds", options.results)
    for name, make in MODELS.items():
        for epsilon in options.epsilons:
            accuracies, started = [], time.perf_counter()
            for seed in range(options.seeds):
                parts = train_test_split(X, y, test_size=0.25, random_state=seed)
                model = make(epsilon, seed).fit(parts[0], parts[2])
                accuracies.append(np.mean(model.predict(parts[1]) == parts[3]))
            seconds = (time.perf_counter() - started) / options.seeds
            shares = (f"{share:.4f}" for share in (np.mean(accuracies), min(accuracies)))
            results.add(name, f"{epsilon:g}", *shares, f"{seconds:.2f}")


if __name__ == "__main__":
    main()
