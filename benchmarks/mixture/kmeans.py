"""Clusters of Gaussian mixtures against private k-means: adjusted Rand indices of other rows, at epsilon 1.

    python -m benchmarks.mixture.kmeans [--seeds 20] [--quick]

Last table of "Mixtures" of docs/benchmarks.rst.

Tables, and what is not private, are those of `density.py`. k-means is that of diffprivlib, which is purely
private and knows that a row's coordinates are within the centres' range and 4 beyond. It runs in the
environment that `benchmarks.peers` builds for it.
"""

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from benchmarks.common import allow_seeds, print_heads
from benchmarks.mixture.data import SCENARIOS, draw_tables
from benchmarks.mixture.density import N_SAMPLES, fit_private, fit_public
from benchmarks.peers.asking import Asker, Cell
from benchmarks.peers.environments import default_cache
from benchmarks.peers.known import PRIVATE_KMEANS

EPSILON = 1.0


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


def compare(asker, n_samples, n_seeds):
    """Print a row for every family of mixtures."""
    print(f"{n_samples:,} rows, {n_seeds} seeds; adjusted Rand index, median (least).\n")
    print_heads("table | this package | private k-means | not private | seeds won")
    for name, scenario in SCENARIOS.items():
        found = []
        for seed in range(n_seeds):
            X, X_test, labels, _ = draw_tables(name, n_samples, seed)
            k = scenario.n_components
            model, _ = fit_private(X, k, scenario.data_norm, EPSILON, seed)
            by_kmeans = private_labels(asker, X, X_test, scenario, seed)
            public, _ = fit_public(X, k, seed, n_init=10)
            guesses = model.predict(X_test), by_kmeans, public.predict(X_test)
            found.append([adjusted_rand_score(labels, guess) for guess in guesses])
        found = np.array(found)
        cells = " | ".join(f"{np.median(part):.3f} ({part.min():.3f})" for part in found.T)
        won = (found[:, 0] > found[:, 1]).sum()
        print(f"| {name} | {cells} | {won} of {n_seeds} |", flush=True)


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller runs")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="of environments")
    arguments = parser.parse_args()
    allow_seeds()
    # That there are too few rows is what is measured here.
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    with tempfile.TemporaryDirectory() as folder:
        asker = Asker(arguments.cache, {}, folder, lambda line: None)
        if arguments.quick:
            compare(asker, N_SAMPLES // 5, min(arguments.seeds, 2))
        else:
            compare(asker, N_SAMPLES, arguments.seeds)


if __name__ == "__main__":
    main()
