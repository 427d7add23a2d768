"""Which ledgers are active in the processes from which this one descends.

A process in whose ``with`` blocks ledgers are active leaves a mark: a file that is named after the process
and lists them. Processes that descend from it find it by their ancestors' numbers, if they were started
before the block, and by an environment variable, if within. Numbers of processes are used again: a mark is
also named after the time at which its process was started.

Marks are in the folder of temporary files, which cleaners empty, and another process may have another one.
Where there is /proc, a process therefore holds its mark open until it ends, and others read it there; it
lists nothing when no block is active. Elsewhere the file itself stays, and is written again if it is missing.
A process that was named and still runs has a mark in any case: if none can be read, nothing is charged.
"""

import atexit
import json
import multiprocessing
import os
import tempfile
import threading
from pathlib import Path
from typing import TextIO

from ..exceptions import LedgerOutOfReachError

# Marks of the processes in whose ``with`` blocks this one was started, and of its own.
_MARKS = "SKDPBAYES_ACTIVE_LEDGERS"
_PROCESSES = Path("/proc")
_PREFIX = "skdpbayes-ledger-"


class _Own:
    """The mark of this process, and its open file; nothing in a forked child."""

    text: str = ""
    file: TextIO | None = None
    started: str | None = None
    lock = threading.RLock()


def _after_fork():
    if _Own.file is not None:
        _Own.file.close()
    _Own.text, _Own.file, _Own.started, _Own.lock = "", None, None, threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def announce(ledgers):
    """Leave a mark that lists the ledgers that are active in this process.

    Parameters
    ----------
    ledgers : list of dict
    """
    mark = _own_mark()
    with _Own.lock:
        if not _Own.text:
            atexit.register(_take_away, mark, os.getpid())
        _Own.text = json.dumps(ledgers)
        _write(mark)
        if not _has_to_be_there():
            mark.unlink(missing_ok=True)
    others = [path for path in _marks_around() if path != str(mark)]
    os.environ[_MARKS] = os.pathsep.join([*others, str(mark)] if ledgers else others)


def announced_by_ancestors():
    """The ledgers that are active around this process, a list of what was announced.

    Raises
    ------
    LedgerOutOfReachError
        If a process in whose block this one was started still runs, and its mark cannot be read.
    """
    _renew()
    named = set(map(Path, _marks_around()))
    marks = named | {_mark(pid, started) for pid, started in _ancestors().items()}
    own = _own_mark().name
    ledgers = []
    for mark in sorted(mark for mark in marks if mark.name != own):
        texts = _texts(mark)
        if mark in named and not texts:
            texts = _texts(mark)  # It may have been replaced between two looks.
        if mark in named and not texts and _runs(mark):
            pid, _ = _process_of(mark)
            raise LedgerOutOfReachError(
                out_of_reach(f"the mark of process {pid}, which has or had active ledgers, is gone")
            )
        ledgers += [ledger for text in texts for ledger in json.loads(text)]
    return ledgers


def _write(mark):
    """Write the mark of this process, never seen in part, and hold it open where others can see that."""
    descriptor, draft = tempfile.mkstemp(prefix="skdpbayes-draft-", dir=mark.parent)
    file = open(descriptor, "w")  # noqa: SIM115
    file.write(_Own.text)
    file.flush()
    if not _PROCESSES.is_dir():  # Where an open file could not be replaced, either.
        file.close()
    os.replace(draft, mark)
    before, _Own.file = _Own.file, None if file.closed else file
    if before is not None:
        before.close()


def _has_to_be_there():
    """Whether others may look for the file: where they cannot find it open, or in a block."""
    return bool(_Own.text) and (_Own.file is None or _Own.text != "[]")


def _renew():
    """Write the mark of this process again if a cleaner took it away."""
    mark = _own_mark()
    with _Own.lock:
        if _has_to_be_there() and not mark.exists():
            _write(mark)


def _take_away(mark, pid):
    if os.getpid() == pid:
        mark.unlink(missing_ok=True)


def _texts(mark):
    """The text of a mark: that of the file that its process holds open, or else of its name."""
    texts = _held_open(mark)
    if not texts:
        try:
            texts = [mark.read_text()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise LedgerOutOfReachError(out_of_reach(f"{mark} cannot be read")) from error
    return texts


def _held_open(mark):
    folder = f"{_PROCESSES}/{_process_of(mark)[0]}/fd"
    texts: list[str] = []
    try:
        numbers = os.listdir(folder)
    except OSError:  # Of another user, or no longer there.
        return texts
    name = mark.name
    for number in numbers:
        try:
            target = os.readlink(f"{folder}/{number}")
            if name in target and os.path.basename(target).removesuffix(" (deleted)") == name:
                texts.append(Path(folder, number).read_text())
        except OSError:
            continue
    return texts


def _marks_around():
    return [path for path in os.environ.get(_MARKS, "").split(os.pathsep) if path]


def _ancestors():
    """The processes from which this one descends, as far as can be found, and when they were started.

    Each is asked once: what the system tells of a process with many threads takes it half a millisecond.
    """
    parent = multiprocessing.parent_process()
    pids = [os.getppid(), *([parent.pid] if parent and parent.pid else [])]
    processes: dict[int, str] = {}
    while pids:
        pid = pids.pop()
        if pid not in processes:
            grandparent, processes[pid] = _kin(pid)
            if grandparent:
                pids.append(grandparent)
    return processes


def this_process():
    """The number of this process and when it was started, which together no other has."""
    if _Own.started is None:
        _Own.started = _kin(os.getpid())[1]
    return os.getpid(), _Own.started


def descends_from(process):
    """Whether this process descends from another, which still runs, as far as that can be found."""
    pid, started = process
    return _ancestors().get(pid) == started


def _own_mark():
    return _mark(*this_process())


def _mark(pid, started):
    # Where it is looked for by its name alone, the name must not depend on TMPDIR.
    by_name = os.name == "posix" and not _PROCESSES.is_dir()
    return Path("/tmp" if by_name else tempfile.gettempdir(), f"{_PREFIX}{pid}-{started}")


def _process_of(mark):
    """The number of the process that left a mark, and when it was started."""
    pid, _, started = mark.name.removeprefix(_PREFIX).partition("-")
    return int(pid), started


def _runs(mark):
    """Whether the process that left a mark runs, or might."""
    pid, started = _process_of(mark)
    if started:
        return _kin(pid)[1] == started
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _kin(pid):
    """A process's parent and when it started, or 0 and nothing where the system does not tell."""
    try:
        fields = (_PROCESSES / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0, ""
    has_ended = fields[0] in (b"Z", b"X")
    return (0, "") if has_ended else (int(fields[1]), fields[19].decode())


def out_of_reach(what):
    """The message about a ledger that this process cannot charge."""
    return (
        f"{what}, and cannot be charged from process {os.getpid()}: give the ledger a file, "
        "PrivacyLedger(..., path=...), fit with n_jobs=1, or in threads, within "
        'joblib.parallel_config(backend="threading"). Nothing was read.'
    )
