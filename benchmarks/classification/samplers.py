"""Samplers side by side: passes over the table, seconds and log loss at three budgets on three tables.

    python -m benchmarks.classification.samplers adult.csv

Table "Accuracy of the samplers" of docs/benchmarks.rst.

Every option but the sampler is at its default, delta is 1e-5, neighbours replace one row. The tables:

- adult: UCI Adult (`benchmarks/classification/adult.py` describes the file), rows of norm 1, 24,420 x 92;
- vote: the survey of `examples/vote.py`, 33,699 x 31;
- visits: the RAND health insurance experiment (`RandHIE` of R's `sampleSelection`), whether a person saw
  a doctor within the year, from plan, income, age and health, 15,142 x 16. Rows are person-years; what is
  protected is one of them.
"""

import argparse
import time
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from benchmarks.common import (
    allow_seeds,
    load_adult,
    load_visits,
    load_vote,
    print_heads,
    with_error,
)
from skdpbayes.linear_model import DPBayesianLogisticRegression

SAMPLERS = ("sgld", "sghmc", "sgnht", "sgfs", "ops", "auto")
EPSILONS = (0.1, 1.0, 10.0)


def compare(name, X, y, norm, samplers, epsilons, n_seeds):
    """Print a table: one row for each sampler, three numbers for each budget."""
    splits = [train_test_split(X, y, test_size=0.25, random_state=seed) for seed in range(n_seeds)]
    reference = np.mean(
        [
            log_loss(test_y, LogisticRegression(max_iter=10_000).fit(a, b).predict_proba(test))
            for a, test, b, test_y in splits
        ]
    )
    print(f"{name}: {splits[0][0].shape}, {n_seeds} seeds; not private: log loss {reference:.4f}\n")
    heads = " | ".join(f"epsilon = {e:g}: log loss | passes | seconds" for e in epsilons)
    print_heads(f"sampler | {heads}")
    for sampler in samplers:
        cells = []
        for epsilon in epsilons:
            losses, seconds = [], []
            for seed, (train, test, train_y, test_y) in enumerate(splits):
                start = time.perf_counter()
                model = DPBayesianLogisticRegression(
                    epsilon, 1e-5, sampler=sampler, data_norm=norm, random_state=seed
                ).fit(train, train_y)
                seconds.append(time.perf_counter() - start)
                losses.append(log_loss(test_y, model.predict_proba(test)))
            cells.append(f"{with_error(losses)} | {model.n_iter_:,} | {min(seconds):.2f}")
        print(f"| {sampler} | {' | '.join(cells)} |", flush=True)
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", help="UCI Adult's training part, with a header line")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samplers", nargs="+", default=SAMPLERS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--tables", nargs="+", default=("adult", "vote", "visits"))
    arguments = parser.parse_args()
    allow_seeds()
    # SGNHT says that it does not reach the slowest directions; that is what is measured here.
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    tables = {
        "adult": (*load_adult(arguments.path), 1.0),
        "vote": load_vote(),
        "visits": load_visits(),
    }
    for name, (X, y, norm) in tables.items():
        if name in arguments.tables:
            compare(name, X, y, norm, arguments.samplers, arguments.epsilons, arguments.seeds)


if __name__ == "__main__":
    main()
