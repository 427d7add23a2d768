"""Which tools around scikit-learn keep the guarantee of a private estimator inside them?

    python -m benchmarks.tools > docs/tools_table.txt

Table "What was tried" of docs/tools.rst.

Runs each tool on made-up rows, with private estimators in it and a ledger around it, and prints what happened
and what was charged, as the table of docs/tools.rst. Whether a guarantee holds is stated beside each, since
no run can show it. What is not installed is left out, and named on standard error. The tools are

    python -m pip install imbalanced-learn fairlearn mlflow skrub feature-engine category-encoders shap lime \
        optuna skops dask-ml sktime mapie cleanlab venn-abers mlxtend scikit-lego yellowbrick eli5 \
        scikit-optimize skl2onnx boruta
"""

import argparse
import contextlib
import importlib
import io
import logging
import os
import sys
import tempfile
import warnings
from importlib.metadata import version

import numpy as np

from benchmarks.tools.ecosystem import ECOSYSTEM
from benchmarks.tools.sklearn import SKLEARN
from skdpbayes.exceptions import PrivacyLeakWarning
from skdpbayes.privacy import PrivacyLedger


def attempt(run):
    """Return what a run came to, and what it charged."""
    outcome, charged = _within(run)
    if outcome == "refused: seeds" and _within(run, allow_seeds=True)[0] == "refused: the rule":
        outcome = "refused: seeds, and the rule"
    return outcome, charged


def _within(run, allow_seeds=False):
    with (
        PrivacyLedger(np.inf, 1e-5, allow_seeds=allow_seeds) as ledger,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        try:
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                run()
            outcome = "runs"
        except Exception as error:
            outcome = _why(error)
    if outcome == "runs" and any(one.category is PrivacyLeakWarning for one in caught):
        outcome = "runs, with a warning"
    n = len(ledger.records())
    charged = f"{n}, epsilon {ledger.spent_epsilon:.3g}" if n else "nothing"
    return outcome, charged


def _why(error):
    text = str(error)
    if "rows must not be" in text:
        return "refused: the rule"
    if "allow_seeds" in text:
        return "refused: seeds"
    print(f"{type(error).__name__}: {text[:300]}", file=sys.stderr)
    return f"fails ({type(error).__name__})"


def table(rows):
    """Return rows as a table of reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 24 16 16 24 20", ""]
    for row in rows:
        lines += [f"   {'* -' if i == 0 else '  -'} {cell}" for i, cell in enumerate(row)]
    return "\n".join(lines)


def main():
    """Try everything that is installed."""
    argparse.ArgumentParser(
        "python -m benchmarks.tools", description=__doc__.partition("\n")[0]
    ).parse_args()
    os.environ["MLFLOW_TRACKING_URI"] = "sqlite:///runs.db"
    os.chdir(tempfile.mkdtemp())  # Some tools leave files.
    logging.disable()
    charged = "Charged (fits and scores, epsilon)"
    rows = [("Tool", "With a private estimator", charged, "Guarantee", "Instead")]
    used = {}
    for package, module, name, run, holds, instead in [*SKLEARN, *ECOSYSTEM]:
        try:
            importlib.import_module(module)
        except ImportError as error:
            print(f"left out, since it is not installed: {package} ({error})", file=sys.stderr)
            continue
        used[package] = version(package)
        rows.append((f"{package}: {name}", *attempt(run), holds, instead))
    print(table(rows))
    print("\nTried with " + ", ".join(f"{name} {number}" for name, number in used.items()) + ".")


if __name__ == "__main__":
    main()
