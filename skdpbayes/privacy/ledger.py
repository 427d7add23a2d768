"""A budget for several fits: what they reserve adds up, and what would exceed it is refused.

    spent = cost_1 + cost_2 + ...,    refuse cost_k if epsilon(spent + cost_k, delta) > epsilon.

A reservation is made before a sampler reads a record and is never given back: a fit that is
interrupted has cost its whole plan. Refusing is itself data-independent, as plans are.

A ledger lives in the memory of one process. While one is active there, a file that is named after the
process says so, and a process that descends from it refuses to fit: what it spends would be lost.
"""

import contextlib
import multiprocessing
import os
import tempfile
import threading
from contextvars import ContextVar
from pathlib import Path

from ..exceptions import BudgetExceededError, LedgerOutOfReachError
from .budget import Budget
from .cost import PrivacyCost

# Of the whole process: a fit in another thread is charged too.
_active: list = []
_is_prepaid = ContextVar("is_prepaid", default=False)
_lock = threading.Lock()
# Marks of the processes in whose ``with`` blocks this one was started, and of its own.
_MARKS = "SKDPBAYES_ACTIVE_LEDGERS"


def _after_fork():
    global _lock
    _lock = threading.Lock()
    _active.clear()  # Copies, to which nothing that is added would be seen.


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class PrivacyLedger:
    """Adds up what the fits inside a ``with`` block spend, and refuses what would exceed it.

    It sees all fits of its process, in any thread. Ledgers nest: every one of them is charged.

    Work that goes to other processes (``n_jobs`` with joblib's default backend) cannot be charged, so
    fits there raise a `LedgerOutOfReachError` before they have read anything, as long as the block
    lasts: in all processes that descend from this one, started within the block or before it. (Where the
    system names no process's parent but one's own, as on macOS and Windows, a grandchild is recognised
    if it was started within the block.) Threads work, as in
    ``with joblib.parallel_config(backend="threading")``. What schedulers such as dask send to processes
    that were started otherwise, or on other machines, is not seen. Nothing is kept with a model: one that
    was pickled within the block is like any other.

    Parameters
    ----------
    epsilon : float
        Ceiling on the total; ``inf`` only adds up.
    delta : float
        In [0, 1), for the total.
    neighboring_relation : {"replace_one", "add_or_remove_one"}, default="replace_one"
        The relation of every fit that is charged.

    Examples
    --------
    >>> from skdpbayes.privacy import PrivacyCost, PrivacyLedger
    >>> with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
    ...     ledger.reserve(PrivacyCost("replace_one", mu=0.2))
    >>> round(ledger.spent_epsilon, 3)
    0.726
    """

    def __init__(self, epsilon, delta, neighboring_relation="replace_one"):
        self.budget = Budget(epsilon, delta, neighboring_relation).checked()
        self.spent = PrivacyCost(neighboring_relation)
        self._lock = threading.Lock()
        self._process = os.getpid()

    @property
    def spent_epsilon(self):
        """Epsilon of everything reserved so far, at the ledger's delta."""
        return self.spent.epsilon(self.budget.delta)

    def reserve(self, cost):
        """Charge a cost.

        Parameters
        ----------
        cost : PrivacyCost

        Raises
        ------
        BudgetExceededError
            If the total would exceed the ceiling; nothing is charged then.
        LedgerOutOfReachError
            If this is a copy of the ledger, in a forked process.
        ValueError
            If the cost is under another neighbouring relation.
        """
        if os.getpid() != self._process:
            raise LedgerOutOfReachError(
                _out_of_reach(f"this ledger is one of process {self._process}")
            )
        with self._lock:
            self.spent = self._total_with(cost)

    def _total_with(self, cost):
        total = self.spent + cost
        if not self.budget.allows(total):
            raise BudgetExceededError(
                f"the total would be epsilon = {total.epsilon(self.budget.delta):.4g} at delta = "
                f"{self.budget.delta:g}, beyond the ledger's epsilon = {self.budget.epsilon:g}; "
                f"{self.spent_epsilon:.4g} of it is spent. Nothing was read."
            )
        return total

    def __enter__(self):
        with _lock:
            if not _active:
                _announce(f"a ledger of {self._ceiling()} is active in process {os.getpid()}")
            _active.append(self)
        return self

    def __exit__(self, *exception):
        with _lock:
            if self in _active:  # It is not in a process that was forked within the block.
                _active.remove(self)
                if not _active:
                    _withdraw()

    def _ceiling(self):
        return f"epsilon={self.budget.epsilon:g}, delta={self.budget.delta:g}"

    def __repr__(self):
        return f"PrivacyLedger(spent_epsilon={self.spent_epsilon:.4g}, {self._ceiling()})"


@contextlib.contextmanager
def prepaid():
    """Run what is part of a plan that has been charged already: nothing is charged for it again."""
    token = _is_prepaid.set(True)
    try:
        yield
    finally:
        _is_prepaid.reset(token)


def reserve(plan):
    """Charge a plan's cost to every active ledger, or raise before anything is read."""
    if _is_prepaid.get():
        return
    for mark in _marks_of_others():
        with contextlib.suppress(FileNotFoundError):
            raise LedgerOutOfReachError(_out_of_reach(mark.read_text()))
    ledgers = list(_active)
    for ledger in ledgers:  # One that refuses keeps the others from being charged.
        ledger._total_with(plan.cost)
    for ledger in ledgers:
        ledger.reserve(plan.cost)


def _out_of_reach(what):
    return (
        f"{what}, and cannot be charged from process {os.getpid()}: fit with n_jobs=1, or in threads, "
        'within joblib.parallel_config(backend="threading"). Nothing was read.'
    )


# Which processes have active ledgers


def _announce(text):
    """Leave a mark that says that a ledger is active in this process."""
    mark = _mark(os.getpid())
    # What is there already was left by this process when it ran another program.
    with contextlib.suppress(FileExistsError), open(mark, "x") as file:
        file.write(text)
    os.environ[_MARKS] = os.pathsep.join([*_marks_around(), str(mark)])


def _withdraw():
    mark = _mark(os.getpid())
    os.environ[_MARKS] = os.pathsep.join(path for path in _marks_around() if path != str(mark))
    mark.unlink(missing_ok=True)


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
    return [mark for mark in marks if mark.name != _mark(os.getpid()).name]


def _mark(pid):
    # Numbers of processes are used again: the time tells them apart.
    return Path(tempfile.gettempdir(), f"skdpbayes-ledger-{pid}-{_kin(pid)[1]}")


def _kin(pid):
    """Return a process's parent and when it started, or 0 and nothing where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0, ""
    return int(fields[1]), fields[19].decode()
