"""Intervals of private fits beside those of the posterior without privacy, on two real tables.

    python -m benchmarks.intervals.real_tables [--results docs/results/real_tables.csv]

"Beside the posterior without privacy" of docs/benchmarks_intervals.rst.

The tables are votes and visits (`load_vote` and `load_visits` of `benchmarks.common`), every option at its
default, delta 1e-5. The private posterior knows less than the one without privacy: printed are how much wider
its intervals are, what the plan said beforehand, how often they hold the mean without privacy (more often
than 90%, as that is no draw from the posterior but its centre), and the largest distance to it in deviations.
"""

import argparse

import numpy as np

from benchmarks.common import ResultsTable, allow_seeds, load_visits, load_vote
from skdpbayes import DPBayesianLogisticRegression


def fits(X, y, norm, epsilon, seed):
    """Return (private fit, fit without privacy)."""
    return [
        DPBayesianLogisticRegression(budget, 1e-5, data_norm=norm, random_state=seed).fit(X, y)
        for budget in (epsilon, np.inf)
    ]


def main():
    """Print a row for each table and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    allow_seeds()
    heads = "table | epsilon | times as wide | the plan said | hold the mean | farthest"
    results = ResultsTable(heads, arguments.results)
    tables = {"votes": load_vote(), "visits to the doctor": load_visits()}
    for name, table in tables.items():
        for epsilon in (0.1, 0.3, 1.0, 3.0):
            rows = []
            for seed in range(arguments.seeds):
                private, exact = fits(*table, epsilon, seed)
                draws = private.posterior_samples_[:, 0]
                centre = exact.posterior_samples_[:, 0].mean(axis=0)
                wider = draws.std(axis=0) / exact.posterior_samples_[:, 0].std(axis=0)
                interval = private.posterior_interval(0.9)[0]
                held = (interval[:, 0] < centre) & (centre < interval[:, 1])
                away = np.abs(draws.mean(axis=0) - centre) / draws.std(axis=0)
                rows.append(
                    [np.median(wider), private.plan_.interval_inflation, held.mean(), away.max()]
                )
            numbers = (f"{value:.2f}" for value in np.mean(rows, axis=0))
            results.add(name, f"{epsilon:g}", *numbers)


if __name__ == "__main__":
    main()
