"""Handwritten 7 against 9 on 50 principal components, against epsilon.

    python -m benchmarks.metropolis mnist mnist.npz --output mnist.png

Last table of "Random walks" of docs/benchmarks.rst.

The task of the papers on fast Metropolis-Hastings: 12,214 images for training, 2,037 for testing. Rows are

    x = P (image / 255 - m) / r,     scaled down to norm 1 where they are longer,

with mean m, components P and r, the 95% quantile of the norms before division, all from the images of the
*other eight digits*, which stand for public data: no row that is protected has any part in them.

Logistic regression with an intercept: 51 parameters. A random walk moves 2 x 51 times less than SGLD at the
same cost, so not much is to be expected of it here. Accuracy of averaged probabilities on the test images.
"""

import math
import time

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.common import plot_against_epsilon, print_heads
from skdpbayes.linear_model import DPBayesianLogisticRegression

SAMPLERS = ("dp_fast_mh", "dp_mh", "penalty", "dp_fast_mh_gaussian", "sghmc", "ops")
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, math.inf)
DELTA = 1e-5
DIGITS = (7, 9)
N_COMPONENTS = 50


def load(path):
    """Return (X_train, is 9, X_test, is 9), rows not yet clipped to norm 1."""
    with np.load(path) as data:
        images = {part: data[f"X_{part}"].reshape(-1, 784) / 255.0 for part in ("train", "test")}
        labels = {part: data[f"y_{part}"] for part in ("train", "test")}
    public = images["train"][~np.isin(labels["train"], DIGITS)]
    mean = public.mean(axis=0)
    components = np.linalg.eigh(np.cov(public, rowvar=False))[1][:, -N_COMPONENTS:]
    radius = np.quantile(np.linalg.norm((public - mean) @ components, axis=1), 0.95)
    parts = []
    for part in ("train", "test"):
        wanted = np.isin(labels[part], DIGITS)
        parts.append(np.ascontiguousarray((images[part][wanted] - mean) @ components / radius))
        parts.append((labels[part][wanted] == DIGITS[1]).astype(int))
    return parts


def references(X, y, X_test, y_test):
    """Return accuracies to compare with: {name: accuracy}."""
    clipped = [
        rows / np.maximum(np.linalg.norm(rows, axis=1), 1.0)[:, None] for rows in (X, X_test)
    ]
    model = LogisticRegression(C=6.25, max_iter=10_000).fit(clipped[0], y)
    return {
        "not private, same prior": model.score(clipped[1], y_test),
        "larger class": max(y_test.mean(), 1 - y_test.mean()),
    }


def compare(data, samplers, epsilons, n_seeds):
    """Print a row for every sampler and budget; return accuracies {sampler: {epsilon: list}}."""
    X, y, X_test, y_test = data
    heads = "spent | temperature | steps | acceptance planned | measured | accuracy | seconds"
    print_heads(f"sampler | epsilon | {heads}")
    results = {sampler: {} for sampler in samplers}
    for sampler in samplers:
        for epsilon in epsilons:
            scores, seconds, accepted = [], [], []
            for seed in range(n_seeds):
                model = DPBayesianLogisticRegression(
                    epsilon,
                    DELTA,
                    sampler=sampler,
                    data_norm=1.0,
                    classes=[0, 1],
                    random_state=seed,
                )
                start = time.perf_counter()
                model.fit(X, y)
                seconds.append(time.perf_counter() - start)
                scores.append(model.score(X_test, y_test))
                accepted.append(model.released_.get("acceptance_rate", math.nan))
            results[sampler][epsilon] = scores
            planned = getattr(model.plan_, "expected_acceptance", math.nan)
            spread = np.std(scores, ddof=n_seeds > 1)
            print(
                f"| {sampler} | {epsilon:g} | {model.spent_epsilon_:.4g} "
                f"| {model.temperature_:.3g} | {model.n_iter_:,} | {planned:.2f} "
                f"| {np.mean(accepted):.2f} | {np.mean(scores):.4f} +- {spread:.4f} "
                f"| {np.median(seconds):.2f} |",
                flush=True,
            )
    return results


def main(arguments):
    """Print the table and save the plot."""
    data = load(arguments.path)
    X, _, X_test, _ = data
    clipped = np.mean(np.linalg.norm(X, axis=1) > 1.0)
    print(f"{X.shape} for training, {X_test.shape} for testing, {clipped:.1%} of rows clipped.")
    levels = references(*data)
    print(", ".join(f"{name}: {level:.4f}" for name, level in levels.items()), end=".\n\n")
    epsilons = EPSILONS[1:3] if arguments.quick else EPSILONS
    results = compare(data, arguments.samplers, epsilons, arguments.seeds)
    plot_against_epsilon(results, levels, "accuracy (more is better)", arguments.output)
    print(f"\nplot: {arguments.output}")
