"""``report``: what was protected, how strongly and by what, as JSON, Markdown or a page to sign."""

import os
from pathlib import Path

import joblib

from ..exceptions import LedgerFileError
from ..privacy import PrivacyLedger, PrivacyReport, privacy_report
from ..privacy.report import SCHEMA

# What the beginning of a report in each form has. Nothing else is overwritten.
_MARKS = {
    "html": b'<meta name="generator" content="skdpbayes">',
    "markdown": b"# Privacy report",
    "json": f'"schema": "{SCHEMA}"'.encode(),
}
_STDOUT = "-"
# How a file begins that SQLite reads, and a pickle, also one that joblib has compressed; and what names of
# ledgers end in.
_SQLITE, _PICKLE = b"SQLite format 3\0", b"\x80"
_COMPRESSED = (b"x\x01", b"x\x5e", b"x\x9c", b"x\xda", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"]\0\0")
_LEDGERS = ("", ".ledger", ".sqlite", ".sqlite3", ".db")


def add_arguments(parser):
    """Add this command's arguments."""
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a ledger's file, a saved report (JSON), or a pickled estimator",
    )
    forms = parser.add_mutually_exclusive_group()
    for form, what in (
        ("html", "as a page to print and sign"),
        ("markdown", "as Markdown"),
        ("json", "as JSON, which is the default"),
    ):
        forms.add_argument(
            f"--{form}",
            nargs="?",
            const=_STDOUT,
            metavar="OUT",
            help=f"{what}, into the file OUT, or to standard output",
        )
    parser.add_argument("--title", help="what the page is about, such as the name of a survey")
    parser.add_argument(
        "--ledger",
        metavar="LEDGER",
        help="with a pickled estimator: the file of the ledger that it was charged to",
    )
    parser.add_argument(
        "--trust-pickle",
        action="store_true",
        help="FILE is an estimator saved by joblib or pickle. Loading it runs any code that it "
        "contains, so use this only for files that you trust",
    )


def run(options):
    """Return the report, or what file it was written to."""
    form = next((one for one in _MARKS if getattr(options, one) is not None), "json")
    out = getattr(options, form)
    if out not in (None, _STDOUT):
        _check_out(out, form, options)
    text = _written(_report(options), form, options.title)
    if out in (None, _STDOUT):
        return text
    Path(out).write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    return f"report written to {out}"


def _report(options):
    if options.trust_pickle:
        ledger = None if options.ledger is None else PrivacyLedger.open(options.ledger)
        return privacy_report(_unpickled(options.file), ledger=ledger)
    if options.ledger is not None:
        raise ValueError(
            "--ledger is for estimators, with --trust-pickle: leave it out, or give the ledger as FILE."
        )
    return _saved(options.file) or privacy_report(_ledger(options.file))


def _written(report, form, title):
    if form == "json":
        if title is not None:
            raise ValueError("--title is for pages: add --html or --markdown.")
        return report.to_json()
    return (report.to_html if form == "html" else report.to_markdown)(title).rstrip("\n")


def _check_out(out, form, options):
    """Raise a ValueError if there is no folder, or if a file that is no report of this form would be lost."""
    if not os.path.exists(out):
        if not os.path.isdir(folder := os.path.dirname(out) or "."):
            raise ValueError(
                f"{out} cannot be written, because there is no folder {folder}: make it, or choose another."
            )
        return
    given = [one for one in (options.file, options.ledger) if one and os.path.exists(one)]
    same = any(os.path.samefile(out, one) for one in given)
    if not same and os.path.isfile(out):
        with open(out, "rb") as file:
            if _MARKS[form] in file.read(512):
                return
    raise ValueError(f"{out} exists and is no report in this form: choose another file.")


def _saved(path):
    """Return the report that a file of JSON holds, or None if it does not begin like one."""
    if not os.path.isfile(path):
        return None
    with open(path, "rb") as file:
        text = file.read(1)
        if text != b"{":
            return None
        text += file.read()
    try:
        return PrivacyReport.from_json(text)
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def _ledger(path):
    """Return the ledger of a file; a LedgerFileError says what a file without one is to the command."""
    is_ledger = os.path.splitext(path)[1].lower() in _LEDGERS
    if not os.path.exists(path) and not is_ledger:
        raise LedgerFileError(
            f"there is no file {path}: give the file of a ledger, or a report that was saved as JSON."
        )
    start = _start(path)
    if start is not None and not start.startswith((_SQLITE, _PICKLE)) and not is_ledger:
        raise LedgerFileError(
            f"{path} is not a ledger, report or plan: give the file of a ledger, the JSON of a report or a "
            "plan, or, with --trust-pickle, a saved estimator."
        )
    try:
        return PrivacyLedger.open(path)
    except LedgerFileError as error:
        if not os.path.exists(path):
            raise
        raise LedgerFileError(
            f"if {path} is a saved estimator, add --trust-pickle; otherwise, {error}"
        ) from error


def _start(path):
    """Return how a file begins, None if there is none that can be read."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_SQLITE))
    except OSError:
        return None


def _unpickled(path):
    if not os.path.exists(path) or os.path.isdir(path):
        raise ValueError(
            f"there is no file {path}: give that of an estimator saved by joblib or pickle."
        )
    try:
        return joblib.load(path)
    except OSError:
        raise
    except Exception as error:
        if _start(path).startswith((_PICKLE, *_COMPRESSED)):
            raise ValueError(f"joblib and pickle cannot load {path} here: {error}") from error
        # The error would be about what a text says to pickle, and quote it.
        raise ValueError(
            f"joblib and pickle cannot load {path}, which is no saved estimator: give a file that "
            "joblib.dump or pickle.dump wrote; of a ledger or a report, leave out --trust-pickle."
        ) from None
