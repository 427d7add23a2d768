"""The questions: which tables, which scores, and how the answers are laid out."""

import math
from typing import NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import train_test_split

from benchmarks.common import classification_scores, epsilon_of, interval_scores, r_squared
from benchmarks.mixture import moments
from benchmarks.mixture.data import SCENARIOS, draw_tables
from benchmarks.network.data import load_digits
from benchmarks.peers import known
from benchmarks.peers.asking import Cell, measure
from benchmarks.real_tables import group_of, load
from benchmarks.real_tables.columns import declarations

TUNING_SEED = 1_000


class Size(NamedTuple):
    """How much is run."""

    epsilons: tuple = (0.1, 1.0, math.log(3.0), 3.0)
    n_seeds: int = 5
    n_large: int = 3
    n_tables: int = 40
    n_digits: int = 60_000
    n_rows: int = 100_000
    is_quick: bool = False
    is_tuned: bool = True


FULL = Size()
QUICK = Size((0.1, 1.0), 3, 1, 10, 10_000, 20_000, True)
# Tables with more rows have fewer splits, and nobody is tuned on them.
N_ROWS_OF_LARGE = 200_000
TEST_SHARE = 0.25


def score_probabilities(arrays, path):
    """Return scores of a classifier."""
    with np.load(path) as data:
        return classification_scores(arrays["probabilities"], data["y_test"])


def score_numbers(arrays, path):
    """Return scores of a regressor: the error relative to that of least squares, and R^2."""
    with np.load(path) as data:
        X, X_test = (np.column_stack([data[n], np.ones(len(data[n]))]) for n in ("X", "X_test"))
        least = X_test @ np.linalg.lstsq(X, data["y"], rcond=None)[0]
        wanted, predicted = data["y_test"], arrays["predictions"]
    ratio = np.sqrt(np.mean((predicted - wanted) ** 2) / np.mean((least - wanted) ** 2))
    return {"error ratio": ratio, "R2": r_squared(wanted, predicted)}


def real_tables(asker, size, arguments, is_classification):
    """Return the records of real tables of one kind that nobody here chose (`benchmarks/real_tables`)."""
    question = "real_classes" if is_classification else "real_numbers"
    peers = known.CLASSIFIERS if is_classification else known.REGRESSORS
    score = score_probabilities if is_classification else score_numbers
    criterion = "log loss" if is_classification else "error ratio"
    records = []
    for name, declared in declarations().items():
        is_wanted = name in arguments.real if arguments.real else group_of(name) == arguments.group
        if declared.is_classification != is_classification or not is_wanted:
            continue
        table = load(name)
        is_large = len(table.X) > N_ROWS_OF_LARGE
        is_tuned = size.is_tuned and not size.is_quick and not is_large
        cells = []
        for seed in [*range(size.n_large if is_large else size.n_seeds), *[TUNING_SEED] * is_tuned]:
            path = asker.save(f"{name}{seed}", split_of(table, seed))
            cells += [Cell(name, epsilon, seed, path) for epsilon in size.epsilons]
        tuning = [cell for cell in cells if cell.seed == TUNING_SEED]
        reported = [cell for cell in cells if cell.seed != TUNING_SEED]
        records += measure(asker, question, peers, reported, score, tuning, criterion)
        for path in {cell.data for cell in cells}:
            path.unlink()
    return records


def split_of(table, seed):
    """Return arrays for the jobs of one seed, a quarter held out; numbers are centred on their bounds."""
    low, high = table.target_bounds or (0.0, 0.0)
    y = table.y if table.n_classes else table.y - (low + high) / 2.0
    shares = table.y if table.n_classes else None
    parts = train_test_split(table.X, y, test_size=TEST_SHARE, random_state=seed, stratify=shares)
    arrays = dict(zip(("X", "X_test", "y", "y_test"), parts, strict=True))
    arrays |= {"norm": table.norm, "lower": table.lower, "upper": table.upper}
    if table.n_classes:
        return arrays | {"n_classes": table.n_classes}
    return arrays | {"bound": (high - low) / 2.0}


def real_classes(asker, size, arguments):
    """Linear classifiers and others on real tables that nobody here chose."""
    return real_tables(asker, size, arguments, True)


def real_numbers(asker, size, arguments):
    """Linear regression and others on real tables that nobody here chose."""
    return real_tables(asker, size, arguments, False)


def coverage(asker, size, arguments):
    """95% intervals in BinAgg's setting: 2,000 rows of U(0, 10)^3, coefficients 1.5, -2, 0.5, errors of 1."""
    truth, cells = np.array([1.5, -2.0, 0.5]), []
    for seed in range(size.n_tables):
        rng = np.random.default_rng(seed)
        rows = rng.uniform(0.0, 10.0, size=(2_000, 3))
        arrays = {
            "X": rows,
            "y": rows @ truth + rng.normal(size=2_000),
            "X_test": rows[:1],
            "bound": 30.0,
            "norm": 10.0 * math.sqrt(3.0),
            "lower": np.zeros(3),
            "upper": np.full(3, 10.0),
        }
        path = asker.save(f"intervals{seed}", arrays)
        # mu = 0.5, 1 and 2, as their tables have it.
        cells += [Cell("BinAgg's", epsilon_of(mu), seed, path) for mu in (0.5, 1.0, 2.0)]
    peers = [peer._replace(options={"level": 0.95} | peer.options) for peer in known.WITH_INTERVALS]

    def score(arrays, path):
        return interval_scores(arrays["low"], arrays["high"], truth)

    return measure(asker, "coverage", peers, cells, score)


def clusters(asker, size, arguments):
    """Gaussian mixtures that are known, against private k-means: adjusted Rand indices of other rows."""
    cells = []
    for name, scenario in list(SCENARIOS.items())[: 2 if size.is_quick else None]:
        for seed in range(size.n_seeds):
            X, X_test, labels, _ = draw_tables(name, size.n_rows, seed)
            arrays = {
                "X": X,
                "X_test": X_test,
                "labels": labels,
                "norm": scenario.data_norm,
                "half": scenario.half + 4.0,
                "n_clusters": scenario.n_components,
            }
            path = asker.save(f"mixture-{name}-{seed}", arrays)
            table = f"{name}, {size.n_rows:,} rows"
            cells += [Cell(table, epsilon, seed, path) for epsilon in size.epsilons]

    def score(arrays, path):
        with np.load(path) as data:
            return {"Rand": adjusted_rand_score(data["labels"], arrays["labels"])}

    return measure(asker, "clusters", known.CLUSTERINGS, cells, score)


def density(asker, size, arguments):
    """One Gaussian on a medical table (`benchmarks/mixture/moments.py`): mean log density of other rows."""
    X, cells = moments.load(), []
    for seed in range(size.n_seeds):
        order = np.random.default_rng(seed).permutation(len(X))
        parts = {"X": X[order[len(X) // 4 :]], "X_test": X[order[: len(X) // 4]]}
        path = asker.save(f"nafld{seed}", parts | {"norm": moments.NORM, "n_clusters": 1})
        cells += [Cell("nafld1", epsilon, seed, path) for epsilon in size.epsilons]

    def score(arrays, path):
        return {"density": float(arrays["density"])}

    return measure(asker, "density", known.DENSITIES, cells, score)


def networks(asker, size, arguments):
    """One hidden layer of 128 on digits, by the means of patches (`benchmarks/network/data.py`)."""
    if arguments.mnist is None:
        asker.tell("MNIST: no file given")
        return []
    X, y, X_test, y_test = load_digits(arguments.mnist, "patches")
    name, cells = f"MNIST, {size.n_digits:,} rows", []
    for seed in range(1 if size.is_quick else min(size.n_seeds, 3)):
        kept = np.random.default_rng(seed).permutation(len(X))[: size.n_digits]
        rows = {"X": X[kept], "y": y[kept], "X_test": X_test, "y_test": y_test}
        path = asker.save(f"digits{seed}", rows | {"norm": 1.0, "n_classes": 10})
        cells += [Cell(name, epsilon, seed, path) for epsilon in size.epsilons if epsilon >= 1.0]
    peers = [peer._replace(options=peer.options | {"n_hidden": 128}) for peer in known.NETWORKS]
    return measure(asker, "networks", peers, cells, score_probabilities)


# Name: (what runs it, its peers, the scores of its table).
QUESTIONS = {
    "real_classes": (real_classes, known.CLASSIFIERS, ("accuracy", "log loss", "AUC", "seconds")),
    "real_numbers": (real_numbers, known.REGRESSORS, ("error ratio", "R2", "seconds")),
    "coverage": (coverage, known.WITH_INTERVALS, ("coverage", "width", "seconds")),
    "clusters": (clusters, known.CLUSTERINGS, ("Rand", "seconds")),
    "density": (density, known.DENSITIES, ("density", "seconds")),
    "networks": (
        networks,
        known.NETWORKS,
        ("accuracy", "log loss", "AUC", "calibration", "seconds"),
    ),
}
