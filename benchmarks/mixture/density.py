"""Densities of Gaussian mixtures, private and scikit-learn's, by the number of rows.

    python -m benchmarks.mixture.density [--seeds 5] [--results docs/results/mixture_density.csv]

"Mixtures" of docs/benchmarks.rst.

Covariances are diagonal, delta is the default, neighbours replace one row, all options but ``data_norm`` are
defaults. A seed takes a mixture of its family (`data.py`), a table and 20,000 other rows: centres at
least 6 deviations apart and uniform in [-6, 6]^2 or [-4, 4]^10, deviations of 0.7 to 1.3 in each coordinate,
rows clipped to the public norm of 10.6 or 12.5. Overlapping centres are 2.5 apart. An infinite epsilon stands
for ``GaussianMixture(n_init=10)``.

"Gap": by how much the mean log density of the other rows, divided by the dimension, is below that of the
density they are from; median and largest over seeds. "Right" is the share of seeds with a gap of at most 0.1.
"""

import argparse
import time

import numpy as np
from sklearn.mixture import GaussianMixture

from benchmarks.common import ResultsTable, allow_seeds, ignore_fit_warnings
from benchmarks.mixture.data import SCENARIOS, draw_tables
from skdpbayes.mixture import DPGaussianMixturePosterior

EPSILONS = (0.3, 1.0, 3.0, np.inf)
SIZES = (3_000, 10_000, 100_000)
LARGEST_RIGHT_GAP = 0.1


def fit_private(X, n_components, data_norm, epsilon, seed):
    """Return a private model."""
    model = DPGaussianMixturePosterior(
        n_components, epsilon=epsilon, data_norm=data_norm, random_state=seed
    )
    return model.fit(X)


def fit_public(X, n_components, seed):
    """Return scikit-learn's model."""
    return GaussianMixture(
        n_components, covariance_type="diag", max_iter=300, random_state=seed, n_init=10
    ).fit(X)


def measured(name, n_samples, epsilon, seed):
    """Return (gap, seconds of the fit)."""
    scenario = SCENARIOS[name]
    X, X_test, _, known = draw_tables(name, n_samples, seed)
    start = time.perf_counter()
    if np.isinf(epsilon):
        model = fit_public(X, scenario.n_components, seed)
    else:
        model = fit_private(X, scenario.n_components, scenario.data_norm, epsilon, seed)
    seconds = time.perf_counter() - start
    return (known.score(X_test) - model.score(X_test)) / scenario.n_features, seconds


def main():
    """Print a line for each family, number of rows and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    allow_seeds()
    # That there are too few rows is what is measured here.
    ignore_fit_warnings()
    heads = "table | rows | epsilon | gap | largest | right | seconds"
    results = ResultsTable(heads, arguments.results)
    for name in SCENARIOS:
        for epsilon in EPSILONS:
            for n in arguments.sizes:
                found = [measured(name, n, epsilon, seed) for seed in range(arguments.seeds)]
                gaps, seconds = np.transpose(found)
                shown = f"{np.median(gaps):.4f}", f"{gaps.max():.4f}"
                right = np.mean(gaps <= LARGEST_RIGHT_GAP)
                results.add(
                    name, n, f"{epsilon:g}", *shown, f"{right:.2f}", f"{np.median(seconds):.2f}"
                )


if __name__ == "__main__":
    main()
