"""A budget for several fits: it adds up what they reserve, and refuses a fit that would exceed it.

    spent = cost_1 + cost_2 + ...,    refuse cost_k if epsilon(spent + cost_k, delta) > epsilon.

A reservation is made before a sampler reads a record and is never refunded: an interrupted fit costs its
whole plan. Like plans, refusals do not depend on the data.

A ledger with a file can be shared by several processes, over time (`skdpbayes.privacy.ledger_file`). A ledger
without a file lives in the memory of one process. While it is active, child processes refuse to fit, because
the ledger would not see what they spend (`skdpbayes.privacy.ledger_processes`).
"""

import os
import threading
from functools import lru_cache
from typing import Any, Literal, Self

from ..exceptions import BudgetExceededError, LedgerFileError
from .budget import Budget, largest_epsilon, round_down_epsilon
from .cost import PrivacyCost, quick_epsilon
from .ledger_file import Charge, LedgerFile, LedgerMemory, open_or_create, remember
from .ledger_processes import announce

# Shared by the whole process: a fit in another thread is charged, too.
_active: list = []
_lock = threading.Lock()


def _after_fork():
    global _lock
    _lock = threading.Lock()
    _active.clear()  # A child finds them through the parent's announcement instead.


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class PrivacyLedger:
    """Add up what the fits inside a ``with`` block spend, and refuse a fit that would exceed the budget.

    A ledger sees all fits of its process, in any thread. If ledgers are nested, each of them is charged.

    **With a path**, the ledger is a file that many processes can share, now and later. The charge is on
    the disk before the fit reads a record, so a killed run has spent its cost. Fits in child processes
    (``n_jobs`` with any joblib backend, forks) are charged to the file, too. A fit that cannot be charged is
    refused: the file may be damaged, read-only, locked for too long or of a newer version, or the disk full.
    Keep the file on a local disk, where file locks work. Do not restore old copies: they do not
    contain later charges.

    **Without a path**, the ledger lives in the memory of this process. While the block lasts, fits in child
    processes raise a `LedgerOutOfReachError` before they read anything, whether the process started within
    the block or before it. Threads work, as in ``with joblib.parallel_config(backend="threading")``.

    On macOS and Windows, a process can find only its own parent, so a grandchild is recognised only if it
    started within the block. The ledger does not see work that schedulers such as Dask send to processes
    started in other ways, or on other machines: open the file there. A model pickled within the block
    carries no ledger.

    The total holds if plans are fixed beforehand. If all costs are Gaussian, it also holds if plans
    depend on earlier results (Proposition 35).

    Parameters
    ----------
    epsilon : float
        Largest total epsilon. With ``inf``, the ledger adds up and refuses nothing.
    delta : float
        Delta of the total, in [0, 1).
    neighboring_relation : {"replace_one", "add_or_remove_one", "replace_one_person", \
            "add_or_remove_one_person"}, default="replace_one"
        The relation of every fit that is charged. Fits with ``max_rows_per_group`` need one for persons.
    path : str or path-like, default=None
        The file. It is created if it does not exist; otherwise its budget must be this one (see `open`).
    label : str, default=None
        Stored with every charge made through this object, and shown in its history. It is public. Fits of
        formulas add their response and the columns of their terms, such as "pilot: income ~ age + region".
    timeout : float, default=60.0
        Seconds to wait for other processes that are using the file.
    allow_seeds : bool, default=False
        Whether fits with a ``random_state`` may be charged. Their noise can be computed again from the seed,
        so that the total is no guarantee: this is for experiments. Otherwise they are refused unread. It
        holds for this object and for child processes within the block, and is not stored in the file. The
        labels of charges end in "(seeds allowed)".

    Raises
    ------
    ValueError, TypeError
        If the budget is out of range, or differs from the file's.
    LedgerFileError
        If the file cannot be created or used.

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
        allow_seeds: bool = False,
    ):
        _check_label(label)
        budget = Budget(epsilon, delta, neighboring_relation).checked(persons=True)
        book = LedgerMemory(budget) if path is None else open_or_create(path, budget, timeout)
        self._keep(book, label, allow_seeds)

    @classmethod
    def open(
        cls,
        path: Any,
        *,
        label: str | None = None,
        timeout: float = 60.0,
        allow_seeds: bool = False,
    ) -> Self:
        """Open an existing ledger file, with the budget that it stores.

        Parameters
        ----------
        path, label, timeout, allow_seeds
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
        return cls._of(LedgerFile(path, timeout), label, allow_seeds)

    @classmethod
    def _of(cls, book, label, allow_seeds):
        ledger = cls.__new__(cls)
        ledger._keep(book, label, allow_seeds)
        return ledger

    @classmethod
    def _announced(cls, announcement):
        """Open the ledger that another process announced, or that was sent to this one."""
        address = dict(announcement["file"])
        remember(address["ledger"], address.pop("seen", None))
        return cls._of(_open_file(**address), announcement["label"], announcement["allow_seeds"])

    def _keep(self, book, label, allow_seeds):
        self._book = book
        self.label = label
        self.allow_seeds = allow_seeds
        self.budget = book.budget

    @property
    def path(self) -> str | None:
        """Path of the file; None for a ledger in memory."""
        return self._book.path

    @property
    def spent(self) -> PrivacyCost:
        """The total of all reservations, a `PrivacyCost`."""
        return self._book.spent()

    @property
    def spent_epsilon(self) -> float:
        """Epsilon of everything reserved so far, at the ledger's delta."""
        return self.spent.epsilon(self.budget.delta)

    @property
    def remaining_epsilon(self) -> float:
        """The largest epsilon that one more fit may have, at the ledger's delta.

        It is for a fit whose cost is Gaussian, as most are, or pure if delta is 0. If the ledger holds other
        costs, it is accurate to a hundredth, from below. It exceeds ``budget.epsilon - spent_epsilon``.
        """
        return largest_epsilon(self.budget, self.spent)

    def reserve(self, cost: PrivacyCost, label: str | None = None) -> None:
        """Charge a cost.

        Parameters
        ----------
        cost : PrivacyCost
        label : str, default=None
            Stored with the charge, in place of the ledger's label.

        Raises
        ------
        BudgetExceededError
            If the total would exceed the ceiling; nothing is charged.
        LedgerFileError
            If the file cannot be used; nothing is charged.
        LedgerOutOfReachError
            If this is a forked copy of a ledger in memory.
        ValueError
            If the cost has another neighbouring relation.
        TypeError
            If it is not a `PrivacyCost`.
        """
        _check_label(label)
        if not isinstance(cost, PrivacyCost):
            raise TypeError(
                f"cost must be a PrivacyCost, got {cost!r}: an epsilon alone does not add up. Take the "
                "cost of a plan, ledger.reserve(plan.cost), or e.g. PrivacyCost('replace_one', mu=0.1)."
            )
        self._charge(Charge(cost, label=label or self.label))

    def history(self) -> Any:
        """All charges in order: public numbers and names.

        Returns
        -------
        table : pandas.DataFrame, or list of dict without pandas
            ``time`` (UTC), ``estimator``, ``sampler``, ``label``, ``status`` ("reserved", "completed" or
            "failed"), ``cost``, its own ``epsilon`` and the running ``total_epsilon``, both at the ledger's
            delta: an epsilon is another one than at the fit's delta, and totals are below the sum, because
            losses of several fits hardly ever are all at their worst. A killed run stays "reserved". The
            cost is spent whatever the status. Without a ceiling and with more than a hundred charges,
            running totals before the last are bounds in closed form where there is one, and may exceed the
            last.

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
        """The `history` as a list of dict, with times in ISO 8601."""
        charges, total = self._book.charges(), PrivacyCost(self.budget.neighboring_relation)
        rows = [{name: getattr(charge, name) for name in _COLUMNS} for charge in charges]
        for row in () if self.budget.is_private else rows:  # Then charging computes no totals.
            total = total + row["cost"]
            is_exact = row is rows[-1] or len(rows) <= _EXACT_TOTALS
            epsilon = PrivacyCost.epsilon if is_exact else quick_epsilon
            row["total_epsilon"] = epsilon(total, self.budget.delta)
        return rows

    def _charge(self, charge, requested=None):
        """Make a reservation, and return its number; errors advise by the `Budget` that was requested."""
        charge = charge._replace(epsilon=_epsilon(charge.cost, self.budget.delta))
        if self.allow_seeds:
            charge = charge._replace(label=" ".join(filter(None, [charge.label, _SEEDS_ALLOWED])))
        try:
            number = self._book.charge(charge, self._allowed)
        except LedgerFileError as error:
            raise LedgerFileError(f"{error} {self._what_is_left()} Nothing was read.") from error
        if number is None:
            self._refuse(charge.cost, requested)
        return number

    def _allowed(self, total):
        epsilon = total.epsilon(self.budget.delta) if self.budget.is_private else None
        return epsilon is None or epsilon <= self.budget.epsilon, epsilon

    def _refuse(self, cost, requested=None):
        delta, most = self.budget.delta, self.budget.epsilon
        total, alone = (self.spent + cost).epsilon(delta), cost.epsilon(delta)
        hint = ""
        if cost.is_infinite:
            hint = "This release has no privacy (epsilon=inf): plan it with a finite epsilon. "
        elif alone > most:
            # A larger delta than that of the plan would cost more.
            advice = f"plan it with a smaller epsilon at delta={delta:g}"
            if requested is not None and requested.delta <= delta:
                advice = "plan it with a smaller epsilon"
            elif requested is not None and requested.epsilon <= most:
                advice = f"plan it with delta={delta:g} instead of {requested.delta:g}"
            hint = f"This release alone costs epsilon = {alone:.4g} there: {advice}. "
        raise BudgetExceededError(
            f"the total would be epsilon = {total:.4g} at delta = {delta:g}, beyond the ledger's "
            f"epsilon = {most:g}. {hint}{self._what_is_left()} Nothing was read."
        )

    def _what_is_left(self):
        try:
            spent = self._book.spent(patience=1.0)
        except LedgerFileError:
            return "The remaining budget cannot be known."
        epsilon_left = round_down_epsilon(largest_epsilon(self.budget, spent))
        at_delta = f"at delta = {self.budget.delta:g}"
        fits = (
            f"A release of epsilon = {epsilon_left:g} {at_delta} would fit"
            if epsilon_left
            else "Nothing more fits"
        )
        return f"Spent so far: {spent.epsilon(self.budget.delta):.4g}. {fits}."

    def _announcement(self):
        place = f"a ledger of {self._ceiling()} is active in process {os.getpid()}"
        return {
            "place": place,
            "label": self.label,
            "allow_seeds": self.allow_seeds,
            "file": self._book.address(),
        }

    def __enter__(self) -> Self:
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
            if self in _active:  # False in a process that was forked within the block.
                _active.remove(self)
                announce([ledger._announcement() for ledger in _active])

    def __reduce__(self):
        if self.path is None:
            raise TypeError(
                "a ledger in memory cannot be sent to another process, because its copy would miss what is "
                "spent here: give it a file, PrivacyLedger(epsilon, delta, path=...)."
            )
        return PrivacyLedger._announced, (self._announcement(),)

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
    if label is not None and not label.isprintable():
        raise ValueError(f"label must be printable text, got {label!r}.")


_SEEDS_ALLOWED = "(seeds allowed)"
_COLUMNS = ["time", "estimator", "sampler", "label", "status", "cost", "epsilon", "total_epsilon"]
# A ledger without a ceiling lists so many totals by distributions of losses, of which each takes a while.
_EXACT_TOTALS = 100
_epsilon = lru_cache(maxsize=1024)(PrivacyCost.epsilon)


@lru_cache(maxsize=16)
def _open_file(path, timeout, ledger):
    """Open a file once per process, so that its contents are not read again."""
    return LedgerFile(path, timeout, ledger)
