"""Answers as text and as a picture: medians over seeds with their standard errors."""

import math
from collections import defaultdict

from scores import median_with_error

# Decimals of a score; two significant digits for the others.
DECIMALS = {"accuracy": 3, "log loss": 3, "AUC": 3, "calibration": 3, "R2": 3, "coverage": 2}
DECIMALS |= {"Rand": 3, "density": 2}


def simple_table(head, rows):
    """Return lines of a table in reStructuredText; an empty first cell would continue a row."""
    rows = [[cell or "--" for cell in row] for row in rows]
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    rule = "  ".join("=" * width for width in widths)
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    ]
    return [rule, lines[0], rule, *lines[1:], rule]


def cell_of(values, score):
    """Return a median and its error as text."""
    median, error = median_with_error(values)
    if score in DECIMALS:
        text, rest = f"{median:.{DECIMALS[score]}f}", f"{error:.{DECIMALS[score]}f}"
    else:
        text, rest = f"{median:.3g}", f"{error:.2g}"
    return text if math.isnan(error) else f"{text} ± {rest}"


def label_of(record):
    """Return the name of a row: tuned peers apart."""
    return record["peer"] + (", tuned" if record["is_tuned"] else "")


def gathered(records):
    """Return {(table, label): {epsilon: records}}, in the order in which they came."""
    groups = defaultdict(lambda: defaultdict(list))
    for record in records:
        groups[record["table"], label_of(record)][record["epsilon"]].append(record)
    return groups


def rows_of(records, scores):
    """Return rows of cells: a row for each table, method and budget."""
    rows, previous = [], None
    for (table, label), by_epsilon in gathered(records).items():
        for epsilon, found in by_epsilon.items():
            good = [record for record in found if "error" not in record]
            name = table if table != previous else "\\"
            budget = "" if math.isinf(epsilon) else f"{epsilon:.3g}"
            previous = table
            if not good:
                failed = ["failed"] + ["--"] * (len(scores) - 1)
                rows.append([name, label, budget, *failed])
                continue
            cells = [cell_of([record[score] for record in good], score) for score in scores]
            if len(good) < len(found):
                cells[0] += f" ({len(found) - len(good)} of {len(found)} failed)"
            rows.append([name, label, budget, *cells])
    return rows


def ordered(records):
    """Return records with those of a table together."""
    places = {}
    for record in records:
        places.setdefault(record["table"], len(places))
    return sorted(records, key=lambda record: places[record["table"]])


def failures(records):
    """Return a line for each reason why a method has no figures."""
    reasons = {}
    for record in records:
        if "error" in record:
            key = label_of(record).removesuffix(", tuned"), record["error"]
            reasons.setdefault(key, []).append(record["table"])
    return [
        f"- {peer}: {reason} ({len(names)} fits; {', '.join(dict.fromkeys(names))})"
        for (peer, reason), names in reasons.items()
    ]


def guarantees(peers):
    """Return lines of a table of what each method promises."""
    return simple_table(
        ["method", "relation, guarantee, and what is assumed"],
        [[peer.name, peer.guarantee] for peer in peers],
    )


def section(title, text, records, peers, scores):
    """Return the lines of one question."""
    head = ["table", "method", "epsilon", *scores]
    lines = [title, "-" * len(title), "", text, "", *guarantees(peers), ""]
    lines += [*simple_table(head, rows_of(ordered(records), scores)), ""]
    missing = failures(records)
    return [*lines, *(["Without figures:", "", *missing, ""] if missing else [])]


def draw(records, path, score="log loss"):
    """Save a picture of a score against epsilon, a panel for each table."""
    from figures import COLORS, MARKERS, plt

    groups = gathered(records)
    names = list(dict.fromkeys(table for table, _ in groups))
    labels = [label for label in dict.fromkeys(label for _, label in groups)]
    n_rows = -(-len(names) // 3)
    figure, axes = plt.subplots(
        n_rows, min(3, len(names)), figsize=(10, 3.2 * n_rows), squeeze=False, layout="constrained"
    )
    peers = list(dict.fromkeys(label.removesuffix(", tuned") for label in labels))
    for axis, name in zip(axes.flat, names, strict=False):
        for label in labels:
            found = {
                epsilon: [record[score] for record in of_epsilon if score in record]
                for epsilon, of_epsilon in groups.get((name, label), {}).items()
            }
            found = {epsilon: values for epsilon, values in found.items() if values}
            if not found:
                continue
            middle = {epsilon: median_with_error(values)[0] for epsilon, values in found.items()}
            if math.inf in middle:
                axis.axhline(middle[math.inf], color="#555555", ls=":", label=label)
                continue
            number = peers.index(label.removesuffix(", tuned")) % len(COLORS)
            axis.plot(
                list(middle),
                list(middle.values()),
                color=COLORS[number],
                marker=MARKERS[number % len(MARKERS)],
                ls="--" if label.endswith(", tuned") else "-",
                ms=4,
                label=label,
            )
        axis.set(title=name, xscale="log", xlabel="epsilon", yscale="log")
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel(score)
    handles, texts = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, texts, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
    plt.close(figure)
