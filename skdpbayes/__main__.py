"""The command line: ``python -m skdpbayes plan``, ``ledger``, ``report`` and ``warm-up``."""

import argparse
import os
import sys

from . import __version__, ledger
from ._commands import plan, report, warm_up
from .exceptions import LedgerFileError

_COMMANDS = {
    "plan": (plan, "show what a fit would do and cost, without any data"),
    "ledger": (ledger, "create and show files that keep one budget for many fits"),
    "report": (report, "report what was protected, as JSON, Markdown or a page to sign"),
    "warm-up": (warm_up, "compile code ahead of time, so that the first fits need not wait"),
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
    for name, (module, what) in _COMMANDS.items():
        command = commands.add_parser(name, help=what, description=what.capitalize() + ".")
        command.set_defaults(run=module.run)
        module.add_arguments(command)
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


if __name__ == "__main__":
    main()
