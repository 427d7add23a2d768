"""Answers as text and as a picture: medians over seeds with their standard errors."""

import math
from collections import defaultdict

from benchmarks.common import mean_with_error, median_with_error

# Decimals of a score; two significant digits for the others.
DECIMALS = {"accuracy": 3, "log loss": 3, "AUC": 3, "calibration": 3, "R2": 3, "coverage": 2}
DECIMALS |= {"Rand": 3, "density": 2}

# A median of shares of three intervals says nothing.
MEANS = {"coverage"}


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
    """Return a median, or the mean of shares, and its error as text."""
    middle = mean_with_error if score in MEANS else median_with_error
    median, error = middle(values)
    if math.isnan(median):
        return ""
    is_large = max(abs(median), 0.0 if math.isnan(error) else error) >= 100.0
    if score in DECIMALS and not is_large:
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


def ordered(records, peers):
    """Return records by table, method and budget, whichever came first."""
    tables = list(dict.fromkeys(record["table"] for record in records))
    names = [peer.name for peer in peers]

    def place(record):
        peer = names.index(record["peer"])
        return tables.index(record["table"]), peer, record["is_tuned"], record["epsilon"]

    return sorted(records, key=place)


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
    lines += [*simple_table(head, rows_of(ordered(records, peers), scores)), ""]
    missing = failures(records)
    return [*lines, *(["Without figures:", "", *missing, ""] if missing else [])]
