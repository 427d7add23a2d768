"""Accuracy and log loss on UCI Adult against epsilon, with every option at its default.

    python -m benchmarks.classification.adult adult.csv

Table "Last iterates and paths" of docs/benchmarks.rst.

The file is UCI's training part with a header line: age, workclass, fnlwgt, education,
education-num, marital-status, occupation, relationship, race, sex, capital-gain, capital-loss,
hours-per-week, native-country, income-per-year; 32,561 rows. '?' is a category of its own and
nothing is dropped.

Rows are encoded by `load_adult` of `benchmarks.common`, and have norm 1.

Table 1: a constant column is appended before the scaling (93 columns), no other intercept.
Table 2: no constant column (92 columns), the estimator's own intercept as it is by default.
"""

import argparse
import time
from functools import partial

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split

from benchmarks.common import allow_seeds, load_adult, print_heads, with_error
from skdpbayes.linear_model import DPBayesianLogisticRegression
from skdpbayes.samplers import OPS, SGHMC, Auto

DELTA = 1e-5
EPSILONS = (3.0, 1.0, 0.3, 0.1)
# What is released: a path from zero, one posterior sample alone, a path from such a sample.
RELEASES = {"": Auto(), "one draw, ": OPS(), "path from a draw, ": SGHMC(init="ops")}


def compare(X, y, constant, n_seeds):
    """Print one table."""
    models = {
        f"not private, C = {C:g}": partial(
            LogisticRegression, C=C, fit_intercept=not constant, max_iter=10_000
        )
        for C in (1.0, 100.0)
    }
    for release, sampler in RELEASES.items():
        for epsilon in EPSILONS:
            models[f"{release}epsilon = {epsilon:g}"] = partial(
                DPBayesianLogisticRegression,
                epsilon,
                DELTA,
                sampler=sampler,
                data_norm=1.0,
                fit_intercept=not constant,
            )
    print(f"{X.shape[1]} columns, {n_seeds} seeds, mean +- standard error")
    print_heads("model | accuracy | log loss | steps | temperature | seconds")
    for name, make in models.items():
        scores, seconds = [], []
        for seed in range(n_seeds):
            rows = train_test_split(X, y, test_size=0.25, random_state=seed)
            X_train, X_test, y_train, y_test = rows
            start = time.perf_counter()
            model = make(random_state=seed).fit(X_train, y_train)
            seconds.append(time.perf_counter() - start)
            proba = model.predict_proba(X_test)[:, 1]
            scores.append((accuracy_score(y_test, proba > 0.5), log_loss(y_test, proba)))
        cells = " | ".join(with_error(values) for values in zip(*scores, strict=True))
        private = hasattr(model, "plan_")
        steps = f"{model.n_iter_:,}" if private else ""
        temperature = f"{model.temperature_:.1f}" if private else ""
        print(
            f"| {name} | {cells} | {steps} | {temperature} | {np.median(seconds):.2f} |", flush=True
        )
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", help="UCI Adult's training part, with a header line")
    parser.add_argument("--seeds", type=int, default=5, help="seeds for split and sampler")
    arguments = parser.parse_args()
    allow_seeds()
    for constant in (True, False):
        X, y = load_adult(arguments.path, constant)
        if constant:  # Compile before anything is timed.
            DPBayesianLogisticRegression(data_norm=1.0, random_state=0).fit(X[:1000], y[:1000])
        compare(X, y, constant, arguments.seeds)


if __name__ == "__main__":
    main()
