"""Private Bayes by backprop (2020): an epoch of disjoint batches costs one mechanism of sensitivity C.

    python -m benchmarks.papers.bayes_by_backprop_2020 [--repetitions 1000] [--folder docs/results]

Section "Bayes by backprop (2020)" of docs/papers.rst.

Claimed: gradients at a draw of the weights, clipped to C and summed over a batch with noise of deviation
sigma C; the batches of an epoch are disjoint, so that a record is in one of them, and an epoch costs one
mechanism of noise multiplier sigma. The tables are not to be had here, so that no accuracy is compared.

1. Replacing a record changes the sum of its batch by 2 C, not C: mu = 2 sqrt(epochs) / sigma. Both are
   computed. Where records are added or removed, the next batches change as well, unless every record's batch
   is drawn by itself.
2. An attack on that algorithm: mean-field logistic regression, batches in turns, one record whose label is
   changed. The score of a run is the log ratio of all noisy sums, and `skdpbayes.audit.audit_scores` bounds
   mu from below with 95% confidence.
"""

import math

import numpy as np
from scipy.special import expit

from benchmarks.papers.results import PAPERS, conclude, figures, parser
from skdpbayes.audit import audit_scores
from skdpbayes.privacy.conversions import gaussian_epsilon

PAPER = PAPERS[3]
DELTA = 1e-5
N_ROWS, BATCH_SIZE, N_EPOCHS, N_FEATURES = 64, 16, 4, 3
CLIP_NORM = 0.1


def clipped_sum(theta, X, y, bound):
    """Return the sum of a batch's gradients, each of norm at most ``bound``."""
    gradients = X * (expit(X @ theta) - y)[:, None]
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return (gradients * np.minimum(1.0, bound / np.maximum(norms, 1e-12))).sum(axis=0)


def attack(rng, X, y, rival, noise):
    """Return the log ratio of one run on labels ``y``, against ``rival``: of all its noisy sums."""
    mean, scale = np.zeros(N_FEATURES), np.full(N_FEATURES, 0.3)
    score = 0.0
    for _ in range(N_EPOCHS):
        order = rng.permutation(N_ROWS)  # Public.
        for rows in order.reshape(-1, BATCH_SIZE):
            drawn = rng.standard_normal(N_FEATURES)  # Public.
            theta = mean + scale * drawn
            true, other = (
                clipped_sum(theta, X[rows], labels[rows], CLIP_NORM) for labels in (y, rival)
            )
            released = true + noise * rng.standard_normal(N_FEATURES)
            score += ((released - other) ** 2 - (released - true) ** 2).sum() / (2 * noise**2)
            mean = mean - 0.05 * (released + mean)
            scale = np.clip(scale - 0.05 * (released * drawn + scale - 1 / scale), 0.1, 1.0)
    return score


def audited_mu(noise, n_repetitions, seed=0):
    """Return a lower bound on mu of the whole run; log ratios of Gaussian noise are normal."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (N_ROWS, N_FEATURES))
    # The record's gradients for its two labels are opposite, and both are longer than the bound.
    X[0] = 1 / math.sqrt(N_FEATURES)
    y = (rng.random(N_ROWS) < 0.5).astype(float)
    y[0] = 1.0
    changed = y.copy()
    changed[0] = 0.0
    ratios = [attack(rng, X, y, changed, noise * CLIP_NORM) for _ in range(n_repetitions)]
    others = [-attack(rng, X, changed, y, noise * CLIP_NORM) for _ in range(n_repetitions)]
    return audit_scores(ratios, others, delta=DELTA, claim="normal")


def main():
    """Write the table and the verdict."""
    arguments = parser(__doc__)
    arguments.add_argument("--repetitions", type=int, default=1_000, help="runs on each table")
    arguments = arguments.parse_args()
    heads = (
        "sigma | epochs | mu as claimed | mu for 2 C | mu audited at least "
        "| epsilon as claimed | epsilon for 2 C | epsilon audited at least"
    )
    table, ratios = figures(arguments.folder, "bayes_by_backprop", heads), []
    for noise in (8.0, 4.0, 2.0):
        claimed, true = (factor * math.sqrt(N_EPOCHS) / noise for factor in (1, 2))
        found = audited_mu(noise, arguments.repetitions)
        ratios.append(found.mu_lower_bound / claimed)
        epsilons = [gaussian_epsilon(mu, DELTA) for mu in (claimed, true)]
        cells = [claimed, true, found.mu_lower_bound, *epsilons, found.epsilon_lower_bound]
        table.add(f"{noise:g}", N_EPOCHS, *(f"{cell:.2f}" for cell in cells))
    conclude(
        arguments.folder,
        PAPER,
        (
            "an epoch of disjoint batches costs one mechanism of sensitivity C",
            f"an attack shows {min(ratios):.1f} to {max(ratios):.1f} times that mu",
            "holds for 2C",
        ),
    )


if __name__ == "__main__":
    main()
