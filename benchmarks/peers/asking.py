"""How a question is put to all peers: the same files, splits and seeds for each."""

import contextlib
import itertools
import json
import math
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.peers.environments import NotInstallableError, python_of, run_jobs

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
    known : list of dict
        Records of earlier runs, which are not asked for again.
    n_processes : int
        Environments that work at the same time.
    """

    def __init__(
        self, cache, sources, folder, tell=print, keep=None, only=None, known=(), n_processes=1
    ):
        self.cache, self.sources, self.folder, self.tell = cache, sources, Path(folder), tell
        self.keep, self.only, self.n_processes = keep, only, n_processes
        self.known = {key_of(record): record for record in known if "error" not in record}
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

    def ask(self, requests, heard=None):
        """Return (arrays or None, CPU seconds or the text of an error) for each (peer, cell, options).

        ``heard`` is called with the place and the answer of each, as it comes.
        """
        answers, jobs, by_runner = [None] * len(requests), {}, {}
        for place, (peer, cell, options) in enumerate(requests):
            number = next(self._ids)
            jobs[number] = (
                place,
                {
                    "id": number,
                    "method": peer.method,
                    "data": str(cell.data),
                    "seed": cell.seed,
                    "options": budget(cell.epsilon) | peer.options | options,
                    "output": str(self.folder / f"answer{number}.npz"),
                },
            )
            by_runner.setdefault(peer.runner, []).append(jobs[number][1])

        def take(found):
            place, job = jobs[found["id"]]
            answers[place] = read_answer(found, job["output"])
            if heard:
                heard(place, answers[place])

        for runner, asked in by_runner.items():
            python = self.python(runner)
            if python is None:
                for job in asked:
                    take({"id": job["id"], "error": self.missing[runner]})
                continue
            self.tell(f"{runner}: {len(asked)} fits")
            run_jobs(python, f"run_{runner}", asked, self.folder, take)
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


def key_of(record):
    """Return what a record is of."""
    names = "question", "table", "epsilon", "seed", "peer", "is_tuned"
    return tuple(record[name] for name in names)


def read_fits(path, code=None):
    """Return the records of a file of fits, of each fit the last one; with a code, those that it answered."""
    if not path.exists():
        return []
    records = map(json.loads, path.read_text().splitlines())
    last = {key_of(record): record for record in records}.values()
    return [record for record in last if code in {None, record.get("code")}]


def keep_fits(path, code, records):
    """Add records to a file of fits, with a hash of this package's code."""
    lines = [json.dumps(record | {"code": code}, default=float) + "\n" for record in records]
    with path.open("a") as file:
        file.write("".join(lines))  # At once: environments answer at the same time.


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
    wanted = {}
    for peer in peers:
        if asker.only and peer.name not in asker.only:
            continue
        fits = [(peer, cell, False) for cell in cells_of(peer, cells)]
        fits += [(peer, cell, True) for cell in cells if tuning and peer.grid]
        wanted.setdefault(peer.runner, []).extend(fits)

    def ask_one(fits):
        return _measure_one(asker, question, fits, score, tuning, criterion)

    records = []
    with ThreadPoolExecutor(asker.n_processes) as pool:
        for task in as_completed(pool.submit(ask_one, fits) for fits in wanted.values()):
            records += task.result()
    return records


def _measure_one(asker, question, fits, score, tuning, criterion):
    """Return the records of the fits of one environment."""
    records, new = [], []
    for peer, cell, is_tuned in fits:
        label = record_label(question, peer, cell, is_tuned)
        if key_of(label) in asker.known:
            records.append(asker.known[key_of(label)])
        else:
            new.append((label, peer, cell))
    to_tune = {
        (peer.name, cell.table, cell.epsilon) for label, peer, cell in new if label["is_tuned"]
    }
    peers = {peer.name: peer for peer, _, _ in fits}.values()
    chosen = choose(asker, peers, tuning, score, criterion, to_tune)
    # Where no option has a score there is nothing to choose.
    requests = [
        (label, (peer, cell, chosen[key] if label["is_tuned"] else {}))
        for label, peer, cell in new
        if (key := (peer.name, cell.table, cell.epsilon)) in chosen or not label["is_tuned"]
    ]

    def heard(place, answer):
        label, (_, cell, _) = requests[place]
        records.append(record_of(label, cell, answer, score))
        if asker.keep:
            asker.keep(records[-1:])

    asker.ask([request for _, request in requests], heard)
    return records


def record_label(question, peer, cell, is_tuned):
    """Return the part of a record that says what it is of."""
    return {
        "question": question,
        "table": cell.table,
        "epsilon": cell.epsilon,
        "seed": cell.seed,
        "peer": peer.name,
        "is_tuned": is_tuned,
    }


def record_of(label, cell, answer, score):
    """Return the record of one answer; one that cannot be scored, for NaN say, has an error."""
    arrays, seconds = answer
    if arrays is None:
        return label | {"error": seconds}
    try:
        return label | score(arrays, cell.data) | {"seconds": seconds}
    except ValueError as error:
        return label | {"error": f"cannot be scored: {' '.join(str(error).split())[:150]}"}


def choose(asker, peers, tuning, score, criterion, wanted=None):
    """Return {(peer's name, table, epsilon): options} with the smallest median of a score.

    ``wanted`` are those that are asked for; None is all.
    """
    requests = [
        (peer, cell, options)
        for peer in peers
        for options in peer.grid
        for cell in tuning
        if wanted is None or (peer.name, cell.table, cell.epsilon) in wanted
    ]
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


def cells_of(peer, cells):
    """Return the cells that a peer is asked; without privacy each split once, at an infinite epsilon."""
    if peer.is_slow:
        return [cell for cell in cells if cell.seed == 0 and cell.epsilon == 1.0]
    if peer.is_private:
        return cells
    kept = {(cell.table, cell.seed): cell._replace(epsilon=math.inf) for cell in cells}
    return list(kept.values())
