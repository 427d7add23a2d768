"""Which ledgers are active in the processes from which this one descends.

What has to hold, however a process was started (a fork, a new interpreter, a fork server, workers of loky):

- While a block lasts, no process that descends from the block's may fit past its ledger, whether it was
  started within the block or before, and whether or not those in between still run. A ledger with a file is
  charged, one in memory is a refusal. Afterwards all may fit.
- A forked copy is another process: it is not the ledger's, and neither its leaving a block nor its end ends
  that of the original. Threads are one process, and blocks may be nested.
- A process that was killed binds none that is given its number later. What it named while it ran binds nobody
  once it has ended and left nothing.
- Neither a cleaner of temporary files nor another folder for them hides a ledger: if what a running process
  named cannot be read, nothing is charged.
- Nothing stays when a block ends, but for one open file, and none where there is no /proc.

A process in whose ``with`` blocks ledgers are active leaves a mark: a file that is named after the process
and the time at which it was started, and lists them. Processes that descend from it find it by their
ancestors' numbers, if they were started before the block, and by an environment variable, if within. Where
there is /proc, a process holds its mark open until it ends, and others read it there; it lists nothing when
no block is active. Elsewhere the file itself stays, and is written again if it is missing.
"""

import atexit
import json
import multiprocessing
import os
import tempfile
import threading
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TextIO

from ..exceptions import LedgerOutOfReachError

# Marks of the processes in whose ``with`` blocks this one was started, and of its own.
_MARKS = "SKDPBAYES_ACTIVE_LEDGERS"
_PROCESSES = Path("/proc")
_PREFIX = "skdpbayes-ledger-"


class _Own:
    """The mark of this process, its open file, and this process's ancestors; nothing in a forked child."""

    text: str = ""
    file: TextIO | None = None
    started: str | None = None
    ancestors: dict[int, str] = {}
    lock = threading.RLock()


def _after_fork():
    if _Own.file is not None:
        _Own.file.close()
    _Own.text, _Own.file, _Own.started, _Own.ancestors = "", None, None, {}
    _Own.lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def announce(ledgers):
    """Leave a mark that lists the ledgers, each a dict, that are active in this process."""
    mark = _mark(*this_process())
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
    if _has_to_be_there():
        with _Own.lock:
            mark = _mark(*this_process())
            if _has_to_be_there() and not mark.exists():  # A cleaner took it away.
                _write(mark)
    # Ancestors stay the same, and the system takes its time to tell. A walk may be cut short, for want of a
    # free descriptor or because a process ends meanwhile: it is made again the next time.
    ancestors = _Own.ancestors if os.getppid() in _Own.ancestors else _find_ancestors()
    _Own.ancestors = ancestors if all(ancestors.values()) else {}
    texts: list[str] = []
    for process in ancestors.items():
        # One that ended since may have left its mark.
        if (seen := _texts(_mark(*process), process[0])) and _runs(*process):
            texts += seen
    for path in _marks_around():
        mark, process = Path(path), _process_of(path)
        if process == this_process():
            continue
        # It may have been replaced between two looks.
        seen = _texts(mark, process[0]) or _texts(mark, process[0])
        if not seen and _runs(*process):
            what = f"the mark of process {process[0]}, which has or had active ledgers, is gone"
            raise LedgerOutOfReachError(out_of_reach(what))
        texts += seen
    return list(chain.from_iterable(map(json.loads, texts)))


def this_process():
    """The number of this process and when it was started, which together no other has."""
    if _Own.started is None:
        _Own.started = _kin(os.getpid())[1]
    return os.getpid(), _Own.started


def descends_from(process):
    """Whether this process descends from another, which still runs, as far as that can be found."""
    pid, started = process
    return _find_ancestors().get(pid) == started


def out_of_reach(what):
    """The message about a ledger that this process cannot charge."""
    return (
        f"{what}, and cannot be charged from process {os.getpid()}: give the ledger a file, "
        "PrivacyLedger(..., path=...), fit with n_jobs=1, or in threads, within "
        'joblib.parallel_config(backend="threading"). Nothing was read.'
    )


def _marks_around():
    return list(filter(None, os.environ.get(_MARKS, "").split(os.pathsep)))


def _mark(pid, started):
    # Where it is looked for by its name alone, the name must not depend on TMPDIR.
    by_name = os.name == "posix" and not os.path.isdir(_PROCESSES)
    return Path("/tmp" if by_name else tempfile.gettempdir(), f"{_PREFIX}{pid}-{started}")


def _process_of(path):
    """The number of the process that left a mark, and when it was started."""
    pid, _, started = os.path.basename(path).removeprefix(_PREFIX).partition("-")
    return int(pid), started


def _texts(mark, pid):
    """The text of a mark: that of the file that its process holds open, or else of its name."""
    texts: list[str] = []
    folder, name = f"{_PROCESSES}/{pid}/fd", mark.name
    try:
        numbers = os.listdir(folder)
    except OSError:  # It has ended.
        numbers = []
    for number in numbers:
        try:
            target = os.readlink(f"{folder}/{number}")
        except PermissionError:  # Of another user, who shows none of them.
            break
        except OSError:  # Closed since, or of too long a name.
            continue
        if name in target and name == os.path.basename(target.removesuffix(" (deleted)")):
            with suppress(OSError):
                texts.append(Path(folder, number).read_text())
    try:
        return texts or [mark.read_text()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise LedgerOutOfReachError(out_of_reach(f"{mark} cannot be read")) from error


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


def _take_away(mark, pid):
    if os.getpid() == pid:
        mark.unlink(missing_ok=True)


def _find_ancestors():
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


def _kin(pid):
    """A process's parent and when it started, or 0 and nothing where the system does not tell."""
    try:
        fields = (_PROCESSES / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0, ""
    has_ended = fields[0] in (b"Z", b"X")
    return (0, "") if has_ended else (int(fields[1]), fields[19].decode())


def _runs(pid, started):
    """Whether a process runs, or might."""
    if started:
        return _kin(pid)[1] == started
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True
