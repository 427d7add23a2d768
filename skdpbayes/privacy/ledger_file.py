"""Where a ledger keeps its charges: a file for many processes and days, or memory.

    BEGIN IMMEDIATE;   total = cost_1 + ... + cost_k + cost;   INSERT cost if the total is allowed;   COMMIT

is one transaction of SQLite, and ends when the row is on the disk: of two processes one sees the other's
row, and a process that is killed later has spent. Costs are kept as they compose, every float to the last
bit. Rows are numbered without gaps and carry digests, so that what is lost or damaged is noticed; only
their status may change. A digest covers a random number and the digest before it,

    digest_k = (r_k, H(row_k, digest_{k-1}, r_k)),

and a process remembers the last that it saw: a copy that was charged elsewhere has another one, though it may
have as many rows. Format 1 had H(row_k) alone; its files are read, and continued with chained digests. Each
operation opens the file and closes it: no connection is carried into a forked process.

The journal is a rollback journal. A write-ahead log would keep part of what was spent in a second file.
"""

import hashlib
import json
import os
import secrets
import sqlite3
import threading
import uuid
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ..exceptions import LedgerFileError, LedgerOutOfReachError
from .budget import Budget
from .cost import PrivacyCost, composed
from .ledger_processes import out_of_reach
from .losses import (
    BoundedRangeDecisions,
    PoissonGaussian,
    PureMechanism,
    SampledGaussian,
    SelectedRun,
)

# The charges of a ledger that lives in the memory of one process, and what a charge is.


class Charge(NamedTuple):
    """A charge as a ledger remembers it: public numbers and names.

    Attributes
    ----------
    cost : PrivacyCost
    estimator, sampler, label : str or None
        What was to be run, and what the user calls it.
    time : str or None
        When it was made, in UTC (ISO 8601).
    epsilon : float or None
        Of this alone, at the ledger's delta.
    total_epsilon : float or None
        Of everything up to here, where it was computed: where there is a ceiling.
    status : {"reserved", "completed", "failed"}
        Whether the run has ended, as far as it could say so. It has spent its cost in any case.
    """

    cost: PrivacyCost
    estimator: str | None = None
    sampler: str | None = None
    label: str | None = None
    time: str | None = None
    epsilon: float | None = None
    total_epsilon: float | None = None
    status: str = "reserved"


def now():
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class LedgerMemory:
    """The budget and the charges in memory; methods as those of `LedgerFile`."""

    path = None

    def __init__(self, budget):
        self.budget = budget
        self.ledger = uuid.uuid4().hex
        self._spent = PrivacyCost(budget.neighboring_relation)
        self._charges = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    def address(self):
        """None: no other process can open it."""

    def spent(self, patience=None):
        """The composition of all charges."""
        return self._spent

    def charges(self):
        """All charges, a list of `Charge` in their order."""
        return list(self._charges)

    def charge(self, charge, allowed):
        """Add a charge, if its total is allowed; return its number, or None."""
        if os.getpid() != self._process:
            raise LedgerOutOfReachError(
                out_of_reach(f"this ledger is one of process {self._process}")
            )
        with self._lock:
            total = self._spent + charge.cost
            fits, epsilon = allowed(total)
            if not fits:
                return None
            self._spent = total
            self._charges.append(charge._replace(time=now(), total_epsilon=epsilon))
            return len(self._charges)

    def close(self, number, status):
        """Note how a run has ended, which gives nothing back."""
        with self._lock:
            self._charges[number - 1] = self._charges[number - 1]._replace(status=status)


FORMAT = 2
_READABLE = (1, FORMAT)
_APPLICATION = int.from_bytes(b"skdp", "big")
_SCHEMA = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {FORMAT};
CREATE TABLE budget (
    ledger TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL, neighboring_relation TEXT NOT NULL,
    digest TEXT NOT NULL);
CREATE TABLE charges (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time TEXT NOT NULL, estimator TEXT, sampler TEXT, label TEXT,
    cost TEXT NOT NULL, epsilon REAL, total_epsilon REAL, digest TEXT NOT NULL, status TEXT NOT NULL);
CREATE TRIGGER nothing_is_given_back BEFORE DELETE ON charges
    BEGIN SELECT RAISE(ABORT, 'a ledger gives nothing back'); END;
CREATE TRIGGER costs_are_final BEFORE UPDATE OF number, time, estimator, sampler, label, cost,
    epsilon, total_epsilon, digest ON charges
    BEGIN SELECT RAISE(ABORT, 'only the status of a charge may change'); END;
"""
_PART_CLASSES = {
    "sampled": SampledGaussian,
    "counted": PoissonGaussian,
    "decisions": BoundedRangeDecisions,
    "pure_events": PureMechanism,
    "selection_events": SelectedRun,
}
# Names of fields in files that earlier states of this package wrote.
_FORMER_NAMES = {
    "bits": "decisions",
    "pure": "pure_events",
    "selected": "selection_events",
    "failure": "failure_probability",
}
# Seconds that a run that has ended waits to say so.
_PATIENCE = 5.0
# Longest time in seconds that a ledger's timeout may be.
_LONGEST_TIMEOUT = 1e6

# (number, digest) of the last charge that this process saw in a ledger, wherever its file was.
_seen: dict = {}

# Held while this process uses SQLite. Forks wait: its own locks would stay locked in a child.
_using_sqlite = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_using_sqlite.acquire,
        after_in_parent=_using_sqlite.release,
        after_in_child=_using_sqlite.release,
    )


def cost_to_text(cost):
    """A cost as JSON from which `cost_from_text` makes an equal one."""
    return json.dumps(asdict(cost), default=lambda number: number.item())


def cost_from_text(text):
    """The cost that `cost_to_text` wrote."""
    return _cost_of(json.loads(text))


def _cost_of(fields):
    fields = {_FORMER_NAMES.get(name, name): value for name, value in fields.items()}
    for name, kind in _PART_CLASSES.items():
        fields[name] = tuple(kind(**_part_of(part)) for part in fields[name])
    return PrivacyCost(**fields)


def _part_of(fields):
    """Fields with what is a cost among them as one: that of runs from which one was selected."""
    costs = fields.get("costs")
    return fields if costs is None else {**fields, "costs": tuple(map(_cost_of, costs))}


class LedgerFile:
    """The budget and the charges in a file.

    Parameters
    ----------
    path : str or path-like
        Of an existing file.
    timeout : float
        Seconds to wait for other processes.
    ledger : str or None, default=None
        The ledger that is meant; another one at the same path is an error.

    Raises
    ------
    LedgerFileError
        From here and from every method, if the file is not what it should be, or cannot be used.
    """

    budget: Budget

    def __init__(self, path, timeout, ledger=None):
        if not 0 < timeout <= _LONGEST_TIMEOUT:
            raise ValueError(
                f"timeout must be positive and at most {_LONGEST_TIMEOUT:g}, got {timeout}."
            )
        self.path = os.path.realpath(os.fsdecode(path))
        if os.path.isdir(self.path):
            raise LedgerFileError(
                f"{self.path} is a folder, and a ledger is a file: name one in it, e.g. "
                f"{os.path.join(self.path, 'budget.ledger')}."
            )
        self.timeout = float(timeout)
        self.ledger = ledger
        self._known, self._last = 0, None
        self._spent = None
        self.spent()

    @classmethod
    def create(cls, path, budget, timeout):
        """Make a file that has a budget and no charges.

        Raises
        ------
        FileExistsError
            If there is one already.
        """
        path = os.path.realpath(os.fsdecode(path))
        ledger = uuid.uuid4().hex
        draft = f"{path}.{ledger}"
        row = (ledger, float(budget.epsilon), float(budget.delta), budget.neighboring_relation)
        try:
            with _using_sqlite, closing(sqlite3.connect(draft, isolation_level=None)) as connection:
                connection.executescript(f"PRAGMA synchronous = EXTRA; BEGIN; {_SCHEMA}")
                connection.execute(
                    "INSERT INTO budget VALUES (?, ?, ?, ?, ?)", (*row, _digest(row))
                )
                connection.execute("COMMIT")
            os.link(draft, path)  # All of it appears at once, or another process was first.
            _sync(os.path.dirname(path))
        except FileExistsError:
            raise
        except (OSError, sqlite3.Error) as error:
            raise LedgerFileError(
                f"the ledger {path} cannot be created ({error}): take a folder on a local disk that can be "
                "written to."
            ) from error
        finally:
            with suppress(OSError):
                os.unlink(draft)
        return cls(path, timeout)

    def address(self):
        """The path and the identity by which another process opens the same file."""
        last_charge = _seen.get(self.ledger)
        return {
            "path": self.path,
            "timeout": self.timeout,
            "ledger": self.ledger,
            "seen": last_charge,
        }

    def spent(self, patience=None):
        """The composition of all charges."""
        with self._transaction("DEFERRED", patience):
            return self._spent

    def charges(self):
        """All charges, a list of `Charge` in their order."""
        with self._transaction("DEFERRED") as connection:
            rows = connection.execute(
                "SELECT cost, estimator, sampler, label, time, epsilon, total_epsilon, status "
                "FROM charges ORDER BY number"
            )
            return [Charge(cost_from_text(cost), *row) for cost, *row in rows]

    def charge(self, charge, allowed):
        """Add a charge, if its total is allowed.

        Parameters
        ----------
        charge : Charge
        allowed : callable
            Takes the total. Returns whether it is allowed, and its epsilon if it was computed.

        Returns
        -------
        number : int or None
            None if it is not allowed.
        """
        with self._transaction("IMMEDIATE") as connection:
            total = self._spent + charge.cost
            fits, epsilon = allowed(total)
            if not fits:
                return None
            number = self._known + 1
            row = (
                number,
                now(),
                charge.estimator,
                charge.sampler,
                charge.label,
                cost_to_text(charge.cost),
                charge.epsilon,
                epsilon,
            )
            digest = _next_digest(row, self._last or self.ledger)
            connection.execute(
                "INSERT INTO charges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'reserved')", (*row, digest)
            )
            connection.execute(f"PRAGMA user_version = {FORMAT}")
            connection.execute("COMMIT")
            self._spent, self._known, self._last = total, number, digest
            remember(self.ledger, (number, digest))
        return number

    def close(self, number, status):
        """Note how a run has ended, which gives nothing back."""
        with self._transaction("IMMEDIATE", _PATIENCE) as connection:
            connection.execute("UPDATE charges SET status = ? WHERE number = ?", (status, number))
            connection.execute("COMMIT")

    @contextmanager
    def _transaction(self, kind, patience=None):
        """Open the file, and read what is new in it; what is not committed is undone at the end."""
        timeout = self.timeout if patience is None else min(self.timeout, patience)
        uri = f"{Path(self.path).as_uri()}?mode=rw"
        if not os.path.exists(self.path):
            raise LedgerFileError(
                f"there is no ledger {self.path}: PrivacyLedger(epsilon, delta, path=...) creates one."
            )
        try:
            with _using_sqlite, closing(_connect(uri, timeout)) as connection:
                connection.execute(f"BEGIN {kind}")
                self._read(connection)
                yield connection
        # Python cannot decode messages with names that are damaged.
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            raise LedgerFileError(self._explain(error, timeout)) from error

    def _read(self, connection):
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION:
            raise LedgerFileError(
                f"{self.path} is not a privacy ledger, or is damaged beyond reading: restore it, or choose "
                "another path."
            )
        if version not in _READABLE:
            raise LedgerFileError(
                f"the ledger {self.path} has format {version}, and this version of skdpbayes knows formats "
                f"up to {FORMAT}: update skdpbayes."
            )
        try:
            self._check_length(connection)
            self._read_budget(connection.execute("SELECT * FROM budget").fetchall())
            new = connection.execute(
                "SELECT number, time, estimator, sampler, label, cost, epsilon, total_epsilon, digest "
                "FROM charges WHERE number > ? ORDER BY number",
                (self._known,),
            ).fetchall()
            last = connection.execute("SELECT name, seq FROM sqlite_sequence").fetchall()
            self._add(new, dict(last).get("charges", 0))
            self._check_seen(connection)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise LedgerFileError(self._damaged(error)) from error

    def _check_length(self, connection):
        pages, size = (
            connection.execute(f"PRAGMA page_{name}").fetchone()[0] for name in ("count", "size")
        )
        if os.path.getsize(self.path) != pages * size:  # SQLite takes zeros for what is missing.
            raise ValueError("its length has changed")

    def _read_budget(self, rows):
        ((*row, digest),) = rows
        if digest != _digest(row):
            raise ValueError("its budget has changed")
        if self.ledger not in (None, row[0]):
            raise LedgerFileError(
                f"{self.path} was replaced by another ledger after it was opened: stop, and "
                "restore the original."
            )
        self.ledger, self.budget = row[0], Budget(*row[1:]).checked(persons=True)
        if self._spent is None:
            self._spent = PrivacyCost(self.budget.neighboring_relation)

    def _add(self, rows, last):
        known = self._known + len(rows)
        if last != known or [row[0] for row in rows] != list(range(self._known + 1, known + 1)):
            raise ValueError("charges are missing")
        before = self._last or self.ledger
        for *row, digest in rows:
            if not _follows(digest, row, before):
                raise ValueError(f"charge {row[0]}, or one before it, has changed")
            before = digest
        costs = [cost_from_text(row[5]) for row in rows]
        if costs:
            self._spent = composed([self._spent, *costs])
        self._known, self._last = known, before

    def _check_seen(self, connection):
        """Compare the last charge that this process saw with what the file has in its place."""
        number, digest = _seen.get(self.ledger, (0, None))
        if number and connection.execute(
            "SELECT digest FROM charges WHERE number = ?", (number,)
        ).fetchone() != (digest,):
            raise LedgerFileError(
                f"{self.path} is a copy that lacks charges which this process has seen: stop, and go on "
                "with the original, or count its whole budget as spent."
            )
        if self._known:
            remember(self.ledger, (self._known, self._last))

    def _damaged(self, error):
        return (
            f"the ledger {self.path} is damaged ({error}): restore a copy that has every charge, or count "
            "its whole budget as spent."
        )

    def _explain(self, error, timeout):
        name = getattr(error, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return (
                f"the ledger {self.path} was in use for more than {timeout:g} s: try again, or wait longer "
                "with PrivacyLedger.open(path, timeout=...)."
            )
        if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            remedy = "make the file and its folder writable"
            return f"the ledger {self.path} cannot be written ({error}): {remedy}."
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            return f"the ledger {self.path} cannot be written ({error}): make room on the disk."
        return self._damaged(error)


def open_or_create(path, budget, timeout):
    """The ledger in a file, which is made if there is none, and must have the budget otherwise."""
    if not os.path.exists(path):
        with suppress(FileExistsError):
            return LedgerFile.create(path, budget, timeout)
    book = LedgerFile(path, timeout)
    if book.budget != budget:
        has = ", ".join(f"{name}={value!r}" for name, value in book.budget._asdict().items())
        raise ValueError(
            f"the ledger {book.path} has {has}: open it with these, or by PrivacyLedger.open(path), which "
            "takes what it has. A file's budget is never changed."
        )
    return book


def remember(ledger, last_charge):
    """Note the number and the digest of a charge that a ledger has, if it is later than what is known."""
    if last_charge and last_charge[0] > _seen.get(ledger, (0, None))[0]:
        _seen[ledger] = tuple(last_charge)


def _connect(uri, timeout):
    connection = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None)
    # As FULL, and the folder is synced, too: a journal that came back after a power cut would undo a charge.
    connection.execute("PRAGMA synchronous = EXTRA")
    return connection


def _digest(fields):
    return hashlib.blake2b(json.dumps(list(fields)).encode(), digest_size=16).hexdigest()


def _next_digest(row, before):
    """The digest of a new charge after that of the one before."""
    number = secrets.token_hex(16)
    return number + _digest([*row, before, number])


def _follows(digest, row, before):
    """Whether a charge has its digest, after that of the one before."""
    if len(digest) == 32 >= len(before):  # Of format 1, in which no chained ones come before.
        return digest == _digest(row)
    return digest == digest[:32] + _digest([*row, before, digest[:32]])


def _sync(folder):
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
