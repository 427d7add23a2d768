"""Figures of files that benchmarks have written, as pages of the docs show them."""

import re
from pathlib import Path

import pandas as pd

FOLDER = Path(__file__).parents[1] / "docs" / "results"
_FIELD = re.compile(r"\{([\w %]+)(?:\.(mean|median|min|max))?(?::([^}]*))?\}")


def cell(pattern, lines):
    """The text of a cell, in which fields are replaced by numbers of some lines of the file.

    It is empty if there are no lines.
    """
    if not len(lines):
        return ""

    def numbers(match):
        name, function, text = match[1], match[2], match[3] or ".2f"
        values = [getattr(lines[name], function)()] if function else lines[name]
        return " / ".join("" if value != value else format(value, text) for value in values)

    return _FIELD.sub(numbers, pattern)


def figure_of(text):
    """The text of a cell that a file, a query and a pattern name, separated by semicolons."""
    name, query, pattern = (part.strip() for part in text.split(";"))
    results = pd.read_csv(FOLDER / name)
    lines = results.query(query) if query else results
    if lines.empty:
        raise ValueError(f"{name} has no line for {query!r}.")
    return cell(pattern, lines)


def pivoted(table, rows, columns, pattern):
    """(heads, lines) of a table of text."""
    at_side = table[rows].apply(_key, axis=1)
    if columns:
        above = table[columns].apply(_key, axis=1)
        patterns = dict.fromkeys(above, pattern)
    else:
        patterns = dict(line.split(" = ", 1) for line in pattern.splitlines())
    body = []
    for name, lines in table.groupby(at_side, sort=False):
        texts = (
            cell(each, lines[above[lines.index] == head] if columns else lines)
            for head, each in patterns.items()
        )
        body.append([name, *texts])
    return [", ".join(rows), *patterns], body


def _key(values):
    texts = (value if isinstance(value, str) else f"{value:,g}" for value in values)
    return ", ".join(texts)
