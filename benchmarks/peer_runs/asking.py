"""How a question is put to all peers: the same files, splits and seeds for each."""

import contextlib
import itertools
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .environments import NotInstallableError, python_of, run_jobs

DELTA = 1e-5


class Cell(NamedTuple):
    """One fit to ask for.

    Attributes
    ----------
    table : str
    epsilon : float
    seed : int
    data : Path
    """

    table: str
    epsilon: float
    seed: int
    data: Path


class Asker:
    """Runs jobs in the peers' environments.

    Parameters
    ----------
    cache : Path
        Of the environments.
    sources : dict
        See `environments.python_of`.
    folder : Path
        For files in between.
    tell : callable
        Takes lines about progress.
    keep : callable or None
        Takes the records of each environment as soon as they are there.
    only : collection of str or None
        Names of peers; the others are not asked.
    """

    def __init__(self, cache, sources, folder, tell=print, keep=None, only=None):
        self.cache, self.sources, self.folder, self.tell = cache, sources, Path(folder), tell
        self.keep, self.only = keep, only
        self.missing, self._pythons, self._ids = {}, {}, itertools.count()

    def save(self, name, arrays):
        """Return the path of a file with the arrays of jobs."""
        path = self.folder / f"{name}.npz"
        np.savez(path, **arrays)
        return path

    def python(self, runner):
        """Return the Python of a runner, or None if it cannot be installed."""
        if runner not in self._pythons:
            try:
                self._pythons[runner] = python_of(runner, self.cache, self.sources)
            except NotInstallableError as error:
                self._pythons[runner] = None
                self.missing[runner] = f"not installable: {error}"
                self.tell(f"{runner}: {self.missing[runner]}")
        return self._pythons[runner]

    def ask(self, requests):
        """Return (arrays or None, CPU seconds or the text of an error) for each (peer, cell, options)."""
        answers, by_runner = [None] * len(requests), {}
        for place, (peer, cell, options) in enumerate(requests):
            job = {
                "id": next(self._ids),
                "method": peer.method,
                "data": str(cell.data),
                "seed": cell.seed,
                "options": budget(cell.epsilon) | peer.options | options,
            }
            job["output"] = str(self.folder / f"answer{job['id']}.npz")
            by_runner.setdefault(peer.runner, []).append((place, job))
        for runner, jobs in by_runner.items():
            python = self.python(runner)
            if python is None:
                for place, _ in jobs:
                    answers[place] = None, self.missing[runner]
                continue
            self.tell(f"{runner}: {len(jobs)} fits")
            found = run_jobs(python, f"run_{runner}", [job for _, job in jobs], self.folder)
            for place, job in jobs:
                answers[place] = read_answer(found[job["id"]], job["output"])
        return answers


def read_answer(answer, path):
    """Return (arrays, seconds), or (None, text), and delete the file."""
    if "error" in answer:
        return None, answer["error"]
    with np.load(path) as data:
        arrays = dict(data)
    Path(path).unlink()
    return arrays, answer["seconds"]


def budget(epsilon):
    """Return the options that say what may be spent."""
    from skdpbayes.privacy import Budget

    if math.isinf(epsilon):
        return {}
    return {"epsilon": epsilon, "delta": DELTA, "mu": Budget(epsilon, DELTA).mu}


def measure(asker, question, peers, cells, score, tuning=(), criterion=None):
    """Return records: dicts with question, table, epsilon, seed, peer, is_tuned, and scores or an error.

    Parameters
    ----------
    asker : Asker
    question : str
    peers : sequence of Peer
    cells : list of Cell
    score : callable
        Takes (arrays of the answer, data file) and returns {name: number}.
    tuning : list of Cell, default=()
        On other seeds; options of peers with a grid are chosen by them, for each table and epsilon.
    criterion : str, default=None
        The score that is to be small there.
    """
    peers = [peer for peer in peers if not asker.only or peer.name in asker.only]
    chosen = choose(asker, peers, tuning, score, criterion)
    records = []
    for runner in dict.fromkeys(peer.runner for peer in peers):
        requests, labels = [], []
        for peer in peers:
            if peer.runner != runner:
                continue
            for cell in cells if peer.is_private else without_budgets(cells):
                options = chosen.get((peer.name, cell.table, cell.epsilon))
                for extra in [{}] if options is None else [{}, options]:
                    requests.append((peer, cell, extra))
                    labels.append((question, peer.name, cell, bool(extra)))
        answers = asker.ask(requests)
        found = [
            record_of(*label, answer, score) for label, answer in zip(labels, answers, strict=True)
        ]
        if asker.keep:
            asker.keep(found)
        records += found
    return records


def record_of(question, name, cell, is_tuned, answer, score):
    """Return the record of one answer; one that cannot be scored, for NaN say, has an error."""
    record = {
        "question": question,
        "table": cell.table,
        "epsilon": cell.epsilon,
        "seed": cell.seed,
        "peer": name,
        "is_tuned": is_tuned,
    }
    arrays, seconds = answer
    if arrays is None:
        return record | {"error": seconds}
    try:
        return record | score(arrays, cell.data) | {"seconds": seconds}
    except ValueError as error:
        return record | {"error": f"cannot be scored: {' '.join(str(error).split())[:150]}"}


def choose(asker, peers, tuning, score, criterion):
    """Return {(peer's name, table, epsilon): options} with the smallest median of a score."""
    requests = [(peer, cell, options) for peer in peers for options in peer.grid for cell in tuning]
    found = {}
    for (peer, cell, options), (arrays, _) in zip(requests, asker.ask(requests), strict=True):
        value = math.inf
        if arrays is not None:
            # What cannot be scored is not chosen.
            with contextlib.suppress(ValueError):
                value = score(arrays, cell.data)[criterion]
        place = peer.grid.index(options)
        of_cell = found.setdefault((peer.name, cell.table, cell.epsilon), {})
        of_cell.setdefault(place, []).append(value)
    grids = {peer.name: peer.grid for peer in peers}
    chosen = {}
    for key, values in found.items():
        best = min(values, key=lambda place: np.median(values[place]))
        if np.isfinite(np.median(values[best])):
            chosen[key] = grids[key[0]][best]
    return chosen


def without_budgets(cells):
    """Return each (table, seed) once, with an infinite epsilon."""
    kept = {(cell.table, cell.seed): cell._replace(epsilon=math.inf) for cell in cells}
    return list(kept.values())
