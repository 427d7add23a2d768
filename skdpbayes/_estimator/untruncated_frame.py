"""Data frames that print all of their rows and columns; imported only where pandas is."""

from typing import Any

import pandas as pd


class UntruncatedDataFrame(pd.DataFrame):
    """A data frame that no width of a terminal cuts to ``...``, and neither its slices."""

    @property
    def _constructor(self) -> Any:
        return UntruncatedDataFrame

    def __repr__(self) -> str:
        return self.to_string()

    def _repr_html_(self) -> str:
        return self.to_html()
