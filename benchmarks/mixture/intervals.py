"""How often intervals of mixtures cover, how wide they are, and how near densities are.

    python -m benchmarks.mixture.intervals [--repetitions 20] [--results docs/results/mixture_intervals.csv]

"Mixtures" of docs/benchmarks.rst.

Tables are drawn from mixtures that are drawn themselves: centres uniform in a cube and at least 6 deviations
apart, deviations of 0.7 to 1.3 (`data.py`). Printed are the shares of 90% intervals of weights, means and
variances (of "full" those on the diagonal) that cover, components being matched by their means; the mean
deviation of the draws over that without noise; the share of tables in which all components were found, of
which the former are; and the median gap of the mean log density of other rows to that of the true density,
per dimension.
"""

import argparse
import itertools
import time

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks.common import ResultsTable, allow_seeds, ignore_fit_warnings
from benchmarks.mixture.data import SCENARIOS, draw_tables
from skdpbayes.mixture import DPGaussianMixturePosterior

SIZES = (20_000, 100_000)
N_SCORED = 5_000
EPSILONS = (0.3, 1.0, 3.0, 10.0)
NAMES = ("2 dimensions, 3 apart", "10 dimensions, 5 apart")


def fit(name, n_samples, epsilon, kind, seed):
    """Return (model, held-out rows, the mixture)."""
    X, X_test, _, known = draw_tables(name, n_samples, seed)
    model = DPGaussianMixturePosterior(
        len(known.weights),
        epsilon=epsilon,
        covariance_type=kind,
        data_norm=SCENARIOS[name].data_norm,
        random_state=seed,
    ).fit(X)
    return model, X_test[:N_SCORED], known


def covers(model, known):
    """Return the shares of intervals of weights, means and variances that cover."""
    weights, means, variances = model.posterior_interval()
    if variances.ndim == 4:
        variances = np.diagonal(variances, axis1=1, axis2=2).swapaxes(1, 2)
    distances = ((model.means_[:, None] - known.means) ** 2).sum(axis=2)
    order = linear_sum_assignment(distances)[1]
    truth = (known.weights[order], known.means[order], known.deviations[order] ** 2)
    return [
        np.mean((part[..., 0] < true) & (true < part[..., 1]))
        for part, true in zip((weights, means, variances), truth, strict=True)
    ]


def cell(name, n_samples, epsilon, kind, repetitions):
    """Return (coverages, deviations over those without noise, share found, median gap, seconds)."""
    shares, ratios, gaps, seconds = [], [], [], 0.0
    for seed in range(repetitions):
        begun = time.perf_counter()
        model, X_test, known = fit(name, n_samples, epsilon, kind, seed)
        seconds += time.perf_counter() - begun
        gaps.append((known.score(X_test) - model.score(X_test)) / X_test.shape[1])
        table = model.summary()
        distances = np.sqrt(((model.means_[:, None] - known.means) ** 2).sum(axis=2))
        apart = min(np.linalg.norm(a - b) for a, b in itertools.combinations(known.means, 2))
        if (distances.min(axis=0) < apart / 4).all():
            shares.append(covers(model, known))
            ratios.append((table["sd"] / table["sd_without_privacy"]).median())
    coverage = np.mean(shares, axis=0) if shares else np.full(3, np.nan)
    ratio = np.mean(ratios) if ratios else np.nan
    return coverage, ratio, len(shares) / repetitions, np.median(gaps), seconds / repetitions


def main():
    """Print a row for every cell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--names", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--kind", choices=("diag", "full"), default="diag")
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    allow_seeds()
    ignore_fit_warnings()
    heads = "table | rows | epsilon | weights | means | variances | width | found | gap | seconds"
    results = ResultsTable(heads, arguments.results)
    for name, n, epsilon in itertools.product(arguments.names, arguments.sizes, arguments.epsilons):
        coverage, ratio, found, gap, seconds = cell(
            name, n, epsilon, arguments.kind, arguments.repetitions
        )
        shares = (f"{share:.3f}" for share in coverage)
        others = f"{ratio:.2f}", f"{found:.2f}", f"{gap:.5f}", f"{seconds:.1f}"
        results.add(name, n, f"{epsilon:g}", *shares, *others)


if __name__ == "__main__":
    main()
