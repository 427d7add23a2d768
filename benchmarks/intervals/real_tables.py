"""Intervals of private fits beside those of the posterior without privacy, on two real tables.

    python -m benchmarks.intervals.real_tables [--epsilon 1.0] [--picture real_intervals.png]

Last table of "Coverage of intervals: logistic regression" of docs/benchmarks_intervals.rst, by ``--results
docs/results/real_tables.csv``.

The tables are votes and visits (`load_vote` and `load_visits` of `benchmarks.common`), every option at its
default, delta 1e-5. The private posterior knows less than the one without privacy: printed are how much wider
its intervals are, what the plan said beforehand, how often they hold the mean without privacy (more often
than 90%, as that is no draw from the posterior but its centre), and the largest distance to it in deviations.
"""

import argparse

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.common import COLORS, ResultsTable, allow_seeds, load_visits, load_vote
from skdpbayes import DPBayesianLogisticRegression


def fits(X, y, norm, epsilon, seed):
    """Return (private fit, fit without privacy)."""
    return [
        DPBayesianLogisticRegression(budget, 1e-5, data_norm=norm, random_state=seed).fit(X, y)
        for budget in (epsilon, np.inf)
    ]


def plot(axis, name, private, exact):
    """Draw both intervals of every coefficient, the intercept last."""
    places = np.arange(private.posterior_samples_.shape[2])
    for fit, offset, color, label in (
        (private, 0.17, COLORS[0], f"epsilon = {private.epsilon:g}"),
        (exact, -0.17, COLORS[1], "without privacy"),
    ):
        low, high = np.moveaxis(fit.posterior_interval(0.9)[0], -1, 0)
        axis.hlines(places + offset, low, high, color=color, lw=2, label=label)
        axis.plot(fit.posterior_samples_[:, 0].mean(axis=0), places + offset, ".", color=color)
    axis.set(title=name, xlabel="coefficient, 90% interval", yticks=places)
    axis.invert_yaxis()
    axis.legend(frameon=False, fontsize="small")


def main():
    """Print a row for each table and epsilon, and draw one of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--epsilon", type=float, default=1.0, help="of the picture")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--picture", default="real_intervals.png")
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    allow_seeds()
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 6.4), layout="constrained")
    heads = "table | epsilon | times as wide | the plan said | hold the mean | farthest"
    results = ResultsTable(heads, arguments.results)
    tables = {"votes": load_vote(), "visits to the doctor": load_visits()}
    for axis, (name, table) in zip(axes, tables.items(), strict=True):
        for epsilon in sorted({0.1, 0.3, 1.0, 3.0, arguments.epsilon}):
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
                if seed == 0 and epsilon == arguments.epsilon:
                    plot(axis, name, private, exact)
            numbers = (f"{value:.2f}" for value in np.mean(rows, axis=0))
            results.add(name, f"{epsilon:g}", *numbers)
    figure.savefig(arguments.picture, dpi=150)


if __name__ == "__main__":
    main()
