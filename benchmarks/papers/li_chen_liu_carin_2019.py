"""Li, Chen, Liu and Carin (2019), On connecting SG-MCMC and DP: epsilon 0.10 at delta = 1e-5 on MNIST.

    python -m benchmarks.papers.li_chen_liu_carin_2019 --mnist mnist.npz [--full] [--seeds 3] \
        [--folder docs/results]

Section "Li, Chen, Liu and Carin (2019)" of docs/papers.rst.

Claimed: SGLD with a usual decreasing step is private as it is, by the moments accountant: epsilon 0.10 with
n = 60,000, steps 0.1 t^(-1/3), gradients clipped to 4 and batches of q n, q = 1 / sqrt(n), at an accuracy
close to that without privacy. The paper's accuracies are not to be had here.

1. What the steps cost exactly (docs/theory/claims.rst), also of the first hundred.
2. What such a chain reaches: a network of 128 units on means of 4 x 4 pixels (`benchmarks/network/data.py`),

       theta <- theta - eta_t (mean over a Poisson batch of clipped gradients + theta / n) + N(0, eta_t / n),

   by averages over the second half of the path, and by its last state: medians over seeds, and their range.
"""

import math
from functools import cache

import numpy as np
from scipy.special import softmax

from benchmarks.network.data import load_digits
from benchmarks.papers.results import PAPERS, conclude, figures, parser
from skdpbayes.privacy import PrivacyCost, SampledGaussian

PAPER = PAPERS[1]
RELATIONS = ("add_or_remove_one", "replace_one")
CLAIMED, DELTA = 0.10, 1e-5
CLIP_NORM, FIRST_STEP, N_HIDDEN = 4.0, 0.1, 128
N_ROWS = 60_000
# Largest ratio of step numbers that are accounted for as one: 0.8% of noise.
GROUPED = 1.05


@cache
def spent(relation, n_steps):
    """Return what so many steps cost at most.

    A record moves a sum by L against a noise of deviation b / sqrt(n eta_t), for batches of b = sqrt(n): a
    noise multiplier of 1 / (L sqrt(eta_t)). Steps of nearly the same noise are accounted for at the least
    noise among them.
    """
    starts = [1]
    while starts[-1] <= n_steps:
        starts.append(max(starts[-1] + 1, math.ceil(GROUPED * starts[-1])))
    ends = [*starts[1:-1], n_steps + 1]
    parts = []
    for start, end in zip(starts[:-1], ends, strict=True):
        size = FIRST_STEP * start ** (-1 / 3)
        multiplier = 1.0 / (CLIP_NORM * math.sqrt(size))
        parts.append(SampledGaussian(multiplier, N_ROWS**-0.5, end - start))
    return PrivacyCost(relation, sampled=tuple(parts)).epsilon(DELTA)


def forward(weights, X):
    """Return hidden units with a constant one, and probabilities."""
    hidden = np.maximum(X @ weights[0], 0.0)
    hidden = np.column_stack([hidden, np.ones(len(X), np.float32)])
    return hidden, softmax(hidden @ weights[1], axis=1)


def clipped_mean(weights, X, y, expected):
    """Return the sum of clipped gradients over the expected size of the batch."""
    hidden, error = forward(weights, X)
    error[np.arange(len(y)), y] -= 1.0
    back = (error @ weights[1][:-1].T) * (hidden[:, :-1] > 0)
    # A record's gradients are outer products.
    squared = (hidden**2).sum(1) * (error**2).sum(1) + (X**2).sum(1) * (back**2).sum(1)
    scale = np.minimum(1.0, CLIP_NORM / np.sqrt(np.maximum(squared, 1e-12)))[:, None] / expected
    return X.T @ (back * scale), hidden.T @ (error * scale)


def chain(X, y, X_test, n_steps, seed=0):
    """Return {step: (average of probabilities since half of it, the last state's)}."""
    rng = np.random.default_rng(seed)
    n_rows = len(X)
    rate = 1 / math.sqrt(n_rows)
    shapes = (X.shape[1], N_HIDDEN), (N_HIDDEN + 1, 10)
    weights = [rng.standard_normal(s).astype(np.float32) / math.sqrt(s[0]) for s in shapes]
    found, kept = {}, []
    ends = {n for n in (1_000, 10_000, 60_000, n_steps) if n <= n_steps}
    for t in range(1, n_steps + 1):
        step = FIRST_STEP * t ** (-1 / 3)
        rows = np.flatnonzero(rng.random(n_rows) < rate)
        gradients = clipped_mean(weights, X[rows], y[rows], rate * n_rows)
        for weight, gradient in zip(weights, gradients, strict=True):
            noise = math.sqrt(step / n_rows) * rng.standard_normal(weight.shape, np.float32)
            weight += noise - np.float32(step) * (gradient + weight / np.float32(n_rows))
        if t % (n_steps // 100) == 0 or t in ends:
            kept.append((t, forward(weights, X_test)[1]))
        if t in ends:
            found[t] = np.mean([p for s, p in kept if s >= t / 2], axis=0), kept[-1][1]
    return found


def main():
    """Write the tables and the verdict."""
    arguments = parser(__doc__)
    arguments.add_argument("--mnist", metavar="PATH", help="X_train, y_train, X_test, y_test")
    arguments.add_argument("--steps", type=int, default=10_000)
    arguments.add_argument("--full", action="store_true", help="60,000 steps")
    arguments.add_argument("--seeds", type=int, default=1, help="how many chains")
    arguments = arguments.parse_args()
    n_steps = 60_000 if arguments.full else arguments.steps
    heads = "steps | epsilon: add or remove | replace"
    table = figures(arguments.folder, "sgld_steps", heads)
    costs = {
        t: [spent(relation, t) for relation in RELATIONS] for t in (100, 1_000, 10_000, n_steps)
    }
    for t, epsilons in costs.items():
        table.add(t, *(f"{epsilon:.3f}" for epsilon in epsilons))
    if arguments.mnist:
        X, y, X_test, y_test = load_digits(arguments.mnist, "patches")
        heads = "steps | draws | accuracy | least | most"
        table = figures(arguments.folder, "sgld_accuracy", heads)
        chains = [chain(X, y, X_test, n_steps, seed) for seed in range(arguments.seeds)]
        for t in chains[0]:
            kinds = zip(*(one[t] for one in chains), strict=True)
            for name, parts in zip(("averaged", "last state"), kinds, strict=True):
                found = [(part.argmax(1) == y_test).mean() for part in parts]
                table.add(t, name, *(f"{f(found):.3f}" for f in (np.median, min, max)))
    first, last = costs[100], costs[n_steps]
    conclude(
        arguments.folder,
        PAPER,
        (
            f"SGLD as it is, epsilon {CLAIMED:.2f} at delta = 1e-5 on MNIST",
            f"{first[0]:.3f} after 100 steps and {last[0]:.3f} after {n_steps:,}, adding or removing a row; "
            f"{first[1]:.3f} and {last[1]:.3f}, replacing one",
            "contradicted",
        ),
    )


if __name__ == "__main__":
    main()
