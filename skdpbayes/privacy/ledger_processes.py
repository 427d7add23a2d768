"""Which ledgers are active in the processes from which this one descends.

A process in whose ``with`` blocks ledgers are active leaves a mark: a file that is named after the process
and lists them. Processes that descend from it find it by their ancestors' numbers, if they were started
before the block, and by an environment variable, if within. Numbers of processes are used again: a mark is
also named after the time at which its process was started.
"""

import json
import multiprocessing
import os
import tempfile
from pathlib import Path

# Marks of the processes in whose ``with`` blocks this one was started, and of its own.
_MARKS = "SKDPBAYES_ACTIVE_LEDGERS"


def announce(ledgers):
    """Leave a mark that lists the ledgers that are active in this process, or none if there are none.

    Parameters
    ----------
    ledgers : list of dict
    """
    mark = _mark(os.getpid())
    others = [path for path in _marks_around() if path != str(mark)]
    if ledgers:
        descriptor, draft = tempfile.mkstemp(prefix=f"{mark.name}-", dir=mark.parent)
        with open(descriptor, "w") as file:
            json.dump(ledgers, file)
        os.replace(draft, mark)  # Never seen in part.
        others.append(str(mark))
    else:
        mark.unlink(missing_ok=True)
    os.environ[_MARKS] = os.pathsep.join(others)


def announced_by_ancestors():
    """Return the ledgers that are active around this process, a list of what was announced."""
    found = []
    for mark in _marks_of_others():
        try:
            found += json.loads(mark.read_text())
        except FileNotFoundError:
            continue
    return found


def _marks_around():
    return [path for path in os.environ.get(_MARKS, "").split(os.pathsep) if path]


def _marks_of_others():
    """Return where the marks of the processes are from which this one descends, if they have any."""
    parent = multiprocessing.parent_process()
    pids = [os.getppid(), parent.pid] if parent else [os.getppid()]
    marks = set(map(Path, _marks_around()))
    while pids:
        pid = pids.pop()
        marks.add(_mark(pid))
        if grandparent := _kin(pid)[0]:
            pids.append(grandparent)
    return sorted(mark for mark in marks if mark.name != _mark(os.getpid()).name)


def _mark(pid):
    return Path(tempfile.gettempdir(), f"skdpbayes-ledger-{pid}-{_kin(pid)[1]}")


def _kin(pid):
    """Return a process's parent and when it started, or 0 and nothing where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0, ""
    return int(fields[1]), fields[19].decode()


def out_of_reach(what):
    """Return what to say of a ledger that this process cannot charge."""
    return (
        f"{what}, and cannot be charged from process {os.getpid()}: give the ledger a file, "
        "PrivacyLedger(..., path=...), fit with n_jobs=1, or in threads, within "
        'joblib.parallel_config(backend="threading"). Nothing was read.'
    )
