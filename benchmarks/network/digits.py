"""Private Bayesian networks on handwritten digits and two other tables: accuracy and calibration.

    python -m benchmarks.network.digits accuracy --mnist mnist.npz [--quick]
    python -m benchmarks.network.digits calibration --mnist mnist.npz --output network_calibration.png
    python -m benchmarks.network.digits probabilities --mnist mnist.npz --adult adult.csv
        [--tables adult votes]

Tables of "Neural networks" of docs/benchmarks.rst.

60,000 rows for training, 10,000 for testing, by two transforms of `data.py`. One hidden layer of 128
units, `data_norm=1`, delta = 1e-5, all else at its default. Under "add_or_remove_one" 60,000 is the public
size. Figures are means over the seeds, +- standard deviation; an expected calibration error is

    sum over bins b of (n_b / n) |accuracy in b - mean confidence in b|

over 15 bins of equal width, the confidence being the largest probability. scikit-learn's network has its
defaults, stops early on a tenth of the rows, and takes rows of norm 4, as ours does inside.

`calibration` holds averages over all draws against the last draw alone, at epsilon 2.

`probabilities` takes two more tables, on which nobody is nearly always right, UCI Adult and the votes
of `benchmarks.common`, beside the linear model at the same budget. Seeds are for the splits of these two as
well. "patches, short" is "patches" with a data_norm of 3.25 times the rows' own: what the default is for 169
columns and rows of norm 4. The slope is that of a recalibration by the test rows,

    min over b of  -sum_i log softmax(b log p_i)_{y_i},

1 for honest probabilities, below for overconfident ones.
"""

import argparse
import copy
import itertools
import math
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

from benchmarks.common import (
    COLORS,
    MARKERS,
    allow_seeds,
    classification_scores,
    plain,
    print_heads,
    reliability,
)
from benchmarks.network.data import TABLES, TRANSFORMS, load_digits, load_table
from skdpbayes.linear_model import DPBayesianLogisticRegression
from skdpbayes.models.mlp import ROW_NORM
from skdpbayes.neural_network import DPBayesianMLPClassifier

HIDDEN = (128,)
DELTA = 1e-5
N_TRAIN, N_CLASSES = 60_000, 10
SAMPLERS = ("sghmc", "sgld", "sgnht", "bbb")
EPSILONS = (2.0, 8.0)
ALL_EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)  # Of the first sampler.
RELATIONS = ("replace_one", "add_or_remove_one")
LEAST_ROWS = 20  # Of a bin that is plotted.


# What is measured


def scores(probabilities, labels):
    """Return (accuracy, log loss, expected calibration error)."""
    found = classification_scores(probabilities, labels)
    return found["accuracy"], found["log loss"], found["calibration"]


def slope(probabilities, labels):
    """Return the slope of the best recalibration."""
    logs = np.log(np.maximum(probabilities, 1e-300))
    rows = np.arange(len(labels))

    def loss(factor):
        return -log_softmax(factor * logs, axis=1)[rows, labels].mean()

    return minimize_scalar(loss, bounds=(0.05, 5.0), method="bounded").x


def fit(data, sampler, epsilon, relation, seed, n_steps):
    """Return (model, seconds)."""
    model = DPBayesianMLPClassifier(
        HIDDEN,
        epsilon=epsilon,
        delta=DELTA,
        sampler=sampler,
        data_norm=1.0,
        classes=np.arange(N_CLASSES),
        neighboring_relation=relation,
        public_size=N_TRAIN if relation == "add_or_remove_one" else None,
        random_state=seed,
    )
    if n_steps is not None:
        model.set_params(sampler__n_steps=n_steps)
    start = time.perf_counter()
    model.fit(*data[:2])
    return model, time.perf_counter() - start


def warm_up(data, samplers):
    """Compile what is timed afterwards."""
    for sampler in samplers:  # 5,000 rows are more than a batch.
        fit([part[:5_000] for part in data], sampler, math.inf, "replace_one", 0, 250)


def fit_public(data, seed):
    """Return (scikit-learn's network, seconds)."""
    start = time.perf_counter()
    model = MLPClassifier(HIDDEN, early_stopping=True, random_state=seed)
    model.fit(ROW_NORM * data[0], data[1])
    return model, time.perf_counter() - start


def spread(values, digits=4):
    """Return a mean, and the standard deviation of several values, as text."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} +- {np.std(values, ddof=1):.{digits}f}"


# Subcommands


def accuracy(arguments):
    """Print a row for every transform, relation, sampler and budget."""
    heads = "steps | temperature | accuracy | log loss | calibration error | seconds"
    print_heads(f"data | sampler | relation | epsilon | {heads}")
    for transform in arguments.transforms:
        data = load_digits(arguments.mnist, transform)
        warm_up(data, arguments.samplers)
        cases = [
            (sampler, epsilon, relation)
            for relation, sampler in itertools.product(arguments.relations, arguments.samplers)
            for epsilon in epsilons_of(sampler, arguments)
        ]
        if arguments.public:
            cases += [("sghmc", math.inf, "replace_one"), ("scikit-learn", math.inf, "")]
        for sampler, epsilon, relation in cases:
            try:
                cells = row(data, sampler, epsilon, relation, arguments)
            except (NotImplementedError, ValueError) as error:
                cells = f"{type(error).__name__}: {error}"
            print(f"| {transform} | {sampler} | {relation} | {epsilon:g} | {cells} |", flush=True)


def epsilons_of(sampler, arguments):
    """Return those of the command line, or more for the first sampler than for others."""
    if arguments.epsilons:
        return arguments.epsilons
    return ALL_EPSILONS if sampler == SAMPLERS[0] and not arguments.quick else EPSILONS


def row(data, sampler, epsilon, relation, arguments):
    """Return what is measured of one case, as cells."""
    measured, seconds = [], []
    for seed in range(arguments.seeds):
        if sampler == "scikit-learn":
            model, taken = fit_public(data, seed)
            probabilities, heat = model.predict_proba(ROW_NORM * data[2]), ""
        else:
            model, taken = fit(data, sampler, epsilon, relation, seed, arguments.steps)
            probabilities, heat = model.predict_proba(data[2]), f"{model.temperature_:.3g}"
        measured.append(scores(probabilities, data[3]))
        seconds.append(taken)
    cells = " | ".join(spread(values) for values in zip(*measured, strict=True))
    return f"{model.n_iter_:,} | {heat} | {cells} | {np.median(seconds):.1f}"


def calibration(arguments):
    """Print and plot how reliable averages over the draws are, and a single draw."""
    print_heads("data | prediction by | accuracy | log loss | calibration error")
    figure, axes = plt.subplots(
        1, len(TRANSFORMS), figsize=(8.4, 4.2), sharey=True, layout="constrained"
    )
    for axis, transform in zip(axes, TRANSFORMS, strict=True):
        data = load_digits(arguments.mnist, transform)
        kinds = "all draws", "the last draw"
        found = {kind: [] for kind in kinds}
        for seed in range(arguments.seeds):
            model, _ = fit(data, "sghmc", 2.0, "replace_one", seed, arguments.steps)
            single = copy.copy(model)
            single.posterior_samples_ = model.posterior_samples_[-1:]
            for kind, of_kind in zip(kinds, (model, single), strict=True):
                found[kind].append(of_kind.predict_proba(data[2]))
        for number, (kind, predicted) in enumerate(found.items()):
            measured = zip(*(scores(one, data[3]) for one in predicted), strict=True)
            cells = " | ".join(spread(values) for values in measured)
            print(f"| {transform} | {kind} | {cells} |", flush=True)
            labels = np.tile(data[3], len(predicted))
            confidence, right, share = reliability(np.vstack(predicted), labels)
            enough = share * len(labels) >= LEAST_ROWS
            look = {"color": COLORS[number], "marker": MARKERS[number], "ms": 5}
            axis.plot(confidence[enough], right[enough], label=kind, **look)
        axis.plot([0, 1], [0, 1], color="#555555", ls=":", lw=1)
        axis.set(title=transform, xlabel="confidence")
        plain(axis)
    axes[0].set_ylabel("accuracy")
    axes[0].legend(frameon=False, fontsize=9)
    figure.savefig(arguments.output, dpi=120)
    plt.close(figure)
    print(f"\nplot: {arguments.output}")


def probabilities(arguments):
    """Print how honest the probabilities of networks and of linear models are."""
    print_heads("data | model | epsilon | accuracy | log loss | calibration error | slope")
    for table in arguments.tables:
        epsilons, linear = TABLES[table]
        for epsilon, kind in itertools.product(epsilons, ("network", *("linear",) * linear)):
            measured = []
            for seed in range(arguments.seeds):
                X, y, X_test, y_test, norm = load_table(table, arguments, seed)
                shared = {
                    "epsilon": epsilon,
                    "delta": DELTA,
                    "data_norm": norm,
                    "random_state": seed,
                }
                if kind == "linear":
                    model = DPBayesianLogisticRegression(**shared)
                else:
                    model = DPBayesianMLPClassifier(HIDDEN, **shared)
                found = model.fit(X, y).predict_proba(X_test)
                measured.append((*scores(found, y_test), slope(found, y_test)))
            cells = " | ".join(spread(values) for values in zip(*measured, strict=True))
            print(f"| {table} | {kind} | {epsilon:g} | {cells} |", flush=True)


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for run in (accuracy, calibration, probabilities):
        command = commands.add_parser(run.__name__, description=run.__doc__)
        command.set_defaults(run=run)
        command.add_argument("--quick", action="store_true", help="fewer runs")
        command.add_argument(
            "--mnist", required=True, metavar="PATH", help="X_train, y_train, X_test, y_test"
        )
        command.add_argument("--seeds", type=int, default=3)
        if run is probabilities:
            command.add_argument("--adult", required=True, metavar="PATH", help="UCI Adult")
            command.add_argument("--tables", nargs="+", choices=TABLES, default=tuple(TABLES))
            continue
        command.add_argument("--steps", type=int, help="instead of the default number")
        if run is calibration:
            command.add_argument("--output", default="network_calibration.png", help="plot")
            continue
        for name, choices in (
            ("transforms", tuple(TRANSFORMS)),
            ("samplers", SAMPLERS),
            ("relations", RELATIONS),
        ):
            command.add_argument(f"--{name}", nargs="+", choices=choices, default=choices)
        command.add_argument("--epsilons", nargs="+", type=float, help="for all samplers")
        command.add_argument(
            "--private-only",
            dest="public",
            action="store_false",
            help="without what is not private",
        )
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seeds = 1
    allow_seeds()
    warnings.filterwarnings("ignore", category=ConvergenceWarning)
    arguments.run(arguments)


if __name__ == "__main__":
    main()
