"""Ranks, ratios to the best, and a picture, from single fits of `benchmarks.peers`.

    python -m benchmarks.peers --results fits.jsonl
    python -m benchmarks.peers.rankings fits.jsonl [--folder docs/results] [--picture FILE]

For docs/peers.rst. On each real table and at each budget, methods are ranked by their median over splits, of
the error relative to that of least squares for numbers, and of the log loss for classes; one that failed,
abstained or ran out of its limits is last, and one that cannot be installed is left out. A win is a
difference from the best other method of more than two standard errors, over splits, of that difference.

Methods are compared four times: all of them with their defaults, this package's keeping what replacing a
record changes, whatever the others keep; those of either relation by themselves, this package under the same
one; and all with the others tuned besides.

Four files are written: ``peers_real.csv``, medians of every method on every real table,
``peers_real_summary.csv``, a line for each comparison, method and budget, ``peers_real_losses.csv``, a line
for each table and budget at which another method's default is better, and ``peers_others.csv``, medians of
the other questions, of coverages means. The first three have a column ``group``: tables for work, and those
that are held out, which were asked once, with ``--group held_out``, after everything was decided. In the
picture, of tables for work, a curve says on which share of them a method's score is at most so many times the
best of all defaults.
"""

import argparse
import csv
import math
from collections import defaultdict
from itertools import chain
from pathlib import Path

import numpy as np

from benchmarks.common import COLORS, MARKERS, mean_with_error, median_with_error, plain
from benchmarks.peers.asking import read_fits
from benchmarks.peers.known import CLASSIFIERS, REGRESSORS
from benchmarks.peers.questions import QUESTIONS
from benchmarks.peers.report import MEANS, gathered, label_of
from benchmarks.real_tables import group_of

SCORES = {"real_numbers": "error ratio", "real_classes": "log loss"}
KINDS = {"real_numbers": "numbers", "real_classes": "classes"}
GROUPS = ("work", "held_out")
# The budget of the picture, and ratios that it shows.
PICTURED_EPSILON = 1.0
LARGEST_RATIO = 10.0
OURS, OURS_ADDED = "skdpbayes", "skdpbayes, add or remove"
RELATIONS = {peer.name: peer.relation for peer in CLASSIFIERS + REGRESSORS}


def relation_of(label):
    """Return the relation that a method protects, tuned or not."""
    return RELATIONS[label.removesuffix(", tuned")]


def comparisons(tables):
    """Yield (name, our label, tables of the methods that are compared)."""

    def is_default(label):
        return not label.endswith(", tuned")

    def chosen(is_in):
        return {
            name: {label: found for label, found in table.items() if is_in(label)}
            for name, table in tables.items()
        }

    yield "all", OURS, chosen(lambda label: is_default(label) and label != OURS_ADDED)
    yield "tuned, too", OURS, chosen(lambda label: label != OURS_ADDED)
    for ours in (OURS, OURS_ADDED):
        relation = relation_of(ours)

        def is_alike(label, own=relation):
            return is_default(label) and relation_of(label) == own

        yield relation, ours, chosen(is_alike)


def by_cell(records):
    """Return {(question, epsilon): {table: {label: {seed: record}}}} of private methods."""
    cells = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    for record in records:
        if record["question"] in SCORES and math.isfinite(record["epsilon"]):
            table = cells[record["question"], record["epsilon"]][record["table"]]
            table[label_of(record)][record["seed"]] = record
    return cells


def scores_of(found, score):
    """Return {seed: score}, inf where there is none."""
    return {seed: record.get(score, math.inf) for seed, record in found.items()}


def best_other(table, score, label):
    """Return (label, {seed: score}) of the best method but one."""
    # One that was asked on a single split has no error.
    others = {
        other: scores_of(found, score)
        for other, found in table.items()
        if other != label and len(found) > 1
    }
    return min(others.items(), key=lambda item: np.median(list(item[1].values())))


def outcome(table, score, label):
    """Return "win", "tie" or "loss" of a method against the best other one."""
    ours, (_, best) = scores_of(table[label], score), best_other(table, score, label)
    differences = [best[seed] - ours[seed] for seed in ours if seed in best]
    if not np.all(np.isfinite(differences)):
        return "win" if np.median(list(best.values())) == math.inf else "tie"
    middle, error = np.mean(differences), np.std(differences, ddof=1) / math.sqrt(len(differences))
    if abs(middle) <= 2.0 * error:
        return "tie"
    return "win" if middle > 0.0 else "loss"


def losses(cells):
    """Yield a dict for each table and budget at which another method is better than this package."""
    for (question, epsilon), tables in sorted(cells.items()):
        score = SCORES[question]
        (_, ours, compared), *_ = comparisons(tables)
        for name, table in sorted(compared.items()):
            if len(table) < 2 or outcome(table, score, ours) != "loss":
                continue
            label, best = best_other(table, score, ours)
            line = {"kind": KINDS[question], "table": name, "epsilon": epsilon, "better": label}
            line |= {"relation": relation_of(label), "score": np.median(list(best.values()))}
            own = np.median(list(scores_of(table[ours], score).values()))
            yield line | {"skdpbayes": own, "ratio": line["score"] / own}


def medians_of(tables, score):
    """Return {table: {label: median}}."""
    return {
        name: {
            label: float(np.median(list(scores_of(found, score).values())))
            for label, found in table.items()
        }
        for name, table in tables.items()
    }


def summary(tables, score, ours):
    """Return a dict for each method: ranks, shares of tables, and ratios to the best; wins of ours."""
    medians = medians_of(tables, score)
    labels = dict.fromkeys(label for table in tables.values() for label in table)
    lines = []
    for label in labels:
        there = [name for name in tables if label in medians[name]]
        values = [medians[name] for name in there]
        ranks = [1 + sum(other < value[label] for other in value.values()) for value in values]
        ratios = [value[label] / min(value.values()) for value in values]
        line = {
            "method": label,
            "relation": relation_of(label),
            "tables": len(there),
            "median rank": np.median(ranks),
            "first": np.mean([rank == 1 for rank in ranks]),
            "median ratio": np.median(ratios),
            "failed": np.mean(np.isinf([value[label] for value in values])),
        }
        if score == "error ratio":
            explained = [
                np.median([one.get("R2", -math.inf) for one in tables[name][label].values()])
                for name in there
            ]
            line["R2 above 0"] = np.mean(np.array(explained) > 0.0)
        if label == ours:
            asked = [tables[name] for name in there if len(tables[name]) > 1]
            outcomes = [outcome(table, score, label) for table in asked]
            line |= {kind: outcomes.count(kind) for kind in ("win", "tie", "loss")}
        lines.append(line)
    return sorted(lines, key=lambda line: (line["median rank"], line["median ratio"]))


def write(path, heads, lines):
    """Write a file of dicts; numbers have four digits."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(heads)
        for line in lines:
            values = (line.get(head, "") for head in heads)
            writer.writerow(
                f"{value:.4g}" if isinstance(value, float) else value for value in values
            )


def single_lines(cells):
    """Yield a dict of medians for each table, method and budget."""
    for (question, epsilon), tables in sorted(cells.items()):
        score = SCORES[question]
        for name, table in sorted(tables.items()):
            for label, found in table.items():
                good = [record for record in found.values() if score in record]
                # A fit that failed counts as infinitely far off, as in ranks.
                median = float(np.median(list(scores_of(found, score).values())))
                _, error = median_with_error([record[score] for record in good])
                line = {"kind": KINDS[question], "table": name, "method": label, "score": score}
                line |= {"relation": relation_of(label), "epsilon": epsilon}
                line |= {"median": median, "error": error}
                line |= {"splits": len(found), "failed": len(found) - len(good)}
                for other in ("R2", "AUC", "seconds"):
                    if good and other in good[0]:
                        line[other] = float(np.median([record[other] for record in good]))
                yield line


def is_answer(record):
    """Return whether a peer was asked: one that cannot be installed is left out."""
    return not record.get("error", "").startswith("not installable")


def summary_lines(cells):
    """Yield a dict for each comparison, method and budget."""
    for (question, epsilon), tables in sorted(cells.items()):
        for compared, ours, of_these in comparisons(tables):
            for line in summary(of_these, SCORES[question], ours):
                yield {"kind": KINDS[question], "epsilon": epsilon, "compared": compared, **line}


def grouped(records, make_lines):
    """Yield what ``make_lines`` makes of the cells of each group of tables, with the group."""
    real = [record for record in records if record["question"] in SCORES]
    for group in GROUPS:
        cells = by_cell([record for record in real if group_of(record["table"]) == group])
        for line in make_lines(cells):
            yield {"group": group, **line}


def is_pictured(label):
    """Return whether a method is in the picture."""
    return label != OURS_ADDED and not label.endswith(", tuned")


def other_lines(records):
    """Yield a dict for each table, method, budget and score of the other questions."""
    for question, (_, peers, scores) in QUESTIONS.items():
        relations = {peer.name: peer.relation for peer in peers}
        of_question = [record for record in records if record["question"] == question]
        if question in SCORES or not of_question:
            continue
        for (table, label), by_epsilon in gathered(of_question).items():
            for epsilon, found in by_epsilon.items():
                line = {"question": question, "table": table, "method": label, "epsilon": epsilon}
                line |= {"relation": relations[label.removesuffix(", tuned")]}
                for score in scores:
                    values = [record[score] for record in found if score in record]
                    middle = mean_with_error if score in MEANS else median_with_error
                    line[score], line[f"error of {score}"] = middle(values)
                yield line | {"splits": len(found), "failed": len(found) - len(values)}


def load_medians(path, epsilon=PICTURED_EPSILON):
    """Return {kind: (score, {table: {method: median}})} of one budget, of tables for work."""
    found = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            is_wanted = row["group"] == "work" and float(row["epsilon"]) == epsilon
            if is_wanted and is_pictured(row["method"]):
                _, tables = found.setdefault(row["kind"], (row["score"], {}))
                tables.setdefault(row["table"], {})[row["method"]] = float(row["median"])
    return found


def draw(found):
    """Return the figure of the shares of tables on which a method is within a ratio of the best."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(found), figsize=(5.0 * len(found), 4.8), layout="constrained", squeeze=False
    )
    labels = list(dict.fromkeys(m for _, t in found.values() for of in t.values() for m in of))
    handles = {}
    for axis, (kind, (score, tables)) in zip(axes[0], found.items(), strict=True):
        for number, label in enumerate(labels):
            ratios = [of[label] / min(of.values()) for of in tables.values() if label in of]
            if not ratios:
                continue
            ratios = np.sort(np.minimum(ratios, 2.0 * LARGEST_RATIO))
            shares = np.arange(1, len(ratios) + 1) / len(ratios)
            is_ours = label == OURS
            (handles[label],) = axis.step(
                [1.0, *ratios, 2.0 * LARGEST_RATIO],
                [0.0, *shares, shares[-1]],
                where="post",
                color="#000000" if is_ours else COLORS[number % len(COLORS)],
                lw=2.5 if is_ours else 1.2,
                ls="-" if number < len(COLORS) else "--",
                marker="" if is_ours else MARKERS[number % len(MARKERS)],
                ms=3,
            )
        axis.set(xscale="log", xlim=(0.98, LARGEST_RATIO), xlabel=f"{score} over the best")
        axis.set_title(f"{len(tables)} tables of {kind}, epsilon {PICTURED_EPSILON:g}")
        axis.xaxis.set_major_formatter("{x:g}")
        plain(axis)
    axes[0, 0].set_ylabel("share of tables")
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, frameon=False)
    return figure


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("fits", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("docs/results"))
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    records = [one for one in read_fits(arguments.fits) if is_answer(one)]
    heads = ["group", "kind", "table", "method", "relation", "epsilon", "score", "median", "error"]
    heads += ["splits", "failed", "R2", "AUC", "seconds"]
    write(arguments.folder / "peers_real.csv", heads, grouped(records, single_lines))
    heads = ["group", "kind", "epsilon", "compared", "method", "relation", "tables", "median rank"]
    heads += ["first", "median ratio", "failed", "R2 above 0", "win", "tie", "loss"]
    write(arguments.folder / "peers_real_summary.csv", heads, grouped(records, summary_lines))
    heads = [
        "group",
        "kind",
        "table",
        "epsilon",
        "better",
        "relation",
        "score",
        "skdpbayes",
        "ratio",
    ]
    write(arguments.folder / "peers_real_losses.csv", heads, grouped(records, losses))
    lines = list(other_lines(records))
    write(arguments.folder / "peers_others.csv", list(dict.fromkeys(chain(*lines))), lines)
    if arguments.picture:
        draw(load_medians(arguments.folder / "peers_real.csv")).savefig(arguments.picture, dpi=150)


if __name__ == "__main__":
    main()
