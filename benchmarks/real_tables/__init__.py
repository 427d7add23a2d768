"""Real tables that were not chosen for what comes out on them, scaled by public bounds alone.

    python -m benchmarks.real_tables [--folder FOLDER] [--no-download]

lists them. README.md says by what rules tables are here, where each comes from, and under which terms.

A third of those that were new is held out: it is looked at once, after everything is decided. Which ones
follows from the hash of a table's name, so that nobody decides.
"""

import hashlib
import math
from typing import NamedTuple

import numpy as np

from benchmarks.real_tables.columns import declarations


class RealTable(NamedTuple):
    """Rows within public bounds, and the response.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Within [-1, 1]; indicators within [0, 1].
    y : ndarray of shape (n,)
        Classes from 0, or numbers, on a log scale if `columns` says so. Numbers are not clipped: errors
        are measured against what was observed.
    lower, upper : ndarray of shape (d,)
    target_bounds : tuple of float, or None
        Of numbers.
    n_classes : int or None
    norm : float
        Of any possible row.
    source, group : str
        A key of `files.SOURCES`, and "work" or "held_out".
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    target_bounds: tuple | None
    n_classes: int | None
    norm: float
    source: str
    group: str


# Tables on which results of this package were known before this list was made.
USED_BEFORE = frozenset(
    {
        *("adult", "airfoil", "autompg", "concrete", "diamonds", "energy", "flights", "housing"),
        "military",
    }
)


def group_of(name):
    """Return "held_out" for names whose SHA-256, as a number, three divides, else "work".

    What was used before is never held out.
    """
    divides = int(hashlib.sha256(name.encode()).hexdigest(), 16) % 3 == 0
    return "held_out" if divides and name not in USED_BEFORE else "work"


def load(name, folder=None, download=True):
    """Return a `RealTable`.

    Parameters
    ----------
    name : str
        A key of `declarations`.
    folder : path-like or None
        Of files; None takes the environment variable's or the one in the user's cache.
    download : bool
        Whether a file that is not there is fetched.
    """
    declared = declarations()[name]
    return encoded(declared, declared.frame(folder, download))


def check_order(table, names, found):
    """Raise a ValueError if columns are missing, or those that a file names stand elsewhere."""
    if len(names) != len(found):
        raise ValueError(f"{table} declares {len(names)} columns of {len(found)}.")
    for name, there in zip(names, found, strict=True):
        if name != there and name in found:
            raise ValueError(f"{table} declares {name!r} where the file has {there!r}.")


def encoded(declared, frame):
    """Return the `RealTable` of a file's rows; those without a response are left out."""
    spread, place = declared.spread, declared.place
    check_order(declared.name, [column.name for column in spread], list(frame.columns))
    response, values = spread[place], frame.iloc[:, place]
    y = response.codes(values) if declared.is_classification else response.transformed(values)
    known = (y >= 0) if declared.is_classification else np.isfinite(y)
    design, lower, upper, n_squares = [], [], [], 0
    for i, column in enumerate(spread):
        if i == place or column.kind == "unused":
            continue
        columns, (low, high) = column.encoded(frame.iloc[:, i][known])
        design += columns
        lower += [low] * len(columns)
        upper += [high] * len(columns)
        n_squares += 1
    return RealTable(
        name=declared.name,
        X=np.column_stack(design),
        y=y[known].astype(np.int64 if declared.is_classification else float),
        lower=np.array(lower),
        upper=np.array(upper),
        target_bounds=None if declared.is_classification else response.ends(),
        n_classes=len(response.bounds) if declared.is_classification else None,
        norm=math.sqrt(n_squares),
        source=declared.source,
        group=group_of(declared.name),
    )
