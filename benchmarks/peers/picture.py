"""A picture of a score against epsilon, a panel for each table, from medians that are kept in a file.

The file is a .csv with the columns table, label, epsilon, median and error, one for each score.
"""

import csv
import math

import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter

from benchmarks.common import COLORS, MARKERS, median_with_error, plain
from benchmarks.peers.report import gathered

N_COLUMNS = 3


def save_medians(records, path, score="log loss"):
    """Write the file of one score."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["table", "label", "epsilon", "median", "error"])
        for (table, label), by_epsilon in gathered(records).items():
            for epsilon, found in by_epsilon.items():
                values = [record[score] for record in found if score in record]
                if values:
                    median, error = median_with_error(values)
                    writer.writerow([table, label, epsilon, f"{median:.4f}", f"{error:.4f}"])


def load_medians(path):
    """Return {table: {label: {epsilon: (median, error)}}}."""
    tables = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            of_label = tables.setdefault(row["table"], {}).setdefault(row["label"], {})
            of_label[float(row["epsilon"])] = float(row["median"]), float(row["error"])
    return tables


def draw(tables, score="log loss"):
    """Return the figure; what is tuned is dashed, and what has no budget is a line."""
    labels = list(dict.fromkeys(label for of_table in tables.values() for label in of_table))
    peers = list(dict.fromkeys(label.removesuffix(", tuned") for label in labels))
    n_rows = -(-len(tables) // N_COLUMNS)
    figure, axes = plt.subplots(
        n_rows,
        min(N_COLUMNS, len(tables)),
        figsize=(10, 3.0 * n_rows + 0.8),
        squeeze=False,
        layout="constrained",
    )
    handles = {}
    for axis, (name, of_table) in zip(axes.flat, tables.items(), strict=False):
        for label, values in of_table.items():
            number = peers.index(label.removesuffix(", tuned"))
            if math.inf in values:
                handles[label] = axis.axhline(values[math.inf][0], color="#555555", ls=":")
                continue
            medians, errors = zip(*values.values(), strict=True)
            handles[label] = axis.errorbar(
                list(values),
                medians,
                [0.0 if math.isnan(error) else error for error in errors],
                color=COLORS[(number - 1) % len(COLORS)],
                # Where colors come again, markers are others.
                marker=MARKERS[(number - 1 + (number - 1) // len(COLORS)) % len(MARKERS)],
                ls="--" if label.endswith(", tuned") else "-",
                ms=4,
            )
        axis.set(title=name, xscale="log", yscale="log", xlabel="epsilon")
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 3.0, 5.0)))
        axis.yaxis.set_major_formatter("{x:g}")
        low, high = axis.get_ylim()
        axis.yaxis.set_minor_formatter("{x:g}" if high < 1.5 * low else NullFormatter())
        plain(axis)
    for axis in axes.flat[len(tables) :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel(score)
    figure.legend(
        handles.values(), handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9
    )
    return figure
