"""The command line: ``python -m skdpbayes plan``, ``ledger``, ``report`` and ``warm-up``.

Each command is a function that adds its arguments to a parser, and one that returns what is printed.
"""

import argparse
import ast
import json
import math
import os
import sys
import time
import warnings
from pathlib import Path

import joblib
import numpy as np
from sklearn.base import clone

from . import __version__
from .exceptions import LedgerFileError
from .linear_model import DPBayesianLogisticRegression, DPBayesianPoissonRegressor, DPBayesianRidge
from .mixture import DPGaussianMixturePosterior
from .neural_network import DPBayesianMLPClassifier
from .privacy import PrivacyLedger, PrivacyReport, privacy_report
from .privacy.budget import round_down_epsilon
from .privacy.losses import PERSON_RELATIONS, RELATIONS
from .report import SCHEMA
from .samplers import cache_folder
from .samplers.auto import CHAINS, Auto
from .samplers.base import samplers_by_name

# What the beginning of a report in each form has. Nothing else is overwritten.
_MARKS = {
    "html": b'<meta name="generator" content="skdpbayes">',
    "markdown": b"# Privacy report",
    "json": f'"schema": "{SCHEMA}"'.encode(),
}
_STDOUT = "-"
# First bytes of a file that SQLite reads.
_SQLITE = b"SQLite format 3\0"
# First byte of a pickle.
_PICKLE = b"\x80"
# First bytes of pickles that joblib has compressed.
_COMPRESSED = (b"x\x01", b"x\x5e", b"x\x9c", b"x\xda", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"]\0\0")
# Ends of the names of ledgers' files.
_LEDGERS = ("", ".ledger", ".sqlite", ".sqlite3", ".db")


def add_report_arguments(parser):
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


def report_command(options):
    """The report, or what file it was written to."""
    form = next(
        (form_name for form_name in _MARKS if getattr(options, form_name) is not None), "json"
    )
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
    given = [path for path in (options.file, options.ledger) if path and os.path.exists(path)]
    same = any(os.path.samefile(out, path) for path in given)
    if not same and os.path.isfile(out):
        with open(out, "rb") as file:
            if _MARKS[form] in file.read(512):
                return
    raise ValueError(f"{out} exists and is no report in this form: choose another file.")


def _saved(path):
    """The report that a file of JSON holds, or None if it does not begin like one."""
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
    """The ledger of a file; a LedgerFileError says what a file without one is to the command."""
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
    """The first bytes of a file, None if there is none that can be read."""
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


# Short names of the estimators.


ESTIMATORS = {
    "logistic": DPBayesianLogisticRegression,
    "mixture": DPGaussianMixturePosterior,
    "network": DPBayesianMLPClassifier,
    "poisson": DPBayesianPoissonRegressor,
    "ridge": DPBayesianRidge,
}


# The command line of ledgers: ``python -m skdpbayes ledger show FILE`` shows what is spent and left.


_SHOWN = ("time", "estimator", "sampler", "epsilon", "total_epsilon", "status", "label")


def show(options):
    """The contents of a ledger, as text or JSON."""
    ledger = PrivacyLedger.open(options.file)
    if options.json:
        return json.dumps(privacy_report(ledger), indent=2, allow_nan=False)
    return describe(ledger)


def history(options):
    """All charges of a ledger, oldest first, as a table or JSON."""
    ledger = PrivacyLedger.open(options.file)
    if options.json:
        releases = privacy_report(ledger)["details"]["releases"]
        return json.dumps(releases, indent=2, allow_nan=False)
    return "\n".join(_table(ledger.records()))


def create(options):
    """Create the file of a ledger, and return its contents."""
    if Path(options.file).exists():
        raise LedgerFileError(
            f"{options.file} exists already, and its budget cannot be changed: choose another file."
        )
    relation = options.neighboring_relation
    return describe(PrivacyLedger(options.epsilon, options.delta, relation, path=options.file))


def describe(ledger):
    """A ledger as readable text."""
    budget, records = ledger.budget, ledger.records()
    at_delta = f"at delta = {budget.delta:g}"
    spent = records[-1]["total_epsilon"] if records else 0.0
    epsilon_left, plural = (
        round_down_epsilon(ledger.remaining_epsilon),
        "" if len(records) == 1 else "s",
    )
    facts = {
        "budget": f"epsilon = {budget.epsilon:g} {at_delta}",
        "protects": budget.neighboring_relation.replace("_", "-"),
        "spent": f"epsilon = {spent:.4g} in {len(records):,} release{plural}",
        "left": f"one more may have epsilon = {epsilon_left:g} {at_delta}"
        if epsilon_left
        else "nothing",
    }
    lines = [f"Privacy ledger {ledger.path}"]
    lines += [f"  {name:<10}{text}" for name, text in facts.items()]
    return "\n".join(lines + (["", *_table(records)] if records else []))


def _table(records):
    rows = [_SHOWN, *([_cell(record[name]) for name in _SHOWN] for record in records)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _cell(value):
    return f"{value:.4g}" if isinstance(value, float) else (value or "-")


def add_ledger_arguments(parser):
    """Add this command's arguments."""
    commands = parser.add_subparsers(required=True, metavar="ACTION")
    command = commands.add_parser("show", help="what is spent, by what, and what is left")
    command.add_argument("file", metavar="FILE")
    command.add_argument("--json", action="store_true", help="as a privacy report")
    command.set_defaults(act=show)
    command = commands.add_parser("history", help="every release, oldest first")
    command.add_argument("file", metavar="FILE")
    command.add_argument(
        "--json", action="store_true", help="as a list, with all numbers of each cost"
    )
    command.set_defaults(act=history)
    command = commands.add_parser("create", help="create a ledger with nothing spent")
    command.add_argument("file", metavar="FILE")
    command.add_argument("--epsilon", type=float, required=True)
    command.add_argument("--delta", type=float, required=True)
    command.add_argument(
        "--neighboring-relation",
        choices=sorted({**RELATIONS, **PERSON_RELATIONS}),
        default="replace_one",
        help="which tables count as neighbours (default: replace_one)",
    )
    command.set_defaults(act=create)


def ledger_command(options):
    """The output of the command."""
    return options.act(options)


# ``plan``: show what a fit would do and cost, without any data.


_ONLY_FOR = {"classes": ("logistic", "network"), "components": ("mixture",)}


def _parameter(text):
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value  # A word, such as the name of a sampler.


def add_plan_arguments(parser):
    """Add this command's arguments."""
    parser.add_argument("estimator", choices=tuple(ESTIMATORS))
    parser.add_argument(
        "--rows", type=int, required=True, help="rows of the table, a public number"
    )
    parser.add_argument(
        "--columns", type=int, required=True, help="columns that reach the estimator"
    )
    parser.add_argument("--epsilon", type=float, default=1.0, help="(default: 1)")
    parser.add_argument("--delta", type=float, help="(default: min(1e-5, 0.1 / rows))")
    parser.add_argument("--sampler", help="a sampler's name (default: auto)")
    parser.add_argument(
        "--classes", type=int, help="number of classes, of classifiers (default: 2)"
    )
    parser.add_argument(
        "--components", help="number of components, of mixtures: an integer or auto (default: 1)"
    )
    parser.add_argument("--neighboring-relation", choices=sorted(RELATIONS))
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        type=_parameter,
        action="append",
        default=[],
        help="any other parameter of the estimator, e.g. --set data_norm=2 --set sampler__friction=0.1",
    )
    parser.add_argument("--json", action="store_true", help="as a privacy report")


def plan_command(options):
    """The plan, as text or JSON."""
    for name, estimators in _ONLY_FOR.items():
        if getattr(options, name) is not None and options.estimator not in estimators:
            raise ValueError(
                f"--{name} is for {' and '.join(estimators)}, not for {options.estimator}: leave it out."
            )
    given = {
        "epsilon": options.epsilon,
        "delta": options.delta,
        "sampler": options.sampler,
        "n_components": options.components and _parameter(f"={options.components}")[1],
        "neighboring_relation": options.neighboring_relation,
    }
    estimator = ESTIMATORS[options.estimator]()
    estimator.set_params(**{name: value for name, value in given.items() if value is not None})
    estimator.set_params(**dict(options.set))
    classes = {} if options.classes is None else {"n_classes": options.classes}
    plan = estimator.privacy_plan(options.rows, options.columns, **classes)
    if options.json:
        return json.dumps(privacy_report(plan), indent=2, allow_nan=False)
    return "\n".join([str(plan), *(f"Warning: {text}" for text in plan.warnings)])


# ``warm-up``: compile code ahead of time, so that the first fits need not wait.
#
# Every fit below is of a small synthetic table, and its compiled code serves tables of any size. The
# table is just large enough to use several cores, for which separate code is compiled.


_SHAPE = (6000, 60)
_N_STEPS = 20


def _usual():
    """Yield (name of the estimator, number of classes, parameters) of the most common fits."""
    # The posterior given statistics is the default for few coefficients; what compiles is their sums.
    yield "logistic", 2, {}
    yield "ridge", 2, {"target_bounds": (0.0, 1.0)}
    for kind in CHAINS:
        for n_classes in (2, 3):
            yield "logistic", n_classes, {"sampler": kind(n_steps=_N_STEPS)}
        # Labels 0 and 1 are counts, too.
        yield "poisson", 2, {"sampler": kind(n_steps=_N_STEPS), "max_count": 1}
    for shape in ("diag", "full"):
        yield "mixture", 0, {"covariance_type": shape}
    yield "network", 2, {"hidden_layer_sizes": (8,), "sampler__n_steps": _N_STEPS}


def _others():
    """Yield the same for all other samplers, for more classes, and for batches."""
    compiled = [
        kind
        for kind in samplers_by_name().values()
        if kind is not Auto and kind.releases != "statistics"
    ]
    for kind in compiled:
        short = kind(n_steps=_N_STEPS)
        if kind not in CHAINS and "linear" in kind.targets:
            for n_classes in (2, 3):
                yield "logistic", n_classes, {"sampler": short}
        if "network" in kind.targets:
            yield "logistic", 2, {"sampler": clone(short).set_params(batch_size=100)}
            yield "network", 2, {"sampler": short}
        if "mixture" in kind.targets:
            for shape in ("diag", "full"):
                kinds = {"sampler": short, "covariance_type": shape}
                yield "mixture", 0, {"epsilon": math.inf, **kinds}


def warm_up(names, everything):
    """Compile the code for fits of some estimators, and print how long each takes."""
    generator = np.random.default_rng(0)
    X = generator.standard_normal(_SHAPE)  # Public: rows that are made up.
    begun = time.perf_counter()
    for name, n_classes, parameters in [*_usual(), *(_others() if everything else ())]:
        if name not in names:
            continue
        # Mixtures do not need many columns.
        table = X[:, :3].copy() if name == "mixture" else X
        # Public: labels that are made up.
        y = generator.integers(n_classes, size=len(X)) if n_classes else None
        started = time.perf_counter()
        ESTIMATORS[name](n_draws=5).set_params(**parameters).fit(table, y)
        shown = ", ".join(f"{key}={value!r}" for key, value in parameters.items()) or "defaults"
        classes = f", {n_classes} classes" if n_classes > 2 else ""
        print(f"{name} ({shown}{classes}): {time.perf_counter() - started:.1f} s", flush=True)
    print(
        f"{time.perf_counter() - begun:.0f} s in total; compiled code is stored in {cache_folder()}"
    )


def add_warm_up_arguments(parser):
    """Add this command's arguments."""
    parser.add_argument(
        "--estimators",
        nargs="+",
        choices=tuple(ESTIMATORS),
        default=tuple(ESTIMATORS),
        help="which estimators (default: all)",
    )
    parser.add_argument(
        "--all", action="store_true", help="every sampler, not only those used by default"
    )


def warm_up_command(options):
    """Compile the code that the options ask for."""
    with warnings.catch_warnings(action="ignore"):
        warm_up(options.estimators, options.all)


_COMMANDS = {
    "plan": (
        add_plan_arguments,
        plan_command,
        "show what a fit would do and cost, without any data",
    ),
    "ledger": (
        add_ledger_arguments,
        ledger_command,
        "create and show files that keep one budget for many fits",
    ),
    "report": (
        add_report_arguments,
        report_command,
        "report what was protected, as JSON, Markdown or a page to sign",
    ),
    "warm-up": (
        add_warm_up_arguments,
        warm_up_command,
        "compile code ahead of time, so that the first fits need not wait",
    ),
}


def main(arguments=None):
    """Run a command.

    Parameters
    ----------
    arguments : list of str or None, default=None
        None uses the arguments of the process.
    """
    parser = argparse.ArgumentParser(
        prog="skdpbayes", description="Differentially private Bayesian estimators: bookkeeping."
    )
    parser.add_argument("--version", action="version", version=f"skdpbayes {__version__}")
    commands = parser.add_subparsers(required=True, metavar="{" + ",".join(_COMMANDS) + "}")
    for name, (add_arguments, run, what) in _COMMANDS.items():
        command = commands.add_parser(name, help=what, description=what.capitalize() + ".")
        command.set_defaults(run=run)
        add_arguments(command)
    options = parser.parse_args(arguments)
    try:
        said = options.run(options)
    except BrokenPipeError:
        _stop_writing()
    except (LedgerFileError, ValueError, TypeError, OSError) as error:
        parser.exit(1, f"{error}\n")
    try:
        if said:
            print(said, flush=True)
    except BrokenPipeError:
        _stop_writing()


def _stop_writing():
    """End without a word if nobody reads on, as behind ``| head``."""
    # Python writes what is left when it ends.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(1)
