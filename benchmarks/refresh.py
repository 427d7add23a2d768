"""Measure the figures of the documentation again, and tell which are of other code.

    python -m benchmarks.refresh [--only coverage.csv ...] [--adult adult.csv] [--mnist mnist.npz]
    python -m benchmarks.refresh --check
    python -m benchmarks.refresh --carry-over COMMIT

Figures of the pages on benchmarks, of README.md and of the paper are read from files in ``docs/results``.
`TASKS` has the command that writes each. `measured.json`, beside them, says of each file by which code,
when and in how many seconds it was measured. Code is that of the package and of the benchmark's module,
without comments and docstrings. What is of the present code is not measured again, so that a run which was
stopped goes on. A file is replaced when its command has ended well.

Two tasks run at the same time, with a thread each, and those that measure time afterwards, alone. Other
libraries' fits do not depend on this package, and are kept in ``--work``.

``--check`` measures nothing, and fails if a file is of other code, or a page has a figure that no file has:
tables and pictures read files, and so do figures within a sentence, by the role ``result``. A figure of
README.md or the paper stands before a comment that names file, lines and cell as that role does, and is
written from it after a measurement.

``--carry-over`` is for changes of messages and the like: what was measured with the code of a commit counts
as of the present code if `benchmarks.fingerprint` has the same hashes with both, and the script has the same
code but for which warnings it leaves out: no warning is shown while it measures. Times do not.
"""

import argparse
import ast
import hashlib
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from benchmarks.papers.results import VERDICTS, merge, read_verdicts
from benchmarks.peers.environments import default_cache
from benchmarks.results import FOLDER, figure_of
from skdpbayes._compute.gradients import code_of

ROOT = Path(__file__).parents[1]
RECORD = FOLDER / "measured.json"
# Documents whose figures comments name.
STATING = (ROOT / "README.md", ROOT / "paper" / "paper.md")
# Parts of the package on which no figure depends.
UNMEASURED = {"audit", "descriptive", "report", "_cli.py", "__init__.py", "__main__.py"}
# Of the files that tasks share.
_LOCK = Lock()


class Task(NamedTuple):
    """A command of `benchmarks`, and the files that it writes.

    Attributes
    ----------
    files : str
        Names, separated by spaces.
    command : str
        Without ``python -m benchmarks.``; several are separated by ``&&``. ``{folder}`` is where files are
        to be, ``{work}`` a folder that is kept, and ``{adult}`` and ``{mnist}`` are files that a user has.
    is_alone : bool
        Whether it measures time.
    has_verdicts : bool
        Whether it writes lines of ``papers.csv``, too, which several tasks share.
    """

    files: str
    command: str
    is_alone: bool = False
    has_verdicts: bool = False

    @property
    def modules(self):
        """Return the modules that the command runs."""
        return [part.split()[0] for part in self.command.split(" && ")]


def task(files, command, **options):
    """Return a `Task`; of a single file, ``--results`` is added to each command that lacks it."""
    results = f" --results {{folder}}/{files}"
    parts = [part if "--results" in part else part + results for part in command.split(" && ")]
    return Task(files, " && ".join(parts), **options)


def paper(files, command):
    """Return the `Task` of a script of `benchmarks.papers`."""
    names = " ".join(f"papers_{name}.csv" for name in files.split())
    return Task(names, f"papers.{command} --folder {{folder}}", has_verdicts=True)


_OURS = "--peers skdpbayes 'skdpbayes, add or remove'"
_ASKED = "--results {work}/fits.jsonl --mnist {mnist}"
_LINEAR = "regression.linear --methods clipped_residuals --epsilons 0.1 0.3 1 3 10 --designs"
_OF_ERRORS = "uniform decaying binary skewed student varying exponential"
TASKS = (
    # docs/benchmarks.rst
    task("samplers.csv", "classification.samplers {adult}"),
    task("base_rate.csv", "classification.base_rate --designs held_out cancer --repetitions 8"),
    task(
        "private_workflow.csv",
        "classification.private_workflow --tables census --seeds 20 && "
        "classification.private_workflow --tables wages --search && "
        "classification.private_workflow --tables flights --seeds 3",
    ),
    task("selection.csv", "classification.selection"),
    task("mixture_density.csv", "mixture.density"),
    task("mixture_intervals.csv", "mixture.intervals --sizes 20000 --epsilons 0.3 1 10"),
    task("mixture_kmeans.csv", "mixture.kmeans --seeds 10"),
    task("network_digits.csv", "network.digits digits --mnist {mnist} --seeds 2"),
    task("network_tables.csv", "network.digits tables --adult {adult}"),
    task(
        "walks_modes.csv",
        "metropolis modes --samplers dp_fast_mh dp_fast_mh_gaussian sgld --epsilons 0.1 0.3 1 "
        "--seeds 2",
    ),
    task(
        "walks_mnist.csv",
        "metropolis mnist {mnist} --samplers dp_fast_mh dp_fast_mh_gaussian sghmc noise_aware",
    ),
    task("walks_speed.csv", "metropolis speed", is_alone=True),
    task("network_speed.csv", "network.speed --mnist {mnist}", is_alone=True),
    task("cores.csv", "speed.cores --only default counts start", is_alone=True),
    # docs/benchmarks_intervals.rst
    task("real_designs.csv", "intervals.real_designs"),
    task("coverage.csv", "intervals.coverage --largest 20000 --repetitions 12"),
    task(
        "coverage_large.csv",
        "intervals.coverage --smallest 100000 --designs sparse onehot --repetitions 3",
    ),
    task(
        "coverage_three_classes.csv",
        "intervals.coverage --classes 3 --largest 20000 --columns 10 --epsilons 0.1 1 10 "
        "--repetitions 6",
    ),
    task(
        "learnt_scales.csv",
        "intervals.assumptions --grid --sizes 5000x10 20000x40 --epsilons 0.1 1 10 --repetitions 8",
    ),
    task("assumptions.csv", "intervals.assumptions --repetitions 40"),
    task("wide_bounds.csv", "intervals.wide_bounds --largest 10000 --repetitions 8"),
    task("skewed_errors.csv", "intervals.skewed_errors"),
    task("laws_of_counts.csv", "intervals.laws_of_counts"),
    task("wide.csv", "intervals.wide"),
    task("real_tables.csv", "intervals.real_tables"),
    task("scores.csv", "intervals.scores"),
    # docs/benchmarks_numbers.rst
    task(
        "regression.csv",
        f"{_LINEAR} {_OF_ERRORS} ball --sizes 2000x5 --repetitions 12 && "
        f"{_LINEAR} {_OF_ERRORS} --sizes 20000x10 --repetitions 6 && "
        f"{_LINEAR} {_OF_ERRORS} --sizes 20000x40 --repetitions 3",
    ),
    task(
        "regression_methods.csv",
        "regression.linear --designs uniform decaying binary skewed --sizes 20000x10 "
        "--repetitions 6",
    ),
    task(
        "regression_bounds.csv",
        "regression.linear --bounds 1 10 100 1000 auto --sizes 20000x10 2000x5 --repetitions 6 "
        "--epsilons 0.3 1 3",
    ),
    task("regression_tables.csv", "regression.tables"),
    task(
        "counts.csv",
        "regression.counts --first 300 --sizes 10000x5 --repetitions 3 && "
        "regression.counts --first 300 --sizes 20000x10 --repetitions 2 && "
        "regression.counts --first 300 --sizes 5000x20 --designs decaying --repetitions 2",
    ),
    # docs/peers.rst: fits of this package anew, and of others those that are not kept.
    Task(
        "peers_real.csv peers_real_summary.csv peers_real_losses.csv peers_others.csv",
        f"peers {_ASKED} {_OURS} --again && peers {_ASKED} && "
        "peers.rankings {work}/fits.jsonl --folder {folder}",
    ),
    # docs/papers.rst
    paper(
        "one_sample sgld_noise free_sgld objective_perturbation",
        "wang_fienberg_smola_2015 --rows 1000",
    ),
    paper("sgld_steps sgld_accuracy", "li_chen_liu_carin_2019 --mnist {mnist} --full --seeds 3"),
    paper(
        "minibatch_barker minibatch_barker_costs", "heikkila_jalko_dikmen_honkela_2019 --seeds 8"
    ),
    paper("bayes_by_backprop", "bayes_by_backprop_2020"),
    paper("last_iterates", "ryffel_bach_pointcheval_2022"),
    paper("dp_fast_mh digits_total", "zhang_zhang_2023 --mnist {mnist} --seeds 3"),
    # docs/guide/dask.rst
    task("dask_categories.csv", "speed.dask_categories", is_alone=True),
    # docs/scale.rst
    task("scale.csv", "speed.scale", is_alone=True),
    # README.md
    task("votes.csv", "classification.votes"),
    # docs/tools.rst
    task("calibration.csv", "classification.calibration"),
)


def code_hash(modules, root=ROOT):
    """Return a hash of the package's code and of modules of `benchmarks`."""
    package = root / "skdpbayes"
    paths = [
        path
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package).parts[0] not in UNMEASURED
    ]
    digest = hashlib.sha256()
    for path in paths + paths_of(modules, root):
        digest.update(f"{path.relative_to(root)} {_code_at(path)}".encode())
    return digest.hexdigest()[:16]


def paths_of(modules, root):
    """Return the files of modules of `benchmarks`."""
    paths = []
    for name in modules:
        path = root / "benchmarks" / name.replace(".", "/")
        paths += sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    return paths


@cache
def _code_at(path):
    return code_of(path.read_text())


def load_record():
    """Return {file: {"code": hash, "date": day, "seconds": number}}."""
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def is_current(task, record):
    """Return whether all files of a task are there and of the present code."""
    code = code_hash(task.modules)
    return all(
        (FOLDER / name).exists() and record.get(name, {}).get("code") == code
        for name in task.files.split()
    )


def measure(task, places):
    """Run a task; its files and the record are replaced if it ends well. Return whether it did."""
    code, start = code_hash(task.modules), time.time()
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    if not task.is_alone:
        environment["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        for part in task.command.split(" && "):
            words = [word.format(folder=folder, **places) for word in shlex.split(part)]
            command = [sys.executable, "-m", f"benchmarks.{words[0]}", *words[1:]]
            done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
            if done.returncode:
                return False
        for name in task.files.split():
            (FOLDER / name).write_bytes((Path(folder) / name).read_bytes())
        verdicts = read_verdicts(Path(folder) / VERDICTS)
    line = {"code": code, "date": time.strftime("%Y-%m-%d"), "seconds": round(time.time() - start)}
    with _LOCK:
        merge(FOLDER / VERDICTS, verdicts)
        record = load_record() | {name: line for name in task.files.split()}
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    return True


def refresh(tasks, places):
    """Measure what is not of the present code; return the tasks that failed or lack a file."""
    record, failed = load_record(), []
    wanted = [task for task in tasks if not is_current(task, record)]

    def run(task):
        lacking = [
            name for name, place in places.items() if not place and f"{{{name}}}" in task.command
        ]
        started = time.time()
        good = not lacking and measure(task, places)
        what = f"no file for {', '.join(lacking)}" if lacking else "measured" if good else "failed"
        print(f"{task.files}: {what}, {time.time() - started:.0f} s", flush=True)
        if not good:
            failed.append(task)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, (task for task in wanted if not task.is_alone)))
    for task in wanted:
        if task.is_alone:
            run(task)
    return failed


def carry_over(commit):
    """Count what a commit's code measured as of the present code, if fits are the same; return whether."""
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder)
        tree = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True
        )
        subprocess.run(["tar", "-x", "-C", folder], input=tree.stdout, check=True)
        fingerprint = "benchmarks/fingerprint.py"
        (old / fingerprint).write_text((ROOT / fingerprint).read_text())
        if _hashes(old) != _hashes(ROOT):
            return False
        record = load_record()
        for task in TASKS:
            before, after = (
                [_measuring_code_at(path) for path in paths_of(task.modules, root) if path.exists()]
                for root in (old, ROOT)
            )
            if task.is_alone or before != after:
                continue
            for name in task.files.split():
                if record.get(name, {}).get("code") == code_hash(task.modules, old):
                    record[name] |= {"code": code_hash(task.modules), "measured with": commit}
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    return True


class _WithoutWarnings(ast.NodeTransformer):
    """Leaves out which warnings are shown."""

    names = frozenset({"warnings", "ConvergenceWarning", "ignore_fit_warnings"})
    calls = frozenset({"warnings.filterwarnings", "warnings.simplefilter", "ignore_fit_warnings"})

    def visit_Expr(self, node):
        is_call = isinstance(node.value, ast.Call)
        return None if is_call and ast.unparse(node.value.func) in self.calls else node

    def visit_ImportFrom(self, node):
        node.names = [alias for alias in node.names if alias.name not in self.names]
        return node if node.names else None

    visit_Import = visit_ImportFrom


@cache
def _measuring_code_at(path):
    return code_of(ast.unparse(_WithoutWarnings().visit(ast.parse(path.read_text()))))


def _hashes(root):
    """Return what `benchmarks.fingerprint` prints with the code of a folder."""
    command = [sys.executable, "-m", "benchmarks.fingerprint"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=root, env=environment, stdout=subprocess.PIPE, check=True
    ).stdout


# A page's own figure: a number with decimals, or a percentage, outside of literals, directives and roles.
FIGURE = re.compile(r"(?<![\w.-])(?:\d+\.\d+|\d+%)(?!\w|\.\d)")
# What is no figure but a setting: budgets, levels of intervals, and splits of tables.
SETTING = re.compile(
    r"(?:epsilons?|ε|delta|mu|version|Python)\s*(?:=|of|at|is)?\s*[\d., /and]+|\d+% intervals"
)
# Pages of figures alone.
PAGES = ("benchmarks", "benchmarks_intervals", "benchmarks_numbers", "papers", "peers", "scale")
# A figure of README.md or of the paper, and what it is of.
STATED = re.compile(r"(\S+)<!-- ([\w.]+; [^>]*; [^>]*) -->")


def figures_of(text):
    """Return the figures that stand in the sentences and tables of a page itself."""
    text = re.sub(r"\n *\.\. [\w-]+::.*(?:\n(?:   .*)?)*", "\n", text)
    text = re.sub(r":\w+:`[^`]*`|``[^`]*``", "", text)
    return FIGURE.findall(SETTING.sub("", text))


def complaints():
    """Return what is wrong: files of other code, and figures of no file."""
    record, found = load_record(), []
    for task in TASKS:
        if not is_current(task, record):
            found.append(f"{task.files}: of other code, or not there")
    known = {VERDICTS}.union(*(task.files.split() for task in TASKS))
    for path in sorted(FOLDER.glob("*.csv")):
        if path.name not in known:
            found.append(f"{path.name}: nothing measures it")
    for name in PAGES:
        figures = figures_of((ROOT / "docs" / f"{name}.rst").read_text())
        if figures:
            found.append(f"docs/{name}.rst: {', '.join(figures)} are of no file")
    return found + wrong_in_documents()


def wrong_in_documents():
    """Return complaints about figures of README.md and of the paper that comments name otherwise."""
    return [
        f"{path.name}: {text} where {source} has {figure_of(source)}"
        for path in STATING
        for text, source in STATED.findall(path.read_text())
        if text != figure_of(source)
    ]


def write_documents():
    """Write the figures of README.md and of the paper that comments name, and README.md's picture."""
    for path in STATING:
        text = path.read_text()
        path.write_text(STATED.sub(lambda m: f"{figure_of(m[2])}<!-- {m[2]} -->", text))
    picture = runpy.run_path(str(ROOT / "docs" / "code" / "first_model.py"))
    picture["save"](ROOT / "docs" / "_static" / "first_model.svg")


def main():
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="FILE", help="tasks that write these")
    parser.add_argument("--adult", metavar="PATH", help="UCI Adult's training part")
    parser.add_argument("--mnist", metavar="PATH", help="X_train, y_train, X_test, y_test")
    parser.add_argument("--work", type=Path, default=default_cache() / "fits", help="what is kept")
    parser.add_argument("--check", action="store_true", help="measure nothing")
    parser.add_argument("--carry-over", metavar="COMMIT", help="if its fits are the same")
    arguments = parser.parse_args()
    if arguments.carry_over:
        is_same = carry_over(arguments.carry_over)
        print("Fits are the same." if is_same else "Fits differ: measure again.")
        return not is_same
    if arguments.check:
        found = complaints()
        print("\n".join(found) or "Every figure is of this code.")
        return bool(found)
    places = {"work": arguments.work, "adult": arguments.adult, "mnist": arguments.mnist}
    arguments.work.mkdir(parents=True, exist_ok=True)
    wanted = [
        task
        for task in TASKS
        if not arguments.only or set(task.files.split()) & set(arguments.only)
    ]
    failed = refresh(wanted, places)
    write_documents()
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
