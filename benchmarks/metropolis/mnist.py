"""Handwritten 7 against 9 on 50 principal components, against epsilon.

    python -m benchmarks.metropolis mnist mnist.npz [--results docs/results/walks_mnist.csv]

The task of the papers on fast Metropolis-Hastings: 12,214 images for training, 2,037 for testing. Rows are

    x = P (image / 255 - m) / r,     scaled down to norm 1 where they are longer,

with mean m, components P and r, the 95% quantile of the norms before division, all from the images of the
*other eight digits*, which stand for public data: no row that is protected has any part in them.

Logistic regression with an intercept: 51 parameters. A random walk moves 2 x 51 times less than SGLD at the
same cost, so not much is to be expected of it here. Printed are the accuracy of averaged probabilities on the
test images, with its standard error over seeds, and that of the same model without privacy.
"""

import time

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks.common import ResultsTable, mean_with_error
from skdpbayes.linear_model import DPBayesianLogisticRegression

SAMPLERS = ("dp_fast_mh", "dp_fast_mh_gaussian", "dp_mh", "penalty", "sghmc", "noise_aware")
EPSILONS = (0.3, 1.0, 3.0)
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


def reference(X, y, X_test, y_test):
    """Return the accuracy without privacy, with the same prior and the same clipped rows."""
    rows, test_rows = (
        part / np.maximum(np.linalg.norm(part, axis=1), 1.0)[:, None] for part in (X, X_test)
    )
    return LogisticRegression(C=6.25, max_iter=10_000).fit(rows, y).score(test_rows, y_test)


def main(arguments):
    """Print a line for every sampler and budget."""
    X, y, X_test, y_test = load(arguments.path)
    without = f"{reference(X, y, X_test, y_test):.4f}"
    heads = "sampler | epsilon | temperature | steps | accuracy | error | not private | seconds"
    results = ResultsTable(heads, arguments.results)
    for sampler in arguments.samplers:
        for epsilon in arguments.epsilons:
            scores, seconds = [], []
            for seed in range(arguments.seeds):
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
            accuracy = (f"{value:.4f}" for value in mean_with_error(scores))
            length = f"{model.temperature_:.3g}", model.n_iter_
            results.add(
                sampler, f"{epsilon:g}", *length, *accuracy, without, f"{np.median(seconds):.2f}"
            )
