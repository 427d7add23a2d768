"""Private random search against fixed choices of the same total epsilon.

    python -m benchmarks.classification.selection [adult.csv] [--seeds 5] [--epsilons 0.3 1 3]

Table "A search within a budget" of docs/benchmarks.rst.

What is chosen is the norm to which rows are clipped, log-uniformly between 0.0001 and 100: on Adult (see
`benchmarks/classification/adult.py` for the file; rows have norm 1), or, without a file, on a made-up table
of 20,000 rows and 10 columns, in units in which rows have norms of about 0.01. Accuracy is that on a quarter
of the rows, which nothing else sees, without noise. The search keeps a quarter of the others for its scores.
"""

import argparse
import time
import warnings

import numpy as np
from scipy.special import expit
from scipy.stats import loguniform
from sklearn.model_selection import train_test_split

from benchmarks.common import load_adult
from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.model_selection import DPRandomizedSearchCV

DELTA = 1e-5
SMALLEST, LARGEST = 1e-4, 100.0
UNIT = 1.0 / 300.0


def made_up(n_samples=20_000, n_features=10):
    """Return (X, y)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_samples, n_features))
    return UNIT * X, (rng.random(n_samples) < expit(X @ rng.normal(size=n_features))).astype(int)


def fixed(norm, epsilon, seed):
    """Return an estimator that spends the whole budget on one choice."""
    return DPBayesianLogisticRegression(
        epsilon, DELTA, data_norm=norm, classes=[0, 1], random_state=seed
    )


def search(epsilon, seed, mean_candidates):
    """Return a search that spends it on the choice as well."""
    return DPRandomizedSearchCV(
        DPBayesianLogisticRegression(classes=[0, 1]),
        {"data_norm": loguniform(SMALLEST, LARGEST)},
        epsilon=epsilon,
        delta=DELTA,
        mean_candidates=mean_candidates,
        random_state=seed,
    )


def compare(X, y, good, options):
    """Print one line for each epsilon and model."""
    models = {
        "the search, 5 candidates": lambda e, s: search(e, s, 5.0),
        "the search, 15 candidates": lambda e, s: search(e, s, 15.0),
        f"fixed, {LARGEST:g}": lambda e, s: fixed(LARGEST, e, s),
        "the default": lambda e, s: fixed(None, e, s),
        f"fixed, {good:g} (known to be good)": lambda e, s: fixed(good, e, s),
    }
    for epsilon in options.epsilons:
        print(f"\nepsilon = {epsilon:g}")
        for name, make in models.items():
            accuracies, chosen, started = [], [], time.perf_counter()
            for seed in range(options.seeds):
                parts = train_test_split(X, y, test_size=0.25, random_state=seed)
                model = make(epsilon, seed).fit(parts[0], parts[2])
                accuracies.append(np.mean(model.predict(parts[1]) == parts[3]))
                chosen.append(getattr(model, "best_params_", {}).get("data_norm"))
            seconds = (time.perf_counter() - started) / options.seeds
            norms = ", ".join(f"{norm:.2g}" for norm in chosen if norm is not None)
            print(
                f"  {name:<32} {np.mean(accuracies):.4f} (worst {min(accuracies):.4f}), {seconds:.1f} s"
                + (f"; chose {norms}" if norms else ""),
                flush=True,
            )


def main():
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", nargs="?", help="UCI Adult's training part, with a header line")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y = load_adult(options.file) if options.file else made_up()
    compare(X, y, 1.0 if options.file else 3.0 * UNIT, options)


if __name__ == "__main__":
    main()
