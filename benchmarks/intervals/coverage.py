"""How often intervals cover, and how wide they are, on tables given coefficients from the prior.

    python -m benchmarks.intervals.coverage [--repetitions 40] [--samplers noise_aware sgfs] [--classes 3]

"Logistic regression" of docs/benchmarks_intervals.rst; `benchmarks.refresh` has the commands.

Designs, all with rows of norm 1 at most, which is also ``data_norm``:

- ball: uniform in the unit ball;
- decaying: normal columns with deviations 1/j, rows cut at the norm bound;
- sparse: 0/1 columns with shares of 5 to 50%, and a column of ones;
- lognormal: columns exp(N(0, 1)), not centred, rows cut at the norm bound;
- onehot: categories of five to ten levels of unequal shares, a column for each level.

Coefficients have prior deviation 3, and fits know it. With three classes
(``--classes 3``) what is looked at are the contrasts that labels tell. Printed are the shares of 90% and of
50% intervals, between quantiles of the draws, that cover; the mean width over that of the prior's, and over
that of an oracle's, who knows the curvature at the true coefficients and has the same noise on one
gradient; and the mean rank of the coefficients among draws with the chi-square probability that ranks in
ten bins are uniform (simulation-based calibration; coefficients of one table count as independent, which
they nearly are).
"""

import argparse
import time
from itertools import product

import numpy as np
from scipy.special import softmax
from scipy.stats import chisquare, norm

from benchmarks.common import ResultsTable, allow_seeds
from skdpbayes import DPBayesianLogisticRegression
from skdpbayes.models.families import classifier
from skdpbayes.models.sums import slope_matrix
from skdpbayes.samplers import Auto

PRIOR_SCALE = 3.0
SIZES = ((2_000, 5), (5_000, 10), (20_000, 10), (20_000, 40), (100_000, 100))
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)


def cut(rows):
    """Return rows with a norm of 1 at most."""
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))


def ball(rng, n, d):
    """Uniform in the unit ball."""
    rows = rng.normal(size=(n, d))
    return rows * (rng.random(n) ** (1 / d) / np.linalg.norm(rows, axis=1))[:, None]


def decaying(rng, n, d):
    """Columns with deviations 1/j."""
    deviations = 1.0 / np.arange(1, d + 1)
    return cut(rng.normal(size=(n, d)) * deviations / (1.3 * np.linalg.norm(deviations)))


def sparse(rng, n, d):
    """0/1 columns, and a column of ones."""
    rows = (rng.random((n, d)) < rng.uniform(0.05, 0.5, size=d)).astype(float)
    rows[:, -1] = 1.0
    return rows / np.sqrt(d)


def lognormal(rng, n, d):
    """Skewed columns that are not centred."""
    return cut(np.exp(rng.normal(size=(n, d))) / (3.0 * np.sqrt(d)))


def onehot(rng, n, d):
    """A column for each level of some categories."""
    parts = np.array_split(np.arange(d), max(1, d // 8))
    rows = np.zeros((n, d))
    for part in parts:
        levels = rng.choice(part, size=n, p=rng.dirichlet(np.full(part.size, 3.0)))
        rows[np.arange(n), levels] = 1.0
    return rows / np.sqrt(len(parts))


DESIGNS = {design.__name__: design for design in (ball, decaying, sparse, lognormal, onehot)}


def oracle_width(clf, rows, theta, family):
    """Return the mean width of 90% intervals for who knows the curvature, with the noise of a fit."""
    given = clf.released_["posterior"].density
    transform = given.transform
    score_discrepancy, f = given.score_discrepancy, given.synthetic_design.change(given.start[None])
    onto, shares = score_discrepancy.parts
    away = np.sum((f - score_discrepancy.centre) ** 2 / score_discrepancy.squares)
    of_score = np.mean((f @ onto) ** 2 @ shares + away * score_discrepancy.change)
    moved = rows @ transform
    mean_square = max(1.0, float(given.synthetic_design.mean_squares.sum()))
    clipping = clf.plan_.row_clipping
    weights = np.minimum(1.0, clipping * mean_square / np.sum(moved**2, axis=1))
    probabilities = family.inverse_link((rows @ theta.T).T)
    curvature = slope_matrix(family, probabilities, weights, moved)
    noisy = curvature + (given.noise**2 + of_score) * np.eye(len(curvature))
    blocks = np.eye(family.n_blocks)
    prior = given.prior.precision(given.scales)
    precision = curvature @ np.linalg.solve(noisy, curvature) + prior
    back = np.kron(blocks, transform)
    return 2 * norm.ppf(0.95) * np.sqrt(np.diag(back @ np.linalg.inv(precision) @ back.T)).mean()


def ranks_and_widths(design, n, d, epsilon, sampler, repetitions, n_classes):
    """Return (ranks in [0, 1], widths over the prior's and over an oracle's, seconds a fit)."""
    ranks, widths, over_oracle, seconds = [], [], [], 0.0
    family = classifier(n_classes).identified
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        rows = design(rng, n, d)
        theta = PRIOR_SCALE * rng.normal(size=(family.n_blocks, d))
        shares = softmax(rows @ theta.T @ family.contrasts.T, axis=1)
        labels = (rng.random((n, 1)) > np.cumsum(shares, axis=1)[:, :-1]).sum(axis=1)
        clf = DPBayesianLogisticRegression(
            epsilon=epsilon,
            delta=1e-5,
            data_norm=1.0,
            prior_scale=PRIOR_SCALE,
            fit_intercept=False,
            sampler=sampler,
            classes=range(n_classes),
            random_state=seed,
        )
        begun = time.perf_counter()
        draws = clf.fit(rows, labels).posterior_samples_
        seconds += time.perf_counter() - begun
        draws = draws if n_classes == 2 else family.contrasts.T @ draws
        ranks.append((draws < theta).mean(axis=0).ravel())
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        width = (high - low).mean()
        widths.append(width / (2 * norm.ppf(0.95) * PRIOR_SCALE))
        if "posterior" in clf.released_:
            over_oracle.append(width / oracle_width(clf, rows, theta, family))
    ratio = np.mean(over_oracle) if over_oracle else np.nan
    return np.concatenate(ranks), np.mean(widths), ratio, seconds / repetitions


def main():
    """Print a row for every cell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument(
        "--samplers", nargs="+", default=["noise_aware"], help="or 'chain', the best of those"
    )
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--columns", nargs="+", type=int, help="only tables of so many columns")
    parser.add_argument("--smallest", type=int, default=0, help="rows, at least")
    parser.add_argument("--largest", type=int, default=100_000, help="rows, at most")
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--results", help="a CSV file")
    arguments = parser.parse_args()
    allow_seeds()
    heads = "design | rows | epsilon | sampler | 90% | 50% | width | over oracle | mean rank | p | seconds"
    results = ResultsTable(heads, arguments.results)
    sizes = [size for size in SIZES if arguments.smallest <= size[0] <= arguments.largest]
    if arguments.columns:
        sizes = [size for size in sizes if size[1] in arguments.columns]
    cells = product(arguments.designs, sizes, arguments.epsilons, arguments.samplers)
    for name, (n, d), epsilon, sampler in cells:
        chosen = Auto(batch_size=None) if sampler == "chain" else sampler
        options = chosen, arguments.repetitions, arguments.classes
        ranks, width, ratio, seconds = ranks_and_widths(DESIGNS[name], n, d, epsilon, *options)
        covered = [np.mean(np.abs(ranks - 0.5) < level / 2) for level in (0.9, 0.5)]
        p = chisquare(np.histogram(ranks, bins=10, range=(0, 1))[0]).pvalue
        numbers = (f"{share:.3f}" for share in (*covered, width, ratio, ranks.mean()))
        where = name, f"{n:,} x {d}", f"{epsilon:g}", sampler
        results.add(*where, *numbers, f"{p:.2g}", f"{seconds:.2f}")


if __name__ == "__main__":
    main()
