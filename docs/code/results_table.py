"""The directive ``results-table``: a table of figures from a file that a benchmark has written.

    .. results-table:: results/skewed_errors.csv
       :rows: errors
       :columns: rows, epsilon
       :cells: {held} ({worst}) {width:.1f}

The file is pivoted. A field of a cell stands for the numbers of all lines of the file that belong there, one
after the other; ``{held.mean}``, and likewise ``median``, ``min`` and ``max``, for
one number of them. Without columns,
``:cells:`` has a line ``head = cell`` for each column of the table. ``:only:`` selects lines, as in
`pandas.DataFrame.query`.
"""

import re

import pandas as pd
from docutils import nodes
from docutils.parsers.rst import Directive, directives

_FIELD = re.compile(r"\{([\w %]+)(?:\.(mean|median|min|max))?(?::([^}]*))?\}")


def cell(pattern, lines):
    """The text of a cell, in which fields are replaced by numbers of some lines of the file."""

    def numbers(match):
        name, function, text = match[1], match[2], match[3] or ".2f"
        values = [getattr(lines[name], function)()] if function else lines[name]
        return " / ".join("" if value != value else format(value, text) for value in values)

    return _FIELD.sub(numbers, pattern)


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


def _names(argument):
    return [name.strip() for name in (argument or "").split(",") if name.strip()]


class ResultsTable(Directive):
    """The table."""

    required_arguments = 1
    option_spec = {
        "rows": _names,
        "columns": _names,
        "cells": directives.unchanged_required,
        "only": directives.unchanged,
    }

    def run(self):
        """Nodes of the table."""
        environment = self.state.document.settings.env
        _, path = environment.relfn2path(self.arguments[0])
        environment.note_dependency(path)
        options = self.options
        results = pd.read_csv(path)
        if "only" in options:
            results = results.query(options["only"]).reset_index(drop=True)
        heads, body = pivoted(
            results, options["rows"], options.get("columns", []), options["cells"]
        )
        table, group = nodes.table(), nodes.tgroup(cols=len(heads))
        group += [nodes.colspec(colwidth=1) for _ in heads]
        group += nodes.thead("", _line(heads))
        group += nodes.tbody("", *map(_line, body))
        table += group
        return [table]


def _line(texts):
    return nodes.row("", *(nodes.entry("", nodes.paragraph(text=text)) for text in texts))


def setup(app):
    """Add the directive."""
    app.add_directive("results-table", ResultsTable)
    return {"parallel_read_safe": True}
