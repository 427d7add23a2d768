"""Zhang and Zhang (2023), DP-Fast MH: private, exact and fast at (0.05, 1e-5) for each iteration.

    python -m benchmarks.papers.zhang_zhang_2023 [--mnist mnist.npz] [--quick] [--seeds 3] \
        [--folder docs/results]

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

Written for each, as medians over seeds and with the range of results: which steps read a batch, how many
draw noise, acceptance, accuracy or the symmetric divergence of draws, and the delta that a step on the table
without noise needs, whatever its epsilon: one table may accept for certain what its neighbour rejects with
probability 1 - exp(-Delta) (docs/privacy_for_free.rst). The mean is written; 1e-5 is claimed.

Figure 3c varies the batch's size. Here this is the bound K: with a larger one more steps read a batch, and
each draws more noise. So do all chains, from a K at which no step reads a batch to one at which all do.
"""

import math
import warnings

import numpy as np
from numba import njit

from benchmarks.metropolis import mnist
from benchmarks.papers.results import PAPERS, conclude, figures, parser
from examples import two_modes
from skdpbayes import DPBayesianLogisticRegression

PAPER = PAPERS[5]
EPSILON, DELTA, LAMBDA = 0.05, 1e-5, 10.0
# Bounds K on the size of a batch, of which one is the public code's.
MODES_BOUND, MODES_BOUNDS = 60.0, (20.0, 40.0, 60.0, 75.0, 90.0, 150.0)
DIGITS_BOUND, DIGITS_BOUNDS = 225.0, (225.0, 250.0, 350.0)
HEADS = (
    "task | Delta | noise | K | steps | on batches | with noise | accepted | records a step | result | least "
    "| most | delta without noise"
)
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
def log_ratio(loglik, X, y, counts, theta, new, c, cumulated, distance, lam, temperature, batch):
    """Return the log ratio of TunaMH on a batch, or that of the whole table: rows count so many times."""
    total = 0.0
    if not batch:
        for i in np.flatnonzero(counts):
            total += counts[i] * (loglik(X[i], y[i], new) - loglik(X[i], y[i], theta))
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
def chain(loglik, X, y, counts, c, start, settings, kind, inverted, half_width, precision, seed):
    """Return draws, accepted, read on batches, steps with noise, records a step, the delta of others."""
    n_steps, step, lam, most, temperature = settings
    np.random.seed(seed)  # noqa: NPY002 (numba's own)
    theta, cumulated = start.copy(), np.cumsum(c)
    scale = cumulated[-1] / (most * c.max())
    on_batch = np.sqrt(2 * np.log(1.25 / (DELTA * scale / 2))) / (EPSILON * scale / 6)
    on_table = np.sqrt(2 * np.log(1.25 / DELTA)) / EPSILON
    draws = np.empty((int(n_steps), theta.size))
    accepted, batches, noisy, records, without, needed = 0, 0, 0, 0.0, 0, 0.0
    for t in range(int(n_steps)):
        new = theta + step * np.random.standard_normal(theta.size)  # noqa: NPY002 (numba's own)
        distance = np.sqrt(np.sum((new - theta) ** 2))
        reach = distance * cumulated[-1]
        batch = lam + reach < most
        batches += batch
        records += lam + reach if batch else len(X)
        ratio = log_ratio(
            loglik, X, y, counts, theta, new, c, cumulated, distance, lam, temperature, batch
        )
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
    shares = accepted / n_steps, batches / n_steps, noisy / n_steps, records / n_steps
    return draws, shares, needed / max(without, 1)


def summary(table, name, kind, bound, results, judged):
    """Write what was found, and return the medians of shares and of what chains are judged by."""
    shares = np.median([result[1] for result in results], axis=0)
    needed = np.median([result[2] for result in results])
    accepted, batches, noisy, records = shares
    judged = [float(f(judged)) for f in (np.median, min, max)]
    cells = [f"{value:.3f}" for value in (batches, noisy, accepted)]
    table.add(
        *name,
        KINDS[kind],
        f"{bound:g}",
        len(results[0][0]),
        *cells,
        round(records),
        *(f"{value:.3f}" for value in judged),
        f"{needed:.2g}",
    )
    return shares, judged[0], needed


def two_mode_chains(table, bounds, n_steps, seeds):
    """Write divergences of draws from a mixture; return summaries by kind and bound."""
    target = two_modes.make_target()
    # Few values, so that a pass over the table is one over these; in order, each counts where it is first.
    target = target._replace(values=np.sort(np.round(target.values, 2)))
    counts = np.zeros(len(target.values))
    _, first, times = np.unique(target.values, return_index=True, return_counts=True)
    counts[first] = times
    posterior = two_modes.gridded_posterior(target, 500.0)
    size = np.abs(target.values)
    # Of each record's own, and private, norm, as in the paper.
    c = np.hypot(2 * size + 9, size + 6) / 2 / 500
    data, found = (target.values[:, None], np.zeros(len(c)), counts, c, np.zeros(2)), {}
    options = False, 3.0, two_modes.PRIOR_PRECISION
    for kind, bound in [(PUBLISHED, bound) for bound in bounds] + [
        (GAUSSIAN, MODES_BOUND),
        (NONE, MODES_BOUND),
    ]:
        if kind and not found[PUBLISHED, MODES_BOUND][0][2]:  # Then all three are the same chain.
            continue
        settings = (float(n_steps), 0.06, LAMBDA, bound, 500.0)
        results = [chain(mixture_loglik, *data, settings, kind, *options, seed) for seed in seeds]
        thinned = [result[0][:: max(1, n_steps // two_modes.N_DRAWS)] for result in results]
        divergences = [two_modes.symmetric_kl(draws, posterior) for draws in thinned]
        name = "two modes", "as in the paper"
        found[kind, bound] = summary(table, name, kind, bound, results, divergences)
    return found


def digits(table, path, bounds, n_steps, seeds):
    """Write accuracies on 7 against 9, of the mean of the last tenth of the states; return summaries."""
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

    data = rows["train"], y["train"], np.ones(len(c)), c, start
    found, chains = {"start": accuracy(start)}, [(PUBLISHED, True, bound) for bound in bounds]
    chains += [(GAUSSIAN, False, DIGITS_BOUND), (GAUSSIAN, False, bounds[-1])]
    chains += [(NONE, False, DIGITS_BOUND)]
    for kind, inverted, bound in chains:
        settings = (float(n_steps), 4.3e-4, LAMBDA, bound, 1.0)
        options = settings, kind, inverted, np.inf, np.zeros(50)
        results = [chain(logistic_loglik, *data, *options, seed) for seed in seeds]
        last = [accuracy(result[0][-n_steps // 10 :].mean(axis=0)) for result in results]
        name = "7 against 9", "as in the code" if inverted else "as in the paper"
        found[kind, inverted, bound] = summary(table, name, kind, bound, results, last)
    return found


def with_a_total(folder, path, seeds):
    """Write what the package's repair reaches at a total of epsilon 1, and the default beside it."""
    X, y, X_test, y_test = mnist.load(path)
    table, found = (
        figures(folder, "digits_total", "sampler | epsilon | accuracy | least | most"),
        {},
    )
    for sampler in ("dp_fast_mh", "auto"):
        clf = DPBayesianLogisticRegression(
            1.0, DELTA, sampler=sampler, data_norm=1.0, classes=[0, 1]
        )
        scores = [clf.set_params(random_state=s).fit(X, y).score(X_test, y_test) for s in seeds]
        found[sampler] = np.median(scores)
        table.add(
            sampler,
            f"{clf.spent_epsilon_:.2f}",
            *(f"{f(scores):.3f}" for f in (np.median, min, max)),
        )
    return found


def main():
    """Write the tables and the verdict."""
    arguments = parser(__doc__)
    arguments.add_argument("--mnist", metavar="PATH", help="X_train, y_train, X_test, y_test")
    arguments.add_argument("--quick", action="store_true", help="a tenth of the iterations")
    arguments.add_argument("--seeds", type=int, default=1, help="how many chains of each kind")
    arguments = arguments.parse_args()
    seeds = range(arguments.seeds)
    warnings.simplefilter("ignore", UserWarning)
    shorter = 10 if arguments.quick else 1
    table = figures(arguments.folder, "dp_fast_mh", HEADS)
    modes = two_mode_chains(table, MODES_BOUNDS, 20_000 // shorter, seeds)
    shares, divergence, needed = modes[PUBLISHED, MODES_BOUND]
    lines = [
        (
            "DP-Fast MH is (0.05, 1e-5)-private in each iteration, exact and fast",
            f"on two modes {shares[2]:.0%} of the steps draw noise (divergence {divergence:.3f}), and a "
            f"step on the table needs a delta of {needed:.4f}",
            "contradicted",
        )
    ]
    if arguments.mnist:
        found = digits(table, arguments.mnist, DIGITS_BOUNDS, 40_000 // shorter, seeds)
        with_a_total(arguments.folder, arguments.mnist, seeds)
        accurate = [found[PUBLISHED, True, bound][1] for bound in DIGITS_BOUNDS]
        right = [found[GAUSSIAN, False, bound][1] for bound in (DIGITS_BOUND, DIGITS_BOUNDS[-1])]
        lines.append(
            (
                "accuracy on 7 against 9 is that without privacy, whatever the batch's size (Figure 3c)",
                f"{min(accurate):.3f} to {max(accurate):.3f} with the sensitivity of the public code; "
                f"{min(right):.3f} to {max(right):.3f} with the paper's "
                f"and Gaussian noise ({found['start']:.3f} before the first step)",
                "contradicted",
            )
        )
    conclude(arguments.folder, PAPER, *lines)


if __name__ == "__main__":
    main()
