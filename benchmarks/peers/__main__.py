"""This package beside other libraries and published methods, in one command.

    python -m benchmarks.peers --results fits.jsonl [--quick] [--group held_out] [--mnist mnist.npz]
    python -m benchmarks.peers.rankings fits.jsonl

The second writes the files, and draws the picture, of docs/peers.rst.

Environments for diffprivlib, Opacus, DP-EBM (interpret), JAX, SmartNoise and BinAgg are built at the
first run, in the user's cache or ``--cache``; a peer that cannot be installed is named, with the reason,
and left out. ``--source`` takes a peer from a folder instead. AdaSSP and its boosted form, TukeyEM,
objective perturbation, trees with random splits, and a parametric bootstrap are written from their papers
and run with this package's own Python.

Every method gets the same files, splits, seeds and bounds, and is given up after two minutes of CPU time or
12 GB for a fit. SmartNoise's synthesizers take hours: they are asked if ``--slow`` says so, once for each
table, at epsilon 1. Printed are, for each
question, what each method guarantees, and a table of medians over seeds with their standard errors (1.25
deviations over the root of the number of seeds), tuned methods apart: what is tuned was chosen on another
split, which favours it, since the choice is not paid for and that split shares rows with those that are
reported. This package is never tuned. Seconds are of CPU time of one thread, compilation and accounting in a
process's first fits included. Probabilities below 1e-6 count as 1e-6 in log losses. What is measured is said
in `questions.py`.

``--quick`` takes fewer seeds and smaller tables. ``--results`` keeps every single fit as a line of JSON, and
does not ask again for what its file holds, so that a run which was stopped goes on; ``--again`` asks for what
another code of this package answered, and the later answer counts. ``--results FILE --peers skdpbayes
"skdpbayes, add or remove" --again`` measures this package anew beside peers that were measured.
"""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.peers.asking import Asker, keep_fits, read_fits
from benchmarks.peers.environments import REQUIREMENTS, default_cache
from benchmarks.peers.questions import FULL, QUESTIONS, QUICK
from benchmarks.peers.report import section
from benchmarks.refresh import code_hash


def parsed():
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.peers", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--quick", action="store_true", help="fewer seeds and smaller tables")
    parser.add_argument("--questions", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--seeds", type=int, help="instead of 5, or 3 with --quick")
    parser.add_argument("--epsilons", type=float, nargs="+", help="instead of 0.1, 1, ln 3 and 3")
    parser.add_argument(
        "--peers", nargs="+", metavar="NAME", help="these alone, as tables name them"
    )
    parser.add_argument("--slow", action="store_true", help="ask those that take minutes, too")
    parser.add_argument("--untuned", action="store_true", help="leave tuning out, half of the time")
    parser.add_argument(
        "--group", choices=["work", "held_out"], default="work", help="of real tables"
    )
    parser.add_argument("--real", nargs="+", metavar="NAME", help="these real tables instead")
    parser.add_argument("--mnist", metavar="PATH", help="X_train, y_train, X_test, y_test")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="of environments")
    parser.add_argument(
        "--source", action="append", default=[], metavar="PEER=PATH", help="instead of a registry's"
    )
    parser.add_argument("--results", type=Path, help="file of single fits, gone on with")
    parser.add_argument(
        "--again", action="store_true", help="ask for what other code answered, too"
    )
    parser.add_argument("--processes", type=int, default=2, help="environments at the same time")
    arguments = parser.parse_args()
    if not (arguments.peers or arguments.slow):
        peers = (peer for _, peers, _ in QUESTIONS.values() for peer in peers)
        arguments.peers = [peer.name for peer in peers if not peer.is_slow]
    arguments.sources = dict(source.partition("=")[::2] for source in arguments.source)
    if unknown := set(arguments.sources) - set(REQUIREMENTS):
        parser.error(f"--source names {sorted(unknown)}; peers are {sorted(REQUIREMENTS)}.")
    return arguments


def measured(arguments):
    """Yield (question, records)."""
    size = QUICK if arguments.quick else FULL
    if arguments.seeds:
        few = min(size.n_large, arguments.seeds)
        size = size._replace(n_seeds=arguments.seeds, n_large=few, n_tables=8 * arguments.seeds)
    if arguments.epsilons:
        size = size._replace(epsilons=tuple(arguments.epsilons))
    if arguments.untuned:
        size = size._replace(is_tuned=False)
    code, known, keep = code_hash(["peers.run_skdpbayes"]), [], None
    if arguments.results:
        keep = partial(keep_fits, arguments.results, code)
        known = read_fits(arguments.results, code if arguments.again else None)
    with tempfile.TemporaryDirectory() as folder:
        asker = Asker(
            arguments.cache,
            arguments.sources,
            folder,
            tell,
            keep,
            arguments.peers,
            known,
            arguments.processes,
        )
        for question in arguments.questions:
            records = QUESTIONS[question][0](asker, size, arguments)
            if arguments.results:  # With what was measured before, of other peers say.
                records = [
                    one for one in read_fits(arguments.results) if one["question"] == question
                ]
            yield question, records


def tell(line):
    """Print progress beside the tables, not among them."""
    print(line, file=sys.stderr, flush=True)


def main():
    """Run what the command line asks for."""
    arguments = parsed()
    for question, records in measured(arguments):
        ask, peers, scores = QUESTIONS[question]
        if not records:
            continue
        title = question.capitalize()
        print("\n".join(section(title, ask.__doc__, records, peers, scores)), flush=True)


if __name__ == "__main__":
    main()
