"""The charges of a ledger that lives in the memory of one process, and what a charge is."""

import os
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from ..exceptions import LedgerFileError, LedgerOutOfReachError
from .cost import PrivacyCost
from .ledger_processes import out_of_reach


class Charge(NamedTuple):
    """What a ledger remembers of a reservation: public numbers and names.

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
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class LedgerMemory:
    """The budget and the charges in memory; methods as those of `LedgerFile`."""

    path = None

    def __init__(self, budget):
        self.budget = budget
        self._spent = PrivacyCost(budget.neighboring_relation)
        self._charges = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    def address(self):
        """Return None: no other process can open it."""

    def spent(self, patience=None):
        """Return the composition of all charges."""
        return self._spent

    def charges(self):
        """Return all charges, a list of `Charge` in their order."""
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
            return len(self._charges) - 1

    def close(self, number, status):
        """Note how a run has ended, which gives nothing back."""
        with self._lock:
            self._charges[number] = self._charges[number]._replace(status=status)


class Reservations:
    """The reservations of one run with all active ledgers."""

    def __init__(self):
        self._made = []

    def make(self, ledger, charge):
        """Reserve with one more ledger."""
        self._made.append((ledger._book, ledger._charge(charge)))

    def close(self, status):
        """Record how the run ended. The reservation is spent even if this cannot be recorded."""
        for book, number in self._made:
            with suppress(LedgerFileError):
                book.close(number, status)
