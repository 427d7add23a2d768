"""Boosted trees whose splits are random, so that only sums in leaves are paid for.

    leaf <- - eta (sum g + noise) / (sum h + noise + lambda),    one tree after the other

after S. Maddock, G. Cormode, T. Wang, C. Maple and S. Jha, "Federated boosted decision trees with
differential privacy", CCS 2022: "totally random" trees with Newton's updates, which their
comparison favours; depth 4 and 200 trees of what it tries, and their code's eta = 0.3, lambda = 1
and values of leaves within 2. Thresholds are 31 between the bounds of a column.

Neighbours add or remove a record: it is in one leaf of each tree, with a gradient g and a second
derivative h. With probabilities p and two classes, |g| <= 1 and h <= 1 / 4; with several, |g|^2 <=
2 and |h|^2 <= 4 / 27, since sum p^2 (1 - p)^2 <= max p (1 - p)^2; responses are scaled to [-1, 1],
their residuals clipped to it, and h = 1. T trees are one Gaussian mechanism with sqrt(T) times the
norm of (g, h).
"""

import math

import numpy as np
from scipy.special import expit, softmax

N_BINS = 32
RATE, RIDGE, LARGEST_LEAF = 0.3, 1.0, 2.0


def leaves(lower, upper, depth, rng):
    """Return a function from rows to the numbers of their leaves, of a random tree."""
    n_nodes, d = 2**depth - 1, len(lower)
    columns = rng.integers(d, size=n_nodes)
    shares = rng.integers(1, N_BINS, size=n_nodes) / N_BINS
    thresholds = lower[columns] + shares * (upper - lower)[columns]

    def place(rows):
        nodes, numbers = np.zeros(len(rows), dtype=int), np.arange(len(rows))
        for _ in range(depth):
            nodes = 2 * nodes + 1 + (rows[numbers, columns[nodes]] > thresholds[nodes])
        return nodes - n_nodes

    return place


def boosted(arrays, derivatives, n_outputs, length, seed, options):
    """Return scores of the test rows, of shape (n_rows, n_outputs).

    ``derivatives`` takes scores and returns (g, h), which have a norm of at most ``length``.
    """
    rng, n_trees, depth = np.random.default_rng(seed), options["n_trees"], options["depth"]
    deviation = deviation_of(n_trees, length, options["mu"])
    X, X_test = arrays["X"], arrays["X_test"]
    scores, found = (np.zeros((len(rows), n_outputs)) for rows in (X, X_test))
    for _ in range(n_trees):
        place = leaves(arrays["lower"], arrays["upper"], depth, rng)
        at, sums = place(X), []
        for derivative in derivatives(scores):
            of_leaves = [np.bincount(at, column, 2**depth) for column in derivative.T]
            sums.append(
                np.transpose(of_leaves) + deviation * rng.normal(size=(2**depth, n_outputs))
            )
        first, second = sums
        values = -first / (np.maximum(second, 0.0) + RIDGE)
        values = RATE * np.clip(values, -LARGEST_LEAF, LARGEST_LEAF)
        scores += values[at]
        found += values[place(X_test)]
    return found


def deviation_of(n_trees, length, mu):
    """Return the noise of sums in leaves, to which a record adds vectors of this length in each tree."""
    return math.sqrt(n_trees) * length / mu


def linear(arrays, seed, options):
    """Return predictions of the test rows."""
    bound = float(arrays["bound"])
    y = arrays["y"][:, None] / bound

    def derivatives(scores):
        return np.clip(scores - y, -1.0, 1.0), np.ones_like(y)

    found = boosted(arrays, derivatives, 1, math.sqrt(2.0), seed, options)
    return {"predictions": bound * found[:, 0]}


def logistic(arrays, seed, options):
    """Return probabilities of the test rows."""
    n_classes = int(arrays["n_classes"])
    if n_classes == 2:

        def derivatives(scores):
            chances = expit(scores)
            return chances - arrays["y"][:, None], chances * (1.0 - chances)

        logits = boosted(arrays, derivatives, 1, math.hypot(1.0, 0.25), seed, options)
        chances = expit(logits)
        return {"probabilities": np.column_stack([1.0 - chances, chances])}
    labels = np.eye(n_classes)[arrays["y"]]

    def derivatives(scores):
        chances = softmax(scores, axis=1)
        return chances - labels, chances * (1.0 - chances)

    logits = boosted(arrays, derivatives, n_classes, math.sqrt(2.0 + 4.0 / 27.0), seed, options)
    return {"probabilities": softmax(logits, axis=1)}
