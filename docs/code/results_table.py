"""The directive ``results-table`` and the role ``result``: figures from files that benchmarks have written.

    .. results-table:: results/skewed_errors.csv
       :rows: errors
       :columns: rows, epsilon
       :cells: {held} ({worst}) {width:.1f}

The file is pivoted. A field of a cell stands for the numbers of all lines of the file that belong there, one
after the other; ``{held.mean}``, and likewise ``median``, ``min`` and ``max``, for
one number of them. Without columns,
``:cells:`` has a line ``head = cell`` for each column of the table. ``:only:`` selects lines, as in
`pandas.DataFrame.query`.

    :result:`skewed_errors.csv; errors == "costs" and rows == 2000; {held.min:.2f}`

stands for a cell within a sentence: a file of ``docs/results``, lines of it (all of them, if that is empty),
and the cell.
"""

import pandas as pd
from docutils import nodes
from docutils.parsers.rst import Directive, directives

from benchmarks.results import FOLDER, figure_of, pivoted


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


def result(name, rawtext, text, line, inliner, options=None, content=None):
    """The node of a figure within a sentence."""
    inliner.document.settings.env.note_dependency(str(FOLDER / text.split(";")[0].strip()))
    return [nodes.Text(figure_of(text))], []


def setup(app):
    """Add the directive and the role."""
    app.add_role("result", result)
    app.add_directive("results-table", ResultsTable)
    return {"parallel_read_safe": True}
