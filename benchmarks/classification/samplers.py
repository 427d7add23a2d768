"""Log loss of every sampler on three tables, by epsilon.

    python -m benchmarks.classification.samplers adult.csv [--results docs/results/samplers.csv]

Table of docs/benchmarks.rst.

Every option but the sampler is at its default, delta is 1e-5, neighbours replace one row. The tables:

- adult: UCI Adult (`load_adult` of `benchmarks.common` describes the file), 24,420 x 92;
- votes: the survey of `examples/vote.py`, 33,699 x 31;
- visits: the RAND health insurance experiment (`RandHIE` of R's `sampleSelection`), whether a person saw
  a doctor within the year, from plan, income, age and health, 15,142 x 16. Rows are person-years; what is
  protected is one of them.

Log losses are those of a quarter of the rows that no fit saw, with the standard error over seeds, which are
also those of the split.
"""

import argparse
import time

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from benchmarks.common import (
    ResultsTable,
    allow_seeds,
    ignore_fit_warnings,
    load_adult,
    load_visits,
    load_vote,
    mean_with_error,
)
from skdpbayes.linear_model import DPBayesianLogisticRegression

SAMPLERS = ("noise_aware", "sgfs", "sghmc", "sgnht", "sgld", "ops")
EPSILONS = (0.1, 0.3, 1.0, 3.0)
# A chain of more passes over the table is left out.
MOST_PASSES = 5_000


def add_lines(results, name, X, y, norm, arguments):
    """Add a line for each sampler and epsilon."""
    splits = [
        train_test_split(X, y, test_size=0.25, random_state=seed) for seed in range(arguments.seeds)
    ]
    reference = np.mean(
        [
            log_loss(test_y, LogisticRegression(max_iter=10_000).fit(a, b).predict_proba(test))
            for a, test, b, test_y in splits
        ]
    )
    for sampler in arguments.samplers:
        for epsilon in arguments.epsilons:
            losses, seconds = [], []
            for seed, (train, test, train_y, test_y) in enumerate(splits):
                model = DPBayesianLogisticRegression(
                    epsilon, 1e-5, sampler=sampler, data_norm=norm, random_state=seed
                )
                if model.privacy_plan(*train.shape).n_steps > MOST_PASSES:
                    break
                start = time.perf_counter()
                model.fit(train, train_y)
                seconds.append(time.perf_counter() - start)
                losses.append(log_loss(test_y, model.predict_proba(test)))
            if losses:
                loss, error = (f"{value:.4f}" for value in mean_with_error(losses))
                passes = model.n_iter_, f"{min(seconds):.2f}"
                results.add(name, sampler, f"{epsilon:g}", loss, error, *passes, f"{reference:.4f}")


def main():
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", help="UCI Adult's training part, with a header line")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samplers", nargs="+", default=SAMPLERS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--tables", nargs="+", default=("adult", "votes", "visits"))
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    allow_seeds()
    # SGNHT says that it does not reach the slowest directions; that is what is measured here.
    ignore_fit_warnings()
    tables = {
        "adult": (*load_adult(arguments.path), 1.0),
        "votes": load_vote(),
        "visits": load_visits(),
    }
    heads = "table | sampler | epsilon | log loss | error | passes | seconds | not private"
    results = ResultsTable(heads, arguments.results)
    for name in arguments.tables:
        add_lines(results, name, *tables[name], arguments)


if __name__ == "__main__":
    main()
