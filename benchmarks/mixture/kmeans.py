"""Clusters of Gaussian mixtures against private k-means: adjusted Rand indices of other rows, at epsilon 1.

    python -m benchmarks.mixture.kmeans [--seeds 20] [--results docs/results/mixture_kmeans.csv]

"Mixtures" of docs/benchmarks.rst.

Tables, and what is not private, are those of `density.py`. k-means is that of diffprivlib, which is purely
private and knows that a row's coordinates are within the centres' range and 4 beyond. It runs in the
environment that `benchmarks.peers` builds for it. Printed are the median and the least over seeds, and the
share of seeds in which this package has the larger index.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
from sklearn.metrics import adjusted_rand_score

from benchmarks.common import ResultsTable, allow_seeds, ignore_fit_warnings
from benchmarks.mixture.data import SCENARIOS, draw_tables
from benchmarks.mixture.density import fit_private, fit_public
from benchmarks.peers.asking import Asker, Cell
from benchmarks.peers.environments import default_cache
from benchmarks.peers.known import PRIVATE_KMEANS

EPSILON = 1.0
N_SAMPLES = 100_000
METHODS = ("skdpbayes", "diffprivlib's k-means", "not private")


def private_labels(asker, X, X_test, scenario, seed):
    """Return the components of other rows by private k-means."""
    arrays = {
        "X": X,
        "X_test": X_test,
        "half": scenario.half + 4.0,
        "n_clusters": scenario.n_components,
    }
    path = asker.save("table", arrays)
    ((found, text),) = asker.ask([(PRIVATE_KMEANS, Cell("", EPSILON, seed, path), {})])
    if found is None:
        raise RuntimeError(f"diffprivlib: {text}")
    return found["labels"]


def indices(asker, name, n_samples, seed):
    """Return the adjusted Rand indices of this package, of private k-means, and without privacy."""
    scenario = SCENARIOS[name]
    X, X_test, labels, _ = draw_tables(name, n_samples, seed)
    n_components = scenario.n_components
    guesses = (
        fit_private(X, n_components, scenario.data_norm, EPSILON, seed).predict(X_test),
        private_labels(asker, X, X_test, scenario, seed),
        fit_public(X, n_components, seed).predict(X_test),
    )
    return [adjusted_rand_score(labels, guess) for guess in guesses]


def main():
    """Print a line for each family of mixtures and method."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rows", type=int, default=N_SAMPLES)
    parser.add_argument("--cache", type=Path, default=default_cache(), help="of environments")
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    allow_seeds()
    # That there are too few rows is what is measured here.
    ignore_fit_warnings()
    results = ResultsTable("table | rows | method | Rand index | least | won", arguments.results)
    with tempfile.TemporaryDirectory() as folder:
        asker = Asker(arguments.cache, {}, folder, lambda line: None)
        for name in SCENARIOS:
            found = np.array(
                [indices(asker, name, arguments.rows, seed) for seed in range(arguments.seeds)]
            )
            for method, values in zip(METHODS, found.T, strict=True):
                won = np.mean(found[:, 0] > values)
                shown = (f"{value:.3f}" for value in (np.median(values), values.min()))
                results.add(name, arguments.rows, method, *shown, f"{won:.2f}")


if __name__ == "__main__":
    main()
