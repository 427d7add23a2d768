"""The one way to pay: what every release passes before it reads a record.

    ceiling -> prepaid, or nothing to pay -> dry run, unsafe callers -> every active ledger

A plan that costs more than its budget is refused. The cost is charged to all ledgers or to none. Where no
ledger is active, here or around this process, nothing is left to do.

A larger plan is charged as a whole, and gives each of its releases an authorization. That belongs to the
object that is to be fitted. It goes wherever that object is cloned, pickled or sent, so that it reaches
threads and worker processes. It is good for one release of at most its cost, while the plan is carried out,
by the process that issued it or one of its descendants. It stands for a file, and whoever removes the file
has taken it: of all copies in all processes, one. A release that finds no authorization, or one that has been
used or has expired, is charged like any other.

Two context variables say what surrounds a fit that code of others calls, which takes no argument of ours:
whether it runs before its pipeline is charged, and where the pipeline notes fits that its plan lacks.
"""

import shutil
import tempfile
from collections.abc import Iterable
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from sklearn.base import BaseEstimator

from ..exceptions import LedgerFileError, LedgerOutOfReachError, PrivacyLeakWarning
from .budget import Budget, check_ceiling
from .cost import PrivacyCost
from .deferred_warnings import AUTHORIZATION, defer_warnings, is_prepaid, warn
from .ledger import PrivacyLedger, _active
from .ledger_file import Charge
from .ledger_processes import announced_by_ancestors, descends_from, out_of_reach, this_process
from .planned_release import CHARGES_OF_RUN
from .unsafe_callers import check_callers

# Whether what runs here runs before its plan has been charged.
_is_dry_run = ContextVar("is_dry_run", default=False)
# Costs of fits inside a pipeline's fit that its plan does not contain.
_beside: ContextVar[list | None] = ContextVar("beside", default=None)


class Reservations:
    """The reservations of one run with all active ledgers.

    A fit keeps their ``charges``, each (ledger, number), by which a report knows them in their ledgers.
    """

    def __init__(self, made=()):
        self._made = made
        self.charges = tuple((book.ledger, number) for book, number in made) if made else ()

    def close(self, status):
        """Record how the run ended. The reservation is spent even if this cannot be recorded."""
        for book, number in self._made:
            with suppress(LedgerFileError):
                book.close(number, status)


def charge(plan, estimator=None):
    """Charge a plan's cost to every active ledger, or raise an error before anything is read.

    Nothing is charged, and no line written, for a plan that costs nothing, or if the estimator has an
    `Authorization`, which is used up.

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
    authorization = consume_authorization(estimator)
    # Until `set_privacy_attributes` keeps them with the plan.
    kept = vars(estimator) if isinstance(estimator, BaseEstimator) else {}
    kept[CHARGES_OF_RUN] = () if authorization is None else authorization.charges
    if authorization is not None:
        authorization.check_covers(plan)
        return Reservations()
    if plan.cost.is_zero:
        defer_warnings()
        return Reservations()
    name = getattr(plan, "name", type(plan).__name__)
    if _is_dry_run.get():
        raise UnplannedReleaseError(
            f"a step makes a private release of its own ({name}), which the plan of the pipeline does not "
            "contain: put the private step directly into the pipeline. Nothing was read."
        )
    for text in check_callers(plan, depth=2):
        warn(text, PrivacyLeakWarning)
    announced = announced_by_ancestors()
    ledgers = _charged(announced) if _active or announced else []
    requested = getattr(plan, "requested_budget", getattr(plan, "budget", None))
    requested = requested if isinstance(requested, Budget) else None
    for ledger in ledgers if len(ledgers) > 1 else ():
        if not ledger._allowed(ledger.spent + plan.cost)[0]:
            ledger._refuse(plan.cost, requested)  # No other ledger is charged.
    whose = None if estimator is None else type(estimator).__name__
    own_label = getattr(estimator, "_ledger_label", None)
    defer_warnings()
    made: list = []
    try:
        for ledger in ledgers:
            label = ": ".join(filter(None, [ledger.label, own_label])) or None
            entry = Charge(plan.cost, whose, name, label)
            made.append((ledger._book, ledger._charge(entry, requested)))
    except BaseException:  # Another process may have charged one of several files in the meantime.
        Reservations(made).close("failed")
        raise
    if (costs := _beside.get()) is not None:
        costs.append(plan.cost)
    reservations = Reservations(made)
    kept[CHARGES_OF_RUN] = reservations.charges
    return reservations


def check_seeds_are_allowed():
    """Raise an error if a ledger is active, here or in an ancestor, that does not allow seeds."""
    announced = announced_by_ancestors()
    for announcement in announced:
        if announcement["file"] is None and not announcement["allow_seeds"]:
            raise LedgerOutOfReachError(out_of_reach(announcement["place"]))
    allowed = [ledger.allow_seeds for ledger in _active]
    allowed += [announcement["allow_seeds"] for announcement in announced]
    if not all(allowed):
        raise ValueError(
            "random_state is set, and a PrivacyLedger is active. Whoever knows a seed can remove the noise, "
            "so the ledger's total would be no guarantee: leave random_state=None. If you did, an ensemble "
            "such as BaggingClassifier has seeded its members, and keeps the seeds: fit the members one by "
            "one. For experiments, use PrivacyLedger(..., allow_seeds=True). Nothing was read."
        )


def _charged(announced):
    """The active ledgers of this process and those announced by its ancestors, each file once."""
    ledgers = list(_active)
    for announcement in announced:
        if announcement["file"] is None:
            raise LedgerOutOfReachError(out_of_reach(announcement["place"]))
        ledgers.append(PrivacyLedger._announced(announcement))
    # A file may have several names.
    files = {ledger._book.ledger: ledger for ledger in reversed(ledgers) if ledger.path}
    in_memory = [ledger for ledger in ledgers if not ledger.path]
    return [*in_memory, *reversed(files.values())]


# What a larger plan pays for.


class Authorization(NamedTuple):
    """The authorization of one release, which is paid for.

    Attributes
    ----------
    cost : PrivacyCost
    issuer : tuple of (int, str)
        The process that issued it.
    file : Path
        There until the authorization is taken or expires.
    rows : object, default=None
        Which rows of its table the release may read, as for `read_table`; None is all.
    charges : tuple, default=()
        What ledgers were charged for this release alone, as of `Reservations`.
    """

    cost: PrivacyCost
    issuer: tuple[int, str]
    file: Path
    rows: Any = None
    charges: tuple = ()

    @property
    def is_good(self) -> bool:
        """Whether it has been issued around here, and neither used nor expired."""
        return self._is_known() and self.file.exists()

    def claim(self) -> bool:
        """Use it up; whether it was good."""
        if not self._is_known():
            return False
        try:
            self.file.unlink()
        except OSError:
            return False
        return True

    def _is_known(self):
        return self.issuer == this_process() or descends_from(self.issuer)

    def check_covers(self, plan: Any) -> None:
        """Raise a RuntimeError if a plan costs more than was paid for it."""
        if not dominates(self.cost, plan.cost):
            raise RuntimeError(
                "the cost of this step does not have the planned form, and exceeds what the whole plan "
                "reserved for it: set its sampler or its data_norm, or give public lists of categories. "
                "This step has read nothing."
            )


@contextmanager
def authorizations(costs: Iterable[tuple[Any, ...]]):
    """Give authorizations to objects; they expire in the end, and so do all copies, here and elsewhere.

    ``costs`` has an object and its cost for each, and may have other fields of its `Authorization`.
    """
    folder = Path(tempfile.mkdtemp(prefix="skdpbayes-authorizations-"))
    holders = []
    try:
        for number, (holder, cost, *rows) in enumerate(costs):
            file = folder / str(number)
            file.touch()
            setattr(holder, AUTHORIZATION, Authorization(cost, this_process(), file, *rows))
            holders.append(holder)
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for holder in holders:
            vars(holder).pop(AUTHORIZATION, None)


def clone_with_authorization(estimator: Any) -> Any:
    """The ``__sklearn_clone__`` of what can be a part of a larger plan: a clone keeps the authorization."""
    copy = BaseEstimator.__sklearn_clone__(estimator)
    if (authorization := vars(estimator).get(AUTHORIZATION)) is not None:
        setattr(copy, AUTHORIZATION, authorization)
    return copy


def consume_authorization(holder: Any) -> Authorization | None:
    """Consume the authorization of an object, and return it; None if it has none that is good."""
    authorization = getattr(holder, "__dict__", {}).pop(AUTHORIZATION, None)
    return authorization if authorization is not None and authorization.claim() else None


def rows_paid_for(holder: Any) -> Any:
    """The rows that the authorization of an object is for; None is all, or that none is good."""
    return vars(holder)[AUTHORIZATION].rows if is_prepaid(holder) else None


class UnplannedReleaseError(ValueError):
    """A step that was said to learn nothing makes a private release."""


@contextmanager
def without_releases():
    """Refuse all releases: what runs here runs before a plan has been charged."""
    token = _is_dry_run.set(True)
    try:
        yield
    finally:
        _is_dry_run.reset(token)


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


def dominates(paid: PrivacyCost, cost: PrivacyCost) -> bool:
    """Whether a cost that was paid for is at least another.

    Either every mechanism has its counterpart that reveals at least as much, or what was paid for is a
    randomised response that may fail, which is worse than any mechanism with that epsilon and delta (Kairouz,
    Oh and Viswanath 2015).
    """
    if paid.neighboring_relation != cost.neighboring_relation:
        return False
    if paid.is_infinite or paid == cost:
        return True
    response = PrivacyCost(
        paid.neighboring_relation,
        pure_events=paid.pure_events,
        failure_probability=paid.failure_probability,
    )
    if paid == response and [event.count for event in paid.pure_events] == [1]:
        return cost.epsilon(paid.failure_probability) <= paid.pure_events[0].level
    ranges = [
        [(event.log_odds_range, event.count) for event in each.decisions] for each in (paid, cost)
    ]
    same_bits = [count for _, count in ranges[0]] == [count for _, count in ranges[1]]
    rest = [replace(each, mu=0.0, decisions=()) for each in (paid, cost)]
    return (
        rest[0] == rest[1]
        and cost.mu <= paid.mu
        and same_bits
        and all(event[0] >= other[0] for event, other in zip(*ranges, strict=True))
    )
