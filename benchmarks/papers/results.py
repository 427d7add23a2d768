"""Files of docs/results that the page of papers reads.

Each script writes its figures to ``papers_<name>.csv`` and its lines of the page's table to ``papers.csv``,
with ``--folder docs/results``. Lines of other papers are left as they are.
"""

import argparse
import csv
import warnings
from pathlib import Path

from benchmarks.common import ResultsTable
from skdpbayes.exceptions import PrivacyWarning

VERDICTS = "papers.csv"
HEADS = ("paper", "claim", "measured", "verdict")
# In the order of the page.
PAPERS = (
    "Wang, Fienberg and Smola (2015)",
    "Li, Chen, Liu and Carin (2019)",
    "Heikkilä, Jälkö, Dikmen and Honkela (2019)",
    "Bayes by backprop (2020)",
    "Ryffel, Bach and Pointcheval (2022)",
    "Zhang and Zhang (2023)",
)


def parser(docstring):
    """Return a parser that knows ``--folder``; warnings that a benchmark causes itself are left out."""
    warnings.simplefilter("ignore", PrivacyWarning)
    found = argparse.ArgumentParser(description=docstring.partition("\n")[0])
    found.add_argument("--folder", type=Path, help="of files of results: docs/results")
    return found


def figures(folder, name, heads):
    """Return a `ResultsTable`, whose file is written anew."""
    if folder is None:
        return ResultsTable(heads)
    path = folder / f"papers_{name}.csv"
    path.unlink(missing_ok=True)
    return ResultsTable(heads, path)


def conclude(folder, paper, *lines):
    """Print lines of the page's table, and put them in its file in the place of older ones.

    Parameters
    ----------
    folder : Path or None
    paper : str
        One of `PAPERS`.
    lines : tuples of str
        Claim, measured, verdict.
    """
    for claim, measured, verdict in lines:
        print(f"\nVERDICT: {verdict}. Claim: {claim}. Measured: {measured}.")
    if folder is None:
        return
    merge(folder / VERDICTS, [(paper, *line) for line in lines])


def merge(path, lines):
    """Put lines of some papers in the file of the page's table, in the place of older ones."""
    papers = {line[0] for line in lines}
    rows = [row for row in read_verdicts(path) if row[0] not in papers] + list(lines)
    rows.sort(key=lambda row: PAPERS.index(row[0]))
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADS, *rows])


def read_verdicts(path):
    """Return the lines of that file."""
    return list(csv.reader(path.open(newline="")))[1:] if path.exists() else []
