"""How often intervals of private scores cover, and how wide they are.

    python -m benchmarks.intervals.scores [--repetitions 200] [--results docs/results/scores.csv]

"Private scores" of docs/benchmarks_intervals.rst.

Probabilities are drawn from a Beta(1, 2) law, and labels from these probabilities. Printed are the share of
90% intervals that hold the score's value on 2,000,000 rows, and their mean width. All are private under
replace_one; log losses are of probabilities that are clipped as by default.
"""

import argparse
import warnings

import numpy as np

from benchmarks.common import ResultsTable, allow_seeds
from skdpbayes.metrics import (
    dp_accuracy_score,
    dp_brier_score,
    dp_log_loss,
    dp_roc_auc_score,
)

SCORES = {
    "accuracy": lambda y, p, **options: dp_accuracy_score(y, p > 0.5, **options),
    "Brier score": dp_brier_score,
    "log loss": dp_log_loss,
    "ROC AUC": dp_roc_auc_score,
}
POPULATION = 2_000_000


def draw(n, rng):
    """Return (labels, probabilities)."""
    probabilities = rng.beta(1.0, 2.0, n)
    return (rng.random(n) < probabilities).astype(int), probabilities


def main():
    """Print a line for each score, number of rows and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--sizes", type=int, nargs="+", default=[200, 2_000, 20_000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1.0, 3.0])
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    allow_seeds()
    warnings.simplefilter("ignore")
    results = ResultsTable("score | rows | epsilon | coverage | width", arguments.results)
    population = draw(POPULATION, np.random.default_rng(999))
    for name, score in SCORES.items():
        truth = float(score(*population, epsilon=np.inf))
        for n in arguments.sizes:
            for epsilon in arguments.epsilons:
                found = []
                for seed in range(arguments.repetitions):
                    table = draw(n, np.random.default_rng(seed))
                    low, high = score(*table, epsilon=epsilon, random_state=seed).interval(0.9)
                    found.append((low <= truth <= high, high - low))
                covers, width = np.mean(found, axis=0)
                results.add(name, n, f"{epsilon:g}", f"{covers:.3f}", f"{width:.3g}")


if __name__ == "__main__":
    main()
