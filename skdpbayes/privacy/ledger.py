"""A budget for several fits: what they reserve adds up, and what would exceed it is refused.

    spent = cost_1 + cost_2 + ...,    refuse cost_k if epsilon(spent + cost_k, delta) > epsilon.

A reservation is made before a sampler reads a record and is never given back: a fit that is
interrupted has cost its whole plan. Refusing is itself data-independent, as plans are.

A ledger with a file is shared by processes and days (`skdpbayes.privacy.ledger_file`). One without lives
in the memory of one process: while it is active there, processes that descend from it refuse to fit, for
what they spend would be lost (`skdpbayes.privacy.ledger_processes`).
"""

import os
import threading
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Literal, Self

from ..exceptions import BudgetExceededError, LedgerFileError, LedgerOutOfReachError
from .budget import Budget
from .cost import PrivacyCost
from .ledger_file import LedgerFile, open_or_create
from .ledger_memory import Charge, LedgerMemory
from .ledger_processes import announce, announced_by_ancestors, out_of_reach
from .remaining import largest_epsilon, rounded_down

# Of the whole process: a fit in another thread is charged too.
_active: list = []
_is_prepaid = ContextVar("is_prepaid", default=False)
_lock = threading.Lock()


def _after_fork():
    global _lock
    _lock = threading.Lock()
    _active.clear()  # They are found as the parent's, as far as they can be reached.


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class PrivacyLedger:
    """Adds up what the fits inside a ``with`` block spend, and refuses what would exceed it.

    It sees all fits of its process, in any thread. Ledgers nest: every one of them is charged.

    **With a path** the ledger is a file, which many processes share, today and later. A fit is charged in a
    transaction that is on the disk before a record is read; a run that is killed has spent. Fits in processes
    that descend from this one (``n_jobs`` with any backend of joblib, forks) are charged to the file, too.
    What cannot be charged does not run: if the file is damaged, read-only, locked for long or of a newer
    version, or if the disk is full. Keep the file on a local disk, where locks of files work, and do not
    restore old copies, which have forgotten what was spent since.

    **Without** one it lives in the memory of this process. Fits in processes that descend from it raise a
    `LedgerOutOfReachError` before they have read anything, as long as the block lasts, whether they were
    started within the block or before it. Threads work, as in
    ``with joblib.parallel_config(backend="threading")``.

    Where the system names no process's parent but one's own, as on macOS and Windows, a grandchild is
    recognised if it was started within the block. What schedulers such as dask send to processes that were
    started otherwise, or on other machines, is not seen: open the file there. Nothing is kept with a model:
    one that was pickled within the block is like any other.

    The total holds for plans that are fixed beforehand. Where all costs are Gaussian it also holds if plans
    depend on earlier results (Proposition 35).

    Parameters
    ----------
    epsilon : float
        Ceiling on the total; ``inf`` only adds up.
    delta : float
        In [0, 1), for the total.
    neighboring_relation : {"replace_one", "add_or_remove_one", "replace_one_person", \
            "add_or_remove_one_person"}, default="replace_one"
        The relation of every fit that is charged. Fits with ``max_rows_per_group`` have those of persons.
    path : str or path-like, default=None
        The file. It is made if there is none, and must have this budget otherwise; `open` needs no budget.
    label : str, default=None
        Kept with everything that is charged through this object, and shown in its history. It is public.
    timeout : float, default=60.0
        Seconds to wait for other processes that are using the file.

    Raises
    ------
    ValueError
        If the budget is out of range, or not that of the file.
    LedgerFileError
        If the file cannot be made or used.

    Examples
    --------
    >>> from skdpbayes.privacy import PrivacyCost, PrivacyLedger
    >>> with PrivacyLedger(epsilon=1.0, delta=1e-5) as ledger:
    ...     ledger.reserve(PrivacyCost("replace_one", mu=0.2))
    >>> round(ledger.spent_epsilon, 3)
    0.726

    The same in a file, opened again:

    >>> import os, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "survey.ledger")
    >>> PrivacyLedger(epsilon=1.0, delta=1e-5, path=path).reserve(PrivacyCost("replace_one", mu=0.2))
    >>> ledger = PrivacyLedger.open(path)
    >>> round(ledger.spent_epsilon, 3), round(ledger.remaining_epsilon, 3)
    (0.726, 0.641)
    >>> folder.cleanup()
    """

    def __init__(
        self,
        epsilon: float,
        delta: float,
        neighboring_relation: Literal[
            "replace_one", "add_or_remove_one", "replace_one_person", "add_or_remove_one_person"
        ] = "replace_one",
        *,
        path: str | os.PathLike | None = None,
        label: str | None = None,
        timeout: float = 60.0,
    ):
        _check_label(label)
        budget = Budget(epsilon, delta, neighboring_relation).checked(persons=True)
        book = LedgerMemory(budget) if path is None else open_or_create(path, budget, timeout)
        self._keep(book, label)

    @classmethod
    def open(cls, path: Any, *, label: str | None = None, timeout: float = 60.0) -> Self:
        """Open a ledger's file, whose budget is in it.

        Parameters
        ----------
        path, label, timeout
            As for the class.

        Returns
        -------
        ledger : PrivacyLedger

        Raises
        ------
        LedgerFileError
            If there is no such file, or if it cannot be used.
        """
        _check_label(label)
        return cls._of(LedgerFile(path, timeout), label)

    @classmethod
    def _of(cls, book, label):
        ledger = cls.__new__(cls)
        ledger._keep(book, label)
        return ledger

    def _keep(self, book, label):
        self._book = book
        self.label = label
        self.budget = book.budget

    @property
    def path(self) -> str | None:
        """Where the file is; None in memory."""
        return self._book.path

    @property
    def spent(self) -> Any:
        """Everything that was reserved, a `PrivacyCost`."""
        return self._book.spent()

    @property
    def spent_epsilon(self) -> float:
        """Epsilon of everything reserved so far, at the ledger's delta."""
        return self.spent.epsilon(self.budget.delta)

    @property
    def remaining_epsilon(self) -> float:
        """The largest epsilon that one more fit may have, at the ledger's delta.

        Of a fit whose cost is Gaussian, as most are; of a pure one where delta is 0. Where other costs are in
        the ledger it is found to a hundredth, from below. It is more than the difference of epsilons.
        """
        return largest_epsilon(self.budget, self.spent)

    def reserve(self, cost: PrivacyCost, label: str | None = None) -> None:
        """Charge a cost.

        Parameters
        ----------
        cost : PrivacyCost
        label : str, default=None
            Kept with it, in place of the ledger's.

        Raises
        ------
        BudgetExceededError
            If the total would exceed the ceiling; nothing is charged then.
        LedgerFileError
            If the file cannot be used; nothing is charged then.
        LedgerOutOfReachError
            If this is a copy of a ledger in memory, in a forked process.
        ValueError
            If the cost is under another neighbouring relation.
        """
        _check_label(label)
        self._charge(Charge(cost, label=label or self.label))

    def history(self) -> Any:
        """Return what was charged, in its order: public numbers and names.

        Returns
        -------
        table : pandas.DataFrame, or list of dict without pandas
            ``time`` (UTC), ``estimator``, ``sampler``, ``label``, ``status`` ("reserved", "completed" or
            "failed"), ``cost``, its ``epsilon`` alone and ``total_epsilon`` with all before, both at the
            ledger's delta. A run that was killed stays "reserved". Whatever the status, the cost is spent.

        Examples
        --------
        >>> from skdpbayes.privacy import PrivacyCost, PrivacyLedger
        >>> ledger = PrivacyLedger(epsilon=1.0, delta=1e-5, label="pilot")
        >>> for mu in (0.1, 0.2):
        ...     ledger.reserve(PrivacyCost("replace_one", mu=mu))
        >>> ledger.history()[["label", "epsilon", "total_epsilon"]].round(3)
           label  epsilon  total_epsilon
        0  pilot    0.341          0.341
        1  pilot    0.726          0.820
        """
        rows = self.records()
        try:
            import pandas as pd
        except ImportError:
            return rows
        table = pd.DataFrame(rows, columns=_COLUMNS)
        return table.assign(time=pd.to_datetime(table["time"], utc=True))

    def records(self) -> list[dict[str, Any]]:
        """Return what `history` has, as a list of dict, times in ISO 8601."""
        rows, total = [], PrivacyCost(self.budget.neighboring_relation)
        for charge in self._book.charges():
            values = charge._asdict()
            if (
                not self.budget.is_private
            ):  # Where there is no ceiling totals are not computed on the way.
                total = total + charge.cost
                values["total_epsilon"] = total.epsilon(self.budget.delta)
            rows.append({name: values[name] for name in _COLUMNS})
        return rows

    def _charge(self, charge):
        """Make a reservation, and return its number."""
        charge = charge._replace(epsilon=_epsilon(charge.cost, self.budget.delta))
        try:
            number = self._book.charge(charge, self._allowed)
        except LedgerFileError as error:
            raise LedgerFileError(f"{error} {self._what_is_left()} Nothing was read.") from error
        if number is None:
            self._refuse(charge.cost)
        return number

    def _allowed(self, total):
        epsilon = total.epsilon(self.budget.delta) if self.budget.is_private else None
        return epsilon is None or epsilon <= self.budget.epsilon, epsilon

    def _refuse(self, cost):
        total = self.spent + cost
        raise BudgetExceededError(
            f"the total would be epsilon = {total.epsilon(self.budget.delta):.4g} at delta = "
            f"{self.budget.delta:g}, beyond the ledger's epsilon = {self.budget.epsilon:g}. "
            f"{self._what_is_left()} Nothing was read."
        )

    def _what_is_left(self):
        try:
            spent = self._book.spent(patience=1.0)
        except LedgerFileError:
            return "What is left of the budget cannot be known."
        left = rounded_down(largest_epsilon(self.budget, spent))
        at_delta = f"at delta = {self.budget.delta:g}"
        fits = f"A fit of epsilon = {left:g} {at_delta} would fit" if left else "Nothing more fits"
        return f"Spent so far: {spent.epsilon(self.budget.delta):.4g}. {fits}."

    def _announcement(self):
        place = f"a ledger of {self._ceiling()} is active in process {os.getpid()}"
        return {"place": place, "label": self.label, "file": self._book.address()}

    def __enter__(self):
        with _lock:
            _active.append(self)
            try:
                announce([ledger._announcement() for ledger in _active])
            except BaseException:
                _active.pop()
                raise
        return self

    def __exit__(self, *exception):
        with _lock:
            if self in _active:  # It is not in a process that was forked within the block.
                _active.remove(self)
                announce([ledger._announcement() for ledger in _active])

    def __reduce__(self):
        if self.path is None:
            raise TypeError(
                "a ledger in memory cannot be sent to another process, where its copy would forget what is "
                "spent: give it a file, PrivacyLedger(epsilon, delta, path=...)."
            )
        return _open_announced, (self._announcement(),)

    def _ceiling(self):
        return f"epsilon={self.budget.epsilon:g}, delta={self.budget.delta:g}"

    def __repr__(self):
        file = "" if self.path is None else f", path={self.path!r}"
        try:
            spent = f"{self.spent_epsilon:.4g}"
        except LedgerFileError:
            spent = "unknown"
        return f"PrivacyLedger(spent_epsilon={spent}, {self._ceiling()}{file})"


def _check_label(label):
    if not (label is None or isinstance(label, str)):
        raise ValueError(f"label must be a str or None, got {label!r}.")


@contextmanager
def prepaid():
    """Run what is part of a plan that has been charged already: nothing is charged for it again."""
    token = _is_prepaid.set(True)
    try:
        yield
    finally:
        _is_prepaid.reset(token)


_COLUMNS = ["time", "estimator", "sampler", "label", "status", "cost", "epsilon", "total_epsilon"]
_epsilon = lru_cache(maxsize=1024)(PrivacyCost.epsilon)


class Reservations:
    """What one run has reserved with all active ledgers."""

    def __init__(self):
        self._made = []

    def make(self, ledger, charge):
        """Reserve with one more ledger."""
        self._made.append((ledger._book, ledger._charge(charge)))

    def close(self, status):
        """Note how the run has ended; what was reserved is spent whether or not this can be noted."""
        for book, number in self._made:
            with suppress(LedgerFileError):
                book.close(number, status)


def reserve(plan, estimator=None):
    """Charge a plan's cost to every active ledger, or raise before anything is read.

    Parameters
    ----------
    plan : Plan
        Anything that has a ``cost``, and a ``name`` if it is to be called by one.
    estimator : str, default=None
        What the plan is for.

    Returns
    -------
    reservations : Reservations
        To be closed when the run has ended.
    """
    ledgers = [] if _is_prepaid.get() else _charged()
    for ledger in ledgers if len(ledgers) > 1 else ():
        if not ledger._allowed(ledger.spent + plan.cost)[0]:
            ledger._refuse(plan.cost)  # And no other one is charged.
    reservations = Reservations()
    name = getattr(plan, "name", type(plan).__name__)
    try:
        for ledger in ledgers:
            reservations.make(ledger, Charge(plan.cost, estimator, name, ledger.label))
    except BaseException:  # Another process may have been faster with one of several files.
        reservations.close("failed")
        raise
    return reservations


def _charged():
    """Return the ledgers around this call: those of this process and of its ancestors, each file once."""
    ledgers = list(_active)
    for announcement in announced_by_ancestors():
        if announcement["file"] is None:
            raise LedgerOutOfReachError(out_of_reach(announcement["place"]))
        ledgers.append(_open_announced(announcement))
    files = {ledger.path: ledger for ledger in reversed(ledgers) if ledger.path}
    in_memory = [ledger for ledger in ledgers if not ledger.path]
    return [*in_memory, *reversed(files.values())]


def _open_announced(announcement):
    book = _open_file(**announcement["file"])
    return PrivacyLedger._of(book, announcement["label"])


@lru_cache(maxsize=16)
def _open_file(path, timeout, ledger):
    """Open a file once in a process: what was read of it need not be read again."""
    return LedgerFile(path, timeout, ledger)
