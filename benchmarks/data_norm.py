"""What ``data_norm="auto"`` gains and costs: held-out accuracy and log loss, against fixed norms.

    python benchmarks/data_norm.py [adult.csv]

Tables of dummies, whose rows are short, and of normal columns, for which the default is right. The third norm
is what one would state who knows how the rows were made.
"""

import sys
import warnings

import numpy as np
from sklearn.metrics import log_loss

from skdpbayes import DPBayesianLogisticRegression

SEEDS = range(4)


def dummies(rng, n, n_columns=6, levels=10):
    """Return rows of one-hot columns, and labels."""
    X = np.zeros((n, n_columns * levels))
    for j in range(n_columns):
        X[np.arange(n), levels * j + rng.integers(levels, size=n)] = 1.0
    return X, labels_of(rng, X, 1.0)


def normal(rng, n, d=10):
    """Return rows of independent normal columns, and labels."""
    X = rng.normal(size=(n, d))
    return X, labels_of(rng, X, 0.5)


def labels_of(rng, X, scale):
    """Return labels of a logistic model with random coefficients."""
    logits = X @ (scale * rng.normal(size=X.shape[1]))
    return (logits + rng.logistic(size=len(X)) > np.median(logits)).astype(int)


def compare(name, table, epsilons):
    """Print a line for each epsilon: accuracy and log loss by norm."""
    X, y, best = table
    train = len(y) * 3 // 4
    for epsilon in epsilons:
        line = f"{name:<16} n={train:<6} eps={epsilon:<4}"
        for norm in (None, "auto", best):
            scores = []
            for seed in SEEDS:
                order = np.random.default_rng(seed).permutation(len(y))
                fit, test = order[:train], order[train:]
                model = DPBayesianLogisticRegression(
                    epsilon, data_norm=norm, classes=[0, 1], random_state=seed
                ).fit(X[fit], y[fit])
                p = model.predict_proba(X[test])
                scores.append((np.mean(p.argmax(axis=1) == y[test]), log_loss(y[test], p)))
            accuracy, loss = np.mean(scores, axis=0)
            error = np.std(scores, axis=0)[1] / np.sqrt(len(scores))
            line += f" | {norm if isinstance(norm, str) else 'None' if norm is None else f'{norm:.3g}'}: "
            line += f"{accuracy:.3f} {loss:.4f} ({error:.4f})"
        print(line, flush=True)


def main():
    """Run all comparisons."""
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    if len(sys.argv) > 1:
        from adult import load

        X, y = load(sys.argv[1], constant=False)
        X /= X[:, 6:].max(axis=1, keepdims=True)  # Indicators are 0 and 1, as an encoder has them.
        compare("adult", (X, y, np.sqrt(9.0)), (0.3, 1.0, 3.0))
    for n in (700, 4000, 20_000):
        compare("dummies 6 x 10", (*dummies(rng, n), np.sqrt(6)), (0.3, 1.0, 3.0))
        compare("normal 10", (*normal(rng, n), np.sqrt(10) * 1.35), (0.3, 1.0, 3.0))


if __name__ == "__main__":
    main()
