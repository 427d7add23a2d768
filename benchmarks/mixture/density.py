"""Gaussian mixtures: density against scikit-learn's, and against the size of the table.

    python -m benchmarks.mixture.density reach --digits mnist.npz
    python -m benchmarks.mixture.density size --output size.png

First two tables of "Mixtures" of docs/benchmarks.rst.

Covariances are diagonal, delta is the default, neighbours replace one row, all options but ``data_norm`` are
defaults. A seed takes a mixture of its family (`data.py`), a table and 20,000 other rows: centres at
least 6 deviations apart and uniform in [-6, 6]^2 or [-4, 4]^10, deviations of 0.7 to 1.3 in each coordinate,
rows clipped to the public norm of 10.6 or 12.5. Overlapping centres are 2.5 apart. Digits are the 29,404
pictures of 5 to 9 in MNIST, by 3 x 3 frequencies of their cosine transform, scaled as the other digits would
have it and clipped to norm 5.

"Gap": by how much the mean log density of the other rows, divided by the dimension, is below that of the
density they are from; for digits, below that of ``GaussianMixture(n_init=10)``. "Right": a gap of at most
0.03 at epsilon 3, and of at most 0.1 below; at most 0.03 for scikit-learn's.
"""

import argparse
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from benchmarks.common import COLORS, MARKERS, allow_seeds, plain, print_heads
from benchmarks.mixture.data import (
    DIGITS,
    DIGITS_COMPONENTS,
    DIGITS_NORM,
    SCENARIOS,
    draw_tables,
    load_digits,
)
from skdpbayes.mixture import DPGaussianMixturePosterior

EPSILONS = (0.3, 1.0, 3.0)
N_SAMPLES = 100_000
SIZES = (3_000, 10_000, 30_000, 100_000, 300_000)
SIZE_SCENARIOS = ("2 dimensions, 3 apart", "10 dimensions, 5 apart")
RIGHT, RIGHT_BELOW = 0.03, 0.1


def right_within(epsilon):
    """Return the largest gap that counts as right."""
    return RIGHT if epsilon >= 3 else RIGHT_BELOW


def fit_private(X, n_components, data_norm, epsilon, seed):
    """Return (model, seconds)."""
    start = time.perf_counter()
    model = DPGaussianMixturePosterior(
        n_components, epsilon=epsilon, data_norm=data_norm, random_state=seed
    ).fit(X)
    return model, time.perf_counter() - start


def fit_public(X, n_components, seed, **options):
    """Return (scikit-learn's model, seconds)."""
    start = time.perf_counter()
    model = GaussianMixture(
        n_components, covariance_type="diag", max_iter=300, random_state=seed, **options
    ).fit(X)
    return model, time.perf_counter() - start


def warm_up():
    """Compile what is timed afterwards."""
    fit_private(np.random.default_rng(0).normal(size=(500, 2)), 2, 3.0, 1.0, 0)


class Rows:
    """Results of one family, a row of the table for each model."""

    def __init__(self, name):
        self.name, self.results = name, {}

    def add(self, model, gap, seconds, within):
        """Keep one seed's result."""
        self.results.setdefault((model, within), []).append((gap, seconds))

    def show(self):
        """Print a line for each model."""
        for (model, within), results in self.results.items():
            gaps, seconds = zip(*results, strict=True)
            right = sum(gap <= within for gap in gaps)
            print(
                f"| {self.name} | {model} | {np.median(gaps):.4f} | {max(gaps):.4f} "
                f"| {right} of {len(gaps)} | {np.median(seconds):.1f} |",
                flush=True,
            )


RANDOM_START = {"n_init": 1, "init_params": "random_from_data"}


def reach(arguments):
    """Print gaps of private and other fits."""
    n_samples = 20_000 if arguments.quick else N_SAMPLES
    n_seeds = min(arguments.seeds, 2) if arguments.quick else arguments.seeds
    print(f"{n_samples:,} rows, {n_seeds} seeds; gap in nats per row and dimension.\n")
    print_heads("table | model | gap, median | largest | right | seconds")
    for name, scenario in SCENARIOS.items():
        rows, k, d = Rows(name), scenario.n_components, scenario.n_features
        for seed in range(n_seeds):
            X, X_test, _, known = draw_tables(name, n_samples, seed)
            best = known.score(X_test)
            for epsilon in EPSILONS:
                model, seconds = fit_private(X, k, scenario.data_norm, epsilon, seed)
                gap = (best - model.score(X_test)) / d
                rows.add(f"epsilon = {epsilon:g}", gap, seconds, right_within(epsilon))
            for label, options in (("10 starts", {"n_init": 10}), ("random start", RANDOM_START)):
                model, seconds = fit_public(X, k, seed, **options)
                gap = (best - model.score(X_test)) / d
                rows.add(f"not private, {label}", gap, seconds, RIGHT)
        rows.show()
    if arguments.digits:
        reach_digits(arguments.digits, n_seeds)


def reach_digits(path, n_seeds):
    """The same for pictures of digits: all seeds have one table, and one best fit."""
    X, X_test = load_digits(path)
    d, k, rows = X.shape[1], DIGITS_COMPONENTS, Rows(DIGITS)
    model, seconds = fit_public(X, k, 0, n_init=10)
    best = model.score(X_test)
    one = (best - fit_public(X, 1, 0)[0].score(X_test)) / d
    for seed in range(n_seeds):
        for epsilon in EPSILONS:
            model, seconds = fit_private(X, k, DIGITS_NORM, epsilon, seed)
            gap = (best - model.score(X_test)) / d
            rows.add(f"epsilon = {epsilon:g}", gap, seconds, right_within(epsilon))
        model, seconds = fit_public(X, k, seed, **RANDOM_START)
        rows.add("not private, random start", (best - model.score(X_test)) / d, seconds, RIGHT)
    rows.show()
    print(f"\nDigits: {len(X):,} rows; a single component has a gap of {one:.4f}.")


def size(arguments):
    """Print and plot gaps against the number of rows."""
    sizes = SIZES[:3] if arguments.quick else SIZES
    results = {}
    print(f"{arguments.seeds} seeds; gap in nats per row and dimension, median (largest).\n")
    print_heads(f"table | epsilon | {' | '.join(f'{n:,}' for n in sizes)}")
    for name in SIZE_SCENARIOS:
        scenario = SCENARIOS[name]
        gaps = {(epsilon, n): [] for epsilon in EPSILONS for n in sizes}
        for seed in range(arguments.seeds):
            for n in sizes:
                X, X_test, _, known = draw_tables(name, n, seed)
                best = known.score(X_test)
                for epsilon in EPSILONS:
                    k = scenario.n_components
                    model, _ = fit_private(X, k, scenario.data_norm, epsilon, seed)
                    gap = (best - model.score(X_test)) / scenario.n_features
                    gaps[epsilon, n].append(gap)
        for epsilon in EPSILONS:
            found = [gaps[epsilon, n] for n in sizes]
            cells = " | ".join(f"{np.median(gap):.3f} ({max(gap):.3f})" for gap in found)
            print(f"| {name} | {epsilon:g} | {cells} |", flush=True)
            results[name, epsilon] = found
    plot_sizes(sizes, results, arguments.output)
    print(f"\nplot: {arguments.output}")


def plot_sizes(sizes, results, path):
    """Save medians over seeds, and all seeds."""
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.8), sharey=True, layout="constrained")
    for axis, name in zip(axes, SIZE_SCENARIOS, strict=True):
        for number, epsilon in enumerate(EPSILONS):
            gaps = results[name, epsilon]
            look = {"color": COLORS[number], "marker": MARKERS[number], "ms": 5}
            medians = [np.median(gap) for gap in gaps]
            axis.loglog(sizes, medians, label=f"epsilon = {epsilon:g}", **look)
            for n, gap in zip(sizes, gaps, strict=True):
                axis.plot([n] * len(gap), gap, ".", color=COLORS[number], ms=3, alpha=0.6)
        axis.set(title=name, xlabel="rows")
        axis.axhline(RIGHT, color="#555555", ls=":", lw=1)
        plain(axis)
    axes[0].set_ylabel("gap per row and dimension (nats)")
    axes[0].legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for run, n_seeds in ((reach, 20), (size, 3)):
        command = commands.add_parser(run.__name__, description=run.__doc__)
        command.set_defaults(run=run)
        command.add_argument("--seeds", type=int, default=n_seeds)
        command.add_argument("--quick", action="store_true", help="fewer and smaller runs")
        if run is reach:
            command.add_argument(
                "--digits", metavar="PATH", help="MNIST: X_train, X_test in a .npz"
            )
        if run is size:
            command.add_argument("--output", default="mixture_size.png", help="file of the plot")
    arguments = parser.parse_args()
    allow_seeds()
    # That there are too few rows is what is measured here.
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    warm_up()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
