"""``report``: what was protected, how strongly and by what, as JSON."""

import json
import os

import joblib

from ..exceptions import LedgerFileError
from ..privacy import PrivacyLedger, privacy_report


def add_arguments(parser):
    """Add this command's arguments."""
    parser.add_argument("file", metavar="FILE", help="a ledger's file, or a pickled estimator")
    parser.add_argument(
        "--trust-pickle",
        action="store_true",
        help="FILE is an estimator saved by joblib or pickle. Loading it runs any code that it "
        "contains, so use this only for files that you trust",
    )


def run(options):
    """Return the report."""
    subject = (_unpickled if options.trust_pickle else _ledger)(options.file)
    return json.dumps(privacy_report(subject), indent=2, allow_nan=False)


def _ledger(path):
    try:
        return PrivacyLedger.open(path)
    except LedgerFileError as error:
        if not os.path.exists(path):
            raise
        raise LedgerFileError(
            f"if {path} is a saved estimator, add --trust-pickle; otherwise, {error}"
        ) from error


def _unpickled(path):
    try:
        return joblib.load(path)
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f"joblib and pickle cannot load {path} here: {error}") from error
