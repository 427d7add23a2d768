"""Accuracy and log loss on UCI Adult against epsilon, with every option at its default.

    python benchmarks/adult.py adult.csv

The file is UCI's training part with a header line: age, workclass, fnlwgt, education,
education-num, marital-status, occupation, relationship, race, sex, capital-gain, capital-loss,
hours-per-week, native-country, income-per-year; 32,561 rows. '?' is a category of its own and
nothing is dropped.

Numbers go to [-1, 1] by public bounds (capital gains and losses to [0, 1] on a log scale),
categories to indicators, `education` is dropped (education-num says the same), and rows are scaled
to norm 1. Each row is scaled by itself alone, so this spends nothing.

Table 1: a constant column is appended before the scaling (93 columns), no other intercept.
Table 2: no constant column (92 columns), the estimator's own intercept as it is by default.
"""

import argparse
import time
import warnings
from functools import partial

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split

from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.linear_model import DPBayesianLogisticRegression
from skdpbayes.samplers import OPS, SGHMC, Auto

DELTA = 1e-5
EPSILONS = (3.0, 1.0, 0.3, 0.1)
# What is released: a path from zero, one posterior sample alone, a path from such a sample.
RELEASES = {"": Auto(), "one draw, ": OPS(), "path from a draw, ": SGHMC(init="ops")}
BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (1e4, 1.5e6),
    "education-num": (1, 16),
    "hours-per-week": (1, 99),
}
LARGEST_ON_LOG_SCALE = {"capital-gain": 1e5, "capital-loss": 5e3}
# The categories are those of the published description of the data, which the file has in full.
CATEGORIES = [
    "workclass",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
]


def load(path, constant):
    """Return (X, y), with rows of norm 1."""
    table = pd.read_csv(path, skipinitialspace=True, keep_default_na=False)
    columns = []
    for name, (low, high) in BOUNDS.items():
        columns.append(np.clip(2 * (table[name] - low) / (high - low) - 1, -1, 1))
    for name, largest in LARGEST_ON_LOG_SCALE.items():
        columns.append(np.clip(np.log1p(table[name]) / np.log1p(largest), 0, 1))
    columns.append(pd.get_dummies(table[CATEGORIES], dtype=float))
    if constant:
        columns.append(np.ones(len(table)))
    X = np.column_stack(columns)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, table["income-per-year"].str.startswith(">50K").to_numpy(dtype=int)


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
    print("| | accuracy | log loss | steps | temperature | seconds |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
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
        scores = np.array(scores)
        means = scores.mean(axis=0)
        spread = scores.std(axis=0, ddof=1) if n_seeds > 1 else np.full(2, np.nan)
        errors = spread / np.sqrt(n_seeds)
        private = hasattr(model, "plan_")
        steps = f"{model.n_iter_:,}" if private else ""
        temperature = f"{model.temperature_:.1f}" if private else ""
        print(
            f"| {name} | {means[0]:.4f} +- {errors[0]:.4f} | {means[1]:.4f} +- {errors[1]:.4f} "
            f"| {steps} | {temperature} | {np.median(seconds):.2f} |",
            flush=True,
        )
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("path", help="UCI Adult's training part, with a header line")
    parser.add_argument("--seeds", type=int, default=5, help="seeds for split and sampler")
    arguments = parser.parse_args()
    # Seeds make a benchmark repeatable; a release must leave random_state=None.
    warnings.filterwarnings("ignore", "A seeded random_state", PrivacyWarning)
    for constant in (True, False):
        X, y = load(arguments.path, constant)
        if constant:  # Compile before anything is timed.
            DPBayesianLogisticRegression(data_norm=1.0, random_state=0).fit(X[:1000], y[:1000])
        compare(X, y, constant, arguments.seeds)


if __name__ == "__main__":
    main()
