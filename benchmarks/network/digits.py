"""Private Bayesian networks on handwritten digits and on two tables: accuracy and calibration.

    python -m benchmarks.network.digits digits --mnist mnist.npz [--results docs/results/network_digits.csv]
    python -m benchmarks.network.digits tables --adult adult.csv [--results docs/results/network_tables.csv]

"Neural networks" of docs/benchmarks.rst.

`digits` has 60,000 rows for training and 10,000 for testing, by two transforms of `data.py`, and
``data_norm=1``. Under "add_or_remove_one" 60,000 is the public size. An infinite epsilon stands for
scikit-learn's network, which has its defaults, stops early on a tenth of the rows, and takes rows of norm 4,
as ours does inside. `tables` are UCI Adult and the votes of `benchmarks.common`, on which nobody is nearly
always right, beside the linear model at the same budget; seeds are for the split as well.

One hidden layer of 128 units, delta = 1e-5, all else at its default. Figures are means over the seeds, and of
accuracies the standard error. The calibration error is that of 15 bins of confidence. The slope is that of a
recalibration by the test rows,

    min over b of  -sum_i log softmax(b log p_i)_{y_i},

1 for honest probabilities, below for overconfident ones.
"""

import argparse
import itertools
import math
import time

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.neural_network import MLPClassifier

from benchmarks.common import (
    ResultsTable,
    allow_seeds,
    classification_scores,
    ignore_fit_warnings,
    mean_with_error,
)
from benchmarks.network.data import TRANSFORMS, load_digits, load_table
from skdpbayes.linear_model import DPBayesianLogisticRegression
from skdpbayes.models.mlp import ROW_NORM
from skdpbayes.neural_network import DPBayesianMLPClassifier

HIDDEN = (128,)
DELTA = 1e-5
N_TRAIN, N_CLASSES = 60_000, 10
RELATIONS = ("replace_one", "add_or_remove_one")
SCORES = "accuracy | error | log loss | calibration error | slope | seconds"


def slope(probabilities, labels):
    """Return the slope of the best recalibration."""
    logs = np.log(np.maximum(probabilities, 1e-300))
    rows = np.arange(len(labels))

    def loss(factor):
        return -log_softmax(factor * logs, axis=1)[rows, labels].mean()

    return minimize_scalar(loss, bounds=(0.05, 5.0), method="bounded").x


def scores(model, X, y, X_test, y_test):
    """Return (accuracy, log loss, calibration error, slope, seconds of the fit)."""
    start = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - start
    probabilities = model.predict_proba(X_test)
    found = classification_scores(probabilities, y_test)
    names = "accuracy", "log loss", "calibration"
    return *(found[name] for name in names), slope(probabilities, y_test), seconds


def figures(found):
    """Return as text what is printed of the scores of several seeds."""
    accuracies, *others = np.transpose(found)
    numbers = *mean_with_error(accuracies), *np.mean(others[:3], axis=1)
    return *(f"{number:.4f}" for number in numbers), f"{np.median(others[3]):.1f}"


def digits(arguments):
    """Print a line for every transform, relation, sampler and budget."""
    heads = f"data | sampler | relation | epsilon | {SCORES}"
    results = ResultsTable(heads, arguments.results)
    for transform in arguments.transforms:
        X, y, X_test, y_test = load_digits(arguments.mnist, transform)
        for case in itertools.product(arguments.relations, arguments.samplers, arguments.epsilons):
            relation, sampler, epsilon = case
            found = []
            for seed in range(arguments.seeds):
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
                found.append(scores(model, X, y, X_test, y_test))
            results.add(transform, sampler, relation, f"{epsilon:g}", *figures(found))
        public = [
            MLPClassifier(HIDDEN, early_stopping=True, random_state=seed)
            for seed in range(arguments.seeds)
        ]
        found = [scores(model, ROW_NORM * X, y, ROW_NORM * X_test, y_test) for model in public]
        results.add(transform, "scikit-learn", "", f"{math.inf:g}", *figures(found))


def tables(arguments):
    """Print a line for every table, model and budget."""
    results = ResultsTable(f"table | model | epsilon | {SCORES}", arguments.results)
    for table, epsilon, kind in itertools.product(
        ("adult", "votes"), arguments.epsilons, ("network", "linear")
    ):
        found = []
        for seed in range(arguments.seeds):
            X, y, X_test, y_test, norm = load_table(table, arguments.adult, seed)
            shared = {"epsilon": epsilon, "delta": DELTA, "data_norm": norm, "random_state": seed}
            if kind == "linear":
                model = DPBayesianLogisticRegression(**shared)
            else:
                model = DPBayesianMLPClassifier(HIDDEN, **shared)
            found.append(scores(model, X, y, X_test, y_test))
        results.add(table, kind, f"{epsilon:g}", *figures(found))


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for run, file, epsilons in (
        (digits, "mnist", [1.0, 2.0, 8.0]),
        (tables, "adult", [0.3, 1.0, 3.0]),
    ):
        command = commands.add_parser(run.__name__, description=run.__doc__)
        command.set_defaults(run=run)
        command.add_argument(f"--{file}", required=True, metavar="PATH")
        command.add_argument("--seeds", type=int, default=3)
        command.add_argument("--epsilons", nargs="+", type=float, default=epsilons)
        command.add_argument("--results", help="a CSV file")
        if run is digits:
            command.add_argument("--transforms", nargs="+", default=tuple(TRANSFORMS))
            command.add_argument("--samplers", nargs="+", default=("sghmc",))
            command.add_argument("--relations", nargs="+", default=RELATIONS)
    arguments = parser.parse_args()
    allow_seeds()
    ignore_fit_warnings()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
