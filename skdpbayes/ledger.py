"""The command line of ledgers: ``python -m skdpbayes ledger show FILE`` shows what is spent and left."""

import argparse
import json
from pathlib import Path

from .exceptions import LedgerFileError
from .privacy import PrivacyLedger, privacy_report
from .privacy.loss_distributions import PERSON_RELATIONS, RELATIONS
from .privacy.remaining import rounded_down

_SHOWN = ("time", "estimator", "sampler", "epsilon", "total_epsilon", "status", "label")


def show(options):
    """Return the contents of a ledger, as text or JSON."""
    ledger = PrivacyLedger.open(options.file)
    if options.json:
        return json.dumps(privacy_report(ledger), indent=2, allow_nan=False)
    return describe(ledger)


def history(options):
    """Return all charges of a ledger, oldest first, as a table or JSON."""
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
    """Return a ledger as readable text."""
    budget, records = ledger.budget, ledger.records()
    at_delta = f"at delta = {budget.delta:g}"
    spent = records[-1]["total_epsilon"] if records else 0.0
    left, plural = rounded_down(ledger.remaining_epsilon), "" if len(records) == 1 else "s"
    facts = {
        "budget": f"epsilon = {budget.epsilon:g} {at_delta}",
        "protects": budget.neighboring_relation.replace("_", "-"),
        "spent": f"epsilon = {spent:.4g} in {len(records):,} release{plural}",
        "left": f"one more may have epsilon = {left:g} {at_delta}" if left else "nothing",
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


def add_arguments(parser):
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


def run(options):
    """Return the output of the command."""
    return options.act(options)


def main(arguments=None):
    """Run ``python -m skdpbayes.ledger``."""
    parser = argparse.ArgumentParser(
        prog="python -m skdpbayes.ledger", description="Create and show files of privacy ledgers."
    )
    add_arguments(parser)
    options = parser.parse_args(arguments)
    try:
        print(run(options))
    except (LedgerFileError, ValueError) as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
