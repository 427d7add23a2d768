"""Wang, Fienberg and Smola (2015), Privacy for free: one posterior sample, and SGLD as it is.

    python -m benchmarks.papers.wang_fienberg_smola_2015 [--repetitions 20] [--rows 1000 20000]

Section "Wang, Fienberg and Smola (2015)" of docs/papers.rst.

Claimed:

- One exact sample of a posterior whose log-likelihoods are within [-B, B] is 4 B-private (OPS).
- SGLD is (epsilon, delta)-private over T passes with batches of tau, gradients bounded by L, and noise of
  variance

      max(eta_t, 128 N T L^2 / (tau epsilon^2) log(2.5 N T / (tau delta)) log(2 / delta) eta_t^2),

  so that it is "for free", with its own noise alone, where eta_t is small enough. (The constants are those in
  which the algorithm is known to us; a public replication has them, too.)
- Figure 2: with this noise the predictions of logistic regression on simulated rows approach those without
  privacy as epsilon grows. Neither its values nor its rows are to be had here; that replication, of 100 rows
  of three columns, reports that it did not see this.

1. The exact epsilon of an exact sample, on a grid: one parameter in [-r, r], x = 1, y changed from 1 to 0,
   beside k records with y = 1. The bound is B = log(1 + exp(r)), and log-likelihoods are all negative.
2. The exact epsilon of that noise, by privacy loss distributions.
3. Free SGLD of the longest constant step that the theorem allows, one pass over N rows of three columns from
   zero: the error of its mean in posterior deviations, the spread of its draws over the posterior's, accuracy
   and log loss on new rows. Beside it one sample by this package (`sampler="ops"`) and the mode.
"""

import argparse
import math
import warnings

import numpy as np
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from benchmarks.common import print_heads
from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import PrivacyWarning
from skdpbayes.privacy import PrivacyCost, SampledGaussian

DELTA = 1e-5


def exact_epsilon_of_a_sample(radius, n_others, n_points=200_001):
    """Return the largest log ratio of two posterior densities on a grid, the prior uniform."""
    theta = np.linspace(-radius, radius, n_points)
    log_densities = []
    for label in (1, -1):
        log_density = -n_others * np.logaddexp(0, -theta) - np.logaddexp(0, -label * theta)
        log_density -= np.logaddexp.reduce(log_density)
        log_densities.append(log_density)
    return np.abs(log_densities[0] - log_densities[1]).max()


def samples():
    """Print what exact samples cost; return the largest share of 4 B."""
    print_heads("r | 4 B | 2 B | exact, 0 other records | 10 | 1,000")
    shares = []
    for radius in (1.0, 3.0, 10.0):
        bound = 4 * np.logaddexp(0, radius)
        found = [exact_epsilon_of_a_sample(radius, k) for k in (0, 10, 1_000)]
        shares.append(max(found) / bound)
        cells = " | ".join(f"{value:.2f}" for value in (bound, bound / 2, *found))
        print(f"| {radius:g} | {cells} |")
    return max(shares)


def log_factor(n_rows, n_passes, batch):
    """Return the product of logarithms in the noise."""
    return math.log(2.5 * n_rows * n_passes / (batch * DELTA)) * math.log(2 / DELTA)


def exact_epsilon(epsilon, n_rows, n_passes, relation):
    """Return what all steps cost with the noise for an epsilon, batches of sqrt(N)."""
    batch = math.isqrt(n_rows)
    # The noise's deviation over eta N L / tau, by which one record moves the step.
    multiplier = (
        math.sqrt(128 * n_passes * batch / n_rows * log_factor(n_rows, n_passes, batch)) / epsilon
    )
    steps = SampledGaussian(multiplier, batch / n_rows, n_passes * n_rows // batch)
    return PrivacyCost(relation, sampled=(steps,)).epsilon(DELTA)


def noise():
    """Print what the noise of the theorem costs; return the largest for a promise of 1."""
    print()
    print_heads("rows | passes | promised | exact, add or remove | replace")
    found = []
    for n_rows, n_passes in ((1_000, 1), (10_000, 1), (10_000, 100), (1_000_000, 10)):
        for epsilon in (1.0, 10.0):
            cells = [
                exact_epsilon(epsilon, n_rows, n_passes, relation)
                for relation in ("add_or_remove_one", "replace_one")
            ]
            found.append(cells[1] / epsilon)
            print(
                f"| {n_rows:,} | {n_passes} | {epsilon:g} | {cells[0]:.4f} | {cells[1]:.4f} |",
                flush=True,
            )
    return max(found)


def table(rng, n_rows, theta):
    """Return rows of norm at most 1, and labels."""
    X = rng.uniform(-1, 1, (n_rows, 3)) / math.sqrt(3)
    return X, (rng.random(n_rows) < expit(X @ theta)).astype(int)


def free_chain(rng, X, y, step):
    """Return the states of one pass of SGLD on batches of sqrt(N), with its own noise and a N(0, 1) prior."""
    n_rows = len(X)
    batch = math.isqrt(n_rows)
    theta, states = np.zeros(3), []
    for _ in range(n_rows // batch):
        rows = rng.integers(n_rows, size=batch)
        gradient = theta + n_rows / batch * X[rows].T @ (expit(X[rows] @ theta) - y[rows])
        theta = theta - step * gradient + math.sqrt(step) * rng.standard_normal(3)
        states.append(theta)
    return np.array(states)


def compare(n_rows, epsilon, n_repetitions):
    """Return the means of what is printed, for free SGLD and for one sample by this package."""
    rng, found = np.random.default_rng(0), []
    batch = math.isqrt(n_rows)
    # The longest step at which max(...) above is eta itself, for L = 1.
    step = epsilon**2 * batch / (128 * n_rows * log_factor(n_rows, 1, batch))
    for seed in range(n_repetitions):
        X, y = table(rng, n_rows, truth := 2 * rng.standard_normal(3))
        X_test, y_test = table(rng, 5_000, truth)
        best = LogisticRegression(C=1.0, fit_intercept=False).fit(X, y).coef_[0]
        slope = expit(X @ best) * expit(-X @ best)
        deviation = np.sqrt(np.diag(np.linalg.inv(X.T @ (X * slope[:, None]) + np.eye(3))))
        states = free_chain(rng, X, y, step)
        draws = states[len(states) // 2 :]
        one = DPBayesianLogisticRegression(
            epsilon,
            DELTA,
            sampler="ops",
            data_norm=1.0,
            fit_intercept=False,
            classes=[0, 1],
            random_state=seed,
        ).fit(X, y)
        row = []
        for theta, spread in (
            (draws.mean(0), draws.std(0)),
            (one.coef_[0], np.full(3, np.nan)),
            (best, deviation),
        ):
            p = expit(X_test @ theta)
            row.append(
                (
                    np.sqrt((((theta - best) / deviation) ** 2).mean()),
                    (spread / deviation).mean(),
                    ((p > 0.5) == y_test).mean(),
                    log_loss(y_test, p),
                )
            )
        found.append(row)
    return np.mean(found, axis=0)


def figure(n_repetitions, sizes):
    """Print how chains do; return the least spread over the posterior's."""
    heads = "rows | epsilon | by | error in deviations | spread over the posterior's | accuracy | log loss"
    print()
    print_heads(heads)
    spreads = []
    for n_rows in sizes:
        for epsilon in (0.1, 1.0, 10.0):
            rows = compare(n_rows, epsilon, n_repetitions)
            spreads.append(rows[0][1])
            for name, row in zip(("free SGLD", "one sample", "not private"), rows, strict=True):
                cells = " | ".join(f"{value:.3g}" for value in row)
                print(f"| {n_rows:,} | {epsilon:g} | {name} | {cells} |", flush=True)
    return max(spreads)


def main():
    """Print the tables and the verdict."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--rows", type=int, nargs="+", default=(1_000, 20_000))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", PrivacyWarning)
    warnings.simplefilter("ignore", ConvergenceWarning)
    share = samples()
    cost = noise()
    spread = figure(arguments.repetitions, arguments.rows)
    print(
        f"VERDICT: the guarantees hold: a sample costs at most {share:.2f} times 4 B, the noise at most "
        f"{cost:.2f} times its promise. Where noise is free, draws are no sample of the posterior: they "
        f"spread at most {spread:.2g} times as far."
    )


if __name__ == "__main__":
    main()
