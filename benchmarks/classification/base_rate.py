"""Is a small table, or a small budget, worth a fit? Log losses over that of the base rate.

    python -m benchmarks.classification.base_rate [--repetitions 12] [--designs held_out]

"Small tables, small budgets" of docs/benchmarks.rst, by ``--designs held_out cancer`` and ``--results
docs/results/base_rate.csv``.

A model that says nothing but the share of a class costs one noisy number, so that a fit should be no worse.
The default was made on ``made_on``: make_classification's clusters, a third of whose columns matter, over 4
and clipped to [-1, 1]. Designs of ``held_out`` are others: uniform columns that share a factor, numbers that
vary by a sixth of their bounds around -.6, and three factors' indicators. ``cancer`` is scikit-learn's table
with the bounds that its description prints, beside ten steps of clipped gradient descent (clip 1, momentum
.9, at two rates), the mean of ten such descents for each split.

Printed are mean log losses over that of the share in the rows of the fit, with standard errors, and the
largest; of ``cancer`` log losses. All are private under replace_one with delta 1e-5.
"""

import argparse
import math
import warnings
from itertools import product

import numpy as np
from scipy.special import expit, softmax
from sklearn.datasets import load_breast_cancer, make_classification
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from benchmarks.common import ResultsTable, allow_seeds, mean_with_error
from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.privacy import Budget

DELTA = 1e-5
EPSILONS = (0.03, 0.1, 0.3, 1.0)
OF_CANCER = (0.3, 1.0, 3.0)
N_TEST = 4_000
# Names, rows, columns, and the share of positive labels.
DESIGNS = {
    "made_on": (
        ("clusters", 1_500, 40, 0.16),
        ("clusters", 2_400, 12, 0.12),
        ("clusters", 5_000, 20, 0.05),
    ),
    "held_out": (
        ("one_factor", 1_200, 25, 0.2),
        ("narrow", 2_000, 15, 0.3),
        ("indicators", 4_000, 24, 0.08),
    ),
}
# Factors of a table of indicators.
N_FACTORS = 3
# Of gradient descent.
N_STEPS = 10
RATES = (1.0, 0.3)
MOMENTUM = 0.9
N_DESCENTS = 10


def a_table(kind, n, n_columns, share, seed):
    """Rows and labels; but of clusters, logits have a deviation of 1.2."""
    rng = np.random.default_rng(seed)
    if kind == "clusters":
        rows, labels = make_classification(
            n,
            n_columns,
            n_informative=n_columns // 3,
            weights=[1.0 - share],
            class_sep=0.6,
            random_state=seed,
        )
        return np.clip(rows / 4.0, -1.0, 1.0), labels
    if kind == "one_factor":
        rows = 0.6 * rng.uniform(-1, 1, (n, 1)) + 0.4 * rng.uniform(-1, 1, (n, n_columns))
    elif kind == "narrow":
        rows = np.clip(-0.6 + rng.normal(size=(n, n_columns)) / 6.0, -1.0, 1.0)
    else:
        eye = np.eye(n_columns // N_FACTORS)
        laws = (rng.dirichlet(np.ones(len(eye))) for _ in range(N_FACTORS))
        rows = np.hstack([eye[rng.choice(len(eye), n, p=law)] for law in laws])
    logits = rows @ rng.normal(size=n_columns)
    logits = 1.2 * (logits - logits.mean()) / logits.std()
    return rows, (rng.random(n) < expit(logits + math.log(share / (1.0 - share)))).astype(int)


def excess(kind, n, n_columns, share, epsilon, seed):
    """The log loss of a fit to ``n`` rows over that of the base rate, on others."""
    rows, labels = a_table(kind, n + N_TEST, n_columns, share, seed)
    n_squares = N_FACTORS if kind == "indicators" else n_columns
    model = DPBayesianLogisticRegression(
        epsilon, delta=DELTA, classes=[0, 1], data_norm=math.sqrt(n_squares), random_state=seed
    ).fit(rows[:n], labels[:n])
    base = log_loss(labels[n:], np.full(N_TEST, labels[:n].mean()))
    return log_loss(labels[n:], model.predict_proba(rows[n:])) - base


def descent(rows, labels, test_rows, epsilon, rate, rng):
    """Probabilities of a softmax regression by noisy gradients of all rows."""
    deviation = 2.0 * math.sqrt(N_STEPS) / Budget(epsilon, DELTA).mu
    ones, eye = np.ones((len(rows), 1)), np.eye(2)
    rows, test_rows = np.hstack([rows, ones]), np.c_[test_rows, np.ones(len(test_rows))]
    norms = np.linalg.norm(rows, axis=1)
    velocity = weights = np.zeros((rows.shape[1], 2))
    for _ in range(N_STEPS):
        residuals = softmax(rows @ weights, axis=1) - eye[labels]
        sizes = norms * np.linalg.norm(residuals, axis=1)
        gradient = rows.T @ (residuals / np.maximum(sizes, 1.0)[:, None])
        gradient += deviation * rng.normal(size=weights.shape)
        velocity = MOMENTUM * velocity - rate * gradient / len(rows)
        weights = weights + velocity
    return np.clip(softmax(test_rows @ weights, axis=1), 1e-6, 1.0 - 1e-6)


def line_of(name, epsilon, found):
    """Return a line of the table."""
    return (
        name,
        f"{epsilon:g}",
        *(f"{value:.3f}" for value in (*mean_with_error(found), max(found))),
    )


def load_cancer():
    """Return rows within [-1, 1] by the bounds that the table's description prints, and labels."""
    data = load_breast_cancer(as_frame=True)
    forms = {"mean": "mean {}", "standard error": "{} error", "worst": "worst {}"}
    bounds = {}
    for line in data.DESCR.splitlines():
        name, _, ends = line.strip().partition(":")
        for kind, form in forms.items():
            if name.endswith(f" ({kind})"):
                bounds[form.format(name.removesuffix(f" ({kind})"))] = np.array(ends.split(), float)
    low, high = np.transpose([bounds[name] for name in data.data.columns])
    rows = 2.0 * (data.data.to_numpy() - low) / (high - low) - 1.0
    return np.clip(rows, -1.0, 1.0), (data.target == 0).to_numpy(int)


def add_cancer(results, n_repetitions):
    """Add losses of fits and of descents to a table."""
    table = load_cancer()
    for epsilon in OF_CANCER:
        losses = {name: [] for name in ("default", *RATES)}
        for seed in range(n_repetitions):
            X, X_test, y, y_test = train_test_split(*table, test_size=0.25, random_state=seed)
            model = DPBayesianLogisticRegression(
                epsilon,
                delta=DELTA,
                classes=[0, 1],
                data_norm=math.sqrt(X.shape[1]),
                random_state=seed,
            ).fit(X, y)
            losses["default"].append(log_loss(y_test, model.predict_proba(X_test)))
            for rate in RATES:
                rng = np.random.default_rng(seed)
                of_noise = [
                    log_loss(y_test, descent(X, y, X_test, epsilon, rate, rng))
                    for _ in range(N_DESCENTS)
                ]
                losses[rate].append(np.mean(of_noise))
        for name, found in losses.items():
            title = name if name == "default" else f"descent, rate {name:g}"
            results.add(*line_of(f"cancer, {title}", epsilon, found))


def main():
    """Run the chosen designs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=12)
    parser.add_argument("--designs", nargs="+", default=["held_out"], choices=[*DESIGNS, "cancer"])
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    seeds = range(arguments.repetitions)
    results = ResultsTable("design | epsilon | log loss | error | largest", arguments.results)
    of_designs = [
        design for name in DESIGNS if name in arguments.designs for design in DESIGNS[name]
    ]
    for (kind, n, n_columns, share), epsilon in product(of_designs, EPSILONS):
        found = [excess(kind, n, n_columns, share, epsilon, seed) for seed in seeds]
        results.add(*line_of(f"{kind}, {n:,} x {n_columns}", epsilon, found))
    if "cancer" in arguments.designs:
        add_cancer(results, arguments.repetitions)


if __name__ == "__main__":
    allow_seeds()
    warnings.simplefilter("ignore")  # Fits tell that noise hides columns.
    main()
