"""Data frames that print all of their rows and columns; imported only where pandas is."""

from html import escape
from typing import Any

import pandas as pd


class UntruncatedDataFrame(pd.DataFrame):
    """A data frame that no width of a terminal cuts to ``...``, and neither its slices.

    A tuple of texts in ``attrs["notes"]`` is printed beneath it.
    """

    @property
    def _constructor(self) -> Any:
        return UntruncatedDataFrame

    def __repr__(self) -> str:
        return "\n".join([self.to_string(), *map("Note: {}".format, self._notes())])

    def _repr_html_(self) -> str:
        return "\n".join(
            [self.to_html(), *(f"<p>Note: {escape(note)}</p>" for note in self._notes())]
        )

    def _notes(self):
        notes = self.attrs.get("notes")
        return notes if isinstance(notes, tuple) else ()
