"""Zhang and Zhang (2023), DP-Fast MH: private, exact and fast at (0.05, 1e-5) for each iteration.

    python -m benchmarks.papers.zhang_zhang_2023 [--mnist mnist.npz] [--quick] [--seeds 3]

Section "Zhang and Zhang (2023)" of docs/papers.rst.

Claimed: Metropolis-Hastings on minibatches (TunaMH, with noise where a step's sensitivity is not below
epsilon) that is differentially private, exact, and as accurate as without privacy, on a mixture with two
modes (20,000 iterations on 50,000 records, likelihood to the power of 1/500) and on MNIST's 7 against 9 with
50 principal components (40,000 iterations). The paper shows curves, whose values are not to be had here;
settings are those of the authors' public code. Chains differ in what they do where noise is asked for:

    as published    accept with probability min(1, exp(L + sd U - sd^2 / 2)), U uniform on [0, 1]
    Gaussian        N(-sd^2 / 2, sd^2) in its place, as the penalty method needs to be exact
    none            TunaMH itself

with sd = Delta sqrt(2 log(1.25 / delta')) / epsilon', epsilon' = epsilon sum_i c_i / (6 K max_i c_i), delta'
likewise over 2 K, and Delta = 2 log(1 + C / lambda), C = |theta' - theta| sum_i c_i. For MNIST the public
code has Delta = 2 log(1 + 1 / (lambda C)), which is smaller the longer the step. Batches are taken where
lambda + C < K, the table otherwise, with Delta = 2 |theta' - theta| max_i c_i.

Printed for each, as medians over seeds and with the range of results: which steps read a batch, how many
draw noise, acceptance, accuracy or the symmetric divergence of draws, and the delta that a step on the table
without noise needs, whatever its epsilon: one table may accept for certain what its neighbour rejects with
probability 1 - exp(-Delta) (docs/privacy_for_free.rst). The mean is printed; 1e-5 is claimed.
"""

import argparse
import math
import warnings

import numpy as np
from numba import njit

from benchmarks.common import print_heads
from benchmarks.metropolis import mnist
from examples import two_modes
from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.exceptions import PrivacyWarning

EPSILON, DELTA, LAMBDA = 0.05, 1e-5, 10.0
PUBLISHED, GAUSSIAN, NONE = range(3)
KINDS = ("as published", "Gaussian", "none")


@njit
def mixture_loglik(row, label, theta):
    """Return log p(x | theta) of the mixture, up to a constant."""
    first, second = row[0] - theta[0], row[0] - theta[0] - theta[1]
    return np.logaddexp(-(first**2) / 4, -(second**2) / 4)


@njit
def logistic_loglik(row, label, theta):
    """Return log p(y | x, theta)."""
    logit = (2 * label - 1) * np.dot(row, theta)
    return -np.log1p(np.exp(-logit)) if logit > 0 else logit - np.log1p(np.exp(logit))


@njit
def log_ratio(loglik, X, y, theta, new, c, cumulated, distance, lam, temperature, batch):
    """Return the log ratio of TunaMH on a batch, or that of the whole table."""
    total = 0.0
    if not batch:
        for i in range(len(X)):
            total += loglik(X[i], y[i], new) - loglik(X[i], y[i], theta)
        return total / temperature
    largest = distance * cumulated[-1]
    for _ in range(np.random.poisson(lam + largest)):  # noqa: NPY002 (numba's own)
        i = np.searchsorted(cumulated, cumulated[-1] * np.random.random())  # noqa: NPY002 (numba's own)
        i = min(i, len(X) - 1)
        bound = c[i] * distance
        moved = (loglik(X[i], y[i], new) - loglik(X[i], y[i], theta)) / temperature
        before, after = (bound - moved) / 2, (bound + moved) / 2
        if np.random.random() * (lam + largest) * bound < lam * bound + largest * before:  # noqa: NPY002 (numba's own)
            share = largest / (lam * bound)
            total += np.log1p(share * after) - np.log1p(share * before)
    return total


@njit
def chain(loglik, X, y, c, start, settings, kind, inverted, half_width, precision, seed):
    """Return draws, accepted, read on batches, steps with noise, and the delta that others need."""
    n_steps, step, lam, most, temperature = settings
    np.random.seed(seed)  # noqa: NPY002 (numba's own)
    theta, cumulated = start.copy(), np.cumsum(c)
    scale = cumulated[-1] / (most * c.max())
    on_batch = np.sqrt(2 * np.log(1.25 / (DELTA * scale / 2))) / (EPSILON * scale / 6)
    on_table = np.sqrt(2 * np.log(1.25 / DELTA)) / EPSILON
    draws = np.empty((int(n_steps), theta.size))
    accepted, batches, noisy, without, needed = 0, 0, 0, 0, 0.0
    for t in range(int(n_steps)):
        new = theta + step * np.random.standard_normal(theta.size)  # noqa: NPY002 (numba's own)
        distance = np.sqrt(np.sum((new - theta) ** 2))
        reach = distance * cumulated[-1]
        batch = lam + reach < most
        batches += batch
        ratio = log_ratio(loglik, X, y, theta, new, c, cumulated, distance, lam, temperature, batch)
        ratio += (precision * (theta**2 - new**2)).sum() / 2
        if batch:
            delta = 2 * np.log1p(1 / (lam * reach)) if inverted else 2 * np.log1p(reach / lam)
            free, deviation = delta < EPSILON * scale / 6, on_batch * delta
        else:
            delta = 2 * distance * c.max()
            free, deviation = delta < EPSILON, on_table * delta
            if free:
                without += 1
                needed -= np.expm1(-delta)
        if kind != 2 and not free:
            noisy += 1
            drawn = np.random.random() if kind == 0 else np.random.standard_normal()  # noqa: NPY002 (numba's own)
            ratio += deviation * drawn - deviation**2 / 2
        if np.abs(new).max() < half_width and np.log(np.random.random()) < ratio:  # noqa: NPY002 (numba's own)
            theta = new
            accepted += 1
        draws[t] = theta
    return draws, accepted / n_steps, batches / n_steps, noisy / n_steps, needed / max(without, 1)


def row(name, kind, results, judged):
    """Print what was found, and return the median of what it is judged by."""
    accepted, batches, noisy, needed = np.median([result[1:] for result in results], axis=0)
    middle = float(np.median(judged))
    print(
        f"| {name} | {KINDS[kind]} | {batches:.2f} | {noisy:.2f} | {accepted:.3f} "
        f"| {middle:.3f} ({min(judged):.3f} to {max(judged):.3f}) | {needed:.2g} |",
        flush=True,
    )
    return middle


def two_mode_chains(n_steps, seeds):
    """Print divergences of draws from a mixture; return medians by kind."""
    target = two_modes.make_target()
    posterior = two_modes.gridded_posterior(target, 500.0)
    size = np.abs(target.values)
    # Of each record's own, and private, norm, as in the paper.
    c = np.hypot(2 * size + 9, size + 6) / 2 / 500
    found, noisy = {}, 1.0
    for kind in (PUBLISHED, GAUSSIAN, NONE):
        if kind and not noisy:  # Then all three are the same chain.
            found[kind] = found[PUBLISHED]
            continue
        settings = (float(n_steps), 0.06, LAMBDA, 60.0, 500.0)
        prior = two_modes.PRIOR_PRECISION
        data = target.values[:, None], np.zeros(len(c)), c, np.zeros(2)
        results = [
            chain(mixture_loglik, *data, settings, kind, False, 3.0, prior, seed) for seed in seeds
        ]
        thinned = [result[0][:: max(1, n_steps // two_modes.N_DRAWS)] for result in results]
        divergences = [two_modes.symmetric_kl(draws, posterior) for draws in thinned]
        found[kind] = row("two modes, divergence", kind, results, divergences)
        noisy = max(result[3] for result in results)
    return found


def digits(path, n_steps, seeds):
    """Print accuracies on 7 against 9, of the mean of the last tenth of the states."""
    with np.load(path) as data:
        images = {part: data[f"X_{part}"].reshape(-1, 784) / 255.0 for part in ("train", "test")}
        labels = {part: data[f"y_{part}"] for part in ("train", "test")}
    wanted = {part: np.isin(labels[part], mnist.DIGITS) for part in images}
    rows = {part: images[part][wanted[part]] for part in images}
    y = {part: (labels[part][wanted[part]] == 9).astype(float) for part in images}
    # Of the private rows, as in the paper.
    mean = rows["train"].mean(axis=0)
    components = np.linalg.eigh(np.cov(rows["train"], rowvar=False))[1][:, -50:]
    rows = {part: np.ascontiguousarray((rows[part] - mean) @ components) for part in rows}
    c = np.linalg.norm(rows["train"], axis=1)
    start = np.random.default_rng(0).uniform(-1, 1, 50) / math.sqrt(50)

    def accuracy(theta):
        return float(((rows["test"] @ theta > 0) == y["test"]).mean())

    settings, data = (float(n_steps), 4.3e-4, LAMBDA, 225.0, 1.0), (rows["train"], y["train"], c)
    for kind, inverted in ((PUBLISHED, True), (PUBLISHED, False), (GAUSSIAN, False), (NONE, False)):
        options = settings, kind, inverted, np.inf, np.zeros(50)
        results = [chain(logistic_loglik, *data, start, *options, seed) for seed in seeds]
        last = [accuracy(result[0][-n_steps // 10 :].mean(axis=0)) for result in results]
        name = "7 against 9, accuracy" + (", Delta as in the code" if inverted else "")
        row(name, kind, results, last)
    print(f"Before the first step: {accuracy(start):.3f}")


def with_a_total(path, seeds):
    """Print what the package's repair reaches at a total of epsilon 1, and the default beside it."""
    X, y, X_test, y_test = mnist.load(path)
    for sampler in ("dp_fast_mh", "auto"):
        clf = DPBayesianLogisticRegression(
            1.0, DELTA, sampler=sampler, data_norm=1.0, classes=[0, 1]
        )
        scores = [clf.set_params(random_state=s).fit(X, y).score(X_test, y_test) for s in seeds]
        print(
            f"Total epsilon {clf.spent_epsilon_:.2f} by {sampler}: accuracy {np.median(scores):.3f} "
            f"({min(scores):.3f} to {max(scores):.3f})"
        )


def main():
    """Print the tables and the verdict."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mnist", metavar="PATH", help="X_train, y_train, X_test, y_test")
    parser.add_argument("--quick", action="store_true", help="a tenth of the iterations")
    parser.add_argument("--seeds", type=int, default=1, help="how many chains of each kind")
    arguments = parser.parse_args()
    seeds = range(arguments.seeds)
    warnings.simplefilter("ignore", PrivacyWarning)
    warnings.simplefilter("ignore", UserWarning)
    shorter = 10 if arguments.quick else 1
    print_heads(
        "setting | noise | on batches | with noise | accepted | result | delta without noise"
    )
    modes = two_mode_chains(20_000 // shorter, seeds)
    if arguments.mnist:
        digits(arguments.mnist, 40_000 // shorter, seeds)
        with_a_total(arguments.mnist, seeds)
    print(
        f"VERDICT: contradicted. On two modes (divergence {modes[PUBLISHED]:.2f}) no step draws noise; on 7 "
        "against 9, noise stops the chain but for a slip in the public code."
    )


if __name__ == "__main__":
    main()
