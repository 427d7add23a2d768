"""How often intervals of mixtures cover, how wide they are, and how near densities are.

    python -m benchmarks.mixture.intervals [--repetitions 20] [--picture mixture_intervals.png]

Table of coverages in "Mixtures" of docs/benchmarks.rst.

Tables are drawn from mixtures that are drawn themselves: centres uniform in a cube and at least 6 deviations
apart, deviations of 0.7 to 1.3 (`data.py`), or "tight": five components with deviations of 0.1 in a
cube of side 2 and ten columns. Printed are the shares of 90% intervals of weights, means and variances (of
"full" those on the diagonal) that cover, components being matched by their means; the mean deviation of the
draws over that without noise; in how many tables all components were found; the median and largest gap of the
mean log density of other rows to that of the true density, per dimension; and the adjusted Rand index.
"""

import argparse
import itertools
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from benchmarks.common import COLORS, MARKERS, allow_seeds, print_heads
from benchmarks.mixture.data import N_HELD_OUT, SCENARIOS, Known, draw_tables
from skdpbayes.mixture import DPGaussianMixturePosterior

SIZES = (20_000, 100_000)
N_SCORED = 5_000
EPSILONS = (0.3, 1.0, 3.0, 10.0)
TIGHT = "tight: 10 dimensions, 5 of 0.1"
NAMES = ("2 dimensions, 3 apart", "10 dimensions, 5 apart", TIGHT)
PARTS = ("weights", "means", "variances")


def tight_tables(n_samples, seed):
    """Return (rows, held-out rows, their components, the mixture), of tight clusters in [-1, 1]^10."""
    generator = np.random.default_rng(seed)
    means = generator.uniform(-0.7, 0.7, (5, 10))
    known = Known(np.full(5, 0.2), means, np.full((5, 10), 0.1))
    X_test, labels = known.sample(N_HELD_OUT, generator)
    return known.sample(n_samples, generator)[0], X_test, labels, known


def fit(name, n_samples, epsilon, kind, seed):
    """Return (model, held-out rows, their components, the mixture)."""
    if name == TIGHT:
        X, X_test, labels, known = tight_tables(n_samples, seed)
        norm = None
    else:
        X, X_test, labels, known = draw_tables(name, n_samples, seed)
        norm = SCENARIOS[name].data_norm
    model = DPGaussianMixturePosterior(
        len(known.weights), epsilon=epsilon, covariance_type=kind, data_norm=norm, random_state=seed
    ).fit(X)
    return model, X_test[:N_SCORED], labels[:N_SCORED], known


def covers(model, known):
    """Return the shares of intervals of weights, means and variances that cover."""
    weights, means, variances = model.posterior_interval()
    if variances.ndim == 4:
        variances = np.diagonal(variances, axis1=1, axis2=2).swapaxes(1, 2)
    distances = ((model.means_[:, None] - known.means) ** 2).sum(axis=2)
    order = linear_sum_assignment(distances)[1]
    truth = (known.weights[order], known.means[order], known.deviations[order] ** 2)
    return [
        np.mean((part[..., 0] < true) & (true < part[..., 1]))
        for part, true in zip((weights, means, variances), truth, strict=True)
    ]


def cell(name, n_samples, epsilon, kind, repetitions):
    """Return (coverages, share without noise of the deviations, found, gaps, Rand indices, seconds)."""
    shares, ratios, found, gaps, rand, seconds = [], [], 0, [], [], 0.0
    for seed in range(repetitions):
        begun = time.perf_counter()
        model, X_test, labels, known = fit(name, n_samples, epsilon, kind, seed)
        seconds += time.perf_counter() - begun
        gaps.append((known.score(X_test) - model.score(X_test)) / X_test.shape[1])
        rand.append(adjusted_rand_score(labels, model.predict(X_test)))
        table = model.summary()
        distances = np.sqrt(((model.means_[:, None] - known.means) ** 2).sum(axis=2))
        apart = min(np.linalg.norm(a - b) for a, b in itertools.combinations(known.means, 2))
        if (distances.min(axis=0) < apart / 4).all():
            found += 1
            shares.append(covers(model, known))
            ratios.append((table["sd"] / table["sd_without_privacy"]).median())
    coverage = np.mean(shares, axis=0) if found else np.full(3, np.nan)
    ratio = np.mean(ratios) if found else np.nan
    return coverage, ratio, found, gaps, min(rand), seconds / repetitions


def draw_picture(found, path):
    """Plot coverage against epsilon, one panel for each family and size."""
    panels = list(dict.fromkeys(key[:2] for key in found))
    figure, axes = plt.subplots(
        1,
        len(panels),
        figsize=(2.9 * len(panels), 3.0),
        squeeze=False,
        sharey=True,
        layout="constrained",
    )
    for axis, panel in zip(axes[0], panels, strict=True):
        at = [(key[2], value) for key, value in found.items() if key[:2] == panel]
        for number, part in enumerate(PARTS):
            look = {"color": COLORS[number], "marker": MARKERS[number], "ms": 5, "label": part}
            axis.semilogx([e for e, _ in at], [value[number] for _, value in at], **look)
        axis.axhspan(0.85, 0.95, color="#dddddd", lw=0)
        axis.axhline(0.9, color="#555555", lw=0.7)
        axis.set(title=f"{panel[0]}\n{panel[1]:,} rows", xlabel="epsilon", ylim=(0.5, 1.0))
    axes[0][0].set_ylabel("coverage of 90% intervals")
    axes[0][0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    """Print a row for every cell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--names", nargs="+", choices=NAMES, default=list(NAMES))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--kind", choices=("diag", "full"), default="diag")
    parser.add_argument("--picture", help="where a plot goes to")
    arguments = parser.parse_args()
    allow_seeds()
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    heads = "table | rows | epsilon | weights | means | variances | width | found | gap | Rand | s"
    print_heads(heads)
    found = {}
    for name, n, epsilon in itertools.product(arguments.names, arguments.sizes, arguments.epsilons):
        coverage, ratio, n_found, gaps, rand, seconds = cell(
            name, n, epsilon, arguments.kind, arguments.repetitions
        )
        found[name, n, epsilon] = coverage
        shares = " | ".join(f"{share:.3f}" for share in coverage)
        gap = f"{np.median(gaps):.5f} ({max(gaps):.5f})"
        print(
            f"| {name} | {n:,} | {epsilon:g} | {shares} | {ratio:.2f} | {n_found} of "
            f"{arguments.repetitions} | {gap} | {rand:.3f} | {seconds:.1f} |",
            flush=True,
        )
    if arguments.picture:
        draw_picture(found, arguments.picture)


if __name__ == "__main__":
    main()
