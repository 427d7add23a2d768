"""What every release passes before it reads a record.

    ceiling -> authorization, or nothing to pay -> dry run, tools around it -> every active ledger

A plan that costs more than its budget is refused. What a larger plan has paid for is not charged again. The
rest is charged to all ledgers or to none.
"""

from contextlib import contextmanager, suppress
from contextvars import ContextVar
from itertools import chain

from ..exceptions import LedgerFileError, LedgerOutOfReachError
from .budget import check_ceiling
from .deferred_warnings import defer_warnings
from .ledger import PrivacyLedger, _active
from .ledger_file import Charge
from .ledger_processes import announced_by_ancestors, out_of_reach
from .prepaid import consume_authorization, refuse_in_dry_run
from .unsafe_callers import check_surroundings

# Costs of fits inside a pipeline's fit that its plan does not contain.
_beside: ContextVar[list | None] = ContextVar("beside", default=None)


@contextmanager
def charges_beside():
    """Yield a list that gets the costs of fits in this thread that no authorization paid for."""
    costs: list = []
    around = _beside.get()
    token = _beside.set(costs)
    try:
        yield costs
    finally:
        _beside.reset(token)
        if around is not None:
            around.extend(costs)


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


def charge(plan, estimator=None):
    """Charge a plan's cost to every active ledger, or raise an error before anything is read.

    Nothing is charged, and no line written, for a plan that costs nothing, or if the estimator has an
    authorization (`skdpbayes.privacy.prepaid`), which is used up.

    Parameters
    ----------
    plan : Plan
        Any object with a ``cost`` and, optionally, a ``name``.
    estimator : estimator, default=None
        What the plan is for.

    Returns
    -------
    reservations : Reservations
        Close them when the run has ended.
    """
    check_ceiling(plan)
    reservations = Reservations()
    if (authorization := consume_authorization(estimator)) is not None:
        authorization.check_covers(plan)
        return reservations
    if plan.cost.is_zero:
        defer_warnings()
        return reservations
    refuse_in_dry_run(plan)
    check_surroundings(plan, depth=2)
    ledgers = _charged()
    for ledger in ledgers if len(ledgers) > 1 else ():
        if not ledger._allowed(ledger.spent + plan.cost)[0]:
            ledger._refuse(plan.cost)  # No other ledger is charged.
    name = getattr(plan, "name", type(plan).__name__)
    whose = None if estimator is None else type(estimator).__name__
    defer_warnings()
    try:
        for ledger in ledgers:
            reservations.make(ledger, Charge(plan.cost, whose, name, ledger.label))
    except BaseException:  # Another process may have charged one of several files in the meantime.
        reservations.close("failed")
        raise
    if (costs := _beside.get()) is not None:
        costs.append(plan.cost)
    return reservations


def check_seeds_are_allowed():
    """Raise an error if a ledger is active, here or in an ancestor, that does not allow seeds."""
    announced = announced_by_ancestors()
    for announcement in announced:
        if announcement["file"] is None and not announcement["allow_seeds"]:
            raise LedgerOutOfReachError(out_of_reach(announcement["place"]))
    around = (announcement["allow_seeds"] for announcement in announced)
    if not all(chain((ledger.allow_seeds for ledger in _active), around)):
        raise ValueError(
            "random_state is set, and a PrivacyLedger is active. Whoever knows a seed can remove the noise, "
            "so the ledger's total would be no guarantee: leave random_state=None. If you did, an ensemble "
            "such as BaggingClassifier has seeded its members, and keeps the seeds: fit the members one by "
            "one. For experiments, use PrivacyLedger(..., allow_seeds=True). Nothing was read."
        )


def _charged():
    """The active ledgers of this process and of its ancestors, each file once."""
    ledgers = list(_active)
    for announcement in announced_by_ancestors():
        if announcement["file"] is None:
            raise LedgerOutOfReachError(out_of_reach(announcement["place"]))
        ledgers.append(PrivacyLedger._announced(announcement))
    # A file may have several names.
    files = {ledger._book.ledger: ledger for ledger in reversed(ledgers) if ledger.path}
    in_memory = [ledger for ledger in ledgers if not ledger.path]
    return [*in_memory, *reversed(files.values())]
